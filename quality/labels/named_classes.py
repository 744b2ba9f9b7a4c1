"""Sparse tables of tasks by classes: only the classes that each task was given have entries.

With a thousand classes a task is given a few of them, and one number is enough for all others.

>>> from quality.labels.table import encode
>>> labels = encode(["ann", "bob", "cy"], [1, 1, 2], list("xyy"), classes=list("wxyz"))
>>> named = name_classes(labels)
>>> named.start, named.code, named.votes
(array([0, 2, 3]), array([1, 2, 2]), array([1., 1., 1.]))
>>> belief = NamedPosterior(named, np.array([0.6, 0.3, 0.9]), np.array([0.1, 0.1]))
>>> belief[np.array([0, 1])].round(3)
array([[0.05 , 0.6  , 0.3  , 0.05 ],
       [0.033, 0.033, 0.9  , 0.033]])
>>> belief.decide(), belief.margin().round(3), belief.entropy().round(3)
((array([1, 2], dtype=int16), array([False, False])), array([0.3  , 0.867]), array([0.967, 0.435]))
"""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Float64, Int, Int16, Int64

from quality.labels.columns import freeze_arrays
from quality.labels.table import CrowdLabels
from quality.parallel import kernel

__all__ = ["NamedClasses", "NamedPosterior", "name_classes"]

EQUAL = 1e-12  # probabilities closer than this are equal


@dataclass(frozen=True, slots=True, eq=False)
class NamedClasses:
    """The classes that each task was given, made by :func:`name_classes`.

    Parameters
    ----------
    start
        The classes named for task ``t`` are entries ``start[t]:start[t + 1]``.
    code
        The class of each entry, ascending in a task.
    votes
        How many of the task's labels name it.
    entry
        The entry that each label names.
    n_classes
        Classes of the table.
    """

    start: Int64[np.ndarray, " bounds"]
    code: Int64[np.ndarray, " entries"]
    votes: Float64[np.ndarray, " entries"]
    entry: Int64[np.ndarray, " labels"]
    n_classes: int

    def __post_init__(self) -> None:
        freeze_arrays(self)

    @property
    def task(self) -> Int64[np.ndarray, " entries"]:
        """The task of each entry."""
        return np.repeat(np.arange(len(self.start) - 1), np.diff(self.start))

    def sums(self, values: Float[np.ndarray, " entries"]) -> Float64[np.ndarray, " tasks"]:
        """Return the sum of each task's entries."""
        return np.bincount(self.task, values, len(self.start) - 1)

    def largest(self, values: Float[np.ndarray, " entries"]) -> Float64[np.ndarray, " tasks"]:
        """Return the largest of each task's entries, 0 without entries."""
        found = np.zeros(len(self.start) - 1)
        some = np.diff(self.start) > 0
        if some.any():
            found[some] = np.maximum.reduceat(values, self.start[:-1][some])
        return found

    def find(
        self, task: Int[np.ndarray, " cells"], label: Int[np.ndarray, " cells"]
    ) -> Int64[np.ndarray, " cells"]:
        """Return the entry of each task and class; -1 for a class that the task was not given."""
        cells = self.task * self.n_classes + self.code
        asked = task.astype(np.int64) * self.n_classes + label
        place = np.minimum(np.searchsorted(cells, asked), max(len(cells) - 1, 0))
        if not len(cells):
            return np.full(len(asked), -1)
        return np.where(cells[place] == asked, place, -1)


