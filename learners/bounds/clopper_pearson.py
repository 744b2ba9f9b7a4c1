"""The exact binomial bound on an error rate, and Chernoff's, which is in Kullback-Leibler divergence.

>>> round(clopper_pearson_bound(0, 60, level=0.95).value, 4)
0.0487
"""

import math

import numpy as np
from scipy.special import betaincc, betainccinv, rel_entr

from learners.bounds.bound import (
    Bound,
    check_count,
    check_level,
    check_rows_of_one,
    independent_records,
    root_above,
)

__all__ = [
    "binary_divergence",
    "clopper_pearson_bound",
    "largest_rate",
    "upper_limit",
    "upper_limit_at",
]

STEP = 1e-13  # added to the inverse: more than the solver's own error
TAIL_ERROR = 1e-6  # share by which an inverse's tail may differ from the one asked for


def binary_divergence(observed: float, true: float) -> float:
    """Return kl(observed || true) in nats, for coins of these two chances; it may be infinite.

    Examples
    --------
    >>> round(binary_divergence(0.1, 0.2), 5), binary_divergence(0.5, 1.0)
    (0.03669, inf)
    """
    return float(rel_entr(observed, true) + rel_entr(1 - observed, 1 - true))


def largest_rate(observed: float, divergence: float) -> float:
    """Return the largest true rate with kl(observed || true) <= divergence, rounded up.

    `observed` is an error rate in [0, 1], `divergence` is in nats and >= 0; else a ValueError is raised.

    **Guarantees.** Grows with both arguments; without errors it is 1 - exp(-divergence); by Pinsker's
    inequality it is at most observed + sqrt(divergence / 2).

    Examples
    --------
    >>> round(largest_rate(0.1, 0.03669), 4), round(largest_rate(0.0, 0.05), 5)
    (0.2, 0.04877)
    """
    if not 0 <= observed <= 1:
        raise ValueError("observed must be in [0, 1]")
    if not divergence >= 0:
        raise ValueError(f"divergence must be >= 0, got divergence={divergence}")
    if observed == 0:
        return -math.expm1(-divergence)
    highest = min(1.0, observed + math.sqrt(divergence / 2) + STEP)
    if not binary_divergence(observed, highest) > divergence:
        return highest
    solved = root_above(
        lambda p: binary_divergence(observed, p) - divergence, observed, highest, xtol=STEP / 4
    )
    return min(1.0, solved + STEP)


MIN_LOG_TAIL = -700.0  # below it a double has too few digits


def upper_limit(errors: float | int | np.integer, n: int | np.integer, tail: float) -> float:
    """Return the error rate at which `errors` or fewer out of n have probability `tail`.

    It is the Beta quantile Q[1 - tail; errors + 1, n - errors], computed from the upper tail so that a
    tiny `tail` keeps its digits. `errors` may be a mean count.

    Examples
    --------
    >>> round(upper_limit(0, 60, 0.05), 4)
    0.0487
    """
    wrong, size = float(errors), float(n)  # NumPy's short integers overflow
    beta = wrong + 1.0, size - wrong
    if not beta[1] > 0:
        return 1.0
    rate = float(betainccinv(*beta, tail))

    def excess(p: float) -> float:
        return float(betaincc(*beta, p)) - tail

    if abs(excess(rate)) <= TAIL_ERROR * tail:
        return rate
    # below tails of 1e-50 or so the inverse may be NaN or wrong to either side; the tail itself is right
    return root_above(excess, wrong / size, 1.0, xtol=0.0)


def upper_limit_at(
    errors: int | np.integer, n: int | np.integer, log_tail: float, *, rows: int = 1
) -> float:
    """Return `upper_limit` at the tail exp(log_tail), or an upper bound of it if no double holds the tail.

    The upper bound is Chernoff's, P(errors or fewer) <= exp(-n kl(errors / n || rate)). It is also the result
    if up to `rows` records are of one subject, and may all be alike; n / rows then replaces n.

    Notes
    -----
    **Guarantees.** If subjects are independent, with r_s <= rows records each, then at any mean rate of all
    records above the limit, errors or fewer have at most the tail's probability.
    *Proof.* Let record i be right with a mean of p_i, and subject s have R_s right ones of a mean r_s p_s. As
    exp is convex, E exp(t R_s) <= 1 - p_s + p_s exp(t r_s), and as x^(r_s / rows) is concave, that is at most
    (1 - p_s + p_s exp(t rows))^(r_s / rows). The logarithm is concave in p_s: the product over subjects is at
    most (1 - p + p exp(t rows))^(n / rows), which Chernoff's inequality has of n / rows coins.

    Examples
    --------
    >>> round(upper_limit_at(0, 60, math.log(0.05)), 4), round(upper_limit_at(0, 10_000, -1e3), 4)
    (0.0487, 0.0952)
    >>> round(upper_limit_at(0, 60, math.log(0.05), rows=2), 4)
    0.095
    """
    if rows == 1 and log_tail >= MIN_LOG_TAIL:
        return upper_limit(errors, n, math.exp(log_tail))
    return largest_rate(float(errors) / float(n), -log_tail * rows / n)


def clopper_pearson_bound(
    errors: int | np.integer,
    n: int | np.integer,
    *,
    level: float,
    n_candidates: int = 1,
    rows: int = 1,
) -> Bound:
    """Bound the true error by the errors on records that training never saw.

    Parameters
    ----------
    errors
        Misjudged records, out of `n`.
    n
        Number of records, >= 1.
    level
        Confidence, in (0, 1).
    n_candidates
        Number of models among which these records helped to choose, >= 1.
    rows
        Most records of one subject, >= 1: subjects are independent, and their records may all be alike.

    Returns
    -------
    Bound
        The exact binomial bound at tail (1 - level) / n_candidates; where subjects have several records,
        Chernoff's for n / rows of them.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Notes
    -----
    **Guarantees.** Coverage is at least `level` for any true error; with candidates, for
    whichever is chosen (union bound); with no errors the bound is 1 - tail^(1/n).

    References
    ----------
    .. [1] Clopper, Pearson, "The use of confidence or fiducial limits illustrated in the case of the
       binomial", Biometrika 26 (1934).

    Examples
    --------
    >>> round(clopper_pearson_bound(0, 60, level=0.95).value, 4)
    0.0487
    """
    check_count(errors, n)
    check_level(level)
    if not 1 <= n_candidates < math.inf:
        raise ValueError(f"n_candidates must be >= 1 and finite, got n_candidates={n_candidates}")
    check_rows_of_one(rows)
    chosen = "" if n_candidates == 1 else f" but to choose among {n_candidates} models"
    tail = (1 - level) / n_candidates
    limit = (
        upper_limit(errors, n, tail)
        if rows == 1
        else upper_limit_at(errors, n, math.log(tail), rows=rows)
    )
    return Bound(
        name="Clopper-Pearson" if rows == 1 else "Chernoff",
        value=limit,
        level=level,
        assumption=f"{independent_records(n, rows)} that training did not see{chosen}",
        applies=True,
    )
