import math

import numpy as np
import pytest
from scipy.stats import binom

from learners.bounds import (
    Bound,
    cdp_bound,
    clopper_pearson_bound,
    clopper_pearson_interval,
    least,
    upper_limit,
)

DELTA = 0.05


def mass_by_errors(c, n, directions=720):
    """Prior mass of the linear separators of the plane with k of n errors, for every k.

    Half of the points lie on the unit circle about -(c, c), labelled -1, half on that about (c, c).
    The separator sign(x.u - b) has b uniform on [-R, R], R the largest norm: along b the number of
    errors changes by one at each projection, so its integral is exact; directions on a midpoint grid.
    """
    angle = 2 * np.pi * np.arange(n // 2) / (n // 2)
    circle = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    point = np.concatenate([circle - c, circle + c])
    label = np.repeat([-1, 1], n // 2)
    radius = np.linalg.norm(point, axis=1).max()
    theta = 2 * np.pi * (np.arange(directions) + 0.5) / directions
    projection = np.stack([np.cos(theta), np.sin(theta)], axis=1) @ point.T
    order = projection.argsort(axis=1)
    ends = np.full((directions, 1), radius)
    edge = np.hstack([-ends, np.take_along_axis(projection, order, axis=1), ends])
    errors = np.hstack([np.zeros((directions, 1), int), label[order].cumsum(axis=1)]) + n // 2
    mass = np.bincount(errors.ravel(), weights=np.diff(edge, axis=1).ravel(), minlength=n + 1)
    return mass / mass.sum()


def law_of_errors(c, n):
    """Law of the error count of a separator drawn with the paper's gamma = sqrt(n ln(3/delta)) / 2."""
    gamma = 0.5 * math.sqrt(n * math.log(3 / DELTA))
    weight = mass_by_errors(c, n) * np.exp(-gamma * np.arange(n + 1) / n)
    return weight / weight.sum()


@pytest.mark.parametrize(
    ("c", "n", "expected"),
    [
        (0.5, 4, 0.985), (0.5, 10, 0.895), (0.5, 20, 0.772), (0.5, 50, 0.600), (0.5, 100, 0.4882),
        (0.5, 200, 0.402), (0.5, 300, 0.3623), (1.0, 4, 0.978), (1.0, 10, 0.845),
        (1.0, 50, 0.412), (1.0, 100, 0.2510), (1.0, 300, 0.0909),
    ],
)  # fmt: skip
def test_cdp_on_two_circles(c, n, expected):
    """Oneto, Ridella, Anguita (2017), section 4, reproduced: the bound at the mean error count."""
    mean = law_of_errors(c, n) @ np.arange(n + 1)
    assert upper_limit(mean, n, DELTA**2 / 9) == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize(("c", "expected"), [(0.5, 0.4845), (1.0, 0.2290)])
def test_mean_cdp_bound_on_two_circles(c, expected):
    """The same experiment, the bound averaged over the separator drawn."""
    n = 100
    epsilon = math.sqrt(math.log(3 / DELTA) / n) * (1 - 1e-12)
    bound = [cdp_bound(k, n, epsilon=epsilon, level=1 - DELTA).value for k in range(n + 1)]
    assert law_of_errors(c, n) @ bound == pytest.approx(expected, abs=1e-3)


def test_prior_mass_is_symmetric_between_errors_and_successes():
    mass = mass_by_errors(0.5, 20)
    np.testing.assert_allclose(mass, mass[::-1], atol=1e-9)


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
    ends = np.array([clopper_pearson_interval(int(k), n, level=level) for k in count])
    inside = (ends[:, 0] <= rate) & (rate <= ends[:, 1])
    assert probability[holds].sum() >= level - 1e-12
    assert probability[inside].sum() >= level - 1e-12


def test_interval_mirrors_when_errors_and_successes_are_exchanged():
    low, high = clopper_pearson_interval(3, 20, level=0.9)
    assert clopper_pearson_interval(17, 20, level=0.9) == pytest.approx((1 - high, 1 - low))
    assert clopper_pearson_interval(0, 20, level=0.9)[0] == 0
    assert clopper_pearson_interval(20, 20, level=0.9)[1] == 1


def test_candidates_share_the_confidence():
    shared = clopper_pearson_bound(7, 80, level=0.95, n_candidates=5)
    assert shared.value == clopper_pearson_bound(7, 80, level=0.99).value
    assert shared.level == 0.95


def test_bounds_grow_with_errors_and_fall_with_records():
    by_errors = [clopper_pearson_bound(k, 30, level=0.95).value for k in range(31)]
    by_records = [cdp_bound(n // 10, n, epsilon=0.0, level=0.95).value for n in range(10, 400, 10)]
    assert by_errors == sorted(by_errors)
    assert by_records == sorted(by_records, reverse=True)


def test_cdp_is_never_below_clopper_pearson_of_the_same_count():
    for k in range(51):
        training = cdp_bound(k, 50, epsilon=0.1, level=0.95)
        assert training.value >= clopper_pearson_bound(k, 50, level=0.95).value


def test_cdp_applies_up_to_its_largest_epsilon_only():
    largest = math.sqrt(math.log(60) / 100)
    assert cdp_bound(5, 100, epsilon=largest - 1e-9, level=0.95).applies
    beyond = cdp_bound(5, 100, epsilon=largest + 1e-9, level=0.95)
    assert (beyond.applies, beyond.value) == (False, 1.0)
    assert beyond.assumption.startswith("does not apply")


def test_least_pays_for_the_choice_among_those_that_apply():
    far = clopper_pearson_bound(5, 20, level=0.98)
    near = clopper_pearson_bound(5, 2000, level=0.97)
    not_met = cdp_bound(0, 100, epsilon=5.0, level=0.9)
    best = least([far, not_met, near])
    assert best.value == near.value
    assert best.level == pytest.approx(0.95)
    assert least([not_met, far]) == far


def test_least_covers_at_its_level_whichever_is_chosen():
    """Exact: two independent holdouts of the same error rate, 12 and 17 records."""
    rate, miss = 0.3, 0.0
    for first in range(13):
        for second in range(18):
            bounds = [
                clopper_pearson_bound(first, 12, level=0.9),
                clopper_pearson_bound(second, 17, level=0.9),
            ]
            best = least(bounds)
            if best.value < rate:
                miss += binom.pmf(first, 12, rate) * binom.pmf(second, 17, rate)
    assert miss <= 1 - best.level


def test_least_of_none_that_applies_is_refused():
    with pytest.raises(ValueError, match="one that applies"):
        least([cdp_bound(0, 100, epsilon=5.0, level=0.9)])
    with pytest.raises(ValueError, match="higher level"):
        least([clopper_pearson_bound(1, 9, level=0.4)] * 2)


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
def test_counts_that_are_none_are_refused_without_being_told(arguments, message):
    given = {"errors": 3, "n": 10, "level": 0.9} | arguments
    with pytest.raises(ValueError, match=message):
        clopper_pearson_bound(**given)
    with pytest.raises(ValueError, match=message):
        clopper_pearson_interval(**given)
    with pytest.raises(ValueError, match=message) as refusal:
        cdp_bound(**given, epsilon=0.1)
    assert "11" not in str(refusal.value)


@pytest.mark.parametrize("epsilon", [-0.1, math.nan])
def test_epsilon_below_zero_is_refused(epsilon):
    with pytest.raises(ValueError, match="epsilon must be >= 0"):
        cdp_bound(1, 10, epsilon=epsilon, level=0.9)


def test_no_candidates_are_refused():
    with pytest.raises(ValueError, match="n_candidates"):
        clopper_pearson_bound(1, 10, level=0.9, n_candidates=0)


@pytest.mark.parametrize(
    ("value", "level", "applies"),
    [(1.2, 0.9, True), (math.nan, 0.9, True), (0.5, 1.0, True), (0.5, 0.9, False)],
)
def test_a_bound_that_says_nothing_true_cannot_be_built(value, level, applies):
    with pytest.raises(ValueError, match="must be"):
        Bound("x", value=value, level=level, assumption="none", applies=applies)
