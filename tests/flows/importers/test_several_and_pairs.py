"""Exports whose answers hold several labels at once, or say which of two items is better."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from flows.cli import app
from flows.importers import Dropped, Several, import_labels
from flows.tables import TableError, read_comparisons, read_multilabels


def ticks(name: str, *chosen: str) -> dict[str, Any]:
    return {
        "from_name": name,
        "to_name": "text",
        "type": "choices",
        "value": {"choices": list(chosen)},
    }


def better(side: str) -> dict[str, Any]:
    return {"from_name": "pw", "to_name": "a,b", "type": "pairwise", "value": {"selected": side}}


def annotated(
    *by: tuple[int, list[dict[str, Any]]], cancelled: bool = False
) -> list[dict[str, Any]]:
    return [
        {"completed_by": who, "result": result, "was_cancelled": cancelled, "lead_time": 2.5}
        for who, result in by
    ]


def task(number: int, annotations: list[dict[str, Any]], **data: str) -> dict[str, Any]:
    return {"id": number, "data": data, "annotations": annotations}


TOPICS = [
    task(1, annotated((7, [ticks("topic", "art", "law")]), (8, [ticks("topic", "art")]))),
    task(2, annotated((7, []), (8, [ticks("topic", "law", "law", "war")]))),
    task(3, annotated((7, [ticks("topic", "art")]), cancelled=True)),
]
FLAT = [
    {
        "id": "r1", "topic.responses": [["art", "law"], [], ["war"]],
        "topic.responses.users": ["u1", "u2", "u3"],
        "topic.responses.status": ["submitted", "submitted", "draft"],
    }
]  # fmt: skip
NESTED = [{"id": "r1", "responses": {"topic": [{"user_id": "u1", "value": ["art", "law"]}]}}]
PAIRS = [
    task(1, annotated((7, [better("left")]), (8, [better("right")])), one="gpt", other="claude"),
    task(2, annotated((7, [better("left")])), one="claude", other="llama"),
]


def written(folder: Path, records: object) -> Path:
    path = folder / "export.json"
    path.write_text(json.dumps(records))
    return path


def rows_of(found: Any) -> list[tuple[str, str, str]]:
    return list(zip(found.worker, found.task, found.label, strict=True))


def test_label_studio_choices_become_cells_of_labels(tmp_path: Path) -> None:
    path = written(tmp_path, TOPICS)
    found = import_labels(path, "label-studio", several=Several())
    assert rows_of(found) == [("7", "1", "art|law"), ("8", "1", "art"), ("8", "2", "law|war")]
    assert {why.value: n for why, n in found.dropped.items()} == {"skipped": 2}
    empty = import_labels(path, "label-studio", several=Several(";", "none"))
    assert rows_of(empty)[2:] == [("7", "2", "none"), ("8", "2", "law;war")]
    assert empty.seconds == (2.5,) * 4


def test_without_asking_several_labels_are_dropped_as_before(tmp_path: Path) -> None:
    found = import_labels(written(tmp_path, TOPICS), "label-studio")
    assert rows_of(found) == [("8", "1", "art")]
    assert "2 with several labels at once" in found.summary()


@pytest.mark.parametrize("records", [FLAT, NESTED], ids=["flat", "nested"])
def test_argilla_multi_label_answers_become_cells_of_labels(
    tmp_path: Path, records: object
) -> None:
    found = import_labels(written(tmp_path, records), "argilla", several=Several(nothing="none"))
    whole = [("u1", "r1", "art|law"), ("u2", "r1", "none")]
    assert rows_of(found) == (whole if records is FLAT else whole[:1])


def test_what_was_imported_is_what_multilabel_reads(tmp_path: Path) -> None:
    labels = tmp_path / "labels.csv"
    words = [
        "import",
        str(written(tmp_path, TOPICS)),
        "--format",
        "label-studio",
        "--output",
        str(labels),
    ]
    told = CliRunner().invoke(app, [*words, "--several", "--nothing", "none"])
    assert told.exit_code == 0, told.stderr
    assert "4 labels written" in told.stdout
    table = read_multilabels(labels, nothing="none")
    sets = [table.set_of(answer).tolist() for answer in range(table.n_answers)]
    assert sets == [["art", "law"], ["art"], [], ["law", "war"]]


@pytest.mark.parametrize("option", ["--split", "--nothing"])
def test_what_only_several_labels_need_is_refused_without_them(tmp_path: Path, option: str) -> None:
    path, output = tmp_path / "labels.csv", tmp_path / "output.csv"
    path.write_text("worker,task,label\nann,1,x\n")
    words = ["import", str(path), "--format", "table", "--output", str(output), option, "/"]
    told = CliRunner().invoke(app, words)
    assert told.exit_code == 2
    assert f"{option} needs --several" in told.stderr
    assert not output.exists()


def test_label_studio_comparisons_are_what_rank_reads(tmp_path: Path) -> None:
    labels = tmp_path / "comparisons.csv"
    words = [
        "import",
        str(written(tmp_path, PAIRS)),
        "--format",
        "label-studio",
        "--output",
        str(labels),
    ]
    told = CliRunner().invoke(app, [*words, "--map", "left=one,right=other"])
    assert told.exit_code == 0, told.stderr
    with labels.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["left"], row["right"], row["label"]) for row in rows] == [
        ("gpt", "claude", "left"), ("gpt", "claude", "right"), ("claude", "llama", "left"),
    ]  # fmt: skip
    table = read_comparisons(labels)
    assert (len(table.worker), sorted(table.items.tolist())) == (3, ["claude", "gpt", "llama"])


def test_flat_label_studio_comparisons_name_keys_of_the_record(tmp_path: Path) -> None:
    record = {"one": "gpt", "other": "claude", "id": 1, "pw": {"selected": "right"}, "annotator": 7}
    found = import_labels(
        written(tmp_path, [record]), "label-studio", columns={"left": "one", "right": "other"}
    )
    assert (rows_of(found), found.left, found.right) == (
        [("7", "1", "right")],
        ("gpt",),
        ("claude",),
    )


@pytest.mark.parametrize(
    ("records", "asked", "said"),
    [
        (PAIRS, {"columns": {"left": "one"}}, "must name left and right, both"),
        (PAIRS, {"columns": {"left": "one", "right": "two"}}, "record 1: one and two must name"),
        (TOPICS, {"several": Several("a")}, r"a label in the answer to 'topic' holds 'a'"),
        (TOPICS, {"several": Several("")}, "--split must not be empty"),
    ],
)
def test_a_mistake_is_named(
    tmp_path: Path, records: object, asked: dict[str, Any], said: str
) -> None:
    with pytest.raises(TableError, match=said):
        import_labels(written(tmp_path, records), "label-studio", **asked)


@pytest.mark.parametrize(
    ("answers", "left"), [([1.0, float("nan")], ["1"]), ([None, "b"], ["b"])], ids=["nan", "null"]
)
def test_nothing_in_a_platforms_parquet_is_no_label(
    tmp_path: Path, answers: list[object], left: list[str]
) -> None:
    """NaN was a class "nan"."""
    found = import_labels(batch(tmp_path, answers), "mturk")
    assert found.label == tuple(left)
    assert found.dropped == {Dropped.skipped: 1}


def test_lists_in_a_platforms_parquet_are_refused_by_name(tmp_path: Path) -> None:
    """It was "not a readable table; export it again"."""
    with pytest.raises(
        TableError, match=r"column Answer\.q: each cell must be a single value, and holds a"
    ):
        import_labels(batch(tmp_path, [["a"], ["b", "c"]]), "mturk")


def batch(folder: Path, answers: list[Any]) -> Path:
    path = folder / "BATCH.PARQUET"
    own = {"HITId": ["h1", "h2"], "WorkerId": ["w1", "w1"], "AssignmentStatus": ["Approved"] * 2}
    pq.write_table(pa.table({**own, "Answer.q": answers}), path)
    return path


def test_a_multi_select_of_mturk_is_a_list_in_a_cell(tmp_path: Path) -> None:
    """Its JSON was one label, brackets and all."""
    path = tmp_path / "batch.csv"
    cells = ['["art","law"]', '["art"]', "[]", "plain", "[torn"]
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["HITId", "WorkerId", "AssignmentStatus", "Answer.topic.labels"])
        rows.writerows(["h1", f"w{k}", "Approved", cell] for k, cell in enumerate(cells))
    alone = import_labels(path, "mturk", question="topic")
    assert alone.label == ("art", "plain", "[torn")
    assert alone.dropped == {Dropped.skipped: 1, Dropped.several: 1}
    found = import_labels(path, "mturk", several=Several(nothing="none"))
    assert found.label == ("art|law", "art", "none", "plain", "[torn")


@pytest.mark.parametrize(("form", "split"), [("mturk", "|"), ("table", "|"), ("table", ", ")])
def test_a_cell_that_holds_several_labels_is_read_as_them(
    tmp_path: Path, form: str, split: str
) -> None:
    """The refusal said to name another --split, by which a cell became one class."""
    path = tmp_path / "export.csv"
    names = {
        "mturk": ["HITId", "WorkerId", "AssignmentStatus", "Answer.topic"],
        "table": ["task", "worker", "state", "label"],
    }[form]
    cells = [f"art{split}law", "art", "", f"law{split} law{split}"]
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(names)
        rows.writerows(["h1", f"w{k}", "Approved", cell] for k, cell in enumerate(cells))
    found = import_labels(path, form, several=Several(split))
    assert found.label == (f"art{split}law", "art", "law")
    assert found.dropped == {Dropped.skipped: 1}


def test_a_pipe_is_refused_as_one(tmp_path: Path) -> None:
    """It was said not to exist."""
    os.mkfifo(tmp_path / "pipe")
    for form in ("mturk", "label-studio"):
        with pytest.raises(TableError, match="pipe is a pipe or a device, .*; save what comes"):
            import_labels(tmp_path / "pipe", form)
