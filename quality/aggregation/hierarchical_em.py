"""Hierarchical Dawid–Skene: confusion matrices that share a prior, learned from the crowd.

>>> from quality import encode
>>> labels = encode(["ann", "bob", "cy"] * 2, [1, 1, 1, 2, 2, 2], list("aabbba"))
>>> labels.classes[hierarchical_dawid_skene(labels).label]
array(['a', 'b'], dtype='<U1')

Plain Dawid–Skene learns every row of every worker's matrix from that row alone. A worker with two labels
then seems perfect or worthless, and a class that is rarely given can be captured: its rows drift until it
stands for tasks that another class explains badly. Here the rows of one truth class share a Dirichlet
prior, whose parameters are learned from the data:

* its mean is the crowd's confusion row for the class. This row is itself shrunk towards even errors at the
  crowd's overall rate of right labels (the one-coin row) by `anchor` labels, which a rare class
  cannot outweigh;
* its strength, in labels, is how alike the workers are: the maximum of the Dirichlet-multinomial
  likelihood of the expected counts. Counts expected under an uncertain posterior make workers
  look more alike than they are, so the fitted strength is an over-estimate, and `most_strength`
  caps it.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from jaxtyping import Bool, Float64, Int, Int16

from quality.aggregation.consensus import Result, check_cells, check_em, check_posterior, decide
from quality.aggregation.em import (
    EMFit,
    EMStart,
    Passes,
    SharedPrior,
    Stop,
    first_counts,
    fit_em,
    near_gold,
    passes_over,
)
from quality.aggregation.passes import PUT, UNROLLED
from quality.argument_types import check_arguments
from quality.labels import CrowdLabels, LabelShard, by_votes, of_voters
from quality.parallel import Progress, counter, kernel

__all__ = [
    "HierarchicalDawidSkene", "TableRoom", "answers_under", "check_shared_prior", "confusion_of",
    "confusion_under", "digamma", "fit_hierarchical", "hierarchical_dawid_skene", "hierarchical_result",
    "pseudo_table",
]  # fmt: skip

ANCHOR, MAX_STRENGTH = 1000.0, 2.0  # in labels, unless a caller gives them
STAGE = 5  # EM iterations between two fits of the Dirichlet priors
MIN_STRENGTH = 1e-3  # strength, in labels; keeps rows without counts proper
MIN_SHARE = 1e-12  # lower limit on a row's mean: a label nobody gives stays possible
ENOUGH = 1e200  # limit on a product of logarithms' arguments, each far below its root
NARROW = 32  # number of truths up to which a matrix stays in the nearest cache


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class HierarchicalDawidSkene(Result):
    """Result of :func:`hierarchical_dawid_skene`.

    Parameters
    ----------
    posterior
        P(truth | labels); the prior where a task has no labels, certain where it has gold.
    label, tied
        As in :class:`~quality.Consensus`.
    confusion
        P(label | truth) of each worker, as ``confusion[worker, truth, label]``; the crowd's for
        a worker without labels.
    crowd_confusion
        P(label | truth) of the crowd, as ``crowd_confusion[truth, label]``: the mean of the
        Dirichlet prior of each truth class.
    strength
        Number of labels that the crowd's row counts for in a worker's own.
    prior, log_likelihood, n_iter
        As in :class:`~quality.aggregation.EMFit`.
    converged
        Whether the log-likelihood per label had settled to `tol` from one fit of the shared prior
        to the next.
    """

    posterior: Float64[np.ndarray, "tasks classes"]
    label: Int16[np.ndarray, " tasks"]
    tied: Bool[np.ndarray, " tasks"]
    prior: Float64[np.ndarray, " classes"]
    confusion: Float64[np.ndarray, "workers classes classes"]
    crowd_confusion: Float64[np.ndarray, "classes classes"]
    strength: float
    log_likelihood: float
    n_iter: int
    converged: bool


@check_arguments
def hierarchical_dawid_skene(
    labels: CrowdLabels,
    *,
    max_iter: int = 100,
    tol: float = 1e-6,
    anchor: float = ANCHOR,
    most_strength: float = MAX_STRENGTH,
    gold: Int[np.ndarray, " tasks"] | None = None,
    groups: Int[np.ndarray, " workers"] | None = None,
    start: EMStart | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> HierarchicalDawidSkene:
    """Estimate truth and confusion matrices that share a prior learned from the crowd.

    EM starts from the soft majority vote, with confusion rows at their posterior means. Every few
    iterations the shared prior is fitted again to the expected counts (empirical Bayes).

    Parameters
    ----------
    labels
        The crowd's labels.
    max_iter, gold, groups, start, threads, progress
        As for :func:`~quality.dawid_skene`, errors included.
    tol
        Stop when the log-likelihood per label changes by no more than this (nats) from one fit of
        the shared prior to the next, at least 0.
    anchor
        Number of labels that the one-coin row counts for in the crowd's row of each truth class, above 0.
    most_strength
        Upper limit of the strength, in labels, at least 0.001.

    Notes
    -----
    **Guarantees.** The posterior is Bayes' rule applied to the returned prior and confusion; the posterior
    of a task with gold is certain. A worker without labels has the crowd's confusion. The strength does not
    exceed `most_strength`. The result is the same bytes on every run, on any number of threads.

    **Cost.** That of :func:`~quality.dawid_skene`, and every fifth iteration the digamma function
    of workers * classes**2 numbers, at most a few dozen times.

    References
    ----------
    .. [1] Minka, "Estimating a Dirichlet distribution" (2000), section 4.

    Examples
    --------
    >>> from quality import encode
    >>> workers, tasks = ["ann", "bob", "cy"] * 4, [1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4]
    >>> labels = encode(workers, tasks, list("aabbbbaabbbb"))
    >>> result = hierarchical_dawid_skene(labels)
    >>> labels.classes[result.label]
    array(['a', 'b', 'a', 'b'], dtype='<U1')
    """
    check_em(max_iter, tol, threads)
    check_shared_prior(anchor, most_strength)
    check_cells(labels.n_workers, labels.n_classes, labels.n_classes)
    check_posterior(labels)
    near = by_votes(labels.merge_workers(groups))
    known = None if start is None else start.matched(near.labels.workers, labels.classes)
    with passes_over(near.labels, near_gold(near, gold), threads) as passes:
        fit = fit_hierarchical(
            passes, anchor, most_strength, max_iter=max_iter, tol=tol, start=known,
            step=counter(progress, "hierarchical Dawid–Skene", max_iter),
        )  # fmt: skip
        posterior = near.by_task(passes.posterior(fit.prior, fit.table))
    fit = replace(fit, table=near.by_worker(fit.table))
    return hierarchical_result(fit, posterior, groups)


def check_shared_prior(anchor: float, most_strength: float) -> None:
    """Raise ValueError unless these parameters of a shared prior are valid."""
    if not 0 < anchor < np.inf:
        raise ValueError(f"anchor must be > 0 and finite, got anchor={anchor}")
    if not MIN_STRENGTH <= most_strength < np.inf:
        raise ValueError(
            f"most_strength must be >= {MIN_STRENGTH} and finite, got most_strength={most_strength}"
        )


def fit_hierarchical(
    passes: Passes,
    anchor: float,
    most_strength: float,
    *,
    max_iter: int,
    tol: float,
    start: EMStart | None = None,
    begun: EMFit | None = None,
    after: Callable[[EMFit], object] | None = None,
    step: Callable[[int], object] = lambda _: None,
) -> EMFit:
    """Run EM in stages of five iterations, each of which begins with a fit of the shared prior.

    `step` is called with the number of iterations after each iteration, `after` with the fit after each
    stage: a later run can continue from these states.
    """

    def shared_prior(counts: np.ndarray) -> SharedPrior:
        row = _crowd_row(counts, anchor)
        return SharedPrior(row, _fit_strength(counts, row, most_strength))

    def first_table(counts: np.ndarray) -> np.ndarray:
        return _posterior_mean(counts, shared_prior(counts))

    fit, stop, room = begun, Stop(), TableRoom()  # from one fit of the shared prior to the next
    if begun is None:
        counts, mass = first_counts(passes, first_table, start)
    else:
        counts, mass = begun.counts, begun.mass
        stop = Stop(begun.log_likelihood, begun.n_iter, begun.converged)
    n_labels = round(float(counts.sum()))  # each label counts once over the truths
    while fit is None or (stop.n_iter < max_iter and not stop.converged):
        shared = shared_prior(counts)
        stage = fit_em(
            passes, partial(_posterior_mean, shared=shared, room=room), counts, mass,
            max_iter=min(STAGE, max_iter - stop.n_iter), tol=0.0,
            after=partial(_count, step, stop.n_iter),
        )  # fmt: skip
        counts, mass = stage.counts, stage.mass
        stop = stop.after(stage.log_likelihood, tol, n_labels, n_more=stage.n_iter)
        fit = EMFit(stage.prior, stage.table, counts, mass, *stop, shared)
        if after is not None:
            after(fit)
    return fit


def _count(step: Callable[[int], object], before: int, fit: EMFit) -> None:
    step(before + fit.n_iter)


def hierarchical_result(
    fit: EMFit,
    posterior: Float64[np.ndarray, "tasks classes"],
    groups: Int[np.ndarray, " voters"] | None,
) -> HierarchicalDawidSkene:
    """Return the result of a fit; a member of a group has its group's confusion."""
    if fit.shared is None:
        raise ValueError("fit must be of the hierarchical form, got one without a shared prior")
    label, tied = decide(posterior)
    confusion = of_voters(np.ascontiguousarray(fit.table.transpose(0, 2, 1)), groups)
    return HierarchicalDawidSkene(
        posterior, label, tied, fit.prior, confusion, np.ascontiguousarray(fit.shared.mean.T),
        fit.shared.strength, fit.log_likelihood, fit.n_iter, fit.converged,
    )  # fmt: skip


