"""A label table too large for memory as codes, which come sorted by task and worker, a batch at a time.

Names of text or of integers that need no trimming are coded as they stand. Their codes lie in files without a
name, whose pages the system takes back, and are sorted range of tasks after range. Other tables go through
DuckDB, which reads the file anew for each query, numbers, joins and sorts under a cap of memory, and spills
the rest into the folder. Both ways give the same codes.

>>> with open_source(Path("labels.parquet"), Path("shards"), memory_gb=2.0,
...     threads=None) as source:  # doctest: +SKIP
...     codes = source.coded(None)
...     codes.size("worker")
120
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from jaxtyping import Int32

from flows.choices import LABEL_COLUMNS, LabelColumn
from flows.tables import (
    OF_FILE_ALONE,
    ROW,
    WHOLE,
    TableError,
    TextTable,
    are_known,
    arrow_array,
    connected,
    first_fault,
    is_number,
    literal,
    number,
    numbers_of,
    parquet_texts,
    quote,
    refuse_duplicates,
    refuse_outside,
    refuse_undeclared,
    refuse_vocabulary,
    text_of_cell,
    text_of_file,
    text_of_number,
)
from quality.labels import Texts, sorted_ranges

__all__ = [
    "BATCH", "VOCABULARY", "LabelCodes", "LabelSource", "open_source", "open_tasks",
]  # fmt: skip

NUMBER = "file_row_number"  # what DuckDB calls it; from 0
BATCH = 1_000_000  # rows of codes in this process at a time
VOCABULARY = pa.schema([("name", pa.string())])
NAMES_AT_ONCE = 2**17  # however long, below the 2^31 bytes that offsets of 32 bits reach
BYTES = {"VARCHAR": 1}  # in memory for each cell that is coded as it stands
BYTES_OF_NUMBER = 16  # the same, of integers
MOST_MB = 10**9  # no machine has more, and DuckDB takes no limit of any size


class LabelCodes(Protocol):
    """The columns of a label table, each as codes of its sorted names."""

    def size(self, column: LabelColumn) -> int:
        """Return the number of names of a column."""

    def write_vocabulary(self, column: LabelColumn, path: Path) -> None:
        """Write the names of a column in the order of their codes."""

    def sorted_codes(
        self, *, keep: Literal["any", "first", "last"]
    ) -> Generator[pa.RecordBatch, None, None]:
        """Yield codes by task and worker; of rows that repeat both, the one to keep comes first."""


@dataclass(frozen=True, slots=True)
class LabelSource:
    """One Parquet file in DuckDB: its cells (`raw`) and its rows as text (`t`).

    Codes that are not in memory are in `folder`.
    """

    table: TextTable
    path: Path
    folder: Path
    fits: bool  # whether memory has room for what coding cells as they stand takes

    def coded(self, classes: Sequence[str] | None) -> LabelCodes:
        """Return the columns as codes; raise TableError for a blank cell or an unknown class."""
        found = None
        if self.fits:
            found = parquet_texts(
                self.path, LABEL_COLUMNS, room=lambda n: _pages(self.folder, n, np.int32)
            )
        if found is None:
            return _JoinedCodes.of(self, classes)
        plain = _PlainCodes(
            {name: code for name, (code, _) in found.items()},
            {name: texts for name, (_, texts) in found.items()},
            self.folder,
        )
        return plain if classes is None else plain.declared(self, classes)

    def refuse_unknown(self, tasks: Iterable[np.ndarray], known: np.ndarray) -> None:
        """Raise TableError if a label's task is in no task table; all are sorted names."""
        if not all(are_known(some, known).all() for some in tasks):
            refuse_outside(self.table, "task", known, "task tables; add the task or drop the row")

    def refuse_classes(self, found: set[str], classes: Sequence[str]) -> None:
        """Raise TableError if a label is not among the classes declared."""
        if not found <= set(classes):
            refuse_undeclared(self.table, classes)

    def refuse_repeat(self, worker: str, task: str) -> None:
        """Raise TableError for a worker's second label of a task, with its rows."""
        self.table.query(
            "CREATE TABLE repeated AS SELECT * FROM t WHERE worker = $1 AND task = $2", worker, task
        )
        self.table.query("CREATE OR REPLACE VIEW t AS SELECT * FROM repeated")
        remedy = 'set duplicates = "first" or "last" (--duplicates first)'
        refuse_duplicates(self.table, ("worker", "task"), "error", remedy)


