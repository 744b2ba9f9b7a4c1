"""EM for workers with one number each, or a habit: one-coin Dawid–Skene and MACE.

All classes that nobody gave a task have the same likelihood: the probability that all its labels are wrong,
or guessed. So Bayes' rule needs the classes that the task was given, and the prior of all others together.

>>> from quality import encode
>>> workers, tasks = ["ann", "bob", "cy"] * 4, [1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4]
>>> result = one_coin_of_named(encode(workers, tasks, list("aabbbbaabbba")))
>>> result.reliability.round(2)
array([1.  , 1.  , 0.25])
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int, Int64

from quality.aggregation import Stop, check_em, check_smoothing, exp_digammas
from quality.labels import (
    CrowdLabels,
    NamedClasses,
    NamedPosterior,
    check_gold,
    name_classes,
    of_voters,
)
from quality.many_classes.named_votes import NamedConsensus, as_consensus
from quality.parallel import Progress, counter, kernel

__all__ = ["mace_of_named", "one_coin_of_named"]


SMOOTHING = 0.01  # labels of each wrong class


class _Beliefs(NamedTuple):
    """The posterior, and for each entry the sum of all other classes of its task."""

    p: Float64[np.ndarray, " entries"]
    others: Float64[np.ndarray, " entries"]
    rest: Float64[np.ndarray, " tasks"]


def one_coin_of_named(
    labels: CrowdLabels,
    *,
    max_iter: int = 100,
    tol: float = 1e-7,
    smoothing: float | None = None,
    gold: Int[np.ndarray, " tasks"] | None = None,
    groups: Int[np.ndarray, " workers"] | None = None,
    progress: Progress | None = None,
) -> NamedConsensus:
    """Estimate the truth of every task and one reliability per worker, for any number of classes.

    The model and the start are those of :func:`~quality.one_coin_dawid_skene`.

    Parameters
    ----------
    labels, max_iter, tol, gold, groups, progress
        As for that function, errors included.
    smoothing
        As for that function; by default 0.01, or less, so that all wrong classes together count for at most
        one label: a hundredth for each of ten thousand classes would be a hundred labels.

    Notes
    -----
    **Guarantees.** The posterior, the reliability and the log-likelihood are those of
    :func:`~quality.one_coin_dawid_skene` with the same smoothing, up to rounding. The same bytes on every
    run.

    **Cost.** O(labels + classes) time and memory for an iteration.

    Examples
    --------
    >>> from quality import encode
    >>> labels = encode(["ann", "bob", "cy"] * 2, [1, 1, 1, 2, 2, 2], list("aabbba"))
    >>> labels.classes[one_coin_of_named(labels).label]
    array(['a', 'b'], dtype='<U1')
    """
    check_em(max_iter, tol, None)
    n_wrong = labels.n_classes - 1
    smoothing = min(SMOOTHING, 1.0 / max(n_wrong, 1)) if smoothing is None else smoothing
    check_smoothing(smoothing)
    tell = counter(progress, "one-coin Dawid–Skene", max_iter)
    labels = labels.merge_workers(groups)
    known = check_gold(gold, labels.n_tasks, labels.n_classes).astype(np.int64)
    named = name_classes(labels, known)
    labelled = np.diff(labels.task_start) > 0
    n_labels = np.bincount(labels.worker, minlength=labels.n_workers)
    truth = _entries_of(named, known)
    belief = _first_belief(named, truth, known)
    prior, reliability, stop = np.zeros(labels.n_classes), np.empty(labels.n_workers), Stop()
    while stop.n_iter < max_iter and not stop.converged:
        prior = _class_mass(named, belief, prior, labelled)
        right = np.bincount(labels.worker, belief.p[named.entry], labels.n_workers) + smoothing
        missed = np.bincount(labels.worker, belief.others[named.entry], labels.n_workers)
        wrong = missed + n_wrong * smoothing
        total = right + wrong
        reliability = right / total
        each_wrong = wrong / (total * max(n_wrong, 1))
        # with one class no label is wrong, and no probability of a wrong one is needed
        log_wrong = np.log(each_wrong, out=np.zeros(len(total)), where=each_wrong > 0)
        log_odds = np.log(reliability) - log_wrong
        log_p = np.bincount(named.entry, log_odds[labels.worker], len(named.code))
        belief, log_likelihood = _bayes(named, prior, log_p, truth, known)
        settled = float(log_likelihood[labelled].sum() + log_wrong @ n_labels)
        stop = stop.after(settled, tol, labels.n_labels)
        tell(stop.n_iter)
    posterior = NamedPosterior(named, belief.p, belief.rest, prior)
    return as_consensus(
        posterior, reliability=of_voters(reliability, groups), log_likelihood=stop.objective,
        n_iter=stop.n_iter, converged=stop.converged,
    )  # fmt: skip


def mace_of_named(
    labels: CrowdLabels,
    *,
    max_iter: int = 100,
    tol: float = 1e-6,
    competence_prior: float = 0.5,
    strategy_prior: float = 10.0,
    gold: Int[np.ndarray, " tasks"] | None = None,
    groups: Int[np.ndarray, " workers"] | None = None,
    progress: Progress | None = None,
) -> NamedConsensus:
    """Estimate the truth, every worker's competence and her habits, for any number of classes.

    The model and the start are those of :func:`~quality.mace`.

    Parameters
    ----------
    labels, max_iter, tol, competence_prior, strategy_prior, gold, groups, progress
        As for that function, errors included.

    Returns
    -------
    NamedConsensus
        Its `skill` is the competence.

    Notes
    -----
    **Guarantees.** The posterior, the competence and the log-likelihood are those of
    :func:`~quality.mace`, up to rounding. The same bytes on every run.

    **Cost.** O(labels + classes) time and memory for an iteration.
    """
    check_em(max_iter, tol, None)
    for name, value in (("competence", competence_prior), ("strategy", strategy_prior)):
        if not 0 < value < np.inf:
            raise ValueError(f"{name}_prior must be > 0 and finite, got {name}_prior={value}")
    tell = counter(progress, "MACE", max_iter)
    labels = labels.merge_workers(groups)
    n_classes, n_workers = labels.n_classes, labels.n_workers
    known = check_gold(gold, labels.n_tasks, n_classes).astype(np.int64)
    named, labelled = name_classes(labels, known), np.diff(labels.task_start) > 0
    truth, prior = _entries_of(named, known), np.full(n_classes, 1.0 / max(n_classes, 1))
    habit = _Habits.of(labels, competence_prior, strategy_prior)
    belief, stop = _first_belief(named, truth, known), Stop()
    while stop.n_iter < max_iter and not stop.converged:
        habit.learn(belief.p[named.entry])
        log_guessed, log_given = habit.log_chances()
        log_odds = log_given - log_guessed
        log_p = np.bincount(named.entry, log_odds, len(named.code))
        belief, log_likelihood = _bayes(named, prior, log_p, truth, known)
        settled = float(log_likelihood[labelled].sum() + log_guessed.sum())
        stop = stop.after(settled, tol, labels.n_labels)
        tell(stop.n_iter)
    n_known = np.bincount(labels.worker, habit.known(belief.p[named.entry]), n_workers)
    n_labels = np.bincount(labels.worker, minlength=n_workers)
    competence = (n_known + competence_prior) / (n_labels + 2.0 * competence_prior)
    return as_consensus(
        NamedPosterior(named, belief.p, belief.rest, prior), skill=of_voters(competence, groups),
        log_likelihood=stop.objective, n_iter=stop.n_iter, converged=stop.converged,
    )  # fmt: skip


class _Habits:
    """MACE's parameters of the workers: knowledge, guessing, and the habit of each class that she gave."""

    def __init__(
        self, worker: np.ndarray, cell: np.ndarray, owner: np.ndarray, n_labels: np.ndarray,
        n_classes: int, competence: float, strategy: float,
    ) -> None:  # fmt: skip
        self.worker, self.cell, self.owner, self.n_labels = worker, cell, owner, n_labels
        self.n_classes, self.competence, self.strategy = n_classes, competence, strategy
        self.know, self.guess = np.full(len(n_labels), 0.5), np.full(len(n_labels), 0.5)
        self.habit = np.full(len(owner), 1.0 / max(n_classes, 1))

    @classmethod
    def of(cls, labels: CrowdLabels, competence: float, strategy: float) -> "_Habits":
        """Return the habits of a table's workers under the priors alone."""
        given = labels.worker.astype(np.int64) * labels.n_classes + labels.label
        cells, cell = np.unique(given, return_inverse=True)
        n_labels = np.bincount(labels.worker, minlength=labels.n_workers).astype(np.float64)
        owner = cells // max(labels.n_classes, 1)
        about = n_labels, labels.n_classes, competence, strategy
        return cls(labels.worker, cell, owner, *about)

    def chance(self) -> Float64[np.ndarray, " labels"]:
        """Return the probability that each label was guessed."""
        guessed: np.ndarray = self.guess[self.worker] * self.habit[self.cell]
        return guessed

    def log_chances(self) -> tuple[Float64[np.ndarray, " labels"], Float64[np.ndarray, " labels"]]:
        """Return the log probability that each label was guessed, and its log likelihood if it is right.

        In logarithms, because the probability of a guess may be smaller than any double.
        """
        log_guessed = np.log(self.guess)[self.worker] + np.log(self.habit)[self.cell]
        return log_guessed, np.logaddexp(np.log(self.know)[self.worker], log_guessed)

    def known(self, p: Float64[np.ndarray, " labels"]) -> Float64[np.ndarray, " labels"]:
        """Return the probability that each label came from knowledge."""
        know = self.know[self.worker]
        found: np.ndarray = p * (know / (know + self.chance()))
        return found

    def learn(self, p: Float64[np.ndarray, " labels"]) -> None:
        """Take the M step of MACE, given each label's probability of being right."""
        known, n_workers, n_cells = self.known(p), len(self.n_labels), len(self.owner)
        n_known = np.bincount(self.worker, known, n_workers)
        guessed = np.bincount(self.cell, 1.0 - known, n_cells)
        n_guessed = np.bincount(self.owner, guessed, n_workers)
        total = _exp_digammas(self.n_labels + 2.0 * self.competence)
        self.know = _exp_digammas(n_known + self.competence) / total
        self.guess = _exp_digammas(n_guessed + self.competence) / total
        whole = _exp_digammas(n_guessed + self.n_classes * self.strategy)
        self.habit = _exp_digammas(guessed + self.strategy) / whole[self.owner]


