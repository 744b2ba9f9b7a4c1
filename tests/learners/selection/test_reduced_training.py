"""Training on private components: what it costs, what it sees, and that it is worth it."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from learners import (
    DeflatedDirections,
    LinearModel,
    NoisyGradientDescent,
    NoisyMoments,
    PrincipalSubspace,
    ReducedTraining,
    ScoredTraining,
    StabilityValidation,
)
from learners.private.objective_perturbation import training_query
from privacy.accounting import exact
from privacy.mechanisms import ApproximateEvent, PureEvent
from tests.learners.scripted_noise import SeededNoise

KNOBS = {"norm_bound": 2.0, "n_classes": 3}
TRAINING = StabilityValidation((0.01, 0.1), epsilon_train=0.3, epsilon_select=0.1, **KNOBS)
DESCENT = NoisyGradientDescent(0.4, 1e-5, **KNOBS)


def rows(rng: np.random.Generator, n: int = 400, n_features: int = 6):  # type: ignore[no-untyped-def]
    """Three classes in the plane of the first two features; the others are small."""
    y = rng.integers(3, size=n)
    x = 0.05 * rng.normal(size=(n, n_features))
    angle = 2 * np.pi * y / 3
    x[:, :2] += np.column_stack([np.cos(angle), np.sin(angle)])
    return training_query(x, y, dataset="toy", validation=np.arange(n) % 4 == 0)


@pytest.mark.parametrize(
    ("training", "reduction", "delta"),
    [
        (TRAINING, PrincipalSubspace(0.7, 2), 0.0),
        (TRAINING, DeflatedDirections(0.7, 3), 0.0),
        (TRAINING, NoisyMoments(0.7, 1e-6, 2), 1e-6),
        (DESCENT, PrincipalSubspace(0.7, 2), 1e-5),
        (DESCENT, NoisyMoments(0.7, 1e-6, 2), 1.1e-5),
    ],
)
def test_the_price_is_that_of_the_components_and_of_the_training(
    rng: np.random.Generator, training, reduction, delta: float
) -> None:
    """The deltas alike, also with a score on top."""
    reduced, query = ReducedTraining(training, reduction), rows(rng)
    scored = ScoredTraining(reduced, epsilon_score=0.2)
    asked = query
    if training is DESCENT:
        kept = ~query.value["validation"]
        value = {name: query.value[name][kept] for name in ("x", "y")}
        asked = dataclasses.replace(query, value=value, n=int(kept.sum()))
    cost, whole = reduced.event(asked).cost(), scored.event(query).cost()
    assert cost.epsilon == exact(0.4) + exact(0.7) == reduced.epsilon
    assert whole.epsilon == exact(0.4) + exact(0.7) + exact(0.2)
    assert float(cost.delta) == float(whole.delta) == pytest.approx(delta)
    assert isinstance(reduced.event(asked), ApproximateEvent if delta else PureEvent)


def test_the_deltas_are_never_booked_below_their_sum() -> None:
    """The double nearest to this sum is written as 1e-22 less."""
    delta = 6.369616873214542e-07, 2.697867137638703e-07
    descent = dataclasses.replace(DESCENT, delta=delta[0])
    reduced = ReducedTraining(descent, NoisyMoments(0.7, delta[1], 2))
    assert exact(reduced.delta) >= exact(delta[0]) + exact(delta[1])


def test_a_row_is_judged_by_its_projection_alone(rng: np.random.Generator) -> None:
    """Three problems' coefficients span as many dimensions as there are components."""
    reduced = ReducedTraining(TRAINING, PrincipalSubspace(5.0, 1))
    drawn = reduced.draw(rows(rng), SeededNoise(np.random.default_rng(0)))
    coef = np.array(drawn["coef"])
    assert coef.shape == (3, 7)
    assert np.linalg.matrix_rank(coef[:, :-1]) == 1
    whole = np.array(TRAINING.draw(rows(rng), SeededNoise(np.random.default_rng(0)))["coef"])
    assert np.linalg.matrix_rank(whole[:, :-1]) == 3


def test_the_event_depends_on_public_things_alone(rng: np.random.Generator) -> None:
    reduced, query = ReducedTraining(TRAINING, PrincipalSubspace(0.7, 2)), rows(rng)
    other = dataclasses.replace(
        query, value={**query.value, "x": -3 * query.value["x"], "y": 0 * query.value["y"]}
    )
    assert reduced.event(query) == reduced.event(other)
    assert reduced.event(query).parameters["n_components"] == 2


def test_components_that_are_not_fewer_than_the_features_are_refused(
    rng: np.random.Generator,
) -> None:
    with pytest.raises(ValueError, match="n_components must be below the number of features"):
        ReducedTraining(TRAINING, DeflatedDirections(0.7, 6)).event(rows(rng))


def test_few_components_of_many_features_are_worth_their_price() -> None:
    """200 features of which two tell: the same budget gives the better model by the components."""
    rng = np.random.default_rng(3)
    query, test = rows(rng, 3000, 200), rows(rng, 2000, 200)
    plain = StabilityValidation((0.01,), 0.8, 0.0, **KNOBS)
    small = StabilityValidation((0.01,), 0.4, 0.0, **KNOBS)
    reduced = ReducedTraining(small, NoisyMoments(0.4, 1e-6, 2))
    right = []
    for mechanism in (plain, reduced):
        drawn = mechanism.draw(query, SeededNoise(np.random.default_rng(0)))
        model = LinearModel(np.array(drawn["coef"]), 2.0)
        right.append(np.mean(model.predict(test.value["x"]) == test.value["y"]))
    assert right[1] > right[0] + 0.1
