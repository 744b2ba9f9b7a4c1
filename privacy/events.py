"""What was done to private data, as public records; what it costs is derived from them.

The ledger stores events, never costs, so that a better composition can be applied to old records.
The meaning of a kind and of its fields must therefore never change: a new meaning is a new kind.
`KINDS` is the closed table of what is understood; anything else is refused.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from fractions import Fraction
from types import MappingProxyType
from typing import Any, TypeAlias

from privacy.cost import Cost, exact
from privacy.dirichlet_pair import clamp_delta
from privacy.gaussian_delta import discrete_gaussian_delta

__all__ = [
    "ClampedDirichletEvent",
    "Cost",
    "DiscreteGaussianEvent",
    "DiscreteLaplaceEvent",
    "Event",
    "EventError",
    "LatticeLaplaceEvent",
    "PureEvent",
    "covering_scale",
    "event_json",
    "exact",
    "parse_event",
]

LARGEST_SCALE = 2.0**40  # beyond it the 64-bit samplers could saturate


class EventError(ValueError):
    """A stored event is of no kind that this version knows, or its fields are not valid."""


@dataclass(frozen=True, slots=True)
class DiscreteLaplaceEvent:
    """Independent discrete Laplace noise of one scale was added to integers of a given l1 sensitivity.

    P(z) ~ exp(-||z||_1 / scale). It is (l1 / scale)-differentially private, and `epsilon` is the
    claim, at least that.

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

    def __post_init__(self) -> None:
        _check_laplace(self.scale, self.l1, self.epsilon)

    def cost(self) -> Cost:
        """Pure differential privacy at the claim."""
        return Cost(exact(self.epsilon), Fraction(0))


@dataclass(frozen=True, slots=True)
class LatticeLaplaceEvent:
    """Discrete Laplace noise conditioned on summing to zero was added to class counts.

    P(z) ~ exp(-||z||_1 / scale) over the integer vectors of `n_classes` entries with sum zero. It
    is (l1 / scale)-differentially private for neighbours whose counts have the same sum, and
    `epsilon` is the claim, at least that.

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

    def __post_init__(self) -> None:
        _check_laplace(self.scale, self.l1, self.epsilon)
        if not self.n_classes >= 2:
            raise ValueError(f"n_classes must be >= 2, got n_classes={self.n_classes}")

    def cost(self) -> Cost:
        """Pure differential privacy at the claim."""
        return Cost(exact(self.epsilon), Fraction(0))


@dataclass(frozen=True, slots=True)
class PureEvent:
    """A mechanism ran that its own docstring proves epsilon-differentially private.

    Parameters
    ----------
    name
        The mechanism.
    epsilon
        Its proved guarantee, > 0 and finite; a decimal, or text that `fractions.Fraction` reads.
    parameters
        Its public knobs, as JSON.

    Examples
    --------
    >>> PureEvent("report noisy max", epsilon=0.1).cost().epsilon
    Fraction(1, 10)
    """

    name: str
    epsilon: float | str
    parameters: dict[str, Any] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("name must not be empty")
        if not exact(self.epsilon) > 0:
            raise ValueError(f"epsilon must be > 0, got epsilon={self.epsilon}")
        json.dumps(self.parameters, allow_nan=False)  # refuses what could not be stored

    def cost(self) -> Cost:
        """Pure differential privacy."""
        return Cost(exact(self.epsilon), Fraction(0))


@dataclass(frozen=True, slots=True)
class DiscreteGaussianEvent:
    """Independent discrete Gaussian noise was added to class counts that one moved task changes.

    P(z) ~ exp(-||z||_2^2 / (2 scale^2)). At `epsilon`, in (0, 100], it costs the delta that
    `discrete_gaussian_delta` sums exactly, and `delta` is the claim, at least that.

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

    def __post_init__(self) -> None:
        _check_delta(self.delta, discrete_gaussian_delta(self.scale, self.epsilon))

    def cost(self) -> Cost:
        """Approximate differential privacy at the claim."""
        return Cost(exact(self.epsilon), exact(self.delta))


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
        scale = exact(self.scale)
        if not 0 < scale <= LARGEST_SCALE:
            raise ValueError(f"scale must be > 0 and at most 2**40, got scale={self.scale}")
        _check_delta(self.delta, clamp_delta(self.floor, float(scale), self.epsilon))
        if not self.draws >= 1:
            raise ValueError(f"draws must be >= 1, got draws={self.draws}")

    def cost(self) -> Cost:
        """Approximate differential privacy at the claim."""
        return Cost(exact(self.epsilon), exact(self.delta))


