"""A label table looked at whole: every fault is counted, nothing is lost, the clean copy is accepted."""

from __future__ import annotations

import csv
import json
from contextlib import nullcontext
from pathlib import Path

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from flows.cli import app
from flows.tables import (
    TableError,
    check_labels,
    first_fault,
    open_lenient,
    read_labels,
    refuse_hollow,
    table_file,
    write_table,
)

ODD = """worker,task,label,seconds
ann,t1,Cat,1
ben,t1,cat,x
ben,,dog,
eve
ann,t1,Cat,2
zoe,t2,NaN,1
zoe,t2,cat,-4
q\u200b,t3,1,1
q,t4,1.0,1
"""


def test_every_fault_and_doubt_is_told_at_once_with_counts_and_places(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_text(ODD)
    found = check_labels(open_lenient(path), duplicates="error")
    assert [(one.what, one.count, one.where) for one in found.faults] == [
        ("torn line", 1, "line 5"),
        ("blank task", 1, "row 3"),
        ("the same label again", 1, "row 4"),
        ("another label of the same worker and task", 2, "row 5, row 6"),
    ]
    assert [(one.what, one.count, one.example) for one in found.doubts] == [
        ("seconds that are no number, or below 0", 2, "x"),
        ("worker with letters that nobody sees", 1, "q\u200b"),
        ("label that may mean nothing", 1, "NaN"),
        ("spellings of one worker", 1, "'q' = 'q\\u200b'"),
        ("spellings of one label", 2, "'Cat' = 'cat'; '1' = '1.0'"),
    ]
    assert all(one.remedy for one in (*found.faults, *found.doubts))
    assert (found.n_rows, found.n_at_fault) == (9, 5)


def test_a_folder_keeps_all_columns_and_names_rows_of_its_files(tmp_path: Path) -> None:
    days, clean, taken = tmp_path / "days", tmp_path / "clean.csv", tmp_path / "taken.csv"
    days.mkdir()
    (days / "1.csv").write_text("worker,task,label,seconds\ngpt-4o,t1,a,3\nben,t1,b,4\n")
    (days / "2.csv").write_text("task;worker;label;note\nt2;ben;a;x\n;ann;b;my words\nt3;cy\n")
    (days / "3.csv").write_text("worker,task,label\ncy,t1,a\ncy,t2\n")
    asked = ["check", str(days), "--clean", str(clean), "--quarantine", str(taken)]
    told = CliRunner().invoke(app, asked)
    assert told.exit_code == 0, told.output
    assert clean.read_text().splitlines() == [
        "worker,task,label,seconds,note", "gpt-4o,t1,a,3,", "ben,t1,b,4,", "ben,t2,a,,x", "cy,t1,a,,"
    ]  # fmt: skip
    assert taken.read_text().splitlines() == [
        "place,reason,worker,task,label,seconds,note,torn line",
        '"2.csv, row 2",blank task,ann,,b,,my words,',
        '"2.csv, line 4",torn line,,,,,,t3;cy',
        '"3.csv, line 3",torn line,,,,,,"cy,t2"',
    ]
    found = json.loads(CliRunner().invoke(app, ["check", str(days), "--json"]).stdout)
    assert (found["rows"], found["at_fault"]) == (7, 3)
    torn = "2.csv, line 4, 3.csv, line 3"
    assert [one["where"] for one in found["faults"]] == [torn, "2.csv, row 2"]
    assert [one["example"] for one in found["doubts"]] == ["gpt-4o"]


def test_columns_named_as_the_quarantines_own_are_kept_beside_them(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_text(
        "worker,task,label,Reason,place,place of the table\nann,t1,a,x,y,z\nann,,b,my words,home,2\n"
    )
    found = check_labels(open_lenient(path), duplicates="error").quarantine()
    assert {name: cell for name, (cell,) in found.items()} == {
        "place": "row 2", "reason": "blank task", "worker": "ann", "task": "", "label": "b",
        "Reason of the table": "my words", "place of the table of the table": "home",
        "place of the table": "2", "torn line": "",
    }  # fmt: skip


def test_a_name_that_a_run_refuses_as_too_long_is_a_fault(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_text(f"worker,task,label\n{'w' * 4_000},t1,a\n{'w' * 4_001},t1,a\nann,t1,b\n")
    (fault,) = check_labels(open_lenient(path), duplicates="error").faults
    assert (fault.what, fault.where) == ("worker of more than 4,000 letters", "row 2")


@pytest.mark.parametrize(
    ("one", "other"),
    [("Cat", "cat"), ("1", "1.0"), ("01", "1"), ("café", "cafe\u0301"), ("a  b", "a b"), ("ﬁ", "fi"),
     ("x\u200by", "xy"), ("Straße", "STRASSE"), ("１", "1")],
)  # fmt: skip
def test_spellings_that_look_like_mistakes_are_named_and_merged(
    tmp_path: Path, one: str, other: str
) -> None:
    path = tmp_path / "labels.csv"
    rows = [f"w1,t1,{one}", f"w2,t1,{other}", f"w3,t1,{other}"]
    path.write_text("\n".join(["worker,task,label", *rows]))
    found = check_labels(open_lenient(path), duplicates="error")
    (doubt,) = [each for each in found.doubts if each.what == "spellings of one label"]
    assert repr(one) in doubt.example
    assert set(found.clean(merge=True)["label"]) == {other}
    assert found.clean()["label"] == [one, other, other]


@pytest.mark.parametrize("word", ["NaN", "null", "None", "N/A", "NA"])
def test_texts_that_may_mean_nothing_are_named(tmp_path: Path, word: str) -> None:
    path = tmp_path / "labels.csv"
    path.write_text(f"worker,task,label\nw1,t1,{word}\nw2,t1,a\n")
    found = check_labels(open_lenient(path), duplicates="error")
    assert "label that may mean nothing" in [one.what for one in found.doubts]


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("1.23457E+18", 1),
        ("1e+16", 1),
        ("9007199254740992.0", 1),
        ("12e4", 0),
        ("1.5", 0),
        ("c++", 0),
    ],
)
def test_numbers_that_a_spreadsheet_rounded_are_named(
    tmp_path: Path, name: str, count: int
) -> None:
    """Ids of more than fifteen digits that a spreadsheet saved: several workers have become one name."""
    path = tmp_path / "labels.csv"
    path.write_text(f"worker,task,label\n{name},t1,cat\nben,t1,dog\n")
    found = check_labels(open_lenient(path), duplicates="error")
    said = {one.what: one.count for one in found.doubts}
    assert said.get("worker that may be a long number, rounded", 0) == count


def test_a_header_among_the_rows_is_named(tmp_path: Path) -> None:
    """Exports put one behind another leave theirs, and a class and a worker of those names."""
    path, one = tmp_path / "labels.csv", "worker,task,label\nw1,t1,a\nw2,t1,b\n"
    path.write_text(one + one.replace("t1", "t2"))
    (doubt,) = check_labels(open_lenient(path), duplicates="error").doubts
    assert (doubt.what, doubt.count, doubt.where) == ("the header again", 1, "row 3")


def test_labels_that_hardly_repeat_are_numbers_or_texts(tmp_path: Path) -> None:
    path, what = tmp_path / "labels.csv", "different labels, few of them twice"
    for n_classes, count in ((30, 30), (20, 0)):  # of forty labels
        rows = [f"w{row % 2},t{row // 2},0.{row % n_classes:02d}" for row in range(40)]
        path.write_text("\n".join(["worker,task,label", *rows]))
        doubts = check_labels(open_lenient(path), duplicates="error").doubts
        assert [one.count for one in doubts if one.what == what] == ([count] if count else [])


@pytest.mark.parametrize(("kind", "count"), [(False, 2), (True, 0)])
def test_models_that_no_column_declares_are_named(tmp_path: Path, kind: bool, count: int) -> None:
    path, what = tmp_path / "labels.csv", "workers with a language model's name"
    rows = ["w1,t1,a,person", "gpt-4o,t1,b,model", "Qwen/Qwen2.5,t1,a,model", ",t1,a,person"]
    table = ["worker,task,label,kind", *rows]
    path.write_text("\n".join(row if kind else row.rpartition(",")[0] for row in table))
    doubts = check_labels(open_lenient(path), duplicates="error").doubts
    found = [(one.count, one.example) for one in doubts if one.what == what]
    assert found == ([(count, "gpt-4o, Qwen/Qwen2.5")] if count else [])


@pytest.mark.parametrize(("keep", "label"), [("first", "a"), ("last", "b")])
def test_of_other_labels_the_first_or_the_last_is_kept(
    tmp_path: Path, keep: str, label: str
) -> None:
    path = tmp_path / "labels.csv"
    path.write_text("worker,task,label\nw,t,a\nw,t,b\n")
    found = check_labels(open_lenient(path), duplicates=keep)  # type: ignore[arg-type]
    assert found.clean()["label"] == [label]


CELL = st.sampled_from(["a", "b", "A", "", " ", "NaN", "t1", "t2", "1", "1.0", "x\u200b", '"', "é"])
LINE = st.lists(CELL, min_size=1, max_size=5).map(",".join)


@settings(max_examples=60, deadline=None)
@given(
    lines=st.lists(LINE, min_size=1, max_size=8), keep=st.sampled_from(["error", "first", "last"])
)
def test_nothing_is_lost_and_the_clean_copy_has_no_fault(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], keep: str
) -> None:
    folder = tmp_path_factory.mktemp("odd")
    path = folder / "labels.csv"
    path.write_text("\n".join(["worker,task,label", *lines]) + "\n")
    try:
        table = open_lenient(path)
    except TableError as error:
        told = str(error)
        assert "no rows below its header" in told
        return
    found = check_labels(table, duplicates=keep)  # type: ignore[arg-type]
    clean, taken = found.clean(), found.quarantine()
    assert len(clean["task"]) + len(taken["place"]) == found.n_rows
    assert len(taken["place"]) == found.n_at_fault
    assert all(taken["reason"])
    if clean["task"]:
        again = table_file(folder / "clean.csv")
        write_table(clean, again)
        left = check_labels(open_lenient(again.path), duplicates="error").faults
        labels = read_labels(again.path, classes=None, duplicates="error", known_tasks=None)
        assert labels.n_labels == len(clean["task"])
        with pytest.raises(TableError) if left else nullcontext():
            refuse_hollow(labels, "clean.csv")


