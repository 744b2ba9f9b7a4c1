"""Thresholdout: a differentially private holdout that can be asked many times and is paid for once.

This is the published algorithm: Laplace noise, a budget, and a threshold that is drawn anew after each
overfit answer. The experiment published beside it runs another procedure, which is not private. Means
and noise are whole numbers here, of steps of a public grid, so that the proof covers what is computed.

>>> Thresholdout(threshold=0.04, sigma=0.01, budget=10).budget
10
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from privacy.accounting import MAX_SCALE, Arithmetic, keep_declared
from privacy.mechanism import History, Json, Noise, Question
from privacy.mechanisms import PureEvent, exact
from privacy.query import Query, check_array, is_whole

__all__ = ["STEPS", "GateAnswer", "Thresholdout", "check_kind", "check_question", "clamped"]

STATUSES = ("agrees", "overfit", "exhausted")
STEPS = 2**12
"""Steps of the grid that each record's value is rounded to."""


@dataclass(frozen=True, slots=True)
class GateAnswer:
    """The released answer to one question.

    Parameters
    ----------
    value
        The training mean if it agrees, else the noisy holdout mean; in [0, 1]. None once the budget is
        used up.
    status
        "agrees", "overfit" or "exhausted".
    budget_left
        Overfit answers that remain to this gate.
    asked
        Calls so far to all gates with the same rows, repeated ones and this one included.
    refuted
        Overfit answers so far of all of them.
    number
        Place of this gate among them, from 1.
    epsilon
        Price of all of them together; None if one of them costs a delta as well.

    Raises
    ------
    ValueError
        If the fields contradict each other.

    Notes
    -----
    The ledger's `History` determines which gates have the same rows: a gate with other knobs, or with a
    holdout that has grown, is one more of them.

    Examples
    --------
    >>> released = {"value": 0.75, "status": "agrees", "budget_left": 3, "asked": 1, "refuted": 0}
    >>> GateAnswer.from_json({**released, "number": 1, "epsilon": "3/4"}).epsilon
    Fraction(3, 4)
    """

    value: float | None
    status: str
    budget_left: int
    asked: int
    refuted: int
    number: int
    epsilon: Fraction | None

    def __post_init__(self) -> None:
        if self.status not in STATUSES:
            raise ValueError(f"status must be one of {STATUSES}, got status={self.status!r}")
        if not (self.value is None) == (self.status == "exhausted"):
            raise ValueError("value must be None when the budget is exhausted, and only then")
        if not self.budget_left >= 0:
            raise ValueError(f"budget_left must be >= 0, got budget_left={self.budget_left}")
        if not 1 <= self.number <= self.asked:
            raise ValueError(f"number must be in 1 .. asked={self.asked}, got number={self.number}")
        if not int(self.status == "overfit") <= self.refuted <= self.asked:
            raise ValueError(f"refuted must fit status and asked, got refuted={self.refuted}")
        if not (self.epsilon is None or self.epsilon > 0):
            raise ValueError(f"epsilon must be > 0 or None, got epsilon={self.epsilon}")

    @classmethod
    def from_json(cls, released: Mapping[str, Json]) -> "GateAnswer":
        """Read the value of a release."""
        epsilon = released["epsilon"]
        return cls(**{**released, "epsilon": None if epsilon is None else Fraction(epsilon)})


