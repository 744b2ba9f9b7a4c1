"""Plans in the ledger: paid once, drawn from slot by slot, and never more than was paid for."""

import math
import pickle
import random
import re
import secrets
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from sqlalchemy import make_url

import privacy.accounting.plans
import privacy.ledger.ledger
from privacy import (
    BudgetError,
    Cost,
    LatticeLaplace,
    LedgerError,
    Part,
    PlanEvent,
    PlannedEvent,
    PureEvent,
    Unit,
    choose_mechanism,
    plan,
)
from privacy.accounting import event_json
from privacy.ledger.records import read_events
from privacy.ledger.releasing import PlanPayment
from privacy.ledger.spending import PlanError, kinds_of, limit_of
from privacy.query import UnitError
from tests.privacy.ledger.processes import die_everywhere
from tests.privacy.ledger.test_postgres import SERVER, administer
from tests.privacy.ledger.test_records import tamper
from tests.privacy.toy import DATASET, Mortal, Turnstile, counts_query, open_toy, question

NOISE = LatticeLaplace(0.2)
THREE = plan({NOISE.event(counts_query()): 3}, delta=0.0)
NORTH, SOUTH = Part("site:1", "north"), Part("site:1", "south")
LATER = Part("site:2", "north")  # the same group, after tasks have joined


@dataclass(frozen=True)
class Cheat:
    """A mechanism that claims to be paid by a plan."""

    claim: PlanEvent | PlannedEvent

    def event(self, query):
        return self.claim

    def draw(self, query, noise):
        return [3, 1]

    def check(self, query, question):
        """Take any question."""

    def start(self, query, noise):
        return None

    def answer(self, state, question, noise):
        return None, [3, 1]


def spent(ledger):
    return ledger.statement(DATASET).spent.epsilon


AMOUNTS = re.compile(r"(asked|left|spent|of) epsilon=([^,]+), delta=(\S+?)[;. ]")


@pytest.mark.long
def test_a_refusal_writes_exact_sums_and_never_less_asked_than_is_left():
    """20,000 random budgets, of decimals and of thirds; what has more than twelve digits is rounded."""
    rng = random.Random(0)
    for _ in range(20_000):
        step = Fraction(1, rng.choice([10, 1000, 10**9, 3, 7 * 10**15]))
        budget, spent = (rng.randrange(1, 10**4) * step for _ in range(2))
        left = budget - min(spent, budget)
        asked = left + rng.randrange(1, 4) * step
        amounts = {"asked": asked, "left": left, "spent": budget - left, "of": budget}
        costs = (Cost(one, Fraction(0)) for one in (budget, budget - left, asked))
        told = AMOUNTS.findall(str(BudgetError("toy", Unit.ROW, *costs)))
        shown = {name: Fraction(epsilon) for name, epsilon, delta in told if delta == "0"}
        if 10**9 % step.denominator == 0:
            assert shown == amounts
        assert shown["left"] <= left < asked <= shown["asked"]
        assert shown["of"] <= budget
        assert shown["spent"] >= budget - left


@pytest.fixture
def entry(ledger):
    return ledger.open_plan(DATASET, THREE, name="monthly counts")


def test_no_mechanism_pays_for_a_plan_or_names_one_itself(ledger, entry):
    slot = PlannedEvent(entry, THREE.events[0][0])
    before = ledger.statement(DATASET)
    for cheat in (Cheat(slot), Cheat(THREE), PlanPayment(THREE)):
        for ask in (
            lambda mechanism: ledger.release(mechanism, counts_query()),
            lambda mechanism: ledger.release(mechanism, counts_query(), plan=entry),
            lambda mechanism: ledger.afford([(mechanism, counts_query())]),
        ):
            with pytest.raises(TypeError, match="must be of a kind that draws noise"):
                ask(cheat)
    with pytest.raises(TypeError, match="must be of a kind that draws noise"):
        ledger.interact(Cheat(slot), counts_query(), question(1))
    assert ledger.statement(DATASET) == before


