"""Learn class ratios of unlabelled bags from bags of which only the class proportions are known.

No label of a single point is needed: published proportions of some bags of points, with noise in them
or without, are enough to estimate what an unlabelled bag is made of. The assumption is that a class
looks the same in every bag and that only the mixture differs.

>>> line = np.linspace(-1, 1, 50)[:, None]
>>> bags = [np.vstack([line[: 50 - k], 5 + line[:k]]) for k in (10, 25, 40)]
>>> model = learn_ratios(bags, np.array([[0.8, 0.2], [0.5, 0.5], [0.2, 0.8]]))
>>> model.ratio(np.vstack([line[:35], 5 + line[:15]])).ratio.round(1)
array([0.7, 0.3])
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from learners.class_ratios.bags import (
    ConstantFeatures,
    LabelledBags,
    checked_bag,
    class_names,
    column_names,
    shared_names,
)
from learners.class_ratios.kernel_matching import KernelMatching
from learners.class_ratios.kernel_witness import KernelWitness
from learners.class_ratios.kernels import Bags, NystroemMap, feature_scale, fit_features
from learners.class_ratios.matched_means import BagMean, BagShares, MatchedMeans, MixtureFit
from learners.class_ratios.mean_matching import MIN_RELIABILITY, effective_points, parts_left_out
from learners.class_ratios.trials import (
    Matcher,
    RatioMethod,
    Trial,
    check_methods,
    expected_left_out,
    preferred,
)  # fmt: skip

__all__ = [
    "ClassRatio", "RatioDiagnostics", "RatioModel", "check_ratio_level", "diagnose", "learn_ratios",
    "matched_ratio",
]  # fmt: skip

MAX_TREE_CELLS = 4_000_000  # points by features by classes; beyond, trees take minutes
FEW_VALUES = 63  # values of a feature: at most the trees' bins, so that binning loses nothing
MAX_KERNEL_CONDITION = 1e8
POOR_MIXING = 50.0
FEW_POINTS = 30
FEW_LEFT_OUT = 3
WIDE = 0.5
FIT_LEVEL = 0.005  # realises one false alarm in a hundred groups at most
CHANCE = 2.3  # three standard errors of a mean error, whose terms deviate by .76 of theirs at most
NO_MIXTURE = (
    "This group is not a mixture of what was seen, so its ratio has no interval; label some of it."
)
UNLIKE = (
    "Labelled groups left out were off by {:.2f} where {:.2f} is expected: a class looks different from "
    "group to group, which no interval allows for."
)


@dataclass(frozen=True, slots=True, eq=False)
class RatioDiagnostics:
    """The evidence behind a class ratio, in numbers and in sentences.

    Parameters
    ----------
    mixing_condition
        Condition number of the labelled bags' proportions: large where all bags are mixed alike.
    kernel_condition
        Condition number of H, the inner products of the classes' means in the method's embedding.
    reliability
        Share of the squared distance between classes that is not sampling error, for the two mixtures
        of classes where it is least; negative where chance alone would set them further apart.
    identifiable
        Whether `kernel_condition` is at most 1e8 and `reliability` at least one half.
    effective_points
        Number of labelled points of each class that would estimate its mean kernel equally well.
    bags_left_out
        Number of bags on which methods were compared; 0 for a given bandwidth.
    error_left_out
        Mean L1 error of the chosen method on those bags; NaN for a given bandwidth.
    expected_left_out
        What `error_left_out` would be if a class looked the same in every bag, by the delta method; NaN
        for a given bandwidth.
    fit
        p-value of the test that the bag is a mixture of the classes seen: the lesser one of `MixtureFit`
        and of `ConstantFeatures`.
    warnings
        Sentences to read before acting on the ratio; may be empty.

    Examples
    --------
    >>> found = diagnose(np.eye(2), np.eye(2), 0.9, np.array([100.0, 20.0]), 0, np.nan, width=0.1)
    >>> found.warnings
    ("Class 1: fewer than 30 points' worth of evidence; label more groups where it occurs.",)
    """

    mixing_condition: float
    kernel_condition: float
    reliability: float
    identifiable: bool
    effective_points: Float[np.ndarray, " classes"]
    bags_left_out: int
    error_left_out: float
    expected_left_out: float
    fit: float
    warnings: tuple[str, ...]

    @property
    def is_mixture(self) -> bool:
        """Whether the bag may be a mixture of the classes seen: `fit` is .005 at least."""
        return self.fit >= FIT_LEVEL


@dataclass(frozen=True, slots=True, eq=False)
class ClassRatio:
    """Class ratio of one bag: the mixture weights of the classes, and how far to trust them.

    Parameters
    ----------
    ratio
        Estimate, on the simplex.
    interval
        Lower and upper end for each class separately; contains the estimate. None for a bag that is
        not a mixture of the classes seen: no interval holds for it.
    level
        Confidence of each class's interval.
    bandwidth
        Bandwidth of the method's kernel, after the features were rescaled; None for a method without one.
    diagnostics
        The evidence behind the estimate.
    method
        Name of the method that found it.
    at_most
        For ordered classes: lower and upper end for the sum of the first k ratios, for every k below the
        number of classes; all hold together at the level. None as `interval` is.

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
    interval: Float[np.ndarray, "classes ends"] | None
    level: float
    bandwidth: float | None
    diagnostics: RatioDiagnostics
    method: str
    at_most: Float[np.ndarray, "boundaries ends"] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class RatioModel:
    """The learned model, which estimates ratios of unlabelled bags; built by `learn_ratios`.

    Parameters
    ----------
    method
        The method in use: `preferred` of the trials.
    trials
        Each method's errors on the bags left out; empty for a given bandwidth.
    level
        Confidence of the intervals.
    classes
        Names of the classes, for the warnings; None: their codes.
    scale, constant
        Unit of every feature; inf for those that are constant in the labelled bags and so not used.
    matcher
        The trained method.
    labelled
        The bags it was trained on, rescaled.
    embed, fit
        The test of fit: the features of rescaled points, and the labelled bags along them.
    feature_names
        Names of the columns, if the bags were data frames with names; a bag with names must have these.

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
    embed: NystroemMap = field(repr=False)
    fit: MixtureFit = field(repr=False)
    constant: ConstantFeatures = field(repr=False)
    feature_names: tuple[str, ...] | None = None

    def ratio(self, bag: Float[np.ndarray, "points features"]) -> ClassRatio:
        """Return the class ratio of one unlabelled bag.

        Parameters
        ----------
        bag
            Points by features, two points at least.

        Raises
        ------
        ValueError
            If the bag has other features than the labelled bags, by number or name, or in another order,
            fewer than two points, or is not finite.
        """
        shared_names([self.feature_names, column_names(bag)])
        point = checked_bag(bag, "bag")
        if not point.shape[1] == len(self.scale):
            raise ValueError(f"bag must have {len(self.scale)} features, got {point.shape[1]}")
        with threadpool_limits(1):
            means, product = self.matcher.match(point / self.scale)
            feature = self.embed(point / self.scale)
            fit = self.fit.p_value(BagMean.of(feature, np.eye(feature.shape[1])))
            unseen = self.constant.p_value(self.constant.others(point), len(point))
            return matched_ratio(
                means,
                means.bag_mean(product),
                self.labelled,
                fit=min(fit, unseen),
                method=self.method.name,
                bandwidth=self.matcher.bandwidth,
                trial=preferred(self.trials) if self.trials else None,
                level=self.level,
                classes=self.classes,
            )


def matched_ratio(
    means: MatchedMeans,
    bag: BagMean,
    labelled: BagShares,
    *,
    fit: float,
    method: str,
    bandwidth: float | None,
    trial: Trial | None,
    level: float,
    classes: Sequence[str] | None,
) -> ClassRatio:
    """Return the ratio of a bag that was matched, with its interval and diagnostics.

    `trial` judged the method on bags left out; `fit` is the bag's p-value in the test of fit.
    """
    ratio, (interval, at_most) = means.ratio(bag), means.intervals(bag, level)
    diagnostics = diagnose(
        labelled.mixture,
        means.hessian,
        means.reliability,
        effective_points(labelled.mixture, labelled.size),
        len(trial.error) if trial else 0,
        trial.mean_error if trial else math.nan,
        width=float((interval[:, 1] - interval[:, 0]).max()),
        expected_left_out=expected_left_out(trial, labelled.noise) if trial else math.nan,
        fit=fit,
        classes=classes,
    )
    for array in (ratio, interval, at_most):
        array.setflags(write=False)
    kept = (interval, at_most) if diagnostics.is_mixture else (None, None)
    return ClassRatio(ratio, kept[0], level, bandwidth, diagnostics, method, kept[1])


def learn_ratios(
    bags: Bags,
    proportions: Float[np.ndarray, "bags classes"],
    *,
    noise: Float[np.ndarray, "bags classes classes"] | None = None,
    level: float = 0.9,
    bandwidth: float | None = None,
    methods: Sequence[RatioMethod] | None = None,
    classes: Sequence[str] | np.ndarray | None = None,
) -> RatioModel:
    """Learn what each class looks like, by the method that errs least on labelled bags left out in turn.

    Parameters
    ----------
    bags
        Points by features, one array or data frame per bag, two points at least in each; data frames with
        the same columns in the same order.
    proportions
        Share of each class in each bag; rows on the simplex.
    noise
        Covariance of the noise that was added to each bag's proportions before they were published;
        None without noise.
    level
        Confidence of the intervals, in (0, 1).
    bandwidth
        Bandwidth of the Gaussian kernel, after the features are rescaled. If given, kernel mean
        matching is used with it and nothing is chosen.
    methods
        Methods to choose among. None: kernel mean matching, a kernel witness and, where a feature
        takes 2 to 63 values, boosted trees, unless points by features by classes exceed four million.
    classes
        Names of the classes, for the warnings; None: their codes.

    Raises
    ------
    ValueError
        If a bag or its proportions break the conditions above, `classes` are not as many, there are
        fewer bags than classes, the bags are mixed too alike to separate the classes, half of the
        points coincide, or no bag can be left out to choose the method.

    Notes
    -----
    Features are divided by their `feature_scale`, so that units do not matter. One that is constant in the
    labelled bags is left out; many other values of it in a bag tell that this is no mixture of them.

    Distances, and so kernels, describe codes, scales and yes-or-no features poorly: boosted trees
    are for those. Trees are not tried where all features are continuous measures: on two such data sets
    they make no difference beyond chance (Magic and Twitter; ``python -m benchmarks.learners.class_ratios``).

    If `noise` is given, a bag weighs by how far its mean may be from the one that its proportions imply
    (`MatchedMeans`), and bags left out weigh by their `LabelledBags.evidence` when methods are judged.

    The interval is for the ratio of the population that the bag was drawn from. It is a parametric
    bootstrap of the quadratic program: f is perturbed by the sampling error of every bag (within
    classes for labelled bags, whose proportions describe these very points; in total for the
    unlabelled one) and by the noise of the proportions, each as large as it is at the ratio drawn. Its
    draws are the nodes of an integral, the same in every run (`normal_nodes`). Chance and noise both
    move the estimated distance between classes, and with it the ratios; this bias is removed to second
    order (`corrected_class_gram`, `NoisyShares`), so that the interval is centred.

    A bag that is not a mixture of the classes seen (`MixtureFit`) gets a ratio, a warning and no
    interval.

    **Limits.** The level is that of a normal approximation, measured and not proved: tests require 90 %
    intervals to hold the population's ratio 85 to 97 times in 100, with and without noise in the
    proportions, and 82 times at least of bags of 2 to 20 points;
    ``python -m benchmarks.learners.noisy_proportions`` prints their coverage as the noise grows,
    ``python -m benchmarks.learners.ratio_coverage`` as bags are mixed more alike. Where three or more
    classes are known from bags mixed alike (`reliability` below one half), intervals are widened by a factor
    set by simulations, up to twice; if the features separate no classes, they are wider still, up to
    [0, 1] (`MatchedMeans.interval`). Levels above .998 are extrapolated, also the split ones of `at_most`
    (`range_of_draws`). A class that looks different from bag to bag is not allowed for.

    **Guarantees.** The ratio lies on the simplex and in its interval, if there is one; the interval lies
    in [0, 1]; relabelling the classes relabels the ratio; neither the order of the bags nor the units of the
    features matter to it; the same arguments give the same bytes on any number of threads (one is used);
    arguments are not changed.
    **Privacy.** The proportions may be releases: computing from them costs nothing more. The features of
    all bags are used without noise, and the result is as private as they are.

    Examples
    --------
    >>> line = np.linspace(-1, 1, 50)[:, None]
    >>> bags = [np.vstack([line[: 50 - k], 5 + line[:k]]) for k in (10, 25, 40)]
    >>> model = learn_ratios(bags, np.array([[0.8, 0.2], [0.5, 0.5], [0.2, 0.8]]))
    >>> model.ratio(np.vstack([line[:35], 5 + line[:15]])).ratio.round(1)
    array([0.7, 0.3])
    """
    _check_parameters(level, bandwidth, methods)
    names = shared_names(map(column_names, bags))
    labelled = _ordered(LabelledBags.of(bags, proportions, noise))
    called = class_names(classes, labelled.mixture.shape[1])
    pooled = np.concatenate(labelled.points)
    scale = feature_scale(pooled)
    constant = ConstantFeatures.of(pooled, np.isinf(scale), labelled.size, labelled.mixture)
    points = tuple(point / scale for point in labelled.points)
    labelled = LabelledBags(points, labelled.mixture, labelled.noise)
    with threadpool_limits(1):  # most problems here are small: threads would wait, and spin
        trials = () if bandwidth is not None else _trials(labelled, methods)
        method = preferred(trials).method if trials else KernelMatching(bandwidth)
        matcher = method.fit(labelled)
        embed = fit_features(points)
        fit = MixtureFit.of_features(labelled, [embed(point) for point in points])
    scale.setflags(write=False)
    learned = (scale, matcher, labelled, embed, fit, constant)  # by the order of the fields
    return RatioModel(method, trials, level, called, *learned, names)


def check_ratio_level(level: float) -> None:
    """Raise ValueError unless 0 < level < 1."""
    if not 0 < level < 1:
        raise ValueError(f"level must be in (0, 1), got level={level}")


def _check_parameters(
    level: float, bandwidth: float | None, methods: Sequence[RatioMethod] | None
) -> None:
    check_ratio_level(level)
    if not (bandwidth is None or 0 < bandwidth < math.inf):
        raise ValueError(f"bandwidth must be > 0 and finite, got bandwidth={bandwidth}")
    check_methods(methods)


def _ordered(labelled: LabelledBags) -> LabelledBags:
    """Sort bags by mean, then by proportions, so that nothing depends on their order or the classes'."""
    mean = np.array([point.mean(axis=0) for point in labelled.points])
    sizes = np.sort(labelled.mixture, axis=1)
    return labelled.only(np.lexsort(np.hstack([labelled.mixture, sizes, mean]).T))


