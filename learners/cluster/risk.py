"""The risk of a clustering, a U-statistic, with its interval.

>>> clustering_risk(np.array([[0.0], [1.0], [5.0]]), np.array([0, 0, 1])).value
0.3333333333333333
"""

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal, TypeAlias, get_args

import numpy as np
from jaxtyping import Float, Int

from learners.cluster.dissimilarities import (
    Metric,
    between,
    cell_sums,
    check_points,
)

__all__ = ["ClusteringRisk", "Objective", "check_objective", "clustering_risk", "estimated_risk"]

Objective: TypeAlias = Literal["normalized", "pairwise"]
"""Each cell's mean dissimilarity weighed by its size, as K-means does, or by its size squared."""

_BLOCK = 2**18  # sampled pairs evaluated at once


@dataclass(frozen=True, slots=True)
class ClusteringRisk:
    """Result of :func:`clustering_risk`.

    Parameters
    ----------
    value
        The estimated risk, in units of the dissimilarity.
    standard_error
        Standard error of `value`, for a partition that was fixed before.
    low, high
        Interval of the risk.
    n_pairs
        Pairs that were evaluated or, for squared Euclidean distances, summed in closed form.
    """

    value: float
    standard_error: float
    low: float
    high: float
    n_pairs: int


def clustering_risk(
    x: Float[np.ndarray, "points columns"],
    labels: Int[np.ndarray, " points"],
    *,
    metric: Metric = "sqeuclidean",
    objective: Objective = "pairwise",
    level: float = 0.95,
    max_pairs: int | None = None,
    rng: np.random.Generator | None = None,
) -> ClusteringRisk:
    """Estimate how unlike two points of one cell are, with an interval.

    With D the dissimilarity of two independent points, the pairwise risk is E[D 1{both in one cell}], and
    the normalized one is half of the cells' mean E[D | both in cell k], weighed by their probabilities: for
    squared Euclidean distances, the variance within cells, which K-means minimises.

    Parameters
    ----------
    x
        Rows of features; the matrix of dissimilarities where `metric` is "precomputed".
    labels
        Cell of each point, codes from 0.
    metric
        "sqeuclidean", "precomputed", or a function of two arrays of rows that returns the dissimilarity
        of each pair.
    objective
        "pairwise" or "normalized".
    level
        Confidence of the interval, in (0, 1).
    max_pairs
        Pairs to sample where not all are evaluated; all pairs by default.
    rng
        Draws the pairs; needed with `max_pairs` alone.

    Raises
    ------
    ValueError
        If there are fewer than 3 points, labels do not fit them, `max_pairs` is below 4 or comes without
        `rng`, a given matrix is negative or not symmetric, rows are not finite, or an argument is not one of
        those above.

    Notes
    -----
    With e_i the mean dissimilarity of point i from the others of its cell, of size n_k, the pairwise
    estimate is the mean of (n_k - 1) / (n - 1) e_i, and the normalized one the mean of e_i / 2. A sampled
    estimate draws points, and for each of them two others of its cell; the covariance of the two is the
    variance of e_i, which the interval needs.

    **Guarantees.** The complete pairwise estimate is the mean over all pairs, unbiased for a partition that
    was fixed before; the sampled one is unbiased for it. The interval is asymptotic and covers at its level
    for points drawn independently and a partition fixed before or learned from others; for a partition
    learned from these points it is too low.

    **Cost.** O(n K d) for rows under squared Euclidean distance, O(n^2) for other pairs, O(max_pairs)
    if they are sampled.

    References
    ----------
    .. [1] Clémençon, "On U-processes and clustering performance", NIPS 2011.
    .. [2] Clémençon, Colin, Bellet, "Scaling-up empirical risk minimization: optimization of incomplete
       U-statistics", JMLR 17 (2016).

    Examples
    --------
    >>> x = np.array([[0.0], [2.0], [10.0], [14.0]])
    >>> risk = clustering_risk(x, np.array([0, 0, 1, 1]), objective="normalized")
    >>> risk.value, risk.n_pairs
    (5.0, 2)
    """
    x, labels = np.asarray(x, dtype=float), np.asarray(labels)
    _check(x, labels, metric, objective, level)
    labels = np.unique(labels, return_inverse=True)[1]  # codes may leave out many
    return estimated_risk(x, labels, metric, objective, level, max_pairs, rng)


