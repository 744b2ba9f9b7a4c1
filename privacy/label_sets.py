"""Class counts of tasks for which several classes hold, with a bound on the classes of a task.

>>> chosen = np.array([[True, True], [False, True], [False, False]])
>>> (query,) = label_set_counts(
...     chosen, np.array([0, 0, 0]), dataset="toy", group_names=("all",), max_labels=2,
...     unit=Unit.CONSENSUS_LABEL, local=False, tasks=("t1", "t2", "t3"),
... )
>>> query.value, query.l1
(array([1, 2, 3]), 4.0)
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float64, Int

from privacy.query import (
    MAX_CLASSES,
    ONE_TASK,
    CountsError,
    Part,
    Query,
    Unit,
    UnitError,
    assignment_digest,
    check_array,
    check_unit,
    group_sizes,
    is_whole,
    task_names,
)

__all__ = ["bounded_labels", "label_set_counts"]


def bounded_labels(
    probability: Float64[np.ndarray, "tasks classes"], *, threshold: float = 0.5, max_labels: int
) -> Bool[np.ndarray, "tasks classes"]:
    """Choose for each task the likeliest classes above a threshold, at most `max_labels` of them.

    Parameters
    ----------
    probability
        Probability that each class holds for each task.
    threshold
        A class is chosen if its probability is above this, in [0, 1].
    max_labels
        The bound, >= 1.

    Notes
    -----
    **Guarantees.** No task has more than `max_labels` classes. Ties go to the classes of lower code. A
    task's classes depend on its own row alone.

    Examples
    --------
    >>> bounded_labels(np.array([[0.9, 0.6, 0.7]]), max_labels=2)
    array([[ True, False,  True]])
    """
    _check_max_labels(max_labels)
    if not 0 <= threshold <= 1:
        raise ValueError(f"threshold must be in [0, 1], got threshold={threshold}")
    check_array("probability", probability)
    numbers = probability.ndim == 2 and probability.dtype.kind in "biuf"
    if not (numbers and not np.isnan(probability).any()):
        raise ValueError("probability must be a number, not NaN, for each task and class")
    order = np.argsort(-np.asarray(probability, dtype=np.float64), axis=1, kind="stable")
    place = np.argsort(order, axis=1, kind="stable")
    chosen: np.ndarray = (probability > threshold) & (place < max_labels)
    return chosen


def label_set_counts(
    chosen: Bool[np.ndarray, "tasks classes"],
    group: Int[np.ndarray, " tasks"],
    *,
    dataset: str,
    group_names: Sequence[str],
    max_labels: int,
    unit: Unit,
    local: bool,
    tasks: Sequence[str] | np.ndarray,
) -> tuple[Query, ...]:
    """Count for each group the tasks for which each class holds, and the unused places.

    A task has `max_labels` places. Each of its classes takes one; the unused places are counted last. So
    counts add up to a public number, as the mechanisms for class counts require, and a noisy count divided
    by the group's number of tasks is a private share.

    Parameters
    ----------
    chosen
        Whether each class is in each task's consensus, private; :func:`bounded_labels` bounds them.
    group, dataset, group_names, unit, local, tasks
        As for :func:`class_counts`.
    max_labels
        The largest number of classes of a task, from 1 to a million; public, and chosen without looking at
        the labels.

    Returns
    -------
    tuple of Query
        One per group, parts of one partition: a count for each class, and the unused places. `n` is the
        number of places, `max_labels` for each task; the records are the tasks (`n_records`).

    Raises
    ------
    UnitError
        As :func:`class_counts`; subjects have no counts of sets.
    CountsError
        If a task has more than `max_labels` classes, or `chosen` is no table of truth values; the message
        names no task.
    ValueError
        If groups are not codes of the named groups, or a group has no task.

    Notes
    -----
    **Guarantees.** Counts of a group add up to `max_labels` times its number of tasks. Another assignment
    of tasks to groups, or another bound, is another partition. A publication's key has one bound: the
    ledger refuses another.

    **Privacy.** The l1 sensitivity is 2 `max_labels` for each unit. Neighbours of the unit
    `CONSENSUS_LABEL` replace one task's set A by B. Before and after, its places are a vector of
    counts >= 0 that adds up to `max_labels`. Two such vectors differ in l1 norm by at most 2 `max_labels`,
    and sets of `max_labels` classes without a common one attain it. Neighbours of `TASK` and `ANSWER`
    differ in answers to one task; if the consensus is local, these move no other task's set, so that the
    same bound holds. Groups are disjoint, and each task is in one group, whatever its set.

    Examples
    --------
    >>> north, south = label_set_counts(
    ...     np.array([[True, False], [True, True]]), np.array([0, 1]), dataset="toy",
    ...     group_names=("north", "south"), max_labels=2, unit=Unit.CONSENSUS_LABEL, local=False,
    ...     tasks=("t1", "t2"),
    ... )
    >>> north.value, north.n, south.value
    (array([1, 0, 1]), 2, array([1, 1, 0]))
    """
    check_unit(unit)
    unit.require_local(local)
    if unit not in (Unit.CONSENSUS_LABEL, Unit.TASK, Unit.ANSWER):
        raise UnitError(f"counts of sets are for tasks and their answers, got unit '{unit}'")
    names = tuple(map(str, group_names))
    n = group_sizes(group, names)
    _check_max_labels(max_labels)
    check_array("chosen", chosen)
    if not (chosen.ndim == 2 and chosen.dtype == np.bool_ and len(chosen) == group.size):
        raise CountsError("chosen must be truth values, one per task and class")
    if not chosen.shape[1] >= 1:
        raise CountsError("chosen must be of one class or more")
    if not (chosen.sum(axis=1) <= max_labels).all():
        raise CountsError(
            f"tasks must have at most max_labels={max_labels} classes: bound them first"
        )
    task, code = np.nonzero(chosen)
    width, places = chosen.shape[1] + 1, max_labels * n
    cell = group[task].astype(np.int64) * width + code
    counts = np.bincount(cell, minlength=len(names) * width).reshape(-1, width)
    counts[:, -1] = places - counts.sum(axis=1)
    counts.setflags(write=False)
    digest = assignment_digest(group, names, task_names(tasks, group.size), (str(max_labels),))
    return tuple(
        Query(
            dataset, "counts of several classes a task", row, unit, int(size),
            ONE_TASK * max_labels, Part(f"group of {max_labels} places:{digest}", name),
            places=max_labels,
        )
        for row, size, name in zip(counts, places, names, strict=True)
    )  # fmt: skip


def _check_max_labels(max_labels: int) -> None:
    if not (is_whole(max_labels) and 1 <= max_labels <= MAX_CLASSES):
        raise ValueError(
            f"max_labels must be an integer from 1 to {MAX_CLASSES}, got max_labels={max_labels}"
        )
