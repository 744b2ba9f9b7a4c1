import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import softmax
from scipy.stats import norm

from learners.private import LinearModel, PrivateLogisticRegression, fit_linear
from learners.private.linear_model import Signs
from learners.private.logistic_minimum import lift
from learners.private.noisy_descent import (
    NoisyGradientDescent,
    clipped_sum,
    descend,
    gaussian_ratio,
    private_training,
)
from learners.private.objective_perturbation import ObjectivePerturbation, training_query
from privacy.accounting import exact
from privacy.audit import audit_losses
from privacy.ledger import BudgetError
from privacy.ledger.ledger import Ledger
from privacy.query import Unit
from tests.learners.scripted_noise import SeededNoise, SilentNoise

seeds = st.integers(0, 2**32 - 1)


def some_rows(rng, n_classes, n=40):
    y = rng.integers(n_classes, size=n)
    return rng.normal(size=(n, 3)) + y[:, None], y


def mechanism(n_classes=2, **price):
    return NoisyGradientDescent(
        **({"epsilon": 1.0, "delta": 1e-3} | price), norm_bound=2.0, n_classes=n_classes
    )


@settings(deadline=None, derandomize=True, max_examples=40)
@given(seed=seeds, n_classes=st.sampled_from([2, 3, 7]), size=st.sampled_from([0.0, 1.0, 1e3]))
def test_no_row_moves_the_sum_of_a_step_by_more_than_a_half(seed, n_classes, size):
    rng = np.random.default_rng(seed)
    x, y = some_rows(rng, n_classes)
    row, share = lift(x, 0.5), rng.uniform(size=len(y))
    sign = Signs(y, n_classes, share)
    weight = size * rng.normal(size=(len(sign), row.shape[1]))
    whole = clipped_sum(row, sign, weight)
    for one in range(5):
        rest = np.arange(len(y)) != one
        moved = whole - clipped_sum(row[rest], sign[:, rest], weight)
        assert np.linalg.norm(moved) <= 0.5 + 1e-9


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_rows_gradient_is_multiplied_by_its_weight_and_then_shortened(rng, n_classes):
    """Oracle: row by row, by the formula of the docstring."""
    x, y = some_rows(rng, n_classes)
    row, share = lift(x, 0.5), np.where(np.arange(40) < 20, 0.1, rng.uniform(size=40))
    sign = Signs(y, n_classes, share)
    weight = rng.normal(size=(len(sign), row.shape[1]))
    total, shortened = np.zeros_like(weight), 0
    for z, code, part in zip(row, y, share, strict=True):
        score = weight @ z
        chance = 1 / (1 + np.exp(-score)) if n_classes == 2 else np.exp(score) / np.exp(score).sum()
        is_own = np.array([code == 1]) if n_classes == 2 else np.arange(n_classes) == code
        gradient = part * np.outer(chance - is_own, z)
        length = np.linalg.norm(gradient)
        total += gradient * min(1.0, 0.5 / length)
        shortened += length > 0.5
    assert 0 < shortened < 20
    np.testing.assert_allclose(clipped_sum(row, sign, weight), total, rtol=1e-9)


@pytest.mark.parametrize("n", [10, 5_000, 10**7])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-9), (0.5, 1e-6), (8.0, 1e-4)])
def test_all_steps_together_cost_the_claim_and_hardly_less(n, epsilon, delta):
    """Theorem 8 of Balle and Wang (2018) for the ratio of all steps, computed anew."""
    plan = mechanism(epsilon=epsilon, delta=delta).plan(n)
    mu = math.sqrt(plan.steps) / plan.deviation
    realised = norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(
        -mu / 2 - epsilon / mu
    )
    assert realised <= delta
    assert realised == pytest.approx(delta, rel=1e-4)


class Recording(SeededNoise):
    """Keeps the Gaussian vectors drawn."""

    def __init__(self, seed):
        super().__init__(seed)
        self.lengths, self.directions = [], []

    def gamma(self, shape, scale):
        self.lengths.append(super().gamma(shape, scale))
        return self.lengths[-1]

    def direction(self, dimension):
        self.directions.append(super().direction(dimension))
        return self.directions[-1]


