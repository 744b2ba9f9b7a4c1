"""Commands over finished runs: compare two, block workers on a platform, repost tasks there."""

from __future__ import annotations

from collections import Counter
from dataclasses import astuple
from pathlib import Path
from typing import Annotated

import typer

from flows.choices import BlockedBy, PostedTo
from flows.cli.root import (
    Force,
    Guard,
    Output,
    Quiet,
    app,
    counted,
    mistakes,
    print_line,
    refuse_unwritten,
    show_rows,
)

__all__ = ["block", "compare", "repost"]

HEADER = ["what", "of", "before", "after", "note"]
RunFolder = Annotated[Path, typer.Argument(help="folder of a finished run")]
PlatformFile = Annotated[Path, typer.Option(help="file to write")]


@app.command(
    epilog="Example: `crowdassay compare runs/20261121T094500Z-web runs/20261122T094500Z-web`"
)
def compare(
    context: typer.Context,
    before: Annotated[Path, typer.Argument(help="folder of the earlier run")],
    after: Annotated[Path, typer.Argument(help="folder of the later run")],
    output: Output = None,
    guard: Guard = False,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Say what changed between two runs: labels turned, workers in and out, shares, and the price."""
    from flows.run import compare_runs  # Arrow, for this command only
    from flows.tables import table_file, write_table

    with mistakes():
        refuse_unwritten(context, {"--output": output})
        written = None
        if output is not None:
            written = table_file(output, inputs=(before, after), force=force)
        found = compare_runs(before, after)
        if not found.same_campaign:
            print_line(
                "the runs are of different campaigns: what has one name need not be the same"
            )
        if found.changes:
            rows = [list(astuple(change)) for change in found.changes]
            show_rows("What changed", HEADER, rows, written, numbers=(), guard=guard)
        elif written is not None:
            write_table(dict.fromkeys(HEADER, ()), written)
        have = "has" if found.n_turned == 1 else "have"
        their = "its interval" if found.n_moved == 1 else "their intervals"
        print_line(
            f"{found.n_turned:,} of {counted(found.n_common, 'common task')} {have} another label; "
            f"{counted(found.n_moved, 'published share')} moved by more than {their}"
        )


@app.command(
    epilog="Example: `crowdassay block runs/20261121T094500Z-web --format mturk --output block.csv`"
)
def block(
    run_folder: RunFolder,
    format_: Annotated[BlockedBy, typer.Option("--format", help="who reads the list")],
    output: PlatformFile,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Write the workers whom a run removed as a list that a platform blocks by."""
    from flows.exporters import write_block_list  # Arrow, for these commands only
    from flows.files import OutputFile

    with mistakes():
        written = OutputFile(output, inputs=(run_folder,), force=force)
        table = _table(run_folder, "workers.parquet", ["worker", "reason", "flagged"])
        removed = [(str(row["worker"]), str(row["reason"])) for row in table if row["flagged"]]
        write_block_list(format_, removed, written)
        print_line(f"{counted(len(removed), 'removed worker')} written to {output}")


@app.command(
    epilog="Example: `crowdassay repost runs/20261121T094500Z-web --format mturk --export batch.csv"
    " --output again.csv`"
)
def repost(
    run_folder: RunFolder,
    format_: Annotated[PostedTo, typer.Option("--format", help="whose export, and who reads it")],
    export: Annotated[Path, typer.Option(help="the export that the labels came from")],
    output: PlatformFile,
    task: Annotated[
        str | None, typer.Option(help="column of the task's id, if the import mapped one")
    ] = None,
    labels: Annotated[
        int | None, typer.Option(min=1, help="only tasks that want so many more labels")
    ] = None,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Write the tasks of a run's label plan as a batch that a platform posts."""
    from flows.exporters import write_repost  # Arrow, for these commands only
    from flows.files import OutputFile
    from flows.tables import TableError

    with mistakes():
        written = OutputFile(output, inputs=(run_folder, export), force=force)
        wanted: dict[str, list[str]] = {}
        for row in _table(run_folder, "label_plan.parquet", ["task", "worker"]):
            wanted.setdefault(str(row["task"]), []).append(str(row["worker"]))
        if labels is not None:
            wanted = {name: asked for name, asked in wanted.items() if len(asked) == labels}
        if not wanted:
            raise TableError(
                f"the label plan of {run_folder} has no such task; nothing to post again"
            )
        found = write_repost(format_, wanted, export, written, task=task)
        print_line(f"{counted(len(found.written), 'task')} written to {output}")
        sizes = Counter(len(wanted[name]) for name in found.written)
        for n, n_tasks in sorted(sizes.items()) if len(sizes) > 1 else ():
            print_line(
                f"{counted(n_tasks, 'task')} of them: {counted(n, 'label')} each (--labels {n})"
            )
        if found.missing:
            missing = counted(len(found.missing), "planned task")
            print_line(f"{missing} not in {export.name}, such as {found.missing[0]}")


def _table(folder: Path, name: str, columns: list[str]) -> list[dict[str, object]]:
    """Return rows of a table of a finished run."""
    from flows.run import refuse_unfinished  # Arrow, for these commands only
    from flows.tables import read_parquet

    refuse_unfinished(folder, name)
    rows: list[dict[str, object]] = read_parquet(folder / name, columns).to_pylist()
    return rows
