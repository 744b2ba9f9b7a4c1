"""How far labels agree: with each other, with a consensus, with gold."""

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from jaxtyping import Float64, Int, Int64

from quality.labels.codes import freeze_arrays
from quality.labels.table import CrowdLabels

__all__ = [
    "Accuracy", "PairwiseAgreement", "accuracy", "alpha_of", "alpha_sums", "krippendorff_alpha",
    "pairwise_agreement", "wilson_interval", "worker_agreement",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Share of gold tasks with the right label, and a Wilson interval for it.

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

    Returns
    -------
    Accuracy
        Over the tasks with gold.

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
        Within [0, 1]; all of it where there are no trials.

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
    if not 0 < level < 1:
        raise ValueError(f"level must be in (0, 1), got level={level}")
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
    # exact ends where rounding would leave 1 - 1e-16
    lower = np.where(n_correct > 0, np.maximum(centre - half, 0.0), 0.0)
    upper = np.where(n_correct < n, np.minimum(centre + half, 1.0), 1.0)
    interval: np.ndarray = np.stack([lower, upper], axis=-1)
    return interval


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

    Examples
    --------
    >>> from quality import encode
    >>> labels = encode(["ann", "bob", "ann", "bob"], [1, 1, 2, 2], list("xyxx"))
    >>> worker_agreement(labels, np.array([0, 0]))
    array([1. , 0.5])
    """
    same = labels.label == label[labels.task]
    n_same = np.bincount(labels.worker, same, minlength=labels.n_workers)
    n_labels = np.diff(labels.worker_start)
    share = np.full(labels.n_workers, np.nan)
    np.divide(n_same, n_labels, out=share, where=n_labels > 0)
    return share


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PairwiseAgreement:
    """Result of :func:`pairwise_agreement`.

    Parameters
    ----------
    value
        Share of the pairs of labels of one task that are equal; NaN without pairs.
    n_pairs
        Those pairs.
    worker
        The same share of the pairs that a worker is part of; NaN without any.
    worker_pairs
        Those pairs, for each worker.
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


def pairwise_agreement(labels: CrowdLabels) -> PairwiseAgreement:
    """Count how often two workers give one task the same label, overall and for each worker.

    Unlike :func:`worker_agreement` it needs no consensus, of which her own label would be a part.

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
    counts = labels.counts().astype(np.int64)
    same = counts[labels.task, labels.label] - 1
    others = np.diff(labels.task_start)[labels.task] - 1
    n_same = np.bincount(labels.worker, same, labels.n_workers)
    n_pairs = np.bincount(labels.worker, others, labels.n_workers)
    share = np.full(labels.n_workers, np.nan)
    np.divide(n_same, n_pairs, out=share, where=n_pairs > 0)
    # each pair is counted from both sides
    value = float(same.sum() / others.sum()) if others.any() else float("nan")
    return PairwiseAgreement(value, int(others.sum()) // 2, share, n_pairs.astype(np.int64))


def krippendorff_alpha(labels: CrowdLabels) -> float:
    """Return Krippendorff's alpha for nominal labels; tasks with one label say nothing.

    One minus observed over expected disagreement: 1 is full agreement, 0 what chance gives.

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
    return alpha_of(*alpha_sums(labels.counts()))


def alpha_sums(
    counts: Int[np.ndarray, "tasks classes"],
) -> tuple[Int64[np.ndarray, " classes"], Float64[np.ndarray, " 1"]]:
    """Return what tasks add to alpha: labels of each class, and pairs apart, both where there are pairs."""
    paired = counts[counts.sum(axis=1) > 1].astype(np.float64)
    n_labels = paired.sum(axis=1)
    apart = n_labels**2 - (paired**2).sum(axis=1)
    by_class = paired.sum(axis=0).astype(np.int64)
    return by_class, np.array([(apart / (n_labels - 1)).sum()])


def alpha_of(by_class: Int64[np.ndarray, " classes"], apart: Float64[np.ndarray, " 1"]) -> float:
    """Return the alpha that the sums of all tasks amount to."""
    labels = by_class.astype(np.float64)
    total = labels.sum()
    expected = (total**2 - (labels**2).sum()) / max(total - 1, 1)
    return float(1 - apart[0] / expected) if expected > 0 else float("nan")
