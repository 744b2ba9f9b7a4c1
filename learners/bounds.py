"""Upper bounds on a classifier's true error from errors counted in data, each with what it assumes.

Records are independent draws of one population: those of one worker or group are not, and must be
counted by group. A count of errors is as private as the data; so is a bound made of it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import beta

__all__ = [
    "Bound",
    "cdp_bound",
    "clopper_pearson_bound",
    "clopper_pearson_interval",
    "least",
    "upper_limit",
]


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
        if not 0 < self.level < 1:
            raise ValueError(f"level must be in (0, 1), got level={self.level}")
        if not (self.applies or self.value == 1):
            raise ValueError("value must be 1 for a bound that does not apply")


def upper_limit(errors: float | int | np.integer, n: int | np.integer, tail: float) -> float:
    """The error rate at which `errors` or fewer out of n have probability `tail`.

    The Beta quantile Q[1 - tail; errors + 1, n - errors], which also takes mean counts; computed from
    the upper tail, so that the smallest `tail` keeps its digits.

    Examples
    --------
    >>> round(upper_limit(0, 60, 0.05), 4)
    0.0487
    """
    return 1.0 if errors >= n else float(beta.isf(tail, errors + 1, n - errors))


def clopper_pearson_bound(
    errors: int | np.integer, n: int | np.integer, *, level: float, n_candidates: int = 1
) -> Bound:
    """Bound the true error by errors on records that training never saw.

    Parameters
    ----------
    errors
        Records misjudged, out of `n`.
    n
        Records, >= 1.
    level
        Confidence, in (0, 1).
    n_candidates
        Models among which these records helped to choose, >= 1.

    Returns
    -------
    Bound
        The exact binomial bound at tail (1 - level) / n_candidates.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Notes
    -----
    **Guarantees.** Coverage is at least `level` whatever the true error; with candidates, for
    whichever is chosen (union bound); with no errors it is 1 - tail^(1/n).

    References
    ----------
    .. [1] Clopper, Pearson, "The use of confidence or fiducial limits illustrated in the case of the
       binomial", Biometrika 26 (1934).

    Examples
    --------
    >>> round(clopper_pearson_bound(0, 60, level=0.95).value, 4)
    0.0487
    """
    _check(errors, n, level)
    if not n_candidates >= 1:
        raise ValueError(f"n_candidates must be >= 1, got n_candidates={n_candidates}")
    chosen = "" if n_candidates == 1 else f" but to choose among {n_candidates} models"
    return Bound(
        name="Clopper-Pearson",
        value=upper_limit(errors, n, (1 - level) / n_candidates),
        level=level,
        assumption=f"{n} independent records that training did not see{chosen}",
        applies=True,
    )


def clopper_pearson_interval(
    errors: int | np.integer, n: int | np.integer, *, level: float
) -> tuple[float, float]:
    """Two-sided exact interval for an error rate, half of 1 - level on each side.

    Parameters
    ----------
    errors
        Records misjudged, out of `n`.
    n
        Records, >= 1.
    level
        Confidence, in (0, 1).

    Returns
    -------
    low, high
        Ends, in [0, 1]; `low` is 0 without errors, `high` is 1 without successes.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Notes
    -----
    **Guarantees.** Coverage is at least `level`; exchanging errors and successes mirrors the interval.

    Examples
    --------
    >>> low, high = clopper_pearson_interval(5, 10, level=0.95)
    >>> round(low, 4), round(high, 4)
    (0.1871, 0.8129)
    """
    _check(errors, n, level)
    tail = (1 - level) / 2
    return 1.0 - upper_limit(n - errors, n, tail), upper_limit(errors, n, tail)


def cdp_bound(
    errors: int | np.integer, n: int | np.integer, *, epsilon: float, level: float
) -> Bound:
    """Bound the true error by errors on the training data of a differentially private procedure.

    L(f) <= Q[1 - delta^2 / 9; errors + 1, n - errors] with delta = 1 - level, if
    epsilon <= sqrt(ln(3 / delta) / n).

    Parameters
    ----------
    errors
        Training records misjudged by the released model, out of `n`.
    n
        Training records, >= 1.
    epsilon
        Of everything that read these records to make the model, tuning included; pure, for the
        replacement of one record. >= 0.
    level
        Confidence, in (0, 1).

    Returns
    -------
    Bound
        `applies` is False, and the value 1, where epsilon is too large.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Notes
    -----
    The transfer theorem of [1]_: if each fixed model is misjudged by the data with probability at most
    beta, and epsilon <= sqrt(ln(1 / beta) / (2 n)), then a model released with epsilon-differential
    privacy is with probability at most 3 sqrt(beta). Here beta = delta^2 / 9, and the fixed models'
    event is that their Clopper-Pearson bound fails [2]_.

    **Guarantees.** Applies at the limit and not beyond; never below the Clopper-Pearson bound
    of the same count; with no errors it is 1 - (delta^2 / 9)^(1 / n).

    References
    ----------
    .. [1] Dwork, Feldman, Hardt, Pitassi, Reingold, Roth, "Preserving statistical validity in adaptive
       data analysis", STOC (2015).
    .. [2] Oneto, Ridella, Anguita, "Generalization performances of randomized classifiers and
       algorithms built on data dependent distributions", ESANN (2017), Corollaries 3 and 4.

    Examples
    --------
    >>> round(cdp_bound(10, 100, epsilon=0.1, level=0.95).value, 4)
    0.2413
    >>> cdp_bound(10, 100, epsilon=1.0, level=0.95).assumption
    'does not apply: epsilon=1 must be <= 0.202 for 100 records at this level'
    """
    _check(errors, n, level)
    if not epsilon >= 0:
        raise ValueError(f"epsilon must be >= 0, got epsilon={epsilon}")
    largest = math.sqrt(math.log(3 / (1 - level)) / n)
    if not epsilon <= largest:
        why = f"does not apply: epsilon={epsilon:g} must be <= {largest:.3g} for {n} records at this level"
        return Bound("CDP", value=1.0, level=level, assumption=why, applies=False)
    return Bound(
        name="CDP",
        value=upper_limit(errors, n, (1 - level) ** 2 / 9),
        level=level,
        assumption=f"{n} independent records, read with epsilon-differential privacy only, "
        f"epsilon={epsilon:g}",
        applies=True,
    )


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


def _check(errors: int | np.integer, n: int | np.integer, level: float) -> None:
    """Refuse what is no count of errors; the message tells no count."""
    if not (isinstance(n, int | np.integer) and n >= 1):
        raise ValueError(f"n must be a whole number >= 1, got n={n}")
    if not (isinstance(errors, int | np.integer) and 0 <= errors <= n):
        raise ValueError(f"errors must be a whole number of 0 .. n={n}")
    if not 0 < level < 1:
        raise ValueError(f"level must be in (0, 1), got level={level}")
