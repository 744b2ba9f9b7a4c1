"""Independent Laplace noise on class counts in exact integers: the textbook reference.

`DiscreteLaplace` is the two-sided geometric mechanism on each class. `LatticeLaplace` has a smaller error.

>>> DiscreteLaplace(epsilon=0.5).law(5).half_width(0.9)
9
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from typing import ClassVar

import numpy as np
from jaxtyping import Float, Int

from privacy.accounting import (
    Arithmetic,
    Cost,
    Loss,
    atom_loss,
    covering_scale,
    exact,
    keep_declared,
    response_loss,
)
from privacy.mechanism import Json, Noise
from privacy.mechanisms.lattice_laplace import check_laplace, scales_of
from privacy.query import (
    ONE_TASK,
    Query,
    check_classes,
    check_counts,
    check_drawable,
    check_releases,
)

__all__ = ["DiscreteLaplace", "DiscreteLaplaceEvent", "DiscreteLaplaceLaw", "draw_by_scale"]

MAX_EXPONENT = 700.0  # its exponential is still a finite double


@dataclass(frozen=True, slots=True)
class DiscreteLaplaceEvent:
    """Independent discrete Laplace noise was added to class counts of a given l1 sensitivity.

    P(z) ~ exp(-||z||_1 / scale). It is (l1 / scale)-differentially private, and `epsilon` is the claim,
    which is at least that. The counts add up to a public number, the same for neighbours.

    Raises
    ------
    ValueError
        If the claim is below what the scale realises, in exact arithmetic.

    Examples
    --------
    >>> DiscreteLaplaceEvent(scale=20.0, l1=2.0, epsilon=0.1).cost().epsilon
    Fraction(1, 10)
    """

    scale: float
    l1: float
    epsilon: float
    arithmetic: ClassVar[Arithmetic] = "exact"

    def __post_init__(self) -> None:
        keep_declared(self)
        check_laplace(self.scale, self.l1, self.epsilon)

    def cost(self) -> Cost:
        """Return the cost of pure differential privacy at the claim."""
        return Cost(exact(self.epsilon), Fraction(0))

    def loss(self) -> Loss:
        """Return three atoms for one moved task; for other sensitivities the loss of l1 / scale.

        One moved task changes two counts by one. Each has losses +-1 / scale; one count that changes by two
        would have a larger loss.
        """
        epsilon = self.l1 / self.scale
        if self.l1 != ONE_TASK:
            return response_loss(math.nextafter(epsilon, math.inf))
        return atom_loss(epsilon, 1 / (1 + math.exp(-epsilon / 2)) ** 2)


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
    def kurtosis(self) -> float:
        """Excess kurtosis of one class's noise: (1 + 4 q + q^2) / (2 q), 3 for a wide law."""
        return 2.0 + math.cosh(min(1 / self.scale, MAX_EXPONENT))

    @property
    def expected_l1(self) -> float:
        """Expected l1 norm of the noise over all classes: 2 q / (1 - q^2) each."""
        one = -2 * math.exp(-1 / self.scale) / math.expm1(-2 / self.scale)
        return self.n_classes * one

    def half_width(self, level: float) -> int:
        """Return the smallest h such that one class's noise lies in [-h, h] with probability >= `level`."""
        if not 0 < level < 1:
            raise ValueError(f"level must be in (0, 1), got level={level}")
        # P(|z| > h) = 2 q^(h + 1) / (1 + q)
        tail = (1 - level) * (1 + math.exp(-1 / self.scale)) / 2
        return max(0, math.ceil(-self.scale * math.log(tail) - 1))


@dataclass(frozen=True, slots=True)
class DiscreteLaplace:
    """Release class counts with independent discrete Laplace noise of scale l1 / epsilon.

    The released value is the list of noisy counts: integers that may be negative and need not add up to n.
    `LatticeLaplace` has a smaller error; this one is the textbook reference.

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
        keep_declared(self)
        if not exact(self.epsilon) > 0:
            raise ValueError(f"epsilon must be > 0, got epsilon={self.epsilon}")

    def event(self, query: Query) -> DiscreteLaplaceEvent:
        """Describe a release of this query; raise CountsError if it has no vector of class counts."""
        check_drawable(query)
        return DiscreteLaplaceEvent(
            scale=covering_scale(query.l1, self.epsilon), l1=query.l1, epsilon=self.epsilon
        )

    def law(self, n_classes: int, *, l1: float = 2.0) -> DiscreteLaplaceLaw:
        """Return the public law of the noise, for intervals and planning."""
        check_classes(n_classes)
        return DiscreteLaplaceLaw(covering_scale(l1, self.epsilon), n_classes)

    def log_likelihood(
        self, query: Query, releases: Int[np.ndarray, "draws classes"]
    ) -> Float[np.ndarray, " draws"]:
        """Return the log probability of releases, up to a constant that neighbouring queries share."""
        counts = check_counts(query)
        distance = np.abs(check_releases(releases, counts.size) - counts).sum(axis=1)
        return np.asarray(-distance / self.event(query).scale)

    def draw(self, query: Query, noise: Noise) -> Json:
        """Draw noisy counts; only the ledger calls this."""
        return self.draw_all((query,), noise)[0]

    def draw_all(self, queries: Sequence[Query], noise: Noise) -> list[Json]:
        """Draw noisy counts of each query, one call per scale; only the ledger calls this."""
        counts = [check_counts(query).tolist() for query in queries]
        drawn = draw_by_scale(
            noise.discrete_laplace, scales_of(queries, self.epsilon), [len(c) for c in counts]
        )
        return [
            [count + z for count, z in zip(vector, noisy, strict=True)]
            for vector, noisy in zip(counts, drawn, strict=True)
        ]


def draw_by_scale(
    draw: Callable[[float, int], Iterable[int]], scales: Sequence[float], sizes: Sequence[int]
) -> list[list[int]]:
    """Return draws of each scale and size, from one call of `draw` per scale."""
    total: Counter[float] = Counter()
    for scale, size in zip(scales, sizes, strict=True):
        total[scale] += size
    source = {scale: iter(draw(scale, size)) for scale, size in total.items()}
    return [list(islice(source[scale], size)) for scale, size in zip(scales, sizes, strict=True)]
