"""Tables that arrive in several files: one table in the order of their names, faults named by file."""

from __future__ import annotations

import json
import math
import os
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows.importers import import_labels
from flows.settings import GroupSettings, InputSettings
from flows.tables.checking import open_lenient
from flows.tables.columns import read_multilabels
from flows.tables.dialect import Reading
from flows.tables.file_formats import connected
from flows.tables.refusals import TableError
from flows.tables.sources import Sources, find_files, open_sources, opened_alone
from flows.tables.tables import read_gold, read_labels, read_reference, read_tasks
from flows.tables.text_table import open_table
from quality import CrowdLabels

HEADER = "worker,task,label"
DAY_1 = ["w1,t1,a", "w2,t1,b", "w1,t2,a"]
DAY_2 = ["w2,t2,a", "w3,t1,a", "w3,t3,b"]


def write(path: Path, rows: list[str], header: str = HEADER) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return path


def write_parquet(path: Path, rows: list[str]) -> Path:
    worker, task, label = zip(*(row.split(",") for row in rows), strict=True)
    pq.write_table(pa.table({"worker": worker, "task": task, "label": label}), path)
    return path


@pytest.fixture
def days(tmp_path: Path) -> Path:
    """A folder of two days."""
    write(tmp_path / "labels" / "day-1.csv", DAY_1)
    write(tmp_path / "labels" / "day-2.csv", DAY_2)
    return tmp_path / "labels"


def opened(labels: Path, into: Path, **given: object) -> Sources:
    into.mkdir(exist_ok=True)
    return open_sources(InputSettings.model_validate({"labels": labels, **given}), into)


def read(labels: Path, into: Path, duplicates: str = "error") -> CrowdLabels:
    sources = opened(labels, into, duplicates=duplicates)
    with sources.naming_files():
        return read_labels(
            sources.labels.table,
            classes=("a", "b"),
            duplicates=duplicates,  # type: ignore[arg-type]
            known_tasks=None,
        )


def same(one: CrowdLabels, other: CrowdLabels) -> bool:
    names = ("worker", "task", "label", "workers", "tasks", "classes")
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in names)


def test_a_folder_a_pattern_and_one_file_of_the_same_rows_are_one_table(
    days: Path, tmp_path: Path
) -> None:
    whole = read(write(tmp_path / "whole.csv", DAY_1 + DAY_2), tmp_path / "run")
    assert same(read(days, tmp_path / "run"), whole)
    assert same(read(days / "*.csv", tmp_path / "run"), whole)


def test_csv_gzip_and_parquet_are_read_together(days: Path, tmp_path: Path) -> None:
    whole = read(write(tmp_path / "whole.csv", DAY_1 + DAY_2), tmp_path / "run")
    (days / "day-2.csv").unlink()
    write_parquet(days / "day-2.parquet", DAY_2)
    assert same(read(days, tmp_path / "run"), whole)


def test_one_file_is_read_where_it_lies(days: Path, tmp_path: Path) -> None:
    sources = opened(days / "day-1.csv", tmp_path / "run")
    assert sources.labels.table == days / "day-1.csv"
    assert list((tmp_path / "run").iterdir()) == []


