"""Units for people: what one subject can move, what is left out, and what a group of records costs."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from learners import Thresholdout
from privacy import (
    ApproximateEvent,
    Cost,
    CountsError,
    DiscreteGaussian,
    GroupInteraction,
    GroupPrivacy,
    History,
    JointLatticeLaplace,
    LatticeLaplace,
    PureEvent,
    Query,
    Question,
    Unit,
    UnitError,
    bounded_tasks,
    choose_mechanism,
    class_counts,
    draw_releases,
    subject_counts,
)
from privacy.accounting import exact
from tests.learners.scripted_noise import SilentNoise

N_CLASSES = 3
subjects = st.lists(st.integers(0, 5), min_size=1, max_size=40).map(np.array)


def names(n: int) -> list[str]:
    return [f"t{number}" for number in range(n)]


@given(subjects, st.integers(1, 5))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_no_subject_keeps_more_than_the_bound_and_none_loses_without_need(subject, max_tasks):
    kept = bounded_tasks(subject, tasks=names(subject.size), max_tasks=max_tasks, key=b"seed")
    before, after = np.bincount(subject), np.bincount(subject[kept], minlength=subject.max() + 1)
    assert np.array_equal(after, np.minimum(before, max_tasks))


@given(subjects, st.randoms(use_true_random=False))
@settings(max_examples=30, deadline=None, derandomize=True)
def test_what_is_kept_depends_on_names_and_not_on_the_order_of_rows(subject, random):
    tasks = np.array(names(subject.size))
    kept = bounded_tasks(subject, tasks=tasks, max_tasks=2, key=b"seed")
    order = np.array(random.sample(range(subject.size), subject.size))
    shuffled = bounded_tasks(subject[order], tasks=tasks[order], max_tasks=2, key=b"seed")
    assert set(tasks[kept]) == set(tasks[order][shuffled])


def test_another_key_keeps_other_tasks():
    subject = np.zeros(40, dtype=np.int64)
    one, other = (
        bounded_tasks(subject, tasks=names(40), max_tasks=5, key=key) for key in (b"a", b"b")
    )
    assert not np.array_equal(one, other)


def test_a_bound_is_at_least_one():
    with pytest.raises(ValueError, match="max_tasks must be an integer >= 1, got max_tasks=0"):
        bounded_tasks(np.array([0]), tasks=["t"], max_tasks=0, key=b"")


@pytest.mark.refusal
@pytest.mark.parametrize("max_tasks", [0, math.inf, math.nan, 2.0, True])
def test_the_most_tasks_of_a_subject_are_an_integer_from_one(max_tasks):
    one, sentence = np.array([0]), f"max_tasks must be an integer >= 1, got max_tasks={max_tasks}"
    with pytest.raises(ValueError, match=sentence):
        bounded_tasks(one, tasks=["t"], max_tasks=max_tasks, key=b"")
    with pytest.raises(ValueError, match=sentence):
        ask(one, one, one, max_tasks=max_tasks, group_names=("a",))
    with pytest.raises(ValueError, match="size must be an integer >= 1"):
        GroupInteraction(None, max_tasks)


@pytest.mark.refusal
def test_lists_are_no_subjects():
    with pytest.raises(TypeError, match="subject must be a NumPy array, got list"):
        bounded_tasks([0], tasks=["t"], max_tasks=1, key=b"")
    about = {
        "dataset": "toy", "n_classes": 2, "group_names": ("a",), "subject_names": ("p",),
        "tasks": ("t",), "max_tasks": 1,
    }  # fmt: skip
    for place, name in enumerate(("label", "group", "subject")):
        given = [np.array([0])] * 3
        given[place] = [0]
        with pytest.raises(TypeError, match=f"{name} must be a NumPy array, got list"):
            subject_counts(*given, **about)


@pytest.mark.refusal
@pytest.mark.parametrize("key", [bytes(65), "CANARY", None])
def test_a_key_is_bytes_that_no_sentence_shows(key):
    with pytest.raises(ValueError, match="key must be at most 64 bytes$"):
        bounded_tasks(np.array([0]), tasks=["t"], max_tasks=1, key=key)


@pytest.mark.refusal
@pytest.mark.parametrize("subject", [[-1, 0], [0.0, np.nan], [[0], [1]]])
def test_subjects_to_bound_are_codes(subject):
    with pytest.raises(ValueError, match="subject must be one integer code >= 0 for each task"):
        bounded_tasks(np.array(subject), tasks=["t1", "t2"], max_tasks=1, key=b"7")


def test_a_group_too_large_for_its_delta_is_refused():
    query = Query("toy", "class counts", np.array([3, 1]), Unit.SUBJECT, n=4, l1=2.0)
    with pytest.raises(
        ValueError, match=r"size must be at most 1 \+ 700 / epsilon .*got size=1000"
    ):
        GroupPrivacy(DiscreteGaussian(1.0, 1e-9), 1000, 1000.0).event(query)


def ask(label, group, subject, *, max_tasks=3, subject_names=None, group_names=("a", "b")):
    people = subject_names or [f"p{code}" for code in range(int(subject.max()) + 1)]
    return subject_counts(
        np.asarray(label), np.asarray(group), np.asarray(subject), dataset="toy",
        n_classes=N_CLASSES, group_names=group_names, subject_names=people,
        tasks=names(len(label)), max_tasks=max_tasks,
    )  # fmt: skip


@given(st.data())
@settings(max_examples=100, deadline=None, derandomize=True)
def test_one_subject_moves_the_counts_of_all_groups_by_at_most_what_is_paid_for(data):
    """Neighbours: any other labels for all tasks of one subject. In cells it moves one cell alone."""
    n = data.draw(st.integers(2, 20))
    codes = st.lists(st.integers(0, N_CLASSES - 1), min_size=n, max_size=n).map(np.array)
    one, other = data.draw(codes), data.draw(codes)
    group = np.array(
        [0, 1, *data.draw(st.lists(st.integers(0, 1), min_size=n - 2, max_size=n - 2))]
    )
    subject = np.array(data.draw(st.lists(st.integers(0, 4), min_size=n, max_size=n)))
    bound = int(np.bincount(subject).max())
    neighbour = np.where(subject == subject[0], other, one)
    asked = [ask(label, group, subject, max_tasks=bound) for label in (one, neighbour)]
    moved = [
        float(np.abs(np.asarray(a.value) - np.asarray(b.value)).sum())
        for a, b in zip(*asked, strict=True)
    ]
    assert sum(moved) <= 2 * bound == asked[0][0].l1
    if len(moved) == 2:
        assert sum(distance > 0 for distance in moved) <= 1
        assert {query.part.name for query in asked[0]} == {"a", "b"}
    else:
        assert asked[0][0].part is None


def test_groups_are_cells_only_while_no_subject_is_in_two():
    label, group = np.array([0, 1, 2, 0]), np.array([0, 0, 1, 1])
    assert len(ask(label, group, np.array([0, 0, 1, 1]))) == 2
    (joint,) = ask(label, group, np.array([0, 1, 1, 2]))
    assert (joint.part, joint.n, joint.unit) == (None, 4, Unit.SUBJECT)
    assert np.asarray(joint.value).tolist() == [[1, 1, 0], [1, 0, 1]]


def test_another_assignment_to_groups_or_to_subjects_is_another_partition():
    label, group, subject = np.array([0, 1, 2, 0]), np.array([0, 0, 1, 1]), np.array([0, 0, 1, 1])
    base = ask(label, group, subject)[0].part
    assert base == ask(label[::-1], group, subject)[0].part
    others = [
        ask(label, group, subject, subject_names=["q0", "q1"])[0].part,
        ask(label, group, subject, group_names=("b", "c"))[0].part,
        ask(label, group, np.array([0, 1, 2, 2]))[0].part,
        ask(label, np.array([0, 0, 0, 1]), np.array([0, 0, 0, 1]))[0].part,
    ]
    assert len({part.partition for part in [base, *others]}) == 5


def test_codes_out_of_range_and_groups_without_tasks_are_refused():
    one, about = np.array([0]), {"dataset": "toy", "n_classes": 2, "tasks": ("t1",), "max_tasks": 1}
    named = {"group_names": ("north",), "subject_names": ("ann",)}
    with pytest.raises(CountsError, match="label"):
        subject_counts(np.array([2]), one, one, **named, **about)
    named["group_names"] = ("north", "south")
    with pytest.raises(ValueError, match="every group must have a task, got none in 'south'"):
        subject_counts(one, one, one, **named, **about)
    named["group_names"] = ("north", "north")
    with pytest.raises(ValueError, match="group_names must be different names, got 2"):
        subject_counts(np.array([0, 1]), np.array([0, 1]), np.array([0, 1]), **named, **about)


def test_a_subject_beyond_the_bound_is_refused_and_so_is_the_unit_without_subjects():
    label, group = np.array([0, 1, 2]), np.array([0, 0, 1])
    with pytest.raises(UnitError, match="at most max_tasks=2 tasks"):
        ask(label, group, np.array([0, 0, 0]), max_tasks=2)
    with pytest.raises(UnitError, match="use subject_counts"):
        class_counts(
            label, group, dataset="toy", n_classes=3, n_groups=2, group_names=("a", "b"),
            unit=Unit.SUBJECT, local=True, tasks=names(3),
        )  # fmt: skip


def joint(counts, l1=4.0) -> Query:
    counts = np.asarray(counts)
    return Query("toy", "class counts", counts, Unit.SUBJECT, n=int(counts.sum()), l1=l1)


class Fixed(SilentNoise):
    """Noise in a fixed order; the proposal's filter is always passed."""

    def discrete_laplace(self, scale, size):
        self.scale = scale
        return [(number % 3) - 1 for number in range(size)]


