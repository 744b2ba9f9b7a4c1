"""For comparison: a regularization at random, or by splitting the budget or the data among candidates.

No run uses these; ``python -m benchmarks.learners.stability`` compares them with `StabilityValidation`.

>>> from learners.private.objective_perturbation import training_query
>>> mechanism = SplitBudgetSelection((0.01, 0.1), epsilon=1.0, norm_bound=1.0, n_classes=2)
>>> x, y = np.array([[-1.0], [1.0], [1.0]]), np.array([0, 1, 1])
>>> query = training_query(x, y, dataset="toy", validation=np.array([False, False, True]))
>>> mechanism.event(query).cost().epsilon
Fraction(1, 1)
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from learners.private import check_training_price
from learners.selection.public_split import (
    SplitRows,
    check_candidates,
    check_split,
    share_of,
    split_rows,
)
from privacy.accounting import keep_declared
from privacy.mechanism import Json, Noise
from privacy.mechanisms import NoisyMax, PureEvent
from privacy.query import Query, Unit

__all__ = ["RandomSelection", "SplitBudgetSelection", "SplitDataSelection"]


BOTH_WAYS = 2.0  # one replaced row moves one error count up and another down


@dataclass(frozen=True, slots=True)
class _Rival(ABC):
    """What the rivals share: parameters, their checks, and how the query's rows are read."""

    candidates: tuple[float, ...]
    epsilon: float
    norm_bound: float
    n_classes: int

    def __post_init__(self) -> None:
        keep_declared(self)
        check_candidates(self.candidates, self.norm_bound, self.n_classes)
        check_training_price(epsilon=self.epsilon)
        NoisyMax(self.epsilon, spread=BOTH_WAYS)  # a refusal by the draw would come after payment

    def draw(self, query: Query, noise: Noise) -> Json:
        """Choose and train on the query's rows; only the ledger calls this."""
        return self.choose(split_rows(query, self.norm_bound, self.n_classes), noise)

    @abstractmethod
    def choose(self, rows: SplitRows, noise: Noise) -> Json:
        """Choose and train on lifted rows, for `draw` and for experiments."""

    def _parameters(self, query: Query) -> dict[str, Any]:
        n_validation = int(check_split(query, self.n_classes)["validation"].sum())
        return {
            "candidates": list(self.candidates),
            "norm_bound": self.norm_bound,
            "n_classes": self.n_classes,
            "n_train": query.n - n_validation,
            "n_validation": n_validation,
        }

    def _choose(self, rows: SplitRows, noise: Noise, *, epsilon: float, n_parts: int) -> Json:
        """Train candidate i on part i of the rows, then choose by validation errors."""
        weights = [
            rows.train(one, epsilon=epsilon, noise=noise, part=slice(i % n_parts, None, n_parts))
            for i, one in enumerate(self.candidates)
        ]
        chosen = 0
        if len(weights) > 1:
            score = -np.array([rows.n_errors(weight) for weight in weights])
            judged = Query("validation", "errors", score, Unit.ROW, n=len(rows.judge), l1=BOTH_WAYS)
            chosen = int(NoisyMax(self.epsilon, spread=BOTH_WAYS).draw(judged, noise))
        return rows.release(weights[chosen], chosen, self.candidates)


@dataclass(frozen=True, slots=True)
class RandomSelection(_Rival):
    """Train one candidate, drawn uniformly, for the whole budget; nothing is spent on choosing.

    Parameters
    ----------
    candidates
        Regularizations to draw from, distinct, >= 1e-9, public.
    epsilon
        For the training, > 0.
    norm_bound, n_classes
        As in `ObjectivePerturbation`.

    Raises
    ------
    ValueError
        If a knob breaks the conditions above.

    Notes
    -----
    Query and release are those of `StabilityValidation`; validation rows are not read.

    **Guarantees.** The choice does not depend on the data; the cost is `epsilon`.
    **Privacy.** Unit: the query's. Given the choice, the proof is that of `ObjectivePerturbation`.

    Examples
    --------
    >>> RandomSelection((0.01, 0.1), epsilon=1.0, norm_bound=1.0, n_classes=2).epsilon
    1.0
    """

    def event(self, query: Query) -> PureEvent:
        """Describe a release on this query; raise for one without training and validation rows."""
        parameters = self._parameters(query)
        del parameters["n_validation"]  # validation rows are not read
        return PureEvent("selection at random", self.epsilon, parameters)

    def choose(self, rows: SplitRows, noise: Noise) -> Json:
        """Draw a candidate and train it on lifted rows, for `draw` and for experiments."""
        chosen = noise.uniform_integer(len(self.candidates))
        weight = rows.train(self.candidates[chosen], epsilon=self.epsilon, noise=noise)
        return rows.release(weight, chosen, self.candidates)