def name_classes(
    labels: CrowdLabels, gold: Int[np.ndarray, " tasks"] | None = None
) -> NamedClasses:
    """Find the classes that each task was given; the true ones of `gold` have entries too.

    Parameters
    ----------
    labels
        The crowd's labels.
    gold
        The class code of each task whose truth is known, -1 elsewhere.
    """
    size = labels.n_classes
    given = labels.task.astype(np.int64) * size + labels.label
    known = np.zeros(0, dtype=np.int64)
    if gold is not None:
        tasks = np.flatnonzero(gold >= 0)
        known = tasks * size + gold[tasks]
    cells, place = np.unique(np.concatenate([given, known]), return_inverse=True)
    entry = place[: len(given)].astype(np.int64)
    task, code = np.divmod(cells, size)
    start = np.searchsorted(task, np.arange(labels.n_tasks + 1))
    votes = np.bincount(entry, minlength=len(cells)).astype(np.float64)
    return NamedClasses(start.astype(np.int64), code, votes, entry, size)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class NamedPosterior:
    """P(truth | labels) of every task: for each class that it was given, and for all others together.

    Parameters
    ----------
    named
        The classes that each task was given.
    p
        The probability of each.
    rest
        Of each task: the probability of all classes that it was not given, in proportion to `base`.
    base
        Prior probability of each class; uniform if None.

    Notes
    -----
    **Guarantees.** ``posterior[tasks]`` returns rows of the full table, and ``posterior[tasks, labels]``
    its cells; decisions, margins and entropies are those of the full table.
    """

    named: NamedClasses
    p: Float64[np.ndarray, " entries"]
    rest: Float64[np.ndarray, " tasks"]
    base: Float64[np.ndarray, " classes"] | None = None
    _unit: Float64[np.ndarray, " tasks"] = field(init=False)  # factor on `base`

    def __post_init__(self) -> None:
        n_classes = self.named.n_classes
        base = np.full(n_classes, 1.0 / max(n_classes, 1)) if self.base is None else self.base
        room = np.maximum(1.0 - self.named.sums(base[self.named.code]), 0.0)
        there = np.diff(self.named.start) < n_classes  # counted: `room` may be rounding alone
        unit = np.divide(self.rest, room, out=np.zeros(len(room)), where=there & (room > 0))
        object.__setattr__(self, "base", base)
        object.__setattr__(self, "_unit", unit)
        freeze_arrays(self)

    def __repr__(self) -> str:
        n_tasks, n_classes = self.shape
        return f"NamedPosterior({n_tasks} tasks, {n_classes} classes, {len(self.p)} named)"

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of tasks and of classes."""
        return len(self.rest), self.named.n_classes

    def __getitem__(self, at: Any) -> np.ndarray:
        """Return the rows of some tasks, ``[tasks]``, or some cells, ``[tasks, labels]``."""
        base = self._base()
        if isinstance(at, tuple):
            task, label = (np.asarray(part) for part in at)
            entry = self.named.find(task, label)
            others: np.ndarray = self._unit[task] * base[label]
            if not len(self.p):
                return others
            cells: np.ndarray = np.where(entry >= 0, self.p[entry], others)
            return cells
        tasks = np.asarray(at)
        rows: np.ndarray = self._unit[tasks, np.newaxis] * base
        size = np.diff(self.named.start)[tasks]
        inside = np.arange(size.sum()) - np.repeat(np.cumsum(size) - size, size)
        entry = np.repeat(self.named.start[:-1][tasks], size) + inside
        rows[np.repeat(np.arange(len(tasks)), size), self.named.code[entry]] = self.p[entry]
        return rows

    def decide(self) -> tuple[Int16[np.ndarray, " tasks"], Bool[np.ndarray, " tasks"]]:
        """Return the likeliest class of each task, the lowest code among equals, and whether it ties."""
        label, tied, _ = self._likeliest()
        return label, tied

    def margin(self) -> Float64[np.ndarray, " tasks"]:
        """Return the largest probability minus the second; 1 with one class, 0 for ties up to rounding."""
        return self._likeliest()[2]

    def entropy(self) -> Float64[np.ndarray, " tasks"]:
        """Return the entropy of each task's distribution in nats."""
        base, code = self._base(), self.named.code
        of_base, of_named = _p_log_p(base), self.named.sums(_p_log_p(self.p))
        # part of the other classes: the sum of (unit b) log(unit b)
        unit, log_unit = self._unit, np.log(np.where(self._unit > 0, self._unit, 1.0))
        others = unit * (of_base.sum() - self.named.sums(of_base[code])) + self.rest * log_unit
        entropy: np.ndarray = np.maximum(-(of_named + others), 0.0)
        return entropy

    def is_sound(self) -> bool:
        """Return whether every row is a distribution."""
        whole = self.named.sums(self.p) + self.rest
        least = min(self.p.min(initial=0.0), self.rest.min(initial=0.0))
        return bool(least >= 0 and np.allclose(whole, 1.0))

    def believed(
        self, label: Int[np.ndarray, " tasks"], confidence: Float[np.ndarray, " tasks"]
    ) -> "NamedPosterior":
        """Return the posterior with `confidence` in the labels; the other classes keep their ratios.

        A task whose label is a class that it was not given keeps its row.
        """
        n_tasks, task = len(label), self.named.task
        entry = self.named.find(np.arange(n_tasks), label)
        mine = np.zeros(len(self.p), dtype=np.bool_)
        mine[entry[entry >= 0]] = True
        others = self.named.sums(np.where(mine, 0.0, self.p)) + self.rest
        scale = np.divide(1.0 - confidence, others, out=np.zeros(n_tasks), where=others > 0)
        kept = entry < 0
        scale[kept] = 1.0
        # if the other classes have probability 0, they share 1 - confidence evenly
        lost = np.where((others > 0) | kept, 0.0, 1.0 - confidence)
        each = lost / max(self.named.n_classes - 1, 1)
        n_unnamed = self.named.n_classes - np.diff(self.named.start)
        p = self.p * scale[task] + each[task]
        p[mine] = confidence[~kept]
        return replace(self, p=p, rest=self.rest * scale + each * n_unnamed)

    def _base(self) -> Float64[np.ndarray, " classes"]:
        if self.base is None:  # __post_init__ has set it
            raise AssertionError("base must be set")
        return self.base

    def _likeliest(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        n_tasks = len(self.rest)
        label, tied = np.empty(n_tasks, dtype=np.int16), np.zeros(n_tasks, dtype=np.bool_)
        margin = np.empty(n_tasks)
        order = np.argsort(-self._base(), kind="stable")
        arrays = self.named.start, self.named.code, self.p, self._unit, self._base(), order
        _likeliest(*arrays, label, tied, margin)
        return label, tied, margin


def _p_log_p(p: Float64[np.ndarray, " some"]) -> Float64[np.ndarray, " some"]:
    return p * np.log(np.where(p > 0, p, 1.0))


@kernel
def _likeliest(start, code, p, unit, base, order, label, tied, margin) -> None:
    """Write each task's label, ties and margin; `order` lists the classes by `base`, largest first.

    Of the classes that a task was not given, only the first two can be the likeliest or the second.
    """
    n_classes = len(base)
    for task in range(len(label)):
        low, high = start[task], start[task + 1]
        first, second = -1.0, -1.0
        for entry in range(low, high):
            if p[entry] > first:
                first, second = p[entry], first
            elif p[entry] > second:
                second = p[entry]
        seen = at = 0
        while at < n_classes and seen < 2:
            other = order[at]
            at += 1
            place = low + np.searchsorted(code[low:high], other)
            if place < high and code[place] == other:
                continue
            value = unit[task] * base[other]
            seen += 1
            if value > first:
                first, second = value, first
            elif value > second:
                second = value
        best, equals = n_classes, 0
        for entry in range(low, high):
            if p[entry] >= first - EQUAL:
                best = min(best, code[entry])
                equals += 1
        at = 0
        while at < n_classes and unit[task] * base[order[at]] >= first - EQUAL:
            other = order[at]
            at += 1
            place = low + np.searchsorted(code[low:high], other)
            if place < high and code[place] == other:
                continue
            equals += 1
            best = min(best, other)
            if base[other] == base[order[n_classes - 1]] and equals > 1:
                break  # all further classes are equal, with larger codes
        label[task], tied[task] = best, equals > 1
        margin[task] = 1.0 if n_classes == 1 else (0.0 if equals > 1 else first - second)
