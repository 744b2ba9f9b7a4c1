import contextlib
import json
import math
import sqlite3
from fractions import Fraction

import numpy as np
import pytest

from learners.holdout.thresholdout import GateAnswer, Thresholdout
from privacy.accounting import Cost
from privacy.ledger import BudgetError
from privacy.ledger.ledger import Ledger
from privacy.mechanism import Question
from privacy.query import Query, Unit
from tests.learners.scripted_noise import ScriptedNoise, SeededNoise, SilentNoise


def holdout_query(n, dataset="holdout"):
    return Query(
        dataset=dataset,
        name="holdout",
        value=np.arange(float(n)),
        unit=Unit.ROW,
        n=n,
        l1=math.inf,
    )


GATE = Thresholdout(threshold=0.1, sigma=0.01, budget=2)
QUERY = holdout_query(10)


def question(train, holdout, name="score"):
    return Question(name=name, value={"train": train, "holdout": np.asarray(holdout, float)})


def share(mean, n=10):
    """Per-record values whose mean is `mean`."""
    return np.full(n, float(mean))


def opened(noise=None, gate=GATE):
    return gate.start(QUERY, noise or SilentNoise())


# transitions, with every draw written down -----------------------------------------------------


def test_a_difference_within_the_limit_agrees_and_answers_the_training_mean():
    state = opened()
    following, answer = GATE.answer(state, question(0.6, share(0.55)), SilentNoise())
    assert answer == {"value": 0.6, "status": "agrees", "budget_left": 2, "asked": 1}
    assert following == {**state, "asked": 1}


def test_a_difference_beyond_the_limit_overfits_answers_the_noisy_holdout_and_spends_one():
    noise = ScriptedNoise([0.0, 0.005, 0.02])
    following, answer = GATE.answer(opened(), question(0.9, share(0.5)), noise)
    assert answer == {
        "value": pytest.approx(0.505),
        "status": "overfit",
        "budget_left": 1,
        "asked": 1,
    }
    assert following == {"offset": 0.02, "budget_left": 1, "asked": 1, "n": 10}


def test_the_noises_have_the_published_scales():
    """Figure 1 of the paper: gamma ~ Lap(2 sigma), eta ~ Lap(4 sigma), xi ~ Lap(sigma)."""
    noise = ScriptedNoise([0.0, 0.0, 0.0, 0.0])
    GATE.answer(opened(noise), question(0.9, share(0.5)), noise)
    assert noise.scales == pytest.approx([0.02, 0.04, 0.01, 0.02])


def test_the_limit_is_threshold_plus_offset_plus_comparison_noise():
    asked = question(0.75, share(0.5))
    for offset, eta, status in [
        (0.0, 0.0, "overfit"),
        (0.2, 0.0, "agrees"),
        (0.0, 0.2, "agrees"),
        (0.2, -0.1, "overfit"),
        (-0.1, 0.2, "overfit"),
    ]:
        noise = ScriptedNoise([eta, 0.0, 0.0])
        state = {"offset": offset, "budget_left": 2, "asked": 0, "n": 10}
        assert GATE.answer(state, asked, noise)[1]["status"] == status


def test_the_offset_is_drawn_anew_after_an_overfit_answer_only():
    state = opened(ScriptedNoise([0.03]))
    state, _ = GATE.answer(state, question(0.5, share(0.5)), ScriptedNoise([0.0]))
    assert state["offset"] == 0.03
    state, _ = GATE.answer(state, question(0.9, share(0.5)), ScriptedNoise([0.0, 0.0, -0.07]))
    assert state["offset"] == -0.07


def test_the_answer_does_not_reuse_the_comparison_noise():
    noise = ScriptedNoise([0.05, -0.01, 0.0])
    _, answer = GATE.answer(opened(), question(0.9, share(0.5)), noise)
    assert answer["value"] == pytest.approx(0.49)


