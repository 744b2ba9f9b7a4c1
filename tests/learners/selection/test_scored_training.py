"""The training score: what it costs, and that it is of the released model."""

from __future__ import annotations

import dataclasses
from fractions import Fraction

import numpy as np
import pytest

from learners import (
    LinearModel,
    NoisyGradientDescent,
    NoisyMoments,
    ReducedTraining,
    ScoredTraining,
    StabilityValidation,
)
from learners.private.objective_perturbation import training_query
from privacy.accounting import exact
from tests.learners.scripted_noise import SeededNoise, SilentNoise

TRAINING = StabilityValidation(
    candidates=(0.01, 0.1), epsilon_train=0.3, epsilon_select=0.1, norm_bound=2.0, n_classes=3
)
DESCENT = NoisyGradientDescent(0.4, 1e-4, 2.0, 3)


def rows(rng: np.random.Generator, n: int = 300):  # type: ignore[no-untyped-def]
    y = rng.integers(3, size=n)
    x = np.eye(3)[y] + 0.5 * rng.normal(size=(n, 3))
    return training_query(x, y, dataset="toy", validation=np.arange(n) % 4 == 0)


def test_the_price_is_the_trainings_and_epsilon_score(rng: np.random.Generator) -> None:
    scored = ScoredTraining(TRAINING, epsilon_score=0.2)
    assert scored.event(rows(rng)).cost().epsilon == exact(0.3) + exact(0.1) + exact(0.2)


@pytest.mark.long
def test_the_price_is_the_exact_sum_wherever_it_is_read() -> None:
    """20,000 settings; in a fifth of them the sum in doubles is below it."""
    rng, query, below = np.random.default_rng(0), rows(np.random.default_rng(0), n=8), 0
    for _ in range(20_000):
        digits = int(rng.integers(1, 17))
        prices = [round(p, digits) + 0.01 for p in rng.uniform(0, 3, size=3).tolist()]
        training = dataclasses.replace(TRAINING, epsilon_train=prices[0], epsilon_select=prices[1])
        scored = ScoredTraining(training, epsilon_score=prices[2])
        total = sum((Fraction(str(price)) for price in prices), Fraction(0))
        assert scored.epsilon == total
        if rng.random() < 0.02:
            assert scored.event(query).cost().epsilon == total
        below += Fraction(str(float(sum(prices)))) < total
    assert below > 2000


def test_noisy_descent_costs_its_delta_and_sees_no_validation_row(rng: np.random.Generator) -> None:
    scored = ScoredTraining(DESCENT, epsilon_score=0.2)
    query = rows(rng)
    cost = scored.event(query).cost()
    assert (cost.epsilon, cost.delta) == (exact(0.4) + exact(0.2), exact(1e-4))
    assert scored.event(query).parameters["n"] == (~query.value["validation"]).sum()
    x, y = query.value["x"].copy(), query.value["y"].copy()
    x[query.value["validation"]], y[query.value["validation"]] = 0.0, 0
    moved = dataclasses.replace(query, value={**query.value, "x": x, "y": y})
    on_components = ReducedTraining(DESCENT, NoisyMoments(0.7, 1e-6, 2))
    for one in (scored, ScoredTraining(on_components, epsilon_score=0.2)):
        drawn, again = (
            one.draw(rows, SeededNoise(np.random.default_rng(0))) for rows in (query, moved)
        )
        assert drawn == again


@pytest.mark.parametrize(
    "mechanism",
    [TRAINING, ScoredTraining(TRAINING, 0.2), ScoredTraining(DESCENT, 0.2),
     ScoredTraining(ReducedTraining(DESCENT, NoisyMoments(0.7, 1e-6, 2)), 0.2)],
)  # fmt: skip
def test_weights_beside_a_split_are_refused_before_they_are_paid(
    rng: np.random.Generator, mechanism
) -> None:
    query = rows(rng)
    weighted = dataclasses.replace(query, value={**query.value, "weight": np.full(query.n, 0.5)})
    with pytest.raises(ValueError, match="must hold no weight beside validation"):
        mechanism.event(weighted)


def test_without_noise_the_score_is_the_share_of_training_rows_that_are_right(
    rng: np.random.Generator,
) -> None:
    query = rows(rng)
    drawn = ScoredTraining(TRAINING, epsilon_score=0.2).draw(query, SilentNoise())
    trained_on = ~query.value["validation"]
    model = LinearModel(np.array(drawn["coef"]), 2.0)
    right = model.predict(query.value["x"][trained_on]) == query.value["y"][trained_on]
    assert drawn["score"] == right.mean()


def test_the_score_is_in_0_1_however_large_the_noise(rng: np.random.Generator) -> None:
    query, tiny = rows(rng, n=8), ScoredTraining(TRAINING, epsilon_score=0.001)
    scores = {tiny.draw(query, SeededNoise(np.random.default_rng(s)))["score"] for s in range(20)}
    assert all(0 <= score <= 1 for score in scores)
    assert scores & {0.0, 1.0}


def test_one_replaced_row_moves_the_count_of_right_ones_by_at_most_one(
    rng: np.random.Generator,
) -> None:
    """The sensitivity that the noise is scaled to, for a model that is given."""
    query, model = (
        rows(rng),
        LinearModel(np.array([[1.0, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]]), 2.0),
    )
    x, y = query.value["x"], query.value["y"]
    before = int((model.predict(x) == y).sum())
    for row in range(0, len(y), 17):
        moved_x, moved_y = x.copy(), y.copy()
        moved_x[row], moved_y[row] = rng.normal(size=3), rng.integers(3)
        assert abs(int((model.predict(moved_x) == moved_y).sum()) - before) <= 1


def test_the_noise_of_the_score_has_scale_one_over_epsilon(rng: np.random.Generator) -> None:
    asked: list[tuple[float, int]] = []

    class Listening(SilentNoise):
        def discrete_laplace(self, scale: float, size: int) -> list[int]:
            asked.append((scale, size))
            return [0] * size

    ScoredTraining(TRAINING, epsilon_score=0.25).draw(rows(rng), Listening())
    assert asked[-1] == (4.0, 1)


@pytest.mark.parametrize("epsilon", [0.0, -1.0, float("nan"), float("inf")])
def test_a_price_that_is_none_is_refused(epsilon: float) -> None:
    with pytest.raises(ValueError, match="epsilon_score must be > 0 and finite"):
        ScoredTraining(TRAINING, epsilon_score=epsilon)


def test_a_price_of_which_no_noise_is_drawn_is_refused_before_it_is_paid() -> None:
    with pytest.raises(ValueError, match="epsilon"):
        ScoredTraining(TRAINING, epsilon_score=1e-90)


def test_a_training_that_selects_keeps_its_own_rows_on_components_too(
    rng: np.random.Generator,
) -> None:
    query, training = rows(rng), ReducedTraining(TRAINING, NoisyMoments(0.7, 1e-6, 2))
    alone = training.draw(query, SeededNoise(np.random.default_rng(0)))
    drawn = ScoredTraining(training, 0.2).draw(query, SeededNoise(np.random.default_rng(0)))
    assert {name: drawn[name] for name in alone} == alone
