"""Events, which are records of releases, and their costs in exact arithmetic.

An event is a public record of one release. The ledger stores events, never costs, so that a better
composition can be applied to old records; the meaning of a kind and of its fields must therefore
never change. Costs of a data set's entries add up in an `Account`.

>>> from privacy import PureEvent
>>> event_json(PureEvent("toy", epsilon=0.1))
'{"arithmetic": "double", "epsilon": 0.1, "kind": "pure", "name": "toy", "parameters": {}}'
"""

import json
import math
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import Field, dataclass, fields
from decimal import Decimal
from fractions import Fraction
from types import MappingProxyType
from typing import Any, Literal, Protocol, TypeAlias, cast, get_args, runtime_checkable

import numpy as np

from privacy.accounting.loss import Loss
from privacy.query import Part

__all__ = [
    "MAX_EPSILON", "MAX_SCALE", "NOTHING", "SAFETY", "Account", "Arithmetic", "Cost", "Event",
    "EventError", "account_from", "as_declared", "check_arithmetic", "check_delta", "check_epsilon",
    "check_price", "close_kinds", "covering_scale", "double_up", "event_json", "exact", "fits",
    "is_covered", "is_known", "keep_declared", "level_text", "parse_event", "price_text",
    "six_digits_down", "six_digits_up",
]  # fmt: skip

Arithmetic: TypeAlias = Literal["exact", "double"]
"""Whether all noise was drawn by its exact law, in integers, or some of it in double precision.

A price is proved for the law drawn from where it is exact; in double precision it is proved for
real numbers, and what rounding adds to it is not bounded.
"""

MAX_EPSILON = 100.0  # for releases with delta > 0; the closed forms are tested up to it
MAX_SCALE = 2.0**40  # beyond it the 64-bit samplers could saturate
LARGEST = sys.float_info.max
LARGEST_POWER = 4300  # greatest power of ten in a number that is read: Python's own limit on digits
SAFETY = 1 + 1e-6  # factor that raises a computed delta before it is compared, for rounding


