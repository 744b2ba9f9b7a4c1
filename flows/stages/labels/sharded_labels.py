"""A campaign's labels in shards: the same questions, asked of an engine that maps a shard and adds up.

A fit of EM is written down every `engine.checkpoint_every` iterations, so that a run which dies in it goes
on from there. Hard and balanced penalties come from the conflict graph that the shards build, up to
`engine.whole_conflicts` labels on conflict tasks.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from flows.run import Crowd, Run, start_of
from flows.settings import EngineSettings, FilterSettings, SettingsError
from flows.sharding import ShardFolder, group_of_shard, load_fit, load_shard, names_alone, save_fit
from flows.stages.label_plan import FewAtHand
from flows.stages.labels.whole_labels import (
    Aggregated,
    Groups,
    Judged,
    Scarce,
    filter_by,
    rate_of,
    scarce_rows,
    stop_rule,
)
from quality import (
    Alpha,
    Consensus,
    CrowdLabels,
    DawidSkene,
    DependentGroups,
    EMStart,
    Engine,
    Filtered,
    FilteredDishonest,
    LabelShard,
    MajorityVote,
    OneCoin,
    TaskReport,
    WeightedMajority,
    WorkerReport,
    alpha_by_shards,
    balanced_loads,
    conflict_graph_by_shards,
    dependent_groups_by_shards,
    filter_dishonest_by_shards,
    filter_workers_by_shards,
    load_levels,
    start_from,
    support_by_shards,
    task_report,
)
from quality.aggregation import (
    EMFit,
    Fit,
    Posterior,
    class_sums,
    dawid_skene_by_shards,
    decide,
    hierarchical_by_shards,
    hierarchical_result,
    mace_result,
    majority_of_shard,
    one_coin_by_shards,
    posterior_of_groups,
    posterior_of_shard,
)
from quality.choice import AutoByShards, ShardFit, auto_by_shards, auto_result, fit_by_shards
from quality.labels import Sums, join_shards, of_voters
from quality.reports import DECIMALS, CrowdSums, crowd_sums, report_of

__all__ = ["ShardedLabels", "refuse_whole_filter"]

JUDGING_FITS, OTHER_FITS = "judging_fits", "other_fits"  # folders: a file for each fit
FITS: dict[str, Callable[..., EMFit]] = {
    "dawid_skene": dawid_skene_by_shards,
    "hierarchical_dawid_skene": hierarchical_by_shards,
    "one_coin_dawid_skene": one_coin_by_shards,
}
SHARED = {"hard_least": np.int32, "hard_penalty": np.int32, "balanced_penalty": np.float64}
BY_TASK = ("label", "entropy", "margin", "n_labels", "counts", "conflict", "tied", "overruled")


class Rule(NamedTuple):
    """How a shard's posterior is found, and from which parameters.

    `fit` is None for a vote; `auto` is the pool, where the posterior is a pool's.
    """

    posterior: Posterior
    parameters: Any
    fit: EMFit | None
    auto: AutoByShards | None = None

    def over(self, engine: Engine) -> Float[np.ndarray, "tasks classes"]:
        """Return the posterior of every task."""
        return np.concatenate(engine.map(self.posterior, self.parameters))


MAJORITY = Rule(majority_of_shard, None, None)


def refuse_whole_filter(chosen: FilterSettings, engine: EngineSettings, n_labels: int) -> None:
    """Raise SettingsError for a filter that needs the whole table of labels, if these are too many."""
    if chosen.penalty == "hard" and n_labels > engine.whole_labels:
        raise SettingsError(
            'filter.penalty = "hard" needs all labels in memory, up to engine.whole_labels = '
            f"{engine.whole_labels:,}, and there are {n_labels:,}; use the soft one, or raise whole_labels"
        )


@dataclass(frozen=True, slots=True, eq=False)
class ShardedLabels:
    """The labels of a campaign in shards; see :class:`flows.stages.labels.campaign_labels.CampaignLabels`."""

    run: Run
    crowd: Crowd
    shards: ShardFolder
    engine: Engine
    chosen: EngineSettings
    _joined: list[CrowdLabels] = field(default_factory=list, init=False, repr=False)

    def filter_workers(self, chosen: FilterSettings) -> tuple[Filtered | FilteredDishonest, str]:
        """Find the workers to remove as the settings say; return them and the stop rule's name.

        By the soft penalty shard by shard; a false removal rate has the whole table as far as settings allow.
        """
        settings, rate = self.run.settings, rate_of(chosen)
        asked: dict[str, Any] = {
            "min_labels_per_task": chosen.min_labels_per_task,
            "progress": self.run.progress,
        }
        tasks, whole = self.crowd.labels.tasks, None
        if rate is not None or chosen.penalty == "hard":
            whole = self.whole()
        if whole is not None:
            return filter_by(
                whole, chosen, seed=settings.seed, ordered=settings.input.order, progress=self.run.progress
            )  # fmt: skip
        refuse_whole_filter(chosen, self.chosen, self.shards.n_labels)
        found: Filtered | FilteredDishonest
        if rate is not None:
            rng = np.random.default_rng(settings.seed)
            found = filter_dishonest_by_shards(
                self.engine, tasks, false_removal_rate=rate, rng=rng, **asked
            )
        else:
            found = filter_workers_by_shards(
                self.engine, tasks, n_workers=chosen.n_workers, fraction=chosen.fraction, **asked
            )
        return found, stop_rule(chosen.n_workers, chosen.fraction, rate)

    def dependence(self) -> DependentGroups:
        """Find the workers who do not answer on their own."""
        models, use_gold = self.crowd.model_codes(), self.run.settings.consensus.use_gold
        return dependent_groups_by_shards(self.engine, models=models, use_gold=use_gold)

    def scarce_labels(
        self, keep: Bool[np.ndarray, " workers"], members: Bool[np.ndarray, " workers"], least: int
    ) -> Scarce:
        """Find the kept members' labels of tasks that without all members would have fewer than `least`."""
        worker, task, n_left = zip(
            *self.engine.map(_scarce_of_shard, (keep, members, least)), strict=True
        )
        return np.concatenate(worker), np.concatenate(task), np.concatenate(n_left)

    def judge(
        self,
        filtered: Filtered | FilteredDishonest,
        heard: Bool[np.ndarray, " workers"],
        groups: Groups,
    ) -> Judged:
        """Put together what labels, filter, gold and the consensus of those heard say about each worker."""
        keep, start = filtered.keep, start_of(self.run, self.crowd.labels)
        folder = f"{JUDGING_FITS}/{_digest(heard)}"
        rule = self._rule(self.engine.keep_workers(heard), groups, folder, start)
        self.run.waits_for("what each worker did, over shards")
        sums = crowd_sums(self.engine, keep, heard, rule.posterior, rule.parameters)
        shared = self._shared_loads(sums)
        report, removed = self._report(filtered, sums, shared), int(sums.n_labels[~keep].sum())
        left_out, kept = () if shared else tuple(SHARED), self._kept(keep)
        intervals = () if kept is not None else self._alphas(keep, removed)
        return Judged(report, sums.alpha, sums.alpha_kept, removed, kept, left_out, intervals)

    def aggregate(
        self,
        keep: Bool[np.ndarray, " workers"],
        heard: Bool[np.ndarray, " workers"],
        groups: Groups,
    ) -> Aggregated:
        """Find one label per task from the labels of the workers heard, one vote for each group."""
        engine, labels = self.engine.keep_workers(heard), self.crowd.labels
        start = start_of(self.run, labels)
        rule = self._rule(engine, groups, self._fits_of(heard), start)
        self.run.waits_for("the consensus, over shards")
        posterior = rule.over(engine)
        result, fitted = self._result(rule, engine, posterior, groups)
        self.run.waits_for("the table of tasks")
        tasks = self._tasks(keep, posterior)
        self.run.waits_for("what speaks for each label, over shards")
        names, _ = self.crowd.labelled_groups()
        task_groups = partial(group_of_shard, self.shards)
        whole = kept = self._kept(heard)
        if whole is not None and (heard != keep).any():
            kept = whole.keep_workers(keep)
        next_start, go_on = None, self.run.settings.consensus.go_on
        if go_on and rule.fit is not None and isinstance(fitted, Fit):
            labelled = of_voters(rule.fit.counts.sum(axis=(1, 2)) > 0, groups) & heard
            next_start = start_from(labels, fitted, labelled=labelled)
        return Aggregated(
            result,
            fitted,
            tasks,
            support_by_shards(engine, rule.posterior, rule.parameters, keep=keep, groups=groups),
            kept,
            whole,
            start,
            None,  # to begin anew on shards would cost what going on saves
            next_start,
            class_sums(engine, task_groups, names.size, rule.posterior, rule.parameters),
            self._ungrouped(engine, groups),
        )

    def consensus_of(
        self, workers: Bool[np.ndarray, " workers"], groups: Groups
    ) -> Int[np.ndarray, " tasks"]:
        """Return consensus labels from these workers alone, by the settings' aggregator."""
        engine = self.engine.keep_workers(workers)
        return decide(self._rule(engine, groups, self._fits_of(workers)).over(engine))[0]

    def vote_of_all(self) -> Int[np.ndarray, " tasks"]:
        """Return the majority vote of all workers."""
        return decide(MAJORITY.over(self.engine))[0]

    def whole(self) -> CrowdLabels | None:
        """Return the whole table of labels, or None if there are more than the settings allow."""
        if self.shards.n_labels > self.chosen.whole_labels:
            return None
        if not self._joined:
            self._joined.append(join_shards(self.engine.map(_itself, None), self.crowd.labels))
        return self._joined[0]

    def few_at_hand(self, keep: Bool[np.ndarray, " workers"]) -> FewAtHand:
        """Return the kept workers' labels of some tasks: each shard gives those that it has."""
        kept, names = self.engine.keep_workers(keep), self.crowd.labels
        (n_labels,) = kept.add_up(_labels_of_workers, None)

        def of_tasks(tasks: Int[np.ndarray, " chosen"]) -> tuple[np.ndarray, ...]:
            parts = kept.map(_rows_of_tasks, tasks)
            return tuple(np.concatenate(codes) for codes in zip(*parts, strict=True))

        return FewAtHand(names, n_labels, of_tasks)

    def _alphas(self, keep: Bool[np.ndarray, " workers"], removed: int) -> tuple[Alpha, ...]:
        """Return alpha with its interval, of all labels and, if some were removed, of the others."""
        self.run.waits_for("agreement and its intervals, over shards")
        metric: Literal["nominal", "ordinal"]
        metric = "ordinal" if self.run.settings.input.order else "nominal"
        engines = [self.engine, self.engine.keep_workers(keep)][: 2 if removed else 1]
        return tuple(alpha_by_shards(engine, metric) for engine in engines)

    def _kept(self, keep: Bool[np.ndarray, " workers"]) -> CrowdLabels | None:
        whole = self.whole()
        return None if whole is None else whole.keep_workers(keep)

    def _ungrouped(self, engine: Engine, groups: Groups) -> Int[np.ndarray, " tasks"] | None:
        """Return the consensus labels if the members of groups had one vote each."""
        if groups is None:
            return None
        return decide(self._rule(engine, None, None).over(engine))[0]

    def _fits_of(self, workers: Bool[np.ndarray, " workers"]) -> str:
        """Return the folder of the fits to these workers' labels: those that judged them, if they did."""
        judged = f"{JUDGING_FITS}/{_digest(workers)}"
        return judged if (self.run.folder / judged).is_dir() else f"{OTHER_FITS}/{_digest(workers)}"

    def _rule(
        self, engine: Engine, groups: Groups, name: str | None, start: EMStart | None = None
    ) -> Rule:
        """Return the consensus of an engine's labels, each group voting once."""
        if groups is None:
            return self._plain_rule(engine, name, start)
        plain = self._plain_rule(engine.merge_workers(groups), name, start)
        weighed = plain.posterior, plain.parameters, groups
        return plain._replace(posterior=posterior_of_groups, parameters=weighed)

    def _plain_rule(self, engine: Engine, name: str | None, start: EMStart | None) -> Rule:
        """Return the consensus of an engine's labels; a fit goes on from its checkpoint.

        A fit that has no file yet starts from `start`, which is in the order of the table's codes. Files are
        in the folder `name`; with None no file is written.
        """
        chosen = self.run.settings.consensus
        aggregator = chosen.named(sharded=True)
        if aggregator == "majority_vote":
            return MAJORITY
        if aggregator == "auto":
            return self._pool_rule(engine, name)
        knobs = {knob: getattr(chosen, knob) for knob in ("max_iter", "tol", "smoothing")}
        given = {knob: value for knob, value in knobs.items() if value is not None}

        def of(**memory: Any) -> ShardFit:
            known = {"use_gold": chosen.use_gold, "start": start}
            fit = FITS[aggregator](engine, **known, **given, **memory)
            return ShardFit(posterior_of_shard, (fit.prior, fit.table, chosen.use_gold), fit)

        return Rule(*self._fitted(of, name, aggregator))

    def _pool_rule(self, engine: Engine, name: str | None) -> Rule:
        """Return the pool of candidates; each fit has a file of its own, by candidate and fold held out."""

        def fitted(
            part: Engine, candidate: str, fold: int, *, at_first: bool, begun: EMFit | None
        ) -> ShardFit:
            what = candidate if fold < 0 else f"{candidate}-without-{fold}{'-at-first' * at_first}"
            fitting = partial(fit_by_shards, part, candidate, at_first=at_first)
            return self._fitted(fitting, name, what, begun)

        auto = auto_by_shards(engine, fit=fitted)
        return Rule(*auto.pool, auto)

    def _fitted(
        self,
        fitting: Callable[..., ShardFit],
        name: str | None,
        what: str,
        begun: EMFit | None = None,
    ) -> ShardFit:
        """Fit from the checkpoint in the file, and write a checkpoint every few iterations.

        Without a file it goes on from what another fit has `begun`.
        """
        progress, most = self.run.progress, self.run.settings.consensus.max_iter or 100
        path = None if name is None else self.run.folder / name / f"{what}.npz"
        begun = (None if path is None else load_fit(path)) or begun
        work = f"EM over shards: {what.replace('_', ' ')}"
        self.run.waits_for(work)
        due = self.chosen.checkpoint_every + (0 if begun is None else begun.n_iter)

        def after(fit: EMFit) -> None:
            nonlocal due
            if progress is not None:
                progress(work, fit.n_iter, most)
            if path is not None and fit.n_iter >= due:
                save_fit(path, fit)
                due = fit.n_iter + self.chosen.checkpoint_every

        found = fitting(begun=begun, after=after)
        if path is not None and found.fit is not None and found.fit is not begun:
            save_fit(path, found.fit)
        return found

    def _result(
        self,
        rule: Rule,
        engine: Engine,
        posterior: Float[np.ndarray, "tasks classes"],
        groups: Groups,
    ) -> tuple[Consensus, Consensus]:
        """Return the result that the aggregator gives of a whole table, and the one result behind it."""
        name = self.run.settings.consensus.named(sharded=True)
        if rule.auto is None:
            result = _result_of(name, rule.fit, posterior, groups)
            return result, result
        merged = engine if groups is None else engine.merge_workers(groups)
        best = rule.auto.fits[rule.auto.chosen]
        own = np.concatenate(merged.map(best.posterior, best.belief))
        fitted = _result_of(rule.auto.chosen, best.fit, own, groups)
        return auto_result(rule.auto, merged, posterior, fitted, groups), fitted

    def _shared_loads(self, sums: CrowdSums) -> dict[str, np.ndarray]:
        """Return each worker's load in the optimal semi-matching; empty if there are too many label nodes."""
        if sums.n_conflict.sum() > self.chosen.whole_conflicts:
            return {}
        self.run.waits_for("hard penalties")
        graph = conflict_graph_by_shards(self.engine)
        levels = load_levels(graph)
        balanced = balanced_loads(graph, progress=self.run.progress).load
        return dict(zip(SHARED, (levels.least, levels.level, balanced), strict=True))

    def _report(
        self, filtered: Filtered | FilteredDishonest, sums: CrowdSums, shared: dict[str, np.ndarray]
    ) -> WorkerReport:
        """Return the numbers about each worker; loads that were not computed are 0."""
        n_workers = self.crowd.labels.n_workers
        numbers = {
            "n_labels": sums.n_labels,
            "n_conflict": sums.n_conflict,
            "agreement": sums.agreement,
            "soft_penalty": sums.soft_penalty,
            **(shared or {name: np.zeros(n_workers, kind) for name, kind in SHARED.items()}),
            "gold_n": sums.gold_n,
            "gold_correct": sums.gold_correct,
            "median_seconds": np.full(n_workers, np.nan),
            "hasty": np.zeros(n_workers, dtype=np.bool_),
        }
        return report_of(filtered, numbers, sums.only_class, self.crowd.labels.classes)

    def _tasks(
        self, keep: Bool[np.ndarray, " workers"], posterior: Float[np.ndarray, "tasks classes"]
    ) -> TaskReport:
        """Return the report on each task from the kept labels and the consensus, built shard by shard."""
        labels, whole = self.crowd.labels, dict[str, np.ndarray]()
        for number in range(len(self.shards.paths)):
            shard = load_shard(self.shards, number).keep_workers(keep)
            tasks = slice(shard.first_task, shard.first_task + shard.n_tasks)
            unnamed = names_alone(labels.workers, np.arange(shard.n_tasks), labels.classes)
            part = task_report(join_shards([shard], unnamed), posterior[tasks])
            for name in BY_TASK:
                found = getattr(part, name)
                if number == 0:
                    whole[name] = np.empty((labels.n_tasks, *found.shape[1:]), dtype=found.dtype)
                whole[name][tasks] = found
        entropy, margin = (whole[name].round(DECIMALS) for name in ("entropy", "margin"))
        hardest = np.lexsort((whole["n_labels"], -entropy, margin)).astype(np.int32)
        return replace(part, **whole, hardest=hardest, tasks=labels.tasks)


