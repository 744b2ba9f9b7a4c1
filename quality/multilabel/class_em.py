"""EM over the classes' binary models at once: each cell's probability, and each worker's rates.

Its iterations soon follow each other along one line, ever more slowly. From the fifth on each starts at the
end of that line, estimated by the secant of the two before it (Anderson's mixing of depth one), which
halves their number.
"""

from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64
from scipy.special import logit

from quality.multilabel.answer_sets import MultiLabels
from quality.multilabel.cell_pass import Cells, cell_odds, count_cells
from quality.multilabel.set_sizes import cell_chances, size_weights
from quality.multilabel.skill_sharing import (
    SharedRates,
    clip_rate,
    first_rates,
    shared_rates,
    silent_chance,
)
from quality.parallel import Progress, counter

__all__ = ["ClassModel", "fit_cells"]

REFITS = 5, 10  # iterations in which the strengths are fitted
SIZED = 2  # iterations before the number of classes at once counts as evidence
# weights of a denial and of giving a class, before any estimate for workers
FIRST_DENIAL, FIRST_WORD = -1.0, 1.5
MOST_BACK, MOST_AHEAD = 0.5, 20.0  # steps that a secant may go back, and extrapolate by
NO_PRIOR = 1.0  # tasks of the mean prevalence that are added to a class's own


class ClassModel(NamedTuple):
    """The state of EM: probabilities of the cells, rates, and expected counts.

    Parameters
    ----------
    chance
        Probability that each cell holds.
    prevalence, unseen
        Probability that each class holds for a task that shows it, and for a task to which nobody gave it.
    hit, mass
        Expected cells that hold among those a worker gave, and among all that she was asked about.
    weight
        Frequency of each number of classes at once over that of independent classes.
    held, false
        Rates at which workers give a class that holds, and one that does not.
    n_iter, converged
        Iterations, and whether no probability moved by more than the tolerance in the last.
    """

    chance: Float64[np.ndarray, " cells"]
    prevalence: Float64[np.ndarray, " classes"]
    unseen: Float64[np.ndarray, " classes"]
    hit: Float64[np.ndarray, "workers classes"]
    mass: Float64[np.ndarray, "workers classes"]
    weight: Float64[np.ndarray, " sizes"]
    held: SharedRates
    false: SharedRates
    n_iter: int
    converged: bool


def fit_cells(
    table: MultiLabels, cells: Cells, max_iter: int, tol: float, progress: Progress | None
) -> ClassModel:
    """Run EM from one weight for all workers' given classes and one for their denials."""
    step = counter(progress, "multi-label consensus", max_iter)
    fixed = _Fixed.of(table, cells)
    model = _first(table, cells, fixed)
    secant = _Secant(fixed.answered)
    for n_iter in range(1, max_iter + 1):
        found = _next(table, cells, fixed, model, n_iter, tol)
        step(n_iter)
        if found.converged:
            break
        if n_iter <= REFITS[0] or n_iter in REFITS:
            model, secant = found, _Secant(fixed.answered)
        else:
            model = _at(found, secant.next_start(_numbers(model), _numbers(found)))
    return found


class _Secant:
    """Extrapolation of the iterations of one map, from its last two and the numbers that count."""

    def __init__(self, counts: Float64[np.ndarray, " numbers"]) -> None:
        self._counts = counts
        self._last: tuple[np.ndarray, np.ndarray] | None = None

    def next_start(
        self, start: Float64[np.ndarray, " numbers"], end: Float64[np.ndarray, " numbers"]
    ) -> Float64[np.ndarray, " numbers"]:
        """Return where to start after an iteration from `start` to `end`."""
        moved, last = end - start, self._last
        self._last = end, moved
        if last is None:
            return end
        slower = (moved - last[1]) * self._counts
        ahead = -(slower @ moved) / max(slower @ slower, 1e-300)
        further: np.ndarray = end + min(max(ahead, -MOST_BACK), MOST_AHEAD) * (end - last[0])
        return further


def _numbers(model: ClassModel) -> Float64[np.ndarray, " numbers"]:
    """Return the numbers that an iteration starts from, except the strengths."""
    held, false = model.held, model.false
    return np.concatenate([
        model.prevalence, model.weight, held.of_worker, held.of_class, false.of_worker, false.of_class,
        held.rate.ravel(), false.rate.ravel(),
    ])  # fmt: skip


def _at(model: ClassModel, numbers: Float64[np.ndarray, " numbers"]) -> ClassModel:
    """Return the model with these numbers, each clipped to its range."""
    n_workers, n_classes = shape = model.held.rate.shape
    n_sizes, n_rates = len(model.weight), model.held.rate.size
    lengths = n_classes, n_sizes, n_workers, n_classes, n_workers, n_classes, n_rates, n_rates
    part = [numbers[first:last] for first, last in pairwise([0, *accumulate(lengths)])]
    held, false = (clip_rate(rate.reshape(shape)) for rate in part[6:])
    return model._replace(
        prevalence=np.minimum(np.maximum(part[0], 0.0), 1.0), weight=np.maximum(part[1], 0.0),
        held=SharedRates(held, part[2], part[3], model.held.strength),
        false=SharedRates(false, part[4], part[5], model.false.strength),
    )  # fmt: skip


