import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from learners.class_ratios.matched_means import NoisyShares
from learners.class_ratios.mean_matching import class_weights

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
