"""TODO face of quality.reputation."""

from quality.reputation.collusion import CollusionPairs, collusion_pairs
from quality.reputation.false_removal import FilteredDishonest, filter_dishonest
from quality.reputation.filtering import Filtered, filter_workers
from quality.reputation.honest_null import HonestPopulation
from quality.reputation.penalties import (
    BalancedLoads,
    balanced_loads,
    balanced_penalty,
    hard_level,
    hard_penalty,
    mean_share,
    share_sums,
    soft_penalty,
    soft_penalty_by_shards,
)
from quality.reputation.robustness import RobustnessBounds, robustness_bounds, weakest_workers
from quality.reputation.sharded_filtering import filter_workers_by_shards

__all__ = [
    "BalancedLoads",
    "CollusionPairs",
    "Filtered",
    "FilteredDishonest",
    "HonestPopulation",
    "RobustnessBounds",
    "balanced_loads",
    "balanced_penalty",
    "collusion_pairs",
    "filter_dishonest",
    "filter_workers",
    "filter_workers_by_shards",
    "hard_level",
    "hard_penalty",
    "mean_share",
    "robustness_bounds",
    "share_sums",
    "soft_penalty",
    "soft_penalty_by_shards",
    "weakest_workers",
]
