"""Corrections by gold: what one neighbour can move, unit by unit, and how they are drawn."""

from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

from privacy import (
    CountsError,
    LatticeCorrection,
    Query,
    Unit,
    UnitError,
    draw_releases,
    gold_corrections,
)

CLASSES = 3


def ask(label, gold, group=None, *, names=("all",), unit=Unit.CONSENSUS_LABEL, **more):
    label = np.asarray(label)
    group = np.zeros(label.size, dtype=np.int64) if group is None else np.asanyarray(group)
    tasks = [f"t{j}" for j in range(label.size)]
    return gold_corrections(
        label, np.asarray(gold), group, dataset="toy", n_classes=CLASSES, group_names=names,
        unit=unit, tasks=tasks, **{"local": False} | more,
    )  # fmt: skip


def vector(query: Query) -> np.ndarray:
    assert isinstance(query.value, dict)
    return np.concatenate([query.value["difference"], query.value["right"]])


def vectors(**about) -> dict:
    """What is asked of each table, as one vector."""
    return {table: vector(ask(*table, **about)[0]) for table in TABLES}


TABLES = [
    (tuple(label), tuple(gold))
    for label in product(range(CLASSES), repeat=2)
    for gold in product(range(CLASSES), repeat=2)
]
CHANGES = {
    "consensus label": lambda table, to: ((to[0], table[0][1]), table[1]),
    "gold label": lambda table, to: (table[0], (to[1], table[1][1])),
    "both": lambda table, to: ((to[0], table[0][1]), (to[1], table[1][1])),
}


@pytest.mark.parametrize("what", CHANGES)
@pytest.mark.parametrize(
    "about",
    [
        {"unit": Unit.CONSENSUS_LABEL},
        {"unit": Unit.ROW},
        {"unit": Unit.TASK, "local": True},
        {"unit": Unit.ANSWER, "local": True},
        {"unit": Unit.SUBJECT, "apart": False},
    ],
    ids=lambda about: str(about["unit"]),
)
def test_no_neighbour_moves_a_correction_by_more_than_four_and_one_does(what, about) -> None:
    """All tables of two gold tasks and three classes, and all changes of one task."""
    change, found = CHANGES[what], vectors(**about)
    far = max(
        float(np.abs(found[table] - found[change(table, to)]).sum())
        for table in TABLES
        for to in product(range(CLASSES), repeat=2)
    )
    (query,) = ask(*TABLES[0], **about)
    assert far == query.l1 == 4.0


def test_a_subject_moves_a_correction_by_four_for_each_of_its_tasks() -> None:
    """All changes of both tasks of a subject, of its consensus and gold labels."""
    about = {"unit": Unit.SUBJECT, "apart": False, "max_tasks": 2}
    found = vectors(**about).values()
    far = max(float(np.abs(first - second).sum()) for first in found for second in found)
    (query,) = ask(*TABLES[0], **about)
    assert far == query.l1 == 8.0


@pytest.mark.parametrize("unit", [Unit.TASK, Unit.ANSWER])
def test_units_of_answers_need_a_local_consensus(unit) -> None:
    with pytest.raises(UnitError, match="depends on each task's own labels alone"):
        ask([0, 1], [0, 1], unit=unit)


def test_subjects_are_asked_together_and_bounded() -> None:
    with pytest.raises(UnitError, match="all groups together"):
        ask([0, 1], [0, 1], unit=Unit.SUBJECT)
    with pytest.raises(UnitError, match="1 but for subjects"):
        ask([0, 1], [0, 1], max_tasks=2)


def test_a_difference_adds_up_to_nothing_and_right_and_wrong_to_the_gold_tasks() -> None:
    rng = np.random.default_rng(3)
    label, gold = rng.integers(3, size=50), rng.integers(-1, 3, size=50)
    (query,) = ask(label, gold)
    assert query.value["difference"].sum() == 0
    assert query.value["right"].sum() == query.n == np.count_nonzero(gold >= 0)
    np.testing.assert_array_equal(
        [np.count_nonzero(gold == k) - np.count_nonzero(label[gold >= 0] == k) for k in range(3)],
        query.value["difference"],
    )


def test_groups_with_gold_are_parts_of_a_partition_of_the_gold_tasks() -> None:
    label, group = np.array([0, 1, 2, 0]), np.array([0, 0, 1, 1])
    (found,) = ask(label, [-1, -1, 2, 1], group, names=("a", "b"), unit=Unit.ROW)
    assert found.part is not None
    assert (found.part.name, found.n) == ("b", 2)
    first, other = (
        ask(label, gold, group, names=("a", "b"), unit=Unit.ROW)
        for gold in ([0, -1, 2, -1], [-1, 1, 2, -1])
    )
    assert len({one.part.partition for one in (found, *first, *other) if one.part is not None}) == 3
    assert first[0].part != other[0].part


