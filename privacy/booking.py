"""Booking in the ledger's tables: what is known, what it costs, whether the budget covers it."""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

from privacy.account import Account, account_from
from privacy.budgets import Budget, now, required_budget, told
from privacy.events import Cost, Event, EventError, event_json
from privacy.mechanisms import Interaction, Mechanism
from privacy.queries import Query, UnitError
from privacy.statement import part_of
from privacy.store import LedgerError

__all__ = [
    "BudgetError",
    "Request",
    "account_of",
    "find_answer",
    "find_entry",
    "insert_answer",
    "insert_entries",
    "keep_value",
    "last_state",
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
    """A release asked for, its event, and the fingerprint that the ledger knows it by."""

    mechanism: Mechanism | Interaction
    query: Query
    event: Event
    fingerprint: bytes


def unpaid(connection: sqlite3.Connection, asked: Sequence[Request]) -> list[Request]:
    """Requests without an entry, each once, if the budgets cover them all; otherwise a refusal."""
    new = {one.fingerprint: one for one in asked if find_entry(connection, one.fingerprint) is None}
    for dataset in dict.fromkeys(one.query.dataset for one in asked):
        budget = required_budget(connection, dataset)
        for one in asked:
            if one.query.dataset == dataset:
                _check_query(one.query, budget)
        fresh = [one for one in new.values() if one.query.dataset == dataset]
        if fresh:
            _check_afford(connection, budget, fresh)
    return list(new.values())


def find_entry(connection: sqlite3.Connection, fingerprint: bytes) -> tuple[int, str | None] | None:
    """Number and stored value of the entry with this fingerprint."""
    row = connection.execute(
        "SELECT entry, value FROM entries WHERE fingerprint = ?", (fingerprint,)
    ).fetchone()
    return None if row is None else (row["entry"], row["value"])


def account_of(connection: sqlite3.Connection, dataset: str) -> Account:
    """Recompose a data set's entries."""
    rows = connection.execute(
        "SELECT partition, cell, event, COUNT(*) AS count FROM entries WHERE dataset = ? "
        "GROUP BY partition, cell, event",
        (dataset,),
    )
    try:
        return account_from((part_of(row), row["event"], row["count"]) for row in rows)
    except EventError as error:
        raise LedgerError(f"an entry of {dataset!r} is {error}; nothing can be spent") from None


def insert_entries(connection: sqlite3.Connection, requests: Sequence[Request]) -> None:
    """Record what is spent."""
    time = now()
    connection.executemany(
        "INSERT INTO entries (time, dataset, query, unit, n, partition, cell, mechanism, event, "
        "fingerprint) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (
                time,
                one.query.dataset,
                one.query.name,
                str(one.query.unit),
                int(one.query.n),
                None if one.query.part is None else one.query.part.partition,
                None if one.query.part is None else one.query.part.name,
                type(one.mechanism).__qualname__,
                event_json(one.event),
                one.fingerprint,
            )
            for one in requests
        ],
    )


def keep_value(connection: sqlite3.Connection, entry: int, value: str) -> tuple[str, bool]:
    """Store an entry's value where it has none; what is stored then, and whether it is this one."""
    done = connection.execute(
        "UPDATE entries SET value = ? WHERE entry = ? AND value IS NULL", (value, entry)
    )
    row = connection.execute("SELECT value FROM entries WHERE entry = ?", (entry,)).fetchone()
    return row["value"], done.rowcount == 1


def time_of(connection: sqlite3.Connection, entry: int) -> str:
    """When an entry was paid."""
    row = connection.execute("SELECT time FROM entries WHERE entry = ?", (entry,)).fetchone()
    if row is None:
        raise LedgerError(f"entry must be one of the ledger's, got entry={entry}")
    return str(row["time"])


def find_answer(connection: sqlite3.Connection, entry: int, fingerprint: bytes) -> str | None:
    """The stored answer to the question with this fingerprint."""
    row = connection.execute(
        "SELECT value FROM answers WHERE entry = ? AND fingerprint = ?", (entry, fingerprint)
    ).fetchone()
    return None if row is None else row["value"]


def last_state(connection: sqlite3.Connection, entry: int) -> str | None:
    """The secret state after an interaction's last answer."""
    row = connection.execute(
        "SELECT state FROM answers WHERE entry = ? ORDER BY answer DESC LIMIT 1", (entry,)
    ).fetchone()
    return None if row is None else row["state"]


def insert_answer(
    connection: sqlite3.Connection,
    entry: int,
    question: str,
    fingerprint: bytes,
    *,
    state: str,
    value: str,
) -> None:
    """Record an answer together with the secret state after it."""
    connection.execute(
        "INSERT INTO answers (time, entry, question, fingerprint, state, value) "
        "VALUES (?, ?, ?, ?, ?, ?)",
        (now(), entry, question, fingerprint, state, value),
    )


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


def _check_afford(connection: sqlite3.Connection, budget: Budget, new: Sequence[Request]) -> None:
    dataset = new[0].query.dataset
    account = account_of(connection, dataset)
    before = account.spent
    for one in new:
        account.add(one.query.part, one.event.cost())
    if not account.spent.within(budget.limit):
        raise BudgetError(dataset, budget.limit, before, account.spent - before)
