"""The E step of Dawid–Skene and the expected counts, in one pass over the labels.

:func:`task_pass` multiplies a task's rows of the flat table, divides by the sum, and adds the
posterior to the counts of the same rows while they are still in cache: no logarithm or exponential
per label. One worker, one task of one label (places 0 and 1 of her table), two classes:

>>> one, counts = np.array([0, 1]), np.zeros(4)
>>> table, keep, work = np.array([0.9, 0.2, 0.1, 0.8]), np.empty((1, 2)), np.zeros((3, 2))
>>> rows = one, np.array([0], np.int32), np.array([-1], np.int16)
>>> log_likelihood = task_pass(0, 1, *rows, (0.5, 0.5), table, counts, keep, *work)
>>> keep.round(3)
array([[0.818, 0.182]])

Products of probabilities underflow. Where all of a task's have, they are taken again with a power of `HUGE`
for each class, and nothing is lost however many labels it has.

A task's belief is one number per class. With few classes it is a tuple and lives in registers; with
many it is an array, and :func:`wide_pass` handles several of its numbers at a time.

One-coin Dawid–Skene and MACE say of a label how likely it is if it is the truth, and how likely if it is
not: two numbers, where a confusion matrix has one for each truth. So a task needs the classes that it
was given; all others have the same likelihood. One worker of reliability 0.8, one task of one label of
class 1, three classes:

>>> rows = np.array([0, 1]), np.array([0], np.int32), np.array([1], np.int16), np.array([-1], np.int16)
>>> table, counts, keep = np.array([0.8, 0.1]), np.zeros(2), np.empty((1, 3))
>>> room = counts, keep, np.zeros(3), np.zeros((5, 3))
>>> log_likelihood = coin_pass(0, 1, *rows, np.full(3, 1 / 3), table, *room)
>>> keep.round(2), counts.round(2)
(array([[0.1, 0.8, 0.1]]), array([0.8, 0.2]))

It pays beyond a few classes; with a few, tuples are faster.
"""

from math import inf, log
from typing import Any

import numpy as np
from jaxtyping import Float64, Int, Int16, Int64
from numba.cpython.unsafe.tuple import tuple_setitem

from quality.labels import CrowdLabels, LabelError, LabelShard
from quality.parallel import kernel, prefetch

__all__ = [
    "MAX_CELLS", "MIN_ENTRY", "PUT", "UNROLLED", "check_cells", "check_gold", "check_smoothing",
    "coin_pass", "coin_vote", "coins_pay", "majority_pass", "task_pass", "wide_pass",
]  # fmt: skip

