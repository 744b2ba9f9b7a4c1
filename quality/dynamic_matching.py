"""Hard penalties while workers are removed: an optimal semi-matching that is repaired, not redone.

Removing a worker takes her out of every label node. A node that loses its last worker vanishes, and
a task left with one node is no conflict any more, so that node vanishes too. The nodes she answered
for go to others. Each of these changes moves one unit of load.

*Labels of level* keep the repair local. Every worker has a level; her load is the level or one
less, and alternating paths never lead to a lower level. That alone makes the semi-matching optimal:
a cost-reducing path would have to end two lower. A worker whose load would leave the two values
looks for a path inside her level only, one that evens out with the other value. If there is none,
all she reached is one value short of the next level and moves there together. Searching the whole
graph instead would visit most of it in vain, again and again.
"""

from typing import no_type_check

import numpy as np
from jaxtyping import Bool, Int32
from numba import njit

from quality.labels import CrowdLabels
from quality.levels import both_ways, load_levels
from quality.reputation import conflict_graph, conflict_tasks

__all__ = ["DynamicMatching"]

NONE = -1  # no machine: the node has vanished; no level: the worker is gone, or not reached yet


class DynamicMatching:
    """The optimal semi-matching of a crowd's conflict graph, kept while workers are removed.

    Parameters
    ----------
    labels
        The crowd's labels; they are not changed.

    Notes
    -----
    **Guarantees.** After any removals the cost and the sorted loads are those of a fresh optimal
    semi-matching of the workers left, and so are the levels.

    **Cost.** Memory O(labels). A removal takes time in proportion to the labels of the worker and
    to the parts of their levels that are searched; :meth:`top_level` to the edges of the levels it
    reports.

    References
    ----------
    .. [1] Harvey, Ladner, Lovász, Tamir, "Semi-matchings for bipartite graphs and load
       balancing", J. Algorithms 59 (2006): optimal if and only if no path reduces the cost.

    Examples
    --------
    >>> from quality import encode
    >>> rows = [("ann", 1, "x"), ("bob", 1, "y"), ("ann", 2, "x"), ("bob", 2, "x"), ("cy", 2, "y")]
    >>> matching = DynamicMatching(encode(*zip(*rows, strict=True)))
    >>> matching.load, matching.cost
    (array([2, 1, 1], dtype=int32), 5)
    >>> matching.remove(2)  # nobody else said y on task 2: no conflict is left there
    >>> matching.load, matching.cost
    (array([1, 1, 0], dtype=int32), 2)
    """

    def __init__(self, labels: CrowdLabels) -> None:
        graph = conflict_graph(labels)
        found = load_levels(graph)
        self._edges = both_ways(graph)
        nodes = np.count_nonzero(labels.counts(), axis=1) * conflict_tasks(labels)
        self._task = np.repeat(np.arange(labels.n_tasks), nodes)  # of each node; nodes are by task
        self._task_start = np.concatenate([[0], np.cumsum(nodes)])
        self._n_nodes = nodes.copy()
        self._n_near = np.diff(self._edges[0])
        self._assigned, self._load = found.assigned.copy(), found.load.copy()
        self._level = found.level.copy()
        self._queue = np.empty(labels.n_workers, dtype=np.int32)
        self._by_job = np.full(labels.n_workers, NONE, dtype=np.int32)
        self._by_worker = np.full(labels.n_workers, NONE, dtype=np.int32)

    @property
    def load(self) -> Int32[np.ndarray, " workers"]:
        """Label nodes each worker answers for; 0 for a removed worker."""
        return self._load.copy()

    @property
    def cost(self) -> int:
        """Sum over workers of load * (load + 1) / 2."""
        load = self._load.astype(np.int64)
        return int((load * (load + 1) // 2).sum())

    def remove(self, worker: int) -> None:
        """Take a worker out and repair the semi-matching.

        Parameters
        ----------
        worker
            Her code.

        Raises
        ------
        ValueError
            If there is no such worker, or she was removed before.
        """
        if not (0 <= worker < len(self._level) and self._level[worker] != NONE):
            raise ValueError(f"worker must be one of those left, got worker={worker}")
        search = (self._queue, self._by_job, self._by_worker)
        state = (self._assigned, self._load, self._level)
        tasks = (self._task, self._task_start, self._n_nodes, self._n_near)
        _remove(worker, self._edges, tasks, state, search)

    def top_level(self, judged: Bool[np.ndarray, " workers"]) -> Int32[np.ndarray, " workers"]:
        """Return the levels from the highest down to the first that holds a judged worker.

        Parameters
        ----------
        judged
            True for each worker who counts; those removed count never.

        Returns
        -------
        int32 array, one per worker
            Her level (:func:`quality.hard_level` of the workers left), 0 where it is lower.
        """
        here = self._level != NONE
        level: np.ndarray = _top(self._edges, self._assigned, self._load, judged & here, here)
        return level


@no_type_check  # numba compiles it, so the shape checks of the tests must not wrap it
@njit(cache=True, nogil=True)
def _remove(worker: int, edges, tasks, state, search) -> None:
    """Take the worker out of her nodes one by one; between two nodes everything is in order."""
    start, machine, job_start, job = edges
    task, task_start, n_nodes, n_near = tasks
    assigned, load, level = state
    level[worker], load[worker] = NONE, 0
    for node in job[job_start[worker] : job_start[worker + 1]]:
        if assigned[node] == NONE:
            continue
        n_near[node] -= 1
        if n_near[node] > 0:
            if assigned[node] == worker:
                _insert(node, start, machine, state)
                _even_out_high(assigned[node], edges, state, search)
            continue
        assigned[node] = NONE
        n_nodes[task[node]] -= 1
        if n_nodes[task[node]] == 1:
            n_nodes[task[node]] = 0
            for other in range(task_start[task[node]], task_start[task[node] + 1]):
                if assigned[other] != NONE:
                    owner, assigned[other] = assigned[other], NONE
                    load[owner] -= 1
                    _even_out_low(owner, edges, state, search)


@no_type_check  # numba compiles it, so the shape checks of the tests must not wrap it
@njit(cache=True, nogil=True)
def _insert(node: int, start, machine, state) -> None:
    """Give a node to its worker of lowest level, then lowest load, then lowest code."""
    assigned, load, level = state
    best = NONE
    for near in machine[start[node] : start[node + 1]]:
        if level[near] == NONE:
            continue
        if best == NONE or (level[near], load[near]) < (level[best], load[best]):
            best = near
    assigned[node] = best
    load[best] += 1


@no_type_check  # numba compiles it, so the shape checks of the tests must not wrap it
@njit(cache=True, nogil=True)
def _even_out_high(source: int, edges, state, search) -> None:
    """A load above its level goes to a load below the level, or all that was reached goes up."""
    start, machine, job_start, job = edges
    assigned, load, level = state
    queue, by_job, _ = search
    here_level = level[source]
    if load[source] <= here_level:
        return
    n_queued, position, target = 1, 0, NONE
    queue[0], by_job[source] = source, 0
    while position < n_queued and target == NONE:
        here = queue[position]
        position += 1
        for node in job[job_start[here] : job_start[here + 1]]:
            if assigned[node] != here or target != NONE:
                continue
            for near in machine[start[node] : start[node + 1]]:
                if level[near] == here_level and by_job[near] == NONE:
                    by_job[near] = node
                    queue[n_queued] = near
                    n_queued += 1
                    if load[near] < here_level:
                        target = near
                        break
    if target != NONE:
        load[source] -= 1
        load[target] += 1
        while target != source:
            node = by_job[target]
            assigned[node], target = target, assigned[node]
    for reached in queue[:n_queued]:
        by_job[reached] = NONE
        if load[source] > here_level:
            level[reached] += 1


@no_type_check  # numba compiles it, so the shape checks of the tests must not wrap it
@njit(cache=True, nogil=True)
def _even_out_low(sink: int, edges, state, search) -> None:
    """A load two below its level takes from a load at the level, or all that gives goes down."""
    _, _, job_start, job = edges
    assigned, load, level = state
    queue, by_job, by_worker = search
    here_level = level[sink]
    if load[sink] >= here_level - 1:
        return
    n_queued, position, giver = 1, 0, NONE
    queue[0], by_job[sink] = sink, 0
    while position < n_queued and giver == NONE:
        here = queue[position]
        position += 1
        for node in job[job_start[here] : job_start[here + 1]]:
            owner = assigned[node]
            if owner != NONE and level[owner] == here_level and by_job[owner] == NONE:
                by_job[owner], by_worker[owner] = node, here
                queue[n_queued] = owner
                n_queued += 1
                if load[owner] == here_level:
                    giver = owner
                    break
    if giver != NONE:
        load[giver] -= 1
        load[sink] += 1
        while giver != sink:
            assigned[by_job[giver]] = by_worker[giver]
            giver = by_worker[giver]
    for reached in queue[:n_queued]:
        by_job[reached] = NONE
        if load[sink] < here_level - 1:
            level[reached] -= 1


@no_type_check  # numba compiles it, so the shape checks of the tests must not wrap it
@njit(cache=True, nogil=True)
def _top(edges, assigned, load, judged, here):
    """Close the levels from the highest down, as :func:`load_levels` does, to the first judged."""
    start, machine, job_start, job = edges
    n_workers = len(load)
    level = np.zeros(n_workers, dtype=np.int32)
    seen = ~here
    queue = np.empty(n_workers, dtype=np.int32)
    height = np.int32(load.max()) if n_workers else np.int32(0)
    done = False
    while height > 0 and not done:
        n_queued, position, lower = 0, 0, np.int32(0)
        for worker in range(n_workers):
            if seen[worker]:
                continue
            if load[worker] == height:
                seen[worker] = True
                queue[n_queued] = worker
                n_queued += 1
            else:
                lower = max(lower, load[worker])
        while position < n_queued:
            source = queue[position]
            position += 1
            level[source] = height
            done = done or judged[source]
            for node in job[job_start[source] : job_start[source + 1]]:
                if assigned[node] != source:
                    continue
                for near in machine[start[node] : start[node + 1]]:
                    if not seen[near]:
                        seen[near] = True
                        queue[n_queued] = near
                        n_queued += 1
        height = lower
    return level
