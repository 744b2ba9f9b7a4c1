"""Evidence of knowledge behind a consensus: whether votes are more alike than by chance.

A crowd of guessers has a consensus too, and models of it are overconfident. Its votes on one task are no
more alike than votes on two tasks, which labels show without gold. Krippendorff's alpha is the reliability
of one vote; by the formula of Spearman and Brown it gives that of all votes of a task.

>>> [round(reliability_of_votes(alpha, n_votes=5.0), 2) for alpha in (0.0, 0.04, 0.5)]
[0.0, 0.17, 0.83]
>>> [round(beyond_chance(reliability), 2) for reliability in (0.0, 0.17, 0.83)]
[0.0, 0.31, 0.97]
"""

import math

import numpy as np
from jaxtyping import Float64, Int16, Int64

__all__ = ["alpha_of", "alpha_sums", "beyond_chance", "reliability_of_votes"]

POWER = 2  # power of the share of chance in the votes, chosen on families left out and crowds of known skill


def alpha_sums(
    task_start: Int64[np.ndarray, " bounds"], label: Int16[np.ndarray, " labels"], n_classes: int
) -> tuple[Int64[np.ndarray, " classes"], Float64[np.ndarray, " 1"]]:
    """Return the sums of tasks for alpha: labels of each class, and unequal pairs, on tasks with pairs.

    The labels of task ``t`` are ``label[task_start[t]:task_start[t + 1]]``. No table of tasks by classes
    is made.
    """
    n_labels = np.diff(task_start)
    task = np.repeat(np.arange(len(n_labels)), n_labels)
    paired = n_labels > 1
    rows = paired[task]
    # nearly sorted: a merge of runs takes a fourth of the time
    cell = np.sort(task[rows] * n_classes + label[rows], kind="stable")
    first = np.flatnonzero(np.diff(cell, prepend=-1))
    count = np.diff(first, append=len(cell)).astype(np.float64)
    same = np.bincount(cell[first] // n_classes, count**2, len(n_labels))
    apart = (n_labels[paired] ** 2 - same[paired]) / (n_labels[paired] - 1)
    by_class = np.bincount(label[rows], minlength=n_classes)
    return by_class, np.array([apart.sum()])


def alpha_of(by_class: Int64[np.ndarray, " classes"], apart: Float64[np.ndarray, " 1"]) -> float:
    """Return the nominal alpha from the sums of all tasks; NaN if it is undefined."""
    labels = by_class.astype(np.float64)
    total = labels.sum()
    expected = (total**2 - (labels**2).sum()) / max(total - 1, 1)
    return float(1 - apart[0] / expected) if expected > 0 else float("nan")


def reliability_of_votes(alpha: float, n_votes: float) -> float:
    """Return the share of a consensus' variance that lies between tasks, by Spearman and Brown.

    Parameters
    ----------
    alpha
        Krippendorff's alpha of the votes, at most 1. Negative values, from chance or from systematic
        contradiction, count as 0.
    n_votes
        Number of votes of a task, at least 1.

    Returns
    -------
    float
        In [0, 1]; for one vote `alpha` itself; NaN if alpha is.

    References
    ----------
    .. [1] Spearman, "Correlation calculated from faulty data", British Journal of Psychology 3 (1910).
    .. [2] Brown, "Some experimental results in the correlation of mental abilities", the same volume.
    """
    if math.isnan(alpha):
        return alpha
    alike = max(alpha, 0.0)
    return n_votes * alike / (1.0 + (n_votes - 1.0) * alike)


def beyond_chance(reliability: float) -> float:
    """Return the weight of the confidence for a crowd that knows something; a guess has the rest.

    It is one minus the square of the share of chance in the votes' mean. That is near 1 for public crowds,
    at least .67, and 0 if votes are alike as by chance.

    Parameters
    ----------
    reliability
        Reliability of a task's votes, in [0, 1], from :func:`reliability_of_votes`; if it is NaN nothing is
        known, and the weight is 1.

    Notes
    -----
    **Limits.** Votes are also alike if workers copy each other or err together: groups must have one vote.
    With few tasks reliability is itself uncertain: alpha by about 1 / sqrt(pairs of votes).
    """
    if math.isnan(reliability):
        return 1.0
    return 1.0 - (1.0 - reliability) ** POWER
