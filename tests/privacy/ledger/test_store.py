"""A ledger's file, its copies, and URLs that are refused."""

import os
import pickle
import socket
import stat
import threading

import pytest
import sqlalchemy.event
from sqlalchemy.dialects import postgresql

from privacy import LatticeLaplace, Ledger, LedgerError, Unit, plan
from privacy.ledger import postgres, records
from privacy.ledger.postgres import PostgresStore
from privacy.ledger.store import VERSION, check_version
from tests.privacy.toy import DATASET, KEY, Turnstile, counts_query, open_toy, question

SECRET = "hunter2"
SERVER = "postgresql+psycopg://me@host/campaign"


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


def test_a_write_on_a_server_asks_for_all_that_makes_it_safe():
    """Whatever the server's and the role's own settings; a test on a real server follows each rule."""
    asked = PostgresStore.at(SERVER).begin(write=True).split("; ")
    assert asked == [
        "SET TRANSACTION ISOLATION LEVEL READ COMMITTED",
        "SET LOCAL search_path = crowdassay",
        "SET LOCAL synchronous_commit = on",
        "SET LOCAL lock_timeout = 60000",
    ]
    (level, *_) = PostgresStore.at(SERVER).begin(write=False).split("; ")
    assert level == "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"


def test_a_server_refuses_every_change_but_added_rows():
    """A trigger for each table and way; the head alone may be updated, and only move on."""
    triggers = [words for words in postgres.SCHEMA if words.startswith("CREATE TRIGGER")]
    for table in ("about", "head", "budgets", "entries", "releases", "answers"):
        for action, each in (("DELETE", "ROW"), ("TRUNCATE", "STATEMENT"), ("UPDATE", "ROW")):
            words = f"BEFORE {action} ON {table} FOR EACH {each} "
            if (table, action) == ("head", "UPDATE"):
                words += "WHEN (NOT NEW.n_rows > OLD.n_rows) "
            words += "EXECUTE FUNCTION only_grows()"
            assert [one.endswith(words) for one in triggers].count(True) == 1, words
    assert {words.split()[2] for words in triggers} == postgres.TRIGGERS
    for table in ("about", "head"):
        assert f"CREATE UNIQUE INDEX one_{table} ON {table} ((TRUE))" in postgres.SCHEMA
    assert "RAISE 'the ledger only grows'" in " ".join(postgres.SCHEMA)
    assert "tgenabled IN ('O', 'A')" in postgres.FOUND_TRIGGERS


@pytest.mark.refusal
def test_on_a_server_spenders_wait_for_each_other_at_the_budget_and_at_the_head():
    """SQLite locks the whole file, so that only the words tell."""
    asked = []

    class Connection:
        """Writes down what it is asked for, as a server would be."""

        def execute(self, statement, *_):
            asked.append(str(statement.compile(dialect=postgresql.dialect())))
            return self

        scalars = execute

        def all(self):
            return ["toy"] if "budgets" in asked[-1] else [self]

        n_rows, link = 0, b""

        @property
        def seal(self):
            return records._seal(0, b"", bytes(32))

    book = records.Book(Connection(), bytes(32))
    records.lock(book, "toy")
    assert "ORDER BY budgets.position FOR UPDATE" in " ".join(asked[-1].split())
    records.hold(book)
    assert asked[-1].rstrip().endswith("FOR UPDATE")
    records._end(book)
    assert "FOR UPDATE" not in asked[-1]


@pytest.mark.refusal
def test_making_tables_on_a_server_is_one_processs_at_a_time():
    """The advisory lock comes before the look for tables."""
    asked = []

    class Connection:
        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def exec_driver_sql(self, words):
            asked.append(words)
            return self

        def scalar_one(self):
            return True

        def connect(self):
            return self

    store = PostgresStore.at(SERVER)
    object.__setattr__(store, "engine", Connection())
    assert store.make(lambda _: None) is False
    assert asked[0] == f"SELECT pg_advisory_xact_lock({postgres.MAKING})"
    assert "to_regclass('crowdassay.about')" in asked[1]


