"""cleanlab's consensus of the shared crowds beside ours: how many gold tasks are right, and CPU seconds.

python -m benchmarks.peers.comparison_consensus
"""

from __future__ import annotations

import csv
import gzip
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.peers.peers import CLEANLAB
from benchmarks.publish import parser_of, publish
from benchmarks.quality.crowd_sets import DATA, SETS, read_set, right
from quality import CrowdLabels, dawid_skene, encode, majority_vote, next_labels

SIDE = "comparison_consensus_side.py"
LIMIT = 5  # CPU seconds of one of cleanlab's answers on one set
VOTES, FEATURES = "quality, votes", "quality, classifier"
THEIRS, OURS = ("majority vote", VOTES, FEATURES), ("majority_vote", "dawid_skene")
COMPARED = (0, 1, 3, 4)  # of both, what every set has
HEADER = ("set", *(f"cleanlab {rule}" for rule in THEIRS), *OURS, "cpu s, cleanlab", "cpu s, here",
          "MB, its table", "MB, ours")  # fmt: skip
NOTE = (
    "Per cent of gold tasks right, ties of ours in expectation; of a worker's repeated labels of a task "
    "the first is kept. cleanlab 2.9.0: `get_majority_vote_label`, and the consensus of "
    "`get_label_quality_multiannotator`, which needs a classifier's probabilities. Where the tasks have "
    "features (labelme, music, sentence_polarity) these are a logistic regression's, each task by the models "
    "of the other four fifths, taught by majority vote; elsewhere shares of votes, one vote a "
    "class added, stand in for a classifier, for which cleanlab was not made. "
    "Seconds of process CPU in one run, from "
    "coded labels, compilation left out: cleanlab's table, majority vote, quality by votes and "
    f"`get_active_learning_scores`, each cut off after {LIMIT} s; here `majority_vote`, `dawid_skene` and "
    "`next_labels`. Its table is of tasks by workers, ours of labels."
)


def main() -> None:
    parser_of(__doc__).parse_args()
    timed(encode([0, 1, 2] * 3, [0, 0, 0, 1, 1, 1, 2, 2, 2], list("abcaabbbc")))  # compiles
    crowds = {name: read_set(DATA / name) for name in SETS}
    found = {
        name: row(*crowds[name], reply) for name, reply in zip(SETS, theirs(crowds), strict=True)
    }
    rows = [
        (name, *map(shown, cells), *(f"{size:.2f}" for size in sizes))
        for name, (cells, sizes) in found.items()
    ]
    whole = [(c, s) for c, s in found.values() if all(isinstance(c[at], float) for at in COMPARED)]
    means = [
        f"{np.mean([cells[at] for cells, _ in whole]):.2f}" if at in COMPARED else ""
        for at in range(len(THEIRS) + len(OURS))
    ]
    totals = [
        f"{np.sum(column):.2f}" for column in zip(*(sizes for _, sizes in whole), strict=True)
    ]
    rows.append((f"mean and sum of the {len(whole)} that were not cut off", *means, *totals))
    title = "cleanlab's consensus beside ours, on the shared sets"
    publish("comparison_consensus", title, HEADER, rows, note=NOTE)


def row(
    labels: CrowdLabels, gold: np.ndarray, reply: dict[str, Any]
) -> tuple[list[float | str], list[float]]:
    """Per cent right of each rule on one set; seconds and megabytes of both sides."""
    known = np.flatnonzero(gold >= 0)
    cells: list[float | str] = []
    for rule in THEIRS:
        answer, _ = reply["answers"].get(rule, ("–", 0.0))
        if isinstance(answer, list):
            cells.append(100 * float(np.mean(np.array(answer)[known] == gold[known])))
        else:
            cells.append(answer or f"over {LIMIT} s")
    posteriors, seconds = timed(labels)
    cells += [right(posterior, gold) for posterior in posteriors]
    theirs_seconds = sum(reply["answers"][part][1] for part in ("majority vote", VOTES, "next"))
    ours_bytes = sum(
        getattr(labels, part).nbytes
        for part in ("worker", "task", "label", "task_start", "worker_order", "worker_start")
    )
    return cells, [theirs_seconds, seconds, reply["table"] / 1e6, ours_bytes / 1e6]


def timed(labels: CrowdLabels) -> tuple[list[np.ndarray], float]:
    """Our two rules' posteriors, and the seconds with the ranking of what to label next."""
    start = time.process_time()
    vote, fit = majority_vote(labels), dawid_skene(labels)
    next_labels(labels, fit.posterior)
    return [vote.posterior, fit.posterior], time.process_time() - start


def opinions(labels: CrowdLabels, folder: Path) -> dict[str, Float[np.ndarray, "tasks classes"]]:
    """What stands for a classifier: shares of votes; and where there are features, a model's."""
    votes = np.ones((labels.n_tasks, labels.n_classes))
    np.add.at(votes, (labels.task, labels.label), 1)
    found = {VOTES: votes / votes.sum(axis=1, keepdims=True)}
    if (path := folder / "features.csv.gz").exists():
        rows = list(csv.reader(gzip.decompress(path.read_bytes()).decode().splitlines()))[1:]
        features = {task: values for task, *values in rows}
        x = np.array([features[str(task)] for task in labels.tasks], dtype=float)
        model = make_pipeline(StandardScaler(), LogisticRegression(C=0.01, max_iter=500))
        folds = StratifiedKFold(5, shuffle=True, random_state=0)
        taught = majority_vote(labels).posterior.argmax(axis=1)
        found[FEATURES] = cross_val_predict(model, x, taught, cv=folds, method="predict_proba")
    return found


def theirs(crowds: dict[str, tuple[CrowdLabels, np.ndarray]]) -> list[dict[str, Any]]:
    """What cleanlab answers on integer codes, set by set."""
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for name, (labels, _) in crowds.items():
            given = opinions(labels, DATA / name)
            codes = {part: getattr(labels, part) for part in ("worker", "task", "label")}
            paths.append(str(Path(folder) / f"{name}.npz"))
            np.savez(paths[-1], names=list(given), opinions=list(given.values()), **codes)
        reply = CLEANLAB.run(SIDE, str(LIMIT), *paths)
    if reply is None:
        raise SystemExit("cleanlab cannot be installed here: no page is written")
    answers: list[dict[str, Any]] = json.loads(reply)
    return answers


def shown(cell: float | str) -> str:
    return cell if isinstance(cell, str) else f"{cell:.1f}"


if __name__ == "__main__":
    main()
