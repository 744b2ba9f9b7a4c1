"""Eight numbers at a time: the same as one by one, in the E step of many truths and in digammas."""

import numpy as np
import pytest
from scipy.special import digamma, gammaln, polygamma

from quality.aggregation.passes import (
    dirichlet_moved,
    dirichlet_weights,
    em_pass,
    exp_digamma,
    lanes_pass,
    subtype_weights,
    whole_lanes,
)
from quality.aggregation.passes.lanes import lanes_at, lanes_sum, power_of_two, put_lanes
from quality.parallel import kernel

N_WORKERS, N_TASKS = 9, 60


@kernel
def one_by_one(numbers, powers):
    """Double eight numbers from the second on; write powers of two."""
    for at in range(len(powers)):
        powers[at] = power_of_two(powers[at])
    second = np.uint64(1)
    total = lanes_sum(lanes_at(numbers, second))
    put_lanes(numbers, np.uint64(0), lanes_at(numbers, second))
    return total


def test_lanes_may_begin_anywhere_and_powers_of_two_are_exact() -> None:
    numbers, powers = np.arange(9.0), np.array([-1022.0, -1.0, 0.0, 52.0, 1023.0])
    assert one_by_one(numbers, powers) == 36.0
    assert numbers.tolist() == [*range(1, 9), 8]
    assert powers.tolist() == [2.0**-1022, 0.5, 1.0, 2.0**52, 2.0**1023]


@pytest.mark.parametrize("n_truths", [8, 16, 40])
@pytest.mark.parametrize("per_task", [1, 4, 900])
@pytest.mark.parametrize("with_gold", [False, True])
@pytest.mark.parametrize("near", [0, em_pass.NEAR], ids=["far", "near"])
def test_the_pass_of_eight_truths_at_a_time_is_that_of_one(
    n_truths: int, per_task: int, with_gold: bool, near: int, rng: np.random.Generator
) -> None:
    """Also where products underflow, and for tasks without labels."""
    table = rng.dirichlet(np.full(n_truths, 0.3), N_WORKERS) + 1e-9
    table = np.tile(table, (1 if near else em_pass.NEAR // table.size + 1, 1))
    prior = rng.dirichlet(np.ones(n_truths))
    size = rng.integers(per_task + 1, size=N_TASKS)
    start = np.concatenate([[0], np.cumsum(size)])
    row = rng.integers(len(table), size=start[-1])
    gold = np.full(N_TASKS, -1, np.int16)
    if with_gold:
        gold[::3] = rng.integers(n_truths, size=len(gold[::3]))
    counts, keep = np.zeros(table.size), np.zeros((N_TASKS, n_truths))
    mass, belief, power = np.zeros((3, n_truths))
    place = (row * n_truths).astype(np.int32)
    found = lanes_pass(
        0, N_TASKS, start, place, gold, prior, table.reshape(-1), counts, keep, mass, belief, power
    )
    expected, log_likelihood = np.zeros(table.shape), 0.0
    for task in np.flatnonzero(size):
        rows = row[start[task] : start[task + 1]]
        score = np.log(prior) + np.log(table[rows]).sum(axis=0)
        if gold[task] >= 0:
            score[np.arange(n_truths) != gold[task]] = -np.inf
        highest = score.max()
        share = np.exp(score - highest)
        log_likelihood += highest + np.log(share.sum())
        share /= share.sum()
        assert keep[task] == pytest.approx(share, abs=1e-11)  # the logarithms' last digits
        np.add.at(expected, rows, share)
    assert found == pytest.approx(log_likelihood, rel=1e-12)
    assert counts == pytest.approx(expected.reshape(-1), abs=1e-8)
    assert mass == pytest.approx(keep.sum(axis=0), abs=1e-12)


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


def test_weights_and_divergences_are_those_of_dirichlet_columns(rng: np.random.Generator) -> None:
    """Of a table that has rows for some of each worker's answers alone."""
    n_answers, n_truths = 3, 16
    given = rng.random((N_WORKERS, n_answers)) < 0.6
    counts = np.where(given[:, :, None], rng.gamma(0.4, 9, (N_WORKERS, n_answers, n_truths)), 0.0)
    counts[0, :, 5] = 0.0
    pseudo = rng.uniform(0.5, 4.0, (n_answers, n_truths))
    start = np.concatenate([[0], np.cumsum(given.sum(axis=1))])
    rows, answer = counts[given].reshape(-1), np.nonzero(given)[1]
    weight = np.empty(rows.size)
    dirichlet_weights(rows, answer, start, pseudo, weight)
    after = counts + pseudo
    log_weight = digamma(after) - digamma(after.sum(axis=1, keepdims=True))
    assert weight == pytest.approx(np.exp(log_weight[given]).reshape(-1), rel=1e-12)
    moved = (counts * log_weight - gammaln(after) + gammaln(pseudo)).sum()
    moved += (gammaln(after.sum(axis=1)) - gammaln(pseudo.sum(axis=0))).sum()
    assert dirichlet_moved(rows, answer, start, pseudo, weight) == pytest.approx(moved, rel=1e-11)


def test_weights_of_subtypes_are_of_their_class_and_those_of_no_class_are_zero(
    rng: np.random.Generator,
) -> None:
    mass, owner = rng.gamma(1.0, 20, 8), np.array([0, 0, 0, 1, 1, 1, 2, 2])  # two classes
    found = subtype_weights(mass, owner, 2, 1.0, 0.1, 3)
    of_class = mass[:6].reshape(2, 3)
    expected = digamma(of_class + 0.1 / 3) - digamma(of_class.sum(axis=1, keepdims=True) + 0.1)
    expected += digamma(of_class.sum(axis=1, keepdims=True) + 1) - digamma(of_class.sum() + 2)
    assert found[:6] == pytest.approx(np.exp(expected).reshape(-1), rel=1e-12)
    assert found[6:].tolist() == [0, 0]


def test_whole_lanes_are_the_least_that_hold_so_many() -> None:
    assert [whole_lanes(n) for n in (1, 8, 9, 100)] == [8, 8, 16, 104]
