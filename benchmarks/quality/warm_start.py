"""EM that goes on from an earlier fit, beside EM begun anew, on the shared sets: iterations and results.

    python -m benchmarks.quality.warm_start

Nine tasks in ten, drawn at random, are yesterday's table; its fit starts today's, of all tasks. *Anew*
and *gone on* are iterations of today's fit, both with the aggregator's own tolerance. *Otherwise* are
today's tasks whose label differs between the two; *by the day* those that beginning anew on both days
changes among yesterday's, which is what the new tasks alone do to the old ones. *Right* is per cent of
the gold tasks, anew and gone on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.publish import parser_of, publish
from benchmarks.quality.crowd_sets import DATA, SETS, read_set, right
from quality import (
    CrowdLabels,
    dawid_skene,
    hierarchical_dawid_skene,
    one_coin_dawid_skene,
)
from quality.aggregation.dawid_skene_em import start_from

HEADER = ("set", "model", "anew", "gone on", "otherwise", "by the day", "right")
MODELS: dict[str, Callable[..., Any]] = {
    "Dawid–Skene": dawid_skene,
    "hierarchical": hierarchical_dawid_skene,
    "one-coin": one_coin_dawid_skene,
}
YESTERDAY, MOST = 0.9, 1000


def main() -> None:
    parser_of(__doc__).parse_args()
    rows = [row for name in SETS for row in rows_of(name)]
    publish(
        "warm_start", "Going on from yesterday's fit", HEADER, rows,
        note=" ".join(" ".join(__doc__.splitlines()[4:]).split()),
    )  # fmt: skip


def rows_of(name: str) -> list[tuple[str, ...]]:
    """Every model on one set."""
    today, gold = read_set(DATA / name)
    old = np.random.default_rng(0).permutation(today.n_tasks) < YESTERDAY * today.n_tasks
    before = tasks_of(today, old)
    rows: list[tuple[str, ...]] = []
    for model, fit in MODELS.items():
        yesterday, anew = fit(before, max_iter=MOST), fit(today, max_iter=MOST)
        gone_on = fit(today, max_iter=MOST, start=start_from(before, yesterday))
        labelled = old & (np.diff(today.task_start) > 0)
        rows.append((
            name, model, f"{anew.n_iter}", f"{gone_on.n_iter}",
            f"{np.count_nonzero(anew.label != gone_on.label):,} of {today.n_tasks:,}",
            f"{np.count_nonzero((anew.label != yesterday.label) & labelled):,}",
            f"{right(anew.posterior, gold):.1f} {right(gone_on.posterior, gold):.1f}",
        ))  # fmt: skip
    return rows


def tasks_of(labels: CrowdLabels, keep: np.ndarray) -> CrowdLabels:
    """The labels of some tasks, in the same codes."""
    rows = keep[labels.task]
    return CrowdLabels.from_codes(
        labels.worker[rows], labels.task[rows], labels.label[rows],
        workers=labels.workers, tasks=labels.tasks, classes=labels.classes,
    )  # fmt: skip


if __name__ == "__main__":
    main()
