import math

import numpy as np
import pytest

from benchmarks.learners.two_circles import DELTA, law_of_errors, mass_by_errors
from learners.bounds.clopper_pearson import clopper_pearson_bound, upper_limit
from learners.bounds.transfer import cdp_bound


@pytest.mark.parametrize(
    ("c", "n", "expected"),
    [
        (0.5, 4, 0.985), (0.5, 10, 0.895), (0.5, 20, 0.772), (0.5, 50, 0.600), (0.5, 100, 0.4882),
        (0.5, 200, 0.402), (0.5, 300, 0.3623), (1.0, 4, 0.978), (1.0, 10, 0.845),
        (1.0, 50, 0.412), (1.0, 100, 0.2510), (1.0, 300, 0.0909),
    ],
)  # fmt: skip
def test_cdp_on_two_circles(c, n, expected):
    """Oneto, Ridella, Anguita (2017), section 4, reproduced: the bound at the mean error count."""
    mean = law_of_errors(c, n) @ np.arange(n + 1)
    assert upper_limit(mean, n, DELTA**2 / 9) == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize(("c", "expected"), [(0.5, 0.4845), (1.0, 0.2290)])
def test_mean_cdp_bound_on_two_circles(c, expected):
    """The same experiment, the bound averaged over the separator drawn."""
    n = 100
    epsilon = math.sqrt(math.log(3 / DELTA) / n) * (1 - 1e-12)
    bound = [cdp_bound(k, n, epsilon=epsilon, level=1 - DELTA).value for k in range(n + 1)]
    assert law_of_errors(c, n) @ bound == pytest.approx(expected, abs=1e-3)


def test_prior_mass_is_symmetric_between_errors_and_successes():
    mass = mass_by_errors(0.5, 20)
    np.testing.assert_allclose(mass, mass[::-1], atol=1e-9)


def test_cdp_is_never_below_clopper_pearson_of_the_same_count():
    for k in range(51):
        training = cdp_bound(k, 50, epsilon=0.1, level=0.95)
        assert training.value >= clopper_pearson_bound(k, 50, level=0.95).value


def test_cdp_applies_up_to_its_largest_epsilon_only():
    largest = math.sqrt(math.log(60) / 100)
    assert cdp_bound(5, 100, epsilon=largest - 1e-9, level=0.95).applies
    beyond = cdp_bound(5, 100, epsilon=largest + 1e-9, level=0.95)
    assert (beyond.applies, beyond.value) == (False, 1.0)
    assert beyond.assumption.startswith("does not apply")


@pytest.mark.parametrize("epsilon", [-0.1, math.nan])
def test_epsilon_below_zero_is_refused(epsilon):
    with pytest.raises(ValueError, match="epsilon must be >= 0"):
        cdp_bound(1, 10, epsilon=epsilon, level=0.9)
