"""Class ratios of bags that do not fit in memory: kernel mean matching, a block of rows at a time.

Scale, bandwidth and landmarks are chosen on a spread sample of the rows, and the means' errors measured on a
larger one; the means that are matched are those of all rows, added up block by block.

>>> line = np.linspace(-1, 1, 50)[:, None]
>>> bags = [[line[: 50 - k], 5 + line[:k]] for k in (10, 25, 40)]
>>> model = learn_streamed_ratios(bags, np.array([[0.8, 0.2], [0.5, 0.5], [0.2, 0.8]]))
>>> model.ratio([line[:35], 5 + line[:15]]).ratio.round(1)
array([0.7, 0.3])
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
from jaxtyping import Float, Int
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from learners.class_ratios.bags import (
    BagPasses,
    Block,
    Blocks,
    ConstantFeatures,
    LabelledBags,
    LocalBlocks,
    check_blocks,
    class_names,
    dense,
    label_evidence,
)
from learners.class_ratios.kernel_matching import KernelMatching, best_bandwidth, n_landmarks
from learners.class_ratios.kernels import (
    LandmarkKernel,
    NystroemMap,
    feature_scale,
    fit_features,
    spread_order,
    spread_places,
)
from learners.class_ratios.matched_means import BagMean, MatchedMeans, MixtureFit
from learners.class_ratios.mean_matching import errors_left_out, parts_left_out
from learners.class_ratios.model import ClassRatio, check_ratio_level, matched_ratio
from learners.class_ratios.trials import RatioMethod, Trial

__all__ = ["Blocks", "StreamedRatioModel", "learn_streamed_ratios"]

SAMPLE_POINTS = 5000  # on which scale, bandwidth and landmarks are chosen
SAMPLE_CELLS = 2**24  # cells of the rows on which the errors of the bags' means are measured
AT_ONCE = 2048  # rows of those in one block

Directions: TypeAlias = Float[np.ndarray, "directions classes"]
Span: TypeAlias = Float[np.ndarray, "landmarks classes"]  # directions, as sums of landmarks


@dataclass(frozen=True, slots=True, eq=False)
class _Shares:
    mixture: Float[np.ndarray, "bags classes"]
    noise: Float[np.ndarray, "bags classes classes"] | None
    size: Int[np.ndarray, " bags"]


@dataclass(frozen=True, slots=True, eq=False)
class _RowKernels:
    """Units and landmarks that the rows of a block are compared with: small enough to send to the block."""

    scale: Float[np.ndarray, " features"]
    constant: ConstantFeatures
    matched: LandmarkKernel
    embed: NystroemMap

    def rescaled(self, point: Block) -> Block:
        """Return rows in the features' units, checked."""
        if not (point.ndim == 2 and point.shape[1] == len(self.scale)):
            raise ValueError(f"bag must have {len(self.scale)} features, got shape={point.shape}")
        if not np.isfinite(point).all():
            raise ValueError("bag must be finite in every cell")
        return np.asarray(point / self.scale)


@dataclass(frozen=True, slots=True, eq=False)
class _RowFeatures:
    """Nyström features of rescaled rows: those to match, and `embed`, those of the test of fit."""

    scale: Float[np.ndarray, " features"]
    constant: ConstantFeatures
    features: NystroemMap
    embed: NystroemMap

    @property
    def kernels(self) -> _RowKernels:
        return _RowKernels(self.scale, self.constant, self.features.kernel, self.embed)

    def along(self, direction: Directions) -> tuple[Span, _RowKernels]:
        """Return the parameters of `_moments` for the features along directions."""
        return np.asarray(self.features.root @ direction), self.kernels


_Counts: TypeAlias = Int[np.ndarray, " constants"]
# rows, their mean, and the sum of squares and products of the deviations from it
_Moments: TypeAlias = tuple[int, Float[np.ndarray, " _"], Float[np.ndarray, "_ _"]]


