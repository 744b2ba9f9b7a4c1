"""An audit of releases that needs no law: it looks for what tells those of two neighbours apart.

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

CUTS = 64  # quantiles of a number at which it is cut in two
LARGEST = 1e100  # larger numbers, infinities too, count as this: squares stay finite
VALUES = 8  # of a number's most frequent values, each tried alone
CHOICE_LEVEL = 1 - 6e-5  # four standard deviations a side, or the best of thousands is a rare fluke

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
    """Return a lower bound on delta from releases alone, by what tells them apart best.

    Parameters
    ----------
    first, second
        The numbers of releases of two neighbouring data sets, drawn independently, equally many and
        two or more; NaN where a release lacks a number. Texts come as codes.
    delta
        That of the claim, in [0, 1]: what happens more seldom than this refutes nothing.
    epsilon, level
        As for `audit_pair`, errors included.

    Returns
    -------
    AuditBound
        Of half of the draws. Weak where it takes many numbers together, in no linear way, to tell the
        neighbours apart.

    Notes
    -----
    The first half of the draws chooses a distinguisher and a direction: that a number is missing, or lies at
    or above one of its quantiles, or below it, or is one of its most frequent values; and the same for
    the linear combination of all numbers that separates the two best (Fisher's discriminant). It
    finds a number that was published without noise beside others that have some. The choice is that of
    the largest lower bound on epsilon at this delta, four standard deviations from what was counted: of
    thousands that are tried some differ by far more than they should by chance, and most of them are
    rare. The second half counts how often what was chosen is so.

    **Guarantees.** As for `audit_pair`: what is counted was chosen without looking at it.

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
    first, second = (np.clip(numbers, -LARGEST, LARGEST) for numbers in (first, second))
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
    """Return what is tried on one number."""
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
    """Whether it holds of each release; a missing number is neither at least nor below."""
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
    """Whether to swap the two, and which distinguisher then has the largest lower bound on epsilon."""
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
    """Fisher's direction between two samples, in the numbers as they are."""
    here, there = np.nan_to_num(first), np.nan_to_num(second)
    spread = np.concatenate([here - here.mean(axis=0), there - there.mean(axis=0)])
    size = spread.std(axis=0)
    unit = np.where(size > 0, size, 1.0)
    covariance = (spread / unit).T @ (spread / unit) / len(spread)
    covariance += 1e-9 * np.eye(len(unit))
    apart = (here.mean(axis=0) - there.mean(axis=0)) / unit
    return np.asarray(np.linalg.solve(covariance, apart) / unit)
