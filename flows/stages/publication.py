"""Class proportions of labelled groups, published under differential privacy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Int

from flows.run import Run, load_crowd
from flows.settings import PrivacySettings, Settings, SettingsError
from flows.spending import (
    SET_THRESHOLD,
    Plan,
    paying,
    plan_releases,
    published_group_sizes,
    with_grown_partition,
)
from flows.stages.corrected_shares import correct_shares, read_correction
from flows.stages.ordered_classes import counted_bands, with_cumulative_shares
from flows.stages.stage import counted
from flows.stages.year_counts import publish_year, skip_counts, unpaid_words, year_words
from flows.tables import arrow_table
from privacy import BudgetError, Ledger, PlanError, PlanEvent, Release, project_to_simplex
from privacy.accounting import level_text, price_text

__all__ = ["proportions_verdict", "publish_proportions", "published", "why_no_release"]

ANOTHER_PLAN = (
    "Give [privacy] another planned_releases or proportions_epsilon to pay for a new plan"
)


def publish_proportions(run: Run) -> str:
    """Release every labelled group's class counts, once all of the run's releases are known to fit."""
    privacy, why_not = run.settings.privacy, why_no_release(run.settings)
    if privacy is None or why_not is not None:
        run.skip("corrected_shares.json", str(why_not))
        return run.skip("proportions.json", str(why_not))
    run.waits_for("the campaign as it was read")
    crowd = load_crowd(run.folder)
    run.waits_for("the plan of all releases")
    if privacy.planned_runs > 1:
        return publish_year(run, crowd, privacy)
    plan = plan_releases(run, crowd, privacy)
    run.waits_for("the ledger")
    with paying(run, privacy, n=crowd.labels.n_tasks) as ledger:
        plan = with_grown_partition(plan, crowd, run.settings, ledger)
        try:
            releases, planned = _release_counts(ledger, plan, at_once=not privacy.skips_unpaid)
        except BudgetError as error:
            if not privacy.skips_unpaid:
                raise
            return skip_counts(run, privacy, error, run.publication)
        try:
            corrections = read_correction(ledger, plan)
        except BudgetError as error:  # of a stage that may be skipped; the others fit
            plan, corrections = replace(plan, correction=unpaid_words(error)), ()
        released_at = ledger.time_of(*(release.entry for release in releases + corrections))
    run.waits_for("the shares and their intervals")
    noise, n_groups = plan.noise, len(plan.groups)
    classes = [str(name) for name in crowd.labels.classes]
    sizes = published_group_sizes(plan, releases)
    exclusive = privacy.max_labels is None
    table = _proportion_table(
        classes, plan.groups, sizes, releases, noise.half_width, exclusive=exclusive
    )
    if run.settings.input.order:
        bands = counted_bands(table, [[noise.law]] * n_groups, privacy.level)
        table = with_cumulative_shares(table, bands)
    run.write_table("proportions.parquet", table)
    found = _facts(run, plan, privacy, releases) | planned | {"released_at": released_at}
    run.write_json("proportions.json", found)
    again = sum(not release.fresh for release in releases) * n_groups // len(releases)
    paid = f"{again} of them paid for before" if again else "all newly paid"
    if planned:
        paid = f"release {planned['n_drawn']} of {planned['n_planned']} that this pays for"
    if run.publication is not None:
        n_stale = sum(release.stale for release in releases)
        changed = "groups" if plan.together else counted(n_stale, "group")
        older = f", {changed} changed since" if n_stale else ""
        paid = f"publication {run.publication}: {paid}{older}"
    noisy = np.array([release.value for release in releases], dtype=np.float64)
    noisy = noisy.reshape(n_groups, -1)[:, : len(classes)]
    corrected = correct_shares(run, plan, privacy, classes, noisy, sizes, corrections)
    return (
        f"{counted(n_groups, 'group')} at epsilon "
        f"{price_text(privacy.proportions_epsilon)} per {privacy.unit} ({paid}), expected error "
        f"{noise.expected_l1:.1f} labels a group{_left_out(plan, privacy)}{corrected}"
    )


def _facts(
    run: Run, plan: Plan, privacy: PrivacySettings, releases: Sequence[Release[Any]]
) -> dict[str, Any]:
    """Return the run's facts about all groups."""
    noise = plan.noise
    return {
        "mechanism": noise.name,
        "reason": noise.reason,
        "epsilon": noise.epsilon,
        "delta": noise.delta,
        "arithmetic": releases[0].event.arithmetic,
        "unit": str(privacy.unit),
        "level": privacy.level,
        "half_width_labels": noise.half_width,
        "expected_l1_labels": noise.expected_l1,
        "noise": noise.described(),
        "publication": run.publication,
        "n_stale": sum(release.stale for release in releases),
        "budget": {"epsilon": privacy.epsilon, "delta": privacy.delta},
        **_subject_facts(plan, privacy),
        **_set_facts(plan, privacy),
    }


def _subject_facts(plan: Plan, privacy: PrivacySettings) -> dict[str, Any]:
    """Return how subjects were bounded, if protected; the number of tasks left out is internal."""
    if privacy.max_tasks_per_subject is None:
        return {}
    bound = {"max_tasks": privacy.max_tasks_per_subject, "together": plan.together}
    return bound | {"n_left_out": plan.n_left_out}


