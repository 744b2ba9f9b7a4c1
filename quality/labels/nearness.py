"""Workers and tasks renumbered so that those who meet are near each other in memory.

If many workers have a few labels each, their numbers do not fit into a cache, and a pass over the labels
waits for memory at every label. Workers commonly label tasks that came to them together, though the tasks'
names do not show it. A walk over the table, from task to worker to task, finds them.

>>> from quality.labels import encode
>>> labels = encode(["ann", "ann", "bob", "bob", "cy"], [1, 3, 2, 4, 3], list("xyxyx"))
>>> near = walk_near(labels)
>>> near.labels.tasks, near.labels.workers
(array([1, 3, 2, 4]), array(['ann', 'cy', 'bob'], dtype='<U3'))
>>> near.task_given(np.arange(4)), near.by_task(np.array([10, 30, 20, 40]))
(array([0, 2, 1, 3]), array([10, 20, 30, 40]))
"""

from dataclasses import dataclass, replace
from weakref import WeakKeyDictionary

import numpy as np
from jaxtyping import Int32, Int64, Shaped

from quality.labels.columns import freeze_arrays
from quality.labels.sort import rows_by_worker
from quality.labels.table import CrowdLabels
from quality.parallel import kernel

__all__ = ["NearTable", "bring_near", "by_votes", "order_by_votes", "walk_near"]

MANY_WORKERS = 2**15  # the numbers of fewer stay in a cache
MANY_CELLS = 2**19  # of all workers' matrices: so many numbers fill a cache of four megabytes
MANY_CLASSES = 9  # with fewer, neighbours use the same rows often enough
FEW_LABELS = 16  # of a worker on average: with more, she meets everybody


@dataclass(frozen=True, slots=True, eq=False)
class NearTable:
    """A table of the same labels under other codes, and the way there and back.

    Parameters
    ----------
    labels
        The table. Its names are not in increasing order.
    row, task, worker
        For each row, task and worker of this table, its code in the original; None if nothing was
        renumbered.
    """

    labels: CrowdLabels
    row: Int64[np.ndarray, " labels"] | None = None
    task: Int32[np.ndarray, " tasks"] | None = None
    worker: Int32[np.ndarray, " workers"] | None = None

    def __post_init__(self) -> None:
        freeze_arrays(self)

    def row_given(self, values: Shaped[np.ndarray, " *table"]) -> Shaped[np.ndarray, " *table"]:
        """Return values of the original table's rows in the order of this table's."""
        return values if self.row is None else values[self.row]

    def task_given(self, values: Shaped[np.ndarray, " *table"]) -> Shaped[np.ndarray, " *table"]:
        """Return values of the original table's tasks in the order of this table's."""
        return values if self.task is None else values[self.task]

    def worker_given(self, values: Shaped[np.ndarray, " *table"]) -> Shaped[np.ndarray, " *table"]:
        """Return values of the original table's workers in the order of this table's."""
        return values if self.worker is None else values[self.worker]

    def by_row(self, values: Shaped[np.ndarray, " *table"]) -> Shaped[np.ndarray, " *table"]:
        """Return values of this table's rows in the order of the original's."""
        return _back(values, self.row)

    def by_task(self, values: Shaped[np.ndarray, " *table"]) -> Shaped[np.ndarray, " *table"]:
        """Return values of this table's tasks in the order of the original's."""
        return _back(values, self.task)

    def by_worker(self, values: Shaped[np.ndarray, " *table"]) -> Shaped[np.ndarray, " *table"]:
        """Return values of this table's workers in the order of the original's."""
        return _back(values, self.worker)


def _back(values: np.ndarray, code: np.ndarray | None) -> np.ndarray:
    if code is None:
        return values
    found = np.empty_like(values, order="C")
    found[code] = values
    return found


def by_votes(labels: CrowdLabels) -> NearTable:
    """Return the table with its tasks in the order of the class that most of their labels give.

    If each worker has a matrix of very many classes, the labels of neighbouring tasks then use the same
    rows of it. Otherwise do what :func:`bring_near` does. A table is renumbered once while it lives.
    """
    cells = labels.n_workers * labels.n_classes**2
    if labels.n_classes < MANY_CLASSES or cells < MANY_CELLS or _is_open(labels):
        return bring_near(labels)
    if labels not in _SORTED:
        _SORTED[labels] = order_by_votes(labels)
    return _SORTED[labels]


def order_by_votes(labels: CrowdLabels) -> NearTable:
    """Renumber the tasks by the class that most of their labels give, whatever the table's size."""
    most = np.zeros(labels.n_tasks, dtype=np.int64)
    _most_given(labels.label, labels.task_start, np.zeros(labels.n_classes, np.int64), most)
    task = np.argsort(most, kind="stable").astype(np.int32)
    n_labels = np.diff(labels.task_start)[task]
    start = np.zeros(labels.n_tasks + 1, dtype=np.int64)
    np.cumsum(n_labels, out=start[1:])
    row = np.arange(labels.n_labels) + np.repeat(
        labels.task_start[:-1][task] - start[:-1], n_labels
    )
    worker, order = labels.worker[row], np.empty(labels.n_labels, dtype=np.int64)
    renumbered = replace(
        labels, worker=worker, task=np.repeat(np.arange(labels.n_tasks, dtype=np.int32), n_labels),
        label=labels.label[row], tasks=labels.tasks[task], task_start=start, worker_order=order,
        worker_start=rows_by_worker(worker, labels.n_workers, order),
    )  # fmt: skip
    return NearTable(renumbered, row, task)


