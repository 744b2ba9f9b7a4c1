"""compare, block and repost: what they print and write about finished runs, and what they refuse."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from flows.cli import app
from tests.flows.report.report_folder import edit, write_folder


def invoke(*arguments: object):  # type: ignore[no-untyped-def]
    return CliRunner().invoke(app, [str(one) for one in arguments])


def change_rows(path: Path, **changed: dict[int, object]) -> None:
    """Change cells of a table, by column and row."""
    table = pq.read_table(path)
    for name, cells in changed.items():
        column = table[name].to_pylist()
        for row, value in cells.items():
            column[row] = value
        place = table.schema.get_field_index(name)
        table = table.set_column(place, name, pa.array(column, table.schema.field(name).type))
    pq.write_table(table, path)


CONSENSUS = {
    "task": ["t1", "t2", "t3"],
    "label": ["cat", "dog", "cat"],
    "confidence": [0.9, 0.6, 0.8],
}


@pytest.fixture
def runs(tmp_path: Path) -> tuple[Path, Path]:
    """Two folders of one campaign: in the second a label, a worker, a share and the price differ."""
    first = write_folder(tmp_path / "first")
    pq.write_table(pa.table(CONSENSUS), first / "consensus.parquet")
    second = tmp_path / "second"
    shutil.copytree(first, second)
    change_rows(second / "consensus.parquet", label={1: "cat"}, confidence={1: 0.7})
    workers = pq.read_table(second / "workers.parquet").to_pylist()
    kept = next(row for row, worker in enumerate(workers) if not worker["flagged"])
    change_rows(
        second / "workers.parquet", flagged={kept: True}, reason={kept: "answers at random"}
    )
    change_rows(second / "proportions.parquet", proportion={0: 0.99}, low={0: 0.98}, high={0: 1.0})
    spend = json.loads((second / "spend.json").read_text())
    edit(second / "spend.json", spent=spend["spent"] | {"epsilon": 3.5})
    return first, second


def changes(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_compare_names_labels_workers_shares_and_the_price(
    runs: tuple[Path, Path], tmp_path: Path
) -> None:
    told = invoke("compare", *runs, "--output", tmp_path / "changes.csv")
    assert told.exit_code == 0, told.output
    assert (
        "1 of 3 common tasks has another label; 1 published share moved by more than its"
        in told.output
    )
    found = {row["what"].split()[0]: row for row in changes(tmp_path / "changes.csv")}
    assert found["label"] | {"of": "t2"} == {
        "what": "label", "of": "t2", "before": "dog (60.0%)", "after": "cat (70.0%)", "note": "turned",
    }  # fmt: skip
    assert (found["worker"]["before"], found["worker"]["after"]) == ("kept", "removed")
    assert found["worker"]["note"] == "answers at random"
    assert found["proportion"]["after"] == "99.0% (98.0% to 100.0%)"
    assert found["proportion"]["note"].startswith("moved")
    assert found["epsilon"]["after"] == "3.5"


def test_a_share_outside_an_interval_that_meets_its_own_has_not_moved(
    runs: tuple[Path, Path], tmp_path: Path
) -> None:
    """It was "within the intervals"."""
    change_rows(runs[1] / "proportions.parquet", low={0: 0.0})
    told = invoke("compare", *runs, "--output", tmp_path / "changes.csv")
    assert "0 published shares moved by more than their intervals" in told.output
    (share,) = (row for row in changes(tmp_path / "changes.csv") if "proportion" in row["what"])
    assert (share["after"], share["note"]) == ("99.0% (0.0% to 100.0%)", "the intervals meet")


def test_labels_without_a_confidence_come_last(runs: tuple[Path, Path], tmp_path: Path) -> None:
    """Where models alone have labelled a task, nothing says how sure its label is."""
    change_rows(runs[0] / "consensus.parquet", confidence={1: None})
    change_rows(runs[1] / "consensus.parquet", label={2: "dog"}, confidence={1: None})
    told = invoke("compare", *runs, "--output", tmp_path / "changes.csv")
    assert told.exit_code == 0, told.output
    labels = [row for row in changes(tmp_path / "changes.csv") if row["what"] == "label"]
    assert [(row["of"], row["before"], row["after"]) for row in labels] == [
        ("t3", "cat (80.0%)", "dog (80.0%)"),
        ("t2", "dog", "cat"),
    ]


def test_in_the_other_order_before_and_after_change_places(
    runs: tuple[Path, Path], tmp_path: Path
) -> None:
    for name, folders in (("one", runs), ("other", runs[::-1])):
        assert invoke("compare", *folders, "--output", tmp_path / f"{name}.csv").exit_code == 0
    one, other = (
        {(row["what"], row["of"], *ends(row)) for row in changes(tmp_path / f"{name}.csv")}
        for name, ends in (
            ("one", lambda row: (row["before"], row["after"])),
            ("other", lambda row: (row["after"], row["before"])),
        )
    )
    assert one == other


def test_a_run_compared_with_itself_has_no_changes(runs: tuple[Path, Path], tmp_path: Path) -> None:
    told = invoke("compare", runs[0], runs[0], "--output", tmp_path / "none.csv")
    assert told.exit_code == 0
    assert "0 of 3 common tasks" in told.output
    assert (tmp_path / "none.csv").read_text().splitlines() == ["what,of,before,after,note"]


@pytest.mark.parametrize("command", ["compare", "block", "repost"])
def test_no_table_of_a_run_is_overwritten(
    runs: tuple[Path, Path], tmp_path: Path, command: str
) -> None:
    words: dict[str, tuple[object, ...]] = {
        "compare": runs,
        "block": (runs[0], "--format", "mturk"),
        "repost": (runs[0], "--format", "mturk", "--export", tmp_path / "export.csv"),
    }
    kept = runs[0] / "workers.parquet"
    before = kept.read_bytes()
    told = invoke(command, *words[command], "--output", kept, "--force")
    assert told.exit_code == 2
    assert f"{kept} is in {runs[0]}, which this command reads; name another output" in told.stderr
    assert kept.read_bytes() == before


def test_runs_of_different_campaigns_are_told_apart(runs: tuple[Path, Path]) -> None:
    edit(runs[1] / "inputs.json", name="another")
    assert "different campaigns" in invoke("compare", *runs).output


def test_block_lists_are_those_that_platforms_read(runs: tuple[Path, Path], tmp_path: Path) -> None:
    """MTurk: the columns of Manage > Workers, Upload CSV; Toloka: the body of PUT /user-restrictions."""
    removed = [
        (row["worker"], row["reason"])
        for row in pq.read_table(runs[1] / "workers.parquet").to_pylist()
        if row["flagged"]
    ]
    told = invoke("block", runs[1], "--format", "mturk", "--output", tmp_path / "block.csv")
    assert f"{len(removed)} removed workers written" in told.output
    rows = changes(tmp_path / "block.csv")
    assert [(row["Worker ID"], row["BlockReason"]) for row in rows] == removed
    assert {row["UPDATE BlockStatus"] for row in rows} == {"Block"}
    assert (
        invoke("block", runs[1], "--format", "toloka", "--output", tmp_path / "b.jsonl").exit_code
        == 0
    )
    lines = [json.loads(line) for line in (tmp_path / "b.jsonl").read_text().splitlines()]
    assert [(one["user_id"], one["private_comment"]) for one in lines] == removed
    assert {one["scope"] for one in lines} == {"ALL_PROJECTS"}


EXPORTS = Path(__file__).parents[2] / "importers" / "exports"


def plan(folder: Path, *rows: tuple[str, str]) -> None:
    """A label plan of task and worker."""
    names = ("task", "worker")
    columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    pq.write_table(pa.table(columns | {"gain": [0.1] * len(rows)}), folder / "label_plan.parquet")


def test_repost_writes_the_inputs_of_planned_tasks_for_mturk(
    runs: tuple[Path, Path], tmp_path: Path
) -> None:
    plan(runs[0], ("3HIT01", "A2"), ("3HIT02", "A1"), ("3HIT02", "A3"), ("none", "A1"))
    words = ["repost", runs[0], "--format", "mturk", "--export", EXPORTS / "mturk.csv"]
    told = invoke(*words, "--output", tmp_path / "batch.csv")
    assert told.exit_code == 0, told.output
    assert "2 tasks written" in told.output
    assert "1 task of them: 2 labels each (--labels 2)" in told.output
    assert "1 planned task not in mturk.csv, such as none" in told.output
    rows = changes(tmp_path / "batch.csv")
    assert [row["id"] for row in rows] == ["r1", "r2"]
    assert rows[0].keys() == {"id", "text"}
    assert "Approved" not in (tmp_path / "batch.csv").read_text()
    told = invoke(*words, "--labels", "2", "--output", tmp_path / "two.csv")
    assert [row["id"] for row in changes(tmp_path / "two.csv")] == ["r2"]


def test_repost_takes_the_column_that_the_import_mapped(
    runs: tuple[Path, Path], tmp_path: Path
) -> None:
    plan(runs[0], ("r2", "A2"))
    words = ["repost", runs[0], "--format", "mturk", "--export", EXPORTS / "mturk.csv"]
    told = invoke(*words, "--task", "Input.id", "--output", tmp_path / "batch.csv")
    assert told.exit_code == 0
    assert [row["id"] for row in changes(tmp_path / "batch.csv")] == ["r2"]


def test_repost_writes_inputs_for_toloka(runs: tuple[Path, Path], tmp_path: Path) -> None:
    plan(runs[0], ("t2", "wk-one"))
    words = ["repost", runs[0], "--format", "toloka", "--export", EXPORTS / "toloka.tsv"]
    assert invoke(*words, "--output", tmp_path / "again.tsv").exit_code == 0
    assert (tmp_path / "again.tsv").read_text() == "INPUT:image\n/img/2.jpg\n"


def test_repost_writes_tasks_with_their_data_for_label_studio(
    runs: tuple[Path, Path], tmp_path: Path
) -> None:
    plan(runs[0], ("101", "11"), ("101", "12"))
    export = EXPORTS / "label_studio.json"
    words = ["repost", runs[0], "--format", "label-studio", "--export", export]
    assert invoke(*words, "--output", tmp_path / "again.json").exit_code == 0
    assert json.loads((tmp_path / "again.json").read_text()) == [
        {
            "data": {"text": "Soup was cold. canary"},
            "meta": {"labels_wanted": 2, "ask": ["11", "12"]},
        }
    ]


def test_reposts_and_block_lists_read_back_whatever_cells_hold(
    runs: tuple[Path, Path], tmp_path: Path
) -> None:
    """A carriage return alone is the end of a line to readers, unless it is quoted."""
    plan(runs[0], ("h1", "A2"), ("true", "A2"), ("1", "A2"))
    export, output = tmp_path / "batch.csv", tmp_path / "again.csv"
    export.write_text('HITId,Input.text\n" h1 ","a\rb"\n', newline="")
    words = ["repost", runs[0], "--format", "mturk", "--export", export]
    assert invoke(*words, "--output", output).exit_code == 0
    assert output.read_bytes() == b'"text"\n"a\rb"\n'
    export.write_text('[{"id": true, "data": {"t": "x"}}, {"id": 1.0, "data": {"t": "y"}}]')
    words = ["repost", runs[0], "--format", "label-studio", "--export", export]
    assert invoke(*words, "--output", tmp_path / "again.json").exit_code == 0
    assert [one["data"]["t"] for one in json.loads((tmp_path / "again.json").read_text())] == list(
        "xy"
    )
    export.write_text('[{"id": true, "data": {"t": "\\ud800"}}]')
    told = invoke(*words, "--output", tmp_path / "third.json")
    assert (told.exit_code, type(told.exception)) == (2, SystemExit)
    assert "batch.csv holds a text that is not Unicode; mend it" in told.stderr
    change_rows(runs[0] / "workers.parquet", worker={0: "c\rd"}, flagged={0: True})
    words = ["block", runs[0], "--format", "mturk", "--output", tmp_path / "block.csv"]
    assert invoke(*words).exit_code == 0
    assert '"c\rd","Block",' in (tmp_path / "block.csv").read_bytes().decode()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("compare {first} none", "none must be the folder of a finished run"),
        ("block none --format mturk --output b.csv", "workers.parquet is not in it"),
        ("repost {first} --format toloka --export {mturk} --output b.csv", "INPUT:<name>"),
        (
            "repost {first} --format mturk --export {mturk} --output b.csv",
            "holds no task of the label plan",
        ),
        ("repost {first} --format mturk --export none.csv --output b.csv", "none.csv"),
        ("repost {first} --format mturk --export {mturk} --task no --output b.csv", "missing: no"),
        (
            "repost {first} --format mturk --export {mturk} --task no --output b.csv",
            "check --format and --task",
        ),
        ("repost {first} --format mturk --export {mturk} --output {mturk}", "input"),
        ("repost {first} --format mturk --export {mturk} --output -", "must be a file, got -"),
        ("block {first} --format toloka --output -", "must be a file, got -"),
    ],
)
def test_a_mistake_is_one_sentence(
    runs: tuple[Path, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: str,
    sentence: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    plan(runs[0], ("t1", "w"))
    told = invoke(*words.format(first=runs[0], mturk=EXPORTS / "mturk.csv").split())
    assert told.exit_code == 2, told.output
    assert sentence in told.stderr
    assert len(told.stderr.splitlines()) == 1
    assert sorted(one.name for one in tmp_path.iterdir()) == ["first", "second"]


@pytest.mark.parametrize(
    "words",
    ["compare {run} {run}", "block {run} --format mturk",
     "repost {run} --format mturk --export {mturk}"],
)  # fmt: skip
def test_nothing_is_overwritten_without_force(
    runs: tuple[Path, Path], tmp_path: Path, words: str
) -> None:
    plan(runs[0], ("3HIT01", "A2"))
    output = tmp_path / "out.csv"
    output.write_text("mine")
    called = words.format(run=runs[0], mturk=EXPORTS / "mturk.csv").split()
    assert invoke(*called, "--output", output).exit_code == 2
    assert output.read_text() == "mine"
    assert invoke(*called, "--output", output, "--force").exit_code == 0
    assert output.read_text() != "mine"
