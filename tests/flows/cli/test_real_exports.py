"""Five exports as people have them, from file to report with no hand editing: `init`, then `run`.

The files are written here as Excel, a European office, a spreadsheet with a column per rater, Label
Studio and Inspect write theirs; nobody in them is real.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from typer.testing import CliRunner

from flows.cli import app
from tests.flows.tables.workbook import write_workbook

N_TASKS = 30


class Answer(NamedTuple):
    worker: str
    task: str
    label: str
    seconds: float


def answers(labels: Sequence[str] = ("gut", "schlecht")) -> list[Answer]:
    """Four of six people on each task, each right nine times in ten."""
    rng = np.random.default_rng(5)
    rows = []
    for task in range(N_TASKS):
        truth = labels[rng.integers(2)]
        for worker in sorted(rng.choice(6, 4, replace=False).tolist()):
            said = truth if rng.random() < 0.9 else labels[rng.integers(2)]
            rows.append(Answer(f"Prüfer {worker}", f"Vorgang {task}", said, 5 + worker + task / 4))
    return rows


def excel() -> Path:
    """Columns of other names, times and a sheet of notes before them."""
    rows = [[one.worker, one.task, one.label, one.seconds] for one in answers()]
    sheets: dict[str, list[list[object]]] = {
        "Notes": [["exported by hand"]],
        "Answers": [["Annotator", "Item", "Verdict", "seconds"], *rows],
    }
    write_workbook(Path("answers.xlsx"), sheets)
    return Path("answers.xlsx")


def european() -> Path:
    """Semicolons, decimal commas, cp1252 and Windows' line ends."""
    lines = [
        ";".join((one.worker, one.task, one.label, str(one.seconds).replace(".", ",")))
        for one in answers()
    ]
    text = "\r\n".join(["worker;task;label;seconds", *lines, ""])
    Path("Bewertungen.csv").write_bytes(text.encode("cp1252"))
    return Path("Bewertungen.csv")


def wide() -> Path:
    """A row per task and a column per rater, blank where a rater gave none."""
    given = {(one.task, one.worker): one.label for one in answers()}
    raters = sorted({worker for _, worker in given})
    rows = [
        ",".join([task, *(given.get((task, rater), "") for rater in raters)])
        for task in dict.fromkeys(task for task, _ in given)
    ]
    Path("raters.csv").write_text("\n".join([",".join(["item", *raters]), *rows, ""]), "utf-8")
    return Path("raters.csv")


def label_studio() -> Path:
    """The JSON of a project: a record per task, its annotations inside."""
    records: dict[str, dict[str, object]] = {}
    for number, one in enumerate(answers(), start=1):
        result = {
            "from_name": "urteil", "to_name": "text", "type": "choices",
            "value": {"choices": [one.label]},
        }  # fmt: skip
        record = records.setdefault(
            one.task,
            {"id": len(records) + 1, "data": {"text": f"{one.task}, canary"}, "annotations": []},
        )
        annotation = {
            "id": number, "completed_by": int(one.worker[-1]), "was_cancelled": False,
            "lead_time": one.seconds, "result": [result],
        }  # fmt: skip
        assert isinstance(record["annotations"], list)
        record["annotations"].append(annotation)
    Path("project-3.json").write_text(json.dumps(list(records.values())), "utf-8")
    return Path("project-3.json")


def judge_log() -> Path:
    """A log of Inspect, whose scorers are judges."""
    samples: dict[str, dict[str, dict[str, str]]] = {}
    for one in answers(("C", "I")):
        samples.setdefault(one.task, {})[one.worker.replace("Prüfer ", "judge-")] = {
            "value": one.label
        }
    log = {
        "eval": {"task": "quiz"},
        "samples": [
            {"id": task, "epoch": 1, "input": "canary", "scores": scores}
            for task, scores in samples.items()
        ],
    }
    Path("log.json").write_text(json.dumps(log), "utf-8")
    return Path("log.json")


