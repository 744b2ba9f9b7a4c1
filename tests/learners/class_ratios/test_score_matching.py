import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from learners.class_ratios.bags import LabelledBags
from learners.class_ratios.score_matching import (
    GroupOutputs,
    ScoreMatcher,
    cross_fitted,
    density_ratios,
    fold_of_points,
    match_outputs,
    mixture_scores,
)

MIXTURE = np.array([[0.8, 0.2], [0.3, 0.7], [0.1, 0.9]])
seeds = st.integers(0, 2**32 - 1)


def bags_of(seed, size=300, mixture=MIXTURE):
    """Two normal classes two standard deviations apart; the points' labels follow the shares."""
    rng = np.random.default_rng(seed)
    points, shares = [], []
    for share in mixture:
        label = rng.choice(2, size=size, p=share)
        points.append(rng.normal(size=(size, 1)) + 2.0 * label[:, None])
        shares.append([1 - label.mean(), label.mean()])
    return LabelledBags.of(points, np.array(shares))


def true_outputs(labelled, distortion=lambda output: output):
    """E[P | x] from the true densities, the same for every fold."""

    def predict(x):
        density = np.exp(-0.5 * (x - [[0.0, 2.0]]) ** 2)
        size, mixture = labelled.size, labelled.mixture
        bag = (density @ mixture.T) * size
        return distortion(bag / bag.sum(axis=1, keepdims=True) @ mixture)

    return GroupOutputs(tuple(map(predict, labelled.points)), (predict,), np.asarray)


@settings(deadline=None, derandomize=True, max_examples=20)
@given(seed=seeds)
def test_affine_maps_of_the_outputs_do_not_matter_to_matching(seed):
    rng = np.random.default_rng(seed)
    labelled = bags_of(seed)
    outputs, new = true_outputs(labelled), rng.normal(size=(50, 1)) + 1.0
    A, shift = rng.normal(size=(2, 2)) + 3 * np.eye(2), rng.normal(size=2)
    plain = match_outputs(labelled, outputs.labelled, outputs(new))
    moved = match_outputs(
        labelled, tuple(out @ A + shift for out in outputs.labelled), outputs(new) @ A + shift
    )
    np.testing.assert_allclose(moved[0].ratio(moved[1]), plain[0].ratio(plain[1]), atol=1e-6)


def test_density_ratios_are_those_of_the_classes():
    """Oracle: the densities themselves, where they are above the cut."""
    labelled = bags_of(0)
    x = np.linspace(-1, 3, 9)[:, None]
    density = np.exp(-0.5 * (x - [[0.0, 2.0]]) ** 2)
    pooled = density @ (labelled.mixture.T @ labelled.size / labelled.size.sum())
    found = density_ratios(true_outputs(labelled)(x)[0], labelled)
    np.testing.assert_allclose(found, density / pooled[:, None], rtol=1e-9)


@settings(deadline=None, derandomize=True, max_examples=20)
@given(seed=seeds)
def test_scores_are_bounded_and_average_to_one_under_their_ratio(seed):
    rng = np.random.default_rng(seed)
    density, ratio = rng.uniform(0.01, 5, size=(30, 3)), rng.dirichlet(np.ones(3))
    score = mixture_scores(density, ratio)
    assert score.max() <= 3 / 0.1 + 1e-9
    np.testing.assert_allclose(score @ (0.9 * ratio + 0.1 / 3), 1, rtol=1e-12)


def errors(distortion, n_draws=60):
    """L1 errors of the scores at a share of 0.6, for outputs distorted alike in every draw."""
    found = []
    for seed in range(n_draws):
        labelled = bags_of([seed, 3], size=2000)
        rng = np.random.default_rng([seed, 5])
        label = rng.choice(2, size=1000, p=[0.4, 0.6])
        means, product = ScoreMatcher(labelled, true_outputs(labelled, distortion)).match(
            rng.normal(size=(1000, 1)) + 2.0 * label[:, None]
        )
        found.append(means.ratio(product)[1] - label.mean())
    return np.array(found)


def test_badly_calibrated_outputs_bias_nothing():
    """Outputs squeezed by a cube root: the mean error of 60 draws is within five standard errors of 0.

    The likelihood's maximum on the same outputs is off by more than twenty.
    """
    from benchmarks.learners.set_likelihood import set_likelihood

    def squeezed(output):
        moved = np.cbrt(output - 0.5)
        return 0.5 + 0.3 * moved

    error = errors(squeezed)
    assert abs(error.mean()) < 5 * error.std() / 60**0.5
    off = []
    for seed in range(10):
        labelled = bags_of([seed, 3], size=2000)
        rng = np.random.default_rng([seed, 5])
        label = rng.choice(2, size=1000, p=[0.4, 0.6])
        new = true_outputs(labelled, squeezed)(rng.normal(size=(1000, 1)) + 2.0 * label[:, None])
        density = density_ratios(new[0], labelled)
        off.append(set_likelihood(density).ratio[1] - label.mean())
    assert abs(np.mean(off)) > 20 * error.std() / 60**0.5


def test_no_labelled_output_comes_from_a_model_that_saw_its_point():
    labelled = LabelledBags.of(
        [np.arange(20.0)[:, None], np.arange(20.0, 45.0)[:, None]], np.eye(2)
    )
    seen = []

    def train(x, target):
        seen.append(set(x.ravel()))
        model = float(len(seen) - 1)
        return lambda new: np.full((len(new), 2), model)

    outputs = cross_fitted(labelled, train)
    model = np.concatenate(outputs.labelled)[:, 0].astype(int)
    assert all(x not in seen[k] for x, k in zip(np.arange(45.0), model, strict=True))
    assert (np.bincount(fold_of_points(labelled)) == 9).all()


def test_outputs_that_never_vary_are_not_identifiable():
    labelled = bags_of(0, size=20)
    flat = tuple(np.full((20, 2), 0.5) for _ in range(3))
    means, product = match_outputs(labelled, flat, np.full((1, 7, 2), 0.5))
    assert not np.linalg.cond(means.hessian) <= 1e8
    assert means.ratio(product).sum() == pytest.approx(1)
