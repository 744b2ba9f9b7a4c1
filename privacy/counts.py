"""Class counts behind published proportions, the projection of noisy ones, and points of compared items.

>>> (query,) = class_counts(
...     np.array([0, 1, 1]), np.array([0, 0, 0]), dataset="toy", n_classes=2, n_groups=1,
...     group_names=("all",), unit=Unit.CONSENSUS_LABEL, local=False, tasks=("t1", "t2", "t3"),
... )
>>> query.value
array([1, 2])

Items that workers compared have half points: two for a win, one for a tie.

>>> query = win_points(
...     np.array([0, 0, 1]), np.array([1, 2, 2]), np.array([0, 2, 1]), n_items=3, dataset="toy"
... )
>>> query.value, query.n, query.l1
(array([3, 0, 3]), 6, 4.0)
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int, Real

from privacy.query import (
    ONE_TASK,
    CountsError,
    Part,
    Publication,
    Query,
    Unit,
    UnitError,
    assignment_digest,
    check_array,
    check_classes,
    check_unit,
    group_sizes,
    is_whole,
    numbers,
    task_names,
)

__all__ = ["check_codes", "class_counts", "count_queries", "project_to_simplex", "win_points"]

ONE_ANSWER = 4.0  # l1 sensitivity in half points: an answer moves two from one item to the other


def class_counts(
    label: Int[np.ndarray, " tasks"],
    group: Int[np.ndarray, " tasks"],
    *,
    dataset: str,
    n_classes: int,
    n_groups: int,
    group_names: Sequence[str],
    unit: Unit,
    local: bool,
    tasks: Sequence[str] | np.ndarray,
) -> tuple[Query, ...]:
    """Count the classes of each group of tasks: one query per group, parts of one partition.

    Parameters
    ----------
    label
        Consensus class codes, private.
    group
        Group codes, **public** and fixed without looking at the labels.
    dataset
        The ledger's name of the data set.
    n_classes
        Number of classes declared, from 2 to a million.
    n_groups
        Number of groups, each with at least one task.
    group_names
        One name per group.
    unit
        What one neighbour may change.
    local
        Whether a task's consensus label depends on that task's crowd labels alone, as in a majority
        vote; False if an aggregator or a filter weighs workers by their other tasks.
    tasks
        The tasks' names, in the order of `label`; they bind the partition to the tasks, so that the
        cells of one partition are disjoint whenever they are counted.

    Returns
    -------
    tuple of Query
        In the order of the group codes, each with the group's counts and an l1 sensitivity of 2.

    Raises
    ------
    UnitError
        If the unit is `TASK` or `ANSWER` and the consensus is not local, or if the unit is `SUBJECT`: use
        `subject_counts` for it.
    CountsError
        If labels are not codes of the declared classes, or there are too many classes; no message repeats a
        label.
    ValueError
        If groups are not codes of the named groups, or a group has no task.

    Notes
    -----
    **Guarantees.** Counts of a group add up to its number of tasks; queries of one call are parts
    of one partition, and another assignment of tasks to groups is another partition.
    **Privacy.** Every neighbour replaces at most one consensus label, which moves one task from one count
    of its group to another: 2 in l1 norm. For the units `TASK` and `ANSWER` this holds only if consensus is
    local: then other tasks' labels, and the rule for ties, do not depend on the change. With Dawid–Skene
    and similar models one task's labels move others' consensus.

    Examples
    --------
    >>> north, south = class_counts(
    ...     np.array([0, 1, 1]), np.array([0, 0, 1]), dataset="toy", n_classes=2, n_groups=2,
    ...     group_names=("north", "south"), unit=Unit.CONSENSUS_LABEL, local=False,
    ...     tasks=("t1", "t2", "t3"),
    ... )
    >>> north.value, south.value, north.part.name
    (array([1, 1]), array([0, 1]), 'north')
    """
    check_codes(label, group, n_classes, n_groups, group_names)
    cell = group.astype(np.int64) * n_classes + label.astype(np.int64)
    counts = np.bincount(cell, minlength=n_groups * n_classes).reshape(n_groups, n_classes)
    return count_queries(
        counts, group, dataset=dataset, group_names=group_names, unit=unit, local=local, tasks=tasks
    )


def count_queries(
    counts: Int[np.ndarray, "groups classes"],
    group: Int[np.ndarray, " tasks"],
    *,
    dataset: str,
    group_names: Sequence[str],
    unit: Unit,
    local: bool,
    tasks: Sequence[str] | np.ndarray,
) -> tuple[Query, ...]:
    """Build the queries of `class_counts` from class counts that are already added up.

    Parameters
    ----------
    counts
        Tasks of each group in each class, private.
    group, dataset, group_names, unit, local, tasks
        As for `class_counts`.

    Raises
    ------
    UnitError, ValueError
        As `class_counts`.
    CountsError
        If the counts of a group are not whole numbers >= 0, of two classes or more, that add up to
        its number of tasks; the message never repeats them.

    Notes
    -----
    **Guarantees.** Equal counts give the same queries as `class_counts`.

    Examples
    --------
    >>> north, south = count_queries(
    ...     np.array([[1, 1], [0, 1]]), np.array([0, 0, 1]), dataset="toy",
    ...     group_names=("north", "south"), unit=Unit.CONSENSUS_LABEL, local=False,
    ...     tasks=("t1", "t2", "t3"),
    ... )
    >>> north.value, south.value
    (array([1, 1]), array([0, 1]))
    """
    check_unit(unit)
    unit.require_local(local)
    if unit is Unit.SUBJECT:
        raise UnitError("unit 'subject' needs to know whose tasks are whose: use subject_counts")
    names = tuple(str(name) for name in group_names)
    n = group_sizes(group, names)
    check_array("counts", counts)
    if not (counts.ndim == 2 and counts.shape[0] == len(names) and counts.shape[1] >= 2):
        raise CountsError(f"counts must be of {len(names)} groups and 2 classes or more")
    within = counts.dtype.kind in "iu" and ((counts >= 0) & (counts <= n[:, None])).all()
    if not (within and (counts.sum(axis=1) == n).all()):
        raise CountsError("counts of a group must be >= 0 and add up to its number of tasks")
    partition = f"group:{assignment_digest(group, names, task_names(tasks, group.size))}"
    held = counts.astype(np.int64)
    held.setflags(write=False)
    return tuple(
        Query(dataset, "class counts", row, unit, int(size), ONE_TASK, Part(partition, name))
        for row, size, name in zip(held, n, names, strict=True)
    )


def project_to_simplex(
    value: Real[np.ndarray, " classes"], total: float = 1.0
) -> Float[np.ndarray, " classes"]:
    """Find the nearest point with entries >= 0 that add up to `total`.

    Minimises ||x - value||_2 over x >= 0, sum x = total: x = max(value - shift, 0).

    Parameters
    ----------
    value
        Finite numbers, integers or floating.
    total
        Sum of the result, > 0 and finite.

    Raises
    ------
    ValueError
        If `value` is not a vector of finite numbers, or `total` not > 0 and finite.

    Notes
    -----
    **Guarantees.** The result lies on the simplex; a point of the simplex is its own projection;
    order is kept; no point of the simplex is nearer.
    **Cost.** One sort.
    **Privacy.** Post-processing: on released values it costs nothing.

    References
    ----------
    .. [1] Duchi, Shalev-Shwartz, Singer, Chandra, "Efficient projections onto the l1-ball for
       learning in high dimensions", ICML (2008), Figure 1.

    Examples
    --------
    >>> project_to_simplex(np.array([6.0, -2.0, 1.0]), total=5.0)
    array([5., 0., 0.])
    """
    value = numbers("value", value).astype(np.float64)
    if not (value.ndim == 1 and value.size >= 1 and np.isfinite(value).all()):
        raise ValueError(f"value must be a vector of finite numbers, got shape {value.shape}")
    if not 0 < total < np.inf:
        raise ValueError(f"total must be > 0 and finite, got total={total}")
    with np.errstate(over="ignore"):  # entries that far below the largest become 0 in any case
        value = value - value.max()  # the projection is the same, and differences are kept
    descending = np.sort(value)[::-1]
    shift = (np.cumsum(descending) - total) / np.arange(1, value.size + 1)
    support = int(np.flatnonzero(descending > shift)[-1])
    return np.asarray(np.maximum(value - shift[support], 0.0))


def check_codes(
    label: np.ndarray, group: np.ndarray, n_classes: int, n_groups: int, names: Sequence[str]
) -> Int[np.ndarray, " groups"]:
    """Return the groups' sizes; raise unless labels and groups are valid codes."""
    check_classes(n_classes)
    if not is_whole(n_groups):
        raise ValueError(f"n_groups must be an integer, got n_groups={n_groups}")
    if len(names) != n_groups:
        raise ValueError(f"group_names must be {n_groups} different names, got {len(names)}")
    n = group_sizes(group, tuple(map(str, names)))
    check_array("label", label)
    if not (label.ndim == 1 and label.size == group.size):
        raise CountsError("label and group must be of equal length")
    if not (label.dtype.kind in "iu" and ((label >= 0) & (label < n_classes)).all()):
        raise CountsError(f"labels must be integer codes of the {n_classes} declared classes")
    return n


