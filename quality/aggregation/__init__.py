"""Aggregators: from a table of crowd labels to the likeliest class of every task.

Every aggregator takes :class:`~quality.CrowdLabels` and returns a :class:`Consensus`: a posterior, the
likeliest class and ties, and its model's estimates for workers and tasks.

* :func:`majority_vote`, :func:`weighted_majority`: the class with the most labels, or the most weight;
* :func:`dawid_skene`, :func:`one_coin_dawid_skene`, :func:`hierarchical_dawid_skene`: EM with a
  confusion matrix, one reliability, or a matrix with a shared prior for each worker;
* :func:`glad`: EM with an ability for each worker and an easiness for each task;
* :func:`kos`, :func:`kos_plus`: message passing;
* :func:`mace`: EM with a competence and a habit for each worker; :func:`ebcc`: EM with subtypes of
  each class, for errors that workers share; :func:`mmsr`: skills from pairs, robust to colluders;
* :func:`penalty_vote`: the class whose representative in an optimal semi-matching has the lowest load.

:func:`quality.auto` pools the aggregators that predict best. Use it if in doubt.

>>> from quality import encode
>>> labels = encode(["ann", "bob", "cy"] * 2, [1, 1, 1, 2, 2, 2], list("aabbba"))
>>> dawid_skene(labels)
DawidSkene(2 tasks, 0 tied, converged after 6 iterations, log-likelihood -1.4)

For tables in shards there are :func:`dawid_skene_by_shards`, :func:`one_coin_by_shards`,
:func:`hierarchical_by_shards` and :func:`mace_by_shards`, whose :class:`EMFit`
:func:`posterior_of_shard` applies to a shard. To write a model of this kind, see
:mod:`quality.aggregation.em`.
"""

from quality.aggregation.consensus import (
    MAX_CELLS,
    TIE,
    Consensus,
    Result,
    check_cells,
    check_distributions,
    check_em,
    check_smoothing,
    decide,
    fills_matrices,
    posterior_found,
)
from quality.aggregation.dawid_skene_em import (
    DawidSkene,
    Fit,
    OneCoin,
    dawid_skene,
    one_coin_confusion,
    one_coin_dawid_skene,
    start_from,
)
from quality.aggregation.ebcc_em import Ebcc, ebcc
from quality.aggregation.em import (
    EMFit,
    EMStart,
    SharedPrior,
    Stop,
)
from quality.aggregation.glad_em import Glad, fit_glad, glad
from quality.aggregation.hierarchical_em import (
    HierarchicalDawidSkene,
    answers_under,
    confusion_of,
    confusion_under,
    hierarchical_dawid_skene,
    hierarchical_result,
)
from quality.aggregation.kos_messages import MessagePassing, kos, kos_plus
from quality.aggregation.mace_em import Mace, mace, mace_result
from quality.aggregation.majority import (
    MajorityVote,
    WeightedMajority,
    check_weight,
    majority_vote,
    scaled_weight,
    weighted_majority,
    weights_of_voters,
)
from quality.aggregation.mmsr_pairs import Mmsr, fit_skills, mmsr, skill_log_odds
from quality.aggregation.passes import exp_digammas
from quality.aggregation.penalty_weights import PenaltyVote, penalty_vote
from quality.aggregation.sharded_em import (
    Posterior,
    class_sums,
    dawid_skene_by_shards,
    hierarchical_by_shards,
    mace_by_shards,
    majority_of_shard,
    one_coin_by_shards,
    posterior_of_groups,
    posterior_of_shard,
    weighted_of_shard,
)

__all__ = [
    "MAX_CELLS",
    "TIE",
    "Consensus",
    "DawidSkene",
    "EMFit",
    "EMStart",
    "Ebcc",
    "Fit",
    "Glad",
    "HierarchicalDawidSkene",
    "Mace",
    "MajorityVote",
    "MessagePassing",
    "Mmsr",
    "OneCoin",
    "PenaltyVote",
    "Posterior",
    "Result",
    "SharedPrior",
    "Stop",
    "WeightedMajority",
    "answers_under",
    "check_cells",
    "check_distributions",
    "check_em",
    "check_smoothing",
    "check_weight",
    "class_sums",
    "confusion_of",
    "confusion_under",
    "dawid_skene",
    "dawid_skene_by_shards",
    "decide",
    "ebcc",
    "exp_digammas",
    "fills_matrices",
    "fit_glad",
    "fit_skills",
    "glad",
    "hierarchical_by_shards",
    "hierarchical_dawid_skene",
    "hierarchical_result",
    "kos",
    "kos_plus",
    "mace",
    "mace_by_shards",
    "mace_result",
    "majority_of_shard",
    "majority_vote",
    "mmsr",
    "one_coin_by_shards",
    "one_coin_confusion",
    "one_coin_dawid_skene",
    "penalty_vote",
    "posterior_found",
    "posterior_of_groups",
    "posterior_of_shard",
    "scaled_weight",
    "skill_log_odds",
    "start_from",
    "weighted_majority",
    "weighted_of_shard",
    "weights_of_voters",
]  # fmt: skip
