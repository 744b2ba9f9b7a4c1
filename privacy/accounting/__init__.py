"""What releases cost: each alone, added up in any order, or composed when they were fixed in advance.

An event records a release; its `cost()` is exact, its `loss()` a pair of laws (`Event`, `Cost`,
`Loss`). The ledger adds costs up (`Account`). For many releases that are known beforehand use `plan`,
which composes their losses and costs less than their sum.

>>> from privacy import PureEvent
>>> hundred = plan({PureEvent("toy", epsilon=0.1): 100}, delta=1e-6)
>>> float(hundred.cost().epsilon)
4.7746
"""

from privacy.accounting.composition import Composition, compose, loss_of
from privacy.accounting.cost import (
    MAX_EPSILON,
    MAX_SCALE,
    NOTHING,
    SAFETY,
    Account,
    Arithmetic,
    Cost,
    Event,
    EventError,
    account_from,
    as_declared,
    check_arithmetic,
    check_delta,
    check_epsilon,
    check_price,
    close_kinds,
    covering_scale,
    double_up,
    event_json,
    exact,
    fits,
    is_covered,
    keep_declared,
    level_text,
    parse_event,
    price_text,
    six_digits_down,
    six_digits_up,
)
from privacy.accounting.loss import MAX_LOSS, Loss, atom_loss, claim_loss, response_loss
from privacy.accounting.plans import (
    MARGIN,
    PlanEvent,
    PlannedEvent,
    Slots,
    paid_plan,
    plan,
    slots_left,
)

__all__ = [
    "MARGIN",
    "MAX_EPSILON",
    "MAX_LOSS",
    "MAX_SCALE",
    "NOTHING",
    "SAFETY",
    "Account",
    "Arithmetic",
    "Composition",
    "Cost",
    "Event",
    "EventError",
    "Loss",
    "PlanEvent",
    "PlannedEvent",
    "Slots",
    "account_from",
    "as_declared",
    "atom_loss",
    "check_arithmetic",
    "check_delta",
    "check_epsilon",
    "check_price",
    "claim_loss",
    "close_kinds",
    "compose",
    "covering_scale",
    "double_up",
    "event_json",
    "exact",
    "fits",
    "is_covered",
    "keep_declared",
    "level_text",
    "loss_of",
    "paid_plan",
    "parse_event",
    "plan",
    "price_text",
    "response_loss",
    "six_digits_down",
    "six_digits_up",
    "slots_left",
]  # fmt: skip
