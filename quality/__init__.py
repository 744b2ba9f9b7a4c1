"""Labels in; consensus, reputation and reports out: each worker's labels, and how far to believe them.

>>> from quality import dawid_skene, encode
>>> labels = encode(["ann", "bob", "cy"] * 2, [1, 1, 1, 2, 2, 2], list("xxyyyy"))
>>> labels.classes[dawid_skene(labels).label]
array(['x', 'y'], dtype='<U1')

The sub-rooms, in the order of their use in a campaign:

- :mod:`quality.labels`: :func:`encode` checks a table of labels and codes it; shards and engines
  for tables larger than memory.
- :mod:`quality.aggregation`: one consensus label a task, by :func:`dawid_skene`,
  :func:`majority_vote` and others; :mod:`quality.choice`: :func:`auto` chooses among them;
  :mod:`quality.many_classes`: aggregators for thousands of classes.
- :mod:`quality.matching`: the conflict graph, and semi-matchings that divide conflicts evenly.
- :mod:`quality.reputation`: penalties of workers, filters that remove workers, and bounds on what
  adversaries can do.
- :mod:`quality.dependence`: groups of workers who do not answer on their own, and their
  effective number.
- :mod:`quality.confidence`: how far each consensus label can be believed, with and without gold.
- :mod:`quality.agreement`: alpha with its interval, kappas and AC1, and models against people.
- :mod:`quality.voices`: other evidence on tasks, joined with a consensus by how reliable it is.
- :mod:`quality.comparisons`: which of two items is better; ranks, and how each worker judges.
- :mod:`quality.ordered`: classes that are grades: an ordinal model, decisions by expected
  loss, and a test of the order.
- :mod:`quality.multilabel`: tasks for which several classes may hold at once.
- :mod:`quality.shares`: class shares corrected by gold, with intervals that cover the truth.
- :mod:`quality.networks`: conflicts, semi-matchings and pairs of workers as graphs of networkx.
- :mod:`quality.reports`: reports on workers, tasks and agreement for the campaign's owner, and
  what to label next.
- :mod:`quality.simulation`: crowds and campaigns whose truth is known.

Nothing here reads files, prints, warns or knows about privacy. :mod:`quality.parallel` holds the
threads, the progress callback and the compiled kernels.
"""

from quality.aggregation import (
    Consensus,
    DawidSkene,
    Ebcc,
    EMStart,
    Glad,
    HierarchicalDawidSkene,
    Mace,
    MajorityVote,
    MessagePassing,
    Mmsr,
    OneCoin,
    PenaltyVote,
    WeightedMajority,
    dawid_skene,
    dawid_skene_by_shards,
    ebcc,
    glad,
    hierarchical_by_shards,
    hierarchical_dawid_skene,
    kos,
    kos_plus,
    mace,
    majority_vote,
    mmsr,
    one_coin_by_shards,
    one_coin_confusion,
    one_coin_dawid_skene,
    penalty_vote,
    start_from,
    weighted_majority,
)
from quality.agreement import (
    Alpha,
    AltTest,
    ChanceCorrected,
    PairKappas,
    alpha_by_class,
    alpha_by_group,
    alpha_by_shards,
    alpha_interval,
    alt_test,
    fleiss_kappa,
    gwet_ac1,
    pair_kappas,
)
from quality.choice import Auto, auto
from quality.comparisons import (
    BradleyTerry,
    Comparisons,
    CrowdBradleyTerry,
    NextPairs,
    RankIntervals,
    bradley_terry,
    crowd_bradley_terry,
    encode_comparisons,
    next_pairs,
    rank_intervals,
)
from quality.confidence import (
    CalibratedConfidence,
    Reliability,
    RightnessPrior,
    Support,
    calibrate,
    calibrate_support,
    reliability,
    support_by_shards,
    task_support,
)
from quality.dependence import (
    DependentGroups,
    PastedAnswers,
    dependent_groups,
    dependent_groups_by_shards,
    effective_number,
    pasted_answers,
)
from quality.labels import (
    CrowdLabels,
    Engine,
    LabelError,
    LabelShard,
    LocalEngine,
    RepeatError,
    cut_labels,
    encode,
    encode_gold,
)
from quality.matching import (
    DynamicMatching,
    LoadLevels,
    SemiMatching,
    conflict_graph,
    conflict_graph_by_shards,
    conflict_tasks,
    load_levels,
    semi_matching,
)
from quality.multilabel import (
    MultiLabelConsensus,
    MultiLabels,
    SimulatedMultiLabels,
    encode_gold_sets,
    encode_multilabels,
    multilabel_consensus,
    set_alpha,
    simulate_multilabels,
    yes_no_labels,
)
from quality.networks import to_networkx
from quality.ordered import OrderFit, OrdinalCrowd, least_loss, order_fit, ordinal_crowd
from quality.parallel import Progress
from quality.reports import (
    Accuracy,
    LabelPlan,
    NextLabels,
    PairwiseAgreement,
    ResponseTimes,
    TaskReport,
    WorkerReport,
    accuracy,
    agreement_rows,
    krippendorff_alpha,
    next_labels,
    pairwise_agreement,
    plan_labels,
    response_times,
    task_report,
    wilson_interval,
    worker_agreement,
    worker_report,
)
from quality.reputation import (
    BalancedLoads,
    Filtered,
    FilteredDishonest,
    HonestPopulation,
    RobustnessBounds,
    balanced_loads,
    balanced_penalty,
    filter_dishonest,
    filter_dishonest_by_shards,
    filter_workers,
    filter_workers_by_shards,
    graded_penalty,
    hard_level,
    hard_penalty,
    relative_penalty,
    reputation_weight,
    robustness_bounds,
    soft_penalty,
    soft_penalty_by_shards,
)
from quality.shares import (
    CorrectedShares,
    GoldPlan,
    NoisyShares,
    PredictionPowered,
    corrected_shares,
    gold_alone,
    gold_for_width,
    noisy_shares,
    prediction_powered,
    prediction_powered_infinite,
    rogan_gladen,
)
from quality.simulation import (
    Assignment,
    Campaign,
    SimulatedCrowd,
    power_law_assignment,
    regular_assignment,
    simulate_campaign,
    simulate_crowd,
)
from quality.voices import HeldOut, JoinedVoice, hold_labels_out, join_voice

