"""KOS: workers and tasks tell each other, along every label, how far to believe it.

KOS+: message passing for crowds in which a few workers give most of the labels.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, Int16, Int32, Int64

from quality.aggregation.em import check_em
from quality.aggregation.majority import decide
from quality.labels import CrowdLabels, freeze_arrays
from quality.parallel import Progress, chunk_starts, counter, kernel, shared_out

__all__ = ["MessagePassing", "kos", "kos_plus", "pass_messages"]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MessagePassing:
    """Result of :func:`kos` and :func:`quality.aggregation.kos_messages.kos_plus`.

    Parameters
    ----------
    posterior
        Share of the weight, over a task's labels, that speaks for each class. It orders the
        classes; it is not calibrated as a probability. Uniform where a task has no labels.
    label
        The class with the largest share; the lowest code among equals.
    tied
        True where two or more classes have the largest share.
    n_iter, converged
        Iterations made, and whether the messages had settled by then; with more than two classes
        the largest number, and whether they had for every class.
    """

    posterior: Float64[np.ndarray, "tasks classes"]
    label: Int16[np.ndarray, " tasks"]
    tied: Bool[np.ndarray, " tasks"]
    n_iter: int
    converged: bool

    def __post_init__(self) -> None:
        freeze_arrays(self)

    def __repr__(self) -> str:
        state = "converged" if self.converged else "not converged"
        return (
            f"MessagePassing({len(self.label)} tasks, {np.count_nonzero(self.tied)} tied, "
            f"{state} after {self.n_iter} iterations)"
        )


def kos(
    labels: CrowdLabels,
    *,
    max_iter: int = 100,
    tol: float = 1e-6,
    rng: np.random.Generator,
    threads: int | None = None,
    progress: Progress | None = None,
) -> MessagePassing:
    """Weigh every label by what the worker's other labels say about her.

    With two classes a label is A = +1 or -1. A task tells a worker the sum of A times the messages
    of its *other* workers; a worker tells a task the sum of A times the messages of her *other*
    tasks. The sign of the sum of A times message is a task's label. With more than two classes,
    each class against the rest.

    Parameters
    ----------
    labels
        The crowd's labels.
    max_iter
        At most so many iterations, at least 1.
    tol
        Stop when the workers' totals move by no more than this, messages being scaled to unit
        length, at least 0.
    rng
        Source of the messages that workers begin with: normal, mean 1, standard deviation 1.
    threads
        At most so many; all cores if None.
    progress
        Told after every iteration: see :data:`quality.parallel.Progress`.

    Returns
    -------
    MessagePassing
        Not reaching `tol` is told in ``converged``; it is not an error.

    Raises
    ------
    ValueError
        If a parameter is out of its range.

    Notes
    -----
    **Guarantees.** Tasks without labels are tied between all classes and change nothing else. Where
    nobody confirms or denies what a task's workers say elsewhere, their labels count alike. The
    same generator gives the same bytes, on any number of threads. Renaming the classes renames the
    result, whatever their order.

    **Limits.** Made for random regular assignments: where a few workers label far more than the
    others they come to decide everything, and the result can be no better than guessing. Use
    :func:`quality.aggregation.kos_messages.kos_plus` there. The first message is drawn for each row, so renaming
    workers or tasks may change what has not converged; and a crowd of a few labels may come out
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
    ones = np.ones(labels.n_tasks), np.ones(labels.n_workers)
    return pass_messages(
        labels, "KOS", *ones, max_iter=max_iter, tol=tol, rng=rng, threads=threads,
        progress=progress,
    )  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class _Talk:
    """What has been said: `told` times `scale` is the label times its task's word to its worker."""

    told: Float64[np.ndarray, " labels"]
    scale: float
    total: Float64[np.ndarray, " workers"]  # of what each worker was told
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
    """KOS with every message of a task or worker multiplied by a scale of its own."""
    check_em(max_iter, tol, threads)
    n_classes = labels.n_classes
    told = rng.normal(1.0, 1.0, size=labels.n_labels)
    told /= -worker_scale[labels.worker]  # nobody has a total yet: the first answers are the draws
    classes = range(1, 2) if n_classes == 2 else range(n_classes)
    support, talks = np.empty((labels.n_tasks, len(classes))), []
    for column, code in enumerate(classes):
        steps = counter(progress, what, max_iter * len(classes), before=max_iter * column)
        says = labels.label == code
        talk = _talk(labels, says, told, task_scale, worker_scale, max_iter, tol, threads, steps)
        support[:, column] = _support(
            labels.task_start, labels.worker, says, talk.told, talk.scale, talk.total, worker_scale
        )
        talks.append((talk.n_iter, talk.converged))
    if n_classes == 2:
        support = np.hstack([1.0 - support, support])
    total = support.sum(axis=1, keepdims=True)
    uniform = np.full_like(support, 1.0 / n_classes)  # all weight speaks against every class
    posterior = np.divide(support, total, out=uniform, where=total > 0)
    label, tied = decide(posterior)
    n_iter, converged = max(n for n, _ in talks), all(settled for _, settled in talks)
    return MessagePassing(posterior, label, tied, n_iter, converged)


