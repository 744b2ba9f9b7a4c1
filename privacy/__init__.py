"""Differential privacy: queries, mechanisms, and the ledger, the only door to noise.

A `Query` holds an exact private statistic. A mechanism such as `LatticeLaplace` defines how it is released
and at which price. A `Ledger` books the price, draws, and stores the `Release`.

>>> import numpy as np
>>> query = Query("toy", "class counts", np.array([3, 1]), Unit.CONSENSUS_LABEL, n=4, l1=2.0)
>>> float(LatticeLaplace(epsilon=0.5).event(query).cost().epsilon)
0.5
"""

from privacy.accounting import Composition, PlanEvent, PlannedEvent, compose, fits, plan, slots_left
from privacy.audit import (
    Auditable,
    AuditBound,
    DirichletLaw,
    Law,
    audit_losses,
    audit_mechanism,
    audit_pair,
    draw_releases,
)
from privacy.corrections import LatticeCorrection, gold_corrections
from privacy.counts import class_counts, count_queries, project_to_simplex, win_points
from privacy.label_sets import bounded_labels, label_set_counts
from privacy.ledger import (
    BudgetError,
    Entry,
    Head,
    Ledger,
    LedgerError,
    PlanError,
    PlanUse,
    Release,
    Statement,
)
from privacy.mechanism import History, Interaction, Json, Mechanism, Noise, Question
from privacy.mechanisms import (
    ApproximateEvent,
    Choice,
    ClampedDirichletEvent,
    Cost,
    DirichletClamp,
    DirichletPseudoCount,
    DiscreteGaussian,
    DiscreteGaussianEvent,
    DiscreteGaussianLaw,
    DiscreteLaplace,
    DiscreteLaplaceEvent,
    DiscreteLaplaceLaw,
    Event,
    EventError,
    InfeasibleFloor,
    LatticeLaplace,
    LatticeLaplaceEvent,
    LatticeLaplaceLaw,
    NoisyMax,
    PairDelta,
    PseudoCountDirichletEvent,
    PureEvent,
    choose_mechanism,
    clamp_delta,
    crossover_delta,
    cumulative_noise,
    dominating_delta,
    expected_distortion,
    largest_scale,
    pair_delta,
    smallest_floor,
)
from privacy.query import CountsError, Part, Publication, Query, Unit, UnitError, partition_of
from privacy.release_audit import audit_releases
from privacy.subjects import (
    GroupInteraction,
    GroupPrivacy,
    JointLatticeLaplace,
    bounded_tasks,
    subject_counts,
)

__all__ = [
    "ApproximateEvent", "AuditBound", "Auditable", "BudgetError", "Choice", "ClampedDirichletEvent",
    "Composition", "Cost", "CountsError", "DirichletClamp", "DirichletLaw", "DirichletPseudoCount",
    "DiscreteGaussian", "DiscreteGaussianEvent", "DiscreteGaussianLaw", "DiscreteLaplace",
    "DiscreteLaplaceEvent", "DiscreteLaplaceLaw", "Entry", "Event", "EventError",
    "GroupInteraction", "GroupPrivacy", "Head", "History", "InfeasibleFloor", "Interaction",
    "JointLatticeLaplace", "Json", "LatticeCorrection", "LatticeLaplace", "LatticeLaplaceEvent",
    "LatticeLaplaceLaw", "Law", "Ledger", "LedgerError", "Mechanism", "Noise", "NoisyMax",
    "PairDelta", "Part", "PlanError", "PlanEvent", "PlanUse", "PlannedEvent",
    "PseudoCountDirichletEvent", "Publication", "PureEvent", "Query", "Question", "Release",
    "Statement", "Unit", "UnitError", "audit_losses", "audit_mechanism", "audit_pair",
    "audit_releases", "bounded_labels", "bounded_tasks", "choose_mechanism", "clamp_delta",
    "class_counts", "compose", "count_queries", "crossover_delta", "cumulative_noise",
    "dominating_delta", "draw_releases", "expected_distortion", "fits", "gold_corrections",
    "label_set_counts", "largest_scale", "pair_delta", "partition_of", "plan", "project_to_simplex",
    "slots_left", "smallest_floor", "subject_counts", "win_points",
]  # fmt: skip
