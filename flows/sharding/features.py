"""Task features too large for memory: one file of rows, bag after bag, read a block at a time.

A bag is a group of tasks; its rows with labels come first, then by name. A folder holds the rows in
`rows.npy`, in `bags.npz` the bags' sizes, the tasks' places and, to standardize by, the scale of all rows,
and `features.json`, which is written last: a folder without it is not whole. `FeaturePasses` goes over bags
in blocks, which threads or Dask load and work on; workers on other machines read the same folder, as they do
for labels.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Bool, Float, Float64, Int

from flows.files import write_arrays, write_whole
from flows.settings import GroupSettings
from flows.sharding.label_codes import open_tasks
from flows.sharding.shards import Mapper, read_back, read_rows
from flows.tables import (
    Coded,
    ColumnScale,
    TaskColumns,
    TaskTable,
    has_lists,
    list_tasks,
    read_tasks,
    stream_features,
)
from learners.class_ratios import MAX_LANDMARKS, Block

__all__ = [
    "FeatureFolder", "FeaturePasses", "ListedTasks", "block_rows", "list_features", "open_features",
    "write_features",
]  # fmt: skip

ROWS, BAGS, WHOLE_FOLDER = "rows.npy", "bags.npz", "features.json"
COPIED = 16_384  # rows in this process at a time, of 256 features at most
PART_CELLS, MAX_PARTS = 2**22, 256  # of a part of the file whose rows are put in order in memory


@dataclass(frozen=True, slots=True)
class FeatureFolder:
    """Where the features of a task table are, and how many they are."""

    folder: Path
    n_tasks: int
    n_features: int
    standardize: bool  # whether `load` and `laid_out` scale them
    store: str | None = None  # where machines that have no such folder find the rows

    @property
    def read_by_workers(self) -> tuple[Path, ...]:
        """The file of the rows."""
        return (self.folder / ROWS,)

    def rows(self, first: int, last: int) -> Float[np.ndarray, "_ features"]:
        """Return the rows from `first` up to `last`."""
        return read_rows(self.folder, self.store, ROWS, first, last)

    def take(self, places: Int[np.ndarray, " _"]) -> Float[np.ndarray, "_ features"]:
        """Return rows by their places."""
        return np.asarray(self._file()[places])  # a copy already

    def bags(self) -> tuple[Int[np.ndarray, " groups"], Int[np.ndarray, " groups"]]:
        """Return the number of tasks of each group, and how many of them have labels."""
        path = self.folder / BAGS
        with read_back(path), path.open("rb") as file, np.load(file, allow_pickle=False) as kept:
            return kept["size"], kept["labelled"]

    def load(self, tasks: Int[np.ndarray, " _"] | None = None) -> Float[np.ndarray, "_ features"]:
        """Return the features of some tasks, or of all, by their place in the order of names."""
        place, scale = self._places()
        return self._scaled(place if tasks is None else place[tasks], scale)

    def laid_out(self, tasks: Int[np.ndarray, " _"]) -> Float[np.ndarray, "_ features"]:
        """Return what `load` returns, as pages of a file of no name, which goes when the array goes.

        Memory holds a batch of rows while it is written, and the pages in use while it is read.
        """
        place, scale = self._places()
        place = place[tasks]
        batches = range(0, len(place), COPIED)
        blocks = (self._scaled(place[at : at + COPIED], scale) for at in batches)
        return self._in_pages(blocks, (len(place), self.n_features))

    def _places(self) -> tuple[Int[np.ndarray, " tasks"], ColumnScale | None]:
        """Return the place of each task's row, and the scale of all rows if they are standardized."""
        path = self.folder / BAGS
        with read_back(path), path.open("rb") as file, np.load(file, allow_pickle=False) as kept:
            scale = ColumnScale(kept["mean"], kept["deviation"]) if self.standardize else None
            return kept["place"], scale

    def _scaled(
        self, places: Int[np.ndarray, " _"], scale: ColumnScale | None
    ) -> Float[np.ndarray, "_ features"]:
        rows = self.take(places)
        return rows if scale is None else scale.scaled(rows)

    def _in_pages(self, blocks: Iterator[np.ndarray], shape: tuple[int, int]) -> np.ndarray:
        """Write blocks of rows one after the other, and map the file into memory."""
        if 0 in shape:  # an empty file cannot be mapped
            return np.empty(shape)
        with tempfile.TemporaryFile(dir=self.folder) as file:
            for block in blocks:
                file.write(np.ascontiguousarray(block).data)
            file.flush()
            return np.memmap(file, dtype=np.float64, mode="r", shape=shape)

    def _file(self) -> np.ndarray:
        with read_back(self.folder / ROWS):
            whole: np.ndarray = np.load(self.folder / ROWS, mmap_mode="r", allow_pickle=False)
        return whole


