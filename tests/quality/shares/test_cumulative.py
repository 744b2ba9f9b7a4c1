"""Cumulative shares: consistent bands that hold whenever the given intervals do."""

import numpy as np
import pytest

from quality.shares import cumulative_band, noisy_shares, normal_band


def test_a_band_does_not_fall_contains_the_shares_and_lies_within_one(
    rng: np.random.Generator,
) -> None:
    for _ in range(200):
        share = rng.dirichlet(np.ones(5))
        middle, reach = np.cumsum(share)[:-1] + rng.normal(0, 0.2, 4), rng.random(4)
        band = cumulative_band(share, middle - reach, middle + reach)
        for part in (band.share, band.low, band.high):
            assert np.all(np.diff(part) >= 0)
            assert np.all((part >= 0) & (part <= 1))
        assert np.all((band.low <= band.share) & (band.share <= band.high))
        assert band.share[-1] == band.low[-1] == band.high[-1] == 1


def test_a_band_holds_whenever_the_given_intervals_do(rng: np.random.Generator) -> None:
    n_held = 0
    for _ in range(2_000):
        true, share = rng.dirichlet(np.ones(4)), rng.dirichlet(np.ones(4))
        reached, middle = np.cumsum(true)[:-1], rng.random(3)
        low, high = middle - 0.4, middle + 0.4
        if np.all((low <= reached) & (reached <= high)):
            band = cumulative_band(share, low, high)
            assert np.all((band.low[:-1] <= reached) & (reached <= band.high[:-1]))
            at, least, most = band.mean_place()
            assert least - 1e-12 <= 1 + true @ np.arange(4) <= most + 1e-12
            assert least <= at <= most
            n_held += 1
    assert n_held > 100


def test_what_is_not_known_stays_so() -> None:
    band = cumulative_band(np.array([0.2, 0.3, 0.5]), np.full(2, np.nan), np.full(2, np.nan))
    assert np.isnan(band.low[:-1]).all()
    assert band.share == pytest.approx([0.2, 0.5, 1.0])


def test_a_boundary_of_which_nothing_is_known_has_what_its_neighbours_leave() -> None:
    share, nan = np.full(4, 0.25), np.nan
    band = cumulative_band(share, np.array([0.2, nan, 0.7]), np.array([0.3, nan, 0.8]))
    assert band.low == pytest.approx([0.2, 0.2, 0.7, 1.0])
    assert band.high == pytest.approx([0.3, 0.8, 0.8, 1.0])
    first = cumulative_band(share, np.array([nan, 0.4, nan]), np.array([nan, 0.6, nan]))
    assert first.low == pytest.approx([0.0, 0.4, 0.4, 1.0])
    assert first.high == pytest.approx([0.6, 0.6, 1.0, 1.0])
    assert np.isfinite(first.mean_place()).all()


def test_a_normal_band_covers_all_classes_at_once(rng: np.random.Generator) -> None:
    """Of 4,000 draws; five standard errors below .9: a false alarm in 3e-7."""
    true = np.array([0.1, 0.25, 0.3, 0.2, 0.15])
    basis = rng.normal(size=(5, 5)) * 0.01
    covariance = (np.eye(5) - 0.2) @ basis @ basis.T @ (np.eye(5) - 0.2)
    drawn = rng.multivariate_normal(true, covariance, size=4_000, method="svd")
    reached, hits = np.cumsum(true)[:-1], 0
    for one in drawn:
        band = normal_band(true, one, covariance, 0.9)
        hits += bool(np.all((band.low[:-1] <= reached) & (reached <= band.high[:-1])))
    assert hits / 4_000 >= 0.9 - 5 * np.sqrt(0.09 / 4_000)


def test_a_band_counts_the_tails_of_the_noise() -> None:
    """Laplace's law of variance 2 scale^2 lies within scale log(1 / (1 - level)) at its level."""
    centre, covariance = np.array([0.4, 0.6]), 2e-4 * np.array([[1, -1], [-1, 1.0]])
    band = normal_band(centre, centre, covariance, 0.95, kurtosis=3.0)
    assert band.high[0] - 0.4 == pytest.approx(0.01 * np.log(20), rel=0.01)
    assert 0.4 - band.low[0] == pytest.approx(0.01 * np.log(20), rel=0.01)


def test_the_error_of_corrected_shares_has_the_kurtosis_of_its_noise() -> None:
    """All of the noise's where there is nothing else; less where a sample adds to it."""
    noise = 100.0 * (np.eye(3) - 1 / 3)
    given = {"n_tasks": 1_000, "count_covariance": 0 * noise, "difference_covariance": noise}
    values = np.array([500.0, 300.0, 200.0]), np.array([12.0, -2.0, -10.0]), 30.0
    all_known = noisy_shares(*values, n_gold=1_000, difference_kurtosis=2.0, **given)
    sampled = noisy_shares(*values, n_gold=200, difference_kurtosis=2.0, **given)
    assert all_known.kurtosis == pytest.approx(2.0)
    assert 0 < sampled.kurtosis < 2.0
    assert noisy_shares(*values, n_gold=200, **given).kurtosis == 0.0


def test_corrected_shares_say_what_their_intervals_are_about() -> None:
    """All classes have a clear bias, so that intervals are the ordinary ones."""
    nothing = np.zeros((3, 3))
    found = noisy_shares(
        np.array([300.0, 400.0, 300.0]), np.array([80.0, -40.0, -40.0]), 90.0, n_tasks=1_000,
        n_gold=200, count_covariance=nothing, difference_covariance=nothing,
    )  # fmt: skip
    assert found.centre == pytest.approx([0.7, 0.2, 0.1])
    reach = 1.959964 * np.sqrt(np.diag(found.error))
    assert found.low == pytest.approx(np.minimum(found.centre - reach, found.share))
    assert found.high == pytest.approx(np.maximum(found.centre + reach, found.share))


@pytest.mark.parametrize("n", [0, 2, 4])
def test_boundaries_are_one_fewer_than_classes(n: int) -> None:
    with pytest.raises(ValueError, match="low and high must be of 3 boundaries"):
        cumulative_band(np.full(4, 0.25), np.zeros(n), np.ones(n))


def test_of_one_class_all_is_known() -> None:
    band = normal_band(np.ones(1), np.ones(1), np.full((1, 1), 0.01), 0.95)
    assert (band.share.tolist(), band.low.tolist(), band.high.tolist()) == ([1.0], [1.0], [1.0])


@pytest.mark.refusal
@pytest.mark.parametrize(
    ("centre", "covariance"), [(np.ones(3), np.eye(2)), (np.ones(2), np.ones((2, 1)))]
)
def test_an_estimate_of_other_classes_is_refused(
    centre: np.ndarray, covariance: np.ndarray
) -> None:
    with pytest.raises(ValueError, match="must be of the same classes, got"):
        normal_band(np.full(2, 0.5), centre, covariance, 0.95)


def test_a_level_out_of_range_is_refused() -> None:
    with pytest.raises(ValueError, match=r"level must be in \(0, 1\)"):
        normal_band(np.full(2, 0.5), np.full(2, 0.5), np.eye(2), 1.0)
