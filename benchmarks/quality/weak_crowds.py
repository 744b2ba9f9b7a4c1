"""Crowds who hardly know the answers: how often a consensus is right, and how sure of it labels alone make.

python -m benchmarks.quality.weak_crowds
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from benchmarks.publish import parser_of, publish
from quality import (
    Consensus,
    CrowdLabels,
    auto,
    calibrate,
    dawid_skene,
    encode,
    hierarchical_dawid_skene,
    majority_vote,
    regular_assignment,
)

N_TASKS, N_WORKERS, SEEDS = 1_000, 100, 10
SKILLS = (0.0, 0.1, 0.2, 0.4, 0.8)
RULES: dict[str, Callable[[CrowdLabels], Consensus]] = {
    "MV": majority_vote, "DS": dawid_skene, "hierarchical DS": hierarchical_dawid_skene, "auto": auto,
}  # fmt: skip


class Kind(NamedTuple):
    """A kind of crowd: classes, labels a task, the skill of those who know, and how many they are."""

    title: str
    n_classes: int
    n_labels: int
    skill: float
    knowing: float = 1.0


KINDS = (
    *(Kind("3 classes", 3, 5, skill) for skill in SKILLS),
    *(Kind("2 classes", 2, 5, skill) for skill in SKILLS),
    *(Kind("5 classes", 5, 10, skill) for skill in SKILLS),
    Kind("a tenth know", 3, 5, 0.9, 0.1),
    Kind("three tenths know", 3, 5, 0.9, 0.3),
    Kind("half know", 3, 5, 0.9, 0.5),
)


def crowd(kind: Kind, seed: int) -> tuple[CrowdLabels, np.ndarray]:
    """A crowd's labels and the truth: a label is the truth as often as a skill says, or a guess."""
    rng = np.random.default_rng(seed)
    asked = regular_assignment(
        n_tasks=N_TASKS, n_workers=N_WORKERS, labels_per_task=kind.n_labels, rng=rng
    )
    truth = rng.integers(kind.n_classes, size=N_TASKS)
    skill = np.where(np.arange(N_WORKERS) < kind.knowing * N_WORKERS, kind.skill, 0.0)
    guess = rng.integers(kind.n_classes, size=len(asked.task))
    knows = rng.random(len(asked.task)) < skill[asked.worker]
    given = np.where(knows, truth[asked.task], guess)
    labels = encode(asked.worker, asked.task, given, classes=list(range(kind.n_classes)))
    return labels, truth[labels.tasks]


def measure(kind: Kind) -> list[tuple[str, ...]]:
    """A row for each rule: share right, the model's confidence, and the adjusted one, over the seeds."""
    found: dict[str, list[tuple[float, float, float]]] = {rule: [] for rule in RULES}
    weights = []
    for seed in range(SEEDS):
        labels, truth = crowd(kind, seed)
        for rule, fit in RULES.items():
            sure = calibrate(labels, fit(labels).posterior)
            figures = (np.mean(sure.label == truth), sure.model.mean(), sure.confidence.mean())
            found[rule].append(tuple(map(float, figures)))  # type: ignore[arg-type]
            weights.append(sure.beyond_chance)
    about = (kind.title, f"{kind.skill:g}", f"{np.mean(weights):.2f}")
    return [(*about, rule, *map(interval, zip(*rows, strict=True))) for rule, rows in found.items()]


def interval(values: tuple[float, ...]) -> str:
    """A mean over crowds, and the half-width of its 95 % interval."""
    reach = 1.96 * np.std(values, ddof=1) / np.sqrt(len(values))
    return f"{np.mean(values):.3f} ± {reach:.3f}"


def main() -> None:
    parser_of(__doc__).parse_args()
    rows = [row for kind in KINDS for row in measure(kind)]
    header = ("crowd", "skill", "weight", "rule", "right", "the model says", "confidence says")
    publish("weak_crowds", "Crowds who hardly know the answers", header, rows, note=NOTE)


NOTE = (
    f"{N_TASKS:,} tasks, {N_WORKERS} workers, 5 labels a task (10 with five classes), no gold; mean of "
    f"{SEEDS} crowds and the half-width of its 95 % interval. A worker gives the truth as often as her "
    "skill says and else guesses, all classes alike: at skill 0 nobody knows anything. Right: share of "
    "consensus labels. The model: its own posterior. Confidence: `calibrate` from labels alone, a "
    "mixture of a regression settled on public crowds and of a guess, right as often as votes are for "
    "its class; weight: of the regression, by how far votes are alike beyond chance. Where a few know, "
    "they have skill .9 and the others 0: votes are little alike as they are, and more when weighed by "
    "how alike each worker's are on other tasks. The powers that make the weights were chosen with "
    "other draws of such crowds and the public sets in view; the regression's coefficients were settled "
    "on the public sets alone."
)


if __name__ == "__main__":
    main()
