"""Importers: what each platform's export becomes, what is left out, and the message for a wrong file.

The exports beside this file are written by hand after the platforms' own headers; nobody in them is
real. Whatever must not be read from them says "canary".
"""

from __future__ import annotations

import csv
import gzip
import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from flows.cli import app
from flows.importers import FORMATS, Dropped, import_labels, parse_map, write_labels
from flows.tables import TableError, read_labels, read_seconds, table_file
from quality import CrowdLabels

EXPORTS = Path(__file__).parent / "exports"
USER = "0b9f0c3e-0000-4000-8000-00000000000"
REJECTED, SKIPPED, SEVERAL = Dropped.rejected, Dropped.skipped, Dropped.several
Row = tuple[str, str, str, float | None]

# file, format, question: rows by hand from the file, and what is left out of it
GOLDEN: dict[tuple[str, str, str], tuple[list[Row], dict[Dropped, int]]] = {
    ("inspect.json", "inspect", "verdict"): (
        [
            ("model_graded_qa", "1", "C", None),
            ("model_graded_fact", "1", "I", None),
            ("model_graded_qa", "2", "P", None),
            ("model_graded_qa", "2/2", "C", None),
        ],
        {SKIPPED: 1},
    ),
    ("promptfoo.json", "promptfoo", "tone"): (
        [
            ("judge-a", "r1", "pass", None),
            ("judge-b", "r1", "fail", None),
            ("judge-a", "1/0/p", "fail", None),
        ],
        {},
    ),
    ("promptfoo.json", "promptfoo", "contains"): ([("contains", "r1", "pass", None)], {}),
    ("deepeval.json", "deepeval", "Correctness [GEval]"): (
        [("judge-a", "test_case_0", "pass", None), ("judge-b", "test_case_2", "fail", None)],
        {Dropped.unfinished: 1},
    ),
    ("deepeval.json", "deepeval", "Bias"): (
        [("judge-b", "test_case_0", "fail", None), ("Bias", "test_case_1", "pass", None)],
        {},
    ),
    ("lm_eval.jsonl", "lm-eval", "strict-match"): (
        [("exports", "0", "B", None), ("exports", "2", "1", None)],
        {SKIPPED: 1},
    ),
    ("mturk.csv", "mturk", "sentiment"): (
        [
            ("A1SAMPLEONE", "3HIT01", "positive", 37),
            ("A2SAMPLETWO", "3HIT01", "negative", 12),
            ("A1SAMPLEONE", "3HIT02", "negative", 41),
            ("A4SAMPLEFOUR", "3HIT02", "negative", None),
        ],
        {REJECTED: 1, SKIPPED: 1},
    ),
    ("mturk.csv", "mturk", "topic"): (
        [
            ("A1SAMPLEONE", "3HIT01", "food", 37),
            ("A2SAMPLETWO", "3HIT01", "room", 12),
            ("A4SAMPLEFOUR", "3HIT02", "staff", None),
        ],
        {REJECTED: 1, SKIPPED: 1, SEVERAL: 1},
    ),
    ("toloka.tsv", "toloka", "result"): (
        [
            ("wk-one", "t1", "cat", 12.25),  # 24.5 s for a suite of two
            ("wk-one", "t2", "dog", 12.25),
            ("wk-two", "t1", "cat", 5),
        ],
        {REJECTED: 1, SKIPPED: 1, Dropped.unfinished: 1},
    ),
    ("appen.csv", "appen", "relevance"): (
        [("4401", "7001", "yes", 30), ("4401", "7002", "no", 30), ("4403", "7002", "yes", 30)],
        {REJECTED: 1, SKIPPED: 1},
    ),
    ("appen.csv", "appen", "colors"): (
        [("4401", "7002", "red", 30), ("4403", "7002", "blue", 30), ("4403", "7001", "red", 30)],
        {REJECTED: 1, SEVERAL: 1},
    ),
    ("label_studio.json", "label-studio", "mood"): (
        [("11", "101", "Negative", 8.25), ("11", "102", "Positive", None)],
        {SKIPPED: 2, SEVERAL: 1, Dropped.truth: 1},
    ),
    ("label_studio.json", "label-studio", "stars"): (
        [("11", "101", "4", 8.25), ("11", "102", "4", None), ("12", "102", "4", 8.25)],
        {SKIPPED: 2, Dropped.truth: 1},
    ),
    ("label_studio_min.json", "label-studio", "mood"): (
        [("11", "101", "Negative", 8.25), ("12", "101", "Neutral", 4)],
        {SKIPPED: 1},
    ),
    ("prodigy.jsonl", "prodigy", "choice"): (
        [
            ("reviews-ann", "501", "yes", None),
            ("reviews-ben", "501", "no", None),
            ("reviews-dan", "502", "no", None),
        ],
        {SKIPPED: 3, SEVERAL: 1},
    ),
    ("argilla.json", "argilla", "mood"): (
        [
            (f"{USER}0", "rec-1", "good", None),
            (f"{USER}1", "rec-1", "bad", None),
            (f"{USER}0", "rec-2", "good", None),
        ],
        {SKIPPED: 1, Dropped.unfinished: 1},
    ),
    ("argilla.json", "argilla", "grade"): ([(f"{USER}0", "rec-1", "4", None)], {}),
    ("argilla_nested.json", "argilla", "mood"): (
        [(f"{USER}0", "rec-1", "good", None), (f"{USER}1", "rec-1", "bad", None)],
        {},
    ),
}
each_export = pytest.mark.parametrize(
    ("export", "form", "question"), GOLDEN, ids=["-".join(key) for key in GOLDEN]
)


