import itertools
import math
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privacy.accounting import event_json, parse_event
from privacy.accounting.composition import compose
from privacy.accounting.plans import PlanEvent, PlannedEvent, Slots, paid_plan, plan, slots_left
from privacy.mechanisms import (
    ApproximateEvent,
    DiscreteGaussianEvent,
    LatticeLaplaceEvent,
    PureEvent,
)
from privacy.query import Part

TOY = PureEvent("toy", 0.1)
ONE = event_json(TOY)
TWO = event_json(PureEvent("toy 2", 0.2))


def divergence(p, q, grown):
    """Hockey-stick divergence of order `grown` = e^epsilon, exact."""
    return sum((max(Fraction(0), p[o] - grown * q[o]) for o in p), Fraction(0))


def response(grown):
    """Laws of randomised response with e^epsilon = grown."""
    return {0: grown / (1 + grown), 1: 1 / (1 + grown)}, {
        0: 1 / (1 + grown),
        1: grown / (1 + grown),
    }


def in_clear(delta):
    """Laws of showing the secret with probability delta, and nothing else."""
    return {"P": delta, "Q": Fraction(0), "-": 1 - delta}, {
        "P": Fraction(0),
        "Q": delta,
        "-": 1 - delta,
    }


def chain(first, then):
    """Laws of a mechanism and the one that runs after each of its outcomes."""
    return tuple(
        {
            (a, b): first[side][a] * then(a)[side][b]
            for a in first[side]
            for b in then(a)[side]
        }
        for side in (0, 1)
    )  # fmt: skip


def test_composed_losses_do_not_hold_for_mechanisms_chosen_on_the_way():
    """An exact counterexample over finite outputs. After randomised response with e^eps = 2 either
    of two mechanisms keeps the whole within (ln 3, 1/4); chosen by the first answer it is 1/3."""
    first, grown, claim = response(Fraction(2)), Fraction(3), Fraction(1, 4)
    again, clear = response(Fraction(3)), in_clear(claim)
    for second in (again, clear):
        p, q = chain(first, lambda _, second=second: second)
        assert max(divergence(p, q, grown), divergence(q, p, grown)) == claim
    p, q = chain(first, lambda answer: again if answer == 0 else clear)
    assert divergence(p, q, grown) == Fraction(1, 3) > claim
    # adding up claims does hold: (ln 2, 0), then the larger of (ln 3, 0) and (0, 1/4)
    assert max(divergence(p, q, 6 * Fraction(1)), divergence(q, p, 6 * Fraction(1))) <= claim


def test_the_counterexample_is_one_of_this_accountant():
    first = PureEvent("first", math.log(2))
    again = compose({first: 1, PureEvent("again", math.log(3)): 1})
    shown = PlanEvent(((ONE, 1),), 1e-9 + 0.1, 0.25)  # any event with a delta of 1/4
    clear = compose({first: 1, shown: 1})
    assert again.delta(math.log(3)) == pytest.approx(1 / 4, rel=1e-6)
    assert clear.delta(math.log(3)) >= 1 / 4


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    st.lists(st.sampled_from([Fraction(3, 2), Fraction(2), Fraction(3)]), min_size=3, max_size=3),
    st.lists(
        st.sampled_from([Fraction(0), Fraction(1, 8), Fraction(1, 4)]), min_size=3, max_size=3
    ),
)
def test_adding_up_holds_for_mechanisms_chosen_on_the_way(growns, deltas):
    """First randomised response, then after each answer one mechanism of a claim of its own."""
    first = response(growns[0])

    def then(answer):
        return chain(response(growns[1 + answer]), lambda _: in_clear(deltas[1 + answer]))

    p, q = chain(first, then)
    grown, delta = growns[0] * max(growns[1:]), max(deltas[1:])
    assert max(divergence(p, q, grown), divergence(q, p, grown)) <= delta


def test_a_plan_of_a_fixed_bundle_costs_no_more_than_its_releases_one_by_one():
    lattice = LatticeLaplaceEvent(2.0, 2.0, 10, 1.0)
    planned = plan({lattice: 16, TOY: 5}, delta=1e-6)
    assert planned.cost().epsilon < 16.5
    assert planned.cost().delta == Fraction(1, 10**6)
    assert plan({lattice: 16, TOY: 5}, delta=0.0).cost().epsilon == Fraction(33, 2)
    assert plan({PureEvent("third", "1/3"): 1}, delta=0.0).epsilon == 0.333334


