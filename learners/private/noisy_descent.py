"""Full-batch gradient descent on clipped gradients with Gaussian noise, and when to prefer it.

For a delta it needs far less noise than `ObjectivePerturbation` where there are many features or classes:
all classes are one problem, and early stopping takes the place of the regularization.

>>> descent = NoisyGradientDescent(epsilon=0.5, delta=1e-6, norm_bound=1.0, n_classes=3)
>>> plan = descent.plan(5000)
>>> plan.steps, round(plan.length, 2), round(plan.deviation, 1)
(125, 9.93, 90.1)
"""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.special import expit, softmax

from learners.private.linear_model import Signed, check_knobs, rows_at_once, to_coef
from learners.private.logistic_minimum import Lifted
from learners.private.objective_perturbation import (
    ObjectivePerturbation,
    lifted_rows,
    training_rows,
)
from privacy.accounting import SAFETY, check_price, keep_declared
from privacy.mechanism import Json, Noise
from privacy.mechanisms import ApproximateEvent, analytic_gaussian_scale
from privacy.query import Query

__all__ = [
    "DescentPlan",
    "NoisyGradientDescent",
    "clipped_sum",
    "descend",
    "gaussian_ratio",
    "prefers_descent",
    "private_training",
]

CLIP = 0.5  # norm of a row's gradient: for two classes no gradient is longer at the start
# length of the whole descent, in units of rows times noise-to-signal; tuned on public data sets
TIME = 2.0
BLOCK = 16_384  # rows, whose intermediate results stay in the caches
STEPS = 50, 200
STEP = 10.0  # the length of a step to aim for
LONGEST = 16.0
TAIL = 40.0  # logits below zero at which a sigmoid is its exponential to the last digit


@dataclass(frozen=True, slots=True)
class DescentPlan:
    """How to descend: number and length of the steps, and the deviation of the noise on a step's sum."""

    steps: int
    length: float
    deviation: float


@dataclass(frozen=True, slots=True)
class NoisyGradientDescent:
    """Differentially private logistic regression: gradient descent whose every step carries noise.

    With z = (x / norm_bound, 1) / sqrt(2) the clipped and lifted row, and w = 0 at first, repeats

        w <- w - length / n (sum of clip(gradient of the row's loss at w) + deviation G)

    for the steps of `plan`, where clip shortens a row's gradient, of all classes together, to a half, and
    G is a fresh standard Gaussian vector. The loss is the logistic one for two classes, and the
    cross-entropy of the softmax for more. Releases the last w.

    Parameters
    ----------
    epsilon
        Total for the released model, in (0, 100].
    delta
        Total for the released model, in (0, 1/n).
    norm_bound, n_classes
        As in `ObjectivePerturbation`, errors included.

    Notes
    -----
    Query and release are those of `ObjectivePerturbation`. For more than two classes every intercept is
    lowered by the same, so far that each class's sigmoid is its exponential: `LinearModel.predict_proba`
    is then the softmax. Where rows have weights, in [0, 1], a row's gradient is multiplied by its own.

    After a descent of length t = steps times length, the noise on a row's score has a deviation of at most
    t / (n mu), whatever the numbers of steps and of features; the plan keeps it at 2 or less. These
    constants were tuned on Magic, pen digits, satimage, Twitter, spambase, phoneme and german.

    **Guarantees.** The event depends on knobs and the number of rows alone; no row moves the sum of a step
    by more than a half; a query without trainable rows, or of 1/delta rows or more, raises before it is
    paid.
    **Privacy.** Unit: the query's, whose replacement must change one row at most. A row's clipped gradient
    has norm 1/2 at most, whatever the row, its label, its weight and w: replacing it moves the sum by 1
    at most. So each step, given those before, is a Gaussian mechanism of ratio 1 / deviation, and
    all T together are mu-Gaussian private with mu = sqrt(T) / deviation, though each step depends on
    the last (Corollary 3.3 of [2]_): no test separates neighbours better than N(0, 1) from N(mu, 1).
    The deviation is the smallest whose delta at epsilon, in closed form, is the claim (Theorem 8 of [3]_):
    nothing is lost in a conversion. The proof is of real arithmetic: floating point is not covered.

    References
    ----------
    .. [1] Song, Chaudhuri, Sarwate, "Stochastic gradient descent with differentially private updates",
       GlobalSIP (2013); Bassily, Smith, Thakurta, "Private empirical risk minimization", FOCS (2014).
    .. [2] Dong, Roth, Su, "Gaussian differential privacy", JRSS B 84 (2022).
    .. [3] Balle, Wang, "Improving the Gaussian mechanism for differential privacy", ICML (2018).

    Examples
    --------
    >>> from learners.private.objective_perturbation import training_query
    >>> mechanism = NoisyGradientDescent(epsilon=1.0, delta=1e-6, norm_bound=1.0, n_classes=2)
    >>> x, y = np.array([[-1.0], [1.0]]), np.array([0, 1])
    >>> mechanism.event(training_query(x, y, dataset="toy")).cost().delta
    Fraction(1, 1000000)
    """

    epsilon: float
    delta: float
    norm_bound: float
    n_classes: int

    def __post_init__(self) -> None:
        keep_declared(self)
        check_knobs(1.0, self.norm_bound, self.n_classes)
        self.plan(1)

    def plan(self, n: int) -> DescentPlan:
        """Return the steps for `n` rows, from public numbers alone."""
        mu = gaussian_ratio(self.epsilon, self.delta)
        time = TIME * n * mu
        least, most = STEPS
        steps = min(max(math.ceil(time / STEP), least), most)
        return DescentPlan(steps, min(time / steps, LONGEST), 2 * CLIP * math.sqrt(steps) / mu)

    def event(self, query: Query) -> ApproximateEvent:
        """Describe a release on this query; raise for one without trainable rows, or of 1/delta rows."""
        training_rows(query, self.n_classes)
        if not self.delta * query.n < 1:
            raise ValueError(f"delta must be below 1/n, got delta={self.delta} with n={query.n}")
        plan = self.plan(query.n)
        knobs = {
            "norm_bound": self.norm_bound, "n_classes": self.n_classes, "n": query.n,
            "steps": plan.steps, "length": plan.length, "deviation": plan.deviation, "clip": CLIP,
        }  # fmt: skip
        return ApproximateEvent("noisy gradient descent", self.epsilon, self.delta, knobs)

    def draw(self, query: Query, noise: Noise) -> Json:
        """Train on the query's rows; only the ledger calls this."""
        return self.trained(*lifted_rows(query, self.norm_bound, self.n_classes), noise)

    def trained(self, row: Lifted, sign: Signed, noise: Noise) -> Json:
        """Train on lifted rows, with signs as for `descend`: for `draw`, and a draw that it is part of."""
        weight = descend(row, sign, self.plan(len(row)), noise=noise)
        coef = to_coef(weight, self.norm_bound)
        if len(coef) > 1:
            coef[:, -1] -= TAIL + np.linalg.norm(weight, axis=1).max()  # no score exceeds a norm
        return {"coef": coef.tolist()}


