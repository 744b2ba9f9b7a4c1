"""What a release costs, in exact arithmetic."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

__all__ = ["Cost", "exact", "six_digits_down", "six_digits_up"]


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
    return Fraction(10) ** (math.floor(math.log10(number)) - 5) if number else Fraction(1)
