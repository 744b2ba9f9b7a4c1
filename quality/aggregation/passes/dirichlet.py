"""Variational M steps: what is expected of the logarithms of probabilities that are Dirichlet.

A worker's column of pseudo-counts a_1, a_2, ... becomes the weights exp E[log p_i], which are
exp(digamma(a_i)) / exp(digamma(a_1 + a_2 + ...)). All of it is without a branch, so that the compiler makes
instructions of it that take several numbers at once:

>>> round(exp_digamma(1.0), 6), round(exp_digamma(100.0), 6)  # exp(-0.577216), and nearly 100 - 1/2
(0.561459, 99.500419)
"""

from math import lgamma, log

import numpy as np
from jaxtyping import Float64, Int

from quality.aggregation.passes.lanes import LANES, lanes_at, plus, power_of_two, put_lanes, times
from quality.parallel import kernel

__all__ = ["dirichlet_moved", "dirichlet_weights", "exp_digamma", "subtype_weights"]

SERIES = (  # of exp(digamma(x)) / (x - 1/2), in 1 / (x - 1/2)**2, the last first
    -499769010050743 / 24103053950976000, 2709398569 / 367873228800, -5509121 / 1393459200,
    10313 / 2903040, -37 / 5760, 1 / 24, 1.0,
)  # fmt: skip
LARGE = (
    1e20  # past it ten steps of the recurrence change nothing, and their denominator may overflow
)
LOWEST = -708.0  # the logarithm of about the least number with all its digits
PER_LOG_2 = 1.4426950408889634
LOG_2, LOG_2_REST = (
    0.693147180369123816490,
    1.90821492927058770002e-10,
)  # the first has zeros at its end
EXP_EVEN = (
    1 / 479001600,
    1 / 3628800,
    1 / 40320,
    1 / 720,
    1 / 24,
    1 / 2,
    1.0,
)  # in the square, the last first
EXP_ODD = (1 / 39916800, 1 / 362880, 1 / 5040, 1 / 120, 1 / 6, 1.0)


@kernel(forceinline=True, fused=True)
def exp_digamma(x: float) -> float:
    """Return exp(digamma(x)) of x > 0, or about 1e-307 if that is more.

    Ten steps of the recurrence lead to a series in x + 10 - 1/2. The fractions 1 / (x + i) of the steps are
    put together in pairs, whose denominators are e + i (9 - i) with e = x (x + 9).
    """
    small = min(x, LARGE)
    ends = small * (small + 9.0)
    below = ((((ends + 60.0) * ends + 1308.0) * ends + 12176.0) * ends + 40320.0) * ends
    slope = (((5.0 * ends + 240.0) * ends + 3924.0) * ends + 24352.0) * ends + 40320.0
    square = (small + 9.5) * (small + 9.5)
    # NumPy's division raises no error, for which a loop would have to stop
    unit = np.divide(1.0, below * square)
    before = max(-(2.0 * small + 9.0) * slope * square * unit, LOWEST)
    y, series = below * unit, 0.0
    for coefficient in SERIES:
        series = series * y + coefficient
    whole = np.floor(before * PER_LOG_2 + 0.5)
    rest = (before - whole * LOG_2) - whole * LOG_2_REST
    squared, even, odd = rest * rest, 0.0, 0.0
    for coefficient in EXP_EVEN:
        even = even * squared + coefficient
    for coefficient in EXP_ODD:
        odd = odd * squared + coefficient
    result: float = series * (x + 9.5) * power_of_two(whole) * (even + rest * odd)
    return result