def test_joint_counts_keep_each_groups_total_and_use_the_sensitivitys_noise():
    noise = Fixed()
    drawn = JointLatticeLaplace(0.5).draw(joint([[3, 1, 2], [0, 4, 0]]), noise)
    assert [sum(row) for row in drawn] == [6, 4]
    assert noise.scale == 8.0


def test_the_odds_of_joint_counts_move_by_at_most_the_price():
    """The log odds of any output add up over groups: at most l1 / scale whatever the neighbour moved."""
    mechanism, one = JointLatticeLaplace(0.5), np.array([[3, 1, 2], [1, 4, 0]])
    scale = mechanism.event(joint(one)).scale
    rng = np.random.default_rng(3)
    for other in ([[2, 2, 2], [0, 5, 0]], [[1, 3, 2], [1, 4, 0]], [[3, 1, 2], [0, 4, 1]]):
        outputs = rng.integers(-9, 9, size=(500, 2, 3))
        distance = [np.abs(outputs - np.array(counts)).sum(axis=(1, 2)) for counts in (one, other)]
        assert (np.abs(distance[0] - distance[1]) / scale <= 0.5).all()


@pytest.mark.parametrize("counts", [[3, 1], [[0, 0], [1, 2]], [[-1, 2], [1, 1]], [[1], [2]]])
def test_joint_counts_are_of_groups_with_tasks(counts):
    counts = np.asarray(counts)
    query = Query("toy", "class counts", counts, Unit.SUBJECT, n=max(1, int(counts.sum())), l1=4.0)
    with pytest.raises(CountsError, match="counts must be"):
        JointLatticeLaplace(0.5).event(query)


