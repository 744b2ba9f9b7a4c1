"""The settings file that `crowdassay init` writes: a new one, never over another."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from flows.proposal.facts import CampaignFacts, CampaignTables, facts_of
from flows.proposal.text import settings_text
from flows.settings import NAME, SettingsError

__all__ = ["write_settings"]


def write_settings(
    output: Path, given: CampaignTables, *, name: str | None = None
) -> CampaignFacts:
    """Write settings for the given tables to a new file, and return the facts that they were chosen by.

    Without `name` the campaign is named after the folder of its labels.

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
    name = _name_of(given.labels) if name is None else name
    if not re.match(NAME, name):
        raise SettingsError(
            f"--name must be letters, digits, dots, dashes and underscores, got {name!r}"
        )
    found = facts_of(given)
    text = settings_text(found, name, _paths(given, output.parent.resolve()), given.duplicates)
    try:
        with output.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise _taken(output) from None
    return found


def _taken(output: Path) -> SettingsError:
    return SettingsError(f"{output} exists and is never overwritten; name another with --output")


def _name_of(labels: Path) -> str:
    """Return the name of the labels' folder, in letters that a campaign's name may have."""
    folder = labels if labels.is_dir() else labels.parent
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", folder.resolve().name).strip("-._")
    return plain or "campaign"


def _paths(given: CampaignTables, folder: Path) -> dict[str, Sequence[str]]:
    """Return the tables' paths relative to the settings file's folder."""
    by_role = {"labels": [given.labels], "tasks": given.tasks, "gold": [given.gold]}
    return {
        role: [Path(os.path.relpath(path.resolve(), folder)).as_posix() for path in paths if path]
        for role, paths in by_role.items()
    }
