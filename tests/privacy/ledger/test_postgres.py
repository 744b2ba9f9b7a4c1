"""The ledger on a PostgreSQL server, where CROWDASSAY_TEST_POSTGRES holds the URL of one."""

import contextlib
import copy
import os
import pickle
import secrets
import threading
from dataclasses import dataclass

import numpy as np
import pytest
from sqlalchemy import NullPool, create_engine, make_url, select, text
from sqlalchemy.exc import DBAPIError

import privacy.ledger.releasing
import privacy.ledger.store
from flows.spending import LEDGER_URL, open_state, read_statements
from privacy import BudgetError, LatticeLaplace, Ledger, LedgerError, Part, PureEvent, Unit
from privacy.ledger.ledger import store_at
from privacy.ledger.records import Access, lock
from privacy.ledger.spending import insert_limit
from privacy.ledger.store import CHAINED
from tests.privacy.ledger.processes import race
from tests.privacy.ledger.test_processes import (
    CALLS,
    check_every_death,
    check_every_death_in_a_batch,
)
from tests.privacy.toy import (
    DATASET,
    KEY,
    Mortal,
    Turnstile,
    counts_query,
    open_toy,
    question,
    race_for_own,
    race_for_same,
    race_to_ask,
    race_to_make,
    rows_query,
)

SERVER = os.environ.get("CROWDASSAY_TEST_POSTGRES")
pytestmark = pytest.mark.skipif(
    SERVER is None, reason="CROWDASSAY_TEST_POSTGRES names no PostgreSQL server"
)
RACERS = 50


def administer(url, *statements):
    """Run statements past the ledger, each at once."""
    engine = create_engine(url, isolation_level="AUTOCOMMIT", poolclass=NullPool)
    with contextlib.closing(engine.connect()) as connection:
        for statement in statements:
            connection.execute(text(statement))


