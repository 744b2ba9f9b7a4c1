"""Crowds of kinds on which nothing was chosen: what a default run makes of them, beside simple rules.

python -m benchmarks.quality.odd_crowds
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from benchmarks.publish import parser_of, publish
from quality import (
    CrowdLabels,
    auto,
    calibrate,
    dawid_skene,
    dependent_groups,
    encode,
    hierarchical_dawid_skene,
    majority_vote,
    regular_assignment,
)

SEEDS, SURE = 20, 0.95
HEADER = (
    "crowd", "MV", "DS", "hierarchical DS", "auto", "auto less the better of MV and DS", "the model says",
    "confidence says", "sure of", "right of those",
)  # fmt: skip


class Asked(NamedTuple):
    """The worker and the task of each label, the truth of each task, and a source of chance."""

    worker: np.ndarray
    task: np.ndarray
    truth: np.ndarray
    n_classes: int
    rng: np.random.Generator

    @property
    def right(self) -> np.ndarray:
        """The right answer to each label's task."""
        right: np.ndarray = self.truth[self.task]
        return right

    @property
    def another(self) -> np.ndarray:
        """A wrong answer to each, all alike."""
        moved = self.rng.integers(1, self.n_classes, size=len(self.task))
        wrong: np.ndarray = (self.right + moved) % self.n_classes
        return wrong

    @property
    def anything(self) -> np.ndarray:
        """A guess at each."""
        return self.rng.integers(self.n_classes, size=len(self.task))

    def happens(self, chance: np.ndarray | float) -> np.ndarray:
        """Whether something of this chance happens, at each label."""
        happens: np.ndarray = self.rng.random(len(self.task)) < chance
        return happens


def skilled(asked: Asked) -> np.ndarray:
    """Workers of different skills, and no more."""
    skill = asked.rng.beta(6, 2.5, size=asked.worker.max() + 1)
    return np.where(asked.happens(skill[asked.worker]), asked.right, asked.another)


def biased(asked: Asked) -> np.ndarray:
    """Each worker has a favourite class, which she gives up to six times in ten whatever is asked."""
    n_workers = asked.worker.max() + 1
    favourite = asked.rng.integers(asked.n_classes, size=n_workers)
    bias = asked.rng.uniform(0, 0.6, size=n_workers)
    honest = np.where(asked.happens(0.8), asked.right, asked.anything)
    return np.where(asked.happens(bias[asked.worker]), favourite[asked.worker], honest)


def swapping(asked: Asked) -> np.ndarray:
    """Four workers in ten call the first class by the name of the second, and the second by the first's."""
    given = np.where(asked.happens(0.85), asked.right, asked.anything)
    swapped = np.where(given < 2, 1 - given, given)
    return np.where(asked.worker % 10 < 4, swapped, given)


def unlike(asked: Asked) -> np.ndarray:
    """Tasks from those that everybody gets right to those that everybody guesses, and alike workers."""
    easy = asked.rng.random(len(asked.truth))
    return np.where(asked.happens(easy[asked.task]), asked.right, asked.anything)


def expert(asked: Asked) -> np.ndarray:
    """Each worker knows one class, and half of the others' tasks."""
    own = asked.worker % asked.n_classes == asked.right
    return np.where(asked.happens(np.where(own, 0.95, 0.5)), asked.right, asked.anything)


def spammed(asked: Asked) -> np.ndarray:
    """Every second worker guesses."""
    knows = (asked.worker % 2 == 1) & asked.happens(0.8)
    return np.where(knows, asked.right, asked.anything)


def tired(asked: Asked) -> np.ndarray:
    """Workers who begin well and end by guessing."""
    left = 1 - asked.task / len(asked.truth)
    return np.where(asked.happens(0.3 + 0.65 * left), asked.right, asked.anything)


def one_class(asked: Asked) -> np.ndarray:
    """Every second worker gives the first class, whatever is asked."""
    honest = np.where(asked.happens(0.8), asked.right, asked.another)
    return np.where(asked.worker % 2 == 1, 0, honest)


def yes_sayers(asked: Asked) -> np.ndarray:
    """Two of three workers give the second class to nineteen tasks of twenty, whatever they are."""
    yes = asked.rng.random(len(asked.task)) < 0.95
    return np.where(asked.worker % 3 > 0, yes, skilled(asked))


class Kind(NamedTuple):
    """A kind of crowd: how it answers, how many tasks, workers and labels a task, and the classes' shares."""

    title: str
    answers: Callable[[Asked], np.ndarray]
    n_tasks: int
    n_workers: int
    n_labels: int
    share: tuple[float, ...]


