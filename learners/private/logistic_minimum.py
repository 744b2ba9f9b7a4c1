"""The minimum of a regularised logistic objective, with a certificate of how near the solver came.

A privacy proof about the minimum holds for a solver's result only if the solver's error is known; here
the norm of the gradient certifies it.

>>> row = np.array([[1.0], [-1.0]])
>>> minimum = minimise(row, np.array([1.0, -1.0]), np.zeros(1), regularization=1.0)
>>> minimum.weight.round(4), minimum.gradient_norm <= 1e-10
(array([0.4011]), True)
"""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.linalg import cho_factor, cho_solve
from scipy.special import expit

from learners.private.lifted_rows import Lifted, scores

__all__ = ["TOLERANCE", "ConvergenceError", "Minimum", "certified_minimum", "minimise"]

TOLERANCE = 1e-10
BLOCK = 2048  # rows: a block stays in the cache during one pass over it
LARGE = 2**15  # rows, from which on the minimum for every 16th row is found first, as a start
SAMPLED = 16
NEAR = 1e-5


class ConvergenceError(RuntimeError):
    """The solver stopped above its certified gradient norm; the message is public."""


@dataclass(frozen=True, slots=True)
class Minimum:
    """The point at which the solver stopped, and the certificate.

    The minimum lies within `gradient_norm / regularization` of `weight`.
    """

    weight: Float[np.ndarray, " columns"]
    gradient_norm: float
    n_iter: int


def certified_minimum(
    row: Lifted,
    sign: Float[np.ndarray, " rows"],
    linear: Float[np.ndarray, " columns"],
    regularization: float,
    tolerance: float,
) -> Float[np.ndarray, " columns"]:
    """Return the weights of `minimise`; raise ConvergenceError above the tolerance."""
    minimum = minimise(row, sign, linear, regularization=regularization, tolerance=tolerance)
    if not minimum.gradient_norm <= tolerance:
        raise ConvergenceError(
            f"the gradient norm must reach {tolerance}; nothing is returned. "
            f"Train with more than regularization={regularization}"
        )
    return minimum.weight


def minimise(
    row: Lifted,
    sign: Float[np.ndarray, " rows"],
    linear: Float[np.ndarray, " columns"],
    *,
    regularization: float,
    tolerance: float = TOLERANCE,
    max_iter: int = 500,
) -> Minimum:
    """Minimise regularization / 2 ||w||^2 + linear.w + mean log(1 + exp(-sign w.row)) by Newton.

    Rows are lifted, of norm at most one; signs are +1 or -1, times the row's weight, which multiplies its
    loss; `linear` is zeros, or the noise. The solver stops when the gradient's l2 norm is at most
    `tolerance`, or after `max_iter` steps; the caller judges the gradient norm that is returned.

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
    """
    weight = np.zeros(row.shape[1])
    if len(row) >= LARGE:
        weight = _descend(
            _Objective(row[::SAMPLED], sign[::SAMPLED], linear, regularization), weight, NEAR, 50
        ).weight
    return _descend(_Objective(row, sign, linear, regularization), weight, tolerance, max_iter)


@dataclass(frozen=True, slots=True, eq=False)
class _Objective:
    row: Lifted
    sign: Float[np.ndarray, " rows"]
    linear: Float[np.ndarray, " columns"]
    regularization: float

    def expand(self, weight: Float[np.ndarray, " columns"]) -> "_Expansion":
        """Value, gradient and Hessian in one pass over the rows."""
        n, columns = self.row.shape
        loss, gradient, hessian = 0.0, np.zeros(columns), np.zeros((columns, columns))
        for start in range(0, n, BLOCK):
            block, sign = self.row[start : start + BLOCK], self.sign[start : start + BLOCK]
            margin = np.sign(sign) * (block @ weight)
            doubt, share = expit(-margin), np.abs(sign)
            loss += float(share @ np.logaddexp(0.0, -margin))
            gradient -= (sign * doubt) @ block
            scaled = block * np.sqrt(share * doubt * (1 - doubt))[:, None]
            hessian += scaled.T @ scaled
        hessian /= n
        hessian[np.diag_indices_from(hessian)] += self.regularization
        value = loss / n + float((self.regularization / 2 * weight + self.linear) @ weight)
        slope = gradient / n + self.regularization * weight + self.linear
        return _Expansion(weight, value, slope, hessian)


@dataclass(frozen=True, slots=True, eq=False)
class _Expansion:
    weight: Float[np.ndarray, " columns"]
    value: float
    gradient: Float[np.ndarray, " columns"]
    hessian: Float[np.ndarray, "columns columns"]


def _descend(
    objective: _Objective, weight: Float[np.ndarray, " columns"], tolerance: float, max_iter: int
) -> Minimum:
    at = objective.expand(weight)
    for n_iter in range(max_iter + 1):
        gradient_norm = float(np.linalg.norm(at.gradient))
        if gradient_norm <= tolerance or n_iter == max_iter:
            break
        at = _step(objective, at)
    return Minimum(at.weight, gradient_norm, n_iter)


def _step(objective: _Objective, at: _Expansion) -> _Expansion:
    """Halve the full step until the objective falls, down to the length that is proved to be enough."""
    step = -cho_solve(cho_factor(at.hessian), at.gradient)
    slope, length = float(at.gradient @ step), 1.0
    after = objective.expand(at.weight + step)
    shortest = 0.0
    while after.value > at.value + 1e-4 * length * slope:
        if shortest == 0.0:  # a pass over the rows, which the full step seldom needs
            reach = float(np.abs(scores(objective.row, step[None])).max())
            shortest = math.log1p(reach) / reach if reach > 0 else 1.0
        if length <= shortest:
            break
        length = max(length / 2, shortest)
        after = objective.expand(at.weight + length * step)
    return after
