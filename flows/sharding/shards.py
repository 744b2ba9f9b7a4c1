"""A label table too large for memory: streamed from Parquet into shards by task, and read back.

A folder of shards holds `shard-00000.parquet` and so on (integer codes, sorted by task and worker, a
task never in two of them), the names that the codes stand for, and `shards.json`, which is written
last: a folder without it is not whole. DuckDB numbers the names, joins and sorts under a cap of
memory, spilling into the folder; what reaches this process is one batch of codes at a time.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from jaxtyping import Int

from flows.run.store import write_whole
from flows.sharding.shard_source import CODES, ShardSource, open_source
from quality.labels.shards import LabelShard

__all__ = [
    "ShardFolder", "group_of_shard", "load_shard", "open_shards", "write_gold", "write_groups",
    "write_shards",
]  # fmt: skip

BOOK, GOLD, GROUPS = "shards.json", "gold.npz", "groups.npy"
BATCH = 1_000_000  # rows of codes in this process at a time
SCHEMA = pa.schema([("task", pa.int32()), ("worker", pa.int32()), ("label", pa.int16())])


@dataclass(frozen=True, slots=True)
class ShardFolder:
    """Where the shards of a table lie, and how large they are."""

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

    def names(self, column: Literal["worker", "task", "label"]) -> np.ndarray:
        """The names that a column's codes stand for."""
        names = pq.read_table(self.folder / f"{column}s.parquet").column("name")
        return np.array(names.to_pylist(), dtype=np.str_)


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
    """Stream a label table of Parquet into shards; nothing is left of a table that is refused.

    Parameters
    ----------
    table
        Columns worker, task, label.
    folder
        Where the shards go; made, or emptied.
    shard_labels
        A shard is closed with the first task that brings it to so many labels.
    memory_gb
        What DuckDB may hold in memory, in 1e9 bytes; the rest is spilled into the folder.
    classes
        Names a label may have, in the order of their codes; those that occur if None.
    duplicates
        What becomes of a worker's second label of a task.
    known_tasks
        Names a task may have; any if None.
    threads
        Of DuckDB; all cores if None.

    Raises
    ------
    TableError
        As :func:`flows.tables.tables.read_labels`: for a cell that is blank, a class or a task that is
        not known, a (worker, task) that stands twice, told with file, row, column and value.
    """
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    try:
        with open_source(table, folder, memory_gb=memory_gb, threads=threads) as source:
            source.make_books(classes, known_tasks)
            for column in CODES:
                source.write_book(column, folder / f"{column}s.parquet")
            codes = _unrepeated(source, duplicates)
            starts, n_labels = _write_all(codes, folder, shard_labels)
            n_workers, n_tasks, n_classes = (source.size(column) for column in CODES)
    except (ValueError, OSError, duckdb.Error):
        shutil.rmtree(folder)
        raise
    found = ShardFolder(folder, n_labels, n_tasks, n_workers, n_classes, tuple(starts))
    sizes = {name: getattr(found, name) for name in ("n_labels", "n_tasks", "n_workers")}
    book = json.dumps(sizes | {"n_classes": n_classes, "first_task": starts})
    write_whole(folder / BOOK, lambda path: path.write_text(book, encoding="utf-8"))
    return found


def open_shards(folder: Path) -> ShardFolder:
    """The shards that `write_shards` wrote."""
    book = json.loads((folder / BOOK).read_text(encoding="utf-8"))
    return ShardFolder(folder, **book | {"first_task": tuple(book["first_task"])})


def write_gold(shards: ShardFolder, gold: Int[np.ndarray, " tasks"]) -> None:
    """Keep the true class codes of tasks, -1 where unknown, beside the shards, which load them."""
    known = np.flatnonzero(gold >= 0)

    def write(path: Path) -> None:
        with path.open("wb") as file:
            np.savez(file, allow_pickle=False, task=known, label=gold[known].astype(np.int16))

    write_whole(shards.folder / GOLD, write)


def write_groups(shards: ShardFolder, group: Int[np.ndarray, " tasks"]) -> None:
    """Keep the public group codes of tasks beside the shards."""

    def write(path: Path) -> None:
        with path.open("wb") as file:
            np.save(file, group.astype(np.int32), allow_pickle=False)

    write_whole(shards.folder / GROUPS, write)


def group_of_shard(shards: ShardFolder, shard: LabelShard) -> Int[np.ndarray, " tasks"]:
    """Group codes of a shard's tasks; the others' are not read."""
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