def test_the_budget_falls_by_one_with_each_overfit_answer_and_then_the_gate_shuts():
    state, statuses = opened(), []
    for train in (0.5, 0.9, 0.5, 0.9, 0.9, 0.5):
        state, answer = GATE.answer(state, question(train, share(0.5)), SilentNoise())
        statuses.append((answer["status"], answer["budget_left"]))
    assert statuses == [
        ("agrees", 2),
        ("overfit", 1),
        ("agrees", 1),
        ("overfit", 0),
        ("exhausted", 0),
        ("exhausted", 0),
    ]


def test_an_exhausted_gate_does_not_depend_on_the_holdout():
    state = {"offset": 0.0, "budget_left": 0, "asked": 4, "n": 10}
    answers = [
        GATE.answer(state, question(0.9, share(mean)), ScriptedNoise([]))
        for mean in (0.0, 0.9, 1.0)
    ]
    closed = {"value": None, "status": "exhausted", "budget_left": 0, "asked": 5}
    assert answers == [({**state, "asked": 5}, closed)] * 3


def test_answers_are_clamped_to_the_range_of_means():
    noise = ScriptedNoise([0.0, 5.0, 0.0, 0.0, -5.0, 0.0])
    state, high = GATE.answer(opened(), question(0.2, share(0.9)), noise)
    _, low = GATE.answer(state, question(0.9, share(0.1)), noise)
    assert (high["value"], low["value"]) == (1.0, 0.0)


@pytest.mark.parametrize(
    ("train", "holdout"),
    [
        (0.5, share(0.5, n=9)),
        (0.5, np.full((10, 1), 0.5)),
        (0.5, share(1.01)),
        (0.5, share(-0.01)),
        (0.5, share(math.nan)),
        (0.5, share(-math.nan)),
        (0.5, share(math.inf)),
        (0.5, share(-math.inf)),
        (0.5, share(np.nextafter(1, 2))),
        (0.5, share(-5e-324)),
        (0.5, np.append(share(0.5, n=9), -0.25)),
        (1.01, share(0.5)),
        (math.nan, share(0.5)),
    ],
)
def test_questions_without_the_declared_sensitivity_are_refused_before_any_draw(train, holdout):
    state = opened()
    before = dict(state)
    with pytest.raises(ValueError, match="must"):
        GATE.answer(state, question(train, holdout), ScriptedNoise([]))
    assert state == before


# what it costs ---------------------------------------------------------------------------------


def test_the_price_is_two_budgets_over_sigma_n_exactly():
    """2B / (sigma n): per overfit answer 1/(2 sigma n) + 2/(4 sigma n) + 1/(sigma n)."""
    gate = Thresholdout(threshold=0.04, sigma=0.01, budget=10)
    event = gate.event(holdout_query(2000))
    n, sigma = 2000, 0.01
    per_answer = 1 / (2 * sigma * n) + 2 / (4 * sigma * n) + 1 / (sigma * n)
    assert float(event.cost().epsilon) == pytest.approx(10 * per_answer)
    assert event.cost() == Cost(Fraction(1), Fraction(0))


def laplace_log_density(x, scale):
    return -np.abs(x) / scale - math.log(2 * scale)


def test_one_run_is_private_by_quadrature():
    """The law of (agrees, agrees, overfit) on neighbouring holdouts, by integrating over gamma.

    The released value costs 1 / (sigma n) more and is left out, so the bound here is
    1 / (2 sigma n) for gamma and 2 / (4 sigma n) for eta: 1 / (sigma n).
    """
    n, sigma, threshold = 10, 0.1, 0.1
    gamma = np.linspace(-8, 8, 400_001)
    weight = np.exp(laplace_log_density(gamma, 2 * sigma))

    def above(difference):
        """P(difference > threshold + gamma + eta)."""
        z = (difference - threshold - gamma) / (4 * sigma)
        return np.where(z < 0, np.exp(np.minimum(z, 0)) / 2, 1 - np.exp(-np.maximum(z, 0)) / 2)

    def log_probability(differences):
        *agreeing, last = differences
        density = weight * above(last)
        for difference in agreeing:
            density = density * (1 - above(difference))
        return math.log(np.trapezoid(density, gamma))

    step = 1 / n
    worst = max(
        abs(
            log_probability((a, b, c)) - log_probability((a + i * step, b + j * step, c + k * step))
        )
        for a, b, c in [(0.0, 0.1, 0.2), (0.3, 0.3, 0.3), (0.0, 0.0, 0.6)]
        for i in (-1, 1)
        for j in (-1, 1)
        for k in (-1, 1)
    )
    assert 0.5 / (sigma * n) < worst <= 1 / (sigma * n)


