import dataclasses
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from learners.private.linear_model import Signs, fit_linear
from learners.private.logistic_minimum import lift
from learners.private.objective_perturbation import perturbed_weight, split_epsilon, training_query
from learners.selection.per_candidate import PerCandidateValidation
from learners.selection.public_split import STEPS, noisiest, ramp_score, split_rows
from learners.selection.stability import StabilityValidation, score_sensitivity
from privacy.mechanisms import covering_scale, exact
from tests.learners.scripted_noise import ScriptedNoise, SeededNoise, SilentNoise

SELECTION = StabilityValidation(
    candidates=(10.0, 0.1, 1.0),
    epsilon_train=0.6,
    epsilon_select=0.3,
    norm_bound=3.0,
    n_classes=2,
)


def some_query(rng, n=80, n_classes=2):
    y = rng.integers(n_classes, size=n)
    x = rng.normal(size=(n, 2)) / 2 + np.array([[-1.0, 0], [1, 0], [0, 2]])[y]
    return training_query(x, y, dataset="toy", validation=np.arange(n) % 4 == 0)


def scores(selection, query):
    """Each candidate's score without any noise."""
    rows, held_out = query.value, query.value["validation"]
    row, sign = lift(rows["x"], selection.norm_bound), Signs(rows["y"], selection.n_classes)
    return [
        ramp_score(
            perturbed_weight(
                row[~held_out],
                sign[:, ~held_out],
                epsilon=selection.epsilon_train,
                regularization=regularization,
                noise=SilentNoise(),
            ),
            row[held_out],
            sign[:, held_out],
        )
        for regularization in selection.candidates
    ]


# the score and its sensitivity -----------------------------------------------------------------


def test_the_ramp_score_row_by_row(rng):
    """Oracle: min(1, max(0, 1 - s w.z)), one row and one problem at a time."""
    weight, row = rng.normal(size=(3, 4)), rng.normal(size=(20, 4))
    sign = rng.choice([-1.0, 1.0], (3, 20))
    losses = [
        min(1.0, max(0.0, 1 - float(sign[problem, i] * weight[problem] @ row[i])))
        for problem in range(3)
        for i in range(20)
    ]
    assert ramp_score(weight, row, sign) == pytest.approx(-sum(losses) / 60)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 10**6),
    n_classes=st.sampled_from([2, 3]),
    regularization=st.sampled_from([0.001, 0.05, 0.5, 3.0]),
    epsilon=st.sampled_from([0.1, 2.0]),
)
def test_no_replacement_of_a_row_moves_a_score_by_more(seed, n_classes, regularization, epsilon):
    """The same noise on both data sets: a replaced training row, then a replaced validation row."""
    rng = np.random.default_rng(seed)
    n_train, n_validation = int(rng.integers(2, 40)), int(rng.integers(2, 40))
    x, y = rng.normal(size=(n_train, 2)), rng.integers(n_classes, size=n_train)
    row, sign = lift(x, 1.0), Signs(y, n_classes)
    judge = lift(rng.normal(size=(n_validation, 2)), 1.0)
    judge_sign = np.asarray(Signs(rng.integers(n_classes, size=n_validation), n_classes))
    moved_x, moved_y = x.copy(), y.copy()
    moved_x[0], moved_y[0] = -x[0], (y[0] + 1) % n_classes

    def train(rows, classes):
        return perturbed_weight(
            lift(rows, 1.0),
            Signs(classes, n_classes),
            epsilon=epsilon,
            regularization=regularization,
            noise=SeededNoise(seed),
        )

    sensitivity = score_sensitivity(
        (regularization,),
        epsilon_train=epsilon,
        n_train=n_train,
        n_validation=n_validation,
        columns=3,
        n_problems=len(sign),
    )
    before = ramp_score(train(x, y), judge, judge_sign)
    assert abs(before - ramp_score(train(moved_x, moved_y), judge, judge_sign)) <= sensitivity
    other, other_sign = judge.copy(), judge_sign.copy()
    other[0], other_sign[:, 0] = row[0], -judge_sign[:, 0]
    assert abs(before - ramp_score(train(x, y), other, other_sign)) <= sensitivity