@pytest.mark.refusal
def test_what_pays_for_a_plan_draws_nothing():
    with pytest.raises(TypeError, match="draws nothing"):
        PlanPayment(THREE).draw(counts_query(), None)


def test_a_plan_is_paid_once_by_its_composed_cost(ledger):
    sixteen = plan({PureEvent("toy", 0.05): 16}, delta=1e-6)
    ledger.change_budget(DATASET, epsilon=1.0, delta=1e-6)
    first = ledger.open_plan(DATASET, sixteen, name="a")
    assert ledger.open_plan(DATASET, sixteen, name="a") == first
    assert spent(ledger) == sixteen.cost().epsilon < Fraction(16, 20)
    with pytest.raises(BudgetError):  # another name, another plan
        ledger.open_plan(DATASET, sixteen, name="b")
    ledger.verify()


def test_planned_releases_cost_nothing_more_and_end_with_the_slots(ledger, entry):
    for size in (3, 4, 5):
        release = ledger.release(NOISE, counts_query((size, 1)), plan=entry)
        assert release.fresh
        assert sum(release.value) == size + 1
    assert spent(ledger) == Fraction("0.6")
    before = ledger.statement(DATASET)
    with pytest.raises(PlanError, match=f"plan {entry} of 'toy' was for 3 releases") as refused:
        ledger.release(NOISE, counts_query((6, 1)), plan=entry)
    assert (refused.value.dataset, refused.value.plan, refused.value.n_slots) == (DATASET, entry, 3)
    assert str(pickle.loads(pickle.dumps(refused.value))) == str(refused.value)
    assert ledger.statement(DATASET) == before
    assert ledger.release(NOISE, counts_query((6, 1))).fresh  # paid by itself
    assert spent(ledger) == Fraction("0.8")


@pytest.mark.refusal
def test_a_plans_number_may_be_numpys_and_is_a_whole_one(ledger, entry):
    assert ledger.release(NOISE, counts_query(), plan=np.int64(entry)).fresh
    assert ledger.statement(DATASET).plans[0].used == 1
    for number in (float(entry), str(entry), True, np.float64(entry)):
        with pytest.raises(ValueError, match="plan must be the number of an entry, got plan="):
            ledger.release(NOISE, counts_query((5, 5)), plan=number)


def test_the_same_request_again_uses_no_slot(ledger, entry):
    first = ledger.release(NOISE, counts_query(), plan=entry)
    again = [ledger.release(NOISE, counts_query(), plan=entry) for _ in range(5)]
    assert {(one.entry, tuple(one.value)) for one in again} == {(first.entry, tuple(first.value))}
    assert not any(one.fresh for one in again)
    assert ledger.statement(DATASET).plans[0].used == 1
    assert not ledger.release(NOISE, counts_query()).fresh  # nor is it paid again without the plan


def test_what_was_paid_by_itself_is_returned_and_uses_no_slot(ledger, entry):
    paid = ledger.release(NOISE, counts_query())
    assert ledger.release(NOISE, counts_query(), plan=entry).entry == paid.entry
    assert ledger.statement(DATASET).plans[0].used == 0


def test_cells_of_a_partition_use_slots_in_parallel_and_partitions_add_up(ledger, entry):
    def ask(part, *sizes):
        queries = [counts_query((size, 1), part=part) for size in sizes]
        return ledger.release_all(NOISE, queries, plan=entry)

    ask(NORTH, 1, 2)
    ask(SOUTH, 1, 2)
    assert ledger.statement(DATASET).plans[0].used == 2
    ask(LATER, 1)
    with pytest.raises(PlanError):
        ask(LATER, 2)
    with pytest.raises(PlanError):
        ask(NORTH, 3)
    assert ledger.statement(DATASET).plans[0].used == 3


