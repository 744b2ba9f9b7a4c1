"""One function per stage: read what it needs, call the pure rooms, write the result, say one line.

The stages that hold the ledger are in `private_stages.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from flows.crowd import Crowd, load_crowd, save_crowd
from flows.run_store import Run, file_digest
from flows.settings import ConsensusSettings, FilterSettings
from flows.tables import read_gold, read_labels, read_tasks, refuse_hollow
from quality import (
    CrowdLabels,
    DawidSkene,
    HierarchicalDawidSkene,
    MajorityVote,
    NextLabels,
    OneCoin,
    WorkerReport,
    accuracy,
    dawid_skene,
    filter_workers,
    hard_level,
    hierarchical_dawid_skene,
    krippendorff_alpha,
    majority_vote,
    next_labels,
    one_coin_dawid_skene,
    soft_penalty,
    wilson_interval,
    worker_report,
)

__all__ = [
    "CROWD",
    "PENALTIES",
    "aggregate",
    "consensus_of",
    "judge_workers",
    "kept_labels",
    "read_and_check",
]

CROWD = "crowd.npz"
Consensus = DawidSkene | HierarchicalDawidSkene | MajorityVote | OneCoin
PENALTIES: dict[str, Callable[[CrowdLabels], np.ndarray]] = {
    "soft": soft_penalty,
    "hard": hard_level,  # whose ranking does not depend on names
}
PAPERS_FRACTION = 0.15  # of the workers, where the settings name no stop rule


def read_and_check(run: Run) -> str:
    """Read and check the tables; nothing is written before all of them are sound."""
    inputs, classes = run.settings.input, run.settings.classes
    tasks = (
        read_tasks(inputs.tasks, run.settings.groups, standardize=inputs.standardize)
        if inputs.tasks
        else None
    )
    gold = None if inputs.gold is None else read_gold(inputs.gold, classes=classes)
    labels = read_labels(
        inputs.labels,
        classes=classes,
        duplicates=inputs.duplicates,
        known_tasks=None if tasks is None else tasks.names,
    )
    refuse_hollow(labels, inputs.labels.name)
    crowd = Crowd(labels, tasks, gold)
    save_crowd(run.folder / CROWD, crowd)
    counts = _counts(crowd)
    files = [("labels", inputs.labels), *(("tasks", path) for path in inputs.tasks)]
    files += [("gold", inputs.gold)] if inputs.gold else []
    described = [
        {"role": role, "name": path.name, "sha256": file_digest(path)} for role, path in files
    ]
    named = list(map(str, labels.classes))
    run.write_json(
        "inputs.json", {"name": run.settings.name, "classes": named, "files": described} | counts
    )
    return (
        f"{counts['n_labels']:,} labels of {counts['n_labelled_tasks']:,} tasks by "
        f"{counts['n_workers']:,} workers, {counts['n_classes']} classes"
    )


def judge_workers(run: Run) -> str:
    """Reputations and the filter: who is removed, and why."""
    crowd = load_crowd(run.folder / CROWD)
    chosen, stop_rule, stop = run.settings.filter, *_stop_rule(run.settings.filter)
    filtered = filter_workers(
        crowd.labels,
        penalty=PENALTIES[chosen.penalty],
        min_labels_per_task=chosen.min_labels_per_task,
        **stop_rule,
    )
    kept = crowd.labels.keep_workers(filtered.keep)
    consensus = consensus_of(kept, run.settings.consensus)
    report = worker_report(crowd.labels, filtered, consensus.posterior, gold=crowd.gold_code())
    run.write_table("workers.parquet", _worker_table(crowd.labels, report))
    names = crowd.labels.workers
    run.write_json(
        "quality.json",
        {
            "alpha": _number(krippendorff_alpha(crowd.labels)),
            "alpha_kept": _number(krippendorff_alpha(kept)),
            "penalty": f"{chosen.penalty} penalty",
            "stop": stop,
            "n_removed": len(filtered.removed),
            "removed": [str(names[code]) for code in filtered.removed],
            "refused": [
                {"worker": str(names[code]), "reason": reason}
                for code, reason in zip(filtered.refused, filtered.refused_reason, strict=True)
            ],
            "labels_removed": crowd.labels.n_labels - kept.n_labels,
        },
    )
    return (
        f"{len(filtered.removed)} of {crowd.labels.n_workers} workers removed by {chosen.penalty} "
        f"penalty ({stop}), with {crowd.labels.n_labels - kept.n_labels:,} labels"
    )


def aggregate(run: Run) -> str:
    """Consensus labels from the kept workers, and which tasks to label next."""
    crowd = load_crowd(run.folder / CROWD)
    kept = kept_labels(run, crowd)
    consensus = consensus_of(kept, run.settings.consensus)
    ranked = next_labels(kept, consensus.posterior)
    run.write_table("consensus.parquet", _consensus_table(crowd, consensus, ranked))
    run.write_table("next_labels.parquet", _next_table(crowd, ranked))
    confidence = consensus.posterior.max(axis=1)
    counts, edges = np.histogram(confidence, bins=20, range=(0.0, 1.0))
    found: dict[str, Any] = {
        "aggregator": run.settings.consensus.aggregator,
        "n_iter": getattr(consensus, "n_iter", 1),
        "converged": getattr(consensus, "converged", True),
        "log_likelihood": getattr(consensus, "log_likelihood", None),
        "n_tied": int(consensus.tied.sum()),
        "mean_confidence": float(confidence.mean()),
        "confidence_histogram": {"edges": edges.tolist(), "counts": counts.tolist()},
        "gold": _gold_check(crowd, consensus, run.settings.consensus),
    }
    run.write_json("consensus.json", found)
    gold = found["gold"]
    checked = f"; {gold['accuracy']:.1%} right on {gold['n']:,} gold tasks" if gold else ""
    return f"{crowd.labels.n_tasks:,} consensus labels, mean confidence {confidence.mean():.3f}{checked}"


def kept_labels(run: Run, crowd: Crowd) -> CrowdLabels:
    """The labels of the workers whom the filter kept."""
    table = run.read_table("workers.parquet")
    flagged = table.column("flagged").to_numpy(zero_copy_only=False)
    removed = np.array(table.column("worker").to_pylist(), dtype=np.str_)[flagged]
    return crowd.labels.keep_workers(~np.isin(crowd.labels.workers, removed))


def _counts(crowd: Crowd) -> dict[str, int]:
    """Public sizes of a campaign."""
    labels, tasks = crowd.labels, crowd.tasks
    labelled = np.unique(crowd.label_group()).size
    return {
        "n_labels": labels.n_labels,
        "n_tasks": labels.n_tasks if tasks is None else tasks.names.size,
        "n_labelled_tasks": labels.n_tasks,
        "n_workers": labels.n_workers,
        "n_classes": labels.n_classes,
        "n_groups": int(labelled),
        "n_unlabelled_groups": int(crowd.group_names.size - labelled),
        "n_features": 0 if tasks is None else tasks.features.shape[1],
        "n_gold": int((crowd.gold_code() >= 0).sum()),
    }


def _stop_rule(chosen: FilterSettings) -> tuple[dict[str, Any], str]:
    """The filter's stop rule as an argument, and in words."""
    if chosen.n_workers is not None:
        return {"n_workers": chosen.n_workers}, f"{chosen.n_workers} workers"
    fraction = PAPERS_FRACTION if chosen.fraction is None else chosen.fraction
    return {"fraction": fraction}, f"{fraction:.0%} of the workers"


