import dataclasses
import itertools
import math
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privacy.accounting import Cost, Loss, PlanEvent, PlannedEvent, event_json, loss_of
from privacy.accounting.composition import (
    Composition,
    _concentration,
    _connected,
    _mirrored,
    compose,
)
from privacy.mechanisms import (
    ApproximateEvent,
    ClampedDirichletEvent,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    LatticeLaplaceEvent,
    PseudoCountDirichletEvent,
    PureEvent,
)
from privacy.mechanisms.dirichlet import dominating_delta
from privacy.mechanisms.gaussian import (
    analytic_gaussian_delta,
    discrete_gaussian_delta,
    discrete_gaussian_scale,
)
from privacy.mechanisms.kinds import KINDS
from tests.privacy.toy import count_mechanisms, counts_query

TOY = PureEvent("toy", 0.5)
GAUSSIAN = DiscreteGaussianEvent(8.0, 0.05, 0.05)
DIRICHLET = ClampedDirichletEvent("0.7928756", 50, 1, 0.05, 0.0500001)
ONE_OF_EACH = [
    TOY,
    DiscreteLaplaceEvent(4.0, 2.0, 0.5),
    LatticeLaplaceEvent(4.0, 2.0, 3, 0.5),
    GAUSSIAN,
    DIRICHLET,
    PlanEvent(((event_json(TOY), 2),), 1.0, 0.01),
    PlannedEvent(7, event_json(TOY)),
    ApproximateEvent("toy", 1.0, 0.01),
    PseudoCountDirichletEvent("0.7928756", 50, 1, 0.05, 0.0500001),
]


def divergence(laws, epsilon):
    """Oracle: hockey-stick divergence of two laws given as outcome -> probability."""
    p, q = laws
    outcomes = set(p) | set(q)
    return math.fsum(max(0.0, p.get(o, 0) - math.exp(epsilon) * q.get(o, 0)) for o in outcomes)


def moved(law, move):
    """A law and the same around neighbouring counts."""
    return law, {tuple(a + b for a, b in zip(z, move, strict=True)): p for z, p in law.items()}


def response_delta(epsilon, times, at, infinite=0.0):
    """Closed form: delta of `times` randomised responses, each infinite with some probability."""
    plus = 1 / (1 + math.exp(-epsilon))
    finite = math.fsum(
        math.comb(times, k) * plus**k * (1 - plus) ** (times - k)
        * max(0.0, -math.expm1(at - (2 * k - times) * epsilon))
        for k in range(times + 1)
    )  # fmt: skip
    kept = (1 - infinite) ** times
    return 1 - kept + kept * finite


def test_every_kind_has_a_loss():
    drawn = [mechanism.event(counts_query((50, 30, 20))) for mechanism in count_mechanisms()]
    assert set(KINDS.values()) == {type(event) for event in ONE_OF_EACH + drawn}
    for event in drawn:  # no loss is above its event's own claim
        claim, loss = event.cost(), loss_of(event)
        assert loss.delta(np.array([float(claim.epsilon)]))[0] <= float(claim.delta) + 1e-12


@pytest.mark.refusal
def test_what_is_no_event_has_no_loss():
    with pytest.raises(TypeError, match="KINDS"):
        loss_of("pure")


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.floats(0.01, 3.0), st.integers(1, 40), st.floats(0.0, 1.0))
def test_no_delta_is_below_that_of_an_exactly_computed_composition(epsilon, times, share):
    """Randomised response, closed form; the grid costs at most a thousandth."""
    at = share * epsilon * times
    exact = response_delta(epsilon, times, at)
    composed = compose({PureEvent("toy", epsilon): times})
    assert exact <= composed.delta(at) * (1 + 1e-12)
    assert composed.delta(at) <= exact * 1.001 + 1e-9


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.floats(0.05, 2.0), st.integers(1, 30), st.floats(1e-6, 0.3))
def test_the_epsilon_of_a_delta_is_enough_and_hardly_more(epsilon, times, delta):
    found = compose({PureEvent("toy", epsilon): times}).epsilon(delta)
    assert response_delta(epsilon, times, found) <= delta * (1 + 1e-9)
    assert found <= epsilon * times
    lower = found * (1 - 1e-4)
    assert found == 0 or response_delta(epsilon, times, lower) > delta * (1 - 1e-9)


