"""Intervals that cover whatever the value is, and are short where it is near a belief.

A one-sided test of a value needs less distance than a two-sided one. Here a value beyond the belief is
rejected mostly if the estimate lies on its side towards the belief. So the interval reaches less far beyond
the estimate, and contains the belief until the estimate is clearly off.

>>> belief, normal = np.array([0.0]), (np.ones((1, 1)), np.ones(1))
>>> for estimate in (0.5, 2.0, 6.0):
...     low, high = assisted_interval(np.array([estimate]), belief, np.array([5.0]), normal)
...     print(low.round(2), high.round(2))
[-1.15] [2.17]
[0.] [3.96]
[4.04] [7.96]
"""

import numpy as np
import scipy.special
from jaxtyping import Float, Float64

from quality.shares.heavy_tails import Law, half_width_of

__all__ = ["assisted_interval", "belief_in_counts", "clear_bias"]

HALVINGS = 28  # of a bracket, of which 4e-9 are left
LEAST_VARIANCE = 1e-12  # of a bias, added so that it is never 0


def assisted_interval(
    estimate: Float[np.ndarray, " values"],
    belief: Float[np.ndarray, " values"],
    clear: Float[np.ndarray, " values"],
    law: Law,
    *,
    level: float = 0.95,
) -> tuple[Float64[np.ndarray, " values"], Float64[np.ndarray, " values"]]:
    """Return the lower and upper ends of intervals for the values that are estimated.

    Parameters
    ----------
    estimate
        Of each value, without bias.
    belief
        Prior guess of each value; its error is independent of the estimate's.
    clear
        Distance of the estimate from the belief beyond which the belief is given up.
    law
        Of the estimate's error, as `quality.shares.heavy_tails.mixed_law` returns it.
    level
        In (0, 1).

    Notes
    -----
    **Guarantees.** The interval contains the estimate, and the belief while it is within `clear`. Every value
    but the belief itself is covered with probability `level`. If `clear` is no more than half the ordinary
    interval, the result is the ordinary interval.

    Let T be the upper tail of the error, a = 1 - level, and h half the ordinary interval. A value t above the
    belief is accepted if the estimate is at most m = max(clear - t, h) above it and at most q below it, with
    T(q) = a - T(m). Both limits rise with t, so that the accepted values are an interval.

    References
    ----------
    .. [1] Pratt, "Length of confidence intervals", JASA 56 (1961): no bound on `clear`.
    .. [2] Yu, Hoff, "Adaptive multigroup confidence intervals with constant coverage", Biometrika 105 (2018).
    """
    half = half_width_of(law, level)
    distance, side = np.abs(estimate - belief), np.where(estimate >= belief, 1.0, -1.0)
    clear = np.maximum(clear, half)
    twice = np.tile(law[0], (2, 1)), law[1]
    places, limits, halves = np.append(distance, -distance), np.tile(clear, 2), np.tile(half, 2)
    beyond, behind = np.split(_farthest(places, limits, halves, twice, level), 2)
    near = side * np.where(distance < clear, -behind, distance - half)
    far = side * beyond
    return belief + np.minimum(near, far), belief + np.maximum(near, far)


def _farthest(
    place: np.ndarray, clear: np.ndarray, half: np.ndarray, law: Law, level: float
) -> Float64[np.ndarray, " values"]:
    """Return the largest accepted value, above the belief, or 0; `place` is the estimate's, likewise."""
    low, high = np.maximum(place, 0.0), np.maximum(place + half, 0.0)
    for _ in range(HALVINGS):
        value = (low + high) / 2
        spared = _tail(np.maximum(clear - value, half), law)
        accepted = _tail(value - place, law) >= 1 - level - spared
        low, high = np.where(accepted, value, low), np.where(accepted, high, value)
    return np.asarray(high)


def _tail(value: np.ndarray, law: Law) -> Float64[np.ndarray, " values"]:
    spread, weight = law
    return np.asarray(scipy.special.ndtr(-value[:, None] / spread) @ weight)


def belief_in_counts(
    consensus: Float[np.ndarray, " classes"],
    bias: Float[np.ndarray, " classes"],
    of_consensus: Float[np.ndarray, " classes"],
    of_bias: Float[np.ndarray, " classes"],
) -> Float64[np.ndarray, " classes"]:
    """Return the shares believed if the crowd has no bias, independent of the error of consensus + bias.

    Parameters
    ----------
    consensus, bias
        Shares of the consensus labels, and gold's correction of them; their errors are independent.
    of_consensus, of_bias
        Variances of these errors.

    Notes
    -----
    consensus - r bias has no covariance with consensus + bias for r = `of_consensus` / `of_bias`. It is
    shrunk to equal shares by its noise over its squared distance from them (James and Stein).
    """
    ratio = of_consensus / (of_bias + LEAST_VARIANCE)
    apart = consensus - ratio * bias - 1 / consensus.size
    size, noise = float(apart @ apart), float((of_consensus * (1 + ratio)).sum())
    kept = max(0.0, 1 - noise / size) if size > 0 else 0.0
    return np.asarray(1 / consensus.size + kept * apart)


def clear_bias(
    of_consensus: Float[np.ndarray, " classes"],
    of_bias: Float[np.ndarray, " classes"],
    spread: float,
    odds: float,
) -> Float64[np.ndarray, " classes"]:
    """Return the distance of consensus + bias from the belief at which a bias is as likely as none.

    Parameters
    ----------
    of_consensus, of_bias
        Variances of the errors of the consensus shares and of their bias.
    spread
        Of the biases of crowds that have one.
    odds
        Odds that a crowd has none.

    Notes
    -----
    Normal laws with and without a bias along one axis are compared; the other axes have noise alone.
    """
    axes, of_bias = of_bias.size - 1, of_bias + LEAST_VARIANCE
    more = spread**2 * (1 - 1 / of_bias.size) / of_bias
    seen = more / (1 + more)
    evidence = np.log(odds) + 0.5 * axes * np.log1p(more) - 0.5 * (axes - 1) * seen
    deviations = np.sqrt(2 * evidence / np.maximum(seen, LEAST_VARIANCE))
    return np.asarray(deviations * (of_consensus + of_bias) / np.sqrt(of_bias))
