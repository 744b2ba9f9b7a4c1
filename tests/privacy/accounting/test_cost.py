import math
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privacy import (
    BudgetError,
    Cost,
    DiscreteLaplaceEvent,
    LatticeLaplaceEvent,
    Part,
    PureEvent,
    Unit,
)
from privacy.accounting import (
    SAFETY,
    Account,
    EventError,
    PlannedEvent,
    account_from,
    check_arithmetic,
    check_delta,
    cost,
    covering_scale,
    double_up,
    event_json,
    exact,
    fits,
    is_covered,
    parse_event,
    plan,
    price_text,
)
from privacy.accounting.cost import check_price, six_digits_down, six_digits_up
from privacy.mechanisms import DiscreteGaussianEvent

parts = st.one_of(
    st.none(), st.builds(Part, st.sampled_from(["site:1", "split:2"]), st.sampled_from("abc"))
)
entries = st.lists(st.tuples(parts, st.sampled_from([0.1, 0.25, 1.0])), max_size=20)


def composed(spent):
    """Oracle: sum outside partitions, plus, per partition, the largest sum over a cell."""
    total = sum((Fraction(str(e)) for part, e in spent if part is None), Fraction(0))
    for partition in {part.partition for part, _ in spent if part is not None}:
        cells = {part for part, _ in spent if part is not None and part.partition == partition}
        total += max(
            sum((Fraction(str(e)) for part, e in spent if part == cell), Fraction(0))
            for cell in cells
        )
    return Cost(total, Fraction(0))


@settings(max_examples=200, deadline=None, derandomize=True)
@given(entries)
def test_entries_add_up_and_disjoint_cells_cost_the_dearest(spent):
    account = Account()
    for part, epsilon in spent:
        account.add(part, Cost(Fraction(str(epsilon)), Fraction(0)))
    assert composed(spent) == account.spent


@settings(max_examples=100, deadline=None, derandomize=True)
@given(entries, st.randoms(use_true_random=False))
def test_the_order_does_not_matter_and_the_total_never_falls(spent, random):
    stored = [(part, event_json(PureEvent("toy", epsilon)), 1) for part, epsilon in spent]
    random.shuffle(stored)
    totals = [account_from(stored[:size]).spent.epsilon for size in range(len(stored) + 1)]
    assert composed(spent).epsilon == totals[-1]
    assert totals == sorted(totals)


def test_epsilon_and_delta_take_their_dearest_cells_apart():
    account = Account()
    account.add(Part("site:1", "a"), Cost(Fraction(1), Fraction(0)))
    account.add(Part("site:1", "b"), Cost(Fraction(0), Fraction(1, 8)))
    assert Cost(Fraction(1), Fraction(1, 8)) == account.spent


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    st.fractions(0, 10, max_denominator=1000),
    st.fractions(0, 1, max_denominator=1000),
    st.sampled_from(
        [
            PureEvent("toy", 0.1),
            PureEvent("third", "1/3"),
            DiscreteGaussianEvent(8.0, 0.05, 0.05),
            DiscreteGaussianEvent(8.0, 1.0, 0.001),
        ]
    ),
)
def test_so_many_fit_and_one_more_does_not(epsilon, delta, event):
    left = Cost(epsilon, delta)
    number = fits(left, event)
    assert number >= 0
    assert event.cost().times(number).within(left)
    assert not event.cost().times(number + 1).within(left)


def test_decimals_fit_exactly():
    left = Cost(exact(0.3), exact(0.15))
    assert fits(left, PureEvent("toy", 0.1)) == 3
    assert fits(left, DiscreteGaussianEvent(8.0, 0.05, 0.05)) == 3
    assert fits(Cost(exact(0.3), Fraction(0)), DiscreteGaussianEvent(8.0, 0.05, 0.05)) == 0


def test_no_number_of_releases_that_cost_nothing_is_the_most():
    planned = PlannedEvent(plan=1, event=event_json(PureEvent("toy", 0.1)))
    with pytest.raises(ValueError, match="slots_left"):
        fits(Cost(Fraction(1), Fraction(0)), planned)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.floats(1e-6, 1e3), st.integers(1, 10))
def test_the_scale_realises_at_most_the_claim_and_is_the_smallest_that_does(epsilon, moved):
    claim, l1 = Fraction(repr(epsilon)), 2 * moved
    scale = covering_scale(float(l1), epsilon)
    assert Fraction(l1) / Fraction(scale) <= claim
    assert Fraction(l1) / Fraction(math.nextafter(scale, 0.0)) > claim
    assert DiscreteLaplaceEvent(scale, float(l1), epsilon).cost().epsilon == claim


@pytest.mark.parametrize("epsilon", [0.0, -0.1, math.nan, math.inf, 1e-13])
def test_no_scale_covers_a_claim_that_is_none(epsilon):
    with pytest.raises(ValueError, match=r"epsilon|privacy parameter"):
        covering_scale(2.0, epsilon)


