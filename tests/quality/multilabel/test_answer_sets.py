"""The table of multi-label answers: what it holds, and what it refuses."""

import numpy as np
import pytest

from quality import LabelError, encode_gold_sets, encode_multilabels


def test_the_order_of_rows_and_of_classes_in_a_row_does_not_matter() -> None:
    one = encode_multilabels(["b", "a"], [1, 1], [["y", "x"], ["x"]])
    other = encode_multilabels(["a", "b"], [1, 1], [["x"], ["x", "y", "x"]])
    for name in ("worker", "task", "label_start", "label", "task_start"):
        assert getattr(one, name).tolist() == getattr(other, name).tolist()
    assert [one.set_of(answer).tolist() for answer in range(2)] == [["x"], ["x", "y"]]


def test_rows_of_one_label_join_to_one_answer() -> None:
    rows = ["ann", "ann", "bob"], ["t", "t", "t"], [["x"], ["y"], ["y"]]
    joined = encode_multilabels(*rows, repeats="join")
    assert joined.n_answers == 2
    assert joined.set_of(0).tolist() == ["x", "y"]
    with pytest.raises(LabelError, match="rows 0 and 1 .* one worker for one task"):
        encode_multilabels(*rows)


def test_an_empty_set_is_an_answer() -> None:
    found = encode_multilabels(["ann", "bob"], ["t", "t"], [[], ["x"]])
    assert found.n_answers == 2
    assert found.set_of(0).tolist() == []
    assert encode_multilabels(["ann"], ["t"], [[]], classes=["x"]).n_classes == 1


def test_classes_keep_their_order() -> None:
    found = encode_multilabels(["ann"], ["t"], [["x", "y"]], classes=["y", "x", "z"])
    assert found.classes.tolist() == ["y", "x", "z"]
    assert found.set_of(0).tolist() == ["y", "x"]


def test_arrays_are_read_only() -> None:
    found = encode_multilabels(["ann"], ["t"], [["x"]])
    with pytest.raises(ValueError, match="read-only"):
        found.label[0] = 1


@pytest.mark.parametrize(
    ("columns", "named", "sentence"),
    [
        ((["a"], ["t"], ["xy"]), {}, "sets of classes, got one str at row 0"),
        ((["a"], ["t"], [["x"], ["y"]]), {}, "equally long"),
        ((["a"], ["t"], [[]]), {}, "there must be a class"),
        ((["a", "b"], ["t", "t"], [["x"], ["x", None]]), {}, "a class is missing at row 1"),
        (
            (["a", "b"], ["t", "t"], [["x"], ["z"]]),
            {"classes": ["x"]},
            "a label at row 1 .* not one",
        ),
        ((["a"], ["t"], [["x"]]), {"classes": ["x", "x"]}, "must all differ"),
        ((["a"], ["t"], [["x"]]), {"shown": {"t": ["w"]}}, "shown with task t is not one"),
        ((["a"], ["t"], [["x"]]), {"shown": {"t": [["x"]]}}, "shown with task t is not one"),
        (
            (["a"], ["t"], [["x"]]),
            {"shown": {"t": "x"}},
            "what task t showed must be a set .* one str",
        ),
        pytest.param(
            (["a"], ["t"], [["x"]]),
            {"shown": {"t": 7}},
            "what task t showed must be a set .* one int",
            marks=pytest.mark.refusal,
        ),
        ((["a"], [1], [["x"]]), {"shown": {"1": ["x"]}}, "shown must name tasks as the answers do"),
        (
            (["a"], ["t"], [["x"]]),
            {"classes": ["x", "y"], "shown": {"t": ["y"]}},
            "task t was given x, which it did not show",
        ),
    ],
)
def test_mistakes_are_named(columns: tuple, named: dict, sentence: str) -> None:
    with pytest.raises(LabelError, match=sentence):
        encode_multilabels(*columns, **named)


@pytest.mark.refusal
def test_workers_left_out_keep_the_vocabularies() -> None:
    whole = encode_multilabels(["a", "b", "a"], [1, 1, 2], [["x"], ["x", "y"], ["y"]])
    kept = whole.keep_workers(np.array([True, False]))
    assert kept.worker.tolist() == [0, 0]
    assert kept.task_start.tolist() == [0, 1, 2]
    assert [kept.set_of(answer).tolist() for answer in range(2)] == [["x"], ["y"]]
    assert kept.workers.tolist() == ["a", "b"]
    with pytest.raises(ValueError, match="keep must be 2 truth values"):
        whole.keep_workers(np.array([1, 0]))


def test_a_group_has_one_answer_a_task_by_the_majority_of_its_members() -> None:
    workers = ["a", "b", "c", "d"] * 2
    sets = [["x"], ["x", "y"], ["y"], ["z"], ["x"], ["x"], [], []]
    table = encode_multilabels(workers, [1] * 4 + [2] * 4, sets)
    merged = table.merge_workers(np.array([0, 0, 0, -1]))
    assert merged.workers[merged.worker].tolist() == ["a", "d", "a", "d"]
    assert [merged.set_of(answer).tolist() for answer in range(4)] == [["x", "y"], ["z"], ["x"], []]
    assert merged.task_start.tolist() == [0, 2, 4]


def test_of_two_members_the_first_decides_where_they_differ() -> None:
    table = encode_multilabels(["a", "b"], [1, 1], [["x", "y"], ["y", "z"]])
    merged = table.merge_workers(np.array([3, 3]))
    assert merged.set_of(0).tolist() == ["x", "y"]


def test_a_tasks_truth_is_known_for_every_class_or_for_none() -> None:
    table = encode_multilabels(["a", "a", "a"], [1, 2, 3], [["x"], ["y"], ["x"]])
    gold = encode_gold_sets(table, [3, 2, 9], [["x", "y"], [], ["x"]])
    assert gold.tolist() == [[-1, -1], [0, 0], [1, 1]]


@pytest.mark.refusal
@pytest.mark.parametrize(
    ("task", "sets", "said"),
    [
        ([1, 1], [["x"], ["x"]], "row 1 .* there twice"),
        ([1], [["q"]], "row 0 .* q is no class"),
        ([1, 2], [["x"]], "equally long"),
        ([1], ["xy"], "must be sets"),
        ([1], [[["x"]]], r"row 0 .* \['x'\] is no class"),
        ([1, None], [["x"], ["x"]], "task is missing at row 1"),
        ([[1]], [["x"]], "task must be a column of text or of numbers"),
    ],
)
def test_a_truth_that_cannot_be_used_is_named(task: list, sets: list, said: str) -> None:
    with pytest.raises(LabelError, match=said):
        encode_gold_sets(encode_multilabels(["a"], [1], [["x"]]), task, sets)


def test_too_many_classes_are_refused_even_if_nobody_gives_one() -> None:
    with pytest.raises(LabelError, match="at most 32767 classes, got 40000"):
        encode_multilabels(["ann"], [1], [[]], classes=range(40_000))
