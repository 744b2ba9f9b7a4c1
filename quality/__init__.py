"""Who said what, how far to believe whom."""

from quality.agreement import (
    Accuracy,
    PairwiseAgreement,
    accuracy,
    krippendorff_alpha,
    pairwise_agreement,
    wilson_interval,
    worker_agreement,
)
from quality.assignment import Assignment, power_law_assignment, regular_assignment
from quality.auto import Auto, Consensus, auto
from quality.balanced_penalty import BalancedLoads, balanced_loads, balanced_penalty
from quality.collusion import CollusionPairs, collusion_pairs
from quality.dawid_skene import DawidSkene, dawid_skene
from quality.dynamic_matching import DynamicMatching
from quality.em_start import EMStart
from quality.false_removal import FilteredDishonest, filter_dishonest
from quality.filtering import Filtered, filter_workers
from quality.fit_start import start_from
from quality.glad import Glad, glad
from quality.hierarchical_dawid_skene import HierarchicalDawidSkene, hierarchical_dawid_skene
from quality.honest_population import HonestPopulation
from quality.kos import MessagePassing, kos
from quality.kos_plus import kos_plus
from quality.label_plan import LabelPlan, one_coin_confusion, plan_labels
from quality.labels import CrowdLabels, LabelError, RepeatError, encode, encode_gold
from quality.levels import LoadLevels, hard_level, load_levels
from quality.local_engine import LocalEngine
from quality.majority import MajorityVote, majority_vote
from quality.next_labels import NextLabels, next_labels
from quality.one_coin import OneCoin, one_coin_dawid_skene
from quality.penalty_vote import PenaltyVote, penalty_vote
from quality.progress import Progress
from quality.reputation import conflict_graph, conflict_tasks, hard_penalty, soft_penalty
from quality.response_times import ResponseTimes, response_times
from quality.robustness import RobustnessBounds, robustness_bounds
from quality.semi_matching import SemiMatching, semi_matching
from quality.shard_conflicts import conflict_graph_by_shards
from quality.shard_em import dawid_skene_by_shards, one_coin_by_shards
from quality.shard_filter import filter_workers_by_shards
from quality.shard_sums import soft_penalty_by_shards
from quality.shards import Engine, LabelShard, cut_labels
from quality.simulate import Campaign, simulate_campaign
from quality.strategies import SimulatedCrowd, simulate_crowd
from quality.tasks import TaskReport, task_report
from quality.weighted_majority import WeightedMajority, weighted_majority
from quality.workers import WorkerReport, worker_report

__all__ = [
    "Accuracy",
    "Assignment",
    "Auto",
    "BalancedLoads",
    "Campaign",
    "CollusionPairs",
    "Consensus",
    "CrowdLabels",
    "DawidSkene",
    "DynamicMatching",
    "EMStart",
    "Engine",
    "Filtered",
    "FilteredDishonest",
    "Glad",
    "HierarchicalDawidSkene",
    "HonestPopulation",
    "LabelError",
    "LabelPlan",
    "LabelShard",
    "LoadLevels",
    "LocalEngine",
    "MajorityVote",
    "MessagePassing",
    "NextLabels",
    "OneCoin",
    "PairwiseAgreement",
    "PenaltyVote",
    "Progress",
    "RepeatError",
    "ResponseTimes",
    "RobustnessBounds",
    "SemiMatching",
    "SimulatedCrowd",
    "TaskReport",
    "WeightedMajority",
    "WorkerReport",
    "accuracy",
    "auto",
    "balanced_loads",
    "balanced_penalty",
    "collusion_pairs",
    "conflict_graph",
    "conflict_graph_by_shards",
    "conflict_tasks",
    "cut_labels",
    "dawid_skene",
    "dawid_skene_by_shards",
    "encode",
    "encode_gold",
    "filter_dishonest",
    "filter_workers",
    "filter_workers_by_shards",
    "glad",
    "hard_level",
    "hard_penalty",
    "hierarchical_dawid_skene",
    "kos",
    "kos_plus",
    "krippendorff_alpha",
    "load_levels",
    "majority_vote",
    "next_labels",
    "one_coin_by_shards",
    "one_coin_confusion",
    "one_coin_dawid_skene",
    "pairwise_agreement",
    "penalty_vote",
    "plan_labels",
    "power_law_assignment",
    "regular_assignment",
    "response_times",
    "robustness_bounds",
    "semi_matching",
    "simulate_campaign",
    "simulate_crowd",
    "soft_penalty",
    "soft_penalty_by_shards",
    "start_from",
    "task_report",
    "weighted_majority",
    "wilson_interval",
    "worker_agreement",
    "worker_report",
]
