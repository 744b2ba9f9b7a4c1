"""How far confidence can be believed: reliability, calibration error, and levels that few tasks can check.

>>> rng = np.random.default_rng(0)
>>> confidence = np.repeat([0.6, 0.9], 500)
>>> right = rng.random(1000) < np.repeat([0.6, 0.7], 500)
>>> reliability(confidence, right, rng=rng)
Reliability(0.750 confident, 0.630 right on 1000, calibration error 0.120, 0.015 if calibrated)
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Float64, Int64
from scipy.special import betaincinv

from quality.argument_types import check_arguments
from quality.labels import freeze_arrays

__all__ = [
    "Reliability", "calibration_error", "natural_levels", "nearest_level", "reliability",
]  # fmt: skip

BINS = 15
DRAWS = 400  # of gold tasks for the interval, and of truths for the floor
COVERAGE = 0.9
MAX_CELLS = 500  # of equal numbers of values; levels begin and end at their borders


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Reliability:
    """Result of :func:`reliability`: confidence beside the truth; bins without tasks are left out.

    Parameters
    ----------
    n
        Tasks of known truth.
    confidence, right
        Mean confidence of these tasks, and the share whose label is right.
    error, error_interval
        Expected calibration error (15 bins of equal width), and its 90 % interval: the basic bootstrap's,
        widened at both ends as chance demands.
    floor
        The error expected of a perfectly calibrated confidence on as many tasks, by chance alone.
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
    """Compare confidence with the labels that turned out right.

    Parameters
    ----------
    confidence
        Probability that each label is right, in [0, 1].
    right
        Whether each label is right.
    rng
        Draws the tasks of the bootstrap, and the truths of the floor.

    Raises
    ------
    ValueError
        If there are no tasks, a confidence lies outside [0, 1], or `right` is not one truth value per task.

    Notes
    -----
    **Guarantees.** The mean confidence of all tasks is that of the bins, weighted by their tasks. The
    error is at least the distance of mean confidence from the share right.

    **Limits.** An expected calibration error is never 0 on few tasks: compare it with `floor`. Its interval
    begins at 0 where calibrated confidence has as large an error in a twentieth of the cases or more, and
    covers less often than stated where some confidences are too high and others too low. The error does
    not measure how well right labels are separated from wrong ones; the Brier score includes that.

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
    if not (right.dtype == np.bool_ and right.shape == confidence.shape == (n,)):
        raise ValueError(
            f"right must be {n} truth values, one per task, got {right.dtype} of shape {right.shape}"
        )
    confidence = confidence.astype(np.float64, copy=False)
    place = _bins(confidence)
    count = np.bincount(place, minlength=BINS)
    held = np.flatnonzero(count)
    error = calibration_error(confidence, right)
    resampled = [
        calibration_error(confidence[some], right[some])
        for some in (rng.integers(n, size=n) for _ in range(DRAWS))
    ]
    low, high = 2 * error - np.quantile(resampled, [(1 + COVERAGE) / 2, (1 - COVERAGE) / 2])
    calibrated = [calibration_error(confidence, rng.random(n) < confidence) for _ in range(DRAWS)]
    # distances add up by chance alone: where that explains the error, there may be none
    if error <= np.quantile(calibrated, (1 + COVERAGE) / 2):
        low = 0.0
    # tasks drawn again hold no wrong label if these hold none: the share right (Jeffreys) says more
    n_right = np.count_nonzero(right)
    ends = betaincinv(n_right + 0.5, n - n_right + 0.5, [(1 - COVERAGE) / 2, (1 + COVERAGE) / 2])
    high = max(high, np.abs(confidence.mean() - ends).max())
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


def natural_levels(
    values: Float64[np.ndarray, " values"], n_levels: int
) -> Float64[np.ndarray, " levels"]:
    """Return the ascending means of the parts into which values are divided.

    The division has the least squared distance of values to their part's mean, found exactly among all
    divisions of the sorted values [1]_; of many values, among divisions at quantiles. There are no more
    levels than different values.

    References
    ----------
    .. [1] Fisher, "On grouping for maximum homogeneity", Journal of the American Statistical Association
       53 (1958).

    Examples
    --------
    >>> natural_levels(np.array([0.9, 0.5, 0.92, 0.52, 0.94]), 2)
    array([0.51, 0.92])
    """
    values = np.sort(values)
    n_cells = min(len(values), MAX_CELLS)
    cut = np.linspace(0, len(values), n_cells + 1).astype(np.int64)
    count = cut - cut[:, np.newaxis]  # between two cuts, as the sums that follow
    total, squares = (np.concatenate([[0.0], np.cumsum(each)])[cut] for each in (values, values**2))
    between = total - total[:, np.newaxis]
    apart = squares - squares[:, np.newaxis] - between**2 / np.maximum(count, 1)
    apart[count <= 0] = np.inf
    least, begins = apart[0], []
    for _ in range(min(n_levels, n_cells, len(np.unique(values))) - 1):
        with_one_more = least[:, np.newaxis] + apart
        begins.append(with_one_more.argmin(axis=0))
        least = with_one_more.min(axis=0)
    ends = [n_cells]
    for begin in reversed(begins):
        ends.append(int(begin[ends[-1]]))
    part = cut[[0, *reversed(ends)]]
    return np.add.reduceat(values, part[:-1]) / np.diff(part)


def nearest_level(
    values: Float64[np.ndarray, " values"], levels: Float64[np.ndarray, " levels"]
) -> Float64[np.ndarray, " values"]:
    """Return the level nearest to each value; the values themselves if there are no levels.

    Examples
    --------
    >>> nearest_level(np.array([0.1, 0.6, 0.99]), np.array([0.5, 0.9]))
    array([0.5, 0.5, 0.9])
    """
    if not levels.size:
        return values
    middle = (levels[1:] + levels[:-1]) / 2
    found: np.ndarray = levels[np.searchsorted(middle, values)]
    return found


def _bins(confidence: np.ndarray) -> Int64[np.ndarray, " tasks"]:
    """Return the bin of each confidence; the last holds 1."""
    place: np.ndarray = np.minimum((confidence * BINS).astype(np.int64), BINS - 1)
    return place
