"""Levels of machines over all optimal semi-matchings, and the fractional shares that even loads out.

Use :func:`load_levels`. :func:`level_out` serves :func:`quality.balanced_loads`.

>>> load_levels(csr_array([[1, 1, 0], [0, 0, 1], [0, 0, 1]])).level
array([1, 1, 2], dtype=int32)

**Levels.** The sorted loads of an optimal semi-matching are unique, but their workers are not: of two
equally placed workers one gets the higher load, and the order of the codes decides which. The *level* of a
worker does not depend on that. Take the workers of the largest load ``d`` and all workers to whom
alternating paths lead from them. This closed set has loads ``d`` and ``d - 1``, and ``d`` is its level.
Remove it and continue with the next load. A unit of load can be passed along an alternating path from a
load of ``d`` to one of ``d - 1`` without any cost. So the level is the largest load that a worker has in
any optimum: by the exchange property of the load vectors there is no other way to a different optimum, so
nobody exceeds it.

**Fractional shares.** Machines of different levels never share a job's load in the optimum, so a job is
shared within one *part* only: connected machines of one level. In a part of ``m`` machines with ``n`` jobs
each machine's target is ``n / m``. Load above the target flows to machines below it, in *waves*: machines
are taken from the farthest to the nearest, so that one wave carries the load over any distance. Machines
whose load cannot flow any further cannot be as low as ``n / m``; they are split off with the jobs that only
they have. When no part splits, all are level. This is decomposition by minimum cuts [1]_, for all parts at
a time.

References
----------
.. [1] Fujishige, "Lexicographically optimal base of a polymatroid with respect to a weight vector",
   Mathematics of Operations Research 5 (1980).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, Int, Int32, Int64
from scipy.sparse import csr_array

from quality.labels import freeze_arrays
from quality.matching.cost_reducing import ascending_rows, matching_and_level
from quality.parallel import kernel

__all__ = [
    "LoadLevels", "both_ways", "connected", "first_givers", "jobs_of", "level_out", "load_levels",
    "machine_loads",
]  # fmt: skip

FAR = -1  # no machine with room can be reached
AT_ONCE = 2**22  # entries that waves process between two reports of progress: some milliseconds


def level_out(
    edges: tuple[np.ndarray, ...],
    level: Int32[np.ndarray, " machines"],
    share: Float64[np.ndarray, " entries"],
    max_iter: int,
    tell: Callable[[int], object],
) -> int:
    """Move shares, in place, in at most so many waves; return the number of waves."""
    start, machine, *_ = edges
    part = level.copy()
    distance, queue = np.empty((2, len(part)), dtype=np.int32)
    reached = np.empty(len(start) - 1, dtype=np.bool_)
    at_once = max(AT_ONCE // max(len(machine), 1), 1)
    n_waves, splits = 0, True
    while splits and n_waves < max_iter:
        home = first_givers(start, machine, share)
        joined = np.empty(len(machine), dtype=np.bool_)
        _join_parts(start, machine, part, home, joined)
        part = connected(start, machine, joined, len(part))
        del joined
        excess, slack = _excess(machine, share, part, home)
        state = share, part, home, excess, slack, distance
        while n_waves < max_iter:
            distance.fill(FAR)
            reached.fill(False)
            n_reached = _distances(edges, *state, queue, reached)
            if n_reached == 0:
                break
            _wave(edges, *state, queue[:n_reached])
            n_waves += 1
            if n_waves % at_once == 0:
                tell(n_waves)
        if n_waves % at_once:
            tell(n_waves)
        splits = _split(part, excess, distance)
    return n_waves


def first_givers(
    start: Int[np.ndarray, " bounds"],
    machine: Int[np.ndarray, " entries"],
    share: Float64[np.ndarray, " entries"],
) -> Int32[np.ndarray, " jobs"]:
    """Return the first machine that each job gives to: its home."""
    home = np.empty(len(start) - 1, dtype=np.int32)
    _find_homes(start, machine, share, home)
    return home


@kernel
def _find_homes(start, machine, share, home) -> None:
    for job in range(len(home)):
        entry = start[job]
        while not share[entry] > 0:
            entry += 1
        home[job] = machine[entry]


@kernel
def _join_parts(start, machine, part, home, joined) -> None:
    """Write which entries belong to a machine in the part of their job's home."""
    for job in range(len(home)):
        own = part[home[job]]
        for entry in range(start[job], start[job + 1]):
            joined[entry] = part[machine[entry]] == own