@pytest.mark.parametrize("times", [1, 3, 20])
def test_a_claim_with_a_delta_composes_as_its_worst_mechanism(times):
    """Kairouz, Oh, Viswanath (2015): infinite with probability delta, else randomised response."""
    for claim in (ONE_OF_EACH[5], ONE_OF_EACH[7]):
        composed = compose({claim: times})
        for at in (0.0, 0.3, 2.0):
            exact = response_delta(1.0, times, at, infinite=0.01)
            assert exact * (1 - 1e-12) <= composed.delta(at) <= exact * 1.001 + 1e-9


def test_a_laplace_event_tells_what_its_enumerated_law_tells():
    scale = 2.0
    one = {z: math.exp(-abs(z) / scale) for z in range(-90, 91)}
    total = math.fsum(one.values())
    law = {(a, b): one[a] * one[b] / total**2 for a, b in itertools.product(one, one)}
    loss = loss_of(DiscreteLaplaceEvent(scale, 2.0, 1.0))
    for at in (0.0, 0.3, 0.5, 0.99, 1.0):
        expected = divergence(moved(law, (1, -1)), at)
        assert loss.delta(np.array([at]))[0] == pytest.approx(expected, abs=1e-12)


def test_two_counts_that_move_by_one_tell_less_than_one_that_moves_by_two():
    """Table T8: .1525 against .2449 at epsilon 0.5, scale 2."""
    at = np.array([0.5])
    event = DiscreteLaplaceEvent(2.0, 2.0, 1.0)
    assert loss_of(event).delta(at)[0] == pytest.approx(0.1525, abs=5e-5)
    assert loss_of(PureEvent("one count", 1.0)).delta(at)[0] > 0.2449
    wider = DiscreteLaplaceEvent(4.0, 4.0, 1.0)  # two moved tasks may move one count by two
    assert loss_of(wider).delta(at)[0] == pytest.approx(response_delta(1.0, 1, 0.5))


@pytest.mark.parametrize(("n_classes", "reach"), [(2, 80), (3, 40), (4, 17)])
def test_a_lattice_event_tells_what_its_enumerated_law_tells(n_classes, reach):
    law = {}
    for head in itertools.product(range(-reach, reach + 1), repeat=n_classes - 1):
        z = (*head, -sum(head))
        law[z] = math.exp(-sum(map(abs, z)) / 1.6)
    total = math.fsum(law.values())
    law = {z: weight / total for z, weight in law.items()}
    loss = loss_of(LatticeLaplaceEvent(1.6, 2.0, n_classes, 1.25))
    for at in (0.0, 0.4, 1.2):
        expected = divergence(moved(law, (1, -1, *[0] * (n_classes - 2))), at)
        assert loss.delta(np.array([at]))[0] == pytest.approx(expected, rel=1e-6)


def test_the_lattice_has_its_golden_atom():
    """Section 7 of the privacy specification: five classes, epsilon 1: .4437 at +1."""
    told = loss_of(LatticeLaplaceEvent(2.0, 2.0, 5, 1.0)).delta(np.array([0.0]))[0]
    assert told / -math.expm1(-1.0) == pytest.approx(0.4437, abs=5e-5)


@pytest.mark.parametrize("scale", [0.3, 1.0, 8.0, 300.0])
def test_a_gaussian_loss_is_its_closed_form(scale):
    width = loss_of(DiscreteGaussianEvent(300.0, 100.0, 0.5)).width
    at = np.array([1e-6, 0.1, 0.7]) * min(12 / scale, 100.0)
    loss = loss_of(DiscreteGaussianEvent(scale, 100.0, 0.99))
    expected = [discrete_gaussian_delta(scale, float(one)) for one in at]
    assert loss.delta(at) == pytest.approx(expected, rel=1e-9, abs=1e-15)
    assert width == pytest.approx(0.04, rel=1e-2)


def test_a_dirichlet_loss_is_its_closed_form():
    at = np.array([0.05, 0.5, 1.0])
    expected = [dominating_delta(50, 0.7928756, float(one)) for one in at]
    assert loss_of(DIRICHLET).delta(at) == pytest.approx(expected, rel=1e-12)


