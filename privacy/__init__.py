"""What leaves, and at what price: queries, mechanisms, and the ledger, the only door to noise."""

from privacy.counts import CountsError, class_counts
from privacy.discrete_laplace import DiscreteLaplace, DiscreteLaplaceLaw
from privacy.events import (
    Cost,
    DiscreteLaplaceEvent,
    Event,
    EventError,
    LatticeLaplaceEvent,
    PureEvent,
)
from privacy.lattice_laplace import LatticeLaplace, LatticeLaplaceLaw
from privacy.ledger import BudgetError, Ledger, LedgerError, Release
from privacy.mechanisms import Interaction, Json, Mechanism, Noise, Question
from privacy.projection import project_to_simplex
from privacy.queries import Part, Query, Unit, UnitError, partition_of
from privacy.statement import Entry, Statement

__all__ = [
    "BudgetError",
    "Cost",
    "CountsError",
    "DiscreteLaplace",
    "DiscreteLaplaceEvent",
    "DiscreteLaplaceLaw",
    "Entry",
    "Event",
    "EventError",
    "Interaction",
    "Json",
    "LatticeLaplace",
    "LatticeLaplaceEvent",
    "LatticeLaplaceLaw",
    "Ledger",
    "LedgerError",
    "Mechanism",
    "Noise",
    "Part",
    "PureEvent",
    "Query",
    "Question",
    "Release",
    "Statement",
    "Unit",
    "UnitError",
    "class_counts",
    "partition_of",
    "project_to_simplex",
]
