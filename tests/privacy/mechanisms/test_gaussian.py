"""Noise cannot be seeded: each statistical test fails by chance
with a probability of at most 1e-6."""

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest

from privacy import CountsError, LedgerError, Query, Unit
from privacy.mechanisms import DiscreteGaussianEvent, gaussian
from privacy.mechanisms.gaussian import (
    DiscreteGaussian,
    analytic_gaussian_delta,
    analytic_gaussian_scale,
    discrete_gaussian_delta,
    discrete_gaussian_scale,
)
from privacy.noise import SystemNoise
from tests.privacy.mechanisms.test_laplace import fits
from tests.privacy.toy import counts_query, open_toy

CHANCE = 1e-6


@pytest.mark.parametrize(
    ("epsilon", "delta", "discrete", "analytic"),
    [
        (0.05, 0.05, 7.9372923, 7.938549877),
        (1.0, 1e-6, 5.976642, 5.974598182),
        (0.5, 1e-5, 9.9465233, 9.944504653),
        (0.1, 1e-3, 24.614311, 24.61353316),
    ],
)
def test_the_scale_has_its_golden_value(epsilon, delta, discrete, analytic):
    """Acceptance A12 and table T1 of the privacy specification."""
    assert discrete_gaussian_scale(epsilon, delta) == pytest.approx(discrete, rel=1e-5)
    assert analytic_gaussian_scale(epsilon, delta) == pytest.approx(analytic, rel=1e-9)


def enumerated_delta(scale, epsilon, reach):
    """Oracle: the divergence of the two laws on the plane of the two counts that change."""
    z = np.arange(-reach, reach + 1)
    log_one = -(z**2) / (2 * scale**2)
    log_one -= np.log(np.exp(log_one).sum())
    here = log_one[1:-1, None] + log_one[None, 1:-1]
    there = log_one[2:, None] + log_one[None, :-2]
    return np.maximum(0.0, np.exp(here) - np.exp(epsilon + there)).sum()


@pytest.mark.parametrize(
    ("scale", "epsilon"), [(7.9372923, 0.05), (5.976642, 1.0), (0.5, 1.0), (0.25, 3.0), (2.0, 0.3)]
)
def test_delta_is_the_divergence_of_the_two_laws(scale, epsilon):
    expected = enumerated_delta(scale, epsilon, math.ceil(14 * scale) + 3)
    assert discrete_gaussian_delta(scale, epsilon) == pytest.approx(expected, rel=1e-9)


def test_a_calibration_for_a_single_count_would_understate_delta():
    """Section 8 of the privacy specification: 4.23, where two counts move, is not enough."""
    assert discrete_gaussian_delta(4.23, 1.0) > 100 * 1e-6


def test_the_discrete_delta_nears_the_continuous_one():
    for scale, epsilon in ((50.0, 0.05), (500.0, 0.004)):
        expected = analytic_gaussian_delta(scale, epsilon)
        assert discrete_gaussian_delta(scale, epsilon) == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0.05, 0.05), (1.0, 1e-6), (8.0, 1e-5), (0.01, 1e-8), (30.0, 1e-6)]
)
def test_the_realised_delta_is_at_most_the_claim(epsilon, delta):
    scale = discrete_gaussian_scale(epsilon, delta)
    assert discrete_gaussian_delta(scale, epsilon) <= delta
    event = DiscreteGaussian(epsilon, delta).event(counts_query())
    assert event == DiscreteGaussianEvent(scale, epsilon, delta)
    with pytest.raises(ValueError, match="at least what the scale realises"):
        DiscreteGaussianEvent(0.9 * scale, epsilon, delta)


@pytest.mark.parametrize("epsilon", [0.05, 1.0, 8.0])
def test_the_law_is_symmetric_and_its_interval_the_shortest(epsilon):
    law = DiscreteGaussian(epsilon, 1e-5).law(4)
    z, p = law.support, law.probability
    assert p.sum() == pytest.approx(1.0, abs=1e-12)
    assert (p == p[::-1]).all()
    assert law.variance == pytest.approx((z.astype(float) ** 2 * p).sum())
    assert law.expected_l1 == pytest.approx(4 * (np.abs(z) * p).sum())
    for level in (0.5, 0.9, 0.999):
        h = law.half_width(level)
        assert p[np.abs(z) <= h].sum() >= level - 1e-9
        assert p[np.abs(z) <= h - 1].sum() < level


def test_projection_errs_by_what_the_law_tells(rng):
    """Noise less its mean over classes, 20,000 vectors: within 5.5 standard errors and the
    difference of continuous and discrete noise, below a hundredth of a label here."""
    law = DiscreteGaussian(0.05, 0.05).law(5)
    noise = rng.choice(law.support, p=law.probability, size=(20_000, 5))
    error = np.abs(noise - noise.mean(axis=1, keepdims=True)).sum(axis=1)
    margin = 5.5 * error.std() / math.sqrt(error.size) + 0.01
    assert abs(error.mean() - law.projected_l1) < margin


def test_draws_have_their_law():
    """Acceptance A11: 200,000 draws, and a scale wrong by 5 % is found out by the same test."""
    draws = np.array(SystemNoise().discrete_gaussian(5.976642, 200_000))
    assert fits(draws, *law_of(5.976642)) > CHANCE
    assert fits(draws, *law_of(1.05 * 5.976642)) < CHANCE


def law_of(scale):
    support = np.arange(-80, 81)
    probability = np.exp(-((support / scale) ** 2) / 2)
    return support, probability / probability.sum()


