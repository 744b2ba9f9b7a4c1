"""Published intervals, noisy count +- half width, against the exact counts they are about.

Counts are integers, so the smallest half width that reaches 90 % overshoots it by what lies on its
last step: little where the noise is wide, and up to ten points where it is narrow.
"""

import math

import numpy as np
import pytest
from scipy import signal, stats

from privacy import DiscreteGaussian, DiscreteLaplace, LatticeLaplace
from privacy.noise import SystemNoise
from tests.privacy.toy import counts_query

CHANCE = 1e-6
LEVEL = 0.9
EXACT = [
    (LatticeLaplace(0.05), 3, 0.9025),
    (LatticeLaplace(0.1), 5, 0.9027),
    (LatticeLaplace(0.5), 5, 0.9105),
    (LatticeLaplace(1.0), 2, 0.9272),
    (LatticeLaplace(1.0), 3, 0.9401),
    (LatticeLaplace(1.0), 5, 0.9499),
    (LatticeLaplace(4.0), 5, 0.9947),
    (DiscreteLaplace(0.05), 3, 0.9010),
    (DiscreteLaplace(0.5), 3, 0.9077),
    (DiscreteLaplace(1.0), 3, 0.9380),
    (DiscreteGaussian(0.05, 0.05), 3, 0.9112),
    (DiscreteGaussian(0.5, 1e-5), 3, 0.9030),
    (DiscreteGaussian(4.0, 1e-6), 3, 0.9637),
]


def named(value):
    return repr(value) if hasattr(value, "event") else None


def brute_law(mechanism, n_classes):
    """Oracle: the law of one class's noise, from its definition alone, on integers around zero."""
    law = mechanism.law(n_classes)
    reach = math.ceil(40 * law.scale)
    z = np.arange(-reach, reach + 1)
    if isinstance(mechanism, DiscreteGaussian):
        weight = np.exp(-((z / law.scale) ** 2) / 2)
        return z, weight / weight.sum()
    one = np.exp(-np.abs(z) / law.scale)
    one /= one.sum()
    if isinstance(mechanism, DiscreteLaplace):
        return z, one
    others = one  # law of the sum of the other classes' noise
    for _ in range(n_classes - 2):
        others = signal.fftconvolve(others, one, mode="same")
    weight = one * others
    return z, weight / weight.sum()


@pytest.mark.parametrize(("mechanism", "n_classes", "expected"), EXACT, ids=named)
def test_the_half_width_is_the_smallest_that_covers(mechanism, n_classes, expected):
    """Exact: at least 90 %, one step less does not reach it, and the overshoot is within that step.

    The figures are this test's own, by the oracle: 94.0 % for lattice Laplace at epsilon 1 and three
    classes, 99.5 % at epsilon 4 and five.
    """
    z, p = brute_law(mechanism, n_classes)
    half_width = mechanism.law(n_classes).half_width(LEVEL)
    covered, less = (p[np.abs(z) <= h].sum() for h in (half_width, half_width - 1))
    assert less < LEVEL <= covered + 1e-12
    assert covered == pytest.approx(expected, abs=5e-5)


@pytest.mark.parametrize("epsilon", [0.01, 0.02, 0.05, 0.1, 0.15])
@pytest.mark.parametrize("n_classes", [2, 3, 10])
def test_wide_noise_is_covered_to_within_a_point(epsilon, n_classes):
    for mechanism in (LatticeLaplace(epsilon), DiscreteLaplace(epsilon)):
        law = mechanism.law(n_classes)
        z, p = brute_law(mechanism, n_classes)
        assert 0.9 - 1e-12 <= p[np.abs(z) <= law.half_width(LEVEL)].sum() < 0.91


@pytest.mark.long
@pytest.mark.parametrize(
    ("mechanism", "counts"),
    [
        (LatticeLaplace(0.5), (400, 60, 30, 8, 2)),
        (DiscreteLaplace(0.5), (90, 10, 0)),
        (DiscreteGaussian(0.5, 1e-5), (500, 300, 200)),
    ],
    ids=named,
)
def test_intervals_of_real_draws_cover_the_exact_counts(mechanism, counts):
    """30,000 releases each, small and zero counts included: every class's coverage is binomial around
    the law's own, and within 88 to 92 %, whose nearer end is 5.7 standard errors away or more."""
    size = 30_000
    drawn = np.array(mechanism.draw_all([counts_query(counts)] * size, SystemNoise()))
    law = mechanism.law(len(counts))
    z, p = brute_law(mechanism, len(counts))
    exact = p[np.abs(z) <= law.half_width(LEVEL)].sum()
    hits = (np.abs(drawn - counts) <= law.half_width(LEVEL)).sum(axis=0)
    for hit in hits.tolist():
        assert stats.binomtest(hit, size, exact).pvalue > CHANCE / len(counts)
        assert 0.88 <= hit / size <= 0.92


@pytest.mark.parametrize("level", [0.5, 0.9, 0.99])
def test_more_classes_or_less_epsilon_never_narrow_the_interval(level):
    widths = [
        [LatticeLaplace(epsilon).law(c).half_width(level) for epsilon in (4.0, 1.0, 0.2, 0.05)]
        for c in (2, 3, 5, 10)
    ]
    assert (np.diff(widths, axis=0) >= 0).all()
    assert (np.diff(widths, axis=1) >= 0).all()