def _talk(
    labels: CrowdLabels,
    says: Bool[np.ndarray, " labels"],
    start: Float64[np.ndarray, " labels"],
    task_scale: Float64[np.ndarray, " tasks"],
    worker_scale: Float64[np.ndarray, " workers"],
    max_iter: int,
    tol: float,
    threads: int | None,
    tell: Callable[[int], object],
) -> _Talk:
    """Messages to and fro, until the workers' totals settle; lengths are kept at one by `scale`."""
    cut = chunk_starts(labels.task_start, 4 * labels.n_workers)
    told, heard = start.copy(), np.empty((len(cut) - 1, labels.n_workers))
    total, scale, n_iter, converged = np.zeros(labels.n_workers), 1.0, 0, False

    def chunk(number: int) -> float:
        part = cut[number], cut[number + 1], labels.task_start, labels.worker, says
        scales = scale, total, task_scale, worker_scale
        return float(_pass(*part, told, *scales, heard[number]))

    with shared_out(threads, len(heard)) as shared:
        while n_iter < max_iter and not converged:
            square = sum(shared(chunk))
            # what nobody else confirms is subtracted to exactly 0
            scale = 1.0 / np.sqrt(square) if square > 0.0 else 0.0
            before, total = total, heard.sum(axis=0) * scale
            n_iter += 1
            moved = np.sqrt(((total - before) ** 2).sum())
            converged = bool(square == 0.0 or (n_iter > 1 and moved <= tol))
            tell(n_iter)
    return _Talk(told, scale, total, n_iter, converged)


@kernel
def _pass(
    first: int,
    last: int,
    task_start: Int64[np.ndarray, " tasks+1"],
    worker: Int32[np.ndarray, " labels"],
    says: Bool[np.ndarray, " labels"],
    told: Float64[np.ndarray, " labels"],
    scale: float,
    total: Float64[np.ndarray, " workers"],
    task_scale: Float64[np.ndarray, " tasks"],
    worker_scale: Float64[np.ndarray, " workers"],
    heard: Float64[np.ndarray, " workers"],
) -> float:
    """Both halves of an iteration in some tasks, in place; returns the messages' square sum.

    What a worker answers a task is her total without what that task told her, so that only the
    tasks' half is kept.
    """
    heard[:] = 0.0
    square = 0.0
    for task in range(first, last):
        voice = 0.0
        for row in range(task_start[task], task_start[task + 1]):
            answer = (total[worker[row]] - told[row] * scale) * worker_scale[worker[row]]
            told[row] = answer
            voice += answer if says[row] else -answer
        for row in range(task_start[task], task_start[task + 1]):
            word = ((voice if says[row] else -voice) - told[row]) * task_scale[task]
            told[row] = word
            heard[worker[row]] += word
            square += word * word
    return square


@kernel
def _support(
    task_start: Int64[np.ndarray, " tasks+1"],
    worker: Int32[np.ndarray, " labels"],
    says: Bool[np.ndarray, " labels"],
    told: Float64[np.ndarray, " labels"],
    scale: float,
    total: Float64[np.ndarray, " workers"],
    worker_scale: Float64[np.ndarray, " workers"],
) -> Float64[np.ndarray, " tasks"]:
    """Share of each task's weight that speaks for +1; without weight labels count alike."""
    support = np.full(len(task_start) - 1, 0.5)
    for task in range(len(support)):
        speaking, weight, alike = 0.0, 0.0, 0.0
        rows = range(task_start[task], task_start[task + 1])
        for row in rows:
            answer = (total[worker[row]] - told[row] * scale) * worker_scale[worker[row]]
            weight += abs(answer)
            speaking += max(answer if says[row] else -answer, 0.0)
            alike += 1.0 if says[row] else 0.0
        if weight > 0.0:
            support[task] = speaking / weight
        elif len(rows):
            support[task] = alike / len(rows)
    return support


def kos_plus(
    labels: CrowdLabels,
    *,
    max_iter: int = 100,
    tol: float = 1e-6,
    rng: np.random.Generator,
    threads: int | None = None,
    progress: Progress | None = None,
) -> MessagePassing:
    """Weigh every label by what the worker's other labels say about her, label for label.

    :func:`quality.aggregation.kos_messages.kos` with messages that do not grow with the degrees. What a worker says is
    divided by her number of labels: a mean, so having many gives her no louder voice. What a task
    says is divided by the square root of its number of labels, by which a sum of guesses grows.

    Parameters
    ----------
    labels
        The crowd's labels.
    max_iter
        At most so many iterations, at least 1.
    tol
        Stop when the workers' totals move by no more than this, messages being scaled to unit
        length, at least 0.
    rng
        Source of the messages that workers begin with: normal, mean 1, standard deviation 1.
    threads
        At most so many; all cores if None.
    progress
        Told after every iteration: see :data:`quality.parallel.Progress`.

    Returns
    -------
    MessagePassing
        Not reaching `tol` is told in ``converged``; it is not an error.

    Raises
    ------
    ValueError
        If a parameter is out of its range.

    Notes
    -----
    **Guarantees.** Where all workers have equally many labels, and all tasks, it gives KOS's
    labels. Tasks without labels are tied between all classes and change nothing else. Where nobody
    confirms or denies what a task's workers say elsewhere, their labels count alike. The same
    generator gives the same bytes, on any number of threads.

    **Limits.** As :func:`quality.aggregation.kos_messages.kos`, but for the busiest workers' weight. Errors that most
    of the crowd shares are believed, as by a majority vote.

    **Cost.** As :func:`quality.aggregation.kos_messages.kos`.

    References
    ----------
    .. [1] Karger, Oh, Shah, "Iterative learning for reliable crowdsourcing systems", NIPS 2011.
    .. [2] Jagabathula, Subramanian, Venkataraman, "Reputation-based worker filtering in
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
    task_scale = 1.0 / np.sqrt(np.maximum(np.diff(labels.task_start), 1))
    worker_scale = 1.0 / np.maximum(np.diff(labels.worker_start), 1)
    return pass_messages(
        labels, "KOS+", task_scale, worker_scale, max_iter=max_iter, tol=tol, rng=rng,
        threads=threads, progress=progress,
    )  # fmt: skip