ROW = lift(np.array([[2.0], [-1.0], [1.0]]), 2.0)
SIGN, OTHER = np.array([[1.0, -1.0, 1.0]]), np.array([[-1.0, -1.0, 1.0]])


def path_loss(truth, plan, seed):
    """Log ratio of the densities of all steps' noisy sums, SIGN against OTHER, drawn for `truth`."""
    noise, loss, weight = Recording(seed), 0.0, np.zeros((1, 2))
    descend(ROW, truth, plan, noise=noise)
    for squared, direction in zip(noise.lengths, noise.directions, strict=True):
        drawn = math.sqrt(squared) * direction[None]
        seen = clipped_sum(ROW, truth, weight) + plan.deviation * drawn
        far = [seen - clipped_sum(ROW, sign, weight) for sign in (OTHER, SIGN)]
        loss += (np.square(far[0]).sum() - np.square(far[1]).sum()) / (2 * plan.deviation**2)
        weight = weight - plan.length / len(ROW) * seen
    return loss


def audited(price, claim):
    plan = mechanism(epsilon=price, delta=0.05).plan(3)
    losses = [
        [path_loss(truth, plan, [seed, k]) for seed in range(400)]
        for k, truth in enumerate((SIGN, OTHER))
    ]
    return audit_losses(np.array(losses[0]), np.array(losses[1]), epsilon=claim)


@pytest.mark.long
def test_the_audit_does_not_refute_the_claim():
    """The path of the weights, which tells more than the last; refuted in one of a thousand seeds at most."""
    assert not audited(1.0, 1.0).refutes(0.05)


@pytest.mark.long
def test_the_audit_catches_too_little_noise():
    """Noise that costs epsilon 6, claimed to cost 1."""
    assert audited(6.0, 1.0).refutes(0.05)


def test_two_classes_without_noise_come_near_the_trained_model(rng):
    x, y = some_rows(rng, 2, n=400)
    query = training_query(x, y, dataset="toy")
    coef = mechanism(epsilon=50.0).draw(query, SilentNoise())["coef"]
    found = LinearModel(np.array(coef), 2.0).predict(x)
    clear = fit_linear(x, y, regularization=1e-3, norm_bound=2.0, n_classes=2).predict(x)
    assert (found == clear).mean() > 0.95


def test_many_classes_are_told_with_the_probabilities_of_the_softmax(rng):
    x, y = some_rows(rng, 4)
    one = mechanism(4)
    row, sign = lift(x, 2.0), Signs(y, 4)
    weight = descend(row, sign, one.plan(40), noise=SilentNoise())
    coef = one.draw(training_query(x, y, dataset="toy"), SilentNoise())["coef"]
    found = LinearModel(np.array(coef), 2.0).predict_proba(x)
    np.testing.assert_allclose(found, softmax(row @ weight.T, axis=1), rtol=1e-9)


