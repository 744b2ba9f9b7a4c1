"""Choose the mechanism with the least expected error on class counts, from public numbers alone.

The errors of lattice and discrete Laplace noise come from their exact laws. The error of discrete Gaussian
noise is replaced by that of continuous noise of its scale, an upper bound
(`DiscreteGaussianLaw.projected_l1`).

>>> choose_mechanism(5, epsilon=1.0, delta=1e-6).mechanism
LatticeLaplace(epsilon=1.0)
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

import numpy as np

from privacy.accounting import (
    MARGIN,
    MAX_EPSILON,
    Event,
    PlanEvent,
    check_epsilon,
    compose,
    event_json,
    exact,
    six_digits_down,
)
from privacy.mechanisms.gaussian import DiscreteGaussian, discrete_gaussian_delta
from privacy.mechanisms.laplace import DiscreteLaplace
from privacy.mechanisms.lattice_laplace import LatticeLaplace
from privacy.query import ONE_TASK, Query, Unit, check_classes, is_whole

__all__ = ["Choice", "choose_mechanism", "crossover_delta"]

HALVINGS = 20

CountsMechanism: TypeAlias = LatticeLaplace | DiscreteLaplace | DiscreteGaussian


@dataclass(frozen=True, slots=True)
class Choice:
    """A mechanism for each of one or more releases, and the reason for it.

    `expected_l1` is the expected error of each release, in labels over all classes, before negative counts
    are cut off; for discrete Gaussian noise it is an upper bound. For a single release `crossover` is the
    delta up to which lattice Laplace noise is chosen, which uses no delta. For more releases `plan` is the
    event that pays for all of them. The other of the two is None.
    """

    mechanism: CountsMechanism
    expected_l1: float
    crossover: float | None
    reason: str
    plan: PlanEvent | None = None


def crossover_delta(n_classes: int, epsilon: float) -> float:
    """Return the delta up to which lattice Laplace noise is preferred to discrete Gaussian noise.

    It is the delta of discrete Gaussian noise at a certain scale: there continuous noise's expected l1 norm
    after projection to the public sum, c sd sqrt(2 (1 - 1/c) / pi), equals that of the lattice Laplace
    noise.

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
    check_epsilon(epsilon)
    wanted = LatticeLaplace(epsilon).law(n_classes).expected_l1
    if not wanted:  # above an epsilon of about 40 the noise is rarer than a double can show
        return 1.0
    scale = wanted / (n_classes * math.sqrt(2 * (1 - 1 / n_classes) / math.pi))
    return discrete_gaussian_delta(scale, epsilon)


def choose_mechanism(
    n_classes: int,
    epsilon: float,
    delta: float,
    *,
    n_releases: int = 1,
    l1: float = ONE_TASK,
) -> Choice:
    """Choose the mechanism of least error for releases of the class counts of the same tasks.

    Parameters
    ----------
    n_classes
        Number of classes, from 2 to a million.
    epsilon, delta
        Price of all releases together, 0 < epsilon <= 100 and 0 <= delta < 1.
    n_releases
        Number of releases, >= 1; public, and fixed before the first.
    l1
        Largest move of the counts between neighbours, in l1 norm: 2 for one task, more for a subject with
        several.

    Returns
    -------
    Choice
        For one release lattice Laplace or discrete Gaussian; for several also discrete Laplace. For an l1
        above 2 lattice Laplace, because Gaussian noise is calibrated for one task. Scaled Dirichlet noise
        is not considered: with a floor that does not depend on the counts its error is larger, or hardly
        smaller.

    Raises
    ------
    ValueError
        If one of the conditions is broken, or epsilon is too small for the noise's exact law.

    Notes
    -----
    For several releases each mechanism gets the least noise with which the composed losses of all of them
    stay within the price; their errors are then compared after projection to the public sum. Gaussian noise
    of a scale above 5e4 is not considered.

    **Guarantees.** The choice uses public numbers only. The expected errors of the other mechanisms are no
    smaller, with one exception: a discrete Gaussian that was not chosen may have, at a scale of 1 or more,
    an error smaller by at most a tenth. A plan costs no more than the given price.

    Examples
    --------
    >>> choice = choose_mechanism(5, epsilon=1.0, delta=1e-6)
    >>> choice.mechanism, round(choice.expected_l1, 1)
    (LatticeLaplace(epsilon=1.0), 7.5)
    >>> print(choice.reason.split("; ")[0])
    lattice Laplace errs by 7.53 labels on average and needs no delta
    >>> print(choose_mechanism(5, epsilon=4.0, delta=1e-6, n_releases=16).reason)
    each of 16 releases errs by 24.1 labels on average with discrete Gaussian noise, 26.4 with \
lattice Laplace, 29.9 with discrete Laplace
    """
    if not 0 <= delta < 1:
        raise ValueError(f"delta must be in [0, 1), got delta={delta}")
    if not (is_whole(n_releases) and n_releases >= 1):
        raise ValueError(f"n_releases must be an integer >= 1, got n_releases={n_releases}")
    check_epsilon(epsilon)
    check_classes(n_classes)
    if not l1 >= ONE_TASK:
        raise ValueError(f"l1 must be >= 2, got l1={l1}")
    if n_releases == 1:
        return _choose_one(n_classes, epsilon, delta, l1)
    return _choose_planned(n_classes, (epsilon, delta), int(n_releases), l1)


