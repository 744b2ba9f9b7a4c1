"""The limits on a data set's releases: its budget, and the slots of its plans.

A data set's budget is set once, and may be changed on record; the newest row holds. A plan is paid like a
release and has a number of slots; releases from a slot cost nothing more.

>>> limit_of(epsilon=1.0, delta=1e-6, n=1000).epsilon
Fraction(1, 1)
"""

import math
from collections.abc import Iterable, Sequence
from decimal import Decimal
from numbers import Real

from sqlalchemy import select

from privacy.accounting import (
    Cost,
    PlanEvent,
    PlannedEvent,
    Slots,
    event_json,
    exact,
    price_text,
)
from privacy.ledger.records import (
    Access,
    Book,
    Kind,
    account_of,
    append,
    find_budget,
    hold,
    kinds_of,
    lock,
    part_of,
    read_events,
    required_budget,
)
from privacy.ledger.store import LedgerError, budgets, entries
from privacy.query import Query, Unit, UnitError, check_name, check_size

__all__ = [
    "BudgetError",
    "PlanError",
    "change_limit",
    "check_slots",
    "cost_text",
    "insert_limit",
    "limit_of",
    "open_limit",
    "slots_of",
]


class BudgetError(RuntimeError):
    """A data set's budget does not cover a request; nothing was spent.

    Parameters
    ----------
    dataset, unit
        Name of the data set, and unit of its budget.
    budget, spent, asked
        The limit, what is spent of it, and the request's addition to that.

    Examples
    --------
    >>> from fractions import Fraction
    >>> one = Cost(Fraction(1), Fraction(0))
    >>> BudgetError("toy", Unit.ROW, budget=one, spent=one, asked=one).left.epsilon
    Fraction(0, 1)
    """

    def __init__(self, dataset: str, unit: Unit, budget: Cost, spent: Cost, asked: Cost) -> None:
        super().__init__(dataset, unit, budget, spent, asked)
        self.dataset, self.unit = dataset, unit
        self.budget, self.spent, self.asked = budget, spent, asked
        self.left = budget - spent

    def __str__(self) -> str:
        return (
            f"the budget of {self.dataset!r} does not cover this: asked {cost_text(self.asked)} per "
            f"{self.unit}; left {cost_text(self.left, left=True)}; spent {cost_text(self.spent)} of "
            f"{cost_text(self.budget, left=True)}. Nothing was spent. Ask for less, or raise the budget with "
            "change_budget, which is recorded"
        )


class PlanError(LedgerError):
    """A plan has no slot left for a release; nothing was spent.

    `n_slots` is the plan's number of slots for releases of this kind.

    Examples
    --------
    >>> print(PlanError("toy", plan=7, n_slots=4))
    plan 7 of 'toy' was for 4 releases of this kind, and none is left for this one; nothing was \
spent. Open another plan, which is paid anew
    """

    def __init__(self, dataset: str, plan: int, n_slots: int) -> None:
        super().__init__(dataset, plan, n_slots)
        self.dataset, self.plan, self.n_slots = dataset, plan, n_slots

    def __str__(self) -> str:
        return (
            f"plan {self.plan} of {self.dataset!r} was for {self.n_slots} releases of this kind, "
            "and none is left for this one; nothing was spent. Open another plan, which is paid anew"
        )


def cost_text(cost: Cost, *, left: bool = False) -> str:
    """Write a cost for a message, by the rules of `price_text` for prices and for the rest of a budget.

    Examples
    --------
    >>> cost_text(Cost(exact(0.1) + exact(0.2), exact(0)))
    'epsilon=0.3, delta=0'
    """
    epsilon, delta = (price_text(one, left=left) for one in (cost.epsilon, cost.delta))
    return f"epsilon={epsilon}, delta={delta}"


def limit_of(epsilon: float, delta: float, n: int) -> Cost:
    """Return a budget's numbers as a cost; raise if they protect nothing or are not numbers."""
    for what, number in (("epsilon", epsilon), ("delta", delta)):
        if not isinstance(number, Real | Decimal):
            raise TypeError(f"{what} must be a number, got {type(number).__name__}")
        if isinstance(number, Decimal) and number.is_nan():  # its comparisons raise their own error
            raise ValueError(f"{what} must be a number, got {what}={number}")
    if not 0 < epsilon < math.inf:
        raise ValueError(f"epsilon must be > 0 and finite, got epsilon={epsilon}")
    check_size(n)
    if not (delta >= 0 and exact(delta) * int(n) < 1):
        raise ValueError(
            f"delta must be >= 0 and < 1/n, as a delta of 1/n allows publishing whole records, got "
            f"delta={delta}, n={n}"
        )
    return Cost(exact(epsilon), exact(delta))


