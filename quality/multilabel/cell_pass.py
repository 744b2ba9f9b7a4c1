"""Cells, which are tasks by classes that somebody gave, and one pass over each worker's answer to them.

A class that gold says holds for a task is a cell, too, whether or not somebody gave it.

A class that nobody gave a task has no cell: it costs nothing, and what it says of workers is added per
class (:func:`quality.multilabel.skill_sharing.silent_chance`). What is stored and passed is therefore
linear in the triples of a worker, a task and a class that some worker of the task gave.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int8, Int16, Int32, Int64, UInt8

from quality.labels import CrowdLabels, check_table, freeze_arrays
from quality.multilabel.answer_sets import MultiLabels
from quality.multilabel.set_sizes import add_size_evidence
from quality.parallel import kernel

__all__ = ["Cells", "cell_pass", "cells_of", "yes_no_labels"]

CERTAIN = 50.0  # log odds of what is known: a chance of 1 in double precision


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """The cells of a table, by task and then class, and its workers' answers to each.

    Parameters
    ----------
    start, label
        The classes of task ``t`` that somebody gave: ``label[start[t]:start[t + 1]]``, in order.
    gave_start, gave
        Whether each answer of a task holds each of its cells' classes, cell by cell: task ``t`` with
        ``n`` answers has ``gave[gave_start[t] + cell * n + answer]``.
    known
        1 for a cell that is known to hold, 0 for one that does not, -1 otherwise.
    given, met, asked
        How often each worker gave each class, was asked about a cell of it, and about the class at all.
    silent
        ``silent[c, k]``: tasks with ``k`` answers that showed the class and to which nobody gave it.
    """

    start: Int64[np.ndarray, " task_starts"]
    label: Int16[np.ndarray, " cells"]
    gave_start: Int64[np.ndarray, " task_starts"]
    gave: UInt8[np.ndarray, " triples"]
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
    task = np.repeat(table.task, np.diff(table.label_start)).astype(np.int64)
    cell = np.unique(task * n_classes + table.label)
    known = np.full(len(cell), -1, dtype=np.int8)
    if gold is not None:
        held = np.flatnonzero((gold == 1) & (size > 0)[:, np.newaxis])
        cell = np.union1d(cell, held)
        known = gold.ravel()[cell]
    count = np.bincount(cell // n_classes, minlength=table.n_tasks)
    start = np.concatenate([[0], np.cumsum(count)]).astype(np.int64)
    gave_start = np.concatenate([[0], np.cumsum(count * size)]).astype(np.int64)
    label = (cell % n_classes).astype(np.int16)
    gave = np.zeros(gave_start[-1], dtype=np.uint8)
    given, met = np.zeros((2, n_workers, n_classes))
    _fill(
        table.task_start, table.worker, table.label_start, table.label, start, label, gave_start,
        gave, given, met,
    )  # fmt: skip
    asked, showing = _asked(table, size)
    silent = showing
    np.subtract.at(silent, (label, size[cell // n_classes]), 1.0)
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
    cell = np.repeat(np.arange(len(cells.label)), size)
    inside = np.arange(len(cell)) - np.repeat(np.cumsum(size) - size, size)
    worker = table.worker[table.task_start[task[cell]] + inside]
    return CrowdLabels.from_codes(
        worker, cell, cells.gave.astype(np.int16), workers=table.workers,
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
def _fill(
    task_start: Int64[np.ndarray, " task_starts"],
    worker: Int32[np.ndarray, " answers"],
    label_start: Int64[np.ndarray, " answer_starts"],
    label: Int16[np.ndarray, " labels"],
    start: Int64[np.ndarray, " task_starts"],
    cell_label: Int16[np.ndarray, " cells"],
    gave_start: Int64[np.ndarray, " task_starts"],
    gave: UInt8[np.ndarray, " triples"],
    given: Float64[np.ndarray, "workers classes"],
    met: Float64[np.ndarray, "workers classes"],
) -> None:
    """Write who gave which cell, and count, in place."""
    for task in range(len(task_start) - 1):
        first, n = task_start[task], task_start[task + 1] - task_start[task]
        for i in range(n):
            answer, row = first + i, label_start[first + i]
            for cell in range(start[task], start[task + 1]):
                met[worker[answer], cell_label[cell]] += 1.0
                # both run in the order of classes
                if row < label_start[answer + 1] and label[row] == cell_label[cell]:
                    gave[gave_start[task] + (cell - start[task]) * n + i] = 1
                    given[worker[answer], cell_label[cell]] += 1.0
                    row += 1


@kernel
def cell_pass(
    task_start: Int64[np.ndarray, " task_starts"],
    worker: Int32[np.ndarray, " answers"],
    start: Int64[np.ndarray, " task_starts"],
    label: Int16[np.ndarray, " cells"],
    gave_start: Int64[np.ndarray, " task_starts"],
    gave: UInt8[np.ndarray, " triples"],
    known: Int8[np.ndarray, " cells"],
    prior: Float64[np.ndarray, " classes"],
    terms: Float64[np.ndarray, "workers classes 2"],
    weight: Float64[np.ndarray, " sizes"],
    log_odds: Float64[np.ndarray, " cells"],
    hit: Float64[np.ndarray, "workers classes"],
    mass: Float64[np.ndarray, "workers classes"],
    n_of_size: Float64[np.ndarray, " sizes"],
    chances: Float64[np.ndarray, "sizes sizes"],
    rest: Float64[np.ndarray, " sizes"],
) -> None:
    """Write each cell's log odds, and add the chance that it holds to its workers' counts, in place.

    `known` is of :class:`Cells`. `prior` is in log odds; `terms` are what a worker's denial and her word
    for a class add to them, `weight` how likely so many classes at once are over independent ones. `hit`
    counts the cells that hold among those she gave, `mass` among all that she was asked about, and
    `n_of_size` tasks by how many hold. `chances` and `rest` are for work.
    """
    for task in range(len(task_start) - 1):
        first, n = task_start[task], task_start[task + 1] - task_start[task]
        at = gave_start[task]
        for cell in range(start[task], start[task + 1]):
            mine = label[cell]
            total = prior[mine]
            for i in range(n):
                total += terms[worker[first + i], mine, gave[at + i]]
            if known[cell] >= 0:
                total = CERTAIN if known[cell] else -CERTAIN
            log_odds[cell] = total
            at += n
        if n > 0:
            own = log_odds[start[task] : start[task + 1]]
            add_size_evidence(own, weight, chances, rest, n_of_size)
        at = gave_start[task]
        for cell in range(start[task], start[task + 1]):
            if known[cell] >= 0:
                log_odds[cell] = CERTAIN if known[cell] else -CERTAIN
            mine, chance = label[cell], 1.0 / (1.0 + np.exp(-log_odds[cell]))
            for i in range(n):
                mass[worker[first + i], mine] += chance
                if gave[at + i]:
                    hit[worker[first + i], mine] += chance
            at += n
