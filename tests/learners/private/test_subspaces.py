import dataclasses
import math
import sys

import numpy as np
import pytest
from scipy.stats import chi2, norm

from learners.private.subspaces import (
    DeflatedDirections,
    NoisyMoments,
    PrincipalSubspace,
    bingham_direction,
    bingham_plane,
    moments_query,
    private_subspace,
)
from privacy.accounting import exact
from privacy.audit import audit_losses
from privacy.query import Query, Unit
from tests.learners.scripted_noise import SeededNoise, SilentNoise

SPECTRA = [
    (3.0, 2.0, 1.0, 0.0),
    (6.0, 6.0, 0.0, 0.0),
    (9.0, 1.0, 1.0, 0.5, 0.0),
    (0.0, 0.0, 0.0),
]
SURE = 4.5  # standard errors: in one of 150,000 comparisons by chance


class Counting(SeededNoise):
    """Counts the directions proposed."""

    n = 0

    def direction(self, dimension):
        self.n += 1
        return super().direction(dimension)


def rows(seed=0, n=200, d=4):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)) * np.linspace(1, 0.2, d) / 2


def by_importance(spectrum, k, rng, draws=200_000):
    """Oracle: mean of the squared coordinates under exp(sum b_j v_j^2), from uniform frames, with errors."""
    b = np.array(spectrum)
    frame = np.linalg.qr(rng.normal(size=(draws, b.size, k)))[0]
    square = np.square(frame).sum(axis=2)
    weight = np.exp(square @ b - np.sort(b)[-k:].sum())
    mean = weight @ square / weight.sum()
    error = np.sqrt(np.square(weight[:, None] * (square - mean)).sum(axis=0)) / weight.sum()
    return mean, error


@pytest.mark.long
@pytest.mark.parametrize("spectrum", SPECTRA, ids=str)
@pytest.mark.parametrize(("k", "draw"), [(1, bingham_direction), (2, bingham_plane)])
def test_the_law_is_exact_by_importance_sampling(spectrum, k, draw, rng):
    noise = SeededNoise(1)
    drawn = np.array([draw(np.array(spectrum), noise) for _ in range(3000)])
    assert np.abs(drawn @ drawn.transpose(0, 2, 1) - np.eye(k)).max() < 1e-12
    square = np.square(drawn).sum(axis=1)
    mean, error = by_importance(spectrum, k, rng)
    spread = np.hypot(error, square.std(axis=0) / math.sqrt(len(square)))
    assert (np.abs(square.mean(axis=0) - mean) <= SURE * spread).all()


@pytest.mark.long
def test_the_basis_of_a_plane_shows_nothing_but_the_plane():
    """The plane is drawn as a direction orthogonal to the first axis and another; what leaves is turned."""
    noise = SeededNoise(3)
    drawn = np.array([bingham_plane(np.array([8.0, 1.0, 0.0]), noise) for _ in range(4000)])
    along = drawn[:, :, 0] / np.linalg.norm(drawn[:, :, 0], axis=1)[:, None]
    turn = np.arctan2(along[:, 1], along[:, 0])
    count = np.histogram(turn, bins=20, range=(-math.pi, math.pi))[0]
    assert np.square(count - 200).sum() / 200 < chi2.ppf(1 - 1e-6, 19)


@pytest.mark.parametrize("features", [5, 10, 50])
def test_a_direction_is_accepted_as_often_as_the_theory_says(features):
    """0.86 / sqrt(features), where one axis is far above the others."""
    noise, n = Counting(4), 400
    for _ in range(n):
        bingham_direction(np.append(1e4, np.zeros(features - 1)), noise)
    assert n / noise.n == pytest.approx(0.86 / math.sqrt(features), rel=0.25)


@pytest.mark.parametrize("axes", [1, 2, 5])
@pytest.mark.parametrize("height", [0.0, 1.0, 100.0, 1e4])
def test_no_spectrum_makes_draws_endless(axes, height):
    """On average, in the worst of the cases that the proof names and around them."""
    noise, features = Counting(5), 10
    spectrum = np.append(np.full(axes, height), np.zeros(features - axes))
    for _ in range(20):
        bingham_plane(spectrum, noise)
    assert noise.n / 20 < 20 * features * (1 + math.sqrt(height / features))


def loss_of(mechanism, x, k):
    """Mean of what the released subspace captures less than the best, times n epsilon / (k (d - k))."""
    query = moments_query(x, norm_bound=1.0, dataset="toy")
    moments = query.value["moments"]
    best = np.linalg.eigvalsh(moments)[-k:].sum()
    noise, lost = SeededNoise(6), []
    for _ in range(300):
        V = np.array(mechanism.draw(query, noise)["components"])
        lost.append(best - np.trace(V @ moments @ V.T))
    return np.mean(lost) * mechanism.epsilon / (k * (x.shape[1] - k))


