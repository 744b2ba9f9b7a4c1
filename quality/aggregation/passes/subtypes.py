"""EBCC's passes over the labels: the E step of many truths, eight at a time, and the steps around it.

A table, and expected counts, have a part for every eight truths: ``table[part, 8 * row + lane]``, where a
row is an answer that a worker gives. A pass takes some thousand tasks part by part. So random access is to
an eighth of a row, and all rows of one part are soon in cache. One worker and one task, of her row 1:

>>> table, counts, work = np.full((1, 16), 0.5), np.empty((1, 16)), np.empty((3, 8))
>>> rows = np.array([0, 1]), np.array([8], np.int32)
>>> prior = np.array([0.5, 0.3, 0.2, 0, 0, 0, 0, 0])
>>> beliefs = np.empty((1, 8)), np.empty(1)
>>> evidence = subtype_pass(0, 1, *rows, prior, table, counts, work[0], *beliefs, work[1])
>>> round(float(np.exp(evidence)), 12), counts[0, 8:11]
(0.5, array([0.5, 0.3, 0.2]))

Subtypes without tasks are dropped: the others move to the front, and the last parts are no longer used.
"""

from math import inf, log

import numpy as np
from jaxtyping import Float64, Int, Int16, Int32, Int64

from quality.aggregation.passes.em_pass import HUGE, LOG_TINY, TINY
from quality.aggregation.passes.lanes import (
    LANES,
    filled,
    lanes_at,
    lanes_sum,
    plus,
    put_lanes,
    times,
)
from quality.parallel import kernel

__all__ = [
    "class_posterior", "deal", "find_rows", "narrow", "subtype_pass",
]  # fmt: skip

EMPTY = 1e-9  # expected tasks; the prior keeps such a subtype from coming back by exp(-100)
U = np.uint64


@kernel
def find_rows(
    worker: Int32[np.ndarray, " labels"],
    label: Int16[np.ndarray, " labels"],
    place: Int32[np.ndarray, " labels"],
    answer: Int64[np.ndarray, " pairs"],
    start: Int64[np.ndarray, " bounds"],
) -> int:
    """Number the pairs of a worker and an answer that occur, by worker and answer; return their number.

    Write the place of each label's row, the answer of each row, and the first row of each worker.
    """
    n_workers = len(start) - 1
    n_answers = len(answer) // n_workers if n_workers else 0
    number = np.zeros(len(answer), np.int32)
    for at in range(len(label)):
        number[worker[at] * n_answers + label[at]] = 1
    n_rows = 0
    for hers in range(n_workers):
        start[hers] = n_rows
        for given in range(n_answers):
            pair = hers * n_answers + given
            if number[pair]:
                number[pair] = n_rows
                answer[n_rows] = given
                n_rows += 1
    start[n_workers] = n_rows
    for at in range(len(label)):
        place[at] = number[worker[at] * n_answers + label[at]] * LANES
    return n_rows


@kernel
def deal(
    first: int,
    last: int,
    task_start: Int64[np.ndarray, " starts"],
    place: Int32[np.ndarray, " labels"],
    label: Int16[np.ndarray, " labels"],
    drawn: Float64[np.ndarray, "labelled classes subtypes"],
    counts: Float64[np.ndarray, "parts cells"],
    mass: Float64[np.ndarray, " truths"],
    belief: Float64[np.ndarray, "parts room"],
    share: Float64[np.ndarray, " tasks"],
) -> None:
    """Add some tasks' soft majority vote to counts and mass, divided over subtypes by the drawn numbers."""
    _, n_classes, n_subtypes = drawn.shape
    beliefs, at, low = belief.ravel(), 0, task_start[first]
    for task in range(U(last - first)):
        high, here = task_start[U(first) + task + U(1)], task * U(LANES)
        share[task] = 1.0
        for part in range(len(belief)):
            put_lanes(beliefs, U(part * belief.shape[1]) + here, filled(0.0))
        for truth in range(n_classes):
            votes, total = 0, 0.0
            for given in range(low, high):
                votes += label[given] == truth
            if votes == 0:
                continue
            for subtype in range(n_subtypes):
                total += drawn[at, truth, subtype]
            scale = votes / (high - low) / total
            for subtype in range(n_subtypes):
                whole = U(truth * n_subtypes + subtype)
                begin = whole // U(LANES) * U(belief.shape[1]) + here
                beliefs[begin + whole % U(LANES)] = drawn[at, truth, subtype] * scale
        at += low < high
        low = high
    _add_beliefs(first, last, task_start, place, belief, share, counts, mass)


