"""The exact cost of a Dirichlet release, and the largest scale that a price allows.

The release is theta ~ Dir(scale * counts). Neighbours move one task from class i, with p tasks, to class j,
with q tasks. The privacy loss depends on theta_i / theta_j alone, so every delta here is a regularised
incomplete beta function or a difference of two. The scale is solved for public numbers: a floor of the
counts, epsilon and delta. It must not depend on the counts: such a scale is itself data and separates
neighbours, and if one neighbour has a scale and the other an error, delta is 1.

>>> float(largest_scale(50, epsilon=0.05, delta=0.05))
0.792874

References
----------
.. [1] Iyer, Nath, Sarawagi, "Privacy-preserving class ratio estimation", KDD (2016): the mechanism
   and the exceedance probability. The divergences, the dominating pair and the clamp are derived
   in this module's notes.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
import scipy
from jaxtyping import Float, Real

from privacy.accounting import check_epsilon, check_price, is_covered
from privacy.query import MAX_RECORDS

__all__ = [
    "InfeasibleFloor",
    "PairDelta",
    "clamp_delta",
    "dominating_delta",
    "expected_distortion",
    "largest_clamp_scale",
    "largest_scale",
    "pair_delta",
    "smallest_floor",
]

STEEP = 600.0  # beyond it exp(-t) is near the smallest double, and leading terms are exact
MIN_SCALE, MAX_SCALE = 1e-10, 1e8
MIN_FLOOR = 1e-100  # with a smaller one its product with a scale could be 0
CLEAR_FLOOR = 2.0**20  # beyond it the difference of two beta functions is mostly rounding


@dataclass(frozen=True, slots=True)
class PairDelta:
    """Privacy losses between Dir(scale * counts) and the same law with one task moved from class i to j.

    `exceedance` is P[loss > epsilon], `forward` the divergence from the counts to the moved counts,
    `reverse` the divergence back, and `log_constant` the log ratio minus the loss, a constant.
    """

    exceedance: float
    forward: float
    reverse: float
    log_constant: float


def pair_delta(source: float | int, target: float | int, scale: float, epsilon: float) -> PairDelta:
    """Return the exact delta of a single pair of neighbours.

    Parameters
    ----------
    source, target
        Counts of the class that loses a task, >= 1, and of the class that gains it, >= 0.
    scale
        Scale of the Dirichlet, in [1e-10, 1e8].
    epsilon
        In (0, 100].

    Returns
    -------
    PairDelta
        All 1 if a class becomes empty or was empty: then one of the two laws lies on the boundary with
        probability 1, and the other with probability 0.

    Raises
    ------
    ValueError
        If one of these conditions is broken.

    Notes
    -----
    The loss is scale * ln(theta_i / theta_j) - ln C, with C the ratio of the normalisers, and
    theta_i / (theta_i + theta_j) is Beta(scale p, scale q) or Beta(scale (p-1), scale (q+1)).

    **Guarantees.** The reverse of (p, q) is the forward of (q+1, p-1). NaN is never returned as a delta
    of 0. Between counts of more than some millions a small delta is mostly rounding.

    Examples
    --------
    >>> pair = pair_delta(50, 50, scale=0.03, epsilon=0.05)
    >>> round(pair.exceedance, 6), round(pair.forward, 8), round(pair.reverse, 8)
    (0.10576, 0.00234739, 0.00239148)
    """
    if not (1 <= source < math.inf and 0 <= target < math.inf):
        raise ValueError(f"source must be >= 1 and target >= 0, got {source} and {target}")
    _check(scale, epsilon)
    p, q, s = float(source), float(target), scale
    if p == 1 or q == 0:
        return PairDelta(1.0, 1.0, 1.0, math.inf if q == 0 else -math.inf)
    own, moved = scipy.special.gammaln([[s * p, s * q], [s * (p - 1), s * (q + 1)]]).sum(axis=1)
    constant = float(own - moved)
    t, back = (epsilon + constant) / s, (epsilon - constant) / s
    exceedance, factor = _beta_cdf(s * q, s * p, t), math.exp(epsilon)
    forward = exceedance - factor * _beta_cdf(s * (q + 1), s * (p - 1), t)
    reverse = _beta_cdf(s * (p - 1), s * (q + 1), back) - factor * _beta_cdf(s * p, s * q, back)
    return PairDelta(exceedance, _largest(forward), _largest(reverse), constant)


def dominating_delta(floor: float | int, scale: float, epsilon: float) -> float:
    """Return the largest delta of neighbours whose counts are all at least `floor`, in closed form.

    Parameters
    ----------
    floor
        **Public** lower bound of every count, from 1e-100 to 2**53; it need not be an integer.
    scale, epsilon
        As for `pair_delta`, errors included.

    Notes
    -----
    With X ~ Beta(a, b) and an independent W ~ Beta(a + b, k), X W ~ Beta(a, b + k). The two laws
    Beta(s p, s q) and Beta(s (p-1), s (q+1)) of a pair have the same a + b, so one random map takes them to
    the laws of (p, q + k/s). By data processing every divergence falls as q grows, and by symmetry as p
    grows. The worst pair is (floor + 1, floor), whose constant is zero and whose two directions coincide.
    It dominates at every epsilon at once, so it may be composed. A floor above 2**20 is replaced by 2**20,
    whose delta is no smaller: deltas computed for larger floors are mostly rounding.

    **Guarantees.** No pair with source >= floor + 1 and target >= floor has a larger divergence,
    in either direction; the limit at small scales is exp(-floor epsilon) / (2 floor + 1), not 0.

    Examples
    --------
    >>> f"{dominating_delta(50, 0.5, 0.05):.12f}", f"{dominating_delta(5, 6e-5, 0.05):.12f}"
    ('0.035941534305', '0.070800083760')
    """
    floor = _clear_floor(floor)
    _check(scale, epsilon)
    low, high, t = scale * floor, scale * (floor + 1), epsilon / scale
    lost = math.exp(epsilon) * _beta_cdf(high, low, t)
    return _largest(_beta_cdf(low, high, t) - lost)


def clamp_delta(floor: float | int, scale: float, epsilon: float) -> float:
    """Return the largest delta of neighbours if every count below `floor` is first raised to it.

    Takes and raises what `dominating_delta` does; the counts may be any, zeros included.

    Notes
    -----
    If both clamped counts move, the pair is one above the floor. If one moves, it is at least the floor and
    moves by one; the laws come from independent gamma variables of which a single one differs, Gamma(s q)
    and Gamma(s (q+1)). Adding an independent Gamma(s (q - floor)) to both shows that q = floor is worst, in
    both directions. The largest of the three numbers holds for all.

    **Guarantees.** At least `dominating_delta`; at least the divergence of any two neighbours'
    clamped releases.

    Examples
    --------
    >>> f"{clamp_delta(49, 0.776, 0.05):.6f}"
    '0.049963'
    """
    dominating = dominating_delta(floor, scale, epsilon)
    a = scale * _clear_floor(floor)
    ratio = float(scipy.special.gammaln(a + scale) - scipy.special.gammaln(a))
    factor, fall, rise = math.exp(epsilon), (ratio - epsilon) / scale, (ratio + epsilon) / scale
    below = _gamma_cdf(a, fall) - factor * _gamma_cdf(a + scale, fall)
    above = _gamma_tail(a + scale, rise) - factor * _gamma_tail(a, rise)
    return _largest(dominating, below, above)


def expected_distortion(count: Real[np.ndarray, " classes"], scale: float) -> float:
    """Return the expected l1 distance of theta ~ Dir(scale * count) from the proportions of `count`.

    Each class contributes 2 x^a y^b / ((a + b) B(a, b)), with a and b its beta parameters, x = a/(a+b),
    y = 1 - x.

    Raises
    ------
    ValueError
        If counts are not from 0 to 2**53 with two positive ones, or the scale is not in [1e-10, 1e8].

    Examples
    --------
    >>> round(expected_distortion(np.array([50, 50, 50, 50, 800]), 0.7849), 4)
    0.0362
    """
    value: Float[np.ndarray, " classes"] = np.asarray(count, dtype=np.float64)
    within = value.ndim == 1 and ((value >= 0) & (value <= MAX_RECORDS)).all()
    if not (within and (value > 0).sum() >= 2):
        raise ValueError("counts must be from 0 to 2**53, and two of them > 0")
    _check(scale, 1.0)
    a = scale * value
    b = a.sum() - a
    x = a / a.sum()
    powers = scipy.special.xlogy(a, x) + scipy.special.xlog1py(b, -x)
    log_one = powers - np.log(a + b) - scipy.special.betaln(a, b)
    return float(2 * np.exp(log_one).sum())


def _largest(*deltas: float) -> float:
    """Return the largest of some numbers and 0; raise ArithmeticError for NaN, which `max` would hide."""
    if any(map(math.isnan, deltas)):
        raise ArithmeticError("a delta must be a number, got NaN")
    return max(0.0, *deltas)


def _beta_cdf(a: float, b: float, t: float) -> float:
    """Return I_y(a, b) at y = 1 / (1 + exp(t)); beyond STEEP its leading term, as y or 1 - y vanishes."""
    if t > STEEP:
        return math.exp(-a * t - math.log(a) - scipy.special.betaln(a, b))
    if t < -STEEP:
        return -math.expm1(b * t - math.log(b) - scipy.special.betaln(a, b))
    return float(scipy.special.betainc(a, b, scipy.special.expit(-t)))


def _gamma_cdf(a: float, log_x: float) -> float:
    """Return P(a, x) at x = exp(log_x), by its leading term if x vanishes."""
    if log_x < -STEEP:
        return math.exp(a * log_x - scipy.special.gammaln(a + 1))
    return float(scipy.special.gammainc(a, math.exp(min(log_x, STEEP))))


def _gamma_tail(a: float, log_x: float) -> float:
    """Return Q(a, x) at x = exp(log_x)."""
    if log_x < -STEEP:
        return -math.expm1(a * log_x - scipy.special.gammaln(a + 1))
    return float(scipy.special.gammaincc(a, math.exp(min(log_x, STEEP))))


def _check(scale: float, epsilon: float) -> None:
    if not MIN_SCALE <= scale <= MAX_SCALE:
        raise ValueError(f"scale must be in [1e-10, 1e8], got scale={scale}")
    check_epsilon(epsilon)


def _clear_floor(floor: float | int) -> float:
    """Return the floor that deltas are computed for: the given floor, or a smaller one that costs no less."""
    _check_floor(floor)
    return min(float(floor), CLEAR_FLOOR)


def _check_floor(floor: float | int) -> None:
    if not MIN_FLOOR <= floor <= MAX_RECORDS:
        raise ValueError(f"floor must be >= 1e-100 and at most 2**53, got floor={floor}")


MIN_SEARCHED, MAX_SEARCHED = 1e-9, 1e7


class InfeasibleFloor(ValueError):
    """No scale makes Dirichlet releases above this floor cheap enough.

    Parameters
    ----------
    floor
        The given floor.
    smallest
        Every floor above this one has a scale.

    Examples
    --------
    >>> round(InfeasibleFloor(5, 6.6741).smallest, 2)
    6.67
    """

    def __init__(self, floor: float | int, smallest: float) -> None:
        super().__init__(floor, smallest)
        self.floor, self.smallest = floor, smallest

    def __str__(self) -> str:
        return (
            f"floor must be above {self.smallest:.4g} for this epsilon and delta, got "
            f"floor={self.floor:g}; raise it, or release with Laplace or Gaussian noise"
        )


def smallest_floor(epsilon: float, delta: float) -> float:
    """Return the infimum of the floors that have a scale: exp(-floor epsilon) / (2 floor + 1) = delta.

    Raises
    ------
    ValueError
        If not 0 < epsilon <= 100 and 0 < delta < 1.

    Examples
    --------
    >>> round(smallest_floor(0.05, 0.05), 2)
    6.67
    """
    check_price(epsilon, delta)
    # either factor alone gives an upper bound; a tiny epsilon or delta makes one of them infinite
    low, high = 0.0, min((1 / delta - 1) / 2, -math.log(delta) / epsilon)
    for _ in range(200):
        middle = (low + high) / 2
        if math.exp(-middle * epsilon) / (2 * middle + 1) < delta:
            high = middle
        else:
            low = middle
    return high


def largest_scale(floor: float | int, epsilon: float, delta: float) -> Fraction:
    """Return the largest scale at which counts of at least `floor` cost (epsilon, delta), rounded down.

    Parameters
    ----------
    floor
        **Public** lower bound of every count, by design of the data set and of all neighbours.
        A check of the counts that raises would itself separate neighbours.
    epsilon, delta
        The price, 0 < epsilon <= 100 and 0 < delta < 1.

    Returns
    -------
    Fraction
        Rounded down to six digits; for a floor above 2**20 the scale of 2**20, which is smaller.

    Raises
    ------
    InfeasibleFloor
        If there is no such scale.
    ValueError
        If one of the conditions is broken.

    Notes
    -----
    **Guarantees.** `dominating_delta` at the returned scale, computed anew and raised by a millionth for
    rounding, is at most delta. No assumption is made on its growth with the scale.

    Examples
    --------
    >>> float(largest_scale(50, 0.05, 0.05))
    0.792874
    """
    return _search(dominating_delta, floor, epsilon, delta)


@lru_cache(maxsize=256)
def largest_clamp_scale(floor: float | int, epsilon: float, delta: float) -> Fraction:
    """Return the largest scale at which counts clamped to `floor` cost (epsilon, delta), rounded down.

    Takes, returns, raises and guarantees what `largest_scale` does, with `clamp_delta`.

    Examples
    --------
    >>> largest_clamp_scale(50, 0.05, 0.05) == largest_scale(50, 0.05, 0.05)
    True
    """
    return _search(clamp_delta, floor, epsilon, delta)


def _search(
    delta_at: Callable[[float | int, float, float], float],
    floor: float | int,
    epsilon: float,
    delta: float,
) -> Fraction:
    """Return the lower end of a bisection on ln scale, which always satisfies the claim."""
    _check_floor(floor)
    check_price(epsilon, delta)

    def sound(scale: float) -> bool:
        return is_covered(delta_at(floor, scale, epsilon), delta)

    low, high = math.log(MIN_SEARCHED), math.log(MAX_SEARCHED)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if sound(math.exp(middle)) else (low, middle)
    scale = _round_down(math.exp(low))
    if not sound(float(scale)):
        raise InfeasibleFloor(floor, smallest_floor(epsilon, delta))
    return scale


def _round_down(scale: float) -> Fraction:
    """Return the scale rounded to six digits, never above `scale`."""
    unit = Fraction(10) ** (math.floor(math.log10(scale)) - 5)
    return Fraction(scale) // unit * unit
