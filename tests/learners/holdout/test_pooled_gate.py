"""The gate of fresh holdouts: what passes, what is refuted, and the bound."""

from __future__ import annotations

import math

import numpy as np
import pytest

from learners.bounds import clopper_pearson_bound
from learners.holdout import (
    ScoreCounts,
    fitted_gate,
    judge_pooled,
    planned_power,
    pooled_error_limit,
)

YEARS = 2_000


def said(
    rng: np.random.Generator, shares: tuple[float, float], months: int, variance: float = 2.0
) -> float:
    """Share of years whose gate says overfit; months of 213 training and 67 holdout rows."""
    sizes, deviation = (213, 67), np.sqrt(variance)
    drawn = [
        rng.binomial(n, share, (YEARS, months))
        + np.rint(deviation * rng.normal(size=(YEARS, months))).astype(int)
        for n, share in zip(sizes, shares, strict=True)
    ]
    overfit = 0
    for year in range(YEARS):
        train, holdout = (
            ScoreCounts(tuple(right[year].tolist()), (n,) * months, variance)
            for right, n in zip(drawn, sizes, strict=True)
        )
        overfit += judge_pooled(train, holdout).status == "overfit"
    return overfit / YEARS


@pytest.mark.parametrize("months", [1, 2, 4, 6, 12])
@pytest.mark.parametrize("right", [0.6, 0.85])
def test_a_sound_model_passes_99_times_in_100(
    months: int, right: float, rng: np.random.Generator
) -> None:
    """Least share seen .993; at .997 the chance of more than 1.6 % of 2,000 years is below 1e-10."""
    assert said(rng, (right, right), months) < 0.016


@pytest.mark.parametrize("months", [6, 8, 10, 12])
def test_a_model_overfitted_by_a_tenth_is_refuted_9_times_in_10(
    months: int, rng: np.random.Generator
) -> None:
    """Least power seen .92; below .89 its chance is 1e-6."""
    assert said(rng, (0.9, 0.8), months) > 0.89


def test_hard_months_of_which_little_was_trained_on_are_no_gap(rng: np.random.Generator) -> None:
    """Models as good on both, .6 right in a month of 400 of 600 held out, .9 in one of 67 of 2,067.

    Of 2,000 years the pooled shares, .87 and .64, would refute each.
    """
    sizes, right, overfit = ((200, 2_000), (400, 67)), np.array([0.6, 0.9]), 0
    drawn = [rng.binomial(n, right, (YEARS, 2)) for n in sizes]
    for year in range(YEARS):
        train, holdout = (
            ScoreCounts(tuple(found[year].tolist()), n, 0.0)
            for found, n in zip(drawn, sizes, strict=True)
        )
        overfit += judge_pooled(train, holdout).status == "overfit"
    assert overfit / YEARS < 0.016


def test_months_have_the_weights_of_least_variance() -> None:
    """Oracle: no other weights of two months have a smaller deviation."""
    n, held = np.array([200, 2_000]), np.array([400, 67])
    found = judge_pooled(
        ScoreCounts((160, 1_600), (200, 2_000), 0.0), ScoreCounts((320, 54), (400, 67), 0.0)
    )
    of_first = np.linspace(0, 1, 1_001)
    weights = np.array([of_first, 1 - of_first])
    share = 0.8
    deviations = np.sqrt(share * (1 - share) * (weights**2).T @ (1 / n + 1 / held))
    assert found.deviation == pytest.approx(deviations.min(), rel=1e-2)
    assert (
        planned_power(ScoreCounts((0, 0), (200, 2_000), 3.0), ScoreCounts((0, 0), (400, 67), 2.0))[
            0
        ]
        > planned_power(
            ScoreCounts((0, 0), (200, 2_000), 0.0), ScoreCounts((0, 0), (400, 67), 0.0)
        )[0]
    )


def test_a_small_first_month_says_how_little_it_can_refute() -> None:
    first = planned_power(ScoreCounts((0,), (213,), 12.0), ScoreCounts((0,), (67,), 0.04))
    whole = planned_power(ScoreCounts((0,), (2560,), 144.0), ScoreCounts((0,), (800,), 0.5))
    assert first[0] > 0.15
    assert first[1] < 0.2 < 0.9 < whole[1]


def test_noise_widens_the_threshold() -> None:
    counts = {"right": (180,), "n": (213,)}
    exact, noisy = (
        judge_pooled(ScoreCounts(**counts, variance=one), ScoreCounts((56,), (67,), one))
        for one in (0.0, 40.0)
    )
    assert noisy.threshold > exact.threshold
    assert noisy.gap == exact.gap


def test_the_bound_holds_with_its_probability(rng: np.random.Generator) -> None:
    """Of 2,000 models at least .95; a bound that fails 5 times in 100 fails 170 times with chance 1e-11."""
    wrong, n, missed = 0.2, 67, 0
    for right in rng.binomial(n, 1 - wrong, 2_000).tolist():
        noisy = right + int(rng.integers(-1, 2))
        missed += pooled_error_limit(noisy, n, half_width=1, level=0.95) < wrong
    assert missed < 170


@pytest.mark.parametrize(
    ("right", "half_width", "wrong"), [(56, 1, 12), (67, 0, 0), (80, 2, 0), (-4, 1, 67), (1, 0, 66)]
)
def test_the_bound_is_clopper_pearsons_of_as_many_wrong_answers_as_the_noise_leaves(
    right: int, half_width: int, wrong: int
) -> None:
    """Between none of them and all, whatever the noise makes of the count."""
    found = pooled_error_limit(right, 67, half_width=half_width, level=0.9)
    assert found == pytest.approx(clopper_pearson_bound(wrong, 67, level=0.95).value)


