"""Private training and private histograms as scikit-learn estimators: the ledger pays for every fit.

A search over such an estimator clones it and fits it for every candidate and split, and every fit is
paid. `check_search` checks the budget before the first fit.

>>> PrivateLogisticRegression(epsilon=0.5, classes=["no", "yes"]).get_params()["epsilon"]
0.5
"""

from collections.abc import Iterator, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, DensityMixin, clone, is_classifier
from sklearn.model_selection import (
    GridSearchCV,
    ParameterGrid,
    RepeatedStratifiedKFold,
    StratifiedGroupKFold,
    StratifiedKFold,
    StratifiedShuffleSplit,
    check_cv,
)
from sklearn.utils import _safe_indexing, indexable
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from learners.private.histogram import bin_counts, bin_of, check_bins, density_of
from learners.private.linear_model import LinearModel
from learners.private.noisy_descent import NoisyGradientDescent, private_training
from learners.private.objective_perturbation import ObjectivePerturbation, training_query
from privacy.ledger import Ledger
from privacy.mechanisms import LatticeLaplace
from privacy.query import Query, Unit

__all__ = ["PayingEstimator", "PrivateHistogram", "PrivateLogisticRegression", "check_search"]

BY_LABELS = (
    type(None), Integral,  # for a classifier StratifiedKFold
    StratifiedKFold, StratifiedGroupKFold, StratifiedShuffleSplit, RepeatedStratifiedKFold,
)  # fmt: skip


class PayingEstimator(BaseEstimator):  # type: ignore[misc]
    """Clones share the ledger; a pickle leaves it behind."""

    ledger: Ledger | None

    def _paying_ledger(self) -> Ledger:
        if self.ledger is None:
            raise ValueError("ledger must be given: a private fit is paid for, got ledger=None")
        return self.ledger

    def _number(self, name: str) -> float:
        """Return a parameter that must be a number as one of Python's: a ledger keeps no other."""
        value = getattr(self, name)
        if not isinstance(value, Real):
            raise TypeError(f"{name} must be a number, got {name}={value!r}")
        if isinstance(value, np.generic):
            value = value.item()
        try:
            double = float(value)
        except OverflowError:
            raise ValueError(
                f"{name} must be a number that fits a double, got a larger one"
            ) from None
        return value if isinstance(value, int) else double

    def _checked(self, *given: ArrayLike) -> Any:
        """Return rows, and labels if given, checked as scikit-learn does; sets nothing.

        Messages of scikit-learn that quote a value are replaced, because values are private.
        """
        try:
            return validate_data(clone(self), *given, dtype=np.float64)
        except (TypeError, ValueError) as error:
            words = str(error)
            if "Complex data not supported" in words:
                public = "Complex data not supported: rows must be real numbers"
            elif "Expected 2D array" in words:
                public = "Expected 2D array: rows must be a matrix. Reshape your data"
            elif "could not convert" in words:
                public = "rows must hold numbers alone, got something else in a cell"
            else:
                raise
        raise ValueError(public)

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "ledger": None}


