"""Which columns of a task table are features, which are embeddings, and which say what a task is.

>>> columns = TaskColumns(features=("x*",), ignore=("x9",))
>>> columns.features_in(("task", "x1", "x2", "x9", "price"), apart=("task",), file="tasks.csv")
('x1', 'x2')

An embedding is a column of lists, `[0.1, 0.2, ...]`, or a matrix in a file `.npy` beside the tables. Each
of its numbers is a feature, named by its place.

`features_of` returns features as a matrix. `stream_features` yields them for tables that do not fit into
memory, and `feature_lengths` is the length of each row's. All refuse a cell that is not a finite number,
in the same words. `ColumnScale` is what standardizes them, found a batch of rows at a time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np
import pyarrow as pa
from jaxtyping import Float, Float64, Int

from flows.settings import InputSettings, TopicsSettings
from flows.tables.refusals import ROW, WHITE, TableError, number, quote
from flows.tables.text_table import Coded, TextTable

__all__ = [
    "SHOWN", "ColumnScale", "TaskColumns", "feature_lengths", "features_of", "has_lists", "list_features_of",
    "read_matrix", "standardized", "stream_features", "task_texts", "with_places",
]  # fmt: skip

SHOWN = ("title", "text", "url")  # columns of these names are texts, whatever the settings say
LETTERS = 300  # of a text that are kept
PLACE = re.compile(r"(.+)\[(\d+)\]")


@dataclass(frozen=True, slots=True)
class TaskColumns:
    """The settings of the task tables' columns; patterns are those of the shell.

    `features` are the columns to learn from, all if empty; `ignore` those that are not read; `shown`
    those that say what a task is; `embeddings` a matrix with a row per row of the tables; `concepts` the
    column whose texts are learned from, which is no feature.
    """

    features: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    shown: tuple[str, ...] = SHOWN
    embeddings: Path | None = None
    concepts: str | None = None

    @classmethod
    def of(cls, inputs: InputSettings, topics: TopicsSettings | None = None) -> TaskColumns:
        """Return the settings of the sections ``[input]`` and ``[topics]``."""
        concepts = None if topics is None else topics.text
        return cls(inputs.features, inputs.ignore, inputs.shown, inputs.embeddings, concepts)

    def features_in(
        self, names: Sequence[str], *, apart: Sequence[str], file: str
    ) -> tuple[str, ...]:
        """Return the columns that are features; raise TableError for a pattern that none has."""
        free = [name for name in names if name not in apart]
        for pattern in (*self.features, *self.ignore):
            if not any(fnmatchcase(name, pattern) for name in free):
                raise TableError(
                    f"{file} has no column {pattern!r}, which input.features or input.ignore names; its "
                    f"other columns are {', '.join(free[:8]) or 'none'}; mend the settings"
                )
        texts = () if self.features else self.shown
        return tuple(
            name
            for name in free
            if name != self.concepts
            and (not self.features or _fits(name, self.features))
            and not _fits(name, (*self.ignore, *texts))
        )

    def shown_in(self, names: Sequence[str], *, apart: Sequence[str]) -> tuple[str, ...]:
        """Return the columns that say what a task is."""
        return tuple(
            name
            for name in names
            if name not in apart
            and _fits(name, self.shown)
            and not _fits(name, (*self.ignore, *self.features))
        )


def _fits(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def with_places(table: TextTable, names: Sequence[str]) -> tuple[str, ...]:
    """Return names of features, a column of lists as a name for each place of its first list."""
    if not names:
        return ()
    cells = ", ".join(f"len(try_cast({quote(name)} AS DOUBLE[]))" for name in names)
    first = table.query(f"SELECT {cells} FROM t ORDER BY {ROW} LIMIT 1")
    sizes = first[0] if first else (None,) * len(names)
    return tuple(
        place
        for name, size in zip(names, sizes, strict=True)
        for place in ([name] if size is None else [f"{name}[{at}]" for at in range(size)])
    )


def has_lists(table: TextTable, names: Sequence[str]) -> bool:
    """Return whether some of the features are places of a list."""
    return any(True for _ in _lists(table, names))


def list_features_of(
    table: TextTable, names: Sequence[str]
) -> Iterator[tuple[list[int], Float[np.ndarray, "tasks places"]]]:
    """Yield the numbers of each column of lists, and their places among `names`.

    Raises TableError for a cell that is no list of as many finite numbers as the first.
    """
    for column, places in _lists(table, names):
        cell = f"try_cast({quote(column)} AS DOUBLE[])"
        wrong = table.query(
            f"SELECT {ROW} FROM t WHERE len({cell}) IS DISTINCT FROM {len(places)} "
            f"ORDER BY {ROW} LIMIT 1"
        )
        row = wrong[0][0] if wrong else None
        if row is None:
            found = table.connection.execute(
                f"SELECT coalesce(x, 'nan') AS x FROM (SELECT unnest({cell}) AS x FROM "
                f"(SELECT * FROM t ORDER BY {ROW}))"
            ).fetchnumpy()
            numbers = np.asarray(found["x"], dtype=np.float64).reshape(-1, len(places))
            bad = ~np.isfinite(numbers).all(axis=1)
            row = int(bad.argmax()) + 1 if bad.any() else None
        if row is not None:
            raise TableError(
                f"{table.file}, row {row}, column {column}: an embedding must be a list of "
                f"{len(places)} finite numbers, as in the first row; mend the cell, or ignore the column"
            )
        yield places, numbers


def _lists(table: TextTable, names: Sequence[str]) -> Iterator[tuple[str, list[int]]]:
    """Yield each column of lists with the places of its features among `names`."""
    found: dict[str, list[int]] = {}
    for at, name in enumerate(names):
        place = PLACE.fullmatch(name)
        if place is not None and name not in table.names:
            found.setdefault(place[1], []).append(at)
    yield from found.items()


def read_matrix(
    path: Path, n_rows: int
) -> tuple[tuple[str, ...], Float[np.ndarray, "tasks places"]]:
    """Return the features of a matrix, and their names.

    Raises
    ------
    TableError
        If it is missing, is no matrix of finite numbers, or has another number of rows.
    """
    try:
        matrix = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise TableError(
            f"{path} cannot be read as a matrix ({error}); save it by numpy.save"
        ) from None
    if not (isinstance(matrix, np.ndarray) and matrix.ndim == 2 and matrix.dtype.kind in "iuf"):
        raise TableError(f"{path.name} must hold one matrix of numbers; save it by numpy.save")
    if len(matrix) != n_rows:
        raise TableError(
            f"{path.name} must have a row for each of the {n_rows:,} rows of the task tables, in their "
            f"order, it has {len(matrix):,}; make it anew from the same table"
        )
    numbers = matrix.astype(np.float64)
    bad = ~np.isfinite(numbers).all(axis=1)
    if bad.any():
        raise TableError(
            f"{path.name}, row {int(bad.argmax()) + 1}: an embedding must be finite numbers; mend the row"
        )
    return tuple(f"{path.stem}[{at}]" for at in range(matrix.shape[1])), numbers


def task_texts(tables: Iterable[TextTable], shown: Sequence[str]) -> Iterator[pa.Table]:
    """Yield tasks and what each is, the texts of some columns joined and cut off, a batch at a time."""
    cells = ", ".join(f"left({quote(name)}, {LETTERS})" for name in shown)
    text = f"left(concat_ws(' · ', {cells}), {LETTERS})"
    for table in tables:
        found = table.connection.sql(
            f"SELECT task, trim(regexp_replace({text}, '{WHITE}+', ' ', 'g')) AS text FROM t"
        )
        with found.to_arrow_reader(BATCH) as batches:
            yield from (pa.Table.from_batches([batch]) for batch in batches)


AT_ONCE = 256  # feature columns per query; every query sorts the rows again
BATCH = 16_384  # rows in this process at a time


def features_of(
    table: TextTable, group: Coded, names: tuple[str, ...]
) -> Float64[np.ndarray, "tasks features"]:
    """Return the feature columns; raise TableError for a cell that is not a finite number.

    `group` is that of every row, which the message may name.
    """
    features = np.empty((group.code.size, len(names)))
    single = np.ones(len(names), dtype=np.bool_)
    for places, numbers in list_features_of(table, names):
        features[:, places], single[places] = numbers, False
    plain = tuple(name for name, alone in zip(names, single, strict=True) if alone)
    cells_of = np.empty((group.code.size, len(plain)))
    for _, cells in _select_features(table, plain):
        found = table.connection.execute(f"SELECT {cells} FROM t ORDER BY {ROW}").fetchnumpy()
        for column, values in found.items():
            cells_of[:, int(column[1:])] = values
    n_bad = np.count_nonzero(~np.isfinite(cells_of), axis=1)
    if n_bad.any():
        _refuse_features(table, group, plain, n_bad)
    if single.all():
        return cells_of
    features[:, single] = cells_of
    return features


def stream_features(
    table: TextTable, group: Coded, names: tuple[str, ...]
) -> Iterator[tuple[Int[np.ndarray, " batch"], slice, Float64[np.ndarray, "batch some"]]]:
    """Yield rows, counted from 0, some of the columns, and their numbers, until all were yielded.

    None of the columns holds lists. Rows come in any order, and numbers that are not finite as well: at the
    end TableError is raised for the first of these.
    """
    n_bad = np.zeros(group.code.size, dtype=np.int64)
    for columns, cells in _select_features(table, names):
        found = table.connection.sql(f"SELECT {ROW} AS number, {cells} FROM t")
        with found.to_arrow_reader(BATCH) as batches:
            for batch in batches:
                number, *values = (column.to_numpy() for column in batch.columns)
                numbers = np.column_stack(values)
                n_bad[number - 1] += np.count_nonzero(~np.isfinite(numbers), axis=1)
                yield number - 1, columns, numbers
    if n_bad.any():
        _refuse_features(table, group, names, n_bad)


def feature_lengths(
    table: TextTable, group: Coded, names: tuple[str, ...]
) -> Float64[np.ndarray, " tasks"]:
    """Return the Euclidean length of every row's features; columns of lists are read whole."""
    if has_lists(table, names):
        whole: np.ndarray = np.linalg.norm(features_of(table, group, names), axis=1)
        return whole
    square = np.zeros(group.code.size)
    for row, _, numbers in stream_features(table, group, names):
        square[row] += np.einsum("ij,ij->i", numbers, numbers)
    return np.sqrt(square)


