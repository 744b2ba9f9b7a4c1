"""Rates shrunk to the worker's and the class's."""

import numpy as np
from scipy.special import digamma, expit

from quality.multilabel.skill_sharing import (
    _digamma,
    first_rates,
    shared_rates,
    silent_chance,
)


def _settled(hit: np.ndarray, asked: np.ndarray, n: int = 60):
    rates = first_rates(hit, asked)
    for _ in range(n):
        rates = shared_rates(hit, asked, rates, fit_strength=True)
    return rates


def test_a_cell_without_counts_has_what_worker_and_class_say() -> None:
    asked = np.full((6, 5), 200.0)
    worker, one = np.linspace(-1, 1, 6), np.linspace(-0.5, 0.5, 5)
    hit = asked * expit(worker[:, np.newaxis] + one)
    asked[0, 0] = hit[0, 0] = 0
    found = _settled(hit, asked)
    # the effects are drawn a little towards their means
    assert abs(found.rate[0, 0] - expit(-1.5)) < 0.01


def test_many_counts_outweigh_what_is_shared() -> None:
    asked = np.full((4, 4), 500.0)
    hit = 0.8 * asked
    hit[2, 3] = 0.05 * 500
    assert abs(_settled(hit, asked).rate[2, 3] - 0.05) < 0.02


def test_workers_whose_rates_agree_share_more() -> None:
    rng = np.random.default_rng(0)
    asked = np.full((30, 20), 50.0)
    alike = rng.binomial(50, 0.7, asked.shape).astype(float)
    apart = rng.binomial(50, rng.beta(2, 2, asked.shape)).astype(float)
    assert _settled(alike, asked).strength > 100
    # drawn with strength 4
    assert 3 < _settled(apart, asked).strength < 6


def test_silence_of_more_workers_says_more() -> None:
    found = silent_chance(np.array([0.0]), np.array([[-1.0]]), np.array([[3.0]]), 4)
    np.testing.assert_allclose(found, expit(-np.arange(4.0))[np.newaxis])


def test_the_digamma_function_is_scipys() -> None:
    x = np.concatenate([np.geomspace(1e-6, 1e7, 400), np.linspace(1, 8, 100)])
    np.testing.assert_allclose([_digamma(one) for one in x], digamma(x), rtol=1e-12, atol=1e-12)
