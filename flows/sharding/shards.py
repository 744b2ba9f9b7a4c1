"""A label table too large for memory: streamed from Parquet into shards by task, and read back.

A folder of shards holds `shard-00000.parquet` and so on (integer codes, sorted by task and worker, a task
never in two of them), the names that the codes stand for, and `shards.json`, which is written last: a folder
without it is not whole. DuckDB never loads the table: each query reads it anew, numbers, joins and sorts
under a cap of memory, and spills the rest into the folder. This process holds one batch of codes at a time.

>>> shards = write_shards(Path("labels.parquet"), Path("shards"), shard_labels=5_000_000,
...     memory_gb=2.0, classes=None, duplicates="error")  # doctest: +SKIP
>>> load_shard(shards, 0)  # doctest: +SKIP
LabelShard(5000001 labels of tasks 0 to 999999)
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from jaxtyping import Int

from flows.files import write_arrays, write_whole
from flows.tables import (
    ROW,
    WHOLE,
    TableError,
    TextTable,
    are_known,
    is_number,
    literal,
    number,
    numbers_of,
    quote,
    read_parquet,
    refuse_duplicates,
    refuse_outside,
    refuse_vocabulary,
    release_memory,
    text_column,
    text_of_cell,
)
from quality.labels import CrowdLabels, LabelShard

__all__ = [
    "CODES", "SHARDS", "Mapper", "ShardFolder", "ShardSource", "count_rows", "group_of_shard", "load_shard",
    "names_alone", "open_shards", "open_source", "open_tasks", "refuse_hollow_shards", "write_gold",
    "write_groups", "write_shards",
]  # fmt: skip

Mapper: TypeAlias = Callable[[Callable[[Any, Any], Any], Sequence[Any], Any], Iterable[Any]]
"""Returns ``work(piece, parameters)`` of every piece, in their order."""

Column = Literal["worker", "task", "label"]
CODES: tuple[Column, ...] = ("worker", "task", "label")
NUMBER = "file_row_number"  # what DuckDB calls it; from 0


@dataclass(frozen=True, slots=True)
class ShardSource:
    """One Parquet file in DuckDB: its cells (`raw`), its rows as text (`t`), a vocabulary per column."""

    table: TextTable

    def make_vocabularies(self, classes: Sequence[str] | None) -> None:
        """Number the names of each column; raise TableError for a blank cell or an unknown class."""
        for column in CODES:
            self.table.query(
                f"CREATE TABLE {column}s AS SELECT cell, name, "
                "(dense_rank() OVER (ORDER BY name) - 1)::INTEGER AS code "
                f"FROM (SELECT cell, {text_of_cell('cell')} AS name "
                f"FROM (SELECT DISTINCT {column} AS cell FROM raw))"
            )
            refuse_vocabulary(self.table, f"{column}s", column)
        if classes is not None:
            self._declare(classes)

    def refuse_unknown(self, tasks: Iterable[np.ndarray], known: np.ndarray) -> None:
        """Raise TableError if a label's task is in no task table; all are sorted names."""
        if not all(are_known(some, known).all() for some in tasks):
            refuse_outside(self.table, "task", known, "task tables; add the task or drop the row")

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

    def write_vocabulary(self, column: Column, path: Path) -> None:
        """Write the names of a column in the order of their codes.

        They are grouped only where cells differ in blanks alone: a group of each name must fit in memory.
        """
        (cells,) = self.table.query(f"SELECT count(*) FROM {column}s")[0]
        one_each = cells == self.size(column)
        what = "name" if one_each else "any_value(name) AS name"
        names = f"SELECT {what} FROM {column}s {'' if one_each else 'GROUP BY code'} ORDER BY code"
        self.table.query(
            f"COPY ({names}) TO {literal(str(path))} (FORMAT parquet, COMPRESSION zstd)"
        )

    def sorted_codes(
        self, size: int, *, keep: Literal["first", "last"]
    ) -> Generator[pa.RecordBatch, None, None]:
        """Yield codes by task and worker; of rows that repeat both, the one to keep comes first."""
        codes = ", ".join(f"{column}s.code AS {column}" for column in CODES)
        joins = " ".join(f"JOIN {column}s ON raw.{column} = {column}s.cell" for column in CODES)
        order = "DESC" if keep == "last" else "ASC"
        rows = self.table.connection.sql(
            f"SELECT {codes} FROM raw {joins} ORDER BY tasks.code, workers.code, {NUMBER} {order}"
        )
        with rows.to_arrow_reader(size) as reader:  # closed before the next query is begun
            yield from reader

    def refuse_repeat(self, worker: int, task: int) -> None:
        """Raise TableError for a worker's second label of a task, with its rows."""
        asked = self.table.query(
            "SELECT workers.name, tasks.name FROM workers, tasks "
            "WHERE workers.code = $1 AND tasks.code = $2 LIMIT 1", worker, task,
        )[0]  # fmt: skip
        self.table.query(
            "CREATE TABLE repeated AS SELECT * FROM t WHERE worker = $1 AND task = $2", *asked
        )
        self.table.query("CREATE OR REPLACE VIEW t AS SELECT * FROM repeated")
        remedy = 'set duplicates = "first" or "last" (--duplicates first)'
        refuse_duplicates(self.table, ("worker", "task"), "error", remedy)


