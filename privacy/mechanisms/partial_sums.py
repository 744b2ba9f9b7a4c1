"""Noise on the sum of the first k class counts: for intervals of cumulative counts of ordered classes.

Cumulative counts need no release of their own: they are sums of released class counts, which is
post-processing. Their noise is known exactly. Noise on c classes is independent draws of one law f, and its
sum t is public, as the exact counts add up to the public n. So the sum of the first k draws has the law

    P(s) ~ f_k(s) f_(c-k)(t - s),        f_k the law of the sum of k draws;

lattice Laplace noise is discrete Laplace noise given t = 0.

**Against a release of its own.** A moved task changes two class counts by one, and up to c - 1 cumulative
counts. At price epsilon, discrete Laplace noise on each cumulative count has scale (c - 1) / epsilon and
variance near 2 (c - 1)^2 / epsilon^2. The sum of k of c lattice draws of scale 2 / epsilon has variance
near 8 k (c - k) / (c epsilon^2), or less: the same for two classes, less for three or more. Compare
``python -m benchmarks.privacy.cumulative_shares``.

>>> from privacy.mechanisms import LatticeLaplace
>>> cumulative_noise([LatticeLaplace(epsilon=1.0).law(5)], 0, 0.95)
(array([-6, -7, -7, -6]), array([6, 7, 7, 6]))
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import TypeAlias

import numpy as np
from jaxtyping import Float, Int

from privacy.mechanisms.gaussian import DiscreteGaussianLaw
from privacy.mechanisms.laplace import DiscreteLaplaceLaw
from privacy.mechanisms.lattice_laplace import LatticeLaplaceLaw

__all__ = ["CountLaw", "cumulative_noise", "partial_sum_variance"]

CountLaw: TypeAlias = LatticeLaplaceLaw | DiscreteLaplaceLaw | DiscreteGaussianLaw
REACH = 42  # scales of a Laplace law; the mass beyond is less than 1e-18
BEYOND = 1e-20  # probability of sums that a grid may leave out
STEEPEST = 600.0  # largest exponent in Chernoff's bound: its exponential is a finite double
MAX_GRID = 2**25
UNLIKELY = 1e-13  # probability of a total below which the transforms' rounding would count


def cumulative_noise(
    laws: Sequence[CountLaw], total: int, level: float
) -> tuple[Int[np.ndarray, " boundaries"], Int[np.ndarray, " boundaries"]]:
    """Return ranges that hold the noise of the first k classes, for every k at once.

    Parameters
    ----------
    laws
        Laws of the releases whose counts were added up, one as a rule; several must be lattice Laplace.
    total
        The sum of the noise over all classes: released counts less the public n.
    level
        Probability that all ranges hold together, in (0, 1).

    Returns
    -------
    tuple
        Lowest and highest noise, for k = 1, ..., classes - 1.

    Raises
    ------
    ValueError
        If `level` is out of its range, several laws are not lattice Laplace, or `total` is impossible.

    Notes
    -----
    **Guarantees.** Given its total, the noise lies in all ranges with probability `level` or more (in each
    with probability 1 - (1 - level) / (classes - 1), by Bonferroni's inequality). Only public and released
    numbers are used.

    **Cost.** A Fourier transform for each k and law, of length near the root of the number of classes.
    """
    if not 0 < level < 1:
        raise ValueError(f"level must be in (0, 1), got level={level}")
    if not isinstance(total, Integral):
        raise ValueError(f"total must be an integer, got total={total}")
    lattice = all(isinstance(law, LatticeLaplaceLaw) for law in laws)
    if not laws:
        raise ValueError("laws must be one or more, got none")
    if not (len(laws) == 1 or lattice):
        raise ValueError("laws must be lattice Laplace where several are added up")
    if len({law.n_classes for law in laws}) > 1:
        raise ValueError("laws must be of equally many classes")
    if lattice and total != 0:
        raise ValueError(f"total must be 0 for lattice Laplace noise, got total={total}")
    n_classes, releases = laws[0].n_classes, [_one_release(law, total) for law in laws]
    beyond, ends = (1 - level) / (n_classes - 1), np.empty((n_classes - 1, 2), dtype=np.int64)
    for n_first in range(1, n_classes // 2 + 1):
        value, probability = _partial(releases, n_first)
        cut, cut_above = (
            int(np.searchsorted(np.cumsum(one_way), beyond / 2, side="right"))
            for one_way in (probability, probability[::-1])
        )
        low, high = value[cut], value[-1 - cut_above]
        ends[n_first - 1] = low, high
        ends[-n_first] = total - high, total - low  # the other classes have the rest of the total
    return ends[:, 0], ends[:, 1]


def partial_sum_variance(law: CountLaw, n_first: int) -> float:
    """Return the variance of the noise of the first k classes, if the noise of all adds up to 0."""
    value, probability = _partial([_one_release(law, 0)], n_first)
    return float(np.sum(value.astype(np.float64) ** 2 * probability))


@dataclass(frozen=True, slots=True, eq=False)
class _Release:
    """The transform of one class's law, which gives the laws of all partial sums of one release."""

    n_classes: int
    total: int
    reach: int
    wave: Float[np.ndarray, " frequencies"]

    def first(
        self, n_first: int
    ) -> tuple[Int[np.ndarray, " values"], Float[np.ndarray, " values"]]:
        """Return the law of the noise of the first k classes, by the product of the laws of both sums."""
        size = 2 * (self.wave.size - 1)
        value = np.arange(-self.reach, self.reach + 1)
        one, others = (
            np.fft.irfft(self.wave**k, size) for k in (n_first, self.n_classes - n_first)
        )
        rest = others[(self.total - value) % size]
        weight = np.maximum(one[value % size], 0.0) * np.maximum(rest, 0.0)
        if not weight.sum() > UNLIKELY:
            raise _impossible(self.total)
        kept = np.flatnonzero(weight > 1e-18 * weight.max())
        inside = slice(int(kept[0]), int(kept[-1]) + 1)
        return value[inside], weight[inside] / weight.sum()


def _partial(
    releases: Sequence[_Release], n_first: int
) -> tuple[Int[np.ndarray, " values"], Float[np.ndarray, " values"]]:
    """Return the law of the noise of the first k classes: values, and their probabilities."""
    value, probability = releases[0].first(n_first)
    for release in releases[1:]:
        more, chance = release.first(n_first)
        value = np.arange(value[0] + more[0], value[-1] + more[-1] + 1)
        size = 1 << value.size.bit_length()
        waves = np.fft.rfft(probability, size) * np.fft.rfft(chance, size)
        probability = np.maximum(np.fft.irfft(waves, size)[: value.size], 0.0)
    return value, probability


def _one_release(law: CountLaw, total: int) -> _Release:
    """Transform one class's law on a grid that is wider than the sum of all classes."""
    one = _one_class(law)
    furthest = _furthest(one, law.n_classes)
    if not abs(total) <= furthest:
        raise _impossible(total)
    reach = furthest + abs(total)
    size = 1 << (2 * reach + 1).bit_length()
    if not size <= MAX_GRID:
        raise _too_wide(law)
    # real, as the law is symmetric around its middle, which comes first
    wave = np.fft.rfft(np.roll(np.pad(one, (0, size - one.size)), -(one.size // 2))).real
    return _Release(law.n_classes, total, reach, wave)


def _furthest(one: Float[np.ndarray, " values"], n_classes: int) -> int:
    """Return a bound, by Chernoff, that the sum of `n_classes` draws exceeds with probability < `BEYOND`."""
    half = one.size // 2
    value, least = np.arange(-half, half + 1), float(n_classes * half)
    for rise in STEEPEST / half * 0.5 ** np.arange(16):
        growth = math.log(float(np.sum(one * np.exp(rise * value))))
        least = min(least, (n_classes * growth - math.log(BEYOND)) / rise)
    return max(half, int(least) + 1)


def _impossible(total: int) -> ValueError:
    return ValueError(f"total must be a sum that the noise can have, got {total}")


def _too_wide(law: CountLaw) -> ValueError:
    return ValueError(f"the noise must be small enough for its exact law, got scale {law.scale}")


def _one_class(law: CountLaw) -> Float[np.ndarray, " values"]:
    """Return the law of one class's noise without the condition on its sum, symmetric around its middle."""
    if isinstance(law, DiscreteGaussianLaw):
        return np.asarray(law.probability)
    if not REACH * law.scale <= MAX_GRID:
        raise _too_wide(law)
    reach = int(REACH * law.scale) + 1
    weight = np.exp(-np.abs(np.arange(-reach, reach + 1)) / law.scale)
    return np.asarray(weight / weight.sum())
