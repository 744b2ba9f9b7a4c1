"""Ranks with simultaneous intervals: the ranks an item may have, for all items at once.

>>> import numpy as np
>>> found = rank_intervals(np.array([2.0, 0.1, 0.0]), np.eye(3) * 0.01, rng=np.random.default_rng(0))
>>> found.best, found.worst
(array([1, 2, 2]), array([1, 3, 3]))
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64

from quality.argument_types import check_arguments
from quality.comparisons.pair_choice import check_scores
from quality.labels import freeze_arrays

__all__ = ["RankIntervals", "rank_intervals"]

ROUNDING = 1e-9  # for the expected number of draws beyond the level
BLOCK = 64  # draws at a time: an item's differences to all others in each stay in the cache


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RankIntervals:
    """Result of :func:`rank_intervals`.

    Parameters
    ----------
    rank
        Rank of each item by its score, 1 for the highest; ties in the given order.
    best, worst
        The ranks that each item may have, at the given level, for all items at once.
    threshold
        Number of standard errors between two scores from which on they count as different.
    """

    rank: Int64[np.ndarray, " items"]
    best: Int64[np.ndarray, " items"]
    worst: Int64[np.ndarray, " items"]
    threshold: float

    def __post_init__(self) -> None:
        freeze_arrays(self)

    def __repr__(self) -> str:
        sure = int(np.count_nonzero(self.best == self.worst))
        return f"RankIntervals({len(self.rank)} items, {sure} with a sure rank)"


@check_arguments
def rank_intervals(
    score: Float64[np.ndarray, " items"],
    covariance: Float64[np.ndarray, "items items"],
    *,
    level: float = 0.95,
    n_draws: int = 2_000,
    rng: np.random.Generator,
) -> RankIntervals:
    """Return the ranks that each item may have, simultaneously for all items.

    An item is better than another with confidence if their scores differ by more than `threshold` standard
    errors. The threshold is a quantile of the largest of all standardised differences, by simulation.

    Parameters
    ----------
    score, covariance
        Estimates and their covariance, such as those of :func:`~quality.crowd_bradley_terry`.
    level
        Probability that all intervals hold at once, above 0 and below 1.
    n_draws
        Number of draws of the scores' error; one or more must be expected beyond the level.
    rng
        Generator of the draws.

    Raises
    ------
    ValueError
        If a number is out of its range, the draws are too few for the level, there is no item, or a score
        or covariance is not finite or of another shape.

    Notes
    -----
    **Guarantees.** Every item's own rank lies in its interval. A higher level never narrows an interval.

    **Cost.** O(draws x items squared).

    References
    ----------
    .. [1] Mogstad, Romano, Shaikh, Wilhelm, "Inference for ranks with applications to mobility across
       neighbourhoods and academic achievement across countries", Review of Economic Studies 91 (2024).

    Examples
    --------
    >>> score, rng = np.array([2.0, 0.1, 0.0]), np.random.default_rng(0)
    >>> rank_intervals(score, np.eye(3) * 0.01, rng=rng)
    RankIntervals(3 items, 1 with a sure rank)
    >>> rank_intervals(score, np.eye(3) * 1.0, rng=rng).worst
    array([3, 3, 3])
    """
    if not 0 < level < 1:
        raise ValueError(f"level must be above 0 and below 1, got {level}")
    if not n_draws >= 1:
        raise ValueError(f"n_draws must be >= 1, got {n_draws}")
    # else the quantile would be at most the largest of all draws
    if n_draws * (1 - level) < 1 - ROUNDING:
        raise ValueError(
            f"n_draws must be >= 1 / (1 - level) = {1 / (1 - level):,.0f} at level {level}, got {n_draws}"
        )
    check_scores(score, covariance)
    if not len(score):
        raise ValueError("there must be an item or more to rank, got none")
    score, covariance = (np.asarray(one, dtype=np.float64) for one in (score, covariance))
    n = len(score)
    variance = np.diagonal(covariance)
    error = np.sqrt(np.maximum(variance[:, None] + variance[None, :] - 2 * covariance, 0.0))
    np.fill_diagonal(error, np.inf)
    error[error == 0] = np.inf  # draws cannot separate such items; their order is not certain
    root, basis = np.linalg.eigh(covariance)
    factor = basis * np.sqrt(np.maximum(root, 0.0))
    largest = []
    for first in range(0, n_draws, BLOCK):
        drawn = rng.standard_normal((min(BLOCK, n_draws - first), n)) @ factor.T
        largest += _largest_differences(drawn, error).tolist()
    threshold = float(np.quantile(largest, level)) if n > 1 else 0.0
    better = (score[None, :] - score[:, None]) / error > threshold
    rank = np.empty(n, dtype=np.int64)
    rank[np.argsort(-score, kind="stable")] = np.arange(1, n + 1)
    return RankIntervals(rank, 1 + better.sum(axis=1), n - better.sum(axis=0), threshold)


def _largest_differences(
    drawn: Float64[np.ndarray, "draws items"], error: Float64[np.ndarray, "items items"]
) -> Float64[np.ndarray, " draws"]:
    """Return each draw's largest difference of two items, in its standard errors."""
    by_item = np.ascontiguousarray(drawn.T)
    largest, room = np.zeros(len(drawn)), np.empty_like(by_item)
    for item in range(len(by_item) - 1):
        apart = np.subtract(by_item[item + 1 :], by_item[item], out=room[item + 1 :])
        np.abs(apart, out=apart)
        apart /= error[item, item + 1 :, None]
        np.maximum(largest, apart.max(axis=0), out=largest)
    return largest
