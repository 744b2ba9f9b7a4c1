import math
from fractions import Fraction

import numpy as np
import pytest

from learners.bounds.transfer import log_transfer
from learners.holdout.candidate_gate import CandidateGate
from learners.holdout.certified import CertifiedHoldout
from learners.holdout.gate_bounds import noise_tail, value_tail
from learners.holdout.metric_gate import Auc
from learners.holdout.sizing import (
    fitted_gate,
    holdout_widths,
    largest_budget,
    thresholdout_advice,
)
from learners.holdout.thresholdout import Thresholdout
from privacy.accounting import exact
from privacy.mechanism import Question
from tests.learners.holdout.test_thresholdout import alone, holdout_query
from tests.learners.scripted_noise import SeededNoise


def test_the_width_is_noise_and_sampling_at_the_advised_sigma():
    """Both events at their share of 1 - level, and no other sigma does better."""
    n, m, budget, delta = 200_000, 500, 2, 0.05
    advice = thresholdout_advice(0.2, n=n, n_questions=m, budget=budget, level=1 - delta)

    def width(sigma):
        tails = (
            noise_tail(sigma, delta / (4 * budget * m), n),
            value_tail(sigma, delta / 8 / budget, n),
        )
        u = max(tails)
        epsilon, low, high = 2 * budget / (sigma * n), 0.0, 1.0
        for _ in range(60):  # least s whose Hoeffding tail, transferred, is delta / (2 m)
            s = (low + high) / 2
            log_tail = math.log(2) - 2 * n * s * s
            fails = log_tail > 0 or log_transfer(log_tail, n, epsilon) > math.log(delta / (2 * m))
            low, high = (s, high) if fails else (low, s)
        return u + high

    assert advice.width == pytest.approx(width(advice.gate.sigma), rel=1e-6)
    assert advice.width <= min(width(s) for s in np.geomspace(1e-4, 0.1, 60)) + 1e-9
    assert advice.gate.threshold == pytest.approx(0.2 - advice.width)
    assert advice.free == pytest.approx(0.2 - 2 * advice.width)
    assert advice.epsilon == pytest.approx(2 * budget / (advice.gate.sigma * n))


@pytest.mark.parametrize("n", [5_000, 100_000, 1_000_000])
def test_the_largest_budget_keeps_honest_questions_free_and_one_more_does_not(n):
    knobs = {"n": n, "n_questions": 200, "level": 0.95}
    budget = largest_budget(0.2, **knobs)
    if budget:
        assert thresholdout_advice(0.2, budget=budget, **knobs).free >= 0
        assert thresholdout_advice(0.2, budget=budget, **knobs).width <= 0.1
    assert thresholdout_advice(0.2, budget=budget + 1, **knobs).width > 0.1
    assert budget <= largest_budget(0.2, **{**knobs, "n": 2 * n})


def test_a_tolerance_that_cannot_be_kept_gets_no_gate():
    advice = thresholdout_advice(0.05, n=1000, n_questions=100, budget=5, level=0.95)
    assert (advice.gate, advice.free) == (None, 0.0)
    assert advice.reason.startswith("tolerance must exceed")


def test_answers_of_the_advised_gate_are_within_the_tolerance_and_honest_ones_free():
    """40 seeded gates of 60 questions at level 1 - 1e-6, so none may fail: 40 gates but for 8e-5 of
    bounds that are far from tight; true mean 1/2, training means on either side.
    """
    n, tolerance, level = 60_000, 0.3, 1 - 1e-6
    advice = thresholdout_advice(tolerance, n=n, n_questions=60, budget=2, level=level)
    assert advice.gate is not None
    assert advice.free > 0
    for seed in range(40):
        rng, noise = np.random.default_rng(seed), SeededNoise(seed)
        state = advice.gate.start(holdout_query(n), noise)
        right = rng.integers(2, size=n).astype(float)
        for k in range(60):
            train = 0.5 + (0.9 * advice.free if k < 50 else 0.4) * (-1) ** k
            question = Question(f"{k}", {"train": train, "holdout": right})
            state, released = advice.gate.answer(state, question, noise, alone(k + 1))
            if k < 50:
                assert released["status"] == "agrees"
            if released["value"] is not None:
                assert abs(released["value"] - 0.5) <= tolerance


