import math
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from learners.private.linear_model import LinearModel, Signs, fit_linear
from learners.private.logistic_minimum import clipped, lift


def blobs(rng, n=60, d=3, n_classes=2):
    y = rng.integers(n_classes, size=n)
    x = rng.normal(size=(n, d)) + 1.5 * np.eye(max(n_classes, d))[y, :d]
    return x, y


@pytest.mark.parametrize("n_classes", [2, 3])
def test_scikit_learn_finds_the_same_weights_on_the_lifted_rows(rng, n_classes):
    """Oracle: no intercept of its own, since the lifted row carries a regularised one."""
    x, y = blobs(rng, n_classes=n_classes)
    model = fit_linear(x, y, regularization=0.05, norm_bound=2.0, n_classes=n_classes)
    for coef, sign in zip(model.coef, Signs(y, n_classes), strict=True):
        peer = LogisticRegression(C=1 / (0.05 * len(x)), fit_intercept=False, tol=1e-10)
        peer.fit(lift(x, 2.0), sign)
        scale = np.array([2.0, 2.0, 2.0, 1.0]) * math.sqrt(2)
        assert coef * scale == pytest.approx(peer.coef_[0], abs=1e-6)


def test_the_intercept_is_regularised(rng):
    """With one class only, an unregularised intercept would run to infinity.

    diffprivlib leaves it out of the regulariser, where the proof does not hold.
    """
    x = rng.normal(size=(50, 2))
    weak, strong = (
        fit_linear(x, np.ones(50, int), regularization=lam, norm_bound=1.0, n_classes=2).coef[0, -1]
        for lam in (0.01, 100.0)
    )
    assert 0 < strong < 0.01 < 1 < weak < 100


def test_rows_and_bound_in_another_unit_give_the_same_model_in_that_unit(rng):
    x, y = blobs(rng)
    knobs = {"regularization": 0.1, "n_classes": 2}
    metres = fit_linear(x, y, norm_bound=2.0, **knobs)
    millimetres = fit_linear(1000 * x, y, norm_bound=2000.0, **knobs)
    assert 1000 * millimetres.coef[:, :-1] == pytest.approx(metres.coef[:, :-1])
    assert millimetres.coef[:, -1] == pytest.approx(metres.coef[:, -1])


@settings(max_examples=50, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10**6), log_size=st.floats(-200, 200), log_bound=st.floats(-3, 3))
def test_a_lifted_row_has_norm_at_most_one(seed, log_size, log_bound):
    x = 10**log_size * np.random.default_rng(seed).normal(size=(5, 3))
    row = lift(x, 10**log_bound)
    assert (np.linalg.norm(row, axis=1) <= 1 + 1e-15).all()
    assert row[:, -1] == pytest.approx(np.full(5, math.sqrt(0.5)))


@pytest.mark.parametrize(
    ("size", "norm_bound"), [(1e300, 1e-100), (1.5e308, 1e-3), (1.2e308, 1.5e308)]
)
def test_rows_and_bounds_of_any_size_are_clipped_to_the_bound(size, norm_bound):
    """The ratio of row and bound, or the bound's root of 2, may be no double: neither is a row of 0."""
    x = size * np.array([[1.0, 0.0], [0.6, -0.8], [0.0, 0.0]])
    kept = min(1.0, size / norm_bound) * x / size
    np.testing.assert_allclose(lift(x, norm_bound)[:, :-1], kept / math.sqrt(2.0), atol=1e-15)
    np.testing.assert_allclose(clipped(x, norm_bound) / norm_bound, kept, atol=1e-15)


@pytest.mark.parametrize("other", [1e200, math.nan])
def test_no_row_decides_how_others_are_clipped_or_judged(rng, other):
    """The price of a count of right rows is that of one row, also where all lie on a model's boundary."""
    for _ in range(50):
        row, weight = rng.normal(size=(2, 4))
        rows = np.vstack([np.repeat(row[None], 9, axis=0), np.zeros(4)])
        neighbour = np.vstack([rows[:-1], np.full(4, other)])
        for whole in (lift, clipped):
            assert whole(neighbour, 3.0)[:-1].tobytes() == whole(rows, 3.0)[:-1].tobytes()
        model = LinearModel(np.array([[*weight, -(row @ weight)]]), norm_bound=3.0)
        assert (model.predict(neighbour) == model.predict(rows))[:-1].all()


def test_a_row_within_the_bound_is_only_rescaled():
    assert lift(np.array([[0.3, -0.4]]), 2.0) * math.sqrt(2) == pytest.approx(
        np.array([[0.15, -0.2, 1.0]])
    )


