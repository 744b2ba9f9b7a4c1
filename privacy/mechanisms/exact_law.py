"""The public law of noise on class counts, summed exactly: for intervals and planning.

>>> law = ExactLaw(1.0, 2, np.array([-1, 0, 1]), np.array([0.25, 0.5, 0.25]))
>>> law.variance, law.expected_l1, law.half_width(0.9)
(0.5, 1.0, 1)
"""

from dataclasses import dataclass

import numpy as np
import scipy
from jaxtyping import Float, Int

__all__ = ["ExactLaw"]

TAIL = 1e-16  # mass of each tail that a sum may leave out: a thousand sums stay far within 1e-9
MAX_PRODUCTS = 2**26  # beyond this a sum's law is computed by Fourier transforms
TILT = 20.0  # exponent of the tilt at the end of a sum's law


@dataclass(frozen=True, slots=True, eq=False)
class ExactLaw:
    """The law of integer noise that is symmetric and the same for every class.

    Parameters
    ----------
    scale
        Scale of the noise.
    n_classes
        Number of classes, >= 2.
    support, probability
        Law of one class's noise, on consecutive integers around zero; made read-only.

    Notes
    -----
    **Guarantees.** The half width is the smallest of its level; the variance of a sum is the sum of the
    variances, to nine digits. A sum leaves out far tails of negligible mass, so that the support of a sum
    of many grows as the root of their number. This mass is counted as outside every interval: leaving it
    out makes no interval too narrow.

    **Cost.** Of a sum: n log n time and n memory for supports of n values.
    """

    scale: float
    n_classes: int
    support: Int[np.ndarray, " values"]
    probability: Float[np.ndarray, " values"]

    def __post_init__(self) -> None:
        self.support.setflags(write=False)
        self.probability.setflags(write=False)

    @property
    def variance(self) -> float:
        """Variance of one class's noise."""
        return float(np.sum(self.support.astype(np.float64) ** 2 * self.probability))

    @property
    def kurtosis(self) -> float:
        """Excess kurtosis of one class's noise: 0 for a normal law and for no noise, 3 for Laplace's.

        Examples
        --------
        >>> ExactLaw(1.0, 2, np.array([-1, 0, 1]), np.array([0.25, 0.5, 0.25])).kurtosis
        -1.0
        """
        fourth = float(np.sum(self.support.astype(np.float64) ** 4 * self.probability))
        return fourth / self.variance**2 - 3.0 if fourth > 0 else 0.0

    @property
    def expected_l1(self) -> float:
        """Expected l1 norm of the noise over all classes, in labels."""
        return self.n_classes * float(np.sum(np.abs(self.support) * self.probability))

    def half_width(self, level: float) -> int:
        """Return the smallest h such that one class's noise lies in [-h, h] with probability >= `level`.

        The noisy count +- h is a two-sided interval for the exact count at that level.
        """
        if not 0 < level <= 1 - 1e-9:
            raise ValueError(f"level must be in (0, 1 - 1e-9], got level={level}")
        one_side = self.probability[self.support.size // 2 :].copy()
        one_side[1:] *= 2
        return int(np.searchsorted(np.cumsum(one_side), level))

    def plus(self, other: "ExactLaw") -> "ExactLaw":
        """Return the law of the sum of two independent draws, one of each law, without its far tails.

        Examples
        --------
        >>> coin = ExactLaw(1.0, 2, np.array([-1, 0, 1]), np.array([0.25, 0.5, 0.25]))
        >>> coin.plus(coin).probability.tolist()
        [0.0625, 0.25, 0.375, 0.25, 0.0625]
        """
        if not self.n_classes == other.n_classes:
            raise ValueError(
                f"laws must be of as many classes, got {self.n_classes} and {other.n_classes}"
            )
        probability = _convolved(self, other)
        far = int(np.searchsorted(np.cumsum(probability[: probability.size // 2]), TAIL, "right"))
        probability = probability[far : probability.size - far].copy()  # a view keeps all of it
        reach = probability.size // 2
        return ExactLaw(self.scale, self.n_classes, np.arange(-reach, reach + 1), probability)


def _convolved(one: ExactLaw, other: ExactLaw) -> Float[np.ndarray, " values"]:
    """Return the law of the sum on all its values; its tails too have a small relative error.

    The rounding of a transform has the same size everywhere, and would exceed the tails. So both laws are
    tilted by exp(rise z), which lifts the right tail; the sum's law is tilted back, and the left half
    mirrors it.
    """
    laws = (one, other)
    if one.probability.size * other.probability.size <= MAX_PRODUCTS:
        return np.convolve(one.probability, other.probability)
    reach = sum(law.probability.size // 2 for law in laws)
    rise, size = TILT / reach, scipy.fft.next_fast_len(2 * reach + 1)
    first, second = (
        np.fft.rfft(law.probability * np.exp(rise * law.support), size) for law in laws
    )
    tilted = np.fft.irfft(first * second, size)[reach : 2 * reach + 1]
    half = np.maximum(tilted, 0.0) * np.exp(-rise * np.arange(reach + 1))
    return np.concatenate([half[:0:-1], half])
