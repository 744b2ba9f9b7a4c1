"""For comparison: a regularization at random, or by splitting the budget or the data among candidates.

No run uses these; ``python -m benchmarks.learners.stability`` compares them with `StabilityValidation`.

>>> from learners.private.objective_perturbation import training_query
>>> mechanism = SplitBudgetSelection((0.01, 0.1), epsilon=1.0, norm_bound=1.0, n_classes=2)
>>> x, y = np.array([[-1.0], [1.0], [1.0]]), np.array([0, 1, 1])
>>> query = training_query(x, y, dataset="toy", validation=np.array([False, False, True]))
>>> mechanism.event(query).cost().epsilon
Fraction(1, 1)
"""

from dataclasses import dataclass

import numpy as np

from learners.selection.public_split import (
    SplitRows,
    check_candidates,
    check_price,
    check_split,
    split_rows,
)
from privacy.mechanism import Json, Noise
from privacy.mechanisms import NoisyMax, PureEvent
from privacy.query import Query, Unit

__all__ = ["RandomSelection", "SplitBudgetSelection", "SplitDataSelection"]


@dataclass(frozen=True, slots=True)
class RandomSelection:
    """Train one candidate, drawn uniformly, for the whole budget; nothing is spent on choosing.

    Parameters
    ----------
    candidates
        Regularizations to draw from, distinct, > 0, public.
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

    candidates: tuple[float, ...]
    epsilon: float
    norm_bound: float
    n_classes: int

    def __post_init__(self) -> None:
        check_candidates(self.candidates, self.norm_bound, self.n_classes)
        check_price(epsilon=self.epsilon)

    def event(self, query: Query) -> PureEvent:
        """Describe a release on this query; raise for one without training and validation rows."""
        n_validation = int(check_split(query, self.n_classes)["validation"].sum())
        parameters = {
            "candidates": list(self.candidates),
            "norm_bound": self.norm_bound,
            "n_classes": self.n_classes,
            "n_train": query.n - n_validation,
        }
        return PureEvent("selection at random", self.epsilon, parameters)

    def draw(self, query: Query, noise: Noise) -> Json:
        """Draw a candidate and train it; only the ledger calls this."""
        return self.choose(split_rows(query, self.norm_bound, self.n_classes), noise)

    def choose(self, rows: SplitRows, noise: Noise) -> Json:
        """Draw a candidate and train it on lifted rows, for `draw` and for experiments."""
        chosen = noise.uniform_integer(len(self.candidates))
        weight = rows.train(self.candidates[chosen], epsilon=self.epsilon, noise=noise)
        return rows.release(weight, chosen, self.candidates)


BOTH_WAYS = 2.0  # one replaced row moves one error count up and another down


@dataclass(frozen=True, slots=True)
class SplitBudgetSelection:
    """Train each of k candidates for epsilon / k and release one with few validation errors.

    The choice is `NoisyMax` on minus the error counts. It favours better candidates by the same factors
    as the exponential mechanism of [1]_ (alphaSplit there), and expects no more errors.

    Parameters
    ----------
    candidates, epsilon, norm_bound, n_classes
        As in `RandomSelection`; `epsilon` pays for everything.

    Raises
    ------
    ValueError
        If a knob breaks the conditions above.

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

    candidates: tuple[float, ...]
    epsilon: float
    norm_bound: float
    n_classes: int

    def __post_init__(self) -> None:
        check_candidates(self.candidates, self.norm_bound, self.n_classes)
        check_price(epsilon=self.epsilon)

    def event(self, query: Query) -> PureEvent:
        """Describe a release on this query; raise for one without training and validation rows."""
        return _event("selection, budget split", self, query)

    def draw(self, query: Query, noise: Noise) -> Json:
        """Train and choose on the query's rows; only the ledger calls this."""
        return self.choose(split_rows(query, self.norm_bound, self.n_classes), noise)

    def choose(self, rows: SplitRows, noise: Noise) -> Json:
        """Train and choose on lifted rows, for `draw` and for experiments."""
        return _choose(self, rows, noise, epsilon=self.epsilon / len(self.candidates), n_parts=1)


