"""Choose a regularization, or a number of bins, under differential privacy: the choice is paid for too.

A run uses `StabilityValidation`, wrapped by `ScoredTraining`, which also releases the training score, and
by `ReducedTraining`, which draws principal components first, where the settings ask for them.
`RandomRepetition` separates candidates with less data, and trains for a third of the budget instead of
a half; `tuning_advice` recommends one of the two, or one fixed regularization, from public
numbers. `HistogramValidation` chooses the bins of a `PrivateHistogram`.

>>> advice = tuning_advice(
...     (0.001, 0.112, 1.0), epsilon=0.5, n_train=15216, n_validation=1902, columns=11,
...     n_problems=1, gain=0.1,
... )
>>> advice.best
'repetition'

For comparison alone, unused by runs: `RandomSelection`, `SplitBudgetSelection` and
`SplitDataSelection` (`rivals.py`); `PerCandidateValidation` and `PerWidthValidation` (`per_candidate.py`).
``python -m benchmarks.learners.stability`` and ``python -m benchmarks.learners.histogram_density`` measure
them.
"""

from learners.selection.histogram_width import HistogramValidation, histogram_query
from learners.selection.per_candidate import PerCandidateValidation, PerWidthValidation
from learners.selection.reduced_training import ReducedTraining
from learners.selection.repetition import RandomRepetition
from learners.selection.rivals import RandomSelection, SplitBudgetSelection, SplitDataSelection
from learners.selection.scored_training import ScoredTraining
from learners.selection.stability import StabilityValidation
from learners.selection.tuning import TuningAdvice, tuning_advice

__all__ = [
    "HistogramValidation", "PerCandidateValidation", "PerWidthValidation", "RandomRepetition",
    "RandomSelection", "ReducedTraining", "ScoredTraining", "SplitBudgetSelection", "SplitDataSelection",
    "StabilityValidation", "TuningAdvice", "histogram_query", "tuning_advice",
]  # fmt: skip
