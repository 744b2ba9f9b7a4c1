"""A campaign's labels in memory: filter, worker report and consensus as the settings ask."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from jaxtyping import Bool, Int

from flows.aggregators import any_consensus_of
from flows.run import Crowd, Run, start_of
from flows.settings import FilterSettings, SettingsError
from flows.stages.label_plan import FewAtHand
from flows.stages.stage import counted
from flows.tables import coded_texts, list_array
from quality import (
    Alpha,
    Auto,
    CrowdLabels,
    DependentGroups,
    EMStart,
    Filtered,
    FilteredDishonest,
    Progress,
    Support,
    TaskReport,
    WorkerReport,
    alpha_interval,
    dependent_groups,
    filter_dishonest,
    filter_workers,
    graded_penalty,
    krippendorff_alpha,
    majority_vote,
    relative_penalty,
    soft_penalty,
    start_from,
    task_report,
    task_support,
    worker_report,
)
from quality.aggregation import Fit
from quality.choice import NamedAuto
from quality.labels import NamedPosterior
from quality.many_classes import majority_of_named, needs_names

if TYPE_CHECKING:
    from flows.aggregators import AnyConsensus

__all__ = [
    "Aggregated", "Groups", "Judged", "Scarce", "WholeLabels", "filter_by", "rate_of", "scarce_rows",
    "stop_rule",
]  # fmt: skip

Groups: TypeAlias = Int[np.ndarray, " workers"] | None  # group code of each worker, -1 for none
# codes of worker and task of some labels, and how many labels of kept workers that task has
Scarce: TypeAlias = tuple[np.ndarray, np.ndarray, np.ndarray]

FALSE_REMOVAL_RATE = 0.1  # where the settings name no stop rule
PAPERS_FRACTION = 0.15  # of the workers; likewise, for a penalty that has no such rate
DENSE = 0.5  # of the tasks, that a worker has labelled on average: beyond it loads are equal


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """The evidence of the labels about the workers.

    Parameters
    ----------
    report
        The numbers about each worker.
    alpha, alpha_kept
        Krippendorff's alpha of all labels, and of those of the workers kept; NaN if undefined.
    n_labels_removed
        Labels of the workers removed.
    kept
        The labels of the workers kept, or None if the whole table is too large.
    left_out
        Names of the report's numbers that were not computed.
    by_shards
        Alpha with its interval where the whole table is too large: of all labels, and of those kept if some
        were removed.
    """

    report: WorkerReport
    alpha: float
    alpha_kept: float
    n_labels_removed: int
    kept: CrowdLabels | None
    left_out: tuple[str, ...] = ()
    by_shards: tuple[Alpha, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Aggregated:
    """One label per task, and what comes with it.

    Parameters
    ----------
    consensus, fitted
        The consensus, and the result of one aggregator behind it: they differ where the aggregator chose
        among several.
    tasks
        What the kept labels and the consensus say about each task.
    support
        What speaks for each task's label.
    kept, heard
        The labels of the workers kept, and those that the consensus is made of: the same, or with the labels
        of workers removed. None if the whole table is too large.
    start, anew
        Where EM started if it went on from an earlier run; and the consensus begun anew beside it.
    next_start
        Where a later run may start EM, or None.
    class_counts
        Consensus classes of each labelled group, where a release is not to read each task's label.
    ungrouped
        The consensus labels if members of groups had one vote each; None if there are no groups.
    alone
        The consensus labels without the features of tasks; None if these have not joined.
    """

    consensus: AnyConsensus
    fitted: AnyConsensus
    tasks: TaskReport
    support: Support
    kept: CrowdLabels | None
    heard: CrowdLabels | None
    start: EMStart | None
    anew: AnyConsensus | None
    next_start: EMStart | None
    class_counts: Int[np.ndarray, "groups classes"] | None = None
    ungrouped: Int[np.ndarray, " tasks"] | None = None
    alone: Int[np.ndarray, " tasks"] | None = None

    @property
    def of_labels(self) -> Int[np.ndarray, " tasks"]:
        """The consensus of the crowd's labels, whatever has joined it."""
        return self.consensus.label if self.alone is None else self.alone

    def posterior_columns(self, rows: slice) -> dict[str, Any]:
        """Return some tasks' posterior: of all classes, or of those that each was given, and their names."""
        posterior = self.consensus.posterior
        if not isinstance(posterior, NamedPosterior):
            return {"posterior": posterior[rows]}
        named = posterior.named
        start = named.start[rows.start : rows.stop + 1]
        entries, start = slice(start[0], start[-1]), start - start[0]
        return {
            "named": list_array(start, coded_texts(self.tasks.classes, named.code[entries])),
            "posterior": list_array(start, posterior.p[entries]),
        }

    def count_columns(self, order: np.ndarray) -> dict[str, Any]:
        """Return how many kept workers named each class: of all, or of those that the task was given."""
        if self.tasks.counts is not None:
            return {"counts": self.tasks.counts[order]}
        if self.kept is None or not isinstance(self.consensus.posterior, NamedPosterior):
            raise AssertionError("counts are left out of named classes alone, in memory")
        named = self.consensus.posterior.named
        given = named.find(self.kept.task, self.kept.label)
        count = np.bincount(given[given >= 0], minlength=len(named.code)).astype(np.int32)
        size = np.diff(named.start)[order]
        start = np.concatenate([[0], np.cumsum(size)])
        entry = np.repeat(named.start[:-1][order] - start[:-1], size) + np.arange(start[-1])
        return {
            "named": list_array(start, coded_texts(self.tasks.classes, named.code[entry])),
            "counts": list_array(start, count[entry]),
        }


