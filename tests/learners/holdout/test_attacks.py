"""Attacks on the reusable holdout through the real ledger; each read it out, or certified nonsense, once."""

import math
from fractions import Fraction

import numpy as np
import pytest

from learners.holdout.candidate_gate import CandidateGate
from learners.holdout.gate_bounds import agreeing_holdout_bound, private_holdout_bound
from learners.holdout.metric_gate import Auc, MetricGate
from learners.holdout.sizing import thresholdout_advice
from learners.holdout.thresholdout import GateAnswer, Thresholdout
from privacy.accounting import price_text
from privacy.ledger.ledger import Ledger
from privacy.mechanism import History, Question
from privacy.query import Part, Query, Unit
from tests.learners.holdout.test_thresholdout import alone, holdout_query, holdout_query_of
from tests.learners.scripted_noise import SeededNoise

N = 10_000
GATE = Thresholdout(threshold=0.1, sigma=0.001, budget=5)  # epsilon 1
PART = Part("split:1", "holdout")


@pytest.fixture
def ledger(tmp_path):
    ledger = Ledger(tmp_path / "ledger.sqlite", key=bytes(32))
    ledger.open_budget("campaign", unit=Unit.ROW, epsilon=100.0, delta=0.0, n=N)
    return ledger


def query(n=N, part=PART, value=None):
    rows = np.zeros(n) if value is None else value
    return Query("campaign", "holdout rows", rows, Unit.ROW, n=n, l1=math.inf, part=part)


def asked(name, train, holdout):
    return Question(name, {"train": train, "holdout": holdout})


# A1: equality ----------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("name", ["one name", "own names"])
def test_no_question_tells_whether_two_private_arrays_are_equal(ledger, name):
    """A base, changed by 1e-9 where record i has label 1, 10,000 times: asked, and fresh, read labels.

    What comes back for labels of one campaign comes back for those of another, to the byte, but for
    noise: all agree, because the difference is far from the threshold (chance of one refutation below
    10,000 exp(-.1 / .004) = 1e-7).
    """
    rng = np.random.default_rng(0)
    seen = []
    for campaign in range(2):
        label, base = rng.integers(2, size=N).astype(bool), np.full(N, 0.5)
        questions = [asked("base", 0.5, base)]
        for record in range(N):
            changed = base.copy()
            changed[record] += 1e-9 * label[record]
            own = "base" if name == "one name" else f"record {record}"
            questions.append(asked(own, 0.5, changed))
        rows = query(part=Part("campaigns", str(campaign)))  # apart from each other
        found = ledger.interact_all(GATE, rows, questions)
        last = ledger.interact(GATE, rows, asked("last", 0.5, base))
        seen.append([(one.value, one.fresh) for one in (*found, last)])
    assert seen[0] == seen[1]
    assert seen[0][-1][0]["asked"] == N + 2
    assert [fresh for _, fresh in seen[0][1:-1]] == [name == "own names"] * N


def test_after_the_budget_is_used_up_repeats_still_tell_nothing(ledger):
    rng = np.random.default_rng(1)
    far = [asked(f"far {k}", 1.0, np.zeros(N, dtype=bool)) for k in range(5)]
    ledger.interact_all(GATE, query(), far)
    first = ledger.interact(GATE, query(), asked("base", 0.5, np.zeros(N, dtype=bool)))
    assert first.value["status"] == "exhausted"
    for _ in range(20):
        again = ledger.interact(GATE, query(), asked("base", 0.5, rng.integers(2, size=N) == 1))
        assert (again.value, again.fresh) == (first.value, False)


def test_changed_labels_of_the_same_rows_do_not_open_the_gate_anew(ledger):
    rng = np.random.default_rng(2)
    left = []
    for day in range(4):
        labels = rng.integers(2, size=N)
        question = asked(f"model {day}", 1.0, np.zeros(N, dtype=bool))
        left.append(ledger.interact(GATE, query(value=labels), question).value["budget_left"])
    assert left == [4, 3, 2, 1]
    assert ledger.statement("campaign").spent.epsilon == Fraction(1)


def test_a_metric_gate_tells_no_equality_either(ledger):
    gate = MetricGate(Thresholdout(0.3, 0.01, 2), Auc(900, 900))
    positive, rows = np.arange(2000) % 2 == 0, query(2000)
    score = np.linspace(0, 1, 2000)
    value = {"train": 0.5, "score": score, "positive": positive}
    first = ledger.interact(gate, rows, Question("auc", value))
    for record in range(50):
        moved = score.copy()
        moved[record] = np.nan
        again = ledger.interact(gate, rows, Question("auc", {**value, "score": moved}))
        assert (again.value, again.fresh) == (first.value, False)
    assert ledger.interact(gate, rows, Question("b", value)).value["asked"] == 52


