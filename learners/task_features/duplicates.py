"""Pairs of tasks whose features point the same way: one task, most likely, that came in twice.

>>> import numpy as np
>>> rng = np.random.default_rng(0)
>>> features = rng.normal(size=(1000, 16))
>>> features[700] = features[3] + 0.01 * rng.normal(size=16)
>>> near_duplicates(features)
NearDuplicates(1 pair)

Features are centred and scaled, and a pair's cosine is compared with a threshold. The threshold bounds
the distance of two unit vectors, and so their distance along any direction. Tasks are sorted along the
first principal direction, and a block is compared only with tasks near enough on it; then along the
first few directions at once, and those still near in full.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Float64, Int64
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from privacy.query import numbers

__all__ = ["NearDuplicates", "near_duplicates", "within_squares"]

LEAST = 0.99  # cosine of near-duplicates, of centred and scaled features
MAX_PAIRS = 1_000
BLOCK, OTHERS = 256, 2048  # tasks compared at once, and with how many
AT_ONCE = 65_536  # pairs whose cosine is computed at once
FIRST = 16  # principal directions that are looked at before all
FITTED = 10_000  # tasks that the directions are found from, evenly spread
LEAST_PEAK = 1e-140  # of a feature: squares of a smaller one, and of its inverse, leave the doubles
FLAT = 1e-12  # spread over size, of a feature that is the same for every task
ROUNDING = 1e-4  # of single precision


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class NearDuplicates:
    """Result of :func:`near_duplicates`.

    Parameters
    ----------
    pair
        Places of two tasks, the smaller first; the most alike pair first.
    cosine
        Cosine of each pair.
    complete
        False where there are more pairs than were listed.
    """

    pair: Int64[np.ndarray, "pairs 2"]
    cosine: Float64[np.ndarray, " pairs"]
    complete: bool

    def __post_init__(self) -> None:
        self.pair.setflags(write=False)
        self.cosine.setflags(write=False)

    def __repr__(self) -> str:
        n = len(self.pair)
        return f"NearDuplicates({'' if self.complete else 'more than '}{n} pair{'s' * (n != 1)})"


def near_duplicates(
    features: Float[np.ndarray, "tasks features"], *, least: float = LEAST
) -> NearDuplicates:
    """List the pairs of tasks whose centred and scaled features have at least this cosine.

    Parameters
    ----------
    features
        Finite numbers.
    least
        The cosine, in (0, 1).

    Raises
    ------
    ValueError
        If the features are not a table of finite numbers or `least` is out of its range.

    Notes
    -----
    **Guarantees.** Every pair with such a cosine is listed, up to the rounding of single precision,
    unless there are more than 1,000: then 1,000 are, and `complete` is False. Scaling or shifting a
    column changes nothing but the rounding. A task whose features are all average is in no pair.

    **Limits.** With few features many tasks point the same way by chance.

    **Cost.** At worst every pair along 16 directions; O(tasks * features) memory.

    Examples
    --------
    >>> import numpy as np
    >>> found = near_duplicates(np.array([[1.0, 2, 3], [1, 2, 3.01], [-3, 1, 0], [0, -5, 1]]))
    >>> found.pair, found.cosine.round(3)
    (array([[0, 1]]), array([1.]))
    """
    features = numbers("features", features)
    if not features.ndim == 2:
        raise ValueError(f"features must be tasks by features, got shape={features.shape}")
    if not np.isfinite(features).all():
        raise ValueError("features must be finite")
    if not 0 < least < 1:
        raise ValueError(f"least must be in (0, 1), got least={least}")
    unit, place = _unit_rows(features)
    far = float(np.sqrt(2.0 - 2.0 * least)) + ROUNDING  # between unit vectors of that cosine
    turned = unit @ _directions(unit)
    order = np.argsort(turned[:, :1].ravel(), kind="stable")
    unit, turned, place = unit[order], turned[order], place[order]
    pairs: list[np.ndarray] = []
    cosines: list[np.ndarray] = []
    n_found = 0
    with threadpool_limits(limits=1):  # for products so small others would wait, and spin
        for one, other in _near(turned, far):
            cosine = np.einsum("pf,pf->p", unit[one], unit[other], dtype=np.float64)
            alike = cosine >= least
            if alike.any():
                pairs.append(place[np.column_stack([one[alike], other[alike]])])
                cosines.append(cosine[alike])
                n_found += int(alike.sum())
            if n_found > MAX_PAIRS:
                break
    pair = np.sort(np.concatenate(pairs or [np.zeros((0, 2), dtype=np.int64)]), axis=1)
    cosine = np.concatenate(cosines or [np.zeros(0)])
    best = np.lexsort((pair[:, 1], pair[:, 0], -cosine))[:MAX_PAIRS]
    return NearDuplicates(pair[best], np.minimum(cosine[best], 1.0), n_found <= MAX_PAIRS)


def _unit_rows(
    features: np.ndarray,
) -> tuple[Float[np.ndarray, "kept features"], Int64[np.ndarray, " kept"]]:
    """Return centred and scaled rows of length 1, and their tasks; average rows are left out."""
    if not features.size:
        return features.astype(np.float32)[:0], np.zeros(0, dtype=np.int64)
    features, peak = within_squares(features)
    # less the first row: otherwise a constant would differ from the mean of many, which is rounded
    scaled = features.astype(np.float64) - features[0]
    scaled -= scaled.mean(axis=0)
    spread = np.sqrt(np.einsum("tf,tf->f", scaled, scaled) / len(scaled))
    flat = spread <= FLAT * peak  # what is left of a constant is rounding
    scaled /= np.where(flat, np.inf, spread)
    length = np.sqrt(np.einsum("tf,tf->t", scaled, scaled))
    place = np.flatnonzero(length > 1e-9)
    return (scaled[place] / length[place, None]).astype(np.float32), place


def within_squares(features: np.ndarray) -> tuple[np.ndarray, Float[np.ndarray, " features"]]:
    """Return features, those whose squares vanish or overflow divided by their peak, and the peaks then.

    >>> within_squares(np.array([[1e200, 3.0], [-5e199, -4.0]]))
    (array([[ 1. ,  3. ],
           [-0.5, -4. ]]), array([1., 4.]))
    """
    # no table of its size is made; short floats have no 1e140, and whole numbers may have no sign
    most, least = (end(axis=0).astype(np.float64) for end in (features.max, features.min))
    peak = np.maximum(most, -least)
    odd = (peak > 0) & ~((peak > LEAST_PEAK) & (peak < 1 / LEAST_PEAK))
    if not odd.any():
        return features, peak
    return features / np.where(odd, peak, 1.0), np.where(odd, 1.0, peak)


def _directions(unit: np.ndarray) -> Float[np.ndarray, "features first"]:
    """Return the first principal directions of the rows."""
    part = unit[:: max(1, len(unit) // FITTED)].astype(np.float64)
    values, vectors = np.linalg.eigh(part.T @ part)
    return np.asarray(vectors[:, np.argsort(-values)[:FIRST]], dtype=np.float32)


def _near(
    turned: Float[np.ndarray, "rows first"], far: float
) -> Iterator[tuple[Int64[np.ndarray, " near"], Int64[np.ndarray, " near"]]]:
    """Yield pairs of a row and a later one that are near along the first directions, sorted by the first.

    One product gives the squared distances of some rows from some others, few enough to stay in the cache.
    """
    square, ones = (turned**2).sum(axis=1), np.ones(len(turned), dtype=turned.dtype)
    left = np.column_stack([turned, square, ones])
    right = np.column_stack([-2.0 * turned, ones, square])
    for low in range(0, len(turned), BLOCK):
        high = min(low + BLOCK, len(turned))
        end = int(np.searchsorted(turned[:, 0], turned[high - 1, 0] + far, side="right"))
        for first in range(low, max(end, high), OTHERS):
            last = min(first + OTHERS, max(end, high))
            is_near = left[low:high] @ right[first:last].T <= far**2 + ROUNDING
            if first < high:
                is_near = np.triu(is_near, k=1 + low - first)
            found = np.flatnonzero(is_near)
            for at in range(0, len(found), AT_ONCE):
                one, other = np.divmod(found[at : at + AT_ONCE], last - first)
                yield one + low, other + first
