"""Processes that are killed, and processes that race (acceptance A17)."""

import os
import signal
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest

from tests.privacy.ledger.processes import race
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