EXPORTS: dict[str, tuple[Callable[[], Path], list[str]]] = {
    "an Excel table": (
        excel,
        ["--sheet", "Answers", "--map", "worker=Annotator,task=Item,label=Verdict"],
    ),
    "a European CSV": (european, []),
    "a wide table": (wide, ["--wide"]),
    "a Label Studio export": (label_studio, []),
    "a judge log": (judge_log, []),
}


@pytest.mark.parametrize("kind", EXPORTS)
def test_an_export_becomes_a_report_with_no_hand_editing(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind == "an Excel table":
        pytest.importorskip("python_calamine", reason="the extra excel is not installed")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    write, options = EXPORTS[kind]
    told = CliRunner().invoke(app, ["init", str(write()), *options, "--name", "campaign"])
    assert told.exit_code == 0, told.stderr
    advice = told.stdout.strip().splitlines()[-1]  # the command that `init` names last
    assert advice == "crowdassay run settings.toml"
    ran = CliRunner().invoke(app, [*shlex.split(advice)[1:], "--no-prefect", "--json"])
    assert ran.exit_code == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert not found["unchanged"]
    assert "120 labels of 30 tasks by 6 workers, 2 classes" in found["stages"][0]["line"]
    report = Path(found["report"]).read_text(encoding="utf-8")
    assert "canary" not in report
    assert "<h2" in report


def test_an_export_again_replaces_the_labels_by_the_command_that_init_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    told = CliRunner().invoke(app, ["init", str(label_studio())])
    advice = re.search(r"for a newer export: crowdassay (import .+)$", told.stdout, re.MULTILINE)
    assert advice is not None
    before = Path("project-3.labels.csv").read_bytes()
    Path("project-3.labels.csv").write_text("stale\n")
    again = CliRunner().invoke(app, shlex.split(advice[1]))
    assert again.exit_code == 0, again.stderr
    assert Path("project-3.labels.csv").read_bytes() == before
    refused = CliRunner().invoke(app, ["init", "project-3.json", "--output", "other.toml"])
    assert refused.exit_code == 2  # the label table is there, and is not overwritten unasked
    assert not Path("other.toml").exists()


def test_a_label_table_of_which_no_settings_come_is_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same command runs once the mistake is mended, without --force; an older table stays."""
    monkeypatch.chdir(tmp_path)
    command = ["init", str(label_studio()), "--gold", "gold.csv"]
    Path("gold.csv").write_text("item,truth\n1,cat\n")
    refused = CliRunner().invoke(app, command)
    assert (refused.exit_code, "missing: task, label" in refused.stderr) == (2, True)
    assert not Path("project-3.labels.csv").exists()
    Path("gold.csv").unlink()
    assert CliRunner().invoke(app, command[:2]).exit_code == 0
    refused = CliRunner().invoke(app, [*command[:2], "--force", "--name", "no name"])
    assert refused.exit_code == 2
    assert Path("project-3.labels.csv").exists()


def test_columns_of_other_names_are_found_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [f"{one.worker},{one.task},{one.label}" for one in answers()]
    Path("ratings.csv").write_text("\n".join(["Annotator,Item,Finding", *rows]) + "\n", "utf-8")
    refused = CliRunner().invoke(app, ["init", "ratings.csv"])
    assert refused.exit_code == 2  # nobody knows what a finding is; the two others are filled in
    assert "--map worker=Annotator,task=Item,label=..." in refused.stderr
    Path("ratings.csv").write_text("\n".join(["Annotator,Item,Answer", *rows]) + "\n", "utf-8")
    told = CliRunner().invoke(app, ["init", "ratings.csv"])
    assert told.exit_code == 0, told.stderr
    said = "read with Annotator as worker, Item as task, Answer as label; to override this: --sep,"
    assert said in told.stdout
    written = Path("settings.toml").read_text(encoding="utf-8")
    assert 'columns = ["worker=Annotator", "task=Item", "label=Answer"]' in written
    assert "loss = " in written
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ratings.csv", "settings.toml"]
    days = tmp_path / "days"
    days.mkdir()
    Path("ratings.csv").rename(days / "1.csv")
    told = CliRunner().invoke(app, ["init", "days", "--force"])
    assert told.exit_code == 0, told.stderr
    assert "1.csv was read with Annotator as worker" in told.stdout


def test_columns_of_other_names_are_read_alike_in_labels_gold_and_tasks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A column that a task table calls as the labels call a worker is a feature there."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    rows = [f"{one.worker},{one.task},{one.label}" for one in answers()]
    names = sorted({one.task for one in answers()})
    for file, lines in {
        "labels.csv": ["said_by,about,finding", *rows],
        "gold.csv": ["about,finding", *(f"{one},yes" for one in names[:5])],
        "tasks.csv": ["about,said_by", *(f"{one},{at}" for at, one in enumerate(names))],
    }.items():
        Path(file).write_text("\n".join(lines) + "\n", "utf-8")
    mapped = ["--map", "worker=said_by,task=about,label=finding"]
    told = CliRunner().invoke(
        app, ["init", "labels.csv", "tasks.csv", "--gold", "gold.csv", *mapped]
    )
    assert told.exit_code == 0, told.stderr
    assert "; 1 feature\n" in told.stdout
    assert "5 gold tasks\n" in told.stdout
    ran = CliRunner().invoke(app, ["run", "settings.toml", "--no-prefect", "--json"])
    assert ran.exit_code == 0, ran.stderr
    assert "120 labels of 30 tasks by 6 workers" in json.loads(ran.stdout)["stages"][0]["line"]
    plain = [CliRunner().invoke(app, ["aggregate", "labels.csv", *mapped])]
    Path("labels.csv").write_text("\n".join(["worker,task,label", *rows]) + "\n", "utf-8")
    plain.append(CliRunner().invoke(app, ["aggregate", "labels.csv"]))
    assert plain[0].stdout.partition("\n")[2] == plain[1].stdout
    wrong = CliRunner().invoke(app, ["check", "labels.csv", "--map", "worker=w,worker=v"])
    assert wrong.exit_code == 2
    assert "--map must be ROLE=COLUMN" in wrong.stderr


def test_truths_in_the_labels_are_read_by_the_options_that_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [f"{one.worker},{one.task},{one.label},{'yes' * (one.task < 't2')}" for one in answers()]
    Path("labels.csv").write_text(
        "\n".join(["worker,task,label,gold_label", *rows]) + "\n", "utf-8"
    )
    told = CliRunner().invoke(app, ["init", "labels.csv"])
    assert (
        "if the truth is in 'gold_label', --gold LABELS --gold-column gold_label reads"
        in told.stdout
    )
    options = ["--gold", "labels.csv", "--gold-column", "gold_label", "--force"]
    told = CliRunner().invoke(app, ["init", "labels.csv", *options])
    assert told.exit_code == 0, told.stderr
    n_gold = len({one.task for one in answers() if one.task < "t2"})
    assert f"\n{n_gold} gold task" in told.stdout
    written = Path("settings.toml").read_text(encoding="utf-8")
    assert re.search('^gold = "labels.csv".*\ngold_column = "gold_label"', written, re.MULTILINE)


def test_judges_are_proposed_as_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(app, ["init", str(judge_log())]).exit_code == 0
    judges = ", ".join(f'"judge-{number}"' for number in range(6))
    assert f"models = [{judges}]" in Path("settings.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("table.csv", "who,item,answer\nann,1,a\n"),
        ("half.json", '[{"id": 1'),
        ("other.json", '[{"id": 1, "value": 3}]'),
    ],
)
def test_a_file_that_is_no_platforms_export_is_refused_as_before(
    name: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).write_text(text)
    told = CliRunner().invoke(app, ["init", name])
    assert told.exit_code == 2
    assert name in told.stderr
    assert "Traceback" not in told.stderr
    assert [path.name for path in tmp_path.iterdir()] == [name]