@dataclass(frozen=True, slots=True, eq=False)
class ListedTasks:
    """The tasks of some tables: `table` without features, and `whole` if they were read at once."""

    table: TaskTable
    groups: list[Coded]  # of the rows of each table
    order: Int[np.ndarray, " tasks"]  # which of all rows each task is
    whole: Float[np.ndarray, "tasks features"] | None = None


def list_features(
    paths: Sequence[Path],
    groups: GroupSettings,
    folder: Path,
    *,
    memory_gb: float,
    subject: str | None = None,
    columns: TaskColumns | None = None,
) -> ListedTasks:
    """Read names and groups of task tables and check them.

    A file that is not Parquet, and embeddings, are read whole.
    """
    columns = columns or TaskColumns()
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    streamed = (
        all(path.suffix.lower() == ".parquet" for path in paths) and columns.embeddings is None
    )
    if streamed:
        with open_tasks(paths, folder, memory_gb=memory_gb, threads=None) as tables:
            listed = ListedTasks(*list_tasks(tables, groups, subject, columns))
            streamed = not has_lists(tables[0], listed.table.feature_names)
    if streamed:
        return listed
    table = read_tasks(paths, groups, subject=subject, columns=columns)
    bare = replace(table, features=np.empty((0, len(table.feature_names))))
    return ListedTasks(bare, [], np.arange(table.names.size), table.features)


def write_features(
    paths: Sequence[Path],
    listed: ListedTasks,
    labelled: Bool[np.ndarray, " tasks"],
    folder: Path,
    *,
    memory_gb: float,
    standardize: bool,
) -> FeatureFolder:
    """Write the features of the tasks listed into one file, by bag, a batch of rows at a time.

    Raises
    ------
    TableError
        As :func:`flows.tables.tables.read_tasks`: if a cell is not a finite number.
    """
    table, n_tasks = listed.table, listed.table.names.size
    place = np.empty(n_tasks, dtype=np.int64)
    place[np.lexsort((~labelled, table.group))] = np.arange(n_tasks)  # within those, by name
    rows = folder / ROWS
    _reserve(rows, (n_tasks, len(table.feature_names)))
    if listed.whole is None:
        at = np.empty_like(place)
        at[listed.order] = place
        ends = np.cumsum([group.code.size for group in listed.groups])[:-1]
        with (
            open_tasks(paths, folder, memory_gb=memory_gb, threads=None) as tables,
            ExitStack() as files,
        ):
            arrivals = _Arrivals(folder, n_tasks, len(table.feature_names), files)
            for one, group, its in zip(tables, listed.groups, np.split(at, ends), strict=True):
                for row, columns, numbers in stream_features(one, group, table.feature_names):
                    arrivals.add(its[row], columns, numbers)
            for first, part in arrivals.in_order():
                np.load(rows, mmap_mode="r+")[first : first + len(part)] = part
    else:
        np.load(rows, mmap_mode="r+")[place] = listed.whole
    with rows.open("rb") as file:
        os.fsync(file.fileno())
    found = FeatureFolder(folder, n_tasks, len(table.feature_names), standardize)
    scale = None
    if standardize:  # over all tasks in the order of their names, as in memory
        scale = ColumnScale.of(lambda part: found.take(place[part]), n_tasks)
    _write_bags(folder / BAGS, table, labelled, place, scale)
    sizes = {name: getattr(found, name) for name in ("n_tasks", "n_features", "standardize")}
    write_whole(
        folder / WHOLE_FOLDER, lambda path: path.write_text(json.dumps(sizes), encoding="utf-8")
    )
    return found


