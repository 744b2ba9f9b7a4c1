"""Agreement of labels with each other, with a consensus and with gold, on one table or on shards.

>>> accuracy(np.array([0, 1, 1, 0]), np.array([0, 1, 0, -1]))
Accuracy(66.7 % of 3, 95 % interval 20.8 to 93.9)
"""

from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Float64, Int, Int64

from quality.aggregation import Posterior, decide
from quality.agreement import alpha_of, alpha_sums, check_level
from quality.argument_types import check_arguments
from quality.labels import (
    CrowdLabels,
    Engine,
    LabelShard,
    Sums,
    freeze_arrays,
    name_classes,
)
from quality.reputation import mean_share, share_sums, shares_of

__all__ = [
    "Accuracy",
    "CrowdSums",
    "PairwiseAgreement",
    "accuracy",
    "agreement_rows",
    "crowd_sums",
    "krippendorff_alpha",
    "pairwise_agreement",
    "wilson_interval",
    "worker_agreement",
]


@dataclass(frozen=True, slots=True)
class Accuracy:
    """The share of gold tasks with the right label, and a Wilson interval for it.

    Parameters
    ----------
    n, n_correct
        Gold tasks, and those with the right label.
    value
        Their ratio; NaN without gold tasks.
    lower, upper
        The interval.
    level
        Its confidence level.
    """

    n: int
    n_correct: int
    value: float
    lower: float
    upper: float
    level: float

    def __repr__(self) -> str:
        return (
            f"Accuracy({100 * self.value:.1f} % of {self.n}, "
            f"{100 * self.level:g} % interval {100 * self.lower:.1f} to {100 * self.upper:.1f})"
        )


@check_arguments
def accuracy(
    label: Int[np.ndarray, " tasks"], gold: Int[np.ndarray, " tasks"], *, level: float = 0.95
) -> Accuracy:
    """Compare labels with gold.

    Parameters
    ----------
    label
        One class code per task.
    gold
        The true class code of each task, -1 where it is unknown.
    level
        Confidence level of the interval, in (0, 1).

    Raises
    ------
    ValueError
        If the shapes differ or `level` is out of its range.

    Examples
    --------
    >>> accuracy(np.array([0, 1, 1, 0]), np.array([0, 1, 0, -1]))
    Accuracy(66.7 % of 3, 95 % interval 20.8 to 93.9)
    """
    if label.shape != gold.shape:
        message = f"label and gold must have one entry per task, got {label.shape} and {gold.shape}"
        raise ValueError(message)
    known = gold >= 0
    n = int(np.count_nonzero(known))
    n_correct = int(np.count_nonzero(label[known] == gold[known]))
    lower, upper = wilson_interval(np.array(n_correct), np.array(n), level=level)
    value = n_correct / n if n else float("nan")
    return Accuracy(n, n_correct, value, float(lower), float(upper), level)


@check_arguments
def wilson_interval(
    n_correct: Int[np.ndarray, "*shape"], n: Int[np.ndarray, "*shape"], *, level: float = 0.95
) -> Float64[np.ndarray, "*shape 2"]:
    """Return Wilson's interval for a share: lower and upper end in the last axis.

    Parameters
    ----------
    n_correct, n
        Successes and trials; ``0 <= n_correct <= n``.
    level
        Confidence level, in (0, 1).

    Returns
    -------
    float64 array, shape of `n` and 2
        Ends within [0, 1]; 0 and 1 without trials.

    Raises
    ------
    ValueError
        If a count or `level` is out of its range.

    References
    ----------
    .. [1] Wilson, "Probable inference, the law of succession, and statistical inference",
       Journal of the American Statistical Association 22 (1927).

    Examples
    --------
    >>> wilson_interval(np.array([8, 0]), np.array([10, 0])).round(3)
    array([[0.49 , 0.943],
           [0.   , 1.   ]])
    """
    check_level(level)
    if not np.all((n_correct >= 0) & (n_correct <= n)):
        raise ValueError("n_correct must be in [0, n] everywhere, got a count outside")
    z2 = NormalDist().inv_cdf((1 + level) / 2) ** 2
    trials = np.asarray(n, dtype=np.float64)
    successes = np.asarray(n_correct, dtype=np.float64)
    centre = (successes + z2 / 2) / (trials + z2)
    spread = z2 / 4 + np.divide(
        successes * (trials - successes), trials, out=np.zeros_like(trials), where=trials > 0
    )
    half = np.sqrt(z2 * spread) / (trials + z2)
    # exactly 0 and 1 where rounding would leave 1 - 1e-16
    lower = np.where(n_correct > 0, np.maximum(centre - half, 0.0), 0.0)
    upper = np.where(n_correct < n, np.minimum(centre + half, 1.0), 1.0)
    interval: np.ndarray = np.stack([lower, upper], axis=-1)
    return interval


