"""KOS and KOS+: workers and tasks pass messages along every label about how reliable it is.

:func:`kos` is the algorithm of the paper, for crowds in which all workers label about equally much;
:func:`kos_plus` divides the messages by the numbers of labels, for crowds in which a few workers
give most of the labels.

>>> from quality import encode
>>> workers, tasks = ["ann", "bob", "cy", "dan"] * 4, np.repeat([1, 2, 3, 4], 4)
>>> labels = encode(workers, tasks, list("aaabbbbbaaabbbbb"))
>>> labels.classes[kos_plus(labels, rng=np.random.default_rng(0)).label]
array(['a', 'b', 'a', 'b'], dtype='<U1')
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, Int, Int16, Int32, Int64

from quality.aggregation.consensus import Result, decide
from quality.aggregation.em import check_em
from quality.labels import CrowdLabels, bring_near
from quality.parallel import Progress, chunk_starts, counter, kernel, shared_out

__all__ = ["MessagePassing", "kos", "kos_plus", "pass_messages"]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MessagePassing(Result):
    """Result of :func:`kos` and :func:`kos_plus`.

    Parameters
    ----------
    posterior
        Share of the weight of a task's labels that is for each class. It orders the classes; it is
        not calibrated as a probability. Uniform where a task has no labels.
    label, tied
        As in :class:`~quality.Consensus`.
    n_iter, converged
        Iterations made, and whether the messages had settled by then; with more than two classes
        the largest number, and whether they had for every class.
    """

    posterior: Float64[np.ndarray, "tasks classes"]
    label: Int16[np.ndarray, " tasks"]
    tied: Bool[np.ndarray, " tasks"]
    n_iter: int
    converged: bool


def kos(
    labels: CrowdLabels,
    *,
    max_iter: int = 100,
    tol: float = 1e-6,
    groups: Int[np.ndarray, " workers"] | None = None,
    rng: np.random.Generator,
    threads: int | None = None,
    progress: Progress | None = None,
) -> MessagePassing:
    """Weigh every label by how far the worker's other labels agree with the crowd.

    With two classes a label is A = +1 or -1. A task sends a worker the sum of A times the messages
    of its *other* workers; a worker sends a task the sum of A times the messages of her *other*
    tasks. The sign of the sum of A times message is a task's label. With more than two classes,
    each class against the rest.

    Parameters
    ----------
    labels
        The crowd's labels.
    max_iter, groups, threads, progress
        As for :func:`~quality.dawid_skene`.
    tol
        Stop when the workers' totals move by no more than this, messages being scaled to unit
        length, at least 0.
    rng
        Source of the messages that workers begin with: normal, mean 1, standard deviation 1.

    Raises
    ------
    ValueError
        If a parameter is out of its range.

    Notes
    -----
    **Guarantees.** Tasks without labels are tied between all classes and change nothing else. Where
    the workers of a task share no other task with anybody, their labels count alike. The same
    generator gives the same bytes, on any number of threads. Renaming the classes renames the
    result, whatever their order.

    **Limits.** Made for random regular assignments: where a few workers label far more than the
    others they come to decide everything, and the result can be no better than guessing. Use
    :func:`~quality.kos_plus` there. The first message is drawn for each row, so renaming workers or
    tasks may change a result that has not converged; with very few labels all classes may come out
    the other way round.

    **Cost.** One pass over the labels per iteration (and class, beyond two), memory O(labels).

    References
    ----------
    .. [1] Karger, Oh, Shah, "Iterative learning for reliable crowdsourcing systems", NIPS 2011.

    Examples
    --------
    >>> from quality import encode
    >>> workers, tasks = ["ann", "bob", "cy", "dan"] * 4, np.repeat([1, 2, 3, 4], 4)
    >>> labels = encode(workers, tasks, list("aaabbbbbaaabbbbb"))
    >>> result = kos(labels, rng=np.random.default_rng(0))
    >>> labels.classes[result.label]
    array(['a', 'b', 'a', 'b'], dtype='<U1')
    """
    labels = labels.merge_workers(groups)
    ones = np.ones(labels.n_tasks), np.ones(labels.n_workers)
    return pass_messages(
        labels, "KOS", *ones, max_iter=max_iter, tol=tol, rng=rng, threads=threads,
        progress=progress,
    )  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class _Messages:
    """Messages after the last iteration, `message` times `scale` being the label times a message."""

    message: Float64[np.ndarray, " labels"]  # of each label's task to its worker
    scale: float
    total: Float64[np.ndarray, " workers"]  # of the messages to each worker
    n_iter: int
    converged: bool


def pass_messages(
    labels: CrowdLabels,
    what: str,
    task_scale: Float64[np.ndarray, " tasks"],
    worker_scale: Float64[np.ndarray, " workers"],
    *,
    max_iter: int,
    tol: float,
    rng: np.random.Generator,
    threads: int | None,
    progress: Progress | None,
) -> MessagePassing:
    """Run KOS with every message of a task or worker multiplied by a scale of its own.

    `what` names the work to `progress`.
    """
    check_em(max_iter, tol, threads)
    n_classes = labels.n_classes
    first = rng.normal(1.0, 1.0, size=labels.n_labels)
    near = bring_near(labels)
    labels, first = near.labels, near.row_given(first)
    task_scale, worker_scale = near.task_given(task_scale), near.worker_given(worker_scale)
    first /= -worker_scale[labels.worker]  # totals are 0 yet: the workers' first messages are drawn
    classes = range(1, 2) if n_classes == 2 else range(n_classes)
    support, stops = np.empty((labels.n_tasks, len(classes))), []
    for column, code in enumerate(classes):
        steps = counter(progress, what, max_iter * len(classes), before=max_iter * column)
        plus = labels.label == code
        end = _exchange(
            labels, plus, first, task_scale, worker_scale, max_iter, tol, threads, steps
        )
        share = np.full(labels.n_tasks, 0.5)
        _write_support(
            labels.task_start, labels.worker, plus, end.message, end.scale, end.total, worker_scale,
            share,
        )  # fmt: skip
        support[:, column] = share
        stops.append((end.n_iter, end.converged))
    if n_classes == 2:
        support = np.hstack([1.0 - support, support])
    total = support.sum(axis=1, keepdims=True)
    uniform = np.full_like(support, 1.0 / n_classes)  # all weight is against every class
    posterior = np.divide(support, total, out=uniform, where=total > 0)
    posterior = near.by_task(posterior)
    label, tied = decide(posterior)
    n_iter, converged = max(n for n, _ in stops), all(settled for _, settled in stops)
    return MessagePassing(posterior, label, tied, n_iter, converged)


def _exchange(
    labels: CrowdLabels,
    plus: Bool[np.ndarray, " labels"],
    first: Float64[np.ndarray, " labels"],
    task_scale: Float64[np.ndarray, " tasks"],
    worker_scale: Float64[np.ndarray, " workers"],
    max_iter: int,
    tol: float,
    threads: int | None,
    tell: Callable[[int], object],
) -> _Messages:
    """Pass messages until the workers' totals settle; `scale` keeps their length at one."""
    cut = chunk_starts(labels.task_start, 4 * labels.n_workers)
    message, totals = first.copy(), np.empty((len(cut) - 1, labels.n_workers))
    total, scale, n_iter, converged = np.zeros(labels.n_workers), 1.0, 0, False
    sign = np.where(plus, 1.0, -1.0)
    about = np.column_stack([total, worker_scale])  # of a worker at once: half the cache lines

    def chunk(number: int) -> float:
        part = cut[number], cut[number + 1], labels.task_start, labels.worker, sign
        totals[number].fill(0.0)
        return float(_pass(*part, message, scale, about, task_scale, totals[number]))

    with shared_out(threads, len(totals)) as shared:
        while n_iter < max_iter and not converged:
            square = sum(shared(chunk))
            # messages that nobody else confirms are subtracted to exactly 0
            scale = 1.0 / np.sqrt(square) if square > 0.0 else 0.0
            before, total = total, totals.sum(axis=0) * scale
            about[:, 0] = total
            n_iter += 1
            moved = np.sqrt(((total - before) ** 2).sum())
            converged = bool(square == 0.0 or (n_iter > 1 and moved <= tol))
            tell(n_iter)
    return _Messages(message, scale, total, n_iter, converged)