def _digest(workers: Bool[np.ndarray, " workers"]) -> str:
    """Return a name for these workers, which names the folder of the fits to their labels."""
    return hashlib.sha256(np.packbits(workers).data).hexdigest()[:16]


def _result_of(
    aggregator: str,
    fit: EMFit | None,
    posterior: Float[np.ndarray, "tasks classes"],
    groups: Groups,
) -> Consensus:
    """Return the result of one aggregator."""
    label, tied = decide(posterior)
    if fit is None:
        kind = MajorityVote if aggregator == "majority_vote" else WeightedMajority
        return kind(posterior, label, tied)
    if aggregator == "hierarchical_dawid_skene":
        return hierarchical_result(fit, posterior, groups)
    if aggregator == "mace":
        return mace_result(fit, posterior, groups)
    table = of_voters(fit.table, groups)
    evidence = (fit.log_likelihood, fit.n_iter, fit.converged)
    if aggregator == "dawid_skene":
        confusion = np.ascontiguousarray(table.transpose(0, 2, 1))
        return DawidSkene(posterior, label, tied, fit.prior, confusion, *evidence)
    return OneCoin(posterior, label, tied, fit.prior, table[:, 0, 0].copy(), *evidence)


def _labels_of_workers(shard: LabelShard, _: object) -> Sums:
    return (np.bincount(shard.worker, minlength=shard.n_workers),)


def _rows_of_tasks(shard: LabelShard, tasks: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return workers, tasks and classes of the labels of these tasks."""
    here = np.isin(np.arange(shard.first_task, shard.first_task + shard.n_tasks), tasks)
    n_labels = np.diff(shard.task_start)
    rows = np.repeat(here, n_labels)
    task = shard.first_task + np.flatnonzero(here)
    return shard.worker[rows], np.repeat(task, n_labels[here]), shard.label[rows]


def _scarce_of_shard(shard: LabelShard, about: tuple[np.ndarray, np.ndarray, int]) -> Scarce:
    """Return labels of members on tasks that need them, with the tasks' codes in the whole table."""
    worker, task, n_left = scarce_rows(shard.worker, shard.task_start, *about)
    return worker, shard.first_task + task, n_left


def _itself(shard: LabelShard, _: object) -> LabelShard:
    return shard
