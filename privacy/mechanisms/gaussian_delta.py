"""What Gaussian noise on class counts costs when one task moves from one class to another.

Two counts change, each by one, so the l2 sensitivity is the square root of 2. The discrete law is
summed exactly; the continuous one has a closed form, which the discrete one approaches.
"""

import math
from functools import lru_cache

import numpy as np
import scipy

from privacy.accounting.cost import SAFETY, check_epsilon, check_price

__all__ = [
    "analytic_gaussian_delta",
    "analytic_gaussian_scale",
    "discrete_gaussian_delta",
    "discrete_gaussian_scale",
]

LARGEST_SCALE = 2e5


def discrete_gaussian_delta(scale: float, epsilon: float) -> float:
    """Smallest delta of discrete Gaussian noise on counts, for neighbours that move one task.

    Parameters
    ----------
    scale
        Of the noise: P(z) ~ exp(-z^2 / (2 scale^2)) on the integers, for each class apart.
    epsilon
        In (0, 100].

    Returns
    -------
    float
        The hockey-stick divergence of order e^epsilon, the same in both directions.

    Raises
    ------
    ValueError
        If `scale` is not in (0, 2e5], or `epsilon` not in (0, 100].

    Notes
    -----
    With t the difference of two independent noises the privacy loss is (t + 1) / scale^2, and
    P(t) ~ exp(-t^2 / (4 scale^2)) sum_x exp(-(x + t/2)^2 / scale^2), where the sum depends on t
    through its parity alone; delta = sum_t P(t) max(0, 1 - exp(epsilon - loss)).

    **Guarantees.** It is the divergence of the two laws summed over the integers.

    References
    ----------
    .. [1] Canonne, Kamath, Steinke, "The discrete Gaussian for differential privacy", NeurIPS
       (2020).

    Examples
    --------
    >>> round(discrete_gaussian_delta(7.9372923, 0.05), 6)
    0.05
    """
    _check(scale, epsilon)
    reach = math.ceil(13 * scale) + 2  # beyond it the terms are below exp(-42) of the first
    first = math.floor(epsilon * scale**2 - 1) + 1
    t = first + np.arange(reach, dtype=np.float64)
    x = np.arange(-reach, reach + 1, dtype=np.float64)
    theta = [float(np.exp(-(((x + shift) / scale) ** 2)).sum()) for shift in (0.0, 0.5)]
    total = float(np.exp(-((x / scale) ** 2) / 2).sum()) ** 2
    weight = np.exp(-((t / scale) ** 2) / 4) * np.where(t % 2 == 0, *theta)
    gain = -np.expm1(np.minimum(epsilon - (t + 1) / scale**2, 0.0))
    return float((weight * gain).sum() / total)


def analytic_gaussian_delta(scale: float, epsilon: float) -> float:
    """Smallest delta of continuous Gaussian noise on counts, for neighbours that move one task.

    With mu = sqrt(2) / scale: Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu).

    Parameters
    ----------
    scale
        Standard deviation of each class's noise, in (0, 2e5].
    epsilon
        In (0, 100].

    Raises
    ------
    ValueError
        If one of these conditions is broken.

    References
    ----------
    .. [1] Balle, Wang, "Improving the Gaussian mechanism for differential privacy", ICML (2018),
       Theorem 8.

    Examples
    --------
    >>> round(analytic_gaussian_delta(7.938549877, 0.05), 6)
    0.05
    """
    _check(scale, epsilon)
    mu = math.sqrt(2) / scale
    gained = math.exp(scipy.special.log_ndtr(mu / 2 - epsilon / mu))
    return max(0.0, gained - math.exp(epsilon + scipy.special.log_ndtr(-mu / 2 - epsilon / mu)))


@lru_cache(maxsize=256)
def analytic_gaussian_scale(epsilon: float, delta: float) -> float:
    """Smallest standard deviation whose continuous Gaussian noise costs (epsilon, delta).

    Raises
    ------
    ValueError
        If not 0 < epsilon <= 100 and 0 < delta < 1, or it takes a scale of more than 5e4.

    Examples
    --------
    >>> round(analytic_gaussian_scale(1.0, 1e-6), 4)
    5.9746
    """
    check_price(epsilon, delta)
    low, high = math.log(1e-4), math.log(LARGEST_SCALE / 4.001)
    if not analytic_gaussian_delta(math.exp(high), epsilon) <= delta:
        raise ValueError(f"epsilon and delta must be larger, got epsilon={epsilon}, delta={delta}")
    for _ in range(60):
        middle = (low + high) / 2
        if analytic_gaussian_delta(math.exp(middle), epsilon) <= delta:
            high = middle
        else:
            low = middle
    return math.exp(high)


@lru_cache(maxsize=256)
def discrete_gaussian_scale(epsilon: float, delta: float) -> float:
    """Smallest scale whose discrete Gaussian noise on counts costs (epsilon, delta).

    Raises
    ------
    ValueError
        If not 0 < epsilon <= 100 and 0 < delta < 1, or no scale within a factor of four of the
        continuous one will do.

    Notes
    -----
    **Guarantees.** The delta at the scale returned, computed anew and raised by a millionth for
    rounding, is at most the one asked for; nothing is assumed about how it falls with the scale.

    Examples
    --------
    >>> round(discrete_gaussian_scale(1.0, 1e-6), 4)
    5.9766
    """
    start = analytic_gaussian_scale(epsilon, delta)
    low, high = math.log(start / 4), math.log(4 * start)
    if not discrete_gaussian_delta(math.exp(high), epsilon) * SAFETY <= delta:
        raise ValueError(f"epsilon must be smaller, got epsilon={epsilon} with delta={delta}")
    for _ in range(50):
        middle = (low + high) / 2
        if discrete_gaussian_delta(math.exp(middle), epsilon) * SAFETY <= delta:
            high = middle
        else:
            low = middle
    return math.exp(high)


def _check(scale: float, epsilon: float) -> None:
    if not 0 < scale <= LARGEST_SCALE:
        raise ValueError(f"scale must be > 0 and at most 2e5, got scale={scale}")
    check_epsilon(epsilon)
