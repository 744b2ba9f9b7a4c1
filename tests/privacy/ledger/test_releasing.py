"""What every mechanism guarantees when a ledger draws it, one by one, in batches and by questions.

Noise cannot be seeded; a draw's law has tests of its own.
"""

import dataclasses
import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest

from learners import ObjectivePerturbation, ScoredTraining, StabilityValidation
from learners.private.objective_perturbation import training_query
from privacy import (
    BudgetError,
    DiscreteGaussian,
    LatticeLaplace,
    Part,
    PureEvent,
    Query,
    Question,
    Unit,
    UnitError,
)
from privacy.ledger.releasing import fingerprint
from privacy.mechanism import Batched, Mechanism
from privacy.mechanisms.noisy_max import NoisyMax
from privacy.noise import SystemNoise
from tests.privacy.toy import (
    DATASET,
    Forgetful,
    Turnstile,
    count_mechanisms,
    counts_query,
    open_toy,
    question,
)

FLOOR = 20
MECHANISMS = [*count_mechanisms(floor=FLOOR), NoisyMax(1.0)]
SELECTION = StabilityValidation(
    candidates=(0.01, 0.1), epsilon_train=0.5, epsilon_select=0.5, norm_bound=1.0, n_classes=3
)
TRAINERS = [
    ObjectivePerturbation(epsilon=0.5, regularization=0.01, norm_bound=1.0, n_classes=3),
    SELECTION,
    ScoredTraining(SELECTION, epsilon_score=0.1),
]
BATCHED = [mechanism for mechanism in MECHANISMS if isinstance(mechanism, Batched)]
EDGES = [
    (0, 0, 60),
    (60, 0, 0),
    (1, 0, 59),
    (1, 1, 58),
    (FLOOR - 1, FLOOR, 21),
    (FLOOR, FLOOR, FLOOR),
    (FLOOR + 1, FLOOR - 1, FLOOR),
    (29, 29, 2),
]


class CountingNoise(SystemNoise):
    """The system's noise; what is asked of it is recorded, but for what a uniform integer is below."""

    def __init__(self):
        self.asked = []

    def discrete_laplace(self, scale, size):
        self.asked.append(("laplace", scale, size))
        return super().discrete_laplace(scale, size)

    def discrete_gaussian(self, scale, size):
        self.asked.append(("gaussian", scale, size))
        return super().discrete_gaussian(scale, size)

    def uniform_integer(self, below):
        self.asked.append("uniform")
        return super().uniform_integer(below)


def cells(counts, how_many):
    return [counts_query(counts, part=Part("site:1", str(j))) for j in range(how_many)]


def shape_of(value):
    return len(value) if isinstance(value, list) else None


def asked_for(mechanism, counts):
    """What one draw asks of the noise; of the lattice's, what does not depend on refused proposals."""
    noise = CountingNoise()
    mechanism.draw(counts_query(counts), noise)
    if isinstance(mechanism, LatticeLaplace):
        # proposals are repeated until one is kept, by noise alone
        return sorted(set(noise.asked), key=str)
    return noise.asked


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_no_exception_depends_on_counts(mechanism):
    """Acceptance A9: the same event, the same noise and a value of one form, at every edge."""
    events = [mechanism.event(counts_query(counts)) for counts in EDGES]
    assert all(event == events[0] for event in events)
    drawn = [mechanism.draw(counts_query(counts), SystemNoise()) for counts in EDGES]
    assert len({(type(value), shape_of(value)) for value in drawn}) == 1
    asked = [asked_for(mechanism, counts) for counts in EDGES]
    assert all(one == asked[0] for one in asked)


