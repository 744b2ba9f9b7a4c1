"""Penalty vote: each task gets the class whose representative carries the lowest load.

>>> from quality import encode
>>> labels = encode(["ann", "bob", "cy"] * 2, [1, 1, 1, 2, 2, 2], list("xxyyyx"))
>>> labels.classes[penalty_vote(labels).label]
array(['x', 'y'], dtype='<U1')
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, Int, Int16

from quality.aggregation.consensus import Result, decide
from quality.argument_types import check_arguments
from quality.labels import CrowdLabels
from quality.matching import conflict_graph, conflict_tasks, semi_matching

__all__ = ["PenaltyVote", "penalty_vote"]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PenaltyVote(Result):
    """Result of :func:`penalty_vote`.

    Parameters
    ----------
    posterior
        1 for the chosen class; equal shares for classes that tie. It is a choice and not a probability.
    label, tied
        As in :class:`~quality.Consensus`.
    """

    posterior: Float64[np.ndarray, "tasks classes"]
    label: Int16[np.ndarray, " tasks"]
    tied: Bool[np.ndarray, " tasks"]


@check_arguments
def penalty_vote(
    labels: CrowdLabels, *, groups: Int[np.ndarray, " workers"] | None = None
) -> PenaltyVote:
    """Give every task the class whose representative carries the lowest load.

    An optimal semi-matching of the conflict graph makes one worker the representative of each class that a
    task was given, so that the loads are as even as possible. A worker with a high load had few others on
    her side to share it with.

    Parameters
    ----------
    labels
        The crowd's labels.
    groups
        As for :func:`~quality.majority_vote`, errors included.

    Returns
    -------
    PenaltyVote
        A task whose labels all name one class gets it; a task without labels is tied between all.

    Notes
    -----
    **Guarantees.** The chosen class is one that a worker gave the task, and no other class given to the
    task has a representative of lower load; equal loads are a tie. The result is the same on every run.

    **Limits.** The sorted loads are the same for every optimal semi-matching. The order of codes decides
    which worker has which load, so that renaming may change labels of nearly equal loads. Loads grow with
    the number of labels: the method is meant for adversaries who label a great deal, and is worse than a
    majority vote for a crowd that merely errs.

    **Cost.** One optimal semi-matching.

    References
    ----------
    .. [1] Jagabathula, Subramanian, Venkataraman, "Reputation-based worker filtering in
       crowdsourcing", NIPS 2014, figure 1, right.

    Examples
    --------
    Cy contradicts the others on two tasks and shares her load with nobody.

    >>> from quality import encode
    >>> labels = encode(["ann", "bob", "cy"] * 2, [1, 1, 1, 2, 2, 2], list("xxyyyx"))
    >>> vote = penalty_vote(labels)
    >>> vote
    PenaltyVote(2 tasks, 0 tied)
    >>> labels.classes[vote.label]
    array(['x', 'y'], dtype='<U1')
    """
    labels = labels.merge_workers(groups)
    given = labels.counts() > 0
    matching = semi_matching(conflict_graph(labels))
    load = np.full(given.shape, np.inf)
    load[given] = 0.0  # a class that nobody contradicts needs no representative
    # a boolean mask has the order of tasks, then classes, as the label nodes have
    node = given & conflict_tasks(labels)[:, np.newaxis]
    load[node] = matching.load[matching.assigned]
    best = load == load.min(axis=1, keepdims=True)
    posterior = best / best.sum(axis=1, keepdims=True)
    label, tied = decide(posterior)
    return PenaltyVote(posterior, label, tied)
