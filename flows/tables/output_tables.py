r"""Tables that users ask for: the end of the file's name says in which format they are written.

>>> from tempfile import TemporaryDirectory
>>> with TemporaryDirectory() as folder:
...     file = table_file(Path(folder) / "consensus.tsv")
...     write_table({"task": ["t1", "t2"], "label": ["=cat", "dog"]}, file, guard=True)
...     file.path.read_text()
"task\tlabel\nt1\t'=cat\nt2\tdog\n"

`WRITERS` is the one table of formats. A device or a pipe, which has no end of a name, gets CSV.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain, combinations
from pathlib import Path
from typing import Literal, TypeAlias

from flows.files import OutputError, OutputFile
from flows.tables.refusals import TableError
from flows.tables.sources import find_files

__all__ = [
    "OUTPUT_SUFFIXES", "Cells", "inputs_of", "quoting_of", "table_file", "table_files", "write_table",
]  # fmt: skip

Cells: TypeAlias = Sequence[str] | Sequence[int | None] | Sequence[float | None]
Columns: TypeAlias = Mapping[str, Cells]

FORMULA = ("=", "+", "-", "@", "\t", "\r")  # spreadsheets run a cell that begins so


def inputs_of(*paths: Path | None) -> tuple[Path, ...]:
    """Return the paths that a command reads, and the files of each folder and pattern among them.

    >>> inputs_of(Path("labels.csv"), None)
    (PosixPath('labels.csv'), PosixPath('labels.csv'))
    """
    given = [path for path in paths if path is not None]
    return (*given, *(file for path in given for file in find_files(path)))


def table_file(output: Path, *, inputs: Sequence[Path] = (), force: bool = False) -> OutputFile:
    """Return the file that a table is written to, checked before the work that fills it.

    Raises
    ------
    TableError
        If the end of its name is not one of `OUTPUT_SUFFIXES`.
    OutputError
        If it cannot be written for another reason.
    """
    file = OutputFile(output, inputs=tuple(inputs), force=force)
    if output.suffix.lower() not in WRITERS and not file.is_stream():
        raise TableError(
            f"{output.name}: the output must end in {', '.join(OUTPUT_SUFFIXES)}, which says the "
            "format; name another output"
        )
    return file


def table_files(
    outputs: Mapping[str, Path | None], *, inputs: Sequence[Path] = (), force: bool = False
) -> list[OutputFile | None]:
    """Return the files of several tables, by the options that name them; None where none is asked for.

    Raises
    ------
    OutputError, TableError
        As `table_file`, and if two of them are one file.
    """
    asked = [(option, path) for option, path in outputs.items() if path is not None]
    for (first, one), (second, other) in combinations(asked, 2):
        if one.resolve() == other.resolve():
            raise OutputError(f"{first} and {second} must be two files, got {one} for both")
    return [
        None if path is None else table_file(path, inputs=inputs, force=force)
        for path in outputs.values()
    ]


def write_table(columns: Columns, output: OutputFile, *, guard: bool = False) -> None:
    """Write columns of one length, each of texts or of numbers; None is a missing number.

    With `guard`, a text that a spreadsheet would run as a formula is written with an apostrophe before
    it, which spreadsheets take for "this is text". Parquet and JSON lines need none and get none.

    Raises
    ------
    OutputError
        If the file cannot be written.
    UnicodeEncodeError
        If a text is not Unicode.
    """
    suffix = "" if output.is_stream() else output.path.suffix.lower()
    output.write(partial(WRITERS.get(suffix, _write_csv), columns, guard))


def _write_csv(columns: Columns, guard: bool, path: Path, *, sep: str = ",") -> None:
    cells = {name: [_cell(value, guard) for value in column] for name, column in columns.items()}
    header = [_cell(name, guard) for name in cells]
    quoting = quoting_of(chain(header, *cells.values()))
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=sep, lineterminator="\n", quoting=quoting)
        writer.writerow(header)
        writer.writerows(zip(*cells.values(), strict=True))


def quoting_of(cells: Iterable[str]) -> Literal[0, 1]:
    """Return how `csv.writer` must quote cells: all where one holds a carriage return.

    The writer does not quote a lone one, which readers take for the end of a line.
    """
    return csv.QUOTE_ALL if any("\r" in cell for cell in cells) else csv.QUOTE_MINIMAL


def _cell(value: str | float | None, guard: bool) -> str:
    """Return a value as the text of a cell; numbers to 15 digits."""
    if isinstance(value, str):
        return f"'{value}" if guard and value.startswith(FORMULA) else value
    return "" if value is None else f"{value:.15g}"


def _write_parquet(columns: Columns, guard: bool, path: Path) -> None:
    import pyarrow as pa  # for this format only
    import pyarrow.parquet as pq

    arrays = {name: pa.array(list(column)) for name, column in columns.items()}
    for name, array in arrays.items():
        if pa.types.is_null(array.type):  # a column without cells, or of missing numbers
            arrays[name] = array.cast(pa.float64() if len(array) else pa.string())
    pq.write_table(pa.table(arrays), path)


def _write_lines(columns: Columns, guard: bool, path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        for row in zip(*columns.values(), strict=True):
            record = dict(zip(columns, row, strict=True))
            file.write(json.dumps(record, ensure_ascii=False) + "\n")


WRITERS: dict[str, Callable[[Columns, bool, Path], None]] = {
    ".csv": _write_csv,
    ".tsv": partial(_write_csv, sep="\t"),
    ".parquet": _write_parquet,
    ".jsonl": _write_lines,
}
OUTPUT_SUFFIXES = tuple(WRITERS)
