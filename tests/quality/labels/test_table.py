"""The label table: what comes in, what is refused, and what can never change."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quality import CrowdLabels, LabelError, dawid_skene, encode, encode_gold
from quality.labels.table import RepeatError
from tests.quality.labels.strategies import Row, crowds, label_rows, named_crowd

QUICK = settings(max_examples=60, deadline=None, derandomize=True)


def rows_of(labels: CrowdLabels) -> list[Row]:
    """Back from codes to names."""
    return list(
        zip(
            labels.workers[labels.worker].tolist(),
            labels.tasks[labels.task].tolist(),
            labels.classes[labels.label].tolist(),
            strict=True,
        )
    )


def same(one: CrowdLabels, other: CrowdLabels) -> bool:
    """Whether all arrays are equal."""
    return all(
        np.array_equal(getattr(one, name), getattr(other, name))
        for name in CrowdLabels.__dataclass_fields__
    )


@QUICK
@given(label_rows())
def test_names_come_back_as_given(rows: list[Row]) -> None:
    assert sorted(rows) == sorted(rows_of(named_crowd(rows)))


@QUICK
@given(label_rows(), st.randoms(use_true_random=False))
def test_the_order_of_the_rows_does_not_matter(rows: list[Row], random: object) -> None:
    shuffled = rows.copy()
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert same(named_crowd(rows), named_crowd(shuffled))


@QUICK
@given(crowds())
def test_rows_are_sorted_and_the_offsets_find_them(labels: CrowdLabels) -> None:
    key = labels.task.astype(int) * labels.n_workers + labels.worker
    assert (np.diff(key) > 0).all()
    for task in range(labels.n_tasks):
        rows = slice(labels.task_start[task], labels.task_start[task + 1])
        assert (labels.task[rows] == task).all()
    for worker in range(labels.n_workers):
        order = labels.worker_order[labels.worker_start[worker] : labels.worker_start[worker + 1]]
        assert np.flatnonzero(labels.worker == worker).tolist() == order.tolist()


@QUICK
@given(crowds())
def test_counts_are_those_of_a_slow_count(labels: CrowdLabels) -> None:
    expected = np.zeros((labels.n_tasks, 3), dtype=np.int32)
    for task, label in zip(labels.task, labels.label, strict=True):
        expected[task, label] += 1
    assert np.array_equal(expected, labels.counts())


@QUICK
@given(crowds(), st.data())
def test_keep_workers_drops_their_rows_and_nothing_else(
    labels: CrowdLabels, data: st.DataObject
) -> None:
    keep = np.array(data.draw(st.tuples(*[st.booleans()] * labels.n_workers)), dtype=bool)
    kept = labels.keep_workers(keep)
    names = set(labels.workers[keep].tolist())
    assert [row for row in rows_of(labels) if row[0] in names] == rows_of(kept)
    assert kept.workers is labels.workers
    assert kept.n_tasks == labels.n_tasks == len(kept.task_start) - 1
    assert same(labels, labels.keep_workers(np.ones(labels.n_workers, dtype=bool)))


def test_keep_must_be_one_value_per_worker() -> None:
    labels = encode([1, 2], [1, 1], [0, 1])
    with pytest.raises(ValueError, match=r"keep must be 2 truth values.*\(3,\)"):
        labels.keep_workers(np.array([True, True, False]))


@pytest.mark.refusal
def test_keep_must_be_truth_values() -> None:
    labels = encode([1, 2], [1, 1], [0, 1])
    with pytest.raises(ValueError, match=r"keep must be 2 truth values.*got int64"):
        labels.keep_workers(np.array([1, 0]))


@pytest.mark.parametrize(
    "make",
    [
        list,
        tuple,
        np.array,
        pd.Series,
        lambda names: pd.Series(names, dtype="category"),
        lambda names: pd.Series(names, dtype="string"),
        lambda names: pd.Series(names, dtype=object),
        lambda names: np.array(names, dtype=object),
    ],
    ids=["list", "tuple", "array", "series", "category", "string", "object series", "object"],
)
def test_any_kind_of_column_gives_the_same_table(make: object) -> None:
    columns = ["bob", "ann", "bob"], ["t2", "t1", "t1"], ["no", "yes", "no"]
    made = [make(column) for column in columns]  # type: ignore[operator]
    assert same(encode(*columns), encode(*made))


@pytest.mark.parametrize("dtype", [np.int64, np.int8, np.uint16, np.float64])
def test_numbers_are_names_and_keep_their_type(dtype: type) -> None:
    labels = encode(np.array([9, 2], dtype), np.array([5, 5], dtype), np.array([1, 0], dtype))
    assert labels.workers.dtype == dtype
    assert labels.workers.tolist() == [2, 9]
    assert labels.worker.tolist() == [0, 1]
    assert labels.label.tolist() == [0, 1]


def test_integers_far_apart_are_coded_in_order() -> None:
    far = np.array([10**15, -5, 3])
    assert encode(far, [1, 1, 1], [0, 1, 0]).workers.tolist() == [-5, 3, 10**15]


def test_declared_classes_keep_their_order_and_may_be_unused() -> None:
    labels = encode(["ann"], ["t1"], ["no"], classes=["yes", "no", "maybe"])
    assert labels.classes.tolist() == ["yes", "no", "maybe"]
    assert labels.label.tolist() == [1]


@pytest.mark.parametrize("missing", [None, float("nan"), np.nan, pd.NA, pd.NaT, "", "  "], ids=repr)
@pytest.mark.parametrize("column", ["worker", "task", "label"])
def test_a_missing_value_is_refused_with_its_row_and_column(missing: object, column: str) -> None:
    columns: dict[str, list[object]] = {
        "worker": ["a", "b", "c"], "task": ["t", "t", "t"], "label": ["x", "y", "x"],
    }  # fmt: skip
    columns[column][1] = missing
    message = f"{column} is missing at row 1 \\(counted from 0\\): fill it in or leave the row out"
    with pytest.raises(LabelError, match=message) as caught:
        encode(**columns)
    assert (caught.value.column, caught.value.row) == (column, 1)


def test_a_missing_number_is_refused() -> None:
    with pytest.raises(LabelError, match="task is missing at row 2"):
        encode([1, 2, 3], np.array([1.0, 1.0, np.nan]), [0, 0, 1])


@pytest.mark.parametrize("column", ["worker", "task", "label"])
def test_a_cell_with_parts_is_refused_with_its_row_and_column(column: str) -> None:
    columns: dict[str, list[object]] = {
        "worker": ["a", "b"],
        "task": ["t", "t"],
        "label": ["x", "y"],
    }
    columns[column][1] = ["x", "y"]
    message = f"{column} must be a column of text or of numbers, got a list at row 1 "
    with pytest.raises(LabelError, match=message) as caught:
        encode(**columns)
    assert (caught.value.column, caught.value.row) == (column, 1)


def test_a_label_outside_the_classes_is_refused_without_being_shown() -> None:
    with pytest.raises(LabelError, match=r"label at row 1 .*add it to classes") as caught:
        encode(["a", "b"], ["t", "t"], ["yes", "secret"], classes=["yes", "no"])
    assert (caught.value.column, caught.value.row) == ("label", 1)
    assert "secret" not in str(caught.value)


def test_a_repeated_pair_is_refused_with_both_rows() -> None:
    with pytest.raises(LabelError, match=r"rows 1 and 3 .*keep one of them") as caught:
        encode(["a", "b", "a", "b"], ["t", "t", "u", "t"], ["x", "x", "y", "x"])
    assert (caught.value.column, caught.value.row) == ("worker", 3)


def test_empty_and_unequal_columns_are_refused() -> None:
    with pytest.raises(LabelError, match="at least one row, got none"):
        encode([], [], [])
    with pytest.raises(LabelError, match=r"equally long, got \[2, 1, 2\]"):
        encode([1, 2], [1], [0, 1])


def test_mixed_types_are_refused() -> None:
    with pytest.raises(LabelError, match=r"worker must be all text or all numbers.*got int, str"):
        encode(["a", 1], ["t", "t"], ["x", "y"])
    with pytest.raises(LabelError, match=r"label must be all text .*got tuple"):
        encode(["a"], ["t"], [("x",)])


def test_iterators_and_views_of_a_mapping_are_columns() -> None:
    kinds = {1: "x", 2: "y"}
    found = encode(map(str, "ab"), (task for task in kinds), kinds.values())
    assert (found.workers.tolist(), found.tasks.tolist()) == (["a", "b"], [1, 2])
    assert encode(["a", "b"], kinds.keys(), ["x", "y"]).classes.tolist() == ["x", "y"]
    assert encode_gold(found, iter([2]), iter(["y"])).tolist() == [-1, 1]


def test_a_name_or_a_table_is_no_column() -> None:
    with pytest.raises(TypeError, match="a sequence of names, got one str"):
        encode("ann", ["t"] * 3, ["x"] * 3)
    with pytest.raises(ValueError, match="one-dimensional, got 2"):
        encode(np.zeros((2, 2)), [1, 2], [0, 1])


def test_classes_must_be_different_names() -> None:
    with pytest.raises(LabelError, match="all differ, got 2 of which 1"):
        encode(["a"], ["t"], ["x"], classes=["x", "x"])
    with pytest.raises(LabelError, match="one or more names, got none"):
        encode(["a"], ["t"], ["x"], classes=[])


def test_a_table_of_no_classes_is_refused() -> None:
    """Every aggregator would divide by their number."""
    no_code, name = np.empty(0, dtype=np.int64), np.array(["a"])
    with pytest.raises(LabelError, match="classes must be one or more names, got none"):
        CrowdLabels.from_codes(
            no_code, no_code, no_code, workers=name, tasks=name, classes=name[:0]
        )
    unlabelled = CrowdLabels.from_codes(
        no_code, no_code, no_code, workers=name, tasks=name, classes=name
    )
    assert dawid_skene(unlabelled).posterior.tolist() == [[1.0]]


def test_more_classes_than_codes_are_refused() -> None:
    many = np.arange(40_000)
    with pytest.raises(LabelError, match="at most 32767 classes, got 40000"):
        encode(many, many, many)


def test_arguments_are_not_changed_and_the_result_is_read_only() -> None:
    worker, task, label = np.array([2, 1]), np.array([1, 1]), np.array([1, 0])
    labels = encode(worker, task, label)
    worker[0] = 7  # still the caller's own
    assert labels.workers.tolist() == [1, 2]
    for name in CrowdLabels.__dataclass_fields__:
        assert not getattr(labels, name).flags.writeable


def test_gold_finds_its_tasks_by_number_and_by_names_longer_than_those_of_the_table() -> None:
    numbered = encode(["a", "b", "a"], [30, 7, 7], ["x", "y", "x"])
    assert encode_gold(numbered, [7, 8, 99], ["y", "x", "x"]).tolist() == [1, -1]
    assert encode_gold(numbered, [30.0], ["y"]).tolist() == [-1, 1]
    assert encode_gold(numbered, ["7"], ["y"]).tolist() == [-1, -1]
    named = encode(["a", "b"], ["t1", "t2"], ["x", "y"])
    assert encode_gold(named, ["t2 and more", "t1", "a"], ["y", "y", "x"]).tolist() == [1, -1]


def test_gold_is_lined_up_with_the_tasks() -> None:
    labels = encode(["a", "a", "a"], ["t3", "t1", "t2"], ["x", "y", "x"])
    gold = encode_gold(labels, ["t2", "t9", "t1"], ["y", "x", "x"])
    assert gold.tolist() == [0, 1, -1]


def test_gold_is_refused_as_labels_are() -> None:
    labels = encode(["a", "a"], ["t1", "t2"], ["x", "y"])
    with pytest.raises(LabelError, match=r"gold at row 2 .*keep one row per task"):
        encode_gold(labels, ["t2", "t1", "t2"], ["x", "x", "x"])
    with pytest.raises(LabelError, match=r"label at row 0 .*not one of the classes"):
        encode_gold(labels, ["t1"], ["z"])
    with pytest.raises(LabelError, match="task is missing at row 0"):
        encode_gold(labels, [None], ["x"])
    with pytest.raises(LabelError, match="equally long"):
        encode_gold(labels, ["t1"], ["x", "y"])


@QUICK
@given(label_rows(), st.randoms(use_true_random=False))
def test_codes_give_the_table_that_their_names_give(rows: list[Row], random: object) -> None:
    random.shuffle(rows)  # type: ignore[attr-defined]
    columns = [list(column) for column in zip(*rows, strict=True)]
    books = [np.unique(column) for column in columns]
    codes = [np.searchsorted(book, column) for book, column in zip(books, columns, strict=True)]
    workers, tasks, classes = books
    found = CrowdLabels.from_codes(*codes, workers=workers, tasks=tasks, classes=classes)
    assert same(encode(*columns), found)


@QUICK
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(0, 2)), max_size=12))
def test_rows_of_codes_are_sorted_as_a_slow_sort_does_or_refused(
    rows: list[tuple[int, int, int]],
) -> None:
    codes = np.array(rows, dtype=np.int64).reshape(-1, 3).T
    books = {"workers": np.arange(5), "tasks": np.arange(5), "classes": np.arange(3)}
    if len({(worker, task) for worker, task, _ in rows}) < len(rows):
        with pytest.raises(RepeatError):
            CrowdLabels.from_codes(*codes, **books)
        return
    labels = CrowdLabels.from_codes(*codes, **books)
    found = zip(labels.task.tolist(), labels.worker.tolist(), labels.label.tolist(), strict=True)
    assert sorted((task, worker, label) for worker, task, label in rows) == list(found)
    by_worker = np.lexsort((labels.task, labels.worker))
    assert by_worker.tolist() == labels.worker_order.tolist()


SOUND = {
    "worker": np.array([0, 1]),
    "task": np.array([0, 0]),
    "label": np.array([1, 0]),
    "workers": np.array(["ann", "bob"]),
    "tasks": np.array(["t1"]),
    "classes": np.array(["yes", "no"]),
}


@pytest.mark.refusal
@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"worker": np.array([0.0, 1.0])}, "worker must be integer codes, got float64"),
        ({"task": np.array([[0, 0]])}, "task must be integer codes, got int64 of shape"),
        ({"label": np.array([1])}, r"must be equally long, got \[2, 2, 1\]"),
        ({"worker": np.array([0, 2])}, "worker must be codes of the 2 workers, got 0 to 2"),
        ({"label": np.array([-1, 0])}, "label must be codes of the 2 classes, got -1 to 0"),
        ({"workers": np.array(["bob", "ann"])}, "workers must be in increasing order"),
        ({"workers": np.array(["ann", "ann"])}, "workers must be in increasing order"),
        ({"tasks": np.array([["t1"]])}, "tasks must be one name a code"),
        ({"classes": np.array(["no", "no"])}, "classes must all differ"),
        ({"classes": np.arange(40_000)}, "at most 32767 classes, got 40000"),
        ({"worker": np.array([1, 1])}, "rows 0 and 1 .* one worker for one task"),
    ],
)
def test_codes_that_are_not_sound_are_refused(
    changed: dict[str, np.ndarray], sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        CrowdLabels.from_codes(**SOUND | changed)


def test_books_handed_over_stay_writable() -> None:
    labels = CrowdLabels.from_codes(**SOUND)
    assert all(SOUND[name].flags.writeable for name in SOUND)
    assert not any(getattr(labels, name).flags.writeable for name in SOUND)


@pytest.mark.refusal
@pytest.mark.parametrize("keep", [np.array([1, 0, 1]), np.array([True, False])])
def test_rows_are_kept_by_one_truth_value_each(keep: np.ndarray) -> None:
    labels = encode(["ann", "bob", "ann"], [7, 7, 9], ["yes", "no", "no"])
    with pytest.raises(ValueError, match="keep must be 3 truth values, one per label, got"):
        labels.keep_labels(keep)
