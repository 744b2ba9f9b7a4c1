"""The bound from max-information: how much a private model can know of its training data."""

import math

import numpy as np
from scipy.optimize import minimize_scalar

from learners.bounds.bound import Bound, check_count, check_epsilon, check_level
from learners.bounds.clopper_pearson import upper_limit_at

__all__ = ["max_information", "max_information_bound"]


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
