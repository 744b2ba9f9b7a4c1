import math

import numpy as np
import pytest
from scipy.stats import binom

from benchmarks.learners.two_circles import DELTA, law_of_errors
from learners.bounds.pac_bayes import exponential_gibbs_bound


@pytest.mark.parametrize(
    ("c", "n", "expected"),
    [(0.5, 100, 0.5282), (0.5, 300, 0.3905), (1.0, 100, 0.2866), (1.0, 300, 0.1083)],
)
def test_on_two_circles_at_the_published_temperature(c, n, expected):
    """Oneto, Ridella, Anguita (2017), Corollary 5 with its root of n put back."""
    gamma = 0.5 * math.sqrt(n * math.log(3 / DELTA))
    mean_error = float(law_of_errors(c, n) @ np.arange(n + 1) / n)
    bound = exponential_gibbs_bound(mean_error, n, gamma=gamma, level=1 - DELTA)
    assert bound.value == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("gamma", [1.0, 8.0, 40.0])
def test_it_covers_the_mean_true_error(gamma):
    """Exact: three models that err on records of their own, 8 each, under a uniform prior."""
    n, rates, level, miss = 8, np.array([0.1, 0.3, 0.6]), 0.8, 0.0
    for counts in np.ndindex(n + 1, n + 1, n + 1):
        weight = np.exp(-gamma * np.array(counts) / n)
        law = weight / weight.sum()
        bound = exponential_gibbs_bound(float(law @ counts) / n, n, gamma=gamma, level=level)
        if bound.value < law @ rates:
            miss += math.prod(binom.pmf(counts, n, rates))
    assert miss <= 1 - level


def test_it_grows_with_gamma():
    values = [exponential_gibbs_bound(0.1, 50, gamma=float(g), level=0.9).value for g in range(20)]
    assert values == sorted(values)


@pytest.mark.parametrize("gamma", [-1.0, math.nan, math.inf])
def test_a_temperature_out_of_range_is_refused(gamma):
    with pytest.raises(ValueError, match="gamma must be"):
        exponential_gibbs_bound(0.1, 50, gamma=gamma, level=0.9)
    with pytest.raises(ValueError, match="mean_error must be"):
        exponential_gibbs_bound(math.nan, 50, gamma=1.0, level=0.9)
