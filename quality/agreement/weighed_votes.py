"""Reliability of votes if a few know among many who guess: votes weighted by each worker's likeness.

Each worker's weight is the likeness of her votes to others' on one half of the tasks, and it weighs her
votes on the other half. No half takes part in its own weights, so that guessers stay at chance.

>>> task, worker = np.repeat(np.arange(8), 3), np.tile(np.arange(3), 8)
>>> label = np.where(worker < 2, task % 4 // 2, worker * task % 2).astype(np.int16)  # two agree, one guesses
>>> vote_weights(*votes_like_others(task, worker, label, n_workers=3, n_classes=2)).round(3)
array([[0.076, 0.076, 0.039],
       [0.076, 0.076, 0.039]])
"""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int, Int16, Int64

from quality.agreement.votes_alike import reliability_of_votes

__all__ = [
    "WeighedSums", "vote_weights", "votes_like_others", "weighed_reliability", "weighed_sums",
]  # fmt: skip

HALVES = 2  # tasks of even and of odd codes
PRIOR_PAIRS = 50.0  # pairs of votes at the crowd's mean, added to each worker's own
SHARPNESS = 2  # power of a worker's likeness in her weight
LEAST = 1e-9  # minimum share of a task's weight beside its heaviest vote, for a pair


def votes_like_others(
    task: Int[np.ndarray, " labels"],
    worker: Int[np.ndarray, " labels"],
    label: Int16[np.ndarray, " labels"],
    n_workers: int,
    n_classes: int,
) -> tuple[
    Int64[np.ndarray, "2 workers"], Int64[np.ndarray, "2 workers"], Int64[np.ndarray, "2 classes"]
]:
    """Return, by half: each worker's pairs of votes with another's, the equal ones, and her labels in pairs.

    Task codes are those of the whole table. No table of tasks by classes is made.
    """
    half = task % HALVES
    row = task - _first(task)
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

    It is the square of that likeness beyond chance, shrunk to the crowd's. On a half whose other half has
    no pairs of votes or one class alone, all weights are 0.
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
    """Sums over tasks for the likeness of weighted votes, by half of the tasks.

    Parameters
    ----------
    apart
        Weight of unequal pairs, over the weight of the task's other votes beside each vote.
    by_class
        Weight of the votes of each class, on tasks with pairs.
    squares
        Squared weights of these votes.
    pairs, pair_squares
        Weight of the pairs of votes of a task, each counted twice, and its square.
    n_votes
        Effective number of votes of each task, (sum of weights)² / sum of squares.
    n_tasks
        Number of tasks with votes.
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
    """Return these tasks' sums for the likeness of weighted votes; task codes are the whole table's."""
    low = _first(task)
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
    """Return the reliability of a task's weighted votes, by a lower bound on their alpha.

    The bound is the mean of the halves' alphas minus one standard error under chance; NaN if neither has
    one.
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


def _first(task: Int[np.ndarray, " labels"]) -> int:
    """Return the smallest task code, from which a shard's tasks are counted; 0 without labels."""
    return int(task.min()) if len(task) else 0


def _cells(
    task: Int[np.ndarray, " labels"], label: Int16[np.ndarray, " labels"], n_classes: int
) -> tuple[Int64[np.ndarray, " labels"], Int64[np.ndarray, " cells"], Int64[np.ndarray, " cells"]]:
    """Return labels in the order of task and class, the start of each task's class, and its votes."""
    cell = task.astype(np.int64) * n_classes + label
    order = np.argsort(cell, kind="stable")
    first = np.flatnonzero(np.diff(cell[order], prepend=-1))
    return order, first, np.diff(first, append=len(cell))