@pytest.mark.parametrize("l1", [0, -1.0, math.nan, math.inf, -math.inf])
def test_no_scale_covers_a_sensitivity_that_is_none(l1):
    with pytest.raises(ValueError, match=f"l1 must be > 0 and finite, got l1={l1}"):
        covering_scale(l1, 1.0)


@pytest.mark.parametrize("epsilon", [0.0, -0.5])
def test_a_claim_without_a_price_is_named(epsilon):
    with pytest.raises(ValueError, match=f"epsilon must be > 0, got epsilon={epsilon}"):
        covering_scale(2.0, epsilon)


@pytest.mark.parametrize(
    "number",
    [
        10**400,
        pytest.param(10**5000, id="digits"),
        "1e309",
        "1e999999999",
        "1e-999999999",
        "1/1e9",
        "nan",
        "-inf",
        "1/0",
        "one",
    ],
)
def test_a_parameter_beyond_doubles_is_no_finite_number(number):
    """Every price can be stored and printed; the sum of many that can is infinite at worst."""
    with pytest.raises(ValueError, match="a privacy parameter must be a finite number, got "):
        exact(number)
    assert double_up(2 * exact(1.7e308)) == math.inf


def test_costs_add_up_and_the_largest_counts_apart_for_epsilon_and_delta():
    one, other = Cost(Fraction(1), Fraction(1, 9)), Cost(Fraction(2), Fraction(0))
    assert Cost(Fraction(3), Fraction(1, 9)) == one + other
    assert Cost(Fraction(2), Fraction(1, 9)) == Cost.max((one, other))
    assert Cost(Fraction(0), Fraction(0)) == Cost.max(())
    assert not one.within(other)
    assert one.within(Cost.max((one, other)))


def test_a_cost_is_never_negative():
    with pytest.raises(ValueError, match=">= 0"):
        Cost(Fraction(1), Fraction(0)) - Cost(Fraction(2), Fraction(0))


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.fractions(Fraction(1, 10**9), 10**6))
def test_six_digits_are_on_the_side_they_are_named_for(number):
    down, up = exact(six_digits_down(number)), exact(six_digits_up(number))
    assert number * (1 - Fraction(1, 10**5)) <= down <= number <= up
    assert up <= number * (1 + Fraction(1, 10**5))
    assert six_digits_down(Fraction(0)) == six_digits_up(Fraction(0)) == 0.0


@pytest.mark.parametrize("number", [Fraction(10) ** 309, Fraction(sys.float_info.max)])
def test_beyond_the_largest_double_prices_are_infinite_and_rests_are_not(number):
    assert six_digits_up(number) == math.inf
    assert six_digits_down(number) == 1.79769e308
    assert (price_text(number), price_text(number, left=True)) == ("inf", "1.79769e+308")
    assert price_text(-number, left=True) == "-inf"


def test_a_request_that_no_double_holds_is_refused_in_a_sentence():
    one, two = Cost(exact(1e308), Fraction(0)), Cost(2 * exact(1e308), Fraction(0))
    refused = BudgetError("toy", Unit.ROW, budget=one, spent=Cost.max(()), asked=two)
    assert "asked epsilon=inf, delta=0 per row; left epsilon=1e+308, delta=0" in str(refused)


def test_no_price_is_rounded_to_nothing():
    tiny = Fraction(1, 10**330)
    assert six_digits_up(tiny) == 5e-324
    assert six_digits_down(tiny) == 0.0
    assert six_digits_down(Fraction(3, 10**324)) == 0.0  # whose nearest double is more
    assert exact(price_text(tiny)) >= tiny


@pytest.mark.long
def test_a_price_is_written_as_it_is_or_rounded_against_who_spends():
    """20,000 random sums of settings: equal to the exact sum where twelve digits write it, never below it."""
    rng, equal = np.random.default_rng(0), 0
    for _ in range(20_000):
        digits = int(rng.integers(1, 9))
        prices = [round(p, digits) for p in rng.uniform(0.0, 3.0, size=3).tolist()]
        total = sum((exact(p) for p in prices), Fraction(0)) / int(rng.choice([1, 1, 1, 7]))
        as_number = float(total)  # what files hold; read back as the decimal that it is written as
        for number in (total, as_number):
            spent, left = (Fraction(price_text(number, left=left)) for left in (False, True))
            assert left <= total <= spent
            assert spent - left <= max(total, 1) * Fraction(1, 10**5)
        if total * 10**8 == int(total * 10**8):
            assert spent == left == total
            equal += 1
    assert 14_000 < equal < 16_000


