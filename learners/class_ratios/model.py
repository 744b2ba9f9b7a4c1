"""Class ratios of unlabelled bags, learned from bags whose class proportions alone are known.

Nobody needs to know the label of a single point: published, even noised, proportions of some bags of
points are enough to say what an unlabelled bag is made of. Assumed is that a class looks the same in
every bag, that only the mixture differs.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from learners.class_ratios import mean_matching as matching
from learners.class_ratios.bags import LabelledBags, checked_bag
from learners.class_ratios.diagnostics import RatioDiagnostics, diagnose
from learners.class_ratios.kernel_matching import KernelMatching
from learners.class_ratios.kernels import feature_scale
from learners.class_ratios.matched_means import MatchedMeans
from learners.class_ratios.score_matching import KernelWitness
from learners.class_ratios.selection import Matcher, RatioMethod, Trial, preferred

__all__ = ["ClassRatio", "RatioModel", "learn_ratios"]

MOST_TREE_CELLS = 4_000_000  # points by features by classes; beyond, trees take minutes
FEW_VALUES = 63  # of a feature: no more than trees' bins, which so lose nothing of it

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
    >>> model = learn_ratios(bags, np.array([[0.75, 0.25], [0.25, 0.75]]), bandwidth=1.0)
    >>> found = model.ratio(np.vstack([line[:20], 9 + line[:20]]))
    >>> found.method, found.diagnostics.identifiable
    ('kernel mean matching', True)
    """

    ratio: Float[np.ndarray, " classes"]
    interval: Float[np.ndarray, "classes ends"]
    level: float
    bandwidth: float | None
    diagnostics: RatioDiagnostics
    method: str


@dataclass(frozen=True, slots=True, eq=False)
class RatioModel:
    """What each class looks like; built by `learn_ratios`.

    Parameters
    ----------
    method
        In use, `ratio_selection.preferred` of the trials.
    trials
        What each method came to on the bags left out; none for a given bandwidth.
    level
        Confidence of the intervals.
    classes
        Names of the classes, for the warnings; None: their codes.
    scale
        Unit of every feature.
    matcher
        The method, trained.
    labelled
        What it was trained on, rescaled.

    Examples
    --------
    >>> line = np.linspace(-1, 1, 40)[:, None]
    >>> bags = [np.vstack([line[:30], 9 + line[:10]]), np.vstack([line[:10], 9 + line[:30]])]
    >>> model = learn_ratios(bags, np.array([[0.75, 0.25], [0.25, 0.75]]), bandwidth=1.0)
    >>> model.ratio(np.vstack([line[:20], 9 + line[:20]])).ratio.round(2)
    array([0.5, 0.5])
    """

    method: RatioMethod
    trials: tuple[Trial, ...]
    level: float
    classes: Sequence[str] | None
    scale: Float[np.ndarray, " features"] = field(repr=False)
    matcher: Matcher = field(repr=False)
    labelled: LabelledBags = field(repr=False)

    def ratio(self, bag: Float[np.ndarray, "points features"]) -> ClassRatio:
        """Class ratio of one unlabelled bag.

        Parameters
        ----------
        bag
            Points by features, two points at least.

        Returns
        -------
        ClassRatio
            Estimate, interval and diagnostics.

        Raises
        ------
        ValueError
            If the bag does not fit those that the model was learned from.
        """
        point = checked_bag(bag, "bag")
        if not point.shape[1] == len(self.scale):
            raise ValueError(f"bag must have {len(self.scale)} features, got {point.shape[1]}")
        with threadpool_limits(1):
            means, product = self.matcher.match(point / self.scale)
            seen = means.see(product)
            ratio, interval = means.ratio(seen), means.interval(seen, self.level)
        diagnostics = self._diagnose(means, float((interval[:, 1] - interval[:, 0]).max()))
        for array in (ratio, interval):
            array.setflags(write=False)
        bandwidth, name = self.matcher.bandwidth, self.method.name
        return ClassRatio(ratio, interval, self.level, bandwidth, diagnostics, name)

    def _diagnose(self, means: MatchedMeans, width: float) -> RatioDiagnostics:
        best = preferred(self.trials) if self.trials else None
        mixture = self.labelled.mixture
        return diagnose(
            mixture,
            means.hessian,
            means.reliability,
            matching.effective_points(mixture, self.labelled.size),
            len(best.error) if best else 0,
            best.mean_error if best else math.nan,
            width=width,
            classes=self.classes,
        )


