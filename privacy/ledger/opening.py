"""Opening a ledger: made where there is none, and checked before it is used."""

from pathlib import Path

from sqlalchemy import Connection

from privacy.ledger.postgres import PostgresStore
from privacy.ledger.records import check_chain, check_key, start_chain
from privacy.ledger.sqlite import SqliteStore
from privacy.ledger.store import Fill, Store, snapshot

__all__ = ["check_ledger", "check_length", "make_ledger", "open_store", "store_at"]

NEWEST = 10_000  # rows of the chain that are followed at every opening: a tenth of a second


def check_length(key: bytes) -> None:
    """Refuse a key that could be guessed or that the hash does not take."""
    if not 16 <= len(key) <= 64:
        raise ValueError(f"key must be of 16 to 64 bytes, got {len(key)}")


def store_at(where: Path | str) -> Store:
    """The store that a path or a URL names."""
    if isinstance(where, str) and "://" in where:
        return PostgresStore.at(where)
    return SqliteStore(Path(where).absolute())


def open_store(store: Store, key: bytes) -> None:
    """Make the ledger where there is none; refuse what is no ledger, is damaged, or has another key."""
    if not store.exists():
        make_ledger(store, key, lambda connection: None)
    check_ledger(store, key, newest=NEWEST)


def make_ledger(store: Store, key: bytes, fill: Fill) -> bool:
    """Make a ledger with its first rows, whole or not at all; False where there is one."""

    def start(connection: Connection) -> None:
        start_chain(connection, key=key)
        fill(connection)

    return store.make(start)


def check_ledger(store: Store, key: bytes, *, newest: int | None = None) -> int:
    """Check tables, key, and the chain or its newest rows; the number of rows."""
    with snapshot(store) as connection:
        store.check(connection)
        check_key(connection, store.place, key=key)
        if newest is None:
            store.check_deeply(connection)
        return check_chain(connection, store.place, key=key, newest=newest)
