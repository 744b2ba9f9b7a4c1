"""The report on each task, and the ranking of tasks to label next.

>>> from quality import encode, majority_vote
>>> labels = encode(["ann", "bob", "ann"], [1, 1, 2], list("xyx"))
>>> vote = majority_vote(labels).posterior
>>> task_report(labels, vote)
TaskReport(2 tasks, 1 in conflict, 1 tied, 0 overruled)
>>> labels.tasks[next_labels(labels, vote).task]
array([1, 2])
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Float64, Int, Int16, Int32, Int64, Shaped

from quality.aggregation import TIE, check_distributions, decide
from quality.argument_types import check_arguments
from quality.labels import CrowdLabels, NamedPosterior, freeze_arrays, name_classes

__all__ = [
    "NextLabels",
    "TaskReport",
    "check_posterior",
    "next_labels",
    "posterior_entropy",
    "rank_tasks",
    "task_report",
]

DECIMALS = 12  # numbers equal to so many decimals are equal: rounding must not rank tasks
SHOWN = 10  # of the hardest tasks, in print
AT_ONCE = 8_192  # distributions whose logarithms stay in a cache


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TaskReport:
    """Result of :func:`task_report`; one entry per task code. Printing it shows the hardest tasks.

    Parameters
    ----------
    label
        The consensus: the likeliest class, the lowest code among equals.
    entropy
        Of the posterior, in nats.
    margin
        The likeliest class's posterior minus the second's, in [0, 1].
    n_labels
        Labels the task has.
    counts
        How many of them name each class; None if there are too many classes for such a table, and the
        posterior is a :class:`~quality.labels.NamedPosterior`.
    conflict
        True where workers disagree: two or more classes were named.
    tied
        True where two or more classes are the likeliest.
    overruled
        True where the consensus is a class that fewer workers named than another.
    hardest
        All task codes: the smallest margin first, then the largest entropy, the fewest labels, the
        lowest code.
    tasks, classes
        The vocabularies of the labels.
    """

    label: Int16[np.ndarray, " tasks"]
    entropy: Float64[np.ndarray, " tasks"]
    margin: Float64[np.ndarray, " tasks"]
    n_labels: Int64[np.ndarray, " tasks"]
    counts: Int32[np.ndarray, "tasks classes"] | None
    conflict: Bool[np.ndarray, " tasks"]
    tied: Bool[np.ndarray, " tasks"]
    overruled: Bool[np.ndarray, " tasks"]
    hardest: Int32[np.ndarray, " tasks"]
    tasks: Shaped[np.ndarray, " tasks"]
    classes: Shaped[np.ndarray, " classes"]

    def __post_init__(self) -> None:
        freeze_arrays(self)

    def __repr__(self) -> str:
        return (
            f"TaskReport({len(self.label)} tasks, {np.count_nonzero(self.conflict)} in conflict, "
            f"{np.count_nonzero(self.tied)} tied, {np.count_nonzero(self.overruled)} overruled)"
        )

    def __str__(self) -> str:
        shown = self.hardest[:SHOWN]
        rows = [("hardest", "labels", "consensus", "margin", "entropy", "")]
        for task in shown:
            rows.append(
                (
                    str(self.tasks[task]),
                    self._given(int(task)),
                    str(self.classes[self.label[task]]),
                    f"{self.margin[task]:.3f}",
                    f"{self.entropy[task]:.3f}",
                    "tied" if self.tied[task] else "overruled" if self.overruled[task] else "",
                )
            )
        width = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ("  ".join(map(str.ljust, row, width)).rstrip() for row in rows)
        return "\n".join([repr(self), *lines])

    def _given(self, task: int) -> str:
        """Return a task's labels in words: their number by class, or in all."""
        if self.counts is None:
            return f"{self.n_labels[task]}"
        given = self.counts[task]
        named = [f"{given[k]} {self.classes[k]}" for k in np.argsort(-given, kind="stable")]
        return ", ".join(named[: np.count_nonzero(given)])


