"""Dirichlet releases from an urn, with a clamp and with pseudo-counts.

Draws cannot be seeded: each statistical test fails by chance
with a probability of at most 1e-6.
"""

import math
import time
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats
from scipy.special import betaln, gammaln

from privacy import (
    CountsError,
    DirichletPseudoCount,
    InfeasibleFloor,
    PseudoCountDirichletEvent,
    Query,
    Unit,
)
from privacy.accounting.composition import compose
from privacy.mechanisms import ClampedDirichletEvent
from privacy.mechanisms.dirichlet import (
    MAX_DRAWS,
    DirichletClamp,
    clamp_delta,
    dominating_delta,
    draw_urn,
    largest_clamp_scale,
    largest_scale,
)
from privacy.noise import SystemNoise
from tests.privacy.mechanisms.test_laplace import fits
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


def test_an_urn_of_ten_thousand_colours_is_drawn_by_bisection():
    """A scan of the colours took time with their number for each draw; colours of weight 0 never come."""
    counts = np.arange(10_000) % 2
    began = time.perf_counter()
    drawn = draw_urn(counts, Fraction(1, 2), 50_000, SystemNoise())
    assert time.perf_counter() - began < 5
    assert sum(drawn) == 50_000
    assert not any(drawn[::2])


def test_a_drawn_colour_gains_the_denominator():
    """Weights 2 and 4; 1 falls on the first, then 6 on what it gained, then 3 on the second."""
    noise = Scripted(1, 6, 3)
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
    assert DEFAULT.draws(10**9, 5) == MAX_DRAWS


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
@pytest.mark.parametrize(
    ("scale", "draws"), [("0", 10), ("-1", 10), ("1/2", 0), ("1/2", 2.0), ("1/2", True)]
)
@pytest.mark.parametrize("kind", [ClampedDirichletEvent, PseudoCountDirichletEvent])
def test_an_urn_has_a_scale_and_a_draw(kind, scale, draws):
    with pytest.raises(ValueError, match="must be (an integer )?>"):
        kind(scale, 49, draws=draws, epsilon=0.05, delta=0.05)


@pytest.mark.refusal
def test_refusals_come_from_public_numbers():
    with pytest.raises(InfeasibleFloor):
        DirichletClamp(0.05, 0.05, floor=6)
    for floor in (0, -1, 7.5, True):
        with pytest.raises(ValueError, match="floor must be an integer"):
            DirichletClamp(0.05, 0.05, floor=floor)
    for n in (0, 2.5, math.nan, math.inf):
        with pytest.raises(ValueError, match=r"n must be an integer from 1 to 2\*\*53, got n="):
            DEFAULT.draws(n, 2)
    for n_classes in (1, 2.5, math.inf):
        with pytest.raises(ValueError, match="n_classes must be an integer from 2 to 1000000"):
            DEFAULT.draws(10, n_classes)
    wide = Query("toy", "counts", np.array([3, 1]), Unit.CONSENSUS_LABEL, n=4, l1=4.0)
    with pytest.raises(CountsError, match="l1"):
        DEFAULT.event(wide)


PSEUDO_COUNT = DirichletPseudoCount(0.05, 0.05, pseudo_count=49)


def test_the_realised_delta_is_at_most_the_claim_with_pseudo_counts():
    event = PSEUDO_COUNT.event(counts_query((1000, 0)))
    assert Fraction(event.scale) == largest_scale(49, 0.05, 0.05)
    assert dominating_delta(49, float(Fraction(event.scale)), 0.05) <= event.delta
    with pytest.raises(ValueError, match="at least what the scale realises"):
        PseudoCountDirichletEvent("4/5", 49, draws=9, epsilon=0.05, delta=0.05)
    with pytest.raises(ValueError, match="draws"):
        PseudoCountDirichletEvent("1/2", 49, draws=0, epsilon=0.05, delta=0.05)


def test_no_neighbours_exceed_the_claim():
    """By enumeration, of urns of 12 draws: both directions, from counts of zero up."""
    mechanism, epsilon = DirichletPseudoCount(0.5, 0.1, pseudo_count=2), 0.5
    scale, releases = float(mechanism.scale), np.arange(13)
    ways = gammaln(13) - gammaln(releases + 1) - gammaln(13 - releases)

    def law(counts):
        outcomes = np.column_stack([releases, 12 - releases])
        found = np.exp(ways + mechanism.log_likelihood(counts_query(counts), outcomes))
        return found / found.sum()

    worst = 0.0
    for first in range(6):
        one, other = law((first, 6 - first)), law((first + 1, 5 - first))
        for p, q in ((one, other), (other, one)):
            worst = max(worst, float(np.maximum(p - np.exp(epsilon) * q, 0).sum()))
    assert 0 < worst <= dominating_delta(2, scale, epsilon) <= mechanism.delta


