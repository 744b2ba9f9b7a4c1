import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from benchmarks.learners.set_likelihood import set_likelihood

seeds = st.integers(0, 2**32 - 1)


@settings(deadline=None, derandomize=True, max_examples=30)
@given(seed=seeds)
def test_two_classes_reach_the_maximum_that_a_line_search_finds(seed):
    """Oracle: SciPy's bounded search on the share of class 1."""
    density = np.random.default_rng(seed).exponential(size=(60, 2)) + 1e-3
    found = set_likelihood(density)
    best = minimize_scalar(
        lambda share: -np.log(density @ [1 - share, share]).mean(), bounds=(0, 1), method="bounded"
    )
    assert found.log_likelihood >= -best.fun - 1e-6
    assert found.ratio.sum() == pytest.approx(1, abs=1e-12)
    assert (found.ratio >= 0).all()


@settings(deadline=None, derandomize=True, max_examples=10)
@given(seed=seeds, n_classes=st.integers(2, 6))
def test_no_direction_rises_at_the_maximum(seed, n_classes):
    """First-order conditions: no class has a mean score above 1."""
    density = np.random.default_rng(seed).exponential(size=(200, n_classes)) + 1e-2
    found = set_likelihood(density)
    score = (density / (density @ found.ratio)[:, None]).mean(axis=0)
    assert found.converged
    assert score.max() <= 1 + 1e-3


def test_a_factor_per_point_does_not_matter():
    rng = np.random.default_rng(0)
    density = rng.exponential(size=(50, 3)) + 0.01
    scaled = density * rng.uniform(0.1, 9, size=(50, 1))
    np.testing.assert_allclose(
        set_likelihood(scaled).ratio, set_likelihood(density).ratio, atol=1e-6
    )


@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf])
def test_densities_that_are_none_are_refused(value):
    density = np.ones((3, 2))
    density[1, 0] = value
    with pytest.raises(ValueError, match="density must be > 0"):
        set_likelihood(density)