@pytest.mark.parametrize(
    "arguments",
    [{"n_questions": 0}, {"budget": 0}, {"budget": 100}, {"level": 0.0}, {"level": math.nan}],
)
def test_arguments_out_of_range_are_refused(arguments):
    given = {"n": 100, "n_questions": 10, "budget": 2, "level": 0.9} | arguments
    n = given.pop("n")
    with pytest.raises(ValueError, match="must be"):
        thresholdout_advice(0.1, n=n, **given)
    with pytest.raises(ValueError, match="tolerance must be"):
        thresholdout_advice(math.nan, n=100, n_questions=10, budget=2, level=0.9)


@pytest.mark.parametrize("tolerance", [0.0, 1.0, math.nan])
def test_a_tolerance_is_a_share_between_none_and_all(tolerance):
    with pytest.raises(ValueError, match="tolerance must be in"):
        largest_budget(tolerance, n=100, n_questions=10, level=0.9)
    with pytest.raises(ValueError, match="tolerance must be in"):
        thresholdout_advice(tolerance, n=100, n_questions=10, budget=1, level=0.9)


@pytest.mark.refusal
@pytest.mark.parametrize("name", ["n", "n_questions", "budget"])
@pytest.mark.parametrize("odd", [1.5, math.inf, math.nan])
def test_numbers_of_records_questions_and_refutations_are_whole(name, odd):
    """Those that are not ended in a division by zero or in a logarithm of none."""
    given = {"n": 100, "n_questions": 10, "budget": 2, "level": 0.9} | {name: odd}
    for advice in (holdout_widths, lambda n, **other: thresholdout_advice(0.1, n=n, **other)):
        with pytest.raises(ValueError, match=f"{name} must be a whole number >= 1, got {name}="):
            advice(**given)


@pytest.mark.parametrize("knobs", [{"n_questions": 0}, {"n": 1}, {"level": 1.0}])
def test_a_budget_is_sought_for_a_holdout_that_can_be_asked(knobs):
    with pytest.raises(ValueError, match="must be"):
        largest_budget(0.2, **({"n": 100, "n_questions": 10, "level": 0.9} | knobs))


def test_a_tolerance_that_noise_and_sampling_take_whole_leaves_no_threshold():
    knobs = {"n": 100_000, "n_questions": 1, "budget": 2, "level": 0.95}
    width = thresholdout_advice(0.5, **knobs).width
    assert thresholdout_advice(width, **knobs).gate is None


def test_a_width_of_exactly_half_the_tolerance_keeps_honest_questions_free():
    knobs = {"n": 100_000, "n_questions": 1000, "level": 0.95}
    width = thresholdout_advice(0.2, budget=3, **knobs).width
    assert largest_budget(2 * width, **knobs) == 3


def test_no_budget_is_larger_than_the_questions():
    assert largest_budget(0.5, n=10**6, n_questions=3, level=0.95) == 3


FITTED = {"price": 2.5, "n": 1, "n_scored": 1, "epsilon_score": 0.2, "budget": 1, "rows": 1}


@pytest.mark.refusal
@pytest.mark.parametrize("knob", FITTED)
def test_a_gate_is_fitted_to_positive_numbers_alone(knob):
    fitted_gate(**FITTED)
    for odd in (type(FITTED[knob])(0), math.inf, math.nan):
        with pytest.raises(ValueError, match=f"must be .* {knob}={odd}"):
            fitted_gate(**FITTED | {knob: odd})


@pytest.mark.parametrize("n", [67, 101, 400, 999, 4_000])
def test_a_fitted_sigma_is_above_what_the_price_asks_by_less_than_a_tenth(n):
    """Two digits, rounded up: 1.0 to 1.1 is the largest step of them."""
    asked = 2 / (2.5 * n)
    assert (
        asked <= fitted_gate(2.5, n=n, n_scored=n, epsilon_score=0.2, budget=1).sigma < 1.1 * asked
    )