@contextmanager
def open_source(
    path: Path, folder: Path, *, memory_gb: float, threads: int | None
) -> Iterator[ShardSource]:
    """Open a Parquet file; what DuckDB cannot hold in memory is in `folder` until it is closed."""
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
        kinds: dict[str, str] = {column: types[column] for column in CODES}
        yield ShardSource(_as_text(connection, path, "raw", kinds))


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
            tables.append(_as_text(connection, path, _rows(path), types))
        yield tables


@contextmanager
def _capped(
    folder: Path, memory_gb: float, threads: int | None
) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection that spills into the folder what does not fit; TableError if that is not enough."""
    with (
        tempfile.TemporaryDirectory(prefix=".spill-", dir=folder) as spill,
        duckdb.connect() as one,
    ):
        one.execute("SET enable_progress_bar = false")
        one.execute(f"SET memory_limit = '{round(1e3 * memory_gb)}MB'")
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


def _rows(path: Path) -> str:
    """SQL of a file's rows, with their numbers."""
    return f"read_parquet({literal(str(path))}, {NUMBER}=true)"


def _types(
    connection: duckdb.DuckDBPyConnection, path: Path, needed: Sequence[str]
) -> dict[str, str]:
    """Types of a file's columns; TableError if it is missing, empty, damaged, or lacks a column."""
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


def _as_text(
    connection: duckdb.DuckDBPyConnection, path: Path, rows: str, types: Mapping[str, str]
) -> TextTable:
    """The rows with all cells as text, and numbered from 1 as messages count them."""
    texts = ", ".join(
        f"{f'{quote(name)}::VARCHAR' if is_number(name, kind) else text_of_cell(quote(name))} "
        f"AS {quote(name)}"
        for name, kind in types.items()
    )
    doubled = numbers_of(types.items())
    doubles = "".join(f", {quote(name)}::DOUBLE AS {number(name)}" for name in doubled)
    connection.execute(
        f"CREATE VIEW t AS SELECT {NUMBER} + 1 AS {ROW}, {texts}{doubles} FROM {rows}"
    )
    return TextTable(connection, path.name, tuple(types), doubled)


SHARDS = "shards"  # the folder in a run folder
WHOLE_FOLDER, GOLD, GROUPS = "shards.json", "gold.npz", "groups.npy"
BATCH = 1_000_000  # rows of codes in this process at a time
SCHEMA = pa.schema([("task", pa.int32()), ("worker", pa.int32()), ("label", pa.int16())])


@dataclass(frozen=True, slots=True)
class ShardFolder:
    """Where the shards of a table are, and how large they are."""

    folder: Path
    n_labels: int
    n_tasks: int
    n_workers: int
    n_classes: int
    first_task: tuple[int, ...]  # of each shard

    @property
    def paths(self) -> tuple[Path, ...]:
        """The shards' files, in order."""
        return tuple(_shard_path(self.folder, number) for number in range(len(self.first_task)))

    def names(self, column: Column) -> np.ndarray:
        """The names that a column's codes stand for."""
        return _names_in(self.folder, column)


