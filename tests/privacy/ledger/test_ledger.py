import copy
import importlib
import pickle
import sqlite3
import stat
import sys
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import privacy
from privacy import (
    BudgetError,
    DiscreteLaplace,
    LatticeLaplace,
    Ledger,
    LedgerError,
    Part,
    PureEvent,
    Unit,
)
from privacy.ledger.ledger import store_at
from privacy.ledger.records import Access
from tests.privacy.toy import (
    DATASET,
    KEY,
    Mortal,
    Turnstile,
    counts_query,
    open_toy,
    question,
    rows_query,
)

TABLES = ("about", "head", "budgets", "entries", "releases", "answers")
NORTH, SOUTH = Part("site:1", "north"), Part("site:1", "south")


def spent(ledger):
    return ledger.statement(DATASET).spent.epsilon


def test_the_same_request_is_paid_once_and_has_one_value(ledger, tmp_path):
    first = ledger.release(LatticeLaplace(0.6), counts_query())
    again = ledger.release(LatticeLaplace(0.6), counts_query())
    reopened = open_toy(tmp_path).release(LatticeLaplace(0.6), counts_query())
    assert first.value == again.value == reopened.value
    assert (first.fresh, again.fresh, reopened.fresh) == (True, False, False)
    assert first.entry == again.entry == reopened.entry
    assert Fraction("0.6") == spent(ledger)


@pytest.mark.parametrize(
    ("mechanism", "query"),
    [
        (LatticeLaplace(0.2), counts_query()),
        (DiscreteLaplace(0.1), counts_query()),
        (LatticeLaplace(0.1), counts_query((1, 3))),
        (LatticeLaplace(0.1), counts_query(np.array([3, 1], dtype=np.int32))),
        (LatticeLaplace(0.1), counts_query(part=NORTH)),
        (LatticeLaplace(0.1), counts_query(unit=Unit.ROW)),
    ],
)
def test_another_mechanism_or_other_data_is_another_payment(ledger, mechanism, query):
    ledger.release(LatticeLaplace(0.1), counts_query())
    before = spent(ledger)
    assert ledger.release(mechanism, query).fresh
    assert spent(ledger) > before


def test_ten_releases_at_a_tenth_fit_a_budget_of_one_and_no_eleventh(ledger):
    for size in range(1, 11):
        ledger.release(LatticeLaplace(0.1), counts_query((size, 1)))
    assert spent(ledger) == 1
    with pytest.raises(BudgetError):
        ledger.release(LatticeLaplace(1e-9), counts_query((11, 1)))


def test_cells_of_a_partition_cost_the_dearest_and_the_rest_adds_up(ledger):
    ledger.release(LatticeLaplace(0.3), counts_query(part=NORTH))
    ledger.release(LatticeLaplace(0.2), counts_query(part=SOUTH))
    assert spent(ledger) == Fraction("0.3")
    ledger.release(LatticeLaplace(0.2), counts_query((1, 3), part=SOUTH))
    assert spent(ledger) == Fraction("0.4")
    ledger.release(LatticeLaplace(0.1), counts_query(part=Part("site:2", "north")))
    assert spent(ledger) == Fraction("0.5")
    ledger.release(LatticeLaplace(0.1), counts_query())
    assert spent(ledger) == Fraction("0.6")


def test_a_refusal_tells_what_is_left_and_changes_nothing(ledger):
    ledger.release(LatticeLaplace(0.75), counts_query())
    before = ledger.statement(DATASET)
    with pytest.raises(BudgetError) as refused:
        ledger.release(LatticeLaplace(0.5), counts_query((1, 3)))
    error = refused.value
    assert (DATASET, Fraction("0.5"), Fraction("0.25"), Fraction("0.75"), 1) == (
        error.dataset,
        error.asked.epsilon,
        error.left.epsilon,
        error.spent.epsilon,
        error.budget.epsilon,
    )
    for told in ("'toy'", "asked epsilon=0.5", "left epsilon=0.25", "spent epsilon=0.75"):
        assert told in str(error)
    assert before == ledger.statement(DATASET)