@pytest.mark.parametrize(
    "knobs",
    [
        {"threshold": 0.0},
        {"threshold": 1.0},
        {"threshold": math.nan},
        {"sigma": 0.0},
        {"sigma": math.nan},
        {"budget": 0},
        pytest.param({"budget": 1.5}, marks=pytest.mark.refusal),
    ],
)
def test_knobs_out_of_range_are_refused(knobs):
    with pytest.raises(ValueError, match="must be"):
        Thresholdout(**({"threshold": 0.1, "sigma": 0.01, "budget": 2} | knobs))


def test_a_question_without_both_means_is_refused():
    with pytest.raises(ValueError, match="train and holdout"):
        GATE.answer(opened(), Question("score", {"train": 0.5}), ScriptedNoise([]))


def test_an_answer_that_does_not_fit_together_cannot_be_built():
    for value, status, left in [(None, "agrees", 1), (0.5, "exhausted", 0), (0.5, "fine", 1)]:
        with pytest.raises(ValueError, match="must be"):
            GateAnswer(value, status, left, 1)
    with pytest.raises(ValueError, match="budget_left"):
        GateAnswer(0.5, "agrees", -1, 1)


# behind the ledger -----------------------------------------------------------------------------


@pytest.fixture
def open_gate(tmp_path):
    """Opens the ledger's file anew each time, as another process would."""

    def opened_ledger():
        ledger = Ledger(tmp_path / "ledger.sqlite", key=bytes(32))
        ledger.open_budget("holdout", unit=Unit.ROW, epsilon=1.0, delta=0.0, n=2000)
        return ledger

    return opened_ledger


BIG = Thresholdout(threshold=0.3, sigma=0.004, budget=3)
BIG_QUERY = holdout_query(2000)


def test_the_gate_is_paid_once_for_any_number_of_questions(open_gate):
    """Epsilon 2 * 3 / (.004 * 2000) = 3/4 fits a budget of 1 only once."""
    for k in range(5):
        open_gate().interact(BIG, BIG_QUERY, question(0.5, share(0.5, n=2000), name=f"{k}"))
    assert open_gate().statement("holdout").spent.epsilon == Fraction(3, 4)
    other = Thresholdout(threshold=0.3, sigma=0.004, budget=2)
    with pytest.raises(BudgetError):
        open_gate().interact(other, BIG_QUERY, question(0.5, share(0.5, n=2000)))


def test_the_state_outlives_the_process(open_gate):
    """.5 exceeds the limit of .3 but with a chance below 2 exp(-.2 / .016 * .8)"""
    answers = [
        GateAnswer.from_json(
            open_gate()
            .interact(BIG, BIG_QUERY, question(1.0, share(0.25, n=2000), name=f"model {k}"))
            .value
        )
        for k in range(5)
    ]
    assert [a.status for a in answers] == ["overfit"] * 3 + ["exhausted"] * 2
    assert [a.budget_left for a in answers] == [2, 1, 0, 0, 0]
    assert [a.asked for a in answers] == [1, 2, 3, 4, 5]
    assert [a.value is None for a in answers] == [False] * 3 + [True] * 2