def rows_of(labels: Any) -> list[Row]:
    return list(zip(labels.worker, labels.task, labels.label, labels.seconds, strict=True))


def read(path: Path) -> CrowdLabels:
    return read_labels(path, classes=None, duplicates="error", known_tasks=None)


def invoke(export: Path, form: str, output: Path, *more: str) -> Any:
    return CliRunner().invoke(
        app, ["import", str(export), "--format", form, "--output", str(output), *more]
    )


def write_csv(path: Path, rows: list[list[str]], delimiter: str = ",") -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, delimiter=delimiter).writerows(rows)
    return path


@each_export
def test_an_export_becomes_its_labels(export: str, form: str, question: str) -> None:
    found = import_labels(EXPORTS / export, form, question=question)
    rows, dropped = GOLDEN[export, form, question]
    assert rows_of(found) == rows
    assert dict(found.dropped) == dropped


@each_export
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_what_is_written_is_what_is_read_back(
    tmp_path: Path, export: str, form: str, question: str, suffix: str
) -> None:
    output = tmp_path / f"labels{suffix}"
    rows, _ = GOLDEN[export, form, question]
    assert invoke(EXPORTS / export, form, output, "--question", question).exit_code == 0
    labels = read(output)
    named = [labels.workers[labels.worker], labels.tasks[labels.task], labels.classes[labels.label]]
    found = set(zip(*(column.tolist() for column in named), strict=True))
    assert found == {row[:3] for row in rows}
    if any(row[3] is not None for row in rows):
        seconds = read_seconds(output, "seconds", labels, duplicates="error")
        told = {row[:2]: np.nan if row[3] is None else row[3] for row in rows}
        expected = [told[key] for key in zip(named[0].tolist(), named[1].tolist(), strict=True)]
        np.testing.assert_array_equal(seconds, expected)


@each_export
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_no_other_cell_of_the_export_is_in_the_output(
    tmp_path: Path, export: str, form: str, question: str, suffix: str
) -> None:
    assert "canary" in (EXPORTS / export).read_text(encoding="utf-8")
    output = tmp_path / f"labels{suffix}"
    keep = ["--keep-rejected"] * (form in ("appen", "mturk", "toloka"))  # refused for others
    told = invoke(EXPORTS / export, form, output, "--question", question, *keep)
    assert told.exit_code == 0
    if suffix == ".parquet":
        written = str(pq.read_table(output).to_pydict())
    else:
        written = output.read_text(encoding="utf-8")
    assert "canary" not in written + told.output
    assert [path.name for path in tmp_path.iterdir()] == [output.name]


@each_export
def test_every_answer_is_a_label_or_counted_as_dropped(
    export: str, form: str, question: str
) -> None:
    taken = import_labels(EXPORTS / export, form, question=question)
    kept = import_labels(EXPORTS / export, form, question=question, keep_rejected=True)
    assert kept.dropped.get(REJECTED, 0) == 0
    for found in (taken, kept):
        assert found.n_labels + sum(found.dropped.values()) == {
            "argilla.json": 5 if question == "mood" else 1,
            "argilla_nested.json": 2,
            "appen.csv": 5,
            "label_studio_min.json": 3,
            "prodigy.jsonl": 7,
            "inspect.json": 5,
            "promptfoo.json": 3 if question == "tone" else 1,
            "deepeval.json": 3 if question != "Bias" else 2,
            "lm_eval.jsonl": 3,
        }.get(export, 6)


