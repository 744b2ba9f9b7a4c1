"""Models from rows: class ratios from set-level labels, private training and tuning, the holdout, bounds.

What stands on scikit-learn is loaded when it is first used: scikit-learn brings pandas and scipy.stats.
"""

from typing import TYPE_CHECKING, Any

from learners.bounds import (
    Bound,
    cdp_bound,
    clopper_pearson_bound,
    drawn_model_bound,
    exponential_gibbs_bound,
    gibbs_bound,
    least,
    max_information_bound,
    private_training_bounds,
    transfer_bound,
)
from learners.class_ratios import (
    ClassRatio,
    KernelMatching,
    KernelWitness,
    RatioDiagnostics,
    RatioModel,
    StreamedRatioModel,
    learn_ratios,
    learn_streamed_ratios,
)
from learners.holdout import (
    Auc,
    CertifiedHoldout,
    CertifiedState,
    GateAnswer,
    MetricGate,
    Thresholdout,
    agreeing_holdout_bound,
    best_step,
    climb,
    holdout_widths,
    ladder_error,
    largest_budget,
    private_holdout_bound,
    thresholdout_advice,
)
from learners.private import (
    ConvergenceError,
    GaussianObjectivePerturbation,
    LinearModel,
    ObjectivePerturbation,
    OutputPerturbation,
    fit_linear,
)
from learners.selection import (
    PerCandidateValidation,
    RandomRepetition,
    RandomSelection,
    ScoredTraining,
    SplitBudgetSelection,
    SplitDataSelection,
    StabilityValidation,
    TuningAdvice,
    tuning_advice,
)

if TYPE_CHECKING:
    from learners.on_scikit_learn import (
        BoostedTrees,
        ClassRatioEstimator,
        HistogramValidation,
        PerWidthValidation,
        PrivateHistogram,
        PrivateLogisticRegression,
        StreamedRatioEstimator,
        check_search,
        histogram_query,
    )

__all__ = [
    "Auc",
    "BoostedTrees",
    "Bound",
    "CertifiedHoldout",
    "CertifiedState",
    "ClassRatio",
    "ClassRatioEstimator",
    "ConvergenceError",
    "GateAnswer",
    "GaussianObjectivePerturbation",
    "HistogramValidation",
    "KernelMatching",
    "KernelWitness",
    "LinearModel",
    "MetricGate",
    "ObjectivePerturbation",
    "OutputPerturbation",
    "PerCandidateValidation",
    "PerWidthValidation",
    "PrivateHistogram",
    "PrivateLogisticRegression",
    "RandomRepetition",
    "RandomSelection",
    "RatioDiagnostics",
    "RatioModel",
    "ScoredTraining",
    "SplitBudgetSelection",
    "SplitDataSelection",
    "StabilityValidation",
    "StreamedRatioEstimator",
    "StreamedRatioModel",
    "Thresholdout",
    "TuningAdvice",
    "agreeing_holdout_bound",
    "best_step",
    "cdp_bound",
    "check_search",
    "climb",
    "clopper_pearson_bound",
    "drawn_model_bound",
    "exponential_gibbs_bound",
    "fit_linear",
    "gibbs_bound",
    "histogram_query",
    "holdout_widths",
    "ladder_error",
    "largest_budget",
    "learn_ratios",
    "learn_streamed_ratios",
    "least",
    "max_information_bound",
    "private_holdout_bound",
    "private_training_bounds",
    "thresholdout_advice",
    "transfer_bound",
    "tuning_advice",
]

LATE = (
    "BoostedTrees",
    "ClassRatioEstimator",
    "HistogramValidation",
    "PerWidthValidation",
    "PrivateHistogram",
    "PrivateLogisticRegression",
    "StreamedRatioEstimator",
    "check_search",
    "histogram_query",
)


def __getattr__(name: str) -> Any:
    if name not in LATE:
        raise AttributeError(f"module 'learners' has no attribute {name!r}")
    from learners import on_scikit_learn

    return getattr(on_scikit_learn, name)


def __dir__() -> list[str]:
    return [*globals(), *LATE]
