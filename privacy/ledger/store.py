"""The ledger's tables, the same on SQLite and on PostgreSQL, and the `Store` that keeps them.

A `Store` is a file (`privacy.ledger.sqlite`) or a database of a server (`privacy.ledger.postgres`).
Each use has a connection of its own, so threads and forks are safe.

Rows are only ever added, to the end of one chain. `position` numbers the rows of all four chained tables
together, and `link` ties each row to the one before it (`privacy.ledger.records`). The table `head` keeps
the end of the chain. The statements that every transaction runs are built once, so that SQLAlchemy compiles
each only once.

>>> [table.name for table in CHAINED]
['budgets', 'entries', 'releases', 'answers']
"""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, TypeAlias, runtime_checkable

from sqlalchemy import (
    ColumnClause,
    Connection,
    Engine,
    Insert,
    Select,
    TableClause,
    bindparam,
    column,
    insert,
    select,
    table,
    union_all,
)
from sqlalchemy.exc import SQLAlchemyError

__all__ = [
    "CHAINED",
    "HEADS",
    "LINKS",
    "VERSION",
    "Fill",
    "LedgerError",
    "Record",
    "Store",
    "about",
    "answers",
    "budgets",
    "check_version",
    "definitions",
    "entries",
    "head",
    "inserting",
    "newest_with",
    "releases",
    "restricted",
]

VERSION = 4
WAIT = 60.0  # seconds to wait for another process's transaction

Record: TypeAlias = Any
"""A row that was read: a tuple whose columns are attributes too."""


def _table(name: str, columns: str) -> TableClause:
    return table(name, *(column(one) for one in columns.split()))


about = _table("about", "version key_digest start")
head = _table("head", "n_rows link seal")
budgets = _table("budgets", "position time dataset unit epsilon delta n link")
entries = _table(
    "entries",
    "entry position time dataset query unit n partition cell mechanism event fingerprint facts link",
)
releases = _table("releases", "position time entry contents value link")
answers = _table("answers", "position time entry question fingerprint contents state value link")

CHAINED = (budgets, entries, releases, answers)

HEADS = {True: select(head).with_for_update(), False: select(head)}
"""The head, locked or not."""

LINKS = union_all(
    *(
        select(one.c.position, one.c.link).where(one.c.position.in_(bindparam("positions")))
        for one in CHAINED
    )
)
"""The links of rows at `positions`."""


@functools.cache
def inserting(one: TableClause) -> Insert:
    """Return the statement that adds rows to a table."""
    return insert(one)


@functools.lru_cache(maxsize=64)
def restricted(query: Select[Any], to: ColumnClause[Any]) -> Select[Any]:
    """Return a query of the rows whose column is one of the values of the parameter `asked`."""
    return query.where(to.in_(bindparam("asked")))


@functools.cache
def newest_with(one: TableClause, of: ColumnClause[Any]) -> Select[Any]:
    """Return the query of the newest row whose column has the parameter `value`."""
    rows = select(one).where(of == bindparam("value"))
    return rows.order_by(one.c.position.desc()).limit(1)


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
        fingerprint {bytes} NOT NULL UNIQUE, facts TEXT, link {bytes} NOT NULL,
        CHECK ((partition IS NULL) = (cell IS NULL)))""",
    """CREATE TABLE releases (
        position {number} PRIMARY KEY, time TEXT NOT NULL,
        entry {number} NOT NULL UNIQUE REFERENCES entries, contents {bytes}, value TEXT NOT NULL,
        link {bytes} NOT NULL)""",
    """CREATE TABLE answers (
        position {number} PRIMARY KEY, time TEXT NOT NULL,
        entry {number} NOT NULL REFERENCES entries, question TEXT NOT NULL,
        fingerprint {bytes} NOT NULL, contents {bytes}, state TEXT NOT NULL, value TEXT NOT NULL,
        link {bytes} NOT NULL, UNIQUE (entry, fingerprint))""",
    "CREATE INDEX entries_by_dataset ON entries (dataset, entry)",
)


def definitions(*, number: str, bytes_: str) -> tuple[str, ...]:
    """Return the statements that make the tables, with a database's types for whole numbers and bytes."""
    return tuple(text.format(number=number, bytes=bytes_) for text in DEFINITIONS)


Fill: TypeAlias = Callable[[Connection], None]
"""Writes the first rows of a ledger in the transaction that makes it."""


class LedgerError(RuntimeError):
    """The ledger cannot be read, written or trusted, or has no such budget, plan or entry."""


@runtime_checkable
class Store(Protocol):
    """One ledger's tables."""

    @property
    def place(self) -> str:
        """Where the ledger is, for people, without a password."""

    @property
    def engine(self) -> Engine:
        """SQLAlchemy's engine for the ledger; each use opens a connection of its own."""

    def begin(self, *, write: bool) -> str:
        """Return text that begins a transaction: it waits for others' writes, or reads one moment's state."""

    def reason(self, error: SQLAlchemyError) -> str:
        """Return the cause of an error, without any row's content."""

    def exists(self) -> bool:
        """Return whether there is a ledger, or anything else in its place."""

    def make(self, fill: Fill) -> bool:
        """Make the tables and fill them, completely or not at all; return False if tables exist."""

    def check(self, connection: Connection) -> None:
        """Raise LedgerError unless tables, triggers and version are this ledger's."""

    def check_deeply(self, connection: Connection) -> None:
        """Have the database check itself for damage."""

    def backup(self, path: Path) -> None:
        """Write a copy to a new file, consistent while others write."""


def check_version(place: str, found: int) -> None:
    """Raise LedgerError unless a ledger is of this version."""
    if found != VERSION:
        raise LedgerError(
            f"{place} must be a ledger of version {VERSION}, got version {found}; use the release "
            "of this software that wrote it, or restore a ledger"
        )
