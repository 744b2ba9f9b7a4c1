"""The ledger's tables, the same on SQLite and on PostgreSQL.

Rows are only ever added, to the end of one chain: `position` numbers the rows of all four chained
tables together, and `link` holds each to the one before it (`privacy.ledger.records`). `head` tells where
the chain ends.
"""

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias, TypeVar

from sqlalchemy import TableClause, column, table

__all__ = [
    "CHAINED",
    "VERSION",
    "Record",
    "about",
    "answers",
    "batches",
    "budgets",
    "definitions",
    "entries",
    "head",
    "releases",
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
