"""Sums of dissimilarities between points and cells: what risks and moves are computed from.

Rows under squared Euclidean distance never form a matrix of pairs: a cell's size, sum and sum of squares
determine all of its sums.

>>> cells = RowSums(np.array([[0.0], [1.0], [5.0]]), np.array([0, 0, 1]), n_cells=2)
>>> cells.sums(np.array([0, 1, 2])).round(6)
array([[ 1., 25.],
       [ 1., 16.],
       [41.,  0.]])
"""

from collections.abc import Callable
from typing import Literal, TypeAlias

import numpy as np
from jaxtyping import Float, Int

__all__ = [
    "MAX_COMPLETE",
    "Dissimilarity",
    "MatrixSums",
    "Metric",
    "RowSums",
    "Rows",
    "between",
    "cell_sums",
    "check_dissimilarities",
    "check_metric",
    "check_points",
    "check_spread",
]

Rows: TypeAlias = Float[np.ndarray, "points features"]
Dissimilarity: TypeAlias = Callable[[Rows, Rows], Float[np.ndarray, "rows columns"]]
"""Dissimilarities between each row of one array and each row of another: symmetric, at least 0."""

Metric: TypeAlias = Literal["sqeuclidean", "precomputed"] | Dissimilarity

MAX_COMPLETE = 5000  # points whose pairs are all computed for a callable: 200 MB
_SYMMETRY = 1e-8
_ROUNDING = 1e-3  # times the largest value: roots of differences in single precision, far from 0
_LEAST_SPREAD = 1e-140  # least spread of rows at which squared distances keep their digits
_BLOCK = 2048  # rows whose sums stay in the cache


class RowSums:
    """Sums of squared Euclidean distances from rows to the cells of a partition that changes.

    Parameters
    ----------
    x
        The rows; their mean should be near 0, or digits are lost.
    labels
        Cell of each row, from 0; a copy is kept and changed by `move`.
    """

    def __init__(self, x: Rows, labels: Int[np.ndarray, " points"], n_cells: int) -> None:
        self.x, self.labels = x, labels.astype(np.intp)
        self.norm = np.einsum("ij,ij->i", x, x)
        self.size = np.bincount(labels, minlength=n_cells).astype(float)
        self.square = np.bincount(labels, self.norm, minlength=n_cells)
        self.total = _grouped(x, self.labels, n_cells)

    def sums(self, rows: Int[np.ndarray, " rows"] | slice) -> Float[np.ndarray, "rows cells"]:
        """Return the sum of the distances from some of the rows to every cell."""
        return self.sums_to(self.x[rows], self.norm[rows])

    def sums_to(
        self, x: Float[np.ndarray, "rows features"], norm: Float[np.ndarray, " rows"] | None = None
    ) -> Float[np.ndarray, "rows cells"]:
        """Return the sum of the distances from any rows to every cell."""
        norm = np.einsum("ij,ij->i", x, x) if norm is None else norm
        found = x @ (-2 * self.total.T)
        found += norm[:, None] * self.size
        found += self.square
        return np.asarray(found)

    def within(self) -> Float[np.ndarray, " cells"]:
        """Return the sum over the pairs of each cell."""
        return np.asarray(self.size * self.square - np.square(self.total).sum(axis=1))

    def move(self, rows: Int[np.ndarray, " rows"], to: Int[np.ndarray, " rows"]) -> None:
        """Move rows into other cells."""
        n_cells, moved, norm = len(self.size), self.x[rows], self.norm[rows]
        for cells, sign in ((self.labels[rows], -1), (to, 1)):
            self.size += sign * np.bincount(cells, minlength=n_cells)
            self.square += sign * np.bincount(cells, norm, minlength=n_cells)
            self.total += sign * _grouped(moved, cells, n_cells)
        self.labels[rows] = to


class MatrixSums:
    """Sums of given dissimilarities from points to the cells of a partition that changes.

    Parameters
    ----------
    matrix
        Dissimilarity of each pair, symmetric with a diagonal of zeros.
    labels
        Cell of each point, from 0; a copy is kept and changed by `move`.
    """

    def __init__(
        self, matrix: Float[np.ndarray, "points points"], labels: Int[np.ndarray, " points"],
        n_cells: int,
    ) -> None:  # fmt: skip
        self.matrix, self.labels = matrix, labels.astype(np.intp)
        self.size = np.bincount(labels, minlength=n_cells).astype(float)
        self.found = matrix @ np.eye(n_cells)[self.labels]

    def sums(self, rows: Int[np.ndarray, " rows"] | slice) -> Float[np.ndarray, "rows cells"]:
        """Return the sum of the dissimilarities from some of the points to every cell."""
        return np.array(self.found[rows])

    def within(self) -> Float[np.ndarray, " cells"]:
        """Return the sum over the pairs of each cell."""
        own = self.found[np.arange(len(self.labels)), self.labels]
        return np.asarray(np.bincount(self.labels, own, minlength=len(self.size)) / 2)

    def move(self, rows: Int[np.ndarray, " rows"], to: Int[np.ndarray, " rows"]) -> None:
        """Move points into other cells."""
        eye = np.eye(len(self.size))
        change = eye[to] - eye[self.labels[rows]]
        self.found += self.matrix[:, rows] @ change
        self.size += change.sum(axis=0)
        self.labels[rows] = to


