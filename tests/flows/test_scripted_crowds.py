"""Scripts of the population simulator as campaigns: those that come along, and mistakes in one's own."""

from __future__ import annotations

import csv
import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from flows.cli import app
from flows.settings import SettingsError, load_settings
from flows.simulate import write_crowd, write_scripted
from quality import CrowdLabels, dawid_skene, dependent_groups, encode, majority_vote

SHIPPED = sorted(path.name for path in Path(str(files("sample_data"))).glob("crowds/*.g"))
WHOLE = [name for name in SHIPPED if name != "honest.g"]
DEPENDENT = {  # workers of each who do not answer on their own, and classes
    "four_sybils.g": (4, 2), "sybils.g": (6, 2), "sybils_four_classes.g": (6, 4), "rings.g": (24, 2),
    "part_time.g": (8, 2), "load_aware.g": (9, 2), "models.g": (5, 2), "better_models.g": (5, 2),
    "better_models_four_classes.g": (5, 4),
}  # fmt: skip
SMALL = """
create task /tasks -n 40
set /tasks truth {integers 0 2}
create honest /pool -n 4
create recorder /labels
connect /tasks to /pool
connect /pool to /labels
echo a line
"""


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def right(found: np.ndarray, labels: CrowdLabels, truth: dict[str, str]) -> float:
    wanted = np.array([truth[str(task)] for task in labels.tasks])
    return float((labels.classes[found] == wanted).mean())


@pytest.mark.parametrize("name", WHOLE)
def test_a_script_that_comes_along_is_a_campaign_that_the_pipeline_reads(
    name: str, tmp_path: Path
) -> None:
    """With one seed; majority vote and Dawid–Skene fall as with the crowds of `simulate_crowd`."""
    record, _ = write_scripted(tmp_path / "crowd", Path(name), seed=1)
    given = rows(tmp_path / "crowd" / "labels.csv")
    assert len(given) == len(record.label)
    assert list(given[0]) == ["worker", "task", "label", "time", "seconds"]
    settings = load_settings(tmp_path / "crowd" / "settings.toml")
    assert settings.input.seconds == "seconds"
    truth = {row["task"]: row["label"] for row in rows(tmp_path / "crowd" / "truth" / "tasks.csv")}
    labels = encode(*([row[c] for row in given] for c in ("worker", "task", "label")))
    vote = right(majority_vote(labels).label, labels, truth)
    kinds = rows(tmp_path / "crowd" / "truth" / "workers.csv")
    groups = dependent_groups(labels)
    assert all(0 <= float(row["accuracy"]) <= 1 for row in kinds)
    if name == "copiers.g":
        assert {row["kind"] for row in kinds} == {"honest", "hasty", "spammer", "copier"}
        return
    honest = [float(row["accuracy"]) for row in kinds if row["element"] == "/crowd/honest"]
    assert 0.75 < np.mean(honest) < 0.85
    assert vote < 0.93
    n_dependent = sum(row["element"] != "/crowd/honest" for row in kinds)
    assert (n_dependent, len(set(truth.values()))) == DEPENDENT[name]
    assert groups.worth <= len(kinds) - 0.6 * n_dependent
    if name in ("four_sybils.g", "sybils.g", "rings.g", "models.g"):
        assert right(dawid_skene(labels).label, labels, truth) < vote


def test_a_seed_writes_the_same_files(tmp_path: Path) -> None:
    script = tmp_path / "mine.g"
    script.write_text(SMALL, encoding="utf-8")
    for folder in ("one", "two"):
        write_scripted(tmp_path / folder, script, seed=3)
    for name in ("labels.csv", "gold.csv", "truth/tasks.csv", "truth/workers.csv", "settings.toml"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    assert tomllib.loads((tmp_path / "one" / "settings.toml").read_text())["classes"] == [
        "class-0",
        "class-1",
    ]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (SMALL + "\nset /pol drift 1", "mine.g:10: '/pol' must exist, got no pol in /"),
        (SMALL + "\nset /pool bound 0", r"bound of /pool\[0\] must be > 0"),
        ("create task /tasks", "mine.g must have one recorder, got 0"),
        ("create recorder /r", "/r must be sent labels, got none"),
        ("include ../secret.g", "mine.g:1: included script '../secret.g' must lie in the folder"),
        ("include none.g", "mine.g:1: included script 'none.g' must be readable"),
        ("include odd.g", "mine.g:1: odd.g must be UTF-8"),
        ("include sub", "mine.g:1: sub must be a script, got a folder"),
    ],
)
def test_a_mistake_in_a_script_is_one_sentence(text: str, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "secret.g").write_text("echo secret", encoding="utf-8")
    (tmp_path / "in" / "sub").mkdir(parents=True)
    (tmp_path / "in" / "odd.g").write_bytes(b"\xff\xfe\x00")
    script = tmp_path / "in" / "mine.g"
    script.write_text(text, encoding="utf-8")
    with pytest.raises(SettingsError, match=f"^{sentence}"):
        write_scripted(tmp_path / "out", script, seed=1)


def test_labels_after_the_last_year_of_the_calendar_are_refused(tmp_path: Path) -> None:
    script = tmp_path / "late.g"
    script.write_text(
        "create task /tasks -n 9\ncreate honest /pool -n 3\ncreate recorder /labels\n"
        "connect /tasks to /pool -delay 1e15\nconnect /pool to /labels\n"
    )
    with pytest.raises(SettingsError, match=r"late\.g must have its labels before the year 10000"):
        write_scripted(tmp_path / "out", script, seed=1)
    assert not (tmp_path / "out").exists()


def test_a_folder_and_a_file_that_is_no_text_are_no_scripts(tmp_path: Path) -> None:
    (tmp_path / "odd.g").write_bytes(b"\xff\xfe\x00")
    for script, sentence in ((tmp_path, "must be a script"), (tmp_path / "odd.g", "must be UTF-8")):
        with pytest.raises(SettingsError, match=sentence):
            write_scripted(tmp_path / "out", script, seed=1)


def test_the_command_prints_what_the_script_prints_and_overwrites_nothing(tmp_path: Path) -> None:
    script = tmp_path / "mine.g"
    script.write_text(SMALL, encoding="utf-8")
    command = ["simulate", str(script), "--output", str(tmp_path / "crowd")]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    assert done.output.splitlines()[0] == "a line"
    assert "160 labels written to" in done.output
    again = CliRunner().invoke(app, command)
    assert again.exit_code == 2
    assert "--force" in again.output
    both = CliRunner().invoke(app, [*command, "--tasks", "5"])
    assert both.exit_code == 2
    missing = CliRunner().invoke(app, ["simulate", "none.g", "--output", str(tmp_path / "x")])
    assert missing.exit_code == 2
    assert "none.g does not exist; mend the path" in missing.output


def test_a_crowd_of_few_tasks_has_gold_and_one_of_too_many_classes_is_refused(
    tmp_path: Path,
) -> None:
    """Its settings name a table of gold, which must have rows; labels have codes of 16 bits."""
    sizes: dict[str, Any] = {"n_workers": 3, "labels_per_task": 2, "strategies": {}, "seed": 0}
    write_crowd(tmp_path / "crowd", n_tasks=2, n_classes=2, **sizes)
    assert (tmp_path / "crowd" / "gold.csv").read_text().count("\n") == 2
    for n_classes in (0, 1, 32_768):
        with pytest.raises(ValueError, match=f"classes must be 2 to 32,767, got {n_classes:,}"):
            write_crowd(tmp_path / "none", n_tasks=2, n_classes=n_classes, **sizes)
    assert not (tmp_path / "none").exists()
