"""Publication keys: what a key promises about payment, draws and equality, attacked by its names.

Noise cannot be seeded; statistical tests have a false-alarm rate below 1e-6.
"""

import math
import os
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest

from privacy import (
    BudgetError,
    LatticeLaplace,
    LedgerError,
    Part,
    Publication,
    PureEvent,
    Question,
    plan,
)
from privacy.ledger.publication import Published, public_identity
from privacy.ledger.releasing import request_of
from tests.privacy.ledger.processes import die_everywhere, race
from tests.privacy.toy import (
    DATASET,
    Mortal,
    Turnstile,
    counts_query,
    ledger_at,
    open_toy,
    question,
    rows_query,
)

HALF = LatticeLaplace(epsilon=0.5)


def keyed(query, key="2026-11", terms="a, b"):
    return replace(query, publication=Publication(key, terms, facts=f"{query.n} tasks"))


def spent(ledger):
    return float(ledger.statement(DATASET).spent.epsilon)


def test_asking_again_under_a_key_returns_what_was_published_also_on_changed_data(tmp_path):
    ledger = open_toy(tmp_path)
    first = ledger.release(HALF, keyed(counts_query((3, 1))))
    same = ledger.release(HALF, keyed(counts_query((3, 1))))
    changed = ledger.release(HALF, keyed(counts_query((0, 4))))
    grown = ledger.release(HALF, keyed(counts_query((40, 2))))
    for again in (same, changed, grown):
        assert (again.value, again.entry, again.facts) == (first.value, first.entry, "4 tasks")
        assert not again.fresh
    assert [one.stale for one in (first, same, changed, grown)] == [False, False, True, True]
    assert spent(ledger) == 0.5


def test_another_key_is_paid_anew_also_on_unchanged_data(tmp_path):
    ledger = open_toy(tmp_path)
    entries = {ledger.release(HALF, keyed(counts_query(), key)).entry for key in ("10", "11")}
    assert len(entries) == 2
    with pytest.raises(BudgetError):
        ledger.release(HALF, keyed(counts_query(), "12"))
    assert [entry.what for entry in ledger.statement(DATASET).entries] == [
        "class counts, publication 10",
        "class counts, publication 11",
    ]


def test_a_key_is_known_apart_from_no_key(tmp_path):
    ledger = open_toy(tmp_path)
    ledger.release(HALF, counts_query())
    assert ledger.release(HALF, keyed(counts_query())).fresh
    assert not ledger.release(HALF, counts_query()).fresh
    assert spent(ledger) == 1.0


@pytest.mark.parametrize(
    "other",
    [
        (LatticeLaplace(0.25), keyed(counts_query())),
        (Mortal(0.5), keyed(counts_query())),
        (HALF, keyed(counts_query(), terms="b, a")),
        (HALF, replace(keyed(counts_query()), l1=3.0)),
    ],
    ids=["price", "mechanism", "terms", "sensitivity"],
)
def test_a_key_never_draws_twice_on_other_terms(tmp_path, other):
    ledger = open_toy(tmp_path)
    asked = HALF, keyed(counts_query())
    ledger.release(*asked)
    for call in (lambda: ledger.release(*other), lambda: ledger.afford([other])):
        with pytest.raises(
            LedgerError, match="publication 2026-11 of 'toy', was published already"
        ):
            call()
    ledger.release(asked[0], keyed(counts_query(), "2026-12"))
    (tmp_path / "new").mkdir()
    with pytest.raises(LedgerError, match="Give another publication key"):
        open_toy(tmp_path / "new", epsilon=4.0).afford([asked, other])


