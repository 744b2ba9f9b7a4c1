"""What became of a campaign's runs: complete, running, cancelled, failed, or died.

>>> from flows.settings import load_settings
>>> [one.state for one in list_runs(load_settings("demo/settings.toml"))]  # doctest: +SKIP
['complete', 'cancelled']

A run that was refused for its tables or settings leaves no folder. Why one failed is in the state folder,
until a run succeeds. That sentence may hold what the data hold, so that it stays where the ledger is, open to
its owner alone: a scheduler gets the type of the error, never the sentence.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

from flows.files import OutputError, file_digest, write_whole
from flows.run.history import complete_runs
from flows.run.store import (
    HOUSEKEEPING,
    MANIFEST,
    PARTIAL,
    Run,
    at_work,
    by_name,
    digest_key,
    find_unfinished,
    has_digest_key,
    identity_of,
    other_versions,
    unfinished_runs,
)
from flows.settings import EngineError, Settings
from flows.tables import input_files, input_paths, is_fetched, read_json

__all__ = [
    "LAST_FAILURE", "ListedRun", "RunState", "forget_failure", "last_failure", "list_runs", "note_failure",
    "refuse_unfinished", "state_of", "why_begun_anew",
]  # fmt: skip

LAST_FAILURE = "last_failure.json"

RunState: TypeAlias = Literal["complete", "running", "cancelled", "failed", "died"]


@dataclass(frozen=True, slots=True)
class ListedRun:
    """A run's name, its status, when it began, and its whole stages."""

    name: str
    state: RunState
    started: str
    stages: tuple[str, ...]
    folder: Path

    @property
    def can_resume(self) -> bool:
        """Whether `crowdassay run --resume` goes on in it while settings, inputs and version are the same."""
        return self.state in ("cancelled", "failed", "died")


def list_runs(settings: Settings) -> list[ListedRun]:
    """Return the campaign's runs that have a folder, oldest first."""
    found = []
    for run in complete_runs(settings) + unfinished_runs(settings):
        with suppress(FileNotFoundError):  # it has just ended, or is removed
            found.append(_listed(run))
    return sorted(found, key=lambda one: one.name)


def state_of(run: Run) -> RunState:
    """Return the status of a run; a run marked running has died if its process is gone.

    So has one that is marked complete and lacks its final name. Where no lock is held, a process of another
    machine cannot be checked: it counts as running.
    """
    if at_work(run) is not None:
        return "running"
    manifest = run.read_json(MANIFEST)
    state: RunState = manifest["state"]
    if state == "complete" and run.folder.name.startswith(PARTIAL):
        return "died"
    process = manifest.get("process") or {}
    return "died" if state == "running" and process.get("host") == platform.node() else state


def _listed(run: Run) -> ListedRun:
    started = run.read_json(MANIFEST)["started"]
    return ListedRun(run.final_name, state_of(run), started, run.whole_stages, run.folder)


def why_begun_anew(settings: Settings) -> str | None:
    """Return why `--resume` begins a new run: versions, settings or inputs of the newest that stopped.

    None where it goes on in a run, or where none has stopped.
    """
    stopped = next((one for one in reversed(list_runs(settings)) if one.can_resume), None)
    if stopped is None:
        return None
    if has_digest_key(settings) and find_unfinished(settings, identity_of(settings)) is not None:
        return None
    with suppress(FileNotFoundError):  # another process has just ended the run, or removed it
        why = _what_differs(Run(stopped.folder, settings))
        return f"the newest run that did not end ({stopped.folder}) began {why}"
    return None


def _what_differs(run: Run) -> str:
    """Return the versions, settings or inputs that have changed since a run began.

    Inputs are known by name once the run has read them.
    """
    if versions := other_versions(run):
        return f"under {'; '.join(versions)}"
    if keys := _other_keys(run.read_json(MANIFEST)["settings"], run.settings):
        return f"with other settings: {', '.join(keys)}"
    if not has_digest_key(run.settings):
        return f"when {run.settings.state} had the key of its inputs, which it lacks now"
    files = _other_files(run) if (run.folder / "inputs.json").is_file() else []
    return f"with other inputs{': ' * bool(files)}{', '.join(files)}"