def test_the_training_bound_is_the_stability_of_the_smallest_regularization():
    """beta1 = 2 / lam_min where nothing is added to it; the solver's part is below 1e-6 of that."""
    knobs = {"epsilon_train": 1.0, "n_train": 1000, "n_validation": 10**6, "columns": 3}
    for n_problems in (1, 4):
        found = score_sensitivity((0.5, 0.1, 2.0), n_problems=n_problems, **knobs)
        assert split_epsilon(1.0 / n_problems, 0.1, 1000).extra_regularization == 0
        assert found == pytest.approx(2 / (0.1 * 1000), rel=1e-6)


def test_the_training_bound_counts_the_extra_regularization():
    knobs = {"epsilon_train": 0.1, "n_train": 1000, "n_validation": 10**6, "columns": 3}
    extra = split_epsilon(0.1, 0.001, 1000).extra_regularization
    assert extra > 0.001
    found = score_sensitivity((0.001,), n_problems=1, **knobs)
    assert found == pytest.approx(2 / ((0.001 + extra) * 1000), rel=1e-6)
    of_three = split_epsilon(0.1 / 3, 0.001, 1000).extra_regularization
    found = score_sensitivity((0.001,), n_problems=3, **knobs)
    assert found == pytest.approx(2 / ((0.001 + of_three) * 1000), rel=1e-6)


def test_the_training_bound_counts_how_near_the_minimum_the_solver_stops():
    """As many rows as make both terms of 2 (1 / n + tau) / lam alike; tau is 1e-10."""
    knobs = {"epsilon_train": 1.0, "n_train": 10**10, "n_validation": 10**12, "columns": 3}
    assert score_sensitivity((0.5,), n_problems=1, **knobs) == pytest.approx(8e-10, rel=1e-6)


def test_the_bound_is_never_below_a_validation_row_nor_above_the_range_of_the_score():
    knobs = {"epsilon_train": 1.0, "columns": 3, "n_problems": 1}
    assert score_sensitivity((5.0,), n_train=10**6, n_validation=50, **knobs) == 1 / 50
    assert score_sensitivity((0.01,), n_train=2, n_validation=50, **knobs) == 1.0


def test_the_bound_on_magic_explains_why_selection_is_random_there():
    """n = 15216, lam_min = .001: beta = .131, on a score in [-1, 0]."""
    beta = score_sensitivity(
        (0.001, 1.0), epsilon_train=5.0, n_train=15216, n_validation=1902, columns=11, n_problems=1
    )
    assert beta == pytest.approx(0.131, abs=5e-4)


# the selection ---------------------------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [2, 3])
def test_without_noise_the_best_score_wins_and_its_model_is_released(rng, n_classes):
    selection = dataclasses.replace(SELECTION, n_classes=n_classes)
    query = some_query(rng, n_classes=n_classes)
    released = selection.draw(query, SilentNoise())
    best = int(np.argmax(scores(selection, query)))
    assert best == 1
    assert (released["chosen"], released["regularization"]) == (1, 0.1)
    train = ~query.value["validation"]
    problems = 1 if n_classes == 2 else n_classes
    extra = split_epsilon(0.6 / problems, 0.1, int(train.sum())).extra_regularization
    model = fit_linear(
        query.value["x"][train],
        query.value["y"][train],
        regularization=0.1 + extra,
        norm_bound=3.0,
        n_classes=n_classes,
    )
    assert np.array(released["coef"]) == pytest.approx(model.coef, abs=1e-6)


def test_the_noise_decides_where_it_exceeds_the_difference(rng):
    """The best candidate, 1, passes always; another one beside it where its noise is large."""
    query = some_query(rng)
    for favoured in range(3):
        script = [10**9 if candidate == favoured else 0 for candidate in range(3)]
        noise = ScriptedNoise(script, last=favoured > 1)
        assert SELECTION.draw(query, noise)["chosen"] == favoured


