"""Pairs of workers who agree more often than their skills explain.

Every worker has one skill. Two workers who answer on their own agree beyond chance by the product
of their skills: a rank-one table, of which only pairs that share tasks are known. The skills are
fitted to all pairs but those that stand out, again and again, so that a clique does not teach the
fit what is normal.

>>> from quality import LocalEngine, cut_labels, encode
>>> labels = encode(["ann", "bob", "cy"] * 9, np.repeat(np.arange(9), 3), list("xxy" * 6 + "yyx" * 3))
>>> fit = fit_pairs(LocalEngine(cut_labels(labels, [0, 9])))
>>> fit.pair[fit.n_agreed == 9], fit.n_common.max()
(array([[0, 1]], dtype=int32), np.int64(9))

Of a handful of workers the same table tells who is liker a reference than her colleagues are, who are
like it and like her: a tetrad, (worker, reference) (colleague, colleague) = (worker, colleague)
(colleague, reference), from which her skill cancels, and so does what everybody knows. A lone paster of
one model answers as another does, since models err alike, and leaves the tetrad.

>>> rng = np.random.default_rng(0)
>>> truth = rng.integers(3, size=300)
>>> def draw(mind, share):
...     return np.where(rng.random(300) < share, mind, rng.integers(3, size=300))
>>> mistaken = draw(truth, 0.6)
>>> table = np.stack([draw(mistaken, 0.9), draw(truth, 0.8), draw(truth, 0.8)])
>>> likeness(table, draw(mistaken, 0.8), n_classes=3).evidence.round(1)
array([63.1, -3.5, -3.1])
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Float64, Int, Int32, Int64

from quality.labels import Engine, LabelShard, freeze_arrays
from quality.parallel import kernel

__all__ = ["MIN_COMMON", "Likeness", "PairFit", "fit_pairs", "given_shares", "likeness"]

MIN_COMMON = 8  # tasks that two workers share, so that their agreement is judged
STANDS_OUT = 2.5  # standard errors beyond which a pair is left out of the fit
ROUNDS = 8  # of leaving out and fitting again, at most
STEPS = 40  # of one fit, at most
SETTLED = 1e-4  # largest change of a skill at which a fit stops
MISFIT = 0.25  # standard deviation of agreement about the fit that weights allow for
RIDGE = 4.0  # pairs that the crowd's mean skill counts for in each worker's own
EDGE = 0.02  # expected agreement is kept within [EDGE, 1 - EDGE]
MAX_PAIRS = 2_000_000  # in the fit; beyond that, of pairs who share few tasks every n-th
MAX_MEETINGS = 200_000_000  # pairs of labels on one task; beyond that every n-th task is read
BLOCK = 8_000_000  # meetings that one sparse product holds
MAX_COLUMNS = 2**24  # of a table of workers by answers
AGREED = 2**32  # unit of agreed tasks in a number whose rest is the common tasks
SPREAD = 0.25  # of honest people's likeness to a reference, as a share of what is expected
LEAST = 0.02  # agreement of colleagues beyond chance, in a denominator
UNIT = 4.0  # labels of variance one, added to a worker's own


@dataclass(frozen=True, slots=True, eq=False)
class PairFit:
    """The pairs who share tasks, and what is expected of each.

    Parameters
    ----------
    pair
        The two worker codes, the lower first.
    n_common, n_agreed
        Tasks that both labelled, and those on which they agree.
    expected
        Probability to agree on a task, if both answer on their own.
    chance
        Probability to agree, if their answers had nothing to do with the tasks.
    z
        Excess of their agreement in standard errors; 0 for pairs who share too few tasks.
    skill
        Of each worker.
    shares
        Share of each worker's labels that each class has.
    """

    pair: Int32[np.ndarray, "pairs 2"]
    n_common: Int64[np.ndarray, " pairs"]
    n_agreed: Int64[np.ndarray, " pairs"]
    expected: Float64[np.ndarray, " pairs"]
    chance: Float64[np.ndarray, " pairs"]
    z: Float64[np.ndarray, " pairs"]
    skill: Float64[np.ndarray, " workers"]
    shares: sp.csr_matrix

    def __post_init__(self) -> None:
        freeze_arrays(self)

    @classmethod
    def of_nobody(cls, n_workers: int) -> "PairFit":
        """Return the fit to a crowd of so many of whom no two meet."""
        none, counts = np.zeros(0), np.zeros(0, dtype=np.int64)
        pair, shares = np.zeros((0, 2), dtype=np.int32), sp.csr_matrix((n_workers, 1))
        return cls(pair, counts, counts, none, none, none, np.zeros(n_workers), shares)

    @property
    def judged(self) -> np.ndarray:
        """True for the pairs who share enough tasks."""
        return self.n_common >= MIN_COMMON


def fit_pairs(engine: Engine, together: Int[np.ndarray, " known"] | None = None) -> PairFit:
    """Count the agreement of every pair over the shards and fit the skills to it.

    Pairs of two workers of `together` are left out of the fit from the beginning.
    """
    n_meetings = sum(engine.map(_meetings, None))
    every = -(-n_meetings // MAX_MEETINGS) or 1
    first, second, n_common, n_agreed = _pairs_of(_sum_of(list(engine.map(_pair_sums, every))))
    shares = given_shares(engine)
    chance = _products(shares, first, second)
    pair = np.column_stack([first, second]).astype(np.int32)
    excess = n_agreed / np.maximum(n_common, 1) - chance
    judged = n_common >= MIN_COMMON
    known = np.zeros(0, dtype=np.int64) if together is None else together
    apart = np.logical_not(np.isin(pair, known).all(axis=1))
    kept = apart
    rows, n_workers = (first, second, n_common, excess), shares.shape[0]
    skill = _fit_skill(*rows, kept, n_workers, None)
    for number in range(ROUNDS):
        if number:
            skill = _fit_skill(*rows, kept, n_workers, skill)
        expected = np.clip(chance + skill[first] * skill[second], EDGE, 1.0 - EDGE)
        z = _standardised(n_common, n_agreed, expected, judged)
        before, kept = kept, apart & ~(z > STANDS_OUT)
        if number and np.array_equal(before, kept):
            break
    return PairFit(pair, n_common, n_agreed, expected, chance, z, skill, shares)


def given_shares(engine: Engine) -> sp.csr_matrix:
    """Return the share of each worker's labels that each class has."""
    counts = _sum_of(list(engine.map(_given, None)))
    n_labels = np.asarray(counts.sum(axis=1)).ravel()
    return sp.csr_matrix(sp.diags(1.0 / np.maximum(n_labels, 1)) @ counts)


