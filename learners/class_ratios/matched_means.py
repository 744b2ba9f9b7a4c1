"""Match the mean of an unlabelled bag by a mixture of class means: the ratio and its interval.

Every embedding of points with known inner products (a kernel, the outputs of a classifier) needs only
this: a Gram matrix of the labelled bags' means, and each point's products with those means.

`MixtureFit` tests whether the bag is such a mixture at all.

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
    MIN_RELIABILITY,
    NoisyShares,
    best_reliability,
    class_weights,
    corrected_class_gram,
    normal_nodes,
    range_of_draws,
    redrawn_ratios,
    squares_tail,
    within_class_covariance,
)
from learners.class_ratios.simplex_qp import simplex_qp

__all__ = ["BagMean", "BagShares", "Covariances", "MatchedMeans", "MixtureFit", "covariances_of"]

TOWARDS_EQUAL = 2.0  # points of equal shares added where draws begin: at a share of 0 none moves
FEW = 20  # points of a bag that estimate its covariance as well as all labelled bags do
ROUNDS = 4  # of redrawing; more move an end by a hundredth of the interval, for two points by three
IMPOSSIBLE = -0.25  # within-class share of a spread; chance alone hardly makes it so low
TINY = float(np.finfo(float).tiny)
UNSURE = 0.25  # reliability at which an interval of several classes has twice its width

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
    size
        Number of these points; infinite if `error` is the whole error of f.

    Examples
    --------
    >>> BagMean.of(np.ones((3, 2)), np.eye(2)).error
    array([[0., 0.],
           [0., 0.]])
    """

    linear: Float[np.ndarray, " classes"]
    error: Float[np.ndarray, "classes classes"]
    size: float = math.inf

    @classmethod
    def of(
        cls, product: Float[np.ndarray, "points bags"], weights: Float[np.ndarray, "bags classes"]
    ) -> "BagMean":
        """Build from every point's inner products with the labelled bags' means."""
        feature = product @ weights
        n = len(feature)
        return cls(feature.mean(axis=0), _covariance(feature) / (n - 1), float(n))


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
        Covariance of B'(Phi_i - mu P_i) for every bag: of its mean less the mean that its shares
        imply.
    gram
        G, inner products of the bags' means.
    own
        Mean inner product of a point with itself, per bag.
    drift
        Shift of a ratio by the square of the noise in a bag's proportions: `NoisyShares.drift`.
    within
        Covariance of B'k(x) within classes, of all labelled bags together.
    clearest
        Reliability of the contrast of classes that is separated best; `reliability` is of the worst.

    Notes
    -----
    In units of ratios, noise of covariance C_i in a bag's proportions moves its mean by tr C_i in expected
    square, and the sampling of its points by v / n_i. Here v = tr J V J is that of one point, V the
    covariance within classes of B'k(x) and J the inverse of H on contrasts. Bags weigh by the inverse of the
    sum, n_i / (1 + n_i tr(C_i) / v) up to a factor; V and H come from weights by bag size (feasible GLS).
    `NoisyShares` restores the distance between classes that noise takes away. The square of the noise E_i
    remains random: for a ratio r, E_i E_i' y with y = W_i N^-1 r of bag i has
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
    within: Float[np.ndarray, "classes classes"]
    clearest: float = 1.0

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
        point = np.trace(slope @ means.within @ slope)
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
        clearest = best_reliability(gram, weights, size, own)
        whole = np.array(list(covariances(weights)))
        within = np.array(
            [
                within_class_covariance(covariance, share, hessian)
                for covariance, share in zip(whole, labelled.mixture, strict=True)
            ]
        )
        shares = _shares(*(np.average(one, axis=0, weights=size) for one in (within, whole)))
        if shares[0] < IMPOSSIBLE:  # such a distance of classes would exceed the spread of bags
            within = whole
            clearest = min(clearest, MIN_RELIABILITY / math.sqrt(max(1.0, 1.0 - shares[-1])))
        error, pooled = _errors_of_means(within, size)
        still = np.zeros_like(error)
        return cls(weights, hessian, reliability, error, gram, own, still, pooled, clearest)

    def bag_mean(self, product: Float[np.ndarray, "points bags"]) -> BagMean:
        """Return a bag's mean, from every point's inner products with the labelled bags' means."""
        return BagMean.of(product, self.weights)

    def ratio(
        self, bag: BagMean | Float[np.ndarray, "points bags"]
    ) -> Float[np.ndarray, " classes"]:
        """Return the mixture of classes whose mean is nearest to that of a bag."""
        return simplex_qp(self.hessian, self._mean_of(bag).linear).point

    def _mean_of(self, bag: BagMean | Float[np.ndarray, "points bags"]) -> BagMean:
        return bag if isinstance(bag, BagMean) else self.bag_mean(bag)

    def slope(self) -> Float[np.ndarray, "classes classes"]:
        """Return J, the ratio's derivative by f if no share is 0: the inverse of H on contrasts."""
        contrast = np.linalg.svd(np.ones((1, len(self.hessian))))[2][1:].T
        inverse = np.linalg.pinv(contrast.T @ self.hessian @ contrast)
        return np.asarray(contrast @ inverse @ contrast.T)

    def expected_error(self, bag: BagMean | Float[np.ndarray, "points bags"]) -> float:
        """Return the expected L1 error of a bag's ratio by the delta method, for shares not near 0."""
        mean, slope = self._mean_of(bag), self.slope()
        error = self._error(mean, self.ratio(mean)[None])[0]
        variance = (slope @ error @ slope).diagonal()
        return float(np.sqrt(2 / np.pi * np.maximum(variance, 0.0)).sum())

    def interval(self, bag: BagMean, level: float) -> Float[np.ndarray, "classes ends"]:
        """Return the range of the ratio when the program is redrawn from the errors of all means and shares.

        The errors grow with a ratio's distance from the bags' mean, so each draw takes the errors at the
        ratio drawn, not at the estimate: for two classes the ends are those of Fieller's test. For more,
        the distances between classes stay as they were estimated; below a reliability of one half, where
        their correction stops short (`corrected_class_gram`), both sides are widened by up to twice, at 1/4.
        If no contrast of classes has a reliability of one half, the estimated distances are all too large:
        both sides are widened by 1/2 over the reliability of the best contrast, and the interval is [0, 1]
        if the features show no distance at all.
        If the distance between classes alone exceeds the spread of the labelled bags' points, it is taken for
        chance: the whole spread counts as error, which widens the interval.
        """
        return self.intervals(bag, level)[0]

    def intervals(
        self, bag: BagMean, level: float
    ) -> tuple[Float[np.ndarray, "classes ends"], Float[np.ndarray, "boundaries ends"]]:
        """Return :meth:`interval`, and the same for the ratio's cumulative sums below the last class.

        Intervals of the sums hold together: the error that `level` allows is divided among them.
        """
        ratio, nodes = self.ratio(bag), normal_nodes(len(bag.linear))
        drawn = (ratio + TOWARDS_EQUAL / bag.size / len(ratio))[None]
        drawn /= drawn.sum()
        for _ in range(ROUNDS):
            error = self._error(bag, drawn)
            drawn = redrawn_ratios(self.hessian, bag.linear, error, nodes)
        each = 1 - (1 - level) / max(len(ratio) - 1, 1)
        sums = np.cumsum(drawn, axis=1)[:, :-1], np.cumsum(ratio)[:-1]
        return self._ends(drawn, ratio, level), self._ends(*sums, each)

    def _ends(
        self,
        drawn: Float[np.ndarray, "draws shares"],
        share: Float[np.ndarray, " shares"],
        level: float,
    ) -> Float[np.ndarray, "shares ends"]:
        """Return the range of redrawn shares about the estimate, widened by `_widening`."""
        if not self.clearest > 0:
            return np.tile([0.0, 1.0], (len(share), 1))
        ends = range_of_draws(drawn, share, level)
        widened = share[:, None] + self._widening() * (ends - share[:, None])
        return np.asarray(np.clip(widened, 0.0, 1.0))

    def _widening(self) -> float:
        """Return the factor that widens intervals; for three or more classes, set by simulations."""
        overstated = max(1.0, MIN_RELIABILITY / self.clearest)
        if len(self.hessian) == 2:
            return overstated
        lacking = (MIN_RELIABILITY - self.reliability) / (MIN_RELIABILITY - UNSURE)
        return max(overstated, 1.0 + min(max(lacking, 0.0), 1.0))

    def _error(
        self, bag: BagMean, ratio: Float[np.ndarray, "draws classes"]
    ) -> Float[np.ndarray, "draws classes classes"]:
        """Return the covariance of f - H r: the unlabelled bag's, and the labelled bags' by their weights."""
        combined = np.square(ratio @ self.weights.T)
        moved = np.einsum("bcd,nd->nbc", self.drift, ratio) @ self.hessian
        labelled = np.tensordot(combined, self.error, 1) + moved.swapaxes(1, 2) @ moved
        return np.asarray(self._sampling(bag, ratio) + labelled)

    def _sampling(
        self, bag: BagMean, ratio: Float[np.ndarray, "draws classes"]
    ) -> Float[np.ndarray, "*draws classes classes"]:
        """Return the covariance of f from the sampling of the unlabelled bag.

        Its points may be few, and all of one class. So the part between classes is computed at r, not at the
        estimate, and in the part within classes the labelled bags' points count as `FEW` more.
        """
        if bag.size == math.inf:
            return bag.error
        own = bag.error - self._between(self.ratio(bag)) / (bag.size - 1)
        lent = FEW / (bag.size - 1 + FEW)
        within = (1 - lent) * own + lent * self.within / bag.size
        return np.asarray(within + self._between(ratio) / bag.size)

    def _between(
        self, ratio: Float[np.ndarray, "*draws classes"]
    ) -> Float[np.ndarray, "*draws classes classes"]:
        """Return the covariance of f between classes, for one point whose class is drawn by the ratio."""
        return np.asarray(self.hessian @ _of_one_draw(ratio) @ self.hessian)


