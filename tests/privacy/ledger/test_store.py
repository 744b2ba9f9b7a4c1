"""A ledger's file, its copies, and URLs that are refused."""

import os
import pickle
import stat
import threading

import pytest

from privacy import LatticeLaplace, Ledger, LedgerError
from tests.privacy.toy import DATASET, KEY, Turnstile, counts_query, open_toy, question

SECRET = "hunter2"


@pytest.fixture
def path(tmp_path, ledger):
    """File of a ledger with releases, one of them paid only, and an interaction."""
    ledger.release_all(LatticeLaplace(0.1), [counts_query((size, 1)) for size in (1, 2)])
    with pytest.raises(ValueError, match="x must be"):
        ledger.interact(Turnstile(0.2), counts_query((7, 1)), question(-1))
    ledger.interact(Turnstile(0.2), counts_query(), question(1))
    ledger.change_budget(DATASET, epsilon=2.0, delta=0.0)
    return tmp_path / "ledger.sqlite"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o620])
def test_a_file_that_others_may_use_is_refused(path, mode):
    path.chmod(mode)
    with pytest.raises(LedgerError, match="chmod 600"):
        Ledger(path, key=KEY)


def test_a_backup_is_a_ledger_of_its_owner_alone(tmp_path, path):
    ledger, copy = Ledger(path, key=KEY), tmp_path / "copy.sqlite"
    ledger.backup(copy)
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    found = Ledger(copy, key=KEY)
    assert found.verify() == ledger.verify()
    assert found.statement(DATASET) == ledger.statement(DATASET)
    assert not found.release(LatticeLaplace(0.1), counts_query((1, 1))).fresh
    assert sorted(one.name for one in tmp_path.iterdir()) == ["copy.sqlite", "ledger.sqlite"]


def test_a_backup_made_while_others_spend_is_whole(tmp_path):
    ledger = open_toy(tmp_path, epsilon=100.0)
    stop = threading.Event()

    def spend():
        for size in range(1, 1000):
            if stop.is_set():
                return
            ledger.release_all(LatticeLaplace(0.01), [counts_query((size, k)) for k in (1, 2, 3)])

    spender = threading.Thread(target=spend)
    spender.start()
    for number in range(5):
        ledger.backup(tmp_path / f"copy {number}.sqlite")
    stop.set()
    spender.join()
    for number in range(5):
        copy = Ledger(tmp_path / f"copy {number}.sqlite", key=KEY)
        copy.verify()
        assert copy.statement(DATASET).n_entries % 3 == 0


def test_a_backup_replaces_nothing(tmp_path, path):
    ledger, taken = Ledger(path, key=KEY), tmp_path / "taken"
    taken.write_bytes(b"something else")
    with pytest.raises(LedgerError, match="new file"):
        ledger.backup(taken)
    assert taken.read_bytes() == b"something else"
    with pytest.raises(LedgerError, match="cannot back"):
        ledger.backup(tmp_path / "missing" / "copy.sqlite")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["ledger.sqlite", "taken"]


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://me:{SECRET}@host/db",
        f"mysql+pymysql://me:{SECRET}@host/db",
        f"postgresql+psycopg://me:{SECRET}@host",
        f"postgresql+psycopg://me:{SECRET}@host:port/db",
        f"postgresql+psycopg://me:x@{SECRET}@host/db",
        f"postgresql+psycopg://me@host/db?password={SECRET}",
    ],
)
def test_no_refusal_of_a_url_tells_its_password(url):
    with pytest.raises(ValueError, match="the ledger's URL") as refused:
        Ledger(url, key=KEY)
    chain = refused.value
    while chain is not None:
        assert SECRET not in str(chain) + repr(chain)
        chain = chain.__context__


def test_a_server_that_is_not_reached_is_told_without_the_password(tmp_path):
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    with pytest.raises(LedgerError, match=r"cannot reach postgresql\+psycopg:///db") as refused:
        Ledger(f"postgresql+psycopg://me:{SECRET}@/db?host={tmp_path}", key=KEY)
    assert SECRET not in str(refused.value)
    assert SECRET not in repr(pickle.dumps(refused.value))


def test_a_file_that_vanished_is_told(path):
    ledger = Ledger(path, key=KEY)
    os.unlink(path)
    with pytest.raises(LedgerError, match="refuses"):
        ledger.statement(DATASET)
