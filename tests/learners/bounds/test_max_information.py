import itertools
import math

import numpy as np
import pytest

from benchmarks.learners.two_circles import DELTA, law_of_errors
from learners.bounds.clopper_pearson import upper_limit
from learners.bounds.transfer import max_information, max_information_bound


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


def test_it_applies_at_any_epsilon():
    assert max_information_bound(5, 100, epsilon=3.0, level=0.95).applies


@pytest.mark.parametrize("failure", [0.0, 1.0, math.nan])
def test_a_failure_that_is_no_probability_is_refused(failure):
    with pytest.raises(ValueError, match="failure must be in"):
        max_information(10, 0.1, failure)
