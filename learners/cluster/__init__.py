"""Clusters of least within-cell dissimilarity, their risk with an interval, and how many there are.

`PairwiseRiskClustering` is the scikit-learn estimator, `clustering_risk` the risk of any partition,
`cluster_number` the evidence for a number of clusters. `penalized_risks` is the paper's penalty, corrected:
a certificate, no way to find that number.

>>> import numpy as np
>>> x = np.array([[0.0], [2.0], [10.0], [14.0]])
>>> clustering_risk(x, np.array([0, 0, 1, 1]), objective="normalized").value
5.0

`PairwiseRiskClustering` needs scikit-learn and loads when first used.
"""

from typing import TYPE_CHECKING, Any

from learners.cluster.gap_statistic import ClusterNumber, Evidence, cluster_number
from learners.cluster.penalties import (
    PenalizedRisk,
    penalized_risks,
    penalty,
    rademacher_complexity,
)
from learners.cluster.risk import ClusteringRisk, clustering_risk

if TYPE_CHECKING:
    from learners.cluster.pairwise_risk import PairwiseRiskClustering

__all__ = [
    "ClusterNumber", "ClusteringRisk", "Evidence", "PairwiseRiskClustering", "PenalizedRisk",
    "cluster_number", "clustering_risk", "penalized_risks", "penalty", "rademacher_complexity",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from learners.cluster import pairwise_risk  # not earlier: it loads scikit-learn

    return getattr(pairwise_risk, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
