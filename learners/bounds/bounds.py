"""Upper bounds on a classifier's true error, side by side, each with what it assumes.

Records are independent draws of one population: those of one worker or group are not, and must be
counted by group. A count of errors is as private as the data; so is a bound made of it.
"""

import numpy as np

from learners.bounds.bound import Bound, least
from learners.bounds.cdp import cdp_bound
from learners.bounds.clopper_pearson import clopper_pearson_bound
from learners.bounds.max_information import max_information_bound
from learners.bounds.transfer import transfer_bound

__all__ = ["Bound", "cdp_bound", "clopper_pearson_bound", "least", "private_training_bounds"]


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
