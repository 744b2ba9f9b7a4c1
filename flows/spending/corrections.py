"""The correction of a run's class counts by gold: whether there is one, of which groups, and its noise.

Public numbers alone decide: the settings, which tasks have gold, the sizes of the groups.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from flows.run import Crowd
from flows.settings import PrivacySettings, Settings
from flows.spending.bounded_counts import counted_tasks
from privacy import LatticeCorrection, Query, Unit, gold_corrections

__all__ = ["Correction", "gold_needed", "plan_correction", "why_not_corrected"]

CHOSEN = (
    'gold that was chosen (input.gold_sampling = "chosen") is no random sample of the tasks, and says '
    "nothing of the others"
)
NO_GOLD = "no task of a published group has gold"

MAX_CLASSES = 1_000  # of a correction: its covariances are the square


@dataclass(frozen=True, slots=True, eq=False)
class Correction:
    """A correction of class counts that a run pays for.

    `groups` are corrected one by one, each by a query of its own; if there are none, one query is of all
    tasks together. `n_needed` is from how many gold tasks on a group is corrected by itself.
    """

    mechanism: LatticeCorrection
    queries: tuple[Query, ...]
    groups: tuple[str, ...]
    n_needed: int
    difference_covariance: Float[np.ndarray, "classes classes"]
    difference_kurtosis: float


def why_not_corrected(settings: Settings) -> str | None:
    """Why the settings pay for no correction by gold, or None."""
    if settings.privacy is None or settings.privacy.correction_epsilon is None:
        return "privacy.correction_epsilon is not given, so shares are of what the crowd said"
    return CHOSEN if settings.input.gold_sampling == "chosen" else None


def gold_needed(mechanism: LatticeCorrection, n_classes: int, *, l1: float = 4.0) -> int:
    """Return from how many gold tasks on the noise of a correction is below the error of any sample.

    The sample's standard error of one share is at most 1 / (2 sqrt(n)); that of the noise is a
    standard deviation over n.
    """
    return math.ceil(4 * mechanism.law(n_classes, l1=l1).variance)


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
    return Correction(mechanism, queries, groups, needed, law.covariance, law.kurtosis)
