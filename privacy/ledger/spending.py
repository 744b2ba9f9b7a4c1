"""Booking in the ledger's tables: what is known, what it costs, whether the budget covers it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from privacy.accounting.account import Account, account_from
from privacy.accounting.plans import PlanEvent, PlannedEvent
from privacy.ledger.budgets import Budget, now, required_budget, told
from privacy.ledger.fingerprint import fingerprint
from privacy.ledger.recorded import read_events
from privacy.ledger.records import append, hold
from privacy.ledger.store import LedgerError, lock
from privacy.ledger.tables import Record, batches, entries, releases
from privacy.mechanism import Interaction, Mechanism
from privacy.mechanisms.kinds import Cost, Event, event_json
from privacy.query import Part, Query, UnitError

__all__ = [
    "BudgetError",
    "Request",
    "account_of",
    "find_entries",
    "insert_entries",
    "keep_values",
    "kinds_of",
    "part_of",
    "request_of",
    "time_of",
    "unpaid",
]


class BudgetError(RuntimeError):
    """A data set's budget does not cover what is asked; nothing was spent.

    Parameters
    ----------
    dataset
        Whose budget.
    budget, spent, asked
        The limit, what is spent of it, and by how much the request would raise that.

    Examples
    --------
    >>> from fractions import Fraction
    >>> one = Cost(Fraction(1), Fraction(0))
    >>> BudgetError("toy", budget=one, spent=one, asked=one).left.epsilon
    Fraction(0, 1)
    """

    def __init__(self, dataset: str, budget: Cost, spent: Cost, asked: Cost) -> None:
        super().__init__(dataset, budget, spent, asked)
        self.dataset, self.budget, self.spent, self.asked = dataset, budget, spent, asked
        self.left = budget - spent

    def __str__(self) -> str:
        return (
            f"the budget of {self.dataset!r} does not cover this: asked {told(self.asked)}; left "
            f"{told(self.left)}; spent {told(self.spent)} of {told(self.budget)}. Nothing was "
            "spent. Ask for less, or raise the budget with change_budget, which is recorded"
        )


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """A release asked for, its event, and the fingerprint that the ledger knows it by.

    `slot` says which plan has paid for it, where one has; it is then what is recorded.
    """

    mechanism: Mechanism | Interaction
    query: Query
    event: Event
    fingerprint: bytes
    slot: PlannedEvent | None = None


def request_of(
    mechanism: Mechanism | Interaction, query: Query, *, key: bytes, plan: int | None = None
) -> Request:
    """What a mechanism asks; no mechanism pays for a plan, or names one itself."""
    event = mechanism.event(query)
    if isinstance(event, PlanEvent | PlannedEvent):
        raise TypeError(
            f"a mechanism's event must be of a kind that draws noise, got {type(event).__name__}; "
            "open_plan pays for plans"
        )
    mark = fingerprint(mechanism, query, event, key=key)
    slot = None if plan is None else PlannedEvent(plan, event_json(event))
    return Request(mechanism, query, event, mark, slot)


def unpaid(connection: Connection, asked: Sequence[Request], *, key: bytes) -> list[Request]:
    """Requests without an entry, each once, if the budgets cover them all; otherwise a refusal.

    Until the transaction ends no other spends from their data sets.
    """
    datasets = list(dict.fromkeys(one.query.dataset for one in asked))
    lock(connection, *datasets)
    paid = find_entries(connection, asked)
    new = {one.fingerprint: one for one in asked if one.fingerprint not in paid}
    for dataset in datasets:
        budget = required_budget(connection, dataset, key=key)
        for one in asked:
            if one.query.dataset == dataset:
                _check_query(one.query, budget)
        fresh = [one for one in new.values() if one.query.dataset == dataset]
        priced = [one for one in fresh if one.slot is None]  # others are their plan's
        if priced:
            _check_afford(connection, budget, priced, key)
    return list(new.values())


def find_entries(
    connection: Connection, asked: Sequence[Request]
) -> dict[bytes, tuple[int, str | None]]:
    """Number and stored value, if any, of the requests that have an entry, by fingerprint."""
    found = select(entries.c.fingerprint, entries.c.entry, releases.c.value).join_from(
        entries, releases, entries.c.entry == releases.c.entry, isouter=True
    )
    return {
        row.fingerprint: (row.entry, row.value)
        for marks in batches([one.fingerprint for one in asked])
        for row in connection.execute(found.where(entries.c.fingerprint.in_(marks)))
    }


def account_of(connection: Connection, dataset: str, *, key: bytes) -> Account:
    """Recompose a data set's entries."""
    kinds = kinds_of(connection, dataset)
    return account_from(kinds, read_events(connection, dataset, kinds, key=key).__getitem__)


