"""Arrow arrays, tables and files without pandas are those that pyarrow makes with it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flows.simulate import write_campaign
from flows.tables import arrow as module
from flows.tables.arrow import (
    arrow_array,
    arrow_table,
    numpy_array,
    read_first,
    read_parquet,
    text_column,
)

NUMBERS = [
    np.arange(5, dtype=np.int16),
    np.arange(12, dtype=np.uint32)[::3],
    np.array([1.5, np.nan, -np.inf]),
    np.array([np.nan], dtype=np.float32),
    np.array([True, False, True] * 7),
    np.zeros(0),
    np.zeros(0, dtype=bool),
]
TEXTS = [["a", "", "long name"], ["é", "", "日本語", "a"], [""], []]


@pytest.mark.parametrize("values", NUMBERS, ids=lambda values: f"{values.dtype}-{values.size}")
def test_numbers_are_those_of_pyarrow_and_nan_is_null(values: np.ndarray) -> None:
    assert arrow_array(values).equals(pa.array(values, from_pandas=True))


@pytest.mark.parametrize("texts", TEXTS)
@pytest.mark.parametrize("piece", [1, 2, 1000])
def test_texts_are_those_of_pyarrow_however_they_are_cut(
    texts: list[str], piece: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TEXTS_AT_ONCE", piece)
    expected = pa.array(texts, pa.string())
    assert arrow_array(texts).equals(expected)
    assert arrow_array(np.array(texts, dtype=np.str_)).equals(expected)


@pytest.mark.parametrize(
    "texts", [["a", "", "long name"], ["é", "日本語", "a", "plain, and long"], ["x"]]
)
@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_a_column_in_pieces_is_one_array_as_wide_as_its_longest_text(
    texts: list[str], kind: pa.DataType, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = pa.array(texts, kind)
    for cut in range(len(texts) + 1):
        found = text_column(pa.chunked_array([whole[:cut], whole[cut:]]))
        assert found.dtype == np.array(texts).dtype
        assert found.tolist() == texts
    assert text_column(pa.chunked_array([["a", None]])).tolist() == ["a", "None"]
    monkeypatch.setattr(module, "DECODED", 2)  # at once
    pieces = [*texts, "ünï", "", "dd"], [], ["ffff"]
    found = text_column(pa.chunked_array([pa.array(piece, kind) for piece in pieces]))
    assert found.tolist() == [text for piece in pieces for text in piece]
    assert text_column(pa.chunked_array([], kind)).tolist() == []


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]))))
def test_texts_are_kept_letter_by_letter(texts: list[str]) -> None:
    array = np.array(texts, dtype=np.str_)
    assert arrow_array(array).to_pylist() == array.tolist()


def test_a_matrix_is_one_list_a_row() -> None:
    matrix = np.arange(6, dtype=np.int32).reshape(3, 2)
    assert arrow_array(matrix).equals(pa.array(matrix.tolist(), pa.list_(pa.int32())))


def test_what_is_arrows_already_stays() -> None:
    for column in (pa.array([1, None]), pa.chunked_array([[1], [2]])):
        assert arrow_array(column) is column


def test_other_columns_are_refused() -> None:
    with pytest.raises(TypeError, match="numbers, truth values or texts, got object"):
        arrow_array(np.array([1, "a"], dtype=object))
    for mixed in (["a", None], ["a", 1], [1.0]):
        with pytest.raises(TypeError, match="must hold texts, got"):
            arrow_array(mixed)


def test_numbers_come_back_from_chunks_and_slices() -> None:
    for values in (np.arange(7), np.linspace(0, 1, 7), np.arange(7) % 2 == 0):
        array = arrow_array(values)
        chunks = pa.chunked_array([array[:3], array[3:]])
        for column in (array, chunks):
            back = numpy_array(column)
            assert back.dtype == values.dtype
            assert back.tolist() == values.tolist()
        assert numpy_array(array[2:]).tolist() == values[2:].tolist()


def test_numbers_in_one_piece_are_not_copied() -> None:
    values = np.arange(7)
    assert np.shares_memory(values, numpy_array(arrow_array(values)))


def test_nulls_have_no_number() -> None:
    with pytest.raises(ValueError, match="every cell must hold a number, 2 are null"):
        numpy_array(pa.chunked_array([[1, None], [None]]))


def test_columns_of_a_file_come_in_the_order_they_are_asked_for(tmp_path: Path) -> None:
    table = arrow_table({"one": np.arange(3), "two": ["a", "b", "c"], "three": np.zeros(3)})
    pq.write_table(table, tmp_path / "table.parquet")
    assert read_parquet(tmp_path / "table.parquet").equals(table)
    assert read_parquet(tmp_path / "table.parquet", ("two", "one")).equals(
        table.select(["two", "one"])
    )


def test_first_rows_and_repeated_texts_are_those_of_the_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "table.parquet"
    table = arrow_table({"one": np.arange(7), "two": [*"abab", "", "ü", "a"]})
    pq.write_table(table, path, row_group_size=3)
    for n_rows in (1, 3, 5, 7, 20):
        assert read_first(path, n_rows).equals(table[:n_rows])
    found = read_parquet(path, repeated=["two"])
    assert pa.types.is_dictionary(found.schema.field("two").type)
    assert found.to_pylist() == table.to_pylist()
    pq.write_table(table[:0], path)
    assert read_first(path, 5).equals(table[:0])


RUN = """
import atexit, sys
heavy = {"pandas", "pyarrow.dataset", "scipy.stats", "sklearn"}
atexit.register(lambda: print("loaded:", *sorted(heavy & sys.modules.keys())))
sys.argv = ["crowdassay", "run", sys.argv[1], "--no-prefect"]
from flows.cli import main
main()
"""


def loaded_by_a_run(folder: Path) -> set[str]:
    """What is slow to load, of a run of all stages."""
    told = subprocess.run(
        [sys.executable, "-c", RUN, str(folder / "settings.toml")],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for stage in ("estimate ratios", "train privately", "ask holdout", "write report"):
        assert stage in told
    return set(told.splitlines()[-1].removeprefix("loaded:").split())


APART = '\n[consensus]\nfeatures = "ignore"\n'  # scikit-learn teaches the voice of features


def test_a_run_in_which_no_features_join_loads_neither_pandas_nor_scikit_learn(
    tmp_path: Path,
) -> None:
    """With class ratios, a model and the gate; what it saves: `python -m benchmarks.flows.startup`."""
    write_campaign(tmp_path, seed=20)
    path = tmp_path / "settings.toml"
    path.write_text(path.read_text(encoding="utf-8") + APART, encoding="utf-8")
    assert loaded_by_a_run(tmp_path) == set()


def test_a_run_with_an_engine_in_which_no_features_join_does_not_load_scikit_learn(
    tmp_path: Path,
) -> None:
    write_campaign(tmp_path, seed=20)
    settings = (tmp_path / "settings.toml").read_text()
    for table in ("labels", "tasks"):
        pq.write_table(csv.read_csv(tmp_path / f"{table}.csv"), tmp_path / f"{table}.parquet")
        settings = settings.replace(f"{table}.csv", f"{table}.parquet")
    settings = settings.replace("false_removal_rate = 0.1", "fraction = 0.15")
    (tmp_path / "settings.toml").write_text(f"{settings}{APART}[engine]\nshard_labels = 8000\n")
    assert not loaded_by_a_run(tmp_path) & {"scipy.stats", "sklearn"}
