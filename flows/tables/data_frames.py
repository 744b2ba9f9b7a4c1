"""Data frames: those that users hand over, and those that they get back.

>>> table = ResultTable(arrow_table({"task": ["t1", "t2"], "share": np.array([0.5, 1.0])}), "consensus")
>>> table
ResultTable(consensus: 2 rows, 2 columns)
>>> table.to_pandas()["share"].tolist()
[0.5, 1.0]

Anything that speaks Arrow's C stream is taken and given: pandas, Polars, Arrow, DuckDB. Of these only
Arrow is loaded here; pandas and Polars are loaded when a table is asked for as one of theirs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from html import escape
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias, get_args, get_type_hints

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flows.tables.arrow import arrow_table
from flows.tables.refusals import TableError

if TYPE_CHECKING:
    from quality import Comparisons, CrowdLabels

__all__ = ["Frame", "ResultTable", "frame_table", "plain_table", "result_table", "typed_like"]

Frame: TypeAlias = Any
"""A table of a user: pandas, Polars, Arrow, a mapping of columns, or a list of rows that are mappings."""

SHOWN_ROWS = 20  # in a notebook
SHOWN_LETTERS = 60
AXES = ("tasks", "items", "workers", "classes", "labels", "groups")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ResultTable:
    """A table of a result, in the shape that the caller's tools want.

    Parameters
    ----------
    arrow
        The table itself.
    title
        What it is of.

    Notes
    -----
    **Guarantees.** Whatever reads Arrow's C stream (``polars.DataFrame(table)``, ``pyarrow.table(table)``,
    a DuckDB query) reads it without pandas. What a notebook shows of it is escaped.

    Examples
    --------
    >>> table = ResultTable(arrow_table({"worker": ["ann"], "agreement": np.array([0.9])}), "workers")
    >>> table.columns, len(table)
    (('worker', 'agreement'), 1)
    >>> table.to_arrow().to_pylist()
    [{'worker': 'ann', 'agreement': 0.9}]
    """

    arrow: pa.Table
    title: str = "table"

    def __repr__(self) -> str:
        return f"ResultTable({self.title}: {len(self):,} rows, {len(self.columns)} columns)"

    def __len__(self) -> int:
        return int(self.arrow.num_rows)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.arrow.__arrow_c_stream__(requested_schema)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(self.arrow.column_names)

    def to_arrow(self) -> pa.Table:
        """Return the table as Arrow holds it."""
        return self.arrow

    def to_pandas(self) -> Any:
        """Return the table as a pandas data frame; ImportError says what to install where it is missing."""
        _module("pandas", "crowdassay")
        return self.arrow.to_pandas()

    def to_frame(self) -> Any:
        """Return the same as `to_pandas`, by the name that a pandas series has for it."""
        return self.to_pandas()

    def to_polars(self) -> Any:
        """Return the table as a Polars data frame; ImportError says what to install where it is missing."""
        return _module("polars", "polars").from_arrow(self.arrow)

    def _repr_html_(self) -> str:
        """Show the first rows in a notebook."""
        head = "".join(f"<th>{escape(name)}</th>" for name in self.columns)
        rows = self.arrow.slice(0, SHOWN_ROWS).to_pylist()
        body = "".join(
            "<tr>" + "".join(f"<td>{_shown(value)}</td>" for value in row.values()) + "</tr>"
            for row in rows
        )
        more = len(self) - len(rows)
        foot = f"<p>and {more:,} more rows</p>" if more else ""
        title = f"<caption>{escape(self.title)}</caption>"
        return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{foot}"


def frame_table(frame: Frame, names: Mapping[str, str], *, what: str) -> pa.Table:
    """Return a data frame as an Arrow table whose columns have our names and the types they came with.

    Parameters
    ----------
    frame
        A data frame of pandas or Polars, an Arrow table, anything else that speaks Arrow's C stream, a
        mapping of columns, or a list of rows that are mappings.
    names
        For each of our columns, what `frame` calls it; its other columns keep their names.
    what
        What the table is, for error messages.

    Raises
    ------
    TableError
        If it is no table, a column is missing, two columns have one name, or a column mixes types.

    Examples
    --------
    >>> frame_table({"annotator": ["ann"], "task": [7]}, {"worker": "annotator"}, what="labels")
    pyarrow.Table
    worker: string
    task: int64
    ----
    worker: [["ann"]]
    task: [[7]]
    """
    columns = getattr(frame, "columns", ())
    if hasattr(columns, "duplicated"):  # pandas, whose words for it are no sentence
        _refuse_same_names(columns, what)
    try:
        table = _as_arrow(frame)
    except UnicodeEncodeError:
        raise TableError(
            f"{what}: every text must be Unicode without lone surrogates; decode it again"
        ) from None
    except (pa.ArrowException, OverflowError, TypeError):
        fault = _faulty_column(frame)
        where, told = (
            (f", column {fault}", "values must be")
            if fault
            else ("", "columns must be of one length, and each must hold values")
        )
        raise TableError(
            f"{what}{where}: {told} of one type, all text or all numbers of at most 64 bits; convert the "
            f"others first, as in frame.astype({{{fault or 'label'!r}: str}})"
        ) from None
    if table is None:
        lazy = "; pass what its collect() returns" if hasattr(frame, "collect") else ""
        raise TableError(
            f"{what} must be a path, a data frame of pandas or Polars, an Arrow table, a mapping of "
            f"columns or a list of rows that are mappings, got {_given(frame)}{lazy}"
        )
    table = _with_periods_named(table)
    _refuse_same_names(table.column_names, what)
    found = list(map(str, table.column_names))
    for ours, theirs in names.items():
        if found.count(theirs) != 1:
            raise TableError(
                f"{what} must have one column {theirs!r}, it has {', '.join(found[:8]) or 'none'}; "
                f"rename one, or pass {ours}= the name that it has"
            )
    own = {theirs: name for name, theirs in names.items()}
    kept = [name for name in found if name in own or name not in names]
    return pa.table({own.get(name, name): table.column(name) for name in kept})


def _faulty_column(frame: Frame) -> str:
    """Return the name of the first column that Arrow does not hold; empty if each by itself is one."""
    columns = frame if hasattr(frame, "keys") else {}  # a mapping, or a data frame of pandas
    for name in columns:
        try:
            pa.array(columns[name])
        except (pa.ArrowException, OverflowError, TypeError):
            return str(name)
    return ""


def _given(frame: object) -> str:
    """Name the type of what was given, and of its rows where it is a list."""
    kind = type(frame).__name__
    if not isinstance(frame, list):
        return kind
    return f"{kind} of {type(frame[0]).__name__}" if frame else "a list without rows"


def plain_table(table: pa.Table) -> pa.Table:
    """Return a table as a run reads it: whole numbers without a point, NaN as missing, no dictionaries.

    Examples
    --------
    >>> plain_table(pa.table({"task": [7.0, 12.0], "x": [0.5, float("nan")]})).to_pydict()
    {'task': [7, 12], 'x': [0.5, None]}
    """
    return pa.table({name: _plain(table.column(name)) for name in table.column_names})


def typed_like(names: pa.ChunkedArray, source: pa.DataType) -> pa.ChunkedArray:
    """Return names, which a run reads as text, in the type that the caller's column had.

    They stay text where one is no value of that type, as a declared class may be.

    Examples
    --------
    >>> typed_like(pa.chunked_array([["7", "12"]]), pa.int64()).to_pylist()
    [7, 12]
    >>> typed_like(pa.chunked_array([["7", "none"]]), pa.int64()).to_pylist()
    ['7', 'none']
    """
    if pa.types.is_dictionary(source):
        source = source.value_type
    text = pa.types.is_string(source) or pa.types.is_large_string(source)
    if text or not (pa.types.is_primitive(source) or pa.types.is_decimal(source)):
        return names
    try:
        if pa.types.is_duration(source):  # read as a number of microseconds
            return names.cast(pa.int64()).cast(pa.duration("us")).cast(source)
        return names.cast(source)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return names


def result_table(
    result: Any, labels: CrowdLabels | Comparisons, axis: str | None = None
) -> ResultTable:
    """Return a result of `quality` as a table with names: one row per task, item, worker or class.

    Parameters
    ----------
    result
        A frozen result, such as that of :func:`quality.dawid_skene` or :func:`quality.worker_report`.
    labels
        The labels, or the comparisons, that it is of, whose names the table has.
    axis
        What a row is: "tasks", "items", "workers", "classes", "labels" or "groups"; by default the
        first of them that an array of the result has as its first dimension.

    Raises
    ------
    ValueError
        If the result has no array of that axis, or `labels` no names for it.

    Notes
    -----
    The shapes in the result's annotations say which of its arrays belong to a row. An array with a
    value per class has a column per class; consensus labels are written out.

    Examples
    --------
    >>> from quality import encode, majority_vote
    >>> labels = encode(["ann", "bob", "cy"], [7, 7, 7], ["x", "x", "y"])
    >>> result_table(majority_vote(labels), labels).columns
    ('task', 'posterior x', 'posterior y', 'label', 'tied')
    """
    if not is_dataclass(result) or isinstance(result, type):
        raise ValueError(f"result must be a result of quality, got {type(result).__name__}")
    arrays = dict(_shaped_arrays(result))
    first = [dims[0] for dims, _ in arrays.values()]
    if not set(first) & set(AXES):
        raise ValueError(
            f"result must have an array with a row per task, item, worker or class, which "
            f"{type(result).__name__} has not; read its fields"
        )
    if axis is None:
        axis = next((name for name in AXES if name in first), None)
    if axis not in AXES or axis not in first:
        known = ", ".join(sorted(set(first) & set(AXES)))
        raise ValueError(f"axis must be one that the result has ({known}), got axis={axis!r}")
    chosen = {name: array for name, (dims, array) in arrays.items() if dims[0] == axis}
    columns = _names(axis, labels, len(next(iter(chosen.values()))))
    for name in sorted(chosen.keys() - {axis}, key=list(chosen).index):
        columns |= _columns(name, chosen[name], labels)
    return ResultTable(arrow_table(columns), f"{type(result).__name__}, {axis}")


def _shaped_arrays(result: Any) -> Iterator[tuple[str, tuple[tuple[str, ...], np.ndarray]]]:
    """Yield the arrays of a result that its annotations give a shape, each with its dimensions."""
    hints = get_type_hints(type(result))
    for one in fields(result):
        value = getattr(result, one.name)
        kinds = [hints[one.name], *get_args(hints[one.name])]
        shapes = [kind.dim_str.split() for kind in kinds if hasattr(kind, "dim_str")]
        if isinstance(value, np.ndarray) and shapes and len(shapes[0]) == value.ndim > 0:
            yield one.name, (tuple(shapes[0]), value)


def _names(axis: str, labels: Any, n_rows: int) -> dict[str, Any]:
    """Return the columns that name the rows of an axis."""
    if axis == "labels":
        coded = {"worker": labels.workers[labels.worker], "task": labels.tasks[labels.task]}
        return {name: _text(column) for name, column in coded.items()}
    if axis == "groups":
        return {"group": np.arange(n_rows)}
    if len(getattr(labels, axis, ())) != n_rows:
        raise ValueError(
            f"labels must be the table that the result is of, with names of its {n_rows} {axis}, "
            f"got {type(labels).__name__}"
        )
    return {{"classes": "class"}.get(axis, axis.rstrip("s")): _text(getattr(labels, axis))}


def _columns(name: str, array: np.ndarray, labels: Any) -> dict[str, Any]:
    """Return the columns that an array with a row per row comes to."""
    classes = getattr(labels, "classes", np.empty(0))  # comparisons have none
    if array.ndim == 1:
        is_code = name == "label" and array.dtype.kind == "i"
        return {name: _text(classes[array]) if is_code else _text(array)}
    parts: list[str] = [""]
    for size in array.shape[1:]:
        steps = (
            [str(one) for one in classes]
            if size == len(classes)
            else [str(at) for at in range(size)]
        )
        parts = [f"{part} {step}" for part in parts for step in steps]
    cells = array.reshape(len(array), -1)
    return {f"{name}{part}": _text(cells[:, at]) for at, part in enumerate(parts)}


def _text(array: np.ndarray) -> np.ndarray:
    """Return names that are objects as text; numbers and truth values as they are."""
    return np.asarray(array) if array.dtype.kind in "biufU" else array.astype(np.str_)


def _refuse_same_names(names: Iterable[Any], what: str) -> None:
    """Raise TableError where two columns have one name, which Arrow would refuse in words of its own."""
    same = [name for name, n in Counter(map(str, names)).items() if n > 1]
    if same:
        raise TableError(
            f"{what} must have columns of different names, and several are called {same[0]!r}; rename or "
            "leave out all but one"
        )


def _as_arrow(frame: Frame) -> pa.Table | None:
    """Return a user's data frame as Arrow; None for what is no table."""
    if isinstance(frame, pa.Table):
        return frame
    if hasattr(frame, "__arrow_c_stream__"):
        return pa.table(frame)
    if isinstance(frame, Mapping):
        return pa.table({str(name): pa.array(column) for name, column in frame.items()})
    rows = isinstance(frame, Sequence) and not isinstance(frame, str | bytes)
    if rows and frame and all(isinstance(row, Mapping) for row in frame):
        # of all rows: Arrow's own reader takes the keys of the first
        names = dict.fromkeys(name for row in frame for name in row)
        return pa.table({str(name): pa.array([row.get(name) for row in frame]) for name in names})
    return None


