"""KOS and KOS+: workers and tasks exchange messages about the reliability of every label.

:func:`kos` is the algorithm of the paper, for crowds in which all workers give about equally many labels.
:func:`kos_plus` divides the messages by the numbers of labels, for crowds in which a few workers give most
of the labels.

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

from quality.aggregation.consensus import Result, check_em, check_posterior, decide
from quality.aggregation.passes import PUT
from quality.argument_types import check_arguments
from quality.labels import CrowdLabels, bring_near
from quality.parallel import Progress, chunk_starts, counter, kernel, shared_out

__all__ = ["MessagePassing", "kos", "kos_plus", "pass_messages"]

LANES = 4  # classes side by side, if more than two: rows are read once for all of them


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MessagePassing(Result):
    """Result of :func:`kos` and :func:`kos_plus`.

    Parameters
    ----------
    posterior
        Share of each class in the weight of a task's labels. It orders the classes; it is not calibrated as
        a probability. Uniform where a task has no labels.
    label, tied
        As in :class:`~quality.Consensus`.
    n_iter, converged
        Iterations made, and whether the messages had settled by then; with more than two classes the
        largest number, and whether all classes had settled.
    """

    posterior: Float64[np.ndarray, "tasks classes"]
    label: Int16[np.ndarray, " tasks"]
    tied: Bool[np.ndarray, " tasks"]
    n_iter: int
    converged: bool


@check_arguments
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
    """Weigh every label by how far the worker's other labels agree with the crowd's.

    With two classes a label is A = +1 or -1. A task sends a worker the sum of A times the messages of its
    *other* workers; a worker sends a task the sum of A times the messages of her *other* tasks. The sign of
    the sum of A times message is a task's label. With more than two classes, this is done for each class
    against the rest.

    Parameters
    ----------
    labels
        The crowd's labels.
    max_iter, groups, threads, progress
        As for :func:`~quality.dawid_skene`.
    tol
        Stop when the workers' totals move by no more than this, with messages scaled to unit length, at
        least 0.
    rng
        Generator of the workers' first messages: normal, mean 1, standard deviation 1.

    Raises
    ------
    ValueError
        If a parameter is out of its range.

    Notes
    -----
    **Guarantees.** Tasks without labels are tied between all classes and change nothing else. If the
    workers of a task share no other task with anybody, their labels count alike. The same generator gives
    the same bytes, on any number of threads. Renaming the classes renames the result, in any order.

    **Limits.** Made for random regular assignments: if a few workers label far more than the others, they
    come to decide everything, and the result can be no better than guessing. Use :func:`~quality.kos_plus`
    then. A first message is drawn for each row, so renaming workers or tasks may change a result that has
    not converged; with very few labels all classes may be swapped.

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
    """Run KOS with every message of a task or worker multiplied by its own scale.

    `what` names the work to `progress`.
    """
    check_em(max_iter, tol, threads)
    check_posterior(labels)
    n_classes = labels.n_classes
    first = rng.normal(1.0, 1.0, size=labels.n_labels)
    near = bring_near(labels)
    labels, first = near.labels, near.row_given(first)
    task_scale, worker_scale = near.task_given(task_scale), near.worker_given(worker_scale)
    first /= -worker_scale[labels.worker]  # with totals 0, first messages are those drawn
    codes = np.arange(1, 2) if n_classes == 2 else np.arange(n_classes)
    support, stops = np.full((labels.n_tasks, len(codes)), 0.5), []
    for begin in range(0, len(codes), LANES):
        some = slice(begin, begin + LANES)
        steps = counter(progress, what, max_iter * len(codes), before=max_iter * begin)
        scales = task_scale, worker_scale
        stops += _exchange(
            labels, codes[some], first, *scales, max_iter, tol, threads, steps, support[:, some]
        )
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
    codes: Int64[np.ndarray, " lanes"],
    first: Float64[np.ndarray, " labels"],
    task_scale: Float64[np.ndarray, " tasks"],
    worker_scale: Float64[np.ndarray, " workers"],
    max_iter: int,
    tol: float,
    threads: int | None,
    tell: Callable[[int], object],
    support: Float64[np.ndarray, "tasks lanes"],
) -> list[tuple[int, bool]]:
    """Pass messages until the workers' totals settle, for several classes side by side, independently.

    Write the support of each class when it has settled; return its iterations, and whether it had settled.
    """
    n_lanes, n_workers = len(codes), labels.n_workers
    cut = chunk_starts(labels.task_start, 4 * n_workers)
    n_chunks = len(cut) - 1
    message = np.repeat(first[:, np.newaxis], n_lanes, axis=1)
    to_workers, square = np.empty((n_chunks, n_workers, n_lanes)), np.empty((n_chunks, n_lanes))
    # each worker's totals and scale are adjacent: half the cache lines
    about, scale = np.zeros((n_workers, n_lanes + 1)), np.ones(n_lanes)
    about[:, n_lanes] = worker_scale
    stops: dict[int, tuple[int, bool]] = {}
    rows = labels.task_start, labels.worker, labels.label

    def chunk(number: int) -> None:
        to_workers[number].fill(0.0)
        part = cut[number], cut[number + 1], *rows, tuple(codes.tolist()), tuple(scale.tolist())
        _pass(*part, message, about, task_scale, to_workers[number], square[number])

    with shared_out(threads, n_chunks) as shared:
        for n_iter in range(1, max_iter + 1):
            shared(chunk)
            squares, moved = square.sum(axis=0), np.zeros(n_lanes)
            # messages that no other worker confirms are subtracted to exactly 0
            scale = np.divide(1.0, np.sqrt(squares), out=np.zeros(n_lanes), where=squares > 0.0)
            _add_up(to_workers, scale, about, moved)
            settled = (squares == 0.0) | ((n_iter > 1) & (np.sqrt(moved) <= tol))
            for lane in np.flatnonzero(settled | (n_iter == max_iter)).tolist():
                if lane not in stops:
                    stops[lane] = n_iter, bool(settled[lane])
                    _write_support(*rows, codes[lane], lane, message, scale[lane], about, support)
            tell(n_iter * n_lanes)
            if len(stops) == n_lanes:
                break
    return [stops[lane] for lane in range(n_lanes)]


