"""Labels set aside, and how likely a consensus makes them.

Private to this room; :func:`quality.aggregation.automatic.auto` is the way in.
"""

import numpy as np
from jaxtyping import Bool, Float64

from quality.labels.codes import sort_codes
from quality.labels.table import CrowdLabels

__all__ = ["foresee", "set_aside"]


def set_aside(
    labels: CrowdLabels, share: float, rng: np.random.Generator
) -> tuple[CrowdLabels, Bool[np.ndarray, " labels"]]:
    """The table without a random share of its rows, never all of a task's; and which went."""
    draw = rng.random(labels.n_labels)
    by_task = np.lexsort((draw, labels.task))
    largest = by_task[labels.task_start[1:][np.diff(labels.task_start) > 0] - 1]
    away = draw < share
    away[largest] = False
    return _some_rows(labels, ~away), away


def foresee(
    labels: CrowdLabels,
    away: Bool[np.ndarray, " labels"],
    rest: CrowdLabels,
    posterior: Float64[np.ndarray, "tasks classes"],
    smoothing: float,
) -> Float64[np.ndarray, " held"]:
    """Log-probability of each held-out label under one M-step and one E-step on the rest."""
    n_classes = labels.n_classes
    cell = rest.worker.astype(np.int64) * n_classes + rest.label
    counts = np.stack(
        [np.bincount(cell, share, labels.n_workers * n_classes) for share in posterior[rest.task].T]
    ).reshape(n_classes, labels.n_workers, n_classes)
    crowd = counts.sum(axis=1) + 1.0 / n_classes
    crowd /= crowd.sum(axis=1, keepdims=True)
    confusion = counts + smoothing * crowd[:, np.newaxis]  # [truth, worker, answer]
    confusion /= confusion.sum(axis=2, keepdims=True)
    prior = posterior.mean(axis=0) + 1e-9  # a class nobody gives stays possible, and finite
    log_belief = np.column_stack(
        [
            np.log(prior[k])
            + np.bincount(rest.task, np.log(table[rest.worker, rest.label]), labels.n_tasks)
            for k, table in enumerate(confusion)
        ]
    )
    belief = np.exp(log_belief - log_belief.max(axis=1, keepdims=True))
    belief /= belief.sum(axis=1, keepdims=True)
    answer = confusion[:, labels.worker[away], labels.label[away]]
    foreseen: np.ndarray = np.log((belief[labels.task[away]].T * answer).sum(axis=0))
    return foreseen


def _some_rows(labels: CrowdLabels, keep: Bool[np.ndarray, " labels"]) -> CrowdLabels:
    """The same table with these rows only."""
    worker, task = labels.worker[keep], labels.task[keep]
    worker_order, worker_start = sort_codes(worker, labels.n_workers)
    _, task_start = sort_codes(task, labels.n_tasks)
    books = (labels.workers, labels.tasks, labels.classes)
    return CrowdLabels(
        worker, task, labels.label[keep], *books, task_start, worker_order, worker_start
    )
