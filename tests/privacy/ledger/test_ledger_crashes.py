"""A release and an interaction, killed before and after each of their steps (acceptance A17)."""

from fractions import Fraction

import pytest

from tests.privacy.ledger.processes import die_everywhere
from tests.privacy.toy import DATASET, Mortal, Turnstile, counts_query, open_toy, question

PRICE = Fraction("0.75")
PAYING = {"unpaid", "insert_entries", "_move_head", "commit", "find_entries"}


def ask_release(ledger):
    return ledger.release(Mortal(0.75), counts_query())


def ask_question(ledger):
    return ledger.interact(Turnstile(0.75), counts_query(), question(1))


def ask_questions(ledger):
    return ledger.interact_all(Turnstile(0.75), counts_query(), [question(x) for x in range(3)])


CALLS = [
    (ask_release, PAYING | {"_draw", "keep_values"}),
    (ask_question, PAYING | {"find_answers", "last_state", "insert_answers"}),
]


def check_every_death(call, steps, new_ledger):
    """No release is unpaid, none is paid twice, and none is drawn again once it is stored."""
    seen = set()
    for where, told in die_everywhere(call, new_ledger):
        seen.update(told)
        ledger = open_toy(where)
        before = ledger.statement(DATASET).spent.epsilon
        assert before == (PRICE if "commit" in told else 0)
        if {"_draw", "insert_answers"} & set(told):
            assert before == PRICE
        release = call(ledger)
        assert release.fresh is not (told.count("commit") == 2)
        after = ledger.statement(DATASET)
        assert (after.spent.epsilon, after.n_entries) == (PRICE, 1)
        assert release.value == call(ledger).value
        ledger.verify()
    assert steps | {"returned"} == seen


@pytest.fixture
def new_ledger(tmp_path):
    def make(point):
        folder = tmp_path / str(point)
        folder.mkdir()
        open_toy(folder)
        return folder, folder / "log"

    return make


@pytest.mark.parametrize(("call", "steps"), CALLS)
def test_no_death_leaves_a_release_unpaid_or_paid_twice(new_ledger, call, steps):
    check_every_death(call, steps, new_ledger)


def check_every_death_in_a_batch(new_ledger):
    """All questions of a batch are answered, or none is and no state has moved."""
    for where, told in die_everywhere(ask_questions, new_ledger):
        ledger = open_toy(where)
        stored = told.count("commit") == 2
        assert ledger.statement(DATASET).spent.epsilon == (PRICE if "commit" in told else 0)
        answers = ask_questions(ledger)
        assert [answer.value for answer in answers] == [1, 2, 3]
        assert [answer.fresh for answer in answers] == [not stored] * 3
        assert ledger.statement(DATASET).spent.epsilon == PRICE
        assert ledger.verify() == 1 + 1 + 3


def test_no_death_answers_a_batch_in_part(new_ledger):
    check_every_death_in_a_batch(new_ledger)
