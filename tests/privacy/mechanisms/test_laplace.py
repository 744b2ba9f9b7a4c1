"""Laplace noise on class counts: lattice and independent.

Noise cannot be seeded: each statistical test fails by chance
with a probability of at most 1e-6.
"""

import itertools
import math
import sys
from fractions import Fraction

import numpy as np
import pytest
from scipy import special, stats

from privacy import (
    CountsError,
    DiscreteLaplace,
    DiscreteLaplaceEvent,
    LatticeLaplace,
    Query,
    Unit,
)
from privacy.noise import SystemNoise
from tests.privacy.test_noise import CHANCE, discrete_laplace_p_value
from tests.privacy.toy import counts_query


def enumerated(n_classes, scale, reach):
    """Oracle: every lattice point with entries up to reach, and its probability."""
    free = itertools.product(range(-reach, reach + 1), repeat=n_classes - 1)
    points = np.array([(*z, -sum(z)) for z in free])
    weight = np.exp(-np.abs(points).sum(axis=1) / scale)
    return points, weight / weight.sum()


@pytest.mark.parametrize(
    ("n_classes", "epsilon", "expected"),
    [
        (2, 1.0, 1.7018363),
        (3, 1.0, 3.6645286),
        (5, 1.0, 7.5339146),
        (10, 1.0, 17.141054),
        (5, 0.05, 159.97619),
    ],
)
def test_expected_l1_has_its_golden_value(n_classes, epsilon, expected):
    """Table T1 of the privacy specification, eight digits; by marginal and by distance."""
    law = LatticeLaplace(epsilon).law(n_classes)
    d, p = law.distance()
    assert law.expected_l1 == pytest.approx(expected, rel=5e-8)
    assert 2 * (d * p).sum() == pytest.approx(expected, rel=5e-8)


@pytest.mark.parametrize(("n_classes", "expected"), [(2, 0.46211716), (5, 0.012698693)])
def test_no_noise_has_its_golden_probability(n_classes, expected):
    """Table T1 of the privacy specification."""
    assert LatticeLaplace(1.0).law(n_classes).distance()[1][0] == pytest.approx(expected, rel=5e-8)


