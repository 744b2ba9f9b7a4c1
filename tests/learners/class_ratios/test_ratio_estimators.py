import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from learners import (
    ClassRatioEstimator,
    KernelMatching,
    StreamedRatioEstimator,
    learn_ratios,
    learn_streamed_ratios,
)

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


BLOCK_SHARES = np.array([[0.8, 0.2], [0.6, 0.4], [0.4, 0.6], [0.2, 0.8]])
NOISE = np.tile([[1e-3, -1e-3], [-1e-3, 1e-3]], (4, 1, 1))


def bags_of_blocks():
    """Four bags of two classes as blocks of twenty rows, and two to ask about."""
    rng = np.random.default_rng(3)
    bags = rng.normal(size=(4, 60, 2))
    for bag, share in zip(bags, BLOCK_SHARES[:, 1], strict=True):
        bag[: round(60 * share)] += 3
    return [np.split(bag, 3) for bag in bags], [[rng.normal(size=(50, 2))] for _ in range(2)]


def test_the_answers_are_those_of_learn_streamed_ratios_to_the_byte():
    bags, new = bags_of_blocks()
    estimator = StreamedRatioEstimator(level=0.8, classes=("no", "yes"))
    estimator.fit(bags, BLOCK_SHARES, noise=NOISE)
    model = learn_streamed_ratios(bags, BLOCK_SHARES, noise=NOISE, level=0.8, classes=("no", "yes"))
    plain = model.ratios(new)
    for answers in (estimator.predict_all(new), [estimator.predict(bag) for bag in new]):
        for answer, expected in zip(answers, plain, strict=True):
            assert answer.ratio.tobytes() == expected.ratio.tobytes()
            assert answer.interval.tobytes() == expected.interval.tobytes()
            assert (answer.level, answer.bandwidth) == (0.8, model.bandwidth)
            assert answer.diagnostics.warnings == expected.diagnostics.warnings
    assert estimator.trial_.mean_error == model.trial.mean_error
    assert estimator.n_features_in_ == 2


def test_parameters_of_the_streamed_estimator_are_scikit_learns():
    estimator = StreamedRatioEstimator(level=0.8)
    assert estimator.get_params() == {"level": 0.8, "classes": None}
    assert clone(estimator).get_params() == estimator.get_params()
    assert StreamedRatioEstimator().set_params(level=0.5).level == 0.5


def test_a_streamed_estimator_that_has_learned_nothing_says_so():
    bag = [np.zeros((3, 2))]
    with pytest.raises(NotFittedError, match="not fitted yet"):
        StreamedRatioEstimator().predict(bag)
    with pytest.raises(NotFittedError, match="not fitted yet"):
        StreamedRatioEstimator().predict_all([bag])
