"""The campaign's account in the ledger: where it lies, what it may spend, what it has spent."""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path
from typing import Any

from flows.settings import PrivacySettings, Settings, SettingsError
from privacy import Cost, Ledger, LedgerError

__all__ = ["open_account", "open_state", "statement"]

LEDGER = "ledger.sqlite"
KEY = "fingerprint.key"
KEY_BYTES = 32


def open_account(settings: Settings, privacy: PrivacySettings, *, n: int) -> Ledger:
    """The ledger with this campaign's budget open; `n` is the public number of labelled tasks."""
    ledger = open_state(settings.state)
    try:
        ledger.open_budget(
            settings.name, unit=privacy.unit, epsilon=privacy.epsilon, delta=privacy.delta, n=n
        )
    except ValueError as error:  # public numbers of the settings that do not fit the data's size
        raise SettingsError(f"[privacy]: {error}") from None
    return ledger


def open_state(folder: Path) -> Ledger:
    """The ledger of a state folder, which is made where it is missing (mode 0700)."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        key = _key(folder / KEY)
    except OSError as error:
        raise LedgerError(
            f"the state folder {folder} must be writable, got {error.strerror}; nothing was spent"
        ) from None
    path = folder / LEDGER
    if path.exists() and not path.stat().st_mode & stat.S_IWUSR:
        raise LedgerError(f"{path} is read-only; make it writable (chmod u+w); nothing was spent")
    return Ledger(path, key=key)


def statement(ledger: Ledger, dataset: str) -> dict[str, Any]:
    """Budget, spend and entries of one data set, as plain numbers for reports."""
    found = ledger.statement(dataset)
    return {
        "dataset": dataset,
        "unit": str(found.unit),
        "budget": _numbers(found.budget),
        "spent": _numbers(found.spent),
        "left": _numbers(found.left),
        "entries": [
            {
                "entry": entry.entry,
                "time": entry.time,
                "what": entry.what,
                "cell": None
                if entry.part is None
                else _cell(entry.part.partition, entry.part.name),
                "released": entry.released,
                **_numbers(entry.cost),
            }
            for entry in found.entries
        ],
    }


def _key(path: Path) -> bytes:
    """The key of the private data's fingerprints; made once, and never leaves the state folder."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        key = path.read_bytes()
        if len(key) != KEY_BYTES:
            raise LedgerError(
                f"{path} must hold {KEY_BYTES} bytes; restore it from a backup"
            ) from None
        return key
    with os.fdopen(descriptor, "wb") as file:
        file.write(secrets.token_bytes(KEY_BYTES))
        file.flush()
        os.fsync(file.fileno())
    return path.read_bytes()


def _numbers(cost: Cost) -> dict[str, float]:
    return {"epsilon": float(cost.epsilon), "delta": float(cost.delta)}


def _cell(partition: str, name: str) -> str:
    return f"{partition.partition(':')[0]}: {name}"


def read_statements(
    folder: Path, *, dataset: str | None = None, raise_to: float | None = None
) -> list[dict[str, Any]]:
    """Statements of every data set of a state folder, after a budget was raised where that is asked for."""
    if not (folder / LEDGER).is_file():
        raise LedgerError(f"{folder} holds no {LEDGER}; name the state folder of a campaign")
    with open_state(folder) as ledger:
        names = ledger.datasets()
        if raise_to is not None:
            if dataset not in names:
                raise LedgerError(f"--dataset must be one of {', '.join(names)}, got {dataset!r}")
            delta = float(ledger.statement(dataset).budget.delta)
            ledger.change_budget(dataset, epsilon=raise_to, delta=delta)
        return [statement(ledger, name) for name in names if dataset in (None, name)]