def test_files_of_a_folder_have_one_connection_and_each_its_own_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection takes longer than a small file; moments are those of UTC in the second file too."""
    made, folder = list[duckdb.DuckDBPyConnection](), tmp_path / "labels"
    moment = pa.array([datetime(2026, 1, 2, 3, tzinfo=UTC)], pa.timestamp("us", tz="Asia/Tokyo"))
    for day, name in enumerate(("ann", "bob", "cy")):
        rows = {"worker": [name], "task": moment, "label": ["a"], f"more {day}": [day]}
        folder.mkdir(exist_ok=True)
        pq.write_table(pa.table(rows), folder / f"{day}.parquet")

    def noted() -> duckdb.DuckDBPyConnection:
        made.append(connected())
        made[0].execute("SET GLOBAL TimeZone = 'Asia/Tokyo'")  # as on a machine there
        return made[-1]

    monkeypatch.setattr("flows.tables.text_table.connected", noted)
    sources = opened(folder, tmp_path / "run")
    assert len(made) == 1
    assert pq.read_table(sources.labels.table).to_pylist() == [
        {"worker": name, "task": "2026-01-02 03:00:00+00", "label": "a"}
        for name in ("ann", "bob", "cy")
    ]


def test_integers_of_parquet_are_the_text_of_csv(tmp_path: Path) -> None:
    folder = tmp_path / "labels"
    write(folder / "1.csv", ["7,1,a", "8,1,b"])
    pq.write_table(
        pa.table({"worker": [7, 9], "task": [2, 1], "label": ["b", "b"]}), folder / "2.parquet"
    )
    assert read(folder, tmp_path / "run").workers.tolist() == ["7", "8", "9"]


def test_whole_numbers_with_a_point_in_one_file_are_those_of_the_others(tmp_path: Path) -> None:
    folder = tmp_path / "labels"
    folder.mkdir()
    for day, kind in enumerate((pa.int64(), pa.float64(), pa.float32())):
        numbers = [pa.array([7, 8], kind), pa.array([day, day]), pa.array([0, 1], kind)]
        pq.write_table(pa.table(numbers, ["worker", "task", "label"]), folder / f"{day}.parquet")
    sources = opened(folder, tmp_path / "run")
    found = read_labels(sources.labels.table, classes=None, duplicates="error", known_tasks=None)
    assert (found.workers.tolist(), found.classes.tolist()) == (["7", "8"], ["0", "1"])


@pytest.mark.parametrize(("kept", "label"), [("first", "a"), ("last", "b")])
def test_repeats_across_files_follow_the_order_of_their_names(
    days: Path, tmp_path: Path, kept: str, label: str
) -> None:
    write(days / "day-3.csv", ["w1,t1,b"])
    labels = read(days, tmp_path / "run", kept)
    row = (labels.workers[labels.worker] == "w1") & (labels.tasks[labels.task] == "t1")
    assert labels.classes[labels.label[row]].tolist() == [label]


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (["w9,t9,a", "w1,t1,a"], r"^day-1\.csv, row 1, day-3\.csv, row 2: worker 'w1', task 't1'"),
        (["w9,t9,a", "w9,t8,c"], r"^day-3\.csv, row 2, column label: 'c' is not among"),
        (["w9,t9,a", ",t8,a"], r"^day-3\.csv, row 2, column worker: the cell is blank"),
        (["w9,t9,a,9"], r"^day-3\.csv: line 2 must have 3 columns, it has 4"),
        ([], r"^day-3\.csv has no rows below its header"),
    ],
)
def test_a_fault_is_told_with_its_file_and_row(
    days: Path, tmp_path: Path, rows: list[str], told: str
) -> None:
    write(days / "day-3.csv", rows)
    with pytest.raises(TableError, match=told):
        read(days, tmp_path / "run")


def test_many_faulty_rows_are_told_with_their_files(days: Path, tmp_path: Path) -> None:
    write(days / "day-3.csv", ["w8,t1,c", "w9,t1,c"])
    write(days / "day-4.csv", ["w8,t2,c", "w9,t2,c"])
    told = r"^day-3\.csv, row 1, day-3\.csv, row 2, day-4\.csv, row 1 and 1 more, column label"
    with pytest.raises(TableError, match=told):
        read(days, tmp_path / "run")


def test_a_file_that_lacks_a_column_is_named(days: Path, tmp_path: Path) -> None:
    write(days / "day-3.csv", ["w9,t9"], header="worker,task")
    with pytest.raises(TableError, match=r"^day-3\.csv must have the columns worker, task, label"):
        read(days, tmp_path / "run")
    assert not (tmp_path / "run" / "labels.parquet").exists()


def test_files_of_one_name_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    write(tmp_path / "labels" / "day=1" / "part.csv", DAY_1)
    write(tmp_path / "labels" / "day=2" / "part.csv", ["w2,t2,c"])
    with pytest.raises(TableError, match=r"^day=2/part\.csv, row 1, column label"):
        read(tmp_path / "labels" / "*" / "part.csv", tmp_path / "run")


def test_gold_and_tasks_may_be_folders_too(days: Path, tmp_path: Path) -> None:
    write(tmp_path / "gold" / "1.csv", ["t1,a"], header="task,label")
    write(tmp_path / "gold" / "2.csv", ["t2,b"], header="task,label")
    write(tmp_path / "tasks" / "1.csv", ["t1,g"], header="task,group")
    write(tmp_path / "tasks" / "2.csv", ["t2,g"], header="task,group")
    sources = opened(
        days, tmp_path / "run", gold=tmp_path / "gold", tasks=[tmp_path / "tasks" / "*.csv"]
    )
    assert [source.name for source in sources.tasks] == ["1.csv", "2.csv"]
    assert sources.gold is not None
    assert read_gold(sources.gold.table, classes=None).label.tolist() == ["a", "b"]
    assert [one["name"] for one in sources.described] == [
        "day-1.csv", "day-2.csv", "1.csv", "2.csv", "1.csv", "2.csv",
    ]  # fmt: skip


def test_seconds_are_read_from_all_files(tmp_path: Path) -> None:
    header = HEADER + ",seconds,extra"
    write(tmp_path / "labels" / "1.csv", ["w1,t1,a,3,x"], header)
    write(tmp_path / "labels" / "2.csv", ["w2,t1,b,4,x"], header)
    sources = opened(tmp_path / "labels", tmp_path / "run", seconds="seconds")
    assert pq.read_table(sources.labels.table).column("seconds").to_pylist() == ["3", "4"]


def test_a_column_that_a_table_need_not_have_is_kept_where_a_file_has_it(tmp_path: Path) -> None:
    write(tmp_path / "kinds" / "1.csv", ["w1,t1,a,model"], f"{HEADER},kind")
    write(tmp_path / "kinds" / "2.csv", DAY_2)
    write(tmp_path / "days" / "1.csv", DAY_1)
    write(tmp_path / "days" / "2.csv", DAY_2)
    named = pq.read_table(opened(tmp_path / "kinds", tmp_path / "run").labels.table)
    assert named.column("kind").to_pylist() == ["model", None, None, None]
    plain = pq.read_table(opened(tmp_path / "days", tmp_path / "run").labels.table)
    assert plain.column_names == ["worker", "task", "label"]


@pytest.mark.parametrize("name", ["answers.tsv", "answers.jsonl", "answers"])
def test_answers_of_one_model_need_not_name_it_in_any_format(
    days: Path, tmp_path: Path, name: str
) -> None:
    path = tmp_path / name
    if path.suffix == ".tsv":
        write(path, ["t1\ta"], header="task\tlabel")
    elif path.suffix == ".jsonl":
        write(path, [], header='{"task": "t1", "label": "a"}')
    else:
        write(path / "1.csv", ["t1,a"], header="task,label")
        write(path / "2.csv", ["t2,a"], header="task,label")
    sources = opened(days, tmp_path / "run", reference=path)
    assert sources.reference is not None
    assert set(read_reference(sources.reference.table, classes=None).model.tolist()) == {""}


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("key", ["label", "labels"])
def test_sets_are_under_either_key_in_one_file_and_in_several(
    tmp_path: Path, key: str, parts: int
) -> None:
    rows = [f'{{"worker": "w{at}", "task": "t1", "{key}": ["a", "b"]}}' for at in range(4)]
    for at in range(parts):
        write(tmp_path / "sets" / f"{at}.jsonl", rows[at + parts :: parts], header=rows[at])
    sources = opened(tmp_path / "sets", tmp_path / "run", several="|")
    assert read_multilabels(sources.labels.table).classes.tolist() == ["a", "b"]


def test_files_on_their_way_in_are_passed_over(days: Path) -> None:
    write(days / ".day-3.csv.tmp", [])
    write(days / "_SUCCESS", [])
    assert [path.name for path in find_files(days)] == ["day-1.csv", "day-2.csv"]
    assert [path.name for path in find_files(days / "*")] == ["day-1.csv", "day-2.csv"]


@pytest.mark.parametrize("name", ["notes.txt", "day-3.csv.zip", "inner/day-3.csv"])
def test_what_is_no_table_in_a_folder_is_refused_not_dropped(days: Path, name: str) -> None:
    write(days / name, DAY_1)
    with pytest.raises(TableError, match=r"must be a table \(\.csv, \.csv\.gz, \.tsv, .*/\*\.csv"):
        find_files(days)


def test_the_end_of_a_files_name_may_have_capitals(days: Path) -> None:
    (days / "day-2.csv").rename(days / "DAY-2.CSV")
    assert [path.name for path in find_files(days)] == ["DAY-2.CSV", "day-1.csv"]
    assert read(days, days.parent / "run").n_labels == len(DAY_1 + DAY_2)


def test_a_fault_names_the_file_whose_name_ends_as_that_of_a_table_that_was_made(
    days: Path,
) -> None:
    """It was called `expert-labels` where the labels were a folder, kept as labels.parquet."""
    gold = days.parent / "expert-labels.parquet"
    pq.write_table(pa.table({"task": ["t1", "t2"], "label": ["a", None]}), gold)
    sources = opened(days, days.parent / "run", gold=gold)
    with pytest.raises(TableError, match=r"^expert-labels\.parquet, row 2"), sources.naming_files():
        read_gold(gold, classes=None)


@pytest.mark.parametrize(
    ("name", "said", "kind"),
    [
        ("labels.csv", {"sheet": "Crowd"}, "a workbook"),
        ("labels.parquet", {"sep": ";"}, "CSV"),
        ("labels.parquet", {"encoding": "cp1252"}, "CSV or JSON"),
        ("labels.jsonl", {"sep": ","}, "CSV"),
    ],
)
def test_what_is_said_of_no_table_that_is_read_is_refused(
    tmp_path: Path, name: str, said: dict[str, Any], kind: str
) -> None:
    """It was dropped without a word."""
    path = tmp_path / name
    (write_parquet if path.suffix == ".parquet" else write)(path, DAY_1)
    sentence = rf"^{next(iter(said))} \(--.*\) must be for {kind}, and {name} is not; leave it out$"
    with pytest.raises(TableError, match=sentence):
        opened(path, tmp_path / "run", **said)
    with (
        pytest.raises(TableError, match=sentence),
        opened_alone(path, (), tmp_path, Reading(**said)),
    ):
        pass
    with pytest.raises(TableError, match=sentence):
        open_lenient(path, Reading(**said))
    with pytest.raises(TableError, match=sentence):
        import_labels(path, "table", reading=Reading(**said))


def test_what_is_said_of_one_table_may_be_heeded_for_another(tmp_path: Path) -> None:
    labels = write_parquet(tmp_path / "labels.parquet", DAY_1)
    gold = write(tmp_path / "gold.csv", ["t1;a"], header="task;label")
    sources = opened(labels, tmp_path / "run", gold=gold, sep=";")
    assert sources.gold is not None
    assert read_gold(sources.gold.table, classes=None).task.tolist() == ["t1"]


def test_what_is_no_file_is_named_for_what_it_is(tmp_path: Path) -> None:
    """A folder, a pipe, and a name that DuckDB cannot take, as of an archive in another encoding."""
    with pytest.raises(TableError, match="is a folder, and one file is read here; name a file in"):
        open_table(tmp_path, ())
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(TableError, match="is a pipe or a device, and a file is read more than"):
        open_table(tmp_path / "pipe", ())
    odd = tmp_path / os.fsdecode(b"lab\xe9ls.csv")
    try:
        write(odd, DAY_1)
    except OSError:  # a file system that takes UTF-8 alone
        return
    with pytest.raises(
        TableError, match=r"path must be UTF-8 text, got '.*lab\\udce9ls\.csv'; rename"
    ):
        open_table(odd, ())


def test_a_task_of_two_tables_is_named(tmp_path: Path) -> None:
    paths = [write(tmp_path / name, ["t1,1"], "task,x") for name in ("a.csv", "b.csv")]
    with pytest.raises(TableError, match="^task 't1' is in two task tables; keep one$"):
        read_tasks(paths, GroupSettings())


def test_no_table_at_all_is_refused(days: Path, tmp_path: Path) -> None:
    shutil.rmtree(days)
    days.mkdir()
    with pytest.raises(TableError, match="holds no table"):
        find_files(days)
    with pytest.raises(TableError, match="matches no file"):
        find_files(tmp_path / "*.csv")
    with pytest.raises(TableError, match=r"day-9\.csv does not exist; mend the path"):
        opened(days / "day-9.csv", tmp_path / "run")


def test_a_files_name_that_looks_like_a_pattern_is_a_file(tmp_path: Path) -> None:
    path = write(tmp_path / "labels [1].csv", DAY_1)
    assert find_files(path) == (path,)


def test_a_pattern_may_stand_below_a_folder_whose_name_looks_like_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "crowd [2026]"
    days = tuple(write(folder / f"day [{at}]" / "labels.csv", DAY_1) for at in (1, 2))
    assert find_files(folder / "*" / "labels.csv") == days
    assert find_files(folder / "day [[]?[]]" / "*.csv") == days
    assert find_files(folder / "day [1]" / "*.csv") == days[:1]
    assert find_files(folder / "none.csv") == (folder / "none.csv",)
    monkeypatch.chdir(folder)
    assert find_files(Path("**/*.csv")) == (Path("day [1]/labels.csv"), Path("day [2]/labels.csv"))


@pytest.mark.parametrize(
    ("text", "given", "words"),
    [
        (b"worker;task;label\nann;t1;yes\n", {"sep": ","}, "column"),
        (
            "worker,task,label\nJosé,t1,yes\n".encode("cp1252"),
            {"encoding": "utf-8"},
            "not text in utf-8",
        ),
    ],
)
def test_what_the_user_says_of_a_file_holds_where_it_looks_otherwise(
    text: bytes, given: dict[str, str], words: str, tmp_path: Path
) -> None:
    """A file that is plain by what is said, and not by its looks, was read by its looks."""
    path = tmp_path / "labels.csv"
    path.write_bytes(text)
    with pytest.raises(TableError, match=words):
        opened(path, tmp_path / "run", **given)


OTHER = {"columns": ("worker=who", "task=item", "label=said")}


def labels_in(sources: Sources) -> list[tuple[str, str, str]]:
    found = read_labels(sources.labels.table, classes=None, duplicates="error", known_tasks=None)
    names = (found.workers[found.worker], found.tasks[found.task], found.classes[found.label])
    return sorted(zip(*(one.tolist() for one in names), strict=True))


@pytest.mark.parametrize("kind", ["csv", "parquet", "jsonl", "folder"])
def test_columns_of_other_names_are_read_as_those_of_the_table(tmp_path: Path, kind: str) -> None:
    """A column `task` that is not the one meant is left out, and so is TASK; the others stay."""
    given = {"who": ["ann", "bo"], "task": ["x", "y"], "item": ["7", "8"], "said": ["b", "a"]}
    folder = tmp_path / "days"
    folder.mkdir()
    path = folder / f"labels.{'csv' if kind == 'folder' else kind}"
    if kind == "parquet":
        pq.write_table(pa.table({**given, "item": [7, 8]}), path)
    elif kind == "jsonl":
        rows = [dict(zip(given, row, strict=True)) for row in zip(*given.values(), strict=True)]
        path.write_text("\n".join(map(json.dumps, rows)) + "\n", encoding="utf-8")
    else:
        write(path, ["ann,x,7,b", "bo,y,8,a"], "who,TASK,item,said")
    if kind == "folder":
        write(folder / "later.csv", ["cy,9,b"], HEADER)  # with the names themselves
    sources = opened(folder if kind == "folder" else path, tmp_path / "run", **OTHER)
    rows = [("ann", "7", "b"), ("bo", "8", "a"), *[("cy", "9", "b")] * (kind == "folder")]
    assert labels_in(sources) == rows
    lost = "TASK" if kind in ("csv", "folder") else "task"
    assert sources.read_as == (
        f"{path.name} was read with who as worker, item as task, said as label, without its own {lost}",
    )


def test_a_column_that_no_table_has_is_one_sentence(tmp_path: Path) -> None:
    path = write(tmp_path / "labels.csv", DAY_1, "who,task,label")
    with pytest.raises(
        TableError, match=r"^labels.csv must have the column 'whom' \(it has who, task, label"
    ):
        opened(path, tmp_path / "run", columns=("worker=whom",))


def test_wide_labels_may_name_the_column_of_tasks(tmp_path: Path) -> None:
    path = write(tmp_path / "labels.csv", ["a,1,b", "b,2,a"], "ann,item,bo")
    sources = opened(path, tmp_path / "run", wide=True, columns=("task=item",))
    rows = [("ann", "1", "a"), ("ann", "2", "b"), ("bo", "1", "b"), ("bo", "2", "a")]
    assert labels_in(sources) == rows


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"columns": ("worker",)}, "columns must be ROLE=COLUMN"),
        ({"columns": ("who=worker",)}, "with roles of worker, task, label, each once"),
        ({"columns": ("worker=a", "worker=b")}, "each column once, got 'worker=b'"),
        ({"columns": ("worker=a", "task=a")}, "each column once, got 'task=a'"),
        ({"columns": ("worker=a",), "wide": True}, "no more than task with wide"),
        ({"columns": ("label=a",), "seconds": "a"}, "seconds must name a column of its own"),
        ({"gold_column": "a"}, "gold_column needs gold, the table that has it"),
        ({"gold_column": "task", "gold": "gold.csv"}, "another column than that of the tasks"),
    ],
)
def test_columns_that_cannot_be_are_refused(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        InputSettings.model_validate({"labels": "labels.csv", **given})


TRUTHS = ["w1,t1,a,b", "w2,t1,b,b", "w1,t2,a,", "w2,t2,b,  ", "w2,t3,a,a"]


@pytest.mark.parametrize("kind", ["csv", "parquet", "folder"])
def test_truths_stand_once_a_task_though_the_labels_repeat_them(tmp_path: Path, kind: str) -> None:
    """The crowd's own column of labels is no truth; a blank cell says nothing."""
    (tmp_path / "days").mkdir()
    path = write(tmp_path / "days" / "labels.csv", TRUTHS, "worker,task,label,truth")
    if kind == "parquet":
        cells = zip(*(row.split(",") for row in TRUTHS), strict=True)
        columns = dict(zip(("worker", "task", "label", "truth"), map(list, cells), strict=True))
        path = tmp_path / "labels.parquet"
        pq.write_table(pa.table(columns), path)
    elif kind == "folder":
        path = path.parent
        write(path / "more.csv", ["w3,t3,b,a", "w3,t4,b,b"], "worker,task,label,truth")
    sources = opened(path, tmp_path / "run", gold=path, gold_column="truth")
    assert sources.gold is not None
    gold = read_gold(sources.gold.table, classes=None)
    rows = {"t1": "b", "t3": "a"} | ({"t4": "b"} if kind == "folder" else {})
    assert dict(zip(gold.task.tolist(), gold.label.tolist(), strict=True)) == rows


