"""Which noise errs least on class counts, told from public numbers alone."""

import math
from dataclasses import dataclass

from privacy.discrete_gaussian import DiscreteGaussian
from privacy.gaussian_delta import discrete_gaussian_delta
from privacy.lattice_laplace import LatticeLaplace

__all__ = ["Choice", "choose_mechanism", "crossover_delta"]


@dataclass(frozen=True, slots=True)
class Choice:
    """A mechanism for one release, and why.

    `expected_l1` is what it errs by, in labels over all classes, before negative counts are cut
    off; `crossover` is the delta up to which lattice Laplace noise errs less, which uses none.
    """

    mechanism: LatticeLaplace | DiscreteGaussian
    expected_l1: float
    crossover: float
    reason: str


def crossover_delta(n_classes: int, epsilon: float) -> float:
    """Largest delta at which lattice Laplace noise still errs no more than discrete Gaussian noise.

    The delta of Gaussian noise whose expected l1 norm after projection to the public sum,
    c sd sqrt(2 (1 - 1/c) / pi), is that of the lattice Laplace noise.

    Parameters
    ----------
    n_classes
        c, >= 2.
    epsilon
        In (0, 100].

    Raises
    ------
    ValueError
        If one of these conditions is broken, or epsilon is too small for the noise's exact law.

    Examples
    --------
    >>> round(crossover_delta(5, 1.0), 3)
    0.032
    """
    wanted = LatticeLaplace(epsilon).law(n_classes).expected_l1
    scale = wanted / (n_classes * math.sqrt(2 * (1 - 1 / n_classes) / math.pi))
    return discrete_gaussian_delta(scale, epsilon)


def choose_mechanism(n_classes: int, epsilon: float, delta: float) -> Choice:
    """Choose the least-distorting mechanism for a single release of class counts.

    Parameters
    ----------
    n_classes
        Number of classes, >= 2.
    epsilon, delta
        What this one release may cost, 0 < epsilon <= 100 and 0 <= delta < 1. For several releases
        of the same tasks the answer depends on how they are composed; this compares one.

    Returns
    -------
    Choice
        Lattice Laplace or discrete Gaussian. Scaled Dirichlet noise is not considered: with a
        floor that does not depend on the counts it errs more, or hardly less.

    Raises
    ------
    ValueError
        If one of the conditions is broken, or epsilon is too small for the noise's exact law.

    Notes
    -----
    **Guarantees.** Only public numbers are looked at; the other mechanism's expected error, by the
    formula of `crossover_delta`, is no smaller.

    Examples
    --------
    >>> choice = choose_mechanism(5, epsilon=1.0, delta=1e-6)
    >>> choice.mechanism, round(choice.expected_l1, 1)
    (LatticeLaplace(epsilon=1.0), 7.5)
    >>> print(choice.reason.split("; ")[0])
    lattice Laplace errs by 7.53 labels on average and needs no delta
    """
    if not 0 <= delta < 1:
        raise ValueError(f"delta must be in [0, 1), got delta={delta}")
    crossover = crossover_delta(n_classes, epsilon)
    lattice = LatticeLaplace(epsilon)
    error = lattice.law(n_classes).expected_l1
    if delta <= crossover:
        reason = (
            f"lattice Laplace errs by {error:.3g} labels on average and needs no delta; Gaussian "
            f"noise errs less only above delta = {crossover:.3g}"
        )
        return Choice(lattice, error, crossover, reason)
    gaussian = DiscreteGaussian(epsilon, delta)
    less = gaussian.law(n_classes).projected_l1
    reason = (
        f"discrete Gaussian errs by {less:.3g} labels on average, lattice Laplace by {error:.3g}; "
        f"above delta = {crossover:.3g} Gaussian noise errs less"
    )
    return Choice(gaussian, less, crossover, reason)
