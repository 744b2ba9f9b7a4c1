"""The relevance vector machine: a sparse Bayesian classifier with probabilities.

>>> x = np.array([[-2.0], [-1.0], [-0.5], [0.5], [1.0], [2.0]])
>>> RelevanceVectorClassifier().fit(x, [0, 0, 0, 1, 1, 1]).predict([[-3.0], [3.0]])
array([0, 1])
"""

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from scipy.linalg import cho_factor, cho_solve
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

__all__ = ["RelevanceVectorClassifier", "RelevanceVectors", "relevance_vectors"]

MAX_ROWS = 2000  # without a landmark basis: a kernel of all rows
MAX_PRECISION = 1e6  # from which a weight is pruned, in units of the scaled kernel
TOLERANCE = 1e-2  # largest change of a log precision at the end
LEAST_GAIN = 1e-6  # least change of twice the log evidence
_SMALLEST = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class RelevanceVectors:
    """Result of :func:`relevance_vectors`.

    Parameters
    ----------
    active
        Columns of the basis that were kept, in order.
    weight
        Posterior mode of their weights.
    precision
        Prior precision of each weight.
    covariance
        Covariance of the weights in the posterior (Laplace approximation).
    n_iter, converged
        Updates of the precisions, and whether these converged.
    """

    active: Int[np.ndarray, " active"]
    weight: Float[np.ndarray, " active"]
    precision: Float[np.ndarray, " active"]
    covariance: Float[np.ndarray, "active active"]
    n_iter: int
    converged: bool


def relevance_vectors(
    basis: Float[np.ndarray, "points columns"], sign: Float[np.ndarray, " points"], *,
    max_iter: int = 1000,
) -> RelevanceVectors:  # fmt: skip
    """Maximise the marginal likelihood of a logistic model over one prior precision for each weight.

    Parameters
    ----------
    basis
        Values of the basis functions, of about unit size.
    sign
        +1 or -1 for each point.
    max_iter
        Updates of the precisions, at most.

    Notes
    -----
    The posterior mode under the current precisions is found by Newton steps, halved until they gain; then
    the one column whose precision changes the marginal likelihood most gets its best precision: it comes
    in, changes or goes out. MacKay's update of all columns at once, which the first paper has, needs
    hundreds of steps with all of them.

    **Cost.** O(n N M) for a step with N columns of which M are active.

    References
    ----------
    .. [1] Tipping, "Sparse Bayesian learning and the relevance vector machine", JMLR 1 (2001).
    .. [2] Tipping, Faul, "Fast marginal likelihood maximisation for sparse Bayesian models", AISTATS 2003.

    Examples
    --------
    >>> basis = np.array([[1.0, -2.0], [1.0, -1.0], [1.0, 1.0], [1.0, 2.0]])
    >>> relevance_vectors(basis, np.array([-1.0, -1.0, 1.0, 1.0])).active
    array([1])
    """
    target = (sign > 0).astype(float)
    size = np.square(basis).sum(axis=0)  # 0 for a column of zeros, which explains nothing
    first = int(np.argmax((basis.T @ (target - 0.5)) ** 2 / np.where(size > 0, size, 1.0)))
    active, alpha, weight = np.array([first]), np.array([1.0]), np.zeros(1)
    step, converged = 0, False
    while step < max_iter and not converged:
        step += 1
        weight, covariance = _mode(basis[:, active], sign, alpha, weight)
        p = expit(basis[:, active] @ weight)
        quality, sparsity = _factors(basis, basis[:, active], p * (1 - p), target - p, covariance)
        column, value, converged = _best_change(quality, sparsity, active, alpha)
        kept = active != column
        before = weight[~kept] if not kept.all() else np.zeros(1)
        active, alpha, weight = active[kept], alpha[kept], weight[kept]
        if value < MAX_PRECISION:
            place = int(np.searchsorted(active, column))
            active, alpha = np.insert(active, place, column), np.insert(alpha, place, value)
            weight = np.insert(weight, place, before[0])
    weight, covariance = _mode(basis[:, active], sign, alpha, weight)
    return RelevanceVectors(active, weight, alpha, covariance, step, converged)


def _factors(
    basis: Float[np.ndarray, "points columns"], used: Float[np.ndarray, "points active"],
    slope: Float[np.ndarray, " points"], residual: Float[np.ndarray, " points"],
    covariance: Float[np.ndarray, "active active"],
) -> tuple[Float[np.ndarray, " columns"], Float[np.ndarray, " columns"]]:  # fmt: skip
    """Return what each column still explains (Q), and how much of it the active ones explain (S)."""
    shared = basis.T @ (used * slope[:, None])
    own = np.square(basis).T @ slope - np.einsum("ij,jk,ik->i", shared, covariance, shared)
    return basis.T @ residual, np.maximum(own, _SMALLEST)


