"""Intervals helped by a belief: exact wherever the value is, short where the belief holds."""

import numpy as np
import pytest
import scipy.special

from quality.shares.assisted import assisted_interval, belief_in_counts, clear_bias
from quality.shares.heavy_tails import half_width_of, mixed_law

NORMAL = mixed_law(np.ones(1), [])
HEAVY = mixed_law(np.full(1, 0.4), [(np.full(1, 0.6), 3.0)])
ERRORS = scipy.special.ndtri(
    (np.arange(20_000) + 0.5) / 20_000
)  # of the normal law, equally likely


def ends(estimate: np.ndarray, clear: float, law=NORMAL, level: float = 0.95, belief: float = 0.0):
    spread, weight = law
    every = np.broadcast_to(spread, (estimate.size, spread.shape[1])), weight
    whole = np.full(estimate.size, belief), np.full(estimate.size, clear)
    return assisted_interval(estimate, *whole, every, level=level)


@pytest.mark.long
@pytest.mark.parametrize("clear", [0.0, 2.5, 4.0, 50.0])
@pytest.mark.parametrize("level", [0.8, 0.95])
@pytest.mark.parametrize("value", [-6.0, -1.5, -0.01, 0.01, 0.4, 1.0, 2.2, 3.9, 8.0])
def test_every_value_but_the_belief_is_covered_as_often_as_the_level_says(
    clear: float, level: float, value: float
) -> None:
    """All errors in turn, at equal steps of probability: a step of 1 / 2,000 at each end."""
    low, high = ends(value + ERRORS, clear, level=level)
    assert np.mean((low <= value) & (value <= high)) == pytest.approx(level, abs=1.1e-3)


@pytest.mark.parametrize("value", [0.1, 1.0, 3.0])
def test_noise_with_heavy_tails_is_covered_as_often(value: float) -> None:
    """The law's own errors: quantiles by bisection of its distribution function."""
    spread, weight = HEAVY
    chance, low, high = (
        (np.arange(2_000) + 0.5) / 2_000,
        np.full(2_000, -30.0),
        np.full(2_000, 30.0),
    )
    for _ in range(50):
        middle = (low + high) / 2
        under = scipy.special.ndtr(middle[:, None] / spread) @ weight < chance
        low, high = np.where(under, middle, low), np.where(under, high, middle)
    first, last = ends(value + high, 3.0, HEAVY)
    assert np.mean((first <= value) & (value <= last)) == pytest.approx(0.95, abs=2e-3)


def test_the_interval_contains_the_estimate_and_the_belief_while_it_is_not_clearly_off() -> None:
    estimate = np.linspace(-6, 6, 201)
    low, high = ends(estimate, 3.0)
    assert ((low <= estimate) & (estimate <= high)).all()
    held = np.abs(estimate) < 3.0
    assert ((low <= 0) & (high >= 0))[held].all()
    assert not ((low <= 0) & (high >= 0))[~held].any()


def test_a_belief_that_is_given_up_at_once_leaves_the_ordinary_interval() -> None:
    estimate = np.linspace(-4, 4, 41)
    low, high = ends(estimate, 0.0)
    (half,) = half_width_of(NORMAL, 0.95)
    np.testing.assert_allclose(low, estimate - half, atol=1e-6)
    np.testing.assert_allclose(high, estimate + half, atol=1e-6)


def test_the_interval_is_shorter_where_the_belief_holds() -> None:
    """Pratt's is 1.645 from each end at the belief, the ordinary one 1.96; a tenth less in the mean."""
    low, high = ends(ERRORS, 50.0)
    assert np.mean(high - low) < 0.9 * 2 * 1.96
    at_belief = ends(np.zeros(1), 50.0)
    np.testing.assert_allclose(np.ravel(at_belief), [-1.6449, 1.6449], atol=1e-4)


def test_both_ends_rise_with_the_estimate_and_sides_are_alike() -> None:
    estimate = np.linspace(-6, 6, 401)
    low, high = ends(estimate, 3.5)
    for end in (low, high):
        assert (np.diff(end) > -1e-6).all()
    np.testing.assert_allclose(low, -high[::-1], atol=1e-6)
    moved = ends(estimate + 2.0, 3.5, belief=2.0)
    np.testing.assert_allclose(moved[0], low + 2.0, atol=1e-6)


def test_the_belief_is_independent_of_the_error_of_the_estimate(rng: np.random.Generator) -> None:
    """Correlation of 4,000 draws; five standard errors: a false alarm in 6e-7 for each class."""
    said, n = np.array([0.5, 0.3, 0.2]), 4_000
    flat = np.eye(3) - 1 / 3
    of_said, of_bias = (v * np.diag(flat) for v in (4e-3, 9e-3))
    drawn = [rng.normal(0, np.sqrt(v), (n, 3)) @ flat for v in (4e-3, 9e-3)]
    belief = np.array(
        [belief_in_counts(said + a, b, of_said, of_bias) for a, b in zip(*drawn, strict=True)]
    )
    for k in range(3):
        found = np.corrcoef(belief[:, k], (drawn[0] + drawn[1])[:, k])[0, 1]
        assert abs(found) < 5 / np.sqrt(n)


def test_a_belief_without_noise_is_the_count_and_one_of_noise_is_equal_shares() -> None:
    said, bias = np.array([0.5, 0.3, 0.2]), np.array([0.1, -0.1, 0.0])
    none, some = np.zeros(3), np.full(3, 0.01)
    np.testing.assert_allclose(belief_in_counts(said, bias, none, some), said)
    np.testing.assert_allclose(belief_in_counts(said, bias, 100 * some, some), 1 / 3)


def test_a_bias_is_clear_where_it_is_as_likely_as_none() -> None:
    """Of two classes there is one axis, on which normal densities times the odds are equal."""
    variance, spread, odds = np.full(2, 0.0004), 0.05, 15.0
    at = clear_bias(np.zeros(2), variance, spread, odds)[0]
    whole = variance[0] + spread**2 / 2
    none, some = (np.exp(-(at**2) / 2 / v) / np.sqrt(v) for v in (variance[0], whole))
    assert none * odds == pytest.approx(some, rel=1e-6)


def test_smaller_biases_and_larger_odds_are_clear_later() -> None:
    variance = np.full(4, 0.001)
    at = [clear_bias(variance, variance, spread, 15.0)[0] for spread in (0.05, 0.02, 0.005)]
    assert at == sorted(at)
    assert clear_bias(variance, variance, 0.05, 30.0)[0] > at[0]
