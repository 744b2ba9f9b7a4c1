"""Bradley and Terry's model with worker parameters: discrimination, position bias and rate of ties.

>>> from quality.comparisons import encode_comparisons
>>> workers, left, right = ["ann", "bob"] * 6, list("xxyyzz") * 2, list("yyzzxx") * 2
>>> found = crowd_bradley_terry(encode_comparisons(workers, left, right, ["left", "tie"] * 6))
>>> bool(found.tie[0] < found.tie[1])  # bob calls everything a tie
True
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int, Shaped

from quality.argument_types import check_arguments
from quality.comparisons.bradley_terry_newton import Rows, climb_scores, rows_of
from quality.comparisons.comparison_table import TIE, Comparisons
from quality.comparisons.judged_pass import judge_pass, marginal_information
from quality.labels import freeze_arrays
from quality.parallel import Progress, counter

__all__ = ["CrowdBradleyTerry", "crowd_bradley_terry"]

START = (0.25, 0.1, 0.5)  # variances of discrimination, position and log ties before any evidence
# prior of a variance of workers, with the weight of two workers
SEEN, SPREAD = 2.0, 0.1
SEEN_ITEMS, SCORE_SPREAD = 2.0, 2.0  # and of the variance of scores, with the weight of two items
MIN_CLUSTERS = 30  # questions before their dispersion counts
MIN_SCALE = 0.05  # a crowd of smaller discrimination keeps its scale


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CrowdBradleyTerry:
    """Result of :func:`crowd_bradley_terry`.

    Parameters
    ----------
    items, workers
        Names, as in the table.
    score
        Log strength of each item to the average worker; the scores add up to 0.
    covariance
        Covariance of the scores, including uncertainty about workers, and questions that shift answers
        alike.
    discrimination
        How sharply each worker separates items, 1 on average; 0 judges by chance, below 0 prefers the worse
        item.
    position
        Log odds of left against right between equal items.
    tie
        Log weight of a tie; between equal items the odds of a tie are exp(tie) / 2.
    standard_error
        Standard error of `discrimination`, `position` and `tie`, given the scores.
    information
        Average information of the worker's answer about a pair of these items, in units of the average
        worker's answer.
    dispersion
        Agreement of the answers to one question over that of the model, at least 1.
    log_likelihood
        Log-likelihood of the comparisons, in nats.
    n_iter, converged
        Iterations made, and whether the scores had settled by then.
    """

    items: Shaped[np.ndarray, " items"]
    workers: Shaped[np.ndarray, " workers"]
    score: Float64[np.ndarray, " items"]
    covariance: Float64[np.ndarray, "items items"]
    discrimination: Float64[np.ndarray, " workers"]
    position: Float64[np.ndarray, " workers"]
    tie: Float64[np.ndarray, " workers"]
    standard_error: Float64[np.ndarray, "workers 3"]
    information: Float64[np.ndarray, " workers"]
    dispersion: float
    log_likelihood: float
    n_iter: int
    converged: bool

    def __post_init__(self) -> None:
        freeze_arrays(self)

    def __repr__(self) -> str:
        best = self.items[int(np.argmax(self.score))]
        return (
            f"CrowdBradleyTerry({len(self.items)} items, {best} first, {len(self.workers)} workers)"
        )

    def chances(self, comparisons: Comparisons) -> Float64[np.ndarray, "comparisons 3"]:
        """Return P(left), P(right) and P(tie) of each comparison, by its worker.

        The comparisons name the same items and workers, such as :meth:`Comparisons.take` returns.
        """
        d = self.score[comparisons.left] - self.score[comparisons.right]
        judge = np.column_stack([self.discrimination, self.position, self.tie])
        return _all_chances(d, judge[comparisons.worker])


@check_arguments
def crowd_bradley_terry(
    comparisons: Comparisons,
    *,
    groups: Int[np.ndarray, " workers"] | None = None,
    max_iter: int = 200,
    tol: float = 1e-4,
    progress: Progress | None = None,
) -> CrowdBradleyTerry:
    """Rank items, and estimate each worker's discrimination, position bias and rate of ties.

    A hierarchical model. Scores are normal around 0 and discriminations around 1. Positions and ties are
    normal around the crowd's means, of which that of the position is itself normal around 0. The variances
    are learned. Newton's method updates scores and workers in turn, and the variances follow from the
    remaining uncertainty (EM).

    Parameters
    ----------
    comparisons
        Items compared, and the outcomes.
    groups
        A group for each worker, as :func:`~quality.dependent_groups` finds on ``comparisons.as_labels()``;
        a group has one vote on a question.
    max_iter, tol
        Stop after this many iterations, or once no score moves by more than `tol`.
    progress
        As in :mod:`quality.parallel`.

    Raises
    ------
    ValueError
        If there are more than 5,000 items, no comparison, or no step.

    Notes
    -----
    **Guarantees.** Swapping the sides of all comparisons changes the signs of the positions and nothing
    else. Items without comparisons have a score near 0, and a variance of the prior's times the dispersion,
    which multiplies all variances.

    **Limits.** The variance of the scores is learned, with a prior that counts as two items whose scores
    have a variance of 2: without it few comparisons may give nearly no variance, and intervals that are too
    narrow. With few items that are much farther apart, and few comparisons, intervals cover too little: for
    six items with a standard deviation of 2, and thirty comparisons, those of 95 % cover some 90 % if all
    workers judge alike, and some 80 % if there are five or more who differ (discriminations with a standard
    deviation of 0.6). With two hundred comparisons by three of these they hold.

    **Cost.** Two passes over the comparisons and a solution of items x items equations per iteration.

    References
    ----------
    .. [1] Chen, Bennett, Collins-Thompson, Horvitz, "Pairwise ranking aggregation in a crowdsourced
       setting", WSDM 2013.
    .. [2] Davidson, JASA 65 (1970): ties.
    """
    if not max_iter >= 1:
        raise ValueError(f"max_iter must be >= 1, got {max_iter}")
    if not len(comparisons.worker):
        raise ValueError("there must be a comparison or more, got none")
    rows = rows_of(comparisons, groups)
    tell = counter(progress, "Comparisons", max_iter)
    n_items, n_workers = len(comparisons.items), len(comparisons.workers)
    log_tie = np.log((rows.weight @ (rows.outcome == TIE) + 0.5) / (rows.weight.sum() + 1))
    centre, variance, spread = np.array([1.0, 0.0, log_tie]), np.array(START), 1.0
    score, judge = np.zeros(n_items), np.tile(centre, (n_workers, 1))
    known = np.zeros((n_workers, 3, 3))
    n_iter, converged = 0, False
    while n_iter < max_iter and not converged:
        climbed = climb_scores(rows, score, judge, 1 / spread)
        risen = climbed.score
        shown = float(risen @ risen + np.trace(climbed.inverse))
        spread = (shown + SEEN_ITEMS * SCORE_SPREAD) / (n_items + SEEN_ITEMS)
        judge, known = _judges(rows, risen, judge, centre, variance)
        scale = judge[:, 0].mean()
        if scale > MIN_SCALE:
            judge[:, 0] /= scale
            risen, spread = risen * scale, spread * scale**2
        lean = judge[:, 1].sum() / (n_workers + variance[1])  # normal around 0, variance 1
        centre = np.array([1.0, lean, judge[:, 2].mean()])
        off = ((judge - centre) ** 2 + np.diagonal(known, axis1=1, axis2=2)).sum(axis=0)
        variance = (off + SEEN * SPREAD) / (n_workers + SEEN)
        n_iter += 1
        converged = bool(np.abs(risen - score).max(initial=0.0) <= tol)
        score = risen
        tell(n_iter)
    return _result(comparisons, rows, score, judge, known, 1 / spread, n_iter, converged)


def _judges(
    rows: Rows,
    score: Float64[np.ndarray, " items"],
    judge: Float64[np.ndarray, "workers 3"],
    centre: Float64[np.ndarray, " 3"],
    variance: Float64[np.ndarray, " 3"],
) -> tuple[Float64[np.ndarray, "workers 3"], Float64[np.ndarray, "workers 3 3"]]:
    """Take a Newton step with every worker; return the workers and their covariance given the scores."""
    gradient, information = np.zeros_like(judge), np.zeros((len(judge), 3, 3))
    judge_pass(*rows, score, judge, gradient, information)
    lower = np.tril_indices(3, -1)
    information[:, lower[0], lower[1]] = information[:, lower[1], lower[0]]
    information += np.diag(1 / variance)
    covariance = np.linalg.inv(information)
    step = np.einsum("kpq,kq->kp", covariance, gradient - (judge - centre) / variance)
    return judge + np.clip(step, -1, 1), covariance  # far from the maximum steps are too long


def _result(
    comparisons: Comparisons,
    rows: Rows,
    score: Float64[np.ndarray, " items"],
    judge: Float64[np.ndarray, "workers 3"],
    known: Float64[np.ndarray, "workers 3 3"],
    precision: float,
    n_iter: int,
    converged: bool,
) -> CrowdBradleyTerry:
    _, information, _, likelihood = climb_scores(rows, score, judge, precision)
    sides = rows.left, rows.right, rows.weight
    root = np.linalg.cholesky(known)
    marginal_information(comparisons.worker_start, *sides, score, judge, root, information)
    dispersion = _dispersion(comparisons, rows, score, judge)
    covariance = np.linalg.inv((information + information.T) / 2) * dispersion
    centred = np.eye(len(score)) - 1 / len(score)
    covariance = centred @ covariance @ centred
    d = score[rows.left] - score[rows.right]
    return CrowdBradleyTerry(
        comparisons.items,
        comparisons.workers,
        score - score.mean(),
        (covariance + covariance.T) / 2,
        np.ascontiguousarray(judge[:, 0]),
        np.ascontiguousarray(judge[:, 1]),
        np.ascontiguousarray(judge[:, 2]),
        np.sqrt(np.diagonal(known, axis1=1, axis2=2)),
        _information_of(judge, d),
        dispersion,
        float(likelihood),
        n_iter,
        converged,
    )


def _all_chances(
    d: Float64[np.ndarray, " rows"], judge: Float64[np.ndarray, "rows 3"]
) -> Float64[np.ndarray, "rows 3"]:
    half = (judge[:, 0] * d + judge[:, 1]) / 2
    logits = np.column_stack([half, -half, judge[:, 2]])
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def _curves(
    chance: Float64[np.ndarray, "rows 3"], discrimination: Float64[np.ndarray, " rows"]
) -> Float64[np.ndarray, " rows"]:
    """Return the expected information of each answer about the difference of two scores."""
    lean = chance[:, 0] - chance[:, 1]
    return np.asarray(discrimination**2 / 4 * (chance[:, 0] + chance[:, 1] - lean**2))


def _dispersion(
    comparisons: Comparisons,
    rows: Rows,
    score: Float64[np.ndarray, " items"],
    judge: Float64[np.ndarray, "workers 3"],
) -> float:
    """Return the variance of the questions' slopes over that of independent answers, at least 1."""
    _, place = np.unique(comparisons.question, return_inverse=True)
    if not place.size or place.max() + 1 < MIN_CLUSTERS:
        return 1.0
    own = judge[rows.worker]
    chance = _all_chances(score[rows.left] - score[rows.right], own)
    answer = np.where(rows.outcome == TIE, 0.0, 1.0 - 2.0 * rows.outcome)
    slope = rows.weight * own[:, 0] / 2 * (answer - (chance[:, 0] - chance[:, 1]))
    slope = np.where(rows.left < rows.right, slope, -slope)
    expected = float(rows.weight**2 @ _curves(chance, own[:, 0]))
    found = float((np.bincount(place, slope) ** 2).sum())
    return max(1.0, found / expected) if expected else 1.0


def _information_of(
    judge: Float64[np.ndarray, "workers 3"], d: Float64[np.ndarray, " rows"]
) -> Float64[np.ndarray, " workers"]:
    """Return the mean information of each worker's answer, over the pairs that were compared."""
    shown = np.quantile(d, np.linspace(0.05, 0.95, 10)) if len(d) else np.zeros(1)
    both = [np.repeat(one, len(judge)) for one in shown]
    found = sum(_curves(_all_chances(one, judge), judge[:, 0]) for one in both) / len(both)
    mean = float(np.mean(found))
    return np.asarray(found / mean if mean else found)
