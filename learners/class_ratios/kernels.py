"""Gaussian kernels between bags of points: units of features, mean kernels, Nyström features.

k(x, x') = exp(-||x - x'||^2 / (2 s^2)). Halving s raises k to its fourth power, so one exponential and
two squarings a step give every bandwidth of a ladder s, s/2, s/4, ...: about the price of two
bandwidths instead of eleven. `set_gram` and `mean_kernel` are exact and in float64, because ten fourth
powers lose six digits; `NystroemMap` approximates the kernel from some hundred landmarks.

>>> mean_kernel(np.array([[0.0]]), [np.array([[0.0], [1.0]])], 1.0).round(4)
array([[0.8033]])
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from scipy.spatial.distance import pdist

__all__ = [
    "Bags",
    "LandmarkKernel",
    "NystroemMap",
    "bandwidth_ladder",
    "feature_scale",
    "fit_features",
    "mean_kernel",
    "median_distance",
    "set_gram",
    "spread_order",
    "spread_places",
    "spread_points",
]


HALVINGS = 10  # median * 2^-5 ... median * 2^5
MEDIAN_POINTS = 1000
BLOCK_CELLS = 2**18  # kernel values held at once: 2 MiB, which stays in a core's cache
RANK_TOLERANCE = 1e-10  # times the largest eigenvalue; directions below it are rounding

STRIP_ROWS = 64  # kernel values of so many with a thousand landmarks stay in a core's cache

FIT_LANDMARKS = 64

Bags = Sequence[Float[np.ndarray, "_ features"]]


def feature_scale(point: Float[np.ndarray, "points features"]) -> Float[np.ndarray, " features"]:
    """Return the unit of every feature, > 0, from the pooled points of all bags; inf for a constant feature.

    The unit is the standard deviation. For a feature with one value at more than half of the points, it
    is half of the root mean square distance of the other points from that value. For a feature of two
    values this is the standard deviation at equal shares: its own would let a rare value outweigh all
    other features. A constant feature shows no unit: divided by inf, any value of it is 0.

    Examples
    --------
    >>> feature_scale(np.array([[0.0, 7.0], [2.0, 7.0]]))
    array([ 1., inf])
    """
    with np.errstate(over="ignore", invalid="ignore"):
        scale = _deviation(point)
    odd = ~((scale > 0) & (scale < math.inf))
    if odd.any():  # constant, or of squares that vanish or are too large for a double
        peak = np.abs(point[:, odd]).max(axis=0)
        peak[peak == 0] = 1.0
        scale[odd] = peak * _deviation(point[:, odd] / peak)
    return np.where(scale > 0, scale, np.inf)


def _deviation(point: Float[np.ndarray, "points features"]) -> Float[np.ndarray, " features"]:
    """Return each feature's standard deviation, or half its root mean square distance from a value."""
    offset = point - np.median(point, axis=0)  # zero for most points if one value prevails
    n_other = np.count_nonzero(offset, axis=0)
    half = np.sqrt(np.square(offset).sum(axis=0) / np.maximum(n_other, 1)) / 2
    return np.asarray(np.where(2 * n_other < len(point), half, point.std(axis=0)))


def spread_points(bags: Bags, n_points: int) -> Float[np.ndarray, "points features"]:
    """Return about `n_points` points in all, of every bag in proportion to its size and at least one.

    A fixed permutation takes them, so that the choice depends neither on the order within a bag (sorted,
    say) nor on the order of the bags.

    Examples
    --------
    >>> spread_points([np.zeros((30, 2)), np.ones((10, 2))], 8).sum(axis=0)
    array([2., 2.])
    """
    places = spread_places([len(bag) for bag in bags], n_points)
    return np.concatenate([bag[chosen] for bag, chosen in zip(bags, places, strict=True)])


def spread_places(sizes: Sequence[int], n_points: int) -> list[Int[np.ndarray, " _"]]:
    """Return which points of each bag `spread_points` takes.

    Examples
    --------
    >>> [len(places) for places in spread_places([30, 10], 8)]
    [6, 2]
    """
    share = min(1.0, n_points / sum(sizes))
    return [spread_order(size)[: max(1, round(share * size))] for size in sizes]


def spread_order(size: int) -> Int[np.ndarray, " points"]:
    """Return the order in which `spread_points` takes the points of a bag of this size.

    Examples
    --------
    >>> sorted(spread_order(4).tolist())
    [0, 1, 2, 3]
    """
    return np.random.default_rng(0).permutation(size)


