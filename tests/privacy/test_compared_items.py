"""Half points of compared items: the sensitivity over all neighbours, and refusals."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from privacy import CountsError, LatticeLaplace, Unit, win_points

LEFT, RIGHT = np.array([0, 0, 1, 2]), np.array([1, 2, 2, 0])


def points(outcome: tuple[int, ...]) -> np.ndarray:
    found: np.ndarray = win_points(LEFT, RIGHT, np.array(outcome), n_items=3, dataset="toy").value
    return found


def test_no_answer_moves_the_points_by_more_than_the_sensitivity_and_one_moves_them_so_far() -> (
    None
):
    """Every data set of four comparisons beside each of its neighbours."""
    far = [
        int(np.abs(points(one) - points((*one[:at], other, *one[at + 1 :]))).sum())
        for one in itertools.product(range(3), repeat=4)
        for at in range(4)
        for other in range(3)
    ]
    query = win_points(LEFT, RIGHT, np.zeros(4, np.int64), n_items=3, dataset="toy")
    assert max(far) == query.l1 == 4
    assert query.unit is Unit.ANSWER


def test_points_add_up_to_twice_the_number_of_comparisons() -> None:
    for one in itertools.product(range(3), repeat=4):
        assert points(one).sum() == 8
    query = win_points(LEFT, RIGHT, np.ones(4, np.int64), n_items=3, dataset="toy")
    assert (query.n, query.n_records) == (8, 4)
    assert LatticeLaplace(1.0).event(query).cost().epsilon == 1


@pytest.mark.refusal
@pytest.mark.parametrize(
    ("given", "said"),
    [
        ((LEFT, RIGHT, np.array([0, 0, 0, 3])), "outcomes must be 0, 1 or 2"),
        ((LEFT, RIGHT, np.zeros(4)), "items and outcomes must be integer codes"),
        ((LEFT / 2, RIGHT, np.zeros(4, np.int64)), "items and outcomes must be integer codes"),
        ((LEFT, LEFT, np.zeros(4, np.int64)), "two different ones"),
        ((LEFT, RIGHT + 1, np.zeros(4, np.int64)), "codes below 3"),
        ((LEFT[:0], RIGHT[:0], LEFT[:0]), "one row or more of left, right and outcome"),
    ],
)
def test_what_is_no_comparison_is_refused(given: tuple[np.ndarray, ...], said: str) -> None:
    with pytest.raises(CountsError, match=said):
        win_points(*given, n_items=3, dataset="toy")


@pytest.mark.refusal
def test_lists_are_no_comparisons() -> None:
    for place, name in enumerate(("left", "right", "outcome")):
        given: list[Any] = [LEFT, RIGHT, np.zeros(4, np.int64)]
        given[place] = given[place].tolist()
        with pytest.raises(TypeError, match=f"{name} must be a NumPy array, got list"):
            win_points(*given, n_items=3, dataset="toy")


@pytest.mark.refusal
@pytest.mark.parametrize("n_items", [1, 2.5, True, 3.0, float("inf"), 10**13, 2**70])
def test_the_number_of_items_is_an_integer_from_two_to_a_million(n_items: int) -> None:
    with pytest.raises(CountsError, match="n_items must be an integer from 2 to 1000000, got n_"):
        win_points(LEFT, RIGHT, np.zeros(4, np.int64), n_items=n_items, dataset="toy")


def test_one_comparison_of_two_items_is_enough_and_its_points_are_read_only() -> None:
    one = np.array([0]), np.array([1]), np.array([0])
    value = win_points(*one, n_items=2, dataset="toy").value
    assert isinstance(value, np.ndarray)
    assert value.tolist() == [2, 0]
    with pytest.raises(ValueError, match="read-only"):
        value[0] = 9


@pytest.mark.refusal
@pytest.mark.parametrize("kind", [np.uint8, np.uint64])
def test_codes_may_be_unsigned(kind: type[np.unsignedinteger[Any]]) -> None:
    outcome = np.array([0, 1, 2, 0], dtype=kind)
    value = win_points(LEFT.astype(kind), RIGHT, outcome, n_items=3, dataset="toy").value
    signed = win_points(LEFT, RIGHT, outcome.astype(np.int64), n_items=3, dataset="toy").value
    assert np.asarray(value).tolist() == np.asarray(signed).tolist()
