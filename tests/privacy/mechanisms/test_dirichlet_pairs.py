"""Golden numbers: table T1 of the privacy specification, from 30-digit arithmetic."""

import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, special, stats

import privacy.mechanisms.dirichlet
from privacy.mechanisms.dirichlet import (
    clamp_delta,
    dominating_delta,
    largest_clamp_scale,
    largest_scale,
)
from privacy.mechanisms.dirichlet_pairs import (
    InfeasibleFloor,
    expected_distortion,
    pair_delta,
    smallest_floor,
)

DOMINATING = [
    (50, 0.5, 0.05, 0.0359415343046),
    (50, 0.5, 1.0, 9.24422371715e-13),
    (49, 0.776, 0.05, 0.0499629222976),
    (20, 0.3, 0.5, 0.000262098340375),
    (1000, 28.0, 1.0, 9.90275983654e-7),
    (0.7, 0.2, 3.0, 0.0540930405536),
    (5, 6e-5, 0.05, 0.0708000837601),
    (10, 1e-3, 1.0, 2.16228672658e-6),
]
PAIRS = [
    (
        (50, 50, 0.03, 0.05),
        (0.105760465589, 0.00234738854191, 0.00239147874386, -0.000841417116647),
    ),
    (
        (50, 800, 0.05, 0.05),
        (0.0628075187407, 0.000671202766891, 0.00219146331954, -0.149308094459),
    ),
    ((2, 3, 0.4, 0.5), (0.43344909069, 0.149874051955, 0.20321553373, -0.617400463609)),
    ((7, 2, 1.7, 1.0), (0.322145950606, 0.150373724058, 0.11815035662, 1.76677459769)),
    ((40, 3, 0.2, 0.2), (0.289265533889, 0.0741802231273, 0.0464329568359, 0.646615817185)),
]
SCALES = [
    (50, 0.05, 0.05, 0.7928756277),
    (49, 0.05, 0.05, 0.7768347303),
    (100, 0.05, 0.05, 1.590492401),
    (50, 1.0, 1e-6, 1.376471101),
    (100, 0.5, 1e-5, 1.001734781),
    (20, 2.0, 1e-6, 1.956193839),
    (7, 0.05, 0.05, 0.0307093608),
]
FLOORS = [
    (0.05, 0.05, 6.67),
    (0.1, 1e-3, 28.5),
    (0.5, 1e-5, 16.03),
    (1.0, 1e-6, 10.71),
    (2.0, 1e-6, 5.66),
    (4.0, 1e-6, 2.97),
    (0.05, 1e-6, 160.8),
]


@pytest.mark.parametrize(("floor", "scale", "epsilon", "expected"), DOMINATING)
def test_the_dominating_delta_has_its_golden_value(floor, scale, epsilon, expected):
    """Acceptance A1; the last two are A2, where a plain formula underflows to zero."""
    assert dominating_delta(floor, scale, epsilon) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("pair", "expected"), PAIRS)
def test_a_pair_has_its_golden_values(pair, expected):
    """Acceptance A1."""
    found = pair_delta(*pair)
    values = (found.exceedance, found.forward, found.reverse, found.log_constant)
    assert values == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("floor", "epsilon", "delta", "expected"), SCALES)
def test_the_largest_scale_has_its_golden_value(floor, epsilon, delta, expected):
    """Acceptance A1, short of the safety margin of a millionth of delta and of six digits."""
    found = float(largest_scale(floor, epsilon, delta))
    assert found <= expected * (1 + 1e-9)
    assert found == pytest.approx(expected, rel=2e-5)
    assert dominating_delta(floor, expected, epsilon) == pytest.approx(delta, rel=1e-8)


@pytest.mark.parametrize(("floor", "epsilon", "delta", "expected"), SCALES)
def test_the_delta_at_the_scale_returned_is_at_most_the_one_asked(floor, epsilon, delta, expected):
    """Acceptance A5: sound at the scale, not at 1.01 of it, for floors and for clamps."""
    for search, delta_at in (
        (largest_scale, dominating_delta),
        (largest_clamp_scale, clamp_delta),
    ):
        scale = float(search(floor, epsilon, delta))
        assert delta_at(floor, scale, epsilon) <= delta
        assert delta_at(floor, 1.01 * scale, epsilon) > delta


@pytest.mark.parametrize(("floor", "epsilon", "delta", "expected"), SCALES)
def test_a_scale_takes_few_evaluations(floor, epsilon, delta, expected, monkeypatch):
    """Acceptance A20 without a clock: 62 of them, of microseconds each, are far below 50 ms."""
    calls = []

    def counted(*numbers):
        calls.append(numbers)
        return dominating_delta(*numbers)

    monkeypatch.setattr(privacy.mechanisms.dirichlet, "dominating_delta", counted)
    largest_scale(floor, epsilon, delta)
    assert len(calls) <= 64


