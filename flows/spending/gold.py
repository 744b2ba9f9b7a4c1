"""How many gold tasks a corrected share needs at a price, and how that price is best divided.

Public numbers alone are used: sizes, classes, the price, a guess of the crowd's accuracy.
"""

from __future__ import annotations

from dataclasses import dataclass

from flows.settings import SettingsError
from flows.spending.corrections import gold_needed
from privacy import LatticeCorrection, LatticeLaplace
from quality import gold_for_width

__all__ = ["GoldProposal", "propose_gold", "split_price"]

START = 200  # gold tasks that the division of the price is first made for
ROUNDS = 20
PASSED_ON = 1 / 8  # of the variance of the noise on a correction, by a shrunk share


@dataclass(frozen=True, slots=True)
class GoldProposal:
    """How many gold tasks to label, and the prices to set; prices are None where nothing is private.

    `n_gold` is None if no number of gold tasks brings the width; `width` is then that of gold for all
    tasks. `n_each` is from how many gold tasks in each group on groups are corrected one by one.
    """

    n_gold: int | None
    width: float
    proportions_epsilon: float | None
    correction_epsilon: float | None
    n_each: int | None


def split_price(price: float, *, n_tasks: int, n_gold: int, l1: float = 4.0) -> tuple[float, float]:
    """Divide a price between class counts and their correction so that a shrunk share errs least.

    The noise of a share has scale 2 / (epsilon n_tasks) from the counts, and l1 / (epsilon n_gold) from the
    correction. The share has all of the first and about an eighth of the second's variance, as it takes the
    correction as far as noise lets it be seen; that sum is least where the prices are as the scales to
    the power 2/3, the second halved. Intervals, which have all of the noise, are a tenth wider for it
    with five tasks to a gold task, and less with more.

    Examples
    --------
    >>> counts, correction = split_price(1.0, n_tasks=1_600, n_gold=200)
    >>> round(counts, 3), round(correction, 3)
    (0.24, 0.76)
    """
    ratio = (l1 / 2 * n_tasks / n_gold) ** (2 / 3) * PASSED_ON ** (1 / 3)
    return price / (1 + ratio), price * ratio / (1 + ratio)


def propose_gold(
    width: float,
    *,
    accuracy: float,
    n_tasks: int,
    n_classes: int,
    level: float,
    price: float | None = None,
    max_tasks: int = 1,
) -> GoldProposal:
    """Return how many random gold tasks bring intervals of a width, at a price for counts and correction.

    Parameters
    ----------
    width, accuracy, n_tasks, n_classes, level
        As for `quality.gold_for_width`.
    price
        Epsilon of class counts and correction together; None where nothing is private.
    max_tasks
        Tasks that count of one subject, where subjects are protected.

    Raises
    ------
    SettingsError
        If a number is out of its range.

    Examples
    --------
    >>> propose_gold(0.1, accuracy=0.8, n_tasks=5_000, n_classes=4, level=0.9, price=1.0).n_gold
    217
    """
    about = {"accuracy": accuracy, "n_tasks": n_tasks, "n_classes": n_classes, "level": level}
    n, counts, correction, variances, each = START, None, None, {}, None
    for _ in range(ROUNDS):
        try:
            if price is not None:
                counts, correction = split_price(
                    price, n_tasks=n_tasks, n_gold=n, l1=4.0 * max_tasks
                )
                mechanism = LatticeCorrection(correction)
                variances = {
                    "count_variance": LatticeLaplace(counts)
                    .law(n_classes, l1=2.0 * max_tasks)
                    .variance,
                    "difference_variance": mechanism.law(n_classes, l1=4.0 * max_tasks).variance,
                }
                each = gold_needed(mechanism, n_classes, l1=4.0 * max_tasks)
            found = gold_for_width(width, **about, **variances)  # type: ignore[arg-type]
        except ValueError as error:  # every number here is the caller's own, and public
            raise SettingsError(str(error)) from None
        asked = n_tasks if found.n_gold is None else found.n_gold
        if asked == n:
            break
        n = asked
    return GoldProposal(found.n_gold, found.width, counts, correction, each)
