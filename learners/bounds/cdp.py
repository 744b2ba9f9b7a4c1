"""The bound of confident differentially private classifiers, on errors in the training data."""

import math

import numpy as np

from learners.bounds.bound import Bound, check_count, check_epsilon, check_level
from learners.bounds.clopper_pearson import upper_limit

__all__ = ["cdp_bound"]


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
