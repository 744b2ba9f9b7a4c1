"""A gate that asks each record once: noisy counts of right answers from several months, pooled.

The reusable holdout answers many questions about the same records, and pays for each refutation. If every
month brings fresh holdout records, and each record is used for one question, counts with a little noise are
better: they are cheaper by an order of magnitude, cannot be overfitted, and add up over months.

>>> train = ScoreCounts(right=(180, 183), n=(213, 213), variance=8.0)
>>> judge_pooled(train, ScoreCounts(right=(55, 51), n=(67, 67), variance=0.1)).status
'agrees'
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

__all__ = ["PooledVerdict", "ScoreCounts", "judge_pooled", "planned_power", "pooled_error_limit"]

PASSES = 2.8  # deviations: 997 times in 1,000 without a gap, 98 in 100 with a gap of .75 deviations
REFUTES = 1.65  # deviations that a gap of the tolerance is above the threshold where data are many
SMOOTHING = 2.0  # right and wrong answers added to the share that determines the deviation


@dataclass(frozen=True, slots=True)
class ScoreCounts:
    """Released counts of right answers, month by month; `variance` is that of the noise on each.

    Raises
    ------
    ValueError
        If there are not as many counts as sizes, one or more, a size is below 1, or the variance below 0.
    """

    right: tuple[int, ...]
    n: tuple[int, ...]
    variance: float

    def __post_init__(self) -> None:
        if not (len(self.right) == len(self.n) >= 1 and all(n >= 1 for n in self.n)):
            raise ValueError("there must be one count for each size, and sizes >= 1")
        if not 0 <= self.variance < math.inf:
            raise ValueError(f"variance must be >= 0 and finite, got variance={self.variance}")

    @property
    def size(self) -> int:
        """Records of all months together."""
        return sum(self.n)

    @property
    def share(self) -> float:
        """Share of right answers over all months; noise may bring it out of [0, 1]."""
        return sum(self.right) / self.size

    @property
    def noise(self) -> float:
        """Variance of the share's noise."""
        return self.variance * len(self.n) / self.size**2


@dataclass(frozen=True, slots=True)
class PooledVerdict:
    """The verdict over all months.

    Parameters
    ----------
    status
        "agrees" or "overfit".
    gap
        Training share less holdout share of a month, averaged over the months.
    threshold
        The largest gap that agrees.
    deviation
        Standard deviation of a sound model's gap: of both samples and of the noise.
    """

    status: str
    gap: float
    threshold: float
    deviation: float


def judge_pooled(
    train: ScoreCounts, holdout: ScoreCounts, *, tolerance: float = 0.1
) -> PooledVerdict:
    """Judge whether models do better on tasks that they learnt from than on fresh ones, month by month.

    Parameters
    ----------
    train, holdout
        Right answers of each month's model on records that it was trained on, and on fresh ones.
    tolerance
        The gap to be refuted, in (0, 1).

    Returns
    -------
    PooledVerdict
        The threshold is 2.8 deviations, or where data are many 1.65 deviations below the tolerance.

    Raises
    ------
    ValueError
        If the tolerance is out of its range, or the months differ in number.

    Notes
    -----
    **Guarantees.** All that is read is released or public, so that this is post-processing. Where models
    are as good on both, the gap is below the threshold 99 times in 100; where they differ by a tolerance of
    0.1 it is above 9 times in 10 once the deviation is at most 0.023: by the normal law of both samples.

    Months are compared one by one, so that easy months of which more was held out are no gap. A month of N
    training and n holdout records has weight N n / (N + n): least variance if all are right equally often.
    The deviation is that of two binomial shares of one probability, the months' mean, and of the noise;
    months that differ deviate less. A refutation is about the training of the months' models on average; the
    newest month alone has too few records.

    Examples
    --------
    >>> train = ScoreCounts(right=(900,), n=(1000,), variance=0.0)
    >>> found = judge_pooled(train, ScoreCounts(right=(320,), n=(400,), variance=0.0))
    >>> found.status, round(found.gap, 3), round(found.threshold, 3)
    ('overfit', 0.1, 0.067)
    """
    _check(tolerance, train, holdout)
    weights, size = _weights(train, holdout), train.size + holdout.size
    months = list(zip(weights, train.right, train.n, holdout.right, holdout.n, strict=True))
    mean = sum(w * (a + b) / (m + n) for w, a, m, b, n in months)
    share = min(1.0, max(0.0, (mean * size + SMOOTHING) / (size + 2 * SMOOTHING)))
    deviation = _deviation(share, train, holdout)
    gap = sum(w * (a / m - b / n) for w, a, m, b, n in months)
    threshold = _threshold(deviation, tolerance)
    return PooledVerdict("overfit" if gap > threshold else "agrees", gap, threshold, deviation)


