"""A histogram as a density estimate, over declared bounds, paid through the ledger."""

import math

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from privacy.ledger import Ledger
from privacy.mechanisms import LatticeLaplace
from privacy.query import Query, Unit

__all__ = ["PrivateHistogram", "bin_counts", "check_bins", "density_of"]


class PrivateHistogram(DensityMixin, BaseEstimator):  # type: ignore[misc]
    """A differentially private histogram density of one column, which pays for every fit.

    With n_j the rows in bin j, of width h, and z lattice Laplace noise, whose entries add up to zero:

        kept_j = max(0, n_j + z_j),   density = kept_j / (h sum of kept)   on bin j

    Parameters
    ----------
    ledger
        Where fits are booked. Without one, `fit` refuses: no payment, no noise.
    dataset
        The ledger's name of the data set; its budget must be open, for the unit `row`.
    epsilon
        Paid by one fit, > 0. Fitting the same rows with the same parameters again is free.
    low, high
        Declared bounds, finite, low < high: public, never taken from the data. What lies outside is
        counted in the first or last bin.
    n_bins
        Bins of equal width, >= 2, public. Choose it with `HistogramValidation`, or beforehand.

    Attributes
    ----------
    bin_edges_ : ndarray of shape (n_bins + 1,)
        From `low` to `high`.
    density_ : ndarray of shape (n_bins,)
        Of each bin; its integral is one.
    entry_ : int
        The ledger's entry that paid.
    n_features_in_ : int
        One.

    Notes
    -----
    Clones share the ledger. A pickled estimator keeps its density and leaves the ledger behind, so it
    scores but cannot fit.

    **Guarantees.** The density is >= 0 and integrates to one; no fit without a ledger; bounds and bins
    do not depend on the data; the cost is `epsilon`.
    **Privacy.** Unit: row. One replaced row leaves one bin and joins another, 2 in l1 norm: see
    `LatticeLaplace`. The noise adds up to zero and negative counts are cut off, so that the sum of
    what is kept is n at least and never zero, where [1]_ needs an event of small delta for that.

    References
    ----------
    .. [1] Chaudhuri, Vinterbo, "A stability-based validation procedure for differentially private
       machine learning", NIPS (2013), supplement, Algorithm 5.

    Examples
    --------
    >>> PrivateHistogram(low=0.0, high=1.0).fit([[0.2], [0.7]])
    Traceback (most recent call last):
        ...
    ValueError: ledger must be given: a private fit is paid for, got ledger=None
    """

    def __init__(
        self,
        ledger: Ledger | None = None,
        dataset: str = "training",
        *,
        epsilon: float = 1.0,
        low: float = 0.0,
        high: float = 1.0,
        n_bins: int = 20,
    ) -> None:
        self.ledger = ledger
        self.dataset = dataset
        self.epsilon = epsilon
        self.low = low
        self.high = high
        self.n_bins = n_bins

    def fit(self, X: ArrayLike, y: object = None) -> "PrivateHistogram":
        """Count private rows of one column, at the price of `epsilon`; `y` is ignored."""
        if self.ledger is None:
            raise ValueError("ledger must be given: a private fit is paid for, got ledger=None")
        check_bins(self.n_bins, self.low, self.high)
        value = self._column(X, reset=True)
        query = Query(
            self.dataset,
            f"rows in {self.n_bins} bins from {self.low} to {self.high}",
            bin_counts(value, self.n_bins, self.low, self.high),
            Unit.ROW,
            n=len(value),
            l1=2.0,
        )
        release = self.ledger.release(LatticeLaplace(self.epsilon), query)
        width = (self.high - self.low) / self.n_bins
        self.density_ = density_of(np.array(release.value), width)
        self.bin_edges_ = np.linspace(self.low, self.high, self.n_bins + 1)
        self.entry_ = release.entry
        return self

    def score_samples(self, X: ArrayLike) -> NDArray[np.float64]:
        """Log density at each row; minus infinity where it is zero, and outside the bounds."""
        check_is_fitted(self)
        value = self._column(X, reset=False)
        found = self.density_[_code(value, self.n_bins, self.low, self.high)]
        inside = (value >= self.low) & (value <= self.high)
        with np.errstate(divide="ignore"):
            return np.log(np.where(inside, found, 0.0))

    def score(self, X: ArrayLike, y: object = None) -> float:
        """Sum of the log densities of the rows; `y` is ignored."""
        return float(self.score_samples(X).sum())

    def sample(self, n_samples: int, *, rng: np.random.Generator) -> Float[np.ndarray, "rows 1"]:
        """Rows drawn from the density: post-processing of what was released."""
        check_is_fitted(self)
        width = self.bin_edges_[1] - self.bin_edges_[0]
        share = self.density_ * width
        code = rng.choice(self.n_bins, p=share / share.sum(), size=n_samples)
        return np.asarray(self.bin_edges_[code] + width * rng.random(n_samples))[:, None]

    def __sklearn_clone__(self) -> "PrivateHistogram":
        # a copy of the ledger would be another door to the same money
        return type(self)(**self.get_params(deep=False))

    def __getstate__(self) -> dict[str, object]:
        return {**super().__getstate__(), "ledger": None}

    def _column(self, X: ArrayLike, *, reset: bool) -> Float[np.ndarray, " rows"]:
        row = validate_data(self, X, dtype=np.float64, reset=reset)
        if not row.shape[1] == 1:
            raise ValueError(f"X must have one column, got shape={row.shape}")
        return np.asarray(row[:, 0])


def bin_counts(
    value: Float[np.ndarray, " rows"], n_bins: int, low: float, high: float
) -> Int[np.ndarray, " bins"]:
    """Count values by bins of equal width; those outside the bounds in the first or the last.

    Examples
    --------
    >>> bin_counts(np.array([-3.0, 0.1, 0.5, 1.0]), 2, 0.0, 1.0)
    array([2, 2])
    """
    return np.bincount(_code(value, n_bins, low, high), minlength=n_bins)


def density_of(noisy: Int[np.ndarray, " bins"], width: float) -> Float[np.ndarray, " bins"]:
    """Density of noisy counts, the negative ones cut off; one of them at least must be positive.

    Examples
    --------
    >>> density_of(np.array([3, -1, 1]), 0.5)
    array([1.5, 0. , 0.5])
    """
    kept = np.maximum(noisy, 0)
    return np.asarray(kept / (width * kept.sum()))


def check_bins(n_bins: int, low: float, high: float) -> None:
    """Refuse bins and bounds that no histogram can have."""
    if not (isinstance(n_bins, int) and n_bins >= 2):
        raise ValueError(f"n_bins must be a whole number >= 2, got n_bins={n_bins}")
    if not -math.inf < low < high < math.inf:
        raise ValueError(f"low and high must be finite and low < high, got {low=} and {high=}")


def _code(
    value: Float[np.ndarray, " rows"], n_bins: int, low: float, high: float
) -> Int[np.ndarray, " rows"]:
    place = np.clip((value - low) / (high - low) * n_bins, 0, n_bins - 1)
    return np.asarray(np.floor(place).astype(np.intp))
