"""The privacy loss of one release, as the pair of laws that separates neighbours best.

A pair (P, Q) dominates a release if no neighbours' outputs diverge more at any epsilon. By Blackwell's
theorem the release is then a random map of one draw from P or Q, for any query at any time, and products of
pairs dominate compositions. All pairs here are symmetric, so one curve of deltas at epsilon >= 0 describes
them. Every event has its own `loss()`.

>>> import numpy as np
>>> response_loss(1.0).delta(np.array([0.0, 1.0])).round(4).tolist()
[0.4621, 0.0]
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from jaxtyping import Float

__all__ = ["MAX_LOSS", "Loss", "atom_loss", "claim_loss", "response_loss"]

MAX_LOSS = 100.0  # larger losses count as infinite
MIN_CLAIM, MAX_CLAIM = Fraction(1, 10**100), Fraction(10**4)  # losses above MAX_LOSS are infinite


@dataclass(frozen=True, slots=True, eq=False)
class Loss:
    """A symmetric dominating pair, by its deltas.

    Parameters
    ----------
    width
        Largest finite loss, in [0, 100]: deltas are constant beyond it; 0 for a release that reveals
        nothing.
    delta
        Divergence of order e^epsilon at each of an array of epsilons in [0, 100]: convex in
        e^epsilon, and never below that of any two neighbours.

    Raises
    ------
    ArithmeticError
        If the width is not in [0, 100].

    Examples
    --------
    >>> from privacy import DiscreteLaplaceEvent
    >>> DiscreteLaplaceEvent(2.0, 2.0, 1.0).loss().delta(np.array([0.5])).round(4).tolist()
    [0.1525]
    """

    width: float
    delta: Callable[[Float[np.ndarray, " points"]], Float[np.ndarray, " points"]]

    def __post_init__(self) -> None:
        if not 0 <= self.width <= MAX_LOSS:  # a NaN would pass for a release that reveals nothing
            raise ArithmeticError(f"a loss's width must be in [0, 100], got {self.width}")


def atom_loss(epsilon: float, plus: float, infinite: float = 0.0) -> Loss:
    """Return the loss with atoms epsilon (probability `plus`), 0, -epsilon, and infinity."""

    def delta(at: Float[np.ndarray, " points"]) -> Float[np.ndarray, " points"]:
        return infinite + (1 - infinite) * plus * -np.expm1(np.minimum(at - epsilon, 0.0))

    return Loss(min(epsilon, MAX_LOSS), delta)


def response_loss(epsilon: float, infinite: float = 0.0) -> Loss:
    """Return the loss of randomised response, which dominates every (epsilon, infinite)-private release."""
    return atom_loss(epsilon, 1 / (1 + math.exp(-epsilon)), infinite)


def claim_loss(epsilon: Fraction, delta: Fraction) -> Loss:
    """Return the loss of a release with a known claim (epsilon, delta), and nothing else known.

    Epsilon is rounded up to a double, and to the smallest loss that a grid can hold.
    """
    above = math.nextafter(float(min(max(epsilon, MIN_CLAIM), MAX_CLAIM)), math.inf)
    return response_loss(above, float(delta))  # composition raises deltas by more than this rounds