def planned_power(
    train: ScoreCounts, holdout: ScoreCounts, *, tolerance: float = 0.1, accuracy: float = 0.8
) -> tuple[float, float]:
    """Return the threshold for sizes to come, and with what probability a gap of the tolerance is refuted.

    Only sizes and noise are read; `accuracy`, in (0, 1), is assumed.

    Examples
    --------
    >>> sizes = ScoreCounts((0,), (1280,), 20.0), ScoreCounts((0,), (400,), 1.0)
    >>> [round(float(one), 3) for one in planned_power(*sizes)]
    [0.065, 0.932]
    """
    _check(tolerance, train, holdout)
    if not 0 < accuracy < 1:
        raise ValueError(f"accuracy must be in (0, 1), got accuracy={accuracy}")
    deviation = _deviation(accuracy, train, holdout)
    threshold = _threshold(deviation, tolerance)
    return threshold, NormalDist().cdf((tolerance - threshold) / deviation)


def pooled_error_limit(right: int, n: int, *, half_width: int, level: float) -> float:
    """Return an upper bound on the error of a model that was fixed before n fresh records were asked.

    Parameters
    ----------
    right
        Noisy number of records that it gets right.
    n
        Records, >= 1.
    half_width
        The noise is within it with probability (1 + level) / 2 or more.
    level
        Confidence, in (0, 1).

    Notes
    -----
    **Guarantees.** The bound holds with probability >= `level`: half of 1 - level pays for the noise, half
    for the exact binomial law.

    Examples
    --------
    >>> round(pooled_error_limit(56, 67, half_width=1, level=0.95), 3)
    0.292
    """
    from learners.bounds import upper_limit_at  # scipy, which judging does without

    if not (n >= 1 and half_width >= 0 and 0 < level < 1):
        raise ValueError("n must be >= 1, half_width >= 0 and level in (0, 1)")
    wrong = min(n, max(0, n - right + half_width))
    return float(upper_limit_at(wrong, n, math.log((1 - level) / 2)))


def _check(tolerance: float, train: ScoreCounts, holdout: ScoreCounts) -> None:
    if not 0 < tolerance < 1:
        raise ValueError(f"tolerance must be in (0, 1), got tolerance={tolerance}")
    if len(train.n) != len(holdout.n):
        raise ValueError(f"months must be as many, got {len(train.n)} and {len(holdout.n)}")


def _weights(train: ScoreCounts, holdout: ScoreCounts) -> list[float]:
    """Return the weight of each month's gap; the weights add up to 1."""
    parts = [m * n / (m + n) for m, n in zip(train.n, holdout.n, strict=True)]
    total = sum(parts)
    return [part / total for part in parts]


def _deviation(share: float, train: ScoreCounts, holdout: ScoreCounts) -> float:
    """Return the standard deviation of the weighted gap."""
    chance, total = share * (1 - share), 0.0
    for w, m, n in zip(_weights(train, holdout), train.n, holdout.n, strict=True):
        noise = train.variance / m**2 + holdout.variance / n**2
        total += w**2 * (chance * (1 / m + 1 / n) + noise)
    return math.sqrt(total)


def _threshold(deviation: float, tolerance: float) -> float:
    return max(PASSES * deviation, tolerance - REFUTES * deviation)
