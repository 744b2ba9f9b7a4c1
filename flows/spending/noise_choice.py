"""The noise on class counts, chosen from public numbers alone.

>>> from flows.settings import PrivacySettings
>>> count_noise(PrivacySettings(epsilon=1.0), n_classes=3).name
'lattice Laplace'
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from flows.settings import PrivacySettings, SettingsError
from privacy import (
    DiscreteGaussian,
    DiscreteLaplace,
    LatticeLaplace,
    PlanEvent,
    choose_mechanism,
)
from privacy.mechanisms import CountLaw
from privacy.query import ONE_TASK

__all__ = ["CountNoise", "CountsMechanism", "count_noise"]

CountsMechanism = LatticeLaplace | DiscreteLaplace | DiscreteGaussian
NAMES = {
    LatticeLaplace: "lattice Laplace",
    DiscreteLaplace: "discrete Laplace",
    DiscreteGaussian: "discrete Gaussian",
}
MAX_DESCRIBED = 100  # classes of a covariance that is written out
LAWS = {
    LatticeLaplace: "P(z) ~ exp(-sum |z_k| / scale) over integer vectors z that add up to 0",
    DiscreteLaplace: "P(z_k) ~ exp(-|z_k| / scale) over integers, for each class apart",
    DiscreteGaussian: "P(z_k) ~ exp(-z_k^2 / (2 scale^2)) over integers, for each class apart",
}


@dataclass(frozen=True, slots=True, eq=False)
class CountNoise:
    """A mechanism for class counts, its error, and why it was chosen.

    `plan` pays for all releases where several are planned; `epsilon` and `delta` are the price of
    the plan, or else of the one release.
    """

    mechanism: CountsMechanism
    name: str
    reason: str
    epsilon: float
    delta: float
    plan: PlanEvent | None
    expected_l1: float
    half_width: int
    scale: float
    variance: float
    law: CountLaw
    n_classes: int
    n_released: int

    @property
    def covariance(self) -> Float[np.ndarray, "classes classes"]:
        """Covariance of the noisy counts; the square of the number of classes."""
        found = self.projected if self._on_lattice else self.variance * np.eye(self.n_classes)
        return found[: self.n_released, : self.n_released]

    @property
    def projected(self) -> Float[np.ndarray, "classes classes"]:
        """That after projection to the public sum."""
        n = self.n_classes
        least = n / (n - 1) if self._on_lattice else 1.0  # on a lattice noise adds up to 0 already
        return self.variance * least * (np.eye(n) - 1 / n)

    @property
    def _on_lattice(self) -> bool:
        return isinstance(self.mechanism, LatticeLaplace)

    def described(self) -> dict[str, object]:
        """Return the law of the noisy counts, for further work with them.

        The covariance is a matrix or, of more than a hundred classes, the number between any two.
        """
        found = {
            "law": LAWS[type(self.mechanism)],
            "scale": self.scale,
            "variance": self.variance,
        }
        if self.n_released <= MAX_DESCRIBED:
            return found | {"covariance": self.covariance.tolist()}
        between = -self.variance / (self.n_classes - 1) if self._on_lattice else 0.0
        return found | {"covariance_of_two": between}


def count_noise(privacy: PrivacySettings, n_classes: int) -> CountNoise:
    """Choose the mechanism with the least error at the settings' price, from public numbers alone.

    Where several classes may hold, the places that a task's classes leave over are one count more, the last.
    """
    l1 = ONE_TASK * (privacy.max_tasks_per_subject or privacy.max_labels or 1)
    released, n_classes = n_classes, n_classes + (privacy.max_labels is not None)
    try:
        choice = choose_mechanism(
            n_classes,
            privacy.proportions_epsilon,
            privacy.proportions_delta,
            n_releases=privacy.planned_releases,
            l1=l1,
        )
        law = choice.mechanism.law(n_classes)
        if l1 != ONE_TASK:
            law = LatticeLaplace(choice.mechanism.epsilon).law(n_classes, l1=l1)
    except ValueError as error:
        raise SettingsError(f"[privacy]: proportions: {error}") from None
    return CountNoise(
        choice.mechanism,
        NAMES[type(choice.mechanism)],
        choice.reason,
        privacy.proportions_epsilon,
        getattr(choice.plan or choice.mechanism, "delta", 0.0),
        choice.plan,
        choice.expected_l1,
        law.half_width(privacy.level),
        law.scale,
        law.variance,
        law,
        n_classes,
        released,
    )
