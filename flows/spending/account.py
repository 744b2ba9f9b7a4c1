"""The campaign's account in the ledger: where the ledger is, what may be spent, and what was spent.

>>> with open_state(Path("state")) as ledger:  # doctest: +SKIP
...     statement(ledger, "web-2026")["left"]
{'epsilon': 1.5, 'delta': 0.0}
"""

from __future__ import annotations

import contextlib
import math
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flows.files import LEDGER, state_key
from flows.run import Run, ledger_heads
from flows.settings import SettingsError
from privacy import Cost, Head, Ledger, LedgerError, Part, Statement, fits
from privacy.accounting import exact

if TYPE_CHECKING:
    from flows.settings import PrivacySettings, Settings

__all__ = [
    "LedgerSetBack", "check_not_set_back", "existing_ledger", "known_ledger", "known_statement", "numbers",
    "open_account", "open_state", "paying", "read_statements", "server_url", "statement",
]  # fmt: skip

LEDGER_URL = "CROWDASSAY_LEDGER"  # its password, if any, stays out of settings and run folders
PLAN_FIELDS = ("entry", "name", "n_releases", "used")  # of a plan, in a statement


class LedgerSetBack(LedgerError):
    """The ledger is older than a run that it has paid for; nothing was spent, and no folder removed."""


@contextlib.contextmanager
def paying(run: Run, privacy: PrivacySettings, *, n: int) -> Iterator[Ledger]:
    """Open the account for what a run pays; the run's manifest then holds the ledger's head.

    Raises
    ------
    LedgerSetBack
        If the ledger has not grown from where it was after each of the campaign's runs.
    SettingsError, LedgerError
        As `open_account`.
    """
    ledger = open_account(run.settings, privacy, n=n)
    check_not_set_back(run.settings, ledger)
    try:
        yield ledger
    finally:
        head = ledger.head()
        run.keep_head(head.n_rows, head.seal)


def check_not_set_back(settings: Settings, ledger: Ledger | None) -> None:
    """Raise LedgerSetBack unless a ledger, None if there is none, holds what the campaign's runs paid.

    A run's manifest has the ledger's number of rows and the keyed seal of its head. Rows that others add
    do not matter, nor do runs that were deleted, or copied with their ledger. A run that was killed within a
    stage notes what that stage paid when it is resumed.
    """
    paid = {Head(*head): name for head, name in ledger_heads(settings).items()}
    lacking = tuple(paid) if ledger is None else ledger.lacking(paid)
    if lacking:
        newest = max(lacking, key=lambda head: head.n_rows)
        now = "is missing" if ledger is None else f"has {ledger.head().n_rows:,} rows"
        raise LedgerSetBack(
            f"the ledger {now} and lacks what it held, {newest.n_rows:,} rows, when it had paid for the "
            f"run {paid[newest]}: an older copy or another ledger is in its place, and what was spent "
            "since would be spent again. Nothing was spent. Put the newest ledger back; if it is lost, "
            f"see how much that run had spent (spend.json), and move it out of {settings.runs}"
        )


def open_account(settings: Settings, privacy: PrivacySettings, *, n: int) -> Ledger:
    """Open the ledger with this campaign's budget; `n` is the public number of labelled tasks."""
    ledger = open_state(settings.state)
    try:
        ledger.open_budget(
            settings.name, unit=privacy.unit, epsilon=privacy.epsilon, delta=privacy.delta, n=n
        )
    except ValueError as error:  # public numbers of the settings that do not fit the data's size
        raise SettingsError(f"[privacy]: {error}") from None
    return ledger


def server_url() -> str | None:
    """Return the URL of the ledger's server, or None if the ledger is a file in the state folder.

    Raise SettingsError if the environment variable CROWDASSAY_LEDGER holds anything else. A file would be
    another ledger in every folder that one works in, and a blank is a secret that this machine lacks.
    """
    url = os.environ.get(LEDGER_URL)
    if url is not None and "://" not in url:
        found = "what it holds is no URL" if url.strip() else "it is blank"
        raise SettingsError(
            f"{LEDGER_URL} must hold the URL of a PostgreSQL database, and {found}: give "
            "postgresql+psycopg://user:password@host:port/database, or unset it for one in the state folder"
        )
    return url


def open_state(folder: Path) -> Ledger:
    """Open the ledger of a state folder, which is made if it is missing (mode 0700).

    If the environment variable CROWDASSAY_LEDGER holds the URL of a PostgreSQL database, the ledger is
    there, and the folder holds the key alone: every machine needs that same key.
    """
    url = server_url()
    key = state_key(folder)
    if url is not None:
        try:
            return Ledger(url, key=key)
        except ValueError as error:
            raise SettingsError(f"{LEDGER_URL}: {error}") from None
    path = folder / LEDGER
    if path.exists() and not path.stat().st_mode & stat.S_IWUSR:
        raise LedgerError(f"{path} is read-only; make it writable (chmod u+w); nothing was spent")
    if not os.access(folder, os.W_OK):  # a reader too writes there: its lock beside the ledger
        raise LedgerError(
            f"the state folder {folder} is read-only, and the ledger is not read without a lock beside it; "
            "make it writable (chmod u+w), or read a copy; nothing was spent"
        )
    if path.exists() and not os.access(path, os.R_OK | os.W_OK):
        raise LedgerError(
            f"{path} must be readable and writable by the user who runs this; give it back to that user "
            "(chown, chmod 600); nothing was spent"
        )
    return Ledger(path, key=key)


