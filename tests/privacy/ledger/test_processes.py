"""Many processes on one ledger: they race, and they die before and after each step of a release."""

import os
import signal
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest

from tests.privacy.ledger.processes import die_everywhere, race
from tests.privacy.toy import (
    DATASET,
    Mortal,
    Turnstile,
    counts_query,
    open_toy,
    question,
    race_for_own,
    race_for_same,
    race_to_ask,
    race_to_make,
)

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


@pytest.mark.long
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
        assert ledger.verify() == 1 + 1 + (6 if stored else 3)  # every call is a row


@pytest.mark.long
def test_no_death_answers_a_batch_in_part(new_ledger):
    check_every_death_in_a_batch(new_ledger)


ROOT = Path(__file__).resolve().parents[3]
RACERS = 14


def killed(folder, call):
    """Run one call on the ledger in a process that is killed in the draw."""
    code = (
        "import sys; from tests.privacy.toy import *; ledger = open_toy(sys.argv[1]); "
        f"ledger.{call}"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder)],
        cwd=ROOT,
        env=os.environ | {"TOY_DIES": "1"},
        check=False,
    )
    assert done.returncode == -signal.SIGKILL


def test_killed_between_payment_and_value_stays_paid_and_is_drawn_under_the_same_payment(
    tmp_path, ledger
):
    killed(tmp_path, "release(Mortal(0.75), counts_query())")
    told = ledger.statement(DATASET)
    assert told.spent.epsilon == Fraction("0.75")
    assert [entry.released for entry in told.entries] == [False]
    release = ledger.release(Mortal(0.75), counts_query())
    assert release.fresh
    assert release.value == ledger.release(Mortal(0.75), counts_query()).value
    told = ledger.statement(DATASET)
    assert told.spent.epsilon == Fraction("0.75")
    assert [entry.released for entry in told.entries] == [True]


def test_killed_in_an_answer_is_paid_and_moves_no_state(tmp_path, ledger):
    killed(tmp_path, "interact(Turnstile(0.75), counts_query(), question(1))")
    assert ledger.statement(DATASET).spent.epsilon == Fraction("0.75")
    assert ledger.interact(Turnstile(0.75), counts_query(), question(1)).value == 1
    killed(tmp_path, "interact(Turnstile(0.75), counts_query(), question(2))")
    assert ledger.interact(Turnstile(0.75), counts_query(), question(3)).value == 2
    assert ledger.statement(DATASET).spent.epsilon == Fraction("0.75")


def test_of_fifty_processes_as_many_win_as_the_budget_covers(tmp_path, ledger):
    found = race(tmp_path, race_for_own, racers=50)
    assert found.count("released") == 5
    assert found.count("refused") == 45
    assert ledger.statement(DATASET).left.epsilon == 0


def test_of_fifty_processes_one_wins_the_last_spend(tmp_path, ledger):
    ledger.release(Mortal(0.8), counts_query())
    found = race(tmp_path, race_for_own, racers=50)
    assert (found.count("released"), found.count("refused")) == (1, 49)
    assert ledger.statement(DATASET).left.epsilon == 0


def test_processes_that_ask_for_the_same_get_one_value_for_one_payment(tmp_path, ledger):
    found = race(tmp_path, race_for_same, racers=RACERS)
    assert len({value for value, _ in found}) == 1
    assert sum(fresh for _, fresh in found) == 1
    assert len(ledger.statement(DATASET).entries) == 1


def test_no_answer_of_an_interaction_is_lost_between_processes(tmp_path, ledger):
    found = race(tmp_path, race_to_ask, racers=RACERS)
    assert list(range(1, RACERS + 1)) == sorted(found)
    assert ledger.interact(Turnstile(1.0), counts_query(), question(RACERS)).value == RACERS + 1
    assert len(ledger.statement(DATASET).entries) == 1


def test_processes_that_make_the_ledger_make_one(tmp_path):
    race(tmp_path, race_to_make, racers=RACERS)
    assert len(open_toy(tmp_path).statement(DATASET).budgets) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ledger.sqlite"]


@pytest.mark.parametrize("number", range(2))
def test_a_process_that_raced_leaves_a_sound_file(tmp_path, number):
    open_toy(tmp_path)
    race(tmp_path, race_for_own, racers=RACERS)
    assert open_toy(tmp_path).statement(DATASET).spent.epsilon == 1
