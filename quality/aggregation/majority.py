"""Majority votes: each task gets the class with the most labels, or with the most weight.

>>> from quality import encode
>>> labels = encode(["ann", "bob", "cy"], [1, 1, 1], ["yes", "no", "no"])
>>> labels.classes[majority_vote(labels).label]
array(['no'], dtype='<U3')
>>> labels.classes[weighted_majority(labels, np.array([0.9, 0.2, 0.4])).label]
array(['yes'], dtype='<U3')
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Float64, Int, Int16, Int32, Int64

from quality.aggregation.consensus import Result, check_posterior, decide
from quality.argument_types import check_arguments
from quality.labels import CrowdLabels, voters
from quality.parallel import kernel

__all__ = [
    "MajorityVote", "WeightedMajority", "check_weight", "majority_vote", "scaled_weight", "weight_shares",
    "weighted_majority", "weights_of_voters",
]  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MajorityVote(Result):
    """Result of :func:`majority_vote`.

    Parameters
    ----------
    posterior
        Share of each class in a task's labels; uniform where a task has no labels.
    label, tied
        As in :class:`~quality.Consensus`.
    """

    posterior: Float64[np.ndarray, "tasks classes"]
    label: Int16[np.ndarray, " tasks"]
    tied: Bool[np.ndarray, " tasks"]


@check_arguments
def majority_vote(
    labels: CrowdLabels, *, groups: Int[np.ndarray, " workers"] | None = None
) -> MajorityVote:
    """Give every task the class that most of its workers gave it; without labels all classes are tied.

    Parameters
    ----------
    labels
        The crowd's labels.
    groups
        The group code of each worker, -1 for a worker in no group: a group votes once
        (:attr:`~quality.DependentGroups.group`).

    Raises
    ------
    ValueError
        If `groups` is not one code per worker.
    LabelError
        If tasks times classes would be a huge and nearly empty table, as for every aggregator here.

    Notes
    -----
    **Guarantees.** A task's result depends on that task's labels alone. Renaming workers, tasks or classes
    renames the result and changes no share.

    Examples
    --------
    >>> from quality import encode
    >>> labels = encode(["ann", "bob", "cy", "ann"], [1, 1, 1, 2], ["yes", "no", "no", "yes"])
    >>> vote = majority_vote(labels)
    >>> vote
    MajorityVote(2 tasks, 0 tied)
    >>> labels.classes[vote.label]
    array(['no', 'yes'], dtype='<U3')
    """
    check_posterior(labels)
    labels = labels.merge_workers(groups)
    posterior = np.zeros((labels.n_tasks, labels.n_classes))
    _count_shares(labels.task_start, labels.label, posterior)
    label, tied = decide(posterior)
    return MajorityVote(posterior, label, tied)


@kernel
def _count_shares(task_start, label, share) -> None:
    """Count the share of each class in each task's labels; equal shares for a task without labels."""
    n_classes = share.shape[1]
    for task in range(len(share)):
        low, high = task_start[task], task_start[task + 1]
        for row in range(low, high):
            share[task, label[row]] += 1.0
        for code in range(n_classes):
            share[task, code] = share[task, code] / (high - low) if high > low else 1.0 / n_classes


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class WeightedMajority(Result):
    """Result of :func:`weighted_majority`.

    Parameters
    ----------
    posterior
        Share of each class in the weight on a task; uniform where there is no weight.
    label, tied
        As in :class:`~quality.Consensus`.
    """

    posterior: Float64[np.ndarray, "tasks classes"]
    label: Int16[np.ndarray, " tasks"]
    tied: Bool[np.ndarray, " tasks"]


@check_arguments
def weighted_majority(
    labels: CrowdLabels,
    weight: Float[np.ndarray, " workers"],
    *,
    groups: Int[np.ndarray, " workers"] | None = None,
) -> WeightedMajority:
    """Give every task the class with the most weight behind it; without weight all classes are tied.

    Parameters
    ----------
    labels
        The crowd's labels.
    weight
        Weight of each worker's labels, at least 0: a reputation, for example, or an accuracy on gold. Only
        ratios matter.
    groups
        As for :func:`~quality.majority_vote`; a group's vote has its members' mean weight.

    Raises
    ------
    ValueError
        If `weight` is not one finite number of at least 0 per worker.

    Notes
    -----
    **Guarantees.** With equal weights it is the majority vote. The labels of a worker of weight 0 change
    nothing, not even in her group. Multiplying all weights by one number changes nothing.

    Examples
    --------
    >>> from quality import encode
    >>> labels = encode(["ann", "bob", "cy"], [1, 1, 1], ["yes", "no", "no"])
    >>> vote = weighted_majority(labels, np.array([0.9, 0.2, 0.4]))
    >>> vote.posterior
    array([[0.4, 0.6]])
    >>> labels.classes[vote.label]
    array(['yes'], dtype='<U3')
    """
    check_weight(labels, weight)
    check_posterior(labels)
    if groups is not None:
        # members of weight 0 have no say in a group's label
        labels = labels.keep_workers(weight > 0).merge_workers(groups)
        weight = weights_of_voters(weight, groups)
    cell = labels.task.astype(np.int64) * labels.n_classes + labels.label
    posterior = weight_shares(cell, labels.worker, weight, labels.n_tasks, labels.n_classes)
    label, tied = decide(posterior)
    return WeightedMajority(posterior, label, tied)


def weight_shares(
    cell: Int64[np.ndarray, " labels"],
    worker: Int32[np.ndarray, " labels"],
    weight: Float[np.ndarray, " workers"],
    n_tasks: int,
    n_classes: int,
) -> Float64[np.ndarray, "tasks classes"]:
    """Return the share of each class in each task's weight; `cell` is task * classes + class."""
    support = np.bincount(cell, scaled_weight(weight)[worker], minlength=n_tasks * n_classes)
    support = support.reshape(n_tasks, n_classes).astype(np.float64)  # integers if empty
    total = support.sum(axis=1, keepdims=True)
    uniform = np.full_like(support, 1.0 / n_classes)
    share: np.ndarray = np.divide(support, total, out=uniform, where=total > 0)
    return share


def scaled_weight(weight: Float[np.ndarray, " workers"]) -> Float64[np.ndarray, " workers"]:
    """Return weights of which the largest is 1, so that sums neither overflow nor vanish."""
    largest = max(float(weight.max(initial=0.0)), np.finfo(float).tiny)
    scaled: np.ndarray = weight.astype(np.float64) / largest
    return scaled


def check_weight(labels: CrowdLabels, weight: Float[np.ndarray, " voters"]) -> None:
    """Raise ValueError unless `weight` is one finite number of at least 0 per worker."""
    if not (weight.dtype.kind == "f" and weight.shape == (labels.n_workers,)):
        raise ValueError(
            f"weight must be {labels.n_workers} floating-point numbers, one per worker, "
            f"got {weight.dtype} of shape {weight.shape}"
        )
    if not ((weight >= 0) & (weight < np.inf)).all():
        raise ValueError("weight must be finite and >= 0 for every worker")


def weights_of_voters(
    weight: Float[np.ndarray, " workers"], groups: Int[np.ndarray, " workers"]
) -> Float64[np.ndarray, " workers"]:
    """Return the mean weight of each worker's group, in its voter's place; the largest worker's is 1."""
    voter = voters(groups)
    total, size = (np.bincount(voter, part, len(voter)) for part in (scaled_weight(weight), None))
    return total / np.maximum(size, 1)
