"""A private training that also releases how well its model does on the rows it was trained on.

The reusable holdout compares a model's training score with its holdout score. A training score taken in
the clear would leak the training rows, so it is released with noise, as part of the training's own price.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from learners.private import LinearModel, training_rows
from learners.selection.stability import StabilityValidation
from privacy.mechanism import Json, Noise
from privacy.mechanisms import PureEvent, covering_scale, exact
from privacy.query import Query

__all__ = ["ScoredTraining"]


@dataclass(frozen=True, slots=True)
class ScoredTraining:
    """Train, then release the share of training rows that the released model gets right.

    Parameters
    ----------
    training
        The mechanism that trains and selects the model.
    epsilon_score
        What the score may cost, > 0.

    Notes
    -----
    A release is the training's, with `score` beside it.

    **Guarantees.** The price is the training's and epsilon_score; the score is in [0, 1].
    **Privacy.** Unit: the query's, one row at most. Given the model, the number of training rows it
    gets right moves by at most 1 when one row is replaced (how many there are is public), so discrete
    Laplace noise of scale 1 / epsilon_score costs epsilon_score; the two compose adaptively, and
    clamping to [0, 1] is post-processing.

    Examples
    --------
    >>> from learners import StabilityValidation
    >>> training = StabilityValidation(
    ...     candidates=(0.01, 0.1), epsilon_train=1.0, epsilon_select=0.5, norm_bound=4.0, n_classes=3
    ... )
    >>> ScoredTraining(training, epsilon_score=0.1).epsilon
    1.6
    """

    training: StabilityValidation
    epsilon_score: float

    def __post_init__(self) -> None:
        if not 0 < self.epsilon_score < math.inf:
            raise ValueError(f"epsilon_score must be > 0 and finite, got {self.epsilon_score}")

    @property
    def epsilon(self) -> float:
        """What the model and its score cost together."""
        prices = (self.training.epsilon_train, self.training.epsilon_select, self.epsilon_score)
        return float(sum(exact(price) for price in prices))

    def event(self, query: Query) -> PureEvent:
        """Describe the release; refuses a query that the training refuses."""
        inner = self.training.event(query)
        parameters = {**inner.parameters, "epsilon_score": self.epsilon_score}
        return PureEvent("training with score", self.epsilon, parameters)

    def draw(self, query: Query, noise: Noise) -> Json:
        """Train, then score the released model; only the ledger calls this."""
        model = self.training.draw(query, noise)
        rows = training_rows(query, self.training.n_classes)
        trained_on = ~rows["validation"]
        linear = LinearModel(np.array(model["coef"]), self.training.norm_bound)
        right = int((linear.predict(rows["x"][trained_on]) == rows["y"][trained_on]).sum())
        noisy = right + noise.discrete_laplace(covering_scale(1, self.epsilon_score), 1)[0]
        return model | {"score": min(1.0, max(0.0, noisy / int(trained_on.sum())))}