def learn_ratios(
    bags: Bags,
    proportions: Float[np.ndarray, "bags classes"],
    *,
    noise: Float[np.ndarray, "bags classes classes"] | None = None,
    level: float = 0.9,
    bandwidth: float | None = None,
    methods: Sequence[RatioMethod] | None = None,
    classes: Sequence[str] | None = None,
) -> RatioModel:
    """Learn what each class looks like, by the method that labelled bags, left out in turn, speak for.

    Parameters
    ----------
    bags
        Points by features, one array per bag, two points at least in each.
    proportions
        Share of each class in each bag; rows on the simplex.
    noise
        Covariance of what was added to each bag's proportions before they were published; None where
        nothing was.
    level
        Confidence of the intervals, in (0, 1).
    bandwidth
        Given, kernel mean matching is used with this bandwidth (of the Gaussian kernel, after the
        features are rescaled), and nothing is chosen.
    methods
        To choose among. None: kernel mean matching, a kernel witness and, where a feature takes 2 to 63
        values, boosted trees, unless points by features by classes exceed four million.
    classes
        Names of the classes, for the warnings; None: their codes.

    Returns
    -------
    RatioModel
        To ask for the ratios of unlabelled bags.

    Raises
    ------
    ValueError
        If a bag or its proportions break the conditions above, there are fewer bags than classes, the
        bags are mixed so alike that classes cannot be told apart, half of the points coincide, or no
        bag can be left out to choose the method.

    Notes
    -----
    Features are divided by their `feature_scale`, so that units do not matter.

    Codes, scales and answers of yes or no are what distances, and so kernels, read badly. Where all
    features are measures trees are not tried: on two such data sets they make no difference beyond
    chance (Magic and Twitter; ``python -m benchmarks.learners.class_ratios``).

    Where the noise of the proportions is told, a bag weighs by how far its mean may be from what its
    proportions say (`matched_means.MatchedMeans`): by its noise where it is small, by its points where
    it is large; left out, it judges bandwidth and method by its `LabelledBags.evidence`.

    The interval is for the ratio of the population that the bag was drawn from. It is a parametric
    bootstrap of the quadratic program: f is perturbed by the sampling error of every bag (within
    classes for labelled bags, whose proportions describe these very points; in total for the
    unlabelled one) and by the noise of the proportions, each as large as it is at the ratio drawn. Its
    draws are the nodes of an integral, the same in every run (`mean_matching.normal_nodes`).
    Chance and noise both set classes nearer or farther apart than they are; what that moves ratios by in
    the mean is taken off to second order (`corrected_class_gram`, `NoisyShares`), so that the
    interval is about the right place.

    **Limits.** The level is that of a normal approximation, measured and not proved: tests ask that 90 %
    intervals hold the population's ratio 85 to 97 times in 100, with noise in the proportions and
    without; what they hold as the noise grows, ``python -m benchmarks.learners.noisy_proportions`` prints. A class
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
    >>> model = learn_ratios(bags, np.array([[0.8, 0.2], [0.5, 0.5], [0.2, 0.8]]))
    >>> model.ratio(np.vstack([line[:35], 5 + line[:15]])).ratio.round(1)
    array([0.7, 0.3])
    """
    _check_parameters(level, bandwidth, methods)
    labelled = _ordered(LabelledBags.of(bags, proportions, noise))
    scale = feature_scale(np.concatenate(labelled.points))
    points = tuple(point / scale for point in labelled.points)
    labelled = LabelledBags(points, labelled.mixture, labelled.noise)
    with threadpool_limits(1):  # most problems here are small: threads would wait, and spin
        trials = () if bandwidth is not None else _trials(labelled, methods)
        method = preferred(trials).method if trials else KernelMatching(bandwidth)
        matcher = method.fit(labelled)
    scale.setflags(write=False)
    return RatioModel(method, trials, level, classes, scale, matcher, labelled)


def _check_parameters(
    level: float, bandwidth: float | None, methods: Sequence[RatioMethod] | None
) -> None:
    if not 0 < level < 1:
        raise ValueError(f"level must be in (0, 1), got level={level}")
    if not (bandwidth is None or 0 < bandwidth < math.inf):
        raise ValueError(f"bandwidth must be > 0 and finite, got bandwidth={bandwidth}")
    if methods is not None and not len(methods) > 0:
        raise ValueError("methods must be None or name one method at least, got none")


def _ordered(labelled: LabelledBags) -> LabelledBags:
    """By proportions, then by mean: so that rounding, too, is that of no order they came in."""
    mean = np.array([point.mean(axis=0) for point in labelled.points])
    return labelled.only(np.lexsort(np.hstack([mean, labelled.mixture]).T))


def _trials(labelled: LabelledBags, methods: Sequence[RatioMethod] | None) -> tuple[Trial, ...]:
    if not matching.parts_left_out(labelled.mixture):
        n_bags, n_classes = labelled.mixture.shape
        raise ValueError(
            "bags must be at least one more than the classes, and still tell them apart with one "
            f"bag left out, to choose the method: got {n_bags} bags of {n_classes} classes. "
            "Add a bag of other proportions, or give bandwidth"
        )
    return tuple(method.trial(labelled) for method in methods or _default_methods(labelled))


def _default_methods(labelled: LabelledBags) -> tuple[RatioMethod, ...]:
    kernels = KernelMatching(), KernelWitness()
    point = np.concatenate(labelled.points)
    too_many = point.size * labelled.mixture.shape[1] > MOST_TREE_CELLS
    if too_many or not any(2 <= len(np.unique(value)) <= FEW_VALUES for value in point.T):
        return kernels
    from learners.class_ratios.boosted_trees import BoostedTrees  # scikit-learn, where it is of use

    return *kernels, BoostedTrees()
