"""Kinds of workers and strata of tasks, if there are any, with the evidence for their number.

Workers are compared by what they answer to each class, tasks by their features; cells are those of
`learners.PairwiseRiskClustering`, and the gap statistic says how many there are, 1 for none. Nobody is
removed or weighed by them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float, Int

from flows.run import Crowd, Run
from flows.stages.stage import counted
from flows.tables import arrow_table
from quality import CrowdLabels
from quality.aggregation import confusion_under

__all__ = ["MIN_LABELS", "find_structure", "worker_rows"]

MIN_LABELS = 20  # of a worker: of fewer, her rows are those of the crowd
MIN_WORKERS, MIN_TASKS = 20, 100
MAX_CLASSES = 12  # the rows have their square
MOST = 6  # cells that are tried


def find_structure(
    run: Run,
    crowd: Crowd,
    labels: CrowdLabels | None,
    posterior: Float[np.ndarray, "tasks classes"],
    confidence: Float[np.ndarray, " tasks"],
) -> dict[str, Any]:
    """Look for kinds of workers, removed ones too, and strata of tasks; write who belongs where.

    `labels` is the whole table, None where it is in shards; `posterior` and `confidence` are those of its
    consensus.
    """
    if labels is None or not labels.n_labels:
        why = "the labels are in shards"
        return {"workers": {"why_not": why}, "tasks": {"why_not": why}}
    return {
        "workers": _kinds_of_workers(run, labels, posterior),
        "tasks": _strata(run, crowd, labels, posterior, confidence),
    }


def worker_rows(
    labels: CrowdLabels, posterior: Float[np.ndarray, "tasks classes"]
) -> Float[np.ndarray, "workers cells"]:
    """Return rows whose squared distance is the squared Hellinger distance of two workers' answers.

    Joint with the truth, in [0, 1]: the mean over the truth classes as often as they occur.
    """
    confusion, share = confusion_under(labels, posterior), posterior.mean(axis=0)
    joint = np.sqrt(confusion * share[:, np.newaxis] / 2.0)
    return np.asarray(joint.reshape(labels.n_workers, -1))


def _kinds_of_workers(
    run: Run, labels: CrowdLabels, posterior: Float[np.ndarray, "tasks classes"]
) -> dict[str, Any]:
    """Return the archetypes of the workers with labels enough, each with its description.

    The table counts them from 1, as the report does.
    """
    n_given = np.diff(labels.worker_start)
    judged = np.flatnonzero(n_given >= MIN_LABELS)
    if len(judged) < MIN_WORKERS:
        many = f"{counted(len(judged), 'worker')} gave {MIN_LABELS} labels or more"
        return {"why_not": f"{many}; {MIN_WORKERS} are asked for"}
    if labels.n_classes > MAX_CLASSES:
        return {"why_not": f"there are more than {MAX_CLASSES} classes"}
    found, cell = _cells(worker_rows(labels, posterior)[judged], run.settings.seed)
    given = np.zeros((labels.n_workers, labels.n_classes))
    np.add.at(given, (labels.worker, labels.label), 1.0)
    believed = posterior[labels.task, labels.label]
    right = np.bincount(labels.worker, believed, labels.n_workers)[judged] / n_given[judged]
    share, whole = given[judged] / n_given[judged, np.newaxis], given.sum(axis=0) / given.sum()
    cells = []
    for code in range(found["n_clusters"]):
        own = cell == code
        answers = share[own].mean(axis=0)
        most = int(np.argmax(answers - whole))
        cells.append(
            {
                "n": int(own.sum()),
                "right": float(right[own].mean()),
                "n_labels": float(n_given[judged[own]].mean()),
                "class": str(labels.classes[most]),
                "share": float(answers[most]),
                "share_of_all": float(whole[most]),
            }
        )
    columns = {"worker": labels.workers[judged].astype(str), "archetype": cell + 1, "right": right}
    run.write_table("archetypes.parquet", arrow_table(columns))
    return {"why_not": None, "n": len(judged), **found, "cells": cells}


def _strata(
    run: Run,
    crowd: Crowd,
    labels: CrowdLabels,
    posterior: Float[np.ndarray, "tasks classes"],
    confidence: Float[np.ndarray, " tasks"],
) -> dict[str, Any]:
    """Return the strata of the labelled tasks by their features, and how the crowd does on each."""
    if crowd.tasks is None or not crowd.tasks.feature_names:
        return {"why_not": "the tasks have no features"}
    if labels.n_tasks < MIN_TASKS:
        return {"why_not": f"fewer than {MIN_TASKS} tasks have labels"}
    rows = crowd.label_features()
    spread = rows.std(axis=0)
    rows = (rows - rows.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    found, cell = _cells(rows / np.sqrt(rows.shape[1]), run.settings.seed)
    counts, label = labels.counts(), posterior.argmax(axis=1)
    conflict = np.count_nonzero(counts, axis=1) > 1
    cells = []
    for code in range(found["n_clusters"]):
        own = cell == code
        classes = np.bincount(label[own], minlength=labels.n_classes)
        cells.append(
            {
                "n": int(own.sum()),
                "confidence": float(confidence[own].mean()),
                "conflict": float(conflict[own].mean()),
                "class": str(labels.classes[classes.argmax()]),
                "share": float(classes.max() / classes.sum()),
            }
        )
    run.write_table(
        "strata.parquet", arrow_table({"task": labels.tasks.astype(str), "stratum": cell + 1})
    )
    return {"why_not": None, "n": labels.n_tasks, **found, "cells": cells}


def _cells(
    rows: Float[np.ndarray, "points columns"], seed: int
) -> tuple[dict[str, Any], Int[np.ndarray, " points"]]:
    """Return the evidence for each number of cells, the chosen one's risk, and the cell of each point."""
    from learners import PairwiseRiskClustering  # scikit-learn, where structure is asked for alone

    fitted = PairwiseRiskClustering("auto", k_max=MOST, random_state=seed).fit(rows)
    table = [
        {"n_clusters": row.n_clusters, "risk": row.risk, "gap": row.gap, "error": row.gap_error}
        for row in fitted.selection_table_
    ]
    low, high = (float(end) for end in fitted.risk_interval_)
    facts = {
        "n_clusters": int(fitted.n_clusters_),
        "risk": float(fitted.risk_),
        "risk_interval": [low, high],
        "evidence": table,
    }
    return facts, np.asarray(fitted.labels_, dtype=np.int64)