@check_arguments
def worker_agreement(
    labels: CrowdLabels, label: Int[np.ndarray, " tasks"]
) -> Float64[np.ndarray, " workers"]:
    """Return the share of each worker's labels that equal a consensus; NaN without labels.

    Parameters
    ----------
    labels
        The crowd's labels.
    label
        The consensus: one class code per task.

    Raises
    ------
    ValueError
        If `label` is not one code per task.

    Examples
    --------
    >>> from quality import encode
    >>> labels = encode(["ann", "bob", "ann", "bob"], [1, 1, 2, 2], list("xyxx"))
    >>> worker_agreement(labels, np.array([0, 0]))
    array([1. , 0.5])
    """
    if label.shape != (labels.n_tasks,):
        raise ValueError(
            f"label must be {labels.n_tasks} codes, one per task, got shape {label.shape}"
        )
    same = labels.label == label[labels.task]
    n_same = np.bincount(labels.worker, same, minlength=labels.n_workers)
    n_labels = np.diff(labels.worker_start)
    return shares_of(n_same, n_labels)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PairwiseAgreement:
    """Result of :func:`pairwise_agreement`.

    Parameters
    ----------
    value
        Share of equal labels among the pairs of labels of one task; NaN without pairs.
    n_pairs
        Number of those pairs.
    worker
        The same share for the pairs that each worker is part of; NaN without any.
    worker_pairs
        Number of those pairs, for each worker.
    """

    value: float
    n_pairs: int
    worker: Float64[np.ndarray, " workers"]
    worker_pairs: Int64[np.ndarray, " workers"]

    def __post_init__(self) -> None:
        freeze_arrays(self)

    def __repr__(self) -> str:
        lowest = np.nanmin(self.worker) if self.n_pairs else float("nan")
        return (
            f"PairwiseAgreement({100 * self.value:.1f} % of {self.n_pairs} pairs, "
            f"lowest worker {100 * lowest:.1f} %)"
        )