def confusion_under(
    labels: CrowdLabels, posterior: Float64[np.ndarray, "tasks classes"]
) -> Float64[np.ndarray, "workers classes classes"]:
    """Return P(label | truth) of each worker under a posterior, as ``confusion[worker, truth, label]``.

    The crowd's row counts for at most as many labels beside her own as in :func:`hierarchical_dawid_skene`.
    """
    return confusion_of(answers_under(labels, posterior))


def answers_under(
    labels: CrowdLabels | LabelShard, posterior: Float64[np.ndarray, "tasks classes"]
) -> Float64[np.ndarray, "workers answers truths"]:
    """Return the expected number of each worker's labels of each class on tasks of each truth."""
    counts = np.zeros((labels.n_workers, labels.n_classes, labels.n_classes))
    _add_labels(labels.worker, labels.task, labels.label, np.ascontiguousarray(posterior), counts)
    return counts


def confusion_of(
    counts: Float64[np.ndarray, "workers answers truths"],
) -> Float64[np.ndarray, "workers classes classes"]:
    """Return the confusion matrices of :func:`confusion_under` from the counts of :func:`answers_under`."""
    table = _posterior_mean(counts, SharedPrior(_crowd_row(counts, ANCHOR), MAX_STRENGTH))
    return np.ascontiguousarray(table.transpose(0, 2, 1))


