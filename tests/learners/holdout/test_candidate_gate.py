"""The gate for candidates that others choose: its limits, its price, and attacks through the real ledger."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.signal import fftconvolve
from scipy.stats import binom

from learners.bounds.clopper_pearson import largest_rate
from learners.holdout.candidate_gate import CandidateAnswer, CandidateGate, candidate_price
from learners.holdout.thresholdout import STEPS
from privacy import GroupInteraction
from privacy.accounting import Cost
from privacy.ledger import BudgetError
from privacy.ledger.ledger import Ledger
from privacy.mechanism import History, Question
from privacy.query import Query, Unit
from tests.learners.scripted_noise import ScriptedNoise, SeededNoise, SilentNoise

GATE = CandidateGate(n_candidates=20, refutations=2, epsilon=10.0)


def query(n=1000):
    return Query("prompts", "holdout", np.zeros(1), Unit.ROW, n=n, l1=math.inf)


def question(train, holdout, name="one", n_train=1000):
    return Question(name, {"train": train, "n_train": n_train, "holdout": np.asarray(holdout)})


def history(asked=1, others=()):
    return History(asked, 1 + len(others), Cost(Fraction(10), Fraction(0)), others)


def share(mean, n=1000):
    return np.arange(n) < round(mean * n)


def asked(gate, *pairs, noise=None, n=1000):
    """Answers to development scores and holdout means, one after the other."""
    noise = noise or SilentNoise()
    state, found = gate.start(query(n), noise), []
    for number, (train, values) in enumerate(pairs, start=1):
        values = share(values, n) if np.ndim(values) == 0 else values
        state, told = gate.answer(state, question(train, values), noise, history(number))
        found.append(CandidateAnswer.from_json(told))
    return found


def test_a_score_that_holds_agrees_and_a_higher_one_is_overfit():
    agreed, refuted = asked(GATE, (0.8, 0.79), (0.95, 0.8))
    assert (agreed.status, agreed.refutations_left, agreed.candidates_left) == ("agrees", 2, 19)
    assert (refuted.status, refuted.refutations_left, refuted.candidates_left) == ("overfit", 1, 18)
    assert agreed.bound < agreed.value < 0.8
    assert refuted.bound < refuted.value < 0.8


def test_a_holdout_that_is_better_than_the_development_set_is_no_fault():
    (found,) = asked(GATE, (0.5, 0.9))
    assert found.status == "agrees"


def test_the_value_is_the_claim_or_the_limit_with_the_tolerance():
    claim = GATE.first_claim(0.8, n_train=1000, n=1000)[0] / (STEPS * 1000)
    limit = GATE.limit(claim, log_share=GATE.log_share([]), n=1000)
    (found,) = asked(GATE, (0.8, 0.8))
    assert (found.bound, found.value) == (limit, limit + 0.01)
    (wide,) = asked(CandidateGate(20, 2, 10.0, tolerance=0.5), (0.8, 0.8))
    assert (wide.bound, wide.value) == (limit, claim)


def test_an_overfit_answer_is_the_highest_claim_that_the_holdout_confirms():
    claim, step = GATE.first_claim(0.9, n_train=1000, n=1000)
    gate = CandidateGate(20, 2, 10.0, tolerance=0.9)
    for grade in range(claim // step + 1):
        lowest = claim - grade * step
        mean = math.ceil(lowest / STEPS)  # right answers that just confirm it
        (found,) = asked(gate, (0.9, mean / 1000))
        assert found.value == lowest / (STEPS * 1000)
        assert found.status == ("overfit" if grade else "agrees")
        (below,) = asked(gate, (0.9, max(0, mean - 1) / 1000))
        assert below.value == max(0, lowest - step) / (STEPS * 1000)


def test_the_limit_depends_on_the_answer_never_on_the_exact_mean():
    agreed = {one.bound for mean in (0.78, 0.8, 0.9, 1.0) for one in asked(GATE, (0.8, mean))}
    assert len(agreed) == 1


def test_refutations_lower_the_limits_that_follow():
    clean, after = asked(GATE, (0.8, 0.8))[0], asked(GATE, (0.95, 0.8), (0.8, 0.8))[1]
    assert after.status == clean.status == "agrees"
    assert after.bound < clean.bound


# exhausted -------------------------------------------------------------------------------------


def test_the_refutations_left_fall_by_one_with_each_overfit_answer_and_never_otherwise():
    found = asked(GATE, (0.8, 0.8), (0.99, 0.5), (0.8, 0.8), (0.99, 0.5), (0.8, 0.8))
    assert [one.refutations_left for one in found] == [2, 1, 1, 0, 0]
    assert [one.status for one in found] == ["agrees", "overfit", "agrees", "overfit", "exhausted"]


def test_after_the_refutations_no_answer_depends_on_the_holdout():
    found = [asked(GATE, (1.0, 0.1), (1.0, 0.1), (0.5, mean))[-1] for mean in (0.0, 0.5, 1.0)]
    assert found[0] == found[1] == found[2]
    assert (found[0].value, found[0].bound) == (None, 0.0)


def test_after_all_candidates_every_answer_is_exhausted():
    found = asked(CandidateGate(3, 2, 10.0), *[(0.8, 0.8)] * 5)
    assert [one.status for one in found] == ["agrees"] * 3 + ["exhausted"] * 2


def test_where_another_gate_was_asked_about_the_same_rows_nothing_is_answered():
    state = GATE.start(query(), SilentNoise())
    for mean in (0.0, 1.0):
        following, told = GATE.answer(
            state, question(0.8, share(mean)), SilentNoise(), history(others=({},))
        )
        assert (told["status"], following) == ("exhausted", state)


# what raises -----------------------------------------------------------------------------------


@pytest.mark.refusal
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_candidates", 0), ("n_candidates", 1.5), ("refutations", 0), ("refutations", 10_001),
        ("epsilon", 0.0), ("epsilon", math.nan), ("epsilon", math.inf), ("level", 1.0),
        ("tolerance", -0.1), ("tolerance", 1.0), ("tolerance", math.nan), ("deviations", 0.0),
        ("deviations", math.nan),
    ],
)  # fmt: skip
def test_a_knob_out_of_range_is_refused(name, value):
    knobs = {"n_candidates": 20, "refutations": 2, "epsilon": 10.0, name: value}
    with pytest.raises(ValueError, match=name):
        CandidateGate(**knobs)


@pytest.mark.refusal
def test_counts_may_be_numpys():
    gate = CandidateGate(np.int64(20), np.int32(2), 10.0)
    assert gate == CandidateGate(20, 2, 10.0)
    assert gate.event(query()) == CandidateGate(20, 2, 10.0).event(query())


def test_a_price_below_what_exact_noise_allows_is_refused():
    with pytest.raises(ValueError, match="epsilon is too small"):
        CandidateGate(20, 2, 1e-9).event(query())


@pytest.mark.parametrize(
    "value",
    [
        {"train": 0.8, "holdout": share(0.8)},
        {"train": 0.8, "n_train": 0, "holdout": share(0.8)},
        {"train": 0.8, "n_train": math.inf, "holdout": share(0.8)},
        {"train": 0.8, "n_train": 5.7, "holdout": share(0.8)},
        {"train": 1.2, "n_train": 9, "holdout": share(0.8)},
        {"train": 0.8, "n_train": 9, "holdout": share(0.8, 999)},
        {"train": 0.8, "n_train": 9},
    ],
)
def test_questions_without_one_score_per_example_raise_before_the_state_changes(value):
    state = GATE.start(query(), SilentNoise())
    before = dict(state)
    with pytest.raises(ValueError, match=r"n_train|train must|holdout must|must hold"):
        GATE.answer(state, Question("one", value), SilentNoise(), history())
    assert state == before


@pytest.mark.parametrize(
    "fields",
    [
        {"status": "maybe"}, {"value": None}, {"status": "exhausted"}, {"bound": 1.5},
        {"refuted": -1}, {"candidates_left": -1},
    ],
)  # fmt: skip
def test_an_answer_that_contradicts_itself_cannot_be_built(fields):
    sound = {"status": "agrees", "value": 0.7, "bound": 0.69, "refuted": 0}
    sound |= {"refutations_left": 1, "candidates_left": 1, "calls": 1}
    with pytest.raises(ValueError, match=r"must be"):
        CandidateAnswer(**(sound | fields))


# the proof, term by term -----------------------------------------------------------------------


def test_the_shares_of_all_candidates_that_could_be_asked_add_up_to_less_than_what_is_allowed():
    """Every set of overfit places before every candidate, with every k up to 9, of a small gate."""
    gate = CandidateGate(n_candidates=5, refutations=3, epsilon=1.0, level=0.9)
    total = 0.0
    for i in range(1, 6):
        for j in range(min(3, i)):
            for _ in itertools.combinations(range(i - 1), j):
                for grades in itertools.product(range(1, 10), repeat=j):
                    total += math.exp(gate.log_share(list(grades)))
    assert 0.05 < total < 0.1


@pytest.mark.parametrize(
    ("n", "claim", "epsilon"), [(50, 0.8, 30.0), (200, 0.6, 5.0), (200, 0.95, 20.0)]
)
def test_the_limit_keeps_its_share_by_the_exact_law(n, claim, epsilon):
    """P(E_h + gamma + eta >= c) at p = L, by convolving binomial and discrete Laplace laws."""
    gate = CandidateGate(20, 2, epsilon)
    log_share = math.log(1e-4)
    limit = gate.limit(claim, log_share=log_share, n=n)
    assert 0 < limit < claim
    reach = int(30 * gate.scales[1])
    z = np.arange(-reach, reach + 1)
    laws = [np.exp(-np.abs(z) / scale) * math.tanh(0.5 / scale) for scale in gate.scales]
    above = np.cumsum(fftconvolve(*laws, mode="same")[::-1])[::-1]
    needed = np.ceil(claim * STEPS * n - STEPS * np.arange(n + 1)).astype(int) + reach
    tail = np.where(needed > 2 * reach, 0.0, above[np.clip(needed, 0, 2 * reach)])
    chance = float(binom.pmf(np.arange(n + 1), n, limit) @ tail)
    assert 1e-7 < chance <= 1e-4


@pytest.mark.parametrize("claim", [0.2, 0.8, 0.99])
def test_the_limit_is_that_of_the_best_tilt(claim):
    """Oracle: without noise to speak of, the best tilt gives Chernoff's bound, the inverse of kl."""
    n, log_share = 10_000, math.log(1e-6)
    limit = CandidateGate(20, 2, 1e6).limit(claim, log_share=log_share, n=n)
    assert limit == pytest.approx(1 - largest_rate(1 - claim, -log_share / n), abs=1e-5)


