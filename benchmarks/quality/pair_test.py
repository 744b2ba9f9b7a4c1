"""A rival of `quality.dependent_groups`: pairs who give the same wrong-looking labels more than by chance.

The test is blind where a group outnumbers a fifth of the others, whose answers then look right.
"""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, Int16, Int32, Int64

from quality.labels import CrowdLabels, freeze_arrays
from quality.parallel import kernel

__all__ = ["CollusionPairs", "collusion_pairs"]

N_STRATA = 3  # others all agree, up to a tenth of them is against their majority, up to a fifth


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CollusionPairs:
    """Result of :func:`collusion_pairs`; the likeliest colluders first.

    Parameters
    ----------
    worker
        The two worker codes of each pair, the lower first.
    n_shared
        Tasks that both labelled and whose other workers have a clear majority.
    n_wrong
        On how many of those each of the two is against that majority.
    n_same
        On how many both are, with the same label.
    expected
        What that number would be on average, were they independent.
    p_value
        Chance of `n_same` or more, were they independent.
    flagged
        True for the pairs that stand out at the false discovery rate asked for.
    """

    worker: Int32[np.ndarray, "pairs 2"]
    n_shared: Int64[np.ndarray, " pairs"]
    n_wrong: Int64[np.ndarray, "pairs 2"]
    n_same: Int64[np.ndarray, " pairs"]
    expected: Float64[np.ndarray, " pairs"]
    p_value: Float64[np.ndarray, " pairs"]
    flagged: Bool[np.ndarray, " pairs"]

    def __post_init__(self) -> None:
        freeze_arrays(self)

    def __repr__(self) -> str:
        return (
            f"CollusionPairs({len(self.p_value)} pairs tested, "
            f"{np.count_nonzero(self.flagged)} flagged)"
        )