@dataclass(frozen=True, slots=True)
class Cost:
    """An (epsilon, delta) guarantee in exact arithmetic.

    Costs of releases on the same tasks add up (basic composition). Of releases on disjoint tasks the
    largest epsilon and the largest delta are charged, even from different releases, which errs on the safe
    side.

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
        """Return the cost of `count` releases on the same tasks."""
        return Cost(self.epsilon * count, self.delta * count)

    def within(self, budget: "Cost") -> bool:
        """Return whether a budget covers this cost."""
        return self.epsilon <= budget.epsilon and self.delta <= budget.delta

    @staticmethod
    def max(costs: Iterable["Cost"]) -> "Cost":
        """Return the cost of releases on disjoint tasks; zero for no release."""
        listed = [NOTHING, *costs]
        return Cost(max(one.epsilon for one in listed), max(one.delta for one in listed))


NOTHING = Cost(Fraction(0), Fraction(0))


def exact(number: int | float | str | Fraction) -> Fraction:
    """Read a number as its decimal notation; refuse NaN and numbers beyond finite doubles.

    Examples
    --------
    >>> exact(0.1), exact("1/3")
    (Fraction(1, 10), Fraction(1, 3))
    """
    text = "an integer of thousands of digits"  # which Python does not write
    with suppress(ValueError, ArithmeticError):
        text = str(number)
        parts = [Decimal(part) for part in text.split("/")]
        if all(abs(part.adjusted()) <= LARGEST_POWER for part in parts):
            value = Fraction(text)
            float(value)  # prices are stored and printed as doubles
            return value
    raise ValueError(f"a privacy parameter must be a finite number, got {text}")


def check_epsilon(epsilon: float) -> None:
    """Raise ValueError unless deltas can be computed for this epsilon."""
    if not 0 < epsilon <= MAX_EPSILON:
        raise ValueError(f"epsilon must be > 0 and at most 100, got epsilon={epsilon}")


def check_arithmetic(arithmetic: str) -> None:
    """Raise ValueError unless an arithmetic is "exact" or "double"."""
    if arithmetic not in ("exact", "double"):
        raise ValueError(f'arithmetic must be "exact" or "double", got {arithmetic!r}')


def check_price(epsilon: float, delta: float) -> None:
    """Raise ValueError unless a release can cost (epsilon, delta), with delta > 0."""
    check_epsilon(epsilon)
    if not 0 < delta < 1:
        raise ValueError(f"delta must be in (0, 1), got delta={delta}")


def check_delta(claim: float, realised: float) -> None:
    """Raise ValueError unless a claimed delta covers what the noise realises."""
    # no realised delta is 0, even one too small for a double
    if not (0 < claim < 1 and realised <= claim):
        raise ValueError(
            f"delta must be in (0, 1) and at least what the scale realises, got {claim}"
        )


def is_covered(realised: float, delta: float) -> bool:
    """Return whether a computed delta, raised by a millionth for rounding, is at most the one asked for."""
    return realised * SAFETY <= delta


def covering_scale(l1: float | int, epsilon: float) -> float:
    """Return the smallest double `scale` with l1 / scale <= epsilon, in exact arithmetic.

    Examples
    --------
    >>> covering_scale(2.0, 0.1), covering_scale(2.0, 0.3)
    (20.0, 6.666666666666667)
    """
    if not exact(epsilon) > 0:
        raise ValueError(f"epsilon must be > 0, got epsilon={epsilon}")
    if not 0 < l1 < math.inf:
        raise ValueError(f"l1 must be > 0 and finite, got l1={l1}")
    wanted = Fraction(l1) / exact(epsilon)
    if not wanted <= MAX_SCALE:
        raise ValueError(f"epsilon must be >= l1 / 2**40, got epsilon={epsilon}")
    scale = float(wanted)
    return scale if Fraction(scale) >= wanted else math.nextafter(scale, math.inf)


def six_digits_down(number: Fraction) -> float:
    """Return the largest decimal of about six digits that is <= a number >= 0 and a finite double.

    Examples
    --------
    >>> six_digits_down(Fraction(2, 3)), six_digits_up(Fraction(2, 3)), six_digits_up(exact(0.1))
    (0.666666, 0.666667, 0.1)
    """
    number = min(number, Fraction(LARGEST))
    near = float(number // _step(number) * _step(number))
    return near if exact(near) <= number else math.nextafter(near, 0.0)


def six_digits_up(number: Fraction) -> float:
    """Return the smallest decimal of about six digits that is >= a number >= 0.

    It is infinity beyond the largest double, and a number > 0 is never 0.
    """
    return double_up(-(-number // _step(number)) * _step(number))


def double_up(number: Fraction) -> float:
    """Return the double nearest to a number, or the next if the nearest is written as less.

    It is infinity beyond the largest double.

    Examples
    --------
    >>> double_up(exact(0.1) + exact(0.2)), double_up(Fraction(1, 3))
    (0.3, 0.33333333333333337)
    """
    try:
        near = float(number)
    except OverflowError:
        return math.inf
    return near if exact(near) >= number else math.nextafter(near, math.inf)


def price_text(number: Fraction | float, *, left: bool = False) -> str:
    """Write an epsilon or a delta in full if twelve digits are enough, or else rounded up to six digits.

    The rest of a budget is rounded down. So no printed number understates what was spent. Numbers beyond
    the largest double are written as inf.

    Examples
    --------
    >>> price_text(exact(0.35) + exact("1.0000001")), price_text(Fraction(2, 3))
    ('1.3500001', '0.666667')
    >>> price_text(Fraction(2, 3), left=True)
    '0.666666'
    """
    value = number if isinstance(number, Fraction) else exact(number)
    if value < 0:
        return f"-{price_text(-value, left=not left)}"
    whole = f"{float(min(value, Fraction(LARGEST))):.12g}"
    if Fraction(whole) == value:
        return whole
    return f"{(six_digits_down if left else six_digits_up)(value):.12g}"


def level_text(level: float) -> str:
    """Write a confidence level in per cent, in full or else rounded down, so that it is never overstated.

    Examples
    --------
    >>> level_text(0.95), level_text(0.999), level_text(2 / 3)
    ('95%', '99.9%', '66.6666%')
    """
    return f"{price_text(100 * exact(level), left=True)}%"


def _step(number: Fraction) -> Fraction:
    if not number:
        return Fraction(1)
    # integers of any length: a double may not hold their ratio
    size = math.log10(number.numerator) - math.log10(number.denominator)
    return Fraction(10) ** (math.floor(size) - 5)


class EventError(ValueError):
    """An event's kind is unknown to this version, or its fields are not valid."""