@pytest.mark.parametrize("problems", [1, 3, 4])
def test_probabilities_sum_to_one_and_their_highest_is_predicted(rng, problems):
    model = LinearModel(rng.normal(size=(problems, 5)), norm_bound=3.0)
    x = rng.normal(size=(100, 4))
    probability = model.predict_proba(x)
    assert probability.shape == (100, max(2, problems))
    assert probability.sum(axis=1) == pytest.approx(np.ones(100))
    assert (model.predict(x) == probability.argmax(axis=1)).all()


def test_probabilities_are_the_sigmoids_divided_by_their_sum(rng):
    coef, x = rng.normal(size=(3, 3)), rng.normal(size=(10, 2)) / 10
    sigmoid = 1 / (1 + np.exp(-(x @ coef[:, :-1].T + coef[:, -1])))
    expected = sigmoid / sigmoid.sum(axis=1, keepdims=True)
    assert LinearModel(coef, norm_bound=10.0).predict_proba(x) == pytest.approx(expected)


def test_probabilities_stay_finite_where_every_sigmoid_underflows():
    model = LinearModel(np.array([[0.0, -1e4], [0.0, -2e4], [0.0, -3e4]]), norm_bound=1.0)
    assert model.predict_proba(np.zeros((1, 1))).tolist() == [[1.0, 0.0, 0.0]]


def test_ties_go_to_the_lower_code():
    x = np.zeros((1, 1))
    assert LinearModel(np.zeros((1, 2)), norm_bound=1.0).predict(x).tolist() == [0]
    assert LinearModel(np.zeros((3, 2)), norm_bound=1.0).predict(x).tolist() == [0]


def test_a_row_beyond_the_bound_is_judged_as_its_clipped_copy(rng):
    model = LinearModel(rng.normal(size=(3, 3)), norm_bound=1.0)
    x = rng.normal(size=(10, 2))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    assert model.decision(50 * x) == pytest.approx(model.decision(x))


@pytest.mark.refusal  # rows are annotated as floats, of which integers are not
@pytest.mark.parametrize("kind", [np.uint8, np.int64, np.float16, np.float32])
def test_rows_of_another_type_are_judged_as_their_doubles(kind):
    """Squares of bytes wrap; those of 4e9 are too large for an int64, those of 255 for half precision."""
    x = np.array([[200, 255], [3, 4]], kind)
    if kind == np.int64:
        x[0] = 4_000_000_000
    model = LinearModel(np.array([[1.0, -2.0, 0.1]]), norm_bound=7.0)
    assert (model.decision(x) == model.decision(x.astype(np.float64))).all()


def test_a_row_of_short_floats_is_within_the_bound_too():
    """The sum of its squares is zero in single precision."""
    row = lift(np.full((1, 4), 2e-24, np.float32), 1e-24)
    assert np.linalg.norm(row) <= 1 + 1e-9


def test_a_model_owns_a_read_only_copy():
    coef = np.zeros((1, 2))
    model = LinearModel(coef, norm_bound=1.0)
    coef[0, 0] = 7.0
    assert model.coef.tolist() == [[0.0, 0.0]]
    with pytest.raises(ValueError, match="read-only"):
        model.coef[0, 0] = 1.0


@pytest.mark.parametrize(
    ("coef", "norm_bound"),
    [
        (np.zeros((2, 3)), 1.0),
        (np.zeros((0, 3)), 1.0),
        pytest.param(np.zeros(3), 1.0, marks=pytest.mark.refusal),
        (np.zeros((1, 1)), 1.0),
        (np.array([[math.nan, 1.0]]), 1.0),
        (np.zeros((1, 3)), 0.0),
        (np.zeros((1, 3)), math.nan),
    ],
)
def test_a_model_that_makes_no_sense_cannot_be_built(coef, norm_bound):
    with pytest.raises(ValueError, match="must be"):
        LinearModel(coef, norm_bound)


def test_a_model_refuses_rows_of_another_width():
    with pytest.raises(ValueError, match="2 columns"):
        LinearModel(np.zeros((1, 3)), norm_bound=1.0).predict(np.zeros((4, 3)))


@pytest.mark.parametrize(
    "knobs",
    [
        {"regularization": 0.0},
        {"regularization": math.nan},
        {"norm_bound": -1.0},
        # below infinity, and no doubles
        pytest.param({"norm_bound": 10**400}, marks=pytest.mark.refusal),
        pytest.param({"regularization": 10**400}, marks=pytest.mark.refusal),
        {"n_classes": 1},
        {"n_classes": 10**30},
        pytest.param({"n_classes": 2.5}, marks=pytest.mark.refusal),  # np.arange(2.5) has three
    ],
)
def test_knobs_out_of_range_are_refused(knobs):
    good = {"regularization": 0.1, "norm_bound": 1.0, "n_classes": 2}
    with pytest.raises(ValueError, match="must be"):
        fit_linear(np.zeros((2, 1)), np.array([0, 1]), **(good | knobs))


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (np.zeros((0, 1)), np.zeros(0, int)),
        (np.zeros((2, 0)), np.zeros(2, int)),
        pytest.param(np.zeros((2, 1), int), np.zeros(2, int), marks=pytest.mark.refusal),
        (np.array([[0.0], [math.inf]]), np.zeros(2, int)),
        pytest.param(np.zeros((2, 1)), np.zeros(3, int), marks=pytest.mark.refusal),
        pytest.param(np.zeros((2, 1)), np.zeros(2), marks=pytest.mark.refusal),
        (np.zeros((2, 1)), np.array([0, 2])),
        (np.zeros((2, 1)), np.array([0, -1])),
    ],
)
def test_rows_that_cannot_be_trained_on_are_refused(x, y):
    with pytest.raises(ValueError, match="must"):
        fit_linear(x, y, regularization=0.1, norm_bound=1.0, n_classes=2)


