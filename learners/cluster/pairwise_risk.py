"""Clusters of least risk as a scikit-learn estimator, with an interval of the risk on rows left out.

>>> rows = np.array([[0.0], [1.0], [2.0], [10.0], [11.0], [12.0]])
>>> PairwiseRiskClustering(2, random_state=0).fit_predict(rows)
array([0, 0, 0, 1, 1, 1])
"""

import math
from numbers import Integral
from typing import Any, Literal

import numpy as np
from jaxtyping import Float, Int
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from learners.cluster.dissimilarities import (
    MAX_COMPLETE,
    Metric,
    check_dissimilarities,
    check_metric,
    check_spread,
)
from learners.cluster.gap_statistic import Evidence, Selection, check_selection, cluster_number
from learners.cluster.local_moves import SAMPLE, Partition, learn_partition, refine_partition
from learners.cluster.penalties import PenalizedRisk, penalized_risks
from learners.cluster.risk import ClusteringRisk, Objective, check_objective, estimated_risk

__all__ = ["PairwiseRiskClustering"]

LEVEL = 0.95  # of the risk's interval
JUDGES = 100_000  # rows left out that measure the risk, at most


class PairwiseRiskClustering(ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """Clusters of least within-cell dissimilarity, with an honest interval of their risk.

    Parameters
    ----------
    n_clusters
        A number, or "auto": then `k_selection` chooses, 1 where there is no structure.
    metric
        "sqeuclidean", "precomputed" (fit takes the square matrix, predict the dissimilarities to the
        rows of the fit), or a function of two arrays of rows that returns each pair's dissimilarity.
    objective
        "normalized", K-means' criterion for any dissimilarity, or "pairwise", the paper's, which prefers
        cells of equal size and is for them alone.
    k_selection
        "gap", "slope" or "prediction_strength" of `cluster_number`; "penalized" or "penalized_paper",
        the least penalized risk, a certificate that finds a number by accident.
    k_max
        Largest number that "auto" tries.
    dissimilarity_bound
        For the penalized choices: the largest dissimilarity that can occur.
    n_init
        Starts.
    max_pairs
        Pairs that measure the risk for a function and more than 5000 rows; ten a row by default.
    holdout
        Share of the rows that measure the risk of a partition learned from the others, in [0, 1). With 0
        the risk is measured on the rows of the training and too low.
    random_state
        Seed, or generator, of starts, splits and reference data.

    Attributes
    ----------
    labels_
        Cell of each row, codes in the order in which cells first occur.
    n_clusters_
        The number of cells.
    risk_, risk_interval_
        `clustering_risk` of `objective` on the rows left out, and its 95 % interval; NaN where these are
        fewer than 3, or the others fewer than the clusters.
    selection_table_
        Evidence for each number, where "auto" compared them by gap, slope or strength.
    penalized_risk_
        The penalized risks, where "auto" compared those.
    n_iter_
        Sweeps of the best start.

    Notes
    -----
    **Guarantees.** `predict` on the rows of a fit that converged gives its labels, up to ties between cells,
    for squared Euclidean distances of at most 20,000 rows and for "pairwise"; it never gives an empty cell;
    the interval of the risk belongs to a partition learned without the rows that measure it.

    **Cost.** O(n K d) a sweep for squared Euclidean distances; O(n^2) memory for a matrix, whose limit is
    about 20,000 points.

    Raises
    ------
    ValueError
        At fit, if a parameter is not one of those above, there are fewer rows than clusters, or a
        matrix is not square, symmetric and at least 0 with a diagonal of zeros.

    References
    ----------
    .. [1] Clémençon, "On U-processes and clustering performance", NIPS 2011.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> rows = np.vstack([rng.normal(size=(80, 2)), 9 + rng.normal(size=(80, 2))])
    >>> found = PairwiseRiskClustering("auto", k_max=4, random_state=0).fit(rows)
    >>> found.n_clusters_, bool(found.risk_interval_[0] < 2 < found.risk_interval_[1])
    (2, True)
    """

    labels_: Int[np.ndarray, " points"]
    n_clusters_: int
    risk_: float
    risk_interval_: tuple[float, float]
    selection_table_: tuple[Evidence, ...]
    penalized_risk_: tuple[PenalizedRisk, ...]
    n_iter_: int

    def __init__(
        self,
        n_clusters: int | Literal["auto"] = 8,
        *,
        metric: Metric = "sqeuclidean",
        objective: Objective = "normalized",
        k_selection: Selection | Literal["penalized", "penalized_paper"] = "gap",
        k_max: int = 10,
        dissimilarity_bound: float | None = None,
        n_init: int = 8,
        max_pairs: int | None = None,
        holdout: float = 0.5,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.metric = metric
        self.objective = objective
        self.k_selection = k_selection
        self.k_max = k_max
        self.dissimilarity_bound = dissimilarity_bound
        self.n_init = n_init
        self.max_pairs = max_pairs
        self.holdout = holdout
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> "PairwiseRiskClustering":
        """Learn the cells of rows, or of a matrix where the metric is precomputed; y is ignored."""
        x = validate_data(self, X, dtype=np.float64)
        self._check(len(x))
        if self.metric == "precomputed":
            check_dissimilarities(x)
        elif self.metric == "sqeuclidean":
            check_spread(x)
        rng = np.random.default_rng(self.random_state)
        self._forget_choice()
        n_clusters = self._chosen(x, rng) if self.n_clusters == "auto" else int(self.n_clusters)
        n_learn = len(x) - int(self.holdout * len(x))
        order = rng.permutation(len(x))
        learn = order[: min(n_learn, SAMPLE) if self._is_streamed(len(x)) else n_learn]
        left_out = order[n_learn:][:JUDGES]
        known: dict[str, Any] = {"metric": self.metric, "objective": self.objective, "rng": rng}
        is_judged = len(left_out) >= 3 and len(learn) >= n_clusters
        if is_judged:
            rule = learn_partition(
                self._rows(x, learn, learn), n_clusters, n_init=self.n_init, **known
            )
            risk = self._risk(
                self._rows(x, left_out, left_out), rule.assign(self._rows(x, left_out, learn)), rng
            )
            self.risk_, self.risk_interval_ = risk.value, (risk.low, risk.high)
        if is_judged and self._is_streamed(len(x)):
            partition = refine_partition(rule, x)
        else:
            partition = learn_partition(x, n_clusters, n_init=self.n_init, **known)
        if not is_judged:
            self._risk_of_training(x, partition, rng)
        self._partition, self.n_clusters_ = partition, n_clusters
        self.labels_, self.n_iter_ = partition.labels, partition.n_sweeps
        return self

    def predict(self, X: Any) -> Int[np.ndarray, " rows"]:
        """Return the cell of each row by the rule of `objective`; empty cells get none."""
        check_is_fitted(self)
        return self._partition.assign(validate_data(self, X, dtype=np.float64, reset=False))

    def _is_streamed(self, n: int) -> bool:
        """Return whether starts compete on a sample of the rows."""
        return self.metric == "sqeuclidean" and n > 2 * SAMPLE

    def _rows(
        self, x: Float[np.ndarray, "points columns"], rows: Int[np.ndarray, " rows"],
        to: Int[np.ndarray, " others"],
    ) -> Float[np.ndarray, "rows _"]:  # fmt: skip
        """Return some rows; of a precomputed matrix, with some of its columns."""
        return np.asarray(x[np.ix_(rows, to)] if self.metric == "precomputed" else x[rows])

    def _risk_of_training(
        self, x: Float[np.ndarray, "points columns"], partition: Partition, rng: np.random.Generator
    ) -> None:
        """Measure the risk on the training rows if `holdout` is 0; it is NaN if too few were left out."""
        self.risk_, self.risk_interval_ = math.nan, (math.nan, math.nan)
        if self.holdout == 0 and len(x) >= 3:
            risk = self._risk(x, partition.labels, rng)
            self.risk_, self.risk_interval_ = risk.value, (risk.low, risk.high)

    def _risk(
        self, x: Float[np.ndarray, "points columns"], labels: Int[np.ndarray, " points"],
        rng: np.random.Generator,
    ) -> ClusteringRisk:  # fmt: skip
        sampled = callable(self.metric) and len(x) > MAX_COMPLETE
        pairs = (self.max_pairs or 10 * len(x)) if sampled else None
        return estimated_risk(x, labels, self.metric, self.objective, LEVEL, pairs, rng)

    def _chosen(self, x: Float[np.ndarray, "points columns"], rng: np.random.Generator) -> int:
        """Return the number of clusters by `k_selection`."""
        if self.k_selection == "penalized" or self.k_selection == "penalized_paper":
            table = penalized_risks(
                x, metric=self.metric, k_max=self.k_max, bound=self.dissimilarity_bound,
                over="cells" if self.k_selection == "penalized_paper" else "partitions", rng=rng,
            )  # fmt: skip
            self.penalized_risk_ = table
            return min(table, key=lambda one: one.risk + one.penalty).n_clusters
        chosen = cluster_number(
            x, metric=self.metric, k_max=self.k_max, method=self.k_selection, rng=rng
        )
        self.selection_table_ = chosen.table
        return chosen.n_clusters

    def _forget_choice(self) -> None:
        """Delete the tables by which an earlier fit chose its number of clusters."""
        for name in ("penalized_risk_", "selection_table_"):
            self.__dict__.pop(name, None)

    def _check(self, n: int) -> None:
        """Raise ValueError on the first parameter that does not fit."""
        check_metric(self.metric)
        check_objective(self.objective)
        if self.k_selection not in ("penalized", "penalized_paper"):
            check_selection(self.k_selection)
        is_number = isinstance(self.n_clusters, Integral) and 1 <= self.n_clusters <= n
        if not (is_number or self.n_clusters == "auto"):
            raise ValueError(
                f"n_clusters must be 'auto' or from 1 to the number of rows, {n}, got {self.n_clusters!r}"
            )
        if not self.n_init >= 1:
            raise ValueError(f"n_init must be >= 1, got n_init={self.n_init}")
        if not 0 <= self.holdout < 1:
            raise ValueError(f"holdout must be in [0, 1), got holdout={self.holdout}")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.metric == "precomputed"
        return tags
