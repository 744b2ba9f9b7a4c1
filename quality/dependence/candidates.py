"""Candidate groups: sets of workers who all agree with each other more than their skills explain.

Pairs who share enough tasks are joined in the order of their excess, as long as the joined parts stand out
together. A group is kept if its evidence exceeds the largest expected by chance among all groups of its
size, and every member's exceeds the largest expected by chance among all workers. Workers whose pairs share
few tasks are looked for together: those to whom the excess agreement of all pairs, as a table, gives the
largest part.

>>> pair = np.array([[0, 1], [0, 2], [1, 2], [2, 3]])
>>> candidate_groups(pair, np.array([6.0, 7.0, 6.5, 3.2]), np.full(4, 0.5), np.full(4, 50), 12, 12)
array([ 0,  0,  0, -1, -1, -1, -1, -1, -1, -1, -1, -1])
"""

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Float64, Int, Int64
from scipy.sparse.csgraph import connected_components
from scipy.special import gammaln, rel_entr

from quality.dependence.pairs import PairFit, expected_by_totals

__all__ = ["FALSE_ALARM", "candidate_groups", "find_candidates", "log_subsets", "with_scattered"]

FALSE_ALARM = 0.01  # chance of a group of a given size if all answer on their own, by a union bound
LINK = 3.0  # standard errors by which parts of a group must stand out together
ALIKE = 0.25  # least mean z of the pairs between two parts, as a share of that of the joining pair
MIN_EXCESS = 0.15  # agreement beyond that expected, as a share of all that chance leaves
MAX_SHARE = 1 / 3  # of the workers: a larger group is the crowd, and not a clique
HALF = 0.5  # of the others' excess: with less a member, or a part, is not of the group
TINY = 1e-9  # where chance leaves nothing
MOST_SCATTERED = 4  # groups of workers who share few tasks: each takes three fits
STEPS = 30, 100  # of the power method, at most: from the first to the second, as `WORK` allows
WORK = 50_000_000  # pairs that it may look at
MOVED = 1e-4  # the change at which it ends
KEPT = 0.3  # of a step in the next one, so that it cannot swing between two halves of a crowd


def log_subsets(
    n_workers: int, size: int | Int64[np.ndarray, " sizes"]
) -> Float64[np.ndarray, "*sizes"]:
    """Return the logarithm of the number of groups of each size."""
    size = np.asarray(size, dtype=np.float64)
    return np.asarray(gammaln(n_workers + 1) - gammaln(size + 1) - gammaln(n_workers - size + 1))


def find_candidates(
    fit: PairFit, models: Int[np.ndarray, " models"]
) -> tuple[PairFit, Int64[np.ndarray, " workers"]]:
    """Return the groups that stand out, and a fit without the pairs of scattered ones.

    The models are the last group, and in no other.
    """
    n_workers, of_models = len(fit.skill), np.isin(fit.pair, models)
    judged = fit.judged & ~of_models.any(axis=1)
    pair, n_common = fit.pair[judged], fit.n_common[judged]
    excess = fit.n_agreed[judged] / n_common - fit.expected[judged]
    left = np.maximum(1.0 - fit.chance[judged], 1e-9)  # 0 if both workers give one class alone
    n_active = int(np.count_nonzero(np.delete(np.diff(fit.shares.indptr), models)))
    groups = candidate_groups(pair, fit.z[judged], excess / left, n_common, n_workers, n_active)
    if not fit.are_rich:
        fit, groups = with_scattered(fit, groups, of_models, n_active)
    if len(models) > 1:
        groups[models] = groups.max(initial=-1) + 1
    return fit, groups