NEGLIGIBLE = 1e-18  # squared residual that is rounding, for features of square one
ENOUGH = 0.1  # p-value from which no further ratio is tried


@dataclass(frozen=True, slots=True, eq=False)
class MixtureFit:
    """Test of the hypothesis that an unlabelled bag is a mixture of the labelled bags' classes.

    Parameters
    ----------
    means
        The labelled bags, matched in an embedding of few directions.
    mean
        Mean of each labelled bag along the directions.
    error
        Covariance of mean_i - mu P_i for every bag, mu the class means: the error of a bag's mean by
        sampling and by the noise of the proportions.
    within
        Covariance of points within classes, of all labelled bags together.

    Notes
    -----
    The statistic is ||m - mu r||^2, m the bag's mean. Under the hypothesis and at the bag's ratio,
    m - mu r has expectation zero and the covariance S(r) = cov(m) + sum_i (B r)_i^2 error_i. Its square is
    distributed as the squares of normals weighted by the eigenvalues of S(r) (`squares_tail`).
    The bag's own points estimate cov(m), and so do the labelled ones, by `within` and the class means. Few
    points estimate it badly, so the larger p-value of both counts.
    Both are computed at the r that minimises ||m - mu r||^2 less the labelled bags' part of its expectation
    (the corrected H of `MatchedMeans`): at the true ratio that excess is no smaller. If classes hardly
    differ, that r may be far from the true one and S(r) too small, so the largest p-value counts, of that r
    and of all single classes. Points of a class never seen, or shifted features, move m away from every
    mu r; a shift that turns one mixture into another cannot be detected.

    **Guarantees.** Where the hypothesis holds, p-values below .005 come in at most one bag in a hundred
    (simulated: mixtures of 2 to 5 classes, with and without noise in the proportions).

    References
    ----------
    .. [1] Gretton et al., "A kernel two-sample test", JMLR 13 (2012): the statistic for two samples.

    Examples
    --------
    >>> from learners.class_ratios.bags import LabelledBags
    >>> low, high = np.linspace(0, 1, 50)[:, None], np.linspace(5, 6, 50)[:, None]
    >>> bags = LabelledBags.of([low, high], np.eye(2))
    >>> fit = MixtureFit.of_features(bags, bags.points)
    >>> fit.p_value(BagMean.of(np.vstack([low, high]), np.eye(1)))
    1.0
    >>> fit.p_value(BagMean.of(4 + high, np.eye(1))) < 1e-9
    True
    """

    means: MatchedMeans
    mean: Float[np.ndarray, "bags directions"]
    error: Float[np.ndarray, "bags directions directions"]
    within: Float[np.ndarray, "directions directions"]

    @classmethod
    def of(
        cls,
        labelled: BagShares,
        covariance: Sequence[Float[np.ndarray, "directions directions"]],
        mean: Float[np.ndarray, "bags directions"],
        own: Float[np.ndarray, " bags"],
    ) -> "MixtureFit":
        """Build from each labelled bag's covariance, mean, and mean square length along the directions."""

        def covariances(
            weights: Float[np.ndarray, "bags classes"],
        ) -> Iterable[Float[np.ndarray, "classes classes"]]:
            direction = mean.T @ weights
            return (direction.T @ one @ direction for one in covariance)

        means = MatchedMeans.of(labelled, mean @ mean.T, own, covariances)
        centre = mean.T @ means.weights
        own_within = np.array(covariance) - centre @ _of_one_draw(labelled.mixture) @ centre.T
        error, within = _errors_of_means(own_within, labelled.size)
        if labelled.noise is not None:
            error = error + centre @ labelled.noise @ centre.T
        return cls(means, mean, error, within)

    @classmethod
    def of_features(
        cls, labelled: BagShares, features: Sequence[Float[np.ndarray, "_ directions"]]
    ) -> "MixtureFit":
        """Build from the labelled bags' points along the directions."""
        own = np.array([np.square(feature).sum(axis=1).mean() for feature in features])
        mean = np.array([feature.mean(axis=0) for feature in features])
        return cls.of(labelled, [_covariance(feature) for feature in features], mean, own)

    def p_value(self, bag: BagMean) -> float:
        """Return the chance of so large a residual for a mixture; `bag` is the mean along the directions.

        Above a tenth, the chance may be larger than stated.
        """
        centre, chance = self.mean.T @ self.means.weights, 0.0
        nearest = simplex_qp(self.means.hessian, bag.linear @ centre).point
        for ratio in (nearest, *np.eye(len(nearest))):
            residual = bag.linear - centre @ ratio
            labelled = np.tensordot(np.square(self.means.weights @ ratio), self.error, 1)
            square = max(0.0, float(residual @ residual) - NEGLIGIBLE)
            expected = self.within + centre @ _of_one_draw(ratio) @ centre.T
            for own in (bag.error, expected / bag.size):
                spread = np.linalg.eigvalsh(own + labelled)
                chance = max(chance, squares_tail(np.maximum(spread, 0.0), square))
                if chance > ENOUGH:
                    return chance
        return chance


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


