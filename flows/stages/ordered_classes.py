"""Ordered classes in a run: whether the labels show the order, what a loss changes, cumulative shares.

Labels of least expected loss are made by `flows.aggregators.decided`; what a run says about them is here.
Tables of shares get three more columns: how much of a group is of a class or a lower one. They follow from
what is released and public, and cost nothing; their intervals hold for all classes of a group together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from flows.run import Crowd, Run
from flows.stages.stage import counted
from flows.tables import arrow_array, numpy_array
from privacy import cumulative_noise
from privacy.mechanisms import CountLaw
from quality import CrowdLabels, order_fit
from quality.aggregation import decide
from quality.shares import CumulativeShares, cumulative_band

if TYPE_CHECKING:
    from flows.aggregators import AnyConsensus

__all__ = ["counted_bands", "order_facts", "order_sentence", "with_cumulative_shares"]

LOSSES = {
    "zero_one": "the likeliest class",
    "absolute": "a median of what is believed: the least expected distance",
    "squared": "the class next to the mean of what is believed: the least expected squared distance",
}


def order_facts(
    run: Run, crowd: Crowd, labels: CrowdLabels | None, consensus: AnyConsensus
) -> dict[str, Any] | None:
    """Return whether the kept workers' labels show the order, the loss, and the distance from gold.

    None where the settings name no order.
    """
    if labels is None or not run.settings.input.order:
        return None
    fit, loss = order_fit(labels), run.settings.consensus.loss
    names = [str(name) for name in fit.classes]
    gold, used = crowd.gold_code(), run.settings.consensus.use_gold
    known = np.flatnonzero(gold >= 0) if not used else np.zeros(0, dtype=np.int64)
    off = np.abs(consensus.label[known].astype(np.int64) - gold[known])
    likeliest = decide(consensus.posterior)[0]
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
    n_moved = found["n_moved"]
    are = "is" if n_moved == 1 else "are"
    moved = f"; {counted(n_moved, 'label')} {are} not the likeliest" if n_moved else ""
    far = found["distance"]
    missed = "" if far is None else f"; {far:.2f} classes from gold on average"
    return f"{missed}; {found['sentence']}{moved}"


def with_cumulative_shares(table: pa.Table, bands: Sequence[CumulativeShares]) -> pa.Table:
    """Return a table of groups and classes with the columns of cumulative shares."""
    share, low, high = zip(*((one.share, one.low, one.high) for one in bands), strict=True)
    for name, parts in {"at_most": share, "at_most_low": low, "at_most_high": high}.items():
        table = table.append_column(name, arrow_array(np.concatenate(parts)))
    return table


def counted_bands(
    table: pa.Table, laws: Sequence[Sequence[CountLaw]], level: float
) -> list[CumulativeShares]:
    """Return the cumulative shares of a table of proportions.

    `laws` are, for each group, those of the noise of the releases that its counts are the sum of.
    """
    n, noisy, share = (
        numpy_array(table.column(name)).reshape(len(laws), -1)
        for name in ("n", "noisy_count", "proportion")
    )
    size, reached, bands = n[:, 0], np.cumsum(noisy, axis=1)[:, :-1], []
    total, known = noisy.sum(axis=1) - size, {}
    for group, some in enumerate(laws):
        key = (*(law.scale for law in some), total[group])
        if key not in known:
            known[key] = cumulative_noise(some, int(total[group]), level)
        low, high = known[key]
        ends = (reached[group] - high) / size[group], (reached[group] - low) / size[group]
        bands.append(cumulative_band(share[group], *ends))
    return bands