@kernel
def _most_given(label, task_start, n_same, most) -> None:
    """Write the class that most labels of each task give, the first of equals; `n_same` is 0 before."""
    for task in range(len(most)):
        rows = range(task_start[task], task_start[task + 1])
        for row in rows:
            n_same[label[row]] += 1
        highest = 0
        for row in rows:
            if n_same[label[row]] > highest:
                highest = n_same[label[row]]
                most[task] = label[row]
        for row in rows:
            n_same[label[row]] = 0


def bring_near(labels: CrowdLabels) -> NearTable:
    """Return the table renumbered if that saves time, or else the table itself.

    A table is renumbered once while it lives: several aggregators are fitted to it.
    """
    if not _is_open(labels):
        return NearTable(labels)
    if labels not in _KNOWN:
        _KNOWN[labels] = walk_near(labels)
    return _KNOWN[labels]


def _is_open(labels: CrowdLabels) -> bool:
    """Return whether there are many workers with a few labels each."""
    many = labels.n_workers >= MANY_WORKERS
    return many and labels.n_labels < FEW_LABELS * labels.n_workers


_KNOWN: WeakKeyDictionary[CrowdLabels, NearTable] = WeakKeyDictionary()
_SORTED: WeakKeyDictionary[CrowdLabels, NearTable] = WeakKeyDictionary()


def walk_near(labels: CrowdLabels) -> NearTable:
    """Return the table with tasks and workers in the order in which a walk meets them.

    The walk is breadth first: from each task, beginning with the lowest code, to its workers, and to their
    other tasks. Workers without labels are the last. It takes time linear in the labels.
    """
    task, worker = np.empty(labels.n_tasks, np.int32), np.empty(labels.n_workers, np.int32)
    task_code, worker_code = np.full_like(task, -1), np.full_like(worker, -1)
    by_worker = labels.worker_order, labels.worker_start
    _walk(
        labels.worker, labels.task, labels.task_start, *by_worker, task_code, worker_code, task,
        worker,
    )  # fmt: skip
    start = np.zeros(labels.n_tasks + 1, dtype=np.int64)
    np.cumsum(np.diff(labels.task_start)[task], out=start[1:])
    row = np.empty(labels.n_labels, dtype=np.int64)
    new_worker, new_task = np.empty_like(labels.worker), np.empty_like(labels.task)
    _put(worker, *by_worker, labels.task, task_code, start[:-1].copy(), row, new_worker, new_task)
    order = np.empty(labels.n_labels, dtype=np.int64)
    worker_start = rows_by_worker(new_worker, labels.n_workers, order)
    renumbered = replace(
        labels, worker=new_worker, task=new_task, label=labels.label[row],
        workers=labels.workers[worker], tasks=labels.tasks[task], task_start=start,
        worker_order=order, worker_start=worker_start,
    )  # fmt: skip
    return NearTable(renumbered, row, task, worker)


@kernel
def _walk(
    worker, task, task_start, worker_order, worker_start, task_code, worker_code, tasks, workers
) -> None:
    """Write new codes in the order of the walk, and the old code of each; new codes are -1 before."""
    n_tasks = n_workers = n_done = 0
    for seed in range(len(task_code)):
        if task_code[seed] < 0:
            task_code[seed], tasks[n_tasks] = n_tasks, seed
            n_tasks += 1
        while n_done < n_tasks:
            here = tasks[n_done]
            n_done += 1
            for row in range(task_start[here], task_start[here + 1]):
                who = worker[row]
                if worker_code[who] >= 0:
                    continue
                worker_code[who], workers[n_workers] = n_workers, who
                n_workers += 1
                for at in range(worker_start[who], worker_start[who + 1]):
                    other = task[worker_order[at]]
                    if task_code[other] < 0:
                        task_code[other], tasks[n_tasks] = n_tasks, other
                        n_tasks += 1
    for who in range(len(worker_code)):
        if worker_code[who] < 0:
            worker_code[who], workers[n_workers] = n_workers, who
            n_workers += 1


@kernel
def _put(
    workers, worker_order, worker_start, task, task_code, place, row, new_worker, new_task
) -> None:
    """Write rows by (task, worker), worker after worker; `place` is where a task's next row goes."""
    for code in range(len(workers)):
        who = workers[code]
        for at in range(worker_start[who], worker_start[who + 1]):
            old = worker_order[at]
            here = task_code[task[old]]
            put = place[here]
            place[here] = put + 1
            row[put], new_worker[put], new_task[put] = old, code, here