@pytest.mark.parametrize("together_first", [True, False])
def test_a_key_never_draws_all_together_and_each_apart(tmp_path, together_first):
    """As a run on grown data may ask: it would pay a second time, and what was published would change."""
    ledger = open_toy(tmp_path)
    forms = [
        [(HALF, keyed(counts_query()))],
        [(HALF, keyed(counts_query(part=Part("site:1", name)))) for name in ("n", "s")],
    ]
    first, other = forms if together_first else forms[::-1]
    for asked in first:
        ledger.release(*asked)
    paid = spent(ledger)
    for call in (lambda: ledger.release(*other[0]), lambda: ledger.afford(other)):
        with pytest.raises(LedgerError, match="publication 2026-11 of 'toy'.* published already"):
            call()
    assert spent(ledger) == paid
    assert not ledger.release(*first[0]).fresh


def test_cells_of_one_key_are_drawn_each_once(tmp_path):
    ledger = open_toy(tmp_path)
    north, south = (keyed(counts_query(part=Part("site:1", name))) for name in ("n", "s"))
    first = ledger.release(HALF, north)
    both = ledger.release_all(HALF, (north, south))
    assert [one.fresh for one in both] == [False, True]
    moved = replace(keyed(counts_query((1, 5))), part=Part("site:2", "n"))
    assert ledger.release(HALF, moved).value == first.value
    assert spent(ledger) == 0.5


def test_a_key_takes_a_slot_of_a_plan_and_no_second_one(tmp_path):
    ledger = open_toy(tmp_path)
    entry = ledger.open_plan(
        DATASET, plan({HALF.event(counts_query()): 2}, delta=0.0), name="two months"
    )
    for key, counts in (("10", (3, 1)), ("10", (2, 2)), ("11", (2, 2)), ("11", (2, 2))):
        ledger.release(HALF, keyed(counts_query(counts), key), plan=entry)
    with pytest.raises(LedgerError, match="none is left for this one"):
        ledger.release(HALF, keyed(counts_query(), "12"), plan=entry)
    stored = ledger.release(HALF, keyed(counts_query((0, 4)), "10"), plan=entry)
    assert (stored.event, stored.stale) == (HALF.event(counts_query()), True)
    (use,) = ledger.statement(DATASET).plans
    assert (use.used, spent(ledger)) == (2, 1.0)


@pytest.mark.long
def test_whether_two_publications_are_equal_shows_no_more_than_their_price(tmp_path):
    """The attack: 4,000 cells published twice, half of them changed by one label in between.

    Without keys a cell is equal if and only if it did not change. With keys an unchanged cell is
    equal as often as two independent draws are, P = sum of P(z)^2, within five standard errors.
    """
    n_cells, epsilon = 4000, 0.5
    ledger = open_toy(tmp_path, epsilon=4.0)
    parts = [Part("site:1", f"cell {j}") for j in range(n_cells)]

    def publish(key, day):
        counts = [(3, 1) if day == 1 or j % 2 else (2, 2) for j in range(n_cells)]
        queries = [counts_query(one, part=part) for one, part in zip(counts, parts, strict=True)]
        queries = queries if key is None else [keyed(query, key) for query in queries]
        return [one.value for one in ledger.release_all(LatticeLaplace(epsilon), queries)]

    def equal(one, other):
        same = np.array([a == b for a, b in zip(one, other, strict=True)])
        return same[1::2].mean(), same[::2].mean()

    unchanged, changed = equal(publish(None, 1), publish(None, 2))
    assert unchanged == 1.0 > 4 * changed
    unchanged, changed = equal(publish("1", 1), publish("2", 2))
    law = LatticeLaplace(epsilon).law(2)
    z = np.arange(-500, 501)
    weight = np.exp(-2 * np.abs(z) / law.scale)  # |z| + |-z| over the lattice of two classes
    collision = float(np.square(weight / weight.sum()).sum())
    error = math.sqrt(collision * (1 - collision) / (n_cells / 2))
    assert abs(unchanged - collision) < 5 * error
    assert changed > math.exp(-epsilon) * collision - 5 * error


