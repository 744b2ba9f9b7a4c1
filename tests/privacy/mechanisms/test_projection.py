import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq

from privacy import project_to_simplex

vectors = st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=8).map(np.array)
totals = st.floats(0.1, 1e3)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(vectors, totals)
def test_it_is_the_shift_that_a_root_search_finds(value, total):
    """Oracle: the optimum is max(value - shift, 0) with the shift at which entries sum to total."""

    def excess(shift):
        return np.maximum(value - shift, 0).sum() - total

    shift = brentq(excess, value.min() - total - 1, value.max() + 1, xtol=1e-12)
    expected = np.maximum(value - shift, 0)
    np.testing.assert_allclose(project_to_simplex(value, total), expected, atol=1e-8)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(vectors, totals)
def test_it_lies_on_the_simplex_keeps_order_and_is_its_own_projection(value, total):
    found = project_to_simplex(value, total)
    assert (found >= 0).all()
    assert found.sum() == pytest.approx(total, rel=1e-9)
    order = np.argsort(value, kind="stable")
    assert (np.diff(found[order]) >= 0).all()
    np.testing.assert_allclose(project_to_simplex(found, total), found, atol=1e-9 * total)


def test_no_point_of_the_simplex_is_nearer(rng):
    for _ in range(50):
        value = rng.normal(scale=10, size=4)
        nearest = np.linalg.norm(project_to_simplex(value, 5.0) - value)
        others = 5.0 * rng.dirichlet(np.ones(4), size=200)
        assert nearest <= np.linalg.norm(others - value, axis=1).min() + 1e-9


def test_large_values_keep_their_differences():
    found = project_to_simplex(np.array([1e300, 1e300]), 1.0)
    assert found.tolist() == [0.5, 0.5]
    assert project_to_simplex(np.array([1.7e308, -1.7e308, 0.0]), 1.0).tolist() == [1.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("value", "total"),
    [
        ([], 1.0),
        pytest.param([[1.0]], 1.0, marks=pytest.mark.refusal),
        ([np.nan], 1.0),
        ([np.inf], 1.0),
        ([1.0], 0.0),
        ([1.0], np.nan),
    ],
)
def test_what_has_no_projection_is_refused(value, total):
    with pytest.raises(ValueError, match="must be"):
        project_to_simplex(np.array(value), total)
