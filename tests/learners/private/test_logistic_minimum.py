import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from learners.private.logistic_minimum import ConvergenceError, certified_minimum, minimise


def gradient(row, sign, linear, regularization, weight):
    """The objective's gradient, written one row at a time."""
    total = regularization * weight + linear
    for z, s in zip(row, sign, strict=True):
        total = total - s * z / (1 + math.exp(s * float(z @ weight))) / len(row)
    return total


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 40),
    columns=st.integers(1, 12),
    log_regularization=st.floats(-7, 2),
    log_linear=st.floats(-3, 4),
)
def test_the_gradient_at_the_minimum_is_certified(seed, n, columns, log_regularization, log_linear):
    """From anywhere: separable rows, tiny regularization, noise that dwarfs the loss."""
    rng = np.random.default_rng(seed)
    row = rng.normal(size=(n, columns))
    row /= np.maximum(1, np.linalg.norm(row, axis=1, keepdims=True))
    sign, linear = rng.choice([-1.0, 1.0], n), 10**log_linear * rng.normal(size=columns)
    tolerance = 1e-10 * (1 + 10**log_linear * columns)
    minimum = minimise(
        row, sign, linear, regularization=10**log_regularization, tolerance=tolerance
    )
    assert minimum.gradient_norm <= tolerance
    assert minimum.n_iter < 100


def test_the_reported_gradient_norm_is_the_gradient_at_the_weight(rng):
    row, sign, linear = (
        rng.normal(size=(20, 4)) / 4,
        rng.choice([-1.0, 1.0], 20),
        rng.normal(size=4),
    )
    for max_iter in (1, 2, 50):
        minimum = minimise(row, sign, linear, regularization=0.1, max_iter=max_iter)
        exact = np.linalg.norm(gradient(row, sign, linear, 0.1, minimum.weight))
        assert minimum.gradient_norm == pytest.approx(exact, abs=1e-14)


@pytest.mark.parametrize("weight", [0.5, 1e-3])
def test_rows_of_small_weight_are_a_problem_of_more_regularization(rng, weight):
    """A weight multiplies loss, gradient and curvature alike, so that Newton's steps are as good."""
    row, sign = rng.normal(size=(40, 4)) / 4, rng.choice([-1.0, 1.0], 40)
    light = minimise(row, weight * sign, np.zeros(4), regularization=1e-2 * weight)
    whole = minimise(row, sign, np.zeros(4), regularization=1e-2)
    np.testing.assert_allclose(light.weight, whole.weight, atol=2e-10 / (1e-2 * weight))
    assert light.n_iter <= whole.n_iter + 1


def test_a_point_above_the_tolerance_is_refused(rng):
    row, sign = rng.normal(size=(20, 4)), rng.choice([-1.0, 1.0], 20)
    with pytest.raises(ConvergenceError, match="gradient norm"):
        certified_minimum(row, sign, np.zeros(4), 0.1, tolerance=1e-30)


def test_many_rows_in_blocks_and_from_a_sample_have_the_same_minimum(rng, monkeypatch):
    """Every 16th row, which the start is found from, is labelled against all the others."""
    n = 2**15 + 7
    row = rng.normal(size=(n, 2)) / 4
    sign = np.where(row[:, 0] > 0, 1.0, -1.0)
    sign[::16] *= -1
    linear = np.array([0.01, -0.02])
    found = minimise(row, sign, linear, regularization=0.01)
    assert found.gradient_norm <= 1e-10
    exact = np.linalg.norm(gradient(row, sign, linear, 0.01, found.weight))
    assert exact == pytest.approx(found.gradient_norm, abs=1e-13)
    monkeypatch.setattr("learners.private.logistic_minimum.LARGE", n + 1)
    cold = minimise(row, sign, linear, regularization=0.01)
    assert np.linalg.norm(cold.weight - found.weight) <= 2 * 1e-10 / 0.01
