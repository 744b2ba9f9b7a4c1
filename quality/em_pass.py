"""The EM that Dawid–Skene and its kind share: one fused pass over the labels per iteration.

A model of this kind is a table P(answer | truth) of every worker, and differs from the others in
how it makes that table of the expected counts: its M-step. The rest is the same for all. The pass
multiplies a task's rows of the table, divides by the sum, and adds the posterior to the counts of
the same rows while they are still in cache: no logarithm or exponential per label.

Products of probabilities underflow, so a task with more labels than can be multiplied in safety
carries a power of `HUGE` for each class, and nothing is lost however many labels it has.

Rows are cut into chunks whose number depends on the data alone, each with counts of its own, added
up in order: the same bytes on any number of threads.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from os import cpu_count
from typing import no_type_check

import numpy as np
from jaxtyping import Float64, Int, Int16, Int64
from numba import njit

from quality.labels import CrowdLabels
from quality.majority import majority_vote

__all__ = ["EMFit", "check_em", "check_gold", "check_smoothing", "clamp", "fit_em", "start_em"]

HUGE = 1e150
TINY = 1 / HUGE
LEAST_SMOOTHING = 1e-100  # keeps every table entry above TINY
UNROLLED = 8  # up to so many classes the pass is compiled for that very number

Counts = Float64[np.ndarray, "workers answers truths"]


@dataclass(frozen=True, slots=True, eq=False)
class EMFit:
    """Where EM stopped: `counts` and `mass` are expected under the posterior, `table` made it."""

    posterior: Float64[np.ndarray, "tasks classes"]
    prior: Float64[np.ndarray, " classes"]
    table: Counts
    counts: Counts
    mass: Float64[np.ndarray, " classes"]
    log_likelihood: float
    n_iter: int
    converged: bool


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """What the pass reads: the labels as places in the flat table, and the chunks of tasks."""

    gold: Int16[np.ndarray, " tasks"]
    task_start: Int64[np.ndarray, " tasks+1"]
    place: Int[np.ndarray, " labels"]  # of (worker, answer, truth 0)
    chunk_start: Int64[np.ndarray, " cuts"]
    shape: tuple[int, int, int]


def check_em(max_iter: int, tol: float, threads: int | None) -> None:
    """Refuse what no EM can run with."""
    if not max_iter >= 1:
        raise ValueError(f"max_iter must be >= 1, got max_iter={max_iter}")
    if not tol >= 0:
        raise ValueError(f"tol must be >= 0, got tol={tol}")
    if not (threads is None or threads >= 1):
        raise ValueError(f"threads must be >= 1 or None, got threads={threads}")


def check_smoothing(smoothing: float) -> None:
    """Refuse smoothing that leaves a table entry zero or the pass without digits."""
    if not LEAST_SMOOTHING <= smoothing < np.inf:
        raise ValueError(
            f"smoothing must be >= {LEAST_SMOOTHING} and finite, got smoothing={smoothing}"
        )


def check_gold(
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


def clamp(
    posterior: Float64[np.ndarray, "tasks classes"], gold: Int16[np.ndarray, " tasks"]
) -> Float64[np.ndarray, "tasks classes"]:
    """The same posterior, certain of gold."""
    known = gold >= 0
    return np.where(known[:, None], np.eye(posterior.shape[1])[gold], posterior)


def start_em(
    labels: CrowdLabels, gold: Int16[np.ndarray, " tasks"]
) -> tuple[Counts, Float64[np.ndarray, " classes"]]:
    """Expected counts and class mass under the soft majority vote, gold clamped."""
    rows = _rows(labels, gold)
    posterior = clamp(majority_vote(labels).posterior, gold)
    counts = np.zeros(rows.shape)
    _scatter(rows.task_start, rows.place, posterior, counts.reshape(-1))
    return counts, posterior[np.diff(labels.task_start) > 0].sum(axis=0)


def fit_em(
    labels: CrowdLabels,
    gold: Int16[np.ndarray, " tasks"],
    start: tuple[Counts, Float64[np.ndarray, " classes"]],
    m_step: Callable[[Counts], Counts],
    *,
    max_iter: int,
    tol: float,
    threads: int | None,
) -> EMFit:
    """EM from expected counts, until the log-likelihood per label moves by `tol` or less."""
    rows = _rows(labels, gold)
    n_chunks = len(rows.chunk_start) - 1
    threads = min(threads or cpu_count() or 1, n_chunks)
    buffer = np.empty((n_chunks, int(np.prod(rows.shape))))
    counts, mass = start
    log_likelihood, converged, n_iter = -np.inf, False, 0
    with ThreadPoolExecutor(threads) as pool:
        spread = pool.map if threads > 1 else map
        nothing = np.empty((0, labels.n_classes))
        while n_iter < max_iter and not converged:
            prior, table, before = _prior(mass), m_step(counts), log_likelihood
            counts, mass, log_likelihood = _iterate(rows, prior, table, buffer, nothing, spread)
            converged = bool(abs(log_likelihood - before) <= tol * max(labels.n_labels, 1))
            n_iter += 1
        posterior = np.tile(prior, (labels.n_tasks, 1))  # tasks without labels keep the prior
        counts, mass, log_likelihood = _iterate(rows, prior, table, buffer, posterior, spread)
    posterior = clamp(posterior, gold)
    return EMFit(posterior, prior, table, counts, mass, log_likelihood, n_iter, converged)


def _rows(labels: CrowdLabels, gold: Int16[np.ndarray, " tasks"]) -> _Rows:
    """Places and chunks: enough labels in each to pay for counts of its own, eight at most."""
    shape = (labels.n_workers, labels.n_classes, labels.n_classes)
    size = int(np.prod(shape))
    place = (labels.worker.astype(np.int64) * labels.n_classes + labels.label) * labels.n_classes
    n_chunks = int(np.clip(labels.n_labels // max(4 * size, 2**15), 1, 8))
    cut = np.arange(1, n_chunks) * labels.n_labels // n_chunks
    inner = np.searchsorted(labels.task_start, cut)
    chunk_start = np.concatenate([[0], inner, [labels.n_tasks]]).astype(np.int64)
    small = np.int32 if size <= np.iinfo(np.int32).max else np.int64
    return _Rows(gold, labels.task_start, place.astype(small), chunk_start, shape)


def _prior(mass: Float64[np.ndarray, " classes"]) -> Float64[np.ndarray, " classes"]:
    """Mean posterior of the tasks that have labels; uniform if none has."""
    total = mass.sum()
    return mass / total if total else np.full(len(mass), 1.0 / len(mass))


def _iterate(
    rows: _Rows,
    prior: Float64[np.ndarray, " classes"],
    table: Counts,
    buffer: Float64[np.ndarray, "chunks cells"],
    keep: Float64[np.ndarray, "kept classes"],
    spread: Callable[..., Iterable[tuple[Float64[np.ndarray, " classes"], float]]],
) -> tuple[Counts, Float64[np.ndarray, " classes"], float]:
    """One pass: chunks on whatever threads there are, their sums in order."""
    flat = np.ascontiguousarray(table).reshape(-1)
    # so many entries multiply to TINY or more; a prior below that loses no posterior above it
    safe = int(np.log(TINY) / min(np.log(flat.min(initial=1.0)), -1e-3))
    head = tuple(prior.tolist()) if len(prior) <= UNROLLED else prior

    def chunk(number: int) -> tuple[Float64[np.ndarray, " classes"], float]:
        first, last = rows.chunk_start[number : number + 2]
        part = (first, last, rows.task_start, rows.place, rows.gold)
        mass, log_likelihood = _pass(*part, head, flat, safe, buffer[number], keep)
        return mass, float(log_likelihood)

    done = list(spread(chunk, range(len(buffer))))
    counts = buffer[0] if len(buffer) == 1 else buffer.sum(axis=0)
    mass = np.sum([mass for mass, _ in done], axis=0)
    return counts.reshape(rows.shape), mass, sum(part for _, part in done)


@no_type_check  # numba compiles it, so the shape checks of the tests must not wrap it
@njit(cache=True, nogil=True)
def _pass(
    first: int,
    last: int,
    task_start: Int64[np.ndarray, " tasks+1"],
    place: Int[np.ndarray, " labels"],
    gold: Int16[np.ndarray, " tasks"],
    prior: tuple[float, ...] | Float64[np.ndarray, " classes"],
    table: Float64[np.ndarray, " cells"],
    safe: int,
    counts: Float64[np.ndarray, " cells"],
    keep: Float64[np.ndarray, "kept classes"],
) -> tuple[Float64[np.ndarray, " classes"], float]:
    """E-step of some tasks, and their expected counts; returns class mass and log-likelihood.

    A prior that is a tuple makes the number of classes a constant, and the loops unroll.
    """
    n_classes = len(prior)
    belief, mass = np.empty(n_classes), np.zeros(n_classes)
    counts[:] = 0.0
    log_likelihood, evidence = 0.0, 1.0
    for task in range(first, last):
        low, high = task_start[task], task_start[task + 1]
        if low == high:
            continue
        if high - low <= safe:
            for truth in range(n_classes):
                belief[truth] = prior[truth]
            for row in range(low, high):
                at = np.uint64(place[row])  # unsigned: no check for indices from the end
                for truth in range(n_classes):
                    belief[truth] *= table[at + np.uint64(truth)]
        else:
            power = _multiply(place[low:high], gold[task], prior, table, belief)
            log_likelihood += power * np.log(TINY)
        if gold[task] >= 0:
            for truth in range(n_classes):
                if truth != gold[task]:
                    belief[truth] = 0.0
        total = 0.0
        for truth in range(n_classes):
            total += belief[truth]
        if evidence * total < TINY:  # a logarithm for many tasks at once
            log_likelihood += np.log(evidence)
            evidence = 1.0
        evidence *= total
        share = 1.0 / total
        for truth in range(n_classes):
            belief[truth] *= share
            mass[truth] += belief[truth]
        for row in range(low, high):
            at = np.uint64(place[row])
            for truth in range(n_classes):
                counts[at + np.uint64(truth)] += belief[truth]
        if len(keep):
            for truth in range(n_classes):
                keep[task, truth] = belief[truth]
    return mass, log_likelihood + np.log(evidence)


@no_type_check
@njit(cache=True, nogil=True)
def _multiply(
    place: Int[np.ndarray, " rows"],
    gold: int,
    prior: tuple[float, ...] | Float64[np.ndarray, " classes"],
    table: Float64[np.ndarray, " cells"],
    belief: Float64[np.ndarray, " classes"],
) -> float:
    """Prior times many entries, as `belief` times the power of TINY that is returned."""
    n_classes = len(prior)
    power = np.zeros(n_classes)
    least = np.inf
    for truth in range(n_classes):
        product = prior[truth] if gold < 0 or gold == truth else 0.0
        for at in place:
            if product < TINY:
                product *= HUGE
                power[truth] += 1.0
            product *= table[at + truth]
        belief[truth] = product
        if product > 0.0:
            least = min(least, power[truth])
    for truth in range(n_classes):
        belief[truth] *= TINY ** (power[truth] - least) if belief[truth] > 0.0 else 0.0
    return least


@no_type_check
@njit(cache=True, nogil=True)
def _scatter(
    task_start: Int64[np.ndarray, " tasks+1"],
    place: Int[np.ndarray, " labels"],
    posterior: Float64[np.ndarray, "tasks classes"],
    counts: Float64[np.ndarray, " cells"],
) -> None:
    """Add each task's posterior to the counts of its labels."""
    for task in range(len(task_start) - 1):
        for row in range(task_start[task], task_start[task + 1]):
            for truth in range(posterior.shape[1]):
                counts[place[row] + truth] += posterior[task, truth]
