"""Candidate groups: sets of workers who all agree with each other more than their skills explain.

Pairs are joined in the order of their excess, as long as the joined parts stand out together. A group
is kept if its evidence exceeds the largest expected by chance among all groups of its size, and every
member's exceeds the largest expected by chance among all workers.

>>> pair = np.array([[0, 1], [0, 2], [1, 2], [2, 3]])
>>> candidate_groups(pair, np.array([6.0, 7.0, 6.5, 3.2]), np.full(4, 0.5), np.full(4, 50), 12, 12)
array([ 0,  0,  0, -1, -1, -1, -1, -1, -1, -1, -1, -1])
"""

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float64, Int, Int64
from scipy.special import gammaln

__all__ = ["FALSE_ALARM", "candidate_groups", "log_subsets"]

FALSE_ALARM = 0.01  # chance of a group of a given size if all answer on their own, by a union bound
LINK = 3.0  # standard errors by which parts of a group must stand out together
ALIKE = 0.25  # least mean z of the pairs between two parts, as a share of that of the joining pair
MIN_EXCESS = 0.15  # agreement beyond that expected, as a share of all that chance leaves
MAX_SHARE = 1 / 3  # of the workers: a larger group is the crowd, and not a clique


def log_subsets(n_workers: int, size: int) -> float:
    """Return the logarithm of the number of groups of a size."""
    return float(gammaln(n_workers + 1) - gammaln(size + 1) - gammaln(n_workers - size + 1))


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
            if excess[weakest] > 0.5 * np.delete(excess, weakest).mean():
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