def consensus_of(labels: CrowdLabels, chosen: ConsensusSettings) -> Consensus:
    """Aggregate by the method the settings name."""
    most, tol, smoothing = chosen.max_iter, chosen.tol, chosen.smoothing
    match chosen.aggregator:
        case "majority_vote":
            return majority_vote(labels)
        case "one_coin":
            return one_coin_dawid_skene(labels, max_iter=most, tol=tol, smoothing=smoothing)
        case "hierarchical_dawid_skene":
            return hierarchical_dawid_skene(labels, max_iter=most, tol=tol)
        case "dawid_skene":
            return dawid_skene(labels, max_iter=most, tol=tol, smoothing=smoothing)


def _gold_check(
    crowd: Crowd, consensus: Consensus, chosen: ConsensusSettings
) -> dict[str, Any] | None:
    """Share of gold tasks the consensus got right, beside what the same and majority vote do unfiltered."""
    gold = crowd.gold_code()
    if not (gold >= 0).any():
        return None
    found = accuracy(consensus.label, gold)
    return {
        "n": found.n,
        "accuracy": found.value,
        "low": found.lower,
        "high": found.upper,
        "unfiltered": accuracy(consensus_of(crowd.labels, chosen).label, gold).value,
        "majority_vote": accuracy(majority_vote(crowd.labels).label, gold).value,
    }