def test_a_ledger_of_another_version_is_refused():
    check_version("here", VERSION)
    with pytest.raises(LedgerError, match=f"here must be a ledger of version {VERSION}, got"):
        check_version("here", VERSION + 1)


@pytest.mark.parametrize(
    "call",
    [
        lambda ledger: ledger.release(LatticeLaplace(0.1), counts_query()),
        lambda ledger: ledger.interact(Turnstile(0.1), counts_query(), question(1)),
        lambda ledger: ledger.open_budget(
            "other", unit=Unit.CONSENSUS_LABEL, epsilon=1.0, delta=0.0, n=4
        ),
        lambda ledger: ledger.change_budget(DATASET, epsilon=2.0, delta=0.0),
        lambda ledger: ledger.open_plan(
            DATASET, plan({LatticeLaplace(0.1).event(counts_query()): 2}, delta=0.0), name="two"
        ),
    ],
    ids=["release", "interact", "open_budget", "change_budget", "open_plan"],
)
def test_every_spend_locks_its_budget_first_and_the_chains_end_before_it_counts_on_it(ledger, call):
    """On SQLite the words have no effect, as the whole file is locked; a server waits at them."""
    transactions = []

    def listen(connection, cursor, statement, parameters, context, many):
        asked = context.compiled.statement if context.compiled else None
        if statement == "BEGIN IMMEDIATE":
            transactions.append([])
        elif statement != "BEGIN" and asked is not None:
            froms = getattr(asked, "get_final_froms", list)()
            tables = {getattr(one, "name", "several") for one in froms}
            locks = getattr(asked, "_for_update_arg", None) is not None
            transactions[-1].append((statement, tables, locks))

    engine = ledger._access.store.engine
    sqlalchemy.event.listen(engine, "before_cursor_execute", listen)
    call(ledger)
    sqlalchemy.event.remove(engine, "before_cursor_execute", listen)
    assert transactions
    for asked in transactions:
        first = [locks for *_, locks in asked].index(True)
        assert first == 0 or asked[first][1] == {"budgets"}
        assert all(
            tables <= {"about", "budgets"} for _, tables, _ in asked[:first]
        )  # a plan's unit
        assert all(locks for _, tables, locks in asked if tables == {"head"})
        ends = [n for n, (_, tables, _) in enumerate(asked) if tables == {"head"}]
        counted = [n for n, (words, *_) in enumerate(asked) if "max(entries.entry)" in words]
        added = [n for n, (words, *_) in enumerate(asked) if words.startswith("INSERT")]
        assert all(ends[0] < n for n in counted)
        assert all(ends[-1] < n for n in added[-1:])


@pytest.mark.long
def test_a_server_that_accepts_in_silence_is_not_waited_for_by_psycopgs_two_minutes(monkeypatch):
    monkeypatch.delenv("PGCONNECT_TIMEOUT", raising=False)
    monkeypatch.setattr(postgres, "CONNECTS", 2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"postgresql+psycopg://me:{SECRET}@127.0.0.1:{silent.getsockname()[1]}/campaign"
        with pytest.raises(
            LedgerError, match="cannot reach .*: connection timeout expired"
        ) as told:
            PostgresStore.at(url).exists()
    assert SECRET not in str(told.value)


@pytest.mark.parametrize("said", ["url", "environment"])
def test_a_time_to_connect_that_the_user_gives_stands(monkeypatch, said):
    asked = {}
    monkeypatch.delenv("PGCONNECT_TIMEOUT", raising=False)
    made = postgres.create_engine
    monkeypatch.setattr(
        postgres, "create_engine", lambda url, **how: asked.update(how) or made(url, **how)
    )
    PostgresStore.at(SERVER)
    assert asked["connect_args"]["connect_timeout"] == postgres.CONNECTS
    if said == "environment":
        monkeypatch.setenv("PGCONNECT_TIMEOUT", "7")
    PostgresStore.at(SERVER + "?connect_timeout=7" * (said == "url"))
    assert "connect_timeout" not in asked["connect_args"]
