"""Class probabilities from other tasks: what they know, and what they must not."""

import numpy as np
import pandas as pd
import pytest

from learners import cross_fitted_probabilities


def campaign(seed=0, n=300, n_classes=3, apart=1.5):
    rng = np.random.default_rng(seed)
    truth = rng.integers(n_classes, size=n)
    features = apart * rng.normal(size=(n_classes, 5))[truth] + rng.normal(size=(n, 5))
    believed = np.full((n, n_classes), 0.3 / n_classes) + 0.7 * np.eye(n_classes)[truth]
    return features, believed, truth


def fitted(features, believed, seed=1, **given):
    return cross_fitted_probabilities(
        features, believed, rng=np.random.default_rng(seed), **given
    ).probabilities


def test_features_that_tell_the_classes_apart_do_so():
    features, believed, truth = campaign()
    assert np.mean(fitted(features, believed).argmax(axis=1) == truth) > 0.85


def test_a_tasks_probabilities_do_not_depend_on_its_own_soft_label():
    """Nor do those of the tasks in its fold: the deal looks at no label, so tasks share a fold or do not."""
    features, believed, _ = campaign()
    before = fitted(features, believed)
    for task in (0, 17):
        other = believed.copy()
        other[task] = np.roll(other[task], 1)
        moved = np.abs(fitted(features, other) - before).max(axis=1) > 1e-12
        assert not moved[task]
        assert moved.any()  # it teaches the models of the other folds


def test_every_probability_is_at_least_a_floor_and_rows_add_up_to_1():
    features, believed, _ = campaign(apart=30.0)
    found = fitted(features, believed)
    assert found.min() >= 1e-6 / 3
    np.testing.assert_allclose(found.sum(axis=1), 1.0)


def test_the_penalty_is_chosen_on_tasks_that_the_model_did_not_see():
    """Features that say nothing: on its own tasks the freest model predicts best, on others the simplest."""
    rng = np.random.default_rng(0)
    features, believed = rng.normal(size=(100, 30)), np.eye(2)[rng.integers(2, size=100)]
    found = cross_fitted_probabilities(features, believed, rng=rng)
    assert np.median(found.inverse_penalty) == 1e-4


def test_a_penalty_that_is_given_alone_is_not_judged_and_learns_the_same():
    """Where every fold would choose it: the deal is that of the same generator."""
    features, believed, _ = campaign()
    found = cross_fitted_probabilities(features, believed, rng=np.random.default_rng(1))
    (chosen,) = np.unique(found.inverse_penalty)
    again = fitted(features, believed, inverse_penalties=[chosen])
    assert again.tobytes() == found.probabilities.tobytes()
    assert fitted(features, believed, inverse_penalties=[1e-4]).tobytes() != again.tobytes()


@pytest.mark.refusal
@pytest.mark.parametrize("penalties", [[], [0.0], [0.1, -1.0], [np.inf], [np.nan]])
def test_penalties_that_no_model_has_are_refused(penalties):
    features, believed, _ = campaign()
    with pytest.raises(ValueError, match="inverse_penalties must be one or more numbers > 0, got"):
        fitted(features, believed, inverse_penalties=penalties)


def test_a_class_that_nobody_believes_in_stays_possible():
    features, believed, _ = campaign()
    found = fitted(features, np.column_stack([believed, np.zeros(len(believed))]))
    assert 0 < found[:, 3].max() < 1e-5


def test_tasks_of_one_class_alone_are_of_that_class():
    features, believed, _ = campaign()
    found = fitted(features, np.eye(2)[np.zeros(len(believed), dtype=int)])
    assert found[:, 0].min() > 0.999


def test_beliefs_too_flat_to_teach_a_class_leave_all_equally_likely():
    features, *_ = campaign()
    found = fitted(features[:20], np.full((20, 60), 1 / 60))
    np.testing.assert_allclose(found, 1 / 60)


def test_scaling_a_column_changes_nothing_but_the_rounding():
    features, believed, _ = campaign()
    scaled = features * np.array([1.0, 1e3, 1.0, 1e-3, 1.0]) + 5.0
    np.testing.assert_allclose(fitted(scaled, believed), fitted(features, believed), atol=0.02)