def test_two_gaussian_releases_cost_what_their_enumerated_law_does():
    """The loss of each is (t + 1) / scale^2 with t the difference of two noises. Up to half a percent
    is the grid's, where an epsilon is itself a possible loss."""
    scale = 3.0
    x = np.arange(-60, 61)
    one = np.exp(-(x**2) / (2 * scale**2))
    single = np.convolve(one, one) / one.sum() ** 2
    double = np.convolve(single, single)
    loss = (np.arange(double.size) - double.size // 2 + 2) / scale**2
    composed = compose({DiscreteGaussianEvent(scale, 1.0, 0.1): 2})
    for at in (0.0, 0.5, 1.0, 2.0):
        exact = float((double * np.maximum(0.0, -np.expm1(at - loss))).sum())
        assert exact <= composed.delta(at) <= exact * 1.005


@pytest.mark.parametrize(("epsilon", "delta"), [(0.05, 0.05), (1.0, 1e-6), (0.5, 1e-5)])
def test_dp_accounting_agrees_on_the_discrete_gaussian(epsilon, delta):
    """Acceptance A12: two releases of sensitivity 1 there are one moved task here, within 0.3 %."""
    from dp_accounting.pld.privacy_loss_distribution import from_discrete_gaussian_mechanism

    scale = discrete_gaussian_scale(epsilon, delta)
    theirs = from_discrete_gaussian_mechanism(scale).self_compose(2).get_delta_for_epsilon(epsilon)
    ours = compose({DiscreteGaussianEvent(scale, epsilon, delta): 1}).delta(epsilon)
    assert discrete_gaussian_delta(scale, epsilon) <= ours <= theirs <= 1.003 * ours


@pytest.mark.parametrize("event", ONE_OF_EACH[:6])
def test_dp_accounting_connects_the_same_dots(event):
    from dp_accounting.pld.pld_pmf import create_pmf_pessimistic_connect_dots_fixed_gap

    loss = loss_of(event)
    step = loss.width / 300
    delta = _mirrored(loss, step)
    law, infinite = _connected(delta, step)
    last = delta.size // 2
    theirs = create_pmf_pessimistic_connect_dots_fixed_gap(step, -last, last, delta)
    grid = step * np.arange(-last, last + 1)
    for at in (0.0, loss.width / 3, 0.99 * loss.width):
        ours = infinite + float((law * np.maximum(0.0, -np.expm1(at - grid))).sum())
        assert ours == pytest.approx(theirs.get_delta_for_epsilon(at), rel=1e-9, abs=1e-15)
    assert law.sum() + infinite == pytest.approx(1.0, abs=1e-7)


def test_very_many_small_losses_come_to_the_gaussian_limit():
    """By the central limit theorem: 100,000 randomised responses at 0.001 are mu = sqrt(0.1)."""
    many = compose({PureEvent("toy", 0.001): 100_000})
    scale = math.sqrt(2 / 0.1)
    for at in (0.3, 0.8):
        assert many.delta(at) == pytest.approx(analytic_gaussian_delta(scale, at), rel=1e-2)


@pytest.mark.parametrize(
    ("times", "at", "golden", "sampled", "error"),
    [
        (1, 0.5, 1.84323e-4, None, None),
        (2, 0.1, 0.0611317, 0.06109, 7e-5),
        (2, 0.5, 0.00288892, 0.00285, 1e-5),
        (10, 0.5, 0.0727204, 0.07266, 1e-4),
        (10, 1.0, 0.0137817, 0.01379, 5e-5),
        (100, 1.0, 0.430622, 0.42953, 9e-4),
    ],
)
def test_dirichlet_releases_have_their_golden_deltas(times, at, golden, sampled, error):
    """Table T8 and acceptance A15 of the privacy specification: composed, and by Monte Carlo with
    one standard error; within five of them."""
    found = compose({DIRICHLET: times}).delta(at)
    assert found == pytest.approx(golden, rel=1e-4)
    if sampled is not None:
        assert found == pytest.approx(sampled, abs=5 * error)


@pytest.mark.parametrize(
    ("times", "golden"),
    [(1, 0.500), (2, 0.723), (4, 1.051), (8, 1.536), (16, 2.257), (32, 3.337)],
)
def test_dirichlet_releases_have_their_golden_epsilons(times, golden):
    """Table T8: floor 50, scale for (0.5, 1e-5), epsilon at delta 1e-5."""
    event = ClampedDirichletEvent("0.4811", 50, 1, 0.5, 1.1e-5)
    assert compose({event: times}).epsilon(1e-5) == pytest.approx(golden, abs=1e-3)


@pytest.mark.parametrize(
    ("event", "golden"),
    [
        (DiscreteLaplaceEvent(2.0, 2.0, 1.0), 14.82),
        (LatticeLaplaceEvent(2.0, 2.0, 2, 1.0), 16.0),
        (LatticeLaplaceEvent(2.0, 2.0, 5, 1.0), 15.4),
        (LatticeLaplaceEvent(2.0, 2.0, 10, 1.0), 14.9),
    ],
)
def test_sixteen_releases_have_their_golden_epsilon(event, golden):
    """Table T8: 16 releases at epsilon 1, delta 1e-6."""
    assert compose({event: 16}).epsilon(1e-6) == pytest.approx(golden, abs=0.05)


def test_different_releases_have_their_golden_deltas():
    """Table T8 and acceptance A15, the heterogeneous row: Dirichlet, one number with Laplace noise
    that a neighbour moves by two, Gaussian, exponential mechanism; within 1 %."""
    events = [DIRICHLET, PureEvent("laplace", 0.05), PureEvent("exponential", 0.1)]
    gaussian = DiscreteGaussianEvent(discrete_gaussian_scale(0.05, 0.05), 0.05, 0.05)
    composed = compose(dict.fromkeys([*events, gaussian], 1))
    golden = {0.05: 0.08879, 0.1: 0.07040, 0.3: 0.02232, 0.6: 0.001857}
    for at, delta in golden.items():
        assert composed.delta(at) == pytest.approx(delta, rel=0.01)
    assert composed.epsilon(0.05) == pytest.approx(0.167, abs=5e-4)
    assert float(composed.basic.epsilon) == pytest.approx(0.25)


def test_equal_releases_counted_together_cost_what_they_cost_apart():
    """dp_accounting's Renyi accountant once forgot the counts of exponential mechanisms."""
    together = compose({PureEvent("exponential", 0.1): 30})
    apart = compose({PureEvent("exponential", 0.1, {"k": k}): 1 for k in range(30)})
    named = compose({PureEvent(f"exponential {k}", 0.1): 1 for k in range(30)})
    assert together.epsilon(1e-5) == pytest.approx(named.epsilon(1e-5), rel=1e-6)
    assert together.epsilon(1e-5) == pytest.approx(apart.epsilon(1e-5), rel=1e-6)
    assert together.epsilon(1e-5) > 10 * compose({PureEvent("exponential", 0.1): 1}).epsilon(1e-5)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.lists(st.sampled_from(ONE_OF_EACH), min_size=1, max_size=4), st.integers(1, 5))
