"""Pairs of workers who agree more often than their skills explain.

Every worker has one skill. Two workers who answer on their own agree beyond chance by the product
of their skills: a rank-one table, of which only pairs that share tasks are known. The skills are
fitted to all pairs but those that stand out, again and again, so that a clique does not distort
the fit.

>>> from quality import LocalEngine, cut_labels, encode
>>> labels = encode(["ann", "bob", "cy"] * 9, np.repeat(np.arange(9), 3), list("xxy" * 6 + "yyx" * 3))
>>> fit = fit_pairs(LocalEngine(cut_labels(labels, [0, 9])))
>>> fit.pair[fit.n_agreed == 9], fit.n_common.max()
(array([[0, 1]], dtype=int32), np.int64(9))
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Float64, Int, Int32, Int64

from quality.labels import Engine, LabelShard, freeze_arrays, sort_codes
from quality.parallel import kernel

__all__ = [
    "MIN_COMMON", "GroupVotes", "PairFit", "expected_by_totals", "fit_pairs", "given_shares", "group_votes",
]  # fmt: skip

MIN_COMMON = 8  # tasks that two workers must share for their agreement to be judged
# a fit never drawn to the crowd's mean is taken if its misfit is below this share of the other's
CLEARLY = 0.7
FEW_BELOW = 0.3  # of the pairs: if fewer agree no more than expected, cliques are about half of all
STANDS_OUT = 2.5  # standard errors beyond which a pair is left out of the fit
ROUNDS = 8  # of leaving out and fitting again, at most
STEPS = 40  # of one fit, at most
SETTLED = 1e-4  # largest change of a skill at which a fit stops
MISFIT = 0.25  # standard deviation of agreement about the fit, as the weights assume
RIDGE = 4.0  # weight of the crowd's mean skill in each worker's own, in pairs of few common tasks
EDGE = 0.02  # least expected agreement, and least disagreement as a share of that by chance
TINY = 1e-9  # where chance leaves nothing
MAX_PAIRS = 2_000_000  # in the fit; beyond that, every n-th of the pairs who share few tasks
MAX_MEETINGS = 200_000_000  # pairs of labels on one task; beyond that every n-th task is read
BLOCK = 8_000_000  # meetings that one table of pairs has room for
AGREED = 2**32  # unit of agreed tasks in a number whose rest is the common tasks


@dataclass(frozen=True, slots=True, eq=False)
class PairFit:
    """The pairs who share tasks, and the agreement expected of each.

    Parameters
    ----------
    pair
        The two worker codes, the lower first.
    n_common, n_agreed
        Tasks that both labelled, and those on which they agree.
    expected
        Probability that they agree on a task, if both answer on their own.
    chance
        Probability that they agree, if their answers are independent of the tasks.
    z
        Excess of their agreement in standard errors; 0 for pairs who are not judged.
    judged
        True for the pairs who share enough tasks, and for those in a group that is judged as a whole.
    skill
        Skill of each worker.
    shares
        Share of each class among each worker's labels.
    """

    pair: Int32[np.ndarray, "pairs 2"]
    n_common: Int64[np.ndarray, " pairs"]
    n_agreed: Int64[np.ndarray, " pairs"]
    expected: Float64[np.ndarray, " pairs"]
    chance: Float64[np.ndarray, " pairs"]
    z: Float64[np.ndarray, " pairs"]
    judged: Bool[np.ndarray, " pairs"]
    skill: Float64[np.ndarray, " workers"]
    shares: sp.csr_matrix

    def __post_init__(self) -> None:
        freeze_arrays(self)

    @classmethod
    def of_nobody(cls, n_workers: int) -> "PairFit":
        """Return the fit to a crowd in which no two workers share a task."""
        none, counts = np.zeros(0), np.zeros(0, dtype=np.int64)
        pair, shares = np.zeros((0, 2), dtype=np.int32), sp.csr_matrix((n_workers, 1))
        judged = np.zeros(0, dtype=np.bool_)
        return cls(pair, counts, counts, none, none, none, judged, np.zeros(n_workers), shares)

    @property
    def are_rich(self) -> bool:
        """Whether most pairs share so many tasks that each can be judged by itself."""
        return _pairs_with(self).are_rich

    def within(self, groups: Int[np.ndarray, " workers"]) -> Bool[np.ndarray, " pairs"]:
        """Return which pairs are of one group, by the group code of each worker, -1 for none."""
        one, other = groups[self.pair].T
        inside: np.ndarray = (one == other) & (one >= 0)
        return inside

    def expected_without(
        self, left_out: Bool[np.ndarray, " pairs"]
    ) -> Float64[np.ndarray, " pairs"]:
        """Return the probability that each pair agrees, by skills fitted without some pairs."""
        pairs = _pairs_with(self)
        return pairs.expected(self._skill_without(pairs, left_out))

    def without(
        self, inside: Bool[np.ndarray, " pairs"], known: Bool[np.ndarray, " pairs"]
    ) -> "PairFit":
        """Return the fit to all pairs but those `inside` groups, which it judges, and those `known`."""
        pairs = _pairs_with(self)
        skill = self._skill_without(pairs, inside | known)
        expected = pairs.expected(skill)
        z = _standardised(pairs.n_common, pairs.n_agreed, expected, pairs.judged)
        spread = pairs.n_common * expected * (1.0 - expected)
        own = (pairs.n_agreed - pairs.n_common * expected) / np.sqrt(spread)
        z, judged = np.where(inside & ~pairs.judged, own, z), pairs.judged | inside
        return replace(self, expected=expected, z=z, judged=judged, skill=skill)

    def _skill_without(
        self, pairs: "_Pairs", left_out: Bool[np.ndarray, " pairs"]
    ) -> Float64[np.ndarray, " workers"]:
        return _fit_skill(pairs, ~(left_out | (self.z > STANDS_OUT)), self.skill, drawn=True)


def fit_pairs(engine: Engine, together: Int[np.ndarray, " known"] | None = None) -> PairFit:
    """Count the agreement of every pair over the shards and fit the skills to it.

    Pairs of two workers of `together` are left out of the fit from the beginning.
    """
    n_meetings = sum(engine.map(_meetings, None))
    every = -(-n_meetings // MAX_MEETINGS) or 1
    counted = _pairs_of(_sum_of(list(engine.map(_pair_sums, every))))
    shares = given_shares(engine)
    pairs = _Pairs(*counted, _products(shares, *counted[:2]), shares.shape[0])
    pair = np.column_stack(counted[:2]).astype(np.int32)
    known = np.zeros(0, dtype=np.int64) if together is None else together
    apart = np.logical_not(np.isin(pair, known).all(axis=1))
    fit = _fit_trimmed(pairs, apart, drawn=True)
    if pairs.are_rich:
        other = _fit_trimmed(pairs, apart, drawn=False)
        if _misfit(pairs, other, apart) < CLEARLY * _misfit(pairs, fit, apart):
            fit = other
    rest = pairs.n_common, pairs.n_agreed, fit.expected, pairs.chance, fit.z, pairs.judged
    return PairFit(pair, *rest, fit.skill, shares)


def expected_by_totals(
    fit: PairFit, kept: Bool[np.ndarray, " pairs"]
) -> Float64[np.ndarray, " pairs"]:
    """Return the probability that each pair agrees, by skills that give each worker's total agreement.

    They are of the pairs kept. Least squares follow a large clique whose members agree on everything: its few
    pairs are the largest. In totals such a pair counts no more than its tasks do.
    """
    pairs = _pairs_with(fit)
    weight = np.where(kept, pairs.n_common, 0).astype(np.float64)
    total = _by_worker(pairs, weight * pairs.excess)
    crowd = np.sqrt(max(total.sum() / max(2.0 * weight.sum(), 1.0), 1e-4))
    start = np.searchsorted(pairs.first, np.arange(pairs.n_workers + 1))
    mass = sp.csr_matrix((weight, pairs.second, start), shape=(pairs.n_workers, pairs.n_workers))
    skill: np.ndarray = np.full(pairs.n_workers, crowd)
    for _ in range(STEPS):
        met = mass @ skill + mass.T @ skill
        # drawn to the crowd's mean by as many tasks as make a pair
        new = (np.maximum(total, 0.0) + MIN_COMMON * crowd) / (met + MIN_COMMON)
        moved = float(np.abs(new - skill).max(initial=0.0))
        skill = 0.5 * (skill + new)
        if moved <= SETTLED:
            break
    return pairs.expected(skill)


class _Pairs(NamedTuple):
    """Counts of every pair, and the number of workers."""

    first: np.ndarray
    second: np.ndarray
    n_common: np.ndarray
    n_agreed: np.ndarray
    chance: np.ndarray
    n_workers: int

    @property
    def excess(self) -> np.ndarray:
        """Agreement beyond chance."""
        return np.asarray(self.n_agreed / np.maximum(self.n_common, 1) - self.chance)

    @property
    def judged(self) -> np.ndarray:
        """True for the pairs who share enough tasks."""
        return np.asarray(self.n_common >= MIN_COMMON)

    @property
    def are_rich(self) -> bool:
        """Whether most pairs share more tasks than the crowd's mean skill weighs."""
        return len(self.n_common) > 0 and bool(np.median(self.n_common) > RIDGE * MIN_COMMON)

    def expected(self, skill: np.ndarray) -> np.ndarray:
        """Return the probability that each pair agrees, by these skills."""
        # with one common class chance leaves little
        most = 1.0 - np.maximum(EDGE * (1.0 - self.chance), TINY)
        both = skill[self.first] * skill[self.second]
        return np.asarray(np.clip(self.chance + both, EDGE, most))


