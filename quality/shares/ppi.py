"""Prediction-powered shares (PPI++) as published, for comparison: use `corrected_shares`.

>>> counts, table = np.array([14, 17, 9]), np.array([[4, 1, 0], [1, 3, 1], [0, 0, 2]])
>>> prediction_powered(counts, table).share.round(3)
array([0.373, 0.337, 0.302])
"""

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from jaxtyping import Float64, Int

from quality.argument_types import check_arguments
from quality.labels import freeze_arrays
from quality.shares.intervals import check_gold, check_level

__all__ = ["PredictionPowered", "prediction_powered", "prediction_powered_infinite"]


@dataclass(frozen=True, slots=True, eq=False)
class PredictionPowered:
    """Class shares from predictions and gold tasks, class by class.

    Parameters
    ----------
    share
        Estimated shares; they need not add up to 1.
    weight
        Lambda of each class in [0, 1]: 0 is gold alone, 1 the full correction.
    low, high
        Ends of the normal interval, not cut off.
    """

    share: Float64[np.ndarray, " classes"]
    weight: Float64[np.ndarray, " classes"]
    low: Float64[np.ndarray, " classes"]
    high: Float64[np.ndarray, " classes"]

    def __post_init__(self) -> None:
        freeze_arrays(self)


@check_arguments
def prediction_powered(
    counts: Int[np.ndarray, " classes"],
    table: Int[np.ndarray, "classes classes"],
    *,
    level: float = 0.95,
) -> PredictionPowered:
    """Correct the class shares of a finite population, each with the lambda of least variance.

    With f the consensus and y the truth: share = lambda mean_N 1{f=k} + mean_m (1{y=k} - lambda
    1{f=k}), lambda = Cov(1{y=k}, 1{f=k}) / Var(1{f=k}) over the gold tasks, and variance
    (1 - m/N) S^2(1{y=k} - lambda 1{f=k}) / m.

    Parameters
    ----------
    counts
        Consensus labels of each class over all N tasks, the gold tasks among them.
    table
        Gold tasks by consensus (rows) and true class (columns): a random sample of m >= 2.
    level
        Of the normal intervals, in (0, 1).

    Raises
    ------
    ValueError
        If `table` counts tasks that `counts` does not, or fewer than two, or `level` is out of its range.

    Notes
    -----
    **Guarantees.** Lambda has the least estimated variance in [0, 1]. If it needs no clipping, the
    estimate is the mean of P(y=k | f=k) and P(y=k | f!=k) by the sizes of the two strata.

    **Limits.** The normal interval is too narrow if a class has few gold tasks: with 200 gold tasks it covers
    shares of a hundredth half of the time (``python -m benchmarks.quality.gold_shares``).

    References
    ----------
    .. [1] Angelopoulos, Duchi, Zrnic, "PPI++: efficient prediction-powered inference" (2023).
    """
    truth, consensus, both, n, total = _moments(counts, table)
    covariance, variance = both - truth * consensus, consensus * (1 - consensus)
    weight = np.clip(covariance / np.where(variance > 0, variance, np.inf), 0.0, 1.0)
    share = truth + weight * (counts / total - consensus)
    residual = truth * (1 - truth) - 2 * weight * covariance + weight**2 * variance
    spread = np.sqrt((1 - n / total) * np.maximum(residual, 0.0) / (n - 1))
    return _with_interval(share, weight, spread, level)


@check_arguments
def prediction_powered_infinite(
    counts: Int[np.ndarray, " classes"],
    table: Int[np.ndarray, "classes classes"],
    *,
    level: float = 0.95,
) -> PredictionPowered:
    """Return the estimates of `ppi-python`, for an infinite population from which the tasks are drawn.

    Parameters, errors and source are those of :func:`prediction_powered`; at least one task must
    have no gold. Lambda is (1 - m/N) Cov / Var with the variance over all tasks, and the means are
    over tasks without gold, so that the estimate is nearly that of the finite population.

    Examples
    --------
    >>> counts, table = np.array([14, 17, 9]), np.array([[4, 1, 0], [1, 3, 1], [0, 0, 2]])
    >>> prediction_powered_infinite(counts, table).low.round(6)
    array([0.139639, 0.092506, 0.096688])
    """
    truth, consensus, both, n, total = _moments(counts, table)
    if not n < total:
        raise ValueError("counts must count a task without gold")
    everywhere = counts / total
    rest = (counts - table.sum(axis=1)) / (total - n)
    variance = everywhere * (1 - everywhere) * total / (total - 1)
    slope = (both - truth * consensus) / np.where(variance > 0, variance, np.inf)
    weight = np.clip((1 - n / total) * slope, 0.0, 1.0)
    share = truth + weight * (rest - consensus)
    residual = truth * (1 - truth) - 2 * weight * (both - truth * consensus)
    residual = residual + weight**2 * consensus * (1 - consensus)
    spread = np.sqrt(weight**2 * rest * (1 - rest) / (total - n) + np.maximum(residual, 0.0) / n)
    return _with_interval(share, weight, spread, level)


def _moments(
    counts: Int[np.ndarray, " classes"], table: Int[np.ndarray, "classes classes"]
) -> tuple[np.ndarray, np.ndarray, np.ndarray, int, int]:
    """Return shares of truth, consensus and both among gold tasks; the numbers of gold and tasks."""
    check_gold(counts[None], table[None])
    n, total = int(table.sum()), int(counts.sum())
    if not n >= 2:
        raise ValueError(f"table must count 2 gold tasks or more, got {n}")
    return table.sum(axis=0) / n, table.sum(axis=1) / n, np.diag(table) / n, n, total


def _with_interval(
    share: np.ndarray, weight: np.ndarray, spread: np.ndarray, level: float
) -> PredictionPowered:
    check_level(level)
    reach = NormalDist().inv_cdf((1 + level) / 2) * spread
    return PredictionPowered(share, weight, share - reach, share + reach)
