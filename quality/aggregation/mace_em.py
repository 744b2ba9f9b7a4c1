"""MACE: a worker knows the truth with her own probability, or else follows her own habit.

>>> from quality import encode
>>> labels = encode(["ann", "bob", "cy"] * 2, [1, 1, 1, 2, 2, 2], list("aabbba"))
>>> labels.classes[mace(labels).label]
array(['a', 'b'], dtype='<U1')

A label is the truth with probability `competence`, and otherwise drawn from the worker's `strategy`, which
does not depend on the task. So P(label | truth) of a worker takes as many numbers as there are classes,
where Dawid–Skene takes their square. EM is that of :mod:`quality.aggregation.em`. The M step splits the
labels that agree with the truth between knowledge and habit, by its own earlier parameters, so that it
keeps these from one iteration to the next.
"""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float64, Int, Int16

from quality.aggregation.consensus import Result, decide
from quality.aggregation.em import EMFit, MStep, fit_table, uniform
from quality.aggregation.hierarchical_em import TableRoom
from quality.aggregation.passes import STRIP, UNROLLED, coins_pay, exp_digamma, exp_digammas
from quality.argument_types import check_arguments
from quality.labels import CrowdLabels, bring_near, of_voters
from quality.parallel import Progress, kernel

__all__ = ["Mace", "know_or_guess", "mace", "mace_coins", "mace_result"]

COMPETENCE_PRIOR = 0.5  # pseudo-counts of labels that a worker knows, and as many that she does not
STRATEGY_PRIOR = 10.0  # pseudo-counts of labels of each class by habit


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Mace(Result):
    """Result of :func:`mace`.

    Parameters
    ----------
    posterior
        P(truth | labels); uniform where a task has no labels, certain where it has gold.
    label, tied
        As in :class:`~quality.Consensus`.
    competence
        Share of each worker's labels that come from knowledge, the mean of its posterior; the prior's mean
        for a worker without labels.
    strategy
        P(label) of each worker if she does not know, as ``strategy[worker, label]``, likewise.
    log_likelihood, n_iter, converged
        As in :class:`~quality.aggregation.EMFit`; the likelihood is that of the variational weights.
    """

    posterior: Float64[np.ndarray, "tasks classes"]
    label: Int16[np.ndarray, " tasks"]
    tied: Bool[np.ndarray, " tasks"]
    competence: Float64[np.ndarray, " workers"]
    strategy: Float64[np.ndarray, "workers classes"]
    log_likelihood: float
    n_iter: int
    converged: bool