class _Trimmed(NamedTuple):
    """A fit that leaves out the pairs that stand out."""

    skill: np.ndarray
    expected: np.ndarray
    z: np.ndarray


def _pairs_with(fit: PairFit) -> _Pairs:
    """Return the counts that were fitted."""
    first, second = fit.pair.T
    return _Pairs(first, second, fit.n_common, fit.n_agreed, fit.chance, len(fit.skill))


def _by_worker(
    pairs: _Pairs, values: Float64[np.ndarray, " pairs"]
) -> Float64[np.ndarray, " workers"]:
    """Return the sum of each worker's values."""
    one, other = (np.bincount(of, values, pairs.n_workers) for of in (pairs.first, pairs.second))
    total: np.ndarray = one + other
    return total


def _fit_trimmed(pairs: _Pairs, apart: Bool[np.ndarray, " pairs"], *, drawn: bool) -> _Trimmed:
    """Fit the skills, leave out the pairs that stand out, and fit again until these stay the same.

    With `drawn` the skills are drawn to the crowd's mean until then. If most pairs share many tasks, the
    skills are then fitted free of the mean. So a clique with many tasks does not distort the fit, and the
    best workers, whom the mean draws down, are not left out for good.
    """
    kept, skill = apart, _fit_skill(pairs, apart, None, drawn=drawn)
    for number in range(2 * ROUNDS):
        if number:
            skill = _fit_skill(pairs, kept, skill, drawn=drawn)
        expected = pairs.expected(skill)
        z = _standardised(pairs.n_common, pairs.n_agreed, expected, pairs.judged)
        before, kept = kept, apart & ~(z > STANDS_OUT)
        settled = number > 0 and np.array_equal(before, kept)
        if drawn and (settled or number + 1 == ROUNDS):
            if not pairs.are_rich:
                break
            drawn = False
        elif settled:
            break
    return _Trimmed(skill, expected, z)


