import math

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp
from scipy.stats import binom

from learners.bounds.clopper_pearson import (
    binary_divergence,
    clopper_pearson_bound,
    largest_rate,
    upper_limit,
    upper_limit_at,
)
from learners.bounds.published import cdp_bound


@pytest.mark.parametrize("n", [1, 10, 1000])
def test_without_errors_the_bounds_are_in_closed_form(n):
    holdout = clopper_pearson_bound(0, n, level=0.95)
    training = cdp_bound(0, n, epsilon=0.0, level=0.95)
    assert holdout.value == pytest.approx(1 - 0.05 ** (1 / n), rel=1e-9)
    assert training.value == pytest.approx(1 - (0.05**2 / 9) ** (1 / n), rel=1e-9)


@pytest.mark.parametrize(("n", "level"), [(5, 0.9), (40, 0.95), (100, 0.99)])
@pytest.mark.parametrize("rate", [0.001, 0.05, 0.3, 0.5, 0.97])
def test_coverage_is_at_least_the_level(n, level, rate):
    """Exact: sums the binomial probabilities of the counts whose bound holds."""
    count = np.arange(n + 1)
    probability = binom.pmf(count, n, rate)
    holds = [clopper_pearson_bound(int(k), n, level=level).value >= rate for k in count]
    assert probability[holds].sum() >= level - 1e-12


def test_candidates_share_the_confidence():
    shared = clopper_pearson_bound(7, 80, level=0.95, n_candidates=5)
    assert shared.value == clopper_pearson_bound(7, 80, level=0.99).value
    assert shared.level == 0.95


def test_bounds_grow_with_errors_and_fall_with_records():
    by_errors = [clopper_pearson_bound(k, 30, level=0.95).value for k in range(31)]
    by_records = [cdp_bound(n // 10, n, epsilon=0.0, level=0.95).value for n in range(10, 400, 10)]
    assert by_errors == sorted(by_errors)
    assert by_records == sorted(by_records, reverse=True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"errors": 11}, "errors must be"),
        ({"errors": -1}, "errors must be"),
        pytest.param({"errors": 1.5}, "errors must be", marks=pytest.mark.refusal),
        ({"n": 0}, "n must be"),
        ({"level": 0.0}, "level must be"),
        ({"level": math.nan}, "level must be"),
    ],
)
def test_counts_out_of_range_are_refused_and_not_in_the_message(arguments, message):
    given = {"errors": 3, "n": 10, "level": 0.9} | arguments
    with pytest.raises(ValueError, match=message):
        clopper_pearson_bound(**given)
    with pytest.raises(ValueError, match=message) as refusal:
        cdp_bound(**given, epsilon=0.1)
    assert "11" not in str(refusal.value)


def test_no_candidates_are_refused():
    with pytest.raises(ValueError, match="n_candidates"):
        clopper_pearson_bound(1, 10, level=0.9, n_candidates=0)


@pytest.mark.parametrize(("errors", "n"), [(0, 50), (7, 400), (390, 400), (400, 400)])
def test_the_limit_at_a_tail_too_small_for_a_double_is_above_the_exact_one(errors, n):
    """Chernoff's bound takes over at exp(-700) and stays above, as it does where both can be had."""
    at_the_end = upper_limit(errors, n, math.exp(-700.0))
    assert upper_limit_at(errors, n, -700.0) == at_the_end
    assert at_the_end <= upper_limit_at(errors, n, -700.0 - 1e-9) <= 1
    assert upper_limit_at(errors, n, -5000.0) >= upper_limit_at(errors, n, -800.0)


def log_chance(errors, n, rate):
    """Log of the chance of so many errors or fewer: term by term, as SciPy's is 0 at small ones."""
    k = np.arange(errors + 1)
    chosen = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
    return logsumexp(chosen + k * np.log(rate) + (n - k) * np.log1p(-rate))


@pytest.mark.parametrize(
    ("errors", "n"), [(1, 5), (0, 10), (1, 10), (4, 10), (2, 26), (25, 100), (20, 200), (990, 1000)]
)
@pytest.mark.parametrize("log_tail", [-50.0, -120.0, -320.0, -450.0, -690.0, -700.0])
def test_the_limit_is_exact_at_tails_that_few_records_reach_under_a_large_epsilon(
    errors, n, log_tail
):
    """SciPy's inverse of the Beta law is NaN at some of them, and below the exact limit at others."""
    rate = upper_limit_at(errors, n, log_tail)
    assert errors / n < rate <= 1
    rounding = 1e-6 + n * 1e-15 / max(1 - rate, 1e-16)  # of the last digit of the rate
    if rate < 1:
        assert log_chance(errors, n, rate) <= log_tail + rounding
    assert log_chance(errors, n, rate - 1e-9) >= log_tail


