"""Published shares corrected by gold: from released counts and a released correction to a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Float, Int

from flows.run import Run
from flows.settings import PrivacySettings
from flows.spending import Correction, Plan, published_size
from flows.stages.ordered_classes import with_cumulative_shares
from flows.stages.stage import counted
from flows.tables import arrow_table
from privacy import Ledger, Release
from privacy.accounting import price_text
from quality import NoisyShares, noisy_shares
from quality.shares import normal_band

__all__ = [
    "ALL_GROUPS", "Noisy", "correct_shares", "corrected_verdict", "kurtosis_of_sum", "name_of_all",
    "read_correction", "write_shares",
]  # fmt: skip

ALL_GROUPS = "all groups"
NAME = "corrected_shares"


@dataclass(frozen=True, slots=True, eq=False)
class Noisy:
    """Released numbers of one group: what corrects its counts, and how many gold tasks stand behind it.

    A kurtosis is the excess of one class's noise.
    """

    counts: Float[np.ndarray, " classes"]
    difference: Float[np.ndarray, " classes"]
    n_wrong: float
    n_tasks: int
    n_gold: int
    count_covariance: Float[np.ndarray, "classes classes"]
    difference_covariance: Float[np.ndarray, "classes classes"]
    count_kurtosis: float
    difference_kurtosis: float

    def shares(self, level: float) -> NoisyShares:
        """Estimate the true shares."""
        return noisy_shares(
            self.counts, self.difference, self.n_wrong, n_tasks=self.n_tasks, n_gold=self.n_gold,
            count_covariance=self.count_covariance,
            difference_covariance=self.difference_covariance, count_kurtosis=self.count_kurtosis,
            difference_kurtosis=self.difference_kurtosis, level=level,
        )  # fmt: skip


def kurtosis_of_sum(
    variance: Float[np.ndarray, " noises"], kurtosis: Float[np.ndarray, " noises"]
) -> float:
    """Return the excess kurtosis of a sum of independent noises: fourth cumulants add up.

    >>> kurtosis_of_sum(np.ones(3), np.full(3, 3.0))  # a third of that of each
    1.0
    """
    total = float(variance.sum())
    return float(kurtosis @ np.square(variance)) / total**2 if total > 0 else 0.0


def name_of_all(groups: Sequence[str]) -> str:
    """Return the name of all groups together, which is that of no group but an only one.

    >>> name_of_all(["a", "b"]), name_of_all(["a"]), name_of_all(["a", "all groups"])
    ('all groups', 'a', 'all groups together')
    """
    if len(groups) == 1:
        return groups[0]
    name = ALL_GROUPS
    while name in groups:
        name += " together"
    return name


def read_correction(ledger: Ledger, plan: Plan) -> tuple[Release[Any], ...]:
    """Release the correction of a run, if the run has one."""
    if isinstance(plan.correction, str):
        return ()
    return ledger.release_all(plan.correction.mechanism, plan.correction.queries)


def correct_shares(
    run: Run,
    plan: Plan,
    privacy: PrivacySettings,
    classes: Sequence[str],
    counts: Float[np.ndarray, "groups classes"],
    sizes: Int[np.ndarray, " groups"],
    releases: tuple[Release[Any], ...],
) -> str:
    """Write the corrected shares, or the reason for none; return an addition to the stage's line.

    `counts` are the released ones of the plan's groups. Every input is released or public.
    """
    correction = plan.correction
    if isinstance(correction, str):
        run.skip(f"{NAME}.json", correction)
        return ""
    known = _by_group(plan, correction, counts, sizes, releases)
    n_gold = sum(published_size(*one) for one in zip(correction.queries, releases, strict=True))
    facts = {"n_needed": correction.n_needed, "apart": bool(correction.groups)}
    return write_shares(
        run, privacy, classes, known, releases, facts,
        epsilon=correction.mechanism.epsilon, n_gold=n_gold,
    )  # fmt: skip


def write_shares(
    run: Run,
    privacy: PrivacySettings,
    classes: Sequence[str],
    known: dict[str, Noisy],
    releases: Sequence[Release[Any]],
    facts: dict[str, Any],
    *,
    epsilon: float,
    n_gold: int,
) -> str:
    """Write the shares corrected by each group's numbers; return an addition to the stage's line."""
    found = {name: one.shares(privacy.level) for name, one in known.items()}
    table = _table(classes, known, found)
    if run.settings.input.order:
        bands = [
            normal_band(one.share, one.centre, one.error, privacy.level, kurtosis=one.kurtosis)
            for one in found.values()
        ]
        table = with_cumulative_shares(table, bands)
    run.write_table(f"{NAME}.parquet", table)
    run.write_json(
        f"{NAME}.json",
        {
            "epsilon": epsilon,
            "delta": 0.0,
            "arithmetic": releases[0].event.arithmetic,
            "unit": str(privacy.unit),
            "level": privacy.level,
            "sampling": run.settings.input.gold_sampling,
            "n_gold": n_gold,
            "wrong": 1.0 - next(iter(found.values())).accuracy,
            **facts,
            "entries": [release.entry for release in releases],
        },
    )
    return f"; corrected by {counted(n_gold, 'gold task')} at epsilon {price_text(epsilon)}"


def corrected_verdict(found: dict[str, Any]) -> str:
    """Say the price and the groups of the correction, from `corrected_shares.json`."""
    scope = "each group" if found["apart"] else "all groups together"
    more = (
        ""
        if found["apart"]
        else f"; single groups from {counted(found['n_needed'], 'gold task')} in each on"
    )
    return (
        f"shares of {scope} corrected by {counted(found['n_gold'], 'gold task')} at epsilon "
        f"{price_text(found['epsilon'])} per {found['unit']}{more}"
    )


def _by_group(
    plan: Plan,
    correction: Correction,
    counts: Float[np.ndarray, "groups classes"],
    sizes: Int[np.ndarray, " groups"],
    releases: tuple[Release[Any], ...],
) -> dict[str, Noisy]:
    """Return the numbers of each corrected group, and of all together if there are several."""
    n_gold = [published_size(*one) for one in zip(correction.queries, releases, strict=True)]
    values = [
        (np.array(release.value[0], dtype=np.float64), float(release.value[1][1]))
        for release in releases
    ]
    of_counts, of_difference = plan.noise.covariance, correction.difference_covariance
    tails = plan.noise.law.kurtosis, correction.difference_kurtosis
    if not correction.groups:
        (difference, n_wrong), total = values[0], of_counts * len(plan.groups)
        return {
            name_of_all(plan.groups): Noisy(
                counts.sum(axis=0), difference, n_wrong, int(sizes.sum()), n_gold[0], total, of_difference,
                tails[0] / len(plan.groups), tails[1],
            )
        }  # fmt: skip
    place = {name: number for number, name in enumerate(plan.groups)}
    known = {
        name: Noisy(
            counts[place[name]], difference, n_wrong, int(sizes[place[name]]), gold, of_counts,
            of_difference, *tails,
        )
        for name, gold, (difference, n_wrong) in zip(
            correction.groups, n_gold, values, strict=True
        )
    }  # fmt: skip
    whole = name_of_all(plan.groups)
    return known if len(known) < 2 else {whole: _weighted(list(known.values())), **known}


def _weighted(groups: Sequence[Noisy]) -> Noisy:
    """Return all groups as one: corrections weighted by size, with the effective number of gold tasks."""
    total = sum(one.n_tasks for one in groups)
    weight = [one.n_tasks / total / one.n_gold for one in groups]
    worth = max(1, int(1 / sum(w * w * one.n_gold for w, one in zip(weight, groups, strict=True))))
    pairs = list(zip(weight, groups, strict=True))
    spread = np.array(
        [(one.count_covariance[0, 0], w * w * one.difference_covariance[0, 0]) for w, one in pairs]
    )
    tails = np.array([(one.count_kurtosis, one.difference_kurtosis) for one in groups])
    return Noisy(
        np.sum([one.counts for one in groups], axis=0),
        worth * np.sum([w * one.difference for w, one in pairs], axis=0),
        worth * sum(w * one.n_wrong for w, one in pairs),
        total,
        worth,
        np.sum([one.count_covariance for one in groups], axis=0),
        worth**2 * np.sum([w * w * one.difference_covariance for w, one in pairs], axis=0),
        kurtosis_of_sum(spread[:, 0], tails[:, 0]),
        kurtosis_of_sum(spread[:, 1], tails[:, 1]),
    )


def _table(
    classes: Sequence[str], known: dict[str, Noisy], found: dict[str, NoisyShares]
) -> pa.Table:
    """Return a row per group and class: the corrected share and its interval."""
    k = len(classes)
    shares = list(found.values())
    return arrow_table(
        {
            "group": [name for name in found for _ in range(k)],
            "class": list(classes) * len(found),
            "n": np.repeat([one.n_tasks for one in known.values()], k),
            "n_gold": np.repeat([one.n_gold for one in known.values()], k),
            "share": np.concatenate([one.share for one in shares]),
            "low": np.concatenate([one.low for one in shares]),
            "high": np.concatenate([one.high for one in shares]),
            "covariance": np.concatenate([one.covariance for one in shares]),
        }
    )
