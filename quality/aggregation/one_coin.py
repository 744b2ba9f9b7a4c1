"""One-coin Dawid–Skene: one reliability per worker, errors spread evenly."""

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

__all__ = ["OneCoin", "one_coin_dawid_skene", "one_coin_table"]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class OneCoin:
    """Result of :func:`one_coin_dawid_skene`.

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
    reliability
        P(answer = truth) of each worker; one in the number of classes without labels.
    log_likelihood
        Of the labels, and of gold, under `prior` and `reliability`, in nats.
    n_iter, converged
        Iterations made, and whether the likelihood had settled by then.
    """

    posterior: Float64[np.ndarray, "tasks classes"]
    label: Int16[np.ndarray, " tasks"]
    tied: Bool[np.ndarray, " tasks"]
    prior: Float64[np.ndarray, " classes"]
    reliability: Float64[np.ndarray, " workers"]
    log_likelihood: float
    n_iter: int
    converged: bool

    def __post_init__(self) -> None:
        freeze_arrays(self)

    def __repr__(self) -> str:
        state = "converged" if self.converged else "not converged"
        return (
            f"OneCoin({len(self.label)} tasks, {np.count_nonzero(self.tied)} tied, "
            f"{state} after {self.n_iter} iterations, log-likelihood {self.log_likelihood:.1f})"
        )


def one_coin_dawid_skene(
    labels: CrowdLabels,
    *,
    max_iter: int = 100,
    tol: float = 1e-7,
    smoothing: float = 0.01,
    gold: Int[np.ndarray, " tasks"] | None = None,
    start: EMStart | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> OneCoin:
    """Estimate the truth of every task and one reliability per worker.

    A worker is right with her own probability whatever the truth, and wrong in each of the other
    ways equally often: Dawid–Skene with one number for a worker's whole confusion matrix, for
    tables with few labels per worker. EM from the soft majority vote.

    Parameters
    ----------
    labels
        The crowd's labels.
    max_iter
        At most so many iterations, at least 1.
    tol
        Stop when the log-likelihood per label changes by no more than this (nats), at least 0.
    smoothing
        Added to a worker's expected right answers and to each kind of wrong ones, at least 1e-100.
    gold
        The class code of each task whose truth is known, -1 elsewhere, as
        :func:`~quality.encode_gold` gives them.
    start
        What an earlier fit believed, to go on from; EM starts from the majority vote if None.
    threads
        At most so many; all cores if None.
    progress
        Told after every iteration: see :data:`quality.progress.Progress`.

    Returns
    -------
    OneCoin
        Not reaching `tol` is told in ``converged``; it is not an error.

    Raises
    ------
    ValueError
        If a parameter is out of its range, or `gold` is not one class code per task.

    Notes
    -----
    **Guarantees.** The posterior is Bayes' rule applied to the prior and the reliability returned;
    that of a task with gold is certain. The smoothed log-likelihood, which adds `smoothing` times
    the log of a worker's chance of being right and of each way of being wrong, never falls from
    one iteration to the next. The result is the same bytes on every run, on any number of threads.

    **Cost.** That of :func:`~quality.dawid_skene`.

    References
    ----------
    .. [1] Zhang, Chen, Zhou, Jordan, "Spectral methods meet EM: a provably optimal algorithm for
       crowdsourcing", Journal of Machine Learning Research 17 (2016).

    Examples
    --------
    >>> from quality import encode
    >>> workers, tasks = ["ann", "bob", "cy"] * 4, [1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4]
    >>> result = one_coin_dawid_skene(encode(workers, tasks, list("aabbbbaabbba")))
    >>> result.reliability.round(2)
    array([1.  , 1.  , 0.25])
    """
    check_em(max_iter, tol, threads)
    check_smoothing(smoothing)
    rows = em_rows(labels, gold)
    m_step = partial(one_coin_table, smoothing=smoothing)
    fit = fit_em(
        rows, start_at(rows, labels, start, m_step, threads), m_step,
        max_iter=max_iter, tol=tol, threads=threads, tell=counter(progress, "one-coin Dawid–Skene", max_iter),
    )  # fmt: skip
    posterior = believe(rows, fit, threads)
    label, tied = decide(posterior)
    return OneCoin(
        posterior, label, tied, fit.prior, fit.table[:, 0, 0].copy(),
        fit.log_likelihood, fit.n_iter, fit.converged,
    )  # fmt: skip


def one_coin_table(
    counts: Float64[np.ndarray, "workers answers truths"], smoothing: float
) -> Float64[np.ndarray, "workers answers truths"]:
    """P(answer | truth): the worker's share of right answers on the diagonal."""
    n_classes = counts.shape[1]
    same = np.eye(n_classes, dtype=np.bool_)
    right = counts.sum(axis=(1, 2), where=same) + smoothing
    # wrong answers are added up, not subtracted: nearly perfect workers keep their digits
    wrong = counts.sum(axis=(1, 2), where=~same) + (n_classes - 1) * smoothing
    reliability = right / (right + wrong)
    each_wrong = wrong / ((right + wrong) * max(n_classes - 1, 1))
    table: np.ndarray = np.where(same, reliability[:, None, None], each_wrong[:, None, None])
    return table
