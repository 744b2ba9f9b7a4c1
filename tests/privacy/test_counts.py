import math
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq

from privacy import (
    CountsError,
    DiscreteLaplace,
    LatticeLaplace,
    Unit,
    UnitError,
    class_counts,
    count_queries,
    partition_of,
    project_to_simplex,
)
from privacy.query import Query

CANARY = 987654321
vectors = st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=8).map(np.array)
totals = st.floats(0.1, 1e3)


def count(label, group, **changed):
    arguments = {
        "dataset": "toy",
        "n_classes": 3,
        "n_groups": 2,
        "group_names": ("north", "south"),
        "unit": Unit.CONSENSUS_LABEL,
        "local": False,
        "tasks": [f"t{place}" for place in range(len(label))],
    }
    return class_counts(np.array(label), np.array(group), **(arguments | changed))


def ask(counts, group, **changed):
    arguments = {
        "dataset": "toy",
        "group_names": ("north", "south"),
        "unit": Unit.CONSENSUS_LABEL,
        "local": False,
        "tasks": [f"t{place}" for place in range(len(group))],
    }
    return count_queries(counts, np.array(group), **(arguments | changed))


campaigns = st.integers(2, 30).flatmap(
    lambda n: st.tuples(
        st.lists(st.integers(0, 2), min_size=n, max_size=n),
        st.lists(st.integers(0, 1), min_size=n - 2, max_size=n - 2).map(lambda rest: [0, 1, *rest]),
    )
)


@settings(max_examples=50, deadline=None, derandomize=True)
@given(campaigns)
def test_counts_are_those_of_counting_one_by_one(campaign):
    label, group = campaign
    queries = count(label, group)
    for code, query in enumerate(queries):
        own = [one for one, g in zip(label, group, strict=True) if g == code]
        assert [own.count(c) for c in range(3)] == query.value.tolist()
        assert len(own) == query.n == query.value.sum()


@settings(max_examples=50, deadline=None, derandomize=True)
@given(campaigns, st.data())
def test_a_replaced_label_moves_all_counts_together_by_at_most_the_sensitivity(campaign, data):
    label, group = campaign
    task = data.draw(st.integers(0, len(label) - 1))
    neighbour = [*label[:task], data.draw(st.integers(0, 2)), *label[task + 1 :]]
    before, after = count(label, group), count(neighbour, group)
    moved = [abs(a.value - b.value).sum() for a, b in zip(before, after, strict=True)]
    assert sum(moved) <= min(query.l1 for query in before)
    assert [query.part for query in before] == [query.part for query in after]


@settings(max_examples=50, deadline=None, derandomize=True)
@given(campaigns)
def test_counts_added_up_already_give_the_same_queries(campaign):
    label, group = campaign
    added = np.zeros((2, 3), dtype=np.int32)
    np.add.at(added, (group, label), 1)
    expected = count(label, group)
    for one, other in zip(ask(added, group), expected, strict=True):
        assert one.value.tolist() == other.value.tolist()
        assert (one.n, one.l1, one.part, one.unit) == (other.n, other.l1, other.part, other.unit)
        assert not one.value.flags.writeable
    with pytest.raises(UnitError, match="majority"):
        ask(added, group, unit=Unit.TASK)


@pytest.mark.parametrize(
    "counts",
    [
        [[2, 0, 0], [1, CANARY, 0]],
        [[2, 0, 0], [2, -1, 0]],
        [[2, 0, 0], [2, 0, 0]],
        [[2, 0, 0]],
        [[2], [1]],
        pytest.param([2, 1], marks=pytest.mark.refusal),
        pytest.param([[2.0, 0.0, 0.0], [1.0, 0.0, 0.0]], marks=pytest.mark.refusal),
        pytest.param(  # whose sum wraps around to 2
            [[2**62, 2**62, 2**63 + 2], [1, 0, 0]], marks=pytest.mark.refusal
        ),
    ],
)
def test_counts_that_are_not_those_of_the_groups_are_refused_without_telling_them(counts):
    array = np.array(counts, dtype=np.uint64 if 2**62 in np.ravel(counts) else None)
    with pytest.raises(CountsError) as refused:
        ask(array, [0, 0, 1])
    assert str(CANARY) not in str(refused.value)


def test_queries_are_cells_of_one_partition_bound_to_assignment_and_names():
    north, south = count([0, 1, 2], [0, 0, 1])
    assert (north.part.name, south.part.name) == ("north", "south")
    partitions = {
        north.part.partition,
        count([0, 1, 2], [0, 1, 1])[0].part.partition,
        count([0, 1, 2], [0, 0, 1], group_names=("a", "b"))[0].part.partition,
        count([0, 1, 2], [0, 0, 1], tasks=["x", "y", "z"])[0].part.partition,
    }
    assert north.part.partition == south.part.partition
    assert len(partitions) == 4
    assert north.part.partition.startswith("group:")


