"""Consensus on sets of classes: whether each class holds for each task, with workers' skill shared.

>>> from quality.multilabel import encode_multilabels
>>> table = encode_multilabels(
...     ["ann", "bob", "cy"] * 2, [1, 1, 1, 2, 2, 2],
...     [["cat"], ["cat", "dog"], ["cat"], ["dog"], ["dog", "cat"], ["dog"]],
... )
>>> found = multilabel_consensus(table)
>>> [found.classes_of(task).tolist() for task in range(2)]
[[0], [1]]

Every class is a question of its own: does it hold? A worker has a rate at which she gives a class that
holds and a rate at which she gives a class that does not. If classes are fitted separately, as binary
relevance does, a rare class has next to no evidence on either rate. Here both rates share a prior with her
rates for all classes and with all workers' rates for the class (:mod:`quality.multilabel.skill_sharing`),
so that a guesser is recognised from all her answers. The number of classes that hold at once is further
evidence (:mod:`quality.multilabel.set_sizes`).
"""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float64, Int, Int8, Int16, Int64

from quality.aggregation import check_em
from quality.argument_types import check_arguments
from quality.confidence import RightnessPrior, calibrate_support
from quality.labels import freeze_arrays, of_voters
from quality.multilabel.answer_sets import MultiLabels
from quality.multilabel.cell_pass import Cells, cells_of
from quality.multilabel.cell_support import cell_support
from quality.multilabel.class_em import ClassModel, fit_cells
from quality.parallel import Progress

__all__ = ["MultiLabelConsensus", "multilabel_consensus"]

# for four aggregators on 21 public sets of labels, without regard to their shares of guessers
CELL_PRIOR = RightnessPrior(intercept=0.75, odds=0.35, votes=0.77, shared=-2.83)
SHARED_HALF = 0.02  # shared errors at which model and regression weigh alike: see `_calibrated`
MIN_GOLD = 50  # cells of known truth in a fit, at least; the cells of a task are not independent
N_FOLDS = 5  # folds of the gold, for probabilities from a task's answers without its truth
# without gold a calibrated probability stays on the model's side of one half
LEAST_SURE = 0.5 + 1e-9


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MultiLabelConsensus:
    """Result of :func:`multilabel_consensus`.

    Parameters
    ----------
    start, label
        The cells of task ``t``, which are the classes that some worker gave or that hold by gold:
        ``label[start[t]:start[t + 1]]``, in order.
    probability
        Calibrated probability that the class of each cell holds; 0 or 1 for gold.
    model
        The same probability by the model alone.
    chosen
        Whether the class is in the consensus: its probability is above the threshold.
    prevalence
        Share of tasks, among those that show a class, for which it holds, by the model.
    unseen
        Mean probability, by the model, that a class holds if no worker gave it; such a class is never
        chosen.
    sensitivity, false_rate
        P(worker gives class | it holds) and P(she gives it | it does not).
    worker_sensitivity, worker_false_rate
        The same rates over all her cells, by expected counts; the crowd's for a worker without answers.
    strength
        Number of cells that the prior counts for in a worker's sensitivity for a class, and in her false
        rate.
    shared
        How far errors are shared in this crowd: see :class:`~quality.confidence.Support`.
    evidence
        "gold" if the calibration used gold, "labels" if there was too little of it.
    n_iter, converged
        Iterations, and whether no model probability moved by more than `tol` in the last.
    """

    start: Int64[np.ndarray, " task_starts"]
    label: Int16[np.ndarray, " cells"]
    probability: Float64[np.ndarray, " cells"]
    model: Float64[np.ndarray, " cells"]
    chosen: Bool[np.ndarray, " cells"]
    prevalence: Float64[np.ndarray, " classes"]
    unseen: Float64[np.ndarray, " classes"]
    sensitivity: Float64[np.ndarray, "workers classes"]
    false_rate: Float64[np.ndarray, "workers classes"]
    worker_sensitivity: Float64[np.ndarray, " workers"]
    worker_false_rate: Float64[np.ndarray, " workers"]
    strength: tuple[float, float]
    shared: float
    evidence: str
    n_iter: int
    converged: bool

    def __post_init__(self) -> None:
        freeze_arrays(self)

    def __repr__(self) -> str:
        tasks = max(len(self.start) - 1, 1)
        settled = "converged" if self.converged else "not converged"
        return (
            f"MultiLabelConsensus({len(self.start) - 1} tasks, {self.chosen.sum() / tasks:.2f} classes "
            f"each, {settled} after {self.n_iter} iterations)"
        )

    def classes_of(self, task: int) -> Int16[np.ndarray, " chosen"]:
        """Return the codes of the classes in the consensus of one task."""
        cells = slice(self.start[task], self.start[task + 1])
        codes: np.ndarray = self.label[cells][self.chosen[cells]]
        return codes

    def table(self) -> Float64[np.ndarray, "tasks classes"]:
        """Return all probabilities, with `unseen` for classes that no worker gave."""
        n_tasks = len(self.start) - 1
        whole = np.repeat(self.unseen[np.newaxis], n_tasks, axis=0)
        whole[np.repeat(np.arange(n_tasks), np.diff(self.start)), self.label] = self.probability
        return whole


