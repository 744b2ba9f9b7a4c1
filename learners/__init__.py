"""Models from rows: class ratios from set-level labels, private training and tuning, the holdout, bounds.

What stands on scikit-learn is loaded when it is first used: scikit-learn brings pandas and scipy.stats.
"""

from typing import TYPE_CHECKING, Any

from learners.auc import Auc
from learners.bound import Bound, least
from learners.bounds import private_training_bounds
from learners.candidate_stability import PerCandidateValidation
from learners.cdp import cdp_bound
from learners.certified_holdout import CertifiedHoldout, CertifiedState
from learners.clopper_pearson import clopper_pearson_bound
from learners.exponential_gibbs import exponential_gibbs_bound
from learners.gate_bound import agreeing_holdout_bound
from learners.gaussian_objective import GaussianObjectivePerturbation
from learners.holdout_advice import largest_budget, thresholdout_advice
from learners.holdout_widths import holdout_widths
from learners.kernel_matching import KernelMatching
from learners.kernel_witness import KernelWitness
from learners.ladder import best_step, climb, ladder_error
from learners.linear_model import LinearModel, fit_linear
from learners.logistic_minimum import ConvergenceError
from learners.max_information import max_information_bound
from learners.metric_gate import MetricGate
from learners.output_perturbation import OutputPerturbation
from learners.pac_bayes import drawn_model_bound, gibbs_bound
from learners.private_holdout_bound import private_holdout_bound
from learners.private_linear import ObjectivePerturbation
from learners.private_selection import StabilityValidation
from learners.random_selection import RandomSelection
from learners.ratio_diagnostics import RatioDiagnostics
from learners.ratio_model import ClassRatio, RatioModel, learn_ratios
from learners.repetition import RandomRepetition
from learners.split_selection import SplitBudgetSelection, SplitDataSelection
from learners.streamed_model import StreamedRatioModel, learn_streamed_ratios
from learners.thresholdout import GateAnswer, Thresholdout
from learners.training_score import ScoredTraining
from learners.transfer import transfer_bound
from learners.tuning_advice import TuningAdvice, tuning_advice

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
