"""Mechanisms: releases of private counts and scores, each with its event and its price.

For class counts call `choose_mechanism`; it picks `LatticeLaplace` or `DiscreteGaussian`, and
`privacy.project_to_simplex` turns noisy counts into proportions. `NoisyMax` releases the index of the best
score. `DiscreteLaplace` and the Dirichlet family are here for comparison. A ledger draws them all.

>>> choose_mechanism(5, epsilon=1.0, delta=1e-6).mechanism
LatticeLaplace(epsilon=1.0)
"""

from privacy.accounting import Cost, Event, EventError, covering_scale, exact
from privacy.mechanism import ApproximateEvent, PureEvent
from privacy.mechanisms.choice import Choice, choose_mechanism, crossover_delta
from privacy.mechanisms.dirichlet import (
    ClampedDirichletEvent,
    DirichletClamp,
    DirichletPseudoCount,
    PseudoCountDirichletEvent,
)
from privacy.mechanisms.dirichlet_pairs import (
    InfeasibleFloor,
    PairDelta,
    clamp_delta,
    dominating_delta,
    expected_distortion,
    largest_scale,
    pair_delta,
    smallest_floor,
)
from privacy.mechanisms.exact_law import ExactLaw
from privacy.mechanisms.gaussian import (
    DiscreteGaussian,
    DiscreteGaussianEvent,
    DiscreteGaussianLaw,
    analytic_gaussian_scale,
)
from privacy.mechanisms.kinds import COUNT_MECHANISMS
from privacy.mechanisms.laplace import (
    DiscreteLaplace,
    DiscreteLaplaceEvent,
    DiscreteLaplaceLaw,
)
from privacy.mechanisms.lattice_laplace import (
    LatticeLaplace,
    LatticeLaplaceEvent,
    LatticeLaplaceLaw,
)
from privacy.mechanisms.noisy_max import NoisyMax
from privacy.mechanisms.partial_sums import CountLaw, cumulative_noise

__all__ = [
    "COUNT_MECHANISMS", "ApproximateEvent", "Choice", "ClampedDirichletEvent", "Cost", "CountLaw",
    "DirichletClamp", "DirichletPseudoCount", "DiscreteGaussian", "DiscreteGaussianEvent",
    "DiscreteGaussianLaw", "DiscreteLaplace", "DiscreteLaplaceEvent", "DiscreteLaplaceLaw", "Event",
    "EventError", "ExactLaw", "InfeasibleFloor", "LatticeLaplace", "LatticeLaplaceEvent",
    "LatticeLaplaceLaw", "NoisyMax", "PairDelta", "PseudoCountDirichletEvent", "PureEvent",
    "analytic_gaussian_scale", "choose_mechanism", "clamp_delta", "covering_scale",
    "crossover_delta", "cumulative_noise", "dominating_delta", "exact", "expected_distortion",
    "largest_scale", "pair_delta", "smallest_floor",
]  # fmt: skip
