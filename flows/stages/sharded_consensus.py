"""Consensus on shards: one label per task from the workers kept, and which tasks to label next."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from flows.run.crowd import Crowd
from flows.run.history import facts_of, keep_fit, start_of
from flows.run.store import Run
from flows.settings.settings import Settings
from flows.sharding.engine import open_engine
from flows.sharding.shards import ShardFolder, group_of_shard, load_shard, open_shards
from flows.stages.belief import (
    KEPT_FIT,
    MAJORITY,
    UNFILTERED_FIT,
    Belief,
    believed,
    whole_table,
)
from flows.stages.consensus import (
    consensus_facts,
    consensus_line,
    consensus_table,
    next_table,
)
from flows.stages.label_plan import plan_next
from flows.stages.reading import load
from flows.stages.sharded_reading import SHARDS, books_of, engine_of
from flows.tables import arrow_table, numpy_array
from quality import DawidSkene, MajorityVote, OneCoin, TaskReport, accuracy, task_report
from quality.aggregation import EMFit, Fit, class_sums, decide, start_from
from quality.labels import Engine, join_shards
from quality.reports import DECIMALS

__all__ = ["aggregate_shards"]

Result: TypeAlias = DawidSkene | OneCoin | MajorityVote
NOT_ANEW = "no fit is begun anew to compare with: on shards that would cost what going on saves"


def aggregate_shards(run: Run) -> str:
    """Consensus labels from the kept workers, and which tasks to label next."""
    crowd, shards = load(run), open_shards(run.folder / SHARDS)
    keep, start = _kept(run, crowd), start_of(run, crowd.labels)
    with open_engine(shards, engine_of(run)) as engine:
        kept = engine.keep_workers(keep)
        belief = believed(run, kept, KEPT_FIT, start)
        posterior = np.concatenate(kept.map(belief.posterior, belief.parameters))
        counts = _class_counts(kept, shards, crowd, belief)
        gold = _gold_check(run, engine, crowd, posterior)
        whole = whole_table(run, engine, shards, crowd)
    result = _result(run.settings, belief.fit, posterior)
    tasks = _task_report(shards, crowd, keep, posterior)
    order = np.lexsort((tasks.n_labels, -tasks.entropy.round(DECIMALS)))
    asked = order[:0] if whole is None else order  # a plan looks at workers' labels of all tasks
    labels = crowd.labels if whole is None else whole.keep_workers(keep)
    plan, planned = plan_next(labels, result, asked, run.settings.report)
    run.write_table("consensus.parquet", consensus_table(crowd, result, tasks))
    run.write_table("next_labels.parquet", next_table(result, tasks, order))
    run.write_table("label_plan.parquet", plan)
    run.write_table("class_counts.parquet", counts)
    facts = consensus_facts(run, crowd, result, posterior, tasks) | {"plan": planned, "gold": gold}
    if start is not None:
        facts["start"] = facts_of(run, start, result, None) | {"why_not_anew": NOT_ANEW}
    if run.settings.consensus.go_on and belief.fit is not None and isinstance(result, Fit):
        labelled = belief.fit.counts.sum(axis=(1, 2)) > 0
        keep_fit(run, start_from(crowd.labels, result, labelled=labelled))
    run.write_json("consensus.json", facts)
    said = consensus_line(facts, crowd.labels.n_tasks)
    return said if start is None else f"{said} ({NOT_ANEW})"


def _class_counts(engine: Engine, shards: ShardFolder, crowd: Crowd, belief: Belief) -> pa.Table:
    """Consensus classes of each labelled group, added up on the shards: what publication counts."""
    names, _ = crowd.labelled_groups()
    groups = partial(group_of_shard, shards)
    counts = class_sums(engine, groups, names.size, belief.posterior, belief.parameters)
    group, classes = np.repeat(names, crowd.labels.n_classes), crowd.labels.classes
    cells = {"group": group, "class": np.tile(classes, names.size), "n": counts.ravel()}
    return arrow_table(cells)


def _kept(run: Run, crowd: Crowd) -> np.ndarray:
    """Who is kept, as the stage before wrote it."""
    table = run.read_table("workers.parquet")
    flagged = numpy_array(table.column("flagged"))
    removed = np.array(table.column("worker").to_pylist(), dtype=np.str_)[flagged]
    kept: np.ndarray = ~np.isin(crowd.labels.workers, removed)
    return kept


def _result(settings: Settings, fit: EMFit | None, posterior: np.ndarray) -> Result:
    """The result that the aggregator gives of a whole table."""
    label, tied = decide(posterior)
    if fit is None:
        return MajorityVote(posterior, label, tied)
    stood = (fit.log_likelihood, fit.n_iter, fit.converged)
    if settings.consensus.aggregator == "dawid_skene":
        confusion = np.ascontiguousarray(fit.table.transpose(0, 2, 1))
        return DawidSkene(posterior, label, tied, fit.prior, confusion, *stood)
    return OneCoin(posterior, label, tied, fit.prior, fit.table[:, 0, 0].copy(), *stood)


def _task_report(
    shards: ShardFolder, crowd: Crowd, keep: np.ndarray, posterior: np.ndarray
) -> TaskReport:
    """What the kept labels and the consensus say about each task, put together shard by shard."""
    parts = []
    for number in range(len(shards.paths)):
        shard = load_shard(shards, number).keep_workers(keep)
        tasks = slice(shard.first_task, shard.first_task + shard.n_tasks)
        names = crowd.labels.tasks[tasks]
        books = books_of(crowd.labels.workers, names, crowd.labels.classes)
        parts.append(task_report(join_shards([shard], books), posterior[tasks]))
    joined = ("label", "entropy", "margin", "n_labels", "counts", "conflict", "tied", "overruled")
    whole = {name: np.concatenate([getattr(part, name) for part in parts]) for name in joined}
    keys = (whole["n_labels"], -whole["entropy"].round(DECIMALS), whole["margin"].round(DECIMALS))
    hardest = np.lexsort(keys).astype(np.int32)
    return replace(parts[0], **whole, hardest=hardest, tasks=crowd.labels.tasks)


def _gold_check(
    run: Run, engine: Engine, crowd: Crowd, posterior: np.ndarray
) -> dict[str, Any] | None:
    """Share of gold tasks the consensus got right, beside what the same and majority vote do unfiltered."""
    gold = crowd.gold_code()
    if run.settings.consensus.use_gold or not (gold >= 0).any():
        return None
    found = accuracy(decide(posterior)[0], gold)
    unfiltered = believed(run, engine, UNFILTERED_FIT)
    rest = {}
    for name, belief in {"unfiltered": unfiltered, "majority_vote": MAJORITY}.items():
        every = np.concatenate(engine.map(belief.posterior, belief.parameters))
        rest[name] = accuracy(decide(every)[0], gold).value
    return {"n": found.n, "accuracy": found.value, "low": found.lower, "high": found.upper} | rest
