"""EBCC: each class has kinds of tasks, on which workers err together; by variational EM.

>>> from quality import encode
>>> labels = encode(["ann", "bob", "cy"] * 4, np.repeat(range(4), 3), list("aabbbbaaabbb"))
>>> labels.classes[ebcc(labels, rng=np.random.default_rng(0)).label]
array(['a', 'b', 'a', 'b'], dtype='<U1')

Dawid–Skene takes workers' labels as independent given the class. Where some tasks of a class mislead
everybody, labels are correlated within it; here a class is a mixture of subtypes, each with a
confusion row of its own for every worker, and labels are independent given the subtype. A subtype is
a truth to the EM of :mod:`quality.aggregation.em`; the posterior of a class is the sum over its own.
"""

from dataclasses import dataclass, replace
from operator import attrgetter

import numpy as np
from jaxtyping import Bool, Float64, Int, Int16, Int64
from scipy.sparse import csr_array
from scipy.special import digamma, gammaln

from quality.aggregation.consensus import Result, decide
from quality.aggregation.em import (
    EMFit,
    Stop,
    TablePasses,
    fit_em,
    passes_over,
    reporting,
)
from quality.aggregation.majority import majority_vote
from quality.aggregation.passes import check_cells, check_em
from quality.argument_types import check_arguments
from quality.labels import CrowdLabels
from quality.parallel import Progress, kernel

__all__ = ["Ebcc", "ebcc"]

CLASS_PRIOR, SUBTYPES_PRIOR = 1.0, 0.1  # the paper's: of each class, and of all subtypes of one
STAGE = 5  # iterations after which empty subtypes are put away
SERIES = (  # of exp(digamma(x)) / (x - 1/2), in 1 / (x - 1/2)**2, the last first
    -499769010050743 / 24103053950976000, 2709398569 / 367873228800, -5509121 / 1393459200,
    10313 / 2903040, -37 / 5760, 1 / 24, 1.0,
)  # fmt: skip
EMPTY = 1e-9  # expected tasks; the prior keeps such a subtype from coming back by exp(-100)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Ebcc(Result):
    """Result of :func:`ebcc`.

    Parameters
    ----------
    posterior
        P(truth | labels); the prior where a task has no labels.
    label, tied
        As in :class:`~quality.Consensus`.
    subtype
        Share of the tasks that each subtype of each class has, as ``subtype[truth, subtype]``; adds
        up to 1.
    evidence
        Lower bound of the log-probability of the labels, in nats, of the start that was kept.
    n_iter, converged
        Iterations made from that start, and whether the log-likelihood had settled by then.
    """

    posterior: Float64[np.ndarray, "tasks classes"]
    label: Int16[np.ndarray, " tasks"]
    tied: Bool[np.ndarray, " tasks"]
    subtype: Float64[np.ndarray, "classes subtypes"]
    evidence: float
    n_iter: int
    converged: bool


