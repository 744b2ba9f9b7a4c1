from fractions import Fraction

import numpy as np
import pytest

from privacy import BudgetError, Question, UnitError
from privacy.queries import Unit
from tests.privacy.toy import DATASET, Turnstile, counts_query, open_toy, question


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


def test_a_question_is_known_by_name_and_private_values(ledger):
    asked = [
        Question("how many", {"x": np.array(1.0)}),
        Question("how few", {"x": np.array(1.0)}),
        Question("how many", {"x": np.array(2.0)}),
        Question("how many", {"x": 1.0}),
    ]
    found = [ledger.interact(Turnstile(0.5), counts_query(), one).value for one in asked]
    assert found == [1, 2, 3, 1]


def test_another_holdout_is_another_payment(ledger):
    ledger.interact(Turnstile(0.5), counts_query(), question(1))
    answer = ledger.interact(Turnstile(0.5), counts_query((1, 3)), question(1))
    assert (answer.value, answer.fresh) == (1, True)
    with pytest.raises(BudgetError):
        ledger.interact(Turnstile(0.5), counts_query((2, 2)), question(1))


def test_a_refused_question_moves_no_state(ledger):
    ledger.interact(Turnstile(0.5), counts_query(), question(1))
    with pytest.raises(ValueError, match="x must be"):
        ledger.interact(Turnstile(0.5), counts_query(), question(-1))
    assert ledger.interact(Turnstile(0.5), counts_query(), question(2)).value == 2


def test_an_interaction_that_has_answered_is_released(ledger):
    with pytest.raises(ValueError, match="x must be"):
        ledger.interact(Turnstile(0.5), counts_query(), question(-1))
    assert [entry.released for entry in ledger.statement(DATASET).entries] == [False]
    ledger.interact(Turnstile(0.5), counts_query(), question(1))
    assert [entry.released for entry in ledger.statement(DATASET).entries] == [True]


def test_units_are_not_mixed(ledger):
    with pytest.raises(UnitError):
        ledger.interact(Turnstile(0.5), counts_query(unit=Unit.TASK), question(1))
    assert ledger.statement(DATASET).entries == ()


def test_an_interaction_can_be_planned(ledger):
    ledger.afford([(Turnstile(0.5), counts_query()), (Turnstile(0.5), counts_query((1, 3)))])
    with pytest.raises(BudgetError):
        ledger.afford([(Turnstile(0.75), counts_query()), (Turnstile(0.5), counts_query())])
