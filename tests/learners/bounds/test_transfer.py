import itertools
import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import binom

from benchmarks.learners.two_circles import DELTA, law_of_errors
from learners.bounds.clopper_pearson import clopper_pearson_bound, largest_rate, upper_limit
from learners.bounds.published import private_training_bounds
from learners.bounds.transfer import log_transfer, log_transfer_tail, transfer_bound


@pytest.mark.parametrize("tail", [0.2, 0.01, 1e-6])
@pytest.mark.parametrize(("n", "epsilon"), [(10, 0.0), (10, 0.3), (1000, 0.02), (1000, 0.08)])
def test_the_closed_form_is_the_integral(tail, n, epsilon):
    """Oracle: quadrature over log u of u exp(epsilon sqrt(n ln(1 / u) / 2))."""

    def weighed(log_u):
        return math.exp(log_u + epsilon * math.sqrt(-n * log_u / 2))

    integral = quad(weighed, -400.0, math.log(tail), limit=500)[0]
    closed = log_transfer(math.log(tail), n, epsilon)
    if math.isinf(closed):
        assert integral > 1
    else:
        assert closed == pytest.approx(math.log(integral), abs=1e-6)


@pytest.mark.parametrize("chance", [0.2, 0.05, 1e-9])
@pytest.mark.parametrize(("n", "epsilon"), [(1, 0.0), (100, 0.1), (100, 5.0), (10**6, 0.5)])
def test_the_tail_spends_the_whole_chance_and_no_more(chance, n, epsilon):
    spent = log_transfer(log_transfer_tail(chance, n, epsilon), n, epsilon)
    assert math.log(chance) - 1e-6 < spent <= math.log(chance)


@pytest.mark.parametrize("tail", [0.3, 1e-3, 1e-30])
def test_at_the_published_epsilon_the_constant_is_four_thirds(tail):
    """Dwork et al. (2015) have 3 sqrt(beta) at epsilon = sqrt(ln(1 / beta) / (2 n))."""
    n = 200
    chance = log_transfer(math.log(tail), n, math.sqrt(-math.log(tail) / (2 * n)))
    assert chance <= math.log(4 / 3) + math.log(tail) / 2
    assert chance > math.log(tail) / 2


def test_it_grows_with_tail_records_and_epsilon():
    by_tail = [log_transfer(log_tail, 100, 0.1) for log_tail in np.linspace(-30, -1, 30)]
    by_records = [log_transfer(-9.0, n, 0.1) for n in range(1, 500, 20)]
    by_epsilon = [log_transfer(-9.0, 100, epsilon) for epsilon in np.linspace(0, 0.5, 20)]
    for grown in (by_tail, by_records, by_epsilon):
        assert grown == sorted(grown)


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0])
@pytest.mark.parametrize("size", [1, 3, 9])
def test_a_private_choice_is_bad_no_more_often_than_the_integral_says(epsilon, size):
    """Exact: 6 fair coins, 64 data sets; each model is bad on `size` of them, which a rule that likes
    to be bad seeks out: p(f | s) ~ exp(-epsilon / 2 (distance from s to the bad set of f)), which is
    epsilon-differentially private.
    """
    n = 6
    data = np.array(list(itertools.product([0, 1], repeat=n)))
    distance = np.abs(data[:, None] - data[None]).sum(axis=2)
    bad = np.argsort(distance, axis=1, kind="stable")[:, :size]  # of the model centred at each
    reach = np.stack([distance[:, bad[model]].min(axis=1) for model in range(len(data))])
    law = np.exp(-epsilon / 2 * reach)
    law /= law.sum(axis=0)
    neighbours = np.argwhere(distance == 1)
    ratio = np.abs(np.log(law[:, neighbours[:, 0]] / law[:, neighbours[:, 1]])).max()
    assert ratio <= epsilon * (1 + 1e-9)
    found = (law * (reach == 0)).sum() / len(data)
    assert size / 64 < found
    assert math.log(found) <= log_transfer(math.log(size / 64), n, epsilon)


