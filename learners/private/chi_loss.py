"""What Gaussian objective perturbation costs: a privacy loss with a chi law, and its inverse."""

import math
from functools import lru_cache

import numpy as np
from scipy.special import gammaincc

__all__ = ["LARGEST_EPSILON", "chi_delta", "noise_deviation"]

SAFETY = 1 + 1e-6  # for rounding: what is computed is raised by it before it is compared
LARGEST_EPSILON = 100.0
BEYOND = 13.0  # deviations above the mean, where a chi's tail is below exp(-80)


def chi_delta(epsilon: float, shift: float, n_problems: int) -> float:
    """Delta at `epsilon` of a privacy loss that is at most shift^2 / 2 + shift * chi, 2k degrees.

    Parameters
    ----------
    epsilon
        In (0, 100], what is left of the claim once the Jacobian is paid.
    shift
        How far a replaced row moves the noise of all k problems together, in its deviations, > 0.
    n_problems
        k >= 1.

    Returns
    -------
    float
        The expectation of max(0, 1 - exp(epsilon - loss)).

    Raises
    ------
    ValueError
        If one of these conditions is broken.

    Notes
    -----
    With S the tail of chi and z = (epsilon - shift^2 / 2) / shift, integrating by parts gives the
    integral of shift exp(-shift t) S(z + t) over t >= 0, whose terms are positive. For one problem it is

        e^(-z^2/2) - e^(epsilon - shift^2/2) (e^(-z^2/2 - shift z)
                                              - shift e^(shift^2/2) sqrt(2 pi) Phi(-z - shift)).

    **Guarantees.** It is the divergence of order e^epsilon that this loss gives; it falls with
    epsilon and grows with the shift and the number of problems.

    Examples
    --------
    >>> round(chi_delta(1.0, 0.2, 1), 9)
    2.31e-07
    """
    if not 0 < epsilon <= LARGEST_EPSILON:
        raise ValueError(f"epsilon must be > 0 and at most 100, got epsilon={epsilon}")
    if not 0 < shift < math.inf:
        raise ValueError(f"shift must be > 0 and finite, got shift={shift}")
    if not n_problems >= 1:
        raise ValueError(f"n_problems must be >= 1, got n_problems={n_problems}")
    start = (epsilon - shift**2 / 2) / shift
    sure = max(0.0, -start)  # as far as the tail is one
    start = max(0.0, start)
    reach = max(math.sqrt(2 * n_problems) + BEYOND - start, BEYOND)
    node, weight = _nodes()
    t = reach / 2 * (node + 1)
    tail = gammaincc(n_problems, (start + t) ** 2 / 2)
    rest = float(reach / 2 * weight @ (shift * np.exp(-shift * t) * tail))
    beyond = float(gammaincc(n_problems, (start + reach) ** 2 / 2))
    return min(1.0, -math.expm1(-shift * sure) + math.exp(-shift * sure) * (rest + beyond))


@lru_cache(maxsize=1)
def _nodes() -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of the quadrature: worked out when first used."""
    return np.polynomial.legendre.leggauss(400)


@lru_cache(maxsize=256)
def noise_deviation(epsilon: float, delta: float, n_problems: int) -> float:
    """Smallest deviation of the noise on k problems' sums of losses that costs (epsilon, delta).

    Parameters
    ----------
    epsilon
        In (0, 100], what is left of the claim once the Jacobian is paid.
    delta
        In (0, 1).
    n_problems
        k >= 1, trained on the same rows.

    Returns
    -------
    float
        The standard deviation of each coordinate, for rows of norm one at most.

    Raises
    ------
    ValueError
        If one of these conditions is broken.

    Notes
    -----
    A replaced row moves each problem's gradient by 2 at most, all of them together by 2 sqrt(k).

    **Guarantees.** The delta at the deviation returned, computed anew and raised by a millionth for
    rounding, is at most the one asked for.

    Examples
    --------
    >>> round(noise_deviation(1.0, 1e-6, 1), 3)
    9.442
    """
    if not 0 < delta < 1:
        raise ValueError(f"delta must be in (0, 1), got delta={delta}")
    low, high = math.log(1e-6), math.log(2 * LARGEST_EPSILON)
    for _ in range(60):
        middle = (low + high) / 2
        if chi_delta(epsilon, math.exp(middle), n_problems) * SAFETY <= delta:
            low = middle
        else:
            high = middle
    if not chi_delta(epsilon, math.exp(low), n_problems) * SAFETY <= delta:
        raise ValueError(f"epsilon and delta must be larger, got epsilon={epsilon}, delta={delta}")
    return 2 * math.sqrt(n_problems) / math.exp(low)
