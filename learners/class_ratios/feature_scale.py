"""The unit of a feature: what makes distances between points of a table mean something."""

import numpy as np
from jaxtyping import Float

__all__ = ["feature_scale"]


def feature_scale(point: Float[np.ndarray, "points features"]) -> Float[np.ndarray, " features"]:
    """Unit of every feature.

    Parameters
    ----------
    point
        Pooled points of all bags, finite.

    Returns
    -------
    ndarray
        What to divide each feature by, > 0; 1 for one that never varies.

    Notes
    -----
    The standard deviation; for a feature that has one value at more than half of the points, half of
    the root mean square distance from it of the others. For a feature of two values that is the standard
    deviation it would have at equal shares: by its own a rare value would outweigh all other features.

    Examples
    --------
    >>> feature_scale(np.array([[0.0, 7.0], [2.0, 7.0]]))
    array([1., 1.])
    """
    offset = point - np.median(point, axis=0)  # zero for most points where one value is the rule
    n_other = np.count_nonzero(offset, axis=0)
    half = np.sqrt(np.square(offset).sum(axis=0) / np.maximum(n_other, 1)) / 2
    scale = np.where(2 * n_other < len(point), half, point.std(axis=0))
    return np.where(scale > 0, scale, 1.0)