@runtime_checkable
class Event(Protocol):
    """A public record of one release, of one of the kinds in `privacy.mechanisms.kinds.KINDS`.

    Cost and loss are derived from the event's fields on every call.
    """

    @property
    def arithmetic(self) -> Arithmetic:
        """Whether the noise was drawn exactly, or in double precision."""

    def cost(self) -> Cost:
        """Return the cost that the release adds to a budget's spend."""

    def loss(self) -> Loss:
        """Return the dominating pair of the noise drawn, which may be cheaper than the claim."""


_classes: dict[str, type[Any]] = {}
_names: dict[type[Any], str] = {}


def close_kinds(kinds: Mapping[str, type[Any]]) -> Mapping[str, type[Any]]:
    """Set the closed table of events; `privacy.mechanisms.kinds` does so once, on import.

    Events are read and composed in this module, which needs the table; its classes stand in the mechanisms'
    own files, which import this one. Until the table is set every event is refused.

    Raises
    ------
    RuntimeError
        If another table was set before.
    """
    if _classes and _classes != dict(kinds):
        raise RuntimeError("the table of events is closed; a new kind belongs in KINDS")
    _classes.update(kinds)
    _names.update({kind: name for name, kind in kinds.items()})
    return MappingProxyType(dict(kinds))


def is_known(event: object) -> bool:
    """Return whether an event is of a kind in the closed table; a subclass of one is not."""
    return type(event) in _names


