"""Response times of workers, and the workers who were too quick to have looked at their tasks."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Float64, Int64

from quality.argument_types import check_arguments
from quality.labels import CrowdLabels, freeze_arrays

__all__ = ["ResponseTimes", "response_times"]

MIN_TIMED = 5  # timed labels that a worker needs to be judged, and such workers that a crowd needs
TOO_QUICK = 0.5  # of the crowd's median
DEVIATIONS = 3.0  # standard deviations below the crowd's centre
NORMAL = 1.4826  # a normal standard deviation over its median absolute deviation
MEDIAN = np.pi / 2  # variance of a normal median over that of a mean, for many labels


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ResponseTimes:
    """Result of :func:`response_times`; one entry per worker code.

    Parameters
    ----------
    n_timed
        Number of labels with a known time.
    median_seconds
        Median of these times; NaN without any.
    deviation
        Logarithm of the median less that of the crowd's, in standard deviations; NaN if the worker or the
        crowd cannot be judged.
    hasty
        True if the median is implausibly short.
    crowd_seconds
        The median of the medians of those who can be judged; NaN without any.
    """

    n_timed: Int64[np.ndarray, " workers"]
    median_seconds: Float64[np.ndarray, " workers"]
    deviation: Float64[np.ndarray, " workers"]
    hasty: Bool[np.ndarray, " workers"]
    crowd_seconds: float

    def __post_init__(self) -> None:
        freeze_arrays(self)

    def __repr__(self) -> str:
        return (
            f"ResponseTimes({len(self.hasty)} workers, median {self.crowd_seconds:.3g} s, "
            f"{np.count_nonzero(self.hasty)} hasty)"
        )


@check_arguments
def response_times(labels: CrowdLabels, seconds: Float[np.ndarray, " labels"]) -> ResponseTimes:
    """Find the workers whose labels took implausibly little time, compared with this crowd.

    Times are taken as log-normal: workers about the crowd's centre, and labels about the worker's.
    A worker is hasty if her median is less than half the crowd's *and* its logarithm lies more than
    three standard deviations below the crowd's. Centre and deviations are medians, so that up to
    half the crowd may have any times. A worker's variance is that of workers plus that of her own
    median, which is large if she has few labels.

    Parameters
    ----------
    labels
        The crowd's labels.
    seconds
        Time of each label, in the order of the rows of `labels`, at least 0; NaN if unknown.

    Returns
    -------
    ResponseTimes
        Nobody is hasty with fewer than five timed labels, or among fewer than five such workers.

    Raises
    ------
    ValueError
        If there is not one time per label, or one is below 0 or infinite.

    Notes
    -----
    **Guarantees.** Another unit of time changes nobody's verdict. Names play no part.

    **Limits.** If all workers follow one log-normal law, about one in 740 lies so far below. Quick work
    is not bad work: some tasks are easy, and some clocks start late.

    Examples
    --------
    Six workers take 18 to 23 seconds, the seventh takes 2.

    >>> from quality import encode
    >>> worker, task = np.repeat(np.arange(7), 6), np.tile(np.arange(6), 7)
    >>> labels = encode(worker, task, np.zeros(42, dtype=int))
    >>> usual = np.array([18.0, 19.0, 20.0, 21.0, 22.0, 23.0, 2.0])
    >>> response_times(labels, usual[labels.worker])
    ResponseTimes(7 workers, median 20 s, 1 hasty)
    """
    if seconds.shape != (labels.n_labels,):
        raise ValueError(f"seconds must have shape {(labels.n_labels,)}, got {seconds.shape}")
    seconds = seconds.astype(np.float64, copy=False)
    known = ~np.isnan(seconds)
    if not np.all((seconds[known] >= 0) & np.isfinite(seconds[known])):
        raise ValueError("seconds must be >= 0 and finite, or NaN where unknown, got others")
    row = np.flatnonzero(known)
    n_timed = np.bincount(labels.worker[row], minlength=labels.n_workers)
    median_seconds = _medians(seconds[row], labels.worker[row], n_timed)
    deviation, centre = _deviations(seconds[row], labels.worker[row], n_timed)
    hasty = (deviation < -DEVIATIONS) & (median_seconds < TOO_QUICK * centre)
    return ResponseTimes(n_timed, median_seconds, deviation, hasty, centre)


def _deviations(
    seconds: np.ndarray, worker: np.ndarray, n_timed: np.ndarray
) -> tuple[Float64[np.ndarray, " workers"], float]:
    """Return each worker's median log time less the crowd's, standardised, and the crowd's time."""
    judged = n_timed >= MIN_TIMED
    deviation = np.full(len(n_timed), np.nan)
    if np.count_nonzero(judged) < MIN_TIMED or not seconds.any():
        return deviation, float("nan")
    # a time of 0 is less than the clock's smallest step
    log_seconds = np.log(np.maximum(seconds, seconds[seconds > 0].min()))
    log_median = _medians(log_seconds, worker, n_timed)
    centre = np.median(log_median[judged])
    between = NORMAL * np.median(np.abs(log_median[judged] - centre))
    theirs = judged[worker]
    within = NORMAL * np.median(np.abs(log_seconds - log_median[worker])[theirs])
    scale = np.sqrt(between**2 + MEDIAN * within**2 / np.maximum(n_timed, 1))
    apart = log_median[judged] - centre
    with np.errstate(divide="ignore", invalid="ignore"):
        deviation[judged] = np.where(apart == 0, 0.0, apart / scale[judged])
    return deviation, float(np.exp(centre))


def _medians(
    value: np.ndarray, worker: np.ndarray, n_timed: np.ndarray
) -> Float64[np.ndarray, " workers"]:
    """Return the median of each worker's values; NaN without any."""
    ordered = value[np.lexsort((value, worker))]
    start = np.cumsum(n_timed) - n_timed
    median = np.full(len(n_timed), np.nan)
    some = np.flatnonzero(n_timed)
    low = ordered[start[some] + (n_timed[some] - 1) // 2]
    high = ordered[start[some] + n_timed[some] // 2]
    median[some] = (low + high) / 2
    return median
