"""Bradley and Terry's scores from each item's points and the pairs compared: sufficient for the model.

>>> met = np.array([[0.0, 4.0], [4.0, 0.0]])
>>> round(float(np.diff(scores_of_points(met, np.array([1.0, 3.0])).score)[0]), 2)  # log 3, a little shrunk
1.02
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float64
from scipy.special import expit

__all__ = ["PointScores", "scores_of_points"]

PRIOR_SD = 3.0  # of a score, in log odds: noisy points may exceed what any scores give
MAX_ITER, HALVINGS, SETTLED = 100, 30, 1e-10  # Newton's steps, of each, and a step that ends


class PointScores(NamedTuple):
    """Scores that add up to 0, and their covariance."""

    score: Float64[np.ndarray, " items"]
    covariance: Float64[np.ndarray, "items items"]


def scores_of_points(
    met: Float64[np.ndarray, "items items"],
    points: Float64[np.ndarray, " items"],
    noise: Float64[np.ndarray, "items items"] | None = None,
) -> PointScores:
    """Return scores whose expected points are the given ones, up to a weak prior.

    Parameters
    ----------
    met
        How often each pair of items was compared, symmetric with zeros on the diagonal.
    points
        Number of comparisons that each item won, a tie as half a win. With noise it may be negative.
    noise
        Covariance of noise on the points; none by default.

    Raises
    ------
    ValueError
        If there are no items, shapes do not fit, `met` is not symmetric and 0 or more, or a number is not
        finite.

    Notes
    -----
    **Guarantees.** For exact points the scores are those of :func:`~quality.bradley_terry` with ties as
    halves and a prior of standard deviation 3. The covariance is of sandwich form: it includes the variance
    of outcomes under the model and that of the noise, for the estimate that the prior shrinks.

    **Cost.** The solution of items by items equations per step of Newton's method.

    References
    ----------
    .. [1] Bradley, Terry, "Rank analysis of incomplete block designs", Biometrika 39 (1952).
    """
    n_items = len(points)
    if not (points.ndim == 1 and n_items):
        raise ValueError(
            f"points must be a number for each of some items, got shape {points.shape}"
        )
    noise = np.zeros((n_items, n_items)) if noise is None else noise
    square = met.shape == noise.shape == (n_items, n_items)
    if not (
        square and (met >= 0).all() and np.array_equal(met, met.T) and not met.diagonal().any()
    ):
        raise ValueError(
            f"met must be a symmetric table of {n_items} x {n_items} numbers of 0 or more with zeros on the "
            f"diagonal, and noise of its shape, got {met.shape} and {noise.shape}"
        )
    if not all(np.isfinite(numbers).all() for numbers in (met, points, noise)):
        raise ValueError("met, points and noise must be finite, got NaN or infinity")
    score, precision = np.zeros(n_items), PRIOR_SD**-2
    for _ in range(MAX_ITER):
        gradient, information = _slopes(met, points, score)
        step = np.linalg.solve(
            information + precision * np.eye(n_items), gradient - precision * score
        )
        now, share = _height(met, points, score), 1.0
        for _ in range(HALVINGS):
            if _height(met, points, score + share * step) >= now:
                break
            share /= 2
        score = score + share * step
        if np.abs(share * step).max() <= SETTLED:
            break
    _, information = _slopes(met, points, score)
    inverse = np.linalg.inv(information + precision * np.eye(n_items))
    centred = (np.eye(n_items) - 1 / n_items) @ inverse
    covariance = centred @ (information + noise) @ centred.T
    return PointScores(score - score.mean(), (covariance + covariance.T) / 2)


def _slopes(
    met: np.ndarray, points: np.ndarray, score: np.ndarray
) -> tuple[Float64[np.ndarray, " items"], Float64[np.ndarray, "items items"]]:
    """Return the points minus the expected points, and the information of the outcomes."""
    chance = expit(score[:, None] - score)
    spread = met * chance * (1 - chance)
    return points - (met * chance).sum(axis=1), np.diag(spread.sum(axis=1)) - spread


def _height(met: np.ndarray, points: np.ndarray, score: np.ndarray) -> float:
    """Return the log posterior, up to a constant."""
    apart = score[:, None] - score
    likelihood = points @ score - np.triu(met * np.logaddexp(apart / 2, -apart / 2)).sum()
    likelihood -= (met.sum(axis=1) / 2) @ score  # removed by halving the differences
    return float(likelihood - score @ score / (2 * PRIOR_SD**2))
