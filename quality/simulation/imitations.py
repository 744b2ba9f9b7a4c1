"""Adversaries who imitate honest workers: one who copies, and one whom no rule can tell from her model.

Both leave the tasks they are asked and take those of the worker they imitate.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from jaxtyping import Int64

from quality.reputation.robustness import weakest_workers
from quality.simulation.assignment import Assignment

__all__ = ["IMITATIONS", "Copies", "Imitation", "another_class"]

LAG = 5  # a copying worker is so many tasks behind her model
MISTAKES = 0.1  # share of the labels that she copies wrongly
SEARCH_STEPS = 200  # of the search for the workers on whom most tasks rest


@dataclass(frozen=True, slots=True, eq=False)
class Copies:
    """What the workers of one imitation say.

    Parameters
    ----------
    model
        The worker whom each of them imitates.
    imitator, row, label
        One entry per label: which of them gives it, the row of her model it goes back to, and it.
    """

    model: Int64[np.ndarray, " imitators"]
    imitator: Int64[np.ndarray, " copies"]
    row: Int64[np.ndarray, " copies"]
    label: Int64[np.ndarray, " copies"]


class Imitation(Protocol):
    """What the workers of one kind make of the honest workers' labels."""

    def __call__(
        self,
        seen: Assignment,
        label: Int64[np.ndarray, " labels"],
        n_imitators: int,
        n_classes: int,
        rng: np.random.Generator,
    ) -> Copies:
        """Choose a model for each of them, and say something on her tasks."""
        ...


def _copying(
    seen: Assignment, label: np.ndarray, n_imitators: int, n_classes: int, rng: np.random.Generator
) -> Copies:
    """Repeat what a worker said, some tasks behind her and with mistakes."""
    model = rng.choice(np.unique(seen.worker), size=n_imitators)
    imitator, row = _rows_of(model, seen)
    turn = np.lexsort((rng.random(len(row)), imitator))  # her model does her tasks in any order
    imitator, row = imitator[turn], row[turn]
    left = np.searchsorted(imitator, imitator, side="right") - np.arange(len(imitator))
    seen_in_time = left > LAG
    imitator, row = imitator[seen_in_time], row[seen_in_time]
    mistaken = rng.random(len(row)) < MISTAKES
    copied = np.where(mistaken, another_class(label[row], n_classes, rng), label[row])
    return Copies(model, imitator, row, copied)


def _sophisticated(
    seen: Assignment, label: np.ndarray, n_imitators: int, n_classes: int, rng: np.random.Generator
) -> Copies:
    """Mirror the workers on whom most tasks rest: deny what they say there, repeat the rest."""
    start = np.searchsorted(seen.task, np.arange(seen.n_tasks + 1))
    chosen = np.array(
        sorted(weakest_workers(seen.worker, start, n_imitators, max_steps=SEARCH_STEPS)), np.int64
    )
    others = np.setdiff1d(np.unique(seen.worker), chosen)
    spare = rng.permutation(others)[: n_imitators - len(chosen)]
    model = np.concatenate([chosen, spare])
    elsewhere = ~np.isin(seen.worker, model)
    rests = np.bincount(seen.task[elsewhere], minlength=seen.n_tasks) == 0
    imitator, row = _rows_of(model, seen)
    denied = rests[seen.task[row]]
    return Copies(model, imitator, row, (label[row] + denied) % n_classes)


def _rows_of(model: np.ndarray, seen: Assignment) -> tuple[np.ndarray, np.ndarray]:
    """Each imitator with each row of her model."""
    imitator, row = np.nonzero(model[:, np.newaxis] == seen.worker)
    return imitator, row


def another_class(
    label: Int64[np.ndarray, " labels"], n_classes: int, rng: np.random.Generator
) -> Int64[np.ndarray, " labels"]:
    """Draw one of the other classes for each label.

    Examples
    --------
    >>> another_class(np.array([0, 1, 1]), 2, np.random.default_rng(0))
    array([1, 0, 0])
    """
    other: np.ndarray = (label + rng.integers(1, n_classes, size=len(label))) % n_classes
    return other


IMITATIONS: Mapping[str, Imitation] = {"copying": _copying, "sophisticated": _sophisticated}
