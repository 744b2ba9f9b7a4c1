"""Tasks that rest on few workers, chosen greedily: linear in the tasks for each worker chosen."""

from typing import no_type_check

import numpy as np
from jaxtyping import Bool, Int, Int32, Int64
from numba import njit

__all__ = ["few_worker_tasks", "greedy_workers", "n_resting"]

NOBODY = -1  # pads the rows of tasks with fewer workers
SPREAD = np.uint64(0x9E3779B97F4A7C15)  # odd, its bits as if random


def few_worker_tasks(
    worker: Int[np.ndarray, " labels"], task_start: Int64[np.ndarray, " offsets"], most: int
) -> Int32[np.ndarray, "tasks most"]:
    """Return the workers of each task that has one to `most` of them, in order, then -1.

    Examples
    --------
    >>> few_worker_tasks(np.array([0, 2, 1, 0, 1, 2]), np.array([0, 1, 3, 6]), 2)
    array([[ 0, -1],
           [ 1,  2]], dtype=int32)
    """
    n_labels = np.diff(task_start)
    small = np.flatnonzero((n_labels > 0) & (n_labels <= most))
    place = np.arange(most)
    there = place < n_labels[small, np.newaxis]
    entry = np.where(there, task_start[small, np.newaxis] + place, 0)
    after = np.iinfo(np.int32).max
    rows = np.sort(np.where(there, worker[entry], after), axis=1) if small.size else entry
    return np.where(rows == after, NOBODY, rows).astype(np.int32)


def greedy_workers(
    members: Int32[np.ndarray, "tasks most"], n_workers: int, k: int
) -> Bool[np.ndarray, " workers"]:
    """Take the workers with the most tasks for each of them yet to be taken, again and again, k at most.

    Parameters
    ----------
    members
        The workers of each task, as :func:`few_worker_tasks` returns them.
    n_workers, k
        How many there are, and how many may be taken.

    Returns
    -------
    ndarray
        True for each worker who is taken. Equals go to fewer workers, then to higher codes.

    Examples
    --------
    >>> tasks = np.array([[0, -1], [1, 2], [1, 2], [1, 2]], dtype=np.int32)
    >>> greedy_workers(tasks, 3, 2), greedy_workers(tasks, 3, 1)
    (array([False,  True,  True]), array([ True, False, False]))
    """
    slots = 1 << (2 * max(1, len(members)) - 1).bit_length()
    table = np.empty(slots, dtype=np.int64)
    taken = np.zeros(n_workers, dtype=np.bool_)
    gain, n_new = np.empty((2, len(members)), dtype=np.int64)
    while (room := k - np.count_nonzero(taken)) > 0:
        row = _richest(members, taken, room, table, gain, n_new)
        if row < 0:
            break
        taken[members[row][members[row] != NOBODY]] = True
    return taken


def n_resting(members: Int32[np.ndarray, "tasks most"], taken: Bool[np.ndarray, " workers"]) -> int:
    """Count the tasks all of whose workers are taken.

    Examples
    --------
    >>> n_resting(np.array([[0, -1], [1, 2]], dtype=np.int32), np.array([True, False, True]))
    1
    """
    return int(np.count_nonzero((taken[members] | (members == NOBODY)).all(axis=1)))


@no_type_check  # numba compiles it, so the shape checks of the tests must not wrap it
@njit(cache=True, nogil=True)
def _richest(
    members: Int32[np.ndarray, "tasks most"],
    taken: Bool[np.ndarray, " workers"],
    room: int,
    table: Int64[np.ndarray, " slots"],
    gain: Int64[np.ndarray, " tasks"],
    n_new: Int64[np.ndarray, " tasks"],
) -> int:
    """The first task of those whose workers not taken are the same and gain most; -1 if none fits."""
    table[:] = -1
    mask = np.uint64(len(table) - 1)
    best = -1
    for row in range(len(members)):
        gain[row], n_new[row], mixed = 0, 0, np.uint64(0)
        for worker in members[row]:
            if worker != NOBODY and not taken[worker]:
                n_new[row] += 1
                mixed = (mixed ^ np.uint64(worker + 1)) * SPREAD
        if not 0 < n_new[row] <= room:
            continue
        slot = (mixed >> np.uint64(20)) & mask
        while table[slot] >= 0 and _compare(members, taken, table[slot], row) != 0:
            slot = (slot + np.uint64(1)) & mask
        if table[slot] < 0:
            table[slot] = row
        gain[table[slot]] += 1
    for row in range(len(members)):
        if gain[row] > 0:
            if best < 0:
                best = row
                continue
            more = gain[row] * n_new[best] - gain[best] * n_new[row]
            if more == 0:
                more = n_new[best] - n_new[row]
            if more == 0:
                more = _compare(members, taken, row, best)
            if more > 0:
                best = row
    return best


@no_type_check
@njit(cache=True, nogil=True)
def _compare(
    members: Int32[np.ndarray, "tasks most"], taken: Bool[np.ndarray, " workers"], a: int, b: int
) -> int:
    """Below, at or above 0 as the workers of `a` not taken come before, with or after those of `b`."""
    i, j, most = 0, 0, members.shape[1]
    while True:
        while i < most and (members[a, i] == NOBODY or taken[members[a, i]]):
            i += 1
        while j < most and (members[b, j] == NOBODY or taken[members[b, j]]):
            j += 1
        if i == most or j == most:
            return (i < most) - (j < most)
        if members[a, i] != members[b, j]:
            return 1 if members[a, i] > members[b, j] else -1
        i, j = i + 1, j + 1
