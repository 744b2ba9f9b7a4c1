"""A holdout for candidates that somebody else chooses: prompts, judges, models, each with its own scores.

A question has the candidate's scores on a development set and on the holdout. The answer is whether the
development score holds, a score to report in its place, and a lower limit of the true score which holds
for all candidates at once, however they were chosen from earlier answers.

>>> gate = CandidateGate(n_candidates=1000, refutations=10, epsilon=4.0)
>>> round(gate.limit(0.8, log_share=math.log(0.05 / 2000), n=10_000), 4)
0.7806
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from learners.bounds import check_level
from learners.holdout.thresholdout import STEPS, check_question, clamped
from privacy.accounting import MAX_SCALE, Arithmetic, keep_declared
from privacy.mechanism import History, Json, Noise, Question
from privacy.mechanisms import PureEvent, exact
from privacy.query import Query, is_whole

__all__ = ["CandidateAnswer", "CandidateGate", "candidate_price"]

STATUSES = ("agrees", "overfit", "exhausted")
ROUNDED = 1e-9  # taken off a limit: far above the rounding errors of its formula
MAX_TILT = 50.0  # per example: beyond it a limit is 1 or not any better
TILTED = 0.5  # noise scale that hardly moves a bound, as a share of 1 / its tilt


@dataclass(frozen=True, slots=True)
class CandidateAnswer:
    """The released answer about one candidate.

    Parameters
    ----------
    status
        "agrees", "overfit" or "exhausted".
    value
        The score to report, in [0, 1]: above the true one by at most the gate's tolerance. None once the
        gate is exhausted.
    bound
        Lower limit of the true score, in [0, 1]; 0 once the gate is exhausted.
    refuted
        Overfit answers so far.
    refutations_left, candidates_left
        How many more overfit answers, and candidates, the gate has.
    calls
        Calls so far, repeated ones included.

    Raises
    ------
    ValueError
        If the fields contradict each other.
    """

    status: str
    value: float | None
    bound: float
    refuted: int
    refutations_left: int
    candidates_left: int
    calls: int

    def __post_init__(self) -> None:
        if self.status not in STATUSES:
            raise ValueError(f"status must be one of {STATUSES}, got status={self.status!r}")
        if not (self.value is None) == (self.status == "exhausted"):
            raise ValueError("value must be None when the gate is exhausted, and only then")
        if not 0 <= self.bound <= 1:
            raise ValueError("bound must be in [0, 1]")
        if not min(self.refuted, self.refutations_left, self.candidates_left) >= 0:
            raise ValueError("counts must be >= 0")

    @classmethod
    def from_json(cls, released: Mapping[str, Json]) -> "CandidateAnswer":
        """Read the value of a release.

        Examples
        --------
        >>> released = {"status": "agrees", "value": 0.78, "bound": 0.77, "refuted": 0}
        >>> left = {"refutations_left": 10, "candidates_left": 999, "calls": 1}
        >>> CandidateAnswer.from_json({**released, **left}).bound
        0.77
        """
        return cls(**released)


@dataclass(frozen=True, slots=True)
class CandidateGate:
    """Answer for each candidate whether its development score holds, and which score can be reported.

    For a development score d of m examples, and a holdout mean E_h of n examples:

        T = deviations * sqrt(d (1 - d) (1 / n + 1 / m) + variance of the noise), d shrunk a little;
        eta ~ Lap(b_eta); c_k = d - (k + 1) T; k = the least with E_h + gamma + eta >= c_k, or c_k <= 0.

    k = 0 is "agrees"; any other is "overfit" and uses up one of `refutations`. The answer is k, with a
    lower limit L of the true score that follows from c_k, and min(c_k, L + tolerance) to report. After
    `refutations` overfit answers or `n_candidates` candidates every answer is "exhausted".

    Parameters
    ----------
    n_candidates
        N, candidates that are answered, >= 1.
    refutations
        B, overfit answers before the gate shuts, 1 .. 10,000.
    epsilon
        Price of all answers together, > 0; `candidate_price` proposes one.
    level
        Confidence in all limits together, in (0, 1).
    tolerance
        Largest excess of a reported score over the true one, in [0, 1).
    deviations
        Standard deviations by which a development score may exceed the holdout's, in (0, 100].
    holdout
        Digests by which the caller recognises the holdout; they are part of the gate's identity.

    Raises
    ------
    ValueError
        If a knob is out of range.

    Notes
    -----
    A question's value is `{"train": d, "n_train": m, "holdout": one score per example}`. Scores outside
    [0, 1] are clamped, and NaN counts as 0: a refusal would reveal an example. Development scores must
    be of other examples than the holdout's. A question's name is its identity: asked again, it has its
    stored answer, whatever the values are. "True" is the mean score of new examples of the kind that the
    holdout was drawn from, independently.

    **Guarantees.** With probability >= `level` no limit exceeds the true score of its candidate, and no
    value exceeds it by more than `tolerance`, for candidates chosen adaptively from the answers; the limit
    depends on the answers, never on the exact mean; questions without one score per example raise before
    the state changes, and no other question raises because of its values; the refutations left fall by
    one with each overfit answer and never otherwise; no answer depends on the holdout once they are used
    up, or if another gate was asked about the same rows; the price is paid once.
    *Proof.* Answers are known from the statuses and the k of overfit ones. So the i-th candidate is one of
    those that belong to a set of j < B overfit places among the first i - 1 and to their k: C(i - 1, j)
    sets, and over i <= N these add up to C(N, j + 1). Give each of these candidates the share of
    1 - level that is left by (j + 1) (j + 2), C(N, j + 1), and k (k + 1) for each overfit answer; the
    shares add up to less than 1 - level. For one of them with true score p, and any tilt t > 0, P(E_h +
    gamma + eta >= c) <= exp(-t c) (1 + p (e^(t / n) - 1))^n G(t), where G is the noise's moment generating
    function: a score in [0, 1] has a smaller one than a coin of its mean. This is at most its share
    for all p <= L = (exp((t c + ln share - ln G(t)) / n) - 1) / (e^(t / n) - 1), and L falls with c.
    A union over all of them completes the proof: it needs the noise's law alone, and nothing of the analyst.
    **Privacy.** Unit: the query's, which must be one example. In steps of 1 / (STEPS n), E_h rounded down
    is a whole number, and so is all noise. A replaced example moves E_h by at most STEPS steps. gamma is
    drawn once. Take the gamma that is larger by STEPS, and for each overfit answer the eta that keeps E_h +
    gamma + eta as it was, which is moved by at most 2 STEPS: every answer stays. So all answers cost
    (1/n) / b_gamma + 2 B (1/n) / b_eta, pure, for what the machine computes; k comes with the overfit answer
    at no price [2]_. Of all scales with this price, b_eta = (2 B)^(1/3) b_gamma have the least variance.

    References
    ----------
    .. [1] Dwork, Feldman, Hardt, Pitassi, Reingold, Roth, "Generalization in adaptive data analysis
       and holdout reuse", NIPS (2015), section 3, description length.
    .. [2] Ding, Wang, Zhang, Kifer, "Free gap information from the differentially private sparse
       vector and noisy max mechanisms", PVLDB 13 (2019).

    Examples
    --------
    >>> from privacy.query import Unit
    >>> gate = CandidateGate(n_candidates=1000, refutations=10, epsilon=4.0)
    >>> holdout = Query(
    ...     dataset="toy", name="holdout", value=np.zeros(9000), unit=Unit.ROW, n=9000, l1=math.inf
    ... )
    >>> float(gate.event(holdout).cost().epsilon)
    4.0
    """

    n_candidates: int
    refutations: int
    epsilon: float
    level: float = 0.95
    tolerance: float = 0.01
    deviations: float = 3.0
    holdout: tuple[str, ...] = ()
    arithmetic: ClassVar[Arithmetic] = "exact"

    def __post_init__(self) -> None:
        keep_declared(self)
        _check_counts(self.n_candidates, self.refutations)
        if not 0 < self.epsilon < math.inf:
            raise ValueError(f"epsilon must be > 0 and finite, got epsilon={self.epsilon}")
        check_level(self.level)
        if not 0 <= self.tolerance < 1:
            raise ValueError(f"tolerance must be in [0, 1), got tolerance={self.tolerance}")
        if not 0 < self.deviations <= 100:
            raise ValueError(f"deviations must be in (0, 100], got deviations={self.deviations}")

    def event(self, query: Query) -> PureEvent:
        """Describe the whole interaction; raise where its noise cannot be drawn."""
        offset, each = self.scales
        if not each < MAX_SCALE:
            raise ValueError(f"epsilon is too small for exact noise, got epsilon={self.epsilon}")
        parameters: dict[str, Any] = {
            "n_candidates": self.n_candidates,
            "refutations": self.refutations,
            "level": self.level,
            "tolerance": self.tolerance,
            "deviations": self.deviations,
            "holdout": list(self.holdout),
            "n": query.n,
            "scale_once": offset,
            "scale_each": each,
        }
        price = str(exact(self.epsilon))
        return PureEvent("candidate gate", price, parameters, arithmetic=self.arithmetic)

    @property
    def scales(self) -> tuple[float, float]:
        """Scales of gamma and eta in steps; their price is at most epsilon, in exact arithmetic."""
        ratio = (2 * self.refutations) ** (1 / 3)
        once = STEPS * (1 + ratio**2) / self.epsilon * (1 + 1e-12)
        return once, once * ratio

    def check(self, query: Query, question: Question) -> None:
        """Raise ValueError unless the question has development score and size, and a score an example."""
        check_question(question, query.n, "holdout")
        _train_size(question)

    def start(self, query: Query, noise: Noise) -> Json:
        """Draw the first secret state; only the ledger calls this."""
        offset = noise.discrete_laplace(self.scales[0], 1)[0]
        return {"n": query.n, "offset": offset, "answered": 0, "grades": []}

    def answer(
        self, state: Json, question: Question, noise: Noise, history: History
    ) -> tuple[Json, Json]:
        """Return the next state and the public answer; only the ledger calls this."""
        n, grades = state["n"], state["grades"]
        train = check_question(question, n, "holdout")
        claim, step = self.first_claim(train, n_train=_train_size(question), n=n)
        used_up = state["answered"] >= self.n_candidates or len(grades) >= self.refutations
        if used_up or history.others:
            return state, self._public(state, "exhausted", None, 0.0, history)
        noisy = _steps_down(question.value["holdout"]) + state["offset"]
        noisy += noise.discrete_laplace(self.scales[1], 1)[0]
        grade = min(_steps_between(noisy, claim, step), _steps_between(0, claim, step))
        score = max(0, claim - grade * step) / (STEPS * n)
        limit = self.limit(score, log_share=self.log_share(grades), n=n)
        following = {
            **state,
            "answered": state["answered"] + 1,
            "grades": grades + [grade] * (grade > 0),
        }
        status = "overfit" if grade else "agrees"
        value = min(score, limit + self.tolerance)
        return following, self._public(following, status, value, limit, history)

    def first_claim(self, train: float, *, n_train: int, n: int) -> tuple[int, int]:
        """Return c_0, the score that a candidate claims, and T, in steps of 1 / (STEPS n).

        Examples
        --------
        >>> gate = CandidateGate(n_candidates=1000, refutations=10, epsilon=4.0)
        >>> claim, allowance = gate.first_claim(0.8, n_train=10_000, n=10_000)
        >>> round(claim / 4096e4, 3), round(allowance / 4096e4, 3)
        (0.783, 0.017)
        """
        grid = STEPS * n
        once, each = self.scales
        shrunk = (train * n_train + 1) / (n_train + 2)
        variance = shrunk * (1 - shrunk) * (1 / n + 1 / n_train)
        variance += 2 * (once**2 + each**2) / grid**2
        allowance = math.ceil(self.deviations * math.sqrt(variance) * grid)
        return math.floor(Fraction(train) * grid) - allowance, allowance

    def log_share(self, grades: list[int]) -> float:
        """Return the log of a candidate's share of 1 - level, after overfit answers of these k.

        Examples
        --------
        >>> gate = CandidateGate(n_candidates=1000, refutations=10, epsilon=4.0)
        >>> round(math.exp(-gate.log_share([]))), round(math.exp(-gate.log_share([1])))
        (40000, 119880000)
        """
        j = len(grades)
        ways = math.comb(self.n_candidates, j + 1) * (j + 1) * (j + 2)
        return math.log(1 - self.level) - math.log(ways * math.prod(k * (k + 1) for k in grades))

    def limit(self, claim: float, *, log_share: float, n: int) -> float:
        """Return L, a true score whose E_h + gamma + eta reaches a claim with at most this probability.

        Any tilt gives a valid limit; the best one is searched for.
        """
        grid = STEPS * n
        from scipy.optimize import minimize_scalar  # heavy, and few runs ask this gate

        most = min(0.999 * grid / self.scales[1], MAX_TILT * n)

        def at(log_tilt: float) -> float:
            tilt = math.exp(log_tilt)
            log_noise = sum(_log_moment(tilt / grid, scale) for scale in self.scales)
            exponent = (tilt * claim + log_share - log_noise) / n
            return math.expm1(exponent) / math.expm1(tilt / n)

        found = minimize_scalar(
            lambda x: -at(x), bounds=(math.log(min(most, math.sqrt(n)) / 100), math.log(most)),
            method="bounded", options={"xatol": 1e-3},
        )  # fmt: skip
        return min(1.0, max(0.0, -float(found.fun) - ROUNDED))

    def _public(
        self, state: Json, status: str, value: float | None, limit: float, history: History
    ) -> Json:
        """Return the public part of the state: all but the secret offset."""
        refuted = len(state["grades"])
        return {
            "status": status,
            "value": value,
            "bound": limit,
            "refuted": refuted,
            "refutations_left": self.refutations - refuted,
            "candidates_left": self.n_candidates - state["answered"],
            "calls": history.asked,
        }


def candidate_price(n: int, *, n_candidates: int, refutations: int, level: float) -> float:
    """Return an epsilon whose noise hardly widens a gate's limits, two digits, from public numbers.

    Parameters
    ----------
    n
        Examples of the holdout, >= 1.
    n_candidates, refutations, level
        As for `CandidateGate`.

    Returns
    -------
    float
        The price at which the noise of one answer has the scale 1 / (2 t), for the tilt t = sqrt(8 n
        ln(n_candidates / (1 - level))) of the limit of a score of 1/2.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> candidate_price(10_000, n_candidates=1000, refutations=10, level=0.95)
    4.0
    """
    _check_counts(n_candidates, refutations)
    check_level(level)
    if not n >= 1:
        raise ValueError(f"n must be >= 1, got n={n}")
    tilt = math.sqrt(8 * n * math.log(n_candidates / (1 - level)))
    ratio = (2 * refutations) ** (1 / 3)
    price = ratio * (1 + ratio**2) * tilt / (TILTED * n)
    return float(f"{price:.2g}")


def _check_counts(n_candidates: int, refutations: int) -> None:
    if not (is_whole(n_candidates) and n_candidates >= 1):
        raise ValueError(f"n_candidates must be a whole number >= 1, got {n_candidates}")
    if not (is_whole(refutations) and 1 <= refutations <= 10_000):
        raise ValueError(f"refutations must be a whole number in 1 .. 10,000, got {refutations}")


def _train_size(question: Question) -> int:
    """Return the number of development examples, which is public."""
    size = question.value.get("n_train", 0)
    if not (np.ndim(size) == 0 and 1 <= size < math.inf and size == int(size)):
        raise ValueError("n_train must be one whole number >= 1")
    return int(size)


def _steps_between(low: int, high: int, step: int) -> int:
    """Return how many steps down from `high` reach `low`; 0 where it is no lower."""
    return max(0, -((low - high) // step))


def _steps_down(value: np.ndarray) -> int:
    """Return the sum of values in whole steps, each rounded down, so that none counts for more than it is."""
    return int(np.add.reduce(np.floor(clamped(value) * STEPS)))


def _log_moment(tilt: float, scale: float) -> float:
    """Return ln E exp(tilt z) of a discrete Laplace variable, tilt < 1 / scale."""
    rate = 1 / scale
    return 2 * math.log(-math.expm1(-rate)) - sum(
        math.log(-math.expm1(sign * tilt - rate)) for sign in (1, -1)
    )
