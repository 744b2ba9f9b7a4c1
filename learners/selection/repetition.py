"""Choose the regularization by repetition: a random number of private trials, the best of them released.

>>> import numpy as np
>>> from learners.private.objective_perturbation import training_query
>>> mechanism = RandomRepetition((0.01, 0.1), 1.5, mean_runs=20, norm_bound=1.0, n_classes=2)
>>> x, y = np.array([[-1.0], [1.0], [1.0]]), np.array([0, 1, 1])
>>> query = training_query(x, y, dataset="toy", validation=np.array([False, False, True]))
>>> mechanism.event(query).cost().epsilon
Fraction(3, 2)
"""

import math
from dataclasses import dataclass

from learners.selection.public_split import (
    MOVED,
    STEPS,
    SplitRows,
    check_candidates,
    check_price,
    check_split,
    share_of,
    split_rows,
)
from privacy.accounting import keep_declared
from privacy.mechanism import Json, Noise
from privacy.mechanisms import PureEvent, covering_scale
from privacy.query import Query, is_whole

__all__ = ["RandomRepetition", "chance_untried", "runs_for"]


@dataclass(frozen=True, slots=True)
class RandomRepetition:
    """Run a private trial of a random candidate again and again, and release the best trial's model.

    A trial draws a candidate uniformly, trains it for epsilon / 3 and scores it by its ramp score
    summed over the validation rows, in steps of 1 / 4096, plus discrete Laplace noise of scale 3 /
    epsilon. After each trial the procedure ends with probability 1 / mean_runs. Neither the scores
    nor the number of trials are released.

    Parameters
    ----------
    candidates
        Regularizations to choose among, distinct, >= 1e-9, public.
    epsilon
        For everything, > 0.
    mean_runs
        Expected number of trials, >= 1. It sets the time, not the cost: see `chance_untried`.
    norm_bound, n_classes
        As in `ObjectivePerturbation`.

    Raises
    ------
    ValueError
        If a knob breaks the conditions above.

    Notes
    -----
    Query and release are those of `StabilityValidation`; the model is the winning trial's own.

    **Guarantees.** The cost is `epsilon`, for any `mean_runs` and any number of candidates; without
    noise the best of the trials wins, ties to the earlier.
    **Privacy.** Unit: the query's, one row at most. With e = epsilon / 3, a trial (score, model) is
    e-differentially private: a replaced training row leaves the score's law given the model, a
    replaced validation row moves the sum by one at most, by 4097 steps once it is rounded, and leaves
    the training. Let p be a trial's density at an outcome, F and G the chances of a score below, and
    not above, its own, q = 1 / mean_runs. The outcome is released by trial j of k if the earlier ones
    score below it and the later ones not above:

        sum over k of q (1 - q)^(k - 1) sum over j of F^(j - 1) p G^(k - j)
            = q p / ((1 - (1 - q) F) (1 - (1 - q) G)).

    Each factor below is q + (1 - q) times the chance of a trial that scores above, or not below: like p,
    it changes by a factor of at most exp(e) between neighbours. Together exp(3 e) = exp(epsilon).
    The running time reveals the number of trials, which must stay hidden, as the ledger hides it.

    References
    ----------
    .. [1] Liu, Talwar, "Private selection from private candidates", STOC (2019).
    .. [2] Papernot, Steinke, "Hyperparameter tuning with Rényi differential privacy", ICLR (2022).

    Examples
    --------
    >>> RandomRepetition((0.01, 0.1), 1.5, mean_runs=20, norm_bound=1.0, n_classes=2).mean_runs
    20
    """

    candidates: tuple[float, ...]
    epsilon: float
    mean_runs: int
    norm_bound: float
    n_classes: int

    def __post_init__(self) -> None:
        keep_declared(self)
        check_candidates(self.candidates, self.norm_bound, self.n_classes)
        check_price(epsilon=self.epsilon)
        covering_scale(MOVED, share_of(self.epsilon, 3))
        if not (is_whole(self.mean_runs) and self.mean_runs >= 1):
            raise ValueError(f"mean_runs must be a whole number >= 1, got {self.mean_runs}")

    def event(self, query: Query) -> PureEvent:
        """Describe a release on this query; raise for one without training and validation rows."""
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
        share, best = share_of(self.epsilon, 3), None
        scale = covering_scale(MOVED, share)
        while best is None or noise.uniform_integer(self.mean_runs) > 0:
            chosen = noise.uniform_integer(len(self.candidates))
            weight = rows.train(self.candidates[chosen], epsilon=share, noise=noise)
            score = round(STEPS * len(rows.judge) * rows.score(weight))
            score += noise.discrete_laplace(scale, 1)[0]
            if best is None or score > best[0]:
                best = score, chosen, weight
        return rows.release(best[2], best[1], self.candidates)


def chance_untried(n_candidates: int, mean_runs: float | int) -> float:
    """Return the chance that a given candidate is never tried: (c - 1) / (mean_runs + c - 1), of c.

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
    """Return the smallest mean_runs whose `chance_untried` is at most `untried`.

    Examples
    --------
    >>> runs_for(10, 0.05), runs_for(10, 0.13)
    (171, 61)
    """
    if not 0 < untried < 1:
        raise ValueError(f"untried must be in (0, 1), got untried={untried}")
    return max(1, math.ceil(round((n_candidates - 1) * (1 - untried) / untried, 9)))
