"""The EM that Dawid–Skene and its kind share, but for the M-step.

A model of this kind is a table P(answer | truth) of every worker, and differs from the others in
how it makes that table of the expected counts: its M-step. The rest is the same for all, and one
pass over the labels per iteration (:mod:`quality.em_pass`). The tasks are cut into chunks, each
with counts of its own, added up in order: the same bytes on any number of threads.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from jaxtyping import Float64, Int, Int16, Int64

from quality.chunks import check_threads, chunk_starts, shared_out
from quality.em_pass import LEAST_ENTRY, majority_pass, safe_factors, task_pass
from quality.labels import CrowdLabels

__all__ = [
    "EMFit", "EMRows", "believe", "check_em", "check_smoothing", "em_rows", "fit_em", "start_em",
]  # fmt: skip

UNROLLED = 8  # up to so many classes the pass is compiled for that very number

Counts: TypeAlias = Float64[np.ndarray, "workers answers truths"]
Mass: TypeAlias = Float64[np.ndarray, " classes"]
SharedOut: TypeAlias = Callable[[Callable[[int], tuple[Mass, float]]], list[tuple[Mass, float]]]


@dataclass(frozen=True, slots=True, eq=False)
class EMRows:
    """What the pass reads: the labels as places in the flat table, and the chunks of tasks."""

    gold: Int16[np.ndarray, " tasks"]
    task_start: Int64[np.ndarray, " tasks+1"]
    label: Int16[np.ndarray, " labels"]
    place: Int[np.ndarray, " labels"]  # of (worker, answer, truth 0)
    chunk_start: Int64[np.ndarray, " cuts"]
    shape: tuple[int, int, int]


@dataclass(frozen=True, slots=True, eq=False)
class EMFit:
    """Where EM stopped: `counts` and `mass` are expected under `prior` and `table`."""

    prior: Mass
    table: Counts
    counts: Counts
    mass: Mass
    log_likelihood: float
    n_iter: int
    converged: bool


def check_em(max_iter: int, tol: float, threads: int | None) -> None:
    """Refuse what no EM can run with."""
    if not max_iter >= 1:
        raise ValueError(f"max_iter must be >= 1, got max_iter={max_iter}")
    if not tol >= 0:
        raise ValueError(f"tol must be >= 0, got tol={tol}")
    check_threads(threads)


def check_smoothing(smoothing: float) -> None:
    """Refuse smoothing that leaves a table entry zero or the pass without digits."""
    if not LEAST_ENTRY <= smoothing < np.inf:
        raise ValueError(
            f"smoothing must be >= {LEAST_ENTRY} and finite, got smoothing={smoothing}"
        )


def em_rows(labels: CrowdLabels, gold: Int[np.ndarray, " tasks"] | None) -> EMRows:
    """Labels and gold as the pass wants them; a chunk has labels enough to pay for its counts."""
    known = _check_gold(labels, gold)
    n_classes = labels.n_classes
    size = labels.n_workers * n_classes**2
    place = labels.worker.astype(np.int32 if size <= np.iinfo(np.int32).max else np.int64)
    np.multiply(place, n_classes, out=place)  # in place: at ten million labels a copy counts
    np.add(place, labels.label, out=place)
    np.multiply(place, n_classes, out=place)
    chunk_start = chunk_starts(labels.task_start, 4 * size)
    shape = (labels.n_workers, n_classes, n_classes)
    return EMRows(known, labels.task_start, labels.label, place, chunk_start, shape)


def _check_gold(
    labels: CrowdLabels, gold: Int[np.ndarray, " tasks"] | None
) -> Int16[np.ndarray, " tasks"]:
    """Gold as the pass wants it: -1 everywhere where none is given."""
    if gold is None:
        return np.full(labels.n_tasks, -1, dtype=np.int16)
    if not (gold.dtype.kind in "iu" and gold.shape == (labels.n_tasks,)):
        raise ValueError(
            f"gold must be {labels.n_tasks} class codes, one per task and -1 where unknown, "
            f"got {gold.dtype} of shape {gold.shape}"
        )
    if not ((gold >= -1) & (gold < labels.n_classes)).all():
        raise ValueError(f"gold must be class codes from -1 to {labels.n_classes - 1}")
    return gold.astype(np.int16)


def start_em(rows: EMRows) -> tuple[Counts, Mass]:
    """Expected counts and class mass under the soft majority vote, gold clamped."""
    counts, mass = np.zeros(rows.shape), np.zeros(rows.shape[1])
    majority_pass(rows.task_start, rows.label, rows.place, rows.gold, counts.reshape(-1), mass)
    return counts, mass


def fit_em(
    rows: EMRows,
    start: tuple[Counts, Mass],
    m_step: Callable[[Counts], Counts],
    *,
    max_iter: int,
    tol: float,
    threads: int | None,
    tell: Callable[[int], object],
) -> EMFit:
    """EM from expected counts, until the log-likelihood per label moves by `tol` or less."""
    n_chunks = len(rows.chunk_start) - 1
    buffer = np.empty((n_chunks, int(np.prod(rows.shape))))
    nothing = np.empty((0, rows.shape[1]))
    counts, mass = start
    log_likelihood, converged, n_iter = -np.inf, False, 0
    with shared_out(threads, n_chunks) as shared:
        while n_iter < max_iter and not converged:
            prior, table, before = _prior(mass), m_step(counts), log_likelihood
            counts, mass, log_likelihood = _iterate(rows, prior, table, buffer, nothing, shared)
            converged = bool(abs(log_likelihood - before) <= tol * max(len(rows.label), 1))
            n_iter += 1
            tell(n_iter)
    return EMFit(prior, table, counts, mass, log_likelihood, n_iter, converged)


def believe(rows: EMRows, fit: EMFit, threads: int | None) -> Float64[np.ndarray, "tasks classes"]:
    """P(truth | labels) under the prior and the table of a fit: one more pass, which keeps it."""
    n_chunks = len(rows.chunk_start) - 1
    posterior = np.empty((len(rows.gold), rows.shape[1]))
    posterior[:] = fit.prior  # tasks without labels keep it
    buffer = np.empty((n_chunks, int(np.prod(rows.shape))))
    with shared_out(threads, n_chunks) as shared:
        _iterate(rows, fit.prior, fit.table, buffer, posterior, shared)
    known = np.flatnonzero(rows.gold >= 0)
    posterior[known] = 0.0
    posterior[known, rows.gold[known]] = 1.0
    return posterior


def _prior(mass: Mass) -> Mass:
    """Mean posterior of the tasks that have labels; uniform if none has."""
    total = mass.sum()
    return mass / total if total else np.full(len(mass), 1.0 / len(mass))


def _iterate(
    rows: EMRows,
    prior: Mass,
    table: Counts,
    buffer: Float64[np.ndarray, "chunks cells"],
    keep: Float64[np.ndarray, "kept classes"],
    shared: SharedOut,
) -> tuple[Counts, Mass, float]:
    """One pass: chunks on whatever threads there are, their sums in order."""
    flat = np.ascontiguousarray(table).reshape(-1)
    safe = safe_factors(float(flat.min(initial=1.0)))
    few = len(prior) <= UNROLLED
    head = tuple(prior.tolist()) if few else prior  # a tuple's length is known when compiled

    def chunk(number: int) -> tuple[Mass, float]:
        first, last = rows.chunk_start[number : number + 2]
        part = (first, last, rows.task_start, rows.place, rows.gold)
        belief = head if few else np.empty_like(prior)
        mass, log_likelihood = task_pass(*part, head, belief, flat, safe, buffer[number], keep)
        return mass, float(log_likelihood)

    done = shared(chunk)
    counts = buffer[0] if len(buffer) == 1 else buffer.sum(axis=0)
    mass = np.sum([mass for mass, _ in done], axis=0)
    return counts.reshape(rows.shape), mass, sum(part for _, part in done)