@check_arguments
def task_report(
    labels: CrowdLabels, posterior: Float[np.ndarray, "tasks classes"] | NamedPosterior
) -> TaskReport:
    """Report on each task: its labels, how certain the consensus is, and which tasks are hardest.

    Parameters
    ----------
    labels
        The crowd's labels.
    posterior
        P(truth | labels) of each task, from any aggregator; its likeliest class is the consensus.

    Raises
    ------
    ValueError
        If `posterior` is not one distribution over the classes per task.

    Notes
    -----
    **Guarantees.** Each task is once among `hardest`. A task is tied if and only if its margin is 0. Names
    only order equals.

    Examples
    --------
    >>> from quality import encode, majority_vote
    >>> labels = encode(["ann", "bob", "cy"] * 2, [1, 1, 1, 2, 2, 2], list("xxyzzz"))
    >>> report = task_report(labels, majority_vote(labels).posterior)
    >>> report
    TaskReport(2 tasks, 1 in conflict, 0 tied, 0 overruled)
    >>> print(report)
    TaskReport(2 tasks, 1 in conflict, 0 tied, 0 overruled)
    hardest  labels    consensus  margin  entropy
    1        2 x, 1 y  x          0.333   0.637
    2        3 z       z          1.000   0.000
    """
    check_posterior(labels, posterior)
    if not isinstance(posterior, NamedPosterior):
        posterior = posterior.astype(np.float64, copy=False)
    label, tied = decide(posterior)
    if isinstance(posterior, NamedPosterior):
        counts, margin = None, posterior.margin()
        n_named, chosen, most = _named_counts(labels, label)
    else:
        counts, margin = labels.counts(), _margin(posterior)
        n_named, most = np.count_nonzero(counts, axis=1), counts.max(axis=1)
        chosen = np.take_along_axis(counts, label[:, np.newaxis].astype(np.int64), axis=1)[:, 0]
    entropy = posterior_entropy(posterior)
    n_labels = np.diff(labels.task_start)
    order = np.lexsort((n_labels, -entropy.round(DECIMALS), margin.round(DECIMALS)))
    return TaskReport(
        label=label,
        entropy=entropy,
        margin=margin,
        n_labels=n_labels,
        counts=counts,
        conflict=n_named > 1,
        tied=tied,
        overruled=~tied & (chosen < most),
        hardest=order.astype(np.int32),
        tasks=labels.tasks,
        classes=labels.classes,
    )