def _select_features(table: TextTable, names: tuple[str, ...]) -> Iterator[tuple[slice, str]]:
    """Yield the columns of each query, and SQL of their numbers: NaN where a cell is not a number."""
    known = set(table.numbers)
    for start in range(0, len(names), AT_ONCE):
        some = names[start : start + AT_ONCE]
        yield (
            slice(start, start + len(some)),
            ", ".join(
                f"coalesce({number(name) if name in known else f'try_cast({quote(name)} AS DOUBLE)'}, 'nan') "
                f"AS v{start + j}"
                for j, name in enumerate(some)
            ),
        )


def _refuse_features(
    table: TextTable, group: Coded, names: tuple[str, ...], n_bad: Int[np.ndarray, " tasks"]
) -> None:
    """Raise TableError for the first feature that is not a finite number; `n_bad` counts each row's.

    If a whole group has no features, the message names it.
    """
    row = int(np.flatnonzero(n_bad)[0])
    whole = group.code == group.code[row]
    if (n_bad[whole] == len(names)).all():
        raise TableError(
            f"{table.file}: group {str(group.names[group.code[row]])!r} has no features: no cell of "
            f"{', '.join(names[:3])}{', ...' if len(names) > 3 else ''} is a finite number in its "
            f"{int(whole.sum()):,} tasks from row {row + 1} on; fill them, leave the group out, or name the "
            "columns in input.ignore"
        )
    for place, cells in _select_features(table, names):
        found = table.query(f"SELECT {cells} FROM t WHERE {ROW} = ?", row + 1)[0]
        bad = ~np.isfinite(found)
        if bad.any():
            name = names[place][int(bad.argmax())]
            break
    value = table.query(f"SELECT {quote(name)} FROM t WHERE {ROW} = ?", row + 1)[0][0]
    raise TableError(
        f"{table.file}, row {row + 1}, column {name}: a feature must be a finite number, got "
        f"{'a blank cell' if value is None else repr(value)}; fill it, drop the row, or name the "
        "column in input.ignore"
    )


