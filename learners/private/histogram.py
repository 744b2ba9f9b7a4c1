"""Histograms over declared bounds: counts, the density of noisy counts, and a score with its sensitivity.

>>> density_of(bin_counts(np.array([0.1, 0.4, 0.9]), 2, 0.0, 1.0), width=0.5).round(3)
array([1.333, 0.667])
"""

import math
import sys

import numpy as np
from jaxtyping import Float, Int

from privacy.query import is_whole

__all__ = [
    "bin_counts",
    "bin_of",
    "check_bins",
    "density_of",
    "histogram_score",
    "histogram_sensitivity",
]

MAX = sys.float_info.max
MAX_BINS = 10**6  # of one draw


def bin_counts(
    value: Float[np.ndarray, " rows"], n_bins: int, low: float, high: float
) -> Int[np.ndarray, " bins"]:
    """Count values by bins of equal width; those outside the bounds in the first or the last.

    Examples
    --------
    >>> bin_counts(np.array([-3.0, 0.1, 0.5, 1.0]), 2, 0.0, 1.0)
    array([2, 2])
    """
    return np.bincount(bin_of(value, n_bins, low, high), minlength=n_bins)


def density_of(noisy: Int[np.ndarray, " bins"], width: float) -> Float[np.ndarray, " bins"]:
    """Return the density of noisy counts: negative counts become 0; at least one count must be positive.

    Examples
    --------
    >>> density_of(np.array([3, -1, 1]), 0.5)
    array([1.5, 0. , 0.5])
    """
    kept = np.maximum(noisy, 0)
    return np.asarray(kept / kept.sum() / width)  # the product of width and sum may overflow


def check_bins(n_bins: int, low: float, high: float) -> None:
    """Raise ValueError unless n_bins >= 2 is whole, low < high, and the edges of the bins are distinct.

    The distance of the bounds and the densities must be finite too.
    """
    if not (is_whole(n_bins) and 2 <= n_bins <= MAX_BINS):
        raise ValueError(
            f"n_bins must be a whole number >= 2 and at most {MAX_BINS}, got n_bins={n_bins}"
        )
    if not -MAX <= low < high <= MAX:
        raise ValueError(f"low and high must be finite and low < high, got {low=} and {high=}")
    width = (float(high) - float(low)) / int(n_bins)
    narrowest = max(math.ulp(max(abs(low), abs(high))), 2 / MAX)
    if not narrowest <= width < math.inf:
        raise ValueError(
            f"high - low must be finite, and a bin's width at least {narrowest:.3g} there, the least that "
            f"numbers tell apart, got {low=} and {high=} with {n_bins=}"
        )


def bin_of(
    value: Float[np.ndarray, " rows"], n_bins: int, low: float, high: float
) -> Int[np.ndarray, " rows"]:
    """Return the bin of each value; values outside the bounds are in the first or the last.

    Examples
    --------
    >>> bin_of(np.array([-3.0, 0.5]), 2, 0.0, 1.0)
    array([0, 1])
    """
    inside = np.clip(np.asarray(value, dtype=np.float64), low, high)  # no difference overflows
    place = np.minimum((inside - low) / (high - low) * n_bins, n_bins - 1)
    return np.asarray(np.floor(place).astype(np.intp))


def histogram_score(density: Float[np.ndarray, " bins"], counts: Int[np.ndarray, " bins"]) -> float:
    """Return minus the integrated squared error against the validation values, up to a constant of theirs.

    For bins of [0, 1]: minus the integral of density^2, plus twice the mean density at the values.

    Examples
    --------
    >>> histogram_score(np.array([1.5, 0.5]), np.array([3, 1]))
    1.25
    """
    return float(-np.square(density).mean() + 2 * density @ counts / counts.sum())


def histogram_sensitivity(n_bins: int, n_train: int, n_validation: int) -> float:
    """Return the most that one replaced value moves a histogram's score: n_bins max(4 / n, 2 / m).

    Notes
    -----
    Let p = kept / U be the bins' shares. A training value that moves changes two noisy counts by one
    each, hence two kept ones by one at most, up and down. If U' >= U, a share can grow only where the
    count did, by 1 / U' at most: the total variation is at most 1 / max(U, U') <= 1 / n. The first term
    of the score, sum p^2 / h, moves by at most 2 / h times that, and the second, 2 / h times a mean of
    shares, too. A validation value moves the second term alone, by 2 / (h m) at most.

    Examples
    --------
    >>> histogram_sensitivity(20, n_train=8000, n_validation=2000)
    0.02
    """
    return n_bins * max(4 / n_train, 2 / n_validation)
