"""`crowdassay multilabel`: what it prints, writes and refuses; and who sends users there."""

import csv
import json
import re
import tomllib
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
    output = answers.with_name("sets.csv")
    words = str(answers), "--nothing", "none", "--json", "--output", str(output)
    found = json.loads(invoke(*words).stdout)
    assert len(found["tasks"]) == len(output.read_text().splitlines()) - 1 == 60
    assert {one["class"] for one in found["classes"]} == set(NAMES)
    assert [one["worker"][:7] for one in found["workers"][-2:]] == ["spammer"] * 2
    for task in found["tasks"]:
        chosen = [name for name, chance in task["probabilities"].items() if chance > 0.5]
        assert sorted(chosen) == task["labels"]
    assert 0 < found["alpha_masi"]["lower"] < found["alpha_masi"]["value"] < 1


def test_a_word_for_nothing_that_is_taken_for_a_class_is_mentioned(answers: Path) -> None:
    assert "say --nothing 'none'" in " ".join(invoke(str(answers)).output.split())
    assert "say --nothing" not in " ".join(invoke(str(answers), "--nothing", "none").output.split())
    both = answers.with_name("both.csv")
    both.write_text(answers.read_text() + "late,0,None\n")
    told = " ".join(invoke(str(both), "--nothing", "none").output.split())
    assert "'None' was taken for a class" in told
    assert "write 'none' in its place" in told


def test_answers_that_are_all_the_same_have_no_alpha(tmp_path: Path) -> None:
    path = tmp_path / "same.csv"
    path.write_text("worker,task,label\na,1,x\nb,1,x\na,2,x\nb,2,x\n")
    told = " ".join(invoke(str(path)).output.split())
    assert "agreement beyond chance is not known" in told
    assert "nan" not in told
    assert "every answer has one label" in told
    assert "--split" not in told  # which nobody gave
    told = " ".join(invoke(str(path), "--split", ";").output.split())
    assert "--split ';' has divided no cell into labels" in told


def test_an_alpha_that_rounds_to_zero_has_no_sign(tmp_path: Path) -> None:
    """It was alpha -0.00."""
    given = "y,y x,y x|y,y y,y y,y x|y,x x|y,x y,x x,x|y y,x|y x|y,x|y x,y"
    rows = [
        f"{worker},{task},{label}"
        for task, pair in enumerate(given.split())
        for worker, label in zip("ab", pair.split(","), strict=True)
    ]
    path = tmp_path / "chance.csv"
    path.write_text("\n".join(["worker,task,label", *rows]) + "\n")
    told = " ".join(invoke(str(path)).output.split())
    assert "agreement beyond chance: alpha 0.00 (" in told
    assert not re.search(r"-0\.0+\b(?!\d)", told)


def test_one_label_an_answer_in_the_mean_is_not_one_in_each(tmp_path: Path) -> None:
    path = tmp_path / "mean.csv"
    path.write_text("worker,task,label\na,1,x\nb,1,|\nc,1,x|y\n")
    assert "every answer has one label" not in " ".join(invoke(str(path)).output.split())


def test_a_class_that_holds_the_separator_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "sign.csv"
    path.write_text("worker,task,label\na,1,x|y\nb,1,y\n")
    told = invoke(str(path), "--classes", "x|z,y")
    assert told.exit_code == 2
    assert "a class must not hold '|'" in told.output
    other = invoke(str(path), "--classes", "x,z").output
    assert "row 1: a label is not one of the classes 'x', 'z': add it" in " ".join(other.split())


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
    path.write_text("worker,task,label\na,1,x\n")
    assert "\n1 answer, 1.00 labels each" in invoke(str(path)).stdout


def test_check_sends_cells_of_several_labels_here_and_init_proposes_a_run_of_them(
    answers: Path, tmp_path: Path
) -> None:
    checked = CliRunner().invoke(app, ["check", str(answers), "--json"])
    doubts = {one["what"]: one["remedy"] for one in json.loads(checked.stdout)["doubts"]}
    assert doubts["several labels in a cell"] == (
        f"if they hold at once: crowdassay multilabel {answers}"
    )
    settings = tmp_path / "campaign.toml"
    made = CliRunner().invoke(app, ["init", str(answers), "--output", str(settings)])
    assert made.exit_code == 0
    assert tomllib.loads(settings.read_text("utf-8"))["input"]["several"] == "|"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("worker,task\na,t\n", "must have a column label"),
        ("worker,task,label\na,t,x|y\na,t,z\n", "rows 1, 2"),
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


