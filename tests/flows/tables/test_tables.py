"""Label, task and gold tables: what is read of them, and what is refused with row, column and value."""

from __future__ import annotations

import csv
import errno
import gzip
import json
import os
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flows.settings import GroupSettings
from flows.tables import Reading, guess_roles
from flows.tables.columns import read_comparisons
from flows.tables.refusals import TableError
from flows.tables.tables import (
    read_gold,
    read_labels,
    read_models,
    read_seconds,
    read_tasks,
    read_texts,
)
from flows.tables.text_table import column_names, open_table
from quality import CrowdLabels, encode

GOOD = "worker,task,label\nw1,t1,a\nw2,t1,b\nw1,t2,b\n"
LONG = "z" * 4_001  # a letter more than a name may have


def labels_of(folder: Path, text: str, **knobs: Any) -> Any:
    path = folder / "labels.csv"
    path.write_text(text, encoding="utf-8", newline="")
    asked = {"classes": None, "duplicates": "error", "known_tasks": None} | knobs
    return read_labels(path, **asked)


def tasks_of(folder: Path, text: str, **knobs: Any) -> Any:
    path = folder / "tasks.csv"
    path.write_text(text, encoding="utf-8")
    return read_tasks([path], GroupSettings(**knobs))


def test_csv_gzip_and_parquet_read_the_same(tmp_path: Path) -> None:
    (tmp_path / "l.csv").write_text(GOOD)
    with gzip.open(tmp_path / "l.csv.gz", "wt") as file:
        file.write(GOOD)
    columns = {"worker": ["w1", "w2", "w1"], "task": ["t1", "t1", "t2"], "label": ["a", "b", "b"]}
    pq.write_table(pa.table(columns), tmp_path / "l.parquet")
    read = [
        read_labels(tmp_path / name, classes=None, duplicates="error", known_tasks=None)
        for name in ("l.csv", "l.csv.gz", "l.parquet")
    ]
    for labels in read:
        assert [labels.task.tolist(), labels.label.tolist()] == [[0, 0, 1], [0, 1, 1]]
        assert labels.workers.tolist() == ["w1", "w2"]


def test_byte_order_mark_crlf_and_quoted_cells_are_read(tmp_path: Path) -> None:
    labels = labels_of(tmp_path, '\ufeffworker,task,label\r\n"w,1",t1,"a ""b"""\r\nw2,t1, c \r\n')
    assert labels.workers.tolist() == ["w,1", "w2"]
    assert labels.classes.tolist() == ['a "b"', "c"]


def test_only_a_file_of_text_can_lack_a_header(tmp_path: Path) -> None:
    path = tmp_path / "labels.json"
    path.write_text('[{"w": "ann", "x": "1", "a": "yes"}]')
    with pytest.raises(TableError, match=r"\(it has w, x, a\); rename or add it"):
        read_labels(path, classes=None, duplicates="error", known_tasks=None)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "labels.csv is empty; it needs a header and rows below it"),
        ("worker,task,label\n", "labels.csv has no rows below its header"),
        ("worker,item,label\nw,t,a\n", "missing: task (it has worker, item, label)"),
        ("w,1,a\nv,1,a\n", "(it has w, 1, a); write them above the first row if that is no header"),
        (
            "who,item,answer\nw,t,a\n",
            "say which is which: --map worker=...,task=item,label=answer, or",
        ),
        (GOOD + "w3,,a\n", "labels.csv, row 4, column task: the cell is blank"),
        (GOOD + "w3,t2,  \n", "labels.csv, row 4, column label: the cell is blank"),
        (
            GOOD + f"w3,{LONG},a\n",
            "labels.csv, row 4, column task: a name must have at most 4,000 letters, it has 4,001; shorten",
        ),
        (GOOD + "w2,t1,a\n", "labels.csv, rows 2, 4: worker 'w2', task 't1' stands 2 times"),
        (GOOD + "w3,t2\n", "labels.csv: line 5 must have 3 columns, it has 2"),
        (
            "worker,task,label,Note,note\nw,t,a,,\n",
            "must differ, in more than capital letters, got 'Note' (column 4), 'note' (column 5)",
        ),
    ],
)
def test_a_bad_label_table_is_one_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(TableError) as caught:
        labels_of(tmp_path, text)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(TableError, match=r"labels\.csv does not exist"):
        read_labels(tmp_path / "labels.csv", classes=None, duplicates="error", known_tasks=None)