def test_a_floor_without_a_scale_is_refused_with_the_smallest_that_has_one():
    """Acceptance A2."""
    with pytest.raises(InfeasibleFloor, match=r"above 6\.666.*floor=5") as caught:
        largest_scale(5, 0.05, 0.05)
    assert caught.value.smallest == pytest.approx(6.67, abs=0.005)
    with pytest.raises(InfeasibleFloor):
        largest_clamp_scale(5, 0.05, 0.05)


@pytest.mark.parametrize(("epsilon", "delta", "expected"), FLOORS)
def test_the_smallest_floor_has_its_golden_value(epsilon, delta, expected):
    """Section 3 of the privacy specification, which rounds up."""
    found = smallest_floor(epsilon, delta)
    assert math.exp(-found * epsilon) / (2 * found + 1) == pytest.approx(delta, rel=1e-9)
    assert expected * (1 - 2e-3) < found <= expected
    assert largest_scale(1.01 * found, epsilon, delta) > 0
    with pytest.raises(InfeasibleFloor):
        largest_scale(0.99 * found, epsilon, delta)


def test_the_limit_at_small_scales_is_not_zero():
    for floor, epsilon in ((5, 0.05), (10, 1.0), (0.7, 3.0), (1, 0.5)):
        limit = math.exp(-floor * epsilon) / (2 * floor + 1)
        assert dominating_delta(floor, 1e-8, epsilon) == pytest.approx(limit, rel=1e-6)
        assert dominating_delta(floor, 1e-8, epsilon) <= clamp_delta(floor, 1e-8, epsilon)


def test_no_pair_above_the_floor_exceeds_the_dominating_delta(rng):
    """Acceptance A3: 5,000 pairs, both directions."""
    for _ in range(5000):
        epsilon, scale = 10 ** rng.uniform(-2, 0.5), 10 ** rng.uniform(-3, 1.5)
        floor = 10 ** rng.uniform(-0.5, 2.5)
        p, q = floor + 1 + rng.exponential(floor), floor + rng.exponential(floor)
        found = pair_delta(p, q, scale, epsilon)
        assert max(found.forward, found.reverse) <= dominating_delta(floor, scale, epsilon) + 1e-12


def test_the_dominating_pair_is_attained():
    found = pair_delta(21, 20, 0.3, 0.5)
    assert found.log_constant == pytest.approx(0.0, abs=1e-12)
    expected = dominating_delta(20, 0.3, 0.5)
    assert (found.forward, found.reverse) == pytest.approx((expected, expected), rel=1e-10)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    st.integers(2, 400),
    st.integers(1, 400),
    st.floats(1e-3, 20),
    st.floats(0.01, 4),
)
def test_the_reverse_of_a_pair_is_the_forward_of_its_moved_pair(p, q, scale, epsilon):
    """Acceptance A4."""
    reverse = pair_delta(p, q, scale, epsilon).reverse
    assert reverse == pytest.approx(pair_delta(q + 1, p - 1, scale, epsilon).forward, abs=1e-12)


def test_a_pair_is_the_divergence_of_its_beta_laws_by_quadrature():
    """Oracle: the integral of max(0, f - e^epsilon g) over (0, 1)."""
    p, q, scale, epsilon = 7, 2, 1.7, 1.0
    one = stats.beta(scale * p, scale * q)
    other = stats.beta(scale * (p - 1), scale * (q + 1))
    found = pair_delta(p, q, scale, epsilon)
    for f, g, expected in ((one, other, found.forward), (other, one, found.reverse)):
        grid = np.linspace(0, 1, 400_001)[1:-1]
        excess = np.maximum(0.0, f.pdf(grid) - math.e**epsilon * g.pdf(grid))
        assert integrate.trapezoid(excess, grid) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(("p", "q"), [(1, 5), (5, 0), (1, 0)])
def test_where_a_class_empties_or_fills_nothing_is_private(p, q):
    found = pair_delta(p, q, 0.5, 1.0)
    assert (found.exceedance, found.forward, found.reverse) == (1.0, 1.0, 1.0)


def test_the_smallest_scale_needs_no_overflowing_number():
    for epsilon in (0.01, 1.0, 50.0):
        for scale in (1e-9, 1e-5, 1e-2, 1.0, 1e4):
            assert 0 <= dominating_delta(30, scale, epsilon) <= clamp_delta(30, scale, epsilon) <= 1


