"""What was done to private data, as public records; what it costs is derived from them.

The ledger stores events, never costs, so that a better composition can be applied to old records.
The meaning of a kind and of its fields must therefore never change: a new meaning is a new kind.
`KINDS` is the closed table of what is understood; anything else is refused.
"""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from fractions import Fraction
from types import MappingProxyType
from typing import Any, TypeAlias

__all__ = [
    "Cost",
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
class Cost:
    """An (epsilon, delta) guarantee in exact arithmetic.

    Costs of releases on the same tasks add up (basic composition); of disjoint tasks the largest
    counts, taken apart for epsilon and delta, which errs on the safe side.

    Examples
    --------
    >>> tenth = Cost(exact(0.1), Fraction(0))
    >>> tenth.times(10) == Cost(exact(1.0), Fraction(0))
    True
    """

    epsilon: Fraction
    delta: Fraction

    def __post_init__(self) -> None:
        if not (self.epsilon >= 0 and self.delta >= 0):
            raise ValueError(f"a cost must be >= 0, got {self.epsilon}, {self.delta}")

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(self.epsilon + other.epsilon, self.delta + other.delta)

    def __sub__(self, other: "Cost") -> "Cost":
        return Cost(self.epsilon - other.epsilon, self.delta - other.delta)

    def times(self, count: int) -> "Cost":
        """Cost of `count` releases on the same tasks."""
        return Cost(self.epsilon * count, self.delta * count)

    def within(self, budget: "Cost") -> bool:
        """Whether a budget covers this cost."""
        return self.epsilon <= budget.epsilon and self.delta <= budget.delta

    @staticmethod
    def max(costs: Iterable["Cost"]) -> "Cost":
        """Cost of releases on disjoint tasks; nothing for none."""
        listed = [Cost(Fraction(0), Fraction(0)), *costs]
        return Cost(max(one.epsilon for one in listed), max(one.delta for one in listed))


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


Event: TypeAlias = DiscreteLaplaceEvent | LatticeLaplaceEvent | PureEvent

KINDS: Mapping[str, type[Event]] = MappingProxyType(
    {
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


def exact(number: float | str) -> Fraction:
    """Read a number as the decimal it is written as; NaN and infinity are refused.

    Examples
    --------
    >>> exact(0.1), exact("1/3")
    (Fraction(1, 10), Fraction(1, 3))
    """
    try:
        return Fraction(str(number))
    except ValueError:
        raise ValueError(f"a privacy parameter must be a finite number, got {number}") from None


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