def _best_change(
    quality: Float[np.ndarray, " columns"], sparsity: Float[np.ndarray, " columns"],
    active: Int[np.ndarray, " active"], alpha: Float[np.ndarray, " active"],
) -> tuple[int, float, bool]:  # fmt: skip
    """Return the column whose precision changes the likelihood most, that precision, and whether to stop.

    An infinite precision takes a column out. The last one is never taken out.
    """
    precision = np.full(len(quality), np.inf)
    precision[active] = alpha
    rest = np.maximum(1 - sparsity / precision, _SMALLEST)  # alpha / (alpha - S) without those in
    q, s = quality / rest, sparsity / rest
    theta = q**2 - s
    updated = np.where(theta > 0, s**2 / np.where(theta > 0, theta, 1), np.inf)
    updated[updated >= MAX_PRECISION] = np.inf
    if len(active) == 1 and np.isinf(updated[active[0]]):
        updated[active[0]] = MAX_PRECISION / 2
    gain = _log_evidence(q, s, updated) - _log_evidence(q, s, precision)
    column = int(np.argmax(gain))
    is_small = np.isinf(updated) == np.isinf(precision)
    both = is_small & np.isfinite(updated)
    is_small[both] = np.abs(np.log(updated[both] / precision[both])) < TOLERANCE
    return column, float(updated[column]), bool(is_small.all() or gain[column] < LEAST_GAIN)


def _log_evidence(
    q: Float[np.ndarray, " columns"], s: Float[np.ndarray, " columns"],
    alpha: Float[np.ndarray, " columns"],
) -> Float[np.ndarray, " columns"]:  # fmt: skip
    """Return twice the log marginal likelihood as a function of one column's precision; 0 without it."""
    finite = np.where(np.isfinite(alpha), alpha, 1.0)
    found = np.log(finite / (finite + s)) + q**2 / (finite + s)
    return np.where(np.isfinite(alpha), found, 0.0)


def _mode(
    basis: Float[np.ndarray, "points active"], sign: Float[np.ndarray, " points"],
    alpha: Float[np.ndarray, " active"], weight: Float[np.ndarray, " active"],
) -> tuple[Float[np.ndarray, " active"], Float[np.ndarray, "active active"]]:  # fmt: skip
    """Return the posterior mode and inverse Hessian for given precisions."""

    def loss(w: Float[np.ndarray, " active"]) -> float:
        return float(np.logaddexp(0, -sign * (basis @ w)).sum() + alpha @ w**2 / 2)

    now = loss(weight)
    for _ in range(50):
        p = expit(basis @ weight)
        gradient = basis.T @ (p - (sign > 0)) + alpha * weight
        hessian = (basis * (p * (1 - p))[:, None]).T @ basis
        hessian[np.diag_indices_from(hessian)] += alpha
        factor = cho_factor(hessian)
        direction = cho_solve(factor, gradient)
        if gradient @ direction < 1e-8 * max(now, 1.0):
            break
        length, after = 1.0, loss(weight - direction)
        while after > now and length > 1e-6:
            length /= 2
            after = loss(weight - length * direction)
        if after >= now:
            break
        weight, now = weight - length * direction, after
    return weight, np.asarray(cho_solve(factor, np.eye(len(weight))))


class RelevanceVectorClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Kernel classifier with few basis points and posterior probabilities.

    Parameters
    ----------
    kernel
        A name of `sklearn.metrics.pairwise.pairwise_kernels`, or a function of two rows.
    gamma, degree, coef0
        Parameters of the kernel, if it has them.
    n_landmarks
        Basis points drawn from the rows; all rows by default, up to 2000.
    max_iter
        Updates of the precisions, at most.
    random_state
        Seed of the landmarks.

    Attributes
    ----------
    classes_
        The two classes.
    relevance_
        Row numbers of the basis points that were kept, in order.
    relevance_vectors_
        Those rows.
    dual_coef_
        Weight of each in the decision function.
    alpha_
        Prior precision of each weight, of the kernel divided by its mean absolute value.
    intercept_
        Weight of the constant.
    n_iter_, converged_
        Updates of the precisions, and whether these converged.

    Notes
    -----
    Probabilities average the logistic function over the weights' posterior (MacKay's approximation), so
    that they are less sure where the posterior is wide. The posterior is a Laplace approximation and
    sparse basis points far from all data leave it overconfident: read the probabilities near the data.

    **Guarantees.** Scaling the kernel by a constant changes no prediction; `predict` takes the class of
    larger probability.

    **Cost.** O(n N M) for a step with N basis points of which M are active.

    Raises
    ------
    ValueError
        At fit, if there are not two classes, more than 2000 rows without `n_landmarks`, or a kernel that
        is "precomputed" or not finite.

    References
    ----------
    .. [1] Tipping, "Sparse Bayesian learning and the relevance vector machine", JMLR 1 (2001).

    Examples
    --------
    >>> x = np.linspace(-1, 1, 40)[:, None]
    >>> model = RelevanceVectorClassifier(kernel="rbf").fit(x, np.abs(x[:, 0]) > 0.5)
    >>> len(model.relevance_) < 8, float(model.score(x, np.abs(x[:, 0]) > 0.5))
    (True, 1.0)
    """

    classes_: Any
    relevance_: Int[np.ndarray, " active"]
    relevance_vectors_: Float[np.ndarray, "active features"]
    dual_coef_: Float[np.ndarray, " active"]
    alpha_: Float[np.ndarray, " active"]
    intercept_: float
    n_iter_: int
    converged_: bool

    def __init__(
        self,
        kernel: str | Callable[..., float] = "linear",
        *,
        gamma: float | None = None,
        degree: float = 3,
        coef0: float = 1,
        n_landmarks: int | None = None,
        max_iter: int = 1000,
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.n_landmarks = n_landmarks
        self.max_iter = max_iter
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> "RelevanceVectorClassifier":
        """Find the basis points and their weights."""
        x, y = validate_data(self, X, y, dtype=np.float64)
        sign = self._sign(y)
        rows = self._landmarks(len(x))
        if isinstance(self.kernel, str) and self.kernel == "precomputed":
            raise ValueError(
                "kernel must be computed from rows, got kernel='precomputed'; pass a name or a function"
            )
        most: Any = self.max_iter
        if not (isinstance(most, Integral) and int(most) >= 1):
            raise ValueError(f"max_iter must be >= 1 and whole, got max_iter={most!r}")
        if not (self.gamma is None or (isinstance(self.gamma, Real) and 0 < self.gamma < np.inf)):
            raise ValueError(f"gamma must be > 0 or None, got gamma={self.gamma!r}")
        kernel = self._kernel(x, x[rows])
        with np.errstate(over="ignore", invalid="ignore"):
            if not np.square(kernel).sum() < np.inf:
                raise ValueError(
                    "the kernel must be finite, got values that are not: scale the rows"
                )
        self._scale = float(np.abs(kernel).mean()) or 1.0
        basis = np.column_stack([np.ones(len(x)), kernel / self._scale])
        found = relevance_vectors(basis, sign, max_iter=self.max_iter)
        self._found, points = found, found.active > 0
        self.relevance_ = rows[found.active[points] - 1]
        self.relevance_vectors_ = x[self.relevance_]
        self.dual_coef_ = found.weight[points] / self._scale
        self.alpha_ = found.precision[points]
        self.intercept_ = float(found.weight[~points].sum())
        self.n_iter_, self.converged_ = found.n_iter, found.converged
        return self

    def decision_function(self, X: Any) -> Float[np.ndarray, " rows"]:
        """Return the log odds of the second class at the posterior mode."""
        return np.asarray(self._basis(X) @ self._found.weight)

    def predict_proba(self, X: Any) -> Float[np.ndarray, "rows 2"]:
        """Return the probability of each class."""
        basis = self._basis(X)
        variance = np.einsum("ij,jk,ik->i", basis, self._found.covariance, basis)
        p = expit(basis @ self._found.weight / np.sqrt(1 + np.pi * variance / 8))
        return np.column_stack([1 - p, p])

    def predict(self, X: Any) -> Any:
        """Return the class of each row."""
        decision = self.decision_function(X)
        return self.classes_[(decision > 0).astype(int)]

    def _basis(self, X: Any) -> Float[np.ndarray, "rows active"]:
        check_is_fitted(self)
        x = validate_data(self, X, dtype=np.float64, reset=False)
        kernel = np.zeros((len(x), 0))
        if len(self.relevance_):
            kernel = self._kernel(x, self.relevance_vectors_) / self._scale
        constant = np.ones((len(x), int((self._found.active == 0).sum())))
        return np.hstack([constant, kernel])

    def _kernel(
        self, x: Float[np.ndarray, "rows features"], other: Float[np.ndarray, "others features"]
    ) -> Float[np.ndarray, "rows others"]:
        known = {"gamma": self.gamma, "degree": self.degree, "coef0": self.coef0}
        if callable(self.kernel):
            return np.asarray(pairwise_kernels(x, other, metric=self.kernel))
        return np.asarray(
            pairwise_kernels(x, other, metric=self.kernel, filter_params=True, **known)
        )

    def _landmarks(self, n: int) -> Int[np.ndarray, " basis"]:
        if self.n_landmarks is None:
            if n > MAX_ROWS:
                raise ValueError(
                    f"more than {MAX_ROWS} rows need n_landmarks, got {n} rows: pass n_landmarks=500, say"
                )
            return np.arange(n)
        if not (isinstance(self.n_landmarks, Integral) and 1 <= self.n_landmarks <= n):
            raise ValueError(
                f"n_landmarks must be a whole number from 1 to {n}, got {self.n_landmarks!r}"
            )
        rng = np.random.default_rng(self.random_state)
        return np.sort(rng.choice(n, self.n_landmarks, replace=False))

    def _sign(self, y: Any) -> Float[np.ndarray, " rows"]:
        check_classification_targets(y)
        self.classes_ = np.unique(y)
        if len(self.classes_) != 2:
            raise ValueError(
                "Only binary classification is supported. y must have two classes, got"
                f" {len(self.classes_)} class{'es' * (len(self.classes_) != 1)}"
            )
        return np.where(y == self.classes_[1], 1.0, -1.0)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags
