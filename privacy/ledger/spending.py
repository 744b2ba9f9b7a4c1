"""Booking in the ledger's tables: what is known, what it costs, whether the budget covers it.

Budgets in the ledger's tables: the limit that holds for a data set, and its history.

What a data set's releases are held to: its budget, and the slots of the plans that it paid for.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NoReturn

import numpy as np
from sqlalchemy import Connection, func, select

from privacy.accounting.account import Account, account_from
from privacy.accounting.plans import PlanEvent, PlannedEvent, Slots
from privacy.ledger.fingerprint import fingerprint
from privacy.ledger.records import append, check_row, hold, read_events
from privacy.ledger.store import (
    LedgerError,
    Record,
    Store,
    batches,
    budgets,
    entries,
    lock,
    releases,
    transaction,
    without_budget,
)
from privacy.mechanism import Interaction, Mechanism, Noise
from privacy.mechanisms.kinds import Cost, Event, event_json, exact
from privacy.query import Part, Query, Unit, UnitError, check_name, check_size

__all__ = [
    "Budget",
    "BudgetError",
    "PlanError",
    "PlanPayment",
    "Request",
    "account_of",
    "change_limit",
    "check_slots",
    "dataset_names",
    "find_budget",
    "find_entries",
    "insert_budget",
    "insert_entries",
    "keep_values",
    "kinds_of",
    "limit_of",
    "now",
    "open_limit",
    "part_of",
    "plan_request",
    "read_budgets",
    "request_of",
    "required_budget",
    "slots_of",
    "time_of",
    "told",
    "unpaid",
]


@dataclass(frozen=True, slots=True)
class Budget:
    """A limit as it was set; the latest one holds."""

    time: str
    unit: Unit
    limit: Cost
    n: int


def limit_of(epsilon: float, delta: float, n: int) -> Cost:
    """A budget's numbers as a cost, or a refusal."""
    if not 0 < epsilon < math.inf:
        raise ValueError(f"epsilon must be > 0 and finite, got epsilon={epsilon}")
    check_size(n)
    if not (delta >= 0 and exact(delta) * int(n) < 1):
        raise ValueError(
            f"delta must be >= 0 and < 1/n, as a delta of 1/n allows publishing whole records, got "
            f"delta={delta}, n={n}"
        )
    return Cost(exact(epsilon), exact(delta))


def find_budget(connection: Connection, dataset: str, *, key: bytes) -> Budget | None:
    """The budget that holds for a data set, if its row, which may be old, is what was written."""
    newest = select(budgets).where(budgets.c.dataset == dataset)
    row = connection.execute(newest.order_by(budgets.c.position.desc()).limit(1)).first()
    if row is None:
        return None
    check_row(connection, budgets, row, key=key)
    return _budget_of(row)


def read_budgets(connection: Connection, dataset: str) -> tuple[Budget, ...]:
    """All limits of a data set, in the order they were set."""
    found = select(budgets).where(budgets.c.dataset == dataset).order_by(budgets.c.position)
    return tuple(_budget_of(row) for row in connection.execute(found))


def required_budget(connection: Connection, dataset: str, *, key: bytes) -> Budget:
    """The budget that holds for a data set, or a refusal."""
    found = find_budget(connection, dataset, key=key)
    if found is None:
        raise without_budget(dataset)
    return found


def dataset_names(connection: Connection) -> tuple[str, ...]:
    """Data sets that have a budget, sorted."""
    return tuple(sorted(connection.scalars(select(budgets.c.dataset).distinct())))


def insert_budget(
    connection: Connection,
    dataset: str,
    unit: Unit,
    epsilon: float,
    delta: float,
    n: int,
    *,
    key: bytes,
) -> None:
    """Record a limit, from now on."""
    row = {
        "time": now(),
        "dataset": dataset,
        "unit": str(unit),
        "epsilon": str(epsilon),
        "delta": str(delta),
        "n": int(n),
    }
    append(connection, budgets, [row], key=key)


def told(cost: Cost) -> str:
    """A cost, for messages."""
    return f"epsilon={float(cost.epsilon):.12g}, delta={float(cost.delta):.12g}"


def now() -> str:
    """The time for a row, in ISO 8601 and UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _budget_of(row: Record) -> Budget:
    limit = Cost(exact(row.epsilon), exact(row.delta))
    return Budget(row.time, Unit(row.unit), limit, row.n)


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


class PlanError(LedgerError):
    """A plan has no slot for what is asked; nothing was spent.

    `n_slots` is how many releases of this kind the plan was for.

    Examples
    --------
    >>> print(PlanError("toy", plan=7, n_slots=4))
    plan 7 of 'toy' was for 4 releases of this kind, and none is left for this one; nothing was \
