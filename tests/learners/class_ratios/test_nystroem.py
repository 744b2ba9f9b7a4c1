import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from learners.class_ratios.bags import LabelledBags
from learners.class_ratios.kernel_matching import KernelMatcher, KernelMatching, NystroemMatcher
from learners.class_ratios.kernels import NystroemMap, spread_points


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


def test_landmarks_are_spread_over_bags_by_their_size_and_not_by_their_order():
    bags = [np.full((400, 1), 0.0), np.full((100, 1), 1.0), np.full((3, 1), 2.0)]
    chosen = spread_points(bags, 50)
    assert [int((chosen == k).sum()) for k in range(3)] == [40, 10, 1]
    assert (spread_points(bags[::-1], 50) == spread_points(bags, 50)[::-1]).all()


def two_class_bags(seed, size):
    rng = np.random.default_rng(seed)
    shares = np.array([[0.8, 0.2], [0.5, 0.5], [0.1, 0.9]])
    points = [rng.normal(size=(size, 2)) + 2.0 * (rng.random((size, 1)) < p) for _, p in shares]
    return LabelledBags.of(points, shares), rng.normal(size=(size, 2)) + 2.0 * (
        rng.random((size, 1)) < 0.3
    )


def test_seen_from_every_point_the_kernel_is_exact(monkeypatch):
    monkeypatch.setattr("learners.class_ratios.kernel_matching.LANDMARKS_PER_ROOT", 1000)
    labelled, unlabelled = two_class_bags(0, 60)
    exact, product = KernelMatcher.of(labelled, 1.0).match(unlabelled)
    seen, projected = NystroemMatcher.of(labelled, 1.0).match(unlabelled)
    np.testing.assert_allclose(seen.gram, exact.gram, atol=1e-6)
    np.testing.assert_allclose(seen.hessian, exact.hessian, atol=1e-5)
    np.testing.assert_allclose(seen.ratio(projected), exact.ratio(product), atol=1e-4)


def test_above_twenty_thousand_points_the_kernel_is_seen_from_landmarks(monkeypatch):
    """The limit is lowered; the ratio moves by less than a quarter of its expected error."""
    labelled, unlabelled = two_class_bags(1, 400)
    exact = KernelMatching().trial(labelled)
    means, product = exact.method.fit(labelled).match(unlabelled)
    monkeypatch.setattr("learners.class_ratios.kernel_matching.EXACT_POINTS", 1000)
    matcher = exact.method.fit(labelled)
    assert isinstance(matcher, NystroemMatcher)
    seen, projected = matcher.match(unlabelled)
    moved = np.abs(seen.ratio(projected) - means.ratio(product)).sum()
    assert moved < means.expected_error(product) / 4
    assert KernelMatching().trial(labelled).mean_error < 2 * exact.mean_error + 0.02