@check_arguments
def multilabel_consensus(
    table: MultiLabels,
    *,
    threshold: float = 0.5,
    gold: Int8[np.ndarray, "tasks classes"] | None = None,
    groups: Int[np.ndarray, " workers"] | None = None,
    max_iter: int = 100,
    tol: float = 5e-3,
    progress: Progress | None = None,
) -> MultiLabelConsensus:
    """Estimate which classes hold for each task, and how each worker gives each class.

    EM fits the classes' binary models at once. Sensitivities and false rates have Beta priors. Their means
    add an effect of the worker and one of the class in log odds, and their strength is learned.

    Parameters
    ----------
    table
        The crowd's answers.
    threshold
        A class is chosen if its probability is above this, in (0, 1).
    gold
        1 if a class is known to hold for a task, 0 if it does not, -1 if that is unknown, as
        :func:`~quality.multilabel.encode_gold_sets` returns it. Gold is fixed, and evidence on workers.
        From 50 cells on it calibrates the other cells, for which its tasks must be drawn at random.
    groups
        The group code of each worker, -1 for a worker in no group: a group has one answer a task, and the
        estimates for a member are those of her group. ``dependent_groups(yes_no_labels(table)).group``
        finds them.
    max_iter
        Maximum number of iterations, at least 1.
    tol
        Stop when no probability moves by more than this, at least 0.
    progress
        Called as in :data:`~quality.Progress`.

    Raises
    ------
    ValueError
        If `threshold`, `max_iter` or `tol` is out of its range, gold or groups do not fit the table, or a
        class holds by gold that its task did not show.
    LabelError
        If workers times classes would be a huge and nearly empty table.

    Notes
    -----
    **Guarantees.** At a threshold of one half, without gold, the chosen classes are those whose model
    probability is above one half. A class that nobody gave a task is not chosen, unless it holds by gold. A
    class that a task did not show is no evidence on its workers. Without gold the order of workers, tasks
    and classes changes only rounding. The consensus of a task that has answers agrees with gold. The same
    bytes on every run.

    **Limits.** The number of classes that hold at once is learned only if it varies less than by chance,
    and if every task shows all classes (:mod:`quality.multilabel.set_sizes`): up to classes that exclude
    each other. Classes that tend to hold together are not modelled. If every answer holds exactly one
    class, use :func:`~quality.auto`. Workers who copy each other count separately, unless `groups` joins
    them. A class that nobody gave a gold task, and that does not hold for it, counts as any class that
    nobody gave.

    **Calibration.** As :func:`~quality.calibrate`, for cells. Without gold its result is mixed with the
    model's own: the less errors are shared, the more the model weighs. With gold, a gold task's
    probabilities come from a fit without its truth.

    **Cost.** Every iteration is linear in the triples of a worker, a task, and a class that some worker of
    the task gave, and in workers times classes. Gold of 50 cells costs five more fits.

    References
    ----------
    .. [1] Dawid, Skene, "Maximum likelihood estimation of observer error-rates using the EM
       algorithm", Applied Statistics 28 (1979).
    .. [2] Duan, Oyama, Sato, Kurihara, "Separate or joint? Estimation of multiple labels from
       crowdsourced annotations", Expert Systems with Applications 41 (2014).
    """
    if not 0 < threshold < 1:
        raise ValueError(f"threshold must be in (0, 1), got threshold={threshold}")
    check_em(max_iter, tol, None)
    if gold is not None and not (
        gold.shape == (table.n_tasks, table.n_classes) and np.isin(gold, (-1, 0, 1)).all()
    ):
        raise ValueError(
            f"gold must be 1, 0 or -1 for each of {table.n_tasks} tasks and {table.n_classes} classes, got "
            f"{gold.dtype} of shape {gold.shape}"
        )
    if gold is not None and (hidden := (gold == 1) & ~table.shows()).any():
        task, label = np.argwhere(hidden)[0]
        raise ValueError(
            f"gold must hold no class that its task did not show, got {table.classes[label]} for task "
            f"{table.tasks[task]}: add it to what was shown, or give -1"
        )
    if groups is not None:
        table = table.merge_workers(groups)
    cells = cells_of(table, gold)
    state = fit_cells(table, cells, max_iter, tol, progress)
    apart = _left_out(table, cells, state, max_iter, tol)
    probability, shared, evidence = _calibrated(table, cells, apart)
    asked = np.maximum(cells.asked - state.mass, 0.0)
    return MultiLabelConsensus(
        cells.start, cells.label, probability, state.chance, probability > threshold,
        state.prevalence, state.unseen, of_voters(state.held.rate, groups),
        of_voters(state.false.rate, groups), of_voters(_of_workers(state.hit, state.mass), groups),
        of_voters(_of_workers(cells.given - state.hit, asked), groups),
        (state.held.strength, state.false.strength), shared, evidence, state.n_iter, state.converged,
    )  # fmt: skip


