import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from learners.holdout.metric_gate import GRID, Auc, MetricGate
from learners.holdout.thresholdout import Thresholdout
from privacy.ledger.ledger import Ledger
from privacy.mechanism import Interaction, Question
from privacy.query import Unit
from tests.learners.holdout.test_thresholdout import alone, holdout_query, told
from tests.learners.scripted_noise import ScriptedNoise, SilentNoise

GATE = MetricGate(
    Thresholdout(threshold=0.1, sigma=0.05, budget=2), Auc(least_positive=4, least_negative=5)
)
POSITIVE = np.arange(10) % 2 == 0
QUERY = holdout_query(10)


def asked(train, score, positive=POSITIVE):
    return Question("auc", {"train": train, "score": score, "positive": positive})


def test_the_price_has_the_declared_sensitivity_in_the_place_of_one_over_n():
    """2 B (1 / a + 1 / b) / sigma."""
    gate = MetricGate(Thresholdout(0.1, 0.5, 3), Auc(4, 8))
    assert gate.event(holdout_query(12)).cost().epsilon == Fraction(9, 2)
    assert isinstance(gate, Interaction)


def test_the_claim_covers_what_is_drawn_where_the_sensitivity_is_no_whole_number_of_steps():
    gate = MetricGate(Thresholdout(0.1, 0.01, 2), Auc(4001, 3999))
    event = gate.event(holdout_query(9000))
    steps = math.ceil((Fraction(1, 4001) + Fraction(1, 3999)) * GRID)
    realised = 2 * 2 * steps / Fraction(event.parameters["scale"])
    assert realised <= event.cost().epsilon
    assert event.cost().epsilon == pytest.approx(2 * 2 * (1 / 4001 + 1 / 3999) / 0.01, rel=1e-5)


def test_it_agrees_and_refutes_as_the_gate_does():
    state = GATE.start(QUERY, SilentNoise())
    in_order = POSITIVE.astype(float)
    state, answer = GATE.answer(state, asked(0.95, in_order), SilentNoise(), alone())
    assert answer == told("agrees", 0.95, left=2)
    noise = ScriptedNoise([0, -round(0.03 * GRID), 0])
    state, answer = GATE.answer(state, asked(0.95, np.zeros(10)), noise, alone(2))
    assert answer == told("overfit", pytest.approx(0.47), left=1, asked=2, refuted=1)
    assert noise.scales == pytest.approx([0.2 * GRID, 0.05 * GRID, 0.1 * GRID])


def test_fewer_records_than_declared_are_refused_before_anything_is_paid():
    with pytest.raises(ValueError, match="n must be >= 9"):
        GATE.event(holdout_query(8))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"train": 0.5}, "question must hold"),
        ({"train": 1.5, "score": np.zeros(10), "positive": POSITIVE}, "train must be"),
        ({"train": 0.5, "score": np.zeros(9), "positive": POSITIVE[:9]}, "score must be"),
        ({"train": 0.5, "score": np.zeros(10), "positive": POSITIVE[:9]}, "positive must be"),
        pytest.param(
            {"train": 0.5, "score": np.zeros(10), "positive": POSITIVE * 1},
            "one boolean per record",
            marks=pytest.mark.refusal,
        ),
    ],
)
def test_questions_that_do_not_fit_are_refused_before_any_draw(value, message):
    state = GATE.start(QUERY, SilentNoise())
    before = dict(state)
    with pytest.raises(ValueError, match=message):
        GATE.answer(state, Question("auc", value), ScriptedNoise([]), alone())
    assert state == before


def test_the_ledger_pays_it_once_and_keeps_its_state(tmp_path):
    gate = MetricGate(Thresholdout(0.3, 0.05, 2), Auc(90, 90))
    answers = []
    for k in range(4):
        ledger = Ledger(tmp_path / "ledger.sqlite", key=bytes(32))
        ledger.open_budget("holdout", unit=Unit.ROW, epsilon=2.0, delta=0.0, n=200)
        question = Question(
            f"model {k}",
            {"train": 0.5, "score": np.zeros(200), "positive": np.arange(200) % 2 == 0},
        )
        answers.append(ledger.interact(gate, holdout_query(200), question).value)
    assert [one["asked"] for one in answers] == [1, 2, 3, 4]
    spent = Ledger(tmp_path / "ledger.sqlite", key=bytes(32)).statement("holdout").spent
    assert float(spent.epsilon) == pytest.approx(2 * 2 * (2 / 90) / 0.05)


