"""For comparison: candidates judged by their own sensitivity, not by the largest of all.

Stable candidates are judged with less noise, and favoured. No run uses these;
``python -m benchmarks.learners.histogram_density`` prints what they reach.

>>> generalized_scores(np.array([0.5, 0.4]), np.array([0.1, 0.1]), epsilon=1.0)
array([ 0. , -0.5])
"""

import math
from dataclasses import dataclass
from functools import partial

import numpy as np
from jaxtyping import Float

from learners.selection.histogram_width import HistogramValidation
from learners.selection.public_split import SplitRows, noisiest, split_rows
from learners.selection.stability import StabilityValidation
from privacy.mechanism import Json, Noise
from privacy.mechanisms import PureEvent
from privacy.query import Query

__all__ = ["PerCandidateValidation", "PerWidthValidation", "generalized_scores"]

CONFIDENCE = 0.05  # of the paper's shift; it sets utility, not privacy


@dataclass(frozen=True, slots=True)
class PerCandidateValidation:
    """`StabilityValidation` with each candidate judged by its own sensitivity, not by the largest.

    With beta_i the `score_sensitivity` of candidate i alone, k candidates and shift = 2 ln(k / 0.05) /
    epsilon_select:

        s_i = min over j of ((q_i - shift beta_i) - (q_j - shift beta_j)) / (beta_i + beta_j)

    and the candidate of largest s_i + 2 Z_i is trained again, s_i in steps of 1 / 4096 and Z_i
    exponential of mean 1 / epsilon_select, a choice of `NoisyMax`. Stable candidates are favoured: it
    helps where the strongest regularization is not far from the best, and hurts where the weakest is
    best.

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
    >>> selection = StabilityValidation((0.01, 0.1), 0.5, 0.5, norm_bound=1.0, n_classes=2)
    >>> PerCandidateValidation(selection).selection.epsilon_select
    0.5
    """

    selection: StabilityValidation

    def event(self, query: Query) -> PureEvent:
        """Describe a release on this query; raise for one without training and validation rows."""
        inner = self.selection.event(query)
        return PureEvent(
            "validation, per candidate", inner.epsilon, inner.parameters, inner.arithmetic
        )

    def draw(self, query: Query, noise: Noise) -> Json:
        """Choose and train on the query's rows; only the ledger calls this."""
        knobs = self.selection
        return self.choose(split_rows(query, knobs.norm_bound, knobs.n_classes), noise)

    def choose(self, rows: SplitRows, noise: Noise) -> Json:
        """Choose and train on lifted rows, for `draw` and for experiments."""
        knobs = self.selection
        if len(knobs.candidates) == 1:
            return knobs.choose(rows, noise)
        train = partial(rows.train, epsilon=knobs.epsilon_train, noise=noise)
        beta = [knobs.sensitivity((candidate,), rows) for candidate in knobs.candidates]
        score = np.array([rows.score(train(candidate)) for candidate in knobs.candidates])
        normed = generalized_scores(score, np.array(beta), epsilon=knobs.epsilon_select)
        chosen = noisiest(normed, 1.0, knobs.epsilon_select, noise)
        return rows.release(train(knobs.candidates[chosen]), chosen, knobs.candidates)


def generalized_scores(
    score: Float[np.ndarray, " candidates"],
    sensitivity: Float[np.ndarray, " candidates"],
    *,
    epsilon: float,
) -> Float[np.ndarray, " candidates"]:
    """Return scores scaled to sensitivity one: 0 for the best after the shift, negative for the others."""
    shifted = score - 2 * math.log(len(score) / CONFIDENCE) / epsilon * sensitivity
    quotient = (shifted[:, None] - shifted) / (sensitivity[:, None] + sensitivity)
    return np.asarray(quotient.min(axis=1))


@dataclass(frozen=True, slots=True)
class PerWidthValidation:
    """`HistogramValidation` with each candidate judged by its own sensitivity, not by the largest.

    In `HistogramValidation` the finest bins set the noise of the choice; here wide bins are judged with
    little noise, and favoured. The choice is made as in `PerCandidateValidation`.

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
        """Describe a release on this query; raise for one without values on both sides of a split."""
        inner = self.selection.event(query)
        return PureEvent(
            "histogram validation, per width", inner.epsilon, inner.parameters, inner.arithmetic
        )

    def draw(self, query: Query, noise: Noise) -> Json:
        """Choose and count on the query's values; only the ledger calls this."""
        if len(self.selection.candidates) == 1:
            return self.selection.draw(query, noise)
        score, beta = self.selection.scores(query, noise)
        price = self.selection.epsilon_select
        normed = generalized_scores(score, beta, epsilon=price)
        return self.selection.release(query, noisiest(normed, 1.0, price, noise), noise)
