"""Who is asked what: assignments of tasks to simulated workers."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int64

from quality.labels.codes import freeze_arrays

__all__ = ["Assignment", "power_law_assignment", "regular_assignment"]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Assignment:
    """Which worker is asked which task; one row per label to come, by task.

    Parameters
    ----------
    worker, task
        Codes; no pair occurs twice.
    n_workers, n_tasks
        How many there are.
    """

    worker: Int64[np.ndarray, " labels"]
    task: Int64[np.ndarray, " labels"]
    n_workers: int
    n_tasks: int

    def __post_init__(self) -> None:
        freeze_arrays(self)

    def __repr__(self) -> str:
        return (
            f"Assignment({len(self.task)} labels, {self.n_tasks} tasks, {self.n_workers} workers)"
        )


def power_law_assignment(
    *,
    n_tasks: int,
    n_workers: int,
    labels_per_task: int,
    exponent: float = 0.8,
    rng: np.random.Generator,
) -> Assignment:
    """Ask for every task different workers, the busiest ones far more often than the others.

    The worker of activity rank r is drawn in proportion to ``r ** -exponent``; ranks are dealt to
    the worker codes at random.

    Parameters
    ----------
    n_tasks, n_workers, labels_per_task
        Sizes, at least 1; `labels_per_task` is at most `n_workers`.
    exponent
        0 makes all workers alike; at least 0.
    rng
        Source of randomness.

    Raises
    ------
    ValueError
        If a size or `exponent` is out of its range.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> power_law_assignment(n_tasks=100, n_workers=20, labels_per_task=3, rng=rng)
    Assignment(300 labels, 100 tasks, 20 workers)
    """
    _check_sizes(n_tasks, n_workers, labels_per_task)
    if not exponent >= 0:
        raise ValueError(f"exponent must be >= 0, got exponent={exponent}")
    share = np.cumsum(rng.permutation(np.arange(1.0, n_workers + 1) ** -exponent))
    worker = np.empty((n_tasks, labels_per_task), dtype=np.int64)
    for place in range(labels_per_task):
        pending = np.arange(n_tasks)
        while len(pending):  # who was asked for this task before is drawn anew
            draw = np.searchsorted(share, rng.random(len(pending)) * share[-1], side="right")
            worker[pending, place] = np.minimum(draw, n_workers - 1)
            again = worker[pending, :place] == worker[pending, place, np.newaxis]
            pending = pending[again.any(axis=1)]
    task = np.repeat(np.arange(n_tasks), labels_per_task)
    return Assignment(worker.ravel(), task, n_workers, n_tasks)


def regular_assignment(
    *, n_tasks: int, n_workers: int, labels_per_task: int, rng: np.random.Generator
) -> Assignment:
    """Ask for every task different workers, each worker equally often.

    Workers are dealt from shuffled decks, one deck after the other.

    Parameters
    ----------
    n_tasks, n_workers, labels_per_task
        Sizes, at least 1; `labels_per_task` is at most `n_workers`.
    rng
        Source of randomness.

    Raises
    ------
    ValueError
        If a size is out of its range.

    Notes
    -----
    **Guarantees.** The numbers of tasks of two workers differ by at most one, and not at all where
    the workers divide the labels.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> assignment = regular_assignment(n_tasks=8, n_workers=6, labels_per_task=3, rng=rng)
    >>> np.bincount(assignment.worker)
    array([4, 4, 4, 4, 4, 4])
    """
    _check_sizes(n_tasks, n_workers, labels_per_task)
    n_labels = n_tasks * labels_per_task
    dealt = np.empty(0, dtype=np.int64)
    decks = []
    for n_dealt in range(0, n_labels, n_workers):
        n_open = n_dealt % labels_per_task  # cards the task in hand has from the last deck
        in_hand = dealt[len(dealt) - n_open :]
        deck = rng.permutation(n_workers)
        clash = np.isin(deck, in_hand)
        dealt = np.concatenate([deck[~clash], deck[clash]])  # those come last: another task's turn
        decks.append(dealt)
    worker = np.concatenate(decks)[:n_labels]
    return Assignment(worker, np.repeat(np.arange(n_tasks), labels_per_task), n_workers, n_tasks)


def _check_sizes(n_tasks: int, n_workers: int, labels_per_task: int) -> None:
    if not n_tasks >= 1:
        raise ValueError(f"n_tasks must be >= 1, got n_tasks={n_tasks}")
    if not 1 <= labels_per_task <= n_workers:
        message = f"labels_per_task must be in [1, n_workers={n_workers}]"
        raise ValueError(f"{message}, got labels_per_task={labels_per_task}")