@dataclass(frozen=True, slots=True, eq=False)
class ColumnScale:
    """Mean and standard deviation of each feature over all tasks."""

    mean: Float[np.ndarray, " features"]
    deviation: Float[np.ndarray, " features"]

    @classmethod
    def of(cls, rows: Callable[[slice], Float[np.ndarray, "_ features"]], n: int) -> ColumnScale:
        """Return the scale of `n` rows, which are asked for a batch at a time and twice.

        It has the bytes of NumPy's mean and standard deviation of all rows at once.
        """
        mean = _column_sums(rows, n) / n
        squares = _column_sums(lambda part: np.square(rows(part) - mean), n)
        return cls(mean, np.sqrt(squares / n))

    def scaled(self, rows: Float[np.ndarray, "_ features"]) -> Float[np.ndarray, "_ features"]:
        """Return rows centred and divided by the deviation of each feature, where it has any."""
        divisor = np.where(self.deviation > 0, self.deviation, 1)
        return np.asarray((rows - self.mean) / divisor)


def standardized(
    features: Float[np.ndarray, "tasks features"],
) -> Float[np.ndarray, "tasks features"]:
    """Return each feature centred and divided by its standard deviation over all tasks."""
    return ColumnScale.of(features.__getitem__, len(features)).scaled(features)


def _column_sums(
    rows: Callable[[slice], Float[np.ndarray, "_ features"]], n: int
) -> Float[np.ndarray, " features"]:
    """Add up rows as NumPy does: one after the other, but for a single column, which is added in pairs."""
    width = rows(slice(0, 1)).shape[1]
    step = BATCH if width > 1 else max(n, 1)
    total = rows(slice(0, step)).sum(axis=0)
    for first in range(step, n, step):
        total = np.vstack([total, rows(slice(first, first + step))]).sum(axis=0)
    return np.asarray(total)
