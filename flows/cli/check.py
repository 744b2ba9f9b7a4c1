"""The command that looks at a label table before anything is done with it: check."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from flows.choices import LABEL_COLUMNS
from flows.cli.root import (
    MISTAKE,
    AsJson,
    Encoding,
    Force,
    Guard,
    LabelsFile,
    Map,
    Quiet,
    Repeated,
    Sep,
    Sheet,
    Wide,
    app,
    console,
    counted,
    kept_input,
    mistakes,
    print_line,
    print_reading,
    reading_of_options,
    refuse_dropped,
    refuse_unwritten,
    waiting_for,
)

if TYPE_CHECKING:
    from flows.tables import Finding, LabelCheck, Reading, TextTable

__all__ = ["check"]

HEADER = ["found", "what", "first", "example", "what to do"]
WIDTH = 40  # letters of an example


@app.command(
    epilog="Example: `crowdassay check labels.csv --clean clean.csv --quarantine taken.csv`"
)
def check(
    context: typer.Context,
    labels: LabelsFile,
    clean: Annotated[
        Path | None, typer.Option(help="write the rows without fault to this file")
    ] = None,
    quarantine: Annotated[
        Path | None, typer.Option(help="write the rows at fault, with reasons, to this file")
    ] = None,
    merge: Annotated[
        bool,
        typer.Option("--merge", help="in the clean copy, give each label its commonest spelling"),
    ] = False,
    duplicates: Repeated = "error",
    sep: Sep = None,
    encoding: Encoding = None,
    sheet: Sheet = None,
    wide: Wide = False,
    map_: Map = "",
    guard: Guard = False,
    json_: AsJson = False,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Find all faults of a label table at once, and write a copy without them.

    A fault is what a run refuses; a doubt may be intended. Exit code 2 if there are faults and no clean copy
    was asked for.
    """
    from flows.tables import check_labels, inputs_of, table_files, write_table  # DuckDB

    with mistakes(), TemporaryDirectory(prefix="crowdassay-") as folder:
        if clean is None:
            refuse_dropped(context, ("merge",), "is for the copy of --clean; leave it out")
        outputs = {"--clean": clean, "--quarantine": quarantine}
        refuse_unwritten(context, outputs)
        cleaned, taken = table_files(outputs, inputs=inputs_of(labels), force=force)
        path = kept_input(labels, Path(folder))
        reading = reading_of_options(sep, encoding, sheet, wide, map_)
        opened, read_as = _opened(path, reading, Path(folder))
        print_reading([] if json_ else read_as)
        with waiting_for("faults looked for"):
            found = check_labels(opened, duplicates=duplicates, given=str(labels))
            if cleaned is not None:
                write_table(found.clean(merge=merge), cleaned, guard=guard)
            if taken is not None:
                write_table(found.quarantine(), taken, guard=guard)
        if json_:
            print(json.dumps(_as_json(found), indent=1))
        else:
            _print(found, labels, clean)
    if found.faults and clean is None:
        raise typer.Exit(MISTAKE)


def _opened(path: Path, reading: Reading, folder: Path) -> tuple[TextTable, list[str]]:
    """Return one file, or several joined, with torn lines kept aside.

    Beside it stands what is not plain. Several files together have the columns of all of them.
    """
    from flows.tables import column_names, find_files, open_lenient, open_source  # DuckDB

    files = find_files(path)
    if len(files) == 1:
        table = open_lenient(files[0], reading)
        return table, [f"{table.file} was read {table.read_as}"] * bool(table.read_as)
    reading = replace(reading, lenient=True)
    names = (name for file in files for name in column_names(file, LABEL_COLUMNS, reading))
    source = open_source(
        "labels", path, columns=LABEL_COLUMNS, folder=folder, url_env=None, files=files, reading=reading,
        optional=[name for name in dict.fromkeys(names) if name not in LABEL_COLUMNS],
    )  # fmt: skip
    with source.naming_files():
        table = replace(open_lenient(source.table), place=source.place, torn=source.torn)
    return table, [source.read_as] * bool(source.read_as)


def _print(found: LabelCheck, labels: Path, clean: Path | None) -> None:
    from flows.terminal import print_rows  # loads the rooms

    for title, findings in (("Faults: a run refuses them", found.faults),
                            ("Doubts: they may be intended", found.doubts)):  # fmt: skip
        if findings:
            print_rows(console(), title, HEADER, [_row(one) for one in findings])
    n_kept = found.n_rows - found.n_at_fault
    at_fault = f"{found.n_at_fault:,} at fault" if found.n_at_fault else "no row at fault"
    sound = at_fault if found.faults else "no fault"
    print_line(f"{labels}: {counted(found.n_rows, 'row')}, {sound}")
    if clean is not None:
        print_line(f"{counted(n_kept, 'row')} written to {clean}")
    elif found.n_at_fault:
        print_line("--clean FILE writes the other rows, --quarantine FILE these with their reasons")


def _row(one: Finding) -> list[str]:
    short = one.example if len(one.example) <= WIDTH else f"{one.example[:WIDTH]}…"
    return [f"{one.count}", one.what, one.where, short, one.remedy]


def _as_json(found: LabelCheck) -> dict[str, object]:
    return {
        "rows": found.n_rows,
        "at_fault": found.n_at_fault,
        "faults": [asdict(one) for one in found.faults],
        "doubts": [asdict(one) for one in found.doubts],
    }
