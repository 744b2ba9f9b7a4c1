"""Objective perturbation with Gaussian noise: the mechanism, its privacy loss, and the noise for a loss.

It needs much less noise than `ObjectivePerturbation` where there are many features, for a delta.

>>> deviation = noise_deviation(1.0, 1e-6, n_problems=1)
>>> chi_delta(1.0, 2 / deviation, n_problems=1) <= 1e-6
True
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from jaxtyping import Float
from scipy.special import gammaincc

from learners.private.linear_model import Signed, check_knobs, to_coef
from learners.private.logistic_minimum import Lifted
from learners.private.objective_perturbation import (
    EpsilonSplit,
    check_training_price,
    lifted_rows,
    noisy_minimum,
    public_knobs,
    reachable_norm,
    split_epsilon,
)
from privacy.accounting import MAX_EPSILON, check_epsilon, is_covered, keep_declared
from privacy.mechanism import Json, Noise
from privacy.mechanisms import ApproximateEvent
from privacy.query import Query

__all__ = [
    "GaussianObjectivePerturbation",
    "chi_delta",
    "gaussian_weight",
    "noise_deviation",
]

BEYOND = 13.0  # deviations above the mean, where a chi's tail is below exp(-80)


def chi_delta(epsilon: float, shift: float, n_problems: int) -> float:
    """Return delta at `epsilon` for a privacy loss of at most shift^2 / 2 + shift * chi, with 2k degrees.

    `epsilon`, in (0, 100], is the claim less the Jacobian's share; `shift`, > 0, is how far a replaced row
    moves the noise of all k = `n_problems` problems together, in standard deviations. Delta is the
    expectation of max(0, 1 - exp(epsilon - loss)). A ValueError is raised for arguments out of range.

    Notes
    -----
    With S the tail of chi and z = (epsilon - shift^2 / 2) / shift, integrating by parts gives the
    integral of shift exp(-shift t) S(z + t) over t >= 0, whose terms are positive. For one problem it is

        e^(-z^2/2) - e^(epsilon - shift^2/2) (e^(-z^2/2 - shift z)
                                              - shift e^(shift^2/2) sqrt(2 pi) Phi(-z - shift)).

    **Guarantees.** The value is this loss's divergence of order e^epsilon; it falls with epsilon and
    grows with the shift and the number of problems.

    Examples
    --------
    >>> round(chi_delta(1.0, 0.2, 1), 9)
    2.31e-07
    """
    check_epsilon(epsilon)
    if not 0 < shift < math.inf:
        raise ValueError(f"shift must be > 0 and finite, got shift={shift}")
    if not n_problems >= 1:
        raise ValueError(f"n_problems must be >= 1, got n_problems={n_problems}")
    start = (epsilon - shift**2 / 2) / shift
    sure = max(0.0, -start)  # the tail is one up to here
    start = max(0.0, start)
    reach = max(math.sqrt(2 * n_problems) + BEYOND - start, BEYOND)
    node, weight = _nodes()
    t = reach / 2 * (node + 1)
    tail = gammaincc(n_problems, (start + t) ** 2 / 2)
    rest = float(reach / 2 * weight @ (shift * np.exp(-shift * t) * tail))
    beyond = float(gammaincc(n_problems, (start + reach) ** 2 / 2))
    return min(1.0, -math.expm1(-shift * sure) + math.exp(-shift * sure) * (rest + beyond))


@lru_cache(maxsize=1)
def _nodes() -> tuple[np.ndarray, np.ndarray]:
    """Return nodes and weights of the quadrature, computed when first used."""
    return np.polynomial.legendre.leggauss(400)


@lru_cache(maxsize=256)
def noise_deviation(epsilon: float, delta: float, n_problems: int) -> float:
    """Return the smallest deviation of the noise on k problems' sums of losses that costs (epsilon, delta).

    `epsilon`, in (0, 100], is the claim less the Jacobian's share; k = `n_problems`, all trained on the
    same rows of norm one at most. The deviation is that of each coordinate. Raise ValueError for
    arguments out of range. A replaced row moves each problem's gradient by 2 at most, all of them
    together by 2 sqrt(k).

    **Guarantees.** The delta at the returned deviation, computed anew and raised by a millionth for
    rounding, is at most `delta`.

    Examples
    --------
    >>> round(noise_deviation(1.0, 1e-6, 1), 3)
    9.442
    """
    if not 0 < delta < 1:
        raise ValueError(f"delta must be in (0, 1), got delta={delta}")
    low, high = math.log(1e-6), math.log(2 * MAX_EPSILON)
    for _ in range(60):
        middle = (low + high) / 2
        if is_covered(chi_delta(epsilon, math.exp(middle), n_problems), delta):
            low = middle
        else:
            high = middle
    if not is_covered(chi_delta(epsilon, math.exp(low), n_problems), delta):
        raise ValueError(f"epsilon and delta must be larger, got epsilon={epsilon}, delta={delta}")
    return 2 * math.sqrt(n_problems) / math.exp(low)


@dataclass(frozen=True, slots=True)
class GaussianObjectivePerturbation:
    """Differentially private logistic regression: each problem's objective carries Gaussian noise.

    For each of k problems (one per class against the others; a single one for two classes), with
    s = +-1, z = (x / norm_bound, 1) / sqrt(2) the clipped and lifted row, releases

        w = argmin lam / 2 ||w||^2 + mean log(1 + exp(-s w.z)) + (deviation / n) G.w

    where lam = regularization + `split_epsilon`'s extra one, deviation is `noise_deviation` and
    G is a standard Gaussian vector.

    Parameters
    ----------
    epsilon
        Total for the released model, in (0, 100].
    delta
        Total for the released model, in (0, 1/n).
    regularization, norm_bound, n_classes
        As in `ObjectivePerturbation`, errors included.

    Notes
    -----
    Query and release are those of `ObjectivePerturbation`.

    **Guarantees.** The released weights lie within the certified distance of the minimum, for
    any rows; the event depends on knobs and the number of rows alone; a query without trainable
    rows, or of 1/delta rows or more, raises before it is paid.
    **Privacy.** Unit: the query's, whose replacement must change one row at most. Let D, D' differ
    in one row. At given weights of all k problems the noises of the sums of losses must have been b and
    b + v: (1) v_j = l'(z) z - l'(z') z' up to signs, for problem j, lies in the span of the two rows and
    has norm 2 at most, so v lies in 2k dimensions, the same for all weights, and ||v|| <= 2 sqrt(k).
    The Gaussians' log ratio is (||v||^2 + 2 b.v) / (2 deviation^2) <= shift^2 / 2 + shift chi, with shift
    = 2 sqrt(k) / deviation and chi the norm of b / deviation within those dimensions: its law has 2k
    degrees of freedom, though v depends on b. (2) The determinants of k Hessians add k times the
    Jacobian's share, as in `ObjectivePerturbation`. So delta at epsilon is at most `chi_delta` of what
    the Jacobian leaves [2]_, in both directions. (3) A certified point near the minimum costs the
    minimum's share, as there. The proof is of real arithmetic: floating point is not covered.

    References
    ----------
    .. [1] Kifer, Smith, Thakurta, "Private convex empirical risk minimization and high-dimensional
       regression", COLT (2012).
    .. [2] Redberg, Koskela, Wang, "Improving the privacy and practicality of objective perturbation for
       differentially private linear learners", NeurIPS (2023): the loss for an added or removed row.
    .. [3] Iyengar et al., "Towards practical differentially private convex optimization",
       IEEE S&P (2019), approximate minima perturbation.

    Examples
    --------
    >>> from learners.private.objective_perturbation import training_query
    >>> mechanism = GaussianObjectivePerturbation(
    ...     epsilon=1.0, delta=1e-6, regularization=0.01, norm_bound=1.0, n_classes=2
    ... )
    >>> x, y = np.array([[-1.0], [1.0]]), np.array([0, 1])
    >>> mechanism.event(training_query(x, y, dataset="toy")).cost().delta
    Fraction(1, 1000000)
    """

    epsilon: float
    delta: float
    regularization: float
    norm_bound: float
    n_classes: int

    def __post_init__(self) -> None:
        keep_declared(self)
        check_epsilon(self.epsilon)
        check_training_price(epsilon=self.epsilon)
        if not 0 < self.delta < 1:
            raise ValueError(f"delta must be in (0, 1), got delta={self.delta}")
        check_knobs(self.regularization, self.norm_bound, self.n_classes)

    def event(self, query: Query) -> ApproximateEvent:
        """Describe a release on this query; raise for one without trainable rows, or of 1/delta rows."""
        knobs = public_knobs(query, self.regularization, self.norm_bound, self.n_classes)
        if not self.delta * query.n < 1:
            raise ValueError(f"delta must be below 1/n, got delta={self.delta} with n={query.n}")
        # raises for a price without a known noise, before anything is paid
        _noise_of(
            self.epsilon, self.delta, self.regularization, n=query.n, k=_problems(self.n_classes)
        )
        name = "gaussian objective perturbation"
        return ApproximateEvent(name, self.epsilon, self.delta, knobs)

    def draw(self, query: Query, noise: Noise) -> Json:
        """Train on the query's rows; only the ledger calls this."""
        row, sign = lifted_rows(query, self.norm_bound, self.n_classes)
        price = {"epsilon": self.epsilon, "delta": self.delta}
        weight = gaussian_weight(
            row, sign, **price, regularization=self.regularization, noise=noise
        )
        return {"coef": to_coef(weight, self.norm_bound).tolist()}


def gaussian_weight(
    row: Lifted,
    sign: Signed,
    *,
    epsilon: float,
    delta: float,
    regularization: float,
    noise: Noise,
) -> Float[np.ndarray, "problems columns"]:
    """Return all problems' weights, for (`epsilon`, `delta`) in total: `GaussianObjectivePerturbation`."""
    n, columns = row.shape
    k = len(sign)
    split, deviation = _noise_of(epsilon, delta, regularization, n=n, k=k)
    strength = regularization + split.extra_regularization
    tolerance = reachable_norm(deviation * math.sqrt(columns) / n, strength)
    weight = np.empty((k, columns))
    for problem, problem_sign in enumerate(sign):
        length = math.sqrt(noise.gamma(columns / 2, 2.0))  # the length of a Gaussian vector
        linear = deviation / n * length * noise.direction(columns)
        weight[problem] = noisy_minimum(
            row, problem_sign, linear, strength, tolerance, epsilon=split.minimum, noise=noise
        )
    return weight


def _noise_of(
    epsilon: float, delta: float, regularization: float, *, n: int, k: int
) -> tuple[EpsilonSplit, float]:
    """Return the split of each of k problems' epsilon, and the deviation of their noise; public."""
    split = split_epsilon(epsilon / k, regularization, n)
    return split, noise_deviation(k * split.noise, delta, k)


def _problems(n_classes: int) -> int:
    return 1 if n_classes == 2 else n_classes
