"""Shares from noisy counts: their guarantees, and what is left where there is no noise."""

import numpy as np
import pytest

from quality.shares import noisy_shares, released

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
    with pytest.raises(ValueError, match="n_wrong and kurtoses must be finite, got n_wrong=nan"):
        noisy_shares(COUNTS, DIFFERENCE, np.nan, **KNOWN)


@pytest.mark.refusal
@pytest.mark.parametrize("covariance", [np.zeros((2, 2)), np.full((3, 3), np.nan)])
def test_a_covariance_of_other_classes_is_refused(covariance: np.ndarray) -> None:
    for name in ("count_covariance", "difference_covariance"):
        with pytest.raises(ValueError, match=f"{name} must be 3 x 3 finite numbers"):
            noisy_shares(COUNTS, DIFFERENCE, 40.0, **KNOWN | {name: covariance})


def test_all_tasks_with_gold_and_no_noise_give_the_exact_shares() -> None:
    whole = KNOWN | {"n_gold": 1_000}
    found = noisy_shares(COUNTS, 5 * DIFFERENCE, 200.0, **whole)
    np.testing.assert_allclose([0.35, 0.35, 0.3], found.share, atol=1e-6)
    np.testing.assert_allclose(found.low, found.high, atol=1e-6)


def test_the_interval_counts_the_tails_of_the_noise() -> None:
    """At 99 % Laplace noise reaches farther than normal noise of its variance."""
    wide = KNOWN | {"level": 0.99} | {"difference_covariance": 400.0 * (np.eye(3) - 1 / 3)}
    normal = noisy_shares(COUNTS, DIFFERENCE, 40.0, **wide)
    heavy = noisy_shares(COUNTS, DIFFERENCE, 40.0, **wide, difference_kurtosis=3.0)
    counts = noisy_shares(COUNTS, DIFFERENCE, 40.0, **wide, count_kurtosis=3.0)
    assert (heavy.high - heavy.low > normal.high - normal.low).all()
    np.testing.assert_array_equal(normal.high, counts.high)  # of noise there is none


def test_the_interval_holds_the_count_until_a_bias_is_clear() -> None:
    """Noise of 12 gold tasks on each class; a correction of 30 of 200, and of 140."""
    noise = KNOWN | {"difference_covariance": 216.0 * (np.eye(3) - 1 / 3)}
    count = COUNTS / 1_000
    unclear = noisy_shares(COUNTS, np.array([-30.0, 30.0, 0.0]), 90.0, **noise)
    assert ((unclear.low <= count) & (count <= unclear.high)).all()
    clear = noisy_shares(COUNTS, np.array([-140.0, 140.0, 0.0]), 160.0, **noise)
    assert clear.high[0] < count[0]
    assert clear.low[1] > count[1]


def test_the_interval_is_shorter_than_one_of_both_sides_where_the_count_is_right() -> None:
    noise = KNOWN | {"difference_covariance": 216.0 * (np.eye(3) - 1 / 3)}
    found = noisy_shares(COUNTS, np.zeros(3), 30.0, **noise)
    ordinary = 2 * 1.96 * np.sqrt(np.diag(found.error))
    assert (found.high - found.low < 0.9 * ordinary).all()


def test_a_bias_within_the_noise_is_left_out_and_one_beyond_it_is_taken() -> None:
    """The same noise; a correction of half its spread, and of eight times."""
    noise = KNOWN | {"difference_covariance": 150.0 * (np.eye(3) - 1 / 3)}
    small, large = np.array([-5.0, 5.0, 0.0]), np.array([-80.0, 80.0, 0.0])
    told = noisy_shares(COUNTS, small, 90.0, **noise).share - COUNTS / 1_000
    assert np.abs(told).sum() < 0.2 * np.abs(small).sum() / 200
    taken = noisy_shares(COUNTS, large, 90.0, **noise).share - COUNTS / 1_000
    assert np.abs(taken).sum() > 0.7 * np.abs(large).sum() / 200


