"""Rows of a label table sorted by task and then by worker, on several threads.

>>> rows = sort_rows(np.array([4, 2]), np.array([1, 0]), np.array([0, 1]), n_workers=5, n_tasks=2)
>>> rows.worker, rows.task_start
(array([2, 4], dtype=int32), array([0, 1, 2]))

Rows are first brought together by ranges of tasks; each range is then sorted in a cache. Meanwhile a row
is one number, made of its task's place in the range, the worker and the label.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Literal, NamedTuple, NoReturn

import numpy as np
from jaxtyping import Bool, Int, Int16, Int32, Int64

from quality.labels.columns import LabelError
from quality.parallel import MAX_CHUNKS, MIN_ROWS, kernel, shared_out

__all__ = [
    "RepeatError",
    "SortedRows",
    "check_keep",
    "index_rows",
    "keep_rows",
    "rows_by_worker",
    "sort_rows",
    "sorted_ranges",
]

MAX_RANGES = 64  # of tasks: the rows of one range fit into a cache
KEY_BITS = 63  # of the number that stands for a row while it is sorted


class RepeatError(LabelError):
    """A worker labels a task twice; the attributes are those of :class:`~quality.LabelError`.

    Examples
    --------
    >>> sort_rows(np.array([4, 4]), np.array([2, 2]), np.array([0, 1]), 5, 3)
    Traceback (most recent call last):
    quality.labels.sort.RepeatError: rows 0 and 1 (counted from 0) hold labels of one worker for one \
