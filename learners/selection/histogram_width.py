"""Choosing a histogram's number of bins privately, by a score that is stable under replacement.

One mechanism for the ledger, which pays for the whole procedure. Pure: no delta is spent.

Choosing the regularization by scores whose sensitivities differ from candidate to candidate.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
from jaxtyping import Bool, Float, Int

from learners.private import bin_counts, check_bins, density_of
from learners.selection.stability import (
    SplitRows,
    StabilityValidation,
    check_price,
    score_sensitivity,
    split_rows,
)
from privacy.mechanism import Json, Noise
from privacy.mechanisms import LatticeLaplace, PureEvent, exact
from privacy.query import Query, Unit

__all__ = [
    "HistogramValidation",
    "PerCandidateValidation",
    "PerWidthValidation",
    "generalized_scores",
    "histogram_query",
    "histogram_score",
    "histogram_sensitivity",
    "noisiest",
]

CONFIDENCE = 0.05  # of the paper's shift; it sets utility, not privacy


@dataclass(frozen=True, slots=True)
class PerCandidateValidation:
    """As `StabilityValidation`, each candidate judged by its own sensitivity, not by the largest.

    With beta_i the `score_sensitivity` of candidate i alone, k candidates and shift = 2 ln(k / 0.05) /
    epsilon_select:

        s_i = min over j of ((q_i - shift beta_i) - (q_j - shift beta_j)) / (beta_i + beta_j)

    and the candidate of largest s_i + 2 Z_i is trained again, Z_i exponential of mean 1 /
    epsilon_select. Stable candidates are favoured: it helps where the strongest regularization is
    not far from the best, and hurts where the weakest is best.

    Parameters
    ----------
    selection
        Candidates and prices.

    Notes
    -----
    **Guarantees.** Without noise in the choice, and all sensitivities equal, the best score wins; the
    cost is that of `selection`.
    **Privacy.** Unit: the query's. With the trainings' noise fixed, replacing one row moves q_i - q_j by
    at most beta_i + beta_j, so each quotient, and their minimum s_i, by at most 1: report-noisy-max
    with exponential noise of mean 2 / epsilon_select costs epsilon_select. The rest is as in
    `StabilityValidation`.

    References
    ----------
    .. [1] Raskhodnikova, Smith, "Lipschitz extensions for node-private graph statistics and the
       generalized exponential mechanism", FOCS (2016).

    Examples
    --------
    >>> from learners.private.objective_perturbation import training_query
    >>> mechanism = PerCandidateValidation(
    ...     StabilityValidation((0.01, 0.1), 0.5, 0.5, norm_bound=1.0, n_classes=2)
    ... )
    >>> x, y = np.array([[-1.0], [1.0], [1.0]]), np.array([0, 1, 1])
    >>> query = training_query(x, y, dataset="toy", validation=np.array([False, False, True]))
    >>> mechanism.event(query).cost().epsilon
    Fraction(1, 1)
    """

    selection: StabilityValidation

    def event(self, query: Query) -> PureEvent:
        """Describe a release on this query; refuses one without training and validation rows."""
        inner = self.selection.event(query)
        return PureEvent("validation, per candidate", inner.epsilon, inner.parameters)

    def draw(self, query: Query, noise: Noise) -> Json:
        """Choose and train on the query's rows; only the ledger calls this."""
        knobs = self.selection
        return self.choose(split_rows(query, knobs.norm_bound, knobs.n_classes), noise)

    def choose(self, rows: SplitRows, noise: Noise) -> Json:
        """Choose and train on lifted rows, for `draw` and for experiments."""
        knobs = self.selection
        train = partial(rows.train, epsilon=knobs.epsilon_train, noise=noise)
        beta = [
            score_sensitivity(
                (candidate,),
                epsilon_train=knobs.epsilon_train,
                n_train=len(rows.row),
                n_validation=len(rows.judge),
                columns=rows.row.shape[1],
                n_problems=len(rows.sign),
            )
            for candidate in knobs.candidates
        ]
        score = np.array([rows.score(train(candidate)) for candidate in knobs.candidates])
        normed = generalized_scores(score, np.array(beta), epsilon=knobs.epsilon_select)
        chosen = int(
            np.argmax([one + 2 * noise.exponential(1 / knobs.epsilon_select) for one in normed])
        )
        return rows.release(train(knobs.candidates[chosen]), chosen, knobs.candidates)