PUT: Any = tuple_setitem  # a belief with one number replaced
HUGE = 1e150
TINY = 1 / HUGE
LOG_TINY = log(TINY)
MAX_CELLS = 2**27  # of the workers' confusion matrices: 1 GB, of which a fit holds four
UNROLLED = 8  # the pass is compiled for each number of classes up to this one
LINE = 8  # numbers in a line of a cache
AHEAD = 10  # labels: about what a pass does while memory answers
MUCH = 0.1  # of the prior, that is known from a difference to enough digits
MIN_ENTRY = 1e-100  # of the smoothing; keeps every entry of a table above TINY


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
    """E step of some tasks: add to their expected counts and to the class mass; return the log-likelihood.

    `keep` takes the posteriors unless empty; `products` and `power` are for work.
    """
    n_classes, belief = len(prior), prior
    log_likelihood, evidence = 0.0, 1.0
    for task in range(first, last):
        low, high = task_start[task], task_start[task + 1]
        if low == high:
            continue
        belief, total = prior, 0.0
        for row in range(low, high):
            at = np.uint64(place[row])  # unsigned: no check for indices from the end
            for truth in range(n_classes):
                belief = PUT(belief, truth, belief[truth] * table[at + np.uint64(truth)])
        for truth in range(n_classes):
            if gold[task] >= 0 and truth != gold[task]:
                belief = PUT(belief, truth, 0.0)
            total += belief[truth]
        if total < TINY:  # elsewhere no posterior above that is lost
            total = 0.0
            for truth in range(n_classes):
                products[truth] = prior[truth]
            log_likelihood += (
                _multiply(place[low:high], gold[task], products, power, table) * LOG_TINY
            )
            for truth in range(n_classes):
                belief = PUT(belief, truth, products[truth])
                total += belief[truth]
        if evidence * total < TINY:  # a logarithm for many tasks at once
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
                keep[task, truth] = belief[truth]
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
    """:func:`task_pass` for a prior in an array: the loops over truths are of slices and vectorised.

    Rows are asked for some labels ahead: together they are larger than a cache, and each is met at random.
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
                keep[task, truth] = belief[truth]
    return log_likelihood + log(evidence)


@kernel
def _clamped_sum(belief: Float64[np.ndarray, " classes"], gold: int) -> float:
    """Return what beliefs add up to; with gold only its own is left."""
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

    `share` is for work.
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


@kernel
def coin_pass(
    first: int,
    last: int,
    task_start: Int64[np.ndarray, " tasks+1"],
    place: Int[np.ndarray, " labels"],
    label: Int16[np.ndarray, " labels"],
    gold: Int16[np.ndarray, " tasks"],
    prior: Float64[np.ndarray, " classes"],
    table: Float64[np.ndarray, " cells"],
    counts: Float64[np.ndarray, " cells"],
    keep: Float64[np.ndarray, "kept classes"],
    mass: Float64[np.ndarray, " classes"],
    work: Float64[np.ndarray, "5 classes"],
) -> float:
    """E step of some tasks: add to their expected counts and to the class mass; return the log-likelihood.

    At a label's place `table` and `counts` have its being right, and next to it its being wrong. `keep`
    takes the posteriors unless empty; `work` is zero before.
    """
    belief, others, power, named, seen = work[0], work[1], work[2], work[3], work[4]
    log_likelihood, evidence, of_unnamed, whole = 0.0, 1.0, 0.0, 0.0
    for truth in range(len(prior)):
        whole += prior[truth]
    for task in range(first, last):
        low, high = task_start[task], task_start[task + 1]
        if low == high:
            continue
        here, given = place[low:high], label[low:high]
        if gold[task] >= 0:
            log_likelihood += _known_coins(here, given, gold[task], prior, table, counts, mass)
            continue
        n_named, left = 0, whole
        for row in range(high - low):
            truth = given[row]
            if seen[truth] == task + 1:
                continue
            seen[truth] = task + 1
            named[n_named] = truth
            n_named += 1
            left -= prior[truth]
            belief[truth], power[truth] = _chance(here, given, truth, prior[truth], table)
        if left < MUCH:
            left = 0.0
            for truth in range(len(prior)):
                left += prior[truth] if seen[truth] != task + 1 else 0.0
        base, base_power = _chance(here, given, -1, 1.0, table) if left > 0.0 else (0.0, 0.0)
        base, least = _brought_level(n_named, named, base, base_power, belief, power)
        total = base * left
        for at in range(n_named):
            total += belief[int(named[at])]
        log_likelihood += least * LOG_TINY
        if evidence * total < TINY:  # a logarithm for many tasks at once
            log_likelihood += log(evidence)
            evidence = 1.0
        evidence *= total
        unit = base / total
        of_unnamed += unit
        _share(n_named, named, prior, left, unit, 1.0 / total, belief, others, mass)
        for row in range(high - low):
            counts[here[row]] += belief[given[row]]
            counts[here[row] + 1] += others[given[row]]
        if len(keep):
            for truth in range(len(prior)):
                named_here = seen[truth] == task + 1
                keep[task, truth] = belief[truth] if named_here else unit * prior[truth]
    for truth in range(len(prior)):
        mass[truth] += of_unnamed * prior[truth]
    return log_likelihood + log(evidence)


@kernel
def _known_coins(place, label, known, prior, table, counts, mass) -> float:
    """Add the labels of a task with gold to their counts, and it to the mass; return its log-likelihood."""
    product, lost = _chance(place, label, known, prior[known], table)
    mass[known] += 1.0
    for row in range(len(place)):
        counts[place[row] + (label[row] != known)] += 1.0
    log_likelihood: float = log(product) + lost * LOG_TINY
    return log_likelihood


@kernel
def _brought_level(n_named, named, base, base_power, belief, power) -> tuple[float, float]:
    """Bring the chances of all classes to the least power of TINY; return the unnamed's, and the power."""
    least = base_power if base > 0.0 else inf
    for at in range(n_named):
        truth = int(named[at])
        least = min(least, power[truth]) if belief[truth] > 0.0 else least
    for at in range(n_named):
        truth = int(named[at])
        belief[truth] *= TINY ** (power[truth] - least) if power[truth] > least else 1.0
    return base * (TINY ** (base_power - least) if base_power > least else 1.0), least


