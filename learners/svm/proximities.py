"""Plummer and Coulomb kernels: the potential of a charge, softened so that it is finite where the charge is.

>>> x = np.array([[0.0], [1.0], [3.0]])
>>> coulomb_radii(x)
array([0.5, 0.5, 1. ])
>>> coulomb_kernel(x, x, radius=coulomb_radii(x)).round(3)
array([[2.   , 1.   , 0.333],
       [1.   , 2.   , 0.5  ],
       [0.333, 0.5  , 1.   ]])
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Float

from privacy.query import numbers

__all__ = [
    "Proximity", "coulomb_kernel", "coulomb_radii", "kernel_values", "plummer_kernel",
]  # fmt: skip

Proximity: TypeAlias = Callable[..., Float[np.ndarray, "rows columns"]]

BLOCK = 1024  # rows whose distances to all others are held at once
UNSURE = 1e-9  # of a row's square: a square of a distance below it has few digits in one product


def plummer_kernel(
    x: Float[np.ndarray, "rows features"],
    centres: Float[np.ndarray, "columns features"],
    *,
    exponent: float = 1.0,
    softening: float = 1.0,
) -> Float[np.ndarray, "rows columns"]:
    """Return (1 + ||x - z||^2 / softening^2)^(-exponent / 2), the inverse multiquadric.

    Parameters
    ----------
    x, centres
        Rows and charges, in the same units.
    exponent
        l > 0; the potential of a point charge in three dimensions has 1.
    softening
        e > 0, in the units of the rows: within it the potential is flat.

    Returns
    -------
    ndarray
        One row per row, one column per centre, each in (0, 1].

    Raises
    ------
    ValueError
        If a condition above is broken.

    Notes
    -----
    That is e^l (||x - z||^2 + e^2)^(-l/2): the Plummer potential of [1]_, scaled to 1 at its centre.

    **Guarantees.** On distinct points the matrix is positive definite; it equals scikit-learn's
    ``RationalQuadratic(alpha=l / 2, length_scale=e / sqrt(l))``.

    References
    ----------
    .. [1] Hochreiter, Mozer, Obermayer, "Coulomb classifiers: generalizing support vector machines via an
       analogy to electrostatic systems", NIPS (2002).

    Examples
    --------
    >>> plummer_kernel(np.array([[3.0]]), np.array([[0.0], [3.0]]), exponent=2.0)
    array([[0.1, 1. ]])
    """
    _check_positive("exponent", exponent)
    _check_positive("softening", softening)
    if not 0 < softening * softening < math.inf:
        raise ValueError(f"softening must have a square > 0 and finite, got {softening=}")
    squared = _squared_distances(*_alike(x, centres))
    squared /= softening**2
    squared += 1.0
    return _inverse_power(squared, exponent)


def coulomb_kernel(
    x: Float[np.ndarray, "rows features"],
    centres: Float[np.ndarray, "columns features"],
    *,
    radius: Float[np.ndarray, " columns"],
    exponent: float = 1.0,
) -> Float[np.ndarray, "rows columns"]:
    """Return max(||x - z||, radius)^(-exponent): the potential of charged spheres, constant inside.

    Parameters
    ----------
    x, centres
        Rows and charges, in the same units.
    radius
        Radius of each sphere, > 0: `coulomb_radii` of the centres.
    exponent
        l > 0.

    Raises
    ------
    ValueError
        If a condition above is broken.

    Notes
    -----
    Rows and centres s times as far give a matrix s^(-l) times as large, so that a machine whose columns
    are standardized does not depend on the unit.

    **Guarantees.** Scaling rows, centres and radii by s scales the matrix by s^(-l).

    References
    ----------
    .. [1] Hochreiter, Mozer, Obermayer, "Coulomb classifiers", NIPS (2002), section 3.

    Examples
    --------
    >>> centres = np.array([[0.0], [4.0]])
    >>> coulomb_kernel(np.array([[0.0], [8.0]]), centres, radius=coulomb_radii(centres))
    array([[0.5  , 0.25 ],
           [0.125, 0.25 ]])
    """
    _check_positive("exponent", exponent)
    (x, centres), radius = _alike(x, centres), numbers("radius", radius)
    if not (radius.shape in ((), (len(centres),)) and (radius > 0).all()):
        raise ValueError("radius must be > 0 for every centre: take coulomb_radii(centres)")
    squared = _squared_distances(x, centres)
    np.maximum(squared, np.square(radius), out=squared)
    return _inverse_power(squared, exponent)


def coulomb_radii(
    centres: Float[np.ndarray, "columns features"],
) -> Float[np.ndarray, " columns"]:
    """Return half of each centre's distance to the nearest other, in the centres' unit.

    ValueError is raised for a single centre, and where centres coincide.

    Examples
    --------
    >>> coulomb_radii(np.array([[0.0], [1.0], [3.0]]))
    array([0.5, 0.5, 1. ])
    """
    centres = numbers("centres", centres)
    if not len(centres) >= 2:
        raise ValueError(f"coulomb kernel needs two rows or more, got {len(centres)}")
    if n_doubles := len(centres) - len(np.unique(centres, axis=0)):
        raise ValueError(
            f"coulomb kernel needs distinct rows; {n_doubles} duplicated; use kernel='plummer' or "
            "deduplicate"
        )
    radius = np.empty(len(centres))
    size = np.square(centres - np.median(centres, axis=0)).sum(axis=1)
    for start in range(0, len(centres), BLOCK):
        part = centres[start : start + BLOCK]
        squared = _squared_distances(part, centres)
        squared[np.arange(len(part)), np.arange(start, start + len(part))] = math.inf
        nearest = squared.argmin(axis=1)
        for row in np.flatnonzero(squared.min(axis=1) <= UNSURE * size[start : start + BLOCK]):
            apart = np.linalg.norm(centres - part[row], axis=1)
            apart[start + row] = math.inf
            nearest[row] = apart.argmin()
        apart = np.linalg.norm(part - centres[nearest], axis=1)  # anew: exact
        radius[start : start + BLOCK] = apart / 2
    return radius


def kernel_values(
    kernel: str | Proximity,
    x: Float[np.ndarray, "rows features"],
    centres: Float[np.ndarray, "columns features"],
    given: Mapping[str, Any],
) -> Float[np.ndarray, "rows columns"]:
    """Return the values of "plummer", "coulomb", a kernel that scikit-learn names, or a function.

    Parameters
    ----------
    kernel
        What takes rows and charges, and keywords.
    x, centres
        Rows and charges, in the same units.
    given
        The keywords.

    Raises
    ------
    ValueError
        If the kernel is unknown, the keywords do not fit it, or a function returns another shape.

    Examples
    --------
    >>> kernel_values("rbf", np.zeros((1, 2)), np.ones((2, 2)), {"gamma": 0.5}).round(3)
    array([[0.368, 0.368]])
    """
    if callable(kernel):
        found = np.array(kernel(x, centres, **given), dtype=np.float64)
        if found.shape != (len(x), len(centres)):
            raise ValueError(
                "kernel must return a proximity for each row and landmark, shape="
                f"{(len(x), len(centres))}, got shape={found.shape}"
            )
        return found
    from sklearn.metrics.pairwise import kernel_metrics, pairwise_kernels  # for this function only

    own: dict[str, Proximity] = {"plummer": plummer_kernel, "coulomb": coulomb_kernel}
    if not (isinstance(kernel, str) and kernel in own | kernel_metrics()):
        names = ", ".join(map(repr, sorted({*own, *kernel_metrics(), "precomputed"})))
        raise ValueError(f"kernel must be a function or one of {names}, got kernel={kernel!r}")
    try:
        if kernel in own:
            return own[kernel](x, centres, **given)
        return np.asarray(pairwise_kernels(x, centres, metric=kernel, **given))
    except TypeError as error:
        raise ValueError(
            f"kernel_params must fit kernel={kernel!r}, got {', '.join(given)}: {error}"
        ) from None


def _alike(x: Any, centres: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and charges as arrays; raise ValueError unless they have the same features."""
    x, centres = numbers("x", x), numbers("centres", centres)
    if not (x.ndim == centres.ndim == 2 and x.shape[1] == centres.shape[1]):
        raise ValueError(
            f"x and centres must have the same features, got shapes {x.shape} and {centres.shape}"
        )
    return x, centres


def _squared_distances(
    x: Float[np.ndarray, "rows features"], centres: Float[np.ndarray, "columns features"]
) -> Float[np.ndarray, "rows columns"]:
    """Return squared distances by one product, about the centres' median, which few far ones do not move."""
    origin = np.median(centres, axis=0)
    x, centres = x - origin, centres - origin
    squared = x @ (-2.0 * centres.T)
    squared += np.einsum("ij,ij->i", x, x)[:, None]
    squared += np.einsum("ij,ij->i", centres, centres)
    return np.asarray(np.maximum(squared, 0.0, out=squared))


def _inverse_power(
    squared: Float[np.ndarray, "rows columns"], exponent: float
) -> Float[np.ndarray, "rows columns"]:
    """Return squared^(-exponent / 2), written over `squared`; whole exponents up to 2 need no power."""
    if exponent == 1:
        np.sqrt(squared, out=squared)
    elif exponent != 2:
        return np.asarray(np.power(squared, -exponent / 2, out=squared))
    return np.asarray(np.reciprocal(squared, out=squared))


def _check_positive(name: str, value: float) -> None:
    if not 0 < value < math.inf:
        raise ValueError(f"{name} must be > 0 and finite, got {name}={value}")