@pytest.mark.parametrize("mechanism", TRAINERS, ids=lambda trainer: type(trainer).__name__)
@pytest.mark.parametrize("size", [0.0, 1e-300, 0.5, 1e150])
def test_no_training_fails_on_labels_or_features(mechanism, size):
    """Acceptance A9 for trainers: one class alone, classes that are missing, rows that are all equal,
    vanish, or lie far beyond the norm bound; the same event, and coefficients of one shape."""
    split = np.arange(60) % 3 == 0
    equal, apart = np.full((60, 2), size), size * np.array([[1.0, 0.0], [0.0, -1.0], [0.3, 0.3]])
    drawn, events = [], []
    for counts in EDGES[:4]:
        label = np.repeat(np.arange(3), counts)
        for features in (equal, apart[label]):
            query = training_query(features, label, dataset="toy", validation=split)
            events.append(mechanism.event(query))
            drawn.append(mechanism.draw(query, SystemNoise()))
    assert all(event == events[0] for event in events)
    assert {np.array(value["coef"]).shape for value in drawn} == {(3, 3)}
    assert all(np.isfinite(value["coef"]).all() for value in drawn)


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_every_edge_has_a_release_of_the_ledger(mechanism, tmp_path):
    ledger = open_toy(tmp_path, epsilon=100.0, delta=0.01, n=60)
    releases = ledger.release_all(mechanism, [counts_query(counts) for counts in EDGES])
    assert len(releases) == len(EDGES)
    assert all(release.fresh for release in releases)


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_a_refusal_tells_no_count(mechanism):
    """Counts that do not add up, that are negative or real, and a task moved by more than one record."""
    secret = 271_828
    values = [
        np.array([secret, -secret]),
        np.array([float(secret), 1.0]),
        np.array([[secret, 1]]),
        np.array([secret]),
    ]
    for value in values:
        query = Query("toy", "counts", value, Unit.CONSENSUS_LABEL, n=4, l1=2.0)
        if isinstance(mechanism, NoisyMax) and value.shape == (2,) and value.dtype.kind == "i":
            continue  # any integers are scores
        with pytest.raises(ValueError, match="must be") as refused:
            mechanism.event(query)
        assert str(secret) not in str(refused.value)


@pytest.mark.parametrize("mechanism", BATCHED, ids=repr)
def test_a_batch_asks_the_noise_as_often_for_many_as_for_one(mechanism):
    """But for uniform integers, and the proposals that the lattice refuses."""

    def calls(how_many):
        noise = CountingNoise()
        assert len(mechanism.draw_all(cells((30, 20, 10), how_many), noise)) == how_many
        return len([one for one in noise.asked if one != "uniform"])

    allowed = 20 if isinstance(mechanism, LatticeLaplace) else 1
    assert calls(1) <= allowed
    assert calls(500) <= allowed


@pytest.mark.parametrize("mechanism", BATCHED, ids=repr)
def test_a_batch_of_mixed_queries_gives_each_its_own(mechanism):
    """Sizes and sensitivities mixed: no count's error exceeds 60 scales, of probability below 1e-20."""
    vectors = [(10**6, 10**6), (10**9, 0, 10**9, 5), (3, 2, 1), (7 * 10**12, 1)]
    queries = [counts_query(vector) for vector in vectors]
    if not isinstance(mechanism, DiscreteGaussian):
        queries += [
            Query("toy", "counts", np.array(vector), Unit.CONSENSUS_LABEL, n=sum(vector), l1=4.0)
            for vector in vectors
        ]
    drawn = mechanism.draw_all(queries, SystemNoise())
    for query, value in zip(queries, drawn, strict=True):
        if isinstance(mechanism, NoisyMax):
            assert query.value[value] >= query.value.max() - 60 * query.l1
        else:
            assert np.abs(np.array(value) - query.value).max() < 60 * 10
    assert mechanism.draw_all([], SystemNoise()) == []


@pytest.mark.parametrize("mechanism", BATCHED, ids=repr)
def test_releases_of_one_batch_are_independent(mechanism):
    """Correlation of neighbours in a batch of 4,000: within 5.5 standard errors of none, 1e-7."""
    drawn = np.array(mechanism.draw_all(cells((30, 30), 4000), SystemNoise()), dtype=float)
    first = drawn if drawn.ndim == 1 else drawn[:, 0]
    assert first.std() > 0
    correlation = np.corrcoef(first[:-1], first[1:])[0, 1]
    assert abs(correlation) < 5.5 / math.sqrt(first.size)


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_a_mechanism_changes_no_query(mechanism):
    value = np.array([40, 15, 5])
    value.setflags(write=False)
    query = Query("toy", "class counts", value, Unit.CONSENSUS_LABEL, n=60, l1=2.0)
    assert isinstance(mechanism, Mechanism)
    mechanism.draw(query, SystemNoise())
    assert value.tolist() == [40, 15, 5]


def test_an_interaction_is_paid_once_for_all_questions(ledger):
    answers = [ledger.interact(Turnstile(0.5), counts_query(), question(x)) for x in range(5)]
    assert [answer.value for answer in answers] == [1, 2, 3, 4, 5]
    assert all(answer.fresh for answer in answers)
    assert len({answer.entry for answer in answers}) == 1
    assert ledger.statement(DATASET).spent.epsilon == Fraction("0.5")


