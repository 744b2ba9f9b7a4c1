"""A mechanism is one payment however its numbers are written: as doubles, whole numbers or NumPy's."""

from dataclasses import fields

import numpy as np
import pytest

from learners.holdout.candidate_gate import CandidateGate
from learners.private import (
    DeflatedDirections,
    GaussianObjectivePerturbation,
    NoisyGradientDescent,
    NoisyMoments,
    ObjectivePerturbation,
    OutputPerturbation,
    PrincipalSubspace,
    moments_query,
)
from learners.private.objective_perturbation import training_query
from learners.selection.histogram_width import HistogramValidation, histogram_query
from learners.selection.per_candidate import PerWidthValidation
from learners.selection.repetition import RandomRepetition
from learners.selection.rivals import RandomSelection, SplitBudgetSelection, SplitDataSelection
from learners.selection.scored_training import ScoredTraining
from learners.selection.stability import StabilityValidation
from privacy import DiscreteGaussian, DiscreteLaplace, LatticeLaplace, NoisyMax, Query, Unit
from privacy.corrections import LatticeCorrection
from privacy.ledger.releasing import request_of
from privacy.mechanisms import DirichletPseudoCount
from privacy.subjects import GroupPrivacy, JointLatticeLaplace

SPLIT = np.arange(12) % 4 == 0
ROWS = training_query(
    np.arange(24.0).reshape(12, 2) / 24, np.arange(12) % 2, dataset="toy", validation=SPLIT
)
VALUES = histogram_query(np.arange(12.0), SPLIT, dataset="toy")
MOMENTS = moments_query(np.eye(4), norm_bound=2.0, dataset="toy")
COUNTS = Query("toy", "counts", np.array([3, 1]), Unit.SUBJECT, n=4, l1=2.0)
JOINT = Query("toy", "counts", np.array([[3, 1]]), Unit.SUBJECT, n=4, l1=2.0)
GOLD = Query(
    "toy", "gold", {"difference": np.array([1, -1]), "right": np.array([3, 1])}, Unit.ROW, 4, 4.0
)
STABILITY = StabilityValidation((1.0, 2.0), 1.0, 2.0, 1.0, 2)
HISTOGRAM = HistogramValidation((2, 4), 1.0, 2.0, 0.0, 16.0)
MECHANISMS = [
    (LatticeLaplace(1.0), COUNTS),
    (DiscreteLaplace(1.0), COUNTS),
    (DiscreteGaussian(1.0, 1e-3), COUNTS),
    (DirichletPseudoCount(1.0, 0.05, 50), COUNTS),
    (NoisyMax(1.0, 2.0), COUNTS),
    (JointLatticeLaplace(1.0), JOINT),
    (LatticeCorrection(1.0), GOLD),
    (GroupPrivacy(LatticeLaplace(1.0), 3, 3.0), COUNTS),
    (ObjectivePerturbation(1.0, 1.0, 2.0, 2), ROWS),
    (OutputPerturbation(1.0, 1.0, 2.0, 2), ROWS),
    (GaussianObjectivePerturbation(1.0, 1e-3, 1.0, 2.0, 2), ROWS),
    (NoisyGradientDescent(1.0, 1e-3, 2.0, 2), ROWS),
    (NoisyMoments(1.0, 1e-3, 2), MOMENTS),
    (PrincipalSubspace(1.0, 2), MOMENTS),
    (DeflatedDirections(1.0, 3), MOMENTS),
    (STABILITY, ROWS),
    (HISTOGRAM, VALUES),
    (PerWidthValidation(HISTOGRAM), VALUES),
    (RandomRepetition((1.0, 2.0), 3.0, 4, 1.0, 2), ROWS),
    (RandomSelection((1.0, 2.0), 3.0, 1.0, 2), ROWS),
    (SplitBudgetSelection((1.0, 2.0), 3.0, 1.0, 2), ROWS),
    (SplitDataSelection((1.0, 2.0), 3.0, 1.0, 2), ROWS),
    (ScoredTraining(STABILITY, 1.0), ROWS),
    (CandidateGate(10, 2, 1.0, deviations=3.0), ROWS),
]


def rewritten(knob, number):
    """The same knobs, each number written by `number`, nested ones too."""
    if isinstance(knob, tuple):
        return tuple(rewritten(one, number) for one in knob)
    if hasattr(knob, "__dataclass_fields__"):
        return type(knob)(
            **{one.name: rewritten(getattr(knob, one.name), number) for one in fields(knob)}
        )
    return number(knob) if isinstance(knob, int | float) else knob


def whole(number):
    """A double without a fraction as an integer."""
    return int(number) if number == int(number) else number


def numpys(number):
    """The same number of NumPy's."""
    return np.asarray(number)[()]


@pytest.mark.refusal
@pytest.mark.parametrize("written", [whole, numpys])
@pytest.mark.parametrize(
    ("mechanism", "query"), MECHANISMS, ids=[type(one).__name__ for one, _ in MECHANISMS]
)
def test_a_mechanism_is_one_payment_however_its_numbers_are_written(mechanism, query, written):
    other = rewritten(mechanism, written)
    asked, again = (request_of(one, query, key=bytes(32)) for one in (mechanism, other))
    assert asked.fingerprint == again.fingerprint
