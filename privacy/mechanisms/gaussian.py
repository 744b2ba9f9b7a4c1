"""Independent discrete Gaussian noise on class counts, calibrated exactly for one moved task.

A task that moves from one class to another changes two counts, each by one, so the l2 sensitivity is the
square root of 2. The discrete law's delta is summed exactly. The continuous law, which it approaches, has a
closed form; it is here for comparison and as the start of the search.

>>> round(DiscreteGaussian(epsilon=1.0, delta=1e-6).scale, 3)
5.977
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

import numpy as np
import scipy
from jaxtyping import Float, Int

from privacy.accounting import (
    MAX_LOSS,
    Arithmetic,
    Cost,
    Loss,
    check_delta,
    check_epsilon,
    check_price,
    exact,
    is_covered,
    keep_declared,
)
from privacy.mechanism import Json, Noise
from privacy.mechanisms.exact_law import ExactLaw
from privacy.query import (
    ONE_TASK,
    CountsError,
    Query,
    check_classes,
    check_counts,
    check_drawable,
    check_releases,
)

__all__ = [
    "DiscreteGaussian",
    "DiscreteGaussianEvent",
    "DiscreteGaussianLaw",
    "analytic_gaussian_delta",
    "analytic_gaussian_scale",
    "check_moved_task",
    "discrete_gaussian_delta",
    "discrete_gaussian_scale",
]

MIN_SCALE, MAX_SCALE = 1e-100, 2e5  # the square of a smaller scale would be 0


def discrete_gaussian_delta(scale: float, epsilon: float) -> float:
    """Return the smallest delta of discrete Gaussian noise, for neighbours that move one task.

    Parameters
    ----------
    scale
        Scale of the noise: P(z) ~ exp(-z^2 / (2 scale^2)) on the integers, for each class.
    epsilon
        In (0, 100].

    Returns
    -------
    float
        The hockey-stick divergence of order e^epsilon, the same in both directions.

    Raises
    ------
    ValueError
        If `scale` is not in [1e-100, 2e5], or `epsilon` not in (0, 100].

    Notes
    -----
    With t the difference of two independent noises the privacy loss is (t + 1) / scale^2, and
    P(t) ~ exp(-t^2 / (4 scale^2)) sum_x exp(-(x + t/2)^2 / scale^2), where the sum depends on t through its
    parity alone; delta = sum_t P(t) max(0, 1 - exp(epsilon - loss)).

    **Guarantees.** It is the divergence of the two laws summed over the integers.

    References
    ----------
    .. [1] Canonne, Kamath, Steinke, "The discrete Gaussian for differential privacy", NeurIPS
       (2020).

    Examples
    --------
    >>> round(discrete_gaussian_delta(7.9372923, 0.05), 6)
    0.05
    """
    _check(scale, epsilon)
    price = exact(epsilon) * Fraction(scale) ** 2
    first = math.floor(price)  # the least t whose loss is above epsilon
    weight, total, t = _difference(scale, first=first)
    # exact: where this loss is hardly above epsilon, a difference of doubles has no right digit
    excess = float(first + 1 - price) + (t - first)
    gain = -np.expm1(-excess / scale**2)
    return float((weight * gain).sum() / total)


def _difference(
    scale: float, *, first: int
) -> tuple[Float[np.ndarray, " values"], float, Float[np.ndarray, " values"]]:
    """Return weights of t, the difference of two noises, from `first` on; their total over all t; and t."""
    reach = int(13 * scale) + 3  # beyond it the terms are below exp(-42) of the first
    t = first + np.arange(reach, dtype=np.float64)
    x = np.arange(-reach, reach + 1, dtype=np.float64)
    theta = [float(np.exp(-(((x + shift) / scale) ** 2)).sum()) for shift in (0.0, 0.5)]
    total = float(np.exp(-((x / scale) ** 2) / 2).sum()) ** 2
    return np.exp(-((t / scale) ** 2) / 4) * np.where(t % 2 == 0, *theta), total, t


def analytic_gaussian_delta(scale: float, epsilon: float) -> float:
    """Return the smallest delta of continuous Gaussian noise, for neighbours that move one task.

    With mu = sqrt(2) / scale: Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu).

    Parameters
    ----------
    scale
        Standard deviation of each class's noise, in [1e-100, 2e5].
    epsilon
        In (0, 100].

    Raises
    ------
    ValueError
        If one of these conditions is broken.

    References
    ----------
    .. [1] Balle, Wang, "Improving the Gaussian mechanism for differential privacy", ICML (2018),
       Theorem 8.

    Examples
    --------
    >>> round(analytic_gaussian_delta(7.938549877, 0.05), 6)
    0.05
    """
    _check(scale, epsilon)
    mu = math.sqrt(2) / scale
    gained = math.exp(scipy.special.log_ndtr(mu / 2 - epsilon / mu))
    return max(0.0, gained - math.exp(epsilon + scipy.special.log_ndtr(-mu / 2 - epsilon / mu)))


@lru_cache(maxsize=256)
def analytic_gaussian_scale(epsilon: float, delta: float) -> float:
    """Return the smallest standard deviation whose continuous Gaussian noise costs (epsilon, delta).

    Raises
    ------
    ValueError
        If not 0 < epsilon <= 100 and 0 < delta < 1, or the scale would be above 5e4.

    Examples
    --------
    >>> round(analytic_gaussian_scale(1.0, 1e-6), 4)
    5.9746
    """
    check_price(epsilon, delta)
    low, high = math.log(1e-4), math.log(MAX_SCALE / 4.001)

    def enough(log_scale: float) -> bool:
        return analytic_gaussian_delta(math.exp(log_scale), epsilon) <= delta

    if not enough(high):
        raise ValueError(f"epsilon and delta must be larger, got epsilon={epsilon}, delta={delta}")
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return math.exp(high)


@lru_cache(maxsize=256)
def discrete_gaussian_scale(epsilon: float, delta: float) -> float:
    """Return the smallest scale whose discrete Gaussian noise on counts costs (epsilon, delta).

    Raises
    ------
    ValueError
        If not 0 < epsilon <= 100 and 0 < delta < 1, or no scale within a factor of four of the continuous
        one suffices.

    Notes
    -----
    **Guarantees.** The delta at the returned scale, computed anew and raised by a millionth for rounding,
    is at most the given one. No assumption is made on its decrease with the scale.

    Examples
    --------
    >>> round(discrete_gaussian_scale(1.0, 1e-6), 4)
    5.9766
    """
    start = analytic_gaussian_scale(epsilon, delta)
    low, high = math.log(start / 4), math.log(4 * start)

    def enough(log_scale: float) -> bool:
        return is_covered(discrete_gaussian_delta(math.exp(log_scale), epsilon), delta)

    if not enough(high):
        raise ValueError(f"epsilon must be smaller, got epsilon={epsilon} with delta={delta}")
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return math.exp(high)


def _check(scale: float, epsilon: float) -> None:
    if not MIN_SCALE <= scale <= MAX_SCALE:
        raise ValueError(f"scale must be in [1e-100, 2e5], got scale={scale}")
    check_epsilon(epsilon)


@dataclass(frozen=True, slots=True, eq=False)
class DiscreteGaussianLaw(ExactLaw):
    """The public law of discrete Gaussian noise, for intervals and planning.

    Parameters
    ----------
    scale
        Scale of the noise: P(z) ~ exp(-z^2 / (2 scale^2)) for each class.
    n_classes, support, probability
        As for `ExactLaw`.

    Notes
    -----
    **Guarantees.** The probabilities are symmetric and add up to 1; the half width is the smallest
    of its level.

    Examples
    --------
    >>> law = DiscreteGaussian(epsilon=0.05, delta=0.05).law(5)
    >>> round(law.projected_l1, 1), law.half_width(0.9)
    (28.3, 13)
    """

    @property
    def projected_l1(self) -> float:
        """Expected l1 norm after projection to the public sum, c sd sqrt(2 (1 - 1/c) / pi).

        It is computed for continuous noise of this scale. The error of discrete noise is smaller, at a
        scale of 1 or more by at most a tenth; cutting off negative counts can only reduce it.
        """
        c = self.n_classes
        return c * self.scale * math.sqrt(2 * (1 - 1 / c) / math.pi)


@dataclass(frozen=True, slots=True)
class DiscreteGaussianEvent:
    """Independent discrete Gaussian noise was added to class counts that one moved task changes.

    P(z) ~ exp(-||z||_2^2 / (2 scale^2)). At `epsilon`, in (0, 100], it costs the delta that
    `discrete_gaussian_delta` sums exactly; `delta` is the claim, which is at least that.

    Raises
    ------
    ValueError
        If the claim is below what the scale realises.

    Examples
    --------
    >>> DiscreteGaussianEvent(scale=8.0, epsilon=0.05, delta=0.05).cost().delta
    Fraction(1, 20)
    """

    scale: float
    epsilon: float
    delta: float
    arithmetic: ClassVar[Arithmetic] = "exact"

    def __post_init__(self) -> None:
        keep_declared(self)
        check_delta(self.delta, discrete_gaussian_delta(self.scale, self.epsilon))

    def cost(self) -> Cost:
        """Return the cost of approximate differential privacy at the claim."""
        return Cost(exact(self.epsilon), exact(self.delta))

    def loss(self) -> Loss:
        """Return the losses (t + 1) / scale^2 of `discrete_gaussian_delta`."""
        weight, total, t = _difference(self.scale, first=0)
        probability, loss = weight / total, (t + 1) / self.scale**2
        above = np.append(np.cumsum(probability[::-1])[::-1], 0.0)
        below = np.append(np.cumsum((probability * np.exp(-loss))[::-1])[::-1], 0.0)

        def delta(at: Float[np.ndarray, " points"]) -> Float[np.ndarray, " points"]:
            first = np.searchsorted(loss, at, side="right")
            return np.asarray(np.maximum(above[first] - np.exp(at) * below[first], 0))

        return Loss(min(12 / self.scale + 2 / self.scale**2, MAX_LOSS), delta)


@dataclass(frozen=True, slots=True)
class DiscreteGaussian:
    """Release class counts with discrete Gaussian noise of the smallest scale for the price.

    The released value is the list of noisy counts: integers that may be negative and need not add up to n.
    `project_to_simplex` with total n makes valid counts of them, and removes the part of the noise that
    moves the public sum. Both are post-processing, and cost nothing.

    Parameters
    ----------
    epsilon, delta
        Price of one release, 0 < epsilon <= 100 and 0 < delta < 1; a ledger's budget allows only a delta
        below 1/n.

    Raises
    ------
    ValueError
        If one of these conditions is broken.

    Notes
    -----
    **Guarantees.** The realised delta at epsilon is at most the claim; the event depends on public things
    only. A query whose neighbours move more than one task is refused.
    **Privacy.** Unit: the query's. Event: `DiscreteGaussianEvent`. Neighbours' counts differ by
    one in two classes; a calibration for one class would understate delta.

    References
    ----------
    .. [1] Canonne, Kamath, Steinke, "The discrete Gaussian for differential privacy", NeurIPS
       (2020).

    Examples
    --------
    >>> round(DiscreteGaussian(epsilon=1.0, delta=1e-6).scale, 3)
    5.977
    """

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        keep_declared(self)
        discrete_gaussian_scale(self.epsilon, self.delta)

    @property
    def scale(self) -> float:
        """Scale of the noise; public."""
        return discrete_gaussian_scale(self.epsilon, self.delta)

    def event(self, query: Query) -> DiscreteGaussianEvent:
        """Describe a release of this query; raise CountsError if it has no vector of class counts."""
        check_moved_task(query)
        check_drawable(query)
        return DiscreteGaussianEvent(self.scale, self.epsilon, self.delta)

    def law(self, n_classes: int) -> DiscreteGaussianLaw:
        """Return the public law of the noise, for intervals and planning."""
        check_classes(n_classes)
        reach = int(12 * self.scale) + 2
        support = np.arange(-reach, reach + 1)
        probability = np.exp(-((support / self.scale) ** 2) / 2)
        probability /= probability.sum()
        return DiscreteGaussianLaw(self.scale, n_classes, support, probability)

    def log_likelihood(
        self, query: Query, releases: Int[np.ndarray, "draws classes"]
    ) -> Float[np.ndarray, " draws"]:
        """Return the log probability of releases, up to a constant that neighbouring queries share."""
        counts = check_moved_task(query)
        noise = (check_releases(releases, counts.size) - counts) / self.scale
        return np.asarray(-np.square(noise).sum(axis=1) / 2)

    def draw(self, query: Query, noise: Noise) -> Json:
        """Draw noisy counts; only the ledger calls this."""
        return self.draw_all((query,), noise)[0]

    def draw_all(self, queries: Sequence[Query], noise: Noise) -> list[Json]:
        """Draw noisy counts of each query, in one call; only the ledger calls this."""
        counts = [check_moved_task(query) for query in queries]
        source = iter(noise.discrete_gaussian(self.scale, sum(c.size for c in counts)))
        return [[int(count) + next(source) for count in vector] for vector in counts]


def check_moved_task(query: Query) -> Int[np.ndarray, " classes"]:
    """Return the counts of a query whose neighbours move a single task, or raise CountsError."""
    counts = check_counts(query)
    if not query.l1 <= ONE_TASK:
        raise CountsError(f"counts must have an l1 sensitivity of at most 2, got l1={query.l1}")
    return counts
