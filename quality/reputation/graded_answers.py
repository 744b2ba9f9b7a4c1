"""Penalties where classes are grades: a neighbour's answer is a part of a conflict.

The weight of a label node is the mean distance from its class to the labels that it is in conflict with,
in units of the whole scale. The weighted soft penalty shares that weight among the workers who gave the
class; with all classes as far apart as the ends it is the soft penalty. The loads of an optimal
semi-matching have no such form: evening out whole jobs of unequal weight is NP-hard (PARTITION is the case of
two workers).

>>> from quality import encode
>>> labels = encode(["ann", "bob", "cy"] * 2, [1, 1, 1, 2, 2, 2], list("112115"), classes=list("12345"))
>>> graded_penalty(labels)
array([0.3125, 0.3125, 0.625 ])
"""

import numpy as np
from jaxtyping import Float64, Int64

from quality.labels import CrowdLabels
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
FIRST_DECAY = 0.5  # of wrong grades with distance, before any is seen
SEEN = 1.0  # wrong labels at each distance taken for seen


def graded_penalty(labels: CrowdLabels) -> Float64[np.ndarray, " workers"]:
    """Penalise each label by how far it is from those it is in conflict with, shared by those who gave it.

    On a conflict task each of the n_jk workers who gave class k gets d / n_jk, d being the mean distance
    from k to the task's other classes, label by label, over the number of classes less 1. The penalty of
    a worker is the mean over her conflict tasks.

    Parameters
    ----------
    labels
        The crowd's labels, whose classes are in their order.

    Returns
    -------
    float64 array, one per worker
        In [0, 1]; 0 for a worker without conflict tasks.

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
    given = _penalties(labels.counts().astype(np.float64)[labels.task], labels)
    hers = given[np.arange(labels.n_labels), labels.label]
    total = np.bincount(labels.worker, hers, labels.n_workers)
    n_conflict = np.bincount(labels.worker, hers > 0, labels.n_workers)
    return np.asarray(total / np.maximum(n_conflict, 1))


def _penalties(
    count: Float64[np.ndarray, "labels classes"], labels: CrowdLabels, *, own: bool = True
) -> Float64[np.ndarray, "labels classes"]:
    """Return the penalty of each answer by the counts of its task, which hold the worker's own or do not."""
    n_classes = labels.n_classes
    place = np.arange(n_classes, dtype=np.float64)
    apart = count @ (np.abs(place[:, np.newaxis] - place) / max(n_classes - 1, 1))
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

    As :func:`~quality.reputation.honest_null.fit_honest`, but a wrong grade is the rarer the farther off:
    by a law of distance that workers taken for honest share. Return the population, what the others' labels
    say at each label, each worker's reliability and the share of each class.
    """
    n_classes, rows = labels.n_classes, np.arange(labels.n_labels)
    candidates, asked = Candidates.of(n_classes), np.flatnonzero(np.diff(labels.worker_start) > 0)
    reliability, prior = np.full(labels.n_workers, 0.75), np.full(n_classes, 1 / n_classes)
    distance = np.abs(np.arange(n_classes)[:, np.newaxis] - np.arange(n_classes))
    law = FIRST_DECAY ** np.arange(n_classes, dtype=np.float64)
    evidence, order = np.empty((labels.n_workers, N_GRID)), looked_at(asked)
    for _ in range(N_STEPS):
        spread = _wrong(law, distance)
        others, everybody = _ask(labels, reliability, spread, prior)
        prior = (everybody.sum(axis=0) + 1) / (everybody.sum() + n_classes)
        right, flat = others[rows, labels.label], (others @ spread)[rows, labels.label]
        _write_evidence(
            labels.worker_order, labels.worker_start, right, flat, RELIABILITY, evidence
        )
        population, crowd = fit_population(evidence, order, candidates)
        reliability = (evidence @ (crowd * RELIABILITY)) / (evidence @ crowd)
        honest = (1 - population.adversaries) * (evidence @ population.probability)
        trusted = (honest / (evidence @ crowd))[labels.worker]
        hers = reliability[labels.worker]
        missed = others * spread[:, labels.label].T * (1 - hers)[:, np.newaxis]
        missed *= (trusted / (right * hers + missed.sum(axis=1)))[:, np.newaxis]
        law = _law_of(missed, labels, law, distance)
    count = labels.counts().astype(np.float64)[labels.task]
    count[rows, labels.label] -= 1
    flat = others @ spread
    terms = np.stack([flat, others - flat, _penalties(count, labels, own=False)], axis=2)
    return (
        population,
        GradedAnswers(labels.task, right, terms.ravel(), n_classes),
        reliability,
        prior,
    )


def _wrong(
    law: Float64[np.ndarray, " distances"], distance: Int64[np.ndarray, "classes classes"]
) -> Float64[np.ndarray, "truths answers"]:
    """Return the chance of each wrong answer if one is given, by a law of distance."""
    table = law[distance]
    np.fill_diagonal(table, 0.0)
    return np.asarray(table / table.sum(axis=1, keepdims=True))


def _law_of(
    missed: Float64[np.ndarray, "labels classes"],
    labels: CrowdLabels,
    law: Float64[np.ndarray, " distances"],
    distance: Int64[np.ndarray, "classes classes"],
) -> Float64[np.ndarray, " distances"]:
    """Return how wrong grades fall off: those missed at each distance, over the room that classes leave."""
    n_classes = labels.n_classes
    by_answer = np.array(
        [np.bincount(labels.label, one, n_classes) for one in missed.T]
    )  # truths by answers
    at = np.bincount(distance.ravel(), by_answer.ravel(), n_classes)
    room = np.array([(distance == d).sum(axis=1) for d in range(n_classes)])  # distances by truths
    reached = law[1:] @ room[1:]
    expected = room @ ((by_answer.sum(axis=1) + SEEN) / reached)
    found = np.empty(n_classes)
    found[0], found[1:] = 1.0, (at[1:] + SEEN * law[1:]) / expected[1:]
    return found


def _ask(
    labels: CrowdLabels,
    reliability: Float64[np.ndarray, " workers"],
    spread: Float64[np.ndarray, "truths answers"],
    prior: Float64[np.ndarray, " classes"],
) -> tuple[Float64[np.ndarray, "labels classes"], Float64[np.ndarray, "tasks classes"]]:
    """Return P(truth | labels but this one) at each label, and P(truth | all labels) of each task."""
    rows = np.arange(labels.n_labels)
    hers = reliability[labels.worker]
    log_chance = np.log(np.maximum(spread[:, labels.label].T * (1 - hers)[:, np.newaxis], 1e-300))
    log_chance[rows, labels.label] = np.log(hers)
    belief = np.array([np.bincount(labels.task, one, labels.n_tasks) for one in log_chance.T]).T
    belief = belief + np.log(prior)
    return _chances(belief[labels.task] - log_chance), _chances(belief)


def _chances(
    log_weight: Float64[np.ndarray, "rows classes"],
) -> Float64[np.ndarray, "rows classes"]:
    weight = np.exp(log_weight - log_weight.max(axis=1, keepdims=True))
    return np.asarray(weight / weight.sum(axis=1, keepdims=True))


@kernel
def _write_evidence(worker_order, worker_start, right, flat, reliability, evidence) -> None:
    """Write the likelihood of each worker's labels at every reliability, over the largest."""
    for worker in range(len(worker_start) - 1):
        highest = -np.inf
        for place in range(len(reliability)):
            total = 0.0
            for at in range(worker_start[worker], worker_start[worker + 1]):
                row = worker_order[at]
                total += np.log(flat[row] + (right[row] - flat[row]) * reliability[place])
            evidence[worker, place] = total
            highest = max(highest, total)
        for place in range(len(reliability)):
            evidence[worker, place] = np.exp(evidence[worker, place] - highest)
