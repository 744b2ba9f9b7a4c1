"""What leaves, and at what price: queries, mechanisms, and the ledger, the only door to noise."""

from privacy.accounting.account import fits
from privacy.accounting.composition import Composition, compose
from privacy.accounting.plans import PlanEvent, PlannedEvent, plan, slots_left
from privacy.audit import AuditBound, DirichletLaw, Law, audit_losses, audit_pair
from privacy.counts import CountsError, class_counts, count_queries
from privacy.ledger.importing import import_ledger
from privacy.ledger.ledger import BudgetError, Ledger, LedgerError, PlanError, Release
from privacy.ledger.statement import Entry, PlanUse, Statement
from privacy.mechanism import Interaction, Json, Mechanism, Noise, Question
from privacy.mechanisms.choice import Choice, choose_mechanism, crossover_delta
from privacy.mechanisms.dirichlet import (
    InfeasibleFloor,
    dominating_delta,
    largest_scale,
    smallest_floor,
)
from privacy.mechanisms.dirichlet_pair import (
    PairDelta,
    clamp_delta,
    expected_distortion,
    pair_delta,
)
from privacy.mechanisms.discrete_laplace import DiscreteLaplace, DiscreteLaplaceLaw
from privacy.mechanisms.gaussian import DiscreteGaussian, DiscreteGaussianLaw
from privacy.mechanisms.kinds import (
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
from privacy.mechanisms.laplace import LatticeLaplace, LatticeLaplaceLaw
from privacy.mechanisms.noisy_max import NoisyMax
from privacy.mechanisms.projection import project_to_simplex
from privacy.mechanisms.pseudo_count import DirichletPseudoCount
from privacy.mechanisms.urn import DirichletClamp
from privacy.query import Part, Query, Unit, UnitError, partition_of
from privacy.trial import Auditable, audit_mechanism

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
