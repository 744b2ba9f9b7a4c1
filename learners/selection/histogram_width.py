"""Choose a histogram's number of bins privately, by a score that is stable under replacement.

One mechanism for the ledger, which pays for the whole procedure. Pure: no delta is spent.

>>> mechanism = HistogramValidation((2, 20), 0.5, 0.5, low=0.0, high=1.0)
>>> value = np.array([0.1, 0.4, 0.9])
>>> query = histogram_query(value, np.array([False, False, True]), dataset="toy")
>>> mechanism.event(query).cost().epsilon
Fraction(1, 1)
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from learners.private import (
    bin_counts,
    check_bins,
    density_of,
    histogram_score,
    histogram_sensitivity,
)
from learners.selection.public_split import (
    check_choice,
    check_distinct,
    check_price,
    noisiest,
)
from privacy.accounting import covering_scale, keep_declared
from privacy.mechanism import Json, Noise
from privacy.mechanisms import LatticeLaplace, PureEvent, exact
from privacy.query import ONE_TASK, Query, Unit

__all__ = ["HistogramValidation", "histogram_query"]


@dataclass(frozen=True, slots=True)
class HistogramValidation:
    """Count with each number of bins, choose one by a noisy score, and count again with the chosen one.

    With T the training values, V the validation values, f the density of `PrivateHistogram`:

        t_i = q(f(T, bins_i, z_i), V) + 2 beta Z_i,   i* = argmax t_i,   release i*, counts of T + z

    where every z is fresh, q is `histogram_score` in steps of beta / 4096, beta the largest
    `histogram_sensitivity` and Z_i exponential of mean 1 / epsilon_select: a choice of `NoisyMax`.

    Parameters
    ----------
    candidates
        Numbers of bins to choose among, distinct, >= 2, public. The largest one sets beta.
    epsilon_counts
        For the counts of one histogram, > 0.
    epsilon_select
        For the choice, > 0; 0 with one candidate, of which nothing is chosen.
    low, high
        Declared bounds, of a finite distance, as in `PrivateHistogram`.

    Raises
    ------
    ValueError
        If a knob breaks the conditions above.

    Notes
    -----
    The query comes from `histogram_query`. A release is `{"counts", "chosen", "n_bins"}`, the counts
    noisy integers that add up to the number of training values; `density_of` makes a density of them.

    A value that is not finite counts as the bound on its side, and NaN as `low`: a refusal would reveal it.

    **Guarantees.** No replacement of a value moves a score by more than its sensitivity; without noise
    the best score wins, equal ones are equally likely; the cost is `epsilon_counts + epsilon_select`
    for any number of candidates; with one candidate it is `epsilon_counts`.
    **Privacy.** Unit: the query's, one value at most. Fix the noises z_i. Replacing a training value
    moves each score by at most 4 / (h n) and a validation value by 2 / (h m), see
    `histogram_sensitivity`, and i* is `NoisyMax` of that spread, with a step for rounding:
    epsilon_select. Given i*, the second counting is fresh: epsilon_counts. The noise adds up to zero,
    which keeps the counts' sum at n or more for any draw: [1]_ bounds it with probability 1 - delta,
    refuses small n and has 6 for our 4.

    References
    ----------
    .. [1] Chaudhuri, Vinterbo, "A stability-based validation procedure for differentially private
       machine learning", NIPS (2013), supplement, Theorem 6.

    Examples
    --------
    >>> HistogramValidation((2, 20), 0.5, 0.5, low=0.0, high=1.0).candidates
    (2, 20)
    """

    candidates: tuple[int, ...]
    epsilon_counts: float
    epsilon_select: float
    low: float
    high: float

    def __post_init__(self) -> None:
        keep_declared(self)
        check_distinct(self.candidates)
        for n_bins in self.candidates:
            check_bins(n_bins, self.low, self.high)
        check_price(epsilon_counts=self.epsilon_counts)
        check_choice(self.candidates, self.epsilon_select)
        # a refusal by the draw would come after payment
        covering_scale(ONE_TASK, self.epsilon_counts)

    def event(self, query: Query) -> PureEvent:
        """Describe a release on this query; raise for one without values on both sides of a split."""
        n_validation = int(_split(query)["validation"].sum())
        return PureEvent(
            name="histogram validation",
            epsilon=str(exact(self.epsilon_counts) + exact(self.epsilon_select)),
            parameters={
                "candidates": list(self.candidates),
                "epsilon_counts": self.epsilon_counts,
                "epsilon_select": self.epsilon_select,
                "low": self.low,
                "high": self.high,
                "n_train": query.n - n_validation,
                "n_validation": n_validation,
            },
            arithmetic="exact",
        )

    def draw(self, query: Query, noise: Noise) -> Json:
        """Choose and count on the query's values; only the ledger calls this."""
        if len(self.candidates) == 1:
            return self.release(query, 0, noise)
        score, beta = self.scores(query, noise)
        chosen = noisiest(score, float(beta.max()), self.epsilon_select, noise)
        return self.release(query, chosen, noise)

    def scores(
        self, query: Query, noise: Noise
    ) -> tuple[Float[np.ndarray, " candidates"], Float[np.ndarray, " candidates"]]:
        """Return the score of each candidate, **private**, and its sensitivity, public."""
        held = self._held(query)
        judge = held["x"][held["validation"]]
        score = [
            histogram_score(
                density_of(self._counts(held, n_bins, noise), 1 / n_bins),
                bin_counts(judge, n_bins, self.low, self.high),
            )
            for n_bins in self.candidates
        ]
        n_train = query.n - len(judge)
        beta = [histogram_sensitivity(one, n_train, len(judge)) for one in self.candidates]
        return np.array(score), np.array(beta)

    def release(self, query: Query, chosen: int, noise: Noise) -> Json:
        """Return what is released: the choice, and fresh noisy counts."""
        n_bins = self.candidates[chosen]
        counts = self._counts(self._held(query), n_bins, noise)
        return {"counts": counts.tolist(), "chosen": chosen, "n_bins": n_bins}

    def _held(self, query: Query) -> Mapping[str, np.ndarray]:
        """Return the query's values, clipped to the bounds, and its split."""
        held = _split(query)
        with np.errstate(over="ignore"):  # of a longer float, which is beyond a bound too
            x = held["x"].astype(np.float64)  # bounds may be beyond a shorter one
        x = np.where(np.isnan(x), self.low, x)
        return {**held, "x": np.clip(x, self.low, self.high)}

    def _counts(
        self, held: Mapping[str, np.ndarray], n_bins: int, noise: Noise
    ) -> Int[np.ndarray, " bins"]:
        train = held["x"][~held["validation"]]
        counts = bin_counts(train, n_bins, self.low, self.high)
        query = Query("training", "bins", counts, Unit.ROW, n=len(train), l1=ONE_TASK)
        return np.array(LatticeLaplace(self.epsilon_counts).draw(query, noise))


def histogram_query(
    x: Float[np.ndarray, " rows"], validation: Bool[np.ndarray, " rows"], *, dataset: str
) -> Query:
    """Return private values as a query; `validation`, public and drawn without the data, marks the judges.

    Examples
    --------
    >>> histogram_query(np.array([0.5, 0.1]), np.array([True, False]), dataset="toy").n
    2
    """
    value = {"x": x, "validation": validation}
    return Query(dataset, "values", value, Unit.ROW, n=len(x), l1=float("inf"))


def _split(query: Query) -> Mapping[str, np.ndarray]:
    held = query.value
    if not (isinstance(held, Mapping) and {"x", "validation"} <= held.keys()):
        raise ValueError("query must hold values x and the split; build it with histogram_query")
    x, validation = held["x"], held["validation"]
    if not (x.shape == (query.n,) and x.dtype.kind == "f"):
        raise ValueError(f"x must be a float vector of length n, got shape={x.shape}")
    if not (validation.shape == x.shape and validation.dtype == np.bool_):
        raise ValueError("query must hold one boolean per value, validation")
    if not 0 < validation.sum() < query.n:
        raise ValueError("validation must leave values on both sides of the split")
    return held
