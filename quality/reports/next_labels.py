"""Which task to label next: the one whose truth is least certain."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Float64, Int32, Int64

from quality.labels.codes import freeze_arrays
from quality.labels.table import CrowdLabels
from quality.reports.tasks import DECIMALS, check_posterior, posterior_entropy

__all__ = ["NextLabels", "next_labels"]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class NextLabels:
    """Result of :func:`next_labels`: tasks, the most urgent first.

    Parameters
    ----------
    task
        Task codes by rank.
    entropy
        Posterior entropy of each, in nats, in the same order.
    n_labels
        Labels each has now, in the same order.
    """

    task: Int32[np.ndarray, " tasks"]
    entropy: Float64[np.ndarray, " tasks"]
    n_labels: Int64[np.ndarray, " tasks"]

    def __post_init__(self) -> None:
        freeze_arrays(self)

    def __repr__(self) -> str:
        return (
            f"NextLabels({len(self.task)} tasks, entropy {self.entropy.max(initial=0):.3f} "
            f"down to {self.entropy.min(initial=np.inf):.3f} nats)"
        )


def next_labels(labels: CrowdLabels, posterior: Float[np.ndarray, "tasks classes"]) -> NextLabels:
    """Rank tasks by the entropy of their posterior, fewest labels first among equals.

    The entropy is the most that labels could tell about a task, whoever gives them;
    :func:`~quality.plan_labels` says whom to ask for what, and how much that is expected to tell.

    Parameters
    ----------
    labels
        The crowd's labels.
    posterior
        P(truth | labels) of each task; rows add up to 1.

    Returns
    -------
    NextLabels
        Every task once; tasks equal in both come in code order.

    Raises
    ------
    ValueError
        If `posterior` is not one distribution over the classes per task.

    Examples
    --------
    >>> from quality import encode, majority_vote
    >>> labels = encode(["ann", "bob", "ann", "ann", "bob"], [1, 1, 2, 3, 3], list("xxxxy"))
    >>> ranked = next_labels(labels, majority_vote(labels).posterior)
    >>> labels.tasks[ranked.task]
    array([3, 2, 1])
    """
    check_posterior(labels, posterior)
    entropy = posterior_entropy(posterior)
    n_labels = np.diff(labels.task_start)
    order = np.lexsort((n_labels, -entropy.round(DECIMALS)))
    return NextLabels(order.astype(np.int32), entropy[order], n_labels[order])