def generalized_scores(
    score: Float[np.ndarray, " candidates"],
    sensitivity: Float[np.ndarray, " candidates"],
    *,
    epsilon: float,
) -> Float[np.ndarray, " candidates"]:
    """Scores brought to sensitivity one; 0 for the best after the shift, negative for the others.

    Examples
    --------
    >>> generalized_scores(np.array([0.5, 0.4]), np.array([0.1, 0.1]), epsilon=1.0)
    array([ 0. , -0.5])
    """
    shifted = score - 2 * math.log(len(score) / CONFIDENCE) / epsilon * sensitivity
    quotient = (shifted[:, None] - shifted) / (sensitivity[:, None] + sensitivity)
    return np.asarray(quotient.min(axis=1))


@dataclass(frozen=True, slots=True)
class HistogramValidation:
    """Count at each number of bins, choose one by a noisy score, count the chosen again.

    With T the training values, V the validation values, f the density of `PrivateHistogram`:

        t_i = q(f(T, bins_i, z_i), V) + 2 beta Z_i,   i* = argmax t_i,   release i*, counts of T + z

    where every z is fresh, q is `histogram_score`, beta the largest `histogram_sensitivity` and Z_i is
    exponential of mean 1 / epsilon_select.

    Parameters
    ----------
    candidates
        Numbers of bins to choose among, distinct, >= 2, public. The largest one sets beta.
    epsilon_counts
        For the counts of one histogram, > 0.
    epsilon_select
        For the choice, > 0.
    low, high
        Declared bounds, as in `PrivateHistogram`.

    Raises
    ------
    ValueError
        If a knob breaks the conditions above.

    Notes
    -----
    The query comes from `histogram_query`. A release is `{"counts", "chosen", "n_bins"}`, the counts
    noisy integers that add up to the number of training values; `density_of` makes a density of them.

    **Guarantees.** No replacement of a value moves a score by more than its sensitivity; without noise
    the best score wins, ties to the earlier candidate; the cost is `epsilon_counts + epsilon_select`
    for any number of candidates.
    **Privacy.** Unit: the query's, one value at most. Fix the noises z_i. Replacing a training value
    moves each score by at most 4 / (h n) and a validation value by 2 / (h m), see
    `histogram_sensitivity`, so i* is report-noisy-max with exponential noise: epsilon_select. Given i*,
    the second counting is fresh: epsilon_counts. The noise adds up to zero, which keeps the counts'
    sum at n or more whatever is drawn: [1]_ bounds it with probability 1 - delta, refuses small n and
    has 6 for our 4.

    References
    ----------
    .. [1] Chaudhuri, Vinterbo, "A stability-based validation procedure for differentially private
       machine learning", NIPS (2013), supplement, Theorem 6.

    Examples
    --------
    >>> mechanism = HistogramValidation((2, 20), 0.5, 0.5, low=0.0, high=1.0)
    >>> value = np.array([0.1, 0.4, 0.9])
    >>> query = histogram_query(value, np.array([False, False, True]), dataset="toy")
    >>> mechanism.event(query).cost().epsilon
    Fraction(1, 1)
    """

    candidates: tuple[int, ...]
    epsilon_counts: float
    epsilon_select: float
    low: float
    high: float

    def __post_init__(self) -> None:
        if not len(set(self.candidates)) == len(self.candidates) > 0:
            raise ValueError(f"candidates must be distinct, one at least, got {self.candidates}")
        for n_bins in self.candidates:
            check_bins(n_bins, self.low, self.high)
        check_price(epsilon_counts=self.epsilon_counts, epsilon_select=self.epsilon_select)

    def event(self, query: Query) -> PureEvent:
        """Describe a release on this query; refuses one without values on both sides of a split."""
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
        )

    def draw(self, query: Query, noise: Noise) -> Json:
        """Choose and count on the query's values; only the ledger calls this."""
        score, beta = self.scores(query, noise)
        chosen = noisiest(score, 2 * float(beta.max()) / self.epsilon_select, noise)
        return self.release(query, chosen, noise)

    def scores(
        self, query: Query, noise: Noise
    ) -> tuple[Float[np.ndarray, " candidates"], Float[np.ndarray, " candidates"]]:
        """Score of each candidate, **private**, and its sensitivity, public."""
        held = _split(query)
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
        """What leaves: the choice, and fresh noisy counts."""
        n_bins = self.candidates[chosen]
        counts = self._counts(_split(query), n_bins, noise)
        return {"counts": counts.tolist(), "chosen": chosen, "n_bins": n_bins}

    def _counts(
        self, held: Mapping[str, np.ndarray], n_bins: int, noise: Noise
    ) -> Int[np.ndarray, " bins"]:
        train = held["x"][~held["validation"]]
        counts = bin_counts(train, n_bins, self.low, self.high)
        query = Query("training", "bins", counts, Unit.ROW, n=len(train), l1=2.0)
        return np.array(LatticeLaplace(self.epsilon_counts).draw(query, noise))


