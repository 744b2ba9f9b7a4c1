"""Cohorts: the tasks that joined a campaign between two runs, for ever together.

With `[privacy] planned_runs` each cohort is asked once, for everything. The state folder keeps every task
that was ever assigned, with its cohort, its group and its part of the split as they were when it joined.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Int, Shaped

from flows.files import write_arrays
from flows.settings import SettingsError
from flows.spending.account import LEDGER_URL, server_url
from flows.spending.partitions import UNREADABLE, assignments_locked, task_digests
from flows.spending.year import Year, parse_year
from privacy import BudgetError, Cost, Ledger, LedgerError
from privacy.accounting import Account, exact

__all__ = [
    "CORRECTED", "COUNTED", "SPLIT", "Cohorts", "check_record_beside_ledger", "join_cohorts",
    "known_sizes", "known_years",
]  # fmt: skip

COUNTED, CORRECTED, SPLIT = "year counts", "year corrections", "year split"
"""Partitions by cohort and group, by cohort, and by cohort and what a task is used for."""
NOTHING_SPENT = "nothing was spent"


@dataclass(frozen=True, slots=True, eq=False)
class Cohorts:
    """Every labelled task's cohort, group and use, in the order of the tasks; -1 for one that waits.

    `keys` are the cohorts' public names, oldest first, `prices` at what each is asked; `group` is the name
    that a task's group had when it joined; `use` is 0 for training, 1 for validation, 2 for the holdout.
    """

    keys: tuple[str, ...]
    prices: tuple[str, ...]
    cohort: Int[np.ndarray, " tasks"]
    group: Shaped[np.ndarray, " tasks"]
    use: Int[np.ndarray, " tasks"]

    def years(self) -> tuple[Year, ...]:
        """Return the prices of each cohort."""
        return tuple(map(parse_year, self.prices))


def check_record_beside_ledger() -> None:
    """Raise SettingsError where the ledger is on a server: a record in one folder is not all it has seen."""
    if server_url() is not None:
        raise SettingsError(
            "privacy.planned_runs keeps a record of cohorts in one state folder, so the ledger must be "
            f"there too: unset {LEDGER_URL}"
        )


def join_cohorts(
    folder: Path,
    ledger: Ledger,
    dataset: str,
    *,
    task: Shaped[np.ndarray, " tasks"],
    group: Shaped[np.ndarray, " tasks"],
    use: Int[np.ndarray, " tasks"],
    key: str | None,
    at_most: int,
    prices: str,
    waits: bool = False,
    check: Callable[[Cohorts], None] = lambda _: None,
) -> Cohorts:
    """Assign tasks that are new to a cohort, after recording it durably, and return every task's.

    Parameters
    ----------
    folder
        The state folder of the ledger.
    ledger
        The ledger of what was released so far.
    dataset
        The ledger's name of the data set.
    task, group, use
        Names of the labelled tasks, all different, their groups and the codes of their use; **public**.
    key
        The run's publication key: tasks that come under the key of a cohort wait for the next key. Without
        one every run with new tasks makes a cohort.
    at_most
        Number of cohorts that are planned; tasks that join after them wait.
    prices
        What a new cohort is asked at, as `Year.text` writes it; those that exist keep theirs.
    waits
        Whether tasks wait where the budget does not cover their counts at these prices.
    check
        Raises where a run with these cohorts is refused: no other is recorded then.

    Raises
    ------
    BudgetError
        If it does not, and they do not wait; nothing is recorded then.
    LedgerError
        If the record is lost, cannot be read, or is older than the ledger; nothing was spent.

    Notes
    -----
    **Guarantees.** A task's cohort, group and use never change, whatever later runs say; a cohort
    never gains a task once it is recorded; what the ledger has released is on record, or all is refused.
    **Privacy.** All of this is public. By the guarantees no task is ever in two cells (cohort, group), nor
    in two cells (cohort, use). So the cells of each partition are disjoint, a neighbour touches one of them,
    and where each cell is asked once for each statistic, any number of cohorts costs what the dearest does:
    what is asked of another cohort may depend on what was released, which is a map of public things.
    """
    digest = task_digests(task)
    with assignments_locked(folder):
        path = folder / f"cohorts-{dataset}.npz"
        known = _read(path)
        if known is None:
            known = _Record((), (), digest[:0], np.zeros(0, np.int64), group[:0], use[:0])
        _check_holds_released(ledger, dataset, known)
        new = ~np.isin(digest, known.task)
        joins = new.any() and len(known.keys) < at_most and (key is None or key not in known.keys)
        if joins and known.keys:
            joins = _counts_fit(ledger, dataset, parse_year(prices), waits=waits)
        if joins:
            name = _unused_name(known.keys) if key is None else key
            known = known.joined(name, prices, digest[new], group[new], use[new])
            check(known.of(digest, group))
            write_arrays(path, known.arrays(), compressed=True, mode=0o600)
    return known.of(digest, group)


def _unused_name(keys: tuple[str, ...]) -> str:
    """Return a name for the next cohort that none has, whether by a key or not."""
    number = len(keys) + 1
    while f"run-{number}" in keys:
        number += 1
    return f"run-{number}"


def _counts_fit(ledger: Ledger, dataset: str, year: Year, *, waits: bool) -> bool:
    """Return whether what is left covers the counts of one more cohort: what it is dearer than the others.

    A cohort that is on record is counted in every later run, so that one which cannot be paid would stop all.
    """
    found, counted = ledger.statement(dataset), Account()
    for entry in found.entries:
        if entry.part is not None and entry.part.partition == COUNTED:
            counted.add(entry.part, entry.cost)
    more = Cost(max(exact(0), exact(year.counts) - counted.spent.epsilon), exact(0))
    if more.within(found.left):
        return True
    if waits:
        return False
    raise BudgetError(dataset, found.unit, found.budget, found.spent, more)


def known_years(folder: Path, dataset: str) -> tuple[Year, ...]:
    """Return the prices of a data set's cohorts, oldest first; none without a record."""
    found = _read(folder / f"cohorts-{dataset}.npz")
    return () if found is None else tuple(map(parse_year, found.prices))