@dataclass(frozen=True, slots=True)
class SplitBudgetSelection(_Rival):
    """Train each of k candidates for epsilon / k and release one with few validation errors.

    The choice is `NoisyMax` on minus the error counts. It favours better candidates by the same factors
    as the exponential mechanism of [1]_ (alphaSplit there), and expects no more errors.

    Parameters
    ----------
    candidates, epsilon, norm_bound, n_classes
        As in `RandomSelection`, errors included; `epsilon` pays for everything.

    Notes
    -----
    Query and release are those of `StabilityValidation`; the chosen model is not trained again.

    **Guarantees.** The cost is `epsilon`, not twice that; a single candidate gets all of it.
    **Privacy.** Unit: the query's, one row at most. Training and validation rows are disjoint, so a
    neighbour changes one of the two. A replaced training row: k trainings of epsilon / k each compose
    to epsilon; the choice reads them and the same validation rows. A replaced validation row: the
    trainings stay, each error count moves by one at most, one against another by two, and the choice
    costs epsilon.

    References
    ----------
    .. [1] Chaudhuri, Vinterbo, "A stability-based validation procedure for differentially private
       machine learning", NIPS (2013), section 4.

    Examples
    --------
    >>> SplitBudgetSelection((0.01, 0.1), epsilon=1.0, norm_bound=1.0, n_classes=2).candidates
    (0.01, 0.1)
    """

    def event(self, query: Query) -> PureEvent:
        """Describe a release on this query; raise for one without training and validation rows."""
        return PureEvent("selection, budget split", self.epsilon, self._parameters(query))

    def choose(self, rows: SplitRows, noise: Noise) -> Json:
        """Train and choose on lifted rows, for `draw` and for experiments."""
        return self._choose(
            rows, noise, epsilon=share_of(self.epsilon, len(self.candidates)), n_parts=1
        )


@dataclass(frozen=True, slots=True)
class SplitDataSelection(_Rival):
    """Train each of k candidates on a k-th of the rows and release one with few validation errors.

    Candidate i gets every k-th training row from the i-th on, in an order that must be public (dataSplit
    in the paper that `SplitBudgetSelection` cites). The choice is made as in that class.

    Parameters
    ----------
    candidates, epsilon, norm_bound, n_classes
        As in `RandomSelection`, errors included; `epsilon` pays for everything.

    Notes
    -----
    Query and release are those of `StabilityValidation`; the chosen model is not trained again.

    **Guarantees.** The cost is `epsilon`; a query with fewer training rows than candidates raises
    before it is paid.
    **Privacy.** Unit: the query's, one row at most. One training, of price epsilon, reads a replaced
    training row; the choice alone, of price epsilon, reads a replaced validation row, as in
    `SplitBudgetSelection`.

    Examples
    --------
    >>> SplitDataSelection((0.01, 0.1), epsilon=1.0, norm_bound=1.0, n_classes=2).epsilon
    1.0
    """

    def event(self, query: Query) -> PureEvent:
        """Describe a release on this query; raise for one with too few rows."""
        parameters = self._parameters(query)
        if not parameters["n_train"] >= len(self.candidates):
            raise ValueError(
                f"training rows must be {len(self.candidates)} or more, one for each candidate, "
                f"got {parameters['n_train']}"
            )
        return PureEvent("selection, data split", self.epsilon, parameters)

    def choose(self, rows: SplitRows, noise: Noise) -> Json:
        """Train and choose on lifted rows, for `draw` and for experiments."""
        return self._choose(rows, noise, epsilon=self.epsilon, n_parts=len(self.candidates))
