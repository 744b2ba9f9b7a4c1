"""Choosing the regularization by splitting the budget, or the data, among the candidates.

The cheapest choices of a regularization, to compare with: at random, and with all the data in view.

Choosing the regularization by repetition: a random number of private runs, the best released.
"""

import math
from dataclasses import dataclass

import numpy as np

from learners.selection.stability import (
    SplitRows,
    check_candidates,
    check_price,
    check_split,
    split_rows,
)
from privacy.mechanism import Json, Noise
from privacy.mechanisms import NoisyMax, PureEvent
from privacy.query import Query, Unit

__all__ = [
    "RandomRepetition",
    "RandomSelection",
    "SplitBudgetSelection",
    "SplitDataSelection",
    "chance_untried",
    "control_selection",
    "runs_for",
]


@dataclass(frozen=True, slots=True)
class RandomSelection:
    """Train one candidate, drawn uniformly, for the whole budget; nothing is spent on choosing.

    Parameters
    ----------
    candidates
        Regularizations to draw from, distinct, > 0, public.
    epsilon
        For the training, > 0.
    norm_bound
        As in `ObjectivePerturbation`.
    n_classes
        As in `ObjectivePerturbation`.

    Raises
    ------
    ValueError
        If a knob breaks the conditions above.

    Notes
    -----
    Query and release are those of `StabilityValidation`; validation rows are not looked at.

    **Guarantees.** The choice does not depend on the data; the cost is `epsilon`.
    **Privacy.** Unit: the query's. That of `ObjectivePerturbation`, given the choice.

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
        """Describe a release on this query; refuses one without training and validation rows."""
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


def control_selection(knobs: RandomSelection, rows: SplitRows, noise: Noise) -> Json:
    """Train every candidate for the whole budget and take the best: **not private**, for experiments.

    It spends epsilon once for each candidate and reads the validation rows in the clear, so it is no
    mechanism, and no ledger pays for it: the upper end of what a private choice can reach.

    Parameters
    ----------
    knobs
        Candidates, and the price of each training.
    rows
        From `split_rows`.
    noise
        A source of the caller's; the ledger's own is out of reach here.

    Returns
    -------
    Json
        As `StabilityValidation` releases it, with ``"private": False``.

    Notes
    -----
    **Guarantees.** The model has the best `ramp_score` of those trained, ties to the earlier.

    References
    ----------
    .. [1] Chaudhuri, Vinterbo, "A stability-based validation procedure for differentially private
       machine learning", NIPS (2013), section 4, Control.
    """
    weights = [
        rows.train(candidate, epsilon=knobs.epsilon, noise=noise) for candidate in knobs.candidates
    ]
    chosen = int(np.argmax([rows.score(weight) for weight in weights]))
    return rows.release(weights[chosen], chosen, knobs.candidates) | {"private": False}


@dataclass(frozen=True, slots=True)
class RandomRepetition:
    """Run a private trial of a random candidate again and again, and release the best trial's model.

    A trial draws a candidate uniformly, trains it for epsilon / 3 and scores it by its ramp score summed
    over the validation rows plus Laplace noise of scale 3 / epsilon. After each trial the procedure ends
    with probability 1 / mean_runs. Neither scores nor the number of trials leave.

    Parameters
    ----------
    candidates
        Regularizations to choose among, distinct, > 0, public.
    epsilon
        For everything, > 0.
    mean_runs
        Expected number of trials, >= 1. It does not enter the cost, only the time: see `chance_untried`.
    norm_bound
        As in `ObjectivePerturbation`.
    n_classes
        As in `ObjectivePerturbation`.

    Raises
    ------
    ValueError
        If a knob breaks the conditions above.

    Notes
    -----
    Query and release are those of `StabilityValidation`; the model is the winning trial's own.

    **Guarantees.** The cost is `epsilon`, whatever `mean_runs` and however many candidates; without
    noise the best of the trials wins, ties to the earlier.
    **Privacy.** Unit: the query's, one row at most. With e = epsilon / 3, a trial (score, model) is
    e-differentially private: a replaced training row leaves the score's law given the model, a replaced
    validation row moves the sum by one at most and leaves the training. Let p be a trial's density at an
    outcome, F and G the chances of a score below, and not above, its own, q = 1 / mean_runs. The
    outcome is released by trial j of k if the earlier ones score below it and the later ones not above:

        sum over k of q (1 - q)^(k - 1) sum over j of F^(j - 1) p G^(k - j)
            = q p / ((1 - (1 - q) F) (1 - (1 - q) G)).

    Each factor below is q + (1 - q) times the chance of a trial that scores above, or not below: like p,
    it changes by a factor of at most exp(e) between neighbours. Together exp(3 e) = exp(epsilon).
    How long it runs tells the number of trials, which must stay hidden as the ledger hides it.

    References
    ----------
    .. [1] Liu, Talwar, "Private selection from private candidates", STOC (2019).
    .. [2] Papernot, Steinke, "Hyperparameter tuning with Rényi differential privacy", ICLR (2022).

    Examples
    --------
    >>> import numpy as np
    >>> from learners.private.objective_perturbation import training_query
    >>> mechanism = RandomRepetition(
    ...     (0.01, 0.1), epsilon=1.5, mean_runs=20, norm_bound=1.0, n_classes=2
    ... )
    >>> x, y = np.array([[-1.0], [1.0], [1.0]]), np.array([0, 1, 1])
    >>> query = training_query(x, y, dataset="toy", validation=np.array([False, False, True]))
    >>> mechanism.event(query).cost().epsilon
    Fraction(3, 2)
    """

    candidates: tuple[float, ...]
    epsilon: float
    mean_runs: int
    norm_bound: float
    n_classes: int

    def __post_init__(self) -> None:
        check_candidates(self.candidates, self.norm_bound, self.n_classes)
        check_price(epsilon=self.epsilon)
        if not (isinstance(self.mean_runs, int) and self.mean_runs >= 1):
            raise ValueError(f"mean_runs must be a whole number >= 1, got {self.mean_runs}")

    def event(self, query: Query) -> PureEvent:
        """Describe a release on this query; refuses one without training and validation rows."""
        n_validation = int(check_split(query, self.n_classes)["validation"].sum())
        parameters = {
            "candidates": list(self.candidates),
            "mean_runs": self.mean_runs,
            "norm_bound": self.norm_bound,
            "n_classes": self.n_classes,
            "n_train": query.n - n_validation,
            "n_validation": n_validation,
        }
        return PureEvent("random repetition", self.epsilon, parameters)

    def draw(self, query: Query, noise: Noise) -> Json:
        """Run the trials on the query's rows; only the ledger calls this."""
        return self.choose(split_rows(query, self.norm_bound, self.n_classes), noise)

    def choose(self, rows: SplitRows, noise: Noise) -> Json:
        """Run the trials on lifted rows, for `draw` and for experiments."""
        share, best = self.epsilon / 3, None
        while best is None or noise.uniform_integer(self.mean_runs) > 0:
            chosen = noise.uniform_integer(len(self.candidates))
            weight = rows.train(self.candidates[chosen], epsilon=share, noise=noise)
            score = len(rows.judge) * rows.score(weight) + noise.laplace(1 / share)
            if best is None or score > best[0]:
                best = score, chosen, weight
        return rows.release(best[2], best[1], self.candidates)