@dataclass(frozen=True, slots=True, eq=False)
class StreamedRatioModel:
    """The learned model, which estimates ratios of unlabelled bags; built by `learn_streamed_ratios`.

    Parameters
    ----------
    trial
        Errors of kernel mean matching on bags left out, by the means of all rows.
    level
        Confidence of the intervals.
    classes
        Names of the classes, for the warnings; None: their codes.
    features
        Unit of every feature, and the Nyström features of rescaled points.
    shares
        Proportions, noise and sizes of the labelled bags.
    means, mean, fit
        Means of the labelled bags: matched, along the features' directions, and for the test of fit.
    feature_names
        As for `RatioModel`.

    Examples
    --------
    >>> line = np.linspace(-1, 1, 50)[:, None]
    >>> bags = [[line[: 50 - k], 5 + line[:k]] for k in (10, 25, 40)]
    >>> model = learn_streamed_ratios(bags, np.array([[0.8, 0.2], [0.5, 0.5], [0.2, 0.8]]))
    >>> model.ratio([line[:35], 5 + line[:15]]).method
    'kernel mean matching'
    """

    trial: Trial
    level: float
    classes: Sequence[str] | None
    features: _RowFeatures = field(repr=False)
    shares: _Shares = field(repr=False)
    means: MatchedMeans = field(repr=False)
    mean: Float[np.ndarray, "bags directions"] = field(repr=False)
    fit: MixtureFit = field(repr=False)
    feature_names: tuple[str, ...] | None = None

    @property
    def bandwidth(self) -> float:
        """Bandwidth of the Gaussian kernel, after the features were rescaled."""
        return _bandwidth(self.trial)

    def ratio(self, bag: Blocks) -> ClassRatio:
        """Return the class ratio of one unlabelled bag, whose blocks hold two points at least in all.

        The errors are those of `RatioModel.ratio`.
        """
        check_blocks(bag, "bag")
        blocks = (dense(block, "a block", self.feature_names) for block in bag)
        parameters = self.features.along(self._direction)
        with threadpool_limits(1):
            return self._ratio([_both_moments(block, parameters) for block in blocks])

    def ratios(self, bags: Sequence[Blocks] | BagPasses) -> list[ClassRatio]:
        """Return the class ratio of each of several unlabelled bags, in one pass.

        Parameters, results and errors are those of `ratio`, for every bag.
        """
        parameters = self.features.along(self._direction)
        passes = _passes(bags, self.feature_names)
        with threadpool_limits(1):
            return [self._ratio(parts) for parts in passes.each(_both_moments, parameters)]

    @property
    def _direction(self) -> Directions:
        """Directions along which a bag's mean is taken: the class means."""
        direction: Directions = self.mean.T @ self.means.weights
        return direction

    def _ratio(self, parts: Sequence[tuple[_Moments, _Moments, _Counts]]) -> ClassRatio:
        """Return the ratio of a bag with these parts."""
        matched, along = (
            _bag_mean([part[0] for part in parts]),
            _bag_mean([part[1] for part in parts]),
        )
        others = np.sum([part[2] for part in parts], axis=0)
        unseen = self.features.constant.p_value(others, matched.size)
        return matched_ratio(
            self.means,
            matched,
            self.shares,
            fit=min(self.fit.p_value(along), unseen),
            method=self.trial.method.name,
            bandwidth=self.bandwidth,
            trial=self.trial,
            level=self.level,
            classes=self.classes,
        )