def test_a_repeated_question_returns_the_stored_answer_and_spends_nothing(open_gate):
    asked = question(1.0, share(0.25, n=2000))
    first = open_gate().interact(BIG, BIG_QUERY, asked)
    again = open_gate().interact(BIG, BIG_QUERY, asked)
    assert (first.fresh, again.fresh) == (True, False)
    assert again.value == first.value
    following = open_gate().interact(BIG, BIG_QUERY, question(1.0, share(0.25, n=2000), name="b"))
    assert following.value["budget_left"] == 1


def test_a_refused_question_leaves_no_trace_in_the_state(open_gate):
    ledger = open_gate()
    ledger.interact(BIG, BIG_QUERY, question(0.5, share(0.5, n=2000)))
    with pytest.raises(ValueError, match="holdout must lie"):
        ledger.interact(BIG, BIG_QUERY, question(0.5, share(1.5, n=2000)))
    answer = ledger.interact(BIG, BIG_QUERY, question(0.4, share(0.4, n=2000)))
    assert (answer.value["asked"], answer.value["budget_left"]) == (2, 3)


def overfit_until_shut(k):
    """Questions whose training mean is far off for k = 0, 2, 4, ... and right between."""
    return question(1.0 if k % 2 == 0 else 0.25, share(0.25, n=2000), name=f"model {k}")


def test_a_batch_that_uses_up_the_budget_is_answered_up_to_there_and_shut_after(open_gate):
    """Chances that a difference of .75 agrees, or one of 0 does not: below 1e-6."""
    asked = [overfit_until_shut(k) for k in range(8)]
    found = open_gate().interact_all(BIG, BIG_QUERY, asked)
    answers = [GateAnswer.from_json(one.value) for one in found]
    statuses = ["overfit", "agrees"] * 2 + ["overfit"] + ["exhausted"] * 3
    assert [answer.status for answer in answers] == statuses
    assert [answer.budget_left for answer in answers] == [2, 2, 1, 1, 0, 0, 0, 0]
    assert [answer.value is None for answer in answers] == [False] * 5 + [True] * 3
    assert open_gate().statement("holdout").spent.epsilon == Fraction(3, 4)
    assert open_gate().interact(BIG, BIG_QUERY, overfit_until_shut(8)).value["asked"] == 9


def test_a_batch_draws_and_keeps_what_one_by_one_would(tmp_path, monkeypatch):
    """The same noise: the same answers and secret states, row by row."""
    asked = [question(0.5 + 0.05 * (k % 9), share(0.5, n=2000), name=f"{k}") for k in range(40)]
    kept = []
    for name, ask in (
        ("one by one", lambda ledger: [ledger.interact(BIG, BIG_QUERY, one) for one in asked]),
        ("at once", lambda ledger: ledger.interact_all(BIG, BIG_QUERY, asked)),
    ):
        noise = SeededNoise(7)
        monkeypatch.setattr("privacy.ledger.ledger._system_noise", lambda noise=noise: noise)
        ledger = Ledger(tmp_path / name, key=bytes(32))
        ledger.open_budget("holdout", unit=Unit.ROW, epsilon=1.0, delta=0.0, n=2000)
        ask(ledger)
        with contextlib.closing(sqlite3.connect(tmp_path / name)) as rows:
            columns = "entry, question, fingerprint, state, value"
            kept.append(rows.execute(f"SELECT {columns} FROM answers ORDER BY position").fetchall())
    assert kept[0] == kept[1]
    assert len(kept[0]) == 40
    assert {json.loads(row[4])["status"] for row in kept[0]} == {"agrees", "overfit", "exhausted"}


# what it is for --------------------------------------------------------------------------------


