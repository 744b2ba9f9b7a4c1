"""Counts of sets of classes: their sensitivity on all neighbours, what they add up to, their release."""

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privacy import (
    CountsError,
    LatticeLaplace,
    Ledger,
    LedgerError,
    Publication,
    Query,
    Unit,
    UnitError,
    bounded_labels,
    label_set_counts,
)
from tests.privacy.toy import open_toy

ABOUT = {"dataset": "toy", "group_names": ("all",), "local": True}


def counted(sets: tuple[tuple[bool, ...], ...], max_labels: int, unit: Unit) -> np.ndarray:
    names = [f"t{number}" for number in range(len(sets))]
    group = np.zeros(len(sets), dtype=np.int64)
    (query,) = label_set_counts(
        np.array(sets), group, max_labels=max_labels, unit=unit, tasks=names, **ABOUT
    )
    assert query.l1 == 2.0 * max_labels
    assert isinstance(query.value, np.ndarray)
    assert not query.value.flags.writeable
    return query.value


@pytest.mark.parametrize("unit", [Unit.CONSENSUS_LABEL, Unit.TASK, Unit.ANSWER])
@pytest.mark.parametrize(("n_classes", "max_labels"), [(2, 1), (3, 1), (4, 2), (3, 3)])
def test_no_neighbour_moves_counts_by_more_than_the_sensitivity_and_one_does(
    n_classes: int, max_labels: int, unit: Unit
) -> None:
    """All tables of two tasks and all that replace one task's set."""
    sets = [one for one in product((False, True), repeat=n_classes) if sum(one) <= max_labels]
    counts = {both: counted(both, max_labels, unit) for both in product(sets, repeat=2)}
    most = max(
        np.abs(counts[kept, one] - counts[kept, other]).sum()
        for kept in sets
        for one in sets
        for other in sets
    )
    # a set of `max_labels` classes and the empty one share no place
    assert most == 2 * max_labels


def test_counts_add_up_to_the_places_of_a_group() -> None:
    rng = np.random.default_rng(0)
    chosen = bounded_labels(rng.random((50, 6)), max_labels=3)
    group = np.arange(50) % 3
    queries = label_set_counts(
        chosen, group, dataset="toy", group_names="abc", max_labels=3,
        unit=Unit.CONSENSUS_LABEL, local=False, tasks=[str(task) for task in range(50)],
    )  # fmt: skip
    for code, query in enumerate(queries):
        mine = chosen[group == code]
        assert query.value[:-1].tolist() == mine.sum(axis=0).tolist()
        assert query.value.sum() == query.n == 3 * len(mine)
    assert len({query.part.partition for query in queries if query.part}) == 1


def test_no_task_has_more_than_the_bound() -> None:
    chance = np.array([[0.9, 0.6, 0.7, 0.1], [0.6, 0.6, 0.6, 0.6], [0.1, 0.2, 0.3, 0.5]])
    assert bounded_labels(chance, max_labels=2).astype(int).tolist() == [
        [1, 0, 1, 0], [1, 1, 0, 0], [0, 0, 0, 0],
    ]  # fmt: skip


def test_another_bound_is_another_partition() -> None:
    parts = [
        label_set_counts(
            np.array([[True, False]]), np.array([0]), max_labels=bound,
            unit=Unit.CONSENSUS_LABEL, tasks=["t"], **ABOUT,
        )[0].part
        for bound in (1, 2)
    ]  # fmt: skip
    assert parts[0] != parts[1]


def test_another_assignment_of_tasks_is_another_partition() -> None:
    about = {
        **ABOUT,
        "group_names": ("a", "b"),
        "max_labels": 1,
        "unit": Unit.TASK,
        "tasks": list("xyz"),
    }
    chosen = np.eye(3, dtype=bool)
    names = [
        label_set_counts(table, np.array(group), **about)[0].part.partition
        for table, group in ((chosen, [0, 0, 1]), (chosen[::-1], [0, 0, 1]), (chosen, [0, 1, 1]))
    ]
    assert names[0] == names[1] != names[2]


