"""TODO face of learners.class_ratios."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from learners.class_ratios.bags import Block
from learners.class_ratios.diagnostics import RatioDiagnostics
from learners.class_ratios.kernel_matching import MOST_LANDMARKS, KernelMatching
from learners.class_ratios.model import ClassRatio, RatioModel, learn_ratios
from learners.class_ratios.score_matching import KernelWitness
from learners.class_ratios.streamed import StreamedRatioModel, learn_streamed_ratios

if TYPE_CHECKING:
    from learners.class_ratios.boosted_trees import BoostedTrees
    from learners.class_ratios.estimator import ClassRatioEstimator, StreamedRatioEstimator

__all__ = [
    "MOST_LANDMARKS",
    "Block",
    "BoostedTrees",
    "ClassRatio",
    "ClassRatioEstimator",
    "KernelMatching",
    "KernelWitness",
    "RatioDiagnostics",
    "RatioModel",
    "StreamedRatioEstimator",
    "StreamedRatioModel",
    "learn_ratios",
    "learn_streamed_ratios",
]

LATE = {
    "BoostedTrees": "learners.class_ratios.boosted_trees",
    "ClassRatioEstimator": "learners.class_ratios.estimator",
    "StreamedRatioEstimator": "learners.class_ratios.estimator",
}


def __getattr__(name: str) -> Any:
    if name not in LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(LATE[name]), name)


def __dir__() -> list[str]:
    return [*globals(), *LATE]