def _left_out(
    table: MultiLabels, cells: Cells, state: ClassModel, max_iter: int, tol: float
) -> Float64[np.ndarray, " cells"]:
    """Return probabilities in which those of gold tasks come from fits without their truth."""
    if (cells.known >= 0).sum() < MIN_GOLD:
        return state.chance
    task = np.repeat(np.arange(table.n_tasks), np.diff(cells.start))
    known_tasks, place = np.unique(task[cells.known >= 0], return_inverse=True)
    fold = np.full(len(task), -1)
    fold[cells.known >= 0] = place % min(N_FOLDS, len(known_tasks))
    chance = state.chance.copy()
    for number in range(fold.max() + 1):
        out = fold == number
        asked = replace(cells, known=np.where(out, np.int8(-1), cells.known))
        chance[out] = fit_cells(table, asked, max_iter, tol, None).chance[out]
    return chance


def _calibrated(
    table: MultiLabels, cells: Cells, chance: Float64[np.ndarray, " cells"]
) -> tuple[Float64[np.ndarray, " cells"], float, str]:
    """Return each cell's calibrated probability, how far errors are shared, and the evidence.

    Without gold the confidence of :func:`~quality.calibrate` is that of public crowds, who share errors;
    for a crowd without shared errors the model's own is right. The weight of the former is
    shared / (shared + 0.02), chosen on leaves and weather, recoded, and on simulated crowds.
    """
    if not len(chance):
        return chance, 0.0, "labels"
    # cells that are there by gold alone are no sample
    gold = np.where(cells.n_given > 0, cells.known, -1).astype(np.int64)
    if np.count_nonzero(gold >= 0) < MIN_GOLD:
        gold[:] = -1
    # only cells that somebody gave are here, so that votes on them are less alike than the workers are
    support = cell_support(table, cells, chance)
    # not in levels: whether a class holds is decided between two of them
    found = calibrate_support(support, gold, prior=CELL_PRIOR, in_levels=False)
    fitted = found.evidence == "gold"
    weight = 1.0 if fitted else found.shared / (found.shared + SHARED_HALF)
    sure = weight * found.confidence + (1 - weight) * found.model
    if not fitted:
        sure = np.maximum(sure, LEAST_SURE)
    probability = np.where(chance > 0.5, sure, 1 - sure)
    return np.where(cells.known >= 0, cells.known, probability), found.shared, found.evidence


def _of_workers(
    count: Float64[np.ndarray, "workers classes"], asked: Float64[np.ndarray, "workers classes"]
) -> Float64[np.ndarray, " workers"]:
    """Return each worker's rate over all classes, the crowd's counting for one cell."""
    crowd = count.sum() / max(asked.sum(), 1e-300)
    rate: np.ndarray = np.clip((count.sum(axis=1) + crowd) / (asked.sum(axis=1) + 1.0), 0.0, 1.0)
    return rate