@check_arguments
def ebcc(
    labels: CrowdLabels,
    *,
    max_iter: int = 100,
    tol: float = 1e-5,
    n_subtypes: int = 10,
    n_starts: int = 5,
    right_prior: float = 4.0,
    wrong_prior: float = 1.0,
    groups: Int[np.ndarray, " workers"] | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
    rng: np.random.Generator,
) -> Ebcc:
    """Estimate the truth where workers' errors are correlated within a class.

    Variational EM from the soft majority vote, dealt out at random to the subtypes of each class. Of
    several starts the one with the highest evidence is kept.

    Parameters
    ----------
    labels
        The crowd's labels.
    max_iter, groups, threads, progress
        As for :func:`~quality.dawid_skene`, errors included.
    tol
        Stop when the log-likelihood per label changes by no more than this (nats), at least 0.
    n_subtypes
        Subtypes of each class at most, at least 1: those that the labels do not ask for stay empty.
    n_starts
        Random starts, at least 1.
    right_prior, wrong_prior
        Right labels, and labels of each wrong class, that a worker is taken to have given beforehand
        in each subtype, above 0.
    rng
        Source of the starts.

    Raises
    ------
    ValueError
        If a parameter is out of its range.

    Notes
    -----
    **Guarantees.** One subtype is Dawid–Skene with Dirichlet priors. A subtype that has less than a
    billionth of a task stays empty. The same generator gives the same bytes, on any number of threads.

    **Limits.** The draws belong to tasks in the order of their codes, so renaming tasks may lead to
    another of several optima.

    **Cost.** That of :func:`~quality.dawid_skene` with ``classes * subtypes`` truths, in time and in
    memory, and the digamma function of as many numbers as its table has; after a dozen iterations most
    subtypes are empty and cost nothing.

    References
    ----------
    .. [1] Li, Rubinstein, Cohn, "Exploiting worker correlation for label aggregation in
       crowdsourcing", ICML 2019.

    Examples
    --------
    >>> from quality import encode
    >>> workers, tasks = ["ann", "bob", "cy"] * 4, [1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4]
    >>> labels = encode(workers, tasks, list("aabbbbaabbbb"))
    >>> labels.classes[ebcc(labels, rng=np.random.default_rng(0)).label]
    array(['a', 'b', 'a', 'b'], dtype='<U1')
    """
    check_em(max_iter, tol, threads)
    for name, count in (("n_subtypes", n_subtypes), ("n_starts", n_starts)):
        if not count >= 1:
            raise ValueError(f"{name} must be >= 1, got {name}={count}")
    for name, value in (("right_prior", right_prior), ("wrong_prior", wrong_prior)):
        if not 0 < value < np.inf:
            raise ValueError(f"{name} must be > 0 and finite, got {name}={value}")
    labels = labels.merge_workers(groups)
    check_cells(labels.n_workers, labels.n_classes, labels.n_classes * n_subtypes)
    share = majority_vote(labels).posterior
    labelled = np.flatnonzero(np.diff(labels.task_start))
    every = _Model.of(labels.n_classes, n_subtypes, right_prior, wrong_prior)

    def fitted(number: int) -> _Start:
        """Fit from one random start."""
        dealt = np.zeros((*share.shape, n_subtypes))
        dealt[labelled] = rng.dirichlet(np.ones(n_subtypes), (len(labelled), labels.n_classes))
        dealt *= share[:, :, np.newaxis]
        model, stop = every, Stop()
        counts, mass = _expected(labels, dealt.reshape(labels.n_tasks, -1))
        while True:
            with passes_over(labels, None, threads, n_truths=mass.size) as passes:
                fit = fit_em(
                    passes, model.table, counts, mass, max_iter=min(stop.n_iter + STAGE, max_iter), tol=tol,
                    prior_step=model.prior, stop=stop,
                    after=reporting(progress, "EBCC", n_starts * max_iter, before=number * max_iter),
                )  # fmt: skip
                if fit.converged or fit.n_iter == max_iter:
                    return _Start.of(fit, model, passes)
            stop = Stop(fit.log_likelihood, fit.n_iter, fit.converged)
            alive = fit.mass > EMPTY
            alive[np.argmax(fit.mass)] = True  # of a table without labels
            model, counts, mass = model.only(alive), fit.counts[:, :, alive], fit.mass[alive]

    best = max(map(fitted, range(n_starts)), key=attrgetter("evidence"))
    label, tied = decide(best.posterior)
    total = best.subtype.sum()
    even = np.full(best.subtype.shape, 1.0 / best.subtype.size)
    subtype = best.subtype / total if total else even
    return Ebcc(
        best.posterior, label, tied, subtype, best.evidence, best.fit.n_iter, best.fit.converged
    )


def _expected(
    labels: CrowdLabels, belief: Float64[np.ndarray, "tasks truths"]
) -> tuple[Float64[np.ndarray, "workers answers truths"], Float64[np.ndarray, " truths"]]:
    """Return expected counts and class mass under a belief about every task."""
    answer = labels.worker.astype(np.int64) * labels.n_classes + labels.label
    size = labels.n_workers * labels.n_classes
    given = csr_array((np.ones(labels.n_labels), (answer, labels.task)), shape=(size, len(belief)))
    counts = (given @ belief).reshape(labels.n_workers, labels.n_classes, belief.shape[1])
    return counts, belief.sum(axis=0)


