"""Rates of every worker for every class, shrunk towards the worker's and the class's overall rates.

The rate at which worker w gives a class c that holds has a Beta prior; so has, separately, the rate for a
class that does not hold. Its mean is the logistic function of the worker's effect plus the class's effect.
Its strength, in cells, is how closely the rates follow these means.
"""

from functools import cache
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64
from scipy.special import expit, logit

from quality.parallel import kernel

__all__ = ["SharedRates", "clip_rate", "first_rates", "shared_rates", "silent_chance"]

SPREAD = 1.0  # standard deviation of workers' effects and of classes', in log odds
LEAST_STRENGTH, MOST_STRENGTH = 1.0, 1000.0  # in cells
PRECISION = 5e-3  # precision of a strength's logarithm
FIRST_STEP = 0.1  # from the last strength, in logarithms
MOST_STEP = 2.0  # longest step of an effect
LEAST_ASKED = 1e-3  # cells that a worker must have been asked about to count for the strength
LEAST = 1e-6  # smallest distance of a rate from 0 and 1: no answer is proof


class SharedRates(NamedTuple):
    """Rates and the prior that they share.

    Parameters
    ----------
    rate
        Posterior mean of each worker's rate for each class, in (0, 1).
    of_worker, of_class
        Effects in log odds; the class's contain the general level, the workers' are around 0.
    strength
        Number of cells that the prior counts for in a rate.
    """

    rate: Float64[np.ndarray, "workers classes"]
    of_worker: Float64[np.ndarray, " workers"]
    of_class: Float64[np.ndarray, " classes"]
    strength: float


def clip_rate(
    rate: Float64[np.ndarray, "workers classes"],
) -> Float64[np.ndarray, "workers classes"]:
    """Return the rates clipped to the limits."""
    clipped: np.ndarray = np.minimum(np.maximum(rate, LEAST), 1 - LEAST)
    return clipped


def first_rates(
    hit: Float64[np.ndarray, "workers classes"], asked: Float64[np.ndarray, "workers classes"]
) -> SharedRates:
    """Return initial rates: the crowd's, the same for all workers and classes."""
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
    """Return rates from expected counts, after one Newton step from the earlier effects.

    A cell's counts weigh (strength + 1) / (strength + asked), as the counts of one worker and class vary
    more than those of a binomial.
    """
    of_worker, of_class = before.of_worker.copy(), before.of_class.copy()
    mean = np.empty(hit.shape)
    _newton_step(
        hit, asked, before.strength, of_class, of_worker, np.empty((3, len(of_class))), mean
    )
    strength = before.strength
    if fit_strength:
        strength = _fit_strength(hit, asked, mean, strength)
    rate = clip_rate((hit + strength * mean) / (asked + strength))
    return SharedRates(rate, of_worker, of_class, strength)


@kernel
def _newton_step(
    hit: Float64[np.ndarray, "workers classes"],
    asked: Float64[np.ndarray, "workers classes"],
    strength: float,
    of_class: Float64[np.ndarray, " classes"],
    of_worker: Float64[np.ndarray, " workers"],
    work: Float64[np.ndarray, "3 classes"],
    mean: Float64[np.ndarray, "workers classes"],
) -> None:
    """Take a Newton step for classes' effects, then for workers', and write the mean rates, in place.

    Workers' effects are normal around 0, classes' around their mean.
    """
    n_workers, n_classes = hit.shape
    slope, curve, factor = work[0], work[1], work[2]
    centre = of_class.mean()
    for one in range(n_classes):
        slope[one] = -(of_class[one] - centre) / SPREAD**2
        curve[one] = 1.0 / SPREAD**2
        factor[one] = np.exp(-of_class[one])
    for worker in range(n_workers):
        own = np.exp(-of_worker[worker])
        for one in range(n_classes):
            n = asked[worker, one]
            weight, chance = (
                (strength + 1.0) / (strength + max(n, 1.0)),
                1.0 / (1.0 + own * factor[one]),
            )
            slope[one] += weight * (hit[worker, one] - n * chance)
            curve[one] += weight * n * chance * (1.0 - chance)
    for one in range(n_classes):
        of_class[one] += min(max(slope[one] / curve[one], -MOST_STEP), MOST_STEP)
        factor[one] = np.exp(-of_class[one])
    for worker in range(n_workers):
        own, up, down = np.exp(-of_worker[worker]), -of_worker[worker] / SPREAD**2, 1.0 / SPREAD**2
        for one in range(n_classes):
            n = asked[worker, one]
            weight, chance = (
                (strength + 1.0) / (strength + max(n, 1.0)),
                1.0 / (1.0 + own * factor[one]),
            )
            up += weight * (hit[worker, one] - n * chance)
            down += weight * n * chance * (1.0 - chance)
        of_worker[worker] += min(max(up / down, -MOST_STEP), MOST_STEP)
        own = np.exp(-of_worker[worker])
        for one in range(n_classes):
            mean[worker, one] = min(max(1.0 / (1.0 + own * factor[one]), LEAST), 1.0 - LEAST)


