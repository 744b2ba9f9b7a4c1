"""The EM that Dawid–Skene and its kind share, but for the M-step.

A model of this kind is a table P(answer | truth) of every worker, and differs from the others in
how it makes that table of the expected counts: its M-step. The rest is the same for all, and one
pass over the labels per iteration (:mod:`quality.aggregation.em_pass`). The tasks are cut into chunks, each
with counts of its own, added up in a tree: the same bytes on any number of threads, and the same
as of as many shards (:mod:`quality.aggregation.sharded_em`), which are chunks that lie elsewhere.

Where EM may start instead of the majority vote: at what an earlier fit believed, by name.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from jaxtyping import Float64, Int, Int16, Int64, Shaped

from quality.aggregation.em_pass import LEAST_ENTRY, majority_pass, safe_factors, task_pass
from quality.labels import CrowdLabels, LabelShard, Sums, freeze_arrays, lookup, tree_total
from quality.parallel import check_threads, chunk_starts, shared_out

__all__ = [
    "EMFit",
    "EMRows",
    "EMStart",
    "begin_em",
    "believe",
    "believe_under",
    "check_em",
    "check_smoothing",
    "climb",
    "em_rows",
    "fit_em",
    "go_on_from",
    "pass_chunk",
    "start_at",
    "start_between",
    "start_chunk",
    "start_em",
]

LEAST_BELIEF = 1e-150  # what a product of two still has digits for


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class EMStart:
    """What a fit of an earlier table believed of workers and classes, for EM to go on from.

    Parameters
    ----------
    workers, classes
        Names, each once.
    prior
        P(truth); zero where nothing is known of a class.
    confusion
        P(answer | truth) of each worker, as ``confusion[worker, truth, answer]``; zero where
        nothing is known.

    Raises
    ------
    ValueError
        If a name stands twice, a shape does not fit the names, or a number is negative, not finite
        or above zero and below 1e-150.

    Notes
    -----
    EM finds a stationary point, and a table of labels may have many: from here it may find another
    than from the majority vote. Where workers have given many labels, or each has one reliability
    alone, both starts commonly end in the same one, and this one sooner; with few labels for each
    confusion matrix they often do not (``python -m benchmarks.quality.warm_start``).

    **Guarantees.** Workers and classes are matched by name, whatever their codes. Who or what is
    new to it starts as under the majority vote, and what has gone is forgotten. A fit that had
    settled, and starts from itself on the same labels, has settled again after two iterations.

    Examples
    --------
    >>> from quality import dawid_skene, encode
    >>> workers, tasks = ["ann", "bob", "cy"] * 4, [1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4]
    >>> labels = encode(workers, tasks, list("aabbbbaabbbb"))
    >>> fit = dawid_skene(labels)
    >>> start = EMStart(labels.workers, labels.classes, fit.prior, fit.confusion)
    >>> fit.n_iter, dawid_skene(labels, start=start).n_iter
    (7, 2)
    """

    workers: Shaped[np.ndarray, " workers"]
    classes: Shaped[np.ndarray, " classes"]
    prior: Float64[np.ndarray, " classes"]
    confusion: Float64[np.ndarray, "workers classes classes"]

    def __post_init__(self) -> None:
        shape = (len(self.workers), len(self.classes), len(self.classes))
        if not (self.prior.shape == shape[1:2] and self.confusion.shape == shape):
            raise ValueError(
                f"prior and confusion must have shapes {shape[1:2]} and {shape}, got "
                f"{self.prior.shape} and {self.confusion.shape}"
            )
        for name, names in (("workers", self.workers), ("classes", self.classes)):
            if not len(set(names.tolist())) == len(names):
                raise ValueError(f"{name} must all differ")
        for name, believed in (("prior", self.prior), ("confusion", self.confusion)):
            sound = (believed == 0) | ((believed >= LEAST_BELIEF) & (believed < np.inf))
            if not sound.all():
                raise ValueError(f"{name} must be finite, and zero or at least {LEAST_BELIEF}")
        freeze_arrays(self)

    def __repr__(self) -> str:
        return f"EMStart({len(self.workers)} workers, {len(self.classes)} classes)"

    def matched(
        self, workers: Shaped[np.ndarray, " found"], classes: Shaped[np.ndarray, " kinds"]
    ) -> "EMStart":
        """Return what is known of these workers and classes, in their order; zero of others."""
        worker, kind = lookup(workers, self.workers), lookup(classes, self.classes)
        here, there = worker >= 0, kind >= 0
        prior, confusion = np.zeros(len(kind)), np.zeros((len(worker), len(kind), len(kind)))
        prior[there] = self.prior[kind[there]]
        old = np.ix_(worker[here], kind[there], kind[there])
        confusion[np.ix_(here, there, there)] = self.confusion[old]
        return EMStart(workers, classes, prior, confusion)


def start_between(
    known: EMStart,
    prior: Float64[np.ndarray, " classes"],
    table: Float64[np.ndarray, "workers answers truths"],
) -> tuple[Float64[np.ndarray, " classes"], Float64[np.ndarray, "workers answers truths"]]:
    """Put what is known, in the same order, in the place of a prior and a table."""
    # a class that nobody names now has none of the prior, and keeps none
    mixed = np.where((prior > 0) & (known.prior > 0), known.prior, prior)
    believed = known.confusion.transpose(0, 2, 1)
    cells = np.where(believed > 0, believed, table)
    return mixed / mixed.sum(), cells / cells.sum(axis=1, keepdims=True)


UNROLLED = 8  # up to so many classes the pass is compiled for that very number

Counts: TypeAlias = Float64[np.ndarray, "workers answers truths"]
Mass: TypeAlias = Float64[np.ndarray, " classes"]
SharedOut: TypeAlias = Callable[[Callable[[int], Sums]], list[Sums]]


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


def em_rows(
    labels: CrowdLabels | LabelShard,
    gold: Int[np.ndarray, " tasks"] | None,
    *,
    whole: bool = False,
) -> EMRows:
    """Labels and gold as the pass wants them; a chunk has labels enough to pay for its counts.

    With `whole` all of them are one chunk.
    """
    known = _check_gold(labels, gold)
    n_classes = labels.n_classes
    size = labels.n_workers * n_classes**2
    place = labels.worker.astype(np.int32 if size <= np.iinfo(np.int32).max else np.int64)
    np.multiply(place, n_classes, out=place)  # in place: at ten million labels a copy counts
    np.add(place, labels.label, out=place)
    np.multiply(place, n_classes, out=place)
    ends = np.array([0, labels.n_tasks], dtype=np.int64)
    chunk_start = ends if whole else chunk_starts(labels.task_start, 4 * size)
    shape = (labels.n_workers, n_classes, n_classes)
    return EMRows(known, labels.task_start, labels.label, place, chunk_start, shape)


def _check_gold(
    labels: CrowdLabels | LabelShard, gold: Int[np.ndarray, " tasks"] | None
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
    counts, mass = tree_total(
        start_chunk(rows, chunk) for chunk in range(len(rows.chunk_start) - 1)
    )
    return counts, mass


def start_chunk(rows: EMRows, chunk: int) -> Sums:
    """What one chunk adds to :func:`start_em`."""
    counts, mass = np.zeros(rows.shape), np.zeros(rows.shape[1])
    first, last = rows.chunk_start[chunk : chunk + 2]
    start, gold = rows.task_start[first : last + 1], rows.gold[first:last]
    majority_pass(start, rows.label, rows.place, gold, counts.reshape(-1), mass)
    return counts, mass


def start_at(
    rows: EMRows,
    labels: CrowdLabels,
    known: EMStart | None,
    m_step: Callable[[Counts], Counts],
    threads: int | None,
) -> tuple[Counts, Mass]:
    """As :func:`start_em`, or :func:`go_on_from` where something is known."""
    if known is None:
        return start_em(rows)
    n_chunks = len(rows.chunk_start) - 1
    buffer, nothing = np.empty((n_chunks, int(np.prod(rows.shape)))), np.empty((0, rows.shape[1]))
    matched = known.matched(labels.workers, labels.classes)
    with shared_out(threads, n_chunks) as shared:
        return go_on_from(
            matched, start_em(rows), m_step,
            lambda prior, table: _iterate(rows, prior, table, buffer, nothing, shared),
        )  # fmt: skip


def go_on_from(
    known: EMStart,
    start: tuple[Counts, Mass],
    m_step: Callable[[Counts], Counts],
    iterate: Callable[[Mass, Counts], Sums],
) -> tuple[Counts, Mass]:
    """Expected counts and class mass under what is known, and under the start where nothing is."""
    counts, mass = start
    counts, mass, _ = iterate(*start_between(known, _prior(mass), m_step(counts)))
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
    with shared_out(threads, n_chunks) as shared:
        return climb(
            begin_em(*start, m_step),
            lambda prior, table: _iterate(rows, prior, table, buffer, nothing, shared),
            m_step,
            n_labels=len(rows.label), max_iter=max_iter, tol=tol,
            after=lambda fit: tell(fit.n_iter),
        )  # fmt: skip


def begin_em(counts: Counts, mass: Mass, m_step: Callable[[Counts], Counts]) -> EMFit:
    """EM before its first iteration."""
    return EMFit(_prior(mass), m_step(counts), counts, mass, -np.inf, 0, False)


def climb(
    fit: EMFit,
    iterate: Callable[[Mass, Counts], Sums],
    m_step: Callable[[Counts], Counts],
    *,
    n_labels: int,
    max_iter: int,
    tol: float,
    after: Callable[[EMFit], object],
) -> EMFit:
    """The iterations of EM, from wherever a fit stands; one that has converged is returned."""
    while fit.n_iter < max_iter and not fit.converged:
        prior, table = _prior(fit.mass), m_step(fit.counts)
        counts, mass, found = iterate(prior, table)
        log_likelihood = float(found[0])
        converged = abs(log_likelihood - fit.log_likelihood) <= tol * max(n_labels, 1)
        fit = EMFit(prior, table, counts, mass, log_likelihood, fit.n_iter + 1, converged)
        after(fit)
    return fit


def believe(rows: EMRows, fit: EMFit, threads: int | None) -> Float64[np.ndarray, "tasks classes"]:
    """P(truth | labels) under the prior and the table of a fit."""
    return believe_under(rows, fit.prior, fit.table, threads)


def believe_under(
    rows: EMRows, prior: Mass, table: Counts, threads: int | None
) -> Float64[np.ndarray, "tasks classes"]:
    """P(truth | labels) under a prior and a table: one more pass, which keeps it."""
    n_chunks = len(rows.chunk_start) - 1
    posterior = np.empty((len(rows.gold), rows.shape[1]))
    posterior[:] = prior  # tasks without labels keep it
    buffer = np.empty((n_chunks, int(np.prod(rows.shape))))
    with shared_out(threads, n_chunks) as shared:
        _iterate(rows, prior, table, buffer, posterior, shared)
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
) -> Sums:
    """One pass: chunks on whatever threads there are, their sums in order."""
    flat = np.ascontiguousarray(table).reshape(-1)
    total = tree_total(
        shared(lambda chunk: pass_chunk(rows, chunk, prior, flat, buffer[chunk], keep))
    )
    return total[0].reshape(rows.shape), *total[1:]


def pass_chunk(
    rows: EMRows,
    chunk: int,
    prior: Mass,
    flat: Float64[np.ndarray, " cells"],
    counts: Float64[np.ndarray, " cells"],
    keep: Float64[np.ndarray, "kept classes"],
) -> Sums:
    """What one chunk adds to an iteration: expected counts, class mass, log-likelihood."""
    first, last = rows.chunk_start[chunk : chunk + 2]
    few = len(prior) <= UNROLLED
    head = tuple(prior.tolist()) if few else prior  # a tuple's length is known when compiled
    belief = head if few else np.empty_like(prior)
    part = (first, last, rows.task_start, rows.place, rows.gold, head, belief, flat)
    safe = safe_factors(float(flat.min(initial=1.0)))
    mass, log_likelihood = task_pass(*part, safe, counts, keep)
    return counts, mass, np.array([log_likelihood])
