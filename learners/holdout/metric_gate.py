"""The reusable holdout for a metric that is no mean over records, such as the area under a ROC curve."""

from dataclasses import dataclass

import numpy as np

from learners.holdout.auc import Auc
from learners.holdout.thresholdout import Thresholdout
from privacy.mechanism import Json, Noise, Question
from privacy.mechanisms.kinds import PureEvent, exact
from privacy.query import Query

__all__ = ["MetricGate"]


@dataclass(frozen=True, slots=True)
class MetricGate:
    """Answer adaptively chosen questions about a metric of the holdout, as `Thresholdout` does of a mean.

    Parameters
    ----------
    gate
        Threshold, sigma in the units of the metric, and budget.
    metric
        With its declared sensitivity s.

    Notes
    -----
    A question's value is `{"train": metric on training rows, "score": one number per holdout record,
    "positive": one boolean per holdout record}`; the training metric must itself be releasable.

    **Guarantees.** Questions that do not fit are refused before the state changes; for the rest those of
    `Thresholdout`.
    **Privacy.** Unit: the query's, which must be one record. The proof is that of `Thresholdout` with s
    in the place of 1 / n: epsilon = 2 budget s / sigma, pure.

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
    >>> float(event.cost().epsilon)
    1.0
    """

    gate: Thresholdout
    metric: Auc

    def event(self, query: Query) -> PureEvent:
        """Describe the whole interaction; refuses fewer records than the metric declares."""
        declared = self.metric.least_positive + self.metric.least_negative
        if not declared <= query.n:
            raise ValueError(f"n must be >= {declared}, the declared records, got n={query.n}")
        return PureEvent(
            name="thresholdout of a metric",
            epsilon=str(
                2 * self.gate.budget * exact(self.metric.sensitivity) / exact(self.gate.sigma)
            ),
            parameters={
                "threshold": self.gate.threshold,
                "sigma": self.gate.sigma,
                "budget": self.gate.budget,
                "metric": "area under the ROC curve",
                "least_positive": self.metric.least_positive,
                "least_negative": self.metric.least_negative,
                "n": query.n,
            },
        )

    def start(self, query: Query, noise: Noise) -> Json:
        """Draw the first secret state; only the ledger calls this."""
        return self.gate.start(query, noise)

    def answer(self, state: Json, question: Question, noise: Noise) -> tuple[Json, Json]:
        """Next state and public answer; only the ledger calls this."""
        if not {"train", "score", "positive"} <= question.value.keys():
            raise ValueError("question must hold train, score and positive")
        train, score = question.value["train"], question.value["score"]
        if not (np.ndim(train) == 0 and 0 <= train <= 1):
            raise ValueError("train must be one metric in [0, 1]")
        if not (isinstance(score, np.ndarray) and score.shape == (state["n"],)):
            raise ValueError(f"score must be one number for each of the {state['n']} records")
        holdout = self.metric.value(score, question.value["positive"])
        return self.gate.compare(state, float(train), holdout, noise)
