import dataclasses
import math
import tracemalloc
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from learners.private.linear_model import LinearModel
from learners.private.noisy_descent import clipped_sum
from learners.private.objective_perturbation import training_query
from learners.selection.histogram_width import HistogramValidation
from learners.selection.public_split import split_rows
from learners.selection.rivals import RandomSelection, SplitBudgetSelection, SplitDataSelection
from learners.selection.stability import StabilityValidation
from privacy.mechanism import Mechanism
from tests.learners.scripted_noise import SeededNoise, SilentNoise

KNOBS = {"candidates": (10.0, 0.1, 1.0), "epsilon": 0.9, "norm_bound": 3.0, "n_classes": 2}
BUDGET, DATA = SplitBudgetSelection(**KNOBS), SplitDataSelection(**KNOBS)


def some_query(rng, n=80, n_classes=2):
    y = rng.integers(n_classes, size=n)
    x = rng.normal(size=(n, 2)) / 2 + np.array([[-1.0, 0], [1, 0], [0, 2]])[y]
    return training_query(x, y, dataset="toy", validation=np.arange(n) % 4 == 0)


class Listening(SilentNoise):
    """Records the scale of the noise of each training."""

    def __init__(self):
        self.asked = []

    def gamma(self, shape, scale):
        self.asked.append(scale)
        return 0.0


@pytest.mark.parametrize("mechanism", [BUDGET, DATA])
def test_the_cost_is_epsilon_for_any_number_of_candidates(rng, mechanism):
    assert isinstance(mechanism, Mechanism)
    for candidates in [(0.1,), tuple(0.1 + k for k in range(20))]:
        cost = dataclasses.replace(mechanism, candidates=candidates).event(some_query(rng)).cost()
        assert (cost.epsilon, cost.delta) == (Fraction(9, 10), 0)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_without_noise_the_fewest_validation_errors_win(rng, n_classes):
    """A huge budget, all noise silent: ties go to the first that passes."""
    query = some_query(rng, n_classes=n_classes)
    for mechanism in (BUDGET, DATA):
        knobs = dataclasses.replace(mechanism, epsilon=1e4, n_classes=n_classes)
        rows = split_rows(query, 3.0, n_classes)
        n_parts = 1 if mechanism is BUDGET else 3
        errors = [
            rows.n_errors(
                rows.train(
                    candidate,
                    epsilon=1e4 / 3 if mechanism is BUDGET else 1e4,
                    noise=SilentNoise(),
                    part=slice(i % n_parts, None, n_parts),
                )
            )
            for i, candidate in enumerate(knobs.candidates)
        ]
        assert knobs.draw(query, SilentNoise())["chosen"] == int(np.argmin(errors))


def test_each_training_gets_its_share_of_the_budget_or_of_the_rows(rng):
    """The certified minimum's noise has a scale that epsilon and the rows set."""
    query = some_query(rng, n=122)
    rows = split_rows(query, 3.0, 2)
    for mechanism, epsilon, n_parts in [(BUDGET, 0.3, 1), (DATA, 0.9, 3)]:
        drawn, alone = Listening(), Listening()
        mechanism.draw(query, drawn)
        for i, candidate in enumerate(mechanism.candidates):
            part = slice(i % n_parts, None, n_parts)
            rows.train(candidate, epsilon=epsilon, noise=alone, part=part)
        assert drawn.asked == alone.asked


def test_the_parts_of_the_data_are_disjoint_and_hold_every_row():
    parts = [np.arange(91)[slice(i % 3, None, 3)] for i in range(3)]
    assert sorted(np.concatenate(parts).tolist()) == list(range(91))


def test_one_validation_row_moves_an_error_count_by_one_at_most(rng):
    rows = split_rows(some_query(rng, n_classes=3), 3.0, 3)
    weight = rng.normal(size=(3, 3))
    before = rows.n_errors(weight)
    for i in range(len(rows.judge)):
        judge, judge_y = rows.judge.copy(), rows.judge_y.copy()
        judge[i], judge_y[i] = -judge[i], (judge_y[i] + 1) % 3
        moved = dataclasses.replace(rows, judge=judge, judge_y=judge_y)
        assert abs(moved.n_errors(weight) - before) <= 1


def test_a_tie_is_judged_as_the_released_model_judges_it(rng):
    rows = split_rows(some_query(rng), 3.0, 2)
    nothing = dataclasses.replace(rows, judge=np.zeros((20, 3)))
    assert nothing.n_errors(np.ones((1, 3))) == (rows.judge_y != 0).sum()
    assert LinearModel(np.zeros((1, 3)), 3.0).predict(np.zeros((1, 2))) == 0


@pytest.mark.refusal
def test_the_choice_is_a_noisy_maximum_of_spread_two(rng):
    """Two candidates, one worse by d errors: it wins with probability exp(-epsilon d / 2) / 2.

    800 seeded draws: a deviation of 5 standard errors has a chance below 1e-6.
    """
    knobs = SplitBudgetSelection((1e6, 1e-3), epsilon=0.5, norm_bound=3.0, n_classes=2)
    rows = split_rows(some_query(rng, n=400), 3.0, 2)
    judge_y = np.array([0, 0, 0, 1, 1, 1])
    judge = np.where(judge_y == 1, 1.0, -1.0)[:, None] * np.eye(3)[0]
    rows = dataclasses.replace(rows, judge=judge, judge_y=judge_y)
    errors = [rows.n_errors(np.zeros((1, 3))), rows.n_errors(np.eye(3)[:1])]
    gap = errors[0] - errors[1]
    assert gap == 3

    class Given:
        """Rows whose trainings are given, so that the choice alone is drawn."""

        judge, n_errors, release = rows.judge, rows.n_errors, rows.release

        def train(self, regularization, **_):
            return np.zeros((1, 3)) if regularization > 1 else np.eye(3)[:1]

    noise = SeededNoise(3)
    worse = np.mean([knobs.choose(Given(), noise)["chosen"] == 0 for _ in range(800)])
    chance = math.exp(-0.5 * gap / 2) / 2
    assert worse == pytest.approx(chance, abs=5 * math.sqrt(chance * (1 - chance) / 800))


