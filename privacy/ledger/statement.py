"""What a data set's budget has gone to, recomputed from the stored events."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, exists, or_, select

from privacy.accounting.account import account_from
from privacy.accounting.plans import PlanEvent, PlannedEvent
from privacy.ledger.records import read_events
from privacy.ledger.spending import Budget, kinds_of, part_of, read_budgets, slots_of
from privacy.ledger.store import Record, answers, entries, releases
from privacy.mechanisms.kinds import Cost, Event
from privacy.query import Part, Unit

__all__ = ["Entry", "PlanUse", "Statement", "read_statement"]

NOTE = (
    "Costs of entries add up, except that cells of one partition hold different tasks: a partition "
    "costs as much as its dearest cell."
)


@dataclass(frozen=True, slots=True)
class Entry:
    """One spend in the ledger.

    `what` is the query's name, `mechanism` the class that was run, `cost` that of this entry alone.
    `released` is False for what was paid and never stored, after a crash say; it stays spent, and
    asking again draws it under the same payment; and for a plan, which releases nothing itself.
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
        """Number of the entry that paid for this one; None where it was paid itself."""
        return self.event.plan if isinstance(self.event, PlannedEvent) else None


@dataclass(frozen=True, slots=True)
class PlanUse:
    """A plan that was paid, and how many of its releases any one task may have been in by now."""

    entry: int
    name: str
    plan: PlanEvent
    used: int

    @property
    def n_releases(self) -> int:
        """How many releases it paid for."""
        return sum(count for _, count in self.plan.events)


@dataclass(frozen=True, slots=True)
class Statement:
    """A data set's budget, what is spent and left of it, and its entries.

    `entries` are in the order they were made, all of them or the newest that were asked for;
    `n_entries` counts all, and `spent` is what all cost; `plans` are all that were paid.
    For the data's owners: whether and when entries were made can depend on private data.
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


def read_statement(
    connection: Connection, dataset: str, *, newest: int | None, key: bytes
) -> Statement:
    """Compose all of a data set's entries, and list all or the newest."""
    history = read_budgets(connection, dataset)
    kinds = kinds_of(connection, dataset)
    events = read_events(connection, dataset, kinds, key=key)
    account = account_from(kinds, events.__getitem__)
    rows = _newest_rows(connection, dataset, newest)
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
        plans=_plans_of(connection, dataset, kinds, events),
        budgets=history,
    )


def _newest_rows(connection: Connection, dataset: str, newest: int | None) -> list[Record]:
    """Entries in the order they were made, with whether anything of them was released."""
    released = or_(
        *(exists().where(table.c.entry == entries.c.entry) for table in (releases, answers))
    )
    found = (
        select(entries, released.label("released"))
        .where(entries.c.dataset == dataset)
        .order_by(entries.c.entry.desc())
        .limit(newest)
    )
    return list(reversed(connection.execute(found).all()))


def _plans_of(
    connection: Connection,
    dataset: str,
    kinds: Sequence[tuple[Part | None, str, int]],
    events: Mapping[str, Event],
) -> tuple[PlanUse, ...]:
    """Plans of a data set, all about all tasks, in the order they were paid."""
    plans = {text: event for text, event in events.items() if isinstance(event, PlanEvent)}
    rows = connection.execute(
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