@pytest.mark.parametrize(
    ("n_classes", "epsilon", "reach"), [(2, 0.5, 150), (3, 1.0, 60), (4, 2.0, 22)]
)
def test_the_law_is_that_of_enumerating_the_lattice(n_classes, epsilon, reach):
    points, p = enumerated(n_classes, 2 / epsilon, reach)
    law = LatticeLaplace(epsilon).law(n_classes)
    marginal = np.bincount(points[:, 0] + reach, weights=p, minlength=2 * reach + 1)
    inside = np.abs(law.support) <= reach // 2
    expected = marginal[law.support[inside] + reach]
    np.testing.assert_allclose(law.probability[inside], expected, rtol=1e-6, atol=1e-12)
    d, by_distance = law.distance()
    expected = np.bincount(np.abs(points).sum(axis=1) // 2, weights=p)[: reach // 2]
    np.testing.assert_allclose(by_distance[: reach // 2], expected, rtol=1e-6, atol=1e-12)
    assert d[0] == 0


@pytest.mark.parametrize(
    ("n_classes", "epsilon"), [(2, 1.0), (5, 1.0), (10, 0.1), (50, 0.05), (3, 30.0), (2, 1e-4)]
)
def test_the_marginal_is_a_symmetric_law_and_its_interval_is_the_shortest(n_classes, epsilon):
    law = LatticeLaplace(epsilon).law(n_classes)
    assert law.probability.sum() == pytest.approx(1.0, abs=1e-12)
    assert (law.probability == law.probability[::-1]).all()
    assert (law.support == -law.support[::-1]).all()
    for level in (0.5, 0.9, 0.99):
        h = law.half_width(level)
        assert law.probability[np.abs(law.support) <= h].sum() >= level - 1e-9
        assert law.probability[np.abs(law.support) <= h - 1].sum() < level
    assert law.variance == pytest.approx((law.support.astype(float) ** 2 * law.probability).sum())


def variance_by_totals(n_classes, scale):
    """Given the total t of gains, and of losses, both are uniform among the ways to write it as a sum."""
    c = n_classes
    middle, spread = (c - 1) / math.expm1(1 / scale), math.sqrt(c) * (scale + 2)
    t = np.arange(max(0, int(middle - 60 * spread)), int(middle + 60 * spread), dtype=np.float64)
    log_weight = 2 * (special.gammaln(t + c) - special.gammaln(t + 1) - t / scale)
    weight = np.exp(log_weight - log_weight.max())
    return float((weight * 2 * t * (c - 1) * (t + c)).sum() / weight.sum()) / (c * c * (c + 1))


@pytest.mark.long
@pytest.mark.parametrize(
    ("n_classes", "epsilon"),
    [(2, 1.0), (50, 1.0), (1000, 1e-3), (2, 1e-4), (3, 1e-4), (10_000, 1e-3), (10**6, 1e-2)],
)
def test_the_variance_of_wide_noise_is_right_to_nine_digits(n_classes, epsilon):
    law = LatticeLaplace(epsilon).law(n_classes)
    expected = variance_by_totals(n_classes, law.scale)
    assert law.variance == pytest.approx(expected, rel=1e-9)
    assert law.probability[0] < 1e-16 * law.probability.max()


@pytest.mark.parametrize("epsilon", [700.0, 1e100, sys.float_info.max])
def test_noise_that_hardly_ever_is_has_a_law(epsilon):
    assert LatticeLaplace(epsilon).law(1000).probability.tolist() == [1.0]


def test_the_covariance_is_that_of_enumerating_the_lattice():
    points, p = enumerated(3, 2.0, 60)
    expected = (points * p[:, None]).T @ points
    np.testing.assert_allclose(LatticeLaplace(1.0).law(3).covariance, expected, rtol=1e-6)


def test_two_classes_are_the_geometric_mechanism_on_one_count():
    law = LatticeLaplace(1.0).law(2)
    q = math.exp(-1.0)
    expected = (1 - q) / (1 + q) * q ** np.abs(law.support)
    np.testing.assert_allclose(law.probability, expected, rtol=1e-9, atol=1e-15)


def test_one_moved_task_changes_no_probability_by_more_than_the_claim():
    """Exact over the lattice for three classes: the largest log ratio is epsilon, and is reached."""
    epsilon, scale = 0.7, 2 / 0.7
    points, _ = enumerated(3, scale, 12)
    loss = [
        (np.abs(points - move).sum(axis=1) - np.abs(points).sum(axis=1)) / scale
        for move in ([1, -1, 0], [0, 1, -1], [-1, 0, 1])
    ]
    assert np.abs(loss).max() == pytest.approx(epsilon)


@pytest.mark.parametrize("epsilon", [0.1, 0.3, 1.0, 1 / 3, 0.7, 2.9])
def test_the_realised_epsilon_is_at_most_the_claim(epsilon):
    event = LatticeLaplace(epsilon).event(counts_query((3, 1)))
    assert Fraction(event.l1) / Fraction(event.scale) <= Fraction(repr(epsilon))
    assert event.cost().epsilon == Fraction(repr(epsilon))


def test_draws_keep_the_total_and_have_their_law():
    """Acceptance A10, 20,000 draws at c = 5, epsilon = 1: sum zero, E L1 = 7.534 (5.5 standard
    errors), chi-square of the distance and of each class's noise; 1e-6 for all of it together."""
    counts = np.array([10, 0, 3, 7, 200])
    queries = [counts_query(counts)] * 20_000
    noise = np.array(LatticeLaplace(1.0).draw_all(queries, SystemNoise())) - counts
    law = LatticeLaplace(1.0).law(5)
    assert (noise.sum(axis=1) == 0).all()
    l1 = np.abs(noise).sum(axis=1)
    assert abs(l1.mean() - 7.5339146) < 5.5 * l1.std() / math.sqrt(l1.size)
    assert fits(l1 // 2, *law.distance()) > CHANCE / 4
    for column in noise.T:
        assert fits(column, law.support, law.probability) > CHANCE / 20


def test_the_fit_finds_out_a_scale_wrong_by_a_tenth():
    """The same chi-square on noise of epsilon 1.1: misses with a probability below 1e-6."""
    queries = [counts_query((10, 10, 10))] * 20_000
    noise = np.array(LatticeLaplace(1.1).draw_all(queries, SystemNoise())) - 10
    assert fits(np.abs(noise).sum(axis=1) // 2, *LatticeLaplace(1.0).law(3).distance()) < CHANCE


def fits(draws, support, probability):
    """p-value of a chi-square test, values with fewer than a hundred expected draws put together."""
    common = probability * draws.size >= 100
    observed = np.array([(draws == value).sum() for value in support[common]])
    expected = probability[common] * draws.size
    observed = np.append(observed, draws.size - observed.sum())
    expected = np.append(expected, draws.size - expected.sum())
    return stats.chisquare(observed, expected).pvalue


def test_many_queries_share_a_few_calls_of_the_noise_source():
    class Counting(SystemNoise):
        calls = 0

        def discrete_laplace(self, scale, size):
            self.calls += 1
            return super().discrete_laplace(scale, size)

    noise = Counting()
    LatticeLaplace(0.5).draw_all([counts_query((5, 5, 5))] * 1000, noise)
    assert noise.calls < 30


def test_queries_of_different_shape_are_drawn_together_in_their_order():
    queries = [counts_query((5, 5)), counts_query((1, 2, 3)), counts_query((9, 9))]
    drawn = LatticeLaplace(1.0).draw_all(queries, SystemNoise())
    assert [len(one) for one in drawn] == [2, 3, 2]
    assert [sum(one) for one in drawn] == [10, 6, 18]


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.uint64])
def test_counts_of_any_integer_type_are_drawn_without_overflow(dtype):
    query = counts_query(np.array([100, 0], dtype=dtype))
    assert sum(LatticeLaplace(0.001).draw(query, SystemNoise())) == 100


def test_the_event_depends_on_public_things_only():
    mechanism = LatticeLaplace(0.1)
    assert mechanism.event(counts_query((3, 1))) == mechanism.event(counts_query((0, 4)))


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.nan, math.inf])
def test_epsilon_is_positive_and_finite(epsilon):
    with pytest.raises(ValueError, match=r"epsilon|privacy parameter"):
        LatticeLaplace(epsilon)


def test_what_has_no_law_is_refused():
    with pytest.raises(ValueError, match="n_classes"):
        LatticeLaplace(1.0).law(1)
    with pytest.raises(ValueError, match="level"):
        LatticeLaplace(1.0).law(2).half_width(1.0)
    sentence = "epsilon must be larger, or classes fewer, .* exact law, got a noise scale of 2e.09"
    with pytest.raises(ValueError, match=sentence):
        LatticeLaplace(1e-9).law(2)


def pmf(scale, reach=2000):
    z = np.arange(-reach, reach + 1)
    weight = np.exp(-np.abs(z) / scale)
    return z, weight / weight.sum()


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_the_law_is_that_of_summing_the_probabilities(epsilon):
    law = DiscreteLaplace(epsilon).law(3)
    z, p = pmf(2 / epsilon)
    assert law.variance == pytest.approx((z**2 * p).sum())
    assert law.expected_l1 == pytest.approx(3 * (np.abs(z) * p).sum())
    for level in (0.5, 0.9, 0.95, 0.999):
        h = law.half_width(level)
        assert p[np.abs(z) <= h].sum() >= level - 1e-12
        assert h == 0 or p[np.abs(z) <= h - 1].sum() < level


def test_released_counts_are_counts_plus_noise_of_the_claimed_scale():
    """False alarm at most 1e-6."""
    queries = [counts_query((50, 30, 20))] * 20_000
    drawn = np.array(DiscreteLaplace(1.0).draw_all(queries, SystemNoise()))
    noise = (drawn - [50, 30, 20]).ravel()
    assert discrete_laplace_p_value(noise, 2.0) > CHANCE


def test_the_event_of_independent_noise_depends_on_public_things_only():
    mechanism = DiscreteLaplace(0.1)
    assert mechanism.event(counts_query((3, 1))) == mechanism.event(counts_query((0, 4)))
    assert mechanism.event(counts_query((3, 1))).scale == 20.0


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.nan, math.inf])
def test_independent_noise_has_a_positive_and_finite_epsilon(epsilon):
    with pytest.raises(ValueError, match=r"epsilon|privacy parameter"):
        DiscreteLaplace(epsilon)


