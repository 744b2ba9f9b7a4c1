"""Majority vote: the class most workers gave."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, Int16

from quality.codes import freeze_arrays
from quality.labels import CrowdLabels

__all__ = ["MajorityVote", "decide", "majority_vote"]

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
    counts = labels.counts().astype(np.float64)
    n_labels = counts.sum(axis=1, keepdims=True)
    uniform = np.full_like(counts, 1.0 / labels.n_classes)
    posterior = np.divide(counts, n_labels, out=uniform, where=n_labels > 0)
    label, tied = decide(posterior)
    return MajorityVote(posterior, label, tied)


def decide(
    posterior: Float64[np.ndarray, "tasks classes"],
) -> tuple[Int16[np.ndarray, " tasks"], Bool[np.ndarray, " tasks"]]:
    """Return the likeliest class of each task, the lowest code among equals, and where they tie."""
    best = posterior >= posterior.max(axis=1, keepdims=True) - TIE
    return best.argmax(axis=1).astype(np.int16), best.sum(axis=1) > 1
