"""The iterative filter: remove the worker with the highest penalty, recompute, and go on.

>>> from quality import encode
>>> labels = encode(["ann", "bob", "cy"] * 3, list("111222333"), list("xxyyyxxxy"))
>>> filter_workers(labels, n_workers=1).removed
array([2], dtype=int32)

``ShrinkingCrowd`` keeps the sums that the filter needs of the workers left. A removal reads only the tasks
of the worker who goes. The sums are integers and equal, to the bit, those of a table made anew.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float64, Int32, Int64, Num

from quality.argument_types import check_arguments
from quality.labels import CrowdLabels, LabelShard, freeze_arrays
from quality.matching import DynamicMatching
from quality.parallel import Progress, counter, kernel
from quality.reputation.penalties import (
    hard_level,
    mean_share,
    share_sums,
    shares_of,
    soft_penalty,
    tally_shares,
    unit_shares,
    worker_share,
)

__all__ = [
    "Filtered", "LosingWorkers", "Removals", "ShrinkingCrowd", "Standing", "filter_workers", "labels_left",
    "removal_limit", "remove_highest", "tally_agreed", "why_refused",
]  # fmt: skip


class ShrinkingCrowd:
    """The labels of the workers left, their agreement with the majority and their soft penalty.

    Parameters
    ----------
    labels
        The crowd to begin with.
    """

    def __init__(self, labels: CrowdLabels) -> None:
        self.labels = labels
        self.keep = np.ones(labels.n_workers, dtype=np.bool_)
        self._unit = unit_shares(labels)
        self._share: np.ndarray | None = None  # see tally_shares; kept from the first call on
        self._agreed: np.ndarray | None = None  # labels equal to the majority's; likewise
        self._standing: Standing | None = None
        self.n_labels = np.diff(labels.worker_start)

    def table(self) -> CrowdLabels:
        """Return the labels of the workers left as a table of its own."""
        return self.labels if self.keep.all() else self.labels.keep_workers(self.keep)

    def tasks_of(self, worker: int) -> Int32[np.ndarray, " hers"]:
        """Return the tasks of a worker, ascending."""
        hers = slice(*self.labels.worker_start[worker : worker + 2])
        tasks: np.ndarray = self.labels.task[self.labels.worker_order[hers]]
        return tasks

    def labels_left(self, tasks: Int32[np.ndarray, " chosen"]) -> Int32[np.ndarray, " chosen"]:
        """Return how many labels of workers left each of these tasks has."""
        return labels_left(tasks, self.labels.task_start, self.labels.worker, self.keep)

    def refusal(self, worker: int, min_labels_per_task: int) -> str:
        """Return why this worker cannot go; empty if she can."""
        tasks = self.tasks_of(worker)
        short = tasks[self.labels_left(tasks) - 1 < min_labels_per_task]
        first = self.labels.tasks[short[0]] if len(short) else ""
        return why_refused(len(short), min_labels_per_task, str(first))

    def remove(self, worker: int) -> None:
        """Take a worker out."""
        tasks = self.tasks_of(worker)
        self._tally(tasks, -1)
        self.keep[worker] = False
        self._tally(tasks, 1)
        if self._standing is not None:
            self._standing.changed(tasks, self.labels)

    def highest(self, judged: Bool[np.ndarray, " workers"]) -> tuple[int, float]:
        """Return the judged worker with the highest soft penalty, by the filter's rule, and that penalty."""
        if self._standing is None:
            self._standing = Standing(self._shares(), self._agreeing(), self.n_labels)
        return self._standing.highest(judged)

    def soft_penalty(self) -> Float64[np.ndarray, " workers"]:
        """Return :func:`quality.soft_penalty` of the workers left."""
        return mean_share(self._shares())

    def agreement(self, chosen: slice | np.ndarray = slice(None)) -> Float64[np.ndarray, " chosen"]:
        """Return the share of the labels of each worker chosen that the majority of those left gave."""
        return shares_of(self._agreeing()[chosen], self.n_labels[chosen])

    def _shares(self) -> Int64[np.ndarray, "workers 3"]:
        if self._share is None:
            (self._share,) = share_sums(self.labels, self.keep)
        return self._share

    def _agreeing(self) -> Int64[np.ndarray, " workers"]:
        if self._agreed is None:
            self._agreed = np.zeros(self.labels.n_workers, dtype=np.int64)
            tasks = np.arange(self.labels.n_tasks, dtype=np.int32)
            tally_agreed(self._agreed, tasks, 1, self.labels, self.keep)
        return self._agreed

    def _tally(self, tasks: Int32[np.ndarray, " chosen"], sign: int) -> None:
        """Add these tasks to the sums in use, or subtract them."""
        if self._share is not None:
            tally_shares(self._share, tasks, sign, self.labels, self.keep, self._unit)
        if self._agreed is not None:
            tally_agreed(self._agreed, tasks, sign, self.labels, self.keep)


