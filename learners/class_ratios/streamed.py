"""Class ratios of bags that do not fit in memory: kernel mean matching, rows seen a block at a time.

What has to be chosen is chosen on a spread sample of the rows; the means that are matched are those of
all rows, added up block by block.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from jaxtyping import Float, Int
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from learners.class_ratios import mean_matching as matching
from learners.class_ratios.bags import BagPasses, Block, Blocks, BlocksHere, LabelledBags
from learners.class_ratios.diagnostics import diagnose
from learners.class_ratios.kernel_matching import KernelMatching, n_landmarks
from learners.class_ratios.kernels import NystroemMap, feature_scale, spread_order, spread_points
from learners.class_ratios.matched_means import MatchedMeans, SeenBag
from learners.class_ratios.model import ClassRatio
from learners.class_ratios.selection import Trial

__all__ = ["Blocks", "StreamedRatioModel", "learn_streamed_ratios"]

SAMPLE_POINTS = 5000  # on which scale, bandwidth and landmarks are chosen

Directions: TypeAlias = Float[np.ndarray, "directions classes"]


@dataclass(frozen=True, slots=True, eq=False)
class _Shares:
    mixture: Float[np.ndarray, "bags classes"]
    noise: Float[np.ndarray, "bags classes classes"] | None
    size: Int[np.ndarray, " bags"]


@dataclass(frozen=True, slots=True, eq=False)
class _Seen:
    """Features of a block's rows."""

    scale: Float[np.ndarray, " features"]
    features: NystroemMap

    def __call__(self, point: Block) -> Float[np.ndarray, "_ directions"]:
        if not (point.ndim == 2 and point.shape[1] == len(self.scale)):
            raise ValueError(f"bag must have {len(self.scale)} features, got shape={point.shape}")
        if not np.isfinite(point).all():
            raise ValueError("bag must be finite in every cell")
        return self.features(point / self.scale)


_Moments: TypeAlias = tuple[
    int, Float[np.ndarray, " classes"], Float[np.ndarray, "classes classes"]
]  # rows, their mean, and the sum of squares and products of the deviations from it