@pytest.mark.parametrize("train", [0.1, 0.3, 0.7, 0.8])
@pytest.mark.parametrize("n", [7, 1000])
def test_a_claim_is_below_the_development_score_by_the_deviations_at_least(train, n):
    """In exact arithmetic: both are rounded so that no claim is too high."""
    claim, step = GATE.first_claim(train, n_train=n, n=n)
    grid, shrunk = STEPS * n, (train * n + 1) / (n + 2)
    noise = 2 * sum(scale**2 for scale in GATE.scales) / grid**2
    assert Fraction(claim + step, grid) <= Fraction(train)
    assert step >= 3.0 * math.sqrt(shrunk * (1 - shrunk) * 2 / n + noise) * grid


def test_a_mean_that_reaches_the_claim_by_rounding_alone_does_not_confirm_it():
    claim, _ = GATE.first_claim(0.85, n_train=1000, n=1000)
    assert claim % 1000 > 500  # the nearest whole number of steps to such a score is above it
    (found,) = asked(GATE, (0.85, np.full(1000, claim / (STEPS * 1000))))
    assert found.status == "overfit"


def test_the_least_gate_answers_one_candidate_of_one_development_example():
    gate = CandidateGate(1, 1, 10.0, tolerance=0.0)
    state = gate.start(query(1), SilentNoise())
    for status in ("agrees", "exhausted"):
        asks = question(1.0, [1.0], n_train=1)
        state, told = gate.answer(state, asks, SilentNoise(), history())
        assert told["status"] == status
    assert candidate_price(1, n_candidates=1, refutations=1, level=0.5) > 0


