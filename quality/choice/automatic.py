"""Choice without gold: aggregators pooled by how well they predict labels held out from them.

>>> from quality import encode, regular_assignment, simulate_crowd
>>> rng = np.random.default_rng(0)
>>> assignment = regular_assignment(n_tasks=200, n_workers=20, labels_per_task=5, rng=rng)
>>> truth = rng.integers(2, size=200)
>>> crowd = simulate_crowd(assignment, truth, n_classes=2, adversaries={"malicious": 5}, rng=rng)
>>> auto(encode(crowd.worker, crowd.task, crowd.label)).chosen
'one_coin_dawid_skene'
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from types import MappingProxyType
from typing import Generic, TypeVar

import numpy as np
from jaxtyping import Bool, Float64, Int, Int16

from quality.aggregation import (
    Consensus,
    Result,
    check_cells,
    confusion_under,
    dawid_skene,
    decide,
    fills_matrices,
    hierarchical_dawid_skene,
    kos,
    mace,
    majority_vote,
    one_coin_dawid_skene,
    posterior_found,
    weighted_majority,
)
from quality.argument_types import check_arguments
from quality.choice.held_out_labels import (
    check_folds,
    fold_sizes,
    held_folds,
    in_fold,
    log_by_workers,
    log_of_classes,
    predict_held_out,
    right_of,
)
from quality.labels import CrowdLabels, of_voters
from quality.parallel import Progress, counter
from quality.reputation import reputation_weight, soft_penalty

__all__ = [
    "CANDIDATES", "SOON", "Auto", "Candidate", "InPasses", "Score", "auto", "candidates_for",
    "check_choice", "contends", "hold_out", "scores_of", "sobered", "tried_among",
]  # fmt: skip

Candidate = Callable[[CrowdLabels], Consensus]
Fitted = TypeVar("Fitted")

ENOUGH = 30_000  # held-out labels: more of them change no choice
MIN_WEIGHT = 1e-6  # of a candidate in the pool: it may still break ties
# a first look ends at a pass that gains less, in nats a label
SOON: Mapping[str, float | int] = MappingProxyType({"tol": 1e-4})
FAR, FAR_ERRORS = 0.005, 10.0  # nats a held-out label (fifty such passes), and standard errors


@dataclass(frozen=True, slots=True)
class InPasses(Generic[Fitted]):
    """A candidate that passes over the labels until it converges; arguments `stop` end its first look.

    >>> from quality import encode
    >>> labels = encode(["ann", "bob", "cy"] * 4, sorted([1, 2, 3, 4] * 3), list("aabbbbaabbbb"))
    >>> candidate = InPasses(dawid_skene)
    >>> candidate(labels).n_iter, candidate.at_first(labels).n_iter
    (7, 6)
    """

    fit: Callable[..., Fitted]
    stop: Mapping[str, float | int] = field(default_factory=lambda: SOON)

    def __call__(self, labels: CrowdLabels) -> Fitted:
        """Return the converged fit."""
        return self.fit(labels)

    def at_first(self, labels: CrowdLabels) -> Fitted:
        """Return a rough fit, which ends as `stop` asks."""
        return self.fit(labels, **self.stop)


# one seed for every table: where labels do not settle it, the choice must not be luck
CANDIDATES: Mapping[str, Candidate] = {
    "majority_vote": majority_vote,
    "weighted_majority": lambda labels: weighted_majority(
        labels, reputation_weight(soft_penalty(labels))
    ),
    "one_coin_dawid_skene": InPasses(one_coin_dawid_skene),
    "mace": InPasses(mace),
    "hierarchical_dawid_skene": InPasses(hierarchical_dawid_skene),
    "dawid_skene": InPasses(dawid_skene),
    "kos": InPasses(
        lambda labels, **stop: kos(labels, rng=np.random.default_rng(0), **stop), {"max_iter": 5}
    ),
}

OF_CLASSES = ("hierarchical_dawid_skene", "dawid_skene", "kos")
"""Candidates whose work grows with the square of the classes, or is as much again for each class."""


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
        P(label | truth) of each worker under `posterior`, as ``confusion[worker, truth, label]``, shrunk to
        the crowd's by two labels a row.
    scores
        One for each candidate, in the order given.
    n_held_out
        Predictions of labels held out, over all folds of all deals.
    left_out
        Of `CANDIDATES`, those that :func:`candidates_for` leaves out; none where candidates were given.
    """

    posterior: Float64[np.ndarray, "tasks classes"]
    label: Int16[np.ndarray, " tasks"]
    tied: Bool[np.ndarray, " tasks"]
    chosen: str
    result: Consensus
    confusion: Float64[np.ndarray, "workers classes classes"]
    scores: tuple[Score, ...]
    n_held_out: int
    left_out: tuple[str, ...] = ()


