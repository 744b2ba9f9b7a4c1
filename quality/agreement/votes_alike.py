"""How far a consensus rests on knowledge: whether votes are more alike than chance makes them.

A crowd that guesses has a consensus too, and models of it are sure of themselves. Its votes on one task
are alike no more than votes on two, which labels show without gold: Krippendorff's alpha is the
reliability of one vote, and by the formula of Spearman and Brown it gives that of all votes of a task.
Where a few know among many who guess, votes are weighed by how much alike each worker's are to others' on
the other half of the tasks; the half that is judged takes no part, so that guessers' stay at chance.

>>> [round(reliability_of_votes(alpha, n_votes=5.0), 2) for alpha in (0.0, 0.04, 0.5)]
[0.0, 0.17, 0.83]
>>> [round(beyond_chance(reliability), 2) for reliability in (0.0, 0.17, 0.83)]
[0.0, 0.31, 0.97]
"""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int, Int16, Int64

__all__ = [
    "WeighedSums", "alpha_of", "alpha_sums", "beyond_chance", "reliability_of_votes", "vote_weights",
    "votes_like_others", "weighed_reliability", "weighed_sums",
]  # fmt: skip

HALVES = 2  # tasks of even and of odd codes
PRIOR_PAIRS = 50.0  # of the crowd's mean, added to each worker's pairs of votes
SHARPNESS = 2  # power of a worker's likeness that is her weight

LEAST = 1e-9  # share of a task's weight that must stand beside its heaviest vote, to be a pair
POWER = 2  # of the share of chance in the votes: families left out, and crowds of known skill


