"""Dawid–Skene: the truth and every worker's confusion matrix together, by EM; also with one coin.

:func:`dawid_skene` learns a confusion matrix for every worker. :func:`one_coin_dawid_skene` learns one
reliability, for tables with few labels per worker. :func:`start_from` turns either's result into the start
of a later fit.

>>> from quality import encode
>>> labels = encode(["ann", "bob", "cy"] * 2, [1, 1, 1, 2, 2, 2], list("aabbba"))
>>> labels.classes[dawid_skene(labels).label]
array(['a', 'b'], dtype='<U1')
"""

from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import numpy as np
from jaxtyping import Bool, Float, Float64, Int, Int16

from quality.aggregation.consensus import Result, check_smoothing, decide
from quality.aggregation.em import MIN_BELIEF, EMStart, MStep, Passes, first_counts, fit_table
from quality.aggregation.hierarchical_em import HierarchicalDawidSkene, TableRoom, pseudo_table
from quality.aggregation.passes import coins_pay
from quality.argument_types import check_arguments
from quality.labels import CrowdLabels, bring_near, by_votes, of_voters
from quality.parallel import Progress, kernel

__all__ = [
    "DawidSkene",
    "Fit",
    "OneCoin",
    "coin_table",
    "dawid_skene",
    "first_coins",
    "one_coin_confusion",
    "one_coin_dawid_skene",
    "one_coin_step",
    "one_coin_table",
    "smoothed_table",
    "start_from",
]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class DawidSkene(Result):
    """Result of :func:`dawid_skene`.

    Parameters
    ----------
    posterior
        P(truth | labels); the prior where a task has no labels, certain where it has gold.
    label, tied
        As in :class:`~quality.Consensus`.
    confusion
        P(label | truth) of each worker, as ``confusion[worker, truth, label]``; uniform rows
        for a worker without labels.
    prior, log_likelihood, n_iter, converged
        As in :class:`~quality.aggregation.EMFit`.
    """

    posterior: Float64[np.ndarray, "tasks classes"]
    label: Int16[np.ndarray, " tasks"]
    tied: Bool[np.ndarray, " tasks"]
    prior: Float64[np.ndarray, " classes"]
    confusion: Float64[np.ndarray, "workers classes classes"]
    log_likelihood: float
    n_iter: int
    converged: bool


