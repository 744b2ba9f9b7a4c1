"""Which runs are kept: the newest, one to go on in, others by number or age; what outlives runs never goes.

>>> from flows.run import limit_of
>>> limit_of("30 days")
datetime.timedelta(days=30)

A run's folder holds its labels, coded, and every table of its stages: at ten million labels some hundred MB.
The state folder, with the ledger and its key, is no run and is never touched.
"""

from __future__ import annotations

import re
import shutil
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from flows.run.history import while_others_prune
from flows.run.listing import state_of
from flows.run.store import (
    MANIFEST,
    PARTIAL,
    PRUNED,
    Run,
    alone_with,
    find_unfinished,
    has_digest_key,
    identity_of,
    unfinished_runs,
)
from flows.settings import Settings, SettingsError

__all__ = ["limit_of", "prune_runs", "runs_to_prune"]

KEEP = r"([1-9]\d*)( days?)?"
DAY = 24 * 60 * 60.0  # seconds
MOST_DIGITS = 5  # of an age in days: dates do not reach further back


def limit_of(keep: int | str) -> int | timedelta:
    """Return how many runs are kept, or up to which age; SettingsError for another text."""
    found = re.fullmatch(KEEP, str(keep).strip())
    if found is None or (found[2] and len(found[1]) > MOST_DIGITS):
        raise SettingsError(
            'what is kept must be a number of runs, such as 20, or an age, such as "90 days" (99999 '
            "at most), "
            f"got {keep!r}"
        )
    return timedelta(days=int(found[1])) if found[2] else int(found[1])


def runs_to_prune(settings: Settings, keep: int | str, *, ended: Run | None = None) -> list[Run]:
    """Return the campaign's runs that may be removed, oldest first: complete ones, then unfinished ones.

    Notes
    -----
    **Guarantees.** (1) The newest complete run is kept, and so are the run that has just `ended`, though
    others that began after it may have ended before, and a run that did not end if it is at work,
    or `--resume` goes on in it. (2) The run whose manifest shows the ledger at its longest is kept: by it
    a ledger that was set back is noticed.
    """
    limit = limit_of(keep)
    found = while_others_prune(settings, lambda runs: _to_prune(settings, limit, runs))
    return [run for run in found if ended is None or run.folder != ended.folder]


def _to_prune(settings: Settings, limit: int | timedelta, runs: list[Run]) -> list[Run]:
    """Return the complete runs, and the unfinished ones, that may be removed."""
    left = _left_behind(settings)
    if isinstance(limit, int):
        old = runs[:-limit]
    else:
        oldest = datetime.now(UTC) - limit
        old = [run for run in runs[:-1] if _ended(run) < oldest]
    paid = [run for run in left + runs if _ledger_rows(run)]
    witness = max(reversed(paid), key=_ledger_rows, default=None)  # the newest of equals
    return [run for run in old + left if witness is None or run.folder != witness.folder]


def prune_runs(settings: Settings, keep: int | str, *, ended: Run | None = None) -> list[Run]:
    """Remove the runs that `runs_to_prune` names, and return those that this call has removed.

    Notes
    -----
    **Guarantees.** (1) Several processes may prune at once: a run that another has removed
    meanwhile, or begun to go on in, is no error, and is left to it. (2) Where the file system has locks, the
    run that another process has ended, or found to be what it was asked for, stays until that process ends
    or holds another run. (3) What killed processes left goes too: halves of pruned runs, and, after a day,
    folders of runs that never began.
    """
    gone = []
    for run in runs_to_prune(settings, keep, ended=ended):
        # another may have removed it by now
        with suppress(FileNotFoundError), alone_with(run.folder) as alone:
            if alone and run.hold():
                run.discard()
                gone.append(run)
    _sweep(settings)
    return gone


def _sweep(settings: Settings) -> None:
    """Remove what killed processes left: halves of pruned runs, and folders of runs that never began.

    The latter hold nothing but a lock and files half written. A run that begins just now looks the same, so
    they go once they have stood for a day.
    """
    for left in settings.runs.glob(f"{PRUNED}*-{settings.name}*"):
        shutil.rmtree(left, ignore_errors=True)
    for left in settings.runs.glob(f"{PARTIAL}*-{settings.name}*"):
        with suppress(FileNotFoundError, NotADirectoryError):  # it has just ended, or is no folder
            stands = time.time() - left.stat().st_mtime
            if stands > DAY and all(one.name.startswith(".") for one in left.iterdir()):
                shutil.rmtree(left, ignore_errors=True)


def _left_behind(settings: Settings) -> list[Run]:
    """Return unfinished runs that `--resume` would not go on in.

    Without the key of their inputs' digests, no run is known to be left behind.
    """
    stopped = [run for run in unfinished_runs(settings) if _has_stopped(run)]
    if not stopped or not has_digest_key(settings):
        return []
    resumed = find_unfinished(settings, identity_of(settings))
    return [run for run in reversed(stopped) if resumed is None or run.folder != resumed.folder]


def _has_stopped(run: Run) -> bool:
    """Return whether an unfinished run exists on which no process works."""
    try:
        return state_of(run) != "running"
    except FileNotFoundError:  # it has just ended, or is removed
        return False


def _ended(run: Run) -> datetime:
    return datetime.fromisoformat(run.read_json(MANIFEST)["ended"])


def _ledger_rows(run: Run) -> int:
    head = None
    with suppress(FileNotFoundError):  # it has just ended, or is removed: another is the witness
        head = run.read_json(MANIFEST).get("ledger")
    return 0 if head is None else int(head["n_rows"])
