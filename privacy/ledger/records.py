"""The ledger's rows, read and written in transactions; a link ties each row to the one before it.

A `Book` is one transaction, with its connection and the key. `Access.writing` opens one that is durable
when it ends, `Access.reading` one that reads a single moment's state. Functions that read or write rows
take a book.

Every row's link is a keyed hash of the row and of the link before it. The head keeps the number of rows and
the last link under a keyed seal, so that a shortened chain is detected. The chain cannot show that the
whole ledger, head included, was replaced by an earlier copy of itself: a `Head` kept elsewhere shows it.
Nothing shows changes made by a holder of the key.

>>> len(key_digest(bytes(32)))
32
"""

import contextlib
import hashlib
import heapq
import itertools
import json
import math
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeAlias

from sqlalchemy import (
    ColumnClause,
    ColumnElement,
    Connection,
    Select,
    TableClause,
    func,
    select,
    update,
)
from sqlalchemy.exc import SQLAlchemyError

from privacy.accounting import (
    Account,
    Cost,
    Event,
    EventError,
    PlanEvent,
    account_from,
    exact,
    paid_plan,
    parse_event,
)
from privacy.ledger.store import (
    CHAINED,
    HEADS,
    LINKS,
    VERSION,
    LedgerError,
    Record,
    Store,
    about,
    budgets,
    entries,
    head,
    inserting,
    newest_with,
    restricted,
)
from privacy.query import Part, Unit, is_text

__all__ = [
    "Access",
    "Book",
    "Budget",
    "Head",
    "Kind",
    "account_of",
    "append",
    "budget_of",
    "check_chain",
    "check_key",
    "check_rows",
    "find_budget",
    "heads_lacking",
    "hold",
    "key_digest",
    "kinds_of",
    "last_row",
    "last_rows",
    "lock",
    "now",
    "part_of",
    "read_events",
    "read_head",
    "required_budget",
    "rows_where",
    "start_chain",
]

RESTORE = "restore a backup and account for what came after it"
BATCH = 1_000  # rows fetched at a time
ASKED_AT_ONCE = 500  # values in one condition of a query
KEPT: Mapping[str, type[Any]] = {
    "position": int, "entry": int, "n": int, "fingerprint": bytes, "contents": bytes,
}  # fmt: skip
"""Types of the columns that do not hold texts."""

_canonical = json.JSONEncoder(default=bytes.hex, separators=(",", ":")).encode


@dataclass(frozen=True, slots=True, eq=False)
class Book:
    """One transaction on a ledger's tables, and the key of its chain."""

    connection: Connection = field(repr=False)
    key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class Access:
    """A ledger's store and its key; every transaction begins here."""

    store: Store
    key: bytes = field(repr=False)

    @contextlib.contextmanager
    def writing(self) -> Iterator[Book]:
        """Open one write transaction, durable at the end of the block and undone if it raises."""
        with _connected(self.store, write=True) as connection:
            yield Book(connection, self.key)
            connection.commit()

    @contextlib.contextmanager
    def reading(self) -> Iterator[Book]:
        """Open one read transaction on a single moment's state; no other transaction waits for it."""
        with _connected(self.store, write=False) as connection:
            yield Book(connection, self.key)


@contextlib.contextmanager
def _connected(store: Store, *, write: bool) -> Iterator[Connection]:
    try:
        with store.engine.connect() as connection:
            connection.exec_driver_sql(store.begin(write=write))
            yield connection
    except SQLAlchemyError as error:
        raise LedgerError(
            f"the ledger {store.place} refuses: {store.reason(error)}; nothing is released"
        ) from None


def start_chain(book: Book) -> None:
    """Write the key check of an empty ledger and start its chain, which differs from any other's."""
    start = secrets.token_bytes(32)
    first = {"version": VERSION, "key_digest": key_digest(book.key), "start": start}
    book.connection.execute(inserting(about), first)
    seal = _seal(0, start, book.key)
    book.connection.execute(inserting(head), {"n_rows": 0, "link": start, "seal": seal})


def hold(book: Book) -> None:
    """Keep other transactions from adding rows until this one ends."""
    _end(book, lock=True)