def test_the_noise_is_that_of_a_score_in_steps_of_its_sensitivity(rng):
    """The noise that overturns the choice, and its scale: two scores move by beta and a step each."""
    query = some_query(rng)
    score = scores(SELECTION, query)
    beta = score_sensitivity(
        SELECTION.candidates,
        epsilon_train=0.6,
        n_train=60,
        n_validation=20,
        columns=3,
        n_problems=1,
    )
    steps = np.rint(np.array(score) / beta * STEPS).astype(int)
    needed = int(steps[1] - steps[2])
    assert needed > 0
    for noise, chosen in [(needed - 1, 1), (needed, 2)]:
        scripted = ScriptedNoise([0, 0, noise], last=True)
        assert SELECTION.draw(query, scripted)["chosen"] == chosen
        assert scripted.scales == [covering_scale(2 * (STEPS + 1), 0.3)]


def test_ties_are_equally_likely(rng):
    """Rows that tell nothing: the weights are zero at every candidate, and so the scores tie."""
    n = 40
    query = training_query(
        np.zeros((n, 1)),
        np.arange(n) % 2,
        dataset="toy",
        validation=np.arange(n) < n // 2,
    )
    assert scores(SELECTION, query) == [-1.0] * 3
    for last, chosen in [(False, 0), (True, 2)]:
        assert SELECTION.draw(query, ScriptedNoise([0] * 3, last=last))["chosen"] == chosen


def test_scores_that_differ_in_their_last_bits_alone_are_one_score():
    """What is chosen is a whole number's choice: bits below the grid decide nothing."""
    score = np.array([-0.5, -0.5 - 1e-13, -0.5 + 1e-13])
    for last, chosen in [(False, 0), (True, 2)]:
        assert noisiest(score, 1e-3, 1.0, ScriptedNoise([0] * 3, last=last)) == chosen


def test_a_price_too_small_for_the_sampler_is_refused_before_anything_is_paid():
    with pytest.raises(ValueError, match="epsilon must be >= l1"):
        dataclasses.replace(SELECTION, epsilon_select=1e-9)


def test_every_training_draws_fresh_noise(rng):
    class Counting(SeededNoise):
        def __init__(self):
            super().__init__(0)
            self.directions = []

        def direction(self, dimension):
            drawn = super().direction(dimension)
            self.directions.append(tuple(drawn))
            return drawn

    noise = Counting()
    SELECTION.draw(some_query(rng), noise)
    assert len(noise.directions) == len(set(noise.directions)) == 2 * (3 + 1)


def test_the_law_of_the_choice_stays_within_epsilon_select(rng):
    """The choice alone, on neighbouring score vectors as far apart as beta allows: the bound is met.

    P(i* = i) is the integral over the noise of i of the others' distribution functions.
    """
    epsilon, beta = 0.7, 0.1
    z = np.linspace(0, 60, 600_001)

    def law(score):
        mean = 2 * beta / epsilon
        chances = []
        for i, own in enumerate(score):
            density = np.exp(-z)
            for j, other in enumerate(score):
                if j != i:
                    density = density * -np.expm1(-np.maximum(z + (own - other) / mean, 0))
            chances.append(np.trapezoid(density, z))
        return np.array(chances)

    worst = 0.0
    for _ in range(10):
        score = rng.uniform(-1, 0, 3)
        moved = score + beta * rng.choice([-1.0, 1.0], 3)
        assert law(score).sum() == pytest.approx(1.0, abs=1e-6)
        worst = max(worst, float(np.abs(np.log(law(score) / law(moved))).max()))
    assert 0.3 * epsilon < worst <= epsilon * (1 + 1e-9)


