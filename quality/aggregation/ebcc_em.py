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

from dataclasses import dataclass
from operator import itemgetter

import numpy as np
from jaxtyping import Bool, Float64, Int, Int16
from scipy.sparse import csr_array
from scipy.special import digamma, gammaln

from quality.aggregation.consensus import Result, decide
from quality.aggregation.em import EMFit, check_em, fit_em, passes_over, reporting
from quality.aggregation.majority import majority_vote
from quality.labels import CrowdLabels
from quality.parallel import Progress

__all__ = ["Ebcc", "ebcc"]


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
    **Guarantees.** One subtype is Dawid–Skene with Dirichlet priors. The same generator gives the
    same bytes, on any number of threads.

    **Limits.** The draws belong to tasks in the order of their codes, so renaming tasks may lead to
    another of several optima.

    **Cost.** That of :func:`~quality.dawid_skene` with ``classes * subtypes`` truths, in time and in
    memory, and the digamma function of as many numbers as its table has.

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
    model = _Model.of(labels.n_classes, n_subtypes, right_prior, wrong_prior)
    share = majority_vote(labels).posterior
    labelled = np.flatnonzero(np.diff(labels.task_start))
    with passes_over(labels, None, threads, subtypes=n_subtypes) as passes:

        def fitted(number: int) -> tuple[float, EMFit, np.ndarray, np.ndarray]:
            """Evidence, fit, prior and table from one random start."""
            dealt = np.zeros((*share.shape, n_subtypes))
            dealt[labelled] = rng.dirichlet(np.ones(n_subtypes), (len(labelled), labels.n_classes))
            dealt *= share[:, :, np.newaxis]
            fit = fit_em(
                passes, model.table, *_expected(labels, dealt.reshape(labels.n_tasks, -1)),
                max_iter=max_iter, tol=tol, prior_step=model.prior,
                after=reporting(progress, "EBCC", n_starts * max_iter, before=number * max_iter),
            )  # fmt: skip
            prior, table = model.prior(fit.mass), model.table(fit.counts)
            moved = model.divergence(fit)  # first: a pass writes its counts where the last one did
            return float(passes.e_step(prior, table)[2][0]) - moved, fit, prior, table

        evidence, fit, prior, table = max(map(fitted, range(n_starts)), key=itemgetter(0))
        belief = passes.posterior(prior, table)
    posterior = belief.reshape(labels.n_tasks, labels.n_classes, n_subtypes).sum(axis=2)
    posterior /= posterior.sum(axis=1, keepdims=True)
    label, tied = decide(posterior)
    subtype = fit.mass.reshape(labels.n_classes, n_subtypes)
    total = subtype.sum()
    subtype = subtype / total if total else np.full(subtype.shape, 1.0 / subtype.size)
    return Ebcc(posterior, label, tied, subtype, evidence, fit.n_iter, fit.converged)


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

    `pseudo` is what expected counts are added to, a row for each answer and a column for each truth.
    """

    n_classes: int
    classes: float
    subtypes: float
    pseudo: Float64[np.ndarray, "answers truths"]

    @classmethod
    def of(cls, n_classes: int, n_subtypes: int, right: float, wrong: float) -> "_Model":
        """The priors of the paper: 1 for each class, a tenth for all subtypes of a class."""
        same = np.repeat(np.eye(n_classes, dtype=np.bool_), n_subtypes, axis=1)
        return cls(n_classes, 1.0, 0.1 / n_subtypes, np.where(same, right, wrong))

    def prior(self, mass: Float64[np.ndarray, " truths"]) -> Float64[np.ndarray, " truths"]:
        """Return the weight of each subtype, equations 7 and 8 of the paper."""
        subtype = mass.reshape(self.n_classes, -1)
        log_class = _expected_log(subtype.sum(axis=1) + self.classes, axis=0)
        log_subtype = _expected_log(subtype + self.subtypes, axis=1)
        weight: np.ndarray = np.exp(log_class[:, np.newaxis] + log_subtype).reshape(-1)
        return weight

    def table(
        self, counts: Float64[np.ndarray, "workers answers truths"]
    ) -> Float64[np.ndarray, "workers answers truths"]:
        """Return the weight of each label of each worker given the truth."""
        table: np.ndarray = np.exp(_expected_log(counts + self.pseudo, axis=1))
        return table

    def divergence(self, fit: EMFit) -> float:
        """Return what the labels have moved the parameters from their priors, in nats."""
        subtype = fit.mass.reshape(self.n_classes, -1)
        classes, subtypes = np.array(self.classes), np.array(self.subtypes)
        return (
            _divergence(subtype.sum(axis=1), classes, axis=0)
            + _divergence(subtype, subtypes, axis=1)
            + _divergence(fit.counts, self.pseudo, axis=1)
        )


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
