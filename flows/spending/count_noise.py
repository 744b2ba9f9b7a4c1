"""The noise on published class counts: which mechanism, told by public numbers, and its law in words."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from flows.settings.section import SettingsError
from flows.settings.sections import PrivacySettings
from privacy import DiscreteGaussian, DiscreteLaplace, LatticeLaplace, PlanEvent, choose_mechanism

__all__ = ["PLAN", "CountNoise", "CountsMechanism", "count_noise"]

PLAN = "planned class counts"  # what the ledger calls the plan that pays for them
CountsMechanism = LatticeLaplace | DiscreteLaplace | DiscreteGaussian
NAMES = {
    LatticeLaplace: "lattice Laplace",
    DiscreteLaplace: "discrete Laplace",
    DiscreteGaussian: "discrete Gaussian",
}
LAWS = {
    LatticeLaplace: "P(z) ~ exp(-sum |z_k| / scale) over integer vectors z that add up to 0",
    DiscreteLaplace: "P(z_k) ~ exp(-|z_k| / scale) over integers, for each class apart",
    DiscreteGaussian: "P(z_k) ~ exp(-z_k^2 / (2 scale^2)) over integers, for each class apart",
}


@dataclass(frozen=True, slots=True, eq=False)
class CountNoise:
    """A mechanism for class counts, what it errs by, and why it was chosen.

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
    covariance: Float[np.ndarray, "classes classes"]
    projected: Float[np.ndarray, "classes classes"]

    def described(self) -> dict[str, object]:
        """The law of the noisy counts, for whoever works with them."""
        return {
            "law": LAWS[type(self.mechanism)],
            "scale": self.scale,
            "variance": self.variance,
            "covariance": self.covariance.tolist(),
        }


def count_noise(privacy: PrivacySettings, n_classes: int) -> CountNoise:
    """Choose the mechanism that errs least at the price of the settings, from public numbers alone.

    `covariance` is that of the noisy counts, `projected` that after projection to the public sum.
    """
    try:
        choice = choose_mechanism(
            n_classes,
            privacy.proportions_epsilon,
            privacy.proportions_delta,
            n_releases=privacy.planned_releases,
        )
    except ValueError as error:
        raise SettingsError(f"[privacy]: proportions: {error}") from None
    law = choice.mechanism.law(n_classes)
    centring = np.eye(n_classes) - 1 / n_classes
    on_lattice = law.variance * n_classes / (n_classes - 1) * centring  # adds up to 0 already
    lattice = isinstance(choice.mechanism, LatticeLaplace)
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
        on_lattice if lattice else law.variance * np.eye(n_classes),
        on_lattice if lattice else law.variance * centring,
    )