def _exp_digammas(x: Float64[np.ndarray, " some"]) -> Float64[np.ndarray, " some"]:
    found = np.array(x, dtype=np.float64)
    exp_digammas(found, False)
    return found


def _entries_of(
    named: NamedClasses, known: Int64[np.ndarray, " tasks"]
) -> Int64[np.ndarray, " tasks"]:
    """Return the entry of each task's known truth, -1 if it is unknown."""
    tasks = np.flatnonzero(known >= 0)
    truth = np.full(len(known), -1)
    truth[tasks] = named.find(tasks, known[tasks])
    return truth


def _first_belief(named: NamedClasses, truth: np.ndarray, known: np.ndarray) -> _Beliefs:
    """Return the soft majority vote, gold clamped."""
    n_votes = named.sums(named.votes)[named.task]
    p = np.divide(named.votes, n_votes, out=np.zeros(len(n_votes)), where=n_votes > 0)
    certain = known[named.task] >= 0
    p[certain] = 0.0
    p[truth[truth >= 0]] = 1.0
    return _Beliefs(p, 1.0 - p, np.zeros(len(known)))


def _class_mass(
    named: NamedClasses,
    belief: _Beliefs,
    base: Float64[np.ndarray, " classes"],
    labelled: np.ndarray,
) -> Float64[np.ndarray, " classes"]:
    """Return the mean posterior of the tasks that have labels; uniform if none has.

    `base` is the prior by which the belief in classes without an entry is divided among them.
    """
    n_classes = named.n_classes
    if not labelled.any():
        return np.full(n_classes, 1.0 / max(n_classes, 1))
    here = labelled[named.task]
    mass = np.bincount(named.code[here], belief.p[here], n_classes)
    room = np.maximum(1.0 - named.sums(base[named.code]), 0.0)
    unit = np.divide(belief.rest, room, out=np.zeros(len(room)), where=room > 0)
    unit[~labelled] = 0.0
    inside = np.bincount(named.code, unit[named.task], n_classes)
    mass = mass + base * np.maximum(unit.sum() - inside, 0.0)
    prior: np.ndarray = mass / mass.sum()
    return prior