def test_composition_is_never_above_adding_up_and_never_falls(chosen, more):
    events = {event: chosen.count(event) for event in chosen}
    composed = compose(events)
    basic = composed.basic
    assert composed.epsilon(float(basic.delta)) <= float(basic.epsilon) * (1 + 1e-12)
    assert composed.delta(float(basic.epsilon)) <= float(basic.delta)
    curve = [composed.delta(at) for at in (0.0, 0.2, 0.5, 1.0, 5.0)]
    assert curve == sorted(curve, reverse=True)
    larger = compose({**events, chosen[0]: events[chosen[0]] + more})
    # grids differ, each within a thousandth of the truth
    assert larger.delta(0.2) >= composed.delta(0.2) * 0.999 - 1e-9


def test_nothing_costs_nothing():
    for events in ({}, {ONE_OF_EACH[6]: 3}):
        assert compose(events).epsilon(0.0) == compose(events).delta(0.0) == 0.0


def test_where_no_epsilon_will_do_it_is_infinite():
    assert compose({GAUSSIAN: 2}).epsilon(0.0) == math.inf
    assert compose({PureEvent("huge", 500.0): 2}).epsilon(0.0) == 1000.0


@pytest.mark.parametrize("wrong", [0, -1])
def test_counts_are_one_or_more(wrong):
    with pytest.raises(ValueError, match="counts"):
        compose({TOY: wrong})
    with pytest.raises(ValueError, match="counts"):
        compose({TOY: 100_001})


@pytest.mark.refusal
@pytest.mark.parametrize("wrong", [1.0, True, "1", math.nan])
def test_counts_are_integers(wrong):
    with pytest.raises(TypeError, match="counts"):
        compose({TOY: wrong})


def test_no_nan_enters_or_leaves():
    """dp_accounting lets NaN through: its guards are of the form `x < 0`."""
    composed = compose({TOY: 2})
    for wrong in (math.nan, -0.1):
        with pytest.raises(ValueError, match="epsilon"):
            composed.delta(wrong)
        with pytest.raises(ValueError, match="delta"):
            composed.epsilon(wrong)
    with pytest.raises(ValueError, match="epsilon"):
        composed.delta(math.inf)
    with pytest.raises(ValueError, match="must be a finite number, got 1000"):
        composed.delta(10**400)  # an OverflowError before
    with pytest.raises(ValueError, match="delta"):
        composed.epsilon(1.0)


