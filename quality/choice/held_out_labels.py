"""Predictions of labels held out: folds of labels, the crowd's confusion matrix, and workers' shares right.

>>> from quality import encode, majority_vote
>>> labels = encode(["ann", "bob", "cy"] * 2, [1, 1, 1, 2, 2, 2], list("aabbba"))
>>> out = folds(labels, 3) == 0
>>> posterior = majority_vote(labels.keep_labels(~out)).posterior
>>> predict_held_out(labels, out, posterior).round(2)
array([-0.83, -1.23])
"""

import numpy as np
from jaxtyping import Bool, Float64, Int, Int16, Int32, Int64

from quality.labels import CrowdLabels, NamedPosterior
from quality.parallel import kernel

__all__ = [
    "answers_given", "check_folds", "constant_workers", "crowd_share", "dealt", "folds",
    "held_of_sizes", "log_by_workers", "log_chances", "log_of_classes", "log_right", "meanings",
    "meanings_of", "predict_held_out", "right_of", "right_shares", "scored_folds",
]  # fmt: skip

BY_CHANCE = 0.01  # a worker gives one class alone if its chance of all her labels is below this
MAX_FOLDS = 32_767  # a label's fold is a number of 16 bits
PSEUDO_LABELS = 2.0  # of the crowd's share of right ones, beside each worker's own


def scored_folds(labels: CrowdLabels, n_folds: int) -> Int16[np.ndarray, " labels"]:
    """Return the fold of each label, as `folds` does; -1 also for labels of workers who give one class alone.

    If no other label could be held out, these keep their folds.
    """
    fold = folds(labels, n_folds)
    scored = (fold >= 0) & ~_constant(labels)[labels.worker]
    return np.where(scored, fold, np.int16(-1)) if scored.any() else fold


def _constant(labels: CrowdLabels) -> Bool[np.ndarray, " workers"]:
    """Return whether each worker gives one class alone, by :func:`constant_workers`."""
    n_labels = np.bincount(labels.worker, minlength=labels.n_workers)
    own = np.zeros(labels.n_workers, dtype=labels.label.dtype)
    own[labels.worker] = labels.label  # one of hers
    n_own = np.bincount(labels.worker[labels.label == own[labels.worker]], minlength=len(own))
    by_class = np.bincount(labels.label, minlength=labels.n_classes)
    return constant_workers(n_labels, own, n_own, by_class)


def constant_workers(
    n_labels: Int64[np.ndarray, " workers"],
    own: Int[np.ndarray, " workers"],
    n_own: Int64[np.ndarray, " workers"],
    by_class: Int64[np.ndarray, " classes"],
) -> Bool[np.ndarray, " workers"]:
    """Return whether each worker gives one class alone, her `own`, and more often than by chance.

    The label of such a worker is known from her name, whatever the truth, so that predicting it is no merit
    of a candidate. If such workers are many, they make the majority vote, which would predict it best.
    """
    share = by_class / max(by_class.sum(), 1)
    found: np.ndarray = (n_own == n_labels) & (share[own] ** n_labels < BY_CHANCE)
    return found & (n_labels > 1)


def held_of_sizes(sizes: Int64[np.ndarray, " folds"], enough: int) -> int:
    """Return how many of the first folds have `enough` labels together; all folds if that is too few."""
    return min(int(np.searchsorted(np.cumsum(sizes), enough)) + 1, len(sizes))


def check_folds(n_folds: int) -> None:
    """Raise ValueError unless `n_folds` is from 2 to `MAX_FOLDS`."""
    if not n_folds >= 2:
        raise ValueError(f"n_folds must be >= 2, got n_folds={n_folds}")
    if not n_folds <= MAX_FOLDS:
        raise ValueError(f"n_folds must be at most {MAX_FOLDS:,}, got n_folds={n_folds}")


def folds(labels: CrowdLabels, n_folds: int) -> Int16[np.ndarray, " labels"]:
    """Return the fold of each label; -1 for the label of a task that has no other.

    The labels of a task go round the folds, beginning with a fold that depends on the task. So a worker's
    labels are spread over all folds, and each fold has one label in `n_folds`, however few a task has.
    """
    check_folds(n_folds)
    return dealt(labels.task_start, 0, n_folds)


def dealt(
    task_start: Int64[np.ndarray, " starts"], first_task: int, n_folds: int
) -> Int16[np.ndarray, " labels"]:
    """Return the fold of each label of consecutive tasks, the first of which has the code `first_task`."""
    n_labels = np.diff(task_start)
    place = np.arange(task_start[-1]) - np.repeat(task_start[:-1], n_labels)
    task = np.repeat(np.arange(first_task, first_task + len(n_labels)), n_labels)
    has_other = np.repeat(n_labels > 1, n_labels)
    return np.where(has_other, (place + task) % n_folds, -1).astype(np.int16)


def predict_held_out(
    labels: CrowdLabels,
    out: Bool[np.ndarray, " labels"],
    posterior: Float64[np.ndarray, "tasks classes"],
) -> Float64[np.ndarray, " held"]:
    """Return the log-probability of each label held out, by the mean of both :func:`meanings`."""
    meaning = np.mean(meanings(labels, out, posterior), axis=0)
    return log_chances(labels.task, labels.label, out, posterior, meaning)


