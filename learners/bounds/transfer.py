"""What differential privacy leaves of a bound that holds for models fixed beforehand.

Upper bounds on a classifier's true error, side by side, each with what it assumes.

Records are independent draws of one population: those of one worker or group are not, and must be
counted by group. A count of errors is as private as the data; so is a bound made of it.

The bound of confident differentially private classifiers, on errors in the training data.

The bound from max-information: how much a private model can know of its training data.
"""

import math

import numpy as np
from scipy.optimize import brentq, minimize_scalar
from scipy.special import erfcx

from learners.bounds.bound import Bound, check_count, check_epsilon, check_level, least
from learners.bounds.clopper_pearson import clopper_pearson_bound, upper_limit, upper_limit_at

__all__ = [
    "Bound",
    "cdp_bound",
    "clopper_pearson_bound",
    "least",
    "log_transfer",
    "log_transfer_tail",
    "max_information",
    "max_information_bound",
    "private_training_bounds",
    "transfer_bound",
]


def log_transfer(log_tail: float, n: int | np.integer, epsilon: float) -> float:
    """Logarithm of the chance that a private model is bad, if a fixed one is with exp(log_tail).

    J(beta) = integral over u in (0, beta) of exp(epsilon sqrt(n ln(1 / u) / 2)).

    Parameters
    ----------
    log_tail
        Logarithm of beta, <= 0.
    n
        Independent records, >= 1.
    epsilon
        Pure differential privacy for the replacement of one record, >= 0.

    Returns
    -------
    float
        Of J; above 0 where it says nothing.

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
    >>> tail = 0.001
    >>> round(math.exp(log_transfer(math.log(tail), 1000, 0.0)), 6)
    0.001
    >>> round(math.exp(log_transfer(math.log(tail), 1000, 0.05)), 4)
    0.0235
    """
    a, b = epsilon * math.sqrt(n / 2), math.sqrt(-log_tail)
    if b < a:
        return math.inf  # J > 1 there, and erfcx could overflow
    return b * (a - b) + math.log1p(a * math.sqrt(math.pi) / 2 * float(erfcx(b - a / 2)))


