"""Kernel mean matching (MMD): class ratios from the mean kernels of labelled bags.

>>> bags = LabelledBags.of([np.zeros((5, 1)), np.ones((5, 1))], np.eye(2))
>>> means, product = KernelMatching(bandwidth=0.5).fit(bags).match(np.array([[0.0], [1.0]]))
>>> means.ratio(product).round(3)
array([0.5, 0.5])
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Float

from learners.class_ratios.bags import LabelledBags
from learners.class_ratios.kernels import (
    NystroemMap,
    bandwidth_ladder,
    mean_kernel,
    median_distance,
    set_gram,
    spread_points,
)
from learners.class_ratios.matched_means import MatchedMeans, covariances_of
from learners.class_ratios.mean_matching import errors_left_out, parts_left_out
from learners.class_ratios.trials import Match, Trial

__all__ = [
    "EXACT_POINTS",
    "KernelMatcher",
    "KernelMatching",
    "NystroemMatcher",
    "best_bandwidth",
    "n_landmarks",
]

EXACT_POINTS = 20_000
MAX_LANDMARKS = 1200
LANDMARKS_PER_ROOT = 4


@dataclass(frozen=True, slots=True)
class KernelMatching:
    """Match the mean kernel of an unlabelled bag by a mixture of the classes' mean kernels.

    With Phi_i the mean kernel embedding of bag i, P its proportions (bags by classes) and W the bag
    sizes, the classes' embeddings are mu = Phi B, B = W P (P'W P)^-1, and the class ratio is

        argmin over the simplex of || mu r - Phi_U ||^2 = r'Hr - 2 f'r + const,
        H = B'G B, f = B'g, G_ij = <Phi_i, Phi_j>, g_i = <Phi_i, Phi_U>.

    Parameters
    ----------
    bandwidth
        Bandwidth of the Gaussian kernel. None: `trial` chooses among median distance * 2^-5 ... 2^5.

    Raises
    ------
    ValueError
        If a given bandwidth is not > 0 and finite.

    Notes
    -----
    H is corrected for its sampling error (`corrected_class_gram`), which would pull every ratio towards
    equal shares. The kernel is exact up to 20,000 points; above, it is approximated from
    min(1200, 4 sqrt(n)) landmarks (`NystroemMap`).

    References
    ----------
    .. [1] Iyer, Nath, Sarawagi, "Privacy-preserving class ratio estimation", KDD (2016). Here the
       paper's problem is solved for the classes, which is well posed for any number of bags.

    Examples
    --------
    >>> KernelMatching(bandwidth=2.0)
    KernelMatching(bandwidth=2.0)
    """

    bandwidth: float | None = None
    name: ClassVar[str] = "kernel mean matching"

    def __post_init__(self) -> None:
        if not (self.bandwidth is None or 0 < self.bandwidth < math.inf):
            raise ValueError(f"bandwidth must be > 0 and finite, got bandwidth={self.bandwidth}")

    def trial(self, labelled: LabelledBags) -> Trial:
        """Choose the bandwidth, and return the errors on bags left out."""
        bandwidth, error, weight = best_bandwidth(labelled)
        method = KernelMatching(bandwidth)
        return Trial(method, error, _expected_left_out(method.fit(labelled), labelled), weight)

    def fit(self, labelled: LabelledBags) -> "KernelMatcher | NystroemMatcher":
        """Train on all bags."""
        if self.bandwidth is None:
            raise ValueError("bandwidth must be given or chosen by trial before fit, got None")
        exact = labelled.size.sum() <= EXACT_POINTS
        return (KernelMatcher if exact else NystroemMatcher).of(labelled, self.bandwidth)


@dataclass(frozen=True, slots=True, eq=False)
class KernelMatcher:
    """`KernelMatching` trained with the exact kernel.

    Examples
    --------
    >>> bags = LabelledBags.of([np.zeros((5, 1)), np.ones((5, 1))], np.eye(2))
    >>> means, product = KernelMatcher.of(bags, 0.5).match(np.array([[0.0], [1.0]]))
    >>> means.ratio(product).round(3)
    array([0.5, 0.5])
    """

    points: tuple[Float[np.ndarray, "_ features"], ...]
    bandwidth: float
    means: MatchedMeans

    @classmethod
    def of(cls, labelled: LabelledBags, bandwidth: float) -> "KernelMatcher":
        """Compute the kernel of every point with every bag, once."""
        points = labelled.points
        products = [mean_kernel(bag, points, bandwidth) for bag in points]
        gram = np.array([product.mean(axis=0) for product in products])
        gram = (gram + gram.T) / 2
        means = MatchedMeans.of(labelled, gram, np.ones(len(points)), covariances_of(products))
        return cls(points, bandwidth, means)

    def match(self, point: Float[np.ndarray, "points features"]) -> Match:
        """Return the means, and the mean kernel of each point with each bag."""
        return self.means, mean_kernel(point, self.points, self.bandwidth)


@dataclass(frozen=True, slots=True, eq=False)
class NystroemMatcher:
    """`KernelMatching` trained with the kernel approximated from landmarks.

    Examples
    --------
    >>> bags = LabelledBags.of([np.zeros((5, 1)), np.ones((5, 1))], np.eye(2))
    >>> means, product = NystroemMatcher.of(bags, 0.5).match(np.array([[0.0], [1.0]]))
    >>> means.ratio(product).round(3)
    array([0.5, 0.5])
    """

    features: NystroemMap
    mean: Float[np.ndarray, "bags directions"]
    bandwidth: float
    means: MatchedMeans

    @classmethod
    def of(cls, labelled: LabelledBags, bandwidth: float) -> "NystroemMatcher":
        """Compute every point's features, a bag at a time."""
        features = NystroemMap.of(_landmarks(labelled.points), bandwidth)
        mean = np.array([features(bag).mean(axis=0) for bag in labelled.points])
        own = np.array([np.square(features(bag)).sum(axis=1).mean() for bag in labelled.points])
        products = [features(bag) @ mean.T for bag in labelled.points]
        means = MatchedMeans.of(labelled, mean @ mean.T, own, covariances_of(products))
        return cls(features, mean, bandwidth, means)

    def match(self, point: Float[np.ndarray, "points features"]) -> Match:
        """Return the means, and the inner product of each point's features with each bag's mean."""
        return self.means, self.features(point) @ self.mean.T


