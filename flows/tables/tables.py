"""Label, task and gold tables: read, checked and turned into codes and numbers.

DuckDB reads every format as text and finds the faults. A `TableError` names file,
row, column and value, and says what to do. Rows count from 1; the header is not counted.

`read_labels` returns the encoded labels and `read_seconds` how long each took, in the same order;
`read_models` the workers that a column `kind` calls models.
`read_tasks`
returns tasks with their groups and features, `read_gold` the tasks whose truth is known, `read_reference`
the answers of language models.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Float, Float64, Int

from flows.choices import LABEL_COLUMNS, Duplicates
from flows.settings import GroupSettings
from flows.tables.arrow import arrow_array, arrow_table, release_memory, text_column
from flows.tables.columns import TaskColumns, features_of, read_matrix, standardized, with_places
from flows.tables.dialect import AS_FOUND
from flows.tables.file_formats import connected, format_of
from flows.tables.parquet import parquet_codes, parquet_texts
from flows.tables.refusals import (
    ROW,
    TableError,
    quote,
    refuse_duplicates,
    refuse_names,
    refuse_outside,
    refuse_undeclared,
    text_of_cell,
    text_of_number,
)
from flows.tables.text_table import Coded, TextTable, open_table
from quality import CrowdLabels, RepeatError, conflict_tasks
from quality.labels import MAX_CLASSES, Texts, array_texts, code_texts, places_among, text_array

__all__ = [
    "Gold", "Reference", "TaskTable", "are_known", "list_tasks", "read_gold", "read_labels",
    "read_models", "read_reference", "read_seconds", "read_tasks", "read_texts", "refuse_gold",
    "refuse_hollow",
]  # fmt: skip


def read_seconds(
    path: Path, column: str, labels: CrowdLabels, *, duplicates: Duplicates
) -> Float64[np.ndarray, " labels"]:
    """Return one number of seconds per label, at least 0; a blank cell is NaN.

    `labels` are those that `read_labels` returned for the same file, after it checked the other columns.
    """
    table = open_table(path, ("worker", "task", column))
    refuse_duplicates(table, ("worker", "task"), duplicates, "keep one of each")
    cell = quote(column)
    wrong = table.query(
        f"SELECT {ROW}, {cell} FROM t WHERE {cell} IS NOT NULL AND NOT "
        f"coalesce(try_cast({cell} AS DOUBLE) BETWEEN 0 AND 1e300, false) ORDER BY {ROW} LIMIT 1"
    )
    if wrong:
        row, value = wrong[0]
        raise TableError(
            f"{table.file}, row {row}, column {column}: {value!r} must be seconds, at least 0; "
            "mend the cell or leave it blank"
        )
    # by codes: NumPy would keep each row's names at the length of the longest
    for name, names in (("worker", labels.workers), ("task", labels.tasks)):
        coded = arrow_table({"name": names, "code": np.arange(len(names))})
        table.connection.register(f"known_{name}", coded)
    rows = table.connection.execute(
        f"SELECT w.code AS worker, k.code AS task, coalesce(try_cast({cell} AS DOUBLE), 'nan'::DOUBLE) AS s "
        "FROM t JOIN known_worker AS w ON t.worker = w.name JOIN known_task AS k ON t.task = k.name"
    ).fetchnumpy()
    found = np.empty(labels.n_labels)
    found[np.lexsort((labels.worker, labels.task))] = np.asarray(rows["s"])[
        np.lexsort((rows["worker"], rows["task"]))
    ]
    return found


MAX_LOOKED_AT, MAX_QUESTIONS = 20, 50  # columns looked at, and values of one that names questions
ALL = "all tasks"  # the group of tables without groups
MODEL = "model"  # the cell of a column `kind` for a worker who is not a person


def read_models(path: Path) -> tuple[str, ...]:
    """Return the sorted names of the workers whom the column `kind` of the labels calls "model".

    Without such a column there are none. Other kinds are people. Rows are streamed: only the header is
    read of a table without kinds, and names alone are held of one with them.
    """
    with connected() as connection, TemporaryDirectory(prefix="crowdassay-") as folder:
        found = format_of(path).load(connection, path, AS_FOUND, Path(folder))
        types = dict(found.columns)
        if not {"worker", "kind"} <= types.keys():
            return ()
        worker, kind = (
            text_of_cell(f"({text_of_number(quote(name), types[name])})")
            for name in ("worker", "kind")
        )
        rows = connection.execute(
            f"SELECT {worker} AS name, count(*), count(*) FILTER (lower({kind}) = '{MODEL}') AS n "
            f"FROM {found.rows} GROUP BY name HAVING n > 0 ORDER BY name"
        ).fetchall()
    mixed = next((name for name, n_rows, n in rows if n < n_rows), None)
    if mixed is not None:
        raise TableError(
            f"{path.name}, column kind: worker {mixed!r} is a model in some rows only; give all rows "
            "of a worker the same kind"
        )
    return tuple(name for name, *_ in rows)


EVERY = TaskColumns()


@dataclass(frozen=True, slots=True, eq=False)
class TaskTable:
    """Tasks with their public group, their features, and whose they are if that is known; sorted by name."""

    names: np.ndarray
    group: Int[np.ndarray, " tasks"]
    group_names: np.ndarray
    features: Float[np.ndarray, "tasks features"]
    feature_names: tuple[str, ...]
    subject: np.ndarray | None = None  # a name for each task

    def rows(self, tasks: np.ndarray) -> Int[np.ndarray, " tasks"]:
        """Return the rows of the given task names, all of which must be in the table."""
        return places_among(tasks, self.names)


@dataclass(frozen=True, slots=True, eq=False)
class Gold:
    """Tasks whose truth is known, sorted by name."""

    task: np.ndarray
    label: np.ndarray


@dataclass(frozen=True, slots=True, eq=False)
class Reference:
    """Answers of language models, one a row, sorted by model and task; one model without a name has ""."""

    model: np.ndarray
    task: np.ndarray
    label: np.ndarray


def read_labels(
    path: Path,
    *,
    classes: Sequence[str] | None,
    duplicates: Duplicates,
    known_tasks: np.ndarray | None,
) -> CrowdLabels:
    """Return the checked labels; `known_tasks` are the task tables' sorted names, if there are any.

    Faults are found in the codes, which is cheap, and then located in the text, row by row.
    """
    sound = _sound_labels(path, classes, known_tasks)
    if sound is not None:
        return sound
    table = open_table(path, LABEL_COLUMNS)
    try:
        labels = _labels_of(table.codes(*LABEL_COLUMNS))
    except RepeatError:
        way_on = 'set duplicates = "first" or "last" (--duplicates first)'
        way_on += _way_of_questions(table) if duplicates == "error" else ""
        refuse_duplicates(table, ("worker", "task"), duplicates, way_on)  # or keep one of each
        labels = _labels_of(table.codes(*LABEL_COLUMNS))
    if classes is not None:
        if not set(labels.classes.tolist()) <= set(classes):
            refuse_undeclared(table, classes)
        labels = _declare(labels, np.array(classes, dtype=np.str_))
    if known_tasks is not None and not are_known(labels.tasks, known_tasks).all():
        refuse_outside(table, "task", known_tasks, "task tables; add the task or drop the row")
    return labels


def _way_of_questions(table: TextTable) -> str:
    """Return what to do where a column of few values tells repeated rows apart, as questions would."""
    others = [name for name in table.names if name not in LABEL_COLUMNS][:MAX_LOOKED_AT]
    for name in others:
        asked = table.query(
            f"SELECT DISTINCT {quote(name)} FROM t ORDER BY 1 LIMIT {MAX_QUESTIONS + 1}"
        )
        pairs = f"SELECT DISTINCT worker, task, {quote(name)} FROM t"
        same = f"SELECT (SELECT count(*) FROM ({pairs})) = count(*) FROM t"
        if 1 < len(asked) <= MAX_QUESTIONS and table.query(same)[0][0]:
            return (
                f"; if the rows answer several questions, which {name} names, take one of them: crowdassay "
                f"import {shlex.quote(table.file)} --format table --map {shlex.quote(f'question={name}')} "
                f"--question {shlex.quote(asked[0][0] or asked[1][0])} --output one.csv"
            )
    return ""


def _sound_labels(
    path: Path, classes: Sequence[str] | None, known_tasks: np.ndarray | None
) -> CrowdLabels | None:
    """Return the labels of a Parquet file; None where it may have a fault."""
    coded = parquet_codes(path, LABEL_COLUMNS) if path.suffix.lower() == ".parquet" else None
    if coded is None:
        return None
    try:
        labels = _labels_of(coded)
    except RepeatError:
        return None
    if known_tasks is not None and not are_known(labels.tasks, known_tasks).all():
        return None
    if classes is None:
        return labels
    among = set(labels.classes.tolist()) <= set(classes)
    return _declare(labels, np.array(classes, dtype=np.str_)) if among else None


def _labels_of(coded: dict[str, Coded]) -> CrowdLabels:
    """Return the label table, in the memory of the codes; the classes are those that occur."""
    worker, task, label = (coded[name] for name in LABEL_COLUMNS)
    return CrowdLabels.from_codes(
        worker.code, task.code, label.code, workers=worker.names, tasks=task.names,
        classes=label.names, overwrite=True,
    )  # fmt: skip


def _declare(labels: CrowdLabels, classes: np.ndarray) -> CrowdLabels:
    """Return the same labels in the codes of the declared classes, which include those that occur."""
    if len(classes) > MAX_CLASSES:
        raise TableError(
            f"there must be at most {MAX_CLASSES:,} classes, got {len(classes):,} declared; leave some out"
        )
    order = np.argsort(classes, kind="stable")
    code = order[np.searchsorted(classes, labels.classes, sorter=order)].astype(np.int16)
    return replace(labels, label=code[labels.label], classes=classes)


def are_known(names: np.ndarray, known: np.ndarray) -> Bool[np.ndarray, " names"]:
    """Return which names are among the known ones, which are sorted; sorted names take less time."""
    place = places_among(names, known).clip(max=known.size - 1)
    found: np.ndarray = known[place] == names
    return found


def refuse_hollow(labels: CrowdLabels, file: str) -> None:
    """Raise TableError for labels of one class or one worker, and for labels without disagreement."""
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
    if not conflict_tasks(labels).any():
        raise TableError(
            f"{file}: no two workers differ on any task, so nothing tells good workers from bad; have "
            "some tasks labelled by several workers, or use the labels as they are"
        )


def read_tasks(
    paths: Sequence[Path],
    groups: GroupSettings,
    *,
    standardize: bool = False,
    subject: str | None = None,
    columns: TaskColumns = EVERY,
) -> TaskTable:
    """Return the checked tasks; `columns` says which of them are features.

    With `standardize` each feature is centred and divided by its standard deviation over all tasks,
    which reads the features in the clear.
    """
    tables = [open_table(path, ("task",)) for path in paths]
    tasks, groups_of, order = list_tasks(tables, groups, subject, columns)
    parts = [
        features_of(table, group, tasks.feature_names)
        for table, group in zip(tables, groups_of, strict=True)
    ]
    features, names = np.concatenate(parts), tasks.feature_names
    if columns.embeddings is not None:
        more, matrix = read_matrix(columns.embeddings, len(features))
        features, names = np.column_stack([features, matrix]), (*names, *more)
    features = features.take(order, axis=0)
    features = standardized(features) if standardize else features
    return replace(tasks, features=features, feature_names=names)


def list_tasks(
    tables: Sequence[TextTable],
    groups: GroupSettings,
    subject: str | None = None,
    columns: TaskColumns = EVERY,
) -> tuple[TaskTable, list[Coded], Int[np.ndarray, " tasks"]]:
    """Return tasks without their features, the groups of every table, and each task's row among all rows."""
    order, names, by_row = _named_and_grouped(tables, groups)
    release_memory()
    apart = ("task", groups.column, subject or "task")
    named = columns.features_in(tables[0].names, apart=apart, file=tables[0].file)
    feature_names = with_places(tables[0], named)
    nothing = np.empty((0, len(feature_names)))
    whose = None if subject is None else _subjects_of(tables, subject)[order]
    ends = np.cumsum([_n_rows(table) for table in tables])[:-1]
    return (
        TaskTable(names, by_row.code[order], by_row.names, nothing, feature_names, whose),
        [Coded(code, by_row.names) for code in np.split(by_row.code, ends)],
        order,
    )


