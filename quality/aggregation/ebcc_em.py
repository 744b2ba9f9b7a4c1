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
from scipy.special import digamma, gammaln

from quality.aggregation.consensus import Result, decide
from quality.aggregation.em import (
    EMFit,
    Rows,
    Stop,
    TablePasses,
    fit_em,
    passes_over,
    reporting,
)
from quality.aggregation.passes import (
    check_cells,
    check_em,
    dirichlet_moved,
    dirichlet_weights,
    subtype_weights,
    whole_lanes,
)
from quality.argument_types import check_arguments
from quality.labels import CrowdLabels
from quality.parallel import Progress, kernel

__all__ = ["Ebcc", "ebcc"]

CLASS_PRIOR, SUBTYPES_PRIOR = 1.0, 0.1  # the paper's: of each class, and of all subtypes of one
STAGE = 5  # iterations after which empty subtypes are put away
EMPTY = 1e-9  # expected tasks; the prior keeps such a subtype from coming back by exp(-100)
DRAWN = 2**14  # random numbers drawn at a time, which a cache holds


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
    memory, and the digamma function of as many numbers as its table has, which has no rows for labels that a
    worker never gives; after some dozens of iterations most subtypes are empty and cost nothing.

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
    every = _Model.of(labels, n_subtypes, right_prior, wrong_prior)

    def fitted(number: int) -> _Start:
        """Fit from one random start."""
        model, stop = every, Stop()
        counts, mass = _dealt(labels, every, rng)
        while True:
            with passes_over(labels, None, threads, rows=model.rows) as passes:
                fit = fit_em(
                    passes, model.table, counts, mass, max_iter=max_iter, tol=tol,
                    prior_step=model.prior, stop=stop, pause=model.is_wide_for,
                    after=reporting(progress, "EBCC", n_starts * max_iter, before=number * max_iter),
                )  # fmt: skip
                if fit.converged or fit.n_iter == max_iter:
                    return _Start.of(fit, model, passes)
            stop, kept = Stop(fit.log_likelihood, fit.n_iter, fit.converged), _kept(fit.mass)
            model, counts, mass = model.only(kept), fit.counts[:, :, kept], fit.mass[kept]

    best = max(map(fitted, range(n_starts)), key=attrgetter("evidence"))
    label, tied = decide(best.posterior)
    total = best.subtype.sum()
    even = np.full(best.subtype.shape, 1.0 / best.subtype.size)
    subtype = best.subtype / total if total else even
    return Ebcc(
        best.posterior, label, tied, subtype, best.evidence, best.fit.n_iter, best.fit.converged
    )


def _kept(mass: Float64[np.ndarray, " truths"]) -> Int64[np.ndarray, " kept"]:
    """Return the places of subtypes that are not empty, and of as many others as fill their lanes."""
    n_kept = whole_lanes(max(int(np.count_nonzero(mass > EMPTY)), 1))
    return np.sort(np.argsort(-mass, kind="stable")[:n_kept])


