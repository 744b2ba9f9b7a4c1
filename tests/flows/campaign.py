"""A small campaign on disk, quick enough to be run many times, and a toy of which no table is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from flows.run import Crowd, Run
from flows.settings import Settings
from flows.tables import Gold, TaskTable
from quality import CrowdLabels

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


def toy_settings(folder: Path, **sections: Any) -> Settings:
    """Settings of a campaign of two classes, whose tables are nowhere."""
    given: dict[str, Any] = {"privacy": {"epsilon": 4.0}} | sections
    tables = {"labels": "labels.csv", "tasks": ["tasks.csv"], "gold": "gold.csv"}
    given["input"] = tables | sections.get("input", {})
    places = {"runs": folder / "runs", "state": folder / "state"}
    return Settings.model_validate({"name": "toy", "classes": ["a", "b"], **places, **given})


def toy_crowd(
    groups: str, *, gold: str = "", subjects: str = "", n_features: int = 2, table: bool = True
) -> Crowd:
    """Tasks t000, t001 and on: a letter each for group, true class (or a dash) and subject."""
    tasks = np.array([f"t{j:03d}" for j in range(len(groups))])
    codes, none = np.arange(len(groups)), np.zeros(len(groups), np.int64)
    labels = CrowdLabels.from_codes(
        none, codes, none, workers=np.array(["w"]), tasks=tasks, classes=np.array(["a", "b"])
    )
    names, group = np.unique(list(groups), return_inverse=True)
    features = np.arange(float(len(groups) * n_features)).reshape(len(groups), n_features)
    whose = np.array(list(subjects)) if subjects else None
    known = [j for j, one in enumerate(gold) if one != "-"]
    return Crowd(
        labels,
        TaskTable(tasks, group, names, features, tuple("xyz"[:n_features]), whose)
        if table
        else None,
        Gold(tasks[known], np.array(list(gold))[known]) if known else None,
    )


def toy_run(settings: Settings, consensus: str, *, publication: str | None = None) -> Run:
    """A run of the toy that has come as far as its consensus, a letter for each task's class."""
    folder = settings.runs / f"1-{settings.name}"
    folder.mkdir(parents=True, exist_ok=True)
    run = Run(folder, settings)
    run.write_json("manifest.json", {"name": settings.name, "publication": publication})
    run.write_table("consensus.parquet", pa.table({"label": list(consensus)}))
    return run
