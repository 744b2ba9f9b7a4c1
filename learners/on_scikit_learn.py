"""What stands on scikit-learn, which is slow to load: `learners` loads it when it is first used."""

from learners.boosted_trees import BoostedTrees
from learners.class_ratio import ClassRatioEstimator
from learners.histogram_validation import HistogramValidation, PerWidthValidation, histogram_query
from learners.private_histogram import PrivateHistogram
from learners.private_logistic import PrivateLogisticRegression
from learners.search_budget import check_search
from learners.streamed_ratio import StreamedRatioEstimator

__all__ = [
    "BoostedTrees",
    "ClassRatioEstimator",
    "HistogramValidation",
    "PerWidthValidation",
    "PrivateHistogram",
    "PrivateLogisticRegression",
    "StreamedRatioEstimator",
    "check_search",
    "histogram_query",
]
