"""Optimal semi-matching: every job to one of its machines, the loads as even as can be.

Two machines, two jobs; job 0 may go to either, job 1 to machine 0 alone. Both jobs on machine 0
cost 1 + 2 = 3, one on each costs 1 + 1 = 2. Moving job 0 along the path
``machine 0 - job 0 - machine 1`` ends a load of 2 at a load of 0: a *cost-reducing path*. A
semi-matching is optimal if and only if there is none [1]_, and that is how it is found.

Every job first goes to its least loaded machine, jobs with the fewest machines first, and then once
more. That leaves few paths, which :mod:`quality.matching.cost_reducing` finds.

References
----------
.. [1] Harvey, Ladner, Lovász, Tamir, "Semi-matchings for bipartite graphs and load balancing",
   J. Algorithms 59 (2006).

Cost-reducing paths: from any semi-matching to an optimal one, and to the levels of its machines.

Private to this room; :func:`quality.matching.cost_reducing.semi_matching` is the way in.

Machines are taken by descending load. From a machine of load ``d`` all machines that its jobs could
push on are visited, breadth first; one of load ``d - 2`` or less ends a cost-reducing path. If
there is none, the visited machines have loads ``d`` and ``d - 1``, and their jobs lead nowhere
else: no later path can end there or pass through, so they are closed for ever, and every machine
is closed once. The load ``d`` at which that happens is their *level*.

Most of a random crowd is one such set. A search that has visited every machine still open has
nothing left to find and stops there, long before it has looked at all their jobs.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Int, Int32, Int64
from scipy.sparse import csr_array, issparse

from quality.labels import freeze_arrays, sort_codes
from quality.parallel import kernel

__all__ = ["SemiMatching", "matching_and_level", "semi_matching", "shift_loads"]

NONE = np.int32(-1)  # no job, no machine: the end of a list


@kernel
def shift_loads(
    start: Int[np.ndarray, " jobs+1"],
    machine: Int[np.ndarray, " entries"],
    assigned: Int32[np.ndarray, " jobs"],
    load: Int32[np.ndarray, " machines"],
) -> Int32[np.ndarray, " machines"]:
    """Shift jobs until no path reduces the cost; `assigned` and `load` follow; give the levels."""
    n_machines = len(load)
    near_start, near, moving, jobs, has_choice = _by_owner(start, machine, assigned, n_machines)
    by_load = _lists(load)
    level = load.copy()
    queue = np.empty(n_machines, dtype=np.int32)
    reached_by = np.full(n_machines, NONE, dtype=np.int32)
    visited = ~has_choice  # by this search, or closed by a former one, or on no path at all
    for alone in np.flatnonzero(visited):
        _move(by_load, alone, load[alone], NONE)
    n_open = has_choice.sum()
    for height in range(len(by_load[0]) - 1, 0, -1):
        while by_load[0][height] != NONE:
            source = by_load[0][height]
            target, n_visited = _search(
                source, near_start, near, jobs, load, queue, reached_by, visited, n_open
            )
            if target == NONE:
                n_open -= n_visited
                for position in range(n_visited):
                    level[queue[position]] = height
                    _move(by_load, queue[position], load[queue[position]], NONE)
                continue
            for position in range(n_visited):
                visited[queue[position]] = False
            visited[target] = False
            _move(by_load, source, height, height - 1)
            _move(by_load, target, load[target], load[target] + 1)
            load[source] -= 1
            load[target] += 1
            while target != source:
                job = reached_by[target]
                giver = assigned[moving[job]]
                _move(jobs, job, giver, target)
                assigned[moving[job]], target = target, giver
    return level


@kernel
def _by_owner(start, machine, assigned, n_machines: int):
    """Copy the rows of jobs that can move, those of a machine side by side, and list them.

    A search then scans memory in order. The copy reads rows in order and writes at one place per
    machine, which is far quicker than reading them in the new order.
    """
    job_place, row_place = _places(start, assigned, n_machines)
    jobs = _consecutive(job_place)
    moving = np.empty(job_place[-1], dtype=np.int32)
    near_start = np.zeros(len(moving) + 1, dtype=start.dtype)
    near_start[-1] = row_place[-1]
    near = np.empty(row_place[-1], dtype=machine.dtype)
    has_choice = np.zeros(n_machines, dtype=np.bool_)
    for job in range(len(assigned)):
        if start[job + 1] - start[job] > 1:
            owner = assigned[job]
            moving[job_place[owner]] = job
            near_start[job_place[owner]] = row_place[owner]
            job_place[owner] += 1
            for entry in range(start[job], start[job + 1]):
                near[row_place[owner]] = machine[entry]
                has_choice[machine[entry]] = True
                row_place[owner] += 1
    return near_start, near, moving, jobs, has_choice


@kernel
def _places(start, assigned, n_machines: int):
    """Where each machine's jobs with a choice, and their rows, are to start."""
    job_place = np.zeros(n_machines + 1, dtype=np.int32)
    row_place = np.zeros(n_machines + 1, dtype=start.dtype)
    for job in range(len(assigned)):
        degree = start[job + 1] - start[job]
        if degree > 1:
            job_place[assigned[job] + 1] += 1
            row_place[assigned[job] + 1] += degree
    for owner in range(n_machines):
        job_place[owner + 1] += job_place[owner]
        row_place[owner + 1] += row_place[owner]
    return job_place, row_place


