"""Optimal semi-matching: every job to one of its machines, the loads as even as can be.

Two machines, two jobs; job 0 may go to either, job 1 to machine 0 alone. Both jobs on machine 0
cost 1 + 2 = 3, one on each costs 1 + 1 = 2. Moving job 0 along the path
``machine 0 - job 0 - machine 1`` ends a load of 2 at a load of 0: a *cost-reducing path*. A
semi-matching is optimal if and only if there is none [1]_, and that is how it is found.

Every job first goes to its least loaded machine, jobs with the fewest machines first, and then once
more. That leaves few paths, which :mod:`quality.matching.cost_reducing_paths` finds.

References
----------
.. [1] Harvey, Ladner, Lovász, Tamir, "Semi-matchings for bipartite graphs and load balancing",
   J. Algorithms 59 (2006).
"""

from dataclasses import dataclass
from typing import Any, no_type_check

import numpy as np
from jaxtyping import Int, Int32, Int64
from numba import njit
from scipy.sparse import csr_array, issparse

from quality.labels.codes import freeze_arrays, sort_codes
from quality.matching.cost_reducing_paths import shift_loads

__all__ = ["SemiMatching", "matching_and_level", "semi_matching"]


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


@no_type_check  # numba compiles it, so the shape checks of the tests must not wrap it
@njit(cache=True, nogil=True)
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
