"""Optimal semi-matching: every job to one of its machines, the loads as even as can be.

Two machines, two jobs; job 0 may go to either, job 1 to machine 0 alone. Both jobs on machine 0
cost 1 + 2 = 3, one on each costs 1 + 1 = 2. Moving job 0 along the path
``machine 0 - job 0 - machine 1`` ends a load of 2 at a load of 0: a *cost-reducing path*. A
semi-matching is optimal if and only if there is none [1]_, and that is how it is found.

The order of search makes it fast. Machines are taken by descending load. From a machine of load
``d`` all machines that its jobs could push on are visited, breadth first; one of load ``d - 2`` or
less ends a cost-reducing path. If there is none, the visited machines have loads ``d`` and
``d - 1``, and their jobs lead nowhere else: no later path can end there or pass through, so they
are closed for ever, and every machine is closed once.

References
----------
.. [1] Harvey, Ladner, Lovász, Tamir, "Semi-matchings for bipartite graphs and load balancing",
   J. Algorithms 59 (2006).
"""

from dataclasses import dataclass
from typing import Any, no_type_check

import numpy as np
from jaxtyping import Int32, Int64
from numba import njit
from scipy.sparse import csr_array, issparse

from quality.codes import freeze_arrays, sort_codes

__all__ = ["SemiMatching", "semi_matching"]

NONE = -1  # no job, no machine: the end of a list


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SemiMatching:
    """Result of :func:`semi_matching`.

    Parameters
    ----------
    assigned
        The machine of each job.
    load
        Number of jobs of each machine.
    cost
        Sum over machines of load * (load + 1) / 2.
    """

    assigned: Int32[np.ndarray, " jobs"]
    load: Int32[np.ndarray, " machines"]
    cost: int

    def __post_init__(self) -> None:
        freeze_arrays(self)

    def __repr__(self) -> str:
        return (
            f"SemiMatching({len(self.assigned)} jobs on {len(self.load)} machines, "
            f"largest load {self.load.max(initial=0)}, cost {self.cost})"
        )


