"""Linear separators of two circles, weighed exactly by how many points they misjudge."""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float

__all__ = ["DELTA", "law_of_errors", "mass_by_errors", "published_gamma"]

DELTA = 0.05


def mass_by_errors(c: float, n: int, directions: int = 720) -> Float[np.ndarray, " counts"]:
    """Prior mass of the linear separators of the plane with k of n errors, for every k.

    Half of the points lie on the unit circle about -(c, c), labelled -1, half on that about (c, c).
    The separator sign(x.u - b) has b uniform on [-R, R], R the largest norm: along b the number of
    errors changes by one at each projection, so its integral is exact; directions on a midpoint grid.
    """
    angle = 2 * np.pi * np.arange(n // 2) / (n // 2)
    circle = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    point = np.concatenate([circle - c, circle + c])
    label = np.repeat([-1, 1], n // 2)
    radius = np.linalg.norm(point, axis=1).max()
    theta = 2 * np.pi * (np.arange(directions) + 0.5) / directions
    projection = np.stack([np.cos(theta), np.sin(theta)], axis=1) @ point.T
    order = projection.argsort(axis=1)
    ends = np.full((directions, 1), radius)
    edge = np.hstack([-ends, np.take_along_axis(projection, order, axis=1), ends])
    errors = np.hstack([np.zeros((directions, 1), int), label[order].cumsum(axis=1)]) + n // 2
    mass = np.bincount(errors.ravel(), weights=np.diff(edge, axis=1).ravel(), minlength=n + 1)
    return np.asarray(mass / mass.sum())


def published_gamma(n: int) -> float:
    """Half of sqrt(n ln(3 / delta)), the largest that the paper's bound allows."""
    return 0.5 * math.sqrt(n * math.log(3 / DELTA))


def law_of_errors(c: float, n: int, gamma: float | None = None) -> Float[np.ndarray, " counts"]:
    """Law of the error count of a separator drawn ~ exp(-gamma error rate), gamma the published one."""
    mass, errors = mass_by_errors(c, n), np.arange(n + 1)
    fewest = errors[mass > 0].min()
    weight = mass * np.exp(
        -(published_gamma(n) if gamma is None else gamma) * (errors - fewest) / n
    )
    return np.asarray(weight / weight.sum())
