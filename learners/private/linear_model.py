"""Logistic regression on rows of bounded norm: rows, classifier, training without noise.

Everything here is exact and **not private**; `private_linear` adds the noise. The objective is
written for the needs of the privacy proof: rows are clipped to a declared norm bound and carry
their intercept inside the unit ball, so that one row moves the gradient by a known amount, and the
intercept is regularised like every other coefficient, so that the objective is strongly convex.

Several classes are one problem each, "this class or another"; two classes are one problem.

The minimum of a regularised logistic objective, with a certificate of how near it is.

A privacy proof about the minimum holds for what a solver returns only as far as the solver's error
is known; here it is certified by the gradient's norm.
"""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from scipy.linalg import cho_factor, cho_solve
from scipy.special import expit, log_expit, softmax

__all__ = [
    "TOLERANCE",
    "ConvergenceError",
    "LinearModel",
    "Minimum",
    "certified_minimum",
    "check_knobs",
    "check_rows",
    "fit_linear",
    "lift",
    "minimise",
    "signs",
    "to_coef",
]

TOLERANCE = 1e-10
BLOCK = 2048  # rows that stay in the cache while all that is asked of them is computed
LARGE = 2**15  # rows, above which every 16th row makes a good start
SAMPLED, NEAR = 16, 1e-5


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
    if len(row) >= LARGE:
        weight = _descend(
            _Objective(row[::SAMPLED], sign[::SAMPLED], linear, regularization), weight, NEAR, 50
        ).weight
    return _descend(_Objective(row, sign, linear, regularization), weight, tolerance, max_iter)


@dataclass(frozen=True, slots=True, eq=False)
class _Objective:
    row: Float[np.ndarray, "rows columns"]
    sign: Float[np.ndarray, " rows"]
    linear: Float[np.ndarray, " columns"]
    regularization: float

    def expand(self, weight: Float[np.ndarray, " columns"]) -> "_Expansion":
        """Value, gradient and Hessian in one pass over the rows."""
        n, columns = self.row.shape
        loss, gradient, hessian = 0.0, np.zeros(columns), np.zeros((columns, columns))
        for start in range(0, n, BLOCK):
            block, sign = self.row[start : start + BLOCK], self.sign[start : start + BLOCK]
            margin = sign * (block @ weight)
            doubt = expit(-margin)
            loss += float(np.logaddexp(0.0, -margin).sum())
            gradient -= (sign * doubt) @ block
            scaled = block * np.sqrt(doubt * (1 - doubt))[:, None]
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
    """Halve the full step until the objective falls, but keep to the length that is proved to."""
    step = -cho_solve(cho_factor(at.hessian), at.gradient)
    slope, length = float(at.gradient @ step), 1.0
    after = objective.expand(at.weight + step)
    shortest = 0.0
    while after.value > at.value + 1e-4 * length * slope:
        if shortest == 0.0:  # a pass over the rows, which the full step seldom needs
            reach = float(np.abs(objective.row @ step).max())
            shortest = math.log1p(reach) / reach if reach > 0 else 1.0
        if length <= shortest:
            break
        length = max(length / 2, shortest)
        after = objective.expand(at.weight + length * step)
    return after


LEAST = 1e-100  # a bound above it has a square that is not zero


