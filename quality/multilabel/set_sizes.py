"""How many classes hold for a task at once: learned, and joined to what is known of each class.

>>> n_of_size = np.array([0.0, 90.0, 10.0])  # of a hundred tasks: one class as a rule, two at times
>>> size_weights(n_of_size, np.array([0.4, 0.4, 0.3])).round(2)
array([0.01, 2.02, 0.4 ])

Were classes independent, the number of those that hold would have the Poisson binomial law of their
prevalences. Where it spreads less than that, classes crowd each other out, down to one class a task. A set is
then likelier by the weight of its size: how often sizes occur, over how often they would by chance.
"""

import numpy as np
from jaxtyping import Float64, Int8, Int64

from quality.parallel import kernel

__all__ = ["cell_chances", "independent_sizes", "size_weights"]

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


def cell_chances(
    odds: Float64[np.ndarray, " cells"],
    start: Int64[np.ndarray, " task_starts"],
    known: Int8[np.ndarray, " cells"] | None,
    weight: Float64[np.ndarray, " sizes"],
) -> tuple[Float64[np.ndarray, " cells"], Float64[np.ndarray, " sizes"]]:
    """Return the chance that each cell holds given how likely each size is, and tasks by size.

    Parameters
    ----------
    odds
        Log odds of each cell by itself.
    start
        Where the cells of each task start, and the end.
    known
        1 for a cell that is known to hold, 0 for one that does not, -1 otherwise; None if none is known.
    weight
        How much likelier each size is than by independence, up to the most cells of a task.
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
    """Turn the chances of all cells by themselves into those given how likely each size is, in place.

    `fails` are the chances that they do not hold; `n_of_size` gains the chances of each task's sizes.
    Work space: `before` has the chances of sizes of a task's cells before each, `rest` the weights of sizes
    of the cells before one, summed over those after it.
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
