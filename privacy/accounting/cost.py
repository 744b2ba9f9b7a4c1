"""What a release costs, in exact arithmetic."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

__all__ = [
    "LARGEST_EPSILON",
    "SAFETY",
    "Cost",
    "check_epsilon",
    "check_price",
    "exact",
    "six_digits_down",
    "six_digits_up",
]

LARGEST_EPSILON = 100.0  # of what has a delta as well; the closed forms are tested up to it
SAFETY = 1 + 1e-6  # for rounding: a computed delta is raised by it before it is compared


@dataclass(frozen=True, slots=True)
class Cost:
    """An (epsilon, delta) guarantee in exact arithmetic.

    Costs of releases on the same tasks add up (basic composition); of disjoint tasks the largest
    counts, taken apart for epsilon and delta, which errs on the safe side.

    Examples
    --------
    >>> tenth = Cost(exact(0.1), Fraction(0))
    >>> tenth.times(10) == Cost(exact(1.0), Fraction(0))
    True
    """

    epsilon: Fraction
    delta: Fraction

    def __post_init__(self) -> None:
        if not (self.epsilon >= 0 and self.delta >= 0):
            raise ValueError(f"a cost must be >= 0, got {self.epsilon}, {self.delta}")

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(self.epsilon + other.epsilon, self.delta + other.delta)

    def __sub__(self, other: "Cost") -> "Cost":
        return Cost(self.epsilon - other.epsilon, self.delta - other.delta)

    def times(self, count: int) -> "Cost":
        """Cost of `count` releases on the same tasks."""
        return Cost(self.epsilon * count, self.delta * count)

    def within(self, budget: "Cost") -> bool:
        """Whether a budget covers this cost."""
        return self.epsilon <= budget.epsilon and self.delta <= budget.delta

    @staticmethod
    def max(costs: Iterable["Cost"]) -> "Cost":
        """Cost of releases on disjoint tasks; nothing for none."""
        listed = [Cost(Fraction(0), Fraction(0)), *costs]
        return Cost(max(one.epsilon for one in listed), max(one.delta for one in listed))


def exact(number: float | str) -> Fraction:
    """Read a number as the decimal it is written as; NaN and infinity are refused.

    Examples
    --------
    >>> exact(0.1), exact("1/3")
    (Fraction(1, 10), Fraction(1, 3))
    """
    try:
        return Fraction(str(number))
    except (ValueError, ZeroDivisionError):
        raise ValueError(f"a privacy parameter must be a finite number, got {number}") from None


def check_epsilon(epsilon: float) -> None:
    """Refuse an epsilon that no delta is computed for."""
    if not 0 < epsilon <= LARGEST_EPSILON:
        raise ValueError(f"epsilon must be > 0 and at most 100, got epsilon={epsilon}")


def check_price(epsilon: float, delta: float) -> None:
    """Refuse what is no price of a release with a delta."""
    check_epsilon(epsilon)
    if not 0 < delta < 1:
        raise ValueError(f"delta must be in (0, 1), got delta={delta}")


def six_digits_down(number: Fraction) -> float:
    """Largest decimal of about six digits that is no larger than a number >= 0.

    Examples
    --------
    >>> six_digits_down(Fraction(2, 3)), six_digits_up(Fraction(2, 3)), six_digits_up(exact(0.1))
    (0.666666, 0.666667, 0.1)
    """
    return float(number // _step(number) * _step(number))


def six_digits_up(number: Fraction) -> float:
    """Smallest decimal of about six digits that is no smaller than a number >= 0."""
    return float(-(-number // _step(number)) * _step(number))


def _step(number: Fraction) -> Fraction:
    if not number:
        return Fraction(1)
    # of integers of any length: a double may not hold their ratio
    size = math.log10(number.numerator) - math.log10(number.denominator)
    return Fraction(10) ** (math.floor(size) - 5)


def check_delta(claim: float, realised: float) -> None:
    # no realised one is 0, even where it is too small for a double
    if not (0 < claim < 1 and realised <= claim):
        raise ValueError(
            f"delta must be in (0, 1) and at least what the scale realises, got {claim}"
        )
