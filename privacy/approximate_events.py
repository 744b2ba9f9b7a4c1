"""Events of approximate differential privacy: a delta at an epsilon."""

import json
from dataclasses import dataclass, field
from typing import Any

from privacy.accounting.cost import Cost, exact
from privacy.mechanisms.dirichlet_pair import clamp_delta, dominating_delta
from privacy.mechanisms.gaussian_delta import discrete_gaussian_delta
from privacy.pure_events import LARGEST_SCALE

__all__ = [
    "ApproximateEvent",
    "ClampedDirichletEvent",
    "DiscreteGaussianEvent",
    "PseudoCountDirichletEvent",
]


@dataclass(frozen=True, slots=True)
class ApproximateEvent:
    """A mechanism ran that its own docstring proves (epsilon, delta)-differentially private.

    Parameters
    ----------
    name
        The mechanism.
    epsilon, delta
        Its proved guarantee, epsilon > 0 and finite, 0 < delta < 1; decimals, or text that
        `fractions.Fraction` reads.
    parameters
        Its public knobs, as JSON.

    Raises
    ------
    ValueError
        If one of these conditions is broken.

    Examples
    --------
    >>> ApproximateEvent("toy", epsilon=0.1, delta=1e-6).cost().delta
    Fraction(1, 1000000)
    """

    name: str
    epsilon: float | str
    delta: float | str
    parameters: dict[str, Any] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("name must not be empty")
        if not exact(self.epsilon) > 0:
            raise ValueError(f"epsilon must be > 0, got epsilon={self.epsilon}")
        if not 0 < exact(self.delta) < 1:
            raise ValueError(f"delta must be in (0, 1), got delta={self.delta}")
        json.dumps(self.parameters, allow_nan=False)  # refuses what could not be stored

    def cost(self) -> Cost:
        """Approximate differential privacy at the claim."""
        return Cost(exact(self.epsilon), exact(self.delta))


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
        scale = _check_urn(self.scale, self.draws)
        _check_delta(self.delta, clamp_delta(self.floor, scale, self.epsilon))

    def cost(self) -> Cost:
        """Approximate differential privacy at the claim."""
        return Cost(exact(self.epsilon), exact(self.delta))


@dataclass(frozen=True, slots=True)
class PseudoCountDirichletEvent:
    """Draws from an urn whose limit is Dir(scale * (counts + pseudo_count)) were released.

    `scale` is a fraction as text. At `epsilon`, in (0, 100], any number of draws costs at most the
    delta of `dominating_delta` at the pseudo-count, and `delta` is the claim, at least that.

    Raises
    ------
    ValueError
        If the claim is below what the scale realises.

    Examples
    --------
    >>> PseudoCountDirichletEvent("97/125", 49, draws=100, epsilon=0.05, delta=0.05).cost().delta
    Fraction(1, 20)
    """

    scale: str
    pseudo_count: int
    draws: int
    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        scale = _check_urn(self.scale, self.draws)
        _check_delta(self.delta, dominating_delta(self.pseudo_count, scale, self.epsilon))

    def cost(self) -> Cost:
        """Approximate differential privacy at the claim."""
        return Cost(exact(self.epsilon), exact(self.delta))


def _check_urn(text: str, draws: int) -> float:
    """The scale that a text tells, if there is such an urn."""
    scale = exact(text)
    if not 0 < scale <= LARGEST_SCALE:
        raise ValueError(f"scale must be > 0 and at most 2**40, got scale={text}")
    if not draws >= 1:
        raise ValueError(f"draws must be >= 1, got draws={draws}")
    return float(scale)


def _check_delta(claim: float, realised: float) -> None:
    # no realised one is 0, even where it is too small for a double
    if not (0 < claim < 1 and realised <= claim):
        raise ValueError(
            f"delta must be in (0, 1) and at least what the scale realises, got {claim}"
        )