def gaussian_ratio(epsilon: float, delta: float) -> float:
    """Return mu, the largest shift of a standard normal variable that costs (epsilon, delta) to reveal.

    Examples
    --------
    >>> round(gaussian_ratio(0.5, 1e-6), 4)
    0.1241
    """
    check_price(epsilon, delta)  # its message shows the delta as given
    return math.sqrt(2) / analytic_gaussian_scale(epsilon, delta / SAFETY)


def descend(
    row: Lifted,
    sign: Signed,
    plan: DescentPlan,
    *,
    noise: Noise,
) -> Float[np.ndarray, "problems columns"]:
    """Return all problems' weights of lifted rows: the algorithm of `NoisyGradientDescent`.

    A sign is positive if the row is of the problem's class; its size is the row's weight.
    """
    weight = np.zeros((len(sign), row.shape[1]))
    for _ in range(plan.steps):
        length = math.sqrt(noise.gamma(weight.size / 2, 2.0))  # the length of a Gaussian vector
        drawn = plan.deviation * length * noise.direction(weight.size).reshape(weight.shape)
        weight -= plan.length / len(row) * (clipped_sum(row, sign, weight) + drawn)
    return weight


def clipped_sum(
    row: Lifted,
    sign: Signed,
    weight: Float[np.ndarray, "problems columns"],
) -> Float[np.ndarray, "problems columns"]:
    """Return the sum of the rows' gradients at `weight`, each cut to norm 1/2; signs as for `descend`.

    Blocks of rows are summed one after the other: scores are never those of all rows at once.
    """
    total = np.zeros_like(weight)
    size = rows_at_once(BLOCK, len(sign))
    for first in range(0, len(row), size):
        block, its_sign = row[first : first + size], np.asarray(sign[:, first : first + size])
        score = weight @ block.T
        chance = expit(score) if len(sign) == 1 else softmax(score, axis=0)
        residual = np.abs(its_sign[0]) * (chance - (its_sign > 0))
        norm = np.linalg.norm(residual, axis=0) * np.linalg.norm(block, axis=1)
        total += residual / np.maximum(norm / CLIP, 1.0) @ block
    return total


def prefers_descent(epsilon: float, delta: float, *, n_features: int, n_classes: int) -> bool:
    """Return whether noisy gradient descent is preferable to the pure mechanism, by public numbers alone.

    It is if there is a delta, and its noise on a coordinate of the rows' mean gradient, 1 / (n mu), is less
    than that of `ObjectivePerturbation`, 2 k sqrt(columns) / (epsilon n) for k problems. The number of
    rows does not matter.

    Examples
    --------
    >>> prefers_descent(0.5, 1e-6, n_features=20, n_classes=2)
    True
    >>> prefers_descent(0.5, 1e-6, n_features=2, n_classes=2)
    False
    """
    if delta == 0:
        return False
    descent = 2 * CLIP / gaussian_ratio(epsilon, delta)  # refuses an epsilon of 0, too
    problems = 1 if n_classes == 2 else n_classes
    return descent < 2 * problems * math.sqrt(n_features + 1) / epsilon


def private_training(
    epsilon: float,
    delta: float,
    *,
    n_features: int,
    regularization: float,
    norm_bound: float,
    n_classes: int,
) -> ObjectivePerturbation | NoisyGradientDescent:
    """Return the mechanism to train by, chosen by public numbers alone: `prefers_descent`.

    Objective perturbation alone uses `regularization`.

    Examples
    --------
    >>> given = {"regularization": 0.001, "norm_bound": 1.0, "n_classes": 2}
    >>> type(private_training(0.5, 1e-6, n_features=20, **given)).__name__
    'NoisyGradientDescent'
    >>> type(private_training(0.5, 0.0, n_features=20, **given)).__name__
    'ObjectivePerturbation'
    """
    if prefers_descent(epsilon, delta, n_features=n_features, n_classes=n_classes):
        return NoisyGradientDescent(epsilon, delta, norm_bound, n_classes)
    return ObjectivePerturbation(epsilon, regularization, norm_bound, n_classes)