@check_arguments
def auto(
    labels: CrowdLabels,
    *,
    candidates: Mapping[str, Candidate] | None = None,
    n_folds: int = 10,
    enough: int = ENOUGH,
    groups: Int[np.ndarray, " workers"] | None = None,
    progress: Progress | None = None,
) -> Auto:
    """Pool the aggregators that best predict held-out labels; no gold is used.

    Labels are dealt to folds. Each fold is held out in turn, every candidate is fitted to the rest, and
    its posterior predicts the labels of the fold. A worker is taken to give the truth as often as she
    seems to know it under that posterior, less what of that does not hold on labels held out. Else she gives
    a class by her habit, the shares of the classes among her labels, or a class for which the whole crowd
    takes that truth. A candidate that is `behind` the best by z standard errors has a weight in proportion to
    exp(-z**2 / 2). The result is the mean of the posteriors by weight.

    A small table is dealt up to three times, so that its answer hangs less on how labels fell to folds. A
    large table needs fewer folds: no further one is held out once `enough` labels have been predicted. Where
    one fold is enough, a candidate of :class:`InPasses` is fitted roughly first, and to the end only
    if it is not far behind then.

    Where nothing seems to be learned about workers, the first candidate has nearly all of the weight. Each
    worker's labels are predicted by her share of right labels under each candidate, and z is the standard
    errors by which the best candidate predicts better than the classes' shares do, or than the first
    candidate does, whichever is more. The weights of the others are multiplied by 1 - exp(-z**2 / 2).

    Parameters
    ----------
    labels
        The crowd's labels.
    candidates
        Name -> function of labels, the simplest first; any function of a table can be one. By default
        those of :func:`candidates_for`.
    n_folds
        Number of folds, from 2 to 32,767.
    enough
        No further fold is held out when this many labels have been, at least 1; whole deals that fit into it
        are held out, up to three.
    groups
        As for :func:`~quality.dawid_skene`, for all candidates: they have the merged table.
    progress
        Called before every fit, which it names: see :data:`quality.parallel.Progress`.

    Raises
    ------
    ValueError
        If there is no candidate, one returns no distribution over the classes for each task, or a parameter
        is out of its range; a LabelError where workers and classes are too many for confusion matrices.

    Notes
    -----
    **Guarantees.** Every label of a task with two or more is held out if these labels are at most `enough`;
    twice if they are at most half of it, and three times if at most a third. Candidates that predict alike
    weigh alike where workers are known. A candidate that is clearly behind weighs nothing: a weight below a
    millionth is 0, and so is that of a candidate ten standard errors and .005 nats a label behind after a
    first look. First looks changed no weight by a hundredth on the large crowds tried
    (``python -m benchmarks.quality.first_looks``). Without tasks of two labels the first
    candidate is taken. The result is the same on every run if the candidates' are.

    **Limits.** A candidate that predicts labels best need not know the truth best. The prediction knows
    of a worker her habit and how often she is right, and which classes the crowd confuses, not which she
    does: a fit that models these also predicts the errors that some share. Workers who copy each other are
    still believed.
    Hand over unfiltered labels: Dawid–Skene can use a malicious worker's inverted labels. A filter is
    compared fairly as part of a candidate, ``lambda labels: majority_vote(labels.keep_workers(...))``.

    **Cost.** One fit of each candidate per fold held out, and one more on all labels of each with a weight.
    A table of 10,000 labels or fewer has thirty folds held out, one of 15,000 labels or more at most ten. A
    table of a million labels has one fold held out, and its first looks are most of the work.

    Examples
    --------
    >>> from quality import encode
    >>> labels = encode(["ann", "bob", "cy"] * 4, sorted([1, 2, 3, 4] * 3), list("aabbbbaabbbb"))
    >>> auto(labels)
    Auto(mace of 7 candidates, 4 tasks, 0 tied)
    """
    labels, given = labels.merge_workers(groups), candidates
    candidates = candidates_for(labels) if given is None else given
    check_choice(candidates, n_folds, enough)
    check_cells(labels.n_workers, labels.n_classes, labels.n_classes)

    def found_by(fitted: Consensus) -> np.ndarray:
        return posterior_found(fitted, labels.n_tasks, labels.n_classes, "every candidate")

    def predict(out: np.ndarray, fitted: Consensus) -> tuple[np.ndarray, np.ndarray]:
        posterior = found_by(fitted)
        return predict_held_out(labels, out, posterior), right_of(labels, posterior)

    scores, n_held_out, begins = hold_out(labels, candidates, predict, n_folds, enough, progress)
    weighing = {score.name: score.weight for score in scores if score.weight}
    best = max(weighing, key=lambda name: weighing[name])
    posterior = np.zeros((labels.n_tasks, labels.n_classes))
    for name, weight in weighing.items():
        begins(name)
        fitted = candidates[name](labels)
        posterior += weight * found_by(fitted)
        if name == best:
            result = fitted
    posterior /= posterior.sum(axis=1, keepdims=True)  # the weights add up to 1 but for rounding
    label, tied = decide(posterior)
    confusion = of_voters(confusion_under(labels, posterior), groups)
    left_out = () if given else tuple(name for name in CANDIDATES if name not in candidates)
    return Auto(posterior, label, tied, best, result, confusion, scores, n_held_out, left_out)