@pytest.mark.parametrize("scale", [1e-10, 1e8])
def test_the_ends_of_the_scales_are_taken(scale):
    assert 0 <= dominating_delta(50, scale, 0.05) <= 1


def test_the_clamp_costs_at_least_its_single_gamma_pair_by_quadrature():
    """Oracle: Gamma(s n) against Gamma(s (n + 1)), integrated in both directions."""
    for floor, scale, epsilon in ((5, 0.5, 0.3), (20, 0.3, 0.1), (2, 0.05, 0.5)):
        x = np.exp(np.linspace(-60, 6, 200_001))
        one, other = stats.gamma(scale * floor), stats.gamma(scale * (floor + 1))
        for f, g in ((one, other), (other, one)):
            excess = np.maximum(0.0, f.pdf(x) - np.exp(epsilon) * g.pdf(x)) * x
            found = integrate.trapezoid(excess, np.log(x))
            assert found <= clamp_delta(floor, scale, epsilon) * (1 + 1e-5)
            assert found > 0


def one_count_delta(a, rest, step, epsilon):
    """Oracle: divergences of Beta(a, rest) and Beta(a + step, rest), whose ratio is monotone."""
    log_constant = stats.beta(a, rest).logpdf(0.5) - stats.beta(a + step, rest).logpdf(0.5)
    log_constant -= step * math.log(2)  # log ratio is log_constant - step ln x
    low, high = (math.exp(min(0.0, (log_constant + sign * epsilon) / step)) for sign in (-1, 1))
    small, large, grown = stats.beta(a, rest), stats.beta(a + step, rest), math.exp(epsilon)
    return max(
        small.cdf(low) - grown * large.cdf(low), large.sf(high) - grown * small.sf(high), 0.0
    )


@pytest.mark.parametrize("counts", [(0, 1, 5, 100, 500), (20, 20, 19, 21, 22), (0, 0, 1000)])
def test_no_neighbours_of_clamped_counts_exceed_the_clamp(counts):
    """Acceptance A19, in closed form over all neighbours in place of sampling: where two clamped
    counts move it is a pair's delta, where one moves that of two beta laws."""
    floor, epsilon, delta = 20, 0.05, 0.05
    scale = float(largest_clamp_scale(floor, epsilon, delta))
    worst = 0.0
    for i, p in enumerate(counts):
        for j, q in enumerate(counts):
            if i == j or p == 0:
                continue
            total = sum(max(count, floor) for count in counts)
            if p > floor and q >= floor:
                found = pair_delta(p, q, scale, epsilon)
                worst = max(worst, found.forward, found.reverse)
            elif p > floor:
                a = scale * (p - 1)
                worst = max(worst, one_count_delta(a, scale * (total - p), scale, epsilon))
            elif q >= floor:
                worst = max(worst, one_count_delta(scale * q, scale * (total - q), scale, epsilon))
    assert 0 < worst <= delta
    assert worst <= clamp_delta(floor, scale, epsilon)


@pytest.mark.parametrize(
    ("counts", "scale", "expected"),
    [
        ((50, 950), 1.499, 0.0090),
        ((50, 50, 50, 50, 800), 0.7849, 0.0362),
        ((50, 50, 50, 50, 800), 0.008184, 0.3083),
        ((100, 100, 100, 100, 600), 1.583, 0.0339),
    ],
)
def test_the_expected_distortion_has_its_golden_value(counts, scale, expected):
    """Table T2 of the privacy specification."""
    assert expected_distortion(np.array(counts), scale) == pytest.approx(expected, abs=6e-5)


def test_the_expected_distortion_is_the_mean_over_draws(rng):
    """5.5 standard errors: by chance below 1e-6 over all seeds."""
    counts = np.array([3, 0, 10, 40])
    theta = rng.dirichlet(0.4 * counts[counts > 0], size=20_000)
    error = np.abs(theta - counts[counts > 0] / counts.sum()).sum(axis=1)
    expected = expected_distortion(counts, 0.4)
    assert abs(error.mean() - expected) < 5.5 * error.std() / math.sqrt(error.size)


def test_the_scale_is_a_short_fraction():
    assert largest_scale(50, 0.05, 0.05) == Fraction(792874, 1_000_000)


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_public_numbers_are_positive_and_finite(bad):
    calls = [
        lambda: dominating_delta(bad, 1.0, 1.0),
        lambda: dominating_delta(5, bad, 1.0),
        lambda: dominating_delta(5, 1.0, bad),
        lambda: pair_delta(5, 5, bad, 1.0),
        lambda: largest_scale(bad, 1.0, 0.1),
        lambda: largest_scale(5, bad, 0.1),
        lambda: largest_scale(5, 1.0, bad),
        lambda: largest_clamp_scale(5, 1.0, bad),
        lambda: expected_distortion(np.array([1, 2]), bad),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="must be"):
            call()
    with pytest.raises(ValueError, match=r"floor must be >= 1e-100 and at most 2\*\*53"):
        largest_scale(bad, 1.0, 0.1)


