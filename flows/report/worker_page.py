"""One worker's page: whom she takes for what, over the runs, on gold, and her labels in dispute.

The quality score of a label is the probability that it is right: the confidence of the consensus label,
and for another class its share of the rest.

>>> write_worker_page(Path("runs/20261121T094500Z-web"), "worker 7f3a")  # doctest: +SKIP
PosixPath('runs/20261121T094500Z-web/worker-7f3a.html')
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
from jaxtyping import Float, Int

from flows.files import write_whole
from flows.report.html import render_template
from flows.report.rows import pseudonyms
from flows.run import MANIFEST, PARTIAL, Crowd, load_crowd, refuse_unfinished
from flows.tables import TableError, numpy_array, read_json, read_parquet

__all__ = ["label_quality", "worker_facts", "write_worker_page"]

SHOWN_LABELS = 40
SHOWN_RUNS = 24
NEEDED = ("crowd.npz", "workers.parquet", "consensus.parquet", "inputs.json", "manifest.json")


def write_worker_page(folder: Path, worker: str, *, show_worker_ids: bool = False) -> Path:
    """Write the page of one worker into a run folder, and return its path.

    Parameters
    ----------
    folder
        The folder of a finished run.
    worker
        Her id, or her pseudonym in the run's report.
    show_worker_ids
        Call her by her id instead of her pseudonym.

    Raises
    ------
    FileNotFoundError
        If `folder` is not that of a finished run.
    TableError
        If nobody has that name, or if the run's labels are in shards or are sets of classes.

    Notes
    -----
    **Guarantees.** The page refers to nothing outside itself; it is about a person, and internal.
    """
    refuse_unfinished(folder, *NEEDED)
    names = pseudonyms(read_parquet(folder / "workers.parquet", ["worker"])["worker"].to_pylist())
    own = {called: name for name, called in names.items()}
    name = worker if worker in names else own.get(worker)
    if name is None:
        raise TableError(
            f"{worker!r} must be a worker of {folder.name}, by id or as the report calls her"
        )
    facts = worker_facts(folder, name)
    page = {"called": name if show_worker_ids else names[name], **facts}
    path = folder / f"{names[name].replace(' ', '-')}.html"
    text = render_template("worker.html.j2", page)
    write_whole(path, partial(Path.write_text, data=text, encoding="utf-8"))
    return path


def worker_facts(folder: Path, worker: str) -> dict[str, Any]:
    """Return the contents of the page of a finished run's worker, by her id."""
    crowd = load_crowd(folder)
    labels = crowd.labels
    if crowd.answers is not None:
        raise TableError(
            f"{folder.name} is of several classes at once, and has no page of a single worker; "
            "workers.parquet has a row for each"
        )
    if not labels.n_labels:
        raise TableError(f"{folder.name} has its labels in shards, and no page of a single worker")
    code = int(np.searchsorted(labels.workers.astype(str), worker))
    rows = labels.worker_order[labels.worker_start[code] : labels.worker_start[code + 1]]
    task, given = labels.task[rows], labels.label[rows].astype(np.int64)
    believed = _believed(folder, crowd)
    quality, agreed = believed.quality()[task], believed.label[task]
    score, gold = quality[np.arange(len(rows)), given], crowd.gold_code()[task]
    table = read_parquet(folder / "workers.parquet")
    own = table.filter(pc.equal(table["worker"], worker)).to_pylist()[0]
    classes = [str(name) for name in labels.classes]
    return {
        "name": read_json(folder / "inputs.json")["name"],
        "worker": own,
        "classes": classes,
        "confusion_by_consensus": _confusion(agreed, given, len(classes)),
        "gold_confusion": _confusion(gold[gold >= 0], given[gold >= 0], len(classes)),
        "n_gold": int((gold >= 0).sum()),
        "n_disputed": int((given != agreed).sum()),
        "mean_score": float(score.mean()) if len(rows) else None,
        "disputed": [
            {
                "task": str(labels.tasks[task[at]]),
                "given": classes[given[at]],
                "consensus": classes[agreed[at]],
                "score": float(score[at]),
                "gold": None if gold[at] < 0 else classes[gold[at]],
            }
            for at in np.lexsort((task, score))
            if given[at] != agreed[at]
        ][:SHOWN_LABELS],
        "runs": _runs(folder, worker),
    }


