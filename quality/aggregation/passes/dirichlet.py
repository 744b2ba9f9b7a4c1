"""Variational M steps: expected logarithms of probabilities with a Dirichlet law.

A worker's column of pseudo-counts a_1, a_2, ... becomes the weights exp E[log p_i], which are
exp(digamma(a_i)) / exp(digamma(a_1 + a_2 + ...)). The code has no branches, so that the compiler can use
instructions that take several numbers at once:

>>> round(exp_digamma(1.0), 6), round(exp_digamma(100.0), 6)  # exp(-0.577216), and nearly 100 - 1/2
(0.561459, 99.500419)
"""

from math import lgamma, log

import numpy as np
from jaxtyping import Float64, Int

from quality.aggregation.passes.lanes import (
    LANES,
    divided,
    filled,
    lanes_at,
    plus,
    power_of_two,
    put_lanes,
    times,
)
from quality.parallel import kernel

__all__ = [
    "STRIP", "dirichlet_moved", "dirichlet_weights", "exp_digamma", "exp_digamma_past_one", "exp_digammas",
    "subtype_weights",
]  # fmt: skip

STRIP = 32  # workers whose numbers are processed together: enough for wide instructions, and within a cache

ABOVE = (  # exp(digamma(x)) - (x - 1/2) = a polynomial over another from 1 on, to 15 digits; the last first
    0.041666666631375485, 0.13291139416397038, 0.27492703011498515, 0.30220258642587433,
    0.21042824849056505, 0.07115476663498298, 0.0009300516838978023,
)  # fmt: skip
BELOW = (
    1.0, 2.6898733916209396, 5.1574808847611795, 4.522553693557711, 2.664452934338441,
    0.659849815129619, 0.12903510470753105, 0.004437783413535928,
)  # fmt: skip
LARGE = 1e20  # beyond it the fraction changes nothing, and its denominator may overflow
LOWEST = -708.0  # the logarithm of about the smallest number with all its digits
PER_LOG_2 = 1.4426950408889634
# the first has zeros at its end
LOG_2, LOG_2_REST = 0.693147180369123816490, 1.90821492927058770002e-10
# in the square, the last first
EXP_EVEN = (1 / 479001600, 1 / 3628800, 1 / 40320, 1 / 720, 1 / 24, 1 / 2, 1.0)
EXP_ODD = (1 / 39916800, 1 / 362880, 1 / 5040, 1 / 120, 1 / 6, 1.0)


@kernel(forceinline=True, fused=True)
def exp_digamma_past_one(x: float) -> float:
    """Return exp(digamma(x)) of x >= 1: x - 1/2, and a fraction of polynomials with no negative term."""
    small, above, below = min(x, LARGE), 0.0, 0.0
    for coefficient in ABOVE:
        above = above * small + coefficient
    for coefficient in BELOW:
        below = below * small + coefficient
    # NumPy's division raises no error, which would keep the loop from being vectorised
    result: float = (x - 0.5) + np.divide(above, below)
    return result


@kernel(forceinline=True, fused=True)
def exp_digamma(x: float) -> float:
    """Return exp(digamma(x)) of x > 0, at least about 1e-307: that of x + 1, times exp(-1 / x)."""
    before = max(-np.divide(1.0, x), LOWEST)
    whole = np.floor(before * PER_LOG_2 + 0.5)
    rest = (before - whole * LOG_2) - whole * LOG_2_REST
    squared, even, odd = rest * rest, 0.0, 0.0
    for coefficient in EXP_EVEN:
        even = even * squared + coefficient
    for coefficient in EXP_ODD:
        odd = odd * squared + coefficient
    result: float = exp_digamma_past_one(x + 1.0) * power_of_two(whole) * (even + rest * odd)
    return result


@kernel(fused=True)
def exp_digammas(numbers, is_past_one) -> None:
    """Replace numbers above 0 by their exp(digamma), in place; all are at least 1 if `is_past_one`."""
    if is_past_one:
        for at in range(len(numbers)):
            numbers[at] = exp_digamma_past_one(numbers[at])
    else:
        for at in range(len(numbers)):
            numbers[at] = exp_digamma(numbers[at])