def _number(value: float) -> float | None:
    """JSON has no NaN: what is not defined is null."""
    return value if np.isfinite(value) else None


def _worker_table(labels: CrowdLabels, report: WorkerReport) -> pa.Table:
    """Workers ranked: removed first, then by reputation, least first."""
    order = np.lexsort((np.arange(labels.n_workers), report.reputation, ~report.flagged))
    right = wilson_interval(report.gold_correct, report.gold_n)
    unknown = report.gold_n == 0
    columns: dict[str, Any] = {
        "rank": pa.array(np.arange(1, labels.n_workers + 1, dtype=np.int32)),
        "worker": _names(labels.workers[order]),
    }
    for name in (
        "n_labels",
        "n_conflict",
        "agreement",
        "soft_penalty",
        "hard_penalty",
        "reputation",
    ):
        columns[name] = pa.array(getattr(report, name)[order], from_pandas=True)  # NaN is null
    columns |= {
        "gold_n": pa.array(report.gold_n[order]),
        "gold_correct": pa.array(report.gold_correct[order]),
        "gold_low": pa.array(right[order, 0], mask=unknown[order]),
        "gold_high": pa.array(right[order, 1], mask=unknown[order]),
        "flagged": pa.array(report.flagged[order]),
        "reason": pa.array([report.reason[code] for code in order]),
    }
    return pa.table(columns)


def _consensus_table(crowd: Crowd, consensus: Consensus, ranked: NextLabels) -> pa.Table:
    """One row per labelled task, in the order of the labels' task codes."""
    entropy, n_labels = np.empty(ranked.task.size), np.empty(ranked.task.size, dtype=np.int64)
    entropy[ranked.task], n_labels[ranked.task] = ranked.entropy, ranked.n_labels
    return pa.table(
        {
            "task": _names(crowd.labels.tasks),
            "group": _names(crowd.group_names[crowd.label_group()]),
            "label": _names(crowd.labels.classes[consensus.label]),
            "confidence": consensus.posterior.max(axis=1),
            "entropy": entropy,
            "tied": consensus.tied,
            "n_labels": n_labels,
            "posterior": pa.array(consensus.posterior.tolist(), type=pa.list_(pa.float64())),
        }
    )


def _next_table(crowd: Crowd, ranked: NextLabels) -> pa.Table:
    """Tasks, the most urgent to label first."""
    return pa.table(
        {
            "rank": np.arange(1, ranked.task.size + 1, dtype=np.int32),
            "task": _names(crowd.labels.tasks[ranked.task]),
            "entropy": ranked.entropy,
            "n_labels": ranked.n_labels,
        }
    )


def _names(names: np.ndarray) -> pa.Array:
    return pa.array(names.astype(str).tolist(), type=pa.string())
