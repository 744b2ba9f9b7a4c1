"""Cumulative shares of ordered classes: the share of class k or lower, with intervals that hold together.

>>> band = normal_band(np.array([0.2, 0.5, 0.3]), np.array([0.2, 0.5, 0.3]), np.eye(3) / 1e4, 0.95)
>>> band.share, band.low.round(2), band.high.round(2)
(array([0.2, 0.7, 1. ]), array([0.18, 0.67, 1.  ]), array([0.22, 0.73, 1.  ]))
>>> [round(end, 2) for end in band.mean_place()]
[2.1, 2.05, 2.15]
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Float64

from quality.labels import freeze_arrays
from quality.shares.heavy_tails import half_width
from quality.shares.intervals import check_level

__all__ = ["CumulativeShares", "cumulative_band", "normal_band"]


@dataclass(frozen=True, slots=True, eq=False)
class CumulativeShares:
    """Result of :func:`cumulative_band` and :func:`normal_band`.

    Parameters
    ----------
    share
        Of each class and those below it; the last is 1.
    low, high
        Ends of a band that contains the shares; NaN if there is no interval.
    """

    share: Float64[np.ndarray, " classes"]
    low: Float64[np.ndarray, " classes"]
    high: Float64[np.ndarray, " classes"]

    def __post_init__(self) -> None:
        freeze_arrays(self)

    def mean_place(self) -> tuple[float, float, float]:
        """Return the mean place of a task's class, the lowest being 1, with its ends by the band.

        It is 1 + sum of 1 - F_k over the classes below the last, so it lies between its ends whenever
        the cumulative shares lie in the band.
        """
        whole = len(self.share)
        at, most, least = (
            whole - float(part[:-1].sum()) for part in (self.share, self.low, self.high)
        )
        return at, least, most


def cumulative_band(
    share: Float[np.ndarray, " classes"],
    low: Float[np.ndarray, " boundaries"],
    high: Float[np.ndarray, " boundaries"],
) -> CumulativeShares:
    """Return cumulative shares and a consistent band for them.

    Parameters
    ----------
    share
        Of each class, on the simplex.
    low, high
        Ends of intervals for the cumulative shares of all classes but the last, which hold together at
        some level; NaN if a boundary has no interval: its neighbours bound it.

    Notes
    -----
    **Guarantees.** The band does not fall from class to class, lies in [0, 1] and contains the shares. It
    holds whenever the given intervals hold together, because cumulative shares do not fall either.

    Examples
    --------
    >>> cumulative_band(np.array([0.5, 0.0, 0.5]), np.array([0.4, 0.3]), np.array([0.7, 0.6])).low
    array([0.4, 0.4, 1. ])
    """
    if not (share.ndim == 1 and low.shape == high.shape == (share.size - 1,)):
        raise ValueError(
            f"low and high must be of {share.size - 1} boundaries, got {low.shape} and {high.shape}"
        )
    reached = np.minimum(np.cumsum(share), 1.0)
    reached[-1] = 1.0
    below = np.append(np.fmax.accumulate(np.clip(low, 0.0, 1.0)), 1.0)
    above = np.append(np.fmin.accumulate(np.clip(high, 0.0, 1.0)[::-1])[::-1], 1.0)
    # a boundary without an end on one side has 0 or 1 there
    known = np.isfinite(below) | np.isfinite(above)
    below, above = (
        np.where(known, np.fmax(below, 0.0), below),
        np.where(known, np.fmin(above, 1.0), above),
    )
    return CumulativeShares(reached, np.minimum(below, reached), np.maximum(above, reached))


def normal_band(
    share: Float[np.ndarray, " classes"],
    centre: Float[np.ndarray, " classes"],
    covariance: Float[np.ndarray, "classes classes"],
    level: float,
    *,
    kurtosis: float = 0.0,
) -> CumulativeShares:
    """Return cumulative shares with a band around an unbiased estimate whose error is nearly normal.

    Parameters
    ----------
    share
        The estimate to show, on the simplex.
    centre, covariance
        An estimate of the shares without bias, and the covariance of its error.
    level
        Probability that the band holds at all classes together, by Bonferroni's inequality; in (0, 1).
    kurtosis
        Excess kurtosis of the error: 0 for a normal one, 3 for Laplace noise.

    Raises
    ------
    ValueError
        If `level` is out of its range, or the shapes do not fit.

    Notes
    -----
    **Guarantees.** Those of :func:`cumulative_band`.
    """
    check_level(level)
    if not share.shape == centre.shape == covariance.shape[:1] == covariance.shape[1:]:
        raise ValueError(
            f"share, centre and covariance must be of the same classes, got {share.shape}, {centre.shape} "
            f"and {covariance.shape}"
        )
    upto = np.tril(np.ones((share.size, share.size)))[:-1]
    variance = np.maximum(np.diag(upto @ covariance @ upto.T), 0.0)
    beyond = (1 - level) / max(share.size - 1, 1)
    reach = half_width(1 - beyond, np.zeros_like(variance), [(variance, kurtosis)])
    middle = upto @ centre
    return cumulative_band(share, middle - reach, middle + reach)
