"""EM for Dawid–Skene and similar models: the one loop, its start, its stop and its E step.

A model of this kind is a table P(label | truth) of every worker. Models differ in their M step alone: the
function that computes the table from the expected counts. :func:`fit_em` is the loop, and :func:`fit_table`
fits a model to a table in memory. A model's own file holds its M step and its result
(:mod:`quality.aggregation.dawid_skene_em`, :mod:`quality.aggregation.hierarchical_em`).

>>> from quality import encode
>>> from quality.labels import bring_near
>>> labels = encode(["ann", "bob", "cy"] * 2, [1, 1, 1, 2, 2, 2], list("aabbba"))
>>> def m_step(counts):
...     return (counts + 0.01) / (counts + 0.01).sum(axis=1, keepdims=True)
>>> fit, posterior = fit_table(bring_near(labels), m_step, "my model", max_iter=50, tol=1e-7)
>>> fit.converged, posterior.round(2)
(True, array([[1., 0.],
       [0., 1.]]))

The E step is one pass over the labels (:mod:`quality.aggregation.passes`). The tasks are cut into chunks,
each with its own counts, which are added up in a tree. So the bytes are the same on any number of threads,
and the same as from equal shards (:mod:`quality.aggregation.sharded_em`).
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np
from jaxtyping import Float64, Int, Int16, Int64, Shaped

from quality.aggregation.consensus import check_cells, check_em, check_posterior
from quality.aggregation.passes import (
    UNROLLED,
    coin_pass,
    coin_vote,
    find_places,
    majority_pass,
    task_pass,
    wide_pass,
)
from quality.labels import (
    CrowdLabels,
    LabelShard,
    NearTable,
    Sums,
    check_gold,
    freeze_arrays,
    lookup,
    tree_total,
)
from quality.parallel import Progress, chunk_starts, shared_out

__all__ = [
    "Begin", "EMFit", "EMStart", "MStep", "Passes", "Share", "SharedPrior", "Stop", "TablePasses",
    "first_counts", "fit_em", "fit_table", "mean_posterior", "near_gold", "passes_over", "reporting",
    "shard_passes", "uniform",
]  # fmt: skip

MIN_BELIEF = 1e-150  # a product of two such numbers still has digits

Counts: TypeAlias = Float64[np.ndarray, "workers answers truths"]
Mass: TypeAlias = Float64[np.ndarray, " classes"]
Share: TypeAlias = Callable[[Callable[[int], Sums]], list[Sums]]
MStep: TypeAlias = Callable[[Counts], Counts]
PriorStep: TypeAlias = Callable[[Mass], Mass]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class EMStart:
    """Initial parameters for EM, by the names of workers and classes, taken from an earlier fit.

    Parameters
    ----------
    workers, classes
        Names, each once.
    prior
        P(truth); zero for an unknown class.
    confusion
        P(label | truth) of each worker, as ``confusion[worker, truth, label]``; zero for unknown entries.

    Raises
    ------
    ValueError
        If a name occurs twice, a shape does not fit the names, or a number is negative, not finite or above
        zero and below 1e-150.

    Notes
    -----
    EM finds a stationary point, and a table of labels may have many: from here it may find another one than
    from the majority vote. If workers have given many labels, or have one reliability each, both starts
    commonly end in the same point, and this one sooner. With few labels for each confusion matrix they
    often do not (``python -m benchmarks.quality.warm_start``).

    **Guarantees.** Workers and classes are matched by name, for any codes. Those that the earlier fit did
    not have start as under the majority vote; those that the new table does not have are left out. A fit
    that starts from itself on the same labels continues with its next iteration; a settled fit commonly
    settles again after two.

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
            sound = (believed == 0) | ((believed >= MIN_BELIEF) & (believed < np.inf))
            if not sound.all():
                raise ValueError(f"{name} must be finite, and zero or at least {MIN_BELIEF}")
        freeze_arrays(self)

    def __repr__(self) -> str:
        return f"EMStart({len(self.workers)} workers, {len(self.classes)} classes)"

    def matched(
        self, workers: Shaped[np.ndarray, " found"], classes: Shaped[np.ndarray, " kinds"]
    ) -> "EMStart":
        """Return the parameters of these workers and classes, in their order; zero for unknown ones."""
        worker, kind = lookup(workers, self.workers), lookup(classes, self.classes)
        here, there = worker >= 0, kind >= 0
        prior, confusion = np.zeros(len(kind)), np.zeros((len(worker), len(kind), len(kind)))
        prior[there] = self.prior[kind[there]]
        old = np.ix_(worker[here], kind[there], kind[there])
        confusion[np.ix_(here, there, there)] = self.confusion[old]
        return EMStart(workers, classes, prior, confusion)

    def replacing(self, prior: Mass, table: Counts) -> tuple[Mass, Counts]:
        """Return the prior and the table with known entries replaced, in the same order."""
        # a class without labels keeps prior 0
        mixed = np.where((prior > 0) & (self.prior > 0), self.prior, prior)
        believed = self.confusion.transpose(0, 2, 1)
        cells = np.where(believed > 0, believed, table)
        return mixed / mixed.sum(), cells / cells.sum(axis=1, keepdims=True)


