"""Reading the tables a user hands over, and refusing what cannot be trusted.

DuckDB reads CSV (plain or gzipped) and Parquet as text and finds the faults; every refusal names
file, row, column and value, and says what to do. Rows count from 1, the header not counted.
"""

from __future__ import annotations

import csv
import gzip
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import duckdb
import numpy as np
from jaxtyping import Float, Int

from flows.settings import GroupSettings
from quality import CrowdLabels, encode

__all__ = [
    "Gold",
    "TableError",
    "TaskTable",
    "read_gold",
    "read_labels",
    "read_tasks",
    "refuse_hollow",
]

SHOWN = 3  # faulty rows named in one message


class TableError(ValueError):
    """A table cannot be used; the message names file, row, column and value, and a way on."""


@dataclass(frozen=True, slots=True, eq=False)
class TaskTable:
    """Tasks with their public group and their features, sorted by name."""

    names: np.ndarray
    group: Int[np.ndarray, " tasks"]
    group_names: np.ndarray
    features: Float[np.ndarray, "tasks features"]
    feature_names: tuple[str, ...]

    def rows(self, tasks: np.ndarray) -> Int[np.ndarray, " tasks"]:
        """Rows of the given task names, all of which must be in the table."""
        rows: np.ndarray = np.searchsorted(self.names, tasks)
        return rows


@dataclass(frozen=True, slots=True, eq=False)
class Gold:
    """Tasks whose truth is known, sorted by name."""

    task: np.ndarray
    label: np.ndarray


def read_labels(
    path: Path,
    *,
    classes: Sequence[str] | None,
    duplicates: Literal["error", "first", "last"],
    known_tasks: np.ndarray | None,
) -> CrowdLabels:
    """Read and check the label table; `known_tasks` are the task table's names, where there is one."""
    table = _open(path, ("worker", "task", "label"))
    _refuse_blanks(table, ("worker", "task", "label"))
    _refuse_duplicates(table, ("worker", "task"), duplicates, 'set duplicates = "first" or "last"')
    if classes is not None:
        _refuse_outside(
            table, "label", classes, "classes of the settings; add the class or mend the row"
        )
    if known_tasks is not None:
        _refuse_outside(table, "task", known_tasks, "task tables; add the task or drop the row")
    column = table.columns("worker", "task", "label")
    return encode(column["worker"], column["task"], column["label"], classes=classes)


def refuse_hollow(labels: CrowdLabels, file: str) -> None:
    """Refuse labels that say nothing of the workers: one class, one worker, or no two who differ."""
    if np.unique(labels.label).size == 1:
        only = str(labels.classes[labels.label[0]])
        raise TableError(
            f"{file}, column label: every label is {only!r}; agreement says nothing where only one "
            "class is ever given; check the export"
        )
    if labels.n_workers == 1:
        raise TableError(
            f"{file}, column worker: every label is by one worker, {str(labels.workers[0])!r}; "
            "reputations need two workers or more; check the export"
        )
    if not (np.count_nonzero(labels.counts(), axis=1) > 1).any():
        raise TableError(
            f"{file}: no two workers differ on any task, so nothing tells good workers from bad; have "
            "tasks labelled by several workers, or use the labels as they are"
        )


def read_tasks(
    paths: Sequence[Path], groups: GroupSettings, *, standardize: bool = False
) -> TaskTable:
    """Read and check the task tables; every column that is not task or group is a feature.

    With `standardize` each feature is centred and divided by its standard deviation over all tasks,
    which reads the features in the clear.
    """
    tables = [_open(path, ("task",)) for path in paths]
    parts = [_tasks_of(table, groups, tables[0]) for table in tables]
    names = np.concatenate([part[0] for part in parts])
    order = np.argsort(names, kind="stable")
    again = np.flatnonzero(names[order][1:] == names[order][:-1])
    if again.size:
        raise TableError(f"task {names[order][again[0]]!r} is in two task tables; keep one")
    group_names, group = np.unique(np.concatenate([part[1] for part in parts]), return_inverse=True)
    features = np.concatenate([part[2] for part in parts])[order]
    if standardize:
        spread = features.std(axis=0)
        features = (features - features.mean(axis=0)) / np.where(spread > 0, spread, 1)
    return TaskTable(
        names[order], group[order].astype(np.int32), group_names, features, parts[0][3]
    )


def read_gold(path: Path, *, classes: Sequence[str] | None) -> Gold:
    """Read and check the gold table."""
    table = _open(path, ("task", "label"))
    _refuse_blanks(table, ("task", "label"))
    _refuse_duplicates(table, ("task",), "error", "keep one truth per task")
    if classes is not None:
        _refuse_outside(
            table, "label", classes, "classes of the settings; add the class or mend the row"
        )
    column = table.columns("task", "label")
    order = np.argsort(column["task"], kind="stable")
    return Gold(column["task"][order], column["label"][order])


