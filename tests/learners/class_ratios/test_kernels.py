import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from learners.class_ratios.kernels import (
    NystroemMap,
    _exponential,
    bandwidth_ladder,
    feature_scale,
    mean_kernel,
    median_distance,
    set_gram,
    spread_points,
)


def bags_of(seed, sizes, features):
    rng = np.random.default_rng(seed)
    return [rng.normal(loc=3.0, size=(size, features)) for size in sizes]


def gram_by_loops(bags, bandwidth):
    """Oracle: every pair, one at a time."""
    gram = np.zeros((len(bandwidth), len(bags), len(bags)))
    for s, width in enumerate(bandwidth):
        for i, first in enumerate(bags):
            for j, second in enumerate(bags):
                values = [
                    np.exp(-np.sum((x - z) ** 2) / (2 * width**2)) for x in first for z in second
                ]
                gram[s, i, j] = np.mean(values)
    return gram


def test_gram_equals_the_double_loop_to_ten_digits():
    bags = bags_of(0, (5, 1, 8), 3)
    ladder = bandwidth_ladder(median_distance(bags))
    np.testing.assert_allclose(
        set_gram(bags, ladder), gram_by_loops(bags, ladder), rtol=1e-10, atol=1e-300
    )


def test_gram_does_not_depend_on_the_block_size(monkeypatch):
    bags = bags_of(1, (40, 25, 60), 2)
    ladder = bandwidth_ladder(1.0)
    whole = set_gram(bags, ladder)
    monkeypatch.setattr("learners.class_ratios.kernels.BLOCK_CELLS", 100)
    np.testing.assert_allclose(set_gram(bags, ladder), whole, rtol=1e-9)


@settings(deadline=None, derandomize=True, max_examples=20)
@given(
    seed=st.integers(0, 2**32 - 1),
    sizes=st.lists(st.integers(1, 20), min_size=1, max_size=5),
    features=st.integers(1, 4),
)
def test_gram_is_symmetric_and_positive_semi_definite(seed, sizes, features):
    for gram in set_gram(bags_of(seed, sizes, features), bandwidth_ladder(1.5)):
        assert (gram == gram.T).all()
        assert np.linalg.eigvalsh(gram).min() >= -1e-12


@settings(deadline=None, derandomize=True, max_examples=20)
@given(seed=st.integers(0, 2**32 - 1), sizes=st.lists(st.integers(1, 30), min_size=1, max_size=5))
def test_mean_kernel_averaged_over_a_bag_is_its_row_of_the_gram(seed, sizes):
    bags = bags_of(seed, sizes, 2)
    gram = set_gram(bags, np.array([0.7]))[0]
    for i, bag in enumerate(bags):
        np.testing.assert_allclose(mean_kernel(bag, bags, 0.7).mean(axis=0), gram[i], rtol=1e-12)


def test_median_distance_does_not_depend_on_the_order_of_the_bags():
    bags = bags_of(2, (700, 900, 3), 2)
    assert median_distance(bags[::-1]) == median_distance(bags)


def test_median_distance_of_many_points_is_near_that_of_all():
    (bag,) = bags_of(3, (3000,), 2)
    exact = np.median(np.linalg.norm(bag[:, None] - bag[None], axis=2)[np.triu_indices(3000, 1)])
    assert median_distance([bag]) == pytest.approx(exact, rel=0.05)


def test_points_that_coincide_are_refused():
    with pytest.raises(ValueError, match="points that differ"):
        median_distance([np.ones((5, 2)), np.ones((4, 2))])


@pytest.mark.parametrize("bandwidth", [[1.0, 3.0], [-1.0, -2.0], [np.nan, np.nan], [0.0]])
def test_bandwidths_that_do_not_double_are_refused(bandwidth):
    with pytest.raises(ValueError, match="double"):
        set_gram([np.zeros((2, 1))], np.array(bandwidth))


@pytest.mark.parametrize("bandwidth", [0.0, -1.0, np.nan, np.inf])
def test_a_bandwidth_that_is_not_positive_is_refused(bandwidth):
    with pytest.raises(ValueError, match="bandwidth must be > 0"):
        mean_kernel(np.zeros((2, 1)), [np.zeros((2, 1))], bandwidth)


def kernel(x, other, bandwidth):
    """Oracle: the kernel's definition."""
    return np.exp(-0.5 * ((x[:, None] - other[None]) ** 2).sum(axis=2) / bandwidth**2)


