"""Rows as private training takes them: clipped to a norm bound, with their intercept in the unit ball.

Few rows are lifted at once and kept. Of many a slice is lifted whenever it is asked for, so that an algorithm
that goes over blocks of rows holds one block; the rows themselves may be pages of a file.

>>> x = np.array([[3.0, 4.0], [0.0, 0.0]])
>>> rows = LiftedRows(x, 1.0, np.array([1, 0]))
>>> rows[0:1].round(3), rows.shape
(array([[0.   , 0.   , 0.707]]), (2, 3))
"""

import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from jaxtyping import Float, Int

__all__ = ["Lifted", "LiftedRows", "all_finite", "clipped", "lift", "lifted", "scores"]

MIN_BOUND = 1e-100  # the square of a larger bound is not zero
HELD_CELLS = 2**24  # cells of rows that are lifted once: 128 MiB
BLOCK = 65_536  # rows


@dataclass(frozen=True, slots=True, eq=False)
class LiftedRows:
    """Lifted rows of which none is held.

    Parameters
    ----------
    x
        Rows, **private**; those beyond `norm_bound` are clipped.
    norm_bound
        Declared l2 bound of the rows, > 0.
    places
        Which rows, in their order; all of them if None.

    Notes
    -----
    **Guarantees.** A slice is `lift` of the rows that it names.

    Examples
    --------
    >>> len(LiftedRows(np.ones((4, 2)), 1.0))
    4
    """

    x: Float[np.ndarray, "all features"]
    norm_bound: float
    places: Int[np.ndarray, " rows"] | None = None

    def __len__(self) -> int:
        return len(self.x if self.places is None else self.places)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows, and of columns: the features and the intercept."""
        return len(self), self.x.shape[1] + 1

    def __getitem__(self, part: slice) -> Float[np.ndarray, "_ columns"]:
        """Lift the rows of a slice."""
        chosen = part if self.places is None else self.places[part]
        return lift(self.x[chosen], self.norm_bound)


Lifted: TypeAlias = Float[np.ndarray, "_ columns"] | LiftedRows
"""Lifted rows, of which an algorithm asks for slices, a length and a shape."""


def lifted(
    x: Float[np.ndarray, "all features"],
    norm_bound: float,
    places: Int[np.ndarray, " rows"] | None = None,
) -> Lifted:
    """Return some rows lifted, or all: held if they are few, otherwise lifted slice by slice.

    Examples
    --------
    >>> lifted(np.zeros((3, 1)), 1.0, np.array([2])).shape
    (1, 2)
    """
    rows = LiftedRows(x, norm_bound, places)
    return rows[:] if len(rows) * x.shape[1] <= HELD_CELLS else rows


def scores(
    row: Lifted, weight: Float[np.ndarray, "problems columns"]
) -> Float[np.ndarray, "problems rows"]:
    """Return the score of each row in each problem, a block of rows at a time.

    Examples
    --------
    >>> scores(np.array([[1.0, 2.0], [0.0, 1.0]]), np.array([[1.0, 1.0]]))
    array([[3., 1.]])
    """
    blocks = range(0, max(len(row), 1), BLOCK)
    return np.concatenate([weight @ row[first : first + BLOCK].T for first in blocks], axis=1)


def all_finite(x: Float[np.ndarray, "rows features"]) -> bool:
    """Whether every cell is finite, by a block of rows at a time.

    Examples
    --------
    >>> all_finite(np.array([[1.0], [np.nan]]))
    False
    """
    return all(np.isfinite(x[first : first + BLOCK]).all() for first in range(0, len(x), BLOCK))


def lift(
    x: Float[np.ndarray, "rows features"], norm_bound: float
) -> Float[np.ndarray, "rows columns"]:
    """Clip each row, then map it to (x / norm_bound, 1) / sqrt(2), whose l2 norm is at most one.

    Examples
    --------
    >>> lift(np.array([[3.0, 4.0], [0.0, 0.0]]), norm_bound=1.0).round(3)
    array([[0.424, 0.566, 0.707],
           [0.   , 0.   , 0.707]])
    """
    lifted = np.full((len(x), x.shape[1] + 1), 1 / math.sqrt(2.0))
    unit = _shrinkage(x, norm_bound) * norm_bound * math.sqrt(2.0)
    np.divide(x, unit[:, None], out=lifted[:, :-1])
    return lifted


def clipped(
    x: Float[np.ndarray, "rows features"], norm_bound: float
) -> Float[np.ndarray, "rows features"]:
    """Return the rows, those beyond the bound scaled down to it."""
    return np.asarray(x / _shrinkage(x, norm_bound)[:, None])


def _shrinkage(
    x: Float[np.ndarray, "rows features"], norm_bound: float
) -> Float[np.ndarray, " rows"]:
    """Return the divisor, 1 or more, that brings each row within the bound."""
    with np.errstate(over="ignore", under="ignore"):
        squared = np.einsum("ij,ij->i", x, x)
    if norm_bound > MIN_BOUND and squared.max(initial=0.0) < math.inf:
        return np.asarray(np.maximum(np.sqrt(squared) / norm_bound, 1.0))
    # a row's square overflows, or the bound's underflows
    peak = np.maximum(np.abs(x).max(axis=1), norm_bound)
    relative = np.linalg.norm(x / peak[:, None], axis=1) * (peak / norm_bound)
    return np.asarray(np.maximum(relative, 1.0))
