"""A crowd that loses workers: what the filter asks about those left, kept up to date.

Private to this room; :func:`quality.filter_workers` is the way in. Only the tasks of the worker who
goes are looked at again. All that is kept are sums of integers, so that they are, to the bit, those
of a table made anew; and no such table is made unless one is asked for.
"""

from typing import no_type_check

import numpy as np
from jaxtyping import Float64, Int32
from numba import njit

from quality.labels.table import CrowdLabels
from quality.reputation.penalties import mean_share, tally_shares, unit_shares

__all__ = ["ShrinkingCrowd", "labels_left", "tally_agreed", "why_refused"]


class ShrinkingCrowd:
    """The labels of the workers left, their agreement with the majority and their soft penalty.

    Parameters
    ----------
    labels
        The crowd to begin with.
    """

    def __init__(self, labels: CrowdLabels) -> None:
        self.labels = labels
        self.keep = np.ones(labels.n_workers, dtype=np.bool_)
        self._unit = unit_shares(labels)
        self._share: np.ndarray | None = None  # see tally_shares; from the first call on
        self._agreed: np.ndarray | None = None  # labels that are the majority's; likewise
        self.n_labels = np.diff(labels.worker_start)

    def table(self) -> CrowdLabels:
        """Return the labels of the workers left as a table of its own."""
        return self.labels if self.keep.all() else self.labels.keep_workers(self.keep)

    def tasks_of(self, worker: int) -> Int32[np.ndarray, " hers"]:
        """Return the tasks of a worker, ascending."""
        hers = slice(*self.labels.worker_start[worker : worker + 2])
        tasks: np.ndarray = self.labels.task[self.labels.worker_order[hers]]
        return tasks

    def labels_left(self, tasks: Int32[np.ndarray, " chosen"]) -> Int32[np.ndarray, " chosen"]:
        """Return how many labels of workers left each of these tasks has."""
        left: np.ndarray = labels_left(tasks, self.labels.task_start, self.labels.worker, self.keep)
        return left

    def refusal(self, worker: int, min_labels_per_task: int) -> str:
        """Return why this worker cannot go; empty if she can."""
        tasks = self.tasks_of(worker)
        short = tasks[self.labels_left(tasks) - 1 < min_labels_per_task]
        first = self.labels.tasks[short[0]] if len(short) else ""
        return why_refused(len(short), min_labels_per_task, str(first))

    def remove(self, worker: int) -> None:
        """Take a worker out."""
        tasks = self.tasks_of(worker)
        self._tally(tasks, -1)
        self.keep[worker] = False
        self._tally(tasks, 1)

    def soft_penalty(self) -> Float64[np.ndarray, " workers"]:
        """Return :func:`quality.soft_penalty` of the workers left."""
        if self._share is None:
            self._share = np.zeros((self.labels.n_workers, 3), dtype=np.int64)
            self._tally_shares(self._share, self._all_tasks(), 1)
        return mean_share(self._share)

    def agreement(self) -> Float64[np.ndarray, " workers"]:
        """Return the share of each worker's labels that the majority of those left gave."""
        if self._agreed is None:
            self._agreed = np.zeros(self.labels.n_workers, dtype=np.int64)
            self._tally_agreed(self._agreed, self._all_tasks(), 1)
        share = np.full(self.labels.n_workers, np.nan)
        np.divide(self._agreed, self.n_labels, out=share, where=self.n_labels > 0)
        return share

    def _all_tasks(self) -> Int32[np.ndarray, " tasks"]:
        return np.arange(self.labels.n_tasks, dtype=np.int32)

    def _tally(self, tasks: Int32[np.ndarray, " chosen"], sign: int) -> None:
        """Add what these tasks say about the workers left to the sums in use, or take it away."""
        if self._share is not None:
            self._tally_shares(self._share, tasks, sign)
        if self._agreed is not None:
            self._tally_agreed(self._agreed, tasks, sign)

    def _tally_shares(self, total: np.ndarray, tasks: np.ndarray, sign: int) -> None:
        tally_shares(total, tasks, sign, self.labels, self.keep, self._unit)

    def _tally_agreed(self, agreed: np.ndarray, tasks: np.ndarray, sign: int) -> None:
        table = self.labels
        rows = (table.task_start, table.worker, table.label)
        tally_agreed(agreed, tasks, sign, *rows, self.keep, table.n_classes)


def why_refused(n_short: int, min_labels_per_task: int, first: str) -> str:
    """Return why a worker cannot go without whom so many tasks fall short; empty if she can."""
    if not n_short:
        return ""
    count = "1 task" if n_short == 1 else f"{n_short} tasks"
    least = "1 label" if min_labels_per_task == 1 else f"{min_labels_per_task} labels"
    return f"{count} would be left with fewer than {least}, the first is {first}"


@no_type_check  # numba compiles it, so the shape checks of the tests must not wrap it
@njit(cache=True, nogil=True)
def labels_left(tasks, task_start, worker, keep):
    """Rows of workers left on each task."""
    left = np.zeros(len(tasks), dtype=np.int32)
    for place, task in enumerate(tasks):
        for row in range(task_start[task], task_start[task + 1]):
            left[place] += keep[worker[row]]
    return left


@no_type_check  # numba compiles it, so the shape checks of the tests must not wrap it
@njit(cache=True, nogil=True)
def tally_agreed(agreed, tasks, sign, task_start, worker, label, keep, n_classes) -> None:
    """Count on each task who gave the class most workers gave, the lowest code among equals."""
    n_same = np.zeros(n_classes, dtype=np.int64)
    for task in tasks:
        best = 0
        for row in range(task_start[task], task_start[task + 1]):
            if keep[worker[row]]:
                given = label[row]
                n_same[given] += 1
                if n_same[given] > n_same[best] or (n_same[given] == n_same[best] and given < best):
                    best = given
        for row in range(task_start[task], task_start[task + 1]):
            if keep[worker[row]] and label[row] == best:
                agreed[worker[row]] += sign
            n_same[label[row]] = 0
