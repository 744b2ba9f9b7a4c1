"""Label tables cut by task into shards, and engines that work on the shards.

>>> from quality import encode
>>> labels = encode(["ann", "bob", "ann"], ["t2", "t1", "t1"], ["yes", "no", "no"])
>>> engine = LocalEngine(cut_labels(labels, [0, 1, 2]))
>>> engine.add_up(lambda shard, _: (shard.counts().sum(axis=0),), None)
(array([2, 1]),)

A task is never split over shards. So every count over labels is a sum over shards, and every result about
a task needs its shard alone. An :class:`Engine` gets a function and its parameters, and runs the function
on every shard, wherever the shards are. It adds the parts up in a tree whose form depends on their number
alone, so that the bytes are the same on any number of threads, processes or machines, whichever of them
fail on the way. :class:`LocalEngine` is the engine of threads in this process.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from os import cpu_count
from typing import Any, Protocol, TypeAlias, TypeVar, runtime_checkable

import numpy as np
from jaxtyping import Bool, Int, Int16, Int32, Int64

from quality.argument_types import check_arguments
from quality.labels.columns import freeze_arrays
from quality.labels.merging import check_groups, merge_rows
from quality.labels.sort import check_keep
from quality.labels.table import CrowdLabels, check_gold, count_labels
from quality.parallel import check_threads

__all__ = [
    "Engine",
    "LabelShard",
    "LocalEngine",
    "Sums",
    "add_parts",
    "cut_labels",
    "join_shards",
    "tree_total",
]

Sums: TypeAlias = tuple[np.ndarray, ...]
Result_co = TypeVar("Result_co", covariant=True)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LabelShard:
    """All labels of some neighbouring tasks, in the codes of the whole table.

    Parameters
    ----------
    worker, label
        One row per label, sorted by (task, worker).
    gold
        The true class code of each of its tasks, -1 where it is unknown.
    task_start
        Rows of the shard's task ``t`` are ``task_start[t]:task_start[t + 1]``.
    first_task
        Code of its first task in the whole table; the others follow.
    n_workers, n_classes
        Of the whole table.

    Raises
    ------
    ValueError
        If a code is out of its range, or the rows are not those of the tasks; loops index by both.

    Examples
    --------
    >>> from quality import encode
    >>> labels = encode(["ann", "bob", "ann"], ["t2", "t1", "t1"], ["yes", "no", "no"])
    >>> cut_labels(labels, [0, 1, 2])
    [LabelShard(2 labels of tasks 0 to 0), LabelShard(1 labels of tasks 1 to 1)]
    """

    worker: Int32[np.ndarray, " labels"]
    label: Int16[np.ndarray, " labels"]
    gold: Int16[np.ndarray, " tasks"]
    task_start: Int64[np.ndarray, " tasks+1"]
    first_task: int
    n_workers: int
    n_classes: int

    def __post_init__(self) -> None:
        freeze_arrays(self)
        start, n = self.task_start, len(self.label)
        ends = len(start) == len(self.gold) + 1 and (start[0], start[-1]) == (0, n)
        if not (ends and len(self.worker) == n and (start[1:] >= start[:-1]).all()):
            raise ValueError(
                f"task_start must be {len(self.gold) + 1} ends that ascend from 0 to the number of rows, got "
                f"{len(start)} for {n} labels by {len(self.worker)} workers' codes"
            )
        self._check_codes("worker", 0, self.n_workers)
        self._check_codes("label", 0, self.n_classes)
        self._check_codes("gold", -1, self.n_classes)

    def _check_codes(self, name: str, least: int, number: int) -> None:
        codes = getattr(self, name)
        if len(codes) and not (codes.min() >= least and codes.max() < number):
            raise ValueError(
                f"{name} must be codes from {least} to {number - 1}, got {codes.min()} to {codes.max()}"
            )

    def __repr__(self) -> str:
        last = self.first_task + self.n_tasks - 1
        return f"LabelShard({self.n_labels} labels of tasks {self.first_task} to {last})"

    @property
    def n_labels(self) -> int:
        """Number of labels, which are the rows."""
        return len(self.label)

    @property
    def n_tasks(self) -> int:
        """Number of its tasks."""
        return len(self.gold)

    def counts(self) -> Int32[np.ndarray, "tasks classes"]:
        """Return the number of labels of each class that each task has."""
        return count_labels(self.task, self.label, self.n_tasks, self.n_classes)

    def keep_workers(self, keep: Bool[np.ndarray, " workers"]) -> "LabelShard":
        """Return the same tasks without the labels of the other workers, as for a whole table."""
        check_keep(keep, self.n_workers, "worker")
        return self.keep_labels(keep[self.worker])

    def keep_labels(self, rows: Bool[np.ndarray, " labels"]) -> "LabelShard":
        """Return the same tasks with these rows alone, as for a whole table."""
        check_keep(rows, self.n_labels, "label")
        start = np.concatenate([[0], np.cumsum(rows)])[self.task_start]
        about = (self.gold, start, self.first_task, self.n_workers, self.n_classes)
        return LabelShard(self.worker[rows], self.label[rows], *about)

    @property
    def task(self) -> Int64[np.ndarray, " labels"]:
        """The place of each label's task among the shard's."""
        return np.repeat(np.arange(self.n_tasks), np.diff(self.task_start))

    def merge_workers(self, groups: Int[np.ndarray, " workers"]) -> "LabelShard":
        """Return the same tasks with one label per group: :meth:`CrowdLabels.merge_workers`."""
        check_groups(groups, self.n_workers)
        worker, task, label = merge_rows(self.worker, self.task, self.label, groups, self.n_classes)
        start = np.concatenate([[0], np.cumsum(np.bincount(task, minlength=self.n_tasks))])
        about = (self.gold, start, self.first_task, self.n_workers, self.n_classes)
        return LabelShard(worker, label, *about)


@runtime_checkable
class Engine(Protocol):
    """An engine that works on the shards of one table. The function `work` must be importable by name."""

    def map(
        self, work: Callable[[LabelShard, Any], Result_co], parameters: Any
    ) -> Sequence[Result_co]:
        """Return ``work(shard, parameters)`` of every shard, in the order of the shards."""

    def add_up(self, work: Callable[[LabelShard, Any], Sums], parameters: Any) -> Sums:
        """Return the :func:`tree_total` of what `map` would return."""

    def keep_workers(self, keep: Bool[np.ndarray, " workers"]) -> "Engine":
        """Return an engine on the same shards without the labels of the other workers."""

    def merge_workers(self, groups: Int[np.ndarray, " workers"]) -> "Engine":
        """Return an engine on the same shards in which every group has one label per task."""

    def changed(self, change: Callable[[LabelShard], LabelShard]) -> "Engine":
        """Return an engine on shards of the same tasks, changed; the function is like `work`."""


def add_parts(one: Sums, other: Sums) -> Sums:
    """Add two parts array by array."""
    return tuple(mine + its for mine, its in zip(one, other, strict=True))


def tree_total(parts: Iterable[Sums]) -> Sums:
    """Add parts up in pairs of neighbours, then pairs of pairs, and so on.

    Parameters
    ----------
    parts
        One or more parts, equal in shapes; consumed in order, and few are kept at a time.

    Raises
    ------
    ValueError
        If there are no parts.

    Notes
    -----
    **Guarantees.** The bytes of the total depend on the parts and their order alone: neighbours are added
    level by level.

    Examples
    --------
    >>> tree_total((np.array([number]),) for number in range(5))
    (array([10]),)
    """
    waiting: list[tuple[int, Sums]] = []  # complete trees with their heights, the highest first
    for part in parts:
        height, total = 0, part
        while waiting and waiting[-1][0] == height:
            height, total = height + 1, add_parts(waiting.pop()[1], total)
        waiting.append((height, total))
    if not waiting:
        raise ValueError("parts must be one or more, got none")
    total = waiting.pop()[1]
    while waiting:
        total = add_parts(waiting.pop()[1], total)
    return total


@check_arguments
def cut_labels(
    labels: CrowdLabels,
    cuts: Sequence[int] | Int[np.ndarray, " cuts"],
    *,
    gold: Int[np.ndarray, " tasks"] | None = None,
) -> list[LabelShard]:
    """Cut a table in memory into shards.

    Parameters
    ----------
    labels
        The whole table.
    cuts
        The first task of each shard, ascending from 0, and the number of tasks.
    gold
        The true class code of each task, -1 where it is unknown.

    Raises
    ------
    ValueError
        If the cuts do not go from 0 to the number of tasks, or gold is not one code per task.

    Examples
    --------
    >>> from quality import encode
    >>> cut_labels(encode(["ann", "bob", "ann"], [1, 1, 2], list("xyx")), [0, 1, 2])
    [LabelShard(2 labels of tasks 0 to 0), LabelShard(1 labels of tasks 1 to 1)]
    """
    ends = [int(cut) for cut in cuts]
    if not (len(ends) > 1 and ends[0] == 0 and ends[-1] == labels.n_tasks and ends == sorted(ends)):
        raise ValueError(f"cuts must ascend from 0 to {labels.n_tasks}, got {ends}")
    truth = check_gold(gold, labels.n_tasks, labels.n_classes)
    shards = []
    for first, last in pairwise(ends):
        start = labels.task_start[first : last + 1]
        rows = slice(start[0], start[-1])
        about = (first, labels.n_workers, labels.n_classes)
        part = labels.worker[rows], labels.label[rows], truth[first:last]
        shards.append(LabelShard(*part, start - start[0], *about))
    return shards


def join_shards(shards: Sequence[LabelShard], names: CrowdLabels) -> CrowdLabels:
    """Return the whole table of all shards, in order; the vocabularies are those of `names`."""
    n_tasks = np.concatenate([np.diff(shard.task_start) for shard in shards])
    return CrowdLabels.from_codes(
        np.concatenate([shard.worker for shard in shards]),
        np.repeat(np.arange(len(n_tasks), dtype=np.int32), n_tasks),
        np.concatenate([shard.label for shard in shards]),
        workers=names.workers,
        tasks=names.tasks,
        classes=names.classes,
    )


Result = TypeVar("Result")
Loader = Callable[[], LabelShard]


class LocalEngine:
    """An :class:`~quality.labels.shards.Engine` of threads in this process.

    Parameters
    ----------
    shards
        Shards, or functions that load them, for tables larger than memory: such a function is called anew
        for every pass, and one shard per thread is loaded at a time.
    threads
        Number of threads at most; all cores if None.

    Raises
    ------
    ValueError
        If there are no shards, or no threads.

    Notes
    -----
    **Guarantees.** The same bytes on any number of threads. A shard given as a function is not kept
    between passes.

    Examples
    --------
    >>> from quality import encode
    >>> labels = encode(["ann", "bob", "ann"], ["t2", "t1", "t1"], ["yes", "no", "no"])
    >>> engine = LocalEngine(cut_labels(labels, [0, 1, 2]))
    >>> engine.map(lambda shard, least: shard.n_labels >= least, 2)
    [True, False]
    """

    def __init__(
        self, shards: Sequence[LabelShard | Loader], *, threads: int | None = None
    ) -> None:
        if not shards:
            raise ValueError("shards must be one or more, got none")
        check_threads(threads)
        self._shards = tuple(shards)
        self._threads = min(threads or cpu_count() or 1, len(shards))

    def __repr__(self) -> str:
        return f"LocalEngine({len(self._shards)} shards, {self._threads} threads)"

    def map(self, work: Callable[[LabelShard, Any], Result], parameters: Any) -> list[Result]:
        """Return ``work(shard, parameters)`` of every shard, in the order of the shards."""
        return list(self._each(work, parameters))

    def add_up(self, work: Callable[[LabelShard, Any], Sums], parameters: Any) -> Sums:
        """Return the :func:`~quality.labels.shards.tree_total` of what `map` would return."""
        return tree_total(self._each(work, parameters))

    def keep_workers(self, keep: Bool[np.ndarray, " workers"]) -> "LocalEngine":
        """Return an engine on the same shards without the labels of the other workers."""
        return self.changed(partial(LabelShard.keep_workers, keep=keep))

    def merge_workers(self, groups: Int[np.ndarray, " workers"]) -> "LocalEngine":
        """Return an engine on the same shards in which every group has one label per task."""
        return self.changed(partial(LabelShard.merge_workers, groups=groups))

    def changed(self, change: Callable[[LabelShard], LabelShard]) -> "LocalEngine":
        """Return an engine on changed shards; a shard given as a function is changed when it is loaded."""
        changed = [
            change(shard) if isinstance(shard, LabelShard) else partial(_load, shard, change)
            for shard in self._shards
        ]
        return LocalEngine(changed, threads=self._threads)

    def _each(self, work: Callable[[LabelShard, Any], Result], parameters: Any) -> Iterator[Result]:
        """Yield the results of the shards, in order; at most one shard per thread is loaded."""
        begun: deque[Future[Result]] = deque()
        with ThreadPoolExecutor(self._threads) as pool:
            for shard in self._shards:
                begun.append(pool.submit(_work, work, shard, parameters))
                if len(begun) > self._threads:
                    yield begun.popleft().result()
            while begun:
                yield begun.popleft().result()


def _work(
    work: Callable[[LabelShard, Any], Result], shard: LabelShard | Loader, parameters: Any
) -> Result:
    return work(shard if isinstance(shard, LabelShard) else shard(), parameters)


def _load(load: Loader, change: Callable[[LabelShard], LabelShard]) -> LabelShard:
    return change(load())