@dataclass(frozen=True, slots=True)
class _PlainCodes:
    """Codes of cells as they stand, in pages of files; names in memory."""

    code: Mapping[str, Int32[np.ndarray, " rows"]]
    names: Mapping[str, Texts]
    folder: Path

    def size(self, column: LabelColumn) -> int:
        return len(self.names[column].start) - 1

    def declared(self, source: LabelSource, classes: Sequence[str]) -> _PlainCodes:
        """Return labels with the codes of the classes declared; the old codes are overwritten."""
        found = self._texts("label", 0, self.size("label")).to_pylist()
        source.refuse_classes(set(found), classes)
        place = {name: code for code, name in enumerate(classes)}
        to = np.array([place[name] for name in found], dtype=np.int32)
        label = self.code["label"]
        for at in range(0, len(label), BATCH):
            label[at : at + BATCH] = to[label[at : at + BATCH]]
        letters = [name.encode() for name in classes]
        start = np.cumsum([0, *map(len, letters)])
        names = Texts(np.frombuffer(b"".join(letters), dtype=np.uint8), start)
        return _PlainCodes(self.code, {**self.names, "label": names}, self.folder)

    def write_vocabulary(self, column: LabelColumn, path: Path) -> None:
        with pq.ParquetWriter(path, VOCABULARY, compression="zstd") as file:
            for at in range(0, self.size(column), NAMES_AT_ONCE):
                some = self._texts(column, at, min(at + NAMES_AT_ONCE, self.size(column)))
                file.write_table(pa.table([some], schema=VOCABULARY))

    def sorted_codes(
        self, *, keep: Literal["any", "first", "last"]
    ) -> Generator[pa.RecordBatch, None, None]:
        worker, task, label = (self.code[name] for name in LABEL_COLUMNS)
        key = _pages(self.folder, len(worker), np.int64)
        n_workers, n_tasks = self.size("worker"), self.size("task")
        for rows in sorted_ranges(
            worker, task, label, key, n_workers, n_tasks, in_range=BATCH, keep=keep
        ):
            yield pa.RecordBatch.from_arrays(list(map(arrow_array, rows)), list(LABEL_COLUMNS))

    def _texts(self, column: LabelColumn, first: int, last: int) -> pa.Array:
        letters, start = self.names[column]
        low, high = start[first], start[last]
        offsets = (start[first : last + 1] - low).astype(np.int32)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(letters[low:high])]
        return pa.Array.from_buffers(pa.string(), last - first, buffers)


def _pages(folder: Path, size: int, kind: type) -> np.ndarray:
    """Return memory of a file without a name, which goes when the array goes; a full disk is an error."""
    with tempfile.TemporaryFile(dir=folder) as file:
        n_bytes = size * np.dtype(kind).itemsize
        file.truncate(n_bytes)
        if hasattr(os, "posix_fallocate"):  # not on every system
            os.posix_fallocate(file.fileno(), 0, n_bytes)
        return np.asarray(np.memmap(file, dtype=kind, mode="r+", shape=(size,)))


@dataclass(frozen=True, slots=True)
class _JoinedCodes:
    """Codes that DuckDB joins to the cells; it holds the names."""

    source: LabelSource

    @classmethod
    def of(cls, source: LabelSource, classes: Sequence[str] | None) -> _JoinedCodes:
        """Number the names of each column; raise TableError for a blank cell or an unknown class."""
        table = source.table
        for column in LABEL_COLUMNS:
            table.query(
                f"CREATE TABLE {column}s AS SELECT cell, name, "
                "(dense_rank() OVER (ORDER BY name) - 1)::INTEGER AS code "
                f"FROM (SELECT cell, {text_of_cell('cell')} AS name "
                f"FROM (SELECT DISTINCT {column} AS cell FROM raw))"
            )
            refuse_vocabulary(table, f"{column}s", column)
        if classes is not None:
            found = {row[0] for row in table.query("SELECT name FROM labels")}
            source.refuse_classes(found, classes)
            for code, name in enumerate(classes):
                table.query("UPDATE labels SET code = $1 WHERE name = $2", code, name)
                if name not in found:
                    table.query("INSERT INTO labels VALUES (NULL, $2, $1)", code, name)
        return cls(source)

    def size(self, column: LabelColumn) -> int:
        return int(self.source.table.query(f"SELECT max(code) + 1 FROM {column}s")[0][0])

    def write_vocabulary(self, column: LabelColumn, path: Path) -> None:
        # grouped only where cells differ in blanks alone: a group of each name must fit in memory
        (cells,) = self.source.table.query(f"SELECT count(*) FROM {column}s")[0]
        one_each = cells == self.size(column)
        what = "name" if one_each else "any_value(name) AS name"
        names = f"SELECT {what} FROM {column}s {'' if one_each else 'GROUP BY code'} ORDER BY code"
        self.source.table.query(
            f"COPY ({names}) TO {literal(str(path))} (FORMAT parquet, COMPRESSION zstd)"
        )

    def sorted_codes(
        self, *, keep: Literal["any", "first", "last"]
    ) -> Generator[pa.RecordBatch, None, None]:
        codes = ", ".join(f"{column}s.code AS {column}" for column in LABEL_COLUMNS)
        joins = " ".join(
            f"JOIN {column}s ON raw.{column} = {column}s.cell" for column in LABEL_COLUMNS
        )
        order = "DESC" if keep == "last" else "ASC"
        rows = self.source.table.connection.sql(
            f"SELECT {codes} FROM raw {joins} ORDER BY tasks.code, workers.code, {NUMBER} {order}"
        )
        with rows.to_arrow_reader(BATCH) as reader:  # closed before the next query is begun
            yield from reader