def test_an_interaction_under_a_key_is_asked_by_name(tmp_path):
    ledger = open_toy(tmp_path)
    ask = ledger.interact
    first = ask(Turnstile(0.5), keyed(counts_query()), question(1))
    repeated = Question(question(1).name, {"x": 2.0})
    again = ask(Turnstile(0.5), keyed(counts_query((0, 9))), repeated)
    assert (again.value, again.fresh, again.stale) == (first.value, False, True)
    other = ask(Turnstile(0.5), keyed(counts_query()), Question("another", {"x": 1.0}))
    assert (other.value, other.entry) == (2, first.entry)
    with pytest.raises(LedgerError, match="was paid for 4 records, got 6"):
        ask(Turnstile(0.5), keyed(counts_query((5, 1))), Question("a third", {"x": 1.0}))
    assert ask(Turnstile(0.5), keyed(counts_query(), "12"), question(1)).value == 1
    assert spent(ledger) == 1.0


def die_in_the_draw(where, number, barrier, results):
    """Pay under a key, and die before anything is stored."""
    os.environ["TOY_DIES"] = "1"
    barrier.wait()
    results.put("dying")
    results.close()
    results.join_thread()
    ledger_at(where).release(Mortal(1.0), keyed(counts_query()))


def test_what_was_paid_under_a_key_and_not_drawn_is_drawn_for_the_same_records_alone(tmp_path):
    ledger = open_toy(tmp_path)
    assert race(tmp_path, die_in_the_draw, racers=1) == ["dying"]
    with pytest.raises(LedgerError, match="was paid for 4 records, got 7"):
        ledger.release(Mortal(1.0), keyed(counts_query((6, 1))))
    sizes = Publication("2026-11", "a, b", facts="2 and 2 tasks")
    with pytest.raises(LedgerError, match="or other cells or sizes"):
        ledger.release(Mortal(1.0), replace(counts_query(), publication=sizes))
    drawn = ledger.release(Mortal(1.0), keyed(counts_query((2, 2))))
    assert (drawn.fresh, spent(ledger)) == (True, 1.0)
    again, back = (
        ledger.release(Mortal(1.0), keyed(counts_query(one))) for one in ((2, 2), (3, 1))
    )
    assert [one.stale for one in (drawn, again, back)] == [
        False,
        False,
        True,
    ]  # by what was drawn from
    assert ledger.release(Mortal(1.0), keyed(counts_query((6, 1)))).value == drawn.value