def test_a_tasks_classes_depend_on_its_own_row_alone() -> None:
    chance = np.random.default_rng(1).random((20, 5))
    whole = bounded_labels(chance, max_labels=2)
    apart = [bounded_labels(row[None], max_labels=2)[0] for row in chance]
    assert np.array_equal(whole, apart)


def test_under_a_key_another_bound_is_refused(tmp_path: Path) -> None:
    ledger, month = open_toy(tmp_path, n=8), Publication("2026-11")
    one, other = (
        replace(
            label_set_counts(
                np.ones((4, 1), dtype=bool), np.zeros(4, dtype=np.int64), max_labels=bound,
                unit=Unit.TASK, tasks=list("wxyz"), **ABOUT,
            )[0],
            unit=Unit.CONSENSUS_LABEL, publication=month,
        )
        for bound in (1, 2)
    )  # fmt: skip
    ledger.release(LatticeLaplace(0.25), one)
    with pytest.raises(LedgerError, match="publication 2026-11 of 'toy', .* was published already"):
        ledger.release(LatticeLaplace(0.25), other)


def test_the_ledger_draws_at_the_price_of_the_sensitivity(ledger: Ledger) -> None:
    (query,) = label_set_counts(
        np.ones((40, 2), dtype=bool), np.zeros(40, dtype=np.int64), max_labels=2,
        unit=Unit.CONSENSUS_LABEL, tasks=[str(task) for task in range(40)], **ABOUT,
    )  # fmt: skip
    event = LatticeLaplace(epsilon=0.5).event(query)
    assert (event.l1, event.scale) == (4.0, 8.0)
    assert float(event.cost().epsilon) == 0.5
    release = ledger.release(LatticeLaplace(epsilon=0.5), query)
    assert sum(release.value) == 80


def sets_of(n_tasks: int) -> Query:
    (query,) = label_set_counts(
        np.ones((n_tasks, 2), dtype=bool), np.zeros(n_tasks, dtype=np.int64), max_labels=2,
        unit=Unit.CONSENSUS_LABEL, tasks=[str(task) for task in range(n_tasks)], **ABOUT,
    )  # fmt: skip
    return query


def test_a_delta_below_one_in_the_number_of_tasks_is_enough(tmp_path: Path) -> None:
    """A delta of 1/n publishes whole records: those are tasks, and not the places that a task has."""
    query = sets_of(40)
    assert (query.n, query.n_records) == (80, 40)
    ledger = open_toy(tmp_path, delta=1 / 41, n=40)
    assert sum(ledger.release(LatticeLaplace(epsilon=0.5), query).value) == 80
    with pytest.raises(LedgerError, match="delta must be < 1/n, got n=41"):
        ledger.release(LatticeLaplace(epsilon=0.5), sets_of(41))