@pytest.mark.parametrize(
    ("rows", "what", "example"),
    [
        (["ann,t1,a", "bob,t1,a"], "every label the same", "a"),
        (["ann,t1,a", "ann,t2,b"], "every label by one worker", "ann"),
        (["ann,t1,a", "bob,t2,b"], "no task on which two workers differ", ""),
    ],
)
def test_a_table_that_a_run_refuses_as_a_whole_is_at_fault(
    tmp_path: Path, rows: list[str], what: str, example: str
) -> None:
    path = tmp_path / "labels.csv"
    path.write_text("\n".join(["worker,task,label", *rows]) + "\n")
    (fault,) = check_labels(open_lenient(path), duplicates="error").faults
    assert (fault.what, fault.count, fault.where) == (what, 2, "the whole table")
    assert fault.example == example
    with pytest.raises(TableError):
        refuse_hollow(read_labels(path, classes=None, duplicates="error", known_tasks=None), "")
    told = CliRunner().invoke(app, ["check", str(path)])
    assert told.exit_code == 2
    assert "2 rows, no row at fault" in told.output
    assert "--clean" not in told.output


@pytest.mark.parametrize("closed", [False, True])
def test_rows_behind_an_open_quote_are_not_lost_without_a_word(
    tmp_path: Path, closed: bool
) -> None:
    """DuckDB keeps ten thousand bytes of such a line: what follows was neither clean nor in quarantine."""
    path = tmp_path / "labels.csv"
    rows = [f"é{at},t{at // 4},{'cat' if at % 3 else 'dog'}\n" for at in range(5000)]
    rows[7] = 'ann,"t1,dog\n'
    if closed:
        rows[4000] = 'ben,"t2,dog\n'
    path.write_text("worker,task,label\n" + "".join(rows))
    with pytest.raises(TableError, match=r"labels.csv, line 9: a line .* 10,000 bytes .* mend it"):
        open_lenient(path)
    path.write_text("worker,task,label\n" + "".join(rows[:300]))
    found = check_labels(open_lenient(path), duplicates="error")
    assert [one.what for one in found.faults] == ["torn line"]
    (torn,) = [text for text in found.quarantine()["torn line"] if text]
    assert torn.count("\n") == 292


