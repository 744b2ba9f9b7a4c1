"""What a data set's releases are held to: its budget, and the slots of the plans that it paid for."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NoReturn

import numpy as np
from sqlalchemy import Connection, select

from privacy.accounting.plans import PlanEvent, PlannedEvent, Slots
from privacy.ledger.budgets import find_budget, insert_budget, limit_of, required_budget, told
from privacy.ledger.fingerprint import fingerprint
from privacy.ledger.recorded import read_events
from privacy.ledger.records import hold
from privacy.ledger.spending import Request, account_of, kinds_of, part_of
from privacy.ledger.store import LedgerError, Store, lock, transaction
from privacy.ledger.tables import entries
from privacy.mechanism import Noise
from privacy.mechanisms.kinds import event_json
from privacy.query import Part, Query, Unit, UnitError, check_name

__all__ = [
    "PlanError",
    "PlanPayment",
    "change_limit",
    "check_slots",
    "open_limit",
    "plan_request",
    "slots_of",
]


class PlanError(LedgerError):
    """A plan has no slot for what is asked; nothing was spent.

    `n_slots` is how many releases of this kind the plan was for.

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


@dataclass(frozen=True, slots=True)
class PlanPayment:
    """What an entry that pays for a plan has in place of a mechanism; it draws nothing."""

    plan: PlanEvent

    def event(self, query: Query) -> PlanEvent:
        """The plan."""
        return self.plan

    def draw(self, query: Query, noise: Noise) -> NoReturn:
        """Refuse: values are drawn from the plan's slots."""
        raise TypeError("a plan itself draws nothing")


def open_limit(
    store: Store, dataset: str, unit: Unit, epsilon: float, delta: float, n: int, *, key: bytes
) -> None:
    """Set the budget of a data set that has none; refuse where it has another."""
    check_name("dataset", dataset)
    unit, limit = Unit(unit), limit_of(epsilon, delta, n)
    with transaction(store) as connection:
        hold(connection, key=key)
        found = find_budget(connection, dataset, key=key)
        if found is None:
            insert_budget(connection, dataset, unit, epsilon, delta, n, key=key)
        elif (found.unit, found.limit) != (unit, limit):
            raise LedgerError(
                f"the budget of {dataset!r} is {told(found.limit)} for the unit "
                f"'{found.unit}', got {told(limit)} for '{unit}'; change_budget changes the "
                "numbers and records it, and another unit needs another data set name"
            )


def change_limit(store: Store, dataset: str, epsilon: float, delta: float, *, key: bytes) -> None:
    """Set another limit that covers what is spent."""
    with transaction(store) as connection:
        lock(connection, dataset)
        found = required_budget(connection, dataset, key=key)
        limit = limit_of(epsilon, delta, found.n)
        spent = account_of(connection, dataset, key=key).spent
        if not spent.within(limit):
            raise LedgerError(
                f"the budget of {dataset!r} must cover what is spent, {told(spent)}, got "
                f"{told(limit)}"
            )
        insert_budget(connection, dataset, found.unit, epsilon, delta, found.n, key=key)


def plan_request(
    connection: Connection, dataset: str, plan: PlanEvent, name: str, *, key: bytes
) -> Request:
    """What pays for a plan, for all tasks; the same for the same plan of the same name."""
    if not isinstance(plan, PlanEvent):
        raise TypeError(f"plan must be a PlanEvent, got {type(plan).__name__}")
    budget = required_budget(connection, dataset, key=key)
    query = Query(dataset, name, np.zeros(0), budget.unit, budget.n, l1=np.inf)
    payment = PlanPayment(plan)
    return Request(payment, query, plan, fingerprint(payment, query, plan, key=key))


def check_slots(connection: Connection, asked: Sequence[Request], *, key: bytes) -> None:
    """Refuse what is to be paid by a plan that has no slot left for it.

    Until the transaction ends no other may take slots of the plans' data sets.
    """
    plans: dict[tuple[str, int], tuple[Unit, Slots]] = {}
    for one in asked:
        if one.slot is None:
            continue
        query, number, text = one.query, one.slot.plan, one.slot.event
        if (query.dataset, number) not in plans:
            plans[query.dataset, number] = _plan_at(connection, query.dataset, number, key)
        unit, slots = plans[query.dataset, number]
        if not query.unit.covers(unit):
            raise UnitError(
                f"plan {number} protects the unit '{unit}', which a guarantee for the unit "
                f"'{query.unit}' does not cover"
            )
        if not slots.left(text, query.part) >= 1:
            raise PlanError(query.dataset, number, slots.total(text))
        slots.take(text, query.part)


def slots_of(number: int, plan: PlanEvent, kinds: Iterable[tuple[Part | None, str, int]]) -> Slots:
    """The slots of the plan that entry `number` paid for, as entries of these kinds have used them."""
    slot = {event_json(PlannedEvent(number, text)): text for text, _ in plan.events}
    return Slots(plan, ((part, slot[event], n) for part, event, n in kinds if event in slot))


def _plan_at(connection: Connection, dataset: str, number: int, key: bytes) -> tuple[Unit, Slots]:
    """What the plan that an entry paid for protects, and its slots as they are used by now."""
    row = connection.execute(select(entries).where(entries.c.entry == number)).first()
    plan = None
    if row is not None and row.dataset == dataset:
        kind = part_of(row), row.event, 1
        plan = read_events(connection, dataset, [kind], key=key)[row.event]
    if row is None or not isinstance(plan, PlanEvent):
        raise LedgerError(
            f"plan must be the number of an entry that paid for a plan of {dataset!r}, got "
            f"plan={number}; nothing was spent"
        )
    return Unit(row.unit), slots_of(number, plan, kinds_of(connection, dataset))