def test_what_was_paid_for_and_not_drawn_is_told_in_tasks(tmp_path: Path, monkeypatch: Any) -> None:
    ledger, month = open_toy(tmp_path), Publication("2026-11")
    with monkeypatch.context() as failing:
        failing.setattr(LatticeLaplace, "draw_all", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            ledger.release(LatticeLaplace(0.5), replace(sets_of(4), publication=month))
    with pytest.raises(LedgerError, match="was paid for 4 records, got 5 records"):
        ledger.release(LatticeLaplace(0.5), replace(sets_of(5), publication=month))


@pytest.mark.refusal
def test_lists_are_no_arrays() -> None:
    with pytest.raises(TypeError, match="probability must be a NumPy array, got list"):
        bounded_labels([[0.9]], max_labels=1)
    for chosen, group, name in (
        ([[True]], np.array([0]), "chosen"),
        (np.ones((1, 1), bool), [0], "group"),
    ):
        with pytest.raises(TypeError, match=f"{name} must be a NumPy array, got list"):
            label_set_counts(
                chosen, group, max_labels=1, unit=Unit.TASK, **{**ABOUT, "tasks": ["t"]}
            )


@pytest.mark.refusal
def test_mistakes_are_named() -> None:
    one, group = np.array([[True, True]]), np.array([0])
    about = {**ABOUT, "tasks": ["t"]}
    with pytest.raises(CountsError, match="at most max_labels=1 classes"):
        label_set_counts(one, group, max_labels=1, unit=Unit.TASK, **about)
    with pytest.raises(UnitError, match="depends on each task's own labels"):
        label_set_counts(one, group, max_labels=2, unit=Unit.TASK, **{**about, "local": False})
    with pytest.raises(TypeError, match="unit must be a Unit, got str"):
        label_set_counts(one, group, max_labels=2, unit="task", **about)
    with pytest.raises(UnitError, match="for tasks and their answers"):
        label_set_counts(one, group, max_labels=2, unit=Unit.SUBJECT, **about)
    with pytest.raises(CountsError, match="truth values"):
        label_set_counts(one.astype(int), group, max_labels=2, unit=Unit.TASK, **about)
    with pytest.raises(ValueError, match="max_labels must be"):
        label_set_counts(one, group, max_labels=0, unit=Unit.TASK, **about)
    with pytest.raises(ValueError, match="max_labels must be"):
        bounded_labels(np.ones((1, 2)), max_labels=0)
    with pytest.raises(ValueError, match="integer codes of the 1 named groups"):
        label_set_counts(one, np.array([1]), max_labels=2, unit=Unit.TASK, **about)


@pytest.mark.refusal
@pytest.mark.parametrize("max_labels", [0, 1.5, 1.0, True, float("nan"), float("inf"), 2**70])
def test_the_most_labels_of_a_task_are_an_integer_from_one_to_a_million(max_labels) -> None:
    sentence = f"max_labels must be an integer from 1 to 1000000, got max_labels={max_labels}"
    with pytest.raises(ValueError, match=sentence):
        bounded_labels(np.ones((1, 2)), max_labels=max_labels)
    with pytest.raises(ValueError, match=sentence):
        label_set_counts(
            np.array([[True, True]]), np.array([0]), max_labels=max_labels, unit=Unit.TASK,
            **{**ABOUT, "tasks": ["t"]},
        )  # fmt: skip


@pytest.mark.refusal
def test_probabilities_are_numbers_and_a_threshold_is_one() -> None:
    for threshold in (-0.1, 1.1, float("nan")):
        with pytest.raises(ValueError, match=r"threshold must be in \[0, 1\], got threshold="):
            bounded_labels(np.ones((1, 2)), threshold=threshold, max_labels=1)
    for probability in (
        np.array([[np.nan, 1.0]]), np.ones(2), np.array([["a", "b"]]), np.array([[0.5, None]]),
    ):  # fmt: skip
        with pytest.raises(
            ValueError, match="probability must be a number, not NaN, for each task"
        ):
            bounded_labels(probability, max_labels=1)


def test_one_class_is_enough_and_one_at_most() -> None:
    assert bounded_labels(np.array([[0.9, 0.6]]), max_labels=1).tolist() == [[True, False]]
    assert counted(((True,), (False,)), 1, Unit.TASK).tolist() == [1, 1]


@pytest.mark.parametrize(
    ("group", "names", "n_classes", "sentence"),
    [
        ([0, 0], ("all",), 0, "chosen must be of one class or more"),
        ([0, 1], ("a", "a"), 2, "group_names must be different names, got 2"),
        ([0, 0], (), 2, "group_names must be different names, got 0"),
        ([0, 2], ("a", "b", "c"), 2, "every group must have a task, got none in 'b'"),
        ([0, 1], ("a",), 2, "group must be integer codes of the 1 named groups"),
    ],
)
def test_sets_are_counted_by_groups_that_have_a_name_and_a_task(
    group: list[int], names: tuple[str, ...], n_classes: int, sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        label_set_counts(
            np.zeros((2, n_classes), dtype=np.bool_), np.array(group), dataset="toy",
            group_names=names, max_labels=1, unit=Unit.TASK, local=True, tasks=("t1", "t2"),
        )  # fmt: skip


@pytest.mark.refusal
def test_the_likeliest_classes_are_kept_of_unsigned_numbers_too():
    chosen = bounded_labels(np.array([[1, 0, 1]], dtype=np.uint8), max_labels=2)
    assert chosen.tolist() == [[True, False, True]]
