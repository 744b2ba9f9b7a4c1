"""Objective perturbation: logistic regression whose training objective carries the privacy noise.

A mechanism for the ledger, epsilon-differentially private (pure) for the replacement of one row.

>>> mechanism = ObjectivePerturbation(epsilon=1.0, regularization=0.01, norm_bound=1.0, n_classes=2)
>>> query = training_query(np.array([[-1.0], [1.0]]), np.array([0, 1]), dataset="toy")
>>> mechanism.event(query).epsilon
1.0
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Bool, Float, Int

from learners.private.linear_model import Signed, Signs, check_knobs, check_shapes, to_coef
from learners.private.logistic_minimum import (
    TOLERANCE,
    Lifted,
    all_finite,
    certified_minimum,
    lifted,
)
from privacy.accounting import keep_declared
from privacy.mechanism import Json, Noise
from privacy.mechanisms import PureEvent
from privacy.query import Query, Unit

__all__ = [
    "LEAST_SCALE",
    "EpsilonSplit",
    "ObjectivePerturbation",
    "PureTraining",
    "check_training_price",
    "gradient_tolerance",
    "lifted_rows",
    "noisy_minimum",
    "perturbed_weight",
    "public_knobs",
    "reachable_norm",
    "split_epsilon",
    "training_query",
    "training_rows",
]

CURVATURE = 0.25  # the largest second derivative of the logistic loss
LEAST_SCALE = 1e-300  # of noise: a smaller one could be 0, and be refused after payment
MIN_EPSILON = 1e-100  # with a smaller one the square of the noise is no double
ROUNDED = 2.0**-49  # of the weights' length: far above what their rounding adds to a gradient
MINIMUM_SHARE = 0.01  # of epsilon, for stopping short of the exact minimum
JACOBIAN_SHARE = 0.125  # of the rest, at most


@dataclass(frozen=True, slots=True)
class EpsilonSplit:
    """The three parts of one perturbed problem's epsilon, which add up to it.

    `noise` pays for the density of the noise, `jacobian` for the change of variables from noise to
    weights, `minimum` for stopping within a certified distance of the minimum.
    `extra_regularization` keeps the Jacobian's part at an eighth of what the first two share.
    """

    noise: float
    jacobian: float
    minimum: float
    extra_regularization: float


def split_epsilon(epsilon: float, regularization: float, n: int) -> EpsilonSplit:
    """Split the epsilon, > 0, of one problem trained on `n` rows; `n` is public.

    With h an eighth of 0.99 epsilon and c = 1/4, the Jacobian costs log(1 + c / (n regularization)).
    Where that exceeds h, the regularization is raised to c / (n (exp(h) - 1)), at which it costs h.

    Notes
    -----
    The noise is 2 / noise times an R of density in proportion to exp(-||R||), and moves a minimum by at
    most its length over n times the whole regularization. At a share s for the Jacobian that is 8 s /
    (1 - s) ||R|| at small epsilon: 8 ||R|| at the customary half, 8/7 ||R|| at an eighth.
    **Guarantees.** The parts are positive and add up to `epsilon`; the noise gets at least seven eighths
    of what the minimum leaves.

    Examples
    --------
    >>> split = split_epsilon(1.0, regularization=0.01, n=1000)
    >>> round(split.jacobian, 4), round(split.noise, 4), split.extra_regularization
    (0.0247, 0.9653, 0.0)
    """
    exact = (1 - MINIMUM_SHARE) * epsilon
    most = JACOBIAN_SHARE * exact
    strength = max(regularization, CURVATURE / n * math.exp(-most) / -math.expm1(-most))
    jacobian = min(most, math.log1p(CURVATURE / (n * strength)))
    return EpsilonSplit(exact - jacobian, jacobian, epsilon - exact, strength - regularization)


def training_rows(query: Query, n_classes: int) -> Mapping[str, np.ndarray]:
    """Return the rows of a query as they are trained on; ValueError for other shapes and types.

    A cell that is not finite counts as 0, a code out of range as the nearest class, and a weight is cut
    to [0, 1], NaN to 0: a refusal would reveal that there is one.
    """
    rows = query.value
    if not (isinstance(rows, Mapping) and {"x", "y"} <= rows.keys()):
        raise ValueError("query must hold rows x and codes y; build it with training_query")
    x, y = rows["x"], rows["y"]
    check_shapes(x, y)
    if not len(x) == query.n:
        raise ValueError(f"query.n must be the number of rows, got n={query.n}")
    if x.dtype.itemsize > np.dtype(np.float64).itemsize:
        with np.errstate(over="ignore"):  # finite, and too large for a double: not finite
            x = x.astype(np.float64)
    trained = {
        **rows,
        "x": x if all_finite(x) else np.where(np.isfinite(x), x, 0.0),
        "y": np.clip(y, 0, n_classes - 1),
    }
    if "weight" in rows:
        if not rows["weight"].shape == y.shape:
            raise ValueError(f"weights must be one per row, got shape={rows['weight'].shape}")
        trained["weight"] = np.clip(np.nan_to_num(rows["weight"]), 0.0, 1.0)
    return trained


def public_knobs(
    query: Query, regularization: float, norm_bound: float, n_classes: int
) -> dict[str, float]:
    """Return the knobs that an event records; raise ValueError for a query without trainable rows."""
    training_rows(query, n_classes)
    knobs = {"regularization": regularization, "norm_bound": norm_bound, "n_classes": n_classes}
    return {**knobs, "n": query.n}


def lifted_rows(
    query: Query,
    norm_bound: float,
    n_classes: int,
    places: Int[np.ndarray, " some"] | None = None,
    components: Float[np.ndarray, "components features"] | None = None,
) -> tuple[Lifted, Signs]:
    """Return the lifted rows of a query and their sign in each problem, times their weight; **private**.

    `places` and `components` are those of `LiftedRows`.
    """
    rows = training_rows(query, n_classes)
    sign = Signs(rows["y"], n_classes, rows.get("weight"))
    own = sign if places is None else sign[:, places]
    return lifted(rows["x"], norm_bound, places, components), own


def perturbed_weight(
    row: Lifted,
    sign: Signed,
    *,
    epsilon: float,
    regularization: float,
    noise: Noise,
) -> Float[np.ndarray, "problems columns"]:
    """Return all problems' weights, for `epsilon` in total: the algorithm of `ObjectivePerturbation`."""
    n, columns = row.shape
    split = split_epsilon(epsilon / len(sign), regularization, n)
    strength = regularization + split.extra_regularization
    tolerance = gradient_tolerance(split, n, columns, regularization)
    weight = np.empty((len(sign), columns))
    for problem, problem_sign in enumerate(sign):
        linear = 2 / (split.noise * n) * noise.gamma(columns, 1.0) * noise.direction(columns)
        weight[problem] = noisy_minimum(
            row, problem_sign, linear, strength, tolerance, epsilon=split.minimum, noise=noise
        )
    return weight


