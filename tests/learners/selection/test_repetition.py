import dataclasses
import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from learners.selection.public_split import STEPS, share_of, split_rows
from learners.selection.repetition import RandomRepetition, chance_untried, runs_for
from privacy.mechanism import Mechanism
from privacy.mechanisms import covering_scale, exact
from tests.learners.scripted_noise import SeededNoise, SilentNoise
from tests.learners.selection.test_rivals import some_query

REPEATED = RandomRepetition((10.0, 0.1, 1.0), epsilon=0.9, mean_runs=8, norm_bound=3.0, n_classes=2)


class Scripted(SilentNoise):
    """Which candidates are tried, and when it ends, come from a script; so do the score's noises."""

    def __init__(self, integers, laplace=()):
        self.integers, self.noises, self.asked = iter(integers), iter(laplace), []

    def uniform_integer(self, below):
        self.asked.append(below)
        return next(self.integers)

    def discrete_laplace(self, scale, size):
        self.asked.append(scale)
        return [next(self.noises, 0) for _ in range(size)]


def law_of_the_best(trial, mean_runs):
    """Law of the outcome that is released, by the closed form; outcomes in the order of their score."""
    stop = 1 / mean_runs
    below = np.concatenate([[0.0], np.cumsum(trial)[:-1]])
    return stop * trial / ((1 - (1 - stop) * below) * (1 - (1 - stop) * np.cumsum(trial)))


def test_the_closed_form_is_the_law_of_the_best_of_a_geometric_number_of_trials():
    """Oracle: the definition, the sum over the number of trials of P(max <= y) - P(max < y)."""
    trial, mean_runs = np.array([0.2, 0.5, 0.3]), 4
    below, above = np.concatenate([[0.0], np.cumsum(trial)[:-1]]), np.cumsum(trial)
    direct = sum(0.25 * 0.75 ** (k - 1) * (above**k - below**k) for k in range(1, 200))
    assert law_of_the_best(trial, mean_runs) == pytest.approx(direct)
    assert direct.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("mean_runs", [1, 5, 1000])
def test_three_times_the_trials_epsilon_is_enough_and_needed(mean_runs):
    """Every pair of extreme neighbouring laws of four outcomes, exactly."""
    epsilon, worst = 0.4, 0.0
    for high, other in itertools.product(itertools.product([0, 1], repeat=4), repeat=2):
        base = np.exp(np.array(other) * 2.0)
        one = base * np.exp(epsilon / 2 * np.array(high))
        two = base * np.exp(-epsilon / 2 * np.array(high))
        one, two = one / one.sum(), two / two.sum()
        trial_loss = np.abs(np.log(one / two)).max()
        loss = np.abs(np.log(law_of_the_best(one, mean_runs) / law_of_the_best(two, mean_runs)))
        assert loss.max() <= 3 * trial_loss + 1e-12
        if trial_loss > 1e-9:
            worst = max(worst, float(loss.max() / trial_loss))
    assert worst == pytest.approx(1.0) if mean_runs == 1 else worst > 1.3


def test_the_cost_is_epsilon_whatever_the_runs_and_the_candidates(rng):
    """TensorFlow Privacy #76, LeakPro #438: tuning that is accounted as its winning run alone."""
    query = some_query(rng)
    assert isinstance(REPEATED, Mechanism)
    for knobs in ({"mean_runs": 1}, {"mean_runs": 10**6}, {"candidates": (0.1,)}):
        assert dataclasses.replace(REPEATED, **knobs).event(query).cost().epsilon == Fraction(9, 10)