def kinds_of(connection: Connection, dataset: str) -> list[tuple[Part | None, str, int]]:
    """A data set's entries by part and event as stored, and how many there are of each."""
    kinds = (entries.c.partition, entries.c.cell, entries.c.event)
    rows = connection.execute(
        select(*kinds, func.count().label("n_entries"))
        .where(entries.c.dataset == dataset)
        .group_by(*kinds)
    )
    return [(part_of(row), row.event, row.n_entries) for row in rows.all()]


def insert_entries(connection: Connection, requests: Sequence[Request], *, key: bytes) -> None:
    """Record what is spent."""
    if not requests:
        return
    hold(connection, key=key)  # the next number is this transaction's
    last = connection.scalar(select(func.max(entries.c.entry))) or 0
    time = now()
    rows = [
        {
            "entry": entry,
            "time": time,
            "dataset": one.query.dataset,
            "query": one.query.name,
            "unit": str(one.query.unit),
            "n": int(one.query.n),
            "partition": None if one.query.part is None else one.query.part.partition,
            "cell": None if one.query.part is None else one.query.part.name,
            "mechanism": type(one.mechanism).__qualname__,
            "event": event_json(one.slot or one.event),
            "fingerprint": one.fingerprint,
        }
        for entry, one in enumerate(requests, start=last + 1)
    ]
    append(connection, entries, rows, key=key)


def keep_values(
    connection: Connection, values: Mapping[int, str], *, key: bytes
) -> dict[int, tuple[str, bool]]:
    """Store values of entries that have none; what is stored then, and whether it is this one."""
    found = select(releases.c.entry, releases.c.value)
    kept = {
        row.entry: row.value
        for numbers in batches(list(values))
        for row in connection.execute(found.where(releases.c.entry.in_(numbers)))
    }
    time = now()
    new = [
        {"time": time, "entry": entry, "value": value}
        for entry, value in values.items()
        if entry not in kept
    ]
    append(connection, releases, new, key=key)
    return {entry: (kept.get(entry, value), entry not in kept) for entry, value in values.items()}


def time_of(connection: Connection, entry: int) -> str:
    """When an entry was paid."""
    time = None
    if 0 < entry < 2**63:  # beyond it no database looks
        time = connection.scalar(select(entries.c.time).where(entries.c.entry == entry))
    if time is None:
        raise LedgerError(f"entry must be one of the ledger's, got entry={entry}")
    return str(time)


def part_of(row: Record) -> Part | None:
    """Read the part of an entry's row."""
    try:
        return None if row.partition is None else Part(row.partition, row.cell)
    except (TypeError, ValueError):
        raise LedgerError(
            "the ledger is damaged: an entry's partition or cell is no name; restore a backup"
        ) from None


def _check_query(query: Query, budget: Budget) -> None:
    if not query.unit.covers(budget.unit):
        raise UnitError(
            f"the budget of {query.dataset!r} protects the unit '{budget.unit}', which a guarantee "
            f"for the unit '{query.unit}' does not cover"
        )
    if not budget.limit.delta * int(query.n) < 1:
        raise LedgerError(
            f"the budget's delta must be < 1/n, got n={query.n}; lower delta with change_budget"
        )


def _check_afford(
    connection: Connection, budget: Budget, new: Sequence[Request], key: bytes
) -> None:
    dataset = new[0].query.dataset
    account = account_of(connection, dataset, key=key)
    before = account.spent
    for one in new:
        account.add(one.query.part, one.event.cost())
    if not account.spent.within(budget.limit):
        raise BudgetError(dataset, budget.limit, before, account.spent - before)
