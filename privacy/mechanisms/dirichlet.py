"""The largest scale of a Dirichlet release for its price, from a public floor of the counts.

Solved for numbers that are public alone: the floor, epsilon and delta. A scale found from the
counts would be data itself (see `privacy.mechanisms.dirichlet`).

The Dirichlet family theta ~ Dir(scale * counts) as a private release: what it costs, exactly.

Neighbours move one task from class i, with p tasks, to class j, with q tasks. The privacy loss
depends on theta_i / theta_j alone, so every delta here is a regularised incomplete beta function
or a difference of two. The scale must not be chosen from the counts: a scale that is itself data
tells neighbours apart, and where one has a scale and the other an error, delta is 1.

References
----------
.. [1] Iyer, Nath, Sarawagi, "Privacy-preserving class ratio estimation", KDD (2016): the mechanism
   and the exceedance probability. The divergences, the dominating pair and the clamp are derived
   in this module's notes.

A Dirichlet release whose counts have a public pseudo-count added, so that none is small.

Every vector of counts has a release and no floor has to be promised or clamped to. What the
pseudo-counts add to the proportions is known, and taken out again afterwards.

A Dirichlet release with a public floor, drawn from an urn in exact integers.

Floating-point gamma variables would leave privacy unproved: which doubles can come out depends on
the private shapes. An urn that starts with weights proportional to the shapes, and gains weight on
each colour drawn, gives counts whose proportions tend to Dirichlet ones. Given the Dirichlet vector
they are multinomial, so they are its post-processing and cost no more.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
import scipy
from jaxtyping import Float, Int, Real

from privacy.accounting.cost import SAFETY, Cost, check_delta, check_epsilon, check_price, exact
from privacy.mechanism import LARGEST_SAMPLED_SCALE, Json, Noise
from privacy.mechanisms.gaussian import check_moved_task
from privacy.mechanisms.projection import project_to_simplex
from privacy.query import Query

__all__ = [
    "ClampedDirichletEvent",
    "DirichletClamp",
    "DirichletPseudoCount",
    "InfeasibleFloor",
    "PairDelta",
    "PseudoCountDirichletEvent",
    "clamp_delta",
    "dominating_delta",
    "draw_urn",
    "expected_distortion",
    "largest_clamp_scale",
    "largest_scale",
    "pair_delta",
    "public_draws",
    "smallest_floor",
]

STEEP = 600.0  # beyond it exp(-t) nears the smallest double, and leading terms are exact
SMALLEST_SCALE, LARGEST_SCALE = 1e-10, 1e8


@dataclass(frozen=True, slots=True)
class PairDelta:
    """What tells Dir(scale * counts) from the same with one task moved from class i to class j.

    `exceedance` is P[loss > epsilon], `forward` the divergence from the counts to the moved ones,
    `reverse` the divergence back; `log_constant` is what the loss adds to the log ratio, negated.
    """

    exceedance: float
    forward: float
    reverse: float
    log_constant: float


def pair_delta(source: float | int, target: float | int, scale: float, epsilon: float) -> PairDelta:
    """Exact delta of a single pair of neighbours.

    Parameters
    ----------
    source, target
        Counts of the class that loses a task, >= 1, and of the one that gains it, >= 0.
    scale
        Of the Dirichlet, in [1e-10, 1e8].
    epsilon
        In (0, 100].

    Returns
    -------
    PairDelta
        All 1 where a class would become or had been empty: one of the two laws then never leaves
        the boundary, and the other never is on it.

    Raises
    ------
    ValueError
        If one of these conditions is broken.

    Notes
    -----
    The loss is scale * ln(theta_i / theta_j) - ln C with C the ratio of the normalisers, and
    theta_i / (theta_i + theta_j) is Beta(scale p, scale q) or Beta(scale (p-1), scale (q+1)).

    **Guarantees.** The reverse of (p, q) is the forward of (q+1, p-1).

    Examples
    --------
    >>> pair = pair_delta(50, 50, scale=0.03, epsilon=0.05)
    >>> round(pair.exceedance, 6), round(pair.forward, 8), round(pair.reverse, 8)
    (0.10576, 0.00234739, 0.00239148)
    """
    if not (1 <= source < math.inf and 0 <= target < math.inf):
        raise ValueError(f"source must be >= 1 and target >= 0, got {source} and {target}")
    _check(scale, epsilon)
    p, q, s = float(source), float(target), scale
    if p == 1 or q == 0:
        return PairDelta(1.0, 1.0, 1.0, math.inf if q == 0 else -math.inf)
    own, moved = scipy.special.gammaln([[s * p, s * q], [s * (p - 1), s * (q + 1)]]).sum(axis=1)
    constant = float(own - moved)
    t, back = (epsilon + constant) / s, (epsilon - constant) / s
    exceedance, grown = _beta_cdf(s * q, s * p, t), math.exp(epsilon)
    forward = exceedance - grown * _beta_cdf(s * (q + 1), s * (p - 1), t)
    reverse = _beta_cdf(s * (p - 1), s * (q + 1), back) - grown * _beta_cdf(s * p, s * q, back)
    return PairDelta(exceedance, max(0.0, forward), max(0.0, reverse), constant)


def dominating_delta(floor: float | int, scale: float, epsilon: float) -> float:
    """Largest delta of any neighbours whose counts are all at least `floor`, in closed form.

    Parameters
    ----------
    floor
        **Public** lower bound of every count, > 0; it need not be an integer.
    scale
        Of the Dirichlet, in [1e-10, 1e8].
    epsilon
        In (0, 100].

    Raises
    ------
    ValueError
        If one of these conditions is broken.

    Notes
    -----
    With X ~ Beta(a, b) and an independent W ~ Beta(a + b, k), X W ~ Beta(a, b + k). The two laws
    Beta(s p, s q) and Beta(s (p-1), s (q+1)) of a pair have the same a + b, so one random map takes
    them to the laws of (p, q + k/s): by data processing every divergence falls as q grows, and by
    symmetry as p grows. The worst pair is (floor + 1, floor), whose constant is zero and whose two
    directions coincide. It dominates at every epsilon at once, so it may be composed.

    **Guarantees.** No pair with source >= floor + 1 and target >= floor has a larger divergence,
    in either direction; the limit at small scales is exp(-floor epsilon) / (2 floor + 1), not 0.

    Examples
    --------
    >>> f"{dominating_delta(50, 0.5, 0.05):.12f}", f"{dominating_delta(5, 6e-5, 0.05):.12f}"
    ('0.035941534305', '0.070800083760')
    """
    check_floor(floor)
    _check(scale, epsilon)
    low, high, t = scale * floor, scale * (floor + 1), epsilon / scale
    lost = math.exp(epsilon) * _beta_cdf(high, low, t)
    return max(0.0, _beta_cdf(low, high, t) - lost)


def clamp_delta(floor: float | int, scale: float, epsilon: float) -> float:
    """Largest delta of neighbours when every count below `floor` is raised to it first.

    Takes and raises what `dominating_delta` does; the counts may be any, zeros included.

    Notes
    -----
    Where both clamped counts move, the pair is one above the floor. Where one moves, at least the
    floor and by one, the laws come from independent gamma variables of which a single one differs,
    Gamma(s q) and Gamma(s (q+1)); adding an independent Gamma(s (q - floor)) to both shows that
    q = floor is worst, in both directions. The largest of the three numbers holds for all.

    **Guarantees.** At least `dominating_delta`; at least the divergence of any two neighbours'
    clamped releases.

    Examples
    --------
    >>> f"{clamp_delta(49, 0.776, 0.05):.6f}"
    '0.049963'
    """
    dominating = dominating_delta(floor, scale, epsilon)
    a = scale * floor
    ratio = float(scipy.special.gammaln(a + scale) - scipy.special.gammaln(a))
    grown, fall, rise = math.exp(epsilon), (ratio - epsilon) / scale, (ratio + epsilon) / scale
    below = _gamma_cdf(a, fall) - grown * _gamma_cdf(a + scale, fall)
    above = _gamma_tail(a + scale, rise) - grown * _gamma_tail(a, rise)
    return max(dominating, below, above)


def expected_distortion(count: Real[np.ndarray, " classes"], scale: float) -> float:
    """Expected l1 distance of theta ~ Dir(scale * count) from the proportions of `count`.

    Each class contributes 2 x^a y^b / ((a + b) B(a, b)), a and b its beta parameters, x = a/(a+b),
    y = 1 - x.

    Raises
    ------
    ValueError
        If counts are not >= 0 with two positive ones, or the scale is not in [1e-10, 1e8].

    Examples
    --------
    >>> round(expected_distortion(np.array([50, 50, 50, 50, 800]), 0.7849), 4)
    0.0362
    """
    value: Float[np.ndarray, " classes"] = np.asarray(count, dtype=np.float64)
    if not (value.ndim == 1 and (value >= 0).all() and (value > 0).sum() >= 2):
        raise ValueError("counts must be >= 0, and two of them > 0")
    _check(scale, 1.0)
    a = scale * value[value > 0]
    b = a.sum() - a
    x = a / a.sum()
    powers = scipy.special.xlogy(a, x) + scipy.special.xlog1py(b, -x)
    log_one = powers - np.log(a + b) - scipy.special.betaln(a, b)
    return float(2 * np.exp(log_one).sum())


def _beta_cdf(a: float, b: float, t: float) -> float:
    """I_y(a, b) at y = 1 / (1 + exp(t)); beyond STEEP by its leading term, as y or 1 - y vanishes."""
    if t > STEEP:
        return math.exp(-a * t - math.log(a) - scipy.special.betaln(a, b))
    if t < -STEEP:
        return -math.expm1(b * t - math.log(b) - scipy.special.betaln(a, b))
    return float(scipy.special.betainc(a, b, scipy.special.expit(-t)))


def _gamma_cdf(a: float, log_x: float) -> float:
    """P(a, x) at x = exp(log_x), by its leading term where x vanishes."""
    if log_x < -STEEP:
        return math.exp(a * log_x - scipy.special.gammaln(a + 1))
    return 1.0 if log_x > STEEP else float(scipy.special.gammainc(a, math.exp(log_x)))


def _gamma_tail(a: float, log_x: float) -> float:
    """Q(a, x) at x = exp(log_x)."""
    if log_x < -STEEP:
        return -math.expm1(a * log_x - scipy.special.gammaln(a + 1))
    return 0.0 if log_x > STEEP else float(scipy.special.gammaincc(a, math.exp(log_x)))


def _check(scale: float, epsilon: float) -> None:
    if not SMALLEST_SCALE <= scale <= LARGEST_SCALE:
        raise ValueError(f"scale must be in [1e-10, 1e8], got scale={scale}")
    check_epsilon(epsilon)


def check_floor(floor: float | int) -> None:
    if not 0 < floor < math.inf:
        raise ValueError(f"floor must be > 0 and finite, got floor={floor}")


LOWEST, HIGHEST = 1e-9, 1e7  # where a scale is looked for


class InfeasibleFloor(ValueError):
    """No scale makes Dirichlet releases above this floor cost so little.

    Parameters
    ----------
    floor
        The floor that was asked for.
    smallest
        Every floor above this one has a scale.

    Examples
    --------
    >>> round(InfeasibleFloor(5, 6.6741).smallest, 2)
    6.67
    """

    def __init__(self, floor: float | int, smallest: float) -> None:
        super().__init__(floor, smallest)
        self.floor, self.smallest = floor, smallest

    def __str__(self) -> str:
        return (
            f"floor must be above {self.smallest:.4g} for this epsilon and delta, got "
            f"floor={self.floor:g}; raise it, or release with Laplace or Gaussian noise"
        )


def smallest_floor(epsilon: float, delta: float) -> float:
    """Infimum of the floors that have a scale: exp(-floor epsilon) / (2 floor + 1) = delta.

    Raises
    ------
    ValueError
        If not 0 < epsilon <= 100 and 0 < delta < 1.

    Examples
    --------
    >>> round(smallest_floor(0.05, 0.05), 2)
    6.67
    """
    check_price(epsilon, delta)
    low, high = 0.0, (1 / delta - 1) / 2
    for _ in range(200):
        middle = (low + high) / 2
        if math.exp(-middle * epsilon) / (2 * middle + 1) < delta:
            high = middle
        else:
            low = middle
    return high


def largest_scale(floor: float | int, epsilon: float, delta: float) -> Fraction:
    """Largest scale at which counts of at least `floor` cost (epsilon, delta), rounded down.

    Parameters
    ----------
    floor
        **Public** lower bound of every count, by design of the data set and of all neighbours.
        A check of the counts that raises would itself tell neighbours apart.
    epsilon, delta
        The price, 0 < epsilon <= 100 and 0 < delta < 1.

    Returns
    -------
    Fraction
        Rounded down to six digits.

    Raises
    ------
    InfeasibleFloor
        If there is no such scale.
    ValueError
        If one of the conditions is broken.

    Notes
    -----
    **Guarantees.** `dominating_delta` at the scale returned, computed anew and raised by a
    millionth for rounding, is at most delta; nothing is assumed about how it grows with the scale.

    Examples
    --------
    >>> float(largest_scale(50, 0.05, 0.05))
    0.792874
    """
    return _search(dominating_delta, floor, epsilon, delta)


@lru_cache(maxsize=256)
def largest_clamp_scale(floor: float | int, epsilon: float, delta: float) -> Fraction:
    """Largest scale at which counts clamped to `floor` cost (epsilon, delta), rounded down.

    Takes, returns, raises and guarantees what `largest_scale` does, with `clamp_delta`.

    Examples
    --------
    >>> largest_clamp_scale(50, 0.05, 0.05) == largest_scale(50, 0.05, 0.05)
    True
    """
    return _search(clamp_delta, floor, epsilon, delta)


def _search(
    delta_at: Callable[[float | int, float, float], float],
    floor: float | int,
    epsilon: float,
    delta: float,
) -> Fraction:
    """Bisect ln scale; the lower end always satisfies the claim."""
    check_floor(floor)
    smallest = smallest_floor(epsilon, delta)

    def sound(scale: float) -> bool:
        return delta_at(floor, scale, epsilon) * SAFETY <= delta

    if not (floor > smallest and sound(LOWEST)):
        raise InfeasibleFloor(floor, smallest)
    low, high = math.log(LOWEST), math.log(HIGHEST)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if sound(math.exp(middle)) else (low, middle)
    scale = _round_down(math.exp(low))
    if not sound(float(scale)):
        raise InfeasibleFloor(floor, smallest)
    return scale


def _round_down(scale: float) -> Fraction:
    """Six digits, never more than `scale`."""
    unit = Fraction(10) ** (math.floor(math.log10(scale)) - 5)
    return Fraction(scale) // unit * unit


DRAWS_PER_WEIGHT = 50  # the urn then adds about a hundredth to the l1 error
MOST_DRAWS = 1_000_000


@dataclass(frozen=True, slots=True)
class ClampedDirichletEvent:
    """Draws from an urn whose limit is Dir(scale * max(counts, floor)) were released.

    `scale` is a fraction as text. At `epsilon`, in (0, 100], any number of draws costs at most the
    delta of `clamp_delta`, and `delta` is the claim, at least that.

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

    def __post_init__(self) -> None:
        scale = _check_urn(self.scale, self.draws)
        check_delta(self.delta, clamp_delta(self.floor, scale, self.epsilon))

    def cost(self) -> Cost:
        """Approximate differential privacy at the claim."""
        return Cost(exact(self.epsilon), exact(self.delta))


