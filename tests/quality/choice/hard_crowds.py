"""Crowds that mislead: who guess, who take a class for another, and who share hardly a task."""

import numpy as np

from quality import CrowdLabels, encode, regular_assignment


def hardly_knowing(
    skill: float | np.ndarray, n_classes: int, seed: int
) -> tuple[CrowdLabels, np.ndarray]:
    """100 workers who give the truth as often as `skill` says and else guess, 5 labels a task."""
    rng = np.random.default_rng(seed)
    asked = regular_assignment(n_tasks=1000, n_workers=100, labels_per_task=5, rng=rng)
    truth = rng.integers(n_classes, size=1000)
    hers = np.broadcast_to(skill, 100)[asked.worker]
    knows, guessed = rng.random(5000) < hers, rng.integers(n_classes, size=5000)
    given_labels = np.where(knows, truth[asked.task], guessed)
    return encode(asked.worker, asked.task, given_labels), truth


def taking_each_for_the_next(*, n_tasks: int, seed: int) -> tuple[CrowdLabels, np.ndarray]:
    """Five classes, 30 labels a worker, 5 a task: .6 are right, and .35 name the class after the truth."""
    rng = np.random.default_rng(seed)
    rows = regular_assignment(n_tasks=n_tasks, n_workers=n_tasks // 6, labels_per_task=5, rng=rng)
    truth = rng.integers(5, size=n_tasks)
    apart = rng.choice(3, len(rows.task), p=[0.6, 0.35, 0.05])
    return encode(rows.worker, rows.task, (truth[rows.task] + apart) % 5), truth


def mostly_alone(seed: int) -> tuple[CrowdLabels, np.ndarray]:
    """30 workers and five classes; a quarter of 1,200 tasks have two labels, the others one.

    Workers are right on .45 in the mean, and err alike on a class.
    """
    rng = np.random.default_rng(seed)
    truth, skill = rng.integers(5, size=1200), rng.beta(2, 2.5, size=30)
    task = np.sort(np.concatenate([np.arange(1200), np.arange(300)]))
    worker = np.where(np.arange(1500) < 600, np.arange(1500), rng.integers(30, size=1500)) % 30
    errors = rng.dirichlet(np.full(5, 0.7), size=5)
    wrong = (rng.random(1500)[:, np.newaxis] > errors.cumsum(axis=1)[truth[task]]).sum(axis=1)
    label = np.where(rng.random(1500) < skill[worker], truth[task], wrong.clip(max=4))
    return encode(worker, task, label), truth
