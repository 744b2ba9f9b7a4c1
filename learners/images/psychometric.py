"""Psychometric functions: skill against carelessness, from how often a worker is right at each difficulty.

>>> level = np.array([0.2, 0.5, 1.0, 2.0, 4.0])
>>> right = np.array([52, 62, 80, 96, 98])
>>> found = PsychometricFunction(0.5).fit(level, right, np.full(5, 100))
>>> round(found.threshold(), 2), round(found.lapse_, 2)
(0.85, 0.02)
"""

import math
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal, TypeAlias

import numpy as np
from jaxtyping import Bool, Float, Float64, Int
from scipy.optimize import brentq, minimize
from scipy.special import expit, logit, ndtri, xlogy
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

__all__ = ["Link", "PsychometricFunction", "PsychometricPosterior", "psychometric_posterior"]

Link: TypeAlias = Literal["weibull", "logistic"]

SLOPES = {"weibull": (0.2, 20.0), "logistic": (0.01, 10.0)}  # of "logistic" in ranges of the levels
STARTS = 20, 6  # places that are compared for a start, and slopes that have one each
BEYOND = {"weibull": 3.0, "logistic": 1.0}  # the levels, for thresholds: in logs, and in ranges
MAX_AT_ONCE = 4000  # workers whose posteriors on the grid are held: 200 MB
CELLS = (40, 8, 20)  # places, slopes and lapse rates of the grid
FINE_CELLS = (16, 12, 12)  # of a smaller box, for a worker whose posterior is narrow
RESOLVED = 0.7  # cells' least deviation: below 1/2, middles of two cells show more than there is
MAX_ROUNDS = 30  # of smaller boxes


