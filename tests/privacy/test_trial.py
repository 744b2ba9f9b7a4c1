"""Mechanisms on trial by their real draws: the sound ones stand, each mutant is caught.

The noise is the operating system's, so nothing is seeded. Sound: a level of 1 - 1e-7 bounds the
chance of a false refutation. Mutants: the numbers of draws leave a chance below 1e-6 to escape,
by the hits that the mutant's law makes likely.
"""

from dataclasses import dataclass

import numpy as np
import pytest
from scipy import stats

from privacy.audit import Auditable, audit_losses, audit_mechanism
from privacy.mechanisms.dirichlet import DirichletClamp, DirichletPseudoCount
from privacy.mechanisms.gaussian import DiscreteGaussian
from privacy.mechanisms.laplace import DiscreteLaplace, LatticeLaplace

SURE = 1 - 1e-7
COUNTS = (3, 3, 3)


@pytest.mark.parametrize(
    ("mechanism", "counts", "draws"),
    [
        (LatticeLaplace(1.0), COUNTS, 4000),
        (DiscreteLaplace(1.0), COUNTS, 4000),
        (DiscreteGaussian(0.5, 0.01), COUNTS, 4000),
        (DirichletClamp(1.0, 0.04, floor=10), (11, 10), 300),
        (DirichletPseudoCount(1.0, 0.04, pseudo_count=10), (1, 0), 300),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_sound_mechanism_is_not_refuted(mechanism, counts, draws):
    bound = audit_mechanism(mechanism, counts, draws=draws, level=SURE)
    assert not bound.refutes(getattr(mechanism, "delta", 0.0))
    assert bound.least_epsilon(getattr(mechanism, "delta", 0.0)) <= mechanism.epsilon


@dataclass(frozen=True)
class Mutant:
    """Draws otherwise than it claims."""

    claimed: Auditable

    @property
    def epsilon(self):
        return self.claimed.epsilon

    def event(self, query):
        return self.claimed.event(query)

    def log_likelihood(self, query, releases):
        return self.claimed.log_likelihood(query, releases)

    def draw(self, query, noise):
        raise NotImplementedError


class HalfTheNoise(Mutant):
    def draw(self, query, noise):
        return LatticeLaplace(2 * self.epsilon).draw(query, noise)


class OneNoiseForAllClasses(Mutant):
    def draw(self, query, noise):
        (shared,) = noise.discrete_laplace(2 / self.epsilon, 1)
        return [int(count) + shared for count in query.value]


class OneClassWithoutNoise(Mutant):
    def draw(self, query, noise):
        drawn = noise.discrete_laplace(2 / self.epsilon, query.value.size)
        return [
            int(query.value[0]),
            *(int(c) + z for c, z in zip(query.value[1:], drawn[1:], strict=True)),
        ]


class NegativesRedrawn(Mutant):
    """Drawn again until no count is negative, which makes zero likelier where a count is near it.

    P(no task moves): 0.414 from (5, 0), 0.206 from (4, 1); epsilon is 0.5, their ratio e^0.70.
    """

    def draw(self, query, noise):
        while True:
            drawn = self.claimed.draw(query, noise)
            if min(drawn) >= 0:
                return drawn


@pytest.mark.parametrize(
    ("mutant", "counts", "draws"),
    [
        (HalfTheNoise(LatticeLaplace(1.0)), COUNTS, 1500),
        (OneNoiseForAllClasses(DiscreteLaplace(1.0)), COUNTS, 1500),
        (OneClassWithoutNoise(DiscreteLaplace(1.0)), COUNTS, 1500),
        pytest.param(NegativesRedrawn(LatticeLaplace(0.5)), (5, 0), 16_000, marks=pytest.mark.slow),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_mutant_is_caught(mutant, counts, draws):
    bound = audit_mechanism(mutant, counts, draws=draws)
    assert bound.refutes(getattr(mutant.claimed, "delta", 0.0))


def test_the_least_epsilon_of_known_shares():
    """Clopper-Pearson by SciPy: 90 of 100 against 10 of 100."""
    loss = np.array([1.0] * 90 + [-1.0] * 10)
    bound = audit_losses(loss, -loss, epsilon=0.5, level=0.9)
    low = stats.binomtest(90, 100).proportion_ci(0.9, method="exact").low
    high = stats.binomtest(10, 100).proportion_ci(0.9, method="exact").high
    assert bound.least_epsilon() == pytest.approx(np.log(low / high), rel=1e-9)
    assert bound.least_epsilon(delta=1.0) == 0.0


@pytest.mark.refusal
def test_what_cannot_be_tried_is_refused():
    with pytest.raises(TypeError, match="mechanism must be auditable"):
        audit_mechanism("lattice", COUNTS)
    with pytest.raises(ValueError, match="counts must be of 2 classes or more"):
        audit_mechanism(LatticeLaplace(1.0), (0, 3))
    with pytest.raises(ValueError, match="delta must be < 1/n"):
        audit_mechanism(DiscreteGaussian(0.5, 0.05), (10, 10, 10))
