"""Rows of a table that is still being written: whole lines only, faults by row, a file known again."""

from __future__ import annotations

import math
import os
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flows.tables import TableError
from flows.watching import FileTail, LabelLines

TABLE = (
    'worker,task,label,time,seconds\r\nann,"t,1",yes,2026-11-22T10:00:00,3.5\r\n'
    'bob,"two\nlines",no,,\nœuvre,"a ""b""",yes,60,1e2\n'
).encode()


@given(st.lists(st.integers(0, len(TABLE)), max_size=20))
def test_rows_do_not_depend_on_how_the_bytes_are_cut(cuts: list[int]) -> None:
    lines, ends = LabelLines("labels.csv"), [0, *sorted(cuts), len(TABLE)]
    found = [lines.feed(TABLE[a:b]) for a, b in pairwise(ends)]
    assert [name for rows in found for name in rows.worker] == ["ann", "bob", "œuvre"]
    assert [name for rows in found for name in rows.task] == ["t,1", "two\nlines", 'a "b"']
    assert [one for rows in found for one in rows.label] == ["yes", "no", "yes"]
    times = [one for rows in found for one in rows.time]
    assert times[0] == 1795341600.0  # 2026-11-22 10:00 UTC
    assert math.isnan(times[1])
    assert times[2] == 60.0
    assert [one for rows in found for one in rows.seconds][::2] == [3.5, 100.0]
    assert lines.n_rows == 3


@pytest.mark.parametrize("per_second", [1, 10**3, 10**6, 10**9])
def test_a_time_may_count_seconds_or_parts_of_them(per_second: int) -> None:
    """Milliseconds read as seconds would make every label a session of its own."""
    rows = LabelLines("labels.csv").feed(
        f"worker,task,label,time\nann,1,yes,{1795341600 * per_second}\n".encode()
    )
    assert rows.time == [1795341600.0]


def test_a_row_without_an_end_of_line_waits_unless_it_is_the_last() -> None:
    lines = LabelLines("labels.csv")
    assert lines.feed(b"worker,task,label\nann,1,ye").worker == []
    assert lines.held == len(b"ann,1,ye")
    assert lines.feed(b"s", last=True).label == ["yes"]


def test_a_quote_within_a_cell_is_a_letter() -> None:
    lines = LabelLines("labels.csv")
    rows = lines.feed(b'worker,task,label\nann,1,5" nail\nbob, "2,yes\ncy,3,"a ""b"""\ndan,4,"no')
    assert rows.worker == ["ann", "bob", "cy"]
    assert rows.task == ["1", '"2', "3"]
    assert rows.label == ['5" nail', "yes", 'a "b"']
    assert lines.held == len(b'dan,4,"no')
    assert lines.feed(b'"\n').label == ["no"]


def test_a_row_that_never_ends_is_refused() -> None:
    """It would hold back all rows behind it."""
    lines = LabelLines("labels.csv")
    lines.feed(b'worker,task,label\nann,1,yes\nbob,1,"no\n')
    rows = b"cy,1,yes\n" * 2**18
    assert lines.feed(rows).worker == []
    with pytest.raises(TableError, match="row 2: the row has no end in 4,194,304 bytes; mend"):
        lines.feed(rows)
    assert lines.n_rows == 1


def test_a_cell_that_is_open_at_the_end_is_refused() -> None:
    lines = LabelLines("labels.csv")
    lines.feed(b'worker,task,label\nann,1,yes\nbob,1,"no\n')
    with pytest.raises(TableError, match="row 2: .*mend the row"):
        lines.feed(b"cy,1,yes\n", last=True)


def test_separators_and_a_byte_order_mark_are_found_out() -> None:
    for sep in ",;\t|":
        text = f"\ufeffworker{sep}task{sep}label\nann{sep}1{sep}yes\n".encode()
        assert LabelLines("labels.csv").feed(text).label == ["yes"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"who,task,label\n", "must have the column 'worker'; its columns are who, task, label"),
        (b"worker,task,label\nann,,a\n", "labels.csv, row 1, column task: the cell is blank"),
        (b"worker,task,label\nann,1,a\nann,2\n", "row 2: 2 cells under 3 names"),
        (b"worker,task,label\nann,1,a\nann\n", "row 2: 1 cell under 3 names"),
        (b"worker,task,label,time\na,1,b,noon\n", "row 1, column time: 'noon' must be a time"),
        (b"worker,task,label,seconds\na,1,b,-1\n", "column seconds: '-1' must be seconds, above 0"),
        (b"worker,task,label\n\xff,1,a\n", "must be UTF-8"),
        (b"PAR1\n", "must be a CSV text that grows"),
        (b'worker,task,label\nann,1,"a"b\n', "row 1: .*mend the row"),
        (b"worker,task,label\rann,1,a\r\n", "the line of names cannot be read; save the table"),
        (b"worker,worker,task,label\na,b,1,c\n", "must have one column 'worker', it has 2; rename"),
    ],
)
def test_a_fault_is_one_sentence_that_names_the_row(text: bytes, message: str) -> None:
    with pytest.raises(TableError, match=message):
        LabelLines("labels.csv").feed(text)


