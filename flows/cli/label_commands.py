"""Commands that need a label table and no settings: workers, aggregate.

Answers from a label table alone, for the commands that need no settings.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer

from flows.aggregators import consensus_of
from flows.cli.app import Output, Quiet, app, mistakes, show_rows
from flows.settings.sections import ConsensusSettings, FilterSettings
from flows.stages import filter_by
from quality import CrowdLabels, worker_report

if TYPE_CHECKING:
    from quality import CrowdLabels

__all__ = ["Aggregator", "aggregate", "consensus_rows", "worker_rows", "workers"]


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


REPEATED = "what to do with a worker's repeated labels of a task"
LabelsFile = Annotated[Path, typer.Argument(help="table with the columns worker, task, label")]


class Penalty(StrEnum):
    """Which disagreement penalty."""

    soft = "soft"
    hard = "hard"


class Duplicates(StrEnum):
    """Which of a worker's labels of one task stands."""

    error = "error"
    first = "first"
    last = "last"


class Aggregator(StrEnum):
    """How labels become one per task."""

    auto = "auto"
    dawid_skene = "dawid_skene"
    glad = "glad"
    hierarchical_dawid_skene = "hierarchical_dawid_skene"
    kos = "kos"
    kos_plus = "kos_plus"
    majority_vote = "majority_vote"
    one_coin_dawid_skene = "one_coin_dawid_skene"
    penalty_vote = "penalty_vote"
    weighted_majority = "weighted_majority"


@app.command(epilog="Example: `crowdassay workers labels.csv --false-removal-rate 0.05`")
def workers(
    labels: LabelsFile,
    penalty: Annotated[Penalty, typer.Option(help="penalty the filter removes by")] = Penalty.soft,
    false_removal_rate: Annotated[
        float | None,
        typer.Option(help="chance to remove anybody from an honest crowd [default: 0.1]"),
    ] = None,
    fraction: Annotated[
        float | None, typer.Option(help="or: the share of the workers to remove")
    ] = None,
    n_workers: Annotated[int | None, typer.Option(help="or: the number to remove")] = None,
    duplicates: Annotated[Duplicates, typer.Option(help=REPEATED)] = Duplicates.error,
    output: Output = None,
    quiet: Quiet = False,
) -> None:
    """Rank workers by reputation and say whom to remove, and why."""
    from flows.cli.label_commands import worker_rows
    from flows.settings.settings import filter_settings

    with mistakes():
        chosen = filter_settings(
            penalty=penalty.value,
            false_removal_rate=false_removal_rate,
            fraction=fraction,
            n_workers=n_workers,
        )
        header, rows = worker_rows(_read(labels, duplicates), chosen)
        show_rows("Workers: whom to remove, then by reputation, least first", header, rows, output)


@app.command(epilog="Example: `crowdassay aggregate labels.csv --output consensus.csv`")
def aggregate(
    labels: LabelsFile,
    aggregator: Annotated[
        Aggregator, typer.Option(help="aggregation method")
    ] = Aggregator.dawid_skene,
    duplicates: Annotated[Duplicates, typer.Option(help=REPEATED)] = Duplicates.error,
    output: Output = None,
    quiet: Quiet = False,
) -> None:
    """Turn crowd labels into one consensus label per task."""
    from flows.cli.label_commands import consensus_rows

    with mistakes():
        header, rows = consensus_rows(_read(labels, duplicates), aggregator=aggregator.value)
        show_rows("Consensus labels", header, rows, output)


def _read(path: Path, duplicates: Duplicates) -> CrowdLabels:
    from flows.tables.tables import read_labels

    return read_labels(path, classes=None, duplicates=duplicates.value, known_tasks=None)