@pytest.mark.parametrize("positive", [np.arange(199) % 2 == 0, np.arange(200) % 2, None])
def test_a_first_question_that_does_not_fit_is_not_paid_for(tmp_path, positive):
    gate = MetricGate(Thresholdout(0.3, 0.05, 2), Auc(90, 90))
    ledger = Ledger(tmp_path / "ledger.sqlite", key=bytes(32))
    ledger.open_budget("holdout", unit=Unit.ROW, epsilon=2.0, delta=0.0, n=200)
    value = {"train": 0.5, "score": np.zeros(200), "positive": positive}
    if positive is None:
        del value["positive"]
    with pytest.raises(ValueError, match="must (be|hold)"):
        ledger.interact(gate, holdout_query(200), Question("model", value))
    assert ledger.statement("holdout").n_entries == 0


def test_where_the_declaration_holds_it_is_the_area(rng):
    """Oracle: scikit-learn, with ties."""
    for _ in range(20):
        score, positive = rng.integers(6, size=50).astype(float), np.arange(50) % 3 == 0
        found = Auc(least_positive=17, least_negative=33).value(score, positive)
        assert found == pytest.approx(roc_auc_score(positive, score))


def test_where_it_does_not_the_value_is_below_the_area(rng):
    score, positive = rng.normal(size=50), np.arange(50) % 3 == 0
    area = roc_auc_score(positive, score)
    found = Auc(least_positive=34, least_negative=66).value(score, positive)
    assert found == pytest.approx(area / 4)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 9),
    least=st.tuples(st.integers(1, 6), st.integers(1, 6)),
)
def test_no_replacement_of_a_record_moves_it_by_more(seed, n, least):
    """Every class and rank that the first record could have instead."""
    rng = np.random.default_rng(seed)
    metric = Auc(*least)
    score, positive = rng.integers(5, size=n).astype(float), rng.integers(2, size=n) == 1
    before = metric.exact_value(score, positive)
    assert 0 <= before <= 1
    for other in np.arange(-0.5, 5):
        for klass in (False, True):
            moved, changed = score.copy(), positive.copy()
            moved[0], changed[0] = other, klass
            assert abs(metric.exact_value(moved, changed) - before) <= metric.exact_sensitivity


def test_a_replaced_record_of_its_class_can_move_it_by_one_over_the_least():
    metric = Auc(least_positive=3, least_negative=2)
    positive = np.array([True, True, True, False, False])
    before = metric.value(np.array([2.0, 2, 2, 1, 1]), positive)
    assert before - metric.value(np.array([0.0, 2, 2, 1, 1]), positive) == pytest.approx(1 / 3)


def test_without_one_of_the_classes_it_is_zero():
    assert Auc(1, 1).value(np.arange(3.0), np.ones(3, bool)) == 0
    assert Auc(1, 1).value(np.arange(3.0), np.zeros(3, bool)) == 0


@pytest.mark.parametrize(
    "least", [(0, 1), (1, -2), pytest.param((1.5, 1), marks=pytest.mark.refusal)]
)
def test_declarations_that_are_no_numbers_of_records_are_refused(least):
    with pytest.raises(ValueError, match="must be a whole number"):
        Auc(*least)


@pytest.mark.refusal
def test_declared_numbers_may_be_numpys():
    event = MetricGate(GATE.gate, Auc(np.int64(2), np.int32(3))).event(QUERY)
    assert event == MetricGate(GATE.gate, Auc(2, 3)).event(QUERY)


def test_a_score_without_an_order_is_the_lowest():
    """A refusal would say which record has it."""
    positive = np.array([True, True, False, False])
    lowest = np.array([0.5, -math.inf, 0.4, -math.inf])
    for nan in (math.nan, -math.nan):
        score = np.where(np.isinf(lowest), nan, lowest)
        assert Auc(1, 1).exact_value(score, positive) == Auc(1, 1).exact_value(lowest, positive)
    assert Auc(1, 1).value(np.full(4, math.nan), positive) == 0.5


@pytest.mark.refusal
def test_whole_scores_that_differ_by_one_are_told_apart_whatever_their_size():
    score = 2**53 + np.array([1, 0, 1, 0])
    assert Auc(2, 2).value(score, np.array([True, False, True, False])) == 1.0


@pytest.mark.refusal
def test_scores_and_classes_that_do_not_fit_are_refused():
    for score, positive in [(np.zeros(2), np.ones(3, bool)), (np.zeros(2), np.ones(2))]:
        with pytest.raises(ValueError, match="one boolean per record"):
            Auc(1, 1).value(score, positive)


@pytest.mark.refusal
def test_lists_of_scores_or_classes_are_refused_in_a_sentence():
    for score, positive in [([0.5], np.ones(1, bool)), (np.zeros(1), [True])]:
        with pytest.raises(TypeError, match="must be a NumPy array, got list"):
            Auc(1, 1).value(score, positive)
