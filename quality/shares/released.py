"""Class shares from noisy counts: corrected by gold when both counts and correction have privacy noise.

What is known is each class's noisy count of consensus labels, the noisy difference of truth and
consensus over the gold tasks, and the noisy number of gold tasks that the consensus gets wrong.

>>> found = noisy_shares(
...     np.array([611.0, 389.0]), np.array([19.0, -19.0]), 31.0, n_tasks=1_000, n_gold=200,
...     count_covariance=np.zeros((2, 2)), difference_covariance=np.zeros((2, 2)),
... )
>>> found.share.round(3), found.low.round(3), found.high.round(3)
(array([0.691, 0.309]), array([0.657, 0.245]), array([0.755, 0.343]))
"""

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from jaxtyping import Float, Float64

from quality.labels import freeze_arrays

__all__ = ["NoisyShares", "noisy_shares"]

SPREADS = 0.4 * 0.5 ** np.arange(10)  # of shares about equal ones
BIASES = 2.5 * 0.5 ** np.arange(7)  # of the bias, in units of the rate of errors by class
LEAST_SHARE = 0.02  # of a class among wrong labels, and among the truth behind them
LEAST_WRONG = 0.5


@dataclass(frozen=True, slots=True, eq=False)
class NoisyShares:
    """Result of :func:`noisy_shares`.

    Parameters
    ----------
    share
        Of each class; they add up to 1.
    low, high
        Ends of each share's interval, which contains the share and counts noise, the crowd's
        mistakes and the sample.
    covariance
        Of the shares, as estimates.
    accuracy
        Share of gold tasks on which the consensus is right, as far as noise tells.
    level
        Of the intervals.
    centre, error
        The estimate without bias that the intervals are about, and the covariance of its error.
    """

    share: Float64[np.ndarray, " classes"]
    low: Float64[np.ndarray, " classes"]
    high: Float64[np.ndarray, " classes"]
    covariance: Float64[np.ndarray, "classes classes"]
    accuracy: float
    level: float
    centre: Float64[np.ndarray, " classes"]
    error: Float64[np.ndarray, "classes classes"]

    def __post_init__(self) -> None:
        freeze_arrays(self)


def noisy_shares(
    counts: Float[np.ndarray, " classes"],
    difference: Float[np.ndarray, " classes"],
    n_wrong: float,
    *,
    n_tasks: int,
    n_gold: int,
    count_covariance: Float[np.ndarray, "classes classes"],
    difference_covariance: Float[np.ndarray, "classes classes"],
    level: float = 0.95,
) -> NoisyShares:
    """Estimate true class shares from counts and a correction that both have noise.

    Parameters
    ----------
    counts
        Noisy counts of consensus labels over all tasks; they may be negative.
    difference
        Noisy number of gold tasks of each true class minus that of each consensus class.
    n_wrong
        Noisy number of gold tasks whose consensus is not the truth.
    n_tasks, n_gold
        Tasks that are counted, and gold tasks, a random sample of them; 1 <= n_gold <= n_tasks.
    count_covariance, difference_covariance
        Of the noise; 0 where there is none.
    level
        Of the intervals, in (0, 1).

    Raises
    ------
    ValueError
        If a number is out of its range.

    Notes
    -----
    **Guarantees.** Shares lie on the simplex and within their intervals. Nothing but the arguments is
    used, so that on released values this is post-processing. The order of classes plays no part.

    The interval is about count / n_tasks + difference / n_gold, which is without bias. Its variance is
    that of the noise, and of a sample in which wrong labels spread over classes as the shares do.
    The share itself is a posterior mean. The bias of the crowd is normal about 0, and either the true
    shares or those of the consensus are normal about equal ones; how far either spreads is settled by
    how well the released numbers are foretold. So it is the count where noise hides the bias, and the
    corrected count where it does not.

    **Limits.** The interval is normal: with some ten gold tasks, or where all errors are between two of
    many classes, it covers less than it says.

    References
    ----------
    .. [1] Efron, Morris, "Stein's estimation rule and its competitors: an empirical Bayes approach",
       Journal of the American Statistical Association 68 (1973).
    """
    k = _check(counts, difference, n_tasks, n_gold, level)
    said, bias = counts / n_tasks, difference / n_gold
    wrong = (np.clip(n_wrong, LEAST_WRONG, n_gold * (1 - 1 / k)) + LEAST_WRONG) / (n_gold + 1)
    of_counts = count_covariance / n_tasks**2
    of_bias = difference_covariance / n_gold**2
    of_bias = of_bias + (1 - n_gold / n_tasks) / n_gold * _errors(wrong, said, said + bias)
    share, covariance = _posterior(said, bias, of_counts, of_bias, wrong)
    share = _on_simplex(share)
    reach = NormalDist().inv_cdf((1 + level) / 2) * np.sqrt(np.diag(of_counts + of_bias))
    low, high = (np.clip(said + bias + side * reach, 0, 1) for side in (-1, 1))
    return NoisyShares(
        share,
        np.minimum(low, share),
        np.maximum(high, share),
        covariance,
        1.0 - float(wrong),
        level,
        said + bias,
        of_counts + of_bias,
    )


