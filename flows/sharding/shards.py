"""A label table too large for memory: streamed from Parquet into shards by task, and read back.

A folder of shards holds `shard-00000.parquet` and so on (integer codes, sorted by task and worker, a task
never in two of them), the names that the codes stand for, and `shards.json`, which is written last: a folder
without it is not whole. `flows.sharding.label_codes` says how the table becomes codes that memory need not
hold.

>>> shards = write_shards(Path("labels.parquet"), Path("shards"), shard_labels=5_000_000,
...     memory_gb=2.0, classes=None, duplicates="error")  # doctest: +SKIP
>>> load_shard(shards, 0)  # doctest: +SKIP
LabelShard(5000001 labels of tasks 0 to 999999)
"""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from socket import gethostname
from typing import Any, BinaryIO, Literal, TypeAlias

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from jaxtyping import Int

from flows.choices import LABEL_COLUMNS, LabelColumn
from flows.files import write_arrays, write_whole
from flows.settings import EngineError
from flows.sharding.label_codes import (
    BATCH,
    VOCABULARY,
    LabelCodes,
    LabelSource,
    open_source,
)
from flows.tables import (
    TableError,
    arrow_array,
    numpy_array,
    read_parquet,
    release_memory,
    text_column,
    undamaged,
)
from quality.labels import MAX_CLASSES, CrowdLabels, LabelShard

__all__ = [
    "SHARDS", "Mapper", "ShardFolder", "count_rows", "group_of_shard", "load_shard", "names_alone",
    "open_shards", "opened", "read_back", "read_rows", "refuse_hollow_shards", "write_gold", "write_groups",
    "write_shards",
]  # fmt: skip

Mapper: TypeAlias = Callable[[Callable[[Any, Any], Any], Sequence[Any], Any], Iterable[Any]]
"""Returns ``work(piece, parameters)`` of every piece, in their order."""

SHARDS = "shards"  # the folder in a run folder
WHOLE_FOLDER, GOLD, GROUPS = "shards.json", "gold.npz", "groups.npy"
WRITTEN: dict[str, Any] = {"compression": "zstd", "write_page_checksum": True}
SCHEMA = pa.schema([("task", pa.int32()), ("worker", pa.int32()), ("label", pa.int16())])


@dataclass(frozen=True, slots=True)
class ShardFolder:
    """Where the shards of a table are, and how large they are.

    Machines that have no such folder find its files in the `store`, an address.
    """

    folder: Path
    n_labels: int
    n_tasks: int
    n_workers: int
    n_classes: int
    first_task: tuple[int, ...]  # of each shard
    store: str | None = None

    @property
    def paths(self) -> tuple[Path, ...]:
        """The shards' files, in order."""
        return tuple(self.folder / _shard_name(number) for number in range(len(self.first_task)))

    @property
    def read_by_workers(self) -> tuple[Path, ...]:
        """The shards' files, and gold and groups if they are there; no names."""
        beside = (self.folder / name for name in (GOLD, GROUPS))
        return (*self.paths, *(path for path in beside if path.is_file()))

    def names(self, column: LabelColumn) -> np.ndarray:
        """Return the names that a column's codes stand for."""
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
        Memory for labels, in 1e9 bytes; the rest is spilled into the folder. Names need their own.
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
            # a label may stand in rows alone that are dropped
            codes = source.coded(classes if duplicates == "error" else None)
            if codes.size("label") > MAX_CLASSES:
                raise TableError(
                    f"{table.name}: there must be at most {MAX_CLASSES} classes, got "
                    f"{codes.size('label')}: is label the right column?"
                )
            for column in LABEL_COLUMNS:
                codes.write_vocabulary(column, _names_path(folder, column))
            if known_tasks is not None:
                source.refuse_unknown(_some_names(folder, "task"), known_tasks)
            rows = _unrepeated(source, codes, folder, duplicates)
            starts, n_labels = _write_all(rows, folder, shard_labels)
            n_workers, n_tasks, n_classes = (codes.size(column) for column in LABEL_COLUMNS)
            if duplicates != "error":
                n_classes = _keep_classes(source, folder, len(starts), classes)
    except (ValueError, OSError, duckdb.Error):
        shutil.rmtree(folder)
        raise
    found = ShardFolder(folder, n_labels, n_tasks, n_workers, n_classes, tuple(starts))
    for path in (*found.paths, *(_names_path(folder, column) for column in LABEL_COLUMNS)):
        with path.open("rb") as file:  # or the file that says they are whole could outlive them
            os.fsync(file.fileno())
    sizes = {name: getattr(found, name) for name in ("n_labels", "n_tasks", "n_workers")}
    about = json.dumps(sizes | {"n_classes": n_classes, "first_task": starts})
    write_whole(folder / WHOLE_FOLDER, lambda path: path.write_text(about, encoding="utf-8"))
    return found


