"""Judging: reputations, the filter, and how far the workers kept could be deceived."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from flows.aggregators import consensus_of
from flows.run.crowd import Crowd
from flows.run.history import start_of
from flows.run.store import Run
from flows.settings.sections import FilterSettings
from flows.stages.reading import load
from flows.tables import arrow_table, numpy_array
from quality import (
    CrowdLabels,
    Filtered,
    FilteredDishonest,
    Progress,
    WorkerReport,
    collusion_pairs,
    filter_dishonest,
    filter_workers,
    hard_level,
    krippendorff_alpha,
    robustness_bounds,
    soft_penalty,
    wilson_interval,
    worker_report,
)

__all__ = [
    "agreeing_pairs",
    "filter_by",
    "judge_workers",
    "kept_labels",
    "number_or_none",
    "robustness_curves",
    "worker_table",
]

PENALTIES: dict[str, Callable[[CrowdLabels], np.ndarray]] = {
    "soft": soft_penalty,
    "hard": hard_level,  # whose ranking does not depend on names
}
ADVERSARIES = 10  # how far the robustness curve goes
FALSE_REMOVAL_RATE = 0.1  # where the settings name no stop rule
MOST_MEETINGS = 10_000_000  # of two workers on a task: more would take gigabytes
SHOWN_PAIRS = 10
PAPERS_FRACTION = 0.15  # of the workers; likewise, for a penalty that has no such rate


def judge_workers(run: Run) -> str:
    """Reputations and the filter: who is removed, and why."""
    crowd = load(run)
    chosen = run.settings.filter
    filtered, stop = filter_by(crowd.labels, chosen, seed=run.settings.seed, progress=run.progress)
    kept = crowd.labels.keep_workers(filtered.keep)
    settings, gold = run.settings, crowd.gold_code()
    consensus = consensus_of(
        kept, settings.consensus, seed=settings.seed, gold=gold, start=start_of(run, kept),
        progress=run.progress,
    )  # fmt: skip
    report = worker_report(
        crowd.labels, filtered, consensus.posterior, gold=gold, seconds=crowd.seconds,
        progress=run.progress,
    )  # fmt: skip
    run.write_table("workers.parquet", worker_table(crowd.labels, report))
    run.write_json("robustness.json", robustness_curves(kept))
    names = crowd.labels.workers
    run.write_json(
        "quality.json",
        {
            "alpha": number_or_none(krippendorff_alpha(crowd.labels)),
            "alpha_kept": number_or_none(krippendorff_alpha(kept)),
            "penalty": f"{chosen.penalty} penalty",
            "stop": stop,
            "n_removed": len(filtered.removed),
            "removed": [str(names[code]) for code in filtered.removed],
            "refused": [
                {"worker": str(names[code]), "reason": reason}
                for code, reason in zip(filtered.refused, filtered.refused_reason, strict=True)
            ],
            "labels_removed": crowd.labels.n_labels - kept.n_labels,
            "pairs": agreeing_pairs(crowd.labels),
        },
    )
    return (
        f"{len(filtered.removed)} of {crowd.labels.n_workers} workers removed by {chosen.penalty} "
        f"penalty ({stop}), with {crowd.labels.n_labels - kept.n_labels:,} labels"
    )


def kept_labels(run: Run, crowd: Crowd) -> CrowdLabels:
    """The labels of the workers whom the filter kept."""
    table = run.read_table("workers.parquet")
    flagged = numpy_array(table.column("flagged"))
    removed = np.array(table.column("worker").to_pylist(), dtype=np.str_)[flagged]
    return crowd.labels.keep_workers(~np.isin(crowd.labels.workers, removed))


def filter_by(
    labels: CrowdLabels,
    chosen: FilterSettings,
    *,
    seed: int,
    progress: Progress | None = None,
) -> tuple[Filtered | FilteredDishonest, str]:
    """Filter as the settings say; and the stop rule in words."""
    least, share, n_workers = chosen.min_labels_per_task, chosen.fraction, chosen.n_workers
    if chosen.penalty == "soft" and share is None and n_workers is None:
        rate = (
            FALSE_REMOVAL_RATE if chosen.false_removal_rate is None else chosen.false_removal_rate
        )
        found = filter_dishonest(
            labels,
            false_removal_rate=rate,
            min_labels_per_task=least,
            rng=np.random.default_rng(seed),
            progress=progress,
        )
        return found, f"false removal rate {rate:g}"
    if share is None and n_workers is None:
        share = PAPERS_FRACTION
    filtered = filter_workers(
        labels,
        penalty=PENALTIES[chosen.penalty],
        n_workers=n_workers,
        fraction=share,
        min_labels_per_task=least,
        progress=progress,
    )
    return filtered, f"{n_workers} workers" if share is None else f"{share:.0%} of the workers"


def agreeing_pairs(labels: CrowdLabels) -> dict[str, Any] | None:
    """Pairs who share wrong-looking labels beyond chance; None where too many would have to be looked at."""
    n_labels = np.diff(labels.task_start)
    if int((n_labels * (n_labels - 1)).sum()) > 2 * MOST_MEETINGS:
        return None
    found = collusion_pairs(labels)
    flagged = np.flatnonzero(found.flagged)
    shown = [
        {
            "workers": [str(labels.workers[worker]) for worker in found.worker[pair]],
            "n_shared": int(found.n_shared[pair]),
            "n_same": int(found.n_same[pair]),
            "expected": float(found.expected[pair]),
        }
        for pair in flagged[:SHOWN_PAIRS]
    ]
    return {"n_tested": len(found.p_value), "n_flagged": len(flagged), "shown": shown}


def robustness_curves(kept: CrowdLabels) -> dict[str, Any]:
    """How many tasks adversaries among the workers kept could turn, as plain numbers."""
    bounds = robustness_bounds(kept, max_adversaries=ADVERSARIES, max_steps=0)
    curves = ("n_adversaries", "lower", "upper_one_right", "upper", "name_blind")
    return {curve: getattr(bounds, curve).tolist() for curve in curves} | {
        "n_tasks": bounds.n_tasks
    }


def worker_table(labels: CrowdLabels, report: WorkerReport) -> pa.Table:
    """Workers ranked: removed first, then by reputation, least first."""
    order = np.lexsort((np.arange(labels.n_workers), report.reputation, ~report.flagged))
    right = wilson_interval(report.gold_correct, report.gold_n)
    right = np.where(report.gold_n[:, None] > 0, right, np.nan)
    columns: dict[str, Any] = {
        "rank": np.arange(1, labels.n_workers + 1, dtype=np.int32),
        "worker": labels.workers[order].astype(str),
    }
    for name in (
        "n_labels",
        "n_conflict",
        "agreement",
        "soft_penalty",
        "hard_least",
        "hard_penalty",
        "balanced_penalty",
        "reputation",
        "constant",
        "median_seconds",
        "hasty",
    ):
        columns[name] = getattr(report, name)[order]
    columns |= {
        "gold_n": report.gold_n[order],
        "gold_correct": report.gold_correct[order],
        "gold_low": right[order, 0],
        "gold_high": right[order, 1],
        "flagged": report.flagged[order],
        "reason": [report.reason[code] for code in order],
    }
    return arrow_table(columns)


def number_or_none(value: float) -> float | None:
    """JSON has no NaN: what is not defined is null."""
    return value if np.isfinite(value) else None