def test_a_fitted_gate_costs_no_more_than_a_price_just_below_two_digits_of_sigma():
    knobs = {"n": 60, "n_scored": 60, "epsilon_score": 0.2, "budget": 1}
    gate = fitted_gate(0.33333333, **knobs)
    assert gate.event(holdout_query(60)).cost().epsilon <= exact(0.33333333)
    assert fitted_gate(Fraction(1, 3), **knobs).sigma == 0.1


@pytest.mark.parametrize(
    ("n", "n_questions", "budget", "fixed", "described", "published"),
    [
        (10**4, 1000, 1, 0.023, 0.035, 0.210),
        (10**4, 1000, 10, 0.023, 0.079, 0.685),
        (10**4, 1000, 100, 0.023, 0.200, 1.001),
        (10**5, 1000, 10, 0.007, 0.026, 0.217),
        (10**5, 1000, 100, 0.007, 0.068, 0.711),
    ],
)
def test_widths_at_practical_sizes(n, n_questions, budget, fixed, described, published):
    """Fixed questions and description length to the third digit; below the published private bound.

    The description's published count also has the questions after the last overfit answer, which are
    not answered here: it is ours with one more.
    """
    knobs = {"n_questions": n_questions, "level": 0.95}
    more = {one.kind: one.width for one in holdout_widths(n, budget=budget + 1, **knobs)}
    assert more["description length"] == pytest.approx(described, abs=1.1e-3)
    widths = {one.kind: one.width for one in holdout_widths(n, budget=budget, **knobs)}
    assert widths["fixed questions"] == pytest.approx(fixed, abs=6e-4)
    assert widths["description length"] < more["description length"]
    assert widths["Thresholdout"] < published
    folds = math.sqrt(math.log(2 * n_questions * budget / 0.05) / (2 * (n // budget)))
    assert widths["fresh folds"] == pytest.approx(folds)


def test_the_narrowest_adaptive_holdout_comes_first():
    for n, budget in [(10**4, 1), (10**4, 30), (10**6, 500)]:
        *adaptive, fixed = holdout_widths(n, n_questions=2000, budget=budget, level=0.9)
        assert [one.width for one in adaptive] == sorted(one.width for one in adaptive)
        assert (fixed.kind, fixed.adaptive, fixed.private) == ("fixed questions", False, False)
        assert all(one.adaptive for one in adaptive)
        assert fixed.width <= adaptive[0].width
        assert [one.kind for one in adaptive if one.private] == ["Thresholdout"]


@pytest.mark.parametrize(
    "arguments",
    [{"n_questions": 0}, {"budget": 0}, {"budget": 100}, {"level": 0.0}, {"level": math.nan}],
)
def test_arguments_of_widths_out_of_range_are_refused(arguments):
    with pytest.raises(ValueError, match="must be"):
        holdout_widths(**({"n": 100, "n_questions": 10, "budget": 2, "level": 0.9} | arguments))


def test_noise_on_the_score_that_outweighs_all_else_refutes_one_honest_model_in_a_hundred_at_most():
    """Of 400,000; beyond three deviations Laplace noise would be in 1.4 of 100."""
    n, price, rng, times = 4_000, 0.005, np.random.default_rng(0), 400_000
    gate = fitted_gate(10.0, n=n, n_scored=n, epsilon_score=price, budget=1)
    scored = rng.binomial(n, 0.5, times) / n + rng.laplace(0, 1 / (price * n), times)
    gap = np.abs(rng.binomial(n, 0.5, times) / n - np.clip(scored, 0, 1))
    threshold = gate.threshold + rng.laplace(0, 2 * gate.sigma, times)
    assert (gap + rng.laplace(0, 4 * gate.sigma, times) > threshold).mean() < 0.01


@pytest.mark.refusal
@pytest.mark.parametrize(
    "build",
    [
        lambda: Thresholdout(0.1, 0.01, True),
        lambda: CandidateGate(True, 1, 1.0),
        lambda: CandidateGate(9, True, 1.0),
        lambda: Auc(True, 1),
        lambda: CertifiedHoldout(9, 0.1, 0.1, n_folds=True, per_fold=1, level=0.9),
        lambda: fitted_gate(**FITTED | {"budget": True}),
    ],
)
def test_a_truth_value_is_no_number_of_anything(build):
    with pytest.raises(ValueError, match="whole number"):
        build()
