"""How a table is refused, and the names that its columns have in SQL.

>>> quote("my column"), cell("task")
('"my column"', '"cell task"')
"""

from __future__ import annotations

import glob
import gzip
import re
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from flows.choices import Duplicates

if TYPE_CHECKING:
    from quality import LabelError

__all__ = [
    "BROKEN", "MAX_LETTERS", "OF_FILE_ALONE", "ROW", "WHITE", "TableError", "cell", "literal", "number",
    "placed", "quote", "refuse_blanks", "refuse_damaged", "refuse_duplicates", "refuse_names",
    "refuse_outside", "refuse_same_columns", "refuse_undeclared", "refuse_vocabulary", "text_of_cell",
    "text_of_file", "text_of_float", "text_of_json", "text_of_number", "text_of_value",
]  # fmt: skip

MAX_LETTERS = (
    4_000  # of a name: NumPy keeps four bytes for every letter of the longest, in each name
)
OF_FILE_ALONE = "hive_partitioning=false"  # a folder named label=cat is no column of its files
BLOCK = 1 << 20  # bytes unpacked at once
SHOWN = 3  # faulty rows named in one message
BROKEN = ("FLOAT", "DOUBLE")  # types of numbers with a point
ROW = '"row of the file"'  # the column of `t` that numbers its rows
WHITE = r"[\t-\r\x1c-\x20\x{85}\p{Z}]"  # what Python's str.isspace holds to be white space


class TableError(ValueError):
    """A table cannot be used; the message names file, row, column, value and what to do."""


