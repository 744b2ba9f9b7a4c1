"""Class proportions of labelled groups under differential privacy; class ratios of the others from them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from flows.accounts import open_account
from flows.crowd import Crowd, load_crowd
from flows.releases import plan_releases
from flows.run_store import Run
from flows.settings import PrivacySettings
from flows.stages.quality import CROWD
from flows.stages.skipping import skip, why_no_features, why_nothing_leaves
from learners import ClassRatio, ClassRatioEstimator
from privacy import LatticeLaplace, Query, Release, project_to_simplex

__all__ = ["estimate_ratios", "publish_proportions"]


def publish_proportions(run: Run) -> str:
    """Release every labelled group's class counts, once all of the run's releases are known to fit."""
    privacy, why_not = run.settings.privacy, why_nothing_leaves(run.settings)
    if privacy is None or why_not is not None:
        return skip(run, "proportions.json", str(why_not))
    crowd = load_crowd(run.folder / CROWD)
    plan = plan_releases(run, crowd, privacy)
    mechanism, queries = plan.mechanism, plan.counts
    with open_account(run.settings, privacy, n=crowd.labels.n_tasks) as ledger:
        ledger.afford(plan.releases())
        releases = ledger.release_all(mechanism, queries)
        released_at = max(ledger.time_of(release.entry) for release in releases)
    classes = [str(name) for name in crowd.labels.classes]
    law = mechanism.law(len(classes))
    half_width = law.half_width(privacy.level)
    run.write_table(
        "proportions.parquet", _proportion_table(classes, queries, releases, half_width)
    )
    run.write_json(
        "proportions.json",
        {
            "mechanism": "lattice Laplace",
            "epsilon": privacy.proportions_epsilon,
            "delta": 0.0,
            "unit": str(privacy.unit),
            "level": privacy.level,
            "half_width_labels": half_width,
            "expected_l1_labels": law.expected_l1,
            "released_at": released_at,
        },
    )
    again = sum(not release.fresh for release in releases)
    paid = f"{again} of them paid for before" if again else "all newly paid"
    return (
        f"{len(queries)} group{'s' if len(queries) > 1 else ''} at epsilon "
        f"{privacy.proportions_epsilon:g} ({paid}), expected error {law.expected_l1:.1f} labels a group"
    )


def estimate_ratios(run: Run) -> str:
    """Class ratios of the groups that nobody labelled, from published proportions and features alone."""
    crowd = load_crowd(run.folder / CROWD)
    unlabelled = np.setdiff1d(np.arange(crowd.group_names.size), crowd.label_group())
    privacy, why_not = run.settings.privacy, why_nothing_leaves(run.settings)
    why_not = why_not or why_no_features(crowd)
    if why_not is None and not unlabelled.size:
        why_not = "every group has labels"
    if privacy is None or why_not is not None:
        return skip(run, "class_ratios.json", str(why_not))
    try:
        estimator = _fit(run, crowd, privacy)
    except (
        ValueError
    ) as error:  # the groups cannot tell the classes apart: public facts, as they are
        return skip(run, "class_ratios.json", str(error))
    bags = {
        str(crowd.group_names[code]): crowd.table.features[crowd.table.group == code]
        for code in unlabelled
    }
    found = {name: estimator.predict(bag) for name, bag in bags.items()}
    classes = [str(name) for name in crowd.labels.classes]
    sizes = [len(bag) for bag in bags.values()]
    run.write_table("class_ratios.parquet", _ratio_table(classes, found, sizes))
    first, private = next(iter(found.values())), run.settings.input.features_private
    run.write_json(
        "class_ratios.json",
        {
            "method": "kernel mean matching (MMD), simplex QP",
            "bandwidth": first.bandwidth,
            "level": first.level,
            "cross_validated_l1": first.diagnostics.error_left_out,
            "warnings": sorted(
                {text for one in found.values() for text in one.diagnostics.warnings}
            ),
            "public": not private,
            "why_internal": "the features are private and were read in the clear"
            if private
            else None,
        },
    )
    return (
        f"{len(found)} unlabelled groups, cross-validated L1 error "
        f"{first.diagnostics.error_left_out:.3f}"
    )


def _fit(run: Run, crowd: Crowd, privacy: PrivacySettings) -> ClassRatioEstimator:
    """The estimator fitted on the published proportions, told their noise."""
    table, n_classes = run.read_table("proportions.parquet"), crowd.labels.n_classes
    names = table.column("group").to_pylist()[::n_classes]
    size = table.column("n").to_numpy()[::n_classes]
    proportions = table.column("proportion").to_numpy().reshape(-1, n_classes)
    law = LatticeLaplace(epsilon=privacy.proportions_epsilon).law(n_classes)
    features, group = crowd.label_features(), crowd.group_names[crowd.label_group()]
    bags = [features[group == name] for name in names]
    noise = law.covariance / np.square(size, dtype=np.float64)[:, None, None]
    classes = tuple(crowd.labels.classes.astype(str).tolist())
    estimator = ClassRatioEstimator(level=privacy.level, classes=classes)
    return estimator.fit(bags, proportions, noise=noise)


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
