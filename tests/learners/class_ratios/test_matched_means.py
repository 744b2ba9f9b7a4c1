from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from learners import ClassRatioEstimator
from learners.class_ratios.bags import LabelledBags
from learners.class_ratios.matched_means import BagMean, MatchedMeans, NoisyShares, covariances_of
from learners.class_ratios.mean_matching import class_weights

SWAP = np.array(
    [[1.0, -1.0], [-1.0, 1.0]]
)  # covariance of two shares that add up to one, per variance


def matched(sizes, variances, seed=0):
    """Plain means of two Gaussian classes; the covariance of noise in the bags' shares is given."""
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
    weights = matched([50] * 4, np.full(4, variance)).weights
    np.testing.assert_allclose(weights[:2], weights[2:], atol=1e-12)


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
    variances = [0.01, 0.01, 0.0, 0.0]  # bags 0 and 2 are alike but for the noise
    noisy = matched([50] * 4, variances)
    grown = noisy.error[0] - noisy.error[2]
    np.testing.assert_allclose(grown, noisy.hessian @ (0.01 * SWAP) @ noisy.hessian, rtol=0.05)


def test_the_square_of_the_noise_widens_what_a_bag_of_any_ratio_may_be_off_by():
    """Oracle: W_i C_i y, y = N^-1 r, for each bag, in units of ratios by the slope."""
    noisy, ratio = matched([50] * 4, [0.02] * 4), np.array([0.9, 0.1])
    seen = BagMean(noisy.hessian @ ratio, np.zeros((2, 2)))
    still = replace(noisy, drift=np.zeros_like(noisy.drift))
    slope = noisy.slope()
    more = slope @ (noisy._error(seen, ratio[None]) - still._error(seen, ratio[None]))[0] @ slope
    moved = noisy.drift @ ratio
    np.testing.assert_allclose(more, moved.T @ moved, atol=1e-12)
    assert more[0, 0] > 1e-6


@pytest.mark.parametrize("share", [0.3, 0.5, 0.7])
def test_the_ends_for_two_classes_are_those_of_fiellers_test(share):
    """At an end r the distance of f from H r is 1.645 of its own standard errors, not the estimate's."""
    means = matched([30] * 4, [0.004] * 4)
    product = np.random.default_rng(0).normal(size=(60, 4)) * 0.05
    seen = replace(means.bag_mean(product), linear=means.hessian @ [1 - share, share])
    contrast = np.array([-1.0, 1.0])
    for end, side in zip(means.interval(seen, 0.9)[1], (-1, 1), strict=True):
        ratio = np.array([1 - end, end])
        error = contrast @ means._error(seen, ratio[None])[0] @ contrast
        distance = contrast @ (means.hessian @ ratio - seen.linear)
        assert distance / np.sqrt(error) == pytest.approx(side * 1.645, abs=0.05)


def test_small_groups_do_less_harm_when_their_noise_is_given():
    """Forty groups of ten under noise of 0.25, four of 200 under 0.0125: 30 draws, seeds fixed.

    The noise takes classes for more alike than they are; given its covariance, small groups weigh less.
    """
    known, unknown = [], []
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
        for covariance, errors in ((np.array(noise), known), (None, unknown)):
            estimator = ClassRatioEstimator(bandwidth=1.0)
            found = estimator.fit(bags, np.array(shown), noise=covariance).predict(unlabelled)
            errors.append(abs(found.ratio[1] - 0.1))
    assert np.mean(known) < 0.8 * np.mean(unknown)


seeds = st.integers(0, 2**32 - 1)


def known(seed, n_bags=9, n_classes=3):
    """Proportions, weights and noise of about a tenth of the spread."""
    rng = np.random.default_rng(seed)
    mixture = rng.dirichlet(np.ones(n_classes), size=n_bags)
    root = 0.05 * rng.normal(size=(n_bags, n_classes, n_classes))
    return mixture, rng.uniform(1, 5, size=n_bags), root @ root.swapaxes(1, 2)


@settings(deadline=None, derandomize=True, max_examples=20)
@given(seed=seeds)
def test_noise_of_zero_changes_no_weight(seed):
    mixture, weight, noise = known(seed)
    plain = NoisyShares.of(mixture, weight, np.zeros_like(noise))
    np.testing.assert_allclose(plain.weights, class_weights(mixture, weight), atol=1e-9)
    assert (plain.drift == 0).all()


@settings(deadline=None, derandomize=True, max_examples=20)
@given(seed=seeds)
def test_a_bag_of_the_mean_proportions_keeps_its_ratio(seed):
    """Class means mu = Phi B of bag means Phi: here Phi are ratios, so mu r should be the mean ratio."""
    mixture, weight, noise = known(seed)
    centre = weight @ mixture / weight.sum()
    found = mixture.T @ NoisyShares.of(mixture, weight, noise).weights
    np.testing.assert_allclose(found @ centre, centre, atol=1e-9)
    np.testing.assert_allclose(found.sum(axis=0), 1.0, atol=1e-9)


@settings(deadline=None, derandomize=True, max_examples=20)
@given(seed=seeds, times=st.sampled_from([1.0, 100.0, 1e4]))
def test_every_contrast_keeps_half_of_its_spread(seed, times):
    mixture, weight, noise = known(seed)
    root = np.sqrt(weight)[:, None]
    normal = (mixture * root).T @ (mixture * root)
    # W P N^-1 = B (P'WP) N^-1, so N^-1 is the least squares solution below
    inverse = np.linalg.lstsq(
        mixture * weight[:, None],
        NoisyShares.of(mixture, weight, times * noise).weights,
        rcond=None,
    )[0]
    grown = np.linalg.eigvals(normal @ inverse).real
    assert (grown >= 1 - 1e-9).all()
    assert (grown <= 2 + 1e-9).all()


def test_the_mean_ratio_is_right_to_second_order_in_the_noise():
    """Six bags on a line, exact means, shares off by .08: ratio .9 of 4,000 draws, seed fixed.

    The standard error of the mean is .001. Plain least squares is off by (M - 2) s^2 / S of
    the distance .4 from the mean, .030: M = 6 bags of spread S = .343.
    """
    rng = np.random.default_rng(0)
    share, variance = np.linspace(0.15, 0.85, 6), 0.08**2
    noise = np.tile(variance * np.array([[1.0, -1.0], [-1.0, 1.0]]), (6, 1, 1))
    found = {"plain": [], "told": []}
    for _ in range(4_000):
        shown = share + rng.normal(scale=0.08, size=6)
        mixture = np.column_stack([1 - shown, shown])
        for name, weights in (
            ("plain", class_weights(mixture, np.ones(6))),
            ("told", NoisyShares.of(mixture, np.ones(6), noise).weights),
        ):
            low, high = share @ weights
            found[name].append((0.9 - low) / (high - low))
    second_order = 0.4 * 4 * variance / np.square(share - 0.5).sum()
    assert abs(np.mean(found["plain"]) - 0.9) > 0.7 * second_order
    assert abs(np.mean(found["told"]) - 0.9) < 0.2 * second_order