def collusion_pairs(
    labels: CrowdLabels, *, false_discovery_rate: float = 0.05, min_shared: int = 5
) -> CollusionPairs:
    """Test every pair of workers for shared labels that look wrong.

    A label looks wrong if four fifths of the task's workers *other than the two* gave another; where
    they agree less nothing is reported, since their majority is too often wrong itself, and every right
    label then looks wrong. Given how often each of the two looks wrong, the tasks on which both do
    are a random draw if they are independent: a hypergeometric count, one for every level of the
    others' disagreement, since honest workers err together on hard tasks. The p-value is exact for
    the sum; pairs are flagged by Benjamini and Hochberg's rule.

    Parameters
    ----------
    labels
        The crowd's labels.
    false_discovery_rate
        Expected share of innocent pairs among those flagged, in (0, 1).
    min_shared
        Pairs with fewer shared tasks are not tested; at least 1.

    Returns
    -------
    CollusionPairs
        By p-value, then by worker codes.

    Raises
    ------
    ValueError
        If a parameter is out of its range.

    Notes
    -----
    **Guarantees.** Where every pair's wrong-looking labels are independent given the level of
    disagreement, a p-value is at most x with probability at most x. With more than two classes it
    errs on the safe side. Renaming workers, tasks or classes changes nothing but the order of
    equals. The result is the same on every run.

    **Limits.** Difficulty is known only as far as others disagree; workers who share a
    misunderstanding, or always give the same class, look like colluders. Colluders who outnumber
    the others on their tasks *are* the majority there, and make the honest ones look wrong
    together: look at both sides of a flagged group. Pairs share workers, while the false discovery
    rate is proved for independent tests.

    **Cost.** One step for each pair of labels on the same task.

    References
    ----------
    .. [1] Benjamini, Hochberg, "Controlling the false discovery rate", Journal of the Royal
       Statistical Society B 57 (1995).

    Examples
    --------
    Ann, bob and cy are right throughout; dan and eve make the same mistakes.

    >>> from quality import encode
    >>> tasks = np.repeat(np.arange(20), 5)
    >>> wrong = (np.arange(20) % 3 == 0)[tasks]
    >>> worker = np.tile(["ann", "bob", "cy", "dan", "eve"], 20)
    >>> labels = encode(worker, tasks, np.where(wrong & np.isin(worker, ["dan", "eve"]), "n", "y"))
    >>> pairs = collusion_pairs(labels)
    >>> pairs
    CollusionPairs(10 pairs tested, 1 flagged)
    >>> labels.workers[pairs.worker[0]]
    array(['dan', 'eve'], dtype='<U3')
    """
    if not 0 < false_discovery_rate < 1:
        message = f"must be in (0, 1), got false_discovery_rate={false_discovery_rate}"
        raise ValueError(f"false_discovery_rate {message}")
    if not min_shared >= 1:
        raise ValueError(f"min_shared must be >= 1, got min_shared={min_shared}")
    n_labels = np.diff(labels.task_start)
    size = int((n_labels * (n_labels - 1) // 2).sum())
    key, stratum = np.empty((2, size), dtype=np.int64)
    wrong = np.empty((3, size), dtype=np.bool_)
    count = np.zeros(labels.n_classes, dtype=np.int64)
    rows = labels.task_start, labels.worker, labels.label
    n_met = _meetings(*rows, labels.n_workers, count, key, stratum, wrong)
    key, stratum, (first, second, same) = key[:n_met], stratum[:n_met], wrong[:, :n_met]
    pair, code, n_shared = np.unique(key, return_inverse=True, return_counts=True)
    tested = n_shared >= min_shared
    cell = code * N_STRATA + stratum
    shape = (len(pair), N_STRATA)
    shared, wrong_first, wrong_second = (
        np.bincount(cell, weight, math.prod(shape)).reshape(shape)[tested].astype(np.int64)
        for weight in (None, first, second)
    )
    n_same = np.bincount(code, same, len(pair))[tested].astype(np.int64)
    p_value = np.ones(len(n_same))
    _upper_tails(shared, wrong_first, wrong_second, n_same, p_value)
    expected = (wrong_first * wrong_second / np.maximum(shared, 1)).sum(axis=1)
    worker = np.column_stack(np.divmod(pair[tested], max(labels.n_workers, 1))).astype(np.int32)
    order = np.lexsort((worker[:, 1], worker[:, 0], p_value))
    n_wrong = np.column_stack([wrong_first.sum(axis=1), wrong_second.sum(axis=1)])
    return CollusionPairs(
        worker=worker[order],
        n_shared=n_shared[tested][order],
        n_wrong=n_wrong[order],
        n_same=n_same[order],
        expected=expected[order],
        p_value=p_value[order],
        flagged=_stand_out(p_value[order], false_discovery_rate),
    )


def _stand_out(p_value: Float64[np.ndarray, " pairs"], rate: float) -> Bool[np.ndarray, " pairs"]:
    """Benjamini and Hochberg's rule on ascending p-values."""
    rank = np.arange(1, len(p_value) + 1)
    below = np.flatnonzero(p_value <= rate * rank / max(len(p_value), 1))
    return rank <= (below[-1] + 1 if len(below) else 0)


@kernel
def _meetings(
    task_start: Int64[np.ndarray, " tasks+1"],
    worker: Int32[np.ndarray, " labels"],
    label: Int16[np.ndarray, " labels"],
    n_workers: int,
    count: Int64[np.ndarray, " classes"],
    key: Int64[np.ndarray, " pairs"],
    stratum: Int64[np.ndarray, " pairs"],
    wrong: Bool[np.ndarray, "3 pairs"],
) -> int:
    """Write each pair of labels on a task that is clear without them; return how many there are.

    Of each: the pair of workers, the stratum, and whether the first, the second, and both alike look wrong.
    """
    n_classes, n_met = len(count), 0
    for task in range(len(task_start) - 1):
        start, stop = task_start[task], task_start[task + 1]
        for given in range(n_classes):
            count[given] = 0
        for row in range(start, stop):
            count[label[row]] += 1
        for row in range(start, stop):
            for other in range(row + 1, stop):
                count[label[row]] -= 1
                count[label[other]] -= 1
                best = 0
                for given in range(1, n_classes):
                    if count[given] > count[best]:
                        best = given
                n_best = count[best]
                count[label[row]] += 1
                count[label[other]] += 1
                against = stop - start - 2 - n_best
                if n_best == 0 or 5 * against > stop - start - 2:
                    continue
                key[n_met] = np.int64(worker[row]) * n_workers + worker[other]
                stratum[n_met] = -((-10 * against) // (stop - start - 2))
                wrong[0, n_met] = label[row] != best
                wrong[1, n_met] = label[other] != best
                wrong[2, n_met] = label[row] != best and label[row] == label[other]
                n_met += 1
    return n_met


@kernel
def _upper_tails(
    shared: Int64[np.ndarray, "pairs strata"],
    first: Int64[np.ndarray, "pairs strata"],
    second: Int64[np.ndarray, "pairs strata"],
    n_same: Int64[np.ndarray, " pairs"],
    tail: Float64[np.ndarray, " pairs"],
) -> None:
    """Write P(sum of the strata's hypergeometric counts >= n_same)."""
    for pair in range(len(n_same)):
        if n_same[pair] == 0:
            continue
        longest = 1
        for s in range(shared.shape[1]):
            longest += min(first[pair, s], second[pair, s])
        # of each total so far, and of the next
        chance, total = np.zeros(longest), np.zeros(longest)
        chance[0], size = 1.0, 1
        for s in range(shared.shape[1]):
            n, a, b = shared[pair, s], first[pair, s], second[pair, s]
            low, high = max(0, a + b - n), min(a, b)
            if high == 0:
                continue
            for reached in range(longest):
                total[reached] = 0.0
            for both in range(low, high + 1):
                log_chance = (
                    math.lgamma(a + 1) - math.lgamma(both + 1) - math.lgamma(a - both + 1)
                    + math.lgamma(n - a + 1) - math.lgamma(b - both + 1)
                    - math.lgamma(n - a - b + both + 1)
                    - math.lgamma(n + 1) + math.lgamma(b + 1) + math.lgamma(n - b + 1)
                )  # fmt: skip
                for before in range(size):
                    total[both + before] += chance[before] * math.exp(log_chance)
            size += high
            chance, total = total, chance
        beyond = 0.0
        for reached in range(n_same[pair], size):
            beyond += chance[reached]
        tail[pair] = min(beyond, 1.0)