def test_a_repeated_question_has_the_stored_answer_and_moves_no_state(tmp_path, ledger):
    first = ledger.interact(Turnstile(0.5), counts_query(), question(7))
    again = open_toy(tmp_path).interact(Turnstile(0.5), counts_query(), question(7))
    assert (first.value, first.fresh, again.value, again.fresh) == (1, True, 1, False)
    assert ledger.interact(Turnstile(0.5), counts_query(), question(8)).value == 2


def test_a_question_is_known_by_its_name_alone(ledger):
    asked = [
        Question("how many", {"x": np.array(1.0)}),
        Question("how few", {"x": np.array(1.0)}),
        Question("how many", {"x": np.array(2.0)}),
        Question("how many", {"x": 1.0, "y": np.zeros(7)}),
    ]
    found = [ledger.interact(Turnstile(0.5), counts_query(), one) for one in asked]
    assert [one.value for one in found] == [1, 2, 1, 1]
    assert [one.fresh for one in found] == [True, True, False, False]


def test_an_interaction_is_known_by_public_things_alone(ledger):
    """Other private arrays ask the same one; another name, number of records, unit or knob does not."""
    ledger.interact(Turnstile(0.125), counts_query(), question(1))
    changed = ledger.interact(Turnstile(0.125), counts_query((1, 3)), question(1))
    assert (changed.value, changed.fresh) == (1, False)
    assert ledger.interact(Turnstile(0.125), counts_query((2, 2)), question(2)).value == 2
    assert ledger.statement(DATASET).n_entries == 1
    named = Query(DATASET, "other", np.array([3, 1]), Unit.CONSENSUS_LABEL, n=4, l1=2.0)
    rows = Query(DATASET, "class counts", np.array([3, 1]), Unit.ROW, n=4, l1=2.0)
    for mechanism, query in [
        (Turnstile(0.125), named),
        (Turnstile(0.125), rows),
        (Turnstile(0.125), counts_query((3, 2))),
        (Turnstile(0.25), counts_query()),
    ]:
        assert ledger.interact(mechanism, query, question(1)).fresh
    assert ledger.statement(DATASET).n_entries == 5


@dataclass(frozen=True)
class Chronicle:
    """An interaction that answers with what it receives of those before it."""

    epsilon: float

    def event(self, query):
        return PureEvent("chronicle", self.epsilon)

    def check(self, query, question):
        """Take any question."""

    def start(self, query, noise):
        return f"secret of {self.epsilon}"

    def answer(self, state, question, noise, history):
        others = sorted(history.others)
        return state, [history.asked, history.number, str(history.cost.epsilon), others]


def asked_of(ledger, epsilon, part, *names, n=4):
    query = Query(DATASET, "rows", np.zeros(n), Unit.ROW, n=n, l1=1.0, part=part)
    return ledger.interact_all(
        Chronicle(epsilon), query, [Question(one, {"x": 0}) for one in names]
    )


def test_every_call_counts_in_the_history_of_all_interactions_with_the_same_rows(ledger):
    assert values(asked_of(ledger, 0.125, None, "a", "a", "b")) == [
        [1, 1, "1/8", []], [1, 1, "1/8", []], [3, 1, "1/8", []]
    ]  # fmt: skip
    first = "secret of 0.125"
    assert values(asked_of(ledger, 0.25, None, "a", n=5)) == [[4, 2, "3/8", [first]]]
    assert values(asked_of(ledger, 0.125, None, "a")) == [[1, 1, "1/8", []]]
    second = "secret of 0.25"
    assert values(asked_of(ledger, 0.125, None, "c")) == [[6, 1, "3/8", [second]]]
    assert values(asked_of(ledger, 0.25, None, "b", n=5)) == [[7, 2, "3/8", [first]]]


def test_interactions_with_other_cells_of_one_partition_have_no_history_together(ledger):
    left, right, other = Part("split:1", "left"), Part("split:1", "right"), Part("split:2", "left")
    asked_of(ledger, 0.25, left, "a")
    assert values(asked_of(ledger, 0.125, right, "a")) == [[1, 1, "1/8", []]]
    both = ["secret of 0.125", "secret of 0.25"]
    assert values(asked_of(ledger, 0.5, other, "a")) == [[3, 3, "7/8", both]]
    assert values(asked_of(ledger, 0.125, right, "b"))[0][:3] == [3, 1, "5/8"]
    assert values(asked_of(ledger, 0.125, None, "a"))[0][:2] == [5, 4]


