"""Kinds of workers and strata of tasks: found where they are, and none where there are none."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from flows.pipeline import run_pipeline
from flows.settings import load_settings
from flows.stages.learning.archetypes import worker_rows
from learners import PairwiseRiskClustering
from quality import encode, hierarchical_dawid_skene

CLASSES = "abc"
SETTINGS = """name = "kinds"
runs = "runs"
state = "state"
[input]
labels = "labels.csv"
{tasks}[filter]
n_workers = 0
[report]
archetypes = {asked}
"""


def crowd(seed: int, *, constant: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Worker, task and label of 40 workers on 800 tasks, so many of whom always say the first class."""
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(800), 5)
    worker = np.concatenate([rng.permutation(40)[:5] for _ in range(800)])
    truth, skill = rng.integers(3, size=800), rng.beta(8, 3, size=40)
    right = rng.random(4000) < skill[worker]
    label = np.where(right, truth[task], (truth[task] + rng.integers(1, 3, size=4000)) % 3)
    return worker, task, np.where(worker < constant, 0, label), truth


def campaign(
    folder: Path, *, constant: int, apart: float, asked: str = "true", features: int = 4
) -> Path:
    """The same as files; features of two kinds of tasks, so many standard deviations apart."""
    worker, task, label, _ = crowd(0, constant=constant)
    rows = [f"w{w:02d},t{t:03d},{CLASSES[k]}" for w, t, k in zip(worker, task, label, strict=True)]
    (folder / "labels.csv").write_text("\n".join(["worker,task,label", *rows]) + "\n", "utf-8")
    rng = np.random.default_rng(1)
    x = rng.normal(size=(800, features)) + apart * (np.arange(800) % 2)[:, np.newaxis]
    head = ",".join(["task", *(f"x{at}" for at in range(features))])
    cells = [",".join([f"t{at:03d}", *(f"{v:.4f}" for v in row)]) for at, row in enumerate(x)]
    (folder / "tasks.csv").write_text("\n".join([head, *cells]) + "\n", "utf-8")
    path = folder / "settings.toml"
    tasks = 'tasks = ["tasks.csv"]\n' if features else ""
    path.write_text(SETTINGS.format(asked=asked, tasks=tasks), "utf-8")
    return path


def test_workers_of_a_kind_and_strata_of_tasks_are_found(tmp_path: Path) -> None:
    folder = run_pipeline(load_settings(campaign(tmp_path, constant=8, apart=4.0))).folder
    found = json.loads((folder / "archetypes.json").read_text("utf-8"))
    workers, tasks = found["workers"], found["tasks"]
    assert workers["n"] == 40
    assert workers["n_clusters"] > 1
    (kind,) = (cell for cell in workers["cells"] if cell["share"] > 0.9)
    assert (kind["n"], kind["class"]) == (8, "a")
    assert workers["risk_interval"][0] < workers["risk"] < workers["risk_interval"][1]
    table = (
        pq.read_table(folder / "archetypes.parquet").to_pandas().set_index("worker")["archetype"]
    )
    assert table[[f"w{at:02d}" for at in range(8)]].nunique() == 1
    sizes = {kind: cell["n"] for kind, cell in enumerate(workers["cells"], 1)}
    assert table.value_counts().to_dict() == sizes  # called as in the report
    assert tasks["n_clusters"] == 2
    stratum = pq.read_table(folder / "strata.parquet").to_pandas().sort_values("task")["stratum"]
    assert stratum.value_counts().to_dict() == {
        kind: cell["n"] for kind, cell in enumerate(tasks["cells"], 1)
    }
    right = np.mean(stratum - 1 == np.arange(800) % 2)
    assert max(right, 1 - right) > 0.99
    page = (folder / "report.html").read_text("utf-8")
    assert "Kinds of workers, by what they answer" in page
    assert "800 tasks, by their features, fall into 2 cells" in page


def test_no_structure_is_said_where_there_is_none(tmp_path: Path) -> None:
    folder = run_pipeline(load_settings(campaign(tmp_path, constant=0, apart=0.0))).folder
    found = json.loads((folder / "archetypes.json").read_text("utf-8"))
    assert found["workers"]["n_clusters"] == found["tasks"]["n_clusters"] == 1
    assert "No structure: 40 workers" in (folder / "report.html").read_text("utf-8")


def test_structure_is_looked_for_only_where_it_is_asked_for(tmp_path: Path) -> None:
    path = campaign(tmp_path, constant=8, apart=0.0, asked="false", features=0)
    folder = run_pipeline(load_settings(path)).folder
    assert not list(folder.glob("archetypes*"))
    assert "Kinds of workers" not in (folder / "report.html").read_text("utf-8")


def test_workers_who_differ_in_skill_alone_are_rarely_split() -> None:
    """Of 40 such crowds 2 were split, of 24 with three or eight constant workers all.

    More than 3 of 10 are one in 1,000 at that rate.
    """
    found = {constant: [_n_kinds(seed, constant) for seed in range(10)] for constant in (0, 8)}
    assert np.count_nonzero(np.array(found[0]) > 1) <= 3
    assert min(found[8]) > 1


def _n_kinds(seed: int, constant: int) -> int:
    worker, task, label, _ = crowd(seed, constant=constant)
    labels = encode(worker, task, label)
    rows = worker_rows(labels, hierarchical_dawid_skene(labels).posterior)
    return int(PairwiseRiskClustering("auto", k_max=6, random_state=0).fit(rows).n_clusters_)


def test_rows_are_apart_by_hellinger_s_distance() -> None:
    """They are within [0, 1], and who always says one class is far from the others."""
    worker, task, label, truth = crowd(0, constant=1)
    labels = encode(worker, task, label)
    rows = worker_rows(labels, np.eye(3)[truth])
    apart = np.square(rows[:, np.newaxis] - rows).sum(axis=2)
    assert np.allclose(np.square(rows).sum(axis=1), 0.5)
    assert 0 < apart.max() < 1
    assert np.median(apart[0, 1:]) > 4 * np.median(apart[1:, 1:])
