"""TODO face of privacy.mechanisms."""

from privacy.mechanisms.choice import Choice, choose_mechanism, crossover_delta
from privacy.mechanisms.dirichlet import (
    DirichletClamp,
    DirichletPseudoCount,
    InfeasibleFloor,
    PairDelta,
    clamp_delta,
    dominating_delta,
    expected_distortion,
    largest_scale,
    pair_delta,
    smallest_floor,
)
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
    covering_scale,
    exact,
)
from privacy.mechanisms.laplace import (
    DiscreteLaplace,
    DiscreteLaplaceLaw,
    LatticeLaplace,
    LatticeLaplaceLaw,
)
from privacy.mechanisms.noisy_max import NoisyMax
from privacy.mechanisms.projection import project_to_simplex

__all__ = [
    "ApproximateEvent",
    "Choice",
    "ClampedDirichletEvent",
    "Cost",
    "DirichletClamp",
    "DirichletPseudoCount",
    "DiscreteGaussian",
    "DiscreteGaussianEvent",
    "DiscreteGaussianLaw",
    "DiscreteLaplace",
    "DiscreteLaplaceEvent",
    "DiscreteLaplaceLaw",
    "Event",
    "EventError",
    "InfeasibleFloor",
    "LatticeLaplace",
    "LatticeLaplaceEvent",
    "LatticeLaplaceLaw",
    "NoisyMax",
    "PairDelta",
    "PseudoCountDirichletEvent",
    "PureEvent",
    "choose_mechanism",
    "clamp_delta",
    "covering_scale",
    "crossover_delta",
    "dominating_delta",
    "exact",
    "expected_distortion",
    "largest_scale",
    "pair_delta",
    "project_to_simplex",
    "smallest_floor",
]
