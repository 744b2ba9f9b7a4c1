"""The best objects for a query under an arbitrary scorer, within a budget of evaluations.

`PredictiveIndex` learns, from training queries, lists of the objects that like queries scored highest,
over the cells of a `FeatureCover` or a `HyperplaneCover`. It is for scorers that are black boxes; for
distances and inner products a library for metric search finds more.

>>> import numpy as np
>>> from learners import PredictiveIndex
>>> objects = np.array([[0.0, 1.0], [1.0, 0.0], [0.7, 0.7]])
>>> queries = np.array([[1.0, 0.1], [0.1, 1.0], [1.0, 0.9]])
>>> index = PredictiveIndex(FeatureCover(), exclude_self=False).fit(objects, queries=queries)
>>> index.query(np.array([1.0, 1.0]), k=1, budget=2).ids
array([2])

`PredictiveIndex` and `Found` need scikit-learn and load when first used.
"""

from typing import TYPE_CHECKING, Any

from learners.search.covers import Cover, FeatureCover, FittedCover, HyperplaneCover

if TYPE_CHECKING:
    from learners.search.predictive_index import Found, PredictiveIndex

__all__ = [
    "Cover", "FeatureCover", "FittedCover", "Found", "HyperplaneCover", "PredictiveIndex",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from learners.search import predictive_index  # not earlier: it loads scikit-learn

    return getattr(predictive_index, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
