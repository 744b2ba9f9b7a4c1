import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from learners import ClassRatioEstimator, learn_ratios
from learners.class_ratios.bags import LabelledBags
from learners.class_ratios.kernels import fit_features
from learners.class_ratios.matched_means import BagMean, MatchedMeans, MixtureFit, covariances_of
from learners.class_ratios.mean_matching import normal_nodes, range_of_draws
from learners.class_ratios.model import FIT_LEVEL

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


@pytest.mark.parametrize("size", [2, 5, 40])
def test_a_bag_of_one_class_has_the_ends_of_wilsons_interval(size):
    """Oracle: points that are their class, so that all is binomial: z^2 / (n + z^2) of the other class."""
    codes = LabelledBags.of([np.eye(2)[[k] * 50] for k in (0, 1)], np.eye(2))
    own = np.ones(2)
    means = MatchedMeans.of(codes, np.eye(2), own, covariances_of(codes.points))
    low, high = means.interval(means.bag_mean(np.eye(2)[[0] * size]), 0.9)[1]
    assert low == 0.0
    assert high == pytest.approx(1.645**2 / (size + 1.645**2), abs=0.02)


@pytest.mark.long
@pytest.mark.parametrize("size", [2, 5, 20])
def test_intervals_of_few_points_cover_and_few_are_called_no_mixture(size):
    """Of 600 bags, of 6 trainings, .86 at least seen; by their own covariance alone .66 of two points."""
    covered, refused = [], []
    for seed in range(6):
        rng = np.random.default_rng([seed, size])
        counts = np.column_stack([one := rng.integers(20, 280, size=6), 300 - one])
        bags = LabelledBags.of([of_line(rng, count) for count in counts], counts / 300)
        mean = np.array([bag.mean(axis=0) for bag in bags.points])
        own = np.array([np.square(bag).sum(axis=1).mean() for bag in bags.points])
        products = covariances_of([bag @ mean.T for bag in bags.points])
        means = MatchedMeans.of(bags, mean @ mean.T, own, products)
        fit = MixtureFit.of_features(bags, bags.points)
        for share in rng.uniform(size=100):
            bag = of_line(rng, rng.multinomial(size, [1 - share, share]))
            low, high = means.interval(means.bag_mean(bag @ mean.T), 0.9)[1]
            covered.append(low <= share <= high)
            refused.append(fit.p_value(BagMean.of(bag, np.eye(2))) < FIT_LEVEL)
    assert np.mean(covered) >= 0.82
    assert np.mean(refused) <= 0.01


def test_sums_of_ratios_have_the_ends_of_the_classes_at_a_split_level():
    """Oracle: of three classes the first sum is the first ratio, the second is what the last leaves to 1."""
    rng = np.random.default_rng(1)
    centre = 3.0 * np.eye(3, 10)
    counts = rng.multinomial(100, rng.dirichlet(np.ones(3), size=6))
    bags = LabelledBags.of([of_classes(rng, centre, count) for count in counts], counts / 100)
    mean = np.array([bag.mean(axis=0) for bag in bags.points])
    own = np.array([np.square(bag).sum(axis=1).mean() for bag in bags.points])
    products = [bag @ mean.T for bag in bags.points]
    means = MatchedMeans.of(bags, mean @ mean.T, own, covariances_of(products))
    bag = means.bag_mean(of_classes(rng, centre, [50, 30, 20]) @ mean.T)
    interval, sums = means.intervals(bag, 0.9)
    np.testing.assert_array_equal(interval, means.interval(bag, 0.9))
    each = means.interval(bag, 0.95)
    np.testing.assert_allclose(sums[0], each[0], atol=1e-12)
    np.testing.assert_allclose(sums[1], 1 - each[2][::-1], atol=1e-9)


