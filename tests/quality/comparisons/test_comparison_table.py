"""The table of comparisons: what it holds, and what it refuses."""

import numpy as np
import pytest

from quality import LabelError, encode_comparisons
from quality.comparisons import LEFT, RIGHT, TIE


def test_winners_may_be_sides_or_items() -> None:
    columns = ["ann", "bob", "cy"], ["x", "y", "x"], ["y", "x", "y"]
    sides = encode_comparisons(*columns, ["left", "left", "tie"])
    items = encode_comparisons(*columns, ["x", "y", "tie"])
    assert sides.outcome.tolist() == items.outcome.tolist() == [LEFT, LEFT, TIE]


def test_items_named_left_and_right_are_items_where_one_winner_is_no_side() -> None:
    found = encode_comparisons(["a", "a"], ["right", "x"], ["left", "left"], ["left", "x"])
    assert found.outcome.tolist() == [RIGHT, LEFT]


def test_rows_are_sorted_by_worker() -> None:
    found = encode_comparisons(["b", "a", "b"], list("xyx"), list("yzz"), ["left"] * 3)
    assert found.worker.tolist() == [0, 1, 1]
    assert found.worker_start.tolist() == [0, 1, 3]


def test_a_question_is_the_same_whichever_item_stands_left() -> None:
    found = encode_comparisons(
        list("abc"), list("xyx"), list("yxy"), ["left"] * 3, question=[1, 1, 2]
    )
    assert found.question[0] == found.question[1] != found.question[2]


def test_a_group_has_one_vote_on_a_question() -> None:
    found = encode_comparisons(list("abc"), list("xyx"), list("yxy"), ["left"] * 3)
    assert found.weights(np.array([0, 0, -1])).tolist() == [0.5, 0.5, 1.0]
    assert found.weights(np.array([-1, -1, -1])).tolist() == [1.0] * 3
    assert found.weights(None).tolist() == [1.0] * 3


def test_who_answers_on_her_own_counts_as_often_as_she_answers() -> None:
    found = encode_comparisons(list("aabbcc"), ["x"] * 6, ["y"] * 6, ["left"] * 6)
    assert found.weights(np.array([-1, -1, -1])).tolist() == found.weights(None).tolist()
    assert found.weights(np.array([0, 0, -1])).tolist() == [0.25] * 4 + [1.0] * 2


def test_no_comparisons_are_no_labels() -> None:
    table = encode_comparisons(["a", "b"], ["x", "y"], ["y", "x"], ["x", "tie"])
    labels = table.take(np.array([], dtype=np.int64)).as_labels()
    assert (labels.n_labels, labels.n_tasks, labels.n_workers) == (0, 0, 2)


def test_as_labels_the_first_item_is_the_one_that_sorts_first() -> None:
    found = encode_comparisons(list("abc"), list("xyx"), list("yxy"), ["left", "left", "tie"])
    labels = found.as_labels()
    assert labels.classes[labels.label].tolist() == ["first", "second", "tie"]
    assert labels.n_tasks == 1


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ((["a"], ["x"], ["x"], ["tie"]), "left and right must differ, got x twice at row 0"),
        ((["a"], ["x"], ["y"], ["z"]), "got z at row 0 .* where x met y"),
        ((["a"], ["x"], ["y"], []), "must be equally long"),
        ((["a", "b"], ["x"], ["y"], ["x"]), "worker and left must be equally long"),
        (([None], ["x"], ["y"], ["x"]), "worker is missing at row 0"),
        ((["a"], [None], ["y"], ["y"]), "left is missing at row 0"),
        ((["w", "w"], ["a", "b"], ["b", None], ["a", "b"]), "right is missing at row 1"),
        ((["a"], ["x"], [1], ["x"]), "item must be all text or all numbers"),
        (
            (["w", "w"], ["a", "b"], ["b", "a"], ["left", "b"]),
            "left, right or tie in every row, or in every row one of the two items .* got left at row 0",
        ),
        (([], [], [], []), "at least one row"),
    ],
)
def test_a_fault_is_one_sentence_that_names_the_row(columns: tuple, said: str) -> None:
    with pytest.raises(LabelError, match=said):
        encode_comparisons(*columns)


def test_groups_must_name_every_worker() -> None:
    found = encode_comparisons(["a"], ["x"], ["y"], ["x"])
    with pytest.raises(ValueError, match="groups must be 1 codes, one per worker"):
        found.weights(np.array([0, 1]))


@pytest.mark.refusal
@pytest.mark.parametrize("rows", [np.array([True, False, False]), np.array([0, -1]), np.array([3])])
def test_rows_are_taken_by_their_numbers(rows: np.ndarray) -> None:
    table = encode_comparisons(["a", "a", "b"], list("xyx"), list("yzz"), ["left", "right", "tie"])
    with pytest.raises(ValueError, match=r"rows must be integers in \[0, 2\], got"):
        table.take(rows)
    assert table.take(np.array([2, 0], dtype=np.uint8)).outcome.tolist() == [LEFT, TIE]


def test_a_misspelt_side_is_named_with_its_row() -> None:
    winners = ["left"] * 9 + ["lefft"]
    with pytest.raises(LabelError, match=r"got lefft at row 9 \(counted from 0\)"):
        encode_comparisons(["a"] * 10, ["x"] * 10, ["y"] * 10, winners)