@dataclass(frozen=True, slots=True)
class PerWidthValidation:
    """As `HistogramValidation`, each candidate judged by its own sensitivity, not by the largest.

    The finest bins set the noise of the choice there; here wide bins are judged with little noise, and
    favoured. The choice is that of `PerCandidateValidation`.

    Parameters
    ----------
    selection
        Candidates and prices.

    Notes
    -----
    **Guarantees.** The cost is that of `selection`.
    **Privacy.** As in `PerCandidateValidation`: the normed scores move by one at most.

    Examples
    --------
    >>> PerWidthValidation(HistogramValidation((2, 20), 0.5, 0.5, low=0.0, high=1.0)).selection.low
    0.0
    """

    selection: HistogramValidation

    def event(self, query: Query) -> PureEvent:
        """Describe a release on this query; refuses one without values on both sides of a split."""
        inner = self.selection.event(query)
        return PureEvent("histogram validation, per width", inner.epsilon, inner.parameters)

    def draw(self, query: Query, noise: Noise) -> Json:
        """Choose and count on the query's values; only the ledger calls this."""
        score, beta = self.selection.scores(query, noise)
        price = self.selection.epsilon_select
        normed = generalized_scores(score, beta, epsilon=price)
        return self.selection.release(query, noisiest(normed, 2 / price, noise), noise)


def histogram_query(
    x: Float[np.ndarray, " rows"], validation: Bool[np.ndarray, " rows"], *, dataset: str
) -> Query:
    """Private values as a query: `validation` says which judge, public and drawn without the data.

    Examples
    --------
    >>> histogram_query(np.array([0.5, 0.1]), np.array([True, False]), dataset="toy").n
    2
    """
    value = {"x": x, "validation": validation}
    return Query(dataset, "values", value, Unit.ROW, n=len(x), l1=float("inf"))


def histogram_score(density: Float[np.ndarray, " bins"], counts: Int[np.ndarray, " bins"]) -> float:
    """Minus the integrated square error against the validation values, up to a constant of theirs.

    For bins of [0, 1]: minus the integral of density^2, plus twice the mean density at the values.

    Examples
    --------
    >>> histogram_score(np.array([1.5, 0.5]), np.array([3, 1]))
    1.25
    """
    return float(-np.square(density).mean() + 2 * density @ counts / counts.sum())


def histogram_sensitivity(n_bins: int, n_train: int, n_validation: int) -> float:
    """How far one replaced value moves a histogram's score: n_bins max(4 / n, 2 / m).

    Notes
    -----
    Let p = kept / U be the bins' shares. A training value that moves changes two noisy counts by one
    each, hence two kept ones by one at most, up and down. If U' >= U, a share can grow only where the
    count did, by 1 / U' at most: the total variation is at most 1 / max(U, U') <= 1 / n. The first term
    of the score, sum p^2 / h, moves by at most 2 / h times that, and the second, 2 / h times a mean of
    shares, too. A validation value moves the second term alone, by 2 / (h m) at most.

    Examples
    --------
    >>> histogram_sensitivity(20, n_train=8000, n_validation=2000)
    0.02
    """
    return n_bins * max(4 / n_train, 2 / n_validation)


def noisiest(score: Float[np.ndarray, " candidates"], mean: float, noise: Noise) -> int:
    """Index of the largest score with exponential noise of this mean; ties to the earlier."""
    return int(np.argmax([one + noise.exponential(mean) for one in score]))


def _split(query: Query) -> Mapping[str, np.ndarray]:
    held = query.value
    if not (isinstance(held, Mapping) and {"x", "validation"} <= held.keys()):
        raise ValueError("query must hold values x and the split; build it with histogram_query")
    x, validation = held["x"], held["validation"]
    if not (x.shape == (query.n,) and x.dtype.kind == "f" and np.isfinite(x).all()):
        raise ValueError(f"x must be a finite float vector of length n, got shape={x.shape}")
    if not (validation.shape == x.shape and validation.dtype == np.bool_):
        raise ValueError("query must hold one boolean per value, validation")
    if not 0 < validation.sum() < query.n:
        raise ValueError("validation must leave values on both sides of the split")
    return held
