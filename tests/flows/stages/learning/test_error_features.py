"""Features that go with errors are named where there are any, and seldom where there are none."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from flows.pipeline import run_pipeline
from flows.run import Crowd
from flows.settings import load_settings
from flows.stages.learning.decision_images import find_error_features
from flows.tables import Gold, TaskTable
from quality import encode

SETTINGS = """name = "errors"
runs = "runs"
state = "state"
[input]
labels = "labels.csv"
tasks = ["tasks.csv"]
gold = "gold.csv"
[filter]
n_workers = 0
[consensus]
aggregator = "majority_vote"
features = "ignore"
[report]
error_features = {asked}
"""


def drawn(seed: int, *, matters: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Truth, features and one label of 300 tasks; errors are three times as likely where x2 is large."""
    rng = np.random.default_rng(seed)
    truth, x = rng.integers(2, size=300), rng.normal(size=(300, 5))
    chance = np.where(x[:, 2] > 0.5, 0.6, 0.15) if matters else np.full(300, 0.25)
    return truth, x, np.where(rng.random(300) < chance, 1 - truth, truth)


def campaign(folder: Path, *, asked: str = "true") -> Path:
    """Three workers, the second and third of whom say what the first does."""
    truth, x, label = drawn(0, matters=True)
    rows = [f"w{w},t{t:03d},{'ab'[label[t]]}" for w in range(3) for t in range(300)]
    rows.append(f"w9,t000,{'ab'[1 - label[0]]}")
    files = {
        "labels.csv": ["worker,task,label", *rows],
        "gold.csv": ["task,label", *(f"t{t:03d},{'ab'[k]}" for t, k in enumerate(truth))],
        "tasks.csv": [
            "task,length,age,blur,night,x",
            *(",".join([f"t{t:03d}", *(f"{v:.4f}" for v in row)]) for t, row in enumerate(x)),
        ],
        "settings.toml": [SETTINGS.format(asked=asked)],
    }
    for name, lines in files.items():
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder / "settings.toml"


def test_the_feature_that_goes_with_errors_is_named(tmp_path: Path) -> None:
    folder = run_pipeline(load_settings(campaign(tmp_path))).folder
    found = json.loads((folder / "error_features.json").read_text("utf-8"))
    assert {row["feature"] for row in found["named"]} == {"blur"}
    assert all(row["t"] > 0 and row["p_value"] <= 0.05 for row in found["named"])
    page = (folder / "report.html").read_text("utf-8")
    assert "Features that go with errors, the clearest first" in page
    assert "blur" not in (folder / "public.html").read_text("utf-8")


def test_features_of_errors_are_looked_for_only_where_they_are_asked_for(tmp_path: Path) -> None:
    folder = run_pipeline(load_settings(campaign(tmp_path, asked="false"))).folder
    assert not (folder / "error_features.json").exists()


class Asked:
    """What the stage reads of a run."""

    def __init__(self, use_gold: bool = False) -> None:
        self.settings = self.consensus = self
        self.use_gold, self.seed = use_gold, 0


def crowd_of(truth: np.ndarray, x: np.ndarray, label: np.ndarray) -> Crowd:
    names = np.array([f"t{at:03d}" for at in range(len(truth))])
    labels = encode(["w"] * len(truth), names, label, classes=[0, 1])
    columns = tuple(f"x{at}" for at in range(x.shape[1]))
    table = TaskTable(names, np.zeros(len(names), np.int32), np.array(["all"]), x, columns)
    return Crowd(labels, table, Gold(names, truth))


def named(seed: int, *, matters: bool) -> int:
    truth, x, label = drawn(seed, matters=matters)
    return int(find_error_features(Asked(), crowd_of(truth, x, label), label)["n"])  # type: ignore[arg-type]


def test_where_no_feature_matters_one_is_seldom_named() -> None:
    """The level is .05: more than 6 of 30 draws are one in 2,000; where one matters it is named in all."""
    assert sum(named(seed, matters=False) > 0 for seed in range(30)) <= 6
    assert all(named(seed, matters=True) > 0 for seed in range(5))


@pytest.mark.parametrize(
    ("use_gold", "n_wrong", "why"),
    [(True, 40, "the gold was used"), (False, 0, "300 gold tasks, 0 of them wrong")],
)
def test_without_errors_on_gold_the_reason_is_said(use_gold: bool, n_wrong: int, why: str) -> None:
    truth, x, _ = drawn(0, matters=False)
    label = np.where(np.arange(300) < n_wrong, 1 - truth, truth)
    found = find_error_features(Asked(use_gold), crowd_of(truth, x, label), label)  # type: ignore[arg-type]
    assert why in found["why_not"]
