"""Runs that this campaign has made: all that are complete, and whether there is anything new since."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from flows.run.store import MANIFEST, Run, code_version, file_digest
from flows.settings.settings import Settings
from flows.tables.input_files import input_paths, is_query

__all__ = ["complete_runs", "same_work", "unchanged_run"]

NEEDED = (MANIFEST, "inputs.json", "quality.json", "proportions.json", "spend.json", "report.html")


def complete_runs(settings: Settings) -> list[Run]:
    """Complete runs of the campaign, in the order they were started; one that lacks a file is none."""
    named = re.compile(rf"(\d{{8}}T\d{{6}}Z)-{re.escape(settings.name)}(?:-(\d+))?")
    found = []
    for folder in settings.runs.glob(f"*-{settings.name}*"):
        place = named.fullmatch(folder.name)
        if place is None or not all((folder / name).is_file() for name in NEEDED):
            continue
        run = Run(folder, settings)
        said = run.read_json(MANIFEST)
        if (said["name"], said["state"]) == (settings.name, "complete"):
            found.append((place[1], int(place[2] or 1), run))
    return [run for *_, run in sorted(found, key=lambda one: one[:2])]


def unchanged_run(settings: Settings, identity: str) -> Run | None:
    """The newest complete run, if another would have its inputs, settings and code version.

    What a query answers is fetched aside and compared by its digest.
    """
    newest = next(iter(reversed(complete_runs(settings))), None)
    if newest is None or newest.work() != {"identity": identity} | code_version():
        return None
    return (
        newest if all(_same_answer(newest, *one) for one in input_paths(settings.input)) else None
    )


def same_work(one: Run, other: Run) -> bool:
    """Whether two runs had the same inputs, settings and code version."""
    if one.work() != other.work():
        return False
    first, second = (run.read_json("inputs.json")["files"] for run in (one, other))
    return bool(first == second)


def _same_answer(run: Run, role: str, path: Path) -> bool:
    """Whether a query has the answer that a run has read; files are known by their digests already."""
    if not is_query(path):
        return True
    from flows.tables.sql import fetch  # a client of databases, for a query only

    with tempfile.TemporaryDirectory(dir=run.settings.runs, prefix=".asked-") as folder:
        answer = Path(folder) / "answer.parquet"
        fetch(path, run.settings.input.url_env, answer)
        one = {"role": role, "name": path.name, "sha256": file_digest(answer)}
    return one in run.read_json("inputs.json")["files"]
