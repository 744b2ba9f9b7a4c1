"""Dawid–Skene: consensus and every worker's confusion matrix together, by EM."""

from dataclasses import dataclass
from functools import partial

import numpy as np
from jaxtyping import Bool, Float64, Int, Int16

from quality.aggregation.em import believe, check_em, check_smoothing, em_rows, fit_em, start_at
from quality.aggregation.em_start import EMStart
from quality.aggregation.majority import decide
from quality.labels.codes import freeze_arrays
from quality.labels.table import CrowdLabels
from quality.progress import Progress, counter

__all__ = ["DawidSkene", "dawid_skene", "smoothed_table"]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class DawidSkene:
    """Result of :func:`dawid_skene`.

    Parameters
    ----------
    posterior
        P(truth | labels); the prior where a task has no labels, certain where it has gold.
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
        Of the labels, and of gold, under `prior` and `confusion`, in nats.
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
    labels: CrowdLabels,
    *,
    max_iter: int = 100,
    tol: float = 1e-7,
    smoothing: float = 0.01,
    gold: Int[np.ndarray, " tasks"] | None = None,
    start: EMStart | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
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
        Added to every cell of the expected confusion counts, at least 1e-100.
    gold
        Tasks whose truth is known, as :func:`~quality.encode_gold` gives them: the class code of
        each task, -1 where unknown. Their posterior is certain from the start.
    start
        What an earlier fit believed, to go on from; EM starts from the majority vote if None.
    threads
        At most so many; all cores if None.
    progress
        Told after every iteration: see :data:`quality.progress.Progress`.

    Returns
    -------
    DawidSkene
        Not reaching `tol` is told in ``converged``; it is not an error.

    Raises
    ------
    ValueError
        If a parameter is out of its range, or `gold` is not one class code per task.

    Notes
    -----
    **Guarantees.** The posterior is Bayes' rule applied to the prior and the confusion returned,
    however many labels a task has; that of a task with gold is certain.
    The smoothed log-likelihood, which adds `smoothing` times the sum of the log confusion, never
    falls from one iteration to the next. Tasks without labels get the prior and change nothing
    else. The result is the same bytes on every run, on any number of threads.

    **Cost.** One pass over the labels per iteration, O(labels * classes) time; memory
    O(tasks * classes + workers * classes**2), the latter for at most eight chunks.

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
    check_em(max_iter, tol, threads)
    check_smoothing(smoothing)
    rows = em_rows(labels, gold)
    m_step = partial(smoothed_table, smoothing=smoothing)
    fit = fit_em(
        rows, start_at(rows, labels, start, m_step, threads), m_step,
        max_iter=max_iter, tol=tol, threads=threads, tell=counter(progress, "Dawid–Skene", max_iter),
    )  # fmt: skip
    posterior = believe(rows, fit, threads)
    label, tied = decide(posterior)
    confusion = np.ascontiguousarray(fit.table.transpose(0, 2, 1))
    return DawidSkene(
        posterior, label, tied, fit.prior, confusion,
        fit.log_likelihood, fit.n_iter, fit.converged,
    )  # fmt: skip


def smoothed_table(
    counts: Float64[np.ndarray, "workers answers truths"], smoothing: float
) -> Float64[np.ndarray, "workers answers truths"]:
    """P(answer | truth) of each worker from her own expected counts."""
    table = counts + smoothing
    table /= table.sum(axis=1, keepdims=True)
    return table