@pytest.mark.parametrize("train", [mechanism(3), ObjectivePerturbation(1.0, 0.01, 2.0, 3)])
def test_a_weight_counts_within_zero_and_one_and_none_is_nothing(rng, train):
    x, y = some_rows(rng, 3)

    def weights(given):
        query = training_query(x, y, dataset="toy", weight=np.asarray(given, dtype=float))
        return np.array(train.draw(query, SilentNoise())["coef"])

    plain = np.array(train.draw(training_query(x, y, dataset="toy"), SilentNoise())["coef"])
    np.testing.assert_allclose(weights(np.ones(40)), plain, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(weights(np.full(40, 7.0)), plain, rtol=1e-9, atol=1e-12)
    some = np.where(np.arange(40) < 5, np.nan, 1.0)
    np.testing.assert_array_equal(weights(some), weights(np.nan_to_num(some)))
    assert not np.allclose(weights(some), plain)


def test_the_event_depends_on_knobs_and_the_number_of_rows_alone(rng):
    one, other = (training_query(*some_rows(rng, 2), dataset="toy") for _ in range(2))
    event = mechanism().event(one)
    assert event == mechanism().event(other)
    assert (event.epsilon, event.delta) == (1.0, 1e-3)
    assert event.parameters["n"] == 40


@pytest.mark.refusal
@pytest.mark.parametrize(("n_features", "n_labels"), [(0, 2), (1, 3)])
def test_a_query_without_trainable_rows_is_refused_before_it_is_paid(n_features, n_labels):
    wrong = training_query(np.zeros((2, n_features)), np.zeros(n_labels, int), dataset="toy")
    with pytest.raises(ValueError, match="must be"):
        mechanism().event(wrong)


def test_a_delta_of_one_row_or_more_is_refused(rng):
    query = training_query(*some_rows(rng, 2), dataset="toy")
    with pytest.raises(ValueError, match="delta must be below 1/n, got delta=0.025 with n=40"):
        mechanism(delta=0.025).event(query)


@pytest.mark.parametrize(
    ("knob", "words"),
    [
        ({"epsilon": 0.0}, "epsilon must be > 0"),
        ({"delta": 0.0}, "delta must be"),
        ({"delta": 1.5}, r"delta must be in \(0, 1\), got delta=1.5$"),
        ({"n_classes": 1}, "n_classes"),
    ],
)
def test_a_price_or_a_knob_out_of_range_is_refused(knob, words):
    with pytest.raises(ValueError, match=words):
        mechanism(**knob)


@pytest.mark.parametrize(
    ("epsilon", "delta", "words"),
    [
        (0.0, 1e-6, "epsilon must be > 0 and at most 100, got epsilon=0.0"),
        (math.nan, 1e-6, "epsilon must be > 0"),
        (1.0, -1e-6, r"delta must be in \(0, 1\), got delta=-1e-06$"),
        (0.0, 0.0, "epsilon must be >= 1e-100"),
    ],
)
def test_no_mechanism_is_chosen_for_a_price_that_is_none(epsilon, delta, words):
    with pytest.raises(ValueError, match=words):
        private_training(
            epsilon, delta, n_features=20, regularization=0.01, norm_bound=1.0, n_classes=2
        )


@pytest.mark.parametrize(
    ("n_features", "n_classes", "delta", "name"),
    [
        (20, 2, 1e-6, "NoisyGradientDescent"),
        (1, 2, 1e-9, "ObjectivePerturbation"),
        (1, 5, 1e-9, "NoisyGradientDescent"),
        (1000, 26, 0.0, "ObjectivePerturbation"),
    ],
)
def test_descent_is_chosen_where_its_noise_is_less(n_features, n_classes, delta, name):
    chosen = private_training(
        0.5, delta, n_features=n_features, regularization=0.01, norm_bound=1.0, n_classes=n_classes
    )
    assert type(chosen).__name__ == name
    if delta:
        problems = 1 if n_classes == 2 else n_classes
        descent = 1 / gaussian_ratio(0.5, delta)
        pure = 2 * problems * math.sqrt(n_features + 1) / 0.5
        assert (descent < pure) == (name == "NoisyGradientDescent")


def test_an_estimator_with_a_delta_pays_for_descent_and_is_refused_beyond(tmp_path, rng):
    x, y = some_rows(rng, 3, n=300)
    with Ledger(tmp_path / "ledger.sqlite", key=bytes(32)) as ledger:
        ledger.open_budget("toy", unit=Unit.ROW, epsilon=1.0, delta=1e-5, n=300)
        given = {"ledger": ledger, "dataset": "toy", "classes": [0, 1, 2], "norm_bound": 4.0}
        model = PrivateLogisticRegression(epsilon=1.0, delta=1e-5, **given).fit(
            x, y, sample_weight=np.ones(300)
        )
        assert ledger.statement("toy").spent.delta == exact(1e-5)
        assert model.coef_.shape == (3, 3)
        with pytest.raises(BudgetError):
            PrivateLogisticRegression(epsilon=0.5, delta=1e-6, **given).fit(x, y)
