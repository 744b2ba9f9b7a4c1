"""Budgets in the ledger's tables: the limit that holds for a data set, and its history."""

import math
import sqlite3
from dataclasses import dataclass
from datetime import UTC, datetime

from privacy.events import Cost, exact
from privacy.queries import Unit
from privacy.store import LedgerError

__all__ = [
    "Budget",
    "budget_of",
    "dataset_names",
    "find_budget",
    "insert_budget",
    "limit_of",
    "now",
    "required_budget",
    "told",
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
    if not n >= 1:
        raise ValueError(f"n must be >= 1, got n={n}")
    if not (delta >= 0 and exact(delta) * int(n) < 1):
        raise ValueError(
            f"delta must be >= 0 and < 1/n, as a delta of 1/n allows publishing whole records, got "
            f"delta={delta}, n={n}"
        )
    return Cost(exact(epsilon), exact(delta))


def budget_of(row: sqlite3.Row) -> Budget:
    """Read one row of the table of budgets."""
    limit = Cost(exact(row["epsilon"]), exact(row["delta"]))
    return Budget(row["time"], Unit(row["unit"]), limit, row["n"])


def find_budget(connection: sqlite3.Connection, dataset: str) -> Budget | None:
    """The budget that holds for a data set."""
    row = connection.execute(
        "SELECT * FROM budgets WHERE dataset = ? ORDER BY budget DESC LIMIT 1", (dataset,)
    ).fetchone()
    return None if row is None else budget_of(row)


def required_budget(connection: sqlite3.Connection, dataset: str) -> Budget:
    """The budget that holds for a data set, or a refusal."""
    found = find_budget(connection, dataset)
    if found is None:
        raise LedgerError(f"{dataset!r} must have a budget first: open_budget sets one")
    return found


def dataset_names(connection: sqlite3.Connection) -> tuple[str, ...]:
    """Data sets that have a budget, sorted."""
    rows = connection.execute("SELECT DISTINCT dataset FROM budgets ORDER BY dataset")
    return tuple(row["dataset"] for row in rows)


def insert_budget(
    connection: sqlite3.Connection, dataset: str, unit: Unit, epsilon: float, delta: float, n: int
) -> None:
    """Record a limit, from now on."""
    connection.execute(
        "INSERT INTO budgets (time, dataset, unit, epsilon, delta, n) VALUES (?, ?, ?, ?, ?, ?)",
        (now(), dataset, str(unit), str(epsilon), str(delta), int(n)),
    )


def told(cost: Cost) -> str:
    """A cost, for messages."""
    return f"epsilon={float(cost.epsilon):.12g}, delta={float(cost.delta):.12g}"


def now() -> str:
    """The time for a row, in ISO 8601 and UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")
