"""Who said what, how far to believe whom."""

from quality.aggregation.automatic import Auto, Consensus, auto
from quality.aggregation.dawid_skene_em import DawidSkene, dawid_skene
from quality.aggregation.em_start import EMStart
from quality.aggregation.fit_start import start_from
from quality.aggregation.glad_em import Glad, glad
from quality.aggregation.hierarchical_em import HierarchicalDawidSkene, hierarchical_dawid_skene
from quality.aggregation.kos_messages import MessagePassing, kos
from quality.aggregation.kos_plus import kos_plus
from quality.aggregation.majority import MajorityVote, majority_vote
from quality.aggregation.one_coin import OneCoin, one_coin_dawid_skene
from quality.aggregation.penalty_weights import PenaltyVote, penalty_vote
from quality.aggregation.sharded_em import dawid_skene_by_shards, one_coin_by_shards
from quality.aggregation.weighted_majority import WeightedMajority, weighted_majority
from quality.labels.local_engine import LocalEngine
from quality.labels.shards import Engine, LabelShard, cut_labels
from quality.labels.table import CrowdLabels, LabelError, RepeatError, encode, encode_gold
from quality.matching.conflicts import conflict_graph_by_shards
from quality.matching.cost_reducing import SemiMatching, semi_matching
from quality.matching.dynamic import DynamicMatching
from quality.matching.levels import LoadLevels, hard_level, load_levels
from quality.progress import Progress
from quality.reports.agreement import (
    Accuracy,
    PairwiseAgreement,
    accuracy,
    krippendorff_alpha,
    pairwise_agreement,
    wilson_interval,
    worker_agreement,
)
from quality.reports.label_plan import LabelPlan, one_coin_confusion, plan_labels
from quality.reports.next_labels import NextLabels, next_labels
from quality.reports.shard_sums import soft_penalty_by_shards
from quality.reports.tasks import TaskReport, task_report
from quality.reports.timing import ResponseTimes, response_times
from quality.reports.workers import WorkerReport, worker_report
from quality.reputation.balanced_penalty import BalancedLoads, balanced_loads, balanced_penalty
from quality.reputation.collusion import CollusionPairs, collusion_pairs
from quality.reputation.false_removal import FilteredDishonest, filter_dishonest
from quality.reputation.filtering import Filtered, filter_workers
from quality.reputation.honest_population import HonestPopulation
from quality.reputation.penalties import conflict_graph, conflict_tasks, hard_penalty, soft_penalty
from quality.reputation.robustness import RobustnessBounds, robustness_bounds
from quality.reputation.sharded_filtering import filter_workers_by_shards
from quality.simulation.assignment import Assignment, power_law_assignment, regular_assignment
from quality.simulation.campaign import Campaign, simulate_campaign
from quality.simulation.crowds import SimulatedCrowd, simulate_crowd

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