def test_a_column_of_seconds_may_have_another_name_and_must_be_there() -> None:
    text = b"worker,task,label,took\nann,1,yes,2\n"
    assert LabelLines("labels.csv", seconds="took").feed(text).seconds == [2.0]
    with pytest.raises(TableError, match="must have the column 'rt'"):
        LabelLines("labels.csv", seconds="rt").feed(text)
    with pytest.raises(TableError, match="row 2, column took: 'long' must be seconds"):
        LabelLines("labels.csv", seconds="took").feed(text + b"ann,2,yes,long\n")


def test_a_file_is_read_on_and_one_that_did_not_only_grow_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_bytes(b"one\n")
    tail = FileTail(path)
    assert (tail.read(), tail.read()) == (b"one\n", b"")
    with path.open("ab") as file:
        file.write(b"two\n")
    again = FileTail(path, offset=tail.offset, head=tail.head_at(tail.offset))
    assert again.read() == b"two\n"
    head = tail.head_at(4)
    path.write_bytes(b"on")
    with pytest.raises(TableError, match="shorter than when it was read"):
        again.read()
    path.write_bytes(b"another file\n")
    with pytest.raises(TableError, match="is not the file that was watched"):
        FileTail(path, offset=4, head=head)


@pytest.mark.parametrize("more", ["", "and more\n"], ids=["as long", "longer"])
def test_a_file_that_is_replaced_while_it_is_watched_is_refused(tmp_path: Path, more: str) -> None:
    path, other = tmp_path / "labels.csv", tmp_path / "other.csv"
    path.write_bytes(b"one\ntwo\n")
    tail = FileTail(path)
    tail.read()
    other.write_text(f"new\ntwo\n{more}")
    other.replace(path)
    with pytest.raises(TableError, match="is not the file that was watched"):
        tail.read()


def test_a_copy_that_has_grown_may_take_the_files_place(tmp_path: Path) -> None:
    """As programs write that replace a file in one move."""
    path, other = tmp_path / "labels.csv", tmp_path / "other.csv"
    path.write_bytes(b"one\n")
    tail = FileTail(path)
    tail.read()
    other.write_bytes(b"one\ntwo\n")
    other.replace(path)
    assert tail.read() == b"two\n"


def test_an_export_that_gained_rows_above_what_was_read_is_refused(tmp_path: Path) -> None:
    """Its first 4,096 bytes are the same, and reading on would begin inside a row, without a word."""
    path, rows = tmp_path / "labels.csv", [b"ann,%05d,yes\n" % task for task in range(1_000)]
    path.write_bytes(b"".join(rows))
    tail = FileTail(path)
    tail.read()
    known = {"head": tail.head_at(tail.offset), "end": tail.end_at(tail.offset)}
    assert FileTail(path, offset=tail.offset, **known).read() == b""
    path.write_bytes(b"".join([*rows[:500], b"bob,00499,no\n", *rows[500:]]))
    with pytest.raises(TableError, match="is not the file that was watched"):
        tail.read()
    with pytest.raises(TableError, match="is not the file that was watched"):
        FileTail(path, offset=tail.offset, **known)


def test_what_is_no_file_that_grows_is_named_for_what_it_is(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="is a folder; name the CSV file"):
        FileTail(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(TableError, match="is a pipe or a device; name a file, or -"):
        FileTail(tmp_path / "pipe")
    path = tmp_path / "labels.csv"
    with pytest.raises(TableError, match="does not exist; name the CSV file that grows"):
        FileTail(path)
    path.write_bytes(b"one\n")
    tail = FileTail(path)
    path.unlink()
    with pytest.raises(TableError, match="does not exist; name the CSV file that grows"):
        tail.read()


def test_columns_may_have_other_names() -> None:
    """A column with such a name that is not the one meant is passed over."""
    columns = {"worker": "who", "task": "item", "label": "said"}
    text = b"who,task,item,label\nann,x,1,yes\n"
    rows = LabelLines("labels.csv", columns=columns).feed(text)
    assert (rows.worker, rows.task, rows.label) == (["ann"], ["1"], ["yes"])
    with pytest.raises(
        TableError, match=r"columns are who, task, item, label; .*--map worker=\.\.\."
    ):
        LabelLines("labels.csv", columns={"worker": "whom", "task": "item"}).feed(text)
