"""The margins that stand between a computed number and a claim: each is there, and of the size stated.

A margin that is lost changes no digit that a test of values would see.
"""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from learners.private.gaussian_objective import chi_delta, noise_deviation
from privacy import DiscreteLaplaceEvent, LatticeLaplaceEvent, PureEvent
from privacy.accounting import claim_loss, compose, exact, plan
from privacy.accounting.composition import Composition, _mirrored
from privacy.mechanisms import choose_mechanism
from privacy.mechanisms.dirichlet_pairs import (
    clamp_delta,
    dominating_delta,
    largest_clamp_scale,
    largest_scale,
)
from privacy.mechanisms.gaussian import discrete_gaussian_delta, discrete_gaussian_scale

MILLIONTH = 1 + 1e-6
PRICES = [(1.0, 1e-6), (0.05, 0.05), (3.0, 1e-9)]


@pytest.mark.parametrize("price", PRICES)
def test_every_searched_scale_keeps_a_millionth_of_its_delta(price):
    """The two laws of a double-precision search differ from the exact ones by far less than that."""
    epsilon, delta = price
    scale = discrete_gaussian_scale(epsilon, delta)
    assert discrete_gaussian_delta(scale, epsilon) * MILLIONTH <= delta
    deviation = noise_deviation(epsilon, delta, 3)
    assert chi_delta(epsilon, 2 * math.sqrt(3) / deviation, 3) * MILLIONTH <= delta * (1 + 1e-9)
    assert chi_delta(epsilon, 2 * math.sqrt(3) / deviation, 3) * (1 + 2e-6) > delta


@pytest.mark.parametrize("price", [(1.0, 1e-3), (0.05, 0.05)])
def test_every_searched_dirichlet_keeps_a_millionth_of_its_delta(price):
    epsilon, delta = price
    scale = float(largest_scale(50, epsilon, delta))
    assert dominating_delta(50, scale, epsilon) * MILLIONTH <= delta
    scale = float(largest_clamp_scale(50, epsilon, delta))
    assert clamp_delta(50, scale, epsilon) * MILLIONTH <= delta


@given(st.decimals("0.001", "90", places=6))
def test_the_loss_of_a_claim_is_never_below_it(claimed):
    """The nearest double to a decimal may be below it."""
    claim = exact(str(claimed))
    assert Fraction(claim_loss(claim, Fraction(0)).width) > min(claim, Fraction(float(claim)))
    assert Fraction(claim_loss(claim, Fraction(0)).width) >= claim


@pytest.mark.parametrize("scale", [3.0, 7.0, 20.0 / 3])
def test_the_loss_of_noise_for_other_sensitivities_is_never_below_l1_over_the_scale(scale):
    lattice = LatticeLaplaceEvent(scale, 1.0, 3, 1.0), LatticeLaplaceEvent(scale, 2.0, 2, 1.0)
    for event in (*lattice, DiscreteLaplaceEvent(scale, 1.0, 1.0)):
        assert Fraction(event.loss().width) > Fraction(event.l1) / Fraction(scale)


def test_deltas_are_raised_before_they_are_composed():
    """By a billionth, and by what a sum near zero may be off."""
    step, loss = 0.01, PureEvent("toy", 1.0).loss()
    upper = _mirrored(loss, step)[100:]
    at = np.arange(upper.size) * step
    assert (upper >= np.minimum(1.0, loss.delta(at) * (1 + 9e-10) + 9e-14)).all()


def test_what_composition_returns_is_raised_for_the_transform():
    composed = compose({PureEvent("toy", 0.1): 50})
    assert composed.slack > 0
    bare = composed._pmf.get_delta_for_epsilon(1.0)
    assert composed.delta(1.0) == bare + composed.slack
    epsilon = composed._pmf.get_epsilon_for_delta(1e-6 - composed.slack)
    assert composed.epsilon(1e-6) >= epsilon * (1 + 9e-13)
    assert composed.epsilon(1e-6) > composed._pmf.get_epsilon_for_delta(1e-6) > 0


def test_a_plan_leaves_a_millionth_of_its_delta_to_other_machines(monkeypatch):
    asked, composed = [], Composition.epsilon

    def listening(self, delta):
        asked.append(delta)
        return composed(self, delta)

    monkeypatch.setattr(Composition, "epsilon", listening)
    plan({PureEvent("toy", 0.1): 50}, delta=1e-5)
    assert asked == [1e-5 * (1 - 1e-6)]


def test_a_chosen_plan_leaves_it_too(monkeypatch):
    """Where every bundle costs a little less than the delta, none fits but the one that adds up."""
    monkeypatch.setattr(Composition, "delta", lambda *_: 1e-5 * (1 - 0.5e-6))
    choice = choose_mechanism(3, 1.0, 1e-5, n_releases=4)
    assert choice.mechanism.epsilon == 0.25


def test_a_chosen_plan_may_cost_all_but_the_margin_and_no_release_more_than_a_hundred(monkeypatch):
    """Where every bundle costs just that, the dearest releases fit."""
    monkeypatch.setattr(Composition, "delta", lambda *_: 1e-5 * (1 - 1e-6))
    choice = choose_mechanism(3, 1.0, 1e-5, n_releases=4)
    assert 99.9 < choice.mechanism.epsilon <= 100.0
