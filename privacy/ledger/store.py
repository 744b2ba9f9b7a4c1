"""Where the ledger's tables are kept, and the two ways to use them: to write, and to read.

A `Store` is a file (`privacy.ledger.sqlite`) or a database of a server (`privacy.ledger.postgres`).
Each use has a connection of its own, so threads and forks are safe.
"""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol, TypeAlias, runtime_checkable

from sqlalchemy import Connection, Engine, select
from sqlalchemy.exc import SQLAlchemyError

from privacy.ledger.tables import VERSION, budgets

__all__ = [
    "Fill",
    "LedgerError",
    "Store",
    "check_version",
    "lock",
    "snapshot",
    "transaction",
    "without_budget",
]

WAIT = 60.0  # seconds to wait for another process's transaction

Fill: TypeAlias = Callable[[Connection], None]
"""Writes the first rows of a ledger in the transaction that makes it."""


class LedgerError(RuntimeError):
    """The ledger cannot be read, written or trusted, or is asked for what it does not hold."""


@runtime_checkable
class Store(Protocol):
    """One ledger's tables."""

    @property
    def place(self) -> str:
        """Where it is, for people; tells no password."""

    @property
    def engine(self) -> Engine:
        """How it is reached."""

    def begin(self, *, write: bool) -> str:
        """Text that begins a transaction, which waits for others' writes or reads one moment."""

    def told(self, error: SQLAlchemyError) -> str:
        """What went wrong, without any row's content."""

    def exists(self) -> bool:
        """Whether there is a ledger, or something in its place."""

    def make(self, fill: Fill) -> bool:
        """Make the tables and fill them, whole or not at all; False where there are some."""

    def check(self, connection: Connection) -> None:
        """Refuse what is not exactly such a store of this version."""

    def check_deeply(self, connection: Connection) -> None:
        """Have the database look for damage of its own."""

    def backup(self, path: Path) -> None:
        """Write a copy to a new file, consistent while others write."""


@contextlib.contextmanager
def transaction(store: Store) -> Iterator[Connection]:
    """One write transaction, durable when the block ends and undone when it raises."""
    with _connected(store, write=True) as connection:
        yield connection
        connection.commit()


@contextlib.contextmanager
def snapshot(store: Store) -> Iterator[Connection]:
    """Read one moment's state; nobody waits for it."""
    with _connected(store, write=False) as connection:
        yield connection


def lock(connection: Connection, *datasets: str) -> None:
    """Let no other transaction spend from these data sets until this one ends.

    The rows locked are the data sets' budgets, in one order for all, so that no two transactions
    wait for each other. The first of them never changes: a limit that is set later, and which a
    waiting transaction would not see as it wakes, is read after the lock. A data set without a row
    is refused here, as nothing would be locked, and its first one could come the next moment.
    SQLite has locked all.
    """
    locked = connection.scalars(
        select(budgets.c.dataset)
        .where(budgets.c.dataset.in_(datasets))
        .order_by(budgets.c.position)
        .with_for_update()
    ).all()
    for dataset in datasets:
        if dataset not in locked:
            raise without_budget(dataset)


def without_budget(dataset: str) -> LedgerError:
    """A refusal to spend from a data set that has no budget."""
    return LedgerError(f"{dataset!r} must have a budget first: open_budget sets one")


def check_version(place: str, found: int) -> None:
    """Refuse another version's ledger."""
    if found == VERSION:
        return
    way = (
        "import_ledger brings it over into a new one"
        if found == 1
        else "use the release of this software that wrote it, or restore a ledger"
    )
    raise LedgerError(f"{place} must be a ledger of version {VERSION}, got version {found}; {way}")


@contextlib.contextmanager
def _connected(store: Store, *, write: bool) -> Iterator[Connection]:
    try:
        with store.engine.connect() as connection:
            connection.exec_driver_sql(store.begin(write=write))
            yield connection
    except SQLAlchemyError as error:
        raise LedgerError(
            f"the ledger {store.place} refuses: {store.told(error)}; nothing is released"
        ) from None
