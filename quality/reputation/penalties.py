"""Penalties for labels that meet disagreement: how adversarial a worker looks.

A task is a *conflict task* when its labels name two or more classes. Only those say anything about
the workers: on each of them every class given is a *label node*, and the penalty for it is shared
out among the workers who gave it. The soft penalty shares it evenly, the hard penalty puts it
whole on one of them, so that the loads come out as even as they can (an optimal semi-matching).

A penalty is evidence, not a verdict. Neither penalty sees a majority of colluders, and the hard one
grows with the number of labels: see the notes of each.
"""

from typing import no_type_check

import numpy as np
from jaxtyping import Bool, Float64, Int16, Int32, Int64
from numba import njit
from scipy.sparse import csr_array

from quality.labels.shards import LabelShard
from quality.labels.table import CrowdLabels
from quality.matching.cost_reducing import semi_matching

__all__ = [
    "conflict_graph", "conflict_tasks", "hard_penalty", "mean_share", "nodes_per_task",
    "soft_penalty", "tally_shares", "unit_shares",
]  # fmt: skip

HALF = 31  # a share of 1 is 2 ** 62 units, kept as two halves of so many bits


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
    return nodes_per_task(labels) > 0


def nodes_per_task(labels: CrowdLabels | LabelShard) -> Int32[np.ndarray, " tasks"]:
    """Return the number of classes given to each conflict task, 0 for the other tasks."""
    n_nodes: np.ndarray = _count_nodes(labels.task_start, labels.label, labels.n_classes)
    return n_nodes


def conflict_graph(labels: CrowdLabels | LabelShard) -> csr_array:
    """Join every label node to the workers who gave that label.

    Parameters
    ----------
    labels
        The crowd's labels, or those of some tasks.

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
    n_nodes = nodes_per_task(labels)
    rows = (labels.task_start, labels.worker, labels.label)
    start, worker = _fill_nodes(*rows, n_nodes, labels.n_classes)
    shape = (len(start) - 1, labels.n_workers)
    return csr_array((np.ones(len(worker), dtype=np.int8), worker, start), shape=shape)


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
    tasks or classes changes nobody's penalty, to the last bit: shares are added up as integers, in
    units of 2 ** -62.

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
    total = np.zeros((labels.n_workers, 3), dtype=np.int64)
    everybody = np.ones(labels.n_workers, dtype=np.bool_)
    tasks = np.arange(labels.n_tasks, dtype=np.int32)
    tally_shares(total, tasks, 1, labels, everybody, unit_shares(labels))
    return mean_share(total)


def unit_shares(labels: CrowdLabels | LabelShard) -> Int64[np.ndarray, "numbers 2"]:
    """Return 1 / n in units of 2 ** -62, upper and lower half, for every n there can be."""
    most = int(np.diff(labels.task_start).max(initial=0))
    n_same = np.maximum(np.arange(most + 1), 1)
    share = ((1 << 2 * HALF) + n_same // 2) // n_same
    return np.column_stack([share >> HALF, share & ((1 << HALF) - 1)])


def tally_shares(
    total: Int64[np.ndarray, "workers 3"],
    tasks: Int32[np.ndarray, " chosen"],
    sign: int,
    labels: CrowdLabels | LabelShard,
    keep: Bool[np.ndarray, " workers"],
    unit: Int64[np.ndarray, "numbers 2"],
) -> None:
    """Add to `total` what each kept worker gets on the given tasks: two halves, and the count.

    With a sign of -1 it is taken away. Sums of integers do not depend on their order, so that a
    tally that was added to and taken from is, to the bit, one begun anew.
    """
    rows = (labels.task_start, labels.worker, labels.label)
    _tally(total, tasks, sign, *rows, keep, unit, labels.n_classes)


def mean_share(total: Int64[np.ndarray, "workers 3"]) -> Float64[np.ndarray, " workers"]:
    """Return the soft penalties that a tally amounts to."""
    upper = total[:, 0] + (total[:, 1] >> HALF)
    lower = total[:, 1] & ((1 << HALF) - 1)
    share = upper * 2.0**-HALF + lower * 2.0 ** (-2 * HALF)
    penalty: np.ndarray = share / np.maximum(total[:, 2], 1)
    return penalty


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


@no_type_check  # numba compiles it, so the shape checks of the tests must not wrap it
@njit(cache=True, nogil=True)
def _count_nodes(
    task_start: Int64[np.ndarray, " tasks+1"], label: Int16[np.ndarray, " labels"], n_classes: int
) -> Int32[np.ndarray, " tasks"]:
    """Classes given to each task, if there are two or more."""
    n_nodes = np.zeros(len(task_start) - 1, dtype=np.int32)
    last_task = np.full(n_classes, -1, dtype=np.int64)  # the last task that was given this class
    for task in range(len(n_nodes)):
        n_given = 0
        for row in range(task_start[task], task_start[task + 1]):
            n_given += last_task[label[row]] != task
            last_task[label[row]] = task
        n_nodes[task] = n_given if n_given > 1 else 0
    return n_nodes


@no_type_check  # numba compiles it, so the shape checks of the tests must not wrap it
@njit(cache=True, nogil=True)
def _fill_nodes(task_start, worker, label, n_nodes, n_classes: int):
    """Where the workers of each label node start, and the workers; nodes by task, then class."""
    n_edges = 0
    for task in range(len(n_nodes)):
        if n_nodes[task]:
            n_edges += task_start[task + 1] - task_start[task]
    start = np.zeros(n_nodes.sum() + 1, dtype=np.int32)
    near = np.empty(n_edges, dtype=np.int32)
    place = np.zeros(n_classes, dtype=np.int64)
    node, edge = 0, 0
    for task in range(len(n_nodes)):
        if not n_nodes[task]:
            continue
        place[:] = 0
        for row in range(task_start[task], task_start[task + 1]):
            place[label[row]] += 1
        for given in range(n_classes):
            n_same = place[given]
            place[given] = edge
            edge += n_same
            if n_same:
                node += 1
                start[node] = edge
        for row in range(task_start[task], task_start[task + 1]):
            near[place[label[row]]] = worker[row]
            place[label[row]] += 1
    return start, near


@no_type_check  # numba compiles it, so the shape checks of the tests must not wrap it
@njit(cache=True, nogil=True)
def _tally(total, tasks, sign, task_start, worker, label, keep, unit, n_classes) -> None:
    """One pass: count who said the same on a task, then share out among them."""
    n_same = np.zeros(n_classes, dtype=np.int64)
    for task in tasks:
        n_given = 0
        for row in range(task_start[task], task_start[task + 1]):
            if keep[worker[row]]:
                n_given += n_same[label[row]] == 0
                n_same[label[row]] += 1
        if n_given > 1:
            for row in range(task_start[task], task_start[task + 1]):
                if keep[worker[row]]:
                    total[worker[row], 0] += sign * unit[n_same[label[row]], 0]
                    total[worker[row], 1] += sign * unit[n_same[label[row]], 1]
                    total[worker[row], 2] += sign
        for row in range(task_start[task], task_start[task + 1]):
            n_same[label[row]] = 0