def estimated_risk(
    x: Float[np.ndarray, "points columns"], labels: Int[np.ndarray, " points"], metric: Metric,
    objective: Objective, level: float, max_pairs: int | None, rng: np.random.Generator | None,
) -> ClusteringRisk:  # fmt: skip
    """Return `clustering_risk` of arguments that are already checked, such as a part of a checked matrix."""
    size = np.bincount(labels)
    if max_pairs is None:
        mean, unit = _scaled(_complete(x, labels, len(size), metric))
        weight, shift = _weights(labels, mean, size, objective)
        variance = np.var(2 * weight * mean - shift, ddof=1) / len(x)
        value, n_pairs = float(np.mean(weight * mean)), int((size * (size - 1) // 2).sum())
    else:
        anchor, *drawn = _sampled(x, labels, metric, max_pairs, rng)
        (first, second), unit = _scaled(np.stack(drawn))
        mean = (first + second) / 2
        weight, shift = _weights(labels[anchor], mean, size, objective)
        covariance = np.cov(2 * weight * first - shift, 2 * weight * second - shift)[0, 1]
        variance = max(covariance, 0.0) / len(x) + np.var(weight * mean, ddof=1) / len(anchor)
        value, n_pairs = float(np.mean(weight * mean)), 2 * len(anchor)
    error = math.sqrt(variance)
    half = NormalDist().inv_cdf((1 + level) / 2) * error
    low, high = max(value - half, 0.0) * unit, (value + half) * unit
    return ClusteringRisk(value * unit, error * unit, low, high, n_pairs)


def _scaled(values: Float[np.ndarray, "..."]) -> tuple[Float[np.ndarray, "..."], float]:
    """Return values in units of a power of two near the largest, and the unit: their squares are numbers."""
    unit = math.ldexp(1.0, math.frexp(float(values.max()))[1] - 1)
    return values / unit, unit


def _weights(
    labels: Int[np.ndarray, " drawn"], mean: Float[np.ndarray, " drawn"],
    size: Int[np.ndarray, " cells"], objective: Objective,
) -> tuple[Float[np.ndarray, " drawn"], Float[np.ndarray, " drawn"]]:  # fmt: skip
    """Return the weight of each point's mean in the risk, and the part that its cell takes off its influence.

    The influence of a point on the normalized risk is e - mu / 2, with mu the mean of its cell: it
    adds a pair for each other point, and makes its cell larger.
    """
    if objective == "pairwise":
        return ((size - 1) / (size.sum() - 1))[labels], np.zeros(len(labels))
    counts = np.bincount(labels, minlength=len(size))
    mu = np.bincount(labels, mean, minlength=len(size)) / np.maximum(counts, 1)
    return np.full(len(labels), 0.5), np.asarray(mu[labels] / 2)


def _complete(
    x: Float[np.ndarray, "points columns"], labels: Int[np.ndarray, " points"], n_cells: int,
    metric: Metric,
) -> Float[np.ndarray, " points"]:  # fmt: skip
    """Return each point's mean dissimilarity from the others of its cell, 0 where there are none."""
    if metric == "sqeuclidean":
        centred = x - x.mean(axis=0)
        size = np.bincount(labels, minlength=n_cells)
        total = np.stack([np.bincount(labels, c, minlength=n_cells) for c in centred.T], axis=1)
        centred -= (total / np.maximum(size, 1)[:, None])[labels]
        norm = np.einsum("ij,ij->i", centred, centred)
        sums = size[labels] * norm + np.bincount(labels, norm, minlength=n_cells)[labels]
        return np.asarray(sums / np.maximum(size[labels] - 1, 1))
    cells = cell_sums(x, labels, n_cells, metric)
    own = cells.sums(slice(None))[np.arange(len(x)), labels]
    return np.asarray(own / np.maximum(cells.size[labels] - 1, 1))


def _sampled(
    x: Float[np.ndarray, "points columns"], labels: Int[np.ndarray, " points"], metric: Metric,
    max_pairs: int, rng: np.random.Generator | None,
) -> tuple[
    Int[np.ndarray, " drawn"], Float[np.ndarray, " drawn"], Float[np.ndarray, " drawn"]
]:  # fmt: skip
    """Return drawn points, and two dissimilarities of each from others of its cell, different if possible."""
    if rng is None:
        raise ValueError("rng must be given with max_pairs: it draws the pairs")
    if not max_pairs >= 4:
        raise ValueError(f"max_pairs must be >= 4, got max_pairs={max_pairs}")
    order = np.argsort(labels, kind="stable")
    size = np.bincount(labels)
    start = np.cumsum(size) - size
    place = rng.integers(len(x), size=max_pairs // 2)  # in `order`
    cell = labels[order[place]]
    others = np.maximum(size[cell] - 1, 1)
    first = rng.integers(others)
    second = (first + 1 + rng.integers(np.maximum(others - 1, 1))) % others
    inside = place - start[cell]
    one, other = (
        order[start[cell] + (partner + (partner >= inside)) % size[cell]]
        for partner in (first, second)
    )
    anchor = order[place]
    return anchor, _pairs(x, anchor, one, metric), _pairs(x, anchor, other, metric)


def _pairs(
    x: Float[np.ndarray, "points columns"], left: Int[np.ndarray, " drawn"],
    right: Int[np.ndarray, " drawn"], metric: Metric,
) -> Float[np.ndarray, " drawn"]:  # fmt: skip
    """Return the dissimilarity of each pair."""
    if metric == "precomputed":
        return np.asarray(x[left, right])
    if metric == "sqeuclidean":
        parts = [
            np.square(x[left[at : at + _BLOCK]] - x[right[at : at + _BLOCK]]).sum(axis=1)
            for at in range(0, len(left), _BLOCK)
        ]
        return np.concatenate(parts)
    return np.array(
        [between(x[[i]], x[[j]], metric)[0, 0] for i, j in zip(left, right, strict=True)]
    )


def check_objective(objective: object) -> None:
    """Raise ValueError unless the objective is one of the two."""
    if objective not in get_args(Objective):
        raise ValueError(f"objective must be 'normalized' or 'pairwise', got {objective!r}")


def _check(
    x: Float[np.ndarray, "points columns"], labels: Int[np.ndarray, " points"], metric: Metric,
    objective: Objective, level: float,
) -> None:  # fmt: skip
    """Raise ValueError on the first argument that does not fit."""
    check_points(x, metric)
    check_objective(objective)
    if not len(x) >= 3:
        raise ValueError(f"a standard error needs 3 points or more, got {len(x)}")
    if labels.shape != (len(x),) or labels.dtype.kind not in "iu" or not labels.min() >= 0:
        raise ValueError(
            f"labels must be {len(x)} codes >= 0, got {labels.dtype} of shape {labels.shape}"
        )
    if not 0 < level < 1:
        raise ValueError(f"level must be in (0, 1), got level={level}")
