"""Commands that need labels alone: `crowdassay aggregate` believes as a run does."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
from typer.testing import CliRunner

from flows.cli import app
from quality import CrowdLabels, encode, regular_assignment, simulate_crowd


def crowd_with_sybils(folder: Path) -> tuple[Path, CrowdLabels, dict[str, str]]:
    """A label file of 20 workers and six who copy one guesser, its labels, and the truth."""
    rng = np.random.default_rng(0)
    rows = regular_assignment(n_tasks=300, n_workers=20, labels_per_task=4, rng=rng)
    truth = rng.integers(2, size=300)
    crowd = simulate_crowd(rows, truth, n_classes=2, adversaries={"sybils": 6}, rng=rng)
    labels = encode(crowd.worker, crowd.task, crowd.label)
    cells = zip(crowd.worker.tolist(), crowd.task.tolist(), crowd.label.tolist(), strict=True)
    lines = ["worker,task,label", *(",".join(map(str, row)) for row in cells)]
    path = folder / "labels.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path, labels, {str(task): str(true) for task, true in enumerate(truth.tolist())}


def aggregated(path: Path) -> tuple[str, list[dict[str, str]]]:
    output = path.with_name("consensus.csv")
    asked = ["aggregate", str(path), "--aggregator", "dawid_skene", "--output", str(output)]
    told = CliRunner().invoke(app, [*asked, "--force"])
    assert told.exit_code == 0
    with output.open(encoding="utf-8") as file:
        return told.output, list(csv.DictReader(file))


def test_aggregate_gives_a_group_one_vote_and_says_so(tmp_path: Path) -> None:
    path, _, truth = crowd_with_sybils(tmp_path)
    told, rows = aggregated(path)
    assert "26 workers, worth 21: 6 who do not answer on their own have one vote a group" in told
    right = np.mean([row["label"] == truth[row["task"]] for row in rows])
    assert right > 0.8  # .5 with a vote for each of them


def test_aggregate_has_no_confidence_in_models_alone(tmp_path: Path) -> None:
    path, _, _ = crowd_with_sybils(tmp_path)
    head, *rows = path.read_text(encoding="utf-8").split()
    kinds = [f"{head},kind", *(f"{row},model" for row in rows)]
    path.write_text("\n".join(kinds) + "\n", encoding="utf-8")
    _, found = aggregated(path)
    assert {row["confidence"] for row in found} == {""}


def graded(folder: Path) -> Path:
    """A label file of 60 tasks with four grades, labels of which miss by one."""
    rng, names = np.random.default_rng(2), ("none", "mild", "bad", "worst")
    rows = ["worker,task,label"]
    for task, true in enumerate(rng.integers(4, size=60)):
        for worker in range(5):
            said = np.clip(true + rng.choice([-1, 0, 0, 1]), 0, 3)
            rows.append(f"w{worker},t{task:02d},{names[said]}")
    path = folder / "labels.csv"
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


def test_aggregate_decides_ordered_classes_by_loss_and_says_whether_labels_show_the_order(
    tmp_path: Path,
) -> None:
    path, output = graded(tmp_path), tmp_path / "consensus.csv"
    asked = ["aggregate", str(path), "--output", str(output), "--force"]
    right = CliRunner().invoke(
        app, [*asked, "--order", "none,mild, bad,worst", "--loss", "absolute"]
    )
    assert right.exit_code == 0, right.output
    assert "The labels show the order" in right.output
    wrong = CliRunner().invoke(app, [*asked, "--order", "none,worst,mild,bad"])
    assert wrong.exit_code == 0, wrong.output
    assert "speak against the order" in wrong.output


def test_aggregate_refuses_a_loss_or_the_ordinal_model_without_an_order(tmp_path: Path) -> None:
    path = graded(tmp_path)
    for options, sentence in (
        (["--loss", "squared"], "--loss squared needs --order, the classes in their order"),
        (["--aggregator", "ordinal_crowd"], "--aggregator ordinal_crowd needs --order"),
        (["--order", "none"], "--order must name two classes or more, each once, got 'none'"),
        (["--order", "none,none"], "--order must name two classes or more, each once"),
    ):
        told = CliRunner().invoke(app, ["aggregate", str(path), *options])
        assert told.exit_code != 0
        assert sentence in told.output
