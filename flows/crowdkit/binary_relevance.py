"""``BinaryRelevance`` under crowd-kit's name: sets of classes, an aggregator for each class."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
from sklearn.base import clone

from flows.crowdkit.frames import ConsensusEstimator, has_no_rows
from flows.crowdkit.majority_vote import MajorityVote
from quality import encode_multilabels

__all__ = ["BinaryRelevance"]


class BinaryRelevance(ConsensusEstimator):
    """Ask of every class apart whether it holds, and answer with one aggregator for each.

    Parameters
    ----------
    base_aggregator
        An estimator of this package that is fitted on a frame alone; it is cloned for every class.
        None is ``MajorityVote()``.

    Attributes
    ----------
    labels_ : Series
        The list of classes of each task, classes sorted; tasks in the order of the aggregator's.
    aggregators_ : dict
        The fitted aggregator of each class, whose labels are 1 where the class holds, else 0.

    Notes
    -----
    **Guarantees.** The labels are crowd-kit's wherever those of the aggregator are. `aggregators_` holds the
    classes of the last ``fit``; crowd-kit keeps those of all objects of the class together. An empty frame
    has empty results. :func:`quality.multilabel_consensus` is the model to prefer: a worker's skill is
    learned from all classes at once.

    Examples
    --------
    >>> frame = pd.DataFrame({"task": 1, "worker": [1, 2, 3], "label": [["a"], ["a", "b"], ["b", "a"]]})
    >>> BinaryRelevance(MajorityVote()).fit_predict(frame).to_dict()
    {1: ['a', 'b']}
    """

    def __init__(self, base_aggregator: ConsensusEstimator | None = None) -> None:
        self.base_aggregator = base_aggregator

    def fit(self, data: pd.DataFrame) -> BinaryRelevance:
        """Fit one aggregator a class to the columns task, worker and label, a list of classes."""
        self.aggregators_: dict[Any, ConsensusEstimator] = {}
        if has_no_rows(data):
            self.labels_ = pd.Series(dtype=float, name="agg_label")
            return self
        base = MajorityVote() if self.base_aggregator is None else self.base_aggregator
        sets = data["label"].tolist()
        classes = encode_multilabels(
            data["worker"].tolist(), data["task"].tolist(), sets
        ).classes.tolist()
        chosen: dict[Any, list[Any]] = {}
        for one in classes:
            gave = np.fromiter((one in mine for mine in sets), dtype=np.int64, count=len(sets))
            self.aggregators_[one] = clone(base)
            labels = self.aggregators_[one].fit_predict(data[["task", "worker"]].assign(label=gave))
            for task, holds in labels.items():
                mine = chosen.setdefault(task, [])
                if holds:
                    mine.append(one)
        self.labels_ = pd.Series(
            list(chosen.values()), index=pd.Index(list(chosen), name="task"), name="agg_label"
        )
        return self
