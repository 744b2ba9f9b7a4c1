"""Majority vote: the class most workers gave.

Weighted majority vote: workers count for as much as they are believed.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Float64, Int16

from quality.labels import CrowdLabels, freeze_arrays

__all__ = ["MajorityVote", "WeightedMajority", "decide", "majority_vote", "weighted_majority"]

TIE = 1e-12  # posteriors closer than this are equal: rounding must not choose a class


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MajorityVote:
    """Result of :func:`majority_vote`.

    Parameters
    ----------
    posterior
        Share of a task's labels that each class has; uniform where a task has no labels.
    label
        The class with the largest share; the lowest code among equals.
    tied
        True where two or more classes have the largest share.
    """

    posterior: Float64[np.ndarray, "tasks classes"]
    label: Int16[np.ndarray, " tasks"]
    tied: Bool[np.ndarray, " tasks"]

    def __post_init__(self) -> None:
        freeze_arrays(self)

    def __repr__(self) -> str:
        return f"MajorityVote({len(self.label)} tasks, {np.count_nonzero(self.tied)} tied)"


def majority_vote(labels: CrowdLabels) -> MajorityVote:
    """Give every task the class that most of its workers gave it.

    Parameters
    ----------
    labels
        The crowd's labels.

    Returns
    -------
    MajorityVote
        Shares, labels and ties. A task without labels is tied between all classes.

    Notes
    -----
    **Guarantees.** A task's result depends on that task's labels alone. Names play no part: the
    shares do not change when workers, tasks or classes are renamed, other than with them.

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
    n_labels = np.diff(labels.task_start)[:, np.newaxis]
    posterior = labels.counts() / np.maximum(n_labels, 1)
    posterior[n_labels[:, 0] == 0] = 1.0 / max(labels.n_classes, 1)
    label, tied = decide(posterior)
    return MajorityVote(posterior, label, tied)


def decide(
    posterior: Float64[np.ndarray, "tasks classes"],
) -> tuple[Int16[np.ndarray, " tasks"], Bool[np.ndarray, " tasks"]]:
    """Return the likeliest class of each task, the lowest code among equals, and where they tie."""
    largest = posterior[:, 0].copy()
    for code in range(1, posterior.shape[1]):  # far quicker than a maximum along short rows
        np.maximum(largest, posterior[:, code], out=largest)
    largest -= TIE
    label = np.zeros(len(posterior), dtype=np.int16)
    n_largest = np.zeros(len(posterior), dtype=np.int16)
    for code in range(posterior.shape[1] - 1, -1, -1):
        is_largest = posterior[:, code] >= largest
        np.copyto(label, np.int16(code), where=is_largest)
        n_largest += is_largest
    return label, n_largest > 1


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class WeightedMajority:
    """Result of :func:`weighted_majority`.

    Parameters
    ----------
    posterior
        Share of the weight on a task that each class has; uniform where there is no weight.
    label
        The class with the largest share; the lowest code among equals.
    tied
        True where two or more classes have the largest share.
    """

    posterior: Float64[np.ndarray, "tasks classes"]
    label: Int16[np.ndarray, " tasks"]
    tied: Bool[np.ndarray, " tasks"]

    def __post_init__(self) -> None:
        freeze_arrays(self)

    def __repr__(self) -> str:
        return f"WeightedMajority({len(self.label)} tasks, {np.count_nonzero(self.tied)} tied)"


def weighted_majority(
    labels: CrowdLabels, weight: Float[np.ndarray, " workers"]
) -> WeightedMajority:
    """Give every task the class with the most weight behind it.

    Parameters
    ----------
    labels
        The crowd's labels.
    weight
        What each worker's label counts for, at least 0: a reputation, an accuracy on gold.
        Only ratios matter.

    Returns
    -------
    WeightedMajority
        Shares, labels and ties. A task without weight is tied between all classes.

    Raises
    ------
    ValueError
        If `weight` is not one finite number of at least 0 per worker.

    Notes
    -----
    **Guarantees.** With equal weights it is the majority vote. A worker of weight 0 might as well
    not have answered. Multiplying all weights by one number changes nothing.

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
    if not (weight.dtype.kind == "f" and weight.shape == (labels.n_workers,)):
        raise ValueError(
            f"weight must be {labels.n_workers} numbers, one per worker, "
            f"got {weight.dtype} of shape {weight.shape}"
        )
    if not ((weight >= 0) & (weight < np.inf)).all():
        raise ValueError("weight must be finite and >= 0 for every worker")
    # the largest weight is 1: sums neither overflow nor vanish
    scaled = weight.astype(np.float64) / max(float(weight.max(initial=0.0)), np.finfo(float).tiny)
    cell = labels.task.astype(np.int64) * labels.n_classes + labels.label
    size = labels.n_tasks * labels.n_classes
    behind = np.bincount(cell, scaled[labels.worker], minlength=size)
    behind = behind.reshape(labels.n_tasks, labels.n_classes).astype(np.float64)  # int if empty
    total = behind.sum(axis=1, keepdims=True)
    uniform = np.full_like(behind, 1.0 / labels.n_classes)
    posterior = np.divide(behind, total, out=uniform, where=total > 0)
    label, tied = decide(posterior)
    return WeightedMajority(posterior, label, tied)