def test_joint_counts_need_a_price_and_a_finite_sensitivity():
    with pytest.raises(ValueError, match="epsilon must be > 0"):
        JointLatticeLaplace(0.0)
    with pytest.raises(CountsError, match="finite l1"):
        JointLatticeLaplace(0.5).event(joint([[1, 2], [3, 4]], l1=math.inf))


@pytest.mark.parametrize("n_releases", [1, 3])
def test_the_choice_for_subjects_is_paid_for_by_the_same_price(n_releases):
    """Its plan's slots are of the event that the joint release has."""
    choice = choose_mechanism(3, 1.2, 0.0, n_releases=n_releases, l1=6.0)
    assert isinstance(choice.mechanism, LatticeLaplace)
    share = exact(choice.mechanism.epsilon)
    assert share * n_releases <= exact(1.2)
    assert choice.mechanism.law(3, l1=6.0).scale >= 6 * n_releases / 1.2
    event = JointLatticeLaplace(choice.mechanism.epsilon).event(joint([[1, 2, 0], [3, 4, 1]], 6.0))
    single = Query("t", "c", np.array([1, 2, 0]), Unit.SUBJECT, n=3, l1=6.0)
    assert event == choice.mechanism.event(single)


def test_an_l1_below_that_of_one_task_is_refused():
    with pytest.raises(ValueError, match="l1 must be >= 2"):
        choose_mechanism(3, 1.0, 0.0, l1=1.0)