def test_both_sums_of_a_draw_are_exact() -> None:
    (query,) = ask([0, 1, 2, 0, 1], [0, 0, 2, 1, -1])
    for difference, right in draw_releases(LatticeCorrection(0.5), query, 50):
        assert sum(difference) == 0
        assert sum(right) == query.n == 4


def test_a_draw_is_the_value_and_lattice_noise_of_its_scale() -> None:
    """Variances of 1,000 draws within five standard errors, .07 of the law's each: alarms below 1e-5."""
    (query,) = ask([0, 1, 2, 0, 1], [0, 0, 2, 1, -1])
    mechanism = LatticeCorrection(1.0)
    drawn = draw_releases(mechanism, query, 1_000)
    difference = np.array([one for one, _ in drawn]) - query.value["difference"]
    law = mechanism.law(3)
    assert law.scale == 4.0
    assert np.abs(difference.mean(axis=0)).max() < 5 * np.sqrt(law.variance / 1_000)
    np.testing.assert_allclose(law.variance, difference.var(axis=0), rtol=0.35)
    wrong = np.array([right[1] for _, right in drawn]) - query.value["right"][1]
    np.testing.assert_allclose(mechanism.law(2).variance, wrong.var(), rtol=0.35)


def test_the_price_is_the_claim_in_exact_arithmetic() -> None:
    (query,) = ask([0, 1], [0, 1])
    event = LatticeCorrection(0.3).event(query)
    assert event.cost().epsilon == Fraction(3, 10)
    assert Fraction(event.l1) / Fraction(event.scale) <= Fraction(3, 10)
    assert event.arithmetic == "exact"


@pytest.mark.parametrize(
    "value",
    [
        np.array([1, 1]),
        {"difference": np.array([1, -1])},
        {"difference": np.array([1, 1]), "right": np.array([1, 1])},
        {"difference": np.array([1.0, -1.0]), "right": np.array([1, 1])},
        {"difference": np.array([0]), "right": np.array([1, 1])},
        {"difference": np.array([1, -1]), "right": np.array([1, 2])},
        {"difference": np.array([3, -3]), "right": np.array([1, 1])},
    ],
)
def test_what_is_no_correction_is_refused(value) -> None:
    query = Query("toy", "corrections by gold", value, Unit.ROW, 2, 4.0)
    with pytest.raises(CountsError):
        LatticeCorrection(1.0).event(query)


@pytest.mark.refusal
def test_labels_and_gold_of_other_lengths_are_refused() -> None:
    with pytest.raises(CountsError, match="equal length"):
        ask([0, 1], [0])


@pytest.mark.refusal
def test_lists_are_no_labels() -> None:
    about = {
        "dataset": "toy", "n_classes": 2, "group_names": ("all",), "unit": Unit.ROW, "local": False,
        "tasks": ("t",),
    }  # fmt: skip
    for place, name in enumerate(("label", "gold", "group")):
        given: list[Any] = [np.array([0])] * 3
        given[place] = [0]
        with pytest.raises(TypeError, match=f"{name} must be a NumPy array, got list"):
            gold_corrections(*given, **about)


@pytest.mark.refusal
@pytest.mark.parametrize("max_tasks", [float("inf"), float("nan"), 1.0, 2.0, True, 0])
def test_the_most_tasks_of_a_subject_are_an_integer(max_tasks: Any) -> None:
    with pytest.raises(
        UnitError, match=f"max_tasks must be an integer >= 1, .*got max_tasks={max_tasks}"
    ):
        ask([0, 1], [0, 1], unit=Unit.SUBJECT, apart=False, max_tasks=max_tasks)


def test_an_endless_sensitivity_is_refused() -> None:
    value = {"difference": np.array([1, -1]), "right": np.array([1, 1])}
    with pytest.raises(CountsError, match="finite"):
        LatticeCorrection(1.0).event(Query("toy", "corrections", value, Unit.ROW, 2, float("inf")))


def test_mistakes_are_refused_without_a_label_in_the_message() -> None:
    with pytest.raises(CountsError, match="codes of the 3 declared classes"):
        ask([0, 3], [0, 1])
    with pytest.raises(CountsError, match="codes of the 3 declared classes"):
        ask([0, 1], [0, -2])
    with pytest.raises(ValueError, match="a gold task, got none"):
        ask([0, 1], [-1, -1])
    with pytest.raises(ValueError, match="codes of the 2 named groups"):
        ask([0, 1], [0, 1], [0, 2], names=("a", "b"))
    with pytest.raises(ValueError, match="different names"):
        ask([0, 1], [0, 1], names=("a", "a"))
    with pytest.raises(ValueError, match="epsilon must be > 0"):
        LatticeCorrection(0.0)