def test_planned_releases_are_all_drawn_or_none(ledger, entry):
    with pytest.raises(PlanError):
        ledger.release_all(NOISE, [counts_query((n, 1)) for n in range(1, 5)], plan=entry)
    assert ledger.statement(DATASET).plans[0].used == 0
    ledger.release_all(NOISE, [counts_query((n, 1)) for n in range(1, 4)], plan=entry)


def test_any_number_of_threads_use_no_more_slots_than_were_paid_for(ledger, entry):
    def ask(size):
        try:
            ledger.release(NOISE, counts_query((size, 1)), plan=entry)
        except PlanError:
            return False
        return True

    with ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(ask, range(1, 13))) == 3


def test_a_plan_is_for_its_own_noise_its_own_data_set_and_its_own_unit(ledger, entry):
    other = counts_query(dataset="other")
    ledger.open_budget("other", unit=Unit.CONSENSUS_LABEL, epsilon=1.0, delta=0.0, n=4)
    asked = [
        (LatticeLaplace(0.1), counts_query(), entry, PlanError, "was for 0 releases of this kind"),
        (NOISE, other, entry, LedgerError, "must be the number of an entry that paid for a plan"),
        (NOISE, counts_query(), 99, LedgerError, "paid for a plan of 'toy', got plan=99"),
        (NOISE, counts_query(unit=Unit.TASK), entry, UnitError, "does not cover"),
        (NOISE, counts_query(), 0, ValueError, "plan must be the number of an entry"),
        (NOISE, counts_query(), True, ValueError, "plan must be the number of an entry"),
    ]
    for mechanism, query, number, kind, told in asked:
        with pytest.raises(kind, match=told):
            ledger.release(mechanism, query, plan=number)
    plain = ledger.release(NOISE, counts_query((1, 1)))
    with pytest.raises(LedgerError, match=f"got plan={plain.entry}; nothing was spent"):
        ledger.release(NOISE, counts_query(), plan=plain.entry)
    assert ledger.statement(DATASET).plans[0].used == 0


@pytest.mark.refusal
def test_a_plan_must_be_one(ledger):
    with pytest.raises(TypeError, match="plan must be a PlanEvent, got dict"):
        ledger.open_plan(DATASET, {NOISE.event(counts_query()): 3}, name="counts")


def test_affording_knows_plans_that_are_not_paid_yet(ledger):
    asked = [(LatticeLaplace(0.5), counts_query())]
    with pytest.raises(BudgetError):
        ledger.afford(asked, plans=[(DATASET, THREE, "monthly counts")])
    ledger.afford(asked[:0], plans=[(DATASET, THREE, "monthly counts")])
    assert spent(ledger) == 0
    ledger.open_plan(DATASET, THREE, name="monthly counts")
    ledger.afford(
        [(LatticeLaplace(0.4), counts_query())], plans=[(DATASET, THREE, "monthly counts")]
    )


def test_a_statement_tells_the_plan_its_use_and_what_it_paid_for(ledger, entry):
    ledger.release(NOISE, counts_query(), plan=entry)
    ledger.interact(Turnstile(0.1), counts_query(), question(1))
    found = ledger.statement(DATASET)
    paid, drawn, other = found.entries
    assert (paid.what, paid.mechanism, paid.cost.epsilon) == (
        "monthly counts",
        "PlanPayment",
        Fraction("0.6"),
    )
    assert (drawn.plan, drawn.cost.epsilon, drawn.released) == (entry, 0, True)
    assert drawn.event == PlannedEvent(entry, event_json(NOISE.event(counts_query())))
    assert (paid.plan, other.plan) == (None, None)
    (use,) = found.plans
    assert (use.entry, use.name, use.plan, use.used, use.n_releases) == (
        entry,
        "monthly counts",
        THREE,
        1,
        3,
    )