__all__ = [
    "Accuracy", "Alpha", "AltTest", "Assignment", "Auto", "BalancedLoads", "BradleyTerry",
    "CalibratedConfidence", "Campaign", "ChanceCorrected", "Comparisons", "Consensus",
    "CorrectedShares", "CrowdBradleyTerry", "CrowdLabels", "DawidSkene", "DependentGroups",
    "DynamicMatching", "EMStart", "Ebcc", "Engine", "Filtered", "FilteredDishonest", "Glad",
    "GoldPlan", "HeldOut", "HierarchicalDawidSkene", "HonestPopulation", "JoinedVoice",
    "LabelError", "LabelPlan", "LabelShard", "LoadLevels", "LocalEngine", "Mace", "MajorityVote",
    "MessagePassing", "Mmsr", "MultiLabelConsensus", "MultiLabels", "NextLabels", "NextPairs",
    "NoisyShares", "OneCoin", "OrderFit", "OrdinalCrowd", "PairKappas", "PairwiseAgreement",
    "PastedAnswers", "PenaltyVote", "PredictionPowered", "Progress", "RankIntervals", "Reliability",
    "RepeatError", "ResponseTimes", "RightnessPrior", "RobustnessBounds", "SemiMatching",
    "SimulatedCrowd", "SimulatedMultiLabels", "Support", "TaskReport", "WeightedMajority",
    "WorkerReport", "accuracy", "agreement_rows", "alpha_by_class", "alpha_by_group", "alpha_by_shards",
    "alpha_interval", "alt_test", "auto", "balanced_loads", "balanced_penalty", "bradley_terry",
    "calibrate", "calibrate_support", "conflict_graph", "conflict_graph_by_shards",
    "conflict_tasks", "corrected_shares", "crowd_bradley_terry", "cut_labels", "dawid_skene",
    "dawid_skene_by_shards", "dependent_groups", "dependent_groups_by_shards", "ebcc",
    "effective_number", "encode", "encode_comparisons", "encode_gold", "encode_gold_sets",
    "encode_multilabels", "filter_dishonest", "filter_dishonest_by_shards", "filter_workers",
    "filter_workers_by_shards", "fleiss_kappa", "glad",
    "gold_alone", "gold_for_width", "graded_penalty", "gwet_ac1", "hard_level", "hard_penalty",
    "hierarchical_by_shards", "hierarchical_dawid_skene", "hold_labels_out", "join_voice", "kos",
    "kos_plus", "krippendorff_alpha", "least_loss", "load_levels", "mace", "majority_vote", "mmsr",
    "multilabel_consensus", "next_labels", "next_pairs", "noisy_shares", "one_coin_by_shards",
    "one_coin_confusion", "one_coin_dawid_skene", "order_fit", "ordinal_crowd", "pair_kappas",
    "pairwise_agreement", "pasted_answers", "penalty_vote", "plan_labels", "power_law_assignment",
    "prediction_powered", "prediction_powered_infinite", "rank_intervals", "regular_assignment",
    "relative_penalty", "reliability", "reputation_weight", "response_times", "robustness_bounds",
    "rogan_gladen", "semi_matching", "set_alpha", "simulate_campaign", "simulate_crowd",
    "simulate_multilabels", "soft_penalty", "soft_penalty_by_shards", "start_from", "support_by_shards",
    "task_report", "task_support", "to_networkx", "weighted_majority", "wilson_interval",
    "worker_agreement", "worker_report", "yes_no_labels",
]  # fmt: skip
