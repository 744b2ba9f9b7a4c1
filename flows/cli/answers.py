"""Answers from a label table alone, for the commands that need no settings."""

from __future__ import annotations

import numpy as np

from flows.aggregators import consensus_of
from flows.settings.sections import ConsensusSettings, FilterSettings
from flows.stages.workers import filter_by
from quality import CrowdLabels, worker_report

__all__ = ["consensus_rows", "worker_rows"]


def worker_rows(labels: CrowdLabels, chosen: FilterSettings) -> tuple[list[str], list[list[str]]]:
    """Workers with the evidence for and against them, removed first, then by reputation."""
    filtered, _ = filter_by(labels, chosen, seed=0)
    consensus = consensus_of(labels.keep_workers(filtered.keep), ConsensusSettings(), seed=0)
    found = worker_report(labels, filtered, consensus.posterior)
    order = np.lexsort((np.arange(labels.n_workers), found.reputation, ~found.flagged))
    header = ["worker", "labels", "agreement", "soft", "hard", "reputation", "verdict"]
    rows = [
        [
            str(labels.workers[w]),
            str(found.n_labels[w]),
            _number(found.agreement[w], 2),
            _number(found.soft_penalty[w], 3),
            str(found.hard_penalty[w]),
            _number(found.reputation[w], 2),
            found.reason[w],
        ]
        for w in order
    ]
    return header, rows


def _number(value: float, digits: int) -> str:
    """To so many digits; nothing where there is none, as for who never met a disagreement."""
    return f"{value:.{digits}f}" if np.isfinite(value) else ""


def consensus_rows(labels: CrowdLabels, *, aggregator: str) -> tuple[list[str], list[list[str]]]:
    """One row per task: label, confidence, whether it is a tie, number of labels."""
    chosen = ConsensusSettings.model_validate({"aggregator": aggregator})
    consensus = consensus_of(labels, chosen, seed=0)
    n_labels = np.diff(labels.task_start)
    rows = [
        [
            str(labels.tasks[t]),
            str(labels.classes[consensus.label[t]]),
            f"{consensus.posterior[t].max():.4f}",
            "tie" if consensus.tied[t] else "",
            str(n_labels[t]),
        ]
        for t in range(labels.n_tasks)
    ]
    return ["task", "label", "confidence", "tied", "labels"], rows
