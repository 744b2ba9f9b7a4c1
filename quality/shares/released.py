"""Class shares from noisy counts: corrected by gold when both counts and correction have privacy noise.

The released numbers are each class's noisy count of consensus labels, the noisy difference of truth and
consensus over the gold tasks, and the noisy number of gold tasks that the consensus gets wrong.

>>> found = noisy_shares(
...     np.array([611.0, 389.0]), np.array([19.0, -19.0]), 31.0, n_tasks=1_000, n_gold=200,
...     count_covariance=np.zeros((2, 2)), difference_covariance=np.zeros((2, 2)),
... )
>>> found.share.round(3), found.low.round(3), found.high.round(3)
(array([0.681, 0.319]), array([0.658, 0.246]), array([0.754, 0.342]))
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Float64

from quality.argument_types import check_arguments
from quality.labels import freeze_arrays
from quality.shares.assisted import assisted_interval, belief_in_counts, clear_bias
from quality.shares.heavy_tails import mixed_law, variance_mixture
from quality.shares.intervals import check_level
from quality.shares.unmixed import on_simplex

__all__ = ["NoisyShares", "noisy_shares", "released_interval"]

SPREADS = 0.4 * 0.5 ** np.arange(10)  # of shares about equal ones
# spreads of the bias, in units of the rate of errors by class
BIASES = np.array([1.25, 0.625, 0.3125, 0.0])
ODDS = np.array([1.0, 1.0, 1.0, 15.0])  # of these: five to one that there is no bias
USUAL = 1  # place among these of the bias that an interval compares with none
LEAST_VARIANCE = 1e-12  # of a bias, added so that it is never 0
NODES = 3  # of quadrature for the noise on the difference, in the point
LEAST_SHARE = 0.02  # of a class among wrong labels, and among the truth behind them
LEAST_WRONG = 0.5  # gold tasks: errors stay possible where none was seen


@dataclass(frozen=True, slots=True, eq=False)
class NoisyShares:
    """Result of :func:`noisy_shares`.

    Parameters
    ----------
    share
        Share of each class; they add up to 1.
    low, high
        Ends of each share's interval, which contains the share and allows for noise, the crowd's
        mistakes and the sample.
    covariance
        Covariance of the errors of the shares.
    accuracy
        Share of gold tasks on which the consensus is right, estimated from the noisy count.
    level
        Of the intervals.
    centre, error
        The unbiased estimate around which the intervals lie, and the covariance of its error.
    kurtosis
        Excess kurtosis of that error, for one class.
    """

    share: Float64[np.ndarray, " classes"]
    low: Float64[np.ndarray, " classes"]
    high: Float64[np.ndarray, " classes"]
    covariance: Float64[np.ndarray, "classes classes"]
    accuracy: float
    level: float
    centre: Float64[np.ndarray, " classes"]
    error: Float64[np.ndarray, "classes classes"]
    kurtosis: float

    def __post_init__(self) -> None:
        freeze_arrays(self)


@check_arguments
def noisy_shares(
    counts: Float[np.ndarray, " classes"],
    difference: Float[np.ndarray, " classes"],
    n_wrong: float,
    *,
    n_tasks: int,
    n_gold: int,
    count_covariance: Float[np.ndarray, "classes classes"],
    difference_covariance: Float[np.ndarray, "classes classes"],
    count_kurtosis: float = 0.0,
    difference_kurtosis: float = 0.0,
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
        Of the noise, which treats all classes alike; 0 without noise.
    count_kurtosis, difference_kurtosis
        Excess kurtosis of the noise on one class: 0 for a normal law, 3 for Laplace's.
    level
        Of the intervals, in (0, 1).

    Raises
    ------
    ValueError
        If a number is out of its range, or shapes do not fit.

    Notes
    -----
    **Guarantees.** Shares lie on the simplex and within their intervals. Nothing but the arguments is
    used, so that on released values this is post-processing. The order of classes plays no part.

    The interval comes from count / n_tasks + difference / n_gold, which is unbiased. Its error is that of
    both noises, with their tails, and of a sample with as many wrong labels as gold shows: those that make
    the bias, and others, which spread over classes as the shares do. The interval covers whatever the bias
    is, and is shorter if there is none. It reaches less far on the side away from the count, and contains
    the count until a bias is likelier than none (:func:`quality.shares.assisted.assisted_interval`).

    The share is a posterior mean. The bias of the crowd is 0, with odds of five to one, or normal about 0,
    and either the true shares or those of the consensus are normal about equal ones; spreads are averaged by
    how well they predict the released numbers. So the share is the count if noise hides the bias, and the
    corrected count if it does not.

    **Limits.** An interval that does not contain its share is widened to it, and then covers more than
    `level`. The number of errors of each class is not released. With three classes or more, and more error
    by sampling than by noise, the interval of a class with more errors than its share covers less than
    `level`, and that of a class with fewer covers more; with two classes the number of wrong labels is
    enough. With some ten gold tasks the sample is not normal.

    References
    ----------
    .. [1] Efron, Morris, "Stein's estimation rule and its competitors: an empirical Bayes approach",
       Journal of the American Statistical Association 68 (1973).
    """
    k = _check(counts, difference, n_tasks, n_gold, level)
    of_noises = {
        "count_covariance": count_covariance,
        "difference_covariance": difference_covariance,
    }
    for name, covariance in of_noises.items():
        if not (covariance.shape == (k, k) and np.isfinite(covariance).all()):
            raise ValueError(
                f"{name} must be {k} x {k} finite numbers, got shape {covariance.shape}"
            )
        if not (np.diag(covariance) >= 0).all():
            raise ValueError(f"{name} must have variances >= 0, got {np.diag(covariance).min()}")
    if not np.isfinite([n_wrong, count_kurtosis, difference_kurtosis]).all():
        raise ValueError(
            f"n_wrong and kurtoses must be finite, got n_wrong={n_wrong}, count_kurtosis={count_kurtosis}, "
            f"difference_kurtosis={difference_kurtosis}"
        )
    consensus, bias = counts / n_tasks, difference / n_gold
    wrong = (np.clip(n_wrong, LEAST_WRONG, n_gold * (1 - 1 / k)) + LEAST_WRONG) / (n_gold + 1)
    of_counts = count_covariance / n_tasks**2
    of_noise = difference_covariance / n_gold**2
    unseen, possible = (1 - n_gold / n_tasks) / n_gold, on_simplex(consensus)
    share, covariance = _posterior(
        consensus, bias, of_counts, of_noise, unseen * _errors(wrong, possible, possible), wrong / k,
        difference_kurtosis,
    )  # fmt: skip
    share = on_simplex(share)
    sampled = unseen * _errors(wrong, possible, share)
    low, high = released_interval(
        consensus, bias, np.diag(of_counts), np.diag(of_noise), np.diag(sampled), wrong=wrong,
        kurtosis=(count_kurtosis, difference_kurtosis), level=level,
    )  # fmt: skip
    error = of_counts + of_noise + sampled
    *spread, whole = (float(np.trace(one)) for one in (of_counts, of_noise, error))
    fourth = count_kurtosis * spread[0] ** 2 + difference_kurtosis * spread[1] ** 2
    return NoisyShares(
        share, np.minimum(low, share), np.maximum(high, share), covariance, 1.0 - float(wrong), level,
        consensus + bias, error, fourth / whole**2 if whole > 0 else 0.0,
    )  # fmt: skip


