"""The chain that holds the ledger's rows together, so that damage is told and placed.

Every row's link is a keyed hash of the row and of the link before it. The head keeps the number of
rows and the last link under a keyed seal, so that a chain that was cut is told from one that ends.

What a chain cannot tell: a whole ledger, head included, that was set back to an earlier copy of
itself; and anything done by who holds the key.

Events as the ledger's entries hold them.

What an event costs is derived from it whenever it is read, a plan excepted: composing its losses
takes longer than reading the whole ledger. A plan's claim was checked when the plan was built, and
is taken as it stands if the chain tells that the row of its entry is what was written then.
"""

import contextlib
import hashlib
import heapq
import itertools
import json
import math
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, TableClause, insert, select, update

from privacy.accounting.plans import PlanEvent, paid_plan
from privacy.ledger.store import CHAINED, VERSION, LedgerError, Record, about, entries, head
from privacy.mechanisms.kinds import Event, EventError, parse_event
from privacy.query import Part, is_text

__all__ = [
    "append",
    "check_chain",
    "check_key",
    "check_row",
    "hold",
    "key_digest",
    "read_events",
    "start_chain",
]

RESTORE = "restore a backup and account for what came after it"
BATCH = 1_000  # rows that are fetched at a time
KEPT: Mapping[str, type[Any]] = {"position": int, "entry": int, "n": int, "fingerprint": bytes}
"""What the columns hold that do not hold texts."""

_canonical = json.JSONEncoder(default=bytes.hex, separators=(",", ":")).encode


def start_chain(connection: Connection, *, key: bytes) -> None:
    """Give an empty ledger its key check and a chain of no rows, unlike any other's."""
    start = secrets.token_bytes(32)
    connection.execute(
        insert(about), {"version": VERSION, "key_digest": key_digest(key), "start": start}
    )
    connection.execute(insert(head), {"n_rows": 0, "link": start, "seal": _seal(0, start, key)})


def hold(connection: Connection, *, key: bytes) -> None:
    """Let no other transaction add rows until this one ends."""
    _end(connection, key, lock=True)


def append(
    connection: Connection, table: TableClause, rows: Sequence[Mapping[str, Any]], *, key: bytes
) -> None:
    """Add rows to a table and to the chain's end, which no one else can do until this commits.

    A row comes without `position` and `link`.
    """
    if not rows:
        return
    position, link = _end(connection, key, lock=True)
    linked = []
    for row in rows:
        position += 1
        placed = {**row, "position": position}
        _check_kept(placed)
        link = _link(link, table, [placed[name] for name in _content(table)], key)
        linked.append({**placed, "link": link})
    connection.execute(insert(table), linked)
    _move_head(connection, position, link, key)


def check_key(connection: Connection, place: str, *, key: bytes) -> None:
    """Refuse a key that is not the one the ledger was made with."""
    digests = connection.scalars(select(about.c.key_digest)).all()
    if len(digests) != 1:
        raise LedgerError(f"{place} is damaged: it must have one key check; {RESTORE}")
    if digests[0] != key_digest(key):
        raise LedgerError(f"{place} was made with another fingerprint key; restore that key")


def check_chain(
    connection: Connection, place: str, *, key: bytes, newest: int | None = None
) -> int:
    """Follow the chain, or its newest rows, to its end; name the first row that does not fit.

    Returns the number of rows in the ledger.
    """
    n_rows, last = _end(connection, key)
    position = 0 if newest is None else max(0, n_rows - newest)
    link = _link_at(connection, position)
    with _rows(connection, after=position) as rows:
        for table, row in rows:
            position += 1
            if row.position != position:
                raise LedgerError(
                    f"{place} is damaged: rows are missing or doubled before {_name(table, row)}; {RESTORE}"
                )
            link = _link(link, table, row[:-1], key)
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


def check_row(connection: Connection, table: TableClause, row: Record, *, key: bytes) -> None:
    """Refuse a row that was not written by who has the key, after the row that is before it."""
    placed = isinstance(row.position, int)
    before = _link_at(connection, row.position - 1) if placed else b""
    if _link(before, table, row[:-1], key) != row.link:
        raise LedgerError(
            f"the ledger is damaged: {_name(table, row)} is not what was written; {RESTORE}"
        )


def key_digest(key: bytes) -> bytes:
    """What tells a key from another without telling it."""
    return hashlib.blake2b(b"key check", key=key, digest_size=32).digest()


