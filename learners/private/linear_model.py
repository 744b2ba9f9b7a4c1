"""Logistic regression on rows of bounded norm: the classifier, its rows, and training without noise.

Everything here is exact and **not private**; `objective_perturbation` adds the noise. The objective
serves the privacy proof: rows are clipped to a declared norm bound and carry their intercept inside the
unit ball, so that one row moves the gradient by a known amount; the intercept is regularised like every
other coefficient, so that the objective is strongly convex.

Several classes are one problem each, "this class or another"; two classes are one problem.

>>> x, y = np.array([[-1.0], [-0.5], [0.5], [1.0]]), np.array([0, 0, 1, 1])
>>> fit_linear(x, y, regularization=0.01, norm_bound=1.0, n_classes=2).predict(x)
array([0, 0, 1, 1])
"""

import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import expit, log_expit, softmax

from learners.private.logistic_minimum import (
    MIN_BOUND,
    TOLERANCE,
    all_finite,
    certified_minimum,
    clipped,
    lifted,
)
from privacy.query import even_rows, is_whole

__all__ = [
    "LinearModel",
    "Signed",
    "Signs",
    "check_knobs",
    "check_rows",
    "check_shapes",
    "fit_linear",
    "rows_at_once",
    "to_coef",
]

# below it the solver may not reach its tolerance: a refusal after payment
MIN_REGULARIZATION = 1e-9
MAX = sys.float_info.max  # whole numbers beyond it are below infinity, and no doubles
MAX_CLASSES = 32_767
BLOCK = 65_536  # rows that are judged at once: no copy of all of them is made
MAX_CELLS = 2**22  # scores, of rows in problems, that are held at once: 32 MiB


