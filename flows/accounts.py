"""The campaign's account in the ledger: where it lies, what it may spend, has spent and would spend."""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flows.section import SettingsError
from privacy import Cost, Ledger, LedgerError, Statement, fits, import_ledger
from privacy.cost import exact

if TYPE_CHECKING:
    from flows.settings import Settings
    from flows.settings_sections import PrivacySettings

__all__ = [
    "existing_ledger",
    "import_state",
    "open_account",
    "open_state",
    "preview",
    "read_statements",
    "statement",
]

LEDGER = "ledger.sqlite"
LEDGER_URL = "CROWDASSAY_LEDGER"  # its password, if any, stays out of settings and run folders
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
    """The ledger of a state folder, which is made where it is missing (mode 0700).

    Where the environment variable CROWDASSAY_LEDGER holds the URL of a PostgreSQL database, the
    ledger is there, and the folder has its key alone: every machine needs that same key.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        key = _key(folder / KEY)
    except OSError as error:
        raise LedgerError(
            f"the state folder {folder} must be writable, got {error.strerror}; nothing was spent"
        ) from None
    if url := os.environ.get(LEDGER_URL):
        try:
            return Ledger(url, key=key)
        except ValueError as error:
            raise SettingsError(f"{LEDGER_URL}: {error}") from None
    path = folder / LEDGER
    if path.exists() and not path.stat().st_mode & stat.S_IWUSR:
        raise LedgerError(f"{path} is read-only; make it writable (chmod u+w); nothing was spent")
    return Ledger(path, key=key)


def existing_ledger(folder: Path) -> Ledger:
    """The ledger of a state folder that has one."""
    if not (folder / LEDGER).is_file() and LEDGER_URL not in os.environ:
        raise LedgerError(f"{folder} holds no {LEDGER}; name the state folder of a campaign")
    return open_state(folder)


def import_state(old: Path, new: Path) -> int:
    """Bring a state folder's ledger of an older version over into a new one; its number of rows."""
    if not (old / LEDGER).is_file() or not (old / KEY).is_file():
        raise LedgerError(
            f"{old} must hold {LEDGER} and {KEY}; name the state folder of a campaign"
        )
    key = (old / KEY).read_bytes()
    new.mkdir(mode=0o700, parents=True, exist_ok=True)
    made = _write_key(new / KEY, key)
    try:
        if (new / KEY).read_bytes() != key:
            raise LedgerError(f"{new} has another {KEY}; import into a new folder")
        import_ledger(old / LEDGER, os.environ.get(LEDGER_URL) or new / LEDGER, key=key)
    except LedgerError:
        if made:
            (new / KEY).unlink()
        raise
    with open_state(new) as ledger:
        return ledger.verify()


def statement(ledger: Ledger, dataset: str, *, entries: int | None = None) -> dict[str, Any]:
    """Budget, spend and the newest or all entries of one data set, as plain numbers for reports."""
    return _as_json(ledger.statement(dataset, entries=entries))


def _as_json(found: Statement) -> dict[str, Any]:
    return {
        "dataset": found.dataset,
        "unit": str(found.unit),
        "budget": _numbers(found.budget),
        "spent": _numbers(found.spent),
        "left": _numbers(found.left),
        "n_entries": found.n_entries,
        "plans": [
            {
                "entry": one.entry,
                "name": one.name,
                "n_releases": one.n_releases,
                "used": one.used,
                **_numbers(one.plan.cost()),
            }
            for one in found.plans
        ],
        "entries": [
            {
                "entry": entry.entry,
                "time": entry.time,
                "what": entry.what,
                "cell": None
                if entry.part is None
                else _cell(entry.part.partition, entry.part.name),
                "released": entry.released,
                "plan": entry.plan,
                **_numbers(entry.cost),
            }
            for entry in found.entries
        ],
    }


def read_statements(
    folder: Path,
    *,
    dataset: str | None = None,
    raise_to: float | None = None,
    entries: int | None = None,
) -> list[dict[str, Any]]:
    """Statements of every data set of a state folder, after a budget was raised where that is asked for.

    Each lists its newest entries, or all, and tells how many more of their kinds fit.
    """
    with existing_ledger(folder) as ledger:
        names = ledger.datasets()
        if dataset is not None or raise_to is not None:
            _check_dataset(dataset, names)
        if dataset is not None and raise_to is not None:
            delta = float(ledger.statement(dataset, entries=0).budget.delta)
            ledger.change_budget(dataset, epsilon=raise_to, delta=delta)
        found = [
            ledger.statement(name, entries=entries) for name in names if dataset in (None, name)
        ]
    return [_as_json(one) | {"fits": _kinds(one)} for one in found]


def preview(folder: Path, settings: Settings, *, n_tasks: int | None = None) -> dict[str, Any]:
    """What a run of these settings on new data would ask for, from public numbers alone.

    No label is read. `n_tasks` is the public number of labelled tasks; where it is not given, the
    one of the data set's budget is taken. The gate's price is for the expected size of the holdout.
    """
    privacy = settings.privacy
    if privacy is None or settings.classes is None:
        missing = "have no [privacy] section" if privacy is None else "do not declare the classes"
        raise SettingsError(f"the settings {missing}: a run of them would release nothing")
    found = _statement_of(folder, settings.name)
    if n_tasks is None and found is not None:
        n_tasks = found.budgets[-1].n
    limit = Cost(exact(privacy.epsilon), exact(privacy.delta))
    budget, left = (limit, limit) if found is None else (found.budget, found.left)
    counts = _counts_price(privacy, len(settings.classes), found)
    parts = [counts, *_learning_prices(settings, n_tasks)]
    return {
        "dataset": settings.name,
        "parts": [
            {"what": what, "note": note} | ({} if cost is None else _numbers(cost))
            for what, cost, note in parts
        ],
        "budget": _numbers(budget),
        "left": _numbers(left),
        **_verdict(parts, budget, limit, left),
    }