class PsychometricFunction(BaseEstimator):  # type: ignore[misc]
    """Share of right answers as a function of how easy a task is.

    psi(x) = g + (1 - g - l) F(x), with g the chance of guessing right, l the lapse rate, and F
    1 - exp(-(x / a)^b) ("weibull", x >= 0) or 1 / (1 + exp(-(x - a) / b)) ("logistic").

    Parameters
    ----------
    chance
        Share of right guesses, in [0, 1): one over the number of classes.
    lapse_max
        Largest lapse rate, in [0, 1 - chance).
    link
        "weibull" or "logistic".
    level
        Confidence of the intervals, in (0, 1).

    Attributes
    ----------
    scale_, slope_, lapse_
        a, b and l.
    ci_
        Interval of "threshold" (at three quarters right, or halfway where chance leaves no such level)
        and of "lapse", by profile likelihood; computed when read.
    log_likelihood_
        Log likelihood of the fit, in nats, without binomial coefficients.
    converged_
        Whether the optimiser converged.

    Notes
    -----
    The fit is by maximum likelihood. A threshold is skill: how easy a task must be for the worker to be right
    at that level. A lapse rate is carelessness: how often even an easy task goes wrong. Both need tasks of
    the kind that shows them; without easy tasks the lapse rate's interval spans [0, `lapse_max`].

    An interval holds the values that a likelihood ratio test does not reject. The test's level is
    approximate: with few answers intervals are a little short. If answers do not limit a threshold, its
    interval ends a factor of 20 beyond the levels ("weibull"), or their width beyond them ("logistic").

    A guess at the truth that is sometimes wrong looks like a lapse unless `certainty` is given. If both the
    worker and the guess are wrong, they agree with chance g / (1 - g): wrong answers are alike by chance
    alone. The guess must not depend on the worker whose answers are counted.

    It is not a row estimator: fit takes counts by level, so that scikit-learn's checks of estimators do not
    apply; parameters, cloning and representation are scikit-learn's.

    Raises
    ------
    ValueError
        At fit, if a parameter is out of its range, arrays differ in length, 0 <= right <= n fails, or
        fewer than 2 levels differ.

    References
    ----------
    .. [1] Wichmann, Hill, "The psychometric function: I. Fitting, sampling, and goodness of fit",
       Perception and Psychophysics 63 (2001).

    Examples
    --------
    >>> found = PsychometricFunction(0.5)
    >>> found = found.fit(np.array([0.2, 0.5, 1.0, 2.0]), np.array([52, 62, 80, 96]), np.full(4, 100))
    >>> low, high = found.ci_["threshold"]
    >>> low < found.threshold(0.75) < high
    True
    """

    scale_: float
    slope_: float
    lapse_: float
    log_likelihood_: float
    converged_: bool

    def __init__(
        self,
        chance: float = 0.5,
        *,
        lapse_max: float = 0.06,
        link: Link = "weibull",
        level: float = 0.95,
    ) -> None:
        self.chance = chance
        self.lapse_max = lapse_max
        self.link = link
        self.level = level

    def fit(
        self, x: Float[np.ndarray, " levels"], right: Any, n: Any, certainty: Any = None
    ) -> "PsychometricFunction":
        """Fit to `right` of `n` answers at each level of ease.

        If the truth is itself a guess, `right` counts the answers that agree with the guess, and
        `certainty` is the chance that the guess is right, in (0, 1]: 1 by default.
        """
        x, right, n = (np.asarray(one, dtype=np.float64) for one in (x, right, n))
        sure = np.ones_like(x) if certainty is None else np.asarray(certainty, dtype=np.float64)
        self._check(x, right, n, sure)
        self._unit = _unit(x, self.link)
        x = (x - self._unit[0]) / self._unit[1]  # the optimiser's steps and tolerance are absolute
        self._counts = x, right, n, sure
        place, beyond = np.log(x[x > 0]) if self.link == "weibull" else x, BEYOND[self.link]
        slopes = [math.log(one) for one in SLOPES[self.link]]
        places = float(place.min()) - beyond, float(place.max()) + beyond
        self._bounds = places, (slopes[0], slopes[1]), (0.0, float(self.lapse_max))
        ways, steep = (np.linspace(*one, k) for one, k in zip(self._bounds, STARTS, strict=False))
        lapses = 0.0, self.lapse_max
        starts = [min(product(ways, (one,), lapses), key=self._loss) for one in steep]
        best = min(map(self._likeliest, starts), key=lambda one: float(one.fun))
        self._free, self.log_likelihood_, self.converged_ = best.x, -float(best.fun), best.success
        scale, slope, self.lapse_ = self._named(best.x)
        self.scale_, self.slope_ = self._unit[0] + self._unit[1] * scale, self._unit[1] * slope
        return self

    @property
    def ci_(self) -> dict[str, tuple[float, float]]:
        """Intervals by profile likelihood."""
        check_is_fitted(self)
        low, high = self._ends(0)
        if self.link == "weibull":
            low, high = math.exp(low), math.exp(high)
        zero, one = self._unit
        return {"threshold": (zero + one * low, zero + one * high), "lapse": self._ends(2)}

    def _ends(self, side: int) -> tuple[float, float]:
        """Return the least and largest value of a free parameter that a likelihood ratio test keeps."""
        least = self.log_likelihood_ - float(ndtri((1 + self.level) / 2)) ** 2 / 2

        def spare(value: float) -> float:
            held = (*self._free[:side], value, *self._free[side + 1 :])
            return -float(self._likeliest(held, side).fun) - least

        low, high = (
            end if spare(end) >= 0 else float(brentq(spare, self._free[side], end, xtol=1e-6))
            for end in self._bounds[side]
        )
        return low, high

    def _likeliest(self, start: tuple[float, ...], held: int | None = None) -> Any:
        """Maximise the likelihood of threshold, log slope and lapse rate, with one held if asked."""
        bounds = [(start[i], start[i]) if i == held else one for i, one in enumerate(self._bounds)]
        return minimize(self._loss, np.array(start), method="L-BFGS-B", bounds=bounds)

    def _loss(self, free: Any) -> float:
        """Return minus the log likelihood of threshold, log slope and lapse rate."""
        x, right, n, sure = self._counts
        share = _share(x, *self._named(free), self.chance, self.link)
        agreeing = np.clip(_agreeing(share, sure, self.chance), 1e-12, 1 - 1e-12)
        return float(-(xlogy(right, agreeing) + xlogy(n - right, 1 - agreeing)).sum())

    def _named(self, free: Any) -> tuple[float, float, float]:
        """Return scale, slope and lapse rate, given the threshold (or its log), log slope and lapse rate."""
        slope, lapse = math.exp(free[1]), float(free[2])
        unit = _level_at(self._middle(lapse), 1.0, slope, lapse, self.chance, self.link)
        if self.link == "weibull":
            return math.exp(free[0]) / unit, slope, lapse
        return float(free[0]) + 1.0 - unit, slope, lapse

    def predict(self, x: Float[np.ndarray, " levels"]) -> Float[np.ndarray, " levels"]:
        """Return the share of right answers at levels of ease."""
        check_is_fitted(self)
        x = np.asarray(x, dtype=np.float64)
        if self.link == "weibull" and not (x >= 0).all():
            raise ValueError(f"x must be >= 0 for the link 'weibull', got {x[~(x >= 0)][0]:g}")
        return _share(x, self.scale_, self.slope_, self.lapse_, self.chance, self.link)

    def threshold(self, level: float | None = None) -> float:
        """Return the ease at which a share of answers is right; by default 3/4, or halfway from chance."""
        check_is_fitted(self)
        level = self._middle(self.lapse_) if level is None else level
        if not self.chance < level < 1 - self.lapse_:
            raise ValueError(
                f"level must be between chance, {self.chance:g}, and one minus the lapse rate,"
                f" {1 - self.lapse_:g}, got level={level:g}"
            )
        return _level_at(level, self.scale_, self.slope_, self.lapse_, self.chance, self.link)

    def _middle(self, lapse: float) -> float:
        """Return .75 where the function passes it, whatever its lapse rate, else halfway from chance."""
        is_passed = self.chance < 0.75 < 1 - self.lapse_max
        return 0.75 if is_passed else (self.chance + 1 - lapse) / 2

    def _check(self, x: Any, right: Any, n: Any, sure: Any) -> None:
        if not 0 <= self.chance < 1:
            raise ValueError(f"chance must be in [0, 1), got chance={self.chance}")
        if not 0 <= self.lapse_max < 1 - self.chance:
            raise ValueError(f"lapse_max must be in [0, 1 - chance), got {self.lapse_max}")
        if not 0 < self.level < 1:
            raise ValueError(f"level must be in (0, 1), got level={self.level}")
        if self.link not in ("weibull", "logistic"):
            raise ValueError(f"link must be 'weibull' or 'logistic', got {self.link!r}")
        shapes = x.shape, right.shape, n.shape, sure.shape
        if x.ndim != 1 or len(set(shapes)) > 1:
            raise ValueError(f"x, right, n and certainty must be of one length, got {shapes}")
        if not ((sure > 0) & (sure <= 1)).all():
            raise ValueError("certainty must be above 0 and at most 1 at each level")
        if not (np.isfinite(x).all() and len(np.unique(x[n > 0])) >= 2):
            raise ValueError("x must hold two finite levels or more at which there are answers")
        if self.link == "weibull" and not x.min() >= 0:
            raise ValueError(f"x must be >= 0 for the link 'weibull', got {x.min():g}")
        if not ((right >= 0) & (right <= n) & (n < np.inf)).all():
            raise ValueError("right must be from 0 to n, and n finite, at each level")