@pytest.mark.parametrize("classes", ["", "a,,b", "a,b,a"])
def test_classes_that_are_no_list_of_names_are_a_fault_of_the_option(
    answers: Path, classes: str
) -> None:
    told = CliRunner().invoke(app, ["multilabel", str(answers), "--classes", classes])
    assert told.exit_code == 2
    assert f"--classes must name classes, each once, as in a,b,c, got {classes!r}" in told.stderr


def test_gold_may_be_a_folder_or_a_pattern(answers: Path, tmp_path: Path) -> None:
    with answers.open(newline="") as file:
        first = next(csv.DictReader(file))
    (tmp_path / "gold").mkdir()
    (tmp_path / "gold" / "1.csv").write_text(f"task,label\n{first['task']},{first['label']}\n")
    said = [
        CliRunner().invoke(app, ["multilabel", str(answers), "--gold", str(tmp_path / gold)])
        for gold in ("gold/1.csv", "gold", "gold/*.csv")
    ]
    assert [told.exit_code for told in said] == [0, 0, 0], said[1].output
    assert len({told.output for told in said}) == 1


def test_gold_stands_and_calibrates(answers: Path, tmp_path: Path) -> None:
    gold = tmp_path / "gold.csv"
    known = [f"{task},{'eel|fox' if task % 2 else 'none'}" for task in range(40)]
    gold.write_text("\n".join(["task,label", *known, "elsewhere,cat"]) + "\n")
    words = (str(answers), "--nothing", "none", "--gold", str(gold))
    found = json.loads(invoke(*words, "--json").stdout)
    labels = {one["task"]: one["labels"] for one in found["tasks"]}
    for task in range(40):
        assert labels[str(task)] == (["eel", "fox"] if task % 2 else [])
    assert "calibrated on gold" in invoke(*words).stdout
    assert "calibrated on gold" not in invoke(str(answers), "--nothing", "none").stdout


def test_copies_have_one_answer_a_task(tmp_path: Path) -> None:
    crowd = simulate_multilabels(
        n_tasks=240, n_workers=30, answers_per_task=5, n_classes=5, others={"spammer": 4},
        rng=np.random.default_rng(0),
    )  # fmt: skip
    table, source = crowd.table, int(np.flatnonzero(crowd.kind == "spammer")[0])
    lines = []
    for answer in range(table.n_answers):
        worker, given = table.worker[answer], "|".join(NAMES[table.set_of(answer)]) or "none"
        names = [f"w{worker}", *(f"copy-{n}" for n in range(3) if worker == source)]
        lines += [f"{name},{table.task[answer]},{given}" for name in names]
    plain, copied, cells = (tmp_path / f"{name}.csv" for name in ("plain", "copied", "cells"))
    for path, kept in ((copied, lines), (plain, [one for one in lines if "copy" not in one])):
        path.write_text("\n".join(["worker,task,label", *kept]) + "\n")
    told = invoke(str(copied), "--nothing", "none", "--probabilities", str(cells))
    assert "4 workers in 1 group do not answer on their own" in told.stdout
    with cells.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert all(0 <= int(row["given"]) <= int(row["answers"]) for row in rows)
    assert max(int(row["answers"]) for row in rows) == 8
    one, other = (
        json.loads(invoke(str(path), "--nothing", "none", "--json").stdout)["tasks"]
        for path in (plain, copied)
    )
    assert [task["labels"] for task in one] == [task["labels"] for task in other]
    for mine, its in zip(one, other, strict=True):
        assert mine["probabilities"] == pytest.approx(its["probabilities"], abs=1e-9)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("task\n1\n", "must have a column label"),
        ("task,label\n1,cat|dog\n2,cow|dog\n", "gold.csv, row 2"),
        (
            "task,label\n1,cat|dog\n1,cat\n",
            "row 2: the truth cannot be used: the task is there twice",
        ),
        ("task,label\n1,cat\n1,cow\n", "cow is no class"),
    ],
)
def test_a_fault_of_gold_is_one_sentence(
    text: str, said: str, answers: Path, tmp_path: Path
) -> None:
    (tmp_path / "gold.csv").write_text(text)
    found = invoke(str(answers), "--nothing", "none", "--gold", str(tmp_path / "gold.csv"))
    assert found.exit_code == 2
    assert said in found.stderr
    assert len(found.stderr.strip().splitlines()) == 1
