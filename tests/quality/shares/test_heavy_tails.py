"""Normal noise of random variance: its moments, and half widths with a closed form."""

import math
from statistics import NormalDist

import numpy as np
import pytest

from quality.shares.heavy_tails import half_width, variance_mixture


@pytest.mark.parametrize("kurtosis", [0.05, 0.7, 2.0, 3.0, 5.0])
def test_a_mixture_keeps_the_variance_and_has_the_kurtosis(kurtosis: float) -> None:
    """A mixture of normal laws has excess kurtosis 3 Var(variance) / E(variance)^2."""
    factor, weight = variance_mixture(kurtosis, 4)
    assert weight.sum() == pytest.approx(1)
    assert weight @ factor == pytest.approx(1)
    assert 3 * (weight @ factor**2 - 1) == pytest.approx(kurtosis)


@pytest.mark.parametrize("kurtosis", [-1.0, 0.0, 0.01])
def test_a_law_that_is_nearly_normal_is_normal(kurtosis: float) -> None:
    factor, weight = variance_mixture(kurtosis, 4)
    assert factor.tolist() == weight.tolist() == [1.0]


def test_a_mixture_is_read_only() -> None:
    factor, _ = variance_mixture(3.0, 4)
    with pytest.raises(ValueError, match="read-only"):
        factor[0] = 0.0


@pytest.mark.parametrize("level", [0.8, 0.95, 0.999])
def test_half_widths_are_those_of_the_normal_and_the_laplace_law(level: float) -> None:
    """P(|x| > h) is exp(-h / scale) for Laplace's law, whose variance is 2 scale^2."""
    normal = half_width(level, np.array([4.0]), [])
    assert normal == pytest.approx(2 * NormalDist().inv_cdf((1 + level) / 2))
    laplace = half_width(level, np.zeros(1), [(np.array([2.0]), 3.0)])
    assert laplace == pytest.approx(-math.log(1 - level), rel=0.01)


def test_a_half_width_of_a_sum_is_that_of_drawn_sums(rng: np.random.Generator) -> None:
    """Of 200,000 draws; five standard errors: a false alarm in 6e-7, and .001 for the quadrature."""
    drawn = rng.normal(0, 1.5, 200_000) + rng.laplace(0, 1, 200_000) + rng.laplace(0, 2, 200_000)
    noises = [(np.array([2.0]), 3.0), (np.array([8.0]), 3.0)]
    reach = half_width(0.95, np.array([2.25]), noises)
    assert abs((np.abs(drawn) <= reach).mean() - 0.95) < 5 * math.sqrt(0.0475 / 200_000) + 0.001


def test_without_errors_the_half_width_is_nothing() -> None:
    np.testing.assert_allclose(half_width(0.95, np.zeros(2), []), 0.0, atol=1e-12)
