"""The filter that needs no gold: how often it errs on honest crowds, and what it finds in others.

    python -m benchmarks.quality.false_removal

The crowds are simulated, some without adversaries and some with 30 % of them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from benchmarks.publish import parser_of, publish
from quality import (
    CrowdLabels,
    encode,
    filter_workers,
    power_law_assignment,
    regular_assignment,
    simulate_crowd,
)
from quality.reputation.false_removal import filter_dishonest
from quality.simulation.crowds import STRATEGIES, Assignment

SHARE = 0.3  # of adversaries, where there are any
RATES = (0.1, 0.05)
# the tasks of each worker, and the number of classes
SHAPES: dict[str, tuple[Callable[..., Assignment], int]] = {
    "regular": (partial(regular_assignment, n_tasks=1000, n_workers=100, labels_per_task=10), 2),
    "power law": (partial(power_law_assignment, n_tasks=1500, n_workers=100, labels_per_task=6), 2),
    "small": (partial(regular_assignment, n_tasks=400, n_workers=60, labels_per_task=5), 3),
}


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--crowds", type=int, default=500, help="honest crowds of each shape")
    parser.add_argument("--others", type=int, default=20, help="crowds with adversaries, a row")
    chosen = parser.parse_args()
    rows = []
    for shape in SHAPES:
        rows.append((shape, "none", *errors(shape, chosen.crowds)))
        rows.extend((shape, name, *finds(shape, name, chosen.others)) for name in STRATEGIES)
    title = "What the false removal rate removes"
    publish("false_removal", title, HEADER, rows, note=NOTE.format(**vars(chosen)))


HEADER = (
    "shape",
    "adversaries",
    "crowds with a removal, rate 0.1",
    "rate 0.05",
    "adversaries found",
    "precision",
    "paper's rule, as many",
)
NOTE = (
    "Means, with standard errors of shares of crowds. Rows without adversaries: {crowds} crowds "
    "each, and the share of them that lose anybody, to be at most the rate plus two standard "
    "errors. The others: {others} crowds each, 30 % of the workers following one strategy, at "
    "rate 0.1; the share of them who are removed, the share of adversaries among the removed, and "
    "that share when the paper's rule (highest soft penalty first) removes as many from each "
    "crowd. Colluders share one script: they agree with each other and no penalty finds them "
    "(`dependent_groups` looks for them); no rule finds a worker who answers just as an honest "
    "one would, and none is listed. "
    "Random and uniform workers are found in part, because some honest ones are no "
    "better. Honest accuracies are Beta(12, 3): mean 0.8, and 0.6 % of the workers below 0.5. "
    "Regular: 100 workers, 1000 tasks, 10 labels a task, 2 classes, so 100 labels a worker. Power "
    "law: 100 workers, 1500 tasks, 6 labels a task, 2 classes; half of the workers have fewer "
    "than 60 labels. Small: 60 workers, 400 tasks, 5 labels a task, 3 classes, so 33 labels a "
    "worker."
)


def errors(shape: str, n_crowds: int) -> tuple[str, ...]:
    """Shares of honest crowds that lose anybody, at each rate."""
    lost = np.zeros((n_crowds, len(RATES)))
    for seed in range(n_crowds):
        labels, _ = crowd(shape, None, seed)
        for place, rate in enumerate(RATES):
            lost[seed, place] = len(_filter(labels, seed, rate)) > 0
            if not lost[seed, place]:  # same random numbers: a stricter rate removes nobody either
                break
    return (*(_share(some) for some in lost.T), "", "", "")


def finds(shape: str, strategy: str, n_crowds: int) -> tuple[str, ...]:
    """One row with adversaries: crowds with a removal, power, precision, the paper's precision."""
    found = np.zeros((n_crowds, 4))  # adversaries, removed, of them right, of the paper's right
    for seed in range(n_crowds):
        labels, adversary = crowd(shape, strategy, seed)
        removed = _filter(labels, seed, RATES[0])
        as_many = filter_workers(labels, n_workers=len(removed)).removed
        found[seed] = (
            adversary.sum(),
            len(removed),
            adversary[removed].sum(),
            adversary[as_many].sum(),
        )
    total = found.sum(axis=0)
    precision = [f"{hit / total[1]:.3f}" if total[1] else "–" for hit in total[2:]]
    return (_share(found[:, 1] > 0), "", f"{total[2] / total[0]:.2f}", *precision)


def crowd(shape: str, strategy: str | None, seed: int) -> tuple[CrowdLabels, np.ndarray]:
    """Labels, and whether each worker is an adversary."""
    rng = np.random.default_rng([2014, seed])
    assign, n_classes = SHAPES[shape]
    assignment = assign(rng=rng)
    adversaries = {strategy: round(SHARE * assignment.n_workers)} if strategy else {}
    truth = rng.integers(n_classes, size=assignment.n_tasks)
    answers = simulate_crowd(
        assignment, truth, n_classes=n_classes, adversaries=adversaries, rng=rng
    )
    classes = range(n_classes)
    labels = encode(answers.worker, answers.task, answers.label, classes=classes)
    return labels, (answers.kind != "honest")[labels.workers]


def _filter(labels: CrowdLabels, seed: int, rate: float) -> np.ndarray:
    """Who is removed."""
    rng = np.random.default_rng([100, seed])
    return filter_dishonest(labels, false_removal_rate=rate, rng=rng).removed


def _share(some: np.ndarray) -> str:
    share = float(np.mean(some))
    return f"{share:.3f} ± {np.sqrt(share * (1 - share) / len(some)):.3f}"


if __name__ == "__main__":
    main()