def _sum_of(parts: list[sp.csr_matrix]) -> sp.csr_matrix:
    """Return the sum of matrices of integers, each of which is let go of when it is added."""
    while len(parts) > 1:
        parts.append(parts.pop(0) + parts.pop(0))
    return parts[0]


def _meetings(shard: LabelShard, _: object) -> int:
    """Return the number of pairs of labels on one task."""
    n_labels = np.diff(shard.task_start)
    return int((n_labels * (n_labels - 1) // 2).sum())


def _given(shard: LabelShard, _: object) -> sp.csr_matrix:
    """Return how often each worker gave each class."""
    ones, shape = np.ones(shard.n_labels), (shard.n_workers, shard.n_classes)
    return sp.csr_matrix((ones, (shard.worker, shard.label)), shape=shape)


def _pair_sums(shard: LabelShard, every: int) -> sp.csr_matrix:
    """Return what a shard adds to the common and the agreed tasks of two workers, the lower first.

    Both stand in one number, agreed tasks in units of `AGREED`, so that one product counts both.
    """
    task = shard.task
    rows = (shard.first_task + task) % every == 0 if every > 1 else slice(None)
    worker, label, task = shard.worker[rows], shard.label[rows], task[rows]
    answer, n_answers = task * shard.n_classes + label, shard.n_tasks * shard.n_classes
    if n_answers > MAX_COLUMNS:  # an empty column costs as much as a label
        given, answer = np.unique(answer, return_inverse=True)
        n_answers = len(given)
    unit = np.repeat(np.array([1, int(AGREED**0.5)]), len(worker))
    place = np.tile(worker, 2), np.concatenate([task, shard.n_tasks + answer])
    shape = shard.n_workers, shard.n_tasks + n_answers
    table = sp.csr_matrix((unit, place), shape=shape)
    met = np.diff(shard.task_start)[task]
    size = np.cumsum(np.bincount(worker, met, shard.n_workers))
    blocks = [_later(table, low, high) for low, high in pairwise(_cuts(size))]
    return sp.csr_matrix(sp.vstack(blocks))


def _cuts(size: Float64[np.ndarray, " workers"]) -> list[int]:
    """Return the first worker of each block of bounded size, and the number of workers."""
    inner = np.searchsorted(size, np.arange(BLOCK, size[-1], BLOCK), "right")
    cuts: list[int] = np.unique(np.concatenate([[0], inner, [len(size)]])).tolist()
    return cuts


def _later(table: sp.csr_matrix, low: int, high: int) -> sp.csr_matrix:
    """Return the products of some workers' rows with those of all later workers."""
    block = sp.triu(table[low:high] @ table[low:].T, k=1, format="csr")
    shape = high - low, table.shape[0]
    return sp.csr_matrix((block.data, block.indices + low, block.indptr), shape=shape)


def _pairs_of(met: sp.csr_matrix) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the pairs, common and agreed tasks; if there are very many, not all who share few."""
    keep = np.arange(met.nnz) if met.nnz <= MAX_PAIRS else np.flatnonzero(_many_common(met.data))
    n_agreed, n_common = np.divmod(met.data[keep], AGREED)
    first = (np.searchsorted(met.indptr, keep, side="right") - 1).astype(np.int32)
    return first, met.indices[keep], n_common, n_agreed


def _many_common(packed: Int64[np.ndarray, " pairs"]) -> Bool[np.ndarray, " pairs"]:
    """Return the pairs who share enough tasks to be judged, and of the others every n-th."""
    keep: np.ndarray = packed % AGREED >= MIN_COMMON
    few = np.flatnonzero(~keep)
    keep[few[:: -(-len(few) // MAX_PAIRS) or 1]] = True
    return keep


def _products(shares: sp.csr_matrix, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the sum over the classes of the products of two workers' shares."""
    found = np.zeros(len(first))
    rows = shares.indptr, shares.indices, shares.data
    _write_products(*rows, first, second, np.zeros(shares.shape[1]), found)
    return found


@kernel
def _write_products(start, column, share, first, second, hers, found) -> None:
    """Write each pair's product; `hers`, which is zero before, has the row of the first until it changes."""
    before = -1
    for pair in range(len(found)):
        if first[pair] != before:
            if before >= 0:
                for at in range(start[before], start[before + 1]):
                    hers[column[at]] = 0.0
            before = first[pair]
            for at in range(start[before], start[before + 1]):
                hers[column[at]] = share[at]
        for at in range(start[second[pair]], start[second[pair] + 1]):
            found[pair] += share[at] * hers[column[at]]


def _fit_skill(
    first: np.ndarray, second: np.ndarray, n_common: np.ndarray, excess: np.ndarray,
    kept: np.ndarray, n_workers: int, begun: np.ndarray | None,
) -> Float64[np.ndarray, " workers"]:  # fmt: skip
    """Return the skills whose products are nearest to the excess agreement, least squares.

    The first fit counts all pairs nearly alike: a clique with many tasks must not outweigh the crowd.
    """
    misfit = MISFIT if begun is not None else 8 * MISFIT
    weight = np.where(kept, 1.0 / (misfit**2 + 0.25 / n_common), 0.0)
    start = np.searchsorted(first, np.arange(n_workers + 1))
    shape = n_workers, n_workers
    target = sp.csr_matrix((weight * excess, second, start), shape=shape)
    mass = sp.csr_matrix((weight, second, start), shape=shape)
    middle = np.sqrt(max((weight * excess).sum() / max(weight.sum(), 1e-300), 1e-4))
    ridge = RIDGE / (misfit**2 + 0.25 / MIN_COMMON) * middle**2
    skill: np.ndarray = np.full(n_workers, middle) if begun is None else begun
    for _ in range(STEPS):
        pull = target @ skill + target.T @ skill + ridge * middle
        square = skill**2
        new = 0.5 * skill + 0.5 * pull / (mass @ square + mass.T @ square + ridge)
        moved = float(np.abs(new - skill).max(initial=0.0))
        skill = new
        if moved <= SETTLED:
            break
    return skill


def _standardised(
    n_common: np.ndarray, n_agreed: np.ndarray, expected: np.ndarray, judged: np.ndarray
) -> np.ndarray:
    """Return the excess of agreement in standard errors, 0 where it is not judged.

    Honest pairs spread about the fit by more than chance where tasks differ in difficulty. That
    spread is taken from the pairs below the median, among whom there are no cliques.
    """
    z = np.zeros(len(n_common))
    residual = n_agreed[judged] / n_common[judged] - expected[judged]
    chance = expected[judged] * (1.0 - expected[judged]) / n_common[judged]
    low, high, n_judged = 0.0, 0.25, len(residual)
    if n_judged <= 30:
        low = high = 0.0
    while high - low > 1e-6:
        middle = (low + high) / 2
        below, median = np.quantile(residual / np.sqrt(chance + middle), [0.16, 0.5])
        wide = median - below > 1.0 + 3.0 / np.sqrt(n_judged)
        low, high = (middle, high) if wide else (low, middle)
    z[judged] = residual / np.sqrt(chance + low)
    return z


class Likeness(NamedTuple):
    """Signed square of each worker's excess in standard errors, and the share that it is worth."""

    evidence: np.ndarray  # [workers], 0 where nothing can be compared
    share: np.ndarray  # [workers] of labels that must be the reference's, at least


class _Alike(NamedTuple):
    """Agreement of pairs of labels: beyond chance, as it is, what 1 is worth, and its pairs."""

    beyond: float
    same: float
    scale: float
    n_pairs: int

    @property
    def variance(self) -> float:
        """Of `beyond`, with pairs independent of each other."""
        return self.same * (1.0 - self.same) / self.scale**2 / self.n_pairs


def likeness(
    table: Int[np.ndarray, "workers tasks"], reference: Int[np.ndarray, " tasks"], *, n_classes: int
) -> Likeness:
    """Return how much liker the reference each worker is than her colleagues' answers let expect.

    Parameters
    ----------
    table, reference
        Class codes, -1 where there is no label.
    n_classes
        How many classes there are.

    Notes
    -----
    **Cost.** O(workers² * tasks) for each worker: for a handful of workers.
    """
    known = reference >= 0
    table, reference = table[:, known], reference[known]
    found = [
        _one(table[w], np.delete(table, w, axis=0), reference, n_classes) for w in range(len(table))
    ]
    evidence, share = np.array(found, dtype=np.float64).reshape(-1, 2).T
    return Likeness(evidence, share)


def _one(
    own: np.ndarray, others: np.ndarray, reference: np.ndarray, n_classes: int
) -> tuple[float, float]:
    """Return a worker's evidence and share."""
    to_reference = _alike([(own, reference)], n_classes)
    to_others = _alike([(own, other) for other in others], n_classes)
    theirs = _alike([(other, reference) for other in others], n_classes)
    pairs = [(a, b) for at, a in enumerate(others) for b in others[:at]]
    among = _alike([*pairs, *((b, a) for a, b in pairs)], n_classes)
    if to_reference is None or to_others is None or theirs is None or among is None:
        return 0.0, 0.0
    among_beyond = max(among.beyond, LEAST)
    ratio = theirs.beyond / among_beyond
    expected = ratio * to_others.beyond
    excess = to_reference.beyond - expected
    from_others = (theirs.variance + 2.0 * ratio**2 * among.variance) / among_beyond**2
    variance = (
        _own_variance(own, others, reference, ratio, to_reference, to_others)
        + to_others.beyond**2 * from_others
        + (SPREAD * expected) ** 2
    )
    share = min(max(excess / max(1.0 - expected, LEAST), 0.0), 1.0)
    return float(np.sign(excess) * excess**2 / variance), share


def _alike(pairs: list[tuple[np.ndarray, np.ndarray]], n_classes: int) -> _Alike | None:
    """Return the agreement of pairs of workers, pooled over the tasks that both have; None if none."""
    both = [(one >= 0) & (other >= 0) for one, other in pairs]
    if not any(map(np.any, both)):
        return None
    first, second = (
        np.concatenate([pair[side][met] for pair, met in zip(pairs, both, strict=True)])
        for side in (0, 1)
    )
    between, of_first, of_second = _by_chance(first, second, n_classes)
    scale = float(np.sqrt(max((1.0 - of_first) * (1.0 - of_second), 1e-3)))
    same = float(np.mean(first == second))
    return _Alike((same - between) / scale, same, scale, len(first))


def _by_chance(first: np.ndarray, second: np.ndarray, n_classes: int) -> tuple[float, float, float]:
    """Return how often two random labels are the same: one of each, two of the first, of the second."""
    p, q = (np.bincount(one, minlength=n_classes) / len(one) for one in (first, second))
    return float(p @ q), float(p @ p), float(q @ q)


def _own_variance(
    own: np.ndarray, others: np.ndarray, reference: np.ndarray, ratio: float,
    to_reference: _Alike, to_others: _Alike,
) -> float:  # fmt: skip
    """Return the variance of the excess by the tasks that she happened to label."""
    mine = own >= 0
    n_others = (others[:, mine] >= 0).sum(axis=0)
    same = (others[:, mine] == own[mine]).sum(axis=0)
    by_reference = ((reference[mine] == own[mine]) - to_reference.same) / to_reference.scale
    by_others = (same - n_others * to_others.same) / to_others.scale / n_others.mean()
    total = float(((by_reference - ratio * by_others) ** 2).sum())
    n_labels = int(mine.sum())
    return (total + UNIT) / (n_labels + UNIT) / n_labels
