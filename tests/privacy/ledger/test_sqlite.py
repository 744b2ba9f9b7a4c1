"""What makes a ledger's file durable: every sync that a crash could ask for, in its order."""

import os
import sqlite3
from pathlib import Path

import pytest

from privacy.ledger.sqlite import connect, new_file
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


def test_a_foreign_key_holds(tmp_path):
    open_toy(tmp_path)
    connection = connect(tmp_path / "ledger.sqlite")
    with pytest.raises(sqlite3.IntegrityError, match="FOREIGN KEY"):
        connection.execute("INSERT INTO releases VALUES (9, 'now', 99, '1', x'00')")
    connection.close()
