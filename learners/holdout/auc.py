"""The area under the ROC curve, with a sensitivity that public numbers declare."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

__all__ = ["Auc"]


@dataclass(frozen=True, slots=True)
class Auc:
    """Share of pairs of a positive and a negative record that scores put in order, ties half.

    With U pairs in order, p positive and q negative records: U / (max(p, a) max(q, b)), where a and b
    are the least numbers declared. It is the area itself where the declaration holds, and below it
    otherwise, so that the declaration need not be true for the sensitivity to be.

    Parameters
    ----------
    least_positive, least_negative
        a and b, **public**, >= 1: never taken from the data.

    Raises
    ------
    ValueError
        If they are not.

    Notes
    -----
    **Guarantees.** In [0, 1]; replacing one record, its class with it, moves the value by at most
    `sensitivity` = 1 / a + 1 / b, whatever the records; 0 without records of one class.
    *Proof.* For a fixed class, U is a sum over its records of terms of at most the other class's number:
    a replaced positive record moves the value by at most q / (max(p, a) max(q, b)) <= 1 / a. A positive
    record that leaves: if p <= a the denominator stays, and the value falls by at most 1 / a; if p > a the
    value is a mean of p numbers in [0, 1], and leaving one out moves it by at most 1 / p < 1 / a. One that
    joins undoes a departure. A class that changes is one departure and one arrival of the other class.

    Examples
    --------
    >>> metric = Auc(least_positive=2, least_negative=2)
    >>> metric.value(np.array([0.9, 0.4, 0.6, 0.1]), np.array([True, True, False, False]))
    0.75
    >>> metric.sensitivity
    1.0
    """

    least_positive: int
    least_negative: int

    def __post_init__(self) -> None:
        for name, least in (
            ("least_positive", self.least_positive), ("least_negative", self.least_negative)
        ):  # fmt: skip
            if not (isinstance(least, int) and least >= 1):
                raise ValueError(f"{name} must be a whole number >= 1, got {name}={least}")

    @property
    def sensitivity(self) -> float:
        """By how much one replaced record can move the value."""
        return 1 / self.least_positive + 1 / self.least_negative

    def value(
        self, score: Float[np.ndarray, " records"], positive: Bool[np.ndarray, " records"]
    ) -> float:
        """Compute it, **private**; refuses scores that have no order.

        Raises
        ------
        ValueError
            If there is not one score and one boolean for each record, or a score is NaN.
        """
        if not (score.ndim == 1 and score.shape == positive.shape and positive.dtype == np.bool_):
            raise ValueError("score and positive must be one number and one boolean per record")
        if np.isnan(score).any():
            raise ValueError("score must be a number for every record")
        p = int(positive.sum())
        _, place, count = np.unique(score, return_inverse=True, return_counts=True)
        rank = np.cumsum(count) - (count - 1) / 2  # equal scores share the middle of their ranks
        in_order = float(rank[place[positive]].sum()) - p * (p + 1) / 2
        pairs = max(p, self.least_positive) * max(len(score) - p, self.least_negative)
        return in_order / pairs
