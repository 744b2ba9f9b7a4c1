"""Cohen's kappa and AC1 of every pair of workers who share tasks, and Light's kappa, their mean.

>>> from quality import encode
>>> labels = encode(["ann", "bob", "cy"] * 4, np.repeat(np.arange(4), 3), list("xxyyyyxxyyxx"))
>>> pair_kappas(labels)
PairKappas(3 pairs, Light's kappa 0.067)
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int16, Int32, Int64

from quality.argument_types import check_arguments
from quality.labels import CrowdLabels, freeze_arrays, sort_codes
from quality.parallel import kernel

__all__ = ["PairKappas", "pair_kappas"]

MAX_MEETINGS = 50_000_000  # pairs of labels on one task: about 3 GB


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PairKappas:
    """Result of :func:`pair_kappas`, by worker codes.

    Parameters
    ----------
    pair
        The two worker codes, the lower first.
    n_common, n_agreed
        Number of tasks that both labelled, and of those on which they agree.
    kappa
        Cohen's kappa on those tasks; NaN if both gave one class throughout.
    ac1
        Gwet's AC1 on those tasks; NaN with one class.
    light
        Light's kappa: the mean of `kappa` over pairs with a defined one; NaN if there are none.
    """

    pair: Int32[np.ndarray, "pairs 2"]
    n_common: Int64[np.ndarray, " pairs"]
    n_agreed: Int64[np.ndarray, " pairs"]
    kappa: Float64[np.ndarray, " pairs"]
    ac1: Float64[np.ndarray, " pairs"]
    light: float

    def __post_init__(self) -> None:
        freeze_arrays(self)

    def __repr__(self) -> str:
        return f"PairKappas({len(self.pair)} pairs, Light's kappa {self.light:.3f})"


@check_arguments
def pair_kappas(labels: CrowdLabels, *, min_common: int = 1) -> PairKappas:
    """Measure how far every two workers agree beyond chance, on the tasks that both labelled.

    Parameters
    ----------
    labels
        The crowd's labels.
    min_common
        Pairs with fewer tasks in common are left out; at least 1.

    Raises
    ------
    ValueError
        If `min_common` is below 1, or if there are more than 50 million pairs of labels of one task.

    Notes
    -----
    **Guarantees.** The values do not depend on the order of tasks and classes.

    **Cost.** One sort of the pairs of labels of one task: for m labels a task, m (m - 1) / 2. Memory grows
    with these, and not with the classes.

    References
    ----------
    .. [1] Cohen, "A coefficient of agreement for nominal scales", Educational and Psychological
       Measurement 20 (1960).
    .. [2] Light, "Measures of response agreement for qualitative data", Psychological Bulletin 76 (1971).

    Examples
    --------
    >>> from quality import encode
    >>> labels = encode(["ann", "bob"] * 4, [1, 1, 2, 2, 3, 3, 4, 4], list("xxyyxxyx"))
    >>> pair_kappas(labels).kappa
    array([0.5])
    """
    if not min_common >= 1:
        raise ValueError(f"min_common must be >= 1, got min_common={min_common}")
    n_labels = np.diff(labels.task_start)
    n_meetings = int((n_labels * (n_labels - 1) // 2).sum())
    if n_meetings > MAX_MEETINGS:
        raise ValueError(
            f"at most {MAX_MEETINGS:,} pairs of labels of one task can be compared, got {n_meetings:,}: "
            "keep part of the workers or tasks"
        )
    key = np.empty(n_meetings, dtype=np.int64)
    row = np.empty((n_meetings, 2), dtype=np.int64)
    _list_meetings(labels.task_start, labels.worker, labels.n_workers, key, row)
    pairs, at, n_common = np.unique(key, return_inverse=True, return_counts=True)
    first, second = labels.label[row[:, 0]], labels.label[row[:, 1]]
    n_agreed = np.bincount(at, first == second, len(pairs))
    n_classes = labels.n_classes
    order, start = sort_codes(at, len(pairs))
    both, squares = np.zeros((2, len(pairs)))
    count = np.zeros((2, n_classes), dtype=np.int64)
    _add_products(order, start, first, second, count, both, squares)
    kappa = _beyond(n_agreed / n_common, both / n_common**2)
    # the classes' shares among both workers' labels add up to 1
    by_chance = (1 - (squares + 2 * both) / (2 * n_common) ** 2) / max(n_classes - 1, 1)
    ac1 = _beyond(n_agreed / n_common, by_chance if n_classes > 1 else np.ones(len(pairs)))
    keep = n_common >= min_common
    pair = np.column_stack(np.divmod(pairs, max(labels.n_workers, 1))).astype(np.int32)
    kept = kappa[keep]
    light = float(np.nanmean(kept)) if np.isfinite(kept).any() else float("nan")
    counts = n_common[keep].astype(np.int64), n_agreed[keep].astype(np.int64)
    return PairKappas(pair[keep], *counts, kept, ac1[keep], light)


def _beyond(agreed: np.ndarray, by_chance: np.ndarray) -> Float64[np.ndarray, " pairs"]:
    """Return agreement beyond chance; NaN if chance alone always agrees."""
    found = np.full(len(agreed), np.nan)
    np.divide(agreed - by_chance, 1 - by_chance, out=found, where=by_chance < 1)
    return found


@kernel
def _add_products(
    order: Int64[np.ndarray, " meetings"],
    start: Int64[np.ndarray, " pairs+1"],
    first: Int16[np.ndarray, " meetings"],
    second: Int16[np.ndarray, " meetings"],
    count: Int64[np.ndarray, "2 classes"],
    both: Float64[np.ndarray, " pairs"],
    squares: Float64[np.ndarray, " pairs"],
) -> None:
    """Add up products and squares of the two workers' counts of each class; `count` is 0 between pairs."""
    for pair in range(len(both)):
        for at in order[start[pair] : start[pair + 1]]:
            count[0, first[at]] += 1
            count[1, second[at]] += 1
        for at in order[start[pair] : start[pair + 1]]:
            for mine in (first[at], second[at]):
                one, other = count[0, mine], count[1, mine]
                both[pair] += one * other
                squares[pair] += one * one + other * other
                count[0, mine] = count[1, mine] = 0


@kernel
def _list_meetings(
    task_start: Int64[np.ndarray, " tasks+1"],
    worker: Int32[np.ndarray, " labels"],
    n_workers: int,
    key: Int64[np.ndarray, " meetings"],
    row: Int64[np.ndarray, "meetings 2"],
) -> None:
    """Write the two workers of each pair of labels of one task, and the rows of the labels."""
    at = 0
    for task in range(len(task_start) - 1):
        for one in range(task_start[task], task_start[task + 1]):
            for other in range(one + 1, task_start[task + 1]):
                key[at] = np.int64(worker[one]) * n_workers + worker[other]
                row[at, 0], row[at, 1] = one, other
                at += 1