class SharedPrior(NamedTuple):
    """A Dirichlet prior of each truth's column: its mean (answers x truths), and strength in labels."""

    mean: np.ndarray
    strength: float


@dataclass(frozen=True, slots=True, eq=False)
class EMFit:
    """The end of an EM fit.

    Parameters
    ----------
    prior
        P(truth).
    table
        P(label | truth) of each worker, as ``table[worker, label, truth]``. A model whose workers err alike
        under every truth has ``table[worker, 2 * label, 0]`` if the label is the truth, and next to it the
        entry if it is not; with one number for all labels ``label`` is 0.
    counts, mass
        Expected counts of each worker's labels, shaped like `table`, and of the classes, under both.
    log_likelihood
        Log-likelihood of the labels, and of gold, under `prior` and `table`, in nats.
    n_iter, converged
        Iterations made, and whether the log-likelihood per label had settled to `tol` by then.
    shared
        The prior that workers share for the table's columns; None in a model without one.
    """

    prior: Mass
    table: Counts
    counts: Counts
    mass: Mass
    log_likelihood: float
    n_iter: int
    converged: bool
    shared: SharedPrior | None = None


class Stop(NamedTuple):
    """The objective that EM raises, the iterations made, and whether the objective has settled."""

    objective: float = -np.inf
    n_iter: int = 0
    converged: bool = False

    def after(self, objective: float, tol: float, n_labels: int, *, n_more: int = 1) -> "Stop":
        """Return the stop of EM `n_more` iterations later.

        It has settled if the objective has moved by no more than `tol` per label.
        """
        converged = abs(objective - self.objective) <= tol * max(n_labels, 1)
        return Stop(objective, self.n_iter + n_more, bool(converged))


@runtime_checkable
class Passes(Protocol):
    """The passes over the labels of one table that EM needs, in memory or in shards."""

    def vote(self) -> Sums:
        """Return expected counts and class mass under the soft majority vote, gold clamped."""

    def e_step(self, prior: Mass, table: Counts) -> Sums:
        """Return expected counts, class mass and log-likelihood under a prior and a table."""


Begin: TypeAlias = Callable[[Passes, EMStart], tuple[Counts, Mass]]


def mean_posterior(mass: Mass) -> Mass:
    """Return the mean posterior of the tasks that have labels; uniform if none has."""
    total = mass.sum()
    return mass / total if total else uniform(mass)


def uniform(mass: Mass) -> Mass:
    """Return the same prior for every truth."""
    return np.full(len(mass), 1.0 / len(mass))


def fit_em(
    passes: Passes,
    m_step: MStep,
    counts: Counts,
    mass: Mass,
    *,
    max_iter: int,
    tol: float,
    prior_step: PriorStep = mean_posterior,
    stop: Stop = Stop(),  # noqa: B008  # it is immutable
    after: Callable[[EMFit], object] | None = None,
) -> EMFit:
    """Run EM from expected counts until the log-likelihood per label moves by `tol` or less.

    At least one iteration runs; `after` is called with the fit after each.
    """
    n_labels = round(float(counts.sum()))  # each label counts once over the truths
    while True:
        prior, table = prior_step(mass), m_step(counts)
        counts, mass, found = passes.e_step(prior, table)
        stop = stop.after(float(found[0]), tol, n_labels)
        fit = EMFit(prior, table, counts, mass, *stop)
        if after is not None:
            after(fit)
        if stop.converged or not stop.n_iter < max_iter:
            return fit


