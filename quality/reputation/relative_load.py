"""The hard penalty relative to that of an honest worker with the same tasks.

The load of a worker grows with the number of her labels, and as fewer others share her tasks. Crowds of
honest workers who labelled the same tasks show how far; the rest of the load is evidence about her.
"""

import numpy as np
from jaxtyping import Float64, Int16

from quality.argument_types import check_arguments
from quality.labels import CrowdLabels
from quality.reputation.honest_null import fit_honest
from quality.reputation.penalties import balanced_penalty

__all__ = ["relative_penalty"]

N_CROWDS = 8  # honest crowds; the error of a mean load is a third of one load's spread
MAX_RIGHT = 0.995  # of an honest worker's labels: honest crowds must have some conflicts


@check_arguments
def relative_penalty(
    labels: CrowdLabels, *, rng: np.random.Generator
) -> Float64[np.ndarray, " workers"]:
    """Judge hard penalties relative to those of honest workers: the balanced load over the honest load.

    Honest crowds are drawn in which everybody labels the same tasks as here and is as reliable as the
    honest part of this crowd on average. A worker's honest load is her mean load in them, and at least 1.

    Parameters
    ----------
    labels
        The crowd's labels.
    rng
        Source of randomness, for the honest crowds.

    Returns
    -------
    float64 array, one per worker
        About 1 for an honest worker, more for a worker whose load is more than her tasks explain; 0
        without conflict tasks.

    Notes
    -----
    **Guarantees.** Labelling more than others, with the same reliability, does not raise it.

    **Limits.** If workers label most of the tasks, loads can be moved between any two of them and are equal
    whoever errs. Use the soft penalty then: this one has hardly any information.

    **Cost.** A fit of the honest population, and nine balanced loads.

    References
    ----------
    .. [1] Jagabathula, Subramanian, Venkataraman, "Reputation-based worker filtering in
       crowdsourcing", NIPS 2014, algorithm 2.

    Examples
    --------
    >>> from quality import encode, regular_assignment
    >>> rng = np.random.default_rng(4)
    >>> rows = regular_assignment(n_tasks=300, n_workers=20, labels_per_task=5, rng=rng)
    >>> truth, wrong = rng.integers(2, size=300), (rng.random(1500) < 0.2) | (rows.worker == 7)
    >>> labels = encode(rows.worker, rows.task, truth[rows.task] ^ wrong)
    >>> relative = relative_penalty(labels, rng=rng)
    >>> int(relative.argmax()), round(float(np.median(relative)), 1)
    (7, 1.1)
    """
    load = balanced_penalty(labels)
    if labels.n_classes < 2:
        return load.astype(np.float64)
    honest = np.zeros(labels.n_workers)
    reliability = min(fit_honest(labels).population.mean, MAX_RIGHT)
    believed = np.cumsum(_truth(labels, reliability), axis=1)
    for _ in range(N_CROWDS):
        honest += balanced_penalty(
            _relabelled(labels, _answers(labels, believed, reliability, rng))
        )
    relative: np.ndarray = load / np.maximum(honest / N_CROWDS, 1.0)
    return relative


def _truth(labels: CrowdLabels, reliability: float) -> Float64[np.ndarray, "tasks classes"]:
    """Return P(truth | labels) if everybody has this reliability and errs evenly."""
    odds = np.log(max(reliability, 1e-9) * (labels.n_classes - 1) / (1.0 - reliability))
    log_p = max(odds, 0.0) * labels.counts()
    p = np.exp(log_p - log_p.max(axis=1, keepdims=True))
    return np.asarray(p / p.sum(axis=1, keepdims=True))


def _answers(
    labels: CrowdLabels,
    believed: Float64[np.ndarray, "tasks classes"],
    reliability: float,
    rng: np.random.Generator,
) -> Int16[np.ndarray, " labels"]:
    """Draw a truth for each task from its cumulated belief, and everybody's answer to it."""
    n_classes = labels.n_classes
    truth = (rng.random(labels.n_tasks)[:, np.newaxis] > believed).sum(axis=1)
    answer = np.minimum(truth, n_classes - 1)[labels.task]
    wrong = rng.random(labels.n_labels) >= reliability
    answer[wrong] += rng.integers(1, n_classes, size=np.count_nonzero(wrong))
    codes: np.ndarray = (answer % n_classes).astype(np.int16)
    return codes


def _relabelled(labels: CrowdLabels, answer: Int16[np.ndarray, " labels"]) -> CrowdLabels:
    """Return a table of the same workers and tasks with other answers."""
    return CrowdLabels.from_codes(
        labels.worker, labels.task, answer, workers=labels.workers, tasks=labels.tasks,
        classes=labels.classes,
    )  # fmt: skip
