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


def framed(bags):
    pandas = pytest.importorskip("pandas")
    return [pandas.DataFrame(bag, columns=["age", "size"]) for bag in bags]


@pytest.mark.refusal
def test_columns_of_data_frames_are_known_by_name_and_order():
    bags, proportions, unlabelled = two_class_bags()
    frames, (new,) = framed(bags), framed([unlabelled])
    estimator = ClassRatioEstimator(bandwidth=1.0).fit(frames, proportions)
    assert estimator.feature_names_in_.tolist() == ["age", "size"]
    assert estimator.predict(new).ratio.tobytes() == estimator.predict(unlabelled).ratio.tobytes()
    with pytest.raises(ValueError, match="same columns in the same order"):
        estimator.predict(new[["size", "age"]])
    with pytest.raises(ValueError, match="same columns in the same order"):
        ClassRatioEstimator(bandwidth=1.0).fit(
            [*frames[:3], frames[3][["size", "age"]]], proportions
        )
    assert not hasattr(
        ClassRatioEstimator(bandwidth=1.0).fit(bags, proportions), "feature_names_in_"
    )


@pytest.mark.refusal
def test_columns_of_streamed_data_frames_are_known_by_name_and_order():
    bags, proportions, unlabelled = two_class_bags()
    frames, (new,) = framed(bags), framed([unlabelled])
    halves = [[frame[:30], frame[30:]] for frame in frames]
    estimator = StreamedRatioEstimator().fit(halves, proportions)
    assert estimator.feature_names_in_.tolist() == ["age", "size"]
    assert (
        estimator.predict([new]).ratio.tobytes() == estimator.predict([unlabelled]).ratio.tobytes()
    )
    for wrong in ([new[:50], new[50:][["size", "age"]]], [new[["size", "age"]]]):
        with pytest.raises(ValueError, match="same columns in the same order"):
            estimator.predict(wrong)
    with pytest.raises(ValueError, match="same columns in the same order"):
        StreamedRatioEstimator().fit([*halves[:3], [frames[3][["size", "age"]]]], proportions)


@pytest.mark.refusal
def test_sparse_bags_and_a_matrix_in_place_of_blocks_are_refused_in_one_sentence():
    sparse = pytest.importorskip("scipy.sparse")
    bags, proportions, unlabelled = two_class_bags()
    with pytest.raises(ValueError, match="bag 1 must be dense, got a csr_array"):
        ClassRatioEstimator().fit([bags[0], *map(sparse.csr_array, bags[1:])], proportions)
    with pytest.raises(ValueError, match="bag must be dense, got a csr_array"):
        ClassRatioEstimator(bandwidth=1.0).fit(bags, proportions).predict(
            sparse.csr_array(unlabelled)
        )
    with pytest.raises(ValueError, match="bag 0 must be blocks of rows, got one matrix"):
        StreamedRatioEstimator().fit(bags, proportions)
    streamed = StreamedRatioEstimator().fit([[bag] for bag in bags], proportions)
    with pytest.raises(ValueError, match="must be blocks of rows, got one matrix"):
        streamed.predict(unlabelled)
    with pytest.raises(ValueError, match="a block must be dense"):
        streamed.predict([sparse.csr_array(unlabelled)])
