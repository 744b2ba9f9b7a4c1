"""Penalties for classes that are grades: a near grade is a small conflict.

The weight of a label node is the mean distance from its class to the labels that it is in conflict with,
in units of the whole scale. The weighted soft penalty shares that weight among the workers who gave the
class; with all classes as far apart as the ends it is the soft penalty. The loads of an optimal
semi-matching have no weighted form: evening out whole jobs of unequal weight is NP-hard (PARTITION is the
case of two workers).

>>> from quality import encode
>>> labels = encode(["ann", "bob", "cy"] * 2, [1, 1, 1, 2, 2, 2], list("112115"), classes=list("12345"))
>>> graded_penalty(labels)
array([0.3125, 0.3125, 0.625 ])
"""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float64, Int16, Int32, Int64

from quality.argument_types import check_arguments
from quality.labels import CrowdLabels, LabelError, count_labels
from quality.parallel import kernel
from quality.reputation.honest_population import (
    N_GRID,
    RELIABILITY,
    Candidates,
    HonestPopulation,
    fit_population,
    looked_at,
)
from quality.reputation.other_answers import GradedAnswers

__all__ = ["fit_graded", "graded_penalty"]

N_STEPS = 8  # from workers to truth and back
FIRST_DECAY = 0.5  # of wrong grades with distance, before any label is read
LEAST_LAW = 1e-9  # least value of the law, for a distance that is never met
AT_ONCE = 16  # chances whose product does not underflow
MAX_CLASSES = 1_000  # the law of distance has tables of their square
MAX_CELLS = 2**29  # of labels by classes; there are four such tables: 16 GB
CELLS = 2**19  # of them at a time
SEEN = 1.0  # pseudo-count of wrong labels at each distance


@check_arguments
def graded_penalty(labels: CrowdLabels) -> Float64[np.ndarray, " workers"]:
    """Penalise each label by its distance from those in conflict with it, shared by the workers who gave it.

    On a conflict task each of the n_jk workers who gave class k gets d / n_jk. Here d is the mean distance
    from k to the task's labels of other classes, over the number of classes less 1. The penalty of a worker
    is the mean over her conflict tasks.

    Parameters
    ----------
    labels
        The crowd's labels; the order of their classes is the scale.

    Returns
    -------
    float64 array, one per worker
        In [0, 1]; 0 for a worker without conflict tasks.

    Raises
    ------
    LabelError
        If there are more than 1,000 classes.

    Notes
    -----
    **Guarantees.** Of two classes it is :func:`quality.soft_penalty`, up to rounding, and it is nowhere
    above that. Turning the order round changes nothing but rounding.

    **Limits.** Those of :func:`quality.soft_penalty`.

    Examples
    --------
    >>> from quality import encode
    >>> graded_penalty(encode(["ann", "bob", "cy", "ann"], [1, 1, 1, 2], list("xyxx")))
    array([0.5, 1. , 0.5])
    """
    _check_scale(labels)
    hers = np.empty(labels.n_labels)
    for rows, count in _counts(labels):
        label = labels.label[rows]
        hers[rows] = _penalties(count, labels)[np.arange(len(label)), label]
    total = np.bincount(labels.worker, hers, labels.n_workers)
    n_conflict = np.bincount(labels.worker, hers > 0, labels.n_workers)
    return np.asarray(total / np.maximum(n_conflict, 1))


def _check_scale(labels: CrowdLabels) -> None:
    if labels.n_classes > MAX_CLASSES:
        raise LabelError(
            f"ordered classes must be at most {MAX_CLASSES:,}, got {labels.n_classes:,}; put grades together",
            column="classes",
        )


