"""The reusable holdout for the area under a ROC curve, which is not a mean over records.

>>> metric = Auc(least_positive=2, least_negative=2)
>>> metric.value(np.array([0.9, 0.4, 0.6, 0.1]), np.array([True, True, False, False]))
0.75
"""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from jaxtyping import Bool, Float

from learners.holdout.thresholdout import Thresholdout, check_kind, check_question
from privacy.mechanism import History, Json, Noise, Question
from privacy.mechanisms import PureEvent, exact
from privacy.query import Query, is_whole

__all__ = ["Auc", "MetricGate"]

# steps of a metric: rounding raises the price by less than one in a million, as a rule
GRID = 2**30


@dataclass(frozen=True, slots=True)
class Auc:
    """Share of pairs of a positive and a negative record that scores put in order; ties count half.

    With U pairs in order, p positive and q negative records: U / (max(p, a) max(q, b)), where a and b
    are the declared least numbers. The value is the area itself if the declaration holds, and below it
    otherwise: the sensitivity holds even if the declaration does not. NaN is the lowest score.

    Parameters
    ----------
    least_positive, least_negative
        a and b, **public**, >= 1: never taken from the data.

    Raises
    ------
    ValueError
        If one of them is not a whole number >= 1.

    Notes
    -----
    **Guarantees.** In [0, 1]; replacing one record, its class with it, moves the value by at most
    `sensitivity` = 1 / a + 1 / b, for any records; 0 without records of one class.
    *Proof.* For a fixed class, U is a sum over its records of terms of at most the other class's number:
    a replaced positive record moves the value by at most q / (max(p, a) max(q, b)) <= 1 / a. A positive
    record that leaves: if p <= a the denominator stays, and the value falls by at most 1 / a; if p > a the
    value is a mean of p numbers in [0, 1], and leaving one out moves it by at most 1 / p < 1 / a. One that
    joins undoes a departure. A class that changes is one departure and one arrival of the other class.

    Examples
    --------
    >>> Auc(least_positive=2, least_negative=2).sensitivity
    1.0
    """

    least_positive: int
    least_negative: int

    def __post_init__(self) -> None:
        for name, least in (
            ("least_positive", self.least_positive), ("least_negative", self.least_negative)
        ):  # fmt: skip
            if not (is_whole(least) and least >= 1):
                raise ValueError(f"{name} must be a whole number >= 1, got {name}={least}")
            object.__setattr__(self, name, int(least))  # NumPy's, for JSON

    @property
    def sensitivity(self) -> float:
        """Most that one replaced record can move the value."""
        return float(self.exact_sensitivity)

    @property
    def exact_sensitivity(self) -> Fraction:
        """The `sensitivity` as a fraction."""
        return Fraction(1, self.least_positive) + Fraction(1, self.least_negative)

    def value(
        self, score: Float[np.ndarray, " records"], positive: Bool[np.ndarray, " records"]
    ) -> float:
        """Return the value, **private**.

        Raises
        ------
        ValueError, TypeError
            Unless there are arrays of one score and one boolean per record.
        """
        return float(self.exact_value(score, positive))

    def exact_value(
        self, score: Float[np.ndarray, " records"], positive: Bool[np.ndarray, " records"]
    ) -> Fraction:
        """Return the `value` as a fraction."""
        for what, given in (("score", score), ("positive", positive)):
            check_kind(what, given)
        if not (score.ndim == 1 and score.shape == positive.shape and positive.dtype == np.bool_):
            raise ValueError("score and positive must be one number and one boolean per record")
        p = int(positive.sum())
        whole = score.dtype.kind in "biu"  # as doubles, large ones would be equal
        ordered = score if whole else np.where(np.isnan(score), -np.inf, score)
        _, place, count = np.unique(ordered, return_inverse=True, return_counts=True)
        twice_rank = 2 * np.cumsum(count) - count + 1  # equal scores share the middle rank
        in_order = int(twice_rank[place[positive]].sum()) - p * (p + 1)
        pairs = max(p, self.least_positive) * max(len(score) - p, self.least_negative)
        return Fraction(in_order, 2 * pairs)


@dataclass(frozen=True, slots=True)
class MetricGate:
    """Answer adaptively chosen questions about a metric of the holdout, as `Thresholdout` does about a mean.

    The metric is rounded down to a multiple of 2^-30, and all noise is a multiple of it.

    Parameters
    ----------
    gate
        Threshold, sigma in the units of the metric, and budget.
    metric
        The metric, of declared sensitivity s.

    Notes
    -----
    A question's value is `{"train": metric on training rows, "score": one number per holdout record,
    "positive": one boolean per holdout record}`; the training metric must itself be releasable.

    **Guarantees.** Questions of other shapes and types raise before the state changes, and no question
    raises because of its values; the others are those of `Thresholdout`.
    **Privacy.** Unit: the query's, which must be one record. The metric is computed as a fraction, exactly:
    a replaced record moves it by at most s, and the rounded one by at most t = s rounded up to a multiple
    of 2^-30. The proof is that of `Thresholdout` with t in place of 1 / n: epsilon = 2 budget t / sigma,
    pure, for what the machine computes.

    References
    ----------
    .. [1] Dwork, Feldman, Hardt, Pitassi, Reingold, Roth, "Generalization in adaptive data analysis
       and holdout reuse", NIPS (2015), Figure 1.

    Examples
    --------
    >>> import math
    >>> from privacy.query import Unit
    >>> gate = Thresholdout(threshold=0.04, sigma=0.01, budget=10)
    >>> holdout = Query(
    ...     dataset="toy", name="holdout", value=np.zeros(9000), unit=Unit.ROW, n=9000, l1=math.inf
    ... )
    >>> event = MetricGate(gate, Auc(least_positive=4000, least_negative=4000)).event(holdout)
    >>> round(float(event.cost().epsilon), 6)
    1.0
    """

    gate: Thresholdout
    metric: Auc

    def event(self, query: Query) -> PureEvent:
        """Describe the whole interaction; raise for fewer records than the metric declares."""
        declared = self.metric.least_positive + self.metric.least_negative
        if not declared <= query.n:
            raise ValueError(f"n must be >= {declared}, the declared records, got n={query.n}")
        gate = self.gate
        moved = math.ceil(self.metric.exact_sensitivity * GRID)
        parameters = {
            "threshold": gate.threshold,
            "sigma": gate.sigma,
            "budget": gate.budget,
            "metric": "area under the ROC curve",
            "least_positive": self.metric.least_positive,
            "least_negative": self.metric.least_negative,
            "n": query.n,
            "scale": gate.scale(GRID),
        }
        epsilon = 2 * gate.budget * moved / (exact(gate.sigma) * GRID)
        return PureEvent("thresholdout of a metric", str(epsilon), parameters, gate.arithmetic)

    def check(self, query: Query, question: Question) -> None:
        """Raise ValueError unless the question has a training metric, and score and truth of each record."""
        check_question(question, query.n, "score", "positive")
        if question.value["positive"].dtype != np.bool_:
            raise ValueError("positive must be an array of truth values")

    def start(self, query: Query, noise: Noise) -> Json:
        """Draw the first secret state; only the ledger calls this."""
        return self.gate.opened(GRID, noise) | {"n": query.n}

    def answer(
        self, state: Json, question: Question, noise: Noise, history: History
    ) -> tuple[Json, Json]:
        """Return the next state and the public answer; only the ledger calls this."""
        train = check_question(question, state["n"], "score", "positive")
        value = self.metric.exact_value(question.value["score"], question.value["positive"])
        return self.gate.compare(state, train, math.floor(value * GRID), noise, history)