def _fit_strength(
    hit: Float64[np.ndarray, "workers classes"],
    asked: Float64[np.ndarray, "workers classes"],
    mean: Float64[np.ndarray, "workers classes"],
    before: float,
) -> float:
    """Return the strength that maximises the Beta-binomial likelihood, within the limits."""

    @cache
    def slope(log_strength: float) -> float:
        return float(_strength_slope(hit, asked, mean, float(np.exp(log_strength))))

    if not (asked > LEAST_ASKED).any():
        return MOST_STRENGTH
    at = float(np.log(before))
    value, step = slope(at), FIRST_STEP
    while True:
        limit = np.log(MOST_STRENGTH) if value > 0 else np.log(LEAST_STRENGTH)
        other = at + np.clip(limit - at, -step, step)
        beyond = slope(other)
        if value * beyond <= 0:
            break
        if other == limit:
            return float(np.exp(limit))
        at, value, step = other, beyond, 4 * step
    # imported here: it takes a quarter of a second, and nothing else needs it
    from scipy.optimize import brentq

    return float(np.exp(brentq(slope, at, other, xtol=PRECISION)))


@kernel
def _strength_slope(
    hit: Float64[np.ndarray, "workers classes"],
    asked: Float64[np.ndarray, "workers classes"],
    mean: Float64[np.ndarray, "workers classes"],
    strength: float,
) -> float:
    """Return the slope of the Beta-binomial log-likelihood in the strength's logarithm."""
    slope, level = 0.0, _digamma(strength)
    for worker in range(len(hit)):
        for one in range(hit.shape[1]):
            n, chance = asked[worker, one], mean[worker, one]
            if n <= LEAST_ASKED:
                continue
            right, wrong = strength * chance, strength * (1.0 - chance)
            by_hit = _digamma(right + hit[worker, one]) - _digamma(right)
            by_miss = _digamma(wrong + max(n - hit[worker, one], 0.0)) - _digamma(wrong)
            slope += chance * by_hit + (1.0 - chance) * by_miss - (_digamma(strength + n) - level)
    return strength * slope


@kernel
def _digamma(x: float) -> float:
    """Return the logarithmic derivative of the gamma function at x > 0, to twelve digits."""
    below = 0.0
    while x < 6.0:
        below += 1.0 / x
        x += 1.0
    y = 1.0 / x**2
    tail = y * (1 / 252 - y * (1 / 240 - y * (1 / 132 - y * (691 / 32760 - y / 12))))
    value: float = np.log(x) - 0.5 / x - y * (1 / 12 - y * (1 / 120 - tail)) - below
    return value


def silent_chance(
    prior: Float64[np.ndarray, " classes"],
    denial: Float64[np.ndarray, "workers classes"],
    asked: Float64[np.ndarray, "workers classes"],
    n_sizes: int,
) -> Float64[np.ndarray, "classes sizes"]:
    """Return the probability that a class holds that none of ``k`` workers gave, for each class and ``k``.

    The workers count as average ones: their denials add to the log odds the mean over workers, each
    weighted by how often she was asked.
    """
    mean = (denial * asked).sum(axis=0) / np.maximum(asked.sum(axis=0), 1.0)
    chance: np.ndarray = expit(
        prior[:, np.newaxis] + np.minimum(mean, 0.0)[:, np.newaxis] * np.arange(n_sizes)
    )
    return chance