def test_event_and_draws_depend_on_public_things_only():
    one, other = (PSEUDO_COUNT.event(counts_query(counts)) for counts in ((1000, 0), (500, 500)))
    assert one == other
    assert PSEUDO_COUNT.draws(10**9, 5) == MAX_DRAWS


@pytest.mark.long
def test_proportions_without_the_pseudo_counts_are_unbiased_before_their_projection():
    """50 releases of counts far from the simplex's edge: within 6 standard errors of the truth."""
    counts, noise = (200, 300, 500), SystemNoise()
    drawn = [PSEUDO_COUNT.draw(counts_query(counts), noise) for _ in range(50)]
    found = np.array([PSEUDO_COUNT.proportions(one, n=1000) for one in drawn])
    assert np.allclose(found.sum(axis=1), 1)
    assert found.min() > 0  # nothing was projected
    share = (np.array(counts) + 49) / 1147
    concentration = float(PSEUDO_COUNT.scale) * 1147
    variance = share * (1 - share) * (1 / (concentration + 1) + 1 / sum(drawn[0]))
    error = np.abs(found.mean(axis=0) - np.array(counts) / 1000)
    assert (error < 6 * 1.147 * np.sqrt(variance / 50)).all()


def test_proportions_lie_on_the_simplex():
    found = PSEUDO_COUNT.proportions([0, 0, 77], n=3)
    np.testing.assert_array_equal(found, [0, 0, 1])


def test_the_ledger_books_epsilon_and_delta_with_pseudo_counts(tmp_path):
    ledger = open_toy(tmp_path, delta=0.01, n=60)
    mechanism = DirichletPseudoCount(0.5, 0.005, pseudo_count=20)
    release = ledger.release(mechanism, counts_query((60, 0)))
    assert sum(release.value) == release.event.draws
    assert float(ledger.statement("toy").spent.delta) == 0.005
    assert not ledger.release(mechanism, counts_query((60, 0))).fresh


def test_composition_counts_its_own_loss():
    """The curve composed once is, up to the grid's rounding, that of the pair."""
    event = PSEUDO_COUNT.event(counts_query((500, 500)))
    exact = dominating_delta(49, float(PSEUDO_COUNT.scale), 0.05)
    assert exact * (1 - 1e-6) <= compose({event: 1}).delta(0.05) <= exact * 1.01


@pytest.mark.refusal
def test_proportions_are_of_what_an_urn_gave_and_of_a_number_of_tasks():
    for value in ([], [0, 0], [-1, 1], [math.nan, 1], [math.inf, 1], [[1, 2]]):
        with pytest.raises(ValueError, match="value must be the urn's counts: numbers >= 0"):
            PSEUDO_COUNT.proportions(value, n=10)
    for n in (0, -1, math.nan, math.inf):
        with pytest.raises(ValueError, match=r"n must be an integer from 1 to 2\*\*53, got n="):
            PSEUDO_COUNT.proportions([1, 2], n=n)


@pytest.mark.refusal
def test_refusals_come_from_public_numbers_with_pseudo_counts():
    with pytest.raises(InfeasibleFloor):
        DirichletPseudoCount(0.05, 0.05, pseudo_count=6)
    for pseudo_count in (0, -1, 7.5, True):
        with pytest.raises(ValueError, match="pseudo_count must be an integer"):
            DirichletPseudoCount(0.05, 0.05, pseudo_count=pseudo_count)
    wide = Query("toy", "counts", np.array([3, 1]), Unit.CONSENSUS_LABEL, n=4, l1=4.0)
    with pytest.raises(CountsError, match="l1"):
        PSEUDO_COUNT.event(wide)


def test_the_smallest_floor_number_of_draws_and_number_of_tasks_is_one():
    assert DirichletClamp(3.0, 0.1, floor=1).draws(1, 2) == math.ceil(
        100 * DirichletClamp(3.0, 0.1, floor=1).scale
    )
    assert DirichletPseudoCount(3.0, 0.1, pseudo_count=1).scale > 0
    for kind in (ClampedDirichletEvent, PseudoCountDirichletEvent):
        assert kind("1/2", 49, draws=1, epsilon=0.05, delta=0.05).draws == 1
