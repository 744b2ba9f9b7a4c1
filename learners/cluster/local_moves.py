"""Partitions of least empirical risk, found by moving points between cells.

>>> line = np.array([[0.0], [1.0], [9.0], [10.0]])
>>> learn_partition(line, 2, rng=np.random.default_rng(0)).labels
array([0, 0, 1, 1])
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from jaxtyping import Float, Int

from learners.cluster.dissimilarities import (
    MAX_COMPLETE,
    MatrixSums,
    Metric,
    RowSums,
    between,
    cell_sums,
)
from learners.cluster.risk import Objective

__all__ = ["Partition", "learn_partition", "refine_partition"]

MAX_SWEEPS = 100
SAMPLE = 10_000  # rows on which starts compete where there are more than twice as many
FEW = 1e-4  # share of the rows: in many rows, a sweep with fewer moves is the last
BLOCKS = 2  # at least in a sweep; sums are updated after each
BLOCK_ROWS = 2048  # at most in a block, so that it stays in the cache
_LEAST_GAIN = 1e-10  # as a share of the sum: below that a move is rounding


@dataclass(frozen=True, slots=True, eq=False)
class Partition:
    """A partition that was learned, and its rule for other points.

    Parameters
    ----------
    labels
        Cell of each point, codes from 0 in the order in which cells first occur.
    objective
        The empirical risk that was minimised, per pair of points ("pairwise") or per point.
    n_sweeps
        Passes over the points, of the best start.
    converged
        True if no point moved in the last sweep; of many rows, fewer than one in 10,000.
    """

    labels: Int[np.ndarray, " points"]
    objective: float
    n_sweeps: int
    converged: bool
    cells: RowSums | MatrixSums
    references: Float[np.ndarray, "references columns"]
    centre: Float[np.ndarray, " features"]
    metric: Metric
    kind: Objective

    def assign(self, x: Float[np.ndarray, "rows columns"]) -> Int[np.ndarray, " rows"]:
        """Return the cell of least dissimilarity: the total ("pairwise"), or the mean less half the cell's.

        For squared Euclidean distances the second is the cell of the nearest mean. With a precomputed metric
        the columns are the training points.
        """
        found = np.empty(len(x), dtype=np.intp)
        for rows in _blocks(len(x), 1):
            found[rows] = np.argmin(self.costs(x[rows]), axis=1)
        return found

    def costs(self, x: Float[np.ndarray, "rows columns"]) -> Float[np.ndarray, "rows cells"]:
        """Return the cost of each cell for each row, infinite for an empty one; `assign` takes the least."""
        if isinstance(self.cells, RowSums):
            sums = self.cells.sums_to(x - self.centre)
        else:
            given = self.metric == "precomputed"
            found = x if given else between(x, self.references, self.metric)
            sums = found @ np.eye(len(self.cells.size))[self.cells.labels]
        if self.kind == "pairwise":
            costs = sums
        else:
            size = np.maximum(self.cells.size, 1)
            costs = sums / size - self.cells.within() / size**2
        return np.asarray(np.where(self.cells.size > 0, costs, np.inf))


def learn_partition(
    x: Float[np.ndarray, "points columns"],
    n_cells: int,
    *,
    metric: Metric = "sqeuclidean",
    objective: Objective = "normalized",
    n_init: int = 8,
    rng: np.random.Generator,
) -> Partition:
    """Minimise the empirical risk of `clustering_risk` over partitions, by local moves from several starts.

    Notes
    -----
    A sweep offers points, a block at a time, their best other cell. The joint effect of a block's moves is
    computed exactly, and their number is halved until they lower the risk. One move alone always
    does, so the risk falls with every accepted block and the search ends. Starts are seeded as in
    k-means++. Of more than 20,000 rows, starts compete on 10,000 drawn from them; the best then
    assigns all rows and sweeps go over them until fewer than one in 10,000 moves. For a function of rows
    and more than 5000 of them, 5000 drawn rows are partitioned and the others are assigned by the
    rule.

    **Guarantees.** The same generator gives the same partition; the risk is no higher than that of any of
    the starts; where it converged on at most 20,000 points, no move of one point lowers it. Cells may be
    empty.
    """
    if callable(metric) and len(x) > MAX_COMPLETE:
        drawn = np.sort(rng.choice(len(x), MAX_COMPLETE, replace=False))
        learned = _competed(x[drawn], n_cells, metric, objective, n_init, rng)
        return _of(learned.assign(x), learned)
    if metric == "sqeuclidean" and len(x) > 2 * SAMPLE:
        drawn = np.sort(rng.choice(len(x), SAMPLE, replace=False))
        start = _competed(x[drawn], n_cells, metric, objective, n_init, rng)
        return refine_partition(start, x)
    return _competed(x, n_cells, metric, objective, n_init, rng)


def refine_partition(start: Partition, x: Float[np.ndarray, "points columns"]) -> Partition:
    """Assign rows by a rule of squared Euclidean distances, and move them until few moves are left."""
    labels = start.assign(x)
    return _swept(x, labels, len(start.cells.size), start.metric, start.kind)


def _competed(
    x: Float[np.ndarray, "points columns"], n_cells: int, metric: Metric, objective: Objective,
    n_init: int, rng: np.random.Generator,
) -> Partition:  # fmt: skip
    """Return the best of several starts, ties to the earlier."""
    matrix = between(x, x, metric) if callable(metric) else x
    known: Metric = "precomputed" if callable(metric) else metric
    best: Partition | None = None
    for _ in range(n_init if n_cells > 1 else 1):
        labels = _seeded(matrix, n_cells, known, rng)
        found = _swept(matrix, labels, n_cells, known, objective)
        if best is None or found.objective < best.objective:
            best = found
    if best is None:
        raise ValueError(f"n_init must be >= 1, got n_init={n_init}")
    return Partition(
        best.labels, best.objective, best.n_sweeps, best.converged, best.cells,
        x if callable(metric) else best.references, best.centre, metric, objective,
    )  # fmt: skip


def _of(labels: Int[np.ndarray, " points"], learned: Partition) -> Partition:
    """Return the same rule, with the labels that it gives to more points."""
    return Partition(
        labels, learned.objective, learned.n_sweeps, learned.converged, learned.cells,
        learned.references, learned.centre, learned.metric, learned.kind,
    )  # fmt: skip


def _seeded(
    x: Float[np.ndarray, "points columns"], n_cells: int, metric: Metric, rng: np.random.Generator
) -> Int[np.ndarray, " points"]:
    """Return the nearest seed of each point; seeds are drawn in proportion to distance from earlier ones."""

    def column(i: int) -> Float[np.ndarray, " points"]:
        return np.array(x[:, i] if metric == "precomputed" else np.square(x - x[i]).sum(axis=1))

    seeds = [column(int(rng.integers(len(x))))]
    nearest = seeds[0].copy()
    for _ in range(n_cells - 1):
        total = np.cumsum(nearest)
        chosen = int(np.searchsorted(total, rng.random() * total[-1], side="right"))
        seeds.append(column(min(chosen, len(x) - 1)))
        np.minimum(nearest, seeds[-1], out=nearest)
    return np.asarray(np.argmin(np.stack(seeds, axis=1), axis=1))


def _swept(
    x: Float[np.ndarray, "points columns"], labels: Int[np.ndarray, " points"], n_cells: int,
    metric: Metric, objective: Objective,
) -> Partition:  # fmt: skip
    """Move points from one start until no move lowers the objective."""
    centre = x.mean(axis=0) if metric == "sqeuclidean" else np.zeros(x.shape[1])
    cells = cell_sums(x - centre if metric == "sqeuclidean" else x, labels, n_cells, metric)
    sweeps, moved = _move_points(cells, objective)
    n = len(x)
    scale = max(n * (n - 1) / 2, 1) if objective == "pairwise" else n
    _renumber(cells)
    return Partition(
        cells.labels, _objective(cells, objective) / scale, sweeps,
        moved == 0 or (n > 2 * SAMPLE and moved < FEW * n), cells,
        np.zeros((0, x.shape[1])), centre, metric, objective,
    )  # fmt: skip


def _move_points(cells: RowSums | MatrixSums, objective: Objective) -> tuple[int, int]:
    """Move points until no move lowers the objective; return the sweeps, and the moves of the last."""
    n, sweep, moved = len(cells.labels), 0, 0
    enough = FEW * n if n > 2 * SAMPLE else 1
    now = _objective(cells, objective)
    while sweep < MAX_SWEEPS:
        sweep, moved = sweep + 1, 0
        for rows in _blocks(n, BLOCKS):
            wanting, to = _wanted(cells, rows, objective, now)
            while len(wanting):
                kept, now = _moved(cells, wanting, to, objective, now)
                moved += kept
                if kept == len(wanting):
                    break
                # moves of the rest of the block are computed anew, from the present sums
                rest = np.arange(wanting[kept - 1] + 1 if kept else wanting[0] + 1, rows.stop)
                wanting, to = _wanted(cells, rest, objective, now)
        if moved < enough:
            break
    return sweep, moved


def _blocks(n: int, n_blocks: int) -> Iterator[slice]:
    """Cut rows into blocks of about equal size, at least `n_blocks` where there are as many rows."""
    cuts = np.linspace(0, n, min(max(n_blocks, -(-n // BLOCK_ROWS)), n) + 1).astype(int)
    return (slice(int(a), int(b)) for a, b in pairwise(cuts))


def _wanted(
    cells: RowSums | MatrixSums, rows: slice | Int[np.ndarray, " rows"], objective: Objective,
    now: float,
) -> tuple[Int[np.ndarray, " movers"], Int[np.ndarray, " movers"]]:  # fmt: skip
    """Return the rows whose move, alone, lowers the objective, and their new cells."""
    index = np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows
    sums = cells.sums(rows)
    here, places = cells.labels[index], np.arange(len(index))
    if objective == "normalized":
        size, within = cells.size, cells.within()
        mean = within / np.maximum(size, 1)
        alone = size[here] - 1
        leave = mean[here] - np.where(
            alone > 0, (within[here] - sums[places, here]) / np.maximum(alone, 1), 0.0
        )
        sums += within
        sums /= size + 1
        sums -= mean
    else:
        leave = sums[places, here]
    sums[places, here] = np.inf
    to = np.argmin(sums, axis=1)
    gain = leave - sums[places, to]
    wanting = gain > _LEAST_GAIN * max(now, np.finfo(float).tiny)
    return index[wanting], to[wanting]


def _moved(
    cells: RowSums | MatrixSums, rows: Int[np.ndarray, " movers"], to: Int[np.ndarray, " movers"],
    objective: Objective, now: float,
) -> tuple[int, float]:  # fmt: skip
    """Move the first 1, 1/2, 1/4, ... of the rows, whichever first lowers the objective; return how many."""
    n_moved = len(rows)
    while n_moved:
        before = cells.labels[rows[:n_moved]]
        cells.move(rows[:n_moved], to[:n_moved])
        after = _objective(cells, objective)
        if after < now:
            return n_moved, after
        cells.move(rows[:n_moved], before)
        n_moved //= 2
    return 0, now


def _objective(cells: RowSums | MatrixSums, objective: Objective) -> float:
    """Return the sum over the pairs of each cell, divided by its size if normalized."""
    within = cells.within()
    return float((within if objective == "pairwise" else within / np.maximum(cells.size, 1)).sum())


def _renumber(cells: RowSums | MatrixSums) -> None:
    """Number the cells in the order in which they first occur, empty ones last."""
    first = [
        int(np.argmax(cells.labels == k)) if size > 0.5 else len(cells.labels)
        for k, size in enumerate(cells.size)
    ]
    order = np.argsort(first, kind="stable")
    number = np.argsort(order)
    cells.labels, cells.size = number[cells.labels], cells.size[order]
    if isinstance(cells, RowSums):
        cells.square, cells.total = cells.square[order], cells.total[order]
    else:
        cells.found = cells.found[:, order]
