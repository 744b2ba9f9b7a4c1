"""Draws come from the operating system and cannot be seeded: each statistical test fails by chance
with a probability of at most 1e-6."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats
from scipy.special import betaln, gammaln

from privacy import CountsError, Query, Unit
from privacy.mechanisms.dirichlet import (
    MOST_DRAWS,
    DirichletClamp,
    InfeasibleFloor,
    clamp_delta,
    dominating_delta,
    draw_urn,
    largest_clamp_scale,
)
from privacy.mechanisms.kinds import ClampedDirichletEvent
from privacy.noise import SystemNoise
from tests.privacy.mechanisms.test_lattice_laplace import fits
from tests.privacy.toy import counts_query, open_toy

CHANCE = 1e-6
DEFAULT = DirichletClamp(0.05, 0.05, floor=49)


def test_the_urn_draws_beta_binomial_counts():
    """Acceptance A16: each class of 20,000 urns of 30 draws, by chi-square; a scale wrong by a
    third is found out by the same test."""
    counts, scale, draws = np.array([6, 3, 1]), Fraction(2, 5), 30
    noise = SystemNoise()
    found = np.array([draw_urn(counts, scale, draws, noise) for _ in range(20_000)])
    assert (found.sum(axis=1) == draws).all()
    support = np.arange(draws + 1)
    for column, count in zip(found.T, counts, strict=True):
        law = stats.betabinom(draws, 0.4 * count, 0.4 * (10 - count)).pmf(support)
        wrong = stats.betabinom(draws, 0.6 * count, 0.6 * (10 - count)).pmf(support)
        assert fits(column, support, law) > CHANCE / 3
        assert fits(column, support, wrong) < CHANCE


class Scripted(SystemNoise):
    """Uniform integers in the order given; the bounds asked for are recorded."""

    def __init__(self, *script):
        self.script, self.bounds = list(script), []

    def uniform_integer(self, below):
        self.bounds.append(below)
        return self.script.pop(0)


def test_a_drawn_colour_gains_the_denominator():
    """Weights 2 and 4; 1 falls on the first, then 6 of (7, 4) lies inside it, then 7 does not."""
    noise = Scripted(1, 6, 12)
    assert draw_urn(np.array([1, 2]), Fraction(2, 5), 3, noise) == [2, 1]
    assert noise.bounds == [6, 11, 16]


def binomial_log(n, k):
    return gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)


def urn_delta(p, q, scale, draws, epsilon):
    """Oracle: the divergence of the beta-binomial counts of two classes when one task moves."""
    k = np.arange(draws + 1)
    here = betaln(scale * p + k, scale * q + draws - k) - betaln(scale * p, scale * q)
    p, q = p - 1, q + 1
    there = betaln(scale * p + k, scale * q + draws - k) - betaln(scale * p, scale * q)
    excess = np.maximum(0.0, -np.expm1(epsilon + there - here))
    return float(np.exp(binomial_log(draws, k) + here) @ excess)


@pytest.mark.parametrize(
    ("scale", "draws", "expected", "margin"),
    [
        (97 / 125, 10, 0.0074, 5e-5),
        (97 / 125, 100, 0.0330, 5e-5),
        (97 / 125, 1000, 0.0475, 5e-5),
        (97 / 125, 10_000, 0.0497, 5e-5),
        (0.7768347303, 1000, 0.04749, 1e-5),
    ],
)
def test_the_urn_costs_less_than_the_dirichlet(scale, draws, expected, margin):
    """Acceptance A16 (the last) and table T9 of the privacy specification, at floor 49."""
    found = urn_delta(50, 49, scale, draws, 0.05)
    assert found == pytest.approx(expected, abs=margin)
    assert found <= dominating_delta(49, scale, 0.05)


@pytest.mark.parametrize(
    "counts", [(0, 0, 60), (1, 0, 59), (48, 6, 6), (49, 6, 5), (60, 0, 0), (20, 20, 20)]
)
def test_every_vector_of_counts_has_a_release(counts):
    """Acceptance A9: same event, same number of draws, no exception."""
    query = counts_query(counts)
    event = DEFAULT.event(query)
    assert event == DEFAULT.event(counts_query((30, 30, 0)))
    assert sum(DEFAULT.draw(query, SystemNoise())) == event.draws


def test_the_number_of_draws_is_public_and_capped():
    assert DEFAULT.draws(1000, 5) == math.ceil(50 * DEFAULT.scale * 1000)
    assert DEFAULT.draws(10, 5) == math.ceil(50 * DEFAULT.scale * 245)
    assert DEFAULT.draws(10**9, 5) == MOST_DRAWS


def test_the_realised_delta_is_at_most_the_claim():
    event = DEFAULT.event(counts_query((500, 500)))
    assert Fraction(event.scale) == largest_clamp_scale(49, 0.05, 0.05)
    assert clamp_delta(49, float(Fraction(event.scale)), 0.05) <= event.delta
    with pytest.raises(ValueError, match="at least what the scale realises"):
        ClampedDirichletEvent("4/5", floor=49, draws=9, epsilon=0.05, delta=0.05)
    with pytest.raises(ValueError, match="draws"):
        ClampedDirichletEvent("1/2", floor=49, draws=0, epsilon=0.05, delta=0.05)


def test_proportions_of_the_clamped_counts_come_out():
    """50 releases: each class's mean within 6 standard errors of its law's."""
    counts, clamped = (0, 200, 300), np.array([49, 200, 300])
    drawn = np.array([DEFAULT.draw(counts_query(counts), SystemNoise()) for _ in range(50)])
    proportion, expected = drawn / drawn.sum(axis=1, keepdims=True), clamped / clamped.sum()
    concentration = float(DEFAULT.scale) * clamped.sum()
    draws = drawn[0].sum()
    spread = expected * (1 - expected) * (1 / (concentration + 1) + 1 / draws)
    assert (np.abs(proportion.mean(axis=0) - expected) < 6 * np.sqrt(spread / 50)).all()


def test_the_ledger_books_epsilon_and_delta(tmp_path):
    ledger = open_toy(tmp_path, delta=0.01, n=60)
    mechanism = DirichletClamp(0.5, 0.005, floor=20)
    release = ledger.release(mechanism, counts_query((60, 0)))
    assert sum(release.value) == release.event.draws
    assert float(ledger.statement("toy").spent.delta) == 0.005
    assert not ledger.release(mechanism, counts_query((60, 0))).fresh


@pytest.mark.refusal
def test_refusals_come_from_public_numbers():
    with pytest.raises(InfeasibleFloor):
        DirichletClamp(0.05, 0.05, floor=6)
    for floor in (0, -1, 7.5, True):
        with pytest.raises(ValueError, match="floor must be an integer"):
            DirichletClamp(0.05, 0.05, floor=floor)
    with pytest.raises(ValueError, match="n must be"):
        DEFAULT.draws(0, 2)
    wide = Query("toy", "counts", np.array([3, 1]), Unit.CONSENSUS_LABEL, n=4, l1=4.0)
    with pytest.raises(CountsError, match="l1"):
        DEFAULT.event(wide)