def test_a_plan_is_what_composition_realises_and_hardly_more():
    events = {DiscreteGaussianEvent(8.0, 0.05, 0.05): 4, TOY: 3}
    planned = plan(events, delta=0.05)
    composed = compose(events)
    assert composed.epsilon(0.05) <= planned.epsilon <= composed.epsilon(0.05) * (1 + 1e-4)


@pytest.mark.parametrize("factor", [0.9999, 0.5])
def test_a_claim_below_what_composition_realises_is_refused(factor):
    planned = plan({TOY: 100}, delta=1e-6)
    with pytest.raises(ValueError, match="realise"):
        PlanEvent(planned.events, planned.epsilon * factor, planned.delta)
    with pytest.raises(ValueError, match="realise"):
        PlanEvent(planned.events, planned.epsilon, planned.delta * factor)
    assert PlanEvent(planned.events, 2 * planned.epsilon, planned.delta).delta == planned.delta


def test_a_plan_survives_the_ledger():
    planned = plan({TOY: 3, PureEvent("other", 0.2): 1}, delta=1e-6)
    assert parse_event(event_json(planned)) == planned
    assert hash(parse_event(event_json(planned))) == hash(planned)


@pytest.mark.parametrize(
    ("events", "epsilon", "delta"),
    [
        ((), 1.0, 0.0),
        (((ONE, 1), (ONE, 1)), 1.0, 0.0),
        (((TWO, 1), (ONE, 1)), 1.0, 0.0),
        (((ONE, 0),), 1.0, 0.0),
        ((("{}", 1),), 1.0, 0.0),
        (((ONE.replace(" ", ""), 1),), 1.0, 0.0),
        (((ONE, 1),), 0.0, 0.0),
        (((ONE, 1),), 0.0, 0.5),  # which its delta alone would pay for
        (((ONE, 1),), math.nan, 0.0),
        (((ONE, 1),), 1.0, math.nan),
        (((ONE, 1),), 1.0, 1.0),
        (((ONE, 1),), 1.0, -0.1),
    ],
)
def test_what_is_no_plan_is_refused(events, epsilon, delta):
    with pytest.raises(ValueError, match=r"must|event"):
        PlanEvent(events, epsilon, delta)


def test_a_bundle_that_delta_alone_pays_for_is_a_plan():
    assert plan({PureEvent("toy", 0.001): 1}, delta=0.01).epsilon == 1e-6
    assert plan({PureEvent("toy", 1e-9): 1}, delta=0.01).epsilon == 1e-9
    tiny = ApproximateEvent("toy", 1e-9, 0.001)  # together less than the sum of their deltas
    assert plan({tiny: 10}, delta=0.00997).epsilon == 1e-6


@pytest.mark.refusal
def test_counts_are_integers_whatever_was_composed_before():
    """16.0 equals 16, and would find what was composed for it."""
    PlanEvent(((ONE, 16),), 1.6, 0.0)
    with pytest.raises(TypeError, match="integers"):
        PlanEvent(((ONE, 16.0),), 1.6, 0.0)


def test_plans_do_not_nest():
    planned = plan({TOY: 3}, delta=0.0)
    for event in (planned, PlannedEvent(1, ONE)):
        with pytest.raises(ValueError, match="draw noise"):
            PlanEvent(((event_json(event), 1),), 9.0, 0.0)
        with pytest.raises(ValueError, match="draw noise"):
            PlannedEvent(1, event_json(event))


@pytest.mark.refusal
@pytest.mark.parametrize("number", [0, -1, True, 1.0])
def test_a_planned_release_names_its_plan(number):
    with pytest.raises(ValueError, match="plan"):
        PlannedEvent(number, ONE)


def test_a_delta_that_is_just_the_claims_is_enough():
    claim = ApproximateEvent("toy", 0.1, 1e-6)
    assert plan({claim: 3}, delta=3e-6).epsilon == 0.3
    with pytest.raises(ValueError, match="delta must be larger"):
        plan({claim: 3}, delta=2.9e-6)


def test_a_delta_too_small_for_the_bundle_is_refused():
    gaussian = DiscreteGaussianEvent(8.0, 0.05, 0.05)
    for delta in (0.0, math.nan, 1.0):
        with pytest.raises(ValueError, match="delta"):
            plan({gaussian: 1}, delta=delta)
    for delta in (-0.1, math.nan, 1.0):
        with pytest.raises(ValueError, match="delta must be in"):
            plan({TOY: 1}, delta=delta)


