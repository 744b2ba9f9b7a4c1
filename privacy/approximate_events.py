"""Events of approximate differential privacy: a delta at an epsilon."""

from dataclasses import dataclass

from privacy.cost import Cost, exact
from privacy.dirichlet_pair import clamp_delta
from privacy.gaussian_delta import discrete_gaussian_delta
from privacy.pure_events import LARGEST_SCALE

__all__ = ["ClampedDirichletEvent", "DiscreteGaussianEvent"]


@dataclass(frozen=True, slots=True)
class DiscreteGaussianEvent:
    """Independent discrete Gaussian noise was added to class counts that one moved task changes.

    P(z) ~ exp(-||z||_2^2 / (2 scale^2)). At `epsilon`, in (0, 100], it costs the delta that
    `discrete_gaussian_delta` sums exactly, and `delta` is the claim, at least that.

    Raises
    ------
    ValueError
        If the claim is below what the scale realises.

    Examples
    --------
    >>> DiscreteGaussianEvent(scale=8.0, epsilon=0.05, delta=0.05).cost().delta
    Fraction(1, 20)
    """

    scale: float
    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        _check_delta(self.delta, discrete_gaussian_delta(self.scale, self.epsilon))

    def cost(self) -> Cost:
        """Approximate differential privacy at the claim."""
        return Cost(exact(self.epsilon), exact(self.delta))


@dataclass(frozen=True, slots=True)
class ClampedDirichletEvent:
    """Draws from an urn whose limit is Dir(scale * max(counts, floor)) were released.

    `scale` is a fraction as text. At `epsilon`, in (0, 100], any number of draws costs at most the
    delta of `clamp_delta`, and `delta` is the claim, at least that.

    Raises
    ------
    ValueError
        If the claim is below what the scale realises.

    Examples
    --------
    >>> ClampedDirichletEvent("97/125", floor=49, draws=100, epsilon=0.05, delta=0.05).cost().delta
    Fraction(1, 20)
    """

    scale: str
    floor: int
    draws: int
    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        scale = exact(self.scale)
        if not 0 < scale <= LARGEST_SCALE:
            raise ValueError(f"scale must be > 0 and at most 2**40, got scale={self.scale}")
        _check_delta(self.delta, clamp_delta(self.floor, float(scale), self.epsilon))
        if not self.draws >= 1:
            raise ValueError(f"draws must be >= 1, got draws={self.draws}")

    def cost(self) -> Cost:
        """Approximate differential privacy at the claim."""
        return Cost(exact(self.epsilon), exact(self.delta))


def _check_delta(claim: float, realised: float) -> None:
    if not realised <= claim < 1:
        raise ValueError(f"delta must be < 1 and at least what the scale realises, got {claim}")
