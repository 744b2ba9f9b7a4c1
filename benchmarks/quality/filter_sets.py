"""The filter's stop rules on the shared sets; gold is used only to score.

    python -m benchmarks.quality.filter_sets

Each set is filtered by the false removal rate and by the paper's share of the workers; the page shows how
many gold tasks majority vote and Dawid-Skene then get right.
"""

from __future__ import annotations

import time
from functools import partial

import numpy as np

from benchmarks.publish import parser_of, publish
from benchmarks.quality.crowd_sets import DATA, SETS, read_set, right
from flows.stages.labels.whole_labels import DENSE
from quality import (
    CrowdLabels,
    dawid_skene,
    filter_dishonest,
    filter_workers,
    majority_vote,
    relative_penalty,
)

NOTE = (
    "Per cent of gold tasks right, ties in expectation; in brackets the workers removed. Rate: "
    "false removal rate 0.1, seed 0. 15 %: that share of the workers by soft penalty. 15 % hard: by "
    "the load relative to honest crowds', which a run refuses where workers label most tasks. None "
    "leaves a task without labels, and none sees gold. Of a worker's repeated labels for one "
    "task the first is kept. cpu s: of the filter by rate."
)


def _given(penalty: np.ndarray, labels: CrowdLabels) -> np.ndarray:
    """A penalty found once, of all workers, as a run has it."""
    return penalty


def main() -> None:
    parser_of(__doc__).parse_args()
    rows = []
    for name in SETS:
        labels, gold = read_set(DATA / name)
        begin = time.process_time()
        by_rate = filter_dishonest(labels, rng=np.random.default_rng(0))
        seconds = time.process_time() - begin
        by_share = filter_workers(labels, fraction=0.15)
        dense = labels.n_labels > DENSE * labels.n_workers * labels.n_tasks
        relative = relative_penalty(labels, rng=np.random.default_rng(0))
        by_load = filter_workers(labels, penalty=partial(_given, relative), fraction=0.15)
        cells = []
        for rule in (majority_vote, dawid_skene):
            cells.append(f"{right(rule(labels).posterior, gold):.1f}")
            for filtered in (by_rate, by_share):
                kept: CrowdLabels = labels.keep_workers(filtered.keep)
                share = right(rule(kept).posterior, gold)
                cells.append(f"{share:.1f} ({len(filtered.removed)})")
        kept = labels.keep_workers(by_load.keep)
        share = right(dawid_skene(kept).posterior, gold)
        cells.append("refused" if dense else f"{share:.1f} ({len(by_load.removed)})")
        fitted = f"{100 * by_rate.population.adversaries:.0f} %"
        rows.append((name, f"{labels.n_workers:,}", fitted, *cells, f"{seconds:.1f}"))
    header = (
        "set", "workers", "adversaries fitted", "MV", "MV, rate", "MV, 15 %", "DS", "DS, rate",
        "DS, 15 %", "DS, 15 % hard", "cpu s",
    )  # fmt: skip
    publish("filter_sets", "What the filter's stop rules are worth", header, rows, note=NOTE)


if __name__ == "__main__":
    main()
