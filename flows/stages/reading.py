"""Reading: the tables of a campaign, checked, encoded and kept in the run folder."""

from __future__ import annotations

import numpy as np

from flows.run.crowd import Crowd, load_crowd, save_crowd
from flows.run.store import Run
from flows.settings.settings import Settings
from flows.tables.sources import Sources, open_sources
from flows.tables.tables import read_gold, read_labels, read_seconds, read_tasks, refuse_hollow

__all__ = ["CROWD", "load", "public_sizes", "read_and_check"]

CROWD = "crowd.npz"


def read_and_check(run: Run) -> str:
    """Read and check the tables; nothing is written before all of them are sound."""
    sources = open_sources(run.settings.input, run.folder)
    with sources.telling():
        crowd = _read(run.settings, sources)
    save_crowd(run.folder / CROWD, crowd)
    labels, counts, described = crowd.labels, public_sizes(crowd), list(sources.described)
    named = list(map(str, labels.classes))
    run.write_json(
        "inputs.json", {"name": run.settings.name, "classes": named, "files": described} | counts
    )
    return (
        f"{counts['n_labels']:,} labels of {counts['n_labelled_tasks']:,} tasks by "
        f"{counts['n_workers']:,} workers, {counts['n_classes']} classes"
    )


def _read(settings: Settings, sources: Sources) -> Crowd:
    """Every table, checked by itself and against the others."""
    inputs, classes = settings.input, settings.classes
    tasks = (
        read_tasks(
            [source.table for source in sources.tasks],
            settings.groups,
            standardize=inputs.standardize,
        )
        if sources.tasks
        else None
    )
    gold = None if sources.gold is None else read_gold(sources.gold.table, classes=classes)
    labels = read_labels(
        sources.labels.table,
        classes=classes,
        duplicates=inputs.duplicates,
        known_tasks=None if tasks is None else tasks.names,
    )
    refuse_hollow(labels, sources.labels.name)
    seconds = (
        read_seconds(sources.labels.table, inputs.seconds, labels, duplicates=inputs.duplicates)
        if inputs.seconds
        else None
    )
    return Crowd(labels, tasks, gold, seconds)


def load(run: Run) -> Crowd:
    """The campaign as it was read."""
    return load_crowd(run.folder / CROWD)


def public_sizes(crowd: Crowd) -> dict[str, int]:
    """Public sizes of a campaign."""
    labels, tasks = crowd.labels, crowd.tasks
    labelled = np.unique(crowd.label_group()).size
    return {
        "n_labels": labels.n_labels,
        "n_tasks": labels.n_tasks if tasks is None else tasks.names.size,
        "n_labelled_tasks": labels.n_tasks,
        "n_workers": labels.n_workers,
        "n_classes": labels.n_classes,
        "n_groups": int(labelled),
        "n_unlabelled_groups": int(crowd.group_names.size - labelled),
        "n_features": 0 if tasks is None else tasks.features.shape[1],
        "n_gold": int((crowd.gold_code() >= 0).sum()),
    }
