"""Transfer a bound for models fixed beforehand to a model from differentially private training.

>>> round(transfer_bound(10, 100, epsilon=0.1, level=0.95).value, 4)
0.1926
"""

import math

import numpy as np
from scipy.special import erfcx

from learners.bounds.bound import (
    Bound,
    check_count,
    check_epsilon,
    check_level,
    check_rows_of_one,
    independent_records,
    root_above,
)
from learners.bounds.clopper_pearson import upper_limit_at
from privacy.accounting import price_text

__all__ = [
    "check_private",
    "log_transfer",
    "log_transfer_tail",
    "only_privately",
    "transfer_bound",
]


def log_transfer(log_tail: float, n: int | np.integer, epsilon: float) -> float:
    """Return the log chance that a private model is bad, if a fixed one is bad with chance exp(log_tail).

        J(beta) = integral over u in (0, beta) of exp(epsilon sqrt(n ln(1 / u) / 2)),  beta = exp(log_tail)

    for n independent records and pure epsilon for the replacement of one. A logarithm above 0 is vacuous.

    Notes
    -----
    Let a model f be bad for data S in a set R(f), where P(S in R(f)) <= beta for each f, and let it
    be drawn from S with density p(f | S), epsilon-differentially private.

    **Guarantees.** P(S in R(f)) <= J(beta) for the f that is drawn; J(beta) = beta at epsilon = 0;
    J grows with beta, n and epsilon; J(beta) <= (4 / 3) sqrt(beta) at epsilon <= sqrt(ln(1 / beta) /
    (2 n)).
    *Proof.* Fix f. One record moves g(S) = ln p(f | S) by at most epsilon, so by McDiarmid's
    inequality g exceeds E g + epsilon sqrt(n ln(1 / u) / 2) with probability at most u. Hence the
    integral of exp(g) over a set of probability beta is at most exp(E g) J(beta), and exp(E g) <=
    E exp(g) = p(f) by Jensen's inequality. Integrate over f: the p(f) integrate to one.
    With a = epsilon sqrt(n / 2), b = sqrt(ln(1 / beta)) and u = exp(-v^2), J is the integral of
    2 v exp(a v - v^2) over v > b, exp(a b - b^2) (1 + a sqrt(pi) / 2 erfcx(b - a / 2)). At a = b / 2,
    where erfcx(x) <= 1 / (x sqrt(pi)), that is at most sqrt(beta) (1 + 1 / 3).

    Examples
    --------
    >>> round(math.exp(log_transfer(math.log(0.001), 1000, 0.05)), 4)
    0.0235
    """
    a, b = epsilon * math.sqrt(n / 2), math.sqrt(-log_tail)
    if b < a:
        return math.inf  # J > 1 there, and erfcx could overflow
    return b * (a - b) + math.log1p(a * math.sqrt(math.pi) / 2 * float(erfcx(b - a / 2)))


def log_transfer_tail(chance: float, n: int | np.integer, epsilon: float) -> float:
    """Return the logarithm of the largest tail beta, for a fixed model, whose J(beta) is at most `chance`.

    It lies where b = sqrt(ln(1 / beta)) is in [a, a + sqrt(ln(2 / chance))], a = epsilon sqrt(n / 2):
    J > 1 at the lower end, and J <= 2 exp(-(b - a) b) above it, as erfcx(x) <= 1 / (x sqrt(pi)).

    Examples
    --------
    >>> round(math.exp(log_transfer_tail(0.05, 1000, 0.0)), 6)
    0.05
    >>> round(log_transfer(log_transfer_tail(0.05, 1000, 0.1), 1000, 0.1), 6) == round(math.log(0.05), 6)
    True
    """
    a = epsilon * math.sqrt(n / 2)
    highest = a + math.sqrt(math.log(2 / chance))

    def excess(b: float) -> float:
        return log_transfer(-b * b, n, epsilon) - math.log(chance)

    b = root_above(excess, a, highest, xtol=1e-14) if excess(highest) < 0 else highest
    b += 1e-13  # more than the error of the root
    return -b * b  # may be infinite; a power would raise


def transfer_bound(
    errors: int | np.integer, n: int | np.integer, *, epsilon: float, level: float, rows: int = 1
) -> Bound:
    """Bound the true error by the errors on the training data of a differentially private procedure.

    Parameters
    ----------
    errors
        Training records that the released model misjudges, out of `n`.
    n
        Training records, >= 1.
    epsilon
        Pure epsilon, for the replacement of one record, of everything that read these records to make
        the model, tuning included; >= 0. For the replacement of one subject where these have several.
    level
        Confidence, in (0, 1).
    rows
        Most records of one subject, >= 1: subjects are independent, and their records may all be alike.

    Returns
    -------
    Bound
        The Clopper-Pearson bound at the tail beta with J(beta) = 1 - level, see `log_transfer`; where
        subjects have several records, Chernoff's for n / rows of them.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Notes
    -----
    **Guarantees.** Never above `cdp_bound` or `max_information_bound` of the same numbers: their tails
    are smaller for any data, so that preferring this one costs no confidence. At epsilon = 0 it is the
    Clopper-Pearson bound. There are at most n subjects, and with n of them J is largest.

    Examples
    --------
    >>> round(transfer_bound(10, 100, epsilon=1.0, level=0.95).value, 4)
    0.5999
    """
    check_private(errors, n, epsilon, level)
    check_rows_of_one(rows)
    value = upper_limit_at(errors, n, log_transfer_tail(1 - level, n, epsilon), rows=rows)
    return Bound(
        "private transfer", value, level, only_privately(n, epsilon, rows=rows), applies=True
    )


def check_private(
    errors: int | np.integer, n: int | np.integer, epsilon: float, level: float
) -> None:
    """Raise ValueError unless the arguments of a private model's bound are in their ranges."""
    check_count(errors, n)
    check_level(level)
    check_epsilon(epsilon)


def only_privately(n: int | np.integer, epsilon: float, *, rows: int = 1) -> str:
    """Return the assumption of every bound on a private model's true error."""
    records = independent_records(n, rows).removesuffix(",")
    return f"{records}, read with epsilon-differential privacy only, epsilon={price_text(epsilon)}"