@pytest.mark.parametrize(
    ("rows", "column", "sentence"),
    [
        (["w1,t1,a,b", "w2,t1,a,a"], "truth", "one truth, and 't1' has 'a' and 'b'; mend"),
        (["w1,t1,a,", "w2,t1,a,"], "truth", "no cell holds a truth"),
        (
            ["w1,t1,a,b"],
            "truths",
            "'truths' .it has worker, task, label, truth., which is to be label; mend the name in gold_c",
        ),
    ],
)
def test_truths_that_cannot_be_are_one_sentence(
    tmp_path: Path, rows: list[str], column: str, sentence: str
) -> None:
    path = write(tmp_path / "labels.csv", rows, "worker,task,label,truth")
    with pytest.raises(TableError, match=rf"^labels.csv.*{sentence}"):
        opened(path, tmp_path / "run", gold=path, gold_column=column)


@pytest.mark.parametrize("kind", ["csv", "parquet", "folder"])
def test_a_column_that_is_named_and_in_no_file_of_the_only_table_is_refused(
    tmp_path: Path, kind: str
) -> None:
    """The table's own `worker` is not taken for a misspelt column; a gold table may have other names."""
    (tmp_path / "days").mkdir()
    path = write(tmp_path / "days" / "labels.csv", DAY_1)
    if kind == "parquet":
        path = write_parquet(tmp_path / "labels.parquet", DAY_1)
    elif kind == "folder":
        path = write(path.parent / "more.csv", DAY_2).parent
    told = "must have the column 'whom', which is to be worker; mend the name in --map"
    with (
        pytest.raises(TableError, match=told),
        opened_alone(path, ("task",), tmp_path, Reading(columns=(("worker", "whom"),))),
    ):
        pass
    if kind != "folder":
        with pytest.raises(TableError, match=told):
            open_lenient(path, Reading(columns=(("worker", "whom"),)))
    mapped = write(tmp_path / "mapped.csv", DAY_1, "worker,task,said")
    gold = write(tmp_path / "gold.csv", ["t1,a"], "task,label")
    assert opened(mapped, tmp_path / "run", gold=gold, columns=("label=said",)).gold is not None


