r"""One file as a table of text: its rows are numbered, and its faults are named with row, column and value.

>>> from tempfile import TemporaryDirectory
>>> with TemporaryDirectory() as folder:
...     path = Path(folder) / "labels.csv"
...     _ = path.write_text("worker,task,label\nann,t1, cat \n")
...     open_table(path, ("worker", "task", "label")).columns("label")
{'label': array(['cat'], dtype='<U3')}

Rows count from 1; the header is not counted. `FORMATS` is the one table of file formats: a new one is a
row of it and a test.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import duckdb
import numpy as np
from jaxtyping import Int, Shaped

from flows.choices import Duplicates
from flows.files import open_text

__all__ = [
    "FORMATS", "ROW", "Coded", "TableError", "TextTable", "cell", "literal", "open_table", "quote",
    "refuse_blanks", "refuse_duplicates", "refuse_outside", "text_of_cell",
]  # fmt: skip

SHOWN = 3  # faulty rows named in one message
ROW = '"row of the file"'  # the column of `t` that numbers its rows
WHITE = r"[\t-\r\x1c-\x20\x{85}\p{Z}]*"  # what Python's str.isspace holds to be white space
WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT")  # types joined faster than text


class TableError(ValueError):
    """A table cannot be used; the message names file, row, column, value and what to do."""


class Coded(NamedTuple):
    """A column as codes of its sorted names."""

    code: Int[np.ndarray, " rows"]
    names: Shaped[np.ndarray, " names"]


@dataclass(frozen=True, slots=True)
class TextTable:
    """One file in DuckDB: its cells as they came (`raw`), and as numbered rows of text (`t`)."""

    connection: duckdb.DuckDBPyConnection
    file: str
    names: tuple[str, ...]

    def query(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a query on the table `t`."""
        return self.connection.execute(sql, list(parameters)).fetchall()

    def columns(self, *names: str) -> dict[str, np.ndarray]:
        """Return whole columns of text, in the order of the rows."""
        quoted = ", ".join(quote(name) for name in names)
        fetched = self.connection.execute(f"SELECT {quoted} FROM t ORDER BY {ROW}").fetchnumpy()
        return {name: np.asarray(values, dtype=np.str_) for name, values in fetched.items()}

    def codes(self, *names: str) -> dict[str, Coded]:
        """Return columns without blanks as codes, all in one order of rows, which need not be the file's.

        Only distinct cells are trimmed and sorted. Rows are joined to them by the cell itself, never by
        a hash.
        """
        for name in names:
            self._make_vocabulary(name)
        codes = ", ".join(f"{_vocabulary(name)}.rowid::INTEGER AS {quote(name)}" for name in names)
        joins = " ".join(
            f"JOIN {_vocabulary(name)} ON raw.{cell(name)} = {_vocabulary(name)}.cell"
            for name in names
        )
        rows = self.connection.execute(f"SELECT {codes} FROM raw {joins}").fetchnumpy()
        return {name: self._coded(name, rows[name]) for name in names}

    def keep(self, chosen: Literal["min", "max"], columns: str) -> None:
        """Keep the first or the last row for each value of some columns; rows keep their numbers."""
        cells = ", ".join(f"{quote(name)} AS {cell(name)}" for name in self.names)
        for sql in (
            f"CREATE TABLE kept AS SELECT * FROM t WHERE {ROW} IN "
            f"(SELECT {chosen}({ROW}) FROM t GROUP BY {columns})",
            "DROP VIEW t",
            "DROP TABLE raw",
            "ALTER TABLE kept RENAME TO t",
            f"CREATE VIEW raw AS SELECT {cells} FROM t",
        ):
            self.query(sql)

    def _make_vocabulary(self, name: str) -> None:
        """Make a table of a column's distinct cells, sorted by text: the row of a cell is its code."""
        self.query(
            f"CREATE OR REPLACE TABLE {_vocabulary(name)} AS SELECT cell, {text_of_cell('cell')} AS name "
            f"FROM (SELECT DISTINCT {cell(name)} AS cell FROM raw) ORDER BY name, cell"
        )
        if self.query(f"SELECT count(*) FROM {_vocabulary(name)} WHERE name IS NULL")[0][0]:
            refuse_blanks(self, (name,))

    def _coded(self, name: str, code: np.ndarray) -> Coded:
        """Return codes and names; cells that differ only in the spaces around them are one name."""
        found = self.connection.execute(f"SELECT name FROM {_vocabulary(name)} ORDER BY rowid")
        names = np.asarray(found.fetchnumpy()["name"], dtype=np.str_)
        new = np.append(True, names[1:] != names[:-1])
        return Coded(code, names) if new.all() else Coded((np.cumsum(new) - 1)[code], names[new])


