"""When to trust which aggregator: simulated crowds of known truth, in one picture.

python -m benchmarks.quality.when_to_trust
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from benchmarks.publish import parser_of, publish
from benchmarks.quality.crowd_sets import right
from quality import (
    Consensus,
    CrowdLabels,
    auto,
    dawid_skene,
    encode,
    hierarchical_dawid_skene,
    mace,
    majority_vote,
    one_coin_dawid_skene,
    regular_assignment,
)

N_TASKS, SEEDS = 1_000, 3
TASK_LABELS = (2, 3, 5, 9)
WORKER_LABELS = (5, 20, 80, 320)
# points by which a rule of more parameters must beat a simpler one to be called the best
WORTH = 0.3
RULES: dict[str, tuple[str, Callable[[CrowdLabels], Consensus]]] = {
    "MV": ("majority vote", majority_vote),
    "1C": ("one coin", one_coin_dawid_skene),
    "MACE": ("MACE", mace),
    "HDS": ("hierarchical DS", hierarchical_dawid_skene),
    "DS": ("Dawid–Skene", dawid_skene),
}  # the fewest parameters first
MOST_REGRET = 3.0  # points, where the colours end
HEADER = (
    "crowd", "labels a task", "labels a worker", *(title for title, _ in RULES.values()), "auto",
    "best rule", "regret of auto", "regret of hierarchical DS",
)  # fmt: skip
NOTE = (
    f"Per cent of {N_TASKS:,} tasks right, ties in expectation, mean of {SEEDS} crowds; workers have "
    "equally many labels. Classes are drawn in the shares 1, 1/2, ..., 1/classes. alike: a worker is "
    "right with a probability of her own, mean .7, and errs evenly. own confusions: a row of her own "
    "for each class, Dirichlet of strength 4 about .65 for the truth and even errors. neighbours: the "
    "same about .55 for the truth and .3 for the class after it, which the whole crowd confuses. "
    "adversaries: alike, but a sixth of the workers answer at random and a sixth are always wrong. "
    f"Best rule: the one of fewest parameters within {WORTH} points of the best of the five. Regret: "
    "points under the best of the five; below 0 the pool is above all of them. No figure was settled on "
    "these crowds, but that the pool hears common errors was thought of with `neighbours` in view. In the "
    "picture the colour is the regret of `auto`, a run's default, and the word "
    "the best rule."
)


@dataclass(frozen=True)
class Kind:
    """A kind of crowd: its classes, and P(label | truth) of so many workers."""

    title: str
    n_classes: int
    confusion: Callable[[int, int, np.random.Generator], np.ndarray]


@dataclass(frozen=True)
class Cell:
    """Mean per cent right of each rule, and of `auto`, on crowds of one kind and shape."""

    kind: Kind
    shape: tuple[int, int]  # labels a task, labels a worker
    rules: dict[str, float]
    auto: float

    @property
    def best(self) -> str:
        """The simplest of the rules that are as good as the best."""
        most = max(self.rules.values())
        return next(name for name, score in self.rules.items() if score >= most - WORTH)

    def regret(self, score: float) -> float:
        """Points of a score under the best rule's."""
        return max(self.rules.values()) - score


def alike(n_workers: int, n_classes: int, rng: np.random.Generator) -> np.ndarray:
    """One reliability each, in [.4, 1], and even errors."""
    right_share = rng.uniform(0.4, 1.0, size=(n_workers, 1, 1))
    wrong = (1 - right_share) / (n_classes - 1)
    return np.where(np.eye(n_classes, dtype=bool), right_share, wrong)


def with_adversaries(n_workers: int, n_classes: int, rng: np.random.Generator) -> np.ndarray:
    """A sixth answer at random, a sixth never give the truth."""
    confusion, other = alike(n_workers, n_classes, rng), rng.permutation(n_workers)
    sixth = round(n_workers / 6)
    confusion[other[:sixth]] = 1 / n_classes
    confusion[other[sixth : 2 * sixth]] = (1 - np.eye(n_classes)) / (n_classes - 1)
    return confusion


def own_confusions(n_workers: int, n_classes: int, rng: np.random.Generator) -> np.ndarray:
    """Rows about .65 for the truth and even errors."""
    return rows_about(even_rows(n_classes, 0.65), n_workers, rng)


def neighbours(n_workers: int, n_classes: int, rng: np.random.Generator) -> np.ndarray:
    """Rows about .55 for the truth and .3 for the class after it."""
    mean = even_rows(n_classes, 0.55) * 0.15 / 0.45
    mean[np.diag_indices(n_classes)] = 0.55
    mean += 0.3 * np.roll(np.eye(n_classes), 1, axis=1)
    return rows_about(mean / mean.sum(axis=1, keepdims=True), n_workers, rng)


def even_rows(n_classes: int, right_share: float) -> np.ndarray:
    wrong = (1 - right_share) / (n_classes - 1)
    return np.where(np.eye(n_classes, dtype=bool), right_share, wrong)


def rows_about(mean: np.ndarray, n_workers: int, rng: np.random.Generator) -> np.ndarray:
    """Dirichlet rows of strength 4 for each worker."""
    return np.stack([rng.dirichlet(4 * row, size=n_workers) for row in mean], axis=1)