def write_shards(
    table: Path,
    folder: Path,
    *,
    shard_labels: int,
    memory_gb: float,
    classes: Sequence[str] | None,
    duplicates: Literal["error", "first", "last"],
    known_tasks: np.ndarray | None = None,
    threads: int | None = None,
) -> ShardFolder:
    """Stream a label table of Parquet into shards; a table that is refused leaves nothing.

    Parameters
    ----------
    table
        Columns worker, task, label.
    folder
        Where the shards go; it is made, or emptied.
    shard_labels
        A shard ends with the first task that brings it to so many labels.
    memory_gb
        Memory that DuckDB may use, in 1e9 bytes; it spills the rest into the folder.
    classes
        Names that a label may have, in the order of their codes; those that occur if None.
    duplicates
        Whether a worker's second label of a task is an error, or which of them counts.
    known_tasks
        Names that a task may have; any if None.
    threads
        Threads of DuckDB; all cores if None.

    Raises
    ------
    TableError
        As :func:`flows.tables.tables.read_labels`: if a cell is blank, a class or a task is unknown, or
        a (worker, task) stands twice; the message has file, row, column and value.
    """
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    try:
        with open_source(table, folder, memory_gb=memory_gb, threads=threads) as source:
            source.make_vocabularies(classes)
            for column in CODES:
                source.write_vocabulary(column, _names_path(folder, column))
            if known_tasks is not None:
                source.refuse_unknown(_some_names(folder, "task"), known_tasks)
            codes = _unrepeated(source, duplicates)
            starts, n_labels = _write_all(codes, folder, shard_labels)
            n_workers, n_tasks, n_classes = (source.size(column) for column in CODES)
    except (ValueError, OSError, duckdb.Error):
        shutil.rmtree(folder)
        raise
    found = ShardFolder(folder, n_labels, n_tasks, n_workers, n_classes, tuple(starts))
    sizes = {name: getattr(found, name) for name in ("n_labels", "n_tasks", "n_workers")}
    about = json.dumps(sizes | {"n_classes": n_classes, "first_task": starts})
    write_whole(folder / WHOLE_FOLDER, lambda path: path.write_text(about, encoding="utf-8"))
    return found


def count_rows(table: Path) -> int:
    """Return how many rows a Parquet file says that it has; 0 of a file that cannot be read."""
    try:
        return int(pq.read_metadata(table).num_rows)
    except (OSError, pa.ArrowInvalid):
        return 0


def open_shards(folder: Path) -> ShardFolder:
    """Return the shards that `write_shards` wrote."""
    about = json.loads((folder / WHOLE_FOLDER).read_text(encoding="utf-8"))
    return ShardFolder(folder, **about | {"first_task": tuple(about["first_task"])})


def names_alone(workers: np.ndarray, tasks: np.ndarray, classes: np.ndarray) -> CrowdLabels:
    """A label table of these names and no rows: the codes of a campaign whose labels are in shards."""
    nothing = np.empty(0, dtype=np.int32)
    return CrowdLabels.from_codes(
        nothing, nothing, nothing, workers=workers, tasks=tasks, classes=classes
    )


def write_gold(shards: ShardFolder, gold: Int[np.ndarray, " tasks"]) -> None:
    """Write the true class codes of tasks, -1 where unknown, beside the shards that load them."""
    known = np.flatnonzero(gold >= 0)
    arrays: dict[str, np.ndarray] = {"task": known, "label": gold[known].astype(np.int16)}
    write_arrays(shards.folder / GOLD, arrays)


def write_groups(shards: ShardFolder, group: Int[np.ndarray, " tasks"]) -> None:
    """Write the public group codes of tasks beside the shards."""

    def write(path: Path) -> None:
        with path.open("wb") as file:
            np.save(file, group.astype(np.int32), allow_pickle=False)

    write_whole(shards.folder / GROUPS, write)


def group_of_shard(shards: ShardFolder, shard: LabelShard) -> Int[np.ndarray, " tasks"]:
    """Return the group codes of a shard's tasks without reading the others'."""
    group = np.load(shards.folder / GROUPS, mmap_mode="r", allow_pickle=False)
    return np.array(group[shard.first_task : shard.first_task + shard.n_tasks])