def test_what_is_below_zero_is_rounded_the_other_way():
    third = Fraction(-1, 3)
    assert (price_text(third), price_text(third, left=True)) == ("-0.333333", "-0.333334")
    assert price_text(0.0) == price_text(Fraction(0)) == "0"


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0.0, 0.1), (101.0, 0.1), (math.nan, 0.1), (1.0, 0.0), (1.0, 1.0)]
)
def test_a_price_with_a_delta_is_in_range(epsilon, delta):
    check_price(1.0, 0.1)
    with pytest.raises(ValueError, match=r"epsilon must be|delta must be"):
        check_price(epsilon, delta)


def test_a_claim_covers_what_is_realised_up_to_itself():
    check_delta(0.25, 0.25)
    check_delta(5e-324, 0.0)  # what is realised may be too small for a double
    for claim, realised in ((0.25, 0.26), (0.0, 0.0), (1.0, 0.5), (math.nan, 0.1), (0.5, math.nan)):
        with pytest.raises(ValueError, match=r"delta must be in \(0, 1\) and at least what"):
            check_delta(claim, realised)


def test_a_computed_delta_is_raised_by_a_millionth_before_it_is_compared():
    assert is_covered(0.5, 0.5 * SAFETY)
    assert not is_covered(0.5, 0.5)
    assert not is_covered(math.nan, 0.5)


def test_the_largest_scale_is_covered_and_none_beyond_it():
    assert covering_scale(2**40, 1.0) == 2.0**40
    with pytest.raises(ValueError, match=r"epsilon must be >= l1 / 2\*\*40, got epsilon=1.0"):
        covering_scale(2**40 + 1, 1.0)


@pytest.mark.parametrize("wrong", ["", "Exact", "float"])
def test_an_arithmetic_is_exact_or_double(wrong):
    for right in ("exact", "double"):
        check_arithmetic(right)
    with pytest.raises(ValueError, match='arithmetic must be "exact" or "double"'):
        check_arithmetic(wrong)


def test_the_table_of_events_is_set_once(monkeypatch):
    """As it is when the mechanisms are imported; setting the same table again changes nothing."""
    table = {"pure": PureEvent}
    monkeypatch.setattr(cost, "_classes", {})
    monkeypatch.setattr(cost, "_names", {})
    assert not cost.is_known(PureEvent("toy", 1.0))
    for _ in range(2):
        assert cost.close_kinds(table) == table
    event = PureEvent("toy", 1.0)
    assert cost.parse_event(event_json(event)) == event
    with pytest.raises(RuntimeError, match="the table of events is closed"):
        cost.close_kinds({"planned": PlannedEvent})
    assert not cost.is_known(PlannedEvent)


def test_only_an_event_of_the_table_is_written():
    class Cheaper(PureEvent):
        """Its own class could price it as it likes."""

    with pytest.raises(EventError, match="event must be of a kind in KINDS, got Cheaper"):
        event_json(Cheaper("toy", 1.0))


def test_no_number_is_written_that_json_does_not_know():
    event = PureEvent("toy", 1.0)
    event.parameters["scale"] = math.nan
    with pytest.raises(ValueError, match="JSON compliant"):
        event_json(event)


@pytest.mark.refusal
def test_an_event_is_one_however_its_numbers_are_written():
    """Whole numbers and NumPy's made another text of it, which is another payment."""
    written = event_json(LatticeLaplaceEvent(2.0, 2.0, n_classes=3, epsilon=1.0))
    for other in (
        LatticeLaplaceEvent(2, 2, n_classes=3, epsilon=1),
        LatticeLaplaceEvent(np.float32(2), np.int64(2), n_classes=np.int64(3), epsilon=np.int8(1)),
    ):
        assert event_json(other) == written
    written = event_json(PureEvent("toy", 1.0, {"n": 3, "of": [0.5, {"m": 2}]}))
    parameters = {"n": np.int64(3), "of": (np.float64(0.5), {"m": np.uint8(2)})}
    assert event_json(PureEvent("toy", 1, parameters)) == written
    assert event_json(plan({PureEvent("toy", 1): 1}, delta=0)) == event_json(
        plan({PureEvent("toy", 1.0): 1}, delta=0.0)
    )


@pytest.mark.refusal
def test_a_whole_number_that_no_double_holds_keeps_its_price():
    """Rounded to 2**53 it would have been booked for less than its noise realises."""
    odd = 2**53 + 1
    event = DiscreteLaplaceEvent(covering_scale(2.0, odd), 2.0, odd)
    assert parse_event(event_json(event)).cost() == event.cost() == Cost(Fraction(odd), Fraction(0))


@pytest.mark.refusal
def test_a_field_that_json_has_no_number_for_is_refused_in_a_sentence():
    third = DiscreteLaplaceEvent(6.0, 2.0, Fraction(1, 3))
    with pytest.raises(EventError, match="must be of texts and finite numbers: .*Fraction"):
        event_json(third)