def _misfit(pairs: _Pairs, fit: _Trimmed, apart: Bool[np.ndarray, " pairs"]) -> float:
    """Return the sum of squared residuals in binomial variances, each at most that of a pair left out."""
    off = pairs.n_agreed - pairs.n_common * fit.expected
    square = off**2 / (pairs.n_common * fit.expected * (1.0 - fit.expected))
    return float(np.minimum(square, STANDS_OUT**2)[pairs.judged & apart].sum())


def given_shares(engine: Engine) -> sp.csr_matrix:
    """Return the share of each class among each worker's labels."""
    counts = _sum_of(list(engine.map(_given, None)))
    n_labels = np.asarray(counts.sum(axis=1)).ravel()
    return sp.csr_matrix(sp.diags(1.0 / np.maximum(n_labels, 1)) @ counts)


def _sum_of(parts: list[sp.csr_matrix]) -> sp.csr_matrix:
    """Return the sum of matrices of integers; each is freed once it is added."""
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
    """Return what a shard adds to the common and the agreed tasks of each pair, the lower worker first.

    Both counts are in one number, agreed tasks in units of `AGREED`.
    """
    rows = np.flatnonzero((shard.first_task + shard.task) % every == 0)
    by_worker, start = sort_codes(shard.worker[rows], shard.n_workers)
    order = rows[by_worker]
    met = np.diff(shard.task_start)[shard.task[order]]
    size = np.concatenate([[0], np.cumsum(met)])[start[1:]]
    cuts = pairwise(_cuts(size))
    blocks = [_later(shard, order, start, size, low, high) for low, high in cuts]
    return sp.csr_matrix(sp.vstack(blocks))


