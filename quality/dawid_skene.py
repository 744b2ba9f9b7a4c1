"""Dawid–Skene: consensus and every worker's confusion matrix together, by EM."""

from dataclasses import dataclass
from typing import no_type_check

import numpy as np
from jaxtyping import Bool, Float64, Int16, Int64
from numba import njit

from quality.codes import freeze_arrays
from quality.labels import CrowdLabels
from quality.majority import decide, majority_vote

__all__ = ["DawidSkene", "dawid_skene"]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class DawidSkene:
    """Result of :func:`dawid_skene`.

    Parameters
    ----------
    posterior
        P(truth | labels); the prior where a task has no labels.
    label
        The likeliest class; the lowest code among equals.
    tied
        True where two or more classes are the likeliest.
    prior
        P(truth).
    confusion
        P(answer | truth) of each worker, as ``confusion[worker, truth, answer]``; uniform rows
        for a worker without labels.
    log_likelihood
        Of the labels under `prior` and `confusion`, in nats.
    n_iter, converged
        Iterations made, and whether the likelihood had settled by then.
    """

    posterior: Float64[np.ndarray, "tasks classes"]
    label: Int16[np.ndarray, " tasks"]
    tied: Bool[np.ndarray, " tasks"]
    prior: Float64[np.ndarray, " classes"]
    confusion: Float64[np.ndarray, "workers classes classes"]
    log_likelihood: float
    n_iter: int
    converged: bool

    def __post_init__(self) -> None:
        freeze_arrays(self)

    def __repr__(self) -> str:
        state = "converged" if self.converged else "not converged"
        return (
            f"DawidSkene({len(self.label)} tasks, {np.count_nonzero(self.tied)} tied, "
            f"{state} after {self.n_iter} iterations, log-likelihood {self.log_likelihood:.1f})"
        )


def dawid_skene(
    labels: CrowdLabels, *, max_iter: int = 100, tol: float = 1e-7, smoothing: float = 0.01
) -> DawidSkene:
    """Estimate the truth of every task and the confusion matrix of every worker.

    Labels are independent given the truth, P(answer | truth) is the worker's own: EM from the
    soft majority vote (each task's shares of labels).

    Parameters
    ----------
    labels
        The crowd's labels.
    max_iter
        At most so many iterations, at least 1.
    tol
        Stop when the log-likelihood per label changes by no more than this (nats), at least 0.
    smoothing
        Added to every cell of the expected confusion counts, above 0.

    Returns
    -------
    DawidSkene
        Not reaching `tol` is told in ``converged``; it is not an error.

    Raises
    ------
    ValueError
        If a parameter is out of its range.

    Notes
    -----
    **Guarantees.** The posterior is Bayes' rule applied to the prior and the confusion returned.
    The smoothed log-likelihood, which adds `smoothing` times the sum of the log confusion, never
    falls from one iteration to the next. Tasks without labels get the prior and change nothing
    else. The result is the same bytes on every run, on any number of cores.

    **Cost.** One pass over the labels per iteration, O(labels * classes) time; memory
    O(tasks * classes + workers * classes**2).

    References
    ----------
    .. [1] Dawid, Skene, "Maximum likelihood estimation of observer error-rates using the EM
       algorithm", Applied Statistics 28 (1979).

    Examples
    --------
    >>> from quality import encode
    >>> workers, tasks = ["ann", "bob", "cy"] * 4, [1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4]
    >>> labels = encode(workers, tasks, list("aabbbbaabbbb"))
    >>> result = dawid_skene(labels)
    >>> labels.classes[result.label]
    array(['a', 'b', 'a', 'b'], dtype='<U1')
    >>> result.confusion[2].round(2)  # cy says "b" whatever the truth
    array([[0., 1.],
           [0., 1.]])
    """
    if not max_iter >= 1:
        raise ValueError(f"max_iter must be >= 1, got max_iter={max_iter}")
    if not tol >= 0:
        raise ValueError(f"tol must be >= 0, got tol={tol}")
    if not 0 < smoothing < np.inf:
        raise ValueError(f"smoothing must be > 0 and finite, got smoothing={smoothing}")
    n_workers, n_classes = labels.n_workers, labels.n_classes
    cell = labels.worker.astype(np.int64) * n_classes + labels.label  # (worker, answer)
    posterior = majority_vote(labels).posterior.copy()
    counts = np.column_stack(
        [np.bincount(cell, share[labels.task], n_workers * n_classes) for share in posterior.T]
    )
    labelled = np.diff(labels.task_start) > 0
    log_likelihood, converged, n_iter = -np.inf, False, 0
    while n_iter < max_iter and not converged:
        prior = _prior(posterior[labelled])
        table = counts.reshape(n_workers, n_classes, n_classes) + smoothing
        table /= table.sum(axis=1, keepdims=True)  # P(answer | truth) at [worker, answer, truth]
        log_prior = np.log(prior, out=np.full_like(prior, -np.inf), where=prior > 0)
        log_table = np.log(table).reshape(counts.shape)
        before = log_likelihood
        log_likelihood = _pass(labels.task_start, cell, log_prior, log_table, posterior, counts)
        converged = bool(abs(log_likelihood - before) <= tol * max(labels.n_labels, 1))
        n_iter += 1
    label, tied = decide(posterior)
    confusion = np.ascontiguousarray(table.transpose(0, 2, 1))
    return DawidSkene(posterior, label, tied, prior, confusion, log_likelihood, n_iter, converged)


def _prior(posterior: Float64[np.ndarray, "labelled classes"]) -> Float64[np.ndarray, " classes"]:
    """Mean posterior of the tasks that have labels; uniform if none has."""
    n_tasks, n_classes = posterior.shape
    return posterior.mean(axis=0) if n_tasks else np.full(n_classes, 1.0 / n_classes)


@no_type_check  # numba compiles it, so the shape checks of the tests must not wrap it
@njit(cache=True, nogil=True)
def _pass(
    task_start: Int64[np.ndarray, " tasks+1"],
    cell: Int64[np.ndarray, " labels"],
    log_prior: Float64[np.ndarray, " classes"],
    log_table: Float64[np.ndarray, "cells classes"],
    posterior: Float64[np.ndarray, "tasks classes"],
    counts: Float64[np.ndarray, "cells classes"],
) -> float:
    """E-step, and the expected counts of the next M-step; returns the log-likelihood."""
    n_classes = len(log_prior)
    belief = np.empty(n_classes)
    log_likelihood = 0.0
    counts[:] = 0.0
    for task in range(len(task_start) - 1):
        belief[:] = log_prior
        for row in range(task_start[task], task_start[task + 1]):
            for truth in range(n_classes):
                belief[truth] += log_table[cell[row], truth]
        largest = belief.max()
        total = 0.0
        for truth in range(n_classes):
            belief[truth] = np.exp(belief[truth] - largest)
            total += belief[truth]
        for truth in range(n_classes):
            belief[truth] /= total
            posterior[task, truth] = belief[truth]
        for row in range(task_start[task], task_start[task + 1]):
            for truth in range(n_classes):
                counts[cell[row], truth] += belief[truth]
        log_likelihood += largest + np.log(total)
    return log_likelihood
