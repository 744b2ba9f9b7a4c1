"""The potential support vector machine as scikit-learn estimators.

>>> machine = PotentialSVC(epsilon=0.1).fit([[0.0], [1.0], [4.0], [5.0]], ["a", "a", "b", "b"])
>>> machine.predict([[0.5], [4.5]]).tolist()
['a', 'b']
"""

import math
import sys
from collections.abc import Iterator, Mapping
from numbers import Integral, Real
from typing import Any, Literal, TypeAlias

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.cluster import kmeans_plusplus
from sklearn.utils import check_random_state, compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from learners.svm.potential_program import BoxLasso, ColumnMoments, box_lasso, column_moments
from learners.svm.proximities import Proximity, coulomb_radii, kernel_values

__all__ = ["PotentialSVC", "PotentialSVR"]

Formulation: TypeAlias = Literal["sparse", "box", "ridge"]

MAX_DOUBLE = int(sys.float_info.max)
FORMULATIONS = ("sparse", "box", "ridge")
SELECTIONS = ("random", "kmeans++")
FEW = 300  # landmarks by default
BLOCK = 4096  # rows whose proximities are held at once
SOLVED = 1e-6  # a system of unit targets solved with a larger error is singular


class _PotentialMachine(BaseEstimator):  # type: ignore[misc]
    """Landmarks, proximities, columns and programs: what the classifier and the regression share."""

    def __init__(
        self,
        kernel: str | Proximity = "plummer",
        kernel_params: dict[str, Any] | None = None,
        *,
        n_landmarks: int | str | None = None,
        landmark_selection: str = "random",
        epsilon: float = 0.05,
        C: float = math.inf,
        formulation: Formulation = "sparse",
        rho: float = 1.0,
        fit_intercept: bool = True,
        tol: float = 1e-4,
        max_iter: int = 2000,
        random_state: int | np.random.Generator | np.random.RandomState | None = None,
    ) -> None:
        self.kernel = kernel
        self.kernel_params = kernel_params
        self.n_landmarks = n_landmarks
        self.landmark_selection = landmark_selection
        self.epsilon = epsilon
        self.C = C
        self.formulation = formulation
        self.rho = rho
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    def _fit_columns(
        self,
        row: Float[np.ndarray, "rows features"],
        target: Float[np.ndarray, "rows problems"],
        weight: Float[np.ndarray, " rows"],
    ) -> None:
        """Learn every problem; sets the attributes that the classifier and the regression share."""
        self._check_knobs()
        self._kernel = self.kernel
        self._choose_landmarks(row)
        if self.formulation == "ridge":
            self._fit_ridge(row, target)
        else:
            self._fit_program(row, target, weight)
        self.support_ = np.flatnonzero((self.dual_coef_ != 0).any(axis=0))
        self._slope = np.divide(
            self.dual_coef_,
            self.column_scale_,
            out=np.zeros_like(self.dual_coef_),
            where=self.column_scale_ > 0,
        )[:, self.support_]
        self._offset = self.intercept_ - self._slope @ self.column_mean_[self.support_]

    def _check_knobs(self) -> None:
        if self.formulation not in FORMULATIONS:
            raise ValueError(f"formulation must be one of {FORMULATIONS}, got {self.formulation!r}")
        if self.landmark_selection not in SELECTIONS:
            raise ValueError(
                f"landmark_selection must be one of {SELECTIONS}, got {self.landmark_selection!r}"
            )
        for name in ("epsilon", "C", "rho", "tol"):
            value = getattr(self, name)
            if not isinstance(value, Real) or (isinstance(value, int) and value > MAX_DOUBLE):
                raise ValueError(
                    f"{name} must be a number that a double holds, got {name}={value!r}"
                )
        if not (0 <= self.epsilon < math.inf and self.C > 0 and 1 <= self.rho < math.inf):
            raise ValueError(
                "epsilon must be >= 0, C > 0 and rho >= 1, "
                f"got epsilon={self.epsilon}, C={self.C}, rho={self.rho}"
            )
        if not 0 <= self.tol < math.inf:
            raise ValueError(f"tol must be >= 0 and finite, got tol={self.tol}")
        if not (isinstance(self.max_iter, Integral) and self.max_iter >= 1):
            raise ValueError(
                f"max_iter must be a whole number >= 1, got max_iter={self.max_iter!r}"
            )
        if not isinstance(self.kernel_params, Mapping | None):
            raise ValueError(
                f"kernel_params must be a dict or None, got kernel_params={self.kernel_params!r}"
            )

    def _choose_landmarks(self, row: Float[np.ndarray, "rows features"]) -> None:
        """Choose the columns, and what their kernel takes from them."""
        if self.kernel == "precomputed":
            for name in ("landmarks_", "kernel_params_"):
                self.__dict__.pop(name, None)  # an earlier fit may have had them
            return
        count = self._n_columns(len(row))
        given = self.random_state
        random = (
            np.random.RandomState(given.bit_generator)
            if isinstance(given, np.random.Generator)
            else check_random_state(given)
        )
        if count == len(row):
            chosen = np.arange(len(row))
        elif self.landmark_selection == "random":
            chosen = np.sort(random.choice(len(row), size=count, replace=False))
        else:
            chosen = np.sort(kmeans_plusplus(row, count, random_state=random)[1])
        self.landmarks_ = row[chosen]
        self.kernel_params_ = dict(self.kernel_params or {})
        if self.kernel == "plummer" and "softening" not in self.kernel_params_:
            with np.errstate(over="ignore", invalid="ignore"):  # refused as a softening
                spread = math.sqrt(self.landmarks_.var(axis=0).sum())
            self.kernel_params_["softening"] = spread if spread > 0 else 1.0
        if self.kernel == "coulomb":
            if "radius" in self.kernel_params_:
                raise ValueError(
                    "kernel_params must not hold radius: it is half of the way to the nearest landmark"
                )
            with np.errstate(over="ignore", invalid="ignore"):  # refused as a proximity
                self.kernel_params_["radius"] = coulomb_radii(self.landmarks_)

    def _n_columns(self, n_rows: int) -> int:
        if self.formulation == "ridge":
            if self.n_landmarks not in (None, "all"):
                raise ValueError(
                    'formulation="ridge" needs every row as a landmark: set n_landmarks="all", '
                    f"got n_landmarks={self.n_landmarks}"
                )
            return n_rows
        if self.n_landmarks is None:
            return min(FEW, n_rows)
        if self.n_landmarks == "all":
            return n_rows
        if not (isinstance(self.n_landmarks, Integral) and self.n_landmarks >= 1):
            raise ValueError(
                f'n_landmarks must be a number >= 1, "all" or None, got {self.n_landmarks!r}'
            )
        return min(int(self.n_landmarks), n_rows)

    def _proximities(
        self, row: Float[np.ndarray, "rows features"], kept: np.ndarray | slice, first: int = 0
    ) -> Float[np.ndarray, "rows columns"]:
        """Return a new array of proximities of rows, numbered from `first`, to the kept columns."""
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # refused beneath
            found = self._computed(row, kept)
        if not np.isfinite(found).all():
            n = row.shape[1] if self._kernel == "precomputed" else len(self.landmarks_)
            _refuse_missing(found, first, np.arange(n)[kept], self._kernel)
        return found

    def _computed(
        self, row: Float[np.ndarray, "rows features"], kept: np.ndarray | slice
    ) -> Float[np.ndarray, "rows columns"]:
        """Return the kernel's values for rows and kept columns."""
        if self._kernel == "precomputed":
            return row[:, kept].astype(np.float64)
        given = self.kernel_params_
        if self._kernel == "coulomb":
            given = {**given, "radius": given["radius"][kept]}
        return kernel_values(self._kernel, row, self.landmarks_[kept], given)

    def _fit_program(
        self,
        row: Float[np.ndarray, "rows features"],
        target: Float[np.ndarray, "rows problems"],
        weight: Float[np.ndarray, " rows"],
    ) -> None:
        def blocks() -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
            for start in range(0, len(row), BLOCK):
                part = slice(start, start + BLOCK)
                yield self._proximities(row[part], slice(None), start), target[part], weight[part]

        moments = column_moments(blocks(), centre=self.fit_intercept)
        found = [self._solve(moments, linear) for linear in moments.linear]
        self.dual_coef_ = np.array([one.coef for one in found])
        self.column_mean_, self.column_scale_ = moments.mean, moments.scale
        self.dropped_columns_ = np.flatnonzero(moments.scale == 0)
        self.intercept_ = moments.target_mean
        self.n_iter_ = max(1, *(one.n_iter for one in found))
        self.kkt_violation_ = max(one.violation for one in found) / moments.weight
        self.epsilon_max_ = float(np.abs(moments.linear).max() / moments.weight)
        # the ridge may move what stopped at tol
        self.converged_ = self.kkt_violation_ <= 2 * self.tol

    def _solve(self, moments: ColumnMoments, linear: Float[np.ndarray, " columns"]) -> BoxLasso:
        return box_lasso(
            moments.gram,
            linear,
            epsilon=self.epsilon * moments.weight if self.formulation == "sparse" else 0.0,
            bound=self.C,
            tol=self.tol * moments.weight,
            max_iter=self.max_iter,
        )

    def _fit_ridge(
        self, row: Float[np.ndarray, "rows features"], target: Float[np.ndarray, "rows problems"]
    ) -> None:
        P = self._proximities(row, slice(None))
        if not P.shape[0] == P.shape[1]:
            raise ValueError(
                f'formulation="ridge" needs a square matrix of proximities, got shape={P.shape}'
            )
        self.intercept_ = target.mean(axis=0) * bool(self.fit_intercept)
        system = P + (self.rho - 1) * np.diag(P.diagonal())
        try:
            coef = np.linalg.solve(system, target - self.intercept_)
        except np.linalg.LinAlgError:
            coef = np.full_like(target, math.nan)
        self.kkt_violation_ = float(np.abs(system @ coef - target + self.intercept_).max())
        if not self.kkt_violation_ <= SOLVED:  # rounding seldom leaves a pivot of zero
            raise ValueError(f"rho must be larger: the proximities are singular at rho={self.rho}")
        self.dual_coef_ = coef.T
        self.column_mean_, self.column_scale_ = np.zeros(len(P)), np.ones(len(P))
        self.dropped_columns_ = np.zeros(0, dtype=np.intp)
        self.n_iter_, self.epsilon_max_, self.converged_ = 1, 0.0, True

    def _potential(self, X: ArrayLike) -> Float[np.ndarray, "rows problems"]:
        """Return each row's potential in every problem."""
        check_is_fitted(self)
        row = self._rows(X)
        potential = np.tile(self._offset, (len(row), 1))
        for start in range(0, len(row), BLOCK) if self.support_.size else ():
            part = slice(start, start + BLOCK)
            potential[part] += self._proximities(row[part], self.support_, start) @ self._slope.T
        return potential

    def _rows(self, *given: ArrayLike, **named: Any) -> Any:
        """Return checked rows; given y, set the number of features, and return rows and y."""
        fits = len(given) > 1
        # a missing proximity is named by its column
        finite = (self.kernel if fits else self._kernel) != "precomputed"
        return validate_data(
            self, *given, reset=fits, dtype=np.float64, ensure_all_finite=finite, **named
        )


