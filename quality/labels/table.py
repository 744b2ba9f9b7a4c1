"""The label table: which worker gave which label to which task, in integer codes.

>>> labels = encode(["ann", "bob", "ann"], ["t2", "t1", "t1"], ["yes", "no", "no"])
>>> labels
CrowdLabels(3 labels, 2 tasks, 2 workers, 2 classes)
>>> labels.counts()
array([[2, 0],
       [0, 1]], dtype=int32)

Everything in this room starts from :class:`CrowdLabels`. :func:`encode` makes it of names: names
become codes, rows are sorted by task and then by worker, and rows with a fault are refused with their
position. :meth:`CrowdLabels.from_codes` makes it of codes. Names come back through the vocabularies
``workers``, ``tasks`` and ``classes``.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Int, Int16, Int32, Int64, Shaped

from quality.argument_types import check_arguments
from quality.labels.columns import (
    LabelError,
    check_codes,
    class_names,
    code_columns,
    declared,
    freeze_arrays,
    lookup,
)
from quality.labels.merging import check_groups, merge_rows
from quality.labels.sort import RepeatError, check_keep, index_rows, keep_rows, sort_rows

__all__ = [
    "CrowdLabels",
    "LabelError",
    "RepeatError",
    "check_gold",
    "check_table",
    "count_labels",
    "encode",
    "encode_gold",
    "fits_table",
]

MAX_CELLS = 2**27  # of a table of tasks by classes: 1 GB of probabilities
MAX_CELLS_PER_LABEL = 100  # of a larger one, which is not nearly empty then
MAX_CLASSES = int(np.iinfo(np.int16).max)  # a code of a class has 16 bits


@dataclass(frozen=True, slots=True, eq=False, repr=False, weakref_slot=True)
class CrowdLabels:
    """Crowd labels in codes, sorted by (task, worker); made by :func:`encode`.

    Parameters
    ----------
    worker, task, label
        One row per label. A worker labels a task at most once.
    workers, tasks, classes
        Vocabularies: ``workers[worker]`` is a name as given. A code need not occur in the rows.
    task_start
        Rows of task ``t`` are ``task_start[t]:task_start[t + 1]``.
    worker_order, worker_start
        Rows of worker ``w`` are ``worker_order[worker_start[w]:worker_start[w + 1]]``, by task.

    Examples
    --------
    >>> labels = encode(["ann", "bob", "ann"], ["t2", "t1", "t1"], ["yes", "no", "no"])
    >>> labels
    CrowdLabels(3 labels, 2 tasks, 2 workers, 2 classes)
    >>> labels.tasks[labels.task]
    array(['t1', 't1', 't2'], dtype='<U2')
    """

    worker: Int32[np.ndarray, " labels"]
    task: Int32[np.ndarray, " labels"]
    label: Int16[np.ndarray, " labels"]
    workers: Shaped[np.ndarray, " workers"]
    tasks: Shaped[np.ndarray, " tasks"]
    classes: Shaped[np.ndarray, " classes"]
    task_start: Int64[np.ndarray, " tasks+1"]
    worker_order: Int64[np.ndarray, " labels"]
    worker_start: Int64[np.ndarray, " workers+1"]

    def __post_init__(self) -> None:
        freeze_arrays(self)

    def __repr__(self) -> str:
        return (
            f"CrowdLabels({self.n_labels} labels, {self.n_tasks} tasks, "
            f"{self.n_workers} workers, {self.n_classes} classes)"
        )

    @classmethod
    def from_codes(
        cls,
        worker: Int[np.ndarray, " labels"],
        task: Int[np.ndarray, " labels"],
        label: Int[np.ndarray, " labels"],
        *,
        workers: Shaped[np.ndarray, " workers"],
        tasks: Shaped[np.ndarray, " tasks"],
        classes: Shaped[np.ndarray, " classes"],
        overwrite: bool = False,
    ) -> "CrowdLabels":
        """Make the table from codes, for callers whose reader has coded the names already.

        Parameters
        ----------
        worker, task, label
            Row ``i`` says that ``workers[worker[i]]`` gave ``classes[label[i]]`` to
            ``tasks[task[i]]``; the rows may come in any order.
        workers, tasks
            Vocabularies, in increasing order and each name once; a name need not occur.
        classes
            Vocabulary of the labels, in any order and each name once.
        overwrite
            Whether the memory of `worker`, `task` and `label` may be overwritten, which saves memory. An
            error about two rows then does not name them.

        Raises
        ------
        ValueError
            If the codes are not equally many integers inside their vocabularies, or a vocabulary
            is out of order or repeats a name.
        LabelError
            If a worker labels a task twice (a :class:`RepeatError`), or there is no class or over 32,767.

        Notes
        -----
        **Guarantees.** Equal to :func:`encode` of the names, where every name occurs.

        **Cost.** Linear in the labels and the names.

        Examples
        --------
        >>> one, two = np.array([0, 1]), np.array(["a", "b"])
        >>> CrowdLabels.from_codes(one, one, one, workers=two, tasks=two, classes=two)
        CrowdLabels(2 labels, 2 tasks, 2 workers, 2 classes)
        """
        check_codes("worker", worker, "workers", workers, in_order=True)
        check_codes("task", task, "tasks", tasks, in_order=True)
        check_codes("label", label, "classes", classes, in_order=False)
        lengths = [len(worker), len(task), len(label)]
        if len(set(lengths)) > 1:
            raise ValueError(f"worker, task, label must be equally long, got {lengths}")
        # views, so that the caller's own arrays stay writable
        names = workers.view(), tasks.view(), classes.view()
        return _table(worker, task, label, *names, overwrite=overwrite)

    @property
    def n_labels(self) -> int:
        """Number of labels, which are the rows."""
        return len(self.label)

    @property
    def n_tasks(self) -> int:
        """Number of tasks in the vocabulary, with labels or without."""
        return len(self.tasks)

    @property
    def n_workers(self) -> int:
        """Number of workers in the vocabulary, with labels or without."""
        return len(self.workers)

    @property
    def n_classes(self) -> int:
        """Number of classes a label may take."""
        return len(self.classes)

    def counts(self) -> Int32[np.ndarray, "tasks classes"]:
        """Return the number of labels of each class that each task has.

        Examples
        --------
        >>> encode(["ann", "bob", "ann"], [7, 7, 9], ["yes", "no", "no"]).counts()
        array([[1, 1],
               [1, 0]], dtype=int32)
        """
        return count_labels(self.task, self.label, self.n_tasks, self.n_classes)

    def keep_workers(self, keep: Bool[np.ndarray, " workers"]) -> "CrowdLabels":
        """Return the same table without the rows of the other workers; the vocabularies stay.

        Parameters
        ----------
        keep
            True for each worker whose labels stay. If all are True, the table itself is returned.

        Raises
        ------
        ValueError
            If `keep` is not one truth value per worker.

        Examples
        --------
        >>> labels = encode(["ann", "bob", "ann"], [7, 7, 9], ["yes", "no", "no"])
        >>> labels.keep_workers(np.array([False, True]))
        CrowdLabels(1 labels, 2 tasks, 2 workers, 2 classes)
        """
        check_keep(keep, self.n_workers, "worker")
        return self if keep.all() else self.keep_labels(keep[self.worker])

    def keep_labels(self, keep: Bool[np.ndarray, " labels"]) -> "CrowdLabels":
        """Return the same table without the other rows; the vocabularies stay.

        Parameters
        ----------
        keep
            True for each row that stays.

        Raises
        ------
        ValueError
            If `keep` is not one truth value per label.

        Examples
        --------
        >>> labels = encode(["ann", "bob", "ann"], [7, 7, 9], ["yes", "no", "no"])
        >>> labels.keep_labels(np.array([True, False, True]))
        CrowdLabels(2 labels, 2 tasks, 2 workers, 2 classes)
        """
        check_keep(keep, self.n_labels, "label")
        columns = (self.worker, self.task, self.label)
        rows = keep_rows(*columns, keep, self.n_workers, self.n_tasks)
        return replace(self, **rows._asdict())

    def merge_workers(self, groups: Int[np.ndarray, " workers"] | None) -> "CrowdLabels":
        """Return the same table with one label per group and task; the vocabularies stay.

        A group's label is the one that most of its members gave the task; if two are level, the group
        gives none. Its row is one of the group's first worker.

        Parameters
        ----------
        groups
            The group code of each worker, -1 for a worker who votes for herself; None returns the
            table itself.

        Raises
        ------
        ValueError
            If `groups` is not one code per worker.

        Examples
        --------
        >>> labels = encode(["ann", "bob", "cy", "dan"], [7] * 4, ["no", "yes", "yes", "no"])
        >>> labels.merge_workers(np.array([-1, 0, 0, 0])).counts()
        array([[1, 1]], dtype=int32)
        """
        if groups is None:
            return self
        check_groups(groups, self.n_workers)
        merged = merge_rows(self.worker, self.task, self.label, groups, self.n_classes)
        return replace(self, **index_rows(*merged, self.n_workers, self.n_tasks)._asdict())


def count_labels(
    task: Int[np.ndarray, " labels"],
    label: Int16[np.ndarray, " labels"],
    n_tasks: int,
    n_classes: int,
) -> Int32[np.ndarray, "tasks classes"]:
    """Return the number of labels of each class that each task has."""
    check_table(n_tasks, n_classes, len(label))
    cell = task.astype(np.int64) * n_classes + label
    count = np.bincount(cell, minlength=n_tasks * n_classes)
    return count.astype(np.int32).reshape(n_tasks, n_classes)


def fits_table(n_tasks: int, n_classes: int, n_labels: int) -> bool:
    """Return whether a table of tasks by classes is not huge and nearly empty.

    >>> fits_table(n_tasks=200_000, n_classes=40, n_labels=1_000_000)
    True
    """
    cells = n_tasks * n_classes
    return cells <= MAX_CELLS or cells <= MAX_CELLS_PER_LABEL * n_labels


def check_table(n_tasks: int, n_classes: int, n_labels: int) -> None:
    """Raise LabelError where a table of tasks by classes would be huge and nearly empty.

    >>> check_table(n_tasks=200_000, n_classes=40, n_labels=1_000_000)
    """
    if not fits_table(n_tasks, n_classes, n_labels):
        raise LabelError(
            f"tasks times classes must be at most {MAX_CELLS:,}, or {MAX_CELLS_PER_LABEL} for each label, "
            f"got {n_tasks:,} tasks and {n_classes:,} classes with {n_labels:,} labels; the aggregators of "
            "quality.many_classes need none",
            column="classes",
        )


@check_arguments
def encode(
    worker: Iterable[Any],
    task: Iterable[Any],
    label: Iterable[Any],
    *,
    classes: Sequence[Any] | None = None,
) -> CrowdLabels:
    """Turn three columns of names into the canonical label table.

    Parameters
    ----------
    worker, task, label
        Equally long columns of text or of numbers: lists, arrays, columns of pandas or of Arrow.
        Row ``i`` says that ``worker[i]`` gave ``label[i]`` to ``task[i]``.
    classes
        The classes a label may take; their order is the order of the codes. By default the classes are
        the sorted labels that occur. That is not enough for a private release, because names found in
        private data leak.
        The order of an ordered categorical is not read; pass ``column.cat.categories``.

    Returns
    -------
    CrowdLabels
        Sorted by (task, worker); workers and tasks are coded in sorted order of their names.

    Raises
    ------
    LabelError
        If the columns are empty, differ in length or mix types, if a value is missing (None, NaN
        or blank), if a label is not one of `classes`, or if a worker labels a task twice. The
        error names the column and the first row at fault, counted from 0.

    Notes
    -----
    **Guarantees.** The order of the rows given does not matter. Names come back as given. The
    rows are sorted, each (worker, task) once. The arguments are not changed, and the arrays of
    the result are read-only.

    **Cost.** Linear in the labels, plus sorting the distinct names.

    Examples
    --------
    >>> encode(["ann", "bob"], ["t1", "t1"], ["no", "yes"], classes=["yes", "no"]).label
    array([1, 0], dtype=int16)
    >>> encode(["ann", "ann"], ["t1", "t1"], ["no", "yes"])
    Traceback (most recent call last):
    quality.labels.sort.RepeatError: rows 0 and 1 (counted from 0) hold labels of one worker for one \