@check_arguments
def pairwise_agreement(labels: CrowdLabels) -> PairwiseAgreement:
    """Count how often two workers give one task the same label, overall and for each worker.

    Unlike :func:`worker_agreement` it needs no consensus, which would depend on the worker's own label.

    Parameters
    ----------
    labels
        The crowd's labels.

    Notes
    -----
    **Cost.** One pass over the labels; pairs are counted, not listed.

    Examples
    --------
    >>> from quality import encode
    >>> found = pairwise_agreement(encode(["ann", "bob", "cy"], [1, 1, 1], list("xxy")))
    >>> found
    PairwiseAgreement(33.3 % of 3 pairs, lowest worker 0.0 %)
    >>> found.worker
    array([0.5, 0.5, 0. ])
    """
    named = name_classes(labels)
    same = named.votes[named.entry].astype(np.int64) - 1
    others = np.diff(labels.task_start)[labels.task] - 1
    n_same = np.bincount(labels.worker, same, labels.n_workers)
    n_pairs = np.bincount(labels.worker, others, labels.n_workers)
    share = shares_of(n_same, n_pairs)
    # both sums count each pair twice
    value = float(same.sum() / others.sum()) if others.any() else float("nan")
    return PairwiseAgreement(value, int(others.sum()) // 2, share, n_pairs.astype(np.int64))


@check_arguments
def agreement_rows(labels: CrowdLabels) -> Float64[np.ndarray, "workers workers"]:
    """Return how far each worker agrees with every other beyond chance.

    Parameters
    ----------
    labels
        The crowd's labels; the result has a row and a column for each worker.

    Returns
    -------
    ndarray
        Share of a pair's common tasks on which they agree, less the probability that labels drawn from the
        two workers' own shares of the classes agree; in (-1, 1), 0 on the diagonal and without common tasks.

    Notes
    -----
    **Guarantees.** The matrix is symmetric.

    Examples
    --------
    >>> from quality import encode
    >>> labels = encode(["ann"] * 2 + ["bob"] * 2 + ["cy"] * 2, [1, 2] * 3, list("xyxyyx"))
    >>> agreement_rows(labels)
    array([[ 0. ,  0.5, -0.5],
           [ 0.5,  0. , -0.5],
           [-0.5, -0.5,  0. ]])
    """
    named, n_workers = name_classes(labels), labels.n_workers
    one = np.ones(labels.n_labels)
    # the classes that each task was given: a product takes room for every column, used or not
    given = sp.csr_array((one, (labels.worker, named.entry)), shape=(n_workers, len(named.code)))
    seen = sp.csr_array((one, (labels.worker, labels.task)), shape=(n_workers, labels.n_tasks))
    common, agreed = (seen @ seen.T).toarray(), (given @ given.T).toarray()
    counts = np.zeros((n_workers, labels.n_classes))
    np.add.at(counts, (labels.worker, labels.label), 1)
    share = counts / np.maximum(counts.sum(axis=1), 1)[:, None]
    found = np.where(common > 0, agreed / np.maximum(common, 1) - share @ share.T, 0.0)
    np.fill_diagonal(found, 0.0)
    return found


@check_arguments
def krippendorff_alpha(labels: CrowdLabels) -> float:
    """Return Krippendorff's alpha for nominal labels; tasks with one label are not used.

    It is one minus observed over expected disagreement: 1 is full agreement, 0 agreement by chance.

    Parameters
    ----------
    labels
        The crowd's labels; tasks may differ in their number of labels.

    Returns
    -------
    float
        At most 1; NaN where it is not defined: no task with two labels, or one class throughout.

    References
    ----------
    .. [1] Krippendorff, "Computing Krippendorff's alpha-reliability", University of Pennsylvania
       (2011), section C.

    Examples
    --------
    >>> from quality import encode
    >>> labels = encode(["ann", "bob"] * 4, [1, 1, 2, 2, 3, 3, 4, 4], list("xxyyxxyx"))
    >>> round(krippendorff_alpha(labels), 3)
    0.533
    """
    return alpha_of(*alpha_sums(labels.task_start, labels.label, labels.n_classes))


@dataclass(frozen=True, slots=True, eq=False)
class CrowdSums:
    """Result of :func:`crowd_sums`.

    Parameters
    ----------
    given
        How often each worker gave each class.
    agreed
        Her labels that equal the consensus.
    gold_n, gold_correct
        Her labels on tasks with gold, and the right ones among them.
    n_conflict
        Her labels on conflict tasks.
    soft_penalty
        As :func:`~quality.soft_penalty`.
    alpha, alpha_kept
        Krippendorff's alpha of all labels, and of those of the workers kept.
    """

    given: Int64[np.ndarray, "workers classes"]
    agreed: Int64[np.ndarray, " workers"]
    gold_n: Int64[np.ndarray, " workers"]
    gold_correct: Int64[np.ndarray, " workers"]
    n_conflict: Int64[np.ndarray, " workers"]
    soft_penalty: Float64[np.ndarray, " workers"]
    alpha: float
    alpha_kept: float

    def __post_init__(self) -> None:
        freeze_arrays(self)

    @property
    def n_labels(self) -> Int64[np.ndarray, " workers"]:
        """Labels of each worker."""
        total: np.ndarray = self.given.sum(axis=1)
        return total

    @property
    def only_class(self) -> Int64[np.ndarray, " workers"]:
        """The class that all of a worker's labels name, if they are two or more; -1 otherwise."""
        constant = (self.n_labels > 1) & (np.count_nonzero(self.given, axis=1) == 1)
        return np.where(constant, self.given.argmax(axis=1), -1)

    @property
    def agreement(self) -> Float64[np.ndarray, " workers"]:
        """Share of each worker's labels that equal the consensus; NaN without labels."""
        return shares_of(self.agreed, self.n_labels)


def crowd_sums(
    engine: Engine,
    keep: Bool[np.ndarray, " workers"],
    heard: Bool[np.ndarray, " workers"],
    posterior: Posterior,
    belief: Any,
) -> CrowdSums:
    """Count the sums of the worker report, with a consensus of the workers heard.

    Parameters
    ----------
    engine
        It works on the shards of all labels.
    keep
        True for each worker kept, of whose labels `alpha_kept` is.
    heard
        True for each worker whose labels make the consensus.
    posterior, belief
        The consensus is the likeliest class of ``posterior(shard, belief)`` of these labels, for example
        :func:`~quality.aggregation.sharded_em.posterior_of_shard` and a fit.

    Notes
    -----
    **Guarantees.** The counts and the soft penalty are, to the bit, those of the whole table; alpha
    differs by rounding. The same bytes on any engine.

    Examples
    --------
    >>> from quality import LocalEngine, cut_labels, encode
    >>> from quality.aggregation.sharded_em import majority_of_shard
    >>> labels = encode(["ann", "bob", "cy", "ann"], [1, 1, 1, 2], list("xyxx"))
    >>> engine = LocalEngine(cut_labels(labels, [0, 1, 2]))
    >>> everybody = np.ones(3, dtype=bool)
    >>> found = crowd_sums(engine, everybody, everybody, majority_of_shard, None)
    >>> found.soft_penalty, found.agreement, found.only_class
    (array([0.5, 1. , 0.5]), array([1., 0., 1.]), array([ 0, -1, -1]))
    """
    sums = engine.add_up(_about_workers, (keep, heard, posterior, belief))
    given, agreed, gold_n, gold_correct, shares, *pairs = sums
    return CrowdSums(
        given, agreed, gold_n, gold_correct, shares[:, 2].copy(), mean_share(shares),
        alpha_of(*pairs[:2]), alpha_of(*pairs[2:]),
    )  # fmt: skip


def _about_workers(
    shard: LabelShard, parameters: tuple[np.ndarray, np.ndarray, Posterior, Any]
) -> Sums:
    """Return what a shard adds to the sums of :func:`crowd_sums`."""
    keep, heard, posterior, belief = parameters
    kept = shard.keep_workers(keep)
    consensus, _ = decide(posterior(shard.keep_workers(heard), belief))
    n_labels = np.diff(shard.task_start)
    truth = np.repeat(shard.gold, n_labels)
    cell = shard.worker.astype(np.int64) * shard.n_classes + shard.label
    given = np.bincount(cell, minlength=shard.n_workers * shard.n_classes)
    return (
        given.reshape(shard.n_workers, shard.n_classes),
        _count(shard, shard.label == np.repeat(consensus, n_labels)),
        _count(shard, truth >= 0),
        _count(shard, shard.label == truth),
        *share_sums(shard, None),
        *alpha_sums(shard.task_start, shard.label, shard.n_classes),
        *alpha_sums(kept.task_start, kept.label, kept.n_classes),
    )


def _count(shard: LabelShard, chosen: Bool[np.ndarray, " labels"]) -> Int64[np.ndarray, " workers"]:
    """Return each worker's number of the chosen rows."""
    return np.bincount(shard.worker[chosen], minlength=shard.n_workers)