def test_a_plan_that_was_paid_is_read_without_composing_it_again(ledger, entry, monkeypatch):
    monkeypatch.setattr(privacy.accounting.plans, "_realised", None)
    assert ledger.release(NOISE, counts_query((9, 1)), plan=entry).fresh
    told = ledger.statement(DATASET)
    assert [use.plan for use in told.plans] == [THREE]
    assert told.spent == THREE.cost()


@pytest.mark.parametrize("changed", ["event = replace(event, '0.6', '0.1')", "position = 'x'"])
def test_a_plan_whose_row_is_not_what_was_paid_is_refused_however_old(
    tmp_path, ledger, entry, monkeypatch, changed
):
    """What is taken without composing is checked by its own link, beyond the newest rows too."""
    monkeypatch.setattr(privacy.ledger.ledger, "NEWEST", 1)
    for size in range(1, 4):
        ledger.release(LatticeLaplace(0.01), counts_query((size, 1)))
    tamper(tmp_path / "ledger.sqlite", f"UPDATE entries SET {changed} WHERE entry = {entry};")
    for call in (
        lambda: ledger.statement(DATASET),
        lambda: ledger.release(NOISE, counts_query((9, 1)), plan=entry),
        lambda: ledger.release(NOISE, counts_query((9, 1))),
        lambda: ledger.change_budget(DATASET, epsilon=2.0, delta=0.0),
    ):
        with pytest.raises(LedgerError, match=f"damaged: .*entry {entry}"):
            call()


def test_a_plans_event_that_no_plan_paid_for_is_composed(ledger, entry, tmp_path):
    """A forged entry for a cell, where none is ever booked, has no row to be taken from."""
    tamper(
        tmp_path / "ledger.sqlite",
        "UPDATE entries SET partition = 'site:1', cell = 'north', "
        f"event = replace(event, '0.6', '0.1') WHERE entry = {entry};",
    )
    with ledger._access.writing() as book:
        kinds = kinds_of(book, DATASET)
        with pytest.raises(LedgerError, match="not an event this version understands"):
            read_events(book, DATASET, kinds)


def test_a_chosen_plans_slots_are_what_its_mechanism_draws(ledger):
    ledger.change_budget(DATASET, epsilon=4.0, delta=1e-6)
    choice = choose_mechanism(2, epsilon=4.0, delta=1e-6, n_releases=16)
    entry = ledger.open_plan(DATASET, choice.plan, name="class counts")
    for size in range(1, 17):
        ledger.release(choice.mechanism, counts_query((size, 1)), plan=entry)
    assert ledger.statement(DATASET).left.epsilon == 0


MORTAL = plan({PureEvent("mortal", 0.75): 1}, delta=0.0)


def open_and_ask(ledger):
    entry = ledger.open_plan(DATASET, MORTAL, name="one")
    return ledger.release(Mortal(0.75), counts_query(), plan=entry)


@pytest.mark.long
def test_no_death_leaves_a_slot_drawn_from_and_not_used(tmp_path):
    """Paid before its slot is taken, and the slot before the draw; asked again, never a second one."""

    def new_ledger(point):
        folder = tmp_path / str(point)
        folder.mkdir()
        open_toy(folder)
        return folder, folder / "log"

    for where, told in die_everywhere(open_and_ask, new_ledger):
        ledger = open_toy(where)
        found = ledger.statement(DATASET)
        commits = told.count("commit")
        assert found.spent.epsilon == (Fraction("0.75") if commits >= 1 else 0)
        assert sum(one.used for one in found.plans) == (1 if commits >= 2 else 0)
        if "_draw" in told:
            assert commits >= 2
        release = open_and_ask(ledger)
        assert release.fresh is not (commits == 3)
        assert release.value == open_and_ask(ledger).value
        assert (ledger.statement(DATASET).n_entries, spent(ledger)) == (2, Fraction("0.75"))
        ledger.verify()


