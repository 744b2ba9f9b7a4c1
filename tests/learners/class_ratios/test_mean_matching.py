import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2, norm, qmc

from learners.class_ratios.kernels import set_gram
from learners.class_ratios.mean_matching import (
    NoisyShares,
    class_gram,
    class_weights,
    corrected_class_gram,
    effective_points,
    errors_left_out,
    normal_nodes,
    parts_left_out,
    squares_tail,
    within_class_covariance,
)

seeds = st.integers(0, 2**32 - 1)


@settings(deadline=None, derandomize=True, max_examples=30)
@given(seed=seeds, n_bags=st.integers(3, 8))
def test_weights_make_class_means_of_noiseless_bag_means(seed, n_bags):
    rng = np.random.default_rng(seed)
    mixture, size = rng.dirichlet(np.ones(3), size=n_bags), rng.integers(2, 50, size=n_bags)
    if np.linalg.cond(mixture) > 100:
        return
    class_mean = rng.normal(size=(3, 4))
    weights = class_weights(mixture, size)
    np.testing.assert_allclose(weights.T @ (mixture @ class_mean), class_mean, atol=1e-7)


def test_effective_points_are_the_variance_of_the_class_means():
    """Oracle: sum of squared weights over bag sizes."""
    mixture, size = np.array([[0.9, 0.1], [0.4, 0.6], [0.2, 0.8]]), np.array([50, 80, 20])
    weights = class_weights(mixture, size)
    variance = (weights**2 / size[:, None]).sum(axis=0)
    np.testing.assert_allclose(effective_points(mixture, size), 1 / variance)


def test_correction_takes_away_the_sampling_error_of_the_class_distance():
    """Classes that do not differ at all: without correction chance sets them apart, with it nothing.

    A Gaussian kernel of two features, 300 draws of three bags of 30: the mean of the corrected
    reliability, 1 - owed / distance, is 0 up to noise; uncorrected it would be 1.
    """
    rng = np.random.default_rng(0)
    mixture, size = np.array([[0.75, 0.25], [0.25, 0.75], [0.5, 0.5]]), np.array([30, 30, 30])
    weights, distance = class_weights(mixture, size), np.array([1.0, -1.0])
    plain, owed = [], []
    for _ in range(300):
        gram = set_gram([rng.normal(size=(30, 2)) for _ in size], np.array([1.0]))[0]
        own = np.diag((1 - gram.diagonal()) / (size - 1))
        plain.append(distance @ class_gram(gram, weights) @ distance)
        owed.append(distance @ class_gram(own, weights) @ distance)
        reliability = corrected_class_gram(gram, weights, size, np.ones(3))[1]
        assert reliability == pytest.approx(1 - owed[-1] / plain[-1], abs=1e-6)
    excess = np.array(plain) - np.array(owed)
    assert np.mean(plain) > 20 * excess.std() / np.sqrt(300)
    assert abs(excess.mean()) < 6 * excess.std() / np.sqrt(300)


@pytest.mark.long
@pytest.mark.parametrize("dimension", [1.0, 2.0, 8.0])
def test_in_few_dimensions_the_mean_ratio_is_right_to_second_order(dimension):
    """Pure bags of 30, classes 1.5 apart, exact f of ratio .9: 4,000 draws, seed fixed.

    To second order H^-1 f is off by (2 - D) 2 / (30 * 1.5^2) of the distance from the middle, .4. H less
    its whole excess puts D of these back, which leaves .024; the count of `dimension` leaves nothing. The
    standard error of the mean is below .002.
    """
    rng, half = np.random.default_rng(0), np.array([0.75] + [0.0] * (int(dimension) - 1))
    truth, size, found = 0.8 * half, np.array([30, 30]), {np.inf: [], dimension: []}
    for _ in range(4000):
        points = [rng.normal(size=(30, int(dimension))) + centre for centre in (-half, half)]
        mean = np.array([bag.mean(axis=0) for bag in points])
        own = np.array([np.square(bag).sum(axis=1).mean() for bag in points])
        for told, ratios in found.items():
            hessian, _ = corrected_class_gram(mean @ mean.T, np.eye(2), size, own, told)
            apart = hessian[1, 1] + hessian[0, 0] - 2 * hessian[0, 1]
            middle = mean.mean(axis=0)
            ratios.append(0.5 + (mean[1] - mean[0]) @ (truth - middle) / apart)
    assert abs(np.mean(found[dimension]) - 0.9) < 0.008
    assert np.mean(found[np.inf]) - 0.9 > 0.015


@settings(deadline=None, derandomize=True, max_examples=50)
@given(seed=seeds, n_bags=st.integers(3, 6), rank=st.integers(1, 6))
def test_every_contrast_keeps_half_of_its_size(seed, n_bags, rank):
    rng = np.random.default_rng(seed)
    factor = rng.uniform(size=(n_bags, rank)) / rank
    gram, size = factor @ factor.T, rng.integers(2, 9, size=n_bags)
    mixture = 0.5 * np.eye(3)[np.arange(n_bags) % 3] + 0.5 * rng.dirichlet(np.ones(3), size=n_bags)
    weights = class_weights(mixture, size)
    plain = class_gram(gram, weights)
    hessian, reliability = corrected_class_gram(gram, weights, size, np.ones(n_bags))
    contrast = rng.normal(size=(20, 3))
    contrast -= contrast.mean(axis=1, keepdims=True)
    before = np.einsum("ki,ij,kj->k", contrast, plain, contrast)
    after = np.einsum("ki,ij,kj->k", contrast, hessian, contrast)
    tolerance = 1e-9 * np.abs(plain).max() * (contrast**2).sum(axis=1)
    assert reliability <= 1
    assert (after >= before / 2 - tolerance).all()
    assert (after <= before + tolerance).all()


