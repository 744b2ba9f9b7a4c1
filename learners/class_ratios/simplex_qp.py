"""Convex quadratic programs over the probability simplex, solved exactly.

The problems are as small as the number of classes, so that an active-set method reaches the minimum
itself after a handful of linear solves; a gradient method would only approach it.

>>> simplex_qp(np.eye(3), np.array([0.9, 0.7, 0.0])).point
array([0.6, 0.4, 0. ])
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

__all__ = ["SimplexMinimum", "simplex_minima", "simplex_qp"]

TOLERANCE = 1e-12  # relative to the largest coefficient
RIDGE = 1e-13  # likewise; keeps every subproblem solvable and moves the objective by at most this
MAX_STEPS = 20  # per variable; about one is needed


@dataclass(frozen=True, slots=True, eq=False)
class SimplexMinimum:
    """The point at which the solver stopped, and the certificate.

    Parameters
    ----------
    point
        On the simplex.
    gap
        Upper bound on the excess of the objective at `point` over its minimum: the duality gap
        r.g - min g, where g is the gradient at r. For a convex objective it is a proof.
    n_iter
        Number of supports tried.
    """

    point: Float[np.ndarray, " variables"]
    gap: float
    n_iter: int


def simplex_qp(
    quadratic: Float[np.ndarray, "variables variables"], linear: Float[np.ndarray, " variables"]
) -> SimplexMinimum:
    """Minimise r'Hr - 2 f'r over r >= 0, sum r = 1, for H = `quadratic` and f = `linear`.

    H must be symmetric and positive semi-definite; the latter is not checked, because eigenvalues would
    cost more than the problem. If H is singular along the simplex, one of the minima is returned; ties go
    to the lower index. A ValueError is raised if the shapes do not fit, a coefficient is not finite or H
    is not symmetric.

    Notes
    -----
    The active-set method of non-negative least squares [1]_, with the equation sum r = 1 in every
    subproblem: the support gains the variable of steepest descent, the equality-constrained minimum
    on it is solved, and variables that would turn negative leave. The objective falls with every
    support, so no support recurs and the method ends.

    **Guarantees.** `point` lies on the simplex; `gap` bounds the distance to the minimum;
    relabelling the variables relabels the point.

    References
    ----------
    .. [1] Lawson, Hanson, "Solving Least Squares Problems", Prentice-Hall (1974), chapter 23.

    Examples
    --------
    >>> simplex_qp(np.eye(2), np.array([0.9, 0.7])).point.round(3)
    array([0.6, 0.4])
    """
    _check(quadratic, linear, 1)
    return _minimum(quadratic, linear)


def _minimum(
    quadratic: Float[np.ndarray, "variables variables"], linear: Float[np.ndarray, " variables"]
) -> SimplexMinimum:
    """Return `simplex_qp` of coefficients that are already checked."""
    H, f, scale = _scaled(quadratic, linear)
    point = np.zeros(len(f))
    point[np.argmin(H.diagonal() - 2 * f)] = 1.0
    n_iter = 0
    while n_iter < MAX_STEPS * len(f):
        slope = H @ point - f
        entering = int(np.argmin(slope))
        if not slope[entering] < point @ slope - TOLERANCE or point[entering] > 0:
            break
        support = np.flatnonzero(point)
        point = _descend(H, f, point, np.append(support, entering))
        n_iter += 1
    gap = 2 * scale * max(0.0, float(point @ (H @ point - f) - (H @ point - f).min()))
    return SimplexMinimum(point, gap, n_iter)


def simplex_minima(
    quadratic: Float[np.ndarray, "variables variables"],
    linear: Float[np.ndarray, "problems variables"],
) -> Float[np.ndarray, "problems variables"]:
    """Return the points of `simplex_qp` for one H and many f; those inside the simplex share one solve.

    Parameters
    ----------
    quadratic
        H, as for `simplex_qp`, errors included.
    linear
        One f per row.

    Notes
    -----
    If the minimum on the plane sum r = 1 has no variable below 0, it is the minimum on the simplex. With two
    variables the simplex is a segment, whose minimum is the point nearest to the plane's.

    **Guarantees.** Each row is that of `simplex_qp` for its f, up to rounding.

    Examples
    --------
    >>> simplex_minima(np.eye(2), np.array([[0.9, 0.7], [2.0, 0.0]]))
    array([[0.6, 0.4],
           [1. , 0. ]])
    """
    _check(quadratic, linear, 2)
    H, f, _ = _scaled(quadratic, linear)
    point = _equality_minimum(H, f, np.arange(len(H)))
    point /= point.sum(axis=1, keepdims=True)
    if len(H) == 2:
        return np.asarray(np.clip(point, 0.0, 1.0))
    for outside in np.flatnonzero((point < 0).any(axis=1)):
        point[outside] = _minimum(quadratic, linear[outside]).point
    return np.asarray(point)


def _descend(
    H: Float[np.ndarray, "variables variables"],
    f: Float[np.ndarray, " variables"],
    point: Float[np.ndarray, " variables"],
    support: Int[np.ndarray, " support"],
) -> Float[np.ndarray, " variables"]:
    """Walk to the minimum on the support, dropping each variable that reaches zero on the way."""
    point = point.copy()
    target = _equality_minimum(H, f, support)
    while (falling := target <= 0).any():  # ends: one variable alone has target 1
        here = point[support]
        reach = np.full(len(support), np.inf)
        reach[falling] = here[falling] / (here[falling] - target[falling])
        first = int(np.argmin(reach))
        point[support] = np.maximum(here + reach[first] * (target - here), 0.0)
        point[support[first]] = 0.0
        support = np.delete(support, first)
        target = _equality_minimum(H, f, support)
    point[support] = target
    return np.asarray(point / point.sum())


def _equality_minimum(
    H: Float[np.ndarray, "variables variables"],
    f: Float[np.ndarray, "*problems variables"],
    support: Int[np.ndarray, " support"],
) -> Float[np.ndarray, "*problems support"]:
    """Return the minimum on the plane sum r = 1, from the KKT system, for every row of f."""
    size = len(support)
    system = np.ones((size + 1, size + 1))
    system[:size, :size] = H[np.ix_(support, support)]
    system[size, size] = 0.0
    right = np.concatenate([f[..., support], np.ones((*f.shape[:-1], 1))], axis=-1)
    return np.asarray(np.linalg.solve(system, right.T).T[..., :size])


def _scaled(
    quadratic: Float[np.ndarray, "variables variables"],
    linear: Float[np.ndarray, "*problems variables"],
) -> tuple[
    Float[np.ndarray, "variables variables"], Float[np.ndarray, "*problems variables"], float
]:
    """Return H with its ridge and f, both divided by their largest coefficient, and that coefficient."""
    largest = max(float(np.abs(one).max()) for one in (quadratic, linear))
    scale = max(largest, float(np.finfo(float).tiny))
    return quadratic / scale + RIDGE * np.eye(len(quadratic)), linear / scale, scale


def _check(quadratic: np.ndarray, linear: np.ndarray, n_dimensions: int) -> None:
    fits = linear.ndim == n_dimensions and quadratic.shape == 2 * linear.shape[-1:]
    if not (fits and linear.size > 0):
        raise ValueError(
            "quadratic must be square with one row per entry of linear, "
            f"got shapes {quadratic.shape} and {linear.shape}"
        )
    if not (np.isfinite(quadratic).all() and np.isfinite(linear).all()):
        raise ValueError("quadratic and linear must be finite")
    if not np.allclose(quadratic, quadratic.T, rtol=1e-9, atol=1e-12 * np.abs(quadratic).max()):
        raise ValueError("quadratic must be symmetric")