@dataclass(frozen=True, slots=True)
class Thresholdout:
    """Answer adaptively chosen questions about a holdout, and detect where training overfits.

    For a question with training mean E_t and holdout mean E_h of values in [0, 1]:

        eta ~ Lap(4 sigma); if |E_h - E_t| > threshold + gamma + eta: spend one of the budget, draw
        gamma ~ Lap(2 sigma) anew and answer E_h + Lap(sigma), "overfit"; otherwise answer E_t,
        "agrees". With no budget left, answer nothing, "exhausted".

    Lap(b) is discrete Laplace noise on the multiples of 1 / (STEPS n), of scale b rounded up; E_h is the
    mean of the values rounded to multiples of 1 / STEPS, which leaves true and false as they are. Answers
    are clamped to [0, 1], which is post-processing.

    Parameters
    ----------
    threshold
        Tolerated difference, in (0, 1).
    sigma
        Noise scale in the units of the mean, > 0. Choose it first: it must be well below the
        threshold, or noise alone uses up the budget.
    budget
        Overfit answers before the gate shuts, >= 1.

    Raises
    ------
    ValueError
        If a knob breaks the conditions above.

    Notes
    -----
    The query names the holdout: the ledger recognises it by its public fields. A question's value is
    `{"train": mean, "holdout": one value per record}`, every value a function of that record and of
    what is public (earlier answers are). Values outside [0, 1] are clamped, and NaN counts as 0: a
    refusal would reveal a record. The training mean is returned unchanged: it must itself be
    releasable, such as the score of a released model on released data. A question's name is its
    identity: asked again, it has its stored answer, whatever the values are.

    **Guarantees.** Questions without one number per record raise before the state changes, and no
    other question raises because of its values; the budget falls by one with each overfit answer and
    never otherwise; after it is used up no answer depends on the holdout; the cost is paid once, for
    any number of questions; `asked` counts every call, and `refuted` and `epsilon` are those of all
    gates with these rows.
    **Privacy.** Unit: the query's, which must be one record. In steps of 1 / (STEPS n), E_h is a whole
    number, and so is all noise; threshold and E_t are rational and compared exactly. A replaced
    record moves E_h, and |E_h - E_t|, by at most STEPS steps. Between two draws of gamma the gate is one
    run of the sparse vector technique [2]_: where gamma is larger by STEPS, every comparison that agreed
    agrees still, and the one that refuted still does where its eta is smaller by 2 STEPS. Noise of scale
    b changes its probability by at most exp(k / b) for a shift of k steps. So the answers up to and with
    the single overfit one cost (1/n) / (2 sigma) for gamma, 2 (1/n) / (4 sigma) for eta, and the value,
    with noise of its own, (1/n) / sigma: together 2 / (sigma n). There are at most `budget` runs:
    epsilon = 2 budget / (sigma n), pure, for what the machine computes. Labels may change between questions:
    a record is then all its versions together. Which questions were asked
    before is known from their names, and `asked` counts calls: neither reads a record. `refuted` and
    `epsilon` add up what was released.

    References
    ----------
    .. [1] Dwork, Feldman, Hardt, Pitassi, Reingold, Roth, "Generalization in adaptive data analysis
       and holdout reuse", NIPS (2015), Figure 1.
    .. [2] Lyu, Su, Li, "Understanding the sparse vector technique for differential privacy",
       PVLDB 10 (2017).

    Examples
    --------
    >>> from privacy.query import Unit
    >>> gate = Thresholdout(threshold=0.04, sigma=0.01, budget=10)
    >>> holdout = Query(
    ...     dataset="toy", name="holdout", value=np.zeros(2000), unit=Unit.ROW, n=2000, l1=math.inf
    ... )
    >>> gate.event(holdout).cost().epsilon
    Fraction(1, 1)
    """

    threshold: float
    sigma: float
    budget: int
    arithmetic: ClassVar[Arithmetic] = "exact"

    def __post_init__(self) -> None:
        keep_declared(self)
        if not 0 < self.threshold < 1:
            raise ValueError(f"threshold must be in (0, 1), got threshold={self.threshold}")
        if not 0 < self.sigma < math.inf:
            raise ValueError(f"sigma must be > 0 and finite, got sigma={self.sigma}")
        if not (is_whole(self.budget) and self.budget >= 1):
            raise ValueError(f"budget must be a whole number >= 1, got budget={self.budget}")

    def event(self, query: Query) -> PureEvent:
        """Describe the whole interaction; raise for more records than the noise can be drawn for."""
        parameters = {
            "threshold": self.threshold,
            "sigma": self.sigma,
            "budget": self.budget,
            "n": query.n,
            "scale": self.scale(STEPS * query.n),
        }
        epsilon = 2 * self.budget / (exact(self.sigma) * query.n)
        return PureEvent("thresholdout", str(epsilon), parameters, arithmetic=self.arithmetic)

    def check(self, query: Query, question: Question) -> None:
        """Raise ValueError unless the question holds a training mean and a number for each record."""
        check_question(question, query.n, "holdout")

    def start(self, query: Query, noise: Noise) -> Json:
        """Draw the first secret state; only the ledger calls this."""
        return self.opened(STEPS * query.n, noise) | {"n": query.n}

    def answer(
        self, state: Json, question: Question, noise: Noise, history: History
    ) -> tuple[Json, Json]:
        """Return the next state and the public answer; only the ledger calls this."""
        train = check_question(question, state["n"], "holdout")
        holdout = _steps(question.value["holdout"])
        return self.compare(state, train, holdout, noise, history)

    def scale(self, grid: int) -> float:
        """Return sigma in steps of 1 / grid, rounded up; raise ValueError if it is too large to draw."""
        wanted = exact(self.sigma) * grid
        if not 4 * wanted < MAX_SCALE:
            raise ValueError(
                f"sigma must be below {MAX_SCALE / 4 / grid:g} for this holdout, got sigma={self.sigma}"
            )
        return math.nextafter(float(wanted), math.inf)

    def opened(self, grid: int, noise: Noise) -> dict[str, Json]:
        """Return the state before the first question, for means in steps of 1 / grid."""
        return {
            "grid": grid,
            "offset": _laplace(noise, 2 * self.scale(grid)),
            "budget_left": self.budget,
            "refuted": 0,
        }

    def compare(
        self, state: Json, train: float, holdout: int, noise: Noise, history: History
    ) -> tuple[Json, Json]:
        """Return `answer` for the training mean, and the holdout mean in steps of the state's grid."""
        if state["budget_left"] < 1:
            return state, _public(state, "exhausted", None, history)
        grid, scale = state["grid"], self.scale(state["grid"])
        limit = exact(self.threshold) * grid + state["offset"]
        if not abs(holdout - Fraction(train) * grid) > limit + _laplace(noise, 4 * scale):
            return state, _public(state, "agrees", train, history)
        value = holdout + _laplace(noise, scale)
        spent = {
            **state,
            "offset": _laplace(noise, 2 * scale),
            "budget_left": state["budget_left"] - 1,
            "refuted": state["refuted"] + 1,
        }
        return spent, _public(spent, "overfit", min(grid, max(0, value)) / grid, history)


