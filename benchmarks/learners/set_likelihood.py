"""Set-level maximum likelihood: class ratios that make an unlabelled bag likeliest."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

__all__ = ["LikeliestRatio", "set_likelihood"]

TOLERANCE = 1e-8
MAX_ITERATIONS = 2000


@dataclass(frozen=True, slots=True, eq=False)
class LikeliestRatio:
    """Where expectation maximisation stopped.

    Parameters
    ----------
    ratio
        On the simplex.
    log_likelihood
        Of the ratio, per point, against that of all labelled points' mixture.
    converged
        Whether no share moved by more than 1e-8 in the last iteration.
    n_iter
        Iterations made.

    Examples
    --------
    >>> set_likelihood(np.eye(2)[[0, 0, 0, 1]] + 1e-9).converged
    True
    """

    ratio: Float[np.ndarray, " classes"]
    log_likelihood: float
    converged: bool
    n_iter: int


def set_likelihood(density: Float[np.ndarray, "points classes"]) -> LikeliestRatio:
    """Maximise sum_x log sum_y r_y d_y(x) over the simplex.

    Parameters
    ----------
    density
        d, density of each class at each point up to a factor per point, > 0; such as
        `score_matching.density_ratios` of predicted group proportions.

    Returns
    -------
    LikeliestRatio
        The maximum; the problem is concave and has no other.

    Raises
    ------
    ValueError
        If a density is not > 0 and finite.

    Notes
    -----
    The maximum inherits the densities' error: where they are off it is biased, and
    `score_matching.ScoreMatcher` is not. It has no interval here for that reason.

    **Guarantees.** The ratio lies on the simplex; no iteration lowers the likelihood.

    References
    ----------
    .. [1] Saerens, Latinne, Decaestecker, "Adjusting the outputs of a classifier to new a priori
       probabilities", Neural Computation 14 (2002).

    Examples
    --------
    >>> set_likelihood(np.eye(2)[[0, 0, 0, 1]] + 1e-9).ratio.round(3)
    array([0.75, 0.25])
    """
    if not (np.isfinite(density).all() and (density > 0).all()):
        raise ValueError("density must be > 0 and finite at every point for every class")
    n_classes = density.shape[1]
    ratio, converged, n_iter = np.full(n_classes, 1 / n_classes), False, 0
    while not converged and n_iter < MAX_ITERATIONS:
        share = density * ratio
        risen = (share / share.sum(axis=1, keepdims=True)).mean(axis=0)
        converged = bool(np.abs(risen - ratio).max() <= TOLERANCE)
        ratio, n_iter = risen, n_iter + 1
    ratio.setflags(write=False)
    return LikeliestRatio(ratio, float(np.log(density @ ratio).mean()), converged, n_iter)
