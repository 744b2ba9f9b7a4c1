"""A thousand adaptive candidates on one holdout: what is reported, and what is true.

``python -m benchmarks.learners.candidate_gate [--campaigns 200] [--processes 2]``
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from jaxtyping import Bool
from scipy.stats import norm

from benchmarks.learners.stability import seeded
from benchmarks.publish import parser_of, publish
from learners import (
    CandidateGate,
    Thresholdout,
    best_step,
    candidate_price,
    climb,
    ladder_error,
)
from learners.bounds import upper_limit_at
from learners.holdout.thresholdout import STEPS
from privacy import History, Interaction, Json, Query, Question, Unit

N, CANDIDATES, LEVEL, TOLERANCE = 10_000, 1000, 0.95, 0.01
EASY, TRUTH = 0.6, 0.8  # share of examples that every candidate gets right; the rest are fair coins
REFUTATIONS = 10
PRICE = candidate_price(N, n_candidates=CANDIDATES, refutations=REFUTATIONS, level=LEVEL)
GATE = CandidateGate(CANDIDATES, REFUTATIONS, PRICE, LEVEL, TOLERANCE)
THRESHOLDOUT = Thresholdout(threshold=0.02, sigma=0.0005, budget=REFUTATIONS)
HOLDOUT = Query("experiment", "holdout", np.zeros(1), Unit.ROW, n=N, l1=math.inf)

Right = Bool[np.ndarray, " examples"]


@dataclass(frozen=True)
class Candidate:
    """Which examples it gets right, on both sets; `train` is the development score that is declared."""

    train: float
    development: Right
    holdout: Right
    truth: float


@dataclass(frozen=True)
class Told:
    """What a holdout says: a score, None if it says none; whether it refutes, and whether it is used up."""

    score: float | None
    refuted: bool = False
    shut: bool = False


Analyst = Generator[Candidate, Told, None]
Ask = Callable[[Candidate], Told]


def candidate(development: Right, holdout: Right, truth: float = TRUTH) -> Candidate:
    return Candidate(float(development.mean()), development, holdout, truth)


def fair(rng: np.random.Generator) -> Right:
    """A fair coin for each example: a bit, which is cheaper than a number."""
    bits = np.unpackbits(np.frombuffer(rng.bytes(-(-N // 8)), dtype=np.uint8))
    return bits[:N].view(np.bool_)


def some(rng: np.random.Generator, share: float) -> np.ndarray:
    """The examples that each are among this share: by the gaps between them."""
    gaps = rng.geometric(share, size=int(2 * share * N) + 100)
    at = np.cumsum(gaps) - 1
    return at[at < N]


def coins(rng: np.random.Generator, easy: tuple[Right, Right]) -> Candidate:
    """Right on what is easy, and by chance on the rest: its true score is TRUTH whatever is combined."""
    development, holdout = (one | fair(rng) for one in easy)
    return candidate(development, holdout)


def voted(kept: list[Candidate], rng: np.random.Generator) -> Candidate:
    """The majority of candidates on each example; ties by a coin."""
    sets = []
    for name in ("development", "holdout"):
        votes = np.full(N, -len(kept), dtype=np.int16)
        for one in kept:
            votes += 2 * getattr(one, name).view(np.int8)
        sets.append((votes > 0) | ((votes == 0) & fair(rng)))
    return candidate(sets[0], sets[1])


def votes(rng: np.random.Generator) -> Analyst:
    """Combine the candidates that were reported to be better, and begin anew where that is refuted."""
    easy = rng.random(N) < EASY, rng.random(N) < EASY
    while True:
        heard: list[tuple[float, Candidate]] = []
        refuted = False
        while not refuted:
            for _ in range(9):
                one = coins(rng, easy)
                told = yield one
                heard.append((one.train if told.score is None else told.score, one))
            heard.sort(key=lambda pair: -pair[0])
            told = yield voted([one for _, one in heard[: (len(heard) + 1) // 2]], rng)
            refuted = told.refuted


def edge(rng: np.random.Generator) -> Analyst:
    """Know the gate: declare development scores at its edge, and turn round whoever is refuted.

    The claim rises with every agreement and falls with a refutation, so that few refutations find the
    candidates that are lowest on the holdout. Their opposites on what is hard are high there; the votes of
    these claim ever more, until that is refuted as well.
    """
    easy = rng.random(N) < EASY, rng.random(N) < EASY
    allowance = TRUTH - GATE.first_claim(TRUTH, n_train=N, n=N)[0] / (STEPS * N)
    spread = math.sqrt(TRUTH * (1 - TRUTH) / N)
    low: list[Candidate] = []
    claim, wanted = TRUTH - 4 * spread, 3
    while True:
        one = coins(rng, easy)
        told = yield replace(one, train=claim + allowance)
        claim += -spread if told.refuted else spread / 50
        if told.refuted:
            pairs = zip((one.development, one.holdout), easy, strict=True)
            development, holdout = (~right | sure for right, sure in pairs)
            low.append(candidate(development, holdout))
        if told.refuted and len(low) >= wanted:
            wanted += 2
            more = claim + 3 * spread
            while not told.refuted or more == claim + 3 * spread:
                told = yield replace(voted(low, rng), train=more + allowance)
                more += spread


def search(rng: np.random.Generator) -> Analyst:
    """Climb honestly: change the best candidate a little, and keep what is reported to be better."""
    best = candidate(rng.random(N) < TRUTH, rng.random(N) < TRUTH)
    told = yield best
    score = told.score or 0.0
    while True:
        chance = float(np.clip(best.truth + rng.uniform(-0.2, 0.2), 0, 1))
        development, holdout = best.development.copy(), best.holdout.copy()
        for right in (development, holdout):
            at = some(rng, 0.05)
            right[at] = rng.random(len(at)) < chance
        child = candidate(development, holdout, truth=0.95 * best.truth + 0.05 * chance)
        told = yield child
        if told.score is not None and told.score > score:
            best, score = child, told.score


ANALYSTS = {"combines": votes, "attacks the gate": edge, "searches": search}


def best_of(seed: int) -> Ask:
    return lambda one: Told(float(one.holdout.mean()))


def ladder(step: float) -> Callable[[int], Ask]:
    """A score is reported where the leaderboard moves."""

    def opened(seed: int) -> Ask:
        board = [1.0]

        def ask(one: Candidate) -> Told:
            board.append(climb(board[-1], (~one.holdout).astype(float), step=step))
            return Told(1 - board[-1] if board[-1] < board[-2] else None)

        return ask

    return opened


def folds(n_folds: int, *, limit: bool) -> Callable[[int], Ask]:
    """A fresh fold for each candidate: its mean, or its lower limit and the tolerance, as the gate has it."""

    def opened(seed: int) -> Ask:
        left = list(range(n_folds))

        def ask(one: Candidate) -> Told:
            if not left:
                return Told(None, shut=True)
            fold = one.holdout[left.pop() :: n_folds]
            if not limit:
                return Told(float(fold.mean()))
            wrong, tail = int((~fold).sum()), math.log((1 - LEVEL) / n_folds)
            return Told(min(fold.mean(), 1 - upper_limit_at(wrong, fold.size, tail) + TOLERANCE))

        return ask

    return opened


def interaction(gate: Interaction) -> Callable[[int], Ask]:
    """A gate as the ledger runs it, with seeded noise."""
    history = History(1, 1, gate.event(HOLDOUT).cost(), ())

    def opened(seed: int) -> Ask:
        noise = seeded(seed)
        state: list[Json] = [gate.start(HOLDOUT, noise)]

        def ask(one: Candidate) -> Told:
            value = {"train": one.train, "n_train": N, "holdout": one.holdout}
            state[0], told = gate.answer(state[0], Question("one", value), noise, history)
            return Told(told["value"], told["status"] == "overfit", told["status"] == "exhausted")

        return ask

    return opened


def plain_folds() -> int:
    """Most folds whose means are all within the tolerance of the truth, by the normal law."""
    spread, k = math.sqrt(TRUTH * (1 - TRUTH)), 1
    while norm.ppf(LEVEL ** (1 / (k + 1))) * spread * math.sqrt((k + 1) / N) <= TOLERANCE:
        k += 1
    return k


def limit_folds(shortfall: float) -> int:
    """Most folds that report their limit no further below the truth than this."""
    k = 1
    while _fold_shortfall(k + 1) <= shortfall:
        k += 1
    return k


def _fold_shortfall(k: int) -> float:
    wrong = math.ceil((1 - TRUTH) * (N // k))
    limit = 1 - upper_limit_at(wrong, N // k, math.log((1 - LEVEL) / k))
    return TRUTH - min(TRUTH, limit + TOLERANCE)


def honest_shortfall() -> float:
    """How far below a development score that is true the gate reports before any refutation."""
    claim = GATE.first_claim(TRUTH, n_train=N, n=N)[0] / (STEPS * N)
    return TRUTH - min(claim, GATE.limit(claim, log_share=GATE.log_share([]), n=N) + TOLERANCE)


@dataclass(frozen=True)
class Campaign:
    """What came of one: reported scores less the truth, the best's, and how many answers there were."""

    above: list[float]
    best: float
    broken: bool

    @property
    def worst(self) -> float:
        """The largest overstatement of a reported score."""
        return max(self.above)