@kernel
def dirichlet_weights(
    counts: Float64[np.ndarray, " cells"],
    answer: Int[np.ndarray, " rows"],
    start: Int[np.ndarray, " bounds"],
    pseudo: Float64[np.ndarray, "answers truths"],
    weight: Float64[np.ndarray, " cells"],
) -> None:
    """Write exp E[log p] of columns p that are Dirichlet with `pseudo` and these counts.

    A table has a row for each answer that a worker has given, hers from `start` on, and a whole number of
    lanes of truths.
    """
    n_truths = pseudo.shape[1]
    prior, whole, total = pseudo.ravel(), np.zeros(n_truths), np.empty(n_truths)
    for given in range(len(pseudo)):
        for truth in range(n_truths):
            whole[truth] += pseudo[given, truth]
    for worker in range(len(start) - 1):
        low, high = start[worker], start[worker + 1]
        for block in range(0, n_truths, LANES):
            lane = np.uint64(block)
            of_all = lanes_at(whole, lane)
            for row in range(low, high):
                at = np.uint64(row * n_truths) + lane
                here = lanes_at(counts, at)
                of_all = plus(of_all, here)
                beforehand = lanes_at(prior, np.uint64(answer[row] * n_truths) + lane)
                put_lanes(weight, at, plus(here, beforehand))
            put_lanes(total, lane, of_all)
        hers = weight[low * n_truths : high * n_truths]
        for cell in range(len(hers)):
            hers[cell] = exp_digamma(hers[cell])
        for truth in range(n_truths):
            total[truth] = np.divide(1.0, exp_digamma(total[truth]))
        for block in range(0, n_truths, LANES):
            lane = np.uint64(block)
            scale = lanes_at(total, lane)
            for row in range(low, high):
                at = np.uint64(row * n_truths) + lane
                put_lanes(weight, at, times(lanes_at(weight, at), scale))


@kernel
def dirichlet_moved(
    counts: Float64[np.ndarray, " cells"],
    answer: Int[np.ndarray, " rows"],
    start: Int[np.ndarray, " bounds"],
    pseudo: Float64[np.ndarray, "answers truths"],
    weight: Float64[np.ndarray, " cells"],
) -> float:
    """Return the Kullback–Leibler divergences of a table's columns from their priors, added up, in nats.

    `weight` is what :func:`dirichlet_weights` writes for these counts.
    """
    n_answers, n_truths = pseudo.shape
    before, whole, of_whole = np.empty(pseudo.shape), np.zeros(n_truths), np.empty(n_truths)
    total, moved = np.empty(n_truths), 0.0
    for given in range(n_answers):
        for truth in range(n_truths):
            before[given, truth] = lgamma(pseudo[given, truth])
            whole[truth] += pseudo[given, truth]
    for truth in range(n_truths):
        of_whole[truth] = lgamma(whole[truth])
    for worker in range(len(start) - 1):
        total[:] = 0.0
        for row in range(start[worker], start[worker + 1]):
            for truth in range(n_truths):
                count = counts[row * n_truths + truth]
                total[truth] += count
                if count > 0.0:
                    after = lgamma(count + pseudo[answer[row], truth])
                    moved += count * log(weight[row * n_truths + truth])
                    moved -= after - before[answer[row], truth]
        for truth in range(n_truths):
            if total[truth] > 0.0:
                moved += lgamma(total[truth] + whole[truth]) - of_whole[truth]
    return moved


@kernel
def subtype_weights(
    mass: Float64[np.ndarray, " truths"],
    owner: Int[np.ndarray, " truths"],
    n_classes: int,
    class_prior: float,
    subtypes_prior: float,
    n_subtypes: int,
) -> Float64[np.ndarray, " truths"]:
    """Return the weight of each subtype, of all classes and of those of its own; 0 where `owner` is no class.

    `class_prior` is of each class, `subtypes_prior` of all `n_subtypes` of one, dropped ones included.
    """
    of_class, weight, total = np.zeros(n_classes), np.zeros(len(mass)), n_classes * class_prior
    for truth in range(len(mass)):
        if owner[truth] < n_classes:
            of_class[owner[truth]] += mass[truth]
            total += mass[truth]
    share = np.divide(1.0, exp_digamma(total))
    for truth in range(len(mass)):
        if owner[truth] < n_classes:
            here = of_class[owner[truth]]
            among = np.divide(
                exp_digamma(mass[truth] + subtypes_prior / n_subtypes),
                exp_digamma(here + subtypes_prior),
            )
            weight[truth] = exp_digamma(here + class_prior) * share * among
    return weight