def _named_counts(
    labels: CrowdLabels, label: Int16[np.ndarray, " tasks"]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return each task's number of classes given, of labels for the consensus, and the most for a class."""
    named = name_classes(labels)
    entry = named.find(np.arange(labels.n_tasks), label)
    votes = np.append(named.votes, 0.0)[entry]  # the last is for a consensus that nobody named
    return np.diff(named.start), votes, named.largest(named.votes)


def posterior_entropy(
    posterior: Float[np.ndarray, "*tasks classes"] | NamedPosterior,
) -> Float64[np.ndarray, "*tasks"]:
    """Return the entropy of each distribution in nats.

    Parameters
    ----------
    posterior
        Distributions over the classes, in the last axis.

    Examples
    --------
    >>> posterior_entropy(np.array([[0.5, 0.5], [1.0, 0.0]])).round(3)
    array([0.693, 0.   ])
    """
    if isinstance(posterior, NamedPosterior):
        return posterior.entropy()
    rows = posterior.reshape(-1, posterior.shape[-1])
    entropy = np.empty(len(rows))
    for first in range(0, len(rows), AT_ONCE):
        some = rows[first : first + AT_ONCE].astype(np.float64, copy=False)
        log_p = np.log(some, out=np.zeros(some.shape), where=some > 0)
        entropy[first : first + AT_ONCE] = -(some * log_p).sum(axis=-1)
    found: np.ndarray = np.maximum(entropy, 0.0).reshape(posterior.shape[:-1])
    return found


def check_posterior(
    labels: CrowdLabels, posterior: Float[np.ndarray, "tasks classes"] | NamedPosterior
) -> None:
    """Raise ValueError unless `posterior` is one distribution over the classes per task.

    Examples
    --------
    >>> from quality import encode
    >>> check_posterior(encode(["ann"], [1], ["x"]), np.array([[1.0]]))
    """
    shape = (labels.n_tasks, labels.n_classes)
    if posterior.shape != shape:
        raise ValueError(f"posterior must have shape {shape}, got {posterior.shape}")
    if isinstance(posterior, NamedPosterior):
        if not posterior.is_sound():
            raise ValueError("posterior must hold rows of probabilities adding up to 1, got others")
    else:
        check_distributions(posterior)


def _margin(posterior: np.ndarray) -> Float64[np.ndarray, " tasks"]:
    """Return the largest probability minus the second; 1 with one class, 0 for ties up to rounding."""
    if posterior.shape[1] == 1:
        return np.ones(len(posterior))
    second, first = np.partition(posterior, -2, axis=1)[:, -2:].T
    return np.where(first - second <= TIE, 0.0, first - second)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class NextLabels:
    """Result of :func:`next_labels`: tasks, the most urgent first.

    Parameters
    ----------
    task
        Task codes by rank.
    entropy
        Posterior entropy of each, in nats, in the same order.
    n_labels
        Labels each has now, in the same order.
    """

    task: Int32[np.ndarray, " tasks"]
    entropy: Float64[np.ndarray, " tasks"]
    n_labels: Int64[np.ndarray, " tasks"]

    def __post_init__(self) -> None:
        freeze_arrays(self)

    def __repr__(self) -> str:
        return (
            f"NextLabels({len(self.task)} tasks, entropy {self.entropy.max(initial=0):.3f} "
            f"down to {self.entropy.min(initial=np.inf):.3f} nats)"
        )


@check_arguments
def next_labels(
    labels: CrowdLabels,
    posterior: Float[np.ndarray, "tasks classes"] | NamedPosterior,
    *,
    confidence: Float[np.ndarray, " tasks"] | None = None,
) -> NextLabels:
    """Rank tasks by the entropy of their posterior, or with confidence; fewest labels first among equals.

    The entropy is the most information that labels could add about a task, whoever gives them;
    :func:`~quality.plan_labels` chooses workers as well, and computes the expected information. The
    confidence of :func:`~quality.calibrate` times the posterior's largest probability puts more wrong
    tasks first than either alone (``python -m benchmarks.quality.calibration --first``): an overconfident
    model ranks badly, and confidence uses less than some models know.

    Parameters
    ----------
    labels, posterior
        As for :func:`task_report`, errors included.
    confidence
        Probability that the label of each task is right. The lowest product with the posterior's largest
        probability then comes first, instead of the largest entropy.

    Returns
    -------
    NextLabels
        Every task once; tasks equal in both are in code order.

    Raises
    ------
    ValueError
        If `confidence` is not one number in [0, 1] per task.

    Examples
    --------
    >>> from quality import encode, majority_vote
    >>> labels = encode(["ann", "bob", "ann", "ann", "bob"], [1, 1, 2, 3, 3], list("xxxxy"))
    >>> posterior = majority_vote(labels).posterior
    >>> labels.tasks[next_labels(labels, posterior).task]
    array([3, 2, 1])
    >>> labels.tasks[next_labels(labels, posterior, confidence=np.array([0.6, 0.9, 0.9])).task]
    array([3, 1, 2])
    """
    check_posterior(labels, posterior)
    entropy = posterior_entropy(posterior)
    n_labels = np.diff(labels.task_start)
    if confidence is None:
        order = rank_tasks(-entropy, n_labels)
    else:
        known = confidence.shape == (labels.n_tasks,)
        if not (known and np.all((confidence >= 0) & (confidence <= 1))):
            raise ValueError(f"confidence must be {labels.n_tasks} numbers in [0, 1], got others")
        order = rank_tasks(confidence * _largest(posterior), n_labels)
    return NextLabels(order, entropy[order], n_labels[order])


def _largest(
    posterior: Float[np.ndarray, "tasks classes"] | NamedPosterior,
) -> Float64[np.ndarray, " tasks"]:
    """Return the largest probability of each task."""
    if isinstance(posterior, NamedPosterior):
        label, _ = posterior.decide()
        return posterior[np.arange(len(label)), label]
    found: np.ndarray = posterior.max(axis=1, initial=0.0)
    return found


def rank_tasks(
    belief: Float[np.ndarray, " tasks"], n_labels: Int[np.ndarray, " tasks"]
) -> Int32[np.ndarray, " tasks"]:
    """Return task codes by lowest belief, then by fewest labels, then by lowest code."""
    return np.lexsort((n_labels, belief.round(DECIMALS))).astype(np.int32)
