"""Class proportions of labelled groups under differential privacy; class ratios of the others from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Float, Int

from flows.accounts import open_account
from flows.count_noise import count_noise
from flows.crowd import Crowd
from flows.releases import Plan, grown, plan_releases
from flows.run_store import Run
from flows.section import SettingsError
from flows.stages.reading import load
from flows.stages.skipping import skip, why_no_features, why_nothing_leaves
from learners import ClassRatio, ClassRatioEstimator
from privacy import Ledger, PlanError, PlanEvent, Query, Release, project_to_simplex

__all__ = ["Published", "estimate_ratios", "publish_proportions", "published_in", "write_ratios"]

ANOTHER_PLAN = (
    "Give [privacy] another planned_releases or proportions_epsilon to pay for a new plan"
)


def publish_proportions(run: Run) -> str:
    """Release every labelled group's class counts, once all of the run's releases are known to fit."""
    privacy, why_not = run.settings.privacy, why_nothing_leaves(run.settings)
    if privacy is None or why_not is not None:
        return skip(run, "proportions.json", str(why_not))
    crowd = load(run)
    plan = plan_releases(run, crowd, privacy)
    with open_account(run.settings, privacy, n=crowd.labels.n_tasks) as ledger:
        plan = grown(plan, crowd, run.settings, ledger)
        releases, planned = _release_counts(ledger, plan)
        released_at = max(ledger.time_of(release.entry) for release in releases)
    noise, queries = plan.noise, plan.counts
    classes = [str(name) for name in crowd.labels.classes]
    run.write_table(
        "proportions.parquet", _proportion_table(classes, queries, releases, noise.half_width)
    )
    run.write_json(
        "proportions.json",
        {
            "mechanism": noise.name,
            "reason": noise.reason,
            "epsilon": noise.epsilon,
            "delta": noise.delta,
            **planned,
            "unit": str(privacy.unit),
            "level": privacy.level,
            "half_width_labels": noise.half_width,
            "expected_l1_labels": noise.expected_l1,
            "noise": noise.described(),
            "released_at": released_at,
        },
    )
    again = sum(not release.fresh for release in releases)
    paid = f"{again} of them paid for before" if again else "all newly paid"
    if planned:
        paid = f"release {planned['n_drawn']} of {planned['n_planned']} that this pays for"
    return (
        f"{len(queries)} group{'s' if len(queries) > 1 else ''} at epsilon "
        f"{privacy.proportions_epsilon:g} ({paid}), expected error {noise.expected_l1:.1f} labels a group"
    )


def _release_counts(ledger: Ledger, plan: Plan) -> tuple[tuple[Release[Any], ...], dict[str, int]]:
    """Every group's counts, once the run's releases are known to fit; and how far their plan is used.

    A plan's releases are counted as a task may have been in them: those of a group that has changed,
    or that tasks have joined, count for that group; after a task has changed its group, for all.
    """
    for one in plan.plans():
        _check_not_paid_otherwise(ledger, *one)
    ledger.afford(plan.releases(), plans=plan.plans())
    if not plan.plans():
        return ledger.release_all(plan.noise.mechanism, plan.counts), {}
    ((dataset, event, name),) = plan.plans()
    opened = ledger.open_plan(dataset, event, name=name)
    try:
        releases = ledger.release_all(plan.noise.mechanism, plan.counts, plan=opened)
    except PlanError as error:
        raise SettingsError(
            f"the {error.n_slots} planned releases of class counts are used up, and these data have "
            f"changed since the last; nothing was spent. {ANOTHER_PLAN}"
        ) from None
    (use,) = (one for one in ledger.statement(dataset, entries=0).plans if one.entry == opened)
    return releases, {"n_planned": use.n_releases, "n_drawn": use.used}


def _check_not_paid_otherwise(ledger: Ledger, dataset: str, plan: PlanEvent, name: str) -> None:
    """Refuse to pay twice where what is asked differs from a paid plan in its noise alone."""
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


def estimate_ratios(run: Run) -> str:
    """Class ratios of the groups that nobody labelled, from published proportions and features alone."""
    crowd = load(run)
    published = published_in(run, crowd)
    if isinstance(published, str):
        return skip(run, "class_ratios.json", published)
    features, group, table = crowd.label_features(), crowd.label_group(), crowd.table
    codes = np.searchsorted(crowd.group_names, published.groups)
    new = [table.features[table.group == code] for code in published.unlabelled]
    estimator = ClassRatioEstimator(level=published.level, classes=published.classes)
    try:
        bags = [features[group == code] for code in codes]
        estimator.fit(bags, published.proportions, noise=published.noise)
        found = [estimator.predict(bag) for bag in new]
    except (
        ValueError
    ) as error:  # the groups cannot tell the classes apart, or one has no two tasks:
        return skip(run, "class_ratios.json", str(error))  # public facts, as they are
    return write_ratios(run, crowd, published, found, [len(bag) for bag in new])


@dataclass(frozen=True, slots=True, eq=False)
class Published:
    """What class ratios are learned from, but for the features; and the groups to be told of."""

    groups: tuple[str, ...]
    proportions: Float[np.ndarray, "bags classes"]
    noise: Float[np.ndarray, "bags classes classes"]
    unlabelled: Int[np.ndarray, " groups"]
    level: float
    classes: tuple[str, ...]


def published_in(run: Run, crowd: Crowd) -> Published | str:
    """The run's published proportions and their noise; or why there are no class ratios."""
    unlabelled = np.setdiff1d(np.arange(crowd.group_names.size), crowd.label_group())
    privacy, why_not = run.settings.privacy, why_nothing_leaves(run.settings)
    why_not = why_not or why_no_features(crowd)
    if why_not is None and not unlabelled.size:
        why_not = "every group has labels"
    if privacy is None or why_not is not None:
        return str(why_not)
    table, n_classes = run.read_table("proportions.parquet"), crowd.labels.n_classes
    size = table.column("n").to_numpy()[::n_classes].astype(np.float64)
    return Published(
        groups=tuple(table.column("group").to_pylist()[::n_classes]),
        proportions=table.column("proportion").to_numpy().reshape(-1, n_classes),
        noise=count_noise(privacy, n_classes).projected / np.square(size)[:, None, None],
        unlabelled=unlabelled,
        level=privacy.level,
        classes=tuple(crowd.labels.classes.astype(str).tolist()),
    )