def semi_matching(graph: csr_array) -> SemiMatching:
    """Assign every job to one adjacent machine so that the loads are as even as possible.

    Minimises the sum over machines of load * (load + 1) / 2.

    Parameters
    ----------
    graph
        Jobs by machines, a SciPy sparse array; a stored entry is an admissible assignment.
        Values are ignored.

    Returns
    -------
    SemiMatching
        An optimal assignment. Where a job may go to several equally loaded machines it goes to
        the lowest code first.

    Raises
    ------
    TypeError
        If `graph` is not a SciPy sparse array.
    ValueError
        If a job has no machine.

    Notes
    -----
    **Guarantees.** Every job is assigned once, to a machine it is adjacent to. No cost-reducing
    path remains, so the cost is the least possible. The sorted loads are the same for every
    optimum; which machine carries which load is not, and is settled by code order. The result is
    the same on every run. No recursion: paths may be as long as the graph.

    **Cost.** Memory O(entries). Time O(entries) per cost-reducing path at worst; few are left
    after the greedy start, and closed machines are never scanned again.

    References
    ----------
    .. [1] Harvey, Ladner, Lovász, Tamir, "Semi-matchings for bipartite graphs and load
       balancing", J. Algorithms 59 (2006).

    Examples
    --------
    >>> result = semi_matching(csr_array([[1, 1], [1, 0]]))
    >>> result
    SemiMatching(2 jobs on 2 machines, largest load 1, cost 2)
    >>> result.assigned
    array([1, 0], dtype=int32)
    """
    if not issparse(graph):
        raise TypeError(f"graph must be a SciPy sparse array, got {type(graph).__name__}")
    start, machine = _adjacency(graph)
    degree = np.diff(start)
    if not degree.all():
        raise ValueError(f"every job must have a machine, job {int(degree.argmin())} has none")
    n_machines = graph.shape[1]
    by_degree, _ = sort_codes(degree, int(degree.max(initial=0)) + 1)
    assigned, load = _greedy(start, machine, by_degree, n_machines)
    # only jobs with a choice can move; side by side with those of the same machine, the search
    # scans memory in order
    by_machine, _ = sort_codes(assigned, n_machines)
    movable = by_machine[degree[by_machine] > 1]
    near_start, near_machine = _gather(start, machine, movable)
    assigned[movable] = _optimise(near_start, near_machine, assigned[movable], load)
    cost = int((load.astype(np.int64) * (load.astype(np.int64) + 1) // 2).sum())
    return SemiMatching(assigned, load, cost)


def _adjacency(graph: Any) -> tuple[Int64[np.ndarray, " offsets"], Int32[np.ndarray, " entries"]]:
    """Where each job's machines start, and the machines in ascending order."""
    rows = csr_array(graph, copy=True)
    rows.sort_indices()
    return rows.indptr.astype(np.int64), rows.indices.astype(np.int32)


@no_type_check  # numba compiles it, so the shape checks of the tests must not wrap it
@njit(cache=True, nogil=True)
def _greedy(
    start: Int64[np.ndarray, " jobs+1"],
    machine: Int32[np.ndarray, " entries"],
    order: Int64[np.ndarray, " jobs"],
    n_machines: int,
) -> tuple[Int32[np.ndarray, " jobs"], Int32[np.ndarray, " machines"]]:
    """Give each job in turn to its least loaded machine, the lowest code among equals."""
    assigned = np.empty(len(order), dtype=np.int32)
    load = np.zeros(n_machines, dtype=np.int32)
    for job in order:
        best = machine[start[job]]
        for entry in range(start[job] + 1, start[job + 1]):
            if load[machine[entry]] < load[best]:
                best = machine[entry]
        assigned[job] = best
        load[best] += 1
    return assigned, load


@no_type_check  # numba compiles it, so the shape checks of the tests must not wrap it
@njit(cache=True, nogil=True)
def _gather(
    start: Int64[np.ndarray, " jobs+1"],
    machine: Int32[np.ndarray, " entries"],
    jobs: Int64[np.ndarray, " chosen"],
) -> tuple[Int64[np.ndarray, " chosen+1"], Int32[np.ndarray, " kept"]]:
    """Copy the rows of the given jobs, in their order."""
    new_start = np.zeros(len(jobs) + 1, dtype=np.int64)
    for position, job in enumerate(jobs):
        new_start[position + 1] = new_start[position] + start[job + 1] - start[job]
    new_machine = np.empty(new_start[-1], dtype=np.int32)
    for position, job in enumerate(jobs):
        new_machine[new_start[position] : new_start[position + 1]] = machine[
            start[job] : start[job + 1]
        ]
    return new_start, new_machine


@no_type_check  # numba compiles it, so the shape checks of the tests must not wrap it
@njit(cache=True, nogil=True)
def _optimise(
    start: Int64[np.ndarray, " jobs+1"],
    machine: Int32[np.ndarray, " entries"],
    assigned: Int32[np.ndarray, " jobs"],
    load: Int32[np.ndarray, " machines"],
) -> Int32[np.ndarray, " jobs"]:
    """Shift jobs along cost-reducing paths until none is left; `load` is brought up to date."""
    n_machines = len(load)
    owner = assigned.copy()
    jobs = _lists(owner, n_machines)
    by_load = _lists(load, load.max() + 1 if n_machines else 0)
    queue = np.empty(n_machines, dtype=np.int32)
    reached_by = np.full(n_machines, NONE, dtype=np.int32)
    visited = np.zeros(n_machines, dtype=np.bool_)  # by this search, or closed by a former one
    for level in range(len(by_load[0]) - 1, 1, -1):
        while by_load[0][level] != NONE:
            source = by_load[0][level]
            target, n_visited = _search(
                source, start, machine, jobs, load, queue, reached_by, visited
            )
            if target == NONE:
                for closed in queue[:n_visited]:
                    _move(by_load, closed, load[closed], NONE)
                continue
            for position in range(n_visited):
                visited[queue[position]] = False
            visited[target] = False
            _move(by_load, source, level, level - 1)
            _move(by_load, target, load[target], load[target] + 1)
            load[source] -= 1
            load[target] += 1
            while target != source:
                job = reached_by[target]
                _move(jobs, job, owner[job], target)
                owner[job], target = target, owner[job]
    return owner


@no_type_check  # numba compiles it, so the shape checks of the tests must not wrap it
@njit(cache=True, nogil=True)
def _search(source, start, machine, jobs, load, queue, reached_by, visited) -> tuple[int, int]:
    """Breadth first to a load lower by 2 or more: that machine or NONE, and how many were seen."""
    first, following, _ = jobs
    queue[0] = source
    visited[source] = True
    n_visited = 1
    position = 0
    while position < n_visited:
        job = first[queue[position]]
        while job != NONE:
            for near in machine[start[job] : start[job + 1]]:
                if not visited[near]:
                    visited[near] = True
                    reached_by[near] = job
                    if load[near] <= load[source] - 2:
                        return near, n_visited
                    queue[n_visited] = near
                    n_visited += 1
            job = following[job]
        position += 1
    return NONE, n_visited


@no_type_check  # numba compiles it, so the shape checks of the tests must not wrap it
@njit(cache=True, nogil=True)
def _lists(code, n_codes: int):
    """One doubly linked list of items per code, ascending: first of a list, next and previous."""
    first = np.full(n_codes, NONE, dtype=np.int32)
    following = np.full(len(code), NONE, dtype=np.int32)
    previous = np.full(len(code), NONE, dtype=np.int32)
    lists = (first, following, previous)
    for item in range(len(code) - 1, -1, -1):
        _move(lists, item, NONE, code[item])
    return lists


@no_type_check  # numba compiles it, so the shape checks of the tests must not wrap it
@njit(cache=True, nogil=True)
def _move(lists, item: int, old: int, new: int) -> None:
    """Take an item out of the list `old` and put it at the head of `new`; NONE is no list."""
    first, following, previous = lists
    if old != NONE:
        if previous[item] == NONE:
            first[old] = following[item]
        else:
            following[previous[item]] = following[item]
        if following[item] != NONE:
            previous[following[item]] = previous[item]
    if new != NONE:
        previous[item] = NONE
        following[item] = first[new]
        if first[new] != NONE:
            previous[first[new]] = item
        first[new] = item
