"""What a bound on a true error is, and what picking the least of several costs."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

__all__ = ["Bound", "check_count", "check_epsilon", "check_level", "least"]


@dataclass(frozen=True, slots=True)
class Bound:
    """The true error is at most `value`, with confidence `level`, if the assumption holds.

    Parameters
    ----------
    name
        What it is called in a report.
    value
        In [0, 1]; 1 where the bound does not apply.
    level
        Confidence, in (0, 1).
    assumption
        What must hold, or why the bound does not apply, in a sentence.
    applies
        Whether its conditions are met. They never depend on the data, only on public numbers.

    Raises
    ------
    ValueError
        If `value` or `level` is out of range, or a bound that does not apply says less than 1.

    Examples
    --------
    >>> Bound("holdout", value=0.2, level=0.95, assumption="independent records", applies=True).value
    0.2
    """

    name: str
    value: float
    level: float
    assumption: str
    applies: bool

    def __post_init__(self) -> None:
        if not 0 <= self.value <= 1:
            raise ValueError("value must be in [0, 1]")
        check_level(self.level)
        if not (self.applies or self.value == 1):
            raise ValueError("value must be 1 for a bound that does not apply")


def least(bounds: Sequence[Bound]) -> Bound:
    """Pick the smallest of the bounds that apply, and pay for picking.

    Parameters
    ----------
    bounds
        Bounds on the same error.

    Returns
    -------
    Bound
        The one of least value, ties to the first. Its `level` is what all of the applicable ones hold
        at together, 1 - sum of (1 - level), because which is smallest depends on the data.

    Raises
    ------
    ValueError
        If none applies, or they hold together with no positive confidence.

    Notes
    -----
    **Guarantees.** Valid at the returned level however dependent the bounds are; a single applicable
    bound is returned as it is.

    Examples
    --------
    >>> from learners import cdp_bound, clopper_pearson_bound
    >>> holdout = clopper_pearson_bound(6, 60, level=0.975)
    >>> training = cdp_bound(30, 400, epsilon=0.05, level=0.975)
    >>> best = least([holdout, training])
    >>> best.name, round(best.value, 4), round(best.level, 4)
    ('CDP', 0.1373, 0.95)
    """
    applicable = [bound for bound in bounds if bound.applies]
    if not applicable:
        raise ValueError("bounds must hold one that applies")
    best = min(applicable, key=lambda bound: bound.value)
    if len(applicable) == 1:
        return best
    level = 1 - sum(1 - bound.level for bound in applicable)
    if not level > 0:
        raise ValueError("bounds must be of higher level to hold together")
    return replace(best, level=level)


def check_count(errors: int | np.integer, n: int | np.integer) -> None:
    """Refuse what is no count of errors; the message tells no count."""
    if not (isinstance(n, int | np.integer) and n >= 1):
        raise ValueError(f"n must be a whole number >= 1, got n={n}")
    if not (isinstance(errors, int | np.integer) and 0 <= errors <= n):
        raise ValueError(f"errors must be a whole number of 0 .. n={n}")


def check_level(level: float) -> None:
    """Refuse what is no confidence."""
    if not 0 < level < 1:
        raise ValueError(f"level must be in (0, 1), got level={level}")


def check_epsilon(epsilon: float) -> None:
    """Refuse what is no privacy loss."""
    if not 0 <= epsilon < math.inf:
        raise ValueError(f"epsilon must be >= 0 and finite, got epsilon={epsilon}")
