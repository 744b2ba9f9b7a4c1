"""Evidence from the features of tasks: class probabilities learned from other tasks, and near-duplicates.

`cross_fitted_probabilities` trains a classifier as one more voice beside the crowd. `read_by_gold` learns
from gold how to read the answers of a few judges. Nothing here is private. Both load scikit-learn when
they are first used.

>>> import numpy as np
>>> near_duplicates(np.array([[1.0, 2, 3], [1, 2, 3], [-3, 1, 0], [0, -5, 1]]), least=0.9).pair
array([[0, 1]])
"""

from typing import TYPE_CHECKING, Any

from learners.task_features.duplicates import NearDuplicates, near_duplicates

if TYPE_CHECKING:
    from learners.task_features.cross_fitted import CrossFitted, cross_fitted_probabilities
    from learners.task_features.gold_reading import GoldReading, answer_features, read_by_gold

__all__ = [
    "CrossFitted", "GoldReading", "NearDuplicates", "answer_features", "cross_fitted_probabilities",
    "near_duplicates", "read_by_gold",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from learners.task_features import cross_fitted, gold_reading  # late: they load scikit-learn

    return getattr(cross_fitted if name in cross_fitted.__all__ else gold_reading, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