def _named_and_grouped(
    tables: Sequence[TextTable], groups: GroupSettings
) -> tuple[Int[np.ndarray, " tasks"], np.ndarray, Coded]:
    """Return the row of each task by name, the sorted names, and the groups by row, of all tables.

    Texts stay in Arrow's buffers, a fifth of NumPy's, until the names are sorted.
    """
    for table in tables[1:]:
        _refuse_other_columns(table, tables[0])
    plain = _plain_tasks(tables, groups)
    if plain is None:
        named, grouped = zip(*(_tasks_of(table, groups) for table in tables), strict=True)
        plain = _coded(named), _coded(grouped)
    (row, names), by_row = plain
    if len(names) < len(row):
        for table in tables:
            refuse_duplicates(table, ("task",), "error", "keep one row per task")
        again = np.flatnonzero(np.bincount(row) > 1)
        raise TableError(f"task {str(names[again[0]])!r} is in two task tables; keep one")
    order = np.empty(len(row), dtype=np.int64)
    order[row] = np.arange(len(row))
    return order, names, by_row


def _plain_tasks(tables: Sequence[TextTable], groups: GroupSettings) -> tuple[Coded, Coded] | None:
    """Return names and groups of tables of Parquet as `parquet_texts` codes them; None if it cannot."""
    columns = ["task", groups.column] if groups.column in tables[0].names else ["task"]
    if groups.pattern is not None or (len(columns) == 1 and "column" in groups.model_fields_set):
        return None
    parts = list[dict[str, tuple[np.ndarray, Texts]]]()
    for table in tables:
        found = None if table.parquet is None else parquet_texts(table.parquet, columns)
        if found is None:
            return None
        parts.append(found)
    named, *grouped = (_joined([part[column] for part in parts]) for column in columns)
    one_group = Coded(np.zeros(len(named.code), dtype=np.int32), np.array([ALL]))
    return named, grouped[0] if grouped else one_group


