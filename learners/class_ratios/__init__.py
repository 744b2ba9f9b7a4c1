"""Class ratios of unlabelled bags of points, from bags of which only the class proportions are known.

`learn_ratios` takes bags in memory, `learn_streamed_ratios` bags that come as blocks of rows;
`ClassRatioEstimator` and `StreamedRatioEstimator` are the same as scikit-learn estimators. Three methods
compete on labelled bags that are left out: `KernelMatching`, `KernelWitness`, `BoostedTrees`.

>>> import numpy as np
>>> line = np.linspace(-1, 1, 50)[:, None]
>>> bags = [np.vstack([line[: 50 - k], 5 + line[:k]]) for k in (10, 25, 40)]
>>> model = learn_ratios(bags, np.array([[0.8, 0.2], [0.5, 0.5], [0.2, 0.8]]))
>>> model.ratio(np.vstack([line[:35], 5 + line[:15]])).ratio.round(1)
array([0.7, 0.3])

Names that need scikit-learn load when first used.
"""

from typing import TYPE_CHECKING, Any

from learners.class_ratios.bags import BagPasses, Block, LocalBlocks
from learners.class_ratios.kernel_matching import MAX_LANDMARKS, KernelMatching
from learners.class_ratios.kernel_witness import KernelWitness
from learners.class_ratios.model import ClassRatio, RatioDiagnostics, RatioModel, learn_ratios
from learners.class_ratios.streamed import StreamedRatioModel, learn_streamed_ratios

if TYPE_CHECKING:
    from learners.class_ratios.boosted_trees import BoostedTrees
    from learners.class_ratios.ratio_estimators import ClassRatioEstimator, StreamedRatioEstimator

__all__ = [
    "MAX_LANDMARKS", "BagPasses", "Block", "BoostedTrees", "ClassRatio", "ClassRatioEstimator",
    "KernelMatching", "KernelWitness", "LocalBlocks", "RatioDiagnostics", "RatioModel",
    "StreamedRatioEstimator", "StreamedRatioModel", "learn_ratios", "learn_streamed_ratios",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # late: they load scikit-learn
    from learners.class_ratios import boosted_trees, ratio_estimators

    return getattr(boosted_trees if name in boosted_trees.__all__ else ratio_estimators, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
