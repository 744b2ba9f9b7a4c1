"""Dirichlet releases of class proportions, for comparison with the paper that proposed them.

`DirichletClamp` raises small counts to a public floor. `DirichletPseudoCount` adds a public pseudo-count to
every count, which needs no floor, and subtracts it from the released proportions. Both have larger errors
than the mechanism that `choose_mechanism` returns.

Both draw from an urn in exact integers. Floating-point gamma variables would leave privacy unproved: the
doubles that can occur depend on the private shapes. An urn starts with weights proportional to the shapes,
and each drawn colour gains weight. The proportions of its counts tend to Dirichlet ones. Given the
Dirichlet vector the counts are multinomial, so they are post-processing of it and cost no more.

>>> DirichletClamp(epsilon=0.05, delta=0.05, floor=49).draws(n=1000, n_classes=5)
38842
"""

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import accumulate
from typing import ClassVar

import numpy as np
import scipy
from jaxtyping import Float, Int

from privacy.accounting import (
    MAX_LOSS,
    MAX_SCALE,
    Arithmetic,
    Cost,
    Loss,
    check_delta,
    exact,
    keep_declared,
)
from privacy.counts import project_to_simplex
from privacy.mechanism import Json, Noise
from privacy.mechanisms.dirichlet_pairs import (
    clamp_delta,
    dominating_delta,
    largest_clamp_scale,
    largest_scale,
)
from privacy.mechanisms.gaussian import check_moved_task
from privacy.query import Query, check_classes, check_releases, check_size, is_whole

__all__ = [
    "ClampedDirichletEvent",
    "DirichletClamp",
    "DirichletPseudoCount",
    "PseudoCountDirichletEvent",
    "draw_urn",
    "public_draws",
]

DRAWS_PER_WEIGHT = 50  # at this number the urn adds about a hundredth to the l1 error
MAX_DRAWS = 1_000_000
SHIFT = 1e-13  # a delta falls by at most this much between epsilons 0 and SHIFT
NEGLIGIBLE = 1e-14


@dataclass(frozen=True, slots=True)
class ClampedDirichletEvent:
    """Draws from an urn whose limit is Dir(scale * max(counts, floor)) were released.

    `scale` is a fraction as text. At `epsilon`, in (0, 100], any number of draws costs at most the delta of
    `clamp_delta`; `delta` is the claim, which is at least that.

    Raises
    ------
    ValueError
        If the claim is below what the scale realises.

    Examples
    --------
    >>> ClampedDirichletEvent("97/125", floor=49, draws=100, epsilon=0.05, delta=0.05).cost().delta
    Fraction(1, 20)
    """

    scale: str
    floor: int
    draws: int
    epsilon: float
    delta: float
    arithmetic: ClassVar[Arithmetic] = "exact"

    def __post_init__(self) -> None:
        keep_declared(self)
        scale = _check_urn(self.scale, self.draws)
        check_delta(self.delta, clamp_delta(self.floor, scale, self.epsilon))

    def cost(self) -> Cost:
        """Return the cost of approximate differential privacy at the claim."""
        return Cost(exact(self.epsilon), exact(self.delta))

    def loss(self) -> Loss:
        """Return the loss with `clamp_delta` at every epsilon; an urn's draws are a random map of it."""
        return _loss(partial(clamp_delta, self.floor, float(exact(self.scale))))


@dataclass(frozen=True, slots=True)
class PseudoCountDirichletEvent:
    """Draws from an urn whose limit is Dir(scale * (counts + pseudo_count)) were released.

    `scale` is a fraction as text. At `epsilon`, in (0, 100], any number of draws costs at most the delta of
    `dominating_delta` at the pseudo-count; `delta` is the claim, which is at least that.

    Raises
    ------
    ValueError
        If the claim is below what the scale realises.

    Examples
    --------
    >>> PseudoCountDirichletEvent("97/125", 49, draws=100, epsilon=0.05, delta=0.05).cost().delta
    Fraction(1, 20)
    """

    scale: str
    pseudo_count: int
    draws: int
    epsilon: float
    delta: float
    arithmetic: ClassVar[Arithmetic] = "exact"

    def __post_init__(self) -> None:
        keep_declared(self)
        scale = _check_urn(self.scale, self.draws)
        check_delta(self.delta, dominating_delta(self.pseudo_count, scale, self.epsilon))

    def cost(self) -> Cost:
        """Return the cost of approximate differential privacy at the claim."""
        return Cost(exact(self.epsilon), exact(self.delta))

    def loss(self) -> Loss:
        """Return the loss with `dominating_delta` at every epsilon; an urn's draws are a random map of it."""
        return _loss(partial(dominating_delta, self.pseudo_count, float(exact(self.scale))))


