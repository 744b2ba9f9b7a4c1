"""Bounds on the number of tasks that k adversaries could turn, from the assignment graph.

>>> from quality import encode
>>> labels = encode(list("abcabcab"), list("11122233"), list("xxxyyyxx"))
>>> robustness_bounds(labels, max_adversaries=3).upper
array([2, 3, 3])

All workers are taken as honest and perfectly accurate, and k adversaries who know everything are added to
them. The number of tasks that they can turn then depends on the assignment graph alone. Against the
penalty-based aggregator it is bounded by the loads ``d_1 >= d_2 >= ...`` of an optimal semi-matching of the
*tasks* to the workers. Against every rule that ignores names it is bounded by the tasks that rest on few
workers: if adversaries mirror all workers of such tasks, no rule can distinguish the two sides. These
workers are chosen greedily, in time linear in the tasks for each worker chosen, and then by an exact search
of limited steps.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, Int, Int32, Int64
from scipy.sparse import csr_array

from quality.argument_types import check_arguments
from quality.labels import CrowdLabels, freeze_arrays
from quality.matching import semi_matching
from quality.parallel import Progress, counter, kernel

__all__ = [
    "RobustnessBounds",
    "few_worker_tasks",
    "greedy_workers",
    "n_resting",
    "robustness_bounds",
    "weakest_workers",
]

NOBODY = -1  # pads the rows of tasks with fewer workers
TAKEN, OUT = 1, -1  # a worker's side in the exact search
SPREAD = np.uint64(0x9E3779B97F4A7C15)  # an odd multiplier that spreads hashes over the table


def few_worker_tasks(
    worker: Int[np.ndarray, " labels"], task_start: Int64[np.ndarray, " offsets"], most: int
) -> Int32[np.ndarray, "tasks most"]:
    """Return the workers of each task that has one to `most` of them, in order, then -1.

    Rows are as wide as the longest, whatever `most` is.

    Examples
    --------
    >>> few_worker_tasks(np.array([0, 2, 1, 0, 1, 2]), np.array([0, 1, 3, 6]), 2)
    array([[ 0, -1],
           [ 1,  2]], dtype=int32)
    """
    n_labels = np.diff(task_start)
    small = np.flatnonzero((n_labels > 0) & (n_labels <= most))
    place = np.arange(n_labels[small].max(initial=0))
    there = place < n_labels[small, np.newaxis]
    entry = np.where(there, task_start[small, np.newaxis] + place, 0)
    after = np.iinfo(np.int32).max
    rows = np.sort(np.where(there, worker[entry], after), axis=1)
    return np.where(rows == after, NOBODY, rows).astype(np.int32)


def greedy_workers(
    members: Int32[np.ndarray, "tasks most"],
    n_workers: int,
    k: int,
    *,
    known: dict[bytes, tuple[int, int]] | None = None,
) -> Bool[np.ndarray, " workers"]:
    """Choose at most k workers greedily: the set of workers that gains most tasks per worker comes first.

    Parameters
    ----------
    members
        The workers of each task, as :func:`few_worker_tasks` returns them.
    n_workers, k
        The number of workers, and how many of them may be taken.
    known
        Results of earlier calls with these members, from the largest `k` down, which save work; new ones
        are added to it. None if there are none.

    Returns
    -------
    ndarray
        True for each worker who is taken. Among equal gains the smaller set comes first, then the
        higher codes.

    Examples
    --------
    >>> tasks = np.array([[0, -1], [1, 2], [1, 2], [1, 2]], dtype=np.int32)
    >>> greedy_workers(tasks, 3, 2), greedy_workers(tasks, 3, 1)
    (array([False,  True,  True]), array([ True, False, False]))
    """
    slots = 1 << (2 * max(1, len(members)) - 1).bit_length()
    table = np.empty(slots, dtype=np.int64)
    taken = np.zeros(n_workers, dtype=np.bool_)
    gain, n_new = np.empty((2, len(members)), dtype=np.int64)
    known = {} if known is None else known
    while (room := k - int(np.count_nonzero(taken))) > 0:
        key = np.flatnonzero(taken).tobytes()
        most, row = known.get(key, (0, -1))
        # the best set for more room is also the best here, if it fits
        if room > most or (row >= 0 and _n_more(members[row], taken) > room):
            table.fill(-1)
            row = _richest(members, taken, room, table, gain, n_new)
            known[key] = room, row
        if row < 0:
            break
        taken[members[row][members[row] != NOBODY]] = True
    return taken


def _n_more(members: Int32[np.ndarray, " most"], taken: Bool[np.ndarray, " workers"]) -> int:
    """Count the workers of a task who are not taken."""
    return int(np.count_nonzero(~taken[members[members != NOBODY]]))


def n_resting(members: Int32[np.ndarray, "tasks most"], taken: Bool[np.ndarray, " workers"]) -> int:
    """Count the tasks all of whose workers are taken.

    Examples
    --------
    >>> n_resting(np.array([[0, -1], [1, 2]], dtype=np.int32), np.array([True, False, True]))
    1
    """
    return int(_count_resting(members, taken))


@kernel
def _count_resting(members, taken) -> int:
    n_tasks = 0
    for row in range(len(members)):
        place = 0
        while place < members.shape[1] and (
            members[row, place] == NOBODY or taken[members[row, place]]
        ):
            place += 1
        n_tasks += place == members.shape[1]
    return n_tasks


@kernel
def _richest(
    members: Int32[np.ndarray, "tasks most"],
    taken: Bool[np.ndarray, " workers"],
    room: int,
    table: Int64[np.ndarray, " slots"],
    gain: Int64[np.ndarray, " tasks"],
    n_new: Int64[np.ndarray, " tasks"],
) -> int:
    """Return the first task of the set of untaken workers that gains most per worker; -1 if none fits."""
    mask = np.uint64(len(table) - 1)
    best = int(np.int64(-1))  # a literal would compile one more signature
    for row in range(len(members)):
        gain[row], n_new[row], mixed = 0, 0, np.uint64(0)
        for place in range(members.shape[1]):
            worker = members[row, place]
            if worker != NOBODY and not taken[worker]:
                n_new[row] += 1
                mixed = (mixed ^ np.uint64(worker + 1)) * SPREAD
        if not 0 < n_new[row] <= room:
            continue
        slot = (mixed >> np.uint64(20)) & mask
        while table[slot] >= 0 and _compare(members, taken, table[slot], row) != 0:
            slot = (slot + np.uint64(1)) & mask
        if table[slot] < 0:
            table[slot] = row
        gain[table[slot]] += 1
    for row in range(len(members)):
        if gain[row] > 0:
            if best < 0:
                best = row
                continue
            more = gain[row] * n_new[best] - gain[best] * n_new[row]
            if more == 0:
                more = n_new[best] - n_new[row]
            if more == 0:
                more = _compare(members, taken, row, best)
            if more > 0:
                best = row
    return best


@kernel
def _compare(members, taken, a, b):
    """Return < 0, 0 or > 0 if the untaken workers of `a` come before, equal or come after those of `b`."""
    i, j, most = 0, 0, members.shape[1]
    while True:
        while i < most and (members[a, i] == NOBODY or taken[members[a, i]]):
            i += 1
        while j < most and (members[b, j] == NOBODY or taken[members[b, j]]):
            j += 1
        if i == most or j == most:
            return (i < most) - (j < most)
        if members[a, i] != members[b, j]:
            return 1 if members[a, i] > members[b, j] else -1
        i, j = i + 1, j + 1


@dataclass(frozen=True, slots=True, eq=False)
class _Sets:
    """Sets of workers, in the order of their first tasks, and how many tasks each one labelled together."""

    members: Int32[np.ndarray, "sets most"]
    n_tasks: Int64[np.ndarray, " sets"]
    n_workers: int

    @classmethod
    def of(cls, members: Int32[np.ndarray, "tasks most"], n_workers: int) -> "_Sets":
        """Count the tasks of each set."""
        rows, first, n_tasks = np.unique(members, axis=0, return_index=True, return_counts=True)
        order = np.argsort(first)
        return cls(rows[order], n_tasks[order], n_workers)

    def up_to(self, k: int) -> "_Sets":
        """Return the sets of at most k workers."""
        small = np.count_nonzero(self.members != NOBODY, axis=1) <= k
        return _Sets(self.members[small], self.n_tasks[small], self.n_workers)

    def shares(
        self, taken: frozenset[int], out: frozenset[int], room: int
    ) -> tuple[int, Float64[np.ndarray, " workers"]]:
        """Return the tasks of sets that are taken, and what each worker bears of those that fit."""
        side, share = np.zeros(self.n_workers, dtype=np.int8), np.zeros(self.n_workers)
        side[list(taken)], side[list(out)] = TAKEN, OUT
        return int(_share_out(self.members, self.n_tasks, side, room, share)), share


@kernel
def _share_out(members, n_tasks, side, room, share) -> int:
    done = 0
    for row in range(len(members)):
        n_new, is_out = 0, False
        for place in range(members.shape[1]):
            worker = members[row, place]
            if worker != NOBODY and side[worker] != TAKEN:
                n_new += 1
                is_out = is_out or side[worker] == OUT
        if n_new == 0:
            done += n_tasks[row]
        elif n_new <= room and not is_out:
            # each untaken worker of a task bears an equal part of it
            for place in range(members.shape[1]):
                worker = members[row, place]
                if worker != NOBODY and side[worker] != TAKEN:
                    share[worker] += n_tasks[row] / n_new
    return done


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RobustnessBounds:
    """Result of :func:`robustness_bounds`; one entry per number of adversaries.

    Parameters
    ----------
    n_adversaries
        Numbers of adversaries: 1, 2, ...
    lower
        Adversaries can turn at least so many tasks against the penalty-based aggregator.
    upper_one_right
        They can turn at most so many against it while at most one adversary ever answers right.
    upper
        They can turn at most so many against it in any way.
    name_blind
        They can turn at least so many tasks against any rule that ignores names: half the tasks that rest
        on that many workers.
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


