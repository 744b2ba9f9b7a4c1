"""Judging workers on shards: the soft penalty's filter, and the numbers about each worker.

Hard and balanced penalty are worked out on the conflict graph that the shards build, up to
`engine.whole_conflicts` labels on conflict tasks; the bounds on robustness on the whole table, up to
`engine.whole_labels`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from flows.run.history import start_of
from flows.run.store import Run
from flows.sharding.engine import open_engine
from flows.sharding.shards import open_shards
from flows.stages.belief import KEPT_FIT, believed, whole_table
from flows.stages.reading import load
from flows.stages.sharded_reading import SHARDS, engine_of
from flows.stages.workers import agreeing_pairs, number_or_none, robustness_curves, worker_table
from quality import (
    CrowdLabels,
    Engine,
    Progress,
    balanced_loads,
    conflict_graph_by_shards,
    load_levels,
)
from quality.reports import CrowdSums, crowd_sums, report_of
from quality.reputation import Filtered, filter_workers_by_shards

__all__ = ["judge_shards"]

SHARED = {
    "hard_least": (np.int32, pa.int32()),
    "hard_penalty": (np.int32, pa.int32()),
    "balanced_penalty": (np.float64, pa.float64()),
}


def judge_shards(run: Run) -> str:
    """Reputations and the filter: who is removed, and why."""
    crowd, shards, chosen = load(run), open_shards(run.folder / SHARDS), run.settings.filter
    with open_engine(shards, engine_of(run)) as engine:
        filtered = filter_workers_by_shards(
            engine, crowd.labels.tasks, n_workers=chosen.n_workers, fraction=chosen.fraction,
            min_labels_per_task=chosen.min_labels_per_task, progress=run.progress,
        )  # fmt: skip
        start = start_of(run, crowd.labels)
        belief = believed(run, engine.keep_workers(filtered.keep), KEPT_FIT, start)
        sums = crowd_sums(engine, filtered.keep, belief.posterior, belief.parameters)
        most = engine_of(run).whole_conflicts
        shared = _shared_loads(engine, sums, most, run.progress)
        whole = whole_table(run, engine, shards, crowd)
    run.write_table("workers.parquet", _workers(crowd.labels, filtered, sums, shared))
    run.write_json("robustness.json", _robust(whole, filtered))
    labels_removed = int(sums.n_labels[~filtered.keep].sum())
    stop = (
        f"{chosen.n_workers} workers"
        if chosen.fraction is None
        else f"{chosen.fraction:.0%} of the workers"
    )
    names = crowd.labels.workers
    run.write_json(
        "quality.json",
        {
            "alpha": number_or_none(sums.alpha),
            "alpha_kept": number_or_none(sums.alpha_kept),
            "penalty": f"{chosen.penalty} penalty",
            "stop": stop,
            "n_removed": len(filtered.removed),
            "removed": [str(names[code]) for code in filtered.removed],
            "refused": [
                {"worker": str(names[code]), "reason": reason}
                for code, reason in zip(filtered.refused, filtered.refused_reason, strict=True)
            ],
            "labels_removed": labels_removed,
            "pairs": None if whole is None else agreeing_pairs(whole),
        },
    )
    return (
        f"{len(filtered.removed)} of {len(names)} workers removed by {chosen.penalty} "
        f"penalty ({stop}), with {labels_removed:,} labels"
    )


def _shared_loads(
    engine: Engine, sums: CrowdSums, most: int, progress: Progress | None
) -> dict[str, np.ndarray]:
    """What an optimal sharing out of all label nodes gives each worker; nothing where too many are shared."""
    if sums.n_conflict.sum() > most:
        return {}
    graph = conflict_graph_by_shards(engine)
    levels = load_levels(graph)
    loads = (levels.least, levels.level, balanced_loads(graph, progress=progress).load)
    return dict(zip(SHARED, loads, strict=True))


def _workers(
    books: CrowdLabels, filtered: Filtered, sums: CrowdSums, shared: dict[str, np.ndarray]
) -> pa.Table:
    """Workers ranked; penalties that look at all labels together are null where these are too many."""
    numbers = {
        "n_labels": sums.n_labels,
        "n_conflict": sums.n_conflict,
        "agreement": sums.agreement,
        "soft_penalty": sums.soft_penalty,
        **(shared or {name: np.zeros(books.n_workers, kind) for name, (kind, _) in SHARED.items()}),
        "gold_n": sums.gold_n,
        "gold_correct": sums.gold_correct,
        "median_seconds": np.full(books.n_workers, np.nan),
        "hasty": np.zeros(books.n_workers, dtype=np.bool_),
    }
    report = report_of(filtered, numbers, sums.only_class, books.classes)
    table = worker_table(books, report)
    return table if shared else _without(table)


def _without(table: pa.Table) -> pa.Table:
    """The table with nulls for what was not worked out."""
    for name, (_, kind) in SHARED.items():
        place = table.schema.get_field_index(name)
        table = table.set_column(place, name, pa.nulls(len(table), kind))
    return table


def _robust(whole: CrowdLabels | None, filtered: Filtered) -> dict[str, Any]:
    if whole is None:
        return {"skipped": "there are more labels than engine.whole_labels"}
    return robustness_curves(whole.keep_workers(filtered.keep))
