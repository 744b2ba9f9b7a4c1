"""Bringing a ledger of an older version over into a new one, with all that it paid for."""

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from sqlalchemy import Connection

from privacy.ledger.opening import check_ledger, check_length, make_ledger, store_at
from privacy.ledger.records import append, key_digest
from privacy.ledger.sqlite import connect
from privacy.ledger.store import LedgerError
from privacy.ledger.tables import answers, budgets, entries, releases

__all__ = ["import_ledger"]

OLD_VERSION = 1
OLD_ROWS = (
    (budgets, "SELECT time, dataset, unit, epsilon, delta, n FROM budgets ORDER BY budget"),
    (
        entries,
        "SELECT entry, time, dataset, query, unit, n, partition, cell, mechanism, event, fingerprint "
        "FROM entries ORDER BY entry",
    ),
    (releases, "SELECT time, entry, value FROM entries WHERE value IS NOT NULL ORDER BY entry"),
    (
        answers,
        "SELECT time, entry, question, fingerprint, state, value FROM answers ORDER BY answer",
    ),
)


def import_ledger(old: Path, new: Path | str, *, key: bytes) -> None:
    """Make a ledger with everything that one of version 1 holds; the old file stays as it is.

    Parameters
    ----------
    old
        File of the old ledger, of version 1.
    new
        Path or URL of the new one, where there must be none yet.
    key
        The old ledger's key, which is the new one's too.

    Raises
    ------
    LedgerError
        If the old file is no ledger of version 1, is damaged or has another key, or if there is a
        ledger at `new` already.
    ValueError
        If the key has another length.

    Notes
    -----
    **Guarantees.** Spends, entry numbers, released values, answers and secret states are the same
    in the new ledger, and what was paid in the old one costs nothing in the new one. The new ledger
    is made whole or not at all.

    Nothing is written to the old ledger while it is read. Put it away then: two ledgers that are
    both in use spend twice.
    """
    check_length(key)
    store = store_at(new)
    with _old_ledger(Path(old), key) as rows:

        def fill(connection: Connection) -> None:
            for table, query in OLD_ROWS:
                append(connection, table, [dict(row) for row in rows.execute(query)], key=key)

        if not make_ledger(store, key, fill):
            raise LedgerError(f"{store.place} must be a new ledger, got one that exists")
    check_ledger(store, key)


@contextlib.contextmanager
def _old_ledger(path: Path, key: bytes) -> Iterator[sqlite3.Connection]:
    """Hold a ledger of version 1 that is sound and has this key; nobody writes to it meanwhile."""
    try:
        with contextlib.closing(connect(path)) as connection:
            connection.row_factory = sqlite3.Row
            connection.execute("BEGIN IMMEDIATE")
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            if version != OLD_VERSION:
                raise LedgerError(
                    f"{path} must be a ledger of version {OLD_VERSION}, got version {version}"
                )
            if connection.execute("PRAGMA integrity_check(1)").fetchone()[0] != "ok":
                raise LedgerError(f"{path} is damaged; restore a backup of it first")
            digests = [row["digest"] for row in connection.execute("SELECT digest FROM key_check")]
            if digests != [key_digest(key)]:
                raise LedgerError(f"{path} was made with another fingerprint key; give that key")
            yield connection
    except sqlite3.Error as error:
        raise LedgerError(f"{path} cannot be read as a ledger of version 1: {error}") from None
