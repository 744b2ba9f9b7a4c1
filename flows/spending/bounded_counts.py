"""Counts with a bound: at most so many tasks of a subject count, or so many classes of a task.

Where the unit is a subject, whose tasks are whose decides which of them count, and binds them to people.
Where several classes may hold at once, the likeliest of each task count.
"""

from __future__ import annotations

import hashlib

import numpy as np
import pyarrow.compute as pc
from jaxtyping import Bool, Float, Int

from flows.run import Crowd, Run
from flows.settings import PrivacySettings, Settings
from flows.tables import arrow_array, numpy_array
from privacy import Query, bounded_labels, bounded_tasks, label_set_counts, subject_counts

__all__ = [
    "SET_THRESHOLD", "counted_tasks", "dealt_names", "digest_key", "set_queries", "subject_queries",
]  # fmt: skip

SET_THRESHOLD = 0.5  # a class of several holds where its probability is above this


def counted_tasks(crowd: Crowd, settings: Settings) -> Bool[np.ndarray, " tasks"]:
    """Return which labelled tasks count: all, or at most so many of each subject.

    The order in which a subject's tasks count is fixed by the seed of the settings and the tasks' names.
    """
    whose, privacy = crowd.label_subject(), settings.privacy
    if whose is None or privacy is None or privacy.max_tasks_per_subject is None:
        return np.ones(crowd.labels.n_tasks, dtype=np.bool_)
    _, subject = np.unique(whose, return_inverse=True)
    return bounded_tasks(
        subject, tasks=crowd.labels.tasks, max_tasks=privacy.max_tasks_per_subject,
        key=digest_key(f"subjects {settings.seed}"),
    )  # fmt: skip


def digest_key(text: str) -> bytes:
    """Return a text as the key of digests, of which no key is longer than 64 bytes; a seed may be."""
    key = text.encode()
    return key if len(key) <= hashlib.blake2b.MAX_KEY_SIZE else hashlib.blake2b(key).digest()


def dealt_names(crowd: Crowd) -> np.ndarray:
    """Return the names by which labelled tasks are dealt: their subjects', so that a subject stays whole."""
    whose = crowd.label_subject()
    names: np.ndarray = crowd.labels.tasks if whose is None else whose
    return names


def subject_queries(
    label: Int[np.ndarray, " tasks"], crowd: Crowd, settings: Settings, privacy: PrivacySettings
) -> tuple[tuple[Query, ...], tuple[str, ...], Int[np.ndarray, " groups"]]:
    """Return the class counts of tasks that count, and names and sizes of the groups large enough."""
    names, group = crowd.labelled_groups()
    counted = counted_tasks(crowd, settings)
    size = np.bincount(group[counted], minlength=names.size)
    published = np.flatnonzero(size >= privacy.min_group_size)
    counted &= np.isin(group, published)
    people, subject = np.unique(dealt_names(crowd)[counted], return_inverse=True)
    groups = tuple(names[published].tolist())
    queries: tuple[Query, ...] = ()
    if groups:
        queries = subject_counts(
            label[counted], np.searchsorted(published, group[counted]), subject,
            dataset=settings.name, n_classes=crowd.labels.n_classes, group_names=groups,
            subject_names=people, tasks=crowd.labels.tasks[counted],
            max_tasks=privacy.max_tasks_per_subject or 1,
        )  # fmt: skip
    return queries, groups, size[published]


def set_queries(
    run: Run, crowd: Crowd, privacy: PrivacySettings
) -> tuple[tuple[Query, ...], tuple[str, ...], Int[np.ndarray, " groups"], int]:
    """Return the counts of classes of the groups large enough, names and sizes; and how many do not count.

    The last number is of classes beyond `privacy.max_labels` of a task, over all tasks, and private.
    """
    most = privacy.max_labels or 1
    probability = _set_probability(run, crowd)
    chosen = bounded_labels(probability, threshold=SET_THRESHOLD, max_labels=most)
    names, group = crowd.labelled_groups()
    size = np.bincount(group, minlength=names.size)
    large = size >= privacy.min_group_size
    queries = label_set_counts(
        chosen, group, dataset=run.settings.name, group_names=names.tolist(), max_labels=most,
        unit=privacy.unit, local=run.settings.consensus_is_local, tasks=crowd.labels.tasks,
    )  # fmt: skip
    published = tuple(query for query, one in zip(queries, large.tolist(), strict=True) if one)
    n_left_out = int((probability > SET_THRESHOLD).sum() - chosen.sum())
    return published, tuple(names[large].tolist()), size[large], n_left_out


def _set_probability(run: Run, crowd: Crowd) -> Float[np.ndarray, "tasks classes"]:
    """Return the probability of every class of every task by the consensus, 0 where nobody gave it."""
    cells = run.read_table("class_cells.parquet", ["task", "class", "probability"])
    task, label = (
        numpy_array(pc.index_in(cells.column(name), value_set=arrow_array(names.astype(str))))
        for name, names in (("task", crowd.labels.tasks), ("class", crowd.labels.classes))
    )
    found = np.zeros((crowd.labels.n_tasks, crowd.labels.n_classes))
    found[task, label] = numpy_array(cells.column("probability"))
    return found
