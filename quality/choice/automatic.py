"""Choice without gold: aggregators pooled by how well they predict labels held out from them.

>>> from quality import encode, regular_assignment, simulate_crowd
>>> rng = np.random.default_rng(0)
>>> assignment = regular_assignment(n_tasks=200, n_workers=20, labels_per_task=5, rng=rng)
>>> truth = rng.integers(2, size=200)
>>> crowd = simulate_crowd(assignment, truth, n_classes=2, adversaries={"malicious": 5}, rng=rng)
>>> auto(encode(crowd.worker, crowd.task, crowd.label)).chosen
'one_coin_dawid_skene'

:data:`CANDIDATES` are the aggregators that are pooled by default; any other function of a table can
be a candidate.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from types import MappingProxyType
from typing import Generic, TypeVar

import numpy as np
from jaxtyping import Bool, Float64, Int, Int16, Int32, Int64

from quality.aggregation import (
    Consensus,
    Result,
    check_cells,
    confusion_under,
    dawid_skene,
    decide,
    hierarchical_dawid_skene,
    kos,
    mace,
    majority_vote,
    one_coin_dawid_skene,
    weighted_majority,
)
from quality.argument_types import check_arguments
from quality.labels import CrowdLabels, of_voters
from quality.parallel import Progress, counter, kernel
from quality.reputation import soft_penalty

__all__ = [
    "CANDIDATES", "SOON", "Auto", "Candidate", "InPasses", "Score", "answers_given", "auto", "check_choice",
    "constant_workers", "contends", "dealt", "folds", "held_of_sizes", "hold_out", "log_chances", "meanings",
    "meanings_of", "predict_held_out", "scored_folds", "scores_of",
]  # fmt: skip

Candidate = Callable[[CrowdLabels], Consensus]
Fitted = TypeVar("Fitted")

ENOUGH = 30_000  # held-out labels: more of them change no choice
BY_CHANCE = (
    0.01  # chance of as many labels of one class, under which a worker is taken to give no other
)
MIN_WEIGHT = 1e-6  # of a candidate in the pool: it may still break ties
SOON: Mapping[str, float | int] = MappingProxyType({"tol": 1e-4})  # nats a label that a pass gains
FAR, FAR_ERRORS = 0.005, 10.0  # nats a held-out label, fifty such passes, and standard errors


@dataclass(frozen=True, slots=True)
class InPasses(Generic[Fitted]):
    """A candidate whose `fit` passes over the labels until it settles; `stop`, by name, ends a first look.

    >>> from quality import encode
    >>> labels = encode(["ann", "bob", "cy"] * 4, sorted([1, 2, 3, 4] * 3), list("aabbbbaabbbb"))
    >>> candidate = InPasses(dawid_skene)
    >>> candidate(labels).n_iter, candidate.at_first(labels).n_iter
    (7, 6)
    """

    fit: Callable[..., Fitted]
    stop: Mapping[str, float | int] = field(default_factory=lambda: SOON)

    def __call__(self, labels: CrowdLabels) -> Fitted:
        """Return the fit to the end."""
        return self.fit(labels)

    def at_first(self, labels: CrowdLabels) -> Fitted:
        """Return where the fit stands when its passes gain little."""
        return self.fit(labels, **self.stop)


# one seed for every table: where labels do not settle it, the choice must not be luck
CANDIDATES: Mapping[str, Candidate] = {
    "majority_vote": majority_vote,
    "weighted_majority": lambda labels: weighted_majority(labels, 1.0 - soft_penalty(labels)),
    "one_coin_dawid_skene": InPasses(one_coin_dawid_skene),
    "mace": InPasses(mace),
    "hierarchical_dawid_skene": InPasses(hierarchical_dawid_skene),
    "dawid_skene": InPasses(dawid_skene),
    "kos": InPasses(
        lambda labels, **stop: kos(labels, rng=np.random.default_rng(0), **stop), {"max_iter": 5}
    ),
}


@dataclass(frozen=True, slots=True)
class Score:
    """How well one candidate predicts the labels held out from it.

    Parameters
    ----------
    name
        Of the candidate.
    log_likelihood
        Mean over the labels held out, in nats; NaN if none could be held out.
    behind, behind_error
        Its distance to the best log-likelihood, and the standard error of that distance.
    weight
        Its share of the pool; the weights add up to 1.
    """

    name: str
    log_likelihood: float
    behind: float
    behind_error: float
    weight: float

    def __repr__(self) -> str:
        return f"Score({self.name} {self.log_likelihood:.3f}, weight {self.weight:.2f})"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Auto(Result):
    """Result of :func:`auto`.

    Parameters
    ----------
    posterior
        Mean of the candidates' posteriors, fitted to all labels, by weight.
    label, tied
        As in :class:`~quality.Consensus`.
    chosen
        The name of the candidate with the largest weight.
    result
        Its result.
    confusion
        P(label | truth) of each worker under `posterior`, as ``confusion[worker, truth, label]``, with
        two labels of the crowd's row beside her own.
    scores
        One for each candidate, in the order given.
    n_held_out
        Labels that were predicted, over all folds.
    """

    posterior: Float64[np.ndarray, "tasks classes"]
    label: Int16[np.ndarray, " tasks"]
    tied: Bool[np.ndarray, " tasks"]
    chosen: str
    result: Consensus
    confusion: Float64[np.ndarray, "workers classes classes"]
    scores: tuple[Score, ...]
    n_held_out: int


@check_arguments
def auto(
    labels: CrowdLabels,
    *,
    candidates: Mapping[str, Candidate] = CANDIDATES,
    n_folds: int = 10,
    enough: int = ENOUGH,
    groups: Int[np.ndarray, " workers"] | None = None,
    progress: Progress | None = None,
) -> Auto:
    """Pool the aggregators that best predict held-out labels; no gold is used.

    Labels are dealt to folds. Each fold is held out in turn, every candidate is fitted to the rest,
    and its posterior predicts the labels of the fold by what a label means in that crowd: half by
    the crowd's confusion matrix under that posterior, half by the crowd's share of right labels
    alone. A candidate that is `behind` the best by z standard errors has a weight in proportion to
    exp(-z**2 / 2), and the result is the mean of the posteriors by weight. A large table needs fewer
    folds: once `enough` labels have been predicted, the rest of the folds settle nothing more. Where one
    fold is enough, a candidate of :class:`InPasses` is fitted roughly at first, and to the end only if it
    is not far behind then. The labels of a worker who gives one class alone, more often than one in a
    hundred would by chance, are fitted to and not predicted: her name predicts them, whatever the truth.

    Parameters
    ----------
    labels
        The crowd's labels.
    candidates
        Name -> function of labels, the simplest first.
    n_folds
        Number of folds, at least 2.
    enough
        No further fold is held out when this many labels have been, at least 1.
    groups
        As for :func:`~quality.dawid_skene`, for all candidates: they have the merged table.
    progress
        Called before every fit, which it names: see :data:`quality.parallel.Progress`.

    Raises
    ------
    ValueError
        If there is no candidate or a parameter is out of its range; a LabelError where workers and classes
        are too many for confusion matrices.

    Notes
    -----
    **Guarantees.** Every label of a task with two or more, by a worker who gives more than one class, is
    held out once, in a table of up to `enough` of them; where all workers give one class alone, theirs
    are. A larger table has labels of its tasks by turns in the folds held out. Candidates that predict
    alike weigh alike; one that is clearly behind weighs nothing: a weight below a millionth is none. After
    a first look, who is ten standard errors and .005 nats a label behind is: no weight is another for it on
    any of the large crowds tried (``python -m benchmarks.quality.first_looks``).
    Without tasks of two labels nothing is held out and the first candidate is taken. The result is the
    same on every run: nothing is drawn but what a candidate draws.

    **Limits.** Predicting labels is not knowing the truth. What a worker is like plays no part in
    the prediction, and half of it takes labels at their word, because a fit that knows her, or that
    lets a class drift, predicts the errors that a crowd shares; workers who copy each other are
    still believed. Hand over unfiltered labels: Dawid–Skene can use a malicious worker's inverted
    labels, and a filter would remove them. A filter is compared fairly as part of a candidate,
    ``lambda labels: majority_vote(labels.keep_workers(...))``.

    **Cost.** Each candidate once per fold held out, which is one fold of a table of a million labels, where
    a first look is most of the work; those with a weight once more, on all labels.

    Examples
    --------
    >>> from quality import encode, regular_assignment, simulate_crowd
    >>> rng = np.random.default_rng(0)
    >>> assignment = regular_assignment(n_tasks=200, n_workers=20, labels_per_task=5, rng=rng)
    >>> truth = rng.integers(2, size=200)
    >>> crowd = simulate_crowd(assignment, truth, n_classes=2, adversaries={"random": 8}, rng=rng)
    >>> auto(encode(crowd.worker, crowd.task, crowd.label))
    Auto(mace of 7 candidates, 200 tasks, 0 tied)
    """
    check_choice(candidates, n_folds, enough)
    labels = labels.merge_workers(groups)
    check_cells(labels.n_workers, labels.n_classes, labels.n_classes)

    def predict(out: np.ndarray, fitted: Consensus) -> np.ndarray:
        return predict_held_out(labels, out, fitted.posterior)

    scores, n_held_out, begins = hold_out(labels, candidates, predict, n_folds, enough, progress)
    weighing = {score.name: score.weight for score in scores if score.weight}
    best = max(weighing, key=lambda name: weighing[name])
    posterior = np.zeros((labels.n_tasks, labels.n_classes))
    for name, weight in weighing.items():
        begins(name)
        fitted = candidates[name](labels)
        posterior += weight * fitted.posterior
        if name == best:
            result = fitted
    posterior /= posterior.sum(axis=1, keepdims=True)  # the weights add up to 1 but for rounding
    label, tied = decide(posterior)
    confusion = of_voters(confusion_under(labels, posterior), groups)
    return Auto(posterior, label, tied, best, result, confusion, scores, n_held_out)


def check_choice(candidates: Mapping[str, object], n_folds: int, enough: int) -> None:
    """Raise ValueError unless there are candidates, two folds or more, and something is held out."""
    if not candidates:
        raise ValueError("candidates must be one or more aggregators, got none")
    if not n_folds >= 2:
        raise ValueError(f"n_folds must be >= 2, got n_folds={n_folds}")
    if not enough >= 1:
        raise ValueError(f"enough must be >= 1, got enough={enough}")


def hold_out(
    labels: CrowdLabels,
    candidates: Mapping[str, Callable[[CrowdLabels], Fitted]],
    predict: Callable[[np.ndarray, Fitted], np.ndarray],
    n_folds: int,
    enough: int,
    progress: Progress | None,
) -> tuple[tuple[Score, ...], int, Callable[[str], object]]:
    """Fit each candidate to the labels without each fold.

    Return scores, the number of labels held out, and what is called before a further fit of a candidate.
    ``predict(out, fitted)`` returns the log-probability of the labels that are `out`.
    """
    fold = scored_folds(labels, n_folds)
    held = held_folds(fold, enough)
    fits = tuple(candidates.values())
    n_held_out = int(np.count_nonzero((fold >= 0) & (fold < held)))
    large = held == 1 and n_held_out >= enough
    first = [fit.at_first if large and isinstance(fit, InPasses) else fit for fit in fits]
    looked = [look is not fit for look, fit in zip(first, fits, strict=True)]
    n_fits, begun = (1 + held + any(looked)) * len(fits), count()

    def begins(name: str) -> None:
        counter(progress, f"candidates: {name}", n_fits)(next(begun))

    names = tuple(candidates)
    log_p = np.zeros((len(fits), labels.n_tasks))  # summed over a task's held-out labels

    def predicted(out: np.ndarray, fitted: Fitted) -> np.ndarray:
        return np.bincount(labels.task[out], predict(out, fitted), labels.n_tasks)

    for number in range(held):
        out = fold == number
        rest = labels.keep_labels(~out)
        for place, fit in enumerate(first):
            begins(names[place])
            log_p[place] += predicted(out, fit(rest))
        for place, score in enumerate(_scores(names, log_p, n_held_out) if large else ()):
            if looked[place] and contends(score.behind, score.behind_error):
                begins(names[place])
                log_p[place] = predicted(out, fits[place](rest))
    return _scores(names, log_p, n_held_out), n_held_out, begins


def contends(behind: float, behind_error: float) -> bool:
    """Return whether a candidate may still come to the front, from how far it is behind after a first look.

    >>> contends(0.02, 0.001), contends(0.02, 0.01), contends(0.004, 0.0001)
    (False, True, True)
    """
    return not (behind > FAR and behind > FAR_ERRORS * behind_error)


def scored_folds(labels: CrowdLabels, n_folds: int) -> Int16[np.ndarray, " labels"]:
    """Return the fold of each label, as `folds` does; -1 also for those of workers who give one class alone.

    They have their folds where otherwise none would be held out.
    """
    fold = folds(labels, n_folds)
    scored = (fold >= 0) & ~_constant(labels)[labels.worker]
    return np.where(scored, fold, np.int16(-1)) if scored.any() else fold


def _constant(labels: CrowdLabels) -> Bool[np.ndarray, " workers"]:
    """Return whether each worker gives one class alone, by :func:`constant_workers`."""
    n_labels = np.bincount(labels.worker, minlength=labels.n_workers)
    own = np.zeros(labels.n_workers, dtype=labels.label.dtype)
    own[labels.worker] = labels.label  # one of hers
    n_own = np.bincount(labels.worker[labels.label == own[labels.worker]], minlength=len(own))
    by_class = np.bincount(labels.label, minlength=labels.n_classes)
    return constant_workers(n_labels, own, n_own, by_class)


def constant_workers(
    n_labels: Int64[np.ndarray, " workers"],
    own: Int[np.ndarray, " workers"],
    n_own: Int64[np.ndarray, " workers"],
    by_class: Int64[np.ndarray, " classes"],
) -> Bool[np.ndarray, " workers"]:
    """Return whether each worker gives one class alone, her `own`, and more often than by chance.

    Her label is known from her name, whatever the truth: a candidate that expects it is no better for it,
    and majority vote, which where such workers are many is theirs, would expect it best.
    """
    share = by_class / max(by_class.sum(), 1)
    found: np.ndarray = (n_own == n_labels) & (share[own] ** n_labels < BY_CHANCE)
    return found & (n_labels > 1)


def held_folds(fold: Int16[np.ndarray, " labels"], enough: int) -> int:
    """Return how many folds, the first ones, have `enough` labels; all that have any if too few."""
    return held_of_sizes(np.bincount(fold[fold >= 0]), enough)


def held_of_sizes(sizes: Int64[np.ndarray, " folds"], enough: int) -> int:
    """Return the same from the sizes of the folds that have any."""
    return min(int(np.searchsorted(np.cumsum(sizes), enough)) + 1, len(sizes))


def folds(labels: CrowdLabels, n_folds: int) -> Int16[np.ndarray, " labels"]:
    """Return the fold of each label; -1 for the label of a task that has no other.

    The labels of a task go round the folds, from one that follows the task, so that a worker's
    labels, too, are spread over all folds, and a fold has one label in `n_folds` however few a task
    has: held out are labels of some tasks, and most tasks keep all of theirs.
    """
    return dealt(labels.task_start, 0, n_folds)


def dealt(
    task_start: Int64[np.ndarray, " starts"], first_task: int, n_folds: int
) -> Int16[np.ndarray, " labels"]:
    """Return the fold of each label of neighbouring tasks, the first of which has that code."""
    n_labels = np.diff(task_start)
    place = np.arange(task_start[-1]) - np.repeat(task_start[:-1], n_labels)
    task = np.repeat(np.arange(first_task, first_task + len(n_labels)), n_labels)
    has_other = np.repeat(n_labels > 1, n_labels)
    return np.where(has_other, (place + task) % n_folds, -1).astype(np.int16)


def predict_held_out(
    labels: CrowdLabels,
    out: Bool[np.ndarray, " labels"],
    posterior: Float64[np.ndarray, "tasks classes"],
) -> Float64[np.ndarray, " held"]:
    """Return the log-probability of each label held out, by the mean of both :func:`meanings`."""
    meaning = np.mean(meanings(labels, out, posterior), axis=0)
    return log_chances(labels.task, labels.label, out, posterior, meaning)


def log_chances(
    task: Int32[np.ndarray, " labels"],
    label: Int16[np.ndarray, " labels"],
    out: Bool[np.ndarray, " labels"],
    posterior: Float64[np.ndarray, "tasks classes"],
    meaning: Float64[np.ndarray, "classes classes"],
) -> Float64[np.ndarray, " held"]:
    """Return the log-probability of each label held out, by what a label means."""
    predicted = np.zeros(np.count_nonzero(out))
    by_label = np.ascontiguousarray(meaning.T)
    _predict(task, label, out, np.ascontiguousarray(posterior), by_label, predicted)
    return np.log(predicted, out=predicted)


def meanings(
    labels: CrowdLabels,
    out: Bool[np.ndarray, " labels"],
    posterior: Float64[np.ndarray, "tasks classes"],
) -> tuple[Float64[np.ndarray, "classes classes"], Float64[np.ndarray, "classes classes"]]:
    """Return P(label | truth) of the whole crowd under a posterior, from the labels not held out.

    The first is the crowd's confusion matrix; the second knows its share of right labels alone, and
    spreads wrong ones evenly.
    """
    return meanings_of(answers_given(labels.task, labels.label, out, posterior))


def answers_given(
    task: Int32[np.ndarray, " labels"],
    label: Int16[np.ndarray, " labels"],
    out: Bool[np.ndarray, " labels"],
    posterior: Float64[np.ndarray, "tasks classes"],
) -> Float64[np.ndarray, "classes classes"]:
    """Return the expected labels of each class that tasks of each truth have, but for those held out."""
    n_classes = posterior.shape[1]
    given = np.zeros((n_classes, n_classes))
    _add_answers(task, label, out, np.ascontiguousarray(posterior), given)
    return np.ascontiguousarray(given.T)


def meanings_of(
    given: Float64[np.ndarray, "classes classes"],
) -> tuple[Float64[np.ndarray, "classes classes"], Float64[np.ndarray, "classes classes"]]:
    """Return both :func:`meanings` of such sums."""
    n_classes = len(given)
    counts = given + 1.0 / n_classes  # a label nobody gives stays possible
    right = np.trace(counts) / counts.sum()
    even = np.full((n_classes, n_classes), (1.0 - right) / max(n_classes - 1, 1))
    np.fill_diagonal(even, right)
    return counts / counts.sum(axis=1, keepdims=True), even


@kernel
def _predict(task, label, out, posterior, by_label, predicted) -> None:
    """Add up the chance of each label held out over the truths."""
    place = 0
    for row in range(len(label)):
        if not out[row]:
            continue
        believed, chance = posterior[task[row]], by_label[label[row]]
        for truth in range(len(chance)):
            predicted[place] += believed[truth] * chance[truth]
        place += 1


@kernel
def _add_answers(task, label, out, posterior, by_label) -> None:
    """Add each label that is not held out to its answer, by the chance of each truth."""
    for row in range(len(label)):
        if out[row]:
            continue
        given, believed = by_label[label[row]], posterior[task[row]]
        for truth in range(len(given)):
            given[truth] += believed[truth]


def _scores(
    names: tuple[str, ...], log_p: Float64[np.ndarray, "candidates tasks"], n_held_out: int
) -> tuple[Score, ...]:
    """Return means per held-out label and weights; errors as if tasks were drawn independently."""
    total = log_p.sum(axis=1)
    apart = log_p[np.argmax(total)] - log_p
    return scores_of(names, total, apart.sum(axis=1), (apart**2).sum(axis=1), n_held_out)


def scores_of(
    names: tuple[str, ...],
    total: Float64[np.ndarray, " candidates"],
    behind: Float64[np.ndarray, " candidates"],
    squares: Float64[np.ndarray, " candidates"],
    n_held_out: int,
) -> tuple[Score, ...]:
    """Return the scores of log-likelihoods, of how far they are behind the best, and of its squares."""
    if not n_held_out:
        first = np.arange(len(names)) == 0
        return tuple(
            Score(name, np.nan, np.nan, np.nan, float(only))
            for name, only in zip(names, first, strict=True)
        )
    error = np.sqrt(squares)
    z = np.divide(behind, error, out=np.zeros(len(names)), where=error > 0)
    weight = np.exp(-(z**2) / 2)
    weight[weight < MIN_WEIGHT * weight.sum()] = 0.0  # not worth a fit to all labels
    columns = (total / n_held_out, behind / n_held_out, error / n_held_out, weight / weight.sum())
    return tuple(map(Score, names, *(column.tolist() for column in columns)))
