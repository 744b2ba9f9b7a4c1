"""For comparison: PAC-Bayes bounds, in Kullback-Leibler form, for models drawn at random.

The prior is set before the data. `exponential_gibbs_bound` is for the exponential mechanism and needs no
divergence from the prior.

>>> round(gibbs_bound(0.1, 1000, divergence=5.0, level=0.95).value, 4)
0.152
"""

import math

import numpy as np
from scipy.special import gammaincc, gammaln

from learners.bounds.bound import Bound, check_count, check_level
from learners.bounds.clopper_pearson import largest_rate

__all__ = ["drawn_model_bound", "exponential_gibbs_bound", "gibbs_bound", "log_xi"]

STIRLING = 300.0  # n from which Stirling's series has all digits, unlike differences of logarithms


def log_xi(n: int | np.integer) -> float:
    """Return the logarithm of xi(n) = sum over k of C(n, k) (k / n)^k (1 - k / n)^(n - k).

    It is the mean of exp(n kl(k / n || p)) over a binomial k, for any p in (0, 1): p cancels. By an identity
    of Cauchy's it is n! / n^n times the sum of n^k / k! over k <= n, which is the upper tail of a gamma law.

    Examples
    --------
    >>> round(math.exp(log_xi(100)), 3)
    13.21
    """
    size = float(n)
    if size < STIRLING:
        log_ratio = float(gammaln(size + 1)) + size - size * math.log(size)
    else:
        log_ratio = math.log(2 * math.pi * size) / 2 + 1 / (12 * size) - 1 / (360 * size**3)
    return log_ratio + math.log(float(gammaincc(size + 1, size)))


def gibbs_bound(
    mean_error: float, n: int | np.integer, *, divergence: float, level: float
) -> Bound:
    """Bound the true error of a model drawn anew for every prediction.

    Parameters
    ----------
    mean_error
        Mean over the posterior of the error rate on the training records, in [0, 1].
    n
        Training records, >= 1.
    divergence
        KL(posterior || prior) in nats, >= 0; the prior does not depend on the records.
    level
        Confidence, in (0, 1).

    Returns
    -------
    Bound
        The largest rate with kl(mean_error || rate) <= (divergence + ln(xi(n) / (1 - level))) / n.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Notes
    -----
    **Guarantees.** Holds at once for every posterior with probability >= `level`, so the posterior may
    be chosen from the data; losses may lie anywhere in [0, 1].
    *Proof.* For a fixed model exp(n kl(observed || true)) has mean xi(n) if losses are 0 or 1, and no
    more otherwise: it is convex in each loss, which a coin of the same mean spreads out. So its mean
    over records and prior is at most xi(n), and by Markov's inequality its mean over the prior exceeds
    xi(n) / (1 - level) with probability at most 1 - level. Otherwise, for every posterior, n times the
    mean of kl is at most the divergence and the logarithm of that mean (Donsker and Varadhan), and kl
    of the means is at most the mean of kl.

    References
    ----------
    .. [1] Seeger, "PAC-Bayesian generalisation error bounds for Gaussian process classification",
       JMLR 3 (2002).
    .. [2] Maurer, "A note on the PAC Bayesian theorem", arXiv:cs/0411099 (2004).

    Examples
    --------
    >>> round(gibbs_bound(0.1, 1000, divergence=0.0, level=0.95).value, 4)
    0.1382
    """
    if not 0 <= mean_error <= 1:
        raise ValueError("mean_error must be in [0, 1]")
    check_count(0, n)
    check_level(level)
    if not divergence >= 0:
        raise ValueError("divergence must be >= 0")
    complexity = (divergence + log_xi(n) - math.log(1 - level)) / n
    return Bound(
        name="PAC-Bayes-kl",
        value=largest_rate(mean_error, complexity),
        level=level,
        assumption=f"{n} independent records; a model drawn anew for every prediction; a prior "
        "that does not depend on them",
        applies=True,
    )


def drawn_model_bound(
    errors: int | np.integer, n: int | np.integer, *, log_ratio: float, level: float
) -> Bound:
    """Bound the true error of one model that was drawn from the posterior.

    Parameters
    ----------
    errors
        Training records that the model misjudges, out of `n`.
    log_ratio
        Logarithm of posterior over prior density at this model, any sign.
    n, level
        As in `gibbs_bound`, errors included.

    Returns
    -------
    Bound
        The largest rate with kl(errors / n || rate) <= (log_ratio + ln(xi(n) / (1 - level))) / n.

    Notes
    -----
    **Guarantees.** Fails with probability at most 1 - level over records and draw together, for one
    posterior fixed as a function of the records.
    *Proof.* The mean of exp(n kl(observed || true) - log_ratio) over records and posterior is the mean
    of exp(n kl) over records and prior, at most xi(n); then Markov's inequality.

    References
    ----------
    .. [1] Rivasplata, Kuzborskij, Szepesvári, Shawe-Taylor, "PAC-Bayes analysis beyond the usual
       bounds", NeurIPS (2020).

    Examples
    --------
    >>> round(drawn_model_bound(100, 1000, log_ratio=5.0, level=0.95).value, 4)
    0.152
    """
    check_count(errors, n)
    check_level(level)
    if not math.isfinite(log_ratio):
        raise ValueError("log_ratio must be finite")
    complexity = max(0.0, log_ratio + log_xi(n) - math.log(1 - level)) / n
    return Bound(
        name="PAC-Bayes-kl of one draw",
        value=largest_rate(float(errors) / float(n), complexity),
        level=level,
        assumption=f"{n} independent records; one model drawn from the posterior; a prior that "
        "does not depend on them",
        applies=True,
    )


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
    gamma
        >= 0, set without the records; the draw is (2 gamma / n)-differentially private.
    n, level
        As in `gibbs_bound`, errors included.

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
    root = math.sqrt(log_xi(n) - math.log(1 - level)) + gamma / math.sqrt(2 * float(n))
    return Bound(
        name="exponential Gibbs",
        value=largest_rate(mean_error, root * root / n),
        level=level,
        assumption=f"{n} independent records; models drawn by the exponential mechanism, "
        f"gamma={gamma:g} set without them",
        applies=True,
    )