def test_right_labels_are_counted_before_wrong_ones_and_both_are_read_only() -> None:
    (query,) = ask([0, 1, 2, 2], [0, 1, 1, -1])
    assert isinstance(query.value, dict)
    assert query.value["right"].tolist() == [2, 1]
    assert query.value["difference"].tolist() == [0, 1, -1]
    for array in query.value.values():
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 9


def test_two_classes_are_enough_and_all_labels_may_be_wrong() -> None:
    about = {"dataset": "toy", "group_names": ("all",), "unit": Unit.ROW, "local": False}
    table = np.ones(3, dtype=np.int64), np.zeros(3, dtype=np.int64), np.zeros(3, dtype=np.int64)
    (query,) = gold_corrections(*table, n_classes=2, tasks=("t1", "t2", "t3"), **about)
    assert LatticeCorrection(1.0).event(query).n_classes == 2
    assert vector(query).tolist() == [3, -3, 0, 3]
    with pytest.raises(
        CountsError, match="n_classes must be an integer from 2 to 1000000, got n_classes=1"
    ):
        gold_corrections(
            table[1], table[1], table[2], n_classes=1, tasks=("t1", "t2", "t3"), **about
        )


def test_the_loss_of_a_correction_of_one_moved_place_is_that_of_its_shorter_vector() -> None:
    """Right and wrong are two entries: moved by 2 they lose more than a vector of three classes would."""
    (query,) = ask([0, 1, 2, 2], [0, 1, 1, -1])
    event = LatticeCorrection(1.0).event(replace(query, l1=2.0))
    assert event.n_classes == 2


def test_the_least_integer_is_no_difference_of_a_few_tasks() -> None:
    """Its absolute value is itself, below any number of tasks; only the draw noticed it."""
    value = {"difference": np.array([-128, 127, 1], dtype=np.int8), "right": np.array([127, 0])}
    query = Query("toy", "corrections by gold", value, Unit.ROW, n=127, l1=4.0)
    with pytest.raises(CountsError, match="a difference must add up to 0, and be at most"):
        LatticeCorrection(0.5).event(query)


@pytest.mark.parametrize("places", [1, 2])
def test_places_of_a_record_do_not_end_a_draw_that_was_paid(places: int) -> None:
    """Difference and right labels are vectors of their own sums, which no number of places need divide."""
    value = {"difference": np.array([1, 0, -1]), "right": np.array([1, 1])}
    query = Query("toy", "corrections", value, Unit.ROW, n=2, l1=4.0, places=places)
    for difference, right in draw_releases(LatticeCorrection(0.5), query, 3):
        assert (sum(difference), sum(right)) == (0, 2)


def test_a_correction_too_large_to_be_drawn_is_refused_before_it_is_paid() -> None:
    """Its counts are drawn with the number of gold tasks added to each: a sum of classes times tasks."""
    for n, taken in ((2**53 // 3, True), (2**52, False)):
        value = {"difference": np.zeros(3, dtype=np.int64), "right": np.array([n, 0])}
        query = Query("toy", "corrections", value, Unit.ROW, n=n, l1=4.0)
        if taken:
            assert sum(draw_releases(LatticeCorrection(0.5), query, 1)[0][1]) == n
            continue
        with pytest.raises(CountsError, match=r"gold tasks times classes must be at most 2\*\*53"):
            LatticeCorrection(0.5).event(query)


@pytest.mark.refusal
def test_a_units_name_is_no_unit() -> None:
    with pytest.raises(TypeError, match="unit must be a Unit, got str"):
        ask([0, 1], [0, 1], unit="row")


def test_many_groups_are_told_apart_at_once() -> None:
    """Each group's tasks were looked for among all: minutes for ten thousand groups of a million tasks."""
    compared = []

    class Counting(np.ndarray):
        def __eq__(self, other: object) -> Any:
            compared.append(other)
            return np.asarray(self) == other

    rng = np.random.default_rng(0)
    n_groups, n = 300, 2_000
    label, gold = rng.integers(0, CLASSES, n), rng.integers(-1, CLASSES, n)
    group = rng.integers(0, n_groups, n)
    names = tuple(f"g{number}" for number in range(n_groups))
    queries = ask(label, gold, group, names=names)
    ask(label, gold, group.view(Counting), names=names)
    assert not compared
    for query in queries:
        assert query.part is not None
        here = (group == names.index(query.part.name)) & (gold >= 0)
        (alone,) = ask(label[here], gold[here], apart=False)
        assert query.n == here.sum() > 0
        assert vector(query).tolist() == vector(alone).tolist()
    assert sum(query.n for query in queries) == (gold >= 0).sum()