def test_a_budget_error_survives_the_way_between_processes(ledger):
    with pytest.raises(BudgetError) as refused:
        ledger.release(LatticeLaplace(2.0), counts_query())
    assert str(pickle.loads(pickle.dumps(refused.value))) == str(refused.value)


def test_one_release_enters_at_most_eight_files(ledger):
    """Of this room's own, mechanism and noise included: a reader can follow a release to its end."""
    room, entered = str(Path(privacy.__file__).parent), set()

    def note(frame, event, argument):
        if event == "call" and frame.f_code.co_filename.startswith(room):
            entered.add(frame.f_code.co_filename.removeprefix(room))

    importlib.import_module("privacy.noise")
    before = sys.getprofile()
    sys.setprofile(note)
    try:
        ledger.release(LatticeLaplace(0.6), counts_query())
    finally:
        sys.setprofile(before)
    assert {"/ledger/ledger.py", "/ledger/sqlite.py", "/noise.py"} < entered
    assert len(entered) <= 8, sorted(entered)


def test_many_releases_are_all_paid_or_none(ledger):
    three = [counts_query((size, 1)) for size in (1, 2, 3)]
    with pytest.raises(BudgetError):
        ledger.release_all(LatticeLaplace(0.4), three)
    assert spent(ledger) == 0
    releases = ledger.release_all(LatticeLaplace(0.3), three)
    assert [sum(release.value) for release in releases] == [2, 3, 4]
    assert spent(ledger) == Fraction("0.9")
    ledger.release_all(LatticeLaplace(0.3), three)
    assert spent(ledger) == Fraction("0.9")


def test_a_query_that_is_asked_twice_in_one_call_is_paid_once(ledger):
    one, other = ledger.release_all(LatticeLaplace(0.6), [counts_query(), counts_query()])
    assert one.value == other.value
    assert one.entry == other.entry
    assert spent(ledger) == Fraction("0.6")


def test_nothing_asked_is_nothing_released(ledger):
    assert ledger.release_all(LatticeLaplace(0.6), []) == ()


def test_a_mechanism_without_batches_draws_one_by_one(ledger):
    releases = ledger.release_all(Mortal(0.1), [counts_query((1, 1)), counts_query((2, 1))])
    assert [int, int] == [type(release.value) for release in releases]


def test_what_can_be_afforded_together_is_told_without_paying(ledger):
    plan = [(LatticeLaplace(0.4), counts_query()), (DiscreteLaplace(0.6), counts_query())]
    ledger.afford(plan)
    assert spent(ledger) == 0
    ledger.release(LatticeLaplace(0.4), counts_query())
    ledger.afford(plan)
    with pytest.raises(BudgetError) as refused:
        ledger.afford([*plan, (DiscreteLaplace(0.1), counts_query())])
    assert refused.value.asked.epsilon == Fraction("0.7")
    assert spent(ledger) == Fraction("0.4")


def test_data_sets_are_accounted_apart(ledger):
    ledger.open_budget("other", unit=Unit.ROW, epsilon=1.0, delta=0.0, n=4)
    rows = rows_query([[1.0]], dataset="other")
    ledger.release(Mortal(0.9), rows)
    ledger.afford([(Mortal(0.9), counts_query()), (Mortal(0.9), rows)])
    with pytest.raises(BudgetError) as refused:
        ledger.afford([(Mortal(0.9), counts_query()), (Mortal(0.2), rows)])
    assert refused.value.dataset == "other"


def test_the_spend_is_durable_before_the_draw(tmp_path, ledger):
    @dataclass(frozen=True)
    class Looking:
        def event(self, query):
            return PureEvent("looking", 0.5)

        def draw(self, query, noise):
            entry = Ledger(tmp_path / "ledger.sqlite", key=KEY).statement(DATASET).entries[-1]
            return [entry.event.name, entry.released]

    assert ledger.release(Looking(), counts_query()).value == ["looking", False]