def test_what_failed_in_the_draw_is_not_drawn_for_other_records_either(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError("no entropy")

    ledger = open_toy(tmp_path)
    with monkeypatch.context() as failing:
        failing.setattr(Mortal, "draw", fail)
        with pytest.raises(OSError, match="no entropy"):
            ledger.release(Mortal(1.0), keyed(counts_query()))
    with pytest.raises(LedgerError, match="was paid for 4 records, got 7"):
        ledger.release(Mortal(1.0), keyed(counts_query((6, 1))))
    assert ledger.release(Mortal(1.0), keyed(counts_query())).fresh


@dataclass(frozen=True)
class ByTheClass:
    """A mechanism whose price grows with the number of counts, which a key's identity leaves out."""

    epsilon: str

    def event(self, query):
        return PureEvent("by the class", str(Fraction(self.epsilon) * query.value.size))

    def draw(self, query, noise):
        return noise.discrete_laplace(1000.0, 1)[0]


def test_what_was_paid_and_not_drawn_is_not_drawn_at_another_price(tmp_path, monkeypatch):
    ledger, tenth = open_toy(tmp_path), ByTheClass("1/10")
    with monkeypatch.context() as failing:
        failing.setattr(ByTheClass, "draw", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            ledger.release(tenth, keyed(counts_query((3, 1))))
    with pytest.raises(
        LedgerError, match="was paid for with other noise or at another price; noth"
    ):
        ledger.release(tenth, keyed(counts_query((3, 1, 0))))
    assert ledger.release(tenth, keyed(counts_query((2, 2)))).fresh
    assert spent(ledger) == 0.2


def test_what_was_paid_by_a_slot_and_not_drawn_is_drawn_under_the_same_payment(
    tmp_path, monkeypatch
):
    ledger, query = open_toy(tmp_path), keyed(counts_query())
    entry = ledger.open_plan(DATASET, plan({Mortal(0.5).event(query): 1}, delta=0.0), name="month")
    with monkeypatch.context() as failing:
        failing.setattr(Mortal, "draw", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            ledger.release(Mortal(0.5), query, plan=entry)
    assert ledger.release(Mortal(0.5), query).fresh
    assert spent(ledger) == 0.5


def test_values_and_answers_of_classes_of_one_name_are_two_payments(tmp_path):
    ledger, query = open_toy(tmp_path), keyed(counts_query())
    drawing = type("Turnstile", (Mortal,), {"__qualname__": "Turnstile"})
    ledger.interact(Turnstile(0.5), query, question(1))
    with pytest.raises(LedgerError, match="was published already with another mechanism"):
        ledger.release(drawing(0.5), query)


def race_under_one_key(where, number, barrier, results):
    """Ask under the key that every process asks under, each on data of its own."""
    ledger = ledger_at(where)
    barrier.wait()
    release = ledger.release(Mortal(1.0), keyed(counts_query((4 - number, number))))
    results.put((release.value, release.fresh, release.stale))


def test_processes_that_race_under_one_key_pay_once_and_get_one_value(tmp_path):
    ledger = open_toy(tmp_path)
    found = race(tmp_path, race_under_one_key, racers=5)
    assert len({value for value, *_ in found}) == 1
    assert sum(fresh for _, fresh, _ in found) == 1
    assert all(
        stale is not fresh for _, fresh, stale in found
    )  # stale but for whose data were drawn
    assert ledger.statement(DATASET).n_entries == 1


def test_answers_are_stale_by_the_data_that_their_state_was_drawn_from(tmp_path, monkeypatch):
    ledger, paid, later = open_toy(tmp_path), keyed(counts_query()), keyed(counts_query((2, 2)))
    with monkeypatch.context() as failing:
        failing.setattr(Turnstile, "start", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            ledger.interact(Turnstile(0.5), paid, question(1))
    asked = [(later, 1), (later, 1), (later, 2), (paid, 1), (paid, 3), (later, 3)]
    found = [ledger.interact(Turnstile(0.5), query, question(x)) for query, x in asked]
    assert [one.stale for one in found] == [False, False, False, True, True, False]
    assert [one.fresh for one in found] == [True, False, True, False, True, False]
    assert spent(ledger) == 0.5


def test_no_repr_shows_whether_private_data_changed(tmp_path):
    ledger = open_toy(tmp_path)
    shown = [repr(ledger.release(HALF, keyed(counts_query(one)))) for one in ((3, 1), (2, 2))]
    assert shown[0] == shown[1]
    assert "fresh" not in shown[0]
    assert "stale" not in shown[0]


def test_no_digest_of_private_data_is_shown():
    request = request_of(HALF, keyed(counts_query()), key=bytes(32))
    shown = repr(request) + repr(Published(request.event, "", request.contents))
    for digest in (request.contents, request.fingerprint):
        assert repr(digest) not in shown


def release_under_a_key(ledger):
    ledger.release(Mortal(1.0), keyed(counts_query()))


@pytest.mark.long
def test_a_process_may_die_at_any_step_of_a_publication(tmp_path):
    """Another then completes it under the one payment, and what is stored stays."""

    def new_ledger(point):
        where = tmp_path / str(point)
        where.mkdir()
        open_toy(where)
        return where, where / "told"

    for where, _ in die_everywhere(release_under_a_key, new_ledger):
        ledger = ledger_at(where)
        first = ledger.release(Mortal(1.0), keyed(counts_query((1, 3))))
        assert ledger.release(Mortal(1.0), keyed(counts_query((4, 0)))).value == first.value
        assert (ledger.statement(DATASET).n_entries, spent(ledger)) == (1, 1.0)
        ledger.verify()


def test_rows_and_counts_that_stay_the_same_are_not_stale(tmp_path):
    ledger = open_toy(tmp_path)
    query = keyed(rows_query([[1.0], [2.0], [3.0], [4.0]]))
    ledger.release(Mortal(0.5), query)
    assert not ledger.release(Mortal(0.5), keyed(rows_query([[1.0], [2.0], [3.0], [4.0]]))).stale
    assert ledger.release(Mortal(0.5), keyed(rows_query([[1.0], [2.0], [3.0], [5.0]]))).stale


@pytest.mark.refusal
def test_a_query_without_a_key_has_no_public_identity():
    with pytest.raises(ValueError, match="must have a publication"):
        public_identity(counts_query(), {})


@pytest.mark.refusal
def test_a_key_must_be_a_text_that_every_database_keeps():
    with pytest.raises(ValueError, match="key must be a text"):
        Publication("")
    with pytest.raises(TypeError, match="key must be a text, got int"):
        Publication(202611)
    with pytest.raises(TypeError, match="terms and facts must be texts"):
        Publication("2026-11", "\0")
    with pytest.raises(TypeError, match="terms and facts must be texts"):
        Publication("2026-11", facts="\0")


def test_a_ledger_set_back_whole_lacks_the_heads_of_what_it_lost(tmp_path):
    """The rollback: the file is replaced by an earlier copy, and then spent from again."""
    ledger = open_toy(tmp_path, epsilon=4.0)
    heads = [ledger.head()]
    ledger.release(HALF, counts_query())
    heads.append(ledger.head())
    ledger.backup(tmp_path / "copy.sqlite")
    ledger.release(HALF, counts_query((2, 2)))
    heads.append(ledger.head())
    assert [one.n_rows for one in heads] == [1, 3, 5]
    assert ledger.lacking(heads) == ()
    for left in tmp_path.glob("ledger.sqlite*"):
        left.unlink()
    (tmp_path / "copy.sqlite").rename(tmp_path / "ledger.sqlite")
    back = ledger_at(tmp_path)
    assert back.verify() == 3
    assert back.lacking(heads) == (heads[2],)
    back.release(HALF, counts_query((1, 3)))
    back.release(HALF, counts_query((0, 4)))
    assert back.head().n_rows > heads[2].n_rows
    assert back.lacking(heads) == (heads[2],)
    other = tmp_path / "other"
    other.mkdir()
    assert open_toy(other).lacking(heads) == tuple(heads)


def race_to_add(where, number, barrier, results):
    """Spend from a data set of one's own, and note the heads met on the way."""
    ledger = ledger_at(where)
    barrier.wait()
    name = f"campaign {number}"
    ledger.open_budget(name, unit=counts_query().unit, epsilon=2.0, delta=0.0, n=4)
    heads = []
    for size in range(3):
        ledger.release(HALF, counts_query((size, 4), dataset=name))
        heads.append(ledger.head())
    results.put(heads)


def test_no_head_is_lacking_where_campaigns_share_a_ledger(tmp_path):
    ledger = open_toy(tmp_path)
    found = [head for heads in race(tmp_path, race_to_add, racers=4) for head in heads]
    assert len(found) == 12
    assert ledger.lacking(found) == ()


def test_what_was_paid_and_not_drawn_is_known_by_its_own_values_alone(tmp_path, monkeypatch):
    """Other entries have been drawn; that this one has not is seen all the same."""
    ledger = open_toy(tmp_path)
    ledger.release(Mortal(0.2), counts_query())
    with monkeypatch.context() as failing:
        failing.setattr(Mortal, "draw", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            ledger.release(Mortal(0.5), keyed(counts_query()))
    with pytest.raises(LedgerError, match="was paid for 4 records, got 7"):
        ledger.release(Mortal(0.5), keyed(counts_query((6, 1))))
