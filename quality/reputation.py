"""Penalties for labels that meet disagreement: how adversarial a worker looks.

A task is a *conflict task* when its labels name two or more classes. Only those say anything about
the workers: on each of them every class given is a *label node*, and the penalty for it is shared
out among the workers who gave it. The soft penalty shares it evenly, the hard penalty puts it
whole on one of them, so that the loads come out as even as they can (an optimal semi-matching).

A penalty is evidence, not a verdict. Neither penalty sees a majority of colluders, and the hard one
grows with the number of labels: see the notes of each.
"""

import numpy as np
from jaxtyping import Bool, Float64, Int32
from scipy.sparse import csr_array

from quality.labels import CrowdLabels
from quality.semi_matching import semi_matching

__all__ = ["conflict_graph", "conflict_tasks", "hard_penalty", "soft_penalty"]


def conflict_tasks(labels: CrowdLabels) -> Bool[np.ndarray, " tasks"]:
    """Return where a task's labels name two or more classes.

    Parameters
    ----------
    labels
        The crowd's labels.

    Examples
    --------
    >>> from quality import encode
    >>> conflict_tasks(encode(["ann", "bob", "ann", "bob"], [1, 1, 2, 2], list("xyxx")))
    array([ True, False])
    """
    conflict: np.ndarray = np.count_nonzero(labels.counts(), axis=1) > 1
    return conflict


def conflict_graph(labels: CrowdLabels) -> csr_array:
    """Join every label node to the workers who gave that label.

    Parameters
    ----------
    labels
        The crowd's labels.

    Returns
    -------
    csr_array [label nodes, workers]
        One row per (conflict task, class given), in that order; 1 for each worker who gave it.

    Examples
    --------
    >>> from quality import encode
    >>> labels = encode(["ann", "bob", "cy", "ann"], [1, 1, 1, 2], list("xyxx"))
    >>> conflict_graph(labels).toarray()
    array([[1, 0, 1],
           [0, 1, 0]], dtype=int8)
    """
    is_node = (labels.counts() > 0) & conflict_tasks(labels)[:, np.newaxis]
    node = np.cumsum(is_node).reshape(is_node.shape) - 1
    rows = is_node[labels.task, labels.label]
    edge = (node[labels.task[rows], labels.label[rows]], labels.worker[rows])
    shape = (int(np.count_nonzero(is_node)), labels.n_workers)
    return csr_array((np.ones(len(edge[0]), dtype=np.int8), edge), shape=shape)


def soft_penalty(labels: CrowdLabels) -> Float64[np.ndarray, " workers"]:
    """Penalise each label by one over the number of workers who gave the same, and take the mean.

    On a conflict task j everyone who said k gets 1 / n_jk. The penalty of a worker is the mean over
    her conflict tasks.

    Parameters
    ----------
    labels
        The crowd's labels.

    Returns
    -------
    float64 array, one per worker
        In [1 / workers, 1]; 0 for a worker without conflict tasks, about whom nothing is known.

    Notes
    -----
    **Guarantees.** Within the range above. Tasks without conflict change nothing. Renaming workers,
    tasks or classes does not change anybody's penalty by more than rounding.

    **Limits.** Agreement is rewarded whoever agrees: workers who copy one script and outnumber the
    honest ones on their tasks come out ahead of them.

    References
    ----------
    .. [1] Jagabathula, Subramanian, Venkataraman, "Reputation-based worker filtering in
       crowdsourcing", NIPS 2014, algorithm 1.

    Examples
    --------
    >>> from quality import encode
    >>> soft_penalty(encode(["ann", "bob", "cy", "ann"], [1, 1, 1, 2], list("xyxx")))
    array([0.5, 1. , 0.5])
    """
    n_same = labels.counts()[labels.task, labels.label]
    in_conflict = conflict_tasks(labels)[labels.task]
    worker = labels.worker[in_conflict]
    total = np.bincount(worker, 1.0 / n_same[in_conflict], minlength=labels.n_workers)
    n_conflict = np.bincount(worker, minlength=labels.n_workers)
    return np.divide(total, n_conflict, out=np.zeros(labels.n_workers), where=n_conflict > 0)


def hard_penalty(labels: CrowdLabels) -> Int32[np.ndarray, " workers"]:
    """Put every label node on one of its workers, as evenly as possible, and count.

    The penalty is the worker's load in an optimal semi-matching of the conflict graph.

    Parameters
    ----------
    labels
        The crowd's labels.

    Returns
    -------
    int32 array, one per worker
        Number of label nodes she answers for; 0 without conflict tasks.

    Notes
    -----
    **Guarantees.** The penalties add up to the number of label nodes, and nobody answers for more
    nodes than she labelled conflict tasks. The sorted penalties do not depend on names; who of two
    equally placed workers has the higher one does, through the order of the codes.

    **Limits.** It is a count and grows with the number of labels; where everybody labels equally
    much it comes out nearly equal for all. It is meant for adversaries who label a great deal.

    References
    ----------
    .. [1] Jagabathula, Subramanian, Venkataraman, "Reputation-based worker filtering in
       crowdsourcing", NIPS 2014, algorithm 2.

    Examples
    --------
    >>> from quality import encode
    >>> hard_penalty(encode(["ann", "bob", "cy", "ann"], [1, 1, 1, 2], list("xyxx")))
    array([1, 1, 0], dtype=int32)
    """
    return semi_matching(conflict_graph(labels)).load