def noisy_minimum(
    row: Lifted,
    sign: Float[np.ndarray, " rows"],
    linear: Float[np.ndarray, " columns"],
    regularization: float,
    tolerance: float,
    *,
    epsilon: float,
    noise: Noise,
) -> Float[np.ndarray, " columns"]:
    """Return a point near one problem's minimum; it costs `epsilon` beyond the exact minimum's price.

    Step (3) of the proof in `ObjectivePerturbation`.
    """
    near = certified_minimum(row, sign, linear, regularization, tolerance)
    scale = max(2 * tolerance / (regularization * epsilon), LEAST_SCALE)
    length = noise.gamma(row.shape[1], scale)
    return np.asarray(near + length * noise.direction(row.shape[1]))


def gradient_tolerance(split: EpsilonSplit, n: int, columns: int, regularization: float) -> float:
    """Return the gradient norm to certify for one problem's noise, whatever the rows are; public."""
    return reachable_norm(
        2 * columns / (split.noise * n), regularization + split.extra_regularization
    )


def reachable_norm(length: float, strength: float) -> float:
    """Return a gradient norm that the solver reaches, for noise of this mean length in the objective.

    It is relative to the size of gradient and noise. Noise moves a minimum by its length over the strength
    of the regularization. Where that is very far, the norm is relative to the weights, whose rounding limits
    the gradient's: a refusal after payment would reveal that the rows need such weights.
    """
    return max(TOLERANCE * (1 + length), ROUNDED * length / strength)


def check_training_price(**epsilon: float) -> None:
    """Raise ValueError unless every price, passed by its name, is finite, and its noise can be drawn."""
    for name, price in epsilon.items():
        if not MIN_EPSILON <= price < math.inf:
            raise ValueError(f"{name} must be >= {MIN_EPSILON} and finite, got {name}={price}")


@dataclass(frozen=True, slots=True)
class PureTraining:
    """What `ObjectivePerturbation` and `OutputPerturbation` share: knobs, their checks, event and release.

    `train` returns all problems' weights of lifted rows, for the epsilon that it gets.
    """

    epsilon: float
    regularization: float
    norm_bound: float
    n_classes: int
    NAME: ClassVar[str]
    train: ClassVar[Callable[..., np.ndarray]]

    def __post_init__(self) -> None:
        keep_declared(self)
        check_training_price(epsilon=self.epsilon)
        check_knobs(self.regularization, self.norm_bound, self.n_classes)

    def event(self, query: Query) -> PureEvent:
        """Describe a release on this query; raise for a query without trainable rows."""
        knobs = public_knobs(query, self.regularization, self.norm_bound, self.n_classes)
        return PureEvent(self.NAME, self.epsilon, knobs)

    def draw(self, query: Query, noise: Noise) -> Json:
        """Train on the query's rows; only the ledger calls this."""
        row, sign = lifted_rows(query, self.norm_bound, self.n_classes)
        weight = self.train(
            row, sign, epsilon=self.epsilon, regularization=self.regularization, noise=noise
        )
        return {"coef": to_coef(weight, self.norm_bound).tolist()}


