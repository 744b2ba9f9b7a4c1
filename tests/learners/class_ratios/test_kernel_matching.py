import numpy as np

from learners.class_ratios.bags import LabelledBags
from learners.class_ratios.kernel_matching import KernelMatcher, KernelMatching, NystroemMatcher


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