@kernel
def _add_labels(worker, task, label, posterior, counts) -> None:
    """Add each label to its worker's answers, by the probability of each truth."""
    for row in range(len(label)):
        for truth in range(posterior.shape[1]):
            counts[worker[row], label[row], truth] += posterior[task[row], truth]


def _crowd_row(
    counts: Float64[np.ndarray, "workers answers truths"], anchor: float
) -> Float64[np.ndarray, "answers truths"]:
    """Return P(label | truth) of the crowd, shrunk towards the one-coin row by `anchor` labels."""
    total = counts.sum(axis=0)
    n_classes = len(total)
    # Laplace's rule: one label more of each kind, right and of every wrong class
    right = (np.trace(total) + 1.0) / (total.sum() + n_classes)
    wrong = (1.0 - right) / max(n_classes - 1, 1)
    one_coin = np.where(np.eye(n_classes, dtype=np.bool_), right, wrong)
    row = np.maximum((total + anchor * one_coin) / (total.sum(axis=0) + anchor), MIN_SHARE)
    normalised: np.ndarray = row / row.sum(axis=0)
    return normalised


def _fit_strength(
    counts: Float64[np.ndarray, "workers answers truths"],
    row: Float64[np.ndarray, "answers truths"],
    most: float,
) -> float:
    """Return the strength, at most `most`, at which the Dirichlet-multinomial likelihood is largest."""
    base, given = np.empty(row.shape), np.empty(row.shape[1])
    product = np.empty((len(row) + 1, row.shape[1]))

    def slope(strength: float) -> float:
        return float(_likelihood_slope(counts, row, strength, base, given, product))

    if slope(most) >= 0:
        return most
    # imported here: it takes half of this room's import time, and many crowds do without it
    from scipy.optimize import brentq

    return float(brentq(slope, MIN_STRENGTH, most)) if slope(MIN_STRENGTH) > 0 else MIN_STRENGTH