@pytest.fixture(scope="module")
def database():
    """A database of this module's own, dropped at the end."""
    name = f"ledger_{secrets.token_hex(6)}"
    administer(SERVER, f"CREATE DATABASE {name}")
    yield make_url(SERVER).set(database=name).render_as_string(hide_password=False)
    administer(SERVER, f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def url(database):
    """The database without a ledger and with the server's settings."""
    administer(
        database,
        "DROP SCHEMA IF EXISTS crowdassay CASCADE",
        f"ALTER DATABASE {make_url(database).database} RESET ALL",
    )
    return database


def test_a_release_is_paid_once_and_has_one_value(url):
    ledger = open_toy(url)
    first = ledger.release(LatticeLaplace(0.6), counts_query())
    again = open_toy(url).release(LatticeLaplace(0.6), counts_query())
    assert (first.value, first.entry, True, False) == (
        again.value,
        again.entry,
        first.fresh,
        again.fresh,
    )
    with pytest.raises(BudgetError):
        ledger.release(LatticeLaplace(0.6), counts_query((2, 2)))
    answers = [ledger.interact(Turnstile(0.2), counts_query(), question(x)) for x in (1, 2, 1)]
    assert [(answer.value, answer.fresh) for answer in answers] == [
        (1, True),
        (2, True),
        (1, False),
    ]
    told = ledger.statement(DATASET)
    assert (told.n_entries, [entry.released for entry in told.entries]) == (2, [True, True])
    assert told.entries[-1:] == ledger.statement(DATASET, entries=1).entries
    assert told.entries[0].time == ledger.time_of(1)
    assert ledger.datasets() == (DATASET,)
    ledger.change_budget(DATASET, epsilon=3.0, delta=1e-9)
    assert len(ledger.statement(DATASET).budgets) == 2
    assert ledger.verify() == 8


def test_of_fifty_processes_as_many_win_as_the_budget_covers(url):
    ledger = open_toy(url)
    found = race(url, race_for_own, racers=RACERS)
    assert found.count("released") == 5
    assert found.count("refused") == RACERS - 5
    assert ledger.statement(DATASET).left.epsilon == 0
    ledger.verify()


def test_of_fifty_processes_one_wins_the_last_spend(url):
    ledger = open_toy(url)
    ledger.release(Mortal(0.8), counts_query())
    assert race(url, race_for_own, racers=RACERS).count("released") == 1
    assert ledger.statement(DATASET).left.epsilon == 0


def test_processes_that_ask_for_the_same_get_one_value_for_one_payment(url):
    ledger = open_toy(url)
    found = race(url, race_for_same, racers=14)
    assert len({value for value, _ in found}) == 1
    assert sum(fresh for _, fresh in found) == 1
    assert ledger.statement(DATASET).n_entries == 1


def test_no_answer_of_an_interaction_is_lost_between_processes(url):
    open_toy(url)
    assert list(range(1, 15)) == sorted(race(url, race_to_ask, racers=14))


def test_processes_that_make_the_ledger_make_one(url):
    race(url, race_to_make, racers=14)
    assert len(open_toy(url).statement(DATASET).budgets) == 1


@pytest.fixture
def new_ledger(url, tmp_path):
    def make(point):
        administer(url, "DROP SCHEMA IF EXISTS crowdassay CASCADE")
        open_toy(url)
        return url, tmp_path / str(point)

    return make


@pytest.mark.parametrize(("call", "steps"), CALLS)
def test_no_death_leaves_a_release_unpaid_or_paid_twice(new_ledger, call, steps):
    check_every_death(call, steps, new_ledger)


def test_no_death_answers_a_batch_in_part(new_ledger):
    check_every_death_in_a_batch(new_ledger)


def test_a_spender_that_waited_sees_the_limit_that_was_set_meanwhile(url):
    """Its first sight of the budget, from before it waited, does not count."""
    ledger, outcome = open_toy(url, epsilon=5.0), []

    def spend():
        try:
            ledger.release(Mortal(4.0), counts_query())
        except BudgetError as error:
            outcome.append(error.budget.epsilon)

    store, spender = store_at(url), threading.Thread(target=spend)
    with Access(store, KEY).writing() as book:
        lock(book, DATASET)
        spender.start()
        waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        while not book.connection.exec_driver_sql(waiting).scalar_one():
            book.connection.exec_driver_sql("SELECT pg_stat_clear_snapshot()")
        insert_limit(book, DATASET, Unit.CONSENSUS_LABEL, 1.0, 0.0, 4)
    spender.join()
    assert outcome == [1]


def test_a_budget_that_comes_after_the_lock_is_not_spent_from(url, monkeypatch):
    """Nothing was locked for it, so two that spend could both see all of it left."""
    ledger = Ledger(url, key=KEY)

    def lock_and_lose(connection, *datasets):
        try:
            lock(connection, *datasets)
        finally:
            open_toy(url)

    monkeypatch.setattr(privacy.ledger.releasing, "lock", lock_and_lose)
    with pytest.raises(LedgerError, match="must have a budget first"):
        ledger.release(Mortal(0.5), counts_query())
    monkeypatch.undo()
    assert ledger.statement(DATASET).n_entries == 0
    assert ledger.release(Mortal(0.5), counts_query()).fresh


def test_other_data_sets_do_not_wait(url, monkeypatch):
    ledger = open_toy(url)
    ledger.open_budget("other", unit=Unit.ROW, epsilon=1.0, delta=0.0, n=4)
    with Access(store_at(url), KEY).writing() as book:
        lock(book, DATASET)
        monkeypatch.setattr(privacy.ledger.store, "WAIT", 0.05)
        assert ledger.release(Mortal(0.5), rows_query([[1.0]], dataset="other")).fresh
        with pytest.raises(LedgerError, match="lock timeout; nothing is released"):
            ledger.release(Mortal(0.5), counts_query())
    assert ledger.statement(DATASET).n_entries == 0


def test_a_commit_is_durable_and_isolated_whatever_the_servers_settings(url):
    name = make_url(url).database
    administer(
        url,
        f"ALTER DATABASE {name} SET synchronous_commit = off",
        f"ALTER DATABASE {name} SET default_transaction_isolation = 'serializable'",
        f"ALTER DATABASE {name} SET search_path = elsewhere",
    )
    ledger = open_toy(url)
    with Access(store_at(url), KEY).writing() as book:
        shown = [
            book.connection.exec_driver_sql(f"SHOW {setting}").scalar_one()
            for setting in ("synchronous_commit", "transaction_isolation", "lock_timeout")
        ]
    assert shown == ["on", "read committed", "1min"]
    assert ledger.release(Mortal(0.5), counts_query()).fresh


@pytest.mark.parametrize(
    "statement",
    [
        *(
            f"DELETE FROM {table}"
            for table in ("about", "head", "budgets", "entries", "releases", "answers")
        ),
        "TRUNCATE budgets",
        "TRUNCATE entries CASCADE",
        "UPDATE entries SET event = '{}'",
        "UPDATE releases SET value = '[0]'",
        "UPDATE answers SET state = '1'",
        "UPDATE budgets SET epsilon = '9'",
        "UPDATE about SET version = 9",
        "UPDATE head SET n_rows = n_rows - 1",
        "INSERT INTO entries SELECT * FROM entries ON CONFLICT (entry) DO UPDATE SET n = 9",
    ],
)
def test_nothing_is_deleted_or_overwritten(url, statement):
    ledger = open_toy(url)
    ledger.release(LatticeLaplace(0.1), counts_query())
    ledger.interact(Turnstile(0.1), counts_query(), question(1))
    with pytest.raises(DBAPIError, match="the ledger only grows"):
        administer(url, "SET search_path = crowdassay", statement)


@pytest.mark.parametrize(
    ("statement", "named"),
    [
        ("UPDATE entries SET n = 9 WHERE entry = 2", "entry 2 is"),
        ("UPDATE releases SET value = '1' WHERE entry = 1", "the value of entry 1 is"),
        ("DELETE FROM answers", "ends after 6"),
        ("UPDATE head SET n_rows = 4", "its head"),
    ],
)
def test_the_first_row_that_does_not_fit_is_named(url, statement, named):
    ledger = open_toy(url)
    ledger.release(LatticeLaplace(0.1), counts_query())
    ledger.release(LatticeLaplace(0.1), counts_query((1, 1)))
    ledger.interact(Turnstile(0.1), counts_query((1, 1)), question(1))
    past_triggers = "SET search_path = crowdassay; SET session_replication_role = replica"
    administer(url, past_triggers, statement)
    for call in (lambda: Ledger(url, key=KEY), lambda: ledger.verify()):
        with pytest.raises(LedgerError, match=f"damaged: .*{named}"):
            call()


def test_a_trigger_that_is_switched_off_is_refused(url):
    open_toy(url)
    administer(url, "ALTER TABLE crowdassay.entries DISABLE TRIGGER entries_no_delete")
    with pytest.raises(LedgerError, match="triggers"):
        Ledger(url, key=KEY)


def test_another_key_or_version_is_refused(url):
    open_toy(url)
    with pytest.raises(LedgerError, match="another fingerprint key"):
        Ledger(url, key=bytes(32))
    administer(
        url, "SET session_replication_role = replica", "UPDATE crowdassay.about SET version = 9"
    )
    with pytest.raises(LedgerError, match="version 9"):
        Ledger(url, key=KEY)


def test_no_repr_pickle_or_message_tells_the_password(url):
    secret = "hunter2"
    where = make_url(url).set(password=secret).render_as_string(hide_password=False)
    ledger = open_toy(where)
    assert copy.deepcopy(ledger) is ledger
    assert secret not in repr(ledger) + repr(ledger._access) + repr(pickle.dumps(ledger))
    assert make_url(url).database in repr(ledger)
    administer(url, "DROP SCHEMA crowdassay CASCADE")
    with pytest.raises(LedgerError) as refused:
        ledger.statement(DATASET)
    assert secret not in str(refused.value)


def test_no_row_holds_a_private_value(url):
    ledger, secret = open_toy(url), 314_159_265
    ledger.release(Mortal(0.25), rows_query([[float(secret)]]))
    ledger.release(Mortal(0.25), counts_query((secret, 1)))
    ledger.interact_all(
        Turnstile(0.25), counts_query((secret, 1)), [question(secret), question(secret + 0.5)]
    )
    with Access(store_at(url), KEY).writing() as book:
        rows = [row for table in CHAINED for row in book.connection.execute(select(table)).all()]
    assert len(rows) == 1 + 3 + 2 + 2
    assert str(secret) not in repr(rows)


def test_backup_is_the_servers_own(url, tmp_path):
    with pytest.raises(LedgerError, match="pg_dump"):
        open_toy(url).backup(tmp_path / "copy")
    assert list(tmp_path.iterdir()) == []


def test_campaigns_share_the_ledger_that_the_environment_names(url, tmp_path, monkeypatch):
    monkeypatch.setenv(LEDGER_URL, url)
    ledger = open_state(tmp_path)
    ledger.open_budget(DATASET, unit=Unit.ROW, epsilon=1.0, delta=0.0, n=4)
    assert [found["dataset"] for found in read_statements(tmp_path)] == [DATASET]
    assert [path.name for path in tmp_path.iterdir()] == ["fingerprint.key"]


def test_events_and_cells_may_be_longer_than_an_index_takes(url):
    """200 candidates of a training were refused: a row of an index holds 2,704 bytes."""
    ledger = open_toy(url, epsilon=10.0)
    rng = np.random.default_rng(0)
    long = "".join(map(chr, rng.integers(0x4E00, 0x9FFF, 3_000)))
    first = ledger.release(LatticeLaplace(0.5), counts_query(part=Part("site:1", long)))
    entry = ledger.release(Described(tuple(rng.random(2_000).tolist())), counts_query()).entry
    assert (first.entry, entry) == (1, 2)
    assert ledger.statement(DATASET).n_entries == 2
    assert ledger.verify() == 5


@dataclass(frozen=True)
class Described:
    """A mechanism with many public knobs."""

    knobs: tuple[float, ...]

    def event(self, query):
        return PureEvent("described", 0.1, {"knobs": list(self.knobs)})

    def draw(self, query, noise):
        return noise.uniform_integer(2)
