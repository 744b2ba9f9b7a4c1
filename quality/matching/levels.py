"""Levels: how high each machine's load can be, and how low, over all optimal semi-matchings.

The sorted loads of an optimal semi-matching are unique, but who carries which load is not: of two
equally placed workers one gets the higher load, and the order of the codes says who. The *level* of
a worker does not depend on that. Take the workers of the largest load ``d`` and everybody to whom
alternating paths lead from them: this closed set has loads ``d`` and ``d - 1``, and ``d`` is its
level. Take it away and go on with the next load.

A unit of load can be passed along an alternating path from a load of ``d`` to one of ``d - 1``
without any cost. So the level is the largest load a worker has in any optimum; and by the exchange
property of the load vectors there is no other way to a different optimum, so nobody exceeds it.
"""

from dataclasses import dataclass
from typing import no_type_check

import numpy as np
from jaxtyping import Int, Int32
from numba import njit
from scipy.sparse import csr_array

from quality.labels.codes import freeze_arrays
from quality.labels.table import CrowdLabels
from quality.matching.cost_reducing import ascending_rows, matching_and_level
from quality.reputation.penalties import conflict_graph

__all__ = ["LoadLevels", "hard_level", "load_levels"]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LoadLevels:
    """Result of :func:`load_levels`.

    Parameters
    ----------
    level
        The largest load each machine has in any optimal semi-matching.
    least
        The smallest load each machine has in any: `level`, or one less.
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
        Jobs by machines, a SciPy sparse array; a stored entry is an admissible assignment.
        Values are ignored.

    Returns
    -------
    LoadLevels
        Levels, least loads, and one optimum.

    Raises
    ------
    TypeError
        If `graph` is not a SciPy sparse array.
    ValueError
        If a job has no machine.

    Notes
    -----
    **Guarantees.** Each machine has a load of `level` in some optimal semi-matching and one of
    `least` in some, and never one outside. Both are the same whatever the order of jobs and
    machines. They are the balanced load (:func:`quality.balanced_loads`) rounded up and down.

    **Cost.** One optimal semi-matching, which yields the levels, and two scans of the entries.

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
    least = _least(job_start, job, matching.assigned, matching.load, level)
    return LoadLevels(level, least, matching.load, matching.assigned)


def hard_level(labels: CrowdLabels) -> Int32[np.ndarray, " workers"]:
    """Return the hard penalty that does not depend on names: the level of each worker.

    Parameters
    ----------
    labels
        The crowd's labels.

    Returns
    -------
    int32 array, one per worker
        The largest number of label nodes she answers for in any optimal semi-matching of the
        conflict graph; 0 without conflict tasks.

    Notes
    -----
    **Guarantees.** Renaming workers, tasks or classes changes nobody's level. It is
    :func:`quality.hard_penalty` or one more.

    **Limits.** Those of the hard penalty: it grows with the number of labels, and where everybody
    labels equally much it comes out nearly equal for all.

    Examples
    --------
    Ann and cy gave the same label, so either may answer for it.

    >>> from quality import encode
    >>> hard_level(encode(["ann", "bob", "cy", "ann"], [1, 1, 1, 2], list("xyxx")))
    array([1, 1, 1], dtype=int32)
    """
    _, level = matching_and_level(conflict_graph(labels))
    return level


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
    return start, machine, *_jobs_of_machines(start, machine, graph.shape[1])


@no_type_check  # numba compiles it, so the shape checks of the tests must not wrap it
@njit(cache=True, nogil=True)
def _jobs_of_machines(start, machine, n_machines: int):
    """Counting sort of the entries by machine."""
    job_start = np.zeros(n_machines + 1, dtype=start.dtype)
    for near in machine:
        job_start[near + 1] += 1
    for near in range(n_machines):
        job_start[near + 1] += job_start[near]
    place = job_start[:-1].copy()
    job = np.empty(len(machine), dtype=np.int32)
    for at in range(len(start) - 1):
        for entry in range(start[at], start[at + 1]):
            job[place[machine[entry]]] = at
            place[machine[entry]] += 1
    return job_start, job


@no_type_check  # numba compiles it, so the shape checks of the tests must not wrap it
@njit(cache=True, nogil=True)
def _least(job_start, job, assigned, load, level):
    """Backwards from the loads one below their level, inside the level: those may go down too."""
    n_machines = len(load)
    least = level.copy()
    queue = np.empty(n_machines, dtype=np.int32)
    n_queued = 0
    for source in range(n_machines):
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
    return least