def _unit(x: Float[np.ndarray, " levels"], link: Link) -> tuple[float, float]:
    """Return the origin and unit of the levels, in which thresholds and slopes are sought."""
    return (0.0, 1.0) if link == "weibull" else (float(x.min()), float(np.ptp(x)))


def _share(
    x: Float[np.ndarray, " levels"], a: Any, b: Any, lapse: Any, chance: float, link: Link
) -> Float[np.ndarray, "*points levels"]:
    with np.errstate(over="ignore", under="ignore"):  # F is then 1, or 0
        f = -np.expm1(-((x / a) ** b)) if link == "weibull" else expit((x - a) / b)
    return np.asarray(chance + (1 - chance - lapse) * f)


def _agreeing(
    share: Float[np.ndarray, "*points levels"], sure: Float[np.ndarray, " levels"], chance: float
) -> Float[np.ndarray, "*points levels"]:
    """Return the chance to agree with a guess right with chance `sure`: both right, or both wrong alike."""
    return np.asarray(share * sure + (1 - share) * (1 - sure) * chance / (1 - chance))


def _level_at(level: float, a: float, b: float, lapse: float, chance: float, link: Link) -> float:
    f = (level - chance) / (1 - chance - lapse)
    if link == "weibull":
        return float(a * (-math.log1p(-f)) ** (1 / b))
    return float(a + b * logit(f))


