"""One function per stage: read what it needs, call the pure rooms, write the result, say one line.

Each imports what it works with when it is run, and not before. The first three and the class ratios
work on tables in memory, or on shards where the settings have an `[engine]`.
"""

from __future__ import annotations

from flows.run.store import Run

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


def read_and_check(run: Run) -> str:
    """Read and check the tables; nothing is written before all of them are sound."""
    if run.settings.engine is not None:
        from flows.stages.sharded_reading import read_shards

        return read_shards(run)
    from flows.stages import reading

    return reading.read_and_check(run)


def judge_workers(run: Run) -> str:
    """Reputations and the filter: who is removed, and why."""
    if run.settings.engine is not None:
        from flows.stages.sharded_workers import judge_shards

        return judge_shards(run)
    from flows.stages import workers

    return workers.judge_workers(run)


def aggregate(run: Run) -> str:
    """Consensus labels from the kept workers, and which tasks to label next."""
    if run.settings.engine is not None:
        from flows.stages.sharded_consensus import aggregate_shards

        return aggregate_shards(run)
    from flows.stages import consensus

    return consensus.aggregate(run)


def publish_proportions(run: Run) -> str:
    """Release class proportions of every labelled group, each at its price."""
    from flows.stages import publication

    return publication.publish_proportions(run)


def estimate_ratios(run: Run) -> str:
    """Class ratios of the groups without labels, from what was released."""
    if run.settings.engine is not None:
        from flows.stages.sharded_ratios import estimate_ratios_by_shards

        return estimate_ratios_by_shards(run)
    from flows.stages import class_ratios

    return class_ratios.estimate_ratios(run)


def train_privately(run: Run) -> str:
    """Train and tune a model under differential privacy; release it with its training score."""
    from flows.stages import model

    return model.train_privately(run)


def ask_holdout(run: Run) -> str:
    """Judge the model through the reusable holdout, and bound its error on new tasks."""
    from flows.stages import model

    return model.ask_holdout(run)


def write_report(run: Run) -> str:
    """State the account, then build the two reports from the run folder alone."""
    from flows.stages import reporting

    return reporting.write_report(run)
