"""Match the mean of an unlabelled bag by a mixture of class means: the ratio and its interval.

Every embedding of points with known inner products (a kernel, the outputs of a classifier) needs only
this: a Gram matrix of the labelled bags' means, and each point's products with those means.

Noise in the proportions spreads them out, which brings the estimated class means nearer to each other
and pushes ratios to the ends; `NoisyShares` corrects for it by the noise's covariance.

>>> BagMean.of(np.array([[0.0, 1.0], [1.0, 0.0]]), np.eye(2)).linear
array([0.5, 0.5])
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int

from learners.class_ratios.mean_matching import (
    class_weights,
    corrected_class_gram,
    normal_nodes,
    redrawn_ratios,
    within_class_covariance,
)
from learners.class_ratios.simplex_qp import simplex_qp

__all__ = ["BagMean", "BagShares", "Covariances", "MatchedMeans", "NoisyShares", "covariances_of"]

MIN_KEPT = 0.5  # of a contrast's spread; a larger correction would leave mostly chance


@dataclass(frozen=True, slots=True, eq=False)
class NoisyShares:
    """Weights that make class means out of bag means whose proportions are noisy: errors in variables.

    Parameters
    ----------
    weights
        B = W P N^-1, W the bags' weights and N = P'WP less the noise's part in it.
    drift
        W_i C_i N^-1 for every bag, C_i its noise's covariance. Times a ratio, it is the shift of that
        ratio by the square of the bag's noise.

    Notes
    -----
    With P = P* + E and means mu P*_i of the bags, B = W P (P'WP)^-1 gives a bag of ratio r the ratio
    (I - E'B)^-1 r. Its expectation to second order in E is

        r + sum_i W_i (1 - h_i) C_i (P'WP)^-1 r,  h_i = W_i P_i' (P'WP)^-1 P_i:

    E'B r gives W_i C_i, of which (P'WP)^-1, as it moves with E, takes h_i back (a bag is not off from a
    fit that follows it); the term in which it moves otherwise cancels with that of (E'B)^2 r. So N is
    P'WP less sum_i W_i (1 - h_i) C_i, or less as much of that as leaves every contrast of classes half
    of its spread.

    **Guarantees.** Noise of zero changes no weight; a bag of the mean proportions keeps its ratio;
    every contrast keeps half of its spread; unless that limit binds, the mean ratio is right to second
    order in the noise.

    References
    ----------
    .. [1] Fuller, "Measurement error models", Wiley (1987): the correction by known error covariances,
       and why to stop short of all of it.
    .. [2] Nagar, "The bias and moment matrix of the general k-class estimators", Econometrica 27
       (1959): the same count of degrees of freedom for another estimator.

    Examples
    --------
    >>> swap = np.array([[1.0, -1.0], [-1.0, 1.0]])
    >>> mixture = np.array([[0.9, 0.1], [0.1, 0.9]] * 2)
    >>> exact = NoisyShares.of(mixture, np.ones(4), np.zeros((4, 2, 2)))
    >>> noisy = NoisyShares.of(mixture, np.ones(4), np.tile(0.01 * swap, (4, 1, 1)))
    >>> exact.weights[0].round(3), noisy.weights[0].round(3)
    (array([ 0.562, -0.062]), array([ 0.573, -0.073]))
    """

    weights: Float[np.ndarray, "bags classes"]
    drift: Float[np.ndarray, "bags classes classes"]

    @classmethod
    def of(
        cls,
        mixture: Float[np.ndarray, "bags classes"],
        weight: Float[np.ndarray, " bags"],
        noise: Float[np.ndarray, "bags classes classes"],
    ) -> "NoisyShares":
        """Build from proportions, the bags' weights and the covariances of the proportions' noise."""
        centre = np.eye(mixture.shape[1]) - 1.0 / mixture.shape[1]
        scaled = weight[:, None, None] * (centre @ noise @ centre)  # shares add up to 1, noise to 0
        normal = (mixture.T * weight) @ mixture
        leverage = weight * np.einsum("bc,cb->b", mixture, np.linalg.solve(normal, mixture.T))
        owed = np.tensordot(1.0 - leverage, scaled, 1)
        root = np.linalg.cholesky(normal)
        half = np.linalg.solve(root, owed)
        largest = float(np.linalg.eigvalsh(np.linalg.solve(root, half.T))[-1])
        part = (1.0 - MIN_KEPT) / max(largest, 1.0 - MIN_KEPT)
        inverse = np.linalg.inv(normal - part * owed)
        return cls(mixture * weight[:, None] @ inverse, scaled @ inverse)


ROUNDS = 4  # of redrawing; more rounds move no end by a hundredth of the interval

Covariances = Callable[
    [Float[np.ndarray, "bags classes"]], Iterable[Float[np.ndarray, "classes classes"]]
]


@runtime_checkable
class BagShares(Protocol):
    """Proportions, noise and sizes of labelled bags, without their points."""

    @property
    def mixture(self) -> Float[np.ndarray, "bags classes"]:
        """Share of each class in each bag."""

    @property
    def noise(self) -> Float[np.ndarray, "bags classes classes"] | None:
        """Covariance of the noise in each row of `mixture`; None without noise."""

    @property
    def size(self) -> Int[np.ndarray, " bags"]:
        """Points in each bag."""


@dataclass(frozen=True, slots=True, eq=False)
class BagMean:
    """Mean of an unlabelled bag's points in the embedding, and its sampling error.

    Parameters
    ----------
    linear
        f, mean over its points of B'k(x).
    error
        Covariance of f from the sampling of these points.

    Examples
    --------
    >>> BagMean.of(np.ones((3, 2)), np.eye(2)).error
    array([[0., 0.],
           [0., 0.]])
    """

    linear: Float[np.ndarray, " classes"]
    error: Float[np.ndarray, "classes classes"]

    @classmethod
    def of(
        cls, product: Float[np.ndarray, "points bags"], weights: Float[np.ndarray, "bags classes"]
    ) -> "BagMean":
        """Build from every point's inner products with the labelled bags' means."""
        feature = product @ weights
        return cls(feature.mean(axis=0), _covariance(feature) / (len(feature) - 1))


@dataclass(frozen=True, slots=True, eq=False)
class MatchedMeans:
    """Means of labelled bags in some embedding, and the class means that follow from them.

    Parameters
    ----------
    weights
        B, which makes class means out of bag means.
    hessian
        H, inner products of the class means, corrected for sampling error.
    reliability
        Reliability of H, as in `corrected_class_gram`.
    error
        Covariance of B'(Phi_i - mu P_i) for every bag: of the distance of its mean from that of its
        shares.
    gram
        G, inner products of the bags' means.
    own
        Mean inner product of a point with itself, per bag.
    drift
        Shift of a ratio by the square of the noise in a bag's proportions: `NoisyShares.drift`.

    Notes
    -----
    In units of ratios, noise of covariance C_i in a bag's proportions puts its mean tr C_i off in
    expected square, the sampling of its points v / n_i, v that of one point: tr J V J, V the covariance
    within classes of B'k(x) and J the inverse of H on contrasts. Bags weigh by the inverse of the sum,
    n_i / (1 + n_i tr(C_i) / v) up to a factor, with V and H by bag sizes first: feasible generalised
    least squares. `NoisyShares` restores the distance between classes that noise takes away. It leaves
    chance in the square of the noise E_i: for a ratio r, E_i E_i' y with y = W_i N^-1 r of bag i has
    covariance (y'C_i y) C_i + C_i y y'C_i under a normal law. The first term is in `error`, whose
    weight in r is that of P_i, noise included; the second is added from `drift`.

    **Guarantees.** Without noise bags weigh by their points; equal bags under equal noise weigh
    equally; more noise never makes a bag weigh more.

    References
    ----------
    .. [1] Aitken, "On least squares and linear combinations of observations", Proceedings of the Royal
       Society of Edinburgh 55 (1935).
    .. [2] Fieller, "Some problems in interval estimation", JRSS B 16 (1954).

    Examples
    --------
    >>> from learners.class_ratios.bags import LabelledBags
    >>> near, far = np.linspace(0, 1, 9)[:, None], np.linspace(5, 6, 9)[:, None]
    >>> bags = LabelledBags.of([near, far], np.eye(2))
    >>> mean = np.array([[0.5], [5.5]])  # plain means, inner products of numbers
    >>> products = [bag @ mean.T for bag in bags.points]
    >>> own = np.array([(bag**2).mean() for bag in bags.points])
    >>> means = MatchedMeans.of(bags, mean @ mean.T, own, covariances_of(products))
    >>> means.ratio(np.full((4, 1), 3.0) @ mean.T).round(2)
    array([0.5, 0.5])
    """

    weights: Float[np.ndarray, "bags classes"]
    hessian: Float[np.ndarray, "classes classes"]
    reliability: float
    error: Float[np.ndarray, "bags classes classes"]
    gram: Float[np.ndarray, "bags bags"]
    own: Float[np.ndarray, " bags"]
    drift: Float[np.ndarray, "bags classes classes"]

    @classmethod
    def of(
        cls,
        labelled: BagShares,
        gram: Float[np.ndarray, "bags bags"],
        own: Float[np.ndarray, " bags"],
        covariances: Covariances,
        *,
        dimension: float = math.inf,
    ) -> "MatchedMeans":
        """Build from the Gram matrix, points' mean inner products with themselves and `covariances_of`.

        `dimension` is the embedding's number of directions, as in `corrected_class_gram`.
        """
        size, mixture, noise = labelled.size, labelled.mixture, labelled.noise
        weights = class_weights(mixture, size)
        given = labelled, gram, own, covariances, dimension
        means = cls._weighted(*given, weights)
        if noise is None:
            return means
        slope = means.slope()
        point = np.trace(slope @ np.tensordot(size**2 / size.sum(), means.error, 1) @ slope)
        if point > 0 and noise.any():
            off = np.trace(noise, axis1=1, axis2=2)
            shares = NoisyShares.of(mixture, size / (1 + size * off / point), noise)
            means = replace(cls._weighted(*given, shares.weights), drift=shares.drift)
        noisy = means.error + means.hessian @ noise @ means.hessian
        return replace(means, error=noisy)

    @classmethod
    def _weighted(
        cls,
        labelled: BagShares,
        gram: Float[np.ndarray, "bags bags"],
        own: Float[np.ndarray, " bags"],
        covariances: Covariances,
        dimension: float,
        weights: Float[np.ndarray, "bags classes"],
    ) -> "MatchedMeans":
        """Build with these weights, for exact proportions."""
        size = labelled.size
        hessian, reliability = corrected_class_gram(gram, weights, size, own, dimension)
        error = [
            within_class_covariance(covariance, share, hessian) / n
            for covariance, share, n in zip(
                covariances(weights), labelled.mixture, size, strict=True
            )
        ]
        still = np.zeros((len(size), *hessian.shape))
        return cls(weights, hessian, reliability, np.array(error), gram, own, still)

    def bag_mean(self, product: Float[np.ndarray, "points bags"]) -> BagMean:
        """Return a bag's mean, from every point's inner products with the labelled bags' means."""
        return BagMean.of(product, self.weights)

    def ratio(
        self, bag: BagMean | Float[np.ndarray, "points bags"]
    ) -> Float[np.ndarray, " classes"]:
        """Return the mixture of classes whose mean is nearest to that of a bag."""
        mean = bag if isinstance(bag, BagMean) else self.bag_mean(bag)
        return simplex_qp(self.hessian, mean.linear).point

    def slope(self) -> Float[np.ndarray, "classes classes"]:
        """Return J, the ratio's derivative by f if no share is 0: the inverse of H on contrasts."""
        contrast = np.linalg.svd(np.ones((1, len(self.hessian))))[2][1:].T
        inverse = np.linalg.pinv(contrast.T @ self.hessian @ contrast)
        return np.asarray(contrast @ inverse @ contrast.T)

    def expected_error(self, product: Float[np.ndarray, "points bags"]) -> float:
        """Return the expected L1 error of these points' ratio by the delta method, for shares not near 0."""
        mean, slope = self.bag_mean(product), self.slope()
        error = self._error(mean, self.ratio(mean)[None])[0]
        variance = (slope @ error @ slope).diagonal()
        return float(np.sqrt(2 / np.pi * np.maximum(variance, 0.0)).sum())

    def interval(self, bag: BagMean, level: float) -> Float[np.ndarray, "classes ends"]:
        """Return the range of the ratio when the program is redrawn from the errors of all means and shares.

        The errors grow with a ratio's distance from the bags' mean, so each draw takes the errors at the
        ratio drawn, not at the estimate: for two classes the ends are those of Fieller's test.
        """
        ratio, nodes = self.ratio(bag), normal_nodes(len(bag.linear))
        drawn = ratio[None]
        for _ in range(ROUNDS):
            error = self._error(bag, drawn)
            drawn = redrawn_ratios(self.hessian, bag.linear, error, nodes)
        low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2], axis=0)
        return np.stack([np.minimum(low, ratio), np.maximum(high, ratio)], axis=1)

    def _error(
        self, bag: BagMean, ratio: Float[np.ndarray, "draws classes"]
    ) -> Float[np.ndarray, "draws classes classes"]:
        """Covariance of f - H r: the unlabelled bag's, and the labelled bags' by their weights."""
        combined = np.square(ratio @ self.weights.T)
        moved = np.einsum("bcd,nd->nbc", self.drift, ratio) @ self.hessian
        labelled = np.tensordot(combined, self.error, 1) + moved.swapaxes(1, 2) @ moved
        return np.asarray(bag.error + labelled)


def covariances_of(products: Sequence[Float[np.ndarray, "_ bags"]]) -> Covariances:
    """Return each bag's covariance of B'k(x) as a function of B, from its points' products with all bags.

    Examples
    --------
    >>> product = np.array([[0.0, 1.0], [1.0, 0.0]])
    >>> next(iter(covariances_of([product])(np.eye(2))))
    array([[ 0.25, -0.25],
           [-0.25,  0.25]])
    """
    return lambda weights: (_covariance(product @ weights) for product in products)


def _covariance(
    feature: Float[np.ndarray, "points classes"],
) -> Float[np.ndarray, "classes classes"]:
    """`numpy.cov` with the number of points as divisor, without its checks, which take longer."""
    offset = feature - feature.mean(axis=0)
    return np.asarray(offset.T @ offset / len(feature))