class _Fixed(NamedTuple):
    """The constants of all iterations.

    `start` is where the cells of each task with answers start, `known` is None if no cell is known, and
    `answered` is 1 for each of :func:`_numbers`, 0 for those of workers who were not asked.

    The others are about the classes that nobody gave a task. `shown` is the number of tasks that show each
    class; `unmet` is how often a worker was asked about such a class. `of_task` and `of_answer` are, for
    each class and number of answers, shares of these tasks, and of their answers.
    """

    start: np.ndarray
    known: np.ndarray | None
    n_sizes: int
    answered: np.ndarray
    shown: np.ndarray
    n_tasks: np.ndarray
    unmet: np.ndarray
    of_task: np.ndarray
    of_answer: np.ndarray

    @classmethod
    def of(cls, table: MultiLabels, cells: Cells) -> "_Fixed":
        has_answers = np.diff(table.task_start) > 0
        start = np.append(cells.start[:-1][has_answers], cells.start[-1])
        n_sizes = int(np.diff(start).max(initial=0)) + 1
        asked, classes = (cells.asked > 0).astype(np.float64), np.ones(cells.given.shape[1])
        worker, rate = asked.max(axis=1, initial=0.0), asked.ravel()
        answered = [classes, np.ones(n_sizes), worker, classes, worker, classes, rate, rate]
        answers = cells.silent * np.arange(cells.silent.shape[1])
        of_task, of_answer = (
            count / np.maximum(count.sum(axis=1, keepdims=True), 1.0)
            for count in (cells.silent, answers)
        )
        return cls(
            start, cells.known if (cells.known >= 0).any() else None, n_sizes,
            np.concatenate(answered), cells.shown, cells.silent.sum(axis=1),
            np.maximum(cells.asked - cells.met, 0.0), of_task, of_answer,
        )  # fmt: skip


class _Counts(NamedTuple):
    """The result of an E step: the probability of each cell, and counts as in :class:`ClassModel`."""

    chance: np.ndarray
    hit: np.ndarray
    mass: np.ndarray
    wrong: np.ndarray
    absent: np.ndarray
    unseen: np.ndarray
    prevalence: np.ndarray
    n_of_size: np.ndarray


def _first(table: MultiLabels, cells: Cells, fixed: _Fixed) -> ClassModel:
    """Return the model before any estimate for workers."""
    shape = cells.given.shape
    denial, word = np.full(shape, FIRST_DENIAL), np.full(shape, FIRST_WORD - FIRST_DENIAL)
    weight = np.ones(fixed.n_sizes)
    nothing = np.zeros(cells.silent.shape)
    found = _expect(table, cells, fixed, np.zeros(shape[1]), denial, word, weight, nothing)
    return ClassModel(
        found.chance, found.prevalence, found.unseen, found.hit, found.mass, weight,
        first_rates(found.hit, found.mass), first_rates(found.wrong, found.absent), 0, False,
    )  # fmt: skip


def _next(
    table: MultiLabels, cells: Cells, fixed: _Fixed, before: ClassModel, n_iter: int, tol: float
) -> ClassModel:
    """Return the model after one more iteration."""
    held, false = before.held.rate, before.false.rate
    denial = np.log((1.0 - held) / (1.0 - false))
    word = np.log(held / false) - denial
    prior = logit(np.minimum(np.maximum(before.prevalence, 1e-9), 1 - 1e-9))
    silent = silent_chance(prior, denial, cells.asked, cells.silent.shape[1])
    found = _expect(table, cells, fixed, prior, denial, word, before.weight, silent)
    refit = n_iter in REFITS
    # the strengths must have been fitted
    moved = np.abs(found.chance - before.chance).max(initial=0.0)
    settled = bool(moved <= tol) and n_iter > REFITS[0]
    weight = before.weight
    if n_iter >= SIZED and table.shown is None:
        weight = size_weights(found.n_of_size, found.prevalence)
    return ClassModel(
        found.chance, found.prevalence, found.unseen, found.hit, found.mass, weight,
        shared_rates(found.hit, found.mass, before.held, fit_strength=refit),
        shared_rates(found.wrong, found.absent, before.false, fit_strength=refit),
        n_iter, settled,
    )  # fmt: skip


def _expect(
    table: MultiLabels,
    cells: Cells,
    fixed: _Fixed,
    prior: Float64[np.ndarray, " classes"],
    denial: Float64[np.ndarray, "workers classes"],
    word: Float64[np.ndarray, "workers classes"],
    weight: Float64[np.ndarray, " sizes"],
    silent: Float64[np.ndarray, "classes answers"],
) -> _Counts:
    """Return the probabilities under a prior and the weights of answers, and their expected counts.

    `silent` is the probability that a class holds, by class and number of workers, none of whom gave it.
    """
    odds, total = np.empty(len(cells.label)), np.zeros(len(prior))
    hit, mass = np.zeros((2, *cells.given.shape))
    asked = table.task_start, table.worker, cells.start, cells.label, cells.giver, cells.cell
    cell_odds(*asked, prior, denial, word, odds)
    chance, n_of_size = cell_chances(odds, fixed.start, fixed.known, weight)
    count_cells(*asked, chance, hit, mass, total)
    mass += fixed.unmet * (fixed.of_answer * silent).sum(axis=1)
    unseen = (fixed.of_task * silent).sum(axis=1)
    total += fixed.n_tasks * unseen
    mean = total.sum() / max(fixed.shown.sum(), 1.0)
    return _Counts(
        chance, hit, mass, np.maximum(cells.given - hit, 0.0), np.maximum(cells.asked - mass, 0.0),
        unseen, (total + NO_PRIOR * mean) / (fixed.shown + NO_PRIOR), n_of_size,
    )  # fmt: skip
