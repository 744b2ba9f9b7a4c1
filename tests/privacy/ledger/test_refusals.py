"""Files that are no ledger, ledgers that cannot be written, and private values that must not be shown."""

import contextlib
import resource
import sqlite3
import sys
from decimal import Decimal
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

import privacy.ledger.sqlite
import privacy.ledger.store
from privacy import LatticeLaplace, Ledger, LedgerError, Part, PureEvent, Query, Question, Unit
from privacy.ledger.ledger import store_at
from privacy.ledger.records import Access, append, part_of
from privacy.ledger.sqlite import SqliteStore
from privacy.ledger.store import entries
from tests.privacy.toy import (
    DATASET,
    KEY,
    Mortal,
    Turnstile,
    counts_query,
    question,
    rows_query,
)

CANARY = 987654321
NORTH = Part("site:1", "north")


@pytest.fixture
def path(tmp_path, ledger):
    """File of a ledger with a few entries."""
    for size in range(1, 6):
        ledger.release(LatticeLaplace(0.1), counts_query((size, 1)))
    return tmp_path / "ledger.sqlite"


def execute(path, *statements):
    """Run statements past the ledger; the rows of the last."""
    connection = sqlite3.connect(path, isolation_level=None)
    rows = [connection.execute(statement).fetchall() for statement in statements]
    connection.close()
    return rows[-1]


def test_another_key_is_refused(path):
    with pytest.raises(LedgerError, match="another fingerprint key"):
        Ledger(path, key=bytes(32))


@pytest.mark.refusal
@pytest.mark.parametrize("key", ["k" * 32, [0] * 32, None, 32])
def test_a_key_is_bytes_and_no_sentence_shows_it(tmp_path, key):
    with pytest.raises(TypeError, match=f"key must be bytes, got {type(key).__name__}$"):
        Ledger(tmp_path / "new.sqlite", key=key)
    assert list(tmp_path.glob("new*")) == []


@pytest.mark.parametrize("key", [b"", bytes(15), bytes(65)])
def test_a_key_is_long_enough(tmp_path, key):
    with pytest.raises(ValueError, match="16 to 64"):
        Ledger(tmp_path / "new.sqlite", key=key)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("size", [16, 64])
def test_the_shortest_and_the_longest_key_are_taken(tmp_path, size):
    Ledger(tmp_path / "new.sqlite", key=bytes(size))
    assert Ledger(tmp_path / "new.sqlite", key=bytes(size)).verify() == 0


def test_tables_are_compared_with_their_indexes_where_all_is_verified_alone(path, monkeypatch):
    deep = []
    monkeypatch.setattr(SqliteStore, "check_deeply", lambda *_: deep.append(1))
    ledger = Ledger(path, key=KEY)
    assert not deep
    ledger.verify()
    assert deep == [1]


def test_reading_waits_for_nobody_who_writes(path):
    ledger = Ledger(path, key=KEY)
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    try:
        assert ledger.statement(DATASET).n_entries == 5
    finally:
        writer.close()


@pytest.mark.refusal
def test_a_partition_without_a_cell_is_damage():
    with pytest.raises(LedgerError, match="partition or cell is no name"):
        part_of(SimpleNamespace(partition="site:1", cell=None))


def test_an_unknown_version_is_refused(path):
    execute(path, "PRAGMA user_version = 99")
    with pytest.raises(LedgerError, match="version 99"):
        Ledger(path, key=KEY)


@pytest.mark.parametrize(
    "statement",
    ["DROP TRIGGER entries_no_delete", "CREATE TABLE more (x)", "DROP INDEX entries_by_cell"],
)
def test_an_altered_schema_is_refused(path, statement):
    execute(path, statement)
    with pytest.raises(LedgerError, match="tables and triggers"):
        Ledger(path, key=KEY)


def test_a_ledger_with_two_keys_is_refused(path):
    guard = execute(path, "SELECT sql FROM sqlite_master WHERE name = 'about_not_replaced'").pop()[
        0
    ]
    execute(
        path, "DROP TRIGGER about_not_replaced", "INSERT INTO about VALUES (2, x'00', x'00')", guard
    )
    with pytest.raises(LedgerError, match="damaged"):
        Ledger(path, key=KEY)


def test_a_transaction_that_sqlite_has_undone_is_told_by_its_cause(path):
    def fail():
        with Access(store_at(path), KEY).writing() as book:
            book.connection.exec_driver_sql("ROLLBACK")
            book.connection.exec_driver_sql("SELECT * FROM missing")

    with pytest.raises(LedgerError, match="no such table"):
        fail()


