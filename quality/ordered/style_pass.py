"""One pass over the labels, worker by worker: her style, and her labels' evidence on her tasks.

A worker of style (a, b, c) gives label l to a task of truth t with probability proportional to

    exp(a * log shape[t, l] + b * x[l] + c * x[l]**2),

where the shape is the average worker's P(label | truth), and x runs from -1 at the first class to 1 at the
last. It is a multinomial logit, concave in (a, b, c). Her table of classes x classes is made, used and
discarded, so that memory grows with tasks and workers alone.
"""

import numpy as np
from jaxtyping import Float64, Int16, Int32, Int64

from quality.parallel import kernel

__all__ = ["settle", "style_pass", "style_table"]

LONGEST = 1.0  # longer Newton steps are cut: far from the maximum they overshoot


@kernel
def style_table(
    style: Float64[np.ndarray, " 3"],
    log_shape: Float64[np.ndarray, "classes classes"],
    x: Float64[np.ndarray, " classes"],
    log_table: Float64[np.ndarray, "classes classes"],
    table: Float64[np.ndarray, "classes classes"],
) -> None:
    """Write log P(label | truth) of a worker of this style, as ``log_table[truth, label]``, and P."""
    n_classes = len(x)
    for truth in range(n_classes):
        most = -np.inf
        for label in range(n_classes):
            at = x[label]
            log_table[truth, label] = style[0] * log_shape[truth, label] + at * (
                style[1] + style[2] * at
            )
            most = max(most, log_table[truth, label])
        total = 0.0
        for label in range(n_classes):
            table[truth, label] = np.exp(log_table[truth, label] - most)
            total += table[truth, label]
        log_total, share = most + np.log(total), 1.0 / total
        for label in range(n_classes):
            log_table[truth, label] -= log_total
            table[truth, label] *= share


@kernel
def _slopes(
    count: Float64[np.ndarray, "classes classes"],
    table: Float64[np.ndarray, "classes classes"],
    log_shape: Float64[np.ndarray, "classes classes"],
    x: Float64[np.ndarray, " classes"],
    gradient: Float64[np.ndarray, " 3"],
    information: Float64[np.ndarray, "3 3"],
) -> None:
    """Add the gradient and the information of a worker's expected counts, below the diagonal."""
    mean, feature = np.empty(3), np.empty(3)
    for truth in range(len(x)):
        n_labels = 0.0
        for label in range(len(x)):
            n_labels += count[truth, label]
        if n_labels == 0.0:
            continue
        mean[:] = 0.0
        for label in range(len(x)):
            chance = table[truth, label]
            feature[0], feature[1], feature[2] = log_shape[truth, label], x[label], x[label] ** 2
            for p in range(3):
                mean[p] += chance * feature[p]
                gradient[p] += (count[truth, label] - n_labels * chance) * feature[p]
                for q in range(p + 1):
                    information[p, q] += n_labels * chance * feature[p] * feature[q]
        for p in range(3):
            for q in range(p + 1):
                information[p, q] -= n_labels * mean[p] * mean[q]


@kernel
def _invert(matrix: Float64[np.ndarray, "3 3"], inverse: Float64[np.ndarray, "3 3"]) -> None:
    """Write the inverse of a positive definite matrix that is given below its diagonal."""
    a, b, c = matrix[0, 0], matrix[1, 0], matrix[2, 0]
    d, e, f = matrix[1, 1], matrix[2, 1], matrix[2, 2]
    inverse[0, 0], inverse[1, 0], inverse[2, 0] = d * f - e * e, c * e - b * f, b * e - c * d
    inverse[1, 1], inverse[2, 1], inverse[2, 2] = a * f - c * c, b * c - a * e, a * d - b * b
    determinant = a * inverse[0, 0] + b * inverse[1, 0] + c * inverse[2, 0]
    for p in range(3):
        for q in range(p + 1):
            inverse[p, q] /= determinant
            inverse[q, p] = inverse[p, q]


