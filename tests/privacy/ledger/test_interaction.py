from fractions import Fraction

import numpy as np
import pytest

from privacy import BudgetError, LatticeLaplace, Question, UnitError
from privacy.query import Unit
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
