"""Bounds from an answer of the holdout: the pieces of the proofs, and coverage."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from learners.bounds.clopper_pearson import largest_rate
from learners.bounds.transfer import log_transfer_tail
from learners.holdout.gate_bounds import (
    agreeing_holdout_bound,
    noise_tail,
    private_holdout_bound,
    value_tail,
)
from learners.holdout.thresholdout import STEPS, GateAnswer, Thresholdout
from privacy.mechanism import Question
from tests.learners.holdout.test_thresholdout import alone, holdout_query
from tests.learners.scripted_noise import SeededNoise

GATE = Thresholdout(threshold=0.05, sigma=0.005, budget=3)


def answered(
    value: float | None,
    status: str,
    left: int,
    *,
    asked: int = 1,
    refuted: int = 0,
    number: int = 1,
    epsilon: Fraction | None = Fraction(6, 25),
) -> GateAnswer:
    """An answer of a gate of budget 3, and of sigma .005 and 5,000 records unless given otherwise."""
    return GateAnswer(value, status, left, asked, refuted, number, epsilon)


AGREES = answered(0.9, "agrees", 3)


@pytest.mark.parametrize("probability", [0.4, 0.05, 1e-4])
def test_the_noise_tail_is_that_of_the_two_laplace_draws(probability: float) -> None:
    """Oracle: the convolution of the two densities, summed on a grid."""
    step = 0.02
    grid = np.arange(-120, 120, step)
    gamma, eta = np.exp(-np.abs(grid) / 2) / 4, np.exp(-np.abs(grid) / 4) / 8
    density = np.convolve(gamma, eta, mode="same") * step
    above = density[grid > noise_tail(1.0, probability, n=10**9)].sum() * step
    assert above == pytest.approx(probability, rel=0.01)


@pytest.mark.parametrize("scale", [0.3, 1.0, 7.0, 60.0])
def test_whole_noise_exceeds_the_tails_no_more_often(scale: float) -> None:
    """Oracle: the exact law of discrete draws, steps of one, summed up."""
    reach = 40 * math.ceil(4 * scale)
    z = np.arange(-reach, reach + 1)
    laws = {b: np.exp(-np.abs(z) / (b * scale)) for b in (1, 2, 4)}
    laws = {b: one / one.sum() for b, one in laws.items()}
    both = np.convolve(laws[2], laws[4], mode="same")
    n = 100
    sigma = scale / (STEPS * n)
    for probability in (0.4, 0.05, 1e-3, 1e-6):
        limit = noise_tail(sigma, probability, n) * STEPS * n
        assert both[z > limit].sum() <= probability
        limit = value_tail(sigma, probability, n) * STEPS * n
        assert laws[1][z > limit].sum() <= probability


def test_the_bound_adds_threshold_noise_and_sampling() -> None:
    bound = agreeing_holdout_bound(AGREES, GATE, n=5000, level=0.95)
    on_holdout = 0.1 + 0.05 + noise_tail(0.005, 0.0125, 5000)
    assert bound.value == pytest.approx(largest_rate(on_holdout, math.log(2 / 0.025) / 5000))
    assert bound.value < on_holdout + math.sqrt(math.log(2 / 0.025) / 10_000)  # Hoeffding's
    assert bound.applies
    assert bound.assumption.startswith("the one question about these rows was agreed to; they are")
    more = agreeing_holdout_bound(answered(0.9, "agrees", 3, asked=2), GATE, n=5000, level=0.95)
    assert more.assumption.startswith("all 2 questions about these rows were agreed to; they are")


@pytest.mark.parametrize(
    "answer",
    [
        answered(0.9, "overfit", 2, refuted=1),
        answered(0.9, "agrees", 2, asked=2, refuted=1),
        answered(None, "exhausted", 0, asked=9, refuted=3),
        answered(0.9, "agrees", 3, asked=2, refuted=1, number=2),  # by another gate
    ],
)
def test_after_a_refutation_it_does_not_apply(answer: GateAnswer) -> None:
    bound = agreeing_holdout_bound(answer, GATE, n=5000, level=0.95)
    assert (bound.applies, bound.value) == (False, 1.0)
    assert f"{answer.refuted} of {answer.asked} questions" in bound.assumption


def test_later_questions_have_wider_bounds() -> None:
    later = answered(0.9, "agrees", 3, asked=50)
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
        answer = answered(float(score), "agrees", 1)
        wrong = agreeing_holdout_bound(answer, gate, n=n, level=0.8).value < 0.3
        assert np.mean((gap <= gate.threshold + noise) & wrong) <= 0.235


NOISY_GATE = Thresholdout(threshold=0.05, sigma=0.01, budget=3)


def test_the_bound_adds_threshold_noise_and_transfer():
    n, delta, epsilon = 50_000, 0.05, Fraction(6, 500)
    log_tail = log_transfer_tail(delta / 6 / 2, n, float(epsilon))
    agrees = answered(0.9, "agrees", 3, asked=2, epsilon=epsilon)
    limit = 0.1 + 0.05 + noise_tail(0.01, delta / 6 / 12 / 2, n)
    bound = private_holdout_bound(agrees, NOISY_GATE, n=n, level=0.95)
    assert bound.value == pytest.approx(largest_rate(limit, -log_tail / n))
    overfit = answered(0.9, "overfit", 2, asked=2, refuted=1, epsilon=epsilon)
    limit = 0.1 + 0.01 * math.log(12 / delta) + 3 / (STEPS * n)
    bound = private_holdout_bound(overfit, NOISY_GATE, n=n, level=0.95)
    assert bound.value == pytest.approx(largest_rate(limit, -log_tail / n))


def test_the_private_bound_takes_the_price_and_the_number_of_all_gates():
    """The third gate at three times the price: as a single one's, with shares 1 / (3 4) for 1 / (1 2)."""
    n, delta, epsilon = 50_000, 0.05, Fraction(36, 500)
    third = answered(0.9, "agrees", 3, asked=2 * 3, number=3, epsilon=epsilon)
    limit = 0.1 + 0.05 + noise_tail(0.01, delta / 42 / 12 / 12, n)
    expected = largest_rate(limit, -log_transfer_tail(delta / 42 / 2, n, float(epsilon)) / n)
    bound = private_holdout_bound(third, NOISY_GATE, n=n, level=0.95)
    assert bound.value == pytest.approx(expected)
    assert "epsilon=0.072" in bound.assumption


