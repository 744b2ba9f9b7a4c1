"""The number of classes that hold for a task at once: learned, and combined with each class's evidence.

>>> n_of_size = np.array([0.0, 90.0, 10.0])  # of a hundred tasks: one class as a rule, two at times
>>> size_weights(n_of_size, np.array([0.4, 0.4, 0.3])).round(2)
array([0.01, 2.02, 0.4 ])

If classes were independent, the number of classes that hold would have the Poisson binomial law of their
prevalences. If it varies less, classes exclude each other, in the extreme down to one class a task. Then
the likelihood of a set is multiplied by the weight of its size: the frequency of the size over its
probability under independence.
"""

import numpy as np
from jaxtyping import Float64, Int8, Int64

from quality.parallel import kernel

__all__ = ["cell_chances", "independent_sizes", "size_weights"]

LEAST = 1e-12  # smallest probability of a size under independence
TINY = 1e-300
MOST_ODDS = 600.0  # largest log odds against a cell, so that odds stay finite


def independent_sizes(
    prevalence: Float64[np.ndarray, " classes"], n_sizes: int
) -> Float64[np.ndarray, " sizes"]:
    """Return the probability of 0, 1, … classes at once if they are independent, up to `n_sizes` - 1."""
    chance = np.zeros(n_sizes)
    chance[0] = 1.0
    _add_classes(prevalence, chance)
    return chance


def size_weights(
    n_of_size: Float64[np.ndarray, " sizes"], prevalence: Float64[np.ndarray, " classes"]
) -> Float64[np.ndarray, " sizes"]:
    """Return each size's frequency over that under independence; 1 if sizes vary as much or more.

    Parameters
    ----------
    n_of_size
        Number of tasks for which 0, 1, … classes hold.
    prevalence
        Share of the tasks for which each class holds.

    Notes
    -----
    Classes that occur together, such as grades reached, make sizes vary more: that gives no weights. One
    task under independence is added, so that no size is impossible.
    """
    n_tasks, size = n_of_size.sum(), np.arange(len(n_of_size))
    mean = n_of_size @ size / max(n_tasks, TINY)
    spread = n_of_size @ (size - mean) ** 2 / max(n_tasks, TINY)
    if n_tasks == 0 or spread >= prevalence @ (1.0 - prevalence):
        return np.ones(len(n_of_size))
    expected = independent_sizes(prevalence, len(n_of_size))
    weight: np.ndarray = (n_of_size + expected) / ((n_tasks + 1.0) * np.maximum(expected, LEAST))
    return weight


@kernel
def _add_classes(
    prevalence: Float64[np.ndarray, " classes"], chance: Float64[np.ndarray, " sizes"]
) -> None:
    """Turn the probabilities of sizes without these classes into those with them, in place."""
    for holds in prevalence:
        for size in range(len(chance) - 1, 0, -1):
            chance[size] += holds * (chance[size - 1] - chance[size])
        chance[0] *= 1.0 - holds


def cell_chances(
    odds: Float64[np.ndarray, " cells"],
    start: Int64[np.ndarray, " task_starts"],
    known: Int8[np.ndarray, " cells"] | None,
    weight: Float64[np.ndarray, " sizes"],
) -> tuple[Float64[np.ndarray, " cells"], Float64[np.ndarray, " sizes"]]:
    """Return the probability that each cell holds given the weights of sizes, and tasks by size.

    Parameters
    ----------
    odds
        Log odds of each cell by its own evidence.
    start
        Start of each task's cells, and the end.
    known
        1 for a cell that is known to hold, 0 for one that does not, -1 otherwise; None if none is known.
    weight
        Frequency of each size over that under independence, up to the largest number of cells of a task.
    """
    against = np.exp(np.minimum(-odds, MOST_ODDS))
    holds = 1.0 / (1.0 + against)
    fails = against * holds
    if known is not None:
        given = known >= 0
        holds[given], fails[given] = known[given], 1 - known[given]
    n_of_size, rest = np.zeros((2, len(weight)))
    _add_size_evidence(start, holds, fails, weight, np.empty((len(weight),) * 2), rest, n_of_size)
    return holds, n_of_size


@kernel
def _add_size_evidence(
    start: Int64[np.ndarray, " task_starts"],
    holds: Float64[np.ndarray, " cells"],
    fails: Float64[np.ndarray, " cells"],
    weight: Float64[np.ndarray, " sizes"],
    before: Float64[np.ndarray, "sizes sizes"],
    rest: Float64[np.ndarray, " sizes"],
    n_of_size: Float64[np.ndarray, " sizes"],
) -> None:
    """Turn the probabilities of cells by their own evidence into those given the weights of sizes, in place.

    `fails` are the probabilities that they do not hold; the probabilities of each task's sizes are added to
    `n_of_size`. Working memory: `before` has the probabilities of sizes of a task's cells before each cell,
    `rest` the weights of sizes of the cells before it, summed over the cells after it.
    """
    before[0, 0] = 1.0
    for task in range(len(start) - 1):
        first, n = start[task], start[task + 1] - start[task]
        for cell in range(n):
            carried = 0.0
            for size in range(cell + 1):
                here = before[cell, size]
                before[cell + 1, size] = here * fails[first + cell] + carried
                carried = here * holds[first + cell]
            before[cell + 1, cell + 1] = carried
        total = TINY
        for size in range(n + 1):
            rest[size] = weight[size]
            total += before[n, size] * weight[size]
        for size in range(n + 1):
            n_of_size[size] += before[n, size] * weight[size] / total
        for cell in range(n - 1, -1, -1):
            with_it = without = TINY
            alone, none = holds[first + cell], fails[first + cell]
            below = rest[0]
            for size in range(cell + 1):
                above = rest[size + 1]
                with_it += before[cell, size] * above
                without += before[cell, size] * below
                rest[size] = below * none + above * alone
                below = above
            holds[first + cell] = with_it * alone / (with_it * alone + without * none)