def open_table(path: Path, needed: tuple[str, ...]) -> TextTable:
    """Load one file; raise TableError if it is missing, empty, torn, or lacks a column."""
    if not path.is_file():
        raise TableError(f"{path} does not exist; mend the path")
    connection = duckdb.connect()
    form = next((f for end, f in FORMATS.items() if path.name.endswith(end)), CSV)
    try:
        columns = form.columns(connection, path)
        names = tuple(name for name, _ in columns)
        _check_header(path, names, needed)
        connection.execute(_load(columns, form.source(names)), [str(path)])
    except duckdb.Error as error:
        raise TableError(f"{path.name}: {_first_fault(error)}") from None
    except UnicodeDecodeError as error:
        raise TableError(
            f"{path.name} must be UTF-8 text: {error.reason} at {error.start}"
        ) from None
    except (OSError, EOFError) as error:
        raise TableError(f"{path.name} cannot be read: {error}") from None
    # DuckDB keeps the order of what it reads, so `rowid` counts the rows of the file
    trimmed = ", ".join(f"{text_of_cell(cell(name))} AS {quote(name)}" for name in names)
    connection.execute(f"CREATE VIEW t AS SELECT rowid + 1 AS {ROW}, {trimmed} FROM raw")
    table = TextTable(connection, path.name, names)
    if table.query("SELECT count(*) FROM t")[0][0] == 0:
        raise TableError(f"{path.name} has no rows below its header; export it again")
    return table


Columns = list[tuple[str, str]]  # a file's columns, each with DuckDB's type


class Format(NamedTuple):
    """How DuckDB reads a format: the columns of a file, and the SQL of its rows, of a file `$1`."""

    columns: Callable[[duckdb.DuckDBPyConnection, Path], Columns]
    source: Callable[[tuple[str, ...]], str]


def _csv_columns(connection: duckdb.DuckDBPyConnection, path: Path) -> Columns:
    with open_text(path) as file:
        return [(name, "VARCHAR") for name in next(csv.reader(file), ())]


def _csv_source(names: tuple[str, ...]) -> str:
    typed = ", ".join(f"{literal(name)}: 'VARCHAR'" for name in names)
    return (
        "read_csv($1, auto_detect=false, header=true, delim=',', quote='\"', escape='\"', "
        f"columns={{{typed}}})"
    )


def _parquet_columns(connection: duckdb.DuckDBPyConnection, path: Path) -> Columns:
    found = connection.execute("DESCRIBE SELECT * FROM read_parquet(?)", [str(path)]).fetchall()
    return [(row[0], row[1]) for row in found]


CSV = Format(_csv_columns, _csv_source)
FORMATS = {  # by the end of a file's name; other names are read as CSV
    ".csv": CSV,
    ".csv.gz": CSV,
    ".parquet": Format(_parquet_columns, lambda names: "read_parquet($1)"),
}


def _load(columns: Columns, source: str) -> str:
    """Return SQL that loads a file: whole numbers as they are, other cells as text, nothing trimmed."""
    cells = ", ".join(
        f"{quote(name)}{'' if kind in WHOLE else '::VARCHAR'} AS {cell(name)}"
        for name, kind in columns
    )
    return f"CREATE TABLE raw AS SELECT {cells} FROM {source}"


def cell(name: str) -> str:
    """Return the name of a column in `raw`, which no column of a file can have."""
    return quote(f"cell {name}")


def text_of_cell(column: str) -> str:
    """Return SQL of a cell as text without the spaces around it; white space alone is NULL."""
    text = f"{column}::VARCHAR"
    return f"CASE WHEN NOT regexp_full_match({text}, '{WHITE}') THEN trim({text}) END"


def _vocabulary(name: str) -> str:
    """Return the name of the table of a column's distinct cells."""
    return quote(f"vocabulary {name}")


