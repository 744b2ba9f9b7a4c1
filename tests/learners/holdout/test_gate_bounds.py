"""The bound from an agreeing holdout: its proof's pieces, and its coverage."""

from __future__ import annotations

import math

import numpy as np
import pytest

from learners import GateAnswer, Thresholdout, agreeing_holdout_bound
from learners.bounds.clopper_pearson import largest_rate
from learners.holdout.gate_bounds import noise_tail

GATE = Thresholdout(threshold=0.05, sigma=0.005, budget=3)
AGREES = GateAnswer(value=0.9, status="agrees", budget_left=3, asked=1)


@pytest.mark.parametrize("probability", [0.4, 0.05, 1e-4])
def test_the_noise_tail_is_that_of_the_two_laplace_draws(probability: float) -> None:
    """Oracle: the convolution of the two densities, summed on a grid."""
    step = 0.02
    grid = np.arange(-120, 120, step)
    gamma, eta = np.exp(-np.abs(grid) / 2) / 4, np.exp(-np.abs(grid) / 4) / 8
    density = np.convolve(gamma, eta, mode="same") * step
    above = density[grid > noise_tail(1.0, probability)].sum() * step
    assert above == pytest.approx(probability, rel=0.01)


def test_the_bound_adds_threshold_noise_and_sampling() -> None:
    bound = agreeing_holdout_bound(AGREES, GATE, n=5000, level=0.95)
    on_holdout = 0.1 + 0.05 + noise_tail(0.005, 0.0125)
    assert bound.value == pytest.approx(largest_rate(on_holdout, math.log(2 / 0.025) / 5000))
    assert bound.value < on_holdout + math.sqrt(math.log(2 / 0.025) / 10_000)  # Hoeffding's
    assert bound.applies


@pytest.mark.parametrize(
    "answer",
    [
        GateAnswer(value=0.9, status="overfit", budget_left=2, asked=1),
        GateAnswer(value=0.9, status="agrees", budget_left=2, asked=2),
        GateAnswer(value=None, status="exhausted", budget_left=0, asked=9),
    ],
)
def test_after_a_refutation_it_does_not_apply(answer: GateAnswer) -> None:
    bound = agreeing_holdout_bound(answer, GATE, n=5000, level=0.95)
    assert (bound.applies, bound.value) == (False, 1.0)


def test_later_questions_have_wider_bounds() -> None:
    later = GateAnswer(value=0.9, status="agrees", budget_left=3, asked=50)
    first, fiftieth = (
        agreeing_holdout_bound(answer, GATE, n=5000, level=0.95).value for answer in (AGREES, later)
    )
    assert first < fiftieth


def test_the_bound_fails_no_more_often_than_it_says(rng: np.random.Generator) -> None:
    """True accuracy 0.7, holdouts of 50, level 0.8, and the training scores that are hardest for it.

    A bound without its sampling term fails at the fourth score in more than 30 % of the gates; the
    false-alarm rate at 4,000 gates and the limit 0.2 + 0.035 is below 1e-6.
    """
    gate, n, gates = Thresholdout(threshold=0.02, sigma=0.002, budget=1), 50, 4000
    for score in np.linspace(0.7, 1.0, 16):
        noise = rng.laplace(scale=0.004, size=gates) + rng.laplace(scale=0.008, size=gates)
        gap = np.abs(rng.binomial(n, 0.7, size=gates) / n - score)
        answer = GateAnswer(value=float(score), status="agrees", budget_left=1, asked=1)
        wrong = agreeing_holdout_bound(answer, gate, n=n, level=0.8).value < 0.3
        assert np.mean((gap <= gate.threshold + noise) & wrong) <= 0.235
