"""Judging: reputations, the filter, and how many tasks adversaries could turn against the workers kept."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Bool

from flows.run import Crowd, Run
from flows.stages.campaign_labels import open_labels
from flows.tables import arrow_table, numpy_array
from quality import (
    CrowdLabels,
    Filtered,
    FilteredDishonest,
    WorkerReport,
    collusion_pairs,
    robustness_bounds,
    wilson_interval,
)

__all__ = [
    "agreeing_pairs", "crowd_verdict", "judge_workers", "kept_workers", "robustness_curves",
    "worker_table",
]  # fmt: skip

MAX_ADVERSARIES = 10  # how far the robustness curve goes
MAX_MEETINGS = 10_000_000  # of two workers on a task: more would take gigabytes
SHOWN_PAIRS = 10
NUMBERS = (
    "n_labels", "n_conflict", "agreement", "soft_penalty", "hard_least", "hard_penalty",
    "balanced_penalty", "reputation", "constant", "median_seconds", "hasty", "gold_n", "gold_correct",
)  # fmt: skip


def judge_workers(run: Run) -> str:
    """Judge the workers, and remove those whom the filter finds."""
    with open_labels(run) as labels:
        filtered, stop = labels.filter_workers()
        judged, whole, names = labels.judge(filtered), labels.whole(), labels.crowd.labels.workers
    run.write_table("workers.parquet", worker_table(names, judged.report, judged.left_out))
    run.write_json("robustness.json", robustness_curves(judged.kept))
    penalty = f"{run.settings.filter.penalty} penalty"
    run.write_json(
        "quality.json",
        {
            "alpha": _number_or_none(judged.alpha),
            "alpha_kept": _number_or_none(judged.alpha_kept),
            "penalty": penalty,
            "stop": stop,
            **_removed(filtered, names),
            "labels_removed": judged.n_labels_removed,
            "pairs": None if whole is None else agreeing_pairs(whole),
        },
    )
    return (
        f"{len(filtered.removed)} of {len(names)} workers removed by {penalty} ({stop}), with "
        f"{judged.n_labels_removed:,} labels"
    )


def crowd_verdict(found: dict[str, Any]) -> str:
    """Say how well the workers agree, from `quality.json`."""
    alpha, kept = (
        "undefined" if found[name] is None else f"{found[name]:.2f}"
        for name in ("alpha", "alpha_kept")
    )
    removed = f"{kept} without the {found['n_removed']:,} removed"
    without = removed if found["n_removed"] else "nobody was removed"
    return f"agreement alpha {alpha} (1: all agree, 0: as by chance), {without}"


def kept_workers(run: Run, crowd: Crowd) -> Bool[np.ndarray, " workers"]:
    """True for each worker whom the filter kept, as `judge_workers` wrote it."""
    table = run.read_table("workers.parquet")
    flagged = numpy_array(table.column("flagged"))
    removed = np.array(table.column("worker").to_pylist(), dtype=np.str_)[flagged]
    kept: np.ndarray = ~np.isin(crowd.labels.workers, removed)
    return kept


def agreeing_pairs(labels: CrowdLabels) -> dict[str, Any] | None:
    """Pairs who share wrong-looking labels beyond chance; None if too many pairs have met."""
    n_labels = np.diff(labels.task_start)
    if int((n_labels * (n_labels - 1)).sum()) > 2 * MAX_MEETINGS:
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


def robustness_curves(kept: CrowdLabels | None) -> dict[str, Any]:
    """How many tasks adversaries could turn who join the workers kept, as plain numbers."""
    if kept is None:
        return {"skipped": "there are more labels than engine.whole_labels"}
    bounds = robustness_bounds(kept, max_adversaries=MAX_ADVERSARIES, max_steps=0)
    curves = ("n_adversaries", "lower", "upper_one_right", "upper", "name_blind")
    return {curve: getattr(bounds, curve).tolist() for curve in curves} | {
        "n_tasks": bounds.n_tasks
    }


def worker_table(
    workers: np.ndarray, report: WorkerReport, left_out: tuple[str, ...] = ()
) -> pa.Table:
    """Workers ranked: removed first, then by reputation, lowest first; null for what was left out."""
    n_workers = workers.size
    order = np.lexsort((np.arange(n_workers), report.reputation, ~report.flagged))
    right = wilson_interval(report.gold_correct, report.gold_n)
    right = np.where(report.gold_n[:, None] > 0, right, np.nan)
    table = arrow_table(
        {"rank": np.arange(1, n_workers + 1, dtype=np.int32), "worker": workers[order].astype(str)}
        | {name: getattr(report, name)[order] for name in NUMBERS}
        | {
            "gold_low": right[order, 0],
            "gold_high": right[order, 1],
            "flagged": report.flagged[order],
            "reason": [report.reason[code] for code in order],
        }
    )
    for name in left_out:
        place = table.schema.get_field_index(name)
        table = table.set_column(place, name, pa.nulls(n_workers, table.schema.field(name).type))
    return table


def _removed(filtered: Filtered | FilteredDishonest, names: np.ndarray) -> dict[str, Any]:
    """Whom the filter removed, and whose removal it refused."""
    refused = zip(filtered.refused, filtered.refused_reason, strict=True)
    return {
        "n_removed": len(filtered.removed),
        "removed": [str(names[code]) for code in filtered.removed],
        "refused": [{"worker": str(names[code]), "reason": reason} for code, reason in refused],
        "worst_kept": _worst_kept(filtered, names),
    }


def _worst_kept(filtered: Filtered | FilteredDishonest, names: np.ndarray) -> dict[str, str] | None:
    """Who was nearest to being removed, and why she was not; None where the filter does not judge."""
    if not isinstance(filtered, FilteredDishonest) or filtered.worst_kept < 0:
        return None
    return {"worker": str(names[filtered.worst_kept]), "reason": filtered.worst_kept_reason}


def _number_or_none(value: float) -> float | None:
    """JSON has no NaN: what is not defined is null."""
    return value if np.isfinite(value) else None