@dataclass(frozen=True, slots=True, eq=False)
class PsychometricPosterior:
    """Result of :func:`psychometric_posterior`: a row of each for each worker.

    Parameters
    ----------
    threshold, threshold_low, threshold_high
        Median, and ends of the interval, of the ease at which a worker is halfway from chance to her best.
    lapse, lapse_low, lapse_high
        Median, and ends of the interval, of the lapse rate.
    curve
        Posterior mean of the share right, at each level.
    """

    threshold: Float64[np.ndarray, " workers"]
    threshold_low: Float64[np.ndarray, " workers"]
    threshold_high: Float64[np.ndarray, " workers"]
    lapse: Float64[np.ndarray, " workers"]
    lapse_low: Float64[np.ndarray, " workers"]
    lapse_high: Float64[np.ndarray, " workers"]
    curve: Float64[np.ndarray, "workers levels"]

    def __post_init__(self) -> None:
        for name in self.__slots__:
            getattr(self, name).setflags(write=False)


def psychometric_posterior(
    x: Float[np.ndarray, " levels"],
    right: Float[np.ndarray, "workers levels"] | Int[np.ndarray, "workers levels"],
    n: Float[np.ndarray, "workers levels"] | Int[np.ndarray, "workers levels"],
    certainty: Float[np.ndarray, " levels"] | None = None,
    *,
    chance: float = 0.5,
    lapse_max: float = 0.06,
    link: Link = "weibull",
    level: float = 0.95,
) -> PsychometricPosterior:
    """Fit psychometric functions of many workers on the same levels, each as a posterior on a grid.

    Parameters
    ----------
    x, certainty
        Ease of each level, and the chance that the assumed truth there is right: all 1 by default.
    right, n
        Each worker's right answers, and answers, at each level.
    chance, lapse_max, link, level
        As for `PsychometricFunction`.

    Raises
    ------
    ValueError
        As `PsychometricFunction` does; here the levels need no answers of any one worker.

    Notes
    -----
    The prior of thresholds is uniform from a third of the least level to three times the largest, in logs
    ("weibull"), or to a third of their distance beyond both ("logistic"). Slopes are uniform in logs. Lapse
    rates have the density of Beta(1, 4) on [0, lapse_max]: workers lapse more than trained observers, for
    whom Beta(1, 10) is usual [1]_. A worker with few answers is near the prior, with a wide interval.

    Intervals are within a few hundredths of their width of those on a fine grid. A worker of many labels,
    whose posterior is narrow beside the cells, gets smaller cells about it.

    **Cost.** One product of (workers, levels) with (levels, 6,400): thousands of workers in a second, where a
    bootstrap of each takes minutes; some milliseconds more for each worker of more than some 500 labels.

    References
    ----------
    .. [1] Schütt, Harmeling, Macke, Wichmann, "Painfree and accurate Bayesian estimation of psychometric
       functions for (potentially) overdispersed data", Vision Research 122 (2016).

    Examples
    --------
    >>> x, n = np.array([0.2, 0.5, 1.0, 2.0, 4.0]), np.full((2, 5), 200.0)
    >>> right = np.array([[104, 124, 160, 192, 196], [130, 150, 155, 156, 155]])
    >>> found = psychometric_posterior(x, right, n, lapse_max=0.4)
    >>> bool(found.lapse_high[0] < 0.1 < found.lapse_low[1])
    True
    """
    x = np.asarray(x, dtype=np.float64)
    right, n = (np.asarray(one, dtype=np.float64) for one in (right, n))
    sure = np.ones_like(x) if certainty is None else np.asarray(certainty, dtype=np.float64)
    if not (right.ndim == 2 and right.shape == n.shape and right.shape[1:] == x.shape):
        raise ValueError(
            f"right and n must have a column for each level, got {right.shape} and {n.shape}"
            f" for {x.shape}"
        )
    judge = PsychometricFunction(chance, lapse_max=lapse_max, link=link, level=level)
    judge._check(x, right.sum(axis=0), np.maximum(n.sum(axis=0), 1), sure)
    if not ((right >= 0) & (right <= n)).all():
        raise ValueError("right must be from 0 to n at each level")
    zero, one = _unit(x, link)
    x = (x - zero) / one
    whole, known = _whole_box(x, lapse_max, link), (x, sure, chance, link)
    parts = []
    for first in range(0, max(len(n), 1), MAX_AT_ONCE):
        some = slice(first, first + MAX_AT_ONCE)
        grid = _Grid.of(whole, CELLS, right[some], n[some], *known)
        found = grid.summary(level, link)
        for row in np.flatnonzero(~grid.is_resolved()).tolist():
            at = slice(first + row, first + row + 1)
            fine = _refined(whole, grid.around(row, whole), right[at], n[at], *known)
            for column, value in zip(found, fine.summary(level, link), strict=True):
                column[row] = value[0]
        parts.append(found)
    columns = list(map(np.concatenate, zip(*parts, strict=True)))
    return PsychometricPosterior(*(zero + one * ends for ends in columns[:3]), *columns[3:])


