"""Compose the privacy losses of releases that were fixed before the first draw.

Adding up (epsilon, delta) holds however each release is chosen. Composing losses is cheaper. It holds only
if the dominating pairs are fixed before the first draw: queries and their order may then depend on what was
released, but the amount of noise may not.

>>> from privacy import PureEvent
>>> round(compose({PureEvent("toy", epsilon=0.1): 100}).epsilon(1e-6), 2)
4.77
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float

from privacy.accounting.cost import NOTHING, Cost, Event, double_up, exact, is_known
from privacy.accounting.loss import Loss
from privacy.query import is_whole

__all__ = ["Composition", "compose", "loss_of"]

MIN_POINTS = 1000  # of the grid across the narrowest loss
MAX_POINTS = 20_000  # of the grid across the widest loss
MAX_GRID = 2**22
MAX_RELEASES = 100_000
RAISE = 1 + 1e-9, 1e-13  # factor and offset above a curve's own rounding
EPSILON_DIGITS = 1 + 1e-12
ROUNDING = 2.0**-53


@dataclass(frozen=True, slots=True, eq=False)
class Composition:
    """What a bundle of releases costs: a delta for each epsilon, never too small.

    Parameters
    ----------
    basic
        Sum of the releases' claims, exact; it too holds, at its epsilon and its delta.
    n_releases
        Number of releases composed.
    slack
        Amount by which the deltas of the composed loss are raised, for rounding.

    Notes
    -----
    **Guarantees.** Both methods return upper bounds, and neither is above basic composition.

    Examples
    --------
    >>> from privacy import LatticeLaplaceEvent
    >>> sixteen = compose({LatticeLaplaceEvent(2.0, 2.0, n_classes=10, epsilon=1.0): 16})
    >>> round(sixteen.epsilon(1e-6), 1), sixteen.epsilon(0.0)
    (14.9, 16.0)
    """

    basic: Cost
    n_releases: int
    slack: float = field(repr=False)
    _pmf: Any = field(repr=False)

    def delta(self, epsilon: float | int) -> float:
        """Return the smallest delta at `epsilon`, rounded up.

        Raises
        ------
        ValueError
            If not 0 <= epsilon < infinity, or it is beyond the largest double.
        """
        if not 0 <= epsilon < math.inf:
            raise ValueError(f"epsilon must be >= 0 and finite, got epsilon={epsilon}")
        asked = exact(epsilon)
        composed = self._finite(self._pmf.get_delta_for_epsilon(float(epsilon))) + self.slack
        bounds = [min(1.0, max(0.0, composed))]
        if asked >= self.basic.epsilon:
            bounds.append(double_up(self.basic.delta))
        return min(bounds)

    def epsilon(self, delta: float | int) -> float:
        """Return the smallest epsilon at `delta`, rounded up; infinity if there is none.

        Raises
        ------
        ValueError
            If not 0 <= delta < 1.
        """
        if not 0 <= delta < 1:
            raise ValueError(f"delta must be in [0, 1), got delta={delta}")
        bounds = [math.inf]
        if delta > self.slack:
            composed = self._pmf.get_epsilon_for_delta(delta - self.slack)
            if not composed >= 0:
                raise ArithmeticError("a composed loss must be a number, got NaN")
            bounds.append(composed * EPSILON_DIGITS)
        if exact(delta) >= self.basic.delta:
            bounds.append(double_up(self.basic.epsilon))
        return min(bounds)

    @staticmethod
    def _finite(number: float) -> float:
        """Raise ArithmeticError for NaN, which a later max(0, ...) would hide."""
        if not math.isfinite(number):
            raise ArithmeticError("a composed loss must be a number, got NaN or infinity")
        return float(number)


def compose(events: Mapping[Event, int]) -> Composition:
    """Compose releases whose events and counts were fixed before the first draw.

    Parameters
    ----------
    events
        Number of releases of each event, >= 1; at most 100,000 in all.

    Returns
    -------
    Composition
        An upper bound at every epsilon.

    Raises
    ------
    TypeError
        If events are no mapping, a count is no integer, or an event of no known kind.
    ValueError
        If counts are not in these limits, or an event's loss cannot be computed.

    Notes
    -----
    Each loss is put on a grid by connecting the dots of its deltas [1]_, which are raised for
    rounding first; the results are convolved. A transform of N points has relative rounding
    eta = 8 u log2(N), u = 2^-53 (Theorem 24.2 of [2]_), for each point and as a vector. So the
    transform of k losses is off by k eta |phi|^(k-1) at most, and every delta of the result by
    (k + 1) eta sqrt(N) times the l2 norm of the law of k - 1 losses. Deltas are raised by that.

    **Guarantees.** No delta is below that of an exactly computed composition; equal releases
    cost the same counted together or apart; no NaN enters or leaves.

    References
    ----------
    .. [1] Doroshenko, Ghazi, Kamath, Kumar, Manurangsi, "Connect the dots: tighter discrete
       approximations of privacy loss distributions", PETS (2022).
    .. [2] Higham, "Accuracy and stability of numerical algorithms", SIAM, 2nd ed. (2002).

    Examples
    --------
    >>> from privacy import PureEvent
    >>> hundred = compose({PureEvent("toy", epsilon=0.1): 100})
    >>> round(hundred.epsilon(1e-6), 2), float(hundred.basic.epsilon)
    (4.77, 10.0)
    """
    events = _counts(events)
    basic = sum((event.cost().times(count) for event, count in events.items()), NOTHING)
    losses = [(loss_of(event), count) for event, count in events.items()]
    pmf, slack = _convolved([(loss, count) for loss, count in losses if loss.width > 0])
    return Composition(basic, sum(events.values()), slack, pmf)


def loss_of(event: Event) -> Loss:
    """Return the dominating pair of one release.

    Raises
    ------
    TypeError
        If the event is of no known kind.
    ValueError
        If a lattice's scale is too large for its exact law.

    Notes
    -----
    **Guarantees.** A Gaussian's and a Dirichlet's deltas are those of their closed forms; a
    lattice's and a Laplace's are the divergences of the enumerated laws.

    Examples
    --------
    >>> from privacy import DiscreteLaplaceEvent
    >>> loss_of(DiscreteLaplaceEvent(2.0, 2.0, 1.0)).delta(np.array([0.5])).round(4).tolist()
    [0.1525]
    """
    if not is_known(event):
        raise TypeError(f"event must be of a kind in KINDS, got {type(event).__name__}")
    return event.loss()


def _counts(events: Mapping[Event, int]) -> dict[Event, int]:
    """Return the counts as Python's integers, whose sums never overflow; raise unless they are valid."""
    if not isinstance(events, Mapping):
        raise TypeError(
            f"events must be a mapping of each event to its count, got {type(events).__name__}"
        )
    for count in events.values():
        if not is_whole(count):
            raise TypeError(f"counts must be integers, got {type(count).__name__}")
        if not count >= 1:
            raise ValueError(f"counts must be >= 1, got {count}")
    counts = {event: int(count) for event, count in events.items()}
    if not sum(counts.values()) <= MAX_RELEASES:
        raise ValueError(f"counts must add up to at most {MAX_RELEASES}")
    return counts