def _set_facts(plan: Plan, privacy: PrivacySettings) -> dict[str, Any]:
    """Return how many classes of a task count, where several hold; the number left out is internal."""
    if privacy.max_labels is None:
        return {}
    return {
        "max_labels": privacy.max_labels, "threshold": SET_THRESHOLD, "n_left_out": plan.n_left_out,
    }  # fmt: skip


def _left_out(plan: Plan, privacy: PrivacySettings) -> str:
    """Return the end of the stage's line where tasks, or classes of tasks, do not count."""
    if not plan.n_left_out:
        return ""
    if privacy.max_labels is not None:
        classes = "class" if plan.n_left_out == 1 else "classes"
        return f"; {plan.n_left_out:,} {classes} beyond {privacy.max_labels} a task left out"
    tasks = counted(plan.n_left_out, "task")
    return f"; {tasks} beyond {privacy.max_tasks_per_subject} a subject left out"


def proportions_verdict(found: dict[str, Any]) -> str:
    """Say what the class counts cost and how far they err, from `proportions.json`."""
    planned = f" for all {found['n_planned']} releases" if "n_planned" in found else ""
    year = f"; {year_words(found['year'])}" if "year" in found else ""
    return (
        f"{found['mechanism']} at epsilon {price_text(found['epsilon'])}{planned} per "
        f"{found['unit']}, each count within ±{counted(found['half_width_labels'], 'label')} at "
        f"{level_text(found['level'])}{published(found['publication'], stale=found['n_stale'])}"
        f"{year}"
    )


def published(key: str | None, *, stale: bool | int) -> str:
    """Return an addition, for the team, to a sentence about a value that a key has published."""
    if key is None:
        return ""
    return f"; publication {key}" + (", older than these data" if stale else "")


def why_no_release(settings: Settings) -> str | None:
    """Return why no release can be made under these settings, or None."""
    if settings.privacy is None:
        return "the settings have no [privacy] section, so nothing is released"
    if settings.classes is None:
        return (
            "the settings do not declare the classes, and names found in private labels would leak"
        )
    return None


def _release_counts(
    ledger: Ledger, plan: Plan, *, at_once: bool
) -> tuple[tuple[Release[Any], ...], dict[str, int]]:
    """Release every group's counts, and return how far their plan is used.

    `at_once` first asks the ledger whether all releases of the run fit together.

    A plan's releases are counted as a task may have been in them: those of a group that has changed,
    or that tasks have joined, count for that group; after a task has changed its group, for all.
    """
    for one in plan.plans():
        _check_not_paid_otherwise(ledger, *one)
    if at_once:
        ledger.afford(plan.releases(), plans=plan.plans())
    if not plan.plans():
        return ledger.release_all(plan.mechanism, plan.counts), {}
    ((dataset, event, name),) = plan.plans()
    opened = ledger.open_plan(dataset, event, name=name)
    try:
        releases = ledger.release_all(plan.mechanism, plan.counts, plan=opened)
    except PlanError as error:
        raise SettingsError(
            f"the {error.n_slots} planned releases of class counts are used up, and this is none of "
            f"them; nothing was spent. {ANOTHER_PLAN}"
        ) from None
    (use,) = (one for one in ledger.statement(dataset, entries=0).plans if one.entry == opened)
    return releases, {"n_planned": use.n_releases, "n_drawn": use.used}


def _check_not_paid_otherwise(ledger: Ledger, dataset: str, plan: PlanEvent, name: str) -> None:
    """Refuse to pay twice for a request that differs from a paid plan in its noise alone."""
    price = name, plan.cost(), sum(count for _, count in plan.events)
    paid = [
        one.plan
        for one in ledger.statement(dataset, entries=0).plans
        if (one.name, one.plan.cost(), one.n_releases) == price
    ]
    if paid and plan not in paid:
        raise SettingsError(
            "a plan of this price is paid already, for other classes or by a version that chose "
            f"other noise; nothing was spent. {ANOTHER_PLAN}"
        )


def _proportion_table(
    classes: list[str],
    groups: Sequence[str],
    n: Int[np.ndarray, " groups"],
    releases: tuple[Release[Any], ...],
    half_width: float,
    *,
    exclusive: bool,
) -> pa.Table:
    """Return a row per group and class: the raw noisy count, and the proportion with its interval.

    There is a release for each group, or one for all of them. Proportions of classes that are `exclusive` are
    projected to add up to 1; others are kept within 0 and 1.
    """
    k = len(classes)
    noisy = np.array([release.value for release in releases]).reshape(n.size, -1)[:, :k]
    proportion = np.clip(noisy / n[:, None], 0, 1)
    if exclusive:
        proportion = np.array(
            [project_to_simplex(row, total=float(m)) / m for row, m in zip(noisy, n, strict=True)]
        )
    low = np.clip((noisy - half_width) / n[:, None], 0, 1)
    high = np.clip((noisy + half_width) / n[:, None], 0, 1)
    entry = [release.entry for release in releases] * (n.size // len(releases))
    return arrow_table(
        {
            "group": [name for name in groups for _ in classes],
            "class": classes * n.size,
            "n": np.repeat(n, k),
            "noisy_count": noisy.ravel(),
            "proportion": proportion.ravel(),
            "low": low.ravel(),
            "high": high.ravel(),
            "entry": np.repeat(entry, k),
        }
    )