def _joined(parts: Sequence[tuple[np.ndarray, Texts]]) -> Coded:
    """Return the codes of several tables as those of all their names together."""
    if len(parts) == 1:
        return Coded(parts[0][0], text_array(parts[0][1]))
    texts = [names for _, names in parts]
    ends = np.cumsum([len(some.start) - 1 for some in texts])
    place, names = code_texts(texts, int(ends[-1]))
    ranked = zip(parts, np.split(place, ends[:-1]), strict=True)
    return Coded(np.concatenate([rank[code] for (code, _), rank in ranked]), text_array(names))


def _coded(columns: Sequence[pa.ChunkedArray]) -> Coded:
    """Return texts as codes of their sorted names: bytes are hashed, where NumPy would sort them."""
    pieces = (array_texts(chunk) for column in columns for chunk in column.chunks)
    known = (piece for piece in pieces if piece is not None)
    code, names = code_texts(known, sum(map(len, columns)))
    return Coded(code, text_array(names))


def _n_rows(table: TextTable) -> int:
    return int(table.query("SELECT count(*) FROM t")[0][0])


def _subjects_of(tables: Sequence[TextTable], subject: str) -> np.ndarray:
    """Return the subject of every row of the tables; raise TableError for a blank cell."""
    for table in tables:
        if subject not in table.names:
            raise TableError(
                f"{table.file} has no column {subject!r}, which input.subject names; its columns are "
                f"{', '.join(table.names[:8])}"
            )
        refuse_names(table, (subject,))
    return np.concatenate([table.columns(subject)[subject] for table in tables])


