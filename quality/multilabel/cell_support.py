"""What speaks for each cell of sets of classes: the model's odds, the votes, how far errors are shared.

As :func:`quality.task_support` says it of labels, whose tasks are the cells and whose classes are no and yes.
"""

import numpy as np
from jaxtyping import Float64, Int32, Int64

from quality.confidence import Support, error_rates, log_odds, log_votes, shared_errors
from quality.multilabel.answer_sets import MultiLabels
from quality.multilabel.cell_pass import Cells
from quality.parallel import kernel

__all__ = ["cell_support"]


def cell_support(
    table: MultiLabels, cells: Cells, chance: Float64[np.ndarray, " cells"]
) -> Support:
    """Return the support of each cell, whose `chance` to hold the model says.

    It is the :func:`quality.task_support` of :func:`quality.yes_no_labels`, up to rounding.
    """
    n_votes = np.diff(table.task_start).repeat(np.diff(cells.start)).astype(np.float64)
    yes = np.diff(cells.gave_start).astype(np.float64)
    wrong, n_labels = np.zeros((2, table.n_workers))
    asked = table.task_start, table.worker, cells.start, cells.gave_start, cells.gave, chance
    _count_errors(*asked, wrong, n_labels)
    rate = error_rates(wrong, n_labels)
    common = np.zeros(2)
    _add_common(*asked, rate, np.sqrt(rate * (1.0 - rate)), common)
    label = (chance > 0.5).astype(np.int16)
    model = np.maximum(chance, 1.0 - chance)
    votes = np.where(label == 1, yes, n_votes - yes)
    shared = shared_errors(float(common[0]), float(common[1]))
    return Support(label, model, log_odds(model), log_votes(votes, n_votes), n_votes, 2, shared)


@kernel
def _count_errors(
    task_start: Int64[np.ndarray, " task_starts"],
    worker: Int32[np.ndarray, " answers"],
    start: Int64[np.ndarray, " task_starts"],
    gave_start: Int64[np.ndarray, " cell_starts"],
    gave: Int64[np.ndarray, " labels"],
    chance: Float64[np.ndarray, " cells"],
    wrong: Float64[np.ndarray, " workers"],
    n_labels: Float64[np.ndarray, " workers"],
) -> None:
    """Add each worker's expected errors about cells, and the cells that she was asked about, in place."""
    for task in range(len(task_start) - 1):
        denied = 0.0  # errors of a worker who gives nothing
        for cell in range(start[task], start[task + 1]):
            denied += chance[cell]
        for answer in range(task_start[task], task_start[task + 1]):
            wrong[worker[answer]] += denied
            n_labels[worker[answer]] += start[task + 1] - start[task]
        for cell in range(start[task], start[task + 1]):
            for row in range(gave_start[cell], gave_start[cell + 1]):
                wrong[worker[gave[row]]] += 1.0 - 2.0 * chance[cell]


@kernel
def _add_common(
    task_start: Int64[np.ndarray, " task_starts"],
    worker: Int32[np.ndarray, " answers"],
    start: Int64[np.ndarray, " task_starts"],
    gave_start: Int64[np.ndarray, " cell_starts"],
    gave: Int64[np.ndarray, " labels"],
    chance: Float64[np.ndarray, " cells"],
    rate: Float64[np.ndarray, " workers"],
    spread: Float64[np.ndarray, " workers"],
    common: Float64[np.ndarray, " 2"],
) -> None:
    """Add the covariance of errors over pairs of workers asked about a cell, and the most it could be.

    An error's residual is its chance less the worker's `rate`, and `spread` its standard deviation.
    """
    for task in range(len(task_start) - 1):
        first, last = task_start[task], task_start[task + 1]
        n, n_cells = last - first, start[task + 1] - start[task]
        rates = rates_squared = spreads = spreads_squared = 0.0
        for answer in range(first, last):
            rates += rate[worker[answer]]
            rates_squared += rate[worker[answer]] ** 2
            spreads += spread[worker[answer]]
            spreads_squared += spread[worker[answer]] ** 2
        for cell in range(start[task], start[task + 1]):
            holds, more = (
                chance[cell],
                1.0 - 2.0 * chance[cell],
            )  # more is that of a word over a denial
            residual = n * holds - rates
            squares = n * holds**2 - 2.0 * holds * rates + rates_squared
            for row in range(gave_start[cell], gave_start[cell + 1]):
                residual += more
                squares += more * (1.0 - 2.0 * rate[worker[gave[row]]])
            common[0] += residual**2 - squares
        common[1] += n_cells * (spreads**2 - spreads_squared)