def _bayes(
    named: NamedClasses, prior: np.ndarray, log_p: np.ndarray, truth: np.ndarray, known: np.ndarray
) -> tuple[_Beliefs, Float64[np.ndarray, " tasks"]]:
    """Apply Bayes' rule; return the belief and each task's log-likelihood over that of all labels wrong."""
    p, others = np.empty(len(log_p)), np.empty(len(log_p))
    rest, log_likelihood = np.zeros(len(known)), np.zeros(len(known))
    of_named = prior[named.code]
    whole = np.diff(named.start) == named.n_classes  # every class has an entry
    room = np.where(whole, 0.0, np.maximum(1.0 - named.sums(of_named), 0.0))
    _write_bayes(named.start, of_named, room, log_p, truth, p, others, rest, log_likelihood)
    return _Beliefs(p, others, rest), log_likelihood


@kernel
def _write_bayes(start, prior, room, log_p, truth, p, others, rest, log_likelihood) -> None:
    """Write the belief in each entry, and in all classes without one; a known truth is certain."""
    for task in range(len(room)):
        low, high = start[task], start[task + 1]
        if truth[task] >= 0:
            for entry in range(low, high):
                p[entry] = 1.0 if entry == truth[task] else 0.0
                others[entry] = 1.0 - p[entry]
            chance = max(prior[truth[task]], 1e-300)
            log_likelihood[task] = np.log(chance) + log_p[truth[task]]
            continue
        largest = np.log(room[task]) if room[task] > 0.0 else -np.inf
        for entry in range(low, high):
            p[entry] = -np.inf if prior[entry] == 0.0 else np.log(prior[entry]) + log_p[entry]
            largest = max(largest, p[entry])
        left = np.exp(np.log(room[task]) - largest) if room[task] > 0.0 else 0.0
        total = left
        for entry in range(low, high):
            p[entry] = np.exp(p[entry] - largest)
            total += p[entry]
        # the others are summed, not subtracted, so that nearly certain beliefs keep their digits
        before = left
        for entry in range(low, high):
            others[entry] = before
            before += p[entry]
        after = 0.0
        for place in range(high - low):
            entry = high - 1 - place
            others[entry] = (others[entry] + after) / total
            after += p[entry]
        for entry in range(low, high):
            p[entry] /= total
        rest[task] = left / total
        log_likelihood[task] = largest + np.log(total)