@check_arguments
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
        Labels of the workers kept, all of whom are taken as honest; only the assignment graph is used.
    max_adversaries
        The largest k, at least 1.
    max_steps
        At most so many steps of the exact search for each k, at least 0; the greedy lower bound stands if
        they are not enough.
    progress
        Called after each step of the search, and once before it for each k; see
        :data:`quality.parallel.Progress`.

    Raises
    ------
    ValueError
        If a parameter is out of its range.

    Notes
    -----
    **Assumptions.** Every worker kept is honest and always right; labels have two classes; the
    adversaries know everything and work together. `lower`, `upper_one_right` and `upper` are about the
    penalty-based aggregator alone: against majority vote, for example, far fewer adversaries may do more.

    **Guarantees.** With loads ``d_1 >= d_2 >= ...`` of the optimal semi-matching: `lower` is
    d_1 + ... + d_(k-1), `upper_one_right` d_1 + ... + d_k, `upper` d_1 + ... + d_2k. `name_blind`
    is half the largest number of tasks that at most k workers labelled among themselves where
    ``name_blind_exact``, else no more than that. No curve ever falls. The order of rows and names
    can change an inexact `name_blind`, and nothing else.

    **Cost.** One semi-matching, and for each k at most k passes over the tasks with so few labels;
    the exact search is NP-hard and takes at most `max_steps` slower ones for each k, which go through all
    sets of workers: seconds for 10,000 labels, minutes for a million. Without steps it is quick.

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
    """Return at most `n_workers` workers who label as many tasks among themselves as the search can find.

    Parameters
    ----------
    worker, task_start
        Worker codes by task; those of task ``t`` are ``worker[task_start[t]:task_start[t + 1]]``.
    n_workers
        The largest number of workers to return, at least 0.
    max_steps
        Steps of the exact search, as in :func:`robustness_bounds`.

    Examples
    --------
    Tasks 0 and 1 rest on worker 0, task 2 on workers 1 and 2.

    >>> weakest_workers(np.array([0, 0, 1, 2]), np.array([0, 1, 2, 4]), 1, max_steps=10)
    frozenset({0})
    """
    members = few_worker_tasks(worker, task_start, n_workers)
    n_all = int(worker.max(initial=-1)) + 1
    taken = greedy_workers(members, n_all, n_workers)
    best = frozenset(np.flatnonzero(taken).tolist())
    if not max_steps:
        return best
    return _search(_Sets.of(members, n_all), n_workers, best, max_steps, lambda _: None)[0]