def test_without_a_tolerance_the_value_is_the_limit():
    (found,) = asked(CandidateGate(20, 2, 10.0, tolerance=0.0), (0.8, 0.8))
    assert found.value == found.bound > 0


def test_a_candidate_of_no_claim_has_the_limit_0():
    assert GATE.limit(0.0, log_share=-5.0, n=100) == 0.0


@pytest.mark.parametrize(("refutations", "epsilon"), [(1, 0.3), (10, 4.1), (137, 99.7)])
def test_the_scales_cost_at_most_epsilon_in_exact_arithmetic(refutations, epsilon):
    once, each = map(Fraction, CandidateGate(20, refutations, epsilon).scales)
    cost = STEPS / once + 2 * refutations * STEPS / each
    assert Fraction(str(epsilon)) * Fraction(999_999, 1_000_000) < cost <= Fraction(str(epsilon))


def test_the_price_is_epsilon_and_its_noise_exact():
    event = CandidateGate(20, 2, 0.1).event(query())
    assert event.cost() == Cost(Fraction(1, 10), Fraction(0))
    assert event.arithmetic == "exact"


def test_noise_shifted_as_the_proof_says_gives_a_neighbour_the_same_answers():
    """One example's scores changed in every question: gamma moves by STEPS, each eta by 2 STEPS at most."""
    gate, n = CandidateGate(30, 4, 10.0), 40
    for seed in range(200):
        rng = np.random.default_rng(seed)
        source, drawn, shifted = SeededNoise(seed), [], []
        noise = ScriptedNoise(drawn)
        first = source.discrete_laplace(gate.scales[0], 1)[0]
        drawn.append(first)
        noise = ScriptedNoise([first])
        state = gate.start(query(n), noise)
        asked_of, told = [], []
        for _ in range(12):
            train, values = rng.uniform(0.4, 1.0), rng.random(n)
            other = values.copy()
            other[0] = rng.random()
            each = source.discrete_laplace(gate.scales[1], 1)[0]
            state, answer = gate.answer(
                state, question(train, values, n_train=40), ScriptedNoise([each]), history()
            )
            asked_of.append((train, values, other, each))
            told.append(answer)
        again = gate.start(query(n), ScriptedNoise([first + STEPS]))
        for (train, values, other, each), answer in zip(asked_of, told, strict=True):
            moved = int(np.floor(other * STEPS).sum()) - int(np.floor(values * STEPS).sum())
            shift = -(moved + STEPS) if answer["status"] == "overfit" else 0
            assert -2 * STEPS <= shift <= 0
            shifted.append(shift)
            again, same = gate.answer(
                again, question(train, other, n_train=40), ScriptedNoise([each + shift]), history()
            )
            assert same == answer
        assert sum(shift < 0 for shift in shifted) <= gate.refutations