def win_points(
    left: Int[np.ndarray, " comparisons"],
    right: Int[np.ndarray, " comparisons"],
    outcome: Int[np.ndarray, " comparisons"],
    *,
    n_items: int,
    dataset: str,
    publication: Publication | None = None,
) -> Query:
    """Count each item's half points: two for a comparison won, one for a tie, 0 for a comparison lost.

    Parameters
    ----------
    left, right
        Codes of the items of each comparison, different from each other; **public**, as are the workers.
    outcome
        0 where the left item was preferred, 1 where the right one was, 2 for a tie; private.
    n_items
        Number of items, from 2 to a million; public.
    dataset
        The ledger's name of the data set.
    publication
        The public key under which the points are published; None for no publication.

    Returns
    -------
    Query
        The points by item; `n` is their sum, two for each comparison. A record is a comparison; the unit is
        one answer.

    Raises
    ------
    CountsError
        If codes or outcomes are out of their range; the message names no comparison.

    Notes
    -----
    **Guarantees.** Points add up to twice the number of comparisons, for all outcomes.

    **Privacy.** Neighbours differ in the outcome of one comparison. It gives its two items the half points
    (2, 0), (0, 2) or (1, 1). Two of these differ by at most 4 in l1 norm, and a win that changes sides
    attains 4. No other item's points move, and nothing is estimated from other answers.
    """
    check_classes(n_items, "n_items")
    for what, codes in (("left", left), ("right", right), ("outcome", outcome)):
        check_array(what, codes)
    same = left.shape == right.shape == outcome.shape and left.ndim == 1 and left.size >= 1
    if not same:
        raise CountsError("comparisons must be one row or more of left, right and outcome")
    if any(one.dtype.kind not in "iu" for one in (left, right, outcome)):
        raise CountsError("items and outcomes must be integer codes")
    items = np.stack([left, right])
    if not ((items >= 0) & (items < n_items)).all() or (left == right).any():
        raise CountsError(f"items must be codes below {n_items}, two different ones in a row")
    if not np.isin(outcome, (0, 1, 2)).all():
        raise CountsError("outcomes must be 0, 1 or 2")
    gained = np.array([2, 0, 1])[outcome.astype(np.intp)]
    left, right = items.astype(np.intp)
    points = np.bincount(left, gained, n_items) + np.bincount(right, 2 - gained, n_items)
    value = points.astype(np.int64)
    value.setflags(write=False)
    return Query(
        dataset, "half points of compared items", value, Unit.ANSWER, 2 * left.size, ONE_ANSWER,
        publication=publication, places=2,
    )  # fmt: skip
