"""Principal subspaces under differential privacy: the mechanisms behind `PrivatePCA`.

`private_subspace` chooses among three, for the replacement of one row: Gaussian noise on the second
moments for a delta; without one, exact draws from the exponential mechanism, up to two components at once
and more of them one after another.

>>> private_subspace(1.0, 1e-6, n_components=2)
NoisyMoments(epsilon=1.0, delta=1e-06, n_components=2)
>>> private_subspace(1.0, 0.0, n_components=3)
DeflatedDirections(epsilon=1.0, n_components=3)
"""

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from learners.private.logistic_minimum import in_units
from privacy.accounting import SAFETY, check_price, keep_declared
from privacy.mechanism import ApproximateEvent, Json, Noise, PureEvent
from privacy.mechanisms import analytic_gaussian_scale
from privacy.query import Query, Unit, is_whole

__all__ = [
    "DeflatedDirections",
    "NoisyMoments",
    "PrincipalSubspace",
    "bingham_direction",
    "bingham_plane",
    "moments_query",
    "private_subspace",
]

BLOCK = 2048  # rows whose clipped copies are held at once: they stay in the cache
MOST = 1e100  # epsilon that is spent: more hardly changes a draw, and times the moments overflows
MAX_JOINT = 2  # components that one draw finds together