@dataclass(frozen=True, slots=True, eq=False)
class NystroemMap:
    """Features f(x) whose inner products approximate the kernel, exactly so between landmarks.

    f(x) = k(x, L) K_LL^(-1/2), L the landmarks: the projection of k(x, .) on their span. `root` is the
    root of the pseudo-inverse of K_LL.

    **Guarantees.** Inner products of features equal the kernel if one of the two points is a landmark,
    and no squared length exceeds 1, the kernel's own.
    **Cost.** For m landmarks m^3 once, m^2 per point.

    References
    ----------
    .. [1] Williams, Seeger, "Using the Nyström method to speed up kernel machines", NIPS (2000).

    Examples
    --------
    >>> line = np.linspace(0, 1, 5)[:, None]
    >>> features = NystroemMap.of(line, 0.5)(line)
    >>> float((features[0] @ features[4]).round(4))
    0.1353
    """

    landmark: Float[np.ndarray, "landmarks features"]
    bandwidth: float
    root: Float[np.ndarray, "landmarks directions"]

    @classmethod
    def of(
        cls, landmark: Float[np.ndarray, "landmarks features"], bandwidth: float
    ) -> "NystroemMap":
        """Build from the landmarks."""
        value, vector = np.linalg.eigh(_centred_gaussian(landmark, landmark, bandwidth))
        kept = value > RANK_TOLERANCE * value[-1]
        return cls(landmark, bandwidth, vector[:, kept] / np.sqrt(value[kept]))

    def __call__(
        self, x: Float[np.ndarray, "points features"]
    ) -> Float[np.ndarray, "points directions"]:
        """Return the features of points."""
        return np.asarray(_centred_gaussian(x, self.landmark, self.bandwidth) @ self.root)

    @property
    def kernel(self) -> "LandmarkKernel":
        """The kernel values that the features are made of, without `root`."""
        return LandmarkKernel(self.landmark, self.bandwidth)


@dataclass(frozen=True, slots=True, eq=False)
class LandmarkKernel:
    """Sums of the kernel of many points with landmarks, at a cost of m per point, not m^2.

    A sum or projection of a `NystroemMap`'s features is that of kernel values, times its `root`. Points are
    processed in strips, and the squared lengths are two more columns of the matrix product.

    Examples
    --------
    >>> line, one = np.linspace(0, 1, 5)[:, None], np.ones((5, 1))
    >>> features = NystroemMap.of(line, 0.5)
    >>> np.allclose(features.kernel.total(line) @ features.root, features(line).sum(axis=0))
    True
    >>> np.allclose(features.kernel.along(line, features.root @ one), features(line) @ one)
    True
    """

    landmark: Float[np.ndarray, "landmarks features"]
    bandwidth: float

    def total(self, x: Float[np.ndarray, "points features"]) -> Float[np.ndarray, " landmarks"]:
        """Return the sum over points of their kernel with each landmark."""
        total = np.zeros(len(self.landmark))
        for strip in self._strips(x):
            total += strip.sum(axis=0)
        return total

    def along(
        self, x: Float[np.ndarray, "points features"], span: Float[np.ndarray, "landmarks some"]
    ) -> Float[np.ndarray, "points some"]:
        """Return each point's kernel with the landmarks, weighted by every column of `span`."""
        found = [strip @ span for strip in self._strips(x)]
        return np.concatenate(found) if found else np.zeros((0, span.shape[1]))

    def _strips(self, x: Float[np.ndarray, "points features"]) -> Iterator[np.ndarray]:
        """Yield the kernel values of a few points at a time, in memory that the next ones overwrite."""
        centre = np.median(self.landmark, axis=0)
        point, other = (x - centre) / self.bandwidth, (self.landmark - centre) / self.bandwidth
        left = np.column_stack([point, _half_square(point), np.ones(len(point))])
        right = np.column_stack([other, np.ones(len(other)), _half_square(other)]).T.copy()
        memory = np.empty((min(STRIP_ROWS, len(x)), len(other)))
        for first in range(0, len(x), STRIP_ROWS):
            rows = left[first : first + STRIP_ROWS]
            with np.errstate(
                invalid="ignore"
            ):  # of points too far to be squared, whose kernel is 0
                product = np.matmul(rows, right, out=memory[: len(rows)])
            yield _exponential(product)