def existing_ledger(folder: Path) -> Ledger:
    """Open the ledger of a state folder; LedgerError if the folder has none."""
    ledger = known_ledger(folder)
    if ledger is None:
        raise LedgerError(f"{folder} holds no {LEDGER}; name the state folder of a campaign")
    return ledger


def statement(ledger: Ledger, dataset: str, *, entries: int | None = None) -> dict[str, Any]:
    """Return budget, spend and the newest or all entries of one data set, as plain numbers."""
    return _as_json(ledger.statement(dataset, entries=entries))


def _as_json(found: Statement) -> dict[str, Any]:
    return {
        "dataset": found.dataset,
        "unit": str(found.unit),
        "budget": numbers(found.budget),
        "spent": numbers(found.spent),
        "left": numbers(found.left),
        "n_entries": found.n_entries,
        "plans": [
            {name: getattr(one, name) for name in PLAN_FIELDS}
            | {"arithmetic": one.plan.arithmetic}
            | numbers(one.plan.cost())
            for one in found.plans
        ],
        "entries": [
            {
                "entry": entry.entry,
                "time": entry.time,
                "what": entry.what,
                "cell": _cell(entry.part),
                "released": entry.released,
                "plan": entry.plan,
                "arithmetic": entry.arithmetic,
                **numbers(entry.cost),
            }
            for entry in found.entries
        ],
    }


def known_ledger(folder: Path) -> Ledger | None:
    """Return the ledger of a state folder, or None if it has none."""
    if not (folder / LEDGER).is_file() and server_url() is None:
        return None
    return open_state(folder)


def known_statement(folder: Path, dataset: str) -> Statement | None:
    """Return a data set's totals, or None if there is no ledger that knows it."""
    ledger = known_ledger(folder)
    if ledger is None or dataset not in ledger.datasets():
        return None
    return ledger.statement(dataset, entries=0)


def read_statements(
    folder: Path,
    *,
    dataset: str | None = None,
    raise_to: float | None = None,
    entries: int | None = None,
) -> list[dict[str, Any]]:
    """Return statements of a state folder's data sets, after raising a budget if `raise_to` is given.

    Each lists its newest entries, or all, and how many more of their kinds fit.
    """
    with existing_ledger(folder) as ledger:
        names = ledger.datasets()
        if raise_to is not None and dataset is None:
            raise LedgerError(f"--raise-to needs --dataset, one of {', '.join(names)}")
        if dataset is not None and dataset not in names:
            raise LedgerError(f"--dataset must be one of {', '.join(names)}, got {dataset!r}")
        if dataset is not None and raise_to is not None:
            _raise_budget(ledger, dataset, raise_to)
        if dataset is None:
            found = ledger.statements(entries=entries)
        else:
            found = (ledger.statement(dataset, entries=entries),)
    return [_as_json(one) | {"fits": _kinds(one)} for one in found]


def _kinds(found: Statement) -> list[dict[str, Any]]:
    """Return how many more of each listed kind fit, under whichever key; of cells the dearest counts."""
    kinds: dict[tuple[str, Cost | str], Cost] = {}
    for entry in reversed(found.entries):
        if entry.plan is None:
            what = entry.what.partition(", publication ")[0]
            kind = what, entry.cost if entry.part is None else entry.mechanism
            kinds[kind] = Cost.max((kinds[kind], entry.cost)) if kind in kinds else entry.cost
    return [
        {"what": what, "cells": isinstance(of, str)}
        | numbers(cost)
        | {"more": fits(found.left, cost)}
        for (what, of), cost in kinds.items()
    ]


def _raise_budget(ledger: Ledger, dataset: str, epsilon: float) -> None:
    """Set a higher epsilon; delta stays as it is."""
    budget = ledger.statement(dataset, entries=0).budget
    # as the ledger reads a number: 0.1 is no raise of 0.1, though the double is above the fraction
    if not (0 < epsilon < math.inf and budget.epsilon < exact(epsilon)):
        raise LedgerError(
            f"--raise-to must be finite, and above the budget of {dataset!r}, which is epsilon "
            f"{float(budget.epsilon)}, got {epsilon}"
        )
    ledger.change_budget(dataset, epsilon=epsilon, delta=float(budget.delta))


def numbers(cost: Cost) -> dict[str, float]:
    """Return a cost as plain numbers."""
    return {"epsilon": float(cost.epsilon), "delta": float(cost.delta)}


def _cell(part: Part | None) -> str | None:
    return None if part is None else f"{part.partition.partition(':')[0]}: {part.name}"