@pytest.mark.parametrize("start", [0, 16, 4096])
def test_a_damaged_file_is_refused(path, start):
    content = bytearray(path.read_bytes())
    content[start : start + 4000] = b"\xa5" * 4000
    path.write_bytes(content)
    with pytest.raises(LedgerError):
        Ledger(path, key=KEY)


def test_a_schema_that_is_no_text_is_refused(path):
    """SQLite repeats it in its message, which Python then cannot read."""
    content = path.read_bytes()
    path.write_bytes(content.replace(b"CREATE TABLE budgets", b"CREATE TA\xe4LE budgets"))
    with pytest.raises(LedgerError, match="schema is malformed"):
        Ledger(path, key=KEY)


@pytest.mark.parametrize("content", [b"", b"not a ledger", b"\0" * 8192])
def test_a_file_that_is_no_ledger_is_refused_and_left_as_it_is(tmp_path, content):
    path = tmp_path / "ledger.sqlite"
    path.write_bytes(content)
    with pytest.raises(LedgerError):
        Ledger(path, key=KEY)
    assert content == path.read_bytes()


def test_a_folder_in_its_place_or_no_folder_around_it_is_refused(tmp_path):
    with pytest.raises(LedgerError):
        Ledger(tmp_path, key=KEY)
    with pytest.raises(LedgerError, match="cannot make"):
        Ledger(tmp_path / "missing" / "ledger.sqlite", key=KEY)


def test_a_ledger_that_cannot_be_written_releases_nothing(path, monkeypatch):
    ledger = Ledger(path, key=KEY)

    def read_only(path):
        return sqlite3.connect(f"file:{path}?mode=ro", uri=True, isolation_level=None)

    with monkeypatch.context() as patched:
        patched.setattr(privacy.ledger.sqlite, "connect", read_only)
        with pytest.raises(LedgerError, match="readonly"):
            ledger.release(LatticeLaplace(0.1), counts_query((9, 1)))
    assert len(ledger.statement(DATASET).entries) == 5


