from fractions import Fraction

import numpy as np
import pytest

from learners.holdout.metric_gate import Auc, MetricGate
from learners.holdout.thresholdout import Thresholdout
from privacy.ledger.ledger import Ledger
from privacy.mechanism import Interaction, Question
from privacy.query import Unit
from tests.learners.holdout.test_thresholdout import holdout_query
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


def test_it_agrees_and_refutes_as_the_gate_does():
    state = GATE.start(QUERY, SilentNoise())
    in_order = POSITIVE.astype(float)
    state, answer = GATE.answer(state, asked(0.95, in_order), SilentNoise())
    assert answer == {"value": 0.95, "status": "agrees", "budget_left": 2, "asked": 1}
    noise = ScriptedNoise([0.0, -0.03, 0.0])
    state, answer = GATE.answer(state, asked(0.95, np.zeros(10)), noise)
    assert answer["status"] == "overfit"
    assert answer["value"] == pytest.approx(0.47)
    assert noise.scales == pytest.approx([0.2, 0.05, 0.1])


def test_fewer_records_than_declared_are_refused_before_anything_is_paid():
    with pytest.raises(ValueError, match="n must be >= 9"):
        GATE.event(holdout_query(8))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"train": 0.5}, "question must hold"),
        ({"train": 1.5, "score": np.zeros(10), "positive": POSITIVE}, "train must be"),
        ({"train": 0.5, "score": np.zeros(9), "positive": POSITIVE[:9]}, "score must be"),
        ({"train": 0.5, "score": np.full(10, np.nan), "positive": POSITIVE}, "score must be"),
    ],
)
def test_questions_that_do_not_fit_are_refused_before_any_draw(value, message):
    state = GATE.start(QUERY, SilentNoise())
    before = dict(state)
    with pytest.raises(ValueError, match=message):
        GATE.answer(state, Question("auc", value), ScriptedNoise([]))
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
