"""Dawid–Skene: the fused product pass against the log-sum-exp form it replaced, and the memory.

    python -m benchmarks.quality.dawid_skene_speed --labels 1000000 --classes 2 5

Simulated crowds: 5 labels a task, 50 tasks a worker, degrees by a power law (Pareto 1.3); 70 % of the
workers honest (diagonal 0.60 to 0.97), 20 % spammers (one Dirichlet row), 10 % adversaries (diagonal
below 0.6 / classes); rows shuffled.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, no_type_check

import numpy as np
from numba import njit

from benchmarks.publish import parser_of, publish
from quality import CrowdLabels, dawid_skene, encode, majority_vote

SMOOTHING = 0.01
HEADER = (
    "labels", "classes", "iterations", "old, cpu s", "new, cpu s", "old / new", "2 threads, wall s",
    "labels * iterations / s", "times the memory bound", "largest difference of posteriors",
)  # fmt: skip


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--labels", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--classes", type=int, nargs="+", default=[2, 5])
    parser.add_argument("--iterations", type=int, default=100)
    arguments = parser.parse_args()
    bandwidth = read_bandwidth()
    rows = [
        measure(n_labels, n_classes, arguments.iterations, bandwidth)
        for n_classes in arguments.classes
        for n_labels in arguments.labels
    ]
    note = (
        "Old: log-sum-exp form, one thread. New: `dawid_skene(..., tol=0)`, one thread, process CPU "
        "time from encoded labels to the result, compiled before; least of three runs. The memory "
        "bound is the time to read each label's table place, the task offsets and gold once an "
        f"iteration at the {bandwidth / 1e9:.1f} GB/s that a sum over 400 MB reached on one thread. "
        "Wall time depends on what else the cores are doing."
    )
    publish("dawid_skene_speed", "Dawid–Skene EM, old and new", HEADER, rows, note=note)


def measure(n_labels: int, n_classes: int, n_iter: int, bandwidth: float) -> list[str]:
    labels = power_law_crowd(n_labels, n_classes, np.random.default_rng(0))
    log_form_em(labels, 1)
    dawid_skene(labels, max_iter=1)  # compiled
    old, posterior = least(time.process_time, lambda: log_form_em(labels, n_iter), 1)
    new, result = least(
        time.process_time, lambda: dawid_skene(labels, max_iter=n_iter, tol=0.0, threads=1), 3
    )
    wall, _ = least(
        time.perf_counter, lambda: dawid_skene(labels, max_iter=n_iter, tol=0.0, threads=2), 3
    )
    done = labels.n_labels * n_iter
    bound = n_iter * (4 * labels.n_labels + 10 * labels.n_tasks) / bandwidth
    difference = np.abs(result.posterior - posterior).max()
    return [
        f"{labels.n_labels:,}", str(n_classes), str(n_iter), f"{old:.3f}", f"{new:.3f}",
        f"{old / new:.1f}", f"{wall:.3f}", f"{done / new:.3g}", f"{new / bound:.0f}",
        f"{difference:.1g}",
    ]  # fmt: skip


def least(clock: Callable[[], float], work: Callable[[], Any], n_runs: int) -> tuple[float, Any]:
    """Shortest time of a few runs, and the last result."""
    times = []
    for _ in range(n_runs):
        before = clock()
        result = work()
        times.append(clock() - before)
    return min(times), result


def read_bandwidth() -> float:
    """Bytes per second of one thread that only reads."""
    block = np.ones(50_000_000)
    block.sum()
    seconds, _ = least(time.perf_counter, block.sum, 5)
    return block.nbytes / seconds


def power_law_crowd(n_labels: int, n_classes: int, rng: np.random.Generator) -> CrowdLabels:
    """The crowd of this file's first lines; a worker drawn twice for a task answers once."""
    n_tasks = n_labels // 5
    n_workers = max(n_tasks // 50, 5)
    degree = 1 + rng.pareto(1.3, size=n_workers)
    worker = rng.choice(n_workers, size=n_labels, p=degree / degree.sum())
    task = np.repeat(np.arange(n_tasks), 5)
    _, once = np.unique(task * n_workers + worker, return_index=True)
    worker, task = worker[once], task[once]
    confusion = np.stack([_confusion(n_classes, rng) for _ in range(n_workers)])
    truth = rng.integers(n_classes, size=n_tasks)
    reached = np.cumsum(confusion, axis=2)[worker, truth[task]]
    label = (rng.random(len(worker))[:, None] > reached[:, :-1]).sum(axis=1)
    shuffled = rng.permutation(len(worker))
    return encode(worker[shuffled], task[shuffled], label[shuffled], classes=range(n_classes))


def _confusion(n_classes: int, rng: np.random.Generator) -> np.ndarray:
    kind = rng.random()
    if kind < 0.2:
        return np.tile(rng.dirichlet(np.ones(n_classes)), (n_classes, 1))
    right = rng.uniform(0.6, 0.97) if kind < 0.9 else rng.uniform(0.0, 0.6 / n_classes)
    wrong = (1.0 - right) / (n_classes - 1)
    return np.where(np.eye(n_classes, dtype=bool), right, wrong)


def log_form_em(labels: CrowdLabels, n_iter: int) -> np.ndarray:
    """What `dawid_skene` was before the fused pass; its posterior."""
    n_workers, n_classes = labels.n_workers, labels.n_classes
    cell = labels.worker.astype(np.int64) * n_classes + labels.label
    posterior = majority_vote(labels).posterior.copy()
    counts = np.column_stack(
        [np.bincount(cell, share[labels.task], n_workers * n_classes) for share in posterior.T]
    )
    for _ in range(n_iter):
        log_prior = np.log(posterior.mean(axis=0))
        table = counts.reshape(n_workers, n_classes, n_classes) + SMOOTHING
        table /= table.sum(axis=1, keepdims=True)
        log_table = np.log(table).reshape(counts.shape)
        _log_form_pass(labels.task_start, cell, log_prior, log_table, posterior, counts)
    return posterior


@no_type_check
@njit(cache=True, nogil=True)
def _log_form_pass(task_start, cell, log_prior, log_table, posterior, counts):
    n_classes = len(log_prior)
    belief = np.empty(n_classes)
    log_likelihood = 0.0
    counts[:] = 0.0
    for task in range(len(task_start) - 1):
        belief[:] = log_prior
        for row in range(task_start[task], task_start[task + 1]):
            for truth in range(n_classes):
                belief[truth] += log_table[cell[row], truth]
        largest = belief.max()
        total = 0.0
        for truth in range(n_classes):
            belief[truth] = np.exp(belief[truth] - largest)
            total += belief[truth]
        for truth in range(n_classes):
            belief[truth] /= total
            posterior[task, truth] = belief[truth]
        for row in range(task_start[task], task_start[task + 1]):
            for truth in range(n_classes):
                counts[cell[row], truth] += belief[truth]
        log_likelihood += largest + np.log(total)
    return log_likelihood


if __name__ == "__main__":
    main()
