"""Commands for whoever runs the machine: runs, prune, doctor and warm."""

from __future__ import annotations

import json
import os
import platform
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from flows.cli.kernels import compile_kernels, where_kept
from flows.cli.root import (
    MISTAKE,
    AsJson,
    Quiet,
    app,
    console,
    counted,
    mistakes,
    print_line,
    waiting_for,
)
from flows.files import KEY

if TYPE_CHECKING:
    from flows.run import ListedRun

__all__ = ["doctor", "prune", "runs", "warm"]

OPTIONAL = {"excel": "python-calamine", "postgres": "psycopg", "scale": "distributed"}
NEEDED = ("crowdassay", "duckdb", "numba", "numpy", "opendp", "prefect", "pyarrow")
FREE_GB = 1.0  # below it a run of a large campaign may fail
State = Annotated[Path | None, typer.Argument(help="the campaign's state folder")]


@app.command(epilog='Example: `crowdassay prune settings.toml --keep "90 days"`')
def prune(
    settings: Annotated[Path, typer.Argument(help="settings file (TOML)")],
    keep: Annotated[
        str | None,
        typer.Option(help="runs to keep, by number or age [default: keep_runs of the settings]"),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="only say which would go")] = False,
    quiet: Quiet = False,
) -> None:
    """Remove old runs of a campaign: never the newest, one that --resume goes on in, or the state folder."""
    with mistakes():
        from flows.run import prune_runs, runs_to_prune  # the rooms, for this command only
        from flows.settings import SettingsError, load_settings

        chosen = load_settings(settings)
        kept = chosen.keep_runs if keep is None else keep
        if kept is None:
            raise SettingsError(
                'how many runs to keep must be given: --keep 20, --keep "90 days", or keep_runs in the '
                "settings"
            )
        gone = (runs_to_prune if dry_run else prune_runs)(chosen, kept)
        for run in gone:
            print_line(f"{'would remove' if dry_run else 'removed'} {run.folder}")
        went = "would go" if dry_run else "is gone" if len(gone) == 1 else "are gone"
        print_line(f"{counted(len(gone), 'run')} {went}")