def append(book: Book, table: TableClause, rows: Sequence[Mapping[str, Any]]) -> None:
    """Add rows to a table and to the chain's end; no other transaction can, until this one commits.

    A row comes without `position` and `link`; a row without `time` gets the current time.
    """
    if not rows:
        return
    position, link = _end(book, lock=True)
    time, linked = now(), []
    for row in rows:
        position += 1
        placed = {"time": time, **row, "position": position}
        _check_kept(placed)
        link = _link(link, table, [placed[name] for name in _content(table)], book.key)
        linked.append({**placed, "link": link})
    book.connection.execute(inserting(table), linked)
    _move_head(book, position, link)


def now() -> str:
    """Return the present time for a row, in ISO 8601 and UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def check_key(book: Book, place: str) -> None:
    """Raise LedgerError unless this key made the ledger."""
    digests = book.connection.scalars(select(about.c.key_digest)).all()
    if len(digests) != 1:
        raise LedgerError(f"{place} is damaged: it must have one key check; {RESTORE}")
    if digests[0] != key_digest(book.key):
        raise LedgerError(f"{place} was made with another fingerprint key; restore that key")


def check_chain(book: Book, place: str, *, newest: int | None = None) -> int:
    """Check the chain, or its newest rows, to its end; return the number of rows in the ledger.

    Raises
    ------
    LedgerError
        If a row does not fit; the message names it.
    """
    n_rows, last = _end(book)
    position = 0 if newest is None else max(0, n_rows - newest)
    link = _links_at(book, [position]).get(position, b"")
    with _rows(book, after=position) as rows:
        for table, row in rows:
            position += 1
            if row.position != position:
                raise LedgerError(
                    f"{place} is damaged: rows are missing or doubled before {_name(table, row)}; {RESTORE}"
                )
            link = _link(link, table, row[:-1], book.key)
            if link != row.link:
                raise LedgerError(
                    f"{place} is damaged: {_name(table, row)} is not what was written, or follows a row "
                    f"that was changed; {RESTORE}"
                )
    if (position, link) != (n_rows, last):
        raise LedgerError(
            f"{place} is damaged: it must have {n_rows} rows, and ends after {position}; {RESTORE}"
        )
    return n_rows


def check_rows(book: Book, table: TableClause, rows: Sequence[Record]) -> None:
    """Raise LedgerError unless the key's holder wrote each row after the one before it."""
    placed = [row for row in rows if isinstance(row.position, int)]
    links = _links_at(book, [row.position - 1 for row in placed])
    before = {row.position: links.get(row.position - 1, b"") for row in placed}
    for row in rows:
        if _link(before.get(row.position, b""), table, row[:-1], book.key) != row.link:
            raise LedgerError(
                f"the ledger is damaged: {_name(table, row)} is not what was written; {RESTORE}"
            )


def key_digest(key: bytes) -> bytes:
    """Return a digest that identifies the key without revealing it."""
    return hashlib.blake2b(b"key check", key=key, digest_size=32).digest()


def _end(book: Book, *, lock: bool = False) -> tuple[int, bytes]:
    """Return the number of rows and the last link from the head; a lock lasts until the transaction ends."""
    found = book.connection.execute(HEADS[lock]).all()
    if len(found) != 1 or found[0].seal != _seal(found[0].n_rows, found[0].link, book.key):
        raise LedgerError(f"the ledger is damaged: its head is not what was written; {RESTORE}")
    return found[0].n_rows, found[0].link


@dataclass(frozen=True, slots=True)
class Head:
    """The end of a ledger's chain at one moment, to be kept outside the ledger.

    Parameters
    ----------
    n_rows
        Number of the ledger's rows.
    seal
        Keyed hash of that number and of the last row's link, in hexadecimal digits.
    """

    n_rows: int
    seal: str


def read_head(book: Book) -> Head:
    """Return the present end of the chain."""
    n_rows, link = _end(book)
    return Head(n_rows, _seal(n_rows, link, book.key).hex())


def heads_lacking(book: Book, heads: Iterable[Head]) -> tuple[Head, ...]:
    """Return the heads that this chain never had, in their order; a damaged head may hold anything."""
    n_rows, _ = _end(book)
    given = tuple(heads)
    within = {one.n_rows for one in given if type(one.n_rows) is int and 0 <= one.n_rows <= n_rows}
    links = _links_at(book, sorted(within))
    had = {(at, _seal(at, link, book.key).hex()) for at, link in links.items()}
    return tuple(one for one in given if (one.n_rows, one.seal) not in had)