@pytest.mark.parametrize("epsilon", [5e-324, 1e-300, 1e300])
def test_the_smallest_and_the_largest_claims_compose(epsilon):
    composed = compose({PureEvent("toy", epsilon): 3, TOY: 1})
    assert 0 < composed.delta(0.5) <= 1
    assert composed.epsilon(0.0) >= 3 * epsilon


@pytest.mark.parametrize("event", ONE_OF_EACH[1:5])
def test_an_event_whose_law_is_not_a_number_is_refused(event):
    """No constructor builds one; a NaN must not pass for a release that tells nothing."""
    forged = dataclasses.replace(event)
    object.__setattr__(forged, "scale", "nan" if event is DIRICHLET else math.nan)
    with pytest.raises((ArithmeticError, ValueError)):
        compose({forged: 1})


def test_the_room_does_not_import_the_accountant_until_it_composes():
    code = (
        "import sys, privacy.mechanisms.kinds, privacy.accounting.composition; "
        "print('dp_accounting' in sys.modules, 'opendp' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


class Broken:
    """A composed loss that came out as no number."""

    def get_delta_for_epsilon(self, _):
        return math.nan

    def get_epsilon_for_delta(self, _):
        return math.nan


def test_no_nan_leaves_a_composition():
    broken = Composition(Cost(Fraction(1), Fraction(0)), 1, 0.0, Broken())
    with pytest.raises(ArithmeticError, match="must be a number, got NaN"):
        broken.delta(0.5)
    with pytest.raises(ArithmeticError, match="must be a number, got NaN"):
        broken.epsilon(0.5)


@pytest.mark.parametrize("told", [math.nan, -1e-3, 1.001])
def test_no_nan_and_no_impossible_delta_enters_a_composition(told):
    with pytest.raises(ArithmeticError, match=r"a loss's deltas must be in \[0, 1\]"):
        _mirrored(Loss(1.0, lambda at: np.where(at > 0.5, told, 0.1)), 0.25)


def test_what_a_delta_covers_at_once_costs_no_epsilon():
    assert compose({PureEvent("toy", 0.1): 1}).epsilon(0.9) == 0.0


def test_a_narrow_loss_beside_a_wide_one_keeps_its_own_grid():
    """Oracle: the closed form. On the wide one's grid the delta at 1.03 would be a tenth too large."""
    events = {PureEvent("wide", 1.0): 1, PureEvent("narrow", 0.0023): 40}
    plus = 1 / (1 + math.exp(-0.0023))
    for at in (0.5, 1.0, 1.03):
        exact = sum(
            wide * math.comb(40, k) * plus**k * (1 - plus) ** (40 - k)
            * max(0.0, -math.expm1(at - sign - (2 * k - 40) * 0.0023))
            for sign, wide in ((1, 1 / (1 + math.exp(-1))), (-1, 1 / (1 + math.e)))
            for k in range(41)
        )  # fmt: skip
        assert exact <= compose(events).delta(at) <= exact * (1 + 1e-5)


def test_a_grid_has_no_more_points_than_memory_should_hold():
    """The wide loss's twenty thousand on each side, however narrow the other one is."""
    wide, narrow = PureEvent("wide", 10.0), PureEvent("narrow", 1e-4)
    assert compose({wide: 1, narrow: 1})._pmf.size < 2.1 * 20_000


@pytest.mark.parametrize(
    "events", [{TOY: 1}, {TOY: 40}, {TOY: 2, GAUSSIAN: 3}, {PlannedEvent(7, event_json(TOY)): 1}]
)
def test_a_composed_loss_counts_what_it_cuts_off_as_infinite(events):
    assert compose(events)._pmf._pessimistic_estimate


@pytest.mark.parametrize("size", [3, 2**15 + 9])
def test_the_rounding_of_a_transform_is_bounded_by_the_law_of_all_losses_but_one(size):
    """Oracle: the l2 norm of the convolved law; a circle at least as long as the law makes it no smaller."""
    law = np.full(size, 1 / size)
    expected = np.linalg.norm(np.convolve(law, law))
    assert _concentration(law, 2) >= expected * (1 - 1e-9)
    assert size > 3 or _concentration(law, 2) == pytest.approx(expected)
