"""The ledger in a PostgreSQL database, for campaigns that several machines run.

The tables are in the schema `crowdassay`, one ledger to a database. A write transaction locks the data
set's budget row (READ COMMITTED with SELECT ... FOR UPDATE) and is durable under every setting of the
server. The server's administrators can read and undo all of it.

>>> PostgresStore.at("postgresql://me:secret@host/campaign")
Traceback (most recent call last):
ValueError: the ledger's URL must be postgresql+psycopg://user:password@host:port/database
"""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, NullPool, create_engine, make_url
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from privacy.ledger import store
from privacy.ledger.store import Fill, LedgerError, check_version, definitions

__all__ = ["PostgresStore"]

DRIVER = "postgresql+psycopg"
CONNECTS = 30  # seconds that a server has for its first answer; a cold one takes some
MAKING = 6_030_213_117  # advisory lock: one process at a time makes the tables
TABLES = ("about", "head", "budgets", "entries", "releases", "answers")
REFUSE = "EXECUTE FUNCTION only_grows()"
SCHEMA = (
    "CREATE SCHEMA crowdassay",
    "SET LOCAL search_path = crowdassay",
    *definitions(number="BIGINT", bytes_="BYTEA"),
    # the server limits a row of an index to 2,704 bytes, and cells and events may be longer
    "CREATE INDEX entries_of_all ON entries (dataset, entry) WHERE partition IS NULL",
    """CREATE FUNCTION only_grows() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN RAISE 'the ledger only grows'; END $$""",
    *(
        f"CREATE TRIGGER {table}_no_{action.lower()} BEFORE {action} ON {table} "
        f"FOR EACH {'STATEMENT' if action == 'TRUNCATE' else 'ROW'} {REFUSE}"
        for table in TABLES
        for action in ("DELETE", "TRUNCATE", "UPDATE")
        if (table, action) != ("head", "UPDATE")
    ),
    "CREATE TRIGGER head_moves_on BEFORE UPDATE ON head FOR EACH ROW "
    f"WHEN (NOT NEW.n_rows > OLD.n_rows) {REFUSE}",
    "CREATE UNIQUE INDEX one_about ON about ((TRUE))",
    "CREATE UNIQUE INDEX one_head ON head ((TRUE))",
)
TRIGGERS = {words.split()[2] for words in SCHEMA if words.startswith("CREATE TRIGGER")}
FOUND_TRIGGERS = (
    "SELECT tgname FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid "
    "WHERE relnamespace = 'crowdassay'::regnamespace AND NOT tgisinternal AND tgenabled IN ('O', 'A')"
)


@dataclass(frozen=True, slots=True, eq=False)
class PostgresStore:
    """A `privacy.ledger.store.Store` in the database that `url` names; no repr shows the URL."""

    url: URL = field(repr=False)
    place: str = field(init=False)
    engine: Engine = field(init=False, repr=False)

    def __post_init__(self) -> None:
        shown = URL.create(DRIVER, None, None, self.url.host, self.url.port, self.url.database)
        object.__setattr__(self, "place", str(shown))
        object.__setattr__(self, "engine", _engine(self.url))

    @classmethod
    def at(cls, text: str) -> "PostgresStore":
        """Read a URL; no error message repeats it, as it may hold a password."""
        try:
            url = make_url(text)
        except (SQLAlchemyError, ValueError):
            url = URL.create("unreadable")
        if url.drivername != DRIVER or not url.database:
            raise ValueError(
                f"the ledger's URL must be {DRIVER}://user:password@host:port/database"
            )
        if "@" in (url.host or "") or "password" in url.query:
            raise ValueError(
                "the ledger's URL must have its password between user and host, with @ and / written "
                "as %40 and %2F; better, keep it in ~/.pgpass"
            )
        return cls(url)

    def begin(self, *, write: bool) -> str:
        """Return this transaction's settings, which override the server's and the role's."""
        level = "READ COMMITTED" if write else "REPEATABLE READ READ ONLY"
        return (
            f"SET TRANSACTION ISOLATION LEVEL {level}; SET LOCAL search_path = crowdassay; "
            f"SET LOCAL synchronous_commit = on; SET LOCAL lock_timeout = {int(store.WAIT * 1000)}"
        )

    def reason(self, error: SQLAlchemyError) -> str:
        """Return the server's primary message only: its details can hold a row's content."""
        cause = error.orig if isinstance(error, DBAPIError) else None
        words = getattr(getattr(cause, "diag", None), "message_primary", None)
        if words is None and cause is not None and getattr(cause, "sqlstate", None) is None:
            words = str(cause).partition("\n")[0]  # no connection
        return words or type(error).__name__

    def exists(self) -> bool:
        """Return whether the database has the ledger's schema."""
        try:
            with self.engine.connect() as connection:
                return _has_schema(connection)
        except SQLAlchemyError as error:
            raise LedgerError(f"cannot reach {self.place}: {self.reason(error)}") from None

    def make(self, fill: Fill) -> bool:
        """Make schema and tables in one transaction; keep them if another process has made them."""
        try:
            with self.engine.connect() as connection:
                connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({MAKING})")
                if _has_schema(connection):
                    return False
                for statement in SCHEMA:
                    connection.exec_driver_sql(statement)
                fill(connection)
                connection.commit()
        except SQLAlchemyError as error:
            raise LedgerError(
                f"cannot make a ledger at {self.place}: {self.reason(error)}"
            ) from None
        return True

    def check(self, connection: Connection) -> None:
        """Raise LedgerError for another version, and for triggers that are missing or switched off."""
        check_version(
            self.place, connection.exec_driver_sql("SELECT max(version) FROM about").scalar_one()
        )
        if set(connection.exec_driver_sql(FOUND_TRIGGERS).scalars()) != TRIGGERS:
            raise LedgerError(f"{self.place} must have the ledger's triggers; restore a backup")

    def check_deeply(self, connection: Connection) -> None:
        """Leave the server's own checks to its administrators (pg_amcheck)."""

    def backup(self, path: Path) -> None:
        """Raise LedgerError: the server's own tool makes backups."""
        raise LedgerError(
            "a ledger on PostgreSQL is backed up by the server's own tool, pg_dump --schema=crowdassay; "
            f"{path} is not written"
        )


def _engine(url: URL) -> Engine:
    how: dict[str, Any] = {"prepare_threshold": None}
    if "connect_timeout" not in url.query and "PGCONNECT_TIMEOUT" not in os.environ:
        how["connect_timeout"] = CONNECTS  # psycopg's own is 130 s
    try:
        return create_engine(url, poolclass=NullPool, hide_parameters=True, connect_args=how)
    except ModuleNotFoundError:
        raise LedgerError(
            "a ledger on PostgreSQL needs psycopg: pip install 'crowdassay[postgres]'"
        ) from None


def _has_schema(connection: Connection) -> bool:
    found = connection.exec_driver_sql("SELECT to_regclass('crowdassay.about') IS NOT NULL")
    return bool(found.scalar_one())
