"""One file as a table of text: opened, its rows numbered, its faults told with row, column and value.

Rows count from 1, the header not counted.
"""

from __future__ import annotations

import csv
import gzip
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import duckdb
import numpy as np

__all__ = [
    "TableError",
    "TextTable",
    "open_table",
    "quote",
    "refuse_blanks",
    "refuse_duplicates",
    "refuse_outside",
]

SHOWN = 3  # faulty rows named in one message


class TableError(ValueError):
    """A table cannot be used; the message names file, row, column and value, and a way on."""


@dataclass(frozen=True, slots=True)
class TextTable:
    """One file as a DuckDB table of text, its rows numbered."""

    connection: duckdb.DuckDBPyConnection
    file: str
    names: tuple[str, ...]

    def query(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Rows of a query on the table `t`."""
        return self.connection.execute(sql, list(parameters)).fetchall()

    def columns(self, *names: str) -> dict[str, np.ndarray]:
        """Whole columns of text, in the order of the rows."""
        quoted = ", ".join(quote(name) for name in names)
        fetched = self.connection.execute(f"SELECT {quoted} FROM t ORDER BY row").fetchnumpy()
        return {name: np.asarray(values, dtype=np.str_) for name, values in fetched.items()}


def open_table(path: Path, needed: tuple[str, ...]) -> TextTable:
    """Load one file; refuse it if it is missing, empty, torn, or lacks a column."""
    if not path.is_file():
        raise TableError(f"{path} does not exist; mend the path in the settings")
    connection = duckdb.connect()
    parquet = path.suffix == ".parquet"
    try:
        names = _parquet_header(connection, path) if parquet else _csv_header(path)
        _refuse_header(path, names, needed)
        connection.execute(f"CREATE TABLE t AS {_scan(names, parquet=parquet)}", [str(path)])
    except duckdb.Error as error:
        raise TableError(f"{path.name}: {_first_fault(error)}") from None
    except UnicodeDecodeError as error:
        raise TableError(
            f"{path.name} must be UTF-8 text: {error.reason} at {error.start}"
        ) from None
    except (OSError, EOFError) as error:
        raise TableError(f"{path.name} cannot be read: {error}") from None
    table = TextTable(connection, path.name, names)
    if table.query("SELECT count(*) FROM t")[0][0] == 0:
        raise TableError(f"{path.name} has no rows below its header; export it again")
    return table


def _csv_header(path: Path) -> tuple[str, ...]:
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8-sig", newline="") as file:
        return tuple(next(csv.reader(file), ()))


def _parquet_header(connection: duckdb.DuckDBPyConnection, path: Path) -> tuple[str, ...]:
    found = connection.execute("DESCRIBE SELECT * FROM read_parquet(?)", [str(path)]).fetchall()
    return tuple(row[0] for row in found)


def _scan(names: tuple[str, ...], *, parquet: bool) -> str:
    """SQL that reads a file as trimmed text columns under their own names; blank is NULL."""
    trimmed = ", ".join(f"nullif(trim({quote(n)}::VARCHAR), '') AS {quote(n)}" for n in names)
    if parquet:
        source = "read_parquet($1)"
    else:
        typed = ", ".join(f"{_literal(name)}: 'VARCHAR'" for name in names)
        source = (
            "read_csv($1, auto_detect=false, header=true, delim=',', quote='\"', escape='\"', "
            f"columns={{{typed}}})"
        )
    return f"SELECT row_number() OVER () AS row, {trimmed} FROM {source}"


def _refuse_header(path: Path, names: tuple[str, ...], needed: tuple[str, ...]) -> None:
    if not names:
        raise TableError(f"{path.name} is empty; it needs the columns {', '.join(needed)}")
    missing = [name for name in needed if name not in names]
    if missing:
        raise TableError(
            f"{path.name} must have the columns {', '.join(needed)}; missing: {', '.join(missing)} "
            f"(it has {', '.join(names[:8])}{', ...' if len(names) > 8 else ''}); rename or add it"
        )
    if len(set(names)) != len(names) or "row" in names:
        raise TableError(f"{path.name}: column names must differ and none may be 'row'; rename one")


def refuse_blanks(table: TextTable, columns: Sequence[str]) -> None:
    """Refuse blank cells."""
    for column in columns:
        rows = table.query(f"SELECT row FROM t WHERE {quote(column)} IS NULL ORDER BY row")
        if rows:
            raise TableError(
                f"{table.file}, {_rows(rows)}, column {column}: the cell is blank; "
                "fill it or delete the row"
            )


def refuse_duplicates(
    table: TextTable, key: tuple[str, ...], keep: Literal["error", "first", "last"], way_on: str
) -> None:
    """Refuse rows that repeat a key, or keep the first or the last of each."""
    columns = ", ".join(quote(name) for name in key)
    if keep != "error":
        chosen = "min" if keep == "first" else "max"
        table.query(
            f"DELETE FROM t WHERE row NOT IN (SELECT {chosen}(row) FROM t GROUP BY {columns})"
        )
        return
    again = table.query(
        f"SELECT list(row ORDER BY row), {columns} FROM t GROUP BY {columns} "
        "HAVING count(*) > 1 ORDER BY min(row)"
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
        f"SELECT row, {quote(column)} FROM t WHERE {quote(column)} NOT IN (SELECT name FROM known) "
        "ORDER BY row"
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
