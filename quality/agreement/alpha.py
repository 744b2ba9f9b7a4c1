"""Krippendorff's alpha with Hughes' jackknife interval, in one pass over the labels.

The pairs of labels that involve a task, and their distances, follow from a few sums of the task and of the
whole table. So alpha without each task in turn, for the jackknife, costs no more than alpha itself.

>>> from quality import encode
>>> labels = encode(["ann", "bob"] * 8, np.repeat(np.arange(8), 2), list("xxyyxyxxyyxxyyyx"))
>>> alpha_interval(labels)
Alpha(0.531, 95 % interval -0.543 to 0.951, nominal, 8 tasks)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float64, Int, Int16, Int64

from quality.agreement.alpha_jackknife import METRICS, Alpha, Metric, alpha_of_distances
from quality.argument_types import check_arguments
from quality.labels import CrowdLabels, Engine, LabelShard, Sums
from quality.parallel import kernel

__all__ = [
    "TaskSums",
    "alpha_by_class",
    "alpha_by_group",
    "alpha_by_shards",
    "alpha_interval",
    "check_level",
    "class_values",
    "sums_of_tasks",
]


ROUNDING = 1e-14  # relative to a task's squares: a smaller difference may come from equal labels


@check_arguments
def alpha_interval(
    labels: CrowdLabels,
    metric: Metric = "nominal",
    *,
    values: Sequence[float | int] | np.ndarray | None = None,
    level: float = 0.95,
) -> Alpha:
    """Return Krippendorff's alpha and Hughes' jackknife interval for it.

    Alpha is one minus observed over expected disagreement: 1 is full agreement, 0 the agreement of chance.

    Parameters
    ----------
    labels
        The crowd's labels; tasks may differ in their number of labels.
    metric
        ``"nominal"``: two labels differ or do not. ``"ordinal"``: their distance is the number of labels
        ranked between them. ``"interval"``: it is the squared difference of their numbers.
    values
        A number for each class: the labels' numbers, or for ``"ordinal"`` numbers that order the classes.
        Without it the classes are in the order of their codes; ``"interval"`` needs it.
    level
        Confidence level, in (0, 1).

    Raises
    ------
    ValueError
        If `metric` or `level` is out of its range, or `values` is not one finite number per class.

    Notes
    -----
    **Guarantees.** For nominal labels the value is :func:`~quality.krippendorff_alpha`. Value and interval
    do not depend on the order of tasks, of workers and, if nominal, of classes. An ordinal metric of two
    classes is the nominal one. Shifting and scaling the numbers changes nothing.

    **Interval.** Let eta = log(MSA / MSE) of the one-way analysis of variance that alpha generalises. The
    interval is the jackknife of eta over the tasks, plus and minus t standard errors, transformed to alpha.
    The metric is held fixed when a task is left out. It covers the alpha of the population that the tasks
    were drawn from, with the workers held fixed. If hardly any tasks show a disagreement it covers too
    little: of 30 tasks with two labels, at an alpha of .94, two thirds of the tables have no interval, and
    those of 95 % of the others cover some 88 %.

    **Cost.** Linear in the labels, for every metric.

    References
    ----------
    .. [1] Krippendorff, "Computing Krippendorff's alpha-reliability", University of Pennsylvania (2011).
    .. [2] Hughes, "Toward improved inference for Krippendorff's Alpha agreement coefficient",
       arXiv:2210.13265 (2022).

    Examples
    --------
    >>> from quality import encode
    >>> labels = encode(["ann", "bob"] * 4, [1, 1, 2, 2, 3, 3, 4, 4], [1, 1, 2, 3, 3, 3, 5, 4])
    >>> round(alpha_interval(labels, "interval", values=labels.classes).value, 3)
    0.87
    """
    check_level(level)
    numbers = class_values(labels, metric, values)
    tasks = np.flatnonzero(np.diff(labels.task_start))
    return _alpha(labels, tasks, _given_in_all(labels, tasks), metric, numbers, level)


@check_arguments
def alpha_by_class(
    labels: CrowdLabels, codes: Int[np.ndarray, " some"] | None = None, *, level: float = 0.95
) -> tuple[Alpha, ...]:
    """Return alpha of each class against all others, in the order of the classes, or of `codes`.

    A class with a low alpha is one that workers do not separate from the others.

    Parameters
    ----------
    labels
        The crowd's labels.
    codes
        The classes to compute it for; all of them if None.
    level
        Confidence level of the intervals, in (0, 1).

    Raises
    ------
    ValueError
        If a code is of no class, or `level` is out of its range.

    Notes
    -----
    **Guarantees.** With two classes both alphas are the alpha of the whole table.

    **Cost.** One sort of the labels; for every class, its own labels and the distinct numbers of labels of
    tasks.

    Examples
    --------
    >>> from quality import encode
    >>> labels = encode(["ann", "bob"] * 4, [1, 1, 2, 2, 3, 3, 4, 4], list("xxyzzyxx"))
    >>> [round(found.value, 2) for found in alpha_by_class(labels)]
    [1.0, -0.17, -0.17]
    """
    check_level(level)
    asked = np.arange(labels.n_classes) if codes is None else codes
    if not (asked.dtype.kind in "iu" and asked.ndim == 1):
        raise ValueError(
            f"codes must be a row of whole numbers, got {asked.dtype} of shape {asked.shape}"
        )
    if not np.isin(asked, np.arange(labels.n_classes)).all():
        raise ValueError(
            f"codes must be of classes, from 0 to {labels.n_classes - 1}, got {asked.min()} to {asked.max()}"
        )
    kinds, n_of_tasks = _kinds_of_tasks(labels)
    ends = np.searchsorted(kinds[:, 0], np.stack([asked, asked + 1]))
    some = (kinds[first:last, 1:] for first, last in ends.T)
    return tuple(_alpha_of_class(one, *n_of_tasks, level) for one in some)


def _kinds_of_tasks(
    labels: CrowdLabels,
) -> tuple[Int64[np.ndarray, "kinds 4"], tuple[np.ndarray, np.ndarray]]:
    """Return class, labels, labels of the class, and number of such tasks, for tasks with labels of a class.

    Also the distinct numbers of labels of tasks, and the number of tasks with each.
    """
    n_labels = np.diff(labels.task_start)
    cell, count = np.unique(
        labels.task.astype(np.int64) * labels.n_classes + labels.label, return_counts=True
    )
    task, code = np.divmod(cell, max(labels.n_classes, 1))
    columns = np.column_stack([code, n_labels[task], count])
    columns = columns[np.lexsort(columns.T[::-1])]
    first = np.flatnonzero(np.diff(columns, axis=0, prepend=-1).any(axis=1))
    times = np.diff(first, append=len(columns))
    n_of_tasks = np.unique(n_labels[n_labels > 0], return_counts=True)
    return np.column_stack([columns[first], times]), n_of_tasks


def _alpha_of_class(
    kinds: Int64[np.ndarray, "kinds 3"],
    n_labels: Int64[np.ndarray, " numbers"],
    n_tasks: Int64[np.ndarray, " numbers"],
    level: float,
) -> Alpha:
    """Return alpha of a class against all others, from the result of :func:`_kinds_of_tasks`."""
    n_with, mine, times = kinds.T.astype(np.float64)
    without = n_tasks - np.bincount(np.searchsorted(n_labels, n_with), times, len(n_labels))
    n = np.concatenate([n_with, n_labels.astype(np.float64)])
    mine = np.concatenate([mine, np.zeros(len(n_labels))])
    times = np.concatenate([times, without])
    n, mine, times = (column[times > 0] for column in (n, mine, times))
    rest = n - mine
    # labels of the class and of others, on all tasks and on those with two labels or more
    given, others, paired, apart = (
        float((times * column)[n > least].sum()) for least in (0, 1) for column in (mine, rest)
    )
    touching = mine * (others - rest) + rest * (given - mine) + mine * rest
    return alpha_of_distances(n, mine * rest, touching, paired * apart, level, "nominal", times)


@check_arguments
def alpha_by_group(
    labels: CrowdLabels,
    group: Int[np.ndarray, " tasks"],
    n_groups: int,
    metric: Metric = "nominal",
    *,
    values: Sequence[float | int] | np.ndarray | None = None,
    level: float = 0.95,
) -> tuple[Alpha, ...]:
    """Return alpha of each group of tasks, as if there were no other tasks.

    Parameters
    ----------
    labels
        The crowd's labels.
    group
        The group code of each task, in ``[0, n_groups)``; -1 for tasks of no group.
    n_groups
        Number of groups.
    metric, values, level
        As for :func:`alpha_interval`.

    Raises
    ------
    ValueError
        If `group` is not one such code per task, or as for :func:`alpha_interval`.

    Notes
    -----
    **Guarantees.** The alpha of a group is that of the table of its tasks alone.

    **Cost.** Linear in the labels, and for each group in the classes.

    Examples
    --------
    >>> from quality import encode
    >>> labels = encode(["ann", "bob"] * 4, [1, 1, 2, 2, 3, 3, 4, 4], list("xxyyxyyx"))
    >>> [found.value for found in alpha_by_group(labels, np.array([0, 0, 1, 1]), 2)]
    [1.0, -0.5]
    """
    check_level(level)
    is_code = group.dtype.kind in "iu" and group.shape == (labels.n_tasks,)
    if not (is_code and np.all((group >= -1) & (group < n_groups))):
        raise ValueError(
            f"group must be one code in [-1, {n_groups}) for each of {labels.n_tasks} tasks"
        )
    numbers = class_values(labels, metric, values)
    tasks = np.flatnonzero((np.diff(labels.task_start) > 0) & (group >= 0))
    tasks = tasks[np.argsort(group[tasks], kind="stable")]
    ends = np.cumsum(np.bincount(group[tasks], minlength=n_groups))
    return tuple(
        _alpha(labels, mine, _given_in_all(labels, mine), metric, numbers, level)
        for mine in np.split(tasks, ends)[:n_groups]
    )


@check_arguments
def alpha_by_shards(
    engine: Engine, metric: Literal["nominal", "ordinal"] = "nominal", *, level: float = 0.95
) -> Alpha:
    """Return the result of :func:`alpha_interval` for labels in shards.

    Parameters
    ----------
    engine
        The labels in shards.
    metric
        As for :func:`alpha_interval`; ordinal classes are in the order of their codes.
    level
        Confidence level, in (0, 1).

    Raises
    ------
    ValueError
        If `metric` or `level` is out of its range.

    Notes
    -----
    **Guarantees.** Equal, to the bit, to :func:`alpha_interval` of the whole table.

    **Cost.** Two passes over the shards; four numbers a task are collected, not its labels.

    Examples
    --------
    >>> from quality import LocalEngine, cut_labels, encode
    >>> labels = encode(["ann", "bob"] * 8, np.repeat(np.arange(8), 2), list("xxyyxyxxyyxxyyyx"))
    >>> alpha_by_shards(LocalEngine(cut_labels(labels, [0, 3, 8])))
    Alpha(0.531, 95 % interval -0.543 to 0.951, nominal, 8 tasks)
    """
    check_level(level)
    if metric not in ("nominal", "ordinal"):
        raise ValueError(f"metric must be nominal or ordinal on shards, got metric={metric!r}")
    given, of_pairs = engine.add_up(_given_in_shard, None)
    ranks = np.arange(len(given), dtype=np.float64)
    place = None if metric == "nominal" else _places(metric, ranks, of_pairs)
    parts = engine.map(_sums_in_shard, given if place is None else place)
    mine = TaskSums(*map(np.concatenate, zip(*parts, strict=True)))
    return _alpha_of_sums(mine, given, of_pairs, place, level, metric)


def _given_in_shard(shard: LabelShard, _: object) -> Sums:
    """Return how often each class was given, on all tasks and on tasks with two labels or more."""
    n = np.diff(shard.task_start)
    return _given(shard, np.flatnonzero(n)), _given(shard, np.flatnonzero(n > 1))


def _sums_in_shard(
    shard: LabelShard, weight: Float64[np.ndarray, " classes"]
) -> tuple[np.ndarray, ...]:
    mine = sums_of_tasks(shard, np.flatnonzero(np.diff(shard.task_start)), weight)
    return mine.n, mine.same, mine.weight, mine.square


def check_level(level: float) -> None:
    """Raise ValueError unless `level` is in (0, 1)."""
    if not 0 < level < 1:
        raise ValueError(f"level must be in (0, 1), got level={level}")


def class_values(
    labels: CrowdLabels, metric: Metric, values: Sequence[float | int] | np.ndarray | None
) -> Float64[np.ndarray, " classes"]:
    """Return the number of each class for the metric; raise ValueError if there is none."""
    if metric not in METRICS:
        raise ValueError(f"metric must be one of {', '.join(METRICS)}, got metric={metric!r}")
    if values is None:
        if metric == "interval":
            raise ValueError("the metric interval needs values, a number for each class")
        return np.arange(labels.n_classes, dtype=np.float64)
    try:
        given = np.asarray(values)
        numbers = np.asarray([] if given.dtype.kind in "cmM" else given, dtype=np.float64)
    except (ValueError, TypeError, OverflowError):  # nested lists, texts, 10 ** 400
        numbers = np.empty(0)
    if numbers.shape != (labels.n_classes,) or not np.isfinite(numbers).all():
        raise ValueError(f"values must be {labels.n_classes} finite numbers, one for each class")
    return numbers


@dataclass(frozen=True, slots=True, eq=False)
class TaskSums:
    """Each task's part in coefficients of agreement.

    Parameters
    ----------
    n
        Number of its labels.
    same
        Its ordered pairs of different labels that have the same class.
    weight, square
        Sums of its labels' weights, and of their squares.
    """

    n: Float64[np.ndarray, " tasks"]
    same: Float64[np.ndarray, " tasks"]
    weight: Float64[np.ndarray, " tasks"]
    square: Float64[np.ndarray, " tasks"]


def sums_of_tasks(
    labels: CrowdLabels | LabelShard,
    tasks: Int64[np.ndarray, " some"],
    weight: Float64[np.ndarray, " classes"],
) -> TaskSums:
    """Return the sums of some tasks, for a weight of each class."""
    n = _n_labels(labels, tasks).astype(np.float64)
    found = np.zeros((3, len(tasks)))
    count = np.zeros(len(weight), dtype=np.int64)
    _add_tasks(labels.task_start, labels.label, tasks, weight, count, found)
    return TaskSums(n, *found)


@kernel
def _add_tasks(
    task_start: Int64[np.ndarray, " tasks+1"],
    label: Int16[np.ndarray, " labels"],
    tasks: Int64[np.ndarray, " some"],
    weight: Float64[np.ndarray, " classes"],
    count: Int64[np.ndarray, " classes"],
    found: Float64[np.ndarray, "3 some"],
) -> None:
    """Write equal ordered pairs, weights and squared weights of each task; `count` is 0 between tasks."""
    for place in range(len(tasks)):
        first, last = task_start[tasks[place]], task_start[tasks[place] + 1]
        same, total, square = 0, 0.0, 0.0
        for row in range(first, last):
            mine = label[row]
            same += 2 * count[mine]
            count[mine] += 1
            total += weight[mine]
            square += weight[mine] * weight[mine]
        for row in range(first, last):
            count[label[row]] = 0
        found[0, place], found[1, place], found[2, place] = same, total, square


def _alpha(
    labels: CrowdLabels,
    tasks: Int64[np.ndarray, " some"],
    given: tuple[Float64[np.ndarray, " classes"], Float64[np.ndarray, " classes"]],
    metric: Metric,
    numbers: Float64[np.ndarray, " classes"],
    level: float,
) -> Alpha:
    """Return alpha of some tasks, all of which have labels; `given` is their :func:`_given_in_all`."""
    in_all, in_paired = given
    place = None if metric == "nominal" else _places(metric, numbers, in_paired)
    mine = sums_of_tasks(labels, tasks, in_all if place is None else place)
    return _alpha_of_sums(mine, in_all, in_paired, place, level, metric)


def _alpha_of_sums(
    mine: TaskSums,
    given: Float64[np.ndarray, " classes"],
    of_pairs: Float64[np.ndarray, " classes"],
    place: np.ndarray | None,
    level: float,
    metric: Metric,
) -> Alpha:
    """Return alpha from each task's sums and each class's number of labels, on all and on paired tasks."""
    within, touching = _apart(mine, given, place)
    return alpha_of_distances(mine.n, within, touching, _spread(of_pairs, place), level, metric)


def _given_in_all(
    labels: CrowdLabels, tasks: Int64[np.ndarray, " some"]
) -> tuple[Float64[np.ndarray, " classes"], Float64[np.ndarray, " classes"]]:
    """Return how often each class was given on some tasks, and on those of them with two labels or more."""
    paired = tasks[_n_labels(labels, tasks) > 1]
    return _given(labels, tasks), _given(labels, paired)


def _n_labels(
    labels: CrowdLabels | LabelShard, tasks: Int64[np.ndarray, " some"]
) -> Int64[np.ndarray, " some"]:
    """Return the labels of some tasks, without a pass over the others, as groups may be many."""
    found: np.ndarray = labels.task_start[tasks + 1] - labels.task_start[tasks]
    return found


def _given(
    labels: CrowdLabels | LabelShard, tasks: Int64[np.ndarray, " some"]
) -> Float64[np.ndarray, " classes"]:
    """Return how often each class was given to some tasks."""
    mine = _n_labels(labels, tasks)
    chosen = labels.label
    if mine.sum() < labels.n_labels:
        inside = np.arange(mine.sum()) - np.repeat(np.cumsum(mine) - mine, mine)
        chosen = chosen[np.repeat(labels.task_start[tasks], mine) + inside]
    return np.bincount(chosen, minlength=labels.n_classes).astype(np.float64)


def _places(
    metric: Metric,
    numbers: Float64[np.ndarray, " classes"],
    given: Float64[np.ndarray, " classes"],
) -> Float64[np.ndarray, " classes"]:
    """Return a position for each class, so that the squared difference is the distance of two labels.

    For the ordinal metric it is the middle rank: two of these differ by the number of labels between two
    classes and half the labels of both.
    """
    place = numbers
    if metric == "ordinal":
        _, order = np.unique(numbers, return_inverse=True)
        at = np.bincount(order, given)
        place = (np.cumsum(at) - at / 2)[order]
    # shift and scale change nothing in alpha, and keep digits in sums of squares
    _, power = np.frexp(np.abs(place).max(initial=0))
    place = np.ldexp(place, -power)  # at most 1, so that sums do not overflow
    place = place - given @ place / max(given.sum(), 1)
    far = float(np.abs(place[given > 0]).max(initial=0))  # a class that nobody gave may be farther
    scaled: np.ndarray = place / max(far, 1e-9)  # smaller differences may be rounding
    return scaled


def _spread(given: Float64[np.ndarray, " classes"], place: np.ndarray | None) -> float:
    """Return the sum of the distances of all pairs of labels."""
    total = given.sum()
    if place is None:
        return float((total**2 - (given**2).sum()) / 2)
    return float(total * (given @ place**2) - (given @ place) ** 2)


def _apart(
    mine: TaskSums, given: Float64[np.ndarray, " classes"], place: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return sums of distances over each task's own pairs, and over all pairs with one of its labels."""
    if place is None:
        within = (mine.n * (mine.n - 1) - mine.same) / 2
        across = mine.n * (given.sum() - mine.n) - (mine.weight - mine.same - mine.n)
        return within, within + across
    within = mine.n * mine.square - mine.weight**2
    within[within <= ROUNDING * mine.n * mine.square] = 0.0  # the labels of such a task are equal
    across = (given.sum() - mine.n) * mine.square + mine.n * (given @ place**2 - mine.square)
    across -= 2 * mine.weight * (given @ place - mine.weight)
    return within, within + across
