"""Intervals that cover wherever the value is, and are short where it is near what is believed.

A value that is tested from one side needs less room than one tested from both. Values beyond a belief
are here given up mostly where the estimate stays behind, on the side of the belief; so the interval reaches
less far beyond the estimate, and keeps the belief until the estimate is clearly off.

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

HALVINGS = 28
LEAST_VARIANCE = 1e-12


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
        What each value is believed to be; its own error is independent of the estimate's.
    clear
        Distance of the estimate from the belief beyond which the belief is given up.
    law
        Of the estimate's error, as `quality.shares.heavy_tails.mixed_law` returns it.
    level
        In (0, 1).

    Notes
    -----
    **Guarantees.** The interval contains the estimate, and the belief while it is within `clear`. Every value
    but the belief itself is covered as often as `level` says. Where `clear` is no more than half the ordinary
    interval, it is the ordinary interval.

    With T the upper tail of the error, a = 1 - level and h half the ordinary interval, a value t above the
    belief is accepted while the estimate is less than m = max(clear - t, h) above it, which fails with
    T(m), and not farther below it than leaves a - T(m). Both limits rise with t, so that what is
    accepted is an interval.

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
    """Return how far above the belief a value is still accepted; 0 if none is. `place`: of the estimate."""
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
    """Return what shares are where the crowd has no bias, independent of the error of consensus + bias.

    Parameters
    ----------
    consensus, bias
        Shares of the consensus labels, and what gold adds to them; their errors are independent.
    of_consensus, of_bias
        Variances of these errors.

    Notes
    -----
    consensus - r bias has no covariance with consensus + bias for r = `of_consensus` / `of_bias`. Where
    its noise is as large as its distance from equal shares it is drawn to them (James and Stein's way).
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
    """Return how far consensus + bias is from the belief, by class, when a bias gets as likely as none.

    Parameters
    ----------
    of_consensus, of_bias
        Variances of the errors of the consensus shares and of their bias.
    spread
        Of the biases of crowds that have one.
    odds
        That a crowd has none.

    Notes
    -----
    Of a bias along one axis, the others being as noise makes them: normal laws of both kinds are compared.
    """
    axes, of_bias = of_bias.size - 1, of_bias + LEAST_VARIANCE
    more = spread**2 * (1 - 1 / of_bias.size) / of_bias
    seen = more / (1 + more)
    evidence = np.log(odds) + 0.5 * axes * np.log1p(more) - 0.5 * (axes - 1) * seen
    deviations = np.sqrt(2 * evidence / np.maximum(seen, LEAST_VARIANCE))
    return np.asarray(deviations * (of_consensus + of_bias) / np.sqrt(of_bias))
