"""Whether a budget covers a scikit-learn search over a private estimator, told before the first fit.

A search clones its estimator and fits it for every candidate and split, and every fit is paid. A refusal
in the middle is an exception in a fit, which a search that was not told otherwise turns into a score
of NaN and a warning, and goes on.
"""

from numpy.typing import ArrayLike
from sklearn.base import clone, is_classifier
from sklearn.model_selection import GridSearchCV, ParameterGrid, check_cv
from sklearn.utils import _safe_indexing, indexable

from learners.private.estimator import PrivateLogisticRegression

__all__ = ["check_search"]


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