def test_parts_left_out_are_five_at_most_and_every_bag_is_in_one():
    rng = np.random.default_rng(0)
    mixture, size = rng.dirichlet(np.ones(2), size=23), np.full(23, 10)
    parts = parts_left_out(mixture)
    assert len(parts) == 5
    assert sorted(np.concatenate(parts)) == list(range(23))
    error = errors_left_out(np.array([mixture @ mixture.T]), mixture, size)
    assert error.shape == (1, 23)
    np.testing.assert_allclose(error, 0, atol=1e-6)  # the bags are exact mixtures


def test_a_bag_that_a_class_hangs_on_is_not_left_out():
    mixture = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.2, 0.8, 0.0], [0.0, 0.0, 1.0]])
    assert sorted(np.concatenate(parts_left_out(mixture))) == [0, 1, 2]


def test_nothing_to_leave_out_is_said():
    assert parts_left_out(np.eye(2)) == []
    assert errors_left_out(np.ones((2, 2, 2)), np.eye(2), np.array([5, 5])).shape == (2, 0)


def test_covariance_within_classes_is_that_of_labelled_points():
    """Oracle: the points' labels, which the function does not see. 20000 points; 10 sd are accepted."""
    rng = np.random.default_rng(0)
    share, label = np.array([0.3, 0.7]), np.repeat([0, 1], [6000, 14000])
    class_mean = np.array([[1.0, 0.2], [0.2, 0.8]])
    feature = class_mean[label] + 0.3 * rng.normal(size=(20000, 2))
    found = within_class_covariance(np.cov(feature, rowvar=False), share, class_mean)
    np.testing.assert_allclose(found, 0.09 * np.eye(2), atol=0.02)


def test_nodes_are_standard_normal_and_always_the_same():
    nodes = normal_nodes(6)
    assert (nodes == normal_nodes(6)).all()
    np.testing.assert_allclose(nodes.mean(axis=0), 0, atol=0.01)
    np.testing.assert_allclose(np.cov(nodes, rowvar=False), np.eye(6), atol=0.15)


def quantile_error(nodes):
    """Root mean square error of the 5 and 95 % points of 400 directions, in standard deviations."""
    direction = np.random.default_rng(1).standard_normal((nodes.shape[1], 400))
    direction /= np.linalg.norm(direction, axis=0)
    found = np.quantile(nodes @ direction, [0.05, 0.95], axis=0)
    return np.sqrt(np.square(np.abs(found) - norm.ppf(0.95)).mean())


@pytest.mark.parametrize("n_dimensions", range(2, 11))
def test_nodes_tell_quantiles_as_well_as_512_points_of_sobols_sequence(n_dimensions):
    sobol = qmc.MultivariateNormalQMC(np.zeros(n_dimensions), rng=np.random.default_rng(0))
    error = quantile_error(normal_nodes(n_dimensions))
    assert error <= 1.15 * quantile_error(sobol.random(512)) <= 0.08


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


@pytest.mark.parametrize("weight", [np.ones(1), np.array([1.0, 0.1]), 1 / np.arange(1.0, 60.0)])
@pytest.mark.parametrize("tail", [0.3, 0.01])
def test_the_tail_of_weighted_squares_is_within_a_tenth(weight, tail):
    """300,000 draws tell a tail of .01 to 2 %."""
    rng = np.random.default_rng(0)
    drawn = sum(one * rng.standard_normal(300_000) ** 2 for one in weight)
    value = float(np.quantile(drawn, 1 - tail))
    assert squares_tail(weight, value) == pytest.approx(tail, rel=0.12)
    assert squares_tail(1e-9 * weight, 1e-9 * value) == pytest.approx(squares_tail(weight, value))


@pytest.mark.parametrize("n_squares", [1, 2, 5])
def test_the_tail_of_equal_squares_is_chi_squares_within_a_tenth_and_far_out_within_a_sixth(
    n_squares,
):
    for tail in np.geomspace(1e-200, 0.5, 60):
        found = squares_tail(np.ones(n_squares), float(chi2.isf(tail, n_squares)))
        most = 1.1 if tail >= 1e-7 else 7 / 6
        assert 0.9 <= found / tail <= most


def test_the_tail_of_weighted_squares_falls_with_the_value_and_has_an_end():
    weight = np.array([1.0, 0.5, 0.0])
    tails = [
        squares_tail(weight, value) for value in (0.0, 0.5, 1.49, 1.5, 1.51, 5.0, 900.0, 1e300)
    ]
    assert tails[0] == 1.0
    assert tails == sorted(tails, reverse=True)
    assert tails[-1] == 0.0
    assert squares_tail(np.zeros(2), 1.0) == 0.0
    assert squares_tail(np.zeros(2), 0.0) == 1.0