def test_the_line_says_what_was_read_and_dropped(tmp_path: Path) -> None:
    output = tmp_path / "labels.csv"
    told = invoke(EXPORTS / "mturk.csv", "mturk", output, "--question", "topic")
    assert told.output == (
        "6 answers to 'topic' read from mturk.csv; dropped 1 rejected, 1 skipped, 1 with several "
        f"labels at once; 3 labels written to {output}, with their seconds\n"
    )


def test_one_answer_and_one_label_are_no_plurals(tmp_path: Path) -> None:
    path = tmp_path / "one.csv"
    path.write_text("worker,task,label\nann,t1,cat\n")
    told = invoke(path, "table", tmp_path / "labels.csv").output
    assert "1 answer to 'label' read from one.csv; none dropped; 1 label written to" in told
    assert repr(import_labels(path, "table")).endswith("; 1 label)")


def test_a_label_studio_worker_without_an_id_goes_by_her_email(tmp_path: Path) -> None:
    part = {"from_name": "mood", "type": "choices", "value": {"choices": ["good"]}}
    people = [
        {"email": "ann@example.org"},
        {"id": None, "email": "ben@example.org"},
        {"id": 7, "email": "x"},
    ]
    records = [
        {"id": task, "annotations": [{"completed_by": by, "result": [part]}]}
        for task, by in enumerate(people)
    ]
    path = tmp_path / "export.json"
    path.write_text(json.dumps(records))
    found = import_labels(path, "label-studio")
    assert list(found.worker) == ["ann@example.org", "ben@example.org", "7"]


def test_rejected_answers_are_kept_where_asked(tmp_path: Path) -> None:
    output = tmp_path / "labels.csv"
    invoke(EXPORTS / "toloka.tsv", "toloka", output, "--keep-rejected")
    assert "wk-three,t1,dog,1\n" in output.read_text()


@pytest.mark.parametrize(
    ("export", "form", "questions"),
    [
        ("mturk.csv", "mturk", "sentiment, topic, remark"),
        ("appen.csv", "appen", "relevance, colors"),
        ("label_studio.json", "label-studio", "mood, stars"),
        ("label_studio_min.json", "label-studio", "mood, tags"),
        ("argilla.json", "argilla", "mood, grade"),
    ],
)
def test_several_questions_are_named(
    tmp_path: Path, export: str, form: str, questions: str
) -> None:
    told = invoke(EXPORTS / export, form, tmp_path / "labels.csv")
    assert told.exit_code == 2
    assert told.stderr == (
        f"crowdassay: {export} has several questions: {questions}; name one with --question\n"
    )
    told = invoke(EXPORTS / export, form, tmp_path / "labels.csv", "--question", "weather")
    assert told.stderr == f"crowdassay: {export} has no question 'weather'; it has {questions}\n"
    assert not (tmp_path / "labels.csv").exists()


@pytest.mark.parametrize(
    ("export", "form"),
    sorted({(key[0], form) for key in GOLDEN for form in FORMATS} - {key[:2] for key in GOLDEN}),
)
def test_a_wrong_format_is_one_sentence(tmp_path: Path, export: str, form: str) -> None:
    told = invoke(EXPORTS / export, form, tmp_path / "labels.csv")
    assert told.exit_code == 2
    assert told.stderr.startswith(f"crowdassay: {export}")
    assert told.stderr.count("\n") == 1
    assert "check --format" in told.stderr
    assert "canary" not in told.stderr


@pytest.mark.parametrize(
    ("export", "form", "lost"),
    [
        ("mturk.csv", "mturk", "AssignmentStatus"),
        ("mturk.csv", "mturk", "WorkerId"),
        ("toloka.tsv", "toloka", "ASSIGNMENT:worker_id"),
        ("toloka.tsv", "toloka", "ASSIGNMENT:status"),
        ("appen.csv", "appen", "_unit_id"),
    ],
)
def test_a_missing_column_is_named_with_those_needed_and_there(
    tmp_path: Path, export: str, form: str, lost: str
) -> None:
    text = (EXPORTS / export).read_text(encoding="utf-8").replace(lost, "lost", 1)
    (tmp_path / export).write_text(text, encoding="utf-8")
    with pytest.raises(TableError, match=rf"must have the columns .*{lost}.*; missing: .*it has "):
        import_labels(tmp_path / export, form)


