import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from learners.private.linear_model import Signs, fit_linear
from learners.private.logistic_minimum import TOLERANCE, certified_minimum, lift
from learners.private.objective_perturbation import training_query
from learners.private.output_perturbation import (
    OutputPerturbation,
    minimum_sensitivity,
    noisy_output,
)
from privacy.accounting import exact
from privacy.audit import audit_losses
from privacy.ledger.ledger import Ledger
from privacy.query import Unit
from tests.learners.scripted_noise import SeededNoise, SilentNoise

MECHANISM = OutputPerturbation(epsilon=1.0, regularization=0.1, norm_bound=2.0, n_classes=2)


def some_rows(rng, n=30, n_classes=2):
    return rng.normal(size=(n, 2)), rng.integers(n_classes, size=n)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10**6), log_regularization=st.floats(-3, 1), size=st.floats(0.1, 100))
def test_no_replacement_of_a_row_moves_a_problems_weights_by_more_than_delta(
    seed, log_regularization, size
):
    rng = np.random.default_rng(seed)
    n, regularization = int(rng.integers(1, 9)), 10**log_regularization
    row, sign = lift(size * rng.normal(size=(n, 2)), 1.0), rng.choice([-1.0, 1.0], n)
    other, other_sign = row.copy(), sign.copy()
    other[0], other_sign[0] = lift(size * rng.normal(size=(1, 2)), 1.0)[0], -sign[0]
    found = [
        certified_minimum(rows, signed, np.zeros(3), regularization, TOLERANCE)
        for rows, signed in ((row, sign), (other, other_sign))
    ]
    moved = float(np.linalg.norm(found[0] - found[1]))
    assert moved <= minimum_sensitivity(regularization, n)


def test_the_bound_on_the_movement_is_not_far_above_what_rows_can_reach():
    """Strong regularization: every row is doubted by half, so that half of the bound is reached."""
    row, sign = np.eye(2)[[0, 1]], np.array([1.0, 1.0])
    other = -row[[0]], row[[1]]
    here = certified_minimum(row, sign, np.zeros(2), 100.0, TOLERANCE)
    there = certified_minimum(np.vstack(other), sign, np.zeros(2), 100.0, TOLERANCE)
    moved = float(np.linalg.norm(here - there))
    assert moved == pytest.approx(minimum_sensitivity(100.0, 2) / 2, rel=0.01)


def test_the_bound_on_the_movement_counts_how_near_the_minimum_the_solver_stops():
    """By the formula of the docstring, (2 / n + 2 tau) / lam, where both terms are alike."""
    assert minimum_sensitivity(0.5, 10**10) == pytest.approx((2e-10 + 2 * TOLERANCE) / 0.5)
    assert TOLERANCE == 1e-10


def test_without_noise_the_model_is_the_non_private_one(rng):
    x, y = some_rows(rng)
    released = MECHANISM.draw(training_query(x, y, dataset="toy"), SilentNoise())
    plain = fit_linear(x, y, regularization=0.1, norm_bound=2.0, n_classes=2)
    assert np.array(released["coef"]) == pytest.approx(plain.coef, abs=1e-8)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_the_noise_has_the_norm_of_the_proof_for_each_problem(rng, n_classes):
    x, y = some_rows(rng, n_classes=n_classes)
    asked = []

    class Listening(SilentNoise):
        def gamma(self, shape, scale):
            asked.append((shape, scale))
            return 0.0

    sign = Signs(y, n_classes)
    noisy_output(lift(x, 1.0), sign, epsilon=2.0, regularization=0.1, noise=Listening())
    scale = len(sign) * (2 / 30 + 2e-10) / 0.1 / 2.0
    assert asked == [(3, pytest.approx(scale))] * len(sign)


def test_the_event_depends_on_knobs_and_the_number_of_rows_alone(rng):
    events = [MECHANISM.event(training_query(*some_rows(rng), dataset="toy")) for _ in range(2)]
    assert events[0] == events[1]
    assert events[0].name == "output perturbation"
    assert events[0].cost().epsilon == exact(1.0)


def test_a_query_without_trainable_rows_is_refused_before_it_is_paid():
    query = training_query(np.zeros((2, 0)), np.zeros(2, int), dataset="toy")
    with pytest.raises(ValueError, match="must"):
        MECHANISM.event(query)


@pytest.mark.parametrize(
    "knobs",
    [{"epsilon": 0.0}, {"epsilon": math.nan}, {"regularization": 0.0}, {"norm_bound": math.nan}],
)
def test_knobs_out_of_range_are_refused(knobs):
    with pytest.raises(ValueError, match="must be"):
        dataclasses.replace(MECHANISM, **knobs)


def test_a_release_is_paid_through_the_ledger_once(rng, tmp_path):
    ledger = Ledger(tmp_path / "ledger.sqlite", key=bytes(32))
    ledger.open_budget("toy", unit=Unit.ROW, epsilon=1.5, delta=0.0, n=30)
    query = training_query(*some_rows(rng), dataset="toy")
    first, again = ledger.release(MECHANISM, query), ledger.release(MECHANISM, query)
    assert first.value == again.value
    assert ledger.statement("toy").spent.epsilon == exact(1.0)


# the audit: one column, where the law of the weights is Laplace's --------------------------------

ROW, OTHER = np.array([[1.0]]), np.array([[-1.0]])
SIGN, STRENGTH, DRAWS = np.array([[1.0]]), 20.0, 2000


class FiveTimesTooLittle(SeededNoise):
    """A mutant: a fifth of the noise."""

    def gamma(self, shape, scale):
        return super().gamma(shape, scale / 5)


def audited(source, scale):
    centre = [
        certified_minimum(row, SIGN[0], np.zeros(1), STRENGTH, TOLERANCE) for row in (ROW, OTHER)
    ]
    losses = []
    for row, seed in ((ROW, 1), (OTHER, 2)):
        noise = source(seed)
        weight = np.array(
            [
                noisy_output(row, SIGN, epsilon=1.0, regularization=STRENGTH, noise=noise)[0, 0]
                for _ in range(DRAWS)
            ]
        )
        losses.append((np.abs(weight - centre[1]) - np.abs(weight - centre[0])) / scale)
    return audit_losses(losses[0], losses[1], epsilon=1.0)


def test_the_audit_does_not_refute_the_claim():
    """Seeded; refuted by chance in one of a thousand seeds at most."""
    assert not audited(SeededNoise, minimum_sensitivity(STRENGTH, 1)).refutes(0.0)


def test_the_audit_catches_a_fifth_of_the_noise():
    scale = minimum_sensitivity(STRENGTH, 1) / 5
    assert audited(FiveTimesTooLittle, scale).refutes(0.0)