def test_noise_is_drawn_once_and_once_for_each_candidate():
    noise = ScriptedNoise([0] * 4)
    asked(GATE, *[(0.8, 0.8)] * 3, noise=noise)
    assert noise.scales == [GATE.scales[0], *[GATE.scales[1]] * 3]


def test_the_proposed_price_hardly_widens_the_limits():
    for n in (200, 1000, 10_000, 100_000):
        price = candidate_price(n, n_candidates=1000, refutations=10, level=0.95)
        limits = [
            0.8 - one.limit(0.8, log_share=one.log_share([]), n=n)
            for one in (CandidateGate(1000, 10, price), CandidateGate(1000, 10, 1e4 * price))
        ]
        assert limits[0] < 1.1 * limits[1]


@pytest.mark.parametrize(
    ("n", "train", "reported"), [(10_000, 0.8, 0.77), (1000, 0.8, 0.69), (200, 0.82, 0.55)]
)
def test_scores_are_reported_lower_by_what_the_how_to_page_says(n, train, reported):
    price = candidate_price(n, n_candidates=1000, refutations=10, level=0.95)
    gate = CandidateGate(1000, 10, price)
    state = gate.start(query(n), SilentNoise())
    asks = question(train, share(train, n), n_train=n)
    _, told = gate.answer(state, asks, SilentNoise(), history())
    assert abs(told["value"] - reported) < 0.01