def test_counts_are_read_only_and_the_arguments_unchanged():
    label, group = np.array([0, 1]), np.array([0, 1])
    query = count(label, group)[0]
    assert not query.value.flags.writeable
    assert label.flags.writeable
    assert label.tolist() == group.tolist() == [0, 1]


@pytest.mark.parametrize("unit", [Unit.TASK, Unit.ANSWER])
def test_units_of_answers_need_a_local_consensus(unit):
    with pytest.raises(UnitError, match=f"unit '{unit}' needs a consensus .*majority"):
        count([0, 1], [0, 1], unit=unit)
    assert count([0, 1], [0, 1], unit=unit, local=True)[0].unit is unit


@pytest.mark.parametrize(
    "code",
    [np.int16, *(pytest.param(one, marks=pytest.mark.refusal) for one in (np.uint8, np.uint64))],
)
def test_codes_are_of_any_integer_type(code):
    """numpy adds int64 and uint64 in floating point."""
    found = count(np.array([0, 1, 1], dtype=code), np.array([0, 0, 1], dtype=code))
    assert [query.value.tolist() for query in found] == [[1, 1, 0], [0, 1, 0]]


@pytest.mark.parametrize(
    ("label", "group", "changed", "error"),
    [
        ([0, 3], [0, 1], {}, CountsError),
        ([0, -1], [0, 1], {}, CountsError),
        ([0, CANARY], [0, 1], {}, CountsError),
        pytest.param([0.0, 1.0], [0, 1], {}, CountsError, marks=pytest.mark.refusal),
        ([0, 0], [0, 1], {"n_classes": 1}, CountsError),
        pytest.param([0], [0, 1], {}, CountsError, marks=pytest.mark.refusal),
        pytest.param([], [], {}, ValueError, marks=pytest.mark.refusal),
        ([0, 1], [0, 2], {}, ValueError),
        ([0, 1], [0, 0], {}, ValueError),
        ([0, 1], [0, 1], {"group_names": ("a", "a")}, ValueError),
        ([0, 1], [0, 1], {"group_names": ("a",)}, ValueError),
        ([0, 1], [0, 1], {"tasks": ["a"]}, ValueError),
    ],
)
def test_what_cannot_be_counted_is_refused_without_telling_labels(label, group, changed, error):
    with pytest.raises(error) as refused:
        count(label, group, **changed)
    assert str(CANARY) not in str(refused.value)


@pytest.mark.parametrize("mechanism", [LatticeLaplace(1.0), DiscreteLaplace(1.0)])
@pytest.mark.parametrize(
    ("value", "n", "l1"),
    [
        (np.array([CANARY, 1]), 4, 2.0),
        (np.array([CANARY, -CANARY]), 4, 2.0),
        (np.array([4]), 4, 2.0),
        (np.array([[3, 1]]), 4, 2.0),
        (np.array([3.0, 1.0]), 4, 2.0),
        ({"x": np.array([3, 1])}, 4, 2.0),
        (np.array([3, 1]), 4, float("inf")),
        (np.array([2**62, 2**62, 2**62, 2**62 + 4]), 4, 2.0),  # whose sum wraps around to 4
        (np.array([2**63, 2**63, 4], dtype=np.uint64), 4, 2.0),
    ],
)
def test_mechanisms_refuse_what_are_not_counts_without_telling_them(mechanism, value, n, l1):
    """Acceptance A18: c = 1, and counts that do not add up to n."""
    query = Query("toy", "counts", value, Unit.ROW, n=n, l1=l1)
    with pytest.raises(CountsError) as refused:
        mechanism.event(query)
    assert str(CANARY) not in str(refused.value)


@pytest.mark.refusal
@pytest.mark.parametrize("n_classes", [1, 0, -1, 2.5, math.inf, 10**12, 2**70])
def test_fewer_than_two_classes_or_too_many_are_refused_by_their_number(n_classes):
    """Before a label is looked at: the sentence says what was declared."""
    sentence = (
        f"n_classes must be an integer from 2 to 1000000, got n_classes={re.escape(str(n_classes))}"
    )
    with pytest.raises(CountsError, match=sentence):
        class_counts(
            np.array([0, 0]), np.array([0, 0]), dataset="toy", n_classes=n_classes, n_groups=1,
            group_names=("all",), unit=Unit.CONSENSUS_LABEL, local=False, tasks=("t1", "t2"),
        )  # fmt: skip


@pytest.mark.refusal
@pytest.mark.parametrize("n_groups", [True, 1.0, "1", None])
def test_the_number_of_groups_is_an_integer(n_groups):
    with pytest.raises(ValueError, match=f"n_groups must be an integer, got n_groups={n_groups}"):
        count([1], [0], n_classes=2, n_groups=n_groups, group_names=("north",))


@pytest.mark.refusal
def test_lists_are_no_counts_labels_or_groups():
    with pytest.raises(TypeError, match="counts must be a NumPy array, got list"):
        ask([[1, 1], [0, 1]], [0, 0, 1])
    about = {
        "dataset": "toy", "n_classes": 2, "n_groups": 1, "group_names": ("all",), "unit": Unit.ROW,
        "local": False, "tasks": ("t",),
    }  # fmt: skip
    for codes, name in ((([0], np.array([0])), "label"), ((np.array([0]), [0]), "group")):
        with pytest.raises(TypeError, match=f"{name} must be a NumPy array, got list"):
            class_counts(*codes, **about)
    with pytest.raises(TypeError, match="cell must be a NumPy array, got list"):
        partition_of("split", [0], tasks=["t"])


