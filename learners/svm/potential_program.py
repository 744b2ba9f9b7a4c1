"""The potential support vector machine's program: a lasso on standardized columns, in a box.

    min over a:  1/2 ||K a - y||^2 + epsilon ||a||_1   where every |a_j| <= bound

with the columns of K centred and scaled, and y centred. All that it needs of the rows are Q = K'K and
K'y, so that rows are read once, a block at a time, and no matrix of proximities is kept.

>>> box_lasso(np.eye(3), np.array([0.9, -0.5, 0.1]), epsilon=0.2, bound=0.5).coef
array([ 0.5, -0.3,  0. ])
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from privacy.query import numbers

__all__ = [
    "BoxLasso",
    "ColumnMoments",
    "EpsilonPath",
    "box_lasso",
    "column_moments",
    "epsilon_path",
]

RIDGE = 1e-13  # per column, relative to the diagonal: about what rounding adds to Q
FLAT = 1e-10  # a column's deviation, relative to its size, below which it is constant


@dataclass(frozen=True, slots=True, eq=False)
class BoxLasso:
    """Result of `box_lasso`.

    Parameters
    ----------
    coef
        The minimum, one number per column.
    violation
        Largest violation of the optimality conditions, in the unit of `linear`; 0 is exact.
    n_iter
        Number of times that columns were let in.
    """

    coef: Float[np.ndarray, " columns"]
    violation: float
    n_iter: int


def box_lasso(
    gram: Float[np.ndarray, "columns columns"],
    linear: Float[np.ndarray, " columns"],
    *,
    epsilon: float,
    bound: float = math.inf,
    tol: float = 0.0,
    max_iter: int = 2000,
    start: Float[np.ndarray, " columns"] | None = None,
) -> BoxLasso:
    """Minimise 1/2 a'Qa - q'a + epsilon ||a||_1 over |a_j| <= bound, for Q = `gram`, q = `linear`.

    Parameters
    ----------
    gram
        Symmetric and positive semi-definite; neither is checked.
    linear
        One number per column.
    epsilon
        >= 0, in the unit of `linear`.
    bound
        > 0; infinite for none.
    tol
        Violation of the optimality conditions at which to stop, in the unit of `linear`.
    max_iter
        Number of times that columns may be let in.
    start
        A point of the box to start from, such as the minimum for a similar epsilon.

    Raises
    ------
    ValueError
        If a condition above is broken, or shapes do not fit.

    Notes
    -----
    Feature-sign search [1]_ with a box. Columns whose gradient violates the conditions most are let in; the
    minimum on all that are in, at their signs, is solved for, and a column that reaches zero or
    the bound on the way there stays at it. The objective falls with every step, so no set recurs.
    `RIDGE` keeps every solve possible where columns repeat each other.

    **Guarantees.** `violation` is that of the coefficients returned, computed anew. Without a bound the
    minimum is the lasso's; without epsilon it is that of bounded least squares.

    References
    ----------
    .. [1] Lee, Battle, Raina, Ng, "Efficient sparse coding algorithms", NIPS (2007).

    Examples
    --------
    >>> box_lasso(np.eye(2), np.array([2.0, 0.5]), epsilon=0.5).coef
    array([1.5, 0. ])
    """
    if not (gram.shape == 2 * linear.shape and linear.size > 0):
        raise ValueError(f"gram must fit linear, got shapes {gram.shape} and {linear.shape}")
    if not (epsilon >= 0 and bound > 0 and tol >= 0):
        raise ValueError(
            f"epsilon and tol must be >= 0 and bound > 0, got {epsilon=}, {tol=}, {bound=}"
        )
    H = gram + RIDGE * linear.size * gram.diagonal().max() * np.eye(linear.size)
    coef = np.zeros(linear.size) if start is None else np.clip(start, -bound, bound)
    free = (coef != 0) & (np.abs(coef) < bound)
    n_iter, alone, height = 0, False, math.inf
    violation = _violation(H, linear, coef, epsilon, bound)
    while violation.max() > tol and n_iter < max_iter:
        worst = violation.max()
        entering = violation == worst if alone else violation >= worst / 2
        coef, free = _walk(H, linear, coef, free | entering, epsilon, bound)
        violation = _violation(H, linear, coef, epsilon, bound)
        n_iter += 1
        inside = np.flatnonzero(coef)
        slope = H[np.ix_(inside, inside)] @ coef[inside] / 2 - linear[inside]
        before, height = height, coef[inside] @ slope + epsilon * np.abs(coef).sum()
        if alone and not height < before:
            break  # what is left of the violation is rounding
        alone = not height < before
    exact = _violation(gram, linear, coef, epsilon, bound)
    coef.setflags(write=False)
    return BoxLasso(coef, float(exact.max()), n_iter)


def _violation(
    H: Float[np.ndarray, "columns columns"],
    linear: Float[np.ndarray, " columns"],
    coef: Float[np.ndarray, " columns"],
    epsilon: float,
    bound: float,
) -> Float[np.ndarray, " columns"]:
    """Return each column's violation: the objective's slope in its steepest allowed direction."""
    inside = np.flatnonzero(coef)
    slope = H[:, inside] @ coef[inside] - linear
    outwards = slope + epsilon * np.sign(coef)
    violation = np.where(coef == 0, np.abs(slope) - epsilon, np.abs(outwards))
    full = np.abs(coef) >= bound
    violation[full] = np.sign(coef[full]) * outwards[full]  # only the way back is open
    return np.asarray(np.maximum(violation, 0.0))


def _walk(
    H: Float[np.ndarray, "columns columns"],
    linear: Float[np.ndarray, " columns"],
    coef: Float[np.ndarray, " columns"],
    free: Bool[np.ndarray, " columns"],
    epsilon: float,
    bound: float,
) -> tuple[Float[np.ndarray, " columns"], Bool[np.ndarray, " columns"]]:
    """Walk to the minimum over the free columns, fixing each that reaches zero or the bound on the way."""
    coef, free = coef.copy(), free.copy()
    inside = np.flatnonzero(coef)
    slope = H[:, inside] @ coef[inside] - linear
    sign = np.where(coef == 0, -np.sign(slope), np.sign(coef))
    crossing = 0.0 if epsilon > 0 else bound  # without epsilon nothing happens at zero
    low, high = np.where(sign > 0, -crossing, -bound), np.where(sign > 0, bound, crossing)
    while free.any():
        on = np.flatnonzero(free)
        fixed = np.flatnonzero(~free & (coef != 0))
        pull = linear[on] - epsilon * sign[on] - H[np.ix_(on, fixed)] @ coef[fixed]
        inner, here = H[np.ix_(on, on)], coef[on]
        step = np.linalg.solve(inner, pull) - here
        cut = np.clip(here + step, low[on], high[on]) - here
        # cutting all at once climbs: the first alone
        if not cut @ (inner @ (here + cut / 2) - pull) < 0:
            limit = np.where(step > 0, high[on], low[on])
            reach = np.full(on.size, math.inf)
            np.divide(limit - here, step, out=reach, where=step != 0)
            share = min(1.0, float(reach.min()))
            cut = np.where(reach <= share, limit - here, share * step)
        coef[on] = np.clip(here + cut, low[on], high[on])
        if (stopped := (cut != step) & np.isin(coef[on], (-bound, 0.0, bound))).any():
            free[on[stopped]] = False
        else:
            break
    return coef, free


@dataclass(frozen=True, slots=True, eq=False)
class ColumnMoments:
    """The rows as the program needs them: their weight, and means and products of standardized columns.

    A constant column has scale 0 and zeros for products, so that its coefficient is 0.
    """

    weight: float
    mean: Float[np.ndarray, " columns"]
    scale: Float[np.ndarray, " columns"]
    gram: Float[np.ndarray, "columns columns"]
    linear: Float[np.ndarray, "problems columns"]
    target_mean: Float[np.ndarray, " problems"]


def column_moments(
    blocks: Iterable[
        tuple[
            Float[np.ndarray, "_ columns"],
            Float[np.ndarray, "_ problems"],
            Float[np.ndarray, " _"],
        ]
    ],
    *,
    centre: bool = True,
) -> ColumnMoments:
    """Return the moments of blocks of proximities, targets and row weights, which are read once.

    Parameters
    ----------
    blocks
        One or more, each of rows of its own; columns and problems are those of all. Weights >= 0.
        They are overwritten.
    centre
        False: columns and targets keep their means, and scales are root mean squares.

    Examples
    --------
    >>> K, y = np.array([[1.0], [2.0], [3.0]]), np.array([[-1.0], [0.0], [1.0]])
    >>> moments = column_moments([(K, y, np.ones(3))])
    >>> moments.mean, moments.scale.round(3), moments.gram.round(3)
    (array([2.]), array([0.816]), array([[3.]]))
    """
    weight, shift, largest = 0.0, np.zeros(0), np.zeros(0)
    total, products, target_total, crossed = (np.zeros(0) for _ in range(4))
    for K, target, row_weight in blocks:
        if not shift.size:
            columns, problems = K.shape[1], target.shape[1]
            # around the first block's means, so that no product loses the digits of a large mean
            shift = K.mean(axis=0) if centre else np.zeros(columns)
            largest, total, target_total = np.zeros(columns), np.zeros(columns), np.zeros(problems)
            products, crossed = np.zeros((columns, columns)), np.zeros((problems, columns))
        largest = np.maximum(largest, np.maximum(K.max(axis=0), -K.min(axis=0)))
        K -= shift
        root = np.sqrt(row_weight)[:, None]
        if not (row_weight == 1).all():
            K *= root
        products += K.T @ K
        total += root[:, 0] @ K
        crossed += (target * root).T @ K
        target_total += row_weight @ target
        weight += float(row_weight.sum())
    mean = total / weight
    if centre:
        products -= weight * np.outer(mean, mean)
        crossed -= np.outer(target_total, mean)
    scale = np.sqrt(np.maximum(products.diagonal(), 0.0) / weight)
    scale[scale <= FLAT * largest] = 0.0
    unit = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0)
    return ColumnMoments(
        weight,
        mean + shift if centre else np.zeros_like(mean),
        scale,
        products * np.outer(unit, unit),
        crossed * unit,
        target_total / weight if centre else np.zeros_like(target_total),
    )


@dataclass(frozen=True, slots=True, eq=False)
class EpsilonPath:
    """Result of `epsilon_path`: the machine at each tolerance, from the largest.

    Parameters
    ----------
    epsilon
        Tolerances, falling; at the first all coefficients are zero.
    coef
        Coefficients of standardized columns, one row per tolerance.
    n_support
        Number of columns that each keeps.
    """

    epsilon: Float[np.ndarray, " path"]
    coef: Float[np.ndarray, "path columns"]
    n_support: Int[np.ndarray, " path"]


def epsilon_path(
    proximity: Float[np.ndarray, "rows columns"],
    y: Float[np.ndarray, " rows"],
    *,
    n_epsilons: int = 20,
    smallest: float = 0.01,
    bound: float = math.inf,
) -> EpsilonPath:
    """Return the coefficients of the sparse machine at tolerances from its largest down.

    Parameters
    ----------
    proximity
        Rows to learn from, one column per object that they are compared with; finite.
    y
        Targets, for two classes -1 and +1.
    n_epsilons
        Number of tolerances, >= 2, of equal ratios.
    smallest
        The last one's share of the first, in (0, 1).
    bound
        C, > 0.

    Raises
    ------
    ValueError
        If a condition above is broken, or no column has to do with y.

    Notes
    -----
    Tolerances are in the unit of `PotentialSVC`: of a column's correlation with y, times the deviation of y.

    **Guarantees.** The first coefficients are zero; each further row is the minimum at its tolerance.

    Examples
    --------
    >>> K = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [0.0, 0.0]])
    >>> epsilon_path(K, np.array([1.0, -1.0, 1.0, -1.0]), n_epsilons=3).n_support
    array([0, 1, 1])
    """
    if not (n_epsilons >= 2 and 0 < smallest < 1):
        raise ValueError(
            f"n_epsilons must be >= 2 and smallest in (0, 1), got {n_epsilons=}, {smallest=}"
        )
    proximity, y = numbers("proximity", proximity), numbers("y", y)
    if not (proximity.ndim == 2 and y.shape == (len(proximity),)):
        raise ValueError(
            "proximity must be a matrix and y a target for each row, got shapes "
            f"{proximity.shape} and {y.shape}"
        )
    if not (np.isfinite(proximity).all() and np.isfinite(y).all()):
        raise ValueError("proximity and y must be finite")
    moments = column_moments([(proximity.astype(np.float64), y[:, None], np.ones(len(y)))])
    linear = moments.linear[0]
    largest = float(np.abs(linear).max())
    if not largest > 0:
        raise ValueError("a column of proximity must have to do with y, got none that does")
    epsilon = largest * np.geomspace(1.0, smallest, n_epsilons)
    coef = np.zeros((n_epsilons, linear.size))
    for step in range(1, n_epsilons):
        coef[step] = box_lasso(
            moments.gram, linear, epsilon=epsilon[step], bound=bound, start=coef[step - 1]
        ).coef
    return EpsilonPath(epsilon / moments.weight, coef, np.count_nonzero(coef, axis=1))
