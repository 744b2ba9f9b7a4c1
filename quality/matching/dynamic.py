"""Hard penalties while workers are removed: an optimal semi-matching that is repaired, not recomputed.

Use :class:`DynamicMatching`.

>>> from quality import encode
>>> labels = encode(["ann", "bob", "ann", "bob", "cy"], [1, 1, 2, 2, 2], list("xyxxy"))
>>> DynamicMatching(labels).load
array([2, 1, 1], dtype=int32)

Removing a worker takes her out of every label node. A node without workers vanishes. A task with one node
left is no conflict any more, so that node vanishes too. The nodes assigned to her go to others. Each of
these changes moves one unit of load. A search of the whole graph for a better place would visit most of it
without result, again and again; a bound on every worker's level keeps the repair local.

Every worker has such a bound, her *label* in this module. Her load is the label (she is *full*) or one less
(she is *short*), and no node is assigned to a worker of a higher label than another of its workers has.
That alone makes the semi-matching optimal: a cost-reducing path would have to end at a load lower by two. A
full worker who gets one more node passes one to a short worker, and a short worker who loses one takes one
over from a full worker, along a path inside their label. If there is no such path, all workers that the
search reached move to the next label. If the label has no such worker at all, all its workers move, without
a search.

A label is the level or one more. It is the level of a full worker, and of a short worker who is reached by
a path from a full worker of her label. If she is not, every worker with a path to her is short too, and all
of them move one label down, to the level. This is computed when a level is requested, and only for the
workers in question: keeping all levels exact would cost more than the repair.
"""

import numpy as np
from jaxtyping import Bool, Float64, Int32

from quality.labels import CrowdLabels
from quality.matching.conflicts import conflict_graph, nodes_per_task
from quality.matching.cost_reducing import matching_and_level
from quality.matching.levels import both_ways
from quality.parallel import kernel

__all__ = [
    "GONE",
    "DynamicMatching",
    "census",
    "highest",
    "level_of",
    "remove_worker",
]

# label of a removed worker; worker of a vanished node; result of a search without success
GONE = -1
FULL, SHORT = 0, 1  # label minus load
BLOCK = 256  # workers in a block, whose first by `highest` is cached until one of them changes


@kernel
def census(load, label, most: int):
    """Count the full and the short workers of each label from 0 to `most`."""
    count = np.zeros((most + 1, 2), dtype=np.int32)
    for worker in range(len(load)):
        count[label[worker], label[worker] - load[worker]] += 1
    return count