def _half_square(x: Float[np.ndarray, "points features"]) -> Float[np.ndarray, " points"]:
    return np.asarray(-0.5 * np.einsum("if,if->i", x, x))


def fit_features(bags: Bags) -> NystroemMap:
    """Return the features in which a test of fit compares means, from rescaled labelled bags.

    The map has 64 landmarks, and the root mean square distance of two points as bandwidth: so wide a kernel
    detects shifts of any feature, and covariances of so few directions are cheap.

    Examples
    --------
    >>> round(fit_features([np.zeros((30, 2)), np.ones((10, 2))]).bandwidth, 3)
    0.866
    """
    variance = float(np.concatenate(bags).var(axis=0).sum())
    return NystroemMap.of(spread_points(bags, FIT_LANDMARKS), math.sqrt(2 * variance) or 1.0)


def _centred_gaussian(
    x: Float[np.ndarray, "points features"],
    other: Float[np.ndarray, "landmarks features"],
    bandwidth: float,
) -> Float[np.ndarray, "points landmarks"]:
    """Return the Gaussian kernel; coordinates are about the landmarks' median, to keep digits."""
    centre = np.median(other, axis=0)
    return _gaussian((x - centre) / bandwidth, (other - centre) / bandwidth)


def median_distance(bags: Bags) -> float:
    """Return the median Euclidean distance between pairs of pooled points, > 0.

    With more than 1000 points, every k-th of each bag is used, about 1000 in all. A ValueError is raised if
    at least half of the pairs coincide.

    **Guarantees.** The order of the bags does not matter.

    Examples
    --------
    >>> median_distance([np.array([[0.0], [3.0]]), np.array([[4.0]])])
    3.0
    """
    stride = math.ceil(sum(map(len, bags)) / MEDIAN_POINTS)
    median = float(np.median(pdist(np.concatenate([bag[::stride] for bag in bags]))))
    if not median > 0:
        raise ValueError("bags must hold points that differ, got a median pairwise distance of 0")
    return median


def bandwidth_ladder(median: float) -> Float[np.ndarray, " bandwidths"]:
    """Return eleven bandwidths, median * 2^-5 to median * 2^5, ascending.

    Examples
    --------
    >>> bandwidth_ladder(1.0)[3:8]
    array([0.25, 0.5 , 1.  , 2.  , 4.  ])
    """
    half = HALVINGS // 2
    return median * 2.0 ** np.arange(-half, half + 1)


def set_gram(
    bags: Bags, bandwidth: Float[np.ndarray, " bandwidths"]
) -> Float[np.ndarray, "bandwidths bags bags"]:
    """Return the mean kernel value over all pairs of points of every two bags, at every bandwidth.

    G[s, i, j] = mean of k(x, x') over x in bag i, x' in bag j, pairs of a point with itself included. A
    ValueError is raised unless the bandwidths are positive, each twice the one before.

    **Guarantees.** Equals the double loop over pairs to ten digits; symmetric positive semi-definite for
    each bandwidth.
    **Cost.** n^2 / 2 exponentials for n points; memory for n floats and a block of 2 MiB.

    Examples
    --------
    >>> set_gram([np.array([[0.0]]), np.array([[1.0]])], np.array([0.5, 1.0]))[:, 0, 1].round(4)
    array([0.1353, 0.6065])
    """
    if not (bandwidth[0] > 0 and np.allclose(bandwidth[1:], 2 * bandwidth[:-1], rtol=1e-9, atol=0)):
        raise ValueError("bandwidth must be > 0 and double at every step")
    size = np.array([len(bag) for bag in bags])
    start = np.concatenate([[0], size.cumsum()])
    point = _centred(bags, bags) / bandwidth[-1]
    total = np.zeros((len(bandwidth), len(bags), len(bags)))
    for i in range(len(bags)):  # bag i against itself and the later ones: the rest is symmetric
        other, offset = point[start[i] :], start[i:-1] - start[i]
        for block in _blocks(point[start[i] : start[i + 1]], len(other)):
            kernel = _gaussian(block, other)
            for step in range(len(bandwidth) - 1, -1, -1):
                total[step, i, i:] += np.add.reduceat(kernel.sum(axis=0), offset)
                if step:
                    np.square(np.square(kernel, out=kernel), out=kernel)
    mean = total / np.outer(size, size)
    return mean + np.triu(mean, 1).swapaxes(1, 2)


