"""A data set's budget, spend and entries, recomputed from the stored events.

For the data's owners: whether and when entries were made can depend on private data. A ledger
returns a `Statement` from `Ledger.statement`.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import exists, or_, select

from privacy.accounting import Arithmetic, Cost, Event, PlanEvent, PlannedEvent, account_from
from privacy.ledger.records import (
    Book,
    Budget,
    Kind,
    budget_of,
    kinds_of,
    part_of,
    read_events,
    rows_where,
)
from privacy.ledger.spending import slots_of
from privacy.ledger.store import LedgerError, Record, answers, budgets, entries, releases
from privacy.query import Part, Unit, is_whole

__all__ = [
    "Entry",
    "PlanUse",
    "Statement",
    "dataset_names",
    "paid_parts",
    "read_statement",
    "time_of",
]

NOTE = (
    "Costs of entries add up, except that cells of one partition hold different tasks: a partition "
    "costs as much as its dearest cell."
)


@dataclass(frozen=True, slots=True)
class Entry:
    """One spend in the ledger.

    `what` is the query's name, `mechanism` the class that was run, `cost` that of this entry alone.
    `released` is False for an entry that was paid and has no stored value, as after a crash: the entry
    stays spent, and asking again draws its value under the same payment. It is False for a plan, which
    releases nothing.
    """

    entry: int
    time: str
    what: str
    mechanism: str
    part: Part | None
    n: int
    event: Event
    cost: Cost
    released: bool

    @property
    def plan(self) -> int | None:
        """Number of the entry that paid for this one; None if this entry was paid itself."""
        return self.event.plan if isinstance(self.event, PlannedEvent) else None

    @property
    def arithmetic(self) -> Arithmetic:
        """Whether its noise was drawn exactly, or in double precision."""
        return self.event.arithmetic


@dataclass(frozen=True, slots=True)
class PlanUse:
    """A paid plan, and the largest number of its slots that any one task has used."""

    entry: int
    name: str
    plan: PlanEvent
    used: int

    @property
    def n_releases(self) -> int:
        """Number of releases that the plan paid for."""
        return sum(count for _, count in self.plan.events)


@dataclass(frozen=True, slots=True)
class Statement:
    """A data set's budget, spend, rest of the budget, and entries.

    `entries` are in the order of payment, all of them or the newest; `n_entries` counts all, and `spent` is
    the cost of all; `plans` are all paid plans. For the data's owners: whether and when entries were made
    can depend on private data.
    """

    dataset: str
    unit: Unit
    budget: Cost
    spent: Cost
    left: Cost
    entries: tuple[Entry, ...]
    n_entries: int
    plans: tuple[PlanUse, ...]
    budgets: tuple[Budget, ...]
    note: str = NOTE


def dataset_names(book: Book) -> tuple[str, ...]:
    """Return the data sets that have a budget, sorted."""
    return tuple(sorted(book.connection.scalars(select(budgets.c.dataset).distinct())))


def time_of(book: Book, numbers: Collection[int]) -> str:
    """Return the time at which the last of some entries was paid."""
    held = [int(one) for one in numbers if is_whole(one) and abs(one) < 2**63]  # as a database can
    rows = rows_where(book, select(entries.c.entry, entries.c.time), entries.c.entry, held)
    times = {row.entry: str(row.time) for row in rows}
    for number in numbers:
        if number not in times:
            raise LedgerError(f"entry must be one of the ledger's, got entry={number}")
    return max(times.values())


def paid_parts(book: Book, dataset: str) -> set[tuple[Part, int]]:
    """Return the cells of a data set's entries, with the numbers of records they had."""
    of_cells = (entries.c.dataset == dataset) & entries.c.partition.is_not(None)
    cells = select(entries.c.partition, entries.c.cell, entries.c.n).where(of_cells).distinct()
    rows = book.connection.execute(cells).all()
    return {(part, row.n) for row in rows if (part := part_of(row)) is not None}


def read_statement(book: Book, dataset: str, *, newest: int | None) -> Statement:
    """Compose all of a data set's entries; list all of them, or the newest."""
    limits = select(budgets).where(budgets.c.dataset == dataset).order_by(budgets.c.position)
    history = tuple(budget_of(row) for row in book.connection.execute(limits))
    kinds = kinds_of(book, dataset)
    events = read_events(book, dataset, kinds)
    account = account_from(kinds, events.__getitem__)
    rows = _newest_rows(book, dataset, newest)
    costs = {text: event.cost() for text, event in events.items()}
    last = history[-1]
    return Statement(
        dataset=dataset,
        unit=last.unit,
        budget=last.limit,
        spent=account.spent,
        left=last.limit - account.spent,
        entries=tuple(_entry_of(row, events, costs) for row in rows),
        n_entries=sum(n for _, _, n in kinds),
        plans=_plans_of(book, dataset, kinds, events),
        budgets=history,
    )


def _newest_rows(book: Book, dataset: str, newest: int | None) -> list[Record]:
    """Return entries in the order of payment, with whether anything was released from them."""
    released = or_(
        *(exists().where(table.c.entry == entries.c.entry) for table in (releases, answers))
    )
    found = (
        select(entries, released.label("released"))
        .where(entries.c.dataset == dataset)
        .order_by(entries.c.entry.desc())
        .limit(newest)
    )
    return list(reversed(book.connection.execute(found).all()))


def _plans_of(
    book: Book, dataset: str, kinds: Sequence[Kind], events: Mapping[str, Event]
) -> tuple[PlanUse, ...]:
    """Return the plans of a data set, all about all tasks, in the order of payment."""
    plans = {text: event for text, event in events.items() if isinstance(event, PlanEvent)}
    rows = book.connection.execute(
        select(entries.c.entry, entries.c.query, entries.c.event)
        .where((entries.c.dataset == dataset) & entries.c.event.in_(plans))
        .where(entries.c.partition.is_(None) & entries.c.cell.is_(None))
        .order_by(entries.c.entry)
    )
    return tuple(
        PlanUse(
            row.entry,
            row.query,
            plans[row.event],
            slots_of(row.entry, plans[row.event], kinds).used(),
        )
        for row in rows.all()
    )


def _entry_of(row: Record, events: Mapping[str, Event], costs: Mapping[str, Cost]) -> Entry:
    return Entry(
        entry=row.entry,
        time=row.time,
        what=row.query,
        mechanism=row.mechanism,
        part=part_of(row),
        n=row.n,
        event=events[row.event],
        cost=costs[row.event],
        released=bool(row.released),
    )
