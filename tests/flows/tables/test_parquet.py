"""The quick way of reading Parquet: what the slow way reads, or nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flows.tables import tables
from flows.tables.parquet import parquet_codes
from flows.tables.refusals import TableError
from flows.tables.tables import read_labels
from quality import CrowdLabels

CELL = st.one_of(
    st.text(alphabet="aé𝄞Z1", min_size=1, max_size=3),
    st.text(alphabet="ab \t\u00a0\u3000\x85\x1f\0", max_size=2),
    st.none(),
)
SOUND = st.text(alphabet="aé𝄞Z1\x7f'\"", min_size=1, max_size=12)
KINDS = {
    "string": pa.string(),
    "large": pa.large_string(),
    "view": pa.string_view(),
    "dictionary": pa.dictionary(pa.int16(), pa.string()),
}


def outcome(path: Path, **knobs: Any) -> object:
    """Every array of the table read, or what the refusal says."""
    asked = {"classes": None, "duplicates": "error", "known_tasks": None} | knobs
    try:
        labels = read_labels(path, **asked)
    except (TableError, ValueError) as error:
        return type(error), str(error)
    arrays = [getattr(labels, name) for name in CrowdLabels.__dataclass_fields__]
    return [(array.dtype, array.tolist()) for array in arrays]


def both_ways(path: Path, **knobs: Any) -> tuple[object, object]:
    quick = outcome(path, **knobs)
    with patch.object(tables, "parquet_codes", return_value=None):
        return quick, outcome(path, **knobs)


@settings(max_examples=120, deadline=None, derandomize=True)
@given(
    st.one_of(
        st.lists(st.tuples(SOUND, SOUND, SOUND), min_size=1, max_size=9),
        st.lists(st.tuples(SOUND, CELL, SOUND), min_size=1, max_size=9),
    ),
    st.sampled_from(sorted(KINDS)),
    st.integers(1, 9),
    st.sampled_from(["error", "first", "last"]),
    st.one_of(st.none(), st.just(("a", "Z", "é"))),
)
def test_the_quick_way_reads_and_refuses_as_the_slow_one(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[str, str | None, str]],
    kind: str,
    group: int,
    duplicates: str,
    classes: tuple[str, ...] | None,
) -> None:
    columns = zip(("worker", "task", "label"), zip(*rows, strict=True), strict=True)
    table = pa.table({name: pa.array(cells).cast(KINDS[kind]) for name, cells in columns})
    path = tmp_path_factory.mktemp("labels") / "l.parquet"
    pq.write_table(table, path, row_group_size=group)
    quick, slow = both_ways(path, duplicates=duplicates, classes=classes)
    assert quick == slow


@pytest.mark.parametrize("kind", [pa.int8(), pa.int64(), pa.uint32(), pa.uint64(), pa.float64()])
def test_numbers_are_read_as_the_slow_way_reads_them(tmp_path: Path, kind: pa.DataType) -> None:
    columns = {"worker": [3, 20, 100, 3], "task": [1, 1, 2, 12], "label": [0, 1, 0, 10]}
    table = pa.table({name: pa.array(cells, kind) for name, cells in columns.items()})
    pq.write_table(table, tmp_path / "l.parquet", row_group_size=3)
    quick, slow = both_ways(tmp_path / "l.parquet")
    assert quick == slow


def test_a_sound_file_is_read_quickly(tmp_path: Path) -> None:
    """20,000 rows in small row groups, each kind of text, a dictionary with names that do not occur."""
    rng = np.random.default_rng(0)
    task = [f"täsk-{value}" for value in rng.permutation(20_000)]
    unused = pa.DictionaryArray.from_arrays(rng.integers(1, 3, 20_000), ["yés", "no", "maybe"])
    columns = {"worker": rng.integers(-40, 40, 20_000), "label": unused}
    for name, kind in KINDS.items():
        path = tmp_path / f"{name}.parquet"
        pq.write_table(
            pa.table(
                columns
                | {
                    "task": pa.array(task).cast(kind)
                    if name != "dictionary"
                    else pa.array(task).dictionary_encode()
                }
            ),
            path,
            row_group_size=3_000,
        )
        coded = parquet_codes(path, ("worker", "task", "label"))
        assert coded is not None
        assert coded["task"].names[coded["task"].code].tolist() == task
        assert coded["label"].names.tolist() == ["maybe", "no"]
        quick, slow = both_ways(path)
        assert quick == slow


@pytest.mark.parametrize(
    "table",
    [
        pa.table({"worker": ["a"], "task": ["t"]}),
        pa.table({"worker": ["a"], "task": ["t"], "label": ["x"], "Label": ["y"]}),
        pa.table({name: pa.array([], pa.string()) for name in ("worker", "task", "label")}),
        pa.table({"worker": ["a"], "task": ["t"], "label": [b"x"]}),
        pa.table({"worker": ["a"], "task": ["t"], "label": [True]}),
        pa.table({"worker": ["a"], "task": ["t"], "label": pa.array([None], pa.int64())}),
        pa.table({"worker": ["a"], "task": ["t"], "label": [["x"]]}),
    ],
    ids=["missing", "alike", "empty", "bytes", "truth values", "null", "nested"],
)
def test_the_rest_is_left_to_the_slow_way(tmp_path: Path, table: pa.Table) -> None:
    pq.write_table(table, tmp_path / "l.parquet")
    assert parquet_codes(tmp_path / "l.parquet", ("worker", "task", "label")) is None
    quick, slow = both_ways(tmp_path / "l.parquet")
    assert quick == slow


@pytest.mark.parametrize("n_groups", [1, 3])
def test_rows_that_the_file_counts_wrongly_are_left_to_the_slow_way(
    tmp_path: Path, n_groups: int
) -> None:
    """A file of two groups gives one, or three."""
    table = pa.table({"worker": [1, 2], "task": ["t", "u"], "label": ["x", "y"]})
    pq.write_table(table, tmp_path / "l.parquet", row_group_size=1)
    whole = pq.ParquetFile.iter_batches

    def others(file: pq.ParquetFile, *asked: Any, **knobs: Any) -> Any:
        groups = [batch for _ in range(2) for batch in whole(file, 1, **knobs)]
        return iter(groups[:n_groups])

    with patch.object(pq.ParquetFile, "iter_batches", others):
        assert parquet_codes(tmp_path / "l.parquet", ("worker", "task", "label")) is None
    assert parquet_codes(tmp_path / "l.parquet", ("worker", "task", "label")) is not None


def test_what_is_no_parquet_is_left_to_the_slow_way(tmp_path: Path) -> None:
    (tmp_path / "l.parquet").write_text("worker,task,label\n")
    assert parquet_codes(tmp_path / "l.parquet", ("worker",)) is None
    assert parquet_codes(tmp_path / "none.parquet", ("worker",)) is None


def test_text_that_is_not_utf8_is_left_to_the_slow_way(tmp_path: Path) -> None:
    wrong = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(np.array([0, 1], np.int32)), pa.py_buffer(b"\xff")]
    )
    path = tmp_path / "l.parquet"
    pq.write_table(pa.table({"worker": ["a"], "task": ["t"], "label": wrong}), path)
    assert parquet_codes(path, ("worker", "task", "label")) is None
    quick, slow = both_ways(path)
    assert quick == slow