@kernel
def remove_worker(worker: int, edges, tasks, state, search) -> None:
    """Remove a worker: first drop nodes and tasks that cease to be in conflict, then place her nodes."""
    job_start, job, job_end = edges[2], edges[3], edges[4]
    task, task_start, n_nodes, n_near = tasks
    assigned, load, label, count = state
    n_lost, losers, stale = search[4:]
    n_losers, stale[worker // BLOCK] = 0, True
    count[label[worker], label[worker] - load[worker]] -= 1
    label[worker], load[worker] = GONE, 0
    for at in range(job_start[worker], job_end[worker]):
        node = job[at]
        n_near[node] -= 1
        if n_near[node] == 0 and assigned[node] != GONE:
            assigned[node] = GONE
            n_nodes[task[node]] -= 1
            if n_nodes[task[node]] == 1:  # one class is left: no conflict
                for other in range(task_start[task[node]], task_start[task[node] + 1]):
                    if assigned[other] != GONE:
                        owner, assigned[other] = assigned[other], GONE
                        if n_lost[owner] == 0:
                            losers[n_losers] = owner
                            n_losers += 1
                        n_lost[owner] += 1
    for loser in losers[:n_losers]:  # their loads counted vanished nodes up to here
        _lose(loser, n_lost[loser], edges, state, search)
        n_lost[loser] = 0
    for at in range(job_start[worker], job_end[worker]):
        if assigned[job[at]] == worker:
            _gain(_place(job[at], edges, state), edges, state, search)


@kernel
def _place(node: int, edges, state) -> int:
    """Assign a node to its worker of lowest label, then lowest load, then lowest code; return that worker."""
    start, near = edges[0], edges[1]
    assigned, load, label, _ = state
    best = GONE
    for entry in range(start[node], start[node + 1]):
        other = near[entry]
        if label[other] != GONE and (
            best == GONE
            or label[other] < label[best]
            or (label[other] == label[best] and load[other] < load[best])
        ):
            best = other
    assigned[node] = best
    return best


@kernel
def _gain(source: int, edges, state, search) -> None:
    """Raise a worker's load by one node; a full worker passes a node on, or her label rises."""
    assigned, load, label, count = state
    by_node = search[1]
    target = source
    if load[source] == label[source]:
        target, n_reached = _find_short(source, edges, state, search)
        if target == GONE:
            _move(n_reached, label[source], 1, label, count, search)
            target = source
    load[target] += 1
    count[label[target], SHORT] -= 1
    count[label[target], FULL] += 1
    while target != source:
        node = by_node[target]
        assigned[node], target = target, assigned[node]


@kernel
def _lose(sink: int, n_lost: int, edges, state, search) -> None:
    """Lower a worker's load by `n_lost`; a short worker takes a node over, or her label falls."""
    assigned, load, label, count = state
    by_node, by_worker = search[1], search[2]
    while n_lost > 0:
        here = label[sink]
        giver, n_reached, below = sink, 0, here
        if load[sink] < here:
            giver, n_reached, below = _find_full(sink, edges, state, search)
        if giver != GONE:
            load[giver] -= 1
            count[here, FULL] -= 1
            count[here, SHORT] += 1
            n_lost -= 1
            while giver != sink:
                assigned[by_node[giver]] = by_worker[giver]
                giver = by_worker[giver]
        elif n_reached == 1:
            # no worker of her label can pass a node to her: she falls to the label of those who can
            step = min(n_lost, here - below)
            label[sink] -= step
            load[sink] -= step
            search[6][sink // BLOCK] = True
            count[here, SHORT] -= 1
            count[here - step, SHORT] += 1
            n_lost -= step
        else:
            _move(n_reached, here, -1, label, count, search)


@kernel
def _find_short(source: int, edges, state, search):
    """Search breadth first, inside the label of a full worker, for a short worker.

    Return her or GONE, and the number of workers seen: 0 if the whole label is full.
    """
    start, near, job_start, job, job_end = edges
    assigned, load, label, count = state
    queue, by_node, _, seen = search[:4]
    here = label[source]
    if count[here, SHORT] == 0:
        return GONE, 0
    seen[-1] += 1  # the number of this search, so that marks of earlier searches need no clearing
    queue[0], seen[source] = source, seen[-1]
    n_reached, position = 1, 0
    while position < n_reached:
        giver = queue[position]
        position += 1
        for at in range(job_start[giver], job_end[giver]):
            node = job[at]
            if assigned[node] != giver:
                continue
            for entry in range(start[node], start[node + 1]):
                other = near[entry]
                if label[other] == here and seen[other] != seen[-1]:
                    seen[other], by_node[other] = seen[-1], node
                    if load[other] < here:
                        return other, n_reached
                    queue[n_reached] = other
                    n_reached += 1
    return GONE, n_reached


@kernel
def _find_full(sink: int, edges, state, search):
    """Search backwards, inside the label of a short worker, for a full worker.

    Return her or GONE, the number of workers seen (0 if the whole label is short), and the highest lower
    label of workers who could pass a node to those seen.
    """
    job_start, job, job_end = edges[2], edges[3], edges[4]
    assigned, load, label, count = state
    queue, by_node, by_worker, seen = search[:4]
    here = label[sink]
    below = np.int32(0)
    if count[here, FULL] == 0 and count[here, SHORT] > 1:
        return GONE, 0, below
    seen[-1] += 1
    search_number = seen[-1]
    queue[0], seen[sink] = sink, search_number
    n_reached, position = 1, 0
    while position < n_reached:
        taker = queue[position]
        position += 1
        # most of a repair's time is here: unsigned indices need no test for negative ones
        at, end = np.uint64(job_start[taker]), np.uint64(job_end[taker])
        while at < end:
            node = job[at]
            owner = assigned[np.uint64(node)]
            if owner == GONE:  # vanished: removed from the list
                end -= np.uint64(1)
                job[at] = job[end]
                continue
            at += np.uint64(1)
            its = label[np.uint64(owner)]
            # arithmetic, as a branch here is mispredicted half of the time
            is_lower = its < here
            below = max(below, is_lower * its)
            if (not is_lower) & (seen[np.uint64(owner)] != search_number):
                seen[owner], by_node[owner], by_worker[owner] = search_number, node, taker
                if load[owner] == here:
                    job_end[taker] = end
                    return owner, n_reached, below
                queue[n_reached] = owner
                n_reached += 1
        job_end[taker] = end
    return GONE, n_reached, below


@kernel
def _move(n_reached: int, here: int, by: int, label, count, search) -> None:
    """Add `by` to the label of the workers reached, or of all workers of the label if none was reached.

    A rise (1) makes full workers short; a fall (-1) makes short workers full.
    """
    queue, stale = search[0], search[6]
    before, after = (FULL, SHORT) if by > 0 else (SHORT, FULL)
    n_moved = n_reached if n_reached else count[here, before]
    count[here, before] -= n_moved
    count[here + by, after] += n_moved
    for position in range(n_reached):
        label[queue[position]] += by
        stale[queue[position] // BLOCK] = True
    if n_reached == 0:
        for worker in range(len(label)):
            if label[worker] == here:
                label[worker] += by
                stale[worker // BLOCK] = True


@kernel
def level_of(worker, edges, state, search):
    """Return the level of a worker who has not been removed."""
    _, load, label, count = state
    if load[worker] < label[worker]:
        giver, n_reached, _ = _find_full(worker, edges, state, search)
        if giver == GONE:
            _move(n_reached, label[worker], -1, label, count, search)
    return label[worker]


@kernel
def highest(judged, rank, changed, first, edges, state, search) -> int:
    """Return the judged worker of highest level, then lowest rank, then lowest code; GONE if none.

    `first` caches this for each block, by label: a block is scanned if a label has changed, or if its first
    is among those in `changed`.
    """
    label, stale = state[2], search[6]
    for worker in changed:
        stale[worker // BLOCK] |= first[worker // BLOCK] == worker
    for worker in changed:
        one = first[worker // BLOCK]
        if judged[worker] and label[worker] != GONE:
            lower, upper = min(one, worker), max(one, worker)  # ties: the lower code comes first
            first[worker // BLOCK] = _before(lower, upper, label, rank)
    while True:
        best = GONE
        for block in range(len(stale)):
            if stale[block]:
                stale[block], first[block] = False, GONE
                for worker in range(block * BLOCK, min((block + 1) * BLOCK, len(label))):
                    if judged[worker] and label[worker] != GONE:
                        first[block] = _before(first[block], worker, label, rank)
            if first[block] != GONE:
                best = _before(best, first[block], label, rank)
        if best == GONE:
            return GONE
        before = label[best]
        if level_of(best, edges, state, search) == before:
            return best


@kernel
def _before(one, other, label, rank) -> int:
    """Return the one of two with the higher label, or the lower rank; the first if both are equal."""
    if one == GONE or label[other] > label[one]:
        return int(other)
    return int(other) if label[other] == label[one] and rank[other] < rank[one] else int(one)


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

    **Cost.** Memory O(labels). The time of a removal is proportional to the labels of the worker and to the
    parts of their levels that are searched. :meth:`highest` examines every worker, or with `changed` those
    workers and the first of every block of 256, whose workers are all examined if she has changed; and,
    most often, the labels of one worker.

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
    >>> matching.remove(2)  # task 2 has only labels x left: no conflict
    >>> matching.load, matching.cost
    (array([1, 1, 0], dtype=int32), 2)
    """

    def __init__(self, labels: CrowdLabels) -> None:
        graph, n_nodes = conflict_graph(labels), nodes_per_task(labels)
        found, level = matching_and_level(graph)
        start, near, node_start, node = both_ways(graph)
        self._edges = (start, near, node_start, node, node_start[1:].copy())
        task = np.repeat(np.arange(labels.n_tasks, dtype=np.int32), n_nodes)  # task of each node
        task_start = np.concatenate([[0], np.cumsum(n_nodes)])
        self._tasks = (task, task_start, n_nodes, np.diff(start))
        most = 1 + int(np.diff(node_start).max(initial=0))
        self._assigned, self._load, self._label = found.assigned.copy(), found.load.copy(), level
        self._state = (self._assigned, self._load, level, census(found.load, level, most))
        queue, by_node, by_worker, n_lost, losers = np.zeros((5, labels.n_workers), dtype=np.int32)
        seen = np.zeros(labels.n_workers + 1, dtype=np.int64)  # the last entry numbers the searches
        self._first = np.full(-(-labels.n_workers // BLOCK), GONE, dtype=np.int32)  # see `highest`
        stale = np.ones(len(self._first), dtype=np.bool_)
        self._search = (queue, by_node, by_worker, seen, n_lost, losers, stale)

    @property
    def load(self) -> Int32[np.ndarray, " workers"]:
        """Number of label nodes that each worker answers for; 0 for a removed worker."""
        return self._load.copy()

    @property
    def cost(self) -> int:
        """Sum over workers of load * (load + 1) / 2."""
        load = self._load.astype(np.int64)
        return int((load * (load + 1) // 2).sum())

    def remove(self, worker: int) -> None:
        """Remove a worker by her code and repair the semi-matching; ValueError if she was removed before."""
        self._check(worker)
        remove_worker(worker, self._edges, self._tasks, self._state, self._search)

    def level(self, worker: int) -> int:
        """Return the level of a worker by her code: her largest load in any optimum of those left.

        Raise ValueError if there is no such worker, or she was removed before.
        """
        self._check(worker)
        return int(level_of(worker, self._edges, self._state, self._search))

    def highest(
        self,
        judged: Bool[np.ndarray, " workers"],
        rank: Float64[np.ndarray, " workers"],
        changed: Int32[np.ndarray, " changed"] | None = None,
    ) -> int:
        """Return the judged worker of the highest level.

        Parameters
        ----------
        judged
            True for each worker who counts; removed workers never count.
        rank
            Ties in level go to the lowest rank, then the lowest code.
        changed
            The workers whose `judged` or `rank` differs from the last call; None for all. If one is
            missing, the result may be wrong.

        Raises
        ------
        ValueError
            If no remaining worker is judged, or there is not one truth value and one rank per worker.
        """
        shape = self._label.shape  # loops run over it
        if not (judged.dtype == np.bool_ and judged.shape == rank.shape == shape):
            raise ValueError(
                f"judged and rank must be {len(self._label)} truth values and numbers, one per worker, got "
                f"{judged.dtype} of shape {judged.shape} and {rank.shape}"
            )
        if changed is None:
            self._search[-1][:] = True
            changed = np.empty(0, dtype=np.int32)
        kept = self._first, self._edges, self._state, self._search
        worker = int(highest(judged, rank, changed, *kept))
        if worker == GONE:
            raise ValueError("judged must be true for a worker who is left, got none")
        return worker

    def _check(self, worker: int) -> None:
        """Raise ValueError unless the code is of a worker who has not been removed."""
        known = isinstance(worker, int | np.integer) and 0 <= worker < len(self._label)
        if not (known and self._label[worker] != GONE):
            raise ValueError(f"worker must be one of those left, got worker={worker}")