def _move_head(book: Book, n_rows: int, link: bytes) -> None:
    seal = _seal(n_rows, link, book.key)
    book.connection.execute(update(head).values(n_rows=n_rows, link=link, seal=seal))


@contextlib.contextmanager
def _rows(book: Book, *, after: int) -> Iterator[Iterator[tuple[TableClause, Record]]]:
    """Yield rows of all chained tables in the chain's order, a few fetched at a time."""
    with contextlib.ExitStack() as opened:
        streams = []
        for table in CHAINED:
            rows = book.connection.execute(
                select(table).where(table.c.position > after).order_by(table.c.position),
                execution_options={"yield_per": BATCH},
            )
            streams.append(zip(itertools.repeat(table), opened.enter_context(rows)))
        yield heapq.merge(*streams, key=_place)


def _place(pair: tuple[TableClause, Record]) -> int | float:
    """Return a row's own position; infinity, as the databases sort it, if it is no number."""
    position = pair[1].position
    return position if isinstance(position, int) else math.inf


def _links_at(book: Book, positions: Sequence[int]) -> dict[int, bytes]:
    """Return the links of rows by position, the chain's start for 0; missing and damaged rows have none."""
    found: dict[int, Any] = {}
    for first in range(0, len(positions), ASKED_AT_ONCE):
        asked = {"positions": positions[first : first + ASKED_AT_ONCE]}
        found |= {row.position: row.link for row in book.connection.execute(LINKS, asked)}
    if 0 in positions:
        found[0] = book.connection.scalar(select(about.c.start))
    return {position: link for position, link in found.items() if isinstance(link, bytes)}


def _check_kept(row: Mapping[str, Any]) -> None:
    """Raise LedgerError for a value that a database would change, so that its row would look damaged."""
    for name, value in row.items():
        kind = KEPT.get(name, str)
        if value is None or kind is str:
            kept = value is None or is_text(value)
        else:
            kept = type(value) is kind and (kind is bytes or -(2**63) <= value < 2**63)
        if not kept:
            raise LedgerError(f"{name} is not what the ledger can keep; nothing was written")


def _content(table: TableClause) -> list[str]:
    """Return the names of the columns that a link covers; the link itself comes last."""
    return table.c.keys()[:-1]


def _link(before: bytes, table: TableClause, content: Sequence[Any], key: bytes) -> bytes:
    text = _canonical([table.name, *content]).encode()
    return hashlib.blake2b(before + text, key=key, person=b"ledger row", digest_size=32).digest()


def _seal(n_rows: Any, link: Any, key: bytes) -> bytes:
    """Return the keyed hash of a head's content, of any types, as a damaged head may hold others."""
    text = _canonical([n_rows, link]).encode()
    return hashlib.blake2b(text, key=key, person=b"ledger head", digest_size=32).digest()


def _name(table: TableClause, row: Record) -> str:
    """Return the name of a row, for messages."""
    if table.name == "budgets":
        return f"a budget of {row.dataset!r} (row {row.position})"
    kind = {"entries": "entry", "releases": "the value of entry", "answers": "an answer of entry"}
    return f"{kind[table.name]} {row.entry}"


def lock(book: Book, *datasets: str) -> None:
    """Keep other transactions from spending from these data sets until this one ends.

    The locked rows are the data sets' budgets, in one order for all, so that no two transactions wait for
    each other. The first row of each never changes. Later limits, which a waiting transaction would not
    see when it resumes, are read after the lock. A data set without a row is refused here: there is nothing
    to lock, and another transaction could add its first row at once. On SQLite the transaction has already
    locked the whole file.
    """
    locked = book.connection.scalars(
        select(budgets.c.dataset)
        .where(budgets.c.dataset.in_(datasets))
        .order_by(budgets.c.position)
        .with_for_update()
    ).all()
    for dataset in datasets:
        if dataset not in locked:
            raise _without_budget(dataset)


def _without_budget(dataset: str) -> LedgerError:
    return LedgerError(f"{dataset!r} must have a budget first: open_budget sets one")


def rows_where(
    book: Book, query: Select[Any], column: ColumnClause[Any], values: Sequence[Any]
) -> Iterator[Record]:
    """Yield a query's rows whose column is one of these values, in several queries."""
    for first in range(0, len(values), ASKED_AT_ONCE):
        asked = {"asked": values[first : first + ASKED_AT_ONCE]}
        yield from book.connection.execute(restricted(query, column), asked)