def _cuts(size: Int64[np.ndarray, " workers"]) -> list[int]:
    """Return the first worker of each block of bounded size, and the number of workers."""
    inner = np.searchsorted(size, np.arange(BLOCK, size[-1], BLOCK), "right")
    cuts: list[int] = np.unique(np.concatenate([[0], inner, [len(size)]])).tolist()
    return cuts


def _later(
    shard: LabelShard, order: np.ndarray, start: np.ndarray, size: np.ndarray, low: int, high: int
) -> sp.csr_matrix:
    """Return the common and agreed tasks of some workers with all later ones."""
    most = int(size[high - 1] - (size[low - 1] if low else 0))
    column, packed = np.empty(most, dtype=np.int32), np.empty(most, dtype=np.int64)
    ends, found = np.zeros(high - low + 1, dtype=np.int32), np.zeros(shard.n_workers, np.int64)
    rows = shard.task, shard.task_start, shard.worker, shard.label
    n_pairs = _count_later(order, start, *rows, low, high, found, column, packed, ends)
    shape = high - low, shard.n_workers
    block = sp.csr_matrix((packed[:n_pairs], column[:n_pairs], ends), shape=shape)
    block.sort_indices()
    return block


@kernel
def _count_later(
    order, start, task, task_start, worker, label, low, high, found, column, packed, ends
) -> int:
    """Write the later workers whom each worker meets, and their tasks; `found` is 0 before and after."""
    n_pairs = int(np.int64(0))  # a literal would compile one more signature
    for one in range(low, high):
        first = n_pairs
        for at in range(start[one], start[one + 1]):
            row = order[at]
            for its in range(task_start[task[row]], task_start[task[row] + 1]):
                other = worker[its]
                if other > one:
                    if found[other] == 0:
                        column[n_pairs] = other
                        n_pairs += 1
                    found[other] += 1 + AGREED * (label[its] == label[row])
        for place in range(first, n_pairs):
            packed[place] = found[column[place]]
            found[column[place]] = 0
        ends[one - low + 1] = n_pairs
    return n_pairs


def _pairs_of(met: sp.csr_matrix) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return pairs, common and agreed tasks; of very many pairs, not all that share few tasks."""
    keep = np.arange(met.nnz) if met.nnz <= MAX_PAIRS else np.flatnonzero(_many_common(met.data))
    n_agreed, n_common = np.divmod(met.data[keep], AGREED)
    first = (np.searchsorted(met.indptr, keep, side="right") - 1).astype(np.int32)
    return first, met.indices[keep], n_common, n_agreed


def _many_common(packed: Int64[np.ndarray, " pairs"]) -> Bool[np.ndarray, " pairs"]:
    """Return the pairs who share enough tasks to be judged, and every n-th of the others."""
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
    """Write each pair's product; `hers`, 0 at the beginning, holds the row of the present first worker."""
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
    pairs: _Pairs,
    kept: Bool[np.ndarray, " pairs"],
    begun: Float64[np.ndarray, " workers"] | None,
    *,
    drawn: bool,
) -> Float64[np.ndarray, " workers"]:
    """Return the skills whose products are nearest to the excess agreement, by least squares.

    The first fit weighs all pairs nearly alike: a clique with many tasks must not outweigh the crowd.
    Unless skills are `drawn` to the crowd's mean, the mean weighs less the more tasks pairs share.
    """
    misfit = MISFIT if begun is not None else 8 * MISFIT
    first, second, n_common, excess = pairs.first, pairs.second, pairs.n_common, pairs.excess
    weight = np.where(kept, 1.0 / (misfit**2 + 0.25 / n_common), 0.0)
    start = np.searchsorted(first, np.arange(pairs.n_workers + 1))
    shape = pairs.n_workers, pairs.n_workers
    target = sp.csr_matrix((weight * excess, second, start), shape=shape)
    mass = sp.csr_matrix((weight, second, start), shape=shape)
    middle = np.sqrt(max((weight * excess).sum() / max(weight.sum(), 1e-300), 1e-4))
    ridge = RIDGE / (misfit**2 + 0.25 / MIN_COMMON) * middle**2
    if not drawn:
        ridge = ridge * _scarcity(pairs, weight)
    skill: np.ndarray = np.full(pairs.n_workers, middle) if begun is None else begun
    for _ in range(STEPS):
        pull = target @ skill + target.T @ skill + ridge * middle
        square = skill**2
        new = 0.5 * skill + 0.5 * pull / (mass @ square + mass.T @ square + ridge)
        moved = float(np.abs(new - skill).max(initial=0.0))
        skill = new
        if moved <= SETTLED:
            break
    return skill


