"""Predictions of labels held out: folds of labels, workers' habits, what each knows, and common errors.

>>> from quality import encode, majority_vote
>>> labels = encode(["ann", "bob", "cy"] * 2, [1, 1, 1, 2, 2, 2], list("aabbba"))
>>> out = folds(labels, 3) == 0
>>> posterior = majority_vote(labels.keep_labels(~out)).posterior
>>> predict_held_out(labels, out, posterior).round(2)
array([-1.15, -1.62])
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Int16, Int32, Int64

from quality.labels import CrowdLabels, NamedPosterior
from quality.parallel import kernel

__all__ = [
    "Predictors", "add_known", "check_folds", "crowd_share", "dealt", "errors_of", "fold_sizes", "folds",
    "habits_of", "held_folds", "in_fold", "knowing", "likeliest", "log_by_workers", "log_of_classes",
    "log_right", "most_shared", "predict_held_out", "predictors_of", "read_held_out", "right_of",
    "right_shares",
]  # fmt: skip

MAX_FOLDS = 32_767  # a label's fold is a number of 16 bits
MAX_DEALS = 3  # of a small table
PSEUDO_LABELS = 2.0  # of the crowd's share of right ones, beside each worker's own
SHRUNK_BY = 5.0  # labels of the crowd's, in a worker's habit, her knowledge, and common errors
MOST = 0.99  # of a worker's labels that she may be held to know: anybody slips
TRUSTS = np.linspace(0.1, 1.0, 10)  # of what workers seem to know, how much may hold
DOUBTED_BY = 20.0  # labels, that less than all of it holds
SHARES = np.linspace(0.0, 0.9, 10)  # of what is not known that may be common errors
TRUSTS.setflags(write=False)
SHARES.setflags(write=False)
FAINT = 1e-200  # a product of probabilities that a further one does not make 0


class Predictors(NamedTuple):
    """What labels held out are predicted by.

    These are P(right) of each, its probability by its worker's habit and as a common error of the crowd's,
    how often the worker seems to know the truth, and the largest share of common errors.
    """

    right: Float64[np.ndarray, " held"]
    habit: Float64[np.ndarray, " held"]
    error: Float64[np.ndarray, " held"]
    knows: Float64[np.ndarray, " held"]
    most: float

    def log_p(self, trust: float, shared: float) -> Float64[np.ndarray, " held"]:
        """Return the labels' log-probability.

        Of what workers seem to know a share `trust` holds, and common errors are a share `shared` of what is
        not known.
        """
        known = trust * self.knows
        unknown = (1.0 - shared) * self.habit + shared * self.error
        return np.asarray(np.log(known * self.right + (1.0 - known) * unknown))

    def worth(self) -> Float64[np.ndarray, "trusts shares"]:
        """Return the labels' log-likelihood at each of `TRUSTS` and `SHARES`.

        It is minus infinity above the largest share.
        """
        worth = np.full((len(TRUSTS), len(SHARES)), -np.inf)
        n_shares = np.searchsorted(SHARES, self.most, side="right")
        _write_worth(*self[:4], TRUSTS, SHARES[:n_shares], worth)
        return worth


def held_folds(
    sizes_of: Callable[[int], Int64[np.ndarray, " folds"]], enough: int
) -> tuple[list[int], int]:
    """Return the folds to hold out and their number of labels, from the sizes of each deal's folds.

    Labels are dealt once, and again while whole deals fit into `enough` labels, up to `MAX_DEALS`. No fold
    follows those that have `enough`. Fold f of deal d has the number ``d * n_folds + f``; none is empty.
    """
    first = sizes_of(0)
    n_deals = min(max(enough // max(int(first.sum()), 1), 1), MAX_DEALS)
    sizes = np.concatenate([first, *map(sizes_of, range(1, n_deals))])
    sizes = sizes[: np.searchsorted(np.cumsum(sizes), enough) + 1]
    return np.flatnonzero(sizes).tolist(), int(sizes.sum())


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
    return dealt(labels.task_start, 0, n_folds, 0)


def dealt(
    task_start: Int64[np.ndarray, " starts"], first_task: int, n_folds: int, deal: int
) -> Int16[np.ndarray, " labels"]:
    """Return the fold of each label of consecutive tasks, the first of which has the code `first_task`.

    So many tasks in a row as there are folds begin with as many folds, and a deal shifts those of the next
    such tasks. So every deal holds out other labels together.
    """
    n_labels = np.diff(task_start)
    place = np.arange(task_start[-1]) - np.repeat(task_start[:-1], n_labels)
    task = np.repeat(np.arange(first_task, first_task + len(n_labels)), n_labels)
    has_other = np.repeat(n_labels > 1, n_labels)
    begins = task + deal * (task // n_folds)
    return np.where(has_other, (place + begins) % n_folds, -1).astype(np.int16)


def fold_sizes(
    task_start: Int64[np.ndarray, " starts"], first_task: int, n_folds: int, deal: int
) -> Int64[np.ndarray, " folds"]:
    """Return the number of labels in each fold of a deal, of the tasks that `dealt` deals."""
    fold = dealt(task_start, first_task, n_folds, deal)
    return np.bincount(fold[fold >= 0], minlength=n_folds)


def in_fold(
    task_start: Int64[np.ndarray, " starts"], first_task: int, n_folds: int, number: int
) -> Bool[np.ndarray, " labels"]:
    """Return which labels the fold of a number has, as `held_folds` numbers the folds of all deals."""
    deal, fold = divmod(number, n_folds)
    return np.asarray(dealt(task_start, first_task, n_folds, deal) == fold)


def predict_held_out(
    labels: CrowdLabels,
    out: Bool[np.ndarray, " labels"],
    posterior: Float64[np.ndarray, "tasks classes"],
) -> Float64[np.ndarray, " held"]:
    """Return the log-probability of each label held out, from what its worker knows and how she errs.

    A worker gives the truth, or else a class by her habit, the shares of the classes among her labels, or
    else a class for which the crowd takes that truth. How often she knows the truth and what the crowd takes
    it for are judged under the posterior, all by the labels that are not held out. How much of what workers
    seem to know holds, and the share of common errors, are judged by the labels that are held out. So a label
    that a worker's habit explains is no merit of a posterior: not of one that follows those who nearly always
    say yes. It is no fault that the crowd takes a class for another, unless it does so more often than it
    knows the truth: then the posterior renames the classes. Nor is it one to be too sure: under the vote of
    a task's only label its worker is always right.
    """
    held = read_held_out(labels, out, posterior)
    return held.log_p(*likeliest(held.worth()))


def read_held_out(
    labels: CrowdLabels,
    out: Bool[np.ndarray, " labels"],
    posterior: Float64[np.ndarray, "tasks classes"],
) -> Predictors:
    """Return what each label held out is predicted by, judged by the labels that are not."""
    kept, n_classes = ~out, labels.n_classes
    cell = labels.worker[kept].astype(np.int64) * n_classes + labels.label[kept]
    given = np.bincount(cell, minlength=labels.n_workers * n_classes)
    given = given.reshape(labels.n_workers, n_classes)
    habits = habits_of(given)
    right, chance, wrong = add_known(
        labels.worker, labels.task, labels.label, kept, posterior, habits
    )
    n_labels, errors = given.sum(axis=1), errors_of(wrong, given.sum(axis=0))
    knows = knowing(right, chance, n_labels)
    most = most_shared(knows, n_labels)
    worker, task, label = labels.worker[out], labels.task[out], labels.label[out]
    return predictors_of(worker, task, label, posterior, habits, errors, knows, most)


def habits_of(
    given: Int64[np.ndarray, "workers classes"],
) -> Float64[np.ndarray, "workers classes"]:
    """Return the shares of the classes among each worker's labels, shrunk to the crowd's by five labels."""
    crowd = given.sum(axis=0) + 1.0 / given.shape[1]  # a class that nobody gives stays possible
    shares = given + SHRUNK_BY * crowd / crowd.sum()
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))


def errors_of(
    wrong: Float64[np.ndarray, "classes classes"], given: Int64[np.ndarray, " classes"]
) -> Float64[np.ndarray, "classes classes"]:
    """Return P(label | truth) of wrong labels, as ``[truth, label]``, shrunk to the classes' shares.

    All are 0 with two classes, where a truth has but one error and the habits show how often it is made,
    and with fewer labels than the table has cells.
    """
    n_classes = len(given)
    if n_classes < 3 or given.sum() < wrong.size:
        return np.zeros(wrong.shape)
    others = np.tile(given + 1.0 / n_classes, (n_classes, 1))
    np.fill_diagonal(others, 0.0)
    counts = wrong + SHRUNK_BY * others / others.sum(axis=1, keepdims=True)
    return np.asarray(counts / counts.sum(axis=1, keepdims=True))


def add_known(
    worker: Int32[np.ndarray, " labels"],
    task: Int32[np.ndarray, " labels"],
    label: Int16[np.ndarray, " labels"],
    kept: Bool[np.ndarray, " labels"],
    posterior: Float64[np.ndarray, "tasks classes"],
    habits: Float64[np.ndarray, "workers classes"],
) -> tuple[
    Float64[np.ndarray, " workers"],
    Float64[np.ndarray, " workers"],
    Float64[np.ndarray, "classes classes"],
]:
    """Return expected counts: each worker's right labels, those by her habit alone, and all wrong ones.

    Wrong labels are counted as ``wrong[truth, label]``.
    """
    n_workers, n_classes = habits.shape
    right, chance = np.zeros((2, n_workers))
    wrong = np.zeros((n_classes, n_classes))  # [label, truth] while they are added up
    believed = np.ascontiguousarray(posterior)
    _add_known(worker, task, label, kept, believed, habits, right, chance, wrong)
    np.fill_diagonal(wrong, 0.0)
    return right, chance, np.ascontiguousarray(wrong.T)


def knowing(
    right: Float64[np.ndarray, " workers"],
    chance: Float64[np.ndarray, " workers"],
    n_labels: Int64[np.ndarray, " workers"],
) -> Float64[np.ndarray, " workers"]:
    """Return how often each worker knows the truth, shrunk to the crowd's by five labels.

    This is her agreement with the truth beyond that of her habit, as Cohen's kappa has it; 0 if it is less.
    """
    beyond, left = right - chance, n_labels - chance
    of_all = beyond.sum() / (left.sum() + 1.0)
    knows = (beyond + SHRUNK_BY * of_all) / (left + SHRUNK_BY)
    return np.asarray(np.clip(knows, 0.0, MOST))


def most_shared(
    knows: Float64[np.ndarray, " workers"], n_labels: Int64[np.ndarray, " workers"]
) -> float:
    """Return the largest share of common errors: a crowd makes no more of them than it knows."""
    known = float(knows @ n_labels) / max(int(n_labels.sum()), 1)
    return known / (1.0 - known)


def predictors_of(
    worker: Int32[np.ndarray, " held"],
    task: Int32[np.ndarray, " held"],
    label: Int16[np.ndarray, " held"],
    posterior: Float64[np.ndarray, "tasks classes"],
    habits: Float64[np.ndarray, "workers classes"],
    errors: Float64[np.ndarray, "classes classes"],
    knows: Float64[np.ndarray, " workers"],
    most: float,
) -> Predictors:
    """Return what each label held out is predicted by."""
    error = np.zeros(len(label))
    if errors.any():
        _add_errors(task, label, np.ascontiguousarray(posterior), errors, error)
    else:
        most = 0.0
    return Predictors(posterior[task, label], habits[worker, label], error, knows[worker], most)


def likeliest(worth: Float64[np.ndarray, "trusts shares"]) -> tuple[float, float]:
    """Return the most likely of `TRUSTS`, shrunk towards 1, and of `SHARES`, shrunk towards 0.

    `worth` is the log-likelihood at each.
    """
    prior = DOUBTED_BY * np.log(TRUSTS)[:, np.newaxis] + SHRUNK_BY * np.log1p(-SHARES)
    trust, share = np.unravel_index(np.argmax(worth + prior), worth.shape)
    return float(TRUSTS[trust]), float(SHARES[share])


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
def _add_known(worker, task, label, kept, posterior, habits, right, chance, by_label) -> None:
    """Add to each worker's right labels, to those by her habit alone, and to labels by their truths."""
    for row in range(len(label)):
        if not kept[row]:
            continue
        believed, habit = posterior[task[row]], habits[worker[row]]
        given = by_label[label[row]]
        right[worker[row]] += believed[label[row]]
        for truth in range(len(habit)):
            chance[worker[row]] += believed[truth] * habit[truth]
            given[truth] += believed[truth]


@kernel
def _write_worth(right, habit, error, knows, trusts, shares, worth) -> None:
    """Write the labels' log-likelihood for each trust and share of common errors."""
    for i, trust in enumerate(trusts):
        for j, shared in enumerate(shares):
            total, product = 0.0, 1.0
            for row in range(len(right)):
                known = trust * knows[row]
                unknown = (1.0 - shared) * habit[row] + shared * error[row]
                product *= known * right[row] + (1.0 - known) * unknown
                if product < FAINT:  # one logarithm for many labels
                    total += np.log(product)
                    product = 1.0
            worth[i, j] = total + np.log(product)


@kernel
def _add_errors(task, label, posterior, errors, error) -> None:
    """Add up the chance of each label as a common error over the truths."""
    for row in range(len(label)):
        believed = posterior[task[row]]
        for truth in range(len(believed)):
            error[row] += believed[truth] * errors[truth, label[row]]
