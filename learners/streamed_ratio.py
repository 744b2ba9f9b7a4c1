"""Class ratios of bags that do not fit in memory: kernel mean matching, rows seen a block at a time.

What has to be chosen is chosen on a spread sample of the rows; the means that are matched are those of
all rows, added up block by block.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from sklearn.base import BaseEstimator

from learners import mean_matching as matching
from learners.class_ratio import ClassRatio, feature_scale
from learners.kernel_matching import KernelMatching, n_landmarks
from learners.labelled_bags import LabelledBags
from learners.matched_means import MatchedMeans, SeenBag
from learners.nystroem import NystroemMap, spread_order, spread_points
from learners.ratio_diagnostics import diagnose
from learners.ratio_selection import Trial

__all__ = ["Blocks", "StreamedRatioEstimator"]

SAMPLE_POINTS = 5000  # on which scale, bandwidth and landmarks are chosen

Blocks = Iterable[Float[np.ndarray, "_ features"]]


@dataclass(frozen=True, slots=True, eq=False)
class _Shares:
    mixture: Float[np.ndarray, "bags classes"]
    noise: Float[np.ndarray, "bags classes classes"] | None
    size: Int[np.ndarray, " bags"]


class StreamedRatioEstimator(BaseEstimator):  # type: ignore[misc]
    """Kernel mean matching on bags that are given as blocks of rows.

    Parameters
    ----------
    level
        Confidence of the intervals, in (0, 1).
    classes
        Names of the classes, for the warnings; None: their codes.

    Notes
    -----
    A bag is anything that yields its blocks anew each time it is iterated: a list of arrays, an object
    whose `__iter__` opens a file. Training iterates each labelled bag four times, five where noise is
    told; a prediction iterates its bag once. The features are `nystroem.NystroemMap` ones of
    min(1200, 4 sqrt(n)) landmarks, n rows in all.

    **Guarantees.** How rows are cut into blocks does not matter beyond rounding, 1e-12 of the ratio; the
    result is that of the same landmarks with all rows at once.
    **Cost.** Memory for one block, a sample of 5000 rows and the landmarks, whatever the bags' size.
    **Privacy.** As for `ClassRatioEstimator`.

    Examples
    --------
    >>> line = np.linspace(-1, 1, 50)[:, None]
    >>> bags = [[line[: 50 - k], 5 + line[:k]] for k in (10, 25, 40)]
    >>> estimator = StreamedRatioEstimator()
    >>> estimator = estimator.fit(bags, np.array([[0.8, 0.2], [0.5, 0.5], [0.2, 0.8]]))
    >>> estimator.predict([line[:35], 5 + line[:15]]).ratio.round(1)
    array([0.7, 0.3])
    """

    def __init__(self, *, level: float = 0.9, classes: Sequence[str] | None = None) -> None:
        self.level = level
        self.classes = classes

    def fit(
        self,
        bags: Sequence[Blocks],
        proportions: Float[np.ndarray, "bags classes"],
        *,
        noise: Float[np.ndarray, "bags classes classes"] | None = None,
    ) -> "StreamedRatioEstimator":
        """Learn what each class looks like.

        Parameters
        ----------
        bags
            Blocks of points by features, for every bag; two points at least in each.
        proportions, noise
            As for `ClassRatioEstimator.fit`.

        Returns
        -------
        StreamedRatioEstimator
            The estimator.

        Raises
        ------
        ValueError
            If a bag can be iterated once only, breaks the conditions of `ClassRatioEstimator.fit`, or no
            bag can be left out to choose the bandwidth.
        """
        if not 0 < self.level < 1:
            raise ValueError(f"level must be in (0, 1), got level={self.level}")
        for position, blocks in enumerate(bags):
            if iter(blocks) is blocks:
                raise ValueError(f"bag {position} must yield its blocks anew each time, not once")
        size = np.array([sum(len(block) for block in blocks) for blocks in bags])
        sample = LabelledBags.of(_sampled(bags, size), proportions, noise)
        if not matching.parts_left_out(sample.mixture):
            raise ValueError("bags must tell the classes apart with one left out; add a bag")
        self.scale_ = feature_scale(np.concatenate(sample.points))
        self.n_features_in_ = len(self.scale_)
        points = tuple(point / self.scale_ for point in sample.points)
        self.trial_ = KernelMatching().trial(LabelledBags(points, sample.mixture, sample.noise))
        self.bandwidth_ = _bandwidth(self.trial_)
        landmark = spread_points(points, n_landmarks(int(size.sum())))
        self._features = NystroemMap.of(landmark, self.bandwidth_)
        self._shares = _Shares(sample.mixture, sample.noise, size)
        self._means, self._mean = self._matched(bags)
        return self

    def predict(self, bag: Blocks) -> ClassRatio:
        """Class ratio of one unlabelled bag.

        Parameters
        ----------
        bag
            Blocks of points by features, two points at least in all.

        Returns
        -------
        ClassRatio
            Estimate, intervals and diagnostics.

        Raises
        ------
        ValueError
            If the bag does not fit those the estimator was trained on.
        """
        n, mean, covariance = self._moments(bag, self._mean.T @ self._means.weights)
        if not n >= 2:
            raise ValueError(f"bag must hold at least 2 points, got {n}")
        seen = SeenBag(mean, covariance / (n - 1))
        ratio, interval = self._means.ratio(seen), self._means.interval(seen, self.level)
        for array in (ratio, interval):
            array.setflags(write=False)
        diagnostics = diagnose(
            self._shares.mixture,
            self._means.hessian,
            self._means.reliability,
            matching.effective_points(self._shares.mixture, self._shares.size),
            len(self.trial_.error),
            self.trial_.mean_error,
            width=float((interval[:, 1] - interval[:, 0]).max()),
            classes=self.classes,
        )
        name = self.trial_.method.name
        return ClassRatio(ratio, interval, self.level, self.bandwidth_, diagnostics, name)

    def _matched(
        self, bags: Sequence[Blocks]
    ) -> tuple[MatchedMeans, Float[np.ndarray, "bags directions"]]:
        """Means of all rows' features: one pass for them, one for each weighting of the bags."""
        size, total, own = self._shares.size, [], []
        for blocks in bags:
            seen = [(f.sum(axis=0), np.square(f).sum()) for f in self._seen(blocks)]
            total.append(np.sum([first for first, _ in seen], axis=0))
            own.append(sum(float(square) for _, square in seen))
        mean = np.array(total) / size[:, None]

        def covariances(
            weights: Float[np.ndarray, "bags classes"],
        ) -> Iterator[Float[np.ndarray, "classes classes"]]:
            return (self._moments(blocks, mean.T @ weights)[2] for blocks in bags)

        return MatchedMeans.of(self._shares, mean @ mean.T, np.array(own) / size, covariances), mean

    def _moments(
        self, blocks: Blocks, direction: Float[np.ndarray, "directions classes"]
    ) -> tuple[int, Float[np.ndarray, " classes"], Float[np.ndarray, "classes classes"]]:
        """Rows, mean and covariance of features along directions; deviations first, so that none cancel."""
        n, n_classes = 0, direction.shape[1]
        mean, scatter = np.zeros(n_classes), np.zeros((n_classes, n_classes))
        for feature in self._seen(blocks):
            value = feature @ direction
            offset = value.mean(axis=0) - mean
            value = value - value.mean(axis=0)
            share = len(value) / (n + len(value))
            scatter += value.T @ value + n * share * np.outer(offset, offset)
            n, mean = n + len(value), mean + share * offset
        return n, mean, scatter / max(n, 1)

    def _seen(self, blocks: Blocks) -> Iterator[Float[np.ndarray, "_ directions"]]:
        """Features of every block that holds rows."""
        for block in blocks:
            point = np.asarray(block, dtype=np.float64)
            if not (point.ndim == 2 and point.shape[1] == self.n_features_in_):
                raise ValueError(
                    f"bag must have {self.n_features_in_} features, got shape={point.shape}"
                )
            if not np.isfinite(point).all():
                raise ValueError("bag must be finite in every cell")
            if len(point):
                yield self._features(point / self.scale_)


def _bandwidth(trial: Trial) -> float:
    method = trial.method
    if not (isinstance(method, KernelMatching) and method.bandwidth is not None):
        raise TypeError("trial must be of kernel mean matching")
    return method.bandwidth


def _sampled(
    bags: Sequence[Blocks], size: Int[np.ndarray, " bags"]
) -> list[Float[np.ndarray, "_ features"]]:
    """The rows that `spread_points` would take of all, gathered in one pass."""
    share = min(1.0, SAMPLE_POINTS / max(int(size.sum()), 1))
    sample = []
    for blocks, n in zip(bags, size, strict=True):
        wanted = np.sort(spread_order(int(n))[: max(2, round(share * n))])
        first, rows = 0, []
        for block in blocks:
            here = wanted[(wanted >= first) & (wanted < first + len(block))]
            rows.append(np.asarray(block, dtype=np.float64)[here - first])
            first += len(block)
        sample.append(np.concatenate(rows) if rows else np.zeros((0, 1)))
    return sample
