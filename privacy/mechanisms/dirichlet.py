"""The largest scale of a Dirichlet release for its price, from a public floor of the counts.

Solved for numbers that are public alone: the floor, epsilon and delta. A scale found from the
counts would be data itself (see `privacy.mechanisms.dirichlet_pair`).
"""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

from privacy.accounting.cost import SAFETY, check_price
from privacy.mechanisms.dirichlet_pair import (
    check_floor,
    clamp_delta,
    dominating_delta,
)

__all__ = [
    "InfeasibleFloor",
    "dominating_delta",
    "largest_clamp_scale",
    "largest_scale",
    "smallest_floor",
]

LOWEST, HIGHEST = 1e-9, 1e7  # where a scale is looked for


class InfeasibleFloor(ValueError):
    """No scale makes Dirichlet releases above this floor cost so little.

    Parameters
    ----------
    floor
        The floor that was asked for.
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
    """Infimum of the floors that have a scale: exp(-floor epsilon) / (2 floor + 1) = delta.

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
    low, high = 0.0, (1 / delta - 1) / 2
    for _ in range(200):
        middle = (low + high) / 2
        if math.exp(-middle * epsilon) / (2 * middle + 1) < delta:
            high = middle
        else:
            low = middle
    return high


def largest_scale(floor: float | int, epsilon: float, delta: float) -> Fraction:
    """Largest scale at which counts of at least `floor` cost (epsilon, delta), rounded down.

    Parameters
    ----------
    floor
        **Public** lower bound of every count, by design of the data set and of all neighbours.
        A check of the counts that raises would itself tell neighbours apart.
    epsilon, delta
        The price, 0 < epsilon <= 100 and 0 < delta < 1.

    Returns
    -------
    Fraction
        Rounded down to six digits.

    Raises
    ------
    InfeasibleFloor
        If there is no such scale.
    ValueError
        If one of the conditions is broken.

    Notes
    -----
    **Guarantees.** `dominating_delta` at the scale returned, computed anew and raised by a
    millionth for rounding, is at most delta; nothing is assumed about how it grows with the scale.

    Examples
    --------
    >>> float(largest_scale(50, 0.05, 0.05))
    0.792874
    """
    return _search(dominating_delta, floor, epsilon, delta)


@lru_cache(maxsize=256)
def largest_clamp_scale(floor: float | int, epsilon: float, delta: float) -> Fraction:
    """Largest scale at which counts clamped to `floor` cost (epsilon, delta), rounded down.

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
    """Bisect ln scale; the lower end always satisfies the claim."""
    check_floor(floor)
    smallest = smallest_floor(epsilon, delta)

    def sound(scale: float) -> bool:
        return delta_at(floor, scale, epsilon) * SAFETY <= delta

    if not (floor > smallest and sound(LOWEST)):
        raise InfeasibleFloor(floor, smallest)
    low, high = math.log(LOWEST), math.log(HIGHEST)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if sound(math.exp(middle)) else (low, middle)
    scale = _round_down(math.exp(low))
    if not sound(float(scale)):
        raise InfeasibleFloor(floor, smallest)
    return scale


def _round_down(scale: float) -> Fraction:
    """Six digits, never more than `scale`."""
    unit = Fraction(10) ** (math.floor(math.log10(scale)) - 5)
    return Fraction(scale) // unit * unit
