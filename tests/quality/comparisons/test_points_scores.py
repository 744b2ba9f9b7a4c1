"""Scores from points: those of the comparisons themselves, with errors that allow for noise."""

from __future__ import annotations

import numpy as np
import pytest

from quality import bradley_terry, encode_comparisons
from quality.comparisons import TIE, Comparisons, scores_of_points


def compared(seed: int, n: int = 400, n_items: int = 6) -> Comparisons:
    rng = np.random.default_rng(seed)
    score = rng.normal(size=n_items)
    rows = []
    for _ in range(n):
        one, other = rng.choice(n_items, size=2, replace=False)
        won = "left" if rng.random() < 1 / (1 + np.exp(score[other] - score[one])) else "right"
        rows.append(("w", f"i{one}", f"i{other}", "tie" if rng.random() < 0.1 else won))
    return encode_comparisons(*zip(*rows, strict=True))


def summed(table: Comparisons) -> tuple[np.ndarray, np.ndarray]:
    """Who met whom, and the points of each item."""
    n_items = len(table.items)
    met = np.zeros((n_items, n_items))
    np.add.at(met, (table.left, table.right), 1.0)
    half = np.where(table.outcome == TIE, 0.5, table.outcome == 0)
    points = np.bincount(table.left, half, n_items) + np.bincount(table.right, 1 - half, n_items)
    return met + met.T, points


@pytest.mark.parametrize("seed", range(4))
def test_of_exact_points_they_are_those_of_the_comparisons(seed: int) -> None:
    """With ties as halves: the likelihood asks nothing of outcomes but the points."""
    table = compared(seed)
    found, known = (
        scores_of_points(*summed(table)),
        bradley_terry(table, ties="half", prior_sd=3.0),
    )
    assert found.score == pytest.approx(known.score, abs=1e-9)
    errors = np.sqrt(found.covariance.diagonal())
    assert errors == pytest.approx(np.sqrt(known.covariance.diagonal()), rel=0.01)


def test_errors_grow_with_the_noise_as_the_scores_do() -> None:
    """400 draws of normal noise: a standard deviation is known to 4 %, and the scores are near linear."""
    met, points = summed(compared(0))
    noise = 30.0 * (np.eye(6) - 1 / 6)
    rng = np.random.default_rng(1)
    drawn = rng.multivariate_normal(points, noise, size=400)
    scores = np.array([scores_of_points(met, one).score for one in drawn])
    added = (
        scores_of_points(met, points, noise).covariance - scores_of_points(met, points).covariance
    )
    assert scores.std(axis=0) == pytest.approx(np.sqrt(added.diagonal()), rel=0.2)


def test_points_beyond_what_any_scores_expect_have_finite_scores() -> None:
    met = np.array([[0.0, 5.0], [5.0, 0.0]])
    found = scores_of_points(met, np.array([-3.0, 8.0]))
    assert np.isfinite(found.score).all()
    assert found.score[1] > found.score[0]


@pytest.mark.parametrize(
    "met",
    [
        np.ones((2, 2)),
        np.array([[0.0, 1.0], [2.0, 0.0]]),
        pytest.param(np.zeros((3, 3)), marks=pytest.mark.refusal),
    ],
)
def test_a_table_that_is_none_of_meetings_is_refused(met: np.ndarray) -> None:
    with pytest.raises(ValueError, match="met must be a symmetric table of 2 x 2"):
        scores_of_points(met, np.zeros(2))


@pytest.mark.refusal
@pytest.mark.parametrize(
    ("met", "points", "noise", "said"),
    [
        (np.zeros((0, 0)), np.zeros(0), None, "points must be a number for each of some items"),
        (
            np.zeros((2, 2)),
            np.zeros((2, 1)),
            None,
            "points must be a number for each of some items",
        ),
        (np.zeros((2, 2)), np.array([np.nan, 1.0]), None, "must be finite, got NaN or infinity"),
        (np.array([[0.0, np.inf], [np.inf, 0.0]]), np.ones(2), None, "must be finite"),
        (1 - np.eye(2), np.ones(2), np.full((2, 2), np.nan), "must be finite, got NaN or infinity"),
    ],
)
def test_numbers_without_scores_are_refused(
    met: np.ndarray, points: np.ndarray, noise: np.ndarray | None, said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        scores_of_points(met, points, noise)
