"""Exact draws of integer vectors that add up to zero, P(z) ~ exp(-||z||_1 / scale): the lattice's noise.

Let q = exp(-1 / scale). Discrete Laplace noise is the difference of two independent geometric integers,
P(g) ~ q^g. So a vector of it that adds up to zero is a difference of two geometric vectors, gains and
losses, of one total t. Given t each is uniform among the C(t + c - 1, c - 1) ways to write t as a sum of
c integers, and P(t) ~ (C(t + c - 1, c - 1) q^t)^2. The gains are drawn freely, which gives t in
proportion to w(t) = C(t + c - 1, c - 1) q^t; they are kept with probability w(t) / max w; then the losses
are drawn from the ways to write t. Two thirds or more are kept, whatever the scale and the number of
classes. That the probability is no fraction costs no exactness: a uniform number is compared with bounds
on it, bit by bit as far as needed, while the bounds close in (the series method [1]_).

>>> most_likely(3, 2.0)  # the likeliest total of the gains
3

References
----------
.. [1] Devroye, "Non-uniform random variate generation", Springer (1986), section IV.5.
.. [2] Bentley, Floyd, "Programming pearls: a sample of brilliance", Comm. ACM 30 (1987): a uniform
   subset by one uniform integer for each member.
"""

import math
from collections.abc import Sequence
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from itertools import pairwise

import numpy as np
from jaxtyping import Int

from privacy.mechanism import Noise

__all__ = ["draw_composition", "draw_geometric", "draw_lattice", "keeping_bounds", "most_likely"]

MAX_BATCH = 2**20  # geometric draws at a time
WORD = 64  # bits of the uniform number drawn at a time
GUARD = 20  # decimal digits beyond those bits


def draw_lattice(
    noise: Noise, scale: float, n_classes: int, *, wanted: int
) -> Int[np.ndarray, "wanted classes"]:
    """Draw independent vectors of two entries or more that add up to zero.

    **Guarantees.** P(z) ~ exp(-||z||_1 / scale) over the integer vectors of sum zero, exactly.
    **Cost.** Of many vectors: less than two geometric draws for each entry, and one uniform integer for
    each but one.
    """
    mode, found = most_likely(n_classes, scale), []
    while wanted > 0:
        size = 3 + min(wanted + wanted // 2, MAX_BATCH // n_classes)
        drawn = draw_geometric(noise, scale, size * n_classes)
        gains = np.array(drawn, dtype=np.int64).reshape(size, n_classes)
        total = gains.sum(axis=1).tolist()
        kept = _kept(total, mode, n_classes, scale, noise)[:wanted]
        losses = [draw_composition(noise, total[number], n_classes) for number in kept]
        found.append(gains[kept] - np.array(losses, dtype=np.int64).reshape(-1, n_classes))
        wanted -= len(kept)
    return np.concatenate(found) if found else np.zeros((0, n_classes), dtype=np.int64)


def draw_geometric(noise: Noise, scale: float, size: int) -> list[int]:
    """Return independent integers g >= 0 with P(g >= k) = exp(-k / scale), exactly; no draw is wasted.

    Discrete Laplace draws folded between -1 and 0: g comes from z = g or z = -g - 1, and with
    q = exp(-1 / scale) their probabilities, like q^g and q^(g + 1), add up to a multiple of q^g.
    """
    return [z if z >= 0 else -z - 1 for z in noise.discrete_laplace(scale, size)]


def draw_composition(noise: Noise, total: int, parts: int) -> list[int]:
    """Return integers >= 0 that add up to `total`, uniform among all that do.

    They are the gaps between parts - 1 bars, a uniform subset [2]_ of total + parts - 1 places.
    """
    bars: set[int] = set()
    for last in range(total, total + parts - 1):
        bar = noise.uniform_integer(last + 1)
        bars.add(last if bar in bars else bar)
    return [
        after - before - 1 for before, after in pairwise([-1, *sorted(bars), total + parts - 1])
    ]


def most_likely(n_classes: int, scale: float) -> int:
    """Return the total of largest w: w(t + 1) > w(t) while t + 1 < v = (c - 1) / (exp(1 / scale) - 1).

    v is no integer, as exp(1 / scale) is irrational: with bounds close enough the largest is at floor(v).
    """
    digits = 2 * GUARD
    while True:
        down, up = _rounding(digits)
        low, high = _exp_bounds(1, scale, digits)
        least = math.floor(down.divide(Decimal(n_classes - 1), up.subtract(high, Decimal(1))))
        most = math.floor(up.divide(Decimal(n_classes - 1), down.subtract(low, Decimal(1))))
        if least == most:
            return least
        digits *= 2


def keeping_bounds(
    total: int, mode: int, n_classes: int, scale: float, *, bits: int
) -> tuple[int, int]:
    """Return integers around 2^bits w(total) / w(mode), at most a few apart."""
    digits = GUARD + bits
    down, up = _rounding(digits)
    low, high = _exp_bounds(mode - total, scale, digits)
    ways, most = (Decimal(math.comb(t + n_classes - 1, n_classes - 1)) for t in (total, mode))
    unit = Decimal(2**bits)
    return (
        math.floor(down.multiply(unit, down.multiply(low, down.divide(ways, most)))),
        math.ceil(up.multiply(unit, up.multiply(high, up.divide(ways, most)))),
    )


def _kept(
    totals: Sequence[int], mode: int, n_classes: int, scale: float, noise: Noise
) -> list[int]:
    """Which of the proposals are kept, each with probability w(total) / w(mode)."""
    about = {
        total: keeping_bounds(total, mode, n_classes, scale, bits=WORD) for total in set(totals)
    }
    kept = []
    for number, total in enumerate(totals):
        drawn, bits, (low, high) = noise.uniform_integer(2**WORD), WORD, about[total]
        # the uniform number lies between drawn and drawn + 1 in units of 2^-bits
        while low <= drawn < high and total != mode:
            drawn, bits = drawn << bits | noise.uniform_integer(2**bits), 2 * bits
            low, high = keeping_bounds(total, mode, n_classes, scale, bits=bits)
        if drawn < low or total == mode:
            kept.append(number)
    return kept


def _exp_bounds(numerator: int, scale: float, digits: int) -> tuple[Decimal, Decimal]:
    """Return decimals below and above exp(numerator / scale).

    The decimal module rounds its exp correctly, to the nearest: the next decimals are beyond the truth.
    """
    down, up = _rounding(digits)
    low, high = (one.divide(Decimal(numerator), Decimal(scale)) for one in (down, up))
    return down.next_minus(down.exp(low)), up.next_plus(up.exp(high))


def _rounding(digits: int) -> tuple[Context, Context]:
    """Return arithmetic that rounds down and up, and to 0 or infinity beyond its range."""
    down, up = (
        Context(prec=digits, rounding=way, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[])
        for way in (ROUND_FLOOR, ROUND_CEILING)
    )
    return down, up