def _grouped(
    x: Float[np.ndarray, "rows features"], cells: Int[np.ndarray, " rows"], n_cells: int
) -> Float[np.ndarray, "cells features"]:
    """Return the sum of the rows of each cell."""
    found, eye = np.zeros((n_cells, x.shape[1])), np.eye(n_cells)
    for at in range(0, len(x), _BLOCK):
        found += eye[cells[at : at + _BLOCK]].T @ x[at : at + _BLOCK]
    return found


def cell_sums(
    x: Float[np.ndarray, "points columns"], labels: Int[np.ndarray, " points"], n_cells: int,
    metric: Metric,
) -> RowSums | MatrixSums:  # fmt: skip
    """Return the sums of rows, or of a matrix of dissimilarities if the metric is precomputed."""
    if metric == "sqeuclidean":
        return RowSums(x, labels, n_cells)
    return MatrixSums(between(x, x, metric), labels, n_cells)


def between(
    x: Float[np.ndarray, "rows columns"], other: Float[np.ndarray, "others columns"], metric: Metric
) -> Float[np.ndarray, "rows others"]:
    """Return the dissimilarities between rows; a precomputed matrix is returned as it is."""
    if metric == "precomputed":
        return x
    if metric == "sqeuclidean":
        norm = np.einsum("ij,ij->i", x, x)[:, None] + np.einsum("ij,ij->i", other, other)
        return np.asarray(np.maximum(norm - 2 * x @ other.T, 0))
    found = np.asarray(metric(x, other), dtype=np.float64)
    if found.shape != (len(x), len(other)):
        raise ValueError(
            f"metric must return one dissimilarity for each pair, {(len(x), len(other))},"
            f" got {found.shape}"
        )
    if not ((found >= 0) & (found < np.inf)).all():
        row, column = np.argwhere(~((found >= 0) & (found < np.inf)))[0]
        raise ValueError(
            "metric must return finite dissimilarities >= 0, got"
            f" {found[row, column]:g} between row {row} and row {column}"
        )
    if other is x:
        _check_function(found)
    return found


def _check_function(found: Float[np.ndarray, "rows rows"]) -> None:
    """Raise ValueError if a function is not symmetric, or not 0 between a row and itself."""
    largest = found.max(initial=0)
    gap = float(np.abs(found - found.T).max(initial=0))
    if not gap <= _ROUNDING * largest:
        raise ValueError(f"metric must be symmetric, got a largest difference of {gap:g}")
    own = np.diag(found).max(initial=0)
    if not own <= _ROUNDING * largest:
        raise ValueError(f"metric must be 0 between a row and itself, got up to {own:g}")


def check_metric(metric: object) -> None:
    """Raise ValueError unless the metric is one of the names or a function."""
    if not (callable(metric) or metric in ("sqeuclidean", "precomputed")):
        raise ValueError(
            "metric must be 'sqeuclidean', 'precomputed' or a function of two arrays of rows,"
            f" got {metric!r}"
        )


def check_dissimilarities(matrix: Float[np.ndarray, "points columns"]) -> None:
    """Raise ValueError unless a matrix is square, symmetric and at least 0, with zeros on its diagonal."""
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"dissimilarities must be a square matrix, got {matrix.shape}")
    if not matrix.min(initial=0) >= 0:
        row, column = np.argwhere(~(matrix >= 0))[0]
        raise ValueError(
            "dissimilarities must be >= 0. Negative values in data: first at"
            f" row {row}, column {column}: {matrix[row, column]:g}"
        )
    gap = float(np.abs(matrix - matrix.T).max(initial=0))
    if not gap <= _SYMMETRY * matrix.max(initial=0):
        raise ValueError(
            f"dissimilarities must be symmetric, got a largest difference of {gap:g};"
            " pass (D + D.T) / 2 if the order of a pair means nothing"
        )
    if np.any(np.diag(matrix) != 0):
        raise ValueError("the dissimilarity of a point from itself must be 0")


def check_points(x: Float[np.ndarray, "points columns"], metric: object) -> None:
    """Raise ValueError unless the metric is known, and x is a matrix that fits it."""
    check_metric(metric)
    if x.ndim != 2:
        raise ValueError(f"x must be a matrix, got shape={x.shape}")
    if not np.isfinite(x).all():
        row, column = np.argwhere(~np.isfinite(x))[0]
        raise ValueError(f"x must be finite, got {x[row, column]} at row {row}, column {column}")
    if metric == "precomputed":
        check_dissimilarities(x)
    elif metric == "sqeuclidean":
        check_spread(x)


def check_spread(x: Float[np.ndarray, "points features"]) -> None:
    """Raise ValueError where sums of squared distances are beyond what doubles hold."""
    largest = float(np.ptp(x / 2, axis=0).max(initial=0)) if len(x) else 0.0
    if not (largest == 0 or _LEAST_SPREAD < largest < 1 / _LEAST_SPREAD):
        raise ValueError(
            f"x must have features of ranges between {_LEAST_SPREAD:g} and {1 / _LEAST_SPREAD:g}, got"
            f" {largest:g} as half of the largest: scale the rows"
        )
