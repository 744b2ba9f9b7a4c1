"""Composition: what entries of one data set cost together, basic composition in exact arithmetic."""

from collections import Counter
from collections.abc import Callable, Iterable
from fractions import Fraction

from privacy.mechanisms.kinds import Cost, Event, parse_event
from privacy.query import Part

__all__ = ["Account", "account_from", "fits"]

NOTHING = Cost(Fraction(0), Fraction(0))


class Account:
    """A running total of costs.

    Entries add up, with one exception: cells of one partition hold different tasks, a neighbour
    touches a single one of them, and so a partition costs as much as its dearest cell (parallel
    composition). Within a cell entries add up, and so do different partitions, whose cells may
    overlap.

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
    """Compose stored entries: part, event as stored and to be read, and how many times.

    Examples
    --------
    >>> event = '{"epsilon": 0.1, "kind": "pure", "name": "toy", "parameters": {}}'
    >>> account_from([(None, event, 10)]).spent.epsilon
    Fraction(1, 1)
    """
    cells: dict[Part | None, Counter[str]] = {}
    for part, event, count in rows:
        cells.setdefault(part, Counter())[event] += count
    account, single, profiles = (
        Account(),
        dict[str, Cost](),
        dict[frozenset[tuple[str, int]], Cost](),
    )
    for part, events in cells.items():  # most cells have had the same releases: priced once
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
    """How many more releases at one price a budget's rest covers, adding up exactly.

    Parameters
    ----------
    left
        What is left of the budget.
    price
        What one release is, or costs; it must cost something, as the number would have no end.

    Raises
    ------
    ValueError
        If it costs nothing.

    Notes
    -----
    **Guarantees.** So many fit, and one more does not.

    Examples
    --------
    >>> from privacy.mechanisms.kinds import PureEvent
    >>> left = Cost(Fraction(1), Fraction(0))
    >>> fits(left, PureEvent("toy", epsilon=0.1)), fits(left, Cost(Fraction(2, 5), Fraction(0)))
    (10, 2)
    """
    cost = price if isinstance(price, Cost) else price.cost()
    pairs = ((left.epsilon, cost.epsilon), (left.delta, cost.delta))
    numbers = [rest // price for rest, price in pairs if price > 0]
    if not numbers:
        raise ValueError("price must be of something; a plan's slots are told by slots_left")
    return min(numbers)
