"""TODO face of learners.holdout."""

from learners.holdout.advice import holdout_widths, largest_budget, thresholdout_advice
from learners.holdout.certified import CertifiedHoldout, CertifiedState
from learners.holdout.gate_bounds import agreeing_holdout_bound, private_holdout_bound
from learners.holdout.ladder import best_step, climb, ladder_error
from learners.holdout.metric_gate import Auc, MetricGate
from learners.holdout.thresholdout import GateAnswer, Thresholdout

__all__ = [
    "Auc",
    "CertifiedHoldout",
    "CertifiedState",
    "GateAnswer",
    "MetricGate",
    "Thresholdout",
    "agreeing_holdout_bound",
    "best_step",
    "climb",
    "holdout_widths",
    "ladder_error",
    "largest_budget",
    "private_holdout_bound",
    "thresholdout_advice",
]
