"""Settings proposed from the tables of a campaign: a commented TOML file that runs as it is."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from flows.init_sections import Found, settings_text
from flows.label_seconds import read_seconds
from flows.section import SettingsError
from flows.settings import NAME
from flows.settings_sections import GroupSettings
from flows.tables import TableError, TaskTable, read_gold, read_labels, read_tasks, refuse_hollow
from flows.text_table import open_table
from quality import CrowdLabels

__all__ = ["Shown", "look_at", "write_settings"]

SECONDS = "seconds"  # the column of response times that is taken up without asking


@dataclass(frozen=True, slots=True)
class Shown:
    """The tables of a campaign, and what is told about them beside."""

    labels: Path
    tasks: tuple[Path, ...] = ()
    gold: Path | None = None
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
    grouped = _has_column(shown)
    tasks = _tasks(shown, grouped=grouped)
    known = None if tasks is None else tasks.names
    labels = read_labels(shown.labels, classes=None, duplicates=shown.duplicates, known_tasks=known)
    refuse_hollow(labels, shown.labels.name)
    gold = None if shown.gold is None else read_gold(shown.gold, classes=None)
    named = set(labels.classes.tolist()) | set([] if gold is None else gold.label.tolist())
    others = _other_columns(shown.labels)
    if SECONDS in others:
        read_seconds(shown.labels, SECONDS, labels, duplicates=shown.duplicates)
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
    )


def _taken(output: Path) -> SettingsError:
    return SettingsError(f"{output} exists and is never overwritten; name another with --output")


def _tasks(shown: Shown, *, grouped: bool) -> TaskTable | None:
    """The task tables, if there are any; a column of groups that is asked for must be there."""
    if shown.column is not None and not grouped:
        where = f"{shown.tasks[0].name} has no such column" if shown.tasks else "no task tables"
        raise TableError(
            f"--groups must name a column of the task tables, got {shown.column!r}: {where}"
        )
    if not shown.tasks:
        return None
    column = shown.column or GroupSettings().column
    return read_tasks(shown.tasks, GroupSettings(column=column))


def _has_column(shown: Shown) -> bool:
    column = shown.column or GroupSettings().column
    return bool(shown.tasks) and column in open_table(shown.tasks[0], ("task",)).names


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
    """A name for the campaign: that of the folder of its labels, in letters that a name may have."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", labels.resolve().parent.name).strip("-._")
    return plain or "campaign"


def _paths(shown: Shown, folder: Path) -> dict[str, Sequence[str]]:
    """The tables' paths as seen from the settings file's folder."""
    given = {"labels": [shown.labels], "tasks": shown.tasks, "gold": [shown.gold]}
    return {
        role: [Path(os.path.relpath(path.resolve(), folder)).as_posix() for path in paths if path]
        for role, paths in given.items()
    }