def candidate_groups(
    pair: Int[np.ndarray, "pairs 2"],
    z: Float64[np.ndarray, " pairs"],
    excess: Float64[np.ndarray, " pairs"],
    n_common: Int[np.ndarray, " pairs"],
    n_workers: int,
    n_active: int,
) -> Int64[np.ndarray, " workers"]:
    """Return the group code of each worker, -1 for one in none; codes ascend by first member.

    `z` is the excess agreement of each judged pair in standard errors, `excess` the same as a share of what
    chance leaves, `n_common` the common tasks of the pair; `n_active` is the number of workers with labels.
    """
    table, sizes = (
        _both_ways(pair, values, n_workers) for values in (z, n_common.astype(np.float64))
    )
    shares = _both_ways(pair, excess * n_common, n_workers)
    groups = np.full(n_workers, -1)
    found = []
    for members in _joined(pair, z, table, n_active):
        core = _core(members, table, shares, sizes, n_active)
        if _stands_out(core, table, shares, sizes, n_active):
            found.append(core)
    for code, members in enumerate(sorted(found)):
        groups[members] = code
    return groups


def _both_ways(pair: np.ndarray, values: np.ndarray, n_workers: int) -> sp.csr_matrix:
    one, other = pair.T
    entries = np.tile(values, 2), (np.concatenate([one, other]), np.concatenate([other, one]))
    return sp.csr_matrix(entries, shape=(n_workers, n_workers))


def _rows_of(
    members: list[int], table: sp.csr_matrix
) -> tuple[
    Int[np.ndarray, " entries"], Int64[np.ndarray, " entries"], Float64[np.ndarray, " entries"]
]:
    """Return the other worker, the place of the member and the value of every entry of some rows.

    SciPy's slices of columns take memory and time in proportion to all workers.
    """
    start, end = table.indptr[members], table.indptr[np.add(members, 1)]
    size = (end - start).astype(np.int64)
    place = np.repeat(np.arange(len(members)), size)
    at = np.arange(len(place)) + np.repeat(start - (np.cumsum(size) - size), size)
    return table.indices[at], place, table.data[at]


def _inside(
    core: list[int], table: sp.csr_matrix
) -> tuple[Float64[np.ndarray, " members"], Int64[np.ndarray, " members"]]:
    """Return the sum of each member's values with the others, and their number; members must ascend."""
    column, place, value = _rows_of(core, table)
    found = np.minimum(np.searchsorted(core, column), len(core) - 1)
    own = np.asarray(core)[found] == column
    return np.bincount(place[own], value[own], len(core)), np.bincount(
        place[own], minlength=len(core)
    )


def _joined(
    pair: np.ndarray, z: np.ndarray, table: sp.csr_matrix, n_active: int
) -> list[list[int]]:
    """Join workers pair by pair, by falling z, where the parts that a pair joins stand out as well."""
    strong = np.flatnonzero(z > LINK)
    strong = strong[np.argsort(-z[strong], kind="stable")]
    at = np.arange(table.shape[0])
    parts: dict[int, list[int]] = {}
    for place in strong.tolist():
        one, other = at[pair[place]].tolist()
        if one == other:
            continue
        mine, its = parts.get(one, [one]), parts.get(other, [other])
        if len(mine) + len(its) > max(2.0, MAX_SHARE * n_active):
            continue
        column, _, near = _rows_of(mine, table)
        between = near[at[column] == other]
        if between.sum() > LINK * np.sqrt(len(between)) and between.mean() > ALIKE * z[place]:
            parts.pop(other, None)
            parts[one] = mine + its
            at[its] = one
    return list(parts.values())


def _core(
    members: list[int], table: sp.csr_matrix, shares: sp.csr_matrix, sizes: sp.csr_matrix,
    n_active: int,
) -> list[int]:  # fmt: skip
    """Drop members, one by one, whose evidence with the others could be chance.

    Drop also those whose excess is at most half of the others' mean.
    """
    least = np.sqrt(2.0 * np.log(n_active / FALSE_ALARM))
    core = sorted(members)
    while len(core) > 2:
        total, met = _inside(core, table)
        evidence = total / np.sqrt(np.maximum(met, 1))
        weakest = int(evidence.argmin())
        if evidence[weakest] > least:
            excess = _inside(core, shares)[0] / np.maximum(_inside(core, sizes)[0], 1.0)
            weakest = int(excess.argmin())
            if excess[weakest] > HALF * np.delete(excess, weakest).mean():
                break
        core.pop(weakest)
    return core