def event_json(event: Event) -> str:
    """Write an event as one line of JSON, the same for equal events.

    Raises
    ------
    EventError
        If the event is of no known kind, or JSON cannot hold one of its fields.

    Examples
    --------
    >>> from privacy import PureEvent
    >>> event_json(PureEvent("toy", epsilon=1.0))
    '{"arithmetic": "double", "epsilon": 1.0, "kind": "pure", "name": "toy", "parameters": {}}'
    """
    if not is_known(event):
        raise EventError(f"event must be of a kind in KINDS, got {type(event).__name__}")
    record = {
        one.name: as_declared(one, getattr(event, one.name)) for one in fields(cast(Any, event))
    }
    try:
        return json.dumps({"kind": _names[type(event)], **record}, sort_keys=True, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise EventError(f"an event must be of texts and finite numbers: {error}") from None


def as_declared(field: Field[Any], value: Any) -> Any:
    """Return a dataclass's number, or tuple of numbers, in the type of its field.

    A whole number becomes a double if the field takes doubles, and so does the text of a double if the
    field takes no texts. NumPy's numbers become Python's. So equal prices are one price in every notation.
    A number beyond the doubles stays as it is.
    """
    kinds = (field.type, *get_args(field.type))
    doubles = "float" in kinds or float in kinds
    texts = str in kinds
    if isinstance(value, tuple):
        return tuple(_number(one, doubles=doubles, texts=texts) for one in value)
    return _number(value, doubles=doubles, texts=texts)


def _number(value: Any, *, doubles: bool, texts: bool) -> Any:
    own = value.item() if isinstance(value, np.generic) else value
    if doubles and isinstance(own, int if texts else int | str) and not isinstance(own, bool):
        with suppress(OverflowError, ValueError):
            near = float(own)
            return near if exact(near) == exact(own) else own
    return own


def keep_declared(record: Any) -> None:
    """Convert a frozen dataclass's numbers with `as_declared`, so that equal numbers give equal records.

    For `__post_init__` of events, and of mechanisms whose event holds their knobs.
    """
    for one in fields(record):
        object.__setattr__(record, one.name, as_declared(one, getattr(record, one.name)))


def parse_event(
    text: str, *, builders: Mapping[type[Any], Callable[..., Event]] = MappingProxyType({})
) -> Event:
    """Read an event that `event_json` wrote.

    Parameters
    ----------
    text
        One line of JSON.
    builders
        For an event class, the function that builds its events from their fields in place of the class.

    Raises
    ------
    EventError
        If the kind is unknown, or a field is missing, unknown or not valid.

    Examples
    --------
    >>> parse_event('{"epsilon": 1.0, "kind": "pure", "name": "toy", "parameters": {}}')
    PureEvent(name='toy', epsilon=1.0, parameters={}, arithmetic='double')
    """
    try:
        record = json.loads(text)
        kind = _classes[record.pop("kind")]
        if "events" in record:  # JSON has no tuples
            record["events"] = tuple((event, count) for event, count in record["events"])
        event: Event = builders.get(kind, kind)(**record)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise EventError(f"not an event this version understands: {type(error).__name__}") from None
    return event


class Account:
    """A running total of costs.

    Entries add up, with one exception: cells of one partition hold different tasks, and a neighbour changes
    a single one of them. So a partition costs as much as its dearest cell (parallel composition). Within a
    cell entries add up, and so do different partitions, whose cells may overlap.

    Notes
    -----
    **Guarantees.** The total does not depend on the order of the additions and never falls.

    Examples
    --------
    >>> account, one = Account(), Cost(Fraction(1), Fraction(0))
    >>> account.add(Part("site:1", "north"), one)
    >>> account.add(Part("site:1", "south"), one)
    >>> account.add(None, one)
    >>> account.spent.epsilon
    Fraction(2, 1)
    """

    __slots__ = ("_cells", "_dearest", "spent")

    def __init__(self) -> None:
        self.spent = NOTHING
        self._cells: dict[Part, Cost] = {}
        self._dearest: dict[str, Cost] = {}

    def add(self, part: Part | None, cost: Cost) -> None:
        """Count one more entry."""
        if part is None:
            self.spent += cost
            return
        cell = self._cells.get(part)
        cell = cost if cell is None else cell + cost
        self._cells[part] = cell
        before = self._dearest.get(part.partition, NOTHING)
        if not cell.within(before):
            after = self._dearest[part.partition] = Cost.max((before, cell))
            self.spent += after - before


def account_from(
    rows: Iterable[tuple[Part | None, str, int]], read: Callable[[str], Event] = parse_event
) -> Account:
    """Compose stored entries: part, stored event, and number of such entries; `read` parses events.

    Examples
    --------
    >>> event = '{"epsilon": 0.1, "kind": "pure", "name": "toy", "parameters": {}}'
    >>> account_from([(None, event, 10)]).spent.epsilon
    Fraction(1, 1)
    """
    cells: dict[Part | None, Counter[str]] = {}
    for part, event, count in rows:
        cells.setdefault(part, Counter())[event] += count
    account, single = Account(), dict[str, Cost]()
    profiles = dict[frozenset[tuple[str, int]], Cost]()
    for part, events in cells.items():  # most cells have equal releases, priced once
        profile = frozenset(events.items())
        if profile not in profiles:
            total = NOTHING
            for event, count in events.items():
                if event not in single:
                    single[event] = read(event).cost()
                total += single[event].times(count)
            profiles[profile] = total
        account.add(part, profiles[profile])
    return account


def fits(left: Cost, price: Event | Cost) -> int:
    """Count how many releases at one price the rest of a budget covers, added up exactly.

    Parameters
    ----------
    left
        The rest of the budget.
    price
        Event or cost of one release; it must not be zero, or any number would fit.

    Raises
    ------
    ValueError
        If it costs nothing.

    Notes
    -----
    **Guarantees.** This number of releases fits, and one more does not.

    Examples
    --------
    >>> from privacy import PureEvent
    >>> left = Cost(Fraction(1), Fraction(0))
    >>> fits(left, PureEvent("toy", epsilon=0.1)), fits(left, Cost(Fraction(2, 5), Fraction(0)))
    (10, 2)
    """
    cost = price if isinstance(price, Cost) else price.cost()
    pairs = ((left.epsilon, cost.epsilon), (left.delta, cost.delta))
    numbers = [rest // price for rest, price in pairs if price > 0]
    if not numbers:
        raise ValueError("price must be > 0; `slots_left` counts a plan's slots")
    return min(numbers)