def first_counts(passes: Passes, m_step: MStep, start: EMStart | None) -> tuple[Counts, Mass]:
    """Return the expected counts and class mass at the start of EM.

    They are those of the soft majority vote; with a `start`, those of one E step under the start, with the
    vote in place of unknown entries.

    Raises ValueError unless `start` has the workers and classes of the table.
    """
    counts, mass = passes.vote()
    if start is not None:
        if not start.confusion.shape == counts.shape:
            raise ValueError(
                f"start must be of {len(counts)} workers and {counts.shape[1]} classes, got "
                f"{len(start.workers)} and {len(start.classes)}"
            )
        counts, mass, _ = passes.e_step(*start.replacing(mean_posterior(mass), m_step(counts)))
    return counts, mass


def fit_table(
    near: NearTable,
    m_step: MStep,
    what: str,
    *,
    max_iter: int,
    tol: float,
    prior_step: PriorStep = mean_posterior,
    gold: Int[np.ndarray, " tasks"] | None = None,
    start: EMStart | None = None,
    coins: int | None = None,
    begin: Begin | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> tuple[EMFit, Float64[np.ndarray, "tasks classes"]]:
    """Fit a model to a table in memory; return the fit and P(truth | labels) of each task.

    The fit has the workers of the renumbered table; gold and the posterior have the caller's tasks.
    `coins` is as in :func:`passes_over`; a model with coins has `begin`, which returns its first counts if
    there is a start.
    """
    labels = near.labels
    check_em(max_iter, tol, threads)
    check_cells(labels.n_workers, labels.n_classes, labels.n_classes)
    check_posterior(labels)
    known = None if start is None else start.matched(labels.workers, labels.classes)
    true = near_gold(near, gold)
    with passes_over(labels, true, threads, coins=coins) as passes:
        if known is None or coins is None or begin is None:
            first = first_counts(passes, m_step, known)
        else:  # a start holds confusion matrices
            with passes_over(labels, true, threads) as of_matrices:
                first = begin(of_matrices, known)
        fit = fit_em(
            passes, m_step, *first,
            max_iter=max_iter, tol=tol, prior_step=prior_step,
            after=reporting(progress, what, max_iter),
        )  # fmt: skip
        return fit, near.by_task(passes.posterior(fit.prior, fit.table))


def near_gold(
    near: NearTable, gold: Int[np.ndarray, " tasks"] | None
) -> Int16[np.ndarray, " tasks"] | None:
    """Return gold in the order of a renumbered table; raise ValueError unless it is valid."""
    if gold is None:
        return None
    known: np.ndarray = near.task_given(
        check_gold(gold, near.labels.n_tasks, near.labels.n_classes)
    )
    return known


def reporting(progress: Progress | None, what: str, total: int) -> Callable[[EMFit], object] | None:
    """Return the `after` of :func:`fit_em` that calls `progress`; None if there is none."""
    if progress is None:
        return None
    return lambda fit: progress(what, fit.n_iter, total)


@dataclass(frozen=True, slots=True, eq=False)
class TablePasses:
    """The :class:`Passes` over a table in memory, cut into chunks.

    Parameters
    ----------
    gold
        The class code of each task whose truth is known, -1 elsewhere.
    task_start, label
        As those of the table.
    place
        Place of each label's (worker, label, truth 0) in a flat table; of the right label if models have
        coins.
    chunk_start
        First task of each chunk, and the number of tasks.
    shape
        Shape of a table: numbers of workers, answers and truths. A table of coins has a worker's
        probabilities of being right and wrong, in turn, and one column.
    room
        Expected counts of each chunk: memory that every pass uses again.
    share
        Runs work on every chunk number and returns the results in their order.
    n_classes
        Number of classes of a label.
    has_coins
        Whether tables have coins.
    """

    gold: Int16[np.ndarray, " tasks"]
    task_start: Int64[np.ndarray, " tasks+1"]
    label: Int16[np.ndarray, " labels"]
    place: Int[np.ndarray, " labels"]
    chunk_start: Int64[np.ndarray, " cuts"]
    shape: tuple[int, int, int]
    room: Float64[np.ndarray, "chunks workers answers truths"]
    share: Share
    n_classes: int
    has_coins: bool = False

    def vote(self) -> Sums:
        """Return expected counts and class mass under the soft majority vote, gold clamped."""
        return tree_total(map(self._vote_of, range(len(self.chunk_start) - 1)))

    def e_step(self, prior: Mass, table: Counts) -> Sums:
        """Return expected counts, class mass and log-likelihood under a prior and a table."""
        return self._pass(prior, table, np.empty((0, len(prior))))

    def posterior(self, prior: Mass, table: Counts) -> Float64[np.ndarray, "tasks classes"]:
        """Return P(truth | labels) under a prior and a table; the prior for tasks without labels."""
        posterior = np.empty((len(self.gold), len(prior)))
        posterior[:] = prior
        self._pass(prior, table, posterior)
        known = np.flatnonzero(self.gold >= 0)
        posterior[known] = 0.0
        posterior[known, self.gold[known]] = 1.0
        return posterior

    def _vote_of(self, chunk: int) -> Sums:
        counts, mass = np.zeros(self.shape), np.zeros(self.n_classes)
        first, last = self.chunk_start[chunk : chunk + 2]
        start, gold = self.task_start[first : last + 1], self.gold[first:last]
        vote, room = coin_vote if self.has_coins else majority_pass, np.zeros_like(mass)
        vote(start, self.label, self.place, gold, counts.reshape(-1), mass, room)
        return counts, mass

    def _pass(self, prior: Mass, table: Counts, keep: Float64[np.ndarray, "kept classes"]) -> Sums:
        """Make one pass over all chunks; `keep` takes the posteriors unless it is empty."""
        flat = np.ascontiguousarray(table).reshape(-1)
        rows = self.task_start, self.place, self.gold
        few = len(prior) == self.shape[1] <= UNROLLED

        def sums_of(chunk: int) -> Sums:
            first, last = self.chunk_start[chunk : chunk + 2]
            counts, work = self.room[chunk], np.zeros((6 if self.has_coins else 3, len(prior)))
            counts.fill(0.0)
            room = counts.reshape(-1), keep
            if self.has_coins:
                given = self.task_start, self.place, self.label, self.gold
                found = coin_pass(first, last, *given, prior, flat, *room, work[0], work[1:])
            elif few:
                found = task_pass(first, last, *rows, tuple(prior.tolist()), flat, *room, *work)
            else:
                found = wide_pass(first, last, *rows, prior, flat, *room, *work)
            return counts, work[0], np.array([found])

        return tree_total(self.share(sums_of))


@contextmanager
def passes_over(
    labels: CrowdLabels,
    gold: Int[np.ndarray, " tasks"] | None,
    threads: int | None,
    *,
    coins: int | None = None,
) -> Iterator[TablePasses]:
    """Yield the passes over a table in memory; a chunk has enough labels to be worth its own counts.

    With `coins`, one or as many as there are classes, a worker errs alike under every truth.
    """
    shape = _shape_of(labels, coins)
    chunk_start = chunk_starts(labels.task_start, 4 * math.prod(shape))
    with shared_out(threads, len(chunk_start) - 1) as share:
        yield _passes(labels, gold, shape, chunk_start, share, coins)


def shard_passes(
    shard: LabelShard, gold: Int[np.ndarray, " tasks"] | None, *, coins: int | None = None
) -> TablePasses:
    """Return the passes over a shard as one chunk."""
    shape, ends = _shape_of(shard, coins), np.array([0, shard.n_tasks], dtype=np.int64)
    return _passes(shard, gold, shape, ends, lambda work: [work(0)], coins)


def _shape_of(labels: CrowdLabels | LabelShard, coins: int | None) -> tuple[int, int, int]:
    """Return the shape of a table, of coins if the model has them."""
    shape = labels.n_workers, labels.n_classes, labels.n_classes
    if coins is not None:
        shape = labels.n_workers, 2 * coins, 1
    check_cells(*shape)
    return shape


def _passes(
    labels: CrowdLabels | LabelShard,
    gold: Int[np.ndarray, " tasks"] | None,
    shape: tuple[int, int, int],
    chunk_start: Int64[np.ndarray, " cuts"],
    share: Share,
    coins: int | None,
) -> TablePasses:
    n_classes = labels.n_classes
    # a coin's two sides take the place of an answer's truths
    n_answers, n_truths = shape[1:] if coins is None else (coins, 2)
    small = math.prod(shape) <= np.iinfo(np.int32).max
    place = np.empty(labels.n_labels, dtype=np.int32 if small else np.int64)
    find_places(labels.worker, labels.label, n_answers, n_truths, n_answers == n_classes, place)
    return TablePasses(
        check_gold(gold, labels.n_tasks, n_classes), labels.task_start, labels.label, place, chunk_start,
        shape, np.empty((len(chunk_start) - 1, *shape)), share, n_classes, coins is not None,
    )  # fmt: skip
