"""The correction of a run's class counts by gold: of which groups, its noise, and how much gold it needs.

Public numbers alone decide: the settings, which tasks have gold, the sizes of the groups; and beforehand
sizes, classes, the price and a guess of the crowd's accuracy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from flows.run import Crowd
from flows.settings import PrivacySettings, Settings, SettingsError
from flows.spending.bounded_counts import counted_tasks
from privacy import LatticeCorrection, LatticeLaplace, Query, Unit, gold_corrections
from privacy.accounting import price_text
from quality import gold_for_width

__all__ = [
    "Correction", "GoldProposal", "check_correction_price", "gold_needed", "plan_correction", "propose_gold",
    "split_price", "why_not_corrected",
]  # fmt: skip

CHOSEN = (
    'gold that was chosen (input.gold_sampling = "chosen") is no random sample of the tasks, and says '
    "nothing of the others"
)
NO_GOLD = "no task of a published group has gold"

MAX_CLASSES = 1_000  # of a correction: its covariances are the square

START = 200  # gold tasks that the division of the price is first made for
ROUNDS = 20
PASSED_ON = 1 / 8  # of the variance of the noise on a correction, by a shrunk share


@dataclass(frozen=True, slots=True, eq=False)
class Correction:
    """A correction of class counts that a run pays for.

    `groups` are corrected one by one, each by a query of its own; if there are none, one query is of all
    tasks together. `of_gold` says which labelled tasks are in it, and `n_needed` from how many gold tasks
    on a group is corrected by itself.
    """

    mechanism: LatticeCorrection
    queries: tuple[Query, ...]
    groups: tuple[str, ...]
    of_gold: Bool[np.ndarray, " tasks"]
    n_needed: int
    difference_covariance: Float[np.ndarray, "classes classes"]
    difference_kurtosis: float


def why_not_corrected(settings: Settings) -> str | None:
    """Return why the settings pay for no correction by gold, or None."""
    if settings.privacy is None or settings.privacy.correction_epsilon is None:
        return "shares are the crowd's: a correction has no price (privacy.correction_epsilon)"
    return CHOSEN if settings.input.gold_sampling == "chosen" else None


def gold_needed(mechanism: LatticeCorrection, n_classes: int, *, l1: float = 4.0) -> int:
    """Return from how many gold tasks on the noise of a correction is below the error of any sample.

    The sample's standard error of one share is at most 1 / (2 sqrt(n)); that of the noise is a
    standard deviation over n. Without gold there is no sample, however little the noise.
    """
    return max(1, math.ceil(4 * mechanism.law(n_classes, l1=l1).variance))


def check_correction_price(privacy: PrivacySettings, n_classes: int) -> None:
    """Raise SettingsError if the price of a correction is too small for the law of its noise."""
    if privacy.correction_epsilon is None:
        return
    try:
        l1 = 4.0 * (privacy.max_tasks_per_subject or 1)
        LatticeCorrection(privacy.correction_epsilon).law(n_classes, l1=l1)
    except ValueError as error:
        raise SettingsError(
            f"[privacy]: correction_epsilon must be larger, got {price_text(privacy.correction_epsilon)}: "
            f"{error}"
        ) from None


def plan_correction(
    label: Int[np.ndarray, " tasks"],
    crowd: Crowd,
    settings: Settings,
    privacy: PrivacySettings,
    published: tuple[str, ...],
) -> Correction | str:
    """Return the correction of the published groups' counts, or why there is none."""
    why_not = why_not_corrected(settings)
    if why_not is not None or privacy.correction_epsilon is None:
        return str(why_not)
    if crowd.labels.n_classes > MAX_CLASSES:
        return (
            f"corrected shares hold a covariance of every two classes, so there must be at most "
            f"{MAX_CLASSES:,} of them, got {crowd.labels.n_classes:,}"
        )
    names, group = crowd.labelled_groups()
    chosen = np.isin(names, published)[group] & counted_tasks(crowd, settings)
    gold = np.where(chosen, crowd.gold_code(), -1).astype(np.int64)
    n_gold = np.bincount(group[gold >= 0], minlength=names.size)[np.isin(names, published)]
    if not n_gold.any():
        return NO_GOLD
    mechanism, n_classes = LatticeCorrection(privacy.correction_epsilon), crowd.labels.n_classes
    max_tasks, subjects = privacy.max_tasks_per_subject or 1, privacy.unit is Unit.SUBJECT
    l1 = 4.0 * max_tasks
    needed = gold_needed(mechanism, n_classes, l1=l1)
    apart = not subjects and (len(published) == 1 or bool((n_gold >= needed).all()))
    if not apart and settings.input.gold_sampling == "stratified" and len(published) > 1:
        return (
            f"stratified gold corrects each group by itself, which takes {needed:,} gold tasks in every "
            f"group at this price{' and another unit than subjects' if subjects else ''}"
        )
    queries = gold_corrections(
        label, gold, group, dataset=settings.name, n_classes=n_classes,
        group_names=tuple(names.tolist()), unit=privacy.unit, local=settings.consensus_is_local,
        tasks=crowd.labels.tasks, max_tasks=max_tasks, apart=apart,
    )  # fmt: skip
    groups = tuple(query.part.name for query in queries if query.part is not None)
    law = mechanism.law(n_classes, l1=l1)
    return Correction(mechanism, queries, groups, gold >= 0, needed, law.covariance, law.kurtosis)


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
    220
    """
    if not (n_tasks >= 1 and max_tasks >= 1):  # a share of the price would be 0 or less
        raise SettingsError(
            f"n_tasks and max_tasks must be >= 1, got n_tasks={n_tasks}, max_tasks={max_tasks}"
        )
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
