"""A small campaign on disk, quick enough to be run many times; the oracle of no number."""

from __future__ import annotations

from pathlib import Path

import numpy as np

CLASSES = ("a", "b", "c")
MIXES = (
    (0.6, 0.2, 0.2),
    (0.2, 0.6, 0.2),
    (0.2, 0.2, 0.6),
    (0.5, 0.4, 0.1),
    (0.1, 0.5, 0.4),
    (0.4, 0.1, 0.5),
)
SETTINGS = """\
name = "small"
classes = ["a", "b", "c"]
[input]
labels = "labels.csv"
tasks = ["tasks.csv"]
gold = "gold.csv"
[filter]
fraction = 0.1
[privacy]
epsilon = 20.0
proportions_epsilon = 2.0
[model]
epsilon_train = 6.0
epsilon_select = 1.0
epsilon_score = 0.5
norm_bound = 4.0
regularization = [0.01, 0.1]
[gate]
sigma = 0.02
budget = 2
"""


def write_small_campaign(folder: Path) -> Path:
    """Six labelled groups of 60 tasks, two unlabelled of 40, 15 workers of whom two answer at random."""
    rng = np.random.default_rng(7)
    folder.mkdir(parents=True, exist_ok=True)
    group = np.repeat([f"g{j}" for j in range(6)] + ["u0", "u1"], [60] * 6 + [40] * 2)
    mixes = np.array([*MIXES, (0.7, 0.1, 0.2), (0.1, 0.3, 0.6)])
    index = np.repeat(np.arange(8), [60] * 6 + [40] * 2)
    truth = np.array([rng.choice(3, p=mixes[j]) for j in index])
    features = 2.0 * np.eye(3)[truth] + rng.normal(size=(truth.size, 3))
    names = [f"t{j:03d}" for j in range(truth.size)]
    rows = [
        f"{names[j]},{group[j]}," + ",".join(f"{value:.3f}" for value in features[j])
        for j in range(truth.size)
    ]
    _write(folder / "tasks.csv", "task,group,x0,x1,x2", rows)
    labels = []
    for j in np.flatnonzero(index < 6):
        for worker in rng.choice(15, size=5, replace=False):
            right = worker >= 2 and rng.random() < 0.85
            labels.append(
                f"w{worker:02d},{names[j]},{CLASSES[truth[j] if right else rng.integers(3)]}"
            )
    _write(folder / "labels.csv", "worker,task,label", labels)
    gold = rng.choice(360, size=50, replace=False)
    _write(folder / "gold.csv", "task,label", [f"{names[j]},{CLASSES[truth[j]]}" for j in gold])
    (folder / "settings.toml").write_text(SETTINGS, encoding="utf-8")
    return folder / "settings.toml"


def _write(path: Path, header: str, rows: list[str]) -> None:
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
