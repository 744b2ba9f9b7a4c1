"""How many tasks adversaries could turn, at least and at most: bounds from who labelled what.

All workers are taken as honest and perfectly accurate, and k adversaries who know everything are
added to them. What they can do then depends on the assignment graph alone. Against the
penalty-based aggregator the loads ``d_1 >= d_2 >= ...`` of an optimal semi-matching of the *tasks*
to the workers say how much; against every rule that ignores names, the tasks that rest on few
workers: adversaries who mirror all of them leave nothing by which to tell the two sides apart.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, Int, Int32, Int64
from scipy.sparse import csr_array

from quality.labels.codes import freeze_arrays
from quality.labels.table import CrowdLabels
from quality.matching.cost_reducing import semi_matching
from quality.progress import Progress, counter
from quality.reputation.resting_tasks import few_worker_tasks, greedy_workers, n_resting

__all__ = ["RobustnessBounds", "robustness_bounds", "weakest_workers"]

Sets = Counter[frozenset[int]]  # sets of workers, and how many tasks each one labelled together


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RobustnessBounds:
    """Result of :func:`robustness_bounds`; one entry per number of adversaries.

    Parameters
    ----------
    n_adversaries
        1, 2, ... of them.
    lower
        So many tasks can be turned, whatever the adversaries face, if they face the penalty-based
        aggregator.
    upper_one_right
        No more can be turned there while at most one adversary ever answers right.
    upper
        No more can be turned there in any way.
    name_blind
        So many tasks can be turned whatever rule without names they face: half the tasks that
        rest on that many workers.
    name_blind_exact
        True where `name_blind` is the theorem's number, False where it is a lower bound on it
        because the search was cut short.
    n_tasks
        Tasks with labels.
    """

    n_adversaries: Int64[np.ndarray, " curve"]
    lower: Int64[np.ndarray, " curve"]
    upper_one_right: Int64[np.ndarray, " curve"]
    upper: Int64[np.ndarray, " curve"]
    name_blind: Float64[np.ndarray, " curve"]
    name_blind_exact: Bool[np.ndarray, " curve"]
    n_tasks: int

    def __post_init__(self) -> None:
        freeze_arrays(self)

    @property
    def method(self) -> tuple[str, ...]:
        """How `name_blind` was found, in a word for each number of adversaries."""
        return tuple("exact" if exact else "lower bound" for exact in self.name_blind_exact)

    def __repr__(self) -> str:
        return (
            f"RobustnessBounds(up to {len(self.lower)} adversaries turn between {self.lower[-1]} "
            f"and {self.upper[-1]} of {self.n_tasks} tasks)"
        )


def robustness_bounds(
    labels: CrowdLabels,
    *,
    max_adversaries: int = 10,
    max_steps: int = 2_000,
    progress: Progress | None = None,
) -> RobustnessBounds:
    """Bound the number of tasks whose consensus k adversaries could turn, for k = 1, 2, ...

    Parameters
    ----------
    labels
        Those of the workers kept, all of whom are taken as honest; only who labelled what counts.
    max_adversaries
        The largest k, at least 1.
    max_steps
        At most so many steps of the exact search for each k, at least 0; past them the greedy
        lower bound stands.
    progress
        Told of every step of the search, and of one before for each k: see
        :data:`quality.progress.Progress`.

    Returns
    -------
    RobustnessBounds
        The curves k -> (lower, upper), and the bound for every rule without names.

    Raises
    ------
    ValueError
        If a parameter is out of its range.

    Notes
    -----
    **Assumptions.** Every worker kept is honest and always right; labels have two classes; the
    adversaries know everything and work together. `lower`, `upper_one_right` and `upper` are about
    the penalty-based aggregator alone. Against majority vote, say, far fewer may do more.

    **Guarantees.** With loads ``d_1 >= d_2 >= ...`` of the optimal semi-matching: `lower` is
    d_1 + ... + d_(k-1), `upper_one_right` d_1 + ... + d_k, `upper` d_1 + ... + d_2k. `name_blind`
    is half the largest number of tasks that at most k workers labelled among themselves where
    ``name_blind_exact``, else no more than that. No curve ever falls. The order of rows and names
    changes nothing but an inexact `name_blind`.

    **Cost.** One semi-matching, and for each k at most k passes over the tasks with so few labels;
    the exact search is NP-hard and takes at most `max_steps` slower ones.

    References
    ----------
    .. [1] Jagabathula, Subramanian, Venkataraman, "Reputation-based worker filtering in
       crowdsourcing", NIPS 2014, theorems 3 and 4.

    Examples
    --------
    >>> from quality import encode
    >>> labels = encode(list("abcabcab"), list("11122233"), list("xxxyyyxx"))
    >>> bounds = robustness_bounds(labels, max_adversaries=3)
    >>> bounds
    RobustnessBounds(up to 3 adversaries turn between 2 and 3 of 3 tasks)
    >>> bounds.name_blind  # three workers labelled all three tasks, two of them one
    array([0. , 0.5, 1.5])
    """
    if not max_adversaries >= 1:
        raise ValueError(f"max_adversaries must be >= 1, got max_adversaries={max_adversaries}")
    if not max_steps >= 0:
        raise ValueError(f"max_steps must be >= 0, got max_steps={max_steps}")
    start = np.append(0, labels.task_start[1:][np.diff(labels.task_start) > 0])  # of labelled tasks
    edges = np.ones(labels.n_labels, dtype=np.int8), labels.worker, start
    graph = csr_array(edges, shape=(len(start) - 1, labels.n_workers))
    load = np.zeros(2 * max_adversaries + 1 + labels.n_workers, dtype=np.int64)
    load[1 : 1 + labels.n_workers] = np.sort(semi_matching(graph).load)[::-1]
    total = np.cumsum(load)  # total[i] = d_1 + ... + d_i
    n_adversaries = np.arange(1, max_adversaries + 1)
    resting, exact = _resting_curve(labels, max_adversaries, max_steps, progress)
    return RobustnessBounds(
        n_adversaries=n_adversaries,
        lower=total[n_adversaries - 1],
        upper_one_right=total[n_adversaries],
        upper=total[2 * n_adversaries],
        name_blind=resting / 2,
        name_blind_exact=exact,
        n_tasks=len(start) - 1,
    )


def weakest_workers(
    worker: Int[np.ndarray, " labels"],
    task_start: Int64[np.ndarray, " offsets"],
    n_workers: int,
    *,
    max_steps: int,
) -> frozenset[int]:
    """Workers, at most so many, on whom alone as many tasks rest as the search could find.

    Parameters
    ----------
    worker, task_start
        Worker codes by task; those of task ``t`` are ``worker[task_start[t]:task_start[t + 1]]``.
    n_workers
        At most so many; at least 0.
    max_steps
        Of the exact search, as in :func:`robustness_bounds`.

    Examples
    --------
    Tasks 0 and 1 rest on worker 0, task 2 on workers 1 and 2.

    >>> weakest_workers(np.array([0, 0, 1, 2]), np.array([0, 1, 2, 4]), 1, max_steps=10)
    frozenset({0})
    """
    members = few_worker_tasks(worker, task_start, n_workers)
    taken = greedy_workers(members, int(worker.max(initial=-1)) + 1, n_workers)
    best = frozenset(np.flatnonzero(taken).tolist())
    if not max_steps:
        return best
    return _search(_worker_sets(members), n_workers, best, max_steps, lambda _: None)[0]


def _resting_curve(
    labels: CrowdLabels, most: int, max_steps: int, progress: Progress | None
) -> tuple[Int64[np.ndarray, " curve"], Bool[np.ndarray, " curve"]]:
    """For each k the most tasks that k workers labelled among themselves, and if that is sure."""
    members = few_worker_tasks(labels.worker, labels.task_start, most)
    sets = _worker_sets(members) if max_steps else Sets()
    resting, exact = np.zeros(most, dtype=np.int64), np.zeros(most, dtype=np.bool_)
    best = np.zeros(labels.n_workers, dtype=np.bool_)
    for k in range(1, most + 1):
        taken = greedy_workers(members, labels.n_workers, k)
        best = max(best, taken, key=lambda chosen: n_resting(members, chosen))
        steps = 1 + max_steps
        tell = counter(progress, "robustness", most * steps, before=(k - 1) * steps)
        tell(1)
        if max_steps:
            small = Counter({workers: n for workers, n in sets.items() if len(workers) <= k})
            start = frozenset(np.flatnonzero(best).tolist())
            found, exact[k - 1] = _search(small, k, start, max_steps, tell)
            best = np.isin(np.arange(labels.n_workers), list(found))
        resting[k - 1] = n_resting(members, best)
    return resting, exact


def _worker_sets(members: Int32[np.ndarray, "tasks most"]) -> Sets:
    """The sets of workers of these tasks, and how many tasks each has."""
    return Counter(frozenset(worker for worker in row if worker >= 0) for row in members.tolist())


def _resting(sets: Sets, taken: frozenset[int]) -> int:
    """Tasks that rest on these workers."""
    return sum(n_tasks for workers, n_tasks in sets.items() if workers <= taken)


def _search(
    sets: Sets, k: int, best: frozenset[int], max_steps: int, tell: Callable[[int], object]
) -> tuple[frozenset[int], bool]:
    """Branch and bound over workers in or out: those with the most tasks; was the search whole."""
    todo: list[tuple[frozenset[int], frozenset[int]]] = [(frozenset(), frozenset())]
    most, n_steps = _resting(sets, best), 0
    while todo:
        if n_steps == max_steps:
            return best, False
        n_steps += 1
        taken, out = todo.pop()
        done, weight = 0, Counter[int]()
        for workers, n_tasks in sets.items():
            new = workers - taken
            if not new:
                done += n_tasks
            elif len(new) <= k - len(taken) and not new & out:
                # a task counts in parts with each of its workers who is yet to be taken
                weight.update(dict.fromkeys(new, n_tasks / len(new)))
        if done > most:
            best, most = taken, done
        highest = sorted(weight.items(), key=lambda item: (-item[1], item[0]))
        bound = done + sum(share for _, share in highest[: k - len(taken)])
        if highest and bound > most + 1 - 1e-6:  # room for one task more
            worker = highest[0][0]
            todo += [(taken, out | {worker}), (taken | {worker}, out)]
        tell(1 + n_steps)
    return best, True
