"""Bad input: one clear sentence, exit code 2, no run folder left, nothing spent."""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from flows.cli import app
from flows.files import OutputError
from flows.pipeline import run_pipeline
from flows.proposal import CampaignTables, write_settings
from flows.run import PARTIAL, Crowd, Run, open_run
from flows.settings import ReportSettings, SettingsError, input_settings, load_settings
from flows.spending import read_statements
from flows.stages.reading import gold_apart, models_apart, refuse_other_features
from flows.tables import Gold, TableError, TaskTable, read_tasks
from tests.flows.campaign import toy_crowd, write_small_campaign

Change = Callable[[Path], None]


def edit(name: str, change: Callable[[str], str]) -> Change:
    """A change of one file's text."""

    def apply(folder: Path) -> None:
        path = folder / name
        path.write_text(change(path.read_text()))

    return apply


def add(name: str, line: str) -> Change:
    return edit(name, lambda text: text + line + "\n")


def unanimous(text: str) -> str:
    """Every label of a task made the task's first."""
    first: dict[str, str] = {}
    lines = text.splitlines()
    kept = [lines[0]]
    for line in lines[1:]:
        worker, task, label = line.split(",")
        kept.append(f"{worker},{task},{first.setdefault(task, label)}")
    return "\n".join(kept) + "\n"


def first_of_each_task(text: str) -> str:
    lines = unanimous(text).splitlines()
    rows = {line.split(",")[1]: "w1," + line.split(",", 1)[1] for line in lines[1:]}
    return "\n".join([lines[0], *rows.values()]) + "\n"


def blank_group(text: str) -> str:
    return re.sub(r"(?m)^(t\d+,g3),.*$", r"\1,,,", text)


