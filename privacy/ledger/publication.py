"""Publications under a public key: paid and drawn once, even if the data change.

The ledger recognises a query with a `Publication` by public things alone: mechanism, name, key, terms and
cell. So neither the freshness of a value nor the equality of two publications reveals anything about the
data. A keyed digest of the private data is stored with each such value; by it the data's owners see that a
value is older than the data.

>>> import numpy as np
>>> from privacy.query import Publication, Unit
>>> november = Publication("2026-11")
>>> Query("toy", "counts", np.array([3, 1]), Unit.ROW, 4, 2.0, publication=november).full_name
'counts, publication 2026-11'
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import select

from privacy.accounting import Event, PlannedEvent, event_json, parse_event
from privacy.ledger.records import Book, part_of, rows_where
from privacy.ledger.store import LedgerError, Record, answers, entries, releases
from privacy.query import Query

__all__ = [
    "Published",
    "check_keys_are_unused",
    "check_same_size",
    "check_undrawn",
    "find_published",
    "public_identity",
]

DRAWN = {
    table.c.entry: select(table.c.entry, table.c.contents).where(table.c.contents.is_not(None))
    for table in (releases, answers)
}
"""Queries for the digest of the data behind an entry's value; an interaction's first answer has it."""

ANOTHER_KEY = "nothing was spent. Give another publication key, which is paid anew"


def public_identity(query: Query, mechanism: Any) -> dict[str, Any]:
    """Return the public identity of a query under a key, as JSON; `mechanism` describes its knobs."""
    if query.publication is None:
        raise ValueError("query must have a publication")
    return {
        "mechanism": mechanism,
        "publication": [query.publication.key, query.publication.terms],
        "query": [
            query.dataset,
            query.name,
            str(query.unit),
            float(query.l1).hex(),
            None if query.part is None else query.part.name,
        ],
    }


def check_keys_are_unused(book: Book, new: Sequence[Query]) -> None:
    """Raise LedgerError if a key has other terms for the same name and cell, on record or among these.

    The caller holds the data sets' locks, and has found no entries for these queries with their own terms.
    """
    names: dict[tuple[str, str], set[str | None]] = {}
    for query in new:
        name = query.dataset, query.full_name
        if name not in names:
            cells = select(entries.c.cell).where(entries.c.dataset == query.dataset)
            found = book.connection.scalars(cells.where(entries.c.query == name[1]))
            names[name] = set(found)
        cell = None if query.part is None else query.part.name
        known = names[name]
        # all together and apart are two forms of one publication: the second would be drawn and paid again
        if cell in known or (known and (cell is None) != (None in known)):
            raise LedgerError(
                f"{_what(query)} was published already with another mechanism, price, unit or terms; "
                f"{ANOTHER_KEY}"
            )
        names[name].add(cell)


def check_undrawn(book: Book, query: Query, event: Event, entry: int) -> None:
    """Raise LedgerError if an entry without a value was paid for other facts or another event.

    A draw would come from other records than those that were paid for, or cost another price.
    """
    drawn = (
        select(table.c.entry).where(table.c.entry == entry).limit(1)
        for table in (releases, answers)
    )
    if any(book.connection.execute(one).first() for one in drawn):
        return
    check_same_size(book, query, entry)
    row = book.connection.execute(select(entries).where(entries.c.entry == entry)).one()
    if event_json(_event_of(row)) != event_json(event):
        raise LedgerError(
            f"{_what(query)} was paid for with other noise or at another price; {ANOTHER_KEY}"
        )


def check_same_size(book: Book, query: Query, entry: int) -> None:
    """Raise LedgerError unless an entry was paid for the same number of records, part and facts."""
    row = book.connection.execute(select(entries).where(entries.c.entry == entry)).one()
    facts = None if query.publication is None else query.publication.facts
    if (row.n, part_of(row), row.facts) != (int(query.n), query.part, facts):
        raise LedgerError(
            f"{_what(query)} was paid for {row.n // query.places} records, got {query.n_records} records, "
            f"or other cells or sizes; {ANOTHER_KEY}"
        )


@dataclass(frozen=True, slots=True)
class Published:
    """The content of an entry under a key: event, public facts, and a digest of the data drawn from."""

    event: Event
    facts: str
    contents: bytes | None = field(repr=False)


def find_published(book: Book, numbers: Collection[int]) -> dict[int, Published]:
    """Return what each entry was paid for, and the digest of the data behind its value, by entry number."""
    asked = list(numbers)
    contents = {
        row.entry: row.contents
        for column, drawn in DRAWN.items()
        for row in rows_where(book, drawn, column, asked)
    }
    rows = rows_where(book, select(entries), entries.c.entry, asked)
    return {
        row.entry: Published(_event_of(row), row.facts, contents.get(row.entry)) for row in rows
    }


def _event_of(row: Record) -> Event:
    """Return the mechanism's event, even if a plan's slot paid for it."""
    event = parse_event(row.event)
    return parse_event(event.event) if isinstance(event, PlannedEvent) else event


def _what(query: Query) -> str:
    cell = "" if query.part is None else f", cell {query.part.name!r}"
    return f"{query.full_name} of {query.dataset!r}{cell},"