@dataclass(frozen=True, slots=True, eq=False)
class LinearModel:
    """A linear classifier for rows clipped to `norm_bound`.

    Parameters
    ----------
    coef
        One row per problem (a single one for two classes), the intercept in the last column. Acts
        on the clipped row in the units of the data. The model keeps a read-only copy.
    norm_bound
        Rows of greater l2 norm are scaled down to it, when training and when predicting.

    Raises
    ------
    ValueError
        If `coef` is not a finite matrix with one row, or three and more, or the bound is not
        positive.

    Notes
    -----
    **Guarantees.** `predict` is the class of highest `predict_proba`, ties to the lower code; rows
    of `predict_proba` sum to one; a row beyond the bound is judged as its clipped copy.

    Examples
    --------
    >>> model = LinearModel(np.array([[2.0, 0.0, -1.0]]), norm_bound=1.0)
    >>> model.decision(np.array([[1.0, 0.0], [5.0, 0.0]]))
    array([[1.],
           [1.]])
    >>> model.predict(np.array([[1.0, 0.0], [0.0, 1.0]]))
    array([1, 0])
    """

    coef: Float[np.ndarray, "problems columns"]
    norm_bound: float

    def __post_init__(self) -> None:
        coef = np.array(self.coef, dtype=np.float64)
        coef.setflags(write=False)
        object.__setattr__(self, "coef", coef)
        if not (coef.ndim == 2 and len(coef) not in (0, 2) and coef.shape[1] > 1):
            raise ValueError(
                "coef must be a matrix of 1, or 3 and more, problems by features + 1, "
                f"got shape={coef.shape}"
            )
        if not np.isfinite(coef).all():
            raise ValueError("coef must be finite")
        if not 0 < self.norm_bound < math.inf:
            raise ValueError(f"norm_bound must be > 0 and finite, got norm_bound={self.norm_bound}")

    @property
    def n_classes(self) -> int:
        """Number of classes: two for a single problem."""
        return max(2, len(self.coef))

    @property
    def n_features(self) -> int:
        """Number of features, the intercept not counted."""
        return int(self.coef.shape[1]) - 1

    def decision(self, x: Float[np.ndarray, "rows features"]) -> Float[np.ndarray, "rows problems"]:
        """Signed score of each problem; positive says yes."""
        if not (x.ndim == 2 and x.shape[1] == self.n_features):
            raise ValueError(f"x must have {self.n_features} columns, got shape={x.shape}")
        return np.asarray(_clip(x, self.norm_bound) @ self.coef[:, :-1].T + self.coef[:, -1])

    def predict_proba(
        self, x: Float[np.ndarray, "rows features"]
    ) -> Float[np.ndarray, "rows classes"]:
        """Sigmoid of the decision for two classes; for more, the sigmoids divided by their sum."""
        score = self.decision(x)
        if self.n_classes == 2:
            return expit(np.hstack([-score, score]))
        return np.asarray(softmax(log_expit(score), axis=1))

    def predict(self, x: Float[np.ndarray, "rows features"]) -> Int[np.ndarray, " rows"]:
        """Class code of each row; ties go to the lower code."""
        score = self.decision(x)
        return (score[:, 0] > 0).astype(np.intp) if self.n_classes == 2 else score.argmax(axis=1)


def fit_linear(
    x: Float[np.ndarray, "rows features"],
    y: Int[np.ndarray, " rows"],
    *,
    regularization: float,
    norm_bound: float,
    n_classes: int,
) -> LinearModel:
    """Train **without privacy**, on the objective that `ObjectivePerturbation` perturbs.

    For each problem, with s = +-1 and z = (x / norm_bound, 1) / sqrt(2) the lifted row, minimises
    regularization / 2 ||w||^2 + mean log(1 + exp(-s w.z)).

    Parameters
    ----------
    x
        Rows, finite; those beyond the bound are clipped.
    y
        Class codes 0 .. n_classes - 1.
    regularization
        Strength, > 0, intercept included.
    norm_bound
        Declared l2 bound of the rows, > 0.
    n_classes
        Number of classes, >= 2; two make one problem, more make one each.

    Returns
    -------
    LinearModel
        The model; it is as private as the rows it was trained on.

    Raises
    ------
    ValueError
        If the rows or the knobs break the conditions above.

    Notes
    -----
    **Guarantees.** The gradient norm at the solution is at most 1e-10; the solution is the same for
    rows and bound in any common unit, up to that unit.

    Examples
    --------
    >>> x, y = np.array([[-1.0], [-0.5], [0.5], [1.0]]), np.array([0, 0, 1, 1])
    >>> fit_linear(x, y, regularization=0.01, norm_bound=1.0, n_classes=2).predict(x)
    array([0, 0, 1, 1])
    """
    check_knobs(regularization, norm_bound, n_classes)
    check_rows(x, y, n_classes)
    row = lift(x, norm_bound)
    weight = [
        certified_minimum(row, sign, np.zeros(row.shape[1]), regularization, TOLERANCE)
        for sign in signs(y, n_classes)
    ]
    return LinearModel(to_coef(np.array(weight), norm_bound), norm_bound)