def _choose_one(n_classes: int, epsilon: float, delta: float, l1: float) -> Choice:
    lattice = LatticeLaplace(epsilon)
    error = lattice.law(n_classes, l1=l1).expected_l1
    if l1 != ONE_TASK:
        reason = f"lattice Laplace errs by {error:.3g} labels on average for up to {l1 / 2:g} labels moved"
        return Choice(lattice, error, None, reason)
    crossover = crossover_delta(n_classes, epsilon)
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


def _choose_planned(
    n_classes: int, price: tuple[float, float], n_releases: int, l1: float
) -> Choice:
    epsilon, delta = price
    candidates: dict[str, Callable[[float], CountsMechanism]] = {
        "lattice Laplace": LatticeLaplace,
        "discrete Laplace": DiscreteLaplace,
    }
    share = six_digits_down(exact(delta) / n_releases)
    if l1 != ONE_TASK:
        del candidates["discrete Laplace"]  # it errs more, and is no more private
    elif share > 0:
        candidates["discrete Gaussian"] = lambda one: DiscreteGaussian(one, share)
    found = {
        name: mechanism
        for name, make in candidates.items()
        if (mechanism := _made(make, _largest_share(make, n_classes, price, n_releases, l1)))
    }
    error = {name: _error_of(mechanism, n_classes, l1) for name, mechanism in found.items()}
    best, *others = sorted(error, key=lambda name: error[name])
    reason = (
        f"each of {n_releases} releases errs by {error[best]:.3g} labels on average with {best} "
        "noise" + "".join(f", {error[name]:.3g} with {name}" for name in others)
    )
    event = _event_of(found[best], n_classes, l1)
    planned = PlanEvent(((event_json(event), n_releases),), epsilon, delta)
    return Choice(found[best], error[best], None, reason, planned)


def _largest_share(
    make: Callable[[float], CountsMechanism],
    n_classes: int,
    price: tuple[float, float],
    n_releases: int,
    l1: float,
) -> float:
    """Return the largest epsilon of one release at which all of them, composed, stay within the price."""
    epsilon, delta = price

    def affordable(one: float) -> bool:
        mechanism = _made(make, one)
        if mechanism is None:  # a larger share has less noise
            return True
        composed = compose({_event_of(mechanism, n_classes, l1): n_releases})
        return composed.delta(epsilon) <= delta * MARGIN

    low = six_digits_down(exact(epsilon) / n_releases)  # fits by basic composition
    if delta == 0:
        return low
    high = 2 * low
    while high <= MAX_EPSILON and affordable(high):
        low, high = high, 2 * high
    high = min(high, MAX_EPSILON)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if affordable(middle) else (low, middle)
    return six_digits_down(Fraction(low))


def _made(make: Callable[[float], CountsMechanism], one: float) -> CountsMechanism | None:
    """Return the mechanism at a price; None for Gaussian noise too wide for the sum of its law."""
    try:
        return make(one)
    except ValueError:
        return None


def _event_of(mechanism: CountsMechanism, n_classes: int, l1: float) -> Event:
    """Return the public event that the ledger would record for one release of class counts."""
    counts = np.eye(1, n_classes, dtype=np.int64)[0]
    query = Query("any", "class counts", counts, Unit.CONSENSUS_LABEL, n=1, l1=l1)
    return mechanism.event(query)


def _error_of(mechanism: CountsMechanism, n_classes: int, l1: float) -> float:
    """Return the expected l1 norm of the noise after projection to the public sum, in labels."""
    match mechanism:
        case DiscreteGaussian():
            return mechanism.law(n_classes).projected_l1
        case DiscreteLaplace():
            return _projected_laplace(n_classes, mechanism.law(n_classes).scale)
        case LatticeLaplace():
            return mechanism.law(n_classes, l1=l1).expected_l1


def _projected_laplace(n_classes: int, scale: float) -> float:
    """Return E|Y| of Y = c (z_1 - mean of z), z independent discrete Laplace.

    For an integer Y with a real characteristic function phi it is the mean over (0, pi) of
    (1 - phi(w)) / (1 - cos w); each z has 1 / (1 + 2 k sin^2(w / 2)), k = 2 q / (1 - q)^2.
    """
    c, k = n_classes, 2 * math.exp(-1 / scale) / math.expm1(-1 / scale) ** 2
    knee = math.pi / (c * (1 + scale))
    w = np.geomspace(knee * 1e-8, math.pi, 2**14)  # the part below adds a share of about 1e-8
    half = np.sin(w / 2) ** 2
    log_phi = -np.log1p(2 * k * np.sin((c - 1) * w / 2) ** 2) - (c - 1) * np.log1p(2 * k * half)
    return float(np.trapezoid(-np.expm1(log_phi) / (2 * half) * w, np.log(w))) / math.pi