def why_refused(n_short: int, min_labels_per_task: int, first: str) -> str:
    """Return why a worker cannot go whose removal leaves `n_short` tasks short; empty if she can."""
    if not n_short:
        return ""
    count = "1 task" if n_short == 1 else f"{n_short} tasks"
    least = "1 label" if min_labels_per_task == 1 else f"{min_labels_per_task} labels"
    return f"{count} would be left with fewer than {least}, the first is {first}"


def labels_left(
    tasks: Int32[np.ndarray, " chosen"],
    task_start: Int64[np.ndarray, " offsets"],
    worker: Int32[np.ndarray, " labels"],
    keep: Bool[np.ndarray, " workers"],
) -> Int32[np.ndarray, " chosen"]:
    """Return how many labels of workers left each of these tasks has."""
    left = np.zeros(len(tasks), dtype=np.int32)
    _count_left(tasks, task_start, worker, keep, left)
    return left


@kernel
def _count_left(tasks, task_start, worker, keep, left) -> None:
    for place in range(len(tasks)):
        for row in range(task_start[tasks[place]], task_start[tasks[place] + 1]):
            left[place] += keep[worker[row]]


def tally_agreed(
    agreed: Int64[np.ndarray, " workers"],
    tasks: Int32[np.ndarray, " chosen"],
    sign: int,
    labels: CrowdLabels | LabelShard,
    keep: Bool[np.ndarray, " workers"],
) -> None:
    """Count, on each task, the workers who gave the majority's class, the lowest code among equals."""
    n_same = np.zeros(labels.n_classes, dtype=np.int64)
    rows = labels.task_start, labels.worker, labels.label
    _tally_agreed(agreed, tasks, sign, *rows, keep, n_same)


@kernel
def _tally_agreed(agreed, tasks, sign, task_start, worker, label, keep, n_same) -> None:
    for at in range(len(tasks)):
        task = tasks[at]
        best = 0
        for row in range(task_start[task], task_start[task + 1]):
            if keep[worker[row]]:
                given = label[row]
                n_same[given] += 1
                if n_same[given] > n_same[best] or (n_same[given] == n_same[best] and given < best):
                    best = given
        for row in range(task_start[task], task_start[task + 1]):
            if keep[worker[row]] and label[row] == best:
                agreed[worker[row]] += sign
            n_same[label[row]] = 0


TIE = 1e-12  # penalties closer than this are equal: rounding must not choose a worker
BLOCK = 1024  # workers in a block, whose highest penalty is kept


