"""Independent discrete Laplace noise on class counts (the two-sided geometric mechanism)."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
from jaxtyping import Float, Int

from privacy.counts import check_counts
from privacy.mechanism import Json, Noise
from privacy.mechanisms.kinds import DiscreteLaplaceEvent, covering_scale, exact
from privacy.query import Query

__all__ = ["DiscreteLaplace", "DiscreteLaplaceLaw", "draw_by_scale", "draw_geometric", "scales_of"]


@dataclass(frozen=True, slots=True)
class DiscreteLaplaceLaw:
    """The public law of the noise on each class: P(z) = (1 - q) / (1 + q) q^|z|, q = exp(-1 / scale).

    Examples
    --------
    >>> round(DiscreteLaplace(epsilon=1.0).law(2).expected_l1, 4)
    3.8381
    """

    scale: float
    n_classes: int

    @property
    def variance(self) -> float:
        """Variance of one class's noise: 2 q / (1 - q)^2."""
        return 2 * math.exp(-1 / self.scale) / math.expm1(-1 / self.scale) ** 2

    @property
    def expected_l1(self) -> float:
        """Expected l1 norm of the noise over all classes: 2 q / (1 - q^2) each."""
        one = -2 * math.exp(-1 / self.scale) / math.expm1(-2 / self.scale)
        return self.n_classes * one

    def half_width(self, level: float) -> int:
        """Smallest h such that one class's noise lies in [-h, h] with probability >= `level`."""
        if not 0 < level < 1:
            raise ValueError(f"level must be in (0, 1), got level={level}")
        # P(|z| > h) = 2 q^(h + 1) / (1 + q)
        tail = (1 - level) * (1 + math.exp(-1 / self.scale)) / 2
        return max(0, math.ceil(-self.scale * math.log(tail) - 1))


@dataclass(frozen=True, slots=True)
class DiscreteLaplace:
    """Release class counts with independent discrete Laplace noise of scale l1 / epsilon.

    The released value is the list of noisy counts: integers that may be negative and need not add
    up to n. `LatticeLaplace` errs less; this one is the textbook reference.

    Parameters
    ----------
    epsilon
        Price of one release, > 0 and finite.

    Notes
    -----
    **Guarantees.** The realised epsilon, l1 over the scale drawn with, is at most the claim in
    exact arithmetic; the event depends on public things only.
    **Privacy.** Unit: the query's. Event: `DiscreteLaplaceEvent`. Moving the counts by v changes
    ||z||_1 by at most ||v||_1 <= l1, so each output's probability changes by a factor of at most
    exp(l1 / scale).

    References
    ----------
    .. [1] Ghosh, Roughgarden, Sundararajan, "Universally utility-maximizing privacy mechanisms",
       SIAM J. Comput. 41 (2012).

    Examples
    --------
    >>> DiscreteLaplace(epsilon=0.1).law(3).scale
    20.0
    """

    epsilon: float

    def __post_init__(self) -> None:
        if not exact(self.epsilon) > 0:
            raise ValueError(f"epsilon must be > 0, got epsilon={self.epsilon}")

    def event(self, query: Query) -> DiscreteLaplaceEvent:
        """Describe a release of this query; refuses what is not a vector of class counts."""
        check_counts(query)
        return DiscreteLaplaceEvent(
            scale=covering_scale(query.l1, self.epsilon), l1=query.l1, epsilon=self.epsilon
        )

    def law(self, n_classes: int, *, l1: float = 2.0) -> DiscreteLaplaceLaw:
        """Public law of the noise, for intervals and planning."""
        if not n_classes >= 2:
            raise ValueError(f"n_classes must be >= 2, got n_classes={n_classes}")
        return DiscreteLaplaceLaw(covering_scale(l1, self.epsilon), n_classes)

    def log_likelihood(
        self, query: Query, releases: Int[np.ndarray, "draws classes"]
    ) -> Float[np.ndarray, " draws"]:
        """Log probability of releases, up to what neighbouring queries share."""
        distance = np.abs(releases - check_counts(query)).sum(axis=1)
        return np.asarray(-distance / self.event(query).scale)

    def draw(self, query: Query, noise: Noise) -> Json:
        """Noisy counts; only the ledger calls this."""
        return self.draw_all((query,), noise)[0]

    def draw_all(self, queries: Sequence[Query], noise: Noise) -> list[Json]:
        """Noisy counts of each query, one call per scale; only the ledger calls this."""
        counts = [check_counts(query).tolist() for query in queries]
        drawn = draw_by_scale(
            noise.discrete_laplace, scales_of(queries, self.epsilon), [len(c) for c in counts]
        )
        return [
            [count + z for count, z in zip(vector, noisy, strict=True)]
            for vector, noisy in zip(counts, drawn, strict=True)
        ]


def scales_of(queries: Sequence[Query], epsilon: float) -> list[float]:
    """Scale of each query's noise, l1 / epsilon rounded up; worked out once for each l1."""
    scale = {l1: covering_scale(l1, epsilon) for l1 in {query.l1 for query in queries}}
    return [scale[query.l1] for query in queries]


def draw_by_scale(
    draw: Callable[[float, int], Iterable[int]], scales: Sequence[float], sizes: Sequence[int]
) -> list[list[int]]:
    """Draws of each scale and size asked for, from one call of `draw` per scale."""
    total: Counter[float] = Counter()
    for scale, size in zip(scales, sizes, strict=True):
        total[scale] += size
    source = {scale: iter(draw(scale, size)) for scale, size in total.items()}
    return [list(islice(source[scale], size)) for scale, size in zip(scales, sizes, strict=True)]


def draw_geometric(noise: Noise, scale: float, size: int) -> list[int]:
    """Independent integers g >= 0 with P(g >= k) = exp(-k / scale), exactly; no draw is wasted.

    Discrete Laplace draws folded between -1 and 0: g comes from z = g or z = -g - 1, and with
    q = exp(-1 / scale) their probabilities, like q^g and q^(g + 1), add up to a multiple of q^g.
    """
    return [z if z >= 0 else -z - 1 for z in noise.discrete_laplace(scale, size)]
