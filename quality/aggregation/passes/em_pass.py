"""The E step of Dawid–Skene and the expected counts, in one pass over the labels.

:func:`task_pass` multiplies a task's rows of the flat table, divides by the sum, and adds the posterior to
the counts of the same rows while they are still in cache, without a logarithm or exponential for each
label. One worker, one task with one label (places 0 and 1 of her table), two classes:

>>> one, counts = np.array([0, 1]), np.zeros(4)
>>> table, keep, work = np.array([0.9, 0.2, 0.1, 0.8]), np.empty((1, 2)), np.zeros((3, 2))
>>> rows = one, np.array([0], np.int32), np.array([-1], np.int16)
>>> log_likelihood = task_pass(0, 1, *rows, (0.5, 0.5), table, counts, keep, *work)
>>> keep.round(3)
array([[0.818, 0.182]])

Products of probabilities underflow. If all products of a task do, they are computed again with a power of
`HUGE` for each class, so that no number of labels is too large.

A task's belief is one number per class. With few classes it is a tuple and is kept in registers; with many
it is an array, and :func:`wide_pass` processes several of its numbers at a time. Subtypes of classes have
their own pass (:mod:`quality.aggregation.passes.subtypes`).
"""

from math import inf, log
from typing import Any

import numpy as np
from jaxtyping import Float64, Int, Int16, Int32, Int64
from numba.cpython.unsafe.tuple import tuple_setitem

from quality.aggregation.passes.lanes import LANES
from quality.parallel import kernel, prefetch

__all__ = [
    "HUGE", "LOG_TINY", "PUT", "TINY", "UNROLLED", "find_places", "majority_pass", "task_pass", "wide_pass",
]  # fmt: skip

PUT: Any = tuple_setitem  # a belief with one number replaced
HUGE = 1e150
TINY = 1 / HUGE
LOG_TINY = log(TINY)
BELOW_ONE = 1.0 - 2.0**-53  # the largest number under 1
UNROLLED = 8  # the pass is compiled for each number of classes up to this one
LINE = LANES  # numbers in a line of a cache
NEAR = 2**17  # numbers: a megabyte
AHEAD = 10  # labels: about as many as a pass processes while memory answers


@kernel
def find_places(
    worker: Int32[np.ndarray, " labels"],
    label: Int16[np.ndarray, " labels"],
    n_answers: int,
    n_truths: int,
    by_label: bool,
    place: Int[np.ndarray, " labels"],
) -> None:
    """Write where each label's truths begin in a flat table by worker, and by class if `by_label`."""
    for row in range(len(place)):
        at = worker[row] * n_answers + (label[row] if by_label else 0)
        place[row] = at * n_truths


@kernel
def task_pass(
    first: int,
    last: int,
    task_start: Int64[np.ndarray, " tasks+1"],
    place: Int[np.ndarray, " labels"],
    gold: Int16[np.ndarray, " tasks"],
    prior: tuple[float, ...],
    table: Float64[np.ndarray, " cells"],
    counts: Float64[np.ndarray, " cells"],
    keep: Float64[np.ndarray, "kept classes"],
    mass: Float64[np.ndarray, " classes"],
    products: Float64[np.ndarray, " classes"],
    power: Float64[np.ndarray, " classes"],
) -> float:
    """Do the E step of some tasks: add to their expected counts and class mass; return the log-likelihood.

    `keep` takes the posteriors unless empty; `products` and `power` are working memory. Rows of a table
    larger than a core's cache are requested some labels ahead.
    """
    n_classes, belief = len(prior), prior
    n_rows, is_far = len(place), len(table) > NEAR
    log_likelihood, evidence = 0.0, 1.0
    for task in range(first, last):
        low, high = task_start[task], task_start[task + 1]
        if low == high:
            continue
        belief, total = prior, 0.0
        for row in range(low, high):
            if is_far:
                soon = place[min(row + AHEAD, n_rows - 1)]
                prefetch(table, soon)
                prefetch(counts, soon)
            at = np.uint64(place[row])  # unsigned: no check for indices from the end
            for truth in range(n_classes):
                belief = PUT(belief, truth, belief[truth] * table[at + np.uint64(truth)])
        for truth in range(n_classes):
            if gold[task] >= 0 and truth != gold[task]:
                belief = PUT(belief, truth, 0.0)
            total += belief[truth]
        if total < TINY:  # otherwise no posterior above that is lost
            total = 0.0
            for truth in range(n_classes):
                products[truth] = prior[truth]
            log_likelihood += (
                _multiply(place[low:high], gold[task], products, power, table) * LOG_TINY
            )
            for truth in range(n_classes):
                belief = PUT(belief, truth, products[truth])
                total += belief[truth]
        if evidence * total < TINY:  # one logarithm for many tasks
            log_likelihood += log(evidence)
            evidence = 1.0
        evidence *= total
        share = 1.0 / total
        for truth in range(n_classes):
            belief = PUT(belief, truth, belief[truth] * share)
            mass[truth] += belief[truth]
        for row in range(low, high):
            at = np.uint64(place[row])
            for truth in range(n_classes):
                counts[at + np.uint64(truth)] += belief[truth]
        if len(keep):
            for truth in range(n_classes):
                keep[task, truth] = _certain(belief[truth])
    return log_likelihood + log(evidence)


