"""Shares from noisy counts: their guarantees, and what is left where there is no noise."""

import numpy as np
import pytest

from quality.shares import noisy_shares

NONE = np.zeros((3, 3))
KNOWN = {"n_tasks": 1_000, "n_gold": 200, "count_covariance": NONE, "difference_covariance": NONE}
COUNTS, DIFFERENCE = np.array([500.0, 300.0, 200.0]), np.array([-30.0, 10.0, 20.0])


def test_shares_lie_on_the_simplex_and_within_their_intervals() -> None:
    """Also where the noisy numbers are no possible counts."""
    noise = 400.0 * (np.eye(3) - 1 / 3)
    for counts in (COUNTS, np.array([1_200.0, -100.0, -100.0])):
        found = noisy_shares(
            counts, DIFFERENCE, -3.0, n_tasks=1_000, n_gold=20, count_covariance=noise,
            difference_covariance=noise,
        )  # fmt: skip
        assert found.share.sum() == pytest.approx(1)
        assert (found.share >= 0).all()
        assert ((found.low <= found.share) & (found.share <= found.high)).all()
        assert ((found.low >= 0) & (found.high <= 1)).all()


def test_without_noise_and_with_much_gold_the_correction_is_taken_whole() -> None:
    many = KNOWN | {"n_tasks": 100_000, "n_gold": 90_000}
    found = noisy_shares(100 * COUNTS, 450 * DIFFERENCE, 20_000.0, **many)
    np.testing.assert_allclose([0.35, 0.35, 0.3], found.share, atol=1e-3)


def test_under_much_noise_the_share_is_the_count() -> None:
    wide = KNOWN | {"difference_covariance": 1e6 * (np.eye(3) - 1 / 3)}
    found = noisy_shares(COUNTS, DIFFERENCE, 30.0, **wide)
    np.testing.assert_allclose(COUNTS / 1_000, found.share, atol=0.06)
    np.testing.assert_array_equal(0, found.low)
    np.testing.assert_array_equal(1, found.high)


def test_the_interval_counts_both_noises_and_the_sample() -> None:
    base = noisy_shares(COUNTS, DIFFERENCE, 40.0, **KNOWN)
    for name in ("count_covariance", "difference_covariance"):
        wider = noisy_shares(COUNTS, DIFFERENCE, 40.0, **KNOWN | {name: 100.0 * np.eye(3)})
        assert (wider.high - wider.low > base.high - base.low).all()
    assert (base.high - base.low > 0.02).all()


def test_the_order_of_classes_plays_no_part() -> None:
    order = np.array([2, 0, 1])
    one = noisy_shares(COUNTS, DIFFERENCE, 40.0, **KNOWN)
    other = noisy_shares(COUNTS[order], DIFFERENCE[order], 40.0, **KNOWN)
    np.testing.assert_allclose(one.share[order], other.share)
    np.testing.assert_allclose(one.covariance[order][:, order], other.covariance, atol=1e-12)


def test_the_accuracy_is_that_of_the_gold_tasks() -> None:
    found = noisy_shares(COUNTS, DIFFERENCE, 40.0, **KNOWN)
    assert found.accuracy == pytest.approx(0.8, abs=0.005)


def test_numbers_out_of_range_are_refused() -> None:
    with pytest.raises(ValueError, match="n_gold must be from 1"):
        noisy_shares(COUNTS, DIFFERENCE, 40.0, **KNOWN | {"n_gold": 0})
    with pytest.raises(ValueError, match="level must be in"):
        noisy_shares(COUNTS, DIFFERENCE, 40.0, **KNOWN, level=0.0)
    with pytest.raises(ValueError, match="finite"):
        noisy_shares(COUNTS * np.nan, DIFFERENCE, 40.0, **KNOWN)