def test_later_questions_have_wider_private_bounds():
    values = [
        private_holdout_bound(
            answered(0.9, "agrees", 3, asked=asked), NOISY_GATE, n=50_000, level=0.95
        ).value
        for asked in (1, 10, 1000)
    ]
    assert values == sorted(values)
    assert values[0] < values[-1]


def test_once_exhausted_it_does_not_apply():
    closed = answered(None, "exhausted", 0, asked=9, refuted=3)
    bound = private_holdout_bound(closed, NOISY_GATE, n=50_000, level=0.95)
    assert (bound.applies, bound.value) == (False, 1.0)
    assert bound.assumption == "does not apply: the budget was exhausted"


def test_where_something_with_a_delta_read_the_rows_it_does_not_apply():
    beside = answered(0.9, "agrees", 3, asked=9, refuted=1, number=2, epsilon=None)
    bound = private_holdout_bound(beside, NOISY_GATE, n=50_000, level=0.95)
    assert (bound.applies, bound.value) == (False, 1.0)
    assert bound.assumption == "does not apply: what these rows were asked costs a delta too"


def test_an_analyst_who_seeks_out_lucky_records_does_not_break_it():
    """Each question: the attributes that the answers so far favour, true accuracy 1/2 always.

    300 seeded gates at level .8: more than .2 + .12 of them fail with a chance below 1e-6.
    """
    n, gate, failed = 300, Thresholdout(threshold=0.02, sigma=0.05, budget=4), 0
    for seed in range(300):
        rng, noise = np.random.default_rng(seed), SeededNoise(seed)
        right = rng.integers(2, size=(12, n)).astype(float)
        state, weight, broken = gate.start(holdout_query(n), noise), np.zeros(12), False
        for asked in range(12):
            lucky = right[asked] if asked < 8 else ((weight @ (right - 0.5)) > 0).astype(float)
            question = Question(f"{asked}", {"train": 1.0, "holdout": lucky})
            history = alone(asked + 1, gate.event(holdout_query(n)).cost().epsilon)
            state, released = gate.answer(state, question, noise, history)
            answer = GateAnswer.from_json(released)
            bound = private_holdout_bound(answer, gate, n=n, level=0.8)
            broken |= bound.value < 0.5
            if answer.value is not None:
                weight[asked] = answer.value - 0.5
        failed += broken
    assert failed / 300 <= 0.32


@pytest.mark.parametrize("bound", [agreeing_holdout_bound, private_holdout_bound])
def test_a_bound_states_that_nothing_else_chose_the_models(bound):
    """Class counts of the same rows are released too, and could choose them."""
    assumption = bound(AGREES, GATE, n=5000, level=0.95).assumption
    assert assumption.endswith("models chosen without other releases about these rows")


@pytest.mark.parametrize("bound", [agreeing_holdout_bound, private_holdout_bound])
def test_arguments_out_of_range_are_refused(bound):
    answer = answered(0.9, "agrees", 3)
    assert bound(answer, NOISY_GATE, n=1, level=0.9).applies
    with pytest.raises(ValueError, match="n must be"):
        bound(answer, NOISY_GATE, n=0, level=0.9)
    with pytest.raises(ValueError, match="level must be"):
        bound(answer, NOISY_GATE, n=10, level=math.nan)


@pytest.mark.parametrize("probability", [0.0, -0.1, 0.51, math.nan])
def test_a_tails_probability_is_above_none_and_at_most_a_half(probability: float) -> None:
    assert noise_tail(1.0, 0.5, n=100) >= 0.0
    with pytest.raises(ValueError, match="probability must be in"):
        noise_tail(1.0, probability, n=100)


def test_records_of_subjects_are_as_many_as_their_share() -> None:
    bound = agreeing_holdout_bound(AGREES, GATE, n=5000, level=0.95, rows=4)
    on_holdout = 0.1 + 0.05 + noise_tail(0.005, 0.0125, 5000)
    assert bound.value == pytest.approx(largest_rate(on_holdout, math.log(2 / 0.025) / 1250))
    assert "they are of independent subjects, at most 4 of each;" in bound.assumption
    log_tail = log_transfer_tail(0.05 / 2 / 2, 5000, 0.24)
    limit = 0.1 + 0.05 + noise_tail(0.005, 0.05 / 2 / 12 / 2, 5000)
    private = private_holdout_bound(AGREES, GATE, n=5000, level=0.95, rows=4)
    assert private.value == pytest.approx(largest_rate(min(1.0, limit), -log_tail / 1250))
    assert private.assumption.startswith(
        "5000 records of independent subjects, at most 4 of each, "
    )


@pytest.mark.parametrize("bound", [agreeing_holdout_bound, private_holdout_bound])
def test_a_subject_has_one_record_at_least(bound) -> None:
    with pytest.raises(ValueError, match="rows must be a whole number >= 1, got rows=0"):
        bound(AGREES, GATE, n=5000, level=0.95, rows=0)
