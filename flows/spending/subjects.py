"""Whose tasks are whose, where the unit is a subject: which tasks count, and what binds them to people."""

from __future__ import annotations

import hashlib
import json

import numpy as np
from jaxtyping import Bool, Float64, Int

from flows.run import Crowd
from flows.settings import PrivacySettings, Settings
from privacy import Query, bounded_tasks, subject_counts

__all__ = ["binding_names", "counted_tasks", "dealt_names", "drawn_by_name", "subject_queries"]


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
        key=f"subjects {settings.seed}".encode(),
    )  # fmt: skip


def dealt_names(crowd: Crowd) -> np.ndarray:
    """Return the names by which labelled tasks are dealt: their subjects', so that a subject stays whole."""
    whose = crowd.label_subject()
    names: np.ndarray = crowd.labels.tasks if whose is None else whose
    return names


_DRAWN: dict[bytes, np.ndarray] = {}  # the last alone: three stages deal the same tasks


def drawn_by_name(tasks: np.ndarray, salt: bytes) -> Float64[np.ndarray, " tasks"]:
    """Return a number in [0, 1) for each name, by its hash."""
    names = [str(name).encode() for name in tasks.tolist()]
    key = hashlib.blake2b(b"\0".join([*names, b""]), key=salt).digest()
    if key not in _DRAWN:
        digests = [hashlib.blake2b(name, key=salt, digest_size=8).digest() for name in names]
        _DRAWN.clear()
        _DRAWN[key] = np.frombuffer(b"".join(digests), dtype=">u8") / 2.0**64
    return _DRAWN[key]


def binding_names(crowd: Crowd) -> np.ndarray:
    """Return the names that bind a partition to labelled tasks, and to whose they are."""
    whose = crowd.label_subject()
    if whose is None:
        return np.asarray(crowd.labels.tasks)
    pairs = zip(crowd.labels.tasks.tolist(), whose.tolist(), strict=True)
    return np.array([json.dumps(pair) for pair in pairs], dtype=np.str_)


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
