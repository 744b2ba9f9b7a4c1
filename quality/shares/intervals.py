"""Intervals of class shares from small samples: two strata, each with an interval of its own.

For a class, tasks fall into two strata: those whose consensus is the class, and all others. Their sizes
are known, and gold tasks are a sample of each. PPI++ with lambda tuned on the gold tasks is the mean of
the two sample shares, weighted by size (``docs/mathematics/shares.md``), so that its interval
follows from two intervals of a proportion.

>>> low, high = share_intervals(np.array([[60, 40]]), np.array([[[11, 1], [3, 5]]]), level=0.95)
>>> low.round(2), high.round(2)
(array([[0.54, 0.17]]), array([[0.83, 0.46]]))
"""

import numpy as np
import scipy.special
from jaxtyping import Float64, Int

__all__ = ["check_gold", "check_level", "proportion_limits", "share_intervals"]

JEFFREYS = 0.5  # prior successes, and prior failures
HALF_TASK = 0.5  # distance from a continuous end within which a whole number of tasks is included
DIGITS = 6  # of a number of tasks; further digits are rounding
Limits = tuple[Float64[np.ndarray, "*shape"], Float64[np.ndarray, "*shape"]]


def check_level(level: float) -> None:
    """Raise ValueError unless `level` is in (0, 1)."""
    if not 0 < level < 1:
        raise ValueError(f"level must be in (0, 1), got level={level}")


def check_gold(
    counts: Int[np.ndarray, "groups classes"], table: Int[np.ndarray, "groups classes classes"]
) -> None:
    """Raise ValueError unless gold tasks are among the tasks counted, group by group."""
    if not (counts.ndim == 2 and counts.shape[0] >= 1 and counts.shape[1] >= 2):
        raise ValueError(f"counts must be of groups and 2 classes or more, got {counts.shape}")
    if table.shape != (*counts.shape, counts.shape[1]):
        raise ValueError(
            f"table must be of groups, consensus and true class, {(*counts.shape, counts.shape[1])}, "
            f"got {table.shape}"
        )
    if not ((counts.sum(axis=1) >= 1).all() and (table >= 0).all()):
        raise ValueError(
            "counts must be of a task or more in each group, and table of numbers >= 0"
        )
    if not (table.sum(axis=2) <= counts).all():
        raise ValueError(
            "table must count gold tasks that counts count too: no consensus class may have more of "
            "them than it has tasks"
        )


def proportion_limits(
    hits: Int[np.ndarray, "*shape"],
    sampled: Int[np.ndarray, "*shape"],
    size: Int[np.ndarray, "*shape"],
    *,
    level: float,
) -> Limits:
    """Return Jeffreys' interval for a proportion of a finite population, lower and upper ends.

    Parameters
    ----------
    hits, sampled, size
        Hits among those sampled at random, without replacement, out of `size` members.
    level
        In (0, 1).

    Notes
    -----
    **Guarantees.** The interval lies in [0, 1] and contains hits / sampled. It is [0, 1] if nothing was
    sampled, and a point if everything was. Without a miss the upper end is 1, without a hit the lower 0.

    References
    ----------
    .. [1] Brown, Cai, DasGupta, "Interval estimation for a binomial proportion", Statistical
       Science 16 (2001).
    """
    check_level(level)
    tail, missed = (1 - level) / 2, sampled - hits
    share = np.where(sampled > 0, hits / np.maximum(sampled, 1), 0.5)
    ends = [
        scipy.special.betaincinv(hits + JEFFREYS, missed + JEFFREYS, quantile)
        for quantile in (tail, 1 - tail)
    ]
    low = np.where(hits > 0, ends[0], 0.0)
    high = np.where(missed > 0, ends[1], 1.0)
    left = np.sqrt((size - sampled) / np.maximum(size - 1, 1))  # finite population correction
    left = np.where(sampled > 0, left, 1.0)
    return share - left * (share - low), share + left * (high - share)


def share_intervals(
    counts: Int[np.ndarray, "groups classes"],
    table: Int[np.ndarray, "groups classes classes"],
    *,
    level: float,
) -> Limits:
    """Return lower and upper ends of each group's class shares, from its own gold tasks alone.

    The distances from a stratum's share to the ends of its interval are weighted by the stratum's
    size, and their squares are added; a stratum without gold tasks adds its whole size. A share is a number
    of tasks: each end is the last whole number within half a task of that, and never a number that the
    known truths rule out.

    Parameters
    ----------
    counts, table, level
        As for :func:`quality.corrected_shares`.

    References
    ----------
    .. [1] Zou, Donner, "Construction of confidence limits about effect measures: a general
       approach", Statistics in Medicine 27 (2008).
    """
    check_gold(counts, table)
    total = counts.sum(axis=1, keepdims=True)
    own = np.einsum("gkk->gk", table), table.sum(axis=2), counts
    every = table.sum(axis=1), table.sum(axis=(1, 2))[:, None], total
    others = tuple(whole - part for whole, part in zip(every, own, strict=True))
    share, below, above, unknown = np.zeros((4, *counts.shape))
    for hits, sampled, size in (own, others):
        low, high = proportion_limits(hits, sampled, size, level=level)
        middle, weight = np.where(sampled > 0, hits / np.maximum(sampled, 1), 0.5), size / total
        share = share + weight * middle
        below = below + np.where(sampled > 0, np.square(weight * (middle - low)), 0.0)
        above = above + np.where(sampled > 0, np.square(weight * (high - middle)), 0.0)
        unknown = unknown + np.where(sampled > 0, 0.0, weight / 2)
    low = total * (share - np.sqrt(below) - unknown) - HALF_TASK
    high = total * (share + np.sqrt(above) + unknown) + HALF_TASK
    known, n_gold, _ = every
    ends = np.ceil(low.round(DIGITS)), np.floor(high.round(DIGITS))
    low, high = (np.clip(end, known, known + total - n_gold) / total for end in ends)
    return low, high