def test_an_open_quote_in_a_file_that_is_read_in_parts_is_no_missing_feature() -> None:
    """A file of 16 MB was told to be exported again, in the format that its name ends in."""
    said = "Not implemented Error: The Parallel CSV Reader currently does not support a full read"
    assert first_fault(duckdb.NotImplementedException(said)).startswith(
        'a cell that begins with " has no closing "'
    )


def test_a_line_that_is_no_text_says_that_it_may_be_of_another_encoding(tmp_path: Path) -> None:
    """Behind the beginning that is looked at: before it, the whole file is read in another encoding."""
    path = tmp_path / "labels.csv"
    rows = b"bob,t1,b\n" + b"".join(b"ann,t%d,a\n" % task for task in range(1, 60_000))
    path.write_bytes(b"worker,task,label\n" + rows + b"ben,t1,caf\xe9\n")
    (torn,) = check_labels(open_lenient(path), duplicates="error").faults
    assert (torn.what, torn.count, torn.where) == ("torn line", 1, "line 60002")
    assert "it is not UTF-8 (--encoding)" in torn.remedy


def test_the_command_writes_both_files_and_then_finds_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    odd = f"{ODD}ben,t4,2,1\n"  # workers differ
    Path("labels.csv").write_text(odd)
    told = CliRunner().invoke(app, ["check", "labels.csv"])
    assert told.exit_code == 2
    assert "--clean FILE writes the other rows" in told.output
    words = ["check", "labels.csv", "--clean", "clean.csv", "--quarantine", "taken.csv", "--merge"]
    assert CliRunner().invoke(app, words).exit_code == 0
    assert Path("labels.csv").read_text() == odd
    told = CliRunner().invoke(app, ["check", "clean.csv"])
    assert (told.exit_code, "no fault" in told.output) == (0, True)
    with Path("taken.csv").open(newline="") as file:
        taken = list(csv.DictReader(file))
    assert [row["place"] for row in taken] == ["row 3", "row 4", "row 5", "row 6", "line 5"]
    assert taken[-1]["torn line"] == "eve"
