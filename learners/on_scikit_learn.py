"""What stands on scikit-learn, which is slow to load: `learners` loads it when it is first used."""

from learners.boosted_trees import BoostedTrees
from learners.class_ratio import ClassRatio, ClassRatioEstimator, RatioDiagnostics
from learners.histogram_validation import HistogramValidation, PerWidthValidation, histogram_query
from learners.kernel_matching import KernelMatching
from learners.kernel_witness import KernelWitness
from learners.private_histogram import PrivateHistogram
from learners.private_logistic import PrivateLogisticRegression
from learners.search_budget import check_search
from learners.streamed_ratio import StreamedRatioEstimator

__all__ = [
    "BoostedTrees",
    "ClassRatio",
    "ClassRatioEstimator",
    "HistogramValidation",
    "KernelMatching",
    "KernelWitness",
    "PerWidthValidation",
    "PrivateHistogram",
    "PrivateLogisticRegression",
    "RatioDiagnostics",
    "StreamedRatioEstimator",
    "check_search",
    "histogram_query",
]
