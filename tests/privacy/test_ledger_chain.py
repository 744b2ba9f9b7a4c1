"""Damage to a ledger's rows, by means other than the ledger, and what cannot be told."""

import os
import shutil
import sqlite3

import pytest

import privacy.ledger
import privacy.opening
from privacy import LatticeLaplace, Ledger, LedgerError
from tests.privacy.toy import DATASET, KEY, Turnstile, counts_query, open_toy, question

CUT = (
    "DELETE FROM answers; DELETE FROM releases WHERE entry > 4; DELETE FROM entries WHERE entry > 4"
)


@pytest.fixture
def path(tmp_path, ledger):
    """File of a ledger: a budget, five releases of an entry and a value each, an answer."""
    for size in range(1, 6):
        ledger.release(LatticeLaplace(0.1), counts_query((size, 1)))
    ledger.interact(Turnstile(0.1), counts_query(), question(1))
    return tmp_path / "ledger.sqlite"


def tamper(path, script):
    """Change rows as somebody would who knows SQLite and not the key."""
    connection = sqlite3.connect(path)
    found = connection.execute(
        "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"
    ).fetchall()
    for name, _ in found:
        connection.execute(f"DROP TRIGGER {name}")
    connection.executescript(script)
    for _, sql in found:
        connection.execute(sql)
    connection.commit()
    connection.close()


@pytest.mark.parametrize(
    ("script", "named"),
    [
        ("UPDATE entries SET event = replace(event, '0.1', '0.01') WHERE entry = 3", "entry 3 is"),
        ("UPDATE entries SET entry = 17 WHERE entry = 6", "entry 17 is"),
        ("UPDATE entries SET n = '4', time = time || ' ' WHERE entry > 1", "entry 2 is"),
        ("UPDATE releases SET value = '[1, 1]' WHERE entry = 2", "the value of entry 2 is"),
        ("UPDATE releases SET link = x'00' WHERE entry = 2", "the value of entry 2 is"),
        ("UPDATE answers SET state = '{}'", "an answer of entry 6 is"),
        ("UPDATE budgets SET epsilon = '9'", r"a budget of 'toy' \(row 1\) is"),
        ("UPDATE about SET start = x'00'", r"a budget of 'toy' \(row 1\) is"),
        ("UPDATE entries SET position = 'x' WHERE entry = 3", "before the value of entry 3"),
        ("DELETE FROM entries WHERE entry = 3", "missing or doubled before the value of entry 3"),
        ("DELETE FROM releases WHERE entry = 3", "missing or doubled before entry 4"),
        (
            "INSERT INTO releases SELECT position - 1, time, 6, value, link FROM releases LIMIT 1",
            "missing or doubled before the value of entry 6",
        ),
        (CUT, "must have 13 rows, and ends after 9"),
        ("DELETE FROM answers", "must have 13 rows, and ends after 12"),
        (
            CUT + "; UPDATE head SET n_rows = 9, link = (SELECT max(link) FROM releases "
            "WHERE position = 9)",
            "its head",
        ),
        ("UPDATE head SET n_rows = 12", "its head"),
        ("DELETE FROM head", "its head"),
    ],
)
def test_the_first_row_that_does_not_fit_is_named(path, script, named):
    ledger = Ledger(path, key=KEY)
    tamper(path, f"PRAGMA foreign_keys = OFF; {script};")
    for call in (
        lambda: Ledger(path, key=KEY),
        lambda: ledger.statement(DATASET),
        lambda: ledger.verify(),
    ):
        with pytest.raises(LedgerError, match=f"damaged: .*{named}"):
            call()


def test_a_ledger_whose_head_does_not_fit_spends_nothing(path):
    ledger = Ledger(path, key=KEY)
    tamper(path, "UPDATE head SET n_rows = 12;")
    with pytest.raises(LedgerError, match="its head"):
        ledger.release(LatticeLaplace(0.1), counts_query((9, 1)))


def test_opening_follows_the_newest_rows_and_verify_follows_all(path, monkeypatch):
    for module in (privacy.opening, privacy.ledger):
        monkeypatch.setattr(module, "NEWEST", 5)
    tamper(path, "UPDATE entries SET event = replace(event, '0.1', '0.2') WHERE entry = 2;")
    ledger = Ledger(path, key=KEY)
    ledger.statement(DATASET)
    with pytest.raises(LedgerError, match="entry 2 is"):
        ledger.verify()
    tamper(path, "UPDATE entries SET query = 'x' WHERE entry = 5;")
    with pytest.raises(LedgerError, match="entry 5 is"):
        Ledger(path, key=KEY)


def test_verify_counts_rows_and_the_count_only_grows(path):
    ledger = Ledger(path, key=KEY)
    assert ledger.verify() == 13
    ledger.release(LatticeLaplace(0.1), counts_query((9, 1)))
    assert ledger.verify() == 15


def test_verify_finds_indexes_that_do_not_fit(path):
    ledger = Ledger(path, key=KEY)
    connection = sqlite3.connect(path)
    root = connection.execute(
        "SELECT rootpage FROM sqlite_master WHERE name = 'entries_by_cell'"
    ).fetchone()[0]
    connection.close()
    content = bytearray(path.read_bytes())
    start = content.index(b"toy", (root - 1) * 4096)
    content[start : start + 3] = b"tou"
    path.write_bytes(content)
    with pytest.raises(LedgerError):
        ledger.verify()


def test_a_row_of_another_ledger_with_the_same_key_does_not_fit(tmp_path, path):
    folder = tmp_path / "other"
    folder.mkdir()
    open_toy(folder)
    other = folder / "ledger.sqlite"
    connection = sqlite3.connect(other)
    row = connection.execute("SELECT * FROM budgets").fetchone()
    connection.close()
    tamper(path, f"DELETE FROM budgets; INSERT INTO budgets VALUES {(*row[:-1], 0)};")
    tamper(path, f"UPDATE budgets SET link = x'{row[-1].hex()}';")
    with pytest.raises(LedgerError, match="row 1"):
        Ledger(path, key=KEY)


def test_a_ledger_set_back_whole_is_told_by_its_count_alone(tmp_path, path):
    """The limit that the docstring states."""
    earlier = tmp_path / "earlier.sqlite"
    ledger = Ledger(path, key=KEY)
    ledger.backup(earlier)
    ledger.release(LatticeLaplace(0.1), counts_query((9, 1)))
    noted = ledger.verify()
    os.replace(earlier, path)
    assert Ledger(path, key=KEY).verify() < noted


def test_copies_of_the_file_verify(tmp_path, path):
    shutil.copy(path, tmp_path / "copy.sqlite")
    os.chmod(tmp_path / "copy.sqlite", 0o600)
    assert Ledger(tmp_path / "copy.sqlite", key=KEY).verify() == 13