@kernel
def _chance(place, label, truth, start, table) -> tuple[float, float]:
    """Multiply a number by the chance of labels under a truth; return the power of TINY that it lacks."""
    product, power = start, 0.0
    for row in range(len(place)):
        if product < TINY:
            product *= HUGE
            power += 1.0
        product *= table[place[row] + (label[row] != truth)]
    return product, power


@kernel
def _share(n_named, named, prior, left, unit, scale, belief, others, mass) -> None:
    """Divide the beliefs by their sum, write what all others of each have, and add them to the mass.

    What a class would have if it had not been named is taken from its mass, and added for all tasks at once.
    Sums of the others, not differences: the nearly certain keep their digits.
    """
    for at in range(n_named):
        truth = int(named[at])
        belief[truth] *= scale
        mass[truth] += belief[truth] - unit * prior[truth]
    before = left * unit
    for at in range(n_named):
        truth = int(named[at])
        others[truth] = before
        before += belief[truth]
    after = 0.0
    for back in range(n_named):
        truth = int(named[n_named - 1 - back])
        others[truth] += after
        after += belief[truth]


@kernel
def coin_vote(
    task_start: Int64[np.ndarray, " tasks+1"],
    label: Int16[np.ndarray, " labels"],
    place: Int[np.ndarray, " labels"],
    gold: Int16[np.ndarray, " tasks"],
    counts: Float64[np.ndarray, " cells"],
    mass: Float64[np.ndarray, " classes"],
    share: Float64[np.ndarray, " classes"],
) -> None:
    """Add the soft majority vote of each task, gold clamped, to its labels' counts and the mass.

    `share` is zero before, and after.
    """
    for task in range(len(task_start) - 1):
        low, high = task_start[task], task_start[task + 1]
        if low == high:
            continue
        known = gold[task]
        for row in range(low, high):
            share[label[row]] += 1.0
        for row in range(low, high):
            right = share[label[row]] / (high - low)
            wrong = (high - low - share[label[row]]) / (high - low)
            if known >= 0:
                right, wrong = (1.0, 0.0) if label[row] == known else (0.0, 1.0)
            else:
                mass[label[row]] += 1.0 / (high - low)
            counts[place[row]] += right
            counts[place[row] + 1] += wrong
        if known >= 0:
            mass[known] += 1.0
        for row in range(low, high):
            share[label[row]] = 0.0


def check_cells(n_workers: int, n_answers: int, n_truths: int) -> None:
    """Raise LabelError unless confusion matrices of so many workers, answers and truths can be held.

    >>> check_cells(2_000, 40, 40)
    """
    cells = n_workers * n_answers * n_truths
    if cells > MAX_CELLS:
        raise LabelError(
            f"confusion matrices must have at most {MAX_CELLS:,} cells in all, got {cells:,} of "
            f"{n_workers:,} workers, {n_answers:,} answers and {n_truths:,} truths; the aggregators of "
            "quality.many_classes need none",
            column="classes",
        )


def check_smoothing(smoothing: float) -> None:
    """Raise ValueError unless a table smoothed by this keeps entries that the pass can multiply."""
    if not MIN_ENTRY <= smoothing < np.inf:
        raise ValueError(f"smoothing must be >= {MIN_ENTRY} and finite, got smoothing={smoothing}")


def coins_pay(n_classes: int) -> bool:
    """Return whether a model in which workers err alike whatever the truth is to have coins.

    >>> coins_pay(3), coins_pay(40)
    (False, True)
    """
    return n_classes > UNROLLED


def check_gold(
    labels: CrowdLabels | LabelShard, gold: Int[np.ndarray, " tasks"] | None, n_classes: int
) -> Int16[np.ndarray, " tasks"]:
    """Return gold as the pass reads it: one code per task, -1 everywhere where none is given."""
    n_tasks = labels.n_tasks
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
