"""`crowdassay multilabel`: what it prints, writes and refuses; and who sends users there."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from flows.cli import app
from quality import simulate_multilabels

NAMES = np.array(["cat", "dog", "eel", "fox", "gnu"])


def invoke(*arguments: str):  # type: ignore[no-untyped-def]
    return CliRunner().invoke(app, ["multilabel", *arguments])


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Answers of 12 workers, two of whom guess, to 60 tasks."""
    crowd = simulate_multilabels(
        n_tasks=60, n_workers=12, answers_per_task=4, n_classes=5, others={"spammer": 2},
        rng=np.random.default_rng(0),
    )  # fmt: skip
    path = tmp_path_factory.mktemp("multilabel") / "answers.csv"
    table = crowd.table
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["worker", "task", "label"])
        for answer in range(table.n_answers):
            worker = table.worker[answer]
            cell = "|".join(NAMES[table.set_of(answer)]) or "none"
            rows.writerow([f"{crowd.kind[worker]}-{worker}", table.task[answer], cell])
    return path


def test_tasks_classes_and_workers_are_told(answers: Path) -> None:
    found = json.loads(invoke(str(answers), "--nothing", "none", "--json").stdout)
    assert len(found["tasks"]) == 60
    assert {one["class"] for one in found["classes"]} == set(NAMES)
    assert [one["worker"][:7] for one in found["workers"][-2:]] == ["spammer"] * 2
    for task in found["tasks"]:
        chosen = [name for name, chance in task["probabilities"].items() if chance > 0.5]
        assert sorted(chosen) == task["labels"]
    assert 0 < found["alpha_masi"]["lower"] < found["alpha_masi"]["value"] < 1


def test_labels_are_written_joined_and_probabilities_a_row_each(
    answers: Path, tmp_path: Path
) -> None:
    output, cells = tmp_path / "consensus.csv", tmp_path / "cells.csv"
    files = ("--output", str(output), "--probabilities", str(cells))
    assert invoke(str(answers), "--nothing", "none", *files).exit_code == 0
    with output.open(newline="") as file:
        joined = {row["task"]: row["label"] for row in csv.DictReader(file)}
    with cells.open(newline="") as file:
        rows = list(csv.DictReader(file))
    for task, label in joined.items():
        chosen = [row["class"] for row in rows if row["task"] == task and row["chosen"] == "1"]
        assert "|".join(chosen) == label
    assert all(1 <= int(row["given"]) <= int(row["answers"]) == 4 for row in rows)
    again = invoke(str(answers), *files)
    assert again.exit_code == 2
    assert "--force" in again.stderr


def test_one_label_an_answer_is_sent_to_aggregate(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_text("worker,task,label\na,1,x\nb,1,x\na,2,y\nb,2,y\n")
    assert "crowdassay aggregate" in invoke(str(path)).stdout


def test_check_and_init_send_cells_of_several_labels_here(answers: Path, tmp_path: Path) -> None:
    checked = CliRunner().invoke(app, ["check", str(answers), "--json"])
    doubts = {one["what"]: one["remedy"] for one in json.loads(checked.stdout)["doubts"]}
    assert doubts["several labels in a cell"] == (
        f"if they hold at once: crowdassay multilabel {answers}"
    )
    settings = tmp_path / "campaign.toml"
    made = CliRunner().invoke(app, ["init", str(answers), "--output", str(settings)])
    assert f"crowdassay multilabel {answers}" in made.stdout.replace("\n", "")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("worker,task\na,t\n", "must have a column label"),
        ("worker,task,label\na,t,x|y\na,t,z\n", "row 2"),
        ("worker,task,label\na,t,x\nb,t,\n", "row 2, column label"),
    ],
)
def test_a_fault_is_one_sentence_with_file_and_row(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "answers.csv"
    path.write_text(text)
    found = invoke(str(path))
    assert found.exit_code == 2
    assert said in found.stderr
    assert "answers.csv" in found.stderr
    assert len(found.stderr.strip().splitlines()) == 1