class Analyst:
    """Picks attributes that look good on training and holdout alike, then votes with their signs.

    There is nothing to be found: labels are coin flips. Each question is the mean over records of
    1/2 + label * clipped attribute / 6, the attribute's correlation brought to [0, 1].
    """

    n_attributes, n_chosen = 2000, 100

    def __init__(self, n, rng):
        self.n = n
        self.samples = {
            name: (
                rng.standard_normal((n, self.n_attributes)).clip(-3, 3),
                rng.choice([-1.0, 1.0], n),
            )
            for name in ("train", "holdout", "fresh")
        }

    def values(self, name):
        """Per-record values of the attributes' questions, one column each."""
        attribute, label = self.samples[name]
        return 0.5 + label[:, None] * attribute / 6

    def choose(self, answers):
        """Signs of the chosen attributes; zero elsewhere."""
        train = 6 * (self.values("train").mean(axis=0) - 0.5)
        answer, least = 6 * (answers - 0.5), 1 / math.sqrt(self.n)
        agree = (train * answer > 0) & (np.minimum(np.abs(train), np.abs(answer)) > least)
        best = np.argsort(np.where(agree, np.abs(train), 0.0))[-self.n_chosen :]
        vote = np.zeros(self.n_attributes)
        vote[best] = np.sign(train[best])
        return vote

    def right(self, name, vote):
        """Which records the vote gets right."""
        attribute, label = self.samples[name]
        return (np.sign(attribute @ vote) == label).astype(float)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_gate_reports_chance_where_a_plain_holdout_is_overfitted(seed):
    """n = d = 2000, 100 attributes chosen, no signal: plain holdout .627, true accuracy .5.

    The figure is that of the published protocol (standard deviation .009). The vote's accuracy on a
    holdout that it did not see has standard error .0112, within .06 but for 1e-7; and the answer's
    noise is below .03 with chance 1 - 3e-7: |reported - .5| > .09 has a chance below 1e-6.
    """
    analyst, noise = Analyst(2000, np.random.default_rng(seed)), SeededNoise(seed)
    plain = analyst.choose(analyst.values("holdout").mean(axis=0))
    assert analyst.right("holdout", plain).mean() == pytest.approx(0.627, abs=0.06)
    assert analyst.right("fresh", plain).mean() == pytest.approx(0.5, abs=0.056)

    gate = Thresholdout(threshold=0.05, sigma=0.002, budget=40)
    state = gate.start(holdout_query(2000), noise)
    train, holdout = analyst.values("train"), analyst.values("holdout")
    answers = np.empty(analyst.n_attributes)
    for attribute in range(analyst.n_attributes):
        asked = question(float(train[:, attribute].mean()), holdout[:, attribute])
        state, answer = gate.answer(state, asked, noise)
        answers[attribute] = answer["value"]
    vote = analyst.choose(answers)
    asked = question(float(analyst.right("train", vote).mean()), analyst.right("holdout", vote))
    _, verdict = gate.answer(state, asked, noise)
    assert analyst.right("train", vote).mean() > 0.65
    assert verdict["status"] == "overfit"
    assert verdict["value"] == pytest.approx(0.5, abs=0.09)


def test_boolean_values_are_judged_as_zeros_and_ones():
    right = np.arange(10) < 7
    for train in (0.65, 0.2):
        noises = [ScriptedNoise([0.0, 0.01, 0.0]) for _ in range(2)]
        asked = [Question("a", {"train": train, "holdout": one}) for one in (right, right * 1.0)]
        one, two = (GATE.answer(opened(), *pair) for pair in zip(asked, noises, strict=True))
        assert one == two


def test_zeros_of_either_sign_and_numbers_of_any_width_are_read_alike():
    def answered(holdout):
        noise = ScriptedNoise([0.0, 0.01, 0.0])
        asked = Question("a", {"train": 0.75, "holdout": holdout})
        return GATE.answer(opened(), asked, noise)

    plain = np.array([0.0, 0.25, 0.5, 1.0, 0.0] * 2)
    signed = np.where(plain == 0, -0.0, plain)
    strided = np.repeat(plain, 2)[::2]
    narrow = plain.astype(np.float32)
    swapped = plain.astype(">f8")
    assert all(answered(one) == answered(plain) for one in (signed, strided, narrow, swapped))
    whole = np.array([0, 1] * 5)
    assert answered(whole) == answered(whole.astype(float))
