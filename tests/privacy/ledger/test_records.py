"""Damage to a ledger's rows, by means other than the ledger, and what cannot be noticed."""

import os
import shutil
import sqlite3
from fractions import Fraction

import numpy as np
import pytest

import privacy.ledger.ledger
import privacy.ledger.records
from privacy import Head, LatticeLaplace, Ledger, LedgerError, Unit
from privacy.ledger.ledger import store_at
from privacy.ledger.records import Access, _check_kept, append, lock, read_head
from privacy.ledger.store import releases
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
            "INSERT INTO releases SELECT position - 1, time, 6, NULL, value, link FROM releases LIMIT 1",
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


@pytest.mark.parametrize(
    ("table", "column", "named"),
    [
        ("releases", "value", "the value of entry 5 is"),
        ("answers", "state", "an answer of entry 6 is"),
        ("answers", "question", "an answer of entry 6 is"),
        ("about", "key_digest", "another fingerprint key"),
    ],
)
def test_a_text_that_is_none_is_named_and_not_told(path, table, column, named):
    """Python's sqlite3 would repeat a text that is not UTF-8, be it a secret state."""
    ledger, secret = Ledger(path, key=KEY), b"hunter2 \xff"
    tamper(
        path,
        f"UPDATE {table} SET {column} = CAST(x'{secret.hex()}' AS TEXT) "
        f"WHERE rowid = (SELECT max(rowid) FROM {table});",
    )
    with pytest.raises(LedgerError, match=named) as refused:
        ledger.verify()
    chain = refused.value
    while chain is not None:
        assert "hunter2" not in str(chain) + repr(chain)
        chain = chain.__context__


@pytest.mark.parametrize("value", ["'x'", "123456789012", "zeroblob(9)", "3.5"])
@pytest.mark.parametrize(
    ("table", "column"),
    [("about", "start"), ("budgets", "link"), ("entries", "link"), ("head", "link")],
)
def test_a_link_of_another_type_is_damage(path, monkeypatch, table, column, value):
    ledger = Ledger(path, key=KEY)
    tamper(path, f"UPDATE {table} SET {column} = {value};")
    for newest in (5, 13):
        monkeypatch.setattr(privacy.ledger.ledger, "NEWEST", newest)
        for call in (lambda: Ledger(path, key=KEY), lambda: ledger.statement(DATASET)):
            if newest == 13 or table in ("entries", "head"):
                with pytest.raises(LedgerError, match="damaged"):
                    call()
    with pytest.raises(LedgerError, match="damaged"):
        ledger.verify()


@pytest.mark.parametrize("value", [7, True, 2**63, 0.5, "a\0b", "\ud800", np.int64(3)])
def test_what_would_not_come_back_as_it_was_is_not_written(path, value):
    """A database keeps 7 as '7' in a column of texts: such a row would pass for damaged for ever."""
    ledger, row = Ledger(path, key=KEY), {"time": "now", "entry": 6, "contents": None, "value": "1"}
    for name in row:
        if (name, value) != ("entry", 7):
            with (
                pytest.raises(LedgerError, match=f"{name} is not what"),
                Access(store_at(path), KEY).writing() as book,
            ):
                append(book, releases, [row | {name: value}])
    assert ledger.verify() == 13


def test_a_clock_that_goes_backwards_changes_nothing(path, monkeypatch):
    """Order is the chain's; times are for people."""
    ledger, before = Ledger(path, key=KEY), Ledger(path, key=KEY).statement(DATASET)
    monkeypatch.setattr(privacy.ledger.records, "now", lambda: "1970-01-01T00:00:00+00:00")
    ledger.release(LatticeLaplace(0.1), counts_query((9, 1)))
    assert not ledger.release(LatticeLaplace(0.1), counts_query((9, 1))).fresh
    told = ledger.statement(DATASET)
    assert told.entries[:-1] == before.entries
    assert told.entries[-1].time.startswith("1970")
    assert told.spent.epsilon == before.spent.epsilon + Fraction("0.1")
    assert ledger.verify() == 15


def test_a_ledger_whose_head_does_not_fit_spends_nothing(path):
    ledger = Ledger(path, key=KEY)
    tamper(path, "UPDATE head SET n_rows = 12;")
    with pytest.raises(LedgerError, match="its head"):
        ledger.release(LatticeLaplace(0.1), counts_query((9, 1)))


