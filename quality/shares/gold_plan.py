"""How many gold tasks an interval of a given width needs, from public numbers.

>>> gold_for_width(0.06, accuracy=0.8, n_tasks=5_000, n_classes=4).n_gold
402
"""

import math
from dataclasses import dataclass
from statistics import NormalDist

from quality.argument_types import check_arguments
from quality.shares.intervals import check_level

__all__ = ["GoldPlan", "gold_for_width"]

UNSEEN = 0.8  # pseudo-counts a class, of errors and right answers, in intervals of few gold tasks


@dataclass(frozen=True, slots=True)
class GoldPlan:
    """Result of :func:`gold_for_width`.

    Parameters
    ----------
    n_gold
        The least number of gold tasks; None if noise makes the interval too wide even with gold for all.
    width
        Expected width of a share's interval with so many, or with gold for all tasks.
    of_sampling, of_noise
        Parts of the variance behind that width: by sampling, and by privacy noise.
    """

    n_gold: int | None
    width: float
    of_sampling: float
    of_noise: float


@check_arguments
def gold_for_width(
    width: float,
    *,
    accuracy: float,
    n_tasks: int,
    n_classes: int,
    level: float = 0.95,
    count_variance: float = 0.0,
    difference_variance: float = 0.0,
) -> GoldPlan:
    """Return the least number of random gold tasks for which an interval is as narrow as asked.

    A task whose consensus errs changes the counts of two classes. If classes err alike, the difference
    between truth and consensus has variance 2 (1 - accuracy) / n_classes for each class and task. Few gold
    tasks do not show how rare errors are: intervals assume some more errors, and so does the plan.

    Parameters
    ----------
    width
        Width wanted for the interval of one share, in (0, 1).
    accuracy
        Guessed share of consensus labels that are right, in (0, 1].
    n_tasks, n_classes
        Tasks that are counted, and classes, >= 2.
    level
        Of the interval, in (0, 1).
    count_variance, difference_variance
        Variance of the noise on each count of consensus labels, and on each entry of the difference of
        counts over the gold tasks; 0 without privacy.

    Raises
    ------
    ValueError
        If a number is out of its range.

    Notes
    -----
    **Guarantees.** With one gold task fewer the expected width is above `width`.

    **Limits.** If classes are of similar size, intervals of :func:`~quality.corrected_shares` without noise
    are on average as wide as planned or narrower, at most a twentieth wider; the less accurate the
    consensus, the narrower.

    Examples
    --------
    >>> gold_for_width(0.06, accuracy=0.8, n_tasks=5_000, n_classes=4, difference_variance=50.0).n_gold
    686
    """
    if not 0 < width < 1:
        raise ValueError(f"width must be in (0, 1), got width={width}")
    if not 0 < accuracy <= 1:
        raise ValueError(f"accuracy must be in (0, 1], got accuracy={accuracy}")
    if not (n_tasks >= 2 and n_classes >= 2):
        raise ValueError(
            f"n_tasks and n_classes must be >= 2, got n_tasks={n_tasks}, n_classes={n_classes}"
        )
    check_level(level)
    if not (0 <= count_variance < math.inf and 0 <= difference_variance < math.inf):
        raise ValueError(
            f"variances must be >= 0 and finite, got count_variance={count_variance}, "
            f"difference_variance={difference_variance}"
        )
    reach = 2 * NormalDist().inv_cdf((1 + level) / 2)
    fixed, unseen = count_variance / n_tasks**2, UNSEEN * n_classes

    def plan(n: int) -> GoldPlan:
        error = 2 * ((1 - accuracy) * n + unseen) / (n + 2 * unseen) / n_classes
        sampling, noise = error * (1 / n - 1 / n_tasks), difference_variance / n**2 + fixed
        return GoldPlan(n, reach * math.sqrt(sampling + noise), sampling, noise)

    few, enough = 0, n_tasks  # the width falls with n: bisect between too few and enough
    if plan(enough).width > width:
        return GoldPlan(
            None, *(getattr(plan(enough), key) for key in ("width", "of_sampling", "of_noise"))
        )
    while enough - few > 1:
        middle = (few + enough) // 2
        few, enough = (few, middle) if plan(middle).width <= width else (middle, enough)
    return plan(enough)
