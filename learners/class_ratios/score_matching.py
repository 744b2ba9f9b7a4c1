"""Match mean scores of the mixture likelihood: as precise as maximum likelihood, without its bias.

The likelihood of class ratios r is that of sum_y r_y d_y(x), where d_y is the density of class y
divided by that of all points. Densities that are off make its maximum wrong. But the score
d_y(x) / sum_k r_k d_k(x), held fixed at some r, is a function of x like any other: its mean over an
unlabelled bag is the mixture of its class means, right densities or not. Matching means of scores is
therefore free of the densities' error, and where they are right it is as precise as the maximum of
the likelihood.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from learners.class_ratios.bags import LabelledBags
from learners.class_ratios.group_outputs import GroupOutputs
from learners.class_ratios.matched_means import MatchedMeans, covariances_of

__all__ = ["ScoreMatcher", "density_ratios", "match_outputs", "mixture_scores"]

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