@pytest.mark.parametrize("factor", [1e-200, 1e200, 1e305])
def test_scaling_a_column_out_of_the_range_of_squares_changes_nothing_either(factor):
    features, believed, _ = campaign()
    scaled = features * np.array([1.0, factor, 1.0, 1.0, 1.0])
    np.testing.assert_allclose(fitted(scaled, believed), fitted(features, believed), atol=1e-9)


@pytest.mark.parametrize("width", [np.float16, np.float32])
def test_short_floats_are_worked_on_as_doubles(width):
    features, believed, _ = campaign()
    short = features.astype(width)
    found, expected = (fitted(one, believed) for one in (short, short.astype(np.float64)))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("constant", [1.0, 0.1, 5e200])
def test_a_feature_that_is_the_same_for_every_task_changes_nothing(constant):
    features, believed, _ = campaign()
    more = np.column_stack([features, np.full(len(features), constant)])
    np.testing.assert_allclose(fitted(more, believed), fitted(features, believed), atol=1e-9)


def test_the_same_seed_gives_the_same_bytes():
    features, believed, _ = campaign()
    assert fitted(features, believed).tobytes() == fitted(features, believed).tobytes()


@pytest.mark.refusal
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x, q: (x[1:], q, 5), "a row for each task"),
        (lambda x, q: (x[:, :0], q, 5), r"a column at least, got shapes \(300, 0\)"),
        (lambda x, q: (x, q[:, :0], 5), "a column at least"),
        (lambda x, q: (np.where(x > 0, np.nan, x), q, 5), "features must be finite"),
        (lambda x, q: (x, -q, 5), "believed must be finite and >= 0"),
        (lambda x, q: (x, q, 2), "n_folds must be from 3"),
        (lambda x, q: (x, q, 3.5), "n_folds must be from 3 to 300 tasks, got n_folds=3.5"),
        (lambda x, q: (x, q, 301), "n_folds must be from 3"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(change, message):
    features, believed, folds = change(*campaign()[:2])
    with pytest.raises(ValueError, match=message):
        fitted(features, believed, n_folds=folds)


def test_the_soft_label_of_a_task_that_is_not_taught_plays_no_part():
    rng = np.random.default_rng(0)
    truth = rng.integers(2, size=200)
    features = 2 * truth[:, None] + rng.normal(size=(200, 3))
    taught = np.arange(200) % 4 > 0
    believed = np.eye(2)[truth]
    other = np.where(taught[:, None], believed, np.eye(2)[1 - truth])
    one, two = (
        cross_fitted_probabilities(features, soft, rng=np.random.default_rng(0), taught=taught)
        for soft in (believed, other)
    )
    assert one.probabilities.tobytes() == two.probabilities.tobytes()
    for part in (taught, ~taught):  # both come from models of other tasks
        assert np.mean(one.probabilities.argmax(axis=1)[part] == truth[part]) > 0.7
    whole = [
        cross_fitted_probabilities(features, believed, rng=np.random.default_rng(0), taught=all_of)
        for all_of in (None, np.ones(200, dtype=np.bool_))
    ]
    assert whole[0].probabilities.tobytes() == whole[1].probabilities.tobytes()


@pytest.mark.refusal
@pytest.mark.parametrize(
    ("taught", "message"),
    [
        (np.ones(19, dtype=np.bool_), "taught must be 20 truth values"),
        (np.ones(20, dtype=np.int64), "taught must be 20 truth values"),
        (np.arange(20) < 4, "from 3 to 4 tasks"),
    ],
)
def test_tasks_to_learn_from_are_counted(taught, message):
    features, believed = np.arange(20.0)[:, None], np.eye(2)[[0, 1] * 10]
    with pytest.raises(ValueError, match=message):
        cross_fitted_probabilities(features, believed, rng=np.random.default_rng(0), taught=taught)


@pytest.mark.refusal
def test_data_frames_and_lists_are_learned_from_like_arrays():
    features, believed, _ = campaign(n=60)
    taught = np.arange(60) > 5
    expected = fitted(features, believed, taught=taught)
    for kind in (pd.DataFrame, np.ndarray.tolist):
        found = fitted(kind(features), kind(believed), taught=taught.tolist())
        np.testing.assert_allclose(found, expected, rtol=1e-9)
    with pytest.raises(ValueError, match="believed must be numbers, as many in each row"):
        fitted(features, believed.astype(str))
