"""Kernel ridge regression of the bags' proportions, matched by scores: the method for continuous features.

>>> line = np.linspace(-1, 1, 40)[:, None]
>>> bags = [np.vstack([line[:30], 9 + line[:10]]), np.vstack([line[:10], 9 + line[:30]])]
>>> labelled = LabelledBags.of(bags, np.array([[0.75, 0.25], [0.25, 0.75]]))
>>> outputs = kernel_witness(labelled, KernelWitness(bandwidth=3.0, ridge=1e-4))
>>> outputs(np.array([[0.0], [9.0]])).mean(axis=0).round(1)
array([[0.7, 0.3],
       [0.3, 0.7]])
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
from jaxtyping import Float

from learners.class_ratios.bags import LabelledBags
from learners.class_ratios.kernels import NystroemMap, median_distance, spread_points
from learners.class_ratios.score_matching import (
    TRIAL_FOLDS,
    GroupOutputs,
    ScoreMatcher,
    cross_fitted,
)
from learners.class_ratios.trials import Trial, refitted_trial

__all__ = ["KernelWitness", "choose_witness", "kernel_witness"]

MAX_LANDMARKS = 1000
CHOICE_LANDMARKS = 300  # enough to compare bandwidths and methods, in a quarter of the time
LANDMARKS_PER_ROOT = 10  # by the root of the number of points: 490 for 2400, 1000 from ten thousand
BANDWIDTHS = 2.0 ** np.arange(-2, 4)  # times the median distance
RIDGES = 10.0 ** np.arange(-6.0, 0.1, 0.5)  # per point


@dataclass(frozen=True, slots=True)
class KernelWitness:
    """Class ratios by matching the scores of a kernel ridge regression.

    Parameters
    ----------
    bandwidth
        Bandwidth of the Gaussian kernel. None: `trial` chooses it.
    ridge
        Weight of the squared norm, per point. None: `trial` chooses it.

    Raises
    ------
    ValueError
        If a given parameter is not > 0 and finite.

    Examples
    --------
    >>> KernelWitness(bandwidth=2.0, ridge=1e-3)
    KernelWitness(bandwidth=2.0, ridge=0.001)
    """

    bandwidth: float | None = None
    ridge: float | None = None
    name: ClassVar[str] = "kernel witness, score matching"

    def __post_init__(self) -> None:
        for name, value in (("bandwidth", self.bandwidth), ("ridge", self.ridge)):
            if not (value is None or 0 < value < math.inf):
                raise ValueError(f"{name} must be > 0 and finite, got {name}={value}")

    def trial(self, labelled: LabelledBags) -> Trial:
        """Return the errors on bags left out; open parameters are chosen before, on the points of all bags.

        The trial approximates the kernel from at most 300 landmarks, spread over all bags.
        """
        method = self if self.bandwidth and self.ridge else choose_witness(labelled, self)
        train = partial(_ridge_regression, ridge=_given(method.ridge))
        features = NystroemMap.of(_landmarks(labelled, CHOICE_LANDMARKS), _given(method.bandwidth))
        embedded = LabelledBags(
            tuple(features(bag) for bag in labelled.points), labelled.mixture, labelled.noise
        )
        return refitted_trial(
            method,
            embedded,
            fit=lambda bags: ScoreMatcher(bags, cross_fitted(bags, train, folds=TRIAL_FOLDS)),
        )

    def fit(self, labelled: LabelledBags) -> ScoreMatcher:
        """Train on all bags."""
        return ScoreMatcher(labelled, kernel_witness(labelled, self), self.bandwidth)


def choose_witness(labelled: LabelledBags, given: KernelWitness | None = None) -> KernelWitness:
    """Choose bandwidth and ridge, where `given` has none, by least generalised cross-validation error [1]_.

    With F the points' features, T the centred proportions of their bags and d the trace of the smoother
    F (F'F + n ridge I)^-1 F', the criterion is ||T - T_fitted||^2 / (n - d - 1)^2. It uses every point,
    not only every bag, and so separates bandwidths even if there are few bags. Candidates are 6
    bandwidths around the median distance and 13 ridges; of equally good ones the smoothest is taken. A
    ValueError is raised if at least half of the pairs of points coincide.

    References
    ----------
    .. [1] Golub, Heath, Wahba, "Generalized cross-validation as a method for choosing a good ridge
       parameter", Technometrics 21 (1979).

    Examples
    --------
    >>> line = np.linspace(-1, 1, 40)[:, None]
    >>> bags = [np.vstack([line[:30], 9 + line[:10]]), np.vstack([line[:10], 9 + line[:30]])]
    >>> choose_witness(LabelledBags.of(bags, np.array([[0.75, 0.25], [0.25, 0.75]]))).bandwidth > 1
    True
    """
    point = np.concatenate(labelled.points)
    target = np.repeat(labelled.mixture, labelled.size, axis=0)
    target = target - target.mean(axis=0)
    landmark = _landmarks(labelled, CHOICE_LANDMARKS)
    best, chosen = math.inf, KernelWitness()
    given = given or KernelWitness()
    ridges = RIDGES if given.ridge is None else np.array([float(given.ridge)])
    if given.bandwidth is None:
        widths = median_distance(labelled.points) * BANDWIDTHS
    else:
        widths = np.array([float(given.bandwidth)])
    for bandwidth in widths[::-1]:
        feature = NystroemMap.of(landmark, bandwidth)(point)
        error = _validation_errors(feature, target, ridges)[::-1]
        least = int(error.argmin())
        if error[least] < best:
            best = float(error[least])
            chosen = KernelWitness(float(bandwidth), float(ridges[::-1][least]))
    return chosen


def kernel_witness(labelled: LabelledBags, kernel: KernelWitness) -> GroupOutputs:
    """Fit kernel ridge regressions, cross-fitted, to the proportions of the bag that a point came from.

    Outputs add up to 1 up to rounding, and may leave [0, 1].

    **Guarantees.** Outputs do not depend on the order of the bags beyond rounding.
    **Cost.** With m = min(1000, 10 sqrt(n)) landmarks n m^2 + m^3 for each of five folds.

    Examples
    --------
    >>> labelled = LabelledBags.of([np.zeros((8, 1)), np.ones((8, 1))], np.eye(2))
    >>> kernel_witness(labelled, KernelWitness(1.0, 1e-4))(np.zeros((3, 1))).shape
    (5, 3, 2)
    """
    features = NystroemMap.of(_landmarks(labelled), _given(kernel.bandwidth))
    train = partial(_ridge_regression, ridge=_given(kernel.ridge))
    return cross_fitted(labelled, train, embed=features)


def _given(parameter: float | None) -> float:
    if parameter is None:
        raise ValueError("bandwidth and ridge must be given or chosen by trial first, got None")
    return parameter


def _ridge_regression(
    feature: Float[np.ndarray, "points directions"],
    target: Float[np.ndarray, "points classes"],
    *,
    ridge: float,
) -> Callable[[Float[np.ndarray, "points directions"]], Float[np.ndarray, "points classes"]]:
    """Return the trained regression as a function."""
    centre, normal = target.mean(axis=0), feature.T @ feature
    normal[np.diag_indices(len(normal))] += ridge * len(feature)
    coef = np.linalg.solve(normal, feature.T @ (target - centre))
    return partial(_predicted, coef=coef, centre=centre)


def _predicted(
    new: Float[np.ndarray, "points directions"],
    *,
    coef: Float[np.ndarray, "directions classes"],
    centre: Float[np.ndarray, " classes"],
) -> Float[np.ndarray, "points classes"]:
    found: np.ndarray = new @ coef + centre
    return found


def _landmarks(
    labelled: LabelledBags, most: int = MAX_LANDMARKS
) -> Float[np.ndarray, "landmarks features"]:
    n = int(labelled.size.sum())
    return spread_points(labelled.points, min(most, int(LANDMARKS_PER_ROOT * n**0.5)))


def _validation_errors(
    feature: Float[np.ndarray, "points directions"],
    target: Float[np.ndarray, "points classes"],
    ridges: Float[np.ndarray, " ridges"],
) -> Float[np.ndarray, " ridges"]:
    """Return the criterion of `choose_witness` for every ridge, from one eigendecomposition."""
    n = len(feature)
    value, vector = np.linalg.eigh(feature.T @ feature)
    value = np.maximum(value, 0.0)
    power = np.square(vector.T @ (feature.T @ target)).sum(axis=1)
    shrunk = value + ridges[:, None] * n
    residual = np.square(target).sum() - (power * (2 / shrunk - value / shrunk**2)).sum(axis=1)
    freedom = n - 1 - (value / shrunk).sum(axis=1)
    return np.asarray(np.where(freedom > 0, residual / np.maximum(freedom, 1e-9) ** 2, np.inf))
