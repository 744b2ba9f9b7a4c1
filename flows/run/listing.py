"""What became of a campaign's runs: complete, running, cancelled, failed, or dead.

>>> from flows.settings import load_settings
>>> [one.state for one in list_runs(load_settings("demo/settings.toml"))]  # doctest: +SKIP
['complete', 'cancelled']

A run that was refused leaves no folder: why is in the state folder, until a run succeeds.
"""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from flows.run.history import complete_runs
from flows.run.store import MANIFEST, Run, unfinished_runs
from flows.settings import Settings

__all__ = ["ListedRun", "RunState", "list_runs", "state_of"]

RunState: TypeAlias = Literal["complete", "running", "cancelled", "failed", "died"]


@dataclass(frozen=True, slots=True)
class ListedRun:
    """A run's name, what became of it, when it began, and its whole stages."""

    name: str
    state: RunState
    started: str
    stages: tuple[str, ...]
    folder: Path

    @property
    def can_resume(self) -> bool:
        """Whether `crowdassay run --resume` goes on in it, while settings and inputs are the same."""
        return self.state in ("cancelled", "failed", "died")


def list_runs(settings: Settings) -> list[ListedRun]:
    """Return the campaign's runs that have a folder, oldest first."""
    folders = [run.folder for run in complete_runs(settings)]
    folders += [folder for folder in unfinished_runs(settings) if (folder / MANIFEST).is_file()]
    found = [_listed(Run(folder, settings)) for folder in folders]
    return sorted(found, key=lambda one: one.name)


def state_of(manifest: dict[str, Any]) -> RunState:
    """Return what became of a run; one that says it is running died if its process is no more.

    Of a process of another machine nothing is known: it counts as running.
    """
    state: RunState = manifest["state"]
    process = manifest.get("process") or {}
    if state == "running" and process.get("host") == platform.node() and not _lives(process["pid"]):
        return "died"
    return state


def _lives(pid: int) -> bool:
    """Return whether a process of this machine lives."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # it lives, and is somebody else's
        return True
    return True


def _listed(run: Run) -> ListedRun:
    manifest = run.read_json(MANIFEST)
    stages = tuple(manifest["stages"])
    return ListedRun(run.final_name, state_of(manifest), manifest["started"], stages, run.folder)
