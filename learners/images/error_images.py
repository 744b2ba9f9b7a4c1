"""Which features go with the crowd's errors: a permutation test over all features at once.

>>> rng = np.random.default_rng(0)
>>> x, gold = rng.normal(size=(300, 4)), rng.integers(2, size=300)
>>> crowd = np.where(x[:, 2] > 1, 1 - gold, gold)
>>> error_image_test(x, gold, crowd, rng=rng).significant()
array([2])
"""

from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from jaxtyping import Float, Int, Shaped

__all__ = ["ErrorImage", "error_image_test"]

MIN_OF_A_KIND = 2  # tasks right, and wrong, that a class needs to be compared
_CHUNK = 256  # permutations at once, or fewer of very many tasks
_MAX_DRAWN = 4_000_000  # numbers of these: 100 MB with their order


@dataclass(frozen=True, slots=True, eq=False)
class ErrorImage:
    """Result of :func:`error_image_test`.

    Parameters
    ----------
    classes
        Gold classes that had tasks both right and wrong.
    statistic
        Student's t of each feature, wrong against right, in each of these classes; 0 where a feature is
        constant.
    p_value
        Family-wise: the chance of a value as large anywhere, if errors had nothing to do with any feature.
    n_wrong, n_right
        Tasks of each class.
    """

    classes: Shaped[np.ndarray, " classes"]
    statistic: Float[np.ndarray, "classes features"]
    p_value: Float[np.ndarray, "classes features"]
    n_wrong: Int[np.ndarray, " classes"]
    n_right: Int[np.ndarray, " classes"]

    def significant(self, level: float = 0.05) -> Int[np.ndarray, " found"]:
        """Return the features whose p-value is at most the level in some class, in order."""
        return np.flatnonzero((self.p_value <= level).any(axis=0))


def error_image_test(
    x: Float[np.ndarray, "tasks features"],
    gold: Any,
    crowd: Any,
    *,
    n_permutations: int = 999,
    rng: np.random.Generator,
) -> ErrorImage:
    """Compare, inside each gold class, the tasks that the crowd got wrong with those it got right.

    Parameters
    ----------
    x
        Features of the tasks.
    gold, crowd
        True class of each task, and the crowd's.
    n_permutations
        Permutations of errors among a class's tasks, at least 1; the least p-value is 1 / (their number + 1).
    rng
        Draws them.

    Raises
    ------
    ValueError
        If lengths differ, a feature is not finite, or no class has 2 tasks wrong and 2 right.

    Notes
    -----
    **Guarantees.** Where errors strike the tasks of a class at random, whatever their features are like,
    any feature is reported with probability at most the level: the largest of all t values is compared
    with the largest of each permutation (max-T). A report means that a feature goes with errors, not that
    it causes them.

    **Cost.** O(tasks features n_permutations).

    References
    ----------
    .. [1] Westfall, Young, "Resampling-based multiple testing", 1993.
    .. [2] Nichols, Holmes, "Nonparametric permutation tests for functional neuroimaging", Human Brain
       Mapping 15 (2002).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x, gold = rng.normal(size=(100, 3)), np.zeros(100, int)
    >>> error_image_test(x, gold, (rng.random(100) < 0.2).astype(int), rng=rng).significant()
    array([], dtype=int64)
    """
    x, gold, crowd = np.asarray(x, dtype=np.float64), np.asarray(gold), np.asarray(crowd)
    if not (x.ndim == 2 and gold.shape == crowd.shape == (len(x),)):
        raise ValueError(
            "x must be a matrix, gold and crowd of equal length, got shapes"
            f" {x.shape}, {gold.shape} and {crowd.shape}"
        )
    wrong = gold != crowd
    if not np.isfinite(x).all():
        row, column = np.argwhere(~np.isfinite(x))[0]
        raise ValueError(
            f"features must be finite, got {x[row, column]} at row {row}, column {column}"
        )
    if not (isinstance(n_permutations, Integral) and n_permutations >= 1):
        raise ValueError(
            f"n_permutations must be >= 1 and whole, got n_permutations={n_permutations!r}"
        )
    try:
        members = {one: gold == one for one in np.unique(gold)}
    except TypeError:
        kinds_of = sorted({type(one).__name__ for one in gold.tolist()})
        raise ValueError(
            f"gold must be a class of one kind for each task, got {', '.join(kinds_of)}"
        ) from None
    kinds = {one: (int(wrong[of].sum()), int((~wrong)[of].sum())) for one, of in members.items()}
    compared = [one for one, both in kinds.items() if min(both) >= MIN_OF_A_KIND]
    if not compared:
        raise ValueError(
            f"a class must have {MIN_OF_A_KIND} tasks wrong and {MIN_OF_A_KIND} right, got (wrong, right) "
            + ", ".join(f"{one}: {both}" for one, both in kinds.items())
        )
    statistic, largest = [], np.zeros(n_permutations)
    for one in compared:
        observed, permuted = _t_values(x[members[one]], wrong[members[one]], n_permutations, rng)
        statistic.append(observed)
        largest = np.maximum(largest, permuted)
    observed = np.stack(statistic)
    larger = n_permutations - np.searchsorted(np.sort(largest), np.abs(observed) * (1 - 1e-9))
    counts = np.array([kinds[one] for one in compared])
    p_value = (1 + larger) / (1 + n_permutations)
    return ErrorImage(np.array(compared), observed, p_value, counts[:, 0], counts[:, 1])


def _t_values(
    x: Float[np.ndarray, "members features"], wrong: Shaped[np.ndarray, " members"],
    n_permutations: int, rng: np.random.Generator,
) -> tuple[Float[np.ndarray, " features"], Float[np.ndarray, " permutations"]]:  # fmt: skip
    """Return Student's t of each feature, and the largest of each permutation of the errors."""
    n, n_wrong = len(x), int(wrong.sum())
    x = np.ldexp(
        x, -np.frexp(np.abs(x).max(axis=0, initial=0))[1]
    )  # exact, and no square is too large
    centred = x - x.mean(axis=0)
    total = np.square(centred).sum(axis=0)
    # by each feature's own scale, whatever that of others, such as milliseconds since 1970
    varies = total > 1e-20 * n * np.maximum(np.square(x).max(axis=0, initial=0), 1e-300)
    centred, total = centred[:, varies], total[varies]

    def t(errors: Float[np.ndarray, "members some"]) -> Float[np.ndarray, "some features"]:
        difference = errors.T @ centred * (n / (n_wrong * (n - n_wrong)))
        between = np.square(difference) * (n_wrong * (n - n_wrong) / n)
        within = np.maximum(total - between, 1e-12 * total)
        return np.asarray(np.sign(difference) * np.sqrt(between / within * (n - 2)))

    found = np.zeros(x.shape[1])
    found[varies] = t(wrong[:, None].astype(float))[0]
    largest = []
    chunk = min(_CHUNK, max(_MAX_DRAWN // n, 1))
    for at in range(0, n_permutations, chunk):
        order = rng.random((n, min(chunk, n_permutations - at))).argsort(axis=0)
        largest.append(np.abs(t((order < n_wrong).astype(float))).max(axis=1, initial=0))
    return found, np.concatenate(largest)
