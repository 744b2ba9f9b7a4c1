"""Events of pure differential privacy: an epsilon, and no delta."""

import json
import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from privacy.accounting.cost import Cost, exact

__all__ = [
    "LARGEST_SCALE",
    "DiscreteLaplaceEvent",
    "LatticeLaplaceEvent",
    "PureEvent",
    "covering_scale",
]

LARGEST_SCALE = 2.0**40  # beyond it the 64-bit samplers could saturate


@dataclass(frozen=True, slots=True)
class DiscreteLaplaceEvent:
    """Independent discrete Laplace noise was added to class counts of a given l1 sensitivity.

    P(z) ~ exp(-||z||_1 / scale). It is (l1 / scale)-differentially private, and `epsilon` is the
    claim, at least that. The counts add up to a public number, the same for neighbours.

    Raises
    ------
    ValueError
        If the claim is below what the scale realises, in exact arithmetic.

    Examples
    --------
    >>> DiscreteLaplaceEvent(scale=20.0, l1=2.0, epsilon=0.1).cost().epsilon
    Fraction(1, 10)
    """

    scale: float
    l1: float
    epsilon: float

    def __post_init__(self) -> None:
        _check_laplace(self.scale, self.l1, self.epsilon)

    def cost(self) -> Cost:
        """Pure differential privacy at the claim."""
        return Cost(exact(self.epsilon), Fraction(0))


@dataclass(frozen=True, slots=True)
class LatticeLaplaceEvent:
    """Discrete Laplace noise conditioned on summing to zero was added to class counts.

    P(z) ~ exp(-||z||_1 / scale) over the integer vectors of `n_classes` entries with sum zero. It
    is (l1 / scale)-differentially private for neighbours whose counts have the same sum, and
    `epsilon` is the claim, at least that.

    Raises
    ------
    ValueError
        If the claim is below what the scale realises, in exact arithmetic.

    Examples
    --------
    >>> LatticeLaplaceEvent(scale=2.0, l1=2.0, n_classes=3, epsilon=1.0).cost().epsilon
    Fraction(1, 1)
    """

    scale: float
    l1: float
    n_classes: int
    epsilon: float

    def __post_init__(self) -> None:
        _check_laplace(self.scale, self.l1, self.epsilon)
        if not (isinstance(self.n_classes, int) and self.n_classes >= 2):
            raise ValueError(f"n_classes must be an integer >= 2, got n_classes={self.n_classes}")

    def cost(self) -> Cost:
        """Pure differential privacy at the claim."""
        return Cost(exact(self.epsilon), Fraction(0))


@dataclass(frozen=True, slots=True)
class PureEvent:
    """A mechanism ran that its own docstring proves epsilon-differentially private.

    Parameters
    ----------
    name
        The mechanism.
    epsilon
        Its proved guarantee, > 0 and finite; a decimal, or text that `fractions.Fraction` reads.
    parameters
        Its public knobs, as JSON.

    Examples
    --------
    >>> PureEvent("report noisy max", epsilon=0.1).cost().epsilon
    Fraction(1, 10)
    """

    name: str
    epsilon: float | str
    parameters: dict[str, Any] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("name must not be empty")
        if not exact(self.epsilon) > 0:
            raise ValueError(f"epsilon must be > 0, got epsilon={self.epsilon}")
        json.dumps(self.parameters, allow_nan=False)  # refuses what could not be stored

    def cost(self) -> Cost:
        """Pure differential privacy."""
        return Cost(exact(self.epsilon), Fraction(0))


def covering_scale(l1: float | int, epsilon: float) -> float:
    """Smallest double `scale` with l1 / scale <= epsilon, in exact arithmetic.

    Examples
    --------
    >>> covering_scale(2.0, 0.1), covering_scale(2.0, 0.3)
    (20.0, 6.666666666666667)
    """
    if not exact(epsilon) > 0:
        raise ValueError(f"epsilon must be > 0, got epsilon={epsilon}")
    wanted = Fraction(l1) / exact(epsilon)
    if not wanted <= LARGEST_SCALE:
        raise ValueError(f"epsilon must be >= l1 / 2**40, got epsilon={epsilon}")
    scale = float(wanted)
    return scale if Fraction(scale) >= wanted else math.nextafter(scale, math.inf)


def _check_laplace(scale: float, l1: float, epsilon: float) -> None:
    if not 0 < scale <= LARGEST_SCALE:
        raise ValueError(f"scale must be > 0 and at most 2**40, got scale={scale}")
    if not 0 < l1 < math.inf:
        raise ValueError(f"l1 must be > 0 and finite, got l1={l1}")
    if not Fraction(l1) <= exact(epsilon) * Fraction(scale):
        raise ValueError(f"epsilon must be at least l1 / scale, got epsilon={epsilon}")
