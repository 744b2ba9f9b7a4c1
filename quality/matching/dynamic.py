"""Hard penalties while workers are removed: an optimal semi-matching that is repaired, not redone.

Removing a worker takes her out of every label node. A node that loses its last worker vanishes, and
a task left with one node is no conflict any more, so that node vanishes too. The nodes she answered
for go to others. Each of these changes moves one unit of load.

What keeps the repair local is told in :mod:`quality.matching.level_repair`: a bound on every worker's level.
Searching the whole graph for a better place instead would visit most of it in vain, again and
again.
"""

import numpy as np
from jaxtyping import Bool, Float64, Int32

from quality.labels.table import CrowdLabels
from quality.matching.cost_reducing import matching_and_level
from quality.matching.level_repair import (
    GONE,
    census,
    highest,
    level_of,
    levels_down_to,
    remove_worker,
)
from quality.matching.levels import both_ways
from quality.reputation.penalties import conflict_graph, nodes_per_task

__all__ = ["DynamicMatching"]


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
    to the parts of their levels that are searched. :meth:`highest` takes one look at every worker
    and, most often, at the labels of one.

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
        graph, n_nodes = conflict_graph(labels), nodes_per_task(labels)
        found, level = matching_and_level(graph)
        start, near, node_start, node = both_ways(graph)
        self._edges = (start, near, node_start, node, node_start[1:].copy())
        task = np.repeat(np.arange(labels.n_tasks, dtype=np.int32), n_nodes)  # of each node
        task_start = np.concatenate([[0], np.cumsum(n_nodes)])
        self._tasks = (task, task_start, n_nodes, np.diff(start))
        most = 1 + int(np.diff(node_start).max(initial=0))
        self._assigned, self._load, self._label = found.assigned.copy(), found.load.copy(), level
        self._state = (self._assigned, self._load, level, census(found.load, level, most))
        queue, by_node, by_worker, n_lost, losers = np.zeros((5, labels.n_workers), dtype=np.int32)
        seen = np.zeros(labels.n_workers + 1, dtype=np.int64)  # and the number of the last search
        self._search = (queue, by_node, by_worker, seen, n_lost, losers)

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
        self._check(worker)
        remove_worker(worker, self._edges, self._tasks, self._state, self._search)

    def level(self, worker: int) -> int:
        """Return the level of a worker: her largest load in any optimum of the workers left.

        Parameters
        ----------
        worker
            Her code.

        Raises
        ------
        ValueError
            If there is no such worker, or she was removed before.
        """
        self._check(worker)
        return int(level_of(worker, self._edges, self._state, self._search))

    def highest(
        self, judged: Bool[np.ndarray, " workers"], rank: Float64[np.ndarray, " workers"]
    ) -> int:
        """Return the judged worker of the highest level.

        Parameters
        ----------
        judged
            True for each worker who counts; those removed count never.
        rank
            Of equal levels the lowest rank comes first, then the lowest code.

        Raises
        ------
        ValueError
            If nobody who is left is judged.
        """
        worker = int(highest(judged, rank, self._edges, self._state, self._search))
        if worker == GONE:
            raise ValueError("judged must be true for a worker who is left, got none")
        return worker

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
        lowest = 1
        if (judged & (self._label != GONE)).any():
            lowest = max(1, self.level(self.highest(judged, np.zeros(len(judged)))))
        level: np.ndarray = levels_down_to(lowest, self._edges, self._state, self._search)
        return level

    def _check(self, worker: int) -> None:
        """Refuse a worker who is not there."""
        if not (0 <= worker < len(self._label) and self._label[worker] != GONE):
            raise ValueError(f"worker must be one of those left, got worker={worker}")
