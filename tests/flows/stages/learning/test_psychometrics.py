"""The tasks' ease separates skill from carelessness, without the worker's own labels."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from flows.pipeline import run_pipeline
from flows.run import Crowd
from flows.settings import load_settings
from flows.stages.learning.psychometrics import find_psychometrics, others_belief
from flows.tables import Gold, TaskTable, read_parquet
from quality import calibrate_support, encode, hierarchical_dawid_skene, task_support

N_TASKS, N_WORKERS, PER_TASK = 900, 24, 8
GOOD, POOR, CARELESS = range(3)


def drawn(seed: int) -> dict[str, np.ndarray]:
    """Truth, ease and answers: thirds of good workers, poor ones, and good ones that lapse in 25 %."""
    rng = np.random.default_rng(seed)
    truth, ease = rng.integers(2, size=N_TASKS), rng.exponential(1.0, N_TASKS) + 0.05
    kind = np.arange(N_WORKERS) % 3
    scale, lapse = np.array([0.3, 1.5, 0.3])[kind], np.array([0.0, 0.0, 0.25])[kind]
    worker = np.concatenate(
        [rng.choice(N_WORKERS, PER_TASK, replace=False) for _ in range(N_TASKS)]
    )
    task = np.repeat(np.arange(N_TASKS), PER_TASK)
    share = 0.5 + (0.5 - lapse[worker]) * (1 - np.exp(-((ease[task] / scale[worker]) ** 1.5)))
    label = np.where(rng.random(len(task)) < share, truth[task], 1 - truth[task])
    is_gold = rng.random(N_TASKS) < 0.3
    return {"truth": truth, "ease": ease, "worker": worker, "task": task, "label": label,
            "is_gold": is_gold, "kind": kind}  # fmt: skip


class Asked:
    """What the stage reads of a run, and the table that it writes."""

    def __init__(self, axis: str) -> None:
        self.settings = self.report = self.consensus = self
        self.psychometric, self.use_gold, self.seed = axis, False, 0

    def write_table(self, name: str, table: object) -> None:
        assert name == "psychometrics.parquet"
        self.table = table


def functions(axis: str, *, alone: bool = True) -> tuple[dict, dict[str, np.ndarray]]:
    d = drawn(0)
    tasks = np.array([f"t{at:04d}" for at in range(N_TASKS)])
    workers = np.array([f"w{at:02d}" for at in range(N_WORKERS)])
    labels = encode(workers[d["worker"]], tasks[d["task"]], d["label"], classes=[0, 1])
    side = (2 * d["truth"] - 1) * d["ease"]
    x = np.column_stack([side, -d["ease"]])
    table = TaskTable(tasks, np.zeros(N_TASKS, np.int32), np.array(["all"]), x, ("side", "blur"))
    crowd = Crowd(labels, table, Gold(tasks[d["is_gold"]], d["truth"][d["is_gold"]]))
    found = hierarchical_dawid_skene(labels)
    sure = calibrate_support(task_support(labels, found.posterior), crowd.gold_code())
    run, everybody = Asked(axis), np.full(N_WORKERS, alone)
    believed = sure.believed(found.posterior)
    facts = find_psychometrics(run, crowd, labels, believed, found.posterior, everybody)  # type: ignore[arg-type]
    if facts["why_not"]:
        return facts, {}
    columns = {
        name: np.array(run.table.column(name).to_pylist()) for name in run.table.column_names
    }  # type: ignore[attr-defined]
    columns["kind"] = np.array([int(name[1:]) % 3 for name in columns["worker"]])
    return facts, columns


def test_a_campaign_of_two_tasks_has_no_functions_and_says_why() -> None:
    tasks, posterior = np.array(["t0", "t1"]), np.array([[0.9, 0.1], [0.2, 0.8]])
    labels = encode(["a", "b", "a", "b"], ["t0", "t0", "t1", "t1"], [0, 0, 1, 0], classes=[0, 1])
    table = TaskTable(tasks, np.zeros(2, np.int32), np.array(["all"]), np.eye(2), ("x", "y"))
    crowd, alone = Crowd(labels, table, None), np.ones(2, np.bool_)
    found = find_psychometrics(Asked("boundary"), crowd, labels, posterior, posterior, alone)  # type: ignore[arg-type]
    assert found == {"why_not": "no worker who answers on her own gave 40 labels or more"}


@pytest.mark.parametrize("axis", ["blur", "boundary"])
def test_poor_and_careless_workers_are_told_apart(axis: str) -> None:
    """By the mean of eight of each kind, along a feature that falls with ease or the classes' boundary."""
    facts, rows = functions(axis)
    lapse, threshold = (
        [np.mean(rows[name][rows["kind"] == kind]) for kind in range(3)]
        for name in ("lapse", "threshold")
    )
    assert lapse[CARELESS] > 0.12 > 0.08 > max(lapse[GOOD], lapse[POOR])
    assert threshold[POOR] > max(threshold[GOOD], threshold[CARELESS])
    careless = rows["careless"]
    assert careless.any() or axis == "blur"  # 300 labels each do not make it sure along a feature
    assert not careless[rows["kind"] != CARELESS].any()
    assert facts["n"] == N_WORKERS


