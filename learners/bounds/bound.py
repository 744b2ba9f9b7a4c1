"""A bound on a true error, the least of several at the level left, and the root where a bound lies.

>>> sure = Bound("holdout", value=0.2, level=0.975, assumption="independent records", applies=True)
>>> other = Bound("training", value=0.3, level=0.975, assumption="private training", applies=True)
>>> best = least([sure, other])
>>> best.name, round(best.level, 3)
('holdout', 0.95)
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

__all__ = [
    "Bound",
    "check_count",
    "check_epsilon",
    "check_level",
    "check_rows_of_one",
    "independent_records",
    "least",
    "root_above",
]


@dataclass(frozen=True, slots=True)
class Bound:
    """The true error is at most `value`, with confidence `level`, if the assumption holds.

    Parameters
    ----------
    name
        Name in reports.
    value
        In [0, 1]; 1 where the bound does not apply.
    level
        Confidence, in (0, 1).
    assumption
        What must hold, or why the bound does not apply, in one sentence.
    applies
        Whether its conditions hold. They depend on public numbers, never on the data.

    Raises
    ------
    ValueError
        If `value` or `level` is out of range, or a bound that does not apply has a value below 1.

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
    """Return the smallest of the bounds that apply, at the level that all of them keep together.

    Parameters
    ----------
    bounds
        Bounds on the same error.

    Returns
    -------
    Bound
        The bound of least value, ties to the first. Its `level` is the confidence of all applicable
        bounds together, 1 - sum of (1 - level), because the data decide which is smallest.

    Raises
    ------
    ValueError
        If no bound applies, or their confidence together is not positive.

    Notes
    -----
    **Guarantees.** Valid at the returned level for any dependence between the bounds; a single
    applicable bound is returned unchanged.

    Examples
    --------
    >>> from learners import clopper_pearson_bound
    >>> least([clopper_pearson_bound(6, 60, level=0.975)]).level
    0.975
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


def root_above(excess: Callable[[float], float], low: float, high: float, *, xtol: float) -> float:
    """Return a point of [low, high], at most `xtol` above the root of a monotone function.

    The function changes sign once in [low, high], or has the sign of `high` throughout. At the result it has
    that sign or is 0, so that what holds above the root holds at the result. Bisection needs no
    scipy.optimize, whose import takes longer than all bounds of a run.

    Examples
    --------
    >>> root_above(lambda x: x * x - 2, 1.0, 2.0, xtol=1e-12) - 2**0.5 < 1e-12
    True
    >>> root_above(lambda x: 1.1 - x, 0.0, 4.0, xtol=0.5)
    1.5
    """
    end = excess(high)
    at_high = end > 0 if end else not excess(low) > 0  # a root at `high` has no sign of its own
    while high - low > xtol:
        middle = (low + high) / 2
        if not low < middle < high:  # neighbouring doubles
            break
        if (excess(middle) > 0) == at_high:
            high = middle
        else:
            low = middle
    return high


def check_count(errors: int | np.integer, n: int | np.integer) -> None:
    """Raise ValueError unless 0 <= errors <= n and n >= 1; the message does not contain the count."""
    if not (isinstance(n, int | np.integer) and n >= 1):
        raise ValueError(f"n must be a whole number >= 1, got n={n}")
    if not (isinstance(errors, int | np.integer) and 0 <= errors <= n):
        raise ValueError(f"errors must be a whole number of 0 .. n={n}")


def check_level(level: float) -> None:
    """Raise ValueError unless 0 < level < 1."""
    if not 0 < level < 1:
        raise ValueError(f"level must be in (0, 1), got level={level}")


def check_epsilon(epsilon: float) -> None:
    """Raise ValueError unless epsilon is >= 0 and finite."""
    if not 0 <= epsilon < math.inf:
        raise ValueError(f"epsilon must be >= 0 and finite, got epsilon={epsilon}")


def check_rows_of_one(rows: int) -> None:
    """Raise ValueError unless `rows`, the most records of one subject, is a whole number >= 1."""
    if not (isinstance(rows, int | np.integer) and rows >= 1):
        raise ValueError(f"rows must be a whole number >= 1, got rows={rows}")


def independent_records(n: int | np.integer, rows: int) -> str:
    """Return the assumption about n records, at most `rows` of them of one subject, in words.

    Examples
    --------
    >>> independent_records(60, 1), independent_records(60, 3)
    ('60 independent records', '60 records of independent subjects, at most 3 of each,')
    """
    if rows == 1:
        return f"{n} independent records"
    return f"{n} records of independent subjects, at most {rows} of each,"