def _scarcity(
    pairs: _Pairs, weight: Float64[np.ndarray, " pairs"]
) -> Float64[np.ndarray, " workers"]:
    """Return the mean over each worker's pairs of min(`MIN_COMMON` / common tasks, 1); 1 without pairs."""
    few = weight * np.minimum(MIN_COMMON / pairs.n_common, 1.0)
    hers, of_few = (_by_worker(pairs, of) for of in (weight, few))
    share: np.ndarray = np.divide(of_few, hers, out=np.ones(pairs.n_workers), where=hers > 0)
    return share


def _standardised(
    n_common: np.ndarray, n_agreed: np.ndarray, expected: np.ndarray, judged: np.ndarray
) -> np.ndarray:
    """Return the excess of agreement in standard errors, 0 where it is not judged.

    If tasks differ in difficulty, honest pairs spread about the fit by more than chance. That spread is
    measured on the pairs below the median, among whom there are no cliques. If few pairs agree no more
    than expected, most pairs that share enough tasks are cliques. The median is then that of the honest
    pairs, whose number is taken as twice the number of pairs that agree no more than expected.
    """
    z = np.zeros(len(n_common))
    residual = n_agreed[judged] / n_common[judged] - expected[judged]
    chance = expected[judged] * (1.0 - expected[judged]) / n_common[judged]
    low, high, n_below = 0.0, 0.25, float(np.count_nonzero(residual <= 0))
    if n_below >= FEW_BELOW * len(residual):
        n_below = len(residual) / 2
    if n_below <= 15:
        low = high = 0.0
    while high - low > 1e-6:
        middle = (low + high) / 2
        places = np.array([0.32, 1.0]) * n_below / len(residual)
        below, median = np.quantile(residual / np.sqrt(chance + middle), places)
        wide = median - below > 1.0 + 3.0 / np.sqrt(2 * n_below)
        low, high = (middle, high) if wide else (low, middle)
    z[judged] = residual / np.sqrt(chance + low)
    return z


class GroupVotes(NamedTuple):
    """Labels of one group's members in a shard, and the tasks that have some, ascending."""

    worker: np.ndarray
    label: np.ndarray
    place: np.ndarray  # of each label's task among these tasks
    tasks: np.ndarray

    def pairs_of_products(self, value: np.ndarray) -> np.ndarray:
        """Return the sum over each task's pairs of the products of their values."""
        n_tasks = len(self.tasks)
        total, squares = (np.bincount(self.place, part, n_tasks) for part in (value, value**2))
        return (total**2 - squares) / 2.0

    def alike(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the place and the class of each answer given, and how many gave it."""
        n_classes = int(self.label.max(initial=0)) + 1
        vote, count = np.unique(self.place * n_classes + self.label, return_counts=True)
        return *np.divmod(vote, n_classes), count


def group_votes(shard: LabelShard, groups: np.ndarray, n_groups: int) -> Iterator[GroupVotes]:
    """Yield the votes of workers in no group, and of each group, in one pass over the labels."""
    order, start = sort_codes(groups[shard.worker] + 1, n_groups + 1)
    worker, label, task = (column[order] for column in (shard.worker, shard.label, shard.task))
    for first, last in pairwise(start.tolist()):
        rows = slice(first, last)
        tasks, place = np.unique(task[rows], return_inverse=True)
        yield GroupVotes(worker[rows], label[rows], place, tasks)
