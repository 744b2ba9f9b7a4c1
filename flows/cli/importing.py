"""The command import: an export of a platform as a label table."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from flows.cli.root import (
    Encoding,
    Force,
    Guard,
    Quiet,
    Sep,
    Sheet,
    Wide,
    app,
    counted,
    kept_input,
    mistakes,
    print_line,
    reading_of_options,
    refuse_unwritten,
    waiting_for,
)
from flows.importers import FormatName

__all__ = ["import_"]

REJECTING = ("appen", "mturk", "toloka")  # platforms whose requesters reject answers


@app.command(
    "import", epilog="Example: `crowdassay import export.csv --format mturk --output labels.csv`"
)
def import_(
    context: typer.Context,
    export: Annotated[Path, typer.Argument(help="file that the platform exported, or -")],
    format_: Annotated[FormatName, typer.Option("--format", help="whose export it is")],
    output: Annotated[Path, typer.Option(help="table to write: .csv, .tsv, .parquet or .jsonl")],
    question: Annotated[
        str | None,
        typer.Option(help="the question whose answers become labels [default: the only]"),
    ] = None,
    keep_rejected: Annotated[
        bool, typer.Option("--keep-rejected", help="keep what the requester rejected")
    ] = False,
    several: Annotated[
        bool,
        typer.Option(
            "--several",
            help="several labels may hold at once: keep them, as crowdassay multilabel reads",
        ),
    ] = False,
    split: Annotated[
        str | None,
        typer.Option(help="what stands between the labels of a cell, with --several [default: |]"),
    ] = None,
    nothing: Annotated[
        str | None,
        typer.Option(
            help="the word for an answer with nothing ticked, with --several [default: it is skipped]"
        ),
    ] = None,
    map_: Annotated[
        str,
        typer.Option(
            "--map",
            help="columns of a table, as in worker=annotator,task=item,label=answer, and question=COLUMN "
            "where a row answers one of several questions; for comparisons of "
            "Label Studio keys of the data that name the items, as in left=model_a,right=model_b",
        ),
    ] = "",
    url_env: Annotated[
        str | None,
        typer.Option(help="for a query: the environment variable with the database's address"),
    ] = None,
    sep: Sep = None,
    encoding: Encoding = None,
    sheet: Sheet = None,
    wide: Wide = False,
    guard: Guard = False,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Turn a crowdsourcing platform's export into a table of worker, task, label and seconds."""
    from flows.importers import Several, import_labels, parse_map, write_labels  # Arrow
    from flows.settings import SettingsError
    from flows.tables import STANDARD_INPUT, TableError, is_fetched, table_file

    with mistakes():
        if keep_rejected and format_ not in REJECTING:
            raise SettingsError(
                f"--keep-rejected is for --format {', '.join(REJECTING)}, whose exports say what was "
                f"rejected, got {format_}; leave it out"
            )
        if nothing == "":
            raise SettingsError("--nothing must be a word, got an empty text; leave it out")
        for option, given in (("--split", split), ("--nothing", nothing)):
            if given is not None and not several:
                raise SettingsError(
                    f"{option} needs --several, which keeps answers of several labels, got {option} {given!r}"
                )
        if export == STANDARD_INPUT and format_ == "lm-eval":
            raise SettingsError(
                "--format lm-eval names the model by the folder of its file, got -, which lies in none; give "
                "the file"
            )
        refuse_unwritten(context, {"--output": output})
        columns = parse_map(map_, format_)
        if not (export == STANDARD_INPUT or is_fetched(export) or export.exists()):
            raise TableError(
                f"{export} does not exist; mend the path"
            )  # before a word on the output
        written = table_file(output, inputs=(export,), force=force)
        waits = waiting_for("the export made a label table")
        with TemporaryDirectory(prefix="crowdassay-") as folder, waits:
            labels = import_labels(
                export if format_ == "sql" or url_env else kept_input(export, Path(folder)),
                format_,
                question=question,
                keep_rejected=keep_rejected,
                several=Several("|" if split is None else split, nothing) if several else None,
                columns=columns,
                url_env=url_env,
                reading=reading_of_options(sep, encoding, sheet, wide),
            )
        with waiting_for("labels written"):
            write_labels(labels, written, guard=guard)
        timed = ", with their seconds" if labels.has_seconds else ""
        print_line(
            f"{labels.summary()}; {counted(labels.n_labels, 'label')} written to {output}{timed}"
        )
