"""The ledger in one SQLite file, the default.

Triggers refuse every change except added rows and an update of the head with more rows. Use a local disk:
SQLite's locks are not reliable on network file systems.

>>> SqliteStore(Path("/nowhere/ledger.sqlite")).exists()
False
"""

import contextlib
import functools
import os
import secrets
import sqlite3
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import Connection, Engine, NullPool, create_engine
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from privacy.ledger import store
from privacy.ledger.store import VERSION, Fill, LedgerError, check_version, definitions

__all__ = ["SqliteStore", "connect", "new_file"]

ENGINES = 16  # engines that a process keeps
SAME = {  # conditions under which a new row would replace an old one
    "about": "TRUE",
    "head": "TRUE",
    "budgets": "position = NEW.position",
    "entries": "entry = NEW.entry OR position = NEW.position OR fingerprint = NEW.fingerprint",
    "releases": "position = NEW.position OR entry = NEW.entry",
    "answers": "position = NEW.position OR (entry, fingerprint) = (NEW.entry, NEW.fingerprint)",
}
REFUSE = "BEGIN SELECT RAISE(ABORT, 'the ledger only grows'); END"
SCHEMA = (
    *definitions(number="INTEGER", bytes_="BLOB"),
    "CREATE INDEX entries_by_cell ON entries (dataset, partition, cell, event)",
    *(
        f"CREATE TRIGGER {table}_not_replaced BEFORE INSERT ON {table} "
        f"WHEN EXISTS (SELECT 1 FROM {table} WHERE {same}) {REFUSE}"
        for table, same in SAME.items()
    ),
    *(f"CREATE TRIGGER {table}_no_delete BEFORE DELETE ON {table} {REFUSE}" for table in SAME),
    *(
        f"CREATE TRIGGER {table}_no_update BEFORE UPDATE ON {table} {REFUSE}"
        for table in SAME
        if table != "head"
    ),
    f"CREATE TRIGGER head_moves_on BEFORE UPDATE ON head WHEN NOT NEW.n_rows > OLD.n_rows {REFUSE}",
)


@dataclass(frozen=True, slots=True, eq=False)
class SqliteStore:
    """A `privacy.ledger.store.Store` in the file at `path`."""

    path: Path
    engine: Engine = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "engine", _engine(self.path))

    @property
    def place(self) -> str:
        """The file's path."""
        return str(self.path)

    def begin(self, *, write: bool) -> str:
        """Return a statement that locks at once for a write: a deferred one could read before it locks."""
        return "BEGIN IMMEDIATE" if write else "BEGIN"

    def reason(self, error: SQLAlchemyError) -> str:
        """Return SQLite's own message, which holds no values."""
        return str(error.orig) if isinstance(error, DBAPIError) else type(error).__name__

    def exists(self) -> bool:
        """Return whether anything is at the path."""
        return self.path.exists()

    def make(self, fill: Fill) -> bool:
        """Make the file with mode 0600; keep it if another process has made it."""
        try:
            with new_file(self.path) as draft:
                _write_schema(draft, fill)
        except FileExistsError:
            return False
        except SQLAlchemyError as error:
            raise LedgerError(
                f"cannot make a ledger at {self.path}: {self.reason(error)}"
            ) from None
        except OSError as error:
            raise LedgerError(f"cannot make a ledger at {self.path}: {error.strerror}") from None
        return True

    def check(self, connection: Connection) -> None:
        """Raise LedgerError for a file that others may use, another version, or an altered schema."""
        mode = stat.S_IMODE(self.path.stat().st_mode)
        if mode & 0o077:
            raise LedgerError(
                f"{self.path} must be its owner's alone, got mode {mode:04o}; chmod 600 it, and ask "
                "who could read it until now"
            )
        check_version(self.place, connection.exec_driver_sql("PRAGMA user_version").scalar_one())
        found = connection.exec_driver_sql("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")
        if set(found.scalars()) != set(SCHEMA):
            raise LedgerError(
                f"{self.path} must have the ledger's tables and triggers; restore a backup"
            )

    def check_deeply(self, connection: Connection) -> None:
        """Have SQLite compare tables with their indexes."""
        sound = connection.exec_driver_sql("PRAGMA integrity_check(1)").scalar_one()
        if sound != "ok":
            raise LedgerError(
                f"{self.path} is damaged; restore a backup and account for what came after it"
            )

    def backup(self, path: Path) -> None:
        """Copy the file by SQLite's backup interface, to a new file of mode 0600."""
        try:
            with (
                new_file(path) as draft,
                contextlib.closing(connect(self.path)) as source,
                contextlib.closing(connect(draft)) as target,
            ):
                source.backup(target)
        except FileExistsError:
            raise LedgerError(f"{path} exists; a backup is written to a new file") from None
        except sqlite3.Error as error:
            raise LedgerError(f"cannot back the ledger up to {path}: {error}") from None
        except OSError as error:
            raise LedgerError(f"cannot back the ledger up to {path}: {error.strerror}") from None


@contextlib.contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """Yield a draft beside `path` that becomes the file there, durably, when the block ends."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    try:
        yield draft
        _sync(draft)
        os.link(draft, path)  # unlike a rename, this never replaces a file
    finally:
        for left in ("", "-wal", "-shm"):
            draft.with_name(draft.name + left).unlink(missing_ok=True)
    _sync(path.parent)


@functools.lru_cache(maxsize=ENGINES)
def _engine(path: Path) -> Engine:
    """Return SQLAlchemy's engine for a path, which caches its compiled statements and keeps no connection."""
    return create_engine(
        "sqlite://", creator=lambda: connect(path), poolclass=NullPool, hide_parameters=True
    )


def connect(path: Path) -> sqlite3.Connection:
    """Open an existing file; transactions begin only by an explicit statement.

    Damaged text is read with surrogates, so that the chain detects it: Python's own error would repeat the
    text. The schema is read at once, as SQLite's message about a damaged schema may not be valid text
    itself.
    """
    uri = f"{path.absolute().as_uri()}?mode=rw"
    connection = sqlite3.connect(uri, uri=True, timeout=store.WAIT, isolation_level=None)
    connection.text_factory = functools.partial(str, encoding="utf-8", errors="surrogateescape")
    try:
        for pragma in ("synchronous = FULL", "foreign_keys = ON", "trusted_schema = OFF"):
            connection.execute(f"PRAGMA {pragma}")
        connection.execute("SELECT 1 FROM sqlite_master").fetchall()
    except UnicodeDecodeError:
        connection.close()
        raise sqlite3.DatabaseError("the database schema is malformed") from None
    except BaseException:
        connection.close()
        raise
    return connection


def _write_schema(draft: Path, fill: Fill) -> None:
    """Write the tables directly into the new file, which alone gets the ledger's name.

    With a write-ahead log they would reach the file when the connection is closed. SQLite does not report
    it if that fails, for example on a full disk.
    """
    with _engine(draft).connect() as connection:
        connection.exec_driver_sql("BEGIN IMMEDIATE")
        for statement in SCHEMA:
            connection.exec_driver_sql(statement)
        fill(connection)
        connection.exec_driver_sql(f"PRAGMA user_version = {VERSION}")
        connection.commit()
        connection.exec_driver_sql("PRAGMA journal_mode = WAL")


def _sync(path: Path) -> None:
    """Sync a file, or the names in a folder, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
