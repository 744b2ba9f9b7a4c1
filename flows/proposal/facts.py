"""What the tables of a campaign hold, as far as settings are chosen by it.

The tables are read and checked as a run would read them, so that a proposal is never written for tables
that a run refuses. Features are streamed and never held; labels that are too many for memory go through
shards, as those of a run with an engine.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64

from flows.choices import LABEL_COLUMNS, Duplicates
from flows.proposal.class_names import classes_of_cells, grades_of, is_scale
from flows.settings import EngineSettings, GroupSettings, input_settings
from flows.sharding import SHARDS, count_rows, open_tasks, refuse_hollow_shards, write_shards
from flows.tables import (
    AS_FOUND,
    Reading,
    Sources,
    TableError,
    TaskColumns,
    TaskTable,
    TextTable,
    are_known,
    column_names,
    feature_lengths,
    find_files,
    is_fetched,
    like_models,
    list_tasks,
    open_sources,
    open_table,
    quote,
    read_gold,
    read_labels,
    read_models,
    read_seconds,
    refuse_hollow,
)

__all__ = ["CampaignFacts", "CampaignTables", "facts_of"]

SECONDS = "seconds"  # a column of this name is read as response times
TOP = 1000  # rows in which most columns of numbers have one
WHOLE_LABELS = EngineSettings().whole_labels  # beyond which labels are read in shards


@dataclass(frozen=True, slots=True)
class CampaignTables:
    """The tables of a campaign, each as ``[input]`` takes it, and what the user adds about them."""

    labels: Path
    tasks: tuple[Path, ...] = ()
    gold: Path | None = None
    gold_column: str | None = None
    url_env: str | None = None
    column: str | None = None
    duplicates: Duplicates = "error"
    reading: Reading = AS_FOUND


@dataclass(frozen=True, slots=True)
class CampaignFacts:
    """The facts that settings are chosen by. All are public except the class names and `norm`.

    `grades` are the class names in their order if they are obviously ordered. `several` is what stands
    between the classes of a cell where cells plainly hold several, and `nothing` the word for none of them.
    `models` are the workers whom a column of kinds marks as models; without any, `like_models` are those
    with a model's name. `group_sizes` are the numbers of labelled tasks of the groups that have any.
    `n_gold` is the number of gold tasks, None without gold; `n_gold_labelled` of them have labels, and
    `gold_alone` are their classes that no label has. `norm` is None without a feature to measure.
    """

    n_labels: int
    n_workers: int
    n_labelled: int
    classes: tuple[str, ...]
    other_columns: tuple[str, ...]
    seconds: str | None
    n_gold: int | None
    group_sizes: tuple[int, ...]
    n_groups: int
    column: str
    grouped: bool
    n_tasks: int
    n_features: int
    norm: float | None
    url_env: str | None = None
    read_as: tuple[str, ...] = ()
    reading: Reading = AS_FOUND
    models: tuple[str, ...] = ()
    like_models: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    grades: tuple[str, ...] = ()
    several: str | None = None
    nothing: str | None = None
    n_gold_labelled: int = 0
    gold_alone: tuple[str, ...] = ()
    gold_column: str | None = None

    @property
    def plainly_graded(self) -> bool:
        """Whether the grades are words of a scale or 1, 2, 3, ...; other numbers may be codes of names."""
        return bool(self.grades) and is_scale(self.grades)


def facts_of(given: CampaignTables) -> CampaignFacts:
    """Read and check the tables as a run would, and return the facts that settings are chosen by.

    Raises
    ------
    SettingsError
        If the tables are not named as ``[input]`` takes them.
    TableError
        If a run would refuse the tables.
    """
    keys = ("labels", "tasks", "gold", "gold_column", "url_env", "duplicates")
    inputs = input_settings(**{key: getattr(given, key) for key in keys}, **given.reading.keys())
    first = None if is_fetched(given.labels) else find_files(given.labels)[0]
    others = () if first is None else _other_columns(first, given.reading)
    if SECONDS in others:
        inputs = inputs.model_copy(update={"seconds": SECONDS})
    with tempfile.TemporaryDirectory() as folder:
        sources = open_sources(inputs, Path(folder))
        with sources.naming_files():
            if first is None:
                others = _other_columns(sources.labels.table, AS_FOUND)
            return _facts_of(given, sources, others, Path(folder))


class _Tasks(NamedTuple):
    """The task tables, the length of each row's features, and what the tables' columns are."""

    table: TaskTable
    lengths: Float64[np.ndarray, " tasks"]
    texts: tuple[str, ...]
    grouped: bool


class _Labels(NamedTuple):
    """How many labels there are, by which workers, of which tasks and classes."""

    n_labels: int
    workers: np.ndarray
    tasks: np.ndarray
    classes: np.ndarray


def _facts_of(
    given: CampaignTables, sources: Sources, others: tuple[str, ...], folder: Path
) -> CampaignFacts:
    """Return the facts of tables that exist; `others` are columns of the labels that are not needed."""
    tasks = _tasks(given, sources, folder)
    table = None if tasks is None else tasks.table
    labels = _labels(given, sources, table, others, folder)
    gold = None if sources.gold is None else read_gold(sources.gold.table, classes=None)
    cells, true = set(labels.classes.tolist()), set([] if gold is None else gold.label.tolist())
    alone = tuple(sorted(map(str, true - cells)))
    cells |= true
    several, nothing, named = None, None, tuple(sorted(map(str, cells)))
    if not given.reading.wide:  # which a run of sets does not read
        several, nothing, named = classes_of_cells(named)
    models = () if several else read_models(sources.labels.table)
    return CampaignFacts(
        n_labels=labels.n_labels,
        n_workers=len(labels.workers),
        n_labelled=len(labels.tasks),
        classes=named,
        other_columns=others,
        seconds=SECONDS if SECONDS in others and several is None else None,
        n_gold=None if gold is None else len(gold.task),
        group_sizes=_group_sizes(labels, table),
        n_groups=1 if table is None else len(table.group_names),
        column=given.column or GroupSettings().column,
        grouped=tasks is not None and tasks.grouped,
        n_tasks=len(labels.tasks) if table is None else len(table.names),
        n_features=0 if table is None else len(table.feature_names),
        norm=None if tasks is None else _middle_norm(tasks.lengths),
        url_env=given.url_env,
        read_as=sources.read_as,
        reading=given.reading,
        texts=() if tasks is None else tasks.texts,
        grades=() if several else grades_of(named) or (),
        several=several,
        nothing=nothing,
        n_gold_labelled=0 if gold is None else int(are_known(gold.task, labels.tasks).sum()),
        gold_alone=() if several else alone,
        gold_column=given.gold_column,
        models=models,
        like_models=() if several or models else like_models(labels.workers),
    )


def _labels(
    given: CampaignTables,
    sources: Sources,
    tasks: TaskTable | None,
    others: tuple[str, ...],
    folder: Path,
) -> _Labels:
    """Read and check the labels; beyond `WHOLE_LABELS` in shards, which take less memory and more time."""
    source, known = sources.labels, None if tasks is None else tasks.names
    if SECONDS not in others and count_rows(source.table) > WHOLE_LABELS:
        engine = EngineSettings()
        shards = write_shards(
            source.table, folder / SHARDS, shard_labels=engine.shard_labels, memory_gb=engine.memory_gb,
            classes=None, duplicates=given.duplicates, known_tasks=known,
        )  # fmt: skip
        refuse_hollow_shards(shards, source.name)
        names = shards.names("worker"), shards.names("task"), shards.names("label")
        return _Labels(shards.n_labels, *names)
    labels = read_labels(source.table, classes=None, duplicates=given.duplicates, known_tasks=known)
    refuse_hollow(labels, source.name)
    if SECONDS in others:
        read_seconds(source.table, SECONDS, labels, duplicates=given.duplicates)
    return _Labels(labels.n_labels, labels.workers, labels.tasks, labels.classes)


def _tasks(given: CampaignTables, sources: Sources, folder: Path) -> _Tasks | None:
    """Return the task tables, if there are any; refuse a column of groups that they lack."""
    column = given.column or GroupSettings().column
    if not sources.tasks:
        _refuse_column(given.column, "no task tables")
        return None
    with _opened([source.table for source in sources.tasks], folder) as opened:
        grouped = column in opened[0].names
        if not grouped:
            _refuse_column(given.column, f"{sources.tasks[0].name} has no such column")
        texts = _texts(given, opened[0])
        groups = GroupSettings(column=column) if grouped else GroupSettings()
        columns = TaskColumns(shown=texts)
        table, by_row, _ = list_tasks(opened, groups, columns=columns)
        lengths = [
            feature_lengths(one, group, table.feature_names)
            for one, group in zip(opened, by_row, strict=True)
        ]
    return _Tasks(table, np.concatenate(lengths), texts, grouped)


def _refuse_column(column: str | None, where: str) -> None:
    if column is not None:
        raise TableError(f"--groups must name a column of the task tables, got {column!r}: {where}")


@contextmanager
def _opened(paths: Sequence[Path], folder: Path) -> Iterator[list[TextTable]]:
    """Open task tables: those of Parquet in place, under a cap of memory, and others whole."""
    if any(path.suffix.lower() != ".parquet" for path in paths):
        yield [open_table(path, ("task",)) for path in paths]
        return
    for path in paths:
        column_names(path, ("task",))  # refuses what `open_table` refuses, in its words
    memory_gb = EngineSettings().memory_gb
    with open_tasks(paths, folder, memory_gb=memory_gb, threads=None) as opened:
        yield opened


def _texts(given: CampaignTables, table: TextTable) -> tuple[str, ...]:
    """Return the columns of the first task table, other than its groups, in which no cell is a number."""
    apart = ("task", given.column or GroupSettings().column)
    names = [name for name in table.names if name not in apart]
    # a number near the top is a number: only what is left is looked at in every row
    return _without_numbers(table, _without_numbers(table, names, f" LIMIT {TOP}"))


def _without_numbers(table: TextTable, names: Sequence[str], some: str = "") -> tuple[str, ...]:
    """Return the columns with cells, and no number in any; with a `LIMIT`, those with no number there."""
    if not names:
        return ()
    cells = ", ".join(
        f"count(try_cast({quote(name)} AS DOUBLE)) + count(try_cast({quote(name)} AS DOUBLE[])), "
        f"count({quote(name)})"
        for name in names
    )
    counts = table.query(f"SELECT {cells} FROM (SELECT * FROM t{some})")[0]
    pairs = zip(names, counts[::2], counts[1::2], strict=True)
    return tuple(name for name, n_numbers, n_cells in pairs if not n_numbers and (n_cells or some))


def _other_columns(path: Path, reading: Reading) -> tuple[str, ...]:
    names = column_names(path, LABEL_COLUMNS, reading)
    return tuple(name for name in names if name not in LABEL_COLUMNS)


def _group_sizes(labels: _Labels, tasks: TaskTable | None) -> tuple[int, ...]:
    """Return the number of labelled tasks of every group that has any."""
    if tasks is None:
        return (len(labels.tasks),)
    sizes = np.bincount(tasks.group[tasks.rows(labels.tasks)])
    return tuple(sizes[sizes > 0].tolist())


def _middle_norm(lengths: Float64[np.ndarray, " tasks"]) -> float | None:
    """Return the median length of the feature vectors that are not 0, to two digits."""
    middle = float(np.median(lengths[lengths > 0])) if (lengths > 0).any() else math.inf
    return float(f"{middle:.2g}") if math.isfinite(middle) else None
