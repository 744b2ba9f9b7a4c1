"""Groups of workers who vote once: rows of several workers become rows of one voter.

>>> groups = np.array([-1, 0, 0, 0])
>>> voters(groups)
array([0, 1, 1, 1])
>>> merge_rows(np.array([0, 1, 2, 3]), np.zeros(4, int), np.array([0, 1, 1, 0]), groups, n_classes=2)
(array([0, 1]), array([0, 0]), array([0, 1]))

A group's label for a task is the label that most of its members gave; if two labels are level, the group
does not vote. Every aggregator counts groups in this one way (``groups=``), whatever its model, and
estimates the reliability of the group's vote as it does for a worker.
"""

import numpy as np
from jaxtyping import Int, Int64, Shaped

__all__ = ["check_groups", "merge_rows", "of_voters", "voters"]

ALONE = -1  # the code of workers in no group


def check_groups(groups: Int[np.ndarray, " workers"], n_workers: int) -> None:
    """Raise ValueError unless there is one group code per worker, -1 for a worker in no group."""
    if not (groups.dtype.kind in "iu" and groups.shape == (n_workers,)):
        raise ValueError(
            f"groups must be {n_workers} codes, one per worker and {ALONE} for one in no group, "
            f"got {groups.dtype} of shape {groups.shape}"
        )
    if not (groups >= ALONE).all():
        raise ValueError(f"groups must be codes of at least {ALONE}, got {int(groups.min())}")


def voters(groups: Int[np.ndarray, " workers"]) -> Int64[np.ndarray, " workers"]:
    """Return the worker through whom each worker votes: the first of her group, or herself."""
    own = np.arange(len(groups))
    together = groups > ALONE
    _, first, place = np.unique(groups[together], return_index=True, return_inverse=True)
    own[together] = np.flatnonzero(together)[first][place]
    return own


def of_voters(
    values: Shaped[np.ndarray, " *table"], groups: Int[np.ndarray, " workers"] | None
) -> Shaped[np.ndarray, " *table"]:
    """Return each worker's values, which are those of her voter; the values themselves without groups."""
    return values if groups is None else values[voters(groups)]


def merge_rows(
    worker: Int[np.ndarray, " labels"],
    task: Int[np.ndarray, " labels"],
    label: Int[np.ndarray, " labels"],
    groups: Int[np.ndarray, " workers"],
    n_classes: int,
) -> tuple[
    Int[np.ndarray, " votes"], Int[np.ndarray, " votes"], Int[np.ndarray, " votes"]
]:  # fmt: skip
    """Return the rows of a table in which every group votes once, sorted by (task, worker) as they were.

    Rows of workers in no group are not sorted anew: the groups' votes are inserted between them.
    """
    together = (groups > ALONE)[worker]
    voter = voters(groups)[worker[together]]
    # a vote is one number, so that equal votes are counted by sorting
    vote = (voter * (task.max(initial=0) + 1) + task[together]) * n_classes + label[together]
    given, count = np.unique(vote, return_counts=True)
    place = given // n_classes  # of the voter and the task
    order = np.lexsort((-count, place))
    first = np.flatnonzero(np.diff(place[order], prepend=-1))
    second = np.minimum(first + 1, max(len(order) - 1, 0))
    level = (place[order][second] == place[order][first]) & (second > first)
    level &= count[order][second] == count[order][first]
    chosen = given[order][first[~level]]
    voter, task_of = np.divmod(chosen // n_classes, task.max(initial=0) + 1)
    by_task = np.lexsort((voter, task_of))
    own = worker[~together], task[~together], label[~together]
    new = voter[by_task], task_of[by_task], (chosen % n_classes)[by_task]
    key_of_own, key_of_new = (
        rows[1].astype(np.int64) * len(groups) + rows[0] for rows in (own, new)
    )
    at = np.searchsorted(key_of_own, key_of_new)
    worker, task, label = (
        np.insert(column, at, votes.astype(column.dtype))
        for column, votes in zip(own, new, strict=True)
    )
    return worker, task, label
