"""Cells, which are tasks by classes that somebody gave, and one pass over each worker's answer to them.

A class that gold says holds for a task is a cell, too, whether or not somebody gave it.

A class that nobody gave a task has no cell: it costs nothing, and what it says of workers is added per
class (:func:`quality.multilabel.skill_sharing.silent_chance`). What is stored is linear in the labels, what
is passed in the triples of a worker, a task and a class that some worker of the task gave: her denial, to
which a label adds what it says more.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int8, Int16, Int32, Int64

from quality.labels import CrowdLabels, check_table, freeze_arrays
from quality.multilabel.answer_sets import MultiLabels
from quality.multilabel.set_sizes import add_size_evidence
from quality.parallel import kernel

__all__ = ["Cells", "cell_pass", "cells_of", "yes_no_labels"]


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """The cells of a table, by task and then class, and its workers' answers to each.

    Parameters
    ----------
    start, label
        The classes of task ``t`` that somebody gave: ``label[start[t]:start[t + 1]]``, in order.
    gave_start, gave
        The answers that hold the class of each cell: ``gave[gave_start[cell]:gave_start[cell + 1]]``.
    known
        1 for a cell that is known to hold, 0 for one that does not, -1 otherwise.
    given, met, asked
        How often each worker gave each class, was asked about a cell of it, and about the class at all.
    silent
        ``silent[c, k]``: tasks with ``k`` answers that showed the class and to which nobody gave it.
    """

    start: Int64[np.ndarray, " task_starts"]
    label: Int16[np.ndarray, " cells"]
    gave_start: Int64[np.ndarray, " cell_starts"]
    gave: Int64[np.ndarray, " labels"]
    known: Int8[np.ndarray, " cells"]
    given: Float64[np.ndarray, "workers classes"]
    met: Float64[np.ndarray, "workers classes"]
    asked: Float64[np.ndarray, "workers classes"]
    silent: Float64[np.ndarray, "classes sizes"]

    def __post_init__(self) -> None:
        freeze_arrays(self)

    @property
    def shown(self) -> Float64[np.ndarray, " classes"]:
        """Tasks with answers that showed each class."""
        counted: np.ndarray = np.bincount(self.label, minlength=len(self.silent)) + self.silent.sum(
            axis=1
        )
        return counted


def cells_of(table: MultiLabels, gold: Int8[np.ndarray, "tasks classes"] | None = None) -> Cells:
    """Return the cells of a table; `gold` is 1 where a class holds, 0 where not, -1 where unknown.

    Raises
    ------
    LabelError
        If workers times classes would be a huge and nearly empty table.
    """
    n_workers, n_classes = table.n_workers, table.n_classes
    check_table(n_workers, n_classes, len(table.label))
    size = np.diff(table.task_start)
    start, label = np.zeros(table.n_tasks + 1, dtype=np.int64), np.empty_like(table.label)
    _find(table.task_start, table.label_start, table.label, start, label)
    task = np.repeat(np.arange(table.n_tasks), np.diff(start))
    label = label[: start[-1]]
    known = np.full(len(label), -1, dtype=np.int8)
    if gold is not None:
        held = np.flatnonzero((gold == 1) & (size > 0)[:, np.newaxis])
        cell = np.union1d(task * n_classes + label, held)
        task, label, known = (
            cell // n_classes,
            (cell % n_classes).astype(np.int16),
            gold.ravel()[cell],
        )
        start = np.searchsorted(task, np.arange(table.n_tasks + 1)).astype(np.int64)
    gave_start, gave = np.zeros(len(label) + 1, np.int64), np.empty(len(table.label), np.int64)
    given, met = np.zeros((2, n_workers, n_classes))
    _fill(
        table.task_start, table.worker, table.label_start, table.label, start, label, gave_start, gave,
        table.label_start[:-1].copy(), given, met,
    )  # fmt: skip
    asked, silent = _asked(table, size)
    n_sizes = silent.shape[1]
    seen = np.bincount(label * np.int64(n_sizes) + size[task], minlength=silent.size)
    silent -= seen.reshape(silent.shape)
    return Cells(start, label, gave_start, gave, known, given, met, asked, silent)


def yes_no_labels(table: MultiLabels, cells: Cells | None = None) -> CrowdLabels:
    """Return workers' answers to each cell as labels: a cell is a task, its classes are no and yes.

    What works on labels then works on sets: :func:`~quality.dependent_groups` finds who copies whom.

    >>> from quality.multilabel import encode_multilabels
    >>> yes_no_labels(encode_multilabels(["ann", "bob"], [1, 1], [["cat"], ["cat", "dog"]]))
    CrowdLabels(4 labels, 2 tasks, 2 workers, 2 classes)
    """
    cells = cells_of(table) if cells is None else cells
    task = np.repeat(np.arange(table.n_tasks), np.diff(cells.start))
    size = np.diff(table.task_start)[task]
    first = np.cumsum(size) - size
    cell = np.repeat(np.arange(len(cells.label)), size)
    inside = np.arange(len(cell)) - first[cell]
    worker = table.worker[table.task_start[task[cell]] + inside]
    place = cells.gave - table.task_start[table.task[cells.gave]]
    gave = np.zeros(len(cell), dtype=np.int16)
    gave[np.repeat(first, np.diff(cells.gave_start)) + place] = 1
    return CrowdLabels.from_codes(
        worker, cell, gave, workers=table.workers,
        tasks=np.arange(len(cells.label)), classes=np.array(["no", "yes"]),
    )  # fmt: skip


def _asked(
    table: MultiLabels, size: Int64[np.ndarray, " tasks"]
) -> tuple[Float64[np.ndarray, "workers classes"], Float64[np.ndarray, "classes sizes"]]:
    """Return how often each worker was asked about each class, and tasks by class and answers."""
    n_sizes = int(size.max(initial=0)) + 1
    if table.shown_start is None or table.shown is None:
        mine = np.bincount(table.worker, minlength=table.n_workers).astype(np.float64)
        tasks = np.bincount(size, minlength=n_sizes).astype(np.float64)
        tasks[0] = 0
        asked = np.repeat(mine[:, np.newaxis], table.n_classes, axis=1)
        return asked, np.repeat(tasks[np.newaxis], table.n_classes, axis=0)
    asked = np.zeros((table.n_workers, table.n_classes))
    _count_shown(table.worker, table.task, table.shown_start, table.shown, asked)
    of_task = np.repeat(size, np.diff(table.shown_start))
    at = table.shown.astype(np.int64) * n_sizes + of_task
    counted = np.bincount(at, minlength=table.n_classes * n_sizes)
    showing = counted.reshape(table.n_classes, n_sizes).astype(np.float64)
    showing[:, 0] = 0
    return asked, showing


@kernel
def _count_shown(
    worker: Int32[np.ndarray, " answers"],
    task: Int32[np.ndarray, " answers"],
    shown_start: Int64[np.ndarray, " task_starts"],
    shown: Int16[np.ndarray, " shown"],
    asked: Float64[np.ndarray, "workers classes"],
) -> None:
    """Count in place how often each worker was asked about each class."""
    for answer in range(len(worker)):
        for place in range(shown_start[task[answer]], shown_start[task[answer] + 1]):
            asked[worker[answer], shown[place]] += 1.0


@kernel
def _find(
    task_start: Int64[np.ndarray, " task_starts"],
    label_start: Int64[np.ndarray, " answer_starts"],
    label: Int16[np.ndarray, " labels"],
    start: Int64[np.ndarray, " task_starts"],
    cell_label: Int16[np.ndarray, " labels"],
) -> None:
    """Write the classes of each task in order, and where they start, in place."""
    n = 0
    for task in range(len(task_start) - 1):
        first = n
        for row in range(label_start[task_start[task]], label_start[task_start[task + 1]]):
            at = n
            while at > first and cell_label[at - 1] > label[row]:
                at -= 1
            if at > first and cell_label[at - 1] == label[row]:
                continue
            for later in range(n, at, -1):
                cell_label[later] = cell_label[later - 1]
            cell_label[at] = label[row]
            n += 1
        start[task + 1] = n


@kernel
def _fill(
    task_start: Int64[np.ndarray, " task_starts"],
    worker: Int32[np.ndarray, " answers"],
    label_start: Int64[np.ndarray, " answer_starts"],
    label: Int16[np.ndarray, " labels"],
    start: Int64[np.ndarray, " task_starts"],
    cell_label: Int16[np.ndarray, " cells"],
    gave_start: Int64[np.ndarray, " cell_starts"],
    gave: Int64[np.ndarray, " labels"],
    row: Int64[np.ndarray, " answers"],
    given: Float64[np.ndarray, "workers classes"],
    met: Float64[np.ndarray, "workers classes"],
) -> None:
    """Write the answers that hold each cell's class, and count, in place; `row` starts at answers' labels."""
    n = 0
    for task in range(len(task_start) - 1):
        for cell in range(start[task], start[task + 1]):
            mine = cell_label[cell]
            for answer in range(task_start[task], task_start[task + 1]):
                met[worker[answer], mine] += 1.0
                # both run in the order of classes
                if row[answer] < label_start[answer + 1] and label[row[answer]] == mine:
                    given[worker[answer], mine] += 1.0
                    gave[n] = answer
                    row[answer] += 1
                    n += 1
            gave_start[cell + 1] = n


@kernel
def cell_pass(
    task_start: Int64[np.ndarray, " task_starts"],
    worker: Int32[np.ndarray, " answers"],
    start: Int64[np.ndarray, " task_starts"],
    label: Int16[np.ndarray, " cells"],
    gave_start: Int64[np.ndarray, " cell_starts"],
    gave: Int64[np.ndarray, " labels"],
    known: Int8[np.ndarray, " cells"],
    prior: Float64[np.ndarray, " classes"],
    denial: Float64[np.ndarray, "workers classes"],
    word: Float64[np.ndarray, "workers classes"],
    weight: Float64[np.ndarray, " sizes"],
    chance: Float64[np.ndarray, " cells"],
    hit: Float64[np.ndarray, "workers classes"],
    mass: Float64[np.ndarray, "workers classes"],
    n_of_size: Float64[np.ndarray, " sizes"],
    work: Float64[np.ndarray, "works sizes"],
) -> None:
    """Write the chance that each cell holds, and add it to its workers' counts, in place.

    `known` is of :class:`Cells`. `prior` is in log odds; `denial` is what a worker's denial of a class adds
    to them, `word` what her word for it adds besides, `weight` how likely so many classes at once are over
    independent ones. `hit` counts the cells that hold among those she gave, `mass` among all that she was
    asked about, and `n_of_size` tasks by how many hold. `work` has the rows that
    :func:`~quality.multilabel.set_sizes.add_size_evidence` asks for.
    """
    for task in range(len(task_start) - 1):
        first, last = task_start[task], task_start[task + 1]
        if first == last:
            continue
        for cell in range(start[task], start[task + 1]):
            mine = label[cell]
            total = prior[mine]
            for answer in range(first, last):
                total += denial[worker[answer], mine]
            for row in range(gave_start[cell], gave_start[cell + 1]):
                total += word[worker[gave[row]], mine]
            chance[cell] = total
        own = slice(start[task], start[task + 1])
        add_size_evidence(chance[own], known[own], weight, work, n_of_size)
        for cell in range(start[task], start[task + 1]):
            mine, holds = label[cell], chance[cell]
            for answer in range(first, last):
                mass[worker[answer], mine] += holds
            for row in range(gave_start[cell], gave_start[cell + 1]):
                hit[worker[gave[row]], mine] += holds
