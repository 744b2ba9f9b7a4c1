"""Models from rows: class ratios from set-level labels, private training and tuning, the holdout, bounds.

Each sub-room is one subject, and its docstring begins with the names to use first:

- `learners.class_ratios`: the class ratio of an unlabelled bag of points;
- `learners.private`: models trained under differential privacy;
- `learners.selection`: a private choice of their regularization or width;
- `learners.svm`: classifiers on proximities that need be neither square nor positive;
- `learners.holdout`: a holdout that can be asked more than once;
- `learners.bounds`: bounds on the true error;
- `learners.cluster`: clusters, their risk with an interval, and how many there are;
- `learners.genesis`: a simulator of populations, with a script language;
- `learners.images`: decision images, features of a crowd's errors, psychometric functions;
- `learners.search`: the best objects for a query under any scorer, within a budget;
- `learners.streams`: cards of workers and a consensus that are kept while labels arrive;
- `learners.task_features`: class probabilities and duplicates from tasks' features, without privacy;
- `learners.topics`: concept graphs from the words of documents, with labels for some of them.

Sub-rooms import one way: `holdout` uses `bounds`, `selection` uses `private`, and no others meet.
Names that need scikit-learn load when first used, because scikit-learn brings pandas and scipy.stats; so
do the families that few runs need.

>>> clopper_pearson_bound(0, 60, level=0.95).value < 0.05
True
"""

from typing import TYPE_CHECKING, Any

from learners.bounds import (
    Bound,
    cdp_bound,
    clopper_pearson_bound,
    drawn_model_bound,
    exponential_gibbs_bound,
    gibbs_bound,
    least,
    max_information_bound,
    private_training_bounds,
    transfer_bound,
)
from learners.class_ratios import (
    ClassRatio,
    KernelMatching,
    KernelWitness,
    RatioDiagnostics,
    RatioModel,
    StreamedRatioModel,
    learn_ratios,
    learn_streamed_ratios,
)
from learners.holdout import (
    Auc,
    CandidateAnswer,
    CandidateGate,
    CertifiedHoldout,
    CertifiedState,
    GateAnswer,
    MetricGate,
    Thresholdout,
    agreeing_holdout_bound,
    best_step,
    candidate_price,
    climb,
    holdout_widths,
    ladder_error,
    largest_budget,
    private_holdout_bound,
    thresholdout_advice,
)
from learners.private import (
    ConvergenceError,
    DeflatedDirections,
    GaussianObjectivePerturbation,
    LinearModel,
    NoisyGradientDescent,
    NoisyMoments,
    ObjectivePerturbation,
    OutputPerturbation,
    PrincipalSubspace,
    fit_linear,
    moments_query,
    prefers_descent,
    private_subspace,
    private_training,
)
from learners.selection import (
    HistogramValidation,
    PerCandidateValidation,
    PerWidthValidation,
    RandomRepetition,
    RandomSelection,
    ReducedTraining,
    ScoredTraining,
    SplitBudgetSelection,
    SplitDataSelection,
    StabilityValidation,
    TuningAdvice,
    histogram_query,
    tuning_advice,
)

if TYPE_CHECKING:
    from learners.class_ratios import BoostedTrees, ClassRatioEstimator, StreamedRatioEstimator
    from learners.cluster import (
        ClusteringRisk,
        ClusterNumber,
        PairwiseRiskClustering,
        cluster_number,
        clustering_risk,
        penalized_risks,
    )
    from learners.genesis import Simulation
    from learners.images import (
        DecisionImage,
        ErrorImage,
        ImageComparison,
        PsychometricFunction,
        PsychometricPosterior,
        RelevanceVectorClassifier,
        compare_decision_images,
        error_image_test,
        psychometric_posterior,
    )
    from learners.private import (
        PrivateHistogram,
        PrivateLogisticRegression,
        PrivatePCA,
        check_search,
    )
    from learners.search import FeatureCover, Found, HyperplaneCover, PredictiveIndex
    from learners.streams import FPLA, RunningConsensus, StreamMonitor, WorkerCards
    from learners.svm import (
        PotentialSVC,
        PotentialSVR,
        coulomb_kernel,
        epsilon_path,
        plummer_kernel,
    )
    from learners.task_features import (
        CrossFitted,
        GoldReading,
        NearDuplicates,
        answer_features,
        cross_fitted_probabilities,
        near_duplicates,
        read_by_gold,
    )
    from learners.topics import ConceptGraph, GraphLDA

__all__ = [
    "FPLA", "Auc", "BoostedTrees", "Bound", "CandidateAnswer", "CandidateGate", "CertifiedHoldout",
    "CertifiedState", "ClassRatio", "ClassRatioEstimator", "ClusterNumber", "ClusteringRisk",
    "ConceptGraph", "ConvergenceError", "CrossFitted", "DecisionImage", "DeflatedDirections",
    "ErrorImage", "FeatureCover", "Found", "GateAnswer", "GaussianObjectivePerturbation",
    "GoldReading", "GraphLDA", "HistogramValidation", "HyperplaneCover", "ImageComparison",
    "KernelMatching", "KernelWitness", "LinearModel", "MetricGate", "NearDuplicates",
    "NoisyGradientDescent", "NoisyMoments", "ObjectivePerturbation", "OutputPerturbation",
    "PairwiseRiskClustering", "PerCandidateValidation", "PerWidthValidation", "PotentialSVC",
    "PotentialSVR", "PredictiveIndex", "PrincipalSubspace", "PrivateHistogram",
    "PrivateLogisticRegression", "PrivatePCA", "PsychometricFunction", "PsychometricPosterior",
    "RandomRepetition", "RandomSelection", "RatioDiagnostics", "RatioModel", "ReducedTraining",
    "RelevanceVectorClassifier", "RunningConsensus", "ScoredTraining", "Simulation",
    "SplitBudgetSelection", "SplitDataSelection", "StabilityValidation", "StreamMonitor",
    "StreamedRatioEstimator", "StreamedRatioModel", "Thresholdout", "TuningAdvice", "WorkerCards",
    "agreeing_holdout_bound", "answer_features", "best_step", "candidate_price", "cdp_bound",
    "check_search", "climb", "clopper_pearson_bound", "cluster_number", "clustering_risk",
    "compare_decision_images", "coulomb_kernel", "cross_fitted_probabilities", "drawn_model_bound",
    "epsilon_path", "error_image_test", "exponential_gibbs_bound", "fit_linear", "gibbs_bound",
    "histogram_query", "holdout_widths", "ladder_error", "largest_budget", "learn_ratios",
    "learn_streamed_ratios", "least", "max_information_bound", "moments_query", "near_duplicates",
    "penalized_risks", "plummer_kernel", "prefers_descent", "private_holdout_bound",
    "private_subspace", "private_training", "private_training_bounds", "psychometric_posterior",
    "read_by_gold", "thresholdout_advice", "transfer_bound", "tuning_advice",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "Simulation":  # alone: no other late name needs it
        from learners.genesis import Simulation  # when first used

        return Simulation
    # their faces load scikit-learn, or numba, for this name
    from learners import (
        class_ratios,
        cluster,
        images,
        private,
        search,
        streams,
        svm,
        task_features,
        topics,
    )

    faces = (
        class_ratios, cluster, images, private, search, streams, svm, task_features, topics,
    )  # fmt: skip
    return getattr(next(face for face in faces if name in face.__all__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
