"""Private principal components as a scikit-learn estimator: the ledger pays for every fit.

>>> PrivatePCA(n_components=2, epsilon=0.5).get_params()["epsilon"]
0.5
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from learners.private.paying_estimators import PayingEstimator
from learners.private.subspaces import (
    DeflatedDirections,
    NoisyMoments,
    PrincipalSubspace,
    moments_query,
    private_subspace,
)
from privacy.ledger import Ledger
from privacy.query import Query, is_whole

__all__ = ["PrivatePCA"]

MECHANISMS = ("auto", "gaussian", "exponential", "deflation")


class PrivatePCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, PayingEstimator):  # type: ignore[misc]
    """Principal components that are differentially private, paid for by every fit.

    Parameters
    ----------
    ledger, dataset
        As for `PrivateLogisticRegression`.
    n_components
        >= 1 and below the number of features.
    epsilon
        Paid by one fit, > 0, and at most 100 with a delta. Fitting the same rows with the same parameters
        again is free.
    delta
        Paid by one fit too, in [0, 1/n).
    mechanism
        "auto": "gaussian" (`NoisyMoments`) for a delta; without one "exponential" (`PrincipalSubspace`) up
        to two components, "deflation" (`DeflatedDirections`) for more.
    norm_bound
        Declared l2 bound of a centred row, > 0, for "gaussian" of a finite square; longer rows are shortened
        to it when fitting.
    center
        Public mean that is taken from every row: one number per feature, never taken from the data; None
        for zero.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Orthonormal rows. Of the mechanism "exponential" they are a basis at random, in no order.
    explained_variance_ : ndarray of shape (n_components,) or None
        Noisy mean square of the rows along each component, in their unit squared; "gaussian" alone has it.
    mean_ : ndarray of shape (n_features,)
        `center`, or zeros.
    entry_ : int
        The ledger's entry that paid; its event names the mechanism and its knobs.
    n_features_in_ : int
        Number of features.

    Raises
    ------
    ValueError
        From `fit`, without a ledger, or if a parameter breaks its condition. The message shows no value of
        the rows.

    Notes
    -----
    The guarantee is about the components. The rows that `transform` returns are projections of private rows,
    and as private as those: a classifier on them spends its own budget. A projection makes no row longer, so
    the bound still holds. A scaler fitted on the rows beforehand would read them unpaid.

    **When not to use it.** Compare with no reduction, and with a random projection, which costs nothing. For
    delta = 0 the loss grows as features times components over n epsilon: with a delta there is far less.

    **Guarantees.** No fit without a ledger; the price is `epsilon` and `delta`; a refused fit leaves the last
    one's attributes; rows in another unit, with bound and center in it, have the same components' law; a
    projected row is at most as long as the row.
    **Privacy.** Unit: row. See the mechanisms.

    References
    ----------
    .. [1] Chaudhuri, Sarwate, Sinha, "A near-optimal algorithm for differentially-private principal
       components", JMLR 14 (2013).

    Examples
    --------
    >>> PrivatePCA(n_components=1).fit([[0.0, 1.0], [1.0, 0.0]])
    Traceback (most recent call last):
        ...
    ValueError: ledger must be given: a private fit is paid for, got ledger=None
    """

    def __init__(
        self,
        ledger: Ledger | None = None,
        dataset: str = "training",
        *,
        n_components: int = 1,
        epsilon: float = 1.0,
        delta: float = 0.0,
        mechanism: str = "auto",
        norm_bound: float = 1.0,
        center: Sequence[Any] | NDArray[Any] | None = None,
    ) -> None:
        self.ledger = ledger
        self.dataset = dataset
        self.n_components = n_components
        self.epsilon = epsilon
        self.delta = delta
        self.mechanism = mechanism
        self.norm_bound = norm_bound
        self.center = center

    def fit(self, X: ArrayLike, y: object = None) -> "PrivatePCA":
        """Learn the components of private rows, at the price of `epsilon` and `delta`; `y` is ignored."""
        release = self._paying_ledger().release(*self.request(X))
        # only now: a refused fit leaves the model of the last one as it was
        validate_data(self, X, skip_check_array=True)
        self.mean_ = self._center(self.n_features_in_)
        self.components_ = np.array(release.value["components"])
        variance = release.value.get("variance")
        self.explained_variance_ = (
            None if variance is None else np.array(variance) * self._number("norm_bound") ** 2
        )
        self.entry_ = release.entry
        return self

    def request(
        self, X: ArrayLike
    ) -> tuple[NoisyMoments | PrincipalSubspace | DeflatedDirections, Query]:
        """Return the request of `fit` to the ledger, unpaid, for `Ledger.afford`; sets nothing."""
        epsilon, delta, bound = map(self._number, ("epsilon", "delta", "norm_bound"))
        mechanism = self._chosen(epsilon, delta)
        row = self._checked(X)
        center = self._center(row.shape[1])
        if self.center is not None:
            with np.errstate(over="ignore"):  # then the row is clipped in any case
                row = np.nan_to_num(row - center)
        query = moments_query(row, norm_bound=bound, dataset=self.dataset)
        bound = float(bound)
        if isinstance(mechanism, NoisyMoments) and not bound * bound < math.inf:
            raise ValueError(
                "norm_bound must have a finite square, the unit of the variance,"
                f" got norm_bound={self.norm_bound}"
            )
        return mechanism, query

    def transform(self, X: ArrayLike) -> Float[np.ndarray, "rows components"]:
        """Project centred rows, as they are: nothing is clipped, and nothing made private."""
        check_is_fitted(self)
        row = validate_data(self, X, dtype=np.float64, reset=False)
        with np.errstate(over="ignore", invalid="ignore"):
            projected = (row - self.mean_) @ self.components_.T
        if not np.isfinite(projected).all():
            raise ValueError("X must be small enough for finite projections: scale rows and center")
        return np.asarray(projected)

    def inverse_transform(
        self, X: Float[np.ndarray, "rows components"]
    ) -> Float[np.ndarray, "rows features"]:
        """Return the rows in the features' space that have these projections and nothing else."""
        check_is_fitted(self)
        row = check_array(X, dtype=np.float64)
        if not row.shape[1] == len(self.components_):
            raise ValueError(
                f"X must have a column for each of {len(self.components_)} components, got shape={row.shape}"
            )
        return np.asarray(row @ self.components_ + self.mean_)

    def _center(self, width: int) -> Float[np.ndarray, " features"]:
        """Return the public mean of rows of this width."""
        try:
            center = np.zeros(width) if self.center is None else np.array(self.center, float)
        except (TypeError, ValueError):
            raise ValueError(
                f"center must be {width} finite numbers, got something else in it"
            ) from None
        if not (center.shape == (width,) and np.isfinite(center).all()):
            raise ValueError(f"center must be {width} finite numbers, got shape={center.shape}")
        return center

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def _chosen(
        self, epsilon: float, delta: float
    ) -> NoisyMoments | PrincipalSubspace | DeflatedDirections:
        """Return the mechanism of the parameters."""
        if not is_whole(self.n_components):
            raise TypeError(f"n_components must be a whole number, got {self.n_components!r}")
        count = int(self.n_components)
        if self.mechanism not in MECHANISMS:
            raise ValueError(f"mechanism must be one of {MECHANISMS}, got {self.mechanism!r}")
        fits = self.mechanism == "auto" or (delta > 0) == (self.mechanism == "gaussian")
        if not (fits and delta >= 0):
            raise ValueError(
                'delta must be > 0 for "gaussian" and 0 for "exponential" and "deflation", '
                f"got delta={delta} with mechanism={self.mechanism!r}"
            )
        if self.mechanism == "deflation":
            return DeflatedDirections(epsilon, count)
        if self.mechanism == "exponential":
            return PrincipalSubspace(epsilon, count)
        return private_subspace(epsilon, delta, n_components=count)