spent. Open another plan, which is paid anew
    """

    def __init__(self, dataset: str, plan: int, n_slots: int) -> None:
        super().__init__(dataset, plan, n_slots)
        self.dataset, self.plan, self.n_slots = dataset, plan, n_slots

    def __str__(self) -> str:
        return (
            f"plan {self.plan} of {self.dataset!r} was for {self.n_slots} releases of this kind, "
            "and none is left for this one; nothing was spent. Open another plan, which is paid anew"
        )


@dataclass(frozen=True, slots=True)
class PlanPayment:
    """What an entry that pays for a plan has in place of a mechanism; it draws nothing."""

    plan: PlanEvent

    def event(self, query: Query) -> PlanEvent:
        """The plan."""
        return self.plan

    def draw(self, query: Query, noise: Noise) -> NoReturn:
        """Refuse: values are drawn from the plan's slots."""
        raise TypeError("a plan itself draws nothing")


def open_limit(
    store: Store, dataset: str, unit: Unit, epsilon: float, delta: float, n: int, *, key: bytes
) -> None:
    """Set the budget of a data set that has none; refuse where it has another."""
    check_name("dataset", dataset)
    unit, limit = Unit(unit), limit_of(epsilon, delta, n)
    with transaction(store) as connection:
        hold(connection, key=key)
        found = find_budget(connection, dataset, key=key)
        if found is None:
            insert_budget(connection, dataset, unit, epsilon, delta, n, key=key)
        elif (found.unit, found.limit) != (unit, limit):
            raise LedgerError(
                f"the budget of {dataset!r} is {told(found.limit)} for the unit "
                f"'{found.unit}', got {told(limit)} for '{unit}'; change_budget changes the "
                "numbers and records it, and another unit needs another data set name"
            )


def change_limit(store: Store, dataset: str, epsilon: float, delta: float, *, key: bytes) -> None:
    """Set another limit that covers what is spent."""
    with transaction(store) as connection:
        lock(connection, dataset)
        found = required_budget(connection, dataset, key=key)
        limit = limit_of(epsilon, delta, found.n)
        spent = account_of(connection, dataset, key=key).spent
        if not spent.within(limit):
            raise LedgerError(
                f"the budget of {dataset!r} must cover what is spent, {told(spent)}, got "
                f"{told(limit)}"
            )
        insert_budget(connection, dataset, found.unit, epsilon, delta, found.n, key=key)


def plan_request(
    connection: Connection, dataset: str, plan: PlanEvent, name: str, *, key: bytes
) -> Request:
    """What pays for a plan, for all tasks; the same for the same plan of the same name."""
    if not isinstance(plan, PlanEvent):
        raise TypeError(f"plan must be a PlanEvent, got {type(plan).__name__}")
    budget = required_budget(connection, dataset, key=key)
    query = Query(dataset, name, np.zeros(0), budget.unit, budget.n, l1=np.inf)
    payment = PlanPayment(plan)
    return Request(payment, query, plan, fingerprint(payment, query, plan, key=key))


def check_slots(connection: Connection, asked: Sequence[Request], *, key: bytes) -> None:
    """Refuse what is to be paid by a plan that has no slot left for it.

    Until the transaction ends no other may take slots of the plans' data sets.
    """
    plans: dict[tuple[str, int], tuple[Unit, Slots]] = {}
    for one in asked:
        if one.slot is None:
            continue
        query, number, text = one.query, one.slot.plan, one.slot.event
        if (query.dataset, number) not in plans:
            plans[query.dataset, number] = _plan_at(connection, query.dataset, number, key)
        unit, slots = plans[query.dataset, number]
        if not query.unit.covers(unit):
            raise UnitError(
                f"plan {number} protects the unit '{unit}', which a guarantee for the unit "
                f"'{query.unit}' does not cover"
            )
        if not slots.left(text, query.part) >= 1:
            raise PlanError(query.dataset, number, slots.total(text))
        slots.take(text, query.part)


def slots_of(number: int, plan: PlanEvent, kinds: Iterable[tuple[Part | None, str, int]]) -> Slots:
    """The slots of the plan that entry `number` paid for, as entries of these kinds have used them."""
    slot = {event_json(PlannedEvent(number, text)): text for text, _ in plan.events}
    return Slots(plan, ((part, slot[event], n) for part, event, n in kinds if event in slot))


def _plan_at(connection: Connection, dataset: str, number: int, key: bytes) -> tuple[Unit, Slots]:
    """What the plan that an entry paid for protects, and its slots as they are used by now."""
    row = connection.execute(select(entries).where(entries.c.entry == number)).first()
    plan = None
    if row is not None and row.dataset == dataset:
        kind = part_of(row), row.event, 1
        plan = read_events(connection, dataset, [kind], key=key)[row.event]
    if row is None or not isinstance(plan, PlanEvent):
        raise LedgerError(
            f"plan must be the number of an entry that paid for a plan of {dataset!r}, got "
            f"plan={number}; nothing was spent"
        )
    return Unit(row.unit), slots_of(number, plan, kinds_of(connection, dataset))
