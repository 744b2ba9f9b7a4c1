"""Match mean scores of the mixture likelihood: as precise as maximum likelihood, without its bias.

The likelihood of class ratios r is that of sum_y r_y d_y(x), where d_y is the density of class y
divided by that of all points. Densities that are off make its maximum wrong. But the score
d_y(x) / sum_k r_k d_k(x), held fixed at some r, is a function of x like any other: its mean over an
unlabelled bag is the mixture of its class means, right densities or not. Matching means of scores is
therefore free of the densities' error, and where they are right it is as precise as the maximum of
the likelihood.

Which group is a point from? Predicted group proportions, each point by a model that has not seen it.

The best prediction of the class proportions of the group that a point x was drawn from is
z(x) = E[P | x]. No label of a point is needed to learn it, and it is all that labelled groups say
about the class of x: with n points in all, z(x) n (P'W P)^-1 are the classes' densities at x divided
by the density of all points.

Kernel ridge regression of the groups' proportions: the witness of what sets the groups apart.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
from jaxtyping import Float, Int

from learners.class_ratios.bags import LabelledBags
from learners.class_ratios.kernels import NystroemMap, median_distance, spread_points
from learners.class_ratios.matched_means import MatchedMeans, covariances_of
from learners.class_ratios.selection import Trial, refitted_trial

__all__ = [
    "FOLDS",
    "TRIAL_FOLDS",
    "GroupOutputs",
    "KernelWitness",
    "ScoreMatcher",
    "choose_witness",
    "cross_fitted",
    "density_ratios",
    "fold_of_points",
    "kernel_witness",
    "match_outputs",
    "mixture_scores",
]

FOLDS = 5
TRIAL_FOLDS = (
    2  # to compare methods on bags left out: a fifth of the training, errors hardly larger
)

Predictor = Callable[[Float[np.ndarray, "points features"]], Float[np.ndarray, "points classes"]]
Embedding = Callable[[Float[np.ndarray, "points features"]], Float[np.ndarray, "points directions"]]


@dataclass(frozen=True, slots=True, eq=False)
class GroupOutputs:
    """Predicted group proportions of the labelled points, and the models to predict more.

    Parameters
    ----------
    labelled
        For every bag, outputs of its points by the model that was trained without them.
    predictors
        The models, one per fold.
    embed
        What comes before every model.

    Notes
    -----
    A point that no model has seen stands to each of them as a labelled point does to its own: the
    mean of the models' outputs at new points compares with the labelled outputs without bias.

    Examples
    --------
    >>> bags = LabelledBags.of([np.zeros((6, 1)), np.ones((6, 1))], np.eye(2))
    >>> outputs = cross_fitted(
    ...     bags, lambda x, target: lambda new: np.hstack([1 - new, new]), embed=np.abs
    ... )
    >>> outputs(np.array([[1.0]])).shape, len(outputs.labelled)
    ((5, 1, 2), 2)
    """

    labelled: tuple[Float[np.ndarray, "_ classes"], ...]
    predictors: tuple[Predictor, ...]
    embed: Embedding

    def __call__(
        self, x: Float[np.ndarray, "points features"]
    ) -> Float[np.ndarray, "models points classes"]:
        """Outputs of every model at new points."""
        embedded = self.embed(x)
        return np.stack([predict(embedded) for predict in self.predictors])


def fold_of_points(labelled: LabelledBags, folds: int = FOLDS) -> Int[np.ndarray, " points"]:
    """Fold of every point of the pooled bags, each bag dealt out evenly, always the same way.

    Examples
    --------
    >>> bags = LabelledBags.of([np.zeros((5, 1)), np.ones((10, 1))], np.eye(2))
    >>> np.bincount(fold_of_points(bags))
    array([3, 3, 3, 3, 3])
    """
    dealt = [np.random.default_rng(1).permutation(size) % folds for size in labelled.size]
    return np.concatenate(dealt)


def cross_fitted(
    labelled: LabelledBags,
    train: Callable[
        [Float[np.ndarray, "points features"], Float[np.ndarray, "points classes"]], Predictor
    ],
    *,
    embed: Embedding = np.asarray,
    folds: int = FOLDS,
) -> GroupOutputs:
    """Train a model without each fold, on points and the proportions of their groups, and predict it.

    Parameters
    ----------
    labelled
        Bags.
    train
        From points and the proportions of the group of each to a function from points to outputs.
    embed
        Applied to all points once, before any model; it must not depend on the proportions.
    folds
        Parts that points are dealt to, >= 2.

    Returns
    -------
    GroupOutputs
        As many models as folds.

    Notes
    -----
    **Guarantees.** No labelled output comes from a model that has seen its point.

    Examples
    --------
    >>> bags = LabelledBags.of([np.zeros((9, 1)), np.ones((9, 1))], np.eye(2))
    >>> outputs = cross_fitted(bags, lambda x, target: lambda new: np.full((len(new), 2), 0.5))
    >>> [output.shape for output in outputs.labelled]
    [(9, 2), (9, 2)]
    """
    point = embed(np.concatenate(labelled.points))
    target = np.repeat(labelled.mixture, labelled.size, axis=0)
    fold = fold_of_points(labelled, folds)
    output, predictors = np.zeros(target.shape), []
    for k in range(folds):
        held = fold == k
        predictor = train(point[~held], target[~held])
        output[held] = predictor(point[held])
        predictors.append(predictor)
    ends = labelled.size.cumsum()[:-1]
    return GroupOutputs(tuple(np.split(output, ends)), tuple(predictors), embed)


ROUNDS = 2  # the score moves with the ratio; after two rounds by less than its sampling error
TOWARDS_EQUAL = 0.1  # keeps scores bounded by classes / 0.1 where a class is absent
LEAST_DENSITY = 1e-2
RANK_TOLERANCE = 1e-10

Outputs = Float[np.ndarray, "*models points classes"]
Match = tuple[MatchedMeans, Float[np.ndarray, "points bags"]]


@dataclass(frozen=True, slots=True, eq=False)
class ScoreMatcher:
    """Class ratios of bags from cross-fitted outputs.

    Parameters
    ----------
    labelled
        Bags.
    outputs
        Predicted proportions of the group of their points, and the models.
    bandwidth
        Of the kernel behind them, None where there is none.

    Notes
    -----
    **Guarantees.** Outputs shifted, scaled or mixed with each other (by any invertible affine map)
    give the same ratio in the first round.

    References
    ----------
    .. [1] Bella, Ferri, Hernández-Orallo, Ramírez-Quintana, "Quantification via probability
       estimators", ICDM (2010): the first round, here without labels of points (PACC).
    .. [2] Vaz, Izbicki, Stern, "Quantification under prior probability shift: the ratio estimator and
       its extensions", JMLR 20 (2019): the function whose means to match.

    Examples
    --------
    >>> from learners.class_ratios.boosted_trees import boosted_trees
    >>> line = np.linspace(-1, 1, 120)[:, None]
    >>> bags = [np.vstack([line[:90], 9 + line[:30]]), np.vstack([line[:30], 9 + line[:90]])]
    >>> labelled = LabelledBags.of(bags, np.array([[0.75, 0.25], [0.25, 0.75]]))
    >>> means, product = ScoreMatcher(labelled, boosted_trees(labelled)).match(
    ...     np.vstack([line[:60], 9 + line[:60]])
    ... )
    >>> means.ratio(product).round(1)
    array([0.5, 0.5])
    """

    labelled: LabelledBags
    outputs: GroupOutputs
    bandwidth: float | None = None

    def match(self, point: Float[np.ndarray, "points features"]) -> Match:
        """Scores at the ratio found by matching the outputs themselves, then at the one so found."""
        new = self.outputs(point)
        means, product = match_outputs(self.labelled, self.outputs.labelled, new)
        densities = [density_ratios(bag, self.labelled) for bag in self.outputs.labelled]
        new_density = density_ratios(new, self.labelled)
        for _ in range(ROUNDS):
            ratio = means.ratio(product)
            scores = tuple(mixture_scores(density, ratio) for density in densities)
            means, product = match_outputs(
                self.labelled, scores, mixture_scores(new_density, ratio)
            )
        return means, product


def match_outputs(
    labelled: LabelledBags,
    outputs: tuple[Float[np.ndarray, "_ classes"], ...],
    new: Float[np.ndarray, "models points classes"],
) -> Match:
    """Means of any outputs, distances between them measured in units of the outputs' covariance.

    Parameters
    ----------
    labelled
        Bags.
    outputs
        Outputs of their points, each by a model that has not seen it.
    new
        Outputs of each model at unlabelled points.

    Returns
    -------
    MatchedMeans
        Of the labelled bags.
    Float[np.ndarray, "points bags"]
        Inner products of the unlabelled points, averaged over the models, with the bags' means.

    Examples
    --------
    >>> bags = LabelledBags.of([np.zeros((8, 1)), np.ones((8, 1))], np.eye(2))
    >>> means, product = match_outputs(bags, tuple(np.eye(2)[[k] * 8] for k in (0, 1)), np.eye(2)[None])
    >>> means.ratio(product).round(3)
    array([0.5, 0.5])
    """
    pooled = np.concatenate(outputs)
    centre = pooled.mean(axis=0)
    value, vector = np.linalg.eigh(np.atleast_2d(np.cov(pooled, rowvar=False)))
    kept = value > RANK_TOLERANCE * max(value[-1], np.finfo(float).tiny)
    root = vector[:, kept] / np.sqrt(value[kept])
    embedded = [(output - centre) @ root for output in outputs]
    mean = np.array([bag.mean(axis=0) for bag in embedded])
    own = np.array([np.square(bag).sum(axis=1).mean() for bag in embedded])
    products = covariances_of([bag @ mean.T for bag in embedded])
    means = MatchedMeans.of(
        labelled, mean @ mean.T, own, products, dimension=max(1.0, float(kept.sum()))
    )
    return means, (new.mean(axis=0) - centre) @ root @ mean.T


def density_ratios(outputs: Outputs, labelled: LabelledBags) -> Outputs:
    """Class densities divided by the density of all points, from predicted group proportions.

    d(x) = z(x) n (P'W P)^-1, cut off below at 0.01.

    Examples
    --------
    >>> bags = LabelledBags.of([np.zeros((8, 1)), np.ones((8, 1))], np.eye(2))
    >>> density_ratios(np.array([[1.0, 0.0], [0.5, 0.5]]), bags)
    array([[2.  , 0.01],
           [1.  , 1.  ]])
    """
    normal = (labelled.mixture.T * labelled.size) @ labelled.mixture
    density = outputs @ np.linalg.inv(normal) * labelled.size.sum()
    return np.asarray(np.maximum(density, LEAST_DENSITY))


def mixture_scores(density: Outputs, ratio: Float[np.ndarray, " classes"]) -> Outputs:
    """Derivative of the log-likelihood by each class's share, a tenth of the way to equal shares.

    Examples
    --------
    >>> mixture_scores(np.array([[2.0, 0.01], [1.0, 1.0]]), np.array([0.5, 0.5])).round(2)
    array([[1.99, 0.01],
           [1.  , 1.  ]])
    """
    kept = (1 - TOWARDS_EQUAL) * ratio + TOWARDS_EQUAL / len(ratio)
    return np.asarray(density / (density @ kept)[..., None])


MOST_LANDMARKS = 1000
CHOICE_LANDMARKS = 300  # tell bandwidths and methods apart as well, in a quarter of the time
LANDMARKS_PER_ROOT = 10  # of the number of points: 490 of 2400, all 1000 from ten thousand
BANDWIDTHS = 2.0 ** np.arange(-2, 4)  # times the median distance
RIDGES = 10.0 ** np.arange(-6.0, 0.1, 0.5)  # per point


@dataclass(frozen=True, slots=True)
class KernelWitness:
    """Class ratios by matching the scores of a kernel ridge regression.

    Parameters
    ----------
    bandwidth
        Of the Gaussian kernel. None: `trial` chooses it.
    ridge
        Weight of the squared norm, per point. None: `trial` chooses it, and the bandwidth with it.

    Raises
    ------
    ValueError
        If one of them is given and not > 0 and finite.

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
        """Error of bags left out, bandwidth and ridge chosen on the points of all bags before.

        The trial sees the kernel from at most 300 landmarks, spread over all bags' features.
        """
        method = self if self.bandwidth and self.ridge else choose_witness(labelled)
        train = partial(_ridge_regression, ridge=_given(method.ridge))
        features = NystroemMap.of(_landmarks(labelled, CHOICE_LANDMARKS), _given(method.bandwidth))
        seen = LabelledBags(
            tuple(features(bag) for bag in labelled.points), labelled.mixture, labelled.noise
        )
        return refitted_trial(
            method,
            seen,
            fit=lambda bags: ScoreMatcher(bags, cross_fitted(bags, train, folds=TRIAL_FOLDS)),
        )

    def fit(self, labelled: LabelledBags) -> ScoreMatcher:
        """Train on all bags."""
        return ScoreMatcher(labelled, kernel_witness(labelled, self), self.bandwidth)


def choose_witness(labelled: LabelledBags) -> KernelWitness:
    """Bandwidth and ridge of least generalised cross-validation error.

    With F the points' features, T the centred proportions of their groups and d the trace of the
    smoother F (F'F + n ridge I)^-1 F', the criterion is ||T - T_fitted||^2 / (n - d - 1)^2. It judges
    every point and not only every group, and so tells bandwidths apart where groups are few.

    Parameters
    ----------
    labelled
        Bags.

    Returns
    -------
    KernelWitness
        Of 6 bandwidths around the median distance and 13 ridges; of equally good ones the smoothest.

    Raises
    ------
    ValueError
        If at least half of the pairs of points coincide.

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
    median = median_distance(labelled.points)
    best, chosen = math.inf, KernelWitness()
    for bandwidth in median * BANDWIDTHS[::-1]:
        error = _validation_errors(NystroemMap.of(landmark, bandwidth)(point), target)[::-1]
        least = int(error.argmin())
        if error[least] < best:
            best = float(error[least])
            chosen = KernelWitness(float(bandwidth), float(RIDGES[::-1][least]))
    return chosen


def kernel_witness(labelled: LabelledBags, kernel: KernelWitness) -> GroupOutputs:
    """Cross-fitted kernel ridge regression of the proportions of the group a point is from.

    Parameters
    ----------
    labelled
        Bags.
    kernel
        Bandwidth and ridge.

    Returns
    -------
    GroupOutputs
        Outputs add up to 1, up to rounding; they may leave [0, 1].

    Notes
    -----
    **Guarantees.** Outputs do not depend on the order of the bags beyond rounding.
    **Cost.** With m = min(1000, 10 sqrt(n)) landmarks n m^2 + m^3 for each of five folds.

    Examples
    --------
    >>> line = np.linspace(-1, 1, 40)[:, None]
    >>> bags = [np.vstack([line[:30], 9 + line[:10]]), np.vstack([line[:10], 9 + line[:30]])]
    >>> labelled = LabelledBags.of(bags, np.array([[0.75, 0.25], [0.25, 0.75]]))
    >>> outputs = kernel_witness(labelled, KernelWitness(bandwidth=3.0, ridge=1e-4))
    >>> outputs(np.array([[0.0], [9.0]])).mean(axis=0).round(1)
    array([[0.7, 0.3],
           [0.3, 0.7]])
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
    """The trained regression as a function."""
    centre, normal = target.mean(axis=0), feature.T @ feature
    normal[np.diag_indices(len(normal))] += ridge * len(feature)
    coef = np.linalg.solve(normal, feature.T @ (target - centre))
    return lambda new: new @ coef + centre


def _landmarks(
    labelled: LabelledBags, most: int = MOST_LANDMARKS
) -> Float[np.ndarray, "landmarks features"]:
    n = int(labelled.size.sum())
    return spread_points(labelled.points, min(most, int(LANDMARKS_PER_ROOT * n**0.5)))


def _validation_errors(
    feature: Float[np.ndarray, "points directions"], target: Float[np.ndarray, "points classes"]
) -> Float[np.ndarray, " ridges"]:
    """The criterion for every ridge, from one eigendecomposition."""
    n = len(feature)
    value, vector = np.linalg.eigh(feature.T @ feature)
    value = np.maximum(value, 0.0)
    power = np.square(vector.T @ (feature.T @ target)).sum(axis=1)
    shrunk = value + RIDGES[:, None] * n
    residual = np.square(target).sum() - (power * (2 / shrunk - value / shrunk**2)).sum(axis=1)
    freedom = n - 1 - (value / shrunk).sum(axis=1)
    return np.asarray(np.where(freedom > 0, residual / np.maximum(freedom, 1e-9) ** 2, np.inf))
