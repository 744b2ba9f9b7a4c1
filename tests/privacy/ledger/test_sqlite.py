"""What makes a ledger's file durable: every sync that a crash could ask for, in its order."""

import contextlib
import os
import sqlite3
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import OperationalError

from privacy import LedgerError
from privacy.ledger.sqlite import SqliteStore, connect, new_file
from tests.privacy.toy import open_toy


@pytest.fixture
def steps(monkeypatch):
    """What is synced and linked from now on, in order."""
    done, sync, link = [], os.fsync, os.link

    def syncing(descriptor):
        done.append(("sync", Path(os.readlink(f"/proc/self/fd/{descriptor}"))))
        sync(descriptor)

    def linking(draft, path):
        done.append(("link", Path(path)))
        link(draft, path)

    monkeypatch.setattr(os, "fsync", syncing)
    monkeypatch.setattr(os, "link", linking)
    return done


def test_a_new_file_is_on_disk_before_it_has_its_name_and_its_name_before_it_is_used(
    steps, tmp_path
):
    """Without the first, a crash leaves an empty ledger; without the last, none, and a new budget."""
    with new_file(tmp_path / "key") as draft:
        draft.write_bytes(b"secret")
    assert steps == [("sync", draft), ("link", tmp_path / "key"), ("sync", tmp_path)]


def test_a_ledger_is_made_that_way(steps, tmp_path):
    open_toy(tmp_path)
    link = steps.index(("link", tmp_path / "ledger.sqlite"))
    assert [what for what, _ in steps[link - 1 : link + 2]] == ["sync", "link", "sync"]
    assert steps[link - 1][1].parent == tmp_path
    assert steps[link + 1] == ("sync", tmp_path)


def test_every_commit_is_on_disk(tmp_path):
    """SQLite's `synchronous` of 2 is FULL: in WAL mode it syncs at every commit."""
    open_toy(tmp_path)
    connection = connect(tmp_path / "ledger.sqlite")
    pragmas = {
        name: connection.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("synchronous", "foreign_keys", "trusted_schema", "journal_mode")
    }
    connection.close()
    assert pragmas == {
        "synchronous": 2, "foreign_keys": 1, "trusted_schema": 0, "journal_mode": "wal",
    }  # fmt: skip


def test_a_file_that_is_there_is_kept_and_no_draft_is_left(tmp_path):
    (tmp_path / "key").write_bytes(b"first")
    with pytest.raises(FileExistsError), new_file(tmp_path / "key") as draft:
        draft.write_bytes(b"second")
    assert (tmp_path / "key").read_bytes() == b"first"
    assert [path.name for path in tmp_path.iterdir()] == ["key"]


def test_what_is_made_stands_in_the_file_itself(tmp_path):
    """Where a write-ahead log cannot be taken into the file at the end, because another reads it, say, or the
    disk is full, SQLite is silent: the ledger would be malformed for ever."""
    others = []

    def fill(connection):
        (draft,) = connection.exec_driver_sql("SELECT file FROM pragma_database_list").scalars()
        others.append(sqlite3.connect(draft))
        others[0].execute("SELECT * FROM sqlite_master").fetchall()

    try:
        assert SqliteStore(tmp_path / "ledger.sqlite").make(fill)
        with contextlib.closing(connect(tmp_path / "ledger.sqlite")) as made:
            assert len(made.execute("SELECT name FROM sqlite_master").fetchall()) > 5
            assert made.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    finally:
        for one in others:
            one.close()


def test_a_foreign_key_holds(tmp_path):
    open_toy(tmp_path)
    connection = connect(tmp_path / "ledger.sqlite")
    with pytest.raises(sqlite3.IntegrityError, match="FOREIGN KEY"):
        connection.execute("INSERT INTO releases VALUES (9, 'now', 99, NULL, '1', x'00')")
    connection.close()


def open_files(folder):
    """What this process has open in a folder."""
    found = []
    for one in Path("/proc/self/fd").iterdir():
        try:
            target = Path(os.readlink(one))
        except OSError:  # the listing's own
            continue
        if folder in (target, *target.parents):
            found.append(target)
    return found


def test_a_ledger_is_made_once(tmp_path):
    store = SqliteStore(tmp_path / "ledger.sqlite")
    assert store.make(lambda _: None) is True
    assert store.make(lambda _: None) is False
    assert open_files(tmp_path) == []


def test_a_ledger_that_cannot_be_made_is_told_and_leaves_nothing(tmp_path):
    with pytest.raises(LedgerError, match=r"cannot make a ledger at .*: no such table: missing"):
        SqliteStore(tmp_path / "a").make(lambda one: one.exec_driver_sql("SELECT * FROM missing"))
    with pytest.raises(LedgerError, match=r"cannot make a ledger at .*: No such file or directory"):
        SqliteStore(tmp_path / "b" / "a").make(lambda _: None)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_no_database_is_refused_and_left_closed(tmp_path):
    path = tmp_path / "ledger.sqlite"
    path.write_bytes(b"no database" * 100)
    with pytest.raises(sqlite3.DatabaseError, match="not a database"):
        connect(path)
    with pytest.raises(LedgerError, match=r"cannot back the ledger up to .*: file is not"):
        SqliteStore(path).backup(tmp_path / "copy")
    assert [one.name for one in tmp_path.iterdir()] == ["ledger.sqlite"]
    assert open_files(tmp_path) == []


def test_a_schema_that_is_no_text_is_refused_and_left_closed(tmp_path):
    open_toy(tmp_path)
    path = tmp_path / "ledger.sqlite"
    path.write_bytes(path.read_bytes().replace(b"CREATE TABLE budgets", b"CREATE TA\xe4LE budgets"))
    with pytest.raises(sqlite3.DatabaseError, match="the database schema is malformed"):
        connect(path)
    assert open_files(tmp_path) == []


def test_the_path_is_given_as_a_uri_whatever_sqlite_was_built_with(tmp_path, monkeypatch):
    """Which says that nothing is to be made at a path where nothing is."""
    asked, opening = [], sqlite3.connect

    def listening(*where, **how):
        asked.append((where, how))
        return opening(*where, **how)

    open_toy(tmp_path)
    monkeypatch.setattr(sqlite3, "connect", listening)
    connect(tmp_path / "ledger.sqlite").close()
    ((uri,), how), *_ = asked
    assert uri == f"file://{tmp_path}/ledger.sqlite?mode=rw"
    assert how["uri"] is True


def test_no_message_of_the_database_repeats_what_was_asked(tmp_path):
    open_toy(tmp_path)
    with SqliteStore(tmp_path / "ledger.sqlite").engine.connect() as connection:
        with pytest.raises(OperationalError) as refused:
            connection.execute(text("SELECT :one FROM missing"), {"one": "secret"})
        assert "secret" not in str(refused.value)


def test_another_version_or_another_schema_is_refused(tmp_path):
    open_toy(tmp_path)
    store = SqliteStore(tmp_path / "ledger.sqlite")
    for statement, told in (
        ("CREATE TABLE more (x)", "must have the ledger's tables and triggers"),
        ("PRAGMA user_version = 99", "must be a ledger of version .*, got version 99"),
    ):
        with store.engine.connect() as connection:
            connection.exec_driver_sql(statement)
            with pytest.raises(LedgerError, match=told):
                store.check(connection)