@pytest.mark.parametrize(
    "counts", [[math.inf, 1.0], [math.nan, 1.0], [1e308, 1e308], [], [0.0, 1.0]]
)
def test_counts_without_an_error_to_expect_are_refused(counts):
    with pytest.raises(ValueError, match=r"counts must be from 0 to 2\*\*53, and two of them > 0"):
        expected_distortion(np.array(counts), 0.5)


def test_a_floor_of_nearly_nothing_is_refused_and_one_for_a_tiny_delta_found():
    """The floor solves exp(-floor epsilon) / (2 floor + 1) = delta, where 1 / delta is no double too."""
    with pytest.raises(
        ValueError, match=r"floor must be >= 1e-100 and at most 2\*\*53, got floor=1e-320"
    ):
        largest_scale(1e-320, 0.05, 0.05)
    floor = smallest_floor(0.05, 1e-320)
    assert floor * 0.05 + math.log(2 * floor + 1) == pytest.approx(-math.log(1e-320))


def test_a_pair_that_is_none_is_refused():
    for p, q in ((0, 5), (0.5, 5), (5, -1), (math.nan, 5)):
        with pytest.raises(ValueError, match="source"):
            pair_delta(p, q, 1.0, 1.0)
    with pytest.raises(ValueError, match="counts"):
        expected_distortion(np.array([5, 0]), 1.0)


def test_the_ratio_is_without_bound_on_the_side_of_the_empty_class():
    assert pair_delta(5, 0, 0.5, 1.0).log_constant == math.inf
    assert pair_delta(1, 5, 0.5, 1.0).log_constant == -math.inf


def test_an_infeasible_floor_survives_pickling():
    """As it must where another process searched."""
    error = pickle.loads(pickle.dumps(InfeasibleFloor(floor=5, smallest=6.6741)))
    assert (error.floor, error.smallest) == (5, 6.6741)
    assert "floor must be above 6.674" in str(error)


@pytest.mark.parametrize("function", ["betainc", "gammainc", "gammaincc"])
def test_no_nan_passes_for_a_delta_of_nothing(monkeypatch, function):
    """`max(0, NaN)` is 0, and every scale would be cheap enough."""
    monkeypatch.setattr(special, function, lambda *_: math.nan)
    calls = [lambda: clamp_delta(50, 0.5, 0.05)]
    if function == "betainc":
        calls += [
            lambda: dominating_delta(50, 0.5, 0.05),
            lambda: pair_delta(50, 50, 0.5, 0.05),
            lambda: largest_scale(50, 0.051, 0.05),
        ]
    for call in calls:
        with pytest.raises(ArithmeticError, match="a delta must be a number, got NaN"):
            call()


def test_a_floor_is_at_most_the_largest_number_of_records():
    assert largest_scale(2**53, 0.05, 0.05) > 0
    with pytest.raises(ValueError, match=r"floor must be >= 1e-100 and at most 2\*\*53"):
        largest_scale(2**53 + 2, 0.05, 0.05)


def test_a_floor_beyond_clear_ones_costs_what_the_clear_one_does():
    """The difference of two beta functions is 0 there in doubles, of a delta of 1.9e-5."""
    for delta_at in (dominating_delta, clamp_delta):
        assert delta_at(2**53, 1e7, 1e-12) == delta_at(2**20, 1e7, 1e-12) > 1e-5
    with pytest.raises(InfeasibleFloor):
        largest_scale(2**53, 1e-12, 1e-14)
    assert largest_scale(2**53, 0.05, 0.05) == largest_scale(2**20, 0.05, 0.05)


@pytest.mark.parametrize(
    ("epsilon", "delta", "scale", "realised"),
    [
        (1e-3, 1e-6, 0.0883108, 9.9999528534494e-07),
        (0.05, 1e-9, 54.793, 9.999979578880386e-10),
        (1.0, 1e-12, 12191.3, 9.99955183281306e-13),
    ],
)
def test_the_largest_clear_floor_is_clear(epsilon, delta, scale, realised):
    """The realised deltas are from 60-digit quadrature."""
    assert float(largest_scale(2**20, epsilon, delta)) == scale
    assert dominating_delta(2**20, scale, epsilon) == pytest.approx(realised, rel=1e-7)
    assert realised <= delta
