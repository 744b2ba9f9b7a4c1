"""The iterative filter on a table in shards, led by the soft penalty.

Use :func:`filter_workers_by_shards`; :func:`quality.filter_workers` is the filter of one table.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Int32, Int64, Shaped

from quality.argument_types import check_arguments
from quality.labels import Engine, LabelShard, Sums, sort_codes
from quality.parallel import Progress, counter
from quality.reputation.filtering import (
    Filtered,
    Removals,
    Standing,
    labels_left,
    removal_limit,
    remove_highest,
    tally_agreed,
    why_refused,
)
from quality.reputation.penalties import (
    mean_share,
    share_sums,
    tally_shares,
    unit_shares,
)

__all__ = ["ShardedCrowd", "filter_workers_by_shards"]

LABELS_AT_HAND = 10_000_000  # of the workers whose tasks are fetched together, others' not counted


@check_arguments
def filter_workers_by_shards(
    engine: Engine,
    tasks: Shaped[np.ndarray, " tasks"],
    *,
    n_workers: int | None = None,
    fraction: float | None = None,
    min_labels_per_task: int = 1,
    progress: Progress | None = None,
) -> Filtered:
    """Do what :func:`~quality.filter_workers` does with the soft penalty, on a table in shards.

    Parameters
    ----------
    engine
        It works on the shards of the table.
    tasks
        Names of the tasks, for the reasons why workers could not be removed.
    n_workers, fraction, min_labels_per_task, progress
        As for :func:`~quality.filter_workers`, errors included.

    Notes
    -----
    **Guarantees.** The result is :func:`~quality.filter_workers`'s, to the bit: sums of integers do not
    depend on where or in which order they are added.

    **Cost.** One pass over the shards whenever the tasks of the worker with the highest penalty are not in
    memory. The pass fetches the tasks of the workers next in line, who have ten million labels together.
    Otherwise a removal reads the worker's tasks alone.

    Examples
    --------
    >>> from quality import LocalEngine, cut_labels, encode
    >>> labels = encode(["ann", "bob", "cy"] * 3, list("111222333"), list("xxyyyxxxy"))
    >>> engine = LocalEngine(cut_labels(labels, [0, 1, 3]))
    >>> filter_workers_by_shards(engine, labels.tasks, n_workers=1)
    Filtered(1 of 3 workers removed by soft penalty, 0 refused; 1 of 1 removals made)
    """
    if not min_labels_per_task >= 0:
        message = f"must be >= 0, got min_labels_per_task={min_labels_per_task}"
        raise ValueError(f"min_labels_per_task {message}")
    crowd = ShardedCrowd(engine, tasks)
    limit = removal_limit(crowd.n_labels, n_workers, fraction)
    removals = Removals(crowd, min_labels_per_task, counter(progress, "removals", limit))
    remove_highest(removals, lambda: crowd.highest(removals.judged), limit)
    return removals.filtered("soft penalty", limit)


class ShardedCrowd:
    """The :class:`~quality.reputation.filtering.ShrinkingCrowd` of a table in shards.

    A removal reads only the tasks of the worker who goes. They are fetched from the shards together with
    those of the workers with the next highest penalties, many of whom go after her.
    """

    def __init__(self, engine: Engine, tasks: Shaped[np.ndarray, " tasks"]) -> None:
        self._engine, self._tasks = engine, tasks
        share, self.n_labels = engine.add_up(_begin, None)
        self._share = share.copy()  # an engine's own may be read-only
        self._agreed: np.ndarray | None = None  # kept from the first call on
        self._standing: Standing | None = None
        self.keep = np.ones(len(self.n_labels), dtype=np.bool_)
        # workers not tried yet: a worker who was tried is removed or never tried again
        self._in_line = self.n_labels > 0
        self._fetched = np.zeros(len(self.n_labels), dtype=np.bool_)  # whose tasks are at hand
        self._at_hand: _TasksAtHand | None = None
        self._next = np.empty(0, dtype=np.int32)

    def expect(self, workers: Int32[np.ndarray, " next"]) -> None:
        """Fetch the tasks of these workers next, instead of those with the highest penalties."""
        self._next = workers

    def soft_penalty(self) -> Float64[np.ndarray, " workers"]:
        """Return the soft penalty of the workers left."""
        return mean_share(self._share)

    def _agreeing(self) -> Int64[np.ndarray, " workers"]:
        if self._agreed is None:
            (agreed,) = self._engine.add_up(_agreed, self.keep)
            self._agreed = agreed.copy()
        return self._agreed

    def highest(self, judged: Bool[np.ndarray, " workers"]) -> tuple[int, float]:
        """Return the judged worker with the highest soft penalty, by the filter's rule, and that penalty."""
        if self._standing is None:
            self._standing = Standing(self._share, self._agreeing(), self.n_labels)
        return self._standing.highest(judged)

    def refusal(self, worker: int, min_labels_per_task: int) -> str:
        """Return why this worker cannot go; empty if she can."""
        tasks, held = self._tasks_of(worker)
        self._in_line[worker] = False
        left = labels_left(tasks, held.table.task_start, held.table.worker, self.keep)
        short = tasks[left - 1 < min_labels_per_task]
        first = str(self._tasks[held.task[short[0]]]) if len(short) else ""
        return why_refused(len(short), min_labels_per_task, first)

    def remove(self, worker: int) -> None:
        """Take a worker out."""
        tasks, held = self._tasks_of(worker)
        self._tally(tasks, held, -1)
        self.keep[worker] = False
        self._tally(tasks, held, 1)
        if self._standing is not None:
            self._standing.changed(tasks, held.table)

    def _tally(self, tasks: Int32[np.ndarray, " hers"], held: "_TasksAtHand", sign: int) -> None:
        """Add these tasks to the sums in use, or subtract them."""
        tally_shares(self._share, tasks, sign, held.table, self.keep, held.unit)
        if self._agreed is not None:
            tally_agreed(self._agreed, tasks, sign, held.table, self.keep)

    def _tasks_of(self, worker: int) -> tuple[Int32[np.ndarray, " hers"], "_TasksAtHand"]:
        """Return the tasks of a worker, as places among those at hand."""
        if self._at_hand is None or not self._fetched[worker]:
            self._fetched = self._next_in_line(worker)
            parts = self._engine.map(_tasks_with, self._fetched)
            self._at_hand = _together(parts, len(self.keep))
        held = self._at_hand
        return held.by_worker[slice(*held.worker_start[worker : worker + 2])], held

    def _next_in_line(self, worker: int) -> Bool[np.ndarray, " workers"]:
        """Choose this worker and the workers next in line, up to `LABELS_AT_HAND` labels of theirs."""
        order = self._next if len(self._next) else np.argsort(-self.soft_penalty(), kind="stable")
        order = np.append(worker, order[self._in_line[order] & (order != worker)])
        before = np.cumsum(self.n_labels[order]) - self.n_labels[order]
        chosen = np.zeros(len(self.keep), dtype=np.bool_)
        chosen[order[before < LABELS_AT_HAND]] = True
        return chosen


