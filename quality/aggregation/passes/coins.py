"""The E step of models whose workers err alike under every truth: two numbers for an answer.

In one-coin Dawid–Skene and MACE a label has one likelihood if it is the truth, and one if it is not: two
numbers, where a confusion matrix has one for each truth. So a task needs only the classes that it was
given; all others have the same likelihood. One worker of reliability 0.8, one task with one label of class
1, three classes:

>>> rows = np.array([0, 1]), np.array([0], np.int32), np.array([1], np.int16), np.array([-1], np.int16)
>>> table, counts, keep = np.array([0.8, 0.1]), np.zeros(2), np.empty((1, 3))
>>> room = counts, keep, np.zeros(3), np.zeros((5, 3))
>>> log_likelihood = coin_pass(0, 1, *rows, np.full(3, 1 / 3), table, *room)
>>> keep.round(2), counts.round(2)
(array([[0.1, 0.8, 0.1]]), array([0.8, 0.2]))

It pays for more than a few classes; for a few, the tuples of :func:`task_pass` are faster.
"""

from math import inf, log

import numpy as np
from jaxtyping import Float64, Int, Int16, Int64

from quality.aggregation.passes.em_pass import HUGE, LOG_TINY, TINY, UNROLLED
from quality.parallel import kernel

__all__ = ["coin_pass", "coin_vote", "coins_pay"]

MUCH = 0.1  # share of the prior above which a difference has enough digits


def coins_pay(n_classes: int) -> bool:
    """Return whether coins pay for a model whose workers err alike under every truth.

    >>> coins_pay(3), coins_pay(40)
    (False, True)
    """
    return n_classes > UNROLLED


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
    """Do the E step of some tasks: add to their expected counts and class mass; return the log-likelihood.

    At a label's place `table` and `counts` have the entry for a right label, and next to it that for a
    wrong one. `keep` takes the posteriors unless empty; `work` is zero before.
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
        if evidence * total < TINY:  # one logarithm for many tasks
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
    """Add a task with gold to its labels' counts and to the mass; return its log-likelihood."""
    product, lost = _chance(place, label, known, prior[known], table)
    mass[known] += 1.0
    for row in range(len(place)):
        counts[place[row] + (label[row] != known)] += 1.0
    log_likelihood: float = log(product) + lost * LOG_TINY
    return log_likelihood


@kernel
def _brought_level(n_named, named, base, base_power, belief, power) -> tuple[float, float]:
    """Scale all classes' probabilities to the least power of TINY; return the unnamed's, and the power."""
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
    """Multiply a number by the probability of labels under a truth; return it and the power it lacks."""
    product, power = start, 0.0
    for row in range(len(place)):
        if product < TINY:
            product *= HUGE
            power += 1.0
        product *= table[place[row] + (label[row] != truth)]
    return product, power


@kernel
def _share(n_named, named, prior, left, unit, scale, belief, others, mass) -> None:
    """Divide the beliefs by their sum, write the sum of all others for each, and add beliefs to the mass.

    The belief that a class would have as an unnamed one is subtracted from its mass, and added for all
    tasks at once. The others are summed, not subtracted, so that nearly certain beliefs keep their digits.
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

    `share` is zero before and after.
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