@pytest.mark.parametrize(
    ("export", "form", "cell", "damaged", "told"),
    [
        ("mturk.csv", "mturk", "Submitted", "Paid", "row 4, column AssignmentStatus: 'Paid' must"),
        ("mturk.csv", "mturk", '"12"', '"-12"', "row 2, column WorkTimeInSeconds: '-12' must be"),
        ("toloka.tsv", "toloka", "EXPIRED", "GONE", "row 6, column ASSIGNMENT:status: 'GONE' must"),
        ("toloka.tsv", "toloka", "T11:00:10", "T10:59:59", "row 3: .* a time and a later one"),
        ("toloka.tsv", "toloka", "T11:00:10", "T11:00:10Z", "row 3: .* a time and a later one"),
        ("appen.csv", "appen", "3/2/2026 10:02:00", "noon", "row 3: 'noon' to .* must be a time"),
        ("prodigy.jsonl", "prodigy", '"ignore"', '"later"', "record 3: the answer must be one of"),
        ("argilla.json", "argilla", '"draft"', '"lost"', "record 1: the status of an answer must"),
    ],
)
def test_a_status_or_time_that_is_none_is_told_with_its_row(
    tmp_path: Path, export: str, form: str, cell: str, damaged: str, told: str
) -> None:
    text = (EXPORTS / export).read_text(encoding="utf-8")
    assert cell in text
    (tmp_path / export).write_text(text.replace(cell, damaged), encoding="utf-8")
    with pytest.raises(TableError, match=rf"{export}, {told}"):
        import_labels(tmp_path / export, form)


def test_a_form_of_mturk_in_one_cell_is_taken_apart(tmp_path: Path) -> None:
    cells = ['[{"mood":{"label":"good"},"pets":{"cat":true,"dog":false}}]', "", "[{}]"]
    rows = [["HITId", "WorkerId", "AssignmentStatus", "Answer.taskAnswers"]]
    rows += [["h1", f"w{k}", "Approved", cell] for k, cell in enumerate(cells)]
    path = write_csv(tmp_path / "batch.csv", rows)
    for question, label in (("mood", "good"), ("pets", "cat")):
        found = import_labels(path, "mturk", question=question)
        assert rows_of(found) == [("w0", "h1", label, None)]
        assert found.dropped == {SKIPPED: 2}


def test_columns_of_free_text_under_one_name_are_questions_of_their_own(tmp_path: Path) -> None:
    rows = [
        ["HITId", "WorkerId", "AssignmentStatus", "Answer.a.x", "Answer.a.y", "Answer.agree.on"]
    ]
    path = write_csv(tmp_path / "b.csv", [*rows, ["h", "w", "Submitted", "red", "true", "true"]])
    with pytest.raises(TableError, match=r"several questions: a\.x, a\.y, agree\.on;"):
        import_labels(path, "mturk")
    assert import_labels(path, "mturk", question="agree.on").label == ("true",)


def test_an_old_toloka_suite_takes_the_assignment_of_its_last_row(tmp_path: Path) -> None:
    header = ["INPUT:id", "OUTPUT:ok", "ASSIGNMENT:worker_id", "ASSIGNMENT:status"]
    rows = [["i1", "yes", "", ""], ["i2", "no", "w1", "APPROVED"], ["i1", "no", "w2", "APPROVED"]]
    blank = ["", "", "", ""]
    path = write_csv(tmp_path / "a.tsv", [header, *rows[:2], blank, rows[2]], "\t")
    found = import_labels(path, "toloka")
    assert [row[:3] for row in rows_of(found)] == [
        ("w1", "i1", "yes"),
        ("w1", "i2", "no"),
        ("w2", "i1", "no"),
    ]
    open_end = write_csv(tmp_path / "b.tsv", [header, *rows, ["i2", "no", "", ""]], "\t")
    with pytest.raises(TableError, match="row 4: no row of its suite names a worker"):
        import_labels(open_end, "toloka")


def test_a_toloka_file_without_task_ids_needs_one_input_or_a_map(tmp_path: Path) -> None:
    header = ["INPUT:a", "INPUT:b", "OUTPUT:ok", "ASSIGNMENT:worker_id", "ASSIGNMENT:status"]
    path = write_csv(tmp_path / "a.tsv", [header, ["1", "2", "yes", "w", "APPROVED"]], "\t")
    with pytest.raises(TableError, match=r"several inputs \(INPUT:a, INPUT:b\).*--map task="):
        import_labels(path, "toloka")
    assert import_labels(path, "toloka", columns={"task": "INPUT:b"}).task == ("2",)


def test_where_an_appen_worker_sits_is_not_imported_even_if_asked() -> None:
    with pytest.raises(TableError, match="column _ip is personal and is never imported"):
        import_labels(EXPORTS / "appen.csv", "appen", columns={"worker": "_ip"})
    with pytest.raises(TableError, match="has no question '_city'"):
        import_labels(EXPORTS / "appen.csv", "appen", question="_city")


