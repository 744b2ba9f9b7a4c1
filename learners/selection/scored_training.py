"""A private training that also releases its model's score on the training rows.

The reusable holdout compares a model's training score with its holdout score. A training score without
noise would leak the training rows, so it is released with noise, at a price of its own.

>>> from learners import StabilityValidation
>>> training = StabilityValidation((0.01, 0.1), 1.0, 0.5, norm_bound=4.0, n_classes=3)
>>> ScoredTraining(training, epsilon_score=0.1).epsilon
Fraction(8, 5)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

import numpy as np

from learners.private import LinearModel, NoisyGradientDescent, training_rows
from learners.selection.public_split import check_price, check_split, split_rows
from learners.selection.reduced_training import ReducedTraining
from learners.selection.stability import StabilityValidation
from privacy.accounting import Arithmetic, keep_declared
from privacy.mechanism import Json, Noise
from privacy.mechanisms import ApproximateEvent, PureEvent, covering_scale, exact
from privacy.query import Query

__all__ = ["ScoredTraining"]


@dataclass(frozen=True, slots=True)
class ScoredTraining:
    """Train, then release the model with the noisy share of training rows that it classifies right.

    Parameters
    ----------
    training
        The mechanism that trains the model; one that selects nothing trains on the rows of the split that
        are not for validation.
    epsilon_score
        Price of the score, > 0.

    Notes
    -----
    The query is that of `StabilityValidation`; a release is the training's, with `score` beside it.

    **Guarantees.** The price is the training's plus epsilon_score, with the training's delta; the score is
    in [0, 1]; noisy descent sees no validation row.
    **Privacy.** Unit: the query's, one row at most. Given the model, the number of training rows it
    gets right moves by at most 1 when one row is replaced (how many there are is public), so discrete
    Laplace noise of scale 1 / epsilon_score costs epsilon_score; the two compose adaptively, and
    clamping to [0, 1] is post-processing.

    Examples
    --------
    >>> training = StabilityValidation((0.01, 0.1), 1.0, 0.5, norm_bound=4.0, n_classes=3)
    >>> ScoredTraining(training, epsilon_score=0.25).epsilon
    Fraction(7, 4)
    """

    training: StabilityValidation | NoisyGradientDescent | ReducedTraining
    epsilon_score: float
    arithmetic: ClassVar[Arithmetic] = "double"

    def __post_init__(self) -> None:
        keep_declared(self)
        check_price(epsilon_score=self.epsilon_score)
        covering_scale(1, self.epsilon_score)

    @property
    def epsilon(self) -> Fraction:
        """Price of the model and its score together, as the ledger books it."""
        return exact(str(self.training.epsilon)) + exact(self.epsilon_score)

    def event(self, query: Query) -> PureEvent | ApproximateEvent:
        """Describe the release; raise for a query that the training refuses."""
        inner = self.training.event(self._as_many(query))
        what, price = "training with score", str(self.epsilon)
        parameters = {**inner.parameters, "epsilon_score": self.epsilon_score}
        if isinstance(inner, PureEvent):
            return PureEvent(what, price, parameters, self.arithmetic)
        parameters["training"] = inner.name
        return ApproximateEvent(what, price, inner.delta, parameters, self.arithmetic)

    def draw(self, query: Query, noise: Noise) -> Json:
        """Train, then score the released model; only the ledger calls this."""
        model = self._train(query, noise)
        rows = training_rows(query, self.training.n_classes)
        trained_on = ~rows["validation"]
        linear = LinearModel(np.array(model["coef"]), self.training.norm_bound)
        right = int((linear.predict(rows["x"]) == rows["y"])[trained_on].sum())
        noisy = right + noise.discrete_laplace(covering_scale(1, self.epsilon_score), 1)[0]
        return model | {"score": min(1.0, max(0.0, noisy / int(trained_on.sum())))}

    def _train(self, query: Query, noise: Noise) -> Json:
        """Draw from the training: one that selects nothing takes the rows that are not for validation."""
        training = self.training
        if isinstance(training, NoisyGradientDescent):
            split = split_rows(query, training.norm_bound, training.n_classes)
            return training.trained(split.row, split.sign, noise)
        if isinstance(training, StabilityValidation) or self._selects:
            return training.draw(query, noise)
        held_out = check_split(query, training.n_classes)["validation"]
        return training.trained(query, np.flatnonzero(~held_out), noise)

    def _as_many(self, query: Query) -> Query:
        """Return a query of as many rows as the training takes; an event does not depend on which ones."""
        if self._selects:
            return query
        rows = check_split(query, self.training.n_classes)
        n = query.n - int(rows["validation"].sum())
        return replace(query, value={name: rows[name][:n] for name in ("x", "y")}, n=n)

    @property
    def _selects(self) -> bool:
        inner = self.training
        inner = inner.training if isinstance(inner, ReducedTraining) else inner
        return isinstance(inner, StabilityValidation)
