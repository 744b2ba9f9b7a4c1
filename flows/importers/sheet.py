"""Exports in tables, CSV, TSV or Parquet, of which only the columns asked for are read; and cells of time."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from flows.files import open_text
from flows.importers.responses import SHOWN, readable
from flows.tables import TableError, plain_table

__all__ = ["Sheet", "number_of_seconds", "open_sheet", "page_seconds", "seconds_between", "shown"]

WIDTH = 40  # letters of a column's name in a message
BLOCK = 1 << 26  # bytes read at once; a row must fit


@dataclass(frozen=True, slots=True)
class Sheet:
    """A table on disk whose header has been read."""

    path: Path
    names: tuple[str, ...]
    delimiter: str
    encoding: str = "utf-8"  # as the mark at its beginning says

    @property
    def file(self) -> str:
        """The file's name, for messages."""
        return self.path.name

    def need(
        self, columns: Sequence[str], of: str, advice: str = "check --format and --map"
    ) -> None:
        """Raise TableError if the table lacks a column that such an export has."""
        missing = [name for name in columns if name not in self.names]
        if missing:
            raise TableError(
                f"{self.file} must have the columns {', '.join(columns)} to be {of}; missing: "
                f"{', '.join(missing)} (it has {shown(self.names)}); {advice}"
            )

    def columns(self, names: Sequence[str]) -> list[list[str]]:
        """Return whole columns as text, blank where a cell or a column is missing; read no other."""
        wanted = [name for name in dict.fromkeys(names) if name in self.names]
        try:
            if self.path.suffix.lower() == ".parquet":
                table = pq.read_table(self.path, columns=wanted)
            else:
                table = self._delimited(wanted)
            plain = plain_table(table)
            text = {n: _texts(plain[n], f"{self.file}, column {n}") for n in wanted}
        except (pa.ArrowException, OSError) as error:
            raise TableError(f"{self.file}: {_fault(str(error))}") from None
        if table.num_rows == 0:
            raise TableError(f"{self.file} has no rows below its header; export it again")
        blank = [""] * table.num_rows
        return [text.get(name, blank) for name in names]

    def _delimited(self, names: list[str]) -> pa.Table:
        """Read with one thread, so that a fault is reported with its row."""
        return pa_csv.read_csv(
            self.path,
            read_options=pa_csv.ReadOptions(
                use_threads=False, block_size=BLOCK, encoding=self.encoding
            ),
            parse_options=pa_csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True),
            convert_options=pa_csv.ConvertOptions(
                include_columns=names, column_types=dict.fromkeys(names, pa.string())
            ),
        )


def shown(names: Sequence[str]) -> str:
    """Return names of columns, shortened for a sentence."""
    short = ", ".join(name[:WIDTH] for name in names[:SHOWN])
    return f"{short}, ..." if len(names) > SHOWN else short


def open_sheet(path: Path, delimiter: str = ",") -> Sheet:
    """Read a table's header; raise TableError if the file is missing or not such a table."""
    with readable(path):
        try:
            parquet = path.suffix.lower() == ".parquet"
            names = tuple(pq.read_schema(path).names) if parquet else _header(path, delimiter)
            encoding = "utf-8" if parquet else _encoding(path)
        except (csv.Error, pa.ArrowException) as error:
            raise TableError(f"{path.name} cannot be read: {error}") from None
    if not names:
        raise TableError(f"{path.name} has no line of names at its top; export it again")
    if names[0].lstrip().startswith(("{", "[")):
        raise TableError(f"{path.name} is JSON, not a table; check --format")
    if len(set(names)) != len(names):
        raise TableError(f"{path.name}: column names must differ; rename one")
    return Sheet(path, names, delimiter, encoding)


def number_of_seconds(text: str, where: str) -> float | None:
    """Return a cell of seconds, at least 0; None where it is blank."""
    if not text or text.isspace():
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise TableError(
            f"{where}: {text!r} must be seconds, at least 0; mend it or leave it blank"
        )
    return seconds


def seconds_between(start: str, end: str, form: str | None, where: str) -> float | None:
    """Return the seconds from one time to a later one, ISO without `form`; None where one is blank."""
    if not start.strip() or not end.strip():
        return None
    try:
        begun, ended = (
            datetime.fromisoformat(text) if form is None else datetime.strptime(text, form)
            for text in (start.strip(), end.strip())
        )
        seconds = (ended - begun).total_seconds()
    except (TypeError, ValueError):  # TypeError: one of the two has a time zone
        seconds = math.nan
    if not seconds >= 0:
        raise TableError(f"{where}: {start!r} to {end!r} must be a time and a later one; mend them")
    return seconds


def page_seconds(page: float | None, answers: int) -> float | None:
    """Return an even share of the time of a page of tasks; the export has no time of a single one."""
    return None if page is None else page / answers


def _texts(column: pa.ChunkedArray, where: str) -> list[str]:
    """Return a column as text, blank where a cell is missing."""
    if pa.types.is_nested(column.type):
        raise TableError(
            f"{where}: each cell must be a single value, and holds a {column.type}; export it as CSV"
        )
    found: list[str] = column.cast(pa.string()).fill_null("").to_pylist()
    return found


def _encoding(path: Path) -> str:
    """Return the encoding that `open_text` reads the header in; Arrow knows the mark of UTF-8 itself."""
    with open_text(path) as file:
        return "utf-8" if file.encoding == "utf-8-sig" else file.encoding


def _header(path: Path, delimiter: str) -> tuple[str, ...]:
    with open_text(path) as file:
        return tuple(next(csv.reader(file, delimiter=delimiter), ()))


def _fault(error: str) -> str:
    """Return Arrow's report without the row's content."""
    counts = re.search(r"Expected (\d+) columns, got (\d+)", error)
    row = re.search(r"Row #(\d+)", error)
    where = f"row {int(row[1]) - 1}" if row else "a row"
    if counts:
        return f"{where} must have {counts[1]} columns, it has {counts[2]}; mend that row"
    if "UTF8" in error:
        return "must be UTF-8 text; save it as UTF-8"
    return "not a readable table; export it again"