def mean_kernel(
    x: Float[np.ndarray, "points features"], bags: Bags, bandwidth: float
) -> Float[np.ndarray, "points bags"]:
    """Return the mean kernel value, in [0, 1], of each point against the points of each bag.

    A ValueError is raised unless the bandwidth is positive and finite.

    **Guarantees.** Its average over the points of a bag is that bag's row of `set_gram`.

    Examples
    --------
    >>> mean_kernel(np.array([[0.0]]), [np.array([[0.0], [1.0]])], 2.0).round(4)
    array([[0.9412]])
    """
    if not 0 < bandwidth < math.inf:
        raise ValueError(f"bandwidth must be > 0 and finite, got bandwidth={bandwidth}")
    size = np.array([len(bag) for bag in bags])
    other = _centred(bags, bags) / bandwidth
    offset = np.concatenate([[0], size.cumsum()[:-1]])
    point = _centred([x], bags) / bandwidth
    sums = [
        np.add.reduceat(_gaussian(block, other), offset, axis=1)
        for block in _blocks(point, len(other))
    ]
    return np.asarray(np.concatenate(sums) / size)


def _centred(bags: Bags, reference: Bags) -> Float[np.ndarray, "points features"]:
    """Return the pooled points about the reference's median, so that squared distances lose fewer digits."""
    return np.asarray(np.concatenate(bags) - np.median(np.concatenate(reference), axis=0))


def _blocks(
    x: Float[np.ndarray, "points features"], n_columns: int
) -> list[Float[np.ndarray, "block features"]]:
    rows = max(1, BLOCK_CELLS // n_columns)
    return [x[first : first + rows] for first in range(0, len(x), rows)]


def _gaussian(
    x: Float[np.ndarray, "block features"], other: Float[np.ndarray, "points features"]
) -> Float[np.ndarray, "block points"]:
    """Return exp(-||x - x'||^2 / 2), with the bandwidth as unit."""
    exponent = x @ other.T
    exponent += _half_square(x)[:, None]
    exponent += _half_square(other)
    return _exponential(exponent)


def _exponential(
    exponent: Float[np.ndarray, "block points"],
) -> Float[np.ndarray, "block points"]:
    """Replace numbers by their exponentials, as if none were above zero.

    Each is within 5e-16 of the exact value, and about 0 where that is below 3e-308. NumPy computes them one
    by one on processors without AVX-512; this loop computes several at once on any, with the same bytes.
    """
    power = np.empty(exponent.shape[1])
    _compiled()(exponent, power, power.view(np.int64))
    return exponent


@cache
def _compiled() -> Any:
    """Return the loop, compiled at the first call: importing the room loads no numba."""
    from quality.parallel import kernel  # the numba decorator alone

    return kernel(_exponentiate)


LOG2_E = 1.4426950408889634
LN2, LN2_REST = 6.93147180369123816490e-01, 1.90821492927058770002e-10  # the first in few bits
TO_WHOLE = 1.5 * 2.0**52  # added to a double, it leaves the nearest whole number in the last bits
VANISHES = -709.0


def _exponentiate(
    exponent: Float[np.ndarray, "block points"],
    power: Float[np.ndarray, " points"],
    bits: Int[np.ndarray, " points"],
) -> None:
    """Write 2^k e^r, for whole k and least r: e^r by a power series, 2^k by the bits of a double.

    `power` and `bits` are the same memory, of one row. Loops without branches are compiled to vector code.
    """
    for row in range(exponent.shape[0]):
        for at in range(exponent.shape[1]):
            x = exponent[row, at]
            x = 0.0 if x > 0.0 else x
            x = VANISHES if x < VANISHES else x
            power[at] = x * LOG2_E + TO_WHOLE
            k = power[at] - TO_WHOLE
            r = (x - k * LN2) - k * LN2_REST
            r2 = r * r
            r4 = r2 * r2
            first = (1.0 + r) + r2 * (1 / 2 + r * (1 / 6))
            second = (1 / 24 + r * (1 / 120)) + r2 * (1 / 720 + r * (1 / 5040))
            third = (1 / 40320 + r * (1 / 362880)) + r2 * (1 / 3628800 + r * (1 / 39916800))
            last = 1 / 479001600 + r * (1 / 6227020800)
            exponent[row, at] = first + r4 * (second + r4 * (third + r4 * last))
        for at in range(exponent.shape[1]):
            bits[at] = (bits[at] + 1023) << 52
        for at in range(exponent.shape[1]):
            exponent[row, at] *= power[at]
