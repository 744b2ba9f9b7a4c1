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
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from learners import mean_matching as matching
from learners.boosted_trees import BoostedTrees
from learners.kernel_matching import KernelMatching
from learners.kernel_witness import KernelWitness
from learners.labelled_bags import LabelledBags, checked_bag
from learners.matched_means import MatchedMeans
from learners.ratio_diagnostics import RatioDiagnostics, diagnose
from learners.ratio_selection import RatioMethod, Trial, preferred

__all__ = ["ClassRatio", "ClassRatioEstimator", "RatioDiagnostics"]

MOST_TREE_CELLS = 4_000_000  # points by features by classes; beyond, trees take minutes

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
        Of the method's kernel, after the features were rescaled; None where it has no kernel.
    diagnostics
        How far to trust it.
    method
        What found it.

    Examples
    --------
    >>> line = np.linspace(-1, 1, 40)[:, None]
    >>> bags = [np.vstack([line[:30], 9 + line[:10]]), np.vstack([line[:10], 9 + line[:30]])]
    >>> estimator = ClassRatioEstimator(bandwidth=1.0).fit(bags, np.array([[0.75, 0.25], [0.25, 0.75]]))
    >>> found = estimator.predict(np.vstack([line[:20], 9 + line[:20]]))
    >>> found.method, found.diagnostics.identifiable
    ('kernel mean matching', True)
    """

    ratio: Float[np.ndarray, " classes"]
    interval: Float[np.ndarray, "classes ends"]
    level: float
    bandwidth: float | None
    diagnostics: RatioDiagnostics
    method: str


class ClassRatioEstimator(BaseEstimator):  # type: ignore[misc]
    """Class ratios by the method that labelled bags, left out in turn, speak for.

    Parameters
    ----------
    level
        Confidence of the intervals, in (0, 1).
    bandwidth
        Given, kernel mean matching is used with this bandwidth (of the Gaussian kernel, after the
        features are rescaled), and nothing is chosen.
    methods
        To choose among. None: kernel mean matching, a kernel witness and, unless points by features
        by classes exceed four million, boosted trees.
    classes
        Names of the classes, for the warnings; None: their codes.

    Attributes
    ----------
    trials_
        What each method came to on the bags left out; empty for a given bandwidth.
    method_
        The method in use, `ratio_selection.preferred` of the trials.

    Notes
    -----
    Features are divided by their pooled standard deviation, so that units do not matter; those that
    have one value at more than half of the points, by half of the root mean square distance from it
    of the others. For a feature of two values that is the standard deviation it would have at equal
    shares: by its own a rare value would outweigh all other features.

    Where the noise of the proportions is told, a bag weighs by how far its mean may be from what its
    proportions say (`matched_means.MatchedMeans`): by its noise where it is small, by its points where
    it is large; left out, it judges bandwidth and method by its `LabelledBags.evidence`.

    The interval is for the ratio of the population that the bag was drawn from. It is a parametric
    bootstrap of the quadratic program: f is perturbed by the sampling error of every bag (within
    classes for labelled bags, whose proportions describe these very points; in total for the
    unlabelled one) and by the noise of the proportions, each as large as it is at the ratio drawn. Its
    512 draws are Sobol points with one fixed scramble: nodes of an integral, the same in every run.
    Chance and noise both set classes nearer or farther apart than they are; what that moves ratios by in
    the mean is taken off to second order (`corrected_class_gram`, `NoisyShares`), so that the
    interval is about the right place.

    **Limits.** The level is that of a normal approximation, measured and not proved: tests ask that 90 %
    intervals hold the population's ratio 85 to 97 times in 100, with noise in the proportions and
    without; what they hold as the noise grows, ``python -m benchmarks.noisy_proportions`` prints. A class
    that looks different from bag to bag is not allowed for.

    **Guarantees.** The ratio lies on the simplex and in its interval; the interval lies in [0, 1];
    relabelling the classes relabels the ratio; neither the order of the bags nor the units of the
    features matter to it; the same arguments give the same bytes, on any number of threads, as one is
    used; what is given is left as it was.
    **Privacy.** The proportions may be releases: what is computed from them costs nothing more. The
    features of all bags are used as they are, and the result is as private as they are.

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
        methods: Sequence[RatioMethod] | None = None,
        classes: Sequence[str] | None = None,
    ) -> None:
        self.level = level
        self.bandwidth = bandwidth
        self.methods = methods
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
            or no bag can be left out to choose the method.
        """
        self._check_parameters()
        labelled = _ordered(LabelledBags.of(bags, proportions, noise))
        self.scale_ = feature_scale(np.concatenate(labelled.points))
        self.n_features_in_ = len(self.scale_)
        points = tuple(point / self.scale_ for point in labelled.points)
        labelled = LabelledBags(points, labelled.mixture, labelled.noise)
        with threadpool_limits(1):  # most problems here are small: threads would wait, and spin
            self.method_, self.trials_ = self._choose(labelled)
            self._matcher = self.method_.fit(labelled)
        self.mixture_, self.size_ = labelled.mixture, labelled.size
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
        with threadpool_limits(1):
            means, product = self._matcher.match(point / self.scale_)
            seen = means.see(product)
            ratio, interval = means.ratio(seen), means.interval(seen, self.level)
        diagnostics = self._diagnose(means, float((interval[:, 1] - interval[:, 0]).max()))
        for array in (ratio, interval):
            array.setflags(write=False)
        bandwidth, name = self._matcher.bandwidth, self.method_.name
        return ClassRatio(ratio, interval, self.level, bandwidth, diagnostics, name)

    def _check_parameters(self) -> None:
        if not 0 < self.level < 1:
            raise ValueError(f"level must be in (0, 1), got level={self.level}")
        if not (self.bandwidth is None or 0 < self.bandwidth < math.inf):
            raise ValueError(f"bandwidth must be > 0 and finite, got bandwidth={self.bandwidth}")
        if self.methods is not None and not len(self.methods) > 0:
            raise ValueError("methods must be None or name one method at least, got none")

    def _choose(self, labelled: LabelledBags) -> tuple[RatioMethod, tuple[Trial, ...]]:
        """The method, and the trials it won."""
        if self.bandwidth is not None:
            return KernelMatching(self.bandwidth), ()
        n_bags, n_classes = labelled.mixture.shape
        if not matching.parts_left_out(labelled.mixture):
            raise ValueError(
                "bags must be at least one more than the classes, and still tell them apart with one "
                f"bag left out, to choose the method: got {n_bags} bags of {n_classes} classes. "
                "Add a bag of other proportions, or give bandwidth"
            )
        cells = int(labelled.size.sum()) * self.n_features_in_ * n_classes
        methods: Sequence[RatioMethod] = self.methods or (
            KernelMatching(),
            KernelWitness(),
            *((BoostedTrees(),) if cells <= MOST_TREE_CELLS else ()),
        )
        trials = tuple(method.trial(labelled) for method in methods)
        return preferred(trials).method, trials

    def _diagnose(self, means: MatchedMeans, width: float) -> RatioDiagnostics:
        best = preferred(self.trials_) if self.trials_ else None
        return diagnose(
            self.mixture_,
            means.hessian,
            means.reliability,
            matching.effective_points(self.mixture_, self.size_),
            len(best.error) if best else 0,
            best.mean_error if best else math.nan,
            width=width,
            classes=self.classes,
        )


def _ordered(labelled: LabelledBags) -> LabelledBags:
    """By proportions, then by mean: so that rounding, too, is that of no order they came in."""
    mean = np.array([point.mean(axis=0) for point in labelled.points])
    return labelled.only(np.lexsort(np.hstack([mean, labelled.mixture]).T))


def feature_scale(point: Float[np.ndarray, "points features"]) -> Float[np.ndarray, " features"]:
    """Unit of every feature.

    Examples
    --------
    >>> feature_scale(np.array([[0.0, 7.0], [2.0, 7.0]]))
    array([1., 1.])
    """
    offset = point - np.median(point, axis=0)  # zero for most points where one value is the rule
    n_other = np.count_nonzero(offset, axis=0)
    half = np.sqrt(np.square(offset).sum(axis=0) / np.maximum(n_other, 1)) / 2
    scale = np.where(2 * n_other < len(point), half, point.std(axis=0))
    return np.where(scale > 0, scale, 1.0)