Price = tuple[str, Cost | None, str]


def _counts_price(privacy: PrivacySettings, n_classes: int, found: Statement | None) -> Price:
    """Class counts: all groups together, or their plan where it is not paid yet."""
    from flows.count_noise import PLAN, count_noise  # a statement needs neither them nor settings

    epsilon, delta = exact(privacy.proportions_epsilon), exact(privacy.proportions_delta)
    n_planned = privacy.planned_releases
    if n_planned > 1:
        for one in () if found is None else found.plans:
            price = one.name, one.plan.cost(), one.n_releases
            if price == (PLAN, Cost(epsilon, delta), n_planned):
                left = n_planned - one.used
                note = f"paid by entry {one.entry}; {left} of {n_planned} releases left"
                return "class counts", Cost(exact(0), exact(0)), note
        return "class counts", Cost(epsilon, delta), f"a plan of {n_planned} releases"
    noise = count_noise(privacy, n_classes)
    return "class counts", Cost(epsilon, exact(noise.delta)), f"{noise.name} noise"


def _learning_prices(settings: Settings, n_tasks: int | None) -> list[Price]:
    """Training, and the gate, which has other tasks: the dearer of them counts."""
    model, gate = settings.model, settings.gate
    if model is None or not settings.input.tasks:
        return []
    shares = (model.epsilon_train, model.epsilon_select, model.epsilon_score)
    training = Cost(sum(map(exact, shares), exact(0)), exact(0))
    note = "training {:g}, selection {:g}, score {:g}".format(*shares)
    if n_tasks is None:
        unknown = "depends on the number of labelled tasks; give --tasks"
        return [("model", training, note), ("gate", None, unknown)]
    size = max(1, round(gate.holdout * n_tasks))
    price = Cost(2 * gate.budget / (exact(gate.sigma) * size), exact(0))
    about = f"expected, for a holdout of {size:,} of {n_tasks:,} tasks; in parallel with the model"
    return [("model", training, note), ("gate", price, about)]


def _verdict(parts: list[Price], budget: Cost, limit: Cost, left: Cost) -> dict[str, Any]:
    """Whether the parts fit together into what is left; None where a price is not known."""
    (_, counts, _), *learning = parts
    known = [cost for _, cost, _ in parts if cost is not None]
    asked = (counts or Cost(exact(0), exact(0))) + Cost.max(
        [cost for _, cost, _ in learning if cost is not None] or [Cost(exact(0), exact(0))]
    )
    verdict: bool | None = asked.within(left) and budget == limit
    if verdict and len(known) < len(parts):
        verdict = None
    return {"asked": _numbers(asked), "fits": verdict, "same_budget": budget == limit}


def _statement_of(folder: Path, dataset: str) -> Statement | None:
    """A data set's totals, where there is a ledger that knows it."""
    if not (folder / LEDGER).is_file() and LEDGER_URL not in os.environ:
        return None
    with open_state(folder) as ledger:
        return ledger.statement(dataset, entries=0) if dataset in ledger.datasets() else None


def _kinds(found: Statement) -> list[dict[str, Any]]:
    """How many more of each listed kind fit; a round of a partition's cells costs the dearest one."""
    kinds: dict[tuple[str, bool], Cost] = {}
    for entry in reversed(found.entries):
        if entry.plan is None:
            kind = entry.what, entry.part is not None
            kinds[kind] = Cost.max((kinds[kind], entry.cost)) if kind in kinds else entry.cost
    return [
        {"what": what, "cells": cells, **_numbers(cost), "more": fits(found.left, cost)}
        for (what, cells), cost in kinds.items()
    ]


def _check_dataset(dataset: str | None, names: tuple[str, ...]) -> None:
    if dataset not in names:
        raise LedgerError(f"--dataset must be one of {', '.join(names)}, got {dataset!r}")


def _key(path: Path) -> bytes:
    """The key of the private data's fingerprints; made once, and never leaves the state folder."""
    _write_key(path, secrets.token_bytes(KEY_BYTES))
    key = path.read_bytes()
    if len(key) != KEY_BYTES:
        raise LedgerError(f"{path} must hold {KEY_BYTES} bytes; restore it from a backup")
    return key


def _write_key(path: Path, key: bytes) -> bool:
    """Keep a key where there is none, durably; whether there was none."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return False
    with os.fdopen(descriptor, "wb") as file:
        file.write(key)
        file.flush()
        os.fsync(file.fileno())
    return True


def _numbers(cost: Cost) -> dict[str, float]:
    return {"epsilon": float(cost.epsilon), "delta": float(cost.delta)}


def _cell(partition: str, name: str) -> str:
    return f"{partition.partition(':')[0]}: {name}"