@dataclass(frozen=True, slots=True, eq=False)
class _Grid:
    """Posteriors on the cells of a box of log places (or places), log slopes and lapse rates."""

    box: Float[np.ndarray, "3 2"]
    middle: tuple[Float[np.ndarray, " _"], ...]
    weight: Float[np.ndarray, "workers places slopes lapses"]
    share: Float[np.ndarray, "points levels"]

    @classmethod
    def of(
        cls, box: Float[np.ndarray, "3 2"], cells: tuple[int, int, int],
        right: Float[np.ndarray, "workers levels"], n: Float[np.ndarray, "workers levels"],
        x: Float[np.ndarray, " levels"], sure: Float[np.ndarray, " levels"], chance: float, link: Link,
    ) -> "_Grid":  # fmt: skip
        """Weigh the middle of each cell by its likelihood, and lapse rates by Beta(1, 4)."""
        middle = tuple(
            low + (high - low) * (np.arange(k) + 0.5) / k
            for (low, high), k in zip(box, cells, strict=True)
        )
        place, slope, lapse = (one.ravel()[:, None] for one in np.meshgrid(*middle, indexing="ij"))
        place, slope = (np.exp(place) if link == "weibull" else place), np.exp(slope)
        share = _share(x, place, slope, lapse, chance, link)
        agreeing = np.clip(_agreeing(share, sure, chance), 1e-12, 1 - 1e-12)
        log = right @ np.log(agreeing).T + (n - right) @ np.log1p(-agreeing).T
        log += 3 * np.log1p(-lapse[:, 0])
        weight = np.exp(log - log.max(axis=1, keepdims=True))
        weight /= weight.sum(axis=1, keepdims=True)
        return cls(box, middle, weight.reshape(len(n), *cells), share)

    def moments(self) -> tuple[Float[np.ndarray, "workers 3"], Float[np.ndarray, "workers 3"]]:
        """Return the mean and standard deviation of each worker along each side of the box."""
        sides = [self.weight.sum(axis=one) for one in ((2, 3), (1, 3), (1, 2))]
        mean = np.stack([w @ m for w, m in zip(sides, self.middle, strict=True)], axis=1)
        pairs = zip(sides, self.middle, mean.T, strict=True)
        variance = [(w * np.square(m - at[:, None])).sum(axis=1) for w, m, at in pairs]
        return mean, np.sqrt(np.stack(variance, axis=1))

    def cell(self) -> Float[np.ndarray, " 3"]:
        """Return the sides of a cell."""
        return np.asarray(np.ptp(self.box, axis=1) / self.weight.shape[1:])

    def is_resolved(self) -> Bool[np.ndarray, " workers"]:
        """Return whether the cells are small beside each worker's posterior."""
        return np.asarray((self.moments()[1] >= RESOLVED * self.cell()).all(axis=1))

    def around(self, row: int, whole: Float[np.ndarray, "3 2"]) -> Float[np.ndarray, "3 2"]:
        """Return the box, within the whole one, of five deviations and a cell about one worker's mean."""
        mean, deviation = (one[row] for one in self.moments())
        reach = 5 * deviation + self.cell()
        ends = np.stack([mean - reach, mean + reach], axis=1)
        return np.asarray(np.clip(ends, whole[:, :1], whole[:, 1:]))

    def summary(self, level: float, link: Link) -> tuple[Float[np.ndarray, "workers ..."], ...]:
        """Return median and ends of threshold and lapse rate, and the mean curve."""
        ends = (0.5, (1 - level) / 2, (1 + level) / 2)
        place, slope, lapse = self.middle
        half, reach = (np.repeat(one[:, None], len(slope), axis=1)
                       for one in (place, np.full_like(place, self.cell()[0] / 2)))  # fmt: skip
        if link == "weibull":  # where half of the way is gone, in logs: log a + log(log 2) / b
            shift = math.log(math.log(2.0)) * np.exp(-slope)
            half, reach = half + shift, reach + np.abs(shift) * self.cell()[1] / 2
        pairs, lapses = self.weight.sum(axis=3), self.weight.sum(axis=(1, 2))
        wide = np.full_like(lapse, self.cell()[2] / 2)
        flat = half.ravel(), pairs.reshape(len(pairs), half.size), reach.ravel()
        thresholds = [_quantile(*flat, end) for end in ends]
        rates = [_quantile(lapse, lapses, wide, end) for end in ends]
        curve = self.weight.reshape(len(self.weight), len(self.share)) @ self.share
        return (*(np.exp(one) if link == "weibull" else one for one in thresholds), *rates, curve)