def test_one_label_shown_at_a_time_is_the_question(tmp_path: Path) -> None:
    lines = [("ann", "FOOD", "accept"), ("ben", "FOOD", "reject"), ("ann", "ROOM", "ignore")]
    records = [
        {"_input_hash": 7, "_annotator_id": who, "label": label, "answer": answer}
        for who, label, answer in lines
    ]
    path = tmp_path / "p.jsonl"
    path.write_text("\n".join(map(json.dumps, records)))
    found = import_labels(path, "prodigy", question="FOOD")
    assert rows_of(found) == [("ann", "7", "accept", None), ("ben", "7", "reject", None)]
    assert found.dropped == {}
    with pytest.raises(TableError, match=r"no answer to 'ROOM' is left to write \(1 skipped\)"):
        import_labels(path, "prodigy", question="ROOM")


def test_a_number_that_is_none_is_nothing(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    record = '{"worker": 1, "task": 1.5, "label": %s, "seconds": %s}\n'
    path.write_text(record % ("true", "NaN") + record % ("NaN", "2"))
    found = import_labels(path, "jsonl")
    assert rows_of(found) == [("1", "1.5", "true", None)]
    assert found.dropped == {SKIPPED: 1}


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "parquet", "jsonl"])
def test_a_plain_table_is_mapped(tmp_path: Path, suffix: str) -> None:
    columns: dict[str, list[Any]] = {
        "annotator": [7, 7, 8],
        "item": ["a", "b", "a"],
        "answer": ["x", None, "y"],
        "took": [1.5, 2.0, None],
    }
    rows = list(zip(*columns.values(), strict=True))
    path = tmp_path / f"t.{suffix}"
    if suffix == "parquet":
        pq.write_table(pa.table(columns), path)
    elif suffix == "jsonl":
        path.write_text("\n".join(json.dumps(dict(zip(columns, r, strict=True))) for r in rows))
    else:
        cells = [["" if cell is None else str(cell) for cell in row] for row in rows]
        write_csv(tmp_path / "t.csv", [list(columns), *cells])
        if suffix == "csv.gz":
            path.write_bytes(gzip.compress((tmp_path / "t.csv").read_bytes()))
    output = tmp_path / "labels.csv"
    form = "jsonl" if suffix == "jsonl" else "table"
    mapped = "worker=annotator,task=item,label=answer,seconds=took"
    assert invoke(path, form, output, "--map", mapped).exit_code == 0
    assert output.read_text() == "worker,task,label,seconds\n7,a,x,1.5\n8,a,y,\n"


