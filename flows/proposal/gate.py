"""Whether a campaign can train and judge a private model, and the numbers of the gate that judges it.

All of it follows from public facts, above all the number of labelled tasks.

>>> gate_for(50) is None  # too few tasks for a holdout
True
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from flows.proposal.facts import CampaignFacts
from flows.settings import GateSettings, ModelSettings

__all__ = ["GateNumbers", "gate_for", "training_price", "why_no_model"]

MAX_THRESHOLD = 0.15  # a gate that tolerates more says little
NOISE_VARIANCE = 2 * (4**2 + 2**2)  # of Thresholdout's comparison, in sigmas squared
N_DEVIATIONS = 3  # of a model that does not overfit, within the threshold


@dataclass(frozen=True, slots=True)
class GateNumbers:
    """The gate's numbers for a holdout of at least so many tasks."""

    holdout: int
    threshold: float
    sigma: float
    budget: int


def gate_for(n_labelled: int) -> GateNumbers | None:
    """Return the gate with the most refutations among those of small threshold; None without one.

    Tasks are dealt to the holdout at random, so its size is taken as four standard deviations below the
    mean.

    Examples
    --------
    >>> gate_for(6000)
    GateNumbers(holdout=1076, threshold=0.11, sigma=0.0035, budget=3)
    """
    share, price = GateSettings().holdout, training_price()
    size = math.floor(n_labelled * share - 4 * math.sqrt(n_labelled * share * (1 - share)))
    for budget in (3, 2, 1) if size > 0 else ():
        sigma = _rounded_up(2 * budget / (price * size))
        threshold = _rounded_up(max(N_DEVIATIONS * _deviation(size, n_labelled, sigma), 0.02))
        if threshold <= MAX_THRESHOLD:
            return GateNumbers(size, threshold, sigma, budget)
    return None


def _deviation(n_holdout: int, n_labelled: int, sigma: float) -> float:
    """Return an upper bound on the standard deviation of holdout less training score without overfitting.

    Both are means of 0s and 1s. The training score has the noise of its release, the comparison that of
    the gate.
    """
    model = _sample_model()
    n_scored = n_labelled * (1 - GateSettings().holdout) * model.validation
    chance = 0.25 / n_holdout + 0.25 / n_scored
    score = 2 / (model.epsilon_score * n_scored) ** 2
    return math.sqrt(chance + score + NOISE_VARIANCE * sigma**2)


def training_price() -> float:
    """Return the epsilon that training takes of the budget by default."""
    given = _sample_model()
    return round(given.epsilon_train + given.epsilon_select + given.epsilon_score, 9)


def _sample_model() -> ModelSettings:
    """Return the default settings of the model."""
    return ModelSettings(norm_bound=1.0)


def _rounded_up(value: float) -> float:
    """Return the next larger number of two digits."""
    digits = 1 - math.floor(math.log10(value))
    return round(math.ceil(round(value * 10.0**digits, 6)) / 10.0**digits, digits)


def why_no_model(found: CampaignFacts) -> str | None:
    """Return why ``[model]`` is left out, in public facts; None if it is not."""
    if found.several is not None:
        return "several classes may hold for a task"
    if found.n_features == 0:
        return "there are no task features"
    if found.norm is None:
        return "every feature of every task is 0, or too large to measure"
    if gate_for(found.n_labelled) is None:
        return f"{found.n_labelled:,} labelled tasks are too few for a holdout that could judge it"
    rows, noise = _training(found)
    if noise > rows:
        return (
            f"its noise would have a length of {noise:,.0f}, more than its {rows:,} training tasks can "
            f"add up to: {found.n_features:,} features and {len(found.classes)} classes are too many"
        )
    return None


def _training(found: CampaignFacts) -> tuple[int, float]:
    """Return the number of training tasks, and the mean length of the noise on their sum of unit vectors.

    The noise is that of objective perturbation with all of ``epsilon_train`` in it, which is the best
    case.
    """
    given = _sample_model()
    rows = round(found.n_labelled * (1 - GateSettings().holdout) * (1 - given.validation))
    n_problems = 1 if len(found.classes) == 2 else len(found.classes)
    return rows, 2 * (found.n_features + 1) * n_problems / given.epsilon_train