def _renaming(path: Path, names: tuple[str, ...], needed: tuple[str, ...]) -> str:
    """Return what to do for the columns that a table needs."""
    if len(names) == 1 and any(mark in names[0] for mark in ";\t|"):
        return "separate the columns by commas"
    if "worker" not in needed:
        return "rename or add it"
    return (
        f"rename or add it, or let a command do it: crowdassay import {path.name} --format csv "
        "--map worker=...,task=...,label=... --output labels.csv"
    )


def _check_header(path: Path, names: tuple[str, ...], needed: tuple[str, ...]) -> None:
    if not names:
        raise TableError(f"{path.name} is empty; it needs the columns {', '.join(needed)}")
    missing = [name for name in needed if name not in names]
    if missing:
        raise TableError(
            f"{path.name} must have the columns {', '.join(needed)}; missing: {', '.join(missing)} "
            f"(it has {', '.join(names[:8])}{', ...' if len(names) > 8 else ''}); "
            f"{_renaming(path, names, needed)}"
        )
    if len(set(names)) != len(names):
        raise TableError(f"{path.name}: column names must differ; rename one")


def refuse_blanks(table: TextTable, columns: Sequence[str]) -> None:
    """Raise TableError if a cell of the columns is blank."""
    for column in columns:
        rows = table.query(f"SELECT {ROW} FROM t WHERE {quote(column)} IS NULL ORDER BY {ROW}")
        if rows:
            raise TableError(
                f"{table.file}, {_rows(rows)}, column {column}: the cell is blank; "
                "fill it or delete the row"
            )


def refuse_duplicates(
    table: TextTable, key: tuple[str, ...], keep: Duplicates, way_on: str
) -> None:
    """Raise TableError if rows repeat a key, or keep the first or the last of each."""
    columns = ", ".join(quote(name) for name in key)
    if keep != "error":
        table.keep("min" if keep == "first" else "max", columns)
        return
    again = table.query(
        f"SELECT list({ROW} ORDER BY {ROW}), {columns} FROM t GROUP BY {columns} "
        f"HAVING count(*) > 1 ORDER BY min({ROW})"
    )
    if again:
        rows, *values = again[0]
        named = ", ".join(f"{name} {value!r}" for name, value in zip(key, values, strict=True))
        more = f" (and {len(again) - 1:,} more such)" if len(again) > 1 else ""
        raise TableError(
            f"{table.file}, {_rows([(row,) for row in rows])}: {named} stands "
            f"{len(rows)} times{more}; delete the repeats or {way_on}"
        )


def refuse_outside(
    table: TextTable, column: str, known: Sequence[str] | np.ndarray, what: str
) -> None:
    """Raise TableError if a cell of the column is not a known name; `what` names the list of those."""
    table.query(
        "CREATE OR REPLACE TABLE known AS SELECT unnest($1::VARCHAR[]) AS name", list(known)
    )
    unknown = table.query(
        f"SELECT {ROW}, {quote(column)} FROM t "
        f"WHERE {quote(column)} NOT IN (SELECT name FROM known) ORDER BY {ROW}"
    )
    if unknown:
        raise TableError(
            f"{table.file}, {_rows(unknown)}, column {column}: {unknown[0][1]!r} is not among the {what}"
        )


def _rows(rows: Sequence[tuple[Any, ...]]) -> str:
    numbers = [f"{row[0]}" for row in rows[:SHOWN]]
    more = f" and {len(rows) - SHOWN:,} more" if len(rows) > SHOWN else ""
    return f"row{'s' if len(rows) > 1 else ''} {', '.join(numbers)}{more}"


def _first_fault(error: duckdb.Error) -> str:
    """Return DuckDB's report shortened to line, columns expected and columns found."""
    text = str(error)
    torn = re.search(r"CSV Error on Line: (\d+)", text)
    counts = re.search(r"Expected Number of Columns: (\d+) Found: (\d+)", text)
    if torn and counts:
        return f"line {torn[1]} must have {counts[1]} columns, it has {counts[2]}; mend that line"
    where = f"line {torn[1]} cannot be read" if torn else "not a readable table"
    return f"{where}: {text.splitlines()[0].removeprefix('Invalid Input Error: ')}"


def quote(name: str) -> str:
    """Return a column's name as SQL takes it."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Return a text as SQL takes it."""
    return "'" + text.replace("'", "''") + "'"
