import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import chi, norm

from learners.private.gaussian_objective import chi_delta, noise_deviation


def closed_form(epsilon, shift):
    """One problem: section 2(iv) of the learners' specification, replace one."""
    z = max(0.0, (epsilon - shift**2 / 2) / shift)
    lost = math.exp(-(z**2) / 2 - shift * z)
    lost -= shift * math.exp(shift**2 / 2) * math.sqrt(2 * math.pi) * norm.cdf(-z - shift)
    return math.exp(-(z**2) / 2) - math.exp(epsilon - shift**2 / 2) * lost


@pytest.mark.parametrize(
    ("epsilon", "shift"), [(1.0, 0.2), (0.3, 0.07), (0.3, 1.0), (5.0, 0.9), (0.01, 3.0)]
)
def test_delta_of_one_problem_has_its_closed_form(epsilon, shift):
    assert chi_delta(epsilon, shift, 1) == pytest.approx(closed_form(epsilon, shift), rel=1e-9)


@pytest.mark.parametrize("n_problems", [1, 3, 10])
@pytest.mark.parametrize(("epsilon", "shift"), [(1.0, 0.2), (2.0, 0.5), (0.1, 1.0)])
def test_delta_is_the_divergence_that_the_loss_gives(n_problems, epsilon, shift):
    """Oracle: quadrature of max(0, 1 - exp(epsilon - loss)) over the chi law."""

    def integrand(r):
        gain = -math.expm1(min(0.0, epsilon - shift**2 / 2 - shift * r))
        return gain * chi.pdf(r, 2 * n_problems)

    kink = max(0.0, (epsilon - shift**2 / 2) / shift)
    expected = quad(integrand, kink, kink + 20, epsabs=0, epsrel=1e-10, limit=200)[0]
    assert chi_delta(epsilon, shift, n_problems) == pytest.approx(expected, rel=1e-7)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(epsilon=st.floats(0.01, 20.0), delta=st.floats(1e-10, 0.3), n_problems=st.integers(1, 30))
def test_the_deviation_pays_the_delta_asked_for_and_little_less(epsilon, delta, n_problems):
    """Opacus #346: a search for the noise that may end where it costs more than was asked for."""
    shift = 2 * math.sqrt(n_problems) / noise_deviation(epsilon, delta, n_problems)
    assert 0.999 * delta < chi_delta(epsilon, shift, n_problems) <= delta


@settings(max_examples=40, deadline=None, derandomize=True)
@given(epsilon=st.floats(0.01, 20.0), shift=st.floats(0.01, 5.0), n_problems=st.integers(1, 20))
def test_delta_falls_with_epsilon_and_grows_with_shift_and_problems(epsilon, shift, n_problems):
    here = chi_delta(epsilon, shift, n_problems)
    slack = 1e-12 + 1e-9 * here
    assert 0 <= here <= 1
    assert chi_delta(1.1 * epsilon, shift, n_problems) <= here + slack
    assert chi_delta(epsilon, 1.1 * shift, n_problems) >= here - slack
    assert chi_delta(epsilon, shift, n_problems + 1) >= here - slack


def test_problems_together_cost_less_than_each_apart():
    """Ten classes at (1, 1e-6): against a tenth of both for each."""
    assert noise_deviation(1.0, 1e-6, 10) < 0.52 * noise_deviation(0.1, 1e-7, 1)


def test_many_features_are_trained_with_less_noise_than_pure_privacy_needs():
    """108 columns, epsilon .3, delta 1e-6: the mean norm of pure noise is 2 / .3 * 108 = 720."""
    assert noise_deviation(0.3, 1e-6, 1) * math.sqrt(108) == pytest.approx(306, abs=1)


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0.0, 0.1), (math.nan, 0.1), (101.0, 0.1), (1.0, 0.0), (1.0, math.nan)]
)
def test_a_price_that_is_none_is_refused(epsilon, delta):
    with pytest.raises(ValueError, match="must be"):
        noise_deviation(epsilon, delta, 1)


def test_a_price_that_no_noise_has_is_refused():
    with pytest.raises(ValueError, match="must be larger"):
        noise_deviation(1e-9, 1e-12, 1)