def alpha_sums(
    task_start: Int64[np.ndarray, " bounds"], label: Int16[np.ndarray, " labels"], n_classes: int
) -> tuple[Int64[np.ndarray, " classes"], Float64[np.ndarray, " 1"]]:
    """Return what tasks add to alpha: labels of each class, and pairs apart, both where there are pairs.

    The labels of task ``t`` are ``label[task_start[t]:task_start[t + 1]]``. No table of tasks by classes
    is made.
    """
    n_labels = np.diff(task_start)
    task = np.repeat(np.arange(len(n_labels)), n_labels)
    paired = n_labels > 1
    rows = paired[task]
    cell = np.sort(task[rows] * n_classes + label[rows])
    first = np.flatnonzero(np.diff(cell, prepend=-1))
    count = np.diff(first, append=len(cell)).astype(np.float64)
    same = np.bincount(cell[first] // n_classes, count**2, len(n_labels))
    apart = (n_labels[paired] ** 2 - same[paired]) / (n_labels[paired] - 1)
    by_class = np.bincount(label[rows], minlength=n_classes)
    return by_class, np.array([apart.sum()])


def alpha_of(by_class: Int64[np.ndarray, " classes"], apart: Float64[np.ndarray, " 1"]) -> float:
    """Return the nominal alpha that the sums of all tasks amount to; NaN where it is not defined."""
    labels = by_class.astype(np.float64)
    total = labels.sum()
    expected = (total**2 - (labels**2).sum()) / max(total - 1, 1)
    return float(1 - apart[0] / expected) if expected > 0 else float("nan")


def reliability_of_votes(alpha: float, n_votes: float) -> float:
    """Return the share of a consensus' variance that is the tasks', by Spearman and Brown.

    Parameters
    ----------
    alpha
        Krippendorff's alpha of the votes, at most 1. Below 0, which only chance or contrariness gives,
        it counts as 0.
    n_votes
        Votes of a task, at least 1.

    Returns
    -------
    float
        In [0, 1]; `alpha` itself of one vote; NaN if alpha is.

    References
    ----------
    .. [1] Spearman, "Correlation calculated from faulty data", British Journal of Psychology 3 (1910).
    .. [2] Brown, "Some experimental results in the correlation of mental abilities", the same volume.
    """
    if math.isnan(alpha):
        return alpha
    alike = max(alpha, 0.0)
    return n_votes * alike / (1.0 + (n_votes - 1.0) * alike)


def votes_like_others(
    task: Int[np.ndarray, " labels"],
    worker: Int[np.ndarray, " labels"],
    label: Int16[np.ndarray, " labels"],
    n_workers: int,
    n_classes: int,
) -> tuple[
    Int64[np.ndarray, "2 workers"], Int64[np.ndarray, "2 workers"], Int64[np.ndarray, "2 classes"]
]:
    """Return, by half: pairs of votes of each worker's with another's, those alike, and labels in pairs.

    Task codes are those of the whole table. No table of tasks by classes is made.
    """
    half = task % HALVES
    row = task - task.min(initial=0)
    n_others = np.bincount(row)[row] - 1
    order, _, count = _cells(task, label, n_classes)
    alike = np.empty(len(task), dtype=np.int64)
    alike[order] = np.repeat(count - 1, count)
    place = half * n_workers + worker
    pairs, same = (
        np.bincount(place, values, HALVES * n_workers).astype(np.int64).reshape(HALVES, n_workers)
        for values in (n_others, alike)
    )
    paired = n_others > 0
    cell = half[paired] * n_classes + label[paired]
    by_class = np.bincount(cell, minlength=HALVES * n_classes).reshape(HALVES, n_classes)
    return pairs, same, by_class


def vote_weights(
    pairs: Int64[np.ndarray, "2 workers"],
    same: Int64[np.ndarray, "2 workers"],
    by_class: Int64[np.ndarray, "2 classes"],
) -> Float64[np.ndarray, "2 workers"]:
    """Return each worker's weight on each half, from the likeness of her votes on the other.

    It is the square of that likeness beyond chance, drawn to the crowd's; nobody's weight is known, and all
    are 0, on a half whose other has no pairs of votes or one class alone.
    """
    found = np.zeros(pairs.shape)
    for half in range(HALVES):
        other = HALVES - 1 - half
        share = by_class[other] / max(by_class[other].sum(), 1)
        chance = float((share**2).sum())
        if not 0.0 < chance < 1.0:
            continue
        beyond = (same[other] - chance * pairs[other]) / (1.0 - chance)
        mean = max(beyond.sum() / pairs[other].sum(), 0.0)
        likeness = (beyond + PRIOR_PAIRS * mean) / (pairs[other] + PRIOR_PAIRS)
        found[half] = np.maximum(likeness, 0.0) ** SHARPNESS
    return found


class WeighedSums(NamedTuple):
    """What weighed votes add to their likeness, by half of the tasks; sums over tasks.

    Parameters
    ----------
    apart
        Weight of pairs apart, over the weight that a vote of the task has beside it.
    by_class
        Weight of the votes of each class, on tasks with pairs.
    squares
        Squared weights of these.
    pairs, pair_squares
        Weight of the pairs of votes of a task, each counted twice, and of its square.
    n_votes
        Votes of equal weight that each task's are worth, (sum of weights)² / sum of squares.
    n_tasks
        Tasks with votes.
    """

    apart: Float64[np.ndarray, " 2"]
    by_class: Float64[np.ndarray, "2 classes"]
    squares: Float64[np.ndarray, " 2"]
    pairs: Float64[np.ndarray, " 2"]
    pair_squares: Float64[np.ndarray, " 2"]
    n_votes: Float64[np.ndarray, " 2"]
    n_tasks: Float64[np.ndarray, " 2"]


def weighed_sums(
    task: Int[np.ndarray, " labels"],
    worker: Int[np.ndarray, " labels"],
    label: Int16[np.ndarray, " labels"],
    weights: Float64[np.ndarray, "2 workers"],
    n_classes: int,
) -> WeighedSums:
    """Return what these tasks add to the likeness of weighed votes; task codes are the whole table's."""
    low = task.min(initial=0)
    half, row = task % HALVES, task - low
    weight = weights[half, worker]
    total, square, fourth = (np.bincount(row, weight**power) for power in (1, 2, 4))
    order, first, _ = _cells(task, label, n_classes)
    by_cell = np.add.reduceat(weight[order], first) if len(order) else weight
    alike = np.bincount(row[order][first], by_cell**2, len(total))
    pairs = total**2 - square
    paired = pairs > LEAST * total**2
    apart, worth = np.zeros((2, len(total)))
    np.divide((total**2 - alike) * total, pairs, out=apart, where=paired)
    np.divide(total**2, square, out=worth, where=square > 0)
    used = paired[row]
    cell = half[used] * n_classes + label[used]
    by_class = np.bincount(cell, weight[used], HALVES * n_classes).reshape(HALVES, n_classes)
    of_task = (np.arange(len(total)) + low) % HALVES
    by_half = [
        np.bincount(of_task, values, HALVES)
        for values in (
            apart, square * paired, pairs * paired, (square**2 - fourth) * paired, worth,
            np.bincount(row) > 0,
        )
    ]  # fmt: skip
    return WeighedSums(by_half[0], by_class, *by_half[1:])


def weighed_reliability(sums: WeighedSums) -> float:
    """Return the reliability of a task's weighed votes, by what is sure of their alpha.

    That is the mean of the halves' less one standard error, as chance makes it; NaN where neither has one.
    """
    alphas, variances, worths = [], [], []
    for apart, by_class, squares, pairs, pair_squares, n_votes, n_tasks in zip(*sums, strict=True):
        total = by_class.sum()
        spread = total - squares / total if total > 0 else 0.0
        expected = (total**2 - (by_class**2).sum()) / spread if spread > 0 else 0.0
        if expected > 0:
            chance = ((by_class / total) ** 2).sum()
            alphas.append(1.0 - apart / expected)
            variances.append(2.0 * chance / (1.0 - chance) * pair_squares / pairs**2)
            worths.append(max(n_votes / n_tasks, 1.0))
    if not alphas:
        return math.nan
    sure = np.mean(alphas) - np.sqrt(np.sum(variances)) / len(alphas)
    return reliability_of_votes(float(sure), float(np.mean(worths)))


def _cells(
    task: Int[np.ndarray, " labels"], label: Int16[np.ndarray, " labels"], n_classes: int
) -> tuple[Int64[np.ndarray, " labels"], Int64[np.ndarray, " cells"], Int64[np.ndarray, " cells"]]:
    """Return labels in the order of task and class, where each task's class begins, and its votes."""
    cell = task.astype(np.int64) * n_classes + label
    order = np.argsort(cell, kind="stable")
    first = np.flatnonzero(np.diff(cell[order], prepend=-1))
    return order, first, np.diff(first, append=len(cell))


def beyond_chance(reliability: float) -> float:
    """Return the weight of what is believed of a crowd that knows something; the rest is a guess's.

    It is one minus the square of the share that chance has in the votes' mean. That is near 1 for public
    crowds, of which it is .67 at least, and 0 where votes are alike as by chance.

    Parameters
    ----------
    reliability
        Of a task's votes, in [0, 1], as :func:`reliability_of_votes` has it; where it is NaN nothing is
        known, and the weight 1.

    Notes
    -----
    **Limits.** Votes are alike too where workers copy each other or err together: groups must have one
    vote. Of few tasks reliability is itself uncertain: alpha by about 1 / sqrt(pairs of votes).
    """
    if math.isnan(reliability):
        return 1.0
    return 1.0 - (1.0 - reliability) ** POWER
