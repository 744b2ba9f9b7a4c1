"""What the tables of a campaign hold, as far as settings are chosen by it.

The tables are read and checked as a run would read them, so that a proposal is never written for tables
that a run refuses.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from flows.choices import Duplicates
from flows.proposal.cells import classes_of_cells
from flows.proposal.grades import grades_of, is_scale
from flows.settings import GroupSettings, input_settings
from flows.tables import (
    AS_FOUND,
    Reading,
    Sources,
    TableError,
    TaskColumns,
    TaskTable,
    TextTable,
    column_names,
    find_files,
    is_fetched,
    open_sources,
    open_table,
    quote,
    read_gold,
    read_labels,
    read_opened_tasks,
    read_seconds,
    refuse_hollow,
)
from quality import CrowdLabels

__all__ = ["CampaignFacts", "CampaignTables", "facts_of"]

SECONDS = "seconds"  # a column of this name is read as response times
TOP = 1000  # rows in which most columns of numbers have one
KIND, MODEL = "kind", "model"  # a worker whose rows say so is a language model, as imports write it


@dataclass(frozen=True, slots=True)
class CampaignTables:
    """The tables of a campaign, each as ``[input]`` takes it, and what the user adds about them."""

    labels: Path
    tasks: tuple[Path, ...] = ()
    gold: Path | None = None
    url_env: str | None = None
    column: str | None = None
    duplicates: Duplicates = "error"
    reading: Reading = AS_FOUND


@dataclass(frozen=True, slots=True)
class CampaignFacts:
    """What settings are chosen by. All of it is public except the class names and `norm`.

    `grades` are the class names in their order if they are obviously ordered. `several` is what stands
    between the classes of a cell where cells plainly hold several, and `nothing` the word for none of them.
    `group_sizes` are the numbers of labelled tasks of the groups that have any. `n_gold` is None without
    gold, `norm` is None without a feature to measure.
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
    texts: tuple[str, ...] = ()
    grades: tuple[str, ...] = ()
    several: str | None = None
    nothing: str | None = None

    @property
    def plainly_graded(self) -> bool:
        """Whether the grades are words of a scale or 1, 2, 3, ...; other numbers may be codes of names."""
        return bool(self.grades) and is_scale(self.grades)


def facts_of(given: CampaignTables) -> CampaignFacts:
    """Read and check the tables as a run would, and return what settings are chosen by.

    Raises
    ------
    SettingsError
        If the tables are not named as ``[input]`` takes them.
    TableError
        If a run would refuse the tables.
    """
    keys = ("labels", "tasks", "gold", "url_env", "duplicates")
    inputs = input_settings(**{key: getattr(given, key) for key in keys}, **given.reading.keys())
    first = None if is_fetched(given.labels) else find_files(given.labels)[0]
    others = () if first is None else _other_columns(first, given.reading)
    if SECONDS in others:
        inputs = inputs.model_copy(update={"seconds": SECONDS})
    with tempfile.TemporaryDirectory() as folder:
        sources = open_sources(inputs, Path(folder))
        with sources.telling():
            if first is None:
                others = _other_columns(sources.labels.table, AS_FOUND)
            found = _facts_of(given, sources, others)
    if first is None or KIND not in others or found.several is not None:
        return found
    return replace(found, models=_models(first, given.reading))


def _facts_of(given: CampaignTables, sources: Sources, others: tuple[str, ...]) -> CampaignFacts:
    """Return the facts of tables that exist; `others` are columns of the labels that are not needed."""
    opened = [open_table(source.table, ("task",)) for source in sources.tasks]
    grouped = bool(opened) and (given.column or GroupSettings().column) in opened[0].names
    texts = _texts(given, opened[0]) if opened else ()
    tasks = _tasks(given, sources, opened, grouped=grouped, texts=texts)
    del opened  # their rows are in memory
    known = None if tasks is None else tasks.names
    table = sources.labels.table
    labels = read_labels(table, classes=None, duplicates=given.duplicates, known_tasks=known)
    refuse_hollow(labels, sources.labels.name)
    gold = None if sources.gold is None else read_gold(sources.gold.table, classes=None)
    cells = set(labels.classes.tolist()) | set([] if gold is None else gold.label.tolist())
    several, nothing, named = None, None, tuple(sorted(map(str, cells)))
    if not given.reading.wide:  # which a run of sets does not read
        several, nothing, named = classes_of_cells(named)
    if SECONDS in others:
        read_seconds(table, SECONDS, labels, duplicates=given.duplicates)
    return CampaignFacts(
        n_labels=labels.n_labels,
        n_workers=labels.n_workers,
        n_labelled=labels.n_tasks,
        classes=named,
        other_columns=others,
        seconds=SECONDS if SECONDS in others and several is None else None,
        n_gold=None if gold is None else len(gold.task),
        group_sizes=_group_sizes(labels, tasks),
        n_groups=1 if tasks is None else len(tasks.group_names),
        column=given.column or GroupSettings().column,
        grouped=grouped,
        n_tasks=labels.n_tasks if tasks is None else len(tasks.names),
        n_features=0 if tasks is None else len(tasks.feature_names),
        norm=None if tasks is None else _middle_norm(tasks),
        url_env=given.url_env,
        read_as=sources.read_as,
        reading=given.reading,
        texts=texts,
        grades=() if several else grades_of(named) or (),
        several=several,
        nothing=nothing,
    )


def _tasks(
    given: CampaignTables,
    sources: Sources,
    opened: Sequence[TextTable],
    *,
    grouped: bool,
    texts: tuple[str, ...],
) -> TaskTable | None:
    """Return the task tables, if there are any; refuse a column of groups that they lack."""
    if given.column is not None and not grouped:
        none = not given.tasks
        where = "no task tables" if none else f"{sources.tasks[0].name} has no such column"
        raise TableError(
            f"--groups must name a column of the task tables, got {given.column!r}: {where}"
        )
    if not opened:
        return None
    column = given.column or GroupSettings().column
    return read_opened_tasks(opened, GroupSettings(column=column), columns=TaskColumns(shown=texts))


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
    needed = ("worker", "task", "label")
    return tuple(name for name in column_names(path, needed, reading) if name not in needed)


def _models(path: Path, reading: Reading) -> tuple[str, ...]:
    """Return the workers that the column of kinds calls models, in order."""
    table = open_table(path, ("worker", KIND), reading)
    found = table.query(f"SELECT DISTINCT worker FROM t WHERE {KIND} = ? ORDER BY worker", MODEL)
    return tuple(name for (name,) in found)


def _group_sizes(labels: CrowdLabels, tasks: TaskTable | None) -> tuple[int, ...]:
    """Return the number of labelled tasks of every group that has any."""
    if tasks is None:
        return (labels.n_tasks,)
    sizes = np.bincount(tasks.group[tasks.rows(labels.tasks)])
    return tuple(sizes[sizes > 0].tolist())


def _middle_norm(tasks: TaskTable) -> float | None:
    """Return the median length of the feature vectors that are not 0, to two digits."""
    norms = np.linalg.norm(tasks.features, axis=1)
    middle = float(np.median(norms[norms > 0])) if (norms > 0).any() else math.inf
    return float(f"{middle:.2g}") if math.isfinite(middle) else None
