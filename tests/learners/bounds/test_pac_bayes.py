import math

import numpy as np
import pytest
from scipy.special import gammaln
from scipy.stats import binom

from benchmarks.learners.two_circles import DELTA, law_of_errors, mass_by_errors
from learners.bounds.clopper_pearson import binary_divergence
from learners.bounds.pac_bayes import (
    drawn_model_bound,
    exponential_gibbs_bound,
    gibbs_bound,
    log_xi,
)


@pytest.mark.parametrize(("n", "expected"), [(100, 13.210), (300, 22.381)])
def test_xi_and_its_range(n, expected):
    """Maurer (2004): between sqrt(n) and 2 sqrt(n)."""
    assert math.exp(log_xi(n)) == pytest.approx(expected, abs=1e-3)
    assert math.sqrt(n) <= math.exp(log_xi(n)) <= 2 * math.sqrt(n)


@pytest.mark.parametrize("rate", [0.01, 0.3, 0.5])
def test_xi_is_the_exponential_moment_whatever_the_rate(rate):
    """The mean of exp(n kl(k / n || p)) over a binomial k."""
    n = 25
    moment = sum(
        binom.pmf(k, n, rate) * math.exp(n * binary_divergence(k / n, rate)) for k in range(n + 1)
    )
    assert moment == pytest.approx(math.exp(log_xi(n)))


@pytest.mark.parametrize(
    ("c", "n", "expected"),
    [(0.5, 100, 0.446), (0.5, 300, 0.333), (1.0, 100, 0.123), (1.0, 300, 0.044)],
)
def test_the_best_temperature_on_two_circles(c, n, expected):
    """Oneto, Ridella, Anguita (2017), its experiment: uniform prior, 51 temperatures share delta."""
    mass, k = mass_by_errors(c, n), np.arange(n + 1)
    values = []
    for gamma in 10 ** np.arange(-2, 3.01, 0.1):
        law = law_of_errors(c, n, float(gamma))
        seen = law > 0
        divergence = float(law[seen] @ np.log(law[seen] / mass[seen]))
        mean_error = float(law @ k / n)
        bound = gibbs_bound(mean_error, n, divergence=divergence, level=1 - DELTA / 51)
        values.append(bound.value)
    assert min(values) == pytest.approx(expected, abs=1e-3)


def test_the_gibbs_bound_covers_a_posterior_chosen_after_the_data():
    """Exact: two models err on records of their own, 12 each; the posterior is the best of a grid."""
    n, rates, level, miss = 12, (0.2, 0.45), 0.8, 0.0
    share = np.linspace(0, 1, 21)
    seen = np.clip(np.stack([share, 1 - share]), 1e-300, 1)
    divergence = (np.stack([share, 1 - share]) * np.log(2 * seen)).sum(axis=0).clip(0)
    for first in range(n + 1):
        for second in range(n + 1):
            failed = any(
                gibbs_bound(
                    min(1.0, (s * first + (1 - s) * second) / n),
                    n,
                    divergence=float(d),
                    level=level,
                ).value
                < s * rates[0] + (1 - s) * rates[1]
                for s, d in zip(share, divergence, strict=True)
            )
            miss += failed * binom.pmf(first, n, rates[0]) * binom.pmf(second, n, rates[1])
    assert miss <= 1 - level


def test_the_bound_of_one_draw_covers_it():
    """Exact: the same two models, one drawn from the posterior ~ exp(-errors)."""
    n, rates, level, miss = 12, (0.2, 0.45), 0.8, 0.0
    for counts in np.ndindex(n + 1, n + 1):
        weight = np.exp(-np.array(counts, float))
        law = weight / weight.sum()
        chance = math.prod(binom.pmf(k, n, rate) for k, rate in zip(counts, rates, strict=True))
        for k, rate, drawn in zip(counts, rates, law, strict=True):
            bound = drawn_model_bound(k, n, log_ratio=math.log(2 * drawn), level=level)
            miss += (bound.value < rate) * chance * drawn
    assert miss <= 1 - level


def test_arguments_out_of_range_are_refused():
    with pytest.raises(ValueError, match="mean_error must be"):
        gibbs_bound(1.2, 10, divergence=0.0, level=0.9)
    with pytest.raises(ValueError, match="divergence must be"):
        gibbs_bound(0.2, 10, divergence=math.nan, level=0.9)
    with pytest.raises(ValueError, match="log_ratio must be"):
        drawn_model_bound(2, 10, log_ratio=math.inf, level=0.9)


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


@pytest.mark.parametrize("n", [1, 7, 299, 300, 2000])
def test_xi_is_its_defining_sum(n):
    k = np.arange(1, n)
    term = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
    term += k * np.log(k / n) + (n - k) * np.log1p(-k / n)
    assert log_xi(n) == pytest.approx(np.log(2 + np.exp(term).sum()), abs=1e-10)


def test_xi_of_billions_of_records_costs_no_more_than_of_ten():
    """Ramanujan: the root of pi n / 2, plus 2 / 3, to order 1 / root of n; the sum took 8 n bytes."""
    for n in (10**9, 10**15):
        exact = math.log(math.sqrt(math.pi * n / 2) + 2 / 3)
        assert log_xi(n) == pytest.approx(exact, abs=1e-9)


def test_a_temperature_whose_square_is_no_double_bounds_nothing():
    assert exponential_gibbs_bound(0.1, 100, gamma=1e308, level=0.9).value == 1.0
