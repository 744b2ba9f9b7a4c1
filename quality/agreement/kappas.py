"""Fleiss' kappa and Gwet's AC1 for any number of workers a task, with Gwet's standard errors.

>>> from quality import encode
>>> labels = encode(["ann", "bob"] * 4, [1, 1, 2, 2, 3, 3, 4, 4], list("xxyyxxyx"))
>>> fleiss_kappa(labels)
ChanceCorrected(0.467, 95 % interval -1.000 to 1.000, 4 tasks)
"""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64
from scipy.special import stdtrit

from quality.agreement.alpha import check_level, sums_of_tasks
from quality.argument_types import check_arguments
from quality.labels import CrowdLabels

__all__ = ["ChanceCorrected", "fleiss_kappa", "gwet_ac1"]

SAME = 1e-12  # differences of tasks' terms up to this may be rounding


@dataclass(frozen=True, slots=True)
class ChanceCorrected:
    """Result of :func:`fleiss_kappa` and :func:`gwet_ac1`.

    Parameters
    ----------
    value
        (agreement - chance) / (1 - chance); NaN if it is undefined.
    agreement, chance
        Probability that two workers agree on a task, and its part due to chance.
    standard_error, lower, upper
        Gwet's standard error over the tasks, and the t interval within [-1, 1]; NaN if tasks do not
        determine it: fewer than two, or all alike, as under full agreement.
    level
        Confidence level of the interval.
    n_tasks
        Tasks with labels.
    """

    value: float
    agreement: float
    chance: float
    standard_error: float
    lower: float
    upper: float
    level: float
    n_tasks: int

    def __repr__(self) -> str:
        return (
            f"ChanceCorrected({self.value:.3f}, {100 * self.level:g} % interval "
            f"{self.lower:.3f} to {self.upper:.3f}, {self.n_tasks} tasks)"
        )


@check_arguments
def fleiss_kappa(labels: CrowdLabels, *, level: float = 0.95) -> ChanceCorrected:
    """Return Fleiss' kappa: chance is the agreement of two labels drawn from the classes' shares.

    Parameters
    ----------
    labels
        The crowd's labels; tasks may differ in their number of labels. Tasks with one label count in the
        shares of the classes.
    level
        Confidence level of the interval, in (0, 1).

    Raises
    ------
    ValueError
        If `level` is out of its range.

    Notes
    -----
    **Guarantees.** The value does not depend on the order of tasks, workers and classes.

    **Cost.** Linear in the labels.

    References
    ----------
    .. [1] Fleiss, "Measuring nominal scale agreement among many raters", Psychological Bulletin 76 (1971).
    .. [2] Gwet, "Handbook of Inter-Rater Reliability", 4th edition (2014), chapters 2, 3 and 5.

    Examples
    --------
    >>> from quality import encode
    >>> labels = encode(["ann", "bob"] * 4, [1, 1, 2, 2, 3, 3, 4, 4], list("xxyyxxyx"))
    >>> round(fleiss_kappa(labels).value, 3)
    0.467
    """
    share = _shares(labels)
    # the shares of a single class add up to 1 only up to rounding, which would make kappa 1
    by_chance = 1.0 if np.count_nonzero(share) == 1 else float((share**2).sum())
    return _corrected(labels, by_chance, share, level)


@check_arguments
def gwet_ac1(labels: CrowdLabels, *, level: float = 0.95) -> ChanceCorrected:
    """Return Gwet's AC1: like kappa, but it stays high if nearly all labels are of one class and agree.

    Parameters
    ----------
    labels
        The crowd's labels, of two classes or more; classes that nobody gave count too.
    level
        Confidence level of the interval, in (0, 1).

    Raises
    ------
    ValueError
        If `level` is out of its range.

    Notes
    -----
    **Guarantees.** The value does not depend on the order of tasks, workers and classes.

    **Cost.** Linear in the labels.

    References
    ----------
    .. [1] Gwet, "Computing inter-rater reliability and its variance in the presence of high agreement",
       British Journal of Mathematical and Statistical Psychology 61 (2008).

    Examples
    --------
    >>> from quality import encode
    >>> labels = encode(["ann", "bob"] * 4, [1, 1, 2, 2, 3, 3, 4, 4], list("xxxxxxyx"))
    >>> round(gwet_ac1(labels).value, 3), round(fleiss_kappa(labels).value, 3)
    (0.68, -0.143)
    """
    share, n_others = _shares(labels), labels.n_classes - 1
    if n_others < 1:
        return _corrected(labels, 1.0, share, level)
    by_chance = float((share * (1 - share)).sum() / n_others)
    return _corrected(labels, by_chance, (1 - share) / n_others, level)


def _shares(labels: CrowdLabels) -> Float64[np.ndarray, " classes"]:
    """Return the share of each class, with equal weight for every task with labels."""
    n_labels = np.diff(labels.task_start)
    weight = np.repeat(1 / np.maximum(n_labels, 1), n_labels)
    given = np.bincount(labels.label, weight, labels.n_classes)
    shares: np.ndarray = given / max(int(np.count_nonzero(n_labels)), 1)
    return shares


def _corrected(
    labels: CrowdLabels, by_chance: float, weight: Float64[np.ndarray, " classes"], level: float
) -> ChanceCorrected:
    """Return the coefficient; a task's part in the chance is the mean of the weights over its labels."""
    check_level(level)
    tasks = np.flatnonzero(np.diff(labels.task_start))
    mine = sums_of_tasks(labels, tasks, weight)
    paired, a = mine.n > 1, len(tasks)
    n_paired = int(np.count_nonzero(paired))
    if n_paired == 0 or not by_chance < 1:
        nothing = float("nan")
        return ChanceCorrected(nothing, nothing, by_chance, *3 * (nothing,), level, a)
    agree = np.zeros(a)
    agree[paired] = mine.same[paired] / (mine.n[paired] * (mine.n[paired] - 1))
    agreement = float(agree.sum() / n_paired)
    value = (agreement - by_chance) / (1 - by_chance)
    # Gwet's linearisation: each task's term of the coefficient
    part = a / n_paired * np.where(paired, agree - by_chance, 0) / (1 - by_chance)
    part -= 2 * (1 - value) * (mine.weight / mine.n - by_chance) / (1 - by_chance)
    error = reach = math.nan
    if a > 1 and np.ptp(part) > SAME:
        error = float(np.sqrt(((part - value) ** 2).sum() / (a * (a - 1))))
        reach = float(stdtrit(a - 1, (1 + level) / 2)) * error
    lower, upper = float(np.maximum(value - reach, -1)), float(np.minimum(value + reach, 1))
    return ChanceCorrected(value, agreement, by_chance, error, lower, upper, level, a)
