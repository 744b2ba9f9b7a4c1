"""The one pass over the labels that an iteration of EM is: E-step and expected counts, fused.

The pass multiplies a task's rows of the table, divides by the sum, and adds the posterior to the
counts of the same rows while they are still in cache: no logarithm or exponential per label.

Products of probabilities underflow, so a task with more labels than can be multiplied in safety
carries a power of `HUGE` for each class, and nothing is lost however many labels it has.

A task's belief is one number per class. With few classes it is a tuple: then it lives in registers,
where in an array every count written might be an entry of it and has it read again from memory.
"""

from typing import no_type_check

import numpy as np
from jaxtyping import Float64, Int, Int16, Int64
from numba.core.types import BaseTuple
from numba.cpython.unsafe.tuple import tuple_setitem
from numba.extending import overload

from quality.parallel import kernel

__all__ = ["LEAST_ENTRY", "majority_pass", "safe_factors", "task_pass"]

HUGE = 1e150
TINY = 1 / HUGE
LEAST_ENTRY = 1e-100  # of the smoothing; keeps every entry of a table above TINY


def safe_factors(least: float) -> int:
    """How many table entries multiply to `TINY` or more, the smallest being `least`.

    A prior below that loses no posterior above it.
    """
    return int(np.log(TINY) / min(np.log(least), -1e-3))


@no_type_check
def _put(belief, at, value):
    """Belief with one number replaced; compiled code only."""
    raise NotImplementedError


@no_type_check
@overload(_put)
def _put_compiled(belief, at, value):
    """A new tuple, or the array itself."""
    if isinstance(belief, BaseTuple):
        return lambda belief, at, value: tuple_setitem(belief, at, value)

    def in_place(belief, at, value):
        belief[at] = value
        return belief

    return in_place


@kernel
def task_pass(
    first: int,
    last: int,
    task_start: Int64[np.ndarray, " tasks+1"],
    place: Int[np.ndarray, " labels"],
    gold: Int16[np.ndarray, " tasks"],
    prior: tuple[float, ...] | Float64[np.ndarray, " classes"],
    belief: tuple[float, ...] | Float64[np.ndarray, " classes"],
    table: Float64[np.ndarray, " cells"],
    safe: int,
    counts: Float64[np.ndarray, " cells"],
    keep: Float64[np.ndarray, "kept classes"],
) -> tuple[Float64[np.ndarray, " classes"], float]:
    """E-step of some tasks, and their expected counts; returns class mass and log-likelihood.

    `belief` is room to work in, of the prior's type; `keep` takes the posteriors unless empty.
    """
    n_classes = len(prior)
    mass = np.zeros(n_classes)
    counts[:] = 0.0
    log_likelihood, evidence = 0.0, 1.0
    for task in range(first, last):
        low, high = task_start[task], task_start[task + 1]
        if low == high:
            continue
        if high - low <= safe:
            for truth in range(n_classes):
                belief = _put(belief, truth, prior[truth])
            for row in range(low, high):
                at = np.uint64(place[row])  # unsigned: no check for indices from the end
                for truth in range(n_classes):
                    belief = _put(belief, truth, belief[truth] * table[at + np.uint64(truth)])
        else:
            belief, power = _multiply(place[low:high], gold[task], prior, table, belief)
            log_likelihood += power * np.log(TINY)
        if gold[task] >= 0:
            for truth in range(n_classes):
                if truth != gold[task]:
                    belief = _put(belief, truth, 0.0)
        total = 0.0
        for truth in range(n_classes):
            total += belief[truth]
        if evidence * total < TINY:  # a logarithm for many tasks at once
            log_likelihood += np.log(evidence)
            evidence = 1.0
        evidence *= total
        share = 1.0 / total
        for truth in range(n_classes):
            belief = _put(belief, truth, belief[truth] * share)
            mass[truth] += belief[truth]
        for row in range(low, high):
            at = np.uint64(place[row])
            for truth in range(n_classes):
                counts[at + np.uint64(truth)] += belief[truth]
        if len(keep):
            for truth in range(n_classes):
                keep[task, truth] = belief[truth]
    return mass, log_likelihood + np.log(evidence)


@kernel
def _multiply(
    place: Int[np.ndarray, " rows"],
    gold: int,
    prior: tuple[float, ...] | Float64[np.ndarray, " classes"],
    table: Float64[np.ndarray, " cells"],
    belief: tuple[float, ...] | Float64[np.ndarray, " classes"],
) -> tuple[tuple[float, ...] | Float64[np.ndarray, " classes"], float]:
    """Prior times many entries, and the power of TINY that it still is to be multiplied by."""
    n_classes = len(prior)
    power = np.zeros(n_classes)
    least = np.inf
    for truth in range(n_classes):
        product = prior[truth] if gold < 0 or gold == truth else 0.0
        for at in place:
            if product < TINY:
                product *= HUGE
                power[truth] += 1.0
            product *= table[at + truth]
        belief = _put(belief, truth, product)
        if product > 0.0:
            least = min(least, power[truth])
    for truth in range(n_classes):
        rest = TINY ** (power[truth] - least) if belief[truth] > 0.0 else 0.0
        belief = _put(belief, truth, belief[truth] * rest)
    return belief, least


@kernel
def majority_pass(
    task_start: Int64[np.ndarray, " tasks+1"],
    label: Int16[np.ndarray, " labels"],
    place: Int[np.ndarray, " labels"],
    gold: Int16[np.ndarray, " tasks"],
    counts: Float64[np.ndarray, " cells"],
    mass: Float64[np.ndarray, " classes"],
) -> None:
    """Add the soft majority vote of each task, gold clamped, to its labels' counts and the mass."""
    share = np.empty(len(mass))
    for task in range(len(task_start) - 1):
        low, high = task_start[task], task_start[task + 1]
        if low == high:
            continue
        share[:] = 0.0
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