def _other_keys(begun: Mapping[str, Any], settings: Settings) -> list[str]:
    """Return the keys of the settings, each with its section, whose values differ; files by their names."""
    now = settings.model_dump(mode="json")
    found: list[str] = []
    for section in sorted((begun.keys() | now.keys()) - HOUSEKEEPING):
        one, other = begun.get(section), now.get(section)
        if not (isinstance(one, dict) and isinstance(other, dict)):
            in_brackets = isinstance(one, dict) or isinstance(other, dict)
            found += [f"[{section}]" if in_brackets else section] * (one != other)
            continue
        if section == "input":
            one, other = ({key: _named(of[key]) for key in of} for of in (one, other))
        found += [
            f"[{section}] {key}"
            for key in sorted(one.keys() | other.keys())
            if one.get(key) != other.get(key)
        ]
    return found


def _named(value: Any) -> Any:
    """Return a value of the input's settings as JSON has it, files by their names: a campaign may move.

    >>> _named(["/campaign/tasks.csv", "s3://crowd/tasks.csv"])
    ['tasks.csv', 's3:/crowd/tasks.csv']
    """
    if isinstance(value, list):
        return [_named(one) for one in value]
    return str(by_name(Path(value))) if isinstance(value, str) else value


def _other_files(run: Run) -> list[str]:
    """Return the names of input files that have changed since a run read them, or are new, or gone."""
    key = digest_key(run.settings)
    files = [one for one in input_files(run.settings.input) if not is_fetched(one[1])]
    now = {
        (role, path.name, file_digest(path, key) if path.is_file() else "") for role, path in files
    }
    fetched = {path.name for _, path in input_paths(run.settings.input) if is_fetched(path)}
    read = {
        (one["role"], one["name"], one["digest"])
        for one in run.read_json("inputs.json")["files"]
        if one["name"] not in fetched
    }
    return sorted({name for _, name, _ in now ^ read})


def refuse_unfinished(folder: Path, *needed: str) -> None:
    """Raise FileNotFoundError unless a folder has these files, as that of a finished run has.

    >>> refuse_unfinished(Path("runs/none"), "spend.json")
    Traceback (most recent call last):
    FileNotFoundError: runs/none must be the folder of a finished run; the file spend.json is not in it
    """
    missing = next((name for name in needed if not (folder / name).is_file()), None)
    if missing is not None:
        raise FileNotFoundError(
            f"{folder} must be the folder of a finished run; the file {missing} is not in it"
        )


def note_failure(state: Path, error: BaseException, why: str, *, campaign: str) -> None:
    """Write why a run failed, in place of the failure before; without a state folder nothing is written.

    A note that cannot be written, on a full disk for one, does not hide the failure, which the caller shows.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     error = ValueError("labels.csv is empty")
    ...     note_failure(Path(folder), error, "labels.csv is empty", campaign="posts")
    ...     last_failure(Path(folder))["why"]
    'labels.csv is empty'
    """
    if not state.is_dir():
        return
    found = {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "campaign": campaign,
        "error": type(error).__name__,
        "why": why,
    }
    text = json.dumps(found, indent=1, ensure_ascii=False) + "\n"

    def write(aside: Path) -> None:
        opener = partial(os.open, mode=0o600)
        with open(aside, "w", encoding="utf-8", opener=opener) as file:
            file.write(text)

    with suppress(OSError, OutputError):
        write_whole(state / LAST_FAILURE, write)


def forget_failure(state: Path, campaign: str) -> None:
    """Remove what `note_failure` wrote of a campaign: a run of it has succeeded since."""
    if last_failure(state, campaign) is not None:
        (state / LAST_FAILURE).unlink(missing_ok=True)


def last_failure(state: Path, campaign: str | None = None) -> dict[str, str] | None:
    """Return time, campaign, error and sentence of the newest run if it failed, else None.

    Given a campaign, one of several that share the state folder, its failures alone count.
    """
    path = state / LAST_FAILURE
    if not path.is_file():
        return None
    try:
        found: dict[str, str] = read_json(path)
    except EngineError:  # a damaged note must not end a run that has succeeded
        return None
    return found if campaign in (None, found.get("campaign", campaign)) else None