@pytest.mark.parametrize(("c", "expected"), [(0.5, 0.4726), (1.0, 0.2367)])
def test_on_two_circles_it_is_below_the_published_bound(c, expected):
    """CDP has .4882 and .2510 here; at the mean error count, as there."""
    n = 100
    epsilon = math.sqrt(math.log(3 / DELTA) / n)
    tail = math.exp(log_transfer_tail(DELTA, n, epsilon))
    mean = law_of_errors(c, n) @ np.arange(n + 1)
    assert upper_limit(mean, n, tail) == pytest.approx(expected, abs=1e-4)


def test_without_reading_the_records_it_is_clopper_pearson():
    found = transfer_bound(7, 80, epsilon=0.0, level=0.95).value
    assert found == pytest.approx(clopper_pearson_bound(7, 80, level=0.95).value, abs=1e-9)


@pytest.mark.parametrize("rate", [0.1, 0.4])
def test_the_bound_covers_the_choice_of_a_private_rule_that_favours_failing(rate):
    """Exact: 20 models that err on records of their own at one rate; the exponential mechanism prefers
    the fewest errors. Counts are independent, so the law of the chosen count is a one-dimensional sum.
    """
    n, models, epsilon, level = 30, 20, 0.3, 0.9
    count = np.arange(n + 1)
    chance = binom.pmf(count, n, rate)
    weight = np.exp(-epsilon / 2 * count)
    rng = np.random.default_rng(0)
    others = weight[rng.binomial(n, rate, size=(20_000, models - 1))].sum(axis=1)
    chosen = chance * models * (weight / (weight + others[:, None])).mean(axis=0)
    bound = [transfer_bound(int(k), n, epsilon=epsilon, level=level).value for k in count]
    assert chosen.sum() == pytest.approx(1.0, abs=0.02)
    assert chosen[np.array(bound) < rate].sum() <= 1 - level


@pytest.mark.parametrize("epsilon", [6.5, 10.5, 14.0])
@pytest.mark.parametrize("n", [5, 13, 32])
def test_few_records_read_under_a_large_epsilon_have_a_bound(n, epsilon):
    """It says next to nothing, and stays the least of the three: the order costs no confidence."""
    for errors in range(n + 1):
        least, *others = (
            bound.value for bound in private_training_bounds(errors, n, epsilon=epsilon, level=0.95)
        )
        assert least <= min(others)


@pytest.mark.parametrize("epsilon", [1e155, 1.7e308])
def test_an_epsilon_whose_square_is_no_double_says_nothing(epsilon):
    assert transfer_bound(5, 100, epsilon=epsilon, level=0.95).value == 1.0


@pytest.mark.parametrize("epsilon", [-0.1, math.nan, math.inf])
def test_epsilon_below_zero_is_refused(epsilon):
    with pytest.raises(ValueError, match="epsilon must be >= 0"):
        transfer_bound(1, 10, epsilon=epsilon, level=0.9)


def test_training_records_of_subjects_are_as_many_as_their_share():
    """The transfer of at most n subjects, and Chernoff's bound of n / rows records at its tail."""
    log_tail = log_transfer_tail(0.05, 600, 0.02)
    bound = transfer_bound(60, 600, epsilon=0.02, level=0.95, rows=4)
    assert bound.value == pytest.approx(largest_rate(0.1, -log_tail / 150))
    assert bound.assumption == (
        "600 records of independent subjects, at most 4 of each, read with epsilon-differential "
        "privacy only, epsilon=0.02"
    )
    with pytest.raises(ValueError, match="rows must be a whole number >= 1, got rows=0"):
        transfer_bound(60, 600, epsilon=0.02, level=0.95, rows=0)


def test_a_private_model_of_subjects_fails_no_more_often_than_said():
    """One of eight models, by the exponential mechanism, on 40 subjects of 5 records that are alike."""
    rng = np.random.default_rng(0)
    n_subjects, rows, rate, epsilon = 40, 5, 0.3, 0.2
    failed = 0
    for _ in range(2000):
        wrong = rng.random((8, n_subjects)) < rate  # eight models, all as good
        weight = np.exp(-epsilon / 2 * wrong.sum(axis=1))
        errors = rows * int(wrong[rng.choice(8, p=weight / weight.sum())].sum())
        given = {"epsilon": epsilon, "level": 0.9}
        failed += transfer_bound(errors, 200, **given, rows=rows).value < rate
    assert failed <= 230  # of 2,000 at level .9; more has a chance below .02