KINDS = (
    Kind("2 classes, alike", 2, alike),
    Kind("2 classes, adversaries", 2, with_adversaries),
    Kind("2 classes, own confusions", 2, own_confusions),
    Kind("5 classes, alike", 5, alike),
    Kind("5 classes, own confusions", 5, own_confusions),
    Kind("5 classes, neighbours", 5, neighbours),
)


def main() -> None:
    parser_of(__doc__).parse_args()
    shapes = [(per_task, per_worker) for per_task in TASK_LABELS for per_worker in WORKER_LABELS]
    cells = [measure(kind, shape) for kind in KINDS for shape in shapes]
    rows = [table_row(cell) for cell in cells]
    average = {name: np.mean([cell.rules[name] for cell in cells]) for name in RULES}
    mean, single = np.mean([cell.auto for cell in cells]), average["HDS"]
    best = np.mean([max(cell.rules.values()) for cell in cells])
    rows.append(
        ("mean", "", "", *(f"{score:.1f}" for score in average.values()), f"{mean:.1f}", "",
         f"{best - mean:.2f}", f"{best - single:.2f}")
    )  # fmt: skip
    title = "When to trust which aggregator"
    publish("when_to_trust", title, HEADER, rows, note=NOTE, picture=draw(cells))


def measure(kind: Kind, shape: tuple[int, int]) -> Cell:
    """Every rule on crowds of every seed."""
    scores = dict.fromkeys((*RULES, "auto"), 0.0)
    for seed in range(SEEDS):
        labels, truth = crowd(kind, shape, np.random.default_rng(seed))
        for name, rule in {
            **{name: rule for name, (_, rule) in RULES.items()},
            "auto": auto,
        }.items():
            scores[name] += right(rule(labels).posterior, truth) / SEEDS
    return Cell(kind, shape, {name: scores[name] for name in RULES}, scores["auto"])


def crowd(
    kind: Kind, shape: tuple[int, int], rng: np.random.Generator
) -> tuple[CrowdLabels, np.ndarray]:
    """A crowd's labels and the truth."""
    per_task, per_worker = shape
    n_workers = max(per_task, round(N_TASKS * per_task / per_worker))
    asked = regular_assignment(
        n_tasks=N_TASKS, n_workers=n_workers, labels_per_task=per_task, rng=rng
    )
    share = 1 / np.arange(1, kind.n_classes + 1)
    truth = rng.choice(kind.n_classes, size=N_TASKS, p=share / share.sum())
    confusion = kind.confusion(n_workers, kind.n_classes, rng)[asked.worker, truth[asked.task]]
    label = (rng.random((len(confusion), 1)) > np.cumsum(confusion, axis=1)[:, :-1]).sum(axis=1)
    classes = list(range(kind.n_classes))
    labels = encode(asked.worker, asked.task, label, classes=classes)
    return labels, truth[labels.tasks]


def table_row(cell: Cell) -> tuple[str, ...]:
    rules = [f"{score:.1f}" for score in cell.rules.values()]
    regrets = [f"{cell.regret(score):.1f}" for score in (cell.auto, cell.rules["HDS"])]
    per_task, per_worker = map(str, cell.shape)
    return (cell.kind.title, per_task, per_worker, *rules, f"{cell.auto:.1f}",
            RULES[cell.best][0], *regrets)  # fmt: skip


def draw(cells: list[Cell]) -> Figure:
    """A panel for each kind of crowd, on a white ground: it reads alike on light and dark pages."""
    figure = Figure(figsize=(11, 7), layout="constrained", facecolor="white")
    panels = figure.subplots(2, 3).ravel()
    for panel, kind in zip(panels, KINDS, strict=True):
        mine = {cell.shape: cell for cell in cells if cell.kind is kind}
        regret = np.array(
            [[mine[a, b].regret(mine[a, b].auto) for b in WORKER_LABELS] for a in TASK_LABELS]
        )
        image = panel.imshow(
            regret.clip(0), vmin=0, vmax=MOST_REGRET, cmap="YlOrBr", origin="lower", aspect="auto"
        )
        for (row, column), value in np.ndenumerate(regret):
            cell = mine[TASK_LABELS[row], WORKER_LABELS[column]]
            ink = "white" if value > 0.6 * MOST_REGRET else "black"
            panel.text(column, row + 0.12, cell.best, ha="center", color=ink, weight="bold")
            panel.text(column, row - 0.22, f"{cell.auto:.0f} %", ha="center", color=ink, size=8)
        panel.set_title(kind.title)
        panel.set_xticks(range(len(WORKER_LABELS)), map(str, WORKER_LABELS))
        panel.set_yticks(range(len(TASK_LABELS)), map(str, TASK_LABELS))
        panel.set_xlabel("labels a worker")
        panel.set_ylabel("labels a task")
    label = "points of auto under the best single rule"
    figure.colorbar(image, ax=panels, label=label, shrink=0.7)
    key = ", ".join(f"{name}: {title}" for name, (title, _) in RULES.items())
    figure.suptitle(f"In each field the best rule, and what auto gets right\n{key}", fontsize=10)
    return figure


if __name__ == "__main__":
    main()