@dataclass(frozen=True, slots=True, eq=False)
class _Model:
    """The Dirichlet priors: of the classes, of the subtypes of each, and of each worker's rows.

    `truth` lists the subtypes that are left, by class * subtypes + subtype; `pseudo` is what expected
    counts are added to, a row for each answer and a column for each of them.
    """

    n_classes: int
    n_subtypes: int
    truth: Int64[np.ndarray, " truths"]
    pseudo: Float64[np.ndarray, "answers truths"]

    @classmethod
    def of(cls, n_classes: int, n_subtypes: int, right: float, wrong: float) -> "_Model":
        """All subtypes of all classes."""
        same = np.repeat(np.eye(n_classes, dtype=np.bool_), n_subtypes, axis=1)
        truth = np.arange(n_classes * n_subtypes)
        return cls(n_classes, n_subtypes, truth, np.where(same, right, wrong))

    def only(self, alive: Bool[np.ndarray, " truths"]) -> "_Model":
        """Return the model without the other subtypes."""
        pseudo = np.ascontiguousarray(self.pseudo[:, alive])
        return replace(self, truth=self.truth[alive], pseudo=pseudo)

    def by_class(
        self, of_truth: Float64[np.ndarray, "... truths"]
    ) -> Float64[np.ndarray, "... classes subtypes"]:
        """Return numbers of the subtypes in their places; 0 for those that are no longer there."""
        whole = np.zeros((*of_truth.shape[:-1], self.n_classes * self.n_subtypes))
        whole[..., self.truth] = of_truth
        placed: np.ndarray = whole.reshape(*of_truth.shape[:-1], self.n_classes, self.n_subtypes)
        return placed

    def prior(self, mass: Float64[np.ndarray, " truths"]) -> Float64[np.ndarray, " truths"]:
        """Return the weight of each subtype, equations 7 and 8 of the paper."""
        subtype = self.by_class(mass)
        log_class = _expected_log(subtype.sum(axis=1) + CLASS_PRIOR, axis=0)
        log_subtype = _expected_log(subtype + SUBTYPES_PRIOR / self.n_subtypes, axis=1)
        weight: np.ndarray = np.exp(log_class[:, np.newaxis] + log_subtype).reshape(-1)
        left: np.ndarray = weight[self.truth]
        return left

    def table(
        self, counts: Float64[np.ndarray, "workers answers truths"]
    ) -> Float64[np.ndarray, "workers answers truths"]:
        """Return the weight of each label of each worker given the truth."""
        table: np.ndarray = dirichlet_weights(np.ascontiguousarray(counts), self.pseudo)
        return table

    def divergence(self, fit: EMFit) -> float:
        """Return what the labels have moved the parameters from their priors, in nats."""
        subtype = self.by_class(fit.mass)
        subtypes = np.array(SUBTYPES_PRIOR / self.n_subtypes)
        return (
            _divergence(subtype.sum(axis=1), np.array(CLASS_PRIOR), axis=0)
            + _divergence(subtype, subtypes, axis=1)
            + _divergence(fit.counts, self.pseudo, axis=1)
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Start:
    """What one random start led to; `subtype` is the mass of each subtype of each class."""

    evidence: float
    fit: EMFit
    posterior: Float64[np.ndarray, "tasks classes"]
    subtype: Float64[np.ndarray, "classes subtypes"]

    @classmethod
    def of(cls, fit: EMFit, model: _Model, passes: TablePasses) -> "_Start":
        prior, table, subtype = (
            model.prior(fit.mass),
            model.table(fit.counts),
            model.by_class(fit.mass),
        )
        moved = model.divergence(fit)  # first: a pass writes its counts where the last one did
        evidence = float(passes.e_step(prior, table)[2][0]) - moved
        posterior = model.by_class(passes.posterior(prior, table)).sum(axis=2)
        posterior /= posterior.sum(axis=1, keepdims=True)
        return cls(evidence, fit, posterior, subtype)


@kernel
def dirichlet_weights(
    counts: Float64[np.ndarray, "workers answers truths"],
    pseudo: Float64[np.ndarray, "answers truths"],
) -> Float64[np.ndarray, "workers answers truths"]:
    """Return exp E[log p] of columns p that are Dirichlet with `pseudo` and these counts."""
    n_workers, n_answers, n_truths = counts.shape
    weight, total = np.empty(counts.shape), np.empty(n_truths)
    for worker in range(n_workers):
        total[:] = 0.0
        for answer in range(n_answers):
            for truth in range(n_truths):
                total[truth] += counts[worker, answer, truth] + pseudo[answer, truth]
        for truth in range(n_truths):
            total[truth] = 1.0 / exp_digamma(total[truth])
        for answer in range(n_answers):
            for truth in range(n_truths):
                shape = counts[worker, answer, truth] + pseudo[answer, truth]
                weight[worker, answer, truth] = exp_digamma(shape) * total[truth]
    return weight


@kernel
def exp_digamma(x: float) -> float:
    """Return exp(digamma(x)) of x > 0: by ten steps of the recurrence below 10, and a series in x - 1/2.

    The fractions 1 / (x + i) of the steps are put together in pairs, whose denominators are
    e + i (9 - i) with e = x (x + 9).
    """
    before = 0.0
    if x < 10.0:
        ends = x * (x + 9.0)
        below = ((((ends + 60.0) * ends + 1308.0) * ends + 12176.0) * ends + 40320.0) * ends
        slope = (((5.0 * ends + 240.0) * ends + 3924.0) * ends + 24352.0) * ends + 40320.0
        before = (2.0 * x + 9.0) * slope / below
        x += 10.0
    half = x - 0.5
    y, series = 1.0 / (half * half), 0.0
    for coefficient in SERIES:
        series = series * y + coefficient
    series *= half
    return series * np.exp(-before) if before else series


def _expected_log(pseudo: np.ndarray, axis: int) -> np.ndarray:
    """Return the expected logarithm of probabilities that are Dirichlet along an axis."""
    logarithm: np.ndarray = digamma(pseudo) - digamma(pseudo.sum(axis=axis, keepdims=True))
    return logarithm


def _divergence(counts: np.ndarray, pseudo: np.ndarray, axis: int) -> float:
    """Return the sum of Kullback–Leibler divergences of Dirichlet posteriors from their priors."""
    prior = np.broadcast_to(pseudo, counts.shape)
    after = counts + prior
    moved = (counts * _expected_log(after, axis) - gammaln(after) + gammaln(prior)).sum(axis=axis)
    total = gammaln(after.sum(axis=axis)) - gammaln(prior.sum(axis=axis))
    return float((moved + total).sum())