def test_at_equal_price_the_noise_is_a_third_of_thresholdouts():
    """Standard deviations of a comparison: there Lap(2 sigma) + Lap(4 sigma), sigma = 2 B / (epsilon n)."""
    there = 2 * 10 * math.sqrt(2**2 + 4**2)
    here = math.hypot(*CandidateGate(1000, 10, 1.0).scales) / STEPS
    assert here < there / 3


def test_sizes_that_are_none_are_refused_a_price():
    with pytest.raises(ValueError, match="n must be >= 1"):
        candidate_price(0, n_candidates=10, refutations=1, level=0.95)
    with pytest.raises(ValueError, match="refutations"):
        candidate_price(10, n_candidates=10, refutations=0, level=0.95)
    for level in (0.0, 1.0, math.nan):
        with pytest.raises(ValueError, match="level must be"):
            candidate_price(10, n_candidates=10, refutations=1, level=level)


# adaptive candidates ---------------------------------------------------------------------------


def overstated(seed, gate, n):
    """Largest value, and largest limit, less the truth 1/2, of an analyst who turns refuted ones round."""
    rng, noise = np.random.default_rng(seed), SeededNoise(seed)
    state, low, worst = gate.start(query(n), noise), [], (-1.0, -1.0)
    allowance = 0.5 - gate.first_claim(0.5, n_train=n, n=n)[0] / (STEPS * n)
    for k in range(gate.n_candidates):
        voted = len(low) >= 2 and k % 5 == 0
        values = (
            np.sum(low, axis=0) + rng.random(n) > len(low) / 2 if voted else rng.random(n) < 0.5
        )
        aim = 0.5 + (0.05 * rng.random() if voted else -1.5 * 0.5 / math.sqrt(n))
        state, told = gate.answer(
            state, question(aim + allowance, values, n_train=n), noise, history()
        )
        if told["status"] == "exhausted":
            break
        if told["status"] == "overfit" and not voted:
            low.append(~values)
        worst = max(worst[0], told["value"] - 0.5), max(worst[1], told["bound"] - 0.5)
    return worst


def test_no_value_exceeds_the_truth_by_more_than_the_tolerance_for_adaptive_candidates():
    """40 campaigns, of which 5 % may break the promise: more than 12 do once in a million (binomial)."""
    gate = CandidateGate(200, 8, candidate_price(400, n_candidates=200, refutations=8, level=0.95))
    found = np.array([overstated(seed, gate, 400) for seed in range(40)])
    assert (found[:, 0] > gate.tolerance).sum() <= 12
    assert (found[:, 1] > 0).sum() <= 12
    assert found[:, 0].max() > -0.2  # the attack comes close enough to say something


# attacks through the real ledger ---------------------------------------------------------------