def chance_untried(n_candidates: int, mean_runs: float | int) -> float:
    """Chance that a given candidate is never tried: (c - 1) / (mean_runs + c - 1), of c candidates.

    The mean of (1 - 1 / c)^K over the geometric number of trials K.

    Examples
    --------
    >>> round(chance_untried(10, 10), 3), round(chance_untried(10, 60), 3)
    (0.474, 0.13)
    """
    if not n_candidates >= 1:
        raise ValueError(f"n_candidates must be >= 1, got n_candidates={n_candidates}")
    if not mean_runs >= 1:
        raise ValueError(f"mean_runs must be >= 1, got mean_runs={mean_runs}")
    return (n_candidates - 1) / (mean_runs + n_candidates - 1)


def runs_for(n_candidates: int, untried: float) -> int:
    """Smallest mean_runs whose `chance_untried` is at most `untried`.

    Examples
    --------
    >>> runs_for(10, 0.05), runs_for(10, 0.13)
    (171, 61)
    """
    if not 0 < untried < 1:
        raise ValueError(f"untried must be in (0, 1), got untried={untried}")
    return max(1, math.ceil(round((n_candidates - 1) * (1 - untried) / untried, 9)))


BOTH_WAYS = 2.0  # one replaced row moves one error count up and another down


@dataclass(frozen=True, slots=True)
class SplitBudgetSelection:
    """Train each of k candidates for epsilon / k, release the one with few validation errors.

    The choice is `NoisyMax` on minus the error counts. It is likelier the better, by the same factors as
    the exponential mechanism of [1]_, alphaSplit there, and expects no more errors.

    Parameters
    ----------
    candidates
        Regularizations to choose among, distinct, > 0, public.
    epsilon
        For everything, > 0.
    norm_bound
        As in `ObjectivePerturbation`.
    n_classes
        As in `ObjectivePerturbation`.

    Raises
    ------
    ValueError
        If a knob breaks the conditions above.

    Notes
    -----
    Query and release are those of `StabilityValidation`; the chosen model is not trained again.

    **Guarantees.** The cost is `epsilon`, not twice that; a single candidate is trained for all of it.
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
    >>> from learners.private.objective_perturbation import training_query
    >>> mechanism = SplitBudgetSelection((0.01, 0.1), epsilon=1.0, norm_bound=1.0, n_classes=2)
    >>> x, y = np.array([[-1.0], [1.0], [1.0]]), np.array([0, 1, 1])
    >>> query = training_query(x, y, dataset="toy", validation=np.array([False, False, True]))
    >>> mechanism.event(query).cost().epsilon
    Fraction(1, 1)
    """

    candidates: tuple[float, ...]
    epsilon: float
    norm_bound: float
    n_classes: int

    def __post_init__(self) -> None:
        check_candidates(self.candidates, self.norm_bound, self.n_classes)
        check_price(epsilon=self.epsilon)

    def event(self, query: Query) -> PureEvent:
        """Describe a release on this query; refuses one without training and validation rows."""
        return _event("selection, budget split", self, query)

    def draw(self, query: Query, noise: Noise) -> Json:
        """Train and choose on the query's rows; only the ledger calls this."""
        return self.choose(split_rows(query, self.norm_bound, self.n_classes), noise)

    def choose(self, rows: SplitRows, noise: Noise) -> Json:
        """Train and choose on lifted rows, for `draw` and for experiments."""
        return _choose(self, rows, noise, epsilon=self.epsilon / len(self.candidates), n_parts=1)


@dataclass(frozen=True, slots=True)
class SplitDataSelection:
    """Train each of k candidates on a k-th of the rows, release the one with few validation errors.

    Every k-th training row in the order given, which must be public; dataSplit in [1]_. The choice
    is that of `SplitBudgetSelection`.

    Parameters
    ----------
    candidates
        Regularizations to choose among, distinct, > 0, public.
    epsilon
        For everything, > 0.
    norm_bound
        As in `ObjectivePerturbation`.
    n_classes
        As in `ObjectivePerturbation`.

    Raises
    ------
    ValueError
        If a knob breaks the conditions above.

    Notes
    -----
    Query and release are those of `StabilityValidation`; the chosen model is not trained again.

    **Guarantees.** The cost is `epsilon`; a query with fewer training rows than candidates is refused
    before it is paid.
    **Privacy.** Unit: the query's, one row at most. A replaced training row is read by one training, of
    epsilon; a replaced validation row by the choice alone, of epsilon, as in `SplitBudgetSelection`.

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
        """Describe a release on this query; refuses one with too few rows."""
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
