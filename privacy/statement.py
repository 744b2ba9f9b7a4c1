"""What a data set's budget has gone to, recomputed from the stored events."""

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from privacy.account import account_from
from privacy.budgets import Budget, budget_of
from privacy.events import Cost, Event, EventError, parse_event
from privacy.queries import Part, Unit
from privacy.store import LedgerError

__all__ = ["Entry", "Statement", "part_of", "read_rows", "statement_of"]

NOTE = (
    "Costs of entries add up, except that cells of one partition hold different tasks: a partition "
    "costs as much as its dearest cell."
)


@dataclass(frozen=True, slots=True)
class Entry:
    """One spend in the ledger.

    `what` is the query's name, `mechanism` the class that was run, `cost` that of this entry alone.
    `released` is False for what was paid and never stored, after a crash say; it stays spent, and
    asking again draws it under the same payment.
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


@dataclass(frozen=True, slots=True)
class Statement:
    """A data set's budget, what is spent and left of it, and every entry.

    For the data's owners: whether and when entries were made can depend on private data.
    """

    dataset: str
    unit: Unit
    budget: Cost
    spent: Cost
    left: Cost
    entries: tuple[Entry, ...]
    budgets: tuple[Budget, ...]
    note: str = NOTE


def read_rows(
    connection: sqlite3.Connection, dataset: str
) -> tuple[list[sqlite3.Row], list[sqlite3.Row]]:
    """All budgets and entries of a data set, in the order they were made."""
    budgets = connection.execute(
        "SELECT * FROM budgets WHERE dataset = ? ORDER BY budget", (dataset,)
    ).fetchall()
    entries = connection.execute(
        "SELECT *, value IS NOT NULL OR EXISTS (SELECT 1 FROM answers "
        "WHERE answers.entry = entries.entry) AS released "
        "FROM entries WHERE dataset = ? ORDER BY entry",
        (dataset,),
    ).fetchall()
    return budgets, entries


def statement_of(
    dataset: str, budgets: Iterable[sqlite3.Row], rows: Sequence[sqlite3.Row]
) -> Statement:
    """Compose a data set's rows."""
    history = tuple(budget_of(row) for row in budgets)
    try:
        spent = account_from((part_of(row), row["event"], 1) for row in rows).spent
        events = {text: parse_event(text) for text in {row["event"] for row in rows}}
    except EventError as error:
        raise LedgerError(f"an entry of {dataset!r} is {error}") from None
    costs = {text: event.cost() for text, event in events.items()}
    entries = tuple(
        Entry(
            entry=row["entry"],
            time=row["time"],
            what=row["query"],
            mechanism=row["mechanism"],
            part=part_of(row),
            n=row["n"],
            event=events[row["event"]],
            cost=costs[row["event"]],
            released=bool(row["released"]),
        )
        for row in rows
    )
    last = history[-1]
    return Statement(
        dataset, last.unit, last.limit, spent, last.limit - spent, entries, budgets=history
    )


def part_of(row: sqlite3.Row) -> Part | None:
    """Read the part of an entry's row."""
    return None if row["partition"] is None else Part(row["partition"], row["cell"])