def last_row(
    book: Book, table: TableClause, column: ColumnClause[Any], value: Any
) -> Record | None:
    """Return the newest row with a value in a column, checked by its link; None if there is none."""
    row = book.connection.execute(newest_with(table, column), {"value": value}).first()
    if row is not None:
        check_rows(book, table, [row])
    return row


def last_rows(
    book: Book, table: TableClause, column: ColumnClause[Any], condition: ColumnElement[bool]
) -> list[Record]:
    """Return the newest row of each value of a column, of rows that meet a condition, each checked."""
    newest = select(func.max(table.c.position)).where(condition).group_by(column)
    positions = book.connection.scalars(newest).all()
    rows = list(rows_where(book, select(table), table.c.position, positions))
    check_rows(book, table, rows)
    return rows


@dataclass(frozen=True, slots=True)
class Budget:
    """A limit as set at one time; the latest one holds."""

    time: str
    unit: Unit
    limit: Cost
    n: int


def budget_of(row: Record) -> Budget:
    """Read a row of the table of budgets."""
    return Budget(row.time, Unit(row.unit), Cost(exact(row.epsilon), exact(row.delta)), row.n)


def find_budget(book: Book, dataset: str) -> Budget | None:
    """Return the valid budget of a data set, from a checked row of any age."""
    row = last_row(book, budgets, budgets.c.dataset, dataset)
    return None if row is None else budget_of(row)


def required_budget(book: Book, dataset: str) -> Budget:
    """Return the valid budget of a data set, or raise LedgerError."""
    found = find_budget(book, dataset)
    if found is None:
        raise _without_budget(dataset)
    return found


Kind: TypeAlias = tuple[Part | None, str, int]
"""Equal entries: their part, their event as stored, and their number."""


def kinds_of(book: Book, dataset: str) -> list[Kind]:
    """Count a data set's entries by part and event."""
    kinds = (entries.c.partition, entries.c.cell, entries.c.event)
    rows = book.connection.execute(
        select(*kinds, func.count().label("n_entries"))
        .where(entries.c.dataset == dataset)
        .group_by(*kinds)
    )
    return [(part_of(row), row.event, row.n_entries) for row in rows.all()]


def part_of(row: Record) -> Part | None:
    """Return the part of an entry's row."""
    try:
        return None if row.partition is None else Part(row.partition, row.cell)
    except (TypeError, ValueError):
        raise LedgerError(
            "the ledger is damaged: an entry's partition or cell is no name; restore a backup"
        ) from None


def account_of(book: Book, dataset: str) -> Account:
    """Recompose a data set's entries."""
    kinds = kinds_of(book, dataset)
    return account_from(kinds, read_events(book, dataset, kinds).__getitem__)


def read_events(book: Book, dataset: str, kinds: Iterable[Kind]) -> dict[str, Event]:
    """Return the events of a data set's entries, by the text that they are stored as.

    An event's cost is derived on every read, except for plans: composing one takes longer than reading the
    whole ledger. A plan's claim was checked when the plan was built, and is accepted if the row that paid
    for it still has its original content.
    """
    try:
        return {text: _read_event(book, dataset, text) for text in {kind[1] for kind in kinds}}
    except EventError as error:
        raise LedgerError(f"an entry of {dataset!r} is {error}; nothing can be spent") from None


def _read_event(book: Book, dataset: str, text: str) -> Event:
    def plan(events: tuple[tuple[str, int], ...], epsilon: float, delta: float) -> PlanEvent:
        row = _paying_row(book, dataset, text)
        if row is None:
            return PlanEvent(events, epsilon, delta)
        check_rows(book, entries, [row])
        return paid_plan(events, epsilon, delta)

    return parse_event(text, builders={PlanEvent: plan})


def _paying_row(book: Book, dataset: str, text: str) -> Record | None:
    """Return the first entry that paid for this plan."""
    paid = (entries.c.dataset == dataset) & (entries.c.event == text)
    whole = entries.c.partition.is_(None) & entries.c.cell.is_(None)
    paying = select(entries).where(paid & whole).order_by(entries.c.entry)
    return book.connection.execute(paying.limit(1)).first()