def count_rows(table: Path) -> int:
    """Return the number of rows in a Parquet file's metadata; 0 of a file that cannot be read."""
    try:
        return int(pq.read_metadata(table).num_rows)
    except (OSError, pa.ArrowInvalid):
        return 0


def open_shards(folder: Path) -> ShardFolder:
    """Return the shards that `write_shards` wrote; EngineError if the file about them is damaged or lost."""
    if not folder.is_dir():
        raise EngineError(f"{folder} is not there any more; begin anew without --resume")
    with read_back(folder / WHOLE_FOLDER):
        about = json.loads((folder / WHOLE_FOLDER).read_text(encoding="utf-8"))
        return ShardFolder(folder, **about | {"first_task": tuple(about["first_task"])})


def names_alone(workers: np.ndarray, tasks: np.ndarray, classes: np.ndarray) -> CrowdLabels:
    """Return a label table of these names and no rows: the codes of a campaign whose labels are in shards."""
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
    first, last = shard.first_task, shard.first_task + shard.n_tasks
    return read_rows(shards.folder, shards.store, GROUPS, first, last)


def load_shard(shards: ShardFolder, number: int) -> LabelShard:
    """Read one shard, with the gold of its tasks; EngineError if a file is damaged or lost."""
    first = shards.first_task[number]
    last = [*shards.first_task[1:], shards.n_tasks][number]
    path = shards.paths[number]
    with read_back(path), opened(shards.folder, shards.store, path.name) as file:
        rows = pq.read_table(
            file, schema=SCHEMA, use_threads=False, page_checksum_verification=True
        )
        task = rows.column("task").to_numpy()
        if not (len(task) and task[0] == first and task[-1] == last - 1):
            raise ValueError(f"it must hold the tasks {first} to {last - 1}")
    n_labels = np.bincount(task - first, minlength=last - first)
    gold = np.full(last - first, -1, dtype=np.int16)
    with (
        read_back(shards.folder / GOLD),
        suppress(FileNotFoundError),
        opened(shards.folder, shards.store, GOLD) as file,
        np.load(file, allow_pickle=False) as known,
    ):
        low, high = np.searchsorted(known["task"], (first, last))
        gold[known["task"][low:high] - first] = known["label"][low:high]
    worker, label = (rows.column(name).to_numpy() for name in ("worker", "label"))
    start = np.concatenate([[0], np.cumsum(n_labels)]).astype(np.int64)
    return LabelShard(worker, label, gold, start, first, shards.n_workers, shards.n_classes)


def opened(folder: Path, store: str | None, name: str) -> BinaryIO:
    """Open a file to read: of the folder, or of the store where this machine has no such folder.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    EngineError
        If this machine cannot read the store.
    """
    if store is None or folder.is_dir():
        return (folder / name).open("rb")
    from fsspec.core import url_to_fs  # type: ignore[import-untyped]  # Dask brings it

    try:
        files, place = url_to_fs(store)
        found: BinaryIO = files.open(f"{place}/{name}", "rb")
    except FileNotFoundError:
        raise
    except Exception as error:  # each kind of store has errors of its own
        raise EngineError(
            f"engine.store: {store} cannot be read on {gethostname()}: {error}; see that what it needs is "
            "installed there and its keys are in the environment, and go on with --resume"
        ) from None
    return found


@contextmanager
def read_back(path: Path) -> Iterator[None]:
    """Raise EngineError where a file that this run wrote is damaged, or lost while its folder is there."""
    try:
        with undamaged(path):
            yield
    except FileNotFoundError:
        if not path.parent.is_dir():  # a machine that lacks the folder
            raise
        raise EngineError(f"{path} is not there any more; begin anew without --resume") from None


def read_rows(folder: Path, store: str | None, name: str, first: int, last: int) -> np.ndarray:
    """Return some rows of an array that lies in a file, which is found as by `opened`; no others are read."""
    if store is None or folder.is_dir():
        with read_back(folder / name):
            return np.array(np.load(folder / name, mmap_mode="r", allow_pickle=False)[first:last])
    with read_back(folder / name), opened(folder, store, name) as file:
        np.lib.format.read_magic(file)
        shape, _, kind = np.lib.format.read_array_header_1_0(file)
        size = kind.itemsize * math.prod(shape[1:])
        file.seek(first * size, os.SEEK_CUR)
        cells = np.frombuffer(file.read((last - first) * size), dtype=kind)
    return cells.reshape(-1, *shape[1:])


