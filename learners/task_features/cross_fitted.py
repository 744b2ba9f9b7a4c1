"""Class probabilities of tasks from their features, learned from soft labels of other tasks.

>>> rng = np.random.default_rng(0)
>>> truth = rng.integers(2, size=400)
>>> features = truth[:, None] + rng.normal(size=(400, 3))
>>> believed = np.where(np.eye(2)[truth] > 0, 0.8, 0.2)
>>> found = cross_fitted_probabilities(features, believed, rng=rng)
>>> bool(np.mean(found.probabilities.argmax(axis=1) == truth) > 0.75)
True
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral

import numpy as np
from jaxtyping import Bool, Float, Float64, Int
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from learners.task_features.duplicates import within_squares
from privacy.query import numbers

__all__ = ["CrossFitted", "cross_fitted_probabilities"]

INVERSE_PENALTIES = (1e-4, 1e-3, 1e-2, 1e-1)  # scikit-learn's C, the simplest model first
MAX_TRAINED = 20_000  # tasks that one model learns from
MIN_BELIEF = 0.02  # classes less likely than this are left out of a task's soft label
FLOOR = 1e-6  # no class has probability 0, not even one that training lacked
MAX_ITER = 200


@dataclass(frozen=True, slots=True, eq=False)
class CrossFitted:
    """Result of :func:`cross_fitted_probabilities`.

    Parameters
    ----------
    probabilities
        Class probabilities of each task, from models that did not see it; a row adds up to 1.
    inverse_penalty
        scikit-learn's C of each fold's model.
    """

    probabilities: Float64[np.ndarray, "tasks classes"]
    inverse_penalty: Float64[np.ndarray, " folds"]

    def __post_init__(self) -> None:
        self.probabilities.setflags(write=False)
        self.inverse_penalty.setflags(write=False)


def cross_fitted_probabilities(
    features: Float[np.ndarray, "tasks features"],
    believed: Float[np.ndarray, "tasks classes"],
    *,
    rng: np.random.Generator,
    n_folds: int = 5,
    taught: Bool[np.ndarray, " tasks"] | None = None,
    inverse_penalties: Sequence[float] | None = None,
) -> CrossFitted:
    """Learn class probabilities from other tasks' features and soft labels, by logistic regression.

    Tasks are dealt to folds. The model of a fold learns from the others; how strongly it is
    regularised is chosen by how well a model of the remaining folds predicts the fold after it.

    Parameters
    ----------
    features
        Finite numbers; the pipeline centres and scales them.
    believed
        Probability of each class of each task, a consensus posterior say.
    rng
        Deals the tasks, and draws 20,000 to learn from where there are more.
    n_folds
        At least 3, and no more than there are tasks to learn from.
    taught
        True for each task to learn from; None for all. The others are dealt to the folds as well, so
        that their probabilities are as sure as those of the tasks learned from.
    inverse_penalties
        scikit-learn's C of the models that are tried, > 0, the simplest first; None for .0001 to .1. A second
        call that learns nearly the same is faster with those that the first chose; one alone is not judged.

    Raises
    ------
    ValueError
        If the arrays do not fit each other, hold negative numbers or ones that are not finite, `n_folds` is
        out of its range, or no penalty is given or one not > 0 and finite.

    Notes
    -----
    **Guarantees.** A task's probabilities do not depend on its own soft label, but through the
    soft labels of others; the soft label of a task that is not taught plays no part; every
    probability is at least 1e-6 / classes; scaling a column changes nothing but the rounding.

    **Privacy.** None: probabilities depend on other tasks' features and labels.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> found = cross_fitted_probabilities(np.arange(20.0)[:, None], np.eye(2)[[0, 1] * 10], rng=rng)
    >>> found.probabilities.shape, found.inverse_penalty.shape
    ((20, 2), (5,))
    """
    features, believed = numbers("features", features), numbers("believed", believed)
    taught = np.asarray(np.ones(len(features), dtype=np.bool_) if taught is None else taught)
    _check(features, believed, taught, n_folds)
    tried = [
        float(c) for c in (INVERSE_PENALTIES if inverse_penalties is None else inverse_penalties)
    ]
    if not (tried and all(0 < c < np.inf for c in tried)):
        raise ValueError(f"inverse_penalties must be one or more numbers > 0, got {tried}")
    features, _ = within_squares(features)
    fold = np.empty(len(features), dtype=np.int64)
    for part in (taught, ~taught):
        fold[part] = rng.permutation(np.count_nonzero(part)) % n_folds
    probabilities = np.empty(believed.shape)
    chosen = np.empty(n_folds)
    with threadpool_limits(limits=1):  # the same bytes on any number of threads
        for number in range(n_folds):
            known = np.flatnonzero(taught & (fold != number))
            after = fold[known] == (number + 1) % n_folds
            inner, judged = known[~after], known[after]
            scores = [
                _log_score(_fit(features, believed, inner, c, rng), features, believed, judged)
                for c in (tried if len(tried) > 1 else ())
            ]
            chosen[number] = tried[int(np.argmax(scores)) if scores else 0]
            model = _fit(features, believed, known, chosen[number], rng)
            out = fold == number
            probabilities[out] = _predict(model, features[out], believed.shape[1])
    return CrossFitted(probabilities, chosen)


def _check(features: np.ndarray, believed: np.ndarray, taught: np.ndarray, n_folds: int) -> None:
    if not (features.ndim == believed.ndim == 2 and len(features) == len(believed)):
        raise ValueError(
            "features and believed must have a row for each task, got shapes "
            f"{features.shape} and {believed.shape}"
        )
    if not (features.shape[1] >= 1 and believed.shape[1] >= 1):
        raise ValueError(
            "features and believed must have a column at least, got shapes "
            f"{features.shape} and {believed.shape}"
        )
    if not np.isfinite(features).all():
        raise ValueError("features must be finite")
    if not (np.isfinite(believed).all() and (believed >= 0).all()):
        raise ValueError("believed must be finite and >= 0")
    if not (taught.dtype == np.bool_ and taught.shape == (len(features),)):
        raise ValueError(
            f"taught must be {len(features)} truth values, one per task, got {taught.dtype} of shape "
            f"{taught.shape}"
        )
    n_taught = int(np.count_nonzero(taught))
    if not (isinstance(n_folds, Integral) and 3 <= n_folds <= n_taught):
        raise ValueError(f"n_folds must be from 3 to {n_taught} tasks, got n_folds={n_folds}")


def _fit(
    features: np.ndarray, believed: np.ndarray, tasks: np.ndarray, c: float,
    rng: np.random.Generator,
) -> Pipeline | int | None:  # fmt: skip
    """Return a model of these tasks, the one class that they have, or None where they have none."""
    if len(tasks) > MAX_TRAINED:
        tasks = np.sort(rng.choice(tasks, MAX_TRAINED, replace=False))
    row, label = np.nonzero(believed[tasks] > MIN_BELIEF)
    if np.unique(label).size < 2:
        return int(label[0]) if label.size else None
    model = make_pipeline(StandardScaler(), LogisticRegression(C=c, max_iter=MAX_ITER, tol=1e-3))
    x = features[tasks[row]].astype(np.float64, copy=False)
    weight = believed[tasks[row], label]
    # a model that is not quite done is judged like any other; the variance of a constant, below 0 by
    # rounding, has no root, and is taken for 1
    with warnings.catch_warnings(), np.errstate(invalid="ignore"):
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(
            x,
            label,
            standardscaler__sample_weight=weight,
            logisticregression__sample_weight=weight,
        )


def _predict(
    model: Pipeline | int | None, features: np.ndarray, n_classes: int
) -> Float64[np.ndarray, "tasks classes"]:
    found = np.zeros((len(features), n_classes))
    if model is None:
        found[:] = 1.0 / n_classes
    elif isinstance(model, int):
        found[:, model] = 1.0
    else:
        found[:, model.classes_] = model.predict_proba(features.astype(np.float64, copy=False))
    return (1.0 - FLOOR) * found + FLOOR / n_classes


def _log_score(
    model: Pipeline | int | None, features: np.ndarray, believed: np.ndarray,
    judged: Int[np.ndarray, " judged"],
) -> float:  # fmt: skip
    """Return the mean log-probability of the soft labels of tasks that the model did not see."""
    log_p = np.log(_predict(model, features[judged], believed.shape[1]))
    return float((believed[judged] * log_p).sum(axis=1).mean())