def learn_streamed_ratios(
    bags: Sequence[Blocks] | BagPasses,
    proportions: Float[np.ndarray, "bags classes"],
    *,
    noise: Float[np.ndarray, "bags classes classes"] | None = None,
    level: float = 0.9,
    classes: Sequence[str] | np.ndarray | None = None,
) -> StreamedRatioModel:
    """Learn what each class looks like from bags that come as blocks of rows, by kernel mean matching.

    Parameters
    ----------
    bags
        Blocks of points by features, for every bag; two points at least in each.
    proportions, noise, level, classes
        As for `learn_ratios`.

    Raises
    ------
    ValueError
        If a bag can be iterated only once or breaks the conditions of `learn_ratios`, or no bag can be
        left out to choose the bandwidth.

    Notes
    -----
    A bag is anything that yields its blocks anew each time it is iterated: a list of arrays, or an object
    whose `__iter__` opens a file. Training iterates each labelled bag four times, or five with `noise` and
    few rows; a prediction iterates its bag once. If other processes or machines work on the blocks, all
    bags together are one :class:`~learners.class_ratios.BagPasses`. The features are those of a
    `NystroemMap` with min(1200, 4 sqrt(n)) landmarks, for n rows in all.

    **Guarantees.** The cut of rows into blocks changes a ratio by rounding only, 1e-12. The result is that
    of the same landmarks with all rows at once, but for two terms. The correction for pairs of a point with
    itself is the sample's beyond 5000 rows, which moves a ratio by less than a thousandth of its interval.
    Covariances of the bags are computed from 2^24 numbers at most: with r rows of a bag their relative error
    is a few times sqrt(2 / r). The same blocks give the same bytes, wherever they are worked on. The errors
    of bags left out are those of all rows, not of the sample on which the bandwidth is chosen.
    **Cost.** Memory for one block, a sample of 2^24 numbers and the landmarks, and 8 bytes for each row of
    one bag while its sample is drawn; for m landmarks m per row and pass. One thread works on a block.
    **Privacy.** As for `learn_ratios`.

    Examples
    --------
    >>> line = np.linspace(-1, 1, 50)[:, None]
    >>> bags = [[line[: 50 - k], 5 + line[:k]] for k in (10, 25, 40)]
    >>> learn_streamed_ratios(bags, np.array([[0.8, 0.2], [0.5, 0.5], [0.2, 0.8]])).level
    0.9
    """
    check_ratio_level(level)
    passes = _passes(bags)
    size = passes.sizes()
    sample = LabelledBags.of(_sampled(passes, size, SAMPLE_POINTS), proportions, noise)
    called = class_names(classes, sample.mixture.shape[1])
    if not parts_left_out(sample.mixture):
        raise ValueError("bags must tell the classes apart with one left out; add a bag")
    with threadpool_limits(1):  # the same bytes as with one thread per block elsewhere
        pooled = np.concatenate(sample.points)
        scale = feature_scale(pooled)
        constant = ConstantFeatures.of(pooled, np.isinf(scale), size, sample.mixture)
        points = tuple(point / scale for point in sample.points)
        bandwidth, _, _ = best_bandwidth(LabelledBags(points, sample.mixture, sample.noise))
        landmarks = spread_places([len(point) for point in points], n_landmarks(int(size.sum())))
        chosen = zip(points, landmarks, strict=True)
        landmark = np.concatenate([point[places] for point, places in chosen])
        matched = NystroemMap.of(landmark, bandwidth)
        features = _RowFeatures(scale, constant, matched, fit_features(points))
        shares = _Shares(sample.mixture, sample.noise, size)
        own = _own_products(points, landmarks, matched, size)
        means, mean, covariance, fit, others = _matched(passes, shares, features, own)
        features = replace(features, constant=constant.only(others == 0))
        trial = _trial_of_all(KernelMatching(bandwidth), means, shares, covariance)
    names = passes.names if isinstance(passes, LocalBlocks) else None
    return StreamedRatioModel(trial, level, called, features, shares, means, mean, fit, names)


def _own_products(
    points: Sequence[Block],
    landmarks: Sequence[Int[np.ndarray, " _"]],
    features: NystroemMap,
    size: Int[np.ndarray, " bags"],
) -> Float[np.ndarray, " bags"]:
    """Return the mean squared length of each bag's features, from its part of the sample.

    A length takes m^2 operations and all else m. It enters divided by the bag's rows, so that the sample is
    precise enough. Landmarks have length 1 and count once; the sample's other rows stand for all others.
    """
    found = []
    for point, places, n in zip(points, landmarks, size.tolist(), strict=True):
        length, rest = np.square(features(point)).sum(axis=1), len(point) - len(places)
        weight = np.full(len(point), (n - len(places)) / rest if rest else n / len(point))
        weight[places] = 1.0 if rest else n / len(point)
        found.append(float(weight @ length) / n)
    return np.array(found)