def test_fewer_training_rows_than_candidates_are_refused_before_they_are_paid(rng):
    query = some_query(rng, n=8)
    DATA.event(query)
    with pytest.raises(ValueError, match="training rows must be 7"):
        dataclasses.replace(DATA, candidates=tuple(0.1 + k for k in range(7))).event(query)
    enough = dataclasses.replace(DATA, candidates=tuple(0.1 + k for k in range(6)))
    assert enough.event(query).cost().epsilon == Fraction(9, 10)


@pytest.mark.parametrize("mechanism", [BUDGET, DATA])
def test_a_price_of_which_no_choice_is_drawn_is_refused_before_it_is_paid(mechanism):
    with pytest.raises(ValueError, match="epsilon"):
        dataclasses.replace(mechanism, epsilon=1e-90)


@pytest.mark.parametrize("mechanism", [BUDGET, DATA])
@pytest.mark.parametrize(
    "knobs", [{"candidates": ()}, {"epsilon": 0.0}, {"epsilon": math.nan}, {"n_classes": 1}]
)
def test_knobs_out_of_range_are_refused(mechanism, knobs):
    with pytest.raises(ValueError, match="must be"):
        dataclasses.replace(mechanism, **knobs)


def test_a_query_without_a_split_is_refused(rng):
    rows = some_query(rng).value
    query = training_query(rows["x"], rows["y"], dataset="toy")
    for mechanism in (BUDGET, DATA):
        with pytest.raises(ValueError, match="validation"):
            mechanism.event(query)


RANDOM = RandomSelection((10.0, 0.1, 1.0), epsilon=0.9, norm_bound=3.0, n_classes=2)


def test_the_choice_is_uniform_and_does_not_look_at_validation_rows(rng):
    """600 draws of thirds: a deviation of 5.2 standard errors has a chance below 1e-6."""
    query, noise = some_query(rng, n=12), SeededNoise(1)
    drawn = Counter(RANDOM.draw(query, noise)["chosen"] for _ in range(600))
    assert all(abs(drawn[k] / 600 - 1 / 3) < 5.2 * math.sqrt(2 / 9 / 600) for k in range(3))
    rows = split_rows(query, 3.0, 2)
    moved = dataclasses.replace(rows, judge=-rows.judge)
    assert RANDOM.choose(rows, SeededNoise(2)) == RANDOM.choose(moved, SeededNoise(2))


def test_the_cost_of_a_random_choice_is_epsilon(rng):
    assert RANDOM.event(some_query(rng)).cost().epsilon == Fraction(9, 10)


@pytest.mark.parametrize("knobs", [{"candidates": (0.1, 0.1)}, {"epsilon": math.inf}])
def test_knobs_of_a_random_choice_out_of_range_are_refused(knobs):
    with pytest.raises(ValueError, match="must be"):
        dataclasses.replace(RANDOM, **knobs)


def test_rows_of_many_classes_have_no_table_of_each_row_in_each_class(rng, monkeypatch):
    """8,000 rows of 500 classes: signs, scores or gradients of all would be 16 MB on either side."""
    monkeypatch.setattr("learners.private.linear_model.MAX_CELLS", 2**15)
    n, n_classes = 8000, 500
    x, y = rng.normal(size=(n, 2)), rng.integers(n_classes, size=n)
    query = training_query(x, y, dataset="toy", validation=np.arange(n) % 2 == 0)
    weight = rng.normal(size=(n_classes, 3))
    tracemalloc.start()
    rows = split_rows(query, 3.0, n_classes)
    found = rows.score(weight), rows.n_errors(weight), clipped_sum(rows.row, rows.sign, weight)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4e6
    score = weight @ np.asarray(rows.judge[:]).T
    sign = np.where(rows.judge_y == np.arange(n_classes)[:, None], 1.0, -1.0)
    assert found[0] == pytest.approx(-np.clip(1 - sign * score, 0, 1).mean())
    assert found[1] == (score.argmax(axis=0) != rows.judge_y).sum()
    monkeypatch.setattr("learners.private.linear_model.MAX_CELLS", 2**40)
    whole = clipped_sum(rows.row, rows.sign, weight)
    np.testing.assert_allclose(found[2], whole, atol=1e-10)


@pytest.mark.refusal
@pytest.mark.parametrize("candidates", [0.1, [0.1, 1.0], np.array([0.1, 1.0])])
def test_candidates_that_are_no_tuple_of_numbers_are_refused_at_once(candidates):
    """One number was an error of its own; a list was taken, and refused by the ledger."""
    knobs = {"norm_bound": 1.0, "n_classes": 2}
    for build in (
        lambda: SplitBudgetSelection(candidates, epsilon=1.0, **knobs),
        lambda: StabilityValidation(candidates, 1.0, 1.0, **knobs),
        lambda: HistogramValidation(candidates, 1.0, 1.0, low=0.0, high=1.0),
    ):
        with pytest.raises(TypeError, match="candidates must be a tuple of numbers, such as"):
            build()
