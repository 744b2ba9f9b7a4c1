"""Boosted trees on the groups' proportions: the method for tables with codes and interactions.

>>> BoostedTrees().name
'boosted trees, score matching'
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
from jaxtyping import Float
from sklearn.ensemble import HistGradientBoostingRegressor
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from learners.class_ratios.bags import LabelledBags
from learners.class_ratios.score_matching import (
    FOLDS,
    TRIAL_FOLDS,
    GroupOutputs,
    ScoreMatcher,
    cross_fitted,
)
from learners.class_ratios.trials import Trial, refitted_trial

__all__ = ["BoostedTrees", "boosted_trees"]

N_TREES = 60
LEARNING_RATE = 0.08
TRIAL_TREES = 30  # at twice the rate: half of the time, nearly the same errors
N_BINS = 63
N_LEAVES = 8
RIDGE = 1.0


def boosted_trees(
    labelled: LabelledBags, folds: int = FOLDS, n_trees: int = N_TREES
) -> GroupOutputs:
    """Fit boosted regression trees, cross-fitted, to the proportions of the bag that a point came from.

    `folds` is that of `cross_fitted`; the learning rate is 4.8 / n_trees. Outputs may leave [0, 1].

    Notes
    -----
    One squared-error regression per class (one for two classes), of 60 trees with 8 leaves each and
    features cut into 63 bins. Squared error is a proper score for shares, and unlike a classifier of the
    bag it does not grow with the number of bags. The difference of the outputs' sum from 1 is divided
    equally among the classes.

    **Guarantees.** Outputs add up to 1; relabelling the classes relabels the outputs; the same bags
    give the same bytes on any number of threads (one is used).

    References
    ----------
    .. [1] Friedman, "Greedy function approximation: a gradient boosting machine", Annals of
       Statistics 29 (2001).

    Examples
    --------
    >>> line = np.linspace(-1, 1, 120)[:, None]
    >>> bags = [np.vstack([line[:90], 9 + line[:30]]), np.vstack([line[:30], 9 + line[:90]])]
    >>> outputs = boosted_trees(LabelledBags.of(bags, np.array([[0.75, 0.25], [0.25, 0.75]])))
    >>> outputs(np.array([[-0.9], [8.1]])).shape
    (5, 2, 2)
    """
    with _one_thread():
        return cross_fitted(labelled, partial(_Forest.of, n_trees=n_trees), folds=folds)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Limit training to one thread: the order of sums would depend on the number of threads.

    scikit-learn still asks joblib for the number of cores. On a machine that does not know it joblib warns,
    and the warning is ignored.
    """
    with threadpool_limits(1, user_api="openmp"), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Could not find the number of physical cores")
        yield


@dataclass(frozen=True, slots=True)
class BoostedTrees:
    """Class ratios by matching the scores of boosted trees.

    Examples
    --------
    >>> BoostedTrees()
    BoostedTrees()
    """

    name: ClassVar[str] = "boosted trees, score matching"

    def trial(self, labelled: LabelledBags) -> Trial:
        """Return the errors on bags left out, with fewer trees."""
        return refitted_trial(
            self,
            labelled,
            fit=lambda bags: ScoreMatcher(bags, boosted_trees(bags, TRIAL_FOLDS, TRIAL_TREES)),
        )

    def fit(self, labelled: LabelledBags) -> ScoreMatcher:
        """Train on all bags."""
        return ScoreMatcher(labelled, boosted_trees(labelled))


@dataclass(frozen=True, slots=True, eq=False)
class _Forest:
    """Trained trees for every class; for two classes, those of the second."""

    classes: tuple[HistGradientBoostingRegressor, ...]

    @classmethod
    def of(
        cls,
        x: Float[np.ndarray, "points features"],
        target: Float[np.ndarray, "points classes"],
        *,
        n_trees: int,
    ) -> "_Forest":
        return cls(
            tuple(
                HistGradientBoostingRegressor(
                    max_iter=n_trees,
                    learning_rate=LEARNING_RATE * N_TREES / n_trees,
                    max_bins=N_BINS,
                    max_leaf_nodes=N_LEAVES,
                    l2_regularization=RIDGE,
                    early_stopping=False,
                    random_state=0,
                ).fit(x, share)
                for share in (target.T if target.shape[1] > 2 else target.T[1:])
            )
        )

    def __call__(
        self, x: Float[np.ndarray, "points features"]
    ) -> Float[np.ndarray, "points classes"]:
        output = np.column_stack([trees.predict(x) for trees in self.classes])
        if len(self.classes) == 1:
            return np.hstack([1.0 - output, output])
        return np.asarray(output + (1.0 - output.sum(axis=1, keepdims=True)) / output.shape[1])