def _matched(
    passes: BagPasses,
    shares: _Shares,
    features: _RowFeatures,
    own: Float[np.ndarray, " bags"],
) -> tuple[
    MatchedMeans, Float[np.ndarray, "bags directions"], list[np.ndarray], MixtureFit, _Counts
]:  # fmt: skip
    """Match the means of all rows' features: one pass for the means, one for each weighting of the bags.

    Passes for weightings read only some rows if there are more than `SAMPLE_CELLS` numbers. Return the means,
    matched and as they are, every bag's covariance along the class means, the test of fit, and the number of
    rows with other values than the sample's constants.
    """
    total, along, others = [], [], np.zeros_like(features.constant.place)
    last: list[np.ndarray] = []
    for parts in passes.each(_feature_sums, features.kernels):
        total.append(np.sum([part for part, _, _ in parts], axis=0))
        along.append(_joined([moments for _, moments, _ in parts]))
        others += np.sum([count for _, _, count in parts], axis=0)
    mean = np.array(total) / shares.size[:, None] @ features.features.root

    n_points = SAMPLE_CELLS // len(features.scale)
    if shares.size.sum() > n_points:
        bags = (
            np.array_split(rows, -(-len(rows) // AT_ONCE))
            for rows in _sampled(passes, shares.size, n_points)
        )
        passes = LocalBlocks(list(bags))

    def covariances(
        weights: Float[np.ndarray, "bags classes"],
    ) -> Iterator[Float[np.ndarray, "classes classes"]]:
        last.clear()
        for parts in passes.each(_moments, features.along(mean.T @ weights)):
            n, _, scatter = _joined(parts)
            last.append(scatter / n)
            yield last[-1]

    means = MatchedMeans.of(shares, mean @ mean.T, own, covariances)
    centres = np.array([centre for _, centre, _ in along])
    spread = [scatter / n for n, _, scatter in along]
    lengths = np.array([np.trace(one) + c @ c for one, c in zip(spread, centres, strict=True)])
    return means, mean, last, MixtureFit.of(shares, spread, centres, lengths), others


def _trial_of_all(
    method: RatioMethod,
    means: MatchedMeans,
    shares: _Shares,
    covariance: Sequence[Float[np.ndarray, "classes classes"]],
) -> Trial:
    """Return the errors on bags left out, by the means of all rows: by a sample's means they are larger.

    Expected errors use the class means of all bags, with a covariance that is divided by the share of the
    bags that are kept.
    """
    evidence = label_evidence(shares.size, shares.noise)
    error = errors_left_out(means.gram[None], shares.mixture, evidence)[0]
    linear, parts, expected = means.gram @ means.weights, parts_left_out(shares.mixture), []
    for part in parts:
        kept = 1 - len(part) / len(linear)
        fewer = replace(means, error=means.error / kept)
        for bag in part:
            n = float(shares.size[bag])
            expected.append(
                fewer.expected_error(BagMean(linear[bag], covariance[bag] / (n - 1), n))
            )
    weight = evidence[np.concatenate(parts)]
    return Trial(method, error, float(np.mean(expected)), weight)


def _feature_sums(
    block: Block, kernels: _RowKernels
) -> tuple[Float[np.ndarray, " landmarks"], _Moments, _Counts]:
    """Return the sum of a block's kernels with the landmarks, and what the test of fit needs."""
    point = kernels.rescaled(block)
    return (
        kernels.matched.total(point),
        _spread(kernels.embed(point)),
        kernels.constant.others(block),
    )


def _moments(block: Block, parameters: tuple[Span, _RowKernels]) -> _Moments:
    """Return the moments of a block's features along directions."""
    span, kernels = parameters
    return _spread(kernels.matched.along(kernels.rescaled(block), span))


def _both_moments(
    block: Block, parameters: tuple[Span, _RowKernels]
) -> tuple[_Moments, _Moments, _Counts]:
    """Return `_moments`, and what the test of fit needs."""
    kernels = parameters[1]
    embedded = _spread(kernels.embed(kernels.rescaled(block)))
    return _moments(block, parameters), embedded, kernels.constant.others(block)


def _spread(value: Float[np.ndarray, "rows directions"]) -> _Moments:
    """Return moments of rows; deviations first, to keep digits."""
    mean = value.mean(axis=0) if len(value) else np.zeros(value.shape[1])
    value = value - mean
    return len(value), mean, value.T @ value


def _joined(parts: Sequence[_Moments]) -> _Moments:
    """Add up the moments of one block at least, in the order of the blocks."""
    n, mean, scatter = 0, np.zeros_like(parts[0][1]), np.zeros_like(parts[0][2])
    for size, centre, own in parts:
        if size:
            offset, share = centre - mean, size / (n + size)
            scatter += own + n * share * np.outer(offset, offset)
            n, mean = n + size, mean + share * offset
    return n, mean, scatter


def _bag_mean(parts: Sequence[_Moments]) -> BagMean:
    n, mean, scatter = _joined(parts) if parts else (0, np.zeros(0), np.zeros((0, 0)))
    if not n >= 2:
        raise ValueError(f"bag must hold at least 2 points, got {n}")
    return BagMean(mean, scatter / n / (n - 1), float(n))


def _bandwidth(trial: Trial) -> float:
    method = trial.method
    if not (isinstance(method, KernelMatching) and method.bandwidth is not None):
        raise TypeError("trial must be of kernel mean matching")
    return method.bandwidth


def _passes(bags: Sequence[Blocks] | BagPasses, names: tuple[str, ...] | None = None) -> BagPasses:
    return bags if isinstance(bags, BagPasses) else LocalBlocks(bags, names)


def _sampled(passes: BagPasses, size: Int[np.ndarray, " bags"], n_points: int) -> list[Block]:
    """Return the rows that `spread_points` would take of all rows."""
    share = min(1.0, n_points / max(int(size.sum()), 1))
    wanted = [np.sort(spread_order(int(n))[: max(2, round(share * n))]) for n in size]
    return passes.take(wanted)
