"""Workers who grade: wrong grades that fall off with distance, and two kinds of poor graders.

>>> rng = np.random.default_rng(0)
>>> another_grade(np.array([0, 2, 4]), 5, 0.1, rng)
array([1, 1, 2])
"""

from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np

__all__ = ["GRADERS", "Grader", "another_grade"]

Grader: TypeAlias = Callable[[np.ndarray, np.ndarray, int, np.random.Generator], np.ndarray]
"""A function from the worker and the true grade of each row, and the number of classes, to grades."""

MOVED = 0.8  # share of a shifted worker's answers that are one grade off
RIGHT = 0.75  # share of a nominal worker's answers that are right


def another_grade(
    grade: np.ndarray, n_classes: int, decay: float, rng: np.random.Generator
) -> np.ndarray:
    """Draw another grade for each, d classes off in proportion to ``decay ** d``."""
    place = np.arange(n_classes)
    drawn, part = np.empty(len(grade), dtype=np.int64), rng.random(len(grade))
    order = np.argsort(grade, kind="stable")
    true, first = np.unique(grade[order], return_index=True)
    # by distance; neighbours weigh 1, because weights of a tiny decay would underflow
    law = np.append(0.0, decay ** np.arange(n_classes - 1.0))
    # one grade at a time: a table of labels by classes would be large
    for one, rows in zip(true, np.split(order, first[1:]), strict=True):
        reached = np.cumsum(law[np.abs(place - one)])
        drawn[rows] = np.searchsorted(reached, part[rows] * reached[-1], side="right")
    return drawn


def _shifted(
    worker: np.ndarray, truth: np.ndarray, n_classes: int, rng: np.random.Generator
) -> np.ndarray:
    """Grade mostly one class too high or one too low, each worker in her own direction; ends stay ends."""
    direction = rng.choice([-1, 1], size=worker.max(initial=0) + 1)[worker]
    moved = rng.random(len(truth)) < MOVED
    shifted: np.ndarray = np.clip(truth + np.where(moved, direction, 0), 0, n_classes - 1)
    return shifted


def _nominal(
    worker: np.ndarray, truth: np.ndarray, n_classes: int, rng: np.random.Generator
) -> np.ndarray:
    """Answer right three times in four, and else with any other class: distance plays no part."""
    right = rng.random(len(truth)) < RIGHT
    drawn: np.ndarray = np.where(right, truth, another_grade(truth, n_classes, 1.0, rng))
    return drawn


GRADERS: Mapping[str, Grader] = {"shifted": _shifted, "nominal": _nominal}