@kernel
def _pass(
    first: int,
    last: int,
    task_start: Int64[np.ndarray, " tasks+1"],
    worker: Int32[np.ndarray, " labels"],
    label: Int16[np.ndarray, " labels"],
    codes: tuple[int, ...],
    scale: tuple[float, ...],
    message: Float64[np.ndarray, "labels lanes"],
    about: Float64[np.ndarray, "workers lanes+1"],
    task_scale: Float64[np.ndarray, " tasks"],
    to_workers: Float64[np.ndarray, "workers lanes"],
    squares: Float64[np.ndarray, " lanes"],
) -> None:
    """Make both halves of an iteration in some tasks, in place; write the messages' square sums.

    A worker's message to a task is her total without that task's message to her. So only the tasks'
    messages are kept, with a column for each of the classes. `about` holds her totals and her scale;
    messages are added to `to_workers`. Compiled for each number of classes side by side.
    """
    n_lanes, zero = len(scale), scale
    for lane in range(n_lanes):
        zero = PUT(zero, lane, 0.0)
    # rows are read before they are written, as lanes are processed together
    square, sent, total = zero, zero, zero
    for task in range(first, last):
        votes = zero
        for row in range(task_start[task], task_start[task + 1]):
            who = np.uint64(worker[row])  # unsigned: no check for indices from the end
            for lane in range(n_lanes):
                reply = (about[who, lane] - message[row, lane] * scale[lane]) * about[who, n_lanes]
                sent = PUT(sent, lane, reply)
            for lane in range(n_lanes):
                message[row, lane] = sent[lane]
                signed = sent[lane] if label[row] == codes[lane] else -sent[lane]
                votes = PUT(votes, lane, votes[lane] + signed)
        for row in range(task_start[task], task_start[task + 1]):
            who = np.uint64(worker[row])
            for lane in range(n_lanes):
                signed = votes[lane] if label[row] == codes[lane] else -votes[lane]
                sent = PUT(sent, lane, (signed - message[row, lane]) * task_scale[task])
            for lane in range(n_lanes):
                message[row, lane] = sent[lane]
                square = PUT(square, lane, square[lane] + sent[lane] * sent[lane])
            for lane in range(n_lanes):
                total = PUT(total, lane, to_workers[who, lane] + sent[lane])
            for lane in range(n_lanes):
                to_workers[who, lane] = total[lane]
    for lane in range(n_lanes):
        squares[lane] = square[lane]


@kernel
def _add_up(
    to_workers: Float64[np.ndarray, "chunks workers lanes"],
    scale: Float64[np.ndarray, " lanes"],
    about: Float64[np.ndarray, "workers lanes+1"],
    moved: Float64[np.ndarray, " lanes"],
) -> None:
    """Write the workers' totals; add the squares of their moves."""
    for worker in range(len(about)):
        for lane in range(len(scale)):
            total = to_workers[0, worker, lane]
            for chunk in range(1, len(to_workers)):
                total += to_workers[chunk, worker, lane]
            total *= scale[lane]
            moved[lane] += (total - about[worker, lane]) ** 2
            about[worker, lane] = total


@kernel
def _write_support(
    task_start: Int64[np.ndarray, " tasks+1"],
    worker: Int32[np.ndarray, " labels"],
    label: Int16[np.ndarray, " labels"],
    code: int,
    lane: int,
    message: Float64[np.ndarray, "labels lanes"],
    scale: float,
    about: Float64[np.ndarray, "workers lanes+1"],
    support: Float64[np.ndarray, "tasks lanes"],
) -> None:
    """Write the share of each task's weight that is for a class; without weight, labels count alike."""
    last = about.shape[1] - 1
    for task in range(len(support)):
        in_favour, weight, alike = 0.0, 0.0, 0.0
        rows = range(task_start[task], task_start[task + 1])
        for row in rows:
            who = worker[row]
            reply = (about[who, lane] - message[row, lane] * scale) * about[who, last]
            weight += abs(reply)
            in_favour += max(reply if label[row] == code else -reply, 0.0)
            alike += 1.0 if label[row] == code else 0.0
        if weight > 0.0:
            support[task, lane] = in_favour / weight
        elif len(rows):
            support[task, lane] = alike / len(rows)


@check_arguments
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
    """Weigh every label by how far the worker's other labels agree with the crowd's, on average.

    These are :func:`~quality.kos`'s messages, normalised so that they do not grow with the numbers of
    labels. A worker's messages are divided by her number of labels: a mean, which many labels do not
    enlarge. A task's are divided by the square root of its number of labels, as the sum of guesses grows by
    that.

    Parameters
    ----------
    labels
        The crowd's labels.
    max_iter, tol, groups, rng, threads, progress
        As for :func:`~quality.kos`, errors included.

    Notes
    -----
    **Guarantees.** If all workers have equally many labels, and all tasks too, it gives KOS's labels. Tasks
    without labels are tied between all classes and change nothing else. If the workers of a task share no
    other task with anybody, their labels count alike. The same generator gives the same bytes, on any
    number of threads.

    **Limits.** As of :func:`~quality.kos`, except for the busiest workers' weight. Errors that most of the
    crowd shares are believed, as by a majority vote.

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