task: keep one of them
    """


class SortedRows(NamedTuple):
    """Rows sorted by (task, worker), with the positions of each task's and each worker's rows."""

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
    *,
    overwrite: bool = False,
) -> SortedRows:
    """Sort rows of codes; raise RepeatError if a worker labels a task twice.

    With `overwrite` the sorted rows take the memory of the given rows if possible, and an error names no
    rows.
    """
    worker = np.ascontiguousarray(worker, dtype=np.int32)
    task = np.ascontiguousarray(task, dtype=np.int32)
    label = np.ascontiguousarray(label, dtype=np.int16)
    cut = _cuts(len(task), 1)
    split = MAX_RANGES if len(cut) > 2 else 1
    bits = (n_workers - 1).bit_length(), int(label.max(initial=0)).bit_length()
    shift = max((n_tasks - 1).bit_length() - split.bit_length() + 1, 0)
    shift = min(shift, KEY_BITS - sum(bits))  # very many names are cut into more ranges
    n_ranges = max(n_tasks - 1 >> shift, 0) + 1
    key = np.empty(len(task), dtype=np.int64)
    with shared_out(None, len(cut) - 1) as share:
        count = share(lambda at: _count(task[cut[at] : cut[at + 1]], shift, n_ranges))
        place = _first_of(np.array(count))
        share(
            lambda at: _to_ranges(
                worker, task, label, *cut[at : at + 2], shift, bits, place[at].copy(), key
            )
        )
    row = np.append(place[0], len(task))
    task_start = np.full(n_tasks + 1, len(task), dtype=np.int64)
    overwrite = overwrite and not np.may_share_memory(worker, task)
    to_worker, to_task, to_label = (
        codes if overwrite and codes.flags.writeable else np.empty_like(codes)
        for codes in (worker, task, label)
    )

    def sort_range(at: int) -> bool:
        rows, first = slice(row[at], row[at + 1]), at << shift
        start = task_start[first : min(first + (1 << shift), n_tasks)]
        near = np.sort(key[rows])
        to_label[rows] = near & (1 << bits[1]) - 1
        near >>= bits[1]
        to_worker[rows] = near & (1 << bits[0]) - 1
        repeated = bool((near[1:] == near[:-1]).any())
        near >>= bits[0]
        to_task[rows] = near + first
        count = np.bincount(near, minlength=len(start))
        start[:] = row[at] + np.cumsum(count) - count
        return repeated

    with shared_out(None, n_ranges) as share:
        repeated = any(share(sort_range))
    if repeated and overwrite:
        raise RepeatError("a worker labels a task twice: keep one of the labels", column="worker")
    if repeated:
        _refuse_repeat(task.astype(np.int64) * n_workers + worker)
    # the memory of the keys is used again: fresh memory takes as long as the work on it
    worker_start = rows_by_worker(to_worker, n_workers, key)
    return SortedRows(to_worker, to_task, to_label, task_start, key, worker_start)


def sorted_ranges(
    worker: Int32[np.ndarray, " rows"],
    task: Int32[np.ndarray, " rows"],
    label: Int32[np.ndarray, " rows"],
    key: Int64[np.ndarray, " rows"],
    n_workers: int,
    n_tasks: int,
    *,
    in_range: int,
    keep: Literal["any", "first", "last"] = "any",
) -> Iterator[tuple[Int64[np.ndarray, " _"], Int64[np.ndarray, " _"], Int64[np.ndarray, " _"]]]:
    """Yield rows sorted by task and worker: worker, task and label of each range of tasks that has rows.

    Parameters
    ----------
    worker, task, label
        Codes, which may be pages of files: they are read twice, in their order.
    key
        Memory for a number a row; every range of it is then read once.
    n_workers, n_tasks
        Numbers of workers and of tasks.
    in_range
        Rows of a range on average.
    keep
        The row that comes first of those that repeat a worker and a task, by their order.

    Examples
    --------
    >>> codes = (np.array(column, dtype=np.int32) for column in ([1, 0], [2, 0], [0, 1]))
    >>> for rows in sorted_ranges(*codes, np.empty(2, dtype=np.int64), 2, 3, in_range=1):
    ...     print(*rows)
    [0] [0] [1]
    [1] [2] [0]
    """
    bits = (n_workers - 1).bit_length(), int(label.max(initial=0)).bit_length()
    shift = (max(n_tasks * in_range // max(len(task), 1), 1) - 1).bit_length()
    shift = min(shift, KEY_BITS - sum(bits))  # very many names are cut into more ranges
    count = _count(task, shift, max(n_tasks - 1 >> shift, 0) + 1)
    row = np.append(0, np.cumsum(count))
    _to_ranges(worker, task, label, 0, len(task), shift, bits, row[:-1].copy(), key)
    for at, (first, last) in enumerate(pairwise(row.tolist())):
        if first == last:
            continue
        near = _in_order(key[first:last], bits[1], keep)
        given = near & (1 << bits[1]) - 1
        near >>= bits[1]
        by = near & (1 << bits[0]) - 1
        near >>= bits[0]
        near += at << shift
        yield by, near, given


def _in_order(
    key: Int64[np.ndarray, " rows"], label_bits: int, keep: Literal["any", "first", "last"]
) -> Int64[np.ndarray, " rows"]:
    """Return sorted keys of rows; of keys that differ in the label alone, the one to keep comes first."""
    if keep == "any":
        return np.sort(key)
    forward = key if keep == "first" else key[::-1]
    found: np.ndarray = forward[np.argsort(forward >> label_bits, kind="stable")]
    return found


def check_keep(keep: Bool[np.ndarray, " some"], number: int, of: str) -> None:
    """Raise ValueError unless `keep` is one truth value for each of so many workers or labels.

    >>> check_keep(np.array([True, False]), 2, "worker")
    """
    if not (keep.dtype == np.bool_ and keep.shape == (number,)):
        raise ValueError(
            f"keep must be {number} truth values, one per {of}, got {keep.dtype} of shape {keep.shape}"
        )


def keep_rows(
    worker: Int32[np.ndarray, " rows"],
    task: Int32[np.ndarray, " rows"],
    label: Int16[np.ndarray, " rows"],
    keep: Bool[np.ndarray, " rows"],
    n_workers: int,
    n_tasks: int,
) -> SortedRows:
    """Return some of the sorted rows, in the same order."""
    return index_rows(worker[keep], task[keep], label[keep], n_workers, n_tasks)


def index_rows(
    worker: Int32[np.ndarray, " rows"],
    task: Int32[np.ndarray, " rows"],
    label: Int16[np.ndarray, " rows"],
    n_workers: int,
    n_tasks: int,
) -> SortedRows:
    """Return sorted rows with the positions of each task's and each worker's rows."""
    task_start = np.zeros(n_tasks + 1, dtype=np.int64)
    np.cumsum(_count(task, 0, n_tasks), out=task_start[1:])
    order = np.empty(len(worker), dtype=np.int64)
    worker_start = rows_by_worker(worker, n_workers, order)
    return SortedRows(worker, task, label, task_start, order, worker_start)


def rows_by_worker(
    worker: Int32[np.ndarray, " rows"],
    n_workers: int,
    order: Int64[np.ndarray, " rows"],
) -> Int64[np.ndarray, " starts"]:
    """Fill `order` with the rows by worker, and return where those of each worker start."""
    cut = _cuts(len(worker), n_workers)
    with shared_out(None, len(cut) - 1) as share:
        count = share(lambda at: _count(worker[cut[at] : cut[at + 1]], 0, n_workers))
        place = _first_of(np.array(count))
        start = np.append(place[0], len(worker))
        share(lambda at: _rows_of_workers(worker, *cut[at : at + 2], place[at].copy(), order))
    return start


def _cuts(n_rows: int, least_rows: int) -> Int64[np.ndarray, " cuts"]:
    """Return the bounds of chunks of equally many rows, whatever the number of threads."""
    n_chunks = min(max(n_rows // max(least_rows, MIN_ROWS), 1), MAX_CHUNKS)
    return np.arange(n_chunks + 1) * n_rows // n_chunks


def _first_of(counts: Int64[np.ndarray, "chunks kinds"]) -> Int64[np.ndarray, "chunks kinds"]:
    """Return where each chunk's rows of each kind go: kind after kind, and chunk after chunk in a kind."""
    flat = counts.T.ravel()
    first: np.ndarray = np.ascontiguousarray((np.cumsum(flat) - flat).reshape(counts.T.shape).T)
    return first


