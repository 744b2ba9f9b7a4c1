"""TODO face of quality.aggregation."""

from quality.aggregation.automatic import Auto, Consensus, auto
from quality.aggregation.dawid_skene_em import (
    DawidSkene,
    Fit,
    OneCoin,
    dawid_skene,
    one_coin_confusion,
    one_coin_dawid_skene,
    start_from,
)
from quality.aggregation.em import EMFit, EMStart
from quality.aggregation.glad_em import Glad, glad
from quality.aggregation.hierarchical_em import HierarchicalDawidSkene, hierarchical_dawid_skene
from quality.aggregation.kos_messages import MessagePassing, kos, kos_plus
from quality.aggregation.majority import (
    TIE,
    MajorityVote,
    WeightedMajority,
    decide,
    majority_vote,
    weighted_majority,
)
from quality.aggregation.penalty_weights import PenaltyVote, penalty_vote
from quality.aggregation.sharded_em import (
    Posterior,
    class_sums,
    dawid_skene_by_shards,
    majority_of_shard,
    one_coin_by_shards,
    posterior_of_shard,
)

__all__ = [
    "TIE",
    "Auto",
    "Consensus",
    "DawidSkene",
    "EMFit",
    "EMStart",
    "Fit",
    "Glad",
    "HierarchicalDawidSkene",
    "MajorityVote",
    "MessagePassing",
    "OneCoin",
    "PenaltyVote",
    "Posterior",
    "WeightedMajority",
    "auto",
    "class_sums",
    "dawid_skene",
    "dawid_skene_by_shards",
    "decide",
    "glad",
    "hierarchical_dawid_skene",
    "kos",
    "kos_plus",
    "majority_of_shard",
    "majority_vote",
    "one_coin_by_shards",
    "one_coin_confusion",
    "one_coin_dawid_skene",
    "penalty_vote",
    "posterior_of_shard",
    "start_from",
    "weighted_majority",
]
