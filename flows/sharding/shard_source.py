"""Parquet tables read by DuckDB under a cap of memory: labels as codes, sorted by task and worker.

A table is never loaded: it is read anew by each query, and what a query cannot hold is spilled.
"""

from __future__ import annotations

import tempfile
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import duckdb
import numpy as np
import pyarrow as pa

from flows.tables.text_table import (
    ROW,
    WHITE,
    WHOLE,
    TableError,
    TextTable,
    quote,
    refuse_blanks,
    refuse_duplicates,
    refuse_outside,
)

__all__ = ["CODES", "ShardSource", "open_source", "open_tasks"]

Column = Literal["worker", "task", "label"]
CODES: tuple[Column, ...] = ("worker", "task", "label")
NUMBER = "file_row_number"  # what DuckDB calls it; from 0


@dataclass(frozen=True, slots=True)
class ShardSource:
    """One Parquet file in DuckDB: its cells (`raw`), its rows as text (`t`), a book per column."""

    table: TextTable

    def make_books(self, classes: Sequence[str] | None, known_tasks: np.ndarray | None) -> None:
        """Number the names of each column; refuse blank cells, and names that are not known."""
        for column in CODES:
            self.table.query(
                f"CREATE TABLE {column}s AS SELECT cell, name, "
                "(dense_rank() OVER (ORDER BY name) - 1)::INTEGER AS code "
                f"FROM (SELECT cell, {_text('cell')} AS name "
                f"FROM (SELECT DISTINCT {column} AS cell FROM raw))"
            )
            if self.table.query(f"SELECT count(*) FROM {column}s WHERE name IS NULL")[0][0]:
                refuse_blanks(self.table, (column,))
        if classes is not None:
            self._declare(classes)
        if known_tasks is not None:
            self._refuse_unknown(known_tasks)

    def _refuse_unknown(self, tasks: np.ndarray) -> None:
        """Refuse labels of tasks that are in no task table."""
        found = self.table.connection.execute("SELECT DISTINCT name FROM tasks").fetchnumpy()
        if not np.isin(np.asarray(found["name"], dtype=np.str_), tasks).all():
            refuse_outside(self.table, "task", tasks, "task tables; add the task or drop the row")

    def _declare(self, classes: Sequence[str]) -> None:
        """Give the labels the codes of the classes declared."""
        found = {row[0] for row in self.table.query("SELECT name FROM labels")}
        if not found <= set(classes):
            where = "classes of the settings; add the class or mend the row"
            refuse_outside(self.table, "label", classes, where)
        for code, name in enumerate(classes):
            self.table.query("UPDATE labels SET code = $1 WHERE name = $2", code, name)
            if name not in found:
                self.table.query("INSERT INTO labels VALUES (NULL, $2, $1)", code, name)

    def size(self, column: Column) -> int:
        """Number of names of a column."""
        return int(self.table.query(f"SELECT max(code) + 1 FROM {column}s")[0][0])

    def write_book(self, column: Column, path: Path) -> None:
        """Write the names of a column in the order of their codes."""
        names = f"SELECT any_value(name) AS name FROM {column}s GROUP BY code ORDER BY code"
        self.table.query(
            f"COPY ({names}) TO {_literal(str(path))} (FORMAT parquet, COMPRESSION zstd)"
        )

    def sorted_codes(
        self, size: int, *, keep: Literal["first", "last"]
    ) -> Generator[pa.RecordBatch, None, None]:
        """Codes by task and worker; of rows that repeat both, the one to keep comes first."""
        codes = ", ".join(f"{column}s.code AS {column}" for column in CODES)
        joins = " ".join(f"JOIN {column}s ON raw.{column} = {column}s.cell" for column in CODES)
        order = "DESC" if keep == "last" else "ASC"
        rows = self.table.connection.sql(
            f"SELECT {codes} FROM raw {joins} ORDER BY tasks.code, workers.code, {NUMBER} {order}"
        )
        with rows.to_arrow_reader(size) as reader:  # closed before the next query is begun
            yield from reader

    def refuse_repeat(self, worker: int, task: int) -> None:
        """Refuse a worker's second label of a task, with its rows."""
        asked = self.table.query(
            "SELECT workers.name, tasks.name FROM workers, tasks "
            "WHERE workers.code = $1 AND tasks.code = $2 LIMIT 1", worker, task,
        )[0]  # fmt: skip
        self.table.query(
            "CREATE TABLE repeated AS SELECT * FROM t WHERE worker = $1 AND task = $2", *asked
        )
        self.table.query("CREATE OR REPLACE VIEW t AS SELECT * FROM repeated")
        way_on = 'set duplicates = "first" or "last"'
        refuse_duplicates(self.table, ("worker", "task"), "error", way_on)