def check_knobs(regularization: float, norm_bound: float, n_classes: int) -> None:
    """Refuse knobs that no training can use."""
    if not 0 < regularization < math.inf:
        raise ValueError(f"regularization must be > 0 and finite, got {regularization=}")
    if not 0 < norm_bound < math.inf:
        raise ValueError(f"norm_bound must be > 0 and finite, got {norm_bound=}")
    if not n_classes >= 2:
        raise ValueError(f"n_classes must be >= 2, got {n_classes=}")


def check_rows(
    x: Float[np.ndarray, "rows features"], y: Int[np.ndarray, " rows"], n_classes: int
) -> None:
    """Refuse rows that cannot be trained on; messages hold shapes and knobs, never values."""
    if not (x.ndim == 2 and min(x.shape) > 0 and np.issubdtype(x.dtype, np.floating)):
        raise ValueError(f"x must be a float matrix, got shape={x.shape} dtype={x.dtype}")
    if not (y.shape == (len(x),) and np.issubdtype(y.dtype, np.integer)):
        raise ValueError(f"y must be one code per row of x, got shape={y.shape} dtype={y.dtype}")
    if not np.isfinite(x).all():
        raise ValueError("x must be finite in every cell")
    if not ((y >= 0) & (y < n_classes)).all():
        raise ValueError(f"y must hold codes 0 .. {n_classes - 1} only")


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
    unit = _shrinkage(x, norm_bound) * norm_bound * math.sqrt(2.0)
    np.divide(x, unit[:, None], out=lifted[:, :-1])
    return lifted


def to_coef(
    weight: Float[np.ndarray, "problems columns"], norm_bound: float
) -> Float[np.ndarray, "problems columns"]:
    """Rewrite weights of lifted rows as coefficients of clipped rows."""
    coef = weight / math.sqrt(2.0)
    coef[:, :-1] /= norm_bound
    return coef


def signs(y: Int[np.ndarray, " rows"], n_classes: int) -> Float[np.ndarray, "problems rows"]:
    """+1 where a row is of the problem's class, else -1; two classes are one problem, of class 1.

    Examples
    --------
    >>> signs(np.array([0, 1]), 2)
    array([[-1.,  1.]])
    """
    positive = np.arange(1, 2) if n_classes == 2 else np.arange(n_classes)
    return np.where(y == positive[:, None], 1.0, -1.0)


def _shrinkage(
    x: Float[np.ndarray, "rows features"], norm_bound: float
) -> Float[np.ndarray, " rows"]:
    """By what each row is divided to come within the bound: 1 or more."""
    with np.errstate(over="ignore", under="ignore"):
        squared = np.einsum("ij,ij->i", x, x)
    if norm_bound > LEAST and squared.max() < math.inf:
        return np.asarray(np.maximum(np.sqrt(squared) / norm_bound, 1.0))
    # squares that overflow, or that of the bound itself is lost
    peak = np.maximum(np.abs(x).max(axis=1), norm_bound)
    relative = np.linalg.norm(x / peak[:, None], axis=1) * (peak / norm_bound)
    return np.asarray(np.maximum(relative, 1.0))


def _clip(
    x: Float[np.ndarray, "rows features"], norm_bound: float
) -> Float[np.ndarray, "rows features"]:
    """Rows scaled down to the bound."""
    return np.asarray(x / _shrinkage(x, norm_bound)[:, None])