def test_levels_beyond_the_draws_go_on_widening(rng):
    """Oracle: the quantiles of the normal law that is drawn; from 1,024 draws all of these were alike."""
    nodes, share = normal_nodes(2), np.array([0.5, 0.4])
    drawn = share + 0.02 * nodes
    widths = []
    for level in (0.9, 0.998, 0.999, 0.9999, 1 - 1e-9, math.nextafter(1.0, 0.0)):
        ends = range_of_draws(drawn, share, level)
        far = 0.02 * stats.norm.isf((1 - level) / 2)
        np.testing.assert_allclose(ends, np.column_stack([share - far, share + far]), rtol=0.03)
        widths.append(np.diff(ends).sum())
    assert widths == sorted(set(widths))
    assert np.isfinite(range_of_draws(drawn, share, 1.0)).all()  # of sums, whose level is rounded


@pytest.mark.parametrize("n_classes", [2, 3])
def test_an_interval_of_a_level_beyond_the_draws_is_wider(n_classes):
    rng = np.random.default_rng(3)
    centre = 3.0 * np.eye(n_classes, 10)
    counts = rng.multinomial(300, rng.dirichlet(np.ones(n_classes), size=6))
    bags = LabelledBags.of([of_classes(rng, centre, count) for count in counts], counts / 300)
    mean = np.array([bag.mean(axis=0) for bag in bags.points])
    own = np.array([np.square(bag).sum(axis=1).mean() for bag in bags.points])
    products = [bag @ mean.T for bag in bags.points]
    means = MatchedMeans.of(bags, mean @ mean.T, own, covariances_of(products))
    bag = means.bag_mean(of_classes(rng, centre, [200] * n_classes) @ mean.T)
    levels = (0.99, 0.998, 0.9995, 0.99999, math.nextafter(1.0, 0.0))
    found = [means.intervals(bag, level) for level in levels]
    for narrow, wide in pairwise(found):
        for one, other in zip(narrow, wide, strict=True):
            assert (other[:, 0] < one[:, 0]).all()
            assert (other[:, 1] > one[:, 1]).all()


@pytest.mark.long
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


