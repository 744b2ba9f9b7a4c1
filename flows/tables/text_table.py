"""One file as a table of text: opened, its rows numbered, its faults told with row, column and value.

Rows count from 1, the header not counted.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import duckdb
import numpy as np
from jaxtyping import Int, Shaped

from flows.choices import Duplicates
from flows.files import open_text

__all__ = [
    "ROW",
    "Coded",
    "TableError",
    "TextTable",
    "open_table",
    "quote",
    "refuse_blanks",
    "refuse_duplicates",
    "refuse_outside",
]

SHOWN = 3  # faulty rows named in one message
ROW = '"row of the file"'  # the column of `t` that numbers its rows
WHITE = r"[\t-\r\x1c-\x20\x{85}\p{Z}]*"  # what Python's str.isspace holds to be white space
WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT")  # types joined faster than text


class TableError(ValueError):
    """A table cannot be used; the message names file, row, column and value, and a way on."""


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
        """Rows of a query on the table `t`."""
        return self.connection.execute(sql, list(parameters)).fetchall()

    def columns(self, *names: str) -> dict[str, np.ndarray]:
        """Whole columns of text, in the order of the rows."""
        quoted = ", ".join(quote(name) for name in names)
        fetched = self.connection.execute(f"SELECT {quoted} FROM t ORDER BY {ROW}").fetchnumpy()
        return {name: np.asarray(values, dtype=np.str_) for name, values in fetched.items()}

    def codes(self, *names: str) -> dict[str, Coded]:
        """Columns without blanks as codes, their rows in one order, which need not be the file's.

        Only distinct cells are trimmed and sorted. Rows are joined to them cell by cell: no hash
        stands for a cell.
        """
        for name in names:
            self._make_book(name)
        codes = ", ".join(f"{_book(name)}.rowid::INTEGER AS {quote(name)}" for name in names)
        joins = " ".join(
            f"JOIN {_book(name)} ON raw.{_cell(name)} = {_book(name)}.cell" for name in names
        )
        rows = self.connection.execute(f"SELECT {codes} FROM raw {joins}").fetchnumpy()
        return {name: self._coded(name, rows[name]) for name in names}

    def keep(self, chosen: Literal["min", "max"], columns: str) -> None:
        """Keep the first or the last row of each value of some columns; rows keep their numbers."""
        cells = ", ".join(f"{quote(name)} AS {_cell(name)}" for name in self.names)
        for sql in (
            f"CREATE TABLE kept AS SELECT * FROM t WHERE {ROW} IN "
            f"(SELECT {chosen}({ROW}) FROM t GROUP BY {columns})",
            "DROP VIEW t",
            "DROP TABLE raw",
            "ALTER TABLE kept RENAME TO t",
            f"CREATE VIEW raw AS SELECT {cells} FROM t",
        ):
            self.query(sql)

    def _make_book(self, name: str) -> None:
        """Distinct cells of a column, sorted by their text: the row of a cell is its code."""
        self.query(
            f"CREATE OR REPLACE TABLE {_book(name)} AS SELECT cell, {_text('cell')} AS name "
            f"FROM (SELECT DISTINCT {_cell(name)} AS cell FROM raw) ORDER BY name, cell"
        )
        if self.query(f"SELECT count(*) FROM {_book(name)} WHERE name IS NULL")[0][0]:
            refuse_blanks(self, (name,))

    def _coded(self, name: str, code: np.ndarray) -> Coded:
        """Cells that differ in the spaces around them alone are one name."""
        found = self.connection.execute(f"SELECT name FROM {_book(name)} ORDER BY rowid")
        book = np.asarray(found.fetchnumpy()["name"], dtype=np.str_)
        new = np.append(True, book[1:] != book[:-1])
        return Coded(code, book) if new.all() else Coded((np.cumsum(new) - 1)[code], book[new])


def open_table(path: Path, needed: tuple[str, ...]) -> TextTable:
    """Load one file; refuse it if it is missing, empty, torn, or lacks a column."""
    if not path.is_file():
        raise TableError(f"{path} does not exist; mend the path")
    connection = duckdb.connect()
    parquet = path.suffix == ".parquet"
    try:
        types = _parquet_types(connection, path) if parquet else None
        names = tuple(types) if types is not None else _csv_header(path)
        _refuse_header(path, names, needed)
        connection.execute(_load(names, types), [str(path)])
    except duckdb.Error as error:
        raise TableError(f"{path.name}: {_first_fault(error)}") from None
    except UnicodeDecodeError as error:
        raise TableError(
            f"{path.name} must be UTF-8 text: {error.reason} at {error.start}"
        ) from None
    except (OSError, EOFError) as error:
        raise TableError(f"{path.name} cannot be read: {error}") from None
    # DuckDB keeps the order of what it reads, so `rowid` counts the rows of the file
    trimmed = ", ".join(f"{_text(_cell(name))} AS {quote(name)}" for name in names)
    connection.execute(f"CREATE VIEW t AS SELECT rowid + 1 AS {ROW}, {trimmed} FROM raw")
    table = TextTable(connection, path.name, names)
    if table.query("SELECT count(*) FROM t")[0][0] == 0:
        raise TableError(f"{path.name} has no rows below its header; export it again")
    return table


def _csv_header(path: Path) -> tuple[str, ...]:
    with open_text(path) as file:
        return tuple(next(csv.reader(file), ()))


def _parquet_types(connection: duckdb.DuckDBPyConnection, path: Path) -> dict[str, str]:
    found = connection.execute("DESCRIBE SELECT * FROM read_parquet(?)", [str(path)]).fetchall()
    return {row[0]: row[1] for row in found}


def _load(names: tuple[str, ...], types: dict[str, str] | None) -> str:
    """SQL that loads a file: whole numbers as they are, other cells as text, nothing trimmed."""
    if types is not None:
        source = "read_parquet($1)"
        cells = [quote(n) if types[n] in WHOLE else f"{quote(n)}::VARCHAR" for n in names]
    else:
        typed = ", ".join(f"{_literal(name)}: 'VARCHAR'" for name in names)
        source = (
            "read_csv($1, auto_detect=false, header=true, delim=',', quote='\"', escape='\"', "
            f"columns={{{typed}}})"
        )
        cells = [quote(name) for name in names]
    named = ", ".join(f"{c} AS {_cell(n)}" for c, n in zip(cells, names, strict=True))
    return f"CREATE TABLE raw AS SELECT {named} FROM {source}"


def _cell(name: str) -> str:
    """A column of `raw`, under a name that no column of a file hides."""
    return quote(f"cell {name}")


def _text(cell: str) -> str:
    """SQL of a cell as text without the spaces around it; white space alone is NULL."""
    text = f"{cell}::VARCHAR"
    return f"CASE WHEN NOT regexp_full_match({text}, '{WHITE}') THEN trim({text}) END"


def _book(name: str) -> str:
    """The table of a column's distinct cells."""
    return quote(f"book {name}")