@check_arguments
def mace(
    labels: CrowdLabels,
    *,
    max_iter: int = 100,
    tol: float = 1e-6,
    competence_prior: float = COMPETENCE_PRIOR,
    strategy_prior: float = STRATEGY_PRIOR,
    gold: Int[np.ndarray, " tasks"] | None = None,
    groups: Int[np.ndarray, " workers"] | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Mace:
    """Estimate the truth, every worker's competence, and her strategy if she does not know.

    The prior is uniform over classes. Variational EM starts from the soft majority vote, with a Beta prior
    for every competence and a Dirichlet prior for every strategy.

    Parameters
    ----------
    labels
        The crowd's labels.
    max_iter, gold, groups, threads, progress
        As for :func:`~quality.dawid_skene`, errors included.
    tol
        Stop when the log-likelihood per label changes by no more than this (nats), at least 0.
    competence_prior
        Pseudo-counts of labels that a worker knows, and of labels that she does not, above 0.
    strategy_prior
        Pseudo-counts of labels of each class by habit, above 0.

    Notes
    -----
    **Guarantees.** The posterior of a task with gold is certain. A worker without labels has the
    mean of the priors. The result is the same bytes on every run, on any number of threads.

    **Cost.** That of :func:`~quality.dawid_skene`, and the digamma function of workers * classes
    numbers per iteration.

    References
    ----------
    .. [1] Hovy, Berg-Kirkpatrick, Vaswani, Hovy, "Learning whom to trust with MACE", NAACL-HLT
       2013.

    Examples
    --------
    >>> from quality import encode
    >>> workers, tasks = ["ann", "bob", "cy"] * 4, [1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4]
    >>> result = mace(encode(workers, tasks, list("aabbbbaabbbb")))
    >>> result.label
    array([0, 1, 0, 1], dtype=int16)
    >>> bool(result.competence[0] > result.competence[2])  # cy says "b" whatever the truth
    True
    """
    for name, value in (("competence", competence_prior), ("strategy", strategy_prior)):
        if not 0 < value < np.inf:
            raise ValueError(f"{name}_prior must be > 0 and finite, got {name}_prior={value}")
    near, coins = bring_near(labels.merge_workers(groups)), mace_coins(labels.n_classes)
    m_step = _KnowOrGuess(labels.n_workers, labels.n_classes, competence_prior, strategy_prior)
    fit, posterior = fit_table(
        near, m_step, "MACE", max_iter=max_iter, tol=tol, prior_step=uniform, gold=gold,
        coins=coins, threads=threads, progress=progress,
    )  # fmt: skip
    fit = replace(fit, table=near.by_worker(fit.table), counts=near.by_worker(fit.counts))
    return mace_result(
        fit, posterior, groups, competence_prior=competence_prior, strategy_prior=strategy_prior
    )


def mace_result(
    fit: EMFit,
    posterior: Float64[np.ndarray, "tasks classes"],
    groups: Int[np.ndarray, " voters"] | None,
    *,
    competence_prior: float = COMPETENCE_PRIOR,
    strategy_prior: float = STRATEGY_PRIOR,
) -> Mace:
    """Return the result of a fit; a member of a group has the group's parameters."""
    label, tied = decide(posterior)
    known, guessed = _split(fit)
    competence = _mean(np.column_stack([known, guessed.sum(axis=1)]) + competence_prior)[:, 0]
    strategy = _mean(guessed + strategy_prior)
    return Mace(
        posterior, label, tied, of_voters(competence.copy(), groups), of_voters(strategy, groups),
        fit.log_likelihood, fit.n_iter, fit.converged,
    )  # fmt: skip


def mace_coins(n_classes: int) -> int | None:
    """Return the number of coins of each worker, one for each class, or None if she has a matrix."""
    return n_classes if coins_pay(n_classes) else None


def know_or_guess(n_workers: int, n_classes: int) -> MStep:
    """Return the M step of :func:`mace` with its own priors."""
    return _KnowOrGuess(n_workers, n_classes, COMPETENCE_PRIOR, STRATEGY_PRIOR)


def _split(
    fit: EMFit,
) -> tuple[Float64[np.ndarray, " workers"], Float64[np.ndarray, "workers answers"]]:
    """Return the expected labels that a worker knew, and those of each class that she guessed.

    A wrong answer was guessed: so a row of the table gives the probability that a right answer was guessed.
    """
    if fit.table.shape[1] == 2 * len(fit.prior):
        right, given = fit.counts[:, ::2, 0], fit.counts[:, ::2, 0] + fit.counts[:, 1::2, 0]
        agreed, habit = fit.table[:, ::2, 0], fit.table[:, 1::2, 0]
    else:
        right, given = np.diagonal(fit.counts, axis1=1, axis2=2), fit.counts.sum(axis=2)
        agreed = np.diagonal(fit.table, axis1=1, axis2=2)
        # of one class an answer is as often guessed as known, whatever the labels
        several = fit.table.shape[2] > 1
        habit = fit.table[:, :, :2].min(axis=2) if several else agreed / 2.0
    known = right * (1.0 - habit / agreed)
    return known.sum(axis=1), given - known


class _KnowOrGuess:
    """The M step: P(label | truth) of each worker from expected counts, and from her earlier parameters."""

    def __init__(self, n_workers: int, n_classes: int, competence: float, strategy: float) -> None:
        self.competence_prior, self.strategy_prior = competence, strategy
        self.know, self.guess = np.full(n_workers, 0.5), np.full(n_workers, 0.5)
        self.strategy = np.full((n_workers, n_classes), 1.0 / n_classes)
        self.room = TableRoom()

    def __call__(
        self, counts: Float64[np.ndarray, "workers answers truths"]
    ) -> Float64[np.ndarray, "workers answers truths"]:
        table = self.room.like(counts)
        priors = self.competence_prior, self.strategy_prior
        _know_or_guess(counts, *priors, self.know, self.guess, self.strategy, table)
        return table


@kernel
def _know_or_guess(counts, competence_prior, strategy_prior, know, guess, strategy, table) -> None:
    """Write the M step: new parameters in place, computed from the old ones, and the table.

    A parameter is the exponential of the expected logarithm of a probability with a Dirichlet law. The
    numbers of `STRIP` workers are processed together, for instructions that take several at once.
    """
    n_workers, n_classes = strategy.shape
    few = n_classes <= UNROLLED  # superfluous work is faster than a branch that is hard to predict
    of_classes, absent = n_classes * strategy_prior, exp_digamma(strategy_prior)
    before = strategy_prior if few else 0.0
    of_competence, of_strategy = np.empty(STRIP), np.empty(STRIP)
    for first in range(0, n_workers, STRIP):
        last = min(first + STRIP, n_workers)
        for worker in range(first, last):
            n_known, n_guessed = _split_labels(
                counts[worker], know[worker], guess[worker], few, before, strategy[worker]
            )
            know[worker], guess[worker] = n_known + competence_prior, n_guessed + competence_prior
            of_competence[worker - first] = n_known + n_guessed + 2.0 * competence_prior
            of_strategy[worker - first] = n_guessed + of_classes
        exp_digammas(know[first:last], competence_prior >= 1.0)
        exp_digammas(guess[first:last], competence_prior >= 1.0)
        exp_digammas(of_competence[: last - first], competence_prior >= 0.5)
        exp_digammas(of_strategy[: last - first], of_classes >= 1.0)
        if few:
            exp_digammas(strategy[first:last].reshape(-1), strategy_prior >= 1.0)
        for worker in range(first, last):
            know[worker] /= of_competence[worker - first]
            guess[worker] /= of_competence[worker - first]
            share = 1.0 / of_strategy[worker - first]
            for answer in range(n_classes):
                habit = strategy[worker, answer]
                if not few:
                    habit = exp_digamma(habit + strategy_prior) if habit != 0.0 else absent
                strategy[worker, answer] = habit * share
            _write_chances(know[worker], guess[worker], strategy[worker], table[worker])


@kernel(forceinline=True)
def _split_labels(counts, know, guess, few, before, strategy) -> tuple[float, float]:
    """Return the labels that a worker knew and guessed; write the guessed ones of each class, and `before`.

    `strategy` is hers before this step.
    """
    n_classes, n_known, n_guessed = len(strategy), 0.0, 0.0
    for answer in range(n_classes):
        habit, given = guess * strategy[answer], 0.0
        if len(counts) == 2 * n_classes:  # coins
            known = counts[2 * answer, 0]
            given = known + counts[2 * answer + 1, 0]
        else:
            known = counts[answer, answer]
            for truth in range(n_classes):
                given += counts[answer, truth]
        if few or known != 0.0:  # most workers give few of many classes
            known *= know / (know + habit)
        n_known += known
        n_guessed += given - known
        strategy[answer] = given - known + before
    return n_known, n_guessed


@kernel(forceinline=True)
def _write_chances(know, guess, strategy, table) -> None:
    """Write P(label | truth) of a worker, into a matrix or into coins."""
    n_classes = len(strategy)
    for answer in range(n_classes):
        habit = guess * strategy[answer]
        if len(table) == 2 * n_classes:
            table[2 * answer, 0] = habit + know
            table[2 * answer + 1, 0] = habit
            continue
        for truth in range(n_classes):
            table[answer, truth] = habit
        table[answer, answer] += know


def _mean(pseudo: Float64[np.ndarray, "workers kinds"]) -> Float64[np.ndarray, "workers kinds"]:
    """Return the mean of probabilities with a Dirichlet law."""
    mean: np.ndarray = pseudo / pseudo.sum(axis=1, keepdims=True)
    return mean
