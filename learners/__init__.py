"""Models from rows: class ratios from set-level labels, private training and tuning, the holdout, bounds.

What stands on scikit-learn is loaded when it is first used: scikit-learn brings pandas and scipy.stats.
"""

from typing import TYPE_CHECKING, Any

from learners.bounds.bound import Bound, least
from learners.bounds.bounds import private_training_bounds
from learners.bounds.cdp import cdp_bound
from learners.bounds.clopper_pearson import clopper_pearson_bound
from learners.bounds.exponential_gibbs import exponential_gibbs_bound
from learners.bounds.holdout import agreeing_holdout_bound
from learners.bounds.max_information import max_information_bound
from learners.bounds.pac_bayes import drawn_model_bound, gibbs_bound
from learners.bounds.private_holdout_bound import private_holdout_bound
from learners.bounds.transfer import transfer_bound
from learners.class_ratios.diagnostics import RatioDiagnostics
from learners.class_ratios.kernel_matching import KernelMatching
from learners.class_ratios.kernel_witness import KernelWitness
from learners.class_ratios.model import ClassRatio, RatioModel, learn_ratios
from learners.class_ratios.streamed import StreamedRatioModel, learn_streamed_ratios
from learners.holdout.advice import largest_budget, thresholdout_advice
from learners.holdout.auc import Auc
from learners.holdout.certified import CertifiedHoldout, CertifiedState
from learners.holdout.holdout_widths import holdout_widths
from learners.holdout.ladder import best_step, climb, ladder_error
from learners.holdout.metric_gate import MetricGate
from learners.holdout.thresholdout import GateAnswer, Thresholdout
from learners.private.gaussian_objective import GaussianObjectivePerturbation
from learners.private.linear_model import LinearModel, fit_linear
from learners.private.logistic_minimum import ConvergenceError
from learners.private.objective_perturbation import ObjectivePerturbation
from learners.private.output_perturbation import OutputPerturbation
from learners.private.scored_training import ScoredTraining
from learners.selection.advice import TuningAdvice, tuning_advice
from learners.selection.candidate_stability import PerCandidateValidation
from learners.selection.random_selection import RandomSelection
from learners.selection.repetition import RandomRepetition
from learners.selection.rivals import SplitBudgetSelection, SplitDataSelection
from learners.selection.stability import StabilityValidation

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
