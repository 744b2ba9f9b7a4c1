"""Match mean scores of the mixture likelihood: as precise as maximum likelihood, without its bias.

A regression first predicts z(x) = E[P | x], the class proportions P of the bag that a point x came from
(`cross_fitted`); no label of a point is needed. With n points in all, z(x) n (P'W P)^-1 are the class
densities d_y(x) at x divided by the density of all points.

The likelihood of class ratios r is that of sum_y r_y d_y(x), and errors in the densities bias its
maximum. But the score d_y(x) / sum_k r_k d_k(x), for a fixed r, is a function of x like any other: its
mean over an unlabelled bag is the mixture of its class means, whether the densities are right or not.
So matching means of scores has no bias from the densities, and where they are right it is as precise as
maximum likelihood.

>>> bags = LabelledBags.of([np.zeros((8, 1)), np.ones((8, 1))], np.eye(2))
>>> outputs = cross_fitted(bags, lambda x, target: lambda new: np.hstack([1 - new, new]))
>>> means, product = ScoreMatcher(bags, outputs).match(np.array([[0.0], [0.0], [0.0], [1.0]]))
>>> means.ratio(product).round(2)
array([0.75, 0.25])
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from learners.class_ratios.bags import LabelledBags
from learners.class_ratios.matched_means import MatchedMeans, covariances_of
from learners.class_ratios.trials import Match

__all__ = [
    "FOLDS",
    "TRIAL_FOLDS",
    "GroupOutputs",
    "ScoreMatcher",
    "cross_fitted",
    "density_ratios",
    "fold_of_points",
    "match_outputs",
    "mixture_scores",
]

FOLDS = 5
TRIAL_FOLDS = 2  # to compare methods: a fifth of the training time, errors hardly larger
ROUNDS = 2  # after two rounds the ratio moves by less than its sampling error
TOWARDS_EQUAL = 0.1  # bounds scores by classes / 0.1 where a class is absent
MIN_DENSITY = 1e-2
RANK_TOLERANCE = 1e-10

Outputs = Float[np.ndarray, "*models points classes"]
Predictor = Callable[[Float[np.ndarray, "points features"]], Float[np.ndarray, "points classes"]]
Embedding = Callable[[Float[np.ndarray, "points features"]], Float[np.ndarray, "points directions"]]


@dataclass(frozen=True, slots=True, eq=False)
class GroupOutputs:
    """Cross-fitted predictions of the bags' proportions: at the labelled points, and models to predict more.

    `labelled` holds for every bag the outputs of its points, each by the model that was trained without
    the point; `predictors` the models, one per fold; `embed` is applied to points before every model.

    No output, of a labelled or a new point, comes from a model that was trained on the point. So the mean
    of the models' outputs at new points compares with the labelled outputs without bias.

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
        """Return the outputs of every model at new points."""
        embedded = self.embed(x)
        return np.stack([predict(embedded) for predict in self.predictors])


def fold_of_points(labelled: LabelledBags, folds: int = FOLDS) -> Int[np.ndarray, " points"]:
    """Return the fold of every point of the pooled bags; each bag is dealt out evenly, the same in every run.

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
    """Train one model without each fold, on points and the proportions of their bags, and predict the fold.

    `train` maps points, and for each the proportions of its bag, to a function from points to outputs.
    `embed` is applied to all points once, before any model; it must not depend on the proportions.

    **Guarantees.** No labelled output comes from a model that was trained on its point.

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


@dataclass(frozen=True, slots=True, eq=False)
class ScoreMatcher:
    """Class ratios of bags by matching the scores of cross-fitted outputs.

    `outputs` predict the proportions of the bag of each point; `bandwidth` is that of the models' kernel,
    None without one.

    **Guarantees.** An invertible affine map of the outputs does not change the ratio of the first round.

    References
    ----------
    .. [1] Bella, Ferri, Hernández-Orallo, Ramírez-Quintana, "Quantification via probability
       estimators", ICDM (2010): the first round, here without labels of points (PACC).
    .. [2] Vaz, Izbicki, Stern, "Quantification under prior probability shift: the ratio estimator and
       its extensions", JMLR 20 (2019): the function whose means to match.

    Examples
    --------
    >>> bags = LabelledBags.of([np.zeros((8, 1)), np.ones((8, 1))], np.eye(2))
    >>> outputs = cross_fitted(bags, lambda x, target: lambda new: np.hstack([1 - new, new]))
    >>> ScoreMatcher(bags, outputs).bandwidth is None
    True
    """

    labelled: LabelledBags
    outputs: GroupOutputs
    bandwidth: float | None = None

    def match(self, point: Float[np.ndarray, "points features"]) -> Match:
        """Match the outputs themselves, then twice the scores at the ratio found so far."""
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
    """Match means of outputs, with distances measured in units of the outputs' covariance.

    `outputs` are those of the labelled points, each by a model that was not trained on it; `new` those of
    each model at unlabelled points. Return the means of the labelled bags, and the inner products with
    them of the unlabelled points, averaged over the models.

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
    """Return the class densities divided by the density of all points, from predicted proportions.

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
    return np.asarray(np.maximum(density, MIN_DENSITY))


def mixture_scores(density: Outputs, ratio: Float[np.ndarray, " classes"]) -> Outputs:
    """Return the derivative of the log-likelihood by each class's share, a tenth of the way to equal shares.

    Examples
    --------
    >>> mixture_scores(np.array([[2.0, 0.01], [1.0, 1.0]]), np.array([0.5, 0.5])).round(2)
    array([[1.99, 0.01],
           [1.  , 1.  ]])
    """
    kept = (1 - TOWARDS_EQUAL) * ratio + TOWARDS_EQUAL / len(ratio)
    return np.asarray(density / (density @ kept)[..., None])
