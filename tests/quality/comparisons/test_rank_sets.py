"""Simultaneous intervals of ranks."""

import numpy as np
import pytest

from quality import rank_intervals


def test_all_ranks_are_covered_at_once() -> None:
    """300 draws at .9; a false alarm in fewer than one of a million."""
    rng = np.random.default_rng(0)
    truth = np.array([2.0, 1.6, 1.0, 0.9, 0.0, -1.0])
    mixed = rng.normal(size=(6, 6)) * 0.15
    covariance = mixed @ mixed.T + 0.02 * np.eye(6)
    rank, held = np.arange(1, 7), 0
    for _ in range(300):
        score = rng.multivariate_normal(truth, covariance)
        found = rank_intervals(score, covariance, level=0.9, n_draws=300, rng=rng)
        held += bool(np.all((found.best <= rank) & (rank <= found.worst)))
    assert held / 300 > 0.82


def test_every_items_own_rank_lies_in_its_interval() -> None:
    rng = np.random.default_rng(1)
    found = rank_intervals(rng.normal(size=20), np.eye(20) * 0.3, rng=rng)
    assert ((found.best <= found.rank) & (found.rank <= found.worst)).all()


def test_a_higher_level_never_narrows_one() -> None:
    score = np.random.default_rng(2).normal(size=15)
    low, high = (
        rank_intervals(score, np.eye(15) * 0.05, level=level, rng=np.random.default_rng(3))
        for level in (0.5, 0.99)
    )
    assert (high.best <= low.best).all()
    assert (high.worst >= low.worst).all()


def test_the_threshold_is_the_quantile_of_all_differences_of_all_items() -> None:
    """Oracle: each draw's table of differences, whole; 130 draws are three blocks."""
    mixed = np.random.default_rng(4).normal(size=(12, 12))
    covariance = mixed @ mixed.T
    found = rank_intervals(
        np.zeros(12), covariance, level=0.9, n_draws=130, rng=np.random.default_rng(5)
    )
    root, basis = np.linalg.eigh(covariance)
    rng, drawn = np.random.default_rng(5), []
    for some in (64, 64, 2):
        drawn += list(rng.standard_normal((some, 12)) @ (basis * np.sqrt(root)).T)
    variance = np.diagonal(covariance)
    error = np.sqrt(variance[:, None] + variance - 2 * covariance)
    np.fill_diagonal(error, np.inf)
    largest = [np.max(np.abs(one[:, None] - one) / error) for one in drawn]
    assert found.threshold == pytest.approx(np.quantile(largest, 0.9), rel=1e-12)


def test_items_that_are_known_exactly_alike_are_not_told_apart() -> None:
    found = rank_intervals(np.zeros(3), np.zeros((3, 3)), rng=np.random.default_rng(0))
    assert found.best.tolist() == [1, 1, 1]
    assert found.worst.tolist() == [3, 3, 3]


@pytest.mark.parametrize("level", [0.0, 1.0])
def test_the_level_is_a_probability(level: float) -> None:
    with pytest.raises(ValueError, match="level must be above 0 and below 1"):
        rank_intervals(np.zeros(2), np.eye(2), level=level, rng=np.random.default_rng(0))


def test_draws_too_few_for_the_level_are_refused() -> None:
    """Of 100 draws at .999 the quantile is that of the largest, whatever the level."""
    for level, n_draws in ((0.999, 900), (0.9999, 2_000)):
        with pytest.raises(ValueError, match="n_draws must be >= 1 / .* = 1"):
            rank_intervals(
                np.zeros(2), np.eye(2), level=level, n_draws=n_draws, rng=np.random.default_rng(0)
            )
    for level, n_draws in ((0.99, 100), (0.95, 20), (0.9, 10)):
        rank_intervals(
            np.zeros(2), np.eye(2), level=level, n_draws=n_draws, rng=np.random.default_rng(0)
        )


@pytest.mark.refusal
def test_scores_of_any_numbers_are_ranked_and_others_refused() -> None:
    rng, covariance = np.random.default_rng(0), np.eye(3) * 1e-4
    assert rank_intervals(np.array([0, 1, 2], "u1"), covariance, rng=rng).rank.tolist() == [3, 2, 1]
    with pytest.raises(ValueError, match="score and covariance must be finite"):
        rank_intervals(np.array([0, np.nan, 2]), covariance, rng=rng)
    with pytest.raises(ValueError, match="n_draws must be >= 1, got 0"):
        rank_intervals(np.zeros(3), covariance, n_draws=0, rng=rng)
    with pytest.raises(ValueError, match="covariance must be a square table of as many items"):
        rank_intervals(np.zeros(4), covariance, rng=rng)
    with pytest.raises(ValueError, match="there must be an item or more to rank, got none"):
        rank_intervals(np.zeros(0), np.zeros((0, 0)), rng=rng)
