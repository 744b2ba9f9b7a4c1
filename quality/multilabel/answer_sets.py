"""The table of multi-label answers: which worker gave which set of classes to which task, in codes.

>>> table = encode_multilabels(["ann", "bob"], ["t1", "t1"], [["cat"], ["cat", "dog"]])
>>> table
MultiLabels(2 answers, 3 labels, 1 tasks, 2 workers, 2 classes)
>>> table.set_of(1).tolist()
['cat', 'dog']
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool, Int, Int8, Int16, Int32, Int64, Shaped

from quality.argument_types import check_arguments
from quality.labels import (
    MAX_CLASSES,
    LabelError,
    check_groups,
    check_keep,
    code_columns,
    freeze_arrays,
    lookup,
    voters,
)

__all__ = ["MultiLabels", "Repeats", "encode_gold_sets", "encode_multilabels"]

Repeats = Literal["error", "join"]
"""What several rows of a worker about a task are: a mistake, or parts of one answer."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MultiLabels:
    """Sets of classes in codes, sorted by (task, worker); made by :func:`encode_multilabels`.

    Parameters
    ----------
    worker, task
        One row per answer. A worker answers a task at most once.
    label_start, label
        The classes of answer ``a``, in increasing order: ``label[label_start[a]:label_start[a + 1]]``;
        empty if her answer is that no class holds.
    workers, tasks, classes
        Vocabularies; a code need not occur.
    task_start
        Answers of task ``t`` are ``task_start[t]:task_start[t + 1]``.
    shown_start, shown
        The classes that a task's workers could choose from, stored per task as `label_start` and `label`
        are; None if all could be chosen everywhere.
    """

    worker: Int32[np.ndarray, " answers"]
    task: Int32[np.ndarray, " answers"]
    label_start: Int64[np.ndarray, " answer_starts"]
    label: Int16[np.ndarray, " labels"]
    workers: Shaped[np.ndarray, " workers"]
    tasks: Shaped[np.ndarray, " tasks"]
    classes: Shaped[np.ndarray, " classes"]
    task_start: Int64[np.ndarray, " task_starts"]
    shown_start: Int64[np.ndarray, " task_starts"] | None
    shown: Int16[np.ndarray, " shown"] | None

    def __post_init__(self) -> None:
        freeze_arrays(self)

    def __repr__(self) -> str:
        return (
            f"MultiLabels({self.n_answers} answers, {len(self.label)} labels, {self.n_tasks} tasks, "
            f"{self.n_workers} workers, {self.n_classes} classes)"
        )

    @property
    def n_answers(self) -> int:
        """Number of answers: a set of classes of one worker for one task."""
        return len(self.worker)

    @property
    def n_tasks(self) -> int:
        """Number of tasks in the vocabulary."""
        return len(self.tasks)

    @property
    def n_workers(self) -> int:
        """Number of workers in the vocabulary."""
        return len(self.workers)

    @property
    def n_classes(self) -> int:
        """Number of classes in the vocabulary."""
        return len(self.classes)

    def set_of(self, answer: int) -> Shaped[np.ndarray, " labels"]:
        """Return the names of the classes of one answer."""
        codes = self.label[self.label_start[answer] : self.label_start[answer + 1]]
        names: np.ndarray = self.classes[codes]
        return names

    def shows(self) -> Bool[np.ndarray, "tasks classes"]:
        """Return which classes each task showed."""
        if self.shown_start is None or self.shown is None:
            return np.ones((self.n_tasks, self.n_classes), dtype=np.bool_)
        found = np.zeros((self.n_tasks, self.n_classes), dtype=np.bool_)
        found[np.repeat(np.arange(self.n_tasks), np.diff(self.shown_start)), self.shown] = True
        return found

    def keep_workers(self, keep: Bool[np.ndarray, " workers"]) -> "MultiLabels":
        """Return the same table without the answers of the other workers; the vocabularies stay.

        Raises
        ------
        ValueError
            If `keep` is not one truth value per worker.
        """
        check_keep(keep, self.n_workers, "worker")
        rows = keep[self.worker]
        size = np.diff(self.label_start)
        return MultiLabels(
            self.worker[rows], self.task[rows], _starts(size[rows]), self.label[np.repeat(rows, size)],
            self.workers, self.tasks, self.classes,
            _starts(np.bincount(self.task[rows], minlength=self.n_tasks)),
            self.shown_start, self.shown,
        )  # fmt: skip

    def merge_workers(self, groups: Int[np.ndarray, " workers"]) -> "MultiLabels":
        """Return the same table with one answer per group and task, in the place of its first member.

        A class is in a group's answer if more than half of the members who answered gave it, or if half of
        them did, the first among these. `groups` has -1 for a worker in no group.

        Raises
        ------
        ValueError
            If `groups` is not one code per worker.
        """
        check_groups(groups, self.n_workers)
        asked = self.task.astype(np.int64) * self.n_workers + voters(groups)[self.worker]
        found, first, answer = np.unique(asked, return_index=True, return_inverse=True)
        row = np.repeat(np.arange(self.n_answers), np.diff(self.label_start))
        given = answer[row] * self.n_classes + self.label
        pair, count = np.unique(given, return_counts=True)
        members = np.bincount(answer, minlength=len(found))[pair // self.n_classes]
        of_first = np.isin(pair, given[first[answer[row]] == row])
        pair = pair[(2 * count > members) | ((2 * count == members) & of_first)]
        task, worker = np.divmod(found, self.n_workers)
        size = np.bincount(pair // self.n_classes, minlength=len(found))
        return MultiLabels(
            worker.astype(np.int32), task.astype(np.int32), _starts(size),
            (pair % self.n_classes).astype(np.int16), self.workers, self.tasks, self.classes,
            _starts(np.bincount(task, minlength=self.n_tasks)), self.shown_start, self.shown,
        )  # fmt: skip


@check_arguments
def encode_gold_sets(
    table: MultiLabels, task: Iterable[Any], labels: Iterable[Iterable[Any]]
) -> Int8[np.ndarray, "tasks classes"]:
    """Code known truths: 1 if a class holds for a task, 0 if it does not, -1 if that is unknown.

    Parameters
    ----------
    table
        The answers; tasks that are not in it are left out.
    task, labels
        The tasks whose truth is known, each once, and all classes that hold for each.

    Raises
    ------
    LabelError
        If a task is missing or occurs twice, or a class is not one of the table's.

    Notes
    -----
    **Guarantees.** A task's truth is known for every class or for none.

    Examples
    --------
    >>> table = encode_multilabels(["ann", "ann"], ["t1", "t2"], [["cat"], ["dog"]])
    >>> encode_gold_sets(table, ["t2", "t3"], [["cat", "dog"], ["cat"]])
    array([[-1, -1],
           [ 1,  1]], dtype=int8)
    """
    names = list(task)
    sets = [_as_set(row, one) for row, one in enumerate(labels)]
    if len(names) != len(sets):
        raise LabelError(
            f"task and labels must be equally long, got {len(names)} and {len(sets)} rows",
            column="label",
        )
    if names:
        code_columns(task=names)  # its error names the fault
    gold = np.full((table.n_tasks, table.n_classes), -1, dtype=np.int8)
    place = {name: code for code, name in enumerate(table.tasks.tolist())}
    code = {name: number for number, name in enumerate(table.classes.tolist())}
    seen: set[Any] = set()
    for row, (name, one) in enumerate(zip(names, sets, strict=True)):
        unknown = [label for label in one if not isinstance(label, Hashable) or label not in code]
        if unknown or name in seen:
            what = (
                f"{unknown[0]} is no class of the answers" if unknown else "the task is there twice"
            )
            raise LabelError(
                f"the truth at row {row} (counted from 0) cannot be used: {what}; mend it",
                column="label" if unknown else "task",
                row=row,
            )
        seen.add(name)
        if name in place:
            gold[place[name]] = 0
            gold[place[name], [code[label] for label in one]] = 1
    return gold


@check_arguments
def encode_multilabels(
    worker: Iterable[Any],
    task: Iterable[Any],
    labels: Iterable[Iterable[Any]],
    *,
    classes: Sequence[Any] | None = None,
    shown: Mapping[Any, Iterable[Any]] | None = None,
    repeats: Repeats = "error",
) -> MultiLabels:
    """Check a table of multi-label answers and code its names.

    Parameters
    ----------
    worker, task
        Columns of names: who answered, and which task.
    labels
        The set of classes of each row, any iterable of names except a text; empty if no class holds. A
        class that is named twice in a row counts once.
    classes
        The vocabulary of classes, in the order of their codes; without it the classes that occur, sorted.
    shown
        The classes that the workers of a task could choose from, by the task's name; other tasks showed
        all. A class that was not shown is neither given nor denied.
    repeats
        ``"join"`` makes one answer of several rows of a worker about a task, for tables with one row for
        each label; ``"error"`` refuses such rows.

    Raises
    ------
    LabelError
        If a cell is missing, columns differ in length, a class is not in `classes` or was not shown, there
        is no class at all, rows repeat, or `shown` has none of these tasks. The error names column and row.

    Notes
    -----
    **Guarantees.** The order of rows and of classes in a row does not matter. A task's classes are
    those shown, by default all.

    **Cost.** Linear in the labels, plus sorting.

    Examples
    --------
    >>> encode_multilabels(["ann", "ann"], ["t1", "t1"], [["cat"], ["dog"]], repeats="join")
    MultiLabels(1 answers, 2 labels, 1 tasks, 1 workers, 2 classes)
    """
    if repeats not in ("error", "join"):
        raise ValueError(f"repeats must be error or join, got repeats={repeats!r}")
    given = [_as_set(row, one) for row, one in enumerate(labels)]
    coded = code_columns(worker=worker, task=task)
    (who, workers), (about, tasks) = coded["worker"], coded["task"]
    if len(given) != len(who):
        raise LabelError(
            f"worker, task and labels must be equally long, got {len(who)} and {len(given)} rows",
            column="label",
        )
    size = np.fromiter(map(len, given), dtype=np.int64, count=len(given))
    row = np.repeat(np.arange(len(given)), size)
    code, names = _class_codes(list(chain.from_iterable(given)), row, classes)
    answer = about.astype(np.int64) * len(workers) + who
    found, place = np.unique(answer, return_inverse=True)
    if repeats == "error" and len(found) < len(answer):
        _refuse_repeats(answer)
    # each class of each answer once, sorted
    pair = np.unique(place[row] * len(names) + code)
    count = np.bincount(pair // len(names), minlength=len(found))
    task_of = found // len(workers)
    table = MultiLabels(
        (found % len(workers)).astype(np.int32), task_of.astype(np.int32),
        _starts(count), (pair % len(names)).astype(np.int16), workers, tasks, names,
        _starts(np.bincount(task_of, minlength=len(tasks))), *_shown(shown, tasks, names),
    )  # fmt: skip
    _check_shown(table)
    return table


def _starts(count: np.ndarray) -> Int64[np.ndarray, " bounds"]:
    """Return where each run of rows starts, and the end."""
    return np.concatenate([[0], np.cumsum(count)]).astype(np.int64)


def _as_set(row: int, given: Any) -> list[Any]:
    """Return one row's classes as a list; refuse a text, which would be split into letters."""
    if isinstance(given, list):
        return given
    if isinstance(given, str | bytes) or not hasattr(given, "__iter__"):
        raise LabelError(
            f"labels must be sets of classes, got one {type(given).__name__} at row {row} (counted from "
            "0): split it first",
            column="label",
            row=row,
        )
    return list(given)


def _class_codes(
    flat: list[Any], row: Int64[np.ndarray, " labels"], classes: Sequence[Any] | None
) -> tuple[Int64[np.ndarray, " labels"], Shaped[np.ndarray, " classes"]]:
    """Return the code of each given class, and the classes."""
    declared = None
    if classes is not None:
        codes, names = code_columns(classes=list(classes))["classes"]
        if len(names) < len(codes):
            raise LabelError("classes must all differ", column="classes")
        declared = names[codes]
        _check_number(declared)
    if not flat:
        if declared is None:
            raise LabelError(
                "there must be a class in some answer, or classes must be given", column="label"
            )
        return np.empty(0, dtype=np.int64), declared
    try:
        code, names = code_columns(label=flat)["label"]
    except LabelError as error:
        if error.row is None:
            raise
        at = int(row[error.row])
        raise LabelError(
            f"a class is missing at row {at} (counted from 0): fill it in or leave it out",
            column="label",
            row=at,
        ) from None
    if declared is not None:
        known = lookup(names, declared)
        if (known < 0).any():
            at = int(row[(known[code] < 0).argmax()])
            raise LabelError(
                f"a label at row {at} (counted from 0) is not one of the classes "
                f"{', '.join(map(repr, declared.tolist()))}: add it to classes or leave it out",
                column="label",
                row=at,
            )
        code, names = known[code], declared
    _check_number(names)
    return code, names


def _check_number(classes: Shaped[np.ndarray, " classes"]) -> None:
    if len(classes) > MAX_CLASSES:
        message = f"there must be at most {MAX_CLASSES} classes, got {len(classes)}"
        raise LabelError(f"{message}: is label the right column?", column="label")


def _refuse_repeats(answer: Int64[np.ndarray, " rows"]) -> None:
    order = np.argsort(answer, kind="stable")
    at = int(np.argmax(np.diff(answer[order]) == 0))
    first, second = int(order[at]), int(order[at + 1])
    raise LabelError(
        f"rows {first} and {second} (counted from 0) hold answers of one worker for one task: keep one "
        "of them, or join them",
        column="task",
        row=second,
    )


def _shown(
    shown: Mapping[Any, Iterable[Any]] | None,
    tasks: Shaped[np.ndarray, " tasks"],
    classes: Shaped[np.ndarray, " classes"],
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Return the shown classes as offsets and codes; None if all were shown everywhere."""
    if shown is None:
        return None, None
    if shown and not any(task in shown for task in tasks.tolist()):
        raise LabelError(
            "shown must name tasks as the answers do, got none of theirs: is it text where they are numbers?",
            column="task",
        )
    place = {name: code for code, name in enumerate(classes.tolist())}
    everything = np.arange(len(classes))
    each = []
    for task in tasks.tolist():
        names = shown.get(task)
        if isinstance(names, str | bytes) or not (names is None or hasattr(names, "__iter__")):
            raise LabelError(
                f"what task {task} showed must be a set of classes, got one {type(names).__name__}: give a "
                "list",
                column="classes",
            )
        codes = (
            everything
            if names is None
            else [place.get(one, -1) if isinstance(one, Hashable) else -1 for one in names]
        )
        mine = np.unique(np.asarray(codes, dtype=np.int64))
        if len(mine) and mine[0] < 0:
            raise LabelError(
                f"a class shown with task {task} is not one of the classes: add it to classes",
                column="classes",
            )
        each.append(mine)
    return _starts(np.array([len(mine) for mine in each])), np.concatenate(each).astype(np.int16)


def _check_shown(table: MultiLabels) -> None:
    """Raise LabelError if an answer holds a class that its task did not show."""
    if table.shown_start is None or table.shown is None:
        return
    n_classes = table.n_classes
    could = (
        np.repeat(np.arange(table.n_tasks), np.diff(table.shown_start)) * n_classes + table.shown
    )
    about = np.repeat(table.task, np.diff(table.label_start)).astype(np.int64)
    unseen = ~np.isin(about * n_classes + table.label, could)
    if unseen.any():
        at = int(unseen.argmax())
        raise LabelError(
            f"task {table.tasks[about[at]]} was given {table.classes[table.label[at]]}, which it did not "
            "show: add it to what was shown",
            column="label",
        )
