"""Output perturbation: logistic regression trained without noise, released with noise on its weights.

A mechanism for the ledger, epsilon-differentially private (pure) for the replacement of one row. It
assumes nothing of the loss's second derivative and so pays no Jacobian; its noise grows with
1 / regularization, while that of `ObjectivePerturbation` does so through the minimum alone.

>>> round(minimum_sensitivity(0.01, 1000), 6)
0.2
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from learners.private.linear_model import Signed
from learners.private.logistic_minimum import TOLERANCE, Lifted, certified_minimum
from learners.private.objective_perturbation import LEAST_SCALE, PureTraining
from privacy.mechanism import Noise

__all__ = ["OutputPerturbation", "minimum_sensitivity", "noisy_output"]


def noisy_output(
    row: Lifted,
    sign: Signed,
    *,
    epsilon: float,
    regularization: float,
    noise: Noise,
) -> Float[np.ndarray, "problems columns"]:
    """Return all problems' weights, for `epsilon` in total: the algorithm of `OutputPerturbation`."""
    n, columns = row.shape
    scale = max(len(sign) * minimum_sensitivity(regularization, n) / epsilon, LEAST_SCALE)
    weight = np.empty((len(sign), columns))
    for problem, problem_sign in enumerate(sign):
        minimum = certified_minimum(row, problem_sign, np.zeros(columns), regularization, TOLERANCE)
        weight[problem] = minimum + noise.gamma(columns, scale) * noise.direction(columns)
    return weight


def minimum_sensitivity(regularization: float, n: int) -> float:
    """Return the most that one replaced row of `n` moves a certified minimum: (2 / n + 2 tau) / lam."""
    return 2 * (1 / n + TOLERANCE) / regularization


@dataclass(frozen=True, slots=True)
class OutputPerturbation(PureTraining):
    """Pure differentially private logistic regression: noise is added to each problem's minimum.

    For each of k problems (one per class against the others; a single one for two classes), with
    s = +-1 and z = (x / norm_bound, 1) / sqrt(2) the clipped and lifted row, releases

        argmin regularization / 2 ||w||^2 + mean log(1 + exp(-s w.z))  +  k Delta / epsilon R

    where Delta is `minimum_sensitivity` and R has density ~ exp(-||R||).

    Parameters
    ----------
    epsilon
        Total for the released model, >= 1e-100.
    regularization, norm_bound, n_classes
        As in `ObjectivePerturbation`, errors included.

    Notes
    -----
    Query and release are those of `ObjectivePerturbation`.

    **Guarantees.** No replacement of a row moves a problem's weights by more than Delta; the event
    depends on knobs and the number of rows alone; a query without trainable rows raises
    before it is paid.
    **Privacy.** Unit: the query's, whose replacement must change one row at most. The objectives of
    neighbours are strongly convex with modulus lam = regularization, and their gradients differ
    by (l'(z) z - l'(z') z') / n at any w, of norm 2 / n at most as ||z|| <= 1 and |l'| <= 1. So
    their minima are within 2 / (n lam) [1]_. The solver stops at a certified gradient norm tau, within
    tau / lam of the minimum. So its weights move by Delta = (2 / n + 2 tau) / lam at most, and
    noise of density ~ exp(-||N|| epsilon / (k Delta)) costs epsilon / k. Both hold for every row,
    so that k problems on the same rows compose to epsilon. The proof is of real arithmetic:
    floating point is not covered.

    References
    ----------
    .. [1] Chaudhuri, Monteleoni, Sarwate, "Differentially private empirical risk minimization",
       JMLR 12 (2011), Algorithm 1, Lemma 7.

    Examples
    --------
    >>> from learners.private.objective_perturbation import training_query
    >>> mechanism = OutputPerturbation(
    ...     epsilon=1.0, regularization=0.01, norm_bound=1.0, n_classes=2
    ... )
    >>> x, y = np.array([[-1.0], [1.0]]), np.array([0, 1])
    >>> mechanism.event(training_query(x, y, dataset="toy")).epsilon
    1.0
    """

    NAME = "output perturbation"
    train = staticmethod(noisy_output)
