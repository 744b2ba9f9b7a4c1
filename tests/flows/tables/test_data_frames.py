"""Users' data frames in, results' tables out: pandas, Arrow, whatever speaks Arrow's stream, and Polars."""

from __future__ import annotations

import sys
from typing import Any
from unittest.mock import Mock

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from flows.tables import ResultTable, TableError, frame_table, plain_table, result_table
from quality import (
    CrowdLabels,
    crowd_bradley_terry,
    dawid_skene,
    encode,
    encode_comparisons,
    filter_dishonest,
    pair_kappas,
    task_report,
    worker_report,
)

NAMES = {"worker": "who", "task": "task", "label": "label"}
COLUMNS = {"who": ["ann", "bob", "ann"], "task": [7, 7, 9], "label": ["cat", "dog", "cat"]}
WANTED = {"worker": ["ann", "bob", "ann"], "task": [7, 7, 9], "label": ["cat", "dog", "cat"]}


class Streaming:
    """A table of some other library: all that is known of it is Arrow's C stream."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return pa.table(COLUMNS).__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize(
    "frame",
    [
        COLUMNS,
        pd.DataFrame(COLUMNS),
        pd.DataFrame(COLUMNS).astype({"label": "category"}),
        pd.DataFrame(COLUMNS).astype({"task": float}),
        pa.table(COLUMNS),
        pa.table(COLUMNS).to_pylist(),
        Streaming(),
    ],
    ids=["columns", "pandas", "categories", "whole floats", "Arrow", "rows", "a stream"],
)
def test_a_users_table_is_read_with_our_names_whatever_made_it(frame: Any) -> None:
    assert plain_table(frame_table(frame, NAMES, what="labels")).to_pydict() == WANTED


def test_a_polars_frame_goes_in_and_comes_out() -> None:
    polars = pytest.importorskip("polars", reason="Polars is optional")
    table = frame_table(polars.DataFrame(COLUMNS), NAMES, what="labels")
    assert table.to_pydict() == WANTED
    assert ResultTable(table).to_polars().to_dict(as_series=False) == WANTED


def test_polars_categories_are_texts() -> None:
    """Arrow does not pick views of texts by their places, and the message asked for columns of text."""
    views = pa.array(["cat", "dog"]).cast(pa.string_view())
    codes = pa.DictionaryArray.from_arrays(pa.array([0, 1, None], pa.uint32()), views)
    frame = pa.table(COLUMNS | {"label": codes})
    table = plain_table(frame_table(frame, NAMES, what="labels"))
    assert table["label"].to_pylist() == ["cat", "dog", None]


@pytest.mark.parametrize("of", [pd.DataFrame, dict, pa.table], ids=["pandas", "columns", "Arrow"])
def test_periods_and_intervals_of_pandas_are_named_by_their_texts(of: Any) -> None:
    """A month was the number of months since 1970, and a missing one too."""
    months = pd.Series(pd.PeriodIndex(["2026-01", None, "2026-02"], freq="M"))
    given = {"who": months, "task": pd.IntervalIndex.from_breaks(range(4))}
    given["label"] = months.astype("category")
    frame = pd.DataFrame(given)
    assert plain_table(frame_table(of(frame), NAMES, what="labels")).to_pydict() == {
        "worker": ["2026-01", None, "2026-02"],
        "task": ["(0, 1]", "(1, 2]", "(2, 3]"],
        "label": ["2026-01", None, "2026-02"],
    }


@pytest.mark.parametrize("of", [pd.DataFrame, dict, pa.table], ids=["pandas", "columns", "Arrow"])
def test_what_pandas_cut_makes_is_named_by_its_texts(of: Any) -> None:
    """Arrow does not cast categories that are intervals, which ended in its own traceback."""
    cut = pd.cut([1.0, np.nan, 5.0], [0, 2, 6])
    frame = pd.DataFrame(COLUMNS | {"label": cut})
    table = plain_table(frame_table(of(frame), NAMES, what="labels"))
    assert table["label"].to_pylist() == ["(0, 2]", None, "(2, 6]"]


def test_nothing_and_no_number_are_missing_values() -> None:
    frame = pd.DataFrame({"who": ["ann", None], "task": [7.0, np.nan], "label": ["cat", "dog"]})
    table = plain_table(frame_table(frame, NAMES, what="labels"))
    assert table.to_pydict()["worker"] == ["ann", None]
    assert table.to_pydict()["task"] == [7, None]


@pytest.mark.parametrize("values", [[0.5, 1.0], [np.inf, 1.0], [1e300, 1.0]])
def test_numbers_that_are_not_whole_stay_as_they_are(values: list[float]) -> None:
    assert plain_table(pa.table({"x": values})).to_pydict() == {"x": values}


def test_numbers_of_sixteen_bits_are_numbers() -> None:
    """Arrow does not round them, and said so in words of its own."""
    table = pa.table({"task": np.array([7, 12], dtype=np.float16)})
    assert plain_table(table).to_pydict() == {"task": [7, 12]}


@pytest.mark.parametrize(
    ("frame", "sentence"),
    [
        (pd.DataFrame({"worker": ["ann"], "task": [1]}), "one column 'who', it has worker, task"),
        ({}, "one column 'who', it has none"),
        (3, "must be a path, a data frame .* got int"),
        (Mock(spec=["collect"]), "got Mock; pass what its collect\\(\\) returns"),
        ([1, 2], "list of rows that are mappings, got list of int"),
        ([], "list of rows that are mappings, got a list without rows"),
        ([("ann", "7", "cat")], "list of rows that are mappings, got list of tuple"),
        (pd.DataFrame(COLUMNS | {"label": ["cat", 3, "dog"]}), ", column label: .* of one type"),
        (
            pd.DataFrame(COLUMNS | {"label": pd.arrays.SparseArray([1, 0, 1])}),
            ", column label: .* convert the others",
        ),
        (pd.concat([pd.DataFrame(COLUMNS)] * 2, axis=1), "different names, and .* called 'who'"),
        (pa.table([[1], [2], [3]], names=["who", "x", "x"]), "different names, and .* called 'x'"),
        (COLUMNS | {"task": [2**70, 1, 2]}, ", column task: .* of at most 64 bits"),
        (COLUMNS | {"task": [1]}, ": columns must be of one length"),
        (COLUMNS | {"label": ["\ud800", "a", "b"]}, "Unicode without lone surrogates"),
    ],
    ids=[
        "no such column",
        "nothing",
        "a number",
        "a lazy frame",
        "numbers",
        "no rows",
        "rows that are tuples",
        "mixed",
        "sparse",
        "pandas' names",
        "names",
        "huge",
        "ragged",
        "surrogates",
    ],
)
def test_what_is_no_table_of_these_columns_is_refused(frame: Any, sentence: str) -> None:
    told = f"labels{sentence}" if sentence[0] in ",:" else f"labels.*{sentence}"
    with pytest.raises(TableError, match=told) as caught:
        frame_table(frame, NAMES, what="labels")
    assert "cat" not in str(caught.value)  # a value of the user's


def test_a_result_is_read_by_whatever_reads_arrows_stream() -> None:
    """The name stands for the guarantee of `ResultTable`: no pandas on the way."""
    table = ResultTable(pa.table({"share": [0.25, 0.75]}), "shares")
    assert pa.table(table).equals(table.to_arrow())
    with duckdb.connect() as connection:
        connection.register("shares", pa.RecordBatchReader.from_stream(table))
        assert connection.execute("SELECT sum(share) FROM shares").fetchall() == [(1.0,)]
    assert table.to_frame().equals(table.to_pandas())


@pytest.mark.parametrize("library", ["polars", "pandas"])
def test_a_library_that_is_missing_is_named_with_what_to_do(
    library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    table = ResultTable(pa.table({"share": [0.5]}))
    with pytest.raises(ImportError, match=rf"{library} is not installed: pip install .*to_arrow"):
        getattr(table, f"to_{library}")()


def test_what_a_notebook_shows_is_escaped_and_short() -> None:
    table = ResultTable(pa.table({"<b>": ["<script>alert(1)</script>" + "x" * 99] * 30}), "<i>")
    html = table._repr_html_()
    assert "<script>" not in html
    assert "<b>" not in html
    assert "<i>" not in html
    assert html.count("<tr>") == 21
    assert "and 10 more rows" in html
    assert len(html) < 4000


@pytest.fixture(scope="module")
def labels() -> CrowdLabels:
    return encode(["ann", "bob", "cy"] * 4, np.repeat([1, 2, 3, 4], 3), list("xxyyyyxxyyyx"))


def test_a_result_has_a_row_per_task_with_names_and_a_column_per_class(labels: CrowdLabels) -> None:
    found = dawid_skene(labels)
    frame = result_table(found, labels).to_pandas()
    assert frame["task"].tolist() == [1, 2, 3, 4]
    assert frame["label"].tolist() == ["x", "y", "x", "y"]
    assert np.array_equal(frame[["posterior x", "posterior y"]], found.posterior)


def test_a_result_of_workers_has_their_names_and_their_whole_confusion(labels: CrowdLabels) -> None:
    found = dawid_skene(labels)
    frame = result_table(found, labels, "workers").to_pandas()
    assert frame["worker"].tolist() == ["ann", "bob", "cy"]
    assert np.array_equal(frame["confusion x y"], found.confusion[:, 0, 1])
    assert result_table(found, labels, "classes").to_pandas()["class"].tolist() == ["x", "y"]


def test_reports_are_tables_of_their_own_axis(labels: CrowdLabels) -> None:
    posterior = dawid_skene(labels).posterior
    filtered = filter_dishonest(labels, rng=np.random.default_rng(0))
    workers = result_table(worker_report(labels, filtered, posterior), labels)
    assert workers.columns[:2] == ("worker", "n_labels")
    tasks = result_table(task_report(labels, posterior), labels)
    assert len(set(tasks.columns)) == len(tasks.columns)
    assert "tasks" not in tasks.columns


def test_an_axis_that_the_result_lacks_is_refused(labels: CrowdLabels) -> None:
    with pytest.raises(ValueError, match=r"axis must be .*classes, tasks, workers.*'groups'"):
        result_table(dawid_skene(labels), labels, "groups")
    with pytest.raises(ValueError, match="a result of quality, got int"):
        result_table(3, labels)


def test_a_ranking_is_a_table_of_its_items_or_of_its_workers(labels: CrowdLabels) -> None:
    compared = encode_comparisons(list("aab"), list("xyx"), list("yzz"), list("xzx"))
    found = crowd_bradley_terry(compared)
    items = result_table(found, compared).to_pandas()
    assert items["item"].tolist() == ["x", "y", "z"]
    assert np.array_equal(items["score"], found.score)
    workers = result_table(found, compared, "workers").to_pandas()
    assert workers["worker"].tolist() == ["a", "b"]
    assert np.array_equal(workers["tie"], found.tie)
    with pytest.raises(
        ValueError, match=r"labels must be the table .* its 3 items, got CrowdLabels"
    ):
        result_table(found, labels)


def test_a_result_without_rows_is_refused(labels: CrowdLabels) -> None:
    with pytest.raises(ValueError, match="which PairKappas has not; read its fields"):
        result_table(pair_kappas(labels), labels)


def test_a_key_of_later_rows_is_a_column_too() -> None:
    """Rows without it have a missing cell."""
    rows = [{"worker": "ann"}, {"worker": "judge", "kind": "model"}, {"seconds": 2, "worker": "bo"}]
    table = frame_table(rows, {}, what="labels")
    assert table.to_pydict() == {
        "worker": ["ann", "judge", "bo"], "kind": [None, "model", None], "seconds": [None, None, 2],
    }  # fmt: skip
