"""How far confidence can be believed: reliability curve, expected calibration error, Brier score.

>>> rng = np.random.default_rng(0)
>>> confidence = np.repeat([0.6, 0.9], 500)
>>> right = rng.random(1000) < np.repeat([0.6, 0.7], 500)
>>> reliability(confidence, right, rng=rng)
Reliability(0.750 confident, 0.630 right on 1000, calibration error 0.120, 0.015 if calibrated)
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Float64, Int64

from quality.argument_types import check_arguments
from quality.labels import freeze_arrays

__all__ = ["Reliability", "calibration_error", "reliability"]

BINS = 15
DRAWS = 400  # of gold tasks, or of their truth
LEVEL = 0.9


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Reliability:
    """Result of :func:`reliability`: confidence beside the truth; bins without tasks are left out.

    Parameters
    ----------
    n
        Tasks of known truth.
    confidence, right
        Their mean confidence, and the share whose label is right.
    error, error_interval
        Expected calibration error (15 bins of equal width), and its 90 % basic bootstrap interval.
    floor
        The error expected of a perfectly calibrated confidence on as many tasks: what chance alone
        leaves.
    brier
        Mean squared difference of confidence and right (0 or 1).
    bin_confidence, bin_right, bin_n
        Mean confidence, right labels and tasks of each bin, in ascending order.
    """

    n: int
    confidence: float
    right: float
    error: float
    error_interval: tuple[float, float]
    floor: float
    brier: float
    bin_confidence: Float64[np.ndarray, " bins"]
    bin_right: Int64[np.ndarray, " bins"]
    bin_n: Int64[np.ndarray, " bins"]

    def __post_init__(self) -> None:
        freeze_arrays(self)

    def __repr__(self) -> str:
        return (
            f"Reliability({self.confidence:.3f} confident, {self.right:.3f} right on {self.n}, "
            f"calibration error {self.error:.3f}, {self.floor:.3f} if calibrated)"
        )


@check_arguments
def reliability(
    confidence: Float[np.ndarray, " tasks"],
    right: Bool[np.ndarray, " tasks"],
    *,
    rng: np.random.Generator,
) -> Reliability:
    """Compare confidence with what turned out right.

    Parameters
    ----------
    confidence
        Probability that each label is right, in [0, 1].
    right
        Whether it is.
    rng
        Draws the tasks of the bootstrap, and the truths of the floor.

    Raises
    ------
    ValueError
        If there are no tasks, or a confidence lies outside [0, 1].

    Notes
    -----
    **Guarantees.** The confidence of each bin times its tasks adds up to the whole: bins lose
    nothing. The error is at least the distance of mean confidence from the share right.

    **Limits.** An expected calibration error is never 0 on few tasks: compare it with `floor`. It
    says nothing about telling right from wrong, which the Brier score includes.

    References
    ----------
    .. [1] Naeini, Cooper and Hauskrecht, "Obtaining well calibrated probabilities using Bayesian
       binning", AAAI 2015.
    .. [2] Brier, "Verification of forecasts expressed in terms of probability", Monthly Weather
       Review 78 (1950).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> found = reliability(np.array([0.9, 0.9, 0.6]), np.array([True, True, False]), rng=rng)
    >>> round(found.error, 3), round(found.brier, 3), found.bin_right, found.bin_n
    (0.267, 0.127, array([0, 2]), array([1, 2]))
    """
    n = len(confidence)
    if not n:
        raise ValueError("confidence must be of one task or more, got none")
    if not np.all((confidence >= 0) & (confidence <= 1)):
        raise ValueError("confidence must lie in [0, 1], got others")
    place = _bins(confidence)
    count = np.bincount(place, minlength=BINS)
    held = np.flatnonzero(count)
    error = calibration_error(confidence, right)
    resampled = [
        calibration_error(confidence[some], right[some])
        for some in (rng.integers(n, size=n) for _ in range(DRAWS))
    ]
    low, high = 2 * error - np.quantile(resampled, [(1 + LEVEL) / 2, (1 - LEVEL) / 2])
    calibrated = [calibration_error(confidence, rng.random(n) < confidence) for _ in range(DRAWS)]
    return Reliability(
        n=n,
        confidence=float(confidence.mean()),
        right=float(right.mean()),
        error=error,
        error_interval=(float(np.clip(low, 0, error)), float(np.clip(high, error, 1))),
        floor=float(np.mean(calibrated)),
        brier=float(np.mean((confidence - right) ** 2)),
        bin_confidence=np.bincount(place, confidence, BINS)[held] / count[held],
        bin_right=np.bincount(place[right], minlength=BINS)[held].astype(np.int64),
        bin_n=count[held].astype(np.int64),
    )


def calibration_error(
    confidence: Float[np.ndarray, " tasks"],
    right: Float[np.ndarray, " tasks"] | Bool[np.ndarray, " tasks"],
) -> float:
    """Return the distance of mean confidence from the share right, averaged over bins by their tasks.

    Examples
    --------
    >>> round(calibration_error(np.full(4, 0.8), np.array([1.0, 1.0, 1.0, 0.0])), 3)
    0.05
    """
    apart = np.bincount(_bins(confidence), confidence - right, BINS)
    return float(np.abs(apart).sum() / len(confidence))


def _bins(confidence: np.ndarray) -> Int64[np.ndarray, " tasks"]:
    """Return the bin of each confidence; the last holds 1."""
    place: np.ndarray = np.minimum((confidence * BINS).astype(np.int64), BINS - 1)
    return place
