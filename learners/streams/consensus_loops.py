"""The loops of the running consensus: labels taken in, tasks weighed anew, labels judged by the others.

Labels of a task are a chain: each points to the task's label before it, and the task to its last. A worker's
row is her expected counts and `STRENGTH` labels of the crowd's row, which is shrunk to even errors by
`ANCHOR` labels, as in hierarchical Dawid–Skene.
"""

from math import exp, log
from typing import Any

import numpy as np

from quality.parallel import kernel  # the numba decorator alone

__all__ = ["crowd_rows", "reweighed", "take_labels"]

Array = Any  # what numba compiles is not checked by type

STRENGTH, ANCHOR = 2.0, 1000.0
FIRST_RATE, FIRST_LABELS = 0.7, 10.0  # prior accuracy of a crowd, and the labels that it counts for
TIE = 1e-9
CROWD_EVERY = 16  # labels between two computations of the crowd's rows


@kernel
def crowd_rows(crowd: Array, rows: Array) -> None:
    """Write the crowd's row of each truth class."""
    k = len(crowd)
    total, right = FIRST_LABELS, FIRST_LABELS * FIRST_RATE
    for z in range(k):
        right += crowd[z, z]
        for label in range(k):
            total += crowd[z, label]
    rate = right / total
    for z in range(k):
        row = ANCHOR
        for label in range(k):
            row += crowd[z, label]
        for label in range(k):
            even = rate if label == z else (1.0 - rate) / (k - 1)
            rows[z, label] = (crowd[z, label] + ANCHOR * even) / row


@kernel
def add_counts(
    task: int, sign: float, chain: Array, counts: Array, crowd: Array, prior: Array, post: Array
) -> None:
    """Add a task's posterior to the counts of its workers, the crowd and the classes, or take it away."""
    last, before, worker, label = chain
    k = len(prior)
    row = last[task]
    for z in range(k):
        prior[z] += sign * post[task, z]
    while row >= 0:
        for z in range(k):
            counts[worker[row], z, label[row]] += sign * post[task, z]
            counts[worker[row], z, k] += sign * post[task, z]
            crowd[z, label[row]] += sign * post[task, z]
        row = before[row]


@kernel
def says(row: int, z: int, worker: Array, label: Array, counts: Array, rows: Array) -> float:
    """Return the log probability of a label if the truth is z."""
    w, k = worker[row], len(rows)
    given = counts[w, z, label[row]] + STRENGTH * rows[z, label[row]]
    return log(max(given, 1e-9) / (max(counts[w, z, k], 0.0) + STRENGTH))


@kernel
def weigh(
    task: int, chain: Array, counts: Array, rows: Array, prior: Array, post: Array, scores: Array
) -> None:
    """Write a task's posterior, and its logarithm without the constant."""
    last, before, worker, label = chain
    k = len(prior)
    for z in range(k):
        scores[z] = log(max(prior[z], 0.0) + 1.0)
    row = last[task]
    while row >= 0:
        for z in range(k):
            scores[z] += says(row, z, worker, label, counts, rows)
        row = before[row]
    most, total = scores.max(), 0.0
    for z in range(k):
        post[task, z] = exp(scores[z] - most)
        total += post[task, z]
    for z in range(k):
        post[task, z] /= total


@kernel
def judged_by_others(row: int, chain: Array, counts: Array, rows: Array, scores: Array) -> int:
    """Return the class that a task has without one of its labels; -1 if two are equally probable."""
    _, _, worker, label = chain
    best, first, second = -1, -np.inf, -np.inf
    for z in range(len(scores)):
        score = scores[z] - says(row, z, worker, label, counts, rows)
        if score > first:
            best, first, second = z, score, first
        elif score > second:
            second = score
    return best if first - second > TIE else -1


@kernel
def take_labels(
    start: int,
    n_tasks: int,
    tasks: Array,
    chain: Array,
    n_labels: Array,
    counts: Array,
    crowd: Array,
    prior: Array,
    post: Array,
    rows: Array,
    quorum: int,
    revisits: int,
    judged: Array,
) -> int:
    """Take in the labels from row `start` on, whose tasks are given; return how many were judged.

    `judged` gets a row and the class by the others for each label whose task has at least `quorum`.
    """
    last, before, _, _ = chain
    scores = np.empty(len(prior))
    n_judged = 0
    for i in range(len(tasks)):
        row, task = start + i, tasks[i]
        if row % CROWD_EVERY == 0:
            crowd_rows(crowd, rows)
        if n_labels[task] > 0:
            add_counts(task, -1.0, chain, counts, crowd, prior, post)
        n_tasks = max(n_tasks, task + 1)
        before[row] = last[task]
        last[task] = row
        n_labels[task] += 1
        weigh(task, chain, counts, rows, prior, post, scores)
        if n_labels[task] >= quorum:
            one = row
            while one >= 0:
                judged[n_judged, 0] = one
                judged[n_judged, 1] = judged_by_others(one, chain, counts, rows, scores)
                n_judged += 1
                one = before[one] if n_labels[task] == quorum else -1
        add_counts(task, 1.0, chain, counts, crowd, prior, post)
        for r in range(revisits):
            old = (row * revisits + r) % n_tasks
            if n_labels[old] > 0:
                add_counts(old, -1.0, chain, counts, crowd, prior, post)
                weigh(old, chain, counts, rows, prior, post, scores)
                add_counts(old, 1.0, chain, counts, crowd, prior, post)
    return n_judged


@kernel
def reweighed(
    chain: Array, n_labels: Array, counts: Array, crowd: Array, prior: Array, post: Array
) -> None:
    """Write the posterior of every task, as the counts are now."""
    k = len(prior)
    rows, scores = np.empty((k, k)), np.empty(k)
    crowd_rows(crowd, rows)
    for task in range(len(post)):
        if n_labels[task] > 0:
            weigh(task, chain, counts, rows, prior, post, scores)