@dataclass(frozen=True, slots=True)
class PseudoCountDirichletEvent:
    """Draws from an urn whose limit is Dir(scale * (counts + pseudo_count)) were released.

    `scale` is a fraction as text. At `epsilon`, in (0, 100], any number of draws costs at most the
    delta of `dominating_delta` at the pseudo-count, and `delta` is the claim, at least that.

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

    def __post_init__(self) -> None:
        scale = _check_urn(self.scale, self.draws)
        check_delta(self.delta, dominating_delta(self.pseudo_count, scale, self.epsilon))

    def cost(self) -> Cost:
        """Approximate differential privacy at the claim."""
        return Cost(exact(self.epsilon), exact(self.delta))


def _check_urn(text: str, draws: int) -> float:
    """The scale that a text tells, if there is such an urn."""
    scale = exact(text)
    if not 0 < scale <= LARGEST_SAMPLED_SCALE:
        raise ValueError(f"scale must be > 0 and at most 2**40, got scale={text}")
    if not draws >= 1:
        raise ValueError(f"draws must be >= 1, got draws={draws}")
    return float(scale)


@dataclass(frozen=True, slots=True)
class DirichletClamp:
    """Release class proportions by drawing from Dir(scale * max(counts, floor)).

    The released value is the list of the urn's counts; over their sum they are the proportions of
    the clamped counts. `choose_mechanism` names a mechanism to prefer; this one serves comparison
    with the paper, whose scale depends on the counts and is no privacy (see `privacy.mechanisms.dirichlet`).

    Parameters
    ----------
    epsilon, delta
        Price of one release, 0 < epsilon <= 100 and 0 < delta < 1.
    floor
        **Public** integer >= 1 to which smaller counts are raised, zeros included. Results are
        unbiased where no count is below it.

    Raises
    ------
    InfeasibleFloor
        If no scale is cheap enough: from public numbers, never from counts.
    ValueError
        If one of the conditions is broken.

    Notes
    -----
    **Guarantees.** The realised delta at epsilon is at most the claim; event, number of draws and
    refusals depend on public things only, and every vector of counts has a release.
    **Cost.** One uniform integer for each of ceil(50 scale max(n, classes * floor)) draws, at most
    a million. Draws are multinomial given the Dirichlet vector, so they add a variance of
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
        if isinstance(self.floor, bool) or not (isinstance(self.floor, int) and self.floor >= 1):
            raise ValueError(f"floor must be an integer >= 1, got floor={self.floor}")
        largest_clamp_scale(self.floor, self.epsilon, self.delta)

    @property
    def scale(self) -> Fraction:
        """Scale of the Dirichlet; public."""
        return largest_clamp_scale(self.floor, self.epsilon, self.delta)

    def draws(self, n: int, n_classes: int) -> int:
        """Public number of draws from the urn, for n tasks."""
        return public_draws(self.scale, n, n_classes, max(n, n_classes * self.floor))

    def event(self, query: Query) -> ClampedDirichletEvent:
        """Describe a release of this query; refuses what is not a vector of class counts."""
        counts = check_moved_task(query)
        draws = self.draws(int(query.n), counts.size)
        return ClampedDirichletEvent(str(self.scale), self.floor, draws, self.epsilon, self.delta)

    def log_likelihood(
        self, query: Query, releases: Int[np.ndarray, "draws classes"]
    ) -> Float[np.ndarray, " draws"]:
        """Log probability of releases, up to what neighbouring queries share."""
        shape = float(self.scale) * np.maximum(check_moved_task(query), self.floor)
        gammaln = scipy.special.gammaln
        constant = gammaln(shape.sum()) - gammaln(shape).sum()
        drawn = gammaln(shape + releases).sum(axis=1)
        return np.asarray(constant + drawn - gammaln(shape.sum() + releases.sum(axis=1)))

    def draw(self, query: Query, noise: Noise) -> Json:
        """Counts drawn from the urn; only the ledger calls this."""
        counts = check_moved_task(query)
        clamped = np.maximum(counts, self.floor)
        return draw_urn(clamped, self.scale, self.draws(int(query.n), counts.size), noise)