@pytest.mark.parametrize("observed", [0.0, 1e-6, 0.2, 0.9, 1.0])
@pytest.mark.parametrize("divergence", [0.0, 1e-8, 0.01, 1.0, 50.0])
def test_the_inverse_is_the_largest_rate_within_the_divergence(observed, divergence):
    rate = largest_rate(observed, divergence)
    assert observed <= rate <= 1
    if rate < 1:
        assert binary_divergence(observed, rate + 1e-9) > divergence
        assert binary_divergence(observed, max(observed, rate - 1e-6)) <= divergence


def test_it_grows_with_both_arguments_and_keeps_to_pinsker(rng):
    for observed in rng.uniform(0, 1, 20):
        rates = [largest_rate(float(observed), d) for d in np.linspace(0, 2, 30)]
        assert rates == sorted(rates)
        assert all(r <= observed + math.sqrt(d / 2) + 1e-12 for r, d in
                   zip(rates, np.linspace(0, 2, 30), strict=True))  # fmt: skip
    by_observed = [largest_rate(float(q), 0.1) for q in np.linspace(0, 1, 50)]
    assert by_observed == sorted(by_observed)


def test_without_errors_it_is_in_closed_form():
    assert largest_rate(0.0, 0.3) == pytest.approx(1 - math.exp(-0.3))


@pytest.mark.parametrize(
    ("observed", "divergence"),
    [(-0.1, 0.1), (1.1, 0.1), (math.nan, 0.1), (0.1, -1.0), (0.1, math.nan)],
)
def test_arguments_out_of_range_are_refused(observed, divergence):
    with pytest.raises(ValueError, match="must be"):
        largest_rate(observed, divergence)


def law_of_grouped_errors(sizes, rate):
    """Exact law of the errors where all records of a subject are wrong with chance `rate`, or right."""
    law = np.ones(1)
    for size in sizes:
        wrong = np.zeros(size + 1)
        wrong[0], wrong[size] = 1 - rate, rate
        law = np.convolve(law, wrong)
    return law


@pytest.mark.parametrize("sizes", [[4] * 10, [1, 2, 3, 4] * 5, [9, 1, 1, 1, 1, 1]])
@pytest.mark.parametrize("rate", [0.02, 0.1, 0.3, 0.5, 0.9])
def test_records_of_a_subject_that_are_all_alike_are_covered_at_the_level(sizes, rate):
    """Exact: as independent records, those of subjects of four fail more often than one time in ten."""
    law, n, rows = law_of_grouped_errors(sizes, rate), sum(sizes), max(sizes)
    bounds = [
        clopper_pearson_bound(errors, n, level=0.9, rows=rows).value for errors in range(n + 1)
    ]
    assert law[np.array(bounds) < rate].sum() <= 0.1
    alone = [clopper_pearson_bound(errors, n, level=0.9).value for errors in range(n + 1)]
    if sizes[0] == 4 and 0.1 <= rate <= 0.5:
        assert law[np.array(alone) < rate].sum() > 0.1


def test_records_of_subjects_are_as_many_as_their_share():
    """Chernoff's bound of n / rows records, named in the assumption, candidates among them."""
    bound = clopper_pearson_bound(6, 60, level=0.95, n_candidates=3, rows=4)
    assert bound.value == pytest.approx(largest_rate(0.1, math.log(3 / 0.05) / 15))
    assert bound.name == "Chernoff"
    assert bound.assumption.startswith("60 records of independent subjects, at most 4 of each,")
    assert upper_limit_at(6, 60, -3.0, rows=4) == pytest.approx(largest_rate(0.1, 3 / 15))


@pytest.mark.parametrize("rows", [0, -1, 1.5, math.nan])
@pytest.mark.refusal
def test_the_most_records_of_a_subject_are_a_whole_number(rows):
    with pytest.raises(ValueError, match="rows must be a whole number >= 1, got rows="):
        clopper_pearson_bound(1, 9, level=0.9, rows=rows)


@pytest.mark.parametrize("kind", [np.uint8, np.int8, np.int16])
def test_counts_of_short_integers_have_the_bounds_of_their_numbers(kind):
    """300 less a short 100 overflowed, and 3.0e9 less one as well."""
    for n in (300, 3_000_000_000):
        short, plain = (clopper_pearson_bound(one, n, level=0.9) for one in (kind(100), 100))
        assert short.value == plain.value