def check_question(question: Question, n: int, *names: str) -> float:
    """Return the training mean; raise ValueError unless each name holds numbers, one per record."""
    given = question.value
    if not {"train", *names} <= given.keys():
        raise ValueError(f"question must hold {', '.join(('train', *names))}")
    train = given["train"]
    if not (np.ndim(train) == 0 and 0 <= train <= 1):
        raise ValueError("train must be one number in [0, 1]")
    for name in names:
        if not isinstance(given[name], np.ndarray):
            raise ValueError(f"{name} must be a NumPy array, got {type(given[name]).__name__}")
        if not (given[name].shape == (n,)):
            raise ValueError(f"{name} must be one value for each of the {n} records")
        check_kind(name, given[name])
    return float(train)


def check_kind(name: str, value: np.ndarray) -> None:
    """Raise unless a value is an array of numbers: NumPy's own error would print a record's value."""
    check_array(name, value)
    if value.dtype.kind not in "biuf":
        raise ValueError(f"{name} must be an array of numbers or booleans, got dtype={value.dtype}")


def _steps(value: np.ndarray) -> int:
    """Return the sum of values in steps of 1 / STEPS: exact, as whole doubles below 2**53 add up exactly."""
    if value.dtype == np.bool_:
        return STEPS * int(np.count_nonzero(value))
    return int(np.add.reduce(np.rint(clamped(value) * STEPS)))


def clamped(value: np.ndarray) -> np.ndarray:
    """Return values clamped to [0, 1] as doubles, NaN as 0: a refusal would reveal a value."""
    with np.errstate(all="ignore"):
        return np.asarray(np.fmin(np.fmax(value.astype(np.float64), 0.0), 1.0))


def _laplace(noise: Noise, scale: float) -> int:
    return noise.discrete_laplace(scale, 1)[0]


def _public(state: Json, status: str, value: float | None, history: History) -> Json:
    """Return the public part of the state: all but the secret offset, with the counts of other gates."""
    return {
        "value": value,
        "status": status,
        "budget_left": state["budget_left"],
        "asked": history.asked,
        "refuted": state["refuted"] + sum(map(_refuted, history.others)),
        "number": history.number,
        "epsilon": None if history.cost.delta else str(history.cost.epsilon),
    }


def _refuted(other: Json) -> int:
    """Return another interaction's refutations; one that does not count them may have revealed anything."""
    if not isinstance(other, dict):
        return 1
    grades = other.get("grades")  # a `CandidateGate` keeps one for each refutation
    return len(grades) if isinstance(grades, list) else int(other.get("refuted", 1))