def test_one_draw_is_a_list_of_integers():
    drawn = DiscreteLaplace(1.0).draw(counts_query((3, 1)), SystemNoise())
    assert [int, int] == [type(one) for one in drawn]


def test_the_law_needs_two_classes_and_a_level():
    with pytest.raises(ValueError, match="n_classes"):
        DiscreteLaplace(1.0).law(1)
    with pytest.raises(ValueError, match="level"):
        DiscreteLaplace(1.0).law(2).half_width(1.0)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_kurtosis_is_that_of_the_law(epsilon):
    """On two classes lattice noise is discrete Laplace noise of half the scale."""
    lattice, independent = LatticeLaplace(epsilon).law(2), DiscreteLaplace(2 * epsilon).law(2)
    assert lattice.kurtosis == pytest.approx(independent.kurtosis, rel=1e-6)
    z = np.arange(-4_000, 4_001)
    p = np.exp(-np.abs(z) * 2 * epsilon / 2)
    p /= p.sum()
    expected = (p @ z.astype(float) ** 4) / (p @ z.astype(float) ** 2) ** 2 - 3
    assert independent.kurtosis == pytest.approx(expected, rel=1e-9)


def test_fourth_cumulants_of_independent_noises_add_up():
    one, other = LatticeLaplace(1.0).law(4), LatticeLaplace(0.3).law(4)
    both = one.plus(other)
    fourth = [law.kurtosis * law.variance**2 for law in (one, other, both)]
    assert fourth[0] + fourth[1] == pytest.approx(fourth[2], rel=1e-6)