@pytest.mark.parametrize(
    ("n_classes", "reliability", "times"),
    [(3, 0.5, 1.0), (3, 0.375, 1.5), (3, 0.25, 2.0), (3, -1.0, 2.0), (2, -1.0, 1.0)],
)
def test_an_unreliable_distance_between_three_classes_widens_the_interval(
    n_classes, reliability, times
):
    """About the ratio, on both sides, and no further than 0 and 1."""
    rng = np.random.default_rng(0)
    centre = 3.0 * np.eye(n_classes, 10)
    counts = rng.multinomial(100, rng.dirichlet(np.ones(n_classes), size=6))
    bags = LabelledBags.of([of_classes(rng, centre, count) for count in counts], counts / 100)
    mean = np.array([bag.mean(axis=0) for bag in bags.points])
    own = np.array([np.square(bag).sum(axis=1).mean() for bag in bags.points])
    products = [bag @ mean.T for bag in bags.points]
    means = MatchedMeans.of(bags, mean @ mean.T, own, covariances_of(products))
    bag = means.bag_mean(of_classes(rng, centre, [40] * n_classes) @ mean.T)
    ratio = means.ratio(bag)[:, None]
    sure = replace(means, reliability=1.0).interval(bag, 0.9)
    found = replace(means, reliability=reliability).interval(bag, 0.9)
    np.testing.assert_allclose(found, np.clip(ratio + times * (sure - ratio), 0, 1))
    assert times == 1.0 or (found[:, 1] - found[:, 0] > sure[:, 1] - sure[:, 0]).all()


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(("clearest", "times"), [(0.5, 1.0), (0.25, 2.0), (0.125, 4.0)])
def test_a_distance_that_is_taken_too_large_widens_the_interval_by_as_much(
    n_classes, clearest, times
):
    rng = np.random.default_rng(0)
    centre = 3.0 * np.eye(n_classes, 10)
    counts = rng.multinomial(100, rng.dirichlet(np.ones(n_classes), size=6))
    bags = LabelledBags.of([of_classes(rng, centre, count) for count in counts], counts / 100)
    mean = np.array([bag.mean(axis=0) for bag in bags.points])
    own = np.array([np.square(bag).sum(axis=1).mean() for bag in bags.points])
    products = covariances_of([bag @ mean.T for bag in bags.points])
    means = replace(MatchedMeans.of(bags, mean @ mean.T, own, products), reliability=1.0)
    assert means.clearest > 0.5
    bag = means.bag_mean(of_classes(rng, centre, [40] * n_classes) @ mean.T)
    ratio, sure = means.ratio(bag)[:, None], means.interval(bag, 0.9)
    found = replace(means, clearest=clearest).interval(bag, 0.9)
    np.testing.assert_allclose(found, np.clip(ratio + times * (sure - ratio), 0, 1))
    for none in (0.0, -1.0):
        ends, sums = replace(means, clearest=none).intervals(bag, 0.9)
        assert ends.tolist() == [[0.0, 1.0]] * n_classes
        assert sums.tolist() == [[0.0, 1.0]] * (n_classes - 1)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_features_of_chance_alone_leave_a_ratio_nearly_open(n_classes):
    """Bandwidths so small that points meet themselves alone had .05 wide intervals, of which few held."""
    held, width = [], []
    for seed in range(40):
        rng = np.random.default_rng([seed, n_classes])
        counts = rng.multinomial(150, rng.dirichlet(np.ones(n_classes), size=n_classes + 2))
        bags = [rng.normal(size=(150, 2)) for _ in counts]
        model = learn_ratios(bags, counts / 150, bandwidth=0.05)
        interval = model.ratio(rng.normal(size=(80, 2))).interval
        ratio = rng.dirichlet(np.ones(n_classes))
        held.append(((interval[:, 0] <= ratio) & (ratio <= interval[:, 1])).mean())
        width.append((interval[:, 1] - interval[:, 0]).mean())
    assert np.mean(held) >= 0.85
    assert np.mean(width) > 0.7


def test_classes_further_apart_than_their_groups_are_spread_leave_no_interval_of_no_width():
    """Groups of one mixture, whose shares differ by chance: .81 held, and one in fifteen had no width."""
    held, width = [], []
    centre = np.array([[0.0], [2.0]]) * np.eye(1, 10)
    for seed in range(100):
        rng = np.random.default_rng([seed, 9])
        counts = rng.multinomial(100, [0.5, 0.5], size=4)
        if len(np.unique(counts[:, 0])) == 1:
            continue
        bags = LabelledBags.of([of_classes(rng, centre, count) for count in counts], counts / 100)
        mean = np.array([bag.mean(axis=0) for bag in bags.points])
        own = np.array([np.square(bag).sum(axis=1).mean() for bag in bags.points])
        products = covariances_of([bag @ mean.T for bag in bags.points])
        means = MatchedMeans.of(bags, mean @ mean.T, own, products)
        share = rng.uniform()
        bag = of_classes(rng, centre, rng.multinomial(100, [1 - share, share]))
        low, high = means.interval(means.bag_mean(bag @ mean.T), 0.9)[1]
        held.append(low <= share <= high)
        width.append(high - low)
    assert np.mean(held) >= 0.88
    assert np.mean(np.array(width) < 0.02) <= 0.02