def _with_periods_named(table: pa.Table) -> pa.Table:
    """Return a table with periods and intervals of pandas as texts: to Arrow they are numbers and pairs."""
    for at, field in enumerate(table.schema):
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        if isinstance(kind, pa.BaseExtensionType) and kind.extension_name.startswith("pandas."):
            chunks = [_texts_of_extension(chunk) for chunk in table.column(at).chunks]
            table = table.set_column(at, field.name, pa.chunked_array(chunks, pa.string()))
    return table


def _texts_of_extension(values: pa.Array) -> pa.Array:
    """Return values as pandas writes them; of categories, as `pandas.cut` makes them, each once."""
    if pa.types.is_dictionary(values.type):
        return _texts_of_extension(values.dictionary).take(values.indices)
    return pa.array(values.to_pandas().astype("string"), pa.string())


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column without Arrow's dictionary; NaN is a missing value."""
    if pa.types.is_dictionary(column.type):
        kind = column.type.value_type
        if pa.types.is_string_view(kind):  # of Polars, which Arrow cannot pick by place
            kind = pa.large_string()
            column = column.cast(pa.dictionary(column.type.index_type, kind))
        column = column.cast(kind)
    if pa.types.is_float16(column.type):  # which Arrow rounds to nothing
        column = column.cast(pa.float32())
    if pa.types.is_floating(column.type):
        column = pc.if_else(pc.is_nan(column), None, column)
        whole = pc.and_(pc.equal(column, pc.round(column)), pc.less(pc.abs(column), 2.0**53))
        return column.cast(pa.int64()) if pc.all(whole).as_py() else column
    return column


def _shown(value: Any) -> str:
    """Return a cell as it stands in a notebook."""
    text = f"{value:.4g}" if isinstance(value, float) else "" if value is None else str(value)
    return escape(text if len(text) <= SHOWN_LETTERS else f"{text[: SHOWN_LETTERS - 1]}…")


def _module(name: str, install: str) -> ModuleType:
    """Return a library that the caller asked for; ImportError says what to install."""
    try:
        return import_module(name)
    except ImportError:
        message = f"{name} is not installed: pip install {install}, or use to_arrow()"
        raise ImportError(message, name=name) from None