task: keep one of them
    """
    coded = code_columns(worker=worker, task=task, label=label)
    (worker_code, workers), (task_code, tasks) = coded["worker"], coded["task"]
    label_code, names = coded["label"]
    if classes is not None:
        named = class_names(classes)
        label_code, names = declared(label_code, names, named), named
    return _table(worker_code, task_code, label_code, workers, tasks, names)


@check_arguments
def encode_gold(
    labels: CrowdLabels, task: Iterable[Any], label: Iterable[Any]
) -> Int16[np.ndarray, " tasks"]:
    """Return the true class of each task of a label table, -1 where it is unknown.

    Parameters
    ----------
    labels
        The table whose vocabularies are used.
    task, label
        Equally long columns of names: the tasks whose truth is known, and that truth.
        Gold for tasks that nobody labelled is ignored.

    Raises
    ------
    LabelError
        As :func:`encode`; a true class must be one of ``labels.classes``, and no task may have
        two rows.

    Examples
    --------
    >>> labels = encode(["ann", "bob", "ann"], ["t1", "t1", "t2"], ["yes", "no", "no"])
    >>> encode_gold(labels, ["t2", "t9"], ["no", "yes"])
    array([-1,  0], dtype=int16)
    """
    coded = code_columns(task=task, label=label)
    (task_code, tasks), (label_code, names) = coded["task"], coded["label"]
    true_class = declared(label_code, names, labels.classes)
    if len(tasks) < len(task_code):
        row = int(np.setdiff1d(np.arange(len(task_code)), np.unique(task_code, True)[1])[0])
        message = f"gold at row {row} (counted from 0) is for a task that had gold before"
        raise LabelError(f"{message}: keep one row per task", column="task", row=row)
    place = _places(tasks, labels.tasks)[task_code]
    gold = np.full(labels.n_tasks, -1, dtype=np.int16)
    gold[place[place >= 0]] = true_class[place >= 0]
    return gold


def check_gold(
    gold: Int[np.ndarray, " tasks"] | None, n_tasks: int, n_classes: int
) -> Int16[np.ndarray, " tasks"]:
    """Return gold as one code per task, -1 for every task if `gold` is None.

    Raise ValueError unless it is one class code or -1 for each task.
    """
    if gold is None:
        return np.full(n_tasks, -1, dtype=np.int16)
    if not (gold.dtype.kind in "iu" and gold.shape == (n_tasks,)):
        raise ValueError(
            f"gold must be {n_tasks} class codes, one per task and -1 where unknown, "
            f"got {gold.dtype} of shape {gold.shape}"
        )
    if not ((gold >= -1) & (gold < n_classes)).all():
        raise ValueError(f"gold must be class codes from -1 to {n_classes - 1}")
    return gold.astype(np.int16)


def _places(
    names: Shaped[np.ndarray, " names"], vocabulary: Shaped[np.ndarray, " codes"]
) -> Int64[np.ndarray, " names"]:
    """Return the place of each name in a sorted, possibly long vocabulary, -1 for a name not in it."""
    kinds = {names.dtype.kind, vocabulary.dtype.kind}
    if len(kinds) > 1 or kinds & {"O"} or not len(vocabulary):  # 7 and "7" are two names
        return lookup(names, vocabulary)
    place = np.searchsorted(vocabulary, names).clip(max=len(vocabulary) - 1)
    return np.where(vocabulary[place] == names, place, -1)


def _table(
    worker: Int[np.ndarray, " labels"],
    task: Int[np.ndarray, " labels"],
    label: Int[np.ndarray, " labels"],
    workers: Shaped[np.ndarray, " workers"],
    tasks: Shaped[np.ndarray, " tasks"],
    classes: Shaped[np.ndarray, " classes"],
    overwrite: bool = False,
) -> CrowdLabels:
    """Return the table from codes in any order; raise LabelError for a repeated (worker, task)."""
    if not len(classes):
        raise LabelError("classes must be one or more names, got none", column="classes")
    if len(classes) > MAX_CLASSES:
        message = f"there must be at most {MAX_CLASSES} classes, got {len(classes)}"
        raise LabelError(f"{message}: is label the right column?", column="label")
    rows = sort_rows(worker, task, label, len(workers), len(tasks), overwrite=overwrite)
    return CrowdLabels(workers=workers, tasks=tasks, classes=classes, **rows._asdict())
