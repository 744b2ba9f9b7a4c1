from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privacy import Cost, Part, PureEvent
from privacy.accounting.account import Account, account_from, fits
from privacy.mechanisms.kinds import DiscreteGaussianEvent, PlannedEvent, event_json, exact

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
