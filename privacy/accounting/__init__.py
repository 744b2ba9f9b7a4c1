"""TODO face of privacy.accounting."""

from privacy.accounting.account import fits
from privacy.accounting.composition import Composition, compose
from privacy.accounting.cost import exact
from privacy.accounting.plans import PlanEvent, PlannedEvent, plan, slots_left

__all__ = [
    "Composition",
    "PlanEvent",
    "PlannedEvent",
    "compose",
    "exact",
    "fits",
    "plan",
    "slots_left",
]