@contextmanager
def open_source(
    path: Path, folder: Path, *, memory_gb: float, threads: int | None
) -> Iterator[LabelSource]:
    """Open a Parquet file; what DuckDB cannot hold in memory is in `folder` until it is closed."""
    if path.suffix.lower() != ".parquet":
        raise TableError(
            f"{path.name} must be Parquet to be read in shards; convert it, or leave out [engine]"
        )
    with _capped((path,), folder, memory_gb, threads) as connection:
        types = _types(connection, path, LABEL_COLUMNS)
        cells = ", ".join(
            f"{quote(c) if types[c] in WHOLE else text_of_number(quote(c), types[c])} AS {c}"
            for c in LABEL_COLUMNS
        )
        connection.execute(f"CREATE VIEW raw AS SELECT {cells}, {NUMBER} FROM {_rows(path)}")
        kinds: dict[str, str] = {
            c: types[c] if types[c] in WHOLE else "VARCHAR" for c in LABEL_COLUMNS
        }
        bytes_a_row = sum(BYTES.get(types[column], BYTES_OF_NUMBER) for column in LABEL_COLUMNS)
        fits = bytes_a_row * pq.read_metadata(path).num_rows <= 1e9 * memory_gb
        yield LabelSource(_as_text(connection, path, "raw", kinds), path, folder, fits)


@contextmanager
def open_tasks(
    paths: Sequence[Path], folder: Path, *, memory_gb: float, threads: int | None
) -> Iterator[list[TextTable]]:
    """Open task tables of Parquet, each as rows of text; all of them share the cap of memory."""
    with _capped(paths, folder, memory_gb, threads) as shared:
        tables = []
        for number, path in enumerate(paths):
            connection = shared.cursor()
            connection.execute(f"CREATE SCHEMA of_{number}")
            connection.execute(f"USE of_{number}")
            types = _types(connection, path, ("task",))
            tables.append(_as_text(connection, path, _rows(path), types))
        yield tables


@contextmanager
def _capped(
    paths: Sequence[Path], folder: Path, memory_gb: float, threads: int | None
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a connection to read files with, which spills into the folder what does not fit.

    TableError if that is not enough, or a file turns out to be damaged.
    """
    names = [path.name for path in paths]
    with (
        tempfile.TemporaryDirectory(prefix=".spill-", dir=folder) as spill,
        connected() as one,
    ):
        one.execute("SET enable_progress_bar = false")
        one.execute(f"SET memory_limit = '{min(round(1e3 * memory_gb), MOST_MB)}MB'")
        one.execute(f"SET temp_directory = {literal(spill)}")
        if threads is not None:
            one.execute(f"SET threads = {threads}")
        try:
            yield one
        except duckdb.OutOfMemoryException:
            raise TableError(
                f"the tables must be read within engine.memory_gb = {memory_gb:g} and need more, "
                "whatever is spilled; raise it"
            ) from None
        except (duckdb.InvalidInputException, duckdb.ConversionException) as error:
            raise TableError(f"{', '.join(names)}: {first_fault(error)}") from None


def _rows(path: Path) -> str:
    """Return SQL of a file's rows, with their numbers."""
    return f"read_parquet({text_of_file(path)}, {NUMBER}=true, {OF_FILE_ALONE})"


def _types(
    connection: duckdb.DuckDBPyConnection, path: Path, needed: Sequence[str]
) -> dict[str, str]:
    """Return the columns' types; raise TableError for a missing or damaged file or a missing column."""
    if not path.is_file():
        raise TableError(f"{path} does not exist; mend the path in the settings")
    try:
        if NUMBER in pq.read_schema(path).names:
            raise TableError(
                f"{path.name} must not have a column {NUMBER}: rows are numbered so; rename it"
            )
        found = connection.execute(f"DESCRIBE SELECT * FROM {_rows(path)}").fetchall()
        (n_rows,) = connection.execute(f"SELECT count(*) FROM {_rows(path)}").fetchall()
    except (duckdb.Error, pa.ArrowException) as error:
        raise TableError(f"{path.name}: {first_fault(error)}") from None
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


def _as_text(
    connection: duckdb.DuckDBPyConnection, path: Path, rows: str, types: Mapping[str, str]
) -> TextTable:
    """Return the rows with all cells as text, and numbered from 1 as messages count them."""
    text = {name: text_of_number(quote(name), kind) for name, kind in types.items()}
    texts = ", ".join(
        f"{text[name] if is_number(name, kind) else text_of_cell(f'({text[name]})')} AS {quote(name)}"
        for name, kind in types.items()
    )
    doubled = numbers_of(types.items())
    doubles = "".join(f", {quote(name)}::DOUBLE AS {number(name)}" for name in doubled)
    connection.execute(
        f"CREATE VIEW t AS SELECT {NUMBER} + 1 AS {ROW}, {texts}{doubles} FROM {rows}"
    )
    return TextTable(connection, path.name, tuple(types), doubled, parquet=path)