@pytest.mark.parametrize(
    ("text", "form", "told"),
    [
        ("worker", "table", "--map must be ROLE=COLUMN"),
        ("annotator=worker", "table", "roles of worker, task, label, seconds"),
        ("worker=a,worker=b", "table", "each once"),
        ("seconds=took", "toloka", "roles of worker, task, label, each"),
        ("worker=a", "prodigy", "--map is for tables"),
    ],
)
def test_a_wrong_map_is_told(text: str, form: str, told: str) -> None:
    with pytest.raises(TableError, match=told):
        parse_map(text, form)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("worker,task,label\n", "no rows below its header"),
        ("", "is empty; it needs a header"),
        ("worker,task,label\nw,t,a\ncanary,t\n", "line 3 must have 3 columns, it has 2"),
        ("worker,task,label\nw,t,a\n ,t,b\n", "row 2: the worker is blank"),
        ("worker,task,label\nw,,a\n", "row 1: the task is blank"),
        ("worker,task,label\nw,t,\n", r"no answer to 'label' is left to write \(1 skipped\)"),
        (
            "worker,task,label,seconds\nw,t,a,soon\n",
            "row 1, column seconds: 'soon' must be seconds",
        ),
        ("worker,task,label,label\nw,t,a,b\n", "column names must differ"),
        (
            'worker,task,label\nw,t,a\nw,u,"{""choices"": [""canary""]}"\n',
            "row 2, column label: must be a label, got JSON of several choices",
        ),
    ],
)
def test_a_torn_table_is_told_without_its_row(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(TableError, match=rf"t\.csv.*{told}") as error:
        import_labels(path, "table")
    assert "canary" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "has no records"),
        ("[", "ends in the middle"),
        ('[{"id": 1', "ends in the middle"),
        ('[{"id": 1, "annotations": []},\n{"id": }]', "line 2: is not JSON"),
        ("[" * 100_000 + "]" * 100_000, "line 1: is not JSON"),
        ("[1" + "0" * 5_000 + "]", "line 1: is not JSON"),
        ('[{"id": 1, "annotations": 3}]', "annotations must be a list, got a int"),
        ('[{"id": [1], "annotations": []}]', "key id: must be a name or a number"),
    ],
    ids=["nothing", "open", "torn", "no value", "deep", "long number", "no list", "no id"],
)
def test_torn_json_is_told_with_its_line(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "t.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(TableError, match=rf"t\.json.*{told}"):
        import_labels(path, "label-studio")


def test_label_studios_csv_is_refused_with_the_export_to_make(tmp_path: Path) -> None:
    """It was "is not JSON; check --format"."""
    path = tmp_path / "t.csv"
    path.write_text("annotation_id,annotator,id,choice\n1,3,11,a\n")
    with pytest.raises(
        TableError, match=r"t\.csv must be the JSON or JSON-MIN export .* as JSON, or"
    ):
        import_labels(path, "label-studio")


@pytest.mark.parametrize(
    ("name", "form", "content", "told"),
    [
        ("t.parquet", "table", b"PAR1 no more", "not a readable table"),
        ("t.csv", "table", b"\xffworker,task,label\nw,t,a\n", "must have the columns worker, task"),
        (
            "t.csv",
            "table",
            b"worker,task,label\n" + b"w,t,a\n" * 99_999 + b"w,t,\xff",
            "not UTF-8 text; say what it is: --encoding",
        ),
        ("t.csv.gz", "table", b"not gzipped", "damaged"),
        ("t.jsonl", "jsonl", b"\xff", "must be UTF-8 text"),
        ("t.jsonl.gz", "jsonl", b"not gzipped", "cannot be read"),
        ("t.csv", "mturk", b"", "has no line of names at its top; export it again"),
        ("t.jsonl", "prodigy", b'{"_input_hash": 1, "answer": "accept"}', "the key options or"),
        (
            "t.csv",
            "mturk",
            b"HITId,WorkerId,AssignmentStatus,Answer.taskAnswers\nh,w,Approved,{",
            "row 1",
        ),
        (
            "t.csv",
            "mturk",
            b"HITId,WorkerId,AssignmentStatus,Answer.taskAnswers\nh,w,Approved,3",
            "row 1",
        ),
    ],
)
def test_bytes_of_another_kind_are_a_mistake(
    tmp_path: Path, name: str, form: str, content: bytes, told: str
) -> None:
    (tmp_path / name).write_bytes(content)
    found = invoke(tmp_path / name, form, tmp_path / "labels.csv")
    assert found.exit_code == 2
    assert name in found.stderr
    assert told in found.stderr


@pytest.mark.parametrize("export", ["mturk.csv", "toloka.tsv"])
def test_a_mark_says_how_rows_are_written_and_not_names_alone(tmp_path: Path, export: str) -> None:
    text, form = (EXPORTS / export).read_text(encoding="utf-8"), export.partition(".")[0]
    named = {"mturk": "sentiment", "toloka": None}[form]
    found = rows_of(import_labels(EXPORTS / export, form, question=named))
    for encoding in ("utf-8-sig", "utf-16", "utf-32"):
        (tmp_path / export).write_bytes(text.encode(encoding))
        assert rows_of(import_labels(tmp_path / export, form, question=named)) == found
    with pytest.raises(TableError, match="is a folder, and an export is one file; name a file in"):
        import_labels(tmp_path, form)


def test_a_platforms_columns_may_be_named_by_hand(tmp_path: Path) -> None:
    mapped = {"task": "Input.id", "label": "Answer.remark", "seconds": "WorkTimeInSeconds"}
    found = import_labels(EXPORTS / "mturk.csv", "mturk", columns=mapped)
    assert rows_of(found)[1] == ("A1SAMPLEONE", "r2", 'two, said "both"', 41)


def test_an_output_that_cannot_be_is_a_mistake(tmp_path: Path) -> None:
    export = EXPORTS / "toloka.tsv"
    for output, told in (
        (tmp_path / "labels.xlsx", "must end in .csv, .tsv, .parquet, .jsonl"),
        (tmp_path / "no" / "labels.csv", "is not there; make it first"),
    ):
        found = invoke(export, "toloka", output)
        assert found.exit_code == 2
        assert told in found.stderr
    same = tmp_path / "labels.csv"
    same.write_text("worker,task,label\nw,t,a\n")
    assert "is an input of this command" in invoke(same, "table", same).stderr
    for folder in (tmp_path, tmp_path / "no"):  # the input is named first
        missing = invoke(folder / "none.csv", "table", folder / "new.csv")
        assert missing.exit_code == 2
        assert f"{folder / 'none.csv'} does not exist" in missing.stderr


def test_a_name_that_is_no_text_leaves_no_file(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text('{"worker": "\\ud800", "task": "t", "label": "a"}')
    for suffix in (".csv", ".parquet"):
        told = invoke(path, "jsonl", tmp_path / f"labels{suffix}")
        assert told.exit_code == 2
        assert "not Unicode text; mend it" in told.stderr
    assert [file.name for file in tmp_path.iterdir()] == ["t.jsonl"]


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_has_a_reader_and_the_command_offers_it(form: str) -> None:
    assert callable(FORMATS[form].read)
    told = CliRunner().invoke(app, ["import", "--help"], env={"COLUMNS": "300"})
    assert re.search(rf"[<|]{form}[|>]", told.output)


def test_every_format_of_a_platform_has_an_export_and_rows_by_hand() -> None:
    plain = {"jsonl", "sql", "table"}
    assert {form for _, form, _ in GOLDEN} == set(FORMATS) - plain


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner),
    max_leaves=4,
)
RECORDS = {
    name: json.loads(f"[{','.join(text.splitlines())}]" if name.endswith("l") else text)
    for name in (
        *("label_studio.json", "label_studio_min.json", "argilla.json", "prodigy.jsonl"),
        *("inspect.json", "promptfoo.json", "deepeval.json", "lm_eval.jsonl"),
    )
    for text in [(EXPORTS / name).read_text(encoding="utf-8")]
}


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every part of nested lists and objects, as its holder and its key."""
    found, left = [], [value]
    for holder in left:
        if isinstance(holder, dict | list):
            keys = list(holder) if isinstance(holder, dict) else range(len(holder))
            found += [(holder, key) for key in keys]
            left += [holder[key] for key in keys]
    return found


@pytest.mark.parametrize("export", RECORDS)
@settings(max_examples=150, deadline=None, derandomize=True)
@given(data=st.data())
def test_any_part_of_a_record_may_be_anything_without_a_traceback(
    tmp_path_factory: pytest.TempPathFactory, export: str, data: st.DataObject
) -> None:
    records = json.loads(json.dumps(RECORDS[export]))
    holder, key = data.draw(st.sampled_from(places(records)))
    holder[key] = data.draw(JSON)
    path = tmp_path_factory.mktemp("damaged") / "export.json"
    path.write_text(json.dumps(records))
    form = next(form for name, form, _ in GOLDEN if name == export)
    question = next(asked for name, _, asked in GOLDEN if name == export)
    try:
        found = import_labels(path, form, question=question)
        write_labels(found, table_file(path.with_suffix(".csv"), inputs=(path,)))
    except TableError as error:
        told = str(error)
        assert "export.json" in told


NAMES = st.text("ab \",;'\n\réß\u3000", min_size=1, max_size=4).filter(lambda text: text.strip())
ROWS = st.dictionaries(st.tuples(NAMES, NAMES), NAMES, min_size=1, max_size=8)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(rows=ROWS, form=st.sampled_from(["csv", "jsonl", "parquet"]))
def test_workers_and_tasks_keep_the_names_they_came_with(
    tmp_path_factory: pytest.TempPathFactory, rows: dict[tuple[str, str], str], form: str
) -> None:
    """As they came in the result; and read back as the reader of tables trims them, whatever they hold."""
    folder = tmp_path_factory.mktemp("plain")
    path = folder / f"export.{form}"
    records = [
        dict(zip(("worker", "task", "label"), (*k, v), strict=True)) for k, v in rows.items()
    ]
    if form == "parquet":
        pq.write_table(pa.Table.from_pylist(records), path)
    elif form == "jsonl":
        path.write_text("\n".join(map(json.dumps, records)))
    else:
        write_csv(path, [["worker", "task", "label"], *([*k, v] for k, v in rows.items())])
    found = import_labels(path, "jsonl" if form == "jsonl" else "table")
    assert [row[:3] for row in rows_of(found)] == [(*key, label) for key, label in rows.items()]
    asked: dict[str, Any] = {"classes": None, "duplicates": "last", "known_tasks": None}
    tables = []
    for output in (folder / "labels.csv", folder / "labels.parquet"):
        write_labels(found, table_file(output, inputs=(path,)))
        tables.append(read_labels(output, **asked))
    for name in CrowdLabels.__dataclass_fields__:
        assert np.array_equal(getattr(tables[0], name), getattr(tables[1], name)), name


@pytest.mark.parametrize("form", ["inspect", "promptfoo", "deepeval", "lm-eval"])
def test_judges_are_of_the_kind_model(tmp_path: Path, form: str) -> None:
    export, question = next((name, asked) for name, one, asked in GOLDEN if one == form)
    output = tmp_path / "labels.csv"
    assert invoke(EXPORTS / export, form, output, "--question", question).exit_code == 0
    header, *rows = output.read_text().splitlines()
    assert header == "worker,task,label,kind"
    assert all(row.endswith(",model") for row in rows)
    assert "canary" not in output.read_text()


@pytest.mark.parametrize("missing", [None, math.nan])
def test_numbers_that_became_doubles_keep_the_names_of_whole_ones(
    tmp_path: Path, missing: float | None
) -> None:
    """As pandas writes a column once a cell is missing; Polars writes a missing one as NaN, no label."""
    path = tmp_path / "t.parquet"
    answer = pa.array([3.0, 4.5, missing], pa.float64(), from_pandas=False)
    pq.write_table(
        pa.table({"annotator": [7.0, 8.0, 9.0], "item": [1.0] * 3, "rating": answer}), path
    )
    found = import_labels(path, "table")
    assert rows_of(found) == [("7", "1", "3", None), ("8", "1", "4.5", None)]
    assert found.dropped == {SKIPPED: 1}


def test_a_whole_number_has_one_name_in_all_records(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(
        '{"worker": 7.0, "task": 1, "label": 1.0}\n{"worker": 7, "task": 2, "label": 1}\n'
        '{"worker": 9007199254740993, "task": -0.0, "label": 1e300}\n'
    )
    rows = [
        ("7", "1", "1", None),
        ("7", "2", "1", None),
        ("9007199254740993", "-0.0", "1e+300", None),
    ]
    assert rows_of(import_labels(path, "jsonl")) == rows


def test_a_comma_in_a_name_is_no_decimal_and_one_in_seconds_is(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("annotator;item;answer;seconds\na;1.234,5;4,5;2,5\nb;1234,5;5,0;1.000,5\n")
    rows = [("a", "1.234,5", "4,5", 2.5), ("b", "1234,5", "5,0", 1000.5)]
    assert rows_of(import_labels(path, "table")) == rows


def test_several_answers_in_a_form_are_refused(tmp_path: Path) -> None:
    """None of them is taken for all."""
    header = "HITId,WorkerId,AssignmentStatus,WorkTimeInSeconds,Answer.taskAnswers"
    path = tmp_path / "batch.csv"
    form = '"[{""mood"": ""good""}, {""mood"": ""bad""}]"'
    path.write_text(f"{header}\nh1,ann,Approved,3,{form}\n")
    told = r"row 1, column Answer\.taskAnswers: must hold one JSON object"
    with pytest.raises(TableError, match=told):
        import_labels(path, "mturk")


def test_choices_whose_likelihoods_the_harness_wrote_as_text_are_read(tmp_path: Path) -> None:
    """As `sanitize_list` of lm-evaluation-harness leaves a file of `--log_samples`."""
    path = tmp_path / "a-model" / "samples.jsonl"
    path.parent.mkdir()
    given = (
        [["-25.625", "False"], ["-23.5", "True"], ["-65.0", "False"]],
        [["-1.5", "False"], ["-inf", "False"], ["-9", "False"]],
        [["nan", "False"], ["-1.0", "False"], ["-2.0", "False"]],
    )
    records = (
        {"doc_id": row, "filtered_resps": one, "filter": "none"} for row, one in enumerate(given)
    )
    path.write_text("\n".join(map(json.dumps, records)))
    found = import_labels(path, "lm-eval")
    assert rows_of(found) == [("a-model", "0", "1", None), ("a-model", "1", "0", None)]
    assert found.dropped == {SEVERAL: 1}


@pytest.mark.parametrize("form", ["table", "jsonl"])
def test_blanks_around_a_question_make_no_other_one(tmp_path: Path, form: str) -> None:
    rows = [("ann", "t1", "good", "tone "), ("ben", "t1", "bad", "tone")]
    records = [dict(zip(("worker", "task", "label", "asked"), row, strict=True)) for row in rows]
    path = tmp_path / "answers.jsonl"
    path.write_text("\n".join(map(json.dumps, records)))
    found = import_labels(path, form, columns=parse_map("question=asked", form))
    assert (found.question, found.label) == ("tone", ("good", "bad"))
