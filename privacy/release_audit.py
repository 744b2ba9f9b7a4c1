"""An audit of releases without a law: it searches for a property that separates two neighbours' releases.

>>> rng = np.random.default_rng(0)
>>> audit_releases(rng.laplace(size=(400, 2)), rng.laplace(size=(400, 2)), epsilon=1.0).refutes(0.0)
False
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Bool, Float

from privacy.audit import AuditBound, audit_losses, check_claim, check_numbers, hit_shares

__all__ = ["audit_releases"]

CUTS = 64  # quantiles of a number that are tried as thresholds
LARGEST = 1e100  # larger numbers, infinities too, count as this, so that squares stay finite
VALUES = 8  # most frequent values of a number, each tried alone
CHOICE_LEVEL = 1 - 6e-5  # four standard deviations a side: of thousands the best is far out

Distinguisher = tuple[str, float]
"""What tells two releases apart: "at least", "below", "equal" or "missing", and the number it is about."""


def audit_releases(
    first: Float[np.ndarray, "draws numbers"],
    second: Float[np.ndarray, "draws numbers"],
    *,
    epsilon: float,
    delta: float = 0.0,
    level: float = 0.999,
) -> AuditBound:
    """Return a lower bound on delta from releases alone, by the property that separates them best.

    Parameters
    ----------
    first, second
        The numbers of releases of two neighbouring data sets, drawn independently, equal numbers of both
        and two or more; NaN where a release lacks a number. Texts are given as codes.
    delta
        Delta of the claim, in [0, 1]: events of smaller probability refute nothing.
    epsilon, level
        As for `audit_pair`, errors included.

    Returns
    -------
    AuditBound
        From half of the draws. It is weak if only a nonlinear combination of many numbers separates the
        neighbours.

    Notes
    -----
    The first half of the draws chooses a distinguisher and a direction. Candidates for each number are: it
    is missing; it lies at or above one of its quantiles, or below it; it is one of its most frequent
    values. The same is tried for the linear combination of all numbers that separates the two best
    (Fisher's discriminant): it finds a number that was published without noise among others with noise. The
    choice has the largest lower bound on epsilon at this delta, taken four standard deviations from its
    count: of thousands of candidates some differ by far more than they should by chance, and most of these
    are rare. The second half counts how often the chosen distinguisher holds.

    **Guarantees.** As for `audit_pair`: the draws that are counted played no part in the choice.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> noisy, leak = rng.laplace(size=(2, 400, 1)), np.ones((400, 1))
    >>> here = np.hstack([noisy[0], noisy[0] + leak])
    >>> there = np.hstack([noisy[1], noisy[1]])
    >>> audit_releases(here, there, epsilon=1.0).refutes(0.5)
    True
    """
    for numbers in (first, second):
        check_numbers("releases", numbers)
    draws = len(first) if first.ndim else 0
    if not (first.ndim == 2 and first.shape == second.shape and draws >= 2):
        raise ValueError(
            f"releases must be equally many, 2 or more, got {first.shape} and {second.shape}"
        )
    check_claim(delta)
    first, second = (  # as doubles: a shorter type has no such numbers
        np.clip(numbers.astype(np.float64), -LARGEST, LARGEST) for numbers in (first, second)
    )
    half = draws // 2
    direction = _discriminant(first[:half], second[:half])
    here, there = (
        np.column_stack([numbers, np.nan_to_num(numbers) @ direction])
        for numbers in (first, second)
    )
    choices = [
        (column, distinguisher)
        for column in range(here.shape[1])
        for distinguisher in _distinguishers(
            np.concatenate([here[:half, column], there[:half, column]])
        )
    ]
    swapped, (column, distinguisher) = _best(here[:half], there[:half], choices, delta)
    hits = [_holds(distinguisher, numbers[half:, column]) for numbers in (here, there)]
    often, seldom = reversed(hits) if swapped else hits
    bound = audit_losses(
        np.where(often, np.inf, -np.inf),
        np.where(seldom, np.inf, -np.inf),
        epsilon=epsilon,
        level=level,
    )
    return replace(bound, tried=2 * len(choices))


def _distinguishers(pooled: Float[np.ndarray, " draws"]) -> list[Distinguisher]:
    """Return the distinguishers that are tried on one number."""
    known = pooled[~np.isnan(pooled)]
    cuts = np.unique(np.quantile(known, np.linspace(0, 1, CUTS))) if known.size else known
    value, count = np.unique(known, return_counts=True)
    frequent = value[np.argsort(-count, kind="stable")[:VALUES]]
    return [
        ("missing", 0.0),
        *((kind, float(cut)) for kind in ("at least", "below") for cut in cuts),
        *(("equal", float(one)) for one in frequent),
    ]


def _holds(
    distinguisher: Distinguisher, number: Float[np.ndarray, " draws"]
) -> Bool[np.ndarray, " draws"]:
    """Return whether it holds of each release; a missing number is neither at least a value nor below it."""
    kind, at = distinguisher
    match kind:
        case "missing":
            return np.asarray(np.isnan(number))
        case "at least":
            return np.asarray(number >= at)
        case "below":
            return np.asarray(number < at)
        case _:
            return np.asarray(number == at)


def _best(
    here: Float[np.ndarray, "draws columns"],
    there: Float[np.ndarray, "draws columns"],
    choices: Sequence[tuple[int, Distinguisher]],
    delta: float,
) -> tuple[bool, tuple[int, Distinguisher]]:
    """Return whether to swap the two, and the distinguisher with the largest lower bound on epsilon then."""
    hits = [
        np.array([_holds(one, numbers[:, column]).sum() for column, one in choices])
        for numbers in (here, there)
    ]
    often, seldom = np.concatenate(hits), np.concatenate(hits[::-1])
    low, high = hit_shares(often, seldom, len(here), CHOICE_LEVEL)
    best = int(np.argmax(np.maximum(low - delta, 0.0) / high))
    return best >= len(choices), choices[best % len(choices)]


def _discriminant(
    first: Float[np.ndarray, "draws numbers"], second: Float[np.ndarray, "draws numbers"]
) -> Float[np.ndarray, " numbers"]:
    """Return Fisher's direction between two samples, for the numbers without scaling."""
    here, there = np.nan_to_num(first), np.nan_to_num(second)
    spread = np.concatenate([here - here.mean(axis=0), there - there.mean(axis=0)])
    size = spread.std(axis=0)
    unit = np.where(size > 0, size, 1.0)
    covariance = (spread / unit).T @ (spread / unit) / len(spread)
    covariance += 1e-9 * np.eye(len(unit))
    apart = (here.mean(axis=0) - there.mean(axis=0)) / unit
    return np.asarray(np.linalg.solve(covariance, apart) / unit)