class PrivateLogisticRegression(ClassifierMixin, PayingEstimator):  # type: ignore[misc]
    """Logistic regression that is differentially private and pays for every fit.

    Parameters
    ----------
    ledger
        Books the fits. Without one, `fit` raises: no payment, no noise.
    dataset
        The ledger's name of the data set; its budget must be open, for the unit `row`.
    epsilon
        Paid by one fit, > 0, and at most 100 with a delta. Fitting the same rows with the same parameters
        again is free.
    regularization
        Strength, >= 1e-9, intercept included; noisy gradient descent does not use it.
    delta
        Paid by one fit too, in [0, 1/n). 0: pure, by `ObjectivePerturbation`; above, by what
        `private_training` chooses from public numbers.
    norm_bound
        Declared l2 bound of a row, >= 1e-100; rows beyond it are clipped.
    classes
        Class names, in ascending order: public knowledge, not read from the data.
    infer_classes
        Read the class names from the labels, **which publishes them unpaid**: only for class names
        that are known to all.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class names.
    coef_ : ndarray of shape (n_problems, n_features)
        Coefficients for clipped rows; one problem for two classes, else one per class.
    intercept_ : ndarray of shape (n_problems,)
        Intercepts, regularised like the coefficients.
    model_ : LinearModel
        Coefficients and intercepts as a frozen model.
    entry_ : int
        The ledger's entry that paid.
    n_features_in_ : int
        Number of features.

    Notes
    -----
    Clones share the ledger. A pickled estimator keeps its model but not the ledger: it predicts and
    cannot fit. Run searches in one process.

    `GridSearchCV` books and pays every fit, of every candidate and split. When the budget runs out,
    ``error_score="raise"`` raises the `BudgetError`; the default turns refused fits into scores of NaN
    and a warning. Call `check_search` first: it raises before anything is spent. It also documents what
    a search's scores leak. Deal splits by `KFold`: scikit-learn deals by labels where `cv` is a number, and
    then one row's label moves other rows from split to split, which no fit's price covers.

    **Guarantees.** No fit without a ledger; no fit without class names, unless `infer_classes` is set; a
    refused fit leaves the last one's attributes. Rows that are not finite and labels that were not declared
    are refused before they are paid for, with a message that reveals nothing else; `ObjectivePerturbation`,
    through the ledger, refuses no value.

    Examples
    --------
    >>> PrivateLogisticRegression(epsilon=0.5).fit([[0.0], [1.0]], ["no", "yes"])
    Traceback (most recent call last):
        ...
    ValueError: ledger must be given: a private fit is paid for, got ledger=None
    """

    def __init__(
        self,
        ledger: Ledger | None = None,
        dataset: str = "training",
        *,
        epsilon: float = 1.0,
        regularization: float = 0.001,
        delta: float = 0.0,
        norm_bound: float = 1.0,
        classes: Sequence[Any] | None = None,
        infer_classes: bool = False,
    ) -> None:
        self.ledger = ledger
        self.dataset = dataset
        self.epsilon = epsilon
        self.regularization = regularization
        self.delta = delta
        self.norm_bound = norm_bound
        self.classes = classes
        self.infer_classes = infer_classes

    def fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> "PrivateLogisticRegression":
        """Train on private rows, at the price of `epsilon` and `delta`.

        `sample_weight` is the weight of each row, private like the rows, in [0, 1]; larger weights would
        raise the sensitivity, and are cut to 1.
        """
        ledger = self._paying_ledger()
        mechanism, query, classes = self._asked(X, y, sample_weight)
        release = ledger.release(mechanism, query)
        # only now: a refused fit leaves the model of the last one as it was
        validate_data(self, X, skip_check_array=True)
        self.classes_ = classes
        self.model_ = LinearModel(np.array(release.value["coef"]), self._number("norm_bound"))
        self.coef_, self.intercept_ = self.model_.coef[:, :-1], self.model_.coef[:, -1]
        self.entry_ = release.entry
        return self

    def request(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> tuple[ObjectivePerturbation | NoisyGradientDescent, Query]:
        """Return the request of `fit` to the ledger, unpaid, for `Ledger.afford`; sets nothing."""
        mechanism, query, _ = self._asked(X, y, sample_weight)
        return mechanism, query

    def _asked(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None
    ) -> tuple[ObjectivePerturbation | NoisyGradientDescent, Query, NDArray[Any]]:
        """Return the mechanism, the query, and the class names."""
        epsilon, delta = self._number("epsilon"), self._number("delta")
        strength, norm_bound = self._number("regularization"), self._number("norm_bound")
        row, label = self._checked(X, y)
        classes, code = self._encode(label)
        mechanism = private_training(
            epsilon,
            delta,
            n_features=row.shape[1],
            regularization=strength,
            norm_bound=norm_bound,
            n_classes=len(classes),
        )
        weight = None if sample_weight is None else _weights(sample_weight, len(row))
        query = training_query(row, code, dataset=self.dataset, weight=weight)
        return mechanism, query, classes

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the signed score: one column per class, or a vector for two classes."""
        row = self._rows(X)
        score = self.model_.decision(row)
        return score[:, 0] if len(self.classes_) == 2 else score

    def predict_proba(self, X: ArrayLike) -> Float[np.ndarray, "rows classes"]:
        """Return the probability of each class."""
        row = self._rows(X)
        return self.model_.predict_proba(row)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the class name of each row; ties go to the earlier class."""
        row = self._rows(X)
        return np.asarray(self.classes_[self.model_.predict(row)])

    def _rows(self, X: ArrayLike) -> Float[np.ndarray, "rows features"]:
        check_is_fitted(self)
        return np.asarray(validate_data(self, X, dtype=np.float64, reset=False))

    def _encode(self, y: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.intp]]:
        """Return the class names, and the code of each label."""
        if self.classes is None and not self.infer_classes:
            raise ValueError(
                "classes must be given: names found in private labels leak. "
                "Set infer_classes=True where they are known to all"
            )
        if np.ndim(y if self.classes is None else self.classes) == 0:
            raise ValueError(f"classes must be a list of names, got {type(self.classes).__name__}")
        try:
            if y.dtype.kind != "O":  # of objects it would reveal the first one's type
                check_classification_targets(y)
            classes = np.unique(y if self.classes is None else np.asarray(self.classes))
            if not len(classes) >= 2:
                raise ValueError("labels must come from 2 classes at least, got one class")
            code = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
            declared = (classes[code] == y).all()
        except TypeError:  # for names without an order, such as texts and numbers
            declared = False
        if not declared:
            raise ValueError(
                "y must hold declared classes only, and names of one type: texts are no numbers"
            )
        return classes, code