@check_arguments
def dawid_skene(
    labels: CrowdLabels,
    *,
    max_iter: int = 100,
    tol: float = 1e-7,
    smoothing: float = 0.01,
    gold: Int[np.ndarray, " tasks"] | None = None,
    groups: Int[np.ndarray, " workers"] | None = None,
    start: EMStart | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> DawidSkene:
    """Estimate the truth of every task and the confusion matrix of every worker.

    Labels are independent given the truth, and P(label | truth) is the worker's own. EM starts from
    the soft majority vote (each task's shares of labels).

    Parameters
    ----------
    labels
        The crowd's labels.
    max_iter
        Maximum number of iterations, at least 1.
    tol
        Stop when the log-likelihood per label changes by no more than this (nats), at least 0.
    smoothing
        Added to every cell of the expected confusion counts, at least 1e-100.
    gold
        The class code of each task whose truth is known, -1 elsewhere, as
        :func:`~quality.encode_gold` returns them. Their posterior is certain from the start.
    groups
        The group code of each worker, -1 for a worker in no group. A group votes once, and the estimates
        for a member are those of the group's vote (:attr:`~quality.DependentGroups.group`).
    start
        Initial parameters, taken from an earlier fit; EM starts from the majority vote if None.
    threads
        Maximum number of threads; all cores if None.
    progress
        Called after every iteration: see :data:`quality.parallel.Progress`.

    Raises
    ------
    ValueError
        If a parameter is out of its range, or `gold` is not one class code per task.
    LabelError
        As for :func:`~quality.majority_vote`, or if the confusion matrices had more than 134,217,728 cells.

    Notes
    -----
    **Guarantees.** The posterior is Bayes' rule applied to the returned prior and confusion, for any number
    of labels of a task; the posterior of a task with gold is certain. The smoothed log-likelihood, which
    adds `smoothing` times the sum of the log confusion, never falls from one iteration to the next. Tasks
    without labels get the prior and change nothing else. The result is the same bytes on every run, on any
    number of threads.

    **Cost.** One pass over the labels per iteration, O(labels * classes) time; memory
    O(tasks * classes + workers * classes**2), the latter for at most eight chunks.

    References
    ----------
    .. [1] Dawid, Skene, "Maximum likelihood estimation of observer error-rates using the EM
       algorithm", Applied Statistics 28 (1979).

    Examples
    --------
    >>> from quality import encode
    >>> workers, tasks = ["ann", "bob", "cy"] * 4, [1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4]
    >>> labels = encode(workers, tasks, list("aabbbbaabbbb"))
    >>> result = dawid_skene(labels)
    >>> labels.classes[result.label]
    array(['a', 'b', 'a', 'b'], dtype='<U1')
    >>> result.confusion[2].round(2)  # cy says "b" whatever the truth
    array([[0., 1.],
           [0., 1.]])
    """
    check_smoothing(smoothing)
    m_step = partial(smoothed_table, smoothing=smoothing, room=TableRoom())
    near = by_votes(labels.merge_workers(groups))
    fit, posterior = fit_table(
        near, m_step, "Dawid–Skene", max_iter=max_iter, tol=tol,
        gold=gold, start=start, threads=threads, progress=progress,
    )  # fmt: skip
    label, tied = decide(posterior)
    confusion = np.ascontiguousarray(near.by_worker(fit.table).transpose(0, 2, 1))
    return DawidSkene(
        posterior, label, tied, fit.prior, of_voters(confusion, groups),
        fit.log_likelihood, fit.n_iter, fit.converged,
    )  # fmt: skip


def smoothed_table(
    counts: Float64[np.ndarray, "workers answers truths"],
    smoothing: float,
    room: TableRoom | None = None,
) -> Float64[np.ndarray, "workers answers truths"]:
    """Return P(label | truth) of each worker from her own expected counts."""
    return pseudo_table(counts, np.full(counts.shape[1:], smoothing), room)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class OneCoin(Result):
    """Result of :func:`one_coin_dawid_skene`.

    Parameters
    ----------
    posterior
        P(truth | labels); the prior where a task has no labels, certain where it has gold.
    label, tied
        As in :class:`~quality.Consensus`.
    reliability
        P(label = truth) of each worker; one in the number of classes without labels.
    prior, log_likelihood, n_iter, converged
        As in :class:`~quality.aggregation.EMFit`.
    """

    posterior: Float64[np.ndarray, "tasks classes"]
    label: Int16[np.ndarray, " tasks"]
    tied: Bool[np.ndarray, " tasks"]
    prior: Float64[np.ndarray, " classes"]
    reliability: Float64[np.ndarray, " workers"]
    log_likelihood: float
    n_iter: int
    converged: bool


@check_arguments
def one_coin_dawid_skene(
    labels: CrowdLabels,
    *,
    max_iter: int = 100,
    tol: float = 1e-7,
    smoothing: float = 0.01,
    gold: Int[np.ndarray, " tasks"] | None = None,
    groups: Int[np.ndarray, " workers"] | None = None,
    start: EMStart | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> OneCoin:
    """Estimate the truth of every task and one reliability per worker.

    A worker is right with her own probability under every truth, and wrong in each of the other ways
    equally often. This is Dawid–Skene with one number for a worker's whole confusion matrix, for tables
    with few labels per worker. EM starts from the soft majority vote.

    Parameters
    ----------
    labels
        The crowd's labels.
    smoothing
        Added to a worker's expected right labels and to each kind of wrong labels, at least 1e-100.
    max_iter, tol, gold, groups, start, threads, progress
        As for :func:`~quality.dawid_skene`, errors included.

    Notes
    -----
    **Guarantees.** The posterior is Bayes' rule applied to the returned prior and reliability; the
    posterior of a task with gold is certain. The smoothed log-likelihood, which adds `smoothing` times the
    log of a worker's probability of being right and of each way of being wrong, never falls from one
    iteration to the next. The result is the same bytes on every run, on any number of threads.

    **Cost.** That of :func:`~quality.dawid_skene`.

    References
    ----------
    .. [1] Zhang, Chen, Zhou, Jordan, "Spectral methods meet EM: a provably optimal algorithm for
       crowdsourcing", Journal of Machine Learning Research 17 (2016).

    Examples
    --------
    >>> from quality import encode
    >>> workers, tasks = ["ann", "bob", "cy"] * 4, [1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4]
    >>> result = one_coin_dawid_skene(encode(workers, tasks, list("aabbbbaabbba")))
    >>> result.reliability.round(2)
    array([1.  , 1.  , 0.25])
    """
    check_smoothing(smoothing)
    coins, m_step = one_coin_step(labels.n_classes, smoothing)
    near = bring_near(labels.merge_workers(groups))
    fit, posterior = fit_table(
        near, m_step, "one-coin Dawid–Skene", max_iter=max_iter, tol=tol, gold=gold, start=start,
        coins=coins, begin=partial(first_coins, smoothing=smoothing), threads=threads, progress=progress,
    )  # fmt: skip
    label, tied = decide(posterior)
    reliability = near.by_worker(fit.table[:, 0, 0].copy())
    return OneCoin(
        posterior, label, tied, fit.prior, of_voters(reliability, groups),
        fit.log_likelihood, fit.n_iter, fit.converged,
    )  # fmt: skip


def one_coin_step(n_classes: int, smoothing: float) -> tuple[int | None, MStep]:
    """Return the coins of each worker, or None, and the M step of the one-coin model."""
    if coins_pay(n_classes):
        return 1, partial(coin_table, n_classes=n_classes, smoothing=smoothing)
    return None, partial(one_coin_table, smoothing=smoothing, room=TableRoom())


def one_coin_table(
    counts: Float64[np.ndarray, "workers answers truths"],
    smoothing: float,
    room: TableRoom | None = None,
) -> Float64[np.ndarray, "workers answers truths"]:
    """Return P(label | truth) with the worker's share of right labels on the diagonal."""
    table = np.empty_like(counts, order="C") if room is None else room.like(counts)
    flat = np.ascontiguousarray(counts).reshape(-1)
    _write_one_coin(flat, (0,) * counts.shape[1], smoothing, table.reshape(-1))
    return table


@kernel
def _write_one_coin(counts, classes, smoothing, table) -> None:
    """Write the matrices; wrong labels are summed, not subtracted, so that small rates of errors keep digits.

    `classes` is a tuple with one number for each class: the kernel is compiled for its length.
    """
    n_classes = len(classes)
    n_wrong = n_classes - 1
    for first in range(0, len(counts), n_classes * n_classes):
        right = wrong = 0.0
        for answer in range(n_classes):
            for truth in range(n_classes):
                at = np.uint64(first + answer * n_classes + truth)
                if answer == truth:
                    right += counts[at]
                else:
                    wrong += counts[at]
        right += smoothing
        wrong += n_wrong * smoothing
        reliability = right / (right + wrong)
        each_wrong = wrong / ((right + wrong) * max(n_wrong, 1))
        for answer in range(n_classes):
            for truth in range(n_classes):
                at = np.uint64(first + answer * n_classes + truth)
                table[at] = reliability if answer == truth else each_wrong


def coin_table(
    counts: Float64[np.ndarray, "workers sides 1"], n_classes: int, smoothing: float
) -> Float64[np.ndarray, "workers sides 1"]:
    """Return each worker's probability of being right, and of each wrong label, from her counts."""
    right = counts[:, 0, 0] + smoothing
    wrong = counts[:, 1, 0] + (n_classes - 1) * smoothing
    total = right + wrong
    table = np.stack([right / total, wrong / (total * max(n_classes - 1, 1))], axis=1)
    return table[:, :, np.newaxis]


def first_coins(
    passes: Passes, start: EMStart, smoothing: float
) -> tuple[Float64[np.ndarray, "workers 2 1"], Float64[np.ndarray, " classes"]]:
    """Return the right and wrong labels of each worker, and the class mass, at the start of one-coin EM.

    `passes` have confusion matrices, and the start has one for each worker.
    """
    m_step = partial(one_coin_table, smoothing=smoothing)
    counts, mass = first_counts(passes, m_step, start)
    return _sides(counts), mass


def _sides(
    counts: Float64[np.ndarray, "workers answers truths"],
) -> Float64[np.ndarray, "workers 2 1"]:
    """Return right and wrong labels; wrong ones are summed, so that small error rates keep their digits."""
    same = np.eye(counts.shape[1], dtype=np.bool_)
    sides = [counts.sum(axis=(1, 2), where=kind) for kind in (same, ~same)]
    return np.stack(sides, axis=1)[:, :, np.newaxis]


Fit: TypeAlias = DawidSkene | HierarchicalDawidSkene | OneCoin


@check_arguments
def start_from(
    labels: CrowdLabels,
    fit: Fit,
    *,
    labelled: Bool[np.ndarray, " workers"] | None = None,
) -> EMStart:
    """Return the parameters of a fit, of the workers who have labels, as the `start` of a later fit.

    Parameters
    ----------
    labels
        The table that was fitted.
    fit
        Result of :func:`~quality.dawid_skene`, its one-coin or its hierarchical form.
    labelled
        True for each worker who has labels, if `labels` holds the names alone; the workers with rows if
        None.

    Notes
    -----
    **Guarantees.** A worker without labels is left out. Numbers above zero and below 1e-150, such as the
    prior of a class that dies out, become 1e-150. A class whose prior has fallen to 0, which takes hundreds
    of iterations, counts as unknown, as does a class without labels: it starts as under the majority vote.

    Examples
    --------
    >>> from quality import dawid_skene, encode
    >>> workers, tasks = ["ann", "bob", "cy"] * 4, [1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4]
    >>> labels = encode(workers, tasks, list("aabbbbaabbbb"))
    >>> start = start_from(labels, dawid_skene(labels))
    >>> more = encode(["dee", *workers], [4, *tasks], list("baabbbbaabbbb"))
    >>> dawid_skene(more).n_iter, dawid_skene(more, start=start).n_iter
    (7, 2)
    """
    known = np.diff(labels.worker_start) > 0 if labelled is None else labelled
    confusion = (
        one_coin_confusion(fit.reliability, max(labels.n_classes, 2))
        if isinstance(fit, OneCoin)
        else fit.confusion
    )
    table = confusion[known, : labels.n_classes, : labels.n_classes]
    prior, table = (
        np.where(part > 0, np.maximum(part, MIN_BELIEF), 0.0) for part in (fit.prior, table)
    )
    return EMStart(labels.workers[known], labels.classes.view(), prior, table)


@check_arguments
def one_coin_confusion(
    reliability: Float[np.ndarray, " workers"], n_classes: int
) -> Float64[np.ndarray, "workers classes classes"]:
    """Return the confusion matrices of workers whose errors are spread evenly over the wrong classes.

    Parameters
    ----------
    reliability
        P(label = truth) of each worker, in [0, 1].
    n_classes
        At least 2.

    Raises
    ------
    ValueError
        If an argument is out of its range.

    Examples
    --------
    >>> one_coin_confusion(np.array([0.8]), 3).round(3)
    array([[[0.8, 0.1, 0.1],
            [0.1, 0.8, 0.1],
            [0.1, 0.1, 0.8]]])
    """
    if not n_classes >= 2:
        raise ValueError(f"n_classes must be >= 2, got n_classes={n_classes}")
    if not np.all((reliability >= 0) & (reliability <= 1)):
        raise ValueError("reliability must be in [0, 1] for every worker, got others")
    right = reliability[:, np.newaxis, np.newaxis]
    return np.where(np.eye(n_classes, dtype=np.bool_), right, (1 - right) / (n_classes - 1))