class TableRoom:
    """Memory for the tables of one fit, which every M step uses again.

    Where workers are many, fresh memory takes longer than the step. Each table overwrites the last.

    >>> room = TableRoom()
    >>> room.like(np.ones((2, 1, 1))) is room.like(np.ones((2, 1, 1)))
    True
    """

    def __init__(self) -> None:
        self._table = np.empty((0, 0, 0))

    def like(
        self, counts: Float64[np.ndarray, "workers answers truths"]
    ) -> Float64[np.ndarray, "workers answers truths"]:
        """Return the memory for a table of these counts."""
        if self._table.shape != counts.shape:
            self._table = np.empty(counts.shape)
        return self._table


def _posterior_mean(
    counts: Float64[np.ndarray, "workers answers truths"],
    shared: SharedPrior,
    room: TableRoom | None = None,
) -> Float64[np.ndarray, "workers answers truths"]:
    """Return P(label | truth) of each worker from her own expected counts and the crowd's row."""
    return pseudo_table(counts, shared.strength * shared.mean, room)


def pseudo_table(
    counts: Float64[np.ndarray, "workers answers truths"],
    pseudo: Float64[np.ndarray, "answers truths"],
    room: TableRoom | None = None,
) -> Float64[np.ndarray, "workers answers truths"]:
    """Return each worker's shares of the answers to each truth, with pseudo-counts added to her counts."""
    table = np.empty_like(counts, order="C") if room is None else room.like(counts)
    n_answers, n_truths = counts.shape[1:]
    if n_answers == n_truths <= UNROLLED:
        each = np.ascontiguousarray(counts).reshape(-1), np.ascontiguousarray(pseudo).reshape(-1)
        _write_few_shares(*each, (0.0,) * n_truths, table.reshape(-1))
    else:
        _write_shares(counts, pseudo, np.empty(n_truths), table)
    return table


@kernel
def _write_few_shares(counts, pseudo, zero, table) -> None:
    """Write the shares of few classes; compiled for each number of classes, which is the length of `zero`."""
    n_classes = len(zero)
    for first in range(0, len(counts), n_classes * n_classes):
        mass = zero
        for at in range(n_classes * n_classes):
            truth, place = at % n_classes, np.uint64(first + at)
            mass = PUT(mass, truth, mass[truth] + (counts[place] + pseudo[at]))
        for truth in range(n_classes):  # a division takes as long as several products
            mass = PUT(mass, truth, 1.0 / mass[truth])
        for at in range(n_classes * n_classes):
            place = np.uint64(first + at)
            table[place] = (counts[place] + pseudo[at]) * mass[at % n_classes]


