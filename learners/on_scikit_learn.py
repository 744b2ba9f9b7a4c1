"""What stands on scikit-learn, which is slow to load: `learners` loads it when it is first used."""

from learners.class_ratios.boosted_trees import BoostedTrees
from learners.class_ratios.estimator import ClassRatioEstimator
from learners.class_ratios.streamed_ratio import StreamedRatioEstimator
from learners.private.estimator import PrivateLogisticRegression
from learners.private.histogram import PrivateHistogram
from learners.private.search_budget import check_search
from learners.selection.histogram_width import (
    HistogramValidation,
    PerWidthValidation,
    histogram_query,
)

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
