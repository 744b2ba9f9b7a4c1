"""The passes of EM over a table in memory: chunks of tasks on several threads, a kernel for each model.

>>> from quality.labels import encode
>>> labels = encode(["ann", "bob", "cy"], [1, 1, 1], list("aab"))
>>> with passes_over(labels, None, threads=1) as passes:
...     counts, mass = passes.vote()
>>> counts.shape, mass.round(2)
((3, 2, 2), array([0.67, 0.33]))
>>> with passes_over(labels, None, threads=1, coins=1) as passes:  # right and wrong labels
...     counts, mass = passes.vote()
>>> counts[:, :, 0].round(2)
array([[0.67, 0.33],
       [0.67, 0.33],
       [0.33, 0.67]])
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from jaxtyping import Float64, Int, Int16, Int64

from quality.aggregation.passes.coin_pass import coin_pass, coin_vote
from quality.aggregation.passes.confusion_pass import majority_pass, task_pass, wide_pass
from quality.labels import CrowdLabels, LabelError, LabelShard, Sums, tree_total
from quality.parallel import chunk_starts, shared_out

__all__ = [
    "MAX_CELLS", "Counts", "Mass", "TablePasses", "check_cells", "check_gold", "coins_pay", "passes_over",
    "shard_passes",
]  # fmt: skip

MAX_CELLS = 2**27  # of the workers' confusion matrices: 1 GB, of which a fit holds four
UNROLLED = 8  # the pass is compiled for each number of classes up to this one

Counts: TypeAlias = Float64[np.ndarray, "workers answers truths"]
Mass: TypeAlias = Float64[np.ndarray, " classes"]
Share: TypeAlias = Callable[[Callable[[int], Sums]], list[Sums]]


def check_cells(n_workers: int, n_answers: int, n_truths: int) -> None:
    """Raise LabelError unless confusion matrices of so many workers, answers and truths can be held.

    >>> check_cells(2_000, 40, 40)
    """
    cells = n_workers * n_answers * n_truths
    if cells > MAX_CELLS:
        raise LabelError(
            f"confusion matrices must have at most {MAX_CELLS:,} cells in all, got {cells:,} of "
            f"{n_workers:,} workers, {n_answers:,} answers and {n_truths:,} truths; the aggregators of "
            "quality.many_classes need none",
            column="classes",
        )


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
        Of each label's (worker, label, truth 0) in a flat table; of its being right where models have coins.
    chunk_start
        First task of each chunk, and the number of tasks.
    shape
        Of a table: numbers of workers, answers and truths. A table of coins has a worker's chances of being
        right and wrong, in turns, and one column.
    room
        Expected counts of each chunk: memory that every pass uses again.
    share
        Runs work on every chunk number and returns the results in their order.
    n_classes
        Number of classes that a label may be.
    has_coins
        Whether tables are of coins.
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
        rows = start, self.label, self.place, gold
        vote = coin_vote if self.has_coins else majority_pass
        vote(*rows, counts.reshape(-1), mass, np.zeros_like(mass))
        return counts, mass

    def _pass(self, prior: Mass, table: Counts, keep: Float64[np.ndarray, "kept classes"]) -> Sums:
        """One pass over all chunks; `keep` takes the posteriors unless it is empty."""
        flat = np.ascontiguousarray(table).reshape(-1)
        rows = self.task_start, self.place, self.gold
        # a pass is compiled for each length of a tuple
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
    n_truths: int | None = None,
    coins: int | None = None,
) -> Iterator[TablePasses]:
    """Yield the passes over a table in memory; a chunk has labels enough to pay for its counts.

    With `n_truths` a truth is another thing than a class, and there is neither gold nor a vote. With
    `coins`, one or as many as there are classes, a worker errs alike whatever the truth.
    """
    shape = _shape_of(labels, n_truths, coins)
    chunk_start = chunk_starts(labels.task_start, 4 * math.prod(shape))
    with shared_out(threads, len(chunk_start) - 1) as share:
        yield _passes(labels, gold, shape, chunk_start, share, coins)


def coins_pay(n_classes: int) -> bool:
    """Return whether a model in which workers err alike whatever the truth is to have coins.

    >>> coins_pay(3), coins_pay(40)
    (False, True)
    """
    return n_classes > UNROLLED


def shard_passes(
    shard: LabelShard, gold: Int[np.ndarray, " tasks"] | None, *, coins: int | None = None
) -> TablePasses:
    """Return the passes over a shard, all of it as one chunk."""
    shape = _shape_of(shard, None, coins)
    ends = np.array([0, shard.n_tasks], dtype=np.int64)
    return _passes(shard, gold, shape, ends, lambda work: [work(0)], coins)


def _shape_of(
    labels: CrowdLabels | LabelShard, n_truths: int | None, coins: int | None
) -> tuple[int, int, int]:
    """Return the shape of a table, of coins if there are any."""
    shape = labels.n_workers, labels.n_classes, n_truths or labels.n_classes
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
    n_classes, (_, n_answers, n_truths) = labels.n_classes, shape
    if coins is not None:  # a coin's two sides stand where an answer's truths do
        n_answers, n_truths = coins, 2
    small = math.prod(shape) <= np.iinfo(np.int32).max
    place = labels.worker.astype(np.int32 if small else np.int64)
    np.multiply(place, n_answers, out=place)  # in place: at ten million labels a copy counts
    if n_answers == n_classes:
        np.add(place, labels.label, out=place)
    np.multiply(place, n_truths, out=place)
    return TablePasses(
        check_gold(labels, gold, n_classes), labels.task_start, labels.label, place, chunk_start,
        shape, np.empty((len(chunk_start) - 1, *shape)), share, n_classes, coins is not None,
    )  # fmt: skip


def check_gold(
    labels: CrowdLabels | LabelShard, gold: Int[np.ndarray, " tasks"] | None, n_classes: int
) -> Int16[np.ndarray, " tasks"]:
    """Return gold as the pass reads it: one code per task, -1 everywhere where none is given."""
    n_tasks = labels.n_tasks
    if gold is None:
        return np.full(n_tasks, -1, dtype=np.int16)
    if not (gold.dtype.kind in "iu" and gold.shape == (n_tasks,)):
        raise ValueError(
            f"gold must be {n_tasks} class codes, one per task and -1 where unknown, "
            f"got {gold.dtype} of shape {gold.shape}"
        )
    if not ((gold >= -1) & (gold < n_classes)).all():
        raise ValueError(f"gold must be class codes from -1 to {n_classes - 1}")
    return gold.astype(np.int16)
