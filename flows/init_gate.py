"""The gate's numbers that settings propose, from the public number of labelled tasks."""

from __future__ import annotations

import math
from dataclasses import dataclass

from flows.settings.sections import GateSettings, ModelSettings

__all__ = ["GateNumbers", "gate_for", "training_price"]

WIDEST_THRESHOLD = 0.15  # a gate that tolerates more says little
NOISE_VARIANCE = 2 * (4**2 + 2**2)  # of Thresholdout's comparison, in sigmas squared
SPREADS = 3  # standard deviations, of a model that does not overfit, within the threshold


@dataclass(frozen=True, slots=True)
class GateNumbers:
    """The gate's numbers for a holdout of at least so many tasks."""

    holdout: int
    threshold: float
    sigma: float
    budget: int


def gate_for(n_labelled: int) -> GateNumbers | None:
    """The most refutations that a gate can afford which tolerates little; None if it can none.

    The deal to the holdout is random: all but four of its standard deviations are counted on.
    """
    share, price = GateSettings().holdout, training_price()
    size = math.floor(n_labelled * share - 4 * math.sqrt(n_labelled * share * (1 - share)))
    for budget in (3, 2, 1) if size > 0 else ():
        sigma = _rounded_up(2 * budget / (price * size))
        threshold = _rounded_up(max(SPREADS * _spread(size, n_labelled, sigma), 0.02))
        if threshold <= WIDEST_THRESHOLD:
            return GateNumbers(size, threshold, sigma, budget)
    return None


def _spread(n_holdout: int, n_labelled: int, sigma: float) -> float:
    """Standard deviation, at most, of holdout less training score where nothing overfits.

    Both are means of 0s and 1s; the training score has the noise of its release, and the comparison
    the gate's own.
    """
    model = _model()
    n_scored = n_labelled * (1 - GateSettings().holdout) * model.validation
    chance = 0.25 / n_holdout + 0.25 / n_scored
    score = 2 / (model.epsilon_score * n_scored) ** 2
    return math.sqrt(chance + score + NOISE_VARIANCE * sigma**2)


def training_price() -> float:
    """What training takes of the budget where nothing else is said."""
    given = _model()
    return round(given.epsilon_train + given.epsilon_select + given.epsilon_score, 9)


def _model() -> ModelSettings:
    """The model's settings where nothing else is said."""
    return ModelSettings(norm_bound=1.0)


def _rounded_up(value: float) -> float:
    """The next number of two digits."""
    digits = 1 - math.floor(math.log10(value))
    return round(math.ceil(round(value * 10.0**digits, 6)) / 10.0**digits, digits)