def _dealt(
    labels: CrowdLabels, model: "_Model", rng: np.random.Generator
) -> tuple[Float64[np.ndarray, "rows one truths"], Float64[np.ndarray, " truths"]]:
    """Return expected counts and mass of the soft majority vote, dealt out at random to subtypes."""
    counts, mass = np.zeros((model.rows.n_rows, 1, len(model.truth))), np.zeros(len(model.truth))
    labelled = np.flatnonzero(np.diff(labels.task_start))
    shape = model.n_classes, model.n_subtypes
    step = -(-DRAWN // (shape[0] * shape[1]))
    for first in range(0, len(labelled), step):
        tasks = labelled[first : first + step]
        drawn = rng.standard_exponential((len(tasks), *shape))  # divided by their sum: Dirichlet
        _deal(
            tasks, labels.task_start, labels.label, model.rows.of_label, drawn, counts, mass,
            np.zeros(mass.size),
        )  # fmt: skip
    return counts, mass


@kernel
def _deal(tasks, task_start, label, row, drawn, counts, mass, belief) -> None:
    """Add some tasks' votes to counts and mass, dealt by what is drawn; `belief` is for work."""
    _, n_classes, n_subtypes = drawn.shape
    for at in range(len(tasks)):
        low, high = task_start[tasks[at]], task_start[tasks[at] + 1]
        for truth in range(n_classes):
            votes, total = 0.0, 0.0
            for given in range(low, high):
                votes += 1.0 if label[given] == truth else 0.0
            for subtype in range(n_subtypes):
                total += drawn[at, truth, subtype]
            scale = votes / (high - low) / total
            first = truth * n_subtypes
            for subtype in range(n_subtypes):
                belief[first + subtype] = drawn[at, truth, subtype] * scale
                mass[first + subtype] += belief[first + subtype]
            if votes == 0.0:
                continue
            for given in range(low, high):
                for subtype in range(n_subtypes):
                    counts[row[given], 0, first + subtype] += belief[first + subtype]


@dataclass(frozen=True, slots=True, eq=False)
class _Model:
    """The Dirichlet priors: of the classes, of the subtypes of each, and of each worker's rows.

    `rows` are the pairs of a worker and an answer that occur: `answer` of each, and where each worker's
    `start`. `truth` lists the subtypes that are left, by class * subtypes + subtype, in whole lanes: past the
    last class there are some that never have a task. `pseudo` is what expected counts are added to, a row for
    each answer and a column for each subtype.
    """

    n_classes: int
    n_subtypes: int
    rows: Rows
    answer: Int64[np.ndarray, " rows"]
    start: Int64[np.ndarray, " bounds"]
    truth: Int64[np.ndarray, " truths"]
    pseudo: Float64[np.ndarray, "answers truths"]

    @classmethod
    def of(cls, labels: CrowdLabels, n_subtypes: int, right: float, wrong: float) -> "_Model":
        """All subtypes of all classes."""
        n_classes = labels.n_classes
        code = labels.worker.astype(np.int64) * n_classes + labels.label
        occurs = np.zeros(labels.n_workers * n_classes, dtype=np.bool_)
        occurs[code] = True
        before = np.concatenate([[0], np.cumsum(occurs)])
        truth = np.arange(whole_lanes(n_classes * n_subtypes))
        rows = Rows(before[code].astype(np.int32), int(before[-1]), len(truth))
        same = np.arange(n_classes)[:, np.newaxis] == truth // n_subtypes
        return cls(
            n_classes, n_subtypes, rows, np.flatnonzero(occurs) % n_classes, before[::n_classes], truth,
            np.where(same, right, wrong),
        )  # fmt: skip

    def is_wide_for(self, fit: EMFit) -> bool:
        """Return whether fewer lanes would do, which is looked at once in some iterations."""
        return fit.n_iter % STAGE == 0 and len(_kept(fit.mass)) < len(fit.mass)

    def only(self, kept: Int64[np.ndarray, " kept"]) -> "_Model":
        """Return the model without the other subtypes."""
        rows = self.rows._replace(n_truths=len(kept))
        pseudo = np.ascontiguousarray(self.pseudo[:, kept])
        return replace(self, rows=rows, truth=self.truth[kept], pseudo=pseudo)

    def by_class(
        self, of_truth: Float64[np.ndarray, " truths"]
    ) -> Float64[np.ndarray, "classes subtypes"]:
        """Return numbers of the subtypes in their places; 0 for those that are no longer there."""
        whole = np.zeros(whole_lanes(self.n_classes * self.n_subtypes))
        whole[self.truth] = of_truth
        size = self.n_classes * self.n_subtypes
        placed: np.ndarray = whole[:size].reshape(self.n_classes, self.n_subtypes)
        return placed

    def of_classes(
        self, posterior: Float64[np.ndarray, "tasks truths"]
    ) -> Float64[np.ndarray, "tasks classes"]:
        """Return the posterior of the classes."""
        of_class = np.zeros((len(posterior), self.n_classes))
        for column, truth in enumerate(self.truth // self.n_subtypes):
            if truth < self.n_classes:
                of_class[:, truth] += posterior[:, column]
        of_class /= of_class.sum(axis=1, keepdims=True)
        return of_class

    def prior(self, mass: Float64[np.ndarray, " truths"]) -> Float64[np.ndarray, " truths"]:
        """Return the weight of each subtype, equations 7 and 8 of the paper."""
        owner = self.truth // self.n_subtypes
        weight: np.ndarray = subtype_weights(
            mass, owner, self.n_classes, CLASS_PRIOR, SUBTYPES_PRIOR, self.n_subtypes
        )
        return weight

    def table(
        self, counts: Float64[np.ndarray, "rows one truths"]
    ) -> Float64[np.ndarray, "rows one truths"]:
        """Return the weight of each label of each worker given the truth."""
        table, given = np.empty(counts.shape), np.ascontiguousarray(counts).reshape(-1)
        dirichlet_weights(given, self.answer, self.start, self.pseudo, table.reshape(-1))
        return table

    def divergence(self, fit: EMFit, table: Float64[np.ndarray, "rows one truths"]) -> float:
        """Return what the labels have moved the parameters from their priors, in nats."""
        subtype, given = self.by_class(fit.mass), np.ascontiguousarray(fit.counts).reshape(-1)
        of_workers: float = dirichlet_moved(
            given, self.answer, self.start, self.pseudo, table.reshape(-1)
        )
        of_classes = _divergence(subtype.sum(axis=1), CLASS_PRIOR)
        return of_classes + _divergence(subtype, SUBTYPES_PRIOR / self.n_subtypes) + of_workers


@dataclass(frozen=True, slots=True, eq=False)
class _Start:
    """What one random start led to; `subtype` is the mass of each subtype of each class."""

    evidence: float
    fit: EMFit
    posterior: Float64[np.ndarray, "tasks classes"]
    subtype: Float64[np.ndarray, "classes subtypes"]

    @classmethod
    def of(cls, fit: EMFit, model: _Model, passes: TablePasses) -> "_Start":
        prior, table = model.prior(fit.mass), model.table(fit.counts)
        moved = model.divergence(
            fit, table
        )  # first: a pass writes its counts where the last one did
        subtype = model.by_class(fit.mass)
        evidence = float(passes.e_step(prior, table)[2][0]) - moved
        return cls(evidence, fit, model.of_classes(passes.posterior(prior, table)), subtype)


def _divergence(counts: np.ndarray, prior: float) -> float:
    """Return the sum of divergences of Dirichlet posteriors, on the last axis, from their prior."""
    after, size = counts + prior, counts.shape[-1]
    expected_log = digamma(after) - digamma(after.sum(axis=-1, keepdims=True))
    moved = (counts * expected_log - gammaln(after) + gammaln(prior)).sum(axis=-1)
    total = gammaln(after.sum(axis=-1)) - gammaln(size * prior)
    return float((moved + total).sum())
