"""The evidence for each cell of sets of classes: the model's odds, the votes, and shared errors.

It is :func:`quality.task_support` for labels whose tasks are the cells and whose classes are no and yes.
"""

import numpy as np
from jaxtyping import Float64, Int64

from quality.agreement import alpha_of
from quality.confidence import (
    Support,
    error_rates,
    log_odds,
    log_votes,
    shared_errors,
    shares_of_classes,
)
from quality.multilabel.answer_sets import MultiLabels
from quality.multilabel.cell_pass import Cells

__all__ = ["cell_support"]


def cell_support(
    table: MultiLabels, cells: Cells, chance: Float64[np.ndarray, " cells"]
) -> Support:
    """Return the support of each cell, whose probability of holding is `chance`.

    It is the :func:`quality.task_support` of :func:`quality.yes_no_labels`, up to rounding. Only its
    `reliability` is unknown: only cells that somebody gave are here, and votes on these are less alike.
    """
    n_cells = np.diff(cells.start)
    n_votes = np.diff(table.task_start).repeat(n_cells).astype(np.float64)
    yes = cells.n_given.astype(np.float64)
    # expected errors of a worker who denies all classes of each task, and the addition for giving one
    denied = np.add.reduceat(np.append(chance, 0.0), cells.start[:-1]) * (n_cells > 0)
    more = 1.0 - 2.0 * chance
    wrong = np.bincount(table.worker, denied[table.task], table.n_workers)
    wrong += np.bincount(cells.giver, more[cells.cell], table.n_workers)
    rate = error_rates(wrong, np.bincount(table.worker, n_cells[table.task], table.n_workers))
    label = (chance > 0.5).astype(np.int16)
    model = np.maximum(chance, 1.0 - chance)
    votes = np.where(label == 1, yes, n_votes - yes)
    shared = shared_errors(*_common(table, cells, chance, n_votes, yes, rate))
    alike, by_class = _alike(n_votes, yes)
    return Support(
        label, model, log_odds(model), log_votes(votes, n_votes), n_votes, 2, shared, alike,
        float("nan"), shares_of_classes(by_class)[label],
    )  # fmt: skip


def _alike(
    n_votes: Float64[np.ndarray, " cells"], yes: Float64[np.ndarray, " cells"]
) -> tuple[float, Int64[np.ndarray, " 2"]]:
    """Return alpha of the answers no and yes to cells, and the number of each."""
    paired = n_votes > 1
    asked, given = n_votes[paired], yes[paired]
    by_class = np.array([(asked - given).sum(), given.sum()]).astype(np.int64)
    apart = np.array([(2 * given * (asked - given) / (asked - 1)).sum()])
    return alpha_of(by_class, apart), by_class


def _common(
    table: MultiLabels,
    cells: Cells,
    chance: Float64[np.ndarray, " cells"],
    n_votes: Float64[np.ndarray, " cells"],
    yes: Float64[np.ndarray, " cells"],
    rate: Float64[np.ndarray, " workers"],
) -> tuple[float, float]:
    """Return the covariance of errors over pairs of workers asked about a cell, and the largest it could be.

    An error's residual is its probability minus the worker's `rate`; for a yes it is larger by `more` than
    for a no. The covariance is the square of a cell's sum of residuals minus the sum of their squares.
    """
    n_cells, task, of_answer = np.diff(cells.start), table.task.astype(np.int64), rate[table.worker]
    rates, squares, spreads = (
        np.bincount(task, one, table.n_tasks)
        for one in (of_answer, of_answer**2, np.sqrt(of_answer * (1.0 - of_answer)))
    )
    of_givers = np.bincount(cells.cell, rate[cells.giver], len(chance))
    more, rates_here = 1.0 - 2.0 * chance, rates.repeat(n_cells)
    residual = n_votes * chance - rates_here + more * yes
    own = n_votes * chance**2 - 2.0 * chance * rates_here + squares.repeat(n_cells)
    own += more * (yes - 2.0 * of_givers)
    most = n_cells * (spreads**2 - (rates - squares))
    # one voter is no pair, and only rounding would be left of her
    paired = np.diff(table.task_start) > 1
    return float((residual**2 - own)[n_votes > 1].sum()), float(most[paired].sum())
