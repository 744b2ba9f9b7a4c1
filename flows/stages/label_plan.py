"""Whom to ask for which label next: `quality.plan_labels` at a bounded cost for a crowd of any size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from jaxtyping import Float, Float64, Int, Int64

from flows.settings import ReportSettings
from flows.tables import arrow_table
from quality import CrowdLabels, OrdinalCrowd, one_coin_confusion, plan_labels
from quality.labels import NamedPosterior
from quality.reports import posterior_entropy

if TYPE_CHECKING:
    from flows.aggregators import AnyConsensus

__all__ = ["FewAtHand", "considered_tasks", "plan_next"]

MAX_ASKED = 500  # workers that the plan may choose from
MAX_CONSIDERED = 2_000  # tasks likewise; fewer if there are many classes
MAX_WORK = 10**9  # products for judging each of them once
MAX_JUDGEMENT = 4 * 10**6  # products for judging one task after the labels planned before
MAX_PER_TASK = 3  # further labels of one task
MAX_MATRICES = 2**26  # cells of confusion matrices
LIKELIEST = 8  # classes of a task, where there are too many for confusion matrices
MAX_EVALUATIONS = 2 * 10**7  # pairs of task and worker that the search judges to learn from
MIN_KNOWN = 8  # workers for whom it judges all tasks, at least
N_PARTITIONS, LIST_LENGTH = 8, 200
MIN_LABELS = 10  # a worker who gave fewer may look better than she is


@dataclass(frozen=True, slots=True, eq=False)
class FewAtHand:
    """The labels that a plan reads: the names, the number of labels of each worker, and some tasks' labels.

    Parameters
    ----------
    names
        All workers, tasks and classes; its rows are not looked at.
    n_labels
        Labels of each worker.
    of_tasks
        From task codes to the workers, tasks and classes of labels, theirs among them.
    """

    names: CrowdLabels
    n_labels: Int[np.ndarray, " workers"]
    of_tasks: Callable[[Int[np.ndarray, " chosen"]], tuple[np.ndarray, ...]]

    @classmethod
    def of(cls, labels: CrowdLabels) -> FewAtHand:
        """Return a table at hand, which gives all of its rows."""
        n_labels = np.diff(labels.worker_start)
        return cls(labels, n_labels, lambda _: (labels.worker, labels.task, labels.label))


def plan_next(
    known: FewAtHand,
    consensus: AnyConsensus,
    believed: Float[np.ndarray, "tasks classes"] | NamedPosterior,
    uncertain: np.ndarray,
    chosen: ReportSettings,
) -> tuple[pa.Table, dict[str, Any]]:
    """Plan the labels to ask for: a table of worker, task and gain, and what it is expected to be worth.

    `consensus` is of the known labels and has the workers' parameters; `believed` is its posterior with
    calibrated confidence, and `uncertain` lists the task codes, the least certain first. The plan chooses
    from the first of those tasks and from the workers who are right most often; with `plan_search` also from
    tasks that are worth much to one of these. Where the confusion matrices of those workers would be too
    many, a task has its likeliest classes and one for all others, and workers err evenly.
    """
    names = known.names
    asked = _asked(known.n_labels, consensus, chosen)
    many = asked.size * names.n_classes**2 > MAX_MATRICES
    n_classes = LIKELIEST + 1 if many else names.n_classes
    n_products = max(1, asked.size) * n_classes**2
    confusion = None if many else _confusion(consensus, asked, n_classes)
    most = max(chosen.plan_labels, min(MAX_CONSIDERED, MAX_WORK // n_products))
    considered = np.sort(uncertain[:most])
    if chosen.plan_search and confusion is not None and isinstance(believed, np.ndarray):
        considered = considered_tasks(believed, uncertain, confusion, most)
    part, rows = _part(known, considered, asked), believed[considered]
    right = _right(consensus) if many else None
    told_apart = right is not None or confusion is not None
    if many:
        alike = rows[part.task, part.label].mean() if part.n_labels else 1.0
        each = np.full(asked.size, alike) if right is None else right[asked]
        confusion = _one_coin_of_likeliest(np.clip(each, 0.0, 1.0), names.n_classes)
        part, rows = _of_likeliest(part, rows)
    plan = plan_labels(
        part,
        rows,
        confusion,
        budget=chosen.plan_labels if asked.size else 0,
        per_worker=chosen.most_per_worker,
        per_task=_per_task(n_products, n_classes),
    )
    facts = {
        "n": plan.task.size,
        "n_tasks": np.unique(plan.task).size,
        "n_workers": np.unique(plan.worker).size,
        "gain": float(plan.gain.sum()),
        "workers_told_apart": told_apart,
        "n_considered": considered.size,
        "n_asked": asked.size,
        "complete": bool(asked.size) and _n_pairs(part) == asked.size * considered.size,
        "n_likeliest": LIKELIEST if many else None,
    }
    worker, task = names.workers[asked[plan.worker]], names.tasks[considered[plan.task]]
    columns = {"worker": worker.astype(str), "task": task.astype(str), "gain": plan.gain}
    return arrow_table(columns), facts


def considered_tasks(
    believed: Float[np.ndarray, "tasks classes"],
    uncertain: Int[np.ndarray, " uncertain"],
    confusion: Float[np.ndarray, "asked classes classes"],
    most: int,
) -> Int64[np.ndarray, " considered"]:
    """Return at most so many tasks to choose from: half of them by their gain for some worker.

    The others are the least certain. A worker who knows only some classes gains little from a task that may
    be of any class. Her best tasks are found by a predictive index, which judges all tasks for some workers
    and few for each of the others. Where all gain from the same tasks, the least certain fill the rest.
    """
    if uncertain.size <= most:
        return np.sort(uncertain)
    task = _worth_most(believed[uncertain], confusion)
    found, at = np.unique(task, return_index=True)
    worth = uncertain[found[np.argsort(at)][: most // 2]]
    rest = uncertain[~np.isin(uncertain, worth)]
    return np.sort(np.concatenate([worth, rest[: most - worth.size]]))


def _worth_most(
    believed: Float[np.ndarray, "tasks classes"],
    confusion: Float[np.ndarray, "asked classes classes"],
) -> Int64[np.ndarray, " found"]:
    """Return the task of largest gain found for each worker, then the second ones, and so on."""
    from learners import HyperplaneCover, PredictiveIndex  # scikit-learn, where it is asked for

    query = confusion.reshape(len(confusion), -1)
    index = PredictiveIndex(
        HyperplaneCover(N_PARTITIONS, random_state=0), scorer=_gain, top=LIST_LENGTH,
        list_length=LIST_LENGTH, random_state=0,
        max_queries=max(MIN_KNOWN, MAX_EVALUATIONS // len(believed)),
    )  # fmt: skip
    index.fit(believed, queries=query)
    k = min(LIST_LENGTH // 2, len(believed))
    budget = min(2 * LIST_LENGTH, len(believed))
    found = np.stack([index.query(one, k, budget).ids for one in query])
    return np.asarray(found.T.ravel(), dtype=np.int64)


def _gain(
    worker: Float[np.ndarray, " cells"], believed: Float[np.ndarray, "tasks classes"]
) -> Float64[np.ndarray, " tasks"]:
    """Return the information that a worker's answer has about each task's truth, in nats."""
    n_classes = believed.shape[1]
    confusion = worker.reshape(n_classes, n_classes)
    of_answer, of_truth = posterior_entropy(believed @ confusion), posterior_entropy(confusion)
    gain: np.ndarray = of_answer - believed @ of_truth
    return gain


def _of_likeliest(
    part: CrowdLabels, rows: Float[np.ndarray, "tasks classes"]
) -> tuple[CrowdLabels, Float64[np.ndarray, "tasks kinds"]]:
    """Return the labels and beliefs by each task's likeliest classes and one for all others.

    The plan reads who has labelled which task, not the labels themselves.
    """
    top = np.sort(np.partition(rows, -LIKELIEST, axis=1)[:, -LIKELIEST:], axis=1)[:, ::-1]
    kinds = np.column_stack([top, np.maximum(1.0 - top.sum(axis=1), 0.0)])
    kinds /= kinds.sum(axis=1, keepdims=True)
    first = np.zeros_like(part.label)
    return replace(part, label=first, classes=np.arange(LIKELIEST + 1)), kinds


def _one_coin_of_likeliest(
    right: Float64[np.ndarray, " asked"], n_classes: int
) -> Float64[np.ndarray, "asked kinds kinds"]:
    """Return P(answer | truth) of workers who err evenly, by the likeliest classes and all others as one.

    The information in an answer outside these classes is left out, so that a gain is slightly too low.
    """
    others, wrong = n_classes - LIKELIEST, (1.0 - right) / (n_classes - 1)
    found = np.tile(wrong[:, np.newaxis, np.newaxis], (1, LIKELIEST + 1, LIKELIEST + 1))
    found[:, :, -1] *= others
    place = np.arange(LIKELIEST)
    found[:, place, place] = right[:, np.newaxis]
    found[:, -1, -1] = 1.0 - LIKELIEST * wrong
    return found


def _asked(
    n_labels: Int[np.ndarray, " workers"], consensus: AnyConsensus, chosen: ReportSettings
) -> Int64[np.ndarray, " asked"]:
    """Return worker codes, in order: of those with labels enough, those who are right most often."""
    known = np.flatnonzero(n_labels >= max(1, min(MIN_LABELS, n_labels.max(initial=0))))
    if not chosen.plan_labels:
        return known[:0]
    right = _right(consensus)
    rank = -n_labels[known] if right is None else -right[known]
    return np.sort(known[np.argsort(rank, kind="stable")[:MAX_ASKED]])


def _right(consensus: AnyConsensus) -> Float64[np.ndarray, " workers"] | None:
    """Return how often each worker is right; None if the aggregator takes all workers as equal."""
    confusion = getattr(consensus, "confusion", None)
    if confusion is not None:
        prior = np.asarray(consensus.posterior).mean(axis=0)  # a table, as there are matrices
        right: np.ndarray = np.einsum("wkk,k->w", confusion, prior)
        return right
    if isinstance(consensus, OrdinalCrowd):
        return consensus.right_share()
    reliability: np.ndarray | None = getattr(consensus, "reliability", None)
    return reliability


def _confusion(
    consensus: AnyConsensus, asked: np.ndarray, n_classes: int
) -> Float64[np.ndarray, "asked classes classes"] | None:
    """Return P(label | truth) of those who may be asked; None if the aggregator takes workers as equal."""
    confusion: np.ndarray | None = getattr(consensus, "confusion", None)
    if confusion is not None:
        return np.ascontiguousarray(confusion[asked])
    if isinstance(consensus, OrdinalCrowd):
        return consensus.confusion_of(asked)
    reliability = getattr(consensus, "reliability", None)
    if reliability is None or n_classes < 2:
        return None
    return one_coin_confusion(reliability[asked], n_classes)


def _part(known: FewAtHand, tasks: np.ndarray, workers: np.ndarray) -> CrowdLabels:
    """Return the labels of these tasks by these workers, both in increasing order."""
    worker, task, label = known.of_tasks(tasks)
    rows = np.flatnonzero(np.isin(task, tasks) & np.isin(worker, workers))
    return CrowdLabels.from_codes(
        np.searchsorted(workers, worker[rows]),
        np.searchsorted(tasks, task[rows]),
        label[rows],
        workers=known.names.workers[workers],
        tasks=known.names.tasks[tasks],
        classes=known.names.classes,
    )


def _n_pairs(labels: CrowdLabels) -> int:
    """Count pairs of worker and task that have a label."""
    return np.unique(labels.worker.astype(np.int64) * labels.n_tasks + labels.task).size


def _per_task(n_products: int, n_classes: int) -> int:
    """Return how many labels can be planned for a task: each takes `classes` times the products before."""
    deep = 1
    while deep < MAX_PER_TASK and n_products * n_classes**deep <= MAX_JUDGEMENT:
        deep += 1
    return deep