def test_noise_that_is_never_drawn_has_no_kurtosis_and_a_tiny_scale_a_finite_one():
    assert LatticeLaplace(4_000.0).law(3).kurtosis == 0.0
    assert math.isfinite(DiscreteLaplace(4_000.0).law(3).kurtosis)


@pytest.mark.parametrize("level", [0.0, 1.0, -0.1, math.nan])
def test_the_level_of_a_half_width_is_between_none_and_all(level):
    with pytest.raises(ValueError, match="level must be in"):
        DiscreteLaplace(1.0).law(2).half_width(level)


def test_a_law_cannot_be_written_into():
    law = LatticeLaplace(1.0).law(3)
    assert not law.support.flags.writeable
    assert not law.probability.flags.writeable


def test_an_event_of_independent_noise_claims_no_less_than_it_realises():
    assert DiscreteLaplaceEvent(2.0, 2.0, epsilon=1.0).cost().epsilon == 1
    with pytest.raises(ValueError, match="epsilon must be at least l1 / scale, got epsilon=0.99"):
        DiscreteLaplaceEvent(2.0, 2.0, epsilon=0.99)


def test_independent_noise_is_for_class_counts_alone():
    query = Query("toy", "counts", np.array([0.5, 1.5]), Unit.CONSENSUS_LABEL, n=2, l1=2.0)
    with pytest.raises(CountsError):
        DiscreteLaplace(1.0).event(query)