def _count(
    code: Int32[np.ndarray, " rows"], shift: int, n_kinds: int
) -> Int64[np.ndarray, " kinds"]:
    """Return the number of codes of each kind; the upper bits of a code are its kind."""
    count = np.zeros(n_kinds, dtype=np.int64)
    _add_counts(code, shift, count)
    return count


@kernel
def _add_counts(code, shift, count) -> None:
    for row in range(len(code)):
        count[code[row] >> shift] += 1


@kernel
def _to_ranges(worker, task, label, begin, end, shift, bits, place, key):
    """Move a chunk's rows, as keys, to their ranges of tasks; `place` is where a range's next key goes."""
    within = (np.int64(1) << shift) - 1
    worker_bits, label_bits = bits
    for row in range(begin, end):
        put = place[task[row] >> shift]
        place[task[row] >> shift] = put + 1
        pair = (task[row] & within) << worker_bits | np.int64(worker[row])
        key[put] = pair << label_bits | np.int64(label[row])


@kernel
def _rows_of_workers(worker, begin, end, place, order):
    """Write the rows of a chunk by worker, behind each worker's rows of earlier chunks."""
    for row in range(begin, end):
        order[place[worker[row]]] = row
        place[worker[row]] += 1


def _refuse_repeat(pair: Int64[np.ndarray, " rows"]) -> NoReturn:
    """Raise RepeatError for the first row whose (worker, task) pair stands in an earlier row."""
    _, first = np.unique(pair, return_index=True)
    row = int(np.setdiff1d(np.arange(len(pair)), first)[0])
    before = int(np.flatnonzero(pair == pair[row])[0])
    raise RepeatError(
        f"rows {before} and {row} (counted from 0) hold labels of one worker for one task: "
        "keep one of them",
        column="worker",
        row=row,
    )