class Toy:
    """A mechanism and interaction whose event is given."""

    def __init__(self, event):
        self._event = event

    def event(self, query):
        return self._event

    def draw(self, query, noise):
        return "drawn"

    def check(self, query, question):
        if not question.name:
            raise ValueError("a question must have a name")

    def start(self, query, noise):
        return "begun"

    def answer(self, state, question, noise, history):
        return state, question.name


QUERY = Query("toy", "rows", np.array([1.0]), Unit.SUBJECT, n=9, l1=math.inf)


def test_a_group_costs_as_many_times_what_one_record_costs():
    toy = Toy(PureEvent("toy", 0.1))
    assert GroupPrivacy(toy, 3, 0.3).event(QUERY).cost().epsilon == Fraction(3, 10)
    assert GroupPrivacy(toy, 3, 0.4).event(QUERY).cost().epsilon == Fraction(4, 10)
    assert GroupPrivacy(toy, 3, 0.4).epsilon == 0.4
    assert GroupInteraction(toy, 7).event(QUERY).cost().epsilon == Fraction(7, 10)
    with pytest.raises(
        ValueError, match=r"claim must be at least size \* epsilon = 0\.3, got 0\.29"
    ):
        GroupPrivacy(toy, 3, 0.29).event(QUERY)
    for size in (0, -1):
        with pytest.raises(ValueError, match="size must be an integer >= 1"):
            GroupInteraction(toy, size)


@pytest.mark.parametrize(("epsilon", "size"), [(0.5, 4), (3.0, 4), (4.0, 2), (0.01, 30)])
def test_a_groups_delta_covers_every_step_of_the_chain(epsilon, size):
    """delta (1 + e^eps + ... + e^((m-1) eps)) is what the chain realises: Vadhan (2017), Lemma 2.2.

    At small prices alone a step less of growth would not have been noticed.
    """
    toy = Toy(ApproximateEvent("toy", epsilon, 1e-9))
    cost = GroupInteraction(toy, size).event(QUERY).cost()
    chain = 1e-9 * sum(math.exp(epsilon * step) for step in range(size))
    assert float(cost.epsilon) == pytest.approx(size * epsilon)
    assert chain < float(cost.delta) <= size * 1e-9 * math.exp((size - 1) * epsilon) * 1.0001


def test_a_groups_values_are_the_inner_mechanisms():
    toy = Toy(PureEvent("toy", 0.1))
    noise, asked = SilentNoise(), Question("asked", {"x": 1.0})
    assert GroupPrivacy(toy, 2, 0.2).draw(QUERY, noise) == "drawn"
    gate = GroupInteraction(toy, 2)
    assert gate.start(QUERY, noise) == "begun"
    history = History(1, 1, Cost(Fraction(1), Fraction(0)), ())
    assert gate.answer("state", asked, noise, history) == ("state", "asked")


@pytest.mark.refusal
@pytest.mark.parametrize("subject", [[0], [0, -1], [], [0, 2], [[0], [1]], [0.0, 1.0]])
def test_every_task_has_one_subject(subject):
    about = {
        "dataset": "toy", "n_classes": 2, "group_names": ("all",), "subject_names": ("a", "b"),
        "tasks": ("t1", "t2"), "max_tasks": 2,
    }  # fmt: skip
    table = np.array([0, 1]), np.zeros(2, dtype=np.int64)
    (query,) = subject_counts(*table, np.array([0, 1]), **about)
    with pytest.raises(ValueError, match="read-only"):
        query.value[0] = 9
    with pytest.raises(
        ValueError, match="subject must be one integer code of the 2 named subjects"
    ):
        subject_counts(*table, np.array(subject), **about)