def test_a_draw_that_raises_stays_paid_and_is_drawn_under_the_same_payment(ledger):
    outcomes = iter([float("nan"), 7])

    @dataclass(frozen=True)
    class Failing:
        def event(self, query):
            return PureEvent("failing", 0.5)

        def draw(self, query, noise):
            return next(outcomes)

    with pytest.raises(ValueError, match="JSON"):
        ledger.release(Failing(), counts_query())
    assert spent(ledger) == Fraction("0.5")
    assert [entry.released for entry in ledger.statement(DATASET).entries] == [False]
    release = ledger.release(Failing(), counts_query())
    assert (release.value, release.fresh) == (7, True)
    assert spent(ledger) == Fraction("0.5")


def test_a_statement_tells_budget_entries_and_their_costs(ledger):
    ledger.release_all(LatticeLaplace(0.3), [counts_query(part=NORTH), counts_query(part=SOUTH)])
    ledger.release(DiscreteLaplace(0.2), counts_query())
    told = ledger.statement(DATASET)
    assert (1, Fraction("0.5"), Fraction("0.5")) == (
        told.budget.epsilon,
        told.spent.epsilon,
        told.left.epsilon,
    )
    assert [entry.part for entry in told.entries] == [NORTH, SOUTH, None]
    assert [e.mechanism for e in told.entries] == ["LatticeLaplace"] * 2 + ["DiscreteLaplace"]
    assert [Fraction("0.3")] * 2 + [Fraction("0.2")] == [e.cost.epsilon for e in told.entries]
    assert all(entry.released and entry.what == "class counts" for entry in told.entries)
    assert "dearest cell" in told.note
    assert told.entries[0].time == ledger.time_of(told.entries[0].entry)


def test_a_statement_can_list_the_newest_entries_alone(ledger):
    for size in range(1, 6):
        ledger.release(LatticeLaplace(0.1), counts_query((size, 1)))
    whole = ledger.statement(DATASET)
    for newest in (0, 2, 5, 9):
        told = ledger.statement(DATASET, entries=newest)
        assert whole.entries[5 - min(newest, 5) :] == told.entries
        assert (5, whole.spent, whole.left) == (told.n_entries, told.spent, told.left)
    for wrong in (-1, 2**80):
        with pytest.raises(ValueError, match="entries"):
            ledger.statement(DATASET, entries=wrong)


@pytest.mark.refusal
@pytest.mark.parametrize("entries", [1.0, 1.5, True, "1"])
def test_the_number_of_entries_to_list_is_an_integer(ledger, entries):
    with pytest.raises(
        ValueError, match=f"entries must be an integer >= 0 or None, got entries={entries}"
    ):
        ledger.statement(DATASET, entries=entries)


def test_opening_a_budget_again_changes_nothing_and_other_numbers_are_refused(ledger):
    same = {"unit": Unit.CONSENSUS_LABEL, "epsilon": 1.0, "delta": 0.0, "n": 4}
    ledger.open_budget(DATASET, **same)
    ledger.open_budget(DATASET, **(same | {"n": 400}))
    assert len(ledger.statement(DATASET).budgets) == 1
    for changed in ({"epsilon": 2.0}, {"delta": 1e-9}, {"unit": Unit.ROW}):
        with pytest.raises(LedgerError, match="change_budget"):
            ledger.open_budget(DATASET, **(same | changed))


def test_a_changed_budget_is_recorded_and_covers_what_is_spent(ledger):
    ledger.release(LatticeLaplace(0.8), counts_query())
    ledger.change_budget(DATASET, epsilon=2.0, delta=1e-6)
    with pytest.raises(LedgerError, match="cover"):
        ledger.change_budget(DATASET, epsilon=0.5, delta=0.0)
    told = ledger.statement(DATASET)
    assert [budget.limit.epsilon for budget in told.budgets] == [1, 2]
    assert (2, Fraction("1e-6")) == (told.budget.epsilon, told.budget.delta)
    with pytest.raises(ValueError, match="epsilon"):
        ledger.change_budget(DATASET, epsilon=float("nan"), delta=0.0)