def log_transfer_tail(chance: float, n: int | np.integer, epsilon: float) -> float:
    """Logarithm of the largest tail beta of a fixed model whose J(beta) is at most `chance`.

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

    b = float(brentq(excess, a, highest, xtol=1e-14)) if excess(highest) < 0 else highest
    return -((b + 1e-13) ** 2)  # rounded to the safe side


def transfer_bound(
    errors: int | np.integer, n: int | np.integer, *, epsilon: float, level: float
) -> Bound:
    """Bound the true error by errors on the training data of a differentially private procedure.

    Parameters
    ----------
    errors
        Training records misjudged by the released model, out of `n`.
    n
        Training records, >= 1.
    epsilon
        Of everything that read these records to make the model, tuning included; pure, for the
        replacement of one record. >= 0, any.
    level
        Confidence, in (0, 1).

    Returns
    -------
    Bound
        The Clopper-Pearson bound at the tail beta with J(beta) = 1 - level, see `log_transfer`.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Notes
    -----
    **Guarantees.** Never above `cdp_bound` or `max_information_bound` of the same numbers: their
    tails are smaller, whatever the data, so that preferring this one costs no confidence. At epsilon
    = 0 it is the Clopper-Pearson bound.

    Examples
    --------
    >>> round(transfer_bound(10, 100, epsilon=0.1, level=0.95).value, 4)
    0.1926
    >>> round(transfer_bound(10, 100, epsilon=1.0, level=0.95).value, 4)
    0.5999
    """
    check_count(errors, n)
    check_level(level)
    check_epsilon(epsilon)
    return Bound(
        name="private transfer",
        value=upper_limit_at(errors, n, log_transfer_tail(1 - level, n, epsilon)),
        level=level,
        assumption=f"{n} independent records, read with epsilon-differential privacy only, "
        f"epsilon={epsilon:g}",
        applies=True,
    )


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
    event is that their Clopper-Pearson bound fails [2]_. `log_transfer` proves 4 / 3 in place of 3, and
    `transfer_bound` spends the difference; this is the published form.

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
    check_count(errors, n)
    check_level(level)
    check_epsilon(epsilon)
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


def max_information(n: int | np.integer, epsilon: float, failure: float) -> float:
    """Nats by which a private release can raise the chance of an event, but for `failure`.

    k = epsilon^2 n / 2 + epsilon sqrt(n ln(2 / failure) / 2)

    Parameters
    ----------
    n
        Independent records, >= 1.
    epsilon
        Pure differential privacy for the replacement of one record, >= 0.
    failure
        In (0, 1).

    Returns
    -------
    float
        k, >= 0.

    Raises
    ------
    ValueError
        If `failure` is out of range.

    Notes
    -----
    **Guarantees.** For every set O of pairs of data S and release f: P((S, f) in O) <= exp(k)
    P((S', f) in O) + failure, where S' is a fresh sample of the same law.
    *Proof.* In the notation of `log_transfer`, for a fixed f the density of the pair relative to that of
    (S', f) is exp(g - ln p(f)) <= exp(g - E g). Where it exceeds exp(k), and k = a v with v =
    a + t, a = epsilon sqrt(n / 2), t = sqrt(ln(2 / failure)), g exceeds E g by epsilon sqrt(n / 2) v,
    a set of S' of probability at most exp(-v^2); the pair lies there with probability at most
    J(exp(-v^2)) <= 2 exp(-t (a + t)) <= failure. Elsewhere the density is at most exp(k).

    References
    ----------
    .. [1] Dwork, Feldman, Hardt, Pitassi, Reingold, Roth, "Generalization in adaptive data analysis
       and holdout reuse", NIPS (2015), the bound for pure differential privacy and product laws.

    Examples
    --------
    >>> round(max_information(1000, 0.05, 0.01), 3)
    3.823
    """
    if not 0 < failure < 1:
        raise ValueError(f"failure must be in (0, 1), got failure={failure}")
    return epsilon**2 * n / 2 + epsilon * math.sqrt(n * math.log(2 / failure) / 2)


def max_information_bound(
    errors: int | np.integer, n: int | np.integer, *, epsilon: float, level: float
) -> Bound:
    """Bound the true error by errors on the training data, through `max_information`.

    Parameters
    ----------
    errors
        Training records misjudged by the released model, out of `n`.
    n
        Training records, >= 1.
    epsilon
        Of everything that read these records to make the model; pure, for the replacement of one
        record. >= 0, any.
    level
        Confidence, in (0, 1).

    Returns
    -------
    Bound
        The Clopper-Pearson bound at tail (1 - level - failure) exp(-k), `failure` chosen, from public
        numbers, where that is largest.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Notes
    -----
    **Guarantees.** Applies at every epsilon, also where `cdp_bound` does not.

    Examples
    --------
    >>> round(max_information_bound(10, 100, epsilon=0.1, level=0.95).value, 4)
    0.2024
    """
    check_count(errors, n)
    check_level(level)
    check_epsilon(epsilon)
    return Bound(
        name="max-information",
        value=upper_limit_at(errors, n, _log_tail(1 - level, n, epsilon)),
        level=level,
        assumption=f"{n} independent records, read with epsilon-differential privacy only, "
        f"epsilon={epsilon:g}",
        applies=True,
    )


def _log_tail(delta: float, n: int | np.integer, epsilon: float) -> float:
    """Logarithm of the largest (delta - failure) exp(-k) over the failure, as a share of delta."""

    def cost(log_share: float) -> float:
        share = math.exp(log_share)
        return max_information(n, epsilon, delta * share) - math.log1p(-share)

    found = minimize_scalar(cost, bounds=(-40.0, -1e-3), method="bounded")
    return math.log(delta) - float(found.fun)


def private_training_bounds(
    errors: int | np.integer, n: int | np.integer, *, epsilon: float, level: float
) -> tuple[Bound, ...]:
    """Every bound on a private model's true error by its errors on its own training data.

    Parameters
    ----------
    errors
        Training records misjudged by the released model, out of `n`.
    n
        Training records, >= 1.
    epsilon
        Of everything that read these records to make the model; pure, >= 0.
    level
        Confidence of each bound, in (0, 1).

    Returns
    -------
    tuple[Bound, ...]
        The least first, whatever the count: each is the Clopper-Pearson bound at a tail of its own,
        which public numbers set, so that taking the first costs no confidence.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Notes
    -----
    **Guarantees.** The first is never above the others, for any count of errors.

    Examples
    --------
    >>> for bound in private_training_bounds(10, 100, epsilon=0.1, level=0.95):
    ...     print(bound.name, round(bound.value, 3))
    private transfer 0.193
    max-information 0.202
    CDP 0.241
    """
    return tuple(
        bound(errors, n, epsilon=epsilon, level=level)
        for bound in (transfer_bound, max_information_bound, cdp_bound)
    )