def candidates_for(labels: CrowdLabels) -> Mapping[str, Candidate]:
    """Return `CANDIDATES`, without `OF_CLASSES` where confusion matrices would be nearly empty.

    They are so with more than 64 cells for each label. With these candidates the pool then takes minutes and
    is no more accurate. Up to 131,072 cells in all they take a second or two, and stay.

    Examples
    --------
    >>> from quality import encode
    >>> few = encode(["ann", "bob"] * 2, [1, 1, 2, 2], ["no", "yes", "no", "no"])
    >>> list(candidates_for(few)) == list(CANDIDATES)
    True
    """
    names = tried_among(tuple(CANDIDATES), labels.n_workers, labels.n_classes, labels.n_labels)
    return {name: CANDIDATES[name] for name in names}


def tried_among(
    names: tuple[str, ...], n_workers: int, n_classes: int, n_labels: int
) -> tuple[str, ...]:
    """Return the candidates, of a table of any kind, that :func:`candidates_for` keeps."""
    if fills_matrices(n_workers, n_classes, n_labels):
        return names
    return tuple(name for name in names if name not in OF_CLASSES)


def check_choice(candidates: Mapping[str, object], n_folds: int, enough: int) -> None:
    """Raise ValueError unless there are candidates, two folds or more, and a label to hold out."""
    if not candidates:
        raise ValueError("candidates must be one or more aggregators, got none")
    check_folds(n_folds)
    if not enough >= 1:
        raise ValueError(f"enough must be >= 1, got enough={enough}")


