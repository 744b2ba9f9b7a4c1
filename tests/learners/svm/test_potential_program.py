import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import lsq_linear
from sklearn.linear_model import Lasso

from learners.svm.potential_program import box_lasso, column_moments, epsilon_path


def columns(seed, rows=40, n=15, *, alike=0.0):
    rng = np.random.default_rng(seed)
    K = rng.normal(size=(rows, n)) + alike * rng.normal(size=(rows, 1))
    return (K - K.mean(axis=0)) / K.std(axis=0), rng.normal(size=rows)


def objective(K, y, coef, epsilon):
    return np.square(K @ coef - y).sum() / 2 + epsilon * np.abs(coef).sum()


@settings(deadline=None, derandomize=True, max_examples=30)
@given(seed=st.integers(0, 10**6), share=st.floats(0.01, 0.9), alike=st.sampled_from([0.0, 3.0]))
def test_without_a_bound_the_minimum_is_the_lassos(seed, share, alike):
    K, y = columns(seed, alike=alike)
    epsilon = share * np.abs(K.T @ y).max()
    found = box_lasso(K.T @ K, K.T @ y, epsilon=epsilon)
    oracle = Lasso(alpha=epsilon / len(y), fit_intercept=False, tol=1e-14, max_iter=10**6).fit(K, y)
    np.testing.assert_allclose(found.coef, oracle.coef_, atol=1e-6)
    assert found.violation < 1e-8


@settings(deadline=None, derandomize=True, max_examples=30)
@given(seed=st.integers(0, 10**6), bound=st.floats(0.001, 2.0), rows=st.sampled_from([12, 15, 60]))
def test_without_epsilon_it_is_bounded_least_squares_also_with_more_columns_than_rows(
    seed, bound, rows
):
    K, y = columns(seed, rows)
    found = box_lasso(K.T @ K, K.T @ y, epsilon=0.0, bound=bound, tol=1e-9)
    oracle = lsq_linear(K, y, (-bound, bound), tol=1e-14)
    assert objective(K, y, found.coef, 0.0) <= objective(K, y, oracle.x, 0.0) + 1e-8
    assert (np.abs(found.coef) <= bound).all()


@settings(deadline=None, derandomize=True, max_examples=30)
@given(seed=st.integers(0, 10**6), share=st.floats(0.01, 0.9), bound=st.floats(0.001, 1.0))
def test_nothing_allowed_nearby_is_lower(seed, share, bound):
    K, y = columns(seed)
    epsilon = share * np.abs(K.T @ y).max()
    found = box_lasso(K.T @ K, K.T @ y, epsilon=epsilon, bound=bound)
    least = objective(K, y, found.coef, epsilon)
    rng = np.random.default_rng(seed)
    for size in (1e-4, 1e-2, 1.0):
        for moved in found.coef + size * rng.normal(size=(50, 15)):
            assert least <= objective(K, y, np.clip(moved, -bound, bound), epsilon) + 1e-9


def test_the_violation_is_that_of_the_coefficients_returned():
    K, y = columns(0)
    gram, linear = K.T @ K, K.T @ y
    stopped = box_lasso(gram, linear, epsilon=1.0, max_iter=1)
    slope = gram @ stopped.coef - linear
    expected = np.where(
        stopped.coef == 0, np.abs(slope) - 1, np.abs(slope + np.sign(stopped.coef))
    ).max()
    assert stopped.violation == pytest.approx(expected)
    assert stopped.n_iter == 1
    assert stopped.violation > 1e-3


def test_columns_that_repeat_each_other_are_solved():
    K, y = columns(0)
    K = np.hstack([K, K, K[:, :3]])
    found = box_lasso(K.T @ K, K.T @ y, epsilon=2.0)
    once = box_lasso(K[:, :15].T @ K[:, :15], K[:, :15].T @ y, epsilon=2.0)
    assert objective(K, y, found.coef, 2.0) == pytest.approx(
        objective(K[:, :15], y, once.coef, 2.0), rel=1e-9
    )


@pytest.mark.parametrize("centre", [True, False])
def test_blocks_of_rows_have_the_moments_of_the_whole(rng, centre):
    """Rows of weight 2 count as if they stood there twice, and a large mean costs no digits."""
    K, y = rng.normal(size=(50, 4)) + 1e6 * centre, rng.normal(size=(50, 2))
    K[:, 3] = 7.0
    weight = 1.0 + (np.arange(50) % 2)
    parts = [(K[s : s + 7].copy(), y[s : s + 7], weight[s : s + 7]) for s in range(0, 50, 7)]
    found = column_moments(parts, centre=centre)
    twice = np.repeat(np.arange(50), weight.astype(int))
    mean = K[twice].mean(axis=0) if centre else np.zeros(4)
    target = y[twice] - y[twice].mean(axis=0) if centre else y[twice]
    scale = np.sqrt(np.square(K[twice] - mean).mean(axis=0))
    assert found.scale[3] == (0 if centre else 7)
    kept = slice(0, 3 if centre else 4)
    np.testing.assert_allclose(found.scale[kept], scale[kept], rtol=1e-9)
    unit = (K[twice] - mean)[:, kept] / scale[kept]
    np.testing.assert_allclose(found.gram[kept, kept], unit.T @ unit, atol=1e-6)
    np.testing.assert_allclose(found.linear[:, kept], target.T @ unit, atol=1e-6)
    assert found.weight == weight.sum()


def test_the_first_coefficients_of_a_path_are_zero_and_each_further_row_is_its_minimum():
    K, y = columns(1)
    path = epsilon_path(K, y, n_epsilons=6)
    assert path.n_support[0] == 0
    assert path.n_support[-1] > path.n_support[1] > 0
    for epsilon, coef in zip(path.epsilon, path.coef, strict=True):
        oracle = Lasso(alpha=epsilon, tol=1e-14, max_iter=10**6).fit(K, y)
        np.testing.assert_allclose(coef, oracle.coef_, atol=1e-6)


@pytest.mark.refusal
def test_what_cannot_be_solved_is_refused():
    with pytest.raises(ValueError, match="gram must fit linear"):
        box_lasso(np.eye(2), np.zeros(3), epsilon=0.0)
    for knobs in ({"epsilon": -1.0}, {"epsilon": 0.0, "bound": 0.0}, {"epsilon": 0.0, "tol": -1.0}):
        with pytest.raises(ValueError, match="must be >= 0 and bound > 0"):
            box_lasso(np.eye(2), np.ones(2), **knobs)
    with pytest.raises(ValueError, match="n_epsilons must be >= 2"):
        epsilon_path(np.eye(3), np.ones(3), n_epsilons=1)
    with pytest.raises(ValueError, match="must be finite"):
        epsilon_path(np.full((3, 1), np.nan), np.ones(3))
    with pytest.raises(ValueError, match="got none that does"):
        epsilon_path(np.eye(3), np.ones(3))


@pytest.mark.refusal
def test_a_path_takes_data_frames_and_lists_and_refuses_other_things_in_a_sentence():
    K, y = columns(0)
    expected = epsilon_path(K, y, n_epsilons=4)
    for of, targets in (
        (pd.DataFrame(K), pd.Series(y, index=range(40, 0, -1))),
        (K.tolist(), list(y)),
    ):
        np.testing.assert_array_equal(epsilon_path(of, targets, n_epsilons=4).coef, expected.coef)
    with pytest.raises(ValueError, match="proximity must be numbers"):
        epsilon_path(K.astype(str), y)
    with pytest.raises(ValueError, match="y a target for each row, got shapes"):
        epsilon_path(K, y[:-1])
