"""Where a monotone function changes its sign, by bisection, on the upper side.

>>> root_above(lambda x: x * x - 2, 1.0, 2.0, xtol=1e-12) - 2**0.5 < 1e-12
True
"""

from collections.abc import Callable

__all__ = ["root_above"]


def root_above(excess: Callable[[float], float], low: float, high: float, *, xtol: float) -> float:
    """Return a point of [low, high], at most `xtol` above the root of a monotone function.

    The function has its one change of sign there, or the sign that it has at `high` throughout. It has
    that sign, or is 0, at the result too: what holds above the root holds there. Bisection needs no
    scipy.optimize, whose import takes a run longer than all its bounds do.

    Examples
    --------
    >>> root_above(lambda x: 1.1 - x, 0.0, 4.0, xtol=0.5)
    1.5
    """
    at_high = excess(high) > 0
    while high - low > xtol:
        middle = (low + high) / 2
        if not low < middle < high:  # neighbouring doubles
            break
        if (excess(middle) > 0) == at_high:
            high = middle
        else:
            low = middle
    return high
