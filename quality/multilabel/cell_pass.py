"""Cells, which are the pairs of a task and a class that somebody gave it, and passes over their answers.

A class that holds for a task by gold is a cell, too, whether or not somebody gave it.

A class that nobody gave a task has no cell and costs nothing; its evidence on workers is added per class
(:func:`quality.multilabel.skill_sharing.silent_chance`). Memory is linear in the labels. A pass takes time
linear in the triples of a worker, a task, and a class that some worker of the task gave: each counts as a
denial, and a label adds the difference to it.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int8, Int16, Int32, Int64

from quality.argument_types import check_arguments
from quality.labels import CrowdLabels, check_table, freeze_arrays
from quality.multilabel.answer_sets import MultiLabels
from quality.parallel import kernel

__all__ = ["Cells", "cell_odds", "cells_of", "count_cells", "yes_no_labels"]


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """The cells of a table, by task and then class, and its workers' answers to each.

    Parameters
    ----------
    start, label
        The classes of task ``t`` that somebody gave: ``label[start[t]:start[t + 1]]``, in order.
    giver, cell
        The worker of each label of the table, in its order, and the cell that it is about.
    known
        1 for a cell that is known to hold, 0 for one that does not, -1 otherwise.
    given, met, asked
        How often each worker gave each class, was asked about a cell of it, and about the class at all.
    silent
        ``silent[c, k]``: tasks with ``k`` answers that showed the class and got it from nobody.
    """

    start: Int64[np.ndarray, " task_starts"]
    label: Int16[np.ndarray, " cells"]
    giver: Int32[np.ndarray, " labels"]
    cell: Int64[np.ndarray, " labels"]
    known: Int8[np.ndarray, " cells"]
    given: Float64[np.ndarray, "workers classes"]
    met: Float64[np.ndarray, "workers classes"]
    asked: Float64[np.ndarray, "workers classes"]
    silent: Float64[np.ndarray, "classes sizes"]

    def __post_init__(self) -> None:
        freeze_arrays(self)

    @property
    def n_given(self) -> Int64[np.ndarray, " cells"]:
        """Number of workers who gave the class of each cell; 0 if it is a cell by gold alone."""
        counted: np.ndarray = np.bincount(self.cell, minlength=len(self.label))
        return counted

    @property
    def shown(self) -> Float64[np.ndarray, " classes"]:
        """Number of tasks with answers that showed each class."""
        given = np.bincount(self.label, minlength=len(self.silent))
        counted: np.ndarray = given + self.silent.sum(axis=1)
        return counted


def cells_of(table: MultiLabels, gold: Int8[np.ndarray, "tasks classes"] | None = None) -> Cells:
    """Return the cells of a table; `gold` is 1 if a class holds, 0 if not, -1 if unknown.

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
        task, label = cell // n_classes, (cell % n_classes).astype(np.int16)
        known = gold.ravel()[cell]
        start = np.searchsorted(task, np.arange(table.n_tasks + 1)).astype(np.int64)
    giver = np.repeat(table.worker, np.diff(table.label_start))
    of_label = np.empty(len(table.label), np.int64)
    given, met = np.zeros((2, n_workers, n_classes))
    _fill(
        table.task_start, table.worker, table.label_start, table.label, start, label,
        table.label_start[:-1].copy(), of_label, given, met,
    )  # fmt: skip
    asked, silent = _asked(table, size)
    n_sizes = silent.shape[1]
    seen = np.bincount(label * np.int64(n_sizes) + size[task], minlength=silent.size)
    silent -= seen.reshape(silent.shape)
    return Cells(start, label, giver, of_label, known, given, met, asked, silent)


@check_arguments
def yes_no_labels(table: MultiLabels, cells: Cells | None = None) -> CrowdLabels:
    """Return workers' answers to each cell as labels: a cell is a task, its classes are no and yes.

    Functions of labels then apply to sets: :func:`~quality.dependent_groups` finds workers who copy.

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
    answer = np.repeat(np.arange(table.n_answers), np.diff(table.label_start))
    place = answer - table.task_start[table.task[answer]]
    gave = np.zeros(len(cell), dtype=np.int16)
    gave[first[cells.cell] + place] = 1
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
    row: Int64[np.ndarray, " answers"],
    of_label: Int64[np.ndarray, " labels"],
    given: Float64[np.ndarray, "workers classes"],
    met: Float64[np.ndarray, "workers classes"],
) -> None:
    """Write the cell of each label, and count, in place; `row` is each answer's next label."""
    for task in range(len(task_start) - 1):
        for cell in range(start[task], start[task + 1]):
            mine = np.uint64(cell_label[cell])
            for answer in range(task_start[task], task_start[task + 1]):
                who, here = np.uint64(worker[answer]), row[answer]
                met[who, mine] += 1.0
                # both are in the order of classes
                if here < label_start[answer + 1] and label[here] == cell_label[cell]:
                    given[who, mine] += 1.0
                    of_label[here] = cell
                    row[answer] += 1


@kernel
def cell_odds(
    task_start: Int64[np.ndarray, " task_starts"],
    worker: Int32[np.ndarray, " answers"],
    start: Int64[np.ndarray, " task_starts"],
    label: Int16[np.ndarray, " cells"],
    giver: Int32[np.ndarray, " labels"],
    cell_of: Int64[np.ndarray, " labels"],
    prior: Float64[np.ndarray, " classes"],
    denial: Float64[np.ndarray, "workers classes"],
    word: Float64[np.ndarray, "workers classes"],
    odds: Float64[np.ndarray, " cells"],
) -> None:
    """Write the log odds that each cell holds, by its own evidence and without gold, in place.

    To the log odds `prior` a worker's denial of a class adds `denial`; if she gives it, `word` is added
    too.
    """
    for task in range(len(task_start) - 1):
        for cell in range(start[task], start[task + 1]):
            mine = np.uint64(label[cell])  # unsigned: no check whether an index is negative
            total = prior[mine]
            for answer in range(task_start[task], task_start[task + 1]):
                total += denial[np.uint64(worker[answer]), mine]
            odds[cell] = total
    for row in range(len(cell_of)):
        about = np.uint64(cell_of[row])
        odds[about] += word[np.uint64(giver[row]), np.uint64(label[about])]


@kernel
def count_cells(
    task_start: Int64[np.ndarray, " task_starts"],
    worker: Int32[np.ndarray, " answers"],
    start: Int64[np.ndarray, " task_starts"],
    label: Int16[np.ndarray, " cells"],
    giver: Int32[np.ndarray, " labels"],
    cell_of: Int64[np.ndarray, " labels"],
    chance: Float64[np.ndarray, " cells"],
    hit: Float64[np.ndarray, "workers classes"],
    mass: Float64[np.ndarray, "workers classes"],
    total: Float64[np.ndarray, " classes"],
) -> None:
    """Add the probability that each cell holds to its workers' counts and its class's, in place.

    `hit` counts the cells that hold among those a worker gave, `mass` among all that she was asked about,
    and `total` those of each class.
    """
    for task in range(len(task_start) - 1):
        for cell in range(start[task], start[task + 1]):
            mine, holds = np.uint64(label[cell]), chance[cell]
            total[mine] += holds
            for answer in range(task_start[task], task_start[task + 1]):
                mass[np.uint64(worker[answer]), mine] += holds
    for row in range(len(cell_of)):
        about = np.uint64(cell_of[row])
        hit[np.uint64(giver[row]), np.uint64(label[about])] += chance[about]