def _stands_out(
    core: list[int], table: sp.csr_matrix, shares: sp.csr_matrix, sizes: sp.csr_matrix,
    n_active: int,
) -> bool:  # fmt: skip
    """Return whether a group's evidence and its excess are enough."""
    total, met = _inside(core, table)
    evidence = total.sum() / 2.0 / np.sqrt(max(met.sum() / 2.0, 1.0))
    least = np.sqrt(2.0 * (log_subsets(n_active, len(core)) - np.log(FALSE_ALARM)))
    excess = _inside(core, shares)[0].sum() / max(_inside(core, sizes)[0].sum(), 1.0)
    return bool(evidence > least and excess > MIN_EXCESS)


def with_scattered(
    fit: PairFit,
    groups: Int64[np.ndarray, " workers"],
    of_models: Bool[np.ndarray, "pairs 2"],
    n_active: int,
) -> tuple[PairFit, Int64[np.ndarray, " workers"]]:
    """Return groups whose members need not share many tasks as well, and the fit without their pairs.

    Pairs who share few tasks say nothing one by one, and a clique of them draws the fit to itself. So groups
    are looked for beside two fits, by least squares and by totals, and judged by one without their pairs.
    Parts of one clique become one group. Pairs with a model are not looked at, and those of two are in no
    fit.
    """
    groups, known = groups.copy(), np.asarray(of_models.all(axis=1))
    people, expected = ~of_models.any(axis=1), fit.expected
    for _ in range(MOST_SCATTERED):
        free = people & (groups[fit.pair] < 0).all(axis=1)
        apart = fit.within(groups) | known
        best, most = np.zeros(0, dtype=np.int64), 0.0
        for beside in (expected, expected_by_totals(fit, free)):
            members, _ = _alike(fit, beside, free, n_active)
            if not len(members):
                continue
            alone = fit.expected_without(apart | np.isin(fit.pair, members).all(axis=1))
            again, margin = _alike(fit, alone, free, n_active)
            if margin > most and 2 * np.isin(again, members).sum() > len(members):
                best, most = again, margin
        if not len(best):
            break
        groups[best] = groups.max() + 1
        expected = fit.expected_without(fit.within(groups) | known)
    if groups.max(initial=-1) < 0:
        return fit, groups
    groups = _in_order(_one_of_parts(fit, groups, known, n_active))
    return fit.without(fit.within(groups), known), groups


def _one_of_parts(
    fit: PairFit,
    groups: Int64[np.ndarray, " workers"],
    known: Bool[np.ndarray, " pairs"],
    n_active: int,
) -> Int64[np.ndarray, " workers"]:
    """Return the groups, those joined whose members agree across as they do inside, or half as much."""
    pair, n_groups = groups[fit.pair], int(groups.max()) + 1
    grouped = (pair >= 0).all(axis=1)
    low, high = np.sort(pair[grouped], axis=1).T
    met, place = np.unique(low * n_groups + high, return_inverse=True)
    one, other = np.divmod(met, n_groups)
    expected, n_common = fit.expected_without(grouped | known)[grouped], fit.n_common[grouped]
    left = n_common * (1.0 - fit.chance[grouped])
    total, agreed, chance, left = (
        np.bincount(place, part, len(met))
        for part in (n_common, fit.n_agreed[grouped], n_common * expected, left)
    )
    share, own = (agreed - chance) / np.maximum(left, TINY), np.zeros(n_groups)
    own[one[one == other]] = share[one == other]
    least = np.sqrt(2.0 * np.log(n_groups**2 / FALSE_ALARM))
    linked = (one != other) & (_standard_errors(total, agreed, chance) > least)
    linked &= share > HALF * np.minimum(own[one], own[other])
    ends = one[linked], other[linked]
    links = sp.csr_matrix((np.ones(len(ends[0])), ends), shape=(n_groups, n_groups))
    _, code = connected_components(links, directed=False)
    joined = np.append(code, -1)[groups]
    size = np.bincount(joined[joined >= 0])
    return joined if size.max() <= max(2.0, MAX_SHARE * n_active) else groups


