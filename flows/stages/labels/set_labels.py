"""A campaign's answers where each is a set of classes: filter, worker report, agreement and consensus.

Functions of labels work on sets by one recoding: each class of each task that a worker gave is a question,
whose answers are yes and no. Penalties, reputation, groups and agreement class by class are of these
questions; the filter by a rate, the consensus and agreement of whole sets know the sets.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Int64

from flows.run import Crowd, Run
from flows.settings import FilterSettings
from flows.stages.labels.whole_labels import (
    FALSE_REMOVAL_RATE,
    Groups,
    Judged,
    Scarce,
    filter_by,
    scarce_rows,
)
from quality import (
    Alpha,
    CrowdLabels,
    DependentGroups,
    Filtered,
    FilteredDishonest,
    MultiLabelConsensus,
    MultiLabels,
    alpha_interval,
    dependent_groups,
    multilabel_consensus,
    set_alpha,
    worker_report,
    yes_no_labels,
)
from quality.agreement import SetMetric
from quality.multilabel import filter_guessers

__all__ = ["SetLabels", "answers_of", "questions_of", "set_agreement", "set_consensus"]

METRICS: tuple[tuple[str, SetMetric], ...] = (("MASI", "masi"), ("Jaccard", "jaccard"))


def answers_of(crowd: Crowd) -> MultiLabels:
    """Return the campaign's sets; ValueError where every answer is one label."""
    if crowd.answers is None:
        raise ValueError("the campaign's answers are one label each")
    return crowd.answers


def questions_of(answers: MultiLabels) -> tuple[Int64[np.ndarray, " cells"], ...]:
    """Return the task and the class of each question of `yes_no_labels`, in its order."""
    task = np.repeat(answers.task, np.diff(answers.label_start)).astype(np.int64)
    cells = np.unique(task * answers.n_classes + answers.label)
    return np.divmod(cells, answers.n_classes)


def set_consensus(
    run: Run, crowd: Crowd, answers: MultiLabels, groups: Groups
) -> MultiLabelConsensus:
    """Return the consensus of these answers of a campaign; gold joins where the settings say so."""
    gold = crowd.gold_sets if run.settings.consensus.use_gold else None
    return multilabel_consensus(answers, gold=gold, groups=groups, progress=run.progress)


@dataclass(frozen=True, slots=True, eq=False)
class SetLabels:
    """Answers that are sets; see :class:`flows.stages.labels.campaign_labels.WorkerLabels`."""

    run: Run
    crowd: Crowd

    def filter_workers(self, chosen: FilterSettings) -> tuple[Filtered | FilteredDishonest, str]:
        """Find the workers to remove as the settings say; return them and the stop rule's name."""
        answers = answers_of(self.crowd)
        if chosen.fraction is not None or chosen.n_workers is not None:
            return filter_by(yes_no_labels(answers), chosen, seed=self.run.settings.seed)
        given = chosen.false_removal_rate
        rate = FALSE_REMOVAL_RATE if given is None else given
        found = filter_guessers(
            answers, false_removal_rate=rate, min_answers_per_task=chosen.min_labels_per_task
        )
        return found, f"false removal rate {rate:g}"

    def dependence(self) -> DependentGroups:
        """Find the workers who do not answer on their own."""
        answers, use_gold = answers_of(self.crowd), self.run.settings.consensus.use_gold
        gold = self._gold() if use_gold else None
        return dependent_groups(yes_no_labels(answers), gold=gold)

    def scarce_labels(
        self, keep: Bool[np.ndarray, " workers"], members: Bool[np.ndarray, " workers"], least: int
    ) -> Scarce:
        """Find the kept members' answers to tasks that without all members would have fewer than `least`."""
        answers = answers_of(self.crowd)
        return scarce_rows(answers.worker, answers.task_start, keep, members, least)

    def judge(
        self,
        filtered: Filtered | FilteredDishonest,
        heard: Bool[np.ndarray, " workers"],
        groups: Groups,
    ) -> Judged:
        """Put together what answers, filter, gold and the consensus of those heard say about each worker."""
        answers, run = answers_of(self.crowd), self.run
        kept = answers.keep_workers(filtered.keep)
        consensus = set_consensus(run, self.crowd, answers.keep_workers(heard), groups)
        holds = consensus.table()[questions_of(answers)]
        report = worker_report(
            yes_no_labels(answers), filtered, np.stack([1 - holds, holds], axis=1), gold=self._gold(),
            progress=run.progress,
        )  # fmt: skip
        alpha, alpha_kept = set_alpha(answers).value, set_alpha(kept).value
        return Judged(report, alpha, alpha_kept, answers.n_answers - kept.n_answers, None)

    def whole(self) -> CrowdLabels | None:
        """Return None: the answers are sets, of which there is no label table."""

    def _gold(self) -> np.ndarray:
        """Return 1 for a question whose class is known to hold, 0 for one where it does not, else -1."""
        task, label = questions_of(answers_of(self.crowd))
        gold = self.crowd.gold_sets
        return np.full(len(task), -1) if gold is None else gold[task, label].astype(np.int64)


def set_agreement(answers: MultiLabels, keep: Bool[np.ndarray, " workers"]) -> list[dict[str, Any]]:
    """Return coefficients of agreement with their intervals: of whole sets, and of each class alone."""
    found: list[tuple[str, str, Alpha]] = [
        (f"Krippendorff’s alpha, {name} distance", "all answers", set_alpha(answers, metric))
        for name, metric in METRICS
    ]
    if not keep.all():
        kept = set_alpha(answers.keep_workers(keep))
        found.append(("Krippendorff’s alpha, MASI distance", "without the removed workers", kept))
    found += [
        ("Krippendorff’s alpha", f"{name}, given or not", alpha_interval(class_answers(answers, code)))
        for code, name in enumerate(answers.classes.astype(str).tolist())
    ]  # fmt: skip
    return [
        {
            "measure": measure,
            "of": of,
            **{
                key: value if np.isfinite(value) else None
                for key, value in (("value", one.value), ("low", one.lower), ("high", one.upper))
            },
            "n_tasks": one.n_tasks,
        }
        for measure, of, one in found
    ]


def class_answers(answers: MultiLabels, code: int) -> CrowdLabels:
    """Return whether each worker gave one class, on all tasks."""
    row = np.repeat(np.arange(answers.n_answers), np.diff(answers.label_start))
    gave = np.zeros(answers.n_answers, dtype=np.int16)
    gave[row[answers.label == code]] = 1
    return CrowdLabels.from_codes(
        answers.worker, answers.task, gave, workers=answers.workers, tasks=answers.tasks,
        classes=np.array(["no", "yes"]),
    )  # fmt: skip