def _resting_curve(
    labels: CrowdLabels, most: int, max_steps: int, progress: Progress | None
) -> tuple[Int64[np.ndarray, " curve"], Bool[np.ndarray, " curve"]]:
    """Return, for each k, the most tasks found that k workers label alone, and whether it is proved."""
    members = few_worker_tasks(labels.worker, labels.task_start, most)
    sets = _Sets.of(members if max_steps else members[:0], labels.n_workers)
    resting, exact = np.zeros(most, dtype=np.int64), np.zeros(most, dtype=np.bool_)
    best = np.zeros(labels.n_workers, dtype=np.bool_)
    known: dict[bytes, tuple[int, int]] = {}
    greedy = [
        greedy_workers(members, labels.n_workers, k, known=known) for k in range(most, 0, -1)
    ][::-1]
    for k, taken in enumerate(greedy, start=1):
        best = max(best, taken, key=lambda chosen: n_resting(members, chosen))
        steps = 1 + max_steps
        tell = counter(progress, "robustness", most * steps, before=(k - 1) * steps)
        tell(1)
        if max_steps:
            start = frozenset(np.flatnonzero(best).tolist())
            found, exact[k - 1] = _search(sets.up_to(k), k, start, max_steps, tell)
            best = np.isin(np.arange(labels.n_workers), list(found))
        resting[k - 1] = n_resting(members, best)
    return resting, exact


def _search(
    sets: _Sets, k: int, best: frozenset[int], max_steps: int, tell: Callable[[int], object]
) -> tuple[frozenset[int], bool]:
    """Return the k workers with the most tasks by branch and bound, and whether the search was complete."""
    todo: list[tuple[frozenset[int], frozenset[int]]] = [(frozenset(), frozenset())]
    most, n_steps = sets.shares(best, frozenset(), 0)[0], 0
    while todo:
        if n_steps == max_steps:
            return best, False
        n_steps += 1
        taken, out = todo.pop()
        room = k - len(taken)
        done, share = sets.shares(taken, out, room)
        if done > most:
            best, most = taken, done
        highest = np.argsort(-share, kind="stable")[:room]
        bound = done + sum(share[highest].tolist())
        if share.any() and bound > most + 1 - 1e-6:  # one task more is possible
            worker = int(highest[0])
            todo += [(taken, out | {worker}), (taken | {worker}, out)]
        tell(1 + n_steps)
    return best, True