# A2: refusals ----------------------------------------------------------------------------------


@pytest.mark.parametrize("poison", [math.nan, 1.5, -0.5, math.inf, -math.inf, 5e300])
def test_no_refusal_tells_a_label(ledger, poison):
    """200 questions, each with a value out of range where record i's label is 1: none is refused."""
    label = np.random.default_rng(3).integers(2, size=200).astype(bool)
    questions = []
    for record in range(200):
        values = np.full(200, 0.5)
        if label[record]:
            values[record] = poison
        questions.append(asked(f"record {record}", 0.5, values))
    gate = Thresholdout(threshold=0.4, sigma=0.001, budget=1)
    found = ledger.interact_all(gate, query(200), questions)
    assert {one.value["status"] for one in found} == {"agrees"}


# A3: history -----------------------------------------------------------------------------------


def test_a_changed_knob_does_not_make_the_gate_forget(ledger):
    """Refuted at threshold .004; asked again with .1, it agrees, and certifies nothing by agreement."""
    rows, right = query(774), np.arange(774) < 600
    strict = Thresholdout(threshold=0.004, sigma=0.0035, budget=3)
    loose = Thresholdout(threshold=0.1, sigma=0.0035, budget=3)
    first = ledger.interact(strict, rows, asked("model of entry 3", 0.95, right))
    second = ledger.interact(loose, rows, asked("model of entry 3", 0.78, right))
    before, now = (GateAnswer.from_json(one.value) for one in (first, second))
    assert (before.status, now.status) == ("overfit", "agrees")
    assert (now.asked, now.refuted, now.number, now.budget_left) == (2, 1, 2, 3)
    assert now.epsilon == ledger.statement("campaign").spent.epsilon == 2 * before.epsilon
    assert not agreeing_holdout_bound(now, loose, n=774, level=0.95).applies


@pytest.mark.long
def test_200_daily_gates_on_a_growing_holdout_cost_what_the_ledger_says(ledger):
    """All refuted: the last bound takes the price of all of them, and by agreement nothing is certified."""
    gate = Thresholdout(threshold=0.05, sigma=0.01, budget=3)
    for day in range(200):
        n = 2500 + day
        rows = query(n, part=Part(f"split:{day}", "holdout"))
        question = asked(f"model of day {day}", 1.0, np.zeros(n, dtype=bool))
        answer = GateAnswer.from_json(ledger.interact(gate, rows, question).value)
        assert (answer.asked, answer.refuted, answer.number) == (day + 1, day + 1, day + 1)
    spent = ledger.statement("campaign").spent.epsilon
    assert answer.epsilon == spent
    assert spent == sum(2 * 3 / (Fraction("0.01") * (2500 + day)) for day in range(200))
    bound = private_holdout_bound(answer, gate, n=n, level=0.95)
    assert f"epsilon={price_text(spent)}" in bound.assumption
    agrees = GateAnswer(1.0, "agrees", 3, 201, 200, 201, answer.epsilon)
    assert private_holdout_bound(agrees, gate, n=n, level=0.95).value > 0.99
    assert not agreeing_holdout_bound(agrees, gate, n=n, level=0.95).applies


# all of it at once -----------------------------------------------------------------------------


