"""What stands on scikit-learn, which is slow to load: `learners` loads it when it is first used."""

from learners.class_ratios import BoostedTrees, ClassRatioEstimator, StreamedRatioEstimator
from learners.private import PrivateHistogram, PrivateLogisticRegression, check_search
from learners.selection import (
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