@contextmanager
def open_source(
    path: Path, folder: Path, *, memory_gb: float, threads: int | None
) -> Iterator[ShardSource]:
    """Open a Parquet file; what DuckDB cannot hold in memory lies in `folder` until it is closed."""
    if path.suffix != ".parquet":
        raise TableError(
            f"{path.name} must be Parquet to be read in shards; convert it, or leave out [engine]"
        )
    with _capped(folder, memory_gb, threads) as connection:
        types = _types(connection, path, CODES)
        cells = ", ".join(
            f"{quote(c)}{'' if types[c] in WHOLE else '::VARCHAR'} AS {c}" for c in CODES
        )
        connection.execute(f"CREATE VIEW raw AS SELECT {cells}, {NUMBER} FROM {_rows(path)}")
        yield ShardSource(_told(connection, path, "raw", CODES))


@contextmanager
def open_tasks(
    paths: Sequence[Path], folder: Path, *, memory_gb: float, threads: int | None
) -> Iterator[list[TextTable]]:
    """Open task tables of Parquet, each as rows of text; all of them share the cap of memory."""
    with _capped(folder, memory_gb, threads) as shared:
        tables = []
        for number, path in enumerate(paths):
            connection = shared.cursor()
            connection.execute(f"CREATE SCHEMA of_{number}")
            connection.execute(f"USE of_{number}")
            types = _types(connection, path, ("task",))
            tables.append(_told(connection, path, _rows(path), tuple(types)))
        yield tables


@contextmanager
def _capped(
    folder: Path, memory_gb: float, threads: int | None
) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection that spills into the folder what does not fit."""
    with (
        tempfile.TemporaryDirectory(prefix=".spill-", dir=folder) as spill,
        duckdb.connect() as one,
    ):
        one.execute("SET enable_progress_bar = false")
        one.execute(f"SET memory_limit = '{round(1e3 * memory_gb)}MB'")
        one.execute(f"SET temp_directory = {_literal(spill)}")
        if threads is not None:
            one.execute(f"SET threads = {threads}")
        yield one


def _rows(path: Path) -> str:
    """SQL of a file's rows, with their numbers."""
    return f"read_parquet({_literal(str(path))}, {NUMBER}=true)"


def _types(
    connection: duckdb.DuckDBPyConnection, path: Path, needed: Sequence[str]
) -> dict[str, str]:
    """Types of a file's columns; refuse it if it is missing, empty, torn, or lacks a column."""
    if not path.is_file():
        raise TableError(f"{path} does not exist; mend the path in the settings")
    try:
        found = connection.execute(f"DESCRIBE SELECT * FROM {_rows(path)}").fetchall()
        (n_rows,) = connection.execute(f"SELECT count(*) FROM {_rows(path)}").fetchall()
    except duckdb.Error as error:
        raise TableError(f"{path.name}: not a readable table: {error}") from None
    types = {row[0]: row[1] for row in found if row[0] != NUMBER}
    missing = [column for column in needed if column not in types]
    if missing:
        raise TableError(
            f"{path.name} must have the columns {', '.join(needed)}; missing: {', '.join(missing)}; "
            "rename or add it"
        )
    if n_rows == (0,):
        raise TableError(f"{path.name} has no rows below its header; export it again")
    return types


def _told(
    connection: duckdb.DuckDBPyConnection, path: Path, rows: str, names: tuple[str, ...]
) -> TextTable:
    """The rows with all cells text, and numbered from 1, as faults are told."""
    texts = ", ".join(f"{_text(quote(name))} AS {quote(name)}" for name in names)
    connection.execute(f"CREATE VIEW t AS SELECT {NUMBER} + 1 AS {ROW}, {texts} FROM {rows}")
    return TextTable(connection, path.name, names)


def _text(cell: str) -> str:
    """SQL of a cell as text without the spaces around it; white space alone is NULL."""
    text = f"{cell}::VARCHAR"
    return f"CASE WHEN NOT regexp_full_match({text}, '{WHITE}') THEN trim({text}) END"


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
