"""Models trained under differential privacy, and the same training without it.

`private_training` chooses between `ObjectivePerturbation`, pure epsilon, and `NoisyGradientDescent`, which
needs less noise where there are many features or classes, for a delta. A ledger pays for both.
`PrivateLogisticRegression`, `PrivateHistogram` and `PrivatePCA` are scikit-learn estimators that pay for
every fit; call `check_search` before a search over one. `fit_linear` trains without privacy.

>>> import numpy as np
>>> x, y = np.array([[-1.0], [-0.5], [0.5], [1.0]]), np.array([0, 0, 1, 1])
>>> fit_linear(x, y, regularization=0.01, norm_bound=1.0, n_classes=2).predict(x)
array([0, 0, 1, 1])

For comparison alone, unused by runs: `GaussianObjectivePerturbation`, `OutputPerturbation`.

Names that need scikit-learn load when first used.
"""

from typing import TYPE_CHECKING, Any

from learners.private.gaussian_objective import GaussianObjectivePerturbation
from learners.private.histogram import (
    bin_counts,
    check_bins,
    density_of,
    histogram_score,
    histogram_sensitivity,
)
from learners.private.linear_model import (
    LinearModel,
    Signed,
    Signs,
    check_knobs,
    fit_linear,
    rows_at_once,
    to_coef,
)
from learners.private.logistic_minimum import (
    ConvergenceError,
    Lifted,
    lift,
    lifted,
    scores,
)
from learners.private.noisy_descent import NoisyGradientDescent, prefers_descent, private_training
from learners.private.objective_perturbation import (
    ObjectivePerturbation,
    check_training_price,
    gradient_tolerance,
    lifted_rows,
    perturbed_weight,
    split_epsilon,
    training_rows,
)
from learners.private.output_perturbation import OutputPerturbation
from learners.private.subspaces import (
    DeflatedDirections,
    NoisyMoments,
    PrincipalSubspace,
    moments_query,
    private_subspace,
)

if TYPE_CHECKING:
    from learners.private.paying_estimators import (
        PrivateHistogram,
        PrivateLogisticRegression,
        check_search,
    )
    from learners.private.pca import PrivatePCA

__all__ = [
    "ConvergenceError", "DeflatedDirections", "GaussianObjectivePerturbation", "Lifted", "LinearModel",
    "NoisyGradientDescent", "NoisyMoments", "ObjectivePerturbation", "OutputPerturbation",
    "PrincipalSubspace", "PrivateHistogram", "PrivateLogisticRegression", "PrivatePCA", "Signed", "Signs",
    "bin_counts", "check_bins", "check_knobs", "check_search", "check_training_price", "density_of",
    "fit_linear", "gradient_tolerance", "histogram_score", "histogram_sensitivity", "lift", "lifted",
    "lifted_rows", "moments_query", "perturbed_weight", "prefers_descent", "private_subspace",
    "private_training", "rows_at_once", "scores", "split_epsilon", "to_coef", "training_rows",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from learners.private import paying_estimators, pca  # not earlier: they load scikit-learn

    return getattr(pca if name in pca.__all__ else paying_estimators, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
