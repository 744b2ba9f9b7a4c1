"""Groups' class shares, corrected by the errors of the consensus in all groups together.

Gold is mostly enough for one correction of all groups, and too little for one of each. If the consensus
takes one class for another equally often in every group, the errors in all groups together correct each
of them.

>>> consensus = np.array([[0.59, 0.41], [0.31, 0.69]])  # .8 and .2 of the first class, read wrong
>>> found = unmixed_shares(consensus, np.zeros((2, 2, 2)), weight=np.ones(2),
...     share=np.array([0.5, 0.5]), share_covariance=np.zeros((2, 2)), wrong=0.29)
>>> found.share.round(2).tolist()
[[0.83, 0.17], [0.17, 0.83]]
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Float64

from quality.labels import freeze_arrays

__all__ = ["UnmixedShares", "on_simplex", "unmixed_shares"]

LEAST = 1e-3  # share of a class, in a denominator
LEAST_TURN = 0.2  # singular value of the errors: shares move at most five times as far as counts


@dataclass(frozen=True, slots=True, eq=False)
class UnmixedShares:
    """Result of :func:`unmixed_shares`.

    Parameters
    ----------
    share
        Share of each class in each group; they add up to 1.
    covariance
        Of each group's shares: that of its consensus shares, times the inverse errors, plus the correction's.
    errors
        P(consensus | truth), truth by rows, from all groups together.
    """

    share: Float64[np.ndarray, "groups classes"]
    covariance: Float64[np.ndarray, "groups classes classes"]
    errors: Float64[np.ndarray, "classes classes"]

    def __post_init__(self) -> None:
        freeze_arrays(self)


def unmixed_shares(
    consensus: Float[np.ndarray, "groups classes"],
    covariance: Float[np.ndarray, "groups classes classes"],
    *,
    weight: Float[np.ndarray, " groups"],
    share: Float[np.ndarray, " classes"],
    share_covariance: Float[np.ndarray, "classes classes"],
    wrong: float,
) -> UnmixedShares:
    """Correct groups' shares of consensus labels by the errors of all groups together.

    Parameters
    ----------
    consensus
        Shares of the consensus labels in each group.
    covariance
        Covariance of the noise on them.
    weight
        Tasks in each group, > 0.
    share, share_covariance
        True class shares of all groups together, as corrected by gold, and their covariance.
    wrong
        Share of tasks whose consensus label is wrong, in [0, 1).

    Raises
    ------
    ValueError
        If shapes do not fit, or a number is out of its range.

    Notes
    -----
    **Guarantees.** Shares lie on the simplex. Nothing but the arguments is used, so that on released values
    this is post-processing. Without wrong labels, shares are those of the consensus. The order of classes
    plays no part.

    How often class k is taken for class l is not known, only the difference of truth and consensus by class,
    d, and the share of all errors together, w. The joint table of errors is taken to be (w - |d|) S + |d| D,
    where |d| is half the l1 norm. S has errors between two classes in proportion to both their shares, and
    leaves no difference; D has errors from classes with too few consensus labels to classes with too many.
    For two classes there is no other table. Shares are then those that the errors turn into the consensus
    shares, projected onto the simplex. If the consensus hardly separates classes, only a part of the errors
    is corrected. The covariance of the shares of all groups together is added to each group's.
    """
    k = _check(consensus, covariance, weight, share, share_covariance, wrong)
    total = weight @ consensus / weight.sum()
    true = np.maximum(share, LEAST) / np.maximum(share, LEAST).sum()
    errors = _errors(true, on_simplex(total), wrong)
    while np.linalg.svd(errors, compute_uv=False)[-1] < LEAST_TURN:
        errors = (errors + np.eye(k)) / 2  # correct classes that are hardly separated in part
    turn = np.linalg.inv(errors)
    turned = np.einsum("ki,gkl,lj->gij", turn, covariance, turn)
    found = np.stack([on_simplex(row) for row in consensus @ turn])
    return UnmixedShares(found, turned + share_covariance, errors)


def _errors(
    true: Float64[np.ndarray, " classes"], consensus: Float64[np.ndarray, " classes"], wrong: float
) -> Float64[np.ndarray, "classes classes"]:
    """Return P(consensus | truth), truth by rows, from both margins and the share of wrong labels."""
    too_little, too_much = np.maximum(true - consensus, 0), np.maximum(consensus - true, 0)
    moved = float(too_little.sum())
    both = np.outer(true, true)
    np.fill_diagonal(both, 0.0)
    joint = max(0.0, wrong - moved) * both / both.sum()
    if moved > 0:
        joint = joint + np.outer(too_little, too_much) / moved
    # no class has more errors than tasks
    joint *= np.minimum(1.0, true / np.maximum(joint.sum(axis=1), 1e-300))[:, None]
    joint[np.diag_indices(true.size)] = true - joint.sum(axis=1)
    return np.asarray(joint / true[:, None])


def on_simplex(value: Float[np.ndarray, " classes"]) -> Float64[np.ndarray, " classes"]:
    """Return the nearest point with entries >= 0 that add up to 1."""
    value = value - value.max()  # same nearest point; 1 is not lost to rounding beside large values
    descending = np.sort(value)[::-1]
    shift = (np.cumsum(descending) - 1) / np.arange(1, value.size + 1)
    support = int(np.flatnonzero(descending > shift)[-1])
    return np.asarray(np.maximum(value - shift[support], 0.0))


def _check(
    consensus: np.ndarray,
    covariance: np.ndarray,
    weight: np.ndarray,
    share: np.ndarray,
    share_covariance: np.ndarray,
    wrong: float,
) -> int:
    """Return the number of classes, or raise ValueError."""
    if not (
        consensus.ndim == 2 and consensus.shape[1] >= 2 and weight.shape == consensus.shape[:1]
    ):
        raise ValueError(
            "consensus must be shares of 2 classes or more by group, with a weight for each"
        )
    k = consensus.shape[1]
    fits = covariance.shape == (*consensus.shape, k) and share.shape == (k,)
    if not (fits and share_covariance.shape == (k, k)):
        raise ValueError("covariances and shares must be of the same groups and classes")
    given = consensus, covariance, weight, share, share_covariance
    if not all(np.isfinite(numbers).all() for numbers in given):
        raise ValueError("shares, covariances and weights must be finite, got NaN or infinity")
    if not ((weight > 0).all() and 0 <= wrong < 1):
        raise ValueError(f"weights must be > 0 and wrong in [0, 1), got wrong={wrong}")
    return int(k)
