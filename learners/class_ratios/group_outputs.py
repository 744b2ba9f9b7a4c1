"""Which group is a point from? Predicted group proportions, each point by a model that has not seen it.

The best prediction of the class proportions of the group that a point x was drawn from is
z(x) = E[P | x]. No label of a point is needed to learn it, and it is all that labelled groups say
about the class of x: with n points in all, z(x) n (P'W P)^-1 are the classes' densities at x divided
by the density of all points.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from learners.class_ratios.bags import LabelledBags

__all__ = ["FOLDS", "TRIAL_FOLDS", "GroupOutputs", "cross_fitted", "fold_of_points"]

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
