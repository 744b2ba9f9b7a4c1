"""Where the ledger's tables are kept, and the two ways to use them: to write, and to read.

A `Store` is a file (`privacy.ledger.sqlite`) or a database of a server (`privacy.ledger.postgres`).
Each use has a connection of its own, so threads and forks are safe.

The ledger's tables, the same on SQLite and on PostgreSQL.

Rows are only ever added, to the end of one chain: `position` numbers the rows of all four chained
tables together, and `link` holds each to the one before it (`privacy.ledger.records`). `head` tells where
the chain ends.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeAlias, TypeVar, runtime_checkable

from sqlalchemy import Connection, Engine, TableClause, column, select, table
from sqlalchemy.exc import SQLAlchemyError

__all__ = [
    "CHAINED",
    "VERSION",
    "Fill",
    "LedgerError",
    "Record",
    "Store",
    "about",
    "answers",
    "batches",
    "budgets",
    "check_version",
    "definitions",
    "entries",
    "head",
    "lock",
    "releases",
    "snapshot",
    "transaction",
    "without_budget",
]

VERSION = 2
ASKED_AT_ONCE = 500  # values in one condition

T = TypeVar("T")

Record: TypeAlias = Any
"""A row that was read: a tuple whose columns are attributes too."""


def _table(name: str, columns: str) -> TableClause:
    return table(name, *(column(one) for one in columns.split()))


about = _table("about", "version key_digest start")
head = _table("head", "n_rows link seal")
budgets = _table("budgets", "position time dataset unit epsilon delta n link")
entries = _table(
    "entries",
    "entry position time dataset query unit n partition cell mechanism event fingerprint link",
)
releases = _table("releases", "position time entry value link")
answers = _table("answers", "position time entry question fingerprint state value link")

CHAINED = (budgets, entries, releases, answers)

DEFINITIONS = (
    """CREATE TABLE about (
        version {number} NOT NULL, key_digest {bytes} NOT NULL, start {bytes} NOT NULL)""",
    """CREATE TABLE head (
        n_rows {number} NOT NULL, link {bytes} NOT NULL, seal {bytes} NOT NULL)""",
    """CREATE TABLE budgets (
        position {number} PRIMARY KEY, time TEXT NOT NULL, dataset TEXT NOT NULL,
        unit TEXT NOT NULL, epsilon TEXT NOT NULL, delta TEXT NOT NULL, n {number} NOT NULL,
        link {bytes} NOT NULL)""",
    """CREATE TABLE entries (
        entry {number} PRIMARY KEY, position {number} NOT NULL UNIQUE, time TEXT NOT NULL,
        dataset TEXT NOT NULL, query TEXT NOT NULL, unit TEXT NOT NULL, n {number} NOT NULL,
        partition TEXT, cell TEXT, mechanism TEXT NOT NULL, event TEXT NOT NULL,
        fingerprint {bytes} NOT NULL UNIQUE, link {bytes} NOT NULL,
        CHECK ((partition IS NULL) = (cell IS NULL)))""",
    """CREATE TABLE releases (
        position {number} PRIMARY KEY, time TEXT NOT NULL,
        entry {number} NOT NULL UNIQUE REFERENCES entries, value TEXT NOT NULL,
        link {bytes} NOT NULL)""",
    """CREATE TABLE answers (
        position {number} PRIMARY KEY, time TEXT NOT NULL,
        entry {number} NOT NULL REFERENCES entries, question TEXT NOT NULL,
        fingerprint {bytes} NOT NULL, state TEXT NOT NULL, value TEXT NOT NULL,
        link {bytes} NOT NULL, UNIQUE (entry, fingerprint))""",
    "CREATE INDEX entries_by_cell ON entries (dataset, partition, cell, event)",
    "CREATE INDEX entries_by_dataset ON entries (dataset, entry)",
)


def definitions(*, number: str, bytes_: str) -> tuple[str, ...]:
    """What makes the tables, with a database's names of a whole number and of bytes."""
    return tuple(text.format(number=number, bytes=bytes_) for text in DEFINITIONS)


def batches(values: Sequence[T]) -> Iterator[Sequence[T]]:
    """Values in as many at a time as one condition takes."""
    for first in range(0, len(values), ASKED_AT_ONCE):
        yield values[first : first + ASKED_AT_ONCE]


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