@pytest.mark.skipif(SERVER is None, reason="CROWDASSAY_TEST_POSTGRES names no PostgreSQL server")
def test_a_server_books_plans_as_a_file_does():
    name = f"plans_{secrets.token_hex(6)}"
    administer(SERVER, f"CREATE DATABASE {name}")
    url = make_url(SERVER).set(database=name).render_as_string(hide_password=False)
    try:
        ledger = open_toy(url)
        entry = ledger.open_plan(DATASET, THREE, name="monthly counts")
        assert ledger.open_plan(DATASET, THREE, name="monthly counts") == entry

        def ask(size):
            try:
                ledger.release(NOISE, counts_query((size, 1), part=NORTH), plan=entry)
            except PlanError:
                return False
            return True

        with ThreadPoolExecutor(8) as threads:
            assert sum(threads.map(ask, range(1, 13))) == 3
        found = ledger.statement(DATASET)
        assert (found.spent.epsilon, found.n_entries, found.plans[0].used) == (
            Fraction("0.6"),
            4,
            3,
        )
        ledger.verify()
    finally:
        administer(SERVER, f"DROP DATABASE {name} WITH (FORCE)")


@pytest.mark.parametrize(
    ("numbers", "sentence"),
    [
        ((0.0, 0.0, 4), "epsilon must be > 0 and finite, got epsilon=0.0"),
        ((math.inf, 0.0, 4), "epsilon must be > 0 and finite, got epsilon=inf"),
        ((1.0, 0.25, 4), "delta must be >= 0 and < 1/n"),
        ((1.0, -1e-9, 4), "delta must be >= 0 and < 1/n"),
        ((1.0, math.nan, 4), "delta must be >= 0 and < 1/n"),
        ((1.0, 0.0, 0), "n must be"),
    ],
)
def test_a_limit_protects_something(numbers, sentence):
    assert limit_of(1.0, 0.249, 4) == Cost(Fraction(1), Fraction("0.249"))
    assert limit_of(1.0, 0.0, 1).delta == 0
    with pytest.raises(ValueError, match=sentence):
        limit_of(*numbers)


@pytest.mark.refusal
def test_a_limit_that_is_no_number_is_refused_as_a_decimal_too():
    """Decimals compare NaN by raising an error of their own."""
    assert limit_of(Decimal("0.1"), Decimal(0), 4).epsilon == Fraction(1, 10)
    for numbers, name in (((Decimal("NaN"), 0.0), "epsilon"), ((1.0, Decimal("NaN")), "delta")):
        with pytest.raises(ValueError, match=f"{name} must be a number, got {name}=NaN"):
            limit_of(*numbers, 4)


def test_a_refused_limit_is_told_rounded_down_and_what_is_spent_up(tmp_path):
    """Sixteen digits are shown in six: a budget is never shown larger than it is, nor a spend smaller."""
    ledger = open_toy(tmp_path, epsilon=0.6666666666666666)
    with pytest.raises(LedgerError) as refused:
        ledger.open_budget(
            DATASET, unit=Unit.CONSENSUS_LABEL, epsilon=0.3333333333333333, delta=0.0, n=4
        )
    assert "is epsilon=0.666666, delta=0 for" in str(refused.value)
    assert "got epsilon=0.333333, delta=0 for" in str(refused.value)
    ledger.release(LatticeLaplace(0.3333333333333333), counts_query())
    with pytest.raises(LedgerError) as refused:
        ledger.change_budget(DATASET, epsilon=0.2222222222222222, delta=0.0)
    assert "what is spent, epsilon=0.333334, delta=0, got epsilon=0.222222" in str(refused.value)


def test_refusals_survive_the_way_between_processes_however_they_were_made():
    nothing = Cost(Fraction(0), Fraction(0))
    numbers = {"budget": nothing, "spent": nothing, "asked": nothing}
    for error in (
        BudgetError(dataset="toy", unit=Unit.ROW, **numbers),
        PlanError(dataset="toy", plan=7, n_slots=4),
    ):
        assert str(pickle.loads(pickle.dumps(error))) == str(error)