def connected(
    start: Int[np.ndarray, " bounds"],
    machine: Int[np.ndarray, " entries"],
    joined: Bool[np.ndarray, " entries"],
    n_machines: int,
) -> Int32[np.ndarray, " machines"]:
    """Return the lowest code among the machines that joined entries connect each machine to."""
    pool = np.arange(n_machines, dtype=np.int32)
    _connect(start, machine, joined, pool)
    return pool


@kernel
def _connect(start, machine, joined, pool) -> None:
    """Join the sets of each job's machines; each set is a tree with its lowest code at the root."""
    for job in range(len(start) - 1):
        one = np.int64(-1)
        for entry in range(start[job], start[job + 1]):
            if joined[entry]:
                other = _find_root(pool, np.int64(machine[entry]))
                if one < 0:
                    one = other
                else:
                    pool[max(one, other)] = min(one, other)
                    one = min(one, other)
    for near in range(len(pool)):
        pool[near] = _find_root(pool, near)


@kernel
def _find_root(pool, machine: int) -> int:
    """Return the lowest code of a set of machines, halving the path for later calls."""
    while pool[machine] != machine:
        pool[machine] = pool[pool[machine]]
        machine = pool[machine]
    return machine


def _excess(
    machine: Int[np.ndarray, " entries"],
    share: Float64[np.ndarray, " entries"],
    part: Int32[np.ndarray, " machines"],
    home: Int[np.ndarray, " jobs"],
) -> tuple[Float64[np.ndarray, " machines"], Float64[np.ndarray, " machines"]]:
    """Return each machine's load above the mean of its part, and the tolerance that counts as level."""
    n_machines = len(part)
    n_near = np.bincount(part, minlength=n_machines)[part]
    n_jobs = jobs_of(part, home)[part]
    load = machine_loads(machine, share, n_machines)
    return load - n_jobs / n_near, np.minimum(1e-9, 0.1 / n_near.astype(np.float64) ** 2)


def jobs_of(
    part: Int32[np.ndarray, " machines"], home: Int32[np.ndarray, " jobs"]
) -> Int64[np.ndarray, " machines"]:
    """Return the number of jobs whose home is in the part of each name."""
    n_jobs = np.zeros(len(part), dtype=np.int64)
    _count_jobs(part, home, n_jobs)
    return n_jobs


def machine_loads(
    machine: Int[np.ndarray, " entries"], share: Float64[np.ndarray, " entries"], n_machines: int
) -> Float64[np.ndarray, " machines"]:
    """Return the sum of each machine's shares; `numpy.bincount` would copy every code."""
    load = np.zeros(n_machines)
    _add_shares(machine, share, load)
    return load


@kernel
def _count_jobs(part, home, n_jobs) -> None:
    for job in range(len(home)):
        n_jobs[part[home[job]]] += 1


@kernel
def _add_shares(machine, share, load) -> None:
    for entry in range(len(machine)):
        load[machine[entry]] += share[entry]


@kernel
def _distances(edges, share, part, home, excess, slack, distance, queue, reached) -> int:
    """Return how many machines reach one with room, and write their distances, which are `FAR` before.

    `queue` lists them in order. The result is 0 if no machine with excess load is among them.
    """
    start, machine, at_start, at, job_of = edges
    n_reached, position = 0, 0
    useful = False
    for near in range(len(part)):
        if excess[near] < -slack[near]:
            distance[near] = 0
            queue[n_reached] = near
            n_reached += 1
    while position < n_reached:
        taker = queue[position]
        position += 1
        for place in range(at_start[taker], at_start[taker + 1]):
            job = job_of[at[place]]
            if reached[job] or part[home[job]] != part[taker]:
                continue
            reached[job] = True
            for entry in range(start[job], start[job + 1]):
                giver = machine[entry]
                if share[entry] > 0 and distance[giver] == FAR:
                    distance[giver] = distance[taker] + 1
                    queue[n_reached] = giver
                    n_reached += 1
                    useful = useful or excess[giver] > slack[giver]
    return n_reached if useful else 0


@kernel
def _wave(edges, share, part, home, excess, slack, distance, by_distance) -> None:
    """Pass excess load one step on, from the farthest machine to the nearest."""
    start, machine, at_start, at, job_of = edges
    for behind in range(len(by_distance) - 1, -1, -1):
        giver = by_distance[behind]
        if distance[giver] == 0:
            break
        for place in range(at_start[giver], at_start[giver + 1]):
            if not excess[giver] > 0:
                break
            entry = at[place]
            job = job_of[entry]
            if not share[entry] > 0:
                continue
            for other in range(start[job], start[job + 1]):
                taker = machine[other]
                if distance[taker] != distance[giver] - 1 or part[taker] != part[giver]:
                    continue
                room = -excess[taker] if distance[taker] == 0 else excess[giver]
                passed = min(excess[giver], share[entry], room)
                if passed > 0:
                    share[entry] -= passed
                    share[other] += passed
                    excess[giver] -= passed
                    excess[taker] += passed


