"""What was done to private data, as public records; what it costs is derived from them.

The ledger stores events, never costs, so that a better composition can be applied to old records.
The meaning of a kind and of its fields must therefore never change: a new meaning is a new kind.
`KINDS` is the closed table of what is understood; anything else is refused.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import TypeAlias

from privacy.accounting.cost import Cost, exact
from privacy.accounting.plans import PlanEvent, PlannedEvent
from privacy.mechanism import ApproximateEvent, PureEvent, covering_scale
from privacy.mechanisms.dirichlet import ClampedDirichletEvent, PseudoCountDirichletEvent
from privacy.mechanisms.gaussian import DiscreteGaussianEvent
from privacy.mechanisms.laplace import DiscreteLaplaceEvent, LatticeLaplaceEvent

__all__ = [
    "KINDS",
    "ApproximateEvent",
    "ClampedDirichletEvent",
    "Cost",
    "DiscreteGaussianEvent",
    "DiscreteLaplaceEvent",
    "Event",
    "EventError",
    "LatticeLaplaceEvent",
    "PlanEvent",
    "PlannedEvent",
    "PseudoCountDirichletEvent",
    "PureEvent",
    "covering_scale",
    "event_json",
    "exact",
    "parse_event",
]


class EventError(ValueError):
    """A stored event is of no kind that this version knows, or its fields are not valid."""


Event: TypeAlias = (
    ApproximateEvent
    | ClampedDirichletEvent
    | DiscreteGaussianEvent
    | DiscreteLaplaceEvent
    | LatticeLaplaceEvent
    | PlanEvent
    | PlannedEvent
    | PseudoCountDirichletEvent
    | PureEvent
)

KINDS: Mapping[str, type[Event]] = MappingProxyType(
    {
        "approximate": ApproximateEvent,
        "clamped dirichlet": ClampedDirichletEvent,
        "discrete gaussian": DiscreteGaussianEvent,
        "discrete laplace": DiscreteLaplaceEvent,
        "lattice laplace": LatticeLaplaceEvent,
        "plan": PlanEvent,
        "planned": PlannedEvent,
        "pseudo-count dirichlet": PseudoCountDirichletEvent,
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


def parse_event(text: str, *, plan: Callable[..., PlanEvent] = PlanEvent) -> Event:
    """Read an event that `event_json` wrote; `plan` builds a plan from its fields.

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
        if kind is PlanEvent:  # JSON has no tuples
            record["events"] = tuple((event, count) for event, count in record["events"])
            return plan(**record)
        return kind(**record)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise EventError(f"not an event this version understands: {type(error).__name__}") from None
