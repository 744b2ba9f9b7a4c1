"""The ledger's file: one SQLite database that only grows.

Rows are never deleted, and nothing is ever changed but an entry's missing value, once: triggers
refuse the rest. A file that is not exactly such a database is refused. Use a local disk: SQLite's
locks are not reliable on network file systems.
"""

import contextlib
import hashlib
import os
import secrets
import sqlite3
from collections.abc import Iterator
from pathlib import Path

__all__ = ["LedgerError", "create", "open_store", "transaction"]

VERSION = 1
WAIT = 60.0  # seconds to wait for another process's transaction
SCHEMA = (
    "CREATE TABLE key_check (digest BLOB NOT NULL)",
    """CREATE TABLE budgets (
        budget INTEGER PRIMARY KEY AUTOINCREMENT, time TEXT NOT NULL, dataset TEXT NOT NULL,
        unit TEXT NOT NULL, epsilon TEXT NOT NULL, delta TEXT NOT NULL, n INTEGER NOT NULL)""",
    """CREATE TABLE entries (
        entry INTEGER PRIMARY KEY AUTOINCREMENT, time TEXT NOT NULL, dataset TEXT NOT NULL,
        query TEXT NOT NULL, unit TEXT NOT NULL, n INTEGER NOT NULL, partition TEXT, cell TEXT,
        mechanism TEXT NOT NULL, event TEXT NOT NULL, fingerprint BLOB NOT NULL UNIQUE, value TEXT,
        CHECK ((partition IS NULL) = (cell IS NULL)))""",
    """CREATE TABLE answers (
        answer INTEGER PRIMARY KEY AUTOINCREMENT, time TEXT NOT NULL,
        entry INTEGER NOT NULL REFERENCES entries, question TEXT NOT NULL,
        fingerprint BLOB NOT NULL, state TEXT NOT NULL, value TEXT NOT NULL,
        UNIQUE (entry, fingerprint))""",
    "CREATE INDEX entries_by_cell ON entries (dataset, partition, cell, event)",
    """CREATE TRIGGER entries_change_once BEFORE UPDATE ON entries
        WHEN OLD.value IS NOT NULL OR NEW.value IS NULL
          OR (OLD.entry, OLD.time, OLD.dataset, OLD.query, OLD.unit, OLD.n, OLD.partition, OLD.cell,
              OLD.mechanism, OLD.event, OLD.fingerprint)
             IS NOT (NEW.entry, NEW.time, NEW.dataset, NEW.query, NEW.unit, NEW.n, NEW.partition,
              NEW.cell, NEW.mechanism, NEW.event, NEW.fingerprint)
        BEGIN SELECT RAISE(ABORT, 'only a missing value may be written'); END""",
    """CREATE TRIGGER entries_not_replaced BEFORE INSERT ON entries
        WHEN EXISTS (SELECT 1 FROM entries
                     WHERE entry = NEW.entry OR fingerprint = NEW.fingerprint)
        BEGIN SELECT RAISE(ABORT, 'the ledger only grows'); END""",
    """CREATE TRIGGER answers_not_replaced BEFORE INSERT ON answers
        WHEN EXISTS (SELECT 1 FROM answers
                     WHERE answer = NEW.answer OR (entry, fingerprint) = (NEW.entry,
                     NEW.fingerprint))
        BEGIN SELECT RAISE(ABORT, 'the ledger only grows'); END""",
    """CREATE TRIGGER budgets_not_replaced BEFORE INSERT ON budgets
        WHEN EXISTS (SELECT 1 FROM budgets WHERE budget = NEW.budget)
        BEGIN SELECT RAISE(ABORT, 'the ledger only grows'); END""",
    *(
        f"""CREATE TRIGGER {table}_no_{action.lower()} BEFORE {action} ON {table}
        BEGIN SELECT RAISE(ABORT, 'the ledger only grows'); END"""
        for table, action in (
            ("entries", "DELETE"),
            ("answers", "DELETE"),
            ("answers", "UPDATE"),
            ("budgets", "DELETE"),
            ("budgets", "UPDATE"),
            ("key_check", "DELETE"),
            ("key_check", "UPDATE"),
        )
    ),
)


class LedgerError(RuntimeError):
    """The ledger cannot be read, written or trusted, or is asked for what it does not hold."""


def open_store(path: Path, key: bytes) -> None:
    """Create the ledger's file where there is none, and check it and the key where there is one."""
    if not path.exists():
        create(path, key)
    with transaction(path) as connection:
        found = connection.execute("PRAGMA user_version").fetchone()[0]
        if found != VERSION:
            raise LedgerError(
                f"{path} must be a ledger of version {VERSION}, got version {found}; "
                "use the release of this software that wrote it, or restore a ledger"
            )
        if _schema(connection) != set(SCHEMA):
            raise LedgerError(
                f"{path} must have the ledger's tables and triggers; restore a backup"
            )
        sound = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        digests = connection.execute("SELECT digest FROM key_check").fetchall()
    if sound != "ok" or len(digests) != 1:
        raise LedgerError(f"{path} is damaged; restore a backup and account for what came after it")
    if digests[0][0] != _key_digest(key):
        raise LedgerError(f"{path} was made with another fingerprint key; restore that key")


def create(path: Path, key: bytes) -> None:
    """Make an empty ledger, whole or not at all; another process's is left as it is."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        try:
            _write_schema(draft, key)
            with contextlib.suppress(FileExistsError):
                os.link(draft, path)  # unlike a rename, this never replaces a ledger
        finally:
            draft.unlink(missing_ok=True)
        _sync(path.parent)
    except (OSError, sqlite3.Error) as error:
        raise LedgerError(f"cannot make a ledger at {path}: {error}") from None


@contextlib.contextmanager
def transaction(path: Path) -> Iterator[sqlite3.Connection]:
    """One write transaction, durable when the block ends and undone when it raises."""
    try:
        with contextlib.closing(_connect(path)) as connection:
            connection.execute("BEGIN IMMEDIATE")  # a deferred one could read before it locks
            try:
                yield connection
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")
    except sqlite3.Error as error:
        raise LedgerError(f"the ledger {path} refuses: {error}; nothing is released") from None


def _connect(path: Path) -> sqlite3.Connection:
    """Open an existing file; each use has its own connection, so threads and forks are safe."""
    uri = f"{path.absolute().as_uri()}?mode=rw"
    connection = sqlite3.connect(uri, uri=True, timeout=WAIT, isolation_level=None)
    connection.row_factory = sqlite3.Row
    try:
        for pragma in ("synchronous = FULL", "foreign_keys = ON", "trusted_schema = OFF"):
            connection.execute(f"PRAGMA {pragma}")
    except BaseException:
        connection.close()
        raise
    return connection


def _write_schema(draft: Path, key: bytes) -> None:
    with contextlib.closing(_connect(draft)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("BEGIN IMMEDIATE")
        for statement in SCHEMA:
            connection.execute(statement)
        connection.execute("INSERT INTO key_check VALUES (?)", (_key_digest(key),))
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")


def _schema(connection: sqlite3.Connection) -> set[str]:
    rows = connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")
    return {row["sql"] for row in rows if "sqlite_sequence" not in row["sql"]}


def _key_digest(key: bytes) -> bytes:
    return hashlib.blake2b(b"key check", key=key, digest_size=32).digest()


def _sync(folder: Path) -> None:
    """Make a new file's name durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