@dataclass(frozen=True, slots=True, eq=False)
class StreamedRatioModel:
    """What each class looks like in bags of blocks; built by `learn_streamed_ratios`.

    Parameters
    ----------
    trial
        What kernel mean matching came to on bags left out of the sample.
    level
        Confidence of the intervals.
    classes
        Names of the classes, for the warnings; None: their codes.
    seen
        Unit of every feature, and the features that points are seen by.
    shares
        What is known of the labelled bags but their points.
    means, mean
        Means of the labelled bags, matched, and along the features' directions.

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
    seen: _Seen = field(repr=False)
    shares: _Shares = field(repr=False)
    means: MatchedMeans = field(repr=False)
    mean: Float[np.ndarray, "bags directions"] = field(repr=False)

    @property
    def bandwidth(self) -> float:
        """Of the Gaussian kernel, after the features were rescaled."""
        return _bandwidth(self.trial)

    def ratio(self, bag: Blocks) -> ClassRatio:
        """Class ratio of one unlabelled bag.

        Parameters
        ----------
        bag
            Blocks of points by features, two points at least in all.

        Returns
        -------
        ClassRatio
            Estimate, interval and diagnostics.

        Raises
        ------
        ValueError
            If the bag does not fit those that the model was learned from.
        """
        blocks = (np.asarray(block, dtype=np.float64) for block in bag)
        parameters = (self._direction, self.seen)
        with threadpool_limits(1):
            return self._ratio([_moments(block, parameters) for block in blocks])

    def ratios(self, bags: Sequence[Blocks] | BagPasses) -> list[ClassRatio]:
        """Class ratio of each of several unlabelled bags, in one pass.

        Parameters, results and errors are those of `ratio`, for every bag.
        """
        parameters = (self._direction, self.seen)
        with threadpool_limits(1):
            return [self._ratio(parts) for parts in _passes(bags).each(_moments, parameters)]

    @property
    def _direction(self) -> Directions:
        """What a bag's mean is seen along: the classes' means."""
        direction: Directions = self.mean.T @ self.means.weights
        return direction

    def _ratio(self, parts: Sequence[_Moments]) -> ClassRatio:
        """The ratio of a bag of these parts."""
        n, mean, scatter = _joined(parts, self.shares.mixture.shape[1])
        if not n >= 2:
            raise ValueError(f"bag must hold at least 2 points, got {n}")
        seen = SeenBag(mean, scatter / n / (n - 1))
        ratio, interval = self.means.ratio(seen), self.means.interval(seen, self.level)
        for array in (ratio, interval):
            array.setflags(write=False)
        diagnostics = diagnose(
            self.shares.mixture,
            self.means.hessian,
            self.means.reliability,
            matching.effective_points(self.shares.mixture, self.shares.size),
            len(self.trial.error),
            self.trial.mean_error,
            width=float((interval[:, 1] - interval[:, 0]).max()),
            classes=self.classes,
        )
        name = self.trial.method.name
        return ClassRatio(ratio, interval, self.level, self.bandwidth, diagnostics, name)


def learn_streamed_ratios(
    bags: Sequence[Blocks] | BagPasses,
    proportions: Float[np.ndarray, "bags classes"],
    *,
    noise: Float[np.ndarray, "bags classes classes"] | None = None,
    level: float = 0.9,
    classes: Sequence[str] | None = None,
) -> StreamedRatioModel:
    """Learn what each class looks like by kernel mean matching, of bags that come as blocks of rows.

    Parameters
    ----------
    bags
        Blocks of points by features, for every bag; two points at least in each.
    proportions, noise, level, classes
        As for `ratio_model.learn_ratios`.

    Returns
    -------
    StreamedRatioModel
        To ask for the ratios of unlabelled bags.

    Raises
    ------
    ValueError
        If a bag can be iterated once only, breaks the conditions of `learn_ratios`, or no bag
        can be left out to choose the bandwidth.

    Notes
    -----
    A bag is anything that yields its blocks anew each time it is iterated: a list of arrays, an object
    whose `__iter__` opens a file. Training iterates each labelled bag four times, five where noise is
    told; a prediction iterates its bag once. Where blocks are worked on elsewhere, by other processes
    or machines, all bags are one :class:`~learners.class_ratios.bags.BagPasses`. The features are
    `nystroem.NystroemMap` ones of min(1200, 4 sqrt(n)) landmarks, n rows in all.

    **Guarantees.** How rows are cut into blocks does not matter beyond rounding, 1e-12 of the ratio; the
    result is that of the same landmarks with all rows at once. The same blocks give the same bytes,
    wherever they are worked on.
    **Cost.** Memory for one block, a sample of 5000 rows and the landmarks, whatever the bags' size.
    A block is worked on by one thread.
    **Privacy.** As for `learn_ratios`.

    Examples
    --------
    >>> line = np.linspace(-1, 1, 50)[:, None]
    >>> bags = [[line[: 50 - k], 5 + line[:k]] for k in (10, 25, 40)]
    >>> model = learn_streamed_ratios(bags, np.array([[0.8, 0.2], [0.5, 0.5], [0.2, 0.8]]))
    >>> model.ratio([line[:35], 5 + line[:15]]).ratio.round(1)
    array([0.7, 0.3])
    """
    if not 0 < level < 1:
        raise ValueError(f"level must be in (0, 1), got level={level}")
    passes = _passes(bags)
    size = passes.sizes()
    sample = LabelledBags.of(_sampled(passes, size), proportions, noise)
    if not matching.parts_left_out(sample.mixture):
        raise ValueError("bags must tell the classes apart with one left out; add a bag")
    with threadpool_limits(1):  # the same bytes here as where each block has one thread
        scale = feature_scale(np.concatenate(sample.points))
        points = tuple(point / scale for point in sample.points)
        trial = KernelMatching().trial(LabelledBags(points, sample.mixture, sample.noise))
        landmark = spread_points(points, n_landmarks(int(size.sum())))
        seen = _Seen(scale, NystroemMap.of(landmark, _bandwidth(trial)))
        shares = _Shares(sample.mixture, sample.noise, size)
        means, mean = _matched(passes, shares, seen)
    return StreamedRatioModel(trial, level, classes, seen, shares, means, mean)


def _matched(
    passes: BagPasses, shares: _Shares, seen: _Seen
) -> tuple[MatchedMeans, Float[np.ndarray, "bags directions"]]:
    """Means of all rows' features: one pass for them, one for each weighting of the bags."""
    total, own = [], []
    for parts in passes.each(_feature_sums, seen):
        total.append(np.sum([part for part, _ in parts], axis=0))
        own.append(sum(square for _, square in parts))
    mean = np.array(total) / shares.size[:, None]

    def covariances(
        weights: Float[np.ndarray, "bags classes"],
    ) -> Iterator[Float[np.ndarray, "classes classes"]]:
        for parts in passes.each(_moments, (mean.T @ weights, seen)):
            n, _, scatter = _joined(parts, weights.shape[1])
            yield scatter / n

    own_mean = np.array(own) / shares.size
    return MatchedMeans.of(shares, mean @ mean.T, own_mean, covariances), mean


def _feature_sums(block: Block, seen: _Seen) -> tuple[Float[np.ndarray, " directions"], float]:
    """Sum of a block's features, and of their squares."""
    feature = seen(block)
    return feature.sum(axis=0), float(np.square(feature).sum())


def _moments(block: Block, parameters: tuple[Directions, _Seen]) -> _Moments:
    """Moments of a block's features along directions; deviations first, so that none cancel."""
    direction, seen = parameters
    value = seen(block) @ direction
    mean = value.mean(axis=0) if len(value) else np.zeros(direction.shape[1])
    value -= mean
    return len(value), mean, value.T @ value


def _joined(parts: Sequence[_Moments], n_classes: int) -> _Moments:
    """Moments of all blocks, from those of each, in their order."""
    n, mean, scatter = 0, np.zeros(n_classes), np.zeros((n_classes, n_classes))
    for size, centre, own in parts:
        if size:
            offset, share = centre - mean, size / (n + size)
            scatter += own + n * share * np.outer(offset, offset)
            n, mean = n + size, mean + share * offset
    return n, mean, scatter


def _bandwidth(trial: Trial) -> float:
    method = trial.method
    if not (isinstance(method, KernelMatching) and method.bandwidth is not None):
        raise TypeError("trial must be of kernel mean matching")
    return method.bandwidth


def _passes(bags: Sequence[Blocks] | BagPasses) -> BagPasses:
    return bags if isinstance(bags, BagPasses) else BlocksHere(bags)


def _sampled(passes: BagPasses, size: Int[np.ndarray, " bags"]) -> list[Block]:
    """The rows that `spread_points` would take of all."""
    share = min(1.0, SAMPLE_POINTS / max(int(size.sum()), 1))
    wanted = [np.sort(spread_order(int(n))[: max(2, round(share * n))]) for n in size]
    return passes.take(wanted)