@pytest.mark.parametrize(
    "changed",
    [
        {"epsilon": 0.0},
        {"epsilon": float("nan")},
        {"epsilon": float("inf")},
        {"delta": 0.25},
        {"delta": -1e-9},
        {"delta": float("nan")},
        {"delta": float("inf")},
        {"n": 0},
        {"n": 2**53 + 1},
        pytest.param({"n": 4.7}, marks=pytest.mark.refusal),
        pytest.param({"n": float("inf")}, marks=pytest.mark.refusal),
        pytest.param({"unit": "worker"}, marks=pytest.mark.refusal),
    ],
)
def test_a_budget_that_protects_nothing_is_refused(ledger, changed):
    """Acceptance A18: delta >= 1/n, NaN, infinity."""
    numbers = {"unit": Unit.ROW, "epsilon": 1.0, "delta": 0.0, "n": 4}
    with pytest.raises(ValueError, match=r"must|valid"):
        ledger.open_budget("other", **(numbers | changed))
    assert ledger.datasets() == (DATASET,)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "a\0b",
        "\ud800",
        pytest.param(7, marks=pytest.mark.refusal),
        pytest.param(None, marks=pytest.mark.refusal),
    ],
)
def test_a_data_set_has_a_name_that_a_database_keeps(ledger, name):
    with pytest.raises((TypeError, ValueError), match="dataset must be a text"):
        ledger.open_budget(name, unit=Unit.ROW, epsilon=1.0, delta=0.0, n=4)
    assert ledger.verify() == 1


def test_delta_is_below_one_over_n_of_every_query(tmp_path):
    ledger = open_toy(tmp_path, delta=0.2, n=4)
    ledger.release(LatticeLaplace(0.1), counts_query((3, 1)))
    with pytest.raises(LedgerError, match="1/n"):
        ledger.release(LatticeLaplace(0.1), counts_query((4, 1)))
    assert spent(ledger) == Fraction("0.1")


def test_a_row_guarantee_pays_from_a_label_budget_and_not_the_other_way(tmp_path, ledger):
    ledger.release(Mortal(0.1), rows_query([[1.0]], unit=Unit.ROW))
    ledger.open_budget("rows", unit=Unit.ROW, epsilon=1.0, delta=0.0, n=4)
    ledger.release(Mortal(0.1), rows_query([[1.0]], dataset="rows"))
    with pytest.raises(ValueError, match="does not cover"):
        ledger.release(LatticeLaplace(0.1), counts_query(dataset="rows"))
    assert ledger.statement("rows").spent.epsilon == Fraction("0.1")


def test_a_data_set_without_a_budget_releases_nothing(ledger):
    for call in (
        lambda: ledger.release(LatticeLaplace(0.1), counts_query(dataset="unknown")),
        lambda: ledger.statement("unknown"),
        lambda: ledger.change_budget("unknown", epsilon=1.0, delta=0.0),
    ):
        with pytest.raises(LedgerError, match="open_budget"):
            call()
    for entry in (0, 1, 2**80):
        with pytest.raises(LedgerError, match="entry"):
            ledger.time_of(entry)


def test_data_sets_are_told_sorted(ledger):
    ledger.open_budget("alpha", unit=Unit.ROW, epsilon=1.0, delta=0.0, n=4)
    assert ledger.datasets() == ("alpha", DATASET)


def test_what_does_not_draw_or_answer_is_refused_before_it_is_paid(ledger):
    @dataclass(frozen=True)
    class Eventful:
        def event(self, query):
            return PureEvent("eventful", 0.5)

    with pytest.raises(TypeError, match="draw"):
        ledger.release(Eventful(), counts_query())
    with pytest.raises(TypeError, match="answer"):
        ledger.interact(Eventful(), counts_query(), None)
    assert spent(ledger) == 0


