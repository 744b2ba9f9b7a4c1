"""Laplace noise on class counts whose public total stays exact, in integers: `LatticeLaplace`.

It is discrete Laplace noise conditioned on summing to zero. Neighbours move one task from one class to
another, so counts lie on the hyperplane of sum n. Noise on this hyperplane pays only for the directions in
which neighbours can differ. For two classes it is the geometric mechanism on a single count.

**Sampling.** Let q = exp(-1 / scale). Discrete Laplace noise is the difference of two independent geometric
integers, P(g) ~ q^g. So a vector of it that adds up to zero is a difference of two geometric vectors, gains
and losses, of one total t. Given t each is uniform among the C(t + c - 1, c - 1) ways to write t as a sum
of c integers, and P(t) ~ (C(t + c - 1, c - 1) q^t)^2. The gains are drawn first, without a condition, which
gives t in proportion to w(t) = C(t + c - 1, c - 1) q^t. They are kept with probability w(t) / max w; then
the losses are drawn from the ways to write t. Two thirds or more are kept, for every scale and number of
classes. The sampler is exact although that probability is irrational: a uniform number is compared with
bounds on it, bit by bit as far as needed, while the bounds tighten (the series method [1]_).

>>> LatticeLaplace(epsilon=0.5).law(5).half_width(0.9)
7

References
----------
.. [1] Devroye, "Non-uniform random variate generation", Springer (1986), section IV.5.
.. [2] Bentley, Floyd, "Programming pearls: a sample of brilliance", Comm. ACM 30 (1987): a uniform
   subset by one uniform integer for each member.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import ClassVar

import numpy as np
import scipy
from jaxtyping import Float, Int

from privacy.accounting import (
    MAX_SCALE,
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
from privacy.mechanisms.exact_law import ExactLaw
from privacy.query import (
    ONE_TASK,
    Query,
    check_classes,
    check_counts,
    check_drawable,
    check_releases,
)

__all__ = [
    "LatticeLaplace",
    "LatticeLaplaceEvent",
    "LatticeLaplaceLaw",
    "check_laplace",
    "draw_composition",
    "draw_geometric",
    "draw_lattice",
    "keeping_bounds",
    "most_likely",
    "scales_of",
]

TINY = 1e-17  # probability outside a law's support
MAX_GRID = 2**24
MAX_BATCH = 2**20  # geometric draws at a time
SMALL_BATCH = 2**12  # a call takes as long as this number of draws
WORD = 64  # bits of the uniform number drawn at a time
GUARD = 20  # decimal digits beyond those bits
MAX_DIGITS = 40  # digits of one uniform integer: splitting them off takes quadratic time
FACTORS = 64  # factors of a quotient in one step


@dataclass(frozen=True, slots=True)
class LatticeLaplaceEvent:
    """Discrete Laplace noise conditioned on summing to zero was added to class counts.

    P(z) ~ exp(-||z||_1 / scale) over the integer vectors of `n_classes` entries with sum zero. It is
    (l1 / scale)-differentially private for neighbours whose counts have the same sum, and `epsilon` is the
    claim, which is at least that.

    Raises
    ------
    ValueError
        If the claim is below what the scale realises, in exact arithmetic.

    Examples
    --------
    >>> LatticeLaplaceEvent(scale=2.0, l1=2.0, n_classes=3, epsilon=1.0).cost().epsilon
    Fraction(1, 1)
    """

    scale: float
    l1: float
    n_classes: int
    epsilon: float
    arithmetic: ClassVar[Arithmetic] = "exact"

    def __post_init__(self) -> None:
        keep_declared(self)
        check_laplace(self.scale, self.l1, self.epsilon)
        if not (isinstance(self.n_classes, int) and self.n_classes >= 2):
            raise ValueError(f"n_classes must be an integer >= 2, got n_classes={self.n_classes}")

    def cost(self) -> Cost:
        """Return the cost of pure differential privacy at the claim."""
        return Cost(exact(self.epsilon), Fraction(0))

    def loss(self) -> Loss:
        """Return three atoms for one moved task; for other sensitivities the loss of l1 / scale.

        For a task moved from class i to j the loss is +epsilon if z_i >= 0 and z_j <= 0, -epsilon if
        z_i < 0 and z_j > 0, else 0. With q = exp(-1 / scale) and M the mean of |z| on a lattice of one
        class fewer, the first has probability 1 / (1 + q^2 + (1 - q^2) M).
        """
        epsilon = self.l1 / self.scale
        if self.l1 != ONE_TASK or self.n_classes == 2:
            return response_loss(math.nextafter(epsilon, math.inf))
        others = self.n_classes - 1
        mean = LatticeLaplace(epsilon).law(others).expected_l1 / others
        shrunk = math.exp(-epsilon)  # q^2
        return atom_loss(epsilon, 1 / (1 + shrunk + (1 - shrunk) * mean))


@lru_cache
def _event(l1: float, n_classes: int, epsilon: float) -> LatticeLaplaceEvent:
    """Describe a release at the smallest scale for its price, cached for the groups of a campaign."""
    return LatticeLaplaceEvent(covering_scale(l1, epsilon), l1, n_classes, epsilon)


def check_laplace(scale: float, l1: float, epsilon: float) -> None:
    """Raise ValueError unless a claim covers what a scale realises, in exact arithmetic."""
    if not 0 < scale <= MAX_SCALE:
        raise ValueError(f"scale must be > 0 and at most 2**40, got scale={scale}")
    if not 0 < l1 < math.inf:
        raise ValueError(f"l1 must be > 0 and finite, got l1={l1}")
    if not Fraction(l1) <= exact(epsilon) * Fraction(scale):
        raise ValueError(f"epsilon must be at least l1 / scale, got epsilon={epsilon}")


@dataclass(frozen=True, slots=True, eq=False)
class LatticeLaplaceLaw(ExactLaw):
    """The public law of lattice Laplace noise, for intervals and planning.

    Parameters
    ----------
    scale
        Scale of the noise: P(z) ~ exp(-||z||_1 / scale) over integer vectors with sum zero.
    n_classes, support, probability
        As for `ExactLaw`; the probabilities are marginal.

    Notes
    -----
    **Guarantees.** The probabilities are symmetric and add up to 1; c times the expected |z_k| is
    the expected l1 norm that follows from `distance`; the half width is the smallest of its level.

    Examples
    --------
    >>> law = LatticeLaplace(epsilon=1.0).law(5)
    >>> round(law.expected_l1, 4), law.half_width(0.9)
    (7.5339, 4)
    """

    @property
    def covariance(self) -> Float[np.ndarray, "classes classes"]:
        """Covariance of the noise: exchangeable classes that add up to zero."""
        c = self.n_classes
        return self.variance / (c - 1) * (c * np.eye(c) - 1)

    def distance(self) -> tuple[Int[np.ndarray, " values"], Float[np.ndarray, " values"]]:
        """Return the law of d = ||z||_1 / 2, the number of tasks the noise moves.

        p(d) ~ exp(-2 d / scale) N(d), with N(d) the number of integer vectors at that distance:
        sum over a positive and b negative entries of c! / (a! b! (c-a-b)!) C(d-1, a-1) C(d-1, b-1).
        """
        c, gammaln = self.n_classes, scipy.special.gammaln
        d = np.arange(1, c * (int(self.support[-1]) + 1) // 2 + 1)
        log_weight = np.full(d.size, -np.inf)
        for a in range(1, c):
            for b in range(1, c - a + 1):
                log_choices = (
                    gammaln(c + 1) - gammaln(a + 1) - gammaln(b + 1) - gammaln(c - a - b + 1)
                )
                log_count = log_choices + _log_binomial(d - 1, a - 1) + _log_binomial(d - 1, b - 1)
                log_weight = np.logaddexp(log_weight, log_count)
        log_weight = np.concatenate([[0.0], log_weight - 2 * d / self.scale])
        return np.arange(d.size + 1), np.exp(log_weight - scipy.special.logsumexp(log_weight))


@dataclass(frozen=True, slots=True)
class LatticeLaplace:
    """Release class counts with lattice Laplace noise of scale l1 / epsilon.

    The released value is the list of noisy counts: integers that add up to n and may be negative.
    Project them with `project_to_simplex` for proportions, and take intervals from `law`.

    Parameters
    ----------
    epsilon
        Price of one release, > 0 and finite.

    Notes
    -----
    **Guarantees.** The released counts add up to n; the realised epsilon, l1 over the scale drawn
    with, is at most the claim in exact arithmetic; the event depends on public things only.
    **Cost.** For many queries: less than two geometric draws for each count, for every scale and number of
    classes, and a uniform integer; they share a few calls of the noise source.
    **Privacy.** Unit: the query's. Event: `LatticeLaplaceEvent`. Neighbours' counts have the same
    sum, so outputs lie on the same lattice and the normaliser is the same for both. Moving the
    counts by v changes ||z||_1 by at most ||v||_1 <= l1, so each output's probability changes by
    a factor of at most exp(l1 / scale).
    **Sampler.** See the module: it uses integers, and bounds on probabilities in decimals that are rounded
    outwards; no floating point.

    References
    ----------
    .. [1] Hardt, Talwar, "On the geometry of differential privacy", STOC (2010): the K-norm
       mechanism, here with the l1 ball on the lattice of sum zero.

    Examples
    --------
    >>> LatticeLaplace(epsilon=0.5).law(2).scale
    4.0
    """

    epsilon: float

    def __post_init__(self) -> None:
        keep_declared(self)
        if not exact(self.epsilon) > 0:
            raise ValueError(f"epsilon must be > 0, got epsilon={self.epsilon}")

    def event(self, query: Query) -> LatticeLaplaceEvent:
        """Describe a release of this query; raise CountsError if it has no vector of class counts."""
        return _event(query.l1, check_drawable(query).size, self.epsilon)

    def law(self, n_classes: int, *, l1: float = 2.0) -> LatticeLaplaceLaw:
        """Return the public law of the noise, for intervals and planning; counts have l1 = 2."""
        check_classes(n_classes)
        scale = covering_scale(l1, self.epsilon)
        return LatticeLaplaceLaw(scale, n_classes, *_marginal(n_classes, scale))

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
        """Draw noisy counts of each query, drawn together; only the ledger calls this."""
        counts = [check_counts(query) for query in queries]
        kinds = [
            (scale, vector.size)
            for scale, vector in zip(scales_of(queries, self.epsilon), counts, strict=True)
        ]
        source = {
            kind: iter(draw_lattice(noise, *kind, wanted=wanted))
            for kind, wanted in Counter(kinds).items()
        }
        return [
            (vector + next(source[kind])).tolist()
            for vector, kind in zip(counts, kinds, strict=True)
        ]


def scales_of(queries: Sequence[Query], epsilon: float) -> list[float]:
    """Return the scale of each query's noise, l1 / epsilon rounded up, computed once for each l1."""
    scale = {l1: covering_scale(l1, epsilon) for l1 in {query.l1 for query in queries}}
    return [scale[query.l1] for query in queries]