def released_interval(
    consensus: Float[np.ndarray, " classes"],
    bias: Float[np.ndarray, " classes"],
    of_counts: Float[np.ndarray, " classes"],
    of_noise: Float[np.ndarray, " classes"],
    sampled: Float[np.ndarray, " classes"],
    *,
    wrong: float,
    kurtosis: tuple[float, float],
    level: float,
) -> tuple[Float64[np.ndarray, " classes"], Float64[np.ndarray, " classes"]]:
    """Return the ends of the intervals of the true shares, before they are widened to contain a point.

    Parameters
    ----------
    consensus, bias
        Shares of the consensus labels, and gold's correction of them, both with noise.
    of_counts, of_noise, sampled
        Variances by class: of the noise on the first, of that on the second, and of the sample of gold tasks.
    wrong
        Share of tasks whose consensus label is wrong.
    kurtosis
        Excess kurtosis of both noises.
    level
        In (0, 1).
    """
    law = mixed_law(sampled, [(of_counts, kurtosis[0]), (of_noise, kurtosis[1])])
    of_bias, odds = of_noise + sampled, float(ODDS[-1] / ODDS[USUAL])
    clear = clear_bias(of_counts, of_bias, float(BIASES[USUAL]) * wrong / consensus.size, odds)
    belief = belief_in_counts(consensus, bias, of_counts, of_bias)
    low, high = assisted_interval(consensus + bias, belief, clear, law, level=level)
    return np.clip(low, 0, 1), np.clip(high, 0, 1)


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
    check_level(level)
    return int(counts.size)