class PotentialSVC(ClassifierMixin, _PotentialMachine):  # type: ignore[misc]
    """Classifier whose score is a sum of few columns of proximities, of any shape and sign.

    With K_j the proximities of all rows to column object j, standardized, and y = -1 or +1 centred, fits

        min over a:  1/2 ||K a - y||^2 + epsilon n ||a||_1   where every |a_j| <= C

    and predicts the sign of sum_j a_j K_j(x) + b. Several classes are one such problem each, against the
    others; all share K'K.

    Parameters
    ----------
    kernel
        "plummer" or "coulomb" (`plummer_kernel`, `coulomb_kernel`), a name that scikit-learn's
        ``pairwise_kernels`` knows ("rbf", "poly", ...), a function of rows and landmarks, or "precomputed":
        X is then the matrix of proximities, one row per row, one column per column object. It need not be
        square, symmetric or positive. Its rows are split by cross-validation, its columns never.
    kernel_params
        What the kernel takes. Plummer's softening is by default the landmarks' root mean square deviation.
    n_landmarks
        Column objects, taken from the rows: a number, "all", or None for 300 at most.
    landmark_selection
        "random" or "kmeans++".
    epsilon
        >= 0: a column is used only if its correlation with the residual of y, times the residual's
        deviation, reaches it. A share: above `epsilon_max_`, at most 1, no column is used.
    C
        > 0: bound on one column's coefficient, so that no single column decides.
    formulation
        "sparse" as above; "box": epsilon is 0; "ridge": (P + (rho - 1) diag P) a = y - mean y on a square
        matrix as it is, without epsilon and C.
    rho
        >= 1, for "ridge" alone.
    fit_intercept
        False: neither columns nor y are centred.
    class_weight
        None, "balanced" or a weight per class, by which its rows count.
    tol
        Violation of the optimality conditions allowed, in the unit of `epsilon`.
    max_iter
        Number of times that the solver may let columns in.
    random_state
        Seed, or generator, of the choice of landmarks.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class names.
    dual_coef_ : ndarray of shape (n_problems, n_columns)
        Coefficients of standardized columns; one problem for two classes, else one per class.
    support_ : ndarray of shape (n_support,)
        Columns that a problem uses: all that predictions need.
    column_mean_, column_scale_ : ndarray of shape (n_columns,)
        Mean and scale by which columns are standardized; a constant one has scale 0.
    dropped_columns_ : ndarray
        Constant columns.
    intercept_ : ndarray of shape (n_problems,)
        b, the mean of y.
    landmarks_ : ndarray of shape (n_columns, n_features)
        Rows behind the columns; missing for precomputed proximities.
    epsilon_max_ : float
        The smallest `epsilon` at which every coefficient is zero, `support_` empty, and predictions
        constant.
    n_iter_ : int
        Number of times that the solver let columns in.
    kkt_violation_ : float
        Violation of the optimality conditions, in the unit of `epsilon`.
    converged_ : bool
        False if `max_iter` was reached before the violation fell to `tol`.
    n_features_in_ : int
        Number of features, or of columns.

    Raises
    ------
    ValueError
        From `fit`, if a parameter breaks its condition, there is one class, a proximity is missing, or
        landmarks of the Coulomb kernel coincide.

    Notes
    -----
    **When not to use it.** It is no better than an `SVC` on a kernel that is positive definite. Use it
    where the matrix is not square or not positive, or where columns must be few enough to read.

    Two of the published machines are known under other names: "ridge" is kernel ridge regression on
    y = -1, +1, and the rho-SVM of [1]_ is the support vector machine with squared hinge loss.

    **Guarantees.** Without C the coefficients are those of the lasso; "ridge" is kernel ridge regression;
    rows ten times as far leave the Coulomb kernel's predictions unchanged; a missing proximity is named
    and refused.

    References
    ----------
    .. [1] Hochreiter, Mozer, Obermayer, "Coulomb classifiers: generalizing support vector machines via an
       analogy to electrostatic systems", NIPS (2002).
    .. [2] Hochreiter, Obermayer, "Support vector machines for dyadic data", Neural Computation 18 (2006).

    Examples
    --------
    >>> x, y = [[0.0], [1.0], [4.0], [5.0]], ["a", "a", "b", "b"]
    >>> machine = PotentialSVC(kernel="coulomb", epsilon=0.2).fit(x, y)
    >>> machine.predict([[0.5], [4.5]]).tolist(), machine.support_.tolist()
    (['a', 'b'], [0, 1, 2, 3])
    """

    def __init__(
        self,
        kernel: str | Proximity = "plummer",
        kernel_params: dict[str, Any] | None = None,
        *,
        n_landmarks: int | str | None = None,
        landmark_selection: str = "random",
        epsilon: float = 0.05,
        C: float = math.inf,
        formulation: Formulation = "sparse",
        rho: float = 1.0,
        fit_intercept: bool = True,
        class_weight: dict[Any, float] | str | None = None,
        tol: float = 1e-4,
        max_iter: int = 2000,
        random_state: int | np.random.Generator | np.random.RandomState | None = None,
    ) -> None:
        super().__init__(
            kernel,
            kernel_params,
            n_landmarks=n_landmarks,
            landmark_selection=landmark_selection,
            epsilon=epsilon,
            C=C,
            formulation=formulation,
            rho=rho,
            fit_intercept=fit_intercept,
            tol=tol,
            max_iter=max_iter,
            random_state=random_state,
        )
        self.class_weight = class_weight

    def fit(self, X: ArrayLike, y: ArrayLike) -> "PotentialSVC":
        """Learn from rows, or from rows of proximities, and their class names."""
        row, label = self._rows(X, y)
        check_classification_targets(label)
        self.classes_, code = np.unique(label, return_inverse=True)
        if not len(self.classes_) >= 2:
            raise ValueError(f"y must hold 2 classes at least, got one class: {self.classes_[0]}")
        if self.class_weight is not None and self.formulation == "ridge":
            raise ValueError('class_weight is for the formulations "sparse" and "box"')
        weight = compute_class_weight(self.class_weight, classes=self.classes_, y=label)
        if not ((weight >= 0) & (weight < math.inf)).all() or not weight.any():
            raise ValueError(
                f"class_weight must be >= 0, finite, and above 0 for a class, got {weight.tolist()}"
            )
        positive = np.arange(1, 2) if len(self.classes_) == 2 else np.arange(len(self.classes_))
        target = np.where(code[:, None] == positive, 1.0, -1.0)
        self._fit_columns(row, target, np.asarray(weight[code], dtype=np.float64))
        return self

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the potential of each row: one column per class, or a vector for two classes."""
        potential = self._potential(X)
        return potential[:, 0] if len(self.classes_) == 2 else potential

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the class name of each row; ties go to the earlier class."""
        potential = self.decision_function(X)
        code = (potential > 0).astype(np.intp) if potential.ndim == 1 else potential.argmax(axis=1)
        return np.asarray(self.classes_[code])