def _check(
    counts: np.ndarray, difference: np.ndarray, n_tasks: int, n_gold: int, level: float
) -> int:
    """Return the number of classes, or raise ValueError."""
    if not (counts.ndim == 1 and counts.size >= 2 and counts.shape == difference.shape):
        raise ValueError(
            f"counts and difference must be of 2 classes or more, got {counts.shape} and "
            f"{difference.shape}"
        )
    if not (np.isfinite(counts).all() and np.isfinite(difference).all()):
        raise ValueError("counts and difference must be finite numbers")
    if not 1 <= n_gold <= n_tasks:
        raise ValueError(f"n_gold must be from 1 to n_tasks={n_tasks}, got n_gold={n_gold}")
    if not 0 < level < 1:
        raise ValueError(f"level must be in (0, 1), got level={level}")
    return int(counts.size)


def _errors(
    wrong: float, said: Float[np.ndarray, " classes"], true: Float[np.ndarray, " classes"]
) -> Float64[np.ndarray, "classes classes"]:
    """Covariance of one task's difference, wrong labels being spread as consensus and truth are."""
    pairs = np.outer(_on_simplex(said) + LEAST_SHARE, _on_simplex(true) + LEAST_SHARE)
    np.fill_diagonal(pairs, 0.0)
    pairs *= wrong / pairs.sum()
    return np.asarray(np.diag(pairs.sum(axis=0) + pairs.sum(axis=1)) - pairs - pairs.T)


def _posterior(
    said: Float[np.ndarray, " classes"],
    bias: Float[np.ndarray, " classes"],
    of_counts: Float[np.ndarray, "classes classes"],
    of_bias: Float[np.ndarray, "classes classes"],
    wrong: float,
) -> tuple[Float64[np.ndarray, " classes"], Float64[np.ndarray, "classes classes"]]:
    """Mean and covariance of the true shares, over both models and all spreads by their evidence."""
    k = said.size
    basis = np.linalg.svd(np.eye(k) - 1 / k)[0][:, : k - 1]  # of the vectors that add up to 0
    seen = np.concatenate([basis.T @ (said - 1 / k), basis.T @ bias])
    noise = np.zeros((2 * k - 2, 2 * k - 2))
    noise[: k - 1, : k - 1] = basis.T @ of_counts @ basis
    noise[k - 1 :, k - 1 :] = basis.T @ of_bias @ basis
    models = [
        model
        for spread in np.square(SPREADS)
        for free in np.square(BIASES * wrong / k)
        for model in (
            ([[spread, 0.0], [0.0, free]], [spread, free], spread + free),  # consensus, bias
            ([[spread + free, -free], [-free, free]], [spread, 0.0], spread),  # truth, bias
        )
    ]
    prior, target, own = (np.array(part) for part in zip(*models, strict=True))
    total = np.kron(prior, np.eye(k - 1)) + noise
    toward = np.kron(target[:, None, :], np.eye(k - 1))
    gain = np.linalg.solve(total, toward.mT).mT
    means = np.array([one @ seen for one in gain])
    explained = np.array([one @ part.T for one, part in zip(gain, toward, strict=True)])
    spreads = own[:, None, None] * np.eye(k - 1) - explained
    weighed = np.linalg.solve(total, np.broadcast_to(seen[:, None], (len(total), seen.size, 1)))
    fit = np.array([seen @ one for one in weighed[:, :, 0]])
    log_weight = -0.5 * fit - 0.5 * np.linalg.slogdet(total)[1]
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    mean = weight @ means
    apart = means - mean
    within = np.einsum("p,pij->ij", weight, spreads)
    within = within + np.einsum("p,pi,pj->ij", weight, apart, apart)
    return 1 / k + basis @ mean, basis @ within @ basis.T


def _on_simplex(value: Float[np.ndarray, " classes"]) -> Float64[np.ndarray, " classes"]:
    """Return the nearest point with entries >= 0 that add up to 1."""
    descending = np.sort(value)[::-1]
    shift = (np.cumsum(descending) - 1) / np.arange(1, value.size + 1)
    support = int(np.flatnonzero(descending > shift)[-1])
    return np.asarray(np.maximum(value - shift[support], 0.0))
