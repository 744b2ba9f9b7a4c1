"""The paper's penalty on the number of clusters, corrected: a certificate, not a way to find that number.

>>> rng = np.random.default_rng(0)
>>> table = penalized_risks(rng.normal(size=(200, 2)), k_max=3, rng=rng)
>>> [one.n_clusters for one in table]
[1, 2, 3]
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float, Int

from learners.cluster.dissimilarities import MAX_COMPLETE, Metric, between, check_points
from learners.cluster.local_moves import learn_partition

__all__ = ["PenalizedRisk", "penalized_risks", "penalty", "rademacher_complexity"]

N_DRAWS = 20  # of signs
N_VORONOI = 30  # partitions around random points in the dictionary
N_OPTIMA = 5


@dataclass(frozen=True, slots=True)
class PenalizedRisk:
    """A risk and what must be added to it before numbers of clusters are compared.

    Parameters
    ----------
    n_clusters
        The number.
    risk
        Least pairwise empirical risk found.
    complexity
        Rademacher complexity, over partitions or over cells.
    penalty
        The :func:`penalty` of that complexity.
    """

    n_clusters: int
    risk: float
    complexity: float
    penalty: float


def penalty(
    complexity: float,
    *,
    n: int,
    n_clusters: int,
    bound: float,
    over: Literal["partitions", "cells"],
) -> float:
    """Return the penalty of equation 14, with its units and its proof corrected.

    Let there be K clusters, B the bound of the dissimilarity and A the complexity. Over cells the penalty is
    3 K A + 27 B K ln K / n + 2 B sqrt(ln K / n); over partitions it has A in place of K A, and ln K in place
    of K ln K.

    Notes
    -----
    In print the last term is sqrt(2 B ln K / n), whose unit is the square root of the dissimilarity's;
    the proof needs exp(-n t^2 / 2 B^2) = K^-2. One cell at most holds both points of a pair, so that the
    kernel of a whole partition is within [0, B] already: the supremum may run over partitions, and no
    term needs K.

    References
    ----------
    .. [1] Clémençon, "On U-processes and clustering performance", NIPS 2011, equation 14.

    Examples
    --------
    >>> round(penalty(0.01, n=10_000, n_clusters=4, bound=1.0, over="partitions"), 4)
    0.0573
    """
    _check_over(over)
    times = n_clusters if over == "cells" else 1
    log = math.log(n_clusters)
    return times * (3 * complexity + 27 * bound * log / n) + 2 * bound * math.sqrt(log / n)


def rademacher_complexity(
    dissimilarity: Float[np.ndarray, " pairs"],
    left: Sequence[Int[np.ndarray, " pairs"]],
    right: Sequence[Int[np.ndarray, " pairs"]],
    *,
    over: Literal["partitions", "cells"],
    rng: np.random.Generator,
) -> float:
    """Return the mean largest correlation of a dictionary's kernels with random signs.

    Parameters
    ----------
    dissimilarity
        Dissimilarity of each pair; no point is in two pairs.
    left, right
        Cells of the two points of each pair, for each partition of the dictionary.
    over
        Whether a kernel joins the pairs of one cell, or those of all cells of a partition.
    rng
        Draws the signs, 20 times.

    Notes
    -----
    The dictionary is finite, so this is at most the supremum over all partitions: it is too low, less so
    the richer the dictionary, and honest only where the partitions were built on other points.

    Examples
    --------
    >>> cells = [np.array([0, 0])]
    >>> found = rademacher_complexity(
    ...     np.array([1.0, 1.0]), cells, cells, over="cells", rng=np.random.default_rng(0)
    ... )
    >>> 0 <= found <= 1
    True
    """
    _check_over(over)
    signs = rng.choice([-1.0, 1.0], size=(len(dissimilarity), N_DRAWS))
    signed = signs * dissimilarity[:, None] / len(dissimilarity)
    best = np.zeros(N_DRAWS)
    for one, other in zip(left, right, strict=True):
        same = one == other
        cells = (
            np.eye(int(one.max()) + 1)[one[same]] if over == "cells" else np.ones((same.sum(), 1))
        )
        best = np.maximum(best, np.abs(cells.T @ signed[same]).max(axis=0, initial=0))
    return float(best.mean())


def penalized_risks(
    x: Float[np.ndarray, "points columns"],
    *,
    metric: Metric = "sqeuclidean",
    k_max: int = 10,
    bound: float | None = None,
    over: Literal["partitions", "cells"] = "partitions",
    rng: np.random.Generator,
) -> tuple[PenalizedRisk, ...]:
    """Return the pairwise risk, complexity and penalty of each number of clusters from 1.

    Parameters
    ----------
    x, metric
        As for `clustering_risk`.
    k_max
        Largest number tried, at least 1; numbers above half of the points are not tried.
    bound
        Largest dissimilarity that can occur; by default the largest among the pairs that are compared
        here, and then the penalty guarantees nothing.
    over
        "partitions", the tightened form, or "cells", the paper's.
    rng
        Draws starts, partitions of the dictionary and signs.

    Raises
    ------
    ValueError
        If k_max is below 1, there are fewer than 4 points, or they are not finite, metric or matrix breaks
        the conditions of `clustering_risk`, `over` is neither, or a dissimilarity exceeds the bound.

    Notes
    -----
    The dictionary of K cells, Voronoi cells of random points and local optima, is built on half of the
    points; the complexity is measured on pairs of the other half, of n / 4 pairs. Cells may be empty, so
    that the dictionaries of fewer cells belong to it.

    **Guarantees.** The complexity over partitions never falls with the number of clusters.
    """
    x = np.asarray(x, dtype=float)
    check_points(x, metric)
    _check_over(over)
    if not k_max >= 1:
        raise ValueError(f"k_max must be >= 1, got k_max={k_max}")
    if not len(x) >= 4:
        raise ValueError(f"a penalty needs 4 points or more, got {len(x)}")
    if metric == "sqeuclidean":
        x = x - x.mean(axis=0)  # far from 0 squared distances lose their digits
    order = rng.permutation(len(x))
    half, rest = order[: len(x) // 2][:MAX_COMPLETE], order[len(x) // 2 :]
    pairs = rest[: len(rest) // 2 * 2].reshape(2, -1)
    given = metric == "precomputed"
    if given:
        between_pairs = x[pairs[0], pairs[1]]
    else:
        between_pairs = np.concatenate([between(x[[i]], x[[j]], metric)[0] for i, j in pairs.T])
    largest = float(between_pairs.max())
    if bound is not None and not largest <= bound:
        raise ValueError(
            f"dissimilarities must be at most the bound {bound:g}, got {largest:g}: raise the bound"
        )
    table, signs = [], int(rng.integers(2**32))
    near = [x[np.ix_(one, half)] if given else x[one] for one in pairs]
    left: list[Int[np.ndarray, " pairs"]] = []
    right: list[Int[np.ndarray, " pairs"]] = []
    for k in range(1, min(k_max, len(half)) + 1):
        rows = x[np.ix_(half, half)] if given else x[half]
        rules = [
            learn_partition(rows, k, metric=metric, objective="pairwise", n_init=1, rng=rng)
            for _ in range(N_OPTIMA)
        ]
        for cells, points in zip((left, right), near, strict=True):
            cells += [rule.assign(points) for rule in rules]
        for _ in range(N_VORONOI):
            seeds = rng.choice(len(half), size=k, replace=False)
            for cells, points in zip((left, right), near, strict=True):
                to = points[:, seeds] if given else between(points, x[half[seeds]], metric)
                cells.append(np.argmin(to, axis=1))
        complexity = rademacher_complexity(
            between_pairs, left, right, over=over, rng=np.random.default_rng(signs)
        )
        risk = learn_partition(x, k, metric=metric, objective="pairwise", rng=rng).objective
        added = penalty(
            complexity, n=len(x), n_clusters=k, bound=largest if bound is None else bound, over=over
        )
        table.append(PenalizedRisk(k, risk, complexity, added))
    return tuple(table)


def _check_over(over: object) -> None:
    """Raise ValueError unless `over` is "partitions" or "cells"."""
    if over not in ("partitions", "cells"):
        raise ValueError(f"over must be 'partitions' or 'cells', got {over!r}")
