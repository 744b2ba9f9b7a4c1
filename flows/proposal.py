"""Settings proposed from the tables of a campaign: a commented TOML file that runs as it is."""

from __future__ import annotations

import math
import os
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import ValidationError

from flows.init_sections import Found, settings_text
from flows.settings.section import SettingsError, fault_sentence
from flows.settings.sections import GroupSettings, InputSettings
from flows.settings.settings import NAME
from flows.tables.input_files import find_files, is_query
from flows.tables.label_seconds import read_seconds
from flows.tables.sources import Sources, open_sources
from flows.tables.tables import (
    TableError,
    TaskTable,
    read_gold,
    read_labels,
    read_tasks,
    refuse_hollow,
)
from flows.tables.text_table import open_table
from quality import CrowdLabels

__all__ = ["Shown", "look_at", "write_settings"]

SECONDS = "seconds"  # the column of response times that is taken up without asking


@dataclass(frozen=True, slots=True)
class Shown:
    """The tables of a campaign, each as `input` takes it, and what is told about them beside."""

    labels: Path
    tasks: tuple[Path, ...] = ()
    gold: Path | None = None
    url_env: str | None = None
    column: str | None = None
    duplicates: Literal["error", "first", "last"] = "error"


def write_settings(output: Path, shown: Shown, *, name: str | None = None) -> Found:
    """Write settings for the tables shown to a new file, and tell what was found in them.

    Without a name, the campaign takes that of the folder of its labels.

    Raises
    ------
    SettingsError
        If the file exists, or the name cannot be one.
    TableError
        If a run would refuse the tables.
    """
    if output.exists():
        raise _taken(output)
    if not output.parent.is_dir():
        raise SettingsError(f"the folder of --output must exist, got {output}")
    name = _name_of(shown.labels) if name is None else name
    if not re.match(NAME, name):
        raise SettingsError(
            f"--name must be letters, digits, dots, dashes and underscores, got {name!r}"
        )
    found = look_at(shown)
    text = settings_text(found, name, _paths(shown, output.parent.resolve()), shown.duplicates)
    try:
        with output.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise _taken(output) from None
    return found


def look_at(shown: Shown) -> Found:
    """Read and check the tables as a run would, and keep what settings are chosen by."""
    try:
        inputs = InputSettings.model_validate(
            {
                "labels": shown.labels,
                "tasks": shown.tasks,
                "gold": shown.gold,
                "url_env": shown.url_env,
                "duplicates": shown.duplicates,
            }
        )
    except ValidationError as error:
        raise SettingsError(fault_sentence(error, InputSettings)) from None
    first = None if is_query(shown.labels) else find_files(shown.labels)[0]
    if first is not None and SECONDS in _other_columns(first):
        inputs = inputs.model_copy(update={"seconds": SECONDS})
    with tempfile.TemporaryDirectory() as folder:
        sources = open_sources(inputs, Path(folder))
        with sources.telling():
            return _look_at(shown, sources, first or sources.labels.table)


def _look_at(shown: Shown, sources: Sources, first: Path) -> Found:
    """What is found in tables that are there; `first` has the columns of the labels."""
    grouped = _has_column(shown, sources)
    tasks = _tasks(shown, sources, grouped=grouped)
    known = None if tasks is None else tasks.names
    table = sources.labels.table
    labels = read_labels(table, classes=None, duplicates=shown.duplicates, known_tasks=known)
    refuse_hollow(labels, sources.labels.name)
    gold = None if sources.gold is None else read_gold(sources.gold.table, classes=None)
    named = set(labels.classes.tolist()) | set([] if gold is None else gold.label.tolist())
    others = _other_columns(first)
    if SECONDS in others:
        read_seconds(table, SECONDS, labels, duplicates=shown.duplicates)
    return Found(
        n_labels=labels.n_labels,
        n_workers=labels.n_workers,
        n_labelled=labels.n_tasks,
        classes=tuple(sorted(map(str, named))),
        other_columns=others,
        seconds=SECONDS if SECONDS in others else None,
        n_gold=None if gold is None else len(gold.task),
        group_sizes=_group_sizes(labels, tasks),
        n_groups=1 if tasks is None else len(tasks.group_names),
        column=shown.column or GroupSettings().column,
        grouped=grouped,
        n_tasks=labels.n_tasks if tasks is None else len(tasks.names),
        n_features=0 if tasks is None else len(tasks.feature_names),
        norm=None if tasks is None else _middle_norm(tasks),
        url_env=shown.url_env,
    )


def _taken(output: Path) -> SettingsError:
    return SettingsError(f"{output} exists and is never overwritten; name another with --output")


def _tasks(shown: Shown, sources: Sources, *, grouped: bool) -> TaskTable | None:
    """The task tables, if there are any; a column of groups that is asked for must be there."""
    if shown.column is not None and not grouped:
        none = not shown.tasks
        where = "no task tables" if none else f"{sources.tasks[0].name} has no such column"
        raise TableError(
            f"--groups must name a column of the task tables, got {shown.column!r}: {where}"
        )
    if not sources.tasks:
        return None
    column = shown.column or GroupSettings().column
    return read_tasks([source.table for source in sources.tasks], GroupSettings(column=column))


def _has_column(shown: Shown, sources: Sources) -> bool:
    column = shown.column or GroupSettings().column
    first = next(iter(sources.tasks), None)
    return first is not None and column in open_table(first.table, ("task",)).names


def _other_columns(path: Path) -> tuple[str, ...]:
    needed = ("worker", "task", "label")
    return tuple(name for name in open_table(path, needed).names if name not in needed)


def _group_sizes(labels: CrowdLabels, tasks: TaskTable | None) -> tuple[int, ...]:
    """Labelled tasks of every group that has any."""
    if tasks is None:
        return (labels.n_tasks,)
    sizes = np.bincount(tasks.group[tasks.rows(labels.tasks)])
    return tuple(sizes[sizes > 0].tolist())


def _middle_norm(tasks: TaskTable) -> float | None:
    """The median length of the feature vectors that are not 0, to two digits."""
    norms = np.linalg.norm(tasks.features, axis=1)
    middle = float(np.median(norms[norms > 0])) if (norms > 0).any() else math.inf
    return float(f"{middle:.2g}") if math.isfinite(middle) else None


def _name_of(labels: Path) -> str:
    """A name for the campaign: that of its labels' folder, in letters that a name may have."""
    folder = labels if labels.is_dir() else labels.parent
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", folder.resolve().name).strip("-._")
    return plain or "campaign"


def _paths(shown: Shown, folder: Path) -> dict[str, Sequence[str]]:
    """The tables' paths as seen from the settings file's folder."""
    given = {"labels": [shown.labels], "tasks": shown.tasks, "gold": [shown.gold]}
    return {
        role: [Path(os.path.relpath(path.resolve(), folder)).as_posix() for path in paths if path]
        for role, paths in given.items()
    }