def _errors(
    wrong: float, consensus: Float[np.ndarray, " classes"], true: Float[np.ndarray, " classes"]
) -> Float64[np.ndarray, "classes classes"]:
    """Return the covariance of a task's difference: wrong labels make the bias, the rest follow shares."""
    bias = true - consensus
    too_little, too_much = np.maximum(bias, 0.0), np.maximum(-bias, 0.0)
    moved = float(too_little.sum())
    pairs = np.outer(consensus + LEAST_SHARE, true + LEAST_SHARE)
    np.fill_diagonal(pairs, 0.0)
    pairs *= max(wrong - moved, 0.0) / pairs.sum()
    if moved > 0:
        pairs += np.outer(too_much, too_little) / moved
    sides = np.diag(pairs.sum(axis=0) + pairs.sum(axis=1))
    return np.asarray(sides - pairs - pairs.T - np.outer(bias, bias))


def _posterior(
    consensus: Float[np.ndarray, " classes"],
    bias: Float[np.ndarray, " classes"],
    of_counts: Float[np.ndarray, "classes classes"],
    of_noise: Float[np.ndarray, "classes classes"],
    sampled: Float[np.ndarray, "classes classes"],
    unit: float,
    kurtosis: float,
) -> tuple[Float64[np.ndarray, " classes"], Float64[np.ndarray, "classes classes"]]:
    """Return mean and covariance of the true shares, averaged over both models and spreads by evidence.

    Noise treats classes alike, so that the axes of the sample's errors separate the problem into pairs of
    numbers: a consensus share, and its bias.
    """
    k = consensus.size
    basis = np.linalg.svd(np.eye(k) - 1 / k)[0][:, : k - 1]  # of the vectors that add up to 0
    by_sample, turn = np.linalg.eigh(basis.T @ sampled @ basis)
    axes = basis @ turn
    first, second = axes.T @ consensus, axes.T @ bias
    of_consensus, of_noise_each = (
        float(np.trace(axes.T @ one @ axes)) / (k - 1) for one in (of_counts, of_noise)
    )
    nodes = zip(*variance_mixture(kurtosis, NODES), strict=True)
    # variance of the truth, its covariances with consensus and bias; variances of the consensus
    # and of the bias, and their covariance; variance of the noise; prior odds
    models = np.array(
        [
            model
            for node, chance in nodes
            for spread in np.square(SPREADS)
            for free, odds in zip(np.square(BIASES * unit), ODDS, strict=True)
            for model in (  # the bias is independent of the consensus, or of the truth
                (spread + free, spread, free, spread, 0.0, free, node, odds * chance),
                (spread, spread, 0.0, spread + free, -free, free, node, odds * chance),
            )
        ]
    )
    own, with_consensus, with_bias, own_consensus, both, own_bias, node, odds = models.T[:, :, None]
    own_consensus, own_bias = (
        own_consensus + of_consensus,
        own_bias + of_noise_each * node + by_sample + LEAST_VARIANCE,
    )
    determinant = own_consensus * own_bias - both**2
    solved = (own_bias * first - both * second, own_consensus * second - both * first)
    fit = (first * solved[0] + second * solved[1]) / determinant
    means = (with_consensus * solved[0] + with_bias * solved[1]) / determinant
    gain = with_consensus * (own_bias * with_consensus - both * with_bias)
    gain = (gain + with_bias * (own_consensus * with_bias - both * with_consensus)) / determinant
    log_weight = np.log(odds[:, 0]) - 0.5 * (fit + np.log(determinant)).sum(axis=1)
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    mean = weight @ means
    within = np.diag(weight @ (own - gain)) + (means - mean).T @ (weight[:, None] * (means - mean))
    return 1 / k + axes @ mean, axes @ within @ axes.T
