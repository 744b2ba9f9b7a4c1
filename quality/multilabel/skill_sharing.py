"""Rates of every worker for every class, shrunk to the worker's over all classes and the class's over all.

The rate at which worker w gives a class c that holds (and, apart from that, one that does not) has a Beta
prior. Its mean is the logistic function of worker's effect plus class's effect; its strength, in cells,
is how far the rates of one worker agree with that.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64
from scipy.special import digamma, expit, logit

from quality.labels import freeze_arrays

__all__ = ["SharedRates", "first_rates", "shared_rates", "silent_chance"]

SPREAD = 1.0  # standard deviation of workers' effects and of classes', in log odds
LEAST_STRENGTH, MOST_STRENGTH = 1.0, 1000.0  # in cells
LEAST = 1e-6  # a rate's distance from 0 and 1: no word proves anything


@dataclass(frozen=True, slots=True, eq=False)
class SharedRates:
    """Rates and the prior that they share.

    Parameters
    ----------
    rate
        Posterior mean of each worker's rate for each class, in (0, 1).
    of_worker, of_class
        Effects in log odds; the class's contain the general level, the workers' are around 0.
    strength
        Cells that the prior counts for in a rate.
    """

    rate: Float64[np.ndarray, "workers classes"]
    of_worker: Float64[np.ndarray, " workers"]
    of_class: Float64[np.ndarray, " classes"]
    strength: float

    def __post_init__(self) -> None:
        freeze_arrays(self)


def first_rates(
    hit: Float64[np.ndarray, "workers classes"], asked: Float64[np.ndarray, "workers classes"]
) -> SharedRates:
    """Return rates to start from: the crowd's, the same for all workers and classes."""
    level = float(logit((hit.sum() + 1.0) / (asked.sum() + 2.0)))
    n_workers, n_classes = hit.shape
    rates = SharedRates(
        np.full(hit.shape, expit(level)), np.zeros(n_workers), np.full(n_classes, level), 10.0
    )
    return shared_rates(hit, asked, rates, fit_strength=False)


def shared_rates(
    hit: Float64[np.ndarray, "workers classes"],
    asked: Float64[np.ndarray, "workers classes"],
    before: SharedRates,
    *,
    fit_strength: bool,
) -> SharedRates:
    """Return rates from expected counts, one step of Newton's method from the effects before.

    A cell's counts weigh (strength + 1) / (strength + asked), for the counts of one worker and class vary
    more than those of a binomial.
    """
    weight = (before.strength + 1.0) / (before.strength + np.maximum(asked, 1.0))
    of_class = _step(hit, asked, weight, before.of_class, before.of_worker[:, np.newaxis], axis=0)
    of_worker = _step(hit, asked, weight, before.of_worker, of_class[np.newaxis], axis=1)
    mean = np.clip(expit(of_worker[:, np.newaxis] + of_class), LEAST, 1 - LEAST)
    strength = _fit_strength(hit, asked, mean) if fit_strength else before.strength
    rate = np.clip((hit + strength * mean) / (asked + strength), LEAST, 1 - LEAST)
    return SharedRates(rate, of_worker, of_class, strength)


def _step(
    hit: np.ndarray,
    asked: np.ndarray,
    weight: np.ndarray,
    own: np.ndarray,
    other: np.ndarray,
    axis: int,
) -> np.ndarray:
    """Return effects after a Newton step; they are normal around 0 (workers) or their mean (classes)."""
    effect = own[np.newaxis] if axis == 0 else own[:, np.newaxis]
    mean = expit(effect + other)
    centre = own.mean() if axis == 0 else 0.0
    slope = (weight * (hit - asked * mean)).sum(axis=axis) - (own - centre) / SPREAD**2
    curve = (weight * asked * mean * (1 - mean)).sum(axis=axis) + 1 / SPREAD**2
    step: np.ndarray = own + np.clip(slope / curve, -2.0, 2.0)
    return step


def _fit_strength(
    hit: Float64[np.ndarray, "workers classes"],
    asked: Float64[np.ndarray, "workers classes"],
    mean: Float64[np.ndarray, "workers classes"],
) -> float:
    """Return the strength at which the Beta-binomial likelihood is level, within the limits."""
    some = asked > 1e-3
    hit, asked, mean = hit[some], asked[some], mean[some]
    miss = np.maximum(asked - hit, 0.0)

    def slope(strength: float) -> float:
        right, wrong = strength * mean, strength * (1 - mean)
        by_cell = mean * (digamma(hit + right) - digamma(right))
        by_cell += (1 - mean) * (digamma(miss + wrong) - digamma(wrong))
        return float((by_cell - digamma(asked + strength) + digamma(strength)).sum())

    low, high = LEAST_STRENGTH, MOST_STRENGTH
    if not len(hit) or slope(high) >= 0:
        return high
    if slope(low) <= 0:
        return low
    for _ in range(12):  # to half a per cent
        middle = float(np.sqrt(low * high))
        low, high = (middle, high) if slope(middle) > 0 else (low, middle)
    return float(np.sqrt(low * high))


def silent_chance(
    prior: Float64[np.ndarray, " classes"],
    denial: Float64[np.ndarray, "workers classes"],
    asked: Float64[np.ndarray, "workers classes"],
    n_sizes: int,
) -> Float64[np.ndarray, "classes sizes"]:
    """Return the chance that a class holds that none of ``k`` workers gave, for each class and ``k``.

    The workers count as average ones: what their denials add to the log odds is their mean, each by how
    often she was asked.
    """
    mean = (denial * asked).sum(axis=0) / np.maximum(asked.sum(axis=0), 1.0)
    chance: np.ndarray = expit(
        prior[:, np.newaxis] + np.minimum(mean, 0.0)[:, np.newaxis] * np.arange(n_sizes)
    )
    return chance
