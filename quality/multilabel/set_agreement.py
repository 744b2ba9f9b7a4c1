"""Krippendorff's alpha of sets of classes, with the distances of Jaccard and of Passonneau (MASI).

>>> from quality.multilabel import encode_multilabels
>>> workers, tasks = ["ann", "bob"] * 3, ["x", "x", "y", "y", "z", "z"]
>>> sets = [["dog"], ["dog"], ["cat"], ["cat"], ["cat"], ["cat", "mouse"]]
>>> round(set_alpha(encode_multilabels(workers, tasks, sets), "jaccard").value, 3)
0.737
"""

from typing import get_args

import numpy as np
from jaxtyping import Float64, Int16, Int64

from quality.agreement import Alpha, SetMetric, alpha_of_distances, check_level
from quality.argument_types import check_arguments
from quality.multilabel.answer_sets import MultiLabels
from quality.parallel import kernel

__all__ = ["SET_METRICS", "set_alpha"]

SET_METRICS: tuple[SetMetric, ...] = get_args(SetMetric)


@check_arguments
def set_alpha(table: MultiLabels, metric: SetMetric = "masi", *, level: float = 0.95) -> Alpha:
    """Return Krippendorff's alpha of sets of classes and Hughes' jackknife interval for it.

    Parameters
    ----------
    table
        The crowd's answers.
    metric
        ``"jaccard"``: one minus the intersection's share of the union. ``"masi"``: that share counts 2/3 if
        one set contains the other and 1/3 if neither does. Two empty sets are equal, and an empty set has
        distance 1 from any other.
    level
        Confidence level, in (0, 1).

    Raises
    ------
    ValueError
        If `metric` or `level` is out of its range.

    Notes
    -----
    **Guarantees.** If every set has one class both metrics give :func:`~quality.alpha_interval` of nominal
    labels. The order of workers, tasks and classes does not matter.

    **Cost.** Pairs of different sets that share a class, and pairs of answers to a task.

    References
    ----------
    .. [1] Passonneau, "Measuring agreement on set-valued items (MASI) for semantic and pragmatic
       annotation", LREC (2006).
    .. [2] Krippendorff, "Computing Krippendorff's alpha-reliability", University of Pennsylvania (2011).
    .. [3] Hughes, "Toward improved inference for Krippendorff's Alpha agreement coefficient",
       arXiv:2210.13265 (2022).
    """
    check_level(level)
    if metric not in SET_METRICS:
        raise ValueError(f"metric must be one of {', '.join(SET_METRICS)}, got metric={metric!r}")
    n_of_task = np.diff(table.task_start)
    kind, start, label = _different_sets(table)
    paired = n_of_task[table.task] > 1
    everyone = np.ones(len(kind), dtype=np.bool_)
    count = np.stack(
        [np.bincount(kind[who], minlength=len(start) - 1) for who in (everyone, paired)]
    )
    alike = np.zeros(count.shape)
    holds, holds_start = _holders(label, start, table.n_classes)
    is_masi = metric == "masi"
    _add_alike(start, label, holds_start, holds, count.astype(np.float64), is_masi, alike)
    within = np.zeros(table.n_tasks)
    _add_within(table.task_start, kind, start, label, is_masi, within)
    some = n_of_task > 0
    far = count.sum(axis=1)[:, np.newaxis] - alike
    of_task = np.bincount(table.task, far[0, kind], table.n_tasks)
    expected = float((count[1] * far[1]).sum() / 2)
    return alpha_of_distances(
        n_of_task[some].astype(np.float64),
        within[some],
        (of_task - within)[some],
        expected,
        level,
        metric,
    )


def _different_sets(
    table: MultiLabels,
) -> tuple[
    Int64[np.ndarray, " answers"], Int64[np.ndarray, " set_starts"], Int16[np.ndarray, " labels"]
]:
    """Return the number of each answer's set, and the distinct sets, as offsets and classes."""
    letters = table.label.astype("<i2").tobytes()
    bounds = (2 * table.label_start).tolist()
    sets: dict[bytes, int] = {}
    kind = np.empty(table.n_answers, dtype=np.int64)
    for answer in range(table.n_answers):
        kind[answer] = sets.setdefault(letters[bounds[answer] : bounds[answer + 1]], len(sets))
    size = [len(one) // 2 for one in sets]
    start = np.concatenate([[0], np.cumsum(size)]).astype(np.int64)
    return kind, start, np.frombuffer(b"".join(sets), dtype="<i2").astype(np.int16)


def _holders(
    label: Int16[np.ndarray, " labels"], start: Int64[np.ndarray, " set_starts"], n_classes: int
) -> tuple[Int64[np.ndarray, " labels"], Int64[np.ndarray, " class_starts"]]:
    """Return the sets that contain each class, and where each class starts."""
    holder = np.repeat(np.arange(len(start) - 1), np.diff(start))
    counts = np.bincount(label, minlength=n_classes)
    holds_start = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return holder[np.argsort(label, kind="stable")], holds_start


@kernel
def _likeness(common: int, one: int, other: int, is_masi: bool) -> float:
    """Return one minus the distance of two sets, from their sizes and their number of common classes."""
    if one == 0 and other == 0:
        return 1.0
    share = common / (one + other - common)
    if is_masi and one + other > 2 * common:
        share *= 2.0 / 3.0 if common == min(one, other) else 1.0 / 3.0
    return share


@kernel
def _add_alike(
    start: Int64[np.ndarray, " set_starts"],
    label: Int16[np.ndarray, " labels"],
    holds_start: Int64[np.ndarray, " class_starts"],
    holds: Int64[np.ndarray, " labels"],
    count: Float64[np.ndarray, "kinds sets"],
    is_masi: bool,
    alike: Float64[np.ndarray, "kinds sets"],
) -> None:
    """Add for each set the likeness to all answers, for each kind of count, in place."""
    common = np.zeros(len(start) - 1, dtype=np.int64)
    met = np.empty(len(start) - 1, dtype=np.int64)
    for one in range(len(start) - 1):
        size, n_met = start[one + 1] - start[one], 0
        if size == 0:  # it is like itself alone
            met[0], n_met = one, 1
        for row in range(start[one], start[one + 1]):
            for place in range(holds_start[label[row]], holds_start[label[row] + 1]):
                other = holds[place]
                if common[other] == 0:
                    met[n_met] = other
                    n_met += 1
                common[other] += 1
        for place in range(n_met):
            other = met[place]
            near = _likeness(common[other], size, start[other + 1] - start[other], is_masi)
            for k in range(len(count)):
                alike[k, one] += near * count[k, other]
            common[other] = 0


@kernel
def _add_within(
    task_start: Int64[np.ndarray, " task_starts"],
    kind: Int64[np.ndarray, " answers"],
    start: Int64[np.ndarray, " set_starts"],
    label: Int16[np.ndarray, " labels"],
    is_masi: bool,
    within: Float64[np.ndarray, " tasks"],
) -> None:
    """Add the distances of each task's own pairs of answers, in place."""
    for task in range(len(task_start) - 1):
        for answer in range(task_start[task], task_start[task + 1]):
            one = kind[answer]
            for before in range(task_start[task], answer):
                other = kind[before]
                p, q, common = start[one], start[other], 0
                while p < start[one + 1] and q < start[other + 1]:
                    if label[p] == label[q]:
                        common += 1
                        p += 1
                        q += 1
                    elif label[p] < label[q]:
                        p += 1
                    else:
                        q += 1
                sizes = start[one + 1] - start[one], start[other + 1] - start[other]
                within[task] += 1.0 - _likeness(common, sizes[0], sizes[1], is_masi)