def test_without_noise_the_best_of_the_trials_wins_ties_to_the_earlier(rng):
    query = some_query(rng)
    rows = split_rows(query, 3.0, 2)
    score = [
        rows.score(rows.train(candidate, epsilon=0.3, noise=SilentNoise()))
        for candidate in REPEATED.candidates
    ]
    assert np.argsort(score).tolist() == [0, 2, 1]
    for tried, chosen in [([0], 0), ([0, 2], 2), ([2, 0], 2), ([0, 1, 2], 1)]:
        script = [number for one in tried for number in (one, 1)]
        noise = Scripted([*script[:-1], 0])
        assert REPEATED.draw(query, noise)["chosen"] == chosen
        assert [asked for asked in noise.asked if isinstance(asked, int)] == [3, 8] * len(tried)
    steps = [round(STEPS * len(rows.judge) * one) for one in score]
    for first, second in ((0, 1), (1, 0)):
        ahead = steps[first] - steps[second]
        for more, chosen in ((0, first), (1, second)):
            noise = Scripted([first, 1, second, 0], laplace=[0, ahead + more])
            assert REPEATED.draw(query, noise)["chosen"] == chosen


def test_a_trial_trains_and_scores_for_a_third_each(rng):
    """Noise of scale 3 / epsilon on the sum over validation rows; it moves by 4,097 steps at most."""
    noise = Scripted([0, 1, 1, 0], laplace=[0, -(10**9)])
    assert REPEATED.draw(some_query(rng), noise)["chosen"] == 0
    scales = [asked for asked in noise.asked if isinstance(asked, float)]
    assert scales == [covering_scale(4097, 0.3)] * 2


def test_three_thirds_cost_no_more_than_the_price_in_exact_arithmetic():
    rng = np.random.default_rng(0)
    for _ in range(20_000):
        epsilon = round(float(rng.uniform(0.001, 10)), int(rng.integers(2, 17))) + 0.001
        parts = int(rng.integers(1, 12))
        share = share_of(epsilon, parts)
        assert exact(share) * parts <= exact(epsilon) < exact(math.nextafter(share, 99)) * parts


@pytest.mark.refusal
def test_a_number_of_runs_may_be_numpys(rng):
    query = some_query(rng)
    given = dataclasses.replace(REPEATED, mean_runs=np.int64(8))
    assert given.event(query) == REPEATED.event(query)


def test_the_chance_that_a_candidate_is_never_tried():
    """10 candidates, 10 and 60 expected trials: .47 and .13, and the seeded frequency of the draw.

    3,000 seeded draws: a deviation of 5 standard errors has a chance below 1e-6.
    """
    assert chance_untried(10, 10) == pytest.approx(0.47, abs=5e-3)
    assert chance_untried(10, 60) == pytest.approx(0.13, abs=5e-3)
    rng, untried = np.random.default_rng(0), Counter()
    for _ in range(3000):
        runs = rng.geometric(1 / 8)
        untried[bool((rng.integers(3, size=runs) > 0).all())] += 1
    chance = chance_untried(3, 8)
    error = math.sqrt(chance * (1 - chance) / 3000)
    assert untried[True] / 3000 == pytest.approx(chance, abs=5 * error)


@pytest.mark.parametrize(
    ("candidates", "untried"), [(1, 0.5), (2, 0.5), (10, 0.05), (10, 0.13), (37, 0.2)]
)
def test_runs_for_is_the_smallest_that_suffices(candidates, untried):
    runs = runs_for(candidates, untried)
    assert chance_untried(candidates, runs) <= untried * (1 + 1e-9)
    assert runs == 1 or chance_untried(candidates, runs - 1) > untried


def test_the_number_of_trials_does_not_leave(rng):
    released = REPEATED.draw(some_query(rng), SeededNoise(0))
    assert set(released) == {"coef", "chosen", "regularization"}


@pytest.mark.parametrize(
    "knobs",
    [{"epsilon": -1.0}, {"mean_runs": 0}, {"candidates": ()},
     pytest.param({"mean_runs": 2.5}, marks=pytest.mark.refusal)],
)  # fmt: skip
def test_knobs_out_of_range_are_refused(knobs):
    with pytest.raises(ValueError, match="must be"):
        dataclasses.replace(REPEATED, **knobs)


def test_chances_out_of_range_are_refused():
    for call in (
        lambda: chance_untried(0, 1),
        lambda: chance_untried(2, 0),
        lambda: runs_for(2, 0.0),
    ):
        with pytest.raises(ValueError, match="must be"):
            call()