def open_limit(
    access: Access, dataset: str, unit: Unit, epsilon: float, delta: float, n: int
) -> None:
    """Set the budget of a data set that has none; raise LedgerError if it has another."""
    check_name("dataset", dataset)
    if unit not in tuple(Unit):
        raise ValueError(f"unit must be one of {', '.join(Unit)}, got unit={unit!r}")
    unit, limit = Unit(unit), limit_of(epsilon, delta, n)
    with access.writing() as book:
        hold(book)
        found = find_budget(book, dataset)
        if found is None:
            insert_limit(book, dataset, unit, epsilon, delta, n)
        elif (found.unit, found.limit) != (unit, limit):
            raise LedgerError(
                f"the budget of {dataset!r} is {cost_text(found.limit, left=True)} for the unit "
                f"'{found.unit}', got {cost_text(limit, left=True)} for '{unit}'; change_budget changes the "
                "numbers and records it, and another unit needs another data set name"
            )


def change_limit(access: Access, dataset: str, epsilon: float, delta: float) -> None:
    """Set another limit, which must be at least what is spent."""
    with access.writing() as book:
        lock(book, dataset)
        found = required_budget(book, dataset)
        limit = limit_of(epsilon, delta, found.n)
        spent = account_of(book, dataset).spent
        if not spent.within(limit):
            raise LedgerError(
                f"the budget of {dataset!r} must cover what is spent, {cost_text(spent)}, got "
                f"{cost_text(limit, left=True)}"
            )
        insert_limit(book, dataset, found.unit, epsilon, delta, found.n)


def insert_limit(
    book: Book, dataset: str, unit: Unit, epsilon: float, delta: float, n: int
) -> None:
    """Record a limit that holds from now on."""
    numbers = {"epsilon": str(epsilon), "delta": str(delta), "n": int(n)}
    append(book, budgets, [{"dataset": dataset, "unit": str(unit), **numbers}])


def check_slots(book: Book, asked: Sequence[tuple[Query, PlannedEvent]]) -> None:
    """Raise unless the plans have a slot left for each of these queries.

    Until the transaction ends no other can take slots of the plans' data sets.
    """
    plans: dict[tuple[str, int], tuple[Unit, Slots]] = {}
    for query, planned in asked:
        number, text = planned.plan, planned.event
        if (query.dataset, number) not in plans:
            plans[query.dataset, number] = _plan_at(book, query.dataset, number)
        unit, slots = plans[query.dataset, number]
        if not query.unit.covers(unit):
            raise UnitError(
                f"plan {number} protects the unit '{unit}', which a guarantee for the unit "
                f"'{query.unit}' does not cover"
            )
        if not slots.left(text, query.part) >= 1:
            raise PlanError(query.dataset, number, slots.total(text))
        slots.take(text, query.part)


def slots_of(number: int, plan: PlanEvent, kinds: Iterable[Kind]) -> Slots:
    """Return the slots of the plan that entry `number` paid for, and their use by these entries."""
    slot = {event_json(PlannedEvent(number, text)): text for text, _ in plan.events}
    return Slots(plan, ((part, slot[event], n) for part, event, n in kinds if event in slot))


def _plan_at(book: Book, dataset: str, number: int) -> tuple[Unit, Slots]:
    """Return the unit and slots of the plan that an entry paid for."""
    row = book.connection.execute(select(entries).where(entries.c.entry == number)).first()
    plan = None
    if row is not None and row.dataset == dataset:
        plan = read_events(book, dataset, [(part_of(row), row.event, 1)])[row.event]
    if row is None or not isinstance(plan, PlanEvent):
        raise LedgerError(
            f"plan must be the number of an entry that paid for a plan of {dataset!r}, got "
            f"plan={number}; nothing was spent"
        )
    return Unit(row.unit), slots_of(number, plan, kinds_of(book, dataset))
