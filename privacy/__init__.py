"""What leaves, and at what price: queries, mechanisms, and the ledger, the only door to noise."""

from privacy.account import fits
from privacy.audit import AuditBound, DirichletLaw, Law, audit_losses, audit_pair
from privacy.choice import Choice, choose_mechanism, crossover_delta
from privacy.composition import Composition, compose
from privacy.counts import CountsError, class_counts, count_queries
from privacy.dirichlet import InfeasibleFloor, dominating_delta, largest_scale, smallest_floor
from privacy.dirichlet_pair import PairDelta, clamp_delta, expected_distortion, pair_delta
from privacy.discrete_gaussian import DiscreteGaussian, DiscreteGaussianLaw
from privacy.discrete_laplace import DiscreteLaplace, DiscreteLaplaceLaw
from privacy.events import (
    ApproximateEvent,
    ClampedDirichletEvent,
    Cost,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    Event,
    EventError,
    LatticeLaplaceEvent,
    PseudoCountDirichletEvent,
    PureEvent,
)
from privacy.importing import import_ledger
from privacy.lattice_laplace import LatticeLaplace, LatticeLaplaceLaw
from privacy.ledger import BudgetError, Ledger, LedgerError, PlanError, Release
from privacy.mechanisms import Interaction, Json, Mechanism, Noise, Question
from privacy.noisy_max import NoisyMax
from privacy.planned import PlanEvent, PlannedEvent, plan, slots_left
from privacy.projection import project_to_simplex
from privacy.pseudo_count import DirichletPseudoCount
from privacy.queries import Part, Query, Unit, UnitError, partition_of
from privacy.statement import Entry, PlanUse, Statement
from privacy.trial import Auditable, audit_mechanism
from privacy.urn import DirichletClamp

__all__ = [
    "ApproximateEvent",
    "AuditBound",
    "Auditable",
    "BudgetError",
    "Choice",
    "ClampedDirichletEvent",
    "Composition",
    "Cost",
    "CountsError",
    "DirichletClamp",
    "DirichletLaw",
    "DirichletPseudoCount",
    "DiscreteGaussian",
    "DiscreteGaussianEvent",
    "DiscreteGaussianLaw",
    "DiscreteLaplace",
    "DiscreteLaplaceEvent",
    "DiscreteLaplaceLaw",
    "Entry",
    "Event",
    "EventError",
    "InfeasibleFloor",
    "Interaction",
    "Json",
    "LatticeLaplace",
    "LatticeLaplaceEvent",
    "LatticeLaplaceLaw",
    "Law",
    "Ledger",
    "LedgerError",
    "Mechanism",
    "Noise",
    "NoisyMax",
    "PairDelta",
    "Part",
    "PlanError",
    "PlanEvent",
    "PlanUse",
    "PlannedEvent",
    "PseudoCountDirichletEvent",
    "PureEvent",
    "Query",
    "Question",
    "Release",
    "Statement",
    "Unit",
    "UnitError",
    "audit_losses",
    "audit_mechanism",
    "audit_pair",
    "choose_mechanism",
    "clamp_delta",
    "class_counts",
    "compose",
    "count_queries",
    "crossover_delta",
    "dominating_delta",
    "expected_distortion",
    "fits",
    "import_ledger",
    "largest_scale",
    "pair_delta",
    "partition_of",
    "plan",
    "project_to_simplex",
    "slots_left",
    "smallest_floor",
]