Event: TypeAlias = (
    ClampedDirichletEvent
    | DiscreteGaussianEvent
    | DiscreteLaplaceEvent
    | LatticeLaplaceEvent
    | PureEvent
)

KINDS: Mapping[str, type[Event]] = MappingProxyType(
    {
        "clamped dirichlet": ClampedDirichletEvent,
        "discrete gaussian": DiscreteGaussianEvent,
        "discrete laplace": DiscreteLaplaceEvent,
        "lattice laplace": LatticeLaplaceEvent,
        "pure": PureEvent,
    }
)
"""The closed table of events: the kind's name in the ledger, and its class."""

NAMES = {kind: name for name, kind in KINDS.items()}


def event_json(event: Event) -> str:
    """Write an event as one line of JSON, the same for equal events.

    Examples
    --------
    >>> event_json(PureEvent("toy", epsilon=1.0))
    '{"epsilon": 1.0, "kind": "pure", "name": "toy", "parameters": {}}'
    """
    if type(event) not in NAMES:
        raise EventError(f"event must be of a kind in KINDS, got {type(event).__name__}")
    record = {one.name: getattr(event, one.name) for one in fields(event)}
    return json.dumps({"kind": NAMES[type(event)], **record}, sort_keys=True, allow_nan=False)


def parse_event(text: str) -> Event:
    """Read an event that `event_json` wrote.

    Raises
    ------
    EventError
        If the kind is unknown, or a field is missing, unknown or not valid.

    Examples
    --------
    >>> parse_event(event_json(PureEvent("toy", epsilon=1.0)))
    PureEvent(name='toy', epsilon=1.0, parameters={})
    """
    try:
        record = json.loads(text)
        kind = KINDS[record.pop("kind")]
        return kind(**record)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise EventError(f"not an event this version understands: {type(error).__name__}") from None


def covering_scale(l1: float | int, epsilon: float) -> float:
    """Smallest double `scale` with l1 / scale <= epsilon, in exact arithmetic.

    Examples
    --------
    >>> covering_scale(2.0, 0.1), covering_scale(2.0, 0.3)
    (20.0, 6.666666666666667)
    """
    if not exact(epsilon) > 0:
        raise ValueError(f"epsilon must be > 0, got epsilon={epsilon}")
    wanted = Fraction(l1) / exact(epsilon)
    if not wanted <= LARGEST_SCALE:
        raise ValueError(f"epsilon must be >= l1 / 2**40, got epsilon={epsilon}")
    scale = float(wanted)
    return scale if Fraction(scale) >= wanted else math.nextafter(scale, math.inf)


def _check_laplace(scale: float, l1: float, epsilon: float) -> None:
    if not 0 < scale <= LARGEST_SCALE:
        raise ValueError(f"scale must be > 0 and at most 2**40, got scale={scale}")
    if not 0 < l1 < math.inf:
        raise ValueError(f"l1 must be > 0 and finite, got l1={l1}")
    if not Fraction(l1) <= exact(epsilon) * Fraction(scale):
        raise ValueError(f"epsilon must be at least l1 / scale, got epsilon={epsilon}")


def _check_delta(claim: float, realised: float) -> None:
    if not realised <= claim < 1:
        raise ValueError(f"delta must be < 1 and at least what the scale realises, got {claim}")