@kernel
def _consecutive(place):
    """One list per machine, of the jobs from its place to the next: see :func:`_lists`."""
    n_jobs = place[-1]
    first = np.full(len(place) - 1, NONE, dtype=np.int32)
    following = np.arange(1, n_jobs + 1).astype(np.int32)
    previous = np.arange(-1, n_jobs - 1).astype(np.int32)
    for owner in range(len(first)):
        if place[owner] < place[owner + 1]:
            first[owner] = place[owner]
            previous[place[owner]] = NONE
            following[place[owner + 1] - 1] = NONE
    return first, following, previous


@kernel
def _search(source, start, machine, jobs, load, queue, reached_by, visited, n_open):
    """Breadth first to a load lower by 2 or more: that machine or NONE, and how many were seen."""
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
def _lists(load):
    """One doubly linked list of machines per load, ascending: first of a list, next, previous."""
    first = np.full(load.max() + 1 if len(load) else 0, NONE, dtype=np.int32)
    following = np.full(len(load), NONE, dtype=np.int32)
    previous = np.full(len(load), NONE, dtype=np.int32)
    lists = (first, following, previous)
    for item in range(len(load) - 1, -1, -1):
        _move(lists, item, NONE, load[item])
    return lists


@kernel
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
    matching, _ = matching_and_level(graph)
    return matching


def matching_and_level(graph: Any) -> tuple[SemiMatching, Int32[np.ndarray, " machines"]]:
    """Return the optimal semi-matching and the level of each machine, which the search yields."""
    start, machine = ascending_rows(graph)
    degree = np.diff(start)
    if not degree.all():
        raise ValueError(f"every job must have a machine, job {int(degree.argmin())} has none")
    by_degree, _ = sort_codes(degree, int(degree.max(initial=0)) + 1)
    assigned, load = _greedy(start, machine, by_degree, graph.shape[1])
    level = shift_loads(start, machine, assigned, load)
    cost = int((load.astype(np.int64) * (load.astype(np.int64) + 1) // 2).sum())
    return SemiMatching(assigned, load, cost), level


def ascending_rows(graph: Any) -> tuple[Int[np.ndarray, " offsets"], Int[np.ndarray, " entries"]]:
    """Where each job's machines start, and the machines in ascending order; not to be written.

    Of 32 bits wherever they suffice: a kernel for each kind of integer is compiled apart.
    """
    _check_sparse(graph)
    rows = csr_array(graph)
    if not rows.has_sorted_indices:
        rows = rows.sorted_indices()
    kind = np.int32 if max(rows.nnz, *rows.shape) <= np.iinfo(np.int32).max else np.int64
    return rows.indptr.astype(kind, copy=False), rows.indices.astype(kind, copy=False)


def _check_sparse(graph: Any) -> None:
    if not issparse(graph):
        raise TypeError(f"graph must be a SciPy sparse array, got {type(graph).__name__}")


@kernel
def _greedy(
    start: Int[np.ndarray, " jobs+1"],
    machine: Int[np.ndarray, " entries"],
    order: Int64[np.ndarray, " jobs"],
    n_machines: int,
) -> tuple[Int32[np.ndarray, " jobs"], Int32[np.ndarray, " machines"]]:
    """Give each job in turn to its least loaded machine, the lowest code among equals; twice."""
    assigned = np.empty(len(order), dtype=np.int32)
    load = np.zeros(n_machines, dtype=np.int32)
    for job in order:
        best = machine[start[job]]
        for entry in range(start[job] + 1, start[job + 1]):
            if load[machine[entry]] < load[best]:
                best = machine[entry]
        assigned[job] = best
        load[best] += 1
    for job in order:  # paths of one step, found in one scan: they are nine in ten
        best = assigned[job]
        for entry in range(start[job], start[job + 1]):
            if load[machine[entry]] < load[best]:
                best = machine[entry]
        if load[best] <= load[assigned[job]] - 2:
            load[assigned[job]] -= 1
            load[best] += 1
            assigned[job] = best
    return assigned, load
