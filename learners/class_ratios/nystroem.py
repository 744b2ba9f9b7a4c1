"""Nyström features: a Gaussian kernel seen from some hundred landmarks instead of from every point."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

__all__ = ["NystroemMap", "spread_order", "spread_points"]

RANK_TOLERANCE = 1e-10  # of the largest eigenvalue; directions below it are rounding

Bags = Sequence[Float[np.ndarray, "_ features"]]


def spread_points(bags: Bags, n_points: int) -> Float[np.ndarray, "points features"]:
    """Some points of every bag, as many of each as its size is worth.

    They are taken by a permutation that is always the same, so that neither the order within a bag
    (sorted, say) nor that of the bags decides.

    Parameters
    ----------
    bags
        Points by features, one array per bag.
    n_points
        About how many in all; one of every bag at least.

    Returns
    -------
    Float[np.ndarray, "points features"]
        Rows of the bags.

    Examples
    --------
    >>> spread_points([np.zeros((30, 2)), np.ones((10, 2))], 8).sum(axis=0)
    array([2., 2.])
    """
    share = min(1.0, n_points / sum(map(len, bags)))
    chosen = []
    for bag in bags:
        chosen.append(bag[spread_order(len(bag))[: max(1, round(share * len(bag)))]])
    return np.concatenate(chosen)


def spread_order(size: int) -> Int[np.ndarray, " points"]:
    """The order in which `spread_points` takes the points of a bag of this size.

    Examples
    --------
    >>> sorted(spread_order(4).tolist())
    [0, 1, 2, 3]
    """
    return np.random.default_rng(0).permutation(size)


@dataclass(frozen=True, slots=True, eq=False)
class NystroemMap:
    """Features f(x) whose inner products are the kernel, exactly so between landmarks.

    f(x) = k(x, L) K_LL^(-1/2), L the landmarks: the projection of k(x, .) on what they span.

    Parameters
    ----------
    landmark
        Points the kernel is seen from.
    bandwidth
        s of k(x, x') = exp(-||x - x'||^2 / (2 s^2)).
    root
        Root of the pseudo-inverse of the landmarks' kernel matrix.

    Notes
    -----
    **Guarantees.** Inner products of features equal the kernel where one of the two points is a
    landmark, and no squared length exceeds 1, the kernel's own.
    **Cost.** For m landmarks m^3 once, m^2 per point.

    References
    ----------
    .. [1] Williams, Seeger, "Using the Nyström method to speed up kernel machines", NIPS (2000).

    Examples
    --------
    >>> line = np.linspace(0, 1, 5)[:, None]
    >>> features = NystroemMap.of(line, 0.5)(line)
    >>> float((features[0] @ features[4]).round(4))
    0.1353
    """

    landmark: Float[np.ndarray, "landmarks features"]
    bandwidth: float
    root: Float[np.ndarray, "landmarks directions"]

    @classmethod
    def of(
        cls, landmark: Float[np.ndarray, "landmarks features"], bandwidth: float
    ) -> "NystroemMap":
        """Build from the landmarks."""
        value, vector = np.linalg.eigh(_gaussian(landmark, landmark, bandwidth))
        kept = value > RANK_TOLERANCE * value[-1]
        return cls(landmark, bandwidth, vector[:, kept] / np.sqrt(value[kept]))

    def __call__(
        self, x: Float[np.ndarray, "points features"]
    ) -> Float[np.ndarray, "points directions"]:
        """Features of points."""
        return np.asarray(_gaussian(x, self.landmark, self.bandwidth) @ self.root)


def _gaussian(
    x: Float[np.ndarray, "points features"],
    other: Float[np.ndarray, "landmarks features"],
    bandwidth: float,
) -> Float[np.ndarray, "points landmarks"]:
    centre = other.mean(axis=0)  # or far-off points would lose the digits that tell them apart
    x, other = (x - centre) / bandwidth, (other - centre) / bandwidth
    exponent = x @ other.T
    exponent -= 0.5 * np.einsum("if,if->i", x, x)[:, None]
    exponent -= 0.5 * np.einsum("if,if->i", other, other)
    return np.asarray(np.exp(np.minimum(exponent, 0.0, out=exponent), out=exponent))