@app.command(epilog="Example: `crowdassay runs settings.toml`")
def runs(
    settings: Annotated[Path, typer.Argument(help="settings file (TOML)")],
    json_: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """List a campaign's runs: complete, running, cancelled, failed or died, and why the newest failed."""
    with mistakes():
        from flows.run import last_failure, list_runs  # the rooms, for this command only
        from flows.settings import load_settings

        chosen = load_settings(settings)
        found, failure = list_runs(chosen), last_failure(chosen.state, chosen.name)
        if json_:
            listed = [one._asdict() for one in map(_run_facts, found)]
            print(json.dumps({"runs": listed, "last_failure": failure}, indent=1))
            return
        from flows.terminal import print_rows  # loads the rooms

        rows = [
            [one.name, one.state, one.started.replace("T", " "), one.stages]
            for one in map(_run_facts, found)
        ]
        if rows:
            print_rows(console(), "Runs", ["run", "state", "started", "whole stages"], rows)
        else:
            print_line(f"{chosen.name} has no runs in {chosen.runs}")
        if failure is not None:
            print_line(f"the newest run failed at {failure['time']}: {failure['why']}")
        if any(one.can_resume for one in found):
            print_line(
                f"crowdassay run {shlex.quote(str(settings))} --resume goes on in the newest that did not "
                "end, if settings, inputs and version are the same"
            )


class RunFacts(NamedTuple):
    """A run in words."""

    name: str
    state: str
    started: str
    stages: str
    folder: str


def _run_facts(one: ListedRun) -> RunFacts:
    stages = f"{len(one.stages)}" + (f", the last {one.stages[-1]}" if one.stages else "")
    return RunFacts(one.name, one.state, one.started, stages, str(one.folder))


class Finding(NamedTuple):
    """One check: its subject, whether it is sound, and the finding."""

    what: str
    sound: bool
    found: str


@app.command(epilog="Example: `crowdassay doctor state`")
def doctor(state: State = None, json_: AsJson = False, quiet: Quiet = False) -> None:
    """Look at what runs need: versions, kernels, Prefect, disk, and with a state folder its ledger."""
    with mistakes():
        findings = [one for look in _looks(state) for one in look()]
        if json_:
            print(json.dumps([one._asdict() for one in findings], indent=1))
        else:
            from flows.terminal import print_rows  # loads the rooms

            rows = [["sound" if one.sound else "look", one.what, one.found] for one in findings]
            print_rows(console(), "What runs need", ["", "what", "found"], rows)
    if not all(one.sound for one in findings):
        raise typer.Exit(MISTAKE)


def _looks(state: Path | None) -> list[Callable[[], Iterator[Finding]]]:
    looks = [_versions, _kernels, _prefect, lambda: _disk(state or Path.cwd())]
    return looks if state is None else [*looks, lambda: _ledger(state)]


def _versions() -> Iterator[Finding]:
    from importlib.metadata import PackageNotFoundError, version  # for this command only

    yield Finding("Python", sys.version_info >= (3, 11), platform.python_version())
    for name in NEEDED:
        yield Finding(name, True, version(name))
    for extra, name in OPTIONAL.items():
        try:
            yield Finding(name, True, version(name))
        except PackageNotFoundError:
            yield Finding(name, True, f"not installed: pip install 'crowdassay[{extra}]'")


def _kernels() -> Iterator[Finding]:
    from flows.cli.kernels import where_kept  # the kernels' cache, for this command only

    yield Finding("compiled kernels", True, where_kept())


def _prefect() -> Iterator[Finding]:
    from flows.prefect import api_reachable  # for this command only

    reached = api_reachable()
    asked = os.environ.get("PREFECT_API_URL")
    missing = f"{asked} does not answer" if asked else "no API is configured: runs are in process"
    yield Finding("Prefect", reached is not None or asked is None, reached or missing)


def _disk(folder: Path) -> Iterator[Finding]:
    there = next(one for one in (folder.resolve(), *folder.resolve().parents) if one.exists())
    free = shutil.disk_usage(there).free / 1e9
    yield Finding("free disk", free > FREE_GB, f"{free:,.1f} GB at {there}")


def _ledger(state: Path) -> Iterator[Finding]:
    from flows.run import last_failure  # the rooms and the ledger, for this command only
    from flows.spending import existing_ledger
    from privacy import LedgerError

    open_to_others = state.is_dir() and state.stat().st_mode & 0o077
    found = f"{state} is {oct(state.stat().st_mode & 0o777)}" if state.is_dir() else "not there"
    advice = f"{found}; chmod 700 {shlex.quote(str(state))} closes it to others"
    sound = state.is_dir() and not open_to_others
    yield Finding("state folder", sound, advice if open_to_others else found)
    key = state / KEY
    # as after a restore; runs use such a key, and refuse such a ledger
    if key.is_file() and (mode := key.stat().st_mode) & 0o077:
        closed = f"chmod 600 {shlex.quote(str(key))} closes it to others"
        yield Finding(KEY, False, f"{key} is {oct(mode & 0o777)}; {closed}")
    failure = last_failure(state)
    if failure is not None:
        of = f"of {failure['campaign']}, " if "campaign" in failure else ""
        yield Finding("newest run", False, f"{of}failed at {failure['time']}: {failure['why']}")
    try:
        n_rows = existing_ledger(state).verify()
        yield Finding("ledger", True, f"{counted(n_rows, 'row')}, each as it was written")
    except LedgerError as error:
        yield Finding("ledger", False, str(error))


@app.command(epilog="Example: `crowdassay warm`, with NUMBA_CACHE_DIR set where an image is built")
def warm(quiet: Quiet = False) -> None:
    """Compile the loops that runs need, so that no run has to: for images, and after an upgrade."""
    with mistakes():
        began = time.process_time()
        with waiting_for("warm") as progress:
            n_compiled = compile_kernels(progress)
        seconds = time.process_time() - began
        console().print(
            f"{n_compiled} kernels compiled in {seconds:.0f} s of processor time; {where_kept()}",
            soft_wrap=True,
            markup=False,
        )