def known_sizes(folder: Path, dataset: str) -> dict[str, int]:
    """Return the sizes of a data set's cohorts by their keys, oldest first; empty without a record."""
    found = _read(folder / f"cohorts-{dataset}.npz")
    if found is None:
        return {}
    sizes = np.bincount(found.cohort, minlength=len(found.keys))
    return dict(zip(found.keys, sizes.tolist(), strict=True))


@dataclass(frozen=True, slots=True, eq=False)
class _Record:
    """Digests of tasks in order, and what each had when it joined."""

    keys: tuple[str, ...]
    prices: tuple[str, ...]
    task: Shaped[np.ndarray, " tasks"]
    cohort: Int[np.ndarray, " tasks"]
    group: Shaped[np.ndarray, " tasks"]
    use: Int[np.ndarray, " tasks"]

    def joined(
        self, key: str, prices: str, task: np.ndarray, group: np.ndarray, use: np.ndarray
    ) -> _Record:
        every = np.concatenate([self.task, task])
        order = np.argsort(every, kind="stable")
        number = np.full(task.size, len(self.keys), np.int64)
        groups = np.concatenate([self.group.astype(np.str_), group.astype(np.str_)])
        return _Record(
            (*self.keys, key), (*self.prices, prices), every[order],
            np.concatenate([self.cohort, number])[order], groups[order],
            np.concatenate([self.use, use]).astype(np.int64)[order],
        )  # fmt: skip

    def of(self, digest: np.ndarray, group: np.ndarray) -> Cohorts:
        """Return what is recorded of these tasks."""
        met = np.isin(digest, self.task)
        cohort, use = (np.full(digest.size, -1, np.int64) for _ in range(2))
        place = np.searchsorted(self.task, digest[met])
        cohort[met], use[met] = self.cohort[place], self.use[place]
        groups = group.astype(object)
        groups[met] = self.group[place]
        return Cohorts(self.keys, self.prices, cohort, groups.astype(np.str_), use)

    def arrays(self) -> dict[str, np.ndarray]:
        return {"keys": np.array(self.keys, dtype=np.str_),
                "prices": np.array(self.prices, dtype=np.str_), "task": self.task,
                "cohort": self.cohort, "group": self.group, "use": self.use}  # fmt: skip


def _check_holds_released(ledger: Ledger, dataset: str, known: _Record) -> None:
    """Raise LedgerError unless every cohort that the ledger has released is on record."""
    if dataset not in ledger.datasets():
        return
    asked = {
        entry.what.partition(", publication ")[2]
        for entry in ledger.statement(dataset).entries
        if entry.part is not None and entry.part.partition in (COUNTED, CORRECTED, SPLIT)
    }
    if lacking := sorted(asked - set(known.keys)):
        raise LedgerError(
            f"cohorts-{dataset}.npz lacks the cohort {lacking[0]!r}, which the ledger has released: the "
            f"record of cohorts is lost or older than the ledger, and a task could be asked twice; "
            f"{NOTHING_SPENT}. Put the newest one back into the state folder"
        )


def _read(path: Path) -> _Record | None:
    """Return the record; None if there is none."""
    if not path.exists():
        return None
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            return _Record(
                tuple(stored["keys"].tolist()),
                tuple(stored["prices"].tolist()),
                *(stored[name] for name in ("task", "cohort", "group", "use")),
            )
    except UNREADABLE:
        raise LedgerError(
            f"{path} cannot be read, so which tasks were asked is not known; {NOTHING_SPENT}. Put a "
            "copy of it back that is not older than the ledger"
        ) from None