def alike(n_classes: int) -> tuple[float, ...]:
    return (1 / n_classes,) * n_classes


KINDS = (
    Kind("one class in 33 tasks", skilled, 500, 30, 3, (0.97, 0.03)),
    Kind("twenty tasks, five workers", skilled, 20, 5, 3, alike(2)),
    Kind("two workers", skilled, 200, 2, 2, alike(2)),
    Kind("three workers", skilled, 200, 3, 3, alike(3)),
    Kind("forty classes", skilled, 400, 40, 3, alike(40)),
    Kind("twenty labels a task", skilled, 100, 60, 20, alike(5)),
    Kind("favourite classes", biased, 300, 25, 4, alike(3)),
    Kind("two names swapped", swapping, 300, 30, 5, alike(4)),
    Kind("tasks unlike each other", unlike, 400, 30, 5, alike(2)),
    Kind("experts of a class", expert, 300, 30, 5, alike(6)),
    Kind("every second guesses", spammed, 300, 30, 5, alike(3)),
    Kind("workers who tire", tired, 300, 30, 5, alike(3)),
    Kind("every second gives one class", one_class, 300, 30, 5, alike(4)),
    Kind("two thirds say yes, nearly always", yes_sayers, 300, 15, 5, alike(2)),
)


def crowd(kind: Kind, seed: int) -> tuple[CrowdLabels, np.ndarray]:
    """A crowd's labels, and the truth of its tasks."""
    rng, n_classes = np.random.default_rng(seed), len(kind.share)
    rows = regular_assignment(
        n_tasks=kind.n_tasks, n_workers=kind.n_workers, labels_per_task=kind.n_labels, rng=rng
    )
    truth = rng.choice(n_classes, size=kind.n_tasks, p=kind.share)
    given = kind.answers(Asked(rows.worker, rows.task, truth, n_classes, rng))
    labels = encode(rows.worker, rows.task, given, classes=list(range(n_classes)))
    return labels, truth[labels.tasks]


def measure(kind: Kind) -> tuple[str, ...]:
    """The row of a kind: means over the seeds, with the half-width of the difference's 95 % interval."""
    right, said, sure = list[list[float]](), list[tuple[float, float]](), list[tuple[int, int]]()
    for seed in range(SEEDS):
        labels, truth = crowd(kind, seed)
        group = dependent_groups(labels).group
        found = auto(labels, groups=group)
        rules = (
            majority_vote(labels),
            dawid_skene(labels),
            hierarchical_dawid_skene(labels),
            found,
        )
        right.append([float(np.mean(rule.label == truth)) for rule in rules])
        confidence = calibrate(labels, found.posterior, groups=group)
        said.append((float(confidence.model.mean()), float(confidence.confidence.mean())))
        is_sure = confidence.confidence >= SURE
        sure.append((int(is_sure.sum()), int((confidence.label == truth)[is_sure].sum())))
    shares = np.array(right)
    less = shares[:, 3] - shares[:, :2].max(axis=1)
    reach = 1.96 * less.std(ddof=1) / np.sqrt(SEEDS)
    n_sure, n_right = np.array(sure).sum(axis=0).tolist()
    return (
        kind.title, *(f"{share:.3f}" for share in shares.mean(axis=0)), f"{less.mean():+.3f} ± {reach:.3f}",
        *(f"{share:.3f}" for share in np.array(said).mean(axis=0)), f"{n_sure / SEEDS / kind.n_tasks:.2f}",
        f"{n_right / n_sure:.3f}" if n_sure else "–",
    )  # fmt: skip


def main() -> None:
    parser_of(__doc__).parse_args()
    rows = [measure(kind) for kind in KINDS]
    publish("odd_crowds", "Crowds on which nothing was chosen", HEADER, rows, note=NOTE)


NOTE = (
    f"Means of {SEEDS} crowds of each kind; no setting was chosen with them in view, but that `auto` also "
    "predicts labels by a worker's habit, on other crowds of the last two kinds. `auto` is what a run takes "
    "by default: the pool, in which workers who do not answer on their own have one vote; no gold. "
    "The difference is to the better of the two rules in each crowd, which nobody knows beforehand. The "
    "model: the pool's own posterior; confidence: `calibrate` from labels alone, in the mean over all tasks. "
    f"Sure of: the share of tasks whose confidence is {SURE} or more, and how many of their labels are "
    "right. These workers err independently of each other, which those of public crowds do not, and "
    "confidence without gold allows for that: it is too low here, most where a model corrects what votes "
    "get wrong (a rare class, names swapped)."
)


if __name__ == "__main__":
    main()