class NumberedRows(Protocol):
    """A file whose rows of text are the table `t`, numbered in its column `ROW`."""

    @property
    def file(self) -> str:
        """The name of the file."""

    def query(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a query on the table `t`."""

    def keep(self, chosen: Literal["min", "max"], columns: str) -> None:
        """Keep the first or the last row for each value of some columns."""


def refuse_same_columns(file: str, names: Sequence[str]) -> None:
    """Raise TableError if two columns have one name, or names that only capital letters tell apart."""
    places: dict[str, list[int]] = {}
    for place, name in enumerate(names, 1):
        places.setdefault(name.lower(), []).append(place)
    twice = next((found for found in places.values() if len(found) > 1), None)
    if twice is not None:
        alike = ", ".join(f"{names[place - 1]!r} (column {place})" for place in twice)
        raise TableError(
            f"{file}: column names must differ, in more than capital letters, got {alike}; rename or "
            "delete one"
        )


def refuse_blanks(table: NumberedRows, columns: Sequence[str]) -> None:
    """Raise TableError if a cell of the columns is blank."""
    for column in columns:
        rows = table.query(f"SELECT {ROW} FROM t WHERE {quote(column)} IS NULL ORDER BY {ROW}")
        if rows:
            raise TableError(
                f"{table.file}, {_rows(rows)}, column {column}: the cell is blank; "
                "fill it or delete the row"
            )


def refuse_names(table: NumberedRows, columns: Sequence[str]) -> None:
    """Raise TableError if a name in the columns is blank, has a NUL byte, or is longer than a name may be."""
    for column in columns:
        length = f"length({quote(column)})"
        wrong = table.query(
            f"SELECT {ROW}, {length} FROM t WHERE coalesce({length}, 0) NOT BETWEEN 1 AND {MAX_LETTERS} "
            f"ORDER BY {ROW}"
        )
        long = [row for row in wrong if row[1]]
        if len(long) < len(wrong):
            refuse_blanks(table, (column,))
        ends = table.query(
            f"SELECT {ROW} FROM t WHERE contains({quote(column)}, chr(0)) ORDER BY {ROW}"
        )
        if ends and not long:
            raise TableError(
                f"{table.file}, {_rows(ends)}, column {column}: a name must not hold a NUL byte, where it "
                "would end; delete the byte"
            )
        if long:
            raise TableError(
                f"{table.file}, {_rows(long)}, column {column}: a name must have at most {MAX_LETTERS:,} "
                f"letters, it has {long[0][1]:,}; shorten it"
            )


def refuse_vocabulary(table: NumberedRows, names: str, column: str) -> None:
    """Raise TableError as `refuse_names` does; only the table of the column's names is looked through."""
    wrong = f"name IS NULL OR length(name) > {MAX_LETTERS} OR contains(name, chr(0))"
    if table.query(f"SELECT count(*) FROM {names} WHERE {wrong}")[0][0]:
        refuse_names(table, (column,))


def refuse_duplicates(
    table: NumberedRows, key: tuple[str, ...], keep: Duplicates, way_on: str
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
    table: NumberedRows, column: str, known: Sequence[str] | np.ndarray, what: str
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


def refuse_undeclared(table: NumberedRows, classes: Sequence[str]) -> None:
    """Raise TableError if a label is not among the classes that settings or an option declare."""
    refuse_outside(table, "label", classes, "classes declared; add the class or mend the row")


def placed(file: str, error: LabelError) -> str:
    """Return what is wrong with labels as a sentence with their file, whose rows count from 1."""
    if error.row is None:
        return f"{file}: {error}"
    pair = re.match(r"rows (\d+) and (\d+) \(counted from 0\) ", str(error))
    if pair is not None:
        return f"{file}, rows {int(pair[1]) + 1}, {int(pair[2]) + 1} {str(error)[pair.end() :]}"
    reason = str(error).replace(f" at row {error.row} (counted from 0)", "")
    return f"{file}, row {error.row + 1}: {reason}"


def _rows(rows: Sequence[tuple[Any, ...]]) -> str:
    numbers = [f"{row[0]}" for row in rows[:SHOWN]]
    more = f" and {len(rows) - SHOWN:,} more" if len(rows) > SHOWN else ""
    return f"row{'s' if len(rows) > 1 else ''} {', '.join(numbers)}{more}"


def cell(name: str) -> str:
    """Return the name of a column in `raw`, which no column of a file can have."""
    return quote(f"cell {name}")


def number(name: str) -> str:
    """Return the name of a column's numbers in `t`."""
    return quote(f"number {name}")


def text_of_cell(column: str) -> str:
    """Return SQL of a cell as text without the white space around it; white space alone is NULL.

    It is what Python's str.strip leaves. DuckDB's trim is quick, but knows neither tabs nor line ends.
    """
    text, edge = f"{column}::VARCHAR", f"^{WHITE}|{WHITE}$"
    inner = f"regexp_extract({text}, '(?s)^{WHITE}*(.*?){WHITE}*$', 1)"
    return (
        f"nullif(CASE WHEN NOT regexp_matches({text}, '{edge}') THEN {text} "
        f"WHEN NOT regexp_matches(trim({text}), '{edge}') THEN trim({text}) ELSE {inner} END, '')"
    )


def text_of_number(column: str, kind: str) -> str:
    """Return SQL of a cell of a type as text; a whole number of a type with a point is without it.

    Once a cell is missing, pandas writes whole numbers in such a type: 7 and 7.0 are one worker. Minus zero
    stays -0.0, as 0 and -0 are two names. NaN is a missing cell, as in `plain_table`. Bytes are UTF-8 where
    they can be: some writers of Parquet do not say that a column is text. Lists of texts become JSON, which
    says where one text ends.
    """
    if kind == "VARCHAR[]":
        return f"to_json({column})::VARCHAR"
    if kind == "BLOB":
        return f"coalesce(try(decode({column})), {column}::VARCHAR)"
    if kind not in BROKEN:
        return f"{column}::VARCHAR"
    # the bounds that Parquet keeps of a column leave NaN out, and DuckDB decides comparisons by them
    return (
        f"CASE WHEN isnan({column}) THEN NULL WHEN {column} = trunc({column}) AND abs({column}) < 2**53 "
        f"AND NOT ({column} = 0 AND signbit({column})) "
        f"THEN try_cast({column} AS BIGINT)::VARCHAR ELSE {column}::VARCHAR END"
    )


def text_of_json(column: str) -> str:
    """Return SQL of a value of JSON as text; a whole number is without its point, and NaN a missing cell.

    Once a value is missing, pandas writes whole numbers with a point: 7 and 7.0 are one worker. Python writes
    NaN for a missing one.
    """
    text = f"{column} ->> '$'"
    number = text_of_number(f"try_cast({text} AS DOUBLE)", "DOUBLE")
    kept = f"NOT regexp_full_match({number}, '-?[0-9]+')"  # NULL of a NaN
    return f"CASE WHEN json_type({column}) != 'DOUBLE' OR {kept} THEN {text} ELSE {number} END"


def text_of_float(value: float) -> str:
    """Return a number as `text_of_number` writes it.

    >>> text_of_float(7.0), text_of_float(0.5), text_of_float(-0.0)
    ('7', '0.5', '-0.0')
    """
    whole = value.is_integer() and abs(value) < 2**53 and str(value) != "-0.0"
    return str(int(value) if whole else value)


def text_of_value(value: object) -> str | None:
    """Return a single value as the text of a cell, a missing one as blank; None for a value with parts.

    A whole number is without its point, as in tables: pandas writes 7.0 for 7 once a value is missing.

    >>> text_of_value(7.0), text_of_value(0.5), text_of_value(True), text_of_value(["cat"]) is None
    ('7', '0.5', 'true', True)
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None or value != value:  # exporters write NaN for nothing
        return ""
    if isinstance(value, float):
        return text_of_float(value)
    return str(value) if isinstance(value, int) else None


def quote(name: str) -> str:
    """Return a column's name as SQL takes it."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Return a text as SQL takes it."""
    return "'" + text.replace("'", "''") + "'"


def text_of_file(path: Path) -> str:
    """Return a file as DuckDB's readers take it, to which `labels[1].csv` is a pattern of other files.

    >>> text_of_file(Path("labels[1].csv"))
    "'labels[[]1].csv'"
    """
    # by itself DuckDB takes a name with ? for an address, and does not look at its end
    packed = ", compression='gzip'" if path.suffix.lower() == ".gz" else ""
    return literal(glob.escape(str(path))) + packed


def refuse_damaged(path: Path) -> None:
    """Raise TableError for a file by gzip that is cut short or has changed since it was written.

    DuckDB does not compare the checksum, and reads what is left of such a file, or never ends.
    """
    if path.suffix.lower() != ".gz":
        return
    try:
        with gzip.open(path) as file:
            while file.read(BLOCK):
                pass
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise TableError(
            f"{path.name} must be a whole file by gzip, and is damaged ({error}); copy it or export it again"
        ) from None