def test_duplicates_may_be_resolved_by_order(tmp_path: Path) -> None:
    text = GOOD + "w2,t1,a\n"
    assert labels_of(tmp_path, text, duplicates="first").label.tolist() == [0, 1, 1]
    assert labels_of(tmp_path, text, duplicates="last").label.tolist() == [0, 0, 1]


def test_an_unknown_class_is_named_with_its_row(tmp_path: Path) -> None:
    with pytest.raises(TableError, match=r"rows 2, 3, column label: 'b' is not among the classes"):
        labels_of(tmp_path, GOOD, classes=("a", "c"))


def test_a_label_of_an_unknown_task_is_named_with_its_row(tmp_path: Path) -> None:
    with pytest.raises(TableError, match=r"row 3, column task: 't2' is not among the task tables"):
        labels_of(tmp_path, GOOD, known_tasks=np.array(["t1"]))


def test_declared_classes_keep_their_order(tmp_path: Path) -> None:
    assert labels_of(tmp_path, GOOD, classes=("b", "a", "z")).classes.tolist() == ["b", "a", "z"]


def test_more_declared_classes_than_codes_are_refused(tmp_path: Path) -> None:
    """Codes of 16 bits would wrap: labels would be of other classes, or of none."""
    classes = ("a", *(f"c{code}" for code in range(32_765)), "b")
    assert labels_of(tmp_path, GOOD, classes=classes).label.max() == 32_766
    with pytest.raises(
        TableError, match="there must be at most 32,767 classes, got 32,768 declared"
    ):
        labels_of(tmp_path, GOOD, classes=("z", *classes))


def test_tasks_come_sorted_with_group_and_features(tmp_path: Path) -> None:
    table = tasks_of(tmp_path, "task,group,x0,x1\nt2,g,3,4\nt1,h,1,2.5\n")
    assert table.names.tolist() == ["t1", "t2"]
    assert table.group_names[table.group].tolist() == ["h", "g"]
    assert table.features.tolist() == [[1.0, 2.5], [3.0, 4.0]]
    assert table.feature_names == ("x0", "x1")


def test_a_task_without_text_has_an_empty_one(tmp_path: Path) -> None:
    (tmp_path / "t2.csv").write_text("task,text\nt3,a nail\nt2,\n")
    (tmp_path / "t1.csv").write_text("task,text\nt1,none at all\n")
    found = read_texts([tmp_path / "t2.csv", tmp_path / "t1.csv"], "text")
    assert found["task"].to_pylist() == ["t1", "t2", "t3"]
    assert found["text"].to_pylist() == ["none at all", "", "a nail"]


def test_groups_may_come_from_the_name(tmp_path: Path) -> None:
    table = tasks_of(tmp_path, "task,x\ntrain12,1\ntest7,2\n", pattern="^([a-z]+).*([0-9])$")
    assert table.group_names[table.group].tolist() == ["test-7", "train-2"]


def test_without_groups_there_is_one_group(tmp_path: Path) -> None:
    assert tasks_of(tmp_path, "task,x\nt1,1\n").group_names.tolist() == ["all tasks"]


