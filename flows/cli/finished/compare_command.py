"""The command compare: what changed from one run to another."""

from __future__ import annotations

from dataclasses import astuple
from pathlib import Path
from typing import Annotated

import typer

from flows.cli.root import Force, Guard, Output, Quiet, app, mistakes, print_line, show_rows

__all__ = ["compare"]

HEADER = ["what", "of", "before", "after", "note"]


@app.command(
    epilog="Example: `crowdassay compare runs/20261121T094500Z-web runs/20261122T094500Z-web`"
)
def compare(
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
        written = None if output is None else table_file(output, force=force)
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
        print_line(
            f"{found.n_turned:,} of {found.n_common:,} common tasks have another label; "
            f"{found.n_moved:,} published shares moved by more than their intervals"
        )