def test_counts_of_the_unit_subject_are_not_made_of_tasks_alone():
    with pytest.raises(UnitError, match="use subject_counts"):
        ask(np.array([[1, 1], [0, 1]]), [0, 0, 1], unit=Unit.SUBJECT, local=True)


@pytest.mark.parametrize(
    ("counts", "group", "words"),
    [
        ([[3, 0], [0, 0]], [0, 0, 0], "must have a task, got none in 'south'"),
        ([[2], [1]], [0, 0, 1], "2 classes or more"),
        ([[1, 1], [0, 1]], [0, 0, 2], "integer codes of the 2 named groups"),
        ([[1, 1], [0, 1]], [0, 0, -1], "integer codes of the 2 named groups"),
        ([[1, 1], [0, 1]], [0.0, 0.0, 1.0], "integer codes of the 2 named groups"),
        ([[1, 1], [0, 1]], [], "integer codes of the 2 named groups"),
        ([[1, 1], [0, 1]], [[0, 0, 1]], "integer codes of the 2 named groups"),
    ],
)
@pytest.mark.refusal
def test_counts_of_groups_that_are_none_are_refused(counts, group, words):
    tasks = [f"t{place}" for place in range(3)]
    with pytest.raises((CountsError, ValueError), match=words):
        ask(np.array(counts), group, tasks=tasks)


def test_one_group_of_one_task_and_two_classes_are_enough():
    (query,) = count([1], [0], n_classes=2, n_groups=1, group_names=("north",))
    assert query.value.tolist() == [0, 1]
    (query,) = ask(np.array([[0, 1]]), [0], group_names=("north",))
    assert (query.n, query.value.tolist()) == (1, [0, 1])


@settings(max_examples=100, deadline=None, derandomize=True)
@given(vectors, totals)
def test_it_is_the_shift_that_a_root_search_finds(value, total):
    """Oracle: the optimum is max(value - shift, 0) with the shift at which entries sum to total."""

    def excess(shift):
        return np.maximum(value - shift, 0).sum() - total

    shift = brentq(excess, value.min() - total - 1, value.max() + 1, xtol=1e-12)
    expected = np.maximum(value - shift, 0)
    np.testing.assert_allclose(project_to_simplex(value, total), expected, atol=1e-8)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(vectors, totals)
def test_it_lies_on_the_simplex_keeps_order_and_is_its_own_projection(value, total):
    found = project_to_simplex(value, total)
    assert (found >= 0).all()
    assert found.sum() == pytest.approx(total, rel=1e-9)
    order = np.argsort(value, kind="stable")
    assert (np.diff(found[order]) >= 0).all()
    np.testing.assert_allclose(project_to_simplex(found, total), found, atol=1e-9 * total)


def test_no_point_of_the_simplex_is_nearer(rng):
    for _ in range(50):
        value = rng.normal(scale=10, size=4)
        nearest = np.linalg.norm(project_to_simplex(value, 5.0) - value)
        others = 5.0 * rng.dirichlet(np.ones(4), size=200)
        assert nearest <= np.linalg.norm(others - value, axis=1).min() + 1e-9


def test_large_values_keep_their_differences():
    found = project_to_simplex(np.array([1e300, 1e300]), 1.0)
    assert found.tolist() == [0.5, 0.5]
    assert project_to_simplex(np.array([1.7e308, -1.7e308, 0.0]), 1.0).tolist() == [1.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("value", "total"),
    [
        ([], 1.0),
        pytest.param([[1.0]], 1.0, marks=pytest.mark.refusal),
        ([np.nan], 1.0),
        ([np.inf], 1.0),
        ([1.0], 0.0),
        ([1.0], np.nan),
    ],
)
def test_what_has_no_projection_is_refused(value, total):
    with pytest.raises(ValueError, match="must be"):
        project_to_simplex(np.array(value), total)


@pytest.mark.refusal
def test_a_units_name_is_no_unit():
    label, group = np.array([0, 1]), np.array([0, 0])
    with pytest.raises(TypeError, match="unit must be a Unit, got str"):
        class_counts(
            label, group, dataset="toy", n_classes=2, n_groups=1, group_names=("all",), unit="row",
            local=False, tasks=("t1", "t2"),
        )  # fmt: skip


@pytest.mark.refusal
def test_what_are_no_real_numbers_is_not_projected():
    """NumPy's error would repeat a value, and it would drop an imaginary part with a warning."""
    for value in (["secret", "1"], [1 + 2j, 3]):
        with pytest.raises(ValueError, match="value must be numbers") as refusal:
            project_to_simplex(np.array(value))
        assert "secret" not in str(refusal.value)