def test_standardized_features_have_mean_0_and_deviation_1(tmp_path: Path) -> None:
    path = tmp_path / "tasks.csv"
    path.write_text("task,x,constant\na,1,5\nb,2,5\nc,6,5\n")
    features = read_tasks([path], GroupSettings(), standardize=True).features
    np.testing.assert_allclose(features.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(features.std(axis=0), [1, 0], atol=1e-12)


@pytest.mark.parametrize(
    ("text", "knobs", "sentence"),
    [
        (
            "task,group,x\nt1,g,nan\nt2,g,1\n",
            {},
            "row 1, column x: a feature must be a finite number, got 'nan'",
        ),
        (
            "task,group,x\nt1,g,1\nt2,g,\n",
            {},
            "row 2, column x: a feature must be a finite number, got a blank",
        ),
        (
            "task,group,x\nt1,g,1\nt2,g,red\n",
            {},
            "row 2, column x: a feature must be a finite number, got 'red'",
        ),
        (
            "task,group,x,y\nt1,g,1,2\nt2,h,,\nt3,h,,\n",
            {},
            "group 'h' has no features: no cell of x, y is a finite number in its 2 tasks from row 2 on",
        ),
        ("task,group,x\nt1,g,1\nt1,g,2\n", {}, "rows 1, 2: task 't1' stands 2 times"),
        ("task,group,x\nt1,,1\n", {}, "row 1, column group: the cell is blank"),
        ("item_id,x\nt1,1\n", {}, "missing: task (it has item_id, x); rename 'item_id' to task"),
        ("item,question,x\nt1,1,2\n", {}, "(it has item, question, x); rename or add it"),
        (
            f"task,group,x\nt1,g,1\n{LONG},g,1\n",
            {},
            "row 2, column task: a name must have at most 4,000 letters, it has 4,001",
        ),
        ("task,x\nt1,1\n", {"pattern": "(z)"}, "row 1, column task: 't1' does not match"),
        (
            "task,batch\nt1,1\n",
            {"column": "bacth"},
            "has no column 'bacth', which groups.column names; its columns are task, batch",
        ),
    ],
)
def test_a_bad_task_table_is_one_sentence(
    tmp_path: Path, text: str, knobs: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(TableError) as caught:
        tasks_of(tmp_path, text, **knobs)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_name_may_be_long_and_gold_s_may_not_be_longer(tmp_path: Path) -> None:
    assert labels_of(tmp_path, f"{GOOD}w3,{LONG[1:]},a\n").tasks.tolist()[-1] == LONG[1:]
    (tmp_path / "gold.csv").write_text(f"task,label\nt1,a\n{LONG},a\n")
    with pytest.raises(
        TableError, match=r"gold\.csv, row 2, column task: a name must have at most"
    ):
        read_gold(tmp_path / "gold.csv", classes=("a", "b"))


def test_columns_of_gold_that_are_meant_are_named(tmp_path: Path) -> None:
    (tmp_path / "gold.csv").write_text("item,answer\nt1,a\n")
    with pytest.raises(TableError, match="rename 'item' to task and 'answer' to label$"):
        read_gold(tmp_path / "gold.csv", classes=("a", "b"))


def test_gold_of_an_unknown_class_is_refused(tmp_path: Path) -> None:
    (tmp_path / "gold.csv").write_text("task,label\nt1,z\n")
    with pytest.raises(TableError, match=r"gold\.csv, row 1, column label: 'z' is not among"):
        read_gold(tmp_path / "gold.csv", classes=("a", "b"))


CELL = st.text(alphabet="aé𝄞 Z1,\"'\t", min_size=1, max_size=4).filter(str.strip)
ROWS = st.lists(st.tuples(CELL, CELL, CELL), min_size=1, max_size=9)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(ROWS, st.booleans(), st.sampled_from(["error", "first", "last"]))
def test_coding_in_the_database_equals_coding_row_by_row(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[str, str, str]],
    parquet: bool,
    duplicates: str,
) -> None:
    folder = tmp_path_factory.mktemp("labels")
    columns = dict(
        zip(("worker", "task", "label"), map(list, zip(*rows, strict=True)), strict=True)
    )
    path = folder / ("l.parquet" if parquet else "l.csv")
    if parquet:
        pq.write_table(pa.table(columns), path)
    else:
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([tuple(columns), *rows])
    asked: dict[str, Any] = {"classes": None, "duplicates": duplicates, "known_tasks": None}
    kept: dict[tuple[str, str], str] = {}
    for worker, task, label in (tuple(cell.strip() for cell in row) for row in rows):
        if duplicates != "first" or (worker, task) not in kept:
            kept[worker, task] = label
    if duplicates == "error" and len(kept) < len(rows):
        with pytest.raises(TableError, match="stands"):
            read_labels(path, **asked)
        return
    found = read_labels(path, **asked)
    oracle = encode([w for w, _ in kept], [t for _, t in kept], list(kept.values()))
    for name in type(oracle).__dataclass_fields__:
        assert np.array_equal(getattr(oracle, name), getattr(found, name)), name


def test_spaces_around_a_name_are_no_part_of_it(tmp_path: Path) -> None:
    labels = labels_of(tmp_path, "worker,task,label\nw1, t1,a\nw2,t1 ,b\n")
    assert labels.tasks.tolist() == ["t1"]
    assert labels.task.tolist() == [0, 0]
    with pytest.raises(TableError, match="rows 1, 2: worker 'w1', task 't1' stands 2 times"):
        labels_of(tmp_path, "worker,task,label\nw1, t1,a\nw1 ,t1,b\n")


@pytest.mark.parametrize(
    ("cells", "names"),
    [
        (pa.array([10, 9, 9], pa.int64()), ["10", "9", "9"]),
        (pa.array([10, 9, 9], pa.uint8()), ["10", "9", "9"]),
        (pa.array([1.5, -0.25, -0.25]), ["1.5", "-0.25", "-0.25"]),
        (pa.array(["é", "b", "b"]).dictionary_encode(), ["é", "b", "b"]),
        (pa.array([True, False, False]), ["true", "false", "false"]),
    ],
    ids=["integers", "bytes", "floats", "dictionary", "truth values"],
)
def test_whatever_parquet_holds_is_read_as_text(
    tmp_path: Path, cells: pa.Array, names: list[str]
) -> None:
    columns = {"worker": [2, 2, 10], "task": cells, "label": ["a", "b", "a"]}
    pq.write_table(pa.table(columns), tmp_path / "l.parquet")
    asked: dict[str, Any] = {"classes": None, "duplicates": "error", "known_tasks": None}
    found = read_labels(tmp_path / "l.parquet", **asked)
    oracle = encode(["2", "2", "10"], names, ["a", "b", "a"])
    for name in type(oracle).__dataclass_fields__:
        assert np.array_equal(getattr(oracle, name), getattr(found, name)), name


def test_a_fault_of_the_system_is_none_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may pass: Prefect tries again what is no refusal. A damaged file is one."""
    (tmp_path / "labels.csv.gz").write_bytes(b"no gzip")
    with pytest.raises(TableError, match=r"damaged \(Not a gzipped file"):
        open_table(tmp_path / "labels.csv.gz", ())

    def stale(_: Path) -> None:
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

    monkeypatch.setattr("flows.tables.dialect.unzipped", stale)
    (tmp_path / "labels.csv").write_text("worker,task,label\nann,t1,a\n")
    with pytest.raises(OSError, match="Stale file handle"):
        open_table(tmp_path / "labels.csv", ())


def test_white_space_alone_is_blank(tmp_path: Path) -> None:
    white = [chr(code) for code in range(0x110000) if chr(code).isspace()]
    cells = pa.table({"task": white, "label": ["a"] * len(white)})
    pq.write_table(cells, tmp_path / "gold.parquet")
    with pytest.raises(TableError, match=f"and {len(white) - 3} more, column task"):
        read_gold(tmp_path / "gold.parquet", classes=None)
    with pytest.raises(TableError, match="rows 1, 2, column label: the cell is blank"):
        labels_of(tmp_path, "worker,task,label\nw1,t1,\t\nw2,t1,\u3000 \u2003\n")


def test_white_space_around_a_cell_is_no_part_of_it(tmp_path: Path) -> None:
    white = [chr(code) for code in range(0x110000) if chr(code).isspace()]
    tasks = [f"{one} {one}t{at}\n{one}b {one}" for at, one in enumerate(white)]
    pq.write_table(pa.table({"task": tasks, "label": ["a"] * len(white)}), tmp_path / "g.parquet")
    found = read_gold(tmp_path / "g.parquet", classes=None)
    assert found.task.tolist() == sorted(task.strip() for task in tasks)


def test_whole_numbers_with_a_point_are_the_same_names_as_without(tmp_path: Path) -> None:
    """Pandas writes them so once a cell is missing; other numbers stay as they are."""
    workers = pa.array([7.0, 8.0, 2.0**53, float("inf")])
    columns = {
        "worker": workers,
        "task": pa.array([1.0] * 4, pa.float32()),
        "label": [1.0, 0.5] * 2,
    }
    pq.write_table(pa.table(columns | {"kind": ["model", "", "", ""]}), tmp_path / "l.parquet")
    found = read_labels(
        tmp_path / "l.parquet", classes=None, duplicates="error", known_tasks=np.array(["1"])
    )
    assert found.workers.tolist() == ["7", "8", "9007199254740992.0", "inf"]
    assert found.classes.tolist() == ["0.5", "1"]
    assert read_models(tmp_path / "l.parquet") == ("7",)
    wide = {"task": ["t1", "t2"], "ann": [1.0, None], "bob": [2, 1]}
    pq.write_table(pa.table(wide), tmp_path / "wide.parquet")
    table = open_table(tmp_path / "wide.parquet", (), Reading(wide=True))
    assert sorted(table.columns("label")["label"].tolist()) == ["1", "1", "2"]


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
def test_names_that_are_numbers_differ_by_text_and_features_are_what_they_hold(
    tmp_path: Path, kind: pa.DataType
) -> None:
    """A feature of single precision becomes the double of the same value, as NumPy makes it."""
    x = pa.array([0.1, 1e-7, -2.5e30], kind)
    table = {"task": pa.array([0.0, -0.0, 1.5]), "group": pa.array([1.0, 1.0, 2.5], kind), "x": x}
    pq.write_table(pa.table(table), tmp_path / "tasks.parquet")
    found = read_tasks([tmp_path / "tasks.parquet"], GroupSettings())
    assert found.names.tolist() == ["-0.0", "0", "1.5"]
    assert found.group_names.tolist() == ["1", "2.5"]
    assert found.features[:, 0].tolist() == x.to_numpy().astype(np.float64)[[1, 0, 2]].tolist()


def test_a_column_called_as_another_s_numbers_would_be_is_a_column_of_its_own(
    tmp_path: Path,
) -> None:
    table = {"task": ["t1", "t2"], "x": [1.0, 2.0], "Number x": [5.0, 6.0]}
    pq.write_table(pa.table(table), tmp_path / "tasks.parquet")
    found = read_tasks([tmp_path / "tasks.parquet"], GroupSettings())
    assert found.feature_names == ("x", "Number x")
    assert found.features.tolist() == [[1.0, 5.0], [2.0, 6.0]]


@pytest.mark.parametrize("name", ["l.csv", "l.parquet", "l.jsonl"])
def test_names_of_columns_are_those_of_the_table_without_its_rows(
    tmp_path: Path, name: str
) -> None:
    rows = [{"worker": "w1", "task": "t1", "label": "a", "kind": "person"}]
    if name.endswith("parquet"):
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / name)
    elif name.endswith("jsonl"):
        (tmp_path / name).write_text(json.dumps(rows[0]) + "\n")
    else:
        (tmp_path / name).write_text("worker,task,label,kind\nw1,t1,a,person\n")
    needed = ("worker", "task", "label")
    found = column_names(tmp_path / name, needed)
    assert found == open_table(tmp_path / name, needed).names == tuple(rows[0])
    with pytest.raises(TableError, match="missing: seconds"):
        column_names(tmp_path / name, ("seconds",))
    with pytest.raises(TableError, match="does not exist"):
        column_names(tmp_path / f"no-{name}", needed)


def test_a_blank_number_is_named_with_its_row(tmp_path: Path) -> None:
    columns = {"worker": ["w1", "w1"], "task": pa.array([3, None]), "label": ["a", "b"]}
    pq.write_table(pa.table(columns), tmp_path / "l.parquet")
    with pytest.raises(TableError, match="row 2, column task: the cell is blank"):
        read_labels(tmp_path / "l.parquet", classes=None, duplicates="error", known_tasks=None)


def test_rows_keep_their_numbers_when_repeats_are_dropped(tmp_path: Path) -> None:
    text = GOOD + "w2,t1,a\nw9,t9,zz\n"
    with pytest.raises(TableError, match="row 5, column label: 'zz' is not among"):
        labels_of(tmp_path, text, duplicates="first", classes=("a", "b"))


def test_a_column_may_be_called_row_or_rowid(tmp_path: Path) -> None:
    text = "row,rowid,worker,task,label\n7,9,w1,t1,a\n7,9,w2,,b\n"
    with pytest.raises(TableError, match="row 2, column task: the cell is blank"):
        labels_of(tmp_path, text)
    table = tasks_of(tmp_path, "row,rowid,task\n7,9,t1\n8,5,t2\n")
    assert table.features.tolist() == [[7, 9], [8, 5]]


TIMED = [
    ("w2", "t1", "x", "4.5"),
    ("w1", "t2", "y", ""),
    ("w1", "t1", "x", "2"),
    ("w3", "t2", "x", "0"),
]


def write(folder: Path, rows: list[tuple[str, ...]]) -> Path:
    path = folder / "labels.csv"
    lines = ["worker,task,label,seconds", *(",".join(row) for row in rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def timed_labels(path: Path, duplicates: str = "error") -> CrowdLabels:
    return read_labels(path, classes=None, duplicates=duplicates, known_tasks=None)  # type: ignore[arg-type]


def test_seconds_stand_in_the_order_of_the_labels(tmp_path: Path) -> None:
    path = write(tmp_path, TIMED)
    labels = timed_labels(path)
    found = read_seconds(path, "seconds", labels, duplicates="error")
    expected = {(w, t): float(s or "nan") for w, t, _, s in TIMED}
    named = zip(labels.workers[labels.worker], labels.tasks[labels.task], strict=True)
    np.testing.assert_array_equal(found, [expected[str(w), str(t)] for w, t in named])


def test_seconds_of_the_repeat_that_stands(tmp_path: Path) -> None:
    path = write(tmp_path, [*TIMED, ("w2", "t1", "y", "9")])
    labels = timed_labels(path, "last")
    found = read_seconds(path, "seconds", labels, duplicates="last")
    assert sorted(found[~np.isnan(found)]) == [0.0, 2.0, 9.0]


@pytest.mark.parametrize("cell", ["-1", "soon", "nan", "inf"])
def test_what_is_no_time_is_refused_with_its_row(tmp_path: Path, cell: str) -> None:
    path = write(tmp_path, [*TIMED, ("w3", "t1", "x", cell)])
    with pytest.raises(TableError, match=rf"row 5, column seconds: '{cell}' must be seconds"):
        read_seconds(path, "seconds", timed_labels(path), duplicates="error")


def test_workers_whose_kind_is_model_are_models(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_text(
        "worker,task,label,kind\nm2,t1,a, Model \nann,t1,b,\nm1,t1,a,model\nben,t1,b,person\nm2,t2,a,model\n"
    )
    assert read_models(path) == ("m1", "m2")
    path.write_text(GOOD)
    assert read_models(path) == ()
    columns = {"worker": [7, 8], "task": [1, 1], "label": ["a", "b"], "kind": ["model", None]}
    pq.write_table(pa.table(columns), tmp_path / "labels.parquet")
    assert read_models(tmp_path / "labels.parquet") == ("7",)


def test_a_worker_is_a_model_in_all_rows_or_in_none(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_text("worker,task,label,kind\nm1,t1,a,model\nm1,t2,b,\n")
    with pytest.raises(TableError, match=r"worker 'm1' is a model in some rows only"):
        read_models(path)


@pytest.mark.parametrize(
    "names",
    [
        ("worker", "task", "label"),
        ("label", "worker", "task", "seconds"),
        ("annotator", "item", "score"),
        ("Worker ID", "Task-ID", "Answer"),
        ("user_name", "question_id", "rating", "comment"),
    ],
)
def test_each_role_has_one_column(names: tuple[str, ...]) -> None:
    found = guess_roles(names)
    assert list(found) == ["worker", "task", "label"]
    assert set(found.values()) <= set(names)


def test_of_two_columns_for_a_role_none_is_taken() -> None:
    assert guess_roles(("user", "annotator", "task", "label")) == {"task": "task", "label": "label"}


def test_a_column_of_the_roles_own_name_is_taken_before_others() -> None:
    assert guess_roles(("worker", "user", "task", "item", "label", "rating")) == {
        "worker": "worker", "task": "task", "label": "label",
    }  # fmt: skip


def test_of_two_columns_for_a_role_the_one_that_ends_in_id_is_taken() -> None:
    found = guess_roles(("user_id", "query", "item_id", "judgement"))
    assert found == {"worker": "user_id", "task": "item_id", "label": "judgement"}
    assert guess_roles(("user_id", "rater_id", "task", "label")).keys() == {"task", "label"}


def test_an_unknown_name_is_no_role() -> None:
    assert guess_roles(("who", "what", "said")) == {}


def test_one_long_name_does_not_cost_its_length_in_every_row(tmp_path: Path) -> None:
    """NumPy keeps four bytes for each letter of the longest: 320 MB for these rows."""
    n_tasks, n_workers = 500, 40
    tasks = ["t" * 4_000, *(f"t{number}" for number in range(1, n_tasks))]
    rows = [(f"w{who}", task) for task in tasks for who in range(n_workers)]
    worker, task = (list(column) for column in zip(*rows, strict=True))
    took = [float(number) for number in range(len(rows))]
    path = tmp_path / "labels.parquet"
    table = {"worker": worker, "task": task, "label": ["a", "b"] * (len(rows) // 2), "took": took}
    pq.write_table(pa.table(table), path)
    labels = read_labels(path, classes=None, duplicates="error", known_tasks=None)
    said = {"left": ["x"] * len(rows), "right": ["y"] * len(rows), "winner": ["x"] * len(rows)}
    pq.write_table(pa.table({"worker": worker, "prompt": task, **said}), tmp_path / "pairs.parquet")
    peaks = []
    for read in (
        lambda: read_seconds(path, "took", labels, duplicates="error"),
        lambda: read_comparisons(tmp_path / "pairs.parquet"),
    ):
        tracemalloc.start()
        read()
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert max(peaks) < 100e6, peaks