@pytest.mark.parametrize("kind", ["csv", "parquet", "folder"])
def test_a_column_that_is_named_and_in_no_table_of_a_run_is_refused(
    tmp_path: Path, kind: str
) -> None:
    """The labels' own `label` was taken for a misspelt one; a name that the gold alone has is none."""
    (tmp_path / "days").mkdir()
    path = write(tmp_path / "days" / "labels.csv", DAY_1)
    if kind == "parquet":
        path = write_parquet(tmp_path / "labels.parquet", DAY_1)
    elif kind == "folder":
        path = write(path.parent / "more.csv", DAY_2).parent
    gold = write(tmp_path / "gold.csv", ["t1,a"], "task,truth")
    given = {"gold": gold, "columns": ("label=truth",)}
    assert opened(path, tmp_path / "run", **given).gold is not None
    told = "must have the column 'turth', which is to be label; mend the name in --map or columns"
    with pytest.raises(TableError, match=told):
        opened(path, tmp_path / "again", columns=("label=turth",))


def test_a_damaged_file_whose_columns_are_named_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "labels.parquet"
    path.write_bytes(b"PAR1 and nothing else")
    with pytest.raises(TableError, match=r"^labels.parquet: not a readable table"):
        opened(path, tmp_path / "run", columns=("worker=who",))


