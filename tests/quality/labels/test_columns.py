"""Columns: those of NumPy, pandas and Arrow are coded or refused as their lists are."""

from collections.abc import Callable
from unittest.mock import patch

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quality import LabelError, encode
from quality.labels import columns
from quality.labels.columns import code_integers
from quality.labels.texts import text_array
from tests.quality.labels.test_table import rows_of

QUICK = settings(max_examples=60, deadline=None, derandomize=True)
NAMES = st.lists(
    st.one_of(st.text(alphabet="aé𝄞 Z1", max_size=3), st.none(), st.just(float("nan")), st.just(1)),
    min_size=1,
    max_size=8,
)


@pytest.mark.parametrize(
    "made", [list, pd.Series, lambda names: pd.Series(names, dtype="category")]
)
@pytest.mark.parametrize("column", ["worker", "task", "label", "classes"])
def test_a_name_that_ends_with_a_nul_is_refused_as_it_would_be_another(
    made: Callable[[list[str]], object], column: str
) -> None:
    """NumPy drops the NULs at the end of a text: "ann" and "ann\\0" would be two codes of one name."""
    rows = {"worker": ["a", "b", "c"], "task": ["t"] * 3, "label": ["x", "y", "x"]}
    if column == "classes":
        with pytest.raises(LabelError, match=r"classes ends with a NUL character at row 1"):
            encode(**rows, classes=["x", "x\0"])
        return
    rows[column] = made(["ann", "bob", "ann\0"])
    with pytest.raises(LabelError, match=rf"{column} ends with a NUL character at row 2 \(counted"):
        encode(**rows)


def test_many_names_of_arrow_are_refused_for_a_nul_at_the_end_alone() -> None:
    names = [f"w{i}" for i in range(columns.MANY)]
    rest = [0] * len(names), ["x"] * len(names)
    assert encode(pa.array([*names[:-1], "w\0w"]), *rest).n_workers == len(names)
    with pytest.raises(
        LabelError, match=f"worker ends with a NUL character at row {len(names) - 1} "
    ):
        encode(pa.array([*names[:-1], "w0\0"]), *rest)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(NAMES, st.sampled_from(["object", "category", "str", "string", "index"]))
def test_a_pandas_column_is_coded_or_refused_as_its_list_is(names: list[object], kind: str) -> None:
    if kind in ("str", "string"):
        names = [name if isinstance(name, str) else None for name in names]
    if kind == "category" and any(name == 1 for name in names):
        names = [str(name) if name == 1 else name for name in names]
    made = pd.Index(names, dtype=object) if kind == "index" else pd.Series(names, dtype=kind)
    rows = list(range(len(names)))
    assert outcome(names, rows) == outcome(made, rows)


ARROW = {
    "string": lambda names: pa.array(names, pa.string()),
    "sliced": lambda names: pa.array(["other", *names, None], pa.large_string())[1:-1],
    "chunked": lambda names: pa.chunked_array(
        [names[:1], [], names[1:]], pa.string() if len(names) % 2 else pa.large_string()
    ),
    "view": lambda names: pa.array(names, pa.string_view()),
    "pandas": lambda names: pd.Series(names, dtype=pd.StringDtype("pyarrow")),
    "pandas' Arrow": lambda names: pd.Series(names, dtype=pd.ArrowDtype(pa.string())),
    "index": lambda names: pd.Index(names, dtype=pd.StringDtype("pyarrow")),
}


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    st.lists(
        st.one_of(st.text(alphabet="aé𝄞Z1~", min_size=1, max_size=3), st.sampled_from([" ", None])),
        min_size=1,
        max_size=8,
    ),
    st.sampled_from(sorted(ARROW)),
    st.booleans(),
)
def test_a_column_held_by_arrow_is_coded_or_refused_as_its_list_is(
    names: list[str | None], kind: str, many: bool
) -> None:
    rows = list(range(len(names)))
    with patch.object(columns, "MANY", 1 if many else columns.MANY):
        assert outcome(names, rows) == outcome(ARROW[kind](names), rows)


@QUICK
@given(st.lists(st.text(alphabet="aé𝄞 Z", max_size=3), min_size=1, max_size=8), st.booleans())
def test_an_array_of_text_is_coded_or_refused_as_its_list_is(names: list[str], swap: bool) -> None:
    array = np.array(names)
    made = array.astype(array.dtype.newbyteorder()) if swap else array[::1]
    rows = list(range(len(names)))
    assert outcome(names, rows) == outcome(made, rows)


def test_many_names_in_an_array_are_coded_as_a_sort_codes_them() -> None:
    """More names than the first hash table holds: it grows four times."""
    rng = np.random.default_rng(0)
    names = rng.permutation(np.arange(300_000) % 100_003).astype(np.str_)
    labels = encode(np.arange(300_000), names, np.zeros(300_000, dtype=int))
    tasks, code = np.unique(names, return_inverse=True)
    assert np.array_equal(tasks, labels.tasks)
    assert np.array_equal(np.bincount(code), np.diff(labels.task_start))
    assert np.array_equal(code[labels.worker], labels.task)


def outcome(tasks: object, workers: list[int]) -> object:
    """The rows by name, or what the refusal says."""
    try:
        return rows_of(encode(workers, tasks, ["a"] * len(workers)))  # type: ignore[arg-type]
    except LabelError as error:
        return str(error), error.column, error.row


@pytest.mark.parametrize("unit", ["D", "s", "us", "ns"])
@pytest.mark.parametrize("kind", ["datetime64", "timedelta64"])
def test_times_are_no_names_in_any_unit(kind: str, unit: str) -> None:
    """Those in nanoseconds become whole numbers as objects of Python, the others do not."""
    column = np.array([1, 2]).astype(f"{kind}[{unit}]")
    with pytest.raises(LabelError, match="task must be all text or all numbers of one type"):
        encode(["ann", "bob"], column, ["yes", "no"])
    column[1] = "NaT"
    with pytest.raises(LabelError, match="task is missing at row 1"):
        encode(["ann", "bob"], column, ["yes", "no"])


@pytest.mark.parametrize("names", [[-1, 2**63, 2**63 + 1], [0, 2**64]])
def test_integers_that_no_kind_of_64_bits_holds_are_refused(names: list[int]) -> None:
    """As doubles two of them could be one."""
    with pytest.raises(LabelError, match=f"task must be integers of 64 bits.+ got {names[0]} to"):
        encode(list("abc")[: len(names)], names, list("xyx")[: len(names)])
    many = [2**63, 2**64 - 1]
    assert encode(["a", "b"], many, ["x", "y"]).tasks.tolist() == many


def test_a_category_that_no_row_has_is_no_name() -> None:
    column = pd.Series(["t1", "t1"], dtype=pd.CategoricalDtype(["t9", "t1"]))
    assert encode(["ann", "bob"], column, ["yes", "no"]).tasks.tolist() == ["t1"]


@QUICK
@given(
    st.lists(st.integers(-(2**63), 2**63 - 1), max_size=30),
    st.lists(st.integers(-20, 20), min_size=1, max_size=30),
    st.booleans(),
)
def test_integers_are_coded_by_their_text(far: list[int], near: list[int], both: bool) -> None:
    values = near + far if both else near
    column = np.array(values, dtype=np.int64)
    code, found = code_integers([column[:2], column[2:]], len(column))
    names, expected = np.unique([str(value) for value in values], return_inverse=True)
    assert text_array(found).tolist() == names.tolist()
    assert code.tolist() == expected.tolist()