@dataclass(frozen=True, slots=True, eq=False)
class _Believed:
    """The run's consensus on each labelled task: its label, how sure it is, and the model's posterior."""

    label: Int[np.ndarray, " tasks"]
    sure: Float[np.ndarray, " tasks"]
    posterior: Float[np.ndarray, "tasks classes"]

    def quality(self) -> Float[np.ndarray, "tasks classes"]:
        """Return the probability that each class is right; another may be likelier than the label."""
        at = np.arange(len(self.label))
        found = self.posterior.copy()
        # without a confidence, as where all workers are models, the posterior stands
        sure = np.where(np.isfinite(self.sure), self.sure, found[at, self.label])
        found[at, self.label] = 0.0
        rest = found.sum(axis=1, keepdims=True)
        others = np.full_like(found, 1 / max(found.shape[1] - 1, 1))
        np.divide(found, rest, out=others, where=rest > 0)
        quality: np.ndarray = others * (1 - sure)[:, None]
        quality[at, self.label] = sure
        return quality


def label_quality(folder: Path, crowd: Crowd) -> Float[np.ndarray, "tasks classes"]:
    """Return the probability that each class is right on each labelled task, by the run's consensus.

    The consensus label has its confidence; the others share the rest as the model's posterior does.
    """
    return _believed(folder, crowd).quality()


def _believed(folder: Path, crowd: Crowd) -> _Believed:
    """Return the run's consensus, tasks in the order of the crowd's."""
    columns = ["task", "label", "confidence", "posterior"]
    whole = read_parquet(folder / "consensus.parquet")
    if "named" in whole.column_names:
        raise TableError(
            f"{folder.name} has {crowd.labels.n_classes:,} classes, too many for the page of a single "
            "worker; workers.parquet has a row for each"
        )
    table = whole.select(columns)
    names, classes = crowd.labels.tasks.astype(str), crowd.labels.classes.astype(str)
    order = np.argsort(np.array(table["task"].to_pylist(), dtype=np.str_))
    if len(order) != len(names):
        raise TableError("consensus.parquet must have a row for each labelled task")
    label = np.array(table["label"].to_pylist(), dtype=np.str_)[order]
    sure = numpy_array(pc.fill_null(table["confidence"], math.nan)).astype(np.float64)[order]
    posterior = np.array(table["posterior"].to_pylist(), dtype=np.float64)[order]
    return _Believed(np.argmax(label[:, None] == classes, axis=1), sure, posterior)


def _confusion(
    truth: Int[np.ndarray, " labels"], given: Int[np.ndarray, " labels"], n_classes: int
) -> list[list[int]]:
    """Count her labels by the gold or consensus label of their tasks."""
    cell = truth.astype(np.int64) * n_classes + given
    counts: list[list[int]] = (
        np.bincount(cell, minlength=n_classes**2).reshape(n_classes, -1).tolist()
    )
    return counts


def _runs(folder: Path, worker: str) -> list[dict[str, Any]]:
    """Return her row in each of the campaign's complete runs up to this one, oldest first."""
    own = read_json(folder / MANIFEST)
    columns = [
        "worker", "n_labels", "agreement", "reputation", "gold_n", "gold_correct", "flagged",
    ]  # fmt: skip
    found = []
    for other in sorted(folder.resolve().parent.iterdir()):
        needed = all((other / name).is_file() for name in (MANIFEST, "workers.parquet"))
        if not needed or other.name.startswith(PARTIAL):
            continue
        manifest = read_json(other / MANIFEST)
        started = manifest.get("started")  # without one it is the manifest of something else
        if manifest.get("name") != own["name"] or started is None or started > own["started"]:
            continue
        table = read_parquet(other / "workers.parquet", columns)
        rows = table.filter(pc.equal(table["worker"], worker)).to_pylist()
        found += [row | {"started": started} for row in rows]
    return sorted(found, key=lambda row: row["started"])[-SHOWN_RUNS:]
