"""The labels of a campaign, whole in memory or cut into shards, and the questions that stages ask of them.

`open_labels` opens either: a stage asks both the same questions and does not see which it has.
Results are the same up to the rounding of sums in another order, but for the pool `auto`, which lacks one
candidate on shards. Results that need the whole table of labels are left out where the shards hold more than
`engine.whole_labels`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Protocol

import numpy as np
from jaxtyping import Bool, Int

from flows.run import Crowd, Run, load_crowd
from flows.settings import FilterSettings
from flows.sharding import SHARDS, open_engine, open_shards, stored
from flows.stages.label_plan import FewAtHand
from flows.stages.labels.set_labels import SetLabels
from flows.stages.labels.sharded_labels import ShardedLabels
from flows.stages.labels.whole_labels import Aggregated, Groups, Judged, Scarce, WholeLabels
from quality import CrowdLabels, DependentGroups, Filtered, FilteredDishonest

__all__ = ["CampaignLabels", "WorkerLabels", "open_answers", "open_labels"]


class WorkerLabels(Protocol):
    """The questions about a campaign's labels that judge the workers."""

    @property
    def crowd(self) -> Crowd:
        """The campaign; the labels' names are always there, their rows only if they are whole."""

    def filter_workers(self, chosen: FilterSettings) -> tuple[Filtered | FilteredDishonest, str]:
        """Find the workers to remove as the settings say; return them and the stop rule's name."""

    def dependence(self) -> DependentGroups:
        """Find the workers who do not answer on their own."""

    def scarce_labels(
        self, keep: Bool[np.ndarray, " workers"], members: Bool[np.ndarray, " workers"], least: int
    ) -> Scarce:
        """Find the kept members' labels of tasks that without all members would have fewer than `least`."""

    def judge(
        self,
        filtered: Filtered | FilteredDishonest,
        heard: Bool[np.ndarray, " workers"],
        groups: Groups,
    ) -> Judged:
        """Put together what labels, filter, gold and the consensus of those heard say about each worker."""

    def whole(self) -> CrowdLabels | None:
        """Return the whole label table; None if it has more labels than the settings allow, or sets alone."""


class CampaignLabels(WorkerLabels, Protocol):
    """The questions of stages about a campaign's labels."""

    def aggregate(
        self,
        keep: Bool[np.ndarray, " workers"],
        heard: Bool[np.ndarray, " workers"],
        groups: Groups,
    ) -> Aggregated:
        """Find one label per task from the labels of the workers heard, one vote for each group.

        Votes beside it, and what the labels say of each task, are those of the workers kept.
        """

    def consensus_of(
        self, workers: Bool[np.ndarray, " workers"], groups: Groups
    ) -> Int[np.ndarray, " tasks"]:
        """Return consensus labels from these workers alone, by the settings' aggregator."""

    def vote_of_all(self) -> Int[np.ndarray, " tasks"]:
        """Return the majority vote of all workers."""

    def few_at_hand(self, keep: Bool[np.ndarray, " workers"]) -> FewAtHand:
        """Return the kept workers' labels of some tasks, for a plan that chooses among these."""


@contextmanager
def open_labels(run: Run) -> Iterator[CampaignLabels]:
    """Open the labels that the first stage has read: in memory, or in shards if there is an `[engine]`."""
    crowd, chosen = load_crowd(run.folder), run.settings.engine
    if chosen is None:
        yield WholeLabels(run, crowd)
        return
    shards = open_shards(run.folder / SHARDS)
    with stored(shards.read_by_workers, chosen) as store:
        shards = replace(shards, store=store)
        with open_engine(shards, chosen) as engine:
            yield ShardedLabels(run, crowd, shards, engine, chosen)


@contextmanager
def open_answers(run: Run) -> Iterator[WorkerLabels]:
    """Open what the first stage has read to judge workers by: labels, or sets of classes."""
    if run.settings.input.several is not None:
        yield SetLabels(run, load_crowd(run.folder))
        return
    with open_labels(run) as labels:
        yield labels