@pytest.mark.parametrize(("epsilon", "count"), [(1e308, 2), (sys.float_info.max, 1)])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_epsilons_that_no_double_holds_together_are_refused(epsilon, count, delta):
    with pytest.raises(ValueError, match="must add up to a finite double"):
        plan({PureEvent("toy", epsilon): count}, delta=delta)
    assert plan({PureEvent("toy", 1e308): 1}, delta=delta).epsilon == 1e308


def test_a_plan_of_the_least_price_has_one():
    assert plan({PureEvent("toy", "1e-400"): 1}, delta=0.0).epsilon == 5e-324


parts = st.one_of(
    st.none(), st.builds(Part, st.sampled_from(["site:1", "split:2"]), st.sampled_from("abc"))
)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.integers(1, 4), st.lists(parts, max_size=25))
def test_no_task_is_touched_more_often_than_the_plan_has_slots(slots, wanted):
    """Oracle: a task is one cell of each partition; count what touches it. And nothing is refused
    that would leave every task within the slots."""
    planned, used = PlanEvent(((ONE, slots),), 0.1 * slots, 0.0), []

    def most(rows):
        tasks = itertools.product("abc", repeat=2)
        return max(
            sum(
                count
                for part, _, count in rows
                if part is None or part.name == {"site:1": a, "split:2": b}[part.partition]
            )
            for a, b in tasks
        )

    for part in wanted:
        left = slots_left(planned, used, ONE, part)
        assert most([*used, (part, ONE, left)]) <= slots
        assert most([*used, (part, ONE, left + 1)]) > slots
        if left > 0:
            used.append((part, ONE, 1))
    assert slots_left(planned, used, TWO, None) == 0


def test_other_events_use_other_slots():
    planned = PlanEvent(((ONE, 2), (TWO, 1)), 1.0, 0.0)
    used = [(None, TWO, 1)]
    assert slots_left(planned, used, ONE, None) == 2
    assert slots_left(planned, used, TWO, Part("site:1", "a")) == 0
    with pytest.raises(ValueError, match="counts"):
        slots_left(planned, [(None, ONE, -1)], ONE, None)


def slots_left_naively(total, used, part):
    """Slots of one event, by the definition: all tasks', and each partition's most used cell."""
    cells = {where: 0 for where, _ in used} | {None: 0, part: 0}
    for where, count in used:
        cells[where] += count
    partitions = {where.partition for where in cells if where is not None}
    fullest = {
        name: max(n for where, n in cells.items() if where is not None and where.partition == name)
        for name in partitions
    }
    if part is not None:
        fullest[part.partition] = cells[part]
    return max(0, total - cells[None] - sum(fullest.values()))


CELLS = [None, *(Part(f"p{i}:1", f"c{j}") for i in range(2) for j in range(2))]


@pytest.mark.long
@given(st.lists(st.tuples(st.sampled_from(CELLS), st.integers(0, 3)), max_size=8))
@settings(max_examples=50, deadline=None, derandomize=True)
def test_slots_counted_one_by_one_are_those_of_the_definition(used):
    slots = Slots(plan({TOY: 9}, delta=0.0))
    for part, count in used:
        slots.take(ONE, part, count)
    for part in CELLS:
        naive = slots_left_naively(9, used, part)
        assert slots.left(ONE, part) == naive
        assert (
            slots_left(plan({TOY: 9}, delta=0.0), [(p, ONE, n) for p, n in used], ONE, part)
            == naive
        )
    assert slots.left(ONE, None) == max(0, 9 - slots.used())
    assert (slots.total(ONE), slots.total(TWO)) == (9, 0)


def test_a_plan_is_exact_where_every_release_is():
    exact, double = LatticeLaplaceEvent(2.0, 2.0, 3, 1.0), PureEvent("toy", 0.1)
    assert plan({exact: 2}, delta=0.0).arithmetic == "exact"
    assert plan({double: 2}, delta=0.0).arithmetic == "double"
    assert plan({exact: 1, double: 1}, delta=0.0).arithmetic == "double"


def test_a_paid_plan_is_the_plan_that_was_paid():
    paid = plan({TOY: 3}, delta=1e-6)
    assert paid_plan(paid.events, paid.epsilon, paid.delta) == paid


@pytest.mark.refusal
def test_counts_of_numpy_are_counts_and_a_list_is_no_bundle():
    assert plan({TOY: np.int64(3)}, delta=0.0) == plan({TOY: 3}, delta=0.0)
    assert compose({TOY: np.uint8(200), PureEvent("toy 2", 0.1): np.uint8(100)}).n_releases == 300
    for bundle in (compose, lambda events: plan(events, delta=0.0)):
        with pytest.raises(TypeError, match="events must be a mapping .* got list"):
            bundle([TOY])