def _loss(delta_at: Callable[[float], float]) -> Loss:
    """Return the loss whose deltas have a closed form at every epsilon > 0."""

    def delta(at: Float[np.ndarray, " points"]) -> Float[np.ndarray, " points"]:
        return np.array([delta_at(max(float(epsilon), SHIFT)) for epsilon in at])

    low, high = 0.0, MAX_LOSS
    for _ in range(20):
        middle = (low + high) / 2
        low, high = (low, middle) if delta(np.array([middle]))[0] <= NEGLIGIBLE else (middle, high)
    return Loss(high, delta)


def _check_urn(text: str, draws: int) -> float:
    """Return the scale in a text; raise ValueError if there is no such urn."""
    scale = exact(text)
    if not 0 < scale <= MAX_SCALE:
        raise ValueError(f"scale must be > 0 and at most 2**40, got scale={text}")
    if not (is_whole(draws) and draws >= 1):
        raise ValueError(f"draws must be an integer >= 1, got draws={draws}")
    return float(scale)


@dataclass(frozen=True, slots=True)
class DirichletClamp:
    """Release class proportions by drawing from Dir(scale * max(counts, floor)).

    The released value is the list of the urn's counts; over their sum they are the proportions of the
    clamped counts. Prefer the mechanism that `choose_mechanism` returns. This one is for comparison with
    the paper, whose scale depends on the counts and so is not private (see the module
    `privacy.mechanisms.dirichlet_pairs`).

    Parameters
    ----------
    epsilon, delta
        Price of one release, 0 < epsilon <= 100 and 0 < delta < 1.
    floor
        **Public** integer >= 1 to which smaller counts are raised, zeros included. Results are unbiased if
        no count is below it.

    Raises
    ------
    InfeasibleFloor
        If no scale is cheap enough; this depends on public numbers, never on counts.
    ValueError
        If one of the conditions is broken.

    Notes
    -----
    **Guarantees.** The realised delta at epsilon is at most the claim; event, number of draws and refusals
    depend on public things only, and every vector of counts has a release.
    **Cost.** One uniform integer, and a bisection, for each of ceil(50 scale max(n, classes * floor))
    draws, at most a million. Draws are multinomial given the Dirichlet vector, so they add a variance of
    rho (1 - rho) / draws at most to each proportion.
    **Privacy.** Unit: the query's. Event: `ClampedDirichletEvent`, whose delta is `clamp_delta`.

    References
    ----------
    .. [1] Iyer, Nath, Sarawagi, "Privacy-preserving class ratio estimation", KDD (2016).
    .. [2] Blackwell, MacQueen, "Ferguson distributions via Polya urn schemes", Ann. Statist. 1
       (1973).

    Examples
    --------
    >>> DirichletClamp(epsilon=0.05, delta=0.05, floor=49).draws(n=1000, n_classes=5)
    38842
    """

    epsilon: float
    delta: float
    floor: int

    def __post_init__(self) -> None:
        keep_declared(self)
        if isinstance(self.floor, bool) or not (isinstance(self.floor, int) and self.floor >= 1):
            raise ValueError(f"floor must be an integer >= 1, got floor={self.floor}")
        largest_clamp_scale(self.floor, self.epsilon, self.delta)

    @property
    def scale(self) -> Fraction:
        """Scale of the Dirichlet; public."""
        return largest_clamp_scale(self.floor, self.epsilon, self.delta)

    def draws(self, n: int, n_classes: int) -> int:
        """Return the public number of draws from the urn, for n tasks."""
        return public_draws(self.scale, n, n_classes, max(n, n_classes * self.floor))

    def event(self, query: Query) -> ClampedDirichletEvent:
        """Describe a release of this query; raise CountsError if it has no vector of class counts."""
        counts = check_moved_task(query)
        draws = self.draws(int(query.n), counts.size)
        return ClampedDirichletEvent(str(self.scale), self.floor, draws, self.epsilon, self.delta)

    def log_likelihood(
        self, query: Query, releases: Int[np.ndarray, "draws classes"]
    ) -> Float[np.ndarray, " draws"]:
        """Return the log probability of releases, up to a constant that neighbouring queries share."""
        shape = float(self.scale) * np.maximum(check_moved_task(query), self.floor)
        drawn, gammaln = check_releases(releases, shape.size), scipy.special.gammaln
        constant = gammaln(shape.sum()) - gammaln(shape).sum()
        own = gammaln(shape + drawn).sum(axis=1)
        return np.asarray(constant + own - gammaln(shape.sum() + drawn.sum(axis=1)))

    def draw(self, query: Query, noise: Noise) -> Json:
        """Draw counts from the urn; only the ledger calls this."""
        counts = check_moved_task(query)
        clamped = np.maximum(counts, self.floor)
        return draw_urn(clamped, self.scale, self.draws(int(query.n), counts.size), noise)


def public_draws(scale: Fraction, n: int, n_classes: int, total: int) -> int:
    """Return the number of draws from an urn whose counts add up to about `total`, for n tasks."""
    check_size(n)
    check_classes(n_classes)
    return min(MAX_DRAWS, math.ceil(DRAWS_PER_WEIGHT * scale * total))


