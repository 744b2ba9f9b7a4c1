"""TODO face of learners.selection."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from learners.selection.advice import TuningAdvice, tuning_advice
from learners.selection.rivals import (
    RandomRepetition,
    RandomSelection,
    SplitBudgetSelection,
    SplitDataSelection,
)
from learners.selection.scored_training import ScoredTraining
from learners.selection.stability import StabilityValidation

if TYPE_CHECKING:
    from learners.selection.histogram_width import (
        HistogramValidation,
        PerCandidateValidation,
        PerWidthValidation,
        histogram_query,
    )

__all__ = [
    "HistogramValidation",
    "PerCandidateValidation",
    "PerWidthValidation",
    "RandomRepetition",
    "RandomSelection",
    "ScoredTraining",
    "SplitBudgetSelection",
    "SplitDataSelection",
    "StabilityValidation",
    "TuningAdvice",
    "histogram_query",
    "tuning_advice",
]

LATE = {
    "HistogramValidation": "learners.selection.histogram_width",
    "PerCandidateValidation": "learners.selection.histogram_width",
    "PerWidthValidation": "learners.selection.histogram_width",
    "histogram_query": "learners.selection.histogram_width",
}


def __getattr__(name: str) -> Any:
    if name not in LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(LATE[name]), name)


def __dir__() -> list[str]:
    return [*globals(), *LATE]