def _weights(given: ArrayLike, n: int) -> Float[np.ndarray, " rows"]:
    try:
        weight = np.asarray(given, dtype=np.float64)
    except (OverflowError, TypeError, ValueError):
        # NumPy's message shows a weight, which is private
        raise ValueError("sample_weight must be one number per row, got something else") from None
    if not weight.shape == (n,):
        raise ValueError(f"sample_weight must be one number per row, got shape={weight.shape}")
    return weight


def check_search(search: GridSearchCV, X: ArrayLike, y: ArrayLike) -> int:
    """Raise unless the budget covers a search to its end and a refused fit stops the search.

    Parameters
    ----------
    search
        Over a `PrivateLogisticRegression`, not yet fitted.
    X, y
        What ``search.fit`` will be given.

    Returns
    -------
    int
        Number of fits that the search asks of the ledger, including the last one on all rows. Fits that
        were paid before, or are asked twice, cost nothing.

    Raises
    ------
    BudgetError
        If the ledger does not cover all fits; nothing is spent.
    TypeError
        If the search is not a `GridSearchCV` over a `PrivateLogisticRegression`.
    ValueError
        If the search's `error_score` is not "raise", its `cv` can be iterated only once or deals rows by
        their labels, as a number and None do, or a fit would be refused for another reason.

    Notes
    -----
    Any candidate may be the best and be fitted again on all rows: the check covers the most expensive.

    **Guarantees.** The check pays nothing; a search that passes it meets no `BudgetError`, unless the
    budget is spent elsewhere meanwhile.
    **Privacy.** The fits are paid, the search is not: it scores every model on private rows without
    noise, so that `best_params_` and `cv_results_` leak them and must not be published.
    `StabilityValidation` and `RandomRepetition` choose privately, for the price of one or three fits.

    Examples
    --------
    >>> search = GridSearchCV(PrivateLogisticRegression(), {"regularization": [0.01, 0.1]})
    >>> check_search(search, [[0.0], [1.0]], [0, 1])
    Traceback (most recent call last):
        ...
    ValueError: error_score must be "raise", or a refused fit becomes a score, got error_score=nan
    """
    if not isinstance(search, GridSearchCV):
        raise TypeError(
            "search must be a GridSearchCV, whose candidates are known beforehand, "
            f"got {type(search).__name__}"
        )
    if not isinstance(search.estimator, PrivateLogisticRegression):
        raise TypeError(
            f"search must be over a PrivateLogisticRegression, got {type(search.estimator).__name__}"
        )
    if not search.error_score == "raise":
        raise ValueError(
            'error_score must be "raise", or a refused fit becomes a score, '
            f"got error_score={search.error_score}"
        )
    if isinstance(search.cv, Iterator):
        raise ValueError(
            "cv must be a splitter or a list of splits: the check would leave none to the search, got "
            f"cv={search.cv!r}"
        )
    if isinstance(search.cv, BY_LABELS):
        raise ValueError(
            "cv must deal rows without a look at their labels, as KFold(5) does: one label would move other "
            f"rows too, and a fit's price is that of one row, got cv={search.cv}"
        )
    ledger = search.estimator._paying_ledger()
    models = [clone(search.estimator).set_params(**one) for one in ParameterGrid(search.param_grid)]
    rows, label = indexable(X, y)
    splits = check_cv(search.cv, label, classifier=is_classifier(search.estimator))
    parts = [train for train, _ in splits.split(rows, label)]
    fits = [
        model.request(_safe_indexing(rows, part), _safe_indexing(label, part))
        for model in models
        for part in parts
    ]
    last = [[model.request(rows, label)] for model in models] if search.refit else [[]]
    for one in last:
        ledger.afford([*fits, *one])
    return len(fits) + len(last[0])