@contextlib.contextmanager
def full_disk(size):
    """Files of this process cannot grow beyond a size."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("size", [0, 4096, 20_000])
def test_a_full_disk_releases_nothing_and_leaves_a_sound_ledger(tmp_path, path, size):
    ledger, twenty = Ledger(path, key=KEY), [counts_query((9, k), part=NORTH) for k in range(20)]
    with full_disk(size):
        for call in (
            lambda: ledger.release_all(LatticeLaplace(0.01), twenty),
            lambda: ledger.interact(Turnstile(0.1), counts_query(), question(1)),
            lambda: ledger.backup(tmp_path / "copy.sqlite"),
            lambda: Ledger(tmp_path / "new.sqlite", key=KEY),
        ):
            with pytest.raises(LedgerError):
                call()
    assert all(one.name.startswith("ledger.sqlite") for one in tmp_path.iterdir())  # and its log
    assert (ledger.statement(DATASET).n_entries, ledger.verify()) == (5, 11)
    assert ledger.release_all(LatticeLaplace(0.01), twenty)[0].fresh


def test_a_locked_ledger_releases_nothing(path, monkeypatch):
    ledger = Ledger(path, key=KEY)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    monkeypatch.setattr(privacy.ledger.store, "WAIT", 0.05)
    with pytest.raises(LedgerError, match="locked"):
        ledger.release(LatticeLaplace(0.1), counts_query((9, 1)))
    other.execute("ROLLBACK")
    other.close()
    assert len(ledger.statement(DATASET).entries) == 5


def test_an_event_of_a_later_version_stops_every_spend(path):
    ledger = Ledger(path, key=KEY)
    row = {"entry": 99, "time": "", "dataset": DATASET, "query": "x", "unit": "row", "n": 1}
    later = {"partition": None, "cell": None, "mechanism": "X", "event": '{"kind": "new"}'}
    with Access(store_at(path), KEY).writing() as book:
        append(book, entries, [row | later | {"fingerprint": b"x", "facts": None}])
    for call in (
        lambda: ledger.release(LatticeLaplace(0.1), counts_query((9, 1))),
        lambda: ledger.statement(DATASET),
    ):
        with pytest.raises(LedgerError, match="not an event"):
            call()


def test_without_a_noise_source_nothing_is_paid(ledger, monkeypatch):
    monkeypatch.setitem(sys.modules, "privacy.noise", None)
    with pytest.raises(ImportError):
        ledger.release(LatticeLaplace(0.1), counts_query())
    with pytest.raises(ImportError):
        ledger.interact(Turnstile(0.1), counts_query(), question(1))
    assert ledger.statement(DATASET).entries == ()


def refusals(ledger):
    """Calls that fail, each with private values among its arguments."""
    private = counts_query((CANARY, 1))
    wrong = Query(DATASET, "counts", np.array([CANARY, 1]), Unit.ROW, n=4, l1=2.0)
    return [
        lambda: ledger.release(LatticeLaplace(5.0), private),
        lambda: ledger.release_all(
            LatticeLaplace(0.4), [private, counts_query((1, CANARY)), private]
        ),
        lambda: ledger.release(LatticeLaplace(0.9), counts_query((CANARY, 2))),
        lambda: ledger.release(LatticeLaplace(0.1), wrong),
        lambda: ledger.release(LatticeLaplace(0.1), counts_query((CANARY,))),
        lambda: ledger.release(LatticeLaplace(0.1), counts_query((CANARY, -1))),
        lambda: ledger.release(LatticeLaplace(0.1), counts_query((CANARY, 1), unit=Unit.TASK)),
        lambda: ledger.release(LatticeLaplace(0.1), counts_query((CANARY, 1), dataset="unknown")),
        lambda: ledger.interact(Turnstile(5.0), private, question(CANARY)),
        lambda: ledger.interact(Turnstile(0.1), private, question(-CANARY)),
        lambda: ledger.interact_all(Turnstile(0.1), private, [question(1), question(-CANARY)]),
        lambda: ledger.afford([(LatticeLaplace(5.0), private)]),
        lambda: Query(DATASET, "x", np.array([str(CANARY)]), Unit.ROW, n=1, l1=1.0),
    ]


def wrong_types(ledger):
    """Calls that fail for a type, each with private values among its arguments."""
    return [
        lambda: ledger.release(None, counts_query((CANARY, 1))),
        lambda: ledger.release(LatticeLaplace(0.1), np.array([CANARY, 1])),
        lambda: ledger.interact(Turnstile(0.1), (CANARY, 1), question(1)),
        lambda: Query(DATASET, "x", {"x": [CANARY]}, Unit.ROW, n=1, l1=1.0),
    ]


@pytest.mark.parametrize("calls", [refusals, pytest.param(wrong_types, marks=pytest.mark.refusal)])
def test_no_refusal_tells_a_private_value(ledger, calls):
    ledger.release(Mortal(0.5), rows_query([[float(CANARY)]]))
    for call in calls(ledger):
        with pytest.raises((ValueError, TypeError, RuntimeError)) as refused:
            call()
        chain = refused.value
        while chain is not None:
            assert str(CANARY) not in str(chain) + repr(chain)
            chain = chain.__context__


def test_the_file_holds_no_private_value(tmp_path, ledger):
    """Of rows, of counts, of questions asked one by one and at once, in any row or page."""
    query = rows_query([[float(CANARY)]])
    ledger.release(Mortal(0.25), query)
    ledger.release(Mortal(0.25), counts_query((CANARY, 1)))
    asked = [Question(f"question {k}", {"x": np.full(3, CANARY + 0.5)}) for k in range(3)]
    ledger.interact(Turnstile(0.25), query, asked[0])
    ledger.interact_all(Turnstile(0.25), query, asked)
    content = b"".join(path.read_bytes() for path in tmp_path.glob("ledger.sqlite*"))
    assert b"question 2" in content
    for value in (query.value["x"], asked[0].value["x"], np.array([CANARY, 1])):
        assert value.tobytes() not in content
    assert str(CANARY).encode() not in content


def test_fingerprints_are_keyed(tmp_path):
    """The same release under two keys leaves different fingerprints."""
    found = set()
    for number in range(2):
        folder = tmp_path / str(number)
        folder.mkdir()
        ledger = Ledger(folder / "ledger.sqlite", key=bytes([number]) * 32)
        ledger.open_budget(DATASET, unit=Unit.ROW, epsilon=1.0, delta=0.0, n=4)
        ledger.release(Mortal(0.5), rows_query([[1.0]]))
        connection = sqlite3.connect(folder / "ledger.sqlite")
        found.add(connection.execute("SELECT fingerprint FROM entries").fetchone())
        connection.close()
    assert len(found) == 2


@pytest.mark.refusal
def test_an_event_that_cannot_be_stored_is_refused_before_it_is_paid(ledger):
    class Odd(Mortal):
        def event(self, query):
            return PureEvent("odd", 0.1).cost()

    with pytest.raises(ValueError, match="KINDS"):
        ledger.release(Odd(0.1), counts_query())
    assert ledger.statement(DATASET).entries == ()


@pytest.mark.refusal
@pytest.mark.parametrize("query", [None, "counts", np.array([3, 1])])
def test_a_query_is_one(ledger, query):
    sentence = f"query must be a Query, got {type(query).__name__}"
    with pytest.raises(TypeError, match=sentence):
        ledger.release(LatticeLaplace(0.1), query)
    with pytest.raises(TypeError, match=sentence):
        ledger.afford([(LatticeLaplace(0.1), query)])
    assert ledger.statement(DATASET).entries == ()


@pytest.mark.refusal
@pytest.mark.parametrize(("what", "given"), [("epsilon", "1"), ("epsilon", None), ("delta", "0")])
def test_a_budgets_numbers_are_no_texts(ledger, what, given):
    numbers = {"epsilon": 1.0, "delta": 0.0, what: given}
    sentence = f"{what} must be a number, got {type(given).__name__}"
    with pytest.raises(TypeError, match=sentence):
        ledger.open_budget("another", unit=Unit.ROW, n=4, **numbers)
    with pytest.raises(TypeError, match=sentence):
        ledger.change_budget(DATASET, **numbers)
    assert ledger.datasets() == (DATASET,)


@pytest.mark.refusal
def test_a_budget_is_of_any_kind_of_number(ledger):
    for name, epsilon in (
        ("a", 2),
        ("b", Fraction(1, 3)),
        ("c", Decimal("0.3")),
        ("d", np.float32(0.5)),
    ):
        ledger.open_budget(name, unit=Unit.ROW, epsilon=epsilon, delta=0, n=4)
        assert ledger.statement(name).budget.epsilon == Fraction(str(epsilon))


@pytest.mark.refusal
@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda a, m, q: a.release_all(m, q), "queries must be a list, got Query"),
        (lambda a, m, q: a.release_all(m, 3), "queries must be a list, got int"),
        (lambda a, m, q: a.release_all(q, m), "mechanism must draw, got Query"),
        (lambda a, m, q: a.release_all(m, [q, m]), "query must be a Query, got LatticeLaplace"),
        (lambda a, m, q: a.release(type(m), q), "must be one with its price, got LatticeLaplace"),
        (lambda a, m, q: a.afford([(3, q)]), "mechanism must be one with its price, got int"),
        (lambda a, m, q: a.afford(m), "requests must be a list, got LatticeLaplace"),
        (lambda a, m, q: a.afford([m]), "each of requests must be a mechanism and a query, got La"),
        (lambda a, m, q: a.afford([(m, q, 1)]), "requests must be a mechanism and a query, got tu"),
        (lambda a, m, q: a.afford([(m, q)], plans=3), "plans must be a list, got int"),
        (lambda a, m, q: a.afford([], plans=[3]), "must be a data set, a plan and a name, got int"),
        (lambda a, m, q: a.interact(Turnstile(0.1), q, "x"), "must be Question objects, got str"),
        (lambda a, m, q: a.interact_all(Turnstile(0.1), q, 3), "questions must be a list, got int"),
        (lambda a, m, q: a.lacking([1]), "heads must be Head objects, got int"),
        (lambda a, m, q: a.lacking(a.head()), "heads must be a list, got Head"),
        (lambda a, m, q: Ledger(3, key=KEY), "a ledger must be at a path or URL, got int"),
    ],
)
def test_what_is_of_another_kind_is_told_in_a_sentence_and_pays_nothing(ledger, call, sentence):
    with pytest.raises(TypeError, match=sentence):
        call(ledger, LatticeLaplace(0.1), counts_query())
    assert ledger.statement(DATASET).n_entries == 0


@pytest.mark.refusal
def test_what_is_asked_for_may_come_one_by_one(ledger):
    asked = (counts_query(counts) for counts in ((3, 1), (2, 2)))
    assert len(ledger.release_all(LatticeLaplace(0.1), asked)) == 2
    assert ledger.lacking(iter([ledger.head()])) == ()
    ledger.afford((LatticeLaplace(0.1), query) for query in [counts_query((1, 3))])


@pytest.mark.refusal
@pytest.mark.parametrize(
    ("knobs", "sentence"),
    [
        ({"unit": "person"}, "unit must be one of consensus label, row, .* got unit='person'"),
        ({"unit": ["row"]}, r"unit must be one of .* got unit=\['row'\]"),
        ({"n": "4"}, "n must be an integer .* got n='4'"),
    ],
)
def test_a_budget_that_is_written_wrongly_is_told_what_it_may_be(ledger, knobs, sentence):
    with pytest.raises(ValueError, match=sentence):
        ledger.open_budget(
            "another", **{"unit": Unit.ROW, "epsilon": 1.0, "delta": 0.0, "n": 4} | knobs
        )
    assert ledger.datasets() == (DATASET,)