def test_the_threshold_is_the_largest_gap_that_agrees() -> None:
    """Of 2,000 records in each sample, where gap and threshold are one double."""
    train, holdout = ScoreCounts((1525,), (2000,), 0.0), ScoreCounts((1400,), (2000,), 0.0)
    deviation = judge_pooled(train, holdout).deviation
    found = judge_pooled(train, holdout, tolerance=0.0625 + 1.65 * deviation)
    assert found.gap == found.threshold == 0.0625
    assert found.status == "agrees"


@pytest.mark.parametrize("tolerance", [0.0, 1.0, -0.1, math.nan])
@pytest.mark.parametrize("judge", [judge_pooled, planned_power])
def test_a_tolerance_is_a_share_between_none_and_all(judge, tolerance) -> None:
    one = ScoreCounts((1,), (1,), 0.5)
    with pytest.raises(ValueError, match="tolerance must be in"):
        judge(one, one, tolerance=tolerance)


def test_counts_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="sizes >= 1"):
        ScoreCounts((0,), (0,), 0.0)
    with pytest.raises(ValueError, match="one count for each size"):
        ScoreCounts((1, 2), (3,), 0.0)
    with pytest.raises(ValueError, match="variance must be"):
        ScoreCounts((1,), (3,), -1.0)
    with pytest.raises(ValueError, match="months must be as many"):
        judge_pooled(ScoreCounts((1,), (3,), 0.0), ScoreCounts((1, 1), (3, 3), 0.0))
    with pytest.raises(ValueError, match="months must be as many"):
        planned_power(ScoreCounts((1,), (3,), 0.0), ScoreCounts((1, 1), (3, 3), 0.0))


@pytest.mark.parametrize("n", [30, 67, 400, 4_000])
@pytest.mark.parametrize("budget", [1, 3])
def test_a_fitted_gate_costs_no_more_than_its_price_for_any_size(n: int, budget: int) -> None:
    gate = fitted_gate(2.5, n=n, n_scored=3 * n, epsilon_score=0.2, budget=budget)
    assert 2 * budget / (gate.sigma * n) <= 2.5


@pytest.mark.parametrize(("n", "right"), [(67, 0.8), (400, 0.5), (4_000, 0.8)])
def test_a_model_that_does_not_overfit_passes_a_fitted_gate(
    n: int, right: float, rng: np.random.Generator
) -> None:
    """99 times in 100, of 400,000 first questions; the law is that of the gate, in real numbers."""
    times, price = 400_000, 0.2
    gate = fitted_gate(2.5, n=n, n_scored=3 * n, epsilon_score=price, budget=1)
    scored = rng.binomial(3 * n, right, times) / (3 * n)
    scored = np.clip(scored + rng.laplace(0, 1 / (price * 3 * n), times), 0, 1)
    gap = np.abs(rng.binomial(n, right, times) / n - scored)
    threshold = gate.threshold + rng.laplace(0, 2 * gate.sigma, times)
    assert (gap + rng.laplace(0, 4 * gate.sigma, times) > threshold).mean() < 0.01


@pytest.mark.parametrize(
    ("n", "rows", "price", "right"),
    [(4_000, 5, 2.5, 0.5), (4_000, 20, 10.0, 0.8), (400, 4, 10.0, 0.5), (400, 10, 2.5, 0.5)],
)
def test_a_model_that_does_not_overfit_passes_where_all_rows_of_a_subject_are_alike(
    n: int, rows: int, price: float, right: float, rng: np.random.Generator
) -> None:
    """99 times in 100; with rows taken for independent, 63 to 94 times in the first three."""
    times, score = 400_000, 2.0
    gate = fitted_gate(price, n=n, n_scored=3 * n, epsilon_score=score, budget=1, rows=rows)
    subjects = n // rows
    scored = rng.binomial(3 * subjects, right, times) / (3 * subjects)
    scored = np.clip(scored + rng.laplace(0, 1 / (score * 3 * n), times), 0, 1)
    gap = np.abs(rng.binomial(subjects, right, times) / subjects - scored)
    threshold = gate.threshold + rng.laplace(0, 2 * gate.sigma, times)
    assert (gap + rng.laplace(0, 4 * gate.sigma, times) > threshold).mean() < 0.01


@pytest.mark.parametrize("accuracy", [0.0, 1.0, -0.1, 1.1])
def test_an_accuracy_that_leaves_no_spread_is_refused(accuracy):
    counts = ScoreCounts((0,), (213,), 12.0)
    with pytest.raises(ValueError, match="accuracy must be in"):
        planned_power(counts, counts, accuracy=accuracy)


@pytest.mark.parametrize(
    ("n", "half_width", "level"), [(0, 1, 0.9), (9, -1, 0.9), (9, 1, 0.0), (9, 1, 1.0)]
)
def test_an_error_limit_needs_rows_and_a_level_between_none_and_all(n, half_width, level):
    assert 0 < pooled_error_limit(1, 1, half_width=0, level=0.5) <= 1
    with pytest.raises(ValueError, match="n must be >= 1"):
        pooled_error_limit(1, n, half_width=half_width, level=level)
