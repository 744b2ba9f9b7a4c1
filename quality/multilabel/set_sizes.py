"""How many classes hold for a task at once: learned, and joined to what is known of each class.

>>> n_of_size = np.array([0.0, 90.0, 10.0])  # of a hundred tasks: one class as a rule, two at times
>>> size_weights(n_of_size, np.array([0.4, 0.4, 0.3])).round(2)
array([0.01, 2.02, 0.4 ])

Were classes independent, the number of those that hold would have the Poisson binomial law of their
prevalences. Where it spreads less than that, classes crowd each other out, down to one class a task. A set is
then likelier by the weight of its size: how often sizes occur, over how often they would by chance.
"""

import numpy as np
from jaxtyping import Float64

from quality.parallel import kernel

__all__ = ["add_size_evidence", "independent_sizes", "size_weights"]

LEAST = 1e-12  # chance of a size by independence
TINY = 1e-300


def independent_sizes(
    prevalence: Float64[np.ndarray, " classes"], n_sizes: int
) -> Float64[np.ndarray, " sizes"]:
    """Return the chance of 0, 1, … classes at once if they are independent, up to `n_sizes` - 1."""
    chance = np.zeros(n_sizes)
    chance[0] = 1.0
    for one in prevalence:
        chance[1:] = chance[1:] * (1.0 - one) + chance[:-1] * one
        chance[0] *= 1.0 - one
    return chance


def size_weights(
    n_of_size: Float64[np.ndarray, " sizes"], prevalence: Float64[np.ndarray, " classes"]
) -> Float64[np.ndarray, " sizes"]:
    """Return how much likelier each size is than by independence; 1 where sizes spread as much or more.

    Parameters
    ----------
    n_of_size
        Tasks for which 0, 1, … classes hold.
    prevalence
        Share of the tasks for which each class holds.

    Notes
    -----
    Classes that come together, as grades that are reached, make sizes spread: they are no matter of size.
    One task by independence is added, so that no size is impossible.
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
def add_size_evidence(
    log_odds: Float64[np.ndarray, " cells"],
    weight: Float64[np.ndarray, " sizes"],
    chance: Float64[np.ndarray, "sizes sizes"],
    rest: Float64[np.ndarray, " sizes"],
    n_of_size: Float64[np.ndarray, " sizes"],
) -> None:
    """Turn the log odds of one task's cells into those given how likely each size is, in place.

    `n_of_size` gains the chance of each size. `chance` and `rest` are for work: chances of sizes of the
    cells before one, and weights of sizes of those before it, summed over the cells after it.
    """
    n = len(log_odds)
    chance[0, 0] = 1.0
    for cell in range(n):
        holds = 1.0 / (1.0 + np.exp(-log_odds[cell]))
        chance[cell + 1, 0] = chance[cell, 0] * (1.0 - holds)
        for size in range(1, cell + 1):
            chance[cell + 1, size] = (
                chance[cell, size] * (1.0 - holds) + chance[cell, size - 1] * holds
            )
        chance[cell + 1, cell + 1] = chance[cell, cell] * holds
    total = TINY
    for size in range(n + 1):
        rest[size] = weight[size]
        total += chance[n, size] * weight[size]
    for size in range(n + 1):
        n_of_size[size] += chance[n, size] * weight[size] / total
    for cell in range(n - 1, -1, -1):
        with_it = without = TINY
        for size in range(cell + 1):
            with_it += chance[cell, size] * rest[size + 1]
            without += chance[cell, size] * rest[size]
        holds = 1.0 / (1.0 + np.exp(-log_odds[cell]))
        log_odds[cell] += np.log(with_it / without)
        for size in range(cell + 1):
            rest[size] = rest[size] * (1.0 - holds) + rest[size + 1] * holds