@dataclass(frozen=True, slots=True)
class ObjectivePerturbation(PureTraining):
    """Pure differentially private logistic regression: each problem's objective carries noise.

    For each problem (one per class against the others; a single one for two classes), with s = +-1,
    z = (x / norm_bound, 1) / sqrt(2) the clipped and lifted row, k problems and `split` the
    `EpsilonSplit` of epsilon / k, releases

        w = argmin lam / 2 ||w||^2 + mean log(1 + exp(-s w.z)) + 2 / (split.noise n) R.w

    where lam = regularization + split.extra_regularization and R has density ~ exp(-||R||).

    Parameters
    ----------
    epsilon
        Total for the released model, >= 1e-100.
    regularization
        Strength, >= 1e-9; the intercept is regularised too. Public: tune it with `StabilityValidation`.
    norm_bound
        Declared l2 bound of a row, >= 1e-100, never taken from the data. Rows beyond it are clipped.
    n_classes
        Number of classes, 2 to 32,767, public.

    Raises
    ------
    ValueError
        If a knob breaks the conditions above.

    Notes
    -----
    The query holds `{"x": float rows, "y": class codes}`, and may hold `"weight"`, in [0, 1], by which each
    row's loss is multiplied; a release is `{"coef": [[...]]}`, to be read by
    ``LinearModel(np.array(value["coef"]), norm_bound)``.

    **Guarantees.** The released weights lie within the certified distance of the minimum, for
    any rows, NaN among them; the event depends on knobs and the number of rows alone; a query without
    rows of a float matrix and codes raises before it is paid, and no other raises because of its values.
    **Privacy.** Unit: the query's, whose replacement must change one row at most: a row, hence its
    label alone; a task, where its consensus depends on its own labels alone. For one problem let D,
    D' differ in one row. At a given w the noise must have been R(w) = -(split.noise n / 2) (lam w +
    mean gradient), so the density of w is that of R(w) times the determinant of the objective's
    Hessian, up to a constant. (1) ||z|| <= 1 and |l'| <= 1, of a loss that a weight of at most 1
    multiplies, let one row move the sum of gradients by at most 2, hence R(w) by split.noise: the
    densities' ratio is at most exp(split.noise). (2) With A the part of the Hessian that D and D'
    share, A >= lam I, so det H / det H' <= 1 + (c / n) z'A^{-1}z <= 1 + c / (n lam) =
    exp(split.jacobian), c = 1/4: a single logarithm, where [1]_ pays two [2]_. (3) The solver stops
    at gradient norm tau, a point within tau / lam of the minimum. Given the exact minimum, that
    point moves by at most 2 tau / lam between D and D', and noise of density ~ exp(-||N|| lam
    split.minimum / (2 tau)) pays for it, as in [3]_. The sum is epsilon / k; k problems on the same
    rows compose to epsilon. The proof is of real arithmetic: floating point is not covered.

    References
    ----------
    .. [1] Chaudhuri, Monteleoni, Sarwate, "Differentially private empirical risk minimization",
       JMLR 12 (2011), Algorithm 2.
    .. [2] Chaudhuri, Vinterbo, "A stability-based validation procedure for differentially private
       machine learning", NIPS (2013), Algorithm 3; its accounting omits the Jacobian.
    .. [3] Iyengar et al., "Towards practical differentially private convex optimization",
       IEEE S&P (2019), approximate minima perturbation.

    Examples
    --------
    >>> mechanism = ObjectivePerturbation(
    ...     epsilon=1.0, regularization=0.01, norm_bound=1.0, n_classes=2
    ... )
    >>> x, y = np.array([[-1.0], [1.0]]), np.array([0, 1])
    >>> query = training_query(x, y, dataset="toy")
    >>> mechanism.event(query).epsilon
    1.0
    """

    NAME = "objective perturbation"
    train = staticmethod(perturbed_weight)


def training_query(
    x: Float[np.ndarray, "rows features"],
    y: Int[np.ndarray, " rows"],
    *,
    dataset: str,
    validation: Bool[np.ndarray, " rows"] | None = None,
    weight: Float[np.ndarray, " rows"] | None = None,
) -> Query:
    """Return private rows, and their class codes, as a query for the mechanisms that train.

    `dataset` is the ledger's name of the data set. `validation`, for a private selection, marks the rows
    that judge the candidates; it is public, drawn without the data. `weight`, private like the rows, is the
    weight of each in [0, 1], for a query without `validation`. The unit is `row`; the l1 sensitivity is
    infinite, because the rows themselves are never released.

    Examples
    --------
    >>> query = training_query(np.array([[0.5], [0.1]]), np.array([1, 0]), dataset="toy")
    >>> query.n, query.unit
    (2, <Unit.ROW: 'row'>)
    """
    given = {"x": x, "y": y, "validation": validation, "weight": weight}
    value = {name: array for name, array in given.items() if array is not None}
    return Query(
        dataset=dataset, name="training rows", value=value, unit=Unit.ROW, n=len(x), l1=math.inf
    )