@pytest.mark.refusal
def test_rows_of_several_lengths_are_refused_in_a_sentence():
    ragged, knobs = [[1.0, 2.0], [3.0]], {"regularization": 0.1, "norm_bound": 1.0, "n_classes": 2}
    model = LinearModel(np.zeros((1, 2)), norm_bound=1.0)
    for refused in (
        lambda: fit_linear(ragged, [0, 1], **knobs),
        lambda: model.predict(ragged),
        lambda: model.decision(ragged),
    ):
        with pytest.raises(
            ValueError, match=r"^x must be numbers, .* got rows of several lengths$"
        ):
            refused()
    with pytest.raises(ValueError, match="y must be numbers, as many in each row"):
        fit_linear([[1.0], [2.0]], [[0], [1, 1]], **knobs)
    with pytest.raises(ValueError, match="coef must be numbers, as many in each row"):
        LinearModel(ragged, norm_bound=1.0)


def test_signs_are_the_matrix_that_they_stand_for(rng):
    for n_classes in (2, 3):
        y, weight = rng.integers(n_classes, size=9), rng.uniform(size=9)
        problems = [1] if n_classes == 2 else [0, 1, 2]
        whole = np.array([np.where(y == one, weight, -weight) for one in problems])
        sign, part = Signs(y, n_classes, weight), rng.uniform(size=9) < 0.5
        np.testing.assert_array_equal(np.asarray(sign), whole)
        np.testing.assert_array_equal(np.array(list(sign)), whole)
        np.testing.assert_array_equal(np.asarray(sign[:, part]), whole[:, part])
        assert (len(sign), sign[0].tolist()) == (len(problems), whole[0].tolist())
        np.testing.assert_array_equal(np.abs(np.asarray(Signs(y, n_classes))), np.ones_like(whole))
        assert repr(sign) == f"Signs(n_classes={n_classes})"  # the rows are private


def test_judging_rows_of_many_classes_holds_no_score_of_each_row_in_each_class(rng):
    """8,000 rows in 500 problems: the scores of all are 32 MB."""
    x, coef = rng.normal(size=(8000, 2)), rng.normal(size=(500, 3))
    model = LinearModel(coef, 9.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("learners.private.linear_model.MAX_CELLS", 2**15)
        tracemalloc.start()
        found = model.predict(x)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 4e6
    np.testing.assert_array_equal(found, model.decision(x).argmax(axis=1))


@pytest.mark.refusal
def test_short_floats_of_numpys_are_numbers_like_others(rng):
    """Beside the largest double they overflowed, and infinity passed for a finite number."""
    x, y = blobs(rng)
    short, plain = (
        fit_linear(x, y, regularization=one(0.5), norm_bound=one(2.0), n_classes=2)
        for one in (np.float32, float)
    )
    assert short.coef.tobytes() == plain.coef.tobytes()
    with pytest.raises(ValueError, match="regularization must be >= 1e-09 and finite, got"):
        fit_linear(x, y, regularization=np.float32("inf"), norm_bound=1.0, n_classes=2)
    with pytest.raises(ValueError, match="norm_bound must be > 0 and finite, got"):
        LinearModel(np.ones((1, 2)), np.float32("inf"))


@pytest.mark.refusal
def test_data_frames_and_lists_are_trained_on_like_arrays(rng):
    x, y = blobs(rng)
    given = {"regularization": 0.1, "norm_bound": 2.0, "n_classes": 2}
    expected = fit_linear(x, y, **given)
    for rows, codes in (
        (pd.DataFrame(x), pd.Series(y, index=range(60, 0, -1))),
        (x.tolist(), list(y)),
    ):
        found = fit_linear(rows, codes, **given)
        np.testing.assert_allclose(found.coef, expected.coef, rtol=1e-9)
        assert (found.predict(rows) == expected.predict(x)).all()
    with pytest.raises(ValueError, match="x must be a float matrix, got .* dtype=object"):
        fit_linear(pd.DataFrame(x).astype(object), y, **given)