CASES: dict[str, tuple[Change, str]] = {
    "empty file": (edit("labels.csv", lambda _: ""), r"labels\.csv is empty; it needs a header"),
    "missing column": (
        edit("labels.csv", lambda text: text.replace("worker,", "who,", 1)),
        r"labels\.csv must have the columns worker, task, label; missing: worker",
    ),
    "blank cell": (
        add("labels.csv", "w01,,a"),
        r"labels\.csv, row 1801, column task: the cell is blank; fill it or delete the row",
    ),
    "duplicate rows": (
        edit("labels.csv", lambda text: text + text.splitlines()[1] + "\n"),
        r"labels\.csv, rows 1, 1801: worker 'w\d+', task 't000' stands 2 times; delete the repeats or set",
    ),
    "one class only": (
        edit("labels.csv", lambda text: re.sub(r"(?m),[abc]$", ",a", text)),
        r"labels\.csv, column label: every label is 'a'",
    ),
    "one worker only": (
        edit("labels.csv", first_of_each_task),
        r"labels\.csv, column worker: every label is by one worker",
    ),
    "no conflict task": (
        edit("labels.csv", unanimous),
        r"labels\.csv: no two workers differ on any task",
    ),
    "unknown class": (
        add("labels.csv", "w01,u000,d"),
        r"labels\.csv, row 1801, column label: 'd' is not among the classes declared",
    ),
    "group without features": (
        edit("tasks.csv", blank_group),
        r"tasks\.csv: group 'g3' has no features: .* in its 60 tasks from row 181 on",
    ),
    "NaN feature": (
        edit("tasks.csv", lambda text: re.sub(r"(?m)^(t005,g0),[^,]*", r"\1,NaN", text)),
        r"tasks\.csv, row 6, column x0: a feature must be a finite number, got 'NaN'",
    ),
    "label for an unknown task": (
        add("labels.csv", "w01,t999,a"),
        r"labels\.csv, row 1801, column task: 't999' is not among the task tables; add the task or",
    ),
    "budget exhausted": (
        edit("settings.toml", lambda text: text.replace("epsilon = 20.0", "epsilon = 3.0")),
        r"budget",
    ),
    "delta that allows whole records": (
        edit(
            "settings.toml",
            lambda text: text.replace("epsilon = 20.0", "epsilon = 20.0\ndelta = 0.01"),
        ),
        r"\[privacy\]: delta must be >= 0 and < 1/n",
    ),
    "unit task with a joint aggregator": (
        edit(
            "settings.toml",
            lambda text: text.replace("epsilon = 20.0", 'epsilon = 20.0\nunit = "task"'),
        ),
        r'privacy\.unit = "task" needs consensus\.aggregator = "majority_vote", consensus\.groups = "ignore"',
    ),
    "settings file unknown key": (
        edit("settings.toml", lambda text: text.replace("sigma", "sigam")),
        r"unknown key 'gate\.sigam'; did you mean 'sigma'\?",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_bad_input_is_one_sentence_and_leaves_nothing(tmp_path: Path, case: str) -> None:
    change, sentence = CASES[case]
    settings = write_small_campaign(tmp_path)
    change(tmp_path)
    result = CliRunner().invoke(app, ["run", str(settings), "--no-prefect"])
    assert result.exit_code == 2, result.output
    said = result.stderr.strip().splitlines()
    assert len(said) == 1
    assert re.search(sentence, said[0]), said[0]
    assert not list((tmp_path / "runs").glob("*")) + list((tmp_path / "runs").glob(".*"))
    assert total_spent(tmp_path) == 0


def test_a_read_only_ledger_is_refused_before_anything_is_spent(tmp_path: Path) -> None:
    settings = write_small_campaign(tmp_path)
    assert CliRunner().invoke(app, ["run", str(settings), "--no-prefect"]).exit_code == 0
    before = total_spent(tmp_path)
    (tmp_path / "state" / "ledger.sqlite").chmod(0o400)
    edit("labels.csv", lambda text: "\n".join(text.splitlines()[:-40]) + "\n")(tmp_path)
    result = CliRunner().invoke(app, ["run", str(settings), "--no-prefect"])
    assert result.exit_code == 2
    assert "ledger.sqlite is read-only" in result.stderr
    assert len(list((tmp_path / "runs").iterdir())) == 1
    (tmp_path / "state" / "ledger.sqlite").chmod(0o600)
    assert total_spent(tmp_path) == before


def test_a_spent_budget_refuses_a_changed_campaign_and_loses_nothing(tmp_path: Path) -> None:
    settings = write_small_campaign(tmp_path)
    assert CliRunner().invoke(app, ["run", str(settings), "--no-prefect"]).exit_code == 0
    runs, before = list((tmp_path / "runs").iterdir()), total_spent(tmp_path)
    edit("labels.csv", lambda text: "\n".join(text.splitlines()[:-40]) + "\n")(tmp_path)
    for _ in range(2):
        result = CliRunner().invoke(app, ["run", str(settings), "--no-prefect"])
        if result.exit_code:
            break
        runs, before = list((tmp_path / "runs").iterdir()), total_spent(tmp_path)
        edit("labels.csv", lambda text: "\n".join(text.splitlines()[:-40]) + "\n")(tmp_path)
    assert result.exit_code == 2
    assert "budget" in result.stderr
    *partial, last = sorted(set((tmp_path / "runs").iterdir()) - set(runs))
    assert not partial
    assert last.name.startswith(PARTIAL)  # it goes on when the budget is larger
    assert all(run.is_dir() for run in runs)
    assert total_spent(tmp_path) == before


def test_a_file_that_does_not_exist_is_named(tmp_path: Path) -> None:
    settings = write_small_campaign(tmp_path)
    (tmp_path / "gold.csv").unlink()
    result = CliRunner().invoke(app, ["run", str(settings), "--no-prefect"])
    assert result.exit_code == 2
    assert "gold.csv does not exist; mend the path" in result.stderr


@pytest.mark.parametrize("change", ["rewritten", "torn", "touched"])
def test_a_table_that_changes_while_it_is_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    """Rows of two versions of a file do not belong together, also where nothing in them is at fault."""
    settings, tasks = write_small_campaign(tmp_path), tmp_path / "tasks.csv"

    def read_and_write(paths: list[Path], *given: object, **named: object) -> TaskTable:
        found = read_tasks(paths, *given, **named)  # type: ignore[arg-type]
        header, *rows = tasks.read_text().splitlines()
        if change == "touched":
            tasks.touch()
        else:
            tasks.write_text("\n".join([header, *rows[::-1]]) + "\n")
        if change == "torn":
            raise ValueError("two versions do not fit")
        return found

    monkeypatch.setattr("flows.stages.reading.read_tasks", read_and_write)
    if change == "touched":
        assert run_pipeline(load_settings(settings)).folder.is_dir()
        return
    with pytest.raises(
        TableError, match=r"^tasks\.csv changed while it was read; run again when it"
    ):
        run_pipeline(load_settings(settings))
    assert not list((tmp_path / "runs").rglob("crowd.npz"))


def test_a_file_replaced_as_its_run_begins_is_no_part_of_that_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run had the identity of the former file: that one, put back, was "nothing new"."""
    settings, labels = write_small_campaign(tmp_path), tmp_path / "labels.csv"

    def begin(*given: Any, **named: Any) -> Run:
        run = open_run(*given, **named)
        labels.write_text("".join(labels.read_text().splitlines(keepends=True)[:-5]))
        return run

    monkeypatch.setattr("flows.pipeline.open_run", begin)
    with pytest.raises(TableError, match="changed since the run began; run again when it is whole"):
        run_pipeline(load_settings(settings))
    assert list((tmp_path / "runs").iterdir()) == []


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (OSError, (errno.ENOSPC, os.strerror(errno.ENOSPC))),
        (duckdb.IOException, (f'Async write failed: "{os.strerror(errno.ENOSPC)}"',)),
    ],
)
def test_a_full_disk_under_shards_is_a_sentence_with_its_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[Exception], words: tuple[Any, ...]
) -> None:
    rows = [(f"w{w}", f"t{t:02d}", "ab"[(w * t) % 3 % 2]) for w in range(5) for t in range(20)]
    labels = pa.table(dict(zip(("worker", "task", "label"), zip(*rows, strict=True), strict=True)))
    pq.write_table(labels, tmp_path / "labels.parquet")
    path = tmp_path / "settings.toml"
    path.write_text('name = "c"\n[input]\nlabels = "labels.parquet"\n[engine]\n', encoding="utf-8")

    def full(*_: object, **__: object) -> None:
        raise kind(*words)

    monkeypatch.setattr("flows.sharding.shards.pq.write_table", full)
    with pytest.raises(OutputError, match=r"cannot be written: No space left .*; make room there"):
        run_pipeline(load_settings(path))


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ('psychometric = "x9"', "report.psychometric must be a feature or \"boundary\", got 'x9'"),
        ("decision_images = true\nimage_shape = [2, 2]", "the tasks have features, 3, got 2 x 2"),
    ],
)
def test_features_that_the_report_cannot_have_are_refused_before_any_work(
    tmp_path: Path, asked: str, said: str
) -> None:
    path = write_small_campaign(tmp_path)
    path.write_text(path.read_text() + f"[report]\n{asked}\n")
    with pytest.raises(SettingsError, match=re.escape(said)):
        run_pipeline(load_settings(path))
    assert not list((tmp_path / "runs").iterdir())
    refuse_other_features(ReportSettings(psychometric="x2"), ("x0", "x1", "x2"))
    refuse_other_features(ReportSettings(decision_images=True, image_shape=(2, 3)), tuple("abcdef"))


def test_gold_of_other_tasks_is_told() -> None:
    """Their names may be written in another way; without a word the gold would seem to be used."""
    crowd = toy_crowd("nn", gold="a-")
    assert gold_apart(crowd) == ""
    apart = Crowd(crowd.labels, crowd.tasks, Gold(np.array(["T1", "T2"]), np.array(["a", "b"])))
    assert gold_apart(apart).startswith("; none of the 2 gold tasks has a label")


def test_gold_of_classes_that_nobody_gave_is_told() -> None:
    """Its classes may be spelled in another way; then the consensus would be wrong on all of it."""
    given = toy_crowd("nn", gold="a-").labels
    other = Gold(np.array(["t000"]), np.array(["b"]))
    assert "nobody gave a class that gold has, such as 'b'" in gold_apart(Crowd(given, None, other))


def test_names_of_models_are_a_doubt_where_nothing_is_declared() -> None:
    """Models who count as people outvote them; what is declared, also as nobody, is not asked again."""
    labels = toy_crowd("nn", gold="a-").labels
    names = np.array(["gpt-4o", *(f"w{n}" for n in range(1, labels.n_workers))])
    crowd = Crowd(replace(labels, workers=names), None, None)
    given = input_settings(labels="labels.csv")
    assert models_apart(crowd, given) == (
        "; 1 worker looks like a language model by name: name those who are in input.models, where [] "
        "stands for none"
    )
    assert models_apart(Crowd(labels, None, None), given) == ""
    assert models_apart(crowd, input_settings(labels="labels.csv", models=[])) == ""
    assert models_apart(replace(crowd, models=("gpt-4o",)), given) == ""


def test_a_run_doubts_names_of_models_in_its_first_line_without_naming_them(tmp_path: Path) -> None:
    settings = write_small_campaign(tmp_path)
    edit("labels.csv", lambda text: text.replace("w03,", "gpt-4o,"))(tmp_path)
    told = CliRunner().invoke(app, ["run", str(settings), "--no-prefect"])
    assert told.exit_code == 0
    assert "; 1 worker looks like a language model by name" in told.output.splitlines()[0]
    assert "gpt-4o" not in told.output.splitlines()[0]


def total_spent(folder: Path) -> float:
    """Epsilon spent by all data sets of the campaign's state folder."""
    if not (folder / "state" / "ledger.sqlite").is_file():
        return 0.0
    return sum(found["spent"]["epsilon"] for found in read_statements(folder / "state"))


def with_texts(folder: Path) -> Path:
    """The small campaign with a title, a note and an embedding for each task."""
    settings = write_small_campaign(folder)
    header, *rows = (folder / "tasks.csv").read_text(encoding="utf-8").splitlines()
    more = [
        f'{row},<b>Title of {row.split(",")[0]}</b>,by hand,"[{n % 7 - 3}, {n % 5 - 2}]"'
        for n, row in enumerate(rows)
    ]
    lines = [f"{header},title,note,vector", *more]
    (folder / "tasks.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return settings


def test_what_a_task_is_stands_beside_its_id_in_the_internal_report_alone(tmp_path: Path) -> None:
    path = with_texts(tmp_path)
    chosen = 'features = ["x*", "vector"]\nignore = ["note", "x2"]'
    text = path.read_text(encoding="utf-8").replace(
        'gold = "gold.csv"', f'gold = "gold.csv"\n{chosen}'
    )
    path.write_text(text.partition("[model]")[0], encoding="utf-8")
    result = run_pipeline(load_settings(path))
    found = json.loads((result.folder / "inputs.json").read_text(encoding="utf-8"))
    assert found["n_features"] == 4  # x0, x1 and two places of the vector
    least = result.run.read_table("next_labels.parquet")["task"][0].as_py()
    html = result.report.read_text(encoding="utf-8")
    assert f"&lt;b&gt;Title of {least}&lt;/b&gt;" in html
    assert "<b>Title" not in html
    public = (result.folder / "public.html").read_text(encoding="utf-8")
    assert "Title of" not in public
    assert "by hand" not in html + public


def test_what_a_task_is_stands_in_the_report_of_a_run_on_shards_too(tmp_path: Path) -> None:
    rows = [(f"w{w}", f"t{t:02d}", "ab"[(w * t) % 3 % 2]) for w in range(5) for t in range(20)]
    labels = pa.table(dict(zip(("worker", "task", "label"), zip(*rows, strict=True), strict=True)))
    pq.write_table(labels, tmp_path / "labels.parquet")
    names = [f"t{t:02d}" for t in range(20)]
    titles = [f"The  title\tof {name}" for name in names]
    pq.write_table(pa.table({"task": names, "title": titles}), tmp_path / "tasks.parquet")
    path = tmp_path / "settings.toml"
    for engine in ("", "[engine]\n"):
        inputs = 'labels = "labels.parquet"\ntasks = ["tasks.parquet"]'
        path.write_text(f'name = "c{len(engine)}"\n[input]\n{inputs}\n{engine}', encoding="utf-8")
        result = run_pipeline(load_settings(path))
        texts = result.run.read_table("task_texts.parquet")
        assert texts["text"].to_pylist() == [f"The title of {name}" for name in names]
        assert result.report.read_text(encoding="utf-8").count("The title of") == 12


def test_init_shows_text_columns_instead_of_refusing_them(tmp_path: Path) -> None:
    with_texts(tmp_path)
    tables = CampaignTables(tmp_path / "labels.csv", (tmp_path / "tasks.csv",))
    facts = write_settings(tmp_path / "proposed.toml", tables, name="small")
    assert facts.texts == ("title", "note")
    assert facts.n_features == 5
    assert load_settings(tmp_path / "proposed.toml").input.shown == ("title", "note")