@pytest.mark.parametrize("k", [1, 2])
def test_the_loss_is_components_times_the_other_features_over_epsilon(k):
    rng = np.random.default_rng(7)
    x = rng.normal(size=(20_000, 6)) * np.sqrt([0.4, 0.2, 0.02, 0.02, 0.01, 0.01])
    assert loss_of(PrincipalSubspace(1.0, k), x, k) == pytest.approx(1.0, abs=0.15)


def neighbours(seed):
    """Tiny data sets of two features that differ in one row, anywhere in the unit disc."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(3, 2))
    x /= np.maximum(1, np.linalg.norm(x, axis=1))[:, None]
    other = x.copy()
    turn = rng.uniform(0, 2 * math.pi)
    other[0] = [math.cos(turn), math.sin(turn)]
    return x, other


def log_density(x, epsilon, angle):
    """Of the direction at an angle, normalised by a sum over all angles: an oracle without the sampler."""
    direction = np.stack([np.cos(angle), np.sin(angle)])
    score = epsilon / 2 * np.square(x @ direction).sum(axis=0)
    return score - np.log(np.exp(score).sum())


def test_one_row_moves_the_density_of_a_direction_by_no_more_than_epsilon():
    angle = np.linspace(0, math.pi, 2000, endpoint=False)
    worst = 0.0
    for seed in range(300):
        x, other = neighbours(seed)
        worst = max(
            worst, np.abs(log_density(x, 1.0, angle) - log_density(other, 1.0, angle)).max()
        )
    assert 0.5 < worst <= 1.0


@pytest.mark.parametrize("seed", range(50))
def test_replacing_one_row_moves_the_moments_by_the_root_of_two_at_most(seed):
    x = 5 * rows(seed)
    other = x.copy()
    other[3] = -1e200 * x[4]
    change = [
        moments_query(one, norm_bound=1.0, dataset="toy").value["moments"] for one in (x, other)
    ]
    change = change[0] - change[1]
    assert np.linalg.norm(change) <= math.sqrt(2) + 1e-9
    value = np.linalg.eigvalsh(change)
    assert np.clip(value, 0, None).sum() <= 1 + 1e-9
    assert np.clip(-value, 0, None).sum() <= 1 + 1e-9


def test_cells_that_are_not_finite_count_as_zero():
    x = rows()
    x[0, 0], x[1, 1], x[2, 2] = np.nan, np.inf, -np.inf
    zero = np.where(np.isfinite(x), x, 0.0)
    found, expected = (
        moments_query(one, norm_bound=1.0, dataset="toy").value["moments"] for one in (x, zero)
    )
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)
    assert np.isnan(x[0, 0])


@pytest.mark.parametrize(
    ("size", "norm_bound"), [(1e300, 1e-300), (1.5e308, 1.0), (3.0, 5e-324), (1e-320, 1e-320)]
)
def test_a_row_any_times_longer_than_the_bound_is_shortened_to_it(size, norm_bound):
    """The ratio of cell and bound may be no double: it is not a cell of 0."""
    x = np.array([[size, size / 2], [0.0, 0.0], [np.nan, 2 * size if size < 1e308 else size]])
    moments = moments_query(x, norm_bound=norm_bound, dataset="toy").value["moments"]
    np.testing.assert_allclose(moments, [[0.8, 0.4], [0.4, 1.2]], rtol=1e-3)


@pytest.mark.parametrize("odd", [1e300, np.nan])
def test_no_row_decides_how_others_are_shortened(odd):
    """In the last digits all rows of a block would show whether one of them overflows."""
    x = rows(n=2000) * 3
    x[0] = 0.0
    expected = moments_query(x, norm_bound=0.7, dataset="toy").value["moments"]
    x[0, 0] = odd
    if odd == odd:  # the row that is shortened counts itself, along the first axis
        expected[0, 0] += 1.0
    found = moments_query(x, norm_bound=0.7, dataset="toy").value["moments"]
    np.testing.assert_array_equal(found.ravel()[1:], expected.ravel()[1:])
    assert found[0, 0] == pytest.approx(expected[0, 0], rel=1e-15)


@pytest.mark.refusal
def test_a_cell_too_large_for_a_double_counts_as_zero():
    x = np.zeros((3, 2), dtype=np.longdouble)
    x[0], x[1, 0] = 0.5, np.longdouble("1e3000")
    moments = moments_query(x, norm_bound=1.0, dataset="toy").value["moments"]
    assert (moments == 0.25).all()


@pytest.mark.parametrize("kind", [np.float16, np.float32])
def test_rows_of_short_floats_have_the_moments_of_their_doubles(kind):
    x = (10 * rows()).astype(kind)
    short, long = (
        moments_query(one, norm_bound=0.7, dataset="toy").value["moments"]
        for one in (x, x.astype(np.float64))
    )
    assert (short == long).all()


def test_blocks_of_rows_have_the_moments_of_the_whole():
    x = rows(n=40_000)
    length = np.maximum(1, np.linalg.norm(x / 0.7, axis=1))
    clipped = x / 0.7 / length[:, None]
    found = moments_query(x, norm_bound=0.7, dataset="toy").value["moments"]
    np.testing.assert_allclose(found, clipped.T @ clipped, rtol=1e-10)


def test_some_rows_have_the_moments_that_they_have_alone():
    x = np.random.default_rng(2).normal(size=(6000, 4))
    places = np.flatnonzero(x[:, 0] > 0)
    some, alone = (
        moments_query(rows, norm_bound=1.5, dataset="toy", **which)
        for rows, which in ((x, {"places": places}), (x[places], {}))
    )
    assert some.n == alone.n == len(places)
    assert some.value["moments"].tobytes() == alone.value["moments"].tobytes()


def test_the_deviation_is_the_smallest_that_costs_the_claim():
    """Theorem 8 of Balle and Wang (2018), computed anew, for a sensitivity of the root of 2."""
    for epsilon, delta in ((0.1, 1e-6), (1.0, 1e-6), (3.0, 1e-3)):
        mu = math.sqrt(2) / NoisyMoments(epsilon, delta, 1).deviation
        realised = norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(
            -mu / 2 - epsilon / mu
        )
        assert realised <= delta
        assert realised == pytest.approx(delta, rel=1e-4)


class UnitNoise(SilentNoise):
    """A Gaussian vector of ones."""

    def gamma(self, shape, scale):
        return shape * scale

    def direction(self, dimension):
        return np.full(dimension, dimension**-0.5)


def test_no_released_variance_is_negative():
    """Noise alone has as many eigenvalues below 0 as above it; the third of four is one in these draws."""
    query = moments_query(np.zeros((5, 4)), norm_bound=1.0, dataset="toy")
    mechanism = NoisyMoments(1.0, 1e-6, 3)
    found = [mechanism.draw(query, SeededNoise(seed))["variance"] for seed in range(10)]
    assert min(map(min, found)) == 0.0 < min(one[0] for one in found)


def test_the_noise_is_less_off_the_diagonal_by_the_root_of_two():
    query = moments_query(np.eye(3), norm_bound=1.0, dataset="toy")
    mechanism = NoisyMoments(1.0, 1e-3, 2)
    s = mechanism.deviation
    noisy = np.eye(3) + np.full((3, 3), s / math.sqrt(2)) + (1 - 1 / math.sqrt(2)) * s * np.eye(3)
    value, vector = np.linalg.eigh(noisy)
    found = mechanism.draw(query, UnitNoise())
    np.testing.assert_allclose(found["variance"], value[:0:-1] / 3, atol=1e-12)
    top = np.array(found["components"][0])
    assert abs(top @ vector[:, -1]) == pytest.approx(1.0)


def gaussian_losses(claimed, sold):
    """Privacy losses of noisy moments whose one row turns from the first axis to the second."""
    mechanism = NoisyMoments(sold, 1e-3, 1)
    change = np.diag([1.0, -1.0])
    s = mechanism.deviation
    scale = np.where(np.eye(2, dtype=bool), s, s / math.sqrt(2))
    rng, losses = np.random.default_rng(8), []
    for sign in (1, -1):
        drawn = np.triu(rng.normal(size=(4000, 2, 2)))
        loss = (sign * np.triu(change) / scale * drawn).sum(axis=(1, 2)) * sign
        losses.append(loss + sign * np.square(np.triu(change) / scale).sum() / 2)
    return audit_losses(*losses, epsilon=claimed)


def test_the_audit_does_not_refute_the_claim_and_catches_too_little_noise():
    assert not gaussian_losses(1.0, 1.0).refutes(1e-3)
    assert gaussian_losses(1.0, 6.0).refutes(1e-3)


@pytest.mark.parametrize("k", [1, 3])
def test_deflated_components_are_orthonormal_and_share_epsilon(k):
    mechanism = DeflatedDirections(0.9, k)
    query = moments_query(rows(), norm_bound=1.0, dataset="toy")
    V = np.array(mechanism.draw(query, SeededNoise(9))["components"])
    np.testing.assert_allclose(V @ V.T, np.eye(k), atol=1e-12)
    assert mechanism.event(query).cost().epsilon == exact(0.9)


def test_a_deflated_direction_is_drawn_at_its_share_of_epsilon():
    """The first direction's law is that of half of epsilon, by importance sampling."""
    query = moments_query(4 * rows(d=3, n=60), norm_bound=1.0, dataset="toy")
    value, vector = np.linalg.eigh(query.value["moments"])
    noise = SeededNoise(10)
    mechanism = DeflatedDirections(0.6, 2)
    drawn = np.array(
        [np.array(mechanism.draw(query, noise)["components"])[0] @ vector for _ in range(2000)]
    )
    mean, error = by_importance(0.6 / 4 * value, 1, np.random.default_rng(0))
    spread = np.hypot(error, np.square(drawn).std(axis=0) / math.sqrt(len(drawn)))
    assert (np.abs(np.square(drawn).mean(axis=0) - mean) <= SURE * spread).all()


