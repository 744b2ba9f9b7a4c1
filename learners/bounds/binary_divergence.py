"""The Kullback-Leibler divergence of two error rates, and its inverse."""

import math

from scipy.optimize import brentq
from scipy.special import rel_entr

__all__ = ["binary_divergence", "largest_rate"]

STEP = 1e-13  # the inverse is rounded up by so much, above the solver's own error


def binary_divergence(observed: float, true: float) -> float:
    """kl(observed || true) in nats, of two coins with these chances; infinite where it must be.

    Examples
    --------
    >>> round(binary_divergence(0.1, 0.2), 5), binary_divergence(0.5, 1.0)
    (0.03669, inf)
    """
    return float(rel_entr(observed, true) + rel_entr(1 - observed, 1 - true))


def largest_rate(observed: float, divergence: float) -> float:
    """Largest true rate with kl(observed || true) <= divergence.

    Parameters
    ----------
    observed
        Error rate, in [0, 1].
    divergence
        In nats, >= 0.

    Returns
    -------
    float
        In [observed, 1], rounded up.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Notes
    -----
    **Guarantees.** Grows with both arguments; without errors it is 1 - exp(-divergence); by Pinsker's
    inequality it is at most observed + sqrt(divergence / 2).

    Examples
    --------
    >>> round(largest_rate(0.1, 0.03669), 4), round(largest_rate(0.0, 0.05), 5)
    (0.2, 0.04877)
    """
    if not 0 <= observed <= 1:
        raise ValueError("observed must be in [0, 1]")
    if not divergence >= 0:
        raise ValueError(f"divergence must be >= 0, got divergence={divergence}")
    if observed == 0:
        return -math.expm1(-divergence)
    highest = min(1.0, observed + math.sqrt(divergence / 2) + STEP)
    if not binary_divergence(observed, highest) > divergence:
        return highest
    solved = brentq(lambda p: binary_divergence(observed, p) - divergence, observed, highest,
                    xtol=STEP / 4)  # fmt: skip
    return min(1.0, float(solved) + STEP)
