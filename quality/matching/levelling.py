"""Levelling: from an optimal semi-matching to fractional shares that make the loads balanced.

Private to this room; :func:`quality.balanced_loads` is the way in.

Machines of different levels never share a job's load in the optimum, so a job is shared within one
*part* only: connected machines of one level. In a part of ``m`` machines with ``n`` jobs each
machine is to carry ``n / m``. Load that is too much runs down to machines that have too little, in
*waves*: machines are taken from the farthest to the nearest, so that one wave carries the load
over any distance. What cannot run down any more shows which machines can not be as low as
``n / m``; they are split off with the jobs that only they have. No part splits: all are level.
This is decomposition by minimum cuts [1]_, all parts at a time.

References
----------
.. [1] Fujishige, "Lexicographically optimal base of a polymatroid with respect to a weight vector",
   Mathematics of Operations Research 5 (1980).
"""

from collections.abc import Callable
from typing import no_type_check

import numpy as np
from jaxtyping import Float64, Int32
from numba import njit

__all__ = ["level_out"]

FAR = -1  # no machine with room can be reached
AT_ONCE = 2**22  # entries that waves go through before progress is told: some milliseconds


def level_out(
    edges: tuple[np.ndarray, ...],
    level: Int32[np.ndarray, " machines"],
    share: Float64[np.ndarray, " entries"],
    max_iter: int,
    tell: Callable[[int], object],
) -> int:
    """Move shares, which are brought up to date, in at most so many waves; how many there were."""
    start, machine = edges[:2]
    part, home = level.copy(), np.empty(len(start) - 1, dtype=np.int32)
    room = np.empty_like(part), np.empty_like(part), np.zeros(len(home), dtype=np.bool_)
    at_once = max(AT_ONCE // max(len(machine), 1), 1)
    n_waves, splits = 0, True
    while splits and n_waves < max_iter:
        _components(start, machine, share, part, home)
        excess, slack = _excess(edges, share, part, home)
        settled = False
        while n_waves < max_iter and not settled:
            asked = min(at_once, max_iter - n_waves)
            made = _waves(edges, share, part, home, excess, slack, room, asked)
            n_waves, settled = n_waves + made, made < asked
            if made:
                tell(n_waves)
        splits = _split(part, excess, room[0])
    return n_waves


@no_type_check  # numba compiles it, so the shape checks of the tests must not wrap it
@njit(cache=True, nogil=True)
def _waves(edges, share, part, home, excess, slack, room, most: int) -> int:
    """At most so many waves; how many were of use."""
    distance, queue, reached = room
    for made in range(most):
        n_reached = _distances(edges, share, part, home, excess, slack, distance, queue, reached)
        if n_reached == 0:
            return made
        _wave(edges, share, part, home, excess, slack, distance, queue[:n_reached])
    return most


@no_type_check  # numba compiles it, so the shape checks of the tests must not wrap it
@njit(cache=True, nogil=True)
def _components(start, machine, share, part, home) -> None:
    """Parts become connected; a machine that a job gives to, the job's home, tells its part."""
    root = np.arange(len(part)).astype(np.int32)
    for job in range(len(home)):
        for entry in range(start[job], start[job + 1]):
            if share[entry] > 0:
                home[job] = machine[entry]
                break
        for entry in range(start[job], start[job + 1]):
            if part[machine[entry]] == part[home[job]]:
                one, other = find_root(root, home[job]), find_root(root, machine[entry])
                root[max(one, other)] = min(one, other)
    for near in range(len(part)):
        part[near] = find_root(root, near)


@no_type_check  # numba compiles it, so the shape checks of the tests must not wrap it
@njit(cache=True, nogil=True)
def find_root(root, machine: int) -> int:
    """The lowest code of a set of machines; the way there is halved for the next to come."""
    while root[machine] != machine:
        root[machine] = root[root[machine]]
        machine = root[machine]
    return machine


@no_type_check  # numba compiles it, so the shape checks of the tests must not wrap it
@njit(cache=True, nogil=True)
def _excess(edges, share, part, home):
    """How far each machine's load is above the mean of its part, and what counts as level."""
    machine = edges[1]
    n_jobs, n_near = np.zeros(len(part)), np.zeros(len(part))
    for near in part:
        n_near[near] += 1
    for job in range(len(home)):
        n_jobs[part[home[job]]] += 1
    load = np.zeros(len(part))
    for entry in range(len(machine)):
        load[machine[entry]] += share[entry]
    excess, slack = np.empty(len(part)), np.empty(len(part))
    for near in range(len(part)):
        excess[near] = load[near] - n_jobs[part[near]] / n_near[part[near]]
        slack[near] = min(1e-9, 0.1 / n_near[part[near]] ** 2)
    return excess, slack


@no_type_check  # numba compiles it, so the shape checks of the tests must not wrap it
@njit(cache=True, nogil=True)
def _distances(edges, share, part, home, excess, slack, distance, queue, reached) -> int:
    """Steps from each machine to the next that has room, and the machines by it.

    The number of those, or 0 if no machine with too much is among them.
    """
    start, machine, at_start, at, job_of = edges
    distance[:] = FAR
    reached[:] = False
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


@no_type_check  # numba compiles it, so the shape checks of the tests must not wrap it
@njit(cache=True, nogil=True)
def _wave(edges, share, part, home, excess, slack, distance, by_distance) -> None:
    """From the farthest machine to the nearest, pass what is too much one step on."""
    start, machine, at_start, at, job_of = edges
    for giver in by_distance[::-1]:
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


@no_type_check  # numba compiles it, so the shape checks of the tests must not wrap it
@njit(cache=True, nogil=True)
def _split(part, excess, distance) -> bool:
    """Split off what cannot run down, in parts where something is left; whether there is any."""
    n_machines = len(part)
    left, n_near = np.zeros(n_machines), np.zeros(n_machines)
    for near in range(n_machines):
        left[part[near]] += max(0.0, excess[near])
        n_near[part[near]] += 1
    uneven = left * n_near > 0.5  # it is at least 1 if the part cannot be level, else rounding
    for near in range(n_machines):
        # a part is named by one of its machines: adding n_machines makes a new name
        if uneven[part[near]] and distance[near] == FAR:
            part[near] += n_machines
    return uneven.any()