@dataclass(frozen=True, slots=True, eq=False)
class WholeLabels:
    """The labels of a campaign in memory; see :class:`flows.stages.labels.campaign_labels.CampaignLabels`."""

    run: Run
    crowd: Crowd

    def filter_workers(self, chosen: FilterSettings) -> tuple[Filtered | FilteredDishonest, str]:
        """Find the workers to remove as the settings say; return them and the stop rule's name."""
        settings, progress = self.run.settings, self.run.progress
        return filter_by(
            self.crowd.labels, chosen, seed=settings.seed, ordered=settings.input.order,
            progress=progress,
        )  # fmt: skip

    def dependence(self) -> DependentGroups:
        """Find the workers who do not answer on their own."""
        labels, chosen = self.crowd.labels, self.run.settings
        gold = self.crowd.gold_code() if chosen.consensus.use_gold else None
        return dependent_groups(labels, gold=gold, models=self.crowd.model_codes())

    def scarce_labels(
        self, keep: Bool[np.ndarray, " workers"], members: Bool[np.ndarray, " workers"], least: int
    ) -> Scarce:
        """Find the kept members' labels of tasks that without all members would have fewer than `least`."""
        labels = self.crowd.labels
        return scarce_rows(labels.worker, labels.task_start, keep, members, least)

    def judge(
        self,
        filtered: Filtered | FilteredDishonest,
        heard: Bool[np.ndarray, " workers"],
        groups: Groups,
    ) -> Judged:
        """Put together what labels, filter, gold and the consensus of those heard say about each worker."""
        labels, progress = self.crowd.labels, self.run.progress
        believed, kept = labels.keep_workers(heard), labels.keep_workers(filtered.keep)
        start = None if needs_names(believed) else start_of(self.run, believed)
        consensus = self._consensus(believed, groups, start=start, progress=progress)
        self.run.waits_for("the report on each worker")
        report = worker_report(
            labels, filtered, consensus.posterior, gold=self.crowd.gold_code(),
            seconds=self.crowd.seconds, ordered=self.run.settings.input.order, progress=progress,
        )  # fmt: skip
        self.run.waits_for("agreement")
        alpha, removed = self._alpha(labels), labels.n_labels - kept.n_labels
        return Judged(report, alpha, self._alpha(kept) if removed else alpha, removed, kept)

    def aggregate(
        self,
        keep: Bool[np.ndarray, " workers"],
        heard: Bool[np.ndarray, " workers"],
        groups: Groups,
    ) -> Aggregated:
        """Find one label per task from the labels of the workers heard, one vote for each group."""
        labels = kept = self.crowd.labels.keep_workers(heard)
        if (heard != keep).any():
            kept = labels.keep_workers(keep)
        start = None if needs_names(labels) else start_of(self.run, labels)
        consensus = self._consensus(labels, groups, start=start, progress=self.run.progress)
        self.run.waits_for("what speaks for each label")
        fitted: AnyConsensus = consensus
        if isinstance(consensus, Auto | NamedAuto):
            fitted = consensus.result
        next_start = None
        if self.run.settings.consensus.go_on and isinstance(fitted, Fit):
            next_start = start_from(labels, fitted)
        return Aggregated(
            consensus,
            fitted,
            task_report(kept, consensus.posterior),
            task_support(kept, consensus.posterior, groups=groups),
            kept,
            labels,
            start,
            None if start is None else self._consensus(labels, groups),
            next_start,
            ungrouped=None if groups is None else self._consensus(labels, None).label,
        )

    def consensus_of(
        self, workers: Bool[np.ndarray, " workers"], groups: Groups
    ) -> Int[np.ndarray, " tasks"]:
        """Return consensus labels from these workers alone, by the settings' aggregator."""
        return self._consensus(self.crowd.labels.keep_workers(workers), groups).label

    def vote_of_all(self) -> Int[np.ndarray, " tasks"]:
        """Return the majority vote of all workers."""
        labels = self.crowd.labels
        if needs_names(labels):
            return majority_of_named(labels).label
        return majority_vote(labels).label

    def whole(self) -> CrowdLabels:
        """Return the whole table of labels."""
        return self.crowd.labels

    def few_at_hand(self, keep: Bool[np.ndarray, " workers"]) -> FewAtHand:
        """Return the kept workers' labels of some tasks: all of them are in memory."""
        return FewAtHand.of(self.crowd.labels.keep_workers(keep))

    def _alpha(self, labels: CrowdLabels) -> float:
        """Return Krippendorff's alpha, ordinal if classes are ordered; NaN if undefined."""
        if self.run.settings.input.order:
            return alpha_interval(labels, "ordinal").value
        return krippendorff_alpha(labels)

    def _consensus(
        self,
        labels: CrowdLabels,
        groups: Groups,
        *,
        start: EMStart | None = None,
        progress: Progress | None = None,
    ) -> AnyConsensus:
        """Return the consensus that the settings ask for; an earlier stage's if it is of the same inputs."""
        settings, gold = self.run.settings, self.crowd.gold_code()
        asked = f"{settings.believed!r} {settings.seed}"
        key = None if start is not None else _inputs_digest(labels, asked, gold, groups)
        if key is None or key not in _RECENT:
            found = any_consensus_of(
                labels, settings.believed, seed=settings.seed, gold=gold, groups=groups, start=start,
                progress=progress,
            )  # fmt: skip
            if key is None:
                return found
            if len(_RECENT) == MAX_RECENT:
                del _RECENT[next(iter(_RECENT))]
            _RECENT[key] = found
        return _RECENT[key]


