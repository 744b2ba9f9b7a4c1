"""How many classes hold for a task at once: learned, and joined to what is known of each class.

>>> n_of_size = np.array([0.0, 90.0, 10.0])  # of a hundred tasks: one class as a rule, two at times
>>> size_weights(n_of_size, np.array([0.4, 0.4, 0.3])).round(2)
array([0.01, 2.02, 0.4 ])

Were classes independent, the number of those that hold would have the Poisson binomial law of their
prevalences. Where it spreads less than that, classes crowd each other out, down to one class a task. A set is
then likelier by the weight of its size: how often sizes occur, over how often they would by chance.
"""

import numpy as np
from jaxtyping import Float64, Int8

from quality.parallel import kernel

__all__ = ["add_size_evidence", "independent_sizes", "size_weights"]

LEAST = 1e-12  # chance of a size by independence
TINY = 1e-300
MOST_ODDS = 600.0  # against a cell, in logarithms: odds stay finite


def independent_sizes(
    prevalence: Float64[np.ndarray, " classes"], n_sizes: int
) -> Float64[np.ndarray, " sizes"]:
    """Return the chance of 0, 1, … classes at once if they are independent, up to `n_sizes` - 1."""
    chance = np.zeros(n_sizes)
    chance[0] = 1.0
    _add_classes(prevalence, chance)
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
def _add_classes(
    prevalence: Float64[np.ndarray, " classes"], chance: Float64[np.ndarray, " sizes"]
) -> None:
    """Turn the chances of sizes without these classes into those with them, in place."""
    for holds in prevalence:
        for size in range(len(chance) - 1, 0, -1):
            chance[size] += holds * (chance[size - 1] - chance[size])
        chance[0] *= 1.0 - holds


@kernel
def add_size_evidence(
    chance: Float64[np.ndarray, " cells"],
    known: Int8[np.ndarray, " cells"],
    weight: Float64[np.ndarray, " sizes"],
    work: Float64[np.ndarray, "works sizes"],
    n_of_size: Float64[np.ndarray, " sizes"],
) -> None:
    """Turn the log odds of one task's cells into their chances given how likely each size is, in place.

    What is known of a cell stands. `n_of_size` gains the chance of each size. `work` has three rows more
    than there are sizes: chances that cells hold, that they do not, weights of sizes of the cells before
    one, summed over those after it, and chances of sizes of the cells before each.
    """
    n = len(chance)
    holds, fails, rest, before = work[0], work[1], work[2], work[3:]
    before[0, 0] = 1.0
    for cell in range(n):
        against = np.exp(min(-chance[cell], MOST_ODDS))
        holds[cell] = 1.0 / (1.0 + against)
        fails[cell] = against * holds[cell]
        if known[cell] >= 0:
            holds[cell], fails[cell] = known[cell], 1 - known[cell]
        carried = 0.0
        for size in range(cell + 1):
            here = before[cell, size]
            before[cell + 1, size] = here * fails[cell] + carried
            carried = here * holds[cell]
        before[cell + 1, cell + 1] = carried
    total = TINY
    for size in range(n + 1):
        rest[size] = weight[size]
        total += before[n, size] * weight[size]
    for size in range(n + 1):
        n_of_size[size] += before[n, size] * weight[size] / total
    for cell in range(n - 1, -1, -1):
        with_it = without = TINY
        below = rest[0]
        for size in range(cell + 1):
            above = rest[size + 1]
            with_it += before[cell, size] * above
            without += before[cell, size] * below
            rest[size] = below * fails[cell] + above * holds[cell]
            below = above
        chance[cell] = with_it * holds[cell] / (with_it * holds[cell] + without * fails[cell])
