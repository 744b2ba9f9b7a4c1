"""Consensus: one label per task from the workers kept, and which tasks to label next."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from flows.aggregators import consensus_of
from flows.run.crowd import Crowd
from flows.run.history import facts_of, in_words, keep_fit, start_of
from flows.run.store import Run
from flows.settings.settings import Settings
from flows.stages.label_plan import plan_next
from flows.stages.reading import load
from flows.stages.workers import kept_labels
from flows.tables import arrow_table
from quality import (
    Auto,
    Consensus,
    CrowdLabels,
    Progress,
    TaskReport,
    accuracy,
    majority_vote,
    next_labels,
    task_report,
)
from quality.aggregation import EMStart, Fit, start_from

__all__ = ["aggregate", "consensus_facts", "consensus_line", "consensus_table", "next_table"]


def aggregate(run: Run) -> str:
    """Consensus labels from the kept workers, and which tasks to label next."""
    crowd = load(run)
    kept = kept_labels(run, crowd)
    start = start_of(run, kept)
    consensus = _consensus(kept, crowd, run.settings, start=start, progress=run.progress)
    fitted = consensus.result if isinstance(consensus, Auto) else consensus
    tasks, uncertain = (
        task_report(kept, consensus.posterior),
        next_labels(kept, consensus.posterior),
    )
    plan, planned = plan_next(kept, fitted, uncertain.task, run.settings.report)
    run.write_table("consensus.parquet", consensus_table(crowd, consensus, tasks))
    run.write_table("next_labels.parquet", next_table(consensus, tasks, uncertain.task))
    run.write_table("label_plan.parquet", plan)
    found = consensus_facts(run, crowd, fitted, consensus.posterior, tasks) | {
        "plan": planned,
        "gold": _gold_check(crowd, consensus, run.settings),
        "choice": _choice(consensus),
    }
    if start is not None:
        anew = _consensus(kept, crowd, run.settings)
        found["start"] = facts_of(run, start, consensus, anew)
    if run.settings.consensus.go_on and isinstance(fitted, Fit):
        keep_fit(run, start_from(kept, fitted))
    run.write_json("consensus.json", found)
    return consensus_line(found, crowd.labels.n_tasks)


def consensus_facts(
    run: Run, crowd: Crowd, fitted: object, posterior: np.ndarray, tasks: TaskReport
) -> dict[str, Any]:
    """What is said of a consensus as a whole; plan, gold, choice and start are its stage's to add."""
    confidence, chosen = posterior.max(axis=1), run.settings.consensus
    counts, edges = np.histogram(confidence, bins=20, range=(0.0, 1.0))
    return {
        "aggregator": chosen.aggregator,
        "n_iter": getattr(fitted, "n_iter", 1),
        "converged": getattr(fitted, "converged", True),
        "log_likelihood": getattr(fitted, "log_likelihood", None),
        "n_tied": int(tasks.tied.sum()),
        "n_conflict": int(tasks.conflict.sum()),
        "n_overruled": int(tasks.overruled.sum()),
        "entropy": float(tasks.entropy.sum()),
        "classes": [str(name) for name in crowd.labels.classes],
        "mean_confidence": float(confidence.mean()),
        "confidence_histogram": {"edges": edges.tolist(), "counts": counts.tolist()},
        "gold_used": int((crowd.gold_code() >= 0).sum()) if chosen.use_gold else 0,
        "choice": None,
        "start": None,
    }


def consensus_line(found: dict[str, Any], n_tasks: int) -> str:
    """The stage's line, from its facts."""
    said, gold = f"{n_tasks:,} consensus labels", found["gold"]
    checked = f"; {gold['accuracy']:.1%} right on {gold['n']:,} gold tasks" if gold else ""
    gone_on = in_words(found["start"], found["n_iter"])
    return f"{said}, mean confidence {found['mean_confidence']:.3f}{checked}{gone_on}"


def _consensus(
    labels: CrowdLabels,
    crowd: Crowd,
    settings: Settings,
    *,
    start: EMStart | None = None,
    progress: Progress | None = None,
) -> Consensus:
    """The consensus of these labels as the settings ask for it."""
    gold, seed = crowd.gold_code(), settings.seed
    return consensus_of(
        labels, settings.consensus, seed=seed, gold=gold, start=start, progress=progress
    )


def _choice(consensus: Consensus) -> dict[str, Any] | None:
    """Which aggregator was chosen, and what each was worth, where the settings left it open."""
    if not isinstance(consensus, Auto):
        return None
    scores = [
        {
            "name": score.name,
            "log_likelihood": score.log_likelihood if consensus.n_held_out else None,
            "eligible": score.eligible,
        }
        for score in consensus.scores
    ]
    return {"chosen": consensus.chosen, "scores": scores, "n_held_out": consensus.n_held_out}


def _gold_check(crowd: Crowd, consensus: Consensus, settings: Settings) -> dict[str, Any] | None:
    """Share of gold tasks the consensus got right, beside what the same and majority vote do unfiltered.

    Gold that was used cannot check: then there is no check.
    """
    gold = crowd.gold_code()
    if settings.consensus.use_gold or not (gold >= 0).any():
        return None
    found = accuracy(consensus.label, gold)
    return {
        "n": found.n,
        "accuracy": found.value,
        "low": found.lower,
        "high": found.upper,
        "unfiltered": accuracy(_consensus(crowd.labels, crowd, settings).label, gold).value,
        "majority_vote": accuracy(majority_vote(crowd.labels).label, gold).value,
    }


def consensus_table(crowd: Crowd, consensus: Consensus, tasks: TaskReport) -> pa.Table:
    """One row per labelled task, in the order of the labels' task codes."""
    return arrow_table(
        {
            "task": tasks.tasks.astype(str),
            "group": crowd.group_names[crowd.label_group()].astype(str),
            "label": tasks.classes[consensus.label].astype(str),
            "confidence": consensus.posterior.max(axis=1),
            "entropy": tasks.entropy,
            "margin": tasks.margin,
            "conflict": tasks.conflict,
            "tied": tasks.tied,
            "overruled": tasks.overruled,
            "n_labels": tasks.n_labels,
            "posterior": consensus.posterior,
        }
    )


def next_table(consensus: Consensus, tasks: TaskReport, order: np.ndarray) -> pa.Table:
    """Tasks, the least certain first, with how many workers named each class."""
    return arrow_table(
        {
            "rank": np.arange(1, order.size + 1, dtype=np.int32),
            "task": tasks.tasks[order].astype(str),
            "entropy": tasks.entropy[order],
            "n_labels": tasks.n_labels[order],
            "counts": tasks.counts[order],
            "label": tasks.classes[consensus.label[order]].astype(str),
            "margin": tasks.margin[order],
            "tied": tasks.tied[order],
            "overruled": tasks.overruled[order],
        }
    )