def campaign(analyst: Callable[[np.random.Generator], Analyst], ask: Ask, seed: int) -> Campaign:
    rng = np.random.default_rng(seed)
    asking = analyst(rng)
    one = next(asking)
    above, best = [], (-1.0, 0.0)
    for _ in range(CANDIDATES):
        told = ask(one)
        if told.shut:
            break
        if told.score is not None:
            above.append(told.score - one.truth)
            best = max(best, (told.score, told.score - one.truth))
        one = asking.send(told)
    return Campaign(above, best[1], max(above) > TOLERANCE)


def ways_of() -> dict[str, tuple[Callable[[int], Ask], str]]:
    """The holdouts, and what is known of each beforehand."""
    plain, equal = plain_folds(), limit_folds(honest_shortfall())
    step = best_step(n=N, n_models=CANDIDATES, level=LEVEL)
    promised = ladder_error(step, n=N, n_models=CANDIDATES, level=LEVEL)
    return {
        "best of all": (best_of, "none"),
        "Ladder, step .01": (ladder(0.01), "none below .1"),
        f"Ladder, step {step:.3f}": (ladder(step), f"{promised:+.3f}, proved"),
        f"{plain} fold{'s' * (plain > 1)}, means": (
            folds(plain, limit=False),
            "+0.010, normal law",
        ),
        f"{equal} folds, limits": (folds(equal, limit=True), "+0.010, proved"),
        "Thresholdout": (interaction(THRESHOLDOUT), "none below .4"),
        "gate without its limits": (
            interaction(replace(GATE, tolerance=0.999)),
            "+0.020 until it refutes",
        ),
        "gate": (interaction(GATE), "+0.010, proved"),
    }


