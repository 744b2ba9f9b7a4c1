"""The minimum of a regularised logistic objective, with a certificate of how near it is.

A privacy proof about the minimum holds for what a solver returns only as far as the solver's error
is known; here it is certified by the gradient's norm.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from jaxtyping import Float
from scipy.linalg import cho_factor, cho_solve
from scipy.special import expit

__all__ = ["TOLERANCE", "ConvergenceError", "Minimum", "certified_minimum", "minimise"]

TOLERANCE = 1e-10


class ConvergenceError(RuntimeError):
    """The solver stopped above its certified gradient norm; the message is public."""


@dataclass(frozen=True, slots=True)
class Minimum:
    """Where the solver stopped, and how near the minimum that is.

    The minimum lies within `gradient_norm / regularization` of `weight`.
    """

    weight: Float[np.ndarray, " columns"]
    gradient_norm: float
    n_iter: int


def certified_minimum(
    row: Float[np.ndarray, "rows columns"],
    sign: Float[np.ndarray, " rows"],
    linear: Float[np.ndarray, " columns"],
    regularization: float,
    tolerance: float,
) -> Float[np.ndarray, " columns"]:
    """`minimise`, refusing a point whose gradient norm exceeds the tolerance."""
    minimum = minimise(row, sign, linear, regularization=regularization, tolerance=tolerance)
    if not minimum.gradient_norm <= tolerance:
        raise ConvergenceError(
            f"the gradient norm must reach {tolerance}; nothing is returned. "
            f"Train with more than regularization={regularization}"
        )
    return minimum.weight


def minimise(
    row: Float[np.ndarray, "rows columns"],
    sign: Float[np.ndarray, " rows"],
    linear: Float[np.ndarray, " columns"],
    *,
    regularization: float,
    tolerance: float = TOLERANCE,
    max_iter: int = 500,
) -> Minimum:
    """Minimise regularization / 2 ||w||^2 + linear.w + mean log(1 + exp(-sign w.row)) by Newton.

    Parameters
    ----------
    row
        Lifted rows, of norm at most one.
    sign
        +1 or -1 per row.
    linear
        Coefficients of the linear term: zeros, or the noise.
    regularization
        Strength, > 0.
    tolerance
        Stop when the gradient's l2 norm is at most this.
    max_iter
        Stop after so many steps all the same.

    Returns
    -------
    Minimum
        The point and its gradient norm, which the caller judges.

    Notes
    -----
    The full step is halved while the objective does not fall, but never below log(1 + b) / b with
    b = max |row.step|: that step decreases a loss whose third derivative is bounded by its second
    (here |l'''| <= l'') [1]_, so the iteration converges from anywhere, and quadratically at last.
    **Guarantees.** `gradient_norm` is the norm of the gradient at `weight`.

    References
    ----------
    .. [1] Sun, Tran-Dinh, "Generalized self-concordant functions: a recipe for Newton-type
       methods", Math. Program. 178 (2019), the damped step for nu = 2.

    Examples
    --------
    >>> row = np.array([[1.0], [-1.0]])
    >>> minimum = minimise(row, np.array([1.0, -1.0]), np.zeros(1), regularization=1.0)
    >>> minimum.weight.round(4), minimum.gradient_norm <= 1e-10
    (array([0.4011]), True)
    """
    weight = np.zeros(row.shape[1])
    objective = partial(_objective, row, sign, linear, regularization)
    for n_iter in range(max_iter + 1):
        doubt = expit(-sign * (row @ weight))
        gradient = regularization * weight + linear - row.T @ (sign * doubt) / len(row)
        gradient_norm = float(np.linalg.norm(gradient))
        if gradient_norm <= tolerance or n_iter == max_iter:
            break
        hessian = (row.T * (doubt * (1 - doubt) / len(row))) @ row
        hessian[np.diag_indices_from(hessian)] += regularization
        step = -cho_solve(cho_factor(hessian), gradient)
        slope, reach = float(gradient @ step), float(np.abs(row @ step).max())
        weight = weight + _step_length(objective, weight, step, slope, reach) * step
    return Minimum(weight, gradient_norm, n_iter)


def _objective(
    row: Float[np.ndarray, "rows columns"],
    sign: Float[np.ndarray, " rows"],
    linear: Float[np.ndarray, " columns"],
    regularization: float,
    weight: Float[np.ndarray, " columns"],
) -> float:
    loss = np.logaddexp(0.0, -sign * (row @ weight)).mean()
    return float(regularization / 2 * weight @ weight + linear @ weight + loss)


def _step_length(
    objective: Callable[[Float[np.ndarray, " columns"]], float],
    weight: Float[np.ndarray, " columns"],
    step: Float[np.ndarray, " columns"],
    slope: float,
    reach: float,
) -> float:
    """Halve the full step until the objective falls, but keep to the length that is proved to."""
    shortest = math.log1p(reach) / reach if reach > 0 else 1.0
    start, length = objective(weight), 1.0
    while length > shortest and objective(weight + length * step) > start + 1e-4 * length * slope:
        length /= 2
    return max(length, shortest)