def test_workers_of_a_wide_table_are_not_renamed(tmp_path: Path) -> None:
    path = write(tmp_path / "labels.csv", ["1,a,b"], "item,ann,bo")
    told = "--map .columns. may name no more than task"
    with pytest.raises(TableError, match=told):
        open_lenient(path, Reading(wide=True, columns=(("worker", "ann"),)))


def test_commas_in_names_are_no_decimals_whatever_the_column_is_called(tmp_path: Path) -> None:
    """Two tasks stay two; the seconds have decimals."""
    rows = ["a;1.234,5;x;2,5", "a;1234,5;y;1.000,5"]
    plain = write(tmp_path / "plain.csv", rows, "worker;task;label;seconds")
    other = write(tmp_path / "other.csv", rows, "worker;item;label;seconds")
    found = [opened(plain, tmp_path / "run", seconds="seconds")]
    found.append(opened(other, tmp_path / "other", seconds="seconds", columns=("task=item",)))
    tables = [pq.read_table(one.labels.table).to_pydict() for one in found]
    assert tables[0] == tables[1]
    assert tables[0]["task"] == ["1.234,5", "1234,5"]
    assert tables[0]["seconds"] == ["2.5", "1000.5"]


@pytest.mark.parametrize("missing", [None, math.nan])
def test_truths_that_became_numbers_with_a_point_are_the_labels_names(
    tmp_path: Path, missing: float | None
) -> None:
    """As pandas writes whole numbers once some are missing, and Polars missing ones as NaN."""
    path = tmp_path / "labels.parquet"
    truth = pa.array([1.0, 1.0, missing], pa.float64(), from_pandas=False)
    labels = {"worker": ["a", "b", "a"], "task": [7, 7, 8], "label": [0, 1, 1], "truth": truth}
    pq.write_table(pa.table(labels), path)
    sources = opened(path, tmp_path / "run", gold=path, gold_column="truth")
    assert sources.gold is not None
    gold = read_gold(sources.gold.table, classes=("0", "1"))
    assert (gold.task.tolist(), gold.label.tolist()) == (["7"], ["1"])
