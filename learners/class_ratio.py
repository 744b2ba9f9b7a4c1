"""Class ratios of unlabelled bags, learned from bags whose class proportions alone are known.

Nobody needs to know the label of a single point: published, even noised, proportions of some bags of
points are enough to say what an unlabelled bag is made of. Assumed is that a class looks the same in
every bag, that only the mixture differs.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from jaxtyping import Float
from sklearn.base import BaseEstimator

from learners import mean_matching as matching
from learners.kernels import bandwidth_ladder, mean_kernel, median_distance, set_gram
from learners.simplex_qp import simplex_qp

__all__ = ["ClassRatio", "ClassRatioEstimator", "RatioDiagnostics"]

Bags = Sequence[Float[np.ndarray, "points features"]]

SIMPLEX_TOLERANCE = 1e-6
LARGEST_KERNEL_CONDITION = 1e8
POOR_MIXING = 50.0
FEW_POINTS = 30
FEW_LEFT_OUT = 3
WIDE = 0.5


@dataclass(frozen=True, slots=True, eq=False)
class RatioDiagnostics:
    """How far a class ratio can be trusted; `warnings` says it in sentences.

    Parameters
    ----------
    mixing_condition
        Condition number of the labelled bags' proportions: large where all bags are mixed alike.
    kernel_condition
        Condition number of H, the inner products of the classes' mean kernels: large where the
        features do not tell classes apart.
    identifiable
        Whether it is at most 1e8.
    effective_points
        As many labelled points of the class would estimate its mean kernel as well.
    bags_left_out
        Bags on which bandwidths were compared; 0 for a given bandwidth.
    error_left_out
        Mean L1 error on those bags at the chosen bandwidth; NaN for a given one.
    warnings
        What to know before acting on the ratio; empty if nothing.
    """

    mixing_condition: float
    kernel_condition: float
    identifiable: bool
    effective_points: Float[np.ndarray, " classes"]
    bags_left_out: int
    error_left_out: float
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ClassRatio:
    """Mixture weights of the classes in one bag.

    Parameters
    ----------
    ratio
        Estimate, on the simplex.
    interval
        Lower and upper end for each class separately; contains the estimate.
    level
        Confidence of one class's interval.
    bandwidth
        Of the kernel, after the features were divided by their standard deviations.
    diagnostics
        How far to trust it.
    """

    ratio: Float[np.ndarray, " classes"]
    interval: Float[np.ndarray, "classes ends"]
    level: float
    bandwidth: float
    diagnostics: RatioDiagnostics


class ClassRatioEstimator(BaseEstimator):  # type: ignore[misc]
    """Match the mean kernel of an unlabelled bag by a mixture of the classes' mean kernels.

    With Phi_i the mean kernel embedding of bag i, P its proportions (bags by classes) and W the bag
    sizes, the classes' embeddings are mu = Phi B, B = W P (P'W P)^-1, and the class ratio is

        argmin over the simplex of || mu r - Phi_U ||^2 = r'Hr - 2 f'r + const,
        H = B'G B, f = B'g, G_ij = <Phi_i, Phi_j>, g_i = <Phi_i, Phi_U>.

    Parameters
    ----------
    level
        Confidence of the intervals, in (0, 1).
    bandwidth
        Of the Gaussian kernel, after the features are divided by their standard deviations. None:
        chosen among median distance * 2^-5 ... 2^5 by leaving labelled bags out.

    Attributes
    ----------
    bandwidth_
        The bandwidth in use; of equally good ones the largest.
    error_left_out_
        Mean L1 error of the bags left out, for each of the eleven bandwidths; empty for a given one.

    Notes
    -----
    Features are divided by their pooled standard deviation, so that units do not matter.

    The interval is for the ratio of the population that the bag was drawn from. It is a parametric
    bootstrap of the quadratic program: f is perturbed by the sampling error of every bag (within
    classes for labelled bags, whose proportions describe these very points; in total for the
    unlabelled one), the proportions by the covariance of their noise. Its 512 draws are Sobol points
    with one fixed scramble: nodes of an integral, the same in every run.

    **Guarantees.** The ratio lies on the simplex and in its interval; the interval lies in [0, 1];
    relabelling the classes relabels the ratio; neither the order of the bags nor the units of the
    features matter to it; with as many bags as classes, a labelled bag that is handed in as unlabelled
    gets its own proportions back; nothing is random.
    **Privacy.** The proportions may be releases: what is computed from them costs nothing more. The
    features of all bags are used as they are, and the result is as private as they are.

    References
    ----------
    .. [1] Iyer, Nath, Sarawagi, "Privacy-preserving class ratio estimation", KDD (2016). Here the
       paper's problem is written for the classes, which is well posed for any number of bags.

    Examples
    --------
    >>> line = np.linspace(-1, 1, 50)[:, None]
    >>> bags = [np.vstack([line[: 50 - k], 5 + line[:k]]) for k in (10, 25, 40)]
    >>> estimator = ClassRatioEstimator().fit(bags, np.array([[0.8, 0.2], [0.5, 0.5], [0.2, 0.8]]))
    >>> estimator.predict(np.vstack([line[:35], 5 + line[:15]])).ratio.round(1)
    array([0.7, 0.3])
    """

    def __init__(self, *, level: float = 0.9, bandwidth: float | None = None) -> None:
        self.level = level
        self.bandwidth = bandwidth

    def fit(
        self,
        bags: Bags,
        proportions: Float[np.ndarray, "bags classes"],
        *,
        noise: Float[np.ndarray, "bags classes classes"] | None = None,
    ) -> Self:
        """Learn what each class looks like.

        Parameters
        ----------
        bags
            Points by features, one array per bag, two points at least in each.
        proportions
            Share of each class in each bag; rows on the simplex.
        noise
            Covariance of what was added to each bag's proportions before they were published; None
            where nothing was.

        Returns
        -------
        Self
            The estimator.

        Raises
        ------
        ValueError
            If a bag or its proportions break the conditions above, there are fewer bags than classes,
            the bags are mixed so alike that classes cannot be told apart, half of the points coincide,
            or no bag can be left out to choose the bandwidth.
        """
        self._check_parameters()
        mixture = _checked_proportions(proportions)
        points = _checked_bags(bags, len(mixture))
        covariance = _checked_noise(noise, mixture)
        size = np.array([len(point) for point in points])
        spread = np.concatenate(points).std(axis=0)
        self.scale_ = np.where(spread > 0, spread, 1.0)
        self.n_features_in_ = len(spread)
        self.bags_ = [point / self.scale_ for point in points]
        self.mixture_, self.size_ = mixture, size
        self.bandwidth_, gram = self._choose_bandwidth()
        self.weights_ = matching.class_weights(mixture, size)
        self.hessian_, reliability = matching.class_gram(gram, self.weights_, size)
        self.reliability_ = float(reliability)
        self.within_ = np.array(
            [
                matching.within_class_covariance(self._features(bag)[1], share, self.hessian_)
                for bag, share in zip(self.bags_, mixture, strict=True)
            ]
        )
        n_classes = mixture.shape[1]
        self.redrawn_weights_, self.redrawn_hessian_ = self.weights_, self.hessian_
        self.nodes_ = matching.normal_nodes(n_classes * (1 if covariance is None else 1 + len(size)))
        if covariance is not None:
            nodes = self.nodes_[:, n_classes:]
            self.redrawn_weights_ = matching.redrawn_weights(mixture, size, covariance, nodes)
            self.redrawn_hessian_, _ = matching.class_gram(gram, self.redrawn_weights_, size)
        return self

    def predict(self, bag: Float[np.ndarray, "points features"]) -> ClassRatio:
        """Class ratio of one unlabelled bag.

        Parameters
        ----------
        bag
            Points by features, two points at least.

        Returns
        -------
        ClassRatio
            Estimate, intervals and diagnostics.

        Raises
        ------
        ValueError
            If the bag does not fit those the estimator was trained on.
        """
        (point,) = _checked_bags([bag], 1)
        if not point.shape[1] == self.n_features_in_:
            raise ValueError(f"bag must have {self.n_features_in_} features, got {point.shape[1]}")
        kernel, feature = self._features(point / self.scale_)
        ratio = simplex_qp(self.hessian_, feature.mean(axis=0)).point
        error = np.cov(feature, rowvar=False) / len(point)
        error += np.einsum("b,bcd->cd", (self.weights_ @ ratio) ** 2 / self.size_, self.within_)
        linear = kernel.mean(axis=0) @ self.redrawn_weights_
        nodes = self.nodes_[:, : len(ratio)]
        drawn = matching.redrawn_ratios(self.redrawn_hessian_, linear, error, nodes)
        low, high = np.quantile(drawn, [(1 - self.level) / 2, (1 + self.level) / 2], axis=0)
        interval = np.stack([np.minimum(low, ratio), np.maximum(high, ratio)], axis=1)
        diagnostics = self._diagnose(interval)
        for array in (ratio, interval):
            array.setflags(write=False)
        return ClassRatio(ratio, interval, self.level, self.bandwidth_, diagnostics)

    def _check_parameters(self) -> None:
        if not 0 < self.level < 1:
            raise ValueError(f"level must be in (0, 1), got level={self.level}")
        if not (self.bandwidth is None or 0 < self.bandwidth < math.inf):
            raise ValueError(f"bandwidth must be > 0 and finite, got bandwidth={self.bandwidth}")

    def _choose_bandwidth(self) -> tuple[float, Float[np.ndarray, "bags bags"]]:
        """The bandwidth and its Gram matrix; records the errors of the bags left out."""
        self.n_left_out_, self.error_left_out_ = 0, np.zeros(0)
        median = median_distance(self.bags_)
        if self.bandwidth is not None:
            return self.bandwidth, set_gram(self.bags_, np.array([self.bandwidth]))[0]
        ladder = bandwidth_ladder(median)
        gram = set_gram(self.bags_, ladder)
        self.n_left_out_, self.error_left_out_ = matching.errors_left_out(
            gram, self.mixture_, self.size_
        )
        if not self.n_left_out_ > 0:
            n_bags, n_classes = self.mixture_.shape
            raise ValueError(
                "bags must be at least one more than the classes, and still tell them apart with one "
                f"bag left out, to choose the bandwidth: got {n_bags} bags of {n_classes} classes. "
                "Add a bag of other proportions, or give bandwidth"
            )
        chosen = int(np.flatnonzero(self.error_left_out_ == self.error_left_out_.min())[-1])
        return float(ladder[chosen]), gram[chosen]

    def _features(
        self, scaled: Float[np.ndarray, "points features"]
    ) -> tuple[Float[np.ndarray, "points bags"], Float[np.ndarray, "points classes"]]:
        """k(x), the mean kernel with each bag, and B'k(x), with each class."""
        kernel = mean_kernel(scaled, self.bags_, self.bandwidth_)
        return kernel, kernel @ self.weights_

    def _diagnose(self, interval: Float[np.ndarray, "classes ends"]) -> RatioDiagnostics:
        mixing = float(np.linalg.cond(self.mixture_))
        kernel = float(np.linalg.cond(self.hessian_))
        points = matching.effective_points(self.mixture_, self.size_)
        points.setflags(write=False)
        width = float((interval[:, 1] - interval[:, 0]).max())
        few = ", ".join(map(str, np.flatnonzero(points < FEW_POINTS)))
        doubts = (
            (
                mixing > POOR_MIXING,
                "The labelled groups have nearly the same class proportions, so what a class looks "
                "like is known only roughly; label groups that are mixed differently.",
            ),
            (
                not kernel <= LARGEST_KERNEL_CONDITION,
                "The features do not tell the classes apart; the ratio is not determined by them.",
            ),
            (
                few != "",
                f"Fewer than {FEW_POINTS} points' worth of evidence for class code {few}; "
                "label more groups where it occurs.",
            ),
            (
                0 < self.n_left_out_ < FEW_LEFT_OUT,
                f"The bandwidth was chosen on {self.n_left_out_} left-out group(s) only; "
                "label more groups.",
            ),
            (
                width > WIDE,
                f"An interval is {width:.2f} wide: the data hardly say what the ratio is.",
            ),
        )
        return RatioDiagnostics(
            mixing_condition=mixing,
            kernel_condition=kernel,
            identifiable=kernel <= LARGEST_KERNEL_CONDITION,
            effective_points=points,
            bags_left_out=self.n_left_out_,
            error_left_out=float(self.error_left_out_.min(initial=np.inf))
            if self.n_left_out_
            else math.nan,
            warnings=tuple(sentence for doubtful, sentence in doubts if doubtful),
        )