@kernel
def _write_shares(counts, pseudo, total, table) -> None:
    """Write the shares; NumPy is ten times slower if matrices are small and many.

    If a matrix stays in a cache, a truth's total is kept in a register; else rows come first.
    """
    n_workers, n_answers, n_truths = counts.shape
    for worker in range(n_workers):
        if n_truths <= NARROW:
            for truth in range(n_truths):
                mass = 0.0
                for answer in range(n_answers):
                    mass += counts[worker, answer, truth] + pseudo[answer, truth]
                for answer in range(n_answers):
                    share = (counts[worker, answer, truth] + pseudo[answer, truth]) / mass
                    table[worker, answer, truth] = share
            continue
        for truth in range(n_truths):
            total[truth] = 0.0
        for answer in range(n_answers):
            for truth in range(n_truths):
                mass = counts[worker, answer, truth] + pseudo[answer, truth]
                table[worker, answer, truth] = mass
                total[truth] += mass
        for answer in range(n_answers):
            for truth in range(n_truths):
                table[worker, answer, truth] /= total[truth]


@kernel
def _likelihood_slope(counts, row, strength, base, given, product) -> float:
    """Return the derivative of the Dirichlet-multinomial likelihood with respect to the strength.

    The arguments of many logarithms with the same factor are multiplied, and one logarithm is taken of the
    product. `base`, `given` and `product` are working memory; the last has one row more than there are
    answers.
    """
    n_workers, n_answers, n_truths = counts.shape
    for answer in range(n_answers):
        for truth in range(n_truths):
            base[answer, truth] = digamma(strength * row[answer, truth])
    for answer in range(n_answers + 1):
        for truth in range(n_truths):
            product[answer, truth] = 1.0
    base_total, slope = digamma(strength), 0.0
    for worker in range(n_workers):
        hers = 0.0
        for truth in range(n_truths):
            given[truth] = 0.0
        for answer in range(n_answers):
            for truth in range(n_truths):
                count = counts[worker, answer, truth]
                if count == 0.0:  # it adds nothing
                    continue
                given[truth] += count
                share = row[answer, truth]
                rest, high = _digamma_parts(count + strength * share)
                hers += share * (rest - base[answer, truth])
                product[answer, truth] *= high
                if product[answer, truth] > ENOUGH:
                    hers += share * math.log(product[answer, truth])
                    product[answer, truth] = 1.0
        for truth in range(n_truths):
            if given[truth] > 0.0:
                rest, high = _digamma_parts(given[truth] + strength)
                hers -= rest - base_total
                product[n_answers, truth] *= high
                if product[n_answers, truth] > ENOUGH:
                    hers -= math.log(product[n_answers, truth])
                    product[n_answers, truth] = 1.0
        slope += hers
    for truth in range(n_truths):
        for answer in range(n_answers):
            slope += row[answer, truth] * math.log(product[answer, truth])
        slope -= math.log(product[n_answers, truth])
    return slope


@kernel
def digamma(x: float) -> float:
    """Return the digamma function of a number above 0, to about 13 digits."""
    rest, high = _digamma_parts(x)
    found: float = rest + math.log(high)
    return found


@kernel
def _digamma_parts(x: float) -> tuple[float, float]:
    """Return the digamma function without its logarithm, and the argument of that logarithm.

    By the recurrence to x + 6, with its fractions over one denominator, and Stirling's series.
    """
    before = 0.0
    if x < 8.0:
        ends = x * (x + 5.0)
        inner, middle = ends + 4.0, ends + 6.0
        pairs = inner * middle + ends * middle + ends * inner
        before = -(2.0 * x + 5.0) * pairs / (ends * inner * middle)
        x += 6.0
    flat = 1.0 / x
    square = flat * flat
    series = 1 / 132 - square * (691 / 32760 - square / 12)
    series = 1 / 12 - square * (1 / 120 - square * (1 / 252 - square * (1 / 240 - square * series)))
    return before - 0.5 * flat - square * series, x
