import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from learners import ClassRatioEstimator
from learners.labelled_bags import LabelledBags
from learners.matched_means import MatchedMeans, covariances_of

SWAP = np.array(
    [[1.0, -1.0], [-1.0, 1.0]]
)  # covariance of two shares that add up to one, per variance


def matched(sizes, variances, seed=0):
    """Plain means of two Gaussian classes; noise of these variances in the bags' shares is told."""
    rng = np.random.default_rng(seed)
    points, shares = [], []
    for size, share in zip(sizes, np.tile([0.2, 0.8], len(sizes)), strict=False):
        label = np.arange(size) < round(share * size)
        points.append(rng.normal(size=(size, 1)) + 4.0 * label[:, None])
        shares.append([1 - label.mean(), label.mean()])
    noise = None if variances is None else np.array([variance * SWAP for variance in variances])
    bags = LabelledBags.of(points, np.array(shares), noise)
    mean = np.array([bag.mean(axis=0) for bag in points])
    own = np.array([np.square(bag).sum(axis=1).mean() for bag in points])
    products = covariances_of([bag @ mean.T for bag in points])
    return MatchedMeans.of(bags, mean @ mean.T, own, products)


def test_without_noise_bags_weigh_by_their_points():
    plain, zero = (matched([40, 60, 20, 80], noise) for noise in (None, np.zeros(4)))
    assert (plain.weights == zero.weights).all()
    assert (plain.error == zero.error).all()


@settings(deadline=None, derandomize=True, max_examples=10)
@given(variance=st.floats(1e-6, 0.05))
def test_equal_bags_under_equal_noise_weigh_equally(variance):
    plain, noisy = (matched([50] * 4, noise) for noise in (None, np.full(4, variance)))
    np.testing.assert_allclose(noisy.weights, plain.weights, atol=1e-12)


def test_more_noise_never_makes_a_bag_weigh_more():
    """Of bags of equal shares 0 and 2, weights are as their evidence: bag 0's falls with its noise."""
    weight = [
        matched([50] * 4, [variance, 0.001, 0.001, 0.001]).weights
        for variance in (0.001, 0.01, 0.1)
    ]
    parts = [abs(found[0, 0] / found[2, 0]) for found in weight]
    assert parts == sorted(parts, reverse=True)
    assert parts[0] > 2 * parts[-1]


def test_noise_widens_what_a_bag_may_be_off_by():
    plain, noisy = (matched([50] * 4, noise) for noise in (None, np.full(4, 0.01)))
    grown = noisy.error - plain.error
    np.testing.assert_allclose(grown[0], plain.hessian @ (0.01 * SWAP) @ plain.hessian)


def test_small_groups_do_less_harm_when_their_noise_is_told():
    """Forty groups of ten under noise of 0.25, four of 200 under 0.0125: 30 draws, seeds fixed.

    The noise takes classes for more alike than they are; told of it, small groups weigh less.
    """
    told, untold = [], []
    for seed in range(30):
        rng = np.random.default_rng([seed, 5])
        bags, shown, noise = [], [], []
        for size in [10] * 40 + [200] * 4:
            label = rng.random(size) < rng.uniform(0.1, 0.9)
            bags.append(rng.normal(size=(size, 1)) + 3.0 * label[:, None])
            seen = float(np.clip(label.mean() + rng.normal(scale=2.5 / size), 0, 1))
            shown.append([1 - seen, seen])
            noise.append((2.5 / size) ** 2 * SWAP)
        unlabelled = rng.normal(size=(400, 1)) + 3.0 * (np.arange(400) < 40)[:, None]
        for covariance, errors in ((np.array(noise), told), (None, untold)):
            estimator = ClassRatioEstimator(bandwidth=1.0)
            found = estimator.fit(bags, np.array(shown), noise=covariance).predict(unlabelled)
            errors.append(abs(found.ratio[1] - 0.1))
    assert np.mean(told) < 0.8 * np.mean(untold)
