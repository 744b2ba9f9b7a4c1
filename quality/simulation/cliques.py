"""Workers who do not answer on their own, for simulated crowds: sybils, rings, part-time colluders.

Each kind is one function of :data:`CLIQUES`. Such workers join a crowd: they are added to the workers of
an assignment and choose their tasks themselves. Three sybils answer alike:

>>> answers = CLIQUES["sybils"](np.zeros(10, int), 3, 2, np.random.default_rng(1))
>>> answers.label.reshape(3, 5)
array([[0, 1, 0, 0, 1],
       [0, 1, 0, 0, 1],
       [0, 1, 0, 0, 1]])
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Float64, Int64

__all__ = ["CLIQUES", "Answers", "Clique", "another_class"]

SHARED = 0.5  # share of the tasks on which sybils copy their guesser
RING, RING_SHARE = 3, 0.25  # workers in a ring, and the share of the tasks that each ring answers
LIES = 0.1  # share of the tasks on which colluders, or three load-aware workers, lie together
PADDING = 3  # true answers of a load-aware worker for each of her lies
MIND = 0.8  # share of a model's answers that come from the mind common to all models
ACCURACIES = {"models": 0.65, "better_models": 0.75}  # of each model, and of the mind


class Answers(NamedTuple):
    """The labels of one kind of workers; one entry per label."""

    worker: Int64[np.ndarray, " labels"]
    """Her place among those of her kind."""
    task: Int64[np.ndarray, " labels"]
    label: Int64[np.ndarray, " labels"]


Clique: TypeAlias = Callable[
    [Int64[np.ndarray, " tasks"], int, int, np.random.Generator],
    Answers,
]
"""A function from the truth of every task, the numbers of workers and classes, and a generator."""


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


def _sybils(truth: np.ndarray, n_workers: int, n_classes: int, rng: np.random.Generator) -> Answers:
    """Answer half of the tasks, all workers alike as one guesser."""
    tasks = _some(len(truth), SHARED, rng)
    return _together(n_workers, tasks, rng.integers(n_classes, size=len(tasks)))


def _rings(truth: np.ndarray, n_workers: int, n_classes: int, rng: np.random.Generator) -> Answers:
    """Answer as sybils in rings of three, each ring with a guesser and a quarter of the tasks of its own."""
    rings = []
    for first in range(0, n_workers, RING):
        tasks = _some(len(truth), RING_SHARE, rng)
        guess = rng.integers(n_classes, size=len(tasks))
        ring = _together(min(RING, n_workers - first), tasks, guess)
        rings.append(ring._replace(worker=first + ring.worker))
    return _joined(rings)


def _part_time(
    truth: np.ndarray, n_workers: int, n_classes: int, rng: np.random.Generator
) -> Answers:
    """Answer every task as honest workers do, but lie alike on a tenth of them."""
    task = np.tile(np.arange(len(truth)), n_workers)
    label = _honest(truth, rng.beta(12.0, 3.0, size=n_workers), n_classes, rng)
    lie = _some(len(truth), LIES, rng)
    label[:, lie] = another_class(truth[lie], n_classes, rng)
    return Answers(np.repeat(np.arange(n_workers), len(truth)), task, label.ravel())


def _load_aware(
    truth: np.ndarray, n_workers: int, n_classes: int, rng: np.random.Generator
) -> Answers:
    """Lie in threes, who share the load of a lie, and add true answers, which lower the soft penalty."""
    threes = []
    for first in range(0, n_workers, RING):
        size = min(RING, n_workers - first)
        tasks = _some(len(truth), min(1.0, LIES * (1 + PADDING)), rng)
        n_lies = round(len(tasks) / (1 + PADDING))
        answer = truth[tasks].copy()
        answer[:n_lies] = another_class(answer[:n_lies], n_classes, rng)
        three = _together(size, tasks, answer)
        threes.append(three._replace(worker=first + three.worker))
    return _joined(threes)


def _models(
    truth: np.ndarray, n_workers: int, n_classes: int, rng: np.random.Generator, *, accuracy: float
) -> Answers:
    """Answer every task, four in five by a common mind with the accuracy of a model."""
    mind = _honest(truth, np.array([accuracy]), n_classes, rng)
    own = _honest(truth, np.full(n_workers, accuracy), n_classes, rng)
    label = np.where(rng.random(own.shape) < MIND, mind, own)
    task = np.tile(np.arange(len(truth)), n_workers)
    return Answers(np.repeat(np.arange(n_workers), len(truth)), task, label.ravel())


def _honest(
    truth: np.ndarray, accuracy: Float64[np.ndarray, " workers"], n_classes: int,
    rng: np.random.Generator,
) -> np.ndarray:  # fmt: skip
    """Label every task correctly with each worker's probability: [workers, tasks]."""
    right = rng.random((len(accuracy), len(truth))) < accuracy[:, np.newaxis]
    every = np.tile(truth, (len(accuracy), 1))
    return np.where(right, every, another_class(every.ravel(), n_classes, rng).reshape(every.shape))


def _some(n_tasks: int, share: float, rng: np.random.Generator) -> np.ndarray:
    """Draw a share of the tasks, in any order."""
    return rng.permutation(n_tasks)[: round(share * n_tasks)]


def _together(n_workers: int, task: np.ndarray, label: np.ndarray) -> Answers:
    """Return the same answers for every worker."""
    worker = np.repeat(np.arange(n_workers), len(task))
    return Answers(worker, np.tile(task, n_workers), np.tile(label, n_workers))


def _joined(parts: list[Answers]) -> Answers:
    return Answers(*(np.concatenate(column) for column in zip(*parts, strict=True)))


CLIQUES: Mapping[str, Clique] = {
    "sybils": _sybils,
    "rings": _rings,
    "part_time": _part_time,
    "load_aware": _load_aware,
    **{name: partial(_models, accuracy=accuracy) for name, accuracy in ACCURACIES.items()},
}
