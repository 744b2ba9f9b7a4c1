"""Ordered classes in a run: whether the labels show the order, and what deciding by loss changes.

Labels of least expected loss are made by `flows.aggregators.decided`; what a run says about them is here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from flows.run import Crowd, Run
from quality import Consensus, CrowdLabels, order_fit

__all__ = ["order_facts", "order_sentence"]

LOSSES = {
    "zero_one": "the likeliest class",
    "absolute": "a median of what is believed: the least expected distance",
    "squared": "the class next to the mean of what is believed: the least expected squared distance",
}


def order_facts(
    run: Run, crowd: Crowd, labels: CrowdLabels | None, consensus: Consensus
) -> dict[str, Any] | None:
    """Return whether the labels of the workers kept show the order, how they were decided and how far off.

    None where the settings name no order.
    """
    if labels is None or not run.settings.input.order:
        return None
    fit, loss = order_fit(labels), run.settings.consensus.loss
    names = [str(name) for name in fit.classes]
    gold, used = crowd.gold_code(), run.settings.consensus.use_gold
    known = np.flatnonzero(gold >= 0) if not used else np.zeros(0, dtype=np.int64)
    off = np.abs(consensus.label[known].astype(np.int64) - gold[known])
    likeliest = consensus.posterior.argmax(axis=1)
    ends = zip(names[:-1], names[1:], fit.lift.tolist(), fit.z.tolist(), strict=True)
    return {
        "verdict": fit.verdict,
        "sentence": fit.sentence(),
        "loss": loss,
        "decided": LOSSES[loss],
        "n_moved": int(np.count_nonzero(likeliest != consensus.label)),
        "distance": float(off.mean()) if off.size else None,
        "boundaries": [
            {"between": f"{low} | {high}", "lift": lift, "z": z} for low, high, lift, z in ends
        ],
    }


def order_sentence(found: dict[str, Any] | None) -> str:
    """Return the verdict on the order as the end of a sentence, from `consensus.json`."""
    if found is None:
        return ""
    moved = f"; {found['n_moved']:,} labels are not the likeliest" if found["n_moved"] else ""
    far = found["distance"]
    missed = "" if far is None else f"; {far:.2f} classes from gold on average"
    return f"{missed}; {found['sentence']}{moved}"