def read_texts(paths: Sequence[Path], column: str) -> pa.Table:
    """Return a table of task and text, sorted by task, a blank one empty.

    Raise TableError where a table has no such column.
    """
    tasks, texts = list[np.ndarray](), list[pa.Array]()
    for path in paths:
        table = open_table(path, ("task",))
        if column not in table.names:
            raise TableError(
                f"{table.file} has no column {column!r}, which topics.text names; its columns are "
                f"{', '.join(table.names[:8])}"
            )
        cells = table.texts("task", column)
        tasks.append(text_column(cells["task"]))
        texts.extend(cells[column].chunks)
    task = np.concatenate(tasks)
    order = np.argsort(task, kind="stable")
    text = pa.chunked_array(texts, pa.string()).take(arrow_array(order))
    return arrow_table({"task": task[order], "text": text.fill_null("")})


def read_gold(path: Path, *, classes: Sequence[str] | None) -> Gold:
    """Return the checked gold tasks."""
    table = open_table(path, ("task", "label"))
    refuse_names(table, ("task", "label"))
    refuse_duplicates(table, ("task",), "error", "keep one truth per task")
    if classes is not None:
        refuse_undeclared(table, classes)
    column = table.columns("task", "label")
    order = np.argsort(column["task"], kind="stable")
    return Gold(column["task"][order], column["label"][order])


