"""Covers of a query space: overlapping sets of like queries, each of which gets a list of its own.

>>> FeatureCover().fit(np.eye(3)).cells(np.array([[1.0, 0.0, 1.0]]))
[array([0, 2])]
"""

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int

from privacy.query import is_whole

__all__ = ["Cover", "FeatureCover", "FittedCover", "HyperplaneCover"]

PER_CELL = 10  # queries in a cell, about, where the number of planes is chosen
MAX_PLANES = 63  # sides fit the bits of a positive whole number


@runtime_checkable
class FittedCover(Protocol):
    """A cover whose cells have numbers."""

    def cells(self, queries: Float[np.ndarray, "queries features"]) -> list[Int[np.ndarray, " _"]]:
        """Return the numbers of the cells that hold each query."""


@runtime_checkable
class Cover(Protocol):
    """A way of covering a query space, which sees the training queries."""

    def fit(self, queries: Float[np.ndarray, "queries features"]) -> FittedCover:
        """Lay the cover."""


@dataclass(frozen=True, slots=True)
class FeatureCover:
    """One cell for each feature: it holds the queries in which the feature is not 0.

    Examples
    --------
    >>> FeatureCover().fit(np.eye(2)).cells(np.array([[0.0, 2.0], [0.0, 0.0]]))
    [array([1]), array([], dtype=int64)]
    """

    def fit(self, queries: Float[np.ndarray, "queries features"]) -> "FeatureCover":
        """Return itself: there is nothing to learn."""
        return self

    def cells(self, queries: Float[np.ndarray, "queries features"]) -> list[Int[np.ndarray, " _"]]:
        """Return the numbers of the features that are not 0 in each query."""
        return [np.flatnonzero(row) for row in queries]


@dataclass(frozen=True, slots=True)
class HyperplaneCover:
    """Partitions by random hyperplanes: the cell of a query is the pattern of sides it is on.

    Parameters
    ----------
    n_partitions
        Partitions; each query is in one cell of each.
    n_planes
        Planes of a partition, 1 to 63, or "auto": so many that a cell holds about ten training queries.
    center
        Whether planes pass through the mean query. Through the origin they hardly divide queries all of whose
        features are positive, and many more planes are needed.
    random_state
        Seed, or generator, of the planes.

    Examples
    --------
    >>> cover = HyperplaneCover(2, 3, random_state=0).fit(np.array([[0.0, 1.0], [1.0, 0.0]]))
    >>> [len(one) for one in cover.cells(np.array([[0.0, 1.0]]))]
    [2]
    """

    n_partitions: int = 20
    n_planes: int | str = "auto"
    center: bool = True
    random_state: Any = None

    def fit(self, queries: Float[np.ndarray, "queries features"]) -> "_Planes":
        """Draw the planes; raise ValueError if a number is out of its range."""
        auto = self.n_planes == "auto"
        planes: Any = (
            int(np.clip(round(np.log2(max(len(queries) / PER_CELL, 2))), 1, MAX_PLANES))
            if auto
            else self.n_planes
        )
        if not (is_whole(self.n_partitions) and self.n_partitions >= 1):
            raise ValueError(
                f"n_partitions must be a whole number >= 1, got n_partitions={self.n_partitions!r}"
            )
        if not (is_whole(planes) and 1 <= planes <= MAX_PLANES):
            raise ValueError(
                f"n_planes must be 'auto' or from 1 to {MAX_PLANES}, got n_planes={self.n_planes!r}"
            )
        rng = np.random.default_rng(self.random_state)
        normal = rng.normal(size=(queries.shape[1], self.n_partitions * planes))
        centre = queries.mean(axis=0) if self.center else np.zeros(queries.shape[1])
        keys = _keys(queries - centre, normal, self.n_partitions)
        return _Planes(normal, centre, tuple(np.unique(column) for column in keys.T))


@dataclass(frozen=True, slots=True, eq=False)
class _Planes:
    """Planes, and the patterns of sides that training queries have, partition by partition."""

    normal: Float[np.ndarray, "features planes"]
    centre: Float[np.ndarray, " features"]
    known: tuple[Int[np.ndarray, " _"], ...]

    def cells(self, queries: Float[np.ndarray, "queries features"]) -> list[Int[np.ndarray, " _"]]:
        """Return the numbers of the cells; a pattern that no training query had is in none."""
        keys = _keys(queries - self.centre, self.normal, len(self.known))
        places = np.full(keys.shape, -1)
        start = 0
        for column, known in enumerate(self.known):
            at = np.minimum(np.searchsorted(known, keys[:, column]), len(known) - 1)
            places[:, column] = np.where(known[at] == keys[:, column], start + at, -1)
            start += len(known)
        return [row[row >= 0] for row in places]


def _keys(
    centred: Float[np.ndarray, "queries features"], normal: Float[np.ndarray, "features planes"],
    n_partitions: int,
) -> Int[np.ndarray, "queries partitions"]:  # fmt: skip
    """Return the sides of the planes of each partition, as the bits of one number."""
    sides = (centred @ normal > 0).reshape(len(centred), n_partitions, -1)
    return np.asarray(sides @ (1 << np.arange(sides.shape[2], dtype=np.int64)))
