"""Models from rows: class ratios from set-level labels, private training and tuning, the holdout, bounds."""

from learners.bounds import Bound, cdp_bound, clopper_pearson_bound, least
from learners.class_ratio import ClassRatio, ClassRatioEstimator, RatioDiagnostics
from learners.gate_bound import agreeing_holdout_bound
from learners.linear_model import LinearModel, fit_linear
from learners.logistic_minimum import ConvergenceError
from learners.private_linear import ObjectivePerturbation
from learners.private_logistic import PrivateLogisticRegression
from learners.private_selection import StabilityValidation
from learners.thresholdout import GateAnswer, Thresholdout
from learners.training_score import ScoredTraining

__all__ = [
    "Bound",
    "ClassRatio",
    "ClassRatioEstimator",
    "ConvergenceError",
    "GateAnswer",
    "LinearModel",
    "ObjectivePerturbation",
    "PrivateLogisticRegression",
    "RatioDiagnostics",
    "ScoredTraining",
    "StabilityValidation",
    "Thresholdout",
    "agreeing_holdout_bound",
    "cdp_bound",
    "clopper_pearson_bound",
    "fit_linear",
    "least",
]