def best_bandwidth(
    labelled: LabelledBags,
) -> tuple[float, Float[np.ndarray, " left"], Float[np.ndarray, " left"]]:
    """Return the bandwidth with least error on bags left out, those errors, and the bags' weights.

    Ties go to the largest bandwidth.

    Examples
    --------
    >>> line = np.linspace(-1, 1, 50)[:, None]
    >>> bags = [np.vstack([line[: 50 - k], 5 + line[:k]]) for k in (10, 25, 40)]
    >>> labelled = LabelledBags.of(bags, np.array([[0.8, 0.2], [0.5, 0.5], [0.2, 0.8]]))
    >>> bandwidth, error, weight = best_bandwidth(labelled)
    >>> len(error), weight
    (3, array([50., 50., 50.]))
    """
    ladder = bandwidth_ladder(median_distance(labelled.points))
    exact = labelled.size.sum() <= EXACT_POINTS
    gram = (set_gram if exact else _landmark_gram)(labelled.points, ladder)
    error = errors_left_out(gram, labelled.mixture, labelled.evidence)
    weight = labelled.evidence[np.concatenate(parts_left_out(labelled.mixture))]
    total = error @ weight
    chosen = int(np.flatnonzero(total == total.min())[-1])
    return float(ladder[chosen]), error[chosen], weight


def _expected_left_out(matcher: "KernelMatcher | NystroemMatcher", labelled: LabelledBags) -> float:
    """Return the expected error on bags left out; kernels are not computed again."""
    means, expected = matcher.means, []
    products = [matcher.match(point)[1] for point in labelled.points]
    for part in parts_left_out(labelled.mixture):
        rest = np.setdiff1d(np.arange(len(products)), part)
        gram = means.gram[rest[:, None], rest]
        covariances = covariances_of([products[bag][:, rest] for bag in rest])
        left = MatchedMeans.of(labelled.only(rest), gram, means.own[rest], covariances)
        expected += [left.expected_error(products[bag][:, rest]) for bag in part]
    return float(np.mean(expected))


def _landmarks(
    points: Sequence[Float[np.ndarray, "_ features"]],
) -> Float[np.ndarray, "landmarks features"]:
    return spread_points(points, n_landmarks(sum(map(len, points))))


def n_landmarks(n_points: int) -> int:
    """Return the number of landmarks for n points, min(1200, 4 sqrt(n)).

    Examples
    --------
    >>> n_landmarks(10_000), n_landmarks(10**6)
    (400, 1200)
    """
    return min(MAX_LANDMARKS, int(LANDMARKS_PER_ROOT * n_points**0.5))


def _landmark_gram(
    points: Sequence[Float[np.ndarray, "_ features"]],
    ladder: Float[np.ndarray, " bandwidths"],
) -> Float[np.ndarray, "bandwidths bags bags"]:
    """Return `set_gram`, approximated from landmarks."""
    landmark, gram = _landmarks(points), []
    for bandwidth in ladder:
        features = NystroemMap.of(landmark, float(bandwidth))
        mean = np.array([features(bag).mean(axis=0) for bag in points])
        gram.append(mean @ mean.T)
    return np.array(gram)