def public_draws(scale: Fraction, n: int, n_classes: int, total: int) -> int:
    """How many draws an urn gives whose counts add up to `total` or so, for n tasks."""
    if not (n >= 1 and n_classes >= 2):
        raise ValueError(f"n must be >= 1 and n_classes >= 2, got n={n}, {n_classes}")
    return min(MOST_DRAWS, math.ceil(DRAWS_PER_WEIGHT * scale * total))


def draw_urn(
    counts: Int[np.ndarray, " classes"], scale: Fraction, draws: int, noise: Noise
) -> list[int]:
    """Draw from the Polya urn of Dir(scale * counts): Dirichlet-multinomial counts, exactly.

    Colours start with weights numerator * counts, and a drawn one gains the denominator.
    """
    weight = [scale.numerator * int(count) for count in counts]
    total, found = sum(weight), [0] * len(weight)
    for _ in range(draws):
        left, colour = noise.uniform_integer(total), 0
        while left >= weight[colour]:
            left -= weight[colour]
            colour += 1
        found[colour] += 1
        weight[colour] += scale.denominator
        total += scale.denominator
    return found


@dataclass(frozen=True, slots=True)
class DirichletPseudoCount:
    """Release class proportions by drawing from Dir(scale * (counts + pseudo_count)).

    The released value is the list of the urn's counts; `proportions` takes the pseudo-counts out.
    `choose_mechanism` names a mechanism to prefer: this one errs more than the discrete Gaussian,
    whose law it approaches as pseudo-counts grow.

    Parameters
    ----------
    epsilon, delta
        Price of one release, 0 < epsilon <= 100 and 0 < delta < 1.
    pseudo_count
        **Public** integer >= 1, added to the count of every class.

    Raises
    ------
    InfeasibleFloor
        If no scale is cheap enough: from public numbers, never from counts.
    ValueError
        If one of the conditions is broken.

    Notes
    -----
    **Guarantees.** The realised delta at epsilon is at most the claim; event, number of draws and
    refusals depend on public things only, and every vector of counts has a release. Proportions
    without the pseudo-counts lie on the simplex, and before their projection are unbiased.
    **Cost.** One uniform integer for each of ceil(50 scale (n + classes * pseudo_count)) draws, at
    most a million.
    **Privacy.** Unit: the query's. Event: `PseudoCountDirichletEvent`, whose delta is
    `dominating_delta` at the pseudo-count, below which no shape is in any data set.

    References
    ----------
    .. [1] Iyer, Nath, Sarawagi, "Privacy-preserving class ratio estimation", KDD (2016).
    .. [2] Blackwell, MacQueen, "Ferguson distributions via Polya urn schemes", Ann. Statist. 1
       (1973).

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
        """Public number of draws from the urn, for n tasks."""
        return public_draws(self.scale, n, n_classes, n + n_classes * self.pseudo_count)

    def event(self, query: Query) -> PseudoCountDirichletEvent:
        """Describe a release of this query; refuses what is not a vector of class counts."""
        draws = self.draws(int(query.n), check_moved_task(query).size)
        return PseudoCountDirichletEvent(
            str(self.scale), self.pseudo_count, draws, self.epsilon, self.delta
        )

    def log_likelihood(
        self, query: Query, releases: Int[np.ndarray, "draws classes"]
    ) -> Float[np.ndarray, " draws"]:
        """Log probability of releases, up to what neighbouring queries share."""
        shape = float(self.scale) * (check_moved_task(query) + float(self.pseudo_count))
        gammaln = scipy.special.gammaln
        return np.asarray(gammaln(shape + releases).sum(axis=1) - gammaln(shape).sum())

    def draw(self, query: Query, noise: Noise) -> Json:
        """Counts drawn from the urn; only the ledger calls this."""
        counts = check_moved_task(query)
        draws = self.draws(int(query.n), counts.size)
        return draw_urn(counts + self.pseudo_count, self.scale, draws, noise)

    def proportions(self, value: list[int], *, n: int) -> Float[np.ndarray, " classes"]:
        """Class proportions of n tasks from a released value, the pseudo-counts taken out."""
        drawn = np.asarray(value, dtype=np.float64)
        total = n + drawn.size * self.pseudo_count
        return project_to_simplex((total * drawn / drawn.sum() - self.pseudo_count) / n)