@kernel
def _pass(
    first: int,
    last: int,
    task_start: Int64[np.ndarray, " tasks+1"],
    worker: Int32[np.ndarray, " labels"],
    sign: Float64[np.ndarray, " labels"],
    message: Float64[np.ndarray, " labels"],
    scale: float,
    about: Float64[np.ndarray, "workers 2"],
    task_scale: Float64[np.ndarray, " tasks"],
    to_workers: Float64[np.ndarray, " workers"],
) -> float:
    """Make both halves of an iteration in some tasks, in place; return the messages' square sum.

    A worker's message to a task is her total without that task's message to her, so that only the
    tasks' messages are kept. `about` holds her total and her scale; messages are added to `to_workers`.
    """
    square = 0.0
    for task in range(first, last):
        votes = 0.0
        for row in range(task_start[task], task_start[task + 1]):
            who = np.uint64(worker[row])  # unsigned: no check for indices from the end
            reply = (about[who, 0] - message[row] * scale) * about[who, 1]
            message[row] = reply
            votes += sign[row] * reply
        for row in range(task_start[task], task_start[task + 1]):
            sent = (votes * sign[row] - message[row]) * task_scale[task]
            message[row] = sent
            to_workers[np.uint64(worker[row])] += sent
            square += sent * sent
    return square


