"""Which pairs to compare next."""

import numpy as np
import pytest

from quality import next_pairs


def test_close_items_that_are_badly_known_come_first() -> None:
    covariance = np.diag([0.01, 0.5, 0.5, 0.01])
    found = next_pairs(np.array([3.0, 0.1, 0.0, -3.0]), covariance, n=1)
    assert (found.item[0], found.other[0]) == (1, 2)


def test_gains_never_rise_from_one_pair_to_the_next() -> None:
    rng = np.random.default_rng(0)
    mixed = rng.normal(size=(8, 8))
    found = next_pairs(rng.normal(size=8), mixed @ mixed.T, n=40)
    assert (np.diff(found.gain) <= 1e-12).all()
    assert (found.item < found.other).all()


def test_a_gain_is_what_the_answer_takes_from_the_entropy() -> None:
    """log(det before / det after) / 2, with information p (1 - p) along the difference."""
    covariance, score = np.array([[0.4, 0.1], [0.1, 0.3]]), np.array([0.7, 0.0])
    found = next_pairs(score, covariance, n=2)
    chance = 1 / (1 + np.exp(-0.7))
    along = np.array([1.0, -1.0])
    after = np.linalg.inv(covariance) + chance * (1 - chance) * np.outer(along, along)
    gain = np.log(np.linalg.det(after) * np.linalg.det(covariance)) / 2
    assert found.gain[0] == pytest.approx(gain)
    again = after + chance * (1 - chance) * np.outer(along, along)
    assert found.gain[1] == pytest.approx(np.log(np.linalg.det(again) / np.linalg.det(after)) / 2)


def test_what_cannot_be_chosen_is_refused() -> None:
    with pytest.raises(ValueError, match="n must be at least 1"):
        next_pairs(np.zeros(2), np.eye(2), n=0)
    with pytest.raises(ValueError, match="two items to compare, got 1"):
        next_pairs(np.zeros(1), np.eye(1), n=1)


@pytest.mark.refusal
def test_scores_without_a_covariance_of_them_are_refused() -> None:
    with pytest.raises(ValueError, match="score and covariance must be finite"):
        next_pairs(np.array([0.0, np.nan]), np.eye(2), n=1)
    with pytest.raises(ValueError, match="score and covariance must be finite"):
        next_pairs(np.zeros(2), np.full((2, 2), np.inf), n=1)
    for covariance in (np.eye(3), np.ones(2), np.ones((2, 1))):
        with pytest.raises(ValueError, match="covariance must be a square table of as many items"):
            next_pairs(np.zeros(2), covariance, n=1)


def test_an_answer_about_items_far_apart_says_nothing() -> None:
    found = next_pairs(np.array([1e4, 0.0, 0.1]), np.eye(3), n=1)
    assert (found.item.tolist(), found.other.tolist()) == ([1], [2])
    assert next_pairs(np.array([1e300, 0.0]), np.eye(2), n=1).gain[0] < 1e-200
