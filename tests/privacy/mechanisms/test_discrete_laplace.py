import math

import numpy as np
import pytest

from privacy import DiscreteLaplace
from privacy.noise import SystemNoise
from tests.privacy.test_noise import CHANCE, discrete_laplace_p_value
from tests.privacy.toy import counts_query


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


def test_the_event_depends_on_public_things_only():
    mechanism = DiscreteLaplace(0.1)
    assert mechanism.event(counts_query((3, 1))) == mechanism.event(counts_query((0, 4)))
    assert mechanism.event(counts_query((3, 1))).scale == 20.0


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.nan, math.inf])
def test_epsilon_is_positive_and_finite(epsilon):
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