@dataclass(frozen=True)
class Both(Turnstile):
    """An interaction that draws too: one payment would give both."""

    def draw(self, query, noise):
        return noise.discrete_laplace(1.0, 1)[0]


def test_what_draws_and_answers_is_refused_before_it_is_paid(ledger):
    for call in (
        lambda: ledger.release(Both(0.1), counts_query()),
        lambda: ledger.interact(Both(0.1), counts_query(), question(1)),
        lambda: ledger.afford([(Both(0.1), counts_query())]),
    ):
        with pytest.raises(
            TypeError, match="must draw values or answer questions, not both, got Both"
        ):
            call()
    assert ledger.statement(DATASET).n_entries == 0


def test_a_mechanisms_knobs_are_public_numbers_strings_and_tuples(ledger):
    @dataclass(frozen=True)
    class Knobs:
        knob: object

        def event(self, query):
            return PureEvent("knobs", 0.1)

        def draw(self, query, noise):
            return 1

    for knob in (None, True, 1, 0.5, "x", (1, ("a", 2.0)), Mortal(0.5)):
        ledger.release(Knobs(knob), counts_query())
    assert len(ledger.statement(DATASET).entries) == 7
    for knob in ([1], np.array([1]), {"a": 1}):
        with pytest.raises(TypeError, match="frozen dataclass"):
            ledger.release(Knobs(knob), counts_query())


def test_a_with_block_leaves_no_file_open(tmp_path):
    with open_toy(tmp_path) as ledger:
        ledger.release(LatticeLaplace(0.1), counts_query())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ledger.sqlite"]


def test_the_file_is_its_owners_alone_and_the_repr_has_no_key(tmp_path, ledger):
    mode = stat.S_IMODE((tmp_path / "ledger.sqlite").stat().st_mode)
    assert mode == 0o600
    assert repr(ledger) == f"Ledger({str(tmp_path / 'ledger.sqlite')!r})"


def test_a_ledger_is_shared_by_copies_and_its_key_does_not_travel(ledger):
    assert copy.deepcopy(ledger) is ledger
    assert copy.copy(ledger) is ledger
    pickled = pickle.dumps(ledger)
    assert KEY not in pickled
    with pytest.raises(TypeError, match="opened where it is used"):
        pickle.loads(pickled)


def test_commits_reach_the_disk(tmp_path, ledger):
    with Access(store_at(tmp_path / "ledger.sqlite"), KEY).writing() as book:
        assert book.connection.exec_driver_sql("PRAGMA synchronous").scalar_one() == 2
        assert book.connection.exec_driver_sql("PRAGMA journal_mode").scalar_one() == "wal"


@pytest.mark.parametrize(
    "statement",
    [
        *(f"DELETE FROM {table}" for table in TABLES),
        *(f"INSERT OR REPLACE INTO {table} SELECT * FROM {table}" for table in TABLES),
        "UPDATE entries SET event = '{}'",
        "UPDATE entries SET entry = 9",
        "UPDATE releases SET value = '[0]'",
        "UPDATE answers SET state = '1'",
        "UPDATE budgets SET epsilon = '9'",
        "UPDATE about SET key_digest = x'00'",
        "UPDATE head SET n_rows = n_rows - 1",
        "UPDATE head SET link = x'00'",
    ],
)
def test_nothing_in_the_file_is_deleted_or_overwritten(tmp_path, ledger, statement):
    ledger.release(LatticeLaplace(0.1), counts_query())
    ledger.interact(Turnstile(0.1), counts_query(), question(1))
    connection = sqlite3.connect(tmp_path / "ledger.sqlite")
    with pytest.raises(sqlite3.IntegrityError, match="the ledger only grows"):
        connection.execute(statement)
    connection.close()
