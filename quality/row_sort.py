"""Rows of a label table in their order: by task, then by worker. Private to this room."""

from typing import NamedTuple, NoReturn, no_type_check

import numpy as np
from jaxtyping import Bool, Int, Int16, Int32, Int64
from numba import njit

from quality.codes import LabelError

__all__ = ["RepeatError", "SortedRows", "keep_rows", "sort_rows"]


class RepeatError(LabelError):
    """A worker labels a task twice; attributes as :class:`~quality.labels.LabelError`.

    Examples
    --------
    >>> sort_rows(np.array([4, 4]), np.array([2, 2]), np.array([0, 1]), 5, 3)
    Traceback (most recent call last):
    quality.row_sort.RepeatError: rows 0 and 1 (counted from 0) hold labels of one worker for one \
task: keep one of them
    """


class SortedRows(NamedTuple):
    """Rows by (task, worker), and where those of each task and of each worker are."""

    worker: Int32[np.ndarray, " rows"]
    task: Int32[np.ndarray, " rows"]
    label: Int16[np.ndarray, " rows"]
    task_start: Int64[np.ndarray, " task_starts"]
    worker_order: Int64[np.ndarray, " rows"]
    worker_start: Int64[np.ndarray, " worker_starts"]


def sort_rows(
    worker: Int[np.ndarray, " rows"],
    task: Int[np.ndarray, " rows"],
    label: Int[np.ndarray, " rows"],
    n_workers: int,
    n_tasks: int,
) -> SortedRows:
    """Sort rows of codes; a (worker, task) that stands twice is refused."""
    worker = np.ascontiguousarray(worker, dtype=np.int32)
    task = np.ascontiguousarray(task, dtype=np.int32)
    label = np.ascontiguousarray(label, dtype=np.int16)
    worker_start, task_start = _starts(worker, n_workers), _starts(task, n_tasks)
    by_task, by_label = _by_worker(worker, task, label, worker_start)
    sorted_worker, sorted_label = _by_task(by_task, by_label, worker_start, task_start)
    worker_order, repeated = _rows_of_workers(sorted_worker, worker_start, task_start)
    if repeated:
        _refuse_repeat(task.astype(np.int64) * n_workers + worker)
    sorted_task = np.repeat(np.arange(n_tasks, dtype=np.int32), np.diff(task_start))
    return SortedRows(
        sorted_worker, sorted_task, sorted_label, task_start, worker_order, worker_start
    )


def keep_rows(
    worker: Int32[np.ndarray, " rows"],
    task: Int32[np.ndarray, " rows"],
    label: Int16[np.ndarray, " rows"],
    keep: Bool[np.ndarray, " rows"],
    n_workers: int,
    n_tasks: int,
) -> SortedRows:
    """Keep some of the rows, which are sorted and stay so."""
    worker, task, label = worker[keep], task[keep], label[keep]
    worker_start, task_start = _starts(worker, n_workers), _starts(task, n_tasks)
    worker_order, _ = _rows_of_workers(worker, worker_start, task_start)
    return SortedRows(worker, task, label, task_start, worker_order, worker_start)


def _starts(code: Int32[np.ndarray, " rows"], n_codes: int) -> Int64[np.ndarray, " starts"]:
    """Where the rows of each code start, once the rows are sorted by it."""
    start = np.zeros(n_codes + 1, dtype=np.int64)
    np.cumsum(np.bincount(code, minlength=n_codes), out=start[1:])
    return start


@no_type_check  # numba compiles it, so the shape checks of the tests must not wrap it
@njit(cache=True, nogil=True)
def _by_worker(worker, task, label, worker_start):
    """Task and label of each row, moved so that a worker's rows are together."""
    moved_task, moved_label = np.empty_like(task), np.empty_like(label)
    place = worker_start[:-1].copy()
    for row in range(len(worker)):
        put = place[worker[row]]
        moved_task[put], moved_label[put] = task[row], label[row]
        place[worker[row]] = put + 1
    return moved_task, moved_label


@no_type_check
@njit(cache=True, nogil=True)
def _by_task(task, label, worker_start, task_start):
    """Worker and label of each row, moved on so that a task's rows are together, by worker."""
    moved_worker, moved_label = np.empty_like(task), np.empty_like(label)
    place = task_start[:-1].copy()
    for worker in range(len(worker_start) - 1):
        for row in range(worker_start[worker], worker_start[worker + 1]):
            put = place[task[row]]
            moved_worker[put], moved_label[put] = worker, label[row]
            place[task[row]] = put + 1
    return moved_worker, moved_label


@no_type_check
@njit(cache=True, nogil=True)
def _rows_of_workers(worker, worker_start, task_start):
    """The sorted rows of each worker by task, and whether a task has a worker twice."""
    order = np.empty(len(worker), dtype=np.int64)
    place, repeated = worker_start[:-1].copy(), False
    for task in range(len(task_start) - 1):
        before = -1
        for row in range(task_start[task], task_start[task + 1]):
            order[place[worker[row]]] = row
            place[worker[row]] += 1
            repeated |= worker[row] == before
            before = worker[row]
    return order, repeated


def _refuse_repeat(pair: Int64[np.ndarray, " rows"]) -> NoReturn:
    """Name the first row whose (worker, task) pair was there before, and the row it repeats."""
    _, first = np.unique(pair, return_index=True)
    row = int(np.setdiff1d(np.arange(len(pair)), first)[0])
    before = int(np.flatnonzero(pair == pair[row])[0])
    raise RepeatError(
        f"rows {before} and {row} (counted from 0) hold labels of one worker for one task: "
        "keep one of them",
        column="worker",
        row=row,
    )
