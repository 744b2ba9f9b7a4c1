import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from learners.class_ratios.simplex_qp import simplex_minima, simplex_qp


def problem(seed, variables, rank):
    """A convex problem of the given rank, its coefficients on very different scales."""
    rng = np.random.default_rng(seed)
    factor = rng.normal(size=(rank, variables)) * 10.0 ** rng.uniform(-3, 0, size=variables)
    return factor.T @ factor, rng.normal(size=variables) * 10.0 ** rng.uniform(-4, 1)


def objective(quadratic, linear, point):
    return point @ quadratic @ point - 2 * linear @ point


def minimum_over_all_supports(quadratic, linear):
    """Oracle: the equality-constrained minimum on every support; the best that is feasible."""
    best = np.inf
    for size in range(1, len(linear) + 1):
        for support in itertools.combinations(range(len(linear)), size):
            chosen = list(support)
            system = np.ones((size + 1, size + 1))
            system[:size, :size], system[size, size] = quadratic[np.ix_(chosen, chosen)], 0
            inner = np.linalg.lstsq(system, np.append(linear[chosen], 1.0))[0][:size]
            if (inner >= -1e-12).all() and abs(inner.sum() - 1) < 1e-9:
                point = np.zeros(len(linear))
                point[chosen] = inner
                best = min(best, objective(quadratic, linear, point))
    return best


sizes = st.integers(1, 4)
seeds = st.integers(0, 2**32 - 1)


@settings(deadline=None, derandomize=True, max_examples=200)
@given(seed=seeds, variables=sizes, rank=st.integers(1, 6))
def test_no_support_has_a_lower_minimum(seed, variables, rank):
    quadratic, linear = problem(seed, variables, rank)
    scale = max(np.abs(quadratic).max(), np.abs(linear).max())
    found = objective(quadratic, linear, simplex_qp(quadratic, linear).point)
    assert found <= minimum_over_all_supports(quadratic, linear) + 1e-11 * scale


@settings(deadline=None, derandomize=True, max_examples=50)
@given(seed=seeds, variables=sizes, rank=st.integers(1, 6))
def test_each_row_of_many_is_the_minimum_for_its_own_linear_part(seed, variables, rank):
    """To 1e-11 of the largest coefficient of all rows, whose scale they share."""
    quadratic, linear = problem(seed, variables, rank)
    many = linear + np.random.default_rng(seed).normal(size=(20, variables))
    scale = max(np.abs(quadratic).max(), np.abs(many).max())
    for one, point in zip(many, simplex_minima(quadratic, many), strict=True):
        assert point.min() >= 0
        assert point.sum() == pytest.approx(1, abs=1e-12)
        least = objective(quadratic, one, simplex_qp(quadratic, one).point)
        assert objective(quadratic, one, point) <= least + 1e-11 * scale


@settings(deadline=None, derandomize=True, max_examples=100)
@given(seed=seeds, variables=st.integers(1, 12), rank=st.integers(1, 12))
def test_the_point_is_on_the_simplex_and_the_gap_certifies_it(seed, variables, rank):
    quadratic, linear = problem(seed, variables, rank)
    minimum = simplex_qp(quadratic, linear)
    scale = max(np.abs(quadratic).max(), np.abs(linear).max())
    assert minimum.point.min() >= 0
    assert minimum.point.sum() == pytest.approx(1, abs=1e-12)
    assert 0 <= minimum.gap <= 1e-10 * scale
    gradient = 2 * (quadratic @ minimum.point - linear)
    duality_gap = minimum.point @ gradient - gradient.min()
    assert minimum.gap == pytest.approx(duality_gap, abs=1e-11 * scale)


@settings(deadline=None, derandomize=True, max_examples=50)
@given(seed=seeds, variables=st.integers(2, 6))
def test_relabelling_the_variables_relabels_the_point(seed, variables):
    quadratic, linear = problem(seed, variables, variables + 2)
    quadratic += 0.01 * np.eye(variables)  # one minimum only
    order = np.random.default_rng(seed).permutation(variables)
    relabelled = simplex_qp(quadratic[np.ix_(order, order)], linear[order]).point
    np.testing.assert_allclose(relabelled, simplex_qp(quadratic, linear).point[order], atol=1e-7)


def test_the_identity_projects_on_the_simplex():
    """Worked by hand: (0.9, 0.7, 0) less 0.3 on the support."""
    np.testing.assert_allclose(
        simplex_qp(np.eye(3), np.array([0.9, 0.7, 0.0])).point, [0.6, 0.4, 0.0], atol=1e-12
    )


def test_ties_go_to_the_lower_index():
    assert simplex_qp(np.zeros((2, 2)), np.zeros(2)).point.tolist() == [1.0, 0.0]


@pytest.mark.parametrize(
    ("quadratic", "linear", "message"),
    [
        pytest.param(np.eye(2), np.zeros(3), "square", marks=pytest.mark.refusal),
        (np.zeros((0, 0)), np.zeros(0), "square"),
        (np.diag([1.0, np.nan]), np.zeros(2), "finite"),
        (np.eye(2), np.array([0.0, np.inf]), "finite"),
        (np.array([[1.0, 0.5], [0.0, 1.0]]), np.zeros(2), "symmetric"),
    ],
)
def test_coefficients_that_make_no_problem_are_refused(quadratic, linear, message):
    with pytest.raises(ValueError, match=message):
        simplex_qp(quadratic, linear)
    with pytest.raises(ValueError, match=message):
        simplex_minima(quadratic, linear[None])