@kernel
def narrow(
    mass: Float64[np.ndarray, " truths"],
    truth: Int64[np.ndarray, " truths"],
    counts: Float64[np.ndarray, "parts cells"],
    pseudo: Float64[np.ndarray, "parts answers"],
    n_parts: int,
) -> int:
    """Drop empty subtypes, in place, if that leaves fewer parts; return the number of parts left.

    For a table without labels all are kept, as every class is equally likely.
    """
    n_full = 0
    for at in range(n_parts * LANES):
        n_full += mass[at] > EMPTY
    left = -(-n_full // LANES)
    if left == n_parts or n_full == 0:
        return n_parts
    n_spare, to = left * LANES - n_full, 0
    for at in range(n_parts * LANES):
        if mass[at] > EMPTY or n_spare > 0:
            n_spare -= mass[at] <= EMPTY
            mass[to], truth[to] = mass[at], truth[at]
            for table in (counts, pseudo):
                here, there = table[at // LANES], table[to // LANES]
                for row in range(0, len(here), LANES):
                    there[row + to % LANES] = here[row + at % LANES]
            to += 1
    return left


@kernel
def subtype_pass(
    first: int,
    last: int,
    task_start: Int64[np.ndarray, " starts"],
    place: Int[np.ndarray, " labels"],
    prior: Float64[np.ndarray, " truths"],
    table: Float64[np.ndarray, "parts cells"],
    counts: Float64[np.ndarray, "parts cells"],
    mass: Float64[np.ndarray, " truths"],
    belief: Float64[np.ndarray, "parts room"],
    share: Float64[np.ndarray, " tasks"],
    power: Float64[np.ndarray, " truths"],
) -> float:
    """Do the E step of some tasks: write their expected counts and mass; return the log-likelihood.

    `belief`, `share` and `power` are working memory.
    """
    log_likelihood, room = 0.0, len(share)
    for part in range(len(prior) // LANES):
        counts[part, :] = 0.0
        put_lanes(mass, U(part * LANES), filled(0.0))
    for begin in range(first, last, room):
        end = min(begin + room, last)
        log_likelihood += _beliefs(
            begin, end, task_start, place, prior, table, belief, share, power
        )
        _add_beliefs(begin, end, task_start, place, belief, share, counts, mass[: len(prior)])
    return log_likelihood


@kernel
def class_posterior(
    first: int,
    last: int,
    n_subtypes: int,
    task_start: Int64[np.ndarray, " starts"],
    place: Int32[np.ndarray, " labels"],
    truth: Int64[np.ndarray, " truths"],
    prior: Float64[np.ndarray, " truths"],
    table: Float64[np.ndarray, "parts cells"],
    belief: Float64[np.ndarray, "parts room"],
    share: Float64[np.ndarray, " tasks"],
    posterior: Float64[np.ndarray, "tasks classes"],
) -> float:
    """Write the posterior of the classes, the prior where a task has no labels; return the log-likelihood."""
    log_likelihood, room, power = 0.0, len(share), np.empty(len(prior))
    n_classes = posterior.shape[1]
    for begin in range(first, last, room):
        end = min(begin + room, last)
        log_likelihood += _beliefs(
            begin, end, task_start, place, prior, table, belief, share, power
        )
        posterior[begin:end] = 0.0
        for at in range(len(prior)):
            code, beliefs = truth[at] // n_subtypes, belief[at // LANES, at % LANES :: LANES]
            if code < n_classes:
                for task in range(end - begin):
                    posterior[begin + task, code] += beliefs[task]
        for task in range(begin, end):
            total = 0.0
            for code in range(n_classes):
                total += posterior[task, code]
            for code in range(n_classes):
                posterior[task, code] /= total
    return log_likelihood


@kernel
def _beliefs(
    first: int,
    last: int,
    task_start: Int64[np.ndarray, " starts"],
    place: Int32[np.ndarray, " labels"],
    prior: Float64[np.ndarray, " truths"],
    table: Float64[np.ndarray, "parts cells"],
    belief: Float64[np.ndarray, "parts room"],
    share: Float64[np.ndarray, " tasks"],
    power: Float64[np.ndarray, " truths"],
) -> float:
    """Write each task's prior times the likelihood of its labels, and 1 / the sum, 0 without labels.

    Return the logarithm of the product of the sums.
    """
    for part in range(len(prior) // LANES):
        _multiply_rows(
            first, last, task_start, place, lanes_at(prior, U(part * LANES)), table[part], belief[part]
        )  # fmt: skip
    beliefs, stride, n_parts = belief.ravel(), U(belief.shape[1]), len(prior) // LANES
    for task in range(U(last - first)):
        at = task * U(LANES)
        sums = lanes_at(beliefs, at)
        for _ in range(1, n_parts):
            at += stride
            sums = plus(sums, lanes_at(beliefs, at))
        share[task] = lanes_sum(sums)
    log_likelihood, evidence, low = 0.0, 1.0, task_start[first]
    for task in range(U(last - first)):
        high, total = task_start[U(first) + task + U(1)], share[task]
        if low == high:
            share[task] = inf
            continue
        if total < TINY:  # otherwise no posterior above that is lost
            least, total = _multiply_again(place[low:high], task, prior, table, belief, power)
            log_likelihood += least * LOG_TINY
            share[task] = total
        low = high
        if evidence * total < TINY:  # one logarithm for many tasks
            log_likelihood += log(evidence)
            evidence = 1.0
        evidence *= total
    for task in range(last - first):
        share[task] = np.divide(1.0, share[task])
    return log_likelihood + log(evidence)


@kernel
def _multiply_rows(first, last, task_start, place, prior, table, belief) -> None:
    """Write the products of one part: two labels at a time, so that one does not wait for the other."""
    low = U(task_start[first])
    for task in range(U(last - first)):
        high, here = U(task_start[U(first) + task + U(1)]), prior
        while low + U(1) < high:
            one, other = lanes_at(table, U(place[low])), lanes_at(table, U(place[low + U(1)]))
            here = times(here, times(one, other))
            low += U(2)
        if low < high:
            here = times(here, lanes_at(table, U(place[low])))
        put_lanes(belief, task * U(LANES), here)
        low = high


@kernel
def _multiply_again(place, task, prior, table, belief, power) -> tuple[float, float]:
    """Write products that underflow, times a power of HUGE; return that power and their sum."""
    least, total, first = inf, 0.0, task * U(LANES)
    for at in range(len(prior)):
        product, power[at] = prior[at], 0.0
        for row in place:
            if product < TINY:
                product *= HUGE
                power[at] += 1.0
            product *= table[at // LANES, row + at % LANES]
        belief[at // LANES, first + U(at % LANES)] = product
        if product > 0.0:
            least = min(least, power[at])
    for at in range(len(prior)):
        product = belief[at // LANES, first + U(at % LANES)]
        product *= TINY ** (power[at] - least) if product > 0.0 else 0.0
        belief[at // LANES, first + U(at % LANES)] = product
        total += product
    return least, total


@kernel
def _add_beliefs(first, last, task_start, place, belief, share, counts, mass) -> None:
    """Add each task's beliefs, times its share, to the counts of its labels' rows and to the mass."""
    for part in range(len(mass) // LANES):
        beliefs, given, of_all = belief[part], counts[part], lanes_at(mass, U(part * LANES))
        low = U(task_start[first])
        for task in range(U(last - first)):
            high = U(task_start[U(first) + task + U(1)])
            here = times(lanes_at(beliefs, task * U(LANES)), filled(share[task]))
            of_all = plus(of_all, here)
            for row in range(low, high):
                at = U(place[row])
                put_lanes(given, at, plus(lanes_at(given, at), here))
            low = high
        put_lanes(mass, U(part * LANES), of_all)