class PotentialSVR(RegressorMixin, _PotentialMachine):  # type: ignore[misc]
    """Regression whose prediction is a sum of few columns of proximities, of any shape and sign.

    The problem of `PotentialSVC`, for a y of any numbers: `epsilon` and `C` are in units of its deviation,
    so that they mean the same in every unit of y. All parameters and attributes but those of classes are the
    classifier's.

    Notes
    -----
    **Guarantees.** Without C the coefficients are those of the lasso with alpha = epsilon times y's
    deviation; y in another unit gives the predictions in that unit.

    References
    ----------
    .. [1] Hochreiter, Obermayer, "Support vector machines for dyadic data", Neural Computation 18 (2006).

    Examples
    --------
    >>> x = np.arange(8.0)[:, None]
    >>> PotentialSVR(epsilon=0.001).fit(x, 3 * x[:, 0]).predict([[2.5]]).round(1)
    array([7.6])
    """

    def fit(self, X: ArrayLike, y: ArrayLike) -> "PotentialSVR":
        """Learn from rows, or from rows of proximities, and a number for each."""
        row, value = self._rows(X, y, y_numeric=True)
        value = np.asarray(value, dtype=np.float64)
        # by a power of two near the largest number, so that no square overflows or vanishes
        peak = math.ldexp(1.0, math.frexp(float(np.abs(value).max()))[1] - 1)
        share = value / peak
        spread = peak * float(
            share.std() if self.fit_intercept else np.sqrt(np.square(share).mean())
        )
        spread = spread if spread > 0 else 1.0
        self._fit_columns(row, value[:, None] / spread, np.ones(len(value)))
        self.dual_coef_, self.intercept_ = self.dual_coef_ * spread, self.intercept_ * spread
        self._slope, self._offset = self._slope * spread, self._offset * spread
        return self

    def predict(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the predicted number of each row."""
        return np.asarray(self._potential(X)[:, 0])


def _refuse_missing(
    proximity: Float[np.ndarray, "rows columns"], first: int, column: Int[np.ndarray, " columns"],
    kernel: str | Proximity,
) -> None:  # fmt: skip
    """Raise ValueError that names the first proximity that is not finite."""
    row, place = np.argwhere(~np.isfinite(proximity))[0]
    advice = (
        "impute them, for instance by the mean similarity of the column"
        if kernel == "precomputed"
        else "scale the rows, or take another kernel"
    )
    raise ValueError(
        f"a proximity must not be NaN or infinite, got {proximity[row, place]} in row {first + row}, "
        f"column {column[place]}: {advice}"
    )
