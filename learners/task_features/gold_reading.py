"""Class probabilities from the answers of a few judges, learned from gold, where no consensus can be trusted.

Language models err together, so their consensus may be wrong where they agree, and no label shows it.
A hundred tasks whose truth is known show it.

>>> rng = np.random.default_rng(0)
>>> truth = rng.integers(3, size=1000)
>>> answers = np.tile(np.where(truth == 2, 1, truth)[:, None], 5)  # four take the third class for the second
>>> answers[:, 4] = np.where(rng.random(1000) < 0.9, truth, rng.integers(3, size=1000))
>>> votes = np.eye(3)[answers].mean(axis=1)
>>> gold = np.where(np.arange(1000) < 100, truth, -1)
>>> found = read_by_gold(answers, votes, gold, rng=rng)
>>> [round(float(np.mean(one.argmax(axis=1) == truth)), 2) for one in (votes, found.probabilities)]
[0.65, 0.97]
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from jaxtyping import Float, Float64, Int
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from privacy.query import numbers

__all__ = ["GoldReading", "answer_features", "read_by_gold"]

INVERSE_PENALTIES = (0.03, 0.1, 0.3, 1.0)  # scikit-learn's C; all of them are mixed
N_FOLDS, N_INNER = 10, 5
POWERS = (0.1, 0.2, 0.4, 1.0)  # powers of the consensus, which is too sure if errors are common
CAUTION = 0.5  # power of the likelihoods that weigh consensus and classifiers
MAX_SURE = 0.97  # for the consensus in the mixture: one error must not rule it out
LEAST = 1e-12  # of a posterior that is raised to a power
FLOOR = 0.002  # no class has probability 0, not even one that gold lacked
MAX_ITER = 200

Reader: TypeAlias = Callable[[np.ndarray], Float64[np.ndarray, "rows classes"]]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class GoldReading:
    """Result of :func:`read_by_gold`.

    Parameters
    ----------
    probabilities
        Class probabilities of each task; a row adds up to 1.
    consensus_weight
        Share of the consensus in them, in [0, 1], mean over the folds; the classifiers have the rest.
    n_gold
        Gold tasks that were learned from.
    """

    probabilities: Float64[np.ndarray, "tasks classes"]
    consensus_weight: float
    n_gold: int

    def __post_init__(self) -> None:
        self.probabilities.setflags(write=False)

    def __repr__(self) -> str:
        return (
            f"GoldReading({len(self.probabilities)} tasks, by {self.n_gold} gold tasks, the "
            f"consensus' share {self.consensus_weight:.2f})"
        )


def answer_features(
    answers: Int[np.ndarray, "tasks judges"], n_classes: int
) -> Float64[np.ndarray, "tasks features"]:
    """Return which class each judge gave each task, and how many gave each class.

    Parameters
    ----------
    answers
        The class code that each judge gave each task, -1 where none.
    n_classes
        At least 1, and above every code.

    Returns
    -------
    float64 array [tasks, (judges + 1) * n_classes]
        A 1 for the class that a judge gave, judge after judge; then the number of judges by class.

    Examples
    --------
    >>> answer_features(np.array([[0, 1], [1, -1]]), 2)
    array([[1., 0., 0., 1., 1., 1.],
           [0., 1., 0., 0., 0., 1.]])
    """
    given = answers[:, :, np.newaxis] == np.arange(n_classes)
    each: np.ndarray = given.reshape(len(answers), -1)
    return np.column_stack([each, given.sum(axis=1)]).astype(np.float64)


def read_by_gold(
    answers: Int[np.ndarray, "tasks judges"],
    posterior: Float[np.ndarray, "tasks classes"],
    gold: Int[np.ndarray, " tasks"],
    *,
    rng: np.random.Generator,
) -> GoldReading:
    """Learn class probabilities of tasks from each judge's answer, with the truth of gold tasks.

    Logistic regressions on who gave which class, and on how many gave it, are mixed with powers of the
    consensus: each in proportion to the root of the likelihood of gold tasks left out. Gold tasks are dealt
    to ten folds. Each fold is read by a mixture learned from the nine others, and a task without gold by the
    mean of all ten mixtures.

    Parameters
    ----------
    answers
        The class code that each judge gave each task, -1 where none.
    posterior
        P(truth | labels) of each task by an aggregator that has not seen the gold; a row adds up to 1.
    gold
        The class code of each task whose truth is known, -1 elsewhere; at least 10 are.
    rng
        Deals the gold tasks.

    Raises
    ------
    ValueError
        If the arrays do not fit each other, codes are not among the classes, rows of `posterior` do not
        add up to 1, or fewer than 10 gold tasks are known.

    Notes
    -----
    **Guarantees.** The probabilities of a gold task do not depend on its own truth, so that gold can check
    them. Tasks without gold that have the same answers and the same posterior have the same
    probabilities; every probability is at least 0.002 / classes; a judge's place among the columns
    plays no part but for the rounding.

    **Limits.** Gold must be drawn from the tasks at random. With few gold tasks and many judges or
    classes the classifiers learn little; the consensus then keeps its share.

    **Privacy.** None: probabilities depend on other tasks' gold.

    **Cost.** 240 logistic regressions on the gold tasks, and 40 readings of each distinct row of answers.

    References
    ----------
    .. [1] Wolpert, "Stacked generalization", Neural Networks 5 (1992).
    .. [2] Zrnic and Candès, "Cross-prediction-powered inference", PNAS 121 (2024): the mean of the
       folds' readings, and each gold task's by the others.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> truth = np.arange(60) % 2
    >>> contrary = 1 - truth[:, np.newaxis]  # one judge, who says the opposite
    >>> believed = np.where(np.eye(2)[contrary[:, 0]] > 0, 0.9, 0.1)
    >>> found = read_by_gold(contrary, believed, truth, rng=rng)
    >>> bool((found.probabilities.argmax(axis=1) == truth).all())
    True
    """
    answers, posterior = numbers("answers", answers), numbers("posterior", posterior)
    gold = numbers("gold", gold)
    _check(answers, posterior, gold)
    known, n_classes = np.flatnonzero(gold >= 0), posterior.shape[1]
    consensus = _powers(posterior)
    pattern, place = np.unique(answers, axis=0, return_inverse=True)
    place = place.reshape(-1)
    rows = answer_features(pattern, n_classes)
    x, truth, own = rows[place[known]], gold[known].astype(np.int64), consensus[:, known]
    fold = rng.permutation(len(known)) % N_FOLDS
    by_pattern = np.zeros((len(rows), n_classes))
    left_out, share = np.empty((len(known), n_classes)), np.zeros(len(POWERS))
    with threadpool_limits(limits=1):  # the same bytes on any number of threads
        for number in range(N_FOLDS):
            train, out = np.flatnonzero(fold != number), np.flatnonzero(fold == number)
            of_consensus, read = _reader(x[train], truth[train], own[:, train], rng)
            by_classifiers = read(rows)
            by_pattern += by_classifiers / N_FOLDS
            share += of_consensus / N_FOLDS
            left_out[out] = _mixed(of_consensus, own[:, out]) + by_classifiers[place[known[out]]]
    probabilities = _mixed(share, consensus) + by_pattern[place]
    probabilities[known] = left_out
    return GoldReading(probabilities, float(share.sum()), len(known))


def _powers(
    posterior: Float[np.ndarray, "tasks classes"],
) -> Float64[np.ndarray, "powers tasks classes"]:
    """Return the posterior to each of the powers, never quite sure."""
    found = np.maximum(posterior, LEAST) ** np.array(POWERS)[:, np.newaxis, np.newaxis]
    found /= found.sum(axis=2, keepdims=True)
    return np.asarray(MAX_SURE * found + (1.0 - MAX_SURE) / posterior.shape[1])


def _mixed(
    share: Float64[np.ndarray, " powers"], consensus: Float64[np.ndarray, "powers rows classes"]
) -> Float64[np.ndarray, "rows classes"]:
    """Return the part of the consensus in the mixture."""
    return np.asarray(np.tensordot(share, consensus, axes=1))


def _check(answers: np.ndarray, posterior: np.ndarray, gold: np.ndarray) -> None:
    fits = answers.ndim == posterior.ndim == 2 and gold.ndim == 1
    if not (fits and len(answers) == len(posterior) == len(gold)):
        raise ValueError(
            "answers, posterior and gold must have a row for each task, got shapes "
            f"{answers.shape}, {posterior.shape} and {gold.shape}"
        )
    n_classes = posterior.shape[1]
    for name, codes in (("answers", answers), ("gold", gold)):
        if not np.issubdtype(codes.dtype, np.integer):
            raise ValueError(f"{name} must be codes, whole numbers, got dtype={codes.dtype}")
        if codes.size and not (codes.min() >= -1 and codes.max() < n_classes):
            raise ValueError(
                f"{name} must be codes from -1 to {n_classes - 1}, got {codes.min()} to {codes.max()}"
            )
    if not ((posterior >= 0).all() and np.allclose(posterior.sum(axis=1), 1.0, atol=1e-6)):
        raise ValueError("posterior must be >= 0, and each row must add up to 1")
    n_gold = int(np.count_nonzero(gold >= 0))
    if n_gold < N_FOLDS:
        raise ValueError(f"gold must be known of {N_FOLDS} tasks at least, got {n_gold}")


def _reader(
    x: Float64[np.ndarray, "rows features"],
    truth: Int[np.ndarray, " rows"],
    consensus: Float64[np.ndarray, "powers rows classes"],
    rng: np.random.Generator,
) -> tuple[Float64[np.ndarray, " powers"], Reader]:
    """Return the share of each power of the consensus, and what the classifiers add, for any rows."""
    at, n_classes, n_powers = np.arange(len(truth)), consensus.shape[2], len(consensus)
    fold = rng.permutation(len(truth)) % N_INNER
    left_out = np.empty((len(INVERSE_PENALTIES), len(truth)))
    for number in range(N_INNER):
        train, out = fold != number, fold == number
        for c, chance in zip(INVERSE_PENALTIES, left_out, strict=True):
            found = _fit(x[train], truth[train], c, n_classes)(x[out])
            chance[out] = found[at[: len(found)], truth[out]]
    log_p = np.log(np.concatenate([consensus[:, at, truth], left_out])).sum(axis=1)
    share = np.exp(CAUTION * (log_p - log_p.max()))
    share /= share.sum()
    readers = [_fit(x, truth, c, n_classes) for c in INVERSE_PENALTIES]

    def read(rows: np.ndarray) -> np.ndarray:
        parts = [of_one * one(rows) for of_one, one in zip(share[n_powers:], readers, strict=True)]
        return np.asarray(np.sum(parts, axis=0))

    return share[:n_powers], read


def _fit(
    x: Float64[np.ndarray, "rows features"],
    truth: Int[np.ndarray, " rows"],
    c: float,
    n_classes: int,
) -> Reader:
    """Return a classifier of these rows; of the one class that they have, if they have one."""
    classes = np.unique(truth)
    model = None
    if classes.size > 1:
        with warnings.catch_warnings():  # a model that is not quite done is judged like any other
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = LogisticRegression(C=c, max_iter=MAX_ITER, tol=1e-3).fit(x, truth)

    def read(rows: np.ndarray) -> np.ndarray:
        found = np.zeros((len(rows), n_classes))
        found[:, classes] = 1.0 if model is None else model.predict_proba(rows)
        return (1.0 - FLOOR) * found + FLOOR / n_classes

    return read