def moments_query(
    x: Float[np.ndarray, "rows features"],
    *,
    norm_bound: float,
    dataset: str,
    places: Int[np.ndarray, " some"] | None = None,
) -> Query:
    """Return the second moments of clipped rows, X'X / norm_bound^2, as a query for these mechanisms.

    Parameters
    ----------
    x
        Rows, **private**, read once a block at a time. A cell that is not finite counts as 0, because a
        refusal would reveal that there is one.
    norm_bound
        Declared l2 bound of a row, > 0, never taken from the data; longer rows are shortened to it.
    dataset
        The ledger's name of the data set.
    places
        Which rows; all of them if None.

    Raises
    ------
    ValueError
        If the rows are no float matrix, or the bound is not > 0 and finite.

    Notes
    -----
    **Guarantees.** Replacing one row moves the moments by at most the root of 2 in Frobenius norm, and the
    variance along any direction, or in any subspace, by at most 1.

    Examples
    --------
    >>> query = moments_query(np.array([[3.0, 4.0], [0.5, 0.0]]), norm_bound=1.0, dataset="toy")
    >>> query.value["moments"].round(2).tolist()
    [[0.61, 0.48], [0.48, 0.64]]
    """
    if not (x.ndim == 2 and min(x.shape) > 0 and np.issubdtype(x.dtype, np.floating)):
        raise ValueError(f"x must be a float matrix, got shape={x.shape} dtype={x.dtype}")
    if not 0 < norm_bound <= sys.float_info.max:  # a whole number beyond it is below infinity
        raise ValueError(f"norm_bound must be > 0 and finite, got {norm_bound=}")
    moments = np.zeros((x.shape[1], x.shape[1]))
    n = len(x if places is None else places)
    for start in range(0, n, BLOCK):
        block = slice(start, start + BLOCK)
        with np.errstate(over="ignore"):
            # in short floats the products would exceed the bound of the clipping
            row = x[block if places is None else places[block]].astype(np.float64, copy=False)
            part = row / norm_bound
            square = np.einsum("ij,ij->i", part, part)
        beyond = ~np.isfinite(square)  # of a cell, or a ratio or square too large for a double
        if beyond.any():  # these rows alone: in the last digits all others would show one of them
            some = np.where(np.isfinite(row[beyond]), row[beyond], 0.0)
            part[beyond] = shortened = in_units(some, norm_bound)
            square[beyond] = np.einsum("ij,ij->i", shortened, shortened)
        part /= np.sqrt(np.maximum(1.0, square))[:, None]
        moments += part.T @ part
    # the entries of one row's product add up to at most the number of features
    return Query(
        dataset, "second moments of clipped rows", {"moments": moments}, Unit.ROW, n=n,
        l1=2.0 * x.shape[1],
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class NoisyMoments:
    """The leading eigenvectors of second moments with Gaussian noise: for a delta.

    With A = X'X of rows of norm one at most, releases the leading eigenvectors and eigenvalues of A + E, E
    symmetric with independent entries: deviation s on the diagonal, s / sqrt(2) off it.

    Parameters
    ----------
    epsilon
        In (0, 100].
    delta
        In (0, 1/n).
    n_components
        >= 1 and below the number of features.

    Raises
    ------
    ValueError
        If a condition above is broken.

    Notes
    -----
    The query is that of `moments_query`. A release is `{"components": rows, "variance": numbers}`, the
    leading first, with the variance per row in units of norm_bound^2, at least 0.

    **Guarantees.** The event depends on public things alone; a query that holds no moments of more features
    than components, or of 1/delta rows or more, raises before it is paid.
    **Privacy.** Unit: row. Replacing x by z moves A by ||xx' - zz'||_F <= sqrt(2). In the coordinates
    (A_ii, sqrt(2) A_ij), whose l2 norm is that, E is Gaussian with deviation s in each: one Gaussian
    mechanism, whose s is the smallest at which the delta of epsilon, in closed form, is the claim (Theorem 8
    of [2]_). An equal deviation for all entries of a triangle, as in [1]_, would be twice the variance off
    the diagonal. What is computed from A + E costs nothing more. The proof is of real arithmetic: floating
    point is not covered.

    References
    ----------
    .. [1] Dwork, Talwar, Thakurta, Zhang, "Analyze Gauss", STOC (2014).
    .. [2] Balle, Wang, "Improving the Gaussian mechanism for differential privacy", ICML (2018).

    Examples
    --------
    >>> round(NoisyMoments(epsilon=1.0, delta=1e-6, n_components=2).deviation, 3)
    5.975
    """

    epsilon: float
    delta: float
    n_components: int

    def __post_init__(self) -> None:
        keep_declared(self)
        check_price(self.epsilon, self.delta)
        object.__setattr__(self, "n_components", _whole_components(self.n_components))

    @property
    def deviation(self) -> float:
        """Deviation s of the noise on a diagonal entry; public."""
        return analytic_gaussian_scale(self.epsilon, self.delta / SAFETY)

    def event(self, query: Query) -> ApproximateEvent:
        """Describe a release on this query; raise for one without moments, or of 1/delta rows."""
        knobs = _public_knobs(query, self.n_components)
        if not self.delta * query.n < 1:
            raise ValueError(f"delta must be below 1/n, got delta={self.delta} with n={query.n}")
        knobs["deviation"] = self.deviation
        return ApproximateEvent("noisy second moments", self.epsilon, self.delta, knobs)

    def draw(self, query: Query, noise: Noise) -> Json:
        """Draw the noisy moments' eigenvectors; only the ledger calls this."""
        moments = _moments(query).copy()
        entry = np.triu_indices(len(moments))
        length = math.sqrt(noise.gamma(entry[0].size / 2, 2.0))  # the length of a Gaussian vector
        drawn = self.deviation * length * noise.direction(entry[0].size)
        drawn[entry[0] != entry[1]] /= math.sqrt(2.0)
        moments[entry] += drawn
        value, vector = np.linalg.eigh(moments, UPLO="U")
        leading = slice(None, -self.n_components - 1, -1)
        variance = np.maximum(value[leading], 0.0) / query.n
        return {"components": vector.T[leading].tolist(), "variance": variance.tolist()}


@dataclass(frozen=True, slots=True)
class PrincipalSubspace:
    """One direction, or one plane, drawn exactly from the exponential mechanism: pure epsilon.

    With A = X'X of rows of norm one at most, releases an orthonormal V with density in proportion to

        exp(epsilon / 2 trace(V'AV))

    Parameters
    ----------
    epsilon
        > 0.
    n_components
        1 or 2, and below the number of features.

    Raises
    ------
    ValueError
        If a condition above is broken.

    Notes
    -----
    The query is that of `moments_query`. A release is `{"components": rows}`. The two of a plane are a
    uniformly random basis of it: their order means nothing.

    **Guarantees.** The law is exact, by rejection, whatever the moments; a Markov chain would have only an
    approximate guarantee [1]_. No draw gives up, so that none fails because of the rows. The event depends
    on public things alone.
    **Privacy.** Unit: row. Replacing x by z moves trace(V'AV) by ||V'x||^2 - ||V'z||^2, in [-1, 1] for any
    number of components, so that the density moves by a factor of exp(epsilon / 2), and its integral by
    another at most. How long a draw takes depends on the moments: do not publish it. The proof is of
    real arithmetic: floating point is not covered.

    References
    ----------
    .. [1] Chaudhuri, Sarwate, Sinha, "A near-optimal algorithm for differentially-private principal
       components", JMLR 14 (2013).

    Examples
    --------
    >>> query = moments_query(np.eye(3), norm_bound=1.0, dataset="toy")
    >>> PrincipalSubspace(epsilon=1.0, n_components=2).event(query).epsilon
    1.0
    """

    epsilon: float
    n_components: int

    def __post_init__(self) -> None:
        keep_declared(self)
        _check_epsilon(self.epsilon)
        object.__setattr__(self, "n_components", _whole_components(self.n_components))
        if not self.n_components <= MAX_JOINT:
            raise ValueError(
                f"n_components must be 1 or 2, got {self.n_components}: DeflatedDirections has more"
            )

    def event(self, query: Query) -> PureEvent:
        """Describe a release on this query; raise for one without moments."""
        knobs = _public_knobs(query, self.n_components)
        return PureEvent("principal subspace", self.epsilon, knobs)

    def draw(self, query: Query, noise: Noise) -> Json:
        """Draw the subspace; only the ledger calls this."""
        value, vector = np.linalg.eigh(min(self.epsilon, MOST) / 2 * _moments(query))
        draw = bingham_direction if self.n_components == 1 else bingham_plane
        found = draw(value[::-1], noise)
        return {"components": (found @ vector.T[::-1]).tolist()}


@dataclass(frozen=True, slots=True)
class DeflatedDirections:
    """Directions drawn one after another, each by the exponential mechanism on what is left: pure epsilon.

    The first is drawn as by `PrincipalSubspace`, each later one among the directions orthogonal to those
    before it, each at epsilon / n_components.

    Parameters
    ----------
    epsilon
        > 0, for all of them.
    n_components
        >= 1 and below the number of features.

    Raises
    ------
    ValueError
        If a condition above is broken.

    Notes
    -----
    Query and release are those of `PrincipalSubspace`; here the order is that of the draws.

    **Guarantees.** The components are orthonormal; the event depends on public things alone.
    **Privacy.** Unit: row. Given the directions before, which are public, a direction is a draw whose density
    one row moves by exp(epsilon / n_components) at most; such draws compose to epsilon. Floating point is
    not covered.

    References
    ----------
    .. [1] Amin, Dick, Kulesza, Munoz, Vassilvitskii, "Differentially private covariance estimation",
       NeurIPS (2019).

    Examples
    --------
    >>> query = moments_query(np.eye(4), norm_bound=1.0, dataset="toy")
    >>> DeflatedDirections(epsilon=1.0, n_components=3).event(query).epsilon
    1.0
    """

    epsilon: float
    n_components: int

    def __post_init__(self) -> None:
        keep_declared(self)
        _check_epsilon(self.epsilon)
        object.__setattr__(self, "n_components", _whole_components(self.n_components))

    def event(self, query: Query) -> PureEvent:
        """Describe a release on this query; raise for one without moments."""
        knobs = _public_knobs(query, self.n_components)
        return PureEvent("deflated directions", self.epsilon, knobs)

    def draw(self, query: Query, noise: Noise) -> Json:
        """Draw the directions; only the ledger calls this."""
        left = min(self.epsilon, MOST) / (2 * self.n_components) * _moments(query)
        basis, found = np.eye(len(left)), []
        for _ in range(self.n_components):
            value, vector = np.linalg.eigh(left)
            direction = vector @ bingham_direction(value, noise)[0]
            found.append(basis @ direction)
            rest = np.linalg.qr(np.column_stack([direction, np.eye(len(left))]))[0][:, 1:]
            basis, left = basis @ rest, rest.T @ left @ rest
        return {"components": np.array(found).tolist()}


def private_subspace(
    epsilon: float, delta: float, *, n_components: int
) -> NoisyMoments | PrincipalSubspace | DeflatedDirections:
    """Return the mechanism for these public numbers: the one of least error with this guarantee.

    Examples
    --------
    >>> private_subspace(1.0, 0.0, n_components=2)
    PrincipalSubspace(epsilon=1.0, n_components=2)
    """
    if delta > 0:
        return NoisyMoments(epsilon, delta, n_components)
    if n_components <= MAX_JOINT:
        return PrincipalSubspace(epsilon, n_components)
    return DeflatedDirections(epsilon, n_components)


def bingham_direction(
    concentration: Float[np.ndarray, " features"], noise: Noise
) -> Float[np.ndarray, "1 features"]:
    """Draw a unit vector with density in proportion to exp(sum_j concentration_j v_j^2), exactly.

    Rejection from an angular central Gaussian law [1]_, which at worst accepts about 0.86 / sqrt(features).

    References
    ----------
    .. [1] Kent, Ganeiber, Mardia, "A new unified approach for the simulation of a wide class of
       directional distributions", JCGS 27 (2018).
    """
    envelope = _Envelope.of(concentration.max() - concentration, concentration.size)
    while True:
        direction = _unit(noise.direction(concentration.size) / np.sqrt(envelope.precision))
        if -noise.gamma(1.0, 1.0) < envelope.log_ratio(direction):
            return np.asarray(direction)[None]


def bingham_plane(
    concentration: Float[np.ndarray, " features"], noise: Noise
) -> Float[np.ndarray, "2 features"]:
    """Draw an orthonormal pair with density in proportion to exp(sum_j concentration_j (v_j^2 + w_j^2)).

    Parameters
    ----------
    concentration
        Three numbers or more, falling.
    noise
        Where draws come from.

    Notes
    -----
    The density depends on the plane alone. A plane holds one direction w orthogonal to the first axis, and
    v, orthogonal to w: with w uniform on its sphere, and v on the sphere orthogonal to w, |v_1| is the
    density of a uniform plane (Blaschke and Petkantschin). So w and v are proposed one after the other,
    each from an angular central Gaussian law, and accepted in proportion to

        |v_1| exp(-w'Lw - v'Mv) (w'Ow)^h (v'Pv)^h (w'P^{-1}w)^{-1/2},   h = (features - 1) / 2

    where the last factor, at most the root of the largest entry of P, is the determinant of P on the
    complement of w. A random rotation follows, because the basis (v, w) would show the first axis.

    Some twenty directions are proposed for a plane in ten dimensions. At worst, two leading axes alike and
    L far above the others, there are some ten times features times the root of L / features.
    """
    features = concentration.size
    rest = concentration[1] - concentration[1:]
    fall = concentration[0] - concentration
    outer = _Envelope.of(rest, features - 1)
    inner = _Envelope.of(np.delete(fall, 1), features - 1).over(fall)
    widest = 0.5 * math.log(inner.precision[1:].max())
    while True:
        w = np.zeros(features)
        w[1:] = _unit(noise.direction(features - 1) / np.sqrt(outer.precision))
        across = w / inner.precision
        narrow = -0.5 * math.log(w @ across) - widest
        left = -noise.gamma(1.0, 1.0) - outer.log_ratio(w[1:]) - narrow
        if not left < 0:
            continue
        v = noise.gamma(features / 2, 2.0) ** 0.5 * noise.direction(features)
        v /= np.sqrt(inner.precision)
        v = _unit(v - across * (w @ v) / (w @ across))
        if left < inner.log_ratio(v) + math.log(abs(v[0])):
            turn = noise.direction(2)
            return np.array([turn[0] * v + turn[1] * w, turn[0] * w - turn[1] * v])


@dataclass(frozen=True, slots=True, eq=False)
class _Envelope:
    """An angular central Gaussian law over exp(-v'Lv), L = diag(fall), on a sphere of `dimension`.

    `precision` is 1 + 2 fall / s; the ratio of exp(-m) to (1 + 2m / s)^(-dimension / 2) is largest at m =
    (dimension - s) / 2, whatever s in (0, dimension].
    """

    fall: Float[np.ndarray, " features"]
    dimension: int
    s: float

    @classmethod
    def of(cls, fall: Float[np.ndarray, " features"], dimension: int) -> "_Envelope":
        """Return the envelope that accepts most: sum_j 1 / (s + 2 fall_j) = 1, by bisection."""
        low, high = 0.5, float(dimension)
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if (1 / (middle + 2 * fall)).sum() > 1 else (low, middle)
        return cls(fall, dimension, high)

    def over(self, fall: Float[np.ndarray, " others"]) -> "_Envelope":
        """Return the same s over other axes."""
        return _Envelope(fall, self.dimension, self.s)

    @property
    def precision(self) -> Float[np.ndarray, " features"]:
        """Of the Gaussian vectors whose directions are proposed."""
        return np.asarray(1 + 2 * self.fall / self.s)

    def log_ratio(self, direction: Float[np.ndarray, " features"]) -> float:
        """Return the log probability with which such a proposal is accepted, at most 0."""
        m = float(np.square(direction) @ self.fall)
        half = self.dimension / 2
        most = (self.s - self.dimension) / 2 + half * math.log(self.dimension / self.s)
        return -m + half * math.log1p(2 * m / self.s) - most


def _unit(vector: Float[np.ndarray, " features"]) -> Float[np.ndarray, " features"]:
    return np.asarray(vector / np.linalg.norm(vector))


def _public_knobs(query: Query, n_components: int) -> dict[str, Any]:
    """Return what an event records; raise ValueError for a query without moments of enough features."""
    n_features = len(_moments(query))
    if not n_components < n_features:
        raise ValueError(
            "n_components must be below the number of features, "
            f"got n_components={n_components} with n_features={n_features}"
        )
    return {"n_components": n_components, "n_features": n_features, "n": query.n}


def _moments(query: Query) -> Float[np.ndarray, "features features"]:
    held = query.value.get("moments") if isinstance(query.value, Mapping) else None
    square = held is not None and held.ndim == 2 and held.shape[0] == held.shape[1]
    if held is None or not (square and held.dtype == np.float64):
        raise ValueError("query must hold second moments; build it with moments_query")
    return held


def _check_epsilon(epsilon: float) -> None:
    if not 0 < epsilon <= sys.float_info.max:
        raise ValueError(f"epsilon must be > 0 and finite, got epsilon={epsilon}")


def _whole_components(n_components: int) -> int:
    """Return the number as one of Python's, for JSON: the draw, which writes it, comes after payment."""
    if not (is_whole(n_components) and n_components >= 1):
        raise ValueError(
            f"n_components must be a whole number >= 1, got n_components={n_components}"
        )
    return int(n_components)
