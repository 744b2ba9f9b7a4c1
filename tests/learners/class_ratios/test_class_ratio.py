import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from learners import ClassRatioEstimator, KernelMatching, learn_ratios

NOISE = np.tile([[1e-3, -1e-3], [-1e-3, 1e-3]], (4, 1, 1))


def two_class_bags():
    """Four bags of two classes with their own proportions, and one of a hundred points to ask about."""
    rng = np.random.default_rng(3)
    points, share = rng.normal(size=(4, 60, 2)), np.array([0.2, 0.4, 0.6, 0.8])
    for bag, part in zip(points, share, strict=True):
        bag[: round(60 * part)] += 3
    return list(points), np.column_stack([1 - share, share]), rng.normal(size=(100, 2))


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"bandwidth": 0.7},
        {"level": 0.5, "methods": (KernelMatching(),), "classes": ("no", "yes")},
    ],
)
def test_the_answers_are_those_of_learn_ratios_to_the_byte(parameters):
    bags, proportions, unlabelled = two_class_bags()
    estimator = ClassRatioEstimator(**parameters).fit(bags, proportions, noise=NOISE)
    model = learn_ratios(bags, proportions, noise=NOISE, **parameters)
    answer, plain = estimator.predict(unlabelled), model.ratio(unlabelled)
    assert answer.ratio.tobytes() == plain.ratio.tobytes()
    assert answer.interval.tobytes() == plain.interval.tobytes()
    assert (answer.level, answer.bandwidth, answer.method) == (
        plain.level, plain.bandwidth, plain.method,
    )  # fmt: skip
    assert answer.diagnostics.warnings == plain.diagnostics.warnings
    assert estimator.method_.name == model.method.name
    assert [one.mean_error for one in estimator.trials_] == [one.mean_error for one in model.trials]
    assert estimator.n_features_in_ == 2


def test_parameters_are_scikit_learns():
    estimator = ClassRatioEstimator(level=0.8, bandwidth=2.0)
    assert estimator.get_params() == {
        "level": 0.8,
        "bandwidth": 2.0,
        "methods": None,
        "classes": None,
    }
    assert clone(estimator).get_params() == estimator.get_params()
    assert ClassRatioEstimator().set_params(level=0.5).level == 0.5


def test_an_estimator_that_has_learned_nothing_says_so():
    with pytest.raises(NotFittedError, match="not fitted yet"):
        ClassRatioEstimator().predict(np.zeros((3, 2)))
