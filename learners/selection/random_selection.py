"""The cheapest choices of a regularization, to compare with: at random, and with all the data in view."""

from dataclasses import dataclass

import numpy as np

from learners.selection.candidates import (
    SplitRows,
    check_candidates,
    check_price,
    check_split,
    split_rows,
)
from privacy.mechanism import Json, Noise
from privacy.mechanisms.kinds import PureEvent
from privacy.query import Query

__all__ = ["RandomSelection", "control_selection"]


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
