"""Consensus: one label per task from the workers kept, and which tasks to label next."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from flows.aggregators import consensus_of
from flows.crowd import Crowd
from flows.run_store import Run
from flows.settings import Settings
from flows.stages.reading import load
from flows.stages.workers import kept_labels
from quality import (
    Auto,
    Consensus,
    CrowdLabels,
    NextLabels,
    Progress,
    accuracy,
    majority_vote,
    next_labels,
)

__all__ = ["aggregate"]


def aggregate(run: Run) -> str:
    """Consensus labels from the kept workers, and which tasks to label next."""
    crowd = load(run)
    kept = kept_labels(run, crowd)
    consensus = _consensus(kept, crowd, run.settings, progress=run.progress)
    ranked = next_labels(kept, consensus.posterior)
    run.write_table("consensus.parquet", _consensus_table(crowd, consensus, ranked))
    run.write_table("next_labels.parquet", _next_table(crowd, ranked))
    fitted = consensus.result if isinstance(consensus, Auto) else consensus
    confidence = consensus.posterior.max(axis=1)
    counts, edges = np.histogram(confidence, bins=20, range=(0.0, 1.0))
    found: dict[str, Any] = {
        "aggregator": run.settings.consensus.aggregator,
        "n_iter": getattr(fitted, "n_iter", 1),
        "converged": getattr(fitted, "converged", True),
        "log_likelihood": getattr(fitted, "log_likelihood", None),
        "n_tied": int(consensus.tied.sum()),
        "mean_confidence": float(confidence.mean()),
        "confidence_histogram": {"edges": edges.tolist(), "counts": counts.tolist()},
        "gold": _gold_check(crowd, consensus, run.settings),
        "gold_used": int((crowd.gold_code() >= 0).sum()) if run.settings.consensus.use_gold else 0,
        "choice": _choice(consensus),
    }
    run.write_json("consensus.json", found)
    gold = found["gold"]
    checked = f"; {gold['accuracy']:.1%} right on {gold['n']:,} gold tasks" if gold else ""
    return f"{crowd.labels.n_tasks:,} consensus labels, mean confidence {confidence.mean():.3f}{checked}"


def _consensus(
    labels: CrowdLabels, crowd: Crowd, settings: Settings, *, progress: Progress | None = None
) -> Consensus:
    """The consensus of these labels as the settings ask for it."""
    gold, seed = crowd.gold_code(), settings.seed
    return consensus_of(labels, settings.consensus, seed=seed, gold=gold, progress=progress)


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


def _consensus_table(crowd: Crowd, consensus: Consensus, ranked: NextLabels) -> pa.Table:
    """One row per labelled task, in the order of the labels' task codes."""
    entropy, n_labels = np.empty(ranked.task.size), np.empty(ranked.task.size, dtype=np.int64)
    entropy[ranked.task], n_labels[ranked.task] = ranked.entropy, ranked.n_labels
    return pa.table(
        {
            "task": pa.array(crowd.labels.tasks.astype(str)),
            "group": pa.array(crowd.group_names[crowd.label_group()].astype(str)),
            "label": pa.array(crowd.labels.classes[consensus.label].astype(str)),
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
            "task": pa.array(crowd.labels.tasks[ranked.task].astype(str)),
            "entropy": ranked.entropy,
            "n_labels": ranked.n_labels,
        }
    )