MECHANISMS = [NoisyMoments(1.0, 1e-3, 2), PrincipalSubspace(1.0, 2), DeflatedDirections(1.0, 2)]


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_the_event_depends_on_public_things_alone(mechanism):
    first, second = (
        mechanism.event(moments_query(one, norm_bound=1.0, dataset="toy"))
        for one in (rows(0), np.zeros((200, 4)))
    )
    assert first == second
    assert first.parameters == second.parameters
    assert first.parameters["n"] == 200


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_a_query_without_moments_of_enough_features_is_refused_unpaid(mechanism):
    other = Query("toy", "rows", {"x": rows()}, Unit.ROW, n=200, l1=2.0)
    with pytest.raises(ValueError, match="build it with moments_query"):
        mechanism.event(other)
    with pytest.raises(ValueError, match="n_components=2 with n_features=2"):
        mechanism.event(moments_query(rows(d=2), norm_bound=1.0, dataset="toy"))


def test_one_row_in_a_thousand_in_the_clear_is_refused():
    with pytest.raises(ValueError, match="delta must be below 1/n"):
        MECHANISMS[0].event(moments_query(rows(n=1000), norm_bound=1.0, dataset="toy"))


def test_the_choice_follows_from_public_numbers():
    assert private_subspace(1.0, 1e-6, n_components=1) == NoisyMoments(1.0, 1e-6, 1)
    assert private_subspace(1.0, 0.0, n_components=2) == PrincipalSubspace(1.0, 2)
    assert private_subspace(1.0, 0.0, n_components=3) == DeflatedDirections(1.0, 3)


