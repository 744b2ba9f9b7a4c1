"""For comparison with `transfer_bound`: published bounds on a private model's training error.

>>> for bound in private_training_bounds(10, 100, epsilon=0.1, level=0.95):
...     print(bound.name, round(bound.value, 3))
private transfer 0.193
max-information 0.202
CDP 0.241
"""

import math

import numpy as np

from learners.bounds.bound import Bound
from learners.bounds.clopper_pearson import upper_limit, upper_limit_at
from learners.bounds.transfer import check_private, only_privately, transfer_bound
from privacy.accounting import price_text

__all__ = ["cdp_bound", "max_information", "max_information_bound", "private_training_bounds"]


def cdp_bound(
    errors: int | np.integer, n: int | np.integer, *, epsilon: float, level: float
) -> Bound:
    """Bound the true error by the errors on the training data of a differentially private procedure.

    L(f) <= Q[1 - delta^2 / 9; errors + 1, n - errors] with delta = 1 - level, if
    epsilon <= sqrt(ln(3 / delta) / n).

    Parameters
    ----------
    errors, n, epsilon, level
        As in `transfer_bound`, errors included.

    Returns
    -------
    Bound
        Its `applies` is False, and its value 1, if epsilon is too large.

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
    check_private(errors, n, epsilon, level)
    largest = math.sqrt(math.log(3 / (1 - level)) / n)
    if not epsilon <= largest:
        why = (
            f"does not apply: epsilon={price_text(epsilon)} must be <= {largest:.3g} for {n} records at "
            "this level"
        )
        return Bound("CDP", value=1.0, level=level, assumption=why, applies=False)
    value = upper_limit(errors, n, (1 - level) ** 2 / 9)
    return Bound("CDP", value, level, only_privately(n, epsilon), applies=True)


def max_information(n: int | np.integer, epsilon: float, failure: float) -> float:
    """Return the nats by which a private release can raise an event's chance, up to an additive `failure`.

        k = epsilon^2 n / 2 + epsilon sqrt(n ln(2 / failure) / 2)

    for n independent records and pure epsilon for the replacement of one; `failure` must be in (0, 1).

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
    return epsilon * epsilon * n / 2 + epsilon * math.sqrt(n * math.log(2 / failure) / 2)


def max_information_bound(
    errors: int | np.integer, n: int | np.integer, *, epsilon: float, level: float
) -> Bound:
    """Bound the true error by errors on the training data, through `max_information`.

    Parameters
    ----------
    errors, n, epsilon, level
        As in `transfer_bound`, errors included.

    Returns
    -------
    Bound
        The Clopper-Pearson bound at tail (1 - level - failure) exp(-k), for the `failure` at which that
        tail is largest; public numbers determine it.

    Notes
    -----
    **Guarantees.** Applies at every epsilon, even where `cdp_bound` does not.

    Examples
    --------
    >>> round(max_information_bound(10, 100, epsilon=0.1, level=0.95).value, 4)
    0.2024
    """
    check_private(errors, n, epsilon, level)
    value = upper_limit_at(errors, n, _log_tail(1 - level, n, epsilon))
    return Bound("max-information", value, level, only_privately(n, epsilon), applies=True)


def _log_tail(delta: float, n: int | np.integer, epsilon: float) -> float:
    """Return the logarithm of the largest (delta - failure) exp(-k) over the failure, as a share of delta."""

    def cost(log_share: float) -> float:
        share = math.exp(log_share)
        return max_information(n, epsilon, delta * share) - math.log1p(-share)

    from scipy.optimize import minimize_scalar  # heavy, and for comparisons only

    found = minimize_scalar(cost, bounds=(-40.0, -1e-3), method="bounded")
    return math.log(delta) - float(found.fun)


def private_training_bounds(
    errors: int | np.integer, n: int | np.integer, *, epsilon: float, level: float
) -> tuple[Bound, ...]:
    """Return every bound on a private model's true error by its errors on its own training data.

    Parameters
    ----------
    errors, n, epsilon, level
        As in `transfer_bound`, errors included; the level is that of each bound.

    Returns
    -------
    tuple[Bound, ...]
        The smallest first, for any count: each is the Clopper-Pearson bound at a tail that public
        numbers set, so that taking the first costs no confidence.

    Notes
    -----
    **Guarantees.** The first is never above the others, for any count of errors.

    Examples
    --------
    >>> private_training_bounds(10, 100, epsilon=1.0, level=0.95)[-1].applies
    False
    """
    return tuple(
        bound(errors, n, epsilon=epsilon, level=level)
        for bound in (transfer_bound, max_information_bound, cdp_bound)
    )
