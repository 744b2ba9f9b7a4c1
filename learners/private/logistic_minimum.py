"""The minimum of a regularised logistic objective, with a certificate of how near the solver came.

A privacy proof about the minimum holds for a solver's result only if the solver's error is known; here
the norm of the gradient certifies it. The objective is one of lifted rows: clipped to a norm bound, with
their intercept in the unit ball. Few rows are lifted at once and kept. Of many rows a slice is lifted at each
request, so that a loop over blocks holds one block, and the rows may be pages of a file.

>>> row = np.array([[1.0], [-1.0]])
>>> minimum = minimise(row, np.array([1.0, -1.0]), np.zeros(1), regularization=1.0)
>>> minimum.weight.round(4), minimum.gradient_norm <= 1e-10
(array([0.4011]), True)
"""

import math
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from jaxtyping import Float, Int
from scipy.linalg import cho_factor, cho_solve
from scipy.special import expit

__all__ = [
    "TOLERANCE",
    "ConvergenceError",
    "Lifted",
    "LiftedRows",
    "Minimum",
    "all_finite",
    "certified_minimum",
    "clipped",
    "in_units",
    "lift",
    "lifted",
    "minimise",
    "scores",
]

TOLERANCE = 1e-10
BLOCK = 2048  # rows: a block stays in the cache during one pass over it
LARGE = 2**15  # rows, from which on the minimum for every 16th row is found first, as a start
SAMPLED = 16
NEAR = 1e-5
MIN_BOUND = 1e-100  # the square of a larger bound is not zero
MAX_BOUND = 1e308  # times the root of 2 it is finite
HELD_CELLS = 2**24  # cells of rows that are lifted once: 128 MiB