@pytest.mark.refusal
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_a_number_of_components_may_be_numpys(mechanism):
    given = dataclasses.replace(mechanism, n_components=np.int64(mechanism.n_components))
    query = moments_query(rows(), norm_bound=1.0, dataset="toy")
    assert given.event(query) == mechanism.event(query)


REFUSED = [
    (lambda: PrincipalSubspace(1.0, 3), "n_components must be 1 or 2"),
    (lambda: PrincipalSubspace(0.0, 1), "epsilon must be > 0"),
    (lambda: DeflatedDirections(math.inf, 1), "epsilon must be > 0"),
    (lambda: DeflatedDirections(1.0, 0), "n_components must be a whole number >= 1"),
    (lambda: DeflatedDirections(1.0, 2.0), "n_components must be a whole number >= 1, got"),
    (lambda: NoisyMoments(1.0, 1e-6, 2.5), "n_components must be a whole number >= 1, got"),
    (lambda: PrincipalSubspace(1.0, 1.5), "n_components must be a whole number >= 1, got"),
    (lambda: NoisyMoments(1.0, 0.0, 1), "delta"),
    (lambda: moments_query(rows(), norm_bound=0.0, dataset="toy"), "norm_bound must be > 0"),
    (lambda: moments_query(rows()[0], norm_bound=1.0, dataset="toy"), "x must be a float matrix"),
]


@pytest.mark.refusal
@pytest.mark.parametrize(
    ("made", "words"), REFUSED, ids=lambda one: one if isinstance(one, str) else ""
)
def test_a_knob_out_of_range_is_refused(made, words):
    with pytest.raises(ValueError, match=words):
        made()


@pytest.mark.parametrize("n_components", [1, 2])
@pytest.mark.parametrize("kind", [PrincipalSubspace, DeflatedDirections])
def test_the_largest_prices_draw_the_leading_directions(kind, n_components):
    """Their products with moments were infinite, and failed the draw after the payment."""
    x = np.diag([3.0, 2.0, 1.0]) / 3
    query = moments_query(np.vstack([x] * 5), norm_bound=1.0, dataset="toy")
    found = kind(sys.float_info.max, n_components).draw(query, SeededNoise(0))
    share = np.square(found["components"]).sum(axis=0)
    np.testing.assert_allclose(share, [1.0, float(n_components == 2), 0.0], atol=1e-9)