def test_a_refused_question_moves_no_state(ledger):
    ledger.interact(Turnstile(0.5), counts_query(), question(1))
    with pytest.raises(ValueError, match="x must be"):
        ledger.interact(Turnstile(0.5), counts_query(), question(-1))
    assert ledger.interact(Turnstile(0.5), counts_query(), question(2)).value == 2


def test_a_refused_first_question_is_not_paid_for(ledger):
    with pytest.raises(ValueError, match="x must be"):
        ledger.interact_all(Turnstile(0.5), counts_query(), [question(1), question(-1)])
    assert ledger.statement(DATASET).n_entries == 0
    assert ledger.interact(Turnstile(0.5), counts_query(), question(1)).value == 1


def test_an_interaction_that_has_answered_is_released(ledger):
    with pytest.raises(ValueError, match="x must be"):
        ledger.interact(Forgetful(0.5), counts_query(), question(-1))
    assert [entry.released for entry in ledger.statement(DATASET).entries] == [False]
    paid = ledger.statement(DATASET).spent
    ledger.interact(Forgetful(0.5), counts_query(), question(1))
    assert [entry.released for entry in ledger.statement(DATASET).entries] == [True]
    assert ledger.statement(DATASET).spent == paid  # the refused question's payment stayed


def test_units_are_not_mixed(ledger):
    with pytest.raises(UnitError):
        ledger.interact(Turnstile(0.5), counts_query(unit=Unit.TASK), question(1))
    assert ledger.statement(DATASET).entries == ()


def test_an_interaction_can_be_planned(ledger):
    ledger.afford([(Turnstile(0.5), counts_query()), (Turnstile(0.5), counts_query((1, 3)))])
    with pytest.raises(BudgetError):
        ledger.afford([(Turnstile(0.75), counts_query()), (Turnstile(0.5), counts_query())])


# many questions at once --------------------------------------------------------------------------


def values(releases):
    return [release.value for release in releases]


def test_questions_asked_at_once_are_answered_as_one_by_one(ledger):
    """More of them than one condition of a search takes."""
    first = ledger.interact_all(Turnstile(0.5), counts_query(), [question(x) for x in range(1200)])
    assert values(first) == list(range(1, 1201))
    assert all(answer.fresh for answer in first)
    assert ledger.interact(Turnstile(0.5), counts_query(), question(1200)).value == 1201
    told = ledger.statement(DATASET)
    assert (told.spent.epsilon, told.n_entries) == (Fraction("0.5"), 1)
    assert ledger.verify() == 1 + 1 + 1201


def test_questions_that_are_repeated_within_a_batch_or_across_move_no_state(ledger):
    ledger.interact(Turnstile(0.5), counts_query(), question(5))
    asked = [question(x) for x in (1, 5, 1, 2, 1)]
    answers = ledger.interact_all(Turnstile(0.5), counts_query(), asked)
    assert values(answers) == [2, 1, 2, 3, 2]
    assert [answer.fresh for answer in answers] == [True, False, False, True, False]
    again = ledger.interact_all(Turnstile(0.5), counts_query(), asked)
    assert values(again) == values(answers)
    assert not any(answer.fresh for answer in again)


def test_a_refused_question_refuses_all_that_are_asked_with_it(ledger):
    ledger.interact(Turnstile(0.5), counts_query(), question(0))
    rows = ledger.verify()
    with pytest.raises(ValueError, match="x must be"):
        ledger.interact_all(Turnstile(0.5), counts_query(), [question(1), question(-1)])
    assert ledger.verify() == rows
    assert ledger.interact(Turnstile(0.5), counts_query(), question(1)).value == 2


def test_asking_nothing_pays_nothing(ledger):
    assert ledger.interact_all(Turnstile(0.5), counts_query(), []) == ()
    assert ledger.statement(DATASET).n_entries == 0


@pytest.mark.refusal
def test_a_mechanism_that_answers_nothing_is_refused_without_questions_too(ledger):
    with pytest.raises(TypeError, match="must answer questions"):
        ledger.interact_all(LatticeLaplace(0.5), counts_query(), [])


