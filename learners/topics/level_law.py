"""How specific a document's words are: levels geometric from the path's last node, with a rate tau.

P(l) = (1 - tau)^l tau / (1 - (1 - tau)^K) for a path of K nodes. The last factor depends on the length of
the path, and tau is drawn by slice sampling on its logit.
"""

import math

import numpy as np
from jaxtyping import Float

from quality.parallel import kernel  # the numba decorator alone

__all__ = ["LEAST_TAU", "draw_tau", "level_probabilities", "log_normaliser"]

LEAST_TAU = 1e-12  # tau stays this far from 0 and 1
_WIDTH = 1.0  # of the first interval, on the logit
_MAX_STEPS = 60


@kernel
def log_normaliser(tau: float, length: int) -> float:
    """Return log(1 - (1 - tau)^K), without loss for small tau."""
    return math.log(-math.expm1(length * math.log1p(-tau)))


@kernel
def level_probabilities(tau: float, length: int, out: Float[np.ndarray, " levels"]) -> None:
    """Fill the probabilities of levels 0, ..., K - 1."""
    chance = tau / -math.expm1(length * math.log1p(-tau))
    for level in range(length):
        out[level] = chance
        chance *= 1.0 - tau


@kernel
def _log_density(x: float, a: float, b: float, n: int, depth: int, length: int) -> float:
    """Return the log density of tau's logit, but for a constant; `depth` is the sum of n words' levels."""
    log_tau = -math.log1p(math.exp(-x)) if x > -30 else x
    log_stay = -math.log1p(math.exp(x)) if x < 30 else -x
    spread = math.log(-math.expm1(length * log_stay))
    return (a + n) * log_tau + (b + depth) * log_stay - n * spread


@kernel
def draw_tau(
    tau: float, a: float, b: float, n: int, depth: int, length: int, rng: np.random.Generator
) -> float:
    """Draw tau given the levels of n words that sum to `depth` on a path of so many nodes.

    On a path of one node, and without words, tau is free of the words and comes from its prior.
    """
    if length == 1 or n == 0:
        drawn = rng.beta(a, b)
        return min(max(drawn, LEAST_TAU), 1.0 - LEAST_TAU)
    limit = math.log((1.0 - LEAST_TAU) / LEAST_TAU)
    x = math.log(tau) - math.log1p(-tau)
    floor = _log_density(x, a, b, n, depth, length) + math.log(1.0 - rng.random())
    low = x - _WIDTH * rng.random()
    high = low + _WIDTH
    for _ in range(_MAX_STEPS):
        if low < -limit or _log_density(low, a, b, n, depth, length) < floor:
            break
        low -= _WIDTH
    for _ in range(_MAX_STEPS):
        if high > limit or _log_density(high, a, b, n, depth, length) < floor:
            break
        high += _WIDTH
    low, high = max(low, -limit), min(high, limit)
    while True:
        drawn = low + rng.random() * (high - low)
        if _log_density(drawn, a, b, n, depth, length) >= floor:
            break
        if drawn < x:
            low = drawn
        else:
            high = drawn
    found = 1.0 / (1.0 + math.exp(-drawn))
    return min(max(found, LEAST_TAU), 1.0 - LEAST_TAU)