def test_a_label_is_taken_out_of_the_belief() -> None:
    """Of three even votes on each task, a worker's label says nothing of what the two others make of it."""
    rng = np.random.default_rng(0)
    said = rng.integers(2, size=(200, 3))
    worker, task = np.tile(np.arange(3), 200), np.repeat(np.arange(200), 3)
    turned = said.copy()
    turned[0, 0] = 1 - said[0, 0]
    others = []
    for votes in (said, turned):
        labels = encode(worker, task, votes.ravel(), classes=[0, 1])
        share = 0.8 ** votes.sum(axis=1) * 0.2 ** (3 - votes.sum(axis=1))
        other = 0.2 ** votes.sum(axis=1) * 0.8 ** (3 - votes.sum(axis=1))
        posterior = np.column_stack([other, share]) / (share + other)[:, None]
        others.append(others_belief(labels, posterior, posterior)[0])
    assert others[0] == pytest.approx(others[1], abs=0.1)  # but for what she is like as a whole


@pytest.mark.parametrize(
    ("axis", "alone", "why"),
    [("glare", True, 'no feature is called "glare"'), ("blur", False, "answers on her own")],
)
def test_where_no_function_can_be_fitted_the_reason_is_said(
    axis: str, alone: bool, why: str
) -> None:
    facts, _ = functions(axis, alone=alone)
    assert why in facts["why_not"]


def test_a_run_writes_and_shows_the_functions(tmp_path: Path) -> None:
    d = drawn(1)
    rows = zip(d["worker"], d["task"], d["label"], strict=True)
    known = np.flatnonzero(d["is_gold"])
    files = {
        "labels.csv": ["worker,task,label", *(f"w{w:02d},t{t:04d},{'ab'[k]}" for w, t, k in rows)],
        "gold.csv": ["task,label", *(f"t{t:04d},{'ab'[d['truth'][t]]}" for t in known)],
        "tasks.csv": ["task,contrast", *(f"t{t:04d},{x:.4f}" for t, x in enumerate(d["ease"]))],
        "settings.toml": [
            'name = "skill"', 'runs = "runs"', 'state = "state"', "[input]", 'labels = "labels.csv"',
            'tasks = ["tasks.csv"]', 'gold = "gold.csv"', "[filter]", "n_workers = 0", "[consensus]",
            'features = "ignore"', "[report]", 'psychometric = "contrast"',
        ],
    }  # fmt: skip
    for name, lines in files.items():
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    folder = run_pipeline(load_settings(tmp_path / "settings.toml")).folder
    assert read_parquet(folder / "psychometrics.parquet").num_rows == N_WORKERS
    facts = json.loads((folder / "psychometrics.json").read_text("utf-8"))
    assert facts["axis"] == "contrast"
    page = (folder / "report.html").read_text("utf-8")
    assert "Skill and carelessness" in page
    assert "psychometric-" in page  # the ids of its chart
    assert "contrast" not in (folder / "public.html").read_text("utf-8")