MAX_RECENT = 2  # consensuses kept: that of the workers kept, and that of all
# by the digest of all that they depend on, the oldest first
_RECENT: dict[bytes, AnyConsensus] = {}


def _inputs_digest(
    labels: CrowdLabels, asked: str, gold: Int[np.ndarray, " tasks"], groups: Groups
) -> bytes:
    """Return a digest of a consensus's inputs: codes, numbers of names, gold, groups and settings."""
    sizes = f"{asked} {labels!r} {groups is None}"
    digest = hashlib.sha256(sizes.encode())
    for part in (labels.worker, labels.task, labels.label, gold, groups):
        if part is not None:
            digest.update(np.ascontiguousarray(part).data)
    return digest.digest()


def filter_by(
    labels: CrowdLabels,
    chosen: FilterSettings,
    *,
    seed: int,
    ordered: bool = False,
    progress: Progress | None = None,
) -> tuple[Filtered | FilteredDishonest, str]:
    """Find the workers to remove as the settings say; return them and the stop rule's name.

    Of `ordered` classes soft penalties weigh by distance.
    """
    least, share, n_workers = chosen.min_labels_per_task, chosen.fraction, chosen.n_workers
    if (rate := rate_of(chosen)) is not None:
        found = filter_dishonest(
            labels, false_removal_rate=rate, min_labels_per_task=least,
            ordered=ordered, rng=np.random.default_rng(seed), progress=progress,
        )  # fmt: skip
        return found, stop_rule(None, None, rate)
    if share is None and n_workers is None:
        share = PAPERS_FRACTION
    penalty: Callable[[CrowdLabels], np.ndarray] = graded_penalty if ordered else soft_penalty
    if chosen.penalty == "hard":  # of all workers, once: anew it would cost a fit a removal
        _refuse_dense(labels)
        relative = relative_penalty(labels, rng=np.random.default_rng(seed))
        penalty = wraps(relative_penalty)(lambda _: relative)
    filtered = filter_workers(
        labels, penalty=penalty, n_workers=n_workers, fraction=share,
        min_labels_per_task=least, progress=progress,
    )  # fmt: skip
    return filtered, stop_rule(n_workers, share)


def scarce_rows(
    worker: Int[np.ndarray, " labels"],
    task_start: Int[np.ndarray, " offsets"],
    keep: Bool[np.ndarray, " workers"],
    members: Bool[np.ndarray, " workers"],
    least: int,
) -> Scarce:
    """Return the kept members' labels of tasks that without all members would have fewer than `least`."""
    n_tasks = len(task_start) - 1
    task = np.repeat(np.arange(n_tasks), np.diff(task_start))
    kept = keep[worker]
    own = kept & members[worker]
    n_left = np.bincount(task[kept], minlength=n_tasks)
    others = n_left - np.bincount(task[own], minlength=n_tasks)
    rows = np.flatnonzero(own & (others < least)[task])
    return worker[rows], task[rows], n_left[task[rows]]


def rate_of(chosen: FilterSettings) -> float | None:
    """Return the false removal rate at which the filter stops; None if by a number or share of workers."""
    if chosen.penalty != "soft" or (chosen.fraction, chosen.n_workers) != (None, None):
        return None
    given = chosen.false_removal_rate
    return FALSE_REMOVAL_RATE if given is None else given


def _refuse_dense(labels: CrowdLabels) -> None:
    """Raise SettingsError for a table in which hard penalties carry no information."""
    share = labels.n_labels / (labels.n_workers * labels.n_tasks)
    if share > DENSE:
        raise SettingsError(
            f'filter.penalty = "hard" needs workers who label at most {DENSE:.0%} of the tasks on '
            f"average, got {share:.0%}: loads then come out equal whoever errs; use "
            'filter.penalty = "soft"'
        )


def stop_rule(n_workers: int | None, fraction: float | None, rate: float | None = None) -> str:
    """Name the rule that says how many workers a filter removes."""
    if rate is not None:
        return f"false removal rate {rate:g}"
    if fraction is not None:
        return f"{fraction:.0%} of the workers"
    return counted(n_workers or 0, "worker")