@dataclass(frozen=True, slots=True, eq=False)
class LiftedRows:
    """Lifted rows, computed slice by slice and not kept.

    Parameters
    ----------
    x
        Rows, **private**; those beyond `norm_bound` are clipped.
    norm_bound
        Declared l2 bound of the rows, > 0.
    places
        Which rows, in their order; all of them if None.
    components
        Orthonormal rows onto which a clipped row is projected before it is lifted; none if None.

    Notes
    -----
    **Guarantees.** A slice is `lift` of the rows that it names, or of their projections.

    Examples
    --------
    >>> len(LiftedRows(np.ones((4, 2)), 1.0))
    4
    """

    x: Float[np.ndarray, "all features"] = field(repr=False)
    norm_bound: float
    places: Int[np.ndarray, " rows"] | None = None
    components: Float[np.ndarray, "components features"] | None = None

    def __len__(self) -> int:
        return len(self.x if self.places is None else self.places)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows, and of columns: the features, or the components, and the intercept."""
        kept = self.x.shape[1] if self.components is None else len(self.components)
        return len(self), kept + 1

    def __getitem__(self, part: slice) -> Float[np.ndarray, "_ columns"]:
        """Lift the rows of a slice."""
        rows = self.x[part if self.places is None else self.places[part]]
        if self.components is not None:
            rows = clipped(rows, self.norm_bound) @ self.components.T
        return lift(rows, self.norm_bound)

    def held(self) -> Float[np.ndarray, "rows columns"]:
        """Lift all rows, a block after the other: beside them memory has copies of one block."""
        whole = np.empty(self.shape)
        for first in range(0, len(self), BLOCK):
            whole[first : first + BLOCK] = self[first : first + BLOCK]
        return whole


Lifted: TypeAlias = Float[np.ndarray, "_ columns"] | LiftedRows
"""Lifted rows, of which an algorithm asks for slices, a length and a shape."""


def lifted(
    x: Float[np.ndarray, "all features"],
    norm_bound: float,
    places: Int[np.ndarray, " rows"] | None = None,
    components: Float[np.ndarray, "components features"] | None = None,
) -> Lifted:
    """Return some rows lifted, or all: held if they are few, otherwise lifted slice by slice.

    Arguments are those of `LiftedRows`.

    Examples
    --------
    >>> lifted(np.zeros((3, 1)), 1.0, np.array([2])).shape
    (1, 2)
    """
    rows = LiftedRows(x, norm_bound, places, components)
    n, columns = rows.shape
    return rows.held() if n * (columns - 1) <= HELD_CELLS else rows


def scores(
    row: Lifted, weight: Float[np.ndarray, "problems columns"]
) -> Float[np.ndarray, "problems rows"]:
    """Return the score of each row in each problem, a block of rows at a time.

    Examples
    --------
    >>> scores(np.array([[1.0, 2.0], [0.0, 1.0]]), np.array([[1.0, 1.0]]))
    array([[3., 1.]])
    """
    blocks = range(0, max(len(row), 1), BLOCK)
    return np.concatenate([weight @ row[first : first + BLOCK].T for first in blocks], axis=1)


def all_finite(x: Float[np.ndarray, "rows features"]) -> bool:
    """Return whether every cell is finite, by a block of rows at a time.

    Examples
    --------
    >>> all_finite(np.array([[1.0], [np.nan]]))
    False
    """
    return all(np.isfinite(x[first : first + BLOCK]).all() for first in range(0, len(x), BLOCK))


def lift(
    x: Float[np.ndarray, "rows features"], norm_bound: float
) -> Float[np.ndarray, "rows columns"]:
    """Clip each row, then map it to (x / norm_bound, 1) / sqrt(2), whose l2 norm is at most one.

    Examples
    --------
    >>> lift(np.array([[3.0, 4.0], [0.0, 0.0]]), norm_bound=1.0).round(3)
    array([[0.424, 0.566, 0.707],
           [0.   , 0.   , 0.707]])
    """
    lifted = np.full((len(x), x.shape[1] + 1), 1 / math.sqrt(2.0))
    shrinkage = _shrinkage(x, norm_bound)
    np.divide(x, (shrinkage * norm_bound * math.sqrt(2.0))[:, None], out=lifted[:, :-1])
    if (beyond := np.isinf(shrinkage)).any():
        lifted[beyond, :-1] = in_units(x[beyond], norm_bound) / math.sqrt(2.0)
    return lifted


def clipped(
    x: Float[np.ndarray, "rows features"], norm_bound: float
) -> Float[np.ndarray, "rows features"]:
    """Return the rows, those beyond the bound scaled down to it, each whatever the others are."""
    shrinkage = _shrinkage(x, norm_bound)
    found: np.ndarray = x / shrinkage[:, None]
    if (beyond := np.isinf(shrinkage)).any():
        found[beyond] = in_units(x[beyond], norm_bound) * norm_bound
    return found


def _shrinkage(
    x: Float[np.ndarray, "rows features"], norm_bound: float
) -> Float[np.ndarray, " rows"]:
    """Return the divisor, 1 or more, that brings each row within the bound; infinity where a step overflows.

    A step of one row decides for no other: in the last digits all others would tell of that row.
    """
    x = np.asarray(x, dtype=np.float64)  # squares of integers wrap, those of short floats vanish
    if not MIN_BOUND < norm_bound < MAX_BOUND:  # its root of 2 overflows, or its square underflows
        return np.full(len(x), math.inf)
    with np.errstate(over="ignore", under="ignore"):
        squared = np.einsum("ij,ij->i", x, x)
    return np.asarray(np.maximum(np.sqrt(squared) / norm_bound, 1.0))


def in_units(
    x: Float[np.ndarray, "rows features"], norm_bound: float
) -> Float[np.ndarray, "rows features"]:
    """Return the clipped rows over the bound, whatever their size: no number on the way is beyond 1."""
    x = np.asarray(x, dtype=np.float64)
    peak = np.maximum(np.abs(x).max(axis=1, initial=0.0), norm_bound)[:, None]
    relative = x / peak
    return np.asarray(
        relative / np.maximum(np.linalg.norm(relative, axis=1)[:, None], norm_bound / peak)
    )


class ConvergenceError(RuntimeError):
    """The solver stopped above its certified gradient norm; the message is public."""


@dataclass(frozen=True, slots=True)
class Minimum:
    """The point at which the solver stopped, and the certificate.

    The minimum lies within `gradient_norm / regularization` of `weight`, which is as private as the rows.
    """

    weight: Float[np.ndarray, " columns"] = field(repr=False)
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
    row: Lifted = field(repr=False)
    sign: Float[np.ndarray, " rows"] = field(repr=False)
    linear: Float[np.ndarray, " columns"] = field(repr=False)
    regularization: float

    def expand(self, weight: Float[np.ndarray, " columns"]) -> "_Expansion":
        """Return value, gradient and Hessian from one pass over the rows."""
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
    weight: Float[np.ndarray, " columns"] = field(repr=False)
    value: float = field(repr=False)
    gradient: Float[np.ndarray, " columns"] = field(repr=False)
    hessian: Float[np.ndarray, "columns columns"] = field(repr=False)


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