@kernel
def _write_support(
    task_start: Int64[np.ndarray, " tasks+1"],
    worker: Int32[np.ndarray, " labels"],
    plus: Bool[np.ndarray, " labels"],
    message: Float64[np.ndarray, " labels"],
    scale: float,
    total: Float64[np.ndarray, " workers"],
    worker_scale: Float64[np.ndarray, " workers"],
    support: Float64[np.ndarray, " tasks"],
) -> None:
    """Write the share of each task's weight that is for +1; without weight labels count alike."""
    for task in range(len(support)):
        in_favour, weight, alike = 0.0, 0.0, 0.0
        rows = range(task_start[task], task_start[task + 1])
        for row in rows:
            reply = (total[worker[row]] - message[row] * scale) * worker_scale[worker[row]]
            weight += abs(reply)
            in_favour += max(reply if plus[row] else -reply, 0.0)
            alike += 1.0 if plus[row] else 0.0
        if weight > 0.0:
            support[task] = in_favour / weight
        elif len(rows):
            support[task] = alike / len(rows)


def kos_plus(
    labels: CrowdLabels,
    *,
    max_iter: int = 100,
    tol: float = 1e-6,
    groups: Int[np.ndarray, " workers"] | None = None,
    rng: np.random.Generator,
    threads: int | None = None,
    progress: Progress | None = None,
) -> MessagePassing:
    """Weigh every label by how far the worker's other labels agree with the crowd, on average.

    :func:`~quality.kos` with messages that do not grow with the numbers of labels. A worker's
    messages are divided by her number of labels: a mean, so that many labels do not make them
    larger. A task's are divided by the square root of its number of labels, by which a sum of
    guesses grows.

    Parameters
    ----------
    labels
        The crowd's labels.
    max_iter, tol, groups, rng, threads, progress
        As for :func:`~quality.kos`, errors included.

    Notes
    -----
    **Guarantees.** Where all workers have equally many labels, and all tasks, it gives KOS's
    labels. Tasks without labels are tied between all classes and change nothing else. Where the
    workers of a task share no other task with anybody, their labels count alike. The same generator
    gives the same bytes, on any number of threads.

    **Limits.** As of :func:`~quality.kos`, but for the busiest workers' weight. Errors that most of
    the crowd shares are believed, as by a majority vote.

    **Cost.** As of :func:`~quality.kos`.

    References
    ----------
    .. [1] Jagabathula, Subramanian, Venkataraman, "Reputation-based worker filtering in
       crowdsourcing", NIPS 2014, section 4: KOS+, which names the normalisation and gives no
       formula; this one gives the figures of its table 1 (``benchmarks.quality.kos_normalisations``).

    Examples
    --------
    >>> from quality import encode
    >>> workers, tasks = ["ann", "bob", "cy", "dan"] * 4, np.repeat([1, 2, 3, 4], 4)
    >>> labels = encode(workers, tasks, list("aaabbbbbaaabbbbb"))
    >>> result = kos_plus(labels, rng=np.random.default_rng(0))
    >>> labels.classes[result.label]
    array(['a', 'b', 'a', 'b'], dtype='<U1')
    """
    labels = labels.merge_workers(groups)
    task_scale = 1.0 / np.sqrt(np.maximum(np.diff(labels.task_start), 1))
    worker_scale = 1.0 / np.maximum(np.diff(labels.worker_start), 1)
    return pass_messages(
        labels, "KOS+", task_scale, worker_scale, max_iter=max_iter, tol=tol, rng=rng,
        threads=threads, progress=progress,
    )  # fmt: skip