def test_a_group_of_one_task_has_a_release_and_what_are_no_counts_have_none():
    query = Query("toy", "class counts", np.array([[1, 0], [0, 1]]), Unit.SUBJECT, n=2, l1=2.0)
    assert [sum(row) for row in JointLatticeLaplace(1.0).draw(query, SilentNoise())] == [1, 1]
    other = Query("toy", "class counts", np.array([[2, -1], [0, 1]]), Unit.SUBJECT, n=2, l1=2.0)
    with pytest.raises(CountsError, match="counts must be >= 0 and add up"):
        JointLatticeLaplace(1.0).draw(other, SilentNoise())


def test_a_group_is_of_one_record_or_more():
    assert GroupPrivacy(LatticeLaplace(1.0), 1, 1.0).size == 1
    for size in (0, -1):
        with pytest.raises(ValueError, match=f"size must be an integer >= 1, got size={size}"):
            GroupPrivacy(LatticeLaplace(1.0), size, 1.0)


def test_joint_counts_whose_sum_wraps_are_refused_before_they_are_paid():
    """Their 64-bit sum is the public n; only the draw noticed that they are more."""
    eight = np.array([[2**61] * 7 + [2**61 + 1]])
    assert eight.sum() == 1
    with pytest.raises(CountsError, match="counts must be >= 0 and add up"):
        JointLatticeLaplace(0.5).event(Query("toy", "counts", eight, Unit.SUBJECT, n=1, l1=4.0))


def test_a_name_that_no_encoding_knows_has_its_place_in_the_order():
    """Such names come from files that are read leniently."""
    subject, odd = np.zeros(2, dtype=np.int64), ("t1", "t\udcff")
    kept = bounded_tasks(subject, tasks=odd, max_tasks=1, key=b"7")
    assert kept.sum() == 1
    assert (
        bounded_tasks(subject, tasks=odd[::-1], max_tasks=1, key=b"7").tolist()
        == kept[::-1].tolist()
    )


def test_a_claim_far_below_a_group_beyond_doubles_is_refused_in_a_sentence():
    query = Query("toy", "class counts", np.array([3, 1]), Unit.SUBJECT, n=4, l1=2.0)
    with pytest.raises(ValueError, match=r"at least size \* epsilon = inf, got 1e\+300"):
        GroupPrivacy(LatticeLaplace(1e300), 10**10, 1e300).event(query)


def test_places_of_a_record_do_not_end_a_joint_draw_that_was_paid():
    """A group's size need not be a multiple of them: the draw of one of three refused it."""
    counts = np.array([[1, 2], [2, 1]])
    query = Query("toy", "counts", counts, Unit.SUBJECT, n=6, l1=4.0, places=2)
    (drawn,) = draw_releases(JointLatticeLaplace(0.5), query, 1)
    assert [sum(row) for row in drawn] == [3, 3]


@pytest.mark.refusal
def test_one_person_under_two_codes_is_refused():
    """She would have twice the tasks that are paid for, and groups that hold both would be no cells."""
    label, group, subject = np.array([0, 1]), np.array([0, 1]), np.array([0, 1])
    assert len(ask(label, group, subject, subject_names=["ann", "bob"], max_tasks=1)) == 2
    for names_of in (["ann", "ann"], [1, "1"]):
        with pytest.raises(ValueError, match="subject_names must be 2 different names"):
            ask(label, group, subject, subject_names=names_of, max_tasks=1)


@pytest.mark.refusal
def test_a_group_of_the_other_kind_is_refused_before_it_is_paid():
    """Its draw would fail after payment."""
    gate = Thresholdout(threshold=0.1, sigma=1.0, budget=1)
    with pytest.raises(TypeError, match="inner must .* draw values, got Thresholdout"):
        GroupPrivacy(gate, 2, 10.0)
    with pytest.raises(TypeError, match="inner must .* answer questions, got LatticeLaplace"):
        GroupInteraction(LatticeLaplace(1.0), 2)
    with pytest.raises(TypeError, match="got LatticeLaplace"):
        GroupPrivacy(LatticeLaplace, 2, 10.0)
    assert GroupInteraction(gate, 2).inner == gate