def _counts(labels: CrowdLabels) -> Iterator[tuple[slice, Float64[np.ndarray, "rows classes"]]]:
    """Yield blocks of labels, and for each label the counts of its task."""
    at_once = max(CELLS // labels.n_classes, 1)
    for first in range(0, labels.n_labels, at_once):
        rows = slice(first, min(first + at_once, labels.n_labels))
        start = labels.task_start[labels.task[first]]
        whole = slice(start, labels.task_start[labels.task[rows.stop - 1] + 1])
        tasks, task = np.unique(labels.task[whole], return_inverse=True)
        count = count_labels(task, labels.label[whole], len(tasks), labels.n_classes)
        yield rows, count[task[first - start : rows.stop - start]].astype(np.float64)


def _penalties(
    count: Float64[np.ndarray, "labels classes"], labels: CrowdLabels, *, own: bool = True
) -> Float64[np.ndarray, "labels classes"]:
    """Return the penalty of each answer from its task's counts, with or without the worker's own label."""
    below, above = count.cumsum(axis=1), count[:, ::-1].cumsum(axis=1)
    apart = np.zeros_like(count)  # a label is one farther from every class beyond the next
    apart[:, 1:] = below[:, :-1].cumsum(axis=1)
    apart[:, -2::-1] += above[:, :-1].cumsum(axis=1)
    apart /= max(labels.n_classes - 1, 1)
    others = count.sum(axis=1, keepdims=True) - count
    same = count if own else count + 1
    weight = np.divide(apart, others, out=np.zeros_like(apart), where=others > 0)
    return np.asarray(weight / np.maximum(same, 1))


def fit_graded(
    labels: CrowdLabels,
) -> tuple[
    HonestPopulation,
    GradedAnswers,
    Float64[np.ndarray, " workers"],
    Float64[np.ndarray, " classes"],
]:
    """Fit the honest population of graders: how often they are right, and how far off wrong grades are.

    As :func:`~quality.reputation.honest_null.fit_honest`, but wrong grades fall off with distance, by a law
    common to the workers who look honest. Return the population, the answers expected at each label from the
    others' labels, each worker's reliability and the share of each class. Raise LabelError for more than
    1,000 classes, or if tables of labels by classes would be too large.
    """
    _check_scale(labels)
    n_classes = labels.n_classes
    if labels.n_labels * n_classes > MAX_CELLS:
        raise LabelError(
            f"labels times ordered classes must be at most {MAX_CELLS:,}, got {labels.n_labels:,} labels and "
            f"{n_classes:,} classes; put grades together",
            column="classes",
        )
    candidates, asked = Candidates.of(n_classes), np.flatnonzero(np.diff(labels.worker_start) > 0)
    reliability, prior = np.full(labels.n_workers, 0.75), np.full(n_classes, 1 / n_classes)
    distance = np.abs(np.arange(n_classes)[:, np.newaxis] - np.arange(n_classes))
    law = np.maximum(FIRST_DECAY ** np.arange(n_classes, dtype=np.float64), LEAST_LAW)
    evidence, order = np.empty((labels.n_workers, N_GRID)), looked_at(asked)
    others, (right, flat) = np.empty((labels.n_labels, n_classes)), np.empty((2, labels.n_labels))
    for _ in range(N_STEPS):
        spread, share = _wrong(law, distance), np.zeros(n_classes)
        _ask(
            labels.task_start, labels.worker, labels.label, reliability, spread, _logarithms(spread),
            prior, np.empty(n_classes), others, right, flat, share,
        )  # fmt: skip
        prior = (share + 1) / (share.sum() + n_classes)
        _write_evidence(
            labels.worker_order, labels.worker_start, right, flat, RELIABILITY, evidence, np.empty(N_GRID)
        )  # fmt: skip
        population, crowd = fit_population(evidence, order, candidates)
        reliability = (evidence @ (crowd * RELIABILITY)) / (evidence @ crowd)
        honest = (1 - population.adversaries) * (evidence @ population.probability)
        missed = np.zeros((n_classes, n_classes))
        _add_missed(
            labels.worker, labels.label, others, right, flat, spread, reliability,
            honest / (evidence @ crowd), missed,
        )  # fmt: skip
        law = _law_of(missed, law, distance)
    terms = np.empty((labels.n_labels, n_classes, 3))
    for rows, count in _counts(labels):
        label = labels.label[rows]
        count[np.arange(len(label)), label] -= 1
        terms[rows, :, 0] = others[rows] @ spread
        terms[rows, :, 1] = others[rows] - terms[rows, :, 0]
        terms[rows, :, 2] = _penalties(count, labels, own=False)
    return (
        population,
        GradedAnswers(labels.task, right, terms.ravel(), n_classes),
        reliability,
        prior,
    )


def _wrong(
    law: Float64[np.ndarray, " distances"], distance: Int64[np.ndarray, "classes classes"]
) -> Float64[np.ndarray, "truths answers"]:
    """Return P(answer | truth, the answer is wrong), by a law of distance."""
    table = law[distance]
    np.fill_diagonal(table, 0.0)
    return np.asarray(table / table.sum(axis=1, keepdims=True))


def _logarithms(
    spread: Float64[np.ndarray, "truths answers"],
) -> Float64[np.ndarray, "truths answers"]:
    """Return the logarithms of the chances of wrong answers, 0 on the diagonal."""
    chance = spread + np.eye(len(spread))
    return np.asarray(np.log(chance))


def _law_of(
    missed: Float64[np.ndarray, "truths answers"],
    law: Float64[np.ndarray, " distances"],
    distance: Int64[np.ndarray, "classes classes"],
) -> Float64[np.ndarray, " distances"]:
    """Return the law of wrong grades by distance: those counted over those that the scale has room for."""
    n_classes = len(law)
    at = np.bincount(distance.ravel(), missed.ravel(), n_classes)
    place = np.arange(n_classes)
    room = 1 * (place[:, np.newaxis] <= place)  # distances by truths: classes below, then above
    room[1:] += room[1:, ::-1]
    reached = law[1:] @ room[1:]
    expected = room @ ((missed.sum(axis=1) + SEEN) / reached)
    found = np.empty(n_classes)
    found[0], found[1:] = 1.0, np.maximum((at[1:] + SEEN * law[1:]) / expected[1:], LEAST_LAW)
    return found


@kernel
def _ask(
    task_start: Int64[np.ndarray, " task_starts"],
    worker: Int32[np.ndarray, " labels"],
    label: Int16[np.ndarray, " labels"],
    reliability: Float64[np.ndarray, " workers"],
    spread: Float64[np.ndarray, "truths answers"],
    log_spread: Float64[np.ndarray, "truths answers"],
    prior: Float64[np.ndarray, " classes"],
    belief: Float64[np.ndarray, " classes"],
    others: Float64[np.ndarray, "labels classes"],
    right: Float64[np.ndarray, " labels"],
    flat: Float64[np.ndarray, " labels"],
    share: Float64[np.ndarray, " classes"],
) -> None:
    """Write P(truth | the task's other labels) at each label, and add up P(truth | all labels), in place.

    `right` and `flat` are the chances of the label itself: if the worker is right, and if she is wrong.
    `belief` is working memory.
    """
    n_classes = len(prior)
    for task in range(len(task_start) - 1):
        highest = -np.inf
        for truth in range(n_classes):
            belief[truth] = np.log(prior[truth])
        for row in range(task_start[task], task_start[task + 1]):
            hers, mine = reliability[worker[row]], label[row]
            odds = np.log(hers / (1.0 - hers))
            for truth in range(n_classes):
                belief[truth] += odds if truth == mine else log_spread[truth, mine]
        for truth in range(n_classes):
            highest = max(highest, belief[truth])
        total = 0.0
        for truth in range(n_classes):
            belief[truth] = np.exp(belief[truth] - highest)
            total += belief[truth]
        for truth in range(n_classes):
            share[truth] += belief[truth] / total
        for row in range(task_start[task], task_start[task + 1]):
            hers, mine, rest = reliability[worker[row]], label[row], 0.0
            for truth in range(n_classes):
                chance = hers if truth == mine else spread[truth, mine] * (1.0 - hers)
                others[row, truth] = belief[truth] / chance
                rest += others[row, truth]
            flat[row] = 0.0
            for truth in range(n_classes):
                others[row, truth] /= rest
                flat[row] += others[row, truth] * spread[truth, mine]
            right[row] = others[row, mine]


@kernel
def _add_missed(
    worker: Int32[np.ndarray, " labels"],
    label: Int16[np.ndarray, " labels"],
    others: Float64[np.ndarray, "labels classes"],
    right: Float64[np.ndarray, " labels"],
    flat: Float64[np.ndarray, " labels"],
    spread: Float64[np.ndarray, "truths answers"],
    reliability: Float64[np.ndarray, " workers"],
    trusted: Float64[np.ndarray, " workers"],
    missed: Float64[np.ndarray, "truths answers"],
) -> None:
    """Add up the expected wrong labels by truth and answer, weighted by their workers' P(honest)."""
    for row in range(len(label)):
        hers, mine = reliability[worker[row]], label[row]
        wrong = 1.0 - hers
        scale = trusted[worker[row]] * wrong / (right[row] * hers + flat[row] * wrong)
        for truth in range(len(missed)):
            missed[truth, mine] += others[row, truth] * spread[truth, mine] * scale


@kernel
def _write_evidence(
    worker_order: Int64[np.ndarray, " labels"],
    worker_start: Int64[np.ndarray, " worker_starts"],
    right: Float64[np.ndarray, " labels"],
    flat: Float64[np.ndarray, " labels"],
    reliability: Float64[np.ndarray, " grid"],
    evidence: Float64[np.ndarray, "workers grid"],
    product: Float64[np.ndarray, " grid"],
) -> None:
    """Write the likelihood of each worker's labels at every reliability, divided by the largest.

    `product` is working memory.
    """
    for worker in range(len(worker_start) - 1):
        begin, end = worker_start[worker], worker_start[worker + 1]
        for place in range(len(reliability)):
            evidence[worker, place] = 0.0
        for low in range(begin, end, AT_ONCE):  # one logarithm for several labels
            for place in range(len(reliability)):
                product[place] = 1.0
            for at in range(low, min(low + AT_ONCE, end)):
                wrong = flat[worker_order[at]]
                slope = right[worker_order[at]] - wrong
                for place in range(len(reliability)):
                    product[place] *= wrong + slope * reliability[place]
            for place in range(len(reliability)):
                evidence[worker, place] += np.log(product[place])
        highest = -np.inf
        for place in range(len(reliability)):
            highest = max(highest, evidence[worker, place])
        for place in range(len(reliability)):
            evidence[worker, place] = np.exp(evidence[worker, place] - highest)
