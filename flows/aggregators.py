"""The aggregators that settings name, each called with the numbers it takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Int

from flows.settings.sections import KNOBS, ConsensusSettings
from quality import (
    Consensus,
    CrowdLabels,
    Progress,
    auto,
    dawid_skene,
    glad,
    hierarchical_dawid_skene,
    kos,
    kos_plus,
    majority_vote,
    one_coin_dawid_skene,
    penalty_vote,
    soft_penalty,
    weighted_majority,
)
from quality.aggregation import EMStart

__all__ = ["AGGREGATORS", "READ_AS", "consensus_of"]

AGGREGATORS: dict[str, Callable[..., Consensus]] = {
    "auto": auto,
    "dawid_skene": dawid_skene,
    "glad": glad,
    "hierarchical_dawid_skene": hierarchical_dawid_skene,
    "kos": kos,
    "kos_plus": kos_plus,
    "majority_vote": majority_vote,
    "one_coin_dawid_skene": one_coin_dawid_skene,
    "penalty_vote": penalty_vote,
    "weighted_majority": lambda labels: weighted_majority(labels, 1.0 - soft_penalty(labels)),
}
READ_AS = {
    "auto": "the best of several",
    "dawid_skene": "Dawid–Skene",
    "glad": "GLAD",
    "hierarchical_dawid_skene": "hierarchical Dawid–Skene",
    "kos": "KOS message passing",
    "kos_plus": "KOS+ message passing",
    "majority_vote": "majority vote",
    "one_coin_dawid_skene": "one-coin Dawid–Skene",
    "penalty_vote": "penalty vote",
    "weighted_majority": "majority vote weighted by reputation",
}
DRAWS = ("auto", "kos", "kos_plus")  # those that take a random generator


def consensus_of(
    labels: CrowdLabels,
    chosen: ConsensusSettings,
    *,
    seed: int,
    gold: Int[np.ndarray, " tasks"] | None = None,
    start: EMStart | None = None,
    progress: Progress | None = None,
) -> Consensus:
    """Aggregate by the method the settings name; `gold` counts only where they say to use it.

    `start` is for those that can go on from an earlier fit.
    """
    knobs: dict[str, Any] = {
        knob: getattr(chosen, knob)
        for knob in ("max_iter", "tol", "smoothing")
        if getattr(chosen, knob) is not None
    }
    if chosen.use_gold and gold is not None:
        knobs["gold"] = gold
    if start is not None:
        knobs["start"] = start
    if chosen.aggregator == "auto" or "max_iter" in KNOBS.get(chosen.aggregator, ()):
        knobs["progress"] = progress
    if chosen.aggregator in DRAWS:
        knobs["rng"] = np.random.default_rng(seed)
    return AGGREGATORS[chosen.aggregator](labels, **knobs)