def draw_urn(
    counts: Int[np.ndarray, " classes"], scale: Fraction, draws: int, noise: Noise
) -> list[int]:
    """Draw from the Polya urn of Dir(scale * counts): Dirichlet-multinomial counts, exactly.

    Colours start with weights numerator * counts, and a drawn colour gains the denominator: the gained
    weights are listed after the first weights, in the order of the draws.
    """
    ends = list(accumulate(scale.numerator * int(count) for count in counts))
    drawn: list[int] = []
    for _ in range(draws):
        place = noise.uniform_integer(ends[-1] + scale.denominator * len(drawn))
        gained = (place - ends[-1]) // scale.denominator
        drawn.append(drawn[gained] if gained >= 0 else bisect_right(ends, place))
    number = Counter(drawn)
    return [number[colour] for colour in range(len(ends))]


@dataclass(frozen=True, slots=True)
class DirichletPseudoCount:
    """Release class proportions by drawing from Dir(scale * (counts + pseudo_count)).

    The released value is the list of the urn's counts; `proportions` subtracts the pseudo-counts. Prefer
    the mechanism that `choose_mechanism` returns: this one has a larger error than the discrete Gaussian,
    whose law it approaches as pseudo-counts grow. The references are those of `DirichletClamp`.

    Parameters
    ----------
    epsilon, delta
        As for `DirichletClamp`, errors included.
    pseudo_count
        **Public** integer >= 1, added to the count of every class.

    Notes
    -----
    **Guarantees.** The realised delta at epsilon is at most the claim; event, number of draws and
    refusals depend on public things only, and every vector of counts has a release. Proportions
    without the pseudo-counts lie on the simplex, and before their projection are unbiased.
    **Cost.** One uniform integer for each of ceil(50 scale (n + classes * pseudo_count)) draws, at
    most a million.
    **Privacy.** Unit: the query's. Event: `PseudoCountDirichletEvent`, whose delta is `dominating_delta` at
    the pseudo-count: no shape of any data set is below it.

    Examples
    --------
    >>> mechanism = DirichletPseudoCount(epsilon=0.05, delta=0.05, pseudo_count=200)
    >>> mechanism.draws(n=1000, n_classes=2)
    222557
    >>> mechanism.proportions([600, 400], n=1000)
    array([0.64, 0.36])
    """

    epsilon: float
    delta: float
    pseudo_count: int

    def __post_init__(self) -> None:
        keep_declared(self)
        if isinstance(self.pseudo_count, bool) or not (
            isinstance(self.pseudo_count, int) and self.pseudo_count >= 1
        ):
            raise ValueError(
                f"pseudo_count must be an integer >= 1, got pseudo_count={self.pseudo_count}"
            )
        largest_scale(self.pseudo_count, self.epsilon, self.delta)

    @property
    def scale(self) -> Fraction:
        """Scale of the Dirichlet; public."""
        return largest_scale(self.pseudo_count, self.epsilon, self.delta)

    def draws(self, n: int, n_classes: int) -> int:
        """Return the public number of draws from the urn, for n tasks."""
        return public_draws(self.scale, n, n_classes, n + n_classes * self.pseudo_count)

    def event(self, query: Query) -> PseudoCountDirichletEvent:
        """Describe a release of this query; raise CountsError if it has no vector of class counts."""
        draws = self.draws(int(query.n), check_moved_task(query).size)
        return PseudoCountDirichletEvent(
            str(self.scale), self.pseudo_count, draws, self.epsilon, self.delta
        )

    def log_likelihood(
        self, query: Query, releases: Int[np.ndarray, "draws classes"]
    ) -> Float[np.ndarray, " draws"]:
        """Return the log probability of releases, up to a constant that neighbouring queries share."""
        shape = float(self.scale) * (check_moved_task(query) + float(self.pseudo_count))
        drawn, gammaln = check_releases(releases, shape.size), scipy.special.gammaln
        return np.asarray(gammaln(shape + drawn).sum(axis=1) - gammaln(shape).sum())

    def draw(self, query: Query, noise: Noise) -> Json:
        """Draw counts from the urn; only the ledger calls this."""
        counts = check_moved_task(query)
        draws = self.draws(int(query.n), counts.size)
        return draw_urn(counts + self.pseudo_count, self.scale, draws, noise)

    def proportions(self, value: list[int], *, n: int) -> Float[np.ndarray, " classes"]:
        """Return class proportions of n tasks from a released value, without the pseudo-counts."""
        check_size(n)
        drawn = np.asarray(value, dtype=np.float64)
        if not (drawn.ndim == 1 and (drawn >= 0).all() and 0 < drawn.sum() < np.inf):
            raise ValueError("value must be the urn's counts: numbers >= 0, one of them > 0")
        total = n + drawn.size * self.pseudo_count
        return project_to_simplex((total * drawn / drawn.sum() - self.pseudo_count) / n)
