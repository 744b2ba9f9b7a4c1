"""Tables streamed into shards: the labels that are read whole, and the same refusals."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flows.choices import LABEL_COLUMNS
from flows.files import write_whole
from flows.settings import EngineError
from flows.sharding import (
    ShardFolder,
    group_of_shard,
    label_codes,
    load_shard,
    open_shards,
    refuse_hollow_shards,
    write_gold,
    write_groups,
    write_shards,
)
from flows.tables.refusals import TableError
from flows.tables.tables import read_labels
from quality.labels.shards import join_shards

Rows = list[tuple[Any, Any, Any]]
CAMPAIGN = [(f"w{w}", f"t{t}", "xyz"[(w * t) % 3]) for t in range(40) for w in range(t % 3, 9, 2)]

PAIRS = {(worker, task) for worker, task, _ in CAMPAIGN}


def table_of(path: Path, rows: Rows, names: tuple[str, ...] = ("worker", "task", "label")) -> Path:
    columns = zip(*rows, strict=True) if rows else [[] for _ in names]
    pq.write_table(
        pa.table({name: pa.array(list(c)) for name, c in zip(names, columns, strict=True)}), path
    )
    return path


def shards_of(
    folder: Path,
    rows: Rows,
    *,
    shard_labels: int = 7,
    classes=None,
    duplicates="error",
    known_tasks=None,
) -> ShardFolder:
    return write_shards(
        table_of(folder / "labels.parquet", rows),
        folder / "shards",
        shard_labels=shard_labels,
        memory_gb=0.2,
        classes=classes,
        duplicates=duplicates,
        known_tasks=known_tasks,
        threads=1,
    )


def refusals(folder: Path, rows: Rows, **asked: Any) -> tuple[str, str]:
    """What the streaming reader says, and what the one in memory says."""
    said = []
    for act in (
        lambda: shards_of(folder, rows, **asked),
        lambda: read_labels(
            folder / "labels.parquet",
            **{"classes": None, "duplicates": "error", "known_tasks": None} | asked,
        ),
    ):
        with pytest.raises(TableError) as refused:
            act()
        said.append(str(refused.value))
    return said[0], said[1]


@settings(max_examples=10, deadline=None, derandomize=True)
@given(
    rows=st.lists(
        st.tuples(
            st.sampled_from(["a", " b", "ä", "c ", "\td\r\n", "\u2028e"]),
            st.integers(-3, 12),
            st.sampled_from("xyz"),
        ),
        min_size=1,
        unique_by=lambda row: (row[0], row[1]),
    ),
    shard_labels=st.integers(1, 9),
)
def test_shards_hold_the_table_that_is_read_whole(
    tmp_path_factory: pytest.TempPathFactory, rows: Rows, shard_labels: int
) -> None:
    folder = tmp_path_factory.mktemp("shards")
    shards = shards_of(folder, rows, shard_labels=shard_labels, classes=("z", "y", "x"))
    expected = read_labels(
        folder / "labels.parquet", classes=("z", "y", "x"), duplicates="error", known_tasks=None
    )
    loaded = [load_shard(shards, number) for number in range(len(shards.paths))]
    joined = join_shards(loaded, expected)
    for name in ("worker", "task", "label", "task_start"):
        assert np.array_equal(getattr(joined, name), getattr(expected, name))
    for column in ("worker", "task", "label"):
        book = expected.classes if column == "label" else getattr(expected, f"{column}s")
        assert shards.names(column).tolist() == book.tolist()
    assert shards.n_labels == expected.n_labels
    assert open_shards(folder / "shards") == shards
    assert sorted(path.name for path in shards.folder.iterdir()) == sorted(
        ["shards.json", "workers.parquet", "tasks.parquet", "labels.parquet"]
        + [path.name for path in shards.paths]
    )


@pytest.mark.parametrize("duplicates", ["error", "first", "last"])
@pytest.mark.parametrize("number", [False, True])
def test_cells_coded_as_they_stand_and_joined_by_duckdb_make_the_same_shards(
    tmp_path: Path, duplicates: str, number: bool
) -> None:
    again = (
        [("w0", "t0", "z"), ("w3", "t4", "x"), ("w0", "t0", "y")] if duplicates != "error" else []
    )
    rows: Rows = [*CAMPAIGN[::-1], *again]
    if number:
        rows = [(worker, 7 * int(task[1:]) - 90, label) for worker, task, label in rows]
    asked: dict[str, Any] = {"duplicates": duplicates, "shard_labels": 30}
    found = []
    for name, coded in (("plain", label_codes.parquet_texts), ("joined", lambda *_, **__: None)):
        (tmp_path / name).mkdir()
        with (
            patch.object(label_codes, "BATCH", 20),
            patch.object(label_codes, "parquet_texts", side_effect=coded) as asked_for,
        ):
            shards = shards_of(tmp_path / name, rows, classes=("z", "none", "x", "y"), **asked)
        assert asked_for.called
        files = sorted(shards.folder.glob("*.parquet"))
        found.append({path.name: pq.read_table(path).to_pydict() for path in files})
        found[-1] |= {"about": (shards.folder / "shards.json").read_text(encoding="utf-8")}
    assert found[0] == found[1]
    assert len(found[0]) > 5


def test_whole_numbers_with_a_point_are_named_as_in_the_table_that_is_read_whole(
    tmp_path: Path,
) -> None:
    rows: Rows = [(float(worker[1:]), int(task[1:]), label) for worker, task, label in CAMPAIGN]  # type: ignore[misc]
    shards = shards_of(tmp_path, rows)
    assert shards.names("worker").tolist() == sorted({f"{worker:.0f}" for worker, *_ in rows})
    assert refusals(tmp_path, [*rows, rows[0]])[0] == refusals(tmp_path, [*rows, rows[0]])[1]


def test_lists_of_texts_are_named_as_in_the_table_that_is_read_whole(tmp_path: Path) -> None:
    """Without the quotes of JSON two lists were one name: ["x, y"] and ["x", "y"]."""
    answers = {"x": ["x, y"], "y": ["x", "y"], "z": ["z"]}
    shards = shards_of(tmp_path, [(*pair, answers[label]) for *pair, label in CAMPAIGN])  # type: ignore[misc]
    labels = tmp_path / "labels.parquet"
    expected = read_labels(labels, classes=None, duplicates="error", known_tasks=None).classes
    assert shards.names("label").tolist() == expected.tolist()
    assert len(expected) == 3


def test_a_table_whose_codes_memory_has_no_room_for_goes_through_duckdb(tmp_path: Path) -> None:
    with (
        patch.object(label_codes, "BYTES", {"VARCHAR": 10**9}),
        patch.object(label_codes, "parquet_texts", side_effect=AssertionError),
    ):
        assert shards_of(tmp_path, CAMPAIGN).n_labels == len(CAMPAIGN)


def test_memory_may_be_named_that_no_machine_has_and_a_file_in_capitals(tmp_path: Path) -> None:
    table = table_of(tmp_path / "LABELS.PARQUET", CAMPAIGN)
    asked = {"shard_labels": 7, "classes": None, "duplicates": "error"}
    found = write_shards(table, tmp_path / "shards", memory_gb=1e32, **asked)
    assert found.n_labels == len(CAMPAIGN)


def test_a_shard_ends_with_the_task_that_fills_it(tmp_path: Path) -> None:
    shards = shards_of(tmp_path, CAMPAIGN, shard_labels=10)
    for number, path in enumerate(shards.paths):
        shard = load_shard(shards, number)
        sizes = np.diff(shard.task_start)
        assert pq.read_metadata(path).num_rows == shard.n_labels
        assert number == len(shards.paths) - 1 or shard.n_labels >= 10 > shard.n_labels - sizes[-1]


def test_gold_comes_with_the_tasks_of_a_shard(tmp_path: Path) -> None:
    shards = shards_of(tmp_path, CAMPAIGN)
    gold = np.where(np.arange(40) % 7, -1, np.arange(40) % 3)
    write_gold(shards, gold)
    found = [load_shard(shards, number).gold for number in range(len(shards.paths))]
    assert np.concatenate(found).tolist() == gold.tolist()


@pytest.mark.parametrize(
    "rows",
    [
        [("a", "t1", "x"), (None, "t2", "y")],
        [("a", "t1", "x"), ("b", " \t", "y"), ("c", "", "y")],
        [("a", "t1", "x"), ("b", "t1", "y"), ("a", "t1", "y")],
        [("a", 7, "x"), ("b", 7, "y"), (" a ", 7, "y")],
        [("a", "t1", "x"), ("b", "t" * 4_001, "y"), ("c", "é" * 4_000, "y")],
    ],
    ids=["none", "blank", "repeat", "repeat of a number", "too long"],
)
def test_what_is_refused_of_a_whole_table_is_refused_in_the_same_words(
    tmp_path: Path, rows: Rows
) -> None:
    streamed, whole = refusals(tmp_path, rows)
    assert streamed == whole
    assert "labels.parquet, row" in streamed
    assert not (tmp_path / "shards").exists()


@pytest.mark.parametrize(
    ("name", "harm"),
    [
        ("shard-00001.parquet", lambda path: os.truncate(path, 0)),
        ("shard-00001.parquet", lambda path: os.truncate(path, path.stat().st_size // 2)),
        ("shard-00001.parquet", lambda path: path.write_bytes(_turned(path.read_bytes()))),
        (
            "shard-00001.parquet",
            lambda path: shutil.copyfile(path.with_name("shard-00000.parquet"), path),
        ),
        ("shard-00001.parquet", Path.unlink),
        ("gold.npz", lambda path: os.truncate(path, 50)),
        ("shards.json", lambda path: os.truncate(path, 20)),
        ("shards.json", lambda path: path.write_text("[]", encoding="utf-8")),
        ("shards.json", Path.unlink),
        ("groups.npy", lambda path: os.truncate(path, 130)),
        ("groups.npy", lambda path: os.truncate(path, 0)),
        ("groups.npy", Path.unlink),
    ],
)
def test_a_file_that_is_damaged_or_lost_is_named_in_one_sentence(
    tmp_path: Path, name: str, harm: Callable[[Path], object]
) -> None:
    shards = shards_of(tmp_path, CAMPAIGN)
    write_gold(shards, np.zeros(shards.n_tasks, dtype=np.int64))
    write_groups(shards, np.zeros(shards.n_tasks, dtype=np.int64))
    harm(shards.folder / name)
    with pytest.raises(EngineError, match=f"{name} .*; begin anew without --resume"):
        group_of_shard(shards, load_shard(open_shards(shards.folder), 1))


def test_shards_that_are_lost_are_named_in_one_sentence(tmp_path: Path) -> None:
    shards = shards_of(tmp_path, CAMPAIGN)
    shutil.rmtree(shards.folder)
    with pytest.raises(EngineError, match="is not there any more; begin anew without --resume"):
        open_shards(shards.folder)


def test_a_bit_that_flips_in_a_shard_is_damage(tmp_path: Path) -> None:
    """Compression has no checksum of its own: one such bit made other labels of a campaign."""
    shards = shards_of(tmp_path, CAMPAIGN)
    path = shards.paths[1]
    held = path.read_bytes()
    rows = pq.ParquetFile(path).metadata.row_group(0)
    for number in range(rows.num_columns):
        column = rows.column(number)
        first = column.dictionary_page_offset or column.data_page_offset
        last = first + column.total_compressed_size - 1
        path.write_bytes(held[:last] + bytes([held[last] ^ 1]) + held[last + 1 :])
        with pytest.raises(EngineError, match="may be damaged"):
            load_shard(open_shards(shards.folder), 1)


def _turned(held: bytes) -> bytes:
    """Turn over the bytes of the columns; the ends of the file stay."""
    return held[:30] + bytes(255 - one for one in held[30:90]) + held[90:]


def test_the_file_that_says_the_shards_are_whole_is_written_when_they_are_on_the_disk(
    tmp_path: Path,
) -> None:
    """Or a machine that loses power could keep it without them."""
    synced, real = set(), os.fsync

    def fsync(number: int) -> None:
        synced.add(Path(os.readlink(f"/proc/self/fd/{number}")).name)
        real(number)

    def write(path: Path, how: Callable[[Path], object]) -> None:
        before.update(synced)
        write_whole(path, how)

    before = set[str]()
    with patch("os.fsync", fsync), patch("flows.sharding.shards.write_whole", write):
        shards = shards_of(tmp_path, CAMPAIGN)
    names = {path.name for path in shards.paths} | {f"{one}s.parquet" for one in LABEL_COLUMNS}
    assert names <= before


def test_a_class_that_is_not_declared_is_refused_in_the_same_words(tmp_path: Path) -> None:
    rows = [("a", "t1", "x"), ("b", "t1", "maybe"), ("c", "t1", "maybe")]
    streamed, whole = refusals(tmp_path, rows, classes=("x", "y"))
    assert streamed == whole
    assert "rows 2, 3, column label: 'maybe' is not among the classes" in streamed


@pytest.mark.parametrize("at_once", [1, 1_000_000])
def test_a_task_that_is_in_no_task_table_is_refused_in_the_same_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr("flows.sharding.shards.BATCH", at_once)
    rows = [("a", "t1", "x"), ("b", "t3", "x"), ("c", "t2", "y")]
    streamed, whole = refusals(tmp_path, rows, known_tasks=np.array(["t1", "t2", "t4"]))
    assert streamed == whole
    assert "row 2, column task: 't3' is not among the task tables" in streamed


@pytest.mark.parametrize("at", [0, 39])
def test_one_task_with_two_labels_is_enough_whichever_shard_has_it(tmp_path: Path, at: int) -> None:
    alike = [(worker, f"t{task:02d}", "x") for task in range(40) for worker in "ab"]
    with pytest.raises(TableError, match="labels: no two workers differ on any task"):
        refuse_hollow_shards(shards_of(tmp_path, alike), "labels")
    refuse_hollow_shards(shards_of(tmp_path, [*alike, ("c", f"t{at:02d}", "y")]), "labels")


@pytest.mark.parametrize(("duplicates", "label"), [("first", "x"), ("last", "y")])
def test_repeats_are_kept_as_asked(tmp_path: Path, duplicates: str, label: str) -> None:
    rows = [("a", "t1", "x"), ("b", "t1", "z"), ("a", "t1", "z"), ("a", "t1", "y")]
    shards = shards_of(tmp_path, rows, duplicates=duplicates)
    shard = load_shard(shards, 0)
    assert shards.n_labels == 2
    assert shards.names("label")[shard.label].tolist() == [label, "z"]


@pytest.mark.parametrize("classes", [None, ("z", "y", "x")])
@pytest.mark.parametrize("spaced", [False, True])
def test_classes_of_rows_that_are_dropped_are_none(
    tmp_path: Path, classes: tuple[str, ...] | None, spaced: bool
) -> None:
    """As of a whole table, whichever way cells are coded."""
    typos = [(f"w{w}", f"t{w}", "typo") for w in range(3) if (f"w{w}", f"t{w}") in PAIRS]
    rows = [*typos, *CAMPAIGN, *[("v ", "t1", "x")] * spaced]
    asked = {"classes": classes, "duplicates": "last"}
    shards = shards_of(tmp_path, rows, **asked)
    found = read_labels(tmp_path / "labels.parquet", known_tasks=None, **asked)
    whole = join_shards([load_shard(shards, n) for n in range(len(shards.paths))], found)
    assert shards.names("label").tolist() == found.classes.tolist()
    for name in ("worker", "task", "label"):
        assert np.array_equal(getattr(whole, name), getattr(found, name))
    assert shards.n_classes == open_shards(shards.folder).n_classes == 3


def test_a_class_of_kept_rows_that_is_not_declared_is_refused(tmp_path: Path) -> None:
    rows = [*CAMPAIGN, ("v", "t1", "typo")]
    with pytest.raises(TableError, match="column label: 'typo' is not among the classes"):
        shards_of(tmp_path, rows, classes=("x", "y", "z"), duplicates="first")
    assert not (tmp_path / "shards").exists()


def test_too_many_classes_are_refused_in_a_sentence(tmp_path: Path) -> None:
    rows = [(f"w{n % 2}", f"t{n // 2}", f"class {n}") for n in range(40_000)]
    with pytest.raises(TableError, match="at most 32767 classes, got 40000: is label the right"):
        shards_of(tmp_path, rows, shard_labels=50_000)


@pytest.mark.parametrize("spaced", [False, True])
def test_a_name_with_a_nul_byte_is_refused_in_the_same_words(tmp_path: Path, spaced: bool) -> None:
    rows = [*CAMPAIGN, ("w1\0", "t99", "x"), *[("v ", "t1", "x")] * spaced]
    said, expected = refusals(tmp_path, rows)
    assert said == expected
    assert "column worker: a name must not hold a NUL byte, where it would end" in said


def test_a_folder_named_as_a_column_is_none_of_its_files(tmp_path: Path) -> None:
    """DuckDB would take `label=x` for a column of every row."""
    (tmp_path / "label=x").mkdir()
    shards = shards_of(tmp_path / "label=x", [*CAMPAIGN, ("v ", "t1", "x")])
    assert shards.names("label").tolist() == ["x", "y", "z"]


def test_a_column_named_as_the_number_of_rows_is_refused(tmp_path: Path) -> None:
    names = {"worker": ["a"], "task": ["t"], "label": ["x"], "file_row_number": [7]}
    pq.write_table(pa.table(names), tmp_path / "labels.parquet")
    with pytest.raises(TableError, match="must not have a column file_row_number: .* rename it"):
        write_shards(
            tmp_path / "labels.parquet", tmp_path / "shards", shard_labels=9, memory_gb=0.2, classes=None,
            duplicates="error",
        )  # fmt: skip


def test_text_that_is_not_utf8_is_refused_in_a_sentence(tmp_path: Path) -> None:
    raw = pa.array([b"w\xff", b"v"], type=pa.binary()).view(pa.string())
    table = pa.table({"worker": raw, "task": ["s", "t"], "label": ["x", "y"]})
    pq.write_table(table, tmp_path / "labels.parquet")
    with pytest.raises(TableError, match=r"^labels.parquet: not a readable table"):
        write_shards(
            tmp_path / "labels.parquet", tmp_path / "shards", shard_labels=9, memory_gb=0.2, classes=None,
            duplicates="error",
        )  # fmt: skip


def test_what_is_no_label_table_is_refused(tmp_path: Path) -> None:
    asked = {"shard_labels": 5, "memory_gb": 0.2, "classes": None, "duplicates": "error"}
    lacking = table_of(tmp_path / "a.parquet", [("a", "t")], ("worker", "task"))
    empty = table_of(tmp_path / "b.parquet", [])
    (tmp_path / "c.parquet").write_text("torn")
    (tmp_path / "d.csv").write_text("worker,task,label\n")
    for path, words in (
        (lacking, "a.parquet must have the columns worker, task, label; missing: label"),
        (empty, "b.parquet has no rows below its header"),
        (tmp_path / "c.parquet", "c.parquet: not a readable table"),
        (tmp_path / "d.csv", "d.csv must be Parquet to be read in shards"),
        (tmp_path / "e.parquet", "does not exist; mend the path in the settings"),
    ):
        with pytest.raises(TableError, match=words):
            write_shards(path, tmp_path / "shards", **asked)
        assert not (tmp_path / "shards").exists()


def test_a_cap_too_low_for_a_table_is_refused_in_a_sentence_and_leaves_nothing(
    tmp_path: Path,
) -> None:
    table = table_of(
        tmp_path / "a.parquet", [(" w", f"{task:09d}", "x") for task in range(200_000)]
    )
    asked: dict[str, Any] = {"classes": None, "duplicates": "error", "shard_labels": 10**6}
    with pytest.raises(TableError, match=r"engine\.memory_gb = 0\.002 and need more"):
        write_shards(table, tmp_path / "shards", memory_gb=0.002, **asked)
    assert not (tmp_path / "shards").exists()
