"""One function per stage: read what it needs, call the pure rooms, write the result, say one line."""

from __future__ import annotations

from flows.stages.chosen import aggregate, judge_workers, read_and_check
from flows.stages.model import ask_holdout, train_privately
from flows.stages.publication import estimate_ratios, publish_proportions
from flows.stages.reporting import write_report

__all__ = [
    "aggregate",
    "ask_holdout",
    "estimate_ratios",
    "judge_workers",
    "publish_proportions",
    "read_and_check",
    "train_privately",
    "write_report",
]
