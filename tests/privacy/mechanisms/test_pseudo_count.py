"""Draws come from the operating system and cannot be seeded: each statistical test fails by chance
with a probability of at most 1e-6."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.special import gammaln

from privacy import (
    CountsError,
    DirichletPseudoCount,
    InfeasibleFloor,
    PseudoCountDirichletEvent,
    Query,
    Unit,
)
from privacy.accounting.composition import compose
from privacy.mechanisms.dirichlet import MOST_DRAWS, dominating_delta, largest_scale
from privacy.noise import SystemNoise
from tests.privacy.toy import counts_query, open_toy

DEFAULT = DirichletPseudoCount(0.05, 0.05, pseudo_count=49)


def test_the_realised_delta_is_at_most_the_claim():
    event = DEFAULT.event(counts_query((1000, 0)))
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
    one, other = (DEFAULT.event(counts_query(counts)) for counts in ((1000, 0), (500, 500)))
    assert one == other
    assert DEFAULT.draws(10**9, 5) == MOST_DRAWS


def test_proportions_without_the_pseudo_counts_are_unbiased_before_their_projection():
    """50 releases of counts far from the simplex's edge: within 6 standard errors of the truth."""
    counts, noise = (200, 300, 500), SystemNoise()
    drawn = [DEFAULT.draw(counts_query(counts), noise) for _ in range(50)]
    found = np.array([DEFAULT.proportions(one, n=1000) for one in drawn])
    assert np.allclose(found.sum(axis=1), 1)
    assert found.min() > 0  # nothing was projected
    share = (np.array(counts) + 49) / 1147
    concentration = float(DEFAULT.scale) * 1147
    variance = share * (1 - share) * (1 / (concentration + 1) + 1 / sum(drawn[0]))
    error = np.abs(found.mean(axis=0) - np.array(counts) / 1000)
    assert (error < 6 * 1.147 * np.sqrt(variance / 50)).all()


def test_proportions_lie_on_the_simplex():
    found = DEFAULT.proportions([0, 0, 77], n=3)
    np.testing.assert_array_equal(found, [0, 0, 1])


def test_the_ledger_books_epsilon_and_delta(tmp_path):
    ledger = open_toy(tmp_path, delta=0.01, n=60)
    mechanism = DirichletPseudoCount(0.5, 0.005, pseudo_count=20)
    release = ledger.release(mechanism, counts_query((60, 0)))
    assert sum(release.value) == release.event.draws
    assert float(ledger.statement("toy").spent.delta) == 0.005
    assert not ledger.release(mechanism, counts_query((60, 0))).fresh


def test_composition_counts_its_own_loss():
    """The curve composed once is, up to the grid's rounding, that of the pair."""
    event = DEFAULT.event(counts_query((500, 500)))
    exact = dominating_delta(49, float(DEFAULT.scale), 0.05)
    assert exact * (1 - 1e-6) <= compose({event: 1}).delta(0.05) <= exact * 1.01


@pytest.mark.refusal
def test_refusals_come_from_public_numbers():
    with pytest.raises(InfeasibleFloor):
        DirichletPseudoCount(0.05, 0.05, pseudo_count=6)
    for pseudo_count in (0, -1, 7.5, True):
        with pytest.raises(ValueError, match="pseudo_count must be an integer"):
            DirichletPseudoCount(0.05, 0.05, pseudo_count=pseudo_count)
    wide = Query("toy", "counts", np.array([3, 1]), Unit.CONSENSUS_LABEL, n=4, l1=4.0)
    with pytest.raises(CountsError, match="l1"):
        DEFAULT.event(wide)
