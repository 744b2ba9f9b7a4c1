"""Price a bundle of releases that is fixed before the first draw, and paid once.

Basic composition lets every release be chosen from earlier ones; the ledger adds up in this way. Composed
losses are cheaper but hold only for dominating pairs fixed in advance: if a first answer decides which of
two mechanisms runs next, delta can exceed that of either. A plan has both properties: its bundle is fixed,
so that its losses compose, and the plan as a whole adds up with other entries.

>>> from privacy import PureEvent
>>> plan({PureEvent("toy", epsilon=0.1): 100}, delta=1e-6).epsilon
4.7746
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from privacy.accounting.composition import compose
from privacy.accounting.cost import (
    NOTHING,
    Arithmetic,
    Cost,
    Event,
    event_json,
    exact,
    keep_declared,
    parse_event,
    six_digits_up,
)
from privacy.accounting.loss import Loss, claim_loss
from privacy.query import Part

__all__ = ["PlanEvent", "PlannedEvent", "Slots", "paid_plan", "plan", "slots_left"]

MARGIN = 1 - 1e-6  # share of its delta that a plan uses, so that other machines' rounding fits too
LEAST = 1e-6  # epsilon of a plan that delta alone would pay for


@dataclass(frozen=True, slots=True)
class PlanEvent:
    """Releases with these events were planned, all before the first of them was drawn.

    Parameters
    ----------
    events
        Each event as `event_json` writes it, in increasing order, and its number of releases; all events
        draw noise, and none is a plan.
    epsilon, delta
        The claim, epsilon > 0 and 0 <= delta < 1: at least what composition realises.

    Raises
    ------
    ValueError
        If one of these conditions is broken.

    Notes
    -----
    **Privacy.** The proof is by simulation. (1) Each planned release is dominated by the pair of its event,
    for any query. By Blackwell's theorem it is a random map of one draw from that pair, and the map may
    depend on all earlier releases. Pairs are symmetric, so that the data and a neighbour keep their sides
    in all of them. (2) Draw from the pairs of all slots at the start. Together they are a draw from one of
    two fixed product laws, whose divergence composition bounds. All releases of the plan, in any order, are
    a map of this draw. So the plan is (epsilon, delta)-private. (3) Hence the plan is a random map of a
    single draw of (epsilon, delta) randomised response, made when it is paid. It adds up with entries
    before, between and after its releases, even if these are chosen adaptively.

    **Guarantees.** A claim below what composition realises cannot be built; the plan of a fixed bundle
    costs no more than its releases one by one. The ledger reads a paid plan back without composing it again
    (`paid_plan`).

    References
    ----------
    .. [1] Kairouz, Oh, Viswanath, "The composition theorem for differential privacy", ICML (2015).
    .. [2] Vadhan, Zhang, "Concurrent composition theorems for differential privacy", STOC (2023).

    Examples
    --------
    >>> from privacy import LatticeLaplaceEvent
    >>> north = plan({LatticeLaplaceEvent(2.0, 2.0, n_classes=10, epsilon=1.0): 16}, delta=1e-6)
    >>> round(float(north.cost().epsilon), 1), sum(count for _, count in north.events)
    (14.9, 16)
    """

    events: tuple[tuple[str, int], ...]
    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        keep_declared(self)
        texts = [text for text, _ in self.events]
        if not (texts and texts == sorted(set(texts))):
            raise ValueError("events must be one or more, different and in increasing order")
        # 16.0 would pass for a 16 that was composed before
        if not all(type(count) is int for _, count in self.events):
            raise TypeError("counts must be integers")
        if not (exact(self.epsilon) > 0 and 0 <= self.delta < 1):
            raise ValueError("a plan must have epsilon > 0 and 0 <= delta < 1")
        if not _realised(self.events, float(self.epsilon)) <= self.delta:
            raise ValueError("epsilon and delta must be at least what the planned releases realise")

    @property
    def arithmetic(self) -> Arithmetic:
        """Arithmetic of the noise: exact if that of every planned release is."""
        kinds = {parse_event(text).arithmetic for text, _ in self.events}
        return "exact" if kinds == {"exact"} else "double"

    def cost(self) -> Cost:
        """Return the approximate differential privacy of all its releases together."""
        return Cost(exact(self.epsilon), exact(self.delta))

    def loss(self) -> Loss:
        """Return the loss of randomised response, infinite with probability delta."""
        return claim_loss(exact(self.epsilon), exact(self.delta))


@dataclass(frozen=True, slots=True)
class PlannedEvent:
    """A release was drawn from a slot of a plan, which has paid for it.

    Parameters
    ----------
    plan
        The ledger's number of the plan's entry, >= 1.
    event
        The slot's event as `event_json` writes it; `slots_left` counts unused slots by it.

    Examples
    --------
    >>> from privacy import PureEvent
    >>> PlannedEvent(plan=7, event=event_json(PureEvent("toy", epsilon=0.1))).cost().epsilon
    Fraction(0, 1)
    """

    plan: int
    event: str

    def __post_init__(self) -> None:
        keep_declared(self)
        if type(self.plan) is not int or not 1 <= self.plan < 2**63:
            raise ValueError(f"plan must be the number of an entry, got plan={self.plan}")
        _drawing(self.event)

    @property
    def arithmetic(self) -> Arithmetic:
        """Arithmetic of the release."""
        return parse_event(self.event).arithmetic

    def cost(self) -> Cost:
        """Return a cost of zero: the plan has paid."""
        return NOTHING

    def loss(self) -> Loss:
        """Return a loss of zero: the plan has paid."""
        return Loss(0.0, np.zeros_like)


def plan(events: Mapping[Event, int], *, delta: float) -> PlanEvent:
    """Price a bundle of releases at one delta.

    Parameters
    ----------
    events
        Number of releases of each event, >= 1; public, and fixed from now on.
    delta
        Delta of the whole bundle, 0 <= delta < 1.

    Returns
    -------
    PlanEvent
        With the smallest epsilon at that delta, rounded up to six digits. No plan claims an epsilon of 0: if
        delta alone pays for the bundle, it is a millionth or less.

    Raises
    ------
    TypeError
        If events are no mapping, a count is no integer, or an event of no known kind.
    ValueError
        If one of the conditions is broken, or no epsilon suffices.

    Notes
    -----
    **Guarantees.** The plan's epsilon is at most that of basic composition, up to six digits, if its delta
    is at least the sum of the releases' deltas.

    Examples
    --------
    >>> from privacy import PureEvent
    >>> plan({PureEvent("toy", epsilon=0.1): 100}, delta=1e-6).epsilon
    4.7746
    >>> plan({PureEvent("toy", epsilon=0.1): 100}, delta=0.0).epsilon
    10.0
    """
    if not 0 <= delta < 1:
        raise ValueError(f"delta must be in [0, 1), got delta={delta}")
    composed = compose(events)
    written = tuple(sorted((event_json(event), int(count)) for event, count in events.items()))
    found = composed.epsilon(delta * MARGIN)
    bounds = [six_digits_up(Fraction(found) or exact(LEAST))] if found < math.inf else []
    if exact(delta) >= composed.basic.delta:
        bounds.append(six_digits_up(composed.basic.epsilon))
    if not bounds:
        raise ValueError(f"delta must be larger for these releases, got delta={delta}")
    if not min(bounds) < math.inf:
        raise ValueError("epsilons of the planned releases must add up to a finite double")
    return PlanEvent(written, min(bounds), delta)


def paid_plan(events: tuple[tuple[str, int], ...], epsilon: float, delta: float) -> PlanEvent:
    """Rebuild a paid plan without composing it again; only for rows that the chain covers."""
    paid = object.__new__(PlanEvent)
    for name, value in (("events", events), ("epsilon", epsilon), ("delta", delta)):
        object.__setattr__(paid, name, value)
    return paid


def slots_left(
    plan: PlanEvent,
    used: Iterable[tuple[Part | None, str, int]],
    event: str,
    part: Part | None,
) -> int:
    """Count the slots for an event that a plan has left for a part of the tasks.

    Parameters
    ----------
    plan
        The plan.
    used
        Part, event and number of releases already drawn from this plan.
    event
        The event to be drawn, as `event_json` writes it.
    part
        The cell it is about; None for all tasks.

    Returns
    -------
    int
        0 if the plan has no such event.

    Notes
    -----
    A neighbour changes one cell of each partition, so a partition uses as many slots as its most used cell;
    different partitions, and releases about all tasks, add up.

    **Guarantees.** Within this number, releases never contain any one task more often than the plan has
    slots.

    Examples
    --------
    >>> from privacy import PureEvent
    >>> toy = PureEvent("toy", epsilon=0.1)
    >>> of_three, one = plan({toy: 3}, delta=0.0), event_json(toy)
    >>> used = [(Part("site:1", "north"), one, 2), (None, one, 1)]
    >>> [slots_left(of_three, used, one, Part("site:1", name)) for name in ("north", "south")]
    [0, 2]
    """
    return Slots(plan, used).left(event, part)


class Slots:
    """A plan's slots and their use, counted as in `slots_left`.

    Examples
    --------
    >>> from privacy import PureEvent
    >>> toy = PureEvent("toy", epsilon=0.1)
    >>> slots, one = Slots(plan({toy: 3}, delta=0.0)), event_json(toy)
    >>> slots.take(one, Part("site:1", "north"))
    >>> slots.left(one, Part("site:1", "south")), slots.left(one, None), slots.used()
    (3, 2, 1)
    """

    __slots__ = ("_cells", "_fullest", "_total", "_touched")

    def __init__(self, plan: PlanEvent, used: Iterable[tuple[Part | None, str, int]] = ()) -> None:
        self._total = dict(plan.events)
        self._cells: Counter[tuple[str, Part | None]] = Counter()
        self._fullest: Counter[tuple[str, str]] = Counter()
        self._touched: Counter[str] = Counter()
        for part, event, count in used:
            self.take(event, part, count)

    def total(self, event: str) -> int:
        """Return how many releases of an event the plan has paid for."""
        return self._total.get(event, 0)

    def take(self, event: str, part: Part | None, count: int = 1) -> None:
        """Count releases of an event for a part of the tasks."""
        if not count >= 0:
            raise ValueError(f"counts must be >= 0, got {count}")
        self._cells[event, part] += count
        if part is None:
            self._touched[event] += count
            return
        partition = event, part.partition
        more = max(0, self._cells[event, part] - self._fullest[partition])
        self._fullest[partition] += more
        self._touched[event] += more

    def left(self, event: str, part: Part | None) -> int:
        """Return how many more releases of an event the plan allows for a part of the tasks."""
        own = 0
        if part is not None:
            own = self._fullest[event, part.partition] - self._cells[event, part]
        return max(0, self.total(event) - self._touched[event] + own)

    def used(self) -> int:
        """Return the largest number of the plan's releases that any one task was in."""
        return self._touched.total()


@lru_cache(maxsize=256)
def _realised(events: tuple[tuple[str, int], ...], epsilon: float) -> float:
    """Return the delta of these releases together at epsilon."""
    return compose({_drawing(text): count for text, count in events}).delta(epsilon)


def _drawing(text: str) -> Event:
    """Read an event that draws noise; refuse a text that `event_json` would write otherwise."""
    event = parse_event(text)
    if isinstance(event, PlanEvent | PlannedEvent):
        raise ValueError("a plan's slots must be of events that draw noise, got a plan's")
    if event_json(event) != text:
        raise ValueError("an event must be written as event_json writes it")
    return event
