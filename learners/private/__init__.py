"""TODO face of learners.private."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from learners.private.gaussian_objective import GaussianObjectivePerturbation
from learners.private.linear_model import (
    ConvergenceError,
    LinearModel,
    check_knobs,
    fit_linear,
    lift,
    signs,
    to_coef,
)
from learners.private.objective_perturbation import (
    ObjectivePerturbation,
    gradient_tolerance,
    perturbed_weight,
    split_epsilon,
    training_rows,
)
from learners.private.output_perturbation import OutputPerturbation

if TYPE_CHECKING:
    from learners.private.estimator import PrivateLogisticRegression, check_search
    from learners.private.histogram import PrivateHistogram, bin_counts, check_bins, density_of

__all__ = [
    "ConvergenceError",
    "GaussianObjectivePerturbation",
    "LinearModel",
    "ObjectivePerturbation",
    "OutputPerturbation",
    "PrivateHistogram",
    "PrivateLogisticRegression",
    "bin_counts",
    "check_bins",
    "check_knobs",
    "check_search",
    "density_of",
    "fit_linear",
    "gradient_tolerance",
    "lift",
    "perturbed_weight",
    "signs",
    "split_epsilon",
    "to_coef",
    "training_rows",
]

LATE = {
    "PrivateHistogram": "learners.private.histogram",
    "PrivateLogisticRegression": "learners.private.estimator",
    "bin_counts": "learners.private.histogram",
    "check_bins": "learners.private.histogram",
    "check_search": "learners.private.estimator",
    "density_of": "learners.private.histogram",
}


def __getattr__(name: str) -> Any:
    if name not in LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(LATE[name]), name)


def __dir__() -> list[str]:
    return [*globals(), *LATE]