def row(asked: tuple[str, str], campaigns: int) -> tuple[str, ...]:
    """The cells of an analyst and a holdout."""
    name, way = asked
    opened, stated = ways_of()[way]
    found = [campaign(ANALYSTS[name], opened(seed), seed) for seed in range(campaigns)]
    return (name, way, stated, *cells(found))


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--campaigns", type=int, default=200)
    parser.add_argument("--processes", type=int, default=2)
    given = parser.parse_args()
    asked = [(name, way) for name in ANALYSTS for way in ways_of()]
    with ProcessPoolExecutor(given.processes) as pool:
        rows = list(pool.map(partial(row, campaigns=given.campaigns), asked))
    publish(
        "candidate_gate",
        "A thousand adaptive candidates on one holdout of ten thousand examples",
        ["analyst", "holdout", "stated overstatement", "scores reported", "valid",
         "seen: largest overstatement, 95 %", "campaigns above .01", "of the best, 95 %",
         "mean below the truth"],
        rows,
        note=note(given.campaigns, plain_folds(), limit_folds(honest_shortfall())),
    )  # fmt: skip


def cells(found: list[Campaign]) -> tuple[str, ...]:
    above = [np.array(one.above) for one in found]
    return (
        f"{np.mean([one.size for one in above]):.0f}",
        f"{np.mean([(one <= TOLERANCE).sum() for one in above]):.0f}",
        f"{np.quantile([one.worst for one in found], 0.95):+.4f}",
        f"{np.mean([one.broken for one in found]):.1%}",
        f"{np.quantile([one.best for one in found], 0.95):+.4f}",
        f"{-np.mean(np.concatenate(above)):.4f}",
    )


def note(campaigns: int, plain: int, equal: int) -> str:
    return f"""{campaigns} campaigns a row; {N:,} development and {N:,} holdout examples.

The columns:

- Overstatement is the reported score less the true one. The largest is of all scores that a campaign reports;
  its 95 % quantile is over campaigns.
- Stated is what is known of it beforehand, seen what came of it here.
- Valid scores are above the truth by .01 at most.

The analysts:

- *Combines*: every candidate has a true score of .8 (right on the easy 60 %, a coin on the rest). Every tenth
  question the better-reported half of them votes; the analyst begins anew once refuted.
- *Attacks the gate*: declares development scores at the gate's edge, turns the refuted candidates round, and
  claims ever more for their votes.
- *Searches*: changes the best candidate and keeps what is reported to be better; true scores differ.

The holdouts:

- Ladder: a step of .01, and the one whose proved error is least. It gives a score for each move.
- Folds: a fresh one for each candidate. {plain} would keep the promise with plain means; {equal} with lower
  limits fall no further below the truth than the gate's do before it refutes ({honest_shortfall():.3f}).
- Thresholdout: threshold {THRESHOLDOUT.threshold:g}, sigma {THRESHOLDOUT.sigma:g}, and a
  budget of {THRESHOLDOUT.budget}. Its proved width at this size is above .4 (`learners.holdout_widths`).
- Gate: {CANDIDATES:,} candidates, {REFUTATIONS} refutations, price {PRICE:g}. Its promise, .01 at 95 % for
  all scores of a campaign together, is proved for any analyst (`learners.CandidateGate`). Without its limits
  it would report the claims that the holdout confirms as they are."""


if __name__ == "__main__":
    main()