def hold_out(
    labels: CrowdLabels,
    candidates: Mapping[str, Callable[[CrowdLabels], Fitted]],
    predict: Callable[[np.ndarray, Fitted], tuple[np.ndarray, np.ndarray]],
    n_folds: int,
    enough: int,
    progress: Progress | None,
) -> tuple[tuple[Score, ...], int, Callable[[str], object]]:
    """Fit each candidate to the labels without each fold.

    Return the scores, the number of labels held out, and a function to call before a further fit of a
    candidate. ``predict(out, fitted)`` returns the log-probability of each label that is `out`, and the
    probability that each label is right.
    """
    tasks = labels.task_start, 0, n_folds
    held, n_held_out = held_folds(partial(fold_sizes, *tasks), enough)
    fits = tuple(candidates.values())
    large = len(held) == 1 and n_held_out >= enough
    first = [fit.at_first if large and isinstance(fit, InPasses) else fit for fit in fits]
    looked = [look is not fit for look, fit in zip(first, fits, strict=True)]
    n_fits, begun = (1 + len(held) + any(looked)) * len(fits), count()

    def begins(name: str) -> None:
        counter(progress, f"candidates: {name}", n_fits)(next(begun))

    names = tuple(candidates)
    # sums over a task's held-out labels: as predicted, by shares of right labels, and by classes alone
    log_p, by_worker = np.zeros((2, len(fits), labels.n_tasks))
    by_class = np.zeros(labels.n_tasks)

    def of_tasks(out: np.ndarray, values: np.ndarray) -> np.ndarray:
        return np.bincount(labels.task[out], values, labels.n_tasks)

    def predicted(out: np.ndarray, fitted: Fitted) -> tuple[np.ndarray, np.ndarray]:
        found, right = predict(out, fitted)
        return of_tasks(out, found), of_tasks(out, log_by_workers(labels, out, right))

    for number in held:
        out = in_fold(*tasks, number)
        rest = labels.keep_labels(~out)
        shares = log_of_classes(np.bincount(rest.label, minlength=labels.n_classes))
        by_class += of_tasks(out, shares[labels.label[out]])
        for place, fit in enumerate(first):
            begins(names[place])
            for sums, found in zip((log_p, by_worker), predicted(out, fit(rest)), strict=True):
                sums[place] += found
        for place, score in enumerate(_scores(names, log_p, n_held_out) if large else ()):
            if looked[place] and contends(score.behind, score.behind_error):
                begins(names[place])
                log_p[place], by_worker[place] = predicted(out, fits[place](rest))
    ahead = by_worker - np.stack([by_class, by_worker[0]])[:, np.newaxis]
    scores = sobered(_scores(names, log_p, n_held_out), ahead.sum(axis=2), (ahead**2).sum(axis=2))
    return scores, n_held_out, begins


def contends(behind: float, behind_error: float) -> bool:
    """Return whether a candidate may still be the best, from its distance behind after a first look.

    >>> contends(0.02, 0.001), contends(0.02, 0.01), contends(0.004, 0.0001)
    (False, True, True)
    """
    return not (behind > FAR and behind > FAR_ERRORS * behind_error)


def _scores(
    names: tuple[str, ...], log_p: Float64[np.ndarray, "candidates tasks"], n_held_out: int
) -> tuple[Score, ...]:
    """Return means per held-out label and weights; standard errors take tasks as independent."""
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
    """Return scores, from log-likelihoods, their distances to the best, and sums of squared distances."""
    if not n_held_out:
        nan = np.nan
        return tuple(Score(name, nan, nan, nan, float(name == names[0])) for name in names)
    error = np.sqrt(squares)
    z = np.divide(behind, error, out=np.zeros(len(names)), where=error > 0)
    weight = _worth_a_fit(np.exp(-(z**2) / 2))
    columns = (total / n_held_out, behind / n_held_out, error / n_held_out, weight)
    return tuple(map(Score, names, *(column.tolist() for column in columns)))


def sobered(
    scores: tuple[Score, ...],
    ahead: Float64[np.ndarray, "2 candidates"],
    squares: Float64[np.ndarray, "2 candidates"],
) -> tuple[Score, ...]:
    """Return scores with less weight on all but the first where nothing seems to be learned about workers.

    A candidate that knows workers predicts their labels better than the classes' shares do, or than the
    first candidate does. `ahead` is by how many nats, and `squares` adds up its squares by task. Weights are
    multiplied by 1 - exp(-z**2 / 2), where z is the largest of `ahead` in standard errors.
    """
    weight = np.array([score.weight for score in scores])
    if not weight[0]:
        return scores
    z = np.divide(ahead, np.sqrt(squares), out=np.zeros(ahead.shape), where=squares > 0)
    weight[1:] *= -np.expm1(-(z.max(initial=0.0) ** 2) / 2)
    pairs = zip(scores, _worth_a_fit(weight).tolist(), strict=True)
    return tuple(replace(score, weight=share) for score, share in pairs)


def _worth_a_fit(weight: Float64[np.ndarray, " candidates"]) -> Float64[np.ndarray, " candidates"]:
    """Return shares of the pool; 0 for a candidate that is not worth a fit to all labels."""
    kept = np.where(weight < MIN_WEIGHT * weight.sum(), 0.0, weight)
    return np.asarray(kept / kept.sum())