def _checked_proportions(
    proportions: Float[np.ndarray, "bags classes"],
) -> Float[np.ndarray, "bags classes"]:
    """A copy with rows exactly on the simplex, or a refusal."""
    mixture = np.array(proportions, dtype=np.float64)
    if not (mixture.ndim == 2 and mixture.shape[1] >= 2):
        raise ValueError(f"proportions must be bags by classes, got shape={mixture.shape}")
    if not len(mixture) >= mixture.shape[1]:
        raise ValueError(
            f"bags must be at least as many as classes, got {len(mixture)} bags of "
            f"{mixture.shape[1]} classes"
        )
    outside = ~(
        (np.abs(mixture.sum(axis=1) - 1) <= SIMPLEX_TOLERANCE)
        & (mixture >= -SIMPLEX_TOLERANCE).all(axis=1)
    )
    if outside.any():
        raise ValueError(
            f"proportions must be >= 0 and sum to 1 in every bag, bag {np.argmax(outside)} does not; "
            "project released proportions on the simplex first"
        )
    mixture = np.maximum(mixture, 0.0)
    mixture /= mixture.sum(axis=1, keepdims=True)
    condition = float(np.linalg.cond(mixture))
    if not condition <= matching.LARGEST_MIXING_CONDITION:
        raise ValueError(
            "proportions must differ enough between bags to tell the classes apart, got condition "
            f"number {condition:.1e} > {matching.LARGEST_MIXING_CONDITION:.0e}"
        )
    return mixture