BASE = Query("toy", "bins", np.arange(6.0), Unit.ROW, n=6, l1=2.0, part=Part("site:1", "north"))
OTHERS = {
    "data set": {"dataset": "other"},
    "query's name": {"name": "other bins"},
    "values": {"value": np.arange(6.0)[::-1]},
    "shape": {"value": np.arange(6.0).reshape(2, 3)},
    "shape turned": {"value": np.arange(6.0).reshape(3, 2)},
    "type": {"value": np.arange(6.0).view(np.int64)},
    "array's name": {"value": {"x": np.arange(6.0)}},
    "unit": {"unit": Unit.TASK},
    "n": {"n": 7},
    "l1": {"l1": 1.0},
    "partition": {"part": Part("site:2", "north")},
    "cell": {"part": Part("site:1", "south")},
    "no part": {"part": None},
}


@pytest.mark.parametrize("change", OTHERS.values(), ids=list(OTHERS))
def test_requests_that_differ_in_anything_have_fingerprints_that_differ(change):
    """Equal ones would be paid once and get one value: a stored answer to another question."""
    mechanism, other = NoisyMax(1.0), dataclasses.replace(BASE, **change)
    event = PureEvent("toy", 1.0)
    one = fingerprint(mechanism, BASE, event, key=bytes(32))
    assert one == fingerprint(mechanism, dataclasses.replace(BASE), event, key=bytes(32))
    assert one != fingerprint(mechanism, other, event, key=bytes(32))


def test_fingerprints_differ_by_mechanism_knob_event_and_key():
    event, key = PureEvent("toy", 1.0), bytes(32)
    marks = [
        fingerprint(NoisyMax(1.0), BASE, event, key=key),
        fingerprint(NoisyMax(2.0), BASE, event, key=key),
        fingerprint(NoisyMax(1.0, spread=2.0), BASE, event, key=key),
        fingerprint(LatticeLaplace(1.0), BASE, event, key=key),
        fingerprint(NoisyMax(1.0), BASE, PureEvent("toy", 2.0), key=key),
        fingerprint(NoisyMax(1.0), BASE, event, key=bytes(31) + b"1"),
    ]
    assert len(set(marks)) == len(marks)


def test_two_arrays_are_not_known_by_their_joined_bytes():
    """What ends one array and begins the next is part of the fingerprint."""
    halves = [
        {"a": np.arange(cut), "b": np.arange(cut, 6)}
        for cut in (1, 2, 3)
    ]  # fmt: skip
    marks = {
        fingerprint(
            NoisyMax(1.0),
            dataclasses.replace(BASE, value=value),
            PureEvent("toy", 1.0),
            key=bytes(32),
        )
        for value in halves
    }
    assert len(marks) == len(halves)


@pytest.mark.refusal
def test_a_price_is_the_same_request_however_it_is_written(tmp_path):
    ledger = open_toy(tmp_path, epsilon=2.0)
    prices = (1, 1.0, "1", "1.0", "1e0", np.float32(1))
    one, *same = (ledger.release(LatticeLaplace(price), counts_query()) for price in prices)
    for release in same:
        assert (one.value, one.entry, release.fresh) == (release.value, release.entry, False)
    assert ledger.statement(DATASET).spent.epsilon == 1


@pytest.mark.refusal
def test_a_text_that_no_double_says_stays_as_it_is():
    """A third is charged as a third; the double next to it is another price."""
    for text in ("1/3", "0.30000000000000000001"):
        mechanism = LatticeLaplace(text)
        assert mechanism.epsilon == text
        assert mechanism.event(counts_query()).cost().epsilon == Fraction(text)
    assert PureEvent("toy", "0.1").epsilon == "0.1"  # its field takes texts


@pytest.mark.refusal
def test_equal_extended_doubles_are_paid_once_whatever_their_unused_bytes(tmp_path):
    """Ten of their sixteen bytes are the number; the others hold what was in memory before."""
    ledger = open_toy(tmp_path, epsilon=2.0, unit=Unit.ROW)
    trainer, label = TRAINERS[0], np.array([0, 1, 2, 0])
    row = np.array([[0.1], [-0.0], [math.inf], [math.nan]], dtype=np.longdouble)
    other = row.copy()
    if row.itemsize == 16 and np.finfo(row.dtype).nmant == 63:
        other.view(np.uint8).reshape(4, 16)[:, 10:] = 7
    one, same = (
        ledger.release(trainer, training_query(x, label, dataset=DATASET)) for x in (row, other)
    )
    assert (one.entry, one.value, same.fresh) == (same.entry, same.value, False)
    next_up = row.copy()
    next_up[0] = np.nextafter(row[0], np.longdouble(1))
    assert ledger.release(trainer, training_query(next_up, label, dataset=DATASET)).fresh
