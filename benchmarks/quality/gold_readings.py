"""Panels of models alone, read as 100 gold tasks teach: how many labels are right, and how sure they are.

python -m benchmarks.quality.gold_readings
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from benchmarks.publish import parser_of, publish
from benchmarks.quality.dependence import PANELS, panel_of
from flows.stages.learning.task_voices import MIN_TRUTHS
from learners import read_by_gold
from quality import CrowdLabels, auto, calibrate, dependent_groups, encode
from quality.confidence import calibration_error

N_GOLD, N_TASKS = 100, 1_000
FEW = 3  # models of the smaller panels
ALONE = (
    (2, 5, 0.75),
    (3, 8, 0.7),
    (5, 6, 0.6),
)  # classes, judges, how often each is right or else guesses


@dataclass(frozen=True)
class Judged:
    """A panel's answers and truth, the code -1 where it is not known."""

    title: str
    labels: CrowdLabels
    gold: np.ndarray


def real_panels() -> Iterator[list[Judged]]:
    """Each panel of AltTest; and all sets of three of its models."""
    for name in PANELS:
        panel = panel_of(name)
        models = sorted({row[0] for row in panel.models})
        for size in (len(models), FEW):
            title = f"{name}, {'all' if size == len(models) else 'every'} {size} models"
            yield [
                judged(title, [row for row in panel.models if row[0] in some], panel.classes, panel.gold)
                for some in combinations(models, size)
            ]  # fmt: skip


def judged(
    title: str, rows: list[tuple[str, str, str]], classes: list[str], truth: dict[str, str]
) -> Judged:
    labels = encode(*zip(*rows, strict=True), classes=classes)
    code = {known: at for at, known in enumerate(classes)}
    return Judged(
        title, labels, np.array([code.get(truth.get(t, ""), -1) for t in labels.tasks.tolist()])
    )


def each_on_their_own() -> Iterator[list[Judged]]:
    """Simulated judges whose errors nothing joins, for whom a consensus is as good as can be."""
    for n_classes, n_judges, accuracy in ALONE:
        title = f"each on their own: {n_classes} classes, {n_judges} judges"
        found = []
        for seed in range(5):
            rng = np.random.default_rng(seed)
            truth = rng.integers(n_classes, size=N_TASKS)
            skill = np.clip(accuracy + rng.normal(0, 0.08, n_judges), 0.2, 0.95)
            guess = rng.integers(n_classes, size=(N_TASKS, n_judges))
            knows = rng.random((N_TASKS, n_judges)) < skill
            given = np.where(knows, truth[:, np.newaxis], guess)
            judges, tasks = (
                np.tile(np.arange(n_judges), N_TASKS),
                np.repeat(np.arange(N_TASKS), n_judges),
            )
            labels = encode(judges, tasks, given.ravel(), classes=list(range(n_classes)))
            found.append(Judged(title, labels, truth))
        yield found


def measure(panel: Judged, n_draws: int) -> tuple[float, list[list[float]]]:
    """Return the best judge's share right; and of each draw of gold, by the other tasks: right and error.

    First by the consensus and its confidence, then as read.
    """
    labels, gold = panel.labels, panel.gold
    judges = np.arange(labels.n_workers)
    groups = dependent_groups(labels, models=judges).group
    posterior = auto(labels).posterior
    answers = np.full((labels.n_tasks, labels.n_workers), -1)
    answers[labels.task, labels.worker] = labels.label
    known, rows = np.flatnonzero(gold >= 0), []
    best = max(float(np.mean(answers[known, judge] == gold[known])) for judge in judges)
    for seed in range(n_draws):
        order = np.random.default_rng(seed).permutation(known)
        n_given = min(N_GOLD, max(MIN_TRUTHS, len(known) // 2))
        some = np.full(len(gold), -1)
        some[order[:n_given]] = gold[order[:n_given]]
        read = read_by_gold(answers, posterior, some, rng=np.random.default_rng(0)).probabilities
        figures = []
        for belief in (posterior, read):
            sure = calibrate(labels, belief, gold=some, groups=groups)
            others = order[n_given:]
            right = sure.label[others] == gold[others]
            figures += [
                100 * float(right.mean()),
                calibration_error(sure.confidence[others], right),
            ]
        rows.append(figures)
    return best, rows


def row_of(panels: list[Judged], n_draws: int) -> tuple[str, ...]:
    """Means and half-widths over panels and draws; the worst panel against its best judge."""
    found = [measure(panel, n_draws) for panel in panels]
    table = np.array([row for _, rows in found for row in rows])
    reach = 1.96 * table.std(axis=0, ddof=1) / np.sqrt(len(table))
    below = min(np.mean(rows, axis=0)[2] - 100 * best for best, rows in found)
    n_gold = int(np.mean([(panel.gold >= 0).sum() for panel in panels]))
    right, error, read, read_error = (
        f"{mean:.{digits}f} ± {half:.{digits}f}"
        for mean, half, digits in zip(table.mean(axis=0), reach, (1, 3, 1, 3), strict=True)
    )
    best = f"{100 * np.mean([one for one, _ in found]):.1f}"
    return panels[0].title, f"{n_gold:,}", best, right, read, f"{below:+.1f}", error, read_error


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--draws", type=int, default=20, help="draws of gold tasks per panel")
    n_draws = parser.parse_args().draws
    rows = []
    for panels in (*real_panels(), *each_on_their_own()):
        rows.append(row_of(panels, max(n_draws // len(panels), 2)))
        print(*rows[-1], sep=" | ", flush=True)
    header = (
        "panel", "gold", "best judge", "consensus", "read", "read, worst against best judge",
        "calibration error, consensus", "calibration error, read",
    )  # fmt: skip
    publish("gold_readings", "Panels of models, read as gold teaches", header, rows, note=NOTE)


NOTE = (
    "Per cent right, and expected calibration error of the confidence (15 bins), of the gold tasks that "
    f"were not given; {N_GOLD} random ones are, or half of them, {MIN_TRUTHS} at least, where there are "
    "fewer than 200. Mean over panels and draws of gold, and half-width of its 95 % interval, as if draws "
    "were apart. Consensus: `auto`, the default of a run, and `calibrate` with the same gold, one vote "
    "for the panel. Read: `read_by_gold` of the same consensus, as a run reads a panel of models alone, "
    "and `calibrate` after it. Panels of AltTest (gold is the strict majority of two people or more), "
    "whole and by every three of their models; and simulated judges who err each on their own, for whom "
    "the consensus is as good as can be. Best judge: the one who is right most often on all gold, whom "
    "nobody knows beforehand. The form of the reading, its penalties and powers were chosen with these "
    "panels and judges in view: the figures are a fit."
)


if __name__ == "__main__":
    main()
