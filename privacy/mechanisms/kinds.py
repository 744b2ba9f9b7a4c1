"""The closed table of events: each kind's name in the ledger, and its class.

Other events are refused. To add a mechanism, write its file with its event (`cost()` and `loss()`), and one
line here. The meaning of a kind and of its fields must never change, as entries of old ledgers are read by
it: a new meaning is a new kind.

>>> KINDS["pure"].__name__
'PureEvent'
"""

from collections.abc import Mapping
from typing import Any

from privacy.accounting import PlanEvent, PlannedEvent, close_kinds
from privacy.mechanism import ApproximateEvent, PureEvent
from privacy.mechanisms.dirichlet import (
    ClampedDirichletEvent,
    DirichletClamp,
    DirichletPseudoCount,
    PseudoCountDirichletEvent,
)
from privacy.mechanisms.gaussian import DiscreteGaussian, DiscreteGaussianEvent
from privacy.mechanisms.laplace import DiscreteLaplace, DiscreteLaplaceEvent
from privacy.mechanisms.lattice_laplace import LatticeLaplace, LatticeLaplaceEvent

__all__ = ["COUNT_MECHANISMS", "KINDS"]

TABLE: tuple[tuple[str, type[Any], type[Any] | None], ...] = (
    ("approximate", ApproximateEvent, None),
    ("clamped dirichlet", ClampedDirichletEvent, DirichletClamp),
    ("discrete gaussian", DiscreteGaussianEvent, DiscreteGaussian),
    ("discrete laplace", DiscreteLaplaceEvent, DiscreteLaplace),
    ("lattice laplace", LatticeLaplaceEvent, LatticeLaplace),
    ("plan", PlanEvent, None),
    ("planned", PlannedEvent, None),
    ("pseudo-count dirichlet", PseudoCountDirichletEvent, DirichletPseudoCount),
    ("pure", PureEvent, None),
)
"""Name of each kind, its event, and the mechanism on class counts that it describes, if only one."""

KINDS: Mapping[str, type[Any]] = close_kinds({name: event for name, event, _ in TABLE})
"""Each kind's name in the ledger, and its class."""

COUNT_MECHANISMS = tuple(mechanism for _, _, mechanism in TABLE if mechanism is not None)
"""Mechanisms that release class counts, each by an event of its own: all of them can be audited."""