def _convolved(losses: list[tuple[Loss, int]]) -> tuple[Any, float]:
    """Return the composed loss on a grid, and by how much its deltas must be raised."""
    from dp_accounting.pld.pld_pmf import DensePLDPmf  # here: it takes most of a second to load

    upper_bound = partial(DensePLDPmf, pessimistic_estimate=True)
    if not losses:
        return upper_bound(1.0, 0, np.ones(1), 0.0), 0.0
    step = max(
        min(loss.width for loss, _ in losses) / MIN_POINTS,
        max(loss.width for loss, _ in losses) / MAX_POINTS,
        sum(2 * loss.width * count for loss, count in losses) / MAX_GRID,
    )
    composed, slack = None, 0.0
    for loss, count in losses:
        probability, infinite = _connected(_mirrored(loss, step), step)
        if not infinite < 1:
            return upper_bound(step, 0, np.zeros(1), 1.0), 0.0
        one = upper_bound(step, -(probability.size // 2), probability, infinite)
        if count > 1:
            one = one.self_compose(count)
            slack += _rounding(one.size) * (count + 1) * _concentration(probability, count - 1)
        composed = one if composed is None else composed.compose(one)
        slack += 3 * _rounding(composed.size)
    return composed, slack


def _mirrored(loss: Loss, step: float) -> Float[np.ndarray, " grid"]:
    """Return the deltas of a symmetric pair at multiples of the step from -width to width."""
    last = math.ceil(loss.width / step - 1e-9)  # the loss beyond the last step is infinite
    at = np.arange(last + 1) * step
    delta = loss.delta(at)
    if not ((delta >= 0) & (delta <= 1)).all():
        raise ArithmeticError("a loss's deltas must be in [0, 1], got NaN or others")
    factor, offset = RAISE
    upper = np.minimum(1.0, delta * factor + offset)
    upper = np.maximum.accumulate(upper[::-1])[::-1]
    lower = -np.expm1(-at[:0:-1]) + np.exp(-at[:0:-1]) * upper[:0:-1]
    return np.concatenate([lower, upper])


def _connected(
    delta: Float[np.ndarray, " grid"], step: float
) -> tuple[Float[np.ndarray, " grid"], float]:
    """Return the law on the grid, and at infinity, whose deltas join the points linearly in e^epsilon."""
    slope = np.concatenate([[-math.expm1(step) * (1 - delta[0]) / math.exp(step)], np.diff(delta)])
    after = np.append(slope[1:], 0.0)
    law = (after - math.exp(step) * slope) / math.expm1(step)
    return np.maximum(law, 0.0), float(delta[-1])


def _rounding(size: int) -> float:
    """Return a bound on the relative rounding of a transform, times the root of its size."""
    return 8 * ROUNDING * math.log2(size + 1) * math.sqrt(size)


def _concentration(law: Float[np.ndarray, " grid"], count: int) -> float:
    """Return the l2 norm of the law of `count` losses; on a circle, where it can only be larger."""
    wave = np.abs(np.fft.fft(law, max(2**15, law.size)))
    return float(np.sqrt(np.mean(wave ** (2 * count))))