@pytest.fixture
def ledger(tmp_path):
    ledger = Ledger(tmp_path / "ledger.sqlite", key=bytes(32))
    ledger.open_budget("prompts", unit=Unit.ROW, epsilon=10.0, delta=0.0, n=1000)
    return ledger


def test_the_price_is_paid_once_for_any_number_of_candidates(ledger):
    for number in range(5):
        ledger.interact(GATE, query(), question(0.8, share(0.8), f"{number}"))
    assert ledger.statement("prompts").spent.epsilon == 10
    with pytest.raises(BudgetError):
        ledger.interact(CandidateGate(20, 3, 10.0), query(), question(0.8, share(0.8)))


@pytest.mark.parametrize(
    "wrong",
    [
        question(0.8, share(0.8)[:-1]),
        question(1.1, share(0.8)),
        question(0.8, share(0.8), n_train=0),
    ],
)
def test_a_first_question_that_does_not_fit_is_not_paid_for(ledger, wrong):
    """Nor are those asked with it; a gate that is paid for keeps the answers of its names."""
    for mechanism in (GATE, GroupInteraction(GATE, 1)):
        with pytest.raises(ValueError, match="must be one"):
            ledger.interact_all(mechanism, query(), [question(0.8, share(0.8), "first"), wrong])
    assert ledger.statement("prompts").n_entries == 0
    first = ledger.interact(GATE, query(), question(0.8, share(0.8), wrong.name))
    assert ledger.interact(GATE, query(), wrong).value == first.value


def test_a_name_has_its_stored_answer_whatever_the_holdouts_scores_are(ledger):
    """A1: neither what is returned nor what is left tells whether two private arrays are equal."""
    rng = np.random.default_rng(0)
    first = ledger.interact(GATE, query(), question(0.8, share(0.8)))
    for _ in range(30):
        again = ledger.interact(GATE, query(), question(0.8, rng.random(1000)))
        assert (again.value, again.fresh) == (first.value, False)
    last = ledger.interact(GATE, query(), question(0.8, share(0.8), "other"))
    assert last.value["calls"] == 32
    assert last.value["candidates_left"] == 18


@pytest.mark.parametrize("poison", [math.nan, 1.5, -0.5, math.inf, -math.inf, 5e300])
def test_no_other_question_raises_because_of_its_values(ledger, poison):
    """A2: scores out of range where example i's label is 1 are clamped, and NaN counts as 0."""
    label = np.random.default_rng(3).integers(2, size=19).astype(bool)
    questions = []
    for record in range(19):
        values = np.full(1000, 0.8)
        if label[record]:
            values[record] = poison
        questions.append(question(0.5, values, f"{record}"))
    found = ledger.interact_all(GATE, query(), questions)
    assert {one.value["status"] for one in found} == {"agrees"}


def test_a_changed_knob_does_not_make_the_gate_forget(tmp_path):
    """A3: a second gate with the same rows answers nothing, nor does the first one after it."""
    ledger = Ledger(tmp_path / "ledger.sqlite", key=bytes(32))
    ledger.open_budget("prompts", unit=Unit.ROW, epsilon=30.0, delta=0.0, n=1000)
    ledger.interact(GATE, query(), question(1.0, share(0.5)))
    other = CandidateGate(20, 9, 10.0)
    assert ledger.interact(other, query(), question(0.8, share(0.8))).value["status"] == "exhausted"
    last = ledger.interact(GATE, query(), question(0.8, share(0.8), "next"))
    assert last.value["status"] == "exhausted"


def test_scores_between_0_and_1_never_count_for_more_than_they_are():
    values = np.full(1000, 1 - 1e-9)
    claim, _ = GATE.first_claim(1.0, n_train=10**9, n=1000)
    assert claim < 1000 * STEPS
    state = GATE.start(query(), SilentNoise())
    _, told = GATE.answer(state, question(1.0, values, n_train=10**9), SilentNoise(), history())
    assert told["value"] < 1
