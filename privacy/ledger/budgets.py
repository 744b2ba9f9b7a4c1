"""Budgets in the ledger's tables: the limit that holds for a data set, and its history."""

import math
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import Connection, select

from privacy.ledger.records import append, check_row
from privacy.ledger.store import without_budget
from privacy.ledger.tables import Record, budgets
from privacy.mechanisms.kinds import Cost, exact
from privacy.query import Unit, check_size

__all__ = [
    "Budget",
    "dataset_names",
    "find_budget",
    "insert_budget",
    "limit_of",
    "now",
    "read_budgets",
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
