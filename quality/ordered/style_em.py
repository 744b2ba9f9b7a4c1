"""The ordinal model: a shape of errors that the crowd shares, and three style parameters for each worker.

>>> from quality import encode
>>> rng = np.random.default_rng(0)
>>> truth, task, worker = rng.integers(5, size=200), np.repeat(np.arange(200), 5), np.tile(np.arange(5), 200)
>>> seen = truth[task] + rng.normal(0.4 * (worker == 4), 0.5).round().astype(int)
>>> found = ordinal_crowd(encode(worker, task, seen.clip(0, 4)))
>>> found.converged, int(found.leniency.argmax()), bool(np.mean(found.label == truth) > 0.85)
(True, 4, True)

The three parameters are the response styles of survey psychology: how sharply a worker follows the truth,
how far she leans up or down the scale, and how much she prefers its ends. They are normal around the
average worker, with variances learned from the crowd, so that a worker with few labels is close to the
average one. The shape has a prior whose errors fall off exponentially with distance; other features of the
crowd, such as a class that many avoid, are learned.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Int, Int16

from quality.aggregation import Result, check_em
from quality.argument_types import check_arguments
from quality.labels import CrowdLabels, LabelError, check_gold, check_table, of_voters, tree_total
from quality.ordered.expected_loss import Loss, least_loss
from quality.ordered.style_pass import settle, style_pass
from quality.parallel import Progress, chunk_starts, counter, shared_out

__all__ = ["OrdinalCrowd", "ordinal_crowd"]

ANCHOR = 0.4  # labels of the prior's shape, for each of the crowd's: python -m benchmarks.quality.ordered
START = (0.25, 0.1, 0.1)  # variances of sharpness, leniency and extremity before any evidence
SEEN, SPREAD = 2.0, 0.1  # prior of a variance, with the weight of two workers
FIRST, LATER = 3, 2  # Newton steps of a pass, and of one that begins near the maximum
MIN_SHAPE = 1e-6  # a label that nobody gives stays possible
MAX_CLASSES = 200  # a worker's table is made at every pass; more classes are a number, not a scale
STEP = 0.5  # a full step of the shape overshoots, as the styles have taken up part of it
EARLY = 5  # passes that begin far from the maximum
MIN_PER_TASK = 2  # labels of a chunk for each task: a chunk has its own table of tasks
STEEPEST = 20.0  # decay with each step of distance, in nats
AT_ONCE = 2**20  # cells of workers' tables


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class OrdinalCrowd(Result):
    """Result of :func:`ordinal_crowd`.

    Parameters
    ----------
    posterior
        P(truth | labels); the prior where a task has no labels, certain where it has gold.
    label
        The class of least expected loss; ties go to the lowest.
    tied
        True where two or more classes have the least expected loss.
    prior
        P(truth).
    shape
        P(label | truth) of the average worker, as ``shape[truth, label]``.
    sharpness
        How closely each worker follows the truth: 1 on average, 0 if labels do not depend on it, below 0 if
        they are reversed.
    leniency
        How far she leans towards the last classes; below 0 towards the first.
    extremity
        How much she prefers both ends; below 0 the middle.
    variance
        Variances of the three in the crowd.
    log_likelihood
        Log-likelihood of the labels, and of gold, in nats.
    n_iter, converged
        Iterations made, and whether the log-likelihood per label had settled to `tol` by then.
    """

    posterior: Float64[np.ndarray, "tasks classes"]
    label: Int16[np.ndarray, " tasks"]
    tied: Bool[np.ndarray, " tasks"]
    prior: Float64[np.ndarray, " classes"]
    shape: Float64[np.ndarray, "classes classes"]
    sharpness: Float64[np.ndarray, " workers"]
    leniency: Float64[np.ndarray, " workers"]
    extremity: Float64[np.ndarray, " workers"]
    variance: Float64[np.ndarray, " 3"]
    log_likelihood: float
    n_iter: int
    converged: bool

    def confusion_of(
        self, workers: Int[np.ndarray, " asked"]
    ) -> Float64[np.ndarray, "asked classes classes"]:
        """Return P(label | truth) of workers by their codes, as ``[worker, truth, label]``."""
        x = _scale(len(self.shape))
        liked = self.leniency[workers, np.newaxis] * x + self.extremity[workers, np.newaxis] * x**2
        table = self.sharpness[workers, np.newaxis, np.newaxis] * np.log(self.shape)
        table += liked[:, np.newaxis]
        table -= table.max(axis=2, keepdims=True)
        np.exp(table, out=table)
        table /= table.sum(axis=2, keepdims=True)
        return np.asarray(table)

    def right_share(self) -> Float64[np.ndarray, " workers"]:
        """Return each worker's probability of being right, for classes as frequent as in `prior`."""
        step = max(1, AT_ONCE // self.shape.size)
        found = np.empty(len(self.sharpness))
        for first in range(0, len(found), step):
            some = np.arange(first, min(first + step, len(found)))
            found[some] = np.einsum("wkk,k->w", self.confusion_of(some), self.prior)
        return found


@check_arguments
def ordinal_crowd(
    labels: CrowdLabels,
    *,
    loss: Loss = "zero_one",
    anchor: float = ANCHOR,
    max_iter: int = 100,
    tol: float = 1e-6,
    gold: Int[np.ndarray, " tasks"] | None = None,
    groups: Int[np.ndarray, " workers"] | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> OrdinalCrowd:
    """Estimate truth for classes in the order of ``labels.classes``.

    EM starts from the soft majority vote. It updates the tasks, then the workers' styles (Newton, at their
    posterior modes), then the shared shape and the variances.

    Parameters
    ----------
    labels
        The crowd's labels; of one class or more.
    loss
        Loss of a wrong answer, which decides `label`; the posterior does not depend on it.
    anchor
        Number of labels that the prior of the shape counts for, as a share of the crowd's, above 0.
    max_iter
        Maximum number of iterations, at least 1.
    tol
        Stop when the log-likelihood per label changes by no more than this (nats), at least 0.
    gold
        The class code of each task whose truth is known, -1 elsewhere.
    groups
        As for :func:`~quality.dawid_skene`.
    threads
        Maximum number of threads; all cores by default. The result is the same.
    progress
        Called after every iteration: see :data:`quality.parallel.Progress`.

    Raises
    ------
    ValueError
        If a parameter is out of its range, or gold is not one class code per task.
    LabelError
        If there are more than 200 classes.

    Notes
    -----
    **Guarantees.** The posterior is Bayes' rule applied to the prior and the workers' confusions; the
    posterior of a task with gold is certain. Reversing the order of the classes changes the sign of the
    leniency and nothing else. A worker without labels is the average worker. The result is the same bytes
    on every run, on any number of threads.

    **Limits.** The log-likelihood need not rise at every iteration: styles are taken at their modes. For
    classes without an order a learned shape is no worse than the crowd's confusion matrix, but its prior is
    wrong: test with :func:`~quality.order_fit`.

    **Cost.** Time linear in labels * classes, and a few tables of classes**2 for each worker, of which each
    thread holds one at a time. Memory for the labels, three numbers a worker, and at most seven tables of
    tasks by classes.

    References
    ----------
    .. [1] Baumgartner, Steenkamp, "Response styles in marketing research", Journal of Marketing
       Research 38 (2001).
    .. [2] Anderson, "Regression and ordered categorical variables", JRSS B 46 (1984): the
       stereotype model, of which the styles are a case.

    Examples
    --------
    >>> from quality import encode
    >>> labels = encode(["ann", "bob", "cy"] * 3, [1, 1, 1, 2, 2, 2, 3, 3, 3], [1, 1, 2, 2, 3, 2, 3, 3, 3])
    >>> ordinal_crowd(labels, loss="absolute").label
    array([0, 1, 2], dtype=int16)
    """
    _check(labels, anchor, max_iter, tol, threads)
    known = check_gold(gold, labels.n_tasks, labels.n_classes)
    labels = labels.merge_workers(groups)
    tell = counter(progress, "ordinal model", max_iter)
    n_classes, n_labels = labels.n_classes, max(labels.n_labels, 1)
    posterior, weight = _vote(labels, known), anchor * n_labels / n_classes
    style = np.tile([1.0, 0.0, 0.0], (labels.n_workers, 1))
    total, variance = _counts(labels, posterior), np.array(START)
    shape = _normal(total + weight * _decay(total))
    mass = posterior[np.diff(labels.task_start) > 0].sum(axis=0)
    n_seen = np.count_nonzero(np.diff(labels.worker_start))
    before, n_iter, converged = -np.inf, 0, False
    while n_iter < max_iter and not converged:
        prior = mass / mass.sum() if mass.sum() else np.full(n_classes, 1 / n_classes)
        n_steps, used = FIRST if n_iter < EARLY else LATER, shape
        sums = _style_steps(labels, posterior, shape, variance, n_steps, style, threads)
        with np.errstate(divide="ignore"):  # a class of mass 0 has log prior -inf
            posterior, mass = sums.belief + np.log(prior), np.zeros(n_classes)
        log_likelihood = float(settle(posterior, known, labels.task_start, mass))
        converged = bool(abs(log_likelihood - before) <= tol * n_labels)
        before, n_iter = log_likelihood, n_iter + 1
        total, sharp, expected = sums.by_class
        pulled = (sharp + weight * _decay(total)) / (expected + weight * shape)
        shape = _normal(shape * pulled**STEP)
        variance = (sums.unsure + SEEN * SPREAD) / (n_seen + SEEN)
        tell(n_iter)
    label, tied = least_loss(posterior, loss)
    own = of_voters(style, groups)
    sharpness, leniency, extremity = np.ascontiguousarray(own.T)
    return OrdinalCrowd(
        posterior, label, tied, prior, used, sharpness, leniency, extremity, variance,
        log_likelihood, n_iter, converged,
    )  # fmt: skip


class _PassSums(NamedTuple):
    """Sums of a pass: see :func:`~quality.ordered.style_pass.style_pass`."""

    belief: Float64[np.ndarray, "tasks classes"]
    by_class: Float64[np.ndarray, "3 classes classes"]
    unsure: Float64[np.ndarray, " 3"]


def _style_steps(
    labels: CrowdLabels,
    posterior: Float64[np.ndarray, "tasks classes"],
    shape: Float64[np.ndarray, "classes classes"],
    variance: Float64[np.ndarray, " 3"],
    n_steps: int,
    style: Float64[np.ndarray, "workers 3"],
    threads: int | None,
) -> _PassSums:
    """Take Newton steps with every worker, `style` in place; return the sums over their labels."""
    rows = labels.worker_order, labels.worker_start, labels.task, labels.label
    log_shape, x = np.log(shape), _scale(len(shape))
    cuts = chunk_starts(labels.worker_start, MIN_PER_TASK * posterior.shape[0]).tolist()

    def part(chunk: int) -> _PassSums:
        sums = _PassSums(np.zeros(posterior.shape), np.zeros((3, *shape.shape)), np.zeros(3))
        ends = cuts[chunk], cuts[chunk + 1]
        style_pass(*ends, *rows, posterior, log_shape, x, variance, n_steps, style, *sums)
        return sums

    with shared_out(threads, len(cuts) - 1) as share:
        return _PassSums(*tree_total(share(part)))


def _check(
    labels: CrowdLabels, anchor: float, max_iter: int, tol: float, threads: int | None
) -> None:
    if not 0 < anchor < np.inf:
        raise ValueError(f"anchor must be > 0 and finite, got anchor={anchor}")
    check_em(max_iter, tol, threads)
    check_table(labels.n_tasks, labels.n_classes, labels.n_labels)
    if labels.n_classes > MAX_CLASSES:
        raise LabelError(
            f"ordered classes must be at most {MAX_CLASSES}, got {labels.n_classes:,}; put grades "
            "together, or take majority_vote, weighted_majority, penalty_vote, glad, mmsr, kos or kos_plus",
            column="classes",
        )


def _scale(n_classes: int) -> Float64[np.ndarray, " classes"]:
    """Return the positions of the classes, from -1 to 1."""
    return np.linspace(-1.0, 1.0, n_classes) if n_classes > 1 else np.zeros(1)


def _vote(
    labels: CrowdLabels, known: Int16[np.ndarray, " tasks"]
) -> Float64[np.ndarray, "tasks classes"]:
    """Return the soft majority vote, gold clamped; zeros for a task without labels."""
    count = labels.counts().astype(np.float64)
    count /= np.maximum(count.sum(axis=1, keepdims=True), 1.0)
    at = np.flatnonzero(known >= 0)
    count[at] = 0.0
    count[at, known[at]] = 1.0
    return count


def _counts(
    labels: CrowdLabels, posterior: Float64[np.ndarray, "tasks classes"]
) -> Float64[np.ndarray, "truths answers"]:
    """Return the crowd's expected labels of each truth."""
    n_classes = labels.n_classes
    given = [np.bincount(labels.label, share[labels.task], n_classes) for share in posterior.T]
    return np.array(given, dtype=np.float64)


def _decay(total: Float64[np.ndarray, "truths answers"]) -> Float64[np.ndarray, "truths answers"]:
    """Return the table that falls off exponentially, with the crowd's mean distance of labels."""
    n_classes = len(total)
    distance = np.abs(np.arange(n_classes)[:, None] - np.arange(n_classes)).astype(np.float64)
    share = total.sum(axis=1)
    wanted = float((total * distance).sum())

    def table(steepness: float) -> Float64[np.ndarray, "truths answers"]:
        found = np.exp(-steepness * distance)
        return np.asarray(found / found.sum(axis=1, keepdims=True))

    low, high = 0.0, STEEPEST
    for _ in range(40):  # the mean distance falls with the steepness
        middle = (low + high) / 2
        if float(share @ (table(middle) * distance).sum(axis=1)) > wanted:
            low = middle
        else:
            high = middle
    return table(high)


def _normal(table: Float64[np.ndarray, "truths answers"]) -> Float64[np.ndarray, "truths answers"]:
    """Return rows that add up to 1, without zeros."""
    rows = np.maximum(table / table.sum(axis=1, keepdims=True), MIN_SHAPE)
    return np.asarray(rows / rows.sum(axis=1, keepdims=True))