@kernel
def dirichlet_weights(
    counts: Float64[np.ndarray, "parts cells"],
    answer: Int[np.ndarray, " rows"],
    start: Int[np.ndarray, " bounds"],
    pseudo: Float64[np.ndarray, "parts answers"],
    n_parts: int,
    weight: Float64[np.ndarray, "parts cells"],
) -> None:
    """Write exp E[log p] of columns p with Dirichlet laws, of parameters `pseudo` plus these counts.

    A table has a part for every eight truths. A part has a row for each answer that a worker has given,
    hers from `start` on, and ``pseudo[part, 8 * answer + lane]`` belongs to it.
    """
    total, n_workers = np.empty(STRIP * LANES), len(start) - 1
    is_past_one = pseudo.min() >= 1.0
    for part in range(n_parts):
        given, prior, after = counts[part], pseudo[part], weight[part]
        whole = filled(0.0)
        for place in range(0, len(prior), LANES):
            whole = plus(whole, lanes_at(prior, np.uint64(place)))
        for first in range(0, n_workers, STRIP):
            last = min(first + STRIP, n_workers)
            for worker in range(first, last):
                of_all = whole
                for row in range(start[worker], start[worker + 1]):
                    at = np.uint64(row * LANES)
                    here = lanes_at(given, at)
                    of_all = plus(of_all, here)
                    put_lanes(
                        after, at, plus(here, lanes_at(prior, np.uint64(answer[row] * LANES)))
                    )
                put_lanes(total, np.uint64((worker - first) * LANES), of_all)
            theirs, of_them = (
                after[start[first] * LANES : start[last] * LANES],
                total[: (last - first) * LANES],
            )
            exp_digammas(theirs, is_past_one)
            exp_digammas(of_them, is_past_one)
            for worker in range(first, last):
                column = np.uint64((worker - first) * LANES)
                scale = divided(filled(1.0), lanes_at(total, column))
                for row in range(start[worker], start[worker + 1]):
                    at = np.uint64(row * LANES)
                    put_lanes(after, at, times(lanes_at(after, at), scale))


@kernel
def dirichlet_moved(
    counts: Float64[np.ndarray, "parts cells"],
    answer: Int[np.ndarray, " rows"],
    start: Int[np.ndarray, " bounds"],
    pseudo: Float64[np.ndarray, "parts answers"],
    n_parts: int,
    weight: Float64[np.ndarray, "parts cells"],
) -> float:
    """Return the sum of Kullback–Leibler divergences of a table's columns from their priors, in nats.

    `weight` is the output of :func:`dirichlet_weights` for these counts.
    """
    before, moved = np.empty(pseudo.shape[1]), 0.0
    for part in range(n_parts):
        given, prior, after = counts[part], pseudo[part], weight[part]
        for place in range(len(prior)):
            before[place] = lgamma(prior[place])
        for lane in range(LANES):
            whole = prior[lane::LANES].sum()
            of_whole = lgamma(whole)
            for worker in range(len(start) - 1):
                total = 0.0
                for row in range(start[worker], start[worker + 1]):
                    count = given[row * LANES + lane]
                    total += count
                    if count > 0.0:
                        place = answer[row] * LANES + lane
                        moved += count * log(after[row * LANES + lane])
                        moved -= lgamma(count + prior[place]) - before[place]
                if total > 0.0:
                    moved += lgamma(total + whole) - of_whole
    return moved


@kernel
def subtype_weights(
    mass: Float64[np.ndarray, " truths"],
    truth: Int[np.ndarray, " truths"],
    n_classes: int,
    n_subtypes: int,
    class_prior: float,
    subtypes_prior: float,
) -> Float64[np.ndarray, " truths"]:
    """Return each subtype's weight within its class times the class's; 0 for places without a class.

    Subtype s of class k is ``truth == k * n_subtypes + s``. `class_prior` is of each class, `subtypes_prior`
    of all subtypes of one, dropped ones included.
    """
    n_truths, last = len(mass), n_classes * n_subtypes
    numbers = np.empty(n_truths + 2 * n_classes + 1)
    weight, classes = numbers[:n_truths], numbers[n_truths : n_truths + n_classes]
    subtypes = numbers[n_truths + n_classes : -1]
    for code in range(n_classes):
        classes[code], subtypes[code] = class_prior, subtypes_prior
    for at in range(n_truths):
        weight[at] = mass[at] + subtypes_prior / n_subtypes
        if truth[at] < last:
            classes[truth[at] // n_subtypes] += mass[at]
            subtypes[truth[at] // n_subtypes] += mass[at]
    total = 0.0
    for code in range(n_classes):
        total += classes[code]
    numbers[-1] = total
    exp_digammas(numbers, min(class_prior, subtypes_prior / n_subtypes) >= 1.0)
    for code in range(n_classes):
        classes[code] /= numbers[-1] * subtypes[code]
    for at in range(n_truths):
        weight[at] *= classes[truth[at] // n_subtypes] if truth[at] < last else 0.0
    return weight
