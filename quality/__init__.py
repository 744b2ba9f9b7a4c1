"""Who said what, how far to believe whom."""

from quality.agreement import (
    Accuracy,
    accuracy,
    krippendorff_alpha,
    wilson_interval,
    worker_agreement,
)
from quality.assignment import Assignment, power_law_assignment, regular_assignment
from quality.dawid_skene import DawidSkene, dawid_skene
from quality.filtering import Filtered, filter_workers
from quality.labels import CrowdLabels, LabelError, encode, encode_gold
from quality.majority import MajorityVote, majority_vote
from quality.next_labels import NextLabels, next_labels
from quality.reputation import conflict_graph, conflict_tasks, hard_penalty, soft_penalty
from quality.semi_matching import SemiMatching, semi_matching
from quality.simulate import Campaign, simulate_campaign
from quality.strategies import SimulatedCrowd, simulate_crowd
from quality.workers import WorkerReport, worker_report

__all__ = [
    "Accuracy",
    "Assignment",
    "Campaign",
    "CrowdLabels",
    "DawidSkene",
    "Filtered",
    "LabelError",
    "MajorityVote",
    "NextLabels",
    "SemiMatching",
    "SimulatedCrowd",
    "WorkerReport",
    "accuracy",
    "conflict_graph",
    "conflict_tasks",
    "dawid_skene",
    "encode",
    "encode_gold",
    "filter_workers",
    "hard_penalty",
    "krippendorff_alpha",
    "majority_vote",
    "next_labels",
    "power_law_assignment",
    "regular_assignment",
    "semi_matching",
    "simulate_campaign",
    "simulate_crowd",
    "soft_penalty",
    "wilson_interval",
    "worker_agreement",
    "worker_report",
]
