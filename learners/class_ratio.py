"""Class ratios of unlabelled bags, learned from bags whose class proportions alone are known.

Nobody needs to know the label of a single point: published, even noised, proportions of some bags of
points are enough to say what an unlabelled bag is made of. Assumed is that a class looks the same in
every bag, that only the mixture differs.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from sklearn.base import BaseEstimator

from learners import mean_matching as matching
from learners.kernels import bandwidth_ladder, mean_kernel, median_distance, set_gram
from learners.labelled_bags import LabelledBags, checked_bag
from learners.ratio_diagnostics import RatioDiagnostics, diagnose
from learners.simplex_qp import simplex_qp

__all__ = ["ClassRatio", "ClassRatioEstimator", "RatioDiagnostics"]

Bags = Sequence[Float[np.ndarray, "_ features"]]


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

    Examples
    --------
    >>> line = np.linspace(-1, 1, 40)[:, None]
    >>> bags = [np.vstack([line[:30], 9 + line[:10]]), np.vstack([line[:10], 9 + line[:30]])]
    >>> estimator = ClassRatioEstimator(bandwidth=1.0).fit(bags, np.array([[0.75, 0.25], [0.25, 0.75]]))
    >>> estimator.predict(np.vstack([line[:20], 9 + line[:20]])).diagnostics.identifiable
    True
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
    classes
        Names of the classes, for the warnings; None: their codes.

    Attributes
    ----------
    bandwidth_
        The bandwidth in use; of equally good ones the largest.
    error_left_out_
        Mean L1 error of the bags left out, for each of the eleven bandwidths; empty for a given one.

    Notes
    -----
    Features are divided by their pooled standard deviation, so that units do not matter. H is freed of
    its sampling error (`mean_matching.corrected_class_gram`), which would pull every ratio towards
    equal shares.

    The interval is for the ratio of the population that the bag was drawn from. It is a parametric
    bootstrap of the quadratic program: f is perturbed by the sampling error of every bag (within
    classes for labelled bags, whose proportions describe these very points; in total for the
    unlabelled one), the proportions by the covariance of their noise. Its 512 draws are Sobol points
    with one fixed scramble: nodes of an integral, the same in every run.

    **Guarantees.** The ratio lies on the simplex and in its interval; the interval lies in [0, 1];
    relabelling the classes relabels the ratio; neither the order of the bags nor the units of the
    features matter to it; the same arguments give the same bytes; what is given is left as it was.
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

    def __init__(
        self,
        *,
        level: float = 0.9,
        bandwidth: float | None = None,
        classes: Sequence[str] | None = None,
    ) -> None:
        self.level = level
        self.bandwidth = bandwidth
        self.classes = classes

    def fit(
        self,
        bags: Bags,
        proportions: Float[np.ndarray, "bags classes"],
        *,
        noise: Float[np.ndarray, "bags classes classes"] | None = None,
    ) -> "ClassRatioEstimator":
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
        ClassRatioEstimator
            The estimator.

        Raises
        ------
        ValueError
            If a bag or its proportions break the conditions above, there are fewer bags than classes,
            the bags are mixed so alike that classes cannot be told apart, half of the points coincide,
            or no bag can be left out to choose the bandwidth.
        """
        self._check_parameters()
        labelled = LabelledBags.of(bags, proportions, noise)
        spread = np.concatenate(labelled.points).std(axis=0)
        self.scale_ = np.where(spread > 0, spread, 1.0)
        self.n_features_in_ = len(spread)
        self.bags_ = [point / self.scale_ for point in labelled.points]
        self.mixture_, self.size_ = labelled.mixture, labelled.size
        self.bandwidth_, gram = self._choose_bandwidth()
        self.weights_ = matching.class_weights(self.mixture_, self.size_)
        self.hessian_, reliability = matching.corrected_class_gram(gram, self.weights_, self.size_)
        self.reliability_ = float(reliability)
        self.within_ = np.array(
            [
                matching.within_class_covariance(self._features(bag)[1], share, self.hessian_)
                for bag, share in zip(self.bags_, self.mixture_, strict=True)
            ]
        )
        self._redraw_proportions(gram, labelled.noise)
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
        point = checked_bag(bag, "bag")
        if not point.shape[1] == self.n_features_in_:
            raise ValueError(f"bag must have {self.n_features_in_} features, got {point.shape[1]}")
        kernel, feature = self._features(point / self.scale_)
        ratio = simplex_qp(self.hessian_, feature.mean(axis=0)).point
        error = np.cov(feature, rowvar=False) / len(point)
        error += np.einsum("b,bcd->cd", (self.weights_ @ ratio) ** 2 / self.size_, self.within_)
        linear = kernel.mean(axis=0) @ self.redrawn_weights_
        drawn = matching.redrawn_ratios(self.redrawn_hessian_, linear, error, self.nodes_)
        low, high = np.quantile(drawn, [(1 - self.level) / 2, (1 + self.level) / 2], axis=0)
        interval = np.stack([np.minimum(low, ratio), np.maximum(high, ratio)], axis=1)
        diagnostics = self._diagnose(float((interval[:, 1] - interval[:, 0]).max()))
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

    def _redraw_proportions(
        self,
        gram: Float[np.ndarray, "bags bags"],
        noise: Float[np.ndarray, "bags classes classes"] | None,
    ) -> None:
        """B and H once for every draw of the proportions, or as they are where these are exact."""
        n_classes = self.mixture_.shape[1]
        if noise is None:
            self.nodes_ = matching.normal_nodes(n_classes)
            self.redrawn_weights_, self.redrawn_hessian_ = self.weights_, self.hessian_
            return
        nodes = matching.normal_nodes(n_classes + self.mixture_.size)
        self.nodes_ = nodes[:, :n_classes]
        self.redrawn_weights_ = matching.redrawn_weights(
            self.mixture_, self.size_, noise, nodes[:, n_classes:]
        )
        self.redrawn_hessian_, _ = matching.corrected_class_gram(
            gram, self.redrawn_weights_, self.size_
        )

    def _features(
        self, scaled: Float[np.ndarray, "points features"]
    ) -> tuple[Float[np.ndarray, "points bags"], Float[np.ndarray, "points classes"]]:
        """k(x), the mean kernel with each bag, and B'k(x), with each class."""
        kernel = mean_kernel(scaled, self.bags_, self.bandwidth_)
        return kernel, kernel @ self.weights_

    def _diagnose(self, width: float) -> RatioDiagnostics:
        left_out = self.error_left_out_
        return diagnose(
            self.mixture_,
            self.hessian_,
            self.reliability_,
            matching.effective_points(self.mixture_, self.size_),
            self.n_left_out_,
            float(left_out.min()) if left_out.size else math.nan,
            width=width,
            classes=self.classes,
        )