def trained(rng, n_classes, separation, noise, n_rows=500):
    """A test of fit on twice as many bags as classes, normal ones of ten features; shares off by `noise`."""
    centre = rng.normal(scale=separation / 20**0.5, size=(n_classes + 1, 10))
    counts = np.zeros((2 * n_classes, n_classes), dtype=int)
    while np.linalg.cond(counts) > 15:
        mixed = rng.dirichlet(np.ones(n_classes), size=2 * n_classes)
        counts = rng.multinomial(n_rows, mixed)
    bags = [of_classes(rng, centre, count) for count in counts]
    middle = np.eye(n_classes) - 1 / n_classes
    shown = np.maximum(counts / n_rows + noise * rng.normal(size=counts.shape) @ middle, 0)
    told = np.tile(noise**2 * middle, (len(counts), 1, 1)) if noise else None
    labelled = LabelledBags.of(bags, shown / shown.sum(axis=1, keepdims=True), told)
    embed = fit_features(bags)
    return centre, embed, MixtureFit.of_features(labelled, [embed(bag) for bag in bags])


def of_line(rng, count):
    """Two classes 5 apart on a line, and a feature of chance alone."""
    return rng.normal(size=(sum(count), 2)) + np.repeat([[0.0, 0.0], [5.0, 0.0]], count, axis=0)


def of_classes(rng, centre, count):
    return np.repeat(centre[: len(count)], count, axis=0) + rng.normal(size=(sum(count), 10))


def refused(n_classes, separation, noise, n, *, new=0.0, shift=0.0):
    """Share of unlabelled bags of 500 rows, ten of each training, that the test calls no mixture."""
    found = []
    for seed in range(n // 10):
        rng = np.random.default_rng([seed, n_classes])
        centre, embed, fit = trained(rng, n_classes, separation, noise)
        for _ in range(10):
            known = rng.multinomial(500 - round(500 * new), rng.dirichlet(np.ones(n_classes)))
            bag = of_classes(rng, centre, [*known, round(500 * new)])
            bag[:, :2] += shift
            feature = embed(bag)
            chance = fit.p_value(BagMean.of(feature, np.eye(feature.shape[1])))
            found.append(chance < FIT_LEVEL)
    return np.mean(found)


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.0, 0.02])
@pytest.mark.parametrize("separation", [0.5, 3.0])
@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_a_mixture_is_refused_once_in_a_hundred_times_at_most(n_classes, separation, noise):
    assert refused(n_classes, separation, noise, 2000) <= 0.01


@pytest.mark.long
@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_class_never_seen_is_found(n_classes):
    assert refused(n_classes, 3.0, 0.0, 100, new=0.3) >= 0.9
    assert refused(n_classes, 3.0, 0.0, 100) <= 0.02


@pytest.mark.long
@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_shift_of_half_a_deviation_in_two_of_ten_features_is_found(n_classes):
    assert refused(n_classes, 3.0, 0.0, 100, shift=0.5) >= 0.9


def test_bags_of_two_points_tell_the_spread_within_classes_without_bias():
    """Shares describe the very points of a bag, whose mean takes a part of their spread."""
    rng, n_bags = np.random.default_rng(0), 600
    shares = np.eye(2)[np.arange(n_bags) % 2]
    points = [6 * share + rng.normal(scale=2.0, size=(2, 2)) for share in shares]
    bags = LabelledBags.of(points, shares)
    fit = MixtureFit.of_features(bags, bags.points)
    np.testing.assert_allclose(fit.within, 4 * np.eye(2), atol=0.4)
    np.testing.assert_allclose(fit.error.mean(axis=0), 2 * np.eye(2), atol=0.2)
    along = fit.mean.T @ fit.means.weights
    np.testing.assert_allclose(fit.means.within, along.T @ fit.within @ along, rtol=0.05)


def test_bags_of_few_points_borrow_the_spread_of_all():
    rng = np.random.default_rng(1)
    shares = np.array([[0.5, 0.5], [1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    points = [rng.normal(size=(n, 1)) + 9 * shares[i, 1] for i, n in enumerate([400, 2, 2, 400])]
    bags = LabelledBags.of(points, shares)
    fit = MixtureFit.of_features(bags, bags.points)
    own = np.var(points[1], ddof=1)
    assert fit.error[1, 0, 0] == pytest.approx((own + 20 * fit.within[0, 0]) / 21 / 2)
