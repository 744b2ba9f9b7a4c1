"""The command that proposes settings: init."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli.root import (
    Encoding,
    Force,
    LabelsFile,
    Repeated,
    Sep,
    Sheet,
    Wide,
    app,
    mistakes,
    print_line,
    print_reading,
    reading_of_options,
)

if TYPE_CHECKING:
    from flows.proposal import CampaignFacts

__all__ = ["init"]


@app.command(epilog="Example: `crowdassay init labels.csv tasks.csv --gold gold.csv`")
def init(
    labels: LabelsFile,
    tasks: Annotated[
        list[Path] | None, typer.Argument(help="tables with the column task, and features")
    ] = None,
    gold: Annotated[Path | None, typer.Option(help="table with the columns task, label")] = None,
    output: Annotated[Path, typer.Option(help="settings file to write")] = Path("settings.toml"),
    name: Annotated[
        str | None, typer.Option(help="the campaign's name [default: the labels' folder]")
    ] = None,
    groups: Annotated[
        str | None, typer.Option(help="column of the task tables [default: group]")
    ] = None,
    duplicates: Repeated = "error",
    sep: Sep = None,
    encoding: Encoding = None,
    sheet: Sheet = None,
    wide: Wide = False,
    url_env: Annotated[
        str | None, typer.Option(help="variable with the address of the queries' database")
    ] = None,
    force: Force = False,
) -> None:
    """Look at a campaign's tables and write settings that run as they are, with reasons."""
    from flows.proposal import CampaignTables, write_settings  # DuckDB, for this command only

    with mistakes():
        reading = reading_of_options(sep, encoding, sheet, wide)
        given = CampaignTables(
            labels, tuple(tasks or ()), gold, url_env, groups, duplicates, reading
        )
        facts = write_settings(output, given, name=name, force=force)
        print_reading(facts.read_as)
        for line in _lines(facts):
            print_line(line)
        print_line(
            f"{output} is written. Read it, the class names above all, then:\n"
            f"crowdassay run {shlex.quote(str(output))}"
        )


def _lines(facts: CampaignFacts) -> list[str]:
    """Return lines about what the tables hold and what is left out of the settings."""
    from flows.proposal import toml_value, why_no_model  # loaded already by the command

    lines = [
        f"{facts.n_labels:,} labels of {facts.n_labelled:,} tasks by {facts.n_workers:,} workers, "
        f"{len(facts.classes)} classes: {', '.join(map(toml_value, facts.classes))}",
        f"{facts.n_tasks:,} tasks in {facts.n_groups:,} group{'s' if facts.n_groups > 1 else ''} "
        f"({len(facts.group_sizes):,} with labels); {facts.n_features:,} features",
        "no gold: --gold FILE names tasks whose truth is known, to check the consensus by"
        if facts.n_gold is None
        else f"{facts.n_gold:,} gold tasks",
    ]
    why = why_no_model(facts)
    return lines if why is None else [*lines, f"[model] and [gate] are left out: {why}"]