def _refined(
    whole: Float[np.ndarray, "3 2"], box: Float[np.ndarray, "3 2"],
    right: Float[np.ndarray, "1 levels"], n: Float[np.ndarray, "1 levels"],
    x: Float[np.ndarray, " levels"], sure: Float[np.ndarray, " levels"], chance: float, link: Link,
) -> _Grid:  # fmt: skip
    """Follow one worker's posterior into smaller boxes until their cells are small beside it."""
    grid = _Grid.of(box, FINE_CELLS, right, n, x, sure, chance, link)
    for _ in range(MAX_ROUNDS):
        if grid.is_resolved()[0]:
            break
        grid = _Grid.of(grid.around(0, whole), FINE_CELLS, right, n, x, sure, chance, link)
    return grid


def _whole_box(
    x: Float[np.ndarray, " levels"], lapse_max: float, link: Link
) -> Float[np.ndarray, "3 2"]:
    """Return the least and largest log place (or place), log slope and lapse rate."""
    if link == "weibull":
        positive = x[x > 0]
        places = math.log(positive.min()) - math.log(3), math.log(positive.max()) + math.log(3)
        slopes = math.log(0.5), math.log(8.0)
    else:
        width = float(np.ptp(x))
        places = float(x.min()) - width / 3, float(x.max()) + width / 3
        slopes = math.log(width / 40), math.log(width)
    return np.array([places, slopes, (0.0, lapse_max)])


def _quantile(
    middle: Float[np.ndarray, " cells"], weight: Float[np.ndarray, "workers cells"],
    reach: Float[np.ndarray, " cells"], share: float,
) -> Float[np.ndarray, " workers"]:  # fmt: skip
    """Return the value below which this share of weights lies, each uniform within `reach` of its middle.

    Spreading adds to their deviation, and the ratio takes it away from quantiles (Sheppard's correction).
    """
    if not reach.max() > 0:
        return np.full(len(weight), middle[0])
    edge = np.concatenate([middle - reach, middle + reach])
    order = np.argsort(edge, kind="stable")
    edge, density = edge[order], weight / (2 * reach)
    density = np.cumsum(np.concatenate([density, -density], axis=1)[:, order], axis=1)
    below = np.cumsum(density[:, :-1] * np.diff(edge), axis=1)
    after = np.minimum(np.argmax(below >= min(share, 1 - 1e-12), axis=1), len(edge) - 2)
    rows = np.arange(len(weight))
    start = np.where(after > 0, below[rows, after - 1], 0.0)
    gone = (share - start) / np.maximum(below[rows, after] - start, np.finfo(float).tiny)
    found = edge[after] + np.clip(gone, 0, 1) * (edge[after + 1] - edge[after])
    # no matrix product: its bytes depend on the number of rows
    mean = (weight * middle).sum(axis=1)
    variance = (weight * np.square(middle - mean[:, None])).sum(axis=1)
    spread = variance + (weight * np.square(reach)).sum(axis=1) / 3
    return np.asarray(mean + (found - mean) * np.sqrt(variance / spread))
