"""TODO face of quality.reports."""

from quality.reports.agreement import (
    Accuracy,
    CrowdSums,
    PairwiseAgreement,
    accuracy,
    crowd_sums,
    krippendorff_alpha,
    pairwise_agreement,
    wilson_interval,
    worker_agreement,
)
from quality.reports.label_plan import LabelPlan, plan_labels
from quality.reports.tasks import DECIMALS, NextLabels, TaskReport, next_labels, task_report
from quality.reports.timing import ResponseTimes, response_times
from quality.reports.workers import WorkerReport, report_of, worker_report

__all__ = [
    "DECIMALS",
    "Accuracy",
    "CrowdSums",
    "LabelPlan",
    "NextLabels",
    "PairwiseAgreement",
    "ResponseTimes",
    "TaskReport",
    "WorkerReport",
    "accuracy",
    "crowd_sums",
    "krippendorff_alpha",
    "next_labels",
    "pairwise_agreement",
    "plan_labels",
    "report_of",
    "response_times",
    "task_report",
    "wilson_interval",
    "worker_agreement",
    "worker_report",
]