def test_the_share_is_the_mean_of_normal_laws_given_what_was_released() -> None:
    """Against every pair of spreads solved whole, without the axes that take them apart."""
    k, n_tasks, n_gold = 3, 1_000, 200
    flat = np.eye(k) - 1 / k
    counts, difference, n_wrong = COUNTS, np.array([-40.0, 28.0, 12.0]), 60.0
    covariances = 90.0 * flat, 60.0 * flat
    found = noisy_shares(
        counts, difference, n_wrong, n_tasks=n_tasks, n_gold=n_gold,
        count_covariance=covariances[0], difference_covariance=covariances[1],
    )  # fmt: skip
    said, bias = counts / n_tasks, difference / n_gold
    wrong = (n_wrong + released.LEAST_WRONG) / (n_gold + 1)
    sampled = (1 - n_gold / n_tasks) / n_gold * released._errors(wrong, said, said)
    noise = np.zeros((2 * k, 2 * k))
    noise[:k, :k] = covariances[0] / n_tasks**2
    noise[k:, k:] = covariances[1] / n_gold**2 + sampled
    seen = np.concatenate([said - 1 / k, bias])
    means, weights = [], []
    for spread in released.SPREADS**2:
        for size, odds in zip((released.BIASES * wrong / k) ** 2, released.ODDS, strict=True):
            for prior, target in (
                ([[spread, 0], [0, size]], [spread, size]),
                ([[spread + size, -size], [-size, size]], [spread, 0]),
            ):
                total = np.kron(prior, flat) + noise
                inverse = np.linalg.pinv(total, rcond=1e-9, hermitian=True)
                values = np.linalg.eigvalsh(total)[-(2 * k - 2) :]
                means.append(1 / k + np.kron([target], flat) @ inverse @ seen)
                weights.append(np.log(odds) - (seen @ inverse @ seen + np.log(values).sum()) / 2)
    weight = np.exp(np.array(weights) - max(weights))
    expected = weight @ np.array(means) / weight.sum()
    np.testing.assert_allclose(expected, found.share, atol=1e-6)


@pytest.mark.long
@pytest.mark.parametrize("epsilon", [0.3, 3.0])
def test_intervals_hold_the_share_as_often_as_they_say(
    epsilon: float, rng: np.random.Generator
) -> None:
    """Two classes, 1,000 draws of gold and lattice noise; five standard errors about .95: 6e-7.

    On two classes the noise is a discrete Laplace law of half the scale, drawn once.
    """
    whole = np.array([[430, 90], [40, 440]])  # by consensus and truth
    truth, draws, hits = 0.47, 1_000, 0
    laws = [_two_sided(2 / (0.25 * epsilon)), _two_sided(4 / (0.75 * epsilon))]
    tables = rng.multivariate_hypergeometric(whole.ravel(), 200, size=draws).reshape(-1, 2, 2)
    noises = [
        rng.geometric(odds, (draws, 2)) @ np.array([1, -1])
        for odds in (laws[0][0], laws[1][0], laws[1][0])
    ]
    for table, of_counts, of_difference, of_wrong in zip(tables, *noises, strict=True):
        moved = float(table[1, 0] - table[0, 1] + of_difference)
        found = noisy_shares(
            np.array([520.0 + of_counts, 480.0 - of_counts]), np.array([moved, -moved]),
            float(table[0, 1] + table[1, 0] + of_wrong), n_tasks=1_000, n_gold=200,
            count_covariance=laws[0][1], difference_covariance=laws[1][1],
            count_kurtosis=laws[0][2], difference_kurtosis=laws[1][2],
        )  # fmt: skip
        hits += bool(found.low[0] <= truth <= found.high[0])
    assert abs(hits / draws - 0.95) < 5 * np.sqrt(0.0475 / draws)


def _two_sided(scale: float) -> tuple[float, np.ndarray, float]:
    """Odds of a geometric number, covariance and kurtosis of lattice noise on two classes."""
    q = np.exp(-2 / scale)
    variance = 2 * q / (1 - q) ** 2
    return 1 - q, variance * np.array([[1, -1], [-1, 1.0]]), (1 + 4 * q + q * q) / (2 * q)


@pytest.mark.parametrize("name", ["count_covariance", "difference_covariance"])
def test_a_negative_variance_is_refused(name: str) -> None:
    given = {one: np.zeros((2, 2)) for one in ("count_covariance", "difference_covariance")}
    given[name] = -np.eye(2)
    with pytest.raises(ValueError, match=f"{name} must have variances >= 0, got -1"):
        noisy_shares(np.array([50.0, 50.0]), np.zeros(2), 3.0, n_tasks=100, n_gold=20, **given)
