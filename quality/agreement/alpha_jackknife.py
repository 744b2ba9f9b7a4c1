"""Krippendorff's alpha from sums of distances, and Hughes' jackknife interval for it.

The functions here take only numbers for each task: labels and their distances are settled before.

>>> one = np.ones(4)
>>> alpha_of_distances(2 * one, np.array([0.0, 1, 1, 0]), 7 * one, 16.0, 0.95, "nominal")
Alpha(0.125, 95 % interval -0.973 to 0.980, nominal, 4 tasks)
"""

import math
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from jaxtyping import Float64
from scipy.special import stdtrit

__all__ = ["METRICS", "Alpha", "Metric", "SetMetric", "alpha_of_distances"]

Metric = Literal["nominal", "ordinal", "interval"]
"""How far two labels are apart: at all; by the labels ranked between them; by their numbers."""

METRICS: tuple[Metric, ...] = get_args(Metric)

SetMetric = Literal["masi", "jaccard"]
"""How far two sets of classes are apart: see :func:`~quality.set_alpha`."""


@dataclass(frozen=True, slots=True)
class Alpha:
    """Result of :func:`alpha_interval`, and of :func:`~quality.set_alpha`.

    Parameters
    ----------
    value
        Krippendorff's alpha, at most 1; NaN if it is undefined.
    unbiased
        Hughes' estimate of the same quantity, less biased on few tasks; the interval surrounds it.
    lower, upper
        The jackknife interval; NaN if it is undefined: for fewer than three tasks, or without disagreement
        on all tasks or on all but one.
    level
        Its confidence level.
    metric
        Metric of the distance of two labels.
    n_tasks, n_labels
        Number of tasks with labels, and of labels on tasks with two or more.
    """

    value: float
    unbiased: float
    lower: float
    upper: float
    level: float
    metric: Metric | SetMetric
    n_tasks: int
    n_labels: int

    def __repr__(self) -> str:
        return (
            f"Alpha({self.value:.3f}, {100 * self.level:g} % interval "
            f"{self.lower:.3f} to {self.upper:.3f}, {self.metric}, {self.n_tasks} tasks)"
        )


def alpha_of_distances(
    n: Float64[np.ndarray, " tasks"],
    within: Float64[np.ndarray, " tasks"],
    touching: Float64[np.ndarray, " tasks"],
    expected: float,
    level: float,
    metric: Metric | SetMetric,
    times: Float64[np.ndarray, " tasks"] | None = None,
) -> Alpha:
    """Return alpha with its interval from sums of distances, for any kind of labels.

    Parameters
    ----------
    n
        Number of labels of each task, at least 1.
    within
        Sum of distances over each task's own pairs of labels.
    touching
        The same sum over all pairs with at least one of the task's labels.
    expected
        The same sum over all pairs of labels on tasks with two or more.
    level, metric
        Level of the interval, in (0, 1), and metric, for the result.
    times
        Number of tasks of each kind, if equal tasks are given once; one of each if None.
    """
    times = np.ones(len(n)) if times is None else times
    paired = n > 1
    error = np.zeros(len(n))
    error[paired] = within[paired] / (n[paired] - 1)
    n_labels = (times * n)[paired].sum()
    value = float("nan")
    if expected > 1e-12 * n_labels:
        value = float(1 - (n_labels - 1) * (times * error).sum() / expected)
    unbiased, lower, upper = _hughes(n, error, touching, times, level)
    return Alpha(value, unbiased, lower, upper, level, metric, int(times.sum()), int(n_labels))


def _hughes(
    n: Float64[np.ndarray, " tasks"],
    error: Float64[np.ndarray, " tasks"],
    touching: Float64[np.ndarray, " tasks"],
    times: Float64[np.ndarray, " tasks"],
    level: float,
) -> tuple[float, float, float]:
    """Return Hughes' estimate and interval from each task's labels, error, and distances to all labels."""
    undefined = float("nan"), float("nan"), float("nan")
    a, total = int(times.sum()), (times * n).sum()
    if a < 3:
        return undefined
    paired = np.where(n > 1, n, 0.0)
    n_paired, n_wrong = (times * paired).sum(), (times * error).sum()
    # a pair across two tasks counts at both tasks, a pair within a task once
    within = error * np.maximum(n - 1, 0)
    all_pairs = ((times * touching).sum() + (times * within).sum()) / 2
    mean_n = (total - (times * n**2).sum() / total) / (a - 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        whole = _log_ratio(
            np.array([all_pairs]),
            np.array([n_wrong]),
            np.array([n_paired]),
            np.array([total]),
            a,
        )
        eta = float(whole[0])
        left = _log_ratio(
            all_pairs - touching,
            n_wrong - error,
            n_paired - paired,
            total - n,
            a - 1,
        )
    if eta == math.inf:
        return 1.0, float("nan"), float("nan")
    if not math.isfinite(eta):
        return undefined
    unbiased = _alpha_of(eta, mean_n)
    pseudo = a * eta - (a - 1) * left
    if not np.isfinite(pseudo).all():
        return unbiased, float("nan"), float("nan")
    spread = times * (pseudo - (times * pseudo).sum() / a) ** 2
    reach = float(stdtrit(a - 1, (1 + level) / 2)) * math.sqrt(spread.sum() / (a - 1) / a)
    return unbiased, _alpha_of(eta - reach, mean_n), _alpha_of(eta + reach, mean_n)


def _log_ratio(
    pairs: Float64[np.ndarray, " left"],
    wrong: Float64[np.ndarray, " left"],
    n_paired: Float64[np.ndarray, " left"],
    size: Float64[np.ndarray, " left"],
    n_tasks: int,
) -> Float64[np.ndarray, " left"]:
    """Return log(MSA / MSE) from all pairs' distances, all tasks' error, and numbers of labels and tasks."""
    mse = wrong / n_paired
    msa = (pairs / size - (size - n_tasks) * mse) / (n_tasks - 1)
    ratio: np.ndarray = np.log(msa / mse)
    return ratio


def _alpha_of(eta: float, mean_n: float) -> float:
    """Return the intraclass correlation for a log ratio of mean squares."""
    beyond = math.expm1(min(eta, 700.0))
    return float(beyond / (beyond + mean_n))