def refuse_hollow_shards(shards: ShardFolder, name: str) -> None:
    """Raise TableError if no task has two different labels, as `refuse_hollow` does of a whole table.

    Shards are read up to the first with such a task.
    """
    for at in range(len(shards.paths)):
        if (np.count_nonzero(load_shard(shards, at).counts(), axis=1) > 1).any():
            return
    raise TableError(
        f"{name}: no two workers differ on any task, so nothing tells good workers from bad; "
        "have some tasks labelled by several workers, or use the labels as they are"
    )


def _names_path(folder: Path, column: LabelColumn) -> Path:
    return folder / f"{column}s.parquet"


def _names_in(folder: Path, column: LabelColumn) -> np.ndarray:
    names = text_column(read_parquet(_names_path(folder, column))["name"])
    release_memory()
    return names


def _some_names(folder: Path, column: LabelColumn) -> Iterator[np.ndarray]:
    """Yield the names of a column in their order, so many at a time."""
    with pq.ParquetFile(_names_path(folder, column)) as file:
        for batch in file.iter_batches(BATCH, columns=["name"]):
            yield text_column(pa.chunked_array([batch.column(0)]))


def _shard_name(number: int) -> str:
    return f"shard-{number:05d}.parquet"


def _write_all(codes: Iterator[pa.Table], folder: Path, shard_labels: int) -> tuple[list[int], int]:
    """Write every shard; returns their first tasks, and the number of labels."""
    starts, n_labels = list[int](), 0
    for shard in _cut(codes, shard_labels):
        pq.write_table(shard, folder / _shard_name(len(starts)), **WRITTEN)
        starts.append(shard.column("task")[0].as_py())
        n_labels += len(shard)
    return starts, n_labels


def _keep_classes(
    source: LabelSource, folder: Path, n_shards: int, classes: Sequence[str] | None
) -> int:
    """Give shards the codes of the classes that their labels have, or of those declared; return how many."""
    names = _names_in(folder, "label").tolist()
    used = np.zeros(len(names), dtype=np.int64)
    paths = [folder / _shard_name(number) for number in range(n_shards)]
    for path in paths:
        labels = numpy_array(read_parquet(path, ["label"])["label"])
        used += np.bincount(labels, minlength=len(names))
    found = [name for name, n in zip(names, used.tolist(), strict=True) if n]
    if classes is not None:
        source.refuse_classes(set(found), classes)
    kept = found if classes is None else list(classes)
    if kept == names:
        return len(kept)
    place = {name: code for code, name in enumerate(kept)}
    to = np.array([place.get(name, -1) for name in names], dtype=np.int16)
    at = SCHEMA.get_field_index("label")
    for path in paths:
        rows = read_parquet(path)
        labels = arrow_array(to[numpy_array(rows["label"])])
        pq.write_table(rows.set_column(at, SCHEMA.field(at), labels), path, **WRITTEN)
    pq.write_table(pa.table({"name": kept}, schema=VOCABULARY), _names_path(folder, "label"))
    return len(kept)


def _cut(batches: Iterator[pa.Table], shard_labels: int) -> Iterator[pa.Table]:
    """Cut rows sorted by task into shards."""
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
    source: LabelSource,
    codes: LabelCodes,
    folder: Path,
    duplicates: Literal["error", "first", "last"],
) -> Iterator[pa.Table]:
    """Yield batches of codes by task and worker; a repeated (worker, task) is refused or dropped."""
    before = np.array([[-1], [-1]], dtype=np.int32)  # task and worker of the row before
    batches = codes.sorted_codes(keep="any" if duplicates == "error" else duplicates)
    for batch in batches:
        pairs = np.array([batch.column(name).to_numpy() for name in ("task", "worker")])
        again = (np.diff(pairs, axis=1, prepend=before) == 0).all(axis=0)
        before = pairs[:, -1:]
        if again.any() and duplicates == "error":
            task, worker = pairs[:, again.argmax()].tolist()
            batches.close()
            source.refuse_repeat(_name(folder, "worker", worker), _name(folder, "task", task))
        rows = pa.Table.from_batches([batch]).select(SCHEMA.names).cast(SCHEMA)
        yield rows.filter(pa.array(~again)) if again.any() else rows


def _name(folder: Path, column: LabelColumn, code: int) -> str:
    """Return the name that a code stands for."""
    for names in _some_names(folder, column):
        if code < len(names):
            return str(names[code])
        code -= len(names)
    raise IndexError(f"no {column} has the code {code}")
