"""The first three stages on a table in memory, or on shards where the settings have an `[engine]`."""

from __future__ import annotations

from flows.run_store import Run
from flows.stages import consensus, reading, workers
from flows.stages.sharded_consensus import aggregate_shards
from flows.stages.sharded_reading import read_shards
from flows.stages.sharded_workers import judge_shards

__all__ = ["aggregate", "judge_workers", "read_and_check"]


def read_and_check(run: Run) -> str:
    """Read and check the tables; nothing is written before all of them are sound."""
    return reading.read_and_check(run) if run.settings.engine is None else read_shards(run)


def judge_workers(run: Run) -> str:
    """Reputations and the filter: who is removed, and why."""
    return workers.judge_workers(run) if run.settings.engine is None else judge_shards(run)


def aggregate(run: Run) -> str:
    """Consensus labels from the kept workers, and which tasks to label next."""
    engine = run.settings.engine
    return consensus.aggregate(run) if engine is None else aggregate_shards(run)