@dataclass(frozen=True, slots=True)
class _Table:
    """One file as a DuckDB table of text, its rows numbered."""

    connection: duckdb.DuckDBPyConnection
    file: str
    names: tuple[str, ...]

    def query(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        return self.connection.execute(sql, list(parameters)).fetchall()

    def columns(self, *names: str) -> dict[str, np.ndarray]:
        quoted = ", ".join(_quote(name) for name in names)
        fetched = self.connection.execute(f"SELECT {quoted} FROM t ORDER BY row").fetchnumpy()
        return {name: np.asarray(values, dtype=np.str_) for name, values in fetched.items()}


def _open(path: Path, needed: tuple[str, ...]) -> _Table:
    """Load one file; refuse it if it is missing, empty, torn, or lacks a column."""
    if not path.is_file():
        raise TableError(f"{path} does not exist; mend the path in the settings")
    connection = duckdb.connect()
    parquet = path.suffix == ".parquet"
    try:
        names = _parquet_header(connection, path) if parquet else _csv_header(path)
        _refuse_header(path, names, needed)
        connection.execute(f"CREATE TABLE t AS {_scan(names, parquet=parquet)}", [str(path)])
    except duckdb.Error as error:
        raise TableError(f"{path.name}: {_first_fault(error)}") from None
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise TableError(f"{path.name} cannot be read: {error}") from None
    table = _Table(connection, path.name, names)
    if table.query("SELECT count(*) FROM t")[0][0] == 0:
        raise TableError(f"{path.name} has no rows below its header; export it again")
    return table


def _csv_header(path: Path) -> tuple[str, ...]:
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8-sig", newline="") as file:
        return tuple(next(csv.reader(file), ()))


def _parquet_header(connection: duckdb.DuckDBPyConnection, path: Path) -> tuple[str, ...]:
    found = connection.execute("DESCRIBE SELECT * FROM read_parquet(?)", [str(path)]).fetchall()
    return tuple(row[0] for row in found)


def _scan(names: tuple[str, ...], *, parquet: bool) -> str:
    """SQL that reads a file as trimmed text columns under their own names; blank is NULL."""
    trimmed = ", ".join(f"nullif(trim({_quote(n)}::VARCHAR), '') AS {_quote(n)}" for n in names)
    if parquet:
        source = "read_parquet($1)"
    else:
        typed = ", ".join(f"{_literal(name)}: 'VARCHAR'" for name in names)
        source = (
            "read_csv($1, auto_detect=false, header=true, delim=',', quote='\"', escape='\"', "
            f"columns={{{typed}}})"
        )
    return f"SELECT row_number() OVER () AS row, {trimmed} FROM {source}"


def _refuse_header(path: Path, names: tuple[str, ...], needed: tuple[str, ...]) -> None:
    if not names:
        raise TableError(f"{path.name} is empty; it needs the columns {', '.join(needed)}")
    missing = [name for name in needed if name not in names]
    if missing:
        raise TableError(
            f"{path.name} must have the columns {', '.join(needed)}; {', '.join(missing)} is missing "
            f"(it has {', '.join(names[:8])}{', ...' if len(names) > 8 else ''}); rename or add it"
        )
    if len(set(names)) != len(names) or "row" in names:
        raise TableError(f"{path.name}: column names must differ and none may be 'row'; rename one")


def _refuse_blanks(table: _Table, columns: Sequence[str]) -> None:
    for column in columns:
        rows = table.query(f"SELECT row FROM t WHERE {_quote(column)} IS NULL ORDER BY row")
        if rows:
            raise TableError(
                f"{table.file}, {_rows(rows)}, column {column}: the cell is blank; "
                "fill it or delete the row"
            )


def _refuse_duplicates(
    table: _Table, key: tuple[str, ...], keep: Literal["error", "first", "last"], way_on: str
) -> None:
    """Refuse rows that repeat a key, or keep the first or the last of each."""
    columns = ", ".join(_quote(name) for name in key)
    if keep != "error":
        chosen = "min" if keep == "first" else "max"
        table.query(
            f"DELETE FROM t WHERE row NOT IN (SELECT {chosen}(row) FROM t GROUP BY {columns})"
        )
        return
    again = table.query(
        f"SELECT list(row ORDER BY row), {columns} FROM t GROUP BY {columns} "
        "HAVING count(*) > 1 ORDER BY min(row)"
    )
    if again:
        rows, *values = again[0]
        named = ", ".join(f"{name} {value!r}" for name, value in zip(key, values, strict=True))
        more = f" (and {len(again) - 1:,} more such)" if len(again) > 1 else ""
        raise TableError(
            f"{table.file}, {_rows([(row,) for row in rows])}: {named} stands "
            f"{len(rows)} times{more}; delete the repeats or {way_on}"
        )


def _refuse_outside(
    table: _Table, column: str, known: Sequence[str] | np.ndarray, what: str
) -> None:
    table.query(
        "CREATE OR REPLACE TABLE known AS SELECT unnest($1::VARCHAR[]) AS name", list(known)
    )
    unknown = table.query(
        f"SELECT row, {_quote(column)} FROM t WHERE {_quote(column)} NOT IN (SELECT name FROM known) "
        "ORDER BY row"
    )
    if unknown:
        raise TableError(
            f"{table.file}, {_rows(unknown)}, column {column}: {unknown[0][1]!r} is not among the {what}"
        )


def _tasks_of(
    table: _Table, groups: GroupSettings, first: _Table
) -> tuple[np.ndarray, np.ndarray, np.ndarray, tuple[str, ...]]:
    """Names, groups, features and feature names of one task table."""
    _refuse_blanks(table, ("task",))
    _refuse_duplicates(table, ("task",), "error", "keep one row per task")
    if set(table.names) != set(first.names):
        differing = sorted(set(table.names) ^ set(first.names))
        raise TableError(
            f"{table.file} and {first.file} must have the same columns; "
            f"{', '.join(differing[:4])} stands in one only"
        )
    names = table.columns("task")["task"]
    group = _group_of(table, names, groups)
    feature_names = tuple(n for n in first.names if n not in ("task", groups.column))
    return names, group, _features_of(table, group, feature_names), feature_names


def _group_of(table: _Table, names: np.ndarray, groups: GroupSettings) -> np.ndarray:
    """Every task's group: from the pattern, from the column, or one group of all tasks."""
    if groups.pattern is not None:
        found = [re.search(groups.pattern, name) for name in names]
        if None in found:
            row = found.index(None)
            raise TableError(
                f"{table.file}, row {row + 1}, column task: {str(names[row])!r} does not match the "
                f"groups.pattern {groups.pattern!r}; widen the pattern"
            )
        return np.array(["-".join(m.groups("")) for m in found if m is not None], dtype=np.str_)
    if groups.column in table.names:
        _refuse_blanks(table, (groups.column,))
        return table.columns(groups.column)[groups.column]
    return np.full(names.size, "all tasks")


def _features_of(table: _Table, group: np.ndarray, names: tuple[str, ...]) -> np.ndarray:
    """The feature columns as finite numbers; a fault is told with its row, column and value."""
    features = np.empty((group.size, len(names)))
    for j, name in enumerate(names):
        sql = f"SELECT coalesce(try_cast({_quote(name)} AS DOUBLE), 'nan') AS v FROM t ORDER BY row"
        features[:, j] = table.connection.execute(sql).fetchnumpy()["v"]
    bad = ~np.isfinite(features)
    if bad.any():
        _refuse_features(table, group, names, bad)
    return features


def _refuse_features(
    table: _Table, group: np.ndarray, names: tuple[str, ...], bad: np.ndarray
) -> None:
    """Say which feature cell is no finite number; a group without any feature is said as such."""
    row, column = (int(index[0]) for index in np.nonzero(bad))
    whole = group == group[row]
    if bad[whole].all():
        raise TableError(
            f"{table.file}: group {str(group[row])!r} has no features ({int(whole.sum()):,} tasks from row "
            f"{row + 1}); give its tasks their features or leave the group out"
        )
    value = table.query(f"SELECT {_quote(names[column])} FROM t WHERE row = ?", row + 1)[0][0]
    raise TableError(
        f"{table.file}, row {row + 1}, column {names[column]}: a feature must be a finite number, got "
        f"{'a blank cell' if value is None else repr(value)}; fill it, or drop the row or the column"
    )


def _rows(rows: Sequence[tuple[Any, ...]]) -> str:
    numbers = [f"{row[0]}" for row in rows[:SHOWN]]
    more = f" and {len(rows) - SHOWN:,} more" if len(rows) > SHOWN else ""
    return f"row{'s' if len(rows) > 1 else ''} {', '.join(numbers)}{more}"


def _first_fault(error: duckdb.Error) -> str:
    """DuckDB's report cut down to line, columns expected and columns found."""
    text = str(error)
    torn = re.search(r"CSV Error on Line: (\d+)", text)
    counts = re.search(r"Expected Number of Columns: (\d+) Found: (\d+)", text)
    if torn and counts:
        return f"line {torn[1]} must have {counts[1]} columns, it has {counts[2]}; mend that line"
    where = f"line {torn[1]} cannot be read" if torn else "not a readable table"
    return f"{where}: {text.splitlines()[0].removeprefix('Invalid Input Error: ')}"


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