def test_the_drawn_choice_follows_that_law(rng):
    """Two candidates, score difference g: the worse one wins with probability exp(-g / mean) / 2.

    400 seeded draws: a deviation of 5 standard errors has a chance below 1e-6.
    """
    query, n_draws = some_query(rng), 400
    selection = dataclasses.replace(SELECTION, candidates=(10.0, 0.1), epsilon_train=1e6)
    gap = scores(selection, query)
    beta = score_sensitivity(
        (10.0, 0.1), epsilon_train=1e6, n_train=60, n_validation=20, columns=3, n_problems=1
    )
    chance = math.exp(-(gap[1] - gap[0]) * 0.3 / (2 * beta)) / 2
    noise = SeededNoise(7)
    drawn = Counter(selection.draw(query, noise)["chosen"] for _ in range(n_draws))
    error = math.sqrt(chance * (1 - chance) / n_draws)
    assert drawn[0] / n_draws == pytest.approx(chance, abs=5 * error)


# the mechanism ---------------------------------------------------------------------------------


def test_the_cost_is_one_training_and_one_choice_for_any_number_of_candidates(rng):
    query = some_query(rng)
    for candidates in [(0.1, 0.2), tuple(0.1 + k for k in range(20))]:
        event = dataclasses.replace(SELECTION, candidates=candidates).event(query)
        assert event.cost().epsilon == Fraction(9, 10)
        assert event.cost().delta == 0


def test_the_event_depends_on_knobs_and_public_sizes_alone(rng):
    first, second = SELECTION.event(some_query(rng)), SELECTION.event(some_query(rng))
    assert first == second
    assert first.parameters["n_train"] == 60
    assert first.parameters["n_validation"] == 20


@pytest.mark.parametrize(
    "validation",
    [
        None,
        np.zeros(80, bool),
        np.ones(80, bool),
        pytest.param(np.zeros(80), marks=pytest.mark.refusal),
        pytest.param(np.ones(79, bool), marks=pytest.mark.refusal),
    ],
)
def test_a_query_without_both_sides_of_the_split_is_refused_before_it_is_paid(rng, validation):
    rows = some_query(rng).value
    query = training_query(rows["x"], rows["y"], dataset="toy", validation=validation)
    with pytest.raises(ValueError, match="validation"):
        SELECTION.event(query)


@pytest.mark.parametrize(
    "knobs",
    [
        {"candidates": ()},
        {"candidates": (0.1, 0.1)},
        {"candidates": (0.1, 0.0)},
        {"candidates": (0.1, math.nan)},
        {"epsilon_train": 0.0},
        {"epsilon_select": math.nan},
        {"norm_bound": 0.0},
        {"n_classes": 1},
    ],
)
def test_knobs_out_of_range_are_refused(knobs):
    with pytest.raises(ValueError, match="must be"):
        dataclasses.replace(SELECTION, **knobs)


def test_one_candidate_is_trained_once_at_epsilon_train():
    """Nothing is chosen: the release is one training, whose noise is the first that is drawn."""
    query = some_query(np.random.default_rng(0))
    one = dataclasses.replace(SELECTION, candidates=(0.1,), epsilon_select=0.0)
    assert one.event(query).cost().epsilon == exact(SELECTION.epsilon_train)
    rows = split_rows(query, one.norm_bound, one.n_classes)
    noise = SeededNoise(4)
    trained = rows.train(0.1, epsilon=one.epsilon_train, noise=noise)
    drawn = one.draw(query, SeededNoise(4))
    assert drawn == rows.release(trained, 0, (0.1,))
    assert PerCandidateValidation(one).draw(query, SeededNoise(4)) == drawn


def test_a_price_for_the_choice_of_one_candidate_is_refused():
    with pytest.raises(ValueError, match="epsilon_select must be 0 with one candidate"):
        dataclasses.replace(SELECTION, candidates=(0.1,))
    with pytest.raises(ValueError, match="epsilon_select must be > 0"):
        dataclasses.replace(SELECTION, epsilon_select=0.0)
