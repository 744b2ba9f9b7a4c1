"""The scikit-learn face of objective perturbation: every fit is booked in a ledger.

Whether a budget covers a scikit-learn search over a private estimator, told before the first fit.

A search clones its estimator and fits it for every candidate and split, and every fit is paid. A refusal
in the middle is an exception in a fit, which a search that was not told otherwise turns into a score
of NaN and a warning, and goes on.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone, is_classifier
from sklearn.model_selection import GridSearchCV, ParameterGrid, check_cv
from sklearn.utils import _safe_indexing, indexable
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from learners.private.linear_model import LinearModel
from learners.private.objective_perturbation import ObjectivePerturbation, training_query
from privacy.ledger import Ledger
from privacy.query import Query

__all__ = ["PrivateLogisticRegression", "check_search"]


class PrivateLogisticRegression(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Logistic regression that is differentially private and pays for every fit.

    Parameters
    ----------
    ledger
        Where fits are booked. Without one, `fit` refuses: no payment, no noise.
    dataset
        The ledger's name of the data set; its budget must be open, for the unit `row`.
    epsilon
        Paid by one fit, > 0. Fitting the same rows with the same parameters again is free.
    regularization
        Strength, > 0, intercept included.
    norm_bound
        Declared l2 bound of a row, > 0; rows beyond it are clipped.
    classes
        Class names, in ascending order: public knowledge, not read from the data.
    infer_classes
        Read the class names from the labels, **which publishes them unpaid**. For labels whose
        names are known to all.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class names.
    coef_ : ndarray of shape (n_problems, n_features)
        Coefficients for clipped rows; one problem for two classes, else one per class.
    intercept_ : ndarray of shape (n_problems,)
        Intercepts, regularised like the coefficients.
    model_ : LinearModel
        The same as a frozen model.
    entry_ : int
        The ledger's entry that paid.
    n_features_in_ : int
        Number of features.

    Notes
    -----
    Clones share the ledger. A pickled estimator keeps its model and leaves the ledger behind, so it
    predicts but cannot fit: run searches in one process.

    In `GridSearchCV` each fit, of every candidate and split, is booked and paid. Where the budget ends,
    ``error_score="raise"`` lets the `BudgetError` out; the default turns refused fits into scores of NaN
    and a warning. Call `check_search` first, which refuses both before anything is spent, and read
    there what a search's scores leak.

    **Guarantees.** No fit without a ledger; no fit without class names, unless told to infer them.

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
        norm_bound: float = 1.0,
        classes: Sequence[Any] | None = None,
        infer_classes: bool = False,
    ) -> None:
        self.ledger = ledger
        self.dataset = dataset
        self.epsilon = epsilon
        self.regularization = regularization
        self.norm_bound = norm_bound
        self.classes = classes
        self.infer_classes = infer_classes

    def fit(self, X: ArrayLike, y: ArrayLike) -> "PrivateLogisticRegression":
        """Train on private rows, at the price of `epsilon`."""
        if self.ledger is None:
            raise ValueError("ledger must be given: a private fit is paid for, got ledger=None")
        release = self.ledger.release(*self.request(X, y))
        self.model_ = LinearModel(np.array(release.value["coef"]), self.norm_bound)
        self.coef_, self.intercept_ = self.model_.coef[:, :-1], self.model_.coef[:, -1]
        self.entry_ = release.entry
        return self

    def request(self, X: ArrayLike, y: ArrayLike) -> tuple[ObjectivePerturbation, Query]:
        """What `fit` asks of the ledger, unpaid: for `Ledger.afford`; learns names and shapes alone."""
        row, label = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(label)
        self.classes_, code = self._encode(label)
        mechanism = ObjectivePerturbation(
            epsilon=self.epsilon,
            regularization=self.regularization,
            norm_bound=self.norm_bound,
            n_classes=len(self.classes_),
        )
        return mechanism, training_query(row, code, dataset=self.dataset)

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """Signed score: one column per class, or a vector for two classes."""
        row = self._rows(X)
        score = self.model_.decision(row)
        return score[:, 0] if len(self.classes_) == 2 else score

    def predict_proba(self, X: ArrayLike) -> Float[np.ndarray, "rows classes"]:
        """Probability of each class."""
        row = self._rows(X)
        return self.model_.predict_proba(row)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Class name of each row; ties go to the earlier class."""
        row = self._rows(X)
        return np.asarray(self.classes_[self.model_.predict(row)])

    def __sklearn_clone__(self) -> "PrivateLogisticRegression":
        # a copy of the ledger would be another door to the same money
        return type(self)(**self.get_params(deep=False))

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "ledger": None}

    def _rows(self, X: ArrayLike) -> Float[np.ndarray, "rows features"]:
        check_is_fitted(self)
        return np.asarray(validate_data(self, X, dtype=np.float64, reset=False))

    def _encode(self, y: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.intp]]:
        """Class names, and the code of each label."""
        if self.classes is None and not self.infer_classes:
            raise ValueError(
                "classes must be given: names found in private labels leak. "
                "Set infer_classes=True where they are known to all"
            )
        classes = np.unique(y if self.classes is None else np.asarray(self.classes))
        if not len(classes) >= 2:
            raise ValueError("labels must come from 2 classes at least, got one class")
        code = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
        if not (classes[code] == y).all():
            raise ValueError("y must hold declared classes only")
        return classes, code


def check_search(search: GridSearchCV, X: ArrayLike, y: ArrayLike) -> int:
    """Refuse a search that the budget does not cover to its end, or that would go on without it.

    Parameters
    ----------
    search
        Over a `PrivateLogisticRegression`, not yet fitted.
    X, y
        What ``search.fit`` will be given.

    Returns
    -------
    int
        How many fits the search asks of the ledger, the last one on all rows included; those that
        were paid before, or are asked twice, cost nothing.

    Raises
    ------
    BudgetError
        If the ledger does not cover all of them; nothing is spent.
    TypeError
        If the search is not over a `PrivateLogisticRegression`.
    ValueError
        If the search's `error_score` is not "raise", or a fit would be refused for another reason.

    Notes
    -----
    Any candidate may be the best and be fitted again on all rows: the check covers the dearest.

    **Guarantees.** Nothing is paid by the check; a search that passes it meets no `BudgetError`, unless
    somebody else spends meanwhile.
    **Privacy.** The fits are paid, the search is not: it scores every model on private rows in the
    clear, and `best_params_` and `cv_results_` tell of them. `StabilityValidation` and
    `RandomRepetition` choose privately, for the price of one or three fits; keep a search's results
    to yourself.

    Examples
    --------
    >>> search = GridSearchCV(PrivateLogisticRegression(), {"regularization": [0.01, 0.1]})
    >>> check_search(search, [[0.0], [1.0]], [0, 1])
    Traceback (most recent call last):
        ...
    ValueError: error_score must be "raise", or a refused fit becomes a score, got error_score=nan
    """
    if not isinstance(search.estimator, PrivateLogisticRegression):
        raise TypeError(
            f"search must be over a PrivateLogisticRegression, got {type(search.estimator).__name__}"
        )
    if not search.error_score == "raise":
        raise ValueError(
            'error_score must be "raise", or a refused fit becomes a score, '
            f"got error_score={search.error_score}"
        )
    if search.estimator.ledger is None:
        raise ValueError("ledger must be given: a private fit is paid for, got ledger=None")
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
        search.estimator.ledger.afford([*fits, *one])
    return len(fits) + len(last[0])
