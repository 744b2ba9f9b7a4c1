"""Match the mean of an unlabelled bag by a mixture of class means: the ratio and its interval.

Every way of embedding points whose inner products can be had (a kernel, outputs of a classifier)
comes down to this: a Gram matrix of the labelled bags' means, and each point's products with them.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from learners import mean_matching as matching
from learners.labelled_bags import LabelledBags
from learners.simplex_qp import simplex_qp

__all__ = ["MatchedMeans", "ProportionDraws"]


@dataclass(frozen=True, slots=True, eq=False)
class ProportionDraws:
    """Nodes of the intervals' integral; proportions redrawn from their noise at each of them.

    Parameters
    ----------
    nodes
        Standard normal points for the sampling error.
    weights
        `class_weights` of the redrawn proportions; the one of the published where there is no noise.

    Examples
    --------
    >>> bags = LabelledBags.of([np.zeros((5, 1)), np.ones((7, 1))], np.array([[0.9, 0.1], [0.2, 0.8]]))
    >>> ProportionDraws.of(bags).nodes.shape
    (512, 2)
    """

    nodes: Float[np.ndarray, "draws classes"]
    weights: Float[np.ndarray, "*draws bags classes"]

    @classmethod
    def of(cls, labelled: LabelledBags) -> "ProportionDraws":
        """Draw, always the same."""
        mixture, size = labelled.mixture, labelled.size
        n_classes = mixture.shape[1]
        if labelled.noise is None:
            return cls(matching.normal_nodes(n_classes), matching.class_weights(mixture, size))
        nodes = matching.normal_nodes(n_classes + mixture.size)
        redrawn = matching.redrawn_weights(mixture, size, labelled.noise, nodes[:, n_classes:])
        return cls(nodes[:, :n_classes], redrawn)


@dataclass(frozen=True, slots=True, eq=False)
class MatchedMeans:
    """Means of labelled bags in some embedding, and what they say of the classes.

    Parameters
    ----------
    gram
        G, inner products of the bags' means.
    own
        Mean inner product of a point with itself, per bag.
    weights
        B, which makes class means out of bag means.
    size
        Points in each bag.
    hessian
        H, inner products of the classes' means, freed of sampling error.
    reliability
        Of H, as in `corrected_class_gram`.
    within
        Covariance within classes of B'k(x), per bag.

    Examples
    --------
    >>> near, far = np.linspace(0, 1, 9)[:, None], np.linspace(5, 6, 9)[:, None]
    >>> bags = LabelledBags.of([near, far], np.eye(2))
    >>> mean = np.array([[0.5], [5.5]])  # plain means, inner products of numbers
    >>> products = [bag @ mean.T for bag in bags.points]
    >>> own = np.array([(bag**2).mean() for bag in bags.points])
    >>> means = MatchedMeans.of(bags, mean @ mean.T, own, products)
    >>> means.ratio(np.full((4, 1), 3.0) @ mean.T).round(2)
    array([0.5, 0.5])
    """

    gram: Float[np.ndarray, "bags bags"]
    own: Float[np.ndarray, " bags"]
    weights: Float[np.ndarray, "bags classes"]
    size: Int[np.ndarray, " bags"]
    hessian: Float[np.ndarray, "classes classes"]
    reliability: float
    within: Float[np.ndarray, "bags classes classes"]

    @classmethod
    def of(
        cls,
        labelled: LabelledBags,
        gram: Float[np.ndarray, "bags bags"],
        own: Float[np.ndarray, " bags"],
        products: Iterable[Float[np.ndarray, "_ bags"]],
    ) -> "MatchedMeans":
        """From the Gram matrix and the product of every labelled point with every bag's mean."""
        size = labelled.size
        weights = matching.class_weights(labelled.mixture, size)
        hessian, reliability = matching.corrected_class_gram(gram, weights, size, own)
        within = [
            matching.within_class_covariance(product @ weights, share, hessian)
            for product, share in zip(products, labelled.mixture, strict=True)
        ]
        return cls(gram, own, weights, size, hessian, float(reliability), np.array(within))

    def ratio(self, product: Float[np.ndarray, "points bags"]) -> Float[np.ndarray, " classes"]:
        """Mixture of classes whose mean is nearest to that of these points."""
        return simplex_qp(self.hessian, product.mean(axis=0) @ self.weights).point

    def expected_error(self, product: Float[np.ndarray, "points bags"]) -> float:
        """Expected L1 error of the ratio of these points by the delta method, were no share near 0."""
        error = self._error(product)
        contrast = np.linalg.svd(np.ones((1, len(error))))[2][1:].T
        slope = contrast @ np.linalg.pinv(contrast.T @ self.hessian @ contrast) @ contrast.T
        variance = (slope @ error @ slope).diagonal()
        return float(np.sqrt(2 / np.pi * np.maximum(variance, 0.0)).sum())

    def interval(
        self,
        product: Float[np.ndarray, "points bags"],
        draws: ProportionDraws,
        level: float,
    ) -> Float[np.ndarray, "classes ends"]:
        """Range of the ratio when the program is redrawn from the errors of all means and proportions."""
        ratio, error, hessian = self.ratio(product), self._error(product), self.hessian
        if draws.weights.ndim == 3:
            hessian, _ = matching.corrected_class_gram(
                self.gram, draws.weights, self.size, self.own
            )
        linear = product.mean(axis=0) @ draws.weights
        drawn = matching.redrawn_ratios(hessian, linear, error, draws.nodes)
        low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2], axis=0)
        return np.stack([np.minimum(low, ratio), np.maximum(high, ratio)], axis=1)

    def _error(
        self, product: Float[np.ndarray, "points bags"]
    ) -> Float[np.ndarray, "classes classes"]:
        """Covariance of f - H r from the sampling of all bags."""
        error = np.cov(product @ self.weights, rowvar=False) / len(product)
        combined = (self.weights @ self.ratio(product)) ** 2 / self.size
        return np.asarray(error + np.einsum("b,bcd->cd", combined, self.within))
