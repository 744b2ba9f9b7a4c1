"""How often alpha's interval covers, and its CPU time beside the package krippendorff, which has none.

python -m benchmarks.quality.agreement
python -m benchmarks.quality.agreement 200 1000000        crowds a row, and labels of the timed table
"""

from __future__ import annotations

import json
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.peers.peers import KRIPPENDORFF
from benchmarks.publish import parser_of, publish
from quality import CrowdLabels, alpha_interval
from quality.agreement import METRICS, Metric

HEADER = ("what", "metric", "tasks", "labels a task", "alpha", "covered", "mean width", "CPU s")
NOTE = """Coverage: a pool of 50 workers whose chance to know a task's class is drawn once between the two
numbers, and who else guess one of the four classes by its share (0.4, 0.3, 0.2, 0.1). Tasks and the
workers on them are drawn anew in each of {crowds:,} crowds, and the interval of 95 % should cover
the alpha of that pool. With 2 to 5 labels a task the number is drawn too. One standard error of a
share of 95 % is {error:.2f} points; "no interval" counts crowds without one, which are left out.
Speed: process CPU seconds on {labels:,} labels, 5 a task, compiled before; krippendorff is given
the table of counts (tasks by classes), which is not in its time, and gives alpha alone."""

PRIOR = np.array([0.4, 0.3, 0.2, 0.1])
N_WORKERS = 50


@dataclass(frozen=True)
class Setting:
    """A campaign: how many tasks, how many labels on each, and how skilled the workers are."""

    n_tasks: int
    fewest: int
    most: int
    skill: tuple[float, float]


SETTINGS = (
    Setting(30, 3, 3, (0.5, 0.9)),
    Setting(100, 3, 3, (0.5, 0.9)),
    Setting(100, 2, 5, (0.5, 0.9)),
    Setting(100, 3, 3, (0.1, 0.5)),
    Setting(100, 3, 3, (0.85, 0.95)),
    Setting(1000, 2, 5, (0.5, 0.9)),
)


def places(metric: Metric, classes: np.ndarray) -> np.ndarray:
    """Where the classes lie, in the population; for nominal labels unused."""
    if metric == "ordinal":
        shares = PRIOR  # guesses follow the prior, so all labels do
        return np.cumsum(shares) - shares / 2
    return classes


def true_alpha(metric: Metric, skill: np.ndarray) -> float:
    """One minus the distance of two workers on one task over that of two labels from anywhere."""
    place = places(metric, np.arange(4.0))
    apart = 1.0 - np.eye(4) if metric == "nominal" else (place[:, None] - place) ** 2
    know = skill[:, None, None] * np.eye(4) + (1 - skill[:, None, None]) * PRIOR
    both = know.sum(axis=0)
    within = 0.0
    for truth in range(4):
        pairs = np.outer(both[truth], both[truth]) - know[:, truth].T @ know[:, truth]
        within += PRIOR[truth] * (pairs * apart).sum() / (N_WORKERS * (N_WORKERS - 1))
    return 1 - within / (PRIOR @ apart @ PRIOR)


def crowd(setting: Setting, skill: np.ndarray, rng: np.random.Generator) -> CrowdLabels:
    """Labels of one campaign."""
    n_labels = rng.integers(setting.fewest, setting.most + 1, setting.n_tasks)
    task = np.repeat(np.arange(setting.n_tasks), n_labels)
    drawn = rng.random((setting.n_tasks, N_WORKERS)).argsort(axis=1)
    worker = np.concatenate([row[:n] for row, n in zip(drawn, n_labels, strict=True)])
    truth = rng.choice(4, setting.n_tasks, p=PRIOR)[task]
    label = np.where(
        rng.random(len(task)) < skill[worker], truth, rng.choice(4, len(task), p=PRIOR)
    )
    names = {"workers": np.arange(N_WORKERS), "tasks": np.arange(setting.n_tasks)}
    return CrowdLabels.from_codes(worker, task, label, classes=np.arange(4), **names)