class PrivateHistogram(DensityMixin, PayingEstimator):  # type: ignore[misc]
    """A differentially private histogram density of one column, which pays for every fit.

    With n_j the number of rows in bin j, of width h, and z lattice Laplace noise, which adds up to zero:

        kept_j = max(0, n_j + z_j),   density = kept_j / (h sum of kept)   on bin j

    Parameters
    ----------
    ledger, dataset, epsilon
        As for `PrivateLogisticRegression`.
    low, high
        Declared bounds, low < high, of a finite distance: public, never taken from the data. Values outside
        are counted in the first or last bin.
    n_bins
        Bins of equal width, >= 2, public. Choose it with `HistogramValidation`, or beforehand.

    Attributes
    ----------
    bin_edges_ : ndarray of shape (n_bins + 1,)
        Edges of the bins, from `low` to `high`.
    density_ : ndarray of shape (n_bins,)
        Density of each bin; the integral is one.
    entry_ : int
        The ledger's entry that paid.
    n_features_in_ : int
        One.

    Notes
    -----
    Clones share the ledger. A pickled estimator keeps its density but not the ledger: it scores and
    cannot fit.

    **Guarantees.** The density is >= 0 and integrates to one; no fit without a ledger; a refused fit leaves
    the last one's attributes; bounds and bins do not depend on the data; the cost is `epsilon`.
    **Privacy.** Unit: row. One replaced row leaves one bin and joins another, 2 in l1 norm: see
    `LatticeLaplace`. The noise adds up to zero and negative counts become 0, so that the counts add up
    to n or more and never to zero; [1]_ needs an event of small delta for that.

    References
    ----------
    .. [1] Chaudhuri, Vinterbo, "A stability-based validation procedure for differentially private
       machine learning", NIPS (2013), supplement, Algorithm 5.

    Examples
    --------
    >>> PrivateHistogram(low=0.0, high=1.0).fit([[0.2], [0.7]])
    Traceback (most recent call last):
        ...
    ValueError: ledger must be given: a private fit is paid for, got ledger=None
    """

    def __init__(
        self,
        ledger: Ledger | None = None,
        dataset: str = "training",
        *,
        epsilon: float = 1.0,
        low: float = 0.0,
        high: float = 1.0,
        n_bins: int = 20,
    ) -> None:
        self.ledger = ledger
        self.dataset = dataset
        self.epsilon = epsilon
        self.low = low
        self.high = high
        self.n_bins = n_bins

    def fit(self, X: ArrayLike, y: object = None) -> "PrivateHistogram":
        """Count private rows of one column, at the price of `epsilon`; `y` is ignored."""
        ledger = self._paying_ledger()
        epsilon, low, high = map(self._number, ("epsilon", "low", "high"))
        check_bins(self.n_bins, low, high)
        low, high = float(low), float(high)  # bounds of 0 and 0.0 are one request
        name = f"rows in {self.n_bins} bins from {low} to {high}"
        value = _one_column(self._checked(X))
        query = Query(
            self.dataset,
            name,
            bin_counts(value, self.n_bins, low, high),
            Unit.ROW,
            n=len(value),
            l1=2.0,
        )
        release = ledger.release(LatticeLaplace(epsilon), query)
        validate_data(
            self, X, skip_check_array=True
        )  # only now: a refused fit leaves the last one's
        self.density_ = density_of(np.array(release.value), (high - low) / self.n_bins)
        self.bin_edges_ = np.linspace(low, high, self.n_bins + 1)
        self.entry_ = release.entry
        return self

    def score_samples(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the log density at each row; minus infinity where it is zero, and outside the bounds."""
        check_is_fitted(self)
        value = _one_column(validate_data(self, X, dtype=np.float64, reset=False))
        low, high = self.bin_edges_[[0, -1]]
        found = self.density_[bin_of(value, len(self.density_), low, high)]
        inside = (value >= low) & (value <= high)
        with np.errstate(divide="ignore"):
            return np.log(np.where(inside, found, 0.0))

    def score(self, X: ArrayLike, y: object = None) -> float:
        """Return the sum of the log densities of the rows; `y` is ignored."""
        return float(self.score_samples(X).sum())

    def sample(self, n_samples: int, *, rng: np.random.Generator) -> Float[np.ndarray, "rows 1"]:
        """Draw rows from the density: post-processing of the release."""
        check_is_fitted(self)
        width = self.bin_edges_[1] - self.bin_edges_[0]
        share = self.density_ * width
        code = rng.choice(len(share), p=share / share.sum(), size=n_samples)
        return np.asarray(self.bin_edges_[code] + width * rng.random(n_samples))[:, None]


def _one_column(row: Float[np.ndarray, "rows columns"]) -> Float[np.ndarray, " rows"]:
    if not row.shape[1] == 1:
        raise ValueError(f"X must have one column, got shape={row.shape}")
    return np.asarray(row[:, 0])