def test_released_counts_are_counts_plus_noise_of_the_claimed_scale():
    mechanism = DiscreteGaussian(1.0, 1e-6)
    queries = [counts_query((50, 30, 20))] * 20_000
    noise = (np.array(mechanism.draw_all(queries, SystemNoise())) - [50, 30, 20]).ravel()
    law = mechanism.law(3)
    assert fits(noise, law.support, law.probability) > CHANCE
    one = mechanism.draw(counts_query((3, 1)), SystemNoise())
    assert [type(count) for count in one] == [int, int]


def test_the_event_depends_on_public_things_only():
    mechanism = DiscreteGaussian(0.1, 1e-3)
    assert mechanism.event(counts_query((3, 1))) == mechanism.event(counts_query((0, 4)))


def test_what_more_than_a_moved_task_can_change_is_refused():
    wide = Query("toy", "counts", np.array([3, 1]), Unit.CONSENSUS_LABEL, n=4, l1=4.0)
    with pytest.raises(CountsError, match="l1=4"):
        DiscreteGaussian(0.1, 1e-3).event(wide)


def test_the_ledger_books_epsilon_and_delta(tmp_path):
    ledger = open_toy(tmp_path, delta=1e-3)
    release = ledger.release(DiscreteGaussian(0.5, 1e-4), counts_query())
    left = ledger.statement("toy").left
    assert release.event == DiscreteGaussian(0.5, 1e-4).event(counts_query())
    assert (float(left.epsilon), float(left.delta)) == (0.5, 9e-4)


def test_a_delta_of_one_over_n_has_no_budget(tmp_path):
    """Acceptance A18: such a delta allows publishing whole records."""
    with pytest.raises(ValueError, match="whole records"):
        open_toy(tmp_path, delta=0.25)
    ledger = open_toy(tmp_path, delta=0.2)
    with pytest.raises(LedgerError, match="must be < 1/n"):
        ledger.release(DiscreteGaussian(0.5, 0.1), counts_query((6, 6)))


@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [(0.0, 0.1), (math.nan, 0.1), (101.0, 0.1), (1.0, 0.0), (1.0, 1.0), (1.0, math.nan)],
)
def test_a_price_that_is_none_is_refused(epsilon, delta):
    with pytest.raises(ValueError, match="must be"):
        DiscreteGaussian(epsilon, delta)


def test_what_has_no_law_or_no_delta_is_refused():
    with pytest.raises(ValueError, match="n_classes"):
        DiscreteGaussian(1.0, 1e-6).law(1)
    with pytest.raises(ValueError, match="level"):
        DiscreteGaussian(1.0, 1e-6).law(2).half_width(1.0)
    with pytest.raises(ValueError, match="scale"):
        discrete_gaussian_delta(0.0, 1.0)
    with pytest.raises(ValueError, match="larger"):
        analytic_gaussian_scale(1e-7, 1e-12)


@pytest.mark.parametrize(
    ("scale", "epsilon"),
    [(0.0, 1.0), (-1.0, 1.0), (1e-320, 1.0), (3e5, 1.0), (1.0, 0.0), (1.0, 101.0)],
)
def test_a_continuous_delta_is_for_a_scale_and_an_epsilon_in_range(scale, epsilon):
    sentence = r"scale must be in \[1e-100, 2e5\]|epsilon must be > 0 and at most 100"
    for delta in (analytic_gaussian_delta, discrete_gaussian_delta):
        with pytest.raises(ValueError, match=sentence):
            delta(scale, epsilon)


def test_a_search_that_finds_no_sound_scale_says_so(monkeypatch):
    """As at a price at which the discrete law were far from the continuous one."""
    monkeypatch.setattr(gaussian, "discrete_gaussian_delta", lambda *_: 0.5)
    with pytest.raises(ValueError, match="epsilon must be smaller, got epsilon=7.5 with delta=0.1"):
        gaussian.discrete_gaussian_scale(7.5, 0.1)


def decimal_delta(scale, epsilon):
    """The divergence of discrete Gaussian noise with sixty digits, for scales below a half."""
    with localcontext(prec=60):
        s, reach = Decimal(scale), range(-12, 13)
        half = {parity: Decimal(parity) / 2 for parity in (0, 1)}
        theta = {p: sum((-(((x + h) / s) ** 2)).exp() for x in reach) for p, h in half.items()}
        total = sum((-((x / s) ** 2) / 2).exp() for x in reach) ** 2
        losses = {t: (t + 1) / s**2 - Decimal(str(epsilon)) for t in range(13)}
        weight = {t: (-((t / s) ** 2) / 4).exp() * theta[t % 2] for t in losses}
        return sum(weight[t] * (1 - (-x).exp()) for t, x in losses.items() if x > 0) / total


@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [
        (99.126232, 1.0537733258036194e-30),
        (98.2, 8.260978584897303e-13),
        (81.18, 4.2254886550740176e-12),
        (50.0, 1e-15),
        (99.0, 1.656345558293271e-35),
    ],
)
def test_a_loss_hardly_above_epsilon_is_paid_for(epsilon, delta):
    """As a difference of doubles it was wrong by any factor: the claim was below what the noise realised."""
    scale = DiscreteGaussian(epsilon, delta).scale
    exact_delta = decimal_delta(scale, epsilon)
    assert exact_delta <= Decimal(str(delta))
    assert discrete_gaussian_delta(scale, epsilon) == pytest.approx(float(exact_delta), rel=1e-9)
    smaller = math.sqrt(3 / 99.9)  # its loss at t = 2 is the claim's neighbour
    for _ in range(8):
        smaller = math.nextafter(smaller, 0.0)
        found = discrete_gaussian_delta(smaller, 99.9)
        assert found == pytest.approx(float(decimal_delta(smaller, 99.9)), rel=1e-9)