def _renaming(path: Path, names: tuple[str, ...], needed: tuple[str, ...]) -> str:
    """How a table comes by the columns it needs."""
    if len(names) == 1 and any(mark in names[0] for mark in ";\t|"):
        return "separate the columns by commas"
    if "worker" not in needed:
        return "rename or add it"
    return (
        f"rename or add it, or have it done: crowdassay import {path.name} --format csv "
        "--map worker=...,task=...,label=... --output labels.csv"
    )


def _refuse_header(path: Path, names: tuple[str, ...], needed: tuple[str, ...]) -> None:
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
    """Refuse blank cells."""
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
    """Refuse rows that repeat a key, or keep the first or the last of each."""
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
    """Refuse cells of a column whose text is not a known name; `what` says where it should stand."""
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
    """DuckDB's report cut down to line, columns expected and columns found."""
    text = str(error)
    torn = re.search(r"CSV Error on Line: (\d+)", text)
    counts = re.search(r"Expected Number of Columns: (\d+) Found: (\d+)", text)
    if torn and counts:
        return f"line {torn[1]} must have {counts[1]} columns, it has {counts[2]}; mend that line"
    where = f"line {torn[1]} cannot be read" if torn else "not a readable table"
    return f"{where}: {text.splitlines()[0].removeprefix('Invalid Input Error: ')}"


def quote(name: str) -> str:
    """A column's name as SQL takes it."""
    return '"' + name.replace('"', '""') + '"'


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