def _in_order(groups: Int64[np.ndarray, " workers"]) -> Int64[np.ndarray, " workers"]:
    """Return the groups with codes that ascend by first member."""
    ordered, grouped = groups.copy(), np.flatnonzero(groups >= 0)
    _, first, code = np.unique(groups[grouped], return_index=True, return_inverse=True)
    ordered[grouped] = np.argsort(np.argsort(first))[code]
    return ordered


def _alike(
    fit: PairFit,
    expected: Float64[np.ndarray, " pairs"],
    free: Bool[np.ndarray, " pairs"],
    n_active: int,
) -> tuple[Int64[np.ndarray, " members"], float]:
    """Return the workers who stand out most together, ascending, and their margin over chance.

    They are the first of an order, by the leading vector of the excess agreement in standard errors: as many
    as make the margin largest. It is in standard errors, and bounded by the number of groups of that size.
    Nobody is returned if it is below 0 or the excess too small.
    """
    first, second = fit.pair[free].T
    n_common, n_agreed, expected = fit.n_common[free], fit.n_agreed[free], expected[free]
    excess, spread = n_agreed - n_common * expected, n_common * expected * (1.0 - expected)
    order = _by_part(first, second, excess, spread, len(fit.skill))
    order = order[: int(max(2.0, MAX_SHARE * n_active))]
    if len(order) < 2:
        return order[:0], 0.0
    place = np.full(len(fit.skill), len(order))
    place[order] = np.arange(len(order))
    last = np.maximum(place[first], place[second])  # a pair is inside from its later member on
    inside = last < len(order)
    total, agreed, chance, left = (
        np.cumsum(np.bincount(last[inside], part[inside], len(order)))
        for part in (n_common, n_agreed, n_common * expected, n_common * (1.0 - fit.chance[free]))
    )
    size = np.arange(1, len(order) + 1)
    least = np.sqrt(2.0 * (log_subsets(n_active, size) - np.log(FALSE_ALARM)))
    margin = _standard_errors(total, agreed, chance) - least
    margin[agreed - chance <= MIN_EXCESS * left] = 0.0
    most = int(margin.argmax())
    if margin[most] <= 0.0:
        return order[:0], 0.0
    return np.sort(order[: most + 1]), float(margin[most])


def _standard_errors(
    total: np.ndarray, agreed: np.ndarray, chance: np.ndarray
) -> Float64[np.ndarray, "*some"]:
    """Return how far agreements exceed those expected: the z whose tail is Chernoff's bound; 0 below."""
    seen, expected = agreed / np.maximum(total, 1.0), chance / np.maximum(total, 1.0)
    apart = rel_entr(seen, expected) + rel_entr(1.0 - seen, 1.0 - expected)
    return np.asarray(np.where(seen > expected, np.sqrt(2.0 * total * np.maximum(apart, 0.0)), 0.0))


def _by_part(
    first: np.ndarray, second: np.ndarray, excess: np.ndarray, spread: np.ndarray, n_workers: int
) -> Int64[np.ndarray, " some"]:
    """Return the workers by their part in the leading non-negative vector of a table of pairs."""
    spreads = np.bincount(first, spread, n_workers) + np.bincount(second, spread, n_workers)
    scale = 1.0 / np.sqrt(np.maximum(spreads, 1.0))
    start = np.searchsorted(first, np.arange(n_workers + 1))  # pairs are in the order of the first
    values, shape = excess * scale[first] * scale[second], (n_workers, n_workers)
    table = sp.csr_matrix((values, second, start), shape=shape)
    part = np.asarray(spreads > 0, dtype=np.float64)
    for _ in range(int(np.clip(WORK / max(len(first), 1), *STEPS))):
        new = np.maximum(table @ part + table.T @ part, 0.0) + KEPT * part
        length = np.linalg.norm(new)
        if not length:
            break
        before, part = part, new / length
        if np.abs(part - before).max() < MOVED:
            break
    weight = part * scale
    order = np.argsort(-weight, kind="stable")
    return order[part[order] > 1e-4]