def _errors_of_means(
    within: Float[np.ndarray, "bags some some"], size: Int[np.ndarray, " bags"]
) -> tuple[Float[np.ndarray, "bags some some"], Float[np.ndarray, "some some"]]:
    """Return the covariances of bags' means by those of their points, of divisor n, and the latter pooled.

    Few points estimate their covariance badly, so all bags' points together count as `FEW` more.
    """
    free = (size - 1)[:, None, None]
    whole = within * (size[:, None, None] / free)
    pooled = np.average(whole, axis=0, weights=size - 1)
    lent = FEW / (free + FEW)
    return ((1 - lent) * whole + lent * pooled) / size[:, None, None], pooled


def _shares(
    part: Float[np.ndarray, "classes classes"], whole: Float[np.ndarray, "classes classes"]
) -> Float[np.ndarray, " contrasts"]:
    """Return a covariance's shares of another one, over the contrasts of classes, in increasing order."""
    contrast = np.linalg.svd(np.ones((1, len(whole))))[2][1:].T
    spread = contrast.T @ whole @ contrast
    rounding = max(1e-12 * float(np.trace(spread)), TINY) * np.eye(len(spread))
    root = np.linalg.cholesky(spread + rounding)
    half = np.linalg.solve(root, contrast.T @ part @ contrast)
    return np.linalg.eigvalsh(np.linalg.solve(root, half.T))


def _of_one_draw(
    ratio: Float[np.ndarray, "*draws classes"],
) -> Float[np.ndarray, "*draws classes classes"]:
    """Return the covariance of the indicators of a class that is drawn by the ratio."""
    return np.asarray(ratio[..., None] * (np.eye(ratio.shape[-1]) - ratio[..., None, :]))


def _covariance(
    feature: Float[np.ndarray, "points classes"],
) -> Float[np.ndarray, "classes classes"]:
    """Return `numpy.cov` with the number of points as divisor, without its checks, which take longer."""
    offset = feature - feature.mean(axis=0)
    return np.asarray(offset.T @ offset / len(feature))
