"""GLAD: the truth, every worker's ability and every task's easiness together, by EM.

>>> from quality import encode
>>> labels = encode(["ann", "bob", "cy"] * 2, [1, 1, 1, 2, 2, 2], list("aabbba"))
>>> labels.classes[glad(labels).label]
array(['a', 'b'], dtype='<U1')

A worker is right on a task with probability 1 / (1 + exp(-ability * easiness)). An able worker is nearly
always right on an easy task, anybody is right by chance on a hard one, and an adversary (ability below 0)
less often than by chance. Errors are spread evenly over the other classes. As every task has an easiness,
P(label | truth) is no table of each worker, so that GLAD has its own passes; the stopping rule is
:class:`~quality.aggregation.em.Stop`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64, Int, Int16, Int64

from quality.aggregation.consensus import Result, check_em, check_posterior, decide
from quality.aggregation.em import Stop
from quality.aggregation.majority import majority_vote
from quality.argument_types import check_arguments
from quality.labels import CrowdLabels, of_voters
from quality.parallel import Progress, chunk_starts, counter, kernel, shared_out

__all__ = ["Glad", "fit_glad", "glad"]

SWEEPS = 3  # Newton steps of every ability and easiness in one M-step
HALVINGS = 30  # halvings of a step that does not rise; then the step is not taken
HUGE = 1e300  # factors of at most 2 are multiplied up to this, before one logarithm


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Glad(Result):
    """Result of :func:`glad`.

    Parameters
    ----------
    posterior
        P(truth | labels); uniform where a task has no labels.
    label, tied
        As in :class:`~quality.Consensus`.
    ability
        Ability of each worker; 1 without labels, below 0 if she is wrong more often than right.
    easiness
        Easiness of each task, above 0; its inverse is the difficulty.
    log_posterior
        Log-likelihood of the labels plus log density of `ability` and the logarithm of
        `easiness`, up to a constant, in nats.
    n_iter, converged
        Iterations made, and whether `log_posterior` had settled by then.
    """

    posterior: Float64[np.ndarray, "tasks classes"]
    label: Int16[np.ndarray, " tasks"]
    tied: Bool[np.ndarray, " tasks"]
    ability: Float64[np.ndarray, " workers"]
    easiness: Float64[np.ndarray, " tasks"]
    log_posterior: float
    n_iter: int
    converged: bool


@check_arguments
def glad(
    labels: CrowdLabels,
    *,
    max_iter: int = 100,
    tol: float = 1e-5,
    groups: Int[np.ndarray, " workers"] | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Glad:
    """Estimate the truth, every worker's ability and every task's easiness together.

    The prior is uniform over classes, and normal with mean 1 and variance 1 for ability and for the
    logarithm of easiness. Generalised EM starts from the soft majority vote: the M-step moves each ability
    and each easiness in turn a Newton step up its own slope, halved until it rises.

    Parameters
    ----------
    labels
        The crowd's labels.
    max_iter, groups, threads, progress
        As for :func:`~quality.dawid_skene`, errors included.
    tol
        Stop when the log-posterior per label changes by no more than this (nats), at least 0.

    Notes
    -----
    **Guarantees.** The posterior is Bayes' rule applied to the returned ability and easiness. The
    log-posterior never falls from one iteration to the next. The result is the same bytes on every run, on
    any number of threads.

    **Cost.** A dozen passes over the labels per iteration; memory O(labels + tasks * classes).

    References
    ----------
    .. [1] Whitehill, Ruvolo, Wu, Bergsma, Movellan, "Whose vote should count more: optimal
       integration of labels from labelers of unknown expertise", NIPS 22 (2009).

    Examples
    --------
    >>> from quality import encode
    >>> workers, tasks = ["ann", "bob", "cy"] * 4, [1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4]
    >>> labels = encode(workers, tasks, list("aabbbaaaabba"))
    >>> result = glad(labels)
    >>> labels.classes[result.label]
    array(['a', 'b', 'a', 'b'], dtype='<U1')
    >>> bool(result.ability[0] > result.ability[2])  # cy is the odd one out three times
    True
    """
    check_em(max_iter, tol, threads)
    check_posterior(labels)
    tell = counter(progress, "GLAD", max_iter)
    labels = labels.merge_workers(groups)
    posterior = majority_vote(labels).posterior.copy()

    def e_step(ability: np.ndarray, easiness: np.ndarray) -> tuple[float, np.ndarray]:
        log_likelihood = _e_step(labels, ability, easiness, posterior, threads)
        return log_likelihood, posterior[labels.task, labels.label]

    right = posterior[labels.task, labels.label]
    ability, easiness, stop = fit_glad(labels, right, e_step, max_iter, tol, threads, tell)
    label, tied = decide(posterior)
    return Glad(posterior, label, tied, of_voters(ability, groups), easiness, *stop)


def fit_glad(
    labels: CrowdLabels,
    right: Float64[np.ndarray, " labels"],
    e_step: Callable[[np.ndarray, np.ndarray], tuple[float, np.ndarray]],
    max_iter: int,
    tol: float,
    threads: int | None,
    tell: Callable[[int], object],
) -> tuple[Float64[np.ndarray, " workers"], Float64[np.ndarray, " tasks"], Stop]:
    """Run GLAD's EM from each label's probability of being right; return ability, easiness and the stop.

    ``e_step(ability, easiness)`` returns the log-likelihood and the new probabilities.
    """
    ability, log_easiness = np.ones(labels.n_workers), np.ones(labels.n_tasks)
    stop = Stop()
    while stop.n_iter < max_iter and not stop.converged:
        _m_step(labels, right, ability, log_easiness, threads)
        log_likelihood, right = e_step(ability, np.exp(log_easiness))
        deviation = np.sum((ability - 1) ** 2) + np.sum((log_easiness - 1) ** 2)
        stop = stop.after(float(log_likelihood - deviation / 2), tol, labels.n_labels)
        tell(stop.n_iter)
    return ability, np.exp(log_easiness), stop


def _m_step(
    labels: CrowdLabels,
    right: Float64[np.ndarray, " labels"],
    ability: Float64[np.ndarray, " workers"],
    log_easiness: Float64[np.ndarray, " tasks"],
    threads: int | None,
) -> None:
    """Raise the expected log-posterior, in place, given each label's probability of being right."""
    rows = np.arange(labels.n_labels)
    rows.flags.writeable = False  # as the worker's order is: one kernel is compiled for both
    for _ in range(SWEEPS):
        easiness = np.exp(log_easiness)[labels.task]
        own = labels.worker_start, labels.worker_order, easiness, right, False, ability
        _share_out(own, threads)
        own = labels.task_start, rows, ability[labels.worker], right, True, log_easiness
        _share_out(own, threads)