def draw_lattice(
    noise: Noise, scale: float, n_classes: int, *, wanted: int
) -> Int[np.ndarray, "wanted classes"]:
    """Draw independent vectors of two entries or more that add up to zero.

    **Guarantees.** P(z) ~ exp(-||z||_1 / scale) over the integer vectors of sum zero, exactly.
    **Cost.** For many vectors, or many entries: less than two geometric draws for each entry on average,
    and one uniform integer for `MAX_DIGITS` of them.
    """
    mode, found = most_likely(n_classes, scale), []
    spare = min(3, SMALL_BATCH // n_classes)  # these cost less than a second call
    while wanted > 0:
        size = spare + max(1, min(wanted + wanted // 2, MAX_BATCH // n_classes))
        drawn = draw_geometric(noise, scale, size * n_classes)
        gains = np.array(drawn, dtype=np.int64).reshape(size, n_classes)
        total = gains.sum(axis=1).tolist()
        kept = _kept(total, mode, n_classes, scale, noise)[:wanted]
        losses = [draw_composition(noise, total[number], n_classes) for number in kept]
        found.append(gains[kept] - np.array(losses, dtype=np.int64).reshape(-1, n_classes))
        wanted -= len(kept)
    return np.concatenate(found) if found else np.zeros((0, n_classes), dtype=np.int64)


def draw_geometric(noise: Noise, scale: float, size: int) -> list[int]:
    """Return independent integers g >= 0 with P(g >= k) = exp(-k / scale), exactly; no draw is wasted.

    Discrete Laplace draws are folded between -1 and 0: g comes from z = g or z = -g - 1. With
    q = exp(-1 / scale) their probabilities, proportional to q^g and q^(g + 1), add up to a multiple of q^g.
    """
    return [z if z >= 0 else -z - 1 for z in noise.discrete_laplace(scale, size)]


def draw_composition(noise: Noise, total: int, parts: int) -> list[int]:
    """Return integers >= 0 that add up to `total`, uniform among all such vectors.

    They are the gaps between parts - 1 bars, a uniform subset [2]_ of total + parts - 1 places. The uniform
    integers for this are the digits of one integer, uniform below the product of their bases.
    """
    bars: set[int] = set()
    places = total + parts - 1
    for first in range(total, places, MAX_DIGITS):
        end = min(first + MAX_DIGITS, places)
        number = noise.uniform_integer(math.perm(end, end - first))
        for last in range(first, end):
            number, bar = divmod(number, last + 1)
            bars.add(last if bar in bars else bar)
    return [after - before - 1 for before, after in pairwise([-1, *sorted(bars), places])]


def most_likely(n_classes: int, scale: float) -> int:
    """Return the total of largest w: w(t + 1) > w(t) while t + 1 < v = (c - 1) / (exp(1 / scale) - 1).

    v is no integer, as exp(1 / scale) is irrational: with bounds close enough the largest is at floor(v).
    """
    digits = 2 * GUARD
    while True:
        down, up = _rounding(digits)
        low, high = _exp_bounds(1, scale, digits)
        least = math.floor(down.divide(Decimal(n_classes - 1), up.subtract(high, Decimal(1))))
        most = math.floor(up.divide(Decimal(n_classes - 1), down.subtract(low, Decimal(1))))
        if least == most:
            return least
        digits *= 2


def keeping_bounds(
    total: int, mode: int, n_classes: int, scale: float, *, bits: int
) -> tuple[int, int]:
    """Return integers around 2^bits w(total) / w(mode), at most a few apart."""
    digits = GUARD + bits
    down, up = _rounding(digits)
    low, high = _exp_bounds(mode - total, scale, digits)
    least, most = _ways_bounds(total, mode, n_classes, digits)
    unit = Decimal(2**bits)
    return (
        math.floor(down.multiply(unit, down.multiply(low, least))),
        math.ceil(up.multiply(unit, up.multiply(high, most))),
    )


def _ways_bounds(total: int, mode: int, n_classes: int, digits: int) -> tuple[Decimal, Decimal]:
    """Return decimals around C(total + c - 1, c - 1) / C(mode + c - 1, c - 1).

    The products have as many factors as the difference of the totals, or as the number of classes,
    whichever is smaller. A few quotients at a time are taken: the whole products may have millions of
    digits.
    """
    apart, others = abs(total - mode), n_classes - 1
    if others <= apart:
        above, below, left = total + others, mode + others, others
    else:
        most = max(total, mode)
        above, below, left = most + others, most, apart
        if total < mode:
            above, below = below, above
    (down, up), low, high = _rounding(digits), Decimal(1), Decimal(1)
    while left > 0:
        size = min(left, FACTORS)
        some = Decimal(math.perm(above, size)), Decimal(math.perm(below, size))
        low, high = down.multiply(low, down.divide(*some)), up.multiply(high, up.divide(*some))
        above, below, left = above - size, below - size, left - size
    return low, high


def _kept(
    totals: Sequence[int], mode: int, n_classes: int, scale: float, noise: Noise
) -> list[int]:
    """Return the proposals that are kept, each with probability w(total) / w(mode)."""
    about = {
        total: keeping_bounds(total, mode, n_classes, scale, bits=WORD) for total in set(totals)
    }
    kept = []
    for number, total in enumerate(totals):
        drawn, bits, (low, high) = noise.uniform_integer(2**WORD), WORD, about[total]
        # the uniform number lies between drawn and drawn + 1 in units of 2^-bits
        while low <= drawn < high and total != mode:
            drawn, bits = drawn << bits | noise.uniform_integer(2**bits), 2 * bits
            low, high = keeping_bounds(total, mode, n_classes, scale, bits=bits)
        if drawn < high:  # the uniform number is below the probability, or the total is the mode
            kept.append(number)
    return kept


def _exp_bounds(numerator: int, scale: float, digits: int) -> tuple[Decimal, Decimal]:
    """Return decimals below and above exp(numerator / scale).

    The decimal module rounds its exp correctly, to the nearest: the neighbouring decimals enclose the
    value.
    """
    down, up = _rounding(digits)
    low, high = (one.divide(Decimal(numerator), Decimal(scale)) for one in (down, up))
    return down.next_minus(down.exp(low)), up.next_plus(up.exp(high))


def _rounding(digits: int) -> tuple[Context, Context]:
    """Return arithmetic that rounds down and up, and to 0 or infinity beyond its range."""
    down, up = (
        Context(prec=digits, rounding=way, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[])
        for way in (ROUND_FLOOR, ROUND_CEILING)
    )
    return down, up


def _marginal(
    n_classes: int, scale: float
) -> tuple[Int[np.ndarray, " values"], Float[np.ndarray, " values"]]:
    """Return the law of one entry of z: f(t) times the law of the other entries' sum at -t, normalised.

    f is the discrete Laplace law, with characteristic function 1 / (1 + k sin^2(w / 2)) for
    k = 4 q / (1 - q)^2. The law of the sum of the other c - 1 is the inverse transform of its power, on a
    periodic grid that ends where the sum has negligible mass. Only values within -log TINY scales of 0 are
    needed, as f is smaller than TINY beyond.
    """
    others, gap = n_classes - 1, -math.expm1(-1 / scale)  # 1 - q
    needed = 2 + int(-math.log(TINY) * scale)
    size = scipy.fft.next_fast_len(1 + needed + _reach(others, scale), real=True)
    if not size <= MAX_GRID:
        raise ValueError(
            "epsilon must be larger, or classes fewer, for the noise's exact law, got a noise scale of "
            f"{scale:g} for {n_classes} classes"
        )
    k = 4 * math.exp(-1 / scale) / gap**2
    half = np.sin(np.pi * np.arange(size // 2 + 1) / size)
    law = scipy.fft.irfft(np.exp(-others * np.log1p(k * half**2)), size)
    t = np.arange(needed + 1)
    with np.errstate(over="ignore"):  # beyond doubles only where the weight is 0 in any case
        weight = np.exp(-t / scale) * np.maximum(law[: needed + 1], 0.0)
    weight = weight[: 1 + int(np.flatnonzero(weight > TINY * weight[0])[-1])]
    probability = np.concatenate([weight[:0:-1], weight])
    probability /= probability.sum()
    return np.arange(1 - weight.size, weight.size), probability


def _reach(count: int, scale: float) -> int:
    """Return a number that the sum of `count` discrete Laplace draws exceeds with probability below TINY.

    By Chernoff's bound, with the best of some exponents rise / scale.
    """
    rise = 0.95 * 0.5 ** (np.arange(24) / 2)
    growth = 2 * math.log(-math.expm1(-1 / scale))
    with np.errstate(over="ignore"):  # to -inf, whose exponential is 0
        growth = growth - np.log(np.expm1((rise - 1) / scale) * np.expm1((-rise - 1) / scale))
    return 2 + int(np.min(scale * (count * growth - math.log(TINY)) / rise))


def _log_binomial(n: Int[np.ndarray, " values"], k: int) -> Float[np.ndarray, " values"]:
    """Return the log of C(n, k), -inf if k > n."""
    gammaln = scipy.special.gammaln
    with np.errstate(divide="ignore"):
        inside = gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(np.maximum(n - k, 0) + 1.0)
    return np.where(k > n, -np.inf, inside)
