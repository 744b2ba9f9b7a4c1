"""Variational M steps: digammas to their last digits, weights and divergences of Dirichlet columns."""

import numpy as np
import pytest
from scipy.special import digamma, gammaln, polygamma

from quality.aggregation.passes import (
    dirichlet_moved,
    dirichlet_weights,
    exp_digamma,
    subtype_weights,
)
from quality.aggregation.passes.dirichlet import STRIP, exp_digamma_past_one


def test_exp_digamma_is_scipys_to_twelve_digits() -> None:
    """Times what an error of a digamma's last digit comes to: the exponential of a large number has fewer."""
    for x in np.concatenate([np.logspace(-2.5, 18, 400), np.linspace(0.5, 30, 400)]):
        assert exp_digamma(x) == pytest.approx(np.exp(digamma(x)), rel=1e-12)


def test_exp_digamma_goes_on_where_others_underflow_or_overflow() -> None:
    assert 0 < exp_digamma(1e-5) < 1e-300
    assert exp_digamma(1e200) == pytest.approx(1e200)


def test_exp_digamma_rises_as_its_derivative_says() -> None:
    x, step = np.linspace(0.5, 40, 50), 1e-4
    rise = [(exp_digamma(a + step) - exp_digamma(a - step)) / (2 * step) for a in x]
    assert rise == pytest.approx(np.exp(digamma(x)) * polygamma(1, x), rel=1e-6)


def test_exp_digamma_past_one_is_the_other_without_its_step() -> None:
    for x in np.concatenate([np.logspace(0, 18, 400), np.linspace(1, 30, 400)]):
        assert exp_digamma_past_one(x) == pytest.approx(np.exp(digamma(x)), rel=1e-12)
    near_one = np.linspace(1, 3, 500)
    error = [exp_digamma_past_one(x) / np.exp(digamma(x)) - 1 for x in near_one]
    assert np.abs(error).max() < 5e-15


@pytest.mark.parametrize("least", [0.5, 1.0])
def test_weights_and_divergences_are_those_of_dirichlet_columns(
    least: float, rng: np.random.Generator
) -> None:
    """Of a table that has rows for some of each worker's answers alone; priors below 1 go another way."""
    n_workers, n_answers, n_truths = STRIP + 9, 3, 16
    given = rng.random((n_workers, n_answers)) < 0.6
    counts = np.where(given[:, :, None], rng.gamma(0.4, 9, (n_workers, n_answers, n_truths)), 0.0)
    counts[0, :, 5] = 0.0
    pseudo = rng.uniform(least, 4.0, (n_answers, n_truths))
    start = np.concatenate([[0], np.cumsum(given.sum(axis=1))])
    answer = np.nonzero(given)[1]
    rows, prior = by_part(counts[given]), by_part(pseudo)
    weight = np.empty(rows.shape)
    dirichlet_weights(rows, answer, start, prior, 2, weight)
    after = counts + pseudo
    log_weight = digamma(after) - digamma(after.sum(axis=1, keepdims=True))
    assert weight == pytest.approx(by_part(np.exp(log_weight[given])), rel=1e-12)
    moved = (counts * log_weight - gammaln(after) + gammaln(pseudo)).sum()
    moved += (gammaln(after.sum(axis=1)) - gammaln(pseudo.sum(axis=0))).sum()
    found = dirichlet_moved(rows, answer, start, prior, 2, weight)
    assert found == pytest.approx(moved, rel=1e-11)


def by_part(table: np.ndarray) -> np.ndarray:
    """A table of rows and truths, as kernels have it: a part for every eight truths."""
    parts = table.reshape(len(table), -1, 8).transpose(1, 0, 2)
    return np.ascontiguousarray(parts).reshape(len(parts), -1)


def test_weights_of_subtypes_are_of_their_class_and_those_of_no_class_are_zero(
    rng: np.random.Generator,
) -> None:
    mass, truth = rng.gamma(1.0, 20, 8), np.arange(8)  # two classes of three
    found = subtype_weights(mass, truth, 2, 3, 1.0, 0.1)
    of_class = mass[:6].reshape(2, 3)
    expected = digamma(of_class + 0.1 / 3) - digamma(of_class.sum(axis=1, keepdims=True) + 0.1)
    expected += digamma(of_class.sum(axis=1, keepdims=True) + 1) - digamma(of_class.sum() + 2)
    assert found[:6] == pytest.approx(np.exp(expected).reshape(-1), rel=1e-12)
    assert found[6:].tolist() == [0, 0]
