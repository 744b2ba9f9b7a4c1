"""Independent discrete Gaussian noise on class counts, calibrated exactly for one moved task."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from privacy.counts import ONE_TASK, CountsError, check_counts
from privacy.mechanism import Json, Noise
from privacy.mechanisms.gaussian_delta import discrete_gaussian_scale
from privacy.mechanisms.kinds import DiscreteGaussianEvent
from privacy.query import Query

__all__ = ["DiscreteGaussian", "DiscreteGaussianLaw", "check_moved_task"]


@dataclass(frozen=True, slots=True, eq=False)
class DiscreteGaussianLaw:
    """The public law of discrete Gaussian noise, for intervals and planning.

    Parameters
    ----------
    scale
        Of the noise: P(z) ~ exp(-z^2 / (2 scale^2)) for each class apart.
    n_classes
        How many classes, >= 2.
    support, probability
        Law of one class's noise, on consecutive integers around zero.

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

    scale: float
    n_classes: int
    support: Int[np.ndarray, " values"]
    probability: Float[np.ndarray, " values"]

    @property
    def variance(self) -> float:
        """Variance of one class's noise."""
        return float(np.sum(self.support.astype(np.float64) ** 2 * self.probability))

    @property
    def expected_l1(self) -> float:
        """Expected l1 norm of the noise over all classes, in labels."""
        return self.n_classes * float(np.sum(np.abs(self.support) * self.probability))

    @property
    def projected_l1(self) -> float:
        """Expected l1 norm after projection to the public sum, c sd sqrt(2 (1 - 1/c) / pi).

        That of continuous noise of this scale; cutting off negative counts can only help further.
        """
        c = self.n_classes
        return c * self.scale * math.sqrt(2 * (1 - 1 / c) / math.pi)

    def half_width(self, level: float) -> int:
        """Smallest h such that one class's noise lies in [-h, h] with probability >= `level`.

        The noisy count +- h is a two-sided interval for the exact count at that level.
        """
        if not 0 < level <= 1 - 1e-9:
            raise ValueError(f"level must be in (0, 1 - 1e-9], got level={level}")
        one_side = self.probability[self.support.size // 2 :].copy()
        one_side[1:] *= 2
        return int(np.searchsorted(np.cumsum(one_side), level))


@dataclass(frozen=True, slots=True)
class DiscreteGaussian:
    """Release class counts with discrete Gaussian noise of the smallest scale for the price.

    The released value is the list of noisy counts: integers that may be negative and need not add
    up to n. `project_to_simplex` with total n makes counts of them, and takes out the part of the
    noise that moves the public sum. Both are post-processing, and cost nothing.

    Parameters
    ----------
    epsilon, delta
        Price of one release, 0 < epsilon <= 100 and 0 < delta < 1; a ledger's budget takes no
        delta of 1/n or more.

    Raises
    ------
    ValueError
        If one of these conditions is broken.

    Notes
    -----
    **Guarantees.** The realised delta at epsilon is at most the claim; the event depends on public
    things only. A query that more than one moved task can change is refused.
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
        discrete_gaussian_scale(self.epsilon, self.delta)

    @property
    def scale(self) -> float:
        """Scale of the noise; public."""
        return discrete_gaussian_scale(self.epsilon, self.delta)

    def event(self, query: Query) -> DiscreteGaussianEvent:
        """Describe a release of this query; refuses what is not a vector of class counts."""
        check_moved_task(query)
        return DiscreteGaussianEvent(self.scale, self.epsilon, self.delta)

    def law(self, n_classes: int) -> DiscreteGaussianLaw:
        """Public law of the noise, for intervals and planning."""
        if not n_classes >= 2:
            raise ValueError(f"n_classes must be >= 2, got n_classes={n_classes}")
        reach = math.ceil(12 * self.scale) + 1
        support = np.arange(-reach, reach + 1)
        probability = np.exp(-((support / self.scale) ** 2) / 2)
        probability /= probability.sum()
        support.setflags(write=False)
        probability.setflags(write=False)
        return DiscreteGaussianLaw(self.scale, n_classes, support, probability)

    def log_likelihood(
        self, query: Query, releases: Int[np.ndarray, "draws classes"]
    ) -> Float[np.ndarray, " draws"]:
        """Log probability of releases, up to what neighbouring queries share."""
        noise = (releases - check_moved_task(query)) / self.scale
        return np.asarray(-np.square(noise).sum(axis=1) / 2)

    def draw(self, query: Query, noise: Noise) -> Json:
        """Noisy counts; only the ledger calls this."""
        return self.draw_all((query,), noise)[0]

    def draw_all(self, queries: Sequence[Query], noise: Noise) -> list[Json]:
        """Noisy counts of each query, in one call; only the ledger calls this."""
        counts = [check_moved_task(query) for query in queries]
        source = iter(noise.discrete_gaussian(self.scale, sum(c.size for c in counts)))
        return [[int(count) + next(source) for count in vector] for vector in counts]


def check_moved_task(query: Query) -> Int[np.ndarray, " classes"]:
    """Counts of a query whose neighbours move a single task, or a refusal that does not tell them."""
    counts = check_counts(query)
    if not query.l1 <= ONE_TASK:
        raise CountsError(f"counts must have an l1 sensitivity of at most 2, got l1={query.l1}")
    return counts
