"""How far a class ratio can be trusted, in numbers and in sentences."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

__all__ = ["RatioDiagnostics", "diagnose"]

LARGEST_KERNEL_CONDITION = 1e8
LEAST_RELIABILITY = 0.5
POOR_MIXING = 50.0
FEW_POINTS = 30
FEW_LEFT_OUT = 3
WIDE = 0.5


@dataclass(frozen=True, slots=True, eq=False)
class RatioDiagnostics:
    """How far a class ratio can be trusted.

    Parameters
    ----------
    mixing_condition
        Condition number of the labelled bags' proportions: large where all bags are mixed alike.
    kernel_condition
        Condition number of H, the inner products of the classes' means in the method's embedding.
    reliability
        Share of the squared distance between classes that is no sampling error, for the two mixtures
        of classes where it is least; below zero where chance alone would set them further apart.
    identifiable
        Whether that condition number is at most 1e8 and the reliability at least one half.
    effective_points
        As many labelled points of the class would estimate its mean kernel as well.
    bags_left_out
        Bags on which methods were compared; 0 for a given bandwidth.
    error_left_out
        Mean L1 error of the chosen method on those bags; NaN for a given bandwidth.
    warnings
        What to know before acting on the ratio; empty if nothing.

    Examples
    --------
    >>> found = diagnose(np.eye(2), np.eye(2), 0.9, np.array([100.0, 20.0]), 0, np.nan, width=0.1)
    >>> found.warnings
    ("Class 1: fewer than 30 points' worth of evidence; label more groups where it occurs.",)
    """

    mixing_condition: float
    kernel_condition: float
    reliability: float
    identifiable: bool
    effective_points: Float[np.ndarray, " classes"]
    bags_left_out: int
    error_left_out: float
    warnings: tuple[str, ...]


def diagnose(
    mixture: Float[np.ndarray, "bags classes"],
    hessian: Float[np.ndarray, "classes classes"],
    reliability: float,
    effective_points: Float[np.ndarray, " classes"],
    bags_left_out: int,
    error_left_out: float,
    *,
    width: float,
    classes: Sequence[str] | None = None,
) -> RatioDiagnostics:
    """Judge the evidence behind a ratio whose widest interval has this width.

    Examples
    --------
    >>> diagnose(np.eye(2), np.eye(2), 0.9, np.array([90.0, 70.0]), 2, 0.1, width=0.1).warnings
    ('The method was chosen on 2 left-out groups only; label more groups.',)
    """
    mixing, kernel = float(np.linalg.cond(mixture)), float(np.linalg.cond(hessian))
    identifiable = kernel <= LARGEST_KERNEL_CONDITION and reliability >= LEAST_RELIABILITY
    doubts = [
        (
            mixing > POOR_MIXING,
            "The labelled groups have nearly the same class proportions, so what a class looks like "
            "is known only roughly; label groups that are mixed differently.",
        ),
        (
            not identifiable,
            "The features tell the classes apart by little more than chance; do not rely on the "
            "ratio, add features or label more groups.",
        ),
        (
            0 < bags_left_out < FEW_LEFT_OUT,
            f"The method was chosen on {bags_left_out} left-out groups only; label more groups.",
        ),
        (width > WIDE, f"An interval is {width:.2f} wide: the data hardly say what the ratio is."),
    ]
    doubts += [
        (
            points < FEW_POINTS,
            f"Class {name}: fewer than {FEW_POINTS} points' worth of evidence; "
            "label more groups where it occurs.",
        )
        for name, points in zip(classes or range(len(mixture.T)), effective_points, strict=True)
    ]
    owned = effective_points.copy()
    owned.setflags(write=False)
    return RatioDiagnostics(
        mixing_condition=mixing,
        kernel_condition=kernel,
        reliability=reliability,
        identifiable=identifiable,
        effective_points=owned,
        bags_left_out=bags_left_out,
        error_left_out=error_left_out,
        warnings=tuple(sentence for doubtful, sentence in doubts if doubtful),
    )