def _end(connection: Connection, key: bytes, *, lock: bool = False) -> tuple[int, bytes]:
    """Number of rows and last link, as the head tells; a lock lasts until the transaction ends."""
    heads = select(head)
    found = connection.execute(heads.with_for_update() if lock else heads).all()
    if len(found) != 1 or found[0].seal != _seal(found[0].n_rows, found[0].link, key):
        raise LedgerError(f"the ledger is damaged: its head is not what was written; {RESTORE}")
    return found[0].n_rows, found[0].link


def _move_head(connection: Connection, n_rows: int, link: bytes, key: bytes) -> None:
    connection.execute(update(head).values(n_rows=n_rows, link=link, seal=_seal(n_rows, link, key)))


@contextlib.contextmanager
def _rows(connection: Connection, *, after: int) -> Iterator[Iterator[tuple[TableClause, Record]]]:
    """Rows of all chained tables in the chain's order, a few fetched at a time."""
    with contextlib.ExitStack() as opened:
        streams = []
        for table in CHAINED:
            rows = connection.execute(
                select(table).where(table.c.position > after).order_by(table.c.position),
                execution_options={"yield_per": BATCH},
            )
            streams.append(zip(itertools.repeat(table), opened.enter_context(rows)))
        yield heapq.merge(*streams, key=_place)


def _place(pair: tuple[TableClause, Record]) -> int | float:
    """Where a row says that it is; at the end, as the databases sort it, if that is no number."""
    position = pair[1].position
    return position if isinstance(position, int) else math.inf


def _link_at(connection: Connection, position: int) -> bytes:
    """The link of a row, or what the chain starts from."""
    if position == 0:
        found = connection.scalars(select(about.c.start)).all()
    else:
        found = [
            link
            for table in CHAINED
            for link in connection.scalars(select(table.c.link).where(table.c.position == position))
        ]
    # of a row that is missing, or has no bytes there: nothing fits after it
    return found[0] if found and isinstance(found[0], bytes) else b""


def _check_kept(row: Mapping[str, Any]) -> None:
    """Refuse what a database would not give back as it is: the row would pass for damaged."""
    for name, value in row.items():
        kind = KEPT.get(name, str)
        if kind is str:
            kept = value is None or is_text(value)
        else:
            kept = type(value) is kind and (kind is bytes or -(2**63) <= value < 2**63)
        if not kept:
            raise LedgerError(f"{name} is not what the ledger can keep; nothing was written")


def _content(table: TableClause) -> list[str]:
    """Names of the columns that a link covers; the link itself comes last."""
    return table.c.keys()[:-1]


def _link(before: bytes, table: TableClause, content: Sequence[Any], key: bytes) -> bytes:
    text = _canonical([table.name, *content]).encode()
    return hashlib.blake2b(before + text, key=key, person=b"ledger row", digest_size=32).digest()


def _seal(n_rows: Any, link: Any, key: bytes) -> bytes:
    """Of what a head holds, which may be of other types where it is damaged."""
    text = _canonical([n_rows, link]).encode()
    return hashlib.blake2b(text, key=key, person=b"ledger head", digest_size=32).digest()


def _name(table: TableClause, row: Record) -> str:
    """A row, for messages."""
    if table.name == "budgets":
        return f"a budget of {row.dataset!r} (row {row.position})"
    told = {"entries": "entry", "releases": "the value of entry", "answers": "an answer of entry"}
    return f"{told[table.name]} {row.entry}"


def read_events(
    connection: Connection,
    dataset: str,
    kinds: Iterable[tuple[Part | None, str, int]],
    *,
    key: bytes,
) -> dict[str, Event]:
    """Events of a data set's entries, by the text that they are stored as."""
    try:
        return {
            text: _read_event(connection, dataset, text, key)
            for text in {kind[1] for kind in kinds}
        }
    except EventError as error:
        raise LedgerError(f"an entry of {dataset!r} is {error}; nothing can be spent") from None


def _read_event(connection: Connection, dataset: str, text: str, key: bytes) -> Event:
    def plan(events: tuple[tuple[str, int], ...], epsilon: float, delta: float) -> PlanEvent:
        row = _paying_row(connection, dataset, text)
        if row is None:
            return PlanEvent(events, epsilon, delta)
        check_row(connection, entries, row, key=key)
        return paid_plan(events, epsilon, delta)

    return parse_event(text, plan=plan)


def _paying_row(connection: Connection, dataset: str, text: str) -> Record | None:
    """The first entry that paid for this plan."""
    paying = (
        select(entries)
        .where((entries.c.dataset == dataset) & (entries.c.event == text))
        .where(entries.c.partition.is_(None) & entries.c.cell.is_(None))
    )
    return connection.execute(paying.order_by(entries.c.entry).limit(1)).first()
