"""Files of the ledger's version 1, for the tests that bring them over."""

import contextlib
import sqlite3

from privacy.ledger.records import key_digest

TABLES = """
    CREATE TABLE key_check (digest BLOB NOT NULL);
    CREATE TABLE budgets (
        budget INTEGER PRIMARY KEY AUTOINCREMENT, time TEXT NOT NULL, dataset TEXT NOT NULL,
        unit TEXT NOT NULL, epsilon TEXT NOT NULL, delta TEXT NOT NULL, n INTEGER NOT NULL);
    CREATE TABLE entries (
        entry INTEGER PRIMARY KEY AUTOINCREMENT, time TEXT NOT NULL, dataset TEXT NOT NULL,
        query TEXT NOT NULL, unit TEXT NOT NULL, n INTEGER NOT NULL, partition TEXT, cell TEXT,
        mechanism TEXT NOT NULL, event TEXT NOT NULL, fingerprint BLOB NOT NULL UNIQUE, value TEXT,
        CHECK ((partition IS NULL) = (cell IS NULL)));
    CREATE TABLE answers (
        answer INTEGER PRIMARY KEY AUTOINCREMENT, time TEXT NOT NULL,
        entry INTEGER NOT NULL REFERENCES entries, question TEXT NOT NULL,
        fingerprint BLOB NOT NULL, state TEXT NOT NULL, value TEXT NOT NULL,
        UNIQUE (entry, fingerprint));
    PRAGMA user_version = 1;
"""
ROWS = (
    """INSERT INTO budgets (time, dataset, unit, epsilon, delta, n)
        SELECT time, dataset, unit, epsilon, delta, n FROM now.budgets ORDER BY position""",
    """INSERT INTO entries SELECT entry, time, dataset, query, unit, n, partition, cell, mechanism,
        event, fingerprint, (SELECT value FROM now.releases WHERE releases.entry = old.entry)
        FROM now.entries AS old ORDER BY position""",
    """INSERT INTO answers (time, entry, question, fingerprint, state, value)
        SELECT time, entry, question, fingerprint, state, value FROM now.answers ORDER BY position""",
)


def write_version_1(path, ledger, *, key):
    """Write what today's file of a ledger holds as version 1 wrote it."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.executescript(TABLES)
        connection.execute("INSERT INTO key_check VALUES (?)", (key_digest(key),))
        connection.execute("ATTACH ? AS now", (str(ledger),))
        for statement in ROWS:
            connection.execute(statement)
        connection.commit()
