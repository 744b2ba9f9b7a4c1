"""A potential of each worker's agreement with all others, learned from workers whom gold has checked.

Beside it stands the plain mean of that agreement, which needs no gold and is hard to beat: the potential is
for reading, and removes nobody.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Float

from flows.tables import arrow_table
from quality import CrowdLabels, WorkerReport, agreement_rows

__all__ = ["potential_table"]

MAX_WORKERS = 3000  # the matrix has their square
MIN_KNOWN = 4  # workers of each kind whom gold has checked
BOUND = 0.02  # on what one worker's agreement can decide


def potential_table(
    labels: CrowdLabels | None, workers: np.ndarray, report: WorkerReport, least: int
) -> pa.Table:
    """Return every worker's mean agreement and potential, the lowest potential first.

    Workers with `least` gold tasks or more teach: good are those who are right on gold at least as often as
    these workers are on average. The potential is null where they are fewer than four of either kind, and so
    is the mean without the whole table of labels, or of more than 3000 workers.
    """
    n_workers = workers.size
    known = report.gold_n >= least
    right = report.gold_correct / np.maximum(report.gold_n, 1)
    good = known & (right >= right[known].mean()) if known.any() else known
    mean = potential = np.full(n_workers, np.nan)
    if labels is not None and n_workers <= MAX_WORKERS:
        rows = agreement_rows(labels)
        mean = rows.sum(axis=1) / max(n_workers - 1, 1)
        if min(good.sum(), (known & ~good).sum()) >= MIN_KNOWN:
            potential = _potential(rows, known, good)
    order = np.lexsort((np.arange(n_workers), mean, potential))
    return arrow_table(
        {
            "worker": workers[order].astype(str),
            "mean_agreement": mean[order],
            "potential": potential[order],
            "known": known[order],
            "good": good[order],
        }
    )


def _potential(
    rows: Float[np.ndarray, "workers workers"],
    known: Bool[np.ndarray, " workers"],
    good: Bool[np.ndarray, " workers"],
) -> Float[np.ndarray, " workers"]:
    """Return the score of each worker; above 0 is like the good ones."""
    from learners import PotentialSVC  # scikit-learn, where potentials are asked for alone

    machine = PotentialSVC("precomputed", formulation="box", C=BOUND)
    found: np.ndarray = machine.fit(rows[known], good[known]).decision_function(rows)
    return found
