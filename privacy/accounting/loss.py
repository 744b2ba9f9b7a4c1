"""The privacy loss of each kind of event: the pair of laws that tells neighbours apart best.

A pair (P, Q) dominates a release if no neighbours' outputs diverge more at any epsilon. By
Blackwell's theorem the release is then a random map of one draw from P or Q, whatever is asked
and whenever, and products of pairs dominate compositions. All pairs here are the same both ways
round, so one curve of deltas at epsilon >= 0 describes them.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
from jaxtyping import Float

from privacy.accounting.cost import exact
from privacy.counts import ONE_TASK
from privacy.mechanisms.dirichlet import clamp_delta, dominating_delta
from privacy.mechanisms.kinds import (
    ApproximateEvent,
    ClampedDirichletEvent,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    Event,
    LatticeLaplaceEvent,
    PlanEvent,
    PlannedEvent,
    PseudoCountDirichletEvent,
    PureEvent,
)
from privacy.mechanisms.laplace import LatticeLaplace

__all__ = ["LOSSES", "Loss", "loss_of"]

LARGEST_LOSS = 100.0  # what lies beyond counts as an infinite loss
SHIFT = 1e-13  # a delta falls by at most this much between epsilons 0 and SHIFT
NEGLIGIBLE = 1e-14
LEAST, MOST = exact(1e-100), exact(1e4)  # a loss beyond LARGEST_LOSS is told as infinite anyhow


@dataclass(frozen=True, slots=True, eq=False)
class Loss:
    """A symmetric dominating pair, by its deltas.

    Parameters
    ----------
    width
        Where the deltas stop falling, in [0, 100]; 0 for a release that tells nothing.
    delta
        Divergence of order e^epsilon at each of an array of epsilons in [0, 100]: convex in
        e^epsilon, and never below that of any two neighbours.

    Examples
    --------
    >>> loss_of(PureEvent("toy", epsilon=1.0)).delta(np.array([0.0, 1.0])).round(4).tolist()
    [0.4621, 0.0]
    """

    width: float
    delta: Callable[[Float[np.ndarray, " points"]], Float[np.ndarray, " points"]]

    def __post_init__(self) -> None:
        if not 0 <= self.width <= LARGEST_LOSS:  # a NaN would pass for a release that tells nothing
            raise ArithmeticError(f"a loss's width must be in [0, 100], got {self.width}")


def loss_of(event: Event) -> Loss:
    """Dominating pair of one release.

    Parameters
    ----------
    event
        Of any kind in `KINDS`.

    Returns
    -------
    Loss
        Of the noise that was drawn, which may tell less than the event's claim.

    Raises
    ------
    TypeError
        If the event is of no known kind.
    ValueError
        If a lattice's scale is too large for its exact law.

    Notes
    -----
    - *Pure*: randomised response, losses +-epsilon; it dominates all that is epsilon-private.
    - *Approximate*: infinite with probability delta, else randomised response; it dominates all that
      is (epsilon, delta)-private.
    - *Discrete Laplace*, one moved task: two counts move by one. Each has losses +-1/scale, so
      together three atoms; one count that moves by two would tell more.
    - *Lattice Laplace*, one moved task from class i to j: the loss is +epsilon where z_i >= 0 and
      z_j <= 0, -epsilon where z_i < 0 and z_j > 0, else 0. With q = exp(-1 / scale) and M the mean
      of |z| on a lattice of one class fewer, the first has probability
      1 / (1 + q^2 + (1 - q^2) M).
    - Both Laplace kinds at other sensitivities: as pure at l1 / scale.
    - *Discrete Gaussian*: losses (t + 1) / scale^2 of `discrete_gaussian_delta`.
    - *Clamped Dirichlet*: `clamp_delta` at every epsilon; the urn's draws are a random map of it.
    - *Plan*: infinite with probability delta, else randomised response.
    - *Planned*: nothing; its plan has paid.

    **Guarantees.** A Gaussian's and a Dirichlet's deltas are those of their closed forms; a
    lattice's and a Laplace's are the divergences of the enumerated laws.

    Examples
    --------
    >>> loss_of(DiscreteLaplaceEvent(2.0, 2.0, 1.0)).delta(np.array([0.5])).round(4).tolist()
    [0.1525]
    """
    if type(event) not in LOSSES:
        raise TypeError(f"event must be of a kind in KINDS, got {type(event).__name__}")
    return LOSSES[type(event)](event)


def _atoms(epsilon: float, plus: float, infinite: float = 0.0) -> Loss:
    """Losses epsilon, 0 and -epsilon, the first with probability `plus`, and an infinite one."""

    def delta(at: Float[np.ndarray, " points"]) -> Float[np.ndarray, " points"]:
        return infinite + (1 - infinite) * plus * -np.expm1(np.minimum(at - epsilon, 0.0))

    return Loss(min(epsilon, LARGEST_LOSS), delta)


def _response(epsilon: float, infinite: float = 0.0) -> Loss:
    return _atoms(epsilon, 1 / (1 + math.exp(-epsilon)), infinite)


def _pure(event: PureEvent) -> Loss:
    return _response(_double(event.epsilon))


def _laplace(event: DiscreteLaplaceEvent) -> Loss:
    epsilon = event.l1 / event.scale
    if event.l1 != ONE_TASK:
        return _response(math.nextafter(epsilon, math.inf))
    return _atoms(epsilon, 1 / (1 + math.exp(-epsilon / 2)) ** 2)


def _lattice(event: LatticeLaplaceEvent) -> Loss:
    epsilon = event.l1 / event.scale
    if event.l1 != ONE_TASK or event.n_classes == 2:
        return _response(math.nextafter(epsilon, math.inf))
    others = event.n_classes - 1
    mean = LatticeLaplace(epsilon).law(others).expected_l1 / others
    shrunk = math.exp(-epsilon)  # q^2
    return _atoms(epsilon, 1 / (1 + shrunk + (1 - shrunk) * mean))


def _gaussian(event: DiscreteGaussianEvent) -> Loss:
    scale = event.scale
    reach = math.ceil(13 * scale) + 2  # beyond it the terms are below exp(-42) of the first
    t = np.arange(reach, dtype=np.float64)
    x = np.arange(-reach, reach + 1, dtype=np.float64)
    theta = [float(np.exp(-(((x + half) / scale) ** 2)).sum()) for half in (0.0, 0.5)]
    total = float(np.exp(-((x / scale) ** 2) / 2).sum()) ** 2
    probability = np.exp(-((t / scale) ** 2) / 4) * np.where(t % 2 == 0, *theta) / total
    loss = (t + 1) / scale**2
    above = np.append(np.cumsum(probability[::-1])[::-1], 0.0)
    below = np.append(np.cumsum((probability * np.exp(-loss))[::-1])[::-1], 0.0)

    def delta(at: Float[np.ndarray, " points"]) -> Float[np.ndarray, " points"]:
        first = np.searchsorted(loss, at, side="right")
        told: Float[np.ndarray, " points"] = np.maximum(above[first] - np.exp(at) * below[first], 0)
        return told

    return Loss(min(12 / scale + 2 / scale**2, LARGEST_LOSS), delta)


def _clamped(event: ClampedDirichletEvent) -> Loss:
    return _dirichlet(partial(clamp_delta, event.floor, float(exact(event.scale))))


def _pseudo_count(event: PseudoCountDirichletEvent) -> Loss:
    return _dirichlet(partial(dominating_delta, event.pseudo_count, float(exact(event.scale))))


def _dirichlet(delta_at: Callable[[float], float]) -> Loss:
    def delta(at: Float[np.ndarray, " points"]) -> Float[np.ndarray, " points"]:
        return np.array([delta_at(max(float(epsilon), SHIFT)) for epsilon in at])

    low, high = 0.0, LARGEST_LOSS
    for _ in range(20):
        middle = (low + high) / 2
        low, high = (low, middle) if delta(np.array([middle]))[0] <= NEGLIGIBLE else (middle, high)
    return Loss(high, delta)


def _approximate(event: ApproximateEvent | PlanEvent) -> Loss:
    infinite = float(exact(event.delta))  # whose rounding `RAISE` exceeds
    return _response(_double(event.epsilon), infinite)


def _double(epsilon: float | str) -> float:
    """A double above an epsilon, and above the smallest loss that a grid can hold."""
    return math.nextafter(float(min(max(exact(epsilon), LEAST), MOST)), math.inf)


def _planned(event: PlannedEvent) -> Loss:
    return Loss(0.0, np.zeros_like)


LOSSES: Mapping[type[Event], Callable[[Any], Loss]] = MappingProxyType(
    {
        ApproximateEvent: _approximate,
        ClampedDirichletEvent: _clamped,
        DiscreteGaussianEvent: _gaussian,
        DiscreteLaplaceEvent: _laplace,
        LatticeLaplaceEvent: _lattice,
        PlanEvent: _approximate,
        PlannedEvent: _planned,
        PseudoCountDirichletEvent: _pseudo_count,
        PureEvent: _pure,
    }
)
"""The closed table of losses: one for each kind of event."""