class Analyst:
    """Asks adaptive questions about records whose truth is fair coins, by every trick above.

    The truth of each question is 1/2. What was refuted, and how high what agreed had been guessed, weighs
    the sources; votes of the heavier ones are what it hopes to overfit with. A patient analyst is refuted
    once in a thousand questions, and has 10,000; the others are shut out soon, and go on asking.
    """

    n_sources = 64

    def __init__(self, seed, n):
        self.rng = np.random.default_rng(seed)
        self.source = self.rng.integers(2, size=(self.n_sources, n)).astype(bool)
        self.weight, self.voted = np.zeros(self.n_sources), self.source[0]
        self.n, self.patient = n, seed % 2 == 0

    def questions(self, count):
        """Yield a name, a training mean and the values."""
        for k in range(count):
            one = self.source[k % self.n_sources]
            trick, near = self.rng.integers(16), self.rng.choice([0.0, 0.02, 0.05])
            bold = self.rng.random() < (0.001 if self.patient else 0.2)
            guess = 0.9 if bold else 0.5 + near
            if k % 500 == 0 and self.weight.any():
                self.voted = self.weight @ (self.source - 0.5) > 0
            values = one
            if trick == 0:
                values = self.voted
            elif trick == 1:  # a tiny change, of one record
                values = one.copy()
                values[k % self.n] ^= True
            elif trick == 2:
                values = one + 1e-9 * self.source[(k + 1) % self.n_sources]
            elif trick == 3:  # NaN counts as 0, and what is above 1 as 1
                values = np.where(one, 7.0, math.nan)
            elif trick == 4:
                values = np.where(one, math.inf, -3.0)
            elif trick == 5:
                values = one != self.source[(k + 1 + k // self.n_sources) % self.n_sources]
                values = values if values.any() else one
            name = f"{k}" if trick < 12 else f"{k % self.n_sources}"  # repeated names
            yield name, guess, values

    def hear(self, k, guess, answer):
        if answer.status == "overfit":
            self.weight[k % self.n_sources] += 100 * (answer.value - 0.5)
        elif answer.status == "agrees":
            self.weight[k % self.n_sources] += guess - 0.5


def harm(seed, count):
    """Whether one analyst brings an answer, or a bound of one, beyond what is stated; and what it heard."""
    level, tolerance, truth = 0.95, 0.4, 0.5
    gate = thresholdout_advice(tolerance, n=N, n_questions=10_000, budget=2, level=level).gate
    analyst, noise, known = Analyst(seed, N), SeededNoise(seed), {}
    price = gate.event(holdout_query_of(N)).cost()
    state = gate.start(holdout_query_of(N), noise)
    far, above, heard = False, False, set()
    for k, (name, guess, values) in enumerate(analyst.questions(count), start=1):
        if name not in known:
            history = History(k, 1, price, ())
            state, told = gate.answer(state, asked(name, guess, values), noise, history)
            known[name] = GateAnswer.from_json(told)
        answer = known[name]
        analyst.hear(k, guess, answer)
        heard.add(answer.status)
        if answer.value is not None:
            far |= abs(answer.value - truth) > tolerance
            if k < 20 or answer.status == "overfit" or k % 500 == 0:
                for bound in (agreeing_holdout_bound, private_holdout_bound):
                    above |= bound(answer, gate, n=N, level=level).value < 1 - truth
    return far, above, heard


def test_an_adaptive_analyst_keeps_within_what_is_stated():
    found = [harm(seed, 300) for seed in range(6)]
    assert not any(far or above for far, above, _ in found)
    assert set().union(*(heard for *_, heard in found)) == {"agrees", "overfit", "exhausted"}


@pytest.mark.slow
def test_of_200_analysts_of_10_000_questions_five_in_a_hundred_at_most_break_what_is_stated():
    found = [harm(seed, 10_000)[:2] for seed in range(200)]
    assert (np.array(found).sum(axis=0) <= 10).all()


@pytest.mark.long
def test_no_question_learns_one_record_exactly():
    """Two holdouts that differ in one record: each answer of one is an answer of the other.

    For each question the same noise but for one shift gives the same answer: the worst log ratio of
    frequencies over 20,000 gates is within the price of one run, .2, and sampling error.
    """
    gate, n = Thresholdout(threshold=0.1, sigma=0.1, budget=1), 100
    found = []
    for one in range(2):
        values, noise = np.arange(n) < 60 + one, SeededNoise(one)
        statuses = []
        for _ in range(20_000):
            state = gate.start(holdout_query(n), noise)
            _, told = gate.answer(state, asked("a", 0.9, values), noise, alone())
            statuses.append((told["status"], round(10 * told["value"])))
        kinds, counts = np.unique([f"{s} {v}" for s, v in statuses], return_counts=True)
        found.append(dict(zip(kinds.tolist(), counts.tolist(), strict=True)))
    common = [kind for kind in found[0] if min(one.get(kind, 0) for one in found) > 300]
    assert len(common) >= 6
    for kind in common:
        few, many = sorted(one[kind] for one in found)
        assert math.log(many / few) < 0.2 + 5 * math.sqrt(2 / few)


@pytest.mark.parametrize(("right", "refuted"), [(0.0, 3), (1.0, 0)])
def test_refutations_of_a_candidate_gate_count_for_the_gates_after_it(ledger, right, refuted):
    """They were one, whatever it had refuted: three too few, or a bound that was withheld."""
    candidates = CandidateGate(n_candidates=10, refutations=5, epsilon=50.0)
    for number in range(3):
        value = {"train": 0.9, "n_train": N, "holdout": np.full(N, right)}
        status = ledger.interact(candidates, query(), Question(f"candidate {number}", value))
        assert status.value["status"] == ("overfit" if refuted else "agrees")
    release = ledger.interact(GATE, query(), asked("model", 0.9, np.arange(N) % 10 > 0))
    answer = GateAnswer.from_json(release.value)
    assert (answer.status, answer.asked, answer.refuted) == ("agrees", 4, refuted)
    bound = agreeing_holdout_bound(answer, GATE, n=N, level=0.95)
    assert bound.applies is (refuted == 0)