class Standing:
    """The worker who goes next by soft penalty: each block's highest, found anew after a change in the block.

    It reads the sums that the remover keeps: the tally of shares, and the labels equal to the majority's.
    """

    def __init__(self, share: np.ndarray, agreed: np.ndarray, n_labels: np.ndarray) -> None:
        self._about = share, agreed, n_labels.astype(np.int64)
        self._stale = np.ones(-(-len(n_labels) // BLOCK), dtype=np.bool_)
        self._most, self._first = np.zeros(len(self._stale)), np.zeros(len(self._stale), np.int64)

    def changed(
        self, tasks: Int32[np.ndarray, " chosen"], labels: CrowdLabels | LabelShard
    ) -> None:
        """Mark the blocks of the workers who have labels of these tasks."""
        _mark(self._stale, tasks, labels.task_start, labels.worker)

    def highest(self, judged: Bool[np.ndarray, " workers"]) -> tuple[int, float]:
        """Return the judged worker who goes next, judged no more then, and her penalty; 0 for none."""
        worker = int(_highest(judged, *self._about, self._stale, self._most, self._first))
        if worker < 0:
            return worker, 0.0
        self._stale[worker // BLOCK] = True
        return worker, float(worker_share(self._about[0], worker))


@kernel
def _mark(stale, tasks, task_start, worker) -> None:
    for at in range(len(tasks)):
        for row in range(task_start[tasks[at]], task_start[tasks[at] + 1]):
            stale[worker[row] // BLOCK] = True


@kernel
def _highest(judged, share, agreed, n_labels, stale, most, first) -> int:
    """Return the worker who goes next, after the blocks that have changed are read anew."""
    for block in range(len(stale)):
        if stale[block]:
            stale[block], most[block] = False, 0.0
            for worker in range(block * BLOCK, min((block + 1) * BLOCK, len(judged))):
                if judged[worker]:
                    most[block] = max(most[block], worker_share(share, worker))
            first[block] = _first(block, most[block], judged, share, agreed, n_labels)
    highest, found = max(most), -1
    for block in range(len(stale) if highest > 0.0 else 0):
        if most[block] >= highest - TIE:
            one = first[block]
            if most[block] < highest:  # an equal of another block may go before this block's
                one = _first(block, highest, judged, share, agreed, n_labels)
            if found < 0 or agreed[one] / n_labels[one] < agreed[found] / n_labels[found]:
                found = one
    return found


@kernel
def _first(block, penalty, judged, share, agreed, n_labels) -> int:
    """Return the first to go of a block's workers with this penalty; -1 if none of the block is judged."""
    found = -1
    for worker in range(block * BLOCK, min((block + 1) * BLOCK, len(judged))):
        if not (judged[worker] and worker_share(share, worker) >= penalty - TIE):
            continue
        if found < 0 or agreed[worker] / n_labels[worker] < agreed[found] / n_labels[found]:
            found = worker
    return found


Penalty = Callable[[CrowdLabels], Num[np.ndarray, " workers"]]
Highest = Callable[[], tuple[int, float]]  # the worker with the highest penalty, and the penalty


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Filtered:
    """Result of :func:`filter_workers`.

    Parameters
    ----------
    keep
        False for each worker who was removed.
    removed, removed_penalty
        Worker codes in the order of removal, and the penalty of each at that moment.
    refused, refused_penalty, refused_reason
        Workers who had the highest penalty but were kept, and why.
    criterion
        The name of the penalty, in words.
    stopped
        Why the filter stopped, in words.
    """

    keep: Bool[np.ndarray, " workers"]
    removed: Int32[np.ndarray, " removed"]
    removed_penalty: Float64[np.ndarray, " removed"]
    refused: Int32[np.ndarray, " refused"]
    refused_penalty: Float64[np.ndarray, " refused"]
    refused_reason: tuple[str, ...]
    criterion: str
    stopped: str

    def __post_init__(self) -> None:
        freeze_arrays(self)

    def __repr__(self) -> str:
        return (
            f"Filtered({len(self.removed)} of {len(self.keep)} workers removed by "
            f"{self.criterion}, {len(self.refused)} refused; {self.stopped})"
        )


@check_arguments
def filter_workers(
    labels: CrowdLabels,
    *,
    penalty: Penalty = soft_penalty,
    n_workers: int | None = None,
    fraction: float | None = None,
    min_labels_per_task: int = 1,
    progress: Progress | None = None,
) -> Filtered:
    """Remove the worker with the highest penalty, recompute for the workers left, and go on.

    Parameters
    ----------
    labels
        The crowd's labels.
    penalty
        From labels to one penalty per worker, at least 0; a worker with 0 is not removed.
    n_workers, fraction
        Exactly one is given. Stop after this many removals, at least 0; or after this share of
        the workers who have labels, in [0, 1], rounded down.
    min_labels_per_task
        A removal that would leave a task that has labels with fewer than this is refused, and the
        filter goes on with the next worker. At least 0; 0 refuses nothing.
    progress
        Called after every removal; see :data:`~quality.parallel.Progress`.

    Raises
    ------
    ValueError
        If not exactly one of `n_workers` and `fraction` is given, or a value is out of its range, or
        `penalty` does not return one number per worker, or NaN for one left to judge.

    Notes
    -----
    **Guarantees.** Of equal penalties the worker with the lower agreement with the majority of the workers
    left goes first, then the lower code. No task falls below `min_labels_per_task` by a removal. The
    filter stops early when nobody left to judge has a penalty above 0. The result is the same on
    every run.

    **Limits.** A fixed number of removals removes honest workers where there are fewer
    adversaries than that; :func:`filter_dishonest` stops by what the labels show. Do not filter
    malicious workers before Dawid–Skene, which can turn their inverted labels round and use them.

    **Cost.** With :func:`quality.soft_penalty` or :func:`quality.hard_level` a removal reads the tasks of
    the worker who goes, and repairs the semi-matching; the result is the same as with everything computed
    anew. Any other penalty is called on a new table per removal.

    References
    ----------
    .. [1] Jagabathula, Subramanian, Venkataraman, "Reputation-based worker filtering in
       crowdsourcing", NIPS 2014, section 4.

    Examples
    --------
    >>> from quality import encode
    >>> labels = encode(["ann", "bob", "cy"] * 3, list("111222333"), list("xxyyyxxxy"))
    >>> filtered = filter_workers(labels, n_workers=1)
    >>> filtered
    Filtered(1 of 3 workers removed by soft penalty, 0 refused; 1 of 1 removals made)
    >>> labels.workers[filtered.removed]
    array(['cy'], dtype='<U3')
    """
    if not min_labels_per_task >= 0:
        message = f"must be >= 0, got min_labels_per_task={min_labels_per_task}"
        raise ValueError(f"min_labels_per_task {message}")
    crowd = ShrinkingCrowd(labels)
    limit = removal_limit(crowd.n_labels, n_workers, fraction)
    removals = Removals(crowd, min_labels_per_task, counter(progress, "removals", limit))
    if penalty is hard_level:
        _remove_highest_level(removals, crowd, limit)
    elif penalty is soft_penalty:
        remove_highest(removals, lambda: crowd.highest(removals.judged), limit)
    else:
        remove_highest(removals, _highest_by(penalty, removals, crowd), limit)
    return removals.filtered(getattr(penalty, "__name__", "penalty").replace("_", " "), limit)


def _called(
    penalty: Penalty, labels: CrowdLabels, judged: Bool[np.ndarray, " workers"]
) -> Float64[np.ndarray, " workers"]:
    """Return a caller's penalties; raise ValueError for NaN, beside which no penalty is the highest."""
    found = np.asarray(penalty(labels), np.float64)
    if found.shape != judged.shape:
        raise ValueError(
            f"penalty must return {len(judged)} numbers, one per worker, got shape {found.shape}"
        )
    if np.isnan(found[judged]).any():
        worker = labels.workers[judged & np.isnan(found)][0]
        raise ValueError(
            f"penalty must return a number for each worker with labels, got NaN for {worker}"
        )
    return found


@runtime_checkable
class LosingWorkers(Protocol):
    """A crowd that loses workers, like :class:`~quality.reputation.filtering.ShrinkingCrowd`."""

    keep: np.ndarray
    n_labels: np.ndarray

    def highest(self, judged: np.ndarray) -> tuple[int, float]:
        """Return the judged worker with the highest soft penalty, by the filter's rule, and that penalty."""

    def refusal(self, worker: int, min_labels_per_task: int) -> str:
        """Return why this worker cannot go; empty if she can."""

    def remove(self, worker: int) -> None:
        """Take a worker out."""


class Removals:
    """The workers left, the workers still to be judged, and the removals and refusals so far."""

    def __init__(
        self, crowd: LosingWorkers, min_labels_per_task: int, tell: Callable[[int], object]
    ) -> None:
        self.crowd = crowd
        self.least, self.tell = min_labels_per_task, tell
        self.judged = crowd.n_labels > 0  # still left, and not refused
        self.removed: list[tuple[int, float]] = []
        self.refused: list[tuple[int, float, str]] = []

    def remove(self, worker: int, penalty: float) -> bool:
        """Remove the worker, or note why she cannot go; she is not judged again."""
        self.judged[worker] = False
        if reason := self.crowd.refusal(worker, self.least):
            self.refused.append((worker, penalty, reason))
            return False
        self.removed.append((worker, penalty))
        self.crowd.remove(worker)
        self.tell(len(self.removed))
        return True

    def filtered(self, criterion: str, limit: int) -> Filtered:
        """Return the result of a filter that makes at most so many removals."""
        stopped = f"{len(self.removed)} of {limit} removals made"
        if len(self.removed) < limit:
            stopped += ": nobody else to remove"
        return Filtered(
            keep=self.crowd.keep,
            removed=np.array([entry[0] for entry in self.removed], dtype=np.int32),
            removed_penalty=np.array([entry[1] for entry in self.removed], dtype=np.float64),
            refused=np.array([entry[0] for entry in self.refused], dtype=np.int32),
            refused_penalty=np.array([entry[1] for entry in self.refused], dtype=np.float64),
            refused_reason=tuple(entry[2] for entry in self.refused),
            criterion=criterion,
            stopped=stopped,
        )


def remove_highest(state: Removals, highest: Highest, limit: int) -> None:
    """Remove the worker with the highest penalty until so many are gone or nobody has one."""
    while len(state.removed) < limit and state.judged.any():
        worker, penalty = highest()
        if not penalty > 0:
            return
        state.remove(worker, penalty)


def _highest_by(penalty: Penalty, state: Removals, crowd: ShrinkingCrowd) -> Highest:
    """Return a function that finds the highest by a caller's penalty, on a table of the workers left."""
    known: dict[int, np.ndarray] = {}  # by the number of removals: a refusal changes no penalty

    def highest() -> tuple[int, float]:
        gone = len(state.removed)
        if gone not in known:
            known.clear()
            known[gone] = _called(penalty, crowd.table(), state.judged)
        value, judged = known[gone], state.judged
        worst = np.flatnonzero(judged & (value >= value[judged].max() - TIE))
        worker = worst[np.argmin(crowd.agreement(worst))]  # ties as guaranteed
        return int(worker), float(value[worker])

    return highest


def _remove_highest_level(state: Removals, crowd: ShrinkingCrowd, limit: int) -> None:
    """Remove the highest by hard level; the semi-matching behind the levels is repaired."""
    start, given = crowd.labels.task_start, crowd.labels.worker
    matching, rank, changed = DynamicMatching(crowd.labels), crowd.agreement(), None
    while len(state.removed) < limit and state.judged.any():
        worker = matching.highest(state.judged, rank, changed)
        if not (level := matching.level(worker)):
            return
        tasks = crowd.tasks_of(worker)
        changed = np.concatenate([given[start[task] : start[task + 1]] for task in tasks])
        if state.remove(worker, float(level)):
            matching.remove(worker)
            rank[changed] = crowd.agreement(changed)


def removal_limit(
    n_labels: Int64[np.ndarray, " workers"], n_workers: int | None, fraction: float | None
) -> int:
    """Return the number of removals asked for, in a crowd with so many labels a worker."""
    if n_workers is not None and fraction is None:
        if not n_workers >= 0:
            raise ValueError(f"n_workers must be >= 0, got n_workers={n_workers}")
        return int(n_workers)
    if fraction is not None and n_workers is None:
        if not 0 <= fraction <= 1:
            raise ValueError(f"fraction must be in [0, 1], got fraction={fraction}")
        # 0.29 * 100 is 28.999... in floating point
        return int(fraction * np.count_nonzero(n_labels) + 1e-9)
    raise ValueError(
        "exactly one of n_workers and fraction must be given, "
        f"got n_workers={n_workers}, fraction={fraction}"
    )
