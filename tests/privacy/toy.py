"""Small data sets and mechanisms for the tests of the ledger, importable by other processes."""

import os
import signal
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np

from privacy import BudgetError, LatticeLaplace, Ledger, PureEvent, Query, Question, Unit
from privacy.mechanisms import COUNT_MECHANISMS

KEY = bytes(range(32))
DATASET = "toy"


def counts_query(counts=(3, 1), *, part=None, unit=Unit.CONSENSUS_LABEL, dataset=DATASET):
    value = np.array(counts)
    return Query(dataset, "class counts", value, unit, n=int(value.sum()), l1=2.0, part=part)


def rows_query(rows, *, unit=Unit.ROW, dataset=DATASET):
    value = {"x": np.asarray(rows, dtype=np.float64)}
    return Query(dataset, "rows", value, unit, n=len(rows), l1=float("inf"))


def count_mechanisms(epsilon=1.0, delta=1e-3, floor=20):
    """Every mechanism of the table that releases class counts, with as many of these knobs as it has."""
    knobs = epsilon, delta, floor
    return [kind(*knobs[: len(fields(kind))]) for kind in COUNT_MECHANISMS]


def ledger_at(folder):
    """Ledger of a folder, or of the database that a URL in its place names."""
    where = folder if "://" in str(folder) else Path(folder) / "ledger.sqlite"
    return Ledger(where, key=KEY)


def open_toy(folder, *, epsilon=1.0, delta=0.0, unit=Unit.CONSENSUS_LABEL, n=4):
    ledger = ledger_at(folder)
    ledger.open_budget(DATASET, unit=unit, epsilon=epsilon, delta=delta, n=n)
    return ledger


@dataclass(frozen=True)
class Mortal:
    """Releases one integer of noise; its process is killed in the draw while TOY_DIES is set."""

    epsilon: float

    def event(self, query):
        return PureEvent("mortal", self.epsilon)

    def draw(self, query, noise):
        drawn = noise.discrete_laplace(1000.0, 1)
        if "TOY_DIES" in os.environ:
            os.kill(os.getpid(), signal.SIGKILL)
        return drawn[0]


@dataclass(frozen=True)
class Turnstile:
    """An interaction that answers how many questions it has answered; its start is secret."""

    epsilon: float

    def event(self, query):
        return PureEvent("turnstile", self.epsilon)

    def check(self, query, question):
        if np.min(question.value["x"]) < 0:
            raise ValueError("x must be >= 0")

    def start(self, query, noise):
        return {"secret": noise.discrete_laplace(1000.0, 1)[0], "asked": 0}

    def answer(self, state, question, noise, history):
        Turnstile.check(self, None, question)
        following = {**state, "asked": state["asked"] + 1}
        if "TOY_DIES" in os.environ:
            os.kill(os.getpid(), signal.SIGKILL)
        return following, following["asked"]


@dataclass(frozen=True)
class Forgetful(Turnstile):
    """One whose `check` lets pass what its `answer` refuses."""

    def check(self, query, question):
        """Take any question."""


def question(x):
    """A question of its own name for each x, which does not show x."""
    return Question(f"how many {hash(float(x)) % 10**6}", {"x": float(x)})


def race_for_own(folder, number, barrier, results):
    """Ask for a release of this process's own data."""
    ledger = ledger_at(folder)
    barrier.wait()
    try:
        ledger.release(LatticeLaplace(epsilon=0.2), counts_query((number + 1, 1)))
    except BudgetError:
        results.put("refused")
    else:
        results.put("released")


def race_for_same(folder, number, barrier, results):
    """Ask for the release that every process asks for."""
    ledger = ledger_at(folder)
    barrier.wait()
    release = ledger.release(Mortal(epsilon=1.0), counts_query())
    results.put((release.value, release.fresh))


def race_to_ask(folder, number, barrier, results):
    """Ask one interaction a question of this process's own."""
    ledger = ledger_at(folder)
    barrier.wait()
    results.put(ledger.interact(Turnstile(epsilon=1.0), counts_query(), question(number)).value)


def race_to_make(folder, number, barrier, results):
    """Make the ledger and open its budget."""
    barrier.wait()
    open_toy(folder)
    results.put("open")