def test_opening_follows_the_newest_rows_and_verify_follows_all(path, monkeypatch):
    monkeypatch.setattr(privacy.ledger.ledger, "NEWEST", 5)
    tamper(path, "UPDATE entries SET event = replace(event, '0.1', '0.2') WHERE entry = 2;")
    ledger = Ledger(path, key=KEY)
    ledger.statement(DATASET)
    with pytest.raises(LedgerError, match="entry 2 is"):
        ledger.verify()
    tamper(path, "UPDATE entries SET query = 'x' WHERE entry = 5;")
    with pytest.raises(LedgerError, match="entry 5 is"):
        Ledger(path, key=KEY)


@pytest.mark.parametrize(
    "script",
    [
        "UPDATE budgets SET epsilon = '9'",
        "UPDATE budgets SET delta = '-1'",
        "UPDATE budgets SET n = 'x'",
        "UPDATE budgets SET unit = 'task'",
    ],
)
def test_no_spend_is_measured_by_a_budget_that_was_not_written(path, monkeypatch, script):
    """A budget's row is the oldest, and is looked at whatever has come after it."""
    monkeypatch.setattr(privacy.ledger.ledger, "NEWEST", 5)
    tamper(path, f"{script};")
    ledger = Ledger(path, key=KEY)
    for call in (
        lambda: ledger.release(LatticeLaplace(0.1), counts_query((9, 1))),
        lambda: ledger.interact(Turnstile(0.1), counts_query(), question(2)),
        lambda: ledger.open_budget(DATASET, unit=Unit.CONSENSUS_LABEL, epsilon=9.0, delta=0.0, n=4),
        lambda: ledger.change_budget(DATASET, epsilon=9.0, delta=0.0),
        lambda: ledger.statement(DATASET),
    ):
        with pytest.raises(LedgerError, match=r"damaged: a budget of 'toy' \(row 1\) is not"):
            call()


@pytest.mark.parametrize("state", ["'{}'", "'x'", "7"])
def test_no_answer_follows_a_state_that_was_not_written(path, state):
    ledger = Ledger(path, key=KEY)
    tamper(path, f"UPDATE answers SET state = {state};")
    with pytest.raises(LedgerError, match="an answer of entry 6 is not what was written"):
        ledger.interact(Turnstile(0.1), counts_query(), question(2))


@pytest.mark.parametrize("state", ["'{}'", "'x'", "7"])
def test_no_history_is_told_of_a_state_that_was_not_written(path, state):
    """Another interaction with the same rows reads it too."""
    ledger = Ledger(path, key=KEY)
    tamper(path, f"UPDATE answers SET state = {state};")
    with pytest.raises(LedgerError, match="an answer of entry 6 is not what was written"):
        ledger.interact(Turnstile(0.2), counts_query(), question(2))


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


def test_a_write_locks_at_once_and_a_read_sees_one_moment(path):
    ledger, access = Ledger(path, key=KEY), Access(store_at(path), KEY)
    with access.reading() as book:
        before = read_head(book)
        ledger.release(LatticeLaplace(0.1), counts_query((9, 1)))
        assert read_head(book) == before
    other = sqlite3.connect(path, timeout=0, isolation_level=None)
    with access.writing(), pytest.raises(sqlite3.OperationalError, match="locked"):
        other.execute("BEGIN IMMEDIATE")
    other.close()


@pytest.mark.parametrize("entry", [-(2**63), 2**63 - 1])
def test_every_number_that_a_database_holds_is_kept(entry):
    _check_kept({"entry": entry, "value": "1"})
    beyond = entry + (1 if entry > 0 else -1)
    with pytest.raises(LedgerError, match="entry is not what the ledger can keep"):
        _check_kept({"entry": beyond, "value": "1"})


def test_nothing_is_locked_for_a_data_set_without_a_budget(path):
    with Access(store_at(path), KEY).writing() as book:
        lock(book, DATASET)
        with pytest.raises(LedgerError, match="'other' must have a budget first: open_budget"):
            lock(book, DATASET, "other")


@pytest.mark.refusal
@pytest.mark.parametrize(
    ("n_rows", "seal"),
    [(2**70, "a"), (10**5, None), (None, None), ("1", "a"), (-1, "a"), (1.0, "a")],
)
def test_a_damaged_head_is_one_that_the_ledger_never_had(path, n_rows, seal):
    """One without a seal passed, and one too large for SQLite ended in Python's own error."""
    ledger, head = Ledger(path, key=KEY), Head(n_rows, seal)
    assert ledger.lacking([ledger.head(), head]) == (head,)


@pytest.mark.refusal
def test_the_time_of_an_entry_is_asked_by_its_number_alone(path):
    ledger = Ledger(path, key=KEY)
    assert ledger.time_of(np.int64(1)) == ledger.time_of(1)
    for other in (True, 1.0, "1", None, 0, 2**70):
        with pytest.raises(LedgerError, match="entry must be one of the ledger's, got entry="):
            ledger.time_of(other)
