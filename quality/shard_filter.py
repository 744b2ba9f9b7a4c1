"""The iterative filter over shards, led by the soft penalty."""

from typing import Any

import numpy as np
from jaxtyping import Bool, Float64, Int32, Int64, Shaped

from quality.filtering import Filtered, Removals, removal_limit, remove_highest
from quality.progress import Progress, counter
from quality.reputation import mean_share, tally_shares, unit_shares
from quality.shard_sums import share_sums
from quality.shards import Engine, LabelShard, Sums
from quality.shrinking_crowd import labels_left, tally_agreed, why_refused

__all__ = ["filter_workers_by_shards"]


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
        Where the shards are worked on.
    tasks
        Names of the tasks, for the reasons why workers could not be removed.
    n_workers, fraction, min_labels_per_task, progress
        As for :func:`~quality.filter_workers`.

    Raises
    ------
    ValueError
        As :func:`~quality.filter_workers`.

    Notes
    -----
    **Guarantees.** The result is :func:`~quality.filter_workers`'s, to the bit: sums of integers,
    which do not depend on where or in which order they are added.

    **Cost.** Two passes over the shards per removal, which look for one worker's labels.

    Examples
    --------
    >>> from quality import encode
    >>> from quality.local_engine import LocalEngine
    >>> from quality.shards import cut_labels
    >>> labels = encode(["ann", "bob", "cy"] * 3, list("111222333"), list("xxyyyxxxy"))
    >>> engine = LocalEngine(cut_labels(labels, [0, 1, 3]))
    >>> filter_workers_by_shards(engine, labels.tasks, n_workers=1)
    Filtered(1 of 3 workers removed by soft penalty, 0 refused; 1 of 1 removals made)
    """
    if not min_labels_per_task >= 0:
        message = f"must be >= 0, got min_labels_per_task={min_labels_per_task}"
        raise ValueError(f"min_labels_per_task {message}")
    crowd = _ShardedCrowd(engine, tasks)
    limit = removal_limit(crowd.n_labels, n_workers, fraction)
    removals = Removals(crowd, min_labels_per_task, counter(progress, "removals", limit))
    remove_highest(removals, crowd.soft_penalty, limit)
    return removals.filtered("soft penalty", limit)


class _ShardedCrowd:
    """What :class:`~quality.shrinking_crowd.ShrinkingCrowd` is to the filter, in shards."""

    def __init__(self, engine: Engine, tasks: Shaped[np.ndarray, " tasks"]) -> None:
        self._engine, self._tasks = engine, tasks
        self._share, self.n_labels = engine.add_up(_begin, None)
        self._agreed: np.ndarray | None = None  # from the first call on
        self.keep = np.ones(len(self.n_labels), dtype=np.bool_)

    def soft_penalty(self) -> Float64[np.ndarray, " workers"]:
        """Return the soft penalty of the workers left."""
        return mean_share(self._share)

    def agreement(self) -> Float64[np.ndarray, " workers"]:
        """Return the share of each worker's labels that the majority of those left gave."""
        if self._agreed is None:
            (self._agreed,) = self._engine.add_up(_agreed, self.keep)
        share = np.full(len(self.keep), np.nan)
        np.divide(self._agreed, self.n_labels, out=share, where=self.n_labels > 0)
        return share

    def refusal(self, worker: int, min_labels_per_task: int) -> str:
        """Return why this worker cannot go; empty if she can."""
        asked = worker, self.keep, min_labels_per_task
        short = [found for found in self._engine.map(_short, asked) if found[0]]
        first = str(self._tasks[short[0][1]]) if short else ""
        return why_refused(sum(found[0] for found in short), min_labels_per_task, first)

    def remove(self, worker: int) -> None:
        """Take a worker out."""
        share, agreed = self._engine.add_up(_change, (worker, self.keep, self._agreed is not None))
        self._share = self._share + share
        if self._agreed is not None:
            self._agreed = self._agreed + agreed
        self.keep = self.keep & (np.arange(len(self.keep)) != worker)


def _begin(shard: LabelShard, _: Any) -> Sums:
    """Everybody's tally of shares, and number of labels."""
    return *share_sums(shard, None), np.bincount(shard.worker, minlength=shard.n_workers)


def _agreed(shard: LabelShard, keep: Bool[np.ndarray, " workers"]) -> Sums:
    """Labels of the workers left that are their majority's."""
    tasks = np.arange(shard.n_tasks, dtype=np.int32)
    return (_tally(shard, tasks, keep, np.zeros(shard.n_workers, dtype=np.int64), 1),)


def _short(shard: LabelShard, asked: tuple[int, np.ndarray, int]) -> tuple[int, int]:
    """How many tasks a worker's going would leave with too few labels, and the code of the first."""
    worker, keep, least = asked
    tasks = _tasks_of(shard, worker)
    left = labels_left(tasks, shard.task_start, shard.worker, keep)
    short = tasks[left - 1 < least]
    return len(short), shard.first_task + int(short[0]) if len(short) else -1


def _change(shard: LabelShard, asked: tuple[int, np.ndarray, bool]) -> Sums:
    """What a worker's going adds to the tally of shares, and to agreement where that is asked for."""
    worker, keep, with_agreement = asked
    tasks, unit = _tasks_of(shard, worker), unit_shares(shard)
    without = keep.copy()
    without[worker] = False
    share = np.zeros((shard.n_workers, 3), dtype=np.int64)
    agreed = np.zeros(shard.n_workers if with_agreement else 0, dtype=np.int64)
    for left, sign in ((keep, -1), (without, 1)):
        tally_shares(share, tasks, sign, shard, left, unit)
        if with_agreement:
            _tally(shard, tasks, left, agreed, sign)
    return share, agreed


def _tasks_of(shard: LabelShard, worker: int) -> Int32[np.ndarray, " hers"]:
    """The shard's tasks that a worker labelled, counted from its first."""
    rows = np.flatnonzero(shard.worker == worker)
    return (np.searchsorted(shard.task_start, rows, side="right") - 1).astype(np.int32)


def _tally(
    shard: LabelShard,
    tasks: Int32[np.ndarray, " chosen"],
    keep: Bool[np.ndarray, " workers"],
    agreed: Int64[np.ndarray, " workers"],
    sign: int,
) -> Int64[np.ndarray, " workers"]:
    rows = (shard.task_start, shard.worker, shard.label)
    tally_agreed(agreed, tasks, sign, *rows, keep, shard.n_classes)
    return agreed