def coverage(setting: Setting, n_crowds: int) -> list[tuple[str, ...]]:
    """A row for each metric."""
    rng = np.random.default_rng(20)
    skill = rng.uniform(*setting.skill, N_WORKERS)
    found = {metric: [] for metric in METRICS}
    for _ in range(n_crowds):
        labels = crowd(setting, skill, rng)
        for metric in METRICS:
            one = alpha_interval(labels, metric, values=np.arange(4))
            found[metric].append((one.lower, one.upper))
    rows = []
    for metric in METRICS:
        ends = np.array(found[metric])
        there = np.isfinite(ends).all(axis=1)
        alpha = true_alpha(metric, skill)
        covered = ((ends[there, 0] <= alpha) & (alpha <= ends[there, 1])).mean()
        without = f", {(~there).sum()} no interval" if not there.all() else ""
        a_task = (
            f"{setting.fewest}"
            if setting.fewest == setting.most
            else f"{setting.fewest}–{setting.most}"
        )
        rows.append((
            f"coverage, skills {setting.skill[0]}–{setting.skill[1]}", metric, f"{setting.n_tasks:,}", a_task,
            f"{alpha:.3f}", f"{100 * covered:.1f} %{without}",
            f"{np.diff(ends[there], axis=1).mean():.3f}", "",
        ))  # fmt: skip
    return rows


def speed(n_labels: int) -> list[tuple[str, ...]]:
    """Ours with the interval, theirs without, on one table."""
    rng, n_tasks = np.random.default_rng(1), n_labels // 5
    first = rng.integers(0, 20_000, n_tasks)
    worker = ((first[:, None] + np.arange(5) * 4001) % 20_000).ravel()
    truth, task = np.repeat(rng.choice(4, n_tasks, p=PRIOR), 5), np.repeat(np.arange(n_tasks), 5)
    label = np.where(rng.random(len(task)) < 0.7, truth, rng.choice(4, len(task), p=PRIOR))
    names = {"workers": np.arange(20_000), "tasks": np.arange(n_tasks), "classes": np.arange(4)}
    labels = CrowdLabels.from_codes(worker, task, label, **names)
    theirs = peer(labels)
    rows = []
    for metric in METRICS:
        # compiles
        alpha_interval(labels.keep_labels(labels.task < 10), metric, values=np.arange(4))
        start = time.process_time()
        found = alpha_interval(labels, metric, values=np.arange(4))
        seconds = time.process_time() - start
        row = (metric, f"{n_tasks:,}", "5")
        width = f"{found.upper - found.lower:.4f}"
        rows.append(
            ("crowdassay, with interval", *row, f"{found.value:.9f}", "", width, f"{seconds:.2f}")
        )
        if theirs:
            value, other = theirs[metric]
            rows.append(("krippendorff 0.9.0", *row, f"{value:.9f}", "", "", f"{other:.2f}"))
    return rows


def peer(labels: CrowdLabels) -> dict[str, tuple[float, float]]:
    """What the package krippendorff says; nothing where it cannot be installed."""
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "counts.npz"
        np.savez(table, counts=labels.counts(), domain=labels.classes)
        printed = KRIPPENDORFF.run("krippendorff_side.py", str(table))
    return json.loads(printed) if printed else {}


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("crowds", nargs="?", type=int, default=4_000)
    parser.add_argument("labels", nargs="?", type=int, default=10_000_000)
    given = parser.parse_args()
    n_crowds, n_labels = given.crowds, given.labels
    rows = [row for setting in SETTINGS for row in coverage(setting, n_crowds)]
    note = " ".join(NOTE.split()).format(
        crowds=n_crowds, labels=n_labels, error=100 * (0.95 * 0.05 / n_crowds) ** 0.5
    )
    publish(
        "agreement",
        "Krippendorff's alpha with its interval",
        HEADER,
        rows + speed(n_labels),
        note=note,
    )


if __name__ == "__main__":
    main()
