"""KOS: workers and tasks tell each other, along every label, how far to believe it."""

from dataclasses import dataclass
from typing import no_type_check

import numpy as np
from jaxtyping import Bool, Float64, Int16, Int32, Int64
from numba import njit

from quality.codes import freeze_arrays
from quality.labels import CrowdLabels
from quality.majority import decide

__all__ = ["MessagePassing", "kos", "pass_messages"]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MessagePassing:
    """Result of :func:`kos` and :func:`quality.kos_plus.kos_plus`.

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
    labels: CrowdLabels, *, max_iter: int = 100, tol: float = 1e-6, rng: np.random.Generator
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
    same generator gives the same bytes, on any number of cores. Renaming the classes renames the
    result, whatever their order.

    **Limits.** Made for random regular assignments: where a few workers label far more than the
    others they come to decide everything, and the result can be no better than guessing. Use
    :func:`quality.kos_plus.kos_plus` there. The first message is drawn for each row, so renaming
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
    return pass_messages(labels, *ones, max_iter=max_iter, tol=tol, rng=rng)


def pass_messages(
    labels: CrowdLabels,
    task_scale: Float64[np.ndarray, " tasks"],
    worker_scale: Float64[np.ndarray, " workers"],
    *,
    max_iter: int,
    tol: float,
    rng: np.random.Generator,
) -> MessagePassing:
    """KOS with every message of a task or worker multiplied by a scale of its own."""
    if not max_iter >= 1:
        raise ValueError(f"max_iter must be >= 1, got max_iter={max_iter}")
    if not tol >= 0:
        raise ValueError(f"tol must be >= 0, got tol={tol}")
    n_classes = labels.n_classes
    start = rng.normal(1.0, 1.0, size=labels.n_labels)
    classes = range(1, 2) if n_classes == 2 else range(n_classes)
    support = np.empty((labels.n_tasks, len(classes)))
    n_iter, converged = 0, True
    for column, code in enumerate(classes):
        sign = np.where(labels.label == code, 1.0, -1.0)
        message, done, settled = _iterate(
            labels.task_start, labels.worker, sign, start, task_scale, worker_scale, max_iter, tol
        )
        support[:, column] = _support(labels.task_start, sign, message)
        n_iter, converged = max(n_iter, done), converged and bool(settled)
    if n_classes == 2:
        support = np.hstack([1.0 - support, support])
    total = support.sum(axis=1, keepdims=True)
    uniform = np.full_like(support, 1.0 / n_classes)  # all weight speaks against every class
    posterior = np.divide(support, total, out=uniform, where=total > 0)
    label, tied = decide(posterior)
    return MessagePassing(posterior, label, tied, n_iter, converged)


@no_type_check  # numba compiles it, so the shape checks of the tests must not wrap it
@njit(cache=True, nogil=True)
def _iterate(
    task_start: Int64[np.ndarray, " tasks+1"],
    worker: Int32[np.ndarray, " labels"],
    sign: Float64[np.ndarray, " labels"],
    start: Float64[np.ndarray, " labels"],
    task_scale: Float64[np.ndarray, " tasks"],
    worker_scale: Float64[np.ndarray, " workers"],
    max_iter: int,
    tol: float,
) -> tuple[Float64[np.ndarray, " labels"], int, bool]:
    """The workers' last messages, the iterations made, and whether they had settled.

    Between passes `message` holds what tasks tell workers. What a worker answers follows from it
    and from her total, so that one pass over the labels does both halves of an iteration.
    """
    n_rows = len(sign)
    message = np.empty(n_rows)
    for row in range(n_rows):  # with totals of 0 the first answers are `start`
        message[row] = -sign[row] * start[row] / worker_scale[worker[row]]
    total, following = np.zeros(len(worker_scale)), np.zeros(len(worker_scale))
    n_iter, converged = 0, False
    while n_iter < max_iter and not converged:
        following[:] = 0.0
        square = 0.0
        for task in range(len(task_start) - 1):
            voice = 0.0
            for row in range(task_start[task], task_start[task + 1]):
                own = sign[row] * message[row]
                message[row] = sign[row] * (total[worker[row]] - own) * worker_scale[worker[row]]
                voice += message[row]
            for row in range(task_start[task], task_start[task + 1]):
                message[row] = (voice - message[row]) * task_scale[task]
                following[worker[row]] += sign[row] * message[row]
                square += message[row] * message[row]
        n_iter += 1
        if square == 0.0:  # what nobody else confirms is subtracted to exactly 0
            return message, n_iter, True
        message /= np.sqrt(square)
        following /= np.sqrt(square)
        converged = n_iter > 1 and np.sqrt(((following - total) ** 2).sum()) <= tol
        total, following = following, total
    for row in range(n_rows):
        own = sign[row] * message[row]
        message[row] = (total[worker[row]] - own) * worker_scale[worker[row]]
    return message, n_iter, converged


@no_type_check  # numba compiles it, so the shape checks of the tests must not wrap it
@njit(cache=True, nogil=True)
def _support(
    task_start: Int64[np.ndarray, " tasks+1"],
    sign: Float64[np.ndarray, " labels"],
    message: Float64[np.ndarray, " labels"],
) -> Float64[np.ndarray, " tasks"]:
    """Share of each task's weight that speaks for +1; without weight labels count alike."""
    support = np.full(len(task_start) - 1, 0.5)
    for task in range(len(support)):
        speaking, weight, alike = 0.0, 0.0, 0.0
        rows = range(task_start[task], task_start[task + 1])
        for row in rows:
            weight += abs(message[row])
            speaking += max(sign[row] * message[row], 0.0)
            alike += max(sign[row], 0.0)
        if weight > 0.0:
            support[task] = speaking / weight
        elif len(rows):
            support[task] = alike / len(rows)
    return support