@kernel
def wide_pass(
    first: int,
    last: int,
    task_start: Int64[np.ndarray, " tasks+1"],
    place: Int[np.ndarray, " labels"],
    gold: Int16[np.ndarray, " tasks"],
    prior: Float64[np.ndarray, " classes"],
    table: Float64[np.ndarray, " cells"],
    counts: Float64[np.ndarray, " cells"],
    keep: Float64[np.ndarray, "kept classes"],
    mass: Float64[np.ndarray, " classes"],
    belief: Float64[np.ndarray, " classes"],
    power: Float64[np.ndarray, " classes"],
) -> float:
    """Do :func:`task_pass` for a prior in an array: the loops over truths are vectorised.

    Rows are requested some labels ahead: together they are larger than a cache, and their order is random.
    """
    n_classes, n_rows = len(prior), len(place)
    log_likelihood, evidence = 0.0, 1.0
    for task in range(first, last):
        low, high = task_start[task], task_start[task + 1]
        if low == high:
            continue
        for truth in range(n_classes):
            belief[truth] = prior[truth]
        for row in range(low, high):
            soon = place[min(row + AHEAD, n_rows - 1)]
            for line in range(0, n_classes, LINE):
                prefetch(table, soon + line)
                prefetch(counts, soon + line)
            cells = table[place[row] : place[row] + n_classes]
            for truth in range(n_classes):
                belief[truth] *= cells[truth]
        total = _clamped_sum(belief, gold[task])
        if total < TINY:
            for truth in range(n_classes):
                belief[truth] = prior[truth]
            log_likelihood += (
                _multiply(place[low:high], gold[task], belief, power, table) * LOG_TINY
            )
            total = _clamped_sum(belief, gold[task])
        if evidence * total < TINY:
            log_likelihood += log(evidence)
            evidence = 1.0
        evidence *= total
        share = 1.0 / total
        for truth in range(n_classes):
            belief[truth] *= share
            mass[truth] += belief[truth]
        for row in range(low, high):
            given = counts[place[row] : place[row] + n_classes]
            for truth in range(n_classes):
                given[truth] += belief[truth]
        if len(keep):
            for truth in range(n_classes):
                keep[task, truth] = _certain(belief[truth])
    return log_likelihood + log(evidence)


@kernel
def _certain(share: float) -> float:
    """Return a share, and 1 if it is the whole: the product with the reciprocal may miss 1 by a digit."""
    return 1.0 if share >= BELOW_ONE else share


@kernel
def _clamped_sum(belief: Float64[np.ndarray, " classes"], gold: int) -> float:
    """Return the sum of beliefs; with gold, set all others to 0 first."""
    if gold >= 0:
        known: float = belief[gold]
        for truth in range(len(belief)):
            belief[truth] = 0.0
        belief[gold] = known
        return known
    total = 0.0
    for truth in range(len(belief)):
        total += belief[truth]
    return total


@kernel
def _multiply(
    place: Int[np.ndarray, " rows"],
    gold: int,
    belief: Float64[np.ndarray, " classes"],
    power: Float64[np.ndarray, " classes"],
    table: Float64[np.ndarray, " cells"],
) -> float:
    """Multiply a belief by many entries, in place; return the power of TINY that it lacks."""
    least = inf
    for truth in range(len(belief)):
        power[truth] = 0.0
        product = belief[truth] if gold < 0 or gold == truth else 0.0
        for at in place:
            if product < TINY:
                product *= HUGE
                power[truth] += 1.0
            product *= table[at + truth]
        belief[truth] = product
        if product > 0.0:
            least = min(least, power[truth])
    for truth in range(len(belief)):
        rest = TINY ** (power[truth] - least) if belief[truth] > 0.0 else 0.0
        belief[truth] *= rest
    return least


@kernel
def majority_pass(
    task_start: Int64[np.ndarray, " tasks+1"],
    label: Int16[np.ndarray, " labels"],
    place: Int[np.ndarray, " labels"],
    gold: Int16[np.ndarray, " tasks"],
    counts: Float64[np.ndarray, " cells"],
    mass: Float64[np.ndarray, " classes"],
    share: Float64[np.ndarray, " classes"],
) -> None:
    """Add the soft majority vote of each task, gold clamped, to its labels' counts and the mass.

    `share` is working memory.
    """
    for task in range(len(task_start) - 1):
        low, high = task_start[task], task_start[task + 1]
        if low == high:
            continue
        for truth in range(len(mass)):
            share[truth] = 0.0
        for row in range(low, high):
            share[label[row]] += 1.0
        for truth in range(len(mass)):
            share[truth] /= high - low
            if gold[task] >= 0:
                share[truth] = 1.0 if truth == gold[task] else 0.0
            mass[truth] += share[truth]
        for row in range(low, high):
            for truth in range(len(mass)):
                counts[place[row] + truth] += share[truth]
