"""Pairs to compare next: those whose answer has the largest expected information about the scores.

>>> import numpy as np
>>> found = next_pairs(np.array([1.0, 0.9, -3.0]), np.eye(3) * 0.2, n=1)
>>> found.item, found.other
(array([0]), array([1]))
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64

from quality.argument_types import check_arguments
from quality.labels import freeze_arrays

__all__ = ["NextPairs", "check_scores", "next_pairs"]

FARTHEST = 300.0  # half a difference of scores: beyond it an answer says nothing, and the square is infinite


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class NextPairs:
    """Result of :func:`next_pairs`.

    Parameters
    ----------
    item, other
        Codes of the items to compare, in the order of the plan.
    gain
        Expected information of each answer about the scores, in nats, given the pairs before it.
    """

    item: Int64[np.ndarray, " pairs"]
    other: Int64[np.ndarray, " pairs"]
    gain: Float64[np.ndarray, " pairs"]

    def __post_init__(self) -> None:
        freeze_arrays(self)

    def __repr__(self) -> str:
        return f"NextPairs({len(self.item)} pairs, {self.gain.sum():.2f} nats)"


@check_arguments
def next_pairs(
    score: Float64[np.ndarray, " items"],
    covariance: Float64[np.ndarray, "items items"],
    *,
    n: int,
) -> NextPairs:
    """Choose pairs one after another, each by the expected information that its answer adds.

    The answer of an average worker about items i and j has information p (1 - p) about their difference,
    whose variance is V; its expected information is log(1 + p (1 - p) V) / 2. Then the covariance is
    updated as that answer would change it.

    Parameters
    ----------
    score, covariance
        Estimates and their covariance, such as those of :func:`~quality.crowd_bradley_terry`.
    n
        Number of comparisons to choose, at least 1; a pair may occur again.

    Raises
    ------
    ValueError
        If there are not two items, `n` is not at least 1, or a score or covariance is not finite or of
        another shape.

    Notes
    -----
    **Guarantees.** Gains never rise from one pair to the next.

    **Cost.** O(n x items squared).

    References
    ----------
    .. [1] Chaloner, Verdinelli, "Bayesian experimental design: a review", Statistical Science 10
       (1995): D-optimality.

    Examples
    --------
    Three answers on neighbours, and then one on a distant item whose score is uncertain.

    >>> found = next_pairs(np.array([1.0, 0.9, -3.0]), np.diag([0.2, 0.2, 4.0]), n=4)
    >>> found.item, found.other
    (array([0, 0, 0, 1]), array([1, 1, 1, 2]))
    """
    if n < 1:
        raise ValueError(f"n must be at least 1, got {n}")
    if len(score) < 2:
        raise ValueError(f"there must be two items to compare, got {len(score)}")
    check_scores(score, covariance)
    now, score = (np.array(one, dtype=np.float64) for one in (covariance, score))
    half = np.minimum(np.abs(score[:, None] - score[None, :]) / 2, FARTHEST)
    certain = 1 / (4 * np.cosh(half) ** 2)  # p (1 - p)
    chosen, gains = [], []
    for _ in range(n):
        variance = np.diagonal(now)
        between = np.maximum(variance[:, None] + variance[None, :] - 2 * now, 0.0)
        gain = np.triu(certain * between, 1)
        i, j = divmod(int(np.argmax(gain)), len(score))
        if i == j:  # no pair gains
            i, j = 0, 1
        chosen.append((i, j))
        gains.append(np.log1p(gain[i, j]) / 2)
        along = now[:, i] - now[:, j]
        now -= np.outer(along, along) * certain[i, j] / (1 + gain[i, j])
    pairs = np.array(chosen, dtype=np.int64)
    return NextPairs(pairs[:, 0].copy(), pairs[:, 1].copy(), np.array(gains))


def check_scores(
    score: Float64[np.ndarray, " items"], covariance: Float64[np.ndarray, "items items"]
) -> None:
    """Raise ValueError unless scores are finite, and the covariance fits them.

    >>> check_scores(np.zeros(2), np.eye(2))
    """
    if score.ndim != 1 or covariance.shape != (len(score), len(score)):
        raise ValueError(
            f"covariance must be a square table of as many items as there are scores, got "
            f"{covariance.shape} for scores of shape {score.shape}"
        )
    if not (np.isfinite(score).all() and np.isfinite(covariance).all()):
        raise ValueError("score and covariance must be finite, got NaN or infinity")