class _Arrivals:
    """Rows in the order of arrival, written by parts of the final order: each part in a file."""

    def __init__(self, folder: Path, n_rows: int, n_features: int, files: ExitStack) -> None:
        self._shape = n_rows, n_features
        self._size = max(PART_CELLS // max(n_features, 1), -(-n_rows // MAX_PARTS), 1)
        n_parts = -(-n_rows // self._size)
        self._files = [
            files.enter_context(tempfile.TemporaryFile(dir=folder))  # noqa: SIM115
            for _ in range(n_parts)
        ]
        self._arrived: list[list[tuple[int, slice]]] = [[] for _ in range(n_parts)]

    def add(
        self, place: Int[np.ndarray, " rows"], columns: slice, numbers: Float[np.ndarray, "rows _"]
    ) -> None:
        """Write some columns of some rows."""
        order = np.argsort(place)
        ends = np.searchsorted(place[order], self._size * np.arange(len(self._files) + 1))
        for part, (first, last) in enumerate(pairwise(ends.tolist())):
            rows = order[first:last]
            if len(rows):
                self._files[part].write(np.ascontiguousarray(place[rows] - part * self._size).data)
                self._files[part].write(np.ascontiguousarray(numbers[rows], np.float64).data)
                self._arrived[part].append((len(rows), columns))

    def in_order(self) -> Iterator[tuple[int, Float64[np.ndarray, "rows features"]]]:
        """Yield the first row of each part, and its rows."""
        n_rows, n_features = self._shape
        for part, (file, arrived) in enumerate(zip(self._files, self._arrived, strict=True)):
            first = part * self._size
            found = np.empty((min(self._size, n_rows - first), n_features))
            file.seek(0)
            for n, columns in arrived:
                place = np.frombuffer(file.read(8 * n), np.int64)
                numbers = file.read(8 * n * (columns.stop - columns.start))
                found[place, columns] = np.frombuffer(numbers).reshape(n, -1)
            yield first, found
            file.close()


def open_features(folder: Path) -> FeatureFolder | None:
    """Return the features that `write_features` wrote, or None if it wrote none."""
    if not (folder / WHOLE_FOLDER).is_file():
        return None
    with read_back(folder / WHOLE_FOLDER):
        about = json.loads((folder / WHOLE_FOLDER).read_text(encoding="utf-8"))
        return FeatureFolder(folder, **about)


def _reserve(path: Path, shape: tuple[int, int]) -> None:
    """Write a file of zeros and reserve its bytes: a full disk is an error here and not later."""
    np.lib.format.open_memmap(path, mode="w+", dtype=np.float64, shape=shape).flush()
    if hasattr(os, "posix_fallocate"):  # not on every system
        with path.open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, path.stat().st_size)


def _write_bags(
    path: Path,
    table: TaskTable,
    labelled: Bool[np.ndarray, " tasks"],
    place: np.ndarray,
    scale: ColumnScale | None,
) -> None:
    n_groups = table.group_names.size
    sizes = {
        "size": np.bincount(table.group, minlength=n_groups),
        "labelled": np.bincount(table.group[labelled], minlength=n_groups),
        "place": place,
    }
    if scale is not None:
        sizes |= {"mean": scale.mean, "deviation": scale.deviation}
    write_arrays(path, sizes)


BLOCK_CELLS = 4_000_000  # of a block's rows, and of what is made of them along every landmark
Result = TypeVar("Result")


class FeaturePasses:
    """:class:`~learners.class_ratios.bags.BagPasses` over rows of a feature folder.

    Parameters
    ----------
    features
        Where the rows are.
    bags
        First row of each bag, and the row after its last.
    mapper
        Runs a function on each of several pieces of work.

    Notes
    -----
    **Guarantees.** Blocks are the same whatever runs them, and however much memory there is. This
    process loads the rows it is asked to `take`, and no others; a block is loaded where it is worked on.
    """

    def __init__(
        self, features: FeatureFolder, bags: Sequence[tuple[int, int]], mapper: Mapper
    ) -> None:
        self._features, self._bags, self._mapper = features, bags, mapper
        step = block_rows(features)
        self._blocks = [
            [(at, min(at + step, last)) for at in range(first, last, step)] for first, last in bags
        ]

    def __repr__(self) -> str:
        return f"FeaturePasses({len(self._bags)} bags, {sum(map(len, self._blocks))} blocks)"

    def sizes(self) -> Int[np.ndarray, " bags"]:
        """Return the number of rows of each bag."""
        return np.array([last - first for first, last in self._bags], dtype=np.int64)

    def take(self, places: Sequence[Int[np.ndarray, " _"]]) -> list[Block]:
        """Return some rows of each bag, by their ascending places in it."""
        bags = zip(self._bags, places, strict=True)
        return [self._features.take(first + wanted) for (first, _), wanted in bags]

    def each(
        self, work: Callable[[Block, Any], Result], parameters: Any
    ) -> Iterator[Sequence[Result]]:
        """Yield the results of ``work(block, parameters)`` for each bag's blocks, in their order."""
        pieces = [block for blocks in self._blocks for block in blocks]
        found = iter(self._mapper(_load_and_work, pieces, (self._features, work, parameters)))
        for blocks in self._blocks:
            yield list(islice(found, len(blocks)))


def block_rows(features: FeatureFolder) -> int:
    """Return the rows of a block: the same in every run, or sums would differ by rounding."""
    return max(1, BLOCK_CELLS // (features.n_features + MAX_LANDMARKS))


def _load_and_work(
    block: tuple[int, int], parameters: tuple[FeatureFolder, Callable[[Block, Any], Result], Any]
) -> Result:
    """Load one block from its file and work on it."""
    features, work, rest = parameters
    return work(features.rows(*block), rest)