def _trials(labelled: LabelledBags, methods: Sequence[RatioMethod] | None) -> tuple[Trial, ...]:
    if not parts_left_out(labelled.mixture):
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
    too_many = point.size * labelled.mixture.shape[1] > MAX_TREE_CELLS
    if too_many or not any(2 <= len(np.unique(value)) <= FEW_VALUES for value in point.T):
        return kernels
    from learners.class_ratios.boosted_trees import BoostedTrees  # not earlier: loads scikit-learn

    return *kernels, BoostedTrees()


def diagnose(
    mixture: Float[np.ndarray, "bags classes"],
    hessian: Float[np.ndarray, "classes classes"],
    reliability: float,
    effective_points: Float[np.ndarray, " classes"],
    bags_left_out: int,
    error_left_out: float,
    *,
    width: float,
    expected_left_out: float = math.nan,
    fit: float = 1.0,
    classes: Sequence[str] | None = None,
) -> RatioDiagnostics:
    """Judge the evidence behind a ratio whose widest interval has this `width`.

    Examples
    --------
    >>> diagnose(np.eye(2), np.eye(2), 0.9, np.array([90.0, 70.0]), 2, 0.1, width=0.1).warnings
    ('The method was chosen on 2 left-out groups only; label more groups.',)
    """
    mixing, kernel = float(np.linalg.cond(mixture)), float(np.linalg.cond(hessian))
    identifiable = kernel <= MAX_KERNEL_CONDITION and reliability >= MIN_RELIABILITY
    owned = effective_points.copy()
    owned.setflags(write=False)
    names: Sequence[str | int] = classes or range(len(mixture.T))
    scarce = [name for name, n in zip(names, owned, strict=True) if n < FEW_POINTS]
    least = expected_left_out * (1 + CHANCE / math.sqrt(max(bags_left_out, 1)))
    doubts = (
        *([NO_MIXTURE] if fit < FIT_LEVEL else []),
        *_doubts(mixing, identifiable, bags_left_out, width, scarce),
        *([UNLIKE.format(error_left_out, expected_left_out)] if error_left_out > least else []),
    )
    return RatioDiagnostics(
        mixing_condition=mixing,
        kernel_condition=kernel,
        reliability=reliability,
        identifiable=identifiable,
        effective_points=owned,
        bags_left_out=bags_left_out,
        error_left_out=error_left_out,
        expected_left_out=expected_left_out,
        fit=fit,
        warnings=doubts,
    )


def _doubts(
    mixing: float, identifiable: bool, bags_left_out: int, width: float, scarce: Sequence[str | int]
) -> Iterator[str]:
    """Return a sentence for each doubt; `scarce` are the classes with few points."""
    if mixing > POOR_MIXING:
        yield (
            "The labelled groups have nearly the same class proportions, so what a class looks like "
            "is known only roughly; label groups that are mixed differently."
        )
    if not identifiable:
        yield (
            "The features tell the classes apart by little more than chance; do not rely on the "
            "ratio, add features or label more groups."
        )
    if 0 < bags_left_out < FEW_LEFT_OUT:
        yield f"The method was chosen on {bags_left_out} left-out groups only; label more groups."
    if width > WIDE:
        yield f"An interval is {width:.2f} wide: the data hardly say what the ratio is."
    for name in scarce:
        yield (
            f"Class {name}: fewer than {FEW_POINTS} points' worth of evidence; "
            "label more groups where it occurs."
        )