@settings(deadline=None, derandomize=True, max_examples=20)
@given(seed=st.integers(0, 2**32 - 1), bandwidth=st.floats(0.3, 3))
def test_products_with_landmarks_are_the_kernel_and_no_length_exceeds_one(seed, bandwidth):
    rng = np.random.default_rng(seed)
    landmark, x = rng.normal(size=(12, 3)), rng.normal(size=(20, 3))
    features = NystroemMap.of(landmark, bandwidth)
    product = features(x) @ features(landmark).T
    np.testing.assert_allclose(product, kernel(x, landmark, bandwidth), atol=1e-4)
    assert (np.square(features(x)).sum(axis=1) <= 1 + 1e-6).all()


@pytest.mark.parametrize("far", [1e6, 1e9, 1e12])
def test_a_point_far_out_leaves_the_others_their_digits(rng, far):
    """About the mean of the points, which one such point moves, distances of one lost all of them."""
    bag = np.vstack([rng.normal(size=(31, 2)), [[far, 0.0]]])
    other, x = rng.normal(size=(9, 2)), rng.normal(size=(20, 2))
    found = NystroemMap.of(bag, 1.0).kernel
    np.testing.assert_allclose(found.along(x, np.eye(32)), kernel(x, bag, 1.0), atol=1e-12)
    np.testing.assert_allclose(found.total(x), kernel(x, bag, 1.0).sum(axis=0), atol=1e-12)
    means = np.column_stack([kernel(x, one, 1.0).mean(axis=1) for one in (bag, other)])
    np.testing.assert_allclose(mean_kernel(x, [bag, other], 1.0), means, atol=1e-12)
    np.testing.assert_allclose(
        set_gram([bag, other], np.array([1.0]))[0, 1, 1],
        kernel(other, other, 1.0).mean(),
        atol=1e-12,
    )


def test_landmarks_are_spread_over_bags_by_their_size_and_not_by_their_order():
    bags = [np.full((400, 1), 0.0), np.full((100, 1), 1.0), np.full((3, 1), 2.0)]
    chosen = spread_points(bags, 50)
    assert [int((chosen == k).sum()) for k in range(3)] == [40, 10, 1]
    assert (spread_points(bags[::-1], 50) == spread_points(bags, 50)[::-1]).all()


@pytest.mark.parametrize("size", [0, 1, 64, 150])
def test_sums_over_strips_are_those_of_all_features(size):
    rng = np.random.default_rng(0)
    features = NystroemMap.of(rng.normal(size=(20, 3)), 2.0)
    point, direction = rng.normal(size=(size, 3)) + 5.0, rng.normal(size=(20, 2))
    whole = features(point)
    total = features.kernel.total(point) @ features.root
    np.testing.assert_allclose(total, whole.sum(axis=0), rtol=0, atol=1e-10)
    along = features.kernel.along(point, features.root @ direction)
    np.testing.assert_allclose(along, whole @ direction, rtol=0, atol=1e-10)


@pytest.mark.parametrize("factor", [1e160, 2.0**1000, 1e-170])
def test_the_unit_of_a_feature_follows_its_scale_where_squares_do_not(factor, rng):
    point = np.column_stack([rng.normal(size=50), np.arange(50) < 20, np.full(50, 3.0)])
    unit = feature_scale(point)
    assert feature_scale(factor * point)[:2] == pytest.approx(factor * unit[:2], rel=1e-12)
    assert feature_scale(factor * point)[2] == unit[2] == np.inf


def test_exponentials_are_right_to_the_last_digits() -> None:
    """Beside extended precision: NumPy's doubles differ in the last digit from processor to processor."""
    rng = np.random.default_rng(0)
    exponent = np.concatenate([-800 * rng.random((30, 400)), -rng.random((30, 400))])
    expected = np.exp(exponent.astype(np.longdouble))
    found = _exponential(exponent.copy())
    shown = exponent > -708
    assert (np.abs(found[shown] / expected[shown] - 1) < 5e-16).all()
    assert (found[~shown] <= 3.4e-308).all()
    odd = _exponential(np.array([[0.0, -0.0, 1e-9, np.inf, -1e300, -np.inf, np.nan]]))
    assert np.array_equal(odd, [[1.0, 1.0, 1.0, 1.0, 0.0, 0.0, np.nan]], equal_nan=True)