class _TasksAtHand(NamedTuple):
    """Some tasks with all of their labels.

    With them are their codes in the whole table, the shares of a penalty, and the places of each worker's
    tasks.
    """

    table: LabelShard
    task: Int64[np.ndarray, " tasks"]
    unit: Int64[np.ndarray, "numbers 2"]
    by_worker: Int32[np.ndarray, " labels"]
    worker_start: Int64[np.ndarray, " workers+1"]


def _begin(shard: LabelShard, _: Any) -> Sums:
    """Return everybody's tally of shares, and number of labels."""
    return *share_sums(shard, None), np.bincount(shard.worker, minlength=shard.n_workers)


def _agreed(shard: LabelShard, keep: Bool[np.ndarray, " workers"]) -> Sums:
    """Return the number of each remaining worker's labels that are the majority's."""
    agreed, tasks = np.zeros(shard.n_workers, np.int64), np.arange(shard.n_tasks, dtype=np.int32)
    tally_agreed(agreed, tasks, 1, shard, keep)
    return (agreed,)


def _tasks_with(
    shard: LabelShard, chosen: Bool[np.ndarray, " workers"]
) -> tuple[LabelShard, Int64[np.ndarray, " tasks"]]:
    """Return the shard's tasks that a chosen worker has labelled, with all of their labels."""
    n_before = np.concatenate([[0], np.cumsum(chosen[shard.worker])])[shard.task_start]
    found, n_labels = np.diff(n_before) > 0, np.diff(shard.task_start)
    rows, start = np.repeat(found, n_labels), np.concatenate([[0], np.cumsum(n_labels[found])])
    about = (shard.first_task, shard.n_workers, shard.n_classes)
    table = LabelShard(shard.worker[rows], shard.label[rows], shard.gold[found], start, *about)
    return table, shard.first_task + np.flatnonzero(found)


def _together(parts: Sequence[tuple[LabelShard, np.ndarray]], n_workers: int) -> _TasksAtHand:
    """Return the tables of the shards as one table, in their order."""
    tables, tasks = zip(*parts, strict=True)
    worker, label, gold = (
        np.concatenate([getattr(table, name) for table in tables])
        for name in ("worker", "label", "gold")
    )
    n_labels = np.concatenate([np.diff(table.task_start) for table in tables])
    start = np.concatenate([[0], np.cumsum(n_labels)])
    table = LabelShard(worker, label, gold, start, 0, n_workers, tables[0].n_classes)
    place = np.repeat(np.arange(len(n_labels), dtype=np.int32), n_labels)
    order, worker_start = sort_codes(worker, n_workers)
    return _TasksAtHand(
        table, np.concatenate(tasks), unit_shares(table), place[order], worker_start
    )
