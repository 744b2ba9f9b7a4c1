"""Which columns of a task table are features, which are embeddings, and which say what a task is.

>>> columns = TaskColumns(features=("x*",), ignore=("x9",))
>>> columns.features_in(("task", "x1", "x2", "x9", "price"), apart=("task",), file="tasks.csv")
('x1', 'x2')

An embedding is a column of lists, `[0.1, 0.2, ...]`, or a matrix in a file `.npy` beside the tables. Each
of its numbers is a feature, named by its place.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np
from jaxtyping import Float

from flows.settings import InputSettings, TopicsSettings
from flows.tables.refusals import ROW, TableError, quote
from flows.tables.text_table import TextTable, column_names, open_table

__all__ = [
    "SHOWN", "TaskColumns", "has_lists", "list_features_of", "read_matrix", "task_texts",
    "with_places",
]  # fmt: skip

SHOWN = ("title", "text", "url")  # columns of these names are texts, whatever the settings say
LETTERS = 300  # of a text that are kept
PLACE = re.compile(r"(.+)\[(\d+)\]")


@dataclass(frozen=True, slots=True)
class TaskColumns:
    """What the settings say of the task tables' columns; patterns are those of the shell.

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
        """Return what the sections ``[input]`` and ``[topics]`` say."""
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


def task_texts(
    paths: Sequence[Path], columns: TaskColumns, *, apart: Sequence[str]
) -> dict[str, list[str]] | None:
    """Return tasks and what each is, its texts joined and cut off; None where no column says it."""
    found: dict[str, list[str]] = {"task": [], "text": []}
    for path in paths:
        shown = columns.shown_in(column_names(path, ("task",)), apart=apart)
        if shown:
            table = open_table(path, ("task",))
            cells = ", ".join(f"left({quote(name)}, {LETTERS})" for name in shown)
            rows = table.query(
                f"SELECT task, left(concat_ws(' · ', {cells}), {LETTERS}) FROM t ORDER BY {ROW}"
            )
            found["task"] += [task for task, _ in rows]
            found["text"] += [" ".join(text.split()) for _, text in rows]
    return found if found["task"] else None
