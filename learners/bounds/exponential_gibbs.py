"""The bound for models drawn by the exponential mechanism, free of the prior's divergence."""

import math

import numpy as np

from learners.bounds.binary_divergence import largest_rate
from learners.bounds.bound import Bound, check_count, check_level
from learners.bounds.pac_bayes import log_xi

__all__ = ["exponential_gibbs_bound"]


def exponential_gibbs_bound(
    mean_error: float, n: int | np.integer, *, gamma: float, level: float
) -> Bound:
    """Bound the true error of a model drawn with probability ~ prior exp(-gamma observed error).

    With l = ln(xi(n) / (1 - level)), the largest rate with

        kl(mean_error || rate) <= (sqrt(l) + gamma / sqrt(2 n))^2 / n.

    Parameters
    ----------
    mean_error
        Mean of the observed error rate over that law, in [0, 1].
    n
        Training records, >= 1.
    gamma
        >= 0, set without the records; the draw is (2 gamma / n)-differentially private.
    level
        Confidence, in (0, 1).

    Returns
    -------
    Bound
        On the mean true error over that law.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Notes
    -----
    **Guarantees.** Holds with probability >= `level` for any prior, which need not be known.
    *Proof.* Let Q be the law of the draw and P ~ prior exp(-gamma true error), which does not depend on
    the records; L the true error less the observed one. KL(Q || P) + KL(P || Q) = gamma (E_Q L - E_P
    L). The event of `gibbs_bound` with prior P holds for Q and for P itself at once: by Pinsker's
    inequality |E_Q L| <= sqrt((KL + l) / (2 n)) and |E_P L| <= sqrt(l / (2 n)), KL = KL(Q || P). With
    u = sqrt(KL + l), u^2 - l <= gamma (u + sqrt(l)) / sqrt(2 n), so u <= sqrt(l) + gamma / sqrt(2 n).
    In [2]_ the root of n under gamma is lost, and l has a factor 2 in its logarithm.

    References
    ----------
    .. [1] Lever, Laviolette, Shawe-Taylor, "Tighter PAC-Bayes bounds through distribution-dependent
       priors", TCS 473 (2013).
    .. [2] Oneto, Ridella, Anguita, "Generalization performances of randomized classifiers and
       algorithms built on data dependent distributions", ESANN (2017), Theorem 4 and Corollary 5.

    Examples
    --------
    >>> round(exponential_gibbs_bound(0.3126, 100, gamma=10.12, level=0.95).value, 3)
    0.528
    """
    if not 0 <= mean_error <= 1:
        raise ValueError("mean_error must be in [0, 1]")
    check_count(0, n)
    check_level(level)
    if not 0 <= gamma < math.inf:
        raise ValueError(f"gamma must be >= 0 and finite, got gamma={gamma}")
    root = math.sqrt(log_xi(n) - math.log(1 - level)) + gamma / math.sqrt(2 * n)
    return Bound(
        name="exponential Gibbs",
        value=largest_rate(mean_error, root**2 / n),
        level=level,
        assumption=f"{n} independent records; models drawn by the exponential mechanism, "
        f"gamma={gamma:g} set without them",
        applies=True,
    )
