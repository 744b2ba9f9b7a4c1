"""Thresholdout: a differentially private holdout that can be asked many times and is paid for once.

This is the published algorithm: Laplace noise, a budget, and a threshold that is drawn anew after each
overfit answer. The experiment published beside it runs another procedure, which is not private.

>>> Thresholdout(threshold=0.04, sigma=0.01, budget=10).budget
10
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from privacy.accounting import Arithmetic
from privacy.mechanism import Json, Noise, Question
from privacy.mechanisms import PureEvent, exact
from privacy.query import Query

__all__ = ["GateAnswer", "Thresholdout"]

STATUSES = ("agrees", "overfit", "exhausted")
BITS_OF_ONE = np.float64(1).view(np.uint64)


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
        Overfit answers that remain.
    asked
        Number of questions so far, including this one.

    Raises
    ------
    ValueError
        If the fields contradict each other.

    Examples
    --------
    >>> GateAnswer.from_json({"value": 0.75, "status": "agrees", "budget_left": 3, "asked": 1})
    GateAnswer(value=0.75, status='agrees', budget_left=3, asked=1)
    """

    value: float | None
    status: str
    budget_left: int
    asked: int

    def __post_init__(self) -> None:
        if self.status not in STATUSES:
            raise ValueError(f"status must be one of {STATUSES}, got status={self.status!r}")
        if not (self.value is None) == (self.status == "exhausted"):
            raise ValueError("value must be None when the budget is exhausted, and only then")
        if not self.budget_left >= 0:
            raise ValueError(f"budget_left must be >= 0, got budget_left={self.budget_left}")
        if not self.asked >= 1:
            raise ValueError(f"asked must be >= 1, got asked={self.asked}")

    @classmethod
    def from_json(cls, released: Mapping[str, Json]) -> "GateAnswer":
        """Read the value of a release."""
        return cls(
            released["value"], released["status"], released["budget_left"], released["asked"]
        )


@dataclass(frozen=True, slots=True)
class Thresholdout:
    """Answer adaptively chosen questions about a holdout, and detect where training overfits.

    For a question with training mean E_t and holdout mean E_h of values in [0, 1]:

        eta ~ Lap(4 sigma); if |E_h - E_t| > threshold + gamma + eta: spend one of the budget, draw
        gamma ~ Lap(2 sigma) anew and answer E_h + Lap(sigma), "overfit"; otherwise answer E_t,
        "agrees". With no budget left, answer nothing, "exhausted".

    Lap(b) has scale b. Values are clamped to [0, 1], which is post-processing.

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
    The query names the holdout: the ledger recognises it by the query's value, such as the rows.
    A question's value is `{"train": mean, "holdout": one value per record}`, every value a function
    of that record and of what is public (earlier answers are). The training mean is returned
    unchanged: it must itself be releasable, such as the score of a released model on released data.

    **Guarantees.** Questions with values outside [0, 1], or not one per record, raise before the
    state changes; the budget falls by one with each overfit answer and never otherwise; after
    it is used up no answer depends on the holdout; the cost is paid once, for any number of
    questions.
    **Privacy.** Unit: the query's, which must be one record. A replaced record moves every E_h, and
    |E_h - E_t|, by at most 1/n. Between two draws of gamma the gate is one run of the sparse vector
    technique [2]_: the answers up to and with its single overfit one cost (1/n) / (2 sigma) for
    gamma, 2 (1/n) / (4 sigma) for eta, and the value, with noise of its own, (1/n) / sigma:
    together 2 / (sigma n). There are at most `budget` runs: epsilon = 2 budget / (sigma n), pure.
    The proof is of real arithmetic: floating point is not covered.

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
    arithmetic: ClassVar[Arithmetic] = "double"

    def __post_init__(self) -> None:
        if not 0 < self.threshold < 1:
            raise ValueError(f"threshold must be in (0, 1), got threshold={self.threshold}")
        if not 0 < self.sigma < math.inf:
            raise ValueError(f"sigma must be > 0 and finite, got sigma={self.sigma}")
        if not (isinstance(self.budget, int) and self.budget >= 1):
            raise ValueError(f"budget must be a whole number >= 1, got budget={self.budget}")

    def event(self, query: Query) -> PureEvent:
        """Describe the whole interaction with this holdout."""
        return PureEvent(
            name="thresholdout",
            epsilon=str(2 * self.budget / (exact(self.sigma) * query.n)),
            parameters={
                "threshold": self.threshold,
                "sigma": self.sigma,
                "budget": self.budget,
                "n": query.n,
            },
            arithmetic=self.arithmetic,
        )

    def start(self, query: Query, noise: Noise) -> Json:
        """Draw the first secret state; only the ledger calls this."""
        return {
            "offset": noise.laplace(2 * self.sigma),
            "budget_left": self.budget,
            "asked": 0,
            "n": query.n,
        }

    def answer(self, state: Json, question: Question, noise: Noise) -> tuple[Json, Json]:
        """Next state and public answer; only the ledger calls this."""
        train, holdout = _means(question, state["n"])
        return self.compare(state, train, holdout, noise)

    def compare(self, state: Json, train: float, holdout: float, noise: Noise) -> tuple[Json, Json]:
        """`answer` for the two means of the question."""
        asked = {**state, "asked": state["asked"] + 1}
        if state["budget_left"] < 1:
            return asked, _public(asked, "exhausted", None)
        limit = self.threshold + state["offset"] + noise.laplace(4 * self.sigma)
        if not abs(holdout - train) > limit:
            return asked, _public(asked, "agrees", train)
        value = holdout + noise.laplace(self.sigma)
        spent = {
            **asked,
            "offset": noise.laplace(2 * self.sigma),
            "budget_left": state["budget_left"] - 1,
        }
        return spent, _public(spent, "overfit", min(1.0, max(0.0, value)))


def _means(question: Question, n: int) -> tuple[float, float]:
    """Return the training and holdout mean; raise ValueError if a value breaks the sensitivity."""
    if not {"train", "holdout"} <= question.value.keys():
        raise ValueError("question must hold train and holdout")
    train, holdout = question.value["train"], question.value["holdout"]
    if not (np.ndim(train) == 0 and 0 <= train <= 1):
        raise ValueError("train must be one mean in [0, 1]")
    if not (isinstance(holdout, np.ndarray) and holdout.shape == (n,)):
        raise ValueError(f"holdout must be one value for each of the {n} records")
    if holdout.dtype == np.bool_:
        return float(train), np.count_nonzero(holdout) / n
    if not _in_unit_interval(holdout):
        raise ValueError("holdout must lie in [0, 1] for every record")
    return float(train), float(np.add.reduce(holdout, dtype=np.float64)) / n


def _in_unit_interval(value: np.ndarray) -> bool:
    """Whether every value lies in [0, 1]; float64 takes one pass, because its bits are ordered there."""
    if value.dtype == np.float64 and np.maximum.reduce(value.view(np.uint64)) <= BITS_OF_ONE:
        return True  # neither a sign bit, nor above one, nor NaN
    least, greatest = np.minimum.reduce(value), np.maximum.reduce(value)
    return bool(least >= 0 and greatest <= 1)  # NaN is the least and the greatest


def _public(state: Json, status: str, value: float | None) -> Json:
    """Return the public part of the state: all but the secret offset."""
    return {
        "value": value,
        "status": status,
        "budget_left": state["budget_left"],
        "asked": state["asked"],
    }