@kernel
def style_pass(
    first: int,
    last: int,
    order: Int64[np.ndarray, " labels"],
    start: Int64[np.ndarray, " workers+1"],
    task: Int32[np.ndarray, " labels"],
    label: Int16[np.ndarray, " labels"],
    posterior: Float64[np.ndarray, "tasks classes"],
    log_shape: Float64[np.ndarray, "classes classes"],
    x: Float64[np.ndarray, " classes"],
    variance: Float64[np.ndarray, " 3"],
    n_steps: int,
    style: Float64[np.ndarray, "workers 3"],
    belief: Float64[np.ndarray, "tasks classes"],
    sums: Float64[np.ndarray, "3 classes classes"],
    unsure: Float64[np.ndarray, " 3"],
) -> None:
    """Take Newton steps with some workers, and add their labels' evidence on tasks to the belief.

    `style` is changed in place, around the average (1, 0, 0). `belief` gains log P(label | truth). `sums`
    gains the workers' expected counts, the same weighted by their sharpness, and the model's expectation of
    these. `unsure` gains the variances of the styles around the average.
    """
    n_classes = len(x)
    count, table = np.empty((n_classes, n_classes)), np.empty((n_classes, n_classes))
    log_table = np.empty((n_classes, n_classes))
    gradient, information, inverse = np.empty(3), np.empty((3, 3)), np.empty((3, 3))
    for worker in range(first, last):
        rows = order[start[worker] : start[worker + 1]]
        if len(rows) == 0:
            continue
        count[:] = 0.0
        for row in rows:
            for truth in range(n_classes):
                count[truth, label[row]] += posterior[task[row], truth]
        own = style[worker]
        for _ in range(n_steps):
            style_table(own, log_shape, x, log_table, table)
            information[:] = 0.0
            for p in range(3):
                off = own[p] - (1.0 if p == 0 else 0.0)
                gradient[p], information[p, p] = -off / variance[p], 1.0 / variance[p]
            _slopes(count, table, log_shape, x, gradient, information)
            _invert(information, inverse)
            for p in range(3):
                step = 0.0
                for q in range(3):
                    step += inverse[p, q] * gradient[q]
                own[p] += min(max(step, -LONGEST), LONGEST)
        for p in range(3):
            unsure[p] += (own[p] - (1.0 if p == 0 else 0.0)) ** 2 + inverse[p, p]
        style_table(own, log_shape, x, log_table, table)
        _add_counts(count, table, max(own[0], 0.0), sums)
        for row in rows:
            for truth in range(n_classes):
                belief[task[row], truth] += log_table[truth, label[row]]


@kernel
def _add_counts(
    count: Float64[np.ndarray, "classes classes"],
    table: Float64[np.ndarray, "classes classes"],
    sharpness: float,
    sums: Float64[np.ndarray, "3 classes classes"],
) -> None:
    n_classes = len(count)
    for truth in range(n_classes):
        n_labels = 0.0
        for label in range(n_classes):
            n_labels += count[truth, label]
        for label in range(n_classes):
            sums[0, truth, label] += count[truth, label]
            sums[1, truth, label] += sharpness * count[truth, label]
            sums[2, truth, label] += sharpness * n_labels * table[truth, label]


@kernel
def settle(
    belief: Float64[np.ndarray, "tasks classes"],
    gold: Int16[np.ndarray, " tasks"],
    task_start: Int64[np.ndarray, " tasks+1"],
    mass: Float64[np.ndarray, " classes"],
) -> float:
    """Turn each class's log evidence into a posterior, in place; return the log-likelihood.

    The posteriors of the tasks that have labels are added to `mass`. A task of known truth is certain.
    """
    n_tasks, n_classes = belief.shape
    log_likelihood = 0.0
    for task in range(n_tasks):
        most = -np.inf
        for truth in range(n_classes):
            most = max(most, belief[task, truth])
        total, known = 0.0, gold[task]
        evidence = belief[task, known] if known >= 0 else most
        for truth in range(n_classes):
            belief[task, truth] = np.exp(belief[task, truth] - most)
            total += belief[task, truth]
        for truth in range(n_classes):
            belief[task, truth] /= total
            if known >= 0:
                belief[task, truth] = 1.0 if truth == known else 0.0
        if task_start[task] == task_start[task + 1]:
            continue
        log_likelihood += evidence if known >= 0 else most + np.log(total)
        for truth in range(n_classes):
            mass[truth] += belief[task, truth]
    return log_likelihood
