"""Commands that need a label table and no settings: workers, aggregate."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli.app import Output, Quiet, app, mistakes, show_rows

if TYPE_CHECKING:
    from quality import CrowdLabels

__all__ = ["Aggregator", "aggregate", "workers"]

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
    from flows.cli.answers import worker_rows
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
    from flows.cli.answers import consensus_rows

    with mistakes():
        header, rows = consensus_rows(_read(labels, duplicates), aggregator=aggregator.value)
        show_rows("Consensus labels", header, rows, output)


def _read(path: Path, duplicates: Duplicates) -> CrowdLabels:
    from flows.tables.tables import read_labels

    return read_labels(path, classes=None, duplicates=duplicates.value, known_tasks=None)