def log_chances(
    task: Int32[np.ndarray, " labels"],
    label: Int16[np.ndarray, " labels"],
    out: Bool[np.ndarray, " labels"],
    posterior: Float64[np.ndarray, "tasks classes"],
    meaning: Float64[np.ndarray, "classes classes"],
) -> Float64[np.ndarray, " held"]:
    """Return the log-probability of each label held out, by P(label | truth) in `meaning`."""
    predicted = np.zeros(np.count_nonzero(out))
    by_label = np.ascontiguousarray(meaning.T)
    _predict(task, label, out, np.ascontiguousarray(posterior), by_label, predicted)
    return np.log(predicted, out=predicted)


def meanings(
    labels: CrowdLabels,
    out: Bool[np.ndarray, " labels"],
    posterior: Float64[np.ndarray, "tasks classes"],
) -> tuple[Float64[np.ndarray, "classes classes"], Float64[np.ndarray, "classes classes"]]:
    """Return P(label | truth) of the whole crowd under a posterior, from the labels not held out.

    There are two of them. The first is the crowd's confusion matrix. The second has the crowd's share of
    right labels alone, and spreads wrong ones evenly.
    """
    return meanings_of(answers_given(labels.task, labels.label, out, posterior))


def answers_given(
    task: Int32[np.ndarray, " labels"],
    label: Int16[np.ndarray, " labels"],
    out: Bool[np.ndarray, " labels"],
    posterior: Float64[np.ndarray, "tasks classes"],
) -> Float64[np.ndarray, "classes classes"]:
    """Return the expected number of labels of each class on tasks of each truth, those held out excepted."""
    n_classes = posterior.shape[1]
    given = np.zeros((n_classes, n_classes))
    _add_answers(task, label, out, np.ascontiguousarray(posterior), given)
    return np.ascontiguousarray(given.T)


def meanings_of(
    given: Float64[np.ndarray, "classes classes"],
) -> tuple[Float64[np.ndarray, "classes classes"], Float64[np.ndarray, "classes classes"]]:
    """Return both :func:`meanings`, from the sums of :func:`answers_given`."""
    n_classes = len(given)
    counts = given + 1.0 / n_classes  # a label nobody gives stays possible
    right = np.trace(counts) / counts.sum()
    even = np.full((n_classes, n_classes), (1.0 - right) / max(n_classes - 1, 1))
    np.fill_diagonal(even, right)
    return counts / counts.sum(axis=1, keepdims=True), even


def right_of(
    labels: CrowdLabels, posterior: Float64[np.ndarray, "tasks classes"] | NamedPosterior
) -> Float64[np.ndarray, " labels"]:
    """Return the probability that each label is right."""
    return np.asarray(posterior[labels.task, labels.label])


def log_by_workers(
    labels: CrowdLabels, out: Bool[np.ndarray, " labels"], right: Float64[np.ndarray, " labels"]
) -> Float64[np.ndarray, " held"]:
    """Return the log-probability of each label held out, by its worker's share of right labels.

    `right` is the probability that each label is right; labels not held out make the share.
    """
    kept = ~out
    total = np.bincount(labels.worker[kept], right[kept], labels.n_workers)
    n_labels = np.bincount(labels.worker[kept], minlength=labels.n_workers)
    of_all = crowd_share(total.sum(), n_labels.sum(), labels.n_classes)
    share = right_shares(total, n_labels, of_all)
    return log_right(right[out], share[labels.worker[out]], labels.n_classes)


def crowd_share(right: float, n_labels: int | np.integer, n_classes: int) -> float:
    """Return a crowd's share of right labels, from their expected number; a wrong one stays possible."""
    return float((right + 1.0) / (n_labels + n_classes))


def right_shares(
    right: Float64[np.ndarray, " workers"], n_labels: Int64[np.ndarray, " workers"], of_all: float
) -> Float64[np.ndarray, " workers"]:
    """Return each worker's share of right labels, shrunk to the crowd's by two labels."""
    return np.asarray((right + PSEUDO_LABELS * of_all) / (n_labels + PSEUDO_LABELS))


def log_right(
    right: Float64[np.ndarray, " held"], share: Float64[np.ndarray, " held"], n_classes: int
) -> Float64[np.ndarray, " held"]:
    """Return labels' log-probability, from P(right) and from their workers' shares of right labels.

    Wrong labels are spread evenly over the other classes.
    """
    wrong = (1.0 - right) * (1.0 - share) / max(n_classes - 1, 1)
    return np.asarray(np.log(right * share + wrong))


def log_of_classes(by_class: Int64[np.ndarray, " classes"]) -> Float64[np.ndarray, " classes"]:
    """Return the logarithm of each class's share of labels; one that nobody gives stays possible."""
    return np.asarray(np.log((by_class + 1.0 / len(by_class)) / (by_class.sum() + 1.0)))


@kernel
def _predict(task, label, out, posterior, by_label, predicted) -> None:
    """Add up the chance of each label held out over the truths."""
    place = 0
    for row in range(len(label)):
        if not out[row]:
            continue
        believed, chance = posterior[task[row]], by_label[label[row]]
        for truth in range(len(chance)):
            predicted[place] += believed[truth] * chance[truth]
        place += 1


@kernel
def _add_answers(task, label, out, posterior, by_label) -> None:
    """Add each label that is not held out to the counts of its class, by the probability of each truth."""
    for row in range(len(label)):
        if out[row]:
            continue
        given, believed = by_label[label[row]], posterior[task[row]]
        for truth in range(len(given)):
            given[truth] += believed[truth]