def refuse_gold(path: Path, gold: Gold, classes: np.ndarray) -> None:
    """Raise TableError if a gold task has a class that nobody gave, where none are declared."""
    if not np.isin(gold.label.astype(str), classes.astype(str)).all():
        where = "classes that the labels have; name all of them as `classes`, or mend the row"
        refuse_outside(open_table(path, ("task", "label")), "label", classes.astype(str), where)


def read_reference(path: Path, *, classes: Sequence[str] | None) -> Reference:
    """Return the checked answers of models; without a column `model` they are of one."""
    table = open_table(path, ("task", "label"))
    keys = ("model", "task") if "model" in table.names else ("task",)
    refuse_names(table, (*keys, "label"))
    refuse_duplicates(table, keys, "error", "keep one answer of a model per task")
    if classes is not None:
        refuse_undeclared(table, classes)
    column = table.columns(*keys, "label")
    model = column.get("model", np.full(column["task"].size, ""))
    order = np.lexsort((column["task"], model))
    return Reference(model[order], column["task"][order], column["label"][order])


def _refuse_other_columns(table: TextTable, first: TextTable) -> None:
    if set(table.names) != set(first.names):
        differing = sorted(set(table.names) ^ set(first.names))
        raise TableError(
            f"{table.file} and {first.file} must have the same columns; "
            f"{', '.join(differing[:4])} stands in one only"
        )


def _tasks_of(table: TextTable, groups: GroupSettings) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
    """Return names and groups of one task table."""
    refuse_names(table, ("task",))
    names = table.texts("task")["task"]
    return names, _group_of(table, names, groups)


def _group_of(table: TextTable, names: pa.ChunkedArray, groups: GroupSettings) -> pa.ChunkedArray:
    """Return every task's group: from the pattern, from the column, or one group of all tasks.

    Raises
    ------
    TableError
        If a name does not match the pattern, or the settings name a column that is not there.
    """
    if groups.pattern is not None:
        by_chunk, row = list[pa.Array](), 0
        for chunk in names.chunks:
            texts = chunk.to_pylist()
            found = [re.search(groups.pattern, name) for name in texts]
            if None in found:
                at = found.index(None)
                raise TableError(
                    f"{table.file}, row {row + at + 1}, column task: {texts[at]!r} does not match the "
                    f"groups.pattern {groups.pattern!r}; widen the pattern"
                )
            by_chunk.append(arrow_array(["-".join(m.groups("")) for m in found if m is not None]))
            row += len(texts)
        return pa.chunked_array(by_chunk)
    if groups.column not in table.names and "column" in groups.model_fields_set:
        raise TableError(
            f"{table.file} has no column {groups.column!r}, which groups.column names; its columns are "
            f"{', '.join(table.names[:8])}"
        )
    if groups.column in table.names:
        refuse_names(table, (groups.column,))
        return table.texts(groups.column)[groups.column]
    return pa.chunked_array([arrow_array([ALL] * len(chunk)) for chunk in names.chunks])
