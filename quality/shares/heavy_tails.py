"""Noise with tails heavier than normal: a normal law whose variance is drawn from a gamma law.

Laplace noise is normal noise of exponential variance. Lattice Laplace noise, and sums of several
releases, are near a normal law whose variance has a gamma law, which the kurtosis determines. Averages over
such a law are finite sums (Gauss–Laguerre quadrature), and sums of independent noises are of the same kind.

>>> factor, weight = variance_mixture(3.0, 3)
>>> round(float(weight @ factor), 9), round(float(weight @ factor**2), 9)  # exponential
(1.0, 2.0)
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import scipy.special
from jaxtyping import Float, Float64

__all__ = ["Law", "half_width", "half_width_of", "mixed_law", "variance_mixture"]

NEARLY_NORMAL = 0.02  # kurtosis below which a law is taken as normal
HEAVIEST = 6.0  # largest kurtosis taken: noise with more is mostly 0
NODES = 8  # of quadrature for each noise, in a tail
HALVINGS = 28  # of a bracket, of which 4e-9 are left


@lru_cache(maxsize=64)
def variance_mixture(
    kurtosis: float, n_nodes: int
) -> tuple[Float64[np.ndarray, " nodes"], Float64[np.ndarray, " nodes"]]:
    """Return factors on the variance, and their weights, under which normal noise has this kurtosis.

    Parameters
    ----------
    kurtosis
        Excess kurtosis of the noise: 0 for a normal law, 3 for Laplace's.
    n_nodes
        Factors, at most; averages of powers below twice as many are exact.

    Returns
    -------
    tuple
        Factors and weights, read-only.
    """
    if kurtosis < NEARLY_NORMAL:
        factor, weight = np.ones(1), np.ones(1)
    else:
        shape = 3.0 / min(kurtosis, HEAVIEST)
        factor, weight = scipy.special.roots_genlaguerre(n_nodes, shape - 1.0)
        factor, weight = factor / shape, weight / weight.sum()
    for array in (factor, weight):
        array.setflags(write=False)
    return factor, weight


Law = tuple[Float64[np.ndarray, "values nodes"], Float64[np.ndarray, " nodes"]]
"""Standard deviations of the normal laws that each error is a mixture of, and their weights."""


def mixed_law(
    normal: Float[np.ndarray, " values"],
    noises: Sequence[tuple[Float[np.ndarray, " values"], float]],
) -> Law:
    """Return the law of sums of independent errors.

    Parameters
    ----------
    normal
        Variance of the normal error.
    noises
        Variance and excess kurtosis of each noise.
    """
    variance, weight = normal[:, None].astype(np.float64), np.ones(1)
    for of_noise, kurtosis in noises:
        factor, chance = variance_mixture(kurtosis, NODES)
        mixed = variance[:, :, None] + of_noise[:, None, None] * factor
        variance = mixed.reshape(len(normal), variance.shape[1] * len(factor))
        weight = (weight[:, None] * chance).ravel()
    return np.sqrt(variance) + 1e-300, weight


def half_width_of(law: Law, level: float) -> Float64[np.ndarray, " values"]:
    """Return h such that an error of this law lies in [-h, h] with probability `level`, in (0, 1)."""
    spread, weight = law
    low = np.zeros(len(spread))
    high = np.sqrt(np.square(spread) @ weight) / np.sqrt(1 - level)  # Chebyshev
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        inside = scipy.special.erf(middle[:, None] / (np.sqrt(2) * spread)) @ weight
        low, high = np.where(inside < level, middle, low), np.where(inside < level, high, middle)
    return np.asarray(high)


def half_width(
    level: float,
    normal: Float[np.ndarray, " values"],
    noises: Sequence[tuple[Float[np.ndarray, " values"], float]],
) -> Float64[np.ndarray, " values"]:
    """Return h such that a sum of independent errors lies in [-h, h] with probability `level`.

    Parameters
    ----------
    level
        In (0, 1).
    normal, noises
        As for :func:`mixed_law`.

    Examples
    --------
    >>> laplace = half_width(0.95, np.zeros(1), [(np.array([2.0]), 3.0)])  # log 20, were it exact
    >>> laplace.round(2), half_width(0.95, np.ones(1), []).round(2)
    (array([3.]), array([1.96]))
    """
    return half_width_of(mixed_law(normal, noises), level)