def load_shard(shards: ShardFolder, number: int) -> LabelShard:
    """Read one shard, with the gold of its tasks."""
    rows = pq.read_table(_shard_path(shards.folder, number), schema=SCHEMA, use_threads=False)
    first = shards.first_task[number]
    last = [*shards.first_task[1:], shards.n_tasks][number]
    n_labels = np.bincount(rows.column("task").to_numpy() - first, minlength=last - first)
    gold = np.full(last - first, -1, dtype=np.int16)
    if (shards.folder / GOLD).is_file():
        with np.load(shards.folder / GOLD, allow_pickle=False) as known:
            low, high = np.searchsorted(known["task"], (first, last))
            gold[known["task"][low:high] - first] = known["label"][low:high]
    worker, label = (rows.column(name).to_numpy() for name in ("worker", "label"))
    start = np.concatenate([[0], np.cumsum(n_labels)]).astype(np.int64)
    return LabelShard(worker, label, gold, start, first, shards.n_workers, shards.n_classes)


def refuse_hollow_shards(shards: ShardFolder, name: str) -> None:
    """Raise TableError if no task has two different labels, as `refuse_hollow` does of a whole table.

    Shards are read up to the first with such a task.
    """
    for at in range(len(shards.paths)):
        if (np.count_nonzero(load_shard(shards, at).counts(), axis=1) > 1).any():
            return
    raise TableError(
        f"{name}: no two workers differ on any task, so nothing tells good workers from bad; "
        "have tasks labelled by several workers, or use the labels as they are"
    )


def _names_path(folder: Path, column: Column) -> Path:
    return folder / f"{column}s.parquet"


def _names_in(folder: Path, column: Column) -> np.ndarray:
    names = text_column(read_parquet(_names_path(folder, column))["name"])
    release_memory()
    return names


def _some_names(folder: Path, column: Column) -> Iterator[np.ndarray]:
    """Yield the names of a column in their order, so many at a time."""
    with pq.ParquetFile(_names_path(folder, column)) as file:
        for batch in file.iter_batches(BATCH, columns=["name"]):
            yield text_column(pa.chunked_array([batch.column(0)]))


def _shard_path(folder: Path, number: int) -> Path:
    return folder / f"shard-{number:05d}.parquet"


def _write_all(codes: Iterator[pa.Table], folder: Path, shard_labels: int) -> tuple[list[int], int]:
    """Write every shard; returns their first tasks, and the number of labels."""
    starts, n_labels = list[int](), 0
    for shard in _cut(codes, shard_labels):
        pq.write_table(shard, _shard_path(folder, len(starts)), compression="zstd")
        starts.append(shard.column("task")[0].as_py())
        n_labels += len(shard)
    return starts, n_labels


def _cut(batches: Iterator[pa.Table], shard_labels: int) -> Iterator[pa.Table]:
    """Shards from rows sorted by task."""
    held = SCHEMA.empty_table()
    for batch in batches:
        held = pa.concat_tables([held, batch])
        while len(held) >= shard_labels:
            task = held.column("task").to_numpy()
            end = int(np.searchsorted(task, task[shard_labels - 1], side="right"))
            if end == len(held):  # the task may go on in the next batch
                break
            yield held.slice(0, end)
            held = held.slice(end)
    if len(held):
        yield held


def _unrepeated(
    source: ShardSource, duplicates: Literal["error", "first", "last"]
) -> Iterator[pa.Table]:
    """Batches of codes by task and worker; a repeated (worker, task) is refused or dropped."""
    before = np.array([[-1], [-1]], dtype=np.int32)  # task and worker of the row before
    codes = source.sorted_codes(BATCH, keep="last" if duplicates == "last" else "first")
    for batch in codes:
        pairs = np.array([batch.column(name).to_numpy() for name in ("task", "worker")])
        again = (np.diff(pairs, axis=1, prepend=before) == 0).all(axis=0)
        before = pairs[:, -1:]
        if again.any() and duplicates == "error":
            task, worker = pairs[:, again.argmax()].tolist()
            codes.close()
            source.refuse_repeat(worker, task)
        rows = pa.Table.from_batches([batch]).select(SCHEMA.names).cast(SCHEMA)
        yield rows.filter(pa.array(~again)) if again.any() else rows