def _checked_bags(bags: Bags, n_bags: int) -> list[Float[np.ndarray, "points features"]]:
    """Copies as float64, or a refusal."""
    if not len(bags) == n_bags:
        raise ValueError(f"bags must be one for each row of proportions, got {len(bags)} and {n_bags}")
    points = [np.array(bag, dtype=np.float64) for bag in bags]
    for position, point in enumerate(points):
        if not (point.ndim == 2 and len(point) >= 2 and point.shape[1] >= 1):
            raise ValueError(
                "bags must hold at least 2 points by 1 feature each, "
                f"got shape={point.shape} for bag {position}"
            )
        if not point.shape[1] == points[0].shape[1]:
            raise ValueError(
                f"bags must have the same features, got {points[0].shape[1]} in bag 0 and "
                f"{point.shape[1]} in bag {position}"
            )
        if not np.isfinite(point).all():
            raise ValueError(f"bags must be finite in every cell, bag {position} is not")
    return points


def _checked_noise(
    noise: Float[np.ndarray, "bags classes classes"] | None, mixture: Float[np.ndarray, "bags classes"]
) -> Float[np.ndarray, "bags classes classes"] | None:
    """Covariances, or a refusal."""
    if noise is None:
        return None
    covariance = np.array(noise, dtype=np.float64)
    if not covariance.shape == (*mixture.shape, mixture.shape[1]):
        raise ValueError(
            "noise must be one covariance of the classes per bag, "
            f"got shape={covariance.shape} for proportions of shape {mixture.shape}"
        )
    if not np.isfinite(covariance).all():
        raise ValueError("noise must be finite")
    symmetric = np.allclose(covariance, covariance.swapaxes(1, 2), rtol=1e-9, atol=1e-15)
    if not (symmetric and (np.linalg.eigvalsh(covariance) >= -1e-9 * np.abs(covariance).max()).all()):
        raise ValueError("noise must be symmetric and positive semi-definite in every bag")
    return covariance
