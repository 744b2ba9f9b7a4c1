"""How many clusters, and whether there are any: gap, slope and prediction strength.

>>> rng = np.random.default_rng(0)
>>> three = np.repeat([[0.0, 0.0], [8.0, 0.0], [0.0, 8.0]], 60, axis=0) + rng.normal(size=(180, 2))
>>> cluster_number(three, k_max=5, rng=rng).n_clusters
3
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np
from jaxtyping import Float, Int

from learners.cluster.dissimilarities import MAX_COMPLETE, Metric, between, check_points
from learners.cluster.local_moves import learn_partition

__all__ = ["ClusterNumber", "Evidence", "Selection", "check_selection", "cluster_number"]

Selection: TypeAlias = Literal["gap", "slope", "prediction_strength"]

N_REFERENCES = 20  # draws without clusters
N_SPLITS = 3  # halves for prediction strength
N_INIT = 3
STRENGTH = 0.8  # least prediction strength of clusters, Tibshirani and Walther (2005)
_SHARE = 0.99  # share of the positive spectrum that the coordinates of the reference keep


@dataclass(frozen=True, slots=True)
class Evidence:
    """The evidence for a number of clusters.

    Parameters
    ----------
    n_clusters
        The number.
    risk
        Least normalized empirical risk found with as many cells, in units of the dissimilarity.
    gap, gap_error
        Mean logarithm of that risk on data without clusters, minus its own; standard error.
    strength
        Share of the pairs of a cluster of one half that the partition of the other half joins, least
        over clusters, mean over splits; NaN if it was not computed.
    """

    n_clusters: int
    risk: float
    gap: float
    gap_error: float
    strength: float


@dataclass(frozen=True, slots=True)
class ClusterNumber:
    """Result of :func:`cluster_number`.

    Parameters
    ----------
    n_clusters
        The number chosen; 1 where there is no structure.
    method
        How it was chosen among more than one.
    table
        Evidence for each number from 1.
    """

    n_clusters: int
    method: Selection
    table: tuple[Evidence, ...]


def cluster_number(
    x: Float[np.ndarray, "points columns"],
    *,
    metric: Metric = "sqeuclidean",
    k_max: int = 10,
    method: Selection = "gap",
    rng: np.random.Generator,
) -> ClusterNumber:
    """Choose the number of clusters of the normalized risk, 1 where there is no structure.

    Parameters
    ----------
    x, metric
        As for `clustering_risk`; with more than 5000 points, 5000 are drawn.
    k_max
        Largest number tried, at least 2; numbers above half of the points are not tried.
    method
        "gap": the least number whose gap is within a standard error of the largest. "slope": one where
        no gap exceeds that of 1 by a standard error, else the least penalized risk, with twice the slope
        of the risk over the larger half of the numbers as penalty. "prediction_strength": the largest
        number of strength .8 or more; 1 of fewer than 8 points, a half of which holds no two pairs.
    rng
        Draws starts, splits and data without clusters.

    Raises
    ------
    ValueError
        If k_max is below 2, there are fewer than 4 points, or they are not finite, the method is not one of
        the three, or metric or matrix breaks the conditions of `clustering_risk`.

    Notes
    -----
    Data without clusters are uniform on the box of the principal components (Tibshirani, Walther and
    Hastie's variant b); for dissimilarities, of the coordinates that classical scaling gives them as
    squared distances. Neither rule finds *the* number of clusters: the risk falls to 0 as cells are
    added, and what counts as a cluster is decided by the reference. On Gaussian mixtures five standard
    deviations apart the gap was right less often where cells differed in size, and the slope cannot find
    that there is none (`benchmarks/learners/clustering.py` prints how often).

    **Cost.** 21 partitions for each number, of 5000 points at most.

    References
    ----------
    .. [1] Tibshirani, Walther, Hastie, "Estimating the number of clusters in a data set via the gap
       statistic", JRSS B 63 (2001).
    .. [2] Tibshirani, Walther, "Cluster validation by prediction strength", JCGS 14 (2005).
    .. [3] Baudry, Maugis, Michel, "Slope heuristics: overview and implementation",
       Statistics and Computing 22 (2012).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> cluster_number(rng.normal(size=(200, 2)), k_max=5, rng=rng).n_clusters
    1
    """
    check_selection(method)
    x = np.asarray(x, dtype=float)
    check_points(x, metric)
    if not k_max >= 2:
        raise ValueError(f"k_max must be >= 2, got k_max={k_max}")
    if not len(x) >= 4:
        raise ValueError(f"a number of clusters needs 4 points or more, got {len(x)}")
    if len(x) > MAX_COMPLETE:
        drawn = np.sort(rng.choice(len(x), MAX_COMPLETE, replace=False))
        x = x[drawn][:, drawn] if metric == "precomputed" else x[drawn]
    if callable(metric):
        x, metric = between(x, x, metric), "precomputed"
    numbers = range(1, min(k_max, len(x) // 2) + 1)
    risk = _risks(x, numbers, metric, rng)
    box = _box(x, metric)
    references = np.array(
        [
            np.log(_risks(box.drawn(len(x), rng), numbers, "sqeuclidean", rng))
            for _ in range(N_REFERENCES)
        ]
    )
    gap = references.mean(axis=0) - np.log(risk)
    error = references.std(axis=0) * math.sqrt(1 + 1 / N_REFERENCES)
    wants = method == "prediction_strength"
    strength = [_strength(x, k, metric, rng) if wants else math.nan for k in numbers]
    table = tuple(map(Evidence, numbers, *map(np.ndarray.tolist, (risk, gap, error)), strength))
    return ClusterNumber(CHOOSE[method](table), method, table)


def _risks(
    x: Float[np.ndarray, "points columns"], numbers: Sequence[int], metric: Metric,
    rng: np.random.Generator,
) -> Float[np.ndarray, " numbers"]:  # fmt: skip
    """Return the least normalized risk for each number, never higher than for fewer; tiny rather than 0."""
    found = [
        learn_partition(x, k, metric=metric, n_init=N_INIT, rng=rng).objective for k in numbers
    ]
    least = np.finfo(float).tiny + 1e-12 * found[0]
    return np.maximum(np.minimum.accumulate(found), least)


@dataclass(frozen=True, slots=True, eq=False)
class _Box:
    """A box around points, along their principal components."""

    axes: Float[np.ndarray, "components features"]
    low: Float[np.ndarray, " components"]
    high: Float[np.ndarray, " components"]

    def drawn(self, n: int, rng: np.random.Generator) -> Float[np.ndarray, "points features"]:
        """Draw rows uniformly from the box."""
        return np.asarray(rng.uniform(self.low, self.high, (n, len(self.low))) @ self.axes)


def _box(x: Float[np.ndarray, "points columns"], metric: Metric) -> _Box:
    """Return the box of rows, or of the coordinates that classical scaling finds for squared distances."""
    if metric == "sqeuclidean":
        centred = x - x.mean(axis=0)
        axes = np.linalg.eigh(centred.T @ centred)[1].T
        scores = centred @ axes.T
    else:
        centred = x - x.mean(axis=0)
        value, vector = np.linalg.eigh((centred - centred.mean(axis=1, keepdims=True)) / -2)
        value, vector = np.maximum(value[::-1], 0), vector[:, ::-1]
        kept = 1 + int(np.searchsorted(np.cumsum(value), _SHARE * value.sum()))
        scores = (vector * np.sqrt(value))[:, :kept]
        axes = np.eye(scores.shape[1])
    return _Box(axes, scores.min(axis=0), scores.max(axis=0))


def _strength(
    x: Float[np.ndarray, "points columns"], k: int, metric: Metric, rng: np.random.Generator
) -> float:
    """Return the mean over splits of the least share of a cluster's pairs that the other half joins."""
    if k == 1:
        return 1.0
    found = []
    for _ in range(N_SPLITS):
        order = rng.permutation(len(x))
        halves = order[: len(x) // 2], order[len(x) // 2 :]
        for here, there in (halves, halves[::-1]):
            own, across = (
                (x[np.ix_(here, one)] if metric == "precomputed" else x[one])
                for one in (here, there)
            )
            rule_rows = x[np.ix_(there, there)] if metric == "precomputed" else across
            rule = learn_partition(rule_rows, k, metric=metric, n_init=N_INIT, rng=rng)
            labels = learn_partition(own, k, metric=metric, n_init=N_INIT, rng=rng).labels
            found.append(
                _joined(labels, rule.assign(across if metric == "precomputed" else own), k)
            )
    return float(np.mean(found))


def _joined(labels: Int[np.ndarray, " points"], other: Int[np.ndarray, " points"], k: int) -> float:
    """Return the least share, over clusters of `labels`, of pairs that `other` joins.

    It is 0 where fewer than k have points, or one has no pair: a single point shows nothing.
    """
    table = np.zeros((k, k))
    np.add.at(table, (labels, other), 1)
    size = table.sum(axis=1)
    if not (size > 1).all():
        return 0.0
    return float(((table * (table - 1)).sum(axis=1) / (size * (size - 1))).min())


def _by_gap(table: Sequence[Evidence]) -> int:
    best = max(table, key=lambda one: one.gap)
    return next(one.n_clusters for one in table if one.gap >= best.gap - best.gap_error)


def _by_slope(table: Sequence[Evidence]) -> int:
    if not any(one.gap > table[0].gap + one.gap_error for one in table[1:]):
        return 1
    numbers = np.array([one.n_clusters for one in table])
    risk = np.array([one.risk for one in table])
    larger = numbers >= (numbers[-1] + 1) / 2
    slope = np.polyfit(numbers[larger], risk[larger], 1)[0] if larger.sum() > 1 else 0.0
    return int(numbers[np.argmin(risk - 2 * min(slope, 0.0) * numbers)])  # above 0 is rounding


def _by_strength(table: Sequence[Evidence]) -> int:
    return max(one.n_clusters for one in table if one.strength >= STRENGTH)


CHOOSE = {"gap": _by_gap, "slope": _by_slope, "prediction_strength": _by_strength}


def check_selection(method: object) -> None:
    """Raise ValueError unless the method is one of the three."""
    if method not in get_args(Selection):
        raise ValueError(f"method must be one of {', '.join(get_args(Selection))}, got {method!r}")