@dataclass(frozen=True, slots=True)
class SplitDataSelection:
    """Train each of k candidates on a k-th of the rows and release one with few validation errors.

    Candidate i gets every k-th training row from the i-th on, in an order that must be public (dataSplit
    in [1]_). The choice is made as in `SplitBudgetSelection`.

    Parameters
    ----------
    candidates, epsilon, norm_bound, n_classes
        As in `RandomSelection`; `epsilon` pays for everything.

    Raises
    ------
    ValueError
        If a knob breaks the conditions above.

    Notes
    -----
    Query and release are those of `StabilityValidation`; the chosen model is not trained again.

    **Guarantees.** The cost is `epsilon`; a query with fewer training rows than candidates raises
    before it is paid.
    **Privacy.** Unit: the query's, one row at most. One training, of price epsilon, reads a replaced
    training row; the choice alone, of price epsilon, reads a replaced validation row, as in
    `SplitBudgetSelection`.

    References
    ----------
    .. [1] Chaudhuri, Vinterbo, "A stability-based validation procedure for differentially private
       machine learning", NIPS (2013), section 4.

    Examples
    --------
    >>> SplitDataSelection((0.01, 0.1), epsilon=1.0, norm_bound=1.0, n_classes=2).epsilon
    1.0
    """

    candidates: tuple[float, ...]
    epsilon: float
    norm_bound: float
    n_classes: int

    def __post_init__(self) -> None:
        check_candidates(self.candidates, self.norm_bound, self.n_classes)
        check_price(epsilon=self.epsilon)

    def event(self, query: Query) -> PureEvent:
        """Describe a release on this query; raise for one with too few rows."""
        event = _event("selection, data split", self, query)
        if not event.parameters["n_train"] >= len(self.candidates):
            raise ValueError(
                f"training rows must be {len(self.candidates)} or more, one for each candidate, "
                f"got {event.parameters['n_train']}"
            )
        return event

    def draw(self, query: Query, noise: Noise) -> Json:
        """Train and choose on the query's rows; only the ledger calls this."""
        return self.choose(split_rows(query, self.norm_bound, self.n_classes), noise)

    def choose(self, rows: SplitRows, noise: Noise) -> Json:
        """Train and choose on lifted rows, for `draw` and for experiments."""
        return _choose(self, rows, noise, epsilon=self.epsilon, n_parts=len(self.candidates))


def _event(name: str, knobs: SplitBudgetSelection | SplitDataSelection, query: Query) -> PureEvent:
    n_validation = int(check_split(query, knobs.n_classes)["validation"].sum())
    parameters = {
        "candidates": list(knobs.candidates),
        "norm_bound": knobs.norm_bound,
        "n_classes": knobs.n_classes,
        "n_train": query.n - n_validation,
        "n_validation": n_validation,
    }
    return PureEvent(name, knobs.epsilon, parameters)


def _choose(
    knobs: SplitBudgetSelection | SplitDataSelection,
    rows: SplitRows,
    noise: Noise,
    *,
    epsilon: float,
    n_parts: int,
) -> Json:
    """Train candidate i on part i of the rows, then choose by validation errors."""
    weights = [
        rows.train(candidate, epsilon=epsilon, noise=noise, part=slice(i % n_parts, None, n_parts))
        for i, candidate in enumerate(knobs.candidates)
    ]
    chosen = 0
    if len(weights) > 1:
        score = -np.array([rows.n_errors(weight) for weight in weights])
        judged = Query("validation", "errors", score, Unit.ROW, n=len(rows.judge), l1=BOTH_WAYS)
        chosen = int(NoisyMax(knobs.epsilon, spread=BOTH_WAYS).draw(judged, noise))
    return rows.release(weights[chosen], chosen, knobs.candidates)
