"""`simulate --several`: what it writes can be read again, and its truth is found."""

import csv
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from flows.cli import app


def invoke(*arguments: str):  # type: ignore[no-untyped-def]
    return CliRunner().invoke(app, [*arguments])


def test_simulated_answers_are_read_again_and_their_truth_is_found(tmp_path: Path) -> None:
    sizes = ("--tasks", "150", "--several", "3", "--classes", "6", "--strategy", "spammer=5")
    made = invoke("simulate", *sizes, "--output", str(tmp_path))
    assert "750 labels written" in made.stdout
    answers = str(tmp_path / "labels.csv")
    found = json.loads(invoke("multilabel", answers, "--nothing", "none", "--json").stdout)
    with (tmp_path / "truth" / "tasks.csv").open(newline="") as file:
        truth = {row["task"]: row["label"] for row in csv.DictReader(file)}
    right = [task["labels"] == truth[task["task"]].split("|") for task in found["tasks"]]
    assert sum(right) > 0.85 * len(right)
    with (tmp_path / "truth" / "workers.csv").open(newline="") as file:
        kind = {row["worker"]: row["kind"] for row in csv.DictReader(file)}
    assert [kind[one["worker"]] for one in found["workers"][-5:]] == ["spammer"] * 5


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--several", "3"), "--several is for a crowd"),
        (("--tasks", "9", "--several", "3"), "max_labels must be from 1 to 2 classes"),
        (("--tasks", "9", "--several", "2", "--strategy", "sybils=2"), "others must be among"),
    ],
)
def test_mistakes_are_named(arguments: tuple[str, ...], said: str, tmp_path: Path) -> None:
    found = invoke("simulate", *arguments, "--output", str(tmp_path))
    assert found.exit_code == 2
    assert said in " ".join(found.stderr.replace("│", " ").split())
