"""Cliques whose members share few tasks, as accounts that each give few labels do; and honest crowds.

python -m benchmarks.quality.scattered_cliques
"""

from __future__ import annotations

from itertools import product

import numpy as np

from benchmarks.publish import parser_of, publish
from benchmarks.quality.crowd_sets import right
from benchmarks.quality.dependence import Crowd, odd_crowd
from quality import auto, dependent_groups, encode, majority_vote, regular_assignment

SHAPES = ((6, 50, 500), (15, 50, 500), (40, 200, 1000), (60, 200, 1000))  # members, workers, tasks
CLASSES, ACCURACIES, PER_TASK, SEEDS = (2, 4), (None, 0.65, 0.75), 5, 5
HONEST = (
    ("wide", 2), ("wide", 5), ("confused", 2), ("confused", 5), ("rare", 2), ("one-sided", 2), ("graded", 5),
    ("lenient or strict", 5), ("of hard tasks", 2), ("tempted", 4), ("tempted", 8),
)  # fmt: skip
HONEST_SHAPES = ((50, 500), (200, 1000), (40, 1000), (20, 300))  # workers, tasks
HEADER = (
    "members", "of workers", "classes", "their source is right", "majority vote", "auto", "auto, weighed",
    "auto without them", "members found", "honest workers held",
)  # fmt: skip
NOTE = (
    f"Per cent right, means of {SEEDS} crowds a row: {PER_TASK} labels a task by workers with equally many, "
    "so that two of 50 workers share some five of 500 tasks, and two of 200 half a one of 1,000. Honest "
    "accuracies are Beta(12, 3); all members give the answers of one source, which is right so often. "
    "Weighed: `groups=dependent_groups(labels).group`. **Honest crowds** of the kinds of the page "
    "`dependence_honest`, {per_task} labels a task, {shapes} workers on tasks, {n_seeds} of each: {n_false} "
    "of {n_crowds} have a group, of {n_held} workers in all: {where}."
)


def crowd(
    n_members: int, n_workers: int, n_tasks: int, n_classes: int, accuracy: float, seed: int
) -> Crowd:
    """Workers of whom some give the answers of one source."""
    rng = np.random.default_rng([seed, n_members, n_classes])
    rows = regular_assignment(
        n_tasks=n_tasks, n_workers=n_workers, labels_per_task=PER_TASK, rng=rng
    )
    truth = rng.integers(n_classes, size=n_tasks)
    reliability = rng.beta(12, 3, n_workers)

    def drawn(right_share: np.ndarray, task: np.ndarray) -> np.ndarray:
        known = rng.random(len(task)) < right_share
        wrong = (truth[task] + rng.integers(1, n_classes, len(task))) % n_classes
        return np.where(known, truth[task], wrong)

    source = drawn(np.full(n_tasks, accuracy), np.arange(n_tasks))
    member = np.isin(np.arange(n_workers), rng.permutation(n_workers)[:n_members])
    own = drawn(reliability[rows.worker], rows.task)
    label = np.where(member[rows.worker], source[rows.task], own)
    labels = encode(rows.worker, rows.task, label, classes=range(n_classes))
    return Crowd(labels, truth[labels.tasks.astype(int)], ~member[labels.workers.astype(int)])


def clique_row(
    shape: tuple[int, int, int], n_classes: int, accuracy: float | None
) -> tuple[str, ...]:
    """Means over crowds of one kind."""
    share = 1 / n_classes if accuracy is None else accuracy
    found = []
    for seed in range(SEEDS):
        one = crowd(*shape, n_classes, share, seed)
        group = dependent_groups(one.labels).group
        tables = (
            majority_vote(one.labels), auto(one.labels), auto(one.labels, groups=group),
            auto(one.labels.keep_workers(one.honest)),
        )  # fmt: skip
        held = group >= 0
        scores = [right(table.posterior, one.truth) for table in tables]
        found.append([*scores, 100 * held[~one.honest].mean(), held[one.honest].sum()])
    *scores, members, honest = np.mean(found, axis=0)
    return (
        str(shape[0]), str(shape[1]), str(n_classes), f"{100 * share:.0f} %",
        *(f"{score:.1f}" for score in scores), f"{members:.0f} %", f"{honest:.1f}",
    )  # fmt: skip


def honest_facts() -> dict[str, str | int]:
    """Honest crowds in which anybody is put into a group."""
    n_crowds, held = 0, dict[str, list[int]]()
    for (kind, n_classes), (n_workers, n_tasks) in product(HONEST, HONEST_SHAPES):
        for seed in range(2 * SEEDS):
            one = odd_crowd(kind, n_workers, n_tasks, PER_TASK, n_classes, 0, seed)
            n_held = int((dependent_groups(one.labels).group >= 0).sum())
            n_crowds += 1
            if n_held:
                held.setdefault(f"{kind}, {n_classes} classes", []).append(n_held)
    return {
        "per_task": PER_TASK,
        "shapes": ", ".join(f"{n_workers} × {n_tasks:,}" for n_workers, n_tasks in HONEST_SHAPES),
        "n_seeds": 2 * SEEDS,
        "n_crowds": n_crowds,
        "n_false": sum(map(len, held.values())),
        "n_held": sum(map(sum, held.values())),
        "where": "; ".join(f"{kind} {len(sizes)}" for kind, sizes in held.items()) or "none",
    }


def main() -> None:
    parser_of(__doc__).parse_args()
    kinds = product(SHAPES, CLASSES, ACCURACIES)
    rows = [clique_row(shape, n_classes, accuracy) for shape, n_classes, accuracy in kinds]
    title = "Cliques whose members share few tasks"
    publish("scattered_cliques", title, HEADER, rows, note=NOTE.format(**honest_facts()))


if __name__ == "__main__":
    main()