def _split(
    part: Int32[np.ndarray, " machines"],
    excess: Float64[np.ndarray, " machines"],
    distance: Int32[np.ndarray, " machines"],
) -> bool:
    """Split off machines whose load cannot flow, in parts with an excess; return whether there were any."""
    left = np.bincount(part, np.maximum(0.0, excess), len(part))
    # at least 1 if the part cannot be level, else rounding
    uneven = (left * np.bincount(part, minlength=len(part)) > 0.5)[part]
    # a part has the name of one of its machines: adding the number of machines makes a new name
    part[uneven & (distance == FAR)] += len(part)
    return bool(uneven.any())


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LoadLevels:
    """Result of :func:`load_levels`.

    Parameters
    ----------
    level
        The largest load of each machine over all optimal semi-matchings.
    least
        The smallest load of each machine over all of them: `level`, or one less.
    load, assigned
        One optimal semi-matching: loads between `least` and `level`, and the machine of each job.
    """

    level: Int32[np.ndarray, " machines"]
    least: Int32[np.ndarray, " machines"]
    load: Int32[np.ndarray, " machines"]
    assigned: Int32[np.ndarray, " jobs"]

    def __post_init__(self) -> None:
        freeze_arrays(self)

    def __repr__(self) -> str:
        return (
            f"LoadLevels({len(self.level)} machines, highest level {self.level.max(initial=0)}, "
            f"{np.count_nonzero(self.least < self.level)} whose load depends on the optimum)"
        )


def load_levels(graph: csr_array) -> LoadLevels:
    """Find the largest and the smallest load of each machine over all optimal semi-matchings.

    Parameters
    ----------
    graph
        As for :func:`~quality.semi_matching`, errors included.

    Notes
    -----
    **Guarantees.** Each machine has a load of `level` in some optimal semi-matching and a load of `least`
    in some, and never one outside this range. Both are the same for any order of jobs and machines. They
    are the balanced load (:func:`quality.balanced_loads`) rounded up and down.

    **Cost.** One optimal semi-matching, which includes the levels, and two scans of the entries.

    References
    ----------
    .. [1] Harvey, Ladner, Lovász, Tamir, "Semi-matchings for bipartite graphs and load
       balancing", J. Algorithms 59 (2006).
    .. [2] Frank, Murota, "Decreasing minimization on M-convex sets", Mathematical Programming 195
       (2022): the exchange property, and the canonical partition that the levels are.

    Examples
    --------
    Two machines share one job, so its load may be on either; the third has its own two.

    >>> levels = load_levels(csr_array([[1, 1, 0], [0, 0, 1], [0, 0, 1]]))
    >>> levels
    LoadLevels(3 machines, highest level 2, 2 whose load depends on the optimum)
    >>> levels.level, levels.least
    (array([1, 1, 2], dtype=int32), array([0, 0, 2], dtype=int32))
    """
    matching, level = matching_and_level(graph)
    _, _, job_start, job = both_ways(graph)
    least, queue = level.copy(), np.empty_like(level)
    _lower(job_start, job, matching.assigned, matching.load, level, least, queue)
    return LoadLevels(level, least, matching.load, matching.assigned)


def both_ways(
    graph: csr_array,
) -> tuple[
    Int[np.ndarray, " job_offsets"],
    Int[np.ndarray, " entries"],
    Int[np.ndarray, " machine_offsets"],
    Int[np.ndarray, " entries"],
]:
    """Return the machines of each job, and the jobs of each machine, as offsets and codes."""
    start, machine = ascending_rows(graph)
    rows = csr_array((np.ones(len(machine), dtype=np.int8), machine, start), shape=graph.shape)
    columns = rows.tocsc()
    job_start = columns.indptr.astype(start.dtype, copy=False)
    return start, machine, job_start, columns.indices.astype(np.int32, copy=False)


@kernel
def _lower(job_start, job, assigned, load, level, least, queue) -> None:
    """Search backwards from loads one below their level, inside the level, for others that may fall too."""
    n_queued = 0
    for source in range(len(load)):
        if load[source] < level[source]:
            least[source] -= 1
            queue[n_queued] = source
            n_queued += 1
    position = 0
    while position < n_queued:
        here = queue[position]
        position += 1
        for entry in range(job_start[here], job_start[here + 1]):
            giver = assigned[job[entry]]
            if least[giver] == level[giver] == level[here]:
                least[giver] -= 1
                queue[n_queued] = giver
                n_queued += 1