def _share_out(arguments: tuple[Any, ...], threads: int | None) -> None:
    """Take a Newton step with every unit; a unit depends on its own rows alone, so any division will do."""
    cut = chunk_starts(arguments[0])
    with shared_out(threads, len(cut) - 1) as shared:
        shared(lambda chunk: _newton_step(cut[chunk], cut[chunk + 1], *arguments))


def _e_step(
    labels: CrowdLabels,
    ability: Float64[np.ndarray, " workers"],
    easiness: Float64[np.ndarray, " tasks"],
    posterior: Float64[np.ndarray, "tasks classes"],
    threads: int | None,
) -> float:
    """Apply Bayes' rule to every task, in place; return the log-likelihood."""
    cut = chunk_starts(labels.task_start)
    rows = labels.task_start, labels.worker, labels.label, ability, easiness, posterior
    with shared_out(threads, len(cut) - 1) as shared:
        return sum(shared(lambda chunk: float(_apply_bayes(cut[chunk], cut[chunk + 1], *rows))))


@kernel
def _newton_step(
    first: int,
    last: int,
    start: Int64[np.ndarray, " units+1"],
    order: Int64[np.ndarray, " labels"],
    other: Float64[np.ndarray, " labels"],
    right: Float64[np.ndarray, " labels"],
    logarithm: bool,
    value: Float64[np.ndarray, " units"],
) -> None:
    """Take one Newton step with each worker's ability, or with each task's log easiness, in place."""
    for unit in range(first, last):
        rows = order[start[unit] : start[unit + 1]]
        now = value[unit]
        height, gradient, curvature = _slopes(rows, other, right, logarithm, now)
        step = gradient / curvature
        for _ in range(HALVINGS):
            if _slopes(rows, other, right, logarithm, now + step)[0] >= height:
                value[unit] = now + step
                break
            step /= 2.0


@kernel
def _slopes(
    rows: Int64[np.ndarray, " rows"],
    other: Float64[np.ndarray, " labels"],
    right: Float64[np.ndarray, " labels"],
    logarithm: bool,
    value: float,
) -> tuple[float, float, float]:
    """Return the expected log-posterior of one ability or log easiness, its slope and expected curvature."""
    factor = np.exp(value) if logarithm else value
    # terms of the normal density of mean 1 and variance 1
    height, gradient, curvature = -((value - 1.0) ** 2) / 2.0, 1.0 - value, 1.0
    product = 1.0
    for row in rows:
        logit = factor * other[row]
        odds = np.exp(-abs(logit))
        chance = (1.0 if logit >= 0.0 else odds) / (1.0 + odds)
        slope = logit if logarithm else other[row]
        gradient += slope * (right[row] - chance)
        curvature += slope * slope * chance * (1.0 - chance)
        height += right[row] * logit - max(logit, 0.0)
        product *= 1.0 + odds
        if product > HUGE:
            height -= np.log(product)
            product = 1.0
    return height - np.log(product), gradient, curvature


@kernel
def _apply_bayes(
    first: int,
    last: int,
    task_start: Int64[np.ndarray, " tasks+1"],
    worker: Int[np.ndarray, " labels"],
    label: Int[np.ndarray, " labels"],
    ability: Float64[np.ndarray, " workers"],
    easiness: Float64[np.ndarray, " tasks"],
    posterior: Float64[np.ndarray, "tasks classes"],
) -> float:
    """Compute the posterior of some tasks, in place; return their log-likelihood."""
    n_classes = posterior.shape[1]
    log_others = np.log(max(n_classes - 1, 1))
    log_likelihood = 0.0
    for task in range(first, last):
        belief = posterior[task]
        belief[:] = 0.0
        all_wrong, product = -np.log(n_classes), 1.0
        for row in range(task_start[task], task_start[task + 1]):
            logit = ability[worker[row]] * easiness[task]
            # log of one wrong label's probability, and the log odds of a right one over it
            all_wrong -= max(logit, 0.0) + log_others
            belief[label[row]] += logit + log_others
            product *= 1.0 + np.exp(-abs(logit))
            if product > HUGE:
                all_wrong -= np.log(product)
                product = 1.0
        all_wrong -= np.log(product)
        largest = belief.max()
        total = 0.0
        for truth in range(n_classes):
            belief[truth] = np.exp(belief[truth] - largest)
            total += belief[truth]
        for truth in range(n_classes):
            belief[truth] /= total
        log_likelihood += all_wrong + largest + np.log(total)
    return log_likelihood
