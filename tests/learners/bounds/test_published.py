import itertools
import math

import numpy as np
import pytest

from benchmarks.learners.two_circles import DELTA, law_of_errors, mass_by_errors
from learners.bounds.clopper_pearson import clopper_pearson_bound, upper_limit
from learners.bounds.published import (
    cdp_bound,
    max_information,
    max_information_bound,
    private_training_bounds,
)


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


@pytest.mark.parametrize("failure", [0.3, 0.01])
@pytest.mark.parametrize("epsilon", [0.1, 0.4, 1.0])
def test_no_event_gains_more_than_max_information(epsilon, failure):
    """Exact: randomised response on 6 fair coins; the worst event is where the ratio is above exp(k)."""
    n = 6
    data = np.array(list(itertools.product([0, 1], repeat=n)))
    flips = np.abs(data[:, None] - data[None]).sum(axis=2)
    keep = 1 / (1 + math.exp(-epsilon))
    joint = keep ** (n - flips) * (1 - keep) ** flips / len(data)
    product = np.full_like(joint, 1 / len(data) ** 2)
    nats = max_information(n, epsilon, failure)
    excess = np.maximum(joint - math.exp(nats) * product, 0).sum()
    assert excess <= failure
    assert max_information(n, epsilon, failure) > max_information(n, epsilon, 2 * failure)


@pytest.mark.parametrize(("c", "expected"), [(0.5, 0.493), (1.0, 0.256)])
def test_on_two_circles_at_the_published_epsilon(c, expected):
    """Oneto, Ridella, Anguita (2017), section 4, its experiment with n = 100."""
    n = 100
    epsilon = math.sqrt(math.log(3 / DELTA) / n)
    law = law_of_errors(c, n)
    low, high = math.floor(law @ np.arange(n + 1)), math.ceil(law @ np.arange(n + 1))
    values = [max_information_bound(k, n, epsilon=epsilon, level=0.95).value for k in (low, high)]
    between = law @ np.arange(n + 1) - low
    found = values[0] + between * (values[1] - values[0])
    assert found == pytest.approx(expected, abs=2e-3)


def test_the_failure_is_chosen_where_the_tail_is_largest():
    n, epsilon, delta = 200, 0.1, 0.05
    tails = [
        (delta - delta * share) * math.exp(-max_information(n, epsilon, delta * share))
        for share in np.linspace(0.001, 0.999, 999)
    ]
    best = upper_limit(20, n, max(tails))
    found = max_information_bound(20, n, epsilon=epsilon, level=0.95).value
    assert found == pytest.approx(best, abs=1e-5)


@pytest.mark.parametrize("epsilon", [3.0, 1e155, 1.7e308])
def test_it_applies_at_any_epsilon(epsilon):
    found = max_information_bound(5, 100, epsilon=epsilon, level=0.95)
    assert found.applies
    assert found.value == 1.0 or epsilon == 3.0


@pytest.mark.parametrize("failure", [0.0, 1.0, math.nan])
def test_a_failure_that_is_no_probability_is_refused(failure):
    with pytest.raises(ValueError, match="failure must be in"):
        max_information(10, 0.1, failure)


@pytest.mark.parametrize("n", [10, 300, 20_000])
@pytest.mark.parametrize("scaled", [0.0, 0.3, 1.0, 4.0])
def test_the_first_is_never_above_the_others(n, scaled):
    for errors in {0, 1, n // 10, n // 2, n - 1, n}:
        bounds = private_training_bounds(errors, n, epsilon=scaled / math.sqrt(n), level=0.95)
        assert bounds[0].value <= min(bound.value for bound in bounds[1:]) + 1e-12
        assert {bound.level for bound in bounds} == {0.95}


def test_each_says_what_it_assumes():
    bounds = private_training_bounds(3, 100, epsilon=2.0, level=0.9)
    assert [bound.name for bound in bounds] == ["private transfer", "max-information", "CDP"]
    assert [bound.applies for bound in bounds] == [True, True, False]
    assert all("100" in bound.assumption for bound in bounds)