@dataclass(frozen=True, slots=True, eq=False)
class LinearModel:
    """A linear classifier for rows clipped to `norm_bound`.

    Parameters
    ----------
    coef
        One row per problem (a single one for two classes), the intercept in the last column. It
        applies to clipped rows in the units of the data. The model keeps a read-only copy.
    norm_bound
        Rows of larger l2 norm are scaled down to it, when training and when predicting.

    Raises
    ------
    ValueError
        If `coef` is not a finite matrix with one row, or three or more, or the bound is not
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
        coef = np.array(even_rows("coef", self.coef), dtype=np.float64)
        coef.setflags(write=False)
        object.__setattr__(self, "coef", coef)
        object.__setattr__(self, "norm_bound", _plain(self.norm_bound))
        if not (coef.ndim == 2 and len(coef) not in (0, 2) and coef.shape[1] > 1):
            raise ValueError(
                "coef must be a matrix of 1, or 3 and more, problems by features + 1, "
                f"got shape={coef.shape}"
            )
        if not np.isfinite(coef).all():
            raise ValueError("coef must be finite")
        if not 0 < self.norm_bound <= MAX:
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
        """Return the signed score of each problem; positive means yes."""
        x = even_rows("x", x)
        if not (x.ndim == 2 and x.shape[1] == self.n_features):
            raise ValueError(f"x must have {self.n_features} columns, got shape={x.shape}")
        return np.asarray(clipped(x, self.norm_bound) @ self.coef[:, :-1].T + self.coef[:, -1])

    def predict_proba(
        self, x: Float[np.ndarray, "rows features"]
    ) -> Float[np.ndarray, "rows classes"]:
        """Return the sigmoid of the decision for two classes; for more, the sigmoids over their sum."""
        score = self.decision(x)
        if self.n_classes == 2:
            return expit(np.hstack([-score, score]))
        return np.asarray(softmax(log_expit(score), axis=1))

    def predict(self, x: Float[np.ndarray, "rows features"]) -> Int[np.ndarray, " rows"]:
        """Return the class code of each row; ties go to the lower code."""
        x = even_rows("x", x)
        size = rows_at_once(BLOCK, len(self.coef))
        blocks = range(0, max(len(x), 1), size)
        return np.concatenate([self._predict(x[first : first + size]) for first in blocks])

    def _predict(self, x: Float[np.ndarray, "rows features"]) -> Int[np.ndarray, " rows"]:
        score = self.decision(x)
        return (score[:, 0] > 0).astype(np.intp) if self.n_classes == 2 else score.argmax(axis=1)


def fit_linear(
    x: Float[np.ndarray, "rows features"],
    y: Int[np.ndarray, " rows"],
    *,
    regularization: float,
    norm_bound: float,
    n_classes: int,
    places: Int[np.ndarray, " _"] | None = None,
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
        Strength, >= 1e-9, intercept included.
    norm_bound
        Declared l2 bound of the rows, >= 1e-100.
    n_classes
        Number of classes, 2 to 32,767; two make one problem, more make one each.
    places
        Which rows to train on; all of them if None.

    Returns
    -------
    LinearModel
        The model, which is as private as its training rows.

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
    regularization, norm_bound = _plain(regularization), _plain(norm_bound)
    check_knobs(regularization, norm_bound, n_classes)
    x, y = even_rows("x", x), even_rows("y", y)
    check_rows(x, y, n_classes)
    row = lifted(x, norm_bound, places)
    weight = [
        certified_minimum(row, sign, np.zeros(row.shape[1]), regularization, TOLERANCE)
        for sign in Signs(y if places is None else y[places], n_classes)
    ]
    return LinearModel(to_coef(np.array(weight), norm_bound), norm_bound)


def check_knobs(regularization: float, norm_bound: float, n_classes: int) -> None:
    """Raise ValueError unless the numbers can be trained with, and there are two classes at least."""
    if not MIN_REGULARIZATION <= _plain(regularization) <= MAX:
        raise ValueError(
            f"regularization must be >= {MIN_REGULARIZATION} and finite, got {regularization=}"
        )
    if not MIN_BOUND <= _plain(norm_bound) <= MAX:
        raise ValueError(f"norm_bound must be >= {MIN_BOUND} and finite, got {norm_bound=}")
    if not (is_whole(n_classes) and 2 <= n_classes <= MAX_CLASSES):
        raise ValueError(
            f"n_classes must be a whole number >= 2 and at most {MAX_CLASSES}, got {n_classes=}"
        )


def _plain(number: float) -> float:
    """Return one of Python's numbers for NumPy's: a short one next to the largest double overflows."""
    return number.item() if isinstance(number, np.generic) else number


def check_rows(
    x: Float[np.ndarray, "rows features"], y: Int[np.ndarray, " rows"], n_classes: int
) -> None:
    """Raise ValueError for rows that cannot be trained on; messages hold shapes and knobs, never values.

    Whether it raises can depend on values: it is for training without privacy.
    """
    check_shapes(x, y)
    if not all_finite(x):
        raise ValueError("x must be finite in every cell")
    if not ((y >= 0) & (y < n_classes)).all():
        raise ValueError(f"y must hold codes 0 .. {n_classes - 1} only")


def check_shapes(x: Float[np.ndarray, "rows features"], y: Int[np.ndarray, " rows"]) -> None:
    """Raise ValueError unless these are a float matrix and one code per row; it reads no value."""
    if not (x.ndim == 2 and min(x.shape) > 0 and np.issubdtype(x.dtype, np.floating)):
        raise ValueError(f"x must be a float matrix, got shape={x.shape} dtype={x.dtype}")
    if not (y.shape == (len(x),) and np.issubdtype(y.dtype, np.integer)):
        raise ValueError(f"y must be one code per row of x, got shape={y.shape} dtype={y.dtype}")


def to_coef(
    weight: Float[np.ndarray, "problems columns"], norm_bound: float
) -> Float[np.ndarray, "problems columns"]:
    """Rewrite weights of lifted rows as coefficients of clipped rows."""
    coef = weight / math.sqrt(2.0)
    coef[:, :-1] /= norm_bound
    return coef


@dataclass(frozen=True, slots=True, eq=False)
class Signs:
    """The sign of each row in each problem, times the row's weight, computed on request.

    Parameters
    ----------
    y
        Class codes, **private**.
    n_classes
        Number of classes; two are one problem, class 1.
    weight
        Weight of each row, **private**; None for 1.

    Notes
    -----
    **Guarantees.** It behaves as a problems by rows matrix when it is iterated, indexed by ``[:, rows]``, or
    converted to an array.
    **Cost.** Codes and weights are held, and never a number for each row in each problem.

    Examples
    --------
    >>> [one.tolist() for one in Signs(np.array([0, 1]), 3)[:, 1:]]
    [[-1.0], [1.0], [-1.0]]
    """

    y: Int[np.ndarray, " rows"] = field(repr=False)
    n_classes: int
    weight: Float[np.ndarray, " rows"] | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return 1 if self.n_classes == 2 else self.n_classes

    def __iter__(self) -> Iterator[Float[np.ndarray, " rows"]]:
        for problem in range(len(self)):
            yield self[problem]

    def __getitem__(self, place: Any) -> Any:
        """Return one problem's signs; of ``[:, rows]``, the signs of these rows."""
        if isinstance(place, tuple):
            part = place[1]
            weight = None if self.weight is None else self.weight[part]
            return replace(self, y=self.y[part], weight=weight)
        return self._times_weight(self.y == place + (self.n_classes == 2))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        first = int(self.n_classes == 2)
        return self._times_weight(self.y == np.arange(first, first + len(self))[:, None])

    def _times_weight(self, positive: Bool[np.ndarray, "*any rows"]) -> np.ndarray:
        sign = np.where(positive, 1.0, -1.0)
        return sign if self.weight is None else sign * self.weight


Signed: TypeAlias = Float[np.ndarray, "problems rows"] | Signs
"""Signs of rows in problems, of which an algorithm asks for a problem, or for a block of rows."""


def rows_at_once(most: int, n_problems: int) -> int:
    """Return how many rows to score at once: `most`, or fewer where there are many problems.

    Examples
    --------
    >>> rows_at_once(65_536, 3), rows_at_once(65_536, 10_000)
    (65536, 419)
    """
    return max(1, min(most, MAX_CELLS // n_problems))
