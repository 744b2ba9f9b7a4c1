"""Optimal semi-matching: every job on one of its machines, the loads as even as possible.

>>> semi_matching(csr_array([[1, 1], [1, 0]])).assigned
array([1, 0], dtype=int32)

In this example job 0 may go to either machine, job 1 to machine 0 alone. Both jobs on machine 0 cost
1 + 2 = 3, one on each costs 1 + 1 = 2. Moving job 0 along the path ``machine 0 - job 0 - machine 1`` moves
load from a machine of load 2 to one of load 0: a *cost-reducing path*. A semi-matching is optimal if and
only if there is no such path [1]_; the algorithm removes them.

Every job first goes to its least loaded machine, jobs with the fewest machines first, and then once more.
That leaves few paths. To find them, machines are taken by descending load. From a machine of load ``d`` a
breadth-first search visits all machines that its jobs could move to, directly or by moving other jobs. A
machine of load ``d - 2`` or less ends a cost-reducing path. If there is none, the visited machines have
loads ``d`` and ``d - 1``, and their jobs lead nowhere else: no later path can end there or pass through. So
these machines are closed for good, and every machine is closed once. The load ``d`` at which this happens
is their *level*. In a random crowd most machines are in one such set: a search that has visited every open
machine has nothing left to find and stops, long before it has scanned all their jobs.

References
----------
.. [1] Harvey, Ladner, Lovász, Tamir, "Semi-matchings for bipartite graphs and load balancing",
   J. Algorithms 59 (2006).
"""

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Int, Int32, Int64
from scipy.sparse import csr_array, issparse

from quality.labels import freeze_arrays, sort_codes
from quality.parallel import kernel

__all__ = [
    "SemiMatching", "ascending_rows", "matching_and_level", "semi_matching", "shift_loads",
]  # fmt: skip

NONE = np.int64(-1)  # no job, no machine: the end of a list

Chains: TypeAlias = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Doubly linked lists of items: the first of each list, the next and the previous of each item."""


def shift_loads(
    start: Int[np.ndarray, " bounds"],
    machine: Int[np.ndarray, " entries"],
    assigned: Int32[np.ndarray, " jobs"],
    load: Int32[np.ndarray, " machines"],
) -> Int32[np.ndarray, " machines"]:
    """Shift jobs until no path reduces the cost, with `assigned` and `load` in place; return the levels."""
    near_start, near, moving, jobs = _by_owner(start, machine, assigned, len(load))
    closed = np.ones(len(load), dtype=np.bool_)
    closed[near] = False  # the others are on no path
    open_machines = np.flatnonzero(~closed).astype(np.int32)
    height = load[open_machines]
    order, place = sort_codes(height, int(height.max(initial=0)) + 1)
    by_load = _chains(open_machines[order], place, len(load))
    level = load.copy()
    room = np.empty((2, len(load)), dtype=np.int32)
    rows = near_start, near, moving
    _shift(rows, jobs, by_load, assigned, load, level, *room, closed, len(open_machines))
    return level


def _by_owner(
    start: Int[np.ndarray, " bounds"],
    machine: Int[np.ndarray, " entries"],
    assigned: Int32[np.ndarray, " jobs"],
    n_machines: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, Chains]:
    """Copy the rows of jobs that can move, grouped by machine, and list them."""
    n_jobs, n_rows = np.zeros((2, n_machines), dtype=np.int64)
    _count_movable(start, assigned, n_jobs, n_rows)
    job_place, row_place = _offsets(n_jobs), _offsets(n_rows)
    moving = np.empty(job_place[-1], dtype=np.int32)
    near_start = np.full(len(moving) + 1, row_place[-1], dtype=start.dtype)
    near = np.empty(row_place[-1], dtype=machine.dtype)
    jobs = _chains(np.arange(len(moving), dtype=np.int32), job_place, len(moving))
    _copy_rows(start, machine, assigned, job_place, row_place, moving, near_start, near)
    return near_start, near, moving, jobs


def _offsets(count: np.ndarray) -> Int64[np.ndarray, " offsets"]:
    """Return the start of each of several runs of these lengths, and the end."""
    return np.append(0, np.cumsum(count)).astype(np.int64)


def _chains(
    order: Int32[np.ndarray, " items"], place: Int64[np.ndarray, " offsets"], n_items: int
) -> Chains:
    """Link the items of each run, ``order[place[i]:place[i + 1]]``: its first, their next and last."""
    first = np.full(len(place) - 1, NONE, dtype=np.int32)
    following, previous = np.full((2, n_items), NONE, dtype=np.int32)
    _link(order, place, first, following, previous)
    return first, following, previous


@kernel
def _count_movable(start, assigned, n_jobs, n_rows) -> None:
    """Count the jobs of each machine that have another machine, and the entries of their rows."""
    for job in range(len(assigned)):
        degree = start[job + 1] - start[job]
        if degree > 1:
            n_jobs[assigned[job]] += 1
            n_rows[assigned[job]] += degree


@kernel
def _link(order, place, first, following, previous) -> None:
    for run in range(len(first)):
        if place[run] < place[run + 1]:
            first[run] = order[place[run]]
        for at in range(place[run] + 1, place[run + 1]):
            following[order[at - 1]] = order[at]
            previous[order[at]] = order[at - 1]


@kernel
def _copy_rows(start, machine, assigned, job_place, row_place, moving, near_start, near) -> None:
    """Group the rows of a machine's jobs, so that a search scans memory in order.

    The copy reads rows in order and writes at one place per machine, which is far faster than reading them
    in the new order.
    """
    for job in range(len(assigned)):
        if start[job + 1] - start[job] > 1:
            owner = assigned[job]
            moving[job_place[owner]] = job
            near_start[job_place[owner]] = row_place[owner]
            job_place[owner] += 1
            for entry in range(start[job], start[job + 1]):
                near[row_place[owner]] = machine[entry]
                row_place[owner] += 1


@kernel
def _shift(
    rows, jobs, by_load, assigned, load, level, queue, reached_by, visited, n_open: int
) -> None:
    """Search from the highest load down; `visited`: by this search, closed before, or on no path."""
    near_start, near, moving = rows
    for height in range(len(by_load[0]) - 1, 0, -1):
        while by_load[0][height] != NONE:
            source = np.int64(by_load[0][height])
            target, n_visited = _search(
                source, near_start, near, jobs, load, queue, reached_by, visited, n_open
            )
            if target == NONE:
                n_open -= n_visited
                for position in range(n_visited):
                    item = np.int64(queue[position])
                    level[item] = height
                    _move(by_load, item, np.int64(load[item]), NONE)
                continue
            for position in range(n_visited):
                visited[queue[position]] = False
            visited[target] = False
            _move(by_load, source, height, height - 1)
            _move(by_load, target, np.int64(load[target]), np.int64(load[target]) + 1)
            load[source] -= 1
            load[target] += 1
            while target != source:
                job = np.int64(reached_by[target])
                giver = np.int64(assigned[moving[job]])
                _move(jobs, job, giver, target)
                assigned[moving[job]], target = target, giver


@kernel
def _search(source, start, machine, jobs, load, queue, reached_by, visited, n_open):
    """Search breadth first for a load lower by 2 or more; return its machine or NONE, and how many it saw."""
    first, following, _ = jobs
    queue[0] = source
    visited[source] = True
    n_visited = 1
    position = 0
    while position < n_visited:
        job = first[queue[position]]
        while job != NONE and n_visited < n_open:
            for entry in range(start[job], start[job + 1]):
                near = machine[entry]
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


@kernel
def _move(lists, item: int, old: int, new: int) -> None:
    """Take an item out of the list `old` and put it at the head of `new`; NONE stands for no list."""
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
        An optimal assignment. Of several equally loaded machines a job goes to the lowest code first.

    Raises
    ------
    TypeError
        If `graph` is not a SciPy sparse array.
    ValueError
        If `graph` is no table, or a job has no machine.

    Notes
    -----
    **Guarantees.** Every job is assigned once, to a machine it is adjacent to. No cost-reducing path
    remains, so the cost is the least possible. The sorted loads are the same for every optimum; the order
    of codes decides which machine has which load. The result is the same on every run. No recursion: paths
    may be as long as the graph.

    **Cost.** Memory O(entries). Time O(entries) per cost-reducing path in the worst case; few are left
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
    matching, _ = matching_and_level(graph)
    return matching


def matching_and_level(graph: Any) -> tuple[SemiMatching, Int32[np.ndarray, " machines"]]:
    """Return the optimal semi-matching and the level of each machine, which the search finds too."""
    start, machine = ascending_rows(graph)
    degree = np.diff(start)
    if not degree.all():
        raise ValueError(f"every job must have a machine, job {int(degree.argmin())} has none")
    by_degree, _ = sort_codes(degree, int(degree.max(initial=0)) + 1, kind=start.dtype)
    assigned = np.empty(len(degree), dtype=np.int32)
    load = np.zeros(graph.shape[1], dtype=np.int32)
    _greedy(start, machine, by_degree, assigned, load)
    level = shift_loads(start, machine, assigned, load)
    cost = int((load.astype(np.int64) * (load.astype(np.int64) + 1) // 2).sum())
    return SemiMatching(assigned, load, cost), level


def ascending_rows(graph: Any) -> tuple[Int[np.ndarray, " offsets"], Int[np.ndarray, " entries"]]:
    """Return where each job's machines start, and the distinct machines in ascending order; read only.

    The integers have 32 bits if these suffice: a kernel is compiled for each kind of integer.
    """
    _check_sparse(graph)
    if graph.ndim != 2:
        raise ValueError(f"graph must be jobs by machines, got shape {graph.shape}")
    rows = csr_array(graph)
    if not rows.has_canonical_format:  # a machine stored twice for one job would be two machines
        rows = rows.copy()
        rows.sum_duplicates()
    kind = np.int32 if max(rows.nnz, *rows.shape) <= np.iinfo(np.int32).max else np.int64
    return rows.indptr.astype(kind, copy=False), rows.indices.astype(kind, copy=False)


def _check_sparse(graph: Any) -> None:
    if not issparse(graph):
        raise TypeError(f"graph must be a SciPy sparse array, got {type(graph).__name__}")


@kernel
def _greedy(
    start: Int[np.ndarray, " bounds"],
    machine: Int[np.ndarray, " entries"],
    order: Int[np.ndarray, " jobs"],
    assigned: Int32[np.ndarray, " jobs"],
    load: Int32[np.ndarray, " machines"],
) -> None:
    """Give each job in turn to its least loaded machine, the lowest code among equals; twice."""
    for at in range(len(order)):
        job = order[at]
        best = machine[start[job]]
        for entry in range(start[job] + 1, start[job + 1]):
            if load[machine[entry]] < load[best]:
                best = machine[entry]
        assigned[job] = best
        load[best] += 1
    for at in range(len(order)):  # paths of one step, found in one scan: they are nine in ten
        job = order[at]
        best = assigned[job]
        for entry in range(start[job], start[job + 1]):
            if load[machine[entry]] < load[best]:
                best = machine[entry]
        if load[best] <= load[assigned[job]] - 2:
            load[assigned[job]] -= 1
            load[best] += 1
            assigned[job] = best