def write_ratios(
    run: Run,
    crowd: Crowd,
    published: Published,
    found: list[ClassRatio],
    sizes: list[int],
    *,
    streamed: bool = False,
) -> str:
    """Write the unlabelled groups' class ratios, and say how far to trust them."""
    names = crowd.group_names[published.unlabelled].astype(str).tolist()
    ratios = dict(zip(names, found, strict=True))
    run.write_table("class_ratios.parquet", _ratio_table(list(published.classes), ratios, sizes))
    first, private = found[0], run.settings.input.features_private
    method = f"{first.method} of streamed features" if streamed else first.method
    run.write_json(
        "class_ratios.json",
        {
            "method": method,
            "bandwidth": first.bandwidth,
            "level": first.level,
            "cross_validated_l1": first.diagnostics.error_left_out,
            "warnings": sorted({text for one in found for text in one.diagnostics.warnings}),
            "public": not private,
            "why_internal": "the features are private and were read in the clear"
            if private
            else None,
        },
    )
    how = f", by {method}" if streamed else ""
    error = first.diagnostics.error_left_out
    return f"{len(found)} unlabelled groups, cross-validated L1 error {error:.3f}{how}"


def _proportion_table(
    classes: list[str],
    queries: tuple[Query, ...],
    releases: tuple[Release[Any], ...],
    half_width: float,
) -> pa.Table:
    """One row per group and class: the raw noisy count, and the projected proportion with its interval."""
    n = np.array([query.n for query in queries])
    noisy = np.array([release.value for release in releases])
    proportion = np.array(
        [project_to_simplex(row, total=float(m)) / m for row, m in zip(noisy, n, strict=True)]
    )
    low = np.clip((noisy - half_width) / n[:, None], 0, 1)
    high = np.clip((noisy + half_width) / n[:, None], 0, 1)
    entry = [release.entry for release in releases]
    groups = [query.part.name for query in queries if query.part is not None]
    k = len(classes)
    return pa.table(
        {
            "group": [name for name in groups for _ in classes],
            "class": classes * len(queries),
            "n": np.repeat(n, k),
            "noisy_count": noisy.ravel(),
            "proportion": proportion.ravel(),
            "low": low.ravel(),
            "high": high.ravel(),
            "entry": np.repeat(entry, k),
        }
    )


def _ratio_table(classes: list[str], found: dict[str, ClassRatio], sizes: list[int]) -> pa.Table:
    """One row per unlabelled group and class."""
    intervals = np.concatenate([one.interval for one in found.values()])
    return pa.table(
        {
            "group": [name for name in found for _ in classes],
            "class": classes * len(found),
            "n": np.repeat(sizes, len(classes)),
            "ratio": np.concatenate([one.ratio for one in found.values()]),
            "low": intervals[:, 0],
            "high": intervals[:, 1],
        }
    )
